#include "tools/trace/text.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "runtime/trace/sort.h"
#include "tools/trace/gpu_text.h"
#include "tools/trace/pcs.h"
#include "tools/trace/table.h"

namespace tessera::tools {
namespace {

using rt::trace::DeoptRow;
using rt::trace::TraceEvent;
using rt::trace::VersionRow;

std::string TierText(int64_t tier) { return tier == 1 ? "replay" : absl::StrCat("tier ", tier); }
std::string GainText(double gain) { return gain > 0 ? absl::StrFormat("%.3gx", gain) : "-"; }

std::string OpsOf(const TraceData& data, const SiteSummary& site) {
  std::vector<std::pair<int64_t, int64_t>> ops;
  for (const auto& [op, tally] : site.ops) ops.emplace_back(-tally.ns, op);
  std::sort(ops.begin(), ops.end());
  std::string text;
  for (size_t i = 0; i < ops.size() && i < 3; ++i)
    absl::StrAppend(&text, i > 0 ? ", " : "", data.Name("op", ops[i].second));
  return ops.size() > 3 ? text + ", ..." : text;
}

std::string Head(const Analysis& a) {
  const TraceData& data = *a.data;
  std::string out;
  if (const std::string command = MetaOf(data, "command"); !command.empty())
    absl::StrAppend(&out, "program    ", command, "\n");
  if (const std::string options = MetaOf(data, "options"); !options.empty())
    absl::StrAppend(&out, "options    ", options, "\n");
  absl::StrAppend(&out, "recorded   ", TimeText(static_cast<double>(data.duration_ns)), ", ",
                  Count(static_cast<int64_t>(data.events.size()), "event"), ", ",
                  Count(static_cast<int64_t>(data.threads.size()), "thread"), ", ",
                  BytesText(static_cast<double>(data.bytes)), "\n");
  if (!data.is_complete)
    absl::StrAppend(&out,
                    "           the recording was cut off: the process ended, or the file could not be written\n");
  if (data.is_redacted)
    absl::StrAppend(&out, "           redacted: names are tokens; there are no sizes, sources or stages\n");
  if (data.lost > 0)
    absl::StrAppend(&out, "           ", Count(data.lost, "event"), " found no room and are missing\n");
  return out;
}

std::string Mix(const Analysis& a) {
  Table table({"what", ">time", ">share"});
  for (int i = 0; i < kNumLanes; ++i) {
    const int64_t ns = a.lane_ns[static_cast<size_t>(i)];
    if (ns == 0) continue;
    table.Row({kLanes[i].title, TimeText(static_cast<double>(ns)),
               ShareText(static_cast<double>(ns), static_cast<double>(a.data->duration_ns))});
  }
  if (a.main_idle_ns > 0)
    table.Row({"no op on the program's thread", TimeText(static_cast<double>(a.main_idle_ns)),
               ShareText(static_cast<double>(a.main_idle_ns), static_cast<double>(a.data->duration_ns))});
  return table.empty() ? "" : absl::StrCat("\nwhere the time went, of the recording's\n", table.Text());
}

std::string Findings(const Analysis& a, size_t rows) {
  if (a.findings.empty()) return "";
  std::string out = "\nwhat to look at first\n";
  for (size_t i = 0; i < a.findings.size() && i < rows; ++i) {
    const Finding& f = a.findings[i];
    absl::StrAppend(&out, "  ", i + 1, ". ", f.title,
                    f.cost_ns > 0 ? absl::StrCat(" (about ", TimeText(f.cost_ns), ")") : "", "\n     ", f.detail,
                    "\n     ", f.advice, "\n");
  }
  return out;
}

std::string PlacesTable(const Analysis& a, size_t rows) {
  Table table({"place", ">time", ">share", ">runs", ">each", "tier", ">versions", ">guards", ">deopts", ">gain",
               ">compile", ">saved"});
  for (size_t i = 0; i < a.places.size() && i < rows; ++i) {
    const PlaceSummary& p = a.places[i];
    table.Row({KeepEnd(p.name), TimeText(static_cast<double>(p.runs.ns)),
               ShareText(static_cast<double>(p.runs.ns), static_cast<double>(a.data->duration_ns)),
               absl::StrCat(p.runs.count), p.runs.count > 0 ? TimeText(Each(p.runs)) : "-",
               p.pinned.empty() ? TierText(p.tier) : "pinned", absl::StrCat(p.versions.size()), absl::StrCat(p.guards),
               absl::StrCat(p.deopts), GainText(p.gain), TimeText(static_cast<double>(p.compile_ns)),
               TimeText(p.saved_ns)});
  }
  return table.empty() ? "" : absl::StrCat("\ntraces, by the time in their versions\n", table.Text());
}

std::string OpsTable(const Analysis& a, size_t rows) {
  Table table({"op", ">time", ">share", ">calls", ">each", ">longest"});
  for (size_t i = 0; i < a.op_rows.size() && i < rows; ++i) {
    const OpSummary& op = a.op_rows[i];
    table.Row({a.data->Name("op", op.op), TimeText(static_cast<double>(op.runs.ns)),
               ShareText(static_cast<double>(op.runs.ns), static_cast<double>(a.data->duration_ns)),
               absl::StrCat(op.runs.count), TimeText(Each(op.runs)),
               TimeText(static_cast<double>(op.runs.longest_ns))});
  }
  return table.empty() ? "" : absl::StrCat("\nops in tier 1\n", table.Text());
}

std::string LinesTable(const Analysis& a, size_t rows) {
  Table table({"line", ">time", ">share", ">calls", ">each", "ops"});
  for (size_t i = 0; i < a.site_rows.size() && i < rows; ++i) {
    const SiteSummary& s = a.site_rows[i];
    const std::string name = a.data->SiteName(s.site);
    table.Row({name.empty() ? "not known" : KeepEnd(name), TimeText(static_cast<double>(s.runs.ns)),
               ShareText(static_cast<double>(s.runs.ns), static_cast<double>(a.data->duration_ns)),
               absl::StrCat(s.runs.count), TimeText(Each(s.runs)), OpsOf(*a.data, s)});
  }
  return table.empty() ? "" : absl::StrCat("\nsource lines in tier 1\n", table.Text());
}

std::string DeoptsTable(const Analysis& a, size_t rows) {
  Table table({"place", "reason", ">count", "guard", "expected", "seen", "what it means"});
  for (size_t i = 0; i < a.deopt_rows.size() && i < rows; ++i) {
    const DeoptSummary& d = a.deopt_rows[i];
    table.Row({KeepEnd(d.place), a.data->Name("deopt_reason", d.reason), absl::StrCat(d.count),
               d.last->guard >= 0 ? a.data->Name("guard", d.last->guard) : "-", KeepEnd(d.last->expected, 20),
               KeepEnd(d.last->seen, 20), a.data->Words("deopt_reason", d.reason)});
  }
  return table.empty() ? "" : absl::StrCat("\ndeopts, with what the last one expected and saw\n", table.Text());
}

std::string CompilesTable(const Analysis& a) {
  Table table({"part", ">times", ">time", ">longest", "what it is"});
  for (const auto& [stage, tally] : a.compile_stages)
    table.Row({a.data->Name("compile_stage", stage), absl::StrCat(tally.count), TimeText(static_cast<double>(tally.ns)),
               TimeText(static_cast<double>(tally.longest_ns)), a.data->Words("compile_stage", stage)});
  return table.empty() ? "" : absl::StrCat("\ngenerating code\n", table.Text());
}

std::string MemoryTable(const Analysis& a, size_t rows) {
  Table table({"memory of the", "what", ">times", ">bytes", ">time", ">longest", "why"});
  for (size_t i = 0; i < a.memory_rows.size() && i < rows; ++i) {
    const MemorySummary& row = a.memory_rows[i];
    table.Row({MemoryOf(row.gpu), row.is_taken ? "taken" : "given back", absl::StrCat(row.runs.count),
               BytesText(static_cast<double>(row.bytes)), TimeText(static_cast<double>(row.runs.ns)),
               TimeText(static_cast<double>(row.runs.longest_ns)), a.data->Words("memory_reason", row.reason)});
  }
  return table.empty() ? "" : absl::StrCat("\nmemory that pools took from the system and gave back\n", table.Text());
}

std::string AbortsTable(const Analysis& a, size_t rows) {
  Table table({"place", "reason", ">count", ">time", "what it means"});
  for (size_t i = 0; i < a.data->aborts.size() && i < rows; ++i) {
    const rt::trace::AbortRow& row = a.data->aborts[i];
    table.Row({KeepEnd(row.place), a.data->Name("trace_abort", row.reason), absl::StrCat(row.count),
               TimeText(static_cast<double>(row.ns)), a.data->Words("trace_abort", row.reason)});
  }
  return table.empty() ? ""
                       : absl::StrCat("\nrecordings that came to nothing, since the process began\n", table.Text());
}

void VersionText(const Analysis& a, const VersionSummary& v, std::string* out) {
  const VersionRow& row = *v.row;
  absl::StrAppend(out, "\nversion ", row.id, ": ", row.generator, ", ", row.rung, ", ", row.state, "\n");
  const auto line = [&](const char* what, const std::string& text) {
    if (!text.empty()) absl::StrAppend(out, absl::StrFormat("  %-12s", what), text, "\n");
  };
  line("why", row.cause);
  line("note", row.note);
  line("runs", absl::StrCat(row.runs, ", recorded ", v.runs.count, " in ", TimeText(static_cast<double>(v.runs.ns))));
  if (v.is_measured)
    line("one run",
         absl::StrCat(TimeText(v.run_ns), ", in tier 1 ", TimeText(v.tier1_ns), ": saved ", TimeText(v.saved_ns)));
  line("built in", absl::StrCat(TimeText(static_cast<double>(row.compile_ns)), "; pays ", v.break_even));
  if (v.refused > 0)
    line("refused", absl::StrCat(v.refused, v.refused == 1 ? " time" : " times",
                                 " where it begins, while another version of the place served"));
  int64_t told = 0;
  for (const rt::trace::RefusalRow& r : a.data->refusals) {
    if (r.version != row.id || ++told > 5) continue;
    std::string of = r.value >= 0 ? absl::StrCat(" of x", r.value) : "";
    if (r.dim >= 0) of = absl::StrCat(", dim ", r.dim, of);
    line("", absl::StrCat("guard ", r.guard >= 0 ? a.data->Name("guard", r.guard) : "not known", of, ": expected ",
                          KeepEnd(r.expected), ", seen ", KeepEnd(r.seen), "; version ", r.serves, " served"));
  }
  if (told > 5) line("", absl::StrCat("and ", told - 5, " more"));
  if (v.bridges > 0)
    line("bridges",
         absl::StrCat("left ", v.bridges, v.bridges == 1 ? " time" : " times", " for a bridge, not for tier 1"));
  for (const rt::trace::GuardRow& guard : row.guards) {
    const GuardCounts counts = CountsOf(a, row, guard);
    line("guard", absl::StrCat(guard.text, " (checked ", counts.checked, " times, failed ", counts.failed, ")"));
  }
}

}  // namespace

std::string ReportText(const Analysis& a, size_t rows) {
  return absl::StrCat(Head(a), Findings(a, 6), Mix(a), GpusText(a), KernelsTable(a, rows), PlacesTable(a, rows),
                      LinesTable(a, rows), OpsTable(a, rows), DeoptsTable(a, rows), AbortsTable(a, rows),
                      CompilesTable(a), MemoryTable(a, rows));
}

std::string TopText(const Analysis& a, TopBy by, size_t rows) {
  const std::string table = by == TopBy::op       ? OpsTable(a, rows)
                            : by == TopBy::line   ? LinesTable(a, rows)
                            : by == TopBy::kernel ? KernelsTable(a, rows)
                                                  : PlacesTable(a, rows);
  return table.empty() ? "nothing of that kind was recorded\n" : table.substr(1);
}

absl::StatusOr<std::string> ExplainTrace(const Analysis& a, const std::string& what, const std::string& stage) {
  int64_t id = 0;
  const bool is_number = absl::SimpleAtoi(what, &id);
  const PlaceSummary* place = nullptr;
  for (const PlaceSummary& p : a.places) {
    const bool has_trace = std::find(p.trace_ids.begin(), p.trace_ids.end(), id) != p.trace_ids.end();
    if (is_number ? has_trace : p.name == what) place = &p;
  }
  if (place == nullptr) {
    std::string known;
    for (const PlaceSummary& p : a.places)
      for (const int64_t t : p.trace_ids) absl::StrAppend(&known, known.empty() ? "" : ", ", t, " (", p.name, ")");
    return NotFound("there is no trace ", what, " in the file",
                    known.empty() ? ": nothing got hot while it was recorded" : absl::StrCat("; there are ", known));
  }
  if (!stage.empty()) {
    std::string names;
    for (const rt::trace::StageRow& row : a.data->stages) {
      const auto mine = [&](size_t v) { return a.versions[v].row->id == row.version; };
      if (std::none_of(place->versions.begin(), place->versions.end(), mine)) continue;
      if (row.stage == stage) return absl::StrCat("version ", row.version, ", ", stage, ":\n", row.text);
      absl::StrAppend(&names, names.empty() ? "" : ", ", row.stage);
    }
    return NotFound("the file has no stage ", stage, " of ", place->name,
                    names.empty() ? ": no code was generated, or there was no time for its text (option trace_stages)"
                                  : absl::StrCat("; it has ", names));
  }
  std::string out = absl::StrCat(place->name, "\n");
  if (!place->pinned.empty()) absl::StrAppend(&out, "stays in tier 1: ", place->pinned, "\n");
  absl::StrAppend(&out, Count(place->runs.count, "run"), " recorded in ", TimeText(static_cast<double>(place->runs.ns)),
                  ", ", Count(static_cast<int64_t>(place->versions.size()), "version"), ", ",
                  Count(place->deopts, "deopt"),
                  place->gain > 0 ? absl::StrCat(", ", GainText(place->gain), " of tier 1's speed") : "", "\n");
  for (const int64_t trace_id : place->trace_ids) {
    const rt::trace::TraceRow* trace = a.data->FindTrace(trace_id);
    if (trace == nullptr || (is_number && trace_id != id)) continue;
    absl::StrAppend(&out, "\ntrace ", trace_id, ": ", Count(static_cast<int64_t>(trace->steps.size()), "step"), " on ",
                    trace->device, ", ", TimeText(static_cast<double>(trace->tier1_ns)), " in tier 1\n");
    for (const rt::trace::StepRow& step : trace->steps) absl::StrAppend(&out, "  ", step.text, "\n");
  }
  for (const size_t v : place->versions) VersionText(a, a.versions[v], &out);
  absl::StrAppend(&out, KernelsOfPlace(a, place->name, 20), PcsOfPlace(a, *place, 5));
  std::string names;
  for (const rt::trace::StageRow& row : a.data->stages) {
    const auto mine = [&](size_t v) { return a.versions[v].row->id == row.version; };
    if (std::any_of(place->versions.begin(), place->versions.end(), mine))
      absl::StrAppend(&names, names.empty() ? "" : ", ", row.stage == "cubin" ? "sass" : row.stage, " of version ",
                      row.version);
  }
  if (!names.empty()) absl::StrAppend(&out, "\nstages (--stage NAME): ", names, "\n");
  Table deopts({">at", ">version", "reason", "guard", "expected", "seen", "policy"});
  for (const DeoptRow& d : a.data->deopts)
    if (d.place == place->name)
      deopts.Row({TimeText(static_cast<double>(d.ticks)), absl::StrCat(d.version),
                  a.data->Name("deopt_reason", d.reason), d.guard >= 0 ? a.data->Name("guard", d.guard) : "-",
                  KeepEnd(d.expected), KeepEnd(d.seen), d.policy});
  if (!deopts.empty()) absl::StrAppend(&out, "\ndeopts\n", deopts.Text());
  return out;
}

std::string DiffText(const Analysis& before, const Analysis& after, size_t rows) {
  std::string out;
  const auto ratio = [](double x, double y) {
    return x > 0 && y > 0 ? absl::StrFormat("%.3gx", y / x) : std::string("-");
  };
  Table totals({"what", ">before", ">after", ">ratio"});
  const auto time = [&](const char* what, int64_t x, int64_t y) {
    if (x != 0 || y != 0)
      totals.Row({what, TimeText(static_cast<double>(x)), TimeText(static_cast<double>(y)),
                  ratio(static_cast<double>(x), static_cast<double>(y))});
  };
  const auto count = [&](const char* what, int64_t x, int64_t y) {
    if (x != 0 || y != 0)
      totals.Row({what, absl::StrCat(x), absl::StrCat(y), ratio(static_cast<double>(x), static_cast<double>(y))});
  };
  time("recording", before.data->duration_ns, after.data->duration_ns);
  for (int i = 0; i < kNumLanes; ++i)
    time(kLanes[i].title, before.lane_ns[static_cast<size_t>(i)], after.lane_ns[static_cast<size_t>(i)]);
  count("ops in tier 1", before.ops.count, after.ops.count);
  count("runs of versions", before.version_runs.count, after.version_runs.count);
  count("versions", static_cast<int64_t>(before.versions.size()), static_cast<int64_t>(after.versions.size()));
  count("deopts", before.deopts.count, after.deopts.count);
  const auto idle = [](const Analysis& a) {
    int64_t ns = 0;
    for (const GpuSummary& gpu : a.gpus) ns = Sum(ns, gpu.idle_ns);
    return ns;
  };
  time("GPUs busy", before.gpu_busy_ns, after.gpu_busy_ns);
  time("GPUs idle", idle(before), idle(after));
  absl::StrAppend(&out, totals.Text());

  struct Pair {
    Tally before, after;
    double change() const { return static_cast<double>(after.ns) - static_cast<double>(before.ns); }
  };
  const auto table = [&](const char* title, const char* what, const std::map<std::string, Pair>& pairs,
                         size_t width = kPlaceWidth) {
    std::vector<const std::pair<const std::string, Pair>*> order;
    for (const auto& pair : pairs) order.push_back(&pair);
    rt::trace::SortStably(&order, [](const auto* x, const auto* y) {
      return std::abs(x->second.change()) > std::abs(y->second.change());
    });
    Table t({what, ">calls before", ">after", ">time before", ">after", ">change", ">each"});
    for (size_t i = 0; i < order.size() && i < rows; ++i) {
      const Pair& p = order[i]->second;
      t.Row({KeepEnd(order[i]->first, width), absl::StrCat(p.before.count), absl::StrCat(p.after.count),
             TimeText(static_cast<double>(p.before.ns)), TimeText(static_cast<double>(p.after.ns)),
             absl::StrCat(p.change() > 0 ? "+" : "", TimeText(p.change())), ratio(Each(p.before), Each(p.after))});
    }
    if (!t.empty()) absl::StrAppend(&out, "\n", title, "\n", t.Text());
  };
  std::map<std::string, Pair> places, ops, lines, kernels;
  for (const bool is_after : {false, true}) {
    const Analysis& a = is_after ? after : before;
    const auto side = [&](Pair& p) -> Tally& { return is_after ? p.after : p.before; };
    for (const PlaceSummary& p : a.places) side(places[p.name]).Add(p.runs.ns, p.runs.count);
    for (const OpSummary& op : a.op_rows) side(ops[a.data->Name("op", op.op)]).Add(op.runs.ns, op.runs.count);
    for (const SiteSummary& s : a.site_rows) side(lines[a.data->SiteName(s.site)]).Add(s.runs.ns, s.runs.count);
    // Versions have other numbers in another run.
    for (const KernelSummary& k : a.kernels)
      if (IsWork(k.kind))
        side(kernels[k.line.empty() ? KeepStart(k.name) : absl::StrCat(KeepStart(k.name), " at ", k.line)])
            .Add(k.runs.ns, k.runs.count);
  }
  table("traces that changed most", "place", places);
  table("kernels of GPUs that changed most", "kernel", kernels, 60);
  table("source lines in tier 1 that changed most", "line", lines);
  table("ops in tier 1 that changed most", "op", ops);
  return out;
}

std::string EventsText(const Analysis& a, bool times) {
  const TraceData& data = *a.data;
  std::string out;
  std::vector<TraceEvent> events = data.events;
  if (!times) {
    std::sort(events.begin(), events.end(), [](const TraceEvent& x, const TraceEvent& y) {
      return x.thread != y.thread ? x.thread < y.thread : x.order < y.order;
    });
  }
  size_t activity = 0;
  const auto activities = [&](int64_t until) {
    for (; activity < data.activities.size() && data.activities[activity].start_ns < until; ++activity)
      absl::StrAppend(&out, ActivityText(a, activity, times));
  };
  for (const TraceEvent& e : events) {
    if (times) activities(e.start_ns);
    const rt::EventInfo& info = rt::kEvents[static_cast<int>(e.kind)];
    if (times) absl::StrAppend(&out, absl::StrFormat("%14.3f us ", static_cast<double>(e.start_ns) / 1000));
    absl::StrAppend(&out, "[", e.thread, "] ", std::string(info.name));
    if (times && info.form == rt::EventForm::slice) absl::StrAppend(&out, " ", TimeText(static_cast<double>(e.ns)));
    const std::string label = LabelOf(data, e);
    if (label != info.name) absl::StrAppend(&out, " ", label);
    const auto word = [&](std::string_view what, int64_t value) {
      if (what.empty() || what.ends_with(" number")) return;  // those have names, in the label
      if (what == "site") {
        if (const std::string name = data.SiteName(value); !name.empty() && name != label)
          absl::StrAppend(&out, " at ", name);
      } else {
        absl::StrAppend(&out, ", ", std::string(what), " ", value);
      }
    };
    word(info.a, e.a);
    word(info.b, e.b);
    word(info.c, e.c);
    out += "\n";
  }
  if (times) {
    activities(INT64_MAX);
    return out;
  }
  // What ran, in the order of each stream; who waited how often depends on the machine.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<size_t>> streams;
  for (size_t i = 0; i < data.activities.size(); ++i)
    if (IsWork(data.activities[i].kind)) streams[{data.activities[i].gpu, data.activities[i].stream}].push_back(i);
  for (const auto& [stream, rows] : streams)
    for (const size_t i : rows) absl::StrAppend(&out, ActivityText(a, i, false));
  return out;
}

}  // namespace tessera::tools
