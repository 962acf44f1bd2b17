// What kernels over rows and columns share: storage dtypes by number, elements to and from the compute type, sums in a
// fixed order, and the reduction of accumulators over a group of threads.
//
// A group is a part of a warp (4, 8, 16 or 32 lanes) or a block of whole warps. Which group a thread belongs to is
// given by the number of its lanes alone: thread t of a block is member t % lanes of group t / lanes.
#ifndef TESSERA_INTERP_CUDA_KERNELS_ROWS_CUH_
#define TESSERA_INTERP_CUDA_KERNELS_ROWS_CUH_

#include <string.h>

#include <type_traits>

#include "interp/cuda/kernels/device.cuh"

namespace tessera::cuda {

template <class T>
struct Tag {
  using Type = T;
};

/// fn(Tag<T>()) for the storage type T of a dtype whose compute type is C: double, float, or int64_t for all integers
/// and bool.
template <class C, class Fn>
__device__ __forceinline__ void WithStorage(int dtype, Fn fn) {
  if constexpr (std::is_same_v<C, double>) {
    fn(Tag<double>());
  } else if constexpr (std::is_same_v<C, float>) {
    switch (static_cast<DType>(dtype)) {
      case DType::f16: return fn(Tag<Half>());
      case DType::bf16: return fn(Tag<BHalf>());
      case DType::f8e4m3: return fn(Tag<E4M3>());
      case DType::f8e5m2: return fn(Tag<E5M2>());
      default: return fn(Tag<float>());
    }
  } else {
    switch (static_cast<DType>(dtype)) {
      case DType::i32: return fn(Tag<int32_t>());
      case DType::i8: return fn(Tag<int8_t>());
      case DType::u8: return fn(Tag<uint8_t>());
      case DType::boolean: return fn(Tag<BoolByte>());
      default: return fn(Tag<int64_t>());
    }
  }
}

/// An element in the compute type.
template <class C, class T>
__device__ __forceinline__ C Get(T x) {
  if constexpr (std::is_same_v<T, Half>) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return static_cast<C>(y);
  } else if constexpr (std::is_same_v<T, E5M2>) {
    return Get<C>(Half{static_cast<uint16_t>(x.bits << 8)});
  } else {
    return static_cast<C>(Load(x));
  }
}

/// The compute type rounded to storage.
template <class C, class T>
__device__ __forceinline__ void Put(C x, T& y) {
  if constexpr (std::is_same_v<T, Half>) {
    // nvcc 13.0 breaks off with an internal error at Store(double, Half&).
    const float f = Pre(x);
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f));
    const uint32_t from = Bits(f);
    const uint16_t nan = static_cast<uint16_t>(((from >> 16) & 0x8000u) | 0x7e00u | ((from >> 13) & 0x3ffu));
    y.bits = f != f ? nan : bits;
  } else {
    Store(x, y);
  }
}

/// Writes element i of a tensor of that dtype.
template <class C>
__device__ __forceinline__ void PutAt(Address y, int dtype, int64_t i, C value) {
  WithStorage<C>(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Put(value, At<T>(y)[i]);
  });
}
/// Reads element i.
template <class C>
__device__ __forceinline__ C GetAt(Address x, int dtype, int64_t i) {
  C value;
  WithStorage<C>(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    value = Get<C>(At<const T>(x)[i]);
  });
  return value;
}

/// Elements of one access: 16 bytes, 8 of one-byte types.
template <class T>
constexpr int kPack = sizeof(T) == 1 ? 8 : 16 / static_cast<int>(sizeof(T));

template <class T, int n>
__device__ __forceinline__ bool Aligned(const T* p) {
  return reinterpret_cast<uint64_t>(p) % (sizeof(T) * n) == 0;
}

/// The sum of n (a power of two) terms as a tree; v is used up.
template <int n, class C, int size>
__device__ __forceinline__ C TreeSum(C (&v)[size]) {
  static_assert(n <= size && (n & (n - 1)) == 0);
  if constexpr (n == 1) {
    return v[0];
  } else {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) v[i] = v[i] + v[i + n / 2];
    return TreeSum<n / 2>(v);
  }
}

/// The larger; NaN if either is; +0 > -0.
template <class C>
__device__ __forceinline__ C Larger(C a, C b) {
  if constexpr (std::is_same_v<C, int64_t>)
    return b > a ? b : a;
  else
    return Maximum(a, b);
}
template <class C>
__device__ __forceinline__ C Smaller(C a, C b) {
  if constexpr (std::is_same_v<C, int64_t>)
    return b < a ? b : a;
  else
    return Minimum(a, b);
}

/// A sum in f64. That of f64 terms keeps what rounding lost.
template <class C>
struct Total;
template <>
struct Total<float> {
  double s;
  __device__ __forceinline__ void Add(double x) { s += x; }
  __device__ __forceinline__ void Merge(const Total& o) { s += o.s; }
  __device__ __forceinline__ double Value() const { return s; }
};
template <>
struct Total<double> {
  double s, lost;
  __device__ __forceinline__ void Add(double x) {
    const Pair<double> sum = TwoSum(s, x);
    s = sum.hi;
    lost += sum.lo;
  }
  __device__ __forceinline__ void Merge(const Total& o) {
    Add(o.s);
    lost += o.lost;
  }
  // Once the sum is infinite or NaN, what was lost is meaningless.
  __device__ __forceinline__ double Value() const { return s - s == 0 ? s + lost : s; }
};
template <>
struct Total<int64_t> {
  uint64_t s;
  __device__ __forceinline__ void Add(int64_t x) { s += static_cast<uint64_t>(x); }
  __device__ __forceinline__ void Merge(const Total& o) { s += o.s; }
  __device__ __forceinline__ int64_t Value() const { return static_cast<int64_t>(s); }
};

// ---- plain data between the lanes of a warp

template <class A, class Move>
__device__ __forceinline__ A MoveWords(A a, Move move) {
  static_assert(sizeof(A) % 4 == 0);
  uint32_t words[sizeof(A) / 4];
  memcpy(words, &a, sizeof(A));
#pragma unroll
  for (uint32_t& w : words) w = move(w);
  memcpy(&a, words, sizeof(A));
  return a;
}
template <class A>
__device__ __forceinline__ A FromLaneXor(A a, int lanes) {
  return MoveWords(a, [=](uint32_t w) { return __shfl_xor_sync(kAllLanes, w, lanes); });
}
template <class A>
__device__ __forceinline__ A FromLane(A a, int lane) {
  return MoveWords(a, [=](uint32_t w) { return __shfl_sync(kAllLanes, w, lane); });
}
template <class A>
__device__ __forceinline__ A FromLaneBelow(A a, int distance) {
  return MoveWords(a, [=](uint32_t w) { return __shfl_up_sync(kAllLanes, w, distance); });
}

/// Every thread of a group gets the same merge(a, b) over all of it, which changes a. All threads of the warp take
/// part, and all of the block where a group has more than one warp; `shared` has room for 32 accumulators then.
template <class A, class Merge>
__device__ __forceinline__ A GroupMerge(A a, int lanes, A* shared, const A& start, Merge merge) {
  const int lane = threadIdx.x % 32;
  const int within = lanes < 32 ? lanes : 32;
  for (int l = within / 2; l > 0; l /= 2) merge(a, FromLaneXor(a, l));
  if (lanes > 32) {
    const int warps = lanes / 32;
    __syncthreads();  // whoever used `shared` before is through
    if (lane == 0) shared[threadIdx.x / 32] = a;
    __syncthreads();
    a = lane < warps ? shared[lane] : start;
    for (int l = 16; l > 0; l /= 2) merge(a, FromLaneXor(a, l));
  }
  // Rounding may depend on which of two comes first, so one thread's result is everybody's.
  return FromLane(a, lane & ~(within - 1));
}

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_KERNELS_ROWS_CUH_
