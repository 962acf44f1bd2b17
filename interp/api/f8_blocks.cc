// Compositions of ops that tiers/compiler/sched/f8_factors.cc knows as factors of a product: what is written here and
// what is looked for there change together.
#include "tessera/f8_blocks.h"

#include "interp/api/eager.h"

namespace tessera {
namespace {

constexpr int64_t kBlock = 128;

int64_t Ceil(int64_t n) { return (n + kBlock - 1) / kBlock; }

/// The dims of a tensor with its last one in blocks, and, unless that is 0, another one of so many elements behind it.
Dims Blocked(const Dims& dims, int64_t last) {
  std::vector<int64_t> blocked(dims.begin(), dims.end());
  blocked.back() /= kBlock;
  if (last > 0) blocked.push_back(last);
  return blocked;
}

/// Scales of blocks of rows as scales of single rows.
Tensor OfRows(const Tensor& scale, int64_t rows) {
  const int64_t down = scale.dims()[0], along = scale.dims()[1];
  const Tensor each = reshape(scale, {down, 1, along});
  return slice(reshape(broadcast(each, {down, kBlock, along}), {down * kBlock, along}), {0, 0}, {rows, along});
}

[[noreturn]] void Refuse(const char* op, const Tensor& x, const char* takes) {
  api::Throw(InvalidArgument(op, ": an operand is ", ToString(api::TypeOf(x, op)), "; it takes ", takes));
}

}  // namespace

Quantized quantize_blocks(const Arg& given, DType dtype, int64_t rows) {
  const Tensor wide = cast(given, f32);
  const Dims dims = wide.dims();
  if (dtype != f8e4m3 && dtype != f8e5m2)
    api::Throw(
        InvalidArgument("quantize_blocks: the dtype is ", std::string(Name(dtype)), "; it must be f8e4m3 or f8e5m2"));
  if (rows != 1 && rows != kBlock)
    api::Throw(InvalidArgument("quantize_blocks: a block would have ", rows, " rows; it has 1 or 128"));
  if (dims.size() < 2 || dims[dims.size() - 1] % kBlock != 0 || (rows > 1 && dims.size() != 2))
    Refuse("quantize_blocks", wide, "matrices with rows of whole blocks of 128; with blocks of 128 rows only one");
  // Nothing is divided by 0, and what is small stays a number.
  const double most = dtype == f8e4m3 ? 448 : 57344, least = 0x1p-126;
  const auto scale_of = [&](const Tensor& blocks, const Axes& axes) {
    return maximum(max(abs(blocks), axes, /*keepdims=*/true) / most, least);
  };
  if (rows == 1) {
    const Tensor blocks = reshape(wide, Blocked(dims, kBlock)), scale = scale_of(blocks, {-1});
    return {reshape(cast(blocks / scale, dtype), dims), reshape(scale, Blocked(dims, 0))};
  }
  const int64_t down = Ceil(dims[0]), along = dims[1] / kBlock, missing = down * kBlock - dims[0];
  const Tensor whole = missing > 0 ? pad(wide, {0, 0}, {missing, 0}) : wide;
  const Tensor scale = reshape(scale_of(reshape(whole, {down, kBlock, along, kBlock}), {1, 3}), {down, along});
  const Tensor data = reshape(wide, Blocked(dims, kBlock)) / reshape(OfRows(scale, dims[0]), {dims[0], along, 1});
  return {reshape(cast(data, dtype), dims), scale};
}

Tensor dequantize_blocks(const Quantized& x, DType dtype) {
  const Dims dims = x.data.dims(), of_scale = x.scale.dims();
  const size_t n = dims.size();
  const bool has_blocks = n >= 2 && of_scale.size() == n && dims[n - 1] % kBlock == 0;
  if (!has_blocks || of_scale[n - 1] * kBlock != dims[n - 1])
    Refuse("dequantize_blocks", x.scale, "a scale for each block of 128 elements along the last dim of the data");
  const bool has_rows = of_scale[n - 2] == dims[n - 2];
  if (!has_rows && (n != 2 || of_scale[0] != Ceil(dims[0])))
    Refuse("dequantize_blocks", x.scale, "scales for single rows of the data, or, of a matrix, for 128 of them");
  const auto scaled = [&](const Dims& blocked, const Tensor& scale, const Dims& of) {
    return cast(reshape(cast(reshape(x.data, blocked), f32) * reshape(scale, of), dims), dtype);
  };
  if (has_rows) return scaled(Blocked(dims, kBlock), x.scale, Blocked(dims, 1));
  if (dims[0] % kBlock != 0) return scaled(Blocked(dims, kBlock), OfRows(x.scale, dims[0]), Blocked(dims, 1));
  return scaled({of_scale[0], kBlock, of_scale[1], kBlock}, x.scale, {of_scale[0], 1, of_scale[1], 1});
}

Tensor matmul_blocks(const Quantized& x, const Quantized& w) {
  return matmul(dequantize_blocks(x), dequantize_blocks(w), /*transpose_a=*/false, /*transpose_b=*/true);
}

}  // namespace tessera
