// The other side of PeerProcess: answers lines "COUNT TASK" on standard input with the seconds that COUNT runs of TASK
// took. Used by programs that do not link the rest of bench/.
#ifndef TESSERA_BENCH_PEER_SERVE_H_
#define TESSERA_BENCH_PEER_SERVE_H_

#include <signal.h>
#include <sys/prctl.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>

namespace bench {

/// `find` gives what times a task, or an empty function for one it does not know. Returns at the end of the input.
inline int Serve(const std::function<std::function<double(int64_t)>(const std::string& task)>& find) {
  // A stopped process would outlive a benchmark that is interrupted.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::printf("ready\n");
  std::fflush(stdout);
  std::string known;
  std::function<double(int64_t)> timed;
  int64_t n = 0;
  for (std::string task; std::cin >> n && std::cin.get() && std::getline(std::cin, task);) {
    if (task != known || !timed) timed = find(task);
    known = task;
    std::printf("%.9e\n", timed ? timed(n) : -1.0);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace bench

#endif  // TESSERA_BENCH_PEER_SERVE_H_
