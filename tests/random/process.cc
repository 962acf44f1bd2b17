#include "tests/random/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <stdexcept>

extern char** environ;

namespace tessera::random {
namespace {

std::string SelfPath() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
  if (n <= 0) throw std::runtime_error("cannot find this program's file");
  return std::string(path, static_cast<size_t>(n));
}

}  // namespace

std::string ChildResult::Ending() const {
  if (hung) return "hung";
  return signal != 0 ? "signal " + std::to_string(signal) : "exit " + std::to_string(code);
}

ChildResult RunSelf(const std::vector<std::string>& args, int silence_s,
                    const std::function<void(const std::string&)>& line) {
  const std::string self = SelfPath();
  std::vector<char*> argv = {const_cast<char*>(self.c_str())};
  for (const std::string& a : args) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, self.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    throw std::runtime_error("cannot start " + self);
  }

  ChildResult result;
  std::string pending;
  while (true) {
    pollfd wait = {ends[0], POLLIN, 0};
    const int ready = poll(&wait, 1, silence_s * 1000);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      result.hung = true;
      kill(pid, SIGKILL);
      break;
    }
    char buffer[4096];
    const ssize_t n = read(ends[0], buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    pending.append(buffer, static_cast<size_t>(n));
    for (size_t at; (at = pending.find('\n')) != std::string::npos; pending.erase(0, at + 1))
      line(pending.substr(0, at));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

}  // namespace tessera::random
