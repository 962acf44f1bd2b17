// The parts of cross_entropy and its gradient, for who has logits of their own.
#ifndef TESSERA_INTERP_CPU_CROSS_ENTROPY_H_
#define TESSERA_INTERP_CPU_CROSS_ENTROPY_H_

#include <cstdint>
#include <string_view>

#include "runtime/status.h"
#include "runtime/tensor.h"

namespace tessera::cpu {

/// Who has a target, an i64, that is neither a class nor `ignore` hears of the first. The classes are those of operand
/// `of`, which is `whose`.
absl::Status CheckTargets(const View& targets, int64_t ignore, int64_t classes, std::string_view of, const View& whose);

/// Targets have been checked. logits is [..., classes] of any strides; y is contiguous, of any float dtype.
void CrossEntropyRows(const View& logits, const View& targets, const View& y, int64_t ignore);
/// y, as large as logits and contiguous, may be where logits is. g may be of any float dtype.
void CrossEntropyGradRows(const View& logits, const View& targets, const View& g, const View& y, int64_t ignore);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_CROSS_ENTROPY_H_
