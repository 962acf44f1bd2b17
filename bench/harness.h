// How the benchmarks time and report. Contenders run in turn, in many short batches, so that a machine that is busy or
// changes its clock treats all alike; figures are medians, the best of all batches, and the spread.
#ifndef TESSERA_BENCH_HARNESS_H_
#define TESSERA_BENCH_HARNESS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// Does the thing n times and gives the seconds it took.
using Timed = std::function<double(int64_t n)>;

inline double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class F>
Timed Loop(F body) {
  return [body](int64_t n) mutable {
    const double start = Now();
    for (int64_t i = 0; i < n; ++i) body();
    return Now() - start;
  };
}

/// Seconds that one run takes.
struct Summary {
  double median = 0;
  double best = 0;
  double spread = 0;  // distance of the quartiles, as a part of the median
};

/// The contenders in the order given. ratios[i] is the median over the rounds of time[i] / time[0] within one round.
struct Race {
  std::vector<Summary> times;
  std::vector<double> ratios;
  int rounds = 0;
};

/// Runs the contenders in turn for about `seconds` in all, and in at least 7 rounds. A batch is long enough for the
/// clock and begins with a run that does not count.
Race RunRace(const std::vector<Timed>& contenders, double seconds);

/// Seconds given to one race; --seconds sets it.
double Budget();
void SetBudget(double seconds);

/// What a figure should reach.
struct Goal {
  enum Kind { none, value_at_most, ratio_at_least } kind = none;
  double number = 0;
};

/// How seconds become a figure: a rate (scale / seconds, more is better) or a time (scale * seconds, less is better).
struct Unit {
  std::string name;
  double scale = 1;
  bool rate = false;
  double Of(double seconds) const { return rate ? scale / seconds : scale * seconds; }
};
inline Unit Nanoseconds(double per = 1) { return {"ns", 1e9 / per, false}; }
inline Unit Milliseconds() { return {"ms", 1e3, false}; }
/// `amount` of the unit in one run, e.g. {"GB/s", 0.19}.
inline Unit Rate(std::string name, double amount) { return {std::move(name), amount, true}; }

struct Figure {
  std::string name;
  Unit unit;
  Summary ours = {};
  std::string peer = {};  // empty: there is none, and `note` says why
  Summary theirs = {};
  double ratio = 0;  // above 1: we are better
  Goal goal = {};
  std::string note = {};
  std::vector<std::pair<std::string, std::string>> more = {};  // further keys, with values in JSON
};

/// Prints one line of JSON, with the machine.
void Report(const Figure& figure);
/// The same for a race whose first contender is ours: one line for each peer, or one without a peer if there is none.
void Report(Figure figure, const Race& race, const std::vector<std::string>& peers);

std::string JsonString(const std::string& text);
/// A line on standard error, if a person looks at it.
void Progress(const std::string& line);
/// Folder of this program, where the programs beside it are looked for.
std::string ProgramFolder();

}  // namespace bench

#endif  // TESSERA_BENCH_HARNESS_H_
