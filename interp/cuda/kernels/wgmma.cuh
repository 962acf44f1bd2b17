// Tensor cores of sm_90a: products that a warpgroup (128 threads) starts and waits for, with the right operand, and
// where wanted the left one, in shared memory.
//
// Tiles in shared memory have rows of 64 elements, 128 bytes, and begin at multiples of 1024 bytes; wider ones are
// several such, one behind the other. The eight pieces of 16 bytes in row r stand in the order c ^ (r % 8), which is
// what the instructions call a swizzle of 128 bytes: neither rows nor columns then meet in one bank.
#ifndef TESSERA_INTERP_CUDA_KERNELS_WGMMA_CUH_
#define TESSERA_INTERP_CUDA_KERNELS_WGMMA_CUH_

#include "interp/cuda/kernels/mma.cuh"

namespace tessera::cuda {

constexpr int kGroupThreads = 128;
/// Bytes of a row of a tile; of eight rows.
constexpr int kRowBytes = 128, kEightRows = 1024;

/// Sums of a product of 64 rows and 64 columns. Thread t of the warpgroup has, as [n * 4 + h * 2 + j], row
/// t / 32 * 16 + t % 32 / 4 + h * 8 and column n * 8 + t % 4 * 2 + j.
using GroupSums = float[32];
/// 64 rows of 16 columns of a left operand in registers, in the order of mma.m16n8k16.
using GroupRows = uint32_t[4];

/// A tile as instructions name it: where it begins, in sixteens of bytes, and that its groups of eight rows follow each
/// other. 16 columns further are 2 more; 16 rows further are 128 more. Only the lower half differs from tile to tile.
__device__ __forceinline__ uint32_t TileAt(uint32_t shared) { return 0x10000u | ((shared & 0x3ffffu) >> 4); }
__device__ __forceinline__ uint64_t Descriptor(uint32_t tile) {
  return (uint64_t{1} << 62) | (uint64_t{kEightRows / 16} << 32) | tile;
}
constexpr uint32_t kStepColumns = 2, kStepRows = 128;
/// Of a right operand that is read by its rows: the tiles of 64 columns beside each other have kRows rows.
template <int kRows>
__device__ __forceinline__ uint64_t WideDescriptor(uint32_t tile) {
  return Descriptor((kRows * kRowBytes / 16) << 16 | (tile & 0xffffu));
}

/// What threads have stored to shared memory is seen by the products they start.
__device__ __forceinline__ void ShowStores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Before the first product, and whenever registers of one have been written since.
__device__ __forceinline__ void BeginProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void CommitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/// As GroupSums, with as many columns.
template <int kColumns>
using WideSums = float[kColumns / 2];

/// Products of 64 rows and kColumns columns; the dtype is GroupOfF16 or GroupOfBF16.
/// Multiply: sums += rows by 16 columns of a left operand in registers, times 16 rows by kColumns columns of a tile.
/// BeginAcross, AddAcross: 64 rows by 16 columns of a tile, times those of another with kColumns rows; Begin writes the
/// sums, Add adds to them.
/// Wait: all but the kPending groups that were committed last are done; `sums` may be read.
/// All warps of a group come to the same of these instructions: none of them stands in a branch that a warp takes by
/// itself.
template <class DType, int kColumns>
struct Wide;
struct GroupOfF16;
struct GroupOfBF16;

#define TSR_SUMS(how, s, first)                                                                                 \
  how(s[first]), how(s[first + 1]), how(s[first + 2]), how(s[first + 3]), how(s[first + 4]), how(s[first + 5]), \
      how(s[first + 6]), how(s[first + 7])
#define TSR_NAMES_0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TSR_NAMES_8 "%8, %9, %10, %11, %12, %13, %14, %15"
#define TSR_NAMES_16 "%16, %17, %18, %19, %20, %21, %22, %23"
#define TSR_NAMES_24 "%24, %25, %26, %27, %28, %29, %30, %31"
#define TSR_NAMES_32 "%32, %33, %34, %35, %36, %37, %38, %39"
#define TSR_NAMES_40 "%40, %41, %42, %43, %44, %45, %46, %47"
#define TSR_NAMES_48 "%48, %49, %50, %51, %52, %53, %54, %55"
#define TSR_NAMES_56 "%56, %57, %58, %59, %60, %61, %62, %63"
#define TSR_NAMES_64 "%64, %65, %66, %67, %68, %69, %70, %71"
#define TSR_NAMES_72 "%72, %73, %74, %75, %76, %77, %78, %79"
#define TSR_NAMES_80 "%80, %81, %82, %83, %84, %85, %86, %87"
#define TSR_NAMES_88 "%88, %89, %90, %91, %92, %93, %94, %95"
#define TSR_NAMES_96 "%96, %97, %98, %99, %100, %101, %102, %103"
#define TSR_NAMES_104 "%104, %105, %106, %107, %108, %109, %110, %111"
#define TSR_NAMES_112 "%112, %113, %114, %115, %116, %117, %118, %119"
#define TSR_NAMES_120 "%120, %121, %122, %123, %124, %125, %126, %127"
#define TSR_SUMS_32(how, s, first) \
  TSR_SUMS(how, s, first), TSR_SUMS(how, s, first + 8), TSR_SUMS(how, s, first + 16), TSR_SUMS(how, s, first + 24)
#define TSR_LIST_32 TSR_NAMES_0 ", " TSR_NAMES_8 ", " TSR_NAMES_16 ", " TSR_NAMES_24
#define TSR_LIST_64 TSR_LIST_32 ", " TSR_NAMES_32 ", " TSR_NAMES_40 ", " TSR_NAMES_48 ", " TSR_NAMES_56
#define TSR_LIST_96 TSR_LIST_64 ", " TSR_NAMES_64 ", " TSR_NAMES_72 ", " TSR_NAMES_80 ", " TSR_NAMES_88
#define TSR_LIST_128 TSR_LIST_96 ", " TSR_NAMES_96 ", " TSR_NAMES_104 ", " TSR_NAMES_112 ", " TSR_NAMES_120
#define TSR_SUMS_48(how, s) TSR_SUMS(how, s, 0), TSR_SUMS(how, s, 8), TSR_SUMS(how, s, 16)
#define TSR_SUM_NAMES_48 "{" TSR_NAMES_0 ", " TSR_NAMES_8 ", " TSR_NAMES_16 "}"
#define TSR_SUMS_64(how, s) TSR_SUMS_32(how, s, 0)
#define TSR_SUM_NAMES_64 "{" TSR_LIST_32 "}"
#define TSR_SUMS_80(how, s) TSR_SUMS_32(how, s, 0), TSR_SUMS(how, s, 32)
#define TSR_SUM_NAMES_80 "{" TSR_LIST_32 ", " TSR_NAMES_32 "}"
#define TSR_SUMS_96(how, s) TSR_SUMS_32(how, s, 0), TSR_SUMS(how, s, 32), TSR_SUMS(how, s, 40)
#define TSR_SUM_NAMES_96 "{" TSR_LIST_32 ", " TSR_NAMES_32 ", " TSR_NAMES_40 "}"
#define TSR_SUMS_112(how, s) TSR_SUMS_32(how, s, 0), TSR_SUMS(how, s, 32), TSR_SUMS(how, s, 40), TSR_SUMS(how, s, 48)
#define TSR_SUM_NAMES_112 "{" TSR_LIST_32 ", " TSR_NAMES_32 ", " TSR_NAMES_40 ", " TSR_NAMES_48 "}"
#define TSR_SUMS_128(how, s) TSR_SUMS_32(how, s, 0), TSR_SUMS_32(how, s, 32)
#define TSR_SUM_NAMES_128 "{" TSR_LIST_64 "}"
#define TSR_SUMS_192(how, s) TSR_SUMS_128(how, s), TSR_SUMS_32(how, s, 64)
#define TSR_SUM_NAMES_192 "{" TSR_LIST_96 "}"
#define TSR_SUMS_256(how, s) TSR_SUMS_192(how, s), TSR_SUMS_32(how, s, 96)
#define TSR_SUM_NAMES_256 "{" TSR_LIST_128 "}"
#define TSR_WIDE(products, dtype, columns, a, b, c, d, e)                                                              \
  template <>                                                                                                          \
  struct Wide<products, columns> {                                                                                     \
    using Sums = WideSums<columns>;                                                                                    \
    static __device__ __forceinline__ void Multiply(Sums& s, const GroupRows& rows, uint64_t right) {                  \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." dtype "." dtype " " TSR_SUM_NAMES_##columns \
                   ", {%" #a ", %" #b ", %" #c ", %" #d "}, %" #e ", 1, 1, 1, 1;"                                      \
                   : TSR_SUMS_##columns("+f", s)                                                                       \
                   : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "l"(right));                              \
    }                                                                                                                  \
    static __device__ __forceinline__ void BeginAcross(Sums& s, uint64_t left, uint64_t right) {                       \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." dtype "." dtype " " TSR_SUM_NAMES_##columns \
                   ", %" #a ", %" #b ", 0, 1, 1, 0, 0;"                                                                \
                   : TSR_SUMS_##columns("=f", s)                                                                       \
                   : "l"(left), "l"(right));                                                                           \
    }                                                                                                                  \
    static __device__ __forceinline__ void AddAcross(Sums& s, uint64_t left, uint64_t right) {                         \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." dtype "." dtype " " TSR_SUM_NAMES_##columns \
                   ", %" #a ", %" #b ", 1, 1, 1, 0, 0;"                                                                \
                   : TSR_SUMS_##columns("+f", s)                                                                       \
                   : "l"(left), "l"(right));                                                                           \
    }                                                                                                                  \
    template <int kPending>                                                                                            \
    static __device__ __forceinline__ void Wait(Sums& s) {                                                             \
      asm volatile("wgmma.wait_group.sync.aligned %" #a ";" : TSR_SUMS_##columns("+f", s) : "n"(kPending) : "memory"); \
    }                                                                                                                  \
  };
TSR_WIDE(GroupOfF16, "f16", 48, 24, 25, 26, 27, 28)
TSR_WIDE(GroupOfBF16, "bf16", 48, 24, 25, 26, 27, 28)
TSR_WIDE(GroupOfF16, "f16", 64, 32, 33, 34, 35, 36)
TSR_WIDE(GroupOfBF16, "bf16", 64, 32, 33, 34, 35, 36)
TSR_WIDE(GroupOfF16, "f16", 80, 40, 41, 42, 43, 44)
TSR_WIDE(GroupOfBF16, "bf16", 80, 40, 41, 42, 43, 44)
TSR_WIDE(GroupOfF16, "f16", 96, 48, 49, 50, 51, 52)
TSR_WIDE(GroupOfBF16, "bf16", 96, 48, 49, 50, 51, 52)
TSR_WIDE(GroupOfF16, "f16", 112, 56, 57, 58, 59, 60)
TSR_WIDE(GroupOfBF16, "bf16", 112, 56, 57, 58, 59, 60)
TSR_WIDE(GroupOfF16, "f16", 128, 64, 65, 66, 67, 68)
TSR_WIDE(GroupOfBF16, "bf16", 128, 64, 65, 66, 67, 68)
TSR_WIDE(GroupOfF16, "f16", 192, 96, 97, 98, 99, 100)
TSR_WIDE(GroupOfBF16, "bf16", 192, 96, 97, 98, 99, 100)
TSR_WIDE(GroupOfF16, "f16", 256, 128, 129, 130, 131, 132)
TSR_WIDE(GroupOfBF16, "bf16", 256, 128, 129, 130, 131, 132)
#undef TSR_WIDE
#undef TSR_SUM_NAMES_48
#undef TSR_SUMS_48
#undef TSR_SUM_NAMES_64
#undef TSR_SUMS_64
#undef TSR_SUM_NAMES_80
#undef TSR_SUMS_80
#undef TSR_SUM_NAMES_96
#undef TSR_SUMS_96
#undef TSR_SUM_NAMES_112
#undef TSR_SUMS_112
#undef TSR_SUM_NAMES_128
#undef TSR_SUMS_128
#undef TSR_SUM_NAMES_192
#undef TSR_SUMS_192
#undef TSR_SUM_NAMES_256
#undef TSR_SUMS_256
#undef TSR_LIST_32
#undef TSR_LIST_64
#undef TSR_LIST_96
#undef TSR_LIST_128
#undef TSR_SUMS_32
#undef TSR_NAMES_0
#undef TSR_NAMES_8
#undef TSR_NAMES_16
#undef TSR_NAMES_24
#undef TSR_NAMES_32
#undef TSR_NAMES_40
#undef TSR_NAMES_48
#undef TSR_NAMES_56
#undef TSR_NAMES_64
#undef TSR_NAMES_72
#undef TSR_NAMES_80
#undef TSR_NAMES_88
#undef TSR_NAMES_96
#undef TSR_NAMES_104
#undef TSR_NAMES_112
#undef TSR_NAMES_120
#undef TSR_SUMS

/// The same for sums of 64 columns, whatever they are sums of.
template <int kPending>
__device__ __forceinline__ void WaitForProducts(GroupSums& sums) {
  Wide<GroupOfF16, 64>::Wait<kPending>(sums);
}

/// Copies tile after tile of kRows rows of a matrix, kDim / 64 tiles side by side: kDim columns, of which `cols` are
/// there, and `rows` rows; the rest are zeros.
template <class T, int kRows, int kDim, int kThreads>
class TileCopier {
 public:
  /// The first tile begins at `row`.
  __device__ __forceinline__ TileCopier(const T* from, int64_t stride, int row, int rows, int cols)
      : at_(from + (row + OwnRow()) * stride + OwnColumn() * 8),
        step_(kStep * stride),
        left_(rows - row),
        bytes_(OwnColumn() * 8 < cols ? 16 : 0) {}

  __device__ __forceinline__ void Next(uint32_t to) {
    const int r = OwnRow(), c = OwnColumn();
    to += c / 8 * (kRows * kRowBytes) + r * kRowBytes + ((c ^ r) % 8) * 16;
    if (left_ >= kRows) {
#pragma unroll
      for (int i = 0; i < kRows / kStep; ++i, at_ += step_) Copy(to + i * kStep * kRowBytes, bytes_);
    } else {
#pragma unroll
      for (int i = 0; i < kRows / kStep; ++i, at_ += step_)
        Copy(to + i * kStep * kRowBytes, r + i * kStep < left_ ? bytes_ : 0);
    }
    left_ -= kRows;
  }

 private:
  static constexpr int kChunks = kDim / 8, kStep = kThreads / kChunks;
  static_assert(kStep % 8 == 0 && kRows % kStep == 0);
  static __device__ __forceinline__ int OwnRow() { return static_cast<int>(threadIdx.x) / kChunks; }
  static __device__ __forceinline__ int OwnColumn() { return static_cast<int>(threadIdx.x) % kChunks; }
  /// Reads nothing where there are no bytes.
  __device__ __forceinline__ void Copy(uint32_t to, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(at_), "r"(bytes) : "memory");
  }

  const T* at_;
  int64_t step_;
  int left_, bytes_;
};

/// One number to shared memory; 0 where it is not inside.
__device__ __forceinline__ void CopyNumber(uint32_t to, const float* from, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(inside ? 4 : 0) : "memory");
}

/// sums = a b^T: a is 64 rows of a tile of kRows, b a tile of kColumns rows. Both have kDim columns.
template <class Products, int kDim, int kRows, int kColumns = 64>
__device__ __forceinline__ void MultiplyRows(WideSums<kColumns>& sums, uint32_t rows, uint32_t tile) {
  const uint32_t a = TileAt(rows), b = TileAt(tile);
#pragma unroll
  for (int d = 0; d < kDim / 16; ++d) {
    const uint64_t right = Descriptor(b + d / 4 * (kColumns * kRowBytes / 16) + d % 4 * kStepColumns);
    const uint64_t left = Descriptor(a + d / 4 * (kRows * kRowBytes / 16) + d % 4 * kStepColumns);
    if (d == 0)
      Wide<Products, kColumns>::BeginAcross(sums, left, right);
    else
      Wide<Products, kColumns>::AddAcross(sums, left, right);
  }
}

/// What sums were made into, as the left operand of a product.
template <class Of>
__device__ __forceinline__ void PackSums(const GroupSums& sums, GroupRows (&rows)[4]) {
#pragma unroll
  for (int d = 0; d < 4; ++d)
#pragma unroll
    for (int i = 0; i < 4; ++i) rows[d][i] = Of::Pack2(sums[d * 8 + i * 2], sums[d * 8 + i * 2 + 1]);
}

/// sums += rows b: b is a tile of 64 rows.
template <class Products, int kDim>
__device__ __forceinline__ void AddProduct(GroupSums (&sums)[kDim / 64], const GroupRows (&rows)[4], uint32_t tile) {
  const uint32_t b = TileAt(tile);
#pragma unroll
  for (int d = 0; d < 4; ++d)
#pragma unroll
    for (int n = 0; n < kDim / 64; ++n)
      Wide<Products, 64>::Multiply(sums[n], rows[d], Descriptor(b + d * kStepRows + n * (64 * kRowBytes / 16)));
}

/// Writes the warpgroup's rows, times `by`, from `row` on, to a matrix without gaps.
template <class Of, int kDim>
__device__ __forceinline__ void WriteRows(const GroupSums (&sums)[kDim / 64], const float (&by)[2], Address to,
                                          int64_t matrix, int row, int rows, int cols) {
  using T = typename Of::Element;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = row + warp * 16 + lane / 4 + h * 8;
    if (r >= rows) continue;
    T* y = At<T>(to) + (matrix * rows + r) * cols;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      const int c = n * 8 + lane % 4 * 2;  // cols is a multiple of 8
      const float* s = &sums[n / 8][n % 8 * 4 + h * 2];
      if (c < cols) *reinterpret_cast<uint32_t*>(y + c) = Of::Pack2(s[0] * by[h], s[1] * by[h]);
    }
  }
}

/// sums += rows b: b is a tile of kRows rows and kDim columns.
template <class Products, int kDim, int kRows>
__device__ __forceinline__ void AddWide(WideSums<kDim>& sums, const GroupRows (&rows)[kRows / 16], uint32_t tile) {
#pragma unroll
  for (int d = 0; d < kRows / 16; ++d)
    Wide<Products, kDim>::Multiply(sums, rows[d], WideDescriptor<kRows>(TileAt(tile) + d * kStepRows));
}

/// The warpgroup's rows, times `by`, to a tile of 64 rows.
template <class Of, int kDim>
__device__ __forceinline__ void StoreWide(const WideSums<kDim>& sums, const float (&by)[2], uint32_t tile) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  // Four matrices of 8 by 8 at a time: eight rows, the next eight, and the same of the columns beside them.
  const uint32_t row = tile + (warp * 16 + lane % 16) * kRowBytes;
#pragma unroll
  for (int n = 0; n < kDim / 8; n += 2) {
    uint32_t two[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      two[i] = Of::Pack2(sums[n * 4 + i * 2] * by[i % 2], sums[n * 4 + i * 2 + 1] * by[i % 2]);
    const uint32_t to = row + n / 8 * (64 * kRowBytes) + ((n % 8 + lane / 16) ^ (lane % 8)) * 16;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(two[0]), "r"(two[1]),
                 "r"(two[2]), "r"(two[3])
                 : "memory");
  }
}

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_KERNELS_WGMMA_CUH_
