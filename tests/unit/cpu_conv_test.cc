#include "ir/symbols.h"
#include "tests/unit/products_testing.h"

namespace tessera {
namespace {

using namespace tessera::testing;  // NOLINT(google-build-using-namespace)
using ir::Op;

/// The attributes of a window, and a walk over what each output position reads.
struct Slide {
  std::vector<int64_t> window, stride, padding, dilation;  // padding: low, high of each dim

  /// Calls fn(tap, input index) for every tap of the window at output position `o` (row-major over `out`) that does
  /// not read padding.
  template <class F>
  void Taps(const Dims& in, const Dims& out, int64_t o, F fn) const {
    const size_t n = window.size();
    Dims at(n), w(n, 0);
    for (size_t d = n; d-- > 0;) at[d] = o % out[d], o /= out[d];
    int64_t taps = 1;
    for (int64_t x : window) taps *= x;
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t rest = tap;
      Dims index(n);
      bool inside = true;
      for (size_t d = n; d-- > 0;) {
        index[d] = at[d] * stride[d] + rest % window[d] * dilation[d] - padding[2 * d];
        rest /= window[d];
        inside &= index[d] >= 0 && index[d] < in[d];
      }
      if (inside) fn(tap, index);
    }
  }
};

Slide RandomSlide(Rng& rng, int n, const Dims& in, bool pool) {
  Slide s;
  for (int d = 0; d < n; ++d) {
    for (;;) {
      const int64_t w = Pick(rng, 1, 4), dil = rng() % 3 == 0 ? 2 : 1, span = (w - 1) * dil + 1;
      const int64_t top = pool ? span / 2 : 3, low = Pick(rng, 0, top), high = Pick(rng, 0, top);
      if (in[d] + low + high < span) continue;
      s.window.push_back(w);
      s.dilation.push_back(dil);
      s.stride.push_back(Pick(rng, 1, 3));
      s.padding.push_back(low);
      s.padding.push_back(high);
      break;
    }
  }
  return s;
}

Dims Spatial(const Array& x) { return Dims(x.v.dims + 2, x.v.dims + x.v.rank); }
int64_t Product(const Dims& d) {
  int64_t n = 1;
  for (int64_t x : d) n *= x;
  return n;
}

void CheckConv(const Array& x, const Array& w, const Array* bias, const Slide& s, int64_t groups, const Array& y) {
  const int64_t outputs = w.v.dims[0], inputs = w.v.dims[1], taps = Product(s.window);
  const Dims in = Spatial(x), out = Spatial(y);
  const int64_t positions = Product(out);
  for (int64_t n = 0; n < x.v.dims[0]; ++n) {
    for (int64_t o = 0; o < outputs; ++o) {
      const int64_t group = o / (outputs / groups);
      for (int64_t p = 0; p < positions; ++p) {
        double sum = bias ? bias->Get(o) : 0, terms = std::abs(sum);
        s.Taps(in, out, p, [&](int64_t tap, const Dims& index) {
          for (int64_t c = 0; c < inputs; ++c) {
            Dims at = {n, group * inputs + c};
            at.insert(at.end(), index.begin(), index.end());
            const double v = x.At(at) * w.Get((o * inputs + c) * taps + tap);
            sum += v;
            terms += std::abs(v);
          }
        });
        ASSERT_TRUE(Close(y.v.dtype, y.Get((n * outputs + o) * positions + p), sum, terms))
            << "image " << n << ", channel " << o << ", position " << p;
      }
    }
  }
}

absl::StatusOr<Array> Conv(const Array& x, const Array& w, const Array* bias, const Slide& s, int64_t groups) {
  return RunOp(Op::k_conv, cpu::k_conv, {&x, &w, bias}, {I(s.stride), I(s.padding), I(s.dilation), groups});
}

TEST(Conv, RandomShapesStridesAndDtypes) {
  Rng rng(1);
  for (int round = 0; round < 400; ++round) {
    const DType t = kFloats[round % 8 < 6 ? round % 8 : 0];
    const int n = static_cast<int>(Pick(rng, 1, 3));
    const int64_t groups = Pick(rng, 1, 3), inputs = Pick(rng, round % 11 == 0 ? 0 : 1, 3), outputs = Pick(rng, 1, 3);
    Dims dx = {Pick(rng, round % 13 == 0 ? 0 : 1, 3), groups * inputs}, dw = {groups * outputs, inputs}, in;
    for (int d = 0; d < n; ++d) in.push_back(Pick(rng, 1, 9));
    const Slide s = RandomSlide(rng, n, in, false);
    dx.insert(dx.end(), in.begin(), in.end());
    dw.insert(dw.end(), s.window.begin(), s.window.end());
    const Array x = Random(rng, t, dx), w = Random(rng, t, dw), b = Random(rng, t, {groups * outputs});
    const Array* bias = rng() % 2 ? &b : nullptr;
    SCOPED_TRACE(absl::StrCat("round ", round, ": ", ToString(x.v), " * ", ToString(w.v), " groups ", groups));
    auto y = Conv(x, w, bias, s, groups);
    ASSERT_TRUE(y.ok()) << y.status();
    CheckConv(x, w, bias, s, groups, *y);
    if (HasFatalFailure()) return;
  }
}

TEST(Conv, LargeOnesAreCutIntoChunks) {
  Rng rng(2);
  for (DType t : {DType::f32, DType::bf16}) {
    const Slide s = {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
    Array x = Contiguous(t, {2, 5, 40, 41}), w = Contiguous(t, {6, 5, 3, 3}), b = Contiguous(t, {6});
    Fill(rng, x), Fill(rng, w), Fill(rng, b);
    auto y = Conv(x, w, &b, s, 1);
    ASSERT_TRUE(y.ok()) << y.status();
    CheckConv(x, w, &b, s, 1, *y);
    // One image with many channels: all threads work on one product.
    Array x1 = Contiguous(t, {1, 96, 7, 7}), w1 = Contiguous(t, {128, 96, 3, 3});
    Fill(rng, x1), Fill(rng, w1);
    auto y1 = Conv(x1, w1, nullptr, s, 1);
    ASSERT_TRUE(y1.ok()) << y1.status();
    CheckConv(x1, w1, nullptr, s, 1, *y1);
    // 1x1: x itself is the right side of the product.
    const Slide one = {{1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}};
    Array w2 = Contiguous(t, {7, 5, 1, 1});
    Fill(rng, w2);
    auto y2 = Conv(x, w2, &b, one, 1);
    EXPECT_FALSE(y2.ok());
    y2 = Conv(x, w2, nullptr, one, 1);
    ASSERT_TRUE(y2.ok()) << y2.status();
    CheckConv(x, w2, nullptr, one, 1, *y2);
  }
}

TEST(Conv, OnePaddingNumberStandsForBothSides) {
  Rng rng(3);
  Array x = Contiguous(DType::f32, {1, 1, 5}), w = Contiguous(DType::f32, {1, 1, 3});
  Fill(rng, x), Fill(rng, w);
  auto one = RunOp(Op::k_conv, cpu::k_conv, {&x, &w}, {I({}), I({2})});
  auto two = RunOp(Op::k_conv, cpu::k_conv, {&x, &w}, {I({}), I({2, 2})});
  auto low = RunOp(Op::k_conv, cpu::k_conv, {&x, &w}, {I({}), I({2, 0})});
  ASSERT_TRUE(one.ok() && two.ok() && low.ok());
  EXPECT_EQ(one->v.dims[2], 7);
  EXPECT_EQ(low->v.dims[2], 5);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(one->Get(i), two->Get(i));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(one->Get(i), low->Get(i));
}

TEST(Conv, NanStaysWhereItsWindowReaches) {
  for (int64_t groups : {1, 2}) {
    Array x = Contiguous(DType::f32, {1, 2, 6}), w = Contiguous(DType::f32, {2, 2 / groups, 2});
    for (int i = 0; i < 12; ++i) x.Set(i, 1);
    for (int i = 0; i < w.v.size(); ++i) w.Set(i, 0);
    x.Set(3, std::nan(""));
    auto y = RunOp(Op::k_conv, cpu::k_conv, {&x, &w}, {I({}), I({}), I({}), groups});
    ASSERT_TRUE(y.ok()) << y.status();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(std::isnan(y->Get(i)), i == 2 || i == 3) << i;
  }
}

TEST(Conv, ShapesMayBeSymbols) {
  ir::SymbolTable symbols;
  const int64_t b = symbols.Named("B"), h = symbols.Named("H");
  TensorType x{DType::f32, 4, false, {b, 3, h, 32}}, w{DType::f32, 4, false, {8, 3, 3, 3}}, y;
  const std::vector<ir::Attr> attrs = {I({2, 2}), I({1, 1}), I({}), int64_t{1}};
  const TensorType* in[] = {&x, &w};
  const absl::Status status = ir::Infer({ir::Info(Op::k_conv), in, attrs, &symbols}, absl::MakeSpan(&y, 1));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(y.dims[0], b);
  EXPECT_EQ(y.dims[3], 16);
  const int64_t values[] = {4, 31};
  EXPECT_EQ(symbols.Evaluate(y.dims[2], values), 16);
}

TEST(Conv, MessagesSayWhatWouldWork) {
  const Array x = Contiguous(DType::f32, {1, 4, 5, 5});
  const auto message = [&](const Dims& w, std::vector<ir::Attr> attrs) {
    const Array weight = Contiguous(DType::f32, w);
    return std::string(RunOp(Op::k_conv, cpu::k_conv, {&x, &weight}, std::move(attrs)).status().message());
  };
  EXPECT_NE(message({8, 3, 3, 3}, {}).find("x's dim 1 (4) must equal weight's dim 1 times groups (3)"),
            std::string::npos);
  EXPECT_NE(message({8, 4, 7, 3}, {}).find("the window needs 7"), std::string::npos);
  EXPECT_NE(message({8, 4, 3, 3}, {I({1})}).find("stride [1] has 1 numbers"), std::string::npos);
  EXPECT_NE(message({8, 4, 3, 3}, {I({}), I({1, 1, 1})}).find("low and high of each spatial dim in turn"),
            std::string::npos);
  EXPECT_NE(message({7, 2, 3, 3}, {I({}), I({}), I({}), int64_t{2}}).find("groups (2) must divide"), std::string::npos);
  EXPECT_NE(message({8, 4, 3}, {}).find("as many dims as x"), std::string::npos);
}

TEST(Pool, RandomShapesStridesAndDtypes) {
  Rng rng(4);
  const DType dtypes[] = {DType::f32,    DType::f64, DType::f16, DType::bf16, DType::f8e4m3,
                          DType::f8e5m2, DType::i64, DType::i32, DType::i8,   DType::u8};
  for (int round = 0; round < 500; ++round) {
    const DType t = dtypes[round % std::size(dtypes)];
    const int n = static_cast<int>(Pick(rng, 1, 3));
    Dims dx = {Pick(rng, round % 13 == 0 ? 0 : 1, 3), Pick(rng, 1, 3)}, in;
    for (int d = 0; d < n; ++d) in.push_back(Pick(rng, 1, 9));
    const Slide s = RandomSlide(rng, n, in, true);
    dx.insert(dx.end(), in.begin(), in.end());
    Array x = Random(rng, t, dx);
    if (IsFloat(t) && round % 5 == 0 && x.v.size() > 0) x.Set(0, std::nan(""));
    const bool count_padding = rng() % 2;
    SCOPED_TRACE(absl::StrCat("round ", round, ": ", ToString(x.v)));
    auto max = RunOp(Op::k_max_pool, cpu::k_max_pool, {&x}, {I(s.window), I(s.stride), I(s.padding), I(s.dilation)});
    ASSERT_TRUE(max.ok()) << max.status();
    absl::StatusOr<Array> avg = *max;
    if (IsFloat(t)) {
      avg = RunOp(Op::k_avg_pool, cpu::k_avg_pool, {&x},
                  {I(s.window), I(s.stride), I(s.padding), I(s.dilation), count_padding});
      ASSERT_TRUE(avg.ok()) << avg.status();
    }
    const Dims out = Spatial(*max);
    const int64_t positions = Product(out);
    for (int64_t i = 0; i < max->v.size(); ++i) {
      double largest = -INFINITY, sum = 0, terms = 0;
      int64_t largest_int = INT64_MIN, count = 0;
      s.Taps(in, out, i % positions, [&](int64_t, const Dims& index) {
        Dims at = {i / positions / dx[1], i / positions % dx[1]};
        at.insert(at.end(), index.begin(), index.end());
        int64_t offset = 0;
        for (size_t d = 0; d < at.size(); ++d) offset += at[d] * x.v.strides[d];
        const char* element = x.v.as<char>() + offset * static_cast<int64_t>(SizeOf(t));
        const double v = cpu::ToDouble(element, t);
        if (!std::isnan(largest) && !(v <= largest)) largest = v;
        largest_int = std::max(largest_int, cpu::ToInt64(element, t));
        sum += v;
        terms += std::abs(v);
        ++count;
      });
      if (count == 0) continue;  // all padding: possible with dilation only
      if (!IsFloat(t)) {
        ASSERT_EQ(max->GetInt(i), largest_int) << i;
        continue;
      }
      ASSERT_TRUE(max->Get(i) == largest || (std::isnan(max->Get(i)) && std::isnan(largest))) << i;
      const double by = count_padding ? Product(s.window) : count;
      ASSERT_TRUE(Close(t, avg->Get(i), sum / by, terms / by)) << i;
    }
  }
}

TEST(Pool, WindowsLieSideBySideWithoutAStride) {
  Array x = Contiguous(DType::f32, {1, 1, 7});
  for (int i = 0; i < 7; ++i) x.Set(i, i);
  auto y = RunOp(Op::k_max_pool, cpu::k_max_pool, {&x}, {I({2})});
  ASSERT_TRUE(y.ok()) << y.status();
  ASSERT_EQ(y->v.dims[2], 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(y->Get(i), 2 * i + 1);
}

TEST(Pool, MessagesSayWhatWouldWork) {
  const Array x = Contiguous(DType::f32, {1, 1, 7});
  const auto message = [&](std::vector<ir::Attr> attrs) {
    return std::string(RunOp(Op::k_max_pool, cpu::k_max_pool, {&x}, std::move(attrs)).status().message());
  };
  EXPECT_NE(message({I({3}), I({}), I({2})}).find("at most half the window"), std::string::npos);
  EXPECT_NE(message({I({3, 3})}).find("one for each of the 1 spatial dims"), std::string::npos);
  EXPECT_NE(message({I({8})}).find("the window needs 8"), std::string::npos);
  EXPECT_NE(message({I({0})}).find("at least 1"), std::string::npos);
  EXPECT_NE(message({I({2}), I({0})}).find("at least 1"), std::string::npos);
}

}  // namespace
}  // namespace tessera
