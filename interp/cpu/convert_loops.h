// The table of conversion loops, one for each instruction set.
#ifndef TESSERA_INTERP_CPU_CONVERT_LOOPS_H_
#define TESSERA_INTERP_CPU_CONVERT_LOOPS_H_

#include <stdint.h>

#include "interp/cpu/isa.h"
#include "tessera/dtype.h"

namespace tessera::cpu {

/// n contiguous elements; dst == src is allowed where the sizes are equal.
using ConvertLoop = void (*)(void* dst, const void* src, int64_t n);

struct ConvertLoops {
  /// By dtype of src, then of dst; equal ones copy.
  ConvertLoop convert[kNumDTypes][kNumDTypes];
};
TSR_DECLARE_ISA(ConvertLoops, kConvertLoops);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_CONVERT_LOOPS_H_
