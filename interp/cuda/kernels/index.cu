// Reads at indices. Where an index is out of range the error is reported and 0 is written.
#include "interp/cuda/index_args.h"
#include "interp/cuda/kernels/moves.cuh"

namespace tessera::cuda {
namespace {

/// The index within [0, bound), negative ones counted from the end; -1 where it is outside, which is reported by one of
/// the threads that see it.
__device__ __forceinline__ int64_t Checked(int64_t given, int64_t bound, bool report, DeviceError* error, int op) {
  const int64_t id = given < 0 ? given + bound : given;
  if (static_cast<uint64_t>(id) < static_cast<uint64_t>(bound)) return id;
  if (report) Report(error, op, given, bound);
  return -1;
}

// Where a row of out begins in x; false: nowhere, an index is outside.

__device__ __forceinline__ bool RowAt(const TakeArgs& a, const int64_t* ids, int64_t row, bool report,
                                      int64_t* offset) {
  const Parts p = Divide(row, a.ids_count);
  const int64_t id = Checked(ids[OffsetOf(a.ids_layout, p.rest)], a.bound, report, a.error, a.op);
  *offset = OffsetOf(a.outer, p.quotient) + id * a.axis_stride;
  return id >= 0;
}

__device__ __forceinline__ bool RowAt(const GatherArgs& a, const int64_t* ids, int64_t row, bool report,
                                      int64_t* offset) {
  const int64_t* at = ids + OffsetOf(a.ids_layout, row);
  int64_t sum = 0;
  bool ok = true;
  for (int j = 0; j < a.k; ++j) {
    const int64_t id = Checked(at[j * a.k_stride], a.bounds[j], report && ok, a.error, a.op);
    ok = ok && id >= 0;
    sum += id * a.strides[j];
  }
  *offset = sum;
  return ok;
}

/// A thread an element.
template <class T, class Args>
__device__ __forceinline__ void Elements(const Args& a) {
  const T* x = At<const T>(a.x);
  const int64_t* ids = At<const int64_t>(a.ids);
  T* out = At<T>(a.out);
  for (int64_t i = ThreadIndex(); i < a.count; i += ThreadCount()) {
    const Parts p = Divide(i, a.row);
    int64_t offset;
    T value = 0;
    if (RowAt(a, ids, p.quotient, p.rest == 0, &offset)) value = x[offset + OffsetOf(a.inner, p.rest)];
    out[i] = value;
  }
}

/// A thread four times 16 bytes of one row, so that a warp has 2 KiB of it under way; rows are multiples of that.
__device__ __forceinline__ void LongRows(const TakeArgs& a) {
  const char* x = At<const char>(a.x);
  const int64_t* ids = At<const int64_t>(a.ids);
  char* out = At<char>(a.out);
  for (int64_t i = ThreadIndex(); i < a.count / 4; i += ThreadCount()) {
    const int64_t first = i / 32 * 128 + i % 32;
    const Parts p = Divide(first, a.row);
    int64_t offset;
    const bool ok = RowAt(a, ids, p.quotient, p.rest == 0, &offset);
    uint4 units[4] = {};
    const uint4* from = reinterpret_cast<const uint4*>(x + offset * a.size + p.rest * 16);
    if (ok) {
#pragma unroll
      for (int u = 0; u < 4; ++u) units[u] = from[u * 32];
    }
#pragma unroll
    for (int u = 0; u < 4; ++u) reinterpret_cast<uint4*>(out + first * 16)[u * 32] = units[u];
  }
}

/// A thread 16 bytes; rows of x are contiguous.
template <class Args>
__device__ __forceinline__ void Units(const Args& a) {
  const char* x = At<const char>(a.x);
  const int64_t* ids = At<const int64_t>(a.ids);
  char* out = At<char>(a.out);
  for (int64_t i = ThreadIndex(); i < a.count; i += ThreadCount()) {
    const Parts p = Divide(i, a.row);
    int64_t offset;
    if (RowAt(a, ids, p.quotient, p.rest == 0, &offset)) {
      CopyUnit(out + i * 16, x + offset * a.size + p.rest * 16, a.size);
    } else {
      const uint4 zero = {};
      CopyUnit(out + i * 16, &zero, a.size);
    }
  }
}

template <class T>
__device__ __forceinline__ void Along(const AlongArgs& a) {
  const T* x = At<const T>(a.x);
  const int64_t* ids = At<const int64_t>(a.ids);
  T* out = At<T>(a.out);
  for (int64_t i = ThreadIndex(); i < a.count; i += ThreadCount()) {
    const int64_t id = Checked(ids[OffsetOf(a.ids_layout, i)], a.bound, true, a.error, a.op);
    out[i] = id >= 0 ? x[OffsetOf(a.walk, i) + id * a.axis_stride] : T{0};
  }
}

template <class T>
__device__ __forceinline__ void OneHot(const OneHotArgs& a) {
  constexpr int n = kUnit<T>;
  const int64_t* ids = At<const int64_t>(a.ids);
  T* out = At<T>(a.out);
  const T one = static_cast<T>(a.one);
  for (int64_t first = ThreadIndex() * n; first < a.count; first += ThreadCount() * n) {
    const Parts p = Divide(first, a.depth);
    int64_t row = p.quotient, column = p.rest;
    int64_t id = ids[OffsetOf(a.ids_layout, row)];
    if (id < 0) id += a.depth;
    Pack<T, n> r;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      r.at[i] = column == id ? one : T{0};
      if (++column == a.depth && first + i + 1 < a.count) {
        column = 0;
        id = ids[OffsetOf(a.ids_layout, ++row)];
        if (id < 0) id += a.depth;
      }
    }
    StorePack(out, first, a.count, r);
  }
}

}  // namespace

#define TSR_KERNELS(bytes, T)                                                                                    \
  extern "C" __global__ void take_##bytes(const __grid_constant__ TakeArgs a) { Elements<T>(a); }                \
  extern "C" __global__ void gather_##bytes(const __grid_constant__ GatherArgs a) { Elements<T>(a); }            \
  extern "C" __global__ void take_along_axis_##bytes(const __grid_constant__ AlongArgs a) { Along<T>(a); }       \
  extern "C" __global__ void one_hot_##bytes(const __grid_constant__ OneHotArgs a) { OneHot<T>(a); }
TSR_KERNELS(1, uint8_t)
TSR_KERNELS(2, uint16_t)
TSR_KERNELS(4, uint32_t)
TSR_KERNELS(8, uint64_t)
#undef TSR_KERNELS

extern "C" __global__ void take_long(const __grid_constant__ TakeArgs a) { LongRows(a); }
extern "C" __global__ void take_16(const __grid_constant__ TakeArgs a) { Units(a); }
extern "C" __global__ void gather_16(const __grid_constant__ GatherArgs a) { Units(a); }

}  // namespace tessera::cuda
