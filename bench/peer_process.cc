#include "bench/peer_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <tuple>

extern char** environ;

namespace bench {
namespace {

/// posix_spawn with the ends of pipes as its standard input and output; -1 for /dev/null.
pid_t Spawn(const std::vector<std::string>& command, const std::vector<std::string>& environment, int in, int out) {
  std::vector<char*> argv, env;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  for (const std::string& setting : environment) env.push_back(const_cast<char*>(setting.c_str()));
  for (char** e = environ; *e != nullptr; ++e) env.push_back(*e);
  env.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const auto& [fd, to, flags] : {std::tuple(in, STDIN_FILENO, O_RDONLY), std::tuple(out, STDOUT_FILENO, O_WRONLY)})
    if (fd >= 0)
      posix_spawn_file_actions_adddup2(&actions, fd, to);
    else
      posix_spawn_file_actions_addopen(&actions, to, "/dev/null", flags, 0);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), env.data());
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : -1;
}

}  // namespace

std::shared_ptr<PeerProcess> PeerProcess::Start(const std::vector<std::string>& command,
                                                const std::vector<std::string>& environment) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) return nullptr;
  signal(SIGPIPE, SIG_IGN);
  std::shared_ptr<PeerProcess> peer(new PeerProcess);
  peer->pid_ = Spawn(command, environment, to[0], from[1]);
  close(to[0]);
  close(from[1]);
  peer->to_ = to[1];
  peer->from_ = from[0];
  if (peer->pid_ < 0 || peer->ReadLine() != "ready") return nullptr;
  kill(peer->pid_, SIGSTOP);
  return peer;
}

PeerProcess::~PeerProcess() {
  close(to_);
  close(from_);
  if (pid_ < 0) return;
  kill(pid_, SIGCONT);
  waitpid(pid_, nullptr, 0);
}

std::string PeerProcess::ReadLine() {
  std::string line;
  for (char c; read(from_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

double PeerProcess::Ask(const std::string& task, int64_t n) {
  const std::string line = std::to_string(n) + " " + task + "\n";
  if (write(to_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return -1;
  kill(pid_, SIGCONT);
  const std::string answer = ReadLine();
  kill(pid_, SIGSTOP);
  return answer.empty() ? -1 : std::strtod(answer.c_str(), nullptr);
}

bool PeerProcess::Knows(const std::string& task) { return Ask(task, 1) >= 0; }

Timed PeerProcess::Task(std::shared_ptr<PeerProcess> peer, const std::string& task) {
  return [peer, task](int64_t n) {
    const double seconds = peer->Ask(task, n);
    if (seconds < 0) throw std::runtime_error("the peer process does not answer: " + task);
    return seconds;
  };
}

bool RunProgram(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                std::string* output) {
  int from[2] = {-1, -1};
  if (output != nullptr && pipe2(from, O_CLOEXEC) != 0) return false;
  const pid_t pid = Spawn(command, environment, -1, from[1]);
  if (from[1] >= 0) close(from[1]);
  if (output != nullptr) {
    char block[4096];
    for (ssize_t n; (n = read(from[0], block, sizeof block)) > 0;) output->append(block, static_cast<size_t>(n));
    close(from[0]);
  }
  int status = 0;
  return pid >= 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace bench
