// What a recorded trace says of GPUs: time by kernel with who launched it, how busy each GPU was and why it was not,
// what a kernel must do against what the GPU can do, and a verdict in words.
#ifndef TESSERA_TOOLS_TRACE_GPU_H_
#define TESSERA_TOOLS_TRACE_GPU_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/trace/reader.h"
#include "tools/trace/tally.h"
#include "tools/trace/work.h"

namespace tessera::tools {

struct Analysis;

/// Where blocks of a kernel fit on a multiprocessor, from its registers, shared memory and threads.
struct Occupancy {
  int64_t blocks = 0;           // at once on one multiprocessor; 0: not known
  double share = 0;             // of the threads that could be there
  const char* limited_by = "";  // "registers", "shared memory", "threads" or "blocks"
};
Occupancy OccupancyOf(const rt::trace::KernelRow& kernel, const rt::trace::GpuRow& gpu);

/// One thing that holds a kernel up, or says that nothing does.
struct Verdict {
  std::string words, advice;
};

/// All launches of one kernel by one owner; or all copies of one kind, or all that one op or one run did.
struct KernelSummary {
  std::string name;  // of the kernel as the driver has it, for people: "copy to the host"
  rt::ActivityKind kind{};
  uint32_t gpu = 0;
  rt::ActivityOwner::Kind owner{};
  int64_t number = 0;  // site or version
  int32_t part = -1;   // op number or step
  int64_t steps = 1;   // of its version that launch it alike; the first of them in time is `part`
  int tier = 0;        // of its version; 1: a replay; 0: an op in tier 1, or nobody knows
  std::string op;      // its name; empty: not known
  std::string what;    // the step of the trace: "y7 = matmul y4 x1"
  std::string line;    // "train.cc:40"; empty: not known
  std::string place;   // of its version
  Tally runs;
  int64_t bytes = 0;                          // of copies and sets, of all of them
  int64_t in_graph = 0;                       // launches by a graph
  const rt::trace::KernelRow* row = nullptr;  // with the grid that had most of the time
  int64_t grids = 0;                          // how many differ in grid or resources
  Occupancy occupancy;
  std::map<std::string, double> measures;  // by name, of one launch

  // Of one launch; 0: not known.
  Work work;
  double bytes_moved = 0;                      // as measured, or else as counted
  double bytes_per_s = 0, flops = 0;           // reached
  double memory_share = 0, compute_share = 0;  // of what the GPU can do at most: from 0 to 1
  double peak_flops = 0;                       // of the unit that it uses
  std::vector<Verdict> verdicts;               // what holds it up most first; empty: nothing is known

  double each_ns() const { return runs.count > 0 ? static_cast<double>(runs.ns) / static_cast<double>(runs.count) : 0; }
  std::optional<double> Measure(const char* name) const {
    const auto it = measures.find(name);
    return it == measures.end() ? std::nullopt : std::optional(it->second);
  }
  /// The part of the time that the bound of the machine leaves no way around; 0: not known.
  double roofline_share() const { return memory_share > compute_share ? memory_share : compute_share; }
};

/// A stretch in which nothing ran.
struct GpuGap {
  int64_t start_ns = 0, ns = 0;
  uint32_t before = 0, after = 0;  // in Analysis::kernels
  enum class Why : uint8_t { host, waited, device, unknown } why = Why::unknown;
};

struct GpuSummary {
  uint32_t number = 0;
  const rt::trace::GpuRow* row = nullptr;
  std::string name;
  int64_t first_ns = 0, last_ns = 0;  // of what ran on it
  int64_t busy_ns = 0, idle_ns = 0;   // between those
  Tally host_gaps;                    // the next thing was launched only after all before it had ended
  Tally waited_gaps;                  // of those: the program had waited for the device right before
  Tally device_gaps;                  // what comes next had been launched: the GPU took its time
  Tally unknown_gaps;                 // when it was launched is not known
  std::vector<GpuGap> longest_gaps;   // at most kMostGaps, the longest first
  std::array<Tally, std::size(rt::kActivities)> kinds;
  std::array<int64_t, std::size(rt::kActivities)> bytes{};
  Tally launch_to_start;           // of what was launched while the GPU had nothing to do
  Tally tiny;                      // kernels shorter than kTinyNs
  std::vector<int64_t> busy_bins;  // as Analysis::bins
  std::vector<uint32_t> streams;
  int64_t most_bytes = 0;  // in use
};

inline constexpr size_t kMostGaps = 20;
/// A launch costs about this much: a shorter kernel is not worth one.
inline constexpr int64_t kTinyNs = 4000;

/// The name of a kernel for people: without the types of a C++ function, which make it long.
std::string KernelName(const std::string& name);

/// What a GPU is connected to by NVLink, a line for each: "18 links to GPU 1 through a switch, 450 GB/s".
std::vector<std::string> LinksOf(const rt::trace::TraceData& data, int64_t gpu);
/// Fills in gpus, kernels, kernel_of and kernel_rows of an analysis that has everything else but the findings.
void AnalyseGpus(Analysis* analysis);
/// What holds a kernel up. Rules are in verdicts.cc.
std::vector<Verdict> VerdictsOf(const KernelSummary& kernel, const rt::trace::GpuRow* gpu);

/// Does it keep the GPU busy? Waits and overhead do not.
inline bool IsWork(rt::ActivityKind kind) {
  return kind != rt::ActivityKind::wait && kind != rt::ActivityKind::overhead;
}
/// "matmul at train.cc:40, step 3 of version 2", "" where nobody knows who launched it.
std::string OwnerText(const KernelSummary& kernel);

/// "3.35 TB/s", "81.2 TFLOP/s".
std::string RateText(double bytes_per_s);
std::string FlopsText(double flops_per_s);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_GPU_H_
