// What the tiers keep at one place of a function: its anchor, and its versions as the driver runs them.
#ifndef TESSERA_TIERS_FUNCTION_PLACE_H_
#define TESSERA_TIERS_FUNCTION_PLACE_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "deopt/frames.h"
#include "interp/interpreter.h"
#include "tiers/manager.h"
#include "tiers/version.h"
#include "tiers/visit.h"
#include "tracer/function_recorder.h"

namespace tessera::tiers {

class FunctionPlace;

/// A version with what its trace says about every run, worked out once.
struct FunctionVersion {
  explicit FunctionVersion(rt::Ref<Version> v);

  rt::Ref<Version> version;
  struct Input {
    ValueId value;
    int32_t reg;    // of the frame
    int32_t guard;  // in the layout; -1: no step uses it
  };
  std::vector<Input> inputs;               // in the order of their first use
  std::vector<Activation::Carry> carried;  // end is loop: values that registers hold when an iteration ends
  std::vector<int32_t> freed;              // end is loop: registers that hold nothing then
  interp::AnchorSlot* next = nullptr;      // end is stopped: the anchor there
  int inlined = 0;                         // most calls within calls
  /// It ends with the return and calls nobody on its way: until then nobody lets go of what the frame holds.
  bool is_straight = false;
  /// It reads buffers, neither changes one nor calls anybody who could, and does not go round, so that it soon ends.
  bool reads_buffers = false;
  std::vector<uint8_t> taken;  // of each result of the trace: no other result is the same value
  /// It is straight, no step can leave it or changes anything but its results, and every parameter of its function has
  /// the same type in all runs: `parameters` in their order. Calls need no frame then, and one that went wrong can be
  /// made again.
  bool is_plain = false;
  std::vector<Input> parameters;

  /// One for each step, and one for the end: what is known of exits there.
  struct Exit {
    std::atomic<int32_t> count{0};
    std::atomic<FunctionPlace*> bridge{nullptr};
    std::atomic<const deopt::Snapshot*> snapshot{nullptr};
  };
  const std::unique_ptr<Exit[]> exits;
  std::atomic<uint32_t> forced{0};  // exits that tests asked for
  std::atomic<int32_t> held{0};     // runs in a row in which every branch went as recorded (tiers/run_ahead.h)

  /// The place of the bridge from that step, made once. It goes with this object.
  FunctionPlace& AddBridge(int step, const interp::Frame& frame);
  const deopt::Snapshot& SnapshotAt(int position);

 private:
  void FindParameters();

  std::mutex mutex_;
  std::vector<std::shared_ptr<FunctionPlace>> bridges_;
  std::vector<std::unique_ptr<const deopt::Snapshot>> snapshots_;
};

/// Thread-safe. Lives at least as long as the instance (exits: as the version they leave) and as any recording from it.
class FunctionPlace final : public tracer::FunctionRecorder::Client,
                            public std::enable_shared_from_this<FunctionPlace> {
 public:
  using From = tracer::FunctionRecorder::From;
  using List = std::vector<std::shared_ptr<FunctionVersion>>;

  /// slot: null for an exit. pc: where in the code it is.
  FunctionPlace(interp::AnchorSlot* slot, const interp::Bytecode& code, int pc);
  ~FunctionPlace() override;

  Anchor& anchor() { return *anchor_; }
  interp::AnchorSlot* slot() { return slot_; }
  /// Arrivals that are still to come after those that the slot counts now; 0 from then on.
  int32_t TakeRest() { return rest_.load(std::memory_order_relaxed) == 0 ? 0 : rest_.exchange(0); }
  void set_rest(int32_t arrivals) { rest_.store(arrivals, std::memory_order_relaxed); }
  /// Counts an arrival that came past the slot's count.
  Anchor::Action Arrive(const interp::Frame& frame);
  /// Opens a recording on the frame, if this thread can. The frame is at the place.
  void Record(interp::Frame& frame);
  /// The versions now, best first. During a Visit; the list stays as it is until its end.
  const List& Versions() {
    const Installed* now = installed_.load(std::memory_order_acquire);
    return now->generation == anchor_->generation() ? now->versions : Install();
  }

  void OnRecording(tracer::FinishedRecording recording, int64_t ns) override;
  void OnAbort(tracer::TraceAbort reason, int64_t ns, const interp::Bytecode* callee) override;
  bool IsLive(const interp::AnchorSlot& loop) const override;
  bool MayInline(const interp::Bytecode& callee) const override;

 private:
  /// A list with the generation of the anchor that it was made for. It never changes.
  struct Installed {
    uint32_t generation = 0;
    List versions;
  };
  void Wait(int32_t arrivals);
  const List& Install();

  interp::AnchorSlot* const slot_;
  const From from_;
  const std::string name_;
  const std::shared_ptr<Anchor> anchor_;
  std::atomic<int32_t> wait_{0};  // of an exit, which has no slot to count
  std::atomic<int32_t> rest_{0};
  mutable std::mutex mutex_;
  std::shared_ptr<const Installed> owned_;  // what installed_ points to
  std::atomic<const Installed*> installed_;
  std::vector<const interp::Bytecode*> called_;  // functions that recordings do not inline any more
};

/// The place at a slot; null before the first arrival.
inline FunctionPlace* PlaceAt(const interp::AnchorSlot& slot) {
  return static_cast<FunctionPlace*>(slot.anchor.load(std::memory_order_acquire));
}

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_FUNCTION_PLACE_H_
