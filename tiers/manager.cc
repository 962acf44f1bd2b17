#include "tiers/manager.h"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/clock.h"
#include "runtime/device_memory.h"
#include "runtime/log.h"
#include "runtime/low_priority.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "runtime/ring.h"
#include "tiers/function_schedule.h"
#include "tiers/generate.h"
#include "tiers/profile.h"
#include "tiers/recording.h"
#include "tiers/replay.h"
#include "tracer/control.h"
#include "tracer/generalise.h"

namespace tessera::tiers {
namespace {

using deopt::DeoptReason;
using deopt::Ledger;
using deopt::Policy;
using rt::Ref;
using tracer::Decide;
using tracer::TraceAbort;

// ", 148 of them in 6 launches"
std::string BatchesOf(const Code& code) {
  size_t kernels = 0, launches = 0;
  for (const std::vector<int>& batch : code.batches()) {
    const auto most = static_cast<size_t>(code.kernels()[static_cast<size_t>(batch[0])].many);
    kernels += batch.size();
    launches += (batch.size() + most - 1) / most;
  }
  if (kernels == 0) return "";
  return absl::StrCat(", ", kernels, " of them in ", launches, launches == 1 ? " launch" : " launches");
}

/// Exits of a place from which on they are weighed against its runs.
constexpr int64_t kMostExits = 64;
/// What building a version costs per step, before one was measured: as much as so many steps that were.
constexpr double kBuildNsPerStep = 1500;
constexpr double kBuildSteps = 256;
/// Part of the tier-1 time that a version saves, before one was measured.
constexpr double kExpectedSaving = 0.4;
/// How long a schedule is tried: its fastest run counts.
constexpr int64_t kTrialNs = 20'000'000;
constexpr int64_t kTrialRuns = 24;
// On a GPU the program does not wait for the cores that compile: what may be for nothing costs it little.
int64_t CompileAfter(const rt::Device& device) {
  const int64_t us = rt::options().compile_after();
  return device.kind() == rt::DeviceKind::cuda ? us / 4 : us;
}
// Where sizes vary, the large ones take most of the time.
const std::shared_ptr<const Trace>& LargestOf(const std::vector<std::shared_ptr<const Trace>>& samples) {
  return *std::max_element(samples.begin(), samples.end(),
                           [](const auto& a, const auto& b) { return SizeOfRun(*a) < SizeOfRun(*b); });
}
// The fastest run; INT64_MAX where none was timed.
int64_t FastestRun(const Version& version) {
  // Where all runs have the same shapes, their size does not count.
  const double ns = version.costs->Of(version.rung() == Rung::exact ? 0 : SizeOfRun(*version.example));
  return ns > 0 ? static_cast<int64_t>(ns) : INT64_MAX;
}

// Tier 3 builds in the host numbers that have always been the same; code that it replaces reads them.
std::shared_ptr<const Trace> TraceFor(const Version& old, int tier, bool specialises) {
  if (tier == 3 && !specialises) return old.shared_trace();
  const std::vector<ValueId> varying = old.VaryingNumbers();
  return WithFixed(old.shared_trace(),
                   [&](ValueId v) { return specialises && !std::binary_search(varying.begin(), varying.end(), v); });
}

}  // namespace

// ---- Anchor

Anchor::Action Anchor::Arrive(int32_t* countdown, absl::Span<const View* const> operands, bool on_cpu) {
  CountArrival();
  *countdown = 1;
  switch (phase_.load(std::memory_order_acquire)) {
    case Phase::wanted:
      dims_seen_.Add(operands);
      if (Skip() || (kind == Kind::function && on_cpu && !HasEarnedRecording())) return Action::wait;
      if (has_enough_recordings()) {
        Time(Runner::tier1, operands);
        return Action::wait;
      }
      return Decide(true, 4) ? Action::record : Action::wait;
    case Phase::building:
      dims_seen_.Add(operands);
      Time(Runner::tier1, operands);
      return Action::wait;
    case Phase::pinned: *countdown = INT32_MAX / 2; return Action::wait;
    case Phase::live: break;
  }
  if ((sample_wanted_.load(std::memory_order_relaxed) || time_wanted_.load(std::memory_order_relaxed)) &&
      recordings_.load(std::memory_order_acquire) == 0) {
    runner_.store(Runner::nobody, std::memory_order_relaxed);
    return Decide(true, 4) ? Action::record : Action::enter;
  }
  if (Skip()) {
    runner_.store(Runner::nobody, std::memory_order_relaxed);
    return Action::wait;
  }
  if (kind == Kind::eager && Time(Runner::version, operands) == Runner::tier1) return Action::wait;
  return Decide(true, 8) ? Action::enter : Action::record;
}

bool Anchor::HasEarnedRecording() {
  constexpr int32_t kTimedCalls = 8;
  if (has_earned_.load(std::memory_order_relaxed)) return true;
  const int64_t hot = hot_count(), now = rt::NowNs();
  const int64_t since = hot_since_ns_.exchange(now, std::memory_order_relaxed);
  if (since == 0 && hot >= kLeastPatience && rt::options().profit_gate() && !Profile::Get().any()) {
    skip_.store(kTimedCalls - 1, std::memory_order_relaxed);
    return false;
  }
  has_earned_.store(true, std::memory_order_relaxed);
  if (since == 0) return true;
  const int64_t call = std::max<int64_t>((now - since) / kTimedCalls, 1);
  const int64_t missing = std::min(kEarnedNs / call - hot - kTimedCalls, hot + hot / 2);
  if (missing <= 0) return true;
  skip_.store(static_cast<int32_t>(missing), std::memory_order_relaxed);
  return false;
}

bool Anchor::Skip() {
  const int32_t skip = skip_.load(std::memory_order_relaxed);
  if (skip > 0) skip_.store(skip - 1, std::memory_order_relaxed);
  return skip > 0;
}

std::vector<Ref<Version>> Anchor::versions() const {
  std::lock_guard lock(mutex_);
  return versions_;
}

// ---- Manager

Manager& Manager::Get() {
  static auto* manager = new Manager;
  return *manager;
}

std::shared_ptr<Anchor> Manager::NewAnchor(Anchor::Kind kind, std::string name, uint64_t path) {
  auto anchor = std::make_shared<Anchor>(kind, std::move(name), path);
  std::lock_guard lock(mutex_);
  anchors_.push_back(anchor);
  return anchor;
}

std::vector<std::shared_ptr<Anchor>> Manager::anchors() const {
  std::lock_guard lock(mutex_);
  return anchors_;
}

int64_t Manager::num_versions() const {
  int64_t n = 0;
  for (const auto& a : anchors()) n += static_cast<int64_t>(a->versions().size());
  return n;
}

std::vector<Manager::Learned> Manager::LearnedTraces() const {
  std::vector<Learned> all;
  for (const auto& a : anchors()) {
    std::lock_guard lock(a->mutex_);
    for (const Anchor::Group& g : a->groups_) {
      if (g.built == 0) continue;
      Learned& learned = all.emplace_back(Learned{a->kind, a->path, g.samples, 0, nullptr, {}});
      for (const Ref<Version>& v : a->versions_) {
        if (!Mergeable(v->trace(), *g.samples.back())) continue;
        learned.runs += v->counters->runs.load(std::memory_order_relaxed);
        for (const ValueId number : v->VaryingNumbers()) learned.varying.insert(number);
        if (learned.example == nullptr) learned.example = v->example;
      }
    }
  }
  return all;
}

void Manager::Forget(Anchor& anchor) {
  anchor.phase_.store(Anchor::Phase::pinned, std::memory_order_release);
  for (const Ref<Version>& v : anchor.versions()) Drop(anchor, *v, "dropped: its program is gone");
  {
    std::lock_guard lock(anchor.mutex_);
    anchor.groups_.clear();
  }
  std::lock_guard lock(mutex_);
  std::erase_if(anchors_, [&](const auto& a) { return a.get() == &anchor; });
}

void Manager::Reset() {
  Drain();
  for (const auto& a : anchors()) {
    for (const Ref<Version>& v : a->versions()) Drop(*a, *v, "dropped: reset");
    std::lock_guard lock(a->mutex_);
    a->groups_.clear();
    a->num_samples_ = 0;
    a->aborts_ = a->useless_samples_ = a->shape_failures_ = a->other_failures_ = 0;
    a->exits_in_a_row_ = 0;
    a->exits_ = 0;
    a->runs_ = 0;
    a->skip_ = 0;
    a->sample_wanted_ = a->time_wanted_ = false;
    a->time_recordings_ = 0;
    a->ForgetStretches(/*tier1=*/true);
    a->dims_seen_.Clear();
    a->phase_ = Anchor::Phase::wanted;
  }
}

int32_t Manager::AddAbort(Anchor& anchor, TraceAbort reason, int64_t recording_ns) {
  rt::Count(rt::Metric::traces_aborted);
  Ledger::Get().AddAbort(anchor.name(), reason, recording_ns);
  std::unique_lock lock(anchor.mutex_);
  const tracer::Retry retry = Info(reason).retry;
  if (retry == tracer::Retry::free) return 1;
  // A place that has a version keeps it, and does without the wider one.
  const bool has_versions = !anchor.versions_.empty();
  if (has_versions) {
    anchor.sample_wanted_.store(false, std::memory_order_relaxed);
    anchor.time_wanted_.store(false, std::memory_order_relaxed);
    return 1;
  }
  ++anchor.aborts_;
  if (retry == tracer::Retry::never || anchor.aborts_ >= rt::options().trace_attempts()) {
    lock.unlock();
    Pin(anchor, absl::StrCat("cannot be recorded: ", std::string(Info(reason).message)), false);
    return INT32_MAX / 2;
  }
  return Saturate(int64_t{16} << (2 * anchor.aborts_));
}

void Manager::Pin(Anchor& anchor, const std::string& why, bool announce) {
  anchor.phase_.store(Anchor::Phase::pinned, std::memory_order_release);
  for (const Ref<Version>& v : anchor.versions()) Drop(anchor, *v, absl::StrCat("dropped: ", why));
  {
    std::lock_guard lock(anchor.mutex_);
    anchor.groups_.clear();
  }
  Ledger::Get().AddPin(anchor.name(), why, announce);
}

void Manager::Drop(Anchor& anchor, Version& version, const std::string& why) {
  Ref<Version> held = Ref<Version>::Share(&version);
  {
    std::lock_guard lock(anchor.mutex_);
    const size_t before = anchor.versions_.size();
    std::erase_if(anchor.versions_, [&](const auto& v) { return v.get() == &version; });
    if (anchor.versions_.size() == before) return;
    if (anchor.versions_.empty() && anchor.phase_.load(std::memory_order_relaxed) == Anchor::Phase::live)
      anchor.phase_.store(Anchor::Phase::wanted, std::memory_order_release);
    anchor.generation_.fetch_add(1, std::memory_order_release);
  }
  version.dead.store(true, std::memory_order_release);
  version.Trim();
  rt::Count(rt::Metric::versions_dropped);
  rt::Record(rt::EventKind::version_drop, version.id, version.bytes());
  TSR_LOG(1, "version ", version.id, " of ", anchor.name(), " ", why);
  Ledger::Get().Update(version.id, [&](deopt::VersionRecord& r) { r.state = why; });
}

void Manager::AddExit(Anchor& anchor, Version& version, GuardFailure failure) {
  rt::Count(rt::Metric::deopts);
  version.counters->exits.fetch_add(1, std::memory_order_relaxed);
  const DeoptReason reason = failure.reason;
  const Policy policy = Info(reason).policy;
  // Such exits of functions grow bridges, which need no recording from the anchor; most are the ends of loops.
  const Trace& trace = version.trace();
  const bool grows =
      policy == Policy::bridge && !trace.is_eager && failure.step >= 0 && trace.steps[failure.step].frame == 0;
  const bool is_all = grows || policy == Policy::drop || policy == Policy::keep;
  const std::string detail = is_all ? "" : absl::StrCat("expected ", failure.expected, ", seen ", failure.seen);
  Ledger::Get().AddDeopt({rt::NowNs(), version.id, anchor.name(), std::move(failure), policy});
  if (policy == Policy::drop)
    return Drop(anchor, version, absl::StrCat("dropped: ", std::string(Info(reason).message)));
  if (is_all) return;
  // The version did not serve this stretch: its time is not the version's.
  if (policy == Policy::generalise) anchor.runner_.store(Anchor::Runner::nobody, std::memory_order_relaxed);
  // What is being built may serve this, too: wait for it, whatever fails until then.
  if (anchor.queued_.load(std::memory_order_relaxed) > 0 || anchor.recordings_.load(std::memory_order_relaxed) > 0)
    return;
  std::unique_lock lock(anchor.mutex_);
  const int row = ++anchor.exits_in_a_row_;
  if (row >= rt::options().deopt_pin()) {
    lock.unlock();
    return Pin(anchor,
               absl::StrCat(row, " deopts in a row, the last one because ", std::string(Info(reason).message), " (",
                            detail, ")"),
               true);
  }
  // A place whose versions are left more often than they end is better off without.
  const int64_t exits = ++anchor.exits_, runs = anchor.runs_.load(std::memory_order_relaxed);
  if (exits >= kMostExits && exits > 2 * runs) {
    lock.unlock();
    return Pin(anchor, absl::StrCat("its versions were left ", exits, " times and came to their end ", runs, " times"),
               false);
  }
  // Back off: after the third failure in a row, stay in tier 1 for 1, 2, 4, ... arrivals.
  if (row > 3) anchor.skip_.store(1 << std::min(row - 4, 12), std::memory_order_relaxed);
  bool again = false;
  if (policy == Policy::generalise) {
    again = ++anchor.shape_failures_ >= rt::options().deopt_generalise();
    if (again) {
      anchor.shape_failures_ = 0;
      anchor.cause_ = absl::StrCat("generalised: ", detail);
    }
  } else {
    again = ++anchor.other_failures_ >= rt::options().hot_exit() * anchor.patience_;
    if (again) {
      anchor.other_failures_ = 0;
      anchor.cause_ = absl::StrCat("recorded anew: ", std::string(Info(reason).message));
    }
  }
  if (Decide(again, 4) && anchor.phase_.load(std::memory_order_relaxed) == Anchor::Phase::live) {
    anchor.sample_wanted_.store(true, std::memory_order_relaxed);
    anchor.skip_.store(0, std::memory_order_relaxed);
  }
}

int64_t Manager::PaysAfter(const Trace& trace) const {
  const double per_step =
      (kBuildNsPerStep * kBuildSteps + static_cast<double>(built_ns_.load(std::memory_order_relaxed))) /
      (kBuildSteps + static_cast<double>(built_steps_.load(std::memory_order_relaxed)));
  const double saved = kExpectedSaving * static_cast<double>(std::max<int64_t>(trace.tier1_ns, 1));
  return static_cast<int64_t>(per_step * static_cast<double>(trace.steps.size()) / saved);
}

void Manager::Submit(const std::shared_ptr<Anchor>& anchor, Anchor::Group& group) {
  const auto& last = *group.samples.back();
  Job job{anchor,
          group.samples,
          group.widenings,
          group.known_ns,
          group.known_example,
          anchor->cause_,
          anchor->recording_ns_,
          0};
  const int64_t arrivals = anchor->arrivals_.load(std::memory_order_relaxed);
  // As many runs are expected to come as there have been.
  job.gain =
      kExpectedSaving * static_cast<double>(last.tier1_ns) * static_cast<double>(std::max<int64_t>(arrivals, 16)) -
      kBuildNsPerStep * static_cast<double>(last.steps.size());
  if (job.cause.empty()) job.cause = absl::StrCat("hot after ", anchor->hot_count() + arrivals, " arrivals");
  anchor->cause_.clear();
  anchor->sample_wanted_.store(false, std::memory_order_relaxed);
  anchor->phase_.store(anchor->versions_.empty() ? Anchor::Phase::building : Anchor::Phase::live,
                       std::memory_order_release);
  if (group.built > 0) ++group.widenings;
  job.widenings = group.widenings;
  group.built = static_cast<int>(group.samples.size());
  anchor->queued_.fetch_add(1, std::memory_order_relaxed);
  Queue(std::move(job));
}

void Manager::Queue(Job job) {
  std::unique_lock lock(queue_mutex_);
  Builder& builder = job.version ? codes_ : replays_;
  builder.queue.push_back(std::move(job));
  std::push_heap(builder.queue.begin(), builder.queue.end(), LessGain);
  if (rt::options().background()) Wake(builder, lock);
}

void Manager::Wake(Builder& builder, std::unique_lock<std::mutex>& lock) {
  if (!builder.started) {
    try {
      std::thread([this, &builder] { Work(builder); }).detach();
      builder.started = true;
    } catch (const std::system_error&) {  // no more threads now: whoever queues something next tries again
      return lock.unlock();
    }
  }
  // Or it would come up to find the queue locked.
  lock.unlock();
  builder.queued.notify_one();
}

void Manager::Work(Builder& builder) {
  // Compiles take seconds, and wait for whoever wants the core. What replays a trace is there in a fraction of a
  // millisecond, while the program runs all of it in tier 1: it takes its turn like anybody.
  const pid_t thread = &builder == &codes_ ? rt::LowerPriorityOfThisThread() : 0;
  // For traces and debuggers.
  pthread_setname_np(pthread_self(), &builder == &codes_ ? "tessera build" : "tessera replay");
  std::unique_lock lock(queue_mutex_);
  builder.lowered = thread;
  for (;;) {
    builder.queued.wait(lock, [&] { return !builder.empty() && rt::options().background(); });
    BuildNext(builder, lock);
  }
}

void Manager::BuildNext(Builder& builder, std::unique_lock<std::mutex>& lock) {
  if (!builder.recordings.empty()) {
    {
      const RecordingJob job = std::move(builder.recordings.front());
      builder.recordings.pop_front();
      ++building_;
      lock.unlock();
      AddTrace(job);
    }
    lock.lock();
    --building_;
    if (Idle()) idle_.notify_all();
    return;
  }
  std::pop_heap(builder.queue.begin(), builder.queue.end(), LessGain);
  Job job = std::move(builder.queue.back());
  builder.queue.pop_back();
  ++building_;
  lock.unlock();
  if (job.version) {
    BuildCode(job);
  } else {
    Build(job);
    job.anchor->queued_.fetch_sub(1, std::memory_order_relaxed);
  }
  job = {};
  lock.lock();
  --building_;
  if (Idle()) idle_.notify_all();
}

bool Manager::Idle() const { return replays_.empty() && codes_.empty() && building_ == 0; }

void Manager::BuildQueued() {
  std::unique_lock lock(queue_mutex_);
  BuildAll(lock);
}

void Manager::BuildAll(std::unique_lock<std::mutex>& lock) {
  while (!replays_.empty() || !codes_.empty()) BuildNext(replays_.empty() ? codes_ : replays_, lock);
}

void Manager::Drain() {
  std::unique_lock lock(queue_mutex_);
  // What was queued before the option was switched off has nobody else to build it.
  if (!rt::options().background()) BuildAll(lock);
  if (Idle()) return;
  if (!replays_.empty()) {
    Wake(replays_, lock);
    lock.lock();
  }
  // Beside other programs a thread of low priority gets a core now and then, and somebody waits for it here.
  const rt::PriorityScope scope(codes_.lowered);
  idle_.wait(lock, [&] { return Idle(); });
}

void Manager::Build(const Job& job) {
  const int64_t start = rt::NowNs();
  Anchor& anchor = *job.anchor;
  bool widened = job.widenings > 0;
  // Where dims that came by meanwhile lie outside the buckets, these would be left before long.
  const auto exceeds = [&](const Trace& buckets) { return widened = anchor.dims_seen_.ExceedBuckets(buckets); };
  std::shared_ptr<const Trace> trace =
      Generalise(job.samples, widened ? tracer::Width::symbolic : tracer::Width::bucketed, exceeds);
  // What a call returns varied, which no version serves: the last recording alone, until the place is pinned.
  if (trace == nullptr) trace = job.samples.back();
  const Rung rung = trace->symbols == nullptr ? Rung::exact : widened ? Rung::symbolic : Rung::bucketed;
  Ref<Version> version = Ref<Version>::Adopt(new Replay(trace, rung));
  // Code depends on the sizes of the example, and is in the cache for those that it was made for.
  version->example = rung == Rung::exact            ? job.samples.back()
                     : job.known_example != nullptr ? job.known_example
                                                    : LargestOf(job.samples);
  if (rung == Rung::exact) LearnTier1(*version, 0, *trace);
  for (const auto& sample : job.samples)
    if (rung != Rung::exact) LearnTier1(*version, SizeOfRun(*sample), *sample);
  if (rt::options().tier() >= 2) {
    version->known_ns = job.known_ns;
    version->generate_at.store(version->StillToRun(CompileAfter(*trace->device)));
    version->awaits_code.store(true);
  }
  const int64_t ns = rt::NowNs() - start;
  built_ns_.fetch_add(ns, std::memory_order_relaxed);
  built_steps_.fetch_add(static_cast<int64_t>(trace->steps.size()), std::memory_order_relaxed);
  deopt::VersionRecord record;
  record.trace_id = trace->id;
  record.trace = anchor.name();
  record.generator = "replay";
  record.rung = rung;
  record.cause = job.cause;
  record.steps = static_cast<int64_t>(trace->steps.size());
  record.recording_ns = job.recording_ns;
  record.compile_ns = ns;
  record.tier1_ns = trace->tier1_ns;
  record.state = "live";
  record.handing_ns = trace->is_eager ? kDeferNs * record.steps : 0;
  record.counters = version->counters;
  Book(anchor, *version, std::move(record));
  version->WarmUp(*job.samples.back());
  std::vector<Ref<Version>> superseded;
  {
    std::lock_guard lock(anchor.mutex_);
    if (anchor.phase_.load(std::memory_order_relaxed) == Anchor::Phase::pinned) {
      Ledger::Get().Update(version->id, [](deopt::VersionRecord& r) { r.state = "dropped: came too late"; });
      return;
    }
    for (const auto& v : anchor.versions_)
      if (Mergeable(v->trace(), *trace)) superseded.push_back(v);
    for (const auto& v : superseded)
      if (v->rung() != Rung::exact && rung != Rung::exact) version->tier1_costs->Merge(*v->tier1_costs);
    anchor.ExpectStretches(rung == Rung::exact);
    anchor.is_waited_for_.store(trace->device->kind() == rt::DeviceKind::cpu, std::memory_order_relaxed);
    anchor.versions_.insert(anchor.versions_.begin(), version);
    anchor.generation_.fetch_add(1, std::memory_order_release);
    anchor.skip_.store(0, std::memory_order_relaxed);
    anchor.phase_.store(Anchor::Phase::live, std::memory_order_release);
    while (anchor.versions_.size() - superseded.size() > static_cast<size_t>(rt::options().anchor_versions())) {
      superseded.push_back(anchor.versions_[anchor.versions_.size() - superseded.size() - 1]);
    }
  }
  rt::Record(rt::EventKind::version_install, version->id, superseded.empty() ? 0 : superseded[0]->id,
             static_cast<int64_t>(anchor.kind));
  for (const auto& v : superseded) Drop(anchor, *v, absl::StrCat("dropped: version ", version->id, " replaces it"));
  EnforceBudgets();
}

void Manager::Book(Anchor& anchor, Version& version, deopt::VersionRecord record) {
  version.id = Ledger::Get().AddVersion(record);
  rt::Count(rt::Metric::versions_made);
  if (anchor.kind == Anchor::Kind::exit) rt::Count(rt::Metric::bridges_made);
  rt::RecordFor(rt::EventKind::version_build, record.compile_ns, version.id, record.steps, version.tier);
  if (rt::RecorderOn()) RecordVersion(version);
  TSR_LOG(1, "version ", version.id, " of ", anchor.name(), ": ", record.steps, " steps, ", record.generator, ", ",
          Name(record.rung), ", built in ", record.compile_ns / 1000, " us (", record.cause, ")");
}

void Manager::Ask(Anchor& anchor, Version& version, int tier, std::string cause) {
  // The one thread that takes the limit away asks.
  if (version.generate_at.exchange(INT64_MAX, std::memory_order_relaxed) == INT64_MAX && tier > 0) return;
  Job job;
  job.anchor = anchor.shared_from_this();
  job.version = Ref<Version>::Share(&version);
  job.tier = tier;
  job.cause = std::move(cause);
  job.gain = static_cast<double>(version.counters->runs.load(std::memory_order_relaxed)) *
             static_cast<double>(version.trace().tier1_ns);
  Queue(std::move(job));
  if (!rt::options().background()) BuildQueued();
}

bool Manager::Replace(Anchor& anchor, Version& old, const Ref<Version>& version) {
  {
    std::lock_guard lock(anchor.mutex_);
    const auto it = std::find_if(anchor.versions_.begin(), anchor.versions_.end(),
                                 [&](const Ref<Version>& v) { return v.get() == &old; });
    if (it == anchor.versions_.end()) return false;
    anchor.versions_.insert(it, version);
    anchor.generation_.fetch_add(1, std::memory_order_release);
    // What the whole stretch took was measured with the old one.
    anchor.ForgetStretches(/*tier1=*/false);
  }
  rt::Record(rt::EventKind::version_install, version->id, old.id, static_cast<int64_t>(anchor.kind));
  Drop(anchor, old, absl::StrCat("dropped: version ", version->id, " replaces it"));
  return true;
}

void Manager::GetsNoCode(Anchor& anchor, Version& version, const std::string& why) {
  Ledger::Get().Update(version.id, [&](deopt::VersionRecord& r) { r.note = why; });
  // From now on it is judged as it is.
  version.awaits_code.store(false);
  std::lock_guard lock(anchor.mutex_);
  anchor.ForgetStretches(/*tier1=*/false);
}

void Manager::BuildCode(const Job& job) {
  const int64_t start = rt::NowNs();
  Anchor& anchor = *job.anchor;
  Version& old = *job.version;
  if (old.dead.load(std::memory_order_acquire)) return;
  const bool specialises = job.tier == 3 && old.tier < 3;
  const std::shared_ptr<const Trace> trace = TraceFor(old, job.tier, specialises);
  std::shared_ptr<const Code> code = old.replaced.code;
  bool from_cache = false;
  std::shared_ptr<Tuner> tuner = job.tier == 3 && !specialises ? old.tuner : nullptr;
  std::string schedule;
  bool tunes = specialises && HasChoices(*trace) && rt::options().tune_budget() > 0 && rt::options().schedule().empty();
  if (tunes) {
    if (std::optional<std::string> remembered = RememberedSchedule(*trace, *old.example)) {
      schedule = *std::move(remembered);
      tunes = false;
    }
  }
  // The first code is tried once more, as all others are: it was timed in more runs or fewer, and where a device is
  // waited for, its times have more in them.
  bool again = false;
  if (job.tier == 3 && !specialises) {
    if (tuner == nullptr) {
      again = true;
      const auto space = InspectStage(*trace, *old.example, 3, "space");
      if (!space.ok()) return;
      const std::string choices = LimitSpace(*trace, *space);
      const int64_t budget = rt::options().tune_budget() * 1'000'000;
      if (choices.empty() || old.compile_ns >= budget) return;
      tuner = std::make_shared<Tuner>(choices, budget);
      tuner->best_code = old.shared_code();
    } else {
      tuner->Measured(FastestRun(old), old.compile_ns);
      if (tuner->best() == old.schedule) tuner->best_code = old.shared_code();
      schedule = tuner->Next();
      if (tuner->done() && schedule == old.schedule) return EndTuning(*tuner, old);
    }
  }
  bool settled = again || (tuner != nullptr && tuner->done() && schedule == tuner->best());
  if (job.tier > 0 && !settled) {
    absl::StatusOr<Generated> made = Generate(*trace, *old.example, job.tier, schedule);
    // A choice that does not compile is one that was tried.
    while (!made.ok() && tuner != nullptr && !settled) {
      tuner->Measured(INT64_MAX, rt::NowNs() - start);
      settled = tuner->done();
      schedule = tuner->Next();
      if (!settled) made = Generate(*trace, *old.example, job.tier, schedule);
    }
    if (settled && schedule == old.schedule) return EndTuning(*tuner, old);
    if (!settled && !made.ok()) {
      // No compiler at all is said once, by whoever looked for it.
      if (!absl::IsNotFound(made.status())) rt::Count(rt::Metric::codes_failed);
      TSR_LOG(1, "version ", old.id, " of ", anchor.name(),
              " gets no generated code: ", std::string(made.status().message()));
      return GetsNoCode(anchor, old, absl::StrCat("no generated code: ", std::string(made.status().message())));
    }
    if (!settled) {
      code = std::move(made->code);
      from_cache = made->from_cache;
      if (code->kernels().empty() && !schedule.empty()) {
        code = nullptr;  // all of it is left to the library
      } else if (code->kernels().empty()) {
        return GetsNoCode(anchor, old, "nothing in it to generate code for");
      }
      rt::Count(rt::Metric::codes_made);
    }
  }
  if (settled) code = tuner->best_code;
  Ref<Version> version = Ref<Version>::Adopt(new Replay(trace, old.rung(), code));
  version->ShareNumbers(old);
  version->example = old.example;
  version->known_ns = old.known_ns;
  version->tier1_costs = old.tier1_costs;
  if (job.tier > 0) version->replaced = {old.costs, old.shared_code(), old.tier};
  version->tier = job.tier > 0 ? job.tier : old.replaced.tier;
  version->schedule = schedule;
  version->compile_ns = again ? old.compile_ns : rt::NowNs() - start;
  if (tunes) {
    version->generate_at.store(rt::options().tune_after() * 1000);
  } else if (tuner != nullptr) {
    version->replaced = {};  // a trial that is slower ends by itself
    if (!tuner->done() || schedule != tuner->best()) {
      version->tuner = tuner;
      version->StartTimer();
      const int64_t run = FastestRun(old);
      version->generate_at.store(std::max(kTrialNs, run < INT64_MAX / kTrialRuns ? kTrialRuns * run : kTrialNs));
    }
  }
  // Where dims vary, building them in would serve one of many. Where they do not, and are small, code that knows them
  // may pay where that of tier 2 did not.
  version->skips_tier2 = job.tier == 0 && old.tier == 2;
  if ((job.tier == 2 || version->skips_tier2) && rt::options().tier() >= 3 && old.rung() == Rung::exact) {
    version->generate_at.store(version->StillToRun(rt::options().specialise_after()));
    version->awaits_code.store(job.tier == 0);
  }
  deopt::VersionRecord record;
  record.trace_id = trace->id;
  record.trace = anchor.name();
  record.generator = code != nullptr ? absl::StrCat("tier ", version->tier) : "replay";
  record.rung = old.rung();
  record.cause = job.cause;
  record.steps = static_cast<int64_t>(trace->steps.size());
  record.compile_ns = rt::NowNs() - start;
  record.tier1_ns = trace->tier1_ns;
  record.state = "live";
  record.handing_ns = trace->is_eager ? kDeferNs * record.steps : 0;
  record.bytes = code != nullptr ? static_cast<int64_t>(code->bytes()) : 0;
  record.counters = version->counters;
  if (code != nullptr) {
    record.note =
        absl::StrCat(code->kernels().size(), " kernels", BatchesOf(*code), from_cache ? ", from the cache" : "",
                     schedule.empty() ? "" : absl::StrCat(", cut as ", schedule));
  } else if (!schedule.empty()) {
    record.note = absl::StrCat("no kernels, cut as ", schedule);
  }
  Book(anchor, *version, std::move(record));
  if (tuner != nullptr && version->tuner == nullptr) EndTuning(*tuner, *version);
  if (!Replace(anchor, old, version)) {
    Ledger::Get().Update(version->id, [](deopt::VersionRecord& r) { r.state = "dropped: came too late"; });
    return;
  }
  EnforceBudgets();
}

void Manager::EndTuning(const Tuner& tuner, Version& version) {
  version.StopTimer();
  RememberSchedule(version.trace(), *version.example, tuner.best());
  const std::string what =
      absl::StrCat("tuned: ", tuner.tried(), " schedules tried, ",
                   tuner.best().empty() ? "the first is the fastest" : tuner.best(), " (", tuner.times(), ")");
  TSR_LOG(1, "version ", version.id, " is ", what);
  Ledger::Get().Update(
      version.id, [&](deopt::VersionRecord& r) { r.note = absl::StrCat(r.note, r.note.empty() ? "" : "; ", what); });
}

void Manager::EnforceBudgets() {
  struct Candidate {
    std::shared_ptr<Anchor> anchor;
    Ref<Version> version;
    double use;
    int64_t bytes, handles;
  };
  std::vector<Candidate> all;
  int64_t bytes = 0, handles = 0, most_bytes = rt::options().version_bytes();
  for (const auto& a : anchors()) {
    for (const Ref<Version>& v : a->versions()) {
      // A device's own memory is there for one program: half of it is for what its traces compute.
      most_bytes = std::max(most_bytes, rt::OwnMemory(*v->trace().device) / 2);
      const int64_t runs = v->counters->runs.load(std::memory_order_relaxed);
      const int64_t recent = runs - v->runs_at_last_pass.exchange(runs, std::memory_order_relaxed);
      // What is ready for a run that has not come yet does not count: it would go before it could be of use.
      const bool counts = runs > 0;
      all.push_back({a, v, static_cast<double>(recent) * static_cast<double>(v->trace().tier1_ns),
                     counts ? v->bytes() : 0, counts ? v->handles() : 0});
      bytes += all.back().bytes;
      handles += all.back().handles;
    }
  }
  int64_t count = static_cast<int64_t>(all.size());
  auto over = [&] {
    return count > rt::options().version_count() || bytes > most_bytes || handles > rt::options().version_handles();
  };
  if (!over()) return;
  // The youngest of equals stays: it has had no time to prove itself.
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.use != b.use ? a.use < b.use : a.version->id < b.version->id;
  });
  for (const Candidate& c : all) {
    if (!over() || count <= 1) break;
    bytes -= c.bytes;
    handles -= c.handles;
    --count;
    Drop(*c.anchor, *c.version, "evicted: over the budget of versions");
    std::lock_guard lock(c.anchor->mutex_);
    c.anchor->groups_.clear();
  }
}

}  // namespace tessera::tiers
