// Sum, product, mean, variance, extremes, any, all and logsumexp: what each adds up, and what it makes of it.
#include "interp/cuda/kernels/reduce_walk.cuh"

namespace tessera::cuda {
namespace {

template <class C>
struct AsIs {
  static __device__ __forceinline__ C Of(C x, C) { return x; }
};
template <class C>
struct ExpOf {
  static __device__ __forceinline__ C Of(C x, C m) { return Exp(x - m); }
};

template <class C_, template <class> class Map>
struct Sum {
  using C = C_;
  using Acc = Total<C>;
  static constexpr bool kPacks = true;
  static __device__ __forceinline__ Acc Start() { return Acc{}; }
  template <int n, class Index>
  static __device__ __forceinline__ void Block(Acc& a, const C (&v)[n], C m, Index) {
    C terms[n];
#pragma unroll
    for (int i = 0; i < n; ++i) terms[i] = Map<C>::Of(v[i], m);
    if constexpr (std::is_same_v<C, int64_t>) {
      uint64_t s = 0;
#pragma unroll
      for (int i = 0; i < n; ++i) s += static_cast<uint64_t>(terms[i]);
      a.s += s;
    } else {
      a.Add(TreeSum<n>(terms));
    }
  }
  static __device__ __forceinline__ void Merge(Acc& a, const Acc& b) { a.Merge(b); }
};

/// Floats in f64; what rounding takes from a product of f64 numbers is kept.
template <class C_>
struct Prod {
  using C = C_;
  static constexpr bool kPacks = false;
  struct Acc {
    std::conditional_t<std::is_same_v<C, int64_t>, uint64_t, double> p, lost;
  };
  static __device__ __forceinline__ Acc Start() { return {1, 0}; }
  static __device__ __forceinline__ void Merge(Acc& a, const Acc& b) {
    if constexpr (std::is_same_v<C, double>) {
      const double t = a.p * b.p;
      a.lost = (a.lost * b.p + a.p * b.lost) + Fma(a.p, b.p, -t);
      a.p = t;
    } else {
      a.p *= b.p;
    }
  }
  template <int n, class Index>
  static __device__ __forceinline__ void Block(Acc& a, const C (&v)[n], C, Index) {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<C, int64_t>)
        a.p *= static_cast<uint64_t>(v[i]);
      else
        Merge(a, {static_cast<double>(v[i]), 0});
    }
  }
  static __device__ __forceinline__ auto Value(const Acc& a) {
    if constexpr (std::is_same_v<C, int64_t>)
      return static_cast<int64_t>(a.p);
    else
      return a.p - a.p == 0 ? a.p + a.lost : a.p;
  }
};

/// The largest of Turned elements; NaN if there is one.
template <class C_>
struct Best {
  using C = C_;
  static constexpr bool kPacks = true;
  struct Acc {
    C v;
  };
  static __device__ __forceinline__ Acc Start() {
    if constexpr (std::is_same_v<C, int64_t>)
      return {INT64_MIN};
    else
      return {-Inf(C(0))};
  }
  static __device__ __forceinline__ void Merge(Acc& a, const Acc& b) { a.v = Larger(a.v, b.v); }
  template <int n, class Index>
  static __device__ __forceinline__ void Block(Acc& a, const C (&v)[n], C m, Index) {
#pragma unroll
    for (int i = 0; i < n; ++i) Merge(a, {Turned(v[i], m)});
  }
};

struct Kinds {
  uint32_t zero, other;
};
template <class C_>
struct Logic {
  using C = C_;
  using Acc = Kinds;
  static constexpr bool kPacks = std::is_same_v<C, int64_t>;
  static __device__ __forceinline__ Acc Start() { return {0, 0}; }
  static __device__ __forceinline__ void Merge(Acc& a, const Acc& b) {
    a.zero |= b.zero;
    a.other |= b.other;
  }
  template <int n, class Index>
  static __device__ __forceinline__ void Block(Acc& a, const C (&v)[n], C, Index) {
#pragma unroll
    for (int i = 0; i < n; ++i) Merge(a, {v[i] == C(0), v[i] != C(0)});
  }
};

/// Distances from m and their squares.
template <class C_>
struct Deviation {
  using C = C_;
  static constexpr bool kPacks = true;
  struct Acc {
    double s;
    Total<C> squares;
  };
  static __device__ __forceinline__ Acc Start() { return Acc{}; }
  static __device__ __forceinline__ void Merge(Acc& a, const Acc& b) {
    a.s += b.s;
    a.squares.Merge(b.squares);
  }
  template <int n, class Index>
  static __device__ __forceinline__ void Block(Acc& a, const C (&v)[n], C m, Index) {
    C d[n], q[n];
#pragma unroll
    for (int i = 0; i < n; ++i) {
      d[i] = v[i] - m;
      q[i] = d[i] * d[i];
    }
    a.s += TreeSum<n>(d);
    a.squares.Add(TreeSum<n>(q));
  }
};

// ---- ops

/// As on the cpu, a float result is rounded to the compute type first.
template <class C, class V>
__device__ __forceinline__ void PutResult(const ReduceArgs& a, int64_t o, V value) {
  PutAt<C>(a.y, a.out_dtype, o, static_cast<C>(value));
}

template <class C_>
struct SumOp {
  using C = C_;
  using First = Sum<C, AsIs>;
  using Second = void;
  static __device__ __forceinline__ C Initial(const ReduceArgs&) { return 0; }
  static __device__ __forceinline__ void Finish(const ReduceArgs& a, int64_t o, const Total<C>& acc, C) {
    if constexpr (std::is_same_v<C, int64_t>)
      PutResult<C>(a, o, acc.Value());
    else
      PutResult<C>(a, o, a.other ? acc.Value() / a.count : acc.Value());
  }
};

template <class C_>
struct ProdOp {
  using C = C_;
  using First = Prod<C>;
  using Second = void;
  static __device__ __forceinline__ C Initial(const ReduceArgs&) { return 0; }
  static __device__ __forceinline__ void Finish(const ReduceArgs& a, int64_t o, const typename First::Acc& acc, C) {
    PutResult<C>(a, o, First::Value(acc));
  }
};

template <class C_>
struct BestOp {
  using C = C_;
  using First = Best<C>;
  using Second = void;
  static __device__ __forceinline__ C Initial(const ReduceArgs& a) { return TurnOf<C>(a.other); }
  static __device__ __forceinline__ void Finish(const ReduceArgs& a, int64_t o, const typename First::Acc& acc, C) {
    PutResult<C>(a, o, Turned(acc.v, Initial(a)));
  }
};

template <class C_>
struct LogicOp {
  using C = C_;
  using First = Logic<C>;
  using Second = void;
  static __device__ __forceinline__ C Initial(const ReduceArgs&) { return 0; }
  static __device__ __forceinline__ void Finish(const ReduceArgs& a, int64_t o, const Kinds& acc, C) {
    At<uint8_t>(a.y)[o] = a.other ? acc.zero == 0 : acc.other != 0;
  }
};

// Two passes: the squares are of distances from the mean as rounded to the compute type; the sum of the distances,
// which is not quite 0, makes up for that rounding.
template <class C_>
struct VarOp {
  using C = C_;
  using First = Sum<C, AsIs>;
  using Second = Deviation<C>;
  static __device__ __forceinline__ C Initial(const ReduceArgs&) { return 0; }
  static __device__ __forceinline__ C Param(const ReduceArgs& a, const Total<C>& acc) {
    return static_cast<C>(acc.Value() / a.count);
  }
  static __device__ __forceinline__ void Finish(const ReduceArgs& a, int64_t o, const typename Second::Acc& acc, C) {
    const double rest = a.count - a.correction;
    const double divisor = rest > 0 ? rest : 0;
    const double about_mean = acc.squares.Value() - acc.s * acc.s / a.count;
    PutResult<C>(a, o, (about_mean < 0 ? 0 : about_mean) / divisor);
  }
};

// An infinite maximum would leave inf - inf; with 0 in its place the sum is 0, infinite or NaN, as is its logarithm.
template <class C_>
struct LogSumExpOp {
  using C = C_;
  using First = Best<C>;
  using Second = Sum<C, ExpOf>;
  static __device__ __forceinline__ C Initial(const ReduceArgs&) { return 0; }
  static __device__ __forceinline__ C Param(const ReduceArgs&, const typename First::Acc& acc) {
    return acc.v - acc.v == 0 ? acc.v : C(0);
  }
  static __device__ __forceinline__ void Finish(const ReduceArgs& a, int64_t o, const Total<C>& acc, C m) {
    PutResult<C>(a, o, static_cast<double>(m) + Log(acc.Value()));
  }
};

}  // namespace

// Columns in packs have 16 bytes of 8 rows on their way and an accumulator for each column: 128 registers.
#define TSR_FOR_COMPUTE(name, Op)               \
  TSR_REDUCE_KERNELS(name##_f64, 3, 3, Op<double>)    \
  TSR_REDUCE_KERNELS(name##_f32, 3, 2, Op<float>)     \
  TSR_REDUCE_KERNELS(name##_int, 3, 2, Op<int64_t>)

TSR_FOR_COMPUTE(sum, SumOp)
TSR_FOR_COMPUTE(prod, ProdOp)
TSR_FOR_COMPUTE(best, BestOp)
TSR_FOR_COMPUTE(logic, LogicOp)
TSR_REDUCE_KERNELS(var_f64, 2, 2, VarOp<double>)
TSR_REDUCE_KERNELS(var_f32, 3, 3, VarOp<float>)
TSR_REDUCE_KERNELS(logsumexp_f64, 2, 2, LogSumExpOp<double>)
TSR_REDUCE_KERNELS(logsumexp_f32, 3, 3, LogSumExpOp<float>)

}  // namespace tessera::cuda
