// Reads trace files: all of one, checked, with times in nanoseconds and numbers as this build has them. Any bytes may
// be given: what is no trace, or is damaged, is an error.
#ifndef TESSERA_RUNTIME_TRACE_READER_H_
#define TESSERA_RUNTIME_TRACE_READER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/activity.h"
#include "runtime/ring.h"
#include "runtime/status.h"
#include "runtime/trace/format.h"

namespace tessera::rt::trace {

/// Times are nanoseconds since the recording began; events of before that have negative ones.
struct TraceEvent {
  int64_t start_ns = 0, ns = 0;  // ns: 0 for an instant
  int64_t a = 0, b = 0, c = 0;
  uint32_t thread = 0;
  uint32_t order = 0;  // in which a thread recorded its events: slices when they ended
  EventKind kind{};
};

/// Something that ran on a GPU. Times as above.
struct GpuActivity {
  int64_t start_ns = 0, ns = 0;
  int64_t launched_ns = 0;  // when the host launched it; no earlier than the start of the recording is known: -1
  int64_t bytes = 0;        // of a copy or a set
  int64_t correlation = 0;  // the call that launched it
  int64_t number = 0;       // of its owner: a site, or the id of a version
  int32_t part = -1;        // of its owner: an op number, or the step of the version; -1: not known
  uint32_t kernel = 0;      // number of a KernelRow; 0: it is none
  uint32_t gpu = 0, stream = 0;
  ActivityKind kind{};
  ActivityOwner::Kind owner{};  // nobody, op or step
  bool in_graph = false;
};

struct TraceData {
  bool is_redacted = false;
  /// The recording ended as it should. Otherwise the process died, or the file could not be written any more.
  bool is_complete = false;
  int64_t lost = 0;                // events that found no room while they were recorded
  int64_t unknown = 0;             // events of kinds that this build does not know
  int64_t bytes = 0;               // of the file
  int64_t wall_ns = 0;             // when the recording began: since 1970
  std::vector<TraceEvent> events;  // by start, and of those that start together the longest first

  std::vector<GpuActivity> activities;  // by start
  int64_t gpu_lost = 0;                 // records of GPUs that there was no room for

  // Rows, with times as above in place of ticks; those of batches are activities by then. The last of those with the
  // same id is the one that counts, and the others are left out.
#define TSR_TRACE_BLOCK(name, Row, summary) std::vector<Row> name;
#include "runtime/trace/blocks.def"

  int64_t duration_ns = 0;  // to the end of the last event, or of the recording
  /// The name of a number in a table, or "op 17" where it has none.
  std::string Name(const std::string& table, int64_t number) const;
  /// The words beside the name.
  std::string Words(const std::string& table, int64_t number) const;
  /// "train.cc:40", "@step:12" where there is no file, "" where nothing is known.
  std::string SiteName(int64_t site) const;
  const VersionRow* FindVersion(int64_t id) const;
  const TraceRow* FindTrace(int64_t id) const;
  const KernelRow* FindKernel(int64_t number) const;
  const GpuRow* FindGpu(int64_t number) const;

  /// Filled by the reader: where each number of each table is in `names`, and each site in `sites`.
  std::map<std::pair<std::string, int64_t>, size_t> name_index;
  std::map<int64_t, size_t> site_index, version_index, trace_index, kernel_index, gpu_index;
};

/// A file that ends within a block, as that of a process that was killed, is no error: what came before it is there,
/// and is_complete is false.
absl::StatusOr<TraceData> ReadTrace(std::string_view bytes);
absl::StatusOr<TraceData> ReadTraceFile(const std::string& path);

}  // namespace tessera::rt::trace

#endif  // TESSERA_RUNTIME_TRACE_READER_H_
