#include "tools/trace/gpu.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/trace/sort.h"
#include "tools/trace/analysis.h"

namespace tessera::tools {
namespace {

using rt::ActivityKind;
using rt::ActivityOwner;
using rt::trace::GpuActivity;
using rt::trace::GpuRow;
using rt::trace::KernelRow;

/// Shared memory that the system keeps for itself of each block, and the grains in which a multiprocessor gives out its
/// shared memory and its registers, to a warp; all since compute capability 8.
constexpr int64_t kReservedShared = 1024, kSharedGrain = 128, kRegisterGrain = 256, kWarp = 32;

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

constexpr const char* kNames[] = {"kernel",        "copy from the host",  "copy to the host",  "copy on the device",
                                  "set of memory", "wait for the device", "overhead of CUPTI", "all that it launched"};
static_assert(std::size(kNames) == std::size(rt::kActivities));

/// Time in which at least one of a set of stretches that come by their start was there, and the gaps between them.
class Union {
 public:
  /// The gap before it: from its end on nothing had been there; false: there is none.
  bool Add(int64_t start, int64_t ns, int64_t* gap_start) {
    const bool gap = any_ && start > end_;
    if (gap) *gap_start = end_;
    const int64_t from = any_ ? std::max(start, end_) : start, to = start + ns;
    if (to > from) covered_ = Sum(covered_, to - from);
    end_ = any_ ? std::max(end_, to) : to;
    any_ = true;
    return gap;
  }
  int64_t covered() const { return covered_; }
  int64_t end() const { return end_; }
  bool any() const { return any_; }

 private:
  bool any_ = false;
  int64_t end_ = 0, covered_ = 0;
};

class GpuAnalyser {
 public:
  explicit GpuAnalyser(Analysis* analysis) : a_(*analysis), data_(*analysis->data), work_(*analysis->data) {}

  void Run() {
    if (data_.activities.empty()) return;
    for (const GpuActivity& activity : data_.activities) Add(activity);
    Sort();
    Measures();
    for (KernelSummary& kernel : a_.kernels) Describe(&kernel);
    ShareOutWork();
    for (KernelSummary& kernel : a_.kernels) Rate(&kernel);
    Group();
    Busy();
    for (const rt::trace::GpuSampleRow& sample : data_.gpu_samples)
      for (GpuSummary& gpu : a_.gpus)
        if (gpu.number == sample.gpu) gpu.most_bytes = std::max(gpu.most_bytes, sample.bytes_in_use);
  }

 private:
  // The same kernel with another grid is the same kernel: names are numbered.
  uint32_t NameOf(uint32_t kernel) {
    const auto [it, is_new] = name_of_kernel_.try_emplace(kernel, 0);
    if (!is_new) return it->second;
    const KernelRow* row = data_.FindKernel(kernel);
    const std::string name = row != nullptr ? row->name : kernel == 0 ? "" : absl::StrCat("kernel ", kernel);
    return it->second = names_.emplace(name, static_cast<uint32_t>(names_.size())).first->second;
  }

  void Add(const GpuActivity& activity) {
    const auto key = std::tuple(activity.gpu, activity.kind, NameOf(activity.kernel), activity.owner, activity.number,
                                activity.part);
    const auto [it, is_new] = index_.try_emplace(key, static_cast<uint32_t>(a_.kernels.size()));
    if (is_new) {
      KernelSummary kernel;
      kernel.kind = activity.kind;
      kernel.gpu = activity.gpu;
      kernel.owner = activity.owner;
      kernel.number = activity.number;
      kernel.part = activity.part;
      kernel.row = data_.FindKernel(activity.kernel);
      kernel.name = kernel.row != nullptr                   ? KernelName(kernel.row->name)
                    : activity.kind == ActivityKind::kernel ? absl::StrCat("kernel ", activity.kernel)
                                                            : kNames[static_cast<size_t>(activity.kind)];
      a_.kernels.push_back(std::move(kernel));
      grids_.emplace_back();
    }
    KernelSummary& kernel = a_.kernels[it->second];
    kernel.runs.Add(activity.ns);
    kernel.bytes = Sum(kernel.bytes, activity.bytes);
    kernel.in_graph += activity.in_graph ? 1 : 0;
    int64_t& ns = grids_[it->second][activity.kernel];
    ns = Sum(ns, activity.ns);
    a_.kernel_of.push_back(it->second);
  }

  void Sort() {
    std::vector<uint32_t> order(a_.kernels.size()), place(a_.kernels.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    rt::trace::SortStably(&order,
                          [&](uint32_t x, uint32_t y) { return a_.kernels[x].runs.ns > a_.kernels[y].runs.ns; });
    std::vector<KernelSummary> sorted;
    for (uint32_t i = 0; i < order.size(); ++i) {
      place[order[i]] = i;
      const auto& grids = grids_[order[i]];
      a_.kernels[order[i]].grids = static_cast<int64_t>(grids.size());
      const auto most = std::max_element(grids.begin(), grids.end(),
                                         [](const auto& x, const auto& y) { return x.second < y.second; });
      a_.kernels[order[i]].row = data_.FindKernel(most->first);
      sorted.push_back(std::move(a_.kernels[order[i]]));
    }
    a_.kernels = std::move(sorted);
    for (uint32_t& k : a_.kernel_of) k = place[k];
    for (auto& [key, k] : index_) k = place[k];
  }

  // The last row of a kernel counts. A row may be of a node of a graph, whose owner is told by its step.
  void Measures() {
    std::map<int64_t, const rt::trace::GraphRow*> graphs;
    for (const rt::trace::GraphRow& row : data_.graphs) graphs[row.number] = &row;
    for (const rt::trace::MeasureRow& row : data_.measures) {
      const ActivityOwner owner = ActivityOwner::Unpack(row.owner);
      const auto name = NameOf(static_cast<uint32_t>(row.kernel));
      for (auto& kernel : a_.kernels) {
        if (kernel.gpu != static_cast<uint32_t>(row.gpu) || kernel.kind != ActivityKind::kernel ||
            kernel.row == nullptr || NameOf(static_cast<uint32_t>(kernel.row->number)) != name)
          continue;
        if (owner.kind == ActivityOwner::Kind::graph) {
          const auto graph = graphs.find(owner.number);
          if (graph == graphs.end() || kernel.owner != ActivityOwner::Kind::step ||
              kernel.number != graph->second->version)
            continue;
        } else if (owner.kind != ActivityOwner::Kind::nobody &&
                   (kernel.owner != owner.kind || kernel.number != owner.number || kernel.part != owner.part)) {
          continue;
        }
        for (size_t m = 0; m < row.thousandths.size(); ++m)
          if (row.thousandths[m] >= 0)
            kernel.measures[data_.Name("measure", static_cast<int64_t>(m))] =
                static_cast<double>(row.thousandths[m]) / 1000;
      }
    }
  }

  void Describe(KernelSummary* kernel) {
    if (kernel->owner == ActivityOwner::Kind::op) {
      kernel->op = data_.Name("op", kernel->part);
      kernel->line = data_.SiteName(kernel->number);
    } else if (kernel->owner == ActivityOwner::Kind::step) {
      const rt::trace::VersionRow* version = data_.FindVersion(kernel->number);
      const rt::trace::TraceRow* trace = version != nullptr ? data_.FindTrace(version->trace_id) : nullptr;
      kernel->tier = 1;
      for (const VersionSummary& v : a_.versions)
        if (v.row == version) kernel->tier = v.tier;
      if (version != nullptr) kernel->place = version->place;
      if (trace != nullptr && kernel->part >= 0 && static_cast<size_t>(kernel->part) < trace->steps.size()) {
        const rt::trace::StepRow& step = trace->steps[static_cast<size_t>(kernel->part)];
        // Without its number, type and place.
        const size_t from = step.text.find(": ");
        kernel->what = step.text.substr(from == std::string::npos ? 0 : from + 2);
        kernel->what = kernel->what.substr(0, kernel->what.find("  "));
        kernel->op = ParseStep(step.text).op;
        const std::string file = step.file.substr(step.file.rfind('/') + 1);
        if (step.line > 0 && !file.empty()) {
          kernel->line = absl::StrCat(file, ":", step.line);
        } else if (const size_t at = step.text.rfind("  "); at != std::string::npos && step.text[at + 2] == '@') {
          kernel->line = step.text.substr(at + 2);
        }
      }
    }
    const GpuRow* gpu = data_.FindGpu(kernel->gpu);
    if (gpu != nullptr && kernel->row != nullptr) kernel->occupancy = OccupancyOf(*kernel->row, *gpu);
    if (kernel->kind == ActivityKind::kernel && kernel->owner == ActivityOwner::Kind::step)
      kernel->work = work_.Of(kernel->number, kernel->part, kernel->name);
  }

  // What a step must do is shared among the kernels that it launched, by their time. Those with little of it only help:
  // they add up the parts of a product, or turn a matrix.
  void ShareOutWork() {
    constexpr double kLeast = 0.2;
    std::map<std::tuple<uint32_t, int64_t, int32_t>, std::vector<KernelSummary*>> steps;
    for (KernelSummary& kernel : a_.kernels)
      if (kernel.kind == ActivityKind::kernel && kernel.owner == ActivityOwner::Kind::step &&
          !work_.IsGenerated(kernel.number, kernel.name))
        steps[{kernel.gpu, kernel.number, kernel.part}].push_back(&kernel);
    for (auto& [step, kernels] : steps) {
      if (kernels.size() == 1) continue;
      double all = 0, of_most = 0;
      for (const KernelSummary* kernel : kernels) all += static_cast<double>(kernel->runs.ns);
      const auto counts = [&](const KernelSummary& kernel) {
        return static_cast<double>(kernel.runs.ns) >= kLeast * all;
      };
      for (const KernelSummary* kernel : kernels)
        if (counts(*kernel)) of_most += static_cast<double>(kernel->runs.ns);
      for (KernelSummary* kernel : kernels) {
        const double part = counts(*kernel) && of_most > 0 ? static_cast<double>(kernel->runs.ns) / of_most : 0;
        if (part == 0) kernel->work = Work();
        kernel->work.bytes *= part;
        kernel->work.flops *= part;
      }
    }
  }

  void Rate(KernelSummary* kernel) {
    const GpuRow* gpu = data_.FindGpu(kernel->gpu);
    const double seconds = kernel->each_ns() / 1e9;
    const auto read = kernel->Measure("dram_read_bytes"), written = kernel->Measure("dram_write_bytes");
    kernel->bytes_per_s = kernel->flops = kernel->memory_share = kernel->compute_share = 0;
    kernel->bytes_moved =
        kernel->kind != ActivityKind::kernel
            ? (kernel->runs.count > 0 ? static_cast<double>(kernel->bytes) / static_cast<double>(kernel->runs.count)
                                      : 0)
        : read && written ? *read + *written
                          : kernel->work.bytes;
    if (seconds > 0) {
      kernel->bytes_per_s = kernel->bytes_moved / seconds;
      kernel->flops = kernel->work.flops / seconds;
    }
    if (kernel->kind != ActivityKind::kernel) return;
    if (gpu != nullptr) {
      kernel->peak_flops = PeakOf(*kernel, *gpu);
      if (gpu->bytes_per_s > 0) kernel->memory_share = kernel->bytes_per_s / static_cast<double>(gpu->bytes_per_s);
      if (kernel->peak_flops > 0) kernel->compute_share = kernel->flops / kernel->peak_flops;
    }
    if (const auto percent = kernel->Measure("dram_percent")) kernel->memory_share = *percent / 100;
    // Counted bytes may come from a cache: no memory is faster than its peak.
    kernel->memory_share = std::min(kernel->memory_share, 1.0);
    kernel->compute_share = std::min(kernel->compute_share, 1.0);
    kernel->verdicts = VerdictsOf(*kernel, gpu);
  }

  // Of bf16 by tensor cores; numbers of one byte go twice as fast, f32 by way of tf32 at half.
  static double PeakOf(const KernelSummary& kernel, const GpuRow& gpu) {
    const auto matrix = static_cast<double>(gpu.matrix_flops), vector = static_cast<double>(gpu.vector_flops);
    if (!kernel.work.is_product) return vector;
    const std::string& type = kernel.work.dtype;
    if (type == "bf16" || type == "f16") return matrix;
    if (type.starts_with("f8") || type == "i8" || type == "u8") return 2 * matrix;
    if (type == "f32") return kernel.flops > vector ? matrix / 2 : vector;
    return vector;
  }

  void Group() {
    using Key = std::tuple<uint32_t, ActivityKind, std::string, ActivityOwner::Kind, int64_t, std::string, std::string>;
    std::map<Key, size_t> index;
    struct Totals {
      double bytes = 0, flops = 0;
      bool known = true;  // of all of them
    };
    std::vector<Totals> totals;
    for (const KernelSummary& kernel : a_.kernels) {
      const bool is_op = kernel.owner == ActivityOwner::Kind::op;
      const auto [it, is_new] = index.try_emplace(
          Key(kernel.gpu, kernel.kind, kernel.name, kernel.owner, is_op ? 0 : kernel.number, kernel.op, kernel.line),
          a_.kernel_rows.size());
      if (is_new) {
        a_.kernel_rows.push_back(kernel);
        totals.emplace_back();
      } else {
        KernelSummary& row = a_.kernel_rows[it->second];
        const int64_t longest = std::max(row.runs.longest_ns, kernel.runs.longest_ns);
        row.runs.Add(kernel.runs.ns, kernel.runs.count);
        row.runs.longest_ns = longest;
        row.bytes = Sum(row.bytes, kernel.bytes);
        row.in_graph += kernel.in_graph;
        ++row.steps;
      }
      Totals& total = totals[it->second];
      const auto count = static_cast<double>(kernel.runs.count);
      total.known &= kernel.work.bytes > 0;
      total.bytes += kernel.work.bytes * count;
      total.flops += kernel.work.flops * count;
    }
    for (size_t i = 0; i < a_.kernel_rows.size(); ++i) {
      KernelSummary& row = a_.kernel_rows[i];
      if (row.steps == 1) continue;
      const auto count = static_cast<double>(std::max<int64_t>(row.runs.count, 1));
      row.work.bytes = totals[i].known ? totals[i].bytes / count : 0;
      row.work.flops = totals[i].known ? totals[i].flops / count : 0;
      Rate(&row);
    }
    rt::trace::SortStably(&a_.kernel_rows,
                          [](const KernelSummary& x, const KernelSummary& y) { return x.runs.ns > y.runs.ns; });
  }

  GpuSummary* GpuOf(uint32_t number) {
    for (GpuSummary& gpu : a_.gpus)
      if (gpu.number == number) return &gpu;
    if (a_.gpus.size() >= 1024) return nullptr;
    GpuSummary gpu;
    gpu.number = number;
    gpu.row = data_.FindGpu(number);
    gpu.name = gpu.row != nullptr && !gpu.row->name.empty() ? gpu.row->name : absl::StrCat("GPU ", number);
    gpu.busy_bins.resize(a_.bins.size());
    a_.gpus.push_back(std::move(gpu));
    return &a_.gpus.back();
  }

  void Spread(GpuSummary* gpu, int64_t from, int64_t to) const {
    int64_t at = std::max<int64_t>(from, 0);
    while (at < to) {
      const auto bin = static_cast<size_t>(at / a_.bin_ns);
      if (bin >= gpu->busy_bins.size()) break;
      const int64_t until = std::min<int64_t>(to, static_cast<int64_t>(bin + 1) * a_.bin_ns);
      gpu->busy_bins[bin] = Sum(gpu->busy_bins[bin], until - at);
      at = until;
    }
  }

  void Busy() {
    struct State {
      Union busy;
      uint32_t last = 0;       // what ended last
      int64_t waited_ns = -1;  // the end of the last wait
      std::set<uint32_t> streams;
    };
    std::map<uint32_t, State> states;
    for (size_t i = 0; i < data_.activities.size(); ++i) {
      const GpuActivity& activity = data_.activities[i];
      GpuSummary* gpu = GpuOf(activity.gpu);
      if (gpu == nullptr) continue;
      const auto kind = static_cast<size_t>(activity.kind);
      gpu->kinds[kind].Add(activity.ns);
      gpu->bytes[kind] = Sum(gpu->bytes[kind], activity.bytes);
      State& state = states[activity.gpu];
      if (activity.kind == ActivityKind::wait)
        state.waited_ns = std::max(state.waited_ns, activity.start_ns + activity.ns);
      if (!IsWork(activity.kind)) continue;
      state.streams.insert(activity.stream);
      if (activity.kind == ActivityKind::kernel && activity.ns < kTinyNs) gpu->tiny.Add(activity.ns);
      if (!state.busy.any()) gpu->first_ns = activity.start_ns;
      int64_t gap = 0;
      const int64_t before = state.busy.any() ? state.busy.end() : activity.start_ns;
      const bool idled = state.busy.Add(activity.start_ns, activity.ns, &gap);
      if (idled) Gap(gpu, activity, gap, state.last, a_.kernel_of[i], state.waited_ns);
      Spread(gpu, std::max(before, activity.start_ns), activity.start_ns + activity.ns);
      if (activity.start_ns + activity.ns >= before) state.last = a_.kernel_of[i];
    }
    for (GpuSummary& gpu : a_.gpus) {
      const State& state = states[gpu.number];
      gpu.busy_ns = state.busy.covered();
      gpu.last_ns = state.busy.any() ? state.busy.end() : gpu.first_ns;
      gpu.idle_ns = std::max<int64_t>(gpu.last_ns - gpu.first_ns - gpu.busy_ns, 0);
      gpu.streams.assign(state.streams.begin(), state.streams.end());
      a_.gpu_busy_ns = Sum(a_.gpu_busy_ns, gpu.busy_ns);
      rt::trace::SortStably(&gpu.longest_gaps, [](const GpuGap& x, const GpuGap& y) { return x.ns > y.ns; });
      if (gpu.longest_gaps.size() > kMostGaps) gpu.longest_gaps.resize(kMostGaps);
    }
    std::sort(a_.gpus.begin(), a_.gpus.end(), [](const auto& x, const auto& y) { return x.number < y.number; });
  }

  void Gap(GpuSummary* gpu, const GpuActivity& next, int64_t from, uint32_t before, uint32_t after,
           int64_t waited_ns) const {
    GpuGap gap = {from, next.start_ns - from, before, after,
                  next.launched_ns < 0 ? GpuGap::Why::unknown : GpuGap::Why::device};
    // Launched after the end of all that came before it: the GPU had nothing to do until then.
    if (next.launched_ns > from) {
      gap.why = waited_ns >= from ? GpuGap::Why::waited : GpuGap::Why::host;
      gpu->host_gaps.Add(gap.ns);
      if (gap.why == GpuGap::Why::waited) gpu->waited_gaps.Add(gap.ns);
      gpu->launch_to_start.Add(std::max<int64_t>(next.start_ns - next.launched_ns, 0));
    } else {
      (next.launched_ns < 0 ? gpu->unknown_gaps : gpu->device_gaps).Add(gap.ns);
    }
    std::vector<GpuGap>& longest = gpu->longest_gaps;
    longest.push_back(gap);
    if (longest.size() < 8 * kMostGaps) return;
    std::nth_element(longest.begin(), longest.begin() + kMostGaps, longest.end(),
                     [](const GpuGap& x, const GpuGap& y) { return x.ns > y.ns; });
    longest.resize(kMostGaps);
  }

  Analysis& a_;
  const TraceData& data_;
  WorkTable work_;
  std::map<std::string, uint32_t> names_;
  std::map<uint32_t, uint32_t> name_of_kernel_;
  std::map<std::tuple<uint32_t, ActivityKind, uint32_t, ActivityOwner::Kind, int64_t, int32_t>, uint32_t> index_;
  std::vector<std::map<uint32_t, int64_t>> grids_;  // their time, by number of the kernel
};

std::string Scaled(double value, std::initializer_list<const char*> units) {
  const char* const* unit = units.begin();
  for (; unit + 1 != units.end() && value >= 999.5; ++unit) value /= 1000;
  return absl::StrFormat("%.3g %s", value, *unit);
}

}  // namespace

std::vector<std::string> LinksOf(const rt::trace::TraceData& data, int64_t gpu) {
  std::vector<std::string> lines;
  constexpr size_t kMost = 64;
  for (const rt::trace::LinkRow& row : data.links) {
    if ((row.gpu0 != gpu && row.gpu1 != gpu) || lines.size() >= kMost) continue;
    const bool first = row.gpu0 == gpu;
    const int64_t peer = first ? row.gpu1 : row.gpu0;
    lines.push_back(
        absl::StrCat(row.links, row.links == 1 ? " link to " : " links to ",
                     peer >= 0 ? absl::StrCat("GPU ", peer) : (first ? row.name1 : row.name0),
                     row.by_switch != 0 ? " through a switch" : "", ", ",
                     row.bytes_per_s > 0 ? RateText(static_cast<double>(row.bytes_per_s)) : "rate not known",
                     ", version ", row.version));
  }
  return lines;
}

Occupancy OccupancyOf(const KernelRow& kernel, const GpuRow& gpu) {
  Occupancy out;
  // Numbers of a file may be anything.
  constexpr int64_t kMost = int64_t{1} << 40;
  const int64_t threads = kernel.threads, registers = kernel.registers;
  if (threads <= 0 || threads > 1 << 20 || gpu.threads <= 0 || gpu.threads > kMost || registers < 0 ||
      registers > 1 << 20 || kernel.shared_bytes < 0 || kernel.shared_bytes > kMost)
    return out;
  const int64_t warps = RoundUp(threads, kWarp) / kWarp;
  const auto limit = [&](int64_t blocks, const char* by) {
    if (*out.limited_by != '\0' && blocks >= out.blocks) return;
    out.blocks = blocks;
    out.limited_by = by;
  };
  limit(gpu.threads / (warps * kWarp), "threads");
  if (gpu.registers > 0 && registers > 0)
    limit(gpu.registers / (warps * RoundUp(registers * kWarp, kRegisterGrain)), "registers");
  if (gpu.shared_bytes > 0 && kernel.shared_bytes > 0)
    limit(gpu.shared_bytes / RoundUp(kernel.shared_bytes + kReservedShared, kSharedGrain), "shared memory");
  if (gpu.blocks > 0) limit(gpu.blocks, "blocks");
  out.share = std::min(
      1.0, static_cast<double>(out.blocks) * static_cast<double>(warps * kWarp) / static_cast<double>(gpu.threads));
  return out;
}

// "_ZN8cublasLt19splitKreduce_kernelILi32E...": the names within it, as far as they go.
std::string KernelName(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  size_t at = 2 + (name.size() > 2 && name[2] == 'N' ? 1 : 0);
  std::string out;
  while (at < name.size() && name[at] >= '0' && name[at] <= '9') {
    size_t length = 0;
    for (; at < name.size() && name[at] >= '0' && name[at] <= '9' && length < name.size(); ++at)
      length = length * 10 + static_cast<size_t>(name[at] - '0');
    if (length == 0 || length > name.size() - at) break;
    const std::string part = name.substr(at, length);
    at += length;
    // What stands for a namespace without a name.
    if (!part.starts_with("_GLOBAL__N")) absl::StrAppend(&out, out.empty() ? "" : "::", part);
  }
  return out.empty() ? name : out;
}

std::string OwnerText(const KernelSummary& kernel) {
  std::string text = kernel.op;
  if (!kernel.line.empty()) absl::StrAppend(&text, text.empty() ? "" : " ", "at ", kernel.line);
  if (kernel.owner == ActivityOwner::Kind::step)
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    kernel.steps > 1   ? absl::StrCat(kernel.steps, " steps of ")
                    : kernel.part >= 0 ? absl::StrCat("step ", kernel.part, " of ")
                                       : std::string(),
                    "version ", kernel.number);
  return text;
}

std::string RateText(double bytes_per_s) { return Scaled(bytes_per_s, {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"}); }
std::string FlopsText(double flops_per_s) {
  return Scaled(flops_per_s, {"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s"});
}

void AnalyseGpus(Analysis* analysis) { GpuAnalyser(analysis).Run(); }

}  // namespace tessera::tools
