// The kernels of attention_pieces.cuh for attention under a window, without a mask and with one.
#include "interp/cuda/kernels/attention_pieces.cuh"

namespace tessera::cuda {

TSR_ATTENTION(f16, OfF16, GroupOfF16, 2, 64_window, false, true)
TSR_ATTENTION(f16, OfF16, GroupOfF16, 1, 128_window, false, true)
TSR_ATTENTION(f16, OfF16, GroupOfF16, 3, 192_window, false, true)
TSR_ATTENTION(f16, OfF16, GroupOfF16, 4, 256_window, false, true)
TSR_ATTENTION(f16, OfF16, GroupOfF16, kMaskBlocks, 64_mask_window, true, true)
TSR_ATTENTION(f16, OfF16, GroupOfF16, kMaskBlocks + 1, 128_mask_window, true, true)
TSR_ATTENTION(f16, OfF16, GroupOfF16, kMaskBlocks + 2, 192_mask_window, true, true)
TSR_ATTENTION(f16, OfF16, GroupOfF16, kMaskBlocks + 3, 256_mask_window, true, true)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, 2, 64_window, false, true)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, 1, 128_window, false, true)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, 3, 192_window, false, true)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, 4, 256_window, false, true)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, kMaskBlocks, 64_mask_window, true, true)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, kMaskBlocks + 1, 128_mask_window, true, true)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, kMaskBlocks + 2, 192_mask_window, true, true)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, kMaskBlocks + 3, 256_mask_window, true, true)

}  // namespace tessera::cuda
