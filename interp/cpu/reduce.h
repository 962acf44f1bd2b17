// The driver of all reductions: walks any view over any axes, cuts the work for threads, and feeds the leaf loops of
// reduce_isa.h.
#ifndef TESSERA_INTERP_CPU_REDUCE_H_
#define TESSERA_INTERP_CPU_REDUCE_H_

#include <cstdint>

#include "interp/cpu/convert.h"
#include "interp/cpu/reduce_isa.h"
#include "runtime/status.h"
#include "runtime/tensor.h"

namespace tessera::cpu {

/// The loop type of a compute dtype (f32 for narrow floats: convert first).
constexpr LoopType LoopTypeOf(DType t) {
  switch (t) {
    case DType::f64: return LoopType::f64;
    case DType::i64: return LoopType::i64;
    case DType::i32: return LoopType::i32;
    case DType::i8: return LoopType::i8;
    case DType::u8:
    case DType::boolean: return LoopType::u8;
    default: return LoopType::f32;
  }
}

const ReduceLoop& FindLoop(Prim prim, DType compute);

/// Accumulators of n outputs, as reduce_isa.h lays them out.
struct AccView {
  const void* data;
  int64_t stride;
  template <class A>
  const A* component(int k) const {
    return static_cast<const A*>(data) + k * stride;
  }
  /// Sum or product i in f64, whatever the float type.
  double Value(int k, int64_t i, DType compute) const {
    const double s = component<double>(k)[i];
    return compute == DType::f64 && s - s == 0 ? s + component<double>(k + 1)[i] : s;
  }
};

/// One reduction: a pass of `prim` over the data, or two with a parameter for each output in between.
struct Reduction {
  Prim prim;
  /// Computes the parameters (of the compute dtype) of the second pass from the first; null: there is no second pass.
  void (*param)(const Reduction& red, const AccView& acc, int64_t n, void* param) = nullptr;
  Prim second = Prim::sum;
  /// Writes n results of dtype `result` from the accumulators of the last pass. `param` is null without a second pass.
  void (*finish)(const Reduction& red, const AccView& acc, const void* param, int64_t n, void* y);
  /// Of what finish writes; converted to the output's dtype where that differs.
  DType result = DType::f32;

  // For param and finish.
  double correction = 0;
  // Set by RunReduction.
  DType compute = DType::f32;
  int64_t count = 0;
};

/// Reduces x over the axes in the mask into the contiguous `out`, whose elements are the kept dims in order. The order
/// of additions depends on dims and strides only.
absl::Status RunReduction(const View& x, uint32_t axes, Reduction red, const View& out);

/// One contiguous row of n elements of a compute dtype, cut over the threads: accumulator k is acc[k], of
/// ReduceLoop::acc_bytes bytes at the start of which. acc has room for three.
void ReduceRow(Prim prim, DType compute, const void* x, int64_t n, const void* param, double* acc);

// Parts of reductions that more than one op uses.
void MeanParam(const Reduction& red, const AccView& acc, int64_t n, void* param);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_REDUCE_H_
