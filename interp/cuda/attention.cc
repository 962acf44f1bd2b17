// The ops attention and attention_grad: on tensor cores, by tiles of queries, or one query (or key) by one.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include "interp/cpu/strided.h"
#include "interp/cuda/attention_args.h"
#include "interp/cuda/launch.h"

TSR_CUDA_IMAGE(attention);
extern "C" const unsigned char* tessera_cuda_image_attention_mma();
extern "C" const unsigned char* tessera_cuda_image_attention_hopper();
extern "C" const unsigned char* tessera_cuda_image_attention_pieces_hopper();
extern "C" const unsigned char* tessera_cuda_image_attention_pieces_mask_hopper();
extern "C" const unsigned char* tessera_cuda_image_attention_pieces_window_hopper();
extern "C" const unsigned char* tessera_cuda_image_attention_few();
extern "C" const unsigned char* tessera_cuda_image_attention_grad();
extern "C" const unsigned char* tessera_cuda_image_attention_grad_mma();
extern "C" const unsigned char* tessera_cuda_image_attention_grad_hopper();
extern "C" const unsigned char* tessera_cuda_image_attention_grad_pieces_hopper();

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

/// On sm_90, by dtype and columns, without a mask.
constexpr Image kHopper = tessera_cuda_image_attention_hopper, kGradHopper = tessera_cuda_image_attention_grad_hopper;
const Kernel kOnHopper[2][2] = {{{kHopper, "attention_hopper_f16_64"}, {kHopper, "attention_hopper_f16_128"}},
                                {{kHopper, "attention_hopper_bf16_64"}, {kHopper, "attention_hopper_bf16_128"}}};

/// The same, for operands that the device can copy pieces of: by dtype, in the order of kPiecesBlocks.
constexpr Image kPieces = tessera_cuda_image_attention_pieces_hopper;
constexpr Image kMaskPieces = tessera_cuda_image_attention_pieces_mask_hopper;
#define TSR_PIECES(dtype)                                                                                         \
  {                                                                                                               \
      {kPieces, "attention_pieces_" dtype "_64"},           {kPieces, "attention_pieces_" dtype "_128"},          \
      {kPieces, "attention_pieces_" dtype "_64_few"},       {kPieces, "attention_pieces_" dtype "_192"},          \
      {kPieces, "attention_pieces_" dtype "_256"},          {kMaskPieces, "attention_pieces_" dtype "_64_mask"},  \
      {kMaskPieces, "attention_pieces_" dtype "_128_mask"}, {kMaskPieces, "attention_pieces_" dtype "_192_mask"}, \
      {kMaskPieces, "attention_pieces_" dtype "_256_mask"},                                                       \
  }
const Kernel kByPieces[2][std::size(kPiecesBlocks)] = {TSR_PIECES("f16"), TSR_PIECES("bf16")};
#undef TSR_PIECES
/// The same under a window, which the first of those blocks is not for.
constexpr Image kWindowPieces = tessera_cuda_image_attention_pieces_window_hopper;
#define TSR_PIECES(dtype)                                            \
  {                                                                  \
      {kWindowPieces, "attention_pieces_" dtype "_128_window"},      \
      {kWindowPieces, "attention_pieces_" dtype "_64_window"},       \
      {kWindowPieces, "attention_pieces_" dtype "_192_window"},      \
      {kWindowPieces, "attention_pieces_" dtype "_256_window"},      \
      {kWindowPieces, "attention_pieces_" dtype "_64_mask_window"},  \
      {kWindowPieces, "attention_pieces_" dtype "_128_mask_window"}, \
      {kWindowPieces, "attention_pieces_" dtype "_192_mask_window"}, \
      {kWindowPieces, "attention_pieces_" dtype "_256_mask_window"}, \
  }
const Kernel kByWindowPieces[2][std::size(kPiecesBlocks) - 1] = {TSR_PIECES("f16"), TSR_PIECES("bf16")};
#undef TSR_PIECES
/// From so many queries on, blocks with more of them are faster.
constexpr int32_t kManyQueries = 1536;
/// Gradients are copied by pieces from so many queries on: below that blocks are too few, or too much of one is empty.
constexpr int32_t kGradQueries64 = 2048, kGradQueries128 = 768;
/// Keys and values of heads that are worked on at a time; the second-level cache has more.
constexpr int64_t kBytesTogether = int64_t{32} << 20;

constexpr Image kGrad = tessera_cuda_image_attention_grad, kGradMma = tessera_cuda_image_attention_grad_mma;
/// dq, then dk and dv.
const Kernel kGradRows[2][2] = {{{kGrad, "attention_grad_queries_rows_f32"}, {kGrad, "attention_grad_keys_rows_f32"}},
                                {{kGrad, "attention_grad_queries_rows_f64"}, {kGrad, "attention_grad_keys_rows_f64"}}};
/// By dtype, columns, mask and part.
#define TSR_GRAD_PARTS(what)                                                              \
  {                                                                                       \
    {kGradMma, "attention_grad_queries_" what}, { kGradMma, "attention_grad_keys_" what } \
  }
const Kernel kGradMatrices[2][3][2][2] = {{{TSR_GRAD_PARTS("f16_64"), TSR_GRAD_PARTS("f16_64_mask")},
                                           {TSR_GRAD_PARTS("f16_128"), TSR_GRAD_PARTS("f16_128_mask")},
                                           {TSR_GRAD_PARTS("f16_256"), TSR_GRAD_PARTS("f16_256_mask")}},
                                          {{TSR_GRAD_PARTS("bf16_64"), TSR_GRAD_PARTS("bf16_64_mask")},
                                           {TSR_GRAD_PARTS("bf16_128"), TSR_GRAD_PARTS("bf16_128_mask")},
                                           {TSR_GRAD_PARTS("bf16_256"), TSR_GRAD_PARTS("bf16_256_mask")}}};
#undef TSR_GRAD_PARTS
/// By dtype, columns and part.
#define TSR_GRAD_PARTS(what)                                                                                  \
  {                                                                                                           \
    {kGradHopper, "attention_grad_hopper_queries_" what}, { kGradHopper, "attention_grad_hopper_keys_" what } \
  }
const Kernel kGradOnHopper[2][2][2] = {{TSR_GRAD_PARTS("f16_64"), TSR_GRAD_PARTS("f16_128")},
                                       {TSR_GRAD_PARTS("bf16_64"), TSR_GRAD_PARTS("bf16_128")}};
#undef TSR_GRAD_PARTS
/// The same, for operands that the device can copy pieces of. Before these two, by dtype, there is a third.
constexpr Image kGradPieces = tessera_cuda_image_attention_grad_pieces_hopper;
#define TSR_GRAD_PARTS(what)                                                                                  \
  {                                                                                                           \
    {kGradPieces, "attention_grad_pieces_queries_" what}, { kGradPieces, "attention_grad_pieces_keys_" what } \
  }
#define TSR_GRAD_SHAPES(dtype, end)                                                                     \
  {TSR_GRAD_PARTS(dtype "_64" end), TSR_GRAD_PARTS(dtype "_128" end), TSR_GRAD_PARTS(dtype "_192" end), \
   TSR_GRAD_PARTS(dtype "_256" end)}
/// By dtype, window, columns and part.
const Kernel kGradByPieces[2][2][4][2] = {{TSR_GRAD_SHAPES("f16", ""), TSR_GRAD_SHAPES("f16", "_window")},
                                          {TSR_GRAD_SHAPES("bf16", ""), TSR_GRAD_SHAPES("bf16", "_window")}};
#undef TSR_GRAD_SHAPES
#undef TSR_GRAD_PARTS
const Kernel kGradSums[2] = {{kGradPieces, "attention_grad_pieces_sums_f16"},
                             {kGradPieces, "attention_grad_pieces_sums_bf16"}};
constexpr int64_t kGradColumns = 256;
constexpr int kGradThreads = 128;

/// Of few queries, by dtype: 64 and 128 columns, and the end.
constexpr Image kFewImage = tessera_cuda_image_attention_few;
const Kernel kFew[2][3] = {
    {{kFewImage, "attention_few_f16_64"}, {kFewImage, "attention_few_f16_128"}, {kFewImage, "attention_few_f16_end"}},
    {{kFewImage, "attention_few_bf16_64"},
     {kFewImage, "attention_few_bf16_128"},
     {kFewImage, "attention_few_bf16_end"}}};
constexpr int64_t kFewRows = 16, kFewWarps = 4;
constexpr int64_t kShortestStretch = 128;  // of keys, for a warp
constexpr int64_t kWaves = 4;              // of warps, all full: with fewer, some would run alone at the end

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

/// Whether those are of sm_90.
bool IsHopper(const interp::KernelArgs& args) {
  const Properties& device = DeviceOf(*args.device).properties();
  return device.major == 9 && device.minor == 0;
}

/// Where attention_hopper.cu and attention_grad_hopper.cu can.
bool SuitsHopper(const interp::KernelArgs& args, const AttentionArgs& a) {
  return IsHopper(args) && a.has_mask == 0 && std::max(a.dim, a.value_dim) <= 128;
}

/// For pieces of 64 columns and `piece` rows. `inner`: matrices of the inner one of the two dims that they are in.
bool MapMatrices(Device& device, const Matrices& m, int64_t rows, int64_t cols, int piece, TileMap* map,
                 int32_t* inner) {
  // Where an address is to be looked up, there is nothing to make a map of.
  if ((m.data & kIndirect) != 0 || m.at.rank > 2) return false;
  rt::PieceShape shape = {2, 4, {cols, rows, 1, 1}, {2, m.row * 2}, {64, piece, 1, 1}};
  for (int d = 0; d < m.at.rank; ++d) {
    shape.dims[1 + m.at.rank - d] = m.at.dims[d];
    shape.strides[1 + m.at.rank - d] = m.at.strides[d] * 2;
  }
  *inner = static_cast<int32_t>(shape.dims[2]);
  rt::PieceMap made;
  if (!device.MapPieces(shape, std::bit_cast<const void*>(m.data), &made)) return false;
  static_assert(sizeof made == sizeof *map);
  std::memcpy(map, &made, sizeof made);
  return true;
}

/// The same of results, which have no gaps.
bool MapResults(Device& device, Address data, int64_t matrices, int64_t rows, int64_t cols, TileMap* map) {
  int32_t all;
  return MapMatrices(device, {data, {1, 0, {matrices}, {rows * cols}}, cols, 1}, rows, cols, 64, map, &all);
}

/// Heads to work on at a time. Without a causal mask, and under a window, all parts are of one size, and those of one
/// head go together.
int32_t Together(const AttentionArgs& a, int64_t heads, int64_t rows, int64_t share) {
  if (a.causal == 0 || a.window > 0) return 1;
  const int64_t bytes = rows * (a.dim + a.value_dim) * 2;
  return static_cast<int32_t>(std::min(heads, std::max<int64_t>(1, kBytesTogether / bytes) * share));
}

/// Whether the mask can be read two neighbours of a row at a time, and is of a dtype that attention_pieces.cuh knows.
bool HasPairs(const AttentionArgs& a) {
  const auto dtype = static_cast<DType>(a.mask_dtype);
  if (dtype != DType::boolean && dtype != DType::f32 && a.mask_dtype != a.dtype) return false;
  int64_t all = a.mask.row | a.keys;
  for (int d = 0; d < a.mask.at.rank; ++d) all |= a.mask.at.strides[d];
  const uint64_t bytes = dtype == DType::boolean ? 1 : dtype == DType::f32 ? 4 : 2;
  return a.mask.col == 1 && all % 2 == 0 && (a.mask.data & kIndirect) == 0 && a.mask.data % (2 * bytes) == 0;
}

/// The number of the blocks that attention_pieces.cuh has for it.
int ShapeOf(const AttentionArgs& a) {
  const int dim = std::max(a.dim, a.value_dim);
  if (a.has_mask != 0) return kMaskBlocks + (dim - 1) / 64;
  if (dim <= 64) return a.queries < kManyQueries || a.window > 0 ? 2 : 0;
  return dim <= 128 ? 1 : dim <= 192 ? 3 : 4;
}

/// Whether attention_pieces.cuh can do it; then what it takes.
bool PiecesOf(Device& device, const AttentionArgs& a, const PiecesBlock& block, AttentionPiecesArgs* pieces) {
  if (a.has_mask != 0 && !HasPairs(a)) return false;
  if (!MapMatrices(device, a.q, a.queries, a.dim, 64, &pieces->q, &pieces->inner_q) ||
      !MapMatrices(device, a.k, a.keys, a.dim, block.keys, &pieces->k, &pieces->inner_k) ||
      !MapMatrices(device, a.v, a.keys, a.value_dim, block.keys, &pieces->v, &pieces->inner_v) ||
      !MapResults(device, a.y, a.heads, a.queries, a.value_dim, &pieces->y))
    return false;
  pieces->a = a;
  pieces->together = Together(a, a.heads, a.keys, a.share);
  return true;
}

/// The same for the kernels of attention_grad_pieces_hopper.cu: of queries, and of keys.
bool PiecesOf(Device& device, const AttentionGradArgs& a, int64_t shape, AttentionGradPiecesArgs (&pieces)[2]) {
  const AttentionArgs& f = a.forward;
  const int64_t kv_heads = f.heads / f.share;
  if ((a.y.data & kIndirect) != 0) return false;
  for (int part = 0; part < 2; ++part) {
    AttentionGradPiecesArgs& p = pieces[part];
    const int tile = (part == 0 ? kGradQueriesBlocks : kGradKeysBlocks)[shape].rows;
    const int queries = part == 0 ? 64 : tile, keys = part == 0 ? tile : 64;
    if (!MapMatrices(device, f.q, f.queries, f.dim, queries, &p.q, &p.inner_q) ||
        !MapMatrices(device, a.g, f.queries, f.value_dim, queries, &p.g, &p.inner_g) ||
        !MapMatrices(device, f.k, f.keys, f.dim, keys, &p.k, &p.inner_k) ||
        !MapMatrices(device, f.v, f.keys, f.value_dim, keys, &p.v, &p.inner_v))
      return false;
    p.a = a;
    p.pitch = (f.queries + kGradPitch - 1) / kGradPitch * kGradPitch;
  }
  pieces[0].together = Together(f, f.heads, f.keys, f.share);
  pieces[1].together = Together(f, kv_heads, f.queries * f.share, 1);
  return MapResults(device, a.dq, f.heads, f.queries, f.dim, &pieces[0].results[0]) &&
         MapResults(device, a.dk, kv_heads, f.keys, f.dim, &pieces[1].results[0]) &&
         MapResults(device, a.dv, kv_heads, f.keys, f.value_dim, &pieces[1].results[1]);
}

absl::Status OnTensorCores(const interp::KernelArgs& args, const AttentionArgs& a) {
  const int dim = std::max(a.dim, a.value_dim), which = dim <= 64 ? 0 : dim <= 128 ? 1 : 2;
  const bool is_bf16 = static_cast<DType>(a.dtype) == DType::bf16;
  const int shape = ShapeOf(a);
  const PiecesBlock& block = kPiecesBlocks[shape];
  if (AttentionPiecesArgs pieces; IsHopper(args) && PiecesOf(DeviceOf(*args.device), a, block, &pieces)) {
    const int64_t parts = a.heads * ((a.queries + 64 * block.groups - 1) / (64 * block.groups));
    const Kernel& kernel = a.window > 0 ? kByWindowPieces[is_bf16][shape - 1] : kByPieces[is_bf16][shape];
    return Launch(args, kernel, {parts, block.threads(), block.shared(), 1}, pieces);
  }
  if (SuitsHopper(args, a)) {
    const int groups = which == 0 ? kHopperGroups64 : kHopperGroups128;
    const int64_t rows = 64 * groups, pitch = (int64_t{64} << which) * 2;
    return Launch(
        args, kOnHopper[is_bf16][which],
        {a.heads * ((a.queries + rows - 1) / rows), groups * 128, static_cast<int>((rows + 4 * kHopperStep) * pitch)},
        a);
  }
  const int64_t rows = which == 2 ? 64 : 128, pitch = (int64_t{64} << which) * 2 + 16;
  const int64_t bytes = (rows + 2 * kMmaKeys) * pitch + (a.has_mask != 0 ? rows * kMmaKeys * 4 : 0);
  const int64_t blocks = a.heads * ((a.queries + rows - 1) / rows);
  return Launch(args, kMatrices[is_bf16][which][a.has_mask], {blocks, kMmaThreads, static_cast<int>(bytes)}, a);
}

/// Few queries on tensor cores, where attention_few.cu can.
bool SuitsFew(const AttentionArgs& a) {
  return a.queries <= kFewQueries && a.has_mask == 0 && std::max(a.dim, a.value_dim) <= 128 && SuitsTensorCores(a);
}

absl::Status OfFewQueries(const interp::KernelArgs& args, const AttentionArgs& a) {
  const int64_t units = DeviceOf(*args.device).properties().multiprocessors, rows = a.share * a.queries;
  AttentionFewArgs few = {};
  few.a = a;
  few.groups = a.heads / a.share;
  few.tiles = static_cast<int32_t>((rows + kFewRows - 1) / kFewRows);
  const int64_t resident = units * kFewWarps * (std::max(a.dim, a.value_dim) > 64 ? 2 : 3);
  if (a.window > 0) few.first = static_cast<int32_t>(std::max<int64_t>(0, int64_t{a.keys} - a.queries + 1 - a.window));
  const int64_t each = few.groups * few.tiles, keys = a.keys - few.first;
  const int64_t most = std::max<int64_t>(1, keys / kShortestStretch);
  const int64_t wanted = std::clamp<int64_t>(kWaves * resident / each, 1, most);
  few.stretch = static_cast<int32_t>(((keys + wanted - 1) / wanted + kFewRows - 1) / kFewRows * kFewRows);
  few.stretches = static_cast<int32_t>(std::max<int64_t>(1, (keys + few.stretch - 1) / std::max(1, few.stretch)));
  const auto& kernels = kFew[static_cast<DType>(a.dtype) == DType::bf16];
  const Kernel& walk = kernels[std::max(a.dim, a.value_dim) > 64];
  const auto grid = [](int64_t warps) { return Grid{(warps + kFewWarps - 1) / kFewWarps, kFewWarps * 32}; };
  const int64_t warps = each * few.stretches;
  if (few.stretches == 1) return Launch(args, walk, grid(warps), few);
  const int64_t places = few.groups * few.stretches * rows;
  TSR_ASSIGN_OR_RETURN(const Scratch scratch,
                       Scratch::Make(*args.device, static_cast<size_t>(places * (a.value_dim + 2) * 4)));
  few.sums = scratch.address();
  few.weights = few.sums + static_cast<Address>(places * a.value_dim * 4);
  TSR_RETURN_IF_ERROR(Launch(args, walk, grid(warps), few));
  return Launch(args, kernels[2], {few.groups * rows, kFewWarps * 32}, few);
}

/// q, k, v, the mask, which is operand number `mask_at`, and the attributes.
absl::StatusOr<AttentionArgs> ArgsOf(const interp::KernelArgs& args, size_t mask_at) {
  const View &q = *args.in[0], &k = *args.in[1], &v = *args.in[2];
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
  if (args.in.size() > mask_at && args.in[mask_at] != nullptr) {
    const View& mask = *args.in[mask_at];
    TensorType full = q;
    full.dims[rank - 1] = keys;
    a.mask = MatricesOf(cpu::BroadcastTo(mask, full));
    a.mask_dtype = static_cast<int32_t>(mask.dtype);
    a.has_mask = 1;
  }
  a.heads = 1;
  for (int d = 0; d < rank - 2; ++d) a.heads *= q.dims[d];
  a.share = q.dims[rank - 3] / std::max<int64_t>(1, k.dims[rank - 3]);
  a.queries = static_cast<int32_t>(queries);
  a.keys = static_cast<int32_t>(keys);
  a.dim = static_cast<int32_t>(dim);
  a.value_dim = static_cast<int32_t>(value_dim);
  a.dtype = static_cast<int32_t>(args.out[0]->dtype);
  a.causal = args.flag(0);
  a.scale = args.number(1);
  a.window = args.integer(2) < keys ? args.integer(2) : 0;
  if (a.scale == 0) a.scale = dim > 0 ? 1 / std::sqrt(static_cast<double>(dim)) : 1;
  return a;
}

}  // namespace

absl::Status k_attention(const interp::KernelArgs& args) {
  const View& y = *args.out[0];
  if (y.size() == 0) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(AttentionArgs a, ArgsOf(args, 3));
  a.y = AddressOf(y);
  const bool wide = y.dtype == DType::f64;
  const int64_t blocks = a.heads * ((a.queries + kTileQueries - 1) / kTileQueries);
  if (SuitsFew(a)) return OfFewQueries(args, a);
  if (wide || a.queries <= kFewQueries || a.value_dim > kTileColumns || blocks > INT32_MAX)
    return Launch(args, kRows[wide], {std::min<int64_t>(a.heads * a.queries, 1 << 20), kThreads}, a);
  if (SuitsTensorCores(a)) return OnTensorCores(args, a);
  return Launch(args, kTiles[a.value_dim <= 64 ? 0 : a.value_dim <= 128 ? 1 : 2], {blocks, kThreads}, a);
}

absl::Status k_attention_grad(const interp::KernelArgs& args) {
  TSR_ASSIGN_OR_RETURN(const AttentionArgs forward, ArgsOf(args, 5));
  AttentionGradArgs a = {};
  a.forward = forward;
  a.y = MatricesOf(*args.in[3]);
  a.g = MatricesOf(*args.in[4]);
  a.dq = AddressOf(*args.out[0]);
  a.dk = AddressOf(*args.out[1]);
  a.dv = AddressOf(*args.out[2]);
  const int64_t rows = forward.heads * forward.queries, kv_heads = forward.heads / std::max<int64_t>(1, forward.share);
  const bool wide = args.out[0]->dtype == DType::f64;
  // In rows of the pitch that copies by pieces ask for.
  const int64_t room = forward.heads * ((forward.queries + kGradPitch - 1) / kGradPitch * kGradPitch);
  TSR_ASSIGN_OR_RETURN(
      const Scratch numbers,
      Scratch::Make(*args.device, static_cast<size_t>(std::max<int64_t>(1, 2 * room)) * (wide ? 8 : 4)));
  a.logs = numbers.address();
  a.sums = a.logs + static_cast<Address>(room) * (wide ? 8 : 4);

  const int64_t columns = std::max(forward.dim, forward.value_dim);
  const int which = columns <= 64 ? 0 : columns <= 128 ? 1 : 2;
  const bool on_hopper = SuitsHopper(args, forward);
  const int64_t pitch = (int64_t{64} << which) * 2 + (on_hopper ? 0 : 16);
  const int64_t key_rows = which == 0 && !on_hopper ? 128 : 64, query_rows = on_hopper || which == 2 ? 64 : 128;
  const int64_t step = on_hopper ? kHopperStep : which == 0 ? kGradStep64 : which == 1 ? kGradStep128 : kGradStep256;
  const int64_t query_bytes = (2 * query_rows + 4 * step) * pitch;
  const int64_t key_bytes = (2 * key_rows + 4 * step) * pitch + 4 * step * 4;
  const bool on_tensor_cores = SuitsTensorCores(forward) && columns <= kGradColumns &&
                               HasAlignedRows(a.y, forward.value_dim) && HasAlignedRows(a.g, forward.value_dim) &&
                               std::max(query_bytes, key_bytes) <= DeviceOf(*args.device).properties().shared_bytes;
  if (!on_tensor_cores) {
    const int64_t keys = kv_heads * forward.keys;
    if (rows > 0)
      TSR_RETURN_IF_ERROR(Launch(args, kGradRows[wide][0], {std::min<int64_t>(rows, 1 << 20), kGradThreads}, a));
    if (keys == 0) return absl::OkStatus();
    return Launch(args, kGradRows[wide][1], {std::min<int64_t>(keys, 1 << 20), kGradThreads}, a);
  }
  const bool is_bf16 = args.out[0]->dtype == DType::bf16;
  const int64_t each = which == 2 ? 2 : 1;  // blocks for the same keys: of so many columns dk and dv have their own
  const int64_t shape = (std::max<int64_t>(columns, 1) - 1) / 64;
  const bool by_pieces =
      IsHopper(args) && forward.has_mask == 0 && forward.queries >= (which == 0 ? kGradQueries64 : kGradQueries128);
  if (AttentionGradPiecesArgs pieces[2]; by_pieces && PiecesOf(DeviceOf(*args.device), a, shape, pieces)) {
    TSR_RETURN_IF_ERROR(Launch(args, kGradSums[is_bf16], {(room * 16 + kThreads - 1) / kThreads, kThreads}, pieces[0]));
    const auto launch = [&](int part, const GradPiecesBlock& block, int64_t parts) {
      return Launch(args, kGradByPieces[is_bf16][forward.window > 0][shape][part],
                    {parts, block.threads(), block.shared()}, pieces[part]);
    };
    TSR_RETURN_IF_ERROR(launch(0, kGradQueriesBlocks[shape], forward.heads * ((forward.queries + 127) / 128)));
    return launch(1, kGradKeysBlocks[shape], each * kv_heads * ((forward.keys + 127) / 128));
  }
  const auto& kernels = on_hopper ? kGradOnHopper[is_bf16][which] : kGradMatrices[is_bf16][which][forward.has_mask];
  const auto launch = [&](const Kernel& kernel, int64_t blocks, int64_t bytes) {
    if (blocks == 0) return absl::OkStatus();
    return Launch(args, kernel, {blocks, kGradThreads, static_cast<int>(bytes)}, a);
  };
  const int64_t query_blocks = forward.heads * ((forward.queries + query_rows - 1) / query_rows);
  const int64_t key_blocks = kv_heads * ((forward.keys + key_rows - 1) / key_rows);
  TSR_RETURN_IF_ERROR(launch(kernels[0], query_blocks, query_bytes));
  return launch(kernels[1], each * key_blocks, key_bytes);
}

}  // namespace tessera::cuda
