// From a position in a trace to the frames that the interpreter would have there: what makes every exit exact.
#ifndef TESSERA_DEOPT_FRAMES_H_
#define TESSERA_DEOPT_FRAMES_H_

#include <memory>
#include <vector>

#include "interp/interpreter.h"
#include "tracer/trace.h"

namespace tessera::deopt {

/// For a position in a trace: the pc to resume at, and the value that each live register holds there. Worked out once.
struct Snapshot {
  struct Register {
    int32_t reg;
    tracer::ValueId value;  // kNoValue: it holds nothing
    bool alone = false;     // no other register holds the value
  };
  /// One activation. Of the root frame only the registers that the trace has changed; of the others all.
  struct Level {
    int32_t frame;  // index in Trace::frames
    int32_t pc;     // outer ones: of the call that they are in
    std::vector<Register> registers;
    std::vector<int32_t> counters;  // slots in use; those of the root frame always are
  };
  std::vector<Level> levels;  // root first
};
/// Before step `position`, or behind the last step, at the trace's end_pc.
Snapshot TakeSnapshot(const tracer::Trace& trace, int32_t position);

/// What the run of a version knows of its values when it stops.
class ExitValues {
 public:
  virtual ~ExitValues() = default;
  /// Puts values into the registers of a frame, in place of what they hold. On failure some have theirs.
  virtual absl::Status Fill(absl::Span<const Snapshot::Register> from, rt::TensorImpl** registers) = 0;
  /// Also of values that are gone by now.
  virtual const TensorType& Type(tracer::ValueId v) = 0;
  virtual interp::Frame::Counter Counter(int i) = 0;
};

/// The frames of one exit. Frames of inlined calls lie on the thread's stack of frames, so this lives on the C++ stack
/// of the thread that runs the function, and the last one made is the first one to go.
class Frames {
 public:
  /// `root` is the frame in which the trace began, as it was then; it outlives this.
  Frames(const tracer::Trace& trace, interp::Frame& root) : trace_(trace), root_(root) {}
  ~Frames();
  Frames(const Frames&) = delete;

  /// Puts the frames into that state. On failure (there is no memory for a tensor) the root frame can only be left.
  absl::Status Restore(const Snapshot& snapshot, ExitValues& values);
  /// Runs the inlined calls to their ends, innermost first, and hands on their results. Then the root frame is at the
  /// instruction to go on with. An error is that of a call: it has its position already.
  absl::Status Resume();

 private:
  struct Inner {
    Inner(const interp::Bytecode& code, int32_t pc) : memory(code), call_pc(pc) {}
    interp::FrameMemory memory;
    interp::Frame frame;
    std::vector<std::vector<ir::Attr>> attrs;  // where they depend on shapes
    int32_t call_pc;                           // in the parent
  };
  absl::Status MakeInner(int32_t index, ExitValues& values);

  const tracer::Trace& trace_;
  interp::Frame& root_;
  std::vector<std::unique_ptr<Inner>> inner_;  // outermost first
};

/// For tests: sees each frame that was put together, right before it goes on. Null for none.
using FrameObserver = void (*)(const interp::Frame& frame);
void SetFrameObserver(FrameObserver observer);

}  // namespace tessera::deopt

#endif  // TESSERA_DEOPT_FRAMES_H_
