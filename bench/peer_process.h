// Peers in processes of their own, so that their threads and libraries do not meet ours. A peer is stopped (SIGSTOP)
// whenever it is not being timed: idle threads of some libraries spin.
#ifndef TESSERA_BENCH_PEER_PROCESS_H_
#define TESSERA_BENCH_PEER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/harness.h"

namespace bench {

class PeerProcess {
 public:
  /// Starts a program that speaks the protocol of peer_serve.h, with NAME=VALUE strings added to the environment.
  /// Null if it cannot be started or does not say "ready".
  static std::shared_ptr<PeerProcess> Start(const std::vector<std::string>& command,
                                            const std::vector<std::string>& environment = {});
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  bool Knows(const std::string& task);
  /// Keeps the process. Throws std::runtime_error when the peer fails.
  static Timed Task(std::shared_ptr<PeerProcess> peer, const std::string& task);

 private:
  PeerProcess() = default;
  double Ask(const std::string& task, int64_t n);
  /// A line without its end; empty when the peer is gone.
  std::string ReadLine();

  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
};

/// Runs a program to its end. Its output is returned if `output` is given, else thrown away. False if it failed.
bool RunProgram(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                std::string* output);

}  // namespace bench

#endif  // TESSERA_BENCH_PEER_PROCESS_H_
