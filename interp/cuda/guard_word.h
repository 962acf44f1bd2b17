// Guard words of CUDA devices: see interp/guard_word.h.
#ifndef TESSERA_INTERP_CUDA_GUARD_WORD_H_
#define TESSERA_INTERP_CUDA_GUARD_WORD_H_

#include <memory>

#include "interp/guard_word.h"

namespace tessera::cuda {

absl::StatusOr<std::unique_ptr<interp::GuardWord>> MakeGuardWord(rt::Device& device);

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_GUARD_WORD_H_
