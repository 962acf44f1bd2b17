// This program started again as a child: a crash or a hang then costs one child and not the run.
#ifndef TESSERA_TESTS_RANDOM_PROCESS_H_
#define TESSERA_TESTS_RANDOM_PROCESS_H_

#include <functional>
#include <string>
#include <vector>

namespace tessera::random {

struct ChildResult {
  int code = 0;    // exit status, when it ended by itself
  int signal = 0;  // 0: none
  bool hung = false;
  /// "exit 3", "signal 11", "hung": what reduction must not change.
  std::string Ending() const;
};

/// Starts this program with `args` (posix_spawn: the parent may have threads), gives `line` each line it prints, and
/// waits. A child that prints nothing for `silence_s` seconds is ended and counts as hung.
ChildResult RunSelf(const std::vector<std::string>& args, int silence_s,
                    const std::function<void(const std::string&)>& line);

}  // namespace tessera::random

#endif  // TESSERA_TESTS_RANDOM_PROCESS_H_
