// The loops of element-wise ops. An op has one loop for each dtype it computes in; narrow floats compute in f32 and
// so mostly have none of their own. Lists of loops come from files that are compiled once per instruction set;
// elementwise.cc gathers them into one table.
#ifndef TESSERA_INTERP_CPU_LOOPS_EW_H_
#define TESSERA_INTERP_CPU_LOOPS_EW_H_

#include <stdint.h>

#include "interp/cpu/isa.h"
#include "ir/opcode.h"
#include "tessera/dtype.h"

namespace tessera::cpu {

/// n elements, all contiguous. Operands are of the loop's dtype (`where`: the first is bool), and so is out unless the
/// op's rule is compare (then bool). out overlaps no operand; operands may overlap each other.
using EwLoop = void (*)(void* out, const void* const* in, int64_t n);

struct EwEntry {
  ir::Op op;
  DType dtype;
  EwLoop loop;
};
struct EwList {
  const EwEntry* entries;
  int count;
};

TSR_DECLARE_ISA(EwList, kEwFloat);
TSR_DECLARE_ISA(EwList, kEwInt);
TSR_DECLARE_ISA(EwList, kEwCompare);
TSR_DECLARE_ISA(EwList, kEwMathF32);
TSR_DECLARE_ISA(EwList, kEwMathF64);

/// Null where the op has no loop in that dtype.
EwLoop FindEwLoop(ir::Op op, DType dtype);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_LOOPS_EW_H_
