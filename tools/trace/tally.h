// Sums of times that a file says.
#ifndef TESSERA_TOOLS_TRACE_TALLY_H_
#define TESSERA_TOOLS_TRACE_TALLY_H_

#include <cstdint>

namespace tessera::tools {

/// Numbers of a file may be anything: sums of them stop at the largest there is.
inline int64_t Sum(int64_t x, int64_t y) {
  int64_t sum;
  return __builtin_add_overflow(x, y, &sum) ? (x < 0 ? INT64_MIN : INT64_MAX) : sum;
}

/// Something that happened `count` times and took `ns` in all.
struct Tally {
  int64_t count = 0, ns = 0, longest_ns = 0;
  void Add(int64_t took, int64_t n = 1) {
    count = Sum(count, n);
    ns = Sum(ns, took);
    longest_ns = longest_ns < took ? took : longest_ns;
  }
};

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_TALLY_H_
