// The header of a .npy file, for arrays that are mapped or packed; tessera/ops.h reads and writes whole ones.
#ifndef TESSERA_TRAIN_NPY_H_
#define TESSERA_TRAIN_NPY_H_

#include <string>

#include "tessera/dtype.h"
#include "tessera/tensor.h"
#include "train/files.h"

namespace tessera::train {

/// What stands before the elements. The format has no bf16 and no f8.
Result<std::string> NpyHeader(DType dtype, const Dims& dims);

struct NpyLayout {
  DType dtype = f32;
  Dims dims;
  size_t begin = 0;  // of the elements
};
/// Of a file in C order with this machine's byte order whose elements are all there.
Result<NpyLayout> ReadNpyLayout(Bytes file);

}  // namespace tessera::train

#endif  // TESSERA_TRAIN_NPY_H_
