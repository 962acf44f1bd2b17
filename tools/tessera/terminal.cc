#include "tools/tessera/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

namespace tessera::tools {

bool IsTerminal(std::FILE* file) { return ::isatty(::fileno(file)) == 1; }

bool UseColour(std::FILE* file) {
  const char* term = std::getenv("TERM");
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  return IsTerminal(file) && term != nullptr && std::string_view(term) != "dumb" && *term != '\0';
}

int TerminalWidth(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string Style::With(std::string_view code, std::string_view text) const {
  if (!on_ || text.empty()) return std::string(text);
  std::string out = "\x1b[";
  return out.append(code).append("m").append(text).append("\x1b[0m");
}

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (IsTerminal(stderr)) thread_ = std::thread([this] { Loop(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
  Erase();
}

void Progress::Set(std::string what) {
  std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void Progress::Hide() {
  if (!thread_.joinable()) return;
  std::lock_guard lock(mutex_);
  hidden_ = true;
  Erase();
}

void Progress::Show() {
  std::lock_guard lock(mutex_);
  hidden_ = false;
}

void Progress::Erase() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
}

void Progress::Loop() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  for (int seconds = 1; !wake_.wait_until(lock, start + std::chrono::seconds(seconds), [&] { return done_; });
       ++seconds) {
    if (hidden_) continue;
    std::string line = what_.substr(0, static_cast<size_t>(std::max(TerminalWidth(STDERR_FILENO) - 12, 1)));
    std::fprintf(stderr, "\r\x1b[K%s ... %d s", line.c_str(), seconds);
    drawn_ = true;
  }
}

}  // namespace tessera::tools
