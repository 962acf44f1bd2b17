// Writes at indices. Updates that meet in one element apply in their order, one thread after the other, so results are
// the same in every run. Where an index is out of range the error is reported and nothing is written.
#include "interp/cuda/kernels/moves.cuh"
#include "interp/cuda/scatter_args.h"

namespace tessera::cuda {
namespace {

template <class T>
__device__ __forceinline__ T Combine(T old, T update, ScatterMode mode) {
  if (mode == ScatterMode::set) return update;
  auto a = Load(old);
  const auto b = Load(update);
  if (mode == ScatterMode::add) {
    if constexpr (__is_same(T, BoolByte)) {
      a = a | b;
    } else if constexpr (__is_same(T, int64_t)) {
      a = static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else if constexpr (__is_same(T, int32_t)) {
      a = static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
    } else {
      a = static_cast<decltype(a)>(a + b);
    }
  } else {
    // As the ops maximum and minimum: NaN if either is, +0 > -0.
    if constexpr (__is_same(decltype(a), float) || __is_same(decltype(a), double))
      a = mode == ScatterMode::max ? Maximum(a, b) : Minimum(a, b);
    else if (mode == ScatterMode::max ? a < b : b < a)
      a = b;
  }
  T r;
  Store(a, r);
  return r;
}

/// Where update (o, c, i) goes in out, in elements; -1: nowhere.
__device__ __forceinline__ int64_t PlaceOf(const ScatterPlaces& p, int64_t o, int64_t c, int64_t i) {
  const int64_t* ids = At<const int64_t>(p.ids);
  if (p.k < 0) {
    const int64_t given = ids[OffsetOf(p.ids_layout, (o * p.count + c) * p.inner + i)];
    const int64_t id = given < 0 ? given + p.bounds[0] : given;
    if (static_cast<uint64_t>(id) < static_cast<uint64_t>(p.bounds[0])) return (o * p.bounds[0] + id) * p.inner + i;
    Report(p.error, p.op, given, p.bounds[0]);
    return -1;
  }
  ids += OffsetOf(p.ids_layout, c);
  int64_t place = i;
  for (int j = 0; j < p.k; ++j) {
    const int64_t given = ids[j * p.k_stride];
    const int64_t id = given < 0 ? given + p.bounds[j] : given;
    if (static_cast<uint64_t>(id) >= static_cast<uint64_t>(p.bounds[j])) {
      if (i == 0) Report(p.error, p.op, given, p.bounds[j]);
      return -1;
    }
    place += id * p.strides[j];
  }
  return place;
}

template <class T>
__device__ __forceinline__ void Lines(const ScatterLinesArgs& a) {
  const T* updates = At<const T>(a.updates);
  T* out = At<T>(a.out);
  const int64_t count = a.places.count, inner = a.places.inner;
  for (int64_t line = ThreadIndex(); line < a.lines; line += ThreadCount()) {
    const Parts p = Divide(line, inner);
    for (int64_t c = 0; c < count; ++c) {
      const int64_t place = PlaceOf(a.places, p.quotient, c, p.rest);
      if (place < 0) continue;
      const T update = updates[(p.quotient * count + c) * inner + p.rest];
      out[place] = a.mode == ScatterMode::set ? update : Combine(out[place], update, a.mode);
    }
  }
}

template <class K>
__device__ __forceinline__ void Keys(const ScatterKeysArgs& a) {
  K* keys = At<K>(a.keys);
  const ScatterPlaces& p = a.places;
  for (int64_t n = ThreadIndex(); n < a.keys_count; n += ThreadCount()) {
    int64_t place;
    if (p.k < 0) {
      const Parts q = Divide(n, p.inner), r = Divide(q.quotient, p.count);
      place = PlaceOf(p, r.quotient, r.rest, q.rest);
    } else {
      // A row's place is a multiple of its length.
      place = PlaceOf(p, 0, n, 0);
      if (place >= 0) place = Divide(place, p.inner).quotient;
    }
    keys[n] = static_cast<K>(place < 0 ? a.none : place);
  }
}

/// The sorted updates, whatever their types.
struct Sorted {
  const void* keys;
  const void* index;
  int64_t count;
  bool wide, wide_index;

  __device__ __forceinline__ int64_t key(int64_t i) const {
    return wide ? static_cast<const int64_t*>(keys)[i] : static_cast<int64_t>(static_cast<const uint32_t*>(keys)[i]);
  }
  __device__ __forceinline__ int64_t update(int64_t i) const {
    return wide_index ? static_cast<const int64_t*>(index)[i]
                      : static_cast<int64_t>(static_cast<const uint32_t*>(index)[i]);
  }
  /// The end of the run of `key` that begins at i. Most runs are short.
  __device__ int64_t EndOf(int64_t i, int64_t k) const {
    int64_t low = i, step = 1;  // low is in the run
    while (low + step < count && key(low + step) == k) {
      low += step;
      step *= 2;
    }
    int64_t high = low + step < count ? low + step : count;  // not in it
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      if (key(middle) == k)
        low = middle;
      else
        high = middle;
    }
    return high;
  }
};

/// A thread for each element of each row that begins a run (set: that ends one, the others being overwritten).
template <class T>
__device__ __forceinline__ void Runs(const ScatterRunsArgs& a) {
  constexpr int64_t kLong = 64;
  const Sorted sorted = {At<const void>(a.keys), At<const void>(a.index), a.keys_count, a.wide != 0, a.wide_index != 0};
  const T* updates = At<const T>(a.updates);
  T* out = At<T>(a.out);
  const int lane = threadIdx.x % 32;
  const int64_t total = a.keys_count * a.length;
  const auto update = [&](int64_t i, int64_t column) {
    return updates[sorted.update(i) * a.length + column];
  };
  // Whole warps stay in the loop.
  for (int64_t base = ThreadIndex() - lane; base < total; base += ThreadCount()) {
    const Parts p = Divide(base + lane, a.length);
    int64_t key = a.none, at = p.quotient, end = at;
    if (base + lane < total) key = sorted.key(at);
    const int64_t place = key * a.length + p.rest;
    if (a.mode == ScatterMode::set) {
      if (key != a.none && (at + 1 == a.keys_count || sorted.key(at + 1) != key)) out[place] = update(at, p.rest);
      continue;
    }
    if (key != a.none && (at == 0 || sorted.key(at - 1) != key)) end = sorted.EndOf(at, key);
    // A long run of short rows would keep one lane busy: the warp reads for it.
    const bool shared = a.length < 32 && end - at > kLong;
    if (end > at && !shared) {
      T value = out[place];
      for (; at + 4 <= end; at += 4) {
        T next[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) next[i] = update(at + i, p.rest);
#pragma unroll
        for (int i = 0; i < 4; ++i) value = Combine(value, next[i], a.mode);
      }
      for (; at < end; ++at) value = Combine(value, update(at, p.rest), a.mode);
      out[place] = value;
    }
    for (unsigned waiting = __ballot_sync(kAllLanes, shared); waiting != 0; waiting &= waiting - 1) {
      const int whose = __ffs(static_cast<int>(waiting)) - 1;
      const int64_t first = __shfl_sync(kAllLanes, at, whose), last = __shfl_sync(kAllLanes, end, whose);
      const int64_t column = __shfl_sync(kAllLanes, p.rest, whose), where = __shfl_sync(kAllLanes, place, whose);
      T value = out[where];
      for (int64_t from = first; from < last; from += 32) {
        T mine{};
        if (from + lane < last) mine = update(from + lane, column);
        const int n = last - from < 32 ? static_cast<int>(last - from) : 32;
        // Every lane computes the same.
        for (int i = 0; i < n; ++i) {
          T next;
          if constexpr (sizeof(T) == 8) {
            next = __shfl_sync(kAllLanes, mine, i);
          } else if constexpr (sizeof(T) == 4) {
            next = __builtin_bit_cast(T, __shfl_sync(kAllLanes, __builtin_bit_cast(uint32_t, mine), i));
          } else if constexpr (sizeof(T) == 2) {
            const uint32_t bits = __builtin_bit_cast(uint16_t, mine);
            next = __builtin_bit_cast(T, static_cast<uint16_t>(__shfl_sync(kAllLanes, bits, i)));
          } else {
            const uint32_t bits = __builtin_bit_cast(uint8_t, mine);
            next = __builtin_bit_cast(T, static_cast<uint8_t>(__shfl_sync(kAllLanes, bits, i)));
          }
          value = Combine(value, next, a.mode);
        }
      }
      if (lane == whose) out[where] = value;
    }
  }
}

__device__ __forceinline__ int64_t WindowOf(const UpdateSliceArgs& a, int64_t row, int64_t* from) {
  int64_t to = a.first, offset = 0;
  for (int d = a.from.rank - 1; d >= 0; --d) {
    const Parts p = Divide(row, a.from.dims[d]);
    to += p.rest * a.strides[d];
    offset += p.rest * a.from.strides[d];
    row = p.quotient;
  }
  *from = offset;
  return to;
}

template <class T>
__device__ __forceinline__ void UpdateElements(const UpdateSliceArgs& a) {
  const T* updates = At<const T>(a.updates);
  T* out = At<T>(a.out);
  for (int64_t i = ThreadIndex(); i < a.count; i += ThreadCount()) {
    int64_t from;
    const int64_t to = WindowOf(a, i, &from);
    out[to] = updates[from];
  }
}

}  // namespace

#define TSR_KERNELS(name, T)                                                                                  \
  extern "C" __global__ void scatter_lines_##name(const __grid_constant__ ScatterLinesArgs a) { Lines<T>(a); } \
  extern "C" __global__ void scatter_runs_##name(const __grid_constant__ ScatterRunsArgs a) { Runs<T>(a); }
TSR_FOR_EACH_STORAGE(TSR_KERNELS)
#undef TSR_KERNELS

extern "C" __global__ void scatter_keys_4(const __grid_constant__ ScatterKeysArgs a) { Keys<uint32_t>(a); }
extern "C" __global__ void scatter_keys_8(const __grid_constant__ ScatterKeysArgs a) { Keys<uint64_t>(a); }

#define TSR_KERNELS(bytes, T) \
  extern "C" __global__ void update_slice_##bytes(const __grid_constant__ UpdateSliceArgs a) { UpdateElements<T>(a); }
TSR_KERNELS(1, uint8_t)
TSR_KERNELS(2, uint16_t)
TSR_KERNELS(4, uint32_t)
TSR_KERNELS(8, uint64_t)
#undef TSR_KERNELS

extern "C" __global__ void update_slice_16(const __grid_constant__ UpdateSliceArgs a) {
  const char* updates = At<const char>(a.updates);
  char* out = At<char>(a.out);
  for (int64_t i = ThreadIndex(); i < a.count; i += ThreadCount()) {
    const Parts p = Divide(i, a.row);
    int64_t from;
    const int64_t to = WindowOf(a, p.quotient, &from);
    CopyUnit(out + to * a.size + p.rest * 16, updates + from * a.size + p.rest * 16, a.size);
  }
}

}  // namespace tessera::cuda
