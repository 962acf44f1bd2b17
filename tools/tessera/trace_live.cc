#include "tools/tessera/trace_live.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "runtime/clock.h"
#include "runtime/trace/live.h"
#include "tools/tessera/terminal.h"
#include "tools/trace/analysis.h"
#include "tools/trace/live.h"
#include "tools/trace/text.h"

namespace tessera::tools {

const Flag kLiveFlagRows[2] = {
    {"seconds", "N", "what is shown is of the last N seconds; 5 if not given"},
    {"rows", "N", "rows of each table"},
};

absl::Status LiveView(const Arguments& arguments) {
  TSR_ASSIGN_OR_RETURN(const int64_t pid, ParseCount("PID", arguments.operand(0), 1));
  TSR_ASSIGN_OR_RETURN(const int64_t seconds, ParseCount("--seconds", arguments.Get("seconds", "5"), 1));
  TSR_ASSIGN_OR_RETURN(const int64_t rows, ParseCount("--rows", arguments.Get("rows", "10"), 1));
  TSR_ASSIGN_OR_RETURN(const int fd, rt::trace::ConnectLive(static_cast<pid_t>(pid)));
  const bool terminal = IsTerminal(stdout);
  LiveTrace trace(static_cast<double>(seconds));
  const int64_t refresh_ns = terminal ? 1'000'000'000 : seconds * 1'000'000'000;
  int64_t next = rt::NowNs() + refresh_ns;
  absl::Status status;
  for (bool ended = false; status.ok();) {
    pollfd ready = {fd, POLLIN, 0};
    const int64_t left = ended ? 0 : std::max<int64_t>(next - rt::NowNs(), 0);
    if (left > 0 && ::poll(&ready, 1, static_cast<int>(left / 1'000'000) + 1) > 0) {
      char bytes[1 << 16];
      const ssize_t n = ::recv(fd, bytes, sizeof(bytes), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n > 0) {
        status = trace.Add(std::string_view(bytes, static_cast<size_t>(n)), rt::NowNs());
        continue;
      }
      ended = true;
    }
    if (!ended && rt::NowNs() < next) continue;
    next = rt::NowNs() + refresh_ns;
    auto data = trace.Read();
    if (!data.ok()) {
      status = data.status();
      break;
    }
    data->is_complete = true;  // it goes on
    const std::string text = absl::StrCat("process ", pid, ", the last ", seconds, " s\n",
                                          ReportText(Analyse(*data), static_cast<size_t>(rows)));
    std::fputs(terminal ? "\x1b[H\x1b[2J" : "", stdout);
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (ended) std::printf("\nprocess %d has ended\n", static_cast<int>(pid));
    std::fflush(stdout);
    if (ended || !terminal) break;
  }
  ::close(fd);
  return status;
}

}  // namespace tessera::tools
