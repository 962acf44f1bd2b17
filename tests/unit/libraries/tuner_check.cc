// The tuner on a CUDA device, with a driver that stands in (cuda_driver.cc): how long a kernel takes is a matter of its
// shared memory there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "deopt/ledger.h"
#include "runtime/device.h"
#include "tessera/tessera.h"
#include "tests/unit/libraries/stand_in.h"
#include "tests/unit/tuner_testing.h"
#include "tiers/generate.h"
#include "tiers/manager.h"

namespace tessera {
namespace {

class CudaTuner : public testing::TestWithParam<bool> {};

// The first code is a kernel with tensor cores; the library and other cuts of it are tried.
TEST_P(CudaTuner, TriesOnRunsThatNobodyWaitsFor) {
  if (std::getenv("TESSERA_COMPILER_LIBRARY") == nullptr) GTEST_SKIP() << "built without the compiler";
  const bool is_eager = GetParam();
  const std::pair<const char*, const char*> options[] = {
      {"tier", "3"},       {"background", "false"},  {"hot_function", "1"},
      {"hot_eager", "1"},  {"compile_after", "0"},   {"specialise_after", "0"},
      {"tune_after", "0"}, {"profit_gate", "false"}, {"cache", "false"}};
  std::vector<std::string> old;
  for (const auto& [name, value] : options) {
    old.push_back(*Runtime::option(name));
    ASSERT_TRUE(Runtime::set_option(name, value).ok());
  }
  const Device gpu = *Device::find("cuda");
  matmul(zeros({4, 4}, f32).to(gpu), zeros({4, 4}, f32).to(gpu));  // opens cuBLASLt
  StandIn<void (*)(bool)>("libcublasLt.so.13", "StandInSetComputes")(false);
  StandIn<void (*)(float)>("libcuda.so.1", "StandInSetSharedMs")(1e-6f);
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  tiers::ForgetTunings();
  auto module = Module::parse(kLinear);
  ASSERT_TRUE(module.ok()) << module.status().message();
  const Function f = *module->function("f");
  const std::vector<Tensor> args = {zeros({1024, 1024}, bf16).to(gpu), zeros({1024, 1024}, bf16).to(gpu),
                                    zeros({1024}, bf16).to(gpu)};
  const auto run = [&] {
    if (!is_eager) {
      f(args);
      return;
    }
    Tensor y;
    {
      const Step step;
      y = relu(matmul(args[0], args[1]) + args[2]);
    }
    (void)y.impl();
  };
  const auto waits = StandIn<size_t (*)()>("libcuda.so.1", "StandInWaits");
  const size_t before = waits();
  int runs = 0;
  while (Runtime::explain().find("tuned: ") == std::string::npos && runs < 20000)
    for (int i = 0; i < 20; ++i, ++runs) run();
  const std::string explained = Runtime::explain();
  ExpectTheFastest(explained, 3);
  EXPECT_TRUE(TunedIn(explained).times.contains("p0:form=library")) << explained;
  EXPECT_EQ(tiers::TuningsInUse().size(), 1u);
  // A few runs of the versions before, and graphs that go when a version does.
  EXPECT_GT(runs, 200);
  EXPECT_LT(waits() - before, 60u) << runs << " runs\n" << explained;
  StandIn<void (*)(float)>("libcuda.so.1", "StandInSetSharedMs")(0);
  StandIn<void (*)(bool)>("libcublasLt.so.13", "StandInSetComputes")(true);
  for (size_t k = 0; k < old.size(); ++k) EXPECT_TRUE(Runtime::set_option(options[k].first, old[k]).ok());
  EXPECT_EQ(StandIn<const char* (*)()>("libcuda.so.1", "StandInViolation")(), std::string());
}

INSTANTIATE_TEST_SUITE_P(Programs, CudaTuner, testing::Bool(),
                         [](const auto& info) { return info.param ? "eager" : "function"; });

}  // namespace
}  // namespace tessera
