// The kernels of attention_pieces.cuh for attention with a mask.
#include "interp/cuda/kernels/attention_pieces.cuh"

namespace tessera::cuda {

TSR_ATTENTION(f16, OfF16, GroupOfF16, kMaskBlocks, 64_mask, true, false)
TSR_ATTENTION(f16, OfF16, GroupOfF16, kMaskBlocks + 1, 128_mask, true, false)
TSR_ATTENTION(f16, OfF16, GroupOfF16, kMaskBlocks + 2, 192_mask, true, false)
TSR_ATTENTION(f16, OfF16, GroupOfF16, kMaskBlocks + 3, 256_mask, true, false)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, kMaskBlocks, 64_mask, true, false)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, kMaskBlocks + 1, 128_mask, true, false)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, kMaskBlocks + 2, 192_mask, true, false)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, kMaskBlocks + 3, 256_mask, true, false)

}  // namespace tessera::cuda
