// Guards of inputs and of values: each row that they decide holds once and fails once, with its texts.
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>

#include "deopt/guards.h"
#include "interp/cpu/convert.h"
#include "runtime/device.h"

namespace tessera::deopt {
namespace {

using Layout = InputGuard::Layout;

rt::Ref<rt::TensorImpl> Make(std::initializer_list<int64_t> dims, DType dtype = DType::f32,
                             rt::Device& device = rt::Cpu()) {
  TensorType type;
  type.dtype = dtype;
  type.rank = static_cast<uint8_t>(dims.size());
  std::copy(dims.begin(), dims.end(), type.dims);
  return *rt::TensorImpl::Make(device, type);
}

// A guard that x satisfies.
InputGuard GuardOf(const rt::TensorImpl& x) {
  InputGuard g;
  g.device = &x.device();
  g.dtype = x.dtype;
  g.rank = x.rank;
  std::copy(x.dims, x.dims + x.rank, g.dims);
  std::copy(x.strides, x.strides + x.rank, g.strides);
  return g;
}

// dims: numbers, or -1 - s for symbol s.
InputGuard Symbolic(std::initializer_list<int64_t> dims) {
  InputGuard g;
  g.device = &rt::Cpu();
  g.rank = static_cast<uint8_t>(dims.size());
  g.layout = Layout::dense;
  std::copy(dims.begin(), dims.end(), g.dims);
  return g;
}

// "exact_dim(shape) dim 0: expected 32, seen 48", or "holds". Without a place for the failure the answer is the same.
std::string Check(const InputGuard& guard, const rt::TensorImpl& x, Symbols& symbols,
                  const std::vector<DimRange>& ranges = {}) {
  GuardFailure f;
  f.step = 7;
  f.value = 8;
  Symbols copy = symbols;
  const bool holds = CheckInput(guard, x, ranges, symbols, &f);
  EXPECT_EQ(CheckInput(guard, x, ranges, copy, nullptr), holds);
  EXPECT_EQ(f.step, 7);
  EXPECT_EQ(f.value, 8);
  if (holds) {
    EXPECT_TRUE(f.expected.empty() && f.seen.empty());
    return "holds";
  }
  std::string text(Info(f.guard).name);
  text += "(" + std::string(Info(f.reason).name) + ")";
  if (f.dim >= 0) text += " dim " + std::to_string(f.dim);
  return text + ": expected " + f.expected + ", seen " + f.seen;
}
std::string Check(const InputGuard& guard, const rt::TensorImpl& x) {
  Symbols none;
  return Check(guard, x, none);
}

TEST(DeoptTables, RowsAreSound) {
  std::set<std::string_view> names;
  for (const GuardInfo& row : kGuards) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.expected.empty() || row.summary.empty()) << row.name;
    EXPECT_EQ(&Info(row.id), &row);
  }
  names.clear();
  std::set<std::string_view> policies;
  for (const DeoptReasonInfo& row : kDeoptReasons) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.message.empty()) << row.name;
    EXPECT_EQ(&Info(row.id), &row);
    policies.insert(Name(row.policy));
  }
  EXPECT_EQ(policies, (std::set<std::string_view>{"generalise", "bridge", "record", "keep", "drop"}));
}

TEST(CheckInput, DeviceDTypeRankAndDims) {
  const auto x = Make({32, 8});
  const InputGuard guard = GuardOf(*x);
  EXPECT_EQ(Check(guard, *x), "holds");
  EXPECT_EQ(Check(guard, *Make({32, 8}, DType::f32, rt::Null())), "device(device): expected cpu, seen null");
  EXPECT_EQ(Check(guard, *Make({32, 8}, DType::bf16)), "dtype(dtype): expected f32, seen bf16");
  EXPECT_EQ(Check(guard, *Make({32, 8, 1})), "rank(rank): expected 2, seen 3");
  EXPECT_EQ(Check(guard, *Make({48, 8})), "exact_dim(shape) dim 0: expected 32, seen 48");
  EXPECT_EQ(Check(guard, *Make({32, 0})), "exact_dim(shape) dim 1: expected 8, seen 0");
  const auto scalar = Make({});
  EXPECT_EQ(Check(GuardOf(*scalar), *scalar), "holds");
}

TEST(CheckInput, CheapestGuardIsReported) {
  const InputGuard guard = GuardOf(*Make({32, 8}));
  EXPECT_EQ(Check(guard, *Make({4}, DType::i64, rt::Null())), "device(device): expected cpu, seen null");
  EXPECT_EQ(Check(guard, *Make({4}, DType::i64)), "dtype(dtype): expected f32, seen i64");
  EXPECT_EQ(Check(guard, *Make({4})), "rank(rank): expected 2, seen 1");
}

TEST(CheckInput, SymbolsAreBoundAndCompared) {
  const std::vector<DimRange> ranges = {{2, INT64_MAX, 1}, {2, 64, 8}};
  const InputGuard guard = Symbolic({-1, 3, -1});
  Symbols symbols = {-1, -1};
  EXPECT_EQ(Check(guard, *Make({5, 3, 5}), symbols, ranges), "holds");
  EXPECT_EQ(symbols, (Symbols{5, -1}));
  // The next input of the same run.
  EXPECT_EQ(Check(guard, *Make({6, 3, 6}), symbols, ranges), "equal_dims(shape) dim 0: expected 5, seen 6");
  EXPECT_EQ(Check(guard, *Make({1, 3, 5}), symbols, ranges), "range(shape) dim 0: expected 2 or more, seen 1");
  EXPECT_EQ(Check(Symbolic({-2, -1}), *Make({16, 5}), symbols, ranges), "holds");
  EXPECT_EQ(symbols, (Symbols{5, 16}));

  symbols = {-1, -1};
  EXPECT_EQ(Check(guard, *Make({5, 3, 7}), symbols, ranges), "equal_dims(shape) dim 2: expected 5, seen 7");
  symbols = {-1, -1};
  EXPECT_EQ(Check(guard, *Make({5, 4, 5}), symbols, ranges), "exact_dim(shape) dim 1: expected 3, seen 4");
}

TEST(CheckInput, RangeAndDivisor) {
  const auto check = [](DimRange range, int64_t dim) {
    Symbols symbols = {-1};
    const std::string text = Check(Symbolic({-1}), *Make({dim}), symbols, {range});
    EXPECT_EQ(symbols[0], text == "holds" ? dim : -1);
    return text;
  };
  const DimRange bucket = {16, 64, 8};
  for (const int64_t dim : {16, 24, 64}) EXPECT_EQ(check(bucket, dim), "holds") << dim;
  for (const int64_t dim : {8, 15, 65, 72})
    EXPECT_EQ(check(bucket, dim), "range(shape) dim 0: expected 16 to 64, seen " + std::to_string(dim));
  for (const int64_t dim : {17, 63})
    EXPECT_EQ(check(bucket, dim), "divisible(shape) dim 0: expected a multiple of 8, seen " + std::to_string(dim));
  // 0 and 1 never, whatever the range says.
  for (const DimRange range : {DimRange{}, DimRange{0, INT64_MAX, 1}, DimRange{INT64_MIN, INT64_MAX, 0}}) {
    EXPECT_EQ(check(range, 0), "range(shape) dim 0: expected 2 or more, seen 0");
    EXPECT_EQ(check(range, 1), "range(shape) dim 0: expected 2 or more, seen 1");
    EXPECT_EQ(check(range, 2), "holds");
  }
}

TEST(CheckInput, StridesAndLayout) {
  const auto x = Make({2, 3});
  const auto transposed = Make({2, 3});
  transposed->strides[0] = 1;
  transposed->strides[1] = 2;
  InputGuard guard = GuardOf(*x);
  EXPECT_EQ(Check(guard, *transposed), "strides(layout): expected [3,1], seen [1,2]");
  EXPECT_EQ(Check(GuardOf(*transposed), *transposed), "holds");
  guard.layout = Layout::dense;
  EXPECT_EQ(Check(guard, *x), "holds");
  EXPECT_EQ(Check(guard, *transposed), "strides(layout): expected row-major, seen [1,2]");
  guard.layout = Layout::free;
  EXPECT_EQ(Check(guard, *transposed), "holds");
}

TEST(CheckInput, StridesThatNobodyUses) {
  const auto x = Make({4, 1, 3});
  InputGuard guard = GuardOf(*x);
  x->strides[1] = 999;
  EXPECT_EQ(Check(guard, *x), "strides(layout): expected [3,3,1], seen [3,999,1]") << "a program may ask for them";
  guard.layout = Layout::dense;
  EXPECT_EQ(Check(guard, *x), "holds");

  const auto empty = Make({4, 0, 3});
  for (const Layout layout : {Layout::free, Layout::dense}) {
    guard = GuardOf(*empty);
    guard.layout = layout;
    guard.alignment = 64;
    std::fill(empty->strides, empty->strides + 3, -7);
    void* const data = empty->data;
    empty->data = static_cast<char*>(data) + 1;
    EXPECT_EQ(Check(guard, *empty), "holds");
    empty->data = data;
  }
}

TEST(CheckInput, HugeDimsOfAnEmptyTensorDoNotOverflow) {
  const auto x = Make({0});
  x->rank = 3;
  for (int i = 1; i < 3; ++i) x->dims[i] = x->strides[i] = INT64_MAX;
  InputGuard guard = GuardOf(*x);
  for (const Layout layout : {Layout::exact, Layout::dense, Layout::free}) {
    guard.layout = layout;
    EXPECT_EQ(Check(guard, *x), "holds");
  }
  EXPECT_TRUE(Holds({ValueProperty::Kind::all_true, 0, 0}, *x));
}

TEST(CheckInput, Alignment) {
  const auto x = Make({32});
  InputGuard guard = GuardOf(*x);
  guard.alignment = 64;
  EXPECT_EQ(Check(guard, *x), "holds");
  void* const data = x->data;
  x->data = static_cast<char*>(data) + 4;
  x->dims[0] = guard.dims[0] = 31;
  EXPECT_EQ(Check(guard, *x), "alignment(layout): expected 64 bytes, seen 4 bytes");
  guard.alignment = 4;
  EXPECT_EQ(Check(guard, *x), "holds");
  x->data = static_cast<char*>(data) + 1;
  EXPECT_EQ(Check(guard, *x), "alignment(layout): expected 4 bytes, seen 1 byte");
  guard.alignment = 1;
  EXPECT_EQ(Check(guard, *x), "holds");
}

// ---- values

constexpr ValueProperty kAllTrue = {ValueProperty::Kind::all_true, 0, 0};
constexpr ValueProperty kAllFinite = {ValueProperty::Kind::all_finite, 0, 0};
constexpr ValueProperty Within(double low, double high) { return {ValueProperty::Kind::within, low, high}; }
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// n elements of 1 with `odd` at place `at`, each `stride` elements apart.
class Elements {
 public:
  Elements(DType dtype, int64_t n, int64_t stride, int64_t at, double odd) : memory_(n * stride * SizeOf(dtype)) {
    view_.dtype = dtype;
    view_.rank = 1;
    view_.dims[0] = n;
    view_.strides[0] = stride;
    view_.data = memory_.data();
    // What lies between the elements is a 0, which holds for none of the properties below.
    for (int64_t i = 0; i < n; ++i)
      cpu::FromDouble(i == at ? odd : 1.0, memory_.data() + i * stride * SizeOf(dtype), dtype);
  }
  const View& view() const { return view_; }

 private:
  std::vector<char> memory_;
  View view_;
};

constexpr DType kAllDTypes[] = {
#define TSR_DTYPE(name, bytes, kind, rank, summary) DType::name,
#include "tessera/dtypes.def"
};

TEST(Holds, EveryDTypeAndStrideAndBlock) {
  for (const DType dtype : kAllDTypes) {
    for (const int64_t stride : {1, 3}) {
      for (const int64_t at : {0, 1023, 1024, 2500}) {
        const Elements good(dtype, 2501, stride, at, 1), zero(dtype, 2501, stride, at, 0);
        const std::string where = std::string(Name(dtype)) + " stride " + std::to_string(stride);
        EXPECT_TRUE(Holds(kAllTrue, good.view())) << where;
        EXPECT_FALSE(Holds(kAllTrue, zero.view())) << where << " at " << at;
        EXPECT_TRUE(Holds(kAllFinite, zero.view())) << where;
        EXPECT_TRUE(Holds(Within(1, 1), good.view())) << where;
        EXPECT_TRUE(Holds(Within(0, 1), zero.view())) << where;
        EXPECT_FALSE(Holds(Within(0.5, 1), zero.view())) << where << " at " << at;
        EXPECT_FALSE(Holds(Within(0, 0.5), good.view())) << where;
        if (!IsFloat(dtype)) continue;
        const Elements nan(dtype, 2501, stride, at, kNan);
        EXPECT_TRUE(Holds(kAllTrue, nan.view())) << where;
        EXPECT_FALSE(Holds(kAllFinite, nan.view())) << where << " at " << at;
        EXPECT_FALSE(Holds(Within(-kInf, kInf), nan.view())) << where << " at " << at;
        if (SizeOf(dtype) == 1) continue;  // f8 has no infinity, or converts to its largest
        const Elements inf(dtype, 2501, stride, at, -kInf);
        EXPECT_FALSE(Holds(kAllFinite, inf.view())) << where << " at " << at;
        EXPECT_TRUE(Holds(Within(-kInf, 1), inf.view())) << where;
      }
    }
  }
}

TEST(Holds, LargestAndSmallestValuesAreFiniteAndTrue) {
  for (const double v : {std::numeric_limits<double>::max(), std::numeric_limits<double>::denorm_min()}) {
    const Elements x(DType::f64, 3, 1, 1, v);
    EXPECT_TRUE(Holds(kAllFinite, x.view()));
    EXPECT_TRUE(Holds(kAllTrue, x.view()));
  }
  const uint8_t infinity = 0x7c;
  View x;
  x.dtype = DType::f8e5m2;
  x.data = const_cast<uint8_t*>(&infinity);
  EXPECT_FALSE(Holds(kAllFinite, x));
}

TEST(Holds, IntegersAreNotRounded) {
  int64_t value = (int64_t{1} << 53) + 1;
  View x;
  x.dtype = DType::i64;
  x.data = &value;
  EXPECT_FALSE(Holds(Within(0, 0x1p53), x));
  EXPECT_TRUE(Holds(Within(0, 0x1p53 + 2), x));
  value = INT64_MAX;
  EXPECT_TRUE(Holds(Within(-kInf, kInf), x));
  EXPECT_TRUE(Holds(Within(0x1p62, 0x1p63), x));
  EXPECT_FALSE(Holds(Within(0x1p63, kInf), x));
  value = INT64_MIN;
  EXPECT_TRUE(Holds(Within(-0x1p63, 0), x));
  EXPECT_FALSE(Holds(Within(-kInf, -0x1p64), x));
  for (const ValueProperty& nan : {Within(kNan, 1), Within(-kInf, kNan)}) EXPECT_FALSE(Holds(nan, x));
}

TEST(Holds, AnEmptyTensorHasEveryProperty) {
  const auto x = Make({3, 0});
  for (const ValueProperty& p : {kAllTrue, kAllFinite, Within(1, 0), Within(kNan, kNan)}) EXPECT_TRUE(Holds(p, *x));
}

TEST(ValueProperty, Text) {
  EXPECT_EQ(ToString(kAllTrue), "all true");
  EXPECT_EQ(ToString(kAllFinite), "all finite");
  EXPECT_EQ(ToString(Within(-0.5, kInf)), "within -0.5 to inf");
}

}  // namespace
}  // namespace tessera::deopt
