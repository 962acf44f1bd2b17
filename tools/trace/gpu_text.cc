#include "tools/trace/gpu_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/trace/table.h"

namespace tessera::tools {
namespace {

using rt::ActivityKind;

std::string Time(int64_t ns) { return TimeText(static_cast<double>(ns)); }
std::string Share(int64_t part, int64_t whole) {
  return ShareText(static_cast<double>(part), static_cast<double>(whole));
}
std::string Percent(double share) { return share > 0 ? absl::StrFormat("%.0f %%", 100 * share) : "-"; }

// A guess is marked as one.
std::string Rate(const KernelSummary& k, double rate, std::string (*text)(double)) {
  return rate > 0 ? absl::StrCat(k.work.is_guess ? "~" : "", text(rate)) : "-";
}

std::string ResourcesText(const KernelSummary& k) {
  std::string text = absl::StrCat(k.row->blocks, " blocks of ", k.row->threads, " threads, ", k.row->registers,
                                  " registers, ", BytesText(static_cast<double>(k.row->shared_bytes)), " shared");
  if (k.occupancy.blocks > 0)
    absl::StrAppend(&text, "; occupancy ", Percent(k.occupancy.share), ", limited by ", k.occupancy.limited_by);
  if (k.grids > 1) absl::StrAppend(&text, "; ", k.grids, " grids, this one had most of the time");
  return text;
}

}  // namespace

std::string GpusText(const Analysis& a) {
  std::string out;
  const auto line = [&](const char* what, const std::string& text) {
    absl::StrAppend(&out, absl::StrFormat("  %-18s", what), text, "\n");
  };
  for (const GpuSummary& gpu : a.gpus) {
    const int64_t span = gpu.last_ns - gpu.first_ns;
    absl::StrAppend(&out, "\nGPU ", gpu.number, ": ", gpu.name, ", ",
                    Count(static_cast<int64_t>(gpu.streams.size()), "stream"), "\n");
    line("busy", absl::StrCat(Time(gpu.busy_ns), " of ", Time(span), ", ", Share(gpu.busy_ns, span)));
    const auto gaps = [&](const char* what, const Tally& t, const char* why) {
      if (t.count > 0)
        line(what,
             absl::StrCat(Time(t.ns), " in ", Count(t.count, "gap"), ", the longest ", Time(t.longest_ns), ": ", why));
    };
    gaps("idle, host", gpu.host_gaps, "what comes next had not been launched");
    if (gpu.waited_gaps.count > 0)
      line("  of those", absl::StrCat(Time(gpu.waited_gaps.ns), " in ", Count(gpu.waited_gaps.count, "gap"),
                                      " after the program had waited for the device"));
    gaps("idle, device", gpu.device_gaps, "what comes next had been launched");
    gaps("idle", gpu.unknown_gaps, "when the next thing was launched is not known");
    if (gpu.launch_to_start.count > 0)
      line("launch to start", absl::StrCat(TimeText(Each(gpu.launch_to_start)), " on an idle GPU, at most ",
                                           Time(gpu.launch_to_start.longest_ns)));
    for (size_t i = 0; i < std::size(rt::kActivities); ++i) {
      const Tally& t = gpu.kinds[i];
      if (t.count == 0) continue;
      std::string text = absl::StrCat(t.count, " in ", Time(t.ns));
      if (gpu.bytes[i] > 0)
        absl::StrAppend(&text, ", ", BytesText(static_cast<double>(gpu.bytes[i])), ", ",
                        RateText(static_cast<double>(gpu.bytes[i]) / std::max(static_cast<double>(t.ns) / 1e9, 1e-9)));
      line(std::string(rt::kActivities[i].name).c_str(), text);
    }
    for (const std::string& link : LinksOf(*a.data, gpu.number)) line("NVLink", link);
    if (gpu.most_bytes > 0) line("memory", absl::StrCat(BytesText(static_cast<double>(gpu.most_bytes)), " at most"));
  }
  if (!out.empty() && a.data->gpu_lost > 0)
    absl::StrAppend(&out, "  ", Count(a.data->gpu_lost, "record"), " found no room and are missing\n");
  if (const std::string how = MetaOf(*a.data, "gpu"); !how.empty() && !out.empty())
    absl::StrAppend(&out, "  recorded by ", how, "\n");
  if (const std::string measured = MetaOf(*a.data, "measures"); !measured.empty() && !out.empty())
    absl::StrAppend(&out, "  counters were read of ", measured, "\n");
  return out;
}

std::string KernelsTable(const Analysis& a, size_t rows) {
  Table table({"kernel", "launched by", ">time", ">share", ">launches", ">each", ">longest", ">bytes", ">arithmetic",
               ">of peak", "what holds it up"});
  size_t shown = 0;
  for (const KernelSummary& k : a.kernel_rows) {
    if (!IsWork(k.kind)) continue;
    if (++shown > rows) break;
    table.Row({KeepStart(k.name, 40), KeepEnd(OwnerText(k), 60), Time(k.runs.ns), Share(k.runs.ns, a.gpu_busy_ns),
               absl::StrCat(k.runs.count), TimeText(k.each_ns()), Time(k.runs.longest_ns),
               Rate(k, k.bytes_per_s, RateText), Rate(k, k.flops, FlopsText), Percent(k.roofline_share()),
               k.verdicts.empty() ? "" : k.verdicts[0].words});
  }
  return table.empty() ? "" : absl::StrCat("\nkernels and copies of GPUs, by time\n", table.Text());
}

std::string KernelsOfPlace(const Analysis& a, const std::string& place, size_t rows) {
  std::string out;
  size_t shown = 0;
  for (const KernelSummary& k : a.kernel_rows) {
    if (k.owner != rt::ActivityOwner::Kind::step || k.place != place || !IsWork(k.kind)) continue;
    if (++shown > rows) continue;
    absl::StrAppend(&out, "  ", k.name, "\n    by          ", OwnerText(k),
                    k.what.empty() ? "" : absl::StrCat(": ", k.what), "\n    time        ", Time(k.runs.ns), " in ",
                    absl::StrCat(k.runs.count, k.runs.count == 1 ? " launch" : " launches"), ", each ",
                    TimeText(k.each_ns()), ", longest ", Time(k.runs.longest_ns), "\n");
    if (k.row != nullptr) absl::StrAppend(&out, "    launched as ", ResourcesText(k), "\n");
    if (k.bytes_per_s > 0 || k.flops > 0)
      absl::StrAppend(&out, "    reaches     ", Rate(k, k.bytes_per_s, RateText), " (", Percent(k.memory_share),
                      " of the memory's rate), ", Rate(k, k.flops, FlopsText), " (", Percent(k.compute_share),
                      " of the peak)\n");
    for (const Verdict& v : k.verdicts) absl::StrAppend(&out, "    ", v.words, ": ", v.advice, "\n");
  }
  if (out.empty()) return out;
  if (shown > rows) absl::StrAppend(&out, "  and ", shown - rows, " more\n");
  return absl::StrCat("\nkernels on GPUs\n", out);
}

std::string ActivityText(const Analysis& a, size_t i, bool times) {
  const rt::trace::GpuActivity& activity = a.data->activities[i];
  const KernelSummary& k = a.kernels[a.kernel_of[i]];
  std::string out;
  if (times) absl::StrAppend(&out, absl::StrFormat("%14.3f us ", static_cast<double>(activity.start_ns) / 1000));
  absl::StrAppend(&out, "[gpu ", activity.gpu, " stream ", activity.stream, "] ",
                  std::string(rt::kActivities[static_cast<size_t>(activity.kind)].name));
  if (times) absl::StrAppend(&out, " ", Time(activity.ns));
  if (activity.kind == ActivityKind::kernel) absl::StrAppend(&out, " ", k.name);
  if (const std::string owner = OwnerText(k); !owner.empty()) absl::StrAppend(&out, ", ", owner);
  if (activity.bytes > 0) absl::StrAppend(&out, ", bytes ", activity.bytes);
  if (activity.in_graph) absl::StrAppend(&out, ", in a graph");
  return out + "\n";
}

}  // namespace tessera::tools
