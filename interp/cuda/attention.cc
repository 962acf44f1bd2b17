// The op attention: queries by tiles, or one by one.
#include <cmath>

#include "interp/cpu/strided.h"
#include "interp/cuda/attention_args.h"
#include "interp/cuda/launch.h"

TSR_CUDA_IMAGE(attention);

namespace tessera::cuda {
namespace {

const Kernel kTiles[] = {
    {kImage, "attention_tiles_64"}, {kImage, "attention_tiles_128"}, {kImage, "attention_tiles_256"}};
const Kernel kRows[] = {{kImage, "attention_rows_f32"}, {kImage, "attention_rows_f64"}};

constexpr int64_t kTileQueries = 64;
constexpr int64_t kFewQueries = 8;  // a tile would be nearly empty
constexpr int64_t kTileColumns = 256;

Matrices MatricesOf(const View& v) {
  View at = v;
  at.rank = static_cast<uint8_t>(v.rank - 2);
  return {AddressOf(v), Merged(at), v.strides[v.rank - 2], v.strides[v.rank - 1]};
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
  return Launch(args, kTiles[value_dim <= 64 ? 0 : value_dim <= 128 ? 1 : 2], {blocks, kThreads}, a);
}

}  // namespace tessera::cuda
