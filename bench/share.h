// Where the time of a task goes, found by sampling it from outside: the library has no clock in its hot paths, and
// needs none for this.
#ifndef TESSERA_BENCH_SHARE_H_
#define TESSERA_BENCH_SHARE_H_

#include <functional>

namespace bench {

/// Parts of the time that the calling thread ran; what is missing to 1 is the library's own code and the C library.
/// Waiting does not count. NaN where there were too few samples.
struct Share {
  double generated = 0;  // code that no file holds
  double blas = 0;       // libopenblas or libblas
};

/// Calls `body` again and again for about `seconds` and looks where the thread is about 2000 times a second.
Share SampleShare(const std::function<void()>& body, double seconds);

}  // namespace bench

#endif  // TESSERA_BENCH_SHARE_H_
