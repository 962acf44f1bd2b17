// Element-wise calls that need nothing but their loop: contiguous, of one dtype. A version finds the loop once
// and calls it each time it runs.
#ifndef TESSERA_INTERP_CPU_DIRECT_H_
#define TESSERA_INTERP_CPU_DIRECT_H_

#include "interp/cpu/loops_ew.h"
#include "interp/kernel.h"

namespace tessera::cpu {

struct DirectLoop {
  EwLoop loop = nullptr;
  int64_t n = 0;            // elements
  DType number{};           // what RepeatNumber makes of operands that are numbers
  bool has_number = false;  // some operand is one
};

/// True when the op is its loop on the operands' own memory and on repeated numbers. RunElementwise calls it once up to
/// the option parallel_grain, and in pieces beyond. Looks at types and strides only, not at data.
bool FindDirect(const interp::KernelArgs& args, DirectLoop* direct);

/// Fills n elements with a host number, as FindDirect() found it fit.
void RepeatNumber(const View& number, DType to, int64_t n, void* room);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_DIRECT_H_
