// What the tests of products share: tensors with every kind of strides, running an op through its shape rule and its
// kernel, and comparing with f64 references.
#ifndef TESSERA_TESTS_UNIT_PRODUCTS_TESTING_H_
#define TESSERA_TESTS_UNIT_PRODUCTS_TESTING_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "interp/cpu/convert.h"
#include "interp/kernel.h"
#include "ir/op.h"

namespace tessera::testing {

using Dims = std::vector<int64_t>;
using Rng = std::mt19937_64;

inline int64_t Pick(Rng& rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
}

struct Array {
  View v;
  std::shared_ptr<std::vector<char>> memory;

  int64_t Offset(int64_t i) const {
    int64_t offset = 0;
    for (int d = v.rank - 1; d >= 0; --d) {
      offset += i % v.dims[d] * v.strides[d];
      i /= v.dims[d];
    }
    return offset;
  }
  char* Element(int64_t offset) const { return v.as<char>() + offset * static_cast<int64_t>(SizeOf(v.dtype)); }
  /// Row-major element number i, whatever the strides.
  double Get(int64_t i) const { return cpu::ToDouble(Element(Offset(i)), v.dtype); }
  int64_t GetInt(int64_t i) const { return cpu::ToInt64(Element(Offset(i)), v.dtype); }
  void Set(int64_t i, double x) { cpu::FromDouble(x, Element(Offset(i)), v.dtype); }
  void SetInt(int64_t i, int64_t x) { cpu::FromInt64(x, Element(Offset(i)), v.dtype); }
  double At(const Dims& index) const {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * v.strides[d];
    return cpu::ToDouble(Element(offset), v.dtype);
  }
};

inline Array Contiguous(DType dtype, const Dims& dims) {
  Array a;
  a.v.dtype = dtype;
  a.v.rank = static_cast<uint8_t>(dims.size());
  std::copy(dims.begin(), dims.end(), a.v.dims);
  a.v.SetContiguousStrides();
  a.memory = std::make_shared<std::vector<char>>((a.v.size() + 1) * SizeOf(dtype), static_cast<char>(0xff));
  a.v.data = a.memory->data();
  return a;
}

/// Dims in a random order in memory, some with gaps, some backwards, some of stride 0.
inline Array Strided(Rng& rng, DType dtype, const Dims& dims) {
  Array a = Contiguous(dtype, dims);
  if (rng() % 3 == 0) return a;
  const bool exotic = rng() % 2 == 0;
  std::vector<int> order(dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  if (rng() % 2 == 0) std::shuffle(order.begin(), order.end(), rng);
  int64_t stride = 1, first = 0;
  for (size_t i = order.size(); i-- > 0;) {
    const int d = order[i];
    const int64_t dim = std::max<int64_t>(1, dims[d]);
    if (exotic && rng() % 5 == 0) {
      a.v.strides[d] = 0;
      continue;
    }
    if (exotic && rng() % 4 == 0) stride *= 2;
    if (rng() % 4 == 0) stride += 3;
    a.v.strides[d] = stride;
    if (exotic && rng() % 5 == 0) {
      a.v.strides[d] = -stride;
      first += stride * (dim - 1);
    }
    stride *= dim;
  }
  a.memory = std::make_shared<std::vector<char>>((stride + 1) * SizeOf(dtype), static_cast<char>(0xff));
  a.v.data = a.memory->data() + first * SizeOf(dtype);
  return a;
}

inline void Fill(Rng& rng, Array& a) {
  std::uniform_real_distribution<double> uniform(-2, 2);
  for (int64_t i = 0; i < a.v.size(); ++i) {
    if (IsFloat(a.v.dtype)) {
      a.Set(i, uniform(rng));
    } else {
      a.SetInt(i, static_cast<int64_t>(rng()));
    }
  }
}

inline Array Random(Rng& rng, DType dtype, const Dims& dims) {
  Array a = Strided(rng, dtype, dims);
  Fill(rng, a);
  return a;
}

/// Infers the result, poisons it (every byte 0xff: NaN, or -1), runs the kernel.
inline absl::StatusOr<Array> RunOp(ir::Op op, interp::Kernel kernel, const std::vector<const Array*>& in,
                                   std::vector<ir::Attr> attrs) {
  const ir::OpInfo& info = ir::Info(op);
  attrs.resize(info.attrs.size());
  TSR_RETURN_IF_ERROR(ir::CompleteAttrs(info, absl::MakeSpan(attrs)));
  std::vector<const TensorType*> types;
  std::vector<const View*> views;
  for (const Array* a : in) {
    types.push_back(a ? &a->v : nullptr);
    views.push_back(a ? &a->v : nullptr);
  }
  TensorType type;
  TSR_RETURN_IF_ERROR(ir::Infer({info, types, attrs, nullptr}, absl::MakeSpan(&type, 1)));
  Array y = Contiguous(type.dtype, Dims(type.dims, type.dims + type.rank));
  View* out = &y.v;
  TSR_RETURN_IF_ERROR(kernel({info, views, absl::MakeSpan(&out, 1), attrs}));
  return y;
}

/// Units in the last place of the compute dtype, and of the dtype itself where that is narrower.
inline double ComputeEpsilon(DType t) { return t == DType::f64 ? 0x1p-52 : 0x1p-23; }
inline double RoundingOf(DType t) {
  switch (t) {
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    case DType::f8e4m3: return 0x1p-4;
    case DType::f8e5m2: return 0x1p-3;
    default: return 0;
  }
}
/// Smallest step of the dtype, for results that are rounded to a subnormal.
inline double TinyOf(DType t) {
  switch (t) {
    case DType::f16: return 0x1p-24;
    case DType::f8e4m3: return 0x1p-9;
    case DType::f8e5m2: return 0x1p-16;
    default: return 1e-38;
  }
}

/// `terms` is the sum of the absolute values that were added: the bound of the op table.
inline ::testing::AssertionResult Close(DType t, double got, double want, double terms) {
  if (std::isnan(want) || std::isnan(got)) {
    if (std::isnan(want) && std::isnan(got)) return ::testing::AssertionSuccess();
  } else if (got == want || std::abs(got - want) <=
                                8 * ComputeEpsilon(t) * terms + RoundingOf(t) * std::abs(want) * 1.01 + TinyOf(t)) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "got " << got << ", want " << want << " (" << Name(t) << ")";
}

inline ir::Attr I(std::initializer_list<int64_t> v) { return ir::Ints(v); }
inline ir::Attr I(const std::vector<int64_t>& v) { return ir::Ints(v.begin(), v.end()); }

inline constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_UNIT_PRODUCTS_TESTING_H_
