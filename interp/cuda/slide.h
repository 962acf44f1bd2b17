// The host side of sliding windows.
#ifndef TESSERA_INTERP_CUDA_SLIDE_H_
#define TESSERA_INTERP_CUDA_SLIDE_H_

#include "interp/cpu/windows.h"
#include "interp/cuda/window_args.h"

namespace tessera::cuda {

inline Slide SlideOf(const cpu::Windows& w) {
  Slide s = {w.batch, w.channels, w.x_batch, w.x_channel, {}};
  for (int i = 0; i < 3; ++i) {
    const cpu::WindowDim& d = w.dim[i];
    s.dim[i] = {d.in, d.out, d.window, d.stride, d.dilation, d.low, d.x_stride};
  }
  return s;
}

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_SLIDE_H_
