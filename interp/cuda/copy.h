// Moving and converting elements on a CUDA device, for whoever prepares operands.
#ifndef TESSERA_INTERP_CUDA_COPY_H_
#define TESSERA_INTERP_CUDA_COPY_H_

#include "interp/cuda/launch.h"

namespace tessera::cuda {

/// out = in, which may be a number of the host. `out` is contiguous and of any dtype.
absl::Status Cast(const interp::KernelArgs& op, const View& in, const View& out);
/// *out: a contiguous copy of `v` in dtype `to`, in *scratch, each value rounded to `through` first.
absl::Status CastTo(const interp::KernelArgs& op, const View& v, DType through, DType to, View* out, Scratch* scratch);

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_COPY_H_
