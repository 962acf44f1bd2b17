#include "tiers/function.h"

#include <algorithm>

#include "deopt/frames.h"
#include "interp/interrupt.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "tiers/function_place.h"
#include "tiers/profile.h"
#include "tiers/recording.h"
#include "tiers/run_ahead.h"
#include "tracer/control.h"

namespace tessera::tiers {
namespace {

using deopt::DeoptReason;
using deopt::GuardKind;
using interp::AnchorSlot;
using interp::Frame;
using rt::Ref;
using rt::TensorImpl;
using tracer::TraceEnd;
using Next = interp::FunctionHook::Next;

// With the option tier = 1: arrivals until the option is looked at again.
constexpr int32_t kInterpreterOnly = 1 << 20;
// A place that is hot after fewer arrivals than this needs no preparation.
constexpr int32_t kLeastHot = 16;
// Inlined calls do not count towards the limit of nested calls, so close to it tier 1 is left alone. No trace inlines
// more than 100.
constexpr int kDeepest = interp::kMaxDepth - 110;

int32_t HotCount(const AnchorSlot& slot) {
  const bool entry = slot.kind == AnchorSlot::Kind::function;
  return static_cast<int32_t>(entry ? rt::options().hot_function() : rt::options().hot_loop());
}

bool SameLayout(const View& a, const View& b) {
  if (!a.SameDims(b)) return false;
  for (int d = 0; d < a.rank; ++d)
    if (a.dims[d] != 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

GuardFailure FailureOf(GuardKind guard, std::string expected, std::string seen) {
  GuardFailure f;
  f.guard = guard;
  f.reason = deopt::Info(guard).reason;
  f.expected = std::move(expected);
  f.seen = std::move(seen);
  return f;
}

class Values final : public deopt::ExitValues {
 public:
  explicit Values(Activation& a) : a_(a) {}
  absl::Status Fill(absl::Span<const deopt::Snapshot::Register> from, TensorImpl** registers) override {
    return a_.FillRegisters(from, registers);
  }
  const TensorType& Type(ValueId v) override { return a_.view(v); }
  Frame::Counter Counter(int i) override { return a_.counter(i); }

 private:
  Activation& a_;
};

// Goes back to its version when the run is over.
class Lease {
 public:
  explicit Lease(Version& version) : version_(version), a_(version.Acquire()) {}
  ~Lease() { End(); }
  Lease(const Lease&) = delete;
  void End() {
    if (a_ != nullptr) version_.Return(std::move(a_));
  }
  Activation& operator*() { return *a_; }
  Activation* operator->() { return a_.get(); }

 private:
  Version& version_;
  std::unique_ptr<Activation> a_;
};

// What a run that has come to the return of its function leaves.
absl::Status Take(const FunctionVersion& f, Activation& a, interp::Results* results) {
  const std::vector<ValueId>& values = f.version->trace().results;
  if (!results->empty()) results->clear();
  for (size_t i = 0; i < values.size(); ++i) {
    TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> x, f.taken[i] ? a.TakeTensor(values[i]) : a.MakeTensor(values[i]));
    results->push_back(std::move(x));
  }
  return absl::OkStatus();
}

// One frame from its arrival at a place until tier 1 has it back, or its call is over.
class Driver {
 public:
  Driver(Frame& frame, interp::Results* results) : frame_(frame), results_(results) {}

  absl::StatusOr<Next> Run(FunctionPlace* place) {
    if (!visit_.ok()) return Next::interpret;
    // The instance keeps the place of a slot for as long as it has frames.
    TSR_RETURN_IF_ERROR(Arrive(*place));
    // Each round either ends, or goes on at a place to which the frame has come by running steps, or at the bridge of
    // an exit, which is one of finitely many.
    while (next_ != nullptr) {
      if (interp::Interrupted()) [[unlikely]]
        return interp::InterruptedStatus();
      const std::shared_ptr<FunctionPlace> here = std::exchange(next_, nullptr);
      TSR_RETURN_IF_ERROR(Arrive(*here));
    }
    return returned_ ? Next::returned : Next::interpret;
  }

 private:
  absl::Status Arrive(FunctionPlace& here) {
    switch (here.Arrive(frame_)) {
      case Anchor::Action::wait: break;
      case Anchor::Action::record: here.Record(frame_); break;
      case Anchor::Action::enter: return Enter(here);
    }
    return absl::OkStatus();
  }

  absl::Status Enter(FunctionPlace& place) {
    const FunctionVersion* refused = nullptr;
    GuardFailure failure;
    for (const auto& f : place.Versions()) {
      Version& version = *f->version;
      if (version.dead.load(std::memory_order_acquire) || frame_.depth + f->inlined > kDeepest) continue;
      if (version.trace().config_epoch != tracer::ConfigEpoch()) {
        Manager::Get().AddExit(place.anchor(), version,
                               FailureOf(GuardKind::configuration, absl::StrCat(version.trace().config_epoch),
                                         absl::StrCat(tracer::ConfigEpoch())));
        continue;
      }
      Lease lease(version);
      if (Start(*f, *lease, &failure)) {
        if (refused != nullptr) RecordRefusal(refused->version->id, failure, version.id);
        return Run(place, *f, lease);
      }
      refused = f.get();
    }
    if (refused != nullptr) {
      Manager::Get().AddExit(place.anchor(), *refused->version, std::move(failure));
      // What no version serves is here to be recorded.
      if (place.anchor().wants_recording()) place.Record(frame_);
    }
    return absl::OkStatus();
  }

  // Checks the guards of the version's inputs. The activation is as after Begin().
  bool Start(const FunctionVersion& f, Activation& a, GuardFailure* failure) {
    const Trace& trace = f.version->trace();
    if (frame_.device != trace.device) {
      *failure = FailureOf(GuardKind::device, std::string(trace.device->name()), std::string(frame_.device->name()));
      return false;
    }
    a.instance = frame_.instance;
    a.device = frame_.device;
    a.depth = frame_.depth;
    if (f.is_straight) a.Borrow();
    if (f.reads_buffers) a.VisitBuffers();
    for (int i = 0; i < frame_.code->num_slots; ++i) a.counter(i) = frame_.counters[i];
    if (!a.SetRootAttrs(frame_.attrs, failure)) return false;
    for (const auto& [v, reg, guard] : f.inputs) {
      TensorImpl* x = frame_.registers[reg];
      if (x != nullptr && guard >= 0 && a.SetPlainInput(guard, v, *x)) [[likely]]
        continue;
      if (x == nullptr) {
        *failure = FailureOf(GuardKind::aliasing, "a value", "nothing");
        return false;
      }
      if (!a.SetInput(v, *x, failure)) {
        // An input that only a move reads, at the end, has no step.
        const auto step = static_cast<size_t>(trace.values[v].step);
        failure->source = trace.steps[std::min(step, trace.steps.size() - 1)].source;
        return false;
      }
    }
    if (!a.shapes_changed()) [[likely]]
      return true;
    if (int failed = 0; !a.ResolveAll(failure, &failed)) {
      failure->source = trace.steps[static_cast<size_t>(failed)].source;
      return false;
    }
    // What a call in tier 1 would refuse, tier 1 refuses.
    for (size_t k = 1; k < trace.frames.size() && trace.symbols != nullptr; ++k) {
      absl::InlinedVector<const TensorType*, 8> types;
      for (ValueId v : trace.frames[k].args) types.push_back(&a.view(v));
      absl::InlinedVector<int64_t, 8> symbols;
      if (interp::Bind(*trace.frames[k].code, types, &symbols).ok()) continue;
      *failure = FailureOf(GuardKind::exact_dim, "arguments as recorded", "arguments that a call refuses");
      return false;
    }
    return true;
  }

  absl::Status Run(FunctionPlace& place, FunctionVersion& f, Lease& a) {
    Version& version = *f.version;
    const Trace& trace = version.trace();
    const int size = static_cast<int>(trace.steps.size());
    if (f.is_straight && !Manager::TimeThisRun(version) && version.timer() == nullptr && !rt::RecorderOn() &&
        !tracer::IsControlled() && !a->MayRunAhead()) [[likely]] {
      return RunStraight(place, f, a, size);
    }
    const int64_t start = Manager::TimeThisRun(version) ? Manager::TimeOf(version) : 0;
    rt::TimedRuns tried(version.timer());
    const int64_t start_ticks = Manager::StartOfRun();
    iterations_ = 0;
    if (!f.is_straight) frame_.Own();
    bool forced = false;
    absl::Status status;
    RunAhead ahead(f, *a);
    for (;;) {
      int to = size;
      if (tracer::GuardFails()) [[unlikely]] {
        forced = true;
        to = static_cast<int>(f.forced.fetch_add(1, std::memory_order_relaxed) % static_cast<uint32_t>(size));
      }
      const size_t depth = forced || iterations_ == 0 ? 0 : ahead.depth();
      int64_t lost = 0;
      if (!ahead.Settle(depth > 0 ? depth - 1 : 0, &lost, &status)) {
        // The iteration that did not hold was run again.
      } else if (depth > 0) {
        status = ahead.Submit(&lost);
      } else if (iterations_ == 0 && to == size && trace.end != TraceEnd::loop) {
        status = ahead.RunOnce();
      } else {
        status = iterations_ == 0 ? a->Run(to) : a->RunAgain(f.carried, to);
      }
      iterations_ -= lost;
      if (!status.ok() || a->position() < size || a->failure().step >= 0) [[unlikely]]
        break;
      if (depth == 0 && trace.end == TraceEnd::loop) ahead.NoteHeld();
      ++iterations_;
      if (trace.end != TraceEnd::loop) break;
      if (iterations_ == 1 && !GoesRound(f, *a)) break;
      if ((iterations_ & 255) == 0 && start != 0)
        Manager::Get().LoopGoesOn(place.anchor(), version, rt::NowNs() - start);
      // Whoever changes an option, watches tier 1 or interrupts need not wait for the end of a loop.
      if (version.dead.load(std::memory_order_relaxed) || trace.config_epoch != tracer::ConfigEpoch() ||
          interp::CurrentObserver() != nullptr || interp::Interrupted()) [[unlikely]] {
        break;
      }
    }
    // Whoever looks at the frame finds what is known to have been.
    if (int64_t lost = 0; status.ok() && !ahead.Settle(0, &lost, &status)) {
      iterations_ -= lost;
      if (status.ok() && a->position() == size && a->failure().step < 0) ++iterations_;
    }
    if (iterations_ > 0) {
      rt::Count(rt::Metric::version_runs, iterations_);
      const int64_t ns =
          start == 0 ? tried.End(iterations_) * iterations_ : std::max<int64_t>(Manager::TimeOf(version) - start, 1);
      Manager::Get().AddRun(place.anchor(), version, ns, iterations_, ns == 0 ? 0 : a->Size(), start_ticks);
      TSR_LOG(3, "version ", version.id, " of ", trace.name, " ran ", iterations_, " times");
    }
    const bool complete = status.ok() && a->position() == size && a->failure().step < 0;
    if (!complete) return Exit(place, f, a, status, forced);
    if (trace.end == TraceEnd::returned) return Return(f, *a);
    CommitCarried(f, *a, iterations_ > 1);
    Values values(*a);
    TSR_RETURN_IF_ERROR(deopt::Frames(trace, frame_).Restore(f.SnapshotAt(size), values));
    a.End();
    if (trace.end == TraceEnd::loop) {
      if (!version.dead.load(std::memory_order_relaxed)) next_ = place.shared_from_this();
    } else if (f.next != nullptr && PlaceAt(*f.next) != nullptr && f.next->Arrive()) {
      next_ = PlaceAt(*f.next)->shared_from_this();
    }
    return absl::OkStatus();
  }

  // Most runs: straight to the return, and nobody takes the time, wants it to fail or has the device look at branches.
  absl::Status RunStraight(FunctionPlace& place, FunctionVersion& f, Lease& a, int size) {
    iterations_ = 0;
    const absl::Status status = a->Run(size);
    if (!status.ok() || a->position() < size || a->failure().step >= 0) [[unlikely]]
      return Exit(place, f, a, status, /*forced=*/false);
    rt::Count(rt::Metric::version_runs);
    Manager::Get().AddRun(place.anchor(), *f.version, /*ns=*/0);
    TSR_LOG(3, "version ", f.version->id, " of ", f.version->trace().name, " ran 1 times");
    return Return(f, *a);
  }

  // True when the values that the next iteration begins with are like those of this one, so that its guards hold.
  static bool GoesRound(const FunctionVersion& f, Activation& a) {
    return std::all_of(f.carried.begin(), f.carried.end(), [&](const Activation::Carry& c) {
      if (c.in == kNoValue) return true;
      if (f.version->guard(c.in).mask != tracer::MaskShape::unknown) return false;
      return a.view(c.in).dtype == a.view(c.out).dtype && SameLayout(a.view(c.in), a.view(c.out));
    });
  }

  absl::Status Return(const FunctionVersion& f, Activation& a) {
    TSR_RETURN_IF_ERROR(Take(f, a, results_));
    returned_ = true;
    return absl::OkStatus();
  }

  // The registers as the iteration found them: while the loop goes round nobody looks at them.
  void CommitCarried(const FunctionVersion& f, Activation& a, bool began) {
    if (!began) return;
    for (size_t k = 0; k < f.carried.size(); ++k) {
      const Ref<TensorImpl> x = a.Carried(f.carried, k);
      if (x) interp::SetRegister(frame_.registers[f.carried[k].reg], Ref<TensorImpl>(x).release());
    }
    for (int32_t reg : f.freed) interp::SetRegister(frame_.registers[reg], nullptr);
  }

  absl::Status Exit(FunctionPlace& place, FunctionVersion& f, Lease& a, const absl::Status& status, bool forced) {
    Version& version = *f.version;
    const Trace& trace = version.trace();
    const int position = a->position();
    const bool at_end = position == static_cast<int>(trace.steps.size());
    const TraceStep* step = at_end ? nullptr : &trace.steps[static_cast<size_t>(position)];
    // An error of a callee is the program's, and has its position. Any other step fails again in tier 1, which says so.
    if (!status.ok() && (step == nullptr || step->kind == TraceStep::Kind::call)) return status;
    GuardFailure failure;
    if (!status.ok()) {
      failure.reason = DeoptReason::op_failed;
      failure.expected = "success";
      failure.seen = std::string(status.message());
    } else if (a->failure().step >= 0) {
      failure = a->failure();
    } else if (forced) {
      failure.reason = DeoptReason::forced;
    }
    if (failure.step < 0 && step != nullptr) {
      failure.step = position;
      failure.source = step->source;
    }
    // Registers change from here on. Where the frame borrowed, its caller keeps the inputs until the call is over.
    if (!frame_.borrows) a->Own();
    frame_.Own();
    CommitCarried(f, *a, iterations_ > 0);
    Values values(*a);
    deopt::Frames frames(trace, frame_);
    TSR_RETURN_IF_ERROR(frames.Restore(f.SnapshotAt(position), values));
    a.End();
    if (failure.reason == DeoptReason::branch && step != nullptr && step->frame == 0) next_ = Bridge(f, position);
    // On a bridge there is nothing to book: execution does not fall back to tier 1.
    if (next_ == nullptr || next_->Versions().empty())
      Manager::Get().AddExit(place.anchor(), version, std::move(failure));
    else
      rt::Record(rt::EventKind::bridge, version.id, position);
    return frames.Resume();
  }

  // Where to go on from an exit in the root frame; null for tier 1.
  std::shared_ptr<FunctionPlace> Bridge(FunctionVersion& f, int position) {
    FunctionVersion::Exit& exit = f.exits[static_cast<size_t>(position)];
    if (FunctionPlace* bridge = exit.bridge.load(std::memory_order_acquire)) return bridge->shared_from_this();
    const bool hot = exit.count.fetch_add(1, std::memory_order_relaxed) + 1 >= rt::options().hot_exit();
    return tracer::Decide(hot, 4) ? f.AddBridge(position, frame_).shared_from_this() : nullptr;
  }

  const Visit visit_;
  Frame& frame_;
  interp::Results* results_;
  std::shared_ptr<FunctionPlace> next_;
  int64_t iterations_ = 0;
  bool returned_ = false;
};

}  // namespace

FunctionTiers& FunctionTiers::Get() {
  static auto* tiers = new FunctionTiers;
  return *tiers;
}

absl::StatusOr<Next> FunctionTiers::OnAnchor(Frame& frame, AnchorSlot& slot, interp::Results* results) {
  if (rt::options().tier() == 1) [[unlikely]] {
    slot.countdown.store(kInterpreterOnly, std::memory_order_relaxed);
    return Next::interpret;
  }
  FunctionPlace* place = PlaceAt(slot);
  if (place == nullptr) {
    if (!AddPlace(frame, slot)) return Next::interpret;
    place = PlaceAt(slot);
  }
  if (const int32_t rest = place->TakeRest(); rest > 0) [[unlikely]] {
    Manager::Get().Prepare(Manager::Source::functions);
    slot.countdown.store(rest, std::memory_order_relaxed);
    return Next::interpret;
  }
  if (interp::CurrentObserver() != nullptr || !frame.device->executes()) [[unlikely]] {
    slot.countdown.store(1, std::memory_order_relaxed);
    return Next::interpret;
  }
  return Driver(frame, results).Run(place);
}

bool FunctionTiers::CallAtOnce(interp::Instance& instance, const interp::Bytecode& code,
                               absl::Span<TensorImpl* const> args, interp::Results* results) {
  const Visit visit;
  FunctionPlace* place = PlaceAt(code.anchors.front());
  if (!visit.ok() || place == nullptr) return false;
  const FunctionPlace::List& versions = place->Versions();
  if (versions.empty() || !versions.front()->is_plain) return false;
  const FunctionVersion& f = *versions.front();
  Version& version = *f.version;
  const Trace& trace = version.trace();
  // Whatever is out of the ordinary goes the usual way.
  if (args.size() != f.parameters.size() || version.dead.load(std::memory_order_acquire) ||
      trace.config_epoch != tracer::ConfigEpoch() || Manager::TimeThisRun(version) || version.timer() != nullptr ||
      rt::RecorderOn() || tracer::IsControlled() || interp::CurrentObserver() != nullptr ||
      !place->anchor().MayEnter()) {
    return false;
  }
  Lease a(version);
  a->instance = &instance;
  a->device = trace.device;
  a->depth = 0;
  a->Borrow();
  if (f.reads_buffers) a->VisitBuffers();
  for (size_t i = 0; i < args.size(); ++i)
    if (!a->SetPlainInput(f.parameters[i].guard, f.parameters[i].value, *args[i])) return false;
  const int size = static_cast<int>(trace.steps.size());
  if (a->shapes_changed() || a->MayRunAhead() || !a->Run(size).ok() || a->position() < size) return false;
  if (!Take(f, *a, results).ok()) return false;
  place->anchor().CountArrival();
  rt::Count(rt::Metric::functions_called);
  rt::Count(rt::Metric::version_runs);
  Manager::Get().AddRun(place->anchor(), version, /*ns=*/0);
  TSR_LOG(3, "version ", version.id, " of ", trace.name, " ran 1 times");
  return true;
}

bool FunctionTiers::AddPlace(Frame& frame, AnchorSlot& slot) {
  const bool known = Profile::Get().Knows(frame, slot);
  const int32_t given = HotCount(slot);
  Manager::Get().PrepareCode(*frame.device);
  // As of eager ops: on a GPU these take 20 us and more, and recording is soon paid for.
  const int32_t weight = given >= kLeastHot && frame.device->kind() == rt::DeviceKind::cuda ? 4 : 1;
  const int32_t hot = given / weight;
  // The first places of a process come by once more, on their way.
  const bool on_the_way = given >= kLeastHot && !Manager::Get().is_prepared(Manager::Source::functions);
  const int32_t rest = on_the_way && !known ? hot / 2 : 0;
  slot.countdown.store(known ? 1 : hot - rest, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  if (PlaceAt(slot) != nullptr) return known;
  auto& places = places_[frame.instance];
  places.push_back(std::make_shared<FunctionPlace>(&slot, *frame.code, slot.pc));
  places.back()->set_rest(rest);
  places.back()->anchor().set_weight(weight);
  slot.anchor.store(places.back().get(), std::memory_order_release);
  return known;
}

void FunctionTiers::OnInstanceEnd(interp::Instance& instance) {
  std::vector<std::shared_ptr<FunctionPlace>> gone;
  {
    std::lock_guard lock(mutex_);
    auto it = places_.find(&instance);
    if (it == places_.end()) return;
    gone = std::move(it->second);
    places_.erase(it);
  }
  for (const auto& place : gone) place->slot()->anchor.store(nullptr, std::memory_order_release);
}

}  // namespace tessera::tiers
