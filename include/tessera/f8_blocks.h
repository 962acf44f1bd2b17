// f8 with a scale for each block of 128 elements, as models have it whose matrices are f8.
//
//   Quantized w = quantize_blocks(weight, f8e4m3, 128);               // once: a scale for each 128 x 128
//   Tensor y = matmul_blocks(quantize_blocks(x), w) + bias;           // a scale for each 128 elements of a row of x
//
// Scales are f32. They may come from elsewhere: x is data * scale.
#ifndef TESSERA_F8_BLOCKS_H_
#define TESSERA_F8_BLOCKS_H_

#include "tessera/ops.h"
#include "tessera/tensor.h"

namespace tessera {

/// x [..., M, K], where K is a multiple of 128, with blocks of 128 elements of one row: data [..., M, K] and scale
/// [..., M, K/128]. Or, of a matrix, with blocks of 128 rows, of which the last ones may have less: scale [ceil(M/128),
/// K/128]. The largest element of a block becomes the largest number of the dtype. A block with a NaN or an infinity is
/// NaN.
TSR_API Quantized quantize_blocks(const Arg& x, DType dtype = f8e4m3, int64_t rows = 1);

/// The inverse, rounded to the dtype. Blocks have one row where there is a scale for each row, otherwise 128.
TSR_API Tensor dequantize_blocks(const Quantized& x, DType dtype = bf16);

/// x w^T in bf16, of x [..., M, K] and w [N, K]. Where that is compiled for tensor cores of sm_90a it multiplies the f8
/// themselves, and the sum over each block with its scales, in f32. Elsewhere both are dequantised first.
TSR_API Tensor matmul_blocks(const Quantized& x, const Quantized& w);

}  // namespace tessera

#endif  // TESSERA_F8_BLOCKS_H_
