// Element-wise ops: every op in every dtype against libm in long double or plain integer arithmetic, then the driver
// on every kind of operand against itself one element at a time.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "interp/cpu/convert.h"
#include "interp/kernel.h"
#include "runtime/options.h"

namespace tessera::cpu {
namespace {

using ir::Op;
using Real = long double;
using Big = __int128;

constexpr DType kAll[] = {f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i8, u8, boolean};

/// A tensor with memory of its own.
struct Tensor {
  View view;
  std::vector<unsigned char> memory;
  Tensor(DType dtype, std::vector<int64_t> dims) {
    view.dtype = dtype;
    view.rank = static_cast<uint8_t>(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) view.dims[i] = dims[i];
    view.SetContiguousStrides();
    memory.assign(static_cast<size_t>(view.size()) * SizeOf(dtype) + 1, 0xcd);
    view.data = memory.data();
  }
  // A moved vector keeps its memory, and so the view its data.
  Tensor(Tensor&&) = default;
  Tensor(const Tensor&) = delete;
  unsigned char* at(int64_t i) { return memory.data() + static_cast<size_t>(i) * SizeOf(view.dtype); }
};

Real Read(const void* p, DType t) {
  return t == i64 ? static_cast<Real>(ToInt64(p, t)) : static_cast<Real>(ToDouble(p, t));
}

absl::Status RunOp(Op op, std::vector<const View*> in, View* out) {
  View* outs[] = {out};
  return RunElementwise({ir::Info(op), in, outs, {}});
}

// ---- floats

using RealFn = std::function<Real(Real, Real, Real)>;

Real FloorMod(Real a, Real b) {
  const Real r = fmodl(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/// The floor of the exact quotient: of a finite number by an infinite one it is 0 or -1. An infinity by anything but 0
/// is NaN, as in NumPy.
Real FloorQuotient(Real a, Real b) {
  if (b == 0 || std::isnan(a)) return a / b;
  if (std::isinf(a)) return NAN;
  return std::isinf(b) && a != 0 && (a < 0) != (b < 0) ? -1 : floorl(a / b);
}
Real Sigmoid(Real x) { return 1 / (1 + expl(-x)); }
struct Slope {
  Real value;
  Real terms;  // the sum of their absolute values
};
/// Of gelu_tanh, x s(v): s(v) + x s(v) s(-v) v', s the logistic function. Its error is one of the first term for -x,
/// too.
Slope GeluTanhSlope(Real x) {
  const Real k = 2 * sqrtl(2 / acosl(Real(-1))), c = Real(44715) / 1000000, v = k * (x + c * x * x * x);
  const Real s = Sigmoid(v), bend = fabsl(x) > 100 ? 0 : x * s * Sigmoid(-v) * k * (1 + 3 * c * x * x);
  return {s + bend, fmaxl(s, 1 - s) + fabsl(bend)};
}
Real Softplus(Real x) { return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x)); }
Real Max(Real a, Real b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : a > b || (a == b && !std::signbit(a)) ? a : b;
}
Real Min(Real a, Real b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : a < b || (a == b && std::signbit(a)) ? a : b;
}
Real LogAddExp(Real a, Real b, Real base_log) {
  if (std::isnan(a) || std::isnan(b)) return NAN;
  const Real hi = fmaxl(a, b), lo = fminl(a, b);
  return hi == lo ? hi + logl(2) / base_log : hi + log1pl(expl((lo - hi) * base_log)) / base_log;
}

#define F1(expr) [](Real x, Real, Real) -> Real { return expr; }
#define F2(expr) [](Real a, Real b, Real) -> Real { return expr; }

const std::map<Op, RealFn>& RealFns() {
  static const Real pi = acosl(-1);
  static const std::map<Op, RealFn> fns = {
      {Op::k_neg, F1(-x)},
      {Op::k_abs, F1(fabsl(x))},
      {Op::k_sign, F1(std::isnan(x) ? x : Real(x > 0) - Real(x < 0))},
      {Op::k_square, F1(x * x)},
      {Op::k_reciprocal, F1(1 / x)},
      {Op::k_sqrt, F1(sqrtl(x))},
      {Op::k_rsqrt, F1(1 / sqrtl(x))},
      {Op::k_cbrt, F1(cbrtl(x))},
      {Op::k_exp, F1(expl(x))},
      {Op::k_exp2, F1(exp2l(x))},
      {Op::k_expm1, F1(expm1l(x))},
      {Op::k_log, F1(logl(x))},
      {Op::k_log2, F1(log2l(x))},
      {Op::k_log10, F1(log10l(x))},
      {Op::k_log1p, F1(log1pl(x))},
      {Op::k_sin, F1(sinl(x))},
      {Op::k_cos, F1(cosl(x))},
      {Op::k_tan, F1(tanl(x))},
      {Op::k_asin, F1(asinl(x))},
      {Op::k_acos, F1(acosl(x))},
      {Op::k_atan, F1(atanl(x))},
      {Op::k_sinh, F1(sinhl(x))},
      {Op::k_cosh, F1(coshl(x))},
      {Op::k_tanh, F1(tanhl(x))},
      {Op::k_asinh, F1(asinhl(x))},
      {Op::k_acosh, F1(acoshl(x))},
      {Op::k_atanh, F1(atanhl(x))},
      {Op::k_degrees, F1(x * 180 / pi)},
      {Op::k_radians, F1(x * pi / 180)},
      {Op::k_erf, F1(erfl(x))},
      {Op::k_erfc, F1(erfcl(x))},
      {Op::k_sigmoid, F1(Sigmoid(x))},
      {Op::k_softplus, F1(Softplus(x))},
      {Op::k_floor, F1(floorl(x))},
      {Op::k_ceil, F1(ceill(x))},
      {Op::k_round, F1(nearbyintl(x))},
      {Op::k_trunc, F1(truncl(x))},
      {Op::k_isnan, F1(std::isnan(x))},
      {Op::k_isinf, F1(std::isinf(x))},
      {Op::k_isfinite, F1(std::isfinite(x))},
      {Op::k_signbit, F1(std::signbit(x))},
      {Op::k_logical_not, F1(x == 0)},
      {Op::k_relu, F1(x < 0 ? 0 : x)},
      {Op::k_relu6, F1(x < 0   ? 0
                       : x > 6 ? 6
                               : x)},
      {Op::k_gelu, F1(x == -INFINITY ? 0 : x / 2 * erfcl(-x / sqrtl(2)))},
      {Op::k_gelu_tanh,
       F1(x == -INFINITY ? 0 : x * Sigmoid(2 * sqrtl(2 / pi) * (x + Real(44715) / 1000000 * x * x * x)))},
      {Op::k_silu, F1(x == -INFINITY ? 0 : x * Sigmoid(x))},
      {Op::k_mish, F1(x == -INFINITY ? 0 : x * tanhl(Softplus(x)))},
      {Op::k_selu,
       F1(1.0507009873554804934193349852946L * (x > 0 ? x : 1.6732632423543772848170429916717L * expm1l(x)))},
      {Op::k_hardswish, F1(x * ((x + 3 < 0   ? 0
                                 : x + 3 > 6 ? 6
                                             : x + 3) /
                                6))},
      {Op::k_add, F2(a + b)},
      {Op::k_sub, F2(a - b)},
      {Op::k_mul, F2(a * b)},
      {Op::k_div, F2(a / b)},
      {Op::k_floor_div, F2(FloorQuotient(a, b))},
      {Op::k_mod, F2(FloorMod(a, b))},
      {Op::k_fmod, F2(fmodl(a, b))},
      {Op::k_pow, F2(powl(a, b))},
      {Op::k_maximum, F2(Max(a, b))},
      {Op::k_minimum, F2(Min(a, b))},
      {Op::k_fmax, F2(std::isnan(a)   ? b
                      : std::isnan(b) ? a
                                      : Max(a, b))},
      {Op::k_fmin, F2(std::isnan(a)   ? b
                      : std::isnan(b) ? a
                                      : Min(a, b))},
      {Op::k_atan2, F2(atan2l(a, b))},
      {Op::k_hypot, F2(hypotl(a, b))},
      {Op::k_logaddexp, F2(LogAddExp(a, b, 1))},
      {Op::k_logaddexp2, F2(LogAddExp(a, b, logl(2)))},
      {Op::k_heaviside, F2(std::isnan(a) ? a
                           : a < 0       ? 0
                           : a > 0       ? 1
                                         : b)},
      {Op::k_copysign, F2(copysignl(a, b))},
      {Op::k_eq, F2(a == b)},
      {Op::k_ne, F2(a != b)},
      {Op::k_lt, F2(a < b)},
      {Op::k_le, F2(a <= b)},
      {Op::k_gt, F2(a > b)},
      {Op::k_ge, F2(a >= b)},
      {Op::k_logical_and, F2(a != 0 && b != 0)},
      {Op::k_logical_or, F2(a != 0 || b != 0)},
      {Op::k_logical_xor, F2((a != 0) != (b != 0))},
      {Op::k_leaky_relu, F2(a > 0 ? a : b * a)},
      {Op::k_elu, F2(a > 0 ? a : b * expm1l(a))},
      {Op::k_gelu_tanh_grad, F2(b * GeluTanhSlope(a).value)},
      {Op::k_where, [](Real c, Real a, Real b) -> Real { return c != 0 ? a : b; }},
      {Op::k_clamp, [](Real x, Real lo, Real hi) -> Real { return Min(Max(x, lo), hi); }},
  };
  return fns;
}

/// The distance between neighbours of x in f32 or f64; NaN where x has none.
Real UlpOf(Real x, DType t) {
  const int fraction = t == f64 ? 52 : 23, least = t == f64 ? -1074 : -149;
  if (!std::isfinite(x)) return std::numeric_limits<Real>::quiet_NaN();
  if (x == 0) return ldexpl(1, least);
  return ldexpl(1, std::max(ilogbl(x) - fraction, least));
}

double UlpsAllowed(ir::Bound bound) { return bound == ir::Bound::exact ? 0.5001 : bound == ir::Bound::ulp2 ? 2 : 4; }

/// got is within `ulps` of want, in the compute dtype, and then rounded to `dtype`.
bool Near(Real got, Real want, DType dtype, double ulps) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isnan(got)) return false;
  if (got == want) return true;
  const DType compute = ComputeDType(dtype);
  const Real largest =
      compute == f64 ? Real(std::numeric_limits<double>::max()) : Real(std::numeric_limits<float>::max());
  Real slack = static_cast<Real>(ulps) * UlpOf(fminl(fabsl(want), largest), compute);
  if (std::isinf(want)) slack = 0;
  if (!IsNarrowFloat(dtype)) {
    if (std::isinf(got)) return fabsl(want) + slack > largest && (got > 0) == (want > 0);
    return fabsl(got - want) <= slack;
  }
  // Rounding is monotone: what the ends of the interval round to are the ends of what is allowed.
  double ends[2];
  for (int i = 0; i < 2; ++i) {
    const float end = static_cast<float>(i == 0 ? want - slack : want + slack);
    uint16_t bits = 0;
    Convert(&bits, dtype, &end, f32, 1);
    ends[i] = ToDouble(&bits, dtype);
  }
  return got >= ends[0] && got <= ends[1];
}

std::vector<double> Interesting() {
  std::vector<double> values = {
      0.0,    -0.0,   INFINITY, -INFINITY, NAN,      1,        -1,   0.5,   -0.5,  1.5,       -1.5,
      2,      -2,     2.5,      -2.5,      3,        -3,       6,    7,     -7,    10,        1e-3,
      -1e-3,  1e-8,   -1e-8,    1e-30,     -1e-30,   88,       -88,  104,   -104,  700,       -700,
      745,    1e5,    -1e5,     1e7,       -1e7,     3e9,      1e20, -1e20, 1e38,  -1e38,     1e300,
      5e-324, 1e-310, 1e-40,    -1e-44,    0.999999, 1.000001, 448,  57344, 65504, 8388607.5, 4503599627370495.5};
  std::mt19937_64 gen(7);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int i = 0; i < 150; ++i) values.push_back(unit(gen) * (i % 3 == 0 ? 1 : i % 3 == 1 ? 12 : 100));
  for (int i = 0; i < 60; ++i) values.push_back(std::ldexp(unit(gen), static_cast<int>(gen() % 200) - 100));
  return values;
}

std::vector<std::vector<double>> FloatInputs(int arity) {
  const std::vector<double> v = Interesting();
  std::vector<std::vector<double>> in(static_cast<size_t>(arity));
  if (arity == 1) return {v};
  std::mt19937_64 gen(9);
  if (arity == 2) {
    for (size_t i = 0; i < v.size(); ++i)
      for (size_t j = 0; j < v.size(); ++j) {
        // All pairs of the special values, a sample of the others.
        if ((i > 55 || j > 55) && gen() % 16 != 0) continue;
        in[0].push_back(v[i]);
        in[1].push_back(v[j]);
      }
    return in;
  }
  for (int i = 0; i < 3000; ++i)
    for (std::vector<double>& list : in) list.push_back(v[gen() % v.size()]);
  return in;
}

TEST(Elementwise, FloatsAgainstLibm) {
  for (const ir::OpInfo& info : ir::AllOps()) {
    if (info.impl != ir::Impl::ew) continue;
    for (DType dtype : kAll) {
      if (!IsFloat(dtype) || !ir::Allows(info.dtypes, dtype)) continue;
      const auto fn = RealFns().find(info.op);
      ASSERT_NE(fn, RealFns().end()) << "no reference for " << info.name;
      const std::vector<std::vector<double>> values = FloatInputs(info.max_operands);
      const int64_t n = static_cast<int64_t>(values[0].size());
      std::vector<Tensor> in;
      std::vector<const View*> views;
      for (size_t k = 0; k < values.size(); ++k) {
        in.emplace_back(info.op == Op::k_where && k == 0 ? boolean : dtype, std::vector<int64_t>{n});
        for (int64_t i = 0; i < n; ++i) FromDouble(values[k][static_cast<size_t>(i)], in[k].at(i), in[k].view.dtype);
      }
      for (Tensor& t : in) views.push_back(&t.view);
      const bool compare = info.rule == ir::DTypeRule::r_compare;
      Tensor out(compare ? boolean : dtype, {n});
      ASSERT_TRUE(RunOp(info.op, views, &out.view).ok()) << info.name;
      for (int64_t i = 0; i < n; ++i) {
        Real x[3] = {};
        for (size_t k = 0; k < in.size(); ++k) x[k] = Read(in[k].at(i), in[k].view.dtype);
        const Real want = fn->second(x[0], x[1], x[2]);
        const Real got = Read(out.at(i), out.view.dtype);
        double ulps = UlpsAllowed(info.bound);
        // From there on every quotient is an integer, and rounded.
        if (info.op == Op::k_floor_div && fabsl(want) >= (dtype == f64 ? 0x1p53L : 0x1p24L)) ulps = 1;
        // Where the larger operand and the logarithm cancel, the error is one of the operand's size.
        if (info.op == Op::k_logaddexp || info.op == Op::k_logaddexp2) {
          const Real larger = fmaxl(fabsl(x[0]), fabsl(x[1])), whole = fmaxl(fabsl(want), larger);
          if (std::isfinite(whole))
            ulps *= static_cast<double>(UlpOf(whole, ComputeDType(dtype)) / UlpOf(want, ComputeDType(dtype)));
        }
        // The slope has a zero, at which its terms cancel.
        // An infinite gradient is NaN where it is 0, as it may be far out.
        if (info.op == Op::k_gelu_tanh_grad && std::isinf(x[1]) && x[0] < -5) continue;
        if (info.op == Op::k_gelu_tanh_grad && std::isfinite(want)) {
          const Real whole = fabsl(x[1]) * GeluTanhSlope(x[0]).terms;
          ulps *= static_cast<double>(UlpOf(fmaxl(whole, fabsl(want)), ComputeDType(dtype)) /
                                      UlpOf(want, ComputeDType(dtype)));
        }
        const bool good = compare ? got == want : Near(got, want, dtype, ulps);
        if (good) continue;
        ADD_FAILURE() << info.name << " " << Name(dtype) << " of " << static_cast<double>(x[0]) << ", "
                      << static_cast<double>(x[1]) << ", " << static_cast<double>(x[2]) << ": got "
                      << static_cast<double>(got) << ", want " << static_cast<double>(want);
        break;
      }
    }
  }
}

TEST(Elementwise, SignsOfZero) {
  struct Case {
    Op op;
    double a, b;
    bool negative;
  };
  const Case cases[] = {
      {Op::k_neg, 0.0, 0, true},         {Op::k_abs, -0.0, 0, false},       {Op::k_trunc, -0.5, 0, true},
      {Op::k_ceil, -0.5, 0, true},       {Op::k_round, -0.5, 0, true},      {Op::k_sqrt, -0.0, 0, true},
      {Op::k_relu, -0.0, 0, false},      {Op::k_add, -0.0, 0.0, false},     {Op::k_add, -0.0, -0.0, true},
      {Op::k_sub, -0.0, 0.0, true},      {Op::k_mul, -1, 0.0, true},        {Op::k_div, 0.0, -1, true},
      {Op::k_maximum, -0.0, 0.0, false}, {Op::k_maximum, 0.0, -0.0, false}, {Op::k_minimum, 0.0, -0.0, true},
      {Op::k_minimum, -0.0, 0.0, true},  {Op::k_copysign, 0.0, -3, true},   {Op::k_fmod, -4, 2, true},
      {Op::k_sin, -0.0, 0, true},
  };
  for (const Case& c : cases)
    for (DType dtype : {f32, f64, bf16, f16}) {
      Tensor a(dtype, {}), b(dtype, {}), out(dtype, {});
      FromDouble(c.a, a.at(0), dtype);
      FromDouble(c.b, b.at(0), dtype);
      std::vector<const View*> in = {&a.view};
      if (ir::Info(c.op).max_operands == 2) in.push_back(&b.view);
      ASSERT_TRUE(RunOp(c.op, in, &out.view).ok());
      const double got = ToDouble(out.at(0), dtype);
      EXPECT_TRUE(got == 0 && std::signbit(got) == c.negative)
          << ir::Info(c.op).name << " " << c.a << " " << c.b << ": " << got;
    }
}

// ---- integers

int WidthOf(DType t) { return t == boolean ? 1 : 8 * static_cast<int>(SizeOf(t)); }

/// x modulo 2^width, in the range of the dtype.
Big Wrap(Big x, DType t) {
  const Big size = Big(1) << WidthOf(t);
  Big r = ((x % size) + size) % size;
  if (t != u8 && t != boolean && r >= size / 2) r -= size;
  return r;
}

Big FloorDiv(Big a, Big b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
Big AbsBig(Big a) { return a < 0 ? -a : a; }
Big GcdBig(Big a, Big b) { return b == 0 ? AbsBig(a) : GcdBig(b, a % b); }
Big PowBig(Big a, Big b, DType t) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 != 0 ? -1 : 1) : 0;
  unsigned __int128 result = 1, base = static_cast<unsigned __int128>(a);
  for (; b > 0; b /= 2) {
    if (b % 2 == 1) result *= base;
    base *= base;
  }
  return Wrap(static_cast<Big>(result & ~uint64_t{0}), t);
}

using IntFn = std::function<Big(Big, Big, Big, DType)>;
#define I1(expr) [](Big x, Big, Big, DType) -> Big { return expr; }
#define I2(expr) [](Big a, Big b, Big, DType) -> Big { return expr; }
#define IT(expr) [](Big a, Big b, Big, DType t) -> Big { return expr; }

const std::map<Op, IntFn>& IntFns() {
  static const std::map<Op, IntFn> fns = {
      {Op::k_neg, I1(-x)},
      {Op::k_abs, I1(AbsBig(x))},
      {Op::k_sign, I1((x > 0) - (x < 0))},
      {Op::k_square, I1(x * x)},
      {Op::k_floor, I1(x)},
      {Op::k_ceil, I1(x)},
      {Op::k_round, I1(x)},
      {Op::k_trunc, I1(x)},
      {Op::k_isnan, I1(0 * x)},
      {Op::k_isinf, I1(0 * x)},
      {Op::k_isfinite, I1(0 * x + 1)},
      {Op::k_signbit, I1(x < 0)},
      {Op::k_logical_not, I1(x == 0)},
      {Op::k_bit_not, [](Big x, Big, Big, DType t) -> Big { return t == boolean ? 1 - x : -1 - x; }},
      {Op::k_relu, I1(x < 0 ? 0 : x)},
      {Op::k_relu6, I1(x < 0   ? 0
                       : x > 6 ? 6
                               : x)},
      {Op::k_add, IT(t == boolean ? (a != 0 || b != 0) : a + b)},
      {Op::k_sub, I2(a - b)},
      {Op::k_mul, I2(a * b)},
      {Op::k_floor_div, I2(b == 0 ? 0 : FloorDiv(a, b))},
      {Op::k_mod, I2(b == 0 ? 0 : a - b * FloorDiv(a, b))},
      {Op::k_fmod, I2(b == 0 ? 0 : a % b)},
      {Op::k_pow, IT(PowBig(a, b, t))},
      {Op::k_maximum, I2(a > b ? a : b)},
      {Op::k_minimum, I2(a < b ? a : b)},
      {Op::k_fmax, I2(a > b ? a : b)},
      {Op::k_fmin, I2(a < b ? a : b)},
      {Op::k_heaviside, I2(a < 0   ? 0
                           : a > 0 ? 1
                                   : b)},
      {Op::k_gcd, I2(GcdBig(a, b))},
      {Op::k_lcm, I2(a == 0 || b == 0 ? 0 : AbsBig(a / GcdBig(a, b) * b))},
      {Op::k_bit_and, I2(a & b)},
      {Op::k_bit_or, I2(a | b)},
      {Op::k_bit_xor, I2(a ^ b)},
      {Op::k_shift_left, IT(b < 0 || b >= WidthOf(t) ? 0 : static_cast<Big>(static_cast<unsigned __int128>(a) << b))},
      {Op::k_shift_right, IT(b < 0 || b >= WidthOf(t) ? (a < 0 ? -1 : 0) : a >> b)},
      {Op::k_eq, I2(a == b)},
      {Op::k_ne, I2(a != b)},
      {Op::k_lt, I2(a < b)},
      {Op::k_le, I2(a <= b)},
      {Op::k_gt, I2(a > b)},
      {Op::k_ge, I2(a >= b)},
      {Op::k_logical_and, I2(a != 0 && b != 0)},
      {Op::k_logical_or, I2(a != 0 || b != 0)},
      {Op::k_logical_xor, I2((a != 0) != (b != 0))},
      {Op::k_where, [](Big c, Big a, Big b, DType) -> Big { return c != 0 ? a : b; }},
      {Op::k_clamp, [](Big x, Big lo, Big hi, DType) -> Big { return std::min(std::max(x, lo), hi); }},
  };
  return fns;
}

TEST(Elementwise, IntegersAtTheirLimits) {
  std::mt19937_64 gen(11);
  for (const ir::OpInfo& info : ir::AllOps()) {
    if (info.impl != ir::Impl::ew || info.rule == ir::DTypeRule::r_pfloat) continue;
    for (DType dtype : {i64, i32, i8, u8, boolean}) {
      if (!ir::Allows(info.dtypes, dtype)) continue;
      const auto fn = IntFns().find(info.op);
      ASSERT_NE(fn, IntFns().end()) << "no reference for " << info.name;
      std::vector<int64_t> values = {0, 1};
      if (dtype != boolean) {
        const int width = WidthOf(dtype);
        const int64_t top = dtype == u8 ? 255 : static_cast<int64_t>((uint64_t{1} << (width - 1)) - 1);
        const int64_t least = dtype == u8 ? 0 : -top - 1;
        for (int64_t v :
             {int64_t{2}, int64_t{3}, int64_t{5}, int64_t{6}, int64_t{7}, int64_t{8}, int64_t{12}, int64_t{31},
              int64_t{32}, int64_t{63}, int64_t{64}, int64_t{100}, top, top - 1, top / 2, least, least + 1, least / 2})
          values.push_back(v);
        if (dtype != u8)
          for (int64_t v : {-1, -2, -3, -7, -8, -64}) values.push_back(v);
        for (int i = 0; i < 20; ++i)
          values.push_back(static_cast<int64_t>(Wrap(static_cast<Big>(gen() >> (gen() % 60)), dtype)));
      }
      std::vector<Tensor> in;
      const size_t arity = static_cast<size_t>(info.max_operands);
      size_t n = values.size();
      for (size_t k = 1; k < arity; ++k) n *= values.size();
      if (arity == 3) n = 4000;
      std::vector<const View*> views;
      for (size_t k = 0; k < arity; ++k) {
        in.emplace_back(info.op == Op::k_where && k == 0 ? boolean : dtype,
                        std::vector<int64_t>{static_cast<int64_t>(n)});
        for (size_t i = 0; i < n; ++i) {
          const size_t pick = arity == 3 ? gen() : k == 0 ? i : i / values.size();
          FromInt64(values[pick % values.size()], in[k].at(static_cast<int64_t>(i)), in[k].view.dtype);
        }
      }
      for (Tensor& t : in) views.push_back(&t.view);
      const bool compare = info.rule == ir::DTypeRule::r_compare;
      Tensor out(compare ? boolean : dtype, {static_cast<int64_t>(n)});
      ASSERT_TRUE(RunOp(info.op, views, &out.view).ok()) << info.name << " " << Name(dtype);
      for (int64_t i = 0; i < static_cast<int64_t>(n); ++i) {
        Big x[3] = {};
        for (size_t k = 0; k < arity; ++k) x[k] = ToInt64(in[k].at(i), in[k].view.dtype);
        const Big want = Wrap(fn->second(x[0], x[1], x[2], dtype), out.view.dtype);
        ASSERT_EQ(ToInt64(out.at(i), out.view.dtype), static_cast<int64_t>(want))
            << info.name << " " << Name(dtype) << " of " << static_cast<int64_t>(x[0]) << ", "
            << static_cast<int64_t>(x[1]) << ", " << static_cast<int64_t>(x[2]);
      }
    }
  }
}

// ---- operands of every kind, against the op on one element at a time

struct Source {
  DType dtype;
  std::vector<int64_t> dims;
  std::vector<int64_t> steps = {};  // of each dim: memory has |step| * dim elements there; negative: flipped; empty: 1
  bool transposed = false;          // the dims lie in memory in the opposite order
  bool weak = false;
};

/// A view as described onto memory with values of its own.
Tensor Make(const Source& s, std::mt19937_64& gen) {
  const size_t rank = s.dims.size();
  std::vector<int64_t> steps = s.steps.empty() ? std::vector<int64_t>(rank, 1) : s.steps;
  int64_t total = 1;
  for (size_t d = 0; d < rank; ++d) total *= std::max<int64_t>(1, s.dims[d] * std::abs(steps[d]));
  Tensor t(s.dtype, {total});
  for (int64_t i = 0; i < total; ++i) {
    const double v = static_cast<double>(static_cast<int64_t>(gen() % 33)) - 16;
    FromDouble(s.dtype == u8 ? v + 16 : IsFloat(s.dtype) ? v * 0.375 : v, t.at(i), s.dtype);
  }
  t.view.rank = static_cast<uint8_t>(rank);
  t.view.weak = s.weak;
  int64_t stride = 1, first = 0;
  for (size_t j = 0; j < rank; ++j) {
    const size_t d = s.transposed ? j : rank - 1 - j;
    t.view.dims[d] = s.dims[d];
    t.view.strides[d] = stride * steps[d];
    if (steps[d] < 0) first -= (s.dims[d] - 1) * stride * steps[d];
    stride *= std::max<int64_t>(1, s.dims[d] * std::abs(steps[d]));
  }
  t.view.data = t.at(s.dims.empty() || total == 0 ? 0 : std::max<int64_t>(first, 0));
  return t;
}

void CheckAgainstOneByOne(Op op, DType dtype, const std::vector<Source>& sources, std::vector<int64_t> dims) {
  std::mt19937_64 gen(13);
  std::vector<Tensor> in;
  for (const Source& s : sources) in.push_back(Make(s, gen));
  std::vector<const View*> views;
  std::vector<const TensorType*> types;
  for (size_t k = 0; k < in.size(); ++k) views.push_back(&in[k].view), types.push_back(&in[k].view);
  const ir::OpInfo& info = ir::Info(op);
  ASSERT_EQ(ir::OperandDType(info, types), dtype);
  const bool compare = info.rule == ir::DTypeRule::r_compare;
  Tensor out(compare ? boolean : dtype, dims);
  ASSERT_TRUE(RunOp(op, views, &out.view).ok());
  ASSERT_EQ(out.memory.back(), 0xcd) << "written past the end";

  const int rank = static_cast<int>(dims.size());
  const int64_t n = out.view.size();
  for (int64_t i = 0; i < n; ++i) {
    int64_t index[kMaxRank], rest = i;
    for (int d = rank - 1; d >= 0; --d)
      index[d] = rest % dims[static_cast<size_t>(d)], rest /= dims[static_cast<size_t>(d)];
    std::vector<Tensor> one;
    std::vector<const View*> one_views;
    for (size_t k = 0; k < in.size(); ++k) {
      const View& v = in[k].view;
      int64_t at = 0;
      for (int d = 0; d < v.rank; ++d)
        if (v.dims[d] != 1) at += index[d + rank - v.rank] * v.strides[d];
      const bool condition = op == Op::k_where && k == 0;
      one.emplace_back(condition ? boolean : dtype, std::vector<int64_t>{});
      Convert(one.back().at(0), one.back().view.dtype, v.as<char>() + at * static_cast<int64_t>(SizeOf(v.dtype)),
              v.dtype, 1);
    }
    for (Tensor& t : one) one_views.push_back(&t.view);
    Tensor want(out.view.dtype, {});
    ASSERT_TRUE(RunOp(op, one_views, &want.view).ok());
    ASSERT_EQ(std::memcmp(want.at(0), out.at(i), SizeOf(out.view.dtype)), 0)
        << info.name << " element " << i << " of " << n;
  }
}

TEST(ElementwiseDriver, Layouts) {
  for (DType t : {f32, f64, bf16, f8e4m3, i32, i8, boolean}) {
    for (Op op : {Op::k_add, Op::k_lt}) {
      SCOPED_TRACE(std::string(ir::Info(op).name) + " " + std::string(Name(t)));
      CheckAgainstOneByOne(op, t, {{t, {}}, {t, {}}}, {});
      CheckAgainstOneByOne(op, t, {{t, {5, 7}}, {t, {5, 7}}}, {5, 7});
      CheckAgainstOneByOne(op, t, {{t, {5, 7}}, {t, {7}}}, {5, 7});
      CheckAgainstOneByOne(op, t, {{t, {5, 1}}, {t, {1, 7}}}, {5, 7});
      CheckAgainstOneByOne(op, t, {{t, {}}, {t, {5, 7}}}, {5, 7});
      CheckAgainstOneByOne(op, t, {{t, {40, 90}}, {t, {40, 1}}}, {40, 90});
      CheckAgainstOneByOne(op, t, {{t, {90}}, {t, {40, 90}, {1, 1}, true}}, {40, 90});
      CheckAgainstOneByOne(op, t, {{t, {500, 3}}, {t, {3}}}, {500, 3});
      CheckAgainstOneByOne(op, t, {{t, {500, 1}}, {t, {1, 3}, {1, 2}}}, {500, 3});
      CheckAgainstOneByOne(op, t, {{t, {30, 70}, {2, -3}}, {t, {30, 70}, {-1, 1}}}, {30, 70});
      CheckAgainstOneByOne(op, t, {{t, {1300}, {-1}}, {t, {1300}, {2}}}, {1300});
      CheckAgainstOneByOne(op, t, {{t, {4, 0, 3}}, {t, {3}}}, {4, 0, 3});
      CheckAgainstOneByOne(op, t, {{t, {2, 3, 1, 2, 3, 2, 1, 5}}, {t, {3, 2, 1, 3, 1, 4, 5}}},
                           {2, 3, 2, 2, 3, 2, 4, 5});
      CheckAgainstOneByOne(
          op, t, {{t, {2, 2, 2, 2, 2, 2, 2, 3}, {1, -2, 1, 3, -1, 1, 2, -1}}, {t, {2, 2, 2, 2, 2, 2, 2, 3}, {}, true}},
          {2, 2, 2, 2, 2, 2, 2, 3});
    }
  }
}

TEST(ElementwiseDriver, LargeTransposed) {
  CheckAgainstOneByOne(Op::k_sub, f32, {{f32, {300, 230}}, {f32, {300, 230}, {1, 1}, true}}, {300, 230});
  CheckAgainstOneByOne(Op::k_le, bf16, {{bf16, {300, 230}, {1, -1}, true}, {bf16, {230}}}, {300, 230});
  CheckAgainstOneByOne(Op::k_where, i8,
                       {{boolean, {300, 230}, {1, 1}, true}, {i8, {300, 1}}, {i8, {300, 230}, {-1, 1}, true}},
                       {300, 230});
}

TEST(ElementwiseDriver, LengthsAroundBlocks) {
  for (int64_t n : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2049}) {
    CheckAgainstOneByOne(Op::k_sub, f32, {{f32, {n}}, {f32, {n}}}, {n});
    CheckAgainstOneByOne(Op::k_sub, f32, {{f32, {n}}, {f32, {}}}, {n});
    CheckAgainstOneByOne(Op::k_sub, bf16, {{bf16, {n}}, {bf16, {}}}, {n});
    CheckAgainstOneByOne(Op::k_sub, f16, {{f16, {n}, {-1}}, {f16, {n}}}, {n});
    CheckAgainstOneByOne(Op::k_sin, f32, {{f32, {n}}}, {n});
    CheckAgainstOneByOne(Op::k_mod, f64, {{f64, {n}}, {f64, {n}}}, {n});
    CheckAgainstOneByOne(Op::k_mul, i64, {{i64, {3, n}}, {i64, {3, 1}}}, {3, n});
  }
}

TEST(ElementwiseDriver, MixedDTypesAndWeakNumbers) {
  // A value is rounded to the operand dtype first, also when the op then computes in f32.
  CheckAgainstOneByOne(Op::k_add, bf16, {{bf16, {70}}, {f64, {}, {}, false, true}}, {70});
  CheckAgainstOneByOne(Op::k_mul, f32, {{f32, {70}}, {i64, {}, {}, false, true}}, {70});
  CheckAgainstOneByOne(Op::k_add, f32, {{f16, {20, 70}}, {bf16, {70}}}, {20, 70});
  CheckAgainstOneByOne(Op::k_add, i32, {{i8, {20, 70}}, {u8, {20, 70}, {2, 2}}}, {20, 70});
  CheckAgainstOneByOne(Op::k_add, f16, {{f16, {2000}}, {i64, {2000}}}, {2000});
  CheckAgainstOneByOne(Op::k_add, f8e5m2, {{f8e5m2, {2000}}, {i32, {2000}, {-1}}}, {2000});
  CheckAgainstOneByOne(Op::k_le, f32, {{f32, {300, 3}}, {i64, {3}}}, {300, 3});
  CheckAgainstOneByOne(Op::k_eq, f32, {{i32, {300}}, {f64, {}, {}, false, true}}, {300});
  CheckAgainstOneByOne(Op::k_exp, f32, {{i32, {300}}}, {300});
  CheckAgainstOneByOne(Op::k_div, f32, {{boolean, {300}}, {u8, {300}}}, {300});
  CheckAgainstOneByOne(Op::k_isnan, bf16, {{bf16, {300}, {3}}}, {300});
}

TEST(ElementwiseDriver, ThreeOperands) {
  for (DType t : {f64, f32, bf16, f8e4m3, i64, i8}) {
    CheckAgainstOneByOne(Op::k_where, t, {{boolean, {6, 80}}, {t, {6, 80}}, {t, {6, 80}}}, {6, 80});
    CheckAgainstOneByOne(Op::k_where, t, {{boolean, {6, 1}}, {t, {80}}, {t, {6, 80}, {1, -1}}}, {6, 80});
    CheckAgainstOneByOne(Op::k_where, t, {{boolean, {}}, {t, {80}}, {t, {}}}, {80});
    CheckAgainstOneByOne(Op::k_clamp, t, {{t, {6, 80}}, {t, {}}, {t, {80}}}, {6, 80});
    CheckAgainstOneByOne(Op::k_clamp, t, {{t, {600, 2}}, {t, {600, 1}}, {t, {2}}}, {600, 2});
  }
}

// Large enough to be split, by a small grain; splitting changes no bit.
TEST(ElementwiseDriver, ThreadBoundaries) {
  rt::Options& options = rt::options();
  const std::string before = *options.Get("parallel_grain");
  ASSERT_TRUE(options.Set("parallel_grain", "1000").ok());
  for (int64_t n : {999, 1000, 1001, 1999, 2001, 9001}) {
    CheckAgainstOneByOne(Op::k_add, f32, {{f32, {n}}, {f32, {n}}}, {n});
    CheckAgainstOneByOne(Op::k_where, f32, {{boolean, {n}}, {f32, {n}}, {f32, {n}}}, {n});
    CheckAgainstOneByOne(Op::k_add, bf16, {{bf16, {n}}, {bf16, {}}}, {n});
    CheckAgainstOneByOne(Op::k_lt, f64, {{f64, {n, 3}}, {f64, {3}}}, {n, 3});
    CheckAgainstOneByOne(Op::k_sub, i32, {{i32, {3, n}}, {i32, {3, n}, {1, 1}, true}}, {3, n});
  }
  ASSERT_TRUE(options.Set("parallel_grain", before).ok());
}

TEST(ElementwiseDriver, EveryRowHasItsLoops) {
  for (const ir::OpInfo& info : ir::AllOps()) {
    if (info.impl != ir::Impl::ew) continue;
    for (DType t : kAll) {
      if (!ir::Allows(info.dtypes, t)) continue;
      std::vector<Tensor> in;
      std::vector<const View*> views;
      std::vector<const TensorType*> types;
      for (int k = 0; k < info.max_operands; ++k) {
        in.emplace_back(info.op == Op::k_where && k == 0 ? boolean : t, std::vector<int64_t>{});
        FromDouble(1, in.back().at(0), in.back().view.dtype);
      }
      for (Tensor& x : in) views.push_back(&x.view), types.push_back(&x.view);
      const DType dtype = ir::OperandDType(info, types);
      Tensor out(info.rule == ir::DTypeRule::r_compare ? boolean : dtype, {});
      EXPECT_TRUE(RunOp(info.op, views, &out.view).ok()) << info.name << " " << Name(t);
    }
  }
}

}  // namespace
}  // namespace tessera::cpu
