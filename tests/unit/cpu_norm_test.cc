#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/cpu_rows_testing.h"

namespace tessera::rows_testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");
constexpr DType kFloats[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2};

double NarrowBound(DType t, double want) {
  return IsNarrowFloat(t) ? Epsilon(t) * std::abs(want) + SmallestStep(t) : 0;
}

void CheckSoftmax(const Tensor& x, int axis, bool log) {
  Outcome o = RunKernel(log ? ir::Op::k_log_softmax : ir::Op::k_softmax, log ? cpu::k_log_softmax : cpu::k_softmax,
                        {&x}, {{"axis", int64_t{axis}}});
  ASSERT_TRUE(o.status.ok()) << o.status;
  const DType t = x.v.dtype;
  const double eps = Epsilon(cpu::ComputeDType(t));
  for (const auto& group : Groups(x.v, 1u << axis)) {
    double max = -kInf, sum = 0;
    for (int64_t i : group) max = std::max(max, x.Get(i));
    for (int64_t i : group) sum += std::exp(x.Get(i) - max);
    for (int64_t i : group) {
      const double want = log ? x.Get(i) - max - std::log(sum) : std::exp(x.Get(i) - max) / sum;
      const double terms = log ? std::abs(x.Get(i)) + std::abs(max) + std::log(sum) : want;
      const double rounding = t == DType::f64 ? 1e-16 * static_cast<double>(group.size()) * terms : 0;  // of this sum
      ExpectNear(o.out[0].Get(i), want, 8 * eps * terms + rounding + NarrowBound(t, want), t,
                 absl::StrCat("softmax ", ToString(x.v), " axis ", axis, " at ", i));
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(CpuNorm, SoftmaxEveryAxisAndLayout) {
  for (const Dims& dims : {Dims{1}, Dims{7}, Dims{17}, Dims{1000}, Dims{4097}, Dims{5, 17}, Dims{17, 40},
                           Dims{3, 9, 33}, Dims{2, 3, 4, 300}}) {
    for (Layout layout : kLayouts) {
      for (DType t : {DType::f32, DType::f64, DType::bf16}) {
        Tensor x(t, dims, layout);
        x.Random(3, -5, 5);
        for (int axis = 0; axis < x.v.rank; ++axis) {
          for (bool log : {false, true}) CheckSoftmax(x, axis, log);
          ASSERT_FALSE(HasFailure()) << "layout " << static_cast<int>(layout);
        }
      }
    }
  }
}

TEST(CpuNorm, SoftmaxEveryDType) {
  for (DType t : kFloats) {
    for (const Dims& dims : {Dims{6, 40}, Dims{40, 6}, Dims{3, 5, 20}}) {
      Tensor x(t, dims);
      x.Random(4, -3, 3);
      for (int axis = 0; axis < x.v.rank; ++axis)
        for (bool log : {false, true}) CheckSoftmax(x, axis, log);
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST(CpuNorm, SoftmaxOfLongRows) {
  for (DType t : {DType::f32, DType::f64, DType::f16}) {
    for (Layout layout : {Layout::contiguous, Layout::transposed}) {
      Tensor x(t, {2, 270001}, layout);
      x.Random(5, -3, 3);
      for (bool log : {false, true}) CheckSoftmax(x, 1, log);
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST(CpuNorm, SoftmaxOfSpecialValues) {
  for (DType t : {DType::f32, DType::f64, DType::f16}) {
    for (const Dims& dims : {Dims{40, 1}, Dims{40, 20}}) {
      Tensor x(t, dims);
      const auto run = [&](double first, double rest) {
        x.Fill([&](int64_t i) { return i < dims[1] ? first : rest; });
        return RunKernel(ir::Op::k_softmax, cpu::k_softmax, {&x}, {{"axis", int64_t{0}}});
      };
      Outcome o = run(-kInf, -kInf);
      for (int64_t i = 0; i < x.size(); ++i) ASSERT_TRUE(std::isnan(o.out[0].Get(i)));
      o = run(kInf, 0);
      for (int64_t i = 0; i < x.size(); ++i) ASSERT_TRUE(std::isnan(o.out[0].Get(i)));
      o = run(kNaN, 0);
      for (int64_t i = 0; i < x.size(); ++i) ASSERT_TRUE(std::isnan(o.out[0].Get(i)));
      o = run(0, -kInf);
      EXPECT_EQ(o.out[0].Get(0), 1);
      EXPECT_EQ(o.out[0].Get(dims[1]), 0);
      o = run(60000, 60000);  // exp alone would overflow
      EXPECT_NEAR(o.out[0].Get(0), 1.0 / 40, 1e-4);
    }
  }
  Tensor none(DType::f32, {3, 0});
  EXPECT_TRUE(RunKernel(ir::Op::k_softmax, cpu::k_softmax, {&none}).status.ok());
  Tensor scalar(DType::f32, {});
  EXPECT_FALSE(RunKernel(ir::Op::k_softmax, cpu::k_softmax, {&scalar}).status.ok());
}

void CheckNorm(const Tensor& x, int64_t dims, const Tensor* weight, const Tensor* bias, bool rms, double eps) {
  std::vector<const Tensor*> in = {&x, weight};
  if (!rms) in.push_back(bias);
  Outcome o = RunKernel(rms ? ir::Op::k_rms_norm : ir::Op::k_layer_norm, rms ? cpu::k_rms_norm : cpu::k_layer_norm, in,
                        {{"dims", dims}, {"eps", eps}});
  ASSERT_TRUE(o.status.ok()) << o.status;
  const DType t = x.v.dtype;
  int64_t n = 1;
  for (int64_t d = 0; d < dims; ++d) n *= x.v.dims[x.v.rank - 1 - d];
  for (int64_t row = 0; row < x.size() / n; ++row) {
    double mean = 0, var = 0;
    for (int64_t i = 0; i < n && !rms; ++i) mean += x.Get(row * n + i) / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) var += std::pow(x.Get(row * n + i) - mean, 2) / static_cast<double>(n);
    const double scale = 1 / std::sqrt(var + eps);
    for (int64_t i = 0; i < n; ++i) {
      const double w = weight ? weight->Get(i) : 1, b = bias && !rms ? bias->Get(i) : 0, v = x.Get(row * n + i);
      const double want = (v - mean) * scale * w + b;
      const double terms = (std::abs(v) + std::abs(mean)) * scale * std::abs(w) + std::abs(b) + std::abs(want);
      ExpectNear(o.out[0].Get(row * n + i), want,
                 8 * Epsilon(cpu::ComputeDType(t)) * terms +
                     (t == DType::f64 ? 1e-16 * static_cast<double>(n) * terms : 0) + NarrowBound(t, want),
                 t, absl::StrCat("norm ", ToString(x.v), " dims ", dims, " at ", row * n + i));
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(CpuNorm, LayerAndRmsNorm) {
  for (const Dims& dims :
       {Dims{1}, Dims{7}, Dims{17}, Dims{1000}, Dims{4097}, Dims{6, 33}, Dims{3, 5, 130}, Dims{2, 3, 4, 5}}) {
    for (Layout layout : kLayouts) {
      for (DType t : {DType::f32, DType::f64, DType::f16}) {
        Tensor x(t, dims, layout);
        x.Random(8, -2, 4);
        for (int64_t d = 1; d <= x.v.rank; ++d) {
          const Dims tail(dims.end() - d, dims.end());
          Tensor weight(t, tail, layout), bias(t, tail, Layout::flipped);
          weight.Random(9);
          bias.Random(10);
          for (bool rms : {false, true}) {
            CheckNorm(x, d, nullptr, nullptr, rms, 1e-5);
            CheckNorm(x, d, &weight, nullptr, rms, 1e-5);
            CheckNorm(x, d, &weight, &bias, rms, 1e-3);
            if (!rms) CheckNorm(x, d, nullptr, &bias, rms, 1e-5);
          }
          ASSERT_FALSE(HasFailure()) << "layout " << static_cast<int>(layout);
        }
      }
    }
  }
  for (DType t : kFloats) {
    Tensor x(t, {4, 70}), weight(t, {70}), bias(t, {70});
    x.Random(1), weight.Random(2), bias.Random(3);
    CheckNorm(x, 1, &weight, &bias, false, 1e-5);
    CheckNorm(x, 1, &weight, nullptr, true, 1e-5);
  }
}

void CheckNormGrad(const Tensor& x, const Tensor& g, int64_t dims, const Tensor* weight, bool rms, double eps) {
  Outcome o =
      RunKernel(rms ? ir::Op::k_rms_norm_grad : ir::Op::k_layer_norm_grad,
                rms ? cpu::k_rms_norm_grad : cpu::k_layer_norm_grad, {&x, &g, weight}, {{"dims", dims}, {"eps", eps}});
  ASSERT_TRUE(o.status.ok()) << o.status;
  ASSERT_EQ(o.out.size(), rms ? 2u : 3u);
  const DType t = x.v.dtype;
  int64_t n = 1;
  for (int64_t d = 0; d < dims; ++d) n *= x.v.dims[x.v.rank - 1 - d];
  const double count = static_cast<double>(n);
  // The sums here, too, are rounded.
  const int64_t rows = n == 0 ? 0 : x.size() / n;
  const double rounding = t == DType::f64 ? 1e-16 * (count + static_cast<double>(rows)) : 0;
  const double unit = 16 * Epsilon(cpu::ComputeDType(t)) + rounding;
  std::vector<double> dw(n), db(n), dw_terms(n), db_terms(n);
  for (int64_t row = 0; row < rows; ++row) {
    const auto at = [&](int64_t i) { return x.Get(row * n + i); };
    double mean = 0, size = 0, var = 0, less = 0, along = 0, h_size = 0, along_size = 0;
    for (int64_t i = 0; i < n; ++i) size += std::abs(at(i)) / count;
    for (int64_t i = 0; i < n && !rms; ++i) mean += at(i) / count;
    for (int64_t i = 0; i < n; ++i) var += std::pow(at(i) - mean, 2) / count;
    const double scale = 1 / std::sqrt(var + eps);
    const auto normed = [&](int64_t i) { return (at(i) - mean) * scale; };
    const auto around = [&](int64_t i) { return (std::abs(at(i)) + size + std::abs(at(i) - mean)) * scale; };
    const auto h = [&](int64_t i) { return g.Get(row * n + i) * (weight ? weight->Get(i) : 1); };
    for (int64_t i = 0; i < n; ++i) {
      less += rms ? 0 : h(i) / count;
      h_size += std::abs(h(i)) / count;
      along += h(i) * normed(i) / count;
      along_size += std::abs(h(i)) * around(i) / count;
    }
    for (int64_t i = 0; i < n; ++i) {
      const double v = g.Get(row * n + i), want = (h(i) - less - normed(i) * along) * scale;
      const double terms = (std::abs(h(i)) + h_size + around(i) * along_size) * scale;
      ExpectNear(o.out[0].Get(row * n + i), want, unit * terms + NarrowBound(t, want), t,
                 absl::StrCat("dx ", ToString(x.v), " dims ", dims, " at ", row * n + i));
      if (::testing::Test::HasFailure()) return;
      dw[i] += v * normed(i), dw_terms[i] += std::abs(v) * around(i);
      db[i] += v, db_terms[i] += std::abs(v);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    ExpectNear(o.out[1].Get(i), dw[i], unit * dw_terms[i] + NarrowBound(t, dw[i]), t, absl::StrCat("dweight at ", i));
    if (!rms) ExpectNear(o.out[2].Get(i), db[i], unit * db_terms[i] + NarrowBound(t, db[i]), t, "dbias");
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(CpuNorm, GradientsOfLayerAndRmsNorm) {
  for (const Dims& dims : {Dims{7}, Dims{6, 33}, Dims{3, 5, 130}, Dims{2, 3, 4, 5}, Dims{300, 70}, Dims{0, 4}}) {
    for (Layout layout : kLayouts) {
      for (DType t : {DType::f32, DType::f64, DType::bf16}) {
        Tensor x(t, dims, layout), g(t, dims, layout == Layout::contiguous ? layout : Layout::flipped);
        x.Random(8, -2, 4);
        g.Random(9);
        for (int64_t d = 1; d <= x.v.rank; ++d) {
          const Dims tail(dims.end() - d, dims.end());
          Tensor weight(t, tail, layout);
          weight.Random(10);
          for (bool rms : {false, true}) {
            CheckNormGrad(x, g, d, nullptr, rms, 1e-5);
            CheckNormGrad(x, g, d, &weight, rms, 1e-3);
          }
          ASSERT_FALSE(HasFailure()) << "layout " << static_cast<int>(layout);
        }
      }
    }
  }
  for (DType t : kFloats) {
    Tensor x(t, {4, 70}), g(t, {4, 70}), weight(t, {70});
    x.Random(1), g.Random(2), weight.Random(3);
    CheckNormGrad(x, g, 1, &weight, false, 1e-5);
    CheckNormGrad(x, g, 1, &weight, true, 1e-5);
  }
  Tensor x(DType::f32, {3, 90001}), g(DType::f32, {3, 90001});
  CheckNormGrad(x.Random(1), g.Random(2), 1, nullptr, false, 1e-5);
  Tensor wrong(DType::f32, {90001});
  const absl::Status s = RunKernel(ir::Op::k_layer_norm_grad, cpu::k_layer_norm_grad, {&x, &wrong, nullptr}).status;
  EXPECT_NE(s.message().find("g is f32[90001] but must have dims [3,90001], all of x f32[3,90001]"),
            absl::string_view::npos)
      << s;
}

TEST(CpuNorm, LongRows) {
  for (DType t : {DType::f32, DType::bf16}) {
    Tensor x(t, {2, 3, 90001}), weight(t, {3, 90001}), bias(t, {3, 90001});
    x.Random(1, -1, 3), weight.Random(2), bias.Random(3);
    CheckNorm(x, 2, &weight, &bias, false, 1e-5);
    CheckNorm(x, 2, &weight, nullptr, true, 1e-5);
  }
}

TEST(CpuNorm, ShapeErrors) {
  Tensor x(DType::f32, {4, 6}), wrong(DType::f32, {4}), scalar(DType::f32, {});
  absl::Status s = RunKernel(ir::Op::k_layer_norm, cpu::k_layer_norm, {&x, &wrong, nullptr}).status;
  EXPECT_NE(s.message().find("weight is f32[4] but must have dims [6], the last of x f32[4,6]"),
            absl::string_view::npos)
      << s;
  s = RunKernel(ir::Op::k_layer_norm, cpu::k_layer_norm, {&x, nullptr, nullptr}, {{"dims", int64_t{3}}}).status;
  EXPECT_NE(s.message().find("dims = 3 for x f32[4,6]; use 1 to 2"), absl::string_view::npos) << s;
  EXPECT_FALSE(RunKernel(ir::Op::k_rms_norm, cpu::k_rms_norm, {&scalar, nullptr}).status.ok());
  Tensor stats(DType::f32, {6});
  EXPECT_TRUE(RunKernel(ir::Op::k_batch_norm, cpu::k_batch_norm, {&x, &stats, &stats, nullptr, nullptr}).status.ok());
  s = RunKernel(ir::Op::k_batch_norm, cpu::k_batch_norm, {&x, &wrong, &stats, nullptr, nullptr}).status;
  EXPECT_NE(s.message().find("mean is f32[4] but must have dims [6], that of axis 1"), absl::string_view::npos) << s;
}

TEST(CpuNorm, BatchNorm) {
  for (const Dims& dims : {Dims{5, 3}, Dims{2, 3, 5}, Dims{2, 17, 9, 9}, Dims{40, 70, 11}, Dims{0, 3, 2}}) {
    for (Layout layout : kLayouts) {
      for (DType t : {DType::f32, DType::f64, DType::f16, DType::f8e5m2}) {
        Tensor x(t, dims, layout);
        x.Random(21);
        for (int axis = 0; axis < x.v.rank; ++axis) {
          if (dims[0] == 0 && axis == 0) continue;
          const int64_t channels = dims[static_cast<size_t>(axis)];
          Tensor mean(t, {channels}), var(t, {channels}, Layout::spaced), weight(t, {channels}), bias(t, {channels});
          mean.Random(1), var.Random(2, 0.5, 2), weight.Random(3), bias.Random(4);
          for (int mode = 0; mode < 4; ++mode) {
            const Tensor* w = mode & 1 ? &weight : nullptr;
            const Tensor* b = mode & 2 ? &bias : nullptr;
            Outcome o =
                RunKernel(ir::Op::k_batch_norm, cpu::k_batch_norm, {&x, &mean, &var, w, b}, {{"axis", int64_t{axis}}});
            ASSERT_TRUE(o.status.ok()) << o.status;
            int64_t inner = 1;
            for (int d = axis + 1; d < x.v.rank; ++d) inner *= x.v.dims[d];
            for (int64_t i = 0; i < x.size(); ++i) {
              const int64_t c = i / inner % channels;
              const double scale = (w ? w->Get(c) : 1) / std::sqrt(var.Get(c) + 1e-5), shift = b ? b->Get(c) : 0;
              const double want = (x.Get(i) - mean.Get(c)) * scale + shift;
              const double terms = (std::abs(x.Get(i)) + std::abs(mean.Get(c))) * std::abs(scale) + std::abs(shift);
              ExpectNear(o.out[0].Get(i), want, 8 * Epsilon(cpu::ComputeDType(t)) * terms + NarrowBound(t, want), t,
                         absl::StrCat(ToString(x.v), " axis ", axis, " at ", i));
              if (HasFailure()) return;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::rows_testing
