// The leaf loops of reductions, compiled once per instruction set: what reduce.cc calls on contiguous rows and columns.
#ifndef TESSERA_INTERP_CPU_REDUCE_ISA_H_
#define TESSERA_INTERP_CPU_REDUCE_ISA_H_

#include <stdint.h>

#include "interp/cpu/isa.h"

namespace tessera::cpu {

/// What is accumulated. `dev` takes a parameter m for each output and accumulates x - m and (x - m)^2; `sumexp`
/// accumulates exp(x - m).
enum class Prim : uint8_t { sum, prod, max, min, any, all, dev, sumexp, argmax, argmin };
inline constexpr int kNumPrims = 10;

/// The element types of the loops: bool is u8, narrow floats are converted to f32 before.
enum class LoopType : uint8_t { f64, f32, i64, i32, i8, u8 };
inline constexpr int kNumLoopTypes = 6;

/// A row longer than this is reduced in blocks of this many elements, whose results are combined in order. Callers
/// that cut a row themselves cut at multiples of it.
inline constexpr int64_t kReduceBlock = 4096;
/// Columns are added in groups of this many rows; callers cut at multiples of it. No more, because rows are often a
/// power of two apart and then share the few places of one cache set.
inline constexpr int64_t kReduceRowGroup = 2;

/// One primitive on one element type. Accumulators are `components` arrays of elements of `acc_bytes`, `acc_stride`
/// elements apart. All functions but init add to what is there.
///
///            f32, f64                             integers and bool
///   sum      double; f64 has a second: what        int64, wrapping
///            rounding lost
///   prod     as sum                                int64, wrapping
///   max min  the element type                      the element type
///   any all  uint8, 0 or 1                         uint8, 0 or 1
///   dev      double: sum of x - m, sum of squares, -
///            and for f64 what rounding lost of it
///   sumexp   as sum                                -
///   argmax   double value, int64 index (-1: none)  int64 value, int64 index
struct ReduceLoop {
  int8_t components;
  int8_t acc_bytes;
  void (*init)(void* acc, int64_t acc_stride, int64_t n);
  /// Row r of n elements starts at x + r * row_stride; its elements have the indices first, first + 1, ...; its
  /// parameter is param[r] and its accumulator number r.
  void (*rows)(const void* x, int64_t row_stride, int64_t nrows, int64_t n, int64_t first, const void* param, void* acc,
               int64_t acc_stride);
  /// Column c is x[r * row_stride + c] for r in [0, nrows), with the indices first + r.
  void (*cols)(const void* x, int64_t row_stride, int64_t nrows, int64_t ncols, int64_t first, const void* param,
               void* acc, int64_t acc_stride);
  /// Adds n accumulators of later elements.
  void (*combine)(void* acc, int64_t acc_stride, const void* later, int64_t later_stride, int64_t n);
};

struct ReduceLoops {
  ReduceLoop loops[kNumPrims][kNumLoopTypes];
};

/// Running sums of n elements, floats in f64 with what rounding lost kept in `lost`, integers wrapping. `carry` and
/// `lost` are of one element for a row and of n for a column step; carry is double for floats, int64 for integers.
struct ScanLoop {
  /// y[i] = carry + x[0] + ... + x[i] (without x[i] if exclusive), from the end if reverse.
  void (*row)(const void* x, void* y, int64_t n, bool exclusive, bool reverse, void* carry, double* lost);
  /// carry[c] += x[c]; y[c] = carry[c] before or after that.
  void (*step)(const void* x, void* y, int64_t n, bool exclusive, void* carry, double* lost);
};
struct ScanLoops {
  ScanLoop loops[kNumLoopTypes];
};

TSR_DECLARE_ISA(ReduceLoops, kReduceLoops);
TSR_DECLARE_ISA(ScanLoops, kScanLoops);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_REDUCE_ISA_H_
