#include "tiers/eager.h"

#include <algorithm>
#include <new>

#include "interp/observer.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "tiers/profile.h"
#include "tracer/control.h"

namespace tessera::tiers {
namespace {

using interp::EagerCall;
using interp::HotEntry;
using interp::Stream;
using rt::Ref;
using rt::TensorImpl;
using tracer::TraceAbort;
using tracer::TraceEnd;

EagerThread& ThreadOf(Stream& stream) { return *static_cast<EagerThread*>(stream.state); }

/// Ops of a stretch that was explored need this many times the usual arrivals to count as hot again: the stretch has
/// its anchor.
constexpr int32_t kCovered = 64;

/// Ops of a thread within which those that a profile names are looked for at any cost.
constexpr int kExpectedFor = 1 << 14;

void SetEntry(Stream& stream, uint64_t path, int32_t countdown, void* anchor) {
  HotEntry& e = stream.EntryOf(path);
  e.tag = Stream::TagOf(path);
  e.countdown = countdown;
  e.anchor = anchor;
}

int32_t HotEager() { return static_cast<int32_t>(rt::options().hot_eager()); }

/// The path has come before, and often enough to be worth a place. One that is new may never come again, and places are
/// kept for good.
bool Familiar(Stream& stream, uint64_t path) {
  const HotEntry& e = stream.EntryOf(path);
  if (e.tag != Stream::TagOf(path)) return false;
  const int32_t hot = HotEager();
  return e.anchor != nullptr || e.countdown > hot || hot - e.countdown >= hot / 4;
}

}  // namespace

EagerTiers& EagerTiers::Get() {
  static auto* tiers = new EagerTiers;
  return *tiers;
}

Stream* EagerTiers::NewStream() {
  EagerThread* t;
  {
    std::lock_guard lock(mutex_);
    t = free_;
    if (t != nullptr) free_ = t->next_free;
  }
  if (t == nullptr) t = new EagerThread;
  t->stream.mode = Stream::Mode::idle;
  t->stream.path = 0;
  t->last_path = 0;
  t->config_epoch = ~uint64_t{0};
  t->stream.until_decay = 0;
  return &t->stream;
}

void EagerTiers::OnThreadEnd(Stream& stream) {
  EagerThread& t = ThreadOf(stream);
  if (t.recorder.open()) AbortRecording(t, TraceAbort::thread_end);
  stream.mode = Stream::Mode::idle;
  if (!t.deferral.End()) return;  // what still waits stays reachable through its handles
  std::lock_guard lock(mutex_);
  t.next_free = free_;
  free_ = &t;
}

EagerAnchor& EagerTiers::AnchorOf(uint64_t path) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<EagerAnchor>& a = anchors_[path];
  if (a == nullptr) {
    a = std::make_unique<EagerAnchor>();
    a->path = path;
    a->anchor = Manager::Get().NewAnchor(Anchor::Kind::eager, "eager ops", path);
  }
  return *a;
}

void EagerTiers::OnDecay(Stream& stream) {
  stream.until_decay = rt::options().hot_decay();
  EagerThread& t = ThreadOf(stream);
  const int32_t hot = HotEager();
  if (t.config_epoch != tracer::ConfigEpoch()) {
    // What was counted under other options counts for nothing.
    t.config_epoch = tracer::ConfigEpoch();
    const int64_t bits = rt::options().hash_bits();
    stream.path_mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    for (HotEntry& e : stream.entries) e = {};
    return Seed(t);
  }
  if (!t.expected.empty()) return Expect(t);
  for (HotEntry& e : stream.entries) {
    // Half of the way that an entry has come is taken back.
    if (e.tag != 0 && e.anchor == nullptr && e.countdown < hot) e.countdown = (e.countdown + hot + 1) / 2;
  }
}

void EagerTiers::Seed(EagerThread& t) {
  Stream& stream = t.stream;
  t.expected.clear();
  for (const EagerSeed& seed : Profile::Get().EagerSeeds()) {
    const uint64_t path = seed.path & stream.path_mask;
    // The most used come first and stay.
    if (stream.EntryOf(path).anchor != nullptr) continue;
    EagerAnchor& a = AnchorOf(path);
    a.explored = true;
    SetEntry(stream, path, 1, &a);
    if (seed.site == 0) continue;
    // Two traces that begin at one op can be told apart by its surroundings only.
    const auto [it, fresh] = t.expected.try_emplace(seed.site, seed.path);
    if (!fresh) it->second = 0;
  }
  t.expected_for = kExpectedFor;
  if (!t.expected.empty()) Expect(t);
}

void EagerTiers::Expect(EagerThread& t) {
  Stream& stream = t.stream;
  const auto it = t.expected.find(stream.path ^ (t.last_path << 4));
  if (it != t.expected.end()) {
    if (it->second != 0 && it->second != stream.path) {
      SetEntry(stream, stream.path & stream.path_mask, 1, &AnchorOf(it->second & stream.path_mask));
      stream.path = it->second;
    }
    t.expected.erase(it);
  }
  t.last_path = stream.path;
  if (--t.expected_for == 0) t.expected.clear();
  if (!t.expected.empty()) stream.until_decay = 1;
}

std::vector<const void*> EagerTiers::Marks() {
  std::lock_guard lock(mutex_);
  return marks_;
}

void EagerTiers::OnMiss(Stream& stream, HotEntry& entry, const EagerCall& call) {
  EagerThread& t = ThreadOf(stream);
  if (t.config_epoch != tracer::ConfigEpoch()) OnDecay(stream);
  // An anchor keeps its entry against most that come by.
  if (entry.anchor != nullptr && (++t.misses & 7) != 0) return;
  entry.tag = Stream::TagOf(call.path);
  entry.countdown = HotEager();
  entry.anchor = nullptr;
}

bool EagerTiers::OnHot(Stream& stream, HotEntry& entry, const EagerCall& call, absl::Span<TensorImpl*> out) {
  EagerThread& t = ThreadOf(stream);
  if (t.config_epoch != tracer::ConfigEpoch()) {
    OnDecay(stream);
    return false;
  }
  // Whoever watches wants to see every op; those of a device that computes nothing are not worth it.
  if (interp::CurrentObserver() != nullptr) {
    entry.countdown = HotEager();
    return false;
  }
  if (entry.anchor == nullptr) entry.anchor = &AnchorOf(call.path);
  auto& a = *static_cast<EagerAnchor*>(entry.anchor);
  switch (a.anchor->Arrive(&entry.countdown, call.in)) {
    case Anchor::Action::wait: return false;
    case Anchor::Action::record: StartRecording(t, a); return false;
    case Anchor::Action::enter: return Enter(t, a, call, out);
  }
  return false;
}

bool EagerTiers::Enter(EagerThread& t, EagerAnchor& a, const EagerCall& call, absl::Span<TensorImpl*> out) {
  for (const Ref<Version>& v : a.anchor->versions()) {
    if (!t.deferral.Start(a.anchor, v, call, out)) continue;
    t.stream.mode = Stream::Mode::matching;
    return true;
  }
  // What no version serves is here to be recorded.
  if (a.anchor->wants_recording()) StartRecording(t, a);
  return false;
}

EagerThread::EagerThread() : deferral(stream) {
  stream.state = this;
  stream.waiting = &deferral;
  stream.on_op = Deferral::OnOp;
  deferral.after = [](Stream& stream, Deferral::Outcome outcome, const EagerCall& call, absl::Span<TensorImpl*> out) {
    stream.mode = Stream::Mode::idle;
    return outcome == Deferral::Outcome::ended && EagerTiers::Get().Idle(ThreadOf(stream), call, out);
  };
}

bool EagerTiers::Idle(EagerThread& t, const EagerCall& call, absl::Span<TensorImpl*> out) {
  HotEntry& entry = t.stream.EntryOf(call.path);
  if (entry.tag != Stream::TagOf(call.path)) {
    OnMiss(t.stream, entry, call);
    return false;
  }
  return --entry.countdown <= 0 && OnHot(t.stream, entry, call, out);
}

// ---- recording

void EagerTiers::StartRecording(EagerThread& t, EagerAnchor& a) {
  t.recording = &a;
  t.recording_start = rt::NowNs();
  t.first_round = 0;
  t.record_next = false;
  t.recorder.Begin(tracer::ConfigEpoch());
  t.stream.mode = Stream::Mode::recording;
}

void EagerTiers::AbortRecording(EagerThread& t, TraceAbort reason) {
  t.recorder.Abort();
  t.stream.mode = Stream::Mode::idle;
  EagerAnchor& a = *std::exchange(t.recording, nullptr);
  const int32_t rest = Manager::Get().AddAbort(*a.anchor, reason, rt::NowNs() - t.recording_start);
  SetEntry(t.stream, a.path, rest, &a);
}

void EagerTiers::Ended(EagerThread& t, TraceEnd end, const EagerCall& call) {
  EagerAnchor& a = *std::exchange(t.recording, nullptr);
  std::shared_ptr<tracer::Trace> trace = t.recorder.Finish(end);
  t.stream.mode = Stream::Mode::idle;
  const int64_t ns = rt::NowNs() - t.recording_start;
  if (trace == nullptr || trace->steps.size() < 2) {
    SetEntry(t.stream, a.path, Manager::Get().AddAbort(*a.anchor, TraceAbort::too_short, ns), &a);
  } else {
    for (const tracer::TraceStep& s : trace->steps) {
      HotEntry& e = t.stream.EntryOf(s.path);
      if (e.tag == Stream::TagOf(s.path) && e.anchor == nullptr) e.countdown = kCovered * HotEager();
    }
    SetEntry(t.stream, a.path, 1, &a);
    Manager::Get().AddTrace(a.anchor, std::move(trace), ns);
  }
  // This op may begin the next recording: the same again, or the stretch after a read.
  if (!Familiar(t.stream, call.path)) return;
  EagerAnchor& next = AnchorOf(call.path);
  if (end == TraceEnd::stopped) next.explored = true;
  if (!next.explored || !next.anchor->wants_recording()) return;
  SetEntry(t.stream, next.path, 1, &next);
  StartRecording(t, next);
}

bool EagerTiers::Explored(EagerThread& t) {
  const int n = t.first_round;
  const tracer::Trace& trace = t.recorder.trace();
  int best = n;
  // Twice the same stretch? Then every value of the first round has met its fate in the second.
  if (t.recorder.num_steps() == 2 * n) {
    const std::vector<int> live = t.recorder.LiveCounts();
    absl::flat_hash_map<uint64_t, int> rounds;
    for (const tracer::TraceStep& s : trace.steps) ++rounds[s.path];
    int fewest = live[2 * n];
    for (int m = 0; m < n; ++m) {
      // A path that comes twice in a round would end the trace too early.
      if (live[n + m] >= fewest || rounds[trace.steps[n + m].path] > 2) continue;
      fewest = live[n + m];
      best = m;
    }
  }
  for (const tracer::TraceStep& s : trace.steps) {
    HotEntry& e = t.stream.EntryOf(s.path);
    if (e.tag == Stream::TagOf(s.path) && e.anchor == nullptr) e.countdown = kCovered * HotEager();
  }
  const uint64_t path = best == n ? t.recording->path : trace.steps[n + best].path;
  EagerAnchor& from = *t.recording;
  t.recorder.Abort();
  t.recording = nullptr;
  t.stream.mode = Stream::Mode::idle;
  EagerAnchor& a = AnchorOf(path);
  a.explored = true;
  SetEntry(t.stream, from.path, kCovered * HotEager(), nullptr);
  SetEntry(t.stream, path, 1, &a);
  if (&a != &from) return false;
  StartRecording(t, a);
  return true;
}

void EagerTiers::OnExecuted(Stream& stream, const EagerCall& call, absl::Span<TensorImpl* const> out,
                            const absl::Status& status, int64_t ns) {
  EagerThread& t = ThreadOf(stream);
  try {
    RecordOp(t, call, out, status, ns);
  } catch (const std::bad_alloc&) {
    // The op has run: its caller gets the result, and only the recording is lost.
    stream.mode = Stream::Mode::idle;
    if (t.recorder.open()) AbortRecording(t, TraceAbort::no_memory);
  }
}

void EagerTiers::RecordOp(EagerThread& t, const EagerCall& call, absl::Span<TensorImpl* const> out,
                          const absl::Status& status, int64_t ns) {
  Stream& stream = t.stream;
  if (!t.recorder.open()) {
    // The program marked a step before this op.
    stream.mode = Stream::Mode::idle;
    EagerAnchor& a = AnchorOf(call.path);
    a.explored = true;
    SetEntry(stream, a.path, 1, &a);
    if (!std::exchange(t.record_next, false) || !status.ok() || !a.anchor->wants_recording()) return;
    StartRecording(t, a);
  }
  if (!status.ok()) return AbortRecording(t, TraceAbort::op_failed);
  if (t.recorder.trace().config_epoch != tracer::ConfigEpoch()) return AbortRecording(t, TraceAbort::configuration);
  if (t.recorder.was_read_elsewhere()) return AbortRecording(t, TraceAbort::other_thread);
  if (!out.empty() && !out[0]->device().executes()) return AbortRecording(t, TraceAbort::other_device);
  if (t.recorder.num_steps() > 0) {
    if (t.recorder.was_read()) {
      if (t.recording->explored) {
        Ended(t, TraceEnd::stopped, call);
      } else {
        // A better place to begin: right after the read, where a trace may go on to the next one.
        EagerAnchor& from = *t.recording;
        t.recorder.Abort();
        t.stream.mode = Stream::Mode::idle;
        SetEntry(stream, from.path, kCovered * HotEager(), nullptr);
        if (!Familiar(stream, call.path)) return;
        EagerAnchor& a = AnchorOf(call.path);
        a.explored = true;
        SetEntry(stream, a.path, 1, &a);
        if (a.anchor->wants_recording()) StartRecording(t, a);
      }
      if (!t.recorder.open()) return;
    } else if (call.path == t.recording->path) {
      if (t.recording->explored) {
        Ended(t, TraceEnd::loop, call);
        if (!t.recorder.open()) return;
      } else if (t.first_round == 0) {
        t.first_round = t.recorder.num_steps();
      } else if (!Explored(t)) {
        return;
      }
    }
  }
  const int64_t most = rt::options().trace_ops() * (t.recording->explored ? 1 : 2);
  if (t.recorder.num_steps() >= most) return AbortRecording(t, TraceAbort::too_long);
  if (rt::FaultFires(rt::Fault::recording)) throw std::bad_alloc();
  t.recorder.Add(call, out, ns);
}

void EagerTiers::OnStep(Stream& stream, const void* site) {
  EagerThread& t = ThreadOf(stream);
  if (t.deferral.complete()) {
    (void)t.deferral.Flush(deopt::DeoptReason::read);
    t.steps_marked = 0;
  }
  if (stream.mode == Stream::Mode::matching && !t.deferral.waiting()) stream.mode = Stream::Mode::idle;
  // Whatever came before, the ops of a step have the same surroundings each time.
  stream.path = Stream::SiteHash(site, ir::Op{});
  t.deferral.set_path(stream.path);
  if (stream.mode == Stream::Mode::recording && t.recorder.open()) {
    t.recorder.EndStretch();
  } else if (stream.mode == Stream::Mode::idle && ++t.steps_marked >= 3) {
    // Two steps may be a beginning and an end; what comes a third time will come again.
    t.steps_marked = 0;
    t.record_next = true;
    stream.mode = Stream::Mode::recording;
    std::lock_guard lock(mutex_);
    if (std::find(marks_.begin(), marks_.end(), site) == marks_.end()) marks_.push_back(site);
  }
}

void EagerTiers::OnWrite(Stream& stream) {
  EagerThread& t = ThreadOf(stream);
  if (t.deferral.complete()) (void)t.deferral.Flush(deopt::DeoptReason::read);
}

}  // namespace tessera::tiers
