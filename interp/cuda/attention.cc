// The op attention: on tensor cores, by tiles of queries, or one query by one.
#include <cmath>

#include "interp/cpu/strided.h"
#include "interp/cuda/attention_args.h"
#include "interp/cuda/launch.h"

TSR_CUDA_IMAGE(attention);
extern "C" const unsigned char* tessera_cuda_image_attention_mma();

namespace tessera::cuda {
namespace {

const Kernel kTiles[] = {
    {kImage, "attention_tiles_64"}, {kImage, "attention_tiles_128"}, {kImage, "attention_tiles_256"}};
const Kernel kRows[] = {{kImage, "attention_rows_f32"}, {kImage, "attention_rows_f64"}};

constexpr Image kMma = tessera_cuda_image_attention_mma;
/// By dtype, columns and mask.
const Kernel kMatrices[2][3][2] = {{{{kMma, "attention_f16_64"}, {kMma, "attention_f16_64_mask"}},
                                    {{kMma, "attention_f16_128"}, {kMma, "attention_f16_128_mask"}},
                                    {{kMma, "attention_f16_256"}, {kMma, "attention_f16_256_mask"}}},
                                   {{{kMma, "attention_bf16_64"}, {kMma, "attention_bf16_64_mask"}},
                                    {{kMma, "attention_bf16_128"}, {kMma, "attention_bf16_128_mask"}},
                                    {{kMma, "attention_bf16_256"}, {kMma, "attention_bf16_256_mask"}}}};
constexpr int64_t kMmaKeys = 64;
constexpr int kMmaThreads = 128;

constexpr int64_t kTileQueries = 64;
constexpr int64_t kFewQueries = 8;  // a tile would be nearly empty
constexpr int64_t kTileColumns = 256;

Matrices MatricesOf(const View& v) {
  View at = v;
  at.rank = static_cast<uint8_t>(v.rank - 2);
  return {AddressOf(v), Merged(at), v.strides[v.rank - 2], v.strides[v.rank - 1]};
}

/// Rows are runs that begin at multiples of 16 bytes.
bool HasAlignedRows(const Matrices& m, int64_t cols) {
  int64_t all = m.row | cols;
  for (int d = 0; d < m.at.rank; ++d) all |= m.at.strides[d];
  return m.col == 1 && all % 8 == 0 && m.data % 16 == 0;
}

/// On tensor cores, where attention_mma.cu can.
bool SuitsTensorCores(const AttentionArgs& a) {
  const auto dtype = static_cast<DType>(a.dtype);
  return (dtype == DType::f16 || dtype == DType::bf16) && a.scale > 0 && std::max(a.dim, a.value_dim) <= kTileColumns &&
         HasAlignedRows(a.q, a.dim) && HasAlignedRows(a.k, a.dim) && HasAlignedRows(a.v, a.value_dim);
}

absl::Status OnTensorCores(const interp::KernelArgs& args, const AttentionArgs& a) {
  const int dim = std::max(a.dim, a.value_dim), which = dim <= 64 ? 0 : dim <= 128 ? 1 : 2;
  const int64_t rows = which == 2 ? 64 : 128, pitch = (int64_t{64} << which) * 2 + 16;
  const int64_t bytes = (rows + 2 * kMmaKeys) * pitch + (a.has_mask != 0 ? rows * kMmaKeys * 4 : 0);
  const int64_t blocks = a.heads * ((a.queries + rows - 1) / rows);
  return Launch(args, kMatrices[static_cast<DType>(a.dtype) == DType::bf16][which][a.has_mask],
                {blocks, kMmaThreads, static_cast<int>(bytes)}, a);
}

}  // namespace

absl::Status k_attention(const interp::KernelArgs& args) {
  const View &q = *args.in[0], &k = *args.in[1], &v = *args.in[2], &y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  const int rank = q.rank;
  const int64_t queries = q.dims[rank - 2], keys = k.dims[rank - 2], dim = q.dims[rank - 1];
  const int64_t value_dim = v.dims[rank - 1];
  if (std::max({queries, keys, dim, value_dim}) >= int64_t{1} << 31) {
    return Unsupported("q ", ToString(q), " with k ", ToString(k), ": dims must be below 2^31");
  }
  AttentionArgs a = {};
  a.q = MatricesOf(q);
  a.k = MatricesOf(k);
  a.v = MatricesOf(v);
  if (args.in.size() > 3 && args.in[3] != nullptr) {
    TensorType full = q;
    full.dims[rank - 1] = keys;
    a.mask = MatricesOf(cpu::BroadcastTo(*args.in[3], full));
    a.mask_dtype = static_cast<int32_t>(args.in[3]->dtype);
    a.has_mask = 1;
  }
  a.y = AddressOf(y);
  a.heads = 1;
  for (int d = 0; d < rank - 2; ++d) a.heads *= q.dims[d];
  a.share = q.dims[rank - 3] / k.dims[rank - 3];
  a.queries = static_cast<int32_t>(queries);
  a.keys = static_cast<int32_t>(keys);
  a.dim = static_cast<int32_t>(dim);
  a.value_dim = static_cast<int32_t>(value_dim);
  a.dtype = static_cast<int32_t>(y.dtype);
  a.causal = args.flag(0);
  a.scale = args.number(1);
  if (a.scale == 0) a.scale = dim > 0 ? 1 / std::sqrt(static_cast<double>(dim)) : 1;

  const bool wide = y.dtype == DType::f64;
  const int64_t blocks = a.heads * ((queries + kTileQueries - 1) / kTileQueries);
  if (wide || queries <= kFewQueries || value_dim > kTileColumns || blocks > INT32_MAX)
    return Launch(args, kRows[wide], {std::min<int64_t>(a.heads * queries, 1 << 20), kThreads}, a);
  if (SuitsTensorCores(a)) return OnTensorCores(args, a);
  return Launch(args, kTiles[value_dim <= 64 ? 0 : value_dim <= 128 ? 1 : 2], {blocks, kThreads}, a);
}

}  // namespace tessera::cuda
