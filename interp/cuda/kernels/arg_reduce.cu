// Where the largest or smallest element stands: the first of them, or the first NaN.
#include "interp/cuda/kernels/reduce_walk.cuh"

namespace tessera::cuda {
namespace {

template <class C_>
struct Where {
  using C = C_;
  static constexpr bool kPacks = true;
  struct alignas(8) Acc {
    C v;
    int64_t index;  // -1: nothing yet
  };
  static __device__ __forceinline__ Acc Start() { return {C(0), -1}; }
  static __device__ __forceinline__ void Merge(Acc& a, const Acc& b) {
    if (b.index < 0) return;
    const bool a_nan = a.v != a.v, b_nan = b.v != b.v;
    const bool same = a_nan == b_nan && (a_nan || a.v == b.v);
    const bool wins = a.index < 0 || (same ? b.index < a.index : a_nan != b_nan ? b_nan : b.v > a.v);
    if (wins) a = b;
  }
  template <int n, class Index>
  static __device__ __forceinline__ void Block(Acc& a, const C (&v)[n], C turn, Index index) {
    C best = Turned(v[0], turn);
#pragma unroll
    for (int i = 1; i < n; ++i) best = Larger(best, Turned(v[i], turn));
    // A thread's elements come in order, so those of before win a tie.
    const bool nan = best != best;
    if (a.index >= 0 && !(best > a.v) && !(nan && a.v == a.v)) return;
    int first = 0;
#pragma unroll
    for (int i = n - 1; i >= 0; --i) {
      const C x = Turned(v[i], turn);
      if (nan ? x != x : x == best) first = i;
    }
    a = {best, index(first)};
  }
};

template <class C_>
struct WhereOp {
  using C = C_;
  using First = Where<C>;
  using Second = void;
  static __device__ __forceinline__ C Initial(const ReduceArgs& a) { return TurnOf<C>(a.other); }
  static __device__ __forceinline__ void Finish(const ReduceArgs& a, int64_t o, const typename First::Acc& acc, C) {
    At<int64_t>(a.y)[o] = acc.index;
  }
};

}  // namespace

TSR_REDUCE_KERNELS(where_f64, 3, 3, WhereOp<double>)
TSR_REDUCE_KERNELS(where_f32, 3, 3, WhereOp<float>)
TSR_REDUCE_KERNELS(where_int, 2, 2, WhereOp<int64_t>)

}  // namespace tessera::cuda
