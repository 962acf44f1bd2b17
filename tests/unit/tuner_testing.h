// What tests of the tuner share: a program, and what the ledger says of a tuner that came to its end.
#ifndef TESSERA_TESTS_UNIT_TUNER_TESTING_H_
#define TESSERA_TESTS_UNIT_TUNER_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace tessera {

/// A product of bf16 and what follows it: on GPUs a kernel with tensor cores, or the library's.
inline constexpr const char* kLinear =
    "func @f(%x: tensor<1024 x 1024 x bf16>, %w: tensor<1024 x 1024 x bf16>, %b: tensor<1024 x bf16>)"
    " -> tensor<1024 x 1024 x bf16> {\n"
    "  %p = matmul %x, %w : tensor<1024 x 1024 x bf16>\n  %q = add %p, %b : tensor<1024 x 1024 x bf16>\n"
    "  %y = relu %q : tensor<1024 x 1024 x bf16>\n  return %y\n}\n";

/// "... tuned: 3 schedules tried, p0:rows=16 (the first 4.1 us, p0:rows=8 none, p0:rows=16 3.2 us) ..."
struct Tuned {
  std::string best;                     // "the first", or a schedule
  std::map<std::string, double> times;  // microseconds; -1: it was not timed
};

/// Nothing is timed where there is no such line.
inline Tuned TunedIn(const std::string& explained) {
  Tuned r;
  const size_t begin = explained.find("tuned: "), tried = explained.find(" schedules tried, ", begin);
  const size_t open = explained.find(" (the first ", tried), close = explained.find(')', open);
  if (begin == std::string::npos || close == std::string::npos) return r;
  const size_t best = tried + std::string(" schedules tried, ").size();
  r.best = explained.substr(best, open - best);
  if (r.best.starts_with("the first")) r.best = "the first";
  // Schedules have commas, but no blank after them.
  std::string rest = explained.substr(open + 2, close - open - 2) + ", ";
  for (size_t end; (end = rest.find(", ")) != std::string::npos; rest.erase(0, end + 2)) {
    std::string entry = rest.substr(0, end);
    const bool is_timed = entry.ends_with(" us");
    if (is_timed) entry.resize(entry.size() - 3);
    const size_t at = entry.rfind(' ');
    r.times[entry.substr(0, at)] = is_timed ? std::stod(entry.substr(at + 1)) : -1;
  }
  return r;
}

/// All that was tried was timed, and nothing by more than chance faster than what was kept.
inline void ExpectTheFastest(const std::string& explained, size_t least) {
  const Tuned tuned = TunedIn(explained);
  EXPECT_GE(tuned.times.size(), least) << explained;
  ASSERT_TRUE(tuned.times.contains(tuned.best)) << explained;
  for (const auto& [schedule, us] : tuned.times) {
    EXPECT_GT(us, 0) << schedule << "\n" << explained;
    EXPECT_GE(us + 0.11, 0.98 * tuned.times.at(tuned.best)) << schedule << "\n" << explained;
  }
}

}  // namespace tessera

#endif  // TESSERA_TESTS_UNIT_TUNER_TESTING_H_
