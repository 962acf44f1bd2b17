// What versions keep from one run to the next without references: values of buffers, and lists of versions.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "runtime/metrics.h"
#include "tests/unit/tiers_function_testing.h"
#include "tiers/visit.h"

namespace tessera {
namespace {

using testing::WithOptions;

constexpr const char* kReader = R"(
buffer @p : tensor<4 x f32>
buffer @q : tensor<4 x f32>
func @read(%x: tensor<4 x f32>) -> (tensor<4 x f32>, tensor<4 x f32>, tensor<2 x 2 x f32>) {
  %p = buffer_read {buffer = "p"} : tensor<4 x f32>
  %q = buffer_read {buffer = "q"} : tensor<4 x f32>
  %y = add %x, %p
  %z = mul %y, %q
  %w = reshape %q {dims = [2, 2]}
  return %z, %p, %w
}
func @bump(%x: tensor<4 x f32>) -> tensor<4 x f32> {
  buffer_add %x {buffer = "p"}
  return %x
}
)";

const std::vector<std::pair<std::string, std::string>> kHot = {
    {"tier", "3"}, {"background", "false"}, {"hot_function", "2"}, {"profit_gate", "false"}};

Tensor Of(float value) { return Tensor::from(std::vector<float>(4, value)); }
float First(const Tensor& x) { return reshape(x, {4}).to_vector<float>()[0]; }
int64_t Metric(rt::Metric m) { return rt::SnapshotMetrics()[static_cast<size_t>(m)]; }

TEST(FunctionBuffers, VersionsSeeWhateverIsPutIntoABuffer) {
  const WithOptions options(kHot);
  const Module module = *Module::parse(kReader);
  const Function read = *module.function("read"), bump = *module.function("bump");
  float p = 0, q = 0;
  const int64_t runs = Metric(rt::Metric::version_runs);
  for (int i = 0; i < 60; ++i) {
    if (i % 5 == 1) ASSERT_TRUE(module.set_buffer("q", Of(q = static_cast<float>(i))).ok());
    if (i % 7 == 2) {
      bump({Of(0.5f)});
      p += 0.5f;
    }
    if (i % 11 == 3) ASSERT_TRUE(module.set_buffer("p", Of(p = static_cast<float>(-i))).ok());
    const std::vector<Tensor> out = read({Of(1)});
    EXPECT_EQ(First(out[0]), (1 + p) * q) << i;
    EXPECT_EQ(First(out[1]), p) << i;
    EXPECT_EQ(First(out[2]), q) << i;
    // What was read stays as it was, and the buffer is what was returned.
    EXPECT_TRUE(out[1].shares_storage_with(*module.buffer("p"))) << i;
    EXPECT_TRUE(out[2].shares_storage_with(*module.buffer("q"))) << i;
    bump({Of(1)});
    EXPECT_EQ(First(out[1]), p) << i;
    p += 1;
  }
  EXPECT_GT(Metric(rt::Metric::version_runs), runs + 20);
}

TEST(FunctionBuffers, NoValueOfABufferOutlivesItsReplacement) {
  const WithOptions options(kHot);
  const Module module = *Module::parse(kReader);
  const Function read = *module.function("read");
  ASSERT_TRUE(module.set_buffer("p", Of(1)).ok());
  for (int i = 0; i < 20; ++i) read({Of(1)});
  const int64_t before = rt::Cpu().memory_stats().bytes_in_use;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(module.set_buffer("p", Of(static_cast<float>(i))).ok());
    read({Of(1)});
  }
  EXPECT_EQ(rt::Cpu().memory_stats().bytes_in_use, before);
}

TEST(FunctionBuffers, OtherThreadsWriteMeanwhile) {
  const WithOptions options({{"tier", "3"}, {"hot_function", "2"}, {"profit_gate", "false"}});
  const Module module = *Module::parse(kReader);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&] {
      const Function read = *module.function("read");
      const Tensor x = Of(0);
      while (!stop) {
        const std::vector<Tensor> out = read({x});
        // Every element of a buffer is the same number at all times, and an addition is whole or not at all.
        for (const Tensor& y : {out[0], out[1]}) {
          const std::vector<float> v = y.to_vector<float>();
          for (float e : v) ASSERT_EQ(e, v[0]);
        }
      }
    });
  }
  const Function bump = *module.function("bump");
  ASSERT_TRUE(module.set_buffer("q", Of(1)).ok());
  for (int i = 0; i < 2000; ++i) {
    bump({Of(1)});
    if (i % 16 == 0) ASSERT_TRUE(module.set_buffer("p", Of(static_cast<float>(i))).ok());
  }
  stop = true;
  for (std::thread& t : readers) t.join();
  EXPECT_EQ(First(*module.buffer("p")), 1984.0f + 15);
}

TEST(Visit, WhatWasRetiredGoesWhenNobodyIsInside) {
  tiers::Visit::Prepare();
  auto object = std::make_shared<int>(1);
  std::weak_ptr<int> alive = object;
  std::atomic<int> stage{0};
  std::thread inside([&] {
    const tiers::Visit visit;
    stage = 1;
    while (stage != 2) std::this_thread::yield();
  });
  while (stage != 1) std::this_thread::yield();
  tiers::Visit::Retire(std::move(object));
  for (int i = 0; i < 200; ++i) tiers::Visit();
  EXPECT_FALSE(alive.expired());
  auto outer = std::make_unique<tiers::Visit>();
  stage = 2;
  inside.join();
  for (int i = 0; i < 200; ++i) tiers::Visit();
  EXPECT_FALSE(alive.expired());
  outer = nullptr;
  for (int i = 0; i < 200; ++i) tiers::Visit();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace tessera
