// Rows with reductions in generated kernels: softmax of f32, whose exponentials are not tier 1's.
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
