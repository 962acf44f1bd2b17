// Tensors in many layouts, and running one kernel with checked, poisoned outputs, for tests of kernels that work along
// axes.
#ifndef TESSERA_TESTS_UNIT_CPU_ROWS_TESTING_H_
#define TESSERA_TESTS_UNIT_CPU_ROWS_TESTING_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "interp/cpu/convert.h"
#include "interp/kernel.h"
#include "ir/op.h"
#include "runtime/tensor.h"

namespace tessera::rows_testing {

using Dims = std::vector<int64_t>;

enum class Layout { contiguous, spaced, flipped, transposed, repeated };
inline constexpr Layout kLayouts[] = {Layout::contiguous, Layout::spaced, Layout::flipped, Layout::transposed,
                                      Layout::repeated};

/// A tensor with memory of its own. `repeated` has stride 0 in its first dim.
struct Tensor {
  View v;
  std::vector<char> memory;

  Tensor(DType dtype, const Dims& dims, Layout layout = Layout::contiguous) {
    v.dtype = dtype;
    v.rank = static_cast<uint8_t>(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) v.dims[i] = dims[i];
    int64_t stride = layout == Layout::spaced ? 3 : 1, first = 0, span = 1;
    for (int i = 0; i < v.rank; ++i) {
      const int d = layout == Layout::transposed ? i : v.rank - 1 - i;
      v.strides[d] = stride;
      stride *= v.dims[d] > 0 ? v.dims[d] : 1;
      if (layout == Layout::spaced) stride += 5;
    }
    span = stride;
    if (layout == Layout::repeated && v.rank > 0) v.strides[0] = 0;
    if (layout == Layout::flipped) {
      for (int i = 0; i < v.rank; ++i) {
        first += (v.dims[i] > 0 ? v.dims[i] - 1 : 0) * v.strides[i];
        v.strides[i] = -v.strides[i];
      }
    }
    memory.assign(static_cast<size_t>(span + 8) * SizeOf(dtype), 0x5a);
    v.data = memory.data() + static_cast<size_t>(first) * SizeOf(dtype);
  }
  Tensor(const Tensor&) = delete;
  Tensor(Tensor&&) = default;

  int64_t size() const { return v.size(); }
  char* At(int64_t i) const {
    int64_t offset = 0;
    for (int d = v.rank - 1; d >= 0; --d) {
      offset += i % v.dims[d] * v.strides[d];
      i /= v.dims[d];
    }
    return v.as<char>() + offset * static_cast<int64_t>(SizeOf(v.dtype));
  }
  double Get(int64_t i) const { return cpu::ToDouble(At(i), v.dtype); }
  int64_t GetInt(int64_t i) const { return cpu::ToInt64(At(i), v.dtype); }
  void Set(int64_t i, double x) { cpu::FromDouble(x, At(i), v.dtype); }
  void SetInt(int64_t i, int64_t x) { cpu::FromInt64(x, At(i), v.dtype); }
  Tensor& Fill(const std::function<double(int64_t)>& f) {
    for (int64_t i = 0; i < size(); ++i) Set(i, f(i));
    return *this;
  }
  Tensor& Random(uint32_t seed, double low = -2, double high = 2) {
    std::mt19937 rng(seed);
    std::uniform_real_distribution<double> dist(low, high);
    return Fill([&](int64_t) { return dist(rng); });
  }
};

using NamedAttrs = std::vector<std::pair<std::string, ir::Attr>>;

struct Outcome {
  absl::Status status;
  std::vector<Tensor> out;
};

/// Infers, poisons the outputs, runs, and checks that nothing outside them was written.
inline Outcome RunKernel(ir::Op op, interp::Kernel kernel, std::vector<const Tensor*> in,
                         const NamedAttrs& named = {}) {
  const ir::OpInfo& info = ir::Info(op);
  std::vector<ir::Attr> attrs;
  for (const ir::AttrSpec& spec : info.attrs) attrs.push_back(spec.default_value);
  for (const auto& [name, value] : named) attrs[static_cast<size_t>(ir::FindAttr(info, name))] = value;
  std::vector<const TensorType*> types;
  std::vector<const View*> views;
  for (const Tensor* t : in) {
    types.push_back(t == nullptr ? nullptr : &t->v);
    views.push_back(t == nullptr ? nullptr : &t->v);
  }
  std::vector<TensorType> results(static_cast<size_t>(ir::NumResults(info, attrs)));
  Outcome outcome;
  outcome.status = ir::Infer(ir::InferArgs{info, types, attrs, nullptr}, absl::MakeSpan(results));
  if (!outcome.status.ok()) return outcome;
  std::vector<View*> outs;
  for (const TensorType& r : results) outcome.out.emplace_back(r.dtype, Dims(r.dims, r.dims + r.rank));
  for (Tensor& t : outcome.out) {
    std::memset(t.memory.data(), 0xcb, t.memory.size());
    outs.push_back(&t.v);
  }
  outcome.status = kernel(interp::KernelArgs{info, views, outs, attrs});
  for (const Tensor& t : outcome.out) {
    const size_t used = static_cast<size_t>(t.size()) * SizeOf(t.v.dtype);
    for (size_t i = used; i < t.memory.size(); ++i)
      EXPECT_EQ(static_cast<unsigned char>(t.memory[i]), 0xcb) << "byte " << i;
  }
  return outcome;
}

/// For each output, the logical element numbers of x that it reduces, in order.
inline std::vector<std::vector<int64_t>> Groups(const View& x, uint32_t axes) {
  int64_t outputs = 1;
  for (int d = 0; d < x.rank; ++d)
    if (!(axes >> d & 1)) outputs *= x.dims[d];
  std::vector<std::vector<int64_t>> groups(static_cast<size_t>(outputs));
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t rest = i, at = 0, scale = 1;
    for (int d = x.rank - 1; d >= 0; --d) {
      if (!(axes >> d & 1)) {
        at += rest % x.dims[d] * scale;
        scale *= x.dims[d];
      }
      rest /= x.dims[d];
    }
    groups[static_cast<size_t>(at)].push_back(i);
  }
  return groups;
}

/// The distance from 1 to the next number.
inline double Epsilon(DType t) {
  switch (t) {
    case DType::f64: return 0x1p-52;
    case DType::f32: return 0x1p-23;
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    case DType::f8e4m3: return 0x1p-3;
    case DType::f8e5m2: return 0x1p-2;
    default: return 0;
  }
}

/// The least distance between two numbers of a narrow float, below which rounding is absolute; 0 for others.
inline double SmallestStep(DType t) {
  switch (t) {
    case DType::f16: return 0x1p-24;
    case DType::bf16: return 0x1p-133;
    case DType::f8e4m3: return 0x1p-9;
    case DType::f8e5m2: return 0x1p-16;
    default: return 0;
  }
}

/// got is want to within bound, with NaN and infinities the same. f8 results saturate.
inline void ExpectNear(double got, double want, double bound, DType dtype, const std::string& where) {
  if (SizeOf(dtype) == 1 && IsFloat(dtype)) {
    const double top = dtype == DType::f8e4m3 ? 448 : 57344;
    want = want > top ? top : want < -top ? -top : want;
  }
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << where << " got " << got;
  } else if (std::isinf(want)) {
    EXPECT_EQ(got, want) << where;
  } else {
    EXPECT_LE(std::abs(got - want), bound) << where << " got " << got << " want " << want;
  }
}

inline ir::Ints AxesOf(uint32_t mask, int rank) {
  ir::Ints axes;
  for (int d = 0; d < rank; ++d)
    if (mask >> d & 1) axes.push_back(d);
  return axes;
}

}  // namespace tessera::rows_testing

#endif  // TESSERA_TESTS_UNIT_CPU_ROWS_TESTING_H_
