// What ran on the GPUs, and when: as CUPTI saw it or, where it cannot be used, between events of the stream. A process
// has at most one recording of it. Records come on a thread of their own, never on the program's.
#ifndef TESSERA_RUNTIME_ACTIVITY_H_
#define TESSERA_RUNTIME_ACTIVITY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "runtime/device.h"
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

  constexpr int64_t Pack() const {
    return static_cast<int64_t>(kind) << 60 | (int64_t{part} & 0xfffffff) << 32 | (number & 0xffffffff);
  }
  static constexpr ActivityOwner Unpack(int64_t packed) {
    return {static_cast<Kind>(packed >> 60 & 3), static_cast<int32_t>(packed >> 32 & 0xfffffff), packed & 0xffffffff};
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

class ActivityRecorder {
 public:
  /// Called on a thread of CUPTI's, with each buffer that is full and with the rest when the recording stops.
  using Sink = std::function<void(absl::Span<const Activity>)>;

  /// Starts to record by CUPTI. The status says why not: there is no CUPTI, it is another version than this was built
  /// for, another tool holds it, or a recording is under way.
  static absl::Status Start(Sink sink);
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

/// What is launched by this thread in its life, on that device, has this owner; the innermost counts. Costs one load
/// when nothing is recorded. No scope may be open while a recording starts or stops on the same thread.
class ActivityScope {
 public:
  ActivityScope(Device& device, ActivityOwner owner) {
    if (ActivityRecorder::is_on()) [[unlikely]]
      Open(device, owner.Pack());
  }
  ~ActivityScope() {
    if (mode_ != ActivityRecorder::Mode::off) [[unlikely]]
      Close();
  }
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  void Open(Device& device, int64_t owner);
  void Close();
  ActivityRecorder::Mode mode_ = ActivityRecorder::Mode::off;
  Device* device_ = nullptr;
  int64_t owner_ = 0;
  void* first_ = nullptr;  // the event before
};

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_ACTIVITY_H_
