// Powers that are another op.
#ifndef TESSERA_IR_POWER_H_
#define TESSERA_IR_POWER_H_

#include "runtime/tensor.h"

namespace tessera::ir {

/// Is x to that power x * x, in the dtype that pow would have? It takes a tenth of the time and is rounded once, so who
/// issues a pow asks this first. `is_floating`: the exponent is a floating number, which makes a power of integers one.
inline bool IsSquare(DType x, bool is_floating, double exponent) {
  return exponent == 2 && (is_floating ? IsFloat(x) : x != DType::boolean);
}

}  // namespace tessera::ir

#endif  // TESSERA_IR_POWER_H_
