// Element-wise kernels whose blocks stay and fetch ahead: made for much work, and called with little of it, too.
#include <limits>

#include "cuda_kernels_testing.h"

namespace tessera {
namespace {

class CudaElements : public CudaKernels {};

// gelu(x w + b) / 2 + x, over the rows of a matrix.
std::string Gelu(DType dtype) {
  const std::string t(Name(dtype)), m = "tensor<M x N x " + t + ">", r = "tensor<N x " + t + ">";
  return "func @f(%x: " + m + ", %w: " + r + ", %b: " + r + ") -> " + m + " {\n  %p = mul %x, %w : " + m +
         "\n  %s = add %p, %b : " + m + "\n  %g = gelu %s : " + m + "\n  %h = mul %g, 0.5 : " + m +
         "\n  %y = add %h, %x : " + m + "\n  return %y\n}\n";
}

// The first shape is what the kernel is made for; the others find rows that end within a vector, fewer rows than are in
// flight, columns without rows, and odd addresses.
constexpr int64_t kShapes[][2] = {{9001, 1024}, {5, 1100}, {9, 2052}, {2, 4},    {3, 7},
                                  {4097, 132},  {2, 5000}, {7, 1030}, {37, 2048}};

TEST_F(CudaElements, RowsOfF32HaveTheBitsOfTier1) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope scope({{"specialise_after", specialise_after}});
    const Program p = Parse(Gelu(f32));
    const int64_t before = Generated();
    for (const auto& [m, n] : kShapes) {
      const Tensor x = randn({m, n}) * 3.0, w = randn({n}), b = randn({n});
      ExpectSame(Hot(p, {x, w, b})[0], Cold(p, {x, w, b})[0],
                 std::to_string(m) + "x" + std::to_string(n) + " " + specialise_after);
    }
    EXPECT_GT(Generated(), before);
  }
}

TEST_F(CudaElements, RowsThatBeginAnywhere) {
  OptionScope scope({{"specialise_after", "1000000000"}});
  const Program p = Parse(Gelu(f32));
  const Tensor large = randn({9001, 1024});
  Hot(p, {large, randn({1024}), randn({1024})});
  const Tensor all = randn({20 * 1028 + 8}), w = randn({1032}), b = randn({1028});
  for (const int64_t at : {0, 1, 3, 4}) {
    const Tensor x = reshape(slice(all, {at}, {at + 20 * 1028}), {20, 1028}), ww = slice(w, {at}, {at + 1028});
    ExpectSame(Hot(p, {x, ww, b})[0], Cold(p, {x, ww, b})[0], "at " + std::to_string(at));
  }
}

TEST_F(CudaElements, NarrowFloats) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope scope({{"specialise_after", specialise_after}});
    for (const DType dtype : {bf16, f16}) {
      const Program p = Parse(Gelu(dtype));
      const int64_t before = Generated();
      for (const auto& [m, n] :
           {std::array<int64_t, 2>{18001, 1024}, {5, 1104}, {9, 2056}, {2, 8}, {3, 7}, {3, 9000}}) {
        const Tensor x = (randn({m, n}) * 3.0).cast(dtype), w = randn({n}).cast(dtype), b = randn({n}).cast(dtype);
        const Tensor hx = Here(x), sum = hx * Here(w) + Here(b), g = gelu(sum);
        ExpectWithin(Hot(p, {x, w, b})[0], g * 0.5 + hx, abs(g) + abs(hx) + abs(sum) * 0.01 + 1e-4, 0.006,
                     std::string(Name(dtype)) + " " + std::to_string(m) + "x" + std::to_string(n));
      }
      EXPECT_GT(Generated(), before);
    }
  }
}

// The whole range of the function, with what is no number. The bits are tier 1's, and within 4 units of the truth.
TEST_F(CudaElements, GeluOfEveryKind) {
  std::vector<float> values;
  for (int i = -150'000; i <= 150'000; ++i) values.push_back(static_cast<float>(i) * 1e-4f);
  for (float v = 1e-38f; v < 1e38f; v *= 1.01f) values.push_back(v), values.push_back(-v);
  for (const float v : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                        std::numeric_limits<float>::quiet_NaN(), 0.0f, -0.0f, 1e-45f, -1e-45f})
    values.push_back(v);
  while (values.size() % 1024 != 0) values.push_back(-1.0f);
  const auto rows = static_cast<int64_t>(values.size() / 1024);
  // One op by itself is tier 1's.
  const Program p = Parse(
      "func @f(%x: tensor<M x N x f32>) -> tensor<M x N x f32> {\n  %g = gelu %x : tensor<M x N x f32>\n"
      "  %y = neg %g : tensor<M x N x f32>\n  return %y\n}\n");
  const int64_t before = Generated();
  Hot(p, {randn({9001, 1024})});
  const Tensor x = Tensor::from<float>(values, {rows, 1024});
  const Tensor y = Hot(p, {x})[0];
  EXPECT_GT(Generated(), before);
  ExpectSame(y, Cold(p, {x})[0], "gelu");
  const std::vector<float> got = y.to_vector<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    const double v = values[i];
    if (std::isnan(v)) {
      EXPECT_TRUE(std::isnan(got[i]));
      continue;
    }
    if (std::isinf(v)) {
      EXPECT_EQ(-got[i], v > 0 ? values[i] : 0.0f);
      continue;
    }
    const double want = v * 0.5 * std::erfc(-v / std::sqrt(2.0));
    int exponent = 0;
    std::frexp(want, &exponent);
    const double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
    ASSERT_LE(std::abs(-got[i] - want), 4.0 * unit) << "gelu(" << v << ") is " << -got[i] << ", not " << want;
  }
}

// One row that is the whole tensor, and two operands that are fetched.
TEST_F(CudaElements, OneRun) {
  OptionScope scope({{"specialise_after", "1000000000"}});
  const std::string t = "tensor<M x N x f32>";
  const Program p = Parse("func @f(%x: " + t + ", %z: " + t + ") -> " + t + " {\n  %g = tanh %x : " + t +
                          "\n  %y = mul %g, %z : " + t + "\n  %e = exp %y : " + t + "\n  return %e\n}\n");
  for (const auto& [m, n] : kShapes) {
    const Tensor x = randn({m, n}), z = randn({m, n});
    ExpectSame(Hot(p, {x, z})[0], Cold(p, {x, z})[0], std::to_string(m) + "x" + std::to_string(n));
  }
}

// Rows that are found by two indices, a number for each row, an operand that only some of them share, and two results.
TEST_F(CudaElements, ThreeDims) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope scope({{"specialise_after", specialise_after}});
    const std::string t = "tensor<A x B x C x f32>";
    const Program p = Parse("func @f(%x: " + t + ", %r: tensor<B x 1 x f32>, %q: tensor<B x C x f32>) -> (" + t + ", " +
                            t + ") {\n  %a = mul %x, %r : " + t + "\n  %b = add %a, %q : " + t +
                            "\n  %y = tanh %b : " + t + "\n  return %a, %y\n}\n");
    for (const auto& d : {std::array<int64_t, 3>{301, 31, 1024}, {2, 3, 8}, {3, 5, 1100}, {5, 2, 2056}, {2, 3, 7}}) {
      const Tensor x = randn({d[0], d[1], d[2]}), r = randn({d[1], 1}), q = randn({d[1], d[2]});
      const std::vector<Tensor> got = Hot(p, {x, r, q}), want = Cold(p, {x, r, q});
      ExpectSame(got[0], want[0], std::to_string(d[2]));
      ExpectSame(got[1], want[1], std::to_string(d[2]));
    }
  }
}

// Batches of rows, with numbers of rows and operands that stand still along some of the dims.
TEST_F(CudaElements, FourDims) {
  OptionScope scope({{"specialise_after", "1000000000"}});
  const std::string t = "tensor<A x B x C x D x f32>";
  const Program p = Parse("func @f(%x: " + t + ", %r: tensor<A x 1 x C x 1 x f32>, %q: tensor<B x 1 x D x f32>) -> " +
                          t + " {\n  %a = mul %x, %r : " + t + "\n  %b = add %a, %q : " + t +
                          "\n  %y = silu %b : " + t + "\n  return %y\n}\n");
  for (const auto& d : {std::array<int64_t, 4>{10, 30, 31, 1024}, {2, 3, 5, 1028}, {3, 2, 7, 9}, {2, 2, 2, 64}}) {
    const Tensor x = randn({d[0], d[1], d[2], d[3]}), r = randn({d[0], 1, d[2], 1}), q = randn({d[1], 1, d[3]});
    ExpectSame(Hot(p, {x, r, q})[0], Cold(p, {x, r, q})[0], std::to_string(d[3]));
  }
}

}  // namespace
}  // namespace tessera
