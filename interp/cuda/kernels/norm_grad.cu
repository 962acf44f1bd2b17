// layer_norm_grad and rms_norm_grad. A group of threads holds a row of x and one of g in registers, so that each is
// read once, and keeps the sums for weight and bias of its columns over all rows that it meets. The groups of a block
// join their sums, norm_grad_end adds those of the blocks: always in one order. Rows too long for that, and rare
// dtypes, take the plain walk, which reads from memory as often as it needs.
#include "interp/cuda/kernels/mma.cuh"
#include "interp/cuda/kernels/row_regs.cuh"
#include "interp/cuda/norm_grad_args.h"

namespace tessera::cuda {
namespace {

template <class S>
struct Two {
  S a, b;
};

/// May rows be read in packs? The same answer for every row.
template <class T>
__device__ __forceinline__ bool Packs(const NormGradArgs& a) {
  constexpr int V = kPack<T>;
  int64_t steps = a.n;
  for (int d = 0; d < a.x_rows.rank; ++d) steps |= a.x_rows.strides[d];
  for (int d = 0; d < a.g_rows.rank; ++d) steps |= a.g_rows.strides[d];
  bool fits = steps % V == 0 && Aligned<T, V>(At<const T>(a.x)) && Aligned<T, V>(At<const T>(a.g)) &&
              Aligned<T, V>(At<const T>(a.dx));
  if (a.weight) fits = fits && Aligned<T, V>(At<const T>(a.weight));
  return fits;
}

// Results of narrow types are rounded to far less than f32 has.
template <class T>
using SumOf = std::conditional_t<sizeof(T) < 4, float, double>;

/// The sums of all groups of the block.
template <int n>
__device__ __forceinline__ void StoreSums(const NormGradArgs& a, int lanes, const float (&dw)[n], const float (&db)[n],
                                          float* joined) {
  const int groups = blockDim.x / lanes, group = threadIdx.x / lanes, t = threadIdx.x % lanes;
  float* part = At<float>(a.parts) + static_cast<int64_t>(blockIdx.x) * 2 * a.slots;
  if (groups == 1) {
#pragma unroll
    for (int k = 0; k < n; ++k) {
      part[k * lanes + t] = dw[k];
      part[a.slots + k * lanes + t] = db[k];
    }
    return;
  }
#pragma unroll
  for (int which = 0; which < 2; ++which) {
    __syncthreads();
#pragma unroll
    for (int k = 0; k < n; ++k) joined[(group * n + k) * 32 + t] = which ? db[k] : dw[k];
    __syncthreads();
    for (int k = group; k < n; k += groups) {
      float sum = 0;
      for (int i = 0; i < groups; ++i) sum += joined[(i * n + k) * 32 + t];
      part[which * a.slots + k * 32 + t] = sum;
    }
  }
}

template <class T, int n, bool packs>
__device__ __forceinline__ void RowsOf(const NormGradArgs& a, Two<SumOf<T>>* shared, float* joined) {
  using S = SumOf<T>;
  const int lanes = n > 16 ? 32 : a.lanes;
  const int groups = blockDim.x / lanes, group = threadIdx.x / lanes, t = threadIdx.x % lanes;
  const S count = static_cast<S>(a.n);
  const auto sums = [&](float x, float y) {
    return GroupMerge(Two<S>{static_cast<S>(x), static_cast<S>(y)}, lanes, shared, Two<S>{0, 0},
                      [](Two<S>& p, const Two<S>& q) { p.a += q.a, p.b += q.b; });
  };
  float dw[n] = {}, db[n] = {};
  const uint32_t mask = RowMask<T, n>(static_cast<int>(a.n), t, lanes, packs);
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * groups; first < a.n_rows;
       first += static_cast<int64_t>(gridDim.x) * groups) {
    const int64_t row = first + group;
    const bool valid = row < a.n_rows;
    const int elements = valid ? static_cast<int>(a.n) : 0;
    float x[n], g[n];
    LoadRow(At<const T>(a.x) + (valid ? OffsetOf(a.x_rows, row) : 0), elements, t, lanes, packs, 0.0f, x);
    LoadRow(At<const T>(a.g) + (valid ? OffsetOf(a.g_rows, row) : 0), elements, t, lanes, packs, 0.0f, g);
    float mean = 0;
    if (!a.rms) mean = static_cast<float>(sums(ThreadSum(x, [](float v, int) { return v; }), 0).a / count);
    const S squares = sums(ThreadSum(x,
                                     [&](float v, int k) {
                                       const float d = mask >> k & 1 ? v - mean : 0.0f;
                                       return d * d;
                                     }),
                           0)
                          .a;
    // Without a row there is nothing to add, whatever eps is.
    const float scale = valid ? static_cast<float>(1 / Sqrt(static_cast<double>(squares / count) + a.eps)) : 0.0f;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      x[k] = (x[k] - mean) * scale;
      dw[k] += g[k] * x[k];  // g is 0 beyond the row's end
      db[k] += g[k];
    }
    if (a.weight) {
      float w[n];
      LoadRow(At<const T>(a.weight), elements, t, lanes, packs, 0.0f, w);
#pragma unroll
      for (int k = 0; k < n; ++k) g[k] = g[k] * w[k];
    }
    const Two<S> means =
        sums(ThreadSum(g, [](float v, int) { return v; }), ThreadSum(g, [&](float v, int k) { return v * x[k]; }));
    const float less = a.rms ? 0.0f : static_cast<float>(means.a / count);
    const float along = static_cast<float>(means.b / count);
#pragma unroll
    for (int k = 0; k < n; ++k) g[k] = ((g[k] - less) - x[k] * along) * scale;
    StoreRow(At<T>(a.dx) + (valid ? row * a.n : 0), elements, t, lanes, packs, g);
  }
  StoreSums(a, lanes, dw, db, joined);
}

/// What a thread has of a row of x and of one of g: packs in shared memory, there or on their way.
template <class T, int n>
struct Fetched {
  static constexpr int V = kPack<T>, kPacks = n / V;
  Pack<T, V>* mine;  // every blockDim.x-th is this thread's: first those of x

  /// Begins to fetch `count` elements of each, with zeros beyond.
  __device__ __forceinline__ void Begin(const T* x, const T* g, int count, int t, int lanes) const {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int i = (k * lanes + t) * V;
      CopyAsync(SharedAddress(mine + k * blockDim.x), x + i, i < count);
      CopyAsync(SharedAddress(mine + (kPacks + k) * blockDim.x), g + i, i < count);
    }
  }
  __device__ __forceinline__ void Get(int which, float (&v)[n]) const {
#pragma unroll
    for (int k = 0; k < n; ++k) v[k] = cuda::Get<float>(mine[(which * kPacks + k / V) * blockDim.x].at[k % V]);
  }
};

/// The same for packs of narrow types. Few warps fit beside each other, so each fetches its next rows while it works on
/// those that it has, and sums are taken in two rounds instead of three.
template <class T, int n>
__device__ __forceinline__ void RowsAhead(const NormGradArgs& a, Two<float>* shared, float* room) {
  constexpr int V = kPack<T>;
  const int lanes = n > 16 ? 32 : a.lanes;
  const int groups = blockDim.x / lanes, group = threadIdx.x / lanes, t = threadIdx.x % lanes;
  const int64_t step = static_cast<int64_t>(gridDim.x) * groups;
  // What is more than 0 stays so in f32.
  const float size = static_cast<float>(a.n), small = a.eps > 0 ? 0x1p-126f : 0.0f;
  const float eps = fmaxf(static_cast<float>(a.eps), small);
  const auto means_of = [&](float p, float q) {
    const Two<float> sums = GroupMerge(Two<float>{p, q}, lanes, shared, Two<float>{0, 0},
                                       [](Two<float>& to, const Two<float>& from) { to.a += from.a, to.b += from.b; });
    return Two<float>{sums.a / size, sums.b / size};
  };
  const Fetched<T, n> fetched = {reinterpret_cast<Pack<T, V>*>(room) + threadIdx.x};
  const auto count_of = [&](int64_t row) { return row < a.n_rows ? static_cast<int>(a.n) : 0; };
  const auto fetch = [&](int64_t row) {
    const int64_t valid = row < a.n_rows ? row : 0;
    fetched.Begin(At<const T>(a.x) + OffsetOf(a.x_rows, valid), At<const T>(a.g) + OffsetOf(a.g_rows, valid),
                  count_of(row), t, lanes);
  };
  int64_t row = static_cast<int64_t>(blockIdx.x) * groups + group;
  fetch(row);

  float dw[n] = {}, db[n] = {};
  const uint32_t mask = RowMask<T, n>(static_cast<int>(a.n), t, lanes, true);
  for (; row - group < a.n_rows; row += step) {
    const int count = count_of(row);
    float x[n], g[n];
    WaitForOwnCopies();
    fetched.Get(0, x);
    fetched.Get(1, g);
    fetch(row + step);
    float h[n];  // of what the weight was multiplied with
    LoadRow(At<const T>(a.weight), a.weight ? count : 0, t, lanes, true, 1.0f, h);
#pragma unroll
    for (int k = 0; k < n; ++k) h[k] *= g[k];
    float mean = 0, less = 0;
    if (!a.rms) {
      const auto itself = [](float v, int) { return v; };
      const Two<float> means = means_of(ThreadSum(x, itself), ThreadSum(h, itself));
      mean = means.a;
      less = means.b;
    }
#pragma unroll
    for (int k = 0; k < n; ++k) x[k] = mask >> k & 1 ? x[k] - mean : 0.0f;
    const Two<float> squares = means_of(ThreadSum(x, [](float v, int) { return v * v; }),
                                        ThreadSum(x, [&](float v, int k) { return v * h[k]; }));
    // Without a row there is nothing to add, whatever eps is.
    const float scale = count > 0 ? 1.0f / Sqrt(squares.a + eps) : 0.0f;
    const float along = squares.b * scale;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      x[k] *= scale;
      dw[k] += g[k] * x[k];  // g is 0 beyond the row's end
      db[k] += g[k];
      g[k] = ((h[k] - less) - x[k] * along) * scale;
    }
    StoreRow(At<T>(a.dx) + (count > 0 ? row * a.n : 0), count, t, lanes, true, g);
  }
  // What was fetched last, zeros, must not come after the sums that take its place.
  WaitForOwnCopies();
  StoreSums(a, lanes, dw, db, room);
}

template <class T, int n>
__device__ __forceinline__ void Rows(const NormGradArgs& a) {
  __shared__ Two<SumOf<T>> shared[32];
  // n floats of each thread: what is fetched, then the sums of groups.
  extern __shared__ __align__(16) float joined[];
  if (!Packs<T>(a))
    RowsOf<T, n, false>(a, shared, joined);
  else if constexpr (sizeof(T) < 4)
    RowsAhead<T, n>(a, shared, joined);
  else
    RowsOf<T, n, true>(a, shared, joined);
}

// ---- the plain walk

/// A block for each row: dx, mean and scale.
template <class C>
__device__ __forceinline__ void PlainRows(const NormGradArgs& a) {
  __shared__ Total<C> shared[32];
  const int lanes = blockDim.x;
  WithStorage<C>(a.x_rows.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* weight = a.weight ? At<const T>(a.weight) : nullptr;
    for (int64_t row = blockIdx.x; row < a.n_rows; row += gridDim.x) {
      const T* x = At<const T>(a.x) + OffsetOf(a.x_rows, row);
      const T* g = At<const T>(a.g) + OffsetOf(a.g_rows, row);
      T* dx = At<T>(a.dx) + row * a.n;
      const auto mean_of = [&](auto&& fn) {
        Total<C> sum = {};
#pragma unroll 1
        for (int64_t i = threadIdx.x; i < a.n; i += lanes) sum.Add(static_cast<double>(fn(i)));
        sum = GroupMerge(sum, lanes, shared, Total<C>{}, [](Total<C>& p, const Total<C>& q) { p.Merge(q); });
        return sum.Value() / static_cast<double>(a.n);
      };
      const auto h = [&](int64_t i) {
        const C v = Get<C>(g[i]);
        return weight ? v * Get<C>(weight[i]) : v;
      };
      const C mean = a.rms ? C(0) : static_cast<C>(mean_of([&](int64_t i) { return Get<C>(x[i]); }));
      const double var = mean_of([&](int64_t i) {
        const C d = Get<C>(x[i]) - mean;
        return d * d;
      });
      const C scale = static_cast<C>(1 / Sqrt(var + a.eps));
      const auto normed = [&](int64_t i) { return (Get<C>(x[i]) - mean) * scale; };
      const C less = a.rms ? C(0) : static_cast<C>(mean_of(h));
      const C along = static_cast<C>(mean_of([&](int64_t i) { return h(i) * normed(i); }));
#pragma unroll 1
      for (int64_t i = threadIdx.x; i < a.n; i += lanes) Put(((h(i) - less) - normed(i) * along) * scale, dx[i]);
      if (threadIdx.x == 0) {
        At<C>(a.stats)[2 * row] = mean;
        At<C>(a.stats)[2 * row + 1] = scale;
      }
    }
  });
}

/// A thread for each column of a part's rows.
template <class C>
__device__ __forceinline__ void PlainColumns(const NormGradArgs& a) {
  const C* stats = At<const C>(a.stats);
  WithStorage<C>(a.x_rows.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for (int64_t item = ThreadIndex(); item < a.n_parts * a.n; item += ThreadCount()) {
      const int64_t part = item / a.n, i = item - part * a.n;
      const int64_t begin = part * a.chunk, end = begin + a.chunk < a.n_rows ? begin + a.chunk : a.n_rows;
      Total<C> dw = {}, db = {};
      for (int64_t row = begin; row < end; ++row) {
        const C g = Get<C>(At<const T>(a.g)[OffsetOf(a.g_rows, row) + i]);
        const C x = Get<C>(At<const T>(a.x)[OffsetOf(a.x_rows, row) + i]);
        dw.Add(static_cast<double>(g * ((x - stats[2 * row]) * stats[2 * row + 1])));
        db.Add(static_cast<double>(g));
      }
      C* to = At<C>(a.parts) + part * 2 * a.slots + i;
      to[0] = static_cast<C>(dw.Value());
      to[a.slots] = static_cast<C>(db.Value());
    }
  });
}

/// The sums of all parts: a block has 32 slots, and 8 threads for each.
template <class C>
__device__ __forceinline__ void End(const NormGradArgs& a) {
  __shared__ Total<C> shared[256];
  const int lane = threadIdx.x % 32, y = threadIdx.x / 32;
  const int64_t slots = a.dbias ? 2 * a.slots : a.slots;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * 32; first < slots;
       first += static_cast<int64_t>(gridDim.x) * 32) {
    const int64_t slot = first + lane;
    Total<C> sum = {};
    if (slot < slots) {
      const C* parts = At<const C>(a.parts) + slot;
      int64_t p = y;
      for (; p + 7 * 8 < a.n_parts; p += 64) {
        C v[8];
#pragma unroll
        for (int u = 0; u < 8; ++u) v[u] = parts[(p + 8 * u) * 2 * a.slots];
#pragma unroll
        for (int u = 0; u < 8; ++u) sum.Add(static_cast<double>(v[u]));
      }
      for (; p < a.n_parts; p += 8) sum.Add(static_cast<double>(parts[p * 2 * a.slots]));
    }
    __syncthreads();
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (y > 0 || slot >= slots) continue;
    for (int k = 1; k < 8; ++k) sum.Merge(shared[k * 32 + lane]);
    const bool of_weight = slot < a.slots;
    WithStorage<C>(a.x_rows.dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      int64_t i = of_weight ? slot : slot - a.slots;
      if (a.lanes > 0 && Packs<T>(a)) {
        const int64_t k = i / a.lanes, t = i % a.lanes;
        i = (k / kPack<T> * a.lanes + t) * kPack<T> + k % kPack<T>;
      }
      if (i < a.n) Put(sum.Value(), At<T>(of_weight ? a.dweight : a.dbias)[i]);
    });
  }
}

}  // namespace

#define TSR_NORM_GRAD(name, T)                                                                                         \
  extern "C" __global__ void __launch_bounds__(512, 1) norm_grad_##name##_8(const __grid_constant__ NormGradArgs a) {  \
    Rows<T, 8>(a);                                                                                                     \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(512, 1) norm_grad_##name##_16(const __grid_constant__ NormGradArgs a) { \
    Rows<T, 16>(a);                                                                                                    \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(192, 2) norm_grad_##name##_24(const __grid_constant__ NormGradArgs a) { \
    Rows<T, 24>(a);                                                                                                    \
  }
TSR_NORM_GRAD(f32, float)
TSR_NORM_GRAD(f16, Half)
TSR_NORM_GRAD(bf16, BHalf)

#define TSR_NORM_GRAD_PLAIN(name, C)                                                                                \
  extern "C" __global__ void __launch_bounds__(256) norm_grad_rows_##name(const __grid_constant__ NormGradArgs a) { \
    PlainRows<C>(a);                                                                                                \
  }                                                                                                                 \
  extern "C" __global__ void __launch_bounds__(256) norm_grad_cols_##name(const __grid_constant__ NormGradArgs a) { \
    PlainColumns<C>(a);                                                                                             \
  }                                                                                                                 \
  extern "C" __global__ void __launch_bounds__(256) norm_grad_end_##name(const __grid_constant__ NormGradArgs a) {  \
    End<C>(a);                                                                                                      \
  }
TSR_NORM_GRAD_PLAIN(f32, float)
TSR_NORM_GRAD_PLAIN(f64, double)

}  // namespace tessera::cuda
