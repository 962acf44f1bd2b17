// For tests of data movement: tensors with random strides, plain element access, and one op run from its name.
#ifndef TESSERA_TESTS_UNIT_MOVEMENT_UTIL_H_
#define TESSERA_TESTS_UNIT_MOVEMENT_UTIL_H_

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "interp/cpu/convert.h"
#include "interp/kernel.h"
#include "ir/op.h"
#include "ir/symbols.h"

namespace tessera::movement {

using Rng = std::mt19937_64;

inline int64_t Uniform(Rng& rng, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

/// A view with memory of its own. Memory around it is filled too, so that reads outside show.
struct Owned {
  std::shared_ptr<std::vector<uint64_t>> memory;
  View v;
};

/// The address of row-major element number `at`.
inline char* Element(const View& v, int64_t at) {
  int64_t offset = 0;
  for (int i = v.rank - 1; i >= 0; --i) {
    offset += at % v.dims[i] * v.strides[i];
    at /= v.dims[i];
  }
  return static_cast<char*>(v.data) + offset * static_cast<int64_t>(SizeOf(v.dtype));
}

/// All elements in order, as bytes.
inline std::string Bytes(const View& v) {
  std::string s;
  const int64_t n = v.size();
  for (int64_t i = 0; i < n; ++i) s.append(Element(v, i), SizeOf(v.dtype));
  return s;
}

inline std::vector<double> Doubles(const View& v) {
  std::vector<double> out;
  const int64_t n = v.size();
  for (int64_t i = 0; i < n; ++i) out.push_back(cpu::ToDouble(Element(v, i), v.dtype));
  return out;
}

inline TensorType Type(DType dtype, const std::vector<int64_t>& dims) {
  TensorType t;
  t.dtype = dtype;
  t.rank = static_cast<uint8_t>(dims.size());
  std::copy(dims.begin(), dims.end(), t.dims);
  return t;
}

/// Contiguous, zeros.
inline Owned Zeros(const TensorType& type) {
  Owned o;
  static_cast<TensorType&>(o.v) = type;
  o.v.SetContiguousStrides();
  o.memory = std::make_shared<std::vector<uint64_t>>(type.size() * SizeOf(type.dtype) / 8 + 1);
  o.v.data = o.memory->data();
  return o;
}

inline Owned Values(DType dtype, const std::vector<int64_t>& dims, const std::vector<double>& values) {
  Owned o = Zeros(Type(dtype, dims));
  for (size_t i = 0; i < values.size(); ++i) cpu::FromDouble(values[i], Element(o.v, i), dtype);
  return o;
}

/// Memory in a random order of dims, with gaps, flips and (where allowed) repeated dims; contents random.
inline Owned RandomView(Rng& rng, const TensorType& type, bool repeat = true) {
  Owned o;
  static_cast<TensorType&>(o.v) = type;
  std::vector<int> order(type.rank);
  for (int i = 0; i < type.rank; ++i) order[i] = i;
  if (Uniform(rng, 0, 2) != 0) std::shuffle(order.begin(), order.end(), rng);
  int64_t stride = 1, first = 0;
  const bool plain = Uniform(rng, 0, 3) == 0;
  for (int k = type.rank - 1; k >= 0; --k) {
    const int i = order[k];
    const int64_t dim = std::max<int64_t>(1, type.dims[i]);
    if (!plain && repeat && Uniform(rng, 0, 7) == 0) {
      o.v.strides[i] = 0;
      continue;
    }
    const int64_t gap = plain || Uniform(rng, 0, 2) != 0 ? 1 : Uniform(rng, 1, 3);
    o.v.strides[i] = stride * gap;
    if (!plain && Uniform(rng, 0, 3) == 0) {
      o.v.strides[i] = -o.v.strides[i];
      first += (dim - 1) * stride * gap;
    }
    stride *= dim * gap;
  }
  const int64_t size = SizeOf(type.dtype);
  o.memory = std::make_shared<std::vector<uint64_t>>(stride * size / 8 + 3);
  for (uint64_t& word : *o.memory) word = rng();
  if (type.dtype == DType::boolean)
    for (uint64_t& word : *o.memory) word &= 0x0101010101010101;
  o.v.data = reinterpret_cast<char*>(o.memory->data() + 1) + first * size;
  return o;
}

/// Like RandomView, with small whole numbers that every dtype holds.
inline Owned RandomSmall(Rng& rng, const TensorType& type) {
  Owned o = RandomView(rng, type);
  const int64_t n = type.size();
  const bool sign = IsFloat(type.dtype) || (IsInt(type.dtype) && type.dtype != DType::u8);
  for (int64_t i = 0; i < n; ++i)
    cpu::FromDouble(static_cast<double>(Uniform(rng, sign ? -4 : 0, 4)), Element(o.v, i), type.dtype);
  return o;
}

inline Owned RandomIds(Rng& rng, const std::vector<int64_t>& dims, int64_t low, int64_t high) {
  Owned o = RandomView(rng, Type(DType::i64, dims));
  const int64_t n = o.v.size();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t id = Uniform(rng, low, high);
    std::memcpy(Element(o.v, i), &id, 8);
  }
  return o;
}

inline std::vector<int64_t> RandomDims(Rng& rng, int rank, int64_t most, bool empty = true) {
  std::vector<int64_t> dims(rank);
  for (int64_t& d : dims) d = Uniform(rng, empty && Uniform(rng, 0, 15) == 0 ? 0 : 1, most);
  return dims;
}

inline const std::vector<DType>& AllDTypes() {
  static const auto* all = [] {
    auto* v = new std::vector<DType>;
    for (int i = 0; i < kNumDTypes; ++i) v->push_back(static_cast<DType>(i));
    return v;
  }();
  return *all;
}

/// Infers the results of the op, then runs `kernel` on them.
inline absl::StatusOr<std::vector<Owned>> RunOp(ir::Op op, interp::Kernel kernel, const std::vector<Owned>& in,
                                                const std::vector<ir::Attr>& attrs) {
  const ir::OpInfo& info = ir::Info(op);
  std::vector<const TensorType*> types;
  std::vector<const View*> views;
  for (const Owned& o : in) {
    types.push_back(&o.v);
    views.push_back(&o.v);
  }
  std::vector<TensorType> results(ir::NumResults(info, attrs));
  TSR_RETURN_IF_ERROR(ir::Infer({info, types, attrs}, absl::MakeSpan(results)));
  std::vector<Owned> out;
  std::vector<View*> out_views;
  for (const TensorType& t : results) {
    out.push_back(Zeros(t));
    std::fill(out.back().memory->begin(), out.back().memory->end(), 0xa5a5a5a5a5a5a5a5);
  }
  for (Owned& o : out) out_views.push_back(&o.v);
  TSR_RETURN_IF_ERROR(kernel({info, views, out_views, attrs}));
  return out;
}

/// The types that the op's rules find, or the message of their failure.
inline std::string Inferred(ir::Op op, const std::vector<TensorType>& in, const std::vector<ir::Attr>& attrs,
                            ir::SymbolTable* symbols = nullptr) {
  const ir::OpInfo& info = ir::Info(op);
  std::vector<const TensorType*> types;
  for (const TensorType& t : in) types.push_back(&t);
  std::vector<TensorType> results(ir::NumResults(info, attrs));
  const absl::Status status = ir::Infer({info, types, attrs, symbols}, absl::MakeSpan(results));
  if (!status.ok()) return std::string(status.message());
  std::string s;
  for (const TensorType& t : results) absl::StrAppend(&s, s.empty() ? "" : ", ", ir::TypeName(symbols, t));
  return s;
}
}  // namespace tessera::movement

#endif  // TESSERA_TESTS_UNIT_MOVEMENT_UTIL_H_
