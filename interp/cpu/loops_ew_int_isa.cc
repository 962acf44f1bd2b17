// Arithmetic and bits of integers and bools. Overflow wraps: sums and products are formed in unsigned types.
#include "interp/cpu/loops_ew_isa.h"

namespace tessera::cpu::TSR_ISA {
namespace {

template <typename T>
constexpr int kWidth = 8 * sizeof(T);
template <typename T>
constexpr bool kSigned = T(-1) < T(0);

template <typename T>
TSR_MATH T Negated(T x) {
  using U = typename UnsignedOf<T>::Type;
  return static_cast<T>(U(0) - static_cast<U>(x));
}
template <typename T>
TSR_MATH T AbsInt(T x) {
  return x < 0 ? Negated(x) : x;
}
template <typename T>
TSR_MATH T Max(T a, T b) {
  return a > b ? a : b;
}
template <typename T>
TSR_MATH T Min(T a, T b) {
  return a < b ? a : b;
}

// Division by 0 gives 0. By -1 it is a negation, so that the smallest number wraps in place of trapping.
template <typename T>
TSR_MATH T TruncDiv(T a, T b) {
  if (b == 0) return 0;
  if (kSigned<T> && b == T(-1)) return Negated(a);
  return static_cast<T>(a / b);
}
template <typename T>
TSR_MATH T TruncMod(T a, T b) {
  if (b == 0 || (kSigned<T> && b == T(-1))) return 0;
  return static_cast<T>(a % b);
}
template <typename T>
TSR_MATH T FloorDivInt(T a, T b) {
  const T r = TruncMod(a, b);
  return static_cast<T>(TruncDiv(a, b) - (r != 0 && (r < 0) != (b < 0) ? 1 : 0));
}
template <typename T>
TSR_MATH T FloorModInt(T a, T b) {
  const T r = TruncMod(a, b);
  return static_cast<T>(r != 0 && (r < 0) != (b < 0) ? r + b : r);
}

// A negative power is 1 / a^-b truncated: only 1 and -1 leave anything (0 counts as division by 0).
template <typename T>
TSR_MATH T PowInt(T a, T b) {
  using U = typename UnsignedOf<T>::Type;
  if (b < 0) return a == T(1) ? T(1) : kSigned<T> && a == T(-1) ? ((b & 1) != 0 ? T(-1) : T(1)) : T(0);
  U result = 1, base = static_cast<U>(a), e = static_cast<U>(b);
  while (e != 0) {
    if ((e & 1) != 0) result = static_cast<U>(result * base);
    base = static_cast<U>(base * base);
    e = static_cast<U>(e >> 1);
  }
  return static_cast<T>(result);
}

template <typename T>
TSR_MATH typename UnsignedOf<T>::Type Gcd(T a, T b) {
  using U = typename UnsignedOf<T>::Type;
  U u = static_cast<U>(AbsInt(a)), v = static_cast<U>(AbsInt(b));
  while (v != 0) {
    const U r = static_cast<U>(u % v);
    u = v;
    v = r;
  }
  return u;
}
template <typename T>
TSR_MATH T Lcm(T a, T b) {
  using U = typename UnsignedOf<T>::Type;
  const U g = Gcd(a, b);
  return g == 0 ? T(0) : static_cast<T>(static_cast<U>(AbsInt(a)) / g * static_cast<U>(AbsInt(b)));
}

// b outside the width: nothing is left but, to the right, the sign.
template <typename T>
TSR_MATH T ShiftLeft(T a, T b) {
  using U = typename UnsignedOf<T>::Type;
  const bool within = static_cast<U>(b) < U(kWidth<T>);
  const T shifted = static_cast<T>(static_cast<U>(a) << (static_cast<U>(b) & U(kWidth<T> - 1)));
  return within ? shifted : T(0);
}
template <typename T>
TSR_MATH T ShiftRight(T a, T b) {
  using U = typename UnsignedOf<T>::Type;
  const bool within = static_cast<U>(b) < U(kWidth<T>);
  const T shifted = static_cast<T>(a >> (static_cast<U>(b) & U(kWidth<T> - 1)));
  return within ? shifted : a < 0 ? T(-1) : T(0);
}

#define TSR_INT1(X)          \
  X(neg, Negated(x))         \
  X(abs, AbsInt(x))          \
  X(sign, (x > 0) - (x < 0)) \
  X(square, U(x) * U(x))     \
  X(floor, x)                \
  X(ceil, x)                 \
  X(round, x)                \
  X(trunc, x)                \
  X(relu, Max(x, T(0)))      \
  X(relu6, Min(Max(x, T(0)), T(6)))

#define TSR_INT2(X)                              \
  X(sub, U(a) - U(b))                            \
  X(floor_div, FloorDivInt(a, b))                \
  X(mod, FloorModInt(a, b))                      \
  X(fmod, TruncMod(a, b))                        \
  X(pow, PowInt(a, b))                           \
  X(heaviside, a < 0 ? T(0) : a == 0 ? b : T(1)) \
  X(gcd, Gcd(a, b))                              \
  X(lcm, Lcm(a, b))                              \
  X(shift_left, ShiftLeft(a, b))                 \
  X(shift_right, ShiftRight(a, b))

// These have bools too, held as uint8_t 0 and 1.
#define TSR_INT2_BOOL(X) \
  X(maximum, Max(a, b))  \
  X(minimum, Min(a, b))  \
  X(fmax, Max(a, b))     \
  X(fmin, Min(a, b))     \
  X(bit_and, a& b)       \
  X(bit_or, a | b)       \
  X(bit_xor, a ^ b)      \
  X(mul, U(a) * U(b))

#define TSR_INT3(X) X(clamp, Min(Max(a, b), c))

TSR_INT1(TSR_EW1)
TSR_INT2(TSR_EW2)
TSR_INT2_BOOL(TSR_EW2)
TSR_INT3(TSR_EW3)
TSR_EW2(add, U(a) + U(b))
TSR_EW2(add_bool, a | b)
TSR_EW1(bit_not, ~x)
TSR_EW1(bit_not_bool, x ^ 1)

#define TSR_EW_INTS_AND_BOOL(name, ...) TSR_EW_INTS(name) TSR_EW_ENTRY(name, boolean, uint8_t)

const EwEntry kEntries[] = {
    TSR_INT1(TSR_EW_INTS) TSR_INT2(TSR_EW_INTS) TSR_INT2_BOOL(TSR_EW_INTS_AND_BOOL) TSR_INT3(TSR_EW_INTS)
        TSR_EW_INTS(add){ir::Op::k_add, DType::boolean, add_bool_loop<uint8_t>},
    TSR_EW_INTS(bit_not){ir::Op::k_bit_not, DType::boolean, bit_not_bool_loop<uint8_t>},
};

}  // namespace

TSR_EW_LIST(kEwInt, kEntries);

}  // namespace tessera::cpu::TSR_ISA
