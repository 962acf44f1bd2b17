// What a CUDA device does beyond the conformance suite: graphs of whole runs, streams and memory of the application, no
// memory left. Without a device there is nothing to run.
#include <gtest/gtest.h>

#include <numeric>

#include "runtime/device.h"
#include "runtime/metrics.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

class CudaDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (rt::NumCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
    before_ = Runtime::device();
    Runtime::set_device(*Device::find("cuda"));
  }
  void TearDown() override {
    for (const auto& [name, value] : old_) EXPECT_TRUE(Runtime::set_option(name, value).ok());
    Runtime::set_device(before_);
  }
  void Set(const std::string& name, const std::string& value) {
    old_.emplace_back(name, *Runtime::option(name));
    ASSERT_TRUE(Runtime::set_option(name, value).ok());
  }
  static int64_t Graphs() { return rt::SnapshotMetrics()[static_cast<int>(rt::Metric::graphs_launched)]; }

  Device before_ = Device::cpu();
  std::vector<std::pair<std::string, std::string>> old_;
};

// A kernel that fails takes its context with it: a status that names the kernel, and the cpu goes on.
int LoseTheDevice() {
  constexpr char kTrap[] = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry trap_here() { trap; }\n";
  const Device device = *Device::find("cuda");
  rt::Device& cuda = **rt::Cuda(0);
  const Tensor there = full({4}, 2.0).to(device);
  auto code = cuda.LoadCode(std::string_view(kTrap, sizeof kTrap));
  if (!code.ok()) return 1;
  auto kernel = (*code)->Find("trap_here");
  if (!kernel.ok() || !cuda.Launch(*kernel, "trap_here", {}, nullptr).ok()) return 2;
  const Status lost = Runtime::synchronize(device);
  if (lost.ok() || lost.message().find("is lost") == std::string::npos ||
      lost.message().find("trap_here") == std::string::npos) {
    std::fprintf(stderr, "%s\n", lost.message().c_str());
    return 3;
  }
  try {
    (there + there).to_vector<float>();
    return 4;
  } catch (const Error& e) {
    if (std::string_view(e.what()).find("is lost") == std::string_view::npos) return 5;
  }
  const Tensor here = full({4}, 2.0).to(Device::cpu());
  return (here + here).to_vector<float>() == std::vector<float>(4, 4.0f) ? 0 : 6;
}

TEST_F(CudaDevice, AKernelThatFailsLosesOnlyItsDevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Runtime::set_device(Device::cpu());
        std::_Exit(LoseTheDevice());
      },
      testing::ExitedWithCode(0), "");
}

// Rows that take a whole multiprocessor are fetched while others are worked on: as tier 1 has them, every one.
TEST_F(CudaDevice, LongRowsAreFetchedAhead) {
  Set("background", "false");
  Set("hot_function", "1");
  Set("profit_gate", "false");
  Set("compile_after", "0");
  for (const char* specialise_after : {"1000000000", "0"}) {
    Set("specialise_after", specialise_after);
    for (const DType dtype : {f32, bf16}) {
      const std::string t(Name(dtype)), matrix = "tensor<M x N x " + t + ">", vector = "tensor<N x " + t + ">";
      auto module = Module::parse("func @f(%x: " + matrix + ", %w: " + vector + ") -> (" + matrix + ", " + matrix +
                                  ") {\n  %s = softmax %x : " + matrix + "\n  %n = layer_norm %x, %w, %w : " + matrix +
                                  "\n  return %s, %n\n}\n");
      ASSERT_TRUE(module.ok()) << module.status().message();
      const Function f = *module->function("f");
      for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1300, 16384}, {700, 32768}, {1300, 16008}}) {
        const Tensor x = randn({rows, columns}).cast(dtype), w = randn({columns}).cast(dtype);
        const int64_t before = rt::SnapshotMetrics()[static_cast<int>(rt::Metric::kernels_generated)];
        std::vector<Tensor> y;
        for (int i = 0; i < 6; ++i) y = f({x, w});
        EXPECT_GT(rt::SnapshotMetrics()[static_cast<int>(rt::Metric::kernels_generated)], before);
        const Tensor want[] = {softmax(x), layer_norm(x, w, w)};
        for (int k = 0; k < 2; ++k) {
          const Tensor off = max(abs(y[static_cast<size_t>(k)].cast(f32) - want[k].cast(f32)) /
                                 (abs(want[k].cast(f32)) + (k == 0 ? 1e-6 : 1e-2)));
          EXPECT_LT(off.item<float>(), dtype == f32 ? 1e-4f : 0.02f) << t << " " << rows << "x" << columns << " " << k;
        }
      }
    }
  }
}

TEST_F(CudaDevice, RunsThatComeBackAreGraphs) {
  Set("background", "false");
  Set("hot_function", "1");
  Set("profit_gate", "false");
  for (const char* compile_after : {"1000000000", "0"}) {  // replay, then generated kernels
    Set("compile_after", compile_after);
    auto module = Module::parse(
        "func @f(%x: tensor<M x N x f32>, %w: tensor<N x N x f32>) -> (tensor<M x N x f32>, tensor<M x f32>) {\n"
        "  %a = matmul %x, %w : tensor<M x N x f32>\n"
        "  %b = mul %a, 0.5 : tensor<M x N x f32>\n"
        "  %c = tanh %b : tensor<M x N x f32>\n"
        "  %d = sum %c {axes = [1]} : tensor<M x f32>\n"
        "  return %c, %d\n"
        "}\n");
    ASSERT_TRUE(module.ok()) << module.status().message();
    const Function f = *module->function("f");
    const Tensor w = randn({16, 16});
    const int64_t graphs = Graphs();
    std::vector<Tensor> kept;
    for (int i = 0; i < 60; ++i) {
      // Other values every time, at the same place or not.
      const Tensor x = randn({8, 16});
      const std::vector<Tensor> y = f({x, w});
      const Tensor a = tanh(matmul(x.to(Device::cpu()), w.to(Device::cpu())) * 0.5);
      const std::vector<float> want = a.to_vector<float>(), got = y[0].to_vector<float>();
      for (size_t k = 0; k < want.size(); ++k) ASSERT_NEAR(got[k], want[k], 1e-5) << "run " << i << " element " << k;
      const std::vector<float> sums = y[1].to_vector<float>();
      for (size_t row = 0; row < sums.size(); ++row)
        ASSERT_NEAR(sums[row], std::accumulate(&want[row * 16], &want[row * 16] + 16, 0.0f), 1e-4);
      if (i % 5 == 0) kept.push_back(y[0]);
    }
    EXPECT_GT(Graphs(), graphs) << "compile_after " << compile_after;
  }
}

TEST_F(CudaDevice, TakesMemoryAndStreamsOfTheApplication) {
  const Device gpu = Runtime::device();
  EXPECT_NE(cuda::context(gpu), nullptr);
  void* const own = cuda::stream(gpu);
  ASSERT_NE(own, nullptr);
  EXPECT_FALSE(cuda::use_stream(Device::cpu(), nullptr).ok());
  EXPECT_TRUE(cuda::use_stream(gpu, nullptr).ok());
  EXPECT_EQ(cuda::stream(gpu), own);

  const Tensor x = Tensor::from<float>({1, 2, 3, 4}, {2, 2});
  bool released = false;
  {
    Result<Tensor> same =
        cuda::wrap(gpu, *cuda::address(x), f32, {4}, [](void* flag) { *static_cast<bool*>(flag) = true; }, &released);
    ASSERT_TRUE(same.ok()) << same.status().message();
    EXPECT_EQ((*same + 1.0).to_vector<float>(), (std::vector<float>{2, 3, 4, 5}));
  }
  EXPECT_TRUE(released);
  EXPECT_FALSE(cuda::address(x.transpose()).ok());
  EXPECT_FALSE(cuda::wrap(Device::cpu(), nullptr, f32, {4}, nullptr, nullptr).ok());
}

TEST_F(CudaDevice, WritesOfTheHostReachTheDevice) {
  Tensor x = zeros({1000});
  {
    auto view = x.write<float>();
    for (size_t i = 0; i < view.size(); ++i) view[i] = static_cast<float>(i);
  }
  EXPECT_EQ(sum(x).item<float>(), 499500);
  const Tensor y = x;
  x.write<float>()[0] = 7;
  EXPECT_EQ(sum(y).item<float>(), 499500) << "others keep their values";
  EXPECT_EQ(sum(x).item<float>(), 499507);
}

TEST_F(CudaDevice, WithoutMemoryOneOpFails) {
  const Tensor x = ones({1024});
  try {
    const Tensor y = zeros({int64_t{1} << 40});
    FAIL() << "there is no GPU with 4 TiB";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::resource_exhausted);
    EXPECT_NE(std::string(e.what()).find("cuda:0"), std::string::npos) << e.what();
  }
  EXPECT_EQ(sum(x).item<float>(), 1024);
}

}  // namespace
}  // namespace tessera
