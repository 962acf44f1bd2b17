// The line that follows a running program: how fast its loops go, which tiers do the work, how often code was left.
#ifndef TESSERA_TOOLS_TESSERA_LIVE_H_
#define TESSERA_TOOLS_TESSERA_LIVE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "runtime/metrics.h"

namespace tessera::tools {

/// While it lives, a line on stdout: on a terminal one that changes in place, under whatever the program prints; else a
/// new one each second. It looks at counters that are kept anyway, and costs the program nothing.
class LiveLine {
 public:
  /// Null: nothing is shown.
  explicit LiveLine(const std::atomic<int64_t>* iterations);
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;

 private:
  void Loop();
  void Show(double seconds, double since);
  void Erase();
  const std::atomic<int64_t>* iterations_;
  bool terminal_ = false, drawn_ = false, done_ = false;
  int64_t last_iterations_ = 0;
  rt::MetricValues last_{};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TESSERA_LIVE_H_
