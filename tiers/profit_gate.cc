// The profit gate: a version is kept while it does better than what it replaced. Tier 1 was timed while it was recorded
// (functions) or for whole stretches (eager ops); both times are of shapes of the same size (costs.h). On a GPU the ops
// of tier 1 are not waited for, so their times say nothing: there, generated code is compared with the replay that it
// replaced, in runs that are waited for.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/clock.h"
#include "runtime/options.h"
#include "runtime/ring.h"
#include "runtime/trace/recorder.h"
#include "tiers/manager.h"
#include "tracer/control.h"

namespace tessera::tiers {
namespace {

using tracer::Decide;

/// Stretches that are timed with versions, and in tier 1 where shapes vary; where they do not, a few will do.
constexpr int32_t kStretches = 32;
constexpr int32_t kFewStretches = 4;
/// Stretches with versions before tier 1 takes turns: what these save pays for recording and building first.
constexpr int32_t kVersionsFirst = 24;
/// What entering and leaving a version costs beside its run, for a stream of eager ops and for a function.
constexpr int64_t kEnterNs = 250;
constexpr int64_t kEnterFunctionNs = 130;
/// Recordings that tell what tier 1 takes for shapes of one size, and those of a place that are made to learn it.
constexpr int kTimings = 2;
constexpr int32_t kMostTimings = 64;
/// Runs of a version before such recordings begin: until then they would cost more than it has saved.
constexpr int64_t kRunsBeforeTimings = 8;
/// The share of tier 1's time above which a version is dropped. A replay runs the kernels of tier 1: where ops are
/// large it takes what they take, and memory that it touches for the first time or a busy machine makes it look slower.
/// While code for it is still to come, it is dropped only where it is far behind; the code is what is judged.
constexpr double kSlow = 1.1, kFarBehind = 1.5;
/// The same for code against what it replaced, whose best time is one of many more runs: only after so many rounds.
constexpr double kSlowCode = 1.05;
constexpr int kSlowRounds = 4;

/// Runs of a schedule that a device has timed, at least.
constexpr int64_t kTimedTrials = 8;

bool AwaitsCode(const Version& version) { return version.awaits_code.load(std::memory_order_relaxed); }

// The tier of the code that a version gets next. Tier 3 at once where tier 2 would not be given the time.
int NextTier(const Version& version) {
  const bool exact = version.rung() == Rung::exact;
  const bool at_once = rt::options().specialise_after() <= rt::options().compile_after();
  const int next = exact && (version.tier >= 2 || version.skips_tier2 || at_once) ? 3 : 2;
  return std::min(next, static_cast<int>(rt::options().tier()));
}

// Grows as any one of the first two operands does, however large the other one is: a table, or weights.
int64_t SizeOf(absl::Span<const View* const> operands) {
  constexpr double kMost = 0x1p62;
  double size = 1;
  int count = 0;
  for (const View* v : operands)
    if (v != nullptr && count++ < 2) size *= static_cast<double>(std::max<int64_t>(1, v->size()));
  return static_cast<int64_t>(std::min(size, kMost));
}

}  // namespace

// ---- stretches of eager ops

Anchor::Runner Anchor::Time(Runner next, absl::Span<const View* const> operands) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const int32_t tier1 = num_tier1_.load(kRelaxed), version = num_version_.load(kRelaxed);
  const int32_t needed = tier1_needed_.load(kRelaxed);
  const bool done = next == Runner::tier1 ? tier1 >= kStretches : version >= kStretches && tier1 >= needed;
  if (done) [[likely]]
    return next;
  if (kind != Kind::eager || !is_waited_for_.load(kRelaxed)) return next;
  if (next == Runner::version && tier1 < needed && version >= std::max(tier1, kVersionsFirst) &&
      rt::options().profit_gate() && Decide(true, 8))
    next = Runner::tier1;
  const int64_t now = rt::NowNs();
  const Runner last = runner_.exchange(next, kRelaxed);
  if (last != Runner::nobody) {
    (last == Runner::tier1 ? tier1_stretches_ : version_stretches_)
        .Add(last_size_.load(kRelaxed), now - last_arrival_ns_.load(kRelaxed));
    const int32_t n = (last == Runner::tier1 ? num_tier1_ : num_version_).fetch_add(1, kRelaxed) + 1;
    if (last == Runner::tier1 ? n >= needed && version >= kStretches && needed > 0 : n >= kStretches && tier1 >= needed)
      stretches_known_.store(true, kRelaxed);
  }
  last_arrival_ns_.store(now, kRelaxed);
  last_size_.store(SizeOf(operands), kRelaxed);
  return next;
}

void Anchor::ExpectStretches(bool exact) {
  if (!exact) tier1_needed_.store(kStretches, std::memory_order_relaxed);
  if (exact && versions_.empty()) tier1_needed_.store(kFewStretches, std::memory_order_relaxed);
  ForgetStretches(/*tier1=*/false);
}

void Anchor::ForgetStretches(bool tier1) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  runner_.store(Runner::nobody, kRelaxed);
  stretches_known_.store(false, kRelaxed);
  version_stretches_.Clear();
  num_version_.store(0, kRelaxed);
  if (!tier1) return;
  tier1_stretches_.Clear();
  num_tier1_.store(0, kRelaxed);
}

bool Manager::JudgeStretches(Anchor& anchor) {
  if (!anchor.stretches_known_.exchange(false, std::memory_order_relaxed) || !rt::options().profit_gate()) return true;
  // A wider version is on its way, and will be judged instead.
  if (anchor.queued_.load(std::memory_order_relaxed) > 0 || anchor.sample_wanted_.load(std::memory_order_relaxed))
    return true;
  const Costs::Sums sums = Costs::Compare(anchor.version_stretches_, anchor.tier1_stretches_);
  const auto versions = anchor.versions();
  const bool code_comes = std::any_of(versions.begin(), versions.end(), [](const auto& v) { return AwaitsCode(*v); });
  if (Decide(sums.a <= (code_comes ? kFarBehind : kSlowCode) * sums.b, 8)) return true;
  Pin(anchor,
      absl::StrCat("from one round to the next it took ", static_cast<int64_t>(sums.a),
                   " ns with versions where tier 1 takes ", static_cast<int64_t>(sums.b),
                   " ns, for operands of the same size"),
      false);
  return false;
}

// ---- runs

namespace {

void RecordRun(const Version& version, int64_t ns, int64_t runs, int64_t start_ticks) {
  const auto steps = static_cast<int64_t>(version.trace().steps.size());
  if (start_ticks != 0)
    rt::trace::RecordSince(rt::EventKind::version_run, start_ticks, version.id, runs, steps);
  else
    rt::RecordFor(rt::EventKind::version_run, ns, version.id, runs, steps);
}

}  // namespace

void Manager::AddRun(Anchor& anchor, Version& version, int64_t ns, int64_t runs, int64_t size, int64_t start_ticks) {
  deopt::VersionCounters& c = *version.counters;
  // As of the anchor: counts may be lost when several threads come by at once, and nobody waits for the others here.
  c.runs.store(c.runs.load(std::memory_order_relaxed) + runs, std::memory_order_relaxed);
  anchor.runs_.store(anchor.runs_.load(std::memory_order_relaxed) + runs, std::memory_order_relaxed);
  if (anchor.exits_in_a_row_.load(std::memory_order_relaxed) != 0)
    anchor.exits_in_a_row_.store(0, std::memory_order_relaxed);
  if (rt::EventsOn()) [[unlikely]]
    RecordRun(version, ns, runs, start_ticks);
  if (anchor.stretches_known_.load(std::memory_order_relaxed) && !JudgeStretches(anchor)) return;
  if (ns == 0) return;
  c.timed_runs.fetch_add(runs, std::memory_order_relaxed);
  c.timed_ns.fetch_add(ns, std::memory_order_relaxed);
  const int64_t each = (ns + (version.trace().is_eager ? kEnterNs : kEnterFunctionNs)) / runs;
  version.costs->Add(size, each);
  const int64_t generate_at = version.generate_at.load(std::memory_order_relaxed);
  if (generate_at != INT64_MAX) {
    const int64_t spent = c.timed_ns.load(std::memory_order_relaxed) /
                          std::max<int64_t>(c.timed_runs.load(std::memory_order_relaxed), 1) *
                          c.runs.load(std::memory_order_relaxed);
    // Where nobody waits for the device, many runs may be over before the first ones are known to be.
    const bool few =
        generate_at > 0 && version.timer() != nullptr && c.timed_runs.load(std::memory_order_relaxed) < kTimedTrials;
    if (!few && Decide(spent >= generate_at, 4)) {
      const bool known = generate_at == 0 && version.known_ns > 0;
      return Ask(anchor, version, NextTier(version), known ? "profile" : absl::StrCat("ran for ", spent / 1000, " us"));
    }
  }
  JudgeRun(anchor, version, each, runs, size);
}

bool Manager::BeatsReplaced(Anchor& anchor, Version& version) {
  const Version::Replaced& replaced = version.replaced;
  if (version.code() == nullptr || replaced.costs == nullptr) return true;
  const Costs::Sums sums = Costs::Compare(*version.costs, *replaced.costs);
  if (sums.a <= kSlowCode * sums.b) version.slow_rounds.store(0, std::memory_order_relaxed);
  const bool slow =
      sums.a > kFarBehind * sums.b ||
      (sums.a > kSlowCode * sums.b && version.slow_rounds.fetch_add(1, std::memory_order_relaxed) + 1 >= kSlowRounds);
  if (Decide(!slow, 8)) return true;
  Ask(anchor, version, 0,
      absl::StrCat("code of tier ", version.tier, " took ", static_cast<int64_t>(sums.a), " ns, ",
                   replaced.code != nullptr ? absl::StrCat("that of tier ", replaced.tier) : "replay", " ",
                   static_cast<int64_t>(sums.b), " ns"));
  return false;
}

bool Manager::JudgeRun(Anchor& anchor, Version& version, int64_t each, int64_t runs, int64_t size) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const bool gate = rt::options().profit_gate();
  const bool eager = version.trace().is_eager;
  const bool on_cpu = version.trace().device->kind() == rt::DeviceKind::cpu;
  if (on_cpu && version.rung() != Rung::exact && !eager && gate &&
      version.counters->runs.load(kRelaxed) > kRunsBeforeTimings && version.tier1_costs->Count(size) < kTimings &&
      anchor.time_recordings_.load(kRelaxed) < kMostTimings && !anchor.time_wanted_.load(kRelaxed)) {
    anchor.time_recordings_.fetch_add(1, kRelaxed);
    anchor.time_wanted_.store(true, kRelaxed);
  }
  const double tier1 = version.tier1_costs->Of(size);
  if (tier1 == 0) {
    const bool enough = version.timed.fetch_add(1, kRelaxed) % 16 == 15;
    return !enough || !gate || BeatsReplaced(anchor, version);
  }
  deopt::VersionCounters& c = *version.counters;
  c.compared_runs.fetch_add(runs, kRelaxed);
  c.compared_ns.fetch_add(each * runs, kRelaxed);
  c.compared_tier1_ns.fetch_add(static_cast<int64_t>(tier1) * runs, kRelaxed);
  // Sixteen runs in fours, and of each four the best: other programs on the machine disturb the rest. Of tier 1 the
  // best is known as well.
  const auto handing = static_cast<double>(eager ? kDeferNs * static_cast<int64_t>(version.trace().steps.size()) : 0);
  const double share = (static_cast<double>(each) + handing) / tier1;
  const double best = std::min(share, version.best_share.load(kRelaxed));
  version.best_share.store(best, kRelaxed);
  const int64_t nth = version.timed.fetch_add(1, kRelaxed) % 16;
  if (nth % 4 != 3) return true;
  version.best_share.store(Version::kNoShare, kRelaxed);
  const double sum = version.sum_of_bests.load(kRelaxed) + best;
  version.sum_of_bests.store(nth == 15 ? 0 : sum, kRelaxed);
  if (nth != 15 || !gate) return true;
  if (!BeatsReplaced(anchor, version)) return false;
  // Where whole stretches were timed, those decide.
  if (eager && anchor.num_tier1_.load(kRelaxed) >= kFewStretches) return true;
  if (Decide(sum / 4 <= (AwaitsCode(version) ? kFarBehind : kSlow), 8)) return true;
  Pin(anchor,
      absl::StrCat("a version took ", static_cast<int64_t>(sum / 4 * tier1), " ns where tier 1 takes ",
                   static_cast<int64_t>(tier1), " ns", version.rung() == Rung::exact ? "" : " for shapes of that size"),
      false);
  return false;
}

void Manager::LoopGoesOn(Anchor& anchor, Version& version, int64_t ns) {
  if (ns < version.generate_at.load(std::memory_order_relaxed)) return;
  Ask(anchor, version, NextTier(version), absl::StrCat("a loop ran for ", ns / 1000, " us"));
}

}  // namespace tessera::tiers
