// How reductions find their elements, for any op. Two walks:
//
//   rows  a group of threads reads the elements of one output, neighbours along the reduced dims
//   cols  a thread reads elements of one output, and its neighbours those of the next; a block has several threads for
//         each output
//
// Where there are few outputs, the extent is cut into chunks. Their accumulators go to scratch memory, and a kernel of
// its own ends the reduction. All cuts depend on dims, strides and the device only.
//
// An Op has the compute type C, First and Second (void: one pass is enough), Initial(args) and Param(args, first) that
// give the passes their parameter, and Finish(args, output, accumulator of the last pass, param). A pass has kPacks
// (whether it is worth wide accesses), Acc, Start(), Merge(a, b), and Block(acc, values, param, index), where index(k)
// is the place of value k among the elements of the output, which grows from call to call of a thread.
#ifndef TESSERA_INTERP_CUDA_KERNELS_REDUCE_WALK_CUH_
#define TESSERA_INTERP_CUDA_KERNELS_REDUCE_WALK_CUH_

#include "interp/cuda/kernels/rows.cuh"
#include "interp/cuda/reduce_args.h"

namespace tessera::cuda {

constexpr int kReduceThreads = 256;

/// The smallest of some numbers is the largest of the same with all bits (integers) or the sign (floats) turned by
/// TurnOf(true).
template <class C>
__device__ __forceinline__ C TurnOf(bool turn) {
  if constexpr (std::is_same_v<C, int64_t>)
    return turn ? -1 : 0;
  else
    return turn ? -C(0) : C(0);
}
template <class C>
__device__ __forceinline__ C Turned(C x, C turn) {
  if constexpr (std::is_same_v<C, int64_t>)
    return x ^ turn;
  else
    return FromBits(Bits(x) ^ Bits(turn));
}

template <class P, class T, class C>
__device__ __forceinline__ void AddOne(typename P::Acc& acc, T x, C m, int64_t i) {
  const C v[1] = {Get<C>(x)};
  P::Block(acc, v, m, [=](int) { return i; });
}

/// run(offset, first, n) for each stretch of elements [first, first + n) of [r0, r1) that are the last reduced dim's
/// stride apart.
template <class Fn>
__device__ __forceinline__ void ForRuns(const Layout& l, int64_t r0, int64_t r1, Fn run) {
  const int last = l.rank - 1;
  const int64_t inner = l.dims[last], stride = l.strides[last];
  int64_t r = r0;
#pragma unroll 1
  while (r < r1) {
    int64_t n = r1 - r, offset = r * stride;
    if (last > 0) {
      offset = OffsetOf(l, r);
      const int64_t left = inner - r % inner;
      n = n < left ? n : left;
    }
    run(offset, r, n);
    r += n;
  }
}

/// Elements [r0, r1) of the output at x, for member t of a group.
template <class P, class T, class C>
__device__ __forceinline__ void WalkRow(const ReduceArgs& a, const T* x0, int64_t r0, int64_t r1, int t, C m,
                                        typename P::Acc& acc) {
  constexpr int V = kPack<T>, U = 4;
  constexpr bool kPacks = P::kPacks && !std::is_same_v<T, E4M3> && !std::is_same_v<T, E5M2>;
  const int lanes = a.lanes;
  const int64_t stride = a.reduced.strides[a.reduced.rank - 1];
  ForRuns(a.reduced, r0, r1, [&](int64_t offset, int64_t first, int64_t n) {
    const T* x = x0 + offset;
    // Elements before the first aligned access and after the last go one by one.
    int64_t head = n, packs = 0;
    if (kPacks && stride == 1) {
      head = static_cast<int64_t>(-(reinterpret_cast<uint64_t>(x) / sizeof(T)) & (V - 1));
      head = head < n ? head : n;
      packs = (n - head) / V;
    }
    int64_t i = t, end = head;
#pragma unroll 1
    for (int part = 0;; ++part) {
#pragma unroll 1
      for (; i < end; i += lanes) AddOne<P>(acc, x[i * stride], m, first + i);
      if (part == 1 || head == n) break;
      if constexpr (kPacks) {
        const Pack<T, V>* p = reinterpret_cast<const Pack<T, V>*>(x + head);
        const int64_t at = first + head;
        i = t;
#pragma unroll 1
        for (; i + (U - 1) * lanes < packs; i += U * lanes) {
          Pack<T, V> e[U];
#pragma unroll
          for (int u = 0; u < U; ++u) e[u] = p[i + u * lanes];
          C v[U * V];
#pragma unroll
          for (int k = 0; k < U * V; ++k) v[k] = Get<C>(e[k / V].at[k % V]);
          P::Block(acc, v, m, [=](int k) { return at + (i + k / V * lanes) * V + k % V; });
        }
#pragma unroll 1
        for (; i < packs; i += lanes) {
          const Pack<T, V> e = p[i];
          C v[V];
#pragma unroll
          for (int k = 0; k < V; ++k) v[k] = Get<C>(e.at[k]);
          P::Block(acc, v, m, [=](int k) { return at + i * V + k; });
        }
      }
      i = head + packs * V + t;
      end = n;
    }
  });
}

/// Elements r0 + y, r0 + y + step, ... below r1 of the output at x.
template <class P, class T, class C>
__device__ __forceinline__ void WalkCol(const ReduceArgs& a, const T* x0, int64_t r0, int64_t r1, int y, int step, C m,
                                        typename P::Acc& acc) {
  constexpr int U = P::kPacks ? 8 : 2;
  const int64_t stride = a.reduced.strides[a.reduced.rank - 1];
  ForRuns(a.reduced, r0, r1, [&](int64_t offset, int64_t first, int64_t n) {
    const T* x = x0 + offset;
    int64_t i = y;
#pragma unroll 1
    for (; i + (U - 1) * step < n; i += U * step) {
      T e[U];
#pragma unroll
      for (int u = 0; u < U; ++u) e[u] = x[(i + u * step) * stride];
      C v[U];
#pragma unroll
      for (int u = 0; u < U; ++u) v[u] = Get<C>(e[u]);
      P::Block(acc, v, m, [=](int u) { return first + i + u * step; });
    }
#pragma unroll 1
    for (; i < n; i += step) AddOne<P>(acc, x[i * stride], m, first + i);
  });
}

/// The same for the outputs of one access, which are neighbours.
template <class P, class T, class C>
__device__ __forceinline__ void WalkColumns(const ReduceArgs& a, const T* x0, int64_t r0, int64_t r1, int y, int step,
                                            C m, typename P::Acc (&acc)[kPack<T>]) {
  constexpr int U = 8, V = kPack<T>;
  const int64_t stride = a.reduced.strides[a.reduced.rank - 1];
  ForRuns(a.reduced, r0, r1, [&](int64_t offset, int64_t first, int64_t n) {
    const T* x = x0 + offset;
    int64_t i = y;
#pragma unroll 1
    for (; i + (U - 1) * step < n; i += U * step) {
      Pack<T, V> e[U];
#pragma unroll
      for (int u = 0; u < U; ++u) e[u] = *reinterpret_cast<const Pack<T, V>*>(x + (i + u * step) * stride);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        C v[U];
#pragma unroll
        for (int u = 0; u < U; ++u) v[u] = Get<C>(e[u].at[k]);
        P::Block(acc[k], v, m, [=](int u) { return first + i + u * step; });
      }
    }
#pragma unroll 1
    for (; i < n; i += step) {
      const Pack<T, V> e = *reinterpret_cast<const Pack<T, V>*>(x + i * stride);
#pragma unroll
      for (int k = 0; k < V; ++k) AddOne<P>(acc[k], e.at[k], m, first + i);
    }
  });
}

template <class P, class C>
__device__ __forceinline__ typename P::Acc ReadRow(const ReduceArgs& a, bool valid, int64_t at, int64_t r0, int64_t r1,
                                                   int t, C m, typename P::Acc* shared) {
  typename P::Acc acc = P::Start();
  if (valid) {
    WithStorage<C>(a.kept.dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      WalkRow<P, T, C>(a, At<const T>(a.x) + at, r0, r1, t, m, acc);
    });
  }
  __syncwarp();
  return GroupMerge(acc, a.lanes, shared, P::Start(),
                    [](typename P::Acc& x, const typename P::Acc& y) { P::Merge(x, y); });
}

template <class Op>
__device__ __forceinline__ void ReduceRows(const ReduceArgs& a) {
  using C = typename Op::C;
  using First = typename Op::First;
  using Second = typename Op::Second;
  constexpr bool kTwo = !std::is_void_v<Second>;
  const int groups = blockDim.x / a.lanes, t = threadIdx.x % a.lanes;
  const int64_t items = a.outputs * a.chunks;
  // All groups of a warp go round as often as the first.
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * groups; first < items;
       first += static_cast<int64_t>(gridDim.x) * groups) {
    const int64_t item = first + threadIdx.x / a.lanes;
    const bool valid = item < items;
    int64_t o = item, r0 = 0, r1 = a.extent;
    if (a.chunks > 1) {
      o = item / a.chunks;
      r0 = (item - o * a.chunks) * a.chunk;
      r1 = r0 + a.chunk < a.extent ? r0 + a.chunk : a.extent;
    }
    const int64_t at = valid ? OffsetOf(a.kept, o) : 0;
    const bool writes = valid && t == 0;
    C m = Op::Initial(a);
    if constexpr (kTwo) {
      if (a.chunks > 1 && a.pass == 1 && valid) m = At<const C>(a.param)[o];
    }
    if (!kTwo || a.chunks == 1 || a.pass == 0) {
      __shared__ typename First::Acc shared[32];
      const typename First::Acc acc = ReadRow<First, C>(a, valid, at, r0, r1, t, m, shared);
      if (a.chunks > 1) {
        if (writes) At<typename First::Acc>(a.part)[item] = acc;
        continue;
      }
      if constexpr (kTwo) {
        m = Op::Param(a, acc);
      } else {
        if (writes) Op::Finish(a, o, acc, m);
      }
    }
    if constexpr (kTwo) {
      __shared__ typename Second::Acc shared[32];
      const typename Second::Acc acc = ReadRow<Second, C>(a, valid, at, r0, r1, t, m, shared);
      if (a.chunks > 1) {
        if (writes) At<typename Second::Acc>(a.part)[item] = acc;
      } else {
        if (writes) Op::Finish(a, o, acc, m);
      }
    }
  }
}

/// What all threads of a column have found, to each of them.
template <class P>
__device__ __forceinline__ typename P::Acc JoinCol(const ReduceArgs& a, const typename P::Acc& acc,
                                                   typename P::Acc* shared) {
  const int down = kReduceThreads / a.lanes, y = threadIdx.x / a.lanes;
  if (down == 1) return acc;
  __syncthreads();  // whoever used `shared` before is through
  shared[threadIdx.x] = acc;
  __syncthreads();
  for (int w = down / 2; w > 0; w /= 2) {
    if (y < w) P::Merge(shared[threadIdx.x], shared[threadIdx.x + w * a.lanes]);
    __syncthreads();
  }
  return shared[threadIdx.x % a.lanes];
}

template <class P, class C>
__device__ __forceinline__ typename P::Acc ReadCol(const ReduceArgs& a, bool valid, int64_t at, int64_t r0, int64_t r1,
                                                   C m, typename P::Acc* shared) {
  const int down = kReduceThreads / a.lanes, y = threadIdx.x / a.lanes;
  typename P::Acc acc = P::Start();
  if (valid) {
    WithStorage<C>(a.kept.dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      WalkCol<P, T, C>(a, At<const T>(a.x) + at, r0, r1, y, down, m, acc);
    });
  }
  return JoinCol<P>(a, acc, shared);
}

constexpr int kMostPack = 8;
/// From one column of a thread to the next in shared memory: neighbours of both kinds lie in banks of their own.
constexpr int kColumnPitch = kReduceThreads + 4;

/// Several columns for each thread, one pass. Accumulators of chunks are [chunks, outputs].
template <class Op, class T>
__device__ __forceinline__ void ReduceColumnsOf(const ReduceArgs& a, typename Op::First::Acc* shared) {
  using C = typename Op::C;
  using P = typename Op::First;
  constexpr int V = kPack<T>;
  const int down = kReduceThreads / a.lanes, y = threadIdx.x / a.lanes;
  const int64_t packs = a.outputs / V, tiles = (packs + a.lanes - 1) / a.lanes;
  for (int64_t tile = blockIdx.x; tile < tiles * a.chunks; tile += gridDim.x) {
    const int64_t column = tile / a.chunks, chunk = tile - column * a.chunks;
    const int64_t r0 = chunk * a.chunk, r1 = r0 + a.chunk < a.extent ? r0 + a.chunk : a.extent;
    const int64_t first = column * a.lanes * V, o = first + threadIdx.x % a.lanes * V;
    const C m = Op::Initial(a);
    typename P::Acc acc[V];
#pragma unroll
    for (int k = 0; k < V; ++k) acc[k] = P::Start();
    if (o < a.outputs) WalkColumns<P, T, C>(a, At<const T>(a.x) + OffsetOf(a.kept, o), r0, r1, y, down, m, acc);
    __syncthreads();  // whoever read `shared` before is through
#pragma unroll
    for (int k = 0; k < V; ++k) shared[k * kColumnPitch + threadIdx.x] = acc[k];
    __syncthreads();
    for (int c = threadIdx.x; c < a.lanes * V && first + c < a.outputs; c += kReduceThreads) {
      const typename P::Acc* from = shared + c % V * kColumnPitch + c / V;
      typename P::Acc all = from[0];
      for (int i = 1; i < down; ++i) P::Merge(all, from[i * a.lanes]);
      if (a.chunks > 1)
        At<typename P::Acc>(a.part)[chunk * a.outputs + first + c] = all;
      else
        Op::Finish(a, first + c, all, m);
    }
  }
}

template <class Op>
__device__ __forceinline__ void ReduceColumns(const ReduceArgs& a) {
  __shared__ typename Op::First::Acc shared[kMostPack * kColumnPitch];
  WithStorage<typename Op::C>(a.kept.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr bool kOfBytes = std::is_same_v<T, E4M3> || std::is_same_v<T, E5M2>;
    if constexpr (sizeof(T) <= 4 && !kOfBytes) ReduceColumnsOf<Op, T>(a, shared);
  });
}

/// The end of those that were cut: a block has 32 outputs, and 8 threads for each.
template <class Op>
__device__ __forceinline__ void EndColumns(const ReduceArgs& a) {
  using P = typename Op::First;
  constexpr int kDown = kReduceThreads / 32, U = 8;
  __shared__ typename P::Acc shared[kReduceThreads];
  const int lane = threadIdx.x % 32, y = threadIdx.x / 32;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * 32; first < a.outputs;
       first += static_cast<int64_t>(gridDim.x) * 32) {
    const int64_t o = first + lane;
    typename P::Acc acc = P::Start();
    if (o < a.outputs) {
      const typename P::Acc* parts = At<const typename P::Acc>(a.part) + o;
      int64_t c = y;
#pragma unroll 1
      for (; c + (U - 1) * kDown < a.chunks; c += U * kDown) {
        typename P::Acc e[U];
#pragma unroll
        for (int u = 0; u < U; ++u) e[u] = parts[(c + u * kDown) * a.outputs];
#pragma unroll
        for (int u = 0; u < U; ++u) P::Merge(acc, e[u]);
      }
#pragma unroll 1
      for (; c < a.chunks; c += kDown) P::Merge(acc, parts[c * a.outputs]);
    }
    __syncthreads();
    shared[threadIdx.x] = acc;
    __syncthreads();
    if (y > 0 || o >= a.outputs) continue;
    for (int i = 1; i < kDown; ++i) P::Merge(acc, shared[i * 32 + lane]);
    Op::Finish(a, o, acc, Op::Initial(a));
  }
}

/// Do columns come in packs? Where a reduction's host side may say so.
template <class Op>
constexpr bool kInPacks =
    std::is_void_v<typename Op::Second> && Op::First::kPacks && !std::is_same_v<typename Op::C, double>;

template <class Op>
__device__ __forceinline__ void ReduceCols(const ReduceArgs& a) {
  using C = typename Op::C;
  using First = typename Op::First;
  using Second = typename Op::Second;
  constexpr bool kTwo = !std::is_void_v<Second>;
  if constexpr (kInPacks<Op>) {
    if (a.pack > 1) return ReduceColumns<Op>(a);
  }
  const int64_t tiles = (a.outputs + a.lanes - 1) / a.lanes;
  for (int64_t tile = blockIdx.x; tile < tiles * a.chunks; tile += gridDim.x) {
    int64_t o = tile, chunk = 0, r0 = 0, r1 = a.extent;
    if (a.chunks > 1) {
      o = tile / a.chunks;
      chunk = tile - o * a.chunks;
      r0 = chunk * a.chunk;
      r1 = r0 + a.chunk < a.extent ? r0 + a.chunk : a.extent;
    }
    o = o * a.lanes + threadIdx.x % a.lanes;
    const bool valid = o < a.outputs, writes = valid && threadIdx.x < a.lanes;
    const int64_t at = valid ? OffsetOf(a.kept, o) : 0;
    C m = Op::Initial(a);
    if constexpr (kTwo) {
      if (a.chunks > 1 && a.pass == 1 && valid) m = At<const C>(a.param)[o];
    }
    if (!kTwo || a.chunks == 1 || a.pass == 0) {
      __shared__ typename First::Acc shared[kReduceThreads];
      const typename First::Acc acc = ReadCol<First, C>(a, valid, at, r0, r1, m, shared);
      if (a.chunks > 1) {
        if (writes) At<typename First::Acc>(a.part)[o * a.chunks + chunk] = acc;
        continue;
      }
      if constexpr (kTwo) {
        m = Op::Param(a, acc);
      } else {
        if (writes) Op::Finish(a, o, acc, m);
      }
    }
    if constexpr (kTwo) {
      __shared__ typename Second::Acc shared[kReduceThreads];
      const typename Second::Acc acc = ReadCol<Second, C>(a, valid, at, r0, r1, m, shared);
      if (a.chunks > 1) {
        if (writes) At<typename Second::Acc>(a.part)[o * a.chunks + chunk] = acc;
      } else {
        if (writes) Op::Finish(a, o, acc, m);
      }
    }
  }
}

template <class P>
__device__ __forceinline__ typename P::Acc JoinChunks(const ReduceArgs& a, int64_t o) {
  typename P::Acc acc = P::Start();
  const typename P::Acc* parts = At<const typename P::Acc>(a.part) + o * a.chunks;
  constexpr int U = 8;  // reads on their way
  int64_t c = threadIdx.x % 32;
#pragma unroll 1
  for (; c + (U - 1) * 32 < a.chunks; c += U * 32) {
    typename P::Acc e[U];
#pragma unroll
    for (int u = 0; u < U; ++u) e[u] = parts[c + u * 32];
#pragma unroll
    for (int u = 0; u < U; ++u) P::Merge(acc, e[u]);
  }
#pragma unroll 1
  for (; c < a.chunks; c += 32) P::Merge(acc, parts[c]);
  __syncwarp();
  return GroupMerge(acc, 32, static_cast<typename P::Acc*>(nullptr), P::Start(),
                    [](typename P::Acc& x, const typename P::Acc& y) { P::Merge(x, y); });
}

/// A warp for each output of a cut reduction.
template <class Op>
__device__ __forceinline__ void ReduceEnd(const ReduceArgs& a) {
  using C = typename Op::C;
  using Second = typename Op::Second;
  if constexpr (kInPacks<Op>) {
    if (a.pack > 1) return EndColumns<Op>(a);
  }
  for (int64_t o = ThreadIndex() / 32; o < a.outputs; o += ThreadCount() / 32) {
    const bool writes = threadIdx.x % 32 == 0;
    if constexpr (!std::is_void_v<Second>) {
      if (a.pass == 1) {
        const typename Second::Acc acc = JoinChunks<Second>(a, o);
        if (writes) Op::Finish(a, o, acc, At<const C>(a.param)[o]);
        continue;
      }
    }
    const typename Op::First::Acc acc = JoinChunks<typename Op::First>(a, o);
    if (!writes) continue;
    if constexpr (std::is_void_v<Second>)
      Op::Finish(a, o, acc, C(0));
    else
      At<C>(a.param)[o] = Op::Param(a, acc);
  }
}

// The three kernels of an op: NAME_rows, NAME_cols, NAME_end. `blocks` and `cols` are how many a multiprocessor should
// hold of the first two.
#define TSR_REDUCE_KERNELS(name, blocks, cols, ...)                                                             \
  extern "C" __global__ void __launch_bounds__(256, blocks) name##_rows(const __grid_constant__ ReduceArgs a) { \
    ReduceRows<__VA_ARGS__>(a);                                                                                 \
  }                                                                                                             \
  extern "C" __global__ void __launch_bounds__(256, cols) name##_cols(const __grid_constant__ ReduceArgs a) {   \
    ReduceCols<__VA_ARGS__>(a);                                                                                 \
  }                                                                                                             \
  extern "C" __global__ void __launch_bounds__(256) name##_end(const __grid_constant__ ReduceArgs a) {          \
    ReduceEnd<__VA_ARGS__>(a);                                                                                  \
  }

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_KERNELS_REDUCE_WALK_CUH_
