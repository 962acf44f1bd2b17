// The op enum alone, for translation units that are compiled once per instruction set and so include no more than
// they must.
#ifndef TESSERA_IR_OPCODE_H_
#define TESSERA_IR_OPCODE_H_

#include <cstdint>

namespace tessera::ir {

enum class Op : uint8_t {
#define TSR_OP(name, operands, attrs, results, effect, dtypes, rule, shape, impl, grad, bound, summary) k_##name,
#include "ir/ops.def"
};
inline constexpr int kNumOps = 0
#define TSR_OP(name, operands, attrs, results, effect, dtypes, rule, shape, impl, grad, bound, summary) +1
#include "ir/ops.def"
    ;

}  // namespace tessera::ir

#endif  // TESSERA_IR_OPCODE_H_
