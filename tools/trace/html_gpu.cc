#include "tools/trace/html_gpu.h"

#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/trace/work.h"

namespace tessera::tools {
namespace {

using rt::trace::GpuActivity;

std::string LabelOf(const KernelSummary& k) {
  const std::string owner = OwnerText(k);
  return absl::StrCat(k.name, owner.empty() ? "" : absl::StrCat(" · ", owner),
                      k.place.empty() ? "" : absl::StrCat(" of ", k.place));
}

void WriteTally(const Tally& t, Json* json) {
  json->Open('[').Number(t.count).Number(t.ns).Number(t.longest_ns).Close(']');
}

void WriteGpu(const Analysis& a, const GpuSummary& gpu, Json* json) {
  json->Open('{').Key("number").Number(gpu.number).Key("name").Text(gpu.name);
  json->Key("span").Number(gpu.last_ns - gpu.first_ns).Key("busy").Number(gpu.busy_ns).Key("idle").Number(gpu.idle_ns);
  json->Key("streams").Number(static_cast<int64_t>(gpu.streams.size())).Key("links").Open('[');
  for (const std::string& link : LinksOf(*a.data, gpu.number)) json->Text(link);
  json->Close(']');
  json->Key("host");
  WriteTally(gpu.host_gaps, json);
  json->Key("waited");
  WriteTally(gpu.waited_gaps, json);
  json->Key("device");
  WriteTally(gpu.device_gaps, json);
  json->Key("unknown");
  WriteTally(gpu.unknown_gaps, json);
  json->Key("launch");
  WriteTally(gpu.launch_to_start, json);
  json->Key("kinds").Open('[');
  for (size_t i = 0; i < std::size(rt::kActivities); ++i) {
    if (gpu.kinds[i].count == 0) continue;
    json->Open('[').Text(rt::kActivities[i].name).Number(gpu.kinds[i].count).Number(gpu.kinds[i].ns);
    json->Number(gpu.bytes[i]).Text(rt::kActivities[i].summary).Close(']');
  }
  json->Close(']').Key("bins").Open('[');
  for (const int64_t ns : gpu.busy_bins) json->Number(ns);
  json->Close(']').Key("gaps").Open('[');
  static constexpr const char* kWhy[] = {"the host was behind", "the program had waited for the device",
                                         "it had been launched", "not known"};
  for (const GpuGap& gap : gpu.longest_gaps)
    json->Open('[')
        .Number(gap.start_ns)
        .Number(gap.ns)
        .Text(kWhy[static_cast<size_t>(gap.why)])
        .Text(LabelOf(a.kernels[gap.before]))
        .Text(LabelOf(a.kernels[gap.after]))
        .Close(']');
  json->Close(']').Key("memory").Open('[');
  std::vector<const rt::trace::GpuSampleRow*> samples;
  for (const rt::trace::GpuSampleRow& row : a.data->gpu_samples)
    if (row.gpu == gpu.number) samples.push_back(&row);
  for (size_t i = 0; i < samples.size(); i += samples.size() / 1000 + 1)
    json->Open('[')
        .Number(samples[i]->ticks)
        .Number(samples[i]->bytes_in_use)
        .Number(samples[i]->bytes_cached)
        .Close(']');
  json->Close(']').Close('}');
}

void WriteKernel(const KernelSummary& k, Json* json) {
  json->Open('{').Key("name").Text(k.name).Key("kind").Text(rt::kActivities[static_cast<size_t>(k.kind)].name);
  json->Key("gpu").Number(k.gpu).Key("by").Text(OwnerText(k)).Key("line").Text(k.line).Key("place").Text(k.place);
  json->Key("lane")
      .Number(static_cast<int64_t>(LaneOf(k)))
      .Key("ns")
      .Number(k.runs.ns)
      .Key("count")
      .Number(k.runs.count);
  json->Key("longest").Number(k.runs.longest_ns).Key("graph").Number(k.in_graph).Key("guess").Bool(k.work.is_guess);
  json->Key("bytes").Real(k.bytes_moved).Key("rate").Real(k.bytes_per_s).Key("flops").Real(k.flops);
  json->Key("work").Real(k.work.flops).Key("memory").Real(k.memory_share).Key("compute").Real(k.compute_share);
  if (k.row != nullptr) {
    json->Key("grid").Open('[').Number(k.row->blocks).Number(k.row->threads).Number(k.row->registers);
    json->Number(k.row->shared_bytes).Number(k.grids).Close(']');
  }
  if (k.occupancy.blocks > 0)
    json->Key("occupancy").Open('[').Real(k.occupancy.share).Text(k.occupancy.limited_by).Close(']');
  json->Key("verdicts").Open('[');
  for (const Verdict& v : k.verdicts) json->Open('[').Text(v.words).Text(v.advice).Close(']');
  json->Close(']').Key("measures").Open('[');
  for (const auto& [name, value] : k.measures) json->Open('[').Text(name).Real(value).Close(']');
  json->Close(']').Close('}');
}

/// One drawing: the roofs of a machine, and what ran below them.
class RooflineWriter {
 public:
  explicit RooflineWriter(Json* json) : json_(*json) {}
  void Begin(const std::string& title, double bytes_per_s) {
    json_.Open('{').Key("title").Text(title).Key("bytes").Real(bytes_per_s).Key("roofs").Open('[');
  }
  void Roof(const char* name, double flops) {
    if (flops > 0) json_.Open('[').Text(name).Real(flops).Close(']');
  }
  void Points() { json_.Close(']').Key("points").Open('['); }
  /// Operations for each byte, operations a second, time in all.
  void Point(const std::string& label, double intensity, double flops, int64_t ns, Lane lane,
             const std::string& place) {
    json_.Open('[').Text(label).Real(intensity).Real(flops).Number(ns).Number(static_cast<int64_t>(lane)).Text(place);
    json_.Close(']');
  }
  void End() { json_.Close(']').Close('}'); }

 private:
  Json& json_;
};

double Option(const TraceData& data, const std::string& name) {
  // "peak_gbps=100 peak_gflops=50"
  for (const std::string& word :
       std::vector<std::string>(absl::StrSplit(MetaOf(data, "options"), absl::ByAnyChar(" ,"))))
    if (double value = 0; word.starts_with(name + "=") && absl::SimpleAtod(word.substr(name.size() + 1), &value))
      return value;
  return 0;
}

void WriteRooflines(const Analysis& a, Json* json) {
  RooflineWriter out(json);
  json->Key("rooflines").Open('[');
  for (const GpuSummary& gpu : a.gpus) {
    const rt::trace::GpuRow* row = gpu.row;
    if (row == nullptr || row->bytes_per_s <= 0 || row->vector_flops <= 0) continue;
    out.Begin(absl::StrCat("GPU ", gpu.number, ": ", gpu.name), static_cast<double>(row->bytes_per_s));
    out.Roof("bf16, tensor cores", static_cast<double>(row->matrix_flops));
    out.Roof("f32", static_cast<double>(row->vector_flops));
    out.Points();
    size_t points = 0;
    for (const KernelSummary& k : a.kernel_rows) {
      if (k.gpu != gpu.number || k.flops <= 0 || k.bytes_moved <= 0 || ++points > kMostKernels) continue;
      // What nobody waits for, and what has next to nothing to do, would only push the others together.
      if (static_cast<double>(k.runs.ns) < 0.001 * static_cast<double>(gpu.busy_ns) ||
          k.flops < 1e-6 * static_cast<double>(row->vector_flops))
        continue;
      out.Point(LabelOf(k), k.work.flops / k.bytes_moved, k.flops, k.runs.ns, LaneOf(k), k.place);
    }
    out.End();
  }
  // Kernels of the host are not timed one by one: a point is a version, with all that its kernels must do.
  const double gbps = Option(*a.data, "peak_gbps"), gflops = Option(*a.data, "peak_gflops");
  if (gbps > 0 && gflops > 0) {
    out.Begin("cpu, a point for each version", gbps * 1e9);
    out.Roof("as the option peak_gflops says", gflops * 1e9);
    out.Points();
    WorkTable work(*a.data);
    for (const VersionSummary& v : a.versions) {
      const rt::trace::TraceRow* trace = a.data->FindTrace(v.row->trace_id);
      const Work all = work.OfReport(v.row->id);
      if (trace == nullptr || trace->device != "cpu" || !v.is_measured || v.run_ns <= 0 || all.bytes <= 0 ||
          all.flops <= 0)
        continue;
      out.Point(absl::StrCat("version ", v.row->id, " of ", v.row->place), all.flops / all.bytes,
                all.flops / v.run_ns * 1e9, v.runs.ns, v.tier == 3 ? Lane::tier3 : Lane::tier2, v.row->place);
    }
    out.End();
  }
  json->Close(']');
}

}  // namespace

void AddStreams(const Analysis& a, const std::function<uint32_t(const std::string&)>& label,
                std::vector<Track>* tracks) {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Slice>> streams;
  std::vector<uint32_t> labels(a.kernels.size(), UINT32_MAX);
  for (size_t i = 0; i < a.data->activities.size(); ++i) {
    const GpuActivity& activity = a.data->activities[i];
    if (!IsWork(activity.kind)) continue;
    const uint32_t k = a.kernel_of[i];
    if (labels[k] == UINT32_MAX) labels[k] = label(LabelOf(a.kernels[k]));
    streams[{activity.gpu, activity.stream}].push_back(
        {activity.start_ns, activity.ns, LaneOf(a.kernels[k]), labels[k], 1});
  }
  for (auto& [stream, slices] : streams)
    tracks->push_back({absl::StrCat("GPU ", stream.first, ", stream ", stream.second), std::move(slices)});
}

void WriteGpus(const Analysis& a, Json* json) {
  json->Key("gpuLost").Number(a.data->gpu_lost).Key("gpuBusy").Number(a.gpu_busy_ns).Key("gpus").Open('[');
  for (const GpuSummary& gpu : a.gpus) WriteGpu(a, gpu, json);
  json->Close(']').Key("kernels").Open('[');
  size_t kernels = 0;
  for (const KernelSummary& k : a.kernel_rows)
    if (IsWork(k.kind) && ++kernels <= kMostKernels) WriteKernel(k, json);
  json->Close(']').Key("kernelsInAll").Number(static_cast<int64_t>(kernels));
  WriteRooflines(a, json);
}

}  // namespace tessera::tools
