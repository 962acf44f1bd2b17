// The runtime of the process: options, default device, statistics, and where text goes. There is one; it starts by
// itself at first use and needs no shutting down.
#ifndef TESSERA_RUNTIME_H_
#define TESSERA_RUNTIME_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/status.h"
#include "tessera/tensor.h"

namespace tessera {

/// What a device's memory pool holds.
struct MemoryStatistics {
  int64_t bytes_in_use = 0;
  int64_t bytes_cached = 0;
  int64_t peak_bytes = 0;
  int64_t limit_bytes = 0;  // 0: none
  int64_t allocations = 0;
  int64_t system_allocations = 0;
};

struct OptionDescription {
  std::string name, environment, default_value, value, summary;
};

struct MetricValue {
  std::string name, unit, summary;
  int64_t value = 0;
};

class TSR_API Runtime {
 public:
  /// Options by name (docs/options.md); each has an environment variable, TESSERA_ and its name in capitals.
  static Status set_option(std::string_view name, std::string_view value);
  static Result<std::string> option(std::string_view name);
  static std::vector<OptionDescription> options();

  /// Where ops without tensor operands run. Process-wide; `cpu` at the start.
  static void set_device(Device device);
  static Device device();

  static MemoryStatistics memory(Device device);
  static void reset_peak_memory(Device device);
  /// Gives cached memory back to the system.
  static void trim_memory(Device device);
  /// Returns when every op that this thread has called, and everything else that was submitted to the device, is done.
  /// An error that a kernel met since the last wait is returned here.
  static Status synchronize(Device device);
  /// Counters since the process began.
  static std::vector<MetricValue> metrics();

  /// What got hot and what became of it, as tables: versions with what they cost and saved, deopts with their reasons,
  /// recordings that were aborted, places that stay in tier 1.
  static std::string explain();
  /// Waits until no version is being built.
  static void wait_for_builds();

  /// Writes what was learned about the traces that have versions to a file, for load_profile() or the option `profile`
  /// of another run of the same program. Only its owner may read the file.
  static Status save_profile(const std::string& path);
  /// From now on, what the profile knows is hot when it first comes, and one recording is enough for its version. Best
  /// called before anything has run. Traces of other programs, or of another build of this one, are ignored. A damaged
  /// file is refused and changes nothing.
  static Status load_profile(const std::string& path);

  /// Records what happens from now on to a file that `tessera trace` reads (docs/trace-inspection.md): ops with their
  /// source lines, versions, compiles, deopts, memory. Only its owner may read the file. Recording never fails a
  /// program: when the file cannot be written any more it ends, with one line in the log.
  static Status trace_start(const std::string& path);
  /// Ends the recording; the file is complete then. The status tells where it had ended early.
  static Status trace_stop();
  /// Writes the last seconds to a file of that kind: as many as the option trace_keep says.
  static Status trace_dump(const std::string& path);

  /// Receives log lines (option debug) in place of stderr; empty: stderr again.
  static void set_log_sink(std::function<void(int level, std::string_view line)> sink);
  /// Receives what `print` prints in place of the standard output; empty: standard output again.
  static void set_print_sink(std::function<void(std::string_view text)> sink);

  /// "0.1.0"
  static std::string_view version();
};

/// Marks the beginning of a step of a loop: `Step step;` at its top. A hint, never needed: it spares the runtime the
/// search for the place where the loop begins.
class TSR_API Step {
 public:
  Step();
};

/// A stretch of the program with a name, in recorded traces: from here to the end of the scope.
class TSR_API TraceSpan {
 public:
  explicit TraceSpan(std::string_view name);
  ~TraceSpan();
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  int64_t name_ = 0, start_ = 0;
  bool has_range_ = false;  // of NVTX
};

}  // namespace tessera

#endif  // TESSERA_RUNTIME_H_
