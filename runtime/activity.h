// What ran on the GPUs, and when: as CUPTI saw it or, where it cannot be used, between events of the stream. A process
// has at most one recording of it. Records come on a thread of their own, never on the program's.
#ifndef TESSERA_RUNTIME_ACTIVITY_H_
#define TESSERA_RUNTIME_ACTIVITY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/device.h"
#include "runtime/nvtx.h"
#include "runtime/status.h"

namespace tessera::rt {

enum class ActivityKind : uint8_t {
#define TSR_ACTIVITY(name, summary) name,
#include "runtime/activities.def"
};
struct ActivityInfo {
  ActivityKind id;
  std::string_view name, summary;
};
inline constexpr ActivityInfo kActivities[] = {
#define TSR_ACTIVITY(name, summary) {ActivityKind::name, #name, summary},
#include "runtime/activities.def"
};

/// Who launched something, in one number: an op of tier 1 at a site, a step of a version, or a graph that has the steps
/// of a version as its nodes.
struct ActivityOwner {
  enum class Kind : uint8_t { nobody, op, step, graph };
  Kind kind = Kind::nobody;
  int32_t part = 0;    // op number, or step
  int64_t number = 0;  // site, version id, or number of the graph

  /// Steps of one version that follow each other differ little.
  constexpr int64_t Pack() const {
    return (number & 0xffffffff) << 30 | (int64_t{part} & 0xfffffff) << 2 | static_cast<int64_t>(kind);
  }
  static constexpr ActivityOwner Unpack(int64_t packed) {
    return {static_cast<Kind>(packed & 3), static_cast<int32_t>(packed >> 2 & 0xfffffff), packed >> 30 & 0xffffffff};
  }
};

struct Activity {
  ActivityKind kind = ActivityKind::kernel;
  int64_t start_ns = 0, end_ns = 0;  // on the clock of NowNs()
  int64_t launched_ns = 0;           // when the call that caused it began; 0: not known
  uint32_t device = 0, stream = 0;
  uint32_t correlation = 0;  // the driver call that caused it; the same for all nodes of one launch of a graph
  uint64_t graph_node = 0;   // 0: it was not in a graph
  int64_t owner = 0;         // what ActivityScope said when it was launched; 0: nothing
  std::string_view name;     // of a kernel; lives as long as the process
  int64_t bytes = 0;         // of a copy or a set
  uint32_t blocks = 0, threads = 0, registers = 0, shared_bytes = 0;
};

/// A connection of two devices by NVLink: what CUPTI tells when a recording starts, where there is any.
struct GpuLink {
  struct End {
    int gpu = -1;      // number of a device; -1: a processor, or a GPU that this process does not see
    std::string name;  // "GPU-0a1b...", as nvidia-smi has it, or "processor 0"
  };
  End ends[2];
  int64_t links = 0;        // physical ones
  int64_t bytes_per_s = 0;  // at most
  int64_t version = 0;      // of NVLink
  bool by_switch = false;
};

class ActivityRecorder {
 public:
  /// Called on a thread of CUPTI's, with each buffer that is full and with the rest when the recording stops.
  using Sink = std::function<void(absl::Span<const Activity>)>;
  using LinkSink = std::function<void(const GpuLink&)>;

  /// Starts to record by CUPTI. The status says why not: there is no CUPTI, it is another version than this was built
  /// for, another tool holds it, or a recording is under way.
  static absl::Status Start(Sink sink, LinkSink links = {});
  /// Starts to time each ActivityScope by events, in place of that.
  static absl::Status StartEvents(Sink sink);
  /// Gives what is finished and has not been given yet.
  static void Flush();
  /// Gives what has not been given yet and stops; the sink is not called after that. Work that the devices have not
  /// finished is not in it: wait for them first. Nothing where no recording is under way.
  static void Stop();
  /// Records that there was no room for, since the start.
  static int64_t lost();
  static bool is_on() { return mode_.load(std::memory_order_relaxed) != Mode::off; }
  /// "CUPTI 13.0"; empty: there is none, or it was not opened.
  static std::string version();

  enum class Mode : uint8_t { off, cupti, events };
  static Mode mode() { return mode_.load(std::memory_order_relaxed); }

 private:
  [[gnu::visibility("hidden")]] static constinit std::atomic<Mode> mode_;
};

/// What a graph that this thread records (Device::BeginRecording) has so far; -1: not known.
int64_t RecordedNodes(Device& device);

/// What is launched by this thread in its life, on that device, has this owner; the innermost counts. Tools see it as a
/// range, too (runtime/nvtx.h). Costs two loads when nobody wants to know. No scope may be open while a recording
/// starts or stops on the same thread.
class ActivityScope {
 public:
  static bool wanted() { return ActivityRecorder::is_on() || NvtxOn(); }

  ActivityScope(Device& device, ActivityOwner owner) {
    if (wanted()) [[unlikely]]
      Open(device, owner);
  }
  ~ActivityScope() {
    if (is_open_) [[unlikely]]
      Close();
  }
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  void Open(Device& device, ActivityOwner owner);
  void Close();
  bool is_open_ = false, has_range_ = false;
  ActivityRecorder::Mode mode_ = ActivityRecorder::Mode::off;
  Device* device_ = nullptr;
  int64_t owner_ = 0, outer_ = 0;
  void* first_ = nullptr;  // the event before
};

struct KernelMeasures {
  /// A row for each kernel, in order, with a value for each row of cuda/measures.def (-1: this GPU does not have it).
  std::vector<std::vector<double>> kernels;
  int64_t passes = 0;  // how often `work` ran
  std::string took;    // what each part took, in milliseconds
};
/// What the counters of a GPU say of each kernel that `work` puts on the device. `work` runs several times,
/// and must do the same each time. No activity may be recorded meanwhile. The status says why nothing was measured;
/// `work` has run all the same, and *status is what it returned last.
absl::StatusOr<KernelMeasures> MeasureKernels(Device& device, const std::function<absl::Status()>& work,
                                              absl::Status* status);

/// What measuring kernels of a chip ("GH100") takes. CUPTI knows that without a device.
struct MeasurePlan {
  int64_t passes = 0;   // runs until all counters were read
  int64_t metrics = 0;  // rows of cuda/measures.def that the chip has
  std::string missing;  // the others, as CUPTI names them
};
absl::StatusOr<MeasurePlan> PlanMeasures(const char* chip);

/// An instruction of a kernel at which warps were seen.
struct PcSample {
  std::string function;
  int64_t pc = 0;                                       // bytes from the start of the function
  std::vector<std::pair<std::string, int64_t>> stalls;  // what they waited for, and how often that was seen
};
/// Where the warps of the kernels of `work` were when somebody looked. As MeasureKernels, but it runs once.
absl::StatusOr<std::vector<PcSample>> SamplePcs(Device& device, const std::function<absl::Status()>& work,
                                                absl::Status* status);

/// Of the innermost scope of this thread; 0: none is open.
int64_t CurrentOwner();

/// Gives ranges of tools their names. Set once; without it they have numbers.
using OwnerNamer = std::string (*)(ActivityOwner owner);
void SetOwnerNamer(OwnerNamer namer);

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_ACTIVITY_H_
