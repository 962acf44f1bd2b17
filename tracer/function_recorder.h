// Records the instructions of functions that one thread runs: through calls and branches, with loops unrolled, from an
// anchor to where the trace closes.
#ifndef TESSERA_TRACER_FUNCTION_RECORDER_H_
#define TESSERA_TRACER_FUNCTION_RECORDER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "interp/interpreter.h"
#include "runtime/options.h"
#include "tracer/notes.h"
#include "tracer/trace.h"

namespace tessera::tracer {

/// One per thread, used by that thread only. At most one recording is open at a time; tensors are not held by it, so
/// that what works in place in tier 1 still does.
class FunctionRecorder final : public interp::InsnRecorder {
 public:
  /// Whoever opened the recording. Called on the recording thread, after the recording has closed.
  class Client {
   public:
    virtual ~Client() = default;
    virtual void OnRecording(FinishedRecording recording, int64_t ns) = 0;
    /// `callee`: the inlined function that was the cause; null for none.
    virtual void OnAbort(TraceAbort reason, int64_t ns, const interp::Bytecode* callee) = 0;
    /// Does code begin at that loop already? While recording.
    virtual bool IsLive(const interp::AnchorSlot& loop) const = 0;
    /// False for functions that are better called than inlined. While recording.
    virtual bool MayInline(const interp::Bytecode& callee) const = 0;
  };
  enum class From : uint8_t {
    place,  // a function's entry, or the instruction after an effect on the host
    loop,   // a loop's head: leaving the loop is no use
    exit,   // an exit of a version: however short, it saves the way through tier 1
  };

  /// This thread's recorder; null without memory or when the thread is past its end.
  static FunctionRecorder* OfThread();

  /// Opens a recording that begins at frame.pc; the frame is part of it from now on.
  void Begin(interp::Frame& frame, From from, std::string name, std::shared_ptr<Client> client);

  void Before(interp::Frame& frame, const interp::Insn& insn) override;
  void After(interp::Frame& frame, const interp::Insn& insn, int next) override;
  bool OnCall(interp::Frame& caller, const interp::Insn& insn, interp::Frame& callee) override;
  void OnLeave(interp::Frame& frame, const absl::Status& status) override;

  // For rt::PerThread.
  void Retire();
  void Fold() {}

 private:
  // One activation that the recording passes through, with the value that each register holds.
  struct Level {
    interp::Frame* frame;
    int32_t index;                            // in Trace::frames
    std::vector<ValueId> registers;           // what has died stays: nobody reads it
    bool has_loops;                           // anchors beside that of its entry
    absl::InlinedVector<ValueId, 8> in = {};  // operands of the instruction that is running
    bool has_step = false;                    // it is the last step of the trace; a call becomes one when it is over
    bool inlined = false;                     // the running call
  };
  // The recording as it was at an earlier position.
  struct Mark {
    size_t steps, operands, changes, frames, constants;
    ValueNotes::Mark values;
    int32_t counters;
    int ops;
    int64_t ticks, instructions;
  };
  struct LoopHead {
    int visits = 0;
    Mark mark;
  };

  Trace& trace() { return *notes_->trace; }
  Level& top() { return stack_.back(); }
  int32_t position() const { return static_cast<int32_t>(notes_->steps.size()); }

  /// What a register of the root frame held when the recording began.
  ValueId Input(Level& level, int reg);
  ValueId Number(const interp::Bytecode& code, interp::OperandRef ref);
  /// The operand as a step takes it; kNoValue where it is absent.
  ValueId Operand(Level& level, const interp::Insn& insn, int i);
  /// The operand as a register holds it: an immediate becomes a tensor by a step of its own.
  ValueId TensorOperand(const interp::Insn& insn, int i);
  ValueId Result(const View& type, int32_t step);
  FunctionNotes::Step& StepWith(TraceStep::Kind kind, const interp::Insn& insn, int num_in, uint32_t attrs = 0);
  FunctionNotes::Step& NewStep(TraceStep::Kind kind, const interp::Insn& insn, absl::Span<const ValueId> in);
  /// The register holds that value now, as no step says.
  void Change(Level& level, int reg, ValueId value);
  void Push(interp::Frame& frame, int32_t call_pc, std::vector<ValueId> args);

  /// False when the recording closed.
  bool AtLoopHead(const interp::AnchorSlot& slot);
  void BeforeAny(interp::Frame& frame, const interp::Insn& insn);
  void Describe(const interp::Insn& insn);
  void DescribeOp(Level& level, const interp::Insn& insn);
  /// The instruction is about to run.
  void StartTime();
  /// What it took, in ticks, and those before it that were not read.
  int64_t EndTime();
  /// The instruction has ended, and is so small that the next reading does for it, too.
  bool IsReadLater(const Level& level, const interp::Insn& insn) const;
  Mark Here() const;
  void CutTo(const Mark& mark);
  bool Useful(int ops, size_t steps) const;
  void Stop(int32_t pc);
  void Close(TraceEnd end, int32_t end_pc);
  void Abort(TraceAbort reason, const interp::Bytecode* callee = nullptr);
  int64_t End();

  std::unique_ptr<FunctionNotes, RecordingDone> notes_;
  std::shared_ptr<Client> client_;
  From from_ = From::place;
  rt::Device* device_ = nullptr;
  int32_t start_pc_ = 0;
  const rt::Options* options_ = nullptr;
  int32_t loop_end_ = -1;  // the back edge of the loop that the recording began at
  bool first_ = true;      // no instruction was seen yet
  bool failed_ = false;    // a value cannot be recorded; the recording aborts for `why_`
  TraceAbort why_{};
  int ops_ = 0;
  int64_t most_ops_ = 0;  // option trace_ops: where an option changes, the recording ends
  uint64_t config_epoch_ = 0;
  FunctionNotes::Step* step_ = nullptr;  // of the instruction that is running, where it is one
  // Reading the counter takes a tenth to a half of a small op. The end of an instruction is the beginning of the next
  // one, but for what recording takes in between: that is measured now and then.
  int64_t last_ticks_ = 0;     // when the last one ended
  int64_t own_ticks_ = 0;      // the least that was seen in between
  int64_t read_ticks_ = 0;     // what reading the counter takes of those
  int64_t between_ticks_ = 0;  // to be taken off the running ones': own_ticks_, or 0 where the beginning was measured
  int unread_ = 0;             // instructions that have ended since the last reading
  int64_t ticks_ = 0;          // of its instructions
  int64_t instructions_ = 0;
  int64_t start_ns_ = 0, start_ticks_ = 0;
  std::vector<Level> stack_;
  std::vector<ValueId> returned_;                                     // by the inlined call that ended last
  absl::flat_hash_map<std::pair<int32_t, int32_t>, LoopHead> loops_;  // by frame and pc
};

}  // namespace tessera::tracer

#endif  // TESSERA_TRACER_FUNCTION_RECORDER_H_
