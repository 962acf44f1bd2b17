#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/cpu_rows_testing.h"

namespace tessera::rows_testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");
constexpr DType kAll[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2,
                          DType::i64, DType::i32, DType::i8,  DType::u8,   DType::boolean};

/// What the table says, by comparison of values.
std::vector<int64_t> Expected(const std::vector<double>& x, bool descending, bool nan_largest) {
  std::vector<int64_t> order(x.size());
  for (size_t i = 0; i < x.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const double a = x[static_cast<size_t>(i)], b = x[static_cast<size_t>(j)];
    if (std::isnan(a) != std::isnan(b)) return (descending && nan_largest) ? std::isnan(a) : std::isnan(b);
    if (!std::isnan(a) && a != b) return descending ? a > b : a < b;
    return i < j;
  });
  return order;
}

/// k < 0: sort.
void CheckOrder(const Tensor& x, int axis, bool descending, int64_t k) {
  const bool sort = k < 0;
  Outcome o =
      sort ? RunKernel(ir::Op::k_sort, cpu::k_sort, {&x}, {{"axis", int64_t{axis}}, {"descending", descending}})
           : RunKernel(ir::Op::k_topk, cpu::k_topk, {&x}, {{"k", k}, {"axis", int64_t{axis}}, {"largest", descending}});
  ASSERT_TRUE(o.status.ok()) << o.status;
  ASSERT_EQ(o.out[0].v.dtype, x.v.dtype);
  ASSERT_EQ(o.out[1].v.dtype, DType::i64);
  const int64_t take = sort ? x.v.dims[axis] : k;
  ASSERT_EQ(o.out[0].v.dims[axis], take);
  const auto in = Groups(x.v, 1u << axis), out = Groups(o.out[0].v, 1u << axis);
  for (size_t g = 0; g < in.size() && take > 0; ++g) {
    std::vector<double> values;
    for (int64_t i : in[g]) values.push_back(x.Get(i));
    const std::vector<int64_t> want = Expected(values, descending, !sort);
    for (int64_t j = 0; j < take; ++j) {
      const int64_t at = out[g][static_cast<size_t>(j)], from = want[static_cast<size_t>(j)];
      ASSERT_EQ(o.out[1].GetInt(at), from)
          << ToString(x.v) << " axis " << axis << " descending " << descending << " k " << k;
      // Bit for bit: -0 and NaN come out as they went in.
      ASSERT_EQ(std::memcmp(o.out[0].At(at), x.At(in[g][static_cast<size_t>(from)]), SizeOf(x.v.dtype)), 0);
    }
  }
}

TEST(CpuSort, EveryDTypeLayoutAndAxis) {
  for (DType t : kAll) {
    for (const Dims& dims : {Dims{1}, Dims{17}, Dims{1000}, Dims{4, 33}, Dims{33, 4}, Dims{3, 600, 2}}) {
      for (Layout layout : kLayouts) {
        Tensor x(t, dims, layout);
        x.Random(3, -100, 100);
        for (int axis = 0; axis < x.v.rank; ++axis) {
          for (bool descending : {false, true}) {
            CheckOrder(x, axis, descending, -1);
            for (int64_t k :
                 {int64_t{0}, int64_t{1}, dims[static_cast<size_t>(axis)] / 10, dims[static_cast<size_t>(axis)]})
              CheckOrder(x, axis, descending, k);
            ASSERT_FALSE(HasFatalFailure()) << "layout " << static_cast<int>(layout);
          }
        }
      }
    }
  }
}

TEST(CpuSort, TiesZerosAndNaN) {
  for (DType t : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2}) {
    const bool has_inf = t != DType::f8e4m3 && t != DType::f8e5m2;
    for (int64_t n : {7, 40, 700, 2000}) {
      Tensor x(t, {2, n});
      x.Fill([&](int64_t i) {
        switch (i * 7 % 11) {
          case 0: return kNaN;
          case 1: return -0.0;
          case 2: return 0.0;
          case 3: return has_inf ? kInf : 5.0;
          case 4: return has_inf ? -kInf : -5.0;
          default: return static_cast<double>(i * 5 % 7 - 3);
        }
      });
      for (bool descending : {false, true}) {
        CheckOrder(x, 1, descending, -1);
        for (int64_t k : {int64_t{1}, n / 20, n / 2}) CheckOrder(x, 1, descending, k);
      }
      ASSERT_FALSE(HasFatalFailure());
    }
  }
}

TEST(CpuSort, IntegersAtTheirLimits) {
  const int64_t values[] = {INT64_MAX, INT64_MIN, 0, -1, 1, INT64_MAX - 1, INT64_MIN + 1, 0};
  Tensor x(DType::i64, {8});
  for (int64_t i = 0; i < 8; ++i) x.SetInt(i, values[i]);
  const int64_t up[] = {1, 6, 3, 2, 7, 4, 5, 0}, down[] = {0, 5, 4, 2, 7, 3, 6, 1};
  Outcome a = RunKernel(ir::Op::k_sort, cpu::k_sort, {&x});
  Outcome d = RunKernel(ir::Op::k_sort, cpu::k_sort, {&x}, {{"descending", true}});
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(a.out[1].GetInt(i), up[i]);
    EXPECT_EQ(d.out[1].GetInt(i), down[i]);
    EXPECT_EQ(d.out[0].GetInt(i), values[down[i]]);
  }
}

TEST(CpuSort, LongRows) {
  for (DType t : {DType::f32, DType::i64, DType::u8}) {
    Tensor x(t, {300000});
    x.Random(6, -1000, 1000);
    for (bool descending : {false, true}) {
      CheckOrder(x, 0, descending, -1);
      for (int64_t k : {10, 1000, 200000}) CheckOrder(x, 0, descending, k);
    }
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST(CpuSort, EmptyAndErrors) {
  for (const Dims& dims : {Dims{0}, Dims{0, 3}, Dims{3, 0}}) {
    Tensor x(DType::f32, dims);
    EXPECT_TRUE(RunKernel(ir::Op::k_sort, cpu::k_sort, {&x}).status.ok());
    EXPECT_TRUE(RunKernel(ir::Op::k_topk, cpu::k_topk, {&x}, {{"k", int64_t{0}}}).status.ok());
  }
  Tensor x(DType::f32, {4, 3});
  absl::Status s = RunKernel(ir::Op::k_topk, cpu::k_topk, {&x}, {{"k", int64_t{4}}}).status;
  EXPECT_NE(s.message().find("k = 4 along axis 1 of f32[4,3]; use 0 to 3"), absl::string_view::npos) << s;
  EXPECT_FALSE(RunKernel(ir::Op::k_topk, cpu::k_topk, {&x}, {{"k", int64_t{-1}}}).status.ok());
  EXPECT_FALSE(RunKernel(ir::Op::k_sort, cpu::k_sort, {&x}, {{"axis", int64_t{2}}}).status.ok());
}

}  // namespace
}  // namespace tessera::rows_testing
