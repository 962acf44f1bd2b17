// The ops whose result is another window onto their operand's storage.
#ifndef TESSERA_INTERP_VIEWS_H_
#define TESSERA_INTERP_VIEWS_H_

#include "interp/kernel.h"

namespace tessera::interp {

/// Fills strides and data of args.out from args.in[0] so that they share its storage. Dims and dtypes of args.out are
/// set already. False when strides cannot say it (reshape of some non-contiguous views): the caller then copies in[0]
/// to contiguous memory and asks again. For every row of ops.def whose impl is `view`.
///
/// Data of an empty result is that of the operand: no pointer outside its storage is made.
bool MakeViews(const KernelArgs& args);

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_VIEWS_H_
