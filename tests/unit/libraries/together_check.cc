// Collectives of two devices and kernels that the program brings along, with the libraries that stand in (see
// cuda_check.cc). The real NVRTC is in nvrtc_check.cc.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/device.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using Reduction = Communicator::Reduction;

std::string Violation() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<const char* (*)()>(dlsym(library, "StandInViolation"))();
}
int Communicators() {
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<int (*)()>(dlsym(library, "StandInCommunicators"))();
}

class CudaTogether : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(rt::NumCudaDevices(), 2);
    ASSERT_TRUE(Runtime::set_option("tier", "1").ok());
  }
  void TearDown() override { EXPECT_EQ(Violation(), ""); }
  static Device Gpu(int i) { return *Device::find("cuda:" + std::to_string(i)); }
  static Tensor On(int gpu, const std::vector<float>& values, const Dims& dims) {
    return Tensor::from(values, dims).to(Gpu(gpu));
  }
  static std::vector<float> Here(const Tensor& x) { return x.to(Device::cpu()).to_vector<float>(); }
  template <class T>
  static std::string Message(const Result<T>& r) {
    return r.ok() ? "" : r.status().message();
  }
};

TEST_F(CudaTogether, CollectivesOfTwoDevices) {
  Result<Communicator> made = Communicator::among({Gpu(0), Gpu(1)});
  ASSERT_TRUE(made.ok()) << Message(made);
  const Communicator& both = *made;
  EXPECT_EQ(both.ranks(), 2);
  EXPECT_EQ(both.devices()[1], Gpu(1));
  const std::vector<Tensor> x = {On(0, {1, 2, 3, 4, 5, 6}, {2, 3}), On(1, {10, -20, 30, 40, 50, 60}, {2, 3})};
  const auto check = [&](Result<std::vector<Tensor>> got, const Dims& dims, const std::vector<float>& first,
                         const std::vector<float>& second) {
    ASSERT_TRUE(got.ok()) << Message(got);
    ASSERT_EQ(got->size(), 2u);
    for (int i : {0, 1}) {
      const Tensor& y = (*got)[static_cast<size_t>(i)];
      EXPECT_EQ(y.device(), Gpu(i));
      EXPECT_EQ(y.dims(), dims);
      EXPECT_EQ(Here(y), i == 0 ? first : second);
    }
  };
  const std::vector<float> sums = {11, -18, 33, 44, 55, 66}, halves = {5.5, -9, 16.5, 22, 27.5, 33};
  check(both.all_reduce(x), {2, 3}, sums, sums);
  check(both.all_reduce(x, Reduction::mean), {2, 3}, halves, halves);
  check(both.all_reduce(x, Reduction::max), {2, 3}, {10, 2, 30, 40, 50, 60}, {10, 2, 30, 40, 50, 60});
  check(both.all_gather(x), {2, 2, 3}, {1, 2, 3, 4, 5, 6, 10, -20, 30, 40, 50, 60},
        {1, 2, 3, 4, 5, 6, 10, -20, 30, 40, 50, 60});
  check(both.reduce_scatter(x), {1, 3}, {11, -18, 33}, {44, 55, 66});
  check(both.broadcast(x, 1), {2, 3}, {10, -20, 30, 40, 50, 60}, {10, -20, 30, 40, 50, 60});
  // What was given is as it was.
  EXPECT_EQ(Here(x[0]), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  check(both.all_reduce({zeros({0, 3}).to(Gpu(0)), zeros({0, 3}).to(Gpu(1))}), {0, 3}, {}, {});
}

TEST_F(CudaTogether, WhatIsWrongIsSaid) {
  EXPECT_EQ(Message(Communicator::among({})), "communicator: a communicator of no device");
  EXPECT_EQ(Message(Communicator::among({Device::cpu()})), "communicator: device cpu is no CUDA device");
  EXPECT_EQ(Message(Communicator::among({Gpu(1), Gpu(1)})), "communicator: device cuda:1 is there twice");
  EXPECT_EQ(Message(Communicator::join(Gpu(0), "short", 0, 1)), "communicator: an id has 128 bytes, this one 5");
  const std::string id = Communicator::new_id().value();
  EXPECT_EQ(Message(Communicator::join(Gpu(0), id, 1, 1)), "communicator: rank 1 of 1");
  EXPECT_EQ(Message(Communicator::join(Gpu(0), id, 0, 2)),
            "communicator: ncclCommInitRank: invalid argument: says the stand-in");
  const int before = Communicators();
  {
    const Communicator both = Communicator::among({Gpu(0), Gpu(1)}).value();
    EXPECT_EQ(Communicators(), before + 2);
    const Tensor a = On(0, {1, 2}, {2}), b = On(1, {1, 2}, {2});
    EXPECT_EQ(Message(both.all_reduce({a})), "all_reduce: 1 tensors for 2 devices of this process");
    EXPECT_EQ(Message(both.all_reduce({b, a})), "all_reduce: tensor 0 is on cuda:1, the rank on cuda:0");
    EXPECT_EQ(Message(both.all_reduce({a, Tensor()})), "all_reduce: tensor 1 is an empty handle");
    EXPECT_EQ(Message(both.all_reduce({a, On(1, {1, 2, 3}, {3})})), "all_reduce: tensors 0 and 1 have different types");
    EXPECT_EQ(Message(both.broadcast({a, b}, 2)), "broadcast: root 2 of 2 ranks");
    EXPECT_EQ(Message(both.reduce_scatter({On(0, {1, 2, 3}, {3}), On(1, {1, 2, 3}, {3})})),
              "reduce_scatter: dim 0 of 3 elements is not 2 parts");
    const auto of = [](DType dtype, int gpu) {
      return Tensor::from(std::vector<int64_t>{1}, {1}).cast(dtype).to(Gpu(gpu));
    };
    EXPECT_EQ(Message(both.all_reduce({of(boolean, 0), of(boolean, 1)})), "all_reduce: NCCL has no bool");
    EXPECT_EQ(Message(both.all_reduce({of(i32, 0), of(i32, 1)}, Reduction::mean)),
              "all_reduce: a mean of i32 is no i32");
    // The group is ended although the stand-in refuses the dtype: the next collective works.
    EXPECT_EQ(Message(both.all_reduce({of(i32, 0), of(i32, 1)})),
              "all_reduce: ncclAllReduce: invalid argument: says the stand-in");
    EXPECT_TRUE(both.all_reduce({a, b}).ok());
  }
  EXPECT_EQ(Communicators(), before);
}

TEST_F(CudaTogether, OneOfOne) {
  const Communicator alone = Communicator::join(Gpu(1), Communicator::new_id().value(), 0, 1).value();
  EXPECT_EQ(Here(alone.all_reduce({On(1, {3, 4}, {2})}).value()[0]), (std::vector<float>{3, 4}));
}

constexpr char kScale[] = R"(
template <class T> __global__ void scale(T* y, const T* x, float by, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = by * x[i];
})";

TEST_F(CudaTogether, KernelsOfTheProgram) {
  EXPECT_EQ(Message(CudaKernel::compile(Gpu(0), "fault", "f")),
            "kernel f does not compile:\nkernel.cu(1): error: a fault");
  EXPECT_EQ(Message(CudaKernel::compile(Device::cpu(), kScale, "scale<float>")), "device cpu is no CUDA device");
  Result<CudaKernel> made = CudaKernel::compile(Gpu(0), kScale, "scale<float>");
  ASSERT_TRUE(made.ok()) << Message(made);
  const CudaKernel& kernel = *made;
  const Tensor x = On(0, {1, 2, 3}, {3});
  const CudaKernel::Grid grid = {.blocks = {1}, .threads = {32}};
  Result<std::vector<Tensor>> y = kernel.run(grid, {{f32, {3}}}, {x, 2.0f, 3});
  ASSERT_TRUE(y.ok()) << Message(y);
  EXPECT_EQ((*y)[0].dims(), (Dims{3}));
  const auto fails = [&](const CudaKernel::Grid& g, const std::vector<CudaKernel::Parameter>& parameters) {
    return Message(kernel.run(g, {{f32, {3}}}, parameters));
  };
  const std::string name = "kernel scale<float>: ";
  EXPECT_EQ(fails(grid, {x, 2.0f}), name + "it has 4 parameters, and is given 1 outputs and 2 parameters");
  EXPECT_EQ(fails(grid, {x, 2.0, 3}), name + "what the kernel declares in place 2 has 4 bytes, what it is given 8");
  EXPECT_EQ(fails(grid, {On(1, {1}, {1}), 2.0f, 3}), name + "parameter 0 is on cuda:1, the kernel on cuda:0");
  EXPECT_EQ(fails(grid, {Tensor(), 2.0f, 3}), name + "parameter 0 is an empty Tensor handle");
  EXPECT_EQ(fails(grid, {On(0, {1, 2, 3, 4}, {2, 2}).transpose({1, 0}), 2.0f, 3}),
            name + "parameter 0 is not contiguous; use contiguous()");
  EXPECT_EQ(fails({.blocks = {0}, .threads = {32}}, {x, 2.0f, 3}),
            name + "a grid of 0x1x1 blocks: each is at least 1 and at most 2147483647, 65535 and 65535");
  EXPECT_EQ(fails({.blocks = {1}, .threads = {64, 32}}, {x, 2.0f, 3}),
            name + "a block of 64x32x1 threads: 1024 is the most");
}

}  // namespace
}  // namespace tessera
