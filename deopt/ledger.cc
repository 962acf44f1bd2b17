#include "deopt/ledger.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/ring.h"
#include "runtime/trace/recorder.h"

namespace tessera::deopt {
namespace {

// ---- words

// Three digits, in the largest unit that leaves at least one before the dot. Not printf: that asks the locale.
template <size_t N>
std::string Scaled(double value, double factor, const char* const (&units)[N]) {
  size_t unit = 0;
  for (; unit + 1 < N && std::abs(value) >= factor - 0.5; ++unit) value /= factor;
  char text[64];
  const bool large = std::abs(value) >= 999.5;
  const char* end = std::to_chars(text, text + sizeof(text), value,
                                  large ? std::chars_format::fixed : std::chars_format::general, large ? 0 : 3)
                        .ptr;
  return absl::StrCat(absl::string_view(text, end - text), " ", units[unit]);
}
std::string Time(double ns) { return Scaled(ns, 1000, {"ns", "us", "ms", "s"}); }
std::string Bytes(double bytes) { return Scaled(bytes, 1024, {"bytes", "KiB", "MiB", "GiB"}); }

std::string Count(int64_t n, const char* what) { return absl::StrCat(n, " ", what, n == 1 ? "" : "s"); }

std::string At(const interp::Source& source) {
  if (source.file == nullptr) return source.line > 0 ? absl::StrCat("line ", source.line) : "";
  const std::string_view file = source.file;
  return absl::StrCat(std::string(file.substr(file.rfind('/') + 1)), ":", source.line);
}

// What the guard is about, with the names that ToString(Trace) gives to values.
std::string What(const GuardFailure& f) {
  std::string text;
  if (f.value >= 0) {
    switch (f.guard) {
      case GuardKind::scalar_value: text = absl::StrCat("number n", f.value); break;
      case GuardKind::aliasing:
      case GuardKind::branch:
      case GuardKind::escape:
      case GuardKind::buffer_version:
      case GuardKind::value_property: text = absl::StrCat("value ", f.value); break;
      default: text = absl::StrCat("operand x", f.value); break;
    }
  } else if (f.step >= 0) {
    text = absl::StrCat("step ", f.step);
  }
  if (f.dim < 0) return text;
  return absl::StrCat("dim ", f.dim, text.empty() ? "" : " of ", text);
}

// A failure's guard says nothing when no guard stands for its reason.
bool HasGuard(const GuardFailure& f) { return f.reason == DeoptReason::forced || f.reason == Info(f.guard).reason; }

// "dim 0 of operand x1 at train.cc:42"; empty when nothing is known.
std::string Subject(const GuardFailure& f) {
  std::string text = What(f);
  if (const std::string at = At(f.source); !at.empty()) absl::StrAppend(&text, text.empty() ? "" : " ", "at ", at);
  return text;
}

std::string ExpectedAndSeen(const GuardFailure& f) { return absl::StrCat("expected ", f.expected, ", seen ", f.seen); }

std::string DeoptLine(const DeoptRecord& record, const std::string& rung) {
  const GuardFailure& f = record.failure;
  const DeoptReasonInfo& reason = Info(f.reason);
  const std::string subject = Subject(f);
  return absl::StrCat("deopt of version ", record.version, " (", record.trace, rung.empty() ? "" : ", ", rung,
                      "): ", std::string(reason.name), ": ", subject, subject.empty() ? "" : ": ",
                      f.expected.empty() && f.seen.empty() ? std::string(reason.message) : ExpectedAndSeen(f),
                      "; policy: ", std::string(Name(record.policy)));
}

// ---- tables

std::string KeepStart(const std::string& text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}
// A place is told by its end: the file and the line.
std::string KeepEnd(const std::string& text, size_t most) {
  return text.size() <= most ? text : "..." + text.substr(text.size() - (most - 3));
}
constexpr size_t kPlaceWidth = 24;
constexpr size_t kTextWidth = 20;

class Table {
 public:
  struct Column {
    const char* name;
    bool is_number = false;
  };
  explicit Table(std::initializer_list<Column> columns) : columns_(columns), widths_(columns.size()) {
    std::vector<std::string> names;
    for (const Column& c : columns_) names.emplace_back(c.name);
    Row(std::move(names));
  }

  /// Missing cells are blank. A note goes on a line of its own below the row.
  void Row(std::vector<std::string> cells, std::string note = "") {
    cells.resize(columns_.size());
    for (size_t c = 0; c < cells.size(); ++c) widths_[c] = std::max(widths_[c], cells[c].size());
    rows_.push_back({std::move(cells), std::move(note)});
  }

  std::string Text() const {
    std::string out;
    for (const auto& [cells, note] : rows_) {
      std::string line;
      for (size_t c = 0; c < columns_.size(); ++c) {
        const std::string blanks(widths_[c] - cells[c].size(), ' ');
        absl::StrAppend(&line, "  ", columns_[c].is_number ? blanks : "", cells[c],
                        columns_[c].is_number ? "" : blanks);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      absl::StrAppend(&out, line, "\n");
      if (!note.empty()) absl::StrAppend(&out, "      ", note, "\n");
    }
    return out;
  }

 private:
  std::vector<Column> columns_;
  std::vector<size_t> widths_;
  std::vector<std::pair<std::vector<std::string>, std::string>> rows_;
};

// Those that happened most come first, then by place and reason.
template <class Map>
std::vector<const typename Map::value_type*> MostFirst(const Map& map) {
  std::vector<const typename Map::value_type*> rows;
  for (const auto& row : map) rows.push_back(&row);
  std::sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    return a->second.count != b->second.count ? a->second.count > b->second.count : a->first < b->first;
  });
  return rows;
}

// ---- what a version gained

struct Gain {
  int64_t runs = 0;
  bool is_measured = false;  // then both times are known
  double run_ns = 0;         // one run of the version
  double tier1_ns = 0;       // one in tier 1, with shapes of the same size
  double per_run_ns = 0;     // what one run saves
  double saved_ns = 0;
};

Gain GainOf(const VersionRecord& v) {
  const VersionCounters& c = *v.counters;
  Gain gain;
  gain.runs = c.runs.load(std::memory_order_relaxed);
  const int64_t timed_runs = c.timed_runs.load(std::memory_order_relaxed);
  const int64_t timed_ns = c.timed_ns.load(std::memory_order_relaxed);
  gain.tier1_ns = static_cast<double>(v.tier1_ns);
  if (timed_runs <= 0) return gain;
  gain.run_ns = static_cast<double>(timed_ns) / static_cast<double>(timed_runs) + static_cast<double>(v.handing_ns);
  if (const int64_t compared = c.compared_runs.load(std::memory_order_relaxed); compared > 0) {
    const auto mean = [&](const std::atomic<int64_t>& sum) {
      return static_cast<double>(sum.load(std::memory_order_relaxed)) / static_cast<double>(compared);
    };
    gain.run_ns = mean(c.compared_ns) + static_cast<double>(v.handing_ns);
    gain.tier1_ns = mean(c.compared_tier1_ns);
  }
  if (gain.tier1_ns <= 0) return gain;
  gain.is_measured = true;
  gain.per_run_ns = gain.tier1_ns - gain.run_ns;
  gain.saved_ns = gain.per_run_ns * static_cast<double>(gain.runs);
  return gain;
}

// Against the compile alone: while it was recorded, the program went on in tier 1.
std::string BreakEven(const VersionRecord& v, const Gain& gain) {
  if (!gain.is_measured) return "not yet";
  if (gain.per_run_ns <= 0) return "never at this rate";
  const double needed = std::max(1.0, std::ceil(static_cast<double>(v.compile_ns) / gain.per_run_ns));
  if (needed >= 0x1p62) return "never at this rate";
  if (static_cast<double>(gain.runs) >= needed)
    return absl::StrCat("after ", Count(static_cast<int64_t>(needed), "run"));
  return absl::StrCat("not yet (needs ", static_cast<int64_t>(needed), ")");
}

bool IsDead(const VersionRecord& v) {
  for (const char* word : {"dropped", "evicted", "failed"})
    if (absl::StartsWith(v.state, word)) return true;
  return false;
}

}  // namespace

std::string_view Name(Rung rung) {
  switch (rung) {
    case Rung::exact: return "exact";
    case Rung::bucketed: return "bucketed";
    case Rung::symbolic: return "symbolic";
    case Rung::interpreted: return "interpreted";
  }
  return "?";
}

Ledger& Ledger::Get() {
  static Ledger* ledger = new Ledger;
  return *ledger;
}

int64_t Ledger::AddVersion(VersionRecord record) {
  if (record.counters == nullptr) record.counters = std::make_shared<VersionCounters>();
  std::lock_guard lock(mutex_);
  const int64_t id = record.id = next_id_++;
  state_.waits.erase(record.trace);
  state_.versions.emplace(id, std::move(record));
  ForgetDead();
  return id;
}

void Ledger::ForgetDead() {
  std::map<int64_t, VersionRecord>& versions = state_.versions;
  if (versions.size() <= kKeptVersions) return;
  auto dead = static_cast<size_t>(
      std::count_if(versions.begin(), versions.end(), [](const auto& v) { return IsDead(v.second); }));
  for (auto it = versions.begin(); dead > kKeptVersions;) {
    if (!IsDead(it->second)) {
      ++it;
      continue;
    }
    ++state_.forgotten.count;
    state_.forgotten.compile_ns += static_cast<double>(it->second.compile_ns);
    state_.forgotten.saved_ns += GainOf(it->second).saved_ns;
    it = versions.erase(it);
    --dead;
  }
}

void Ledger::AddDeopt(DeoptRecord record) {
  const GuardFailure& failure = record.failure;
  if (record.time_ns == 0) record.time_ns = rt::NowNs();
  if (HasGuard(failure))
    rt::Record(rt::EventKind::guard_failure, record.version, static_cast<int64_t>(failure.guard), failure.step);
  rt::Record(rt::EventKind::deopt, record.version, static_cast<int64_t>(failure.reason), failure.step);
  if (rt::RecorderOn()) {
    rt::trace::Recorder::Get().Add(
        rt::trace::DeoptRow{rt::Ticks(), record.version, record.trace, static_cast<int64_t>(failure.reason),
                            HasGuard(failure) ? static_cast<int64_t>(failure.guard) : -1, failure.step, failure.value,
                            failure.dim, failure.source.file != nullptr ? failure.source.file : "", failure.source.line,
                            failure.expected, failure.seen, std::string(Name(record.policy))});
  }
  bool is_first = false;
  std::string rung;
  {
    std::lock_guard lock(mutex_);
    ++state_.by_reason[static_cast<int>(failure.reason)];
    if (HasGuard(failure)) ++state_.by_guard[static_cast<int>(failure.guard)];
    if (const auto it = state_.versions.find(record.version); it != state_.versions.end()) rung = Name(it->second.rung);
    state_.deopts.push_back(record);
    if (state_.deopts.size() > kKeptDeopts) state_.deopts.pop_front();
    const auto key = std::pair(record.trace, failure.reason);
    if (auto it = state_.deopt_rows.find(key); it != state_.deopt_rows.end()) {
      it->second = {it->second.count + 1, failure, record.policy};
    } else if (state_.deopt_rows.size() < kKeptRows) {
      is_first = true;
      state_.deopt_rows.emplace(key, DeoptRow{1, failure, record.policy});
    } else {
      ++state_.other_deopts;
    }
  }
  // After the lock: the application's sink may ask the ledger.
  TSR_LOG(is_first ? 1 : 3, DeoptLine(record, rung));
}

void Ledger::AddAbort(const std::string& trace, tracer::TraceAbort abort, int64_t ns) {
  rt::RecordFor(rt::EventKind::trace_abort, ns, static_cast<int64_t>(abort));
  bool is_first = false;
  {
    std::lock_guard lock(mutex_);
    ++state_.by_abort[static_cast<int>(abort)];
    AbortRow* row = &state_.other_aborts;
    const auto key = std::pair(trace, abort);
    if (auto it = state_.abort_rows.find(key); it != state_.abort_rows.end()) {
      row = &it->second;
    } else if (state_.abort_rows.size() < kKeptRows) {
      is_first = true;
      row = &state_.abort_rows[key];
    }
    ++row->count;
    row->ns += ns;
  }
  TSR_LOG(is_first ? 1 : 3, "recording of ", trace, " aborted after ", Time(static_cast<double>(ns)), ": ",
          tracer::Info(abort).name, ": ", tracer::Info(abort).message);
}

void Ledger::AddPin(const std::string& trace, const std::string& reason, bool announce) {
  {
    std::lock_guard lock(mutex_);
    state_.waits.erase(trace);
    if (state_.pins.count(trace) > 0) return;
    if (state_.pins.size() < kKeptRows)
      state_.pins.emplace(trace, reason);
    else
      ++state_.other_pins;
  }
  if (announce) {
    TSR_LOG(0, trace, " stays in tier 1: ", reason);
  } else {
    TSR_LOG(1, trace, " stays in tier 1: ", reason);
  }
}

void Ledger::AddWait(const std::string& trace, const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (state_.waits.size() < kKeptRows || state_.waits.count(trace) > 0) state_.waits[trace] = reason;
  }
  TSR_LOG(1, trace, " waits: ", reason);
}

std::vector<VersionRecord> Ledger::versions() const {
  std::lock_guard lock(mutex_);
  std::vector<VersionRecord> out;
  for (const auto& [id, record] : state_.versions) out.push_back(record);
  return out;
}

std::vector<AbortRecord> Ledger::aborts() const {
  std::lock_guard lock(mutex_);
  std::vector<AbortRecord> out;
  for (const auto& [key, row] : state_.abort_rows) out.push_back({key.first, key.second, row.count, row.ns});
  return out;
}

std::map<std::string, std::string> Ledger::pins() const {
  std::lock_guard lock(mutex_);
  return state_.pins;
}

std::vector<DeoptRecord> Ledger::deopts() const {
  std::lock_guard lock(mutex_);
  return {state_.deopts.begin(), state_.deopts.end()};
}

int64_t Ledger::count(DeoptReason r) const {
  std::lock_guard lock(mutex_);
  return state_.by_reason[static_cast<int>(r)];
}
int64_t Ledger::count(GuardKind g) const {
  std::lock_guard lock(mutex_);
  return state_.by_guard[static_cast<int>(g)];
}
int64_t Ledger::count(tracer::TraceAbort a) const {
  std::lock_guard lock(mutex_);
  return state_.by_abort[static_cast<int>(a)];
}

void Ledger::Clear() {
  std::lock_guard lock(mutex_);
  state_ = State();
}

std::string Ledger::ExplainVersions() const {
  Table table({{"id", true},
               {"place"},
               {"rung"},
               {"steps", true},
               {"runs", true},
               {"compile", true},
               {"tier 1", true},
               {"version", true},
               {"saved", true},
               {"break-even"},
               {"state"}});
  double compile_ns = state_.forgotten.compile_ns, saved_ns = state_.forgotten.saved_ns;
  for (const auto& [id, v] : state_.versions) {
    const Gain gain = GainOf(v);
    compile_ns += static_cast<double>(v.compile_ns);
    saved_ns += gain.saved_ns;
    std::string note = v.cause;
    const auto add = [&note](const std::string& text) { absl::StrAppend(&note, note.empty() ? "" : "; ", text); };
    if (!v.generator.empty()) add("made by " + v.generator);
    if (!v.note.empty()) add(v.note);
    if (v.recording_ns > 0) add("recorded in " + Time(static_cast<double>(v.recording_ns)));
    if (v.bytes > 0) add("holds " + Bytes(static_cast<double>(v.bytes)));
    const size_t colon = v.state.find(':');
    if (colon != std::string::npos) add(v.state);
    table.Row({absl::StrCat(id), KeepEnd(v.trace, kPlaceWidth), std::string(Name(v.rung)), absl::StrCat(v.steps),
               absl::StrCat(gain.runs), v.compile_ns > 0 ? Time(static_cast<double>(v.compile_ns)) : "-",
               gain.tier1_ns > 0 ? Time(gain.tier1_ns) : "-", gain.run_ns > 0 ? Time(gain.run_ns) : "-",
               gain.is_measured ? Time(gain.saved_ns) : "-", BreakEven(v, gain), v.state.substr(0, colon)},
              std::move(note));
  }
  const int64_t forgotten = state_.forgotten.count;
  const int64_t all = static_cast<int64_t>(state_.versions.size()) + forgotten;
  return absl::StrCat("versions: traces that were compiled, and the time of one run in tier 1 and in the version\n",
                      table.Text(), "  in all: ", Count(all, "version"),
                      forgotten > 0 ? absl::StrCat(" (", forgotten, " dead and not listed)") : "", ", compile ",
                      Time(compile_ns), ", saved ", Time(saved_ns), "\n");
}

std::string Ledger::ExplainDeopts() const {
  Table table({{"place"}, {"reason"}, {"count", true}, {"last guard"}, {"expected"}, {"seen"}, {"policy"}});
  for (const auto* row : MostFirst(state_.deopt_rows)) {
    const GuardFailure& last = row->second.last;
    const DeoptReasonInfo& reason = Info(last.reason);
    std::string note(reason.message);
    if (const std::string subject = Subject(last); !subject.empty()) absl::StrAppend(&note, ": ", subject);
    if (std::max(last.expected.size(), last.seen.size()) > kTextWidth)
      absl::StrAppend(&note, ": ", ExpectedAndSeen(last));
    table.Row({KeepEnd(row->first.first, kPlaceWidth), std::string(reason.name), absl::StrCat(row->second.count),
               HasGuard(last) ? std::string(Info(last.guard).name) : "-", KeepStart(last.expected, kTextWidth),
               KeepStart(last.seen, kTextWidth), std::string(Name(row->second.policy))},
              std::move(note));
  }
  if (state_.other_deopts > 0) table.Row({"others", "", absl::StrCat(state_.other_deopts)});
  return absl::StrCat("deopts: versions that were left before their end, and what the last one was about\n",
                      table.Text());
}

std::string Ledger::ExplainAborts() const {
  Table table({{"place"}, {"reason"}, {"count", true}, {"time", true}});
  for (const auto* row : MostFirst(state_.abort_rows)) {
    const tracer::TraceAbortInfo& abort = tracer::Info(row->first.second);
    table.Row({KeepEnd(row->first.first, kPlaceWidth), std::string(abort.name), absl::StrCat(row->second.count),
               Time(static_cast<double>(row->second.ns))},
              std::string(abort.message));
  }
  const AbortRow& others = state_.other_aborts;
  if (others.count > 0) table.Row({"others", "", absl::StrCat(others.count), Time(static_cast<double>(others.ns))});
  return absl::StrCat("aborts: recordings that came to nothing, and the time they took\n", table.Text());
}

std::string Ledger::ExplainPins() const {
  Table table({{"place"}, {"why"}});
  for (const auto& [place, reason] : state_.pins) table.Row({KeepEnd(place, kPlaceWidth), reason});
  if (state_.other_pins > 0) table.Row({"others", absl::StrCat(state_.other_pins, " more")});
  return absl::StrCat("places that stay in tier 1\n", table.Text());
}

std::string Ledger::ExplainWaits() const {
  Table table({{"place"}, {"why"}});
  for (const auto& [place, reason] : state_.waits) table.Row({KeepEnd(place, kPlaceWidth), reason});
  return absl::StrCat("places that are hot, but not enough for a version to pay\n", table.Text());
}

std::string Ledger::Explain() const {
  std::lock_guard lock(mutex_);
  std::string out;
  const auto add = [&out](const std::string& section) { absl::StrAppend(&out, out.empty() ? "" : "\n", section); };
  if (!state_.versions.empty()) add(ExplainVersions());
  if (!state_.deopt_rows.empty()) add(ExplainDeopts());
  if (!state_.abort_rows.empty()) add(ExplainAborts());
  if (!state_.pins.empty()) add(ExplainPins());
  if (!state_.waits.empty()) add(ExplainWaits());
  if (out.empty())
    out =
        "nothing got hot yet: no place came back often enough to be recorded (options hot_eager, hot_loop and "
        "hot_function), so everything ran in tier 1\n";
  return out;
}

}  // namespace tessera::deopt
