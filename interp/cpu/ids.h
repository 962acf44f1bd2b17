// Index operands, checked once before any kernel trusts them.
#ifndef TESSERA_INTERP_CPU_IDS_H_
#define TESSERA_INTERP_CPU_IDS_H_

#include <cstdint>
#include <string>

#include "interp/cpu/strided.h"

namespace tessera::cpu {

/// ids (i64, any strides) as contiguous numbers in [0, dim), negative ones counted from the end. The error names the
/// first index in row-major order that is outside. `axis` and `name` say whose dim it is.
absl::StatusOr<Scratch> CheckedIds(const View& ids, int64_t dim, int axis, const char* name);

/// Would CheckedIds() find nothing wrong? ids is i64 or i32, with any strides; of other dtypes it is not known: false.
bool AreInRange(const View& ids, int64_t dim);

/// For gather and scatter: the last dim of ids addresses the leading dims of x. Result: for each row of ids the sum of
/// index times `strides`, in elements.
absl::StatusOr<Scratch> CheckedOffsets(const View& ids, const View& x, const int64_t* strides);

/// "[1,2]": where row-major element number `at` stands in dims.
std::string Position(const TensorType& type, int64_t at);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_IDS_H_
