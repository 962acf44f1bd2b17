// The last seconds of a trace that is still coming.
#ifndef TESSERA_TOOLS_TRACE_LIVE_H_
#define TESSERA_TOOLS_TRACE_LIVE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "runtime/status.h"
#include "runtime/trace/reader.h"

namespace tessera::tools {

/// Takes the bytes as they come, and forgets events that are older than the window.
class LiveTrace {
 public:
  explicit LiveTrace(double window_seconds) : window_ns_(static_cast<int64_t>(window_seconds * 1e9)) {}

  /// `now_ns`: when they came. An error when the bytes are no trace.
  absl::Status Add(std::string_view bytes, int64_t now_ns);
  /// What there is now.
  absl::StatusOr<rt::trace::TraceData> Read() const;

 private:
  struct Block {
    int64_t ns;
    std::string bytes;
  };
  const int64_t window_ns_;
  std::string unread_;  // the beginning of a block
  std::string header_, rows_;
  std::deque<Block> timed_;  // events, samples, clocks
};

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_LIVE_H_
