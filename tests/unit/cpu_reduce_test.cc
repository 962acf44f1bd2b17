#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/unit/cpu_rows_testing.h"

namespace tessera::rows_testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

constexpr DType kAll[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2,
                          DType::i64, DType::i32, DType::i8,  DType::u8,   DType::boolean};
constexpr DType kFloats[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2};

/// A sum in twice the precision of double.
struct Precise {
  double sum = 0, lost = 0;
  void Add(double x) {
    const double t = sum + x, z = t - sum;
    lost += (sum - (t - z)) + (x - z);
    sum = t;
  }
  double value() const { return sum + lost; }
};

/// A result and the sum of absolute terms that the error bound is relative to.
using Expected = std::pair<double, double>;

struct OpCase {
  ir::Op op;
  interp::Kernel kernel;
  Expected (*reference)(const std::vector<double>& x);
  bool floats_only = false;
};

Expected SumRef(const std::vector<double>& x) {
  Precise s;
  double a = 0;
  for (double v : x) s.Add(v), a += std::abs(v);
  return {s.value(), a};
}
Expected MeanRef(const std::vector<double>& x) {
  const auto [s, a] = SumRef(x);
  const double n = static_cast<double>(x.size());
  return {s / n, a / n};
}
Expected VarRef(const std::vector<double>& x) {
  const double mean = MeanRef(x).first;
  Precise s;
  for (double v : x) s.Add((v - mean) * (v - mean));
  const double var = s.value() / static_cast<double>(x.size());
  return {var, var + 0x1p-52 * mean * mean};  // the reference's own mean is rounded
}
Expected MaxRef(const std::vector<double>& x) { return {*std::max_element(x.begin(), x.end()), 0}; }
Expected MinRef(const std::vector<double>& x) { return {*std::min_element(x.begin(), x.end()), 0}; }
Expected AnyRef(const std::vector<double>& x) {
  return {std::any_of(x.begin(), x.end(), [](double v) { return v != 0; }), 0};
}
Expected AllRef(const std::vector<double>& x) {
  return {std::all_of(x.begin(), x.end(), [](double v) { return v != 0; }), 0};
}
Expected LseRef(const std::vector<double>& x) {
  if (x.empty()) return {-kInf, 0};
  const double m = *std::max_element(x.begin(), x.end());
  Precise s;
  for (double v : x) s.Add(std::exp(v - m));
  const double log = std::log(s.value());
  return {m + log, 1 + std::abs(m) + std::abs(log)};
}

const OpCase kCases[] = {
    {ir::Op::k_sum, cpu::k_sum, SumRef},       {ir::Op::k_mean, cpu::k_mean, MeanRef, true},
    {ir::Op::k_var, cpu::k_var, VarRef, true}, {ir::Op::k_max, cpu::k_max, MaxRef},
    {ir::Op::k_min, cpu::k_min, MinRef},       {ir::Op::k_any, cpu::k_any, AnyRef},
    {ir::Op::k_all, cpu::k_all, AllRef},       {ir::Op::k_logsumexp, cpu::k_logsumexp, LseRef, true},
};

void CheckReduce(const OpCase& c, const Tensor& x, uint32_t axes, const std::string& where) {
  const ir::Ints list = AxesOf(axes, x.v.rank);
  Outcome o = RunKernel(c.op, c.kernel, {&x}, {{"axes", list}});
  ASSERT_TRUE(o.status.ok()) << where << ": " << o.status;
  const auto groups = Groups(x.v, list.empty() ? (1u << x.v.rank) - 1 : axes);
  ASSERT_EQ(o.out[0].size(), static_cast<int64_t>(groups.size())) << where;
  const DType t = o.out[0].v.dtype;
  const double eps = Epsilon(IsNarrowFloat(t) ? DType::f32 : t);
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<double> values;
    for (int64_t i : groups[g]) values.push_back(x.Get(i));
    const auto [want, terms] = c.reference(values);
    // Narrow results round once more.
    double bound = 8 * eps * terms;
    if (IsNarrowFloat(t)) bound += Epsilon(t) * std::abs(want) + SmallestStep(t);
    ExpectNear(o.out[0].Get(static_cast<int64_t>(g)), want, bound, t, absl::StrCat(where, " output ", g));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(CpuReduce, EveryOpLayoutAndAxes) {
  const Dims shapes[] = {{1}, {7}, {15}, {16}, {17}, {1000}, {4097}, {5, 17}, {17, 40}, {3, 9, 33}, {4, 3, 2, 19}};
  for (const OpCase& c : kCases) {
    for (const Dims& dims : shapes) {
      for (Layout layout : kLayouts) {
        for (DType t : {DType::f32, DType::f64, DType::bf16, DType::i32}) {
          if (c.floats_only && !IsFloat(t)) continue;
          Tensor x(t, dims, layout);
          x.Random(static_cast<uint32_t>(dims[0]), -3, 3);
          for (uint32_t axes = 1; axes < 1u << dims.size(); ++axes)
            CheckReduce(c, x, axes,
                        absl::StrCat(std::string(ir::Info(c.op).name), " ", ToString(x.v), " layout ",
                                     static_cast<int>(layout), " axes ", axes));
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
}

TEST(CpuReduce, EveryDType) {
  for (const OpCase& c : kCases) {
    for (DType t : kAll) {
      if (c.floats_only && !IsFloat(t)) continue;
      for (const Dims& dims : {Dims{300}, Dims{40, 300}, Dims{300, 40}, Dims{9, 31, 20}}) {
        Tensor x(t, dims);
        x.Random(5, -3, 3);
        for (uint32_t axes = 1; axes < 1u << dims.size(); ++axes)
          CheckReduce(c, x, axes, absl::StrCat(std::string(ir::Info(c.op).name), " ", ToString(x.v), " axes ", axes));
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

TEST(CpuReduce, LargeSplitOverThreads) {
  for (const OpCase& c : kCases) {
    if (c.op == ir::Op::k_min || c.op == ir::Op::k_any || c.op == ir::Op::k_mean) continue;
    for (DType t : {DType::f32, DType::f64, DType::f16}) {
      for (const Dims& dims : {Dims{140001}, Dims{2, 70003}, Dims{30001, 5}, Dims{1200, 130}}) {
        Tensor x(t, dims);
        x.Random(7, -1, 1);
        for (uint32_t axes = 1; axes < 1u << dims.size(); ++axes)
          CheckReduce(c, x, axes, absl::StrCat(std::string(ir::Info(c.op).name), " ", ToString(x.v), " axes ", axes));
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

TEST(CpuReduce, SumErrorStaysBoundedForConstantRows) {
  // 0.1 repeated makes every rounding go the same way.
  for (DType t : {DType::f32, DType::f64}) {
    for (const Dims& dims : {Dims{2000000}, Dims{500000, 3}}) {
      Tensor x(t, dims);
      x.Fill([](int64_t) { return 0.1; });
      const double value = x.Get(0), n = static_cast<double>(dims[0]);
      Outcome o = RunKernel(ir::Op::k_sum, cpu::k_sum, {&x}, {{"axes", ir::Ints{0}}});
      ASSERT_TRUE(o.status.ok());
      EXPECT_LE(std::abs(o.out[0].Get(0) - value * n), 2 * Epsilon(t) * value * n);
    }
  }
}

TEST(CpuReduce, VarianceOfLargeOffset) {
  for (DType t : {DType::f32, DType::f64}) {
    for (uint32_t axes : {1u, 2u}) {
      Tensor x(t, {axes == 1 ? 5000 : 3, axes == 1 ? 3 : 5000});
      x.Fill([](int64_t i) { return 1e6 + static_cast<double>(i % 7) / 4; });
      CheckReduce({ir::Op::k_var, cpu::k_var, VarRef}, x, axes, "var");
    }
  }
  Tensor x(DType::f32, {4});
  x.Fill([](int64_t i) { return static_cast<double>(i); });
  Outcome o = RunKernel(ir::Op::k_var, cpu::k_var, {&x}, {{"correction", 1.0}});
  EXPECT_FLOAT_EQ(static_cast<float>(o.out[0].Get(0)), 5.0f / 3);
  o = RunKernel(ir::Op::k_var, cpu::k_var, {&x}, {{"correction", 4.0}});
  EXPECT_EQ(o.out[0].Get(0), kInf);
  Tensor one(DType::f32, {1});
  one.Set(0, 2);
  o = RunKernel(ir::Op::k_var, cpu::k_var, {&one}, {{"correction", 1.0}});
  EXPECT_TRUE(std::isnan(o.out[0].Get(0)));
}

TEST(CpuReduce, Products) {
  for (DType t : kFloats) {
    for (const Dims& dims : {Dims{33, 20}, Dims{20, 33}}) {
      Tensor x(t, dims);
      x.Random(3, 0.5, 1.5);
      for (uint32_t axes : {1u, 2u, 3u}) {
        Outcome o = RunKernel(ir::Op::k_prod, cpu::k_prod, {&x}, {{"axes", AxesOf(axes, 2)}});
        ASSERT_TRUE(o.status.ok());
        const auto groups = Groups(x.v, axes);
        for (size_t g = 0; g < groups.size(); ++g) {
          long double want = 1;
          for (int64_t i : groups[g]) want *= x.Get(i);
          const double w = static_cast<double>(want);
          ExpectNear(o.out[0].Get(static_cast<int64_t>(g)), w,
                     2 * Epsilon(t) * std::abs(w) + (SizeOf(t) < 4 ? 1e-3 : 0), t,
                     absl::StrCat("prod ", ToString(x.v)));
        }
      }
    }
  }
  Tensor i(DType::i32, {3});
  i.SetInt(0, INT32_MAX), i.SetInt(1, INT32_MAX), i.SetInt(2, 4);
  Outcome o = RunKernel(ir::Op::k_prod, cpu::k_prod, {&i});
  EXPECT_EQ(o.out[0].v.dtype, DType::i64);
  EXPECT_EQ(o.out[0].GetInt(0), static_cast<int64_t>(uint64_t{INT32_MAX} * uint64_t{INT32_MAX} * 4u));
  // f64: error does not grow with the number of factors.
  Tensor many(DType::f64, {100000});
  many.Fill([](int64_t j) { return j % 2 ? 1.1 : 1 / 1.1; });
  long double want = 1;
  for (int64_t j = 0; j < many.size(); ++j) want *= many.Get(j);
  o = RunKernel(ir::Op::k_prod, cpu::k_prod, {&many});
  EXPECT_NEAR(o.out[0].Get(0), static_cast<double>(want), 1e-13);
}

TEST(CpuReduce, IntegersAtTheirLimits) {
  Tensor big(DType::i64, {3});
  big.SetInt(0, INT64_MAX), big.SetInt(1, 1), big.SetInt(2, 5);
  EXPECT_EQ(RunKernel(ir::Op::k_sum, cpu::k_sum, {&big}).out[0].GetInt(0), INT64_MIN + 5);  // wraps
  big.SetInt(1, INT64_MIN);
  EXPECT_EQ(RunKernel(ir::Op::k_max, cpu::k_max, {&big}).out[0].GetInt(0), INT64_MAX);
  EXPECT_EQ(RunKernel(ir::Op::k_min, cpu::k_min, {&big}).out[0].GetInt(0), INT64_MIN);
  for (const Dims& dims : {Dims{10000}, Dims{10000, 17}}) {
    Tensor small(DType::i8, dims);
    for (int64_t i = 0; i < small.size(); ++i) small.SetInt(i, -128);
    EXPECT_EQ(RunKernel(ir::Op::k_sum, cpu::k_sum, {&small}, {{"axes", ir::Ints{0}}}).out[0].GetInt(0), -1280000);
    EXPECT_EQ(RunKernel(ir::Op::k_max, cpu::k_max, {&small}).out[0].GetInt(0), -128);
    Tensor u(DType::u8, dims);
    for (int64_t i = 0; i < u.size(); ++i) u.SetInt(i, 255);
    EXPECT_EQ(RunKernel(ir::Op::k_sum, cpu::k_sum, {&u}, {{"axes", ir::Ints{0}}}).out[0].GetInt(0), 2550000);
    EXPECT_EQ(RunKernel(ir::Op::k_min, cpu::k_min, {&u}).out[0].GetInt(0), 255);
  }
  Tensor b(DType::boolean, {100});
  for (int64_t i = 0; i < 100; ++i) b.SetInt(i, i % 3 == 0);
  Outcome o = RunKernel(ir::Op::k_sum, cpu::k_sum, {&b});
  EXPECT_EQ(o.out[0].v.dtype, DType::i64);
  EXPECT_EQ(o.out[0].GetInt(0), 34);
}

TEST(CpuReduce, NothingToReduce) {
  for (const Dims& dims : {Dims{0}, Dims{3, 0}, Dims{0, 4}, Dims{2, 0, 3}}) {
    for (DType t : kFloats) {
      Tensor x(t, dims);
      const int axis = static_cast<int>(std::find(dims.begin(), dims.end(), 0) - dims.begin());
      const NamedAttrs attrs = {{"axes", ir::Ints{axis}}};
      const auto expect = [&](ir::Op op, interp::Kernel k, double want) {
        Outcome o = RunKernel(op, k, {&x}, attrs);
        ASSERT_TRUE(o.status.ok()) << o.status;
        for (int64_t i = 0; i < o.out[0].size(); ++i) ExpectNear(o.out[0].Get(i), want, 0, t, "empty");
      };
      expect(ir::Op::k_sum, cpu::k_sum, 0);
      expect(ir::Op::k_prod, cpu::k_prod, 1);
      expect(ir::Op::k_mean, cpu::k_mean, kNaN);
      expect(ir::Op::k_var, cpu::k_var, kNaN);
      expect(ir::Op::k_any, cpu::k_any, 0);
      expect(ir::Op::k_all, cpu::k_all, 1);
      expect(ir::Op::k_logsumexp, cpu::k_logsumexp, -kInf);
    }
    Tensor i(DType::i32, dims);
    Outcome o = RunKernel(ir::Op::k_sum, cpu::k_sum, {&i}, {{"axes", ir::Ints{}}});
    EXPECT_EQ(o.out[0].GetInt(0), 0);
  }
}

TEST(CpuReduce, ExtremesOfNothing) {
  Tensor x(DType::f32, {3, 0});
  for (auto [op, kernel] : {std::pair{ir::Op::k_max, &cpu::k_max}, std::pair{ir::Op::k_min, &cpu::k_min}}) {
    const absl::Status s = RunKernel(op, kernel, {&x}, {{"axes", ir::Ints{1}}}).status;
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(s.message().find("axis 1 of f32[3,0] has dim 0"), absl::string_view::npos) << s;
    EXPECT_FALSE(RunKernel(op, kernel, {&x}).status.ok());
    // The kept dim is 0: there is no output.
    EXPECT_TRUE(RunKernel(op, kernel, {&x}, {{"axes", ir::Ints{0}}}).status.ok());
  }
  EXPECT_FALSE(RunKernel(ir::Op::k_argmax, cpu::k_argmax, {&x}, {{"axis", int64_t{1}}}).status.ok());
  EXPECT_TRUE(RunKernel(ir::Op::k_argmax, cpu::k_argmax, {&x}, {{"axis", int64_t{0}}}).status.ok());
}

// +0 is larger than -0, wherever they stand: lanes, threads and generated code meet them in other orders.
TEST(CpuReduce, ExtremesOfZeros) {
  for (DType t : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (int64_t n : {2, 7, 16, 17, 33, 5000}) {
      for (int64_t place : {int64_t{0}, n / 2, n - 1}) {
        for (int64_t cols : {1, 40}) {
          for (bool largest : {true, false}) {
            Tensor x(t, {n, cols});
            x.Fill([&](int64_t i) { return (i / cols == place) == largest ? 0.0 : -0.0; });
            Outcome o = largest ? RunKernel(ir::Op::k_max, cpu::k_max, {&x}, {{"axes", ir::Ints{0}}})
                                : RunKernel(ir::Op::k_min, cpu::k_min, {&x}, {{"axes", ir::Ints{0}}});
            for (int64_t c = 0; c < cols; ++c)
              ASSERT_EQ(std::signbit(o.out[0].Get(c)), !largest) << n << " " << place << " " << cols;
          }
        }
      }
    }
  }
}

TEST(CpuReduce, NaNAndInfinity) {
  for (DType t : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (int64_t n : {1, 7, 16, 17, 5000}) {
      for (int64_t place : {int64_t{0}, n / 2, n - 1}) {
        for (int64_t cols : {1, 40}) {
          Tensor x(t, {n, cols});
          x.Random(2);
          for (int64_t c = 0; c < cols; ++c) x.Set(place * cols + c, kNaN);
          for (auto [op, kernel] :
               {std::pair{ir::Op::k_max, &cpu::k_max}, std::pair{ir::Op::k_min, &cpu::k_min},
                std::pair{ir::Op::k_sum, &cpu::k_sum}, std::pair{ir::Op::k_mean, &cpu::k_mean},
                std::pair{ir::Op::k_var, &cpu::k_var}, std::pair{ir::Op::k_logsumexp, &cpu::k_logsumexp}}) {
            Outcome o = RunKernel(op, kernel, {&x}, {{"axes", ir::Ints{0}}});
            for (int64_t c = 0; c < cols; ++c)
              ASSERT_TRUE(std::isnan(o.out[0].Get(c))) << ir::Info(op).name.data() << n;
          }
          for (int64_t c = 0; c < cols; ++c) x.Set(place * cols + c, kInf);
          EXPECT_EQ(RunKernel(ir::Op::k_sum, cpu::k_sum, {&x}, {{"axes", ir::Ints{0}}}).out[0].Get(0), kInf);
          EXPECT_EQ(RunKernel(ir::Op::k_max, cpu::k_max, {&x}, {{"axes", ir::Ints{0}}}).out[0].Get(0), kInf);
          EXPECT_EQ(RunKernel(ir::Op::k_logsumexp, cpu::k_logsumexp, {&x}, {{"axes", ir::Ints{0}}}).out[0].Get(0),
                    kInf);
        }
      }
    }
    Tensor low(t, {50});
    low.Fill([](int64_t) { return -kInf; });
    EXPECT_EQ(RunKernel(ir::Op::k_max, cpu::k_max, {&low}).out[0].Get(0), -kInf);
    EXPECT_EQ(RunKernel(ir::Op::k_logsumexp, cpu::k_logsumexp, {&low}).out[0].Get(0), -kInf);
  }
  Tensor big(DType::f32, {3});
  big.Fill([](int64_t) { return 1000.0; });
  EXPECT_NEAR(RunKernel(ir::Op::k_logsumexp, cpu::k_logsumexp, {&big}).out[0].Get(0), 1000 + std::log(3.0), 1e-4);
}

TEST(CpuReduce, ArgExtremes) {
  for (DType t : kAll) {
    for (const Dims& dims :
         {Dims{1}, Dims{17}, Dims{1000}, Dims{4097}, Dims{200000}, Dims{7, 33}, Dims{33, 40}, Dims{5, 6, 7}}) {
      for (Layout layout : kLayouts) {
        if (layout != Layout::contiguous && dims[0] > 1000) continue;
        Tensor x(t, dims, layout);
        x.Random(11, -3, 3);
        for (int axis = 0; axis < static_cast<int>(dims.size()); ++axis) {
          for (bool min : {false, true}) {
            Outcome o = RunKernel(min ? ir::Op::k_argmin : ir::Op::k_argmax, min ? cpu::k_argmin : cpu::k_argmax, {&x},
                                  {{"axis", int64_t{axis}}});
            ASSERT_TRUE(o.status.ok());
            const auto groups = Groups(x.v, 1u << axis);
            for (size_t g = 0; g < groups.size(); ++g) {
              size_t best = 0;
              for (size_t i = 1; i < groups[g].size(); ++i) {
                const double v = x.Get(groups[g][i]), b = x.Get(groups[g][best]);
                if (min ? v < b : v > b) best = i;
              }
              ASSERT_EQ(o.out[0].GetInt(static_cast<int64_t>(g)), static_cast<int64_t>(best))
                  << ToString(x.v) << " axis " << axis << " layout " << static_cast<int>(layout);
            }
          }
        }
      }
    }
  }
}

TEST(CpuReduce, ArgExtremesOfNaNAndInfinity) {
  for (DType t : {DType::f32, DType::f64, DType::f16}) {
    for (const Dims& dims : {Dims{5000, 1}, Dims{5000, 30}}) {
      Tensor x(t, dims);
      x.Fill([](int64_t) { return -kInf; });
      const NamedAttrs axis = {{"axis", int64_t{0}}};
      EXPECT_EQ(RunKernel(ir::Op::k_argmax, cpu::k_argmax, {&x}, axis).out[0].GetInt(0), 0);
      x.Random(4);
      x.Set(4500 * dims[1], kNaN);
      x.Set(4600 * dims[1], kNaN);
      x.Set(1000 * dims[1], kInf);
      EXPECT_EQ(RunKernel(ir::Op::k_argmax, cpu::k_argmax, {&x}, axis).out[0].GetInt(0), 4500);
      EXPECT_EQ(RunKernel(ir::Op::k_argmin, cpu::k_argmin, {&x}, axis).out[0].GetInt(0), 4500);
    }
  }
}

TEST(CpuReduce, CumSum) {
  for (DType t : kAll) {
    for (const Dims& dims :
         {Dims{1}, Dims{17}, Dims{4097}, Dims{300000}, Dims{5, 40}, Dims{40, 5}, Dims{3, 50, 7}, Dims{4, 3, 700}}) {
      for (Layout layout : kLayouts) {
        if (layout != Layout::contiguous && dims[0] > 4000) continue;
        Tensor x(t, dims, layout);
        x.Random(13, -2, IsNarrowFloat(t) ? 2 : 3);
        for (int axis = 0; axis < static_cast<int>(dims.size()); ++axis) {
          for (int mode = 0; mode < 4; ++mode) {
            const bool exclusive = mode & 1, reverse = mode & 2;
            Outcome o = RunKernel(ir::Op::k_cumsum, cpu::k_cumsum, {&x},
                                  {{"axis", int64_t{axis}}, {"exclusive", exclusive}, {"reverse", reverse}});
            ASSERT_TRUE(o.status.ok());
            ASSERT_EQ(o.out[0].v.dtype, IsFloat(t) ? t : DType::i64);
            for (auto group : Groups(x.v, 1u << axis)) {
              if (reverse) std::reverse(group.begin(), group.end());
              Precise s;
              double a = 0;
              for (int64_t i : group) {
                const double before = s.value();
                s.Add(x.Get(i));
                a += std::abs(x.Get(i));
                const double want = exclusive ? before : s.value();
                const double bound = a * Epsilon(cpu::ComputeDType(t)) + Epsilon(t) * std::abs(want) + SmallestStep(t);
                if (std::abs(o.out[0].Get(i) - want) <= bound) continue;
                ExpectNear(o.out[0].Get(i), want, bound, t,
                           absl::StrCat(ToString(x.v), " axis ", axis, " mode ", mode, " at ", i));
                if (HasFailure()) return;
              }
            }
          }
        }
      }
    }
  }
  Tensor none(DType::f32, {0, 3});
  EXPECT_TRUE(RunKernel(ir::Op::k_cumsum, cpu::k_cumsum, {&none}, {{"axis", int64_t{0}}}).status.ok());
}

TEST(CpuReduce, KeepDimsAndScalars) {
  Tensor x(DType::f32, {2, 3, 4});
  x.Random(1);
  Outcome o = RunKernel(ir::Op::k_sum, cpu::k_sum, {&x}, {{"axes", ir::Ints{-1, 0}}, {"keepdims", true}});
  EXPECT_EQ(ToString(o.out[0].v), "f32[1,3,1]");
  Tensor s(DType::f32, {});
  s.Set(0, 5);
  EXPECT_EQ(RunKernel(ir::Op::k_sum, cpu::k_sum, {&s}).out[0].Get(0), 5);
  EXPECT_EQ(RunKernel(ir::Op::k_max, cpu::k_max, {&s}).out[0].Get(0), 5);
  EXPECT_EQ(RunKernel(ir::Op::k_var, cpu::k_var, {&s}).out[0].Get(0), 0);
}

TEST(CpuReduce, BadAxes) {
  Tensor x(DType::f32, {2, 3});
  absl::Status s = RunKernel(ir::Op::k_sum, cpu::k_sum, {&x}, {{"axes", ir::Ints{3}}}).status;
  EXPECT_NE(s.message().find("axis 3 is outside rank 2; use -2 to 1"), absl::string_view::npos) << s;
  EXPECT_FALSE(RunKernel(ir::Op::k_sum, cpu::k_sum, {&x}, {{"axes", ir::Ints{0, -2}}}).status.ok());
  EXPECT_FALSE(RunKernel(ir::Op::k_argmax, cpu::k_argmax, {&x}, {{"axis", int64_t{2}}}).status.ok());
  EXPECT_FALSE(RunKernel(ir::Op::k_cumsum, cpu::k_cumsum, {&x}, {{"axis", int64_t{-3}}}).status.ok());
}

}  // namespace
}  // namespace tessera::rows_testing
