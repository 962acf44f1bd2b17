// A trace: a straight line of ops recorded through calls, loops and branches, with what was true at each. Eager C++ and
// functions record into the same form; what only one of them has is marked.
#ifndef TESSERA_TRACER_TRACE_H_
#define TESSERA_TRACER_TRACE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "interp/bytecode.h"
#include "interp/observer.h"
#include "ir/op.h"
#include "ir/symbols.h"
#include "runtime/tensor.h"
#include "tracer/chunked.h"
#include "tracer/mask.h"

namespace tessera::tracer {

enum class TraceAbort : uint8_t {
#define TSR_TRACE_ABORT(name, retry, message) name,
#include "tracer/trace_abort.def"
};
enum class Retry : uint8_t { later, never, free };
struct TraceAbortInfo {
  TraceAbort id;
  std::string_view name;
  Retry retry;
  std::string_view message;
};
inline constexpr TraceAbortInfo kTraceAborts[] = {
#define TSR_TRACE_ABORT(name, retry, message) {TraceAbort::name, #name, Retry::retry, message},
#include "tracer/trace_abort.def"
};
inline constexpr int kNumTraceAborts = static_cast<int>(sizeof(kTraceAborts) / sizeof(kTraceAborts[0]));
inline const TraceAbortInfo& Info(TraceAbort a) { return kTraceAborts[static_cast<int>(a)]; }

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;
/// A position in a trace is the number of steps before it.
inline constexpr int32_t kAtEnd = INT32_MAX;

/// A value of the trace. `type` is as it was recorded. In a trace that serves several shapes its dims may be symbols of
/// the trace's table.
struct TraceValue {
  enum class Kind : uint8_t {
    input,     // a tensor from outside: an operand (eager) or a register (function)
    number,    // a host number; an input in eager traces, `constant` in functions
    result,    // made by step `step`
    constant,  // a tensor of the program
  };
  // Long recordings are mostly values and steps: what the program waits for is the kernel that hands out their memory.
  // Hence the order of members, and strides only where there are some.
  Kind kind = Kind::result;
  /// number: the value never changes. Of functions, by their text; of an eager trace, because code of tier 3 relies on
  /// it, behind a guard.
  bool is_fixed = false;
  bool varies = false;  // number, eager: it was not the same every time
  /// input, or value of a buffer, that is a mask of attention: what it was seen to let through. Code of tier 3 relies
  /// on it, behind a guard.
  MaskShape mask = MaskShape::unknown;
  int32_t step = -1;  // result: the step that makes it; input: the first one that uses it
  TensorType type;
  absl::InlinedVector<int64_t, 2> strides;  // input: one for each dim
  int32_t alignment = 1;                    // input: of its data in bytes, at most 64
  int32_t reg = -1;  // input, function: the register of the root frame that holds it at the start
  /// result, eager: the position at which its handle had died; kAtEnd: it was alive when the trace ended.
  int32_t death = kAtEnd;
  union {
    double f;
    int64_t i;
  } number = {0};
  rt::Ref<rt::TensorImpl> constant;
};

struct TraceStep {
  enum class Kind : uint8_t {
    op,         // out = op(in)
    tensor,     // out[0] = number in[0] as a tensor of its dtype (an immediate that became a register)
    branch,     // guard: the scalar in[0] is `outcome`
    for_begin,  // counter = in[0], in[1], in[2]
    for_next,   // guard: the counter has more is `outcome`; then out[0] = the counter, and it steps
    buffer_read,
    buffer_write,
    buffer_add,
    call,  // out = function `target` (in), in the interpreter
  };
  Kind kind = Kind::op;
  bool outcome = false;
  /// The rules cannot say the result's dims from symbols: they are inferred anew for each shape, and compared with
  /// those that the trace has for them.
  bool infer_at_run = false;
  ir::Op op{};
  int32_t target = -1;  // buffer, function
  int32_t counter = -1;
  int32_t frame = 0;                   // function: index in Trace::frames
  absl::InlinedVector<ValueId, 4> in;  // kNoValue where an optional operand is absent
  absl::InlinedVector<ValueId, 2> out;
  std::vector<ir::Attr> attrs;  // elements of Ints may be symbols of the trace's table
  // where it stands
  int32_t pc = 0;              // function
  uint32_t attrs_index = 0;    // function: index in Bytecode::attrs
  const void* site = nullptr;  // eager
  uint64_t path = 0;           // eager
  interp::Source source;
  int64_t ns = 0;  // in tier 1, while recording
};

/// One activation that a function trace passes through; the first is the one it began in.
struct TraceFrame {
  const interp::Bytecode* code = nullptr;
  int32_t parent = -1;
  int32_t call_pc = -1;  // in the parent
  std::vector<ValueId> args;
  int32_t first_counter = 0;  // counter slots of the frame are first_counter + slot
};

/// What a step did to the registers of a frame, in order. The state at a position is all entries before it.
struct RegisterChange {
  int32_t position;
  int32_t frame;
  int32_t reg;
  ValueId value;  // kNoValue: freed
};

/// Range and divisor of one symbol of a trace.
struct DimRange {
  int64_t low = 2;
  int64_t high = INT64_MAX;
  int64_t divisor = 1;
  bool Has(int64_t n) const { return n >= low && n <= high && n % divisor == 0; }
};

/// Which of the table's named symbols it is; -1: an expression.
int NamedIndex(const ir::SymbolTable& table, int64_t symbol);

/// How the trace ends. Execution goes on in the root frame at end_pc, except after a return.
enum class TraceEnd : uint8_t {
  loop,      // back at its beginning: it may go round
  returned,  // function: results are the call's results
  stopped,   // before something that is not recorded (an effect on the host, another anchor), or eager: before a read
};

struct Trace {
  int64_t id = 0;
  std::string name;  // "@train:12" or "train.cc:40"
  bool is_eager = false;
  rt::Device* device = nullptr;
  std::shared_ptr<const interp::Program> program;  // function: keeps the bytecode alive
  Chunked<TraceValue> values;
  Chunked<TraceStep> steps;
  TraceEnd end = TraceEnd::stopped;
  int64_t tier1_ns = 0;  // the steps in tier 1, summed
  uint64_t config_epoch = 0;

  // function
  std::vector<TraceFrame> frames;
  Chunked<RegisterChange> changes;
  int32_t num_counters = 0;
  int32_t start_pc = 0;
  int32_t end_pc = 0;
  std::vector<ValueId> results;

  /// Dims that differ between recordings; null for a trace of one shape. See tracer/generalise.h.
  std::shared_ptr<ir::SymbolTable> symbols;
  std::vector<DimRange> ranges;  // of the named symbols
};

/// "12: y3 = add x0 x1  f32[64]  train.cc:40", one line for each step.
std::string ToString(const Trace& trace);

}  // namespace tessera::tracer

#endif  // TESSERA_TRACER_TRACE_H_
