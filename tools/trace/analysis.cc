#include "tools/trace/analysis.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/memory_events.h"
#include "runtime/trace/sort.h"

namespace tessera::tools {
namespace {

using rt::EventKind;
using rt::trace::TraceEvent;
using rt::trace::VersionRow;

int TierOf(const VersionRow& row) { return row.generator == "tier 3" ? 3 : row.generator == "tier 2" ? 2 : 1; }

// As the ledger counts it.
void Judge(VersionSummary* v) {
  const VersionRow& row = *v->row;
  v->tier1_ns = static_cast<double>(row.tier1_ns);
  v->break_even = "not yet";
  if (row.timed_runs <= 0) return;
  v->run_ns =
      static_cast<double>(row.timed_ns) / static_cast<double>(row.timed_runs) + static_cast<double>(row.handing_ns);
  if (row.compared_runs > 0) {
    const auto compared = static_cast<double>(row.compared_runs);
    v->run_ns = static_cast<double>(row.compared_ns) / compared + static_cast<double>(row.handing_ns);
    v->tier1_ns = static_cast<double>(row.compared_tier1_ns) / compared;
  }
  if (v->tier1_ns <= 0) return;
  v->is_measured = true;
  const double each = v->tier1_ns - v->run_ns;
  v->saved_ns = each * static_cast<double>(row.runs);
  if (each <= 0) {
    v->break_even = "never at this rate";
    return;
  }
  const double needed = std::max(1.0, std::ceil(static_cast<double>(row.compile_ns) / each));
  v->break_even = needed >= 0x1p62 ? "never at this rate"
                  : static_cast<double>(row.runs) >= needed
                      ? absl::StrCat("after ", static_cast<int64_t>(needed), needed == 1 ? " run" : " runs")
                      : absl::StrCat("not yet (needs ", static_cast<int64_t>(needed), ")");
}

class Analyser {
 public:
  Analyser(const TraceData& data, int num_bins) : data_(data) {
    out_.data = &data;
    out_.bin_ns = std::max<int64_t>(data.duration_ns / num_bins + 1, 1);
    out_.bins.resize(static_cast<size_t>(std::min<int64_t>(data.duration_ns / out_.bin_ns + 1, num_bins)));
    for (const VersionRow& row : data.versions) {
      version_[row.id] = out_.versions.size();
      out_.versions.emplace_back();
      out_.versions.back().row = &row;
      out_.versions.back().tier = TierOf(row);
    }
  }

  Analysis Run() {
    for (const TraceEvent& e : data_.events) Event(e);
    Versions();
    Places();
    Deopts();
    Rows();
    Idle();
    AnalyseGpus(&out_);
    FindWhatMatters(&out_);
    return std::move(out_);
  }

 private:
  VersionSummary* Version(int64_t id) {
    const auto it = version_.find(id);
    return it == version_.end() ? nullptr : &out_.versions[it->second];
  }

  // Ops of one source line count together: the first site of that line stands for it.
  int64_t LineOf(int64_t site) {
    const auto known = line_of_site_.find(site);
    if (known != line_of_site_.end()) return known->second;
    int64_t line = site;
    if (const auto it = data_.site_index.find(site); it != data_.site_index.end()) {
      const rt::trace::SiteRow& row = data_.sites[it->second];
      if (row.line > 0)
        line = lines_.emplace(std::tuple(row.file, row.line, row.file.empty() ? row.function : ""), site).first->second;
    }
    return line_of_site_[site] = line;
  }

  // The time goes to the bins that it spans.
  void Spread(Lane lane, int64_t start, int64_t ns) {
    int64_t& all = out_.lane_ns[static_cast<size_t>(lane)];
    all = Sum(all, ns);
    int64_t at = std::max<int64_t>(start, 0);
    const int64_t end = start + ns;
    while (at < end) {
      const auto bin = static_cast<size_t>(at / out_.bin_ns);
      if (bin >= out_.bins.size()) break;
      const int64_t until = std::min<int64_t>(end, static_cast<int64_t>(bin + 1) * out_.bin_ns);
      int64_t& sum = out_.bins[bin].ns[static_cast<size_t>(lane)];
      sum = Sum(sum, until - at);
      at = until;
    }
  }
  Bin* BinAt(int64_t ns) {
    if (out_.bins.empty()) return nullptr;
    return &out_.bins[static_cast<size_t>(
        std::clamp<int64_t>(ns / out_.bin_ns, 0, static_cast<int64_t>(out_.bins.size()) - 1))];
  }

  void Event(const TraceEvent& e) {
    const Lane lane = LaneOf(out_, e);
    Bin* bin = BinAt(e.start_ns);
    if (bin == nullptr) return;
    switch (e.kind) {
      case EventKind::op: {
        out_.ops.Add(e.ns);
        OpSummary& op = ops_[e.a];
        op.op = e.a;
        op.elements = Sum(op.elements, e.b);
        op.runs.Add(e.ns);
        SiteSummary& site = sites_[LineOf(e.c)];
        if (site.site == 0) site.site = e.c;
        site.runs.Add(e.ns);
        site.ops[e.a].Add(e.ns);
        ++bin->ops;
        Spread(lane, e.start_ns, e.ns);
        threads_[e.thread] = Sum(threads_[e.thread], e.ns);
        break;
      }
      case EventKind::version_run: {
        // Numbers of a damaged or foreign file: none may overflow a sum.
        const int64_t runs = std::clamp<int64_t>(e.b, 0, 1 << 30), steps = std::clamp<int64_t>(e.c, 0, 1 << 20);
        out_.version_runs.Add(e.ns, runs);
        out_.version_steps.Add(e.ns, runs * steps);
        bin->ops = Sum(bin->ops, runs * steps);
        if (VersionSummary* v = Version(e.a)) {
          v->runs.Add(e.ns, runs);
          if (v->first_ns < 0) v->first_ns = e.start_ns;
          v->last_ns = e.start_ns + e.ns;
        }
        Spread(lane, e.start_ns, e.ns);
        threads_[e.thread] = Sum(threads_[e.thread], e.ns);
        break;
      }
      case EventKind::version_build:
        out_.compiles.Add(e.ns);
        if (VersionSummary* v = Version(e.a)) v->built_ns = e.start_ns + e.ns;
        Spread(lane, e.start_ns, e.ns);
        break;
      case EventKind::compile_stage: out_.compile_stages[e.b].Add(e.ns); break;
      case EventKind::system_allocation:
      case EventKind::system_free: {
        // Its time is part of an op's or a version's.
        MemorySummary& row = memory_[{e.kind, e.c}];
        row.bytes = Sum(row.bytes, std::max<int64_t>(e.a, 0));
        row.runs.Add(e.ns);
        break;
      }
      case EventKind::trace_record: Spread(lane, e.start_ns, e.ns); break;
      case EventKind::trace_abort: out_.aborts.Add(e.ns); break;
      case EventKind::version_install:
        if (VersionSummary* v = Version(e.a)) v->installed_ns = e.start_ns;
        ++bin->installs;
        break;
      case EventKind::version_drop:
        if (VersionSummary* v = Version(e.a)) v->dropped_ns = e.start_ns;
        break;
      case EventKind::deopt:
        out_.deopts.Add(0);
        ++bin->deopts;
        if (VersionSummary* v = Version(e.a)) ++v->deopts;
        break;
      case EventKind::version_refused:
        if (VersionSummary* v = Version(e.a)) ++v->refused;
        break;
      case EventKind::bridge:
        if (VersionSummary* v = Version(e.a)) ++v->bridges;
        break;
      case EventKind::step:
        out_.steps.Add(0);
        ++bin->steps;
        break;
      case EventKind::span: out_.spans.Add(e.ns); break;
      case EventKind::copy:
      case EventKind::blas_load: Spread(Lane::other, e.start_ns, e.ns); break;
      default: break;
    }
  }

  void Versions() {
    for (VersionSummary& v : out_.versions) Judge(&v);
  }

  void Places() {
    std::map<std::string, size_t> index;
    for (size_t i = 0; i < out_.versions.size(); ++i) {
      const VersionSummary& v = out_.versions[i];
      const auto [it, is_new] = index.emplace(v.row->place, out_.places.size());
      if (is_new) out_.places.push_back({v.row->place, {}, {}, 1, 0, 0, 0, 0, 0, "", {}});
      PlaceSummary& place = out_.places[it->second];
      place.versions.push_back(i);
      place.runs.Add(v.runs.ns, v.runs.count);
      place.runs.longest_ns = std::max(place.runs.longest_ns, v.runs.longest_ns);
      place.tier = std::max<int64_t>(place.tier, v.tier);
      place.guards = static_cast<int64_t>(v.row->guards.size());
      place.deopts = Sum(place.deopts, std::max(v.deopts, v.row->exits));
      place.compile_ns = Sum(place.compile_ns, v.row->compile_ns);
      place.saved_ns += v.saved_ns;
      if (v.is_measured && v.run_ns > 0) place.gain = v.tier1_ns / v.run_ns;
      if (std::find(place.trace_ids.begin(), place.trace_ids.end(), v.row->trace_id) == place.trace_ids.end())
        place.trace_ids.push_back(v.row->trace_id);
    }
    for (const rt::trace::PinRow& pin : data_.pins) {
      const auto it = index.find(pin.place);
      if (it != index.end()) out_.places[it->second].pinned = pin.reason.empty() ? "pinned" : pin.reason;
    }
    rt::trace::SortStably(&out_.places, [](const auto& x, const auto& y) { return x.runs.ns > y.runs.ns; });
  }

  void Deopts() {
    std::map<std::pair<std::string, int64_t>, size_t> index;
    for (const rt::trace::DeoptRow& row : data_.deopts) {
      const auto [it, is_new] = index.emplace(std::pair(row.place, row.reason), out_.deopt_rows.size());
      if (is_new) out_.deopt_rows.push_back({row.place, row.reason, 0, nullptr});
      ++out_.deopt_rows[it->second].count;
      out_.deopt_rows[it->second].last = &row;
      out_.deopts_at[row.place].push_back(&row);
      if (row.guard >= 0) ++out_.guard_failures[{row.version, row.value}];
    }
    rt::trace::SortStably(&out_.deopt_rows, [](const auto& x, const auto& y) { return x.count > y.count; });
  }

  void Rows() {
    for (const rt::trace::StageRow& row : data_.stages) out_.stages[row.version].push_back(&row);
    for (auto& [key, row] : memory_) {
      row.is_taken = key.first == EventKind::system_allocation;
      row.gpu = rt::MemoryWhy::GpuOf(key.second);
      row.reason = rt::MemoryWhy::ReasonOf(key.second);
      out_.memory_rows.push_back(row);
    }
    for (auto& [op, row] : ops_) out_.op_rows.push_back(std::move(row));
    for (auto& [site, row] : sites_) out_.site_rows.push_back(std::move(row));
    const auto by_time = [](const auto& x, const auto& y) { return x.runs.ns > y.runs.ns; };
    rt::trace::SortStably(&out_.op_rows, by_time);
    rt::trace::SortStably(&out_.memory_rows, by_time);
    rt::trace::SortStably(&out_.site_rows, by_time);
    for (int i = 0; i < kNumLanes; ++i)
      if (static_cast<Lane>(i) != Lane::compile && static_cast<Lane>(i) != Lane::record)
        out_.busy_ns = Sum(out_.busy_ns, out_.lane_ns[static_cast<size_t>(i)]);
  }

  // Of the thread that had most of the ops.
  void Idle() {
    int64_t most = -1;
    for (const auto& [thread, ns] : threads_)
      if (ns > most) std::tie(most, out_.main_thread) = std::pair(ns, int64_t{thread});
    int64_t first = -1, covered = 0, until = 0, last = 0;
    for (const TraceEvent& e : data_.events) {
      if (e.thread != out_.main_thread || (e.kind != EventKind::op && e.kind != EventKind::version_run)) continue;
      if (first < 0) first = until = e.start_ns;
      const int64_t from = std::max(e.start_ns, until), end = e.start_ns + e.ns;
      if (end > from) covered = Sum(covered, end - from);
      until = std::max(until, end);
      last = std::max(last, end);
    }
    if (first >= 0) out_.main_idle_ns = std::max<int64_t>(last - first - covered, 0);
  }

  const TraceData& data_;
  Analysis out_;
  std::map<int64_t, size_t> version_;
  std::map<int64_t, OpSummary> ops_;
  std::map<int64_t, SiteSummary> sites_;
  std::map<std::pair<EventKind, int64_t>, MemorySummary> memory_;  // by kind and why
  std::map<uint32_t, int64_t> threads_;
  std::map<int64_t, int64_t> line_of_site_;
  std::map<std::tuple<std::string, int64_t, std::string>, int64_t> lines_;
};

std::string Scaled(double value, double factor, std::initializer_list<const char*> units) {
  const char* const* unit = units.begin();
  for (; unit + 1 != units.end() && std::abs(value) >= factor - 0.5; ++unit) value /= factor;
  return std::abs(value) >= 999.5 ? absl::StrFormat("%.0f %s", value, *unit) : absl::StrFormat("%.3g %s", value, *unit);
}

}  // namespace

std::string TimeText(double ns) { return Scaled(ns, 1000, {"ns", "us", "ms", "s"}); }
std::string BytesText(double bytes) { return Scaled(bytes, 1024, {"bytes", "KiB", "MiB", "GiB"}); }
std::string ShareText(double part, double whole) {
  return whole > 0 ? absl::StrFormat("%.3g %%", 100 * part / whole) : "-";
}

Lane LaneOf(const Analysis& analysis, const TraceEvent& event) {
  switch (event.kind) {
    case EventKind::op: return Lane::tier1;
    case EventKind::version_run: {
      const VersionRow* row = analysis.data->FindVersion(event.a);
      const int tier = row != nullptr ? TierOf(*row) : 1;
      return tier == 3 ? Lane::tier3 : tier == 2 ? Lane::tier2 : Lane::replay;
    }
    case EventKind::trace_record:
    case EventKind::trace_abort: return Lane::record;
    case EventKind::version_build:
    case EventKind::compile_stage: return Lane::compile;
    default: return Lane::other;
  }
}

Lane LaneOf(const KernelSummary& kernel) {
  if (kernel.owner == rt::ActivityOwner::Kind::op) return Lane::tier1;
  return kernel.tier == 3   ? Lane::tier3
         : kernel.tier == 2 ? Lane::tier2
         : kernel.tier == 1 ? Lane::replay
                            : Lane::other;
}

std::string MemoryOf(int64_t gpu) { return gpu < 0 ? "host" : absl::StrCat("GPU ", gpu); }

std::string MetaOf(const TraceData& data, const std::string& key) {
  for (const rt::trace::MetaRow& row : data.meta)
    if (row.key == key) return row.value;
  return "";
}

std::string LabelOf(const TraceData& data, const TraceEvent& event) {
  const auto version = [&](const char* what) {
    const VersionRow* row = data.FindVersion(event.a);
    return absl::StrCat(what, "version ", event.a, row != nullptr ? absl::StrCat(" of ", row->place) : "");
  };
  switch (event.kind) {
    case EventKind::op: return data.Name("op", event.a);
    case EventKind::version_run: return version("");
    case EventKind::version_build: return version("build ");
    case EventKind::version_install: return version("install ");
    case EventKind::version_drop: return version("drop ");
    case EventKind::deopt: return absl::StrCat("deopt: ", data.Name("deopt_reason", event.b));
    case EventKind::guard_failure: return absl::StrCat("guard: ", data.Name("guard", event.b));
    case EventKind::version_refused:
      return absl::StrCat(version("refused: "), event.b >= 0 ? ", guard " + data.Name("guard", event.b) : "");
    case EventKind::bridge: return version("bridge from ");
    case EventKind::compile_stage: return data.Name("compile_stage", event.b);
    case EventKind::system_allocation:
    case EventKind::system_free:
      return absl::StrCat(event.kind == EventKind::system_allocation ? "take" : "give back", " memory of the ",
                          MemoryOf(rt::MemoryWhy::GpuOf(event.c)), ": ",
                          data.Name("memory_reason", rt::MemoryWhy::ReasonOf(event.c)));
    case EventKind::trace_record: return absl::StrCat("record trace ", event.a);
    case EventKind::trace_abort: return absl::StrCat("abort: ", data.Name("trace_abort", event.a));
    case EventKind::function_enter:
    case EventKind::function_exit: return data.SiteName(event.a);
    case EventKind::span:
      for (const rt::trace::SpanRow& row : data.spans)
        if (row.number == event.a) return row.name;
      return "span";
    default: return std::string(rt::kEvents[static_cast<int>(event.kind)].name);
  }
}

GuardCounts CountsOf(const Analysis& analysis, const VersionRow& version, const rt::trace::GuardRow& guard) {
  const auto it = analysis.guard_failures.find({version.id, guard.value});
  return {Sum(version.runs, version.exits), it == analysis.guard_failures.end() ? 0 : it->second};
}

Analysis Analyse(const TraceData& data, int num_bins) { return Analyser(data, num_bins).Run(); }

}  // namespace tessera::tools
