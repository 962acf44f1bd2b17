// Where a later tier may take a function over: its entry, the head of a loop, and the instruction after an effect on
// the host, where traces end. Tier 1 counts arrivals; what is hot goes to a hook, which the tiers implement.
#ifndef TESSERA_INTERP_ANCHOR_H_
#define TESSERA_INTERP_ANCHOR_H_

#include <atomic>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "runtime/status.h"
#include "runtime/tensor.h"

namespace tessera::interp {

struct Bytecode;
struct Frame;
struct Insn;
struct Instance;

/// What a call returns: most functions have one result or two, for which nothing is allocated.
using Results = absl::InlinedVector<rt::Ref<rt::TensorImpl>, 4>;

struct AnchorSlot {
  enum class Kind : uint8_t { function, loop, after_host };
  explicit AnchorSlot(Kind k, int32_t at) : kind(k), pc(at) {}
  const Kind kind;
  const int32_t pc;
  std::atomic<int32_t> countdown{0};
  /// What the hook keeps for this place.
  std::atomic<void*> anchor{nullptr};
  /// Calls of the function may go to FunctionHook::CallAtOnce first.
  std::atomic<bool> at_once{false};

  /// True when the count has come to 0. Counts may be lost when several threads come by at once.
  bool Arrive() {
    const int32_t left = countdown.load(std::memory_order_relaxed) - 1;
    countdown.store(left, std::memory_order_relaxed);
    return left <= 0;
  }
};

/// Told of each instruction while a recording is open. It belongs to a thread and lives as long as the process.
class InsnRecorder {
 public:
  virtual ~InsnRecorder() = default;
  bool open() const { return open_; }
  /// The instruction at frame.pc is about to run. May close the recording.
  virtual void Before(Frame& frame, const Insn& insn) = 0;
  /// It has run: results are in their registers, dying registers are not freed yet, `next` is the pc after it.
  virtual void After(Frame& frame, const Insn& insn, int next) = 0;
  /// A call: the callee's frame has its arguments. False: the callee is not followed.
  virtual bool OnCall(Frame& caller, const Insn& insn, Frame& callee) = 0;
  /// The frame was left by a return or by an error; its registers are still there.
  virtual void OnLeave(Frame& frame, const absl::Status& status) = 0;

 protected:
  bool open_ = false;
};

class FunctionHook {
 public:
  enum class Next : uint8_t { interpret, returned };
  virtual ~FunctionHook() = default;
  /// The count of a slot has come to 0, with the frame at its pc. The hook runs a version, which leaves the frame at
  /// another pc (interpret) or ends the call (returned: *results are set); or it opens a recording (frame.recorder);
  /// or it does nothing. It also sets the count anew. At a function's entry the frame may borrow its arguments: it must
  /// Own() them before anything but a version that runs to its return.
  virtual absl::StatusOr<Next> OnAnchor(Frame& frame, AnchorSlot& slot, Results* results) = 0;
  /// The program calls a function whose slot says at_once. True: a version took the arguments and ran to its return,
  /// and *results are set. False: nothing has happened, and the call goes its usual way.
  virtual bool CallAtOnce(Instance&, const Bytecode&, absl::Span<rt::TensorImpl* const>, Results*) { return false; }
  /// No frame of the instance is left and none will come: what is kept at its anchors can go.
  virtual void OnInstanceEnd(Instance& instance) = 0;
};

namespace internal {
[[gnu::visibility("hidden")]] extern std::atomic<FunctionHook*> g_function_hook;
}
/// Null for none. The hook must outlive every thread that runs functions.
void SetFunctionHook(FunctionHook* hook);
inline FunctionHook* CurrentFunctionHook() { return internal::g_function_hook.load(std::memory_order_acquire); }

/// Defined by the tiers: sets the hooks, once. Called when a thread runs its first eager op and when a program is made.
void StartTiers();

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_ANCHOR_H_
