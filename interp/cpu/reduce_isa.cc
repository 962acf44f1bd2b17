#include "interp/cpu/reduce_isa.h"

#include <stdint.h>

#include "interp/cpu/lanes_isa.h"

namespace tessera::cpu::TSR_ISA {
namespace {

template <class T>
inline constexpr bool kIsFloat = false;
template <>
inline constexpr bool kIsFloat<float> = true;
template <>
inline constexpr bool kIsFloat<double> = true;

template <class T, class A>
struct Accumulators {
  A* acc;
  int64_t stride;
  A& at(int component, int64_t i) const { return acc[component * stride + i]; }
};

template <class T>
constexpr T Lowest();
template <>
constexpr float Lowest() {
  return -__builtin_inff();
}
template <>
constexpr double Lowest() {
  return -__builtin_inf();
}
template <>
constexpr int64_t Lowest() {
  return INT64_MIN;
}
template <>
constexpr int32_t Lowest() {
  return INT32_MIN;
}
template <>
constexpr int8_t Lowest() {
  return INT8_MIN;
}
template <>
constexpr uint8_t Lowest() {
  return 0;
}
template <class T>
constexpr T Highest() {
  return kIsFloat<T> ? static_cast<T>(-Lowest<T>()) : static_cast<T>(~static_cast<uint64_t>(Lowest<T>()));
}

TSR_INLINE int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
TSR_INLINE int64_t WrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Each primitive has: Acc, kComponents, Start(component), Row (a block of a row into accumulator i), Cols, and Merge
// (accumulator j of later elements into i).

/// The sum of x, or of exp(x - m), for floats.
template <class T, class Map>
struct FloatSum {
  using Acc = double;
  static constexpr int kComponents = kIsFloat<T> && sizeof(T) == 8 ? 2 : 1;
  static constexpr Acc Start(int) { return 0; }
  static void Row(const T* x, int64_t n, int64_t, T m, Accumulators<T, Acc> a, int64_t i) {
    double lost, s;
    if constexpr (Map::kIdentity) {
      s = SumOf(x, n, &lost);
    } else {
      alignas(64) T terms[kExpBlock];
      LaneSum<T> sum;
      AddExp<false>(&sum, x, terms, n, m);
      s = sum.Total(&lost);
    }
    Add(a, i, s, lost);
  }
  TSR_INLINE static void Add(Accumulators<T, Acc> a, int64_t i, double s, double lost) {
    if constexpr (kComponents == 2) {
      TwoSum(a.at(0, i), a.at(1, i), s);
      a.at(1, i) += lost;
    } else {
      a.at(0, i) += s;
    }
  }
  static void Cols(const T* __restrict x, int64_t rs, int64_t nrows, int64_t ncols, int64_t, const T* __restrict m,
                   Accumulators<T, Acc> a) {
    double* __restrict s = a.acc;
    double* __restrict lost = a.acc + a.stride;
    int64_t r = 0;
    if constexpr (Map::kIdentity) {
      for (; r + kReduceRowGroup <= nrows; r += kReduceRowGroup, x += kReduceRowGroup * rs) {
        for (int64_t c = 0; c < ncols; ++c) {
          const T t = x[c] + x[rs + c];
          if constexpr (kComponents == 2)
            TwoSum(s[c], lost[c], t);
          else
            s[c] += t;
        }
      }
    }
    for (; r < nrows; ++r, x += rs) {
      for (int64_t c = 0; c < ncols; ++c) {
        const T t = Map::kIdentity ? x[c] : Map::One(x[c], m[c]);
        if constexpr (kComponents == 2)
          TwoSum(s[c], lost[c], t);
        else
          s[c] += t;
      }
    }
  }
  static void Merge(Accumulators<T, Acc> a, int64_t i, Accumulators<T, Acc> b, int64_t j) {
    double lost = 0;
    if constexpr (kComponents == 2) lost = b.at(1, j);
    Add(a, i, b.at(0, j), lost);
  }
};

struct Identity {
  static constexpr bool kIdentity = true;
  template <class T>
  TSR_INLINE static T One(T x, T) {
    return x;
  }
};
struct ExpOf {
  static constexpr bool kIdentity = false;
  template <class T>
  TSR_INLINE static T One(T x, T m) {
    return Exp(x - m);
  }
};

template <class T>
struct IntSum {
  using Acc = int64_t;
  static constexpr int kComponents = 1;
  static constexpr Acc Start(int) { return 0; }
  static void Row(const T* x, int64_t n, int64_t, T, Accumulators<T, Acc> a, int64_t i) {
    if constexpr (sizeof(T) == 1) {
      static_assert(kReduceBlock * 255 < INT32_MAX);
      int32_t s = 0;
      for (int64_t j = 0; j < n; ++j) s += x[j];
      a.at(0, i) = WrapAdd(a.at(0, i), s);
    } else {
      uint64_t s = 0;
      for (int64_t j = 0; j < n; ++j) s += static_cast<uint64_t>(static_cast<int64_t>(x[j]));
      a.at(0, i) = WrapAdd(a.at(0, i), static_cast<int64_t>(s));
    }
  }
  static void Cols(const T* __restrict x, int64_t rs, int64_t nrows, int64_t ncols, int64_t, const T*,
                   Accumulators<T, Acc> a) {
    int64_t* __restrict s = a.acc;
    for (int64_t r = 0; r < nrows; ++r, x += rs)
      for (int64_t c = 0; c < ncols; ++c) s[c] = WrapAdd(s[c], x[c]);
  }
  static void Merge(Accumulators<T, Acc> a, int64_t i, Accumulators<T, Acc> b, int64_t j) {
    a.at(0, i) = WrapAdd(a.at(0, i), b.at(0, j));
  }
};

template <class T>
struct IntProd {
  using Acc = int64_t;
  static constexpr int kComponents = 1;
  static constexpr Acc Start(int) { return 1; }
  static void Row(const T* x, int64_t n, int64_t, T, Accumulators<T, Acc> a, int64_t i) {
    uint64_t p = 1;
    for (int64_t j = 0; j < n; ++j) p *= static_cast<uint64_t>(static_cast<int64_t>(x[j]));
    a.at(0, i) = WrapMul(a.at(0, i), static_cast<int64_t>(p));
  }
  static void Cols(const T* __restrict x, int64_t rs, int64_t nrows, int64_t ncols, int64_t, const T*,
                   Accumulators<T, Acc> a) {
    int64_t* __restrict p = a.acc;
    for (int64_t r = 0; r < nrows; ++r, x += rs)
      for (int64_t c = 0; c < ncols; ++c) p[c] = WrapMul(p[c], x[c]);
  }
  static void Merge(Accumulators<T, Acc> a, int64_t i, Accumulators<T, Acc> b, int64_t j) {
    a.at(0, i) = WrapMul(a.at(0, i), b.at(0, j));
  }
};

/// p * x, with what rounding took from it kept in c.
TSR_INLINE void TwoProd(double& p, double& c, double x, double x_lost) {
  const double t = p * x;
  c = (c * x + p * x_lost) + __builtin_fma(p, x, -t);
  p = t;
}

template <class T>
struct FloatProd {
  using Acc = double;
  static constexpr int kComponents = sizeof(T) == 8 ? 2 : 1;
  static constexpr Acc Start(int component) { return component == 0 ? 1 : 0; }
  TSR_INLINE static void Add(Accumulators<T, Acc> a, int64_t i, double p, double lost) {
    if constexpr (kComponents == 2)
      TwoProd(a.at(0, i), a.at(1, i), p, lost);
    else
      a.at(0, i) *= p;
  }
  static void Row(const T* x, int64_t n, int64_t, T, Accumulators<T, Acc> a, int64_t i) {
    constexpr int kLanes = 8;
    double p[kLanes], lost[kLanes];
    for (int k = 0; k < kLanes; ++k) p[k] = 1, lost[k] = 0;
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) {
      for (int k = 0; k < kLanes; ++k) {
        if constexpr (kComponents == 2)
          TwoProd(p[k], lost[k], x[j + k], 0);
        else
          p[k] *= x[j + k];
      }
    }
    if (j > 0)
      for (int k = 0; k < kLanes; ++k) Add(a, i, p[k], lost[k]);
    for (; j < n; ++j) Add(a, i, x[j], 0);
  }
  static void Cols(const T* __restrict x, int64_t rs, int64_t nrows, int64_t ncols, int64_t, const T*,
                   Accumulators<T, Acc> a) {
    double* __restrict p = a.acc;
    double* __restrict lost = a.acc + a.stride;
    for (int64_t r = 0; r < nrows; ++r, x += rs) {
      for (int64_t c = 0; c < ncols; ++c) {
        if constexpr (kComponents == 2)
          TwoProd(p[c], lost[c], x[c], 0);
        else
          p[c] *= x[c];
      }
    }
  }
  static void Merge(Accumulators<T, Acc> a, int64_t i, Accumulators<T, Acc> b, int64_t j) {
    double lost = 0;
    if constexpr (kComponents == 2) lost = b.at(1, j);
    Add(a, i, b.at(0, j), lost);
  }
};

template <class T, bool kMin>
struct Extreme {
  using Acc = T;
  static constexpr int kComponents = 1;
  static constexpr Acc Start(int) { return kMin ? Highest<T>() : Lowest<T>(); }
  TSR_INLINE static T Of(T best, T x) {
    if constexpr (kIsFloat<T>)
      return Better<kMin>(best, x);
    else
      return (kMin ? x < best : x > best) ? x : best;
  }
  static void Row(const T* x, int64_t n, int64_t, T, Accumulators<T, Acc> a, int64_t i) {
    T best = a.at(0, i);
    if constexpr (kIsFloat<T>) {
      best = ExtremeOf<kMin>(x, n, best);
    } else {
      for (int64_t j = 0; j < n; ++j) best = Of(best, x[j]);
    }
    a.at(0, i) = best;
  }
  static void Cols(const T* __restrict x, int64_t rs, int64_t nrows, int64_t ncols, int64_t, const T*,
                   Accumulators<T, Acc> a) {
    T* __restrict best = a.acc;
    int64_t r = 0;
    for (; r + 2 <= nrows; r += 2, x += 2 * rs)
      for (int64_t c = 0; c < ncols; ++c) best[c] = Of(Of(best[c], x[c]), x[rs + c]);
    for (; r < nrows; ++r, x += rs)
      for (int64_t c = 0; c < ncols; ++c) best[c] = Of(best[c], x[c]);
  }
  static void Merge(Accumulators<T, Acc> a, int64_t i, Accumulators<T, Acc> b, int64_t j) {
    a.at(0, i) = Of(a.at(0, i), b.at(0, j));
  }
};

template <class T, bool kAll>
struct Logic {
  using Acc = uint8_t;
  static constexpr int kComponents = 1;
  static constexpr Acc Start(int) { return kAll; }
  static void Row(const T* x, int64_t n, int64_t, T, Accumulators<T, Acc> a, int64_t i) {
    if (a.at(0, i) != kAll) return;
    uint8_t found = 0;  // one that decides
    for (int64_t j = 0; j < n; ++j) found |= (x[j] != T{0}) != kAll;
    if (found) a.at(0, i) = !kAll;
  }
  static void Cols(const T* __restrict x, int64_t rs, int64_t nrows, int64_t ncols, int64_t, const T*,
                   Accumulators<T, Acc> a) {
    uint8_t* __restrict y = a.acc;
    for (int64_t r = 0; r < nrows; ++r, x += rs) {
      for (int64_t c = 0; c < ncols; ++c) {
        const uint8_t is = x[c] != T{0};
        y[c] = kAll ? y[c] & is : y[c] | is;
      }
    }
  }
  static void Merge(Accumulators<T, Acc> a, int64_t i, Accumulators<T, Acc> b, int64_t j) {
    a.at(0, i) = kAll ? a.at(0, i) & b.at(0, j) : a.at(0, i) | b.at(0, j);
  }
};

template <class T>
struct Deviation {
  using Acc = double;
  static constexpr int kComponents = sizeof(T) == 8 ? 3 : 2;
  static constexpr Acc Start(int) { return 0; }
  TSR_INLINE static void Add(Accumulators<T, Acc> a, int64_t i, double s, double q, double lost) {
    a.at(0, i) += s;
    if constexpr (kComponents == 3) {
      TwoSum(a.at(1, i), a.at(2, i), q);
      a.at(2, i) += lost;
    } else {
      a.at(1, i) += q;
    }
  }
  static void Row(const T* x, int64_t n, int64_t, T m, Accumulators<T, Acc> a, int64_t i) {
    constexpr int kStep = LaneSum<T>::kStep, kLanes = LaneSum<T>::kLanes;
    alignas(64) T d[kStep], q[kStep];
    LaneSum<T> sum, squares;
    int64_t j = 0;
    for (; j + kStep <= n; j += kStep) {
      for (int k = 0; k < kStep; ++k) d[k] = x[j + k] - m, q[k] = d[k] * d[k];
      sum.Step(d);
      squares.Step(q);
    }
    for (; j + kLanes <= n; j += kLanes) {
      for (int k = 0; k < kLanes; ++k) d[k] = x[j + k] - m, q[k] = d[k] * d[k];
      sum.Vector(d);
      squares.Vector(q);
    }
    for (; j < n; ++j) {
      const T e = x[j] - m;
      sum.One(e);
      squares.One(e * e);
    }
    double s_lost, q_lost;
    const double s = sum.Total(&s_lost);
    const double ss = squares.Total(&q_lost);
    Add(a, i, s + s_lost, ss, q_lost);
  }
  static void Cols(const T* __restrict x, int64_t rs, int64_t nrows, int64_t ncols, int64_t, const T* __restrict m,
                   Accumulators<T, Acc> a) {
    double* __restrict s = a.acc;
    double* __restrict q = a.acc + a.stride;
    double* __restrict lost = a.acc + 2 * a.stride;
    int64_t r = 0;
    for (; r + kReduceRowGroup <= nrows; r += kReduceRowGroup, x += kReduceRowGroup * rs) {
      for (int64_t c = 0; c < ncols; ++c) {
        const T d0 = x[c] - m[c], d1 = x[rs + c] - m[c];
        s[c] += d0 + d1;
        const T t = d0 * d0 + d1 * d1;
        if constexpr (kComponents == 3)
          TwoSum(q[c], lost[c], t);
        else
          q[c] += t;
      }
    }
    for (; r < nrows; ++r, x += rs) {
      for (int64_t c = 0; c < ncols; ++c) {
        const T d = x[c] - m[c];
        s[c] += d;
        if constexpr (kComponents == 3)
          TwoSum(q[c], lost[c], d * d);
        else
          q[c] += d * d;
      }
    }
  }
  static void Merge(Accumulators<T, Acc> a, int64_t i, Accumulators<T, Acc> b, int64_t j) {
    double lost = 0;
    if constexpr (kComponents == 3) lost = b.at(2, j);
    Add(a, i, b.at(0, j), b.at(1, j), lost);
  }
};

template <bool kFloat>
struct Wide {
  using Type = int64_t;
};
template <>
struct Wide<true> {
  using Type = double;
};

/// The value in component 0 and the bits of its index in component 1.
template <class T, bool kMin>
struct ArgExtreme {
  using Acc = typename Wide<kIsFloat<T>>::Type;
  static constexpr int kComponents = 2;
  static Acc FromIndex(int64_t i) { return __builtin_bit_cast(Acc, i); }
  static int64_t ToIndex(Acc a) { return __builtin_bit_cast(int64_t, a); }
  static Acc Start(int component) { return component == 0 ? Acc{0} : FromIndex(-1); }
  TSR_INLINE static bool Wins(Acc x, Acc best, int64_t best_index) {
    // Without branches, so that the loop over columns vectorises.
    const int better = kMin ? x < best : x > best;
    const int first_nan = static_cast<int>(x != x) & static_cast<int>(best == best);
    return (better | first_nan | static_cast<int>(best_index < 0)) != 0;
  }
  static void Row(const T* x, int64_t n, int64_t first, T, Accumulators<T, Acc> a, int64_t i) {
    if (n == 0) return;
    T best = x[0];
    if constexpr (kIsFloat<T>)
      best = ExtremeOf<kMin>(x, n, best);
    else
      for (int64_t j = 0; j < n; ++j) best = (kMin ? x[j] < best : x[j] > best) ? x[j] : best;
    if (!Wins(best, a.at(0, i), ToIndex(a.at(1, i)))) return;
    const bool nan = best != best;
    int64_t j = 0;
    for (; j + 32 <= n; j += 32) {
      uint8_t hit = 0;
      for (int k = 0; k < 32; ++k) hit |= nan ? x[j + k] != x[j + k] : x[j + k] == best;
      if (hit) break;
    }
    while (nan ? x[j] == x[j] : x[j] != best) ++j;
    a.at(0, i) = best;
    a.at(1, i) = FromIndex(first + j);
  }
  static void Cols(const T* __restrict x, int64_t rs, int64_t nrows, int64_t ncols, int64_t first, const T*,
                   Accumulators<T, Acc> a) {
    Acc* __restrict best = a.acc;
    Acc* __restrict index = a.acc + a.stride;
    for (int64_t r = 0; r < nrows; ++r, x += rs) {
      for (int64_t c = 0; c < ncols; ++c) {
        const Acc v = x[c];
        const bool wins = Wins(v, best[c], ToIndex(index[c]));
        best[c] = wins ? v : best[c];
        index[c] = wins ? FromIndex(first + r) : index[c];
      }
    }
  }
  static void Merge(Accumulators<T, Acc> a, int64_t i, Accumulators<T, Acc> b, int64_t j) {
    if (ToIndex(b.at(1, j)) < 0 || !Wins(b.at(0, j), a.at(0, i), ToIndex(a.at(1, i)))) return;
    a.at(0, i) = b.at(0, j);
    a.at(1, i) = b.at(1, j);
  }
};

template <class T, class P>
struct Erased {
  using A = typename P::Acc;
  static void Init(void* acc, int64_t stride, int64_t n) {
    for (int k = 0; k < P::kComponents; ++k) {
      const A start = P::Start(k);
      for (int64_t i = 0; i < n; ++i) static_cast<A*>(acc)[k * stride + i] = start;
    }
  }
  static void Rows(const void* x, int64_t row_stride, int64_t nrows, int64_t n, int64_t first, const void* param,
                   void* acc, int64_t stride) {
    const Accumulators<T, A> a = {static_cast<A*>(acc), stride};
    for (int64_t r = 0; r < nrows; ++r) {
      const T* row = static_cast<const T*>(x) + r * row_stride;
      const T m = param != nullptr ? static_cast<const T*>(param)[r] : T{0};
      for (int64_t b = 0; b < n; b += kReduceBlock)
        P::Row(row + b, n - b < kReduceBlock ? n - b : kReduceBlock, first + b, m, a, r);
    }
  }
  static void Cols(const void* x, int64_t row_stride, int64_t nrows, int64_t ncols, int64_t first, const void* param,
                   void* acc, int64_t stride) {
    P::Cols(static_cast<const T*>(x), row_stride, nrows, ncols, first, static_cast<const T*>(param),
            Accumulators<T, A>{static_cast<A*>(acc), stride});
  }
  static void Combine(void* acc, int64_t stride, const void* later, int64_t later_stride, int64_t n) {
    const Accumulators<T, A> a = {static_cast<A*>(acc), stride};
    const Accumulators<T, A> b = {static_cast<A*>(const_cast<void*>(later)), later_stride};
    for (int64_t i = 0; i < n; ++i) P::Merge(a, i, b, i);
  }
  static constexpr ReduceLoop Loop() {
    return {static_cast<int8_t>(P::kComponents), static_cast<int8_t>(sizeof(A)), Init, Rows, Cols, Combine};
  }
};

template <class T, class P>
constexpr ReduceLoop kLoop = Erased<T, P>::Loop();
constexpr ReduceLoop kNone = {0, 0, nullptr, nullptr, nullptr, nullptr};

// ---- running sums

template <class T>
struct FloatScan {
  static void Row(const void* xv, void* yv, int64_t n, bool exclusive, bool reverse, void* carry, double* lost) {
    const T* x = static_cast<const T*>(xv);
    T* y = static_cast<T*>(yv);
    double s = *static_cast<double*>(carry), c = *lost;
    const int64_t step = reverse ? -1 : 1;
    if (reverse) x += n - 1, y += n - 1;
    for (int64_t i = 0; i < n; ++i, x += step, y += step) {
      const double v = *x;
      if (exclusive) *y = Value(s, c);
      Add(s, c, v);
      if (!exclusive) *y = Value(s, c);
    }
    *static_cast<double*>(carry) = s;
    *lost = c;
  }
  static void Step(const void* xv, void* yv, int64_t n, bool exclusive, void* carry, double* __restrict lost) {
    const T* __restrict x = static_cast<const T*>(xv);
    T* __restrict y = static_cast<T*>(yv);
    double* __restrict s = static_cast<double*>(carry);
    if (exclusive) {
      for (int64_t i = 0; i < n; ++i) {
        const T v = x[i];
        y[i] = Value(s[i], lost[i]);
        Add(s[i], lost[i], v);
      }
    } else {
      for (int64_t i = 0; i < n; ++i) {
        Add(s[i], lost[i], x[i]);
        y[i] = Value(s[i], lost[i]);
      }
    }
  }
  TSR_INLINE static void Add(double& s, double& c, double v) {
    if constexpr (sizeof(T) == 8)
      TwoSum(s, c, v);
    else
      s += v;
  }
  TSR_INLINE static T Value(double s, double c) {
    if constexpr (sizeof(T) == 8)
      return Settled(s, c);
    else
      return static_cast<T>(s);
  }
};

template <class T>
struct IntScan {
  static void Row(const void* xv, void* yv, int64_t n, bool exclusive, bool reverse, void* carry, double*) {
    const T* x = static_cast<const T*>(xv);
    int64_t* y = static_cast<int64_t*>(yv);
    int64_t s = *static_cast<int64_t*>(carry);
    const int64_t step = reverse ? -1 : 1;
    if (reverse) x += n - 1, y += n - 1;
    for (int64_t i = 0; i < n; ++i, x += step, y += step) {
      const int64_t next = WrapAdd(s, *x);
      *y = exclusive ? s : next;
      s = next;
    }
    *static_cast<int64_t*>(carry) = s;
  }
  static void Step(const void* xv, void* yv, int64_t n, bool exclusive, void* carry, double*) {
    const T* __restrict x = static_cast<const T*>(xv);
    int64_t* __restrict y = static_cast<int64_t*>(yv);
    int64_t* __restrict s = static_cast<int64_t*>(carry);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t next = WrapAdd(s[i], x[i]);
      y[i] = exclusive ? s[i] : next;
      s[i] = next;
    }
  }
};

}  // namespace

const ReduceLoops kReduceLoops = {{
#define TSR_INT_ROWS(P, ...)                                                      \
  kLoop<int64_t, P<int64_t __VA_ARGS__>>, kLoop<int32_t, P<int32_t __VA_ARGS__>>, \
      kLoop<int8_t, P<int8_t __VA_ARGS__>>, kLoop<uint8_t, P<uint8_t __VA_ARGS__>>
#define TSR_FLOAT_ROWS(P, ...) kLoop<double, P<double __VA_ARGS__>>, kLoop<float, P<float __VA_ARGS__>>
#define TSR_COMMA ,
    {TSR_FLOAT_ROWS(FloatSum, TSR_COMMA Identity), TSR_INT_ROWS(IntSum, )},
    {TSR_FLOAT_ROWS(FloatProd, ), TSR_INT_ROWS(IntProd, )},
    {TSR_FLOAT_ROWS(Extreme, TSR_COMMA false), TSR_INT_ROWS(Extreme, TSR_COMMA false)},
    {TSR_FLOAT_ROWS(Extreme, TSR_COMMA true), TSR_INT_ROWS(Extreme, TSR_COMMA true)},
    {TSR_FLOAT_ROWS(Logic, TSR_COMMA false), TSR_INT_ROWS(Logic, TSR_COMMA false)},
    {TSR_FLOAT_ROWS(Logic, TSR_COMMA true), TSR_INT_ROWS(Logic, TSR_COMMA true)},
    {TSR_FLOAT_ROWS(Deviation, ), kNone, kNone, kNone, kNone},
    {TSR_FLOAT_ROWS(FloatSum, TSR_COMMA ExpOf), kNone, kNone, kNone, kNone},
    {TSR_FLOAT_ROWS(ArgExtreme, TSR_COMMA false), TSR_INT_ROWS(ArgExtreme, TSR_COMMA false)},
    {TSR_FLOAT_ROWS(ArgExtreme, TSR_COMMA true), TSR_INT_ROWS(ArgExtreme, TSR_COMMA true)},
}};

const ScanLoops kScanLoops = {{
    {FloatScan<double>::Row, FloatScan<double>::Step},
    {FloatScan<float>::Row, FloatScan<float>::Step},
    {IntScan<int64_t>::Row, IntScan<int64_t>::Step},
    {IntScan<int32_t>::Row, IntScan<int32_t>::Step},
    {IntScan<int8_t>::Row, IntScan<int8_t>::Step},
    {IntScan<uint8_t>::Row, IntScan<uint8_t>::Step},
}};

}  // namespace tessera::cpu::TSR_ISA
