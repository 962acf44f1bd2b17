// From recordings to builds: makes traces of them on the builder's thread, keeps those of the same steps together, and
// decides when there are enough for a version.
#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <optional>

#include "absl/strings/str_cat.h"
#include "runtime/cache.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "runtime/ring.h"
#include "tiers/compiler_library.h"
#include "tiers/manager.h"
#include "tiers/profile.h"
#include "tracer/control.h"
#include "tracer/generalise.h"

namespace tessera::tiers {
namespace {

using deopt::Ledger;
using rt::Ref;
using tracer::Decide;
using tracer::TraceAbort;

/// Recordings that a place keeps of the same steps.
constexpr size_t kMostSamples = 4;
/// Recordings without two alike after which a place counts as unstable.
constexpr int kMostAlone = 6;
/// Recordings that showed nothing new before a place stops asking for more.
constexpr int kUselessSamples = 6;

/// Memory for the first builds of a process, on the thread that builds: what is freed here is what it gets next. glibc
/// would ask the system for each few kilobytes of a thread's own heap, under a lock for which the page faults of the
/// program's threads wait.
void BringMemory() {
  constexpr size_t kBlock = size_t{64} << 10, kBlocks = 8, kPage = 4096;
  std::unique_ptr<char[]> blocks[kBlocks];
  for (std::unique_ptr<char[]>& block : blocks) {
    block.reset(new char[kBlock]);
    volatile char* const bytes = block.get();  // or compilers see that nobody reads it
    for (size_t at = 0; at < kBlock; at += kPage) bytes[at] = 0;
  }
  // What lies at the end of a heap would go back to the system.
  static std::atomic<char*> end{nullptr};
  delete[] end.exchange(new char[1024], std::memory_order_relaxed);
}

/// What code takes that comes from the cache, too.
void OpenCompiler() {
  (void)Compiler();
  (void)rt::CodeCache();
}
/// Code that a profile knows is in the cache: then it would only be in the way.
void OpenAndRehearse(const rt::Device& device) {
  OpenCompiler();
  if (Profile::Get().any() && rt::CodeCache() != nullptr) return;
  const auto api = Compiler();
  if (!api.ok()) return;
  TSR_LOG(2, "the compiler rehearses code for ", device.name());
  (*api)->rehearse(device.code_target().data());
}

}  // namespace

int64_t Anchor::hot_count() const {
  switch (kind) {
    case Anchor::Kind::eager: return rt::options().hot_eager();
    case Anchor::Kind::function: return rt::options().hot_function() / weight_.load(std::memory_order_relaxed);
    case Anchor::Kind::loop: return rt::options().hot_loop() / weight_.load(std::memory_order_relaxed);
    case Anchor::Kind::exit: return rt::options().hot_exit();
  }
  return 0;
}

void Manager::LearnTier1(Version& version, int64_t size, const Trace& recording) {
  if (recording.device->kind() == rt::DeviceKind::cpu) version.tier1_costs->Add(size, recording.tier1_ns);
}

void Manager::Prepare(Source source) {
  if (is_prepared_[static_cast<int>(source)].exchange(true, std::memory_order_relaxed)) return;
  if (!rt::options().background()) return;
  std::unique_lock lock(queue_mutex_);
  std::deque<RecordingJob>& jobs = replays_.recordings;
  RecordingJob& job = jobs.emplace_back();
  job.prepare = source == Source::eager ? &tracer::SpareNotes<tracer::EagerNotes>::Prepare
                                        : &tracer::SpareNotes<tracer::FunctionNotes>::Prepare;
  // What builds use comes last, or notes would take it.
  const auto brings = [](const RecordingJob& j) { return j.prepare == &BringMemory; };
  if (std::erase_if(jobs, brings) > 0 || !replays_.started) jobs.emplace_back().prepare = &BringMemory;
  Wake(replays_, lock);
}

void Manager::PrepareCode() {
  if (!rt::options().background()) return;
  std::unique_lock lock(queue_mutex_);
  codes_.recordings.emplace_back().prepare = &OpenCompiler;
  Wake(codes_, lock);
}

void Manager::PrepareCode(const rt::Device& device) {
  if (device.kind() != rt::DeviceKind::cuda || rt::options().tier() < 2 || !rt::options().background()) return;
  if (is_rehearsed_.exchange(true, std::memory_order_relaxed)) return;
  std::unique_lock lock(queue_mutex_);
  codes_.recordings.emplace_back().rehearse_for = &device;
  Wake(codes_, lock);
}

void Manager::AddRecording(const std::shared_ptr<Anchor>& anchor, tracer::FinishedRecording recording,
                           int64_t recording_ns) {
  rt::Count(rt::Metric::traces_recorded);
  static std::atomic<int64_t> next_id{1};
  const int64_t id = next_id.fetch_add(1, std::memory_order_relaxed);
  recording->trace->id = id;
  rt::RecordFor(rt::EventKind::trace_record, recording_ns, id, static_cast<int64_t>(recording->num_steps()));
  RecordingJob job{anchor, std::move(recording), recording_ns};
  if (!rt::options().background()) {
    anchor->recordings_.fetch_add(1, std::memory_order_relaxed);
    return AddTrace(job);
  }
  // One alone makes no version, unless it was asked for or a profile knows it: nobody is woken for it.
  bool is_first = !Profile::Get().any() && anchor->recordings_.load(std::memory_order_relaxed) == 0 &&
                  anchor->num_samples_.load(std::memory_order_relaxed) == 0;
  if (is_first) {
    std::lock_guard lock(anchor->mutex_);
    is_first = anchor->groups_.empty() && anchor->versions_.empty();
  }
  std::unique_lock lock(queue_mutex_);
  replays_.recordings.push_back(std::move(job));
  anchor->recordings_.fetch_add(1, std::memory_order_relaxed);
  if (!is_first) Wake(replays_, lock);
}

void Manager::AddTrace(const RecordingJob& job) {
  const std::shared_ptr<Anchor>& anchor = job.anchor;
  int32_t skip = -1;
  try {
    if (job.prepare != nullptr) return job.prepare();
    if (job.rehearse_for != nullptr) return OpenAndRehearse(*job.rehearse_for);
    std::shared_ptr<Trace> trace = job.recording->Expand();
    TSR_LOG(2, "recorded trace ", trace->id, " at ", trace->name, ": ", trace->steps.size(), " steps, ",
            trace->tier1_ns / 1000, " us in tier 1");
    TSR_LOG(3, "trace ", trace->id, ":\n", ToString(*trace));
    std::string why_held;
    switch (Keep(anchor, std::move(trace), job.recording_ns, &why_held)) {
      case Kept::kept: break;
      case Kept::held: Ledger::Get().AddWait(anchor->name(), why_held); break;
      case Kept::queued:
        if (!rt::options().background()) BuildQueued();
        break;
      case Kept::unstable: skip = AddAbort(*anchor, TraceAbort::unstable, job.recording_ns);
    }
  } catch (const std::bad_alloc&) {
    if (anchor == nullptr) return;  // recordings and code will do without
    skip = AddAbort(*anchor, TraceAbort::no_memory, job.recording_ns);
  }
  if (skip >= 0) anchor->skip_.store(skip, std::memory_order_relaxed);
  anchor->recordings_.fetch_sub(1, std::memory_order_release);
}

Manager::Kept Manager::Keep(const std::shared_ptr<Anchor>& anchor, std::shared_ptr<Trace> trace, int64_t recording_ns,
                            std::string* why_held) {
  std::optional<Profile::Recalled> known = Profile::Get().Recall(*trace, anchor->kind);
  const bool is_known = known.has_value();
  // What comes from a file may name what is none.
  for (const ValueId v : is_known ? known->varying : std::vector<ValueId>())
    if (v >= 0 && static_cast<size_t>(v) < trace->values.size()) trace->values[static_cast<size_t>(v)].varies = true;
  std::lock_guard lock(anchor->mutex_);
  if (anchor->phase_.load(std::memory_order_relaxed) == Anchor::Phase::pinned) return Kept::kept;
  {
    std::lock_guard name_lock(anchor->name_mutex_);
    anchor->name_ = trace->name;
  }
  anchor->recording_ns_ += recording_ns;
  // Another way than that of the version whose time in tier 1 was asked for is nobody's concern.
  const bool asked = !anchor->time_wanted_.exchange(false, std::memory_order_relaxed) ||
                     anchor->sample_wanted_.load(std::memory_order_relaxed) || anchor->versions_.empty();
  for (const Ref<Version>& v : anchor->versions_) {
    if (!SameSteps(v->trace(), *trace) || !Serves(v->trace(), *trace)) continue;
    LearnTier1(*v, v->rung() == Rung::exact ? 0 : SizeOfRun(*trace), *trace);
    if (!asked) return Kept::kept;
    // The program took the way that a version serves already. It may take the other one next time, but not for ever.
    if (++anchor->useless_samples_ >= kUselessSamples) {
      anchor->sample_wanted_.store(false, std::memory_order_relaxed);
      anchor->useless_samples_ = 0;
      anchor->patience_ = std::min(anchor->patience_ * 4, 1 << 20);
    }
    return Kept::kept;
  }
  if (!asked) return Kept::kept;
  auto it = std::find_if(anchor->groups_.begin(), anchor->groups_.end(),
                         [&](const Anchor::Group& g) { return Mergeable(*g.samples.back(), *trace); });
  if (it == anchor->groups_.end()) {
    if (anchor->groups_.size() >= static_cast<size_t>(rt::options().anchor_versions())) {
      anchor->groups_.erase(anchor->groups_.begin());
    }
    it = anchor->groups_.insert(anchor->groups_.end(), Anchor::Group{});
    if (is_known) {
      // Three shapes in all had taken the other run past the buckets.
      it->widenings = known->samples.size() >= 2 ? 1 : 0;
      it->samples = std::move(known->samples);
      it->known_ns = known->ns;
      it->known_example = std::move(known->example);
    }
  }
  // Also where another thread's recording came first.
  if (is_known && anchor->cause_.empty()) anchor->cause_ = "profile";
  // The first, because it is the oldest, and the latest ones.
  if (it->samples.size() >= kMostSamples) it->samples.erase(it->samples.begin() + 1);
  it->samples.push_back(std::move(trace));
  // A second recording tells what varies, and that the first one was not the exception. Where a version is live
  // already, this one was asked for; what a profile knows was seen in another run. A version for a place that never
  // does the same twice would be left at every run.
  ++anchor->num_samples_;
  const bool enough = it->samples.size() >= 2 || !anchor->versions_.empty() || is_known;
  if (!enough && anchor->num_samples_ >= kMostAlone) {
    anchor->num_samples_ = 0;
    anchor->groups_.clear();
    return Kept::unstable;
  }
  if (!Decide(enough, 4)) return Kept::kept;
  // Where a version is live, another one was asked for. Streams of eager ops are judged by their stretches instead.
  const int64_t hot = anchor->hot_count();
  const int64_t seen = hot + anchor->arrivals_.load(std::memory_order_relaxed);
  const int64_t needed = PaysAfter(*it->samples.back());
  if (rt::options().profit_gate() && anchor->kind != Anchor::Kind::eager && hot >= kLeastPatience && !is_known &&
      anchor->versions_.empty() && needed > seen) {
    anchor->num_samples_ = 0;
    anchor->skip_.store(Saturate(needed - seen), std::memory_order_relaxed);
    *why_held = absl::StrCat("a version pays after ", needed, " arrivals, and there were ", seen);
    return Kept::held;
  }
  Submit(anchor, *it);
  anchor->num_samples_ = 0;  // from here on the place is being built, and wants no other recording
  return Kept::queued;
}

}  // namespace tessera::tiers
