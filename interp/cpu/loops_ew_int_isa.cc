// Arithmetic and bits of integers and bools. Overflow wraps: sums and products are formed in unsigned types.
#include "interp/cpu/ew_ops_isa.h"
#include "interp/cpu/loops_ew_isa.h"

namespace tessera::cpu::TSR_ISA {
namespace {

TSR_INT1(TSR_EW1)
TSR_INT2(TSR_EW2)
TSR_INT2_BOOL(TSR_EW2)
TSR_INT3(TSR_EW3)
TSR_INT1_NOT_BOOL(TSR_EW1)
TSR_INT2_NOT_BOOL(TSR_EW2)
#define TSR_EW1_OF_BOOL(name, ...) TSR_EW1(name##_bool, __VA_ARGS__)
#define TSR_EW2_OF_BOOL(name, ...) TSR_EW2(name##_bool, __VA_ARGS__)
TSR_BOOL1(TSR_EW1_OF_BOOL)
TSR_BOOL2(TSR_EW2_OF_BOOL)

#define TSR_EW_INTS_AND_BOOL(name, ...) TSR_EW_INTS(name) TSR_EW_ENTRY(name, boolean, uint8_t)

#define TSR_EW_BOOL(name, ...) {ir::Op::k_##name, DType::boolean, name##_bool_loop<uint8_t>},

const EwEntry kEntries[] = {TSR_INT1(TSR_EW_INTS) TSR_INT2(TSR_EW_INTS) TSR_INT2_BOOL(TSR_EW_INTS_AND_BOOL)
                                TSR_INT3(TSR_EW_INTS) TSR_INT1_NOT_BOOL(TSR_EW_INTS) TSR_INT2_NOT_BOOL(TSR_EW_INTS)
                                    TSR_BOOL1(TSR_EW_BOOL) TSR_BOOL2(TSR_EW_BOOL)};

}  // namespace

TSR_EW_LIST(kEwInt, kEntries);

}  // namespace tessera::cpu::TSR_ISA
