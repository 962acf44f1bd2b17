// Which of its kernels OpenBLAS uses.
#ifndef TESSERA_RUNTIME_BLAS_KERNELS_H_
#define TESSERA_RUNTIME_BLAS_KERNELS_H_

#include <string>

namespace tessera::rt {

struct BlasKernels {
  std::string name;       ///< "SkylakeX"; empty: the library does not say
  std::string taken_for;  ///< what it had chosen; empty: that stayed
};

/// OpenBLAS chooses kernels by the name of the processor, and takes one that is newer than itself for the oldest it
/// knows: a sixth of the speed. Here it chooses again, by the instructions that are there, if it uses much fewer and
/// the environment (OPENBLAS_CORETYPE) does not say what it is to use. `library`: an open OpenBLAS that has done
/// nothing yet.
BlasKernels ChooseBlasKernels(void* library);

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_BLAS_KERNELS_H_
