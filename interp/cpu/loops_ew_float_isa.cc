// Arithmetic of f32 and f64 that needs no series: exact, or a few roundings.
#include "interp/cpu/ew_ops_isa.h"
#include "interp/cpu/loops_ew_isa.h"

namespace tessera::cpu::TSR_ISA {
namespace {

TSR_FLOAT1(TSR_EW1)
TSR_FLOAT2(TSR_EW2)
TSR_FLOAT3(TSR_EW3)

const EwEntry kEntries[] = {TSR_FLOAT1(TSR_EW_FLOATS) TSR_FLOAT2(TSR_EW_FLOATS) TSR_FLOAT3(TSR_EW_FLOATS)};

}  // namespace

TSR_EW_LIST(kEwFloat, kEntries);

}  // namespace tessera::cpu::TSR_ISA
