// A function decoded for execution: a flat list of instructions over registers, with jumps in place of blocks and the
// registers that die at each instruction. Made once per function, never changed after that.
#ifndef TESSERA_INTERP_BYTECODE_H_
#define TESSERA_INTERP_BYTECODE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "interp/anchor.h"
#include "interp/dispatch.h"
#include "ir/function.h"

namespace tessera::interp {

enum class Code : uint8_t {
  op,         // run `op` by dispatch
  constant,   // results[0] = the tensor of attrs[0]
  move,       // results[i] = operands[i], all at once
  jump,       // to target
  back,       // to target, which is earlier: a loop's back edge
  branch,     // to target when operand 0 is false
  for_begin,  // counter slot = start, stop, step
  for_next,   // results[0] = the counter and step it; to target when it is through
  call,       // results = callee(operands)
  ret,        // the function's results are the operands
  buffer_read,
  buffer_write,
  buffer_add,
  print,
  host_read,
};

/// An operand: >= 0 is a register, kAbsent is nothing, below that is an immediate.
using OperandRef = int32_t;
inline constexpr OperandRef kAbsent = -1;
constexpr bool IsImmediate(OperandRef r) { return r < kAbsent; }
constexpr size_t ImmediateIndex(OperandRef r) { return static_cast<size_t>(kAbsent - 1 - r); }

struct Insn {
  Code code;
  ir::Op op;
  uint16_t num_operands = 0;
  uint16_t num_results = 0;
  uint16_t num_frees = 0;
  uint32_t operands = 0;  // first index in Bytecode::operands
  uint32_t results = 0;   // first index in Bytecode::registers
  uint32_t frees = 0;     // first index in Bytecode::registers
  uint32_t attrs = 0;     // index in Bytecode::attrs
  int32_t target = -1;    // instruction, counter slot (for_begin), function (call) or buffer
  int32_t slot = -1;      // counter slot (for_next)
  /// op: the operand that dies here and whose memory the result may take over; -1 for none.
  int16_t reuse = -1;
  /// move: a bit for each of the first 32 operands that dies here and goes to one place, so that its reference moves.
  uint32_t steals = 0;
  /// back: the loop's head; print, host_read: the instruction after it. Index in Bytecode::anchors, or -1.
  int32_t anchor = -1;
  ir::Loc loc;
};

struct Bytecode {
  std::string name;
  std::string file;  // of its module; empty: it came from text
  int64_t id = 0;    // no other function of the process has it
  std::vector<Insn> code;
  std::vector<OperandRef> operands;
  std::vector<int32_t> registers;
  std::vector<std::vector<ir::Attr>> attrs;
  std::deque<ScalarView> immediates;
  std::vector<DType> immediate_dtypes;  // what each becomes where it must be a tensor (move, call, ret)
  int num_registers = 0;
  int num_slots = 0;  // loop counters
  bool symbolic_attrs = false;
  /// Copies of attrs for calls, which replace symbols by numbers.
  struct AttrPool {
    std::vector<std::pair<uint32_t, uint32_t>> symbolic;  // which list, and which attribute of it
    std::mutex mutex;
    std::vector<std::unique_ptr<std::vector<std::vector<ir::Attr>>>> idle;
  };
  mutable AttrPool attr_pool;
  std::vector<int32_t> params;  // registers: the first ones, in order
  /// Ops and constants up to a return, and nothing else. Such code frees no parameter and works in none's memory, so a
  /// frame may borrow its arguments until it returns: whoever calls holds them as long.
  bool is_straight = false;
  std::vector<TensorType> param_types;
  /// For each parameter and dim (kMaxRank of them) the index of the symbol that it is; -1: a number, or an expression.
  std::vector<int32_t> param_symbols;
  /// No symbol stands in the parameters, the attributes or a fact: arguments need only be compared with param_types.
  bool is_plain = false;
  const ir::Function* source = nullptr;
  /// The first one is the function's entry. Beside their counts only the pool changes in a Bytecode.
  mutable std::deque<AnchorSlot> anchors;
};

/// All functions of a module, decoded. Index in `functions` equals index in module->functions.
struct Program {
  std::shared_ptr<const ir::Module> module;
  std::vector<std::unique_ptr<Bytecode>> functions;
  int FindFunction(std::string_view name) const;
};

/// The module is verified already.
std::unique_ptr<Program> Decode(std::shared_ptr<const ir::Module> module);

/// The bytecode as text, for people who want to see it.
std::string Disassemble(const Bytecode& code);

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_BYTECODE_H_
