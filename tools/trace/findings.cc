// What to look at first. Each rule names one thing that costs time, in measured nanoseconds where they are known, and
// says what would help. The costliest come first.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/trace/sort.h"
#include "tools/trace/analysis.h"

namespace tessera::tools {
namespace {

/// Below this part of the recording nothing is worth a person's attention.
constexpr double kLeastShare = 0.01;
/// A trace of so few steps has little to gain.
constexpr int64_t kFewSteps = 12;

class Rules {
 public:
  explicit Rules(Analysis* analysis) : a_(*analysis), whole_(static_cast<double>(analysis->data->duration_ns)) {}

  void Run() {
    Slower();
    Pinned();
    Pieces();
    ManyDeopts();
    NotPaidOff();
    HotInTier1();
    Host();
    Aborts();
    GpuHostBound();
    GpuRunsDry();
    TinyKernels();
    SlowKernels();
    GpuCopies();
    Memory();
    Lost();
    Overhead();
    GpuRecords();
    rt::trace::SortStably(&a_.findings, [](const Finding& x, const Finding& y) { return x.cost_ns > y.cost_ns; });
  }

 private:
  void Add(double cost, std::string title, std::string detail, std::string advice, std::string place = "",
           bool always = false) {
    if (!always && cost < kLeastShare * whole_) return;
    a_.findings.push_back({cost, std::move(title), std::move(detail), std::move(advice), std::move(place)});
  }
  std::string Share(double ns) const { return ShareText(ns, whole_); }

  void Slower() {
    for (const VersionSummary& v : a_.versions) {
      if (!v.is_measured || v.saved_ns >= 0) continue;
      Add(-v.saved_ns, absl::StrCat("Version ", v.row->id, " of ", v.row->place, " was slower than tier 1"),
          absl::StrCat("one run took ", TimeText(v.run_ns), " where tier 1 takes ", TimeText(v.tier1_ns), "; ",
                       v.row->runs, " runs lost ", TimeText(-v.saved_ns), " (", v.row->generator, ", ", v.row->rung,
                       ")"),
          v.tier == 1
              ? "a replay pays where ops are small; generated code replaces it after the option compile_after, "
                "and a lower one makes that sooner"
              : "compare its report with its kernels' rooflines; the option schedule cuts its products otherwise",
          v.row->place);
    }
  }

  /// The time of ops in tier 1 within the function of a place such as "@step:10".
  double InTier1(const std::string& place) const {
    const std::string function = place.starts_with("@") ? place.substr(1, place.rfind(':') - 1) : "";
    double ns = 0;
    for (const SiteSummary& site : a_.site_rows) {
      const auto it = a_.data->site_index.find(site.site);
      if (it == a_.data->site_index.end()) continue;
      const rt::trace::SiteRow& row = a_.data->sites[it->second];
      if (function.empty() ? a_.data->SiteName(site.site) == place : row.function == function)
        ns += static_cast<double>(site.runs.ns);
    }
    return ns;
  }

  void Pinned() {
    for (const PlaceSummary& place : a_.places) {
      if (place.pinned.empty()) continue;
      const double ns = InTier1(place.name);
      int64_t steps = 0;
      for (const size_t v : place.versions) steps = std::max(steps, a_.versions[v].row->steps);
      const bool is_short = steps > 0 && steps <= kFewSteps;
      Add(ns, absl::StrCat(place.name, " stays in tier 1"),
          absl::StrCat(place.pinned, "; its ops took ", TimeText(ns), " in tier 1"),
          is_short
              ? absl::StrCat("its trace has only ", steps,
                             " steps: something ends it there, such as an `if` or a print that reads a value; in a "
                             "longer one there is more to fuse")
              : "its ops run one by one from then on: tessera explain tells what the words mean",
          place.name);
    }
  }

  // Eager traces that end at a read: what comes after it is another trace.
  void Pieces() {
    std::string names;
    int64_t pieces = 0, steps = 0;
    double ns = 0;
    for (const PlaceSummary& place : a_.places) {
      bool ends = false;
      for (const int64_t id : place.trace_ids) {
        const rt::trace::TraceRow* trace = a_.data->FindTrace(id);
        if (trace == nullptr || trace->is_eager == 0) continue;
        ends = trace->end == "stopped";
        if (ends) steps = std::max(steps, static_cast<int64_t>(trace->steps.size()));
      }
      if (!ends) continue;
      if (++pieces <= 4) absl::StrAppend(&names, names.empty() ? "" : ", ", place.name);
      ns += static_cast<double>(place.runs.ns) + (place.pinned.empty() ? 0 : InTier1(place.name));
    }
    if (pieces < 2) return;
    Add(ns / 2, absl::StrCat("The program runs in ", pieces, " pieces: ", names, pieces > 4 ? ", ..." : ""),
        absl::StrCat("their traces have at most ", steps,
                     " steps, because each ends where the program reads a value: an `if`, a print, item() or read()"),
        "what is on the two sides of a read is never fused, and the read waits for all before it: read less often, or "
        "in "
        "the end");
  }

  void ManyDeopts() {
    for (const DeoptSummary& row : a_.deopt_rows) {
      if (row.count < 8) continue;
      // What a deopt costs is what the version would have saved.
      double each = 0;
      for (const PlaceSummary& place : a_.places)
        if (place.name == row.place && place.runs.count > 0 && place.gain > 1)
          each = static_cast<double>(place.runs.ns) / static_cast<double>(place.runs.count) * (place.gain - 1);
      const rt::trace::DeoptRow& last = *row.last;
      const bool shapes = a_.data->Name("deopt_reason", row.reason) == "shape";
      Add(std::max(each, 5e3) * static_cast<double>(row.count),
          absl::StrCat(row.count, " deopts of ", row.place, ": ", a_.data->Name("deopt_reason", row.reason)),
          absl::StrCat(a_.data->Words("deopt_reason", row.reason),
                       last.expected.empty() && last.seen.empty()
                           ? ""
                           : absl::StrCat("; last expected ", last.expected, ", seen ", last.seen)),
          shapes
              ? "shapes that change are served by a wider version after the option deopt_generalise; let few of them "
                "differ, or mark the dim in the function's types"
              : "look at the source line of the guard, and at what differs there from call to call",
          row.place);
    }
  }

  void NotPaidOff() {
    double compile = 0, saved = 0;
    for (const VersionSummary& v : a_.versions) {
      compile += static_cast<double>(v.row->compile_ns);
      saved += v.saved_ns;
    }
    if (compile <= saved) return;
    Add(compile - std::max(saved, 0.0), "Building versions cost more than they have saved",
        absl::StrCat(TimeText(compile), " of building, in the background, against ", TimeText(saved), " saved in ",
                     a_.versions.size(), " versions"),
        "it pays in longer runs; a code cache on disk (option cache) and a profile (Runtime::save_profile) spare it "
        "the "
        "next time");
  }

  void HotInTier1() {
    if (a_.site_rows.empty()) return;
    const SiteSummary& site = a_.site_rows[0];
    const auto top = std::max_element(site.ops.begin(), site.ops.end(),
                                      [](const auto& x, const auto& y) { return x.second.ns < y.second.ns; });
    const std::string name = a_.data->SiteName(site.site);
    const auto cost = static_cast<double>(site.runs.ns);
    if (cost < 0.1 * whole_) return;
    Add(cost / 2, absl::StrCat(name.empty() ? "One place" : name, " is the hottest line in tier 1"),
        absl::StrCat(a_.data->Name("op", top->first), " and others there took ", TimeText(cost), " in ",
                     site.runs.count, " calls, ", Share(cost), " of the recording"),
        "if it repeats, it should be in a version: see deopts, pinned places and aborted recordings for why it is not");
  }

  void Host() {
    const auto idle = static_cast<double>(a_.main_idle_ns);
    if (idle < 0.5 * whole_) return;
    // Then the device is what takes the time, and the host may well wait.
    for (const GpuSummary& gpu : a_.gpus)
      if (static_cast<double>(gpu.busy_ns) > 0.7 * whole_) return;
    Add(idle / 4, absl::StrCat("No op ran on the program's thread for ", Share(idle), " of the time"),
        absl::StrCat(TimeText(idle), " between ops: the program itself, its data, or waiting"),
        "look at the gaps of the timeline; TraceSpan names stretches of the program");
  }

  void Aborts() {
    for (const rt::trace::AbortRow& row : a_.data->aborts) {
      if (row.count < 2) continue;
      Add(std::max(static_cast<double>(row.ns), kLeastShare * whole_),
          absl::StrCat(row.count, " recordings at ", row.place,
                       " came to nothing: ", a_.data->Name("trace_abort", row.reason)),
          a_.data->Words("trace_abort", row.reason), "what ends the trace there keeps it from being compiled",
          row.place);
    }
  }

  // What is served from what a pool holds already costs nothing: what a program that goes round and round still asks
  // the system for is asked for in vain.
  void Memory() {
    Tally all;
    const MemorySummary* most = nullptr;
    for (const MemorySummary& row : a_.memory_rows) {
      all.Add(row.runs.ns, row.runs.count);
      if (most == nullptr) most = &row;  // they come by time
    }
    if (most == nullptr) return;
    Add(static_cast<double>(all.ns),
        absl::StrCat("Memory was taken from the system and given back ", all.count, " times"),
        absl::StrCat(TimeText(static_cast<double>(all.ns)), " in all; most of it, ",
                     TimeText(static_cast<double>(most->runs.ns)), " for ", BytesText(static_cast<double>(most->bytes)),
                     ", because ", a_.data->Words("memory_reason", most->reason)),
        "at the start that is as it must be; where it goes on, let pools keep more (options memory_cache_bytes and "
        "cuda_cache_bytes, or a higher limit)");
  }

  void Lost() {
    if (a_.data->lost == 0) return;
    Add(0, absl::StrCat(a_.data->lost, " events were lost"),
        "threads made them faster than they could be written: times and counts here are too low",
        "record for a shorter time, or on a machine with a core to spare", "", true);
  }

  // ---- GPUs

  std::string NameOf(const KernelSummary& k) const {
    const std::string owner = OwnerText(k);
    return absl::StrCat(k.name.substr(0, 60), owner.empty() ? "" : absl::StrCat(" (", owner, ")"));
  }

  void GpuHostBound() {
    for (const GpuSummary& gpu : a_.gpus) {
      const auto ns = static_cast<double>(gpu.host_gaps.ns) - static_cast<double>(gpu.waited_gaps.ns);
      const auto span = static_cast<double>(gpu.last_ns) - static_cast<double>(gpu.first_ns);
      if (ns < 0.05 * span) continue;
      const GpuGap* longest = nullptr;
      for (const GpuGap& gap : gpu.longest_gaps)
        if (gap.why == GpuGap::Why::host && longest == nullptr) longest = &gap;
      Add(ns,
          absl::StrCat("GPU ", gpu.number, " was idle for ", ShareText(ns, span), " of its time: the host is behind"),
          absl::StrCat(TimeText(ns), " in ", gpu.host_gaps.count - gpu.waited_gaps.count,
                       " gaps before something that was launched only then",
                       longest != nullptr ? absl::StrCat("; the longest, ", TimeText(static_cast<double>(longest->ns)),
                                                         ", before ", NameOf(a_.kernels[longest->after]))
                                          : ""),
          "versions launch their steps faster than tier 1, and graphs launch them at once; look at what the program's "
          "thread does in the gaps of the timeline",
          longest != nullptr ? a_.kernels[longest->after].place : "");
    }
  }

  void GpuRunsDry() {
    for (const GpuSummary& gpu : a_.gpus) {
      const auto ns = static_cast<double>(gpu.waited_gaps.ns);
      if (gpu.waited_gaps.count < 2) continue;
      const GpuGap* longest = nullptr;
      for (const GpuGap& gap : gpu.longest_gaps)
        if (gap.why == GpuGap::Why::waited && longest == nullptr) longest = &gap;
      Add(ns,
          absl::StrCat("GPU ", gpu.number, " ran dry ", gpu.waited_gaps.count,
                       " times because the program waited for it"),
          absl::StrCat(TimeText(ns), " between the end of a wait and what was launched next",
                       longest != nullptr ? absl::StrCat("; the last thing before the longest was ",
                                                         NameOf(a_.kernels[longest->before]))
                                          : ""),
          "a value that is read (item(), read(), a print, an `if`) makes the host wait for all before it: read less "
          "often, or launch the next step before reading");
    }
  }

  void TinyKernels() {
    for (const GpuSummary& gpu : a_.gpus) {
      const auto all = static_cast<double>(gpu.kinds[static_cast<size_t>(rt::ActivityKind::kernel)].count);
      if (gpu.tiny.count < 100 || static_cast<double>(gpu.tiny.count) < 0.5 * all) continue;
      const double cost = static_cast<double>(gpu.tiny.count) * static_cast<double>(kTinyNs) / 2;
      Add(cost,
          absl::StrCat(ShareText(static_cast<double>(gpu.tiny.count), all), " of the kernels on GPU ", gpu.number,
                       " are shorter than ", TimeText(static_cast<double>(kTinyNs))),
          absl::StrCat(gpu.tiny.count, " kernels in ", TimeText(static_cast<double>(gpu.tiny.ns)),
                       ": a launch costs as much as they do"),
          "larger batches, or code that fuses them: see which places are not compiled");
    }
  }

  // Kernels with much time that are far from what the machine could.
  void SlowKernels() {
    int said = 0;
    for (const KernelSummary& k : a_.kernel_rows) {
      if (k.kind != rt::ActivityKind::kernel || k.verdicts.empty()) continue;
      if (static_cast<double>(k.runs.ns) < 0.05 * static_cast<double>(a_.gpu_busy_ns)) break;  // they come by time
      const double share = k.roofline_share();
      if (share <= 0 || share >= 0.5 || k.work.is_guess || said >= 3) continue;
      ++said;
      Add(static_cast<double>(k.runs.ns) * (1 - share) / 2,
          absl::StrCat(NameOf(k), " runs at ", ShareText(share, 1), " of what the GPU could"),
          absl::StrCat(TimeText(static_cast<double>(k.runs.ns)), " in ", k.runs.count, " launches; ",
                       k.verdicts[0].words),
          k.verdicts[0].advice, k.place);
    }
  }

  void GpuCopies() {
    for (const GpuSummary& gpu : a_.gpus) {
      for (const rt::ActivityKind kind : {rt::ActivityKind::copy_in, rt::ActivityKind::copy_out}) {
        const Tally& t = gpu.kinds[static_cast<size_t>(kind)];
        if (static_cast<double>(t.ns) < 0.1 * static_cast<double>(gpu.busy_ns)) continue;
        const KernelSummary* most = nullptr;
        for (const KernelSummary& k : a_.kernel_rows)
          if (k.gpu == gpu.number && k.kind == kind && most == nullptr) most = &k;
        Add(static_cast<double>(t.ns),
            absl::StrCat(kind == rt::ActivityKind::copy_in ? "Copies from the host" : "Copies to the host", " are ",
                         ShareText(static_cast<double>(t.ns), static_cast<double>(gpu.busy_ns)), " of the time of GPU ",
                         gpu.number),
            absl::StrCat(
                t.count, " copies of ", BytesText(static_cast<double>(gpu.bytes[static_cast<size_t>(kind)])),
                most != nullptr && !OwnerText(*most).empty() ? absl::StrCat(", most by ", OwnerText(*most)) : ""),
            "keep values on the device, copy fewer and larger pieces, and narrow them before the copy",
            most != nullptr ? most->place : "");
      }
    }
  }

  // What CUPTI takes of the program's threads while it records.
  void Overhead() {
    double ns = 0;
    for (const GpuSummary& gpu : a_.gpus)
      ns += static_cast<double>(gpu.kinds[static_cast<size_t>(rt::ActivityKind::overhead)].ns);
    if (ns < 0.05 * whole_) return;
    Add(0, absl::StrCat("CUPTI itself took ", TimeText(ns), ", ", Share(ns), " of the recording"),
        "times of the host, and idle time of GPUs, are longer here than without a recording",
        "times of kernels are right all the same; compare whole steps with a run that is not recorded", "", true);
  }

  void GpuRecords() {
    if (a_.data->gpu_lost > 0)
      Add(0, absl::StrCat(a_.data->gpu_lost, " records of GPUs were lost"),
          "CUPTI had no room for them: times and counts of kernels here are too low", "record for a shorter time", "",
          true);
    bool stretches = false;
    for (const GpuSummary& gpu : a_.gpus)
      stretches |= gpu.kinds[static_cast<size_t>(rt::ActivityKind::stretch)].count > 0;
    const std::string how = MetaOf(*a_.data, "gpu");
    if (a_.gpus.empty() && !a_.data->gpus.empty() && !how.empty())
      Add(0, "A GPU was there, and nothing that ran on it was recorded", how,
          "ops and versions have the time that the host spent on them", "", true);
    if (stretches)
      Add(0, "There are no times of single kernels: CUPTI could not be used",
          how.empty() ? "what each op or run did was timed between two events of its stream" : how,
          "another profiler may hold it, or it is of another version than the driver's; events say less, and are "
          "right to about a microsecond",
          "", true);
  }

  Analysis& a_;
  const double whole_;
};

}  // namespace

void FindWhatMatters(Analysis* analysis) { Rules(analysis).Run(); }

}  // namespace tessera::tools
