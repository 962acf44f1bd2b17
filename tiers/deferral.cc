#include "tiers/deferral.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "interp/dispatch.h"
#include "runtime/clock.h"
#include "runtime/metrics.h"
#include "tracer/control.h"
#include "tracer/eager_recorder.h"

namespace tessera::tiers {
namespace {

using deopt::DeoptReason;
using deopt::GuardKind;
using rt::Ref;
using rt::TensorImpl;

// With it, the owner's store and load need no fence between them: whoever wants in makes every core of the process pass
// one.
std::atomic<bool> g_membarrier{false};

void SetFailure(GuardFailure* f, GuardKind guard, std::string expected, std::string seen) {
  if (f == nullptr) return;
  f->guard = guard;
  f->reason = deopt::Info(guard).reason;
  f->expected = std::move(expected);
  f->seen = std::move(seen);
}

// The first n steps are the same op on the same values from the same place.
bool SameBeginning(const Layout& a, const Layout& b, int n) {
  if (static_cast<int>(b.steps.size()) <= n) return false;
  for (int i = 0; i < n; ++i) {
    const Layout::Step &x = a.steps[i], &y = b.steps[i];
    if (x.site != y.site || x.op != y.op || x.num_in != y.num_in || x.num_out != y.num_out) return false;
    for (int k = 0; k < x.num_in; ++k) {
      const Layout::Operand &p = a.operands[x.operands + k], &q = b.operands[y.operands + k];
      if (p.kind != q.kind || p.dtype != q.dtype || p.value != q.value || p.number != q.number) return false;
    }
    for (int k = 0; k < x.num_out; ++k)
      if (a.results[x.results + k] != b.results[y.results + k]) return false;
  }
  return true;
}

std::string NameOf(ir::Op op, const interp::Source& source) {
  std::string name(ir::Info(op).name);
  if (source.file == nullptr) return name;
  const std::string_view file = source.file;
  return absl::StrCat(name, " at ", std::string(file.substr(file.rfind('/') + 1)), ":", source.line);
}

}  // namespace

void PrepareOwnerLocks() {
  g_membarrier = syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

[[gnu::always_inline]] inline void Deferral::Enter() {
  busy_.store(true, std::memory_order_relaxed);
  if (g_membarrier.load(std::memory_order_relaxed)) [[likely]]
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
  if (wanted_.load(std::memory_order_acquire)) [[unlikely]]
    EnterSlow();
}

void Deferral::EnterSlow() {
  do {
    Leave();
    {
      std::lock_guard wait(mutex_);
    }
    busy_.exchange(true, std::memory_order_seq_cst);
  } while (wanted_.load(std::memory_order_seq_cst));
}

bool Deferral::Start(const std::shared_ptr<Anchor>& anchor, const Ref<Version>& version, const interp::EagerCall& call,
                     absl::Span<TensorImpl*> out) {
  for (const View* v : call.in) {
    if (v == nullptr || v->weak) continue;
    auto& x = const_cast<TensorImpl&>(static_cast<const TensorImpl&>(*v));
    if (rt::Watcher* w = x.watcher(); w != nullptr && !w->OnOperand(x).ok()) return false;
  }
  Enter();
  owner_.store(tracer::ThisThread(), std::memory_order_relaxed);
  // What could not be run before, for want of memory perhaps, comes first.
  if (!finished_ && !Finish().ok()) {
    Leave();
    return false;
  }
  if (version_.get() != version.get() || activation_ == nullptr) {
    Stop();
    version_ = version;
    activation_ = version->Acquire();
  } else {
    activation_->Begin();
  }
  anchor_ = anchor;
  matched_ = 0;
  finished_ = false;
  num_steps_ = static_cast<int>(version_->trace().steps.size());
  steps_ = version_->layout().steps.data();
  GuardFailure failure;
  bool ok;
  if (version_->trace().config_epoch != tracer::ConfigEpoch()) {
    SetFailure(&failure, GuardKind::configuration, absl::StrCat(version_->trace().config_epoch),
               absl::StrCat(tracer::ConfigEpoch()));
    ok = false;
  } else {
    ok = TryMatch<false>(call, out, nullptr) || TryMatch<true>(call, out, &failure);
  }
  if (!ok) finished_ = true;
  Leave();
  if (!ok) Manager::Get().AddExit(*anchor_, *version_, std::move(failure));
  return ok;
}

template <bool kExplain>
inline bool Deferral::TryMatch(const interp::EagerCall& call, absl::Span<TensorImpl*> out, GuardFailure* failure) {
  const Layout& layout = version_->layout();
  const Layout::Step& step = steps_[matched_];
  Activation& act = *activation_;
  if constexpr (kExplain) {
    failure->step = matched_;
    failure->source = call.source();
  }
  if (call.site != step.site || call.op != step.op || call.in.size() != step.num_in) [[unlikely]] {
    if constexpr (kExplain)
      SetFailure(failure, GuardKind::branch, NameOf(step.op, version_->trace().steps[matched_].source),
                 NameOf(call.op, call.source()));
    return false;
  }
  const Layout::Operand* expected = layout.operands.data() + step.operands;
  for (int k = 0; k < step.num_in; ++k) {
    const Layout::Operand& want = expected[k];
    const View* given = call.in[k];
    bool same = false;
    switch (want.kind) {
      case Layout::Operand::Kind::result:
      case Layout::Operand::Kind::known_input: same = given == act.tensor(want.value); break;
      case Layout::Operand::Kind::absent: same = given == nullptr; break;
      case Layout::Operand::Kind::number:
        same = given != nullptr && given->weak && given->dtype == want.dtype;
        if (same) act.SetNumber(want.number, *given);
        break;
      case Layout::Operand::Kind::new_input:
        if (given == nullptr || given->weak) break;
        auto& x = const_cast<TensorImpl&>(static_cast<const TensorImpl&>(*given));
        if (rt::Watcher* w = x.watcher(); w != nullptr) [[unlikely]] {
          elsewhere_ = w != this;
          if (!elsewhere_) break;
          return false;
        }
        if (!act.SetInput(want.value, x, failure)) return false;
        same = true;
        break;
    }
    if (!same) [[unlikely]] {
      if constexpr (kExplain)
        SetFailure(failure, GuardKind::aliasing, absl::StrCat("operand ", k, " as recorded"), "another value");
      return false;
    }
  }
  if (step.has_attrs && !act.SetAttrs(matched_, call.attrs, failure)) [[unlikely]]
    return false;
  if (act.shapes_changed() && !act.Resolve(matched_, failure)) [[unlikely]]
    return false;
  if (step.num_in == 0 && &call.default_device() != version_->trace().device) [[unlikely]] {
    if constexpr (kExplain)
      SetFailure(failure, GuardKind::device, std::string(version_->trace().device->name()),
                 std::string(call.default_device().name()));
    return false;
  }
  if constexpr (!kExplain) forced_ = tracer::GuardFails();
  if (forced_) [[unlikely]] {
    if constexpr (kExplain) {
      SetFailure(failure, GuardKind::branch, "", "");
      failure->reason = DeoptReason::forced;
    }
    return false;
  }
  const ValueId* results = layout.results.data() + step.results;
  for (size_t k = 0; k < out.size(); ++k) out[k] = act.MakeHandle(results[k], this);
  ++matched_;
  return true;
}

bool Deferral::OnOp(interp::Stream& stream, const interp::EagerCall& call, absl::Span<TensorImpl*> out) {
  auto& waiting = *static_cast<Deferral*>(stream.waiting);
  const Outcome outcome = waiting.Next(call, out);
  return outcome == Outcome::waits || waiting.after(stream, outcome, call, out);
}

inline Deferral::Outcome Deferral::Next(const interp::EagerCall& call, absl::Span<TensorImpl*> out) {
  Enter();
  if (!finished_ && matched_ < num_steps_ && !steps_[matched_].may_fail) [[likely]] {
    if (TryMatch<false>(call, out, nullptr)) [[likely]] {
      Leave();
      return Outcome::waits;
    }
  }
  return NextSlow(call, out);
}

// The owner is inside.
Deferral::Outcome Deferral::NextSlow(const interp::EagerCall& call, absl::Span<TensorImpl*> out) {
  if (std::exchange(elsewhere_, false)) {
    // An operand waits elsewhere: waiting for another thread while being inside could wait for ever.
    Leave();
    for (const View* v : call.in) {
      if (v == nullptr || v->weak) continue;
      auto& x = const_cast<TensorImpl&>(static_cast<const TensorImpl&>(*v));
      if (rt::Watcher* w = x.watcher(); w != nullptr && w != this) (void)w->OnOperand(x);
    }
    Enter();
  }
  if (finished_) {
    // Another thread ran what waited here.
    Leave();
    return Outcome::ended;
  }
  if (matched_ == num_steps_) {
    const absl::Status status = Finish();
    Leave();
    return status.ok() ? Outcome::ended : Outcome::left;
  }
  const bool may_fail = version_->layout().steps[matched_].may_fail;
  GuardFailure failure;
  if (TryMatch<false>(call, out, nullptr)) {
    // An op that may fail on values runs at once; where it fails, tier 1 runs it again and says why.
    if (!may_fail || Run(matched_).ok()) {
      Leave();
      return Outcome::waits;
    }
    for (TensorImpl*& y : out) std::exchange(y, nullptr)->Release();
    --matched_;
    failure.reason = DeoptReason::op_failed;
    failure.step = matched_;
    failure.source = call.source();
    failure.expected = "success";
    failure.seen = "an error";
  } else if (!forced_ && Switch(call, out)) {
    Leave();
    return Outcome::waits;
  } else if (TryMatch<true>(call, out, &failure)) {
    Leave();
    return Outcome::waits;
  }
  elsewhere_ = false;
  (void)Finish();
  Leave();
  Manager::Get().AddExit(*anchor_, *version_, std::move(failure));
  return Outcome::left;
}

bool Deferral::Switch(const interp::EagerCall& call, absl::Span<TensorImpl*> out) {
  if (activation_->position() > 0) return false;  // what was computed stays with its version
  for (const Ref<Version>& other : anchor_->versions()) {
    if (other == version_ || other->trace().config_epoch != version_->trace().config_epoch) continue;
    if (!SameBeginning(version_->layout(), other->layout(), matched_)) continue;
    const Layout::Step& next = other->layout().steps[matched_];
    if (next.site != call.site || next.op != call.op || next.may_fail) continue;
    std::unique_ptr<Activation> a = other->Acquire();
    if (!a->TakeOver(*activation_, matched_)) {
      other->Return(std::move(a));
      continue;
    }
    std::swap(activation_, a);
    Ref<Version> left = std::exchange(version_, other);
    left->Return(std::move(a));
    num_steps_ = static_cast<int>(version_->trace().steps.size());
    steps_ = version_->layout().steps.data();
    if (TryMatch<false>(call, out, nullptr)) return true;
    // Some operand is not what this one expects either: it is left like any other.
    return false;
  }
  return false;
}

absl::Status Deferral::Run(int to) {
  absl::Status status = activation_->Run(to);
  if (status.ok()) return status;
  // The error of a step is that of its op in tier 1.
  const TraceStep& step = version_->trace().steps[activation_->position()];
  return absl::Status(status.code(), absl::StrCat(std::string(ir::Info(step.op).name), ": ", status.message()));
}

absl::Status Deferral::Finish() {
  const bool whole = matched_ == num_steps_;
  const bool timed = whole && Manager::TimeThisRun(*version_);
  const int64_t start = timed ? rt::NowNs() : 0;
  TSR_RETURN_IF_ERROR(Run(matched_));
  rt::Count(rt::Metric::ops_deferred, matched_);
  const int64_t ns = timed ? rt::NowNs() - start : 0;
  const int escapes = activation_->ReleaseHandles();
  if (whole) {
    rt::Count(rt::Metric::version_runs);
    if (escapes > 0) [[unlikely]] {
      GuardFailure failure;
      SetFailure(&failure, GuardKind::escape, "handles that died", absl::StrCat(escapes, " alive"));
      if (version_->counters->escapes.fetch_add(escapes, std::memory_order_relaxed) == 0)
        Manager::Get().AddExit(*anchor_, *version_, std::move(failure));
    }
  }
  finished_ = true;
  if (whole) Manager::Get().AddRun(*anchor_, *version_, ns);
  activation_->Begin();
  matched_ = 0;
  return absl::OkStatus();
}

void Deferral::Stop() {
  if (activation_ != nullptr) version_->Return(std::move(activation_));
  activation_ = nullptr;
  version_ = nullptr;
}

bool Deferral::End() {
  const bool ok = Flush(DeoptReason::read).ok();
  Enter();
  if (ok) {
    Stop();
    anchor_ = nullptr;
  }
  owner_.store(nullptr, std::memory_order_relaxed);
  Leave();
  return ok;
}

absl::Status Deferral::Flush(DeoptReason reason) {
  Enter();
  if (finished_ || activation_ == nullptr) {
    Leave();
    return absl::OkStatus();
  }
  const bool whole = matched_ == num_steps_;
  GuardFailure failure;
  failure.reason = reason;
  failure.step = matched_;
  if (!whole) {
    const TraceStep& step = version_->trace().steps[matched_];
    failure.source = step.source;
    failure.expected = NameOf(step.op, step.source);
    failure.seen = "the use of a value";
  }
  const bool started = matched_ > 0;
  absl::Status status = Finish();
  if (status.ok() && stream_.mode == interp::Stream::Mode::matching && owner_.load() == tracer::ThisThread())
    stream_.mode = interp::Stream::Mode::idle;
  Leave();
  if (!whole && started && status.ok()) Manager::Get().AddExit(*anchor_, *version_, std::move(failure));
  return status;
}

absl::Status Deferral::Use(TensorImpl& x, DeoptReason reason) {
  if (owner_.load(std::memory_order_relaxed) == tracer::ThisThread()) return Flush(reason);
  std::lock_guard lock(mutex_);
  wanted_.store(true, std::memory_order_seq_cst);
  if (g_membarrier.load(std::memory_order_relaxed))
    syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
  while (busy_.load(std::memory_order_acquire)) std::this_thread::yield();
  absl::Status status;
  if (x.watcher() == this && !finished_) {
    const bool whole = matched_ == num_steps_;
    GuardFailure failure;
    failure.reason = DeoptReason::other_thread;
    failure.step = matched_;
    failure.expected = "use by its own thread";
    failure.seen = "use by another thread";
    status = Finish();
    // The owner finds that nothing waits any more at its next op.
    if (status.ok() && !whole) Manager::Get().AddExit(*anchor_, *version_, std::move(failure));
  }
  wanted_.store(false, std::memory_order_release);
  return status;
}

absl::Status Deferral::OnAccess(TensorImpl& x) { return Use(x, DeoptReason::read); }
absl::Status Deferral::OnOperand(TensorImpl& x) { return Use(x, DeoptReason::branch); }

}  // namespace tessera::tiers
