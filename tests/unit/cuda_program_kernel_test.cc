// Kernels that the program brings along, and a communicator of one rank, on a GPU. What needs none of it is in
// libraries/together_check.cc.
#include <numeric>

#include "runtime/device.h"
#include "tiers_testing.h"

namespace tessera {
namespace {

class CudaProgramKernel : public testing::Test {
 protected:
  void SetUp() override {
    if (rt::NumCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
    gpu_ = *Device::find("cuda");
  }
  static std::vector<float> Numbers(size_t n) {
    std::vector<float> x(n);
    std::iota(x.begin(), x.end(), 1.0f);
    return x;
  }
  Device gpu_ = Device::cpu();
};

TEST_F(CudaProgramKernel, BetweenOpsOfALoop) {
  Result<CudaKernel> kernel = CudaKernel::compile(gpu_, R"(
    template <class T> __global__ void scale(T* y, const T* x, float by, long long n) {
      const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
      if (i < n) y[i] = by * x[i];
    })",
                                                  "scale<float>");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  OptionScope scope({{"hot_eager", "4"}, {"background", "false"}, {"compile_after", "0"}});
  constexpr int64_t kCount = 1000;
  const Tensor x = Tensor::from(Numbers(kCount), {kCount}).to(gpu_);
  for (int round = 0; round < 20; ++round) {
    const Tensor a = x + 1.0f;
    const Tensor b = a * 2.0f;
    const Tensor c = kernel
                         ->run({.blocks = {(kCount + 255) / 256}, .threads = {256}}, {{f32, {kCount}}},
                               {b, 0.5f, static_cast<long long>(kCount)})
                         .value()[0];
    const Tensor d = c - 1.0f;
    ASSERT_EQ(d.to(Device::cpu()).to_vector<float>(), Numbers(kCount)) << round;
  }
}

// A block for each tile of 32 x 8, dynamic shared memory, and two results.
TEST_F(CudaProgramKernel, GridsOfTwoDims) {
  Result<CudaKernel> kernel = CudaKernel::compile(gpu_, R"(
    extern "C" __global__ void turn(float* y, int* places, const float* x, int rows, int columns) {
      extern __shared__ float tile[];
      const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
      const int at = threadIdx.y * blockDim.x + threadIdx.x;
      if (r < rows && c < columns) tile[at] = x[r * columns + c];
      __syncthreads();
      if (r < rows && c < columns) y[c * rows + r] = tile[at], places[r * columns + c] = c * rows + r;
    })",
                                                  "turn");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  constexpr int kRows = 45, kColumns = 77;
  const Tensor x = Tensor::from(Numbers(kRows * kColumns), {kRows, kColumns}).to(gpu_);
  Result<std::vector<Tensor>> y =
      kernel->run({.blocks = {(kColumns + 31) / 32, (kRows + 7) / 8}, .threads = {32, 8}, .shared_bytes = 32 * 8 * 4},
                  {{f32, {kColumns, kRows}}, {i32, {kRows, kColumns}}}, {x, kRows, kColumns});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ((*y)[0].to(Device::cpu()).to_vector<float>(),
            x.to(Device::cpu()).transpose({1, 0}).contiguous().to_vector<float>());
  EXPECT_EQ((*y)[1].to(Device::cpu()).to_vector<int32_t>()[kColumns + 2], 2 * kRows + 1);
  // The real driver knows what a kernel takes.
  const Result<std::vector<Tensor>> wrong = kernel->run({}, {{f32, {1}}, {i32, {1}}}, {x, kRows, 77.0});
  EXPECT_EQ(wrong.status().message(),
            "kernel turn: what the kernel declares in place 4 has 4 bytes, what it is given 8");
  const Result<std::vector<Tensor>> large =
      kernel->run({.shared_bytes = 10 << 20}, {{f32, {1}}, {i32, {1}}}, {x, kRows, kColumns});
  EXPECT_FALSE(large.ok());
  EXPECT_NE(large.status().message().find("turn"), std::string::npos) << large.status().message();
  EXPECT_EQ((x + 1.0f).to(Device::cpu()).to_vector<float>()[0], 2.0f) << "the device works on";
}

TEST_F(CudaProgramKernel, AloneInACommunicator) {
  Result<std::string> id = Communicator::new_id();
  if (id.status().code() == Code::not_found) GTEST_SKIP() << id.status().message();
  ASSERT_TRUE(id.ok()) << id.status().message();
  Result<Communicator> alone = Communicator::join(gpu_, *id, 0, 1);
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  for (const DType dtype : {f32, bf16, f16, i32, i64}) {
    const Tensor x = Tensor::from(Numbers(6), {2, 3}).cast(dtype).to(gpu_), want = x.to(Device::cpu());
    const auto same = [&](Result<std::vector<Tensor>> y, const Dims& dims) {
      ASSERT_TRUE(y.ok()) << y.status().message();
      EXPECT_EQ((*y)[0].dims(), dims);
      EXPECT_EQ((*y)[0].to(Device::cpu()).to_bytes(), want.to_bytes());
    };
    same(alone->all_reduce({x}), {2, 3});
    same(alone->all_gather({x}), {1, 2, 3});
    same(alone->reduce_scatter({x}), {2, 3});
    same(alone->broadcast({x}, 0), {2, 3});
  }
  EXPECT_TRUE(Communicator::among({gpu_}).ok());
}

}  // namespace
}  // namespace tessera
