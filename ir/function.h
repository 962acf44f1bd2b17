// Graph IR in memory: a Module holds functions and named buffers, a Function holds one Block, a Block holds
// instructions, and an instruction may hold blocks (if, while, for). Values are numbered per function; every value is
// defined once. Build one with ir/builder.h or ir/parser.h; both verify.
#ifndef TESSERA_IR_FUNCTION_H_
#define TESSERA_IR_FUNCTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/op.h"
#include "ir/symbols.h"

namespace tessera::ir {

/// Where text stood: 1-based; 0 is unknown.
struct Loc {
  int line = 0;
  int column = 0;
};

using ValueId = int32_t;

/// A number written in place of an operand. It is weak: it takes its dtype from the operands beside it.
using Immediate = std::variant<bool, int64_t, double>;

struct Operand {
  enum class Kind : uint8_t { value, immediate, absent } kind = Kind::absent;
  ValueId value = -1;
  Immediate immediate;
};

struct Block;

struct Instruction {
  Op op;
  std::vector<Operand> operands;
  std::vector<Attr> attrs;  // in the order of Info(op).attrs, complete
  std::vector<ValueId> results;
  /// if: then, else. while: condition, body. for: body.
  std::vector<Block> blocks;
  Loc loc;
};

struct Block {
  /// while: the carried values, in both blocks. for: the index (i64, rank 0), then the carried values.
  std::vector<ValueId> params;
  /// The last one is yield (return in a function's body).
  std::vector<Instruction> instructions;
};

struct Value {
  std::string name;  // without '%'; unique in the function
  TensorType type;   // dims may be symbols of Function::symbols
};

/// What a function may do with an argument.
enum class Privilege : uint8_t { read, write, reduce_sum };

struct Param {
  ValueId value;
  Privilege privilege = Privilege::read;
  std::string shard;  // ShardSpec text: a mesh axis, or * for each dim: "dp,*", "dp:4,*" (4 devices); empty: none
};

struct Function {
  std::string name;
  std::vector<Param> params;
  std::vector<TensorType> results;
  std::vector<Value> values;  // indexed by ValueId
  Block body;
  std::unique_ptr<SymbolTable> symbols = std::make_unique<SymbolTable>();
  /// ShardSpecs of values that are no parameters, as in Param::shard; by value, ascending. Few have one.
  std::vector<std::pair<ValueId, std::string>> shards;
  /// What it gives follows from nothing: Differentiate() lets no gradient pass through its calls.
  bool stops_gradient = false;
  // How its matrix products are cut; ir/schedule.h says more.
  std::string schedule;  // "form=packed,rows=64"; empty: as the compiler and the tuner choose
  std::string
      tune_space;        // schedules that the tuner may try, with spaces between; empty: those that the compiler names
  std::string tune_key;  // "B,K": another size of one of these symbols is tuned anew; empty: of any dim
  Loc loc;
};

/// A named tensor that outlives calls; buffer ops read and write it. Its dims are numbers.
struct Buffer {
  std::string name;
  TensorType type;
  Loc loc;
};

struct Module {
  std::string file;  // for messages; may be empty
  std::vector<Buffer> buffers;
  std::vector<std::unique_ptr<Function>> functions;

  const Function* FindFunction(std::string_view name) const;
  const Buffer* FindBuffer(std::string_view name) const;
};

/// Checks everything the interpreter relies on: counts, dominance, types (inferring and comparing them), blocks and
/// their yields, calls (no unknown callee; recursion is allowed), buffers, facts. The error carries "line:column".
absl::Status Verify(const Module& module);

/// The text form. Parse(Print(m)) is the same module, and Print(Parse(t)) == t for printed t.
std::string Print(const Module& module);
std::string Print(const Function& function);

/// Parses and verifies. On failure the message is: "file:line:column: error: ...\n<source line>\n<caret under the
/// token, ~ to its end>\nhint: ..." (the hint line only where there is one).
absl::StatusOr<std::unique_ptr<Module>> Parse(std::string_view text, std::string_view file = "");

}  // namespace tessera::ir

#endif  // TESSERA_IR_FUNCTION_H_
