#include "tools/trace/html.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "runtime/trace/sort.h"
#include "tools/trace/export.h"
#include "tools/trace/html_gpu.h"
#include "tools/trace/json.h"
#include "tools/trace/slices.h"

namespace tessera::tools {
namespace {

using rt::EventKind;
using rt::trace::TraceEvent;

/// Deopts and marks that are shown one by one.
constexpr size_t kMostDeopts = 200, kMostMarks = 5000;

bool IsShown(const TraceEvent& e) {
  switch (e.kind) {
    case EventKind::op:
    case EventKind::version_run:
    case EventKind::version_build:
    case EventKind::trace_record:
    case EventKind::copy:
    case EventKind::blas_load: return true;
    default: return false;
  }
}

class Page {
 public:
  Page(const Analysis& analysis, const std::string& title) : a_(analysis), data_(*analysis.data), title_(title) {}

  std::string Run() {
    json_.Open('{');
    Head();
    Lanes();
    Findings();
    Timeline();
    Bins();
    Samples();
    WriteGpus(a_, &json_);
    Places();
    Rows();
    Deopts();
    Sources();
    json_.Close('}');
    return json_.Take();
  }

 private:
  void Head() {
    json_.Key("title")
        .Text(title_)
        .Key("duration")
        .Number(data_.duration_ns)
        .Key("events")
        .Number(static_cast<int64_t>(data_.events.size()));
    json_.Key("lost")
        .Number(data_.lost)
        .Key("complete")
        .Bool(data_.is_complete)
        .Key("redacted")
        .Bool(data_.is_redacted);
    json_.Key("wall")
        .Number(data_.wall_ns / 1'000'000)
        .Key("bytes")
        .Number(data_.bytes)
        .Key("idle")
        .Number(a_.main_idle_ns);
    json_.Key("meta").Open('[');
    for (const auto& row : data_.meta) json_.Open('[').Text(row.key).Text(row.value).Close(']');
    json_.Close(']').Key("totals").Open('{');
    json_.Key("ops").Number(a_.ops.count).Key("opsNs").Number(a_.ops.ns);
    json_.Key("runs").Number(a_.version_runs.count).Key("runsNs").Number(a_.version_runs.ns);
    json_.Key("steps").Number(a_.version_steps.count).Key("marks").Number(a_.steps.count);
    json_.Key("compiles").Number(a_.compiles.count).Key("compileNs").Number(a_.compiles.ns);
    json_.Key("deopts").Number(a_.deopts.count).Close('}');
  }

  void Lanes() {
    json_.Key("lanes").Open('[');
    for (int i = 0; i < kNumLanes; ++i)
      json_.Open('[').Text(kLanes[i].name).Text(kLanes[i].title).Number(a_.lane_ns[static_cast<size_t>(i)]).Close(']');
    json_.Close(']');
  }

  void Findings() {
    json_.Key("findings").Open('[');
    for (const Finding& f : a_.findings)
      json_.Open('[').Text(f.title).Text(f.detail).Text(f.advice).Text(f.place).Real(f.cost_ns).Close(']');
    json_.Close(']');
  }

  std::string ThreadName(uint32_t thread) const {
    for (const auto& row : data_.threads)
      if (row.number == thread && !row.name.empty()) return absl::StrCat(row.name, " (", thread, ")");
    return absl::StrCat("thread ", thread);
  }

  uint32_t Label(const std::string& label) {
    const auto [it, is_new] = labels_.emplace(label, static_cast<uint32_t>(label_rows_.size()));
    if (is_new) label_rows_.push_back(label);
    return it->second;
  }

  void Timeline() {
    std::vector<Track> tracks;
    std::map<uint32_t, size_t> threads;
    // Labels of ops and versions are asked for once each, not a million times.
    std::map<std::pair<EventKind, int64_t>, uint32_t> known;
    for (const TraceEvent& e : data_.events) {
      if (!IsShown(e)) continue;
      const auto [it, is_new] = known.emplace(std::pair(e.kind, e.a), 0);
      if (is_new) it->second = Label(LabelOf(data_, e));
      const auto [thread, first] = threads.emplace(e.thread, tracks.size());
      if (first) tracks.push_back({ThreadName(e.thread), {}});
      tracks[thread->second].slices.push_back({e.start_ns, e.ns, LaneOf(a_, e), it->second, 1});
    }
    AddStreams(a_, [this](const std::string& label) { return Label(label); }, &tracks);
    MergeUntilFew(data_.duration_ns, kMostSlices, &tracks);
    json_.Key("threads").Open('[');
    for (const Track& track : tracks) {
      json_.Open('{').Key("name").Text(track.name).Key("slices").Open('[');
      // Start, duration, lane, label and count of each, one after another; starts as differences.
      int64_t before = 0;
      for (const Slice& s : track.slices) {
        json_.Number(s.start - before)
            .Number(s.ns)
            .Number(static_cast<int64_t>(s.lane))
            .Number(s.label)
            .Number(s.count);
        before = s.start;
      }
      json_.Close(']').Close('}');
    }
    json_.Close(']').Key("marks").Open('[');
    size_t marks = 0;
    for (const TraceEvent& e : data_.events) {
      const bool shown =
          e.kind == EventKind::deopt || e.kind == EventKind::version_install || e.kind == EventKind::version_drop;
      if (!shown || ++marks > kMostMarks) continue;
      json_.Open('[')
          .Number(e.start_ns)
          .Text(rt::kEvents[static_cast<int>(e.kind)].name)
          .Number(Label(LabelOf(data_, e)))
          .Close(']');
    }
    json_.Close(']').Key("labels").Open('[');
    for (const std::string& label : label_rows_) json_.Text(label);
    json_.Close(']');
  }

  void Bins() {
    json_.Key("binNs").Number(a_.bin_ns).Key("bins").Open('[');
    for (const Bin& bin : a_.bins) {
      json_.Open('[');
      for (const int64_t ns : bin.ns) json_.Number(ns);
      json_.Number(bin.ops).Number(bin.steps).Number(bin.deopts).Number(bin.installs).Close(']');
    }
    json_.Close(']');
  }

  void Samples() {
    json_.Key("memory").Open('[');
    const size_t each = data_.samples.size() / 1000 + 1;
    for (size_t i = 0; i < data_.samples.size(); i += each) {
      const auto& s = data_.samples[i];
      json_.Open('[').Number(s.ticks).Number(s.bytes_in_use).Number(s.bytes_cached).Close(']');
    }
    json_.Close(']');
  }

  void Version(const VersionSummary& v) {
    const rt::trace::VersionRow& row = *v.row;
    json_.Open('{').Key("id").Number(row.id).Key("trace").Number(row.trace_id).Key("tier").Number(v.tier);
    json_.Key("generator")
        .Text(row.generator)
        .Key("rung")
        .Text(row.rung)
        .Key("cause")
        .Text(row.cause)
        .Key("note")
        .Text(row.note);
    json_.Key("state")
        .Text(row.state)
        .Key("runs")
        .Number(row.runs)
        .Key("recorded")
        .Number(v.runs.count)
        .Key("ns")
        .Number(v.runs.ns);
    json_.Key("refused").Number(v.refused).Key("bridges").Number(v.bridges).Key("refusals").Open('[');
    for (const rt::trace::RefusalRow& r : data_.refusals)
      if (r.version == row.id)
        json_.Open('[')
            .Number(r.ticks)
            .Text(r.guard >= 0 ? data_.Name("guard", r.guard) : "")
            .Text(r.value >= 0 ? absl::StrCat("x", r.value) : "")
            .Text(r.expected)
            .Text(r.seen)
            .Number(r.serves)
            .Close(']');
    json_.Close(']');
    json_.Key("compile").Number(row.compile_ns).Key("bytes").Number(row.bytes).Key("exits").Number(row.exits);
    json_.Key("measured")
        .Bool(v.is_measured)
        .Key("runNs")
        .Real(v.run_ns)
        .Key("tier1Ns")
        .Real(v.tier1_ns)
        .Key("saved")
        .Real(v.saved_ns);
    json_.Key("breakEven")
        .Text(v.break_even)
        .Key("installed")
        .Number(v.installed_ns)
        .Key("dropped")
        .Number(v.dropped_ns);
    json_.Key("guards").Open('[');
    for (const auto& guard : row.guards) {
      const GuardCounts counts = CountsOf(a_, row, guard);
      json_.Open('[').Text(guard.text).Number(counts.checked).Number(counts.failed).Close(']');
    }
    json_.Close(']').Key("stages").Open('[');
    if (const auto it = a_.stages.find(row.id); it != a_.stages.end())
      for (const auto* stage : it->second)
        if (stage->stage != "cubin")  // no text
          json_.Open('[').Text(stage->stage).Text(stage->text).Close(']');
    json_.Close(']').Close('}');
  }

  void Places() {
    json_.Key("places").Open('[');
    for (const PlaceSummary& p : a_.places) {
      json_.Open('{')
          .Key("name")
          .Text(p.name)
          .Key("ns")
          .Number(p.runs.ns)
          .Key("runs")
          .Number(p.runs.count)
          .Key("tier")
          .Number(p.tier);
      json_.Key("guards").Number(p.guards).Key("deopts").Number(p.deopts).Key("compile").Number(p.compile_ns);
      json_.Key("saved").Real(p.saved_ns).Key("gain").Real(p.gain).Key("pinned").Text(p.pinned);
      json_.Key("versions").Open('[');
      for (const size_t v : p.versions) Version(a_.versions[v]);
      json_.Close(']').Key("traces").Open('[');
      for (const int64_t id : p.trace_ids) {
        const rt::trace::TraceRow* trace = data_.FindTrace(id);
        if (trace == nullptr) continue;
        json_.Open('{')
            .Key("id")
            .Number(id)
            .Key("tier1")
            .Number(trace->tier1_ns)
            .Key("device")
            .Text(trace->device)
            .Key("steps")
            .Open('[');
        for (const auto& step : trace->steps) {
          if (!step.file.empty()) used_files_[step.file].insert(step.line);
          json_.Open('[').Text(step.text).Number(step.ns).Text(step.file).Number(step.line).Close(']');
        }
        json_.Close(']').Close('}');
      }
      json_.Close(']').Key("deoptRows").Open('[');
      const auto deopts = a_.deopts_at.find(p.name);
      for (size_t i = 0; deopts != a_.deopts_at.end() && i < deopts->second.size() && i < kMostDeopts; ++i) {
        const rt::trace::DeoptRow& d = *deopts->second[i];
        json_.Open('[').Number(d.ticks).Number(d.version).Text(data_.Name("deopt_reason", d.reason));
        json_.Text(d.guard >= 0 ? data_.Name("guard", d.guard) : "").Text(d.expected).Text(d.seen).Text(d.policy);
        json_.Number(d.line).Close(']');
      }
      json_.Close(']').Close('}');
    }
    json_.Close(']');
  }

  void Rows() {
    json_.Key("ops").Open('[');
    for (size_t i = 0; i < a_.op_rows.size() && i < 60; ++i) {
      const OpSummary& op = a_.op_rows[i];
      json_.Open('[')
          .Text(data_.Name("op", op.op))
          .Number(op.runs.ns)
          .Number(op.runs.count)
          .Number(op.runs.longest_ns)
          .Number(op.elements)
          .Close(']');
    }
    json_.Close(']').Key("taken").Open('[');
    for (size_t i = 0; i < a_.memory_rows.size() && i < 60; ++i) {
      const MemorySummary& row = a_.memory_rows[i];
      json_.Open('[')
          .Text(MemoryOf(row.gpu))
          .Text(row.is_taken ? "taken" : "given back")
          .Text(data_.Words("memory_reason", row.reason))
          .Number(row.runs.count)
          .Number(row.bytes)
          .Number(row.runs.ns)
          .Number(row.runs.longest_ns)
          .Close(']');
    }
    json_.Close(']').Key("lines").Open('[');
    for (size_t i = 0; i < a_.site_rows.size() && i < 200; ++i) {
      const SiteSummary& s = a_.site_rows[i];
      std::string ops, file;
      for (const auto& [op, tally] : s.ops)
        if (ops.size() < 40) absl::StrAppend(&ops, ops.empty() ? "" : ", ", data_.Name("op", op));
      int64_t line = 0;
      if (const auto it = data_.site_index.find(s.site); it != data_.site_index.end()) {
        file = data_.sites[it->second].file;
        line = data_.sites[it->second].line;
        if (!file.empty()) used_files_[file].insert(line);
      }
      json_.Open('[')
          .Text(data_.SiteName(s.site))
          .Number(s.runs.ns)
          .Number(s.runs.count)
          .Text(ops)
          .Text(file)
          .Number(line)
          .Close(']');
    }
    json_.Close(']').Key("stages").Open('[');
    for (const auto& [stage, tally] : a_.compile_stages)
      json_.Open('[')
          .Text(data_.Name("compile_stage", stage))
          .Text(data_.Words("compile_stage", stage))
          .Number(tally.count)
          .Number(tally.ns)
          .Close(']');
    json_.Close(']');
  }

  void Deopts() {
    json_.Key("deopts").Open('[');
    for (const DeoptSummary& d : a_.deopt_rows)
      json_.Open('[')
          .Text(d.place)
          .Text(data_.Name("deopt_reason", d.reason))
          .Text(data_.Words("deopt_reason", d.reason))
          .Number(d.count)
          .Text(d.last->guard >= 0 ? data_.Name("guard", d.last->guard) : "")
          .Text(d.last->expected)
          .Text(d.last->seen)
          .Text(d.last->policy)
          .Close(']');
    json_.Close(']').Key("aborts").Open('[');
    for (const auto& row : data_.aborts)
      json_.Open('[')
          .Text(row.place)
          .Text(data_.Name("trace_abort", row.reason))
          .Text(data_.Words("trace_abort", row.reason))
          .Number(row.count)
          .Number(row.ns)
          .Close(']');
    json_.Close(']').Key("pins").Open('[');
    for (const auto& row : data_.pins) json_.Open('[').Text(row.place).Text(row.reason).Close(']');
    json_.Close(']');
  }

  // The lines that something refers to, with those around them.
  void Sources() {
    json_.Key("sources").Open('{');
    for (const auto& source : data_.sources) {
      const auto used = used_files_.find(source.file);
      if (used == used_files_.end()) continue;
      std::set<int64_t> wanted;
      for (const int64_t line : used->second)
        for (int64_t l = line - 3; l <= line + 3; ++l) wanted.insert(l);
      json_.TextKey(source.file).Open('{');
      int64_t line = 1;
      for (size_t at = 0; at < source.text.size(); ++line) {
        const size_t end = std::min(source.text.find('\n', at), source.text.size());
        if (wanted.contains(line))
          json_.Key(absl::StrCat(line).c_str()).Text(std::string_view(source.text).substr(at, end - at));
        at = end + 1;
      }
      json_.Close('}');
    }
    json_.Close('}');
  }

  const Analysis& a_;
  const TraceData& data_;
  const std::string& title_;
  Json json_;
  std::map<std::string, uint32_t> labels_;
  std::vector<std::string> label_rows_;
  std::map<std::string, std::set<int64_t>> used_files_;
};

}  // namespace

std::string ReportJson(const Analysis& analysis, const std::string& title) { return Page(analysis, title).Run(); }

std::string HtmlReport(const Analysis& analysis, const std::string& title) {
  std::string page = kPageHtml;
  const auto fill = [&](const std::string& mark, const std::string& text) {
    if (const size_t at = page.find(mark); at != std::string::npos) page.replace(at, mark.size(), text);
  };
  fill("/*STYLE*/", kPageCss);
  fill("/*SCRIPT*/", kPageJs);
  fill("{/*DATA*/}", ReportJson(analysis, title));
  return page;
}

}  // namespace tessera::tools
