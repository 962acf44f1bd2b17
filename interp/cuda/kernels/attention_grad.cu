// attention_grad of any dtype and any number of columns, one query or one key a block: f32, f64, and what
// attention_grad_mma.cu cannot take. As there, one kernel gives dq, the logarithms of the weights' sums and the sums of
// g y, from which the other gives dk and dv.
//
// Scores come 128 at a time, one a thread; then each thread has one column, to which it adds all of them in order.
// More columns than threads are done in turns, with the scores computed again.
#include "interp/cuda/attention_args.h"
#include "interp/cuda/kernels/attention_mask.cuh"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 128;

/// The product of two rows of n elements.
template <class C, class T>
__device__ __forceinline__ C Dot(const T* a, int64_t a_step, const T* b, int64_t b_step, int n) {
  C sum = 0;
  for (int i = 0; i < n; ++i) sum = Fma(Get<C>(a[i * a_step]), Get<C>(b[i * b_step]), sum);
  return sum;
}

/// Query `query` of a head against one key, scaled and masked; -inf where it may not be seen.
template <class C, class T>
__device__ __forceinline__ C Score(const AttentionArgs& a, const T* q, const T* k, int64_t mask_at, int query, int key) {
  if (key >= Seen(a, query) || key < First(a, query)) return -Inf(C(0));
  const C score = Dot<C>(q, a.q.col, k, a.k.col, a.dim) * static_cast<C>(a.scale);
  return a.has_mask ? Masked(a, score, MaskAt<C>(a, mask_at + query * a.mask.row + key * a.mask.col)) : score;
}

template <class C>
struct Weights {
  C max, sum;
};

template <class C, class T>
__device__ __forceinline__ void GradOfQueries(const AttentionGradArgs& args) {
  const AttentionArgs& a = args.forward;
  __shared__ C shared[32];
  __shared__ C chunk[kThreads];
  const int t = threadIdx.x;
  for (int64_t row = blockIdx.x; row < a.heads * a.queries; row += gridDim.x) {
    const int64_t head = row / a.queries, kv = head / a.share;
    const int query = static_cast<int>(row - head * a.queries), first = First(a, query), seen = Seen(a, query);
    const T* q = At<const T>(a.q.data) + OffsetOf(a.q.at, head) + query * a.q.row;
    const T* g = At<const T>(args.g.data) + OffsetOf(args.g.at, head) + query * args.g.row;
    const T* y = At<const T>(args.y.data) + OffsetOf(args.y.at, head) + query * args.y.row;
    const T* k = At<const T>(a.k.data) + OffsetOf(a.k.at, kv);
    const T* v = At<const T>(a.v.data) + OffsetOf(a.v.at, kv);
    const int64_t mask_at = a.has_mask ? OffsetOf(a.mask.at, head) : 0;

    Weights<C> mine = {-Inf(C(0)), 0};
    for (int key = first + t; key < seen; key += kThreads) {
      const C s = Score<C>(a, q, k + key * a.k.row, mask_at, query, key);
      const C m = Larger(mine.max, s);
      if (m == -Inf(C(0))) continue;
      mine.sum = mine.sum * Exp(mine.max - m) + Exp(s - m);
      mine.max = m;
    }
    const C max = BlockReduce(mine.max, shared, -Inf(C(0)), [](C x, C z) { return Larger(x, z); });
    const C part = mine.max == -Inf(C(0)) ? C(0) : mine.sum * Exp(mine.max - max);
    const C sum = BlockReduce(part, shared, C(0), [](C x, C z) { return x + z; });
    C less = 0;
    for (int c = t; c < a.value_dim; c += kThreads)
      less = Fma(Get<C>(g[c * args.g.col]), Get<C>(y[c * args.y.col]), less);
    less = BlockReduce(less, shared, C(0), [](C x, C z) { return x + z; });
    const C log = sum == C(0) ? Inf(C(0)) : max + Log(sum);
    if (t == 0) {
      At<C>(args.logs)[row] = log;
      At<C>(args.sums)[row] = less;
    }

    for (int c0 = 0; c0 < a.dim; c0 += kThreads) {
      const int c = c0 + t;
      C total = 0;
      for (int k0 = first; k0 < seen; k0 += kThreads) {
        const int key = k0 + t;
        __syncthreads();  // the chunk before is used up
        if (key < seen) {
          const C w = Exp(Score<C>(a, q, k + key * a.k.row, mask_at, query, key) - log);
          chunk[t] = w * (Dot<C>(g, args.g.col, v + key * a.v.row, a.v.col, a.value_dim) - less);
        }
        __syncthreads();
        const int n = seen - k0 < kThreads ? seen - k0 : kThreads;
        if (c < a.dim) {
          for (int i = 0; i < n; ++i) total = Fma(chunk[i], Get<C>(k[(k0 + i) * a.k.row + c * a.k.col]), total);
        }
      }
      if (c < a.dim) Put(total * static_cast<C>(a.scale), At<T>(args.dq)[row * a.dim + c]);
    }
  }
}

template <class C, class T>
__device__ __forceinline__ void GradOfKeys(const AttentionGradArgs& args) {
  const AttentionArgs& a = args.forward;
  __shared__ C chunk[2][kThreads];
  const int t = threadIdx.x;
  const int64_t kv_heads = a.heads / a.share;
  const int columns = a.dim > a.value_dim ? a.dim : a.value_dim;
  for (int64_t row = blockIdx.x; row < kv_heads * a.keys; row += gridDim.x) {
    const int64_t kv = row / a.keys;
    const int key = static_cast<int>(row - kv * a.keys), first = FirstQuery(a, key), end = QueriesEnd(a, key);
    const T* k = At<const T>(a.k.data) + OffsetOf(a.k.at, kv) + key * a.k.row;
    const T* v = At<const T>(a.v.data) + OffsetOf(a.v.at, kv) + key * a.v.row;
    for (int c0 = 0; c0 < columns; c0 += kThreads) {
      const int c = c0 + t;
      C dk = 0, dv = 0;
      for (int64_t head = kv * a.share; head < (kv + 1) * a.share; ++head) {
        const T* q = At<const T>(a.q.data) + OffsetOf(a.q.at, head);
        const T* g = At<const T>(args.g.data) + OffsetOf(args.g.at, head);
        const int64_t mask_at = a.has_mask ? OffsetOf(a.mask.at, head) : 0;
        for (int q0 = first; q0 < end; q0 += kThreads) {
          const int query = q0 + t;
          __syncthreads();  // the chunk before is used up
          if (query < end) {
            const int64_t at = head * a.queries + query;
            const C w = Exp(Score<C>(a, q + query * a.q.row, k, mask_at, query, key) - At<const C>(args.logs)[at]);
            chunk[0][t] = w;
            chunk[1][t] = w * (Dot<C>(g + query * args.g.row, args.g.col, v, a.v.col, a.value_dim) -
                               At<const C>(args.sums)[at]);
          }
          __syncthreads();
          const int n = end - q0 < kThreads ? end - q0 : kThreads;
          for (int i = 0; i < n; ++i) {
            if (c < a.dim) dk = Fma(chunk[1][i], Get<C>(q[(q0 + i) * a.q.row + c * a.q.col]), dk);
            if (c < a.value_dim) dv = Fma(chunk[0][i], Get<C>(g[(q0 + i) * args.g.row + c * args.g.col]), dv);
          }
        }
      }
      if (c < a.dim) Put(dk * static_cast<C>(a.scale), At<T>(args.dk)[row * a.dim + c]);
      if (c < a.value_dim) Put(dv, At<T>(args.dv)[row * a.value_dim + c]);
    }
  }
}

}  // namespace

#define TSR_GRAD_ROWS(part, fn)                                                                                  \
  extern "C" __global__ void __launch_bounds__(kThreads)                                                         \
      attention_grad_##part##_rows_f32(const __grid_constant__ AttentionGradArgs a) {                            \
    WithStorage<float>(a.forward.dtype, [&](auto tag) { fn<float, typename decltype(tag)::Type>(a); });          \
  }                                                                                                              \
  extern "C" __global__ void __launch_bounds__(kThreads)                                                         \
      attention_grad_##part##_rows_f64(const __grid_constant__ AttentionGradArgs a) {                            \
    fn<double, double>(a);                                                                                       \
  }
TSR_GRAD_ROWS(queries, GradOfQueries)
TSR_GRAD_ROWS(keys, GradOfKeys)

}  // namespace tessera::cuda
