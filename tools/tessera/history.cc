#include "tools/tessera/history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/file.h"

namespace tessera::tools {

namespace fs = std::filesystem;

std::string History::DefaultFile() {
  if (const char* file = std::getenv("TESSERA_HISTORY")) return file;
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/')
    return std::string(state) + "/tessera/history";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
    return std::string(home) + "/.local/state/tessera/history";
  return "";
}

History::History(std::string file) : file_(std::move(file)) {
  if (file_.empty()) return;
  std::error_code ignored;
  if (const fs::path folder = fs::path(file_).parent_path(); !folder.empty() && !fs::exists(folder, ignored)) {
    fs::create_directories(folder, ignored);
    ::chmod(folder.c_str(), 0700);
  }
  auto text = rt::ReadFile(file_);
  if (!text.ok()) return;
  lines_ = absl::StrSplit(*text, '\n', absl::SkipEmpty());
  // The file grows by a line at a time and is cut when it is read.
  if (lines_.size() <= kMost) return;
  lines_.erase(lines_.begin(), lines_.end() - static_cast<std::ptrdiff_t>(kMost));
  rt::WriteFile(file_, {absl::StrJoin(lines_, "\n"), "\n"}, 0600).IgnoreError();
}

void History::Add(const std::string& line) {
  if (line.empty() || line[0] == ' ' || (!lines_.empty() && lines_.back() == line)) return;
  if (lines_.size() >= 2 * kMost) lines_.erase(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(kMost));
  lines_.push_back(line);
  if (file_.empty()) return;
  // Several programs may write at once: a line goes in one piece.
  const int fd = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const std::string text = line + "\n";
  if (::write(fd, text.data(), text.size()) < 0) file_.clear();
  ::close(fd);
}

}  // namespace tessera::tools
