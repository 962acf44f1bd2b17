// Eager ops that wait for a version. Each op that arrives is checked against the next step of the trace; if it is the
// one, it gets handles for its results and nothing is computed. The version runs when the first op after the trace
// arrives or a value is used.
#ifndef TESSERA_TIERS_DEFERRAL_H_
#define TESSERA_TIERS_DEFERRAL_H_

#include <atomic>
#include <memory>
#include <mutex>

#include "interp/stream.h"
#include "tiers/manager.h"
#include "tiers/version.h"

namespace tessera::tiers {

/// The waiting ops of one thread. Another thread that needs a value which waits here asks for entry, makes sure that
/// the owner is out (runtime/owner.h), and runs the ops.
class Deferral final : public rt::Watcher {
 public:
  explicit Deferral(interp::Stream& stream);

  // ---- on the thread of the stream
  /// Begins to match a version with this op as its first. False: it is not, for the reason that is in *why (where that
  /// is not null); nothing changed.
  bool Start(const std::shared_ptr<Anchor>& anchor, const rt::Ref<Version>& version, const interp::EagerCall& call,
             absl::Span<rt::TensorImpl*> out, GuardFailure* why = nullptr);
  enum class Outcome : uint8_t {
    waits,  // the op waits; `out` is filled
    left,   // it is not the op of the trace: what waited was run
    ended,  // the trace was complete before it, and was run: the op may begin another one
  };
  /// Stream::on_op. What is to be done with an op that does not wait, because the trace ended or was left, is up to
  /// `after`.
  static bool OnOp(interp::Stream& stream, interp::EagerCall& call, absl::Span<rt::TensorImpl*> out);
  using After = bool (*)(interp::Stream& stream, Outcome outcome, const interp::EagerCall& call,
                         absl::Span<rt::TensorImpl*> out);
  After after = nullptr;
  /// Runs what waits; a trace that is not complete counts as left for that reason.
  absl::Status Flush(deopt::DeoptReason reason);
  /// Lets go of tensors that are kept from one run for the next.
  void ReleaseKept();
  bool waiting() const { return activation_ != nullptr && matched_ > 0 && !finished_; }
  bool complete() const { return waiting() && matched_ == num_steps_; }
  /// The anchor of the version that matched last.
  const std::shared_ptr<Anchor>& anchor() const { return anchor_; }
  /// The thread ends: runs what waits and gives the activation back. False when that failed.
  bool End();
  /// The path of the stream after the ops that matched; while they come, nobody counts them.
  uint64_t path() const;
  /// The path is this one now.
  void set_path(uint64_t path) {
    path_ = path;
    path_step_ = matched_;
  }

  // ---- on any thread
  absl::Status OnAccess(rt::TensorImpl& x) override;
  absl::Status OnOperand(rt::TensorImpl& x) override;
  void OnDeath(rt::TensorImpl&) override {}

 private:
  /// Checks the op against the next step, and lets it wait if it is the one. With `failure`, says what is wrong.
  template <bool kExplain>
  [[gnu::always_inline]] bool TryMatch(const Layout::Step& step, const interp::EagerCall& call,
                                       absl::Span<rt::TensorImpl*> out, GuardFailure* failure);
  /// Goes on with another version of the anchor that has the same steps so far and takes this one, too. `why`: what
  /// the one that is left did not take; used where somebody wants to know.
  bool Switch(const interp::EagerCall& call, absl::Span<rt::TensorImpl*> out, const GuardFailure& why);
  /// Lets the op wait if it is the next step, which cannot fail and has one result: of those that come here most have
  /// attributes, or shapes that are not known yet. The owner is inside.
  [[gnu::always_inline]] bool MatchInputs(const interp::EagerCall& call, absl::Span<rt::TensorImpl*> out);
  /// The same for any step and any op. Leaves.
  Outcome Next(const interp::EagerCall& call, absl::Span<rt::TensorImpl*> out);
  /// Stream::take_other.
  static rt::TensorImpl* TakeOther(interp::Stream& stream, uint64_t a, uint64_t b, uint64_t c);
  /// Step matched_ is next; if it is a plain one, Stream::Take may take it.
  void AwaitPlain();
  /// The activation or its version is another one.
  void Follow();
  /// Gives the activation back.
  void Stop();
  absl::Status Run(int to);
  absl::Status Finish();
  void Enter();
  void Leave() { owner_.Leave(); }
  void EnterSlow();
  absl::Status Use(rt::TensorImpl& x, deopt::DeoptReason reason);

  interp::Stream& stream_;
  rt::Owner& owner_;   // of stream_
  int& matched_;       // of stream_.waiting: also after they were run
  uint64_t path_ = 0;  // of the stream before step path_step_
  int path_step_ = 0;
  std::shared_ptr<Anchor> anchor_;
  rt::Ref<Version> version_;
  std::unique_ptr<Activation> activation_;
  const Layout::Step* steps_ = nullptr;  // of version_
  const Layout::Operand* operands_ = nullptr;
  int num_steps_ = 0;
  int64_t run_ns_ = 0;       // that the pieces of a timed run have taken
  int64_t start_ticks_ = 0;  // of the first piece, where it is recorded
  bool finished_ = true;
  bool elsewhere_ = false;  // the last match failed because an operand waits in another thread
  bool forced_ = false;     // the last match failed because a test wanted it to

  std::mutex mutex_;
  std::atomic<const void*> thread_{nullptr};  // tracer::ThisThread() of the owner
};

/// Called once: registers the process for the barrier that lets owners enter cheaply.
void PrepareOwnerLocks();

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_DEFERRAL_H_
