// What ran on the GPUs, and when, as CUPTI saw it. CUPTI is opened when a recording starts; a process has at most one.
// Its records come in buffers on a thread of its own, never on the program's.
#ifndef TESSERA_RUNTIME_ACTIVITY_H_
#define TESSERA_RUNTIME_ACTIVITY_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/types/span.h"
#include "runtime/status.h"

namespace tessera::rt {

struct Activity {
  enum class Kind : uint8_t { kernel, copy, set, wait };
  Kind kind = Kind::kernel;
  int64_t start_ns = 0, end_ns = 0;  // on the clock of NowNs()
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

  /// Starts to record. The status says why not: there is no CUPTI, it is another version than this was built for,
  /// another tool holds it, or a recording is under way.
  static absl::Status Start(Sink sink);
  /// Gives what has not been given yet and stops; the sink is not called after that. Work that the devices have not
  /// finished is not in it: wait for them first. Nothing where no recording is under way.
  static void Stop();
  /// Records that CUPTI had no room for, since the start.
  static int64_t lost();
  static bool is_on();
};

/// What is launched by this thread in its life has this owner; the innermost counts. Costs one load when nothing is
/// recorded.
class ActivityScope {
 public:
  explicit ActivityScope(int64_t owner);
  ~ActivityScope();
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  bool pushed_;
};

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_ACTIVITY_H_
