// Tensors as text for people.
#ifndef TESSERA_INTERP_FORMAT_H_
#define TESSERA_INTERP_FORMAT_H_

#include <string>

#include "runtime/status.h"
#include "runtime/tensor.h"

namespace tessera::interp {

/// "[[1, 2], [3, 4]] f32[2,2]", over several lines above rank 1, with the middle of long dims left out.
absl::StatusOr<std::string> Format(const rt::TensorImpl& x);

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_FORMAT_H_
