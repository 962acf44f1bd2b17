// Results in the memory of an operand that dies with the op.
#ifndef TESSERA_INTERP_TAKE_OVER_H_
#define TESSERA_INTERP_TAKE_OVER_H_

#include "runtime/tensor.h"

namespace tessera::interp {

/// While it lives, ops of this thread that have `dying` as their first operand may put their first result where it is:
/// those whose kernels have read all that a part of the result depends on before they write there. Whoever makes it has
/// the only reference to the tensor, and needs its elements no more. Null: nothing dies.
class TakeOver {
 public:
  explicit TakeOver(rt::TensorImpl* dying);
  ~TakeOver();
  TakeOver(const TakeOver&) = delete;

 private:
  rt::TensorImpl* before_;
};

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_TAKE_OVER_H_
