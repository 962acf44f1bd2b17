#include "runtime/log.h"

#include <cstdio>
#include <mutex>
#include <unordered_set>

namespace tessera::rt {
namespace {

constexpr size_t kMostWarnings = 1000;

struct Log {
  std::mutex mutex;
  LogSink sink;
  std::unordered_set<std::string> warned;

  void Write(int level, std::string_view line) {
    if (sink) {
      sink(level, line);
      return;
    }
    std::string text = "tessera: ";
    text.append(line).push_back('\n');
    // One call, so that lines of several threads and processes do not mix.
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
};

Log& TheLog() {
  static Log* log = new Log;
  return *log;
}

}  // namespace

void SetLogSink(LogSink sink) {
  Log& log = TheLog();
  std::lock_guard lock(log.mutex);
  log.sink = std::move(sink);
}

namespace internal {

void LogLine(int level, std::string line) {
  Log& log = TheLog();
  std::lock_guard lock(log.mutex);
  if (level == 0) {
    if (log.warned.size() > kMostWarnings || !log.warned.insert(line).second) return;
    if (log.warned.size() > kMostWarnings) {
      log.Write(0, "too many different warnings; no more are written");
      return;
    }
  }
  log.Write(level, line);
}

}  // namespace internal
}  // namespace tessera::rt
