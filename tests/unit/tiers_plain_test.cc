// Ops that a version expects are compared with the call itself (interp::Stream::Take), before anything is made of it.
#include <cmath>
#include <limits>
#include <thread>

#include "interp/stream.h"
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

/// Counts the ops of this thread that a comparison with the call did not decide.
class OtherOps {
 public:
  OtherOps() : stream_(*interp::CurrentStream()) {
    before_ = stream_.on_op;
    count_ = 0;
    stream_.on_op = [](interp::Stream& stream, interp::EagerCall& call, absl::Span<rt::TensorImpl*> out) {
      ++count_;
      return before_(stream, call, out);
    };
  }
  ~OtherOps() { stream_.on_op = before_; }
  OtherOps(const OtherOps&) = delete;
  int64_t count() const { return count_; }

 private:
  interp::Stream& stream_;
  static inline bool (*before_)(interp::Stream&, interp::EagerCall&, absl::Span<rt::TensorImpl*>) = nullptr;
  static inline int64_t count_ = 0;
};

constexpr int kWarm = 40, kRounds = 20;

/// How many ops of a warm round are not decided by a comparison with the call.
template <class Round>
double OthersInARound(Round round) {
  const OptionScope scope(HotAtOnce());
  tiers::Manager::Get().Reset();
  for (int i = 0; i < kWarm; ++i) round(i);
  const OtherOps others;
  const int64_t runs = MetricNow("version_runs");
  for (int i = kWarm; i < kWarm + kRounds; ++i) round(i);
  EXPECT_GE(MetricNow("version_runs") - runs, kRounds - 1);
  return static_cast<double>(others.count()) / kRounds;
}

// The op with which the next round begins is always looked at: the trace has ended.
TEST(TiersPlain, OneComparisonIsAllThereIsToMostOps) {
  const Tensor x = Ramp(16), m = reshape(Ramp(16), {4, 4});
  Tensor w = x;
  EXPECT_LE(OthersInARound([&](int i) {
              // Numbers and inputs change from round to round.
              const Tensor a = tanh(w * (0.5 / (i + 1))) + x;
              Tensor b = where(a > 0.25, a, 0.0);
              b -= a * 0.125;
              b *= x;
              w = clamp(b.clone(), -1.0, 1.0);
            }),
            1);
  Tensor p = m;
  EXPECT_LE(OthersInARound([&](int) {
              const Tensor q = matmul(p, m, true) * 0.0625;
              p = matmul(q, m, false, true) * 0.0625 - q;
            }),
            1);
}

TEST(TiersPlain, UnderATape) {
  const Tensor x = Ramp(16);
  Tensor w = Ramp(16, 0.5);
  // The sums have attributes that are lists: of these everything is compared.
  EXPECT_LE(OthersInARound([&](int i) {
              Tape tape;
              tape.watch(w);
              const Tensor y = tanh(w * x) - x * 0.5;
              const Tensor loss = sum(y * y);
              w = w - tape.gradient(loss, {w})[0] * (0.01 / (i + 1));
            }),
            6);
  auto program = [](Log& log) {
    const Tensor x = Ramp(16);
    Tensor w = Ramp(16, 0.5);
    for (int i = 0; i < 60; ++i) {
      Tape tape;
      tape.watch(w);
      const Tensor y = tanh(w * x) - x * 0.5;
      const Tensor loss = sum(y * (i == 50 ? x : y));
      w = w - tape.gradient(loss, {w})[0] * (0.01 / (i + 1));
      if (i % 16 == 0) log.Add(loss);
    }
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 20);
}

TEST(TiersPlain, ATapeOfAnotherThreadChangesNothing) {
  const Tape tape;
  const Tensor x = Ramp(16);
  Tensor w = x;
  EXPECT_LE(OthersInARound([&](int) { w = tanh(w * 0.5) * x + x; }), 1);
}

TEST(TiersPlain, LeftAfterAnyNumberOfOps) {
  for (int left = 0; left < 6; ++left) {
    auto program = [left](Log& log) {
      const Tensor x = Ramp(8);
      Tensor w = x;
      for (int i = 0; i < 60; ++i) {
        int done = 0;
        const auto may_leave = [&] {
          if (done++ == left && (i == 40 || i == 52)) log.Add(exp(x * 0.25));
        };
        may_leave();
        const Tensor a = w * 0.5;
        may_leave();
        const Tensor b = a + x;
        may_leave();
        const Tensor c = tanh(b);
        may_leave();
        const Tensor d = c - a;
        may_leave();
        const Tensor e = d * x;
        may_leave();
        w = e * 0.25 + b;
      }
      log.Add(w);
    };
    EXPECT_GT(VersionRuns(program), 20) << left;
  }
}

TEST(TiersPlain, AnotherThreadReadsInTheMiddle) {
  auto program = [](Log& log) {
    const Tensor x = Ramp(8);
    Tensor w = x;
    for (int i = 0; i < 60; ++i) {
      const Tensor a = w * 0.5;
      Tensor b = a + x;
      if (i == 44 || i == 51) {
        std::string seen;
        std::thread([&] {
          seen = b.to_string();
          b = Tensor();  // dropped there
        }).join();
        log.Add(seen);
      }
      w = tanh(a) - x * 0.25;
    }
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 20);
}

TEST(TiersPlain, NewDimsInEachRound) {
  auto program = [](Log& log) {
    const Tensor all = Ramp(64);
    for (int i = 0; i < 60; ++i) {
      const int64_t n = 4 + i % 13;
      const Tensor x = all[{{0, n}}];
      const Tensor a = tanh(x * 0.5) + x;
      const Tensor b = reshape(a, {n, 1}) * x;
      const Tensor c = exp(b * 0.0625) - b;
      log.Add(sum(c * 0.5 + b));
    }
  };
  RunBoth(program);
}

}  // namespace
}  // namespace tessera
