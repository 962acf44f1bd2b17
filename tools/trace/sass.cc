#include "tools/trace/sass.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/trace/pcs.h"

extern char** environ;

namespace tessera::tools {
namespace {

/// A longer text is cut off, and so is what a program writes that does not end.
constexpr size_t kMostBytes = 4 << 20;

struct Tool {
  const char* name;
  std::vector<std::string> arguments;
};

std::string OnPath(const char* name) {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : std::vector<std::string>(absl::StrSplit(path != nullptr ? path : "", ':'))) {
    const std::string full = absl::StrCat(folder, "/", name);
    if (!folder.empty() && ::access(full.c_str(), X_OK) == 0) return full;
  }
  return "";
}

/// A file that is gone with it.
class Temporary {
 public:
  explicit Temporary(std::string_view bytes) {
    const char* folder = std::getenv("TMPDIR");
    path_ = absl::StrCat(folder != nullptr && *folder != '\0' ? folder : "/tmp", "/tessera-XXXXXX");
    const int fd = ::mkstemp(path_.data());  // for its owner alone
    if (fd < 0) {
      path_.clear();
      return;
    }
    ok_ = true;
    while (!bytes.empty() && ok_) {
      const ssize_t n = ::write(fd, bytes.data(), bytes.size());
      ok_ = n > 0;
      if (ok_) bytes.remove_prefix(static_cast<size_t>(n));
    }
    ::close(fd);
  }
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  bool ok() const { return ok_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool ok_ = false;
};

/// What the program writes to its standard output. No shell is in between.
absl::StatusOr<std::string> OutputOf(const std::string& program, std::vector<std::string> arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Internal("no pipe: ", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string out;
  char buffer[1 << 16];
  for (ssize_t n = 0; error == 0 && out.size() < kMostBytes && (n = ::read(ends[0], buffer, sizeof buffer)) != 0;) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    out.append(buffer, static_cast<size_t>(n));
  }
  ::close(ends[0]);  // a program that has more to say ends now
  if (error != 0) return Internal(program, " cannot be run: ", std::strerror(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (out.empty())
    return Internal(program, " gave nothing: it ended with ",
                    WIFEXITED(status) ? absl::StrCat(WEXITSTATUS(status)) : absl::StrCat("signal ", WTERMSIG(status)));
  return out;
}

absl::StatusOr<std::string> Disassemble(const std::string& cubin) {
  std::string bytes;
  if (!absl::Base64Unescape(cubin, &bytes) || bytes.empty()) return InvalidArgument("the cubin in the file is damaged");
  const Temporary file(bytes);
  if (!file.ok()) return Internal("a temporary file cannot be written");
  const Tool tools[] = {{"nvdisasm", {"--print-code", file.path()}}, {"cuobjdump", {"--dump-sass", file.path()}}};
  for (const Tool& tool : tools)
    if (const std::string program = OnPath(tool.name); !program.empty()) return OutputOf(program, tool.arguments);
  return NotFound("neither nvdisasm nor cuobjdump is on the PATH: they come with the CUDA toolkit");
}

}  // namespace

absl::Status AddSass(rt::trace::TraceData* data, size_t most) {
  absl::Status status = NotFound("the file has no cubin: it holds no code for a GPU, or there was no time for it");
  std::vector<rt::trace::StageRow> added;
  bool first = true;
  for (size_t i = data->stages.size(); i-- > 0 && added.size() < most;) {
    const rt::trace::StageRow& row = data->stages[i];
    if (row.stage != "cubin") continue;
    absl::StatusOr<std::string> text = Disassemble(row.text);
    if (std::exchange(first, false) || (status.ok() && !text.ok())) status = text.status();
    // Without the program the others fare no better.
    if (!text.ok() && absl::IsNotFound(text.status())) break;
    if (text.ok()) added.push_back({row.version, "sass", WithSamples(*text, *data, row.version)});
  }
  for (rt::trace::StageRow& row : added) data->stages.push_back(std::move(row));
  return status;
}

}  // namespace tessera::tools
