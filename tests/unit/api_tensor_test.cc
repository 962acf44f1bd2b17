// The public eager API: handles, views, host access, operators, printing.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tessera/tessera.h"

namespace tessera {
namespace {

using testing::Test;

std::vector<float> Floats(const Tensor& x) { return x.to_vector<float>(); }

TEST(Tensor, FromValuesAndBack) {
  Tensor x = Tensor::from({1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}, {2, 3});
  EXPECT_EQ(x.rank(), 2);
  EXPECT_EQ(x.dims(), (Dims{2, 3}));
  EXPECT_EQ(x.size(), 6);
  EXPECT_EQ(x.dim(-1), 3);
  EXPECT_EQ(x.dtype(), f32);
  EXPECT_EQ(x.device(), Device::cpu());
  EXPECT_EQ(Floats(x), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Tensor::scalar(2.5).item<double>(), 2.5);
  EXPECT_EQ(Tensor::scalar(true).dtype(), boolean);
  EXPECT_EQ(Tensor::from(std::vector<int32_t>{}).size(), 0);
}

TEST(Tensor, OperatorsBroadcastAndKeepDTypes) {
  Tensor x = Tensor::from({1.0f, 2.0f, 3.0f});
  Tensor column = Tensor::from({10.0f, 20.0f}, {2, 1});
  Tensor y = x + column;
  EXPECT_EQ(y.dims(), (Dims{2, 3}));
  EXPECT_EQ(Floats(y), (std::vector<float>{11, 12, 13, 21, 22, 23}));
  EXPECT_EQ((x * 2).dtype(), f32);
  EXPECT_EQ((2 - x).to_vector<float>(), (std::vector<float>{1, 0, -1}));
  EXPECT_EQ((x.cast(bf16) * 0.5).dtype(), bf16);
  EXPECT_EQ((Tensor::from({1, 2}) * 0.5).dtype(), f32);
  EXPECT_EQ((Tensor::from({true, false}) + 1).dtype(), i64);
  EXPECT_EQ((x > 1.5).to_vector<bool>(), (std::vector<bool>{false, true, true}));
  EXPECT_EQ((-x).to_vector<float>(), (std::vector<float>{-1, -2, -3}));
  EXPECT_EQ((Tensor::from({5, -5}) % 3).to_vector<int64_t>(), (std::vector<int64_t>{2, 1}));
  Tensor z = x;
  z += x;
  EXPECT_EQ(Floats(z), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(Floats(x), (std::vector<float>{1, 2, 3}));
}

// It is x * x to the bit, which the general power is not, and has the dtype that a power has.
TEST(Tensor, TheSecondPowerIsASquare) {
  manual_seed(3);
  const Tensor x = randn({4096});
  for (const DType t : {f64, f32, f16, bf16}) {
    const Tensor v = x.cast(t);
    EXPECT_EQ(pow(v, 2).to_vector<double>(), (v * v).to_vector<double>()) << Name(t);
    EXPECT_EQ(pow(v, 2.0).dtype(), t);
  }
  EXPECT_NE(pow(x, full({}, 2.0)).to_vector<float>(), (x * x).to_vector<float>()) << "nothing is shown by equal bits";
  const Tensor n = Tensor::from({int32_t{-3}, int32_t{46341}});
  EXPECT_EQ(pow(n, 2).dtype(), i32);
  EXPECT_EQ(pow(n, 2).to_vector<int32_t>(), (n * n).to_vector<int32_t>()) << "wraps";
  EXPECT_EQ(pow(n, 2.0).dtype(), f32);
  EXPECT_EQ(pow(n, 2.0).to_vector<float>()[0], 9);
  EXPECT_EQ(pow(Tensor::from({true, false}), 2).dtype(), i64);
  EXPECT_EQ(pow(Tensor::from({-0.0f, -INFINITY}), 2).to_vector<float>(), (std::vector<float>{0, INFINITY}));
  EXPECT_EQ(pow(2, Tensor::from({3.0f})).to_vector<float>(), (std::vector<float>{8}));
  EXPECT_THROW(pow(Tensor(), 2), Error);
}

TEST(Tensor, ViewsShareStorage) {
  Tensor x = arange(24).reshape({2, 3, 4});
  for (const Tensor& v : {x.transpose(), x[{{}, {1, 3}}], x[1], x.flip(), x.unsqueeze(0), x.reshape({6, 4}),
                          x.broadcast({5, 2, 3, 4}), x[{{none, none, -1}}]}) {
    EXPECT_TRUE(v.shares_storage_with(x)) << v.to_string();
  }
  EXPECT_EQ(x.transpose().strides(), (Dims{1, 4, 12}));
  EXPECT_EQ((x[{{none, none, -1}, {1, none}, {none, 2}}].to_vector<int64_t>()),
            (std::vector<int64_t>{16, 17, 20, 21, 4, 5, 8, 9}));
  EXPECT_EQ(x[-1].to_vector<int64_t>()[0], 12);
  EXPECT_FALSE(x.transpose().contiguous().shares_storage_with(x));
  EXPECT_TRUE(x.contiguous().shares_storage_with(x));
  EXPECT_FALSE(x.transpose().reshape({24}).shares_storage_with(x));
}

TEST(Tensor, AWriteLeavesOthersAlone) {
  Tensor x = zeros({4});
  Tensor y = x;
  Tensor view = x[{{1, 3}}];
  {
    WriteView<float> w = x.write<float>();
    for (float& v : w) v = 7;
  }
  EXPECT_EQ(Floats(x), (std::vector<float>{7, 7, 7, 7}));
  EXPECT_EQ(Floats(y), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(Floats(view), (std::vector<float>{0, 0}));
  // Alone with its memory, a tensor is written in place.
  Tensor alone = zeros({4});
  const void* before = alone.read<float>().data();
  EXPECT_EQ(alone.write<float>().data(), before);
}

TEST(Tensor, AReadViewOutlivesTheTensor) {
  ReadView<float> view = [] {
    Tensor x = Tensor::from({1.0f, 2.0f});
    return x.read<float>();
  }();
  EXPECT_EQ(view[0] + view[1], 3.0f);
}

TEST(Tensor, PrintsForPeople) {
  EXPECT_EQ(Tensor::from({1.5f, -2.0f, INFINITY}).to_string(), "[1.5, -2., inf] f32[3]");
  EXPECT_EQ(arange(6).reshape({2, 3}).to_string(), "[[0, 1, 2],\n [3, 4, 5]]\ni64[2,3]");
  EXPECT_EQ(Tensor::scalar(3.0f).to_string(), "3. f32[]");
  EXPECT_EQ(Tensor::from({true, false}).to_string(), "[ true, false] bool[2]");
  EXPECT_EQ(zeros({2, 0}).to_string(), "[[],\n []]\nf32[2,0]");
  EXPECT_EQ(Tensor().to_string(), "(empty Tensor handle)");
  EXPECT_EQ(arange(2000).to_string(), "[   0,    1,    2, ..., 1997, 1998, 1999] i64[2000]");
}

TEST(Tensor, RandomNumbersRepeatWithTheSeed) {
  manual_seed(3);
  const auto a = rand({100}).to_vector<float>();
  const auto b = rand({100}).to_vector<float>();
  manual_seed(3);
  EXPECT_EQ(rand({100}).to_vector<float>(), a);
  EXPECT_NE(a, b);
}

TEST(Tensor, ArangeAndFriends) {
  EXPECT_EQ(arange(2, 9, 3).to_vector<int64_t>(), (std::vector<int64_t>{2, 5, 8}));
  EXPECT_EQ(arange(3, 0, -1).to_vector<int64_t>(), (std::vector<int64_t>{3, 2, 1}));
  EXPECT_EQ(arange(5, 2).size(), 0);
  EXPECT_EQ(arange(0.0, 1.0, 0.25).dtype(), f32);
  EXPECT_EQ(linspace(0, 1, 5).to_vector<float>(), (std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1}));
  EXPECT_EQ(eye(2).to_vector<float>(), (std::vector<float>{1, 0, 0, 1}));
  EXPECT_THROW(arange(0, 5, 0), Error);
  auto [q, r] = divmod(Tensor::from({7, -7}), 2);
  EXPECT_EQ(q.to_vector<int64_t>(), (std::vector<int64_t>{3, -4}));
  EXPECT_EQ(r.to_vector<int64_t>(), (std::vector<int64_t>{1, 1}));
  auto [fraction, whole] = modf(Tensor::from({2.5f, -0.25f, -INFINITY}));
  EXPECT_EQ(Floats(fraction), (std::vector<float>{0.5f, -0.25f, -0.0f}));
  EXPECT_EQ(Floats(whole), (std::vector<float>{2, -0.0f, -INFINITY}));
}

TEST(Tensor, ThreadsMayShareTensors) {
  Tensor x = randn({1000});
  const float want = sum(x * 2).item<float>();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, copy = x] {
      for (int i = 0; i < 200; ++i) wrong += sum(copy * 2).item<float>() != want;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(NullDevice, ChecksWithoutComputing) {
  Runtime::set_device(Device::null());
  const int64_t before = Runtime::memory(Device::null()).bytes_in_use;
  {
    Tensor a = zeros({1 << 20, 1 << 10});
    Tensor b = matmul(a, zeros({1 << 10, 8}));
    EXPECT_EQ(b.dims(), (Dims{1 << 20, 8}));
    EXPECT_EQ(b.device(), Device::null());
    EXPECT_GE(Runtime::memory(Device::null()).bytes_in_use - before, int64_t{4} << 30);
    EXPECT_THROW(matmul(a, a), Error);
    EXPECT_THROW(b.read<float>(), Error);
    EXPECT_NE(b.to_string().find("no values"), std::string::npos);
  }
  Runtime::set_device(Device::cpu());
  EXPECT_EQ(Runtime::memory(Device::null()).bytes_in_use, before);
}

TEST(Runtime, OptionsAndMetrics) {
  EXPECT_TRUE(Runtime::set_option("parallel_grain", "1000").ok());
  EXPECT_EQ(*Runtime::option("parallel_grain"), "1000");
  EXPECT_TRUE(Runtime::set_option("parallel_grain", "32768").ok());
  EXPECT_EQ(Runtime::set_option("parallel_grian", "1").code(), Code::not_found);
  EXPECT_EQ(Runtime::set_option("parallel_grain", "x").code(), Code::invalid_argument);
  auto ops = [] {
    for (const MetricValue& m : Runtime::metrics())
      if (m.name == "ops_executed") return m.value;
    return int64_t{-1};
  };
  const int64_t before = ops();
  Tensor x = ones({3}) + 1;
  EXPECT_EQ(ops() - before, 2);
}

TEST(Runtime, DebugTellsEveryOp) {
  std::vector<std::string> lines;
  Runtime::set_log_sink([&](int, std::string_view line) { lines.emplace_back(line); });
  EXPECT_TRUE(Runtime::set_option("debug", "3").ok());
  Tensor x = ones({2, 3});
  const int line = __LINE__ + 1;
  Tensor y = x + 1.0;
  Function::parse("func @f(%x: tensor<N x M x f32>) -> tensor<N x M x f32> {\n  %y = exp %x\n  return %y\n}")
      ->call({x});
  EXPECT_TRUE(Runtime::set_option("debug", "0").ok());
  Runtime::set_log_sink(nullptr);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[2], "tier 1 enters @f at depth 0");
  EXPECT_NE(lines[3].find("(at line 2 of the function's text)"), std::string::npos) << lines[3];
  EXPECT_NE(lines[1].find("tier 1 add f32[2,3] number -> f32[2,3]"), std::string::npos) << lines[1];
  EXPECT_NE(lines[1].find("api_tensor_test.cc:" + std::to_string(line)), std::string::npos) << lines[1];
}

}  // namespace
}  // namespace tessera
