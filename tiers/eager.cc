#include "tiers/eager.h"

#include <algorithm>
#include <limits>
#include <new>

#include "interp/observer.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "tiers/profile.h"
#include "tiers/recording.h"
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

/// How often the longest round must fit into a recording that has not come round before exploring gives up.
constexpr int kPatience = 8;
/// Ops that are remembered to lie within a round.
constexpr size_t kMostWithin = 1 << 16;
/// Arrivals after which a place that stays in tier 1 would be asked again, and more.
constexpr int32_t kForGood = INT32_MAX / 4;
/// How often exploring may begin at one op.
constexpr int kExplorations = 4;

/// Ops after which it is asked how long they took, and nanoseconds of one that is long on a GPU: there few steps are
/// many kernels, and compiles have cores of their own.
constexpr int64_t kLookAfter = 2048, kLongOp = 20'000;

/// Ops of a thread after which something may be hot soon.
constexpr int64_t kPrepareAfter = 512;

/// From then on new ops count as another loop: nothing is put off for ever where they come all the time.
constexpr int64_t kAnotherLoopNs = 16 * kEarnedNs;
/// The most by which short loops are put off, in the arrivals after which they are hot: by then what recording and
/// building cost is a small part of what they have taken.
constexpr int32_t kMostPatience = 11;

/// Ops of a thread within which those that a profile names are looked for at any cost.
constexpr int kExpectedFor = 1 << 14;

void SetEntry(Stream& stream, uint64_t path, int32_t countdown, void* anchor) {
  HotEntry& e = stream.EntryOf(path);
  if (e.tag != 0 && e.tag != Stream::TagOf(path)) stream.ForgetTrail();
  e.tag = Stream::TagOf(path);
  e.countdown = countdown;
  e.anchor = anchor;
}

/// Arrivals of an op that is put off until it is asked again, for the op that counts rounds and for the others, which
/// are as many as the loop has ops.
int32_t AskFirstAfter(int32_t hot) { return hot / 2; }
int32_t AskOthersAfter(int32_t hot) { return 2 * hot; }

int32_t HotEager() { return static_cast<int32_t>(rt::options().hot_eager()); }

/// Ops of the stretch have their anchor now. `all`: also those that were anchors of loops within it.
void Cover(Stream& stream, const tracer::EagerNotes& notes, bool all) {
  for (const tracer::EagerNotes::Step& s : notes.steps) {
    HotEntry& e = stream.EntryOf(s.path);
    if (e.tag != Stream::TagOf(s.path) || (e.anchor != nullptr && !all)) continue;
    e.countdown = kCovered * HotEager();
    e.anchor = nullptr;
  }
}

/// A recording that is longer than the round of its anchor has left that loop, gone through what lies around it and
/// come back.
bool LeftItsLoop(const EagerAnchor& a, TraceEnd end, const tracer::EagerNotes& notes) {
  return end == TraceEnd::loop && a.period > 0 && notes.steps.size() > static_cast<size_t>(a.period);
}

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
  t->stream.SetPath(0);
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
    if (const auto it = within_.find(path); it != within_.end()) a->outer = it->second;
  }
  return *a;
}

bool EagerTiers::Rests(const EagerAnchor& a) {
  const EagerAnchor* outer = a.outer.load(std::memory_order_acquire);
  return outer != nullptr && !outer->pinned.load(std::memory_order_relaxed);
}

bool EagerTiers::IsSettled(uint64_t path, EagerAnchor** anchor) {
  std::lock_guard lock(mutex_);
  if (const auto it = within_.find(path); it != within_.end())
    return !it->second->pinned.load(std::memory_order_relaxed);
  const auto it = anchors_.find(path);
  if (it == anchors_.end() || !it->second->explored || it->second->pinned.load(std::memory_order_relaxed)) return false;
  *anchor = it->second.get();
  return true;
}

void EagerTiers::Retire(const tracer::EagerNotes& round, EagerAnchor& outer) {
  std::lock_guard lock(mutex_);
  // Also ops that are no anchors yet: their counts may be lost, and they would be explored.
  if (within_.size() > kMostWithin) within_.clear();
  for (const tracer::EagerNotes::Step& s : round.steps) {
    within_[s.path] = &outer;
    const auto it = anchors_.find(s.path);
    if (it != anchors_.end()) it->second->outer = &outer;
  }
  within_.erase(outer.path);
  outer.outer = nullptr;
}

void EagerTiers::OnDecay(Stream& stream) {
  EagerThread& t = ThreadOf(stream);
  const int32_t hot = HotEager();
  // How long ops take is looked at more often than counts decay.
  const int64_t now = rt::NowNs(), ops = t.until_look - stream.until_decay;
  t.since_decay += ops;
  const bool are_long = t.device != nullptr && now - t.looked >= ops * kLongOp;
  if (ops >= kLookAfter / 8) stream.weight = are_long ? std::clamp(hot / 4, 1, 4) : 1;
  t.looked = now;
  if (t.ops_seen < kPrepareAfter && (t.ops_seen += ops) >= kPrepareAfter) {
    Manager::Get().Prepare(Manager::Source::eager);
    if (t.device != nullptr) Manager::Get().PrepareCode(*t.device);
  }
  t.until_look = stream.until_decay =
      std::min<int64_t>(t.ops_seen < kPrepareAfter ? kPrepareAfter : kLookAfter, rt::options().hot_decay());
  if (t.config_epoch != tracer::ConfigEpoch()) {
    // What was counted under other options counts for nothing.
    t.config_epoch = tracer::ConfigEpoch();
    const int64_t bits = rt::options().hash_bits();
    stream.path_mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    stream.ForgetEntries();
    return Seed(t);
  }
  if (!t.expected.empty()) return Expect(t);
  if (t.since_decay < rt::options().hot_decay()) return;
  t.since_decay = 0;
  for (HotEntry& e : stream.entries()) {
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
  const auto it = t.expected.find(stream.path() ^ (t.last_path << 4));
  if (it != t.expected.end()) {
    if (it->second != 0 && it->second != stream.path()) {
      SetEntry(stream, stream.path() & stream.path_mask, 1, &AnchorOf(it->second & stream.path_mask));
      stream.SetPath(it->second);
    }
    t.expected.erase(it);
  }
  t.last_path = stream.path();
  if (--t.expected_for == 0) t.expected.clear();
  if (!t.expected.empty()) t.until_look = stream.until_decay = 1;
}

std::vector<const void*> EagerTiers::Marks() {
  std::lock_guard lock(mutex_);
  return marks_;
}

void EagerTiers::OnMiss(Stream& stream, HotEntry& entry, const EagerCall& call) {
  EagerThread& t = ThreadOf(stream);
  if (t.config_epoch != tracer::ConfigEpoch()) OnDecay(stream);
  t.device = call.default_device().kind() == rt::DeviceKind::cpu ? nullptr : &call.default_device();
  // Two paths that drove each other out in every round would both stay cold for good. One that has its anchor takes its
  // place again at once; one that lies in the round of another anchor, and would only rest, takes nobody's.
  EagerAnchor* known = nullptr;
  if (entry.tag != 0 && IsSettled(call.path, &known)) {
    // Two anchors on one entry take turns of two rounds.
    if (known != nullptr && (entry.anchor == nullptr || (++t.misses & 1) != 0)) SetEntry(stream, call.path, 1, known);
    return;
  }
  // An anchor keeps its entry against most that come by.
  if (entry.anchor != nullptr && (++t.misses & 7) != 0) return;
  if (entry.tag != 0) stream.ForgetTrail();
  entry.tag = Stream::TagOf(call.path);
  entry.countdown = HotEager();
  entry.anchor = nullptr;
  if (const int64_t now = rt::NowNs(); now - t.new_since > kAnotherLoopNs) {
    t.new_since = now;
    t.first_hot = 0;
  }
}

bool EagerTiers::HaveEarnedRecording(EagerThread& t, uint64_t path, int32_t* ask_after) {
  const int32_t hot = HotEager();
  if (hot < kLeastPatience || !rt::options().profit_gate() || t.device != nullptr) return true;
  // All ops of a loop get hot in the same round: the first one counts the rounds from there on, and reads the clock.
  const bool counts = t.first_hot == 0 || path == t.first_hot;
  if (t.first_hot == 0) {
    t.first_hot = path;
    t.arrivals = hot;
  } else if (counts) {
    t.arrivals += AskFirstAfter(hot);
  }
  if (t.arrivals >= kMostPatience * hot || (counts ? rt::NowNs() : t.looked) - t.new_since >= kEarnedNs) return true;
  *ask_after = counts ? AskFirstAfter(hot) : AskOthersAfter(hot);
  return false;
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
  if (entry.anchor == nullptr) {
    if (!HaveEarnedRecording(t, call.path, &entry.countdown)) return false;
    entry.anchor = &AnchorOf(call.path);
  }
  auto& a = *static_cast<EagerAnchor*>(entry.anchor);
  if (Rests(a) || (!a.explored && a.explorations >= kExplorations)) {
    entry.countdown = kCovered * HotEager();
    return false;
  }
  switch (a.anchor->Arrive(&entry.countdown, call.in)) {
    case Anchor::Action::wait: a.pinned = entry.countdown >= kForGood; return false;
    case Anchor::Action::record: StartRecording(t, a); return false;
    case Anchor::Action::enter: return Enter(t, a, call, out);
  }
  return false;
}

bool EagerTiers::Enter(EagerThread& t, EagerAnchor& a, const EagerCall& call, absl::Span<TensorImpl*> out) {
  const Version* refused = nullptr;
  GuardFailure why;
  for (const Ref<Version>& v : a.anchor->versions()) {
    if (!t.deferral.Start(a.anchor, v, call, out, rt::EventsOn() ? &why : nullptr)) {
      refused = v.get();
      continue;
    }
    if (refused != nullptr) RecordRefusal(refused->id, why, v->id);
    t.stream.mode = Stream::Mode::matching;
    return true;
  }
  // What no version serves is here to be recorded.
  if (a.anchor->wants_recording()) StartRecording(t, a);
  return false;
}

EagerThread::EagerThread() : deferral(stream) {
  stream.state = this;
  stream.deferral = &deferral;
  stream.on_op = Deferral::OnOp;
  deferral.after = [](Stream& stream, Deferral::Outcome outcome, const EagerCall& call, absl::Span<TensorImpl*> out) {
    stream.mode = Stream::Mode::idle;
    if (outcome == Deferral::Outcome::waits) return true;
    // Also where a version was left: an inner loop is left at the op where the loop around it begins.
    return EagerTiers::Get().Idle(ThreadOf(stream), call, out);
  };
}

bool EagerTiers::Idle(EagerThread& t, const EagerCall& call, absl::Span<TensorImpl*> out) {
  HotEntry& entry = t.stream.EntryOf(call.path);
  if (entry.tag != Stream::TagOf(call.path)) {
    OnMiss(t.stream, entry, call);
    return false;
  }
  entry.countdown -= t.stream.weight;
  return entry.countdown <= 0 && OnHot(t.stream, entry, call, out);
}

// ---- recording

void EagerTiers::StartRecording(EagerThread& t, EagerAnchor& a) {
  t.recording = &a;
  t.recording_start = rt::NowNs();
  t.rounds.clear();
  t.most_steps = rt::options().trace_ops() * (a.explored ? 1 : 2);
  if (!a.explored) ++a.explorations;
  t.record_next = false;
  t.recorder.Begin(tracer::ConfigEpoch());
  t.stream.mode = Stream::Mode::recording;
}

void EagerTiers::AbortRecording(EagerThread& t, TraceAbort reason) {
  t.recorder.Abort();
  t.stream.mode = Stream::Mode::idle;
  EagerAnchor& a = *std::exchange(t.recording, nullptr);
  const int32_t rest = Manager::Get().AddAbort(*a.anchor, reason, rt::NowNs() - t.recording_start);
  a.pinned = rest >= kForGood;
  SetEntry(t.stream, a.path, rest, &a);
}

void EagerTiers::Ended(EagerThread& t, TraceEnd end, const EagerCall& call) {
  EagerAnchor& a = *std::exchange(t.recording, nullptr);
  auto notes = t.recorder.Finish(end);
  t.stream.mode = Stream::Mode::idle;
  const int64_t ns = rt::NowNs() - t.recording_start;
  if (notes == nullptr || notes->steps.size() < 2) {
    SetEntry(t.stream, a.path, Manager::Get().AddAbort(*a.anchor, TraceAbort::too_short, ns), &a);
  } else if (EagerAnchor* around = LeftItsLoop(a, end, *notes) ? Rarest(*notes, 1) : nullptr) {
    SetEntry(t.stream, a.path, Manager::Get().AddAbort(*a.anchor, TraceAbort::left, ns), &a);
    SetEntry(t.stream, around->path, 1, around);
  } else {
    Cover(t.stream, *notes, false);
    SetEntry(t.stream, a.path, 1, &a);
    Manager::Get().AddRecording(a.anchor, std::move(notes), ns);
  }
  // This op may begin the next recording: the same again, or the stretch after a read.
  if (!Familiar(t.stream, call.path)) return;
  EagerAnchor& next = AnchorOf(call.path);
  if (end == TraceEnd::stopped) next.explored = true;
  if (!next.explored || Rests(next) || !next.anchor->wants_recording()) return;
  SetEntry(t.stream, next.path, 1, &next);
  StartRecording(t, next);
}

EagerAnchor* EagerTiers::Rarest(const tracer::EagerNotes& notes, int most) {
  absl::flat_hash_map<uint64_t, int> times;
  for (const tracer::EagerNotes::Step& s : notes.steps) ++times[s.path];
  uint64_t path = 0;
  int fewest = most + 1;
  {
    std::lock_guard lock(mutex_);
    const auto may_be = [&](uint64_t p) {
      if (const auto it = within_.find(p); it != within_.end() && !it->second->pinned) return false;
      const auto it = anchors_.find(p);
      return it == anchors_.end() || !(it->second->explored || it->second->pinned || Rests(*it->second) ||
                                       it->second->explorations >= kExplorations);
    };
    for (const tracer::EagerNotes::Step& s : notes.steps) {
      if (times[s.path] >= fewest || !may_be(s.path)) continue;
      fewest = times[s.path];
      path = s.path;
    }
  }
  return fewest > most ? nullptr : &AnchorOf(path);
}

int EagerTiers::PeriodOf(const EagerThread& t, bool patient) {
  const tracer::Chunked<tracer::EagerNotes::Step>& steps = t.recorder.notes().steps;
  const std::vector<int>& rounds = t.rounds;  // where each ended
  const int end = rounds.back(), count = static_cast<int>(rounds.size());
  const auto came_twice = [&](int period) {
    for (int i = end - period; i < end; ++i)
      if (steps[i].path != steps[i - period].path) return false;
    return true;
  };
  // All of it, twice. The op itself may come several times in each of the two, as one of a layer does.
  if (count % 2 == 0 && 2 * rounds[count / 2 - 1] == end && came_twice(end / 2)) return end / 2;
  if (patient || count < 3) return 0;
  // The last round like the one before.
  const int last = end - rounds[count - 2];
  return end - 2 * last == rounds[count - 3] && came_twice(last) ? last : 0;
}

bool EagerTiers::Explored(EagerThread& t) {
  const tracer::EagerNotes& notes = t.recorder.notes();
  // An op of an inner loop comes back soon, and once after all of the loop around it: that may come round, too.
  int longest = 0;
  for (size_t i = 0; i < t.rounds.size(); ++i)
    longest = std::max(longest, t.rounds[i] - (i == 0 ? 0 : t.rounds[i - 1]));
  const bool patient = t.rounds.size() < 2 || t.rounds.back() < kPatience * longest;
  const int n = PeriodOf(t, patient);
  if (n == 0 && patient) return false;
  if (n == 0) {
    // Rounds of several kinds, and a loop around them that takes long to come round: an op which came less often is
    // one of that.
    if (EagerAnchor* rarer = Rarest(notes, static_cast<int>(t.rounds.size()) - 1)) {
      EagerAnchor& from = *std::exchange(t.recording, nullptr);
      t.recorder.Abort();
      t.stream.mode = Stream::Mode::idle;
      SetEntry(t.stream, from.path, kCovered * HotEager(), nullptr);
      SetEntry(t.stream, rarer->path, 1, rarer);
      return true;
    }
  }
  // Without a period the place where it began is as good as any.
  uint64_t path = t.recording->path;
  if (n != 0) {
    // Every value of the round before has met its fate in the last one.
    const int first = t.rounds.back() - n;
    const std::vector<int> live = t.recorder.LiveCounts();
    absl::flat_hash_map<uint64_t, int> times;
    for (int i = first; i < first + n; ++i) ++times[notes.steps[i].path];
    // A path that comes twice in a round would end the trace too early.
    int fewest = times[path] == 1 ? live[first + n] : std::numeric_limits<int>::max();
    for (int i = first; i < first + n; ++i) {
      if (live[i] >= fewest || times[notes.steps[i].path] > 1) continue;
      fewest = live[i];
      path = notes.steps[i].path;
    }
  }
  TSR_LOG(2, "explored ", notes.Name(), ": ", t.rounds.size(), " rounds, ", t.rounds.back(), " ops, a stretch of ", n);
  Cover(t.stream, notes, true);
  EagerAnchor& from = *t.recording;
  EagerAnchor& a = AnchorOf(path);
  if (n != 0) Retire(notes, a);
  t.recorder.Abort();
  t.recording = nullptr;
  t.stream.mode = Stream::Mode::idle;
  a.period = n;
  a.explored = true;
  SetEntry(t.stream, from.path, kCovered * HotEager(), nullptr);
  SetEntry(t.stream, path, 1, &a);
  if (&a == &from) StartRecording(t, a);
  return true;
}

void EagerTiers::OnExecuted(Stream& stream, const EagerCall& call, absl::Span<TensorImpl* const> out,
                            const absl::Status& status, int64_t ticks) {
  EagerThread& t = ThreadOf(stream);
  try {
    RecordOp(t, call, out, status, ticks);
  } catch (const std::bad_alloc&) {
    // The op has run: its caller gets the result, and only the recording is lost.
    stream.mode = Stream::Mode::idle;
    if (t.recorder.open()) AbortRecording(t, TraceAbort::no_memory);
  }
}

EagerAnchor* EagerTiers::OuterAt(Stream& stream, uint64_t path, int period) {
  const HotEntry& e = stream.EntryOf(path);
  if (e.tag != Stream::TagOf(path) || e.anchor == nullptr) return nullptr;
  auto* a = static_cast<EagerAnchor*>(e.anchor);
  return a->explored && a->period > period && a->anchor->wants_recording() ? a : nullptr;
}

void EagerTiers::RecordOp(EagerThread& t, const EagerCall& call, absl::Span<TensorImpl* const> out,
                          const absl::Status& status, int64_t ticks) {
  Stream& stream = t.stream;
  if (!t.recorder.open()) {
    // The program marked a step before this op.
    stream.mode = Stream::Mode::idle;
    EagerAnchor& a = AnchorOf(call.path);
    a.explored = true;
    t.marks[t.mark].anchor = &a;
    SetEntry(stream, a.path, 1, &a);
    if (!std::exchange(t.record_next, false) || !status.ok() || !a.anchor->wants_recording()) return;
    StartRecording(t, a);
  }
  if (!status.ok()) return AbortRecording(t, TraceAbort::op_failed);
  if (t.recorder.config_epoch() != tracer::ConfigEpoch()) return AbortRecording(t, TraceAbort::configuration);
  if (t.recorder.was_read_elsewhere()) return AbortRecording(t, TraceAbort::other_thread);
  if (!out.empty() && !out[0]->device().executes()) return AbortRecording(t, TraceAbort::other_device);
  if (t.recorder.num_steps() > 0) {
    // A trace has one device. What another one does in between is a trace of its own, or none.
    const bool is_elsewhere = !out.empty() && &out[0]->device() != t.recorder.device();
    if (t.recorder.was_read() || is_elsewhere) {
      if (t.recording->explored) {
        Ended(t, TraceEnd::stopped, call);
      } else {
        // A better place to begin: right after the read, or with the other device, where a trace may go on to the next
        // one.
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
      } else {
        t.rounds.push_back(t.recorder.num_steps());
        if (Explored(t) && !t.recorder.open()) return;
      }
    }
  }
  // The loop has ended, and what comes now belongs to the one around it: that is to be found by its own ops, which are
  // not counted as long as this goes on. Where it has been found, it goes first.
  if (const int period = t.recording->period; t.recording->explored && period > 0) {
    EagerAnchor* outer = OuterAt(stream, call.path, period);
    if (outer != nullptr || t.recorder.num_steps() >= 4 * period + 64) {
      AbortRecording(t, TraceAbort::left);
      if (outer == nullptr) return;
      StartRecording(t, *outer);
    }
  }
  if (t.recorder.num_steps() >= t.most_steps) return AbortRecording(t, TraceAbort::too_long);
  if (rt::FaultFires(rt::Fault::recording)) throw std::bad_alloc();
  t.recorder.Add(call, out, ticks);
}

void EagerTiers::OnStep(Stream& stream, const void* site) {
  // Two steps may be a beginning and an end; what comes a third time will come again. One that no version was of any
  // use for in so many steps does not begin where it did.
  constexpr int kThird = 3, kMany = 64;
  EagerThread& t = ThreadOf(stream);
  // A step ends what comes before it: rounds of a loop, mostly, of which there is no more.
  if (t.deferral.waiting())
    (void)t.deferral.Flush(t.deferral.complete() ? deopt::DeoptReason::read : deopt::DeoptReason::branch);
  if (stream.mode == Stream::Mode::matching && !t.deferral.waiting()) stream.mode = Stream::Mode::idle;
  // Whatever came before, the ops of a step have the same surroundings each time.
  stream.SetPath(Stream::SiteHash(site, ir::Op{}));
  t.deferral.set_path(stream.path());

  t.mark = 0;
  while (t.mark < t.marks.size() && t.marks[t.mark].site != site) ++t.mark;
  if (t.mark == t.marks.size()) t.marks.push_back({site});
  EagerThread::Mark& mark = t.marks[t.mark];
  const bool has_begun = mark.anchor != nullptr;
  const int64_t runs = has_begun ? mark.anchor->anchor->runs() : 0;
  if (runs != mark.runs) mark.steps = 0;
  mark.runs = runs;
  const bool wants = !has_begun || mark.anchor->anchor->wants_recording();
  const bool due = ++mark.steps >= (wants ? kThird : kMany);
  if (stream.mode == Stream::Mode::recording && t.recorder.open()) {
    // The recording of a loop within the step keeps neither the step's own from beginning nor its version from running.
    if (t.recording == mark.anchor || (wants && !due)) return t.recorder.EndStretch();
    AbortRecording(t, TraceAbort::left);
  }
  if (stream.mode != Stream::Mode::idle || !due) return;
  mark.steps = 0;
  t.record_next = true;
  stream.mode = Stream::Mode::recording;
  std::lock_guard lock(mutex_);
  if (std::find(marks_.begin(), marks_.end(), site) == marks_.end()) marks_.push_back(site);
}

void EagerTiers::OnWrite(Stream& stream) {
  EagerThread& t = ThreadOf(stream);
  if (t.deferral.complete()) (void)t.deferral.Flush(deopt::DeoptReason::read);
  t.deferral.ReleaseKept();
}

absl::Status EagerTiers::OnWait(Stream& stream) { return ThreadOf(stream).deferral.Flush(deopt::DeoptReason::read); }

}  // namespace tessera::tiers
