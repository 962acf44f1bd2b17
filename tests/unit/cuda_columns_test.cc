// Sums along columns in generated kernels, with what is computed before them.
#include <limits>

#include "cuda_kernels_testing.h"

namespace tessera {
namespace {

class CudaColumns : public CudaKernels {};

// p = x z, written, and its sum, mean and maximum over the rows. The first shape is what the kernel is made for.
std::string Program2D(DType dtype) {
  const std::string t(Name(dtype)), m = "tensor<M x N x " + t + ">", r = "tensor<N x " + t + ">";
  return "func @f(%x: " + m + ", %z: " + m + ") -> (" + m + ", " + r + ", " + r + ", " + r +
         ") {\n  %p = mul %x, %z : " + m + "\n  %s = sum %p {axes = [0]} : " + r +
         "\n  %a = mean %p {axes = [0]} : " + r + "\n  %b = max %p {axes = [0]} : " + r +
         "\n  return %p, %s, %a, %b\n}\n";
}

constexpr int64_t kShapes[][2] = {{300, 8448}, {129, 4}, {1000, 36}, {2, 20},   {600, 17},
                                  {64, 100},   {3, 7},   {5000, 64}, {512, 132}};

TEST_F(CudaColumns, AsOnTheCpu) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope scope({{"specialise_after", specialise_after}});
    for (const DType dtype : {f32, bf16, f16}) {
      const Program p = Parse(Program2D(dtype));
      const int64_t before = Generated();
      for (const auto& [m, n] : kShapes) {
        const std::string what = std::string(Name(dtype)) + " " + std::to_string(m) + "x" + std::to_string(n);
        const Tensor x = randn({m, n}).cast(dtype), z = randn({m, n}).cast(dtype);
        const std::vector<Tensor> y = Hot(p, {x, z});
        const Tensor product = Here(x) * Here(z), of_abs = sum(abs(product), 0) + 1e-6;
        const double unit = dtype == f32 ? 1e-6 : dtype == f16 ? 1e-3 : 8e-3;
        ExpectWithin(y[0], product, abs(product) + (dtype == f16 ? 1e-4 : 0.0), unit, what);
        ExpectWithin(y[1], sum(product, 0), of_abs, unit, what + " sum");
        ExpectWithin(y[2], mean(product, 0), of_abs * (1.0 / static_cast<double>(m)), unit, what + " mean");
        ExpectWithin(y[3], max(product, 0), abs(max(product, 0)) + 1e-4, unit, what + " max");
        // The same again, to the bit.
        const std::vector<Tensor> again = Hot(p, {x, z});
        EXPECT_EQ(y[1].to_bytes(), again[1].to_bytes()) << what;
        EXPECT_EQ(y[2].to_bytes(), again[2].to_bytes()) << what;
      }
      EXPECT_GT(Generated(), before);
    }
  }
}

TEST_F(CudaColumns, OddAddresses) {
  OptionScope scope({{"specialise_after", "1000000000"}});
  const Program p = Parse(Program2D(f32));
  Hot(p, {randn({300, 8448}), randn({300, 8448})});
  const Tensor all = randn({200 * 68 + 8}), z = randn({200, 68});
  for (const int64_t at : {0, 1, 3, 4}) {
    const Tensor x = reshape(slice(all, {at}, {at + 200 * 68}), {200, 68});
    const Tensor product = Here(x) * Here(z);
    const std::vector<Tensor> y = Hot(p, {x, z});
    ExpectSame(y[0].to(Device::cpu()), product, "at " + std::to_string(at));
    ExpectWithin(y[1], sum(product, 0), sum(abs(product), 0), 1e-6, "at " + std::to_string(at));
  }
}

TEST_F(CudaColumns, NaNAndInfinityStayInTheirColumns) {
  const Program p = Parse(Program2D(f32));
  std::vector<float> values(300 * 8448, 1.0f);
  values[17 * 8448 + 5] = std::numeric_limits<float>::quiet_NaN();
  values[299 * 8448 + 8447] = std::numeric_limits<float>::infinity();
  values[3 * 8448 + 100] = -std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from<float>(values, {300, 8448}), one = full({300, 8448}, 1.0);
  const std::vector<Tensor> y = Hot(p, {x, one});
  const std::vector<float> s = y[1].to_vector<float>(), m = y[3].to_vector<float>();
  for (size_t c = 0; c < s.size(); ++c) {
    if (c == 5) {
      EXPECT_TRUE(std::isnan(s[c]) && std::isnan(m[c]));
    } else if (c == 8447) {
      EXPECT_TRUE(std::isinf(s[c]) && s[c] > 0 && std::isinf(m[c]));
    } else if (c == 100) {
      EXPECT_TRUE(std::isinf(s[c]) && s[c] < 0 && m[c] == 1.0f);
    } else {
      ASSERT_TRUE(s[c] == 300.0f && m[c] == 1.0f) << c;
    }
  }
}

// Dims before and several dims among the summed ones, operands that stand still along some of them, and a function.
TEST_F(CudaColumns, FourDims) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope scope({{"specialise_after", specialise_after}});
    const std::string t = "tensor<A x B x C x D x f32>";
    const Program p = Parse("func @f(%x: " + t +
                            ", %r: tensor<B x C x 1 x f32>, %q: tensor<D x f32>) -> tensor<A x D x f32> {\n  %a = mul "
                            "%x, %r : " +
                            t + "\n  %b = add %a, %q : " + t + "\n  %c = tanh %b : " + t +
                            "\n  %y = sum %c {axes = [1, 2]} : tensor<A x D x f32>\n  return %y\n}\n");
    for (const auto& d : {std::array<int64_t, 4>{8, 10, 31, 1056}, {2, 3, 5, 20}, {3, 2, 70, 9}, {2, 2, 2, 64}}) {
      const Tensor x = randn({d[0], d[1], d[2], d[3]}), r = randn({d[1], d[2], 1}), q = randn({d[3]});
      const Tensor want = tanh(Here(x) * Here(r) + Here(q));
      ExpectWithin(Hot(p, {x, r, q})[0], sum(want, {1, 2}), sum(abs(want), {1, 2}), 2e-6, std::to_string(d[3]));
    }
  }
}

// Operands that are views: rows that are apart, and a matrix that lies the other way round.
TEST_F(CudaColumns, Views) {
  OptionScope scope({{"specialise_after", "1000000000"}});
  const Program p = Parse(Program2D(f32));
  const Tensor wide = randn({300, 8480}), tall = randn({8448, 300});
  const Tensor x = slice(wide, {0, 16}, {300, 8464}), z = transpose(tall, {1, 0});
  const Tensor product = Here(x) * Here(z);
  for (int i = 0; i < 2; ++i) {
    const std::vector<Tensor> y = Hot(p, {x, z});
    ExpectSame(y[0].to(Device::cpu()), product, "views");
    ExpectWithin(y[1], sum(product, 0), sum(abs(product), 0), 1e-6, "views");
  }
}

}  // namespace
}  // namespace tessera
