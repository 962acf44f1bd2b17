// Accuracy and special values of interp/cpu/math. The reference for f32 is the C library in f64; for f64 it is the C
// library in long double: IEEE quad on arm64, 80 bits on x86-64, where it adds up to about 0.01 ulp, and a little more
// in the far tails of the compound functions.

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "interp/cpu/math/math.h"

namespace tessera::cpu {
namespace {

namespace m = TSR_ISA;

template <typename T>
using Wider = std::conditional_t<std::is_same_v<T, float>, double, long double>;
template <typename T>
using Word = std::conditional_t<std::is_same_v<T, float>, uint32_t, uint64_t>;

template <typename T>
T FromWord(Word<T> w) {
  return __builtin_bit_cast(T, w);
}

constexpr double kWrong = 1e30;

/// The distance of `got` from `want` in units in the last place of T at `want`; kWrong where no distance makes sense
/// (NaN, infinity or the sign of a zero is not what it should be).
template <typename T>
double Ulps(T got, Wider<T> want) {
  using W = Wider<T>;
  if (std::isnan(want)) return std::isnan(got) ? 0 : kWrong;
  if (std::isnan(got)) return kWrong;
  const T rounded = static_cast<T>(want);
  if (std::isinf(rounded) || std::isinf(got)) {
    if (rounded == got) return 0;
    // One of the two is the largest finite number: right at the threshold, within an ulp.
    const T top = std::copysign(std::numeric_limits<T>::max(), rounded);
    return (got == top || rounded == top) && std::signbit(got) == std::signbit(rounded) ? 1 : kWrong;
  }
  if (got == 0 && std::signbit(got) != std::signbit(want)) return kWrong;
  int exponent = std::numeric_limits<T>::min_exponent;
  if (want != 0) std::frexp(want, &exponent);
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
  const W unit = std::ldexp(W(1), exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::fabs(static_cast<W>(got) - want) / unit);
}

template <typename T>
void AddNeighbours(T x, int reach, std::vector<T>* out) {
  T up = x, down = x;
  out->push_back(x);
  out->push_back(-x);
  for (int i = 0; i < reach; ++i) {
    up = std::nextafter(up, std::numeric_limits<T>::infinity());
    down = std::nextafter(down, -std::numeric_limits<T>::infinity());
    for (T v : {up, -up, down, -down}) out->push_back(v);
  }
}

/// Special values, and neighbourhoods of all places where a function here changes its method or its result its kind.
template <typename T>
std::vector<T> EdgePoints() {
  using L = std::numeric_limits<T>;
  std::vector<T> v = {L::infinity(), -L::infinity(), L::quiet_NaN(), L::max(), -L::max(), L::min(), L::denorm_min()};
  AddNeighbours<T>(0, 20, &v);
  AddNeighbours<T>(L::min(), 5, &v);
  for (int e = L::min_exponent - L::digits; e < L::max_exponent; ++e) AddNeighbours<T>(std::ldexp(T(1), e), 3, &v);
  for (double x : {1.0,
                   0.5,
                   0.6,
                   1.2,
                   2.0,
                   0.41421356237309503,
                   2.414213562373095,
                   0.34657359027997264,
                   1.0397207708399179,
                   0.70710678118654752,
                   1.4142135623730951,
                   0.29289321881345243,
                   0.4142135623730951,
                   4.0,
                   6.0,
                   9.01,
                   10.0,
                   15.0,
                   20.0,
                   28.0,
                   39.5,
                   5.86,
                   26.5,
                   27.2,
                   38.5,
                   88.7228391,
                   89.0,
                   87.3365447,
                   103.972077,
                   105.0,
                   110.0,
                   709.782712893384,
                   708.3964185322641,
                   745.1332191019411,
                   710.4758600739439,
                   746.0,
                   754.0,
                   89.4159851,
                   128.0,
                   126.0,
                   149.0,
                   150.0,
                   1024.0,
                   1022.0,
                   1074.0,
                   1075.0,
                   1e5,
                   1073741824.0,
                   10.9,
                   11.0,
                   22.5}) {
    AddNeighbours<T>(static_cast<T>(x), 30, &v);
  }
  for (int k = 1; k < 2000; ++k) AddNeighbours<T>(static_cast<T>(k * 1.57079632679489661923L), 2, &v);
  return v;
}

template <typename T>
std::vector<T> Points(std::vector<std::pair<double, double>> ranges, int per_range);

/// Every 997th bit pattern, the edges, and uniform values in the ranges that matter to the function.
template <>
std::vector<float> Points<float>(std::vector<std::pair<double, double>> ranges, int per_range) {
  std::vector<float> v = EdgePoints<float>();
  for (uint64_t w = 0; w <= UINT32_MAX; w += 997) v.push_back(FromWord<float>(static_cast<uint32_t>(w)));
  std::mt19937_64 rng(1);
  for (auto [lo, hi] : ranges) {
    std::uniform_real_distribution<double> uniform(lo, hi);
    for (int i = 0; i < per_range * 10; ++i) v.push_back(static_cast<float>(uniform(rng)));
  }
  return v;
}

template <>
std::vector<double> Points<double>(std::vector<std::pair<double, double>> ranges, int per_range) {
  std::vector<double> v = EdgePoints<double>();
  std::mt19937_64 rng(2);
  for (int i = 0; i < per_range; ++i) v.push_back(FromWord<double>(rng()));
  // Near large multiples of pi/2, where reductions cancel.
  for (int i = 0; i < per_range / 8; ++i) {
    const long double k = std::floor(std::ldexp(static_cast<long double>(rng() >> 11), -static_cast<int>(rng() % 53)));
    v.push_back(static_cast<double>(k * 1.570796326794896619231321691639751442L));
  }
  for (auto [lo, hi] : ranges) {
    std::uniform_real_distribution<double> uniform(lo, hi);
    for (int i = 0; i < per_range; ++i) v.push_back(uniform(rng));
  }
  return v;
}

constexpr int kPerRange = 6000;

template <typename T, typename F, typename R>
void CheckUnary(const std::string& name, F f, R reference, double bound,
                std::vector<std::pair<double, double>> ranges) {
  ranges.push_back({-1.5, 1.5});
  double worst = 0;
  T at = 0;
  for (T x : Points<T>(ranges, kPerRange)) {
    const double e = Ulps<T>(f(x), reference(static_cast<Wider<T>>(x)));
    if (e > worst) {
      worst = e;
      at = x;
    }
  }
  std::printf("%-12s %s  max %.3f ulp at %.17g (%a): %.17g\n", name.c_str(), sizeof(T) == 4 ? "f32" : "f64", worst,
              static_cast<double>(at), static_cast<double>(at), static_cast<double>(f(at)));
  EXPECT_LE(worst, bound) << name << " at " << static_cast<double>(at) << " gives " << static_cast<double>(f(at))
                          << ", expected " << static_cast<double>(reference(static_cast<Wider<T>>(at)));
}

#define CHECK_UNARY(Name, reference, bound, ...)                                               \
  TEST(CpuMath, Name) {                                                                        \
    auto ref = [](auto x) { return reference; };                                               \
    CheckUnary<float>(#Name, [](float x) { return m::Name(x); }, ref, bound, {__VA_ARGS__});   \
    CheckUnary<double>(#Name, [](double x) { return m::Name(x); }, ref, bound, {__VA_ARGS__}); \
  }

using Range = std::pair<double, double>;

CHECK_UNARY(Exp, std::exp(x), 1.0, Range(-110, 95), Range(-750, 715))
CHECK_UNARY(Exp2, std::exp2(x), 1.0, Range(-155, 130), Range(-1080, 1026))
CHECK_UNARY(Expm1, std::expm1(x), 1.0, Range(-40, 90), Range(-2, 2), Range(600, 712))
CHECK_UNARY(Log, std::log(x), 1.0, Range(0, 2), Range(0.9, 1.1), Range(0, 1e6))
CHECK_UNARY(Log2, std::log2(x), 1.0, Range(0, 2), Range(0.9, 1.1), Range(0, 1e6))
CHECK_UNARY(Log10, std::log10(x), 1.0, Range(0, 2), Range(0.9, 1.1), Range(0, 1e6))
CHECK_UNARY(Log1p, std::log1p(x), 1.0, Range(-1, 1), Range(-0.1, 0.1), Range(0, 1e6))
CHECK_UNARY(Sqrt, std::sqrt(x), 0.5, Range(0, 10))
CHECK_UNARY(Rsqrt, 1 / std::sqrt(x), 1.0, Range(0, 10))
CHECK_UNARY(Cbrt, std::cbrt(x), 1.0, Range(-10, 10))
CHECK_UNARY(Sin, std::sin(x), 1.0, Range(-10, 10), Range(-1e5, 1e5), Range(-1e10, 1e10))
CHECK_UNARY(Cos, std::cos(x), 1.0, Range(-10, 10), Range(-1e5, 1e5), Range(-1e10, 1e10))
CHECK_UNARY(Tan, std::tan(x), 1.0, Range(-10, 10), Range(-1e5, 1e5), Range(-1e10, 1e10))
CHECK_UNARY(Asin, std::asin(x), 1.0, Range(-1, 1))
CHECK_UNARY(Acos, std::acos(x), 1.0, Range(-1, 1), Range(0.9, 1))
CHECK_UNARY(Atan, std::atan(x), 1.0, Range(-5, 5), Range(-100, 100))
CHECK_UNARY(Sinh, std::sinh(x), 1.0, Range(-5, 5), Range(-90, 90), Range(-712, 712))
CHECK_UNARY(Cosh, std::cosh(x), 1.0, Range(-5, 5), Range(-90, 90), Range(-712, 712))
CHECK_UNARY(Tanh, std::tanh(x), 1.5, Range(-1, 1), Range(-10, 10), Range(-22, 22))
CHECK_UNARY(Asinh, std::asinh(x), 1.0, Range(-5, 5), Range(-1e3, 1e3))
CHECK_UNARY(Acosh, std::acosh(x), 1.0, Range(1, 2), Range(1, 1.001), Range(1, 1e3))
CHECK_UNARY(Atanh, std::atanh(x), 1.0, Range(-1, 1), Range(0.99, 1))
CHECK_UNARY(Erf, std::erf(x), 1.5, Range(-1.2, 1.2), Range(-7, 7))
CHECK_UNARY(Erfc, std::erfc(x), 2.0, Range(-7, 7), Range(0, 28))

/// tanh of the log, without the cancellation and overflow of the plain formula.
template <typename W>
W MishReference(W x) {
  if (x == -std::numeric_limits<W>::infinity()) return -W(0);
  const W e = std::exp(-std::fabs(x));
  return x >= 0 ? x * (1 + 2 * e) / (1 + 2 * e + 2 * e * e) : x * (e * (e + 2) / (e * (e + 2) + 2));
}
template <typename W>
W LogisticReference(W factor, W v) {
  if (v >= 0) return factor / (1 + std::exp(-v));
  const W e = std::exp(v);
  return e == 0 ? factor * 0 : factor * (e / (1 + e));
}
template <typename W>
W SiluReference(W x) {
  return x == -std::numeric_limits<W>::infinity() ? -W(0) : LogisticReference(x, x);
}
template <typename W>
W GeluReference(W x) {
  if (x == -std::numeric_limits<W>::infinity()) return -W(0);
  return x * (std::erfc(-x * W(0.707106781186547524400844362104849039L)) / 2);
}
template <typename W>
W GeluTanhReference(W x) {
  if (x < -1e4) return -W(0);
  return LogisticReference(x, W(1.595769121605730711759784239737527473L) * x * (1 + W(0.044715L) * x * x));
}

CHECK_UNARY(Sigmoid, LogisticReference(decltype(x)(1), x), 3.0, Range(-20, 20), Range(-110, 110), Range(-750, 0))
CHECK_UNARY(Silu, SiluReference(x), 4.0, Range(-20, 20), Range(-110, 110), Range(-760, 0))
CHECK_UNARY(Mish, MishReference(x), 4.0, Range(-20, 20), Range(-110, 110), Range(-760, 0))
CHECK_UNARY(Gelu, GeluReference(x), 4.0, Range(-3, 3), Range(-15, 15), Range(-40, 0))
CHECK_UNARY(GeluTanh, GeluTanhReference(x), 4.0, Range(-3, 3), Range(-12, 12), Range(-23, 0))
CHECK_UNARY(Softplus, (x > 0 ? x : decltype(x)(0)) + std::log1p(std::exp(-std::fabs(x))), 2.0, Range(-20, 20),
            Range(-110, 110), Range(-750, 40))
CHECK_UNARY(Selu, (x > 0 ? x * 1.0507009873554805 : decltype(x)(1.7580993408473766L) * std::expm1(x)), 2.5,
            Range(-20, 20))
CHECK_UNARY(Floor, std::floor(x), 0.0, Range(-100, 100))
CHECK_UNARY(Ceil, std::ceil(x), 0.0, Range(-100, 100))
CHECK_UNARY(Rint, std::nearbyint(x), 0.0, Range(-100, 100))
CHECK_UNARY(Trunc, std::trunc(x), 0.0, Range(-100, 100))

template <typename T, typename F, typename R>
void CheckBinary(const std::string& name, F f, R reference, double bound, const Range& x_range, const Range& y_range) {
  std::vector<std::pair<T, T>> points;
  std::vector<T> special;
  using L = std::numeric_limits<T>;
  for (double v : {0.0, 1.0, 0.5, 2.0, 3.0, 1.5, 1e5, 9007199254740993.0, 4.5e15}) {
    special.push_back(static_cast<T>(v));
    special.push_back(static_cast<T>(-v));
  }
  for (T v :
       {L::infinity(), L::max(), L::min(), L::denorm_min(), L::epsilon(), T(1) + L::epsilon(), T(1) - L::epsilon()}) {
    special.push_back(v);
    special.push_back(-v);
  }
  special.push_back(L::quiet_NaN());
  for (T x : special) {
    for (T y : special) points.push_back({x, y});
  }
  std::mt19937_64 rng(3);
  std::uniform_real_distribution<double> ux(x_range.first, x_range.second), uy(y_range.first, y_range.second);
  const int n = sizeof(T) == 4 ? 300000 : 20000;
  for (int i = 0; i < n; ++i) {
    points.push_back({static_cast<T>(ux(rng)), static_cast<T>(uy(rng))});
    points.push_back({FromWord<T>(static_cast<Word<T>>(rng())), FromWord<T>(static_cast<Word<T>>(rng()))});
    points.push_back({FromWord<T>(static_cast<Word<T>>(rng())), static_cast<T>(uy(rng))});
    points.push_back({FromWord<T>(static_cast<Word<T>>(rng())), static_cast<T>(uy(rng) * 1e-2)});
  }
  double worst = 0;
  T at_x = 0, at_y = 0;
  for (auto [x, y] : points) {
    const double e = Ulps<T>(f(x, y), reference(static_cast<Wider<T>>(x), static_cast<Wider<T>>(y)));
    if (e > worst) {
      worst = e;
      at_x = x;
      at_y = y;
    }
  }
  std::printf("%-12s %s  max %.3f ulp at %.17g, %.17g: %.17g\n", name.c_str(), sizeof(T) == 4 ? "f32" : "f64", worst,
              static_cast<double>(at_x), static_cast<double>(at_y), static_cast<double>(f(at_x, at_y)));
  EXPECT_LE(worst, bound) << name << " at " << static_cast<double>(at_x) << ", " << static_cast<double>(at_y);
}

#define CHECK_BINARY(Name, reference, bound, x_range, y_range)                                                  \
  TEST(CpuMath, Name) {                                                                                         \
    auto ref = [](auto x, auto y) { return reference; };                                                        \
    CheckBinary<float>(#Name, [](float x, float y) { return m::Name(x, y); }, ref, bound, x_range, y_range);    \
    CheckBinary<double>(#Name, [](double x, double y) { return m::Name(x, y); }, ref, bound, x_range, y_range); \
  }

CHECK_BINARY(Pow, std::pow(x, y), 1.0, Range(0, 5), Range(-60, 60))
CHECK_BINARY(Atan2, std::atan2(x, y), 1.0, Range(-5, 5), Range(-5, 5))
CHECK_BINARY(Hypot, std::hypot(x, y), 1.0, Range(-5, 5), Range(-5, 5))
CHECK_BINARY(Fmod, std::fmod(x, y), 0.0, Range(-100, 100), Range(-5, 5))
CHECK_BINARY(Fmax, (x == y ? (std::signbit(x) ? y : x) : std::fmax(x, y)), 0.0, Range(-5, 5), Range(-5, 5))
CHECK_BINARY(Fmin, (x == y ? (std::signbit(x) ? x : y) : std::fmin(x, y)), 0.0, Range(-5, 5), Range(-5, 5))
CHECK_BINARY(Maximum,
             (x != x || y != y ? x + y
              : x == y         ? (std::signbit(x) ? y : x)
                               : std::fmax(x, y)),
             0.0, Range(-5, 5), Range(-5, 5))
CHECK_BINARY(Minimum,
             (x != x || y != y ? x + y
              : x == y         ? (std::signbit(x) ? x : y)
                               : std::fmin(x, y)),
             0.0, Range(-5, 5), Range(-5, 5))
CHECK_BINARY(Copysign, std::copysign(x, y), 0.0, Range(-5, 5), Range(-5, 5))

template <typename W>
W ModReference(W a, W b) {
  const W r = std::fmod(a, b);
  if (r == 0) return std::copysign(W(0), b);
  return (r < 0) != (b < 0) ? r + b : r;
}
CHECK_BINARY(Mod, ModReference(x, y), 0.5, Range(-100, 100), Range(-5, 5))

TEST(CpuMath, FloorDivIsTheFloorOfTheExactQuotient) {
  std::mt19937_64 rng(4);
  std::uniform_real_distribution<double> ua(-1000, 1000), ub(-30, 30);
  for (int i = 0; i < 300000; ++i) {
    const double b = i % 3 == 0 ? std::round(ub(rng)) : ub(rng);
    if (std::fabs(b) < 1) continue;
    const double a = i % 2 == 0 ? b * std::round(ua(rng)) : ua(rng);
    ASSERT_EQ(m::FloorDiv(a, b), static_cast<double>(std::floor(static_cast<long double>(a) / b))) << a << " // " << b;
    const float af = static_cast<float>(a), bf = static_cast<float>(b);
    ASSERT_EQ(m::FloorDiv(af, bf), static_cast<float>(std::floor(static_cast<double>(af) / bf))) << af << " // " << bf;
  }
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(m::FloorDiv(1.0, inf), 0.0);
  EXPECT_EQ(m::FloorDiv(-1.0, inf), -1.0);
  EXPECT_EQ(m::FloorDiv(1.0, -inf), -1.0);
  EXPECT_EQ(m::FloorDiv(1.0, 0.0), inf);
  EXPECT_EQ(m::FloorDiv(-1.0, 0.0), -inf);
  EXPECT_EQ(m::FloorDiv(-1e-300, 1e300), -1.0);
  EXPECT_EQ(m::FloorDiv(1e-300, 1e300), 0.0);
  EXPECT_EQ(m::FloorDiv(1.0, 0.1), 9.0);
  EXPECT_TRUE(std::isnan(m::FloorDiv(0.0, 0.0)));
  EXPECT_TRUE(std::isnan(m::FloorDiv(inf, 2.0)));
  EXPECT_TRUE(std::isnan(m::FloorDiv(std::nan(""), 2.0)));
}

TEST(CpuMath, SoftMaximaKeepTheLargerTermsPrecision) {
  std::mt19937_64 rng(5);
  std::uniform_real_distribution<double> u(-50, 50), gap(-3, 3);
  double worst = 0, worst2 = 0;
  for (int i = 0; i < 40000; ++i) {
    const double a = i % 2 == 0 ? u(rng) : gap(rng);
    const double b = i % 3 == 0 ? u(rng) : a + gap(rng);
    const long double hi = std::max(a, b), d = std::fabs(static_cast<long double>(a) - b);
    const long double l = std::log1p(std::exp(-d)),
                      l2 = std::log1p(std::exp2(-d)) * 1.442695040888963407359924681001892137L;
    auto ulp = [](long double x) { return std::ldexp(1.0L, std::ilogb(x) - 52); };
    worst = std::max<double>(worst, std::fabs(m::LogAddExp(a, b) - (hi + l)) / ulp(std::max(std::fabs(hi), l)));
    worst2 = std::max<double>(worst2, std::fabs(m::LogAddExp2(a, b) - (hi + l2)) / ulp(std::max(std::fabs(hi), l2)));
    const float af = static_cast<float>(a), bf = static_cast<float>(b);
    const double want = std::max(af, bf) + std::log1p(std::exp(-std::fabs(static_cast<double>(af) - bf)));
    ASSERT_LE(Ulps<float>(m::LogAddExp(af, bf), want), std::fabs(want) > 1e-6 ? 0.6 : 1e3) << af << ", " << bf;
  }
  std::printf("LogAddExp    f64  max %.3f ulp; LogAddExp2 %.3f ulp\n", worst, worst2);
  EXPECT_LE(worst, 3.0);
  EXPECT_LE(worst2, 3.0);
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(m::LogAddExp(inf, inf), inf);
  EXPECT_EQ(m::LogAddExp(-inf, -inf), -inf);
  EXPECT_EQ(m::LogAddExp(-inf, 3.0), 3.0);
  EXPECT_EQ(m::LogAddExp(inf, -inf), inf);
  EXPECT_EQ(m::LogAddExp2(2.0, 2.0), 3.0);
  EXPECT_EQ(m::LogAddExp2(-inf, -inf), -inf);
  EXPECT_TRUE(std::isnan(m::LogAddExp(std::nan(""), inf)));
}

TEST(CpuMath, SmallFunctions) {
  EXPECT_EQ(m::Sign(-3.0f), -1.0f);
  EXPECT_EQ(m::Sign(2.0), 1.0);
  EXPECT_TRUE(std::signbit(m::Sign(-0.0)));
  EXPECT_TRUE(std::isnan(m::Sign(std::nan(""))));
  EXPECT_EQ(m::Heaviside(-1.0, 0.5), 0.0);
  EXPECT_EQ(m::Heaviside(0.0, 0.5), 0.5);
  EXPECT_EQ(m::Heaviside(-0.0f, 0.25f), 0.25f);
  EXPECT_EQ(m::Heaviside(7.0f, 0.5f), 1.0f);
  EXPECT_TRUE(std::isnan(m::Heaviside(std::nan(""), 0.5)));
  EXPECT_EQ(m::Elu(2.0, 3.0), 2.0);
  EXPECT_EQ(m::Elu(-1.0, 2.0), 2.0 * m::Expm1(-1.0));
  EXPECT_EQ(m::Exp2(10.0), 1024.0);
  EXPECT_EQ(m::Log10(1000.0), 3.0);
  EXPECT_EQ(m::Log2(0x1p-1074), -1074.0);
  EXPECT_EQ(m::Cbrt(27.0), 3.0);
}

/// Straight-line functions of one argument.
#define TSR_UNARY_FUNCTIONS(X)                                                                                       \
  X(Exp)                                                                                                             \
  X(Exp2)                                                                                                            \
  X(Expm1)                                                                                                           \
  X(Log)                                                                                                             \
  X(Log2)                                                                                                            \
  X(Log10)                                                                                                           \
  X(Log1p)                                                                                                           \
  X(Rsqrt)                                                                                                           \
  X(Cbrt)                                                                                                            \
  X(SinFast) X(CosFast) X(TanFast) X(Asin) X(Acos) X(Atan) X(Sinh) X(Cosh) X(Tanh) X(Asinh) X(Acosh) X(Atanh) X(Erf) \
      X(Erfc) X(Sigmoid) X(Silu) X(Mish) X(Gelu) X(GeluTanh) X(Softplus) X(Selu) X(Sign)

#define X(Name)                                                \
  struct Name##Function {                                      \
    template <typename T>                                      \
    static inline __attribute__((always_inline)) T Call(T x) { \
      return m::Name(x);                                       \
    }                                                          \
  };
TSR_UNARY_FUNCTIONS(X)
#undef X

/// The same function over a block, which the compiler may vectorise, and element by element, which it may not.
template <typename T, typename F>
__attribute__((noinline)) void Block(const T* in, T* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = F::Call(in[i]);
}
template <typename T, typename F>
__attribute__((noinline)) T Single(T x) {
  return F::Call(x);
}
template <typename T, typename F>
void CheckBlock(const char* name) {
  std::mt19937_64 rng(6);
  std::uniform_real_distribution<double> uniform(-20, 20);
  constexpr int kSize = 4093;
  std::vector<T> in(kSize), out(kSize);
  for (int i = 0; i < kSize; ++i) {
    in[i] = i % 2 == 0 ? FromWord<T>(static_cast<Word<T>>(rng())) : static_cast<T>(uniform(rng));
  }
  Block<T, F>(in.data(), out.data(), kSize);
  for (int i = 0; i < kSize; ++i) {
    const T one = Single<T, F>(in[i]);
    if (std::isnan(one) && std::isnan(out[i])) continue;
    ASSERT_EQ(__builtin_bit_cast(Word<T>, one), __builtin_bit_cast(Word<T>, out[i])) << name << " at " << in[i];
  }
}

TEST(CpuMath, BlocksGiveTheBitsOfSingleCalls) {
#define X(Name)                             \
  CheckBlock<float, Name##Function>(#Name); \
  CheckBlock<double, Name##Function>(#Name);
  TSR_UNARY_FUNCTIONS(X)
#undef X
}

}  // namespace
}  // namespace tessera::cpu
