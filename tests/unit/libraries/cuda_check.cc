// What the host does with CUDA devices, with libraries that stand in for the driver and cuBLASLt (cuda_driver.cc,
// cublaslt.cc, found by LD_LIBRARY_PATH): a program of its own, because they are opened once in a process. No GPU is
// needed; kernels compute nothing here, copies and products do.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

// Before those that have a cuda::Device of their own.
#include "interp/dispatch.h"
#include "interp/product.h"
#include "interp/row_chunks.h"
#include "runtime/cuda/driver.h"
#include "runtime/device.h"
#include "runtime/metrics.h"
#include "tessera/cuda.h"
#include "tessera/tessera.h"
#include "tests/unit/libraries/stand_in.h"
#include "tests/unit/tiers_testing.h"
#include "tiers/manager.h"

namespace tessera {
namespace {

std::string Violation() { return StandIn<const char* (*)()>("libcuda.so.1", "StandInViolation")(); }
size_t Launches(int device) { return StandIn<size_t (*)(int)>("libcuda.so.1", "StandInLaunches")(device); }
int Owner(const void* p) { return StandIn<int (*)(const void*)>("libcuda.so.1", "StandInOwner")(p); }
int Asked() { return StandIn<int (*)()>("libcublasLt.so.13", "StandInAsked")(); }

class CudaStandIn : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(rt::NumCudaDevices(), 2);
    ASSERT_TRUE(Runtime::set_option("tier", "1").ok());
    // Opens cuBLASLt, which keeps some memory of each device.
    for (int i : {0, 1}) matmul(Numbers({4, 4}, 1, Gpu(i)), Numbers({4, 4}, 1, Gpu(i)));
  }
  void TearDown() override { EXPECT_EQ(Violation(), ""); }

  static Device Gpu(int i) { return *Device::find("cuda:" + std::to_string(i)); }
  static Tensor Numbers(const Dims& dims, int64_t seed, Device device) {
    return random_normal(seed, 0, dims, 0, 1, f32).to(device);
  }
  static void ExpectSame(const Tensor& got, const Tensor& want, float tolerance = 1e-4f) {
    const std::vector<float> x = got.to(Device::cpu()).cast(f32).to_vector<float>(),
                             y = want.cast(f32).to_vector<float>();
    ASSERT_EQ(x.size(), y.size());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], tolerance * (1 + std::abs(y[i]))) << i;
  }
};

TEST_F(CudaStandIn, EachDeviceHasItsOwnMemoryAndStream) {
  rt::Device &first = **rt::Cuda(0), &second = **rt::Cuda(1);
  EXPECT_EQ(first.name(), "cuda:0");
  EXPECT_EQ(second.name(), "cuda:1");
  EXPECT_NE(cuda::stream(Gpu(0)), cuda::stream(Gpu(1)));
  EXPECT_NE(cuda::context(Gpu(0)), cuda::context(Gpu(1)));
  EXPECT_EQ(rt::Cuda(2).status().code(), absl::StatusCode::kNotFound);
  const int64_t in_use[] = {first.memory_stats().bytes_in_use, second.memory_stats().bytes_in_use};
  // Small, large, and what a copy takes pieces for.
  for (const size_t bytes : {size_t{100}, size_t{3} << 20, size_t{40} << 20}) {
    void *a = *first.Allocate(bytes), *b = *second.Allocate(bytes);
    EXPECT_EQ(Owner(a), 0);
    EXPECT_EQ(Owner(b), 1);
    std::vector<char> from(bytes), to(bytes);
    for (size_t i = 0; i < bytes; ++i) from[i] = static_cast<char>(i * 7);
    for (rt::Device* device : {&first, &second}) {
      void* const p = device == &first ? a : b;
      const int index = device == &first ? 0 : 1;
      const auto aside = StandIn<size_t (*)(int)>("libcuda.so.1", "StandInReadsAside");
      const size_t before = aside(index);
      ASSERT_TRUE(device->CopyFromHost(p, from.data(), bytes).ok());
      ASSERT_TRUE(device->CopyToHost(to.data(), p, bytes).ok());
      EXPECT_EQ(aside(index) - before, bytes > (size_t{1} << 20) ? 1u : 0u) << "large ones run beside the kernels";
      EXPECT_EQ(from, to);
      auto upload = device->StartUpload(p, from.data(), bytes);
      ASSERT_TRUE(upload.ok() && (*upload)->Join().ok());
    }
    first.Free(a, bytes);
    second.Free(b, bytes);
  }
  EXPECT_EQ(first.memory_stats().bytes_in_use, in_use[0]);
  EXPECT_EQ(second.memory_stats().bytes_in_use, in_use[1]);
}

TEST_F(CudaStandIn, OpsRunWhereTheirOperandsAre) {
  const Tensor here = random_normal(1, 0, {40, 30}, 0, 1, f32);
  for (int i : {1, 0, 1}) {
    const Tensor x = here.to(Gpu(i));
    EXPECT_EQ(x.device(), Gpu(i));
    const size_t before[] = {Launches(0), Launches(1)};
    const Tensor y = x + x, z = sum(exp(y), 0), t = copy(x.transpose());
    EXPECT_EQ(z.device(), Gpu(i));
    EXPECT_GT(Launches(i), before[i]);
    EXPECT_EQ(Launches(1 - i), before[1 - i]);
    ExpectSame(x, here, 0);
  }
  // From one device to the other, and into a third.
  ExpectSame(here.to(Gpu(0)).to(Gpu(1)).to(Gpu(0)), here, 0);
  try {
    here.to(Gpu(0)) + here.to(Gpu(1));
    FAIL() << "operands of two devices";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("cuda:0"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("cuda:1"), std::string::npos) << e.what();
  }
  // Threads that each keep to a device, and one that changes.
  std::vector<std::thread> threads;
  for (int k = 0; k < 3; ++k)
    threads.emplace_back([&, k] {
      for (int n = 0; n < 50; ++n) {
        const Tensor x = here.to(Gpu(k < 2 ? k : n % 2));
        const Tensor y = x * x;
        ExpectSame(x, here, 0);
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST_F(CudaStandIn, ProductsOfBothDevices) {
  for (int i : {0, 1}) {
    for (const DType dtype : {f32, bf16}) {
      const Tensor a = Numbers({3, 24, 16}, 2, Device::cpu()).cast(dtype),
                   b = Numbers({16, 8}, 3, Device::cpu()).cast(dtype);
      const Tensor want = matmul(a.cast(f32), b.cast(f32));
      ExpectSame(matmul(a.to(Gpu(i)), b.to(Gpu(i))), want, 0.01f);
      const Tensor c = Numbers({3, 8, 16}, 4, Device::cpu()).cast(dtype);
      ExpectSame(matmul(a.to(Gpu(i)), c.to(Gpu(i)), false, true), matmul(a.cast(f32), c.cast(f32), false, true), 0.01f);
    }
  }
  EXPECT_EQ(StandIn<int (*)()>("libcublasLt.so.13", "StandInStrangers")(), 0);
}

// A batch whose products share a factor is one product, if its rows lie one after the other.
TEST_F(CudaStandIn, BatchesBecomeRows) {
  const Tensor a = Numbers({5, 6, 12, 16}, 2, Device::cpu()), b = Numbers({16, 20}, 3, Device::cpu());
  const auto products = [] { return rt::SnapshotMetrics()[static_cast<int>(rt::Metric::products_run)]; };
  int64_t before = products();
  ExpectSame(matmul(a.to(Gpu(0)), b.to(Gpu(0))), matmul(a, b));
  before = products();
  const Tensor there = a.to(Gpu(0)), w = b.to(Gpu(0));
  before = products();
  const int asked = Asked();
  matmul(there.reshape({30, 12, 16}), w);
  matmul(there.reshape({360, 16}), w);
  EXPECT_EQ(products(), before + 2);
  EXPECT_EQ(Asked(), asked) << "all of them are the same product";
}

TEST_F(CudaStandIn, ProductsThatDifferInSizeShareAChoice) {
  // In f32 a program of few shapes has each asked about.
  const int before = Asked();
  for (int64_t n = 1; n <= 64; ++n) matmul(Numbers({3, 8}, 1, Gpu(1)), Numbers({8, n}, 1, Gpu(1)));
  EXPECT_GT(Asked() - before, 32);
  constexpr int64_t kInner = 40, kColumns = 24, kFirst = 160, kCount = 16;
  const Tensor b = Numbers({kInner, kColumns}, 3, Device::cpu()), there = b.to(Gpu(1));
  const auto run = [&](int64_t rows) {
    const Tensor a = Numbers({rows, kInner}, rows, Device::cpu());
    ExpectSame(matmul(a.to(Gpu(1)), there), matmul(a, b));
  };
  const int start = Asked();
  for (int64_t i = 0; i < kCount; ++i) run(kFirst + i);
  EXPECT_EQ(Asked() - start, 0);
  // One that comes back often is asked about, once.
  for (int i = 0; i < 7; ++i) run(kFirst + kCount - 1);
  EXPECT_EQ(Asked() - start, 0);
  for (int i = 0; i < 3; ++i) run(kFirst + kCount - 1);
  EXPECT_EQ(Asked() - start, 1);
  for (int i = 0; i < 20; ++i) run(kFirst);
  EXPECT_EQ(Asked() - start, 2);
  run(2 * kFirst);
  EXPECT_EQ(Asked() - start, 2);
  // Not where runs are to be the same to the bit.
  ASSERT_TRUE(Runtime::set_option("bitwise", "true").ok());
  run(3 * kFirst);
  EXPECT_EQ(Asked() - start, 3);
  run(2 * kFirst);  // borrowed before
  ASSERT_TRUE(Runtime::set_option("bitwise", "false").ok());
  EXPECT_EQ(Asked() - start, 4);
  EXPECT_EQ(StandIn<int (*)()>("libcublasLt.so.13", "StandInRefused")(), 0);
}

TEST_F(CudaStandIn, NarrowProductsShareAChoiceFromTheFirstOn) {
  const int start = Asked();
  const auto run = [&](int64_t m, int64_t k, int64_t n) {
    matmul(zeros({m, k}, bf16).to(Gpu(0)), zeros({k, n}, bf16).to(Gpu(0)));
  };
  run(16, 48, 80);
  EXPECT_EQ(Asked() - start, 1);
  run(32, 48, 160);
  run(16, 96, 16);
  EXPECT_EQ(Asked() - start, 1);
  for (int i = 0; i < 8; ++i) run(32, 48, 160);
  EXPECT_EQ(Asked() - start, 2);
}

// cuBLASLt's stand-in names four kernels; the third is the fastest, in graphs the second, and the last fails.
class CudaTrials : public CudaStandIn {
 protected:
  static constexpr char kDriver[] = "libcuda.so.1", kCublasLt[] = "libcublasLt.so.13";
  static int Runs(int kernel) { return StandIn<int (*)(int)>(kCublasLt, "StandInRuns")(kernel); }
  static int AllRuns() { return Runs(0) + Runs(1) + Runs(2) + Runs(3); }
  static int64_t Tried() { return rt::SnapshotMetrics()[static_cast<int>(rt::Metric::products_tried)]; }
  static int Graphs() { return StandIn<int (*)()>(kDriver, "StandInExecs")(); }
  static void Set(const char* library, const char* name, bool value) { StandIn<void (*)(bool)>(library, name)(value); }
  void SetUp() override {
    CudaStandIn::SetUp();
    after_ = *Runtime::option("tune_after");
    ASSERT_TRUE(Runtime::set_option("tune_after", "0").ok());
  }
  void TearDown() override {
    ASSERT_TRUE(Runtime::set_option("tune_after", after_).ok());
    Set(kDriver, "StandInSetBusy", false);
    Set(kDriver, "StandInSetCaptures", true);
    Set(kCublasLt, "StandInSetComputes", true);
    CudaStandIn::TearDown();
  }
  /// The kernel that runs of a product have from now on; -1: not always the same.
  static int KernelOf(const Tensor& x, const Tensor& y) {
    const int before[] = {Runs(0), Runs(1), Runs(2), Runs(3)}, all = AllRuns();
    for (int i = 0; i < 10; ++i) matmul(x, y);
    EXPECT_EQ(AllRuns(), all + 10);
    for (int kernel : {0, 1, 2, 3})
      if (Runs(kernel) == before[kernel] + 10) return kernel;
    return -1;
  }

 private:
  std::string after_;
};

// They are timed as they are run here, one by one.
TEST_F(CudaTrials, ShortProductsAreTimedBehindRuns) {
  struct Case {
    const char *option, *value;
    DType dtype;
    bool is_busy, captures, tries, changes;
  };
  int64_t m = 200;
  for (const Case& c :
       {Case{"tune_after", "0", bf16, true, true, true, true},
        // Where the device waits for the host, too.
        Case{"tune_after", "0", bf16, false, true, true, true}, Case{"tune_after", "0", f32, false, true, true, true},
        Case{"tune_after", "0", bf16, false, false, true, false},
        Case{"tune_after", "1000", bf16, true, true, false, false},
        Case{"tune_budget", "0", bf16, true, true, false, false},
        Case{"bitwise", "true", bf16, true, true, false, false},
        Case{"bitwise", "true", f32, true, true, false, false}}) {
    Set(kDriver, "StandInSetBusy", c.is_busy);
    Set(kDriver, "StandInSetCaptures", c.captures);
    m += 8;  // a product of its own
    const std::string old = *Runtime::option(c.option);
    ASSERT_TRUE(Runtime::set_option(c.option, c.value).ok());
    const Tensor a = Numbers({m, 24}, 2, Device::cpu()).cast(c.dtype),
                 b = Numbers({24, 16}, 3, Device::cpu()).cast(c.dtype);
    const Tensor want = matmul(a.cast(f32), b.cast(f32)), x = a.to(Gpu(0)), y = b.to(Gpu(0));
    const int64_t tried = Tried(), in_use = (*rt::Cuda(0))->memory_stats().bytes_in_use, graphs = Graphs();
    const int before[] = {Runs(0), Runs(1), Runs(2), Runs(3)};
    for (int i = 0; i < 60; ++i) ExpectSame(matmul(x, y), want, c.dtype == f32 ? 1e-4f : 0.01f);
    EXPECT_EQ(Tried() - tried, c.tries) << c.option;
    for (int kernel : {1, 2, 3}) {
      // Three rounds; the last kernel is refused when it is to be recorded.
      if (c.changes) EXPECT_GE(Runs(kernel) - before[kernel], 3) << kernel;
      // The first runs of a product have the kernel of one before, which may be the third.
      if (!c.tries && kernel != 2) EXPECT_EQ(Runs(kernel), before[kernel]) << c.option;
    }
    EXPECT_EQ(KernelOf(x, y), c.changes ? 2 : 0) << c.option << " " << m;
    EXPECT_EQ((*rt::Cuda(0))->memory_stats().bytes_in_use, in_use);
    EXPECT_EQ(Graphs(), graphs) << "all are freed when the trial is over";
    ASSERT_TRUE(Runtime::set_option(c.option, old).ok());
  }
}

TEST_F(CudaTrials, LongProductsAreTimedAsTheyRun) {
  Set(kCublasLt, "StandInSetComputes", false);
  constexpr int64_t kSize = 3200;
  constexpr int kRuns = 180;
  const Tensor b = zeros({kSize, kSize}, bf16).to(Gpu(0));
  int64_t m = kSize;
  enum class Outcome { in_runs, behind_runs, no_memory };
  for (const Outcome c : {Outcome::in_runs, Outcome::behind_runs, Outcome::no_memory}) {
    m += 8;
    // Where the device waits for the host, the host's time would be measured.
    Set(kDriver, "StandInSetBusy", c == Outcome::in_runs);
    const Tensor a = zeros({m, kSize}, bf16).to(Gpu(0));
    rt::Device& device = **rt::Cuda(0);
    device.Trim();
    matmul(a, b);
    if (c == Outcome::no_memory) {
      // Room for the result, and for no other.
      const rt::MemoryStats stats = device.memory_stats();
      device.SetMemoryLimit(stats.bytes_in_use + stats.bytes_cached);
    }
    const int64_t tried = Tried();
    const int all = AllRuns(), graphs = Graphs();
    for (int i = 0; i < kRuns; ++i) matmul(a, b);
    device.SetMemoryLimit(0);
    EXPECT_EQ(Tried() - tried, 1);
    // One that is refused is run again with the first, in the three rounds in which all have their turns.
    if (c == Outcome::in_runs) EXPECT_EQ(AllRuns() - all, kRuns + 3);
    if (c == Outcome::behind_runs) EXPECT_GT(AllRuns() - all, kRuns + 3);
    if (c == Outcome::no_memory) EXPECT_EQ(AllRuns() - all, kRuns + 1);
    EXPECT_EQ(KernelOf(a, b), c == Outcome::no_memory ? 0 : 2);
    EXPECT_EQ(Graphs(), graphs);
  }
}

// A graph of the program has the kernel that was chosen when it was recorded. Others are tried by eager products of the
// same kind, or in runs of the version itself that are no graphs.
TEST_F(CudaTrials, GraphsAreRecordedAgainWithTheNewChoice) {
  const OptionScope options({{"tier", "2"},
                             {"background", "false"},
                             {"hot_function", "1"},
                             {"profit_gate", "false"},
                             {"hot_eager", "100000"}});
  // 1550 runs of the product, which is guessed to take two microseconds: another option would be another version.
  ASSERT_TRUE(Runtime::set_option("tune_after", "3100").ok());
  for (const bool by_eager_products : {true, false}) {
    const int64_t rows = by_eager_products ? 336 : 344;
    const std::string x_type = "tensor<" + std::to_string(rows) + " x 24 x bf16>",
                      y_type = "tensor<" + std::to_string(rows) + " x 16 x bf16>";
    auto module = Module::parse("func @f(%x: " + x_type + ", %w: tensor<24 x 16 x bf16>) -> " + y_type +
                                " {\n  %y = matmul %x, %w : " + y_type + "\n  return %y\n}\n");
    ASSERT_TRUE(module.ok()) << module.status().message();
    const Function f = *module->function("f");
    const Tensor a = Numbers({rows, 24}, 2, Device::cpu()).cast(bf16),
                 b = Numbers({24, 16}, 3, Device::cpu()).cast(bf16);
    const Tensor want = matmul(a.cast(f32), b.cast(f32)), x = a.to(Gpu(0)), w = b.to(Gpu(0));
    const auto run = [&](int times) {
      for (int i = 0; i < times; ++i) ExpectSame(f({x, w})[0], want, 0.01f);
    };
    run(20);
    int recorded = AllRuns();
    run(10);
    ASSERT_EQ(AllRuns(), recorded) << "runs are no graph\n" << Runtime::explain();
    const int64_t tried = Tried();
    const int fastest = by_eager_products ? 2 : 1, others = Runs(fastest);
    Set(kCublasLt, "StandInSetComputes", false);
    for (int i = 0; i < 1700; ++i) {
      if (by_eager_products)
        matmul(x, w);
      else
        f({x, w});
    }
    Set(kCublasLt, "StandInSetComputes", true);
    EXPECT_EQ(Tried(), tried + 1);
    EXPECT_GT(Runs(fastest), others);
    if (by_eager_products) ASSERT_EQ(KernelOf(x, w), fastest);
    const int before = Runs(fastest);
    run(10);
    if (by_eager_products) EXPECT_GT(Runs(fastest), before);
    recorded = AllRuns();
    run(10);
    EXPECT_EQ(AllRuns(), recorded) << "runs are graphs again";
    EXPECT_EQ(KernelOf(x, w), fastest);
  }
}

// A kernel that needs aligned rows is not given others, although all sizes are alike.
TEST_F(CudaStandIn, ChoicesAreNotSharedWhereRowsLieOtherwise) {
  for (int64_t k : {64, 65, 66, 67, 68, 69, 70, 71}) {
    for (int64_t n : {64, 65, 66, 68}) {
      const Tensor a = Numbers({32, k}, 5, Device::cpu()), b = Numbers({k, n}, 6, Device::cpu());
      ExpectSame(matmul(a.to(Gpu(0)), b.to(Gpu(0))), matmul(a, b));
    }
  }
  EXPECT_EQ(StandIn<int (*)()>("libcublasLt.so.13", "StandInRefused")(), 0);
}

TEST_F(CudaStandIn, Epilogues) {
  rt::Device& device = **rt::Cuda(1);
  const interp::EpilogueKernel kernel = interp::MatmulWithEpilogue(rt::DeviceKind::cuda);
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(interp::MatmulWithEpilogue(rt::DeviceKind::cpu), nullptr);
  const auto to_device = [&](const Tensor& x) {
    const rt::Ref<rt::TensorImpl> y = *rt::TensorImpl::Make(device, [&] {
      TensorType type;
      type.dtype = x.dtype();
      type.rank = static_cast<uint8_t>(x.rank());
      for (int d = 0; d < x.rank(); ++d) type.dims[d] = x.dims()[static_cast<size_t>(d)];
      return type;
    }());
    const std::vector<float> values = x.cast(f32).to_vector<float>();
    std::vector<uint16_t> narrow(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      narrow[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(values[i]) >> 16);
    const bool wide = x.dtype() == f32;
    EXPECT_TRUE(device
                    .CopyFromHost(y->data, wide ? static_cast<const void*>(values.data()) : narrow.data(),
                                  values.size() * (wide ? 4 : 2))
                    .ok());
    return y;
  };
  using Activation = interp::Epilogue::Activation;
  for (const DType dtype : {f32, bf16}) {
    for (int how = 1; how < 8; ++how) {
      const bool has_bias = how & 1, has_added = how & 2, has_gelu = how & 4;
      const auto normal = [&](const Dims& dims, int64_t seed) {
        return random_normal(seed, 0, dims, 0, 1, f32).cast(dtype);
      };
      const Tensor a = normal({2, 24, 16}, 2), b = normal({16, 8}, 3), bias = normal({8}, 4), r = normal({2, 24, 8}, 5);
      const auto va = to_device(a), vb = to_device(b), vbias = to_device(bias), vr = to_device(r), y = to_device(r);
      const View* const in[] = {va.get(), vb.get()};
      View* const out[] = {y.get()};
      const std::vector<ir::Attr> attrs = {false, false};
      interp::Epilogue epilogue;
      if (has_bias) epilogue.bias = vbias.get();
      if (has_added) epilogue.added = vr.get();
      if (has_gelu) epilogue.activation = Activation::gelu_tanh;
      const interp::KernelArgs args = {ir::Info(ir::Op::k_matmul), in, out, attrs, &device};
      const int asked = Asked();
      ASSERT_TRUE(kernel(args, epilogue, /*submit=*/false).ok());
      ASSERT_TRUE(kernel(args, epilogue, /*submit=*/true).ok());
      EXPECT_LE(Asked() - asked, 1) << "it is asked before the product is submitted";
      Tensor want = matmul(a.cast(f32), b.cast(f32));
      if (has_bias) want = want + bias.cast(f32);
      if (has_added) want = want + r.cast(f32);
      if (has_gelu) want = gelu_tanh(want);
      std::vector<char> bytes(48 * 8 * SizeOf(dtype));
      ASSERT_TRUE(device.CopyToHost(bytes.data(), y->data, bytes.size()).ok());
      const std::vector<float> wanted = want.to_vector<float>();
      for (size_t i = 0; i < wanted.size(); ++i) {
        float got;
        if (dtype == f32) {
          std::memcpy(&got, &bytes[4 * i], 4);
        } else {
          uint16_t half;
          std::memcpy(&half, &bytes[2 * i], 2);
          got = std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
        }
        ASSERT_NEAR(got, wanted[i], (dtype == f32 ? 1e-4 : 0.02) * (1 + std::abs(wanted[i]))) << how << " " << i;
      }
    }
  }
  // A dtype that the library does not have.
  const auto half = to_device(random_normal(1, 0, {16, 16}, 0, 1, f32).cast(f16));
  const View* const in[] = {half.get(), half.get()};
  View* const out[] = {half.get()};
  const std::vector<ir::Attr> attrs = {false, false};
  EXPECT_EQ(kernel({ir::Info(ir::Op::k_matmul), in, out, attrs, &device}, {}, false).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(StandIn<int (*)()>("libcublasLt.so.13", "StandInStrangers")(), 0);
}

/// A loop of eager ops, at a place of its own for each device.
template <int device>
[[gnu::noinline]] Tensor Linear(const Tensor& x, const Tensor& w, const Tensor& b, Tensor* product) {
  Tensor y;
  for (int n = 0; n < 40; ++n) {
    if (product != nullptr) {
      *product = matmul(x, w);
      y = *product + b;
    } else {
      y = matmul(x, w) + b;
    }
    Step next;
  }
  return y;
}

// Versions of functions and of eager ops give cuBLASLt what follows a product. Nothing else computes here, so what
// comes out right came from there.
TEST_F(CudaStandIn, VersionsGiveTheLibraryWhatFollowsAProduct) {
  if (std::getenv("TESSERA_COMPILER_LIBRARY") == nullptr) GTEST_SKIP() << "built without the compiler";
  const OptionScope options({{"tier", "3"},
                             {"background", "false"},
                             {"hot_function", "1"},
                             {"hot_eager", "2"},
                             {"fuse", "true"},
                             {"profit_gate", "false"},
                             {"compile_after", "0"},
                             {"tune_budget", "0"}});
  const auto fused = [] { return rt::SnapshotMetrics()[static_cast<int>(rt::Metric::products_fused)]; };
  const auto normal = [](const Dims& dims, int64_t seed) { return random_normal(seed, 0, dims, 0, 1, f32).cast(bf16); };
  for (int i : {0, 1}) {
    const int64_t before = fused();
    // With the second sum a kernel is generated first, of both.
    auto module = Module::parse(
        "func @f(%x: tensor<M x K x bf16>, %w: tensor<K x N x bf16>, %b: tensor<N x bf16>, %r: tensor<M x N x bf16>)"
        " -> tensor<M x N x bf16> {\n  %p = matmul %x, %w : tensor<M x N x bf16>\n" +
        std::string(i == 0 ? "  %y = add %p, %b : tensor<M x N x bf16>\n"
                           : "  %q = add %p, %b : tensor<M x N x bf16>\n  %y = add %q, %r : tensor<M x N x bf16>\n") +
        "  return %y\n}\n");
    ASSERT_TRUE(module.ok()) << module.status().message();
    const Function f = *module->function("f");
    for (int64_t rows : {48, 64, 80}) {
      const Tensor x = normal({rows, 16}, 1), w = normal({16, 24}, 2), b = normal({24}, 3), r = normal({rows, 24}, 4);
      const std::vector<Tensor> args = {x.to(Gpu(i)), w.to(Gpu(i)), b.to(Gpu(i)), r.to(Gpu(i))};
      std::vector<Tensor> y;
      for (int n = 0; n < 8; ++n) y = f(args);
      const Tensor want = matmul(x.cast(f32), w.cast(f32)) + b.cast(f32);
      ExpectSame(y[0], i == 0 ? want : want + r.cast(f32), 0.02f);
    }
    EXPECT_GT(fused(), before) << Runtime::explain();
    const Tensor x = normal({48, 16}, 1), w = normal({16, 24}, 2), b = normal({24}, 3);
    const auto linear = [&](Tensor* product) {
      return (i == 0 ? Linear<0> : Linear<1>)(x.to(Gpu(i)), w.to(Gpu(i)), b.to(Gpu(i)), product);
    };
    const int64_t eager = fused();
    const Tensor want = matmul(x.cast(f32), w.cast(f32));
    ExpectSame(linear(nullptr), want + b.cast(f32), 0.02f);
    EXPECT_GT(fused(), eager) << Runtime::explain();
    // A product that somebody holds is computed for itself.
    Tensor product;
    linear(&product);
    ExpectSame(product, want, 0.02f);
  }
}

// Ops without operands are of the default device, also in a loop that computes on another one.
TEST_F(CudaStandIn, ATraceHasOneDevice) {
  const OptionScope options({{"tier", "2"}, {"background", "false"}, {"hot_eager", "2"}, {"profit_gate", "false"}});
  const Device old = Runtime::device();
  Runtime::set_device(*Device::find("cuda"));
  std::vector<Tensor> all;
  Tensor sum = Tensor::from(std::vector<float>(8, 0)).to(Device::cpu());
  for (int i = 0; i < 60; ++i) {
    all.push_back(randn({8}).cast(bf16));
    sum = sum + all.back().to(Device::cpu()).cast(f32) * 0.0;
  }
  EXPECT_EQ(sum.device(), Device::cpu());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].device(), *Device::find("cuda")) << i;
  // The same ops, and another default.
  for (const Device& device : {Device::cpu(), *Device::find("cuda")}) {
    Runtime::set_device(device);
    for (int i = 0; i < 40; ++i) {
      const Tensor x = random_normal(i, 0, {8}, 0, 1, f32), y = x + x;
      EXPECT_EQ(y.device(), device) << i;
    }
  }
  Runtime::set_device(old);
}

constexpr char kTwoOps[] =
    "func @f(%x: tensor<8 x f32>) -> tensor<8 x f32> {\n  %a = exp %x : tensor<8 x f32>\n"
    "  %b = mul %a, %x : tensor<8 x f32>\n  return %b\n}\n";

TEST_F(CudaStandIn, FunctionsAreHotSooner) {
  const OptionScope options({{"tier", "2"}, {"background", "false"}, {"hot_function", "40"}, {"profit_gate", "false"}});
  tiers::Manager::Get().Reset();
  for (const Device& device : {Device::cpu(), Gpu(1)}) {
    const Function f = Function::parse(kTwoOps).value();
    const Tensor x = Numbers({8}, 1, device);
    int calls = 0;
    for (; calls < 100 && tiers::Manager::Get().num_versions() == 0; ++calls) f({x});
    // And two that are recorded.
    const int hot = device == Device::cpu() ? 40 : 10;
    EXPECT_GE(calls, hot + 1) << Runtime::explain();
    EXPECT_LE(calls, hot + 3) << Runtime::explain();
    tiers::Manager::Get().Reset();
  }
}

// On a GPU nobody waits for the cores that compile.
TEST_F(CudaStandIn, CodeIsAskedForSooner) {
  const OptionScope options({{"tier", "2"},
                             {"background", "false"},
                             {"hot_function", "1"},
                             {"profit_gate", "false"},
                             {"compile_after", "1000000000"}});
  tiers::Manager::Get().Reset();
  for (const Device& device : {Device::cpu(), Gpu(1)}) {
    const Function f = Function::parse(kTwoOps).value();
    const Tensor x = Numbers({8}, 1, device);
    for (int i = 0; i < 8; ++i) f({x});
    int64_t generate_at = 0;
    for (const auto& anchor : tiers::Manager::Get().anchors())
      for (const auto& version : anchor->versions()) generate_at = version->generate_at.load();
    EXPECT_EQ(generate_at, (device == Device::cpu() ? 4 : 1) * int64_t{250'000'000'000}) << Runtime::explain();
    tiers::Manager::Get().Reset();
  }
}

TEST_F(CudaStandIn, LinearCrossEntropyGoesOverItsRows) {
  // Kernels compute nothing here: what the products take for the gradients of the logits are the logits.
  const Tensor targets = Tensor::from(std::vector<int64_t>(21, 3), {3, 7});
  for (const DType dtype : {f32, bf16}) {
    const Tensor x = Numbers({3, 7, 8}, 1, Device::cpu()).cast(dtype),
                 w = Numbers({20, 8}, 2, Device::cpu()).cast(dtype), g = Numbers({3, 7}, 3, Device::cpu()).cast(dtype);
    const Tensor logits = matmul(x.cast(f32), w.cast(f32), false, true).reshape({21, 20});
    const Tensor dx = matmul(logits, w.cast(f32)).reshape({3, 7, 8}),
                 dw = matmul(logits, x.cast(f32).reshape({21, 8}), true, false);
    // The same elements, with those of a column side by side.
    const Tensor x_there = x.to(Gpu(1)), w_there = w.to(Gpu(1)), t_there = targets.to(Gpu(1)), g_there = g.to(Gpu(1));
    const Tensor w_turned = copy(transpose(w)).to(Gpu(1)).transpose();
    const int64_t row = 20 * (dtype == f32 ? 4 : 2);
    for (const auto& [budget, chunks] : {std::pair<int64_t, int64_t>{0, 1}, {1, 21}, {row * 8, 3}, {row * 7 + 1, 3}}) {
      SCOPED_TRACE(std::string(Name(dtype)) + ", budget " + std::to_string(budget));
      interp::logits_budget = budget;
      for (const Tensor& there : {w_there, w_turned}) {
        const auto products = [] { return rt::SnapshotMetrics()[static_cast<int>(rt::Metric::products_run)]; };
        const int64_t in_use = Runtime::memory(Gpu(1)).bytes_in_use, before = products();
        const size_t launches = Launches(1);
        const Tensor losses = linear_cross_entropy(x_there, there, t_there);
        EXPECT_EQ(losses.dims(), targets.dims());
        EXPECT_EQ(products() - before, chunks);
        EXPECT_EQ(Launches(1) - launches, static_cast<size_t>(chunks));
        const LinearCrossEntropyGrads grads = linear_cross_entropy_grad(x_there, there, t_there, g_there);
        EXPECT_EQ(products() - before, 4 * chunks);
        // Sums of several chunks are cast in the end.
        const bool casts = dtype == bf16 && chunks > 1;
        EXPECT_EQ(Launches(1) - launches, static_cast<size_t>(2 * chunks) + casts);
        ExpectSame(grads.x, dx, dtype == f32 ? 1e-4f : 0.1f);
        if (!casts) ExpectSame(grads.w, dw, dtype == f32 ? 1e-4f : 0.1f);
        EXPECT_LT(Runtime::memory(Gpu(1)).bytes_in_use - in_use, 8192) << "scratch memory has gone back";
      }
    }
    interp::logits_budget = 0;
  }
}

TEST_F(CudaStandIn, BlocksServeSizesALittleSmaller) {
  rt::Device& cuda = **rt::Cuda(1);
  cuda.Trim();
  const int64_t in_use = cuda.memory_stats().bytes_in_use;
  constexpr size_t kBytes = size_t{40} << 20;
  void* const first = *cuda.Allocate(kBytes);
  cuda.Free(first, kBytes);
  const int64_t taken = cuda.memory_stats().system_allocations;
  for (size_t less = 0; less < kBytes / 9; less += size_t{1} << 19) {
    void* const p = *cuda.Allocate(kBytes - less);
    EXPECT_EQ(p, first) << less;
    EXPECT_GE(cuda.memory_stats().bytes_in_use, in_use + static_cast<int64_t>(kBytes));
    cuda.Free(p, kBytes - less);
    EXPECT_EQ(cuda.memory_stats().bytes_in_use, in_use);
  }
  EXPECT_EQ(cuda.memory_stats().system_allocations, taken);
  void* const half = *cuda.Allocate(kBytes / 2);
  EXPECT_NE(half, first) << "half of it would be wasted";
  cuda.Free(half, kBytes / 2);
  cuda.Trim();
}

TEST_F(CudaStandIn, SizesThatDoNotComeBackDoNotPileUp) {
  rt::Device& cuda = **rt::Cuda(0);
  cuda.Trim();
  cuda.ResetPeak();
  size_t all = 0;
  for (int round = 0; round < 2; ++round) {
    for (size_t bytes = size_t{2} << 20; bytes <= (size_t{256} << 20); bytes += bytes / 7) {
      cuda.Free(*cuda.Allocate(bytes), bytes);
      all += bytes;
    }
  }
  const rt::MemoryStats stats = cuda.memory_stats();
  EXPECT_GT(all, size_t{3} << 30);
  EXPECT_LE(stats.bytes_cached + stats.bytes_in_use, 2 * stats.peak_bytes + (int64_t{1} << 30) + (int64_t{64} << 20));
  cuda.Trim();
  EXPECT_EQ(cuda.memory_stats().bytes_in_use, stats.bytes_in_use);
}

// What no longer fits goes from the cache before anything is refused.
TEST_F(CudaStandIn, WithoutMemoryTheCacheGoesFirst) {
  rt::Device& cuda = **rt::Cuda(0);
  cuda.Trim();
  constexpr size_t kLarge = size_t{1500} << 20;
  void* const a = *cuda.Allocate(kLarge);
  void* const b = *cuda.Allocate(kLarge);
  cuda.Free(b, kLarge);
  void* const c = *cuda.Allocate(kLarge + (kLarge / 2));
  EXPECT_EQ(cuda.Allocate(kLarge).status().code(), absl::StatusCode::kResourceExhausted);
  cuda.Free(c, kLarge + (kLarge / 2));
  void* const again = *cuda.Allocate(kLarge);
  cuda.Free(again, kLarge);
  cuda.Free(a, kLarge);
  cuda.Trim();
}

// A device that is lost says which kernels it was given last, and of which trace; the versions may be gone.
TEST(CudaLost, NamesKernelsAndTheirTraces) {
  if (std::getenv("TESSERA_COMPILER_LIBRARY") == nullptr) GTEST_SKIP() << "built without the compiler";
  for (const auto& [name, value] :
       {std::pair{"background", "false"}, {"hot_function", "1"}, {"profit_gate", "false"}, {"compile_after", "0"}})
    ASSERT_TRUE(Runtime::set_option(name, value).ok());
  const Device gpu = *Device::find("cuda:1");
  {
    auto module = Module::parse(
        "func @doomed(%x: tensor<N x N x f32>) -> tensor<N x N x f32> {\n  %a = exp %x : tensor<N x N x f32>\n"
        "  %b = mul %a, %x : tensor<N x N x f32>\n  %y = matmul %b, %b : tensor<N x N x f32>\n  return %y\n}\n");
    ASSERT_TRUE(module.ok()) << module.status().message();
    const Function f = *module->function("doomed");
    const Tensor x = ones({16, 16}).to(gpu);
    for (int i = 0; i < 8; ++i) f({x});
  }
  StandIn<void (*)()>("libcuda.so.1", "StandInFail")();
  const Status lost = Runtime::synchronize(gpu);
  ASSERT_FALSE(lost.ok());
  const std::string message = lost.message();
  EXPECT_NE(message.find("cuda:1 is lost"), std::string::npos) << message;
  EXPECT_NE(message.find("k1 of @doomed:"), std::string::npos) << message;
  EXPECT_NE(message.find("the graph of @doomed:"), std::string::npos) << message;
  EXPECT_NE(message.find("a product of cuBLASLt"), std::string::npos) << message;
  // The cpu goes on.
  EXPECT_EQ(sum(ones({4})).item<float>(), 4.0f);
}

// A context and a stream of the application, on the second device.
TEST(CudaAdoption, ContextAndStream) {
  ASSERT_EQ(rt::NumCudaDevices(), 2);
  ASSERT_TRUE(Runtime::set_option("tier", "1").ok());
  void* const context = StandIn<void* (*)(int)>("libcuda.so.1", "StandInContext")(1);
  EXPECT_FALSE(cuda::adopt_context(2, context).ok());
  ASSERT_TRUE(cuda::adopt_context(1, context).ok());
  const Device gpu = *Device::find("cuda:1"), other = *Device::find("cuda:0");
  EXPECT_EQ(cuda::context(gpu), context);
  EXPECT_NE(cuda::context(other), context);
  EXPECT_FALSE(cuda::adopt_context(1, context).ok()) << "it is in use";
  void* const own = cuda::stream(gpu);
  CUstream stream = nullptr;
  const cuda::Driver& driver = cuda::TheDriver();
  ASSERT_EQ(driver.cuCtxSetCurrent(static_cast<CUcontext>(context)), CUDA_SUCCESS);
  ASSERT_EQ(driver.cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  // The application may make another context current at any time.
  ASSERT_EQ(driver.cuCtxSetCurrent(static_cast<CUcontext>(cuda::context(other))), CUDA_SUCCESS);
  ASSERT_TRUE(cuda::use_stream(gpu, stream).ok());
  EXPECT_EQ(cuda::stream(gpu), stream);
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {4, 4}).to(gpu);
  const Tensor y = matmul(x, x), z = x + y;
  EXPECT_EQ(y.to_vector<float>()[0], 90.0f);
  ASSERT_TRUE(cuda::use_stream(gpu, nullptr).ok());
  EXPECT_EQ(cuda::stream(gpu), own);
  EXPECT_EQ(x.to(other).to(gpu).to_vector<float>()[15], 16.0f);
  ASSERT_EQ(driver.cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(Violation(), "");
}

}  // namespace
}  // namespace tessera
