// Long runs: nothing grows, whatever the program does for however long; and threads that run, build, evict and change
// options at once. TESSERA_SOAK=1 makes the soaks 10^6 iterations long.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "interp/interpreter.h"
#include "runtime/device.h"
#include "tests/unit/tiers_function_testing.h"
#include "tests/unit/usage.h"
#include "tiers_testing.h"

namespace tessera {
namespace {

/// runtime_tensor_test.cc looks whether the process ends with nothing in use. Versions live as long as the process, so
/// what they hold is given back before.
class ForgetVersions final : public ::testing::Environment {
 public:
  void TearDown() override { tiers::Manager::Get().Reset(); }
};
[[maybe_unused]] ::testing::Environment* const kForgetVersions =
    ::testing::AddGlobalTestEnvironment(new ForgetVersions);

constexpr char kFunction[] = R"(func @f(%x: tensor<N x f32>, %p: tensor<bool>) -> tensor<f32> {
  %a = mul %x, 0.5
  %b = if %p -> (tensor<N x f32>) {
    %t = tanh %a
    yield %t
  } else {
    %u = add %a, 0.25
    %v = mul %u, %x
    yield %v
  }
  %s = mean %b {axes = [0], keepdims = false}
  return %s
})";

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  int64_t operator()(int64_t below) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<int64_t>(state_ % static_cast<uint64_t>(below));
  }

 private:
  uint64_t state_;
};

/// A program without an end: eager ops and a function, with sizes that change all the time and ways that change now and
/// then. What it has computed depends on every iteration.
class EndlessProgram {
 public:
  explicit EndlessProgram(uint64_t seed) : random_(seed), function_(kFunction) {}

  void Iterate() {
    const int64_t n = random_(8) == 0 ? 1 + random_(300) : 16 + 8 * random_(6);
    const int64_t way = random_(32);
    Tensor x = base_[{{0, n}}] * w_;
    Tensor y = tanh(x + 0.5);
    if (way == 0) y = y - x;
    Tensor s = sum(y * x) * (1.0 / static_cast<double>(n));
    if (way == 1) sum_ += s.item<float>();
    rt::TensorImpl* args[] = {y.impl(), way == 2 ? yes_.impl() : no_.impl()};
    interp::Results results;
    const absl::Status status = interp::Call(function_.instance(), 0, args, rt::Cpu(), &results);
    if (!status.ok()) throw std::runtime_error(std::string(status.message()));
    sum_ += *results[0]->as<float>();
    w_ = tanh(w_ * 0.75 + s);
  }
  /// Every bit of what it has computed.
  void Finish(Log& log) {
    log.Add(w_);
    log.Add(Tensor::scalar(sum_));
  }

 private:
  Random random_;
  testing::Program function_;
  const Tensor base_ = iota({512}, 0, 0.5, 0.001, f32);
  const Tensor yes_ = Tensor::scalar(true), no_ = Tensor::scalar(false);
  Tensor w_ = Tensor::scalar(0.5f);
  double sum_ = 0;
};

/// A program that goes the same way a few times and then any way: what is hot is soon left, and what comes after a read
/// is seldom what came after the last one.
class ProgramOfManyWays {
 public:
  explicit ProgramOfManyWays(uint64_t seed) : random_(seed) {}

  void Iterate() {
    Tensor x = w_ * 0.5;
    for (int64_t k = 0; k < 4; ++k) {
      switch (const int64_t any = random_(4); round_ % 16 < 6 ? k : any) {
        case 0: x = tanh(x); break;
        case 1: x = x + 0.25; break;
        case 2: x = x * 0.75; break;
        default: x = abs(x);
      }
    }
    w_ = x + 0.125;
    sum_ += sum(w_).item<float>();
    ++round_;
  }
  void Finish(Log& log) {
    log.Add(w_);
    log.Add(Tensor::scalar(sum_));
  }

 private:
  Random random_;
  int64_t round_ = 0;
  Tensor w_ = Tensor::from<float>({1, 2, 3, 4});
  double sum_ = 0;
};

int Iterations() {
  const char* soak = std::getenv("TESSERA_SOAK");
  return soak != nullptr && std::string_view(soak) == "1" ? 1'000'000 : 20'000;
}

template <class Program>
void Soak(int64_t least_runs) {
  const int iterations = Iterations();
  Log want, log;
  {
    const OptionScope tier1({{"tier", "1"}});
    Program program(1);
    for (int i = 0; i < iterations; ++i) program.Iterate();
    program.Finish(want);
  }
  // A version stays whatever it measures, so that the soak is one of versions on any machine; and it gets its code
  // early, so that what the compiler keeps for good is there when memory is looked at first.
  const OptionScope options({{"tier", "3"},
                             {"background", "false"},
                             {"profit_gate", "false"},
                             {"bitwise", "true"},
                             {"compile_after", "0"},
                             {"specialise_after", "0"}});
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  const int64_t runs = MetricNow("version_runs");
  Program program(1);
  std::vector<Usage> samples;
  for (int i = 1; i <= iterations; ++i) {
    program.Iterate();
    if (i == iterations / 10 || i == iterations / 2 || i == iterations) {
      samples.push_back(Usage::Now());
      std::printf("after %d iterations: %s\n", i, samples.back().ToString().c_str());
    }
  }
  program.Finish(log);
  EXPECT_EQ(log.lines(), want.lines());
  EXPECT_GE(MetricNow("version_runs") - runs, least_runs) << Runtime::explain();

  // What is still learned after the first tenth is a matter of a few rare ways; what leaks grows with the iterations.
  const Usage& early = samples[0];
  for (const Usage& late : {samples[1], samples[2]}) {
    EXPECT_LE(late.bytes_in_use, early.bytes_in_use + (256 << 10));
    EXPECT_LE(late.versions, early.versions + 16);
    EXPECT_LE(late.version_bytes, early.version_bytes + (256 << 10));
    EXPECT_LE(late.version_handles, early.version_handles + 16);
    EXPECT_LE(late.anchors, early.anchors + 64);
    if (!kSanitized) EXPECT_LE(late.resident, early.resident + (4 << 20));
  }
}

// Each iteration has two stretches that may run in versions; where paths fall into the same entry of a stream's table,
// which addresses decide, one of them may stay in tier 1 for a while.
TEST(TiersSoak, NothingGrows) { Soak<EndlessProgram>(Iterations() / 2); }
TEST(TiersSoak, NothingGrowsWhereNoTwoRoundsAreAlike) { Soak<ProgramOfManyWays>(1); }

TEST(TiersSoak, ThreadsRunWhileVersionsAreBuiltEvictedAndOutdated) {
  constexpr int kThreads = 2;
  constexpr int kIterations = kSanitized ? 1500 : 6000;
  std::vector<Log> want(kThreads), logs(kThreads);
  {
    const OptionScope tier1({{"tier", "1"}});
    for (int t = 0; t < kThreads; ++t) {
      EndlessProgram program(static_cast<uint64_t>(t) + 7);
      for (int i = 0; i < kIterations; ++i) program.Iterate();
      program.Finish(want[static_cast<size_t>(t)]);
    }
  }
  const OptionScope options({{"tier", "3"},
                             {"background", "true"},
                             {"profit_gate", "false"},
                             {"hot_eager", "3"},
                             {"hot_function", "3"},
                             {"hot_loop", "3"},
                             {"hot_exit", "3"},
                             {"bitwise", "true"},
                             {"version_count", "2"}});
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  const int64_t runs = MetricNow("version_runs"), dropped = MetricNow("versions_dropped");
  std::atomic<int> running{kThreads};
  std::atomic<int64_t> done{0};  // iterations of both
  // Each hands the other a tensor that may still wait to be computed.
  std::mutex mutex;
  Tensor handed = Tensor::scalar(6.0f);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      EndlessProgram program(static_cast<uint64_t>(t) + 7);
      for (int i = 0; i < kIterations; ++i) {
        program.Iterate();
        ++done;
        if (i % 50 != 0) continue;
        Tensor mine = Tensor::scalar(2.0f) * 3.0;
        Tensor theirs;
        {
          const std::lock_guard lock(mutex);
          theirs = std::exchange(handed, mine);
        }
        EXPECT_EQ(theirs.item<float>(), 6.0f);
      }
      program.Finish(logs[static_cast<size_t>(t)]);
      --running;
    });
  }
  // An option changes now and then by the programs' own time, so that versions have their runs on a slow machine too.
  for (int64_t changes = 1; running > 0;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (done < changes * 500) continue;
    EXPECT_TRUE(rt::options().Set("hot_eager", changes % 2 == 0 ? "3" : "4").ok());
    (void)Runtime::explain();
    ++changes;
  }
  for (std::thread& thread : threads) thread.join();
  tiers::Manager::Get().Drain();
  for (size_t t = 0; t < kThreads; ++t) EXPECT_EQ(logs[t].lines(), want[t].lines()) << "thread " << t;
  EXPECT_GT(MetricNow("version_runs"), runs);
  EXPECT_GT(MetricNow("versions_dropped"), dropped);
  EXPECT_LE(tiers::Manager::Get().num_versions(), 2);
}

}  // namespace
}  // namespace tessera
