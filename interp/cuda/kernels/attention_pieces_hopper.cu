// The kernels of attention_pieces.cuh for attention without a mask.
#include "interp/cuda/kernels/attention_pieces.cuh"

namespace tessera::cuda {

TSR_ATTENTION(f16, OfF16, GroupOfF16, 0, 64, false, false)
TSR_ATTENTION(f16, OfF16, GroupOfF16, 1, 128, false, false)
TSR_ATTENTION(f16, OfF16, GroupOfF16, 2, 64_few, false, false)
TSR_ATTENTION(f16, OfF16, GroupOfF16, 3, 192, false, false)
TSR_ATTENTION(f16, OfF16, GroupOfF16, 4, 256, false, false)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, 0, 64, false, false)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, 1, 128, false, false)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, 2, 64_few, false, false)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, 3, 192, false, false)
TSR_ATTENTION(bf16, OfBF16, GroupOfBF16, 4, 256, false, false)

}  // namespace tessera::cuda
