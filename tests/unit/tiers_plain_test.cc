// Ops that a version expects are compared with the call itself (interp::Stream::Take), before anything is made of it.
#include <cmath>
#include <limits>

#include "tiers_testing.h"

namespace tessera {
namespace {

Tensor Ramp(int64_t n, double step = 0.25) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(0.5 + step * static_cast<double>(i)));
  return Tensor::from(values);
}

// The runs of versions that a program had.
int64_t VersionRuns(const TestProgram& program) {
  const int64_t before = MetricNow("version_runs");
  RunBoth(program);
  return MetricNow("version_runs") - before;
}

// Each of these differs, now and then, from what a version expects in one thing alone. They are functions, so that the
// place is the same.
Tensor Twice(const Tensor& x, const Arg& by) { return x * by; }
Tensor Product(const Tensor& x, const Tensor& y, bool transpose_a, bool transpose_b) {
  return matmul(x, y, transpose_a, transpose_b);
}
Tensor Between(const Tensor& x, const Arg& low, const Arg& high) { return clamp(x, low, high); }

TEST(TiersPlain, NumbersOfOtherKinds) {
  auto program = [](Log& log) {
    const Tensor ints = Tensor::from({1, 2, 3, 4});
    Tensor w = Ramp(4);
    for (int i = 0; i < 60; ++i) {
      const Tensor a = tanh(w * 0.5) + 0.25;
      // The bits of 4.0 as an integer, the same number as both, and a truth value.
      Tensor b = i == 40 ? Twice(ints, Arg(int64_t{4616189618054758400})) : i == 44 ? Twice(ints, 4) : Twice(ints, 4.0);
      if (i == 48) b = Twice(ints, true);
      log.Add(std::string(Name(b.dtype())));
      w = a * 0.5 + 0.125;
      if (i % 8 == 7 || i == 40 || i == 44 || i == 48) log.Add(b);
    }
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 20);
}

TEST(TiersPlain, NumbersThatAreNoneOrZero) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto program = [&](Log& log) {
    const double numbers[] = {0.0, -0.0, std::nan(""), kInfinity, -kInfinity, 5e-324, 0.5};
    const Tensor x = Ramp(8);
    for (int i = 0; i < 63; ++i) {
      const Tensor y = 1.0 / (x * numbers[i % 7]);
      const Tensor z = Between(y, -1.0, i % 2 == 0 ? 1.0 : 2.0) + y;
      log.Add(z);
    }
  };
  EXPECT_GT(VersionRuns(program), 20);
}

TEST(TiersPlain, FlagsOfProducts) {
  auto program = [](Log& log) {
    const Tensor x = reshape(Ramp(16), {4, 4});
    Tensor w = x * 0.125;
    for (int i = 0; i < 60; ++i) {
      const Tensor y = Product(w, x, i == 30 || i == 50, i == 40 || i == 50) * 0.0625;
      w = tanh(y + w);
      if (i % 10 == 0) log.Add(w);
    }
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 15);
}

TEST(TiersPlain, AnEmptyHandleInTheMiddle) {
  auto program = [](Log& log) {
    const Tensor x = Ramp(8);
    Tensor w = x, nothing;
    for (int i = 0; i < 60; ++i) {
      const Tensor a = w * 0.5;
      if (i >= 40 && i < 44) log.Try([&] { Twice(a, i % 2 == 0 ? nothing : x); });
      w = Between(a, 0.0, x) + Twice(a, x);
      if (i == 50) log.Try([&] { Between(nothing, 0.0, 1.0); });
    }
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 20);
}

TEST(TiersPlain, OperandsInAnotherOrder) {
  auto program = [](Log& log) {
    Tensor a = Ramp(8), b = Ramp(8, 0.5);
    for (int i = 0; i < 60; ++i) {
      const Tensor p = a * 0.5, q = b * 0.25;
      const bool swapped = i == 33 || i == 47;
      const Tensor r = (swapped ? q : p) - (swapped ? p : q);
      a = tanh(r) + p;
      b = a + q;
    }
    log.Add(a);
    log.Add(b);
  };
  EXPECT_GT(VersionRuns(program), 20);
}

}  // namespace
}  // namespace tessera
