// The ledger: what each compile, version and deopt cost and saved, in measured time. Runtime::explain() prints it.
#ifndef TESSERA_DEOPT_LEDGER_H_
#define TESSERA_DEOPT_LEDGER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deopt/guards.h"
#include "tracer/trace.h"

namespace tessera::deopt {

enum class Rung : uint8_t { exact, bucketed, symbolic, interpreted };
std::string_view Name(Rung rung);

/// How many runs, failures and nanoseconds; written by the threads that run a version, read by anyone. Runs of several
/// threads at the same moment may count as one.
struct VersionCounters {
  std::atomic<int64_t> runs{0};
  std::atomic<int64_t> timed_runs{0};
  std::atomic<int64_t> timed_ns{0};  // of the timed runs, all told
  /// Those of them for which it is known what tier 1 takes with shapes of the same size.
  std::atomic<int64_t> compared_runs{0};
  std::atomic<int64_t> compared_ns{0};
  std::atomic<int64_t> compared_tier1_ns{0};
  std::atomic<int64_t> exits{0};
  std::atomic<int64_t> escapes{0};
};

/// One version, from the request to its end.
struct VersionRecord {
  int64_t id = 0;  // counted from 1
  int64_t trace_id = 0;
  std::string trace;      // name of the place
  std::string generator;  // "replay", "tier 2", "tier 3"
  Rung rung = Rung::exact;
  /// "hot after 16 arrivals", "generalised: dim 0 of x1 was 32, now 48", "bridge from ...", "profile"
  std::string cause;
  int64_t steps = 0;
  int64_t recording_ns = 0;  // shown, but no cost: the program went on in tier 1 meanwhile
  int64_t compile_ns = 0;
  int64_t tier1_ns = 0;    // one run of the trace in tier 1, until runs have been compared
  int64_t handing_ns = 0;  // what each run costs before it: eager ops are handed over one by one
  int64_t bytes = 0;
  std::string note;   // what else is worth knowing: "3 kernels, from the cache"
  std::string state;  // "queued", "live", "dropped: ...", "evicted: ...", "failed: ..."
  std::shared_ptr<VersionCounters> counters = std::make_shared<VersionCounters>();
};

/// One deopt.
struct DeoptRecord {
  int64_t time_ns = 0;
  int64_t version = 0;
  std::string trace;
  GuardFailure failure;
  Policy policy = Policy::keep;
};

/// Recordings of one place that came to nothing for one reason.
struct AbortRecord {
  std::string trace;
  tracer::TraceAbort reason{};
  int64_t count = 0;
  int64_t ns = 0;
};

class Ledger {
 public:
  static Ledger& Get();  // never destroyed

  /// Returns the id, which no other version of the process has, whatever record.id was.
  int64_t AddVersion(VersionRecord record);
  /// fn(VersionRecord&) under the lock; nothing when the id is unknown.
  template <class Fn>
  void Update(int64_t id, Fn fn) {
    std::lock_guard lock(mutex_);
    if (auto it = state_.versions.find(id); it != state_.versions.end()) fn(it->second);
  }
  /// Counts it, keeps the last kKeptDeopts, writes a debug line (level 1 for the first of its kind at that place,
  /// level 3 for the others) and an event to the ring. A time_ns of 0 becomes now.
  void AddDeopt(DeoptRecord record);
  /// A recording that took ns and came to nothing; counted, written and kept like a deopt.
  void AddAbort(const std::string& trace, tracer::TraceAbort abort, int64_t ns);
  /// A place that stays in tier 1 from now on, and why. `announce`: told once, whatever the option debug says;
  /// otherwise from level 1 on.
  void AddPin(const std::string& trace, const std::string& reason, bool announce = true);

  /// A place whose build is held back for now, and why; until a version of it is added.
  void AddWait(const std::string& trace, const std::string& reason);

  std::vector<VersionRecord> versions() const;
  std::vector<DeoptRecord> deopts() const;
  std::vector<AbortRecord> aborts() const;
  /// Places that stay in tier 1, and why.
  std::map<std::string, std::string> pins() const;
  int64_t count(DeoptReason r) const;
  /// Failures of that guard. Deopts for a reason that no guard stands for (read, op_failed, ...) count under none.
  int64_t count(GuardKind g) const;
  int64_t count(tracer::TraceAbort a) const;

  /// Tables a user understands: versions with cost, gain and break-even; deopts by place and reason with the last
  /// expected and seen; recordings that were aborted; places that stay in tier 1.
  std::string Explain() const;
  /// Forgets everything but which ids were given; for tests.
  void Clear();

  static constexpr size_t kKeptDeopts = 256;
  /// Dead versions beyond this many are forgotten, oldest first, so that the ledger of a long job stays small.
  static constexpr size_t kKeptVersions = 1024;
  /// Rows of deopts, of aborts and of pins. What finds no room is summed up as "others".
  static constexpr size_t kKeptRows = 1024;

 private:
  struct DeoptRow {
    int64_t count = 0;
    GuardFailure last;
    Policy policy = Policy::keep;
  };
  struct AbortRow {
    int64_t count = 0;
    int64_t ns = 0;
  };
  struct ForgottenVersions {
    int64_t count = 0;
    double compile_ns = 0;
    double saved_ns = 0;
  };
  /// What Clear() resets, all under mutex_.
  struct State {
    std::map<int64_t, VersionRecord> versions;
    ForgottenVersions forgotten;
    std::deque<DeoptRecord> deopts;
    std::map<std::pair<std::string, DeoptReason>, DeoptRow> deopt_rows;
    std::map<std::pair<std::string, tracer::TraceAbort>, AbortRow> abort_rows;
    std::map<std::string, std::string> pins;   // place, reason
    std::map<std::string, std::string> waits;  // place, reason; those that find no room are not told
    int64_t other_deopts = 0;
    AbortRow other_aborts;
    int64_t other_pins = 0;
    int64_t by_reason[kNumDeoptReasons] = {};
    int64_t by_guard[kNumGuards] = {};
    int64_t by_abort[tracer::kNumTraceAborts] = {};
  };

  void ForgetDead();
  std::string ExplainVersions() const;
  std::string ExplainDeopts() const;
  std::string ExplainAborts() const;
  std::string ExplainPins() const;
  std::string ExplainWaits() const;

  mutable std::mutex mutex_;
  int64_t next_id_ = 1;
  State state_;
};

}  // namespace tessera::deopt

#endif  // TESSERA_DEOPT_LEDGER_H_
