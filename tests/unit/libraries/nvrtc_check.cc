// The real NVRTC, which needs no GPU: a program of its own, because it does not work beside a driver that stands in.
#include <gtest/gtest.h>

#include "runtime/cuda/nvrtc.h"

namespace tessera::cuda {
namespace {

constexpr char kScale[] = R"(
template <class T> __global__ void scale(T* y, const T* x, float by, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = by * x[i];
})";

TEST(Nvrtc, SourceIsCompiled) {
  const auto compiled = CompileSource("sm_90a", kScale, "scale<float>", {});
  if (compiled.status().code() == absl::StatusCode::kNotFound) GTEST_SKIP() << compiled.status().message();
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(compiled->cubin.substr(1, 3), "ELF");
  EXPECT_NE(compiled->cubin.find(compiled->kernel), std::string::npos);
  EXPECT_NE(compiled->kernel.find("scale"), std::string::npos);
  const auto fault = CompileSource("sm_90a", "__global__ void f() { return nothing; }", "f", {});
  EXPECT_EQ(fault.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(fault.status().message().find("kernel.cu(1): error: identifier \"nothing\" is undefined"),
            std::string::npos)
      << fault.status().message();
  EXPECT_EQ(CompileSource("sm_90a", kScale, "scales<float>", {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CompileSource("sm_90a", kScale, "scale<float>", {"--no-such-option"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tessera::cuda
