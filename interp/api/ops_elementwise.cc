// Element-wise ops and operators of the public API.
#include "interp/api/eager.h"
#include "ir/power.h"
#include "tessera/ops.h"

namespace tessera {

using api::Run;
using ir::Op;

#define TSR_UNARY(name) \
  Tensor name(const Arg& x) { return Run(Op::k_##name, x, TSR_SITE); }
#define TSR_BINARY(name) \
  Tensor name(const Arg& a, const Arg& b) { return Run(Op::k_##name, a, b, TSR_SITE); }
#define TSR_OPERATOR(symbol, name) \
  Tensor operator symbol(const Arg& a, const Arg& b) { return Run(Op::k_##name, a, b, TSR_SITE); }

TSR_UNARY(neg)
TSR_UNARY(abs)
TSR_UNARY(sign)
TSR_UNARY(square)
TSR_UNARY(reciprocal)
TSR_UNARY(sqrt)
TSR_UNARY(rsqrt)
TSR_UNARY(cbrt)
TSR_UNARY(exp)
TSR_UNARY(exp2)
TSR_UNARY(expm1)
TSR_UNARY(log)
TSR_UNARY(log2)
TSR_UNARY(log10)
TSR_UNARY(log1p)
TSR_UNARY(sin)
TSR_UNARY(cos)
TSR_UNARY(tan)
TSR_UNARY(asin)
TSR_UNARY(acos)
TSR_UNARY(atan)
TSR_UNARY(sinh)
TSR_UNARY(cosh)
TSR_UNARY(tanh)
TSR_UNARY(asinh)
TSR_UNARY(acosh)
TSR_UNARY(atanh)
TSR_UNARY(degrees)
TSR_UNARY(radians)
TSR_UNARY(erf)
TSR_UNARY(erfc)
TSR_UNARY(sigmoid)
TSR_UNARY(softplus)
TSR_UNARY(floor)
TSR_UNARY(ceil)
TSR_UNARY(round)
TSR_UNARY(trunc)
TSR_UNARY(isnan)
TSR_UNARY(isinf)
TSR_UNARY(isfinite)
TSR_UNARY(signbit)
TSR_UNARY(logical_not)
TSR_UNARY(bit_not)
TSR_UNARY(relu)
TSR_UNARY(relu6)
TSR_UNARY(gelu)
TSR_UNARY(gelu_tanh)
TSR_UNARY(silu)
TSR_UNARY(mish)
TSR_UNARY(selu)
TSR_UNARY(hardswish)

TSR_BINARY(gelu_tanh_grad)
TSR_BINARY(add)
TSR_BINARY(sub)
TSR_BINARY(mul)
TSR_BINARY(div)
TSR_BINARY(floor_div)
TSR_BINARY(mod)
TSR_BINARY(fmod)
Tensor pow(const Arg& a, const Arg& b) {
  if (a.kind() == Arg::Kind::tensor && a.tensor().defined()) {
    const bool is_floating = b.kind() == Arg::Kind::floating;
    if (is_floating || b.kind() == Arg::Kind::integer)
      if (ir::IsSquare(a.tensor().dtype(), is_floating, is_floating ? b.floating() : static_cast<double>(b.integer())))
        return Run(Op::k_square, a, TSR_SITE);
  }
  return Run(Op::k_pow, a, b, TSR_SITE);
}
TSR_BINARY(maximum)
TSR_BINARY(minimum)
TSR_BINARY(fmax)
TSR_BINARY(fmin)
TSR_BINARY(atan2)
TSR_BINARY(hypot)
TSR_BINARY(logaddexp)
TSR_BINARY(logaddexp2)
TSR_BINARY(heaviside)
TSR_BINARY(copysign)
TSR_BINARY(gcd)
TSR_BINARY(lcm)
TSR_BINARY(bit_and)
TSR_BINARY(bit_or)
TSR_BINARY(bit_xor)
TSR_BINARY(shift_left)
TSR_BINARY(shift_right)
TSR_BINARY(eq)
TSR_BINARY(ne)
TSR_BINARY(lt)
TSR_BINARY(le)
TSR_BINARY(gt)
TSR_BINARY(ge)
TSR_BINARY(logical_and)
TSR_BINARY(logical_or)
TSR_BINARY(logical_xor)
TSR_BINARY(leaky_relu)
TSR_BINARY(elu)

TSR_OPERATOR(+, add)
TSR_OPERATOR(-, sub)
TSR_OPERATOR(*, mul)
TSR_OPERATOR(/, div)
TSR_OPERATOR(%, mod)
TSR_OPERATOR(&, bit_and)
TSR_OPERATOR(|, bit_or)
TSR_OPERATOR(^, bit_xor)
TSR_OPERATOR(<<, shift_left)
TSR_OPERATOR(>>, shift_right)
TSR_OPERATOR(==, eq)
TSR_OPERATOR(!=, ne)
TSR_OPERATOR(<, lt)
TSR_OPERATOR(<=, le)
TSR_OPERATOR(>, gt)
TSR_OPERATOR(>=, ge)

Tensor operator-(const Arg& x) { return Run(Op::k_neg, x, TSR_SITE); }
Tensor operator!(const Arg& x) { return Run(Op::k_logical_not, x, TSR_SITE); }
Tensor operator~(const Arg& x) { return Run(Op::k_bit_not, x, TSR_SITE); }

Tensor where(const Arg& cond, const Arg& a, const Arg& b) { return Run(Op::k_where, cond, a, b, TSR_SITE); }
Tensor clamp(const Arg& x, const Arg& lo, const Arg& hi) { return Run(Op::k_clamp, x, lo, hi, TSR_SITE); }
Tensor cast(const Arg& x, DType dtype) { return Run(Op::k_cast, {&x}, {dtype}, TSR_SITE); }

std::pair<Tensor, Tensor> divmod(const Arg& a, const Arg& b) { return {floor_div(a, b), mod(a, b)}; }

std::pair<Tensor, Tensor> modf(const Arg& x) {
  Tensor whole = trunc(x);
  // An infinity has the fraction 0, and both parts keep the sign of x.
  Tensor fraction = copysign(where(isinf(x), 0, sub(x, whole)), x);
  return {fraction, copysign(whole, x)};
}

#define TSR_UPDATE(symbol, name)                             \
  Tensor& Tensor::operator symbol(const Arg& other) {        \
    const Arg self(*this, other.where());                    \
    return *this = Run(Op::k_##name, self, other, TSR_SITE); \
  }
TSR_UPDATE(+=, add)
TSR_UPDATE(-=, sub)
TSR_UPDATE(*=, mul)
TSR_UPDATE(/=, div)

}  // namespace tessera
