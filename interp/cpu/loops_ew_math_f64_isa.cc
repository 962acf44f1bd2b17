#include "interp/cpu/loops_ew_math_isa.h"

namespace tessera::cpu::TSR_ISA {
namespace {

const EwEntry kEntries[] = {TSR_MATH1(TSR_EW_F64) TSR_MATH2(TSR_EW_F64) TSR_REPAIR1(TSR_EW_F64)
                                TSR_REPAIR2(TSR_EW_F64)};

}  // namespace

TSR_EW_LIST(kEwMathF64, kEntries);

}  // namespace tessera::cpu::TSR_ISA
