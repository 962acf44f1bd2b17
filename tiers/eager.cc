#include "tiers/eager.h"

#include <algorithm>

#include "interp/observer.h"
#include "runtime/clock.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
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

/// Ops of a stretch that was explored need this many times the usual arrivals to count as hot again: the stretch has its
/// anchor.
constexpr int32_t kCovered = 64;

void SetEntry(Stream& stream, uint64_t path, int32_t countdown, void* anchor) {
  HotEntry& e = stream.EntryOf(path);
  e.tag = Stream::TagOf(path);
  e.countdown = countdown;
  e.anchor = anchor;
}

int32_t HotEager() { return static_cast<int32_t>(rt::options().hot_eager()); }

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
    a->anchor = Manager::Get().NewAnchor(Anchor::Kind::eager, "eager ops");
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
    return;
  }
  for (HotEntry& e : stream.entries) {
    // Half of the way that an entry has come is taken back.
    if (e.tag != 0 && e.anchor == nullptr && e.countdown < hot) e.countdown = (e.countdown + hot + 1) / 2;
  }
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
  switch (a.anchor->Arrive(&entry.countdown)) {
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
  t.recorder.Add(call, out, ns);
}

void EagerTiers::OnStep(Stream& stream, const void* site) {
  EagerThread& t = ThreadOf(stream);
  if (t.deferral.complete()) (void)t.deferral.Flush(deopt::DeoptReason::read);
  if (stream.mode == Stream::Mode::matching && !t.deferral.waiting()) stream.mode = Stream::Mode::idle;
  // Whatever came before, the ops of a step have the same surroundings each time.
  stream.path = Stream::SiteHash(site, ir::Op{});
  if (stream.mode == Stream::Mode::recording && t.recorder.open()) {
    t.recorder.EndStretch();
  } else if (stream.mode == Stream::Mode::idle && ++t.steps_marked >= 3) {
    // Two steps may be a beginning and an end; what comes a third time will come again.
    t.steps_marked = 0;
    t.record_next = true;
    stream.mode = Stream::Mode::recording;
  }
}

void EagerTiers::OnWrite(Stream& stream) {
  EagerThread& t = ThreadOf(stream);
  if (t.deferral.complete()) (void)t.deferral.Flush(deopt::DeoptReason::read);
}

}  // namespace tessera::tiers
