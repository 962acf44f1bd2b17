// What the command line asks for: batches of seeds, here or in child processes, and reduction.
#ifndef TESSERA_TESTS_RANDOM_DRIVER_H_
#define TESSERA_TESTS_RANDOM_DRIVER_H_

#include <cstdint>
#include <string>

#include "tests/random/program.h"

namespace tessera::random {

struct Settings {
  double seconds = 0;     // 0: until `programs` are done
  int64_t programs = 0;   // 0: until `seconds` are over
  uint64_t seed = 1;      // of the first program; the next ones follow
  std::string kind;       // gir, eager or empty for both
  std::string out = ".";  // folder for failing programs
  std::string broken;     // wrong, crash or hang: a fault to be found; empty: none
  int silence_s = 60;     // a child that says nothing for so long hangs
  bool fork = false;
  bool child = false;  // started by the driver: says "seed N" before each program
  bool reduce_failures = true;
  bool reducing = false;  // --run takes programs that use empty handles for ones that do not fail
  bool verbose = false;
};

struct Totals {
  int64_t gir = 0, eager = 0, runs = 0, failures = 0;
  uint64_t first_seed = 0, last_seed = 0;
  int64_t programs() const { return gir + eager; }
  std::string Line() const;
};

/// Runs the programs in this process. Before each one its seed is written where a crash leaves it: to the standard
/// output of a child, or to out/last_seed.
Totals RunBatch(const Settings& settings);
/// Runs them in child processes, a few seconds each, and goes on after a crash or a hang.
Totals RunForked(const Settings& settings);

struct Reduced {
  bool reproduced = false;
  std::string report;  // for people
  std::string text;    // the program that is left
};
/// Finds a configuration under which the seed's program fails in a process of its own and makes the program as small as
/// it can in about `seconds`. Writes the result to settings.out: for Graph IR a file test and its configuration, and
/// for both kinds a text that --run takes.
Reduced ReduceSeed(const Settings& settings, uint64_t seed, double seconds);

/// --run FILE: 0 when the engine agrees with the interpreter, 3 when not, 2 when the file is none. (1 is what
/// sanitizers end with; reduction must not take one for the other.)
int RunFile(const std::string& path, const Settings& settings);

/// Checks the generators and the driver themselves; prints what is wrong. True when nothing is.
bool SelfTest(const Settings& settings);

}  // namespace tessera::random

#endif  // TESSERA_TESTS_RANDOM_DRIVER_H_
