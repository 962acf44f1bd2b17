// Rows with reductions in generated kernels: softmax of f32, whose exponentials are not tier 1's, and long rows.
#include <limits>

#include "cuda_kernels_testing.h"

namespace tessera {
namespace {

class CudaRows : public CudaKernels {};

// Within the bound of the op, against f64 on the cpu. The first shape is what the kernel of tier 2 is made for.
TEST_F(CudaRows, SoftmaxOfF32) {
  constexpr double eps = 0x1p-23;
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope scope({{"specialise_after", specialise_after}});
    for (const char* op : {"softmax", "log_softmax"}) {
      const std::string t = "tensor<M x N x f32>";
      const Program p = Parse("func @f(%x: " + t + ") -> " + t + " {\n  %z = neg %x : " + t + "\n  %y = " + op +
                              " %z : " + t + "\n  return %y\n}\n");
      const int64_t before = Generated();
      for (const auto& [m, n] :
           {std::array<int64_t, 2>{300, 8192}, {700, 1024}, {5, 1100}, {9, 33}, {2, 40000}, {3, 4}}) {
        // From rows that are nearly even to rows in which most weights are 0.
        const Tensor x = randn({m, n}) * (m % 2 == 0 ? 30.0 : 1.0), y = Hot(p, {x})[0];
        const std::string what = std::string(op) + " " + std::to_string(m) + "x" + std::to_string(n);
        const Tensor wide = -x.to(Device::cpu()).cast(f64);
        const Tensor d = wide - max(wide, {1}, true), e = exp(d), s = sum(e, {1}, true);
        const std::vector<double> far = abs(d).to_vector<double>();
        const std::vector<double> want = (*op == 's' ? e / s : d - log(s)).to_vector<double>();
        const std::vector<float> got = y.to_vector<float>();
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < got.size(); ++i) {
          const double bound =
              *op == 's' ? eps * (8 + far[i]) * want[i] + 0x1p-125 : 8 * eps * (far[i] + std::abs(want[i]) + 1);
          ASSERT_LE(std::abs(got[i] - want[i]), bound)
              << what << ": element " << i << " is " << got[i] << ", not " << want[i];
        }
      }
      EXPECT_GT(Generated(), before);
    }
  }
}

// Rows in registers, in shared memory, in both, and of lengths that leave threads without elements.
TEST_F(CudaRows, LayerNormOfLongRows) {
  OptionScope scope({{"specialise_after", "0"}});
  for (DType dtype : {f32, bf16}) {
    const std::string d(Name(dtype)), t = "tensor<M x N x " + d + ">", r = "tensor<N x " + d + ">";
    for (const auto& [m, n] :
         {std::array<int64_t, 2>{300, 8192}, {70, 12000}, {66, 32768}, {3, 32776}, {65, 40000}, {3, 65536}}) {
      // A function of its own, so that its code is for this shape.
      const Program p =
          Parse("func @f(%x: " + t + ", %w: " + r + ", %b: " + r + ") -> " + t + " {\n  %z = neg %x : " + t +
                "\n  %y = layer_norm %z, %w, %b : " + t + "\n  return %y\n}\n");
      const int64_t before = Generated();
      const Tensor x = randn({m, n}).cast(dtype), w = randn({n}).cast(dtype), b = randn({n}).cast(dtype);
      const Tensor y = Hot(p, {x, w, b})[0];
      const std::string what = d + " " + std::to_string(m) + "x" + std::to_string(n);
      EXPECT_GT(Generated(), before) << what;
      const double count = static_cast<double>(n);
      const Tensor wide = -Here(x).cast(f64), from_mean = wide - sum(wide, {1}, true) / count;
      const Tensor deviation = sqrt(sum(from_mean * from_mean, {1}, true) / count + 1e-5);
      const Tensor scaled = from_mean / deviation * Here(w).cast(f64), want = scaled + Here(b).cast(f64);
      ExpectWithin(y, want, abs(scaled) + abs(Here(b).cast(f64)) + abs(Here(w).cast(f64)), dtype == f32 ? 1e-5 : 0.01,
                   what);
    }
  }
}

// Elements whose negatives are minus infinity have no weight; a NaN makes its row NaN, and no
// other.
TEST_F(CudaRows, SoftmaxOfWhatIsNoNumber) {
  const std::string t = "tensor<M x N x f32>";
  const Program p = Parse("func @f(%x: " + t + ") -> " + t + " {\n  %z = neg %x : " + t + "\n  %y = softmax %z : " + t +
                          "\n  return %y\n}\n");
  constexpr int64_t kRows = 64, kColumns = 1024;
  std::vector<float> values(kRows * kColumns, -2.0f);
  for (int64_t c = 0; c < kColumns / 2; ++c) values[3 * kColumns + c] = std::numeric_limits<float>::infinity();
  values[5 * kColumns + 17] = std::numeric_limits<float>::quiet_NaN();
  values[7 * kColumns + 1] = -200.0f;
  const std::vector<float> y = Hot(p, {Tensor::from<float>(values, {kRows, kColumns})})[0].to_vector<float>();
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c) {
      const float got = y[static_cast<size_t>(r * kColumns + c)];
      if (r == 5) {
        EXPECT_TRUE(std::isnan(got)) << c;
      } else {
        const float want = r == 3   ? (c < kColumns / 2 ? 0.0f : 2.0f / kColumns)
                           : r == 7 ? (c == 1 ? 1.0f : 0.0f)
                                    : 1.0f / kColumns;
        ASSERT_NEAR(got, want, 1e-6f * want) << r << " " << c;
      }
    }
  }
}

}  // namespace
}  // namespace tessera
