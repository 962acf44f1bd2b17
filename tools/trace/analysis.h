// What a recorded trace says: time by tier, op, source line and place, versions with what they gained, deopts, and what
// to look at first. Every report is made from this.
#ifndef TESSERA_TOOLS_TRACE_ANALYSIS_H_
#define TESSERA_TOOLS_TRACE_ANALYSIS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/trace/reader.h"
#include "tools/trace/gpu.h"
#include "tools/trace/tally.h"

namespace tessera::tools {

using rt::trace::TraceData;

/// Who had the program's threads.
enum class Lane : uint8_t {
#define TSR_LANE(name, title) name,
#include "tools/trace/lanes.def"
};
inline constexpr int kNumLanes = 0
#define TSR_LANE(name, title) +1
#include "tools/trace/lanes.def"
    ;
struct LaneInfo {
  const char *name, *title;
};
inline constexpr LaneInfo kLanes[] = {
#define TSR_LANE(name, title) {#name, title},
#include "tools/trace/lanes.def"
};

struct VersionSummary {
  const rt::trace::VersionRow* row = nullptr;
  int tier = 1;                         // 1: replay
  Tally runs;                           // as recorded: a call of a loop that went round n times counts n
  int64_t first_ns = -1, last_ns = -1;  // of its runs
  int64_t built_ns = -1, installed_ns = -1, dropped_ns = -1;
  bool is_measured = false;  // then these are known
  double run_ns = 0, tier1_ns = 0;
  double saved_ns = 0;  // by all its runs, recorded or not
  /// "after 653 runs", "not yet (needs 7531)", "never at this rate", "not yet"
  std::string break_even;
  int64_t deopts = 0;
  int64_t refused = 0;  // where it begins, while another version served
  int64_t bridges = 0;  // how often it was left for a bridge
};

/// A place that has, or had, versions: what a person calls a trace.
struct PlaceSummary {
  std::string name;
  std::vector<size_t> versions;  // in Analysis::versions
  Tally runs;
  int64_t tier = 1;  // the highest of its versions
  int64_t guards = 0, deopts = 0, compile_ns = 0;
  double saved_ns = 0, gain = 0;  // gain: tier 1 / version, of the newest that is measured; 0: not known
  std::string pinned;             // why it stays in tier 1; empty: it does not
  std::vector<int64_t> trace_ids;
};

struct DeoptSummary {
  std::string place;
  int64_t reason = 0, count = 0;
  const rt::trace::DeoptRow* last = nullptr;
};

/// Memory that a pool took from the system, or gave back.
struct MemorySummary {
  bool is_taken = false;
  int64_t gpu = -1;  // -1: memory of the host
  int64_t reason = 0, bytes = 0;
  Tally runs;
};

struct OpSummary {
  int64_t op = 0, elements = 0;
  Tally runs;
};
struct SiteSummary {
  int64_t site = 0;
  Tally runs;
  std::map<int64_t, Tally> ops;
};

/// One of the stretches into which the time of the recording is cut.
struct Bin {
  std::array<int64_t, kNumLanes> ns{};
  int64_t ops = 0;    // in tier 1 and in versions
  int64_t steps = 0;  // that the program marked
  int64_t deopts = 0, installs = 0;
};

/// What to look at first: what it costs, in words and in time, and what would help.
struct Finding {
  double cost_ns = 0;
  std::string title, detail, advice, place;
};

struct Analysis {
  const TraceData* data = nullptr;
  std::array<int64_t, kNumLanes> lane_ns{};
  int64_t busy_ns = 0;  // of the program's threads: lanes that are not compiles
  int64_t main_thread = 0;
  int64_t main_idle_ns = 0;  // of the main thread: no op and no version ran
  Tally ops, version_runs, version_steps, compiles, deopts, aborts, spans, steps;
  std::vector<VersionSummary> versions;
  std::vector<PlaceSummary> places;  // by time in versions
  std::vector<OpSummary> op_rows;    // by time
  std::vector<SiteSummary> site_rows;
  std::vector<DeoptSummary> deopt_rows;
  std::map<int64_t, Tally> compile_stages;  // by stage
  std::vector<MemorySummary> memory_rows;   // by time
  std::vector<Bin> bins;
  int64_t bin_ns = 1;
  std::vector<Finding> findings;  // the costliest first
  /// By version and value: guards that failed.
  std::map<std::pair<int64_t, int64_t>, int64_t> guard_failures;
  std::map<int64_t, std::vector<const rt::trace::StageRow*>> stages;         // by version
  std::map<std::string, std::vector<const rt::trace::DeoptRow*>> deopts_at;  // by place
  // Of GPUs; all empty where none was recorded.
  std::vector<GpuSummary> gpus;
  std::vector<KernelSummary> kernels;  // by time, copies among them
  std::vector<uint32_t> kernel_of;     // of each of data->activities: in `kernels`
  /// The same for tables: what several steps of a version at one source line do alike is one row, as the layers of a
  /// network do, and so is what ops at one line do.
  std::vector<KernelSummary> kernel_rows;
  int64_t gpu_busy_ns = 0;  // of all GPUs
};

/// How often a guard was checked and failed.
struct GuardCounts {
  int64_t checked = 0, failed = 0;
};
GuardCounts CountsOf(const Analysis& analysis, const rt::trace::VersionRow& version, const rt::trace::GuardRow& guard);

/// `data` must outlive it.
Analysis Analyse(const TraceData& data, int num_bins = 240);
Lane LaneOf(const Analysis& analysis, const rt::trace::TraceEvent& event);
/// Of who launched it.
Lane LaneOf(const KernelSummary& kernel);
/// "host" or "GPU 0".
std::string MemoryOf(int64_t gpu);
/// What an event is about, for people: "matmul", "version 3 of @step:10", "compile".
std::string LabelOf(const TraceData& data, const rt::trace::TraceEvent& event);
/// Fills in Analysis::findings.
void FindWhatMatters(Analysis* analysis);

/// What the recording says of itself; empty: nothing.
std::string MetaOf(const TraceData& data, const std::string& key);

/// "1.25 ms", "3.4 MiB", "12.5 %".
std::string TimeText(double ns);
std::string BytesText(double bytes);
std::string ShareText(double part, double whole);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_ANALYSIS_H_
