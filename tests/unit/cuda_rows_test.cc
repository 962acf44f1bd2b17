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

// Rows in registers, in shared memory, in both, shared by blocks of a cluster, and of lengths that leave threads
// without elements or that vectors do not meet; an odd number of rows, and a single one.
TEST_F(CudaRows, LayerNormOfLongRows) {
  OptionScope scope({{"specialise_after", "0"}});
  for (DType dtype : {f32, bf16}) {
    const std::string d(Name(dtype)), t = "tensor<M x N x " + d + ">", r = "tensor<N x " + d + ">";
    for (const auto& [m, n] : {std::array<int64_t, 2>{300, 8192},
                               {70, 12000},
                               {66, 32768},
                               {3, 32776},
                               {65, 40000},
                               {3, 65536},
                               {35, 65536},
                               {5, 100000},
                               {67, 131071},
                               {7, 131072},
                               {1, 131072},
                               {2, 262144}}) {
      // A function of its own, so that its code is for this shape.
      const Program p =
          Parse("func @f(%x: " + t + ", %w: " + r + ", %b: " + r + ") -> " + t + " {\n  %z = neg %x : " + t +
                "\n  %y = layer_norm %z, %w, %b : " + t + "\n  return %y\n}\n");
      const int64_t before = Generated();
      const Tensor x = randn({m, n}).cast(dtype), w = randn({n}).cast(dtype), b = randn({n}).cast(dtype);
      const Tensor y = Hot(p, {x, w, b})[0];
      ExpectSame(Here(Hot(p, {x, w, b})[0]), Here(y), "once more");
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

// Rows that lie apart, and those that begin where vectors do not: of a part of a matrix.
TEST_F(CudaRows, PartsOfLongRows) {
  OptionScope scope({{"specialise_after", "0"}});
  for (DType dtype : {f32, bf16}) {
    const std::string d(Name(dtype)), t = "tensor<M x N x " + d + ">", r = "tensor<N x " + d + ">";
    const Tensor all = randn({9, 65536 + 64}).cast(dtype), weights = randn({65536}).cast(dtype);
    for (int64_t at : {0, 16, 1}) {
      for (const char* op : {"softmax %x", "rms_norm %x, %w"}) {
        const Program p = Parse("func @f(%x: " + t + ", %w: " + r + ") -> " + t + " {\n  %y = " + op + " : " + t +
                                "\n  return %y\n}\n");
        const int64_t before = Generated();
        const Tensor x = slice(all, {0, at}, {9, at + 65536}), y = Hot(p, {x, weights})[0];
        EXPECT_GT(Generated(), before);
        const Tensor wide = Here(x).cast(f64);
        const Tensor e = exp(wide - max(wide, {1}, true));
        const Tensor want = *op == 's'
                                ? e / sum(e, {1}, true)
                                : wide / sqrt(sum(wide * wide, {1}, true) / 65536.0 + 1e-6) * Here(weights).cast(f64);
        ExpectWithin(y, want, abs(want) + 1e-12, dtype == f32 ? 1e-5 : 0.01, d + " " + op + " " + std::to_string(at));
      }
    }
  }
}

// Several numbers of a row of a cluster, and no more than those that are wanted.
TEST_F(CudaRows, NumbersOfLongRows) {
  OptionScope scope({{"specialise_after", "0"}});
  const std::string t = "tensor<M x N x f32>", s = "tensor<M x 1 x f32>";
  const Program p = Parse("func @f(%x: " + t + ") -> (" + t + ", " + s + ", " + s +
                          ") {\n  %m = max %x {axes = [1], keepdims = true} : " + s +
                          "\n  %a = mean %x {axes = [1], keepdims = true} : " + s + "\n  %d = sub %x, %a : " + t +
                          "\n  %y = mul %d, %m : " + t + "\n  return %y, %m, %a\n}\n");
  const int64_t before = Generated();
  const Tensor x = randn({7, 70000});
  const std::vector<Tensor> got = Hot(p, {x});
  EXPECT_GT(Generated(), before);
  const Tensor wide = Here(x).cast(f64), m = max(wide, {1}, true), a = sum(wide, {1}, true) / 70000.0;
  ExpectWithin(got[0], (wide - a) * m, abs(wide * m) + 1, 1e-5, "difference");
  ExpectWithin(got[1], m, m, 0, "largest");
  ExpectWithin(got[2], a, a * 0 + 1, 1e-6, "mean");
}

// Elements whose negatives are minus infinity have no weight; a NaN makes its row NaN, and no
// other.
TEST_F(CudaRows, SoftmaxOfWhatIsNoNumber) {
  OptionScope scope({{"specialise_after", "0"}});
  for (const int64_t columns : {int64_t{1024}, int64_t{65536}}) {
    const std::string t = "tensor<M x N x f32>";
    const Program p = Parse("func @f(%x: " + t + ") -> " + t + " {\n  %z = neg %x : " + t +
                            "\n  %y = softmax %z : " + t + "\n  return %y\n}\n");
    constexpr int64_t kRows = 64;
    std::vector<float> values(static_cast<size_t>(kRows * columns), -2.0f);
    const auto at = [&](int64_t r, int64_t c) { return static_cast<size_t>(r * columns + c); };
    for (int64_t c = 0; c < columns / 2; ++c) values[at(3, c)] = std::numeric_limits<float>::infinity();
    values[at(5, 17)] = std::numeric_limits<float>::quiet_NaN();
    values[at(7, 1)] = -200.0f;
    values[at(9, columns - 1)] = -std::numeric_limits<float>::infinity();
    const std::vector<float> y = Hot(p, {Tensor::from<float>(values, {kRows, columns})})[0].to_vector<float>();
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const float got = y[at(r, c)], even = 1.0f / static_cast<float>(columns);
        if (r == 5 || r == 9) {
          ASSERT_TRUE(std::isnan(got) || (r == 9 && c < columns - 1 && got == 0)) << r << " " << c << " " << got;
        } else {
          const float want = r == 3 ? (c < columns / 2 ? 0.0f : 2 * even) : r == 7 ? (c == 1 ? 1.0f : 0.0f) : even;
          ASSERT_NEAR(got, want, 1e-6f * want) << r << " " << c;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
