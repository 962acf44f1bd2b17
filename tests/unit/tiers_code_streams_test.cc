// Results that are written past the caches, against tier 1, to the bit: rows that begin at a line of the cache and rows
// that do not, widths of all kinds, several results, results in the memory of an operand.
#include "tests/unit/tiers_code_testing.h"

namespace tessera {
namespace {

/// Do results of this size go past the caches here?
bool Streams() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2");
#else
  return false;
#endif
}

/// Calls the first function of the text a few times in tier 1 and in generated code.
void RunStreaming(const std::string& text, const std::vector<Tensor>& in) {
  const auto run = [&](const Settings& settings, bool generated) {
    const OptionScope scope(settings);
    tiers::Manager::Get().Reset();
    const Function function = Function::parse(text).value();
    const int64_t before = MetricNow("kernels_generated");
    std::vector<std::vector<std::byte>> all;
    for (int i = 0; i < 9; ++i) {
      all.clear();
      for (const Tensor& x : function(in)) all.push_back(x.to_bytes());
    }
    if (generated) {
      EXPECT_GT(MetricNow("kernels_generated"), before) << Runtime::explain();
      const std::string schedule = function.inspect_ir("sched").value();
      EXPECT_EQ(schedule.find(" streams") != std::string::npos, Streams()) << schedule;
    }
    return all;
  };
  const auto want = run({{"tier", "1"}}, false);
  for (const int tier : {2, 3}) {
    SCOPED_TRACE(absl::StrCat("tier ", tier));
    // Pieces of a thread begin anywhere.
    for (const char* grain : {"32768", "10007"}) {
      Settings settings = CodeAtOnce({tier, true});
      settings["parallel_grain"] = grain;
      EXPECT_TRUE(run(settings, true) == want) << grain;
    }
  }
}

class TiersCodeStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  }
};

TEST_F(TiersCodeStreams, FlatAndInRows) {
  const std::string flat =
      "func @f(%x: tensor<M x N x f32>, %y: tensor<M x N x f32>) -> tensor<M x N x f32> {\n"
      "  %a = mul %x, %y\n  %b = add %a, 0.5\n  return %b\n}\n";
  const std::string rows =
      "func @f(%x: tensor<M x N x f32>, %w: tensor<N x f32>) -> tensor<M x N x f32> {\n"
      "  %a = mul %x, %w\n  %b = add %a, %x\n  return %b\n}\n";
  for (const Dims& dims : {Dims{2048, 4096}, Dims{4099, 2053}, Dims{8388611, 1}}) {
    SCOPED_TRACE(absl::StrCat(dims[0], " x ", dims[1]));
    const Tensor x = Uniform(dims, 1);
    RunStreaming(flat, {x, Uniform(dims, 2)});
    if (dims[1] > 1) RunStreaming(rows, {x, Uniform({dims[1]}, 3)});
  }
}

TEST_F(TiersCodeStreams, WidthsAndSeveralResults) {
  RunStreaming(
      "func @f(%x: tensor<M x N x bf16>, %w: tensor<N x bf16>) -> (tensor<M x N x bf16>, tensor<M x N x bool>) {\n"
      "  %a = mul %x, %w\n  %b = gt %a, %x\n  return %a, %b\n}\n",
      {Uniform({4100, 8200}, 1, -2, 2, bf16), Uniform({8200}, 2, -2, 2, bf16)});
  RunStreaming(
      "func @f(%x: tensor<M x N x f64>) -> tensor<M x N x f64> {\n  %a = mul %x, %x\n  %b = sub %a, %x\n  return "
      "%b\n}\n",
      {Uniform({2049, 2049}, 3, -2, 2, f64)});
}

// Operands that begin between two lines, and a result that may take the memory of what went before.
TEST_F(TiersCodeStreams, OperandsThatBeginAnywhere) {
  constexpr int64_t kSide = 2900;
  const Tensor from = Uniform({kSide * kSide + 1}, 1);
  const auto run = [&](const Settings& settings) {
    const OptionScope scope(settings);
    tiers::Manager::Get().Reset();
    Tensor x = reshape(slice(from * 1.0, {1}, {kSide * kSide + 1}), {kSide, kSide});
    for (int i = 0; i < 6; ++i) {
      const Step step;
      x = x * 0.75 + 0.125;
      x = x - 0.5;
      (void)x.read<float>();
    }
    return x.to_bytes();
  };
  const auto want = run({{"tier", "1"}});
  for (const int tier : {2, 3}) {
    Settings settings = CodeAtOnce({tier, true});
    settings["hot_eager"] = "1000000";
    EXPECT_TRUE(run(settings) == want) << tier;
  }
}

}  // namespace
}  // namespace tessera
