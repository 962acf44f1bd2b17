// Sum, product, mean, variance, extremes, any and all: what each takes from the driver's accumulators.
#include "interp/cpu/reduce.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "interp/kernel.h"

namespace tessera::cpu {

namespace {

template <class T>
void StoreAs(double value, void* y, int64_t i) {
  static_cast<T*>(y)[i] = static_cast<T>(value);
}

void StoreFloat(DType compute, double value, void* y, int64_t i) {
  compute == DType::f64 ? StoreAs<double>(value, y, i) : StoreAs<float>(value, y, i);
}

void FinishSum(const Reduction& red, const AccView& acc, const void*, int64_t n, void* y) {
  if (!IsFloat(red.compute)) {
    std::memcpy(y, acc.data, static_cast<size_t>(n) * sizeof(int64_t));
    return;
  }
  for (int64_t i = 0; i < n; ++i) StoreFloat(red.compute, acc.Value(0, i, red.compute), y, i);
}

void FinishMean(const Reduction& red, const AccView& acc, const void*, int64_t n, void* y) {
  MeanParam(red, acc, n, y);
}

// Two passes: the squares are of distances from the mean as rounded to the element type; the sum of the distances,
// which is not quite 0, makes up for that rounding.
void FinishVar(const Reduction& red, const AccView& acc, const void*, int64_t n, void* y) {
  const double count = static_cast<double>(red.count);
  const double divisor = std::max(count - red.correction, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    const double s = acc.component<double>(0)[i];
    const double squares = acc.Value(1, i, red.compute);
    const double about_mean = squares - s * s / count;
    StoreFloat(red.compute, (about_mean < 0 ? 0 : about_mean) / divisor, y, i);
  }
}

void FinishCopy(const Reduction& red, const AccView& acc, const void*, int64_t n, void* y) {
  std::memcpy(y, acc.data, static_cast<size_t>(n) * SizeOf(red.result));
}

absl::Status Reduce(const interp::KernelArgs& args, Reduction red) {
  const View& x = *args.in[0];
  TSR_ASSIGN_OR_RETURN(const uint32_t axes, ir::CanonicalAxes(args.ints(0), x.rank));
  return RunReduction(x, axes, red, *args.out[0]);
}

DType SumDType(const interp::KernelArgs& args) {
  const DType compute = ComputeDType(args.in[0]->dtype);
  return IsFloat(compute) ? compute : DType::i64;
}

absl::Status Extreme(const interp::KernelArgs& args, Prim prim) {
  // With the output empty there is nothing to do; without an element there is no answer. Shape inference says so for
  // dims that it knows.
  const View& x = *args.in[0];
  if (x.size() == 0 && args.out[0]->size() > 0)
    return InvalidArgument("no elements to choose from in ", ToString(static_cast<const TensorType&>(x)));
  return Reduce(args, {.prim = prim, .finish = FinishCopy, .result = ComputeDType(x.dtype)});
}

}  // namespace

void MeanParam(const Reduction& red, const AccView& acc, int64_t n, void* param) {
  const double count = static_cast<double>(red.count);
  for (int64_t i = 0; i < n; ++i) StoreFloat(red.compute, acc.Value(0, i, red.compute) / count, param, i);
}

absl::Status k_sum(const interp::KernelArgs& args) {
  return Reduce(args, {.prim = Prim::sum, .finish = FinishSum, .result = SumDType(args)});
}

absl::Status k_prod(const interp::KernelArgs& args) {
  return Reduce(args, {.prim = Prim::prod, .finish = FinishSum, .result = SumDType(args)});
}

absl::Status k_mean(const interp::KernelArgs& args) {
  return Reduce(args, {.prim = Prim::sum, .finish = FinishMean, .result = SumDType(args)});
}

absl::Status k_var(const interp::KernelArgs& args) {
  return Reduce(args, {.prim = Prim::sum,
                       .param = MeanParam,
                       .second = Prim::dev,
                       .finish = FinishVar,
                       .result = SumDType(args),
                       .correction = args.number(2)});
}

absl::Status k_max(const interp::KernelArgs& args) { return Extreme(args, Prim::max); }
absl::Status k_min(const interp::KernelArgs& args) { return Extreme(args, Prim::min); }

absl::Status k_any(const interp::KernelArgs& args) {
  return Reduce(args, {.prim = Prim::any, .finish = FinishCopy, .result = DType::boolean});
}

absl::Status k_all(const interp::KernelArgs& args) {
  return Reduce(args, {.prim = Prim::all, .finish = FinishCopy, .result = DType::boolean});
}

}  // namespace tessera::cpu
