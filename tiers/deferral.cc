#include "tiers/deferral.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "interp/cpu/ids.h"
#include "interp/dispatch.h"
#include "runtime/clock.h"
#include "runtime/metrics.h"
#include "tiers/recording.h"
#include "tracer/control.h"
#include "tracer/eager_recorder.h"

namespace tessera::tiers {
namespace {

using deopt::DeoptReason;
using deopt::GuardKind;
using rt::Ref;
using rt::TensorImpl;

// With it, the owner's plain stores and loads need no fences: whoever wants in makes every core of the process pass
// one, before it looks whether the owner is inside, when it finds that it is out, and before it lets it in again.
std::atomic<bool> g_membarrier{false};

void PassBarrier() {
  if (g_membarrier.load(std::memory_order_relaxed)) syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

void SetFailure(GuardFailure* f, GuardKind guard, std::string expected, std::string seen) {
  if (f == nullptr) return;
  f->guard = guard;
  f->reason = deopt::Info(guard).reason;
  f->expected = std::move(expected);
  f->seen = std::move(seen);
}

std::string TextOf(const View& number) {
  if (number.dtype == DType::boolean) return ir::ToString(ir::Attr(*number.as<bool>()));
  return ir::ToString(IsFloat(number.dtype) ? ir::Attr(*number.as<double>()) : ir::Attr(*number.as<int64_t>()));
}

// An op that may fail on values, of which can be seen now that it does not: it reads, or writes, at indices that are in
// memory. It may wait like any other op.
bool WillNotFail(const interp::EagerCall& call) {
  const bool is_along =
      call.op == ir::Op::k_embedding || call.op == ir::Op::k_take || call.op == ir::Op::k_put_along_axis;
  if (!is_along && call.op != ir::Op::k_scatter) return false;
  const View &x = *call.in[0], &ids = *call.in[1];
  if (ids.weak || static_cast<const TensorImpl&>(ids).watcher() != nullptr) return false;
  if (is_along) {
    int64_t axis = call.op != ir::Op::k_embedding ? std::get<int64_t>(call.attrs[0]) : 0;
    if (axis < 0) axis += x.rank;
    return cpu::AreInRange(ids, x.dims[axis]);
  }
  // The last dim of the indices is one for each of the leading dims of x.
  View column = ids;
  --column.rank;
  for (int64_t d = 0; d < ids.dims[column.rank]; ++d) {
    column.data = static_cast<char*>(ids.data) + d * ids.strides[column.rank] * static_cast<int64_t>(SizeOf(ids.dtype));
    if (!cpu::AreInRange(column, x.dims[d])) return false;
  }
  return true;
}

// The first n steps are the same op on the same values from the same place.
bool SameBeginning(const Layout& a, const Layout& b, int n) {
  if (static_cast<int>(b.steps.size()) - 1 <= n) return false;
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

Deferral::Deferral(interp::Stream& stream) : stream_(stream), owner_(stream.owner), matched_(stream.waiting.matched) {
  owner_.watcher = this;
  stream.take_other = TakeOther;
  owner_.gate = g_membarrier.load(std::memory_order_relaxed) ? 0 : rt::Owner::kNoBarrier;
}

[[gnu::always_inline]] inline void Deferral::Enter() {
  if (!owner_.TryEnter()) [[unlikely]]
    EnterSlow();
}

void Deferral::EnterSlow() {
  do {
    Leave();
    {
      std::lock_guard wait(mutex_);
    }
    owner_.busy.exchange(true, std::memory_order_seq_cst);
  } while ((owner_.gate.load(std::memory_order_seq_cst) & rt::Owner::kWanted) != 0);
}

bool Deferral::Start(const std::shared_ptr<Anchor>& anchor, const Ref<Version>& version, const interp::EagerCall& call,
                     absl::Span<TensorImpl*> out, GuardFailure* why) {
  for (const View* v : call.in) {
    if (v == nullptr || v->weak) continue;
    auto& x = const_cast<TensorImpl&>(static_cast<const TensorImpl&>(*v));
    if (rt::Watcher* w = x.watcher(); w != nullptr && !w->OnOperand(x).ok()) return false;
  }
  Enter();
  thread_.store(tracer::ThisThread(), std::memory_order_relaxed);
  // What could not be run before, for want of memory perhaps, comes first.
  if (!finished_ && !Finish().ok()) {
    Leave();
    return false;
  }
  if (version_.get() != version.get() || activation_ == nullptr) {
    Stop();
    version_ = version;
    activation_ = version->Acquire();
    activation_->WatchHandles(this);
  } else {
    activation_->Begin();
  }
  if (anchor_ != anchor) anchor_ = anchor;
  matched_ = 0;
  owner_.drops = 0;
  run_ns_ = 0;
  start_ticks_ = 0;
  finished_ = false;
  Follow();
  forced_ = false;
  GuardFailure failure;
  bool ok;
  if (version_->trace().config_epoch != tracer::ConfigEpoch()) {
    SetFailure(&failure, GuardKind::configuration, absl::StrCat(version_->trace().config_epoch),
               absl::StrCat(tracer::ConfigEpoch()));
    ok = false;
  } else {
    ok = TryMatch<false>(steps_[0], call, out, nullptr) || TryMatch<true>(steps_[0], call, out, &failure);
  }
  // The first op, too, runs at once where it may fail on values.
  if (ok && steps_[0].may_fail && !WillNotFail(call) && !Run(matched_).ok()) {
    for (TensorImpl*& y : out) std::exchange(y, nullptr)->MarkDropped();
    matched_ = 0;
    failure.reason = DeoptReason::op_failed;
    failure.step = 0;
    failure.source = call.source();
    failure.expected = "success";
    failure.seen = "an error";
    (void)Finish();
    ok = false;
  }
  if (!ok) {
    finished_ = true;
    stream_.waiting.next = &interp::Waiting::kNone;
  }
  set_path(stream_.path());
  Leave();
  if (!ok && why != nullptr) *why = failure;
  if (!ok) Manager::Get().AddExit(*anchor_, *version_, std::move(failure));
  return ok;
}

void Deferral::Follow() {
  const Layout& layout = version_->layout();
  num_steps_ = static_cast<int>(version_->trace().steps.size());
  steps_ = layout.steps.data();
  operands_ = layout.operands.data();
  stream_.waiting.next = &interp::Waiting::kNone;
  stream_.waiting.tensors = activation_->tensors();
  stream_.waiting.numbers = activation_->number_bits();
}

inline void Deferral::AwaitPlain() {
  interp::Waiting& waiting = stream_.waiting;
  // Whoever decides for the guards is asked at each of them, from the run on that begins after he came.
  if (!activation_->is_resolved(matched_) || tracer::IsControlled()) {
    waiting.next = &interp::Waiting::kNone;
    return;
  }
  const interp::PlainStep* const plain = version_->layout().plain.data();
  waiting.next = plain + matched_;
  waiting.until = activation_->is_resolved() ? nullptr : plain + activation_->resolved_until();
}

template <bool kExplain>
inline bool Deferral::TryMatch(const Layout::Step& step, const interp::EagerCall& call, absl::Span<TensorImpl*> out,
                               GuardFailure* failure) {
  const Layout& layout = version_->layout();
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
  const Layout::Operand* want = operands_ + step.operands;
  const View* const* in = call.in.data();
  for (int k = 0; k < step.num_in; ++k, ++want) {
    const View* given = in[k];
    if (given == stream_.waiting.tensors[want->tensor]) [[likely]]
      continue;
    bool same = false;
    if (want->kind == Layout::Operand::Kind::number) {
      same = given != nullptr && given->weak && given->dtype == want->dtype;
      if (same && !act.SetNumber(want->number, interp::BitsOf(*given))) [[unlikely]] {
        if constexpr (kExplain) {
          SetFailure(failure, GuardKind::scalar_value, TextOf(act.number(want->number)), TextOf(*given));
          failure->value = want->value;
        }
        return false;
      }
    } else if (want->kind == Layout::Operand::Kind::new_input && given != nullptr && !given->weak) {
      auto& x = const_cast<TensorImpl&>(static_cast<const TensorImpl&>(*given));
      if (rt::Watcher* w = x.watcher(); w != nullptr) [[unlikely]] {
        elsewhere_ = w != this;
        if (elsewhere_) return false;
      } else {
        if (!act.SetInput(*want, x, failure)) return false;
        same = true;
      }
    }
    if (!same) [[unlikely]] {
      if constexpr (kExplain)
        SetFailure(failure, GuardKind::aliasing, absl::StrCat("operand ", k, " as recorded"), "another value");
      return false;
    }
  }
  if (step.has_attrs && !act.SetAttrs(matched_, call.attrs, failure)) [[unlikely]]
    return false;
  if (!act.Resolve(matched_, failure)) [[unlikely]]
    return false;
  if (step.on_default && &call.default_device() != version_->trace().device) [[unlikely]] {
    if constexpr (kExplain)
      SetFailure(failure, GuardKind::device, std::string(version_->trace().device->name()),
                 std::string(call.default_device().name()));
    return false;
  }
  if constexpr (kExplain) {
    if (forced_) {
      SetFailure(failure, GuardKind::branch, "", "");
      failure->reason = DeoptReason::forced;
      return false;
    }
  } else if (tracer::GuardFails()) [[unlikely]] {
    forced_ = true;
    return false;
  }
  const ValueId* results = layout.results.data() + step.results;
  for (size_t k = 0; k < out.size(); ++k) out[k] = act.MakeHandle(matched_, results[k], this);
  ++matched_;
  AwaitPlain();
  return true;
}

inline bool Deferral::MatchInputs(const interp::EagerCall& call, absl::Span<TensorImpl*> out) {
  if (finished_ || tracer::IsControlled()) return false;
  const Layout::Step& step = steps_[matched_];
  if (call.site != step.site || call.op != step.op || call.in.size() != step.num_in) return false;
  if (step.may_fail || step.num_out != 1 || step.on_default || matched_ == num_steps_) return false;
  Activation& act = *activation_;
  const Layout::Operand* want = operands_ + step.operands;
  for (const View* given : call.in) {
    if (given != stream_.waiting.tensors[want->tensor]) {
      if (given == nullptr) return false;
      if (want->kind == Layout::Operand::Kind::new_input && !given->weak) {
        auto& x = const_cast<TensorImpl&>(static_cast<const TensorImpl&>(*given));
        if (x.watcher() != nullptr || !act.SetInput(*want, x, nullptr)) return false;
      } else if (want->kind != Layout::Operand::Kind::number || !given->weak || given->dtype != want->dtype ||
                 !act.SetNumber(want->number, interp::BitsOf(*given))) {
        return false;
      }
    }
    ++want;
  }
  if (step.has_attrs &&
      !(step.num_bools >= 0 ? step.HasBools(call.attrs) : act.SetAttrs(matched_, call.attrs, nullptr)))
    return false;
  if (!act.Resolve(matched_, nullptr)) return false;
  out[0] = act.MakeHandle(matched_, step.result, this);
  ++matched_;
  AwaitPlain();
  return true;
}

TensorImpl* Deferral::TakeOther(interp::Stream& stream, uint64_t a, uint64_t b, uint64_t c) {
  auto& self = *static_cast<Deferral*>(stream.deferral);
  Activation& act = *self.activation_;
  const Layout::Step& step = self.steps_[self.matched_];
  const Layout::Operand* want = self.operands_ + step.operands;
  const uint64_t given[] = {a, b, c};
  // A handle that is empty is an error of the call, before anything has happened.
  for (int k = 0; k < step.num_in; ++k)
    if (want[k].kind != Layout::Operand::Kind::number && given[k] == 0) return nullptr;
  for (int k = 0; k < step.num_in; ++k, ++want) {
    if (want->kind == Layout::Operand::Kind::number) {
      if (!act.SetNumber(want->number, given[k])) return nullptr;
      continue;
    }
    auto* x = reinterpret_cast<TensorImpl*>(given[k]);
    if (x == stream.waiting.tensors[want->tensor]) continue;
    if (want->kind != Layout::Operand::Kind::new_input || x->watcher() != nullptr || !act.SetInput(*want, *x, nullptr))
      return nullptr;
  }
  if (!act.Resolve(self.matched_, nullptr)) return nullptr;
  TensorImpl* y = act.MakeHandle(self.matched_, step.result, &self);
  ++self.matched_;
  self.AwaitPlain();
  return y;
}

// Most ops of a stretch do not come here (Stream::Take).
bool Deferral::OnOp(interp::Stream& stream, interp::EagerCall& call, absl::Span<TensorImpl*> out) {
  auto& self = *static_cast<Deferral*>(stream.deferral);
  {
    const rt::OwnerScope scope(self.owner_);
    if (scope.is_inside() && self.MatchInputs(call, out)) [[likely]]
      return true;
  }
  const Outcome outcome = self.Next(call, out);
  if (outcome == Outcome::waits) return true;
  // From here on the op is one of the stream like any other.
  stream.SetPath(self.path());
  call.path = stream.NextPath(call.site, call.op);
  return self.after(stream, outcome, call, out);
}

uint64_t Deferral::path() const {
  uint64_t path = path_;
  // Those before the last sixteen leave no trace in it.
  for (int i = std::max(path_step_, matched_ - 16); i < matched_; ++i)
    path = interp::Stream::Fold(path, steps_[i].site, steps_[i].op);
  return path;
}

Deferral::Outcome Deferral::Next(const interp::EagerCall& call, absl::Span<TensorImpl*> out) {
  Enter();
  if (!finished_ && matched_ < num_steps_ && !steps_[matched_].may_fail) {
    if (TryMatch<false>(steps_[matched_], call, out, nullptr)) [[likely]] {
      Leave();
      return Outcome::waits;
    }
  }
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
  const Layout::Step& step = steps_[matched_];
  forced_ = false;
  GuardFailure failure;
  if (TryMatch<false>(step, call, out, nullptr)) {
    // An op that may fail on values runs at once; where it fails, tier 1 runs it again and says why.
    if (!step.may_fail || WillNotFail(call) || Run(matched_).ok()) {
      Leave();
      return Outcome::waits;
    }
    for (TensorImpl*& y : out) std::exchange(y, nullptr)->MarkDropped();
    --matched_;
    failure.reason = DeoptReason::op_failed;
    failure.step = matched_;
    failure.source = call.source();
    failure.expected = "success";
    failure.seen = "an error";
  } else if (rt::EventsOn() && !forced_ && TryMatch<true>(step, call, out, &failure)) {
    // Whoever wants events wants to know why a version is left for another one, too.
    Leave();
    return Outcome::waits;
  } else if (!forced_ && Switch(call, out, failure)) {
    Leave();
    return Outcome::waits;
  } else if (TryMatch<true>(steps_[matched_], call, out, &failure)) {
    Leave();
    return Outcome::waits;
  }
  elsewhere_ = false;
  (void)Finish();
  Leave();
  Manager::Get().AddExit(*anchor_, *version_, std::move(failure));
  return Outcome::left;
}

bool Deferral::Switch(const interp::EagerCall& call, absl::Span<TensorImpl*> out, const GuardFailure& why) {
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
    activation_->WatchHandles(this);
    Ref<Version> left = std::exchange(version_, other);
    const int64_t left_id = left->id;
    left->Return(std::move(a));
    Follow();
    if (TryMatch<false>(steps_[matched_], call, out, nullptr)) {
      RecordRefusal(left_id, why, version_->id);
      return true;
    }
    // Some operand is not what this one expects either: it is left like any other.
    return false;
  }
  return false;
}

absl::Status Deferral::Run(int to) {
  // Ops that may fail on values make a run of several pieces.
  const bool timed = Manager::TimeThisRun(*version_);
  const int64_t start = timed ? Manager::TimeOf(*version_) : 0;
  if (start_ticks_ == 0) start_ticks_ = Manager::StartOfRun();
  activation_->set_drops(owner_.drops);
  absl::Status status = activation_->Run(to);
  if (timed) run_ns_ += Manager::TimeOf(*version_) - start;
  if (status.ok()) return status;
  // The error of a step is that of its op in tier 1.
  const TraceStep& step = version_->trace().steps[activation_->position()];
  return absl::Status(status.code(), absl::StrCat(std::string(ir::Info(step.op).name), ": ", status.message()));
}

absl::Status Deferral::Finish() {
  const bool whole = matched_ == num_steps_;
  const bool timed = whole && Manager::TimeThisRun(*version_);
  rt::TimedRuns tried(whole && activation_->position() == 0 ? version_->timer() : nullptr);
  TSR_RETURN_IF_ERROR(Run(matched_));
  rt::Count(rt::Metric::ops_deferred, matched_);
  const int64_t ns = timed ? run_ns_ : tried.End(1);
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
  if (whole)
    Manager::Get().AddRun(*anchor_, *version_, ns, 1, ns != 0 ? activation_->Size() : 0,
                          std::exchange(start_ticks_, 0));
  activation_->Begin();
  stream_.waiting.next = &interp::Waiting::kNone;
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
  thread_.store(nullptr, std::memory_order_relaxed);
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
  if (status.ok() && stream_.mode == interp::Stream::Mode::matching && thread_.load() == tracer::ThisThread()) {
    stream_.mode = interp::Stream::Mode::idle;
    stream_.SetPath(path());
  }
  Leave();
  if (!whole && started && status.ok()) Manager::Get().AddExit(*anchor_, *version_, std::move(failure));
  return status;
}

void Deferral::ReleaseKept() {
  Enter();
  if (finished_ && activation_ != nullptr) activation_->ReleaseKept();
  Leave();
}

absl::Status Deferral::Use(TensorImpl& x, DeoptReason reason) {
  if (thread_.load(std::memory_order_relaxed) == tracer::ThisThread()) return Flush(reason);
  std::lock_guard lock(mutex_);
  owner_.gate.fetch_or(rt::Owner::kWanted, std::memory_order_seq_cst);
  PassBarrier();
  while (owner_.busy.load(std::memory_order_seq_cst)) std::this_thread::yield();
  PassBarrier();
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
  PassBarrier();
  owner_.gate.fetch_and(static_cast<uint8_t>(~rt::Owner::kWanted), std::memory_order_release);
  return status;
}

absl::Status Deferral::OnAccess(TensorImpl& x) { return Use(x, DeoptReason::read); }
absl::Status Deferral::OnOperand(TensorImpl& x) { return Use(x, DeoptReason::branch); }

}  // namespace tessera::tiers
