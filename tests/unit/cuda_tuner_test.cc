// The tuner on a CUDA device: what it keeps is the fastest of what it tried, and values stay right while it tries.
#include "tests/unit/tiers_code_testing.h"
#include "tests/unit/tuner_testing.h"
#include "tiers/generate.h"

namespace tessera {
namespace {

TEST(CudaTuner, KeepsTheFastestOfWhatItTried) {
  if (rt::NumCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  Settings settings = CodeAtOnce({3, true}, /*bitwise=*/false);
  settings["tune_after"] = "0";
  settings["cache"] = "false";
  const OptionScope scope(settings);
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  tiers::ForgetTunings();
  const Device gpu = *Device::find("cuda");
  constexpr int64_t kSize = 1024;
  const auto normal = [](const Dims& dims, int64_t seed) { return random_normal(seed, 0, dims, 0, 1, f32).cast(bf16); };
  auto module = Module::parse(kLinear);
  ASSERT_TRUE(module.ok()) << module.status().message();
  const Function f = *module->function("f");
  const Tensor x = normal({kSize, kSize}, 1), w = normal({kSize, kSize}, 2), b = normal({kSize}, 3);
  const Tensor want = relu(matmul(x.cast(f32), w.cast(f32)) + b.cast(f32));
  const std::vector<Tensor> args = {x.to(gpu), w.to(gpu), b.to(gpu)};
  const int64_t start = rt::NowNs();
  while (Runtime::explain().find("tuned: ") == std::string::npos && rt::NowNs() - start < 60'000'000'000) {
    Tensor y;
    for (int i = 0; i < 200; ++i) y = f(args)[0];
    const Tensor got = y.to(Device::cpu()).cast(f32);
    ASSERT_LT(max(abs(got - want) / (abs(want) + 1.0)).item<float>(), 0.03f) << Runtime::explain();
  }
  ExpectTheFastest(Runtime::explain(), 3);
  EXPECT_EQ(tiers::TuningsInUse().size(), 1u);
}

}  // namespace
}  // namespace tessera
