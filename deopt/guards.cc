#include "deopt/guards.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "interp/cpu/convert.h"
#include "interp/cpu/strided.h"
#include "ir/op.h"

namespace tessera::deopt {
namespace {

// Dims 0 and 1 broadcast and end loops early, so no symbol stands for them, whatever its range says.
int64_t Low(const DimRange& range) { return std::max<int64_t>(range.low, 2); }

std::string StridesText(const int64_t* strides, int rank) {
  return absl::StrCat("[", absl::StrJoin(strides, strides + rank, ","), "]");
}

// Out of line, so that the check itself stays small: texts are made here and nowhere else.
[[gnu::cold, gnu::noinline]] bool Fail(GuardKind kind, int dim, const InputGuard& guard, const rt::TensorImpl& x,
                                       const std::vector<DimRange>& ranges, const Symbols& symbols,
                                       GuardFailure* failure) {
  if (failure == nullptr) return false;
  failure->guard = kind;
  failure->reason = Info(kind).reason;
  failure->dim = dim;
  std::string& expected = failure->expected;
  std::string& seen = failure->seen;
  if (dim >= 0) seen = absl::StrCat(x.dims[dim]);
  const int64_t symbol = dim >= 0 ? -1 - guard.dims[dim] : -1;
  switch (kind) {
    case GuardKind::device:
      expected = guard.device->name();
      seen = x.device().name();
      break;
    case GuardKind::dtype:
      expected = Name(guard.dtype);
      seen = Name(x.dtype);
      break;
    case GuardKind::rank:
      expected = absl::StrCat(guard.rank);
      seen = absl::StrCat(x.rank);
      break;
    case GuardKind::exact_dim: expected = absl::StrCat(guard.dims[dim]); break;
    case GuardKind::range: {
      const DimRange& range = ranges[symbol];
      expected = absl::StrCat(Low(range));
      if (range.high == INT64_MAX)
        expected += " or more";
      else
        absl::StrAppend(&expected, " to ", range.high);
      break;
    }
    case GuardKind::divisible: expected = absl::StrCat("a multiple of ", ranges[symbol].divisor); break;
    case GuardKind::equal_dims: expected = absl::StrCat(symbols[symbol]); break;
    case GuardKind::strides:
      expected = guard.layout == InputGuard::Layout::dense ? "row-major" : StridesText(guard.strides, guard.rank);
      seen = StridesText(x.strides, x.rank);
      break;
    case GuardKind::alignment: {
      const auto address = reinterpret_cast<uintptr_t>(x.data);
      expected = absl::StrCat(guard.alignment, " bytes");
      const uintptr_t is = address & (0 - address);  // less than the guard's, or it would have held
      seen = absl::StrCat(is, is == 1 ? " byte" : " bytes");
      break;
    }
    default: break;  // not guards of one input
  }
  return false;
}

// Where all elements of x are looked at, this many at a time.
constexpr int64_t kBlock = 1024;

// fn(const T* elements, n) for block after block of x, brought to T; stops and returns false when fn does.
template <class T, class Fn>
bool ForBlocks(const View& x, Fn fn) {
  constexpr DType kTo = *DTypeOf<T>();
  alignas(64) char raw[kBlock * sizeof(double)];
  T converted[kBlock];
  const bool contiguous = x.IsContiguous();
  const int64_t size = x.size();
  for (int64_t first = 0; first < size; first += kBlock) {
    const int64_t n = std::min(kBlock, size - first);
    const void* p = raw;
    if (contiguous)
      p = static_cast<const char*>(x.data) + first * static_cast<int64_t>(SizeOf(x.dtype));
    else
      cpu::GatherBlock(x, first, n, raw);
    if (x.dtype != kTo) {
      cpu::Convert(converted, kTo, p, x.dtype, n);
      p = converted;
    }
    if (!fn(static_cast<const T*>(p), n)) return false;
  }
  return true;
}

// Whole blocks without an early end, so that the loop is vectorised.
template <class T, class Test>
bool AllOf(const View& x, Test test) {
  return ForBlocks<T>(x, [test](const T* p, int64_t n) {
    bool all = true;
    for (int64_t i = 0; i < n; ++i) all &= test(p[i]);
    return all;
  });
}

template <class T>
bool FloatsHold(const ValueProperty& property, const View& x) {
  switch (property.kind) {
    case ValueProperty::Kind::all_true: return AllOf<T>(x, [](T v) { return v != 0; });
    case ValueProperty::Kind::all_finite:
      return AllOf<T>(x, [](T v) { return std::abs(v) <= std::numeric_limits<T>::max(); });
    case ValueProperty::Kind::within:
      return AllOf<T>(x, [low = property.low, high = property.high](T v) {
        return (static_cast<double>(v) >= low) & (static_cast<double>(v) <= high);
      });
  }
  return false;
}

// The bounds become integers rather than the elements doubles, which do not hold every i64.
bool IntegersHold(const ValueProperty& property, const View& x) {
  if (property.kind == ValueProperty::Kind::all_finite) return true;
  if (property.kind == ValueProperty::Kind::all_true) return AllOf<int64_t>(x, [](int64_t v) { return v != 0; });
  constexpr double kEnd = 0x1p63;
  if (!(property.low < kEnd && property.high >= -kEnd)) return false;  // also when one is NaN
  const int64_t low = property.low <= -kEnd ? INT64_MIN : static_cast<int64_t>(std::ceil(property.low));
  const int64_t high = property.high >= kEnd ? INT64_MAX : static_cast<int64_t>(std::floor(property.high));
  return AllOf<int64_t>(x, [low, high](int64_t v) { return (v >= low) & (v <= high); });
}

}  // namespace

std::string_view Name(Policy policy) {
  switch (policy) {
    case Policy::generalise: return "generalise";
    case Policy::bridge: return "bridge";
    case Policy::record: return "record";
    case Policy::keep: return "keep";
    case Policy::drop: return "drop";
  }
  return "?";
}

bool CheckInput(const InputGuard& guard, const rt::TensorImpl& x, const std::vector<DimRange>& ranges, Symbols& symbols,
                GuardFailure* failure) {
  const auto fail = [&](GuardKind kind, int dim = -1) { return Fail(kind, dim, guard, x, ranges, symbols, failure); };
  if (&x.device() != guard.device) [[unlikely]]
    return fail(GuardKind::device);
  if (x.dtype != guard.dtype) [[unlikely]]
    return fail(GuardKind::dtype);
  if (x.rank != guard.rank) [[unlikely]]
    return fail(GuardKind::rank);

  bool empty = false;
  for (int i = 0; i < x.rank; ++i) {
    const int64_t dim = x.dims[i];
    const int64_t want = guard.dims[i];
    empty |= dim == 0;
    if (dim == want) continue;
    if (want >= 0) [[unlikely]]
      return fail(GuardKind::exact_dim, i);
    int64_t& bound = symbols[-1 - want];
    if (dim == bound) continue;
    if (bound >= 0 && dim >= 2) [[unlikely]]
      return fail(GuardKind::equal_dims, i);
    const DimRange& range = ranges[-1 - want];
    if (dim < Low(range) || dim > range.high) [[unlikely]]
      return fail(GuardKind::range, i);
    if (range.divisor > 1 && dim % range.divisor != 0) [[unlikely]]
      return fail(GuardKind::divisible, i);
    bound = dim;
  }
  switch (guard.layout) {
    case InputGuard::Layout::exact:
      // Also those of dims of size 1, which no element depends on: windows inherit them, and a program may ask.
      for (int i = 0; i < x.rank; ++i)
        if (x.strides[i] != guard.strides[i]) [[unlikely]]
          return fail(GuardKind::strides);
      break;
    case InputGuard::Layout::dense:
      if (!empty && !x.IsContiguous()) [[unlikely]]
        return fail(GuardKind::strides);
      break;
    case InputGuard::Layout::free: break;
  }
  // Nobody reads or writes an element of an empty tensor, so where it lies does not matter.
  if (empty) [[unlikely]]
    return true;
  const uintptr_t mask = static_cast<uintptr_t>(guard.alignment) - 1;
  if ((reinterpret_cast<uintptr_t>(x.data) & mask) != 0) [[unlikely]]
    return fail(GuardKind::alignment);
  return true;
}

bool CheckMask(const InputGuard& guard, const rt::TensorImpl& x, GuardFailure* failure) {
  if (guard.mask == tracer::MaskShape::unknown) return true;
  const tracer::MaskShape seen = x.storage()->is_wrapped() ? tracer::MaskShape::unknown : tracer::ShapeOfMask(x);
  if (seen == guard.mask) return true;
  if (failure != nullptr) {
    failure->guard = GuardKind::value_property;
    failure->reason = Info(GuardKind::value_property).reason;
    failure->expected = tracer::Name(guard.mask);
    failure->seen = seen == tracer::MaskShape::unknown ? "another one" : tracer::Name(seen);
  }
  return false;
}

bool Holds(const ValueProperty& property, const View& x) {
  // Before anyone multiplies dims: those beside a 0 may be of any size.
  for (int i = 0; i < x.rank; ++i)
    if (x.dims[i] == 0) return true;
  if (x.dtype == DType::f64) return FloatsHold<double>(property, x);
  return IsFloat(x.dtype) ? FloatsHold<float>(property, x) : IntegersHold(property, x);
}

std::string ToString(const ValueProperty& property) {
  switch (property.kind) {
    case ValueProperty::Kind::all_true: return "all true";
    case ValueProperty::Kind::all_finite: return "all finite";
    case ValueProperty::Kind::within: break;
  }
  return absl::StrCat("within ", ir::ToString(ir::Attr(property.low)), " to ", ir::ToString(ir::Attr(property.high)));
}

}  // namespace tessera::deopt
