// copy, concat, stack, pad, tril, triu and update_slice against element-by-element references.
#include <gtest/gtest.h>

#include "tests/unit/movement_util.h"

namespace tessera::cpu {
namespace {

using namespace movement;
using ir::Ints;
using ir::Op;

std::vector<int64_t> Unravel(const TensorType& t, int64_t at) {
  std::vector<int64_t> index(t.rank);
  for (int i = t.rank - 1; i >= 0; --i) {
    index[i] = at % t.dims[i];
    at /= t.dims[i];
  }
  return index;
}

const char* At(const View& v, const std::vector<int64_t>& index) {
  int64_t offset = 0;
  for (int i = 0; i < v.rank; ++i) offset += index[i] * v.strides[i];
  return v.as<char>() + offset * static_cast<int64_t>(SizeOf(v.dtype));
}

TEST(Copy, EveryDType) {
  Rng rng(1);
  for (DType dtype : AllDTypes()) {
    for (int rank = 0; rank <= kMaxRank; ++rank) {
      const Owned x = RandomView(rng, Type(dtype, RandomDims(rng, rank, 3)));
      auto y = RunOp(Op::k_copy, k_copy, {x}, {});
      ASSERT_TRUE(y.ok()) << y.status().message();
      ASSERT_EQ(Bytes((*y)[0].v), Bytes(x.v));
    }
  }
}

TEST(Concat, AlongEveryAxis) {
  Rng rng(2);
  for (int round = 0; round < 300; ++round) {
    const int rank = 1 + round % 4, axis = static_cast<int>(Uniform(rng, 0, rank - 1));
    std::vector<int64_t> dims = RandomDims(rng, rank, 6);
    std::vector<Owned> xs;
    std::vector<std::pair<int, int64_t>> origin;  // along axis: which operand, and its index there
    const int count = static_cast<int>(Uniform(rng, 1, 4));
    for (int k = 0; k < count; ++k) {
      dims[axis] = Uniform(rng, 0, 5);
      xs.push_back(RandomView(rng, Type(DType::i32, dims)));
      for (int64_t i = 0; i < dims[axis]; ++i) origin.emplace_back(k, i);
    }
    auto run = RunOp(Op::k_concat, k_concat, xs, {int64_t{round % 2 ? axis : axis - rank}});
    ASSERT_TRUE(run.ok()) << run.status().message();
    const View& y = (*run)[0].v;
    ASSERT_EQ(y.dims[axis], static_cast<int64_t>(origin.size()));
    const int64_t n = y.size();
    for (int64_t i = 0; i < n; ++i) {
      std::vector<int64_t> index = Unravel(y, i);
      const auto [k, at] = origin[index[axis]];
      index[axis] = at;
      ASSERT_EQ(std::memcmp(Element(y, i), At(xs[k].v, index), 4), 0);
    }
  }
}

TEST(Stack, AlongEveryAxis) {
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    const int rank = round % 5;
    const int axis = static_cast<int>(Uniform(rng, 0, rank));
    const TensorType type = Type(DType::f16, RandomDims(rng, rank, 5));
    const std::vector<Owned> xs = {RandomView(rng, type), RandomView(rng, type), RandomView(rng, type)};
    auto run = RunOp(Op::k_stack, k_stack, xs, {int64_t{axis}});
    ASSERT_TRUE(run.ok()) << run.status().message();
    const View& y = (*run)[0].v;
    const int64_t n = y.size();
    for (int64_t i = 0; i < n; ++i) {
      std::vector<int64_t> index = Unravel(y, i);
      const int64_t k = index[axis];
      index.erase(index.begin() + axis);
      ASSERT_EQ(std::memcmp(Element(y, i), At(xs[k].v, index), 2), 0);
    }
  }
}

TEST(Pad, PositiveAndNegativeOnEveryDim) {
  Rng rng(4);
  for (int round = 0; round < 600; ++round) {
    const int rank = round % 5;
    const DType dtype = AllDTypes()[round % AllDTypes().size()];
    const Owned x = RandomSmall(rng, Type(dtype, RandomDims(rng, rank, 5)));
    Ints low, high;
    for (int i = 0; i < rank; ++i) {
      low.push_back(Uniform(rng, -6, 4));
      high.push_back(Uniform(rng, std::max<int64_t>(-6, -x.v.dims[i] - low[i]), 6));
    }
    auto run = RunOp(Op::k_pad, k_pad, {x}, {low, high, 3.0});
    ASSERT_TRUE(run.ok()) << run.status().message();
    const View& y = (*run)[0].v;
    const int64_t n = y.size();
    for (int64_t i = 0; i < n; ++i) {
      std::vector<int64_t> index = Unravel(y, i);
      bool inside = true;
      for (int d = 0; d < rank; ++d) {
        index[d] -= low[d];
        inside = inside && index[d] >= 0 && index[d] < x.v.dims[d];
      }
      const double want = inside ? ToDouble(At(x.v, index), dtype) : dtype == DType::boolean ? 1 : 3;
      ASSERT_EQ(ToDouble(Element(y, i), dtype), want) << "round " << round;
    }
  }
}

TEST(Triangles, EveryDiagonal) {
  Rng rng(5);
  for (int round = 0; round < 400; ++round) {
    const int rank = 2 + round % 3;
    const Owned x = RandomSmall(rng, Type(AllDTypes()[round % AllDTypes().size()], RandomDims(rng, rank, 6)));
    const int64_t k = round % 10 == 0 ? INT64_MAX : round % 10 == 1 ? INT64_MIN : Uniform(rng, -7, 7);
    auto lower = RunOp(Op::k_tril, k_tril, {x}, {k});
    auto upper = RunOp(Op::k_triu, k_triu, {x}, {k});
    ASSERT_TRUE(lower.ok() && upper.ok());
    const int64_t n = x.v.size();
    for (int64_t i = 0; i < n; ++i) {
      const std::vector<int64_t> index = Unravel(x.v, i);
      const int64_t diagonal = index[rank - 1] - index[rank - 2];
      const double value = ToDouble(Element(x.v, i), x.v.dtype);
      ASSERT_EQ(ToDouble(Element((*lower)[0].v, i), x.v.dtype), diagonal <= k ? value : 0);
      ASSERT_EQ(ToDouble(Element((*upper)[0].v, i), x.v.dtype), diagonal >= k ? value : 0);
    }
  }
}

TEST(UpdateSlice, StartsAndSteps) {
  Rng rng(6);
  for (int round = 0; round < 500; ++round) {
    const int rank = round % 4;
    const Owned x = RandomView(rng, Type(DType::i32, RandomDims(rng, rank, 7)));
    std::vector<int64_t> dims(rank);
    Ints starts, steps;
    for (int i = 0; i < rank; ++i) {
      const int64_t dim = x.v.dims[i];
      const int64_t first = dim == 0 ? 0 : Uniform(rng, 0, dim - 1),
                    step = Uniform(rng, 0, 1) ? Uniform(rng, 1, 3) : -1;
      const int64_t most = dim == 0 ? 0 : step > 0 ? (dim - 1 - first) / step + 1 : first + 1;
      dims[i] = Uniform(rng, 0, most);
      starts.push_back(dim > 0 && round % 2 ? first - dim : first);
      steps.push_back(step);
    }
    const Owned u = RandomView(rng, Type(DType::i32, dims));
    auto run = RunOp(Op::k_update_slice, k_update_slice, {x, u}, {starts, steps});
    ASSERT_TRUE(run.ok()) << run.status().message();
    Owned want = Zeros(x.v);
    const int64_t n = x.v.size(), m = u.v.size();
    for (int64_t i = 0; i < n; ++i) std::memcpy(Element(want.v, i), Element(x.v, i), 4);
    for (int64_t i = 0; i < m; ++i) {
      std::vector<int64_t> index = Unravel(u.v, i);
      for (int d = 0; d < rank; ++d)
        index[d] = (starts[d] < 0 ? starts[d] + x.v.dims[d] : starts[d]) + index[d] * steps[d];
      std::memcpy(const_cast<char*>(At(want.v, index)), Element(u.v, i), 4);
    }
    ASSERT_EQ(Bytes((*run)[0].v), Bytes(want.v));
  }
}

TEST(UpdateSlice, Messages) {
  const TensorType x = Type(DType::f32, {4, 6}), u = Type(DType::f32, {2, 3});
  EXPECT_EQ(Inferred(Op::k_update_slice, {x, u}, {Ints{0, 2}, Ints{1, 2}}),
            "update_slice: updates does not fit along dim 1: 3 elements from 2 by steps of 2 in a dim of 6 (given "
            "f32[4,6], f32[2,3])");
  EXPECT_EQ(
      Inferred(Op::k_update_slice, {x, u}, {Ints{3, 0}, Ints{}}),
      "update_slice: updates does not fit along dim 0: 2 elements from 3 in a dim of 4 (given f32[4,6], f32[2,3])");
  EXPECT_EQ(Inferred(Op::k_update_slice, {x, u}, {Ints{-2, -3}, Ints{}}), "f32[4,6]");
  EXPECT_EQ(Inferred(Op::k_update_slice, {x, u}, {Ints{INT64_MIN, 0}, Ints{}}).substr(0, 46),
            "update_slice: updates does not fit along dim 0");
}

}  // namespace
}  // namespace tessera::cpu
