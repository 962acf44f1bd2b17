// Indexing kernels against element-by-element references; order of updates; messages.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/movement_util.h"

namespace tessera::cpu {
namespace {

using namespace movement;
using ir::Attr;
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

char* At(const View& v, const std::vector<int64_t>& index) {
  int64_t offset = 0;
  for (int i = 0; i < v.rank; ++i) offset += index[i] * v.strides[i];
  return v.as<char>() + offset * static_cast<int64_t>(SizeOf(v.dtype));
}

int64_t Id(const View& ids, const std::vector<int64_t>& index, int64_t dim) {
  int64_t id;
  std::memcpy(&id, At(ids, index), 8);
  return id < 0 ? id + dim : id;
}

std::vector<int64_t> Sub(const std::vector<int64_t>& v, size_t from, size_t to) {
  return std::vector<int64_t>(v.begin() + from, v.begin() + to);
}

std::vector<int64_t> Join(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Take, AlongEveryAxisOfRandomViews) {
  Rng rng(1);
  for (int round = 0; round < 600; ++round) {
    const int rank = 1 + round % 4, ids_rank = static_cast<int>(Uniform(rng, 0, 3));
    const int axis = static_cast<int>(Uniform(rng, 0, rank - 1));
    const DType dtype = AllDTypes()[round % AllDTypes().size()];
    const std::vector<int64_t> dims = RandomDims(rng, rank, 6, false);
    const Owned x = RandomView(rng, Type(dtype, dims));
    const Owned ids = RandomIds(rng, RandomDims(rng, ids_rank, 6), -dims[axis], dims[axis] - 1);
    auto run = RunOp(Op::k_take, k_take, {x, ids}, {int64_t{round % 2 ? axis : axis - rank}});
    ASSERT_TRUE(run.ok()) << run.status().message();
    const View& y = (*run)[0].v;
    const int64_t n = y.size();
    for (int64_t i = 0; i < n; ++i) {
      const std::vector<int64_t> index = Unravel(y, i);
      std::vector<int64_t> from = Sub(index, 0, axis);
      from.push_back(Id(ids.v, Sub(index, axis, axis + ids_rank), dims[axis]));
      from = Join(from, Sub(index, axis + ids_rank, index.size()));
      ASSERT_EQ(std::memcmp(Element(y, i), At(x.v, from), SizeOf(dtype)), 0);
    }
    if (axis == 0) {
      auto rows = RunOp(Op::k_embedding, k_embedding, {x, ids}, {});
      ASSERT_TRUE(rows.ok()) << rows.status().message();
      ASSERT_EQ(Bytes((*rows)[0].v), Bytes(y));
    }
  }
}

TEST(Take, ManyRowsOverThreads) {
  Rng rng(2);
  const Owned x = RandomView(rng, Type(DType::f32, {3, 50, 40}));
  const Owned ids = RandomIds(rng, {900}, -50, 49);
  auto run = RunOp(Op::k_take, k_take, {x, ids}, {int64_t{1}});
  ASSERT_TRUE(run.ok());
  const View& y = (*run)[0].v;
  for (int64_t i = 0; i < y.size(); ++i) {
    const std::vector<int64_t> index = Unravel(y, i);
    ASSERT_EQ(std::memcmp(Element(y, i), At(x.v, {index[0], Id(ids.v, {index[1]}, 50), index[2]}), 4), 0);
  }
}

TEST(Gather, AnyNumberOfLeadingDims) {
  Rng rng(3);
  for (int round = 0; round < 600; ++round) {
    const int rank = round % 5;
    const int64_t k = Uniform(rng, 0, rank);
    const std::vector<int64_t> dims = RandomDims(rng, rank, 5, false);
    const Owned x = RandomView(rng, Type(round % 2 ? DType::u8 : DType::f64, dims));
    const int outer_rank = static_cast<int>(Uniform(rng, 0, 2));
    const std::vector<int64_t> ids_dims = Join(RandomDims(rng, outer_rank, 5), {k});
    Owned ids = RandomView(rng, Type(DType::i64, ids_dims), /*repeat=*/false);
    for (int64_t i = 0; i < ids.v.size(); ++i) {
      const int64_t dim = dims[i % k], id = Uniform(rng, -dim, dim - 1);
      std::memcpy(Element(ids.v, i), &id, 8);
    }
    auto run = RunOp(Op::k_gather, k_gather, {x, ids}, {});
    ASSERT_TRUE(run.ok()) << run.status().message();
    const View& y = (*run)[0].v;
    const int64_t n = y.size();
    for (int64_t i = 0; i < n; ++i) {
      const std::vector<int64_t> index = Unravel(y, i);
      std::vector<int64_t> from;
      for (int64_t j = 0; j < k; ++j) from.push_back(Id(ids.v, Join(Sub(index, 0, outer_rank), {j}), dims[j]));
      from = Join(from, Sub(index, outer_rank, index.size()));
      ASSERT_EQ(std::memcmp(Element(y, i), At(x.v, from), SizeOf(x.v.dtype)), 0);
    }
  }
}

TEST(TakeAlongAxis, RandomViews) {
  Rng rng(4);
  for (int round = 0; round < 400; ++round) {
    const int rank = 1 + round % 4, axis = static_cast<int>(Uniform(rng, 0, rank - 1));
    const std::vector<int64_t> dims = RandomDims(rng, rank, 7, false);
    std::vector<int64_t> ids_dims = dims;
    ids_dims[axis] = Uniform(rng, 0, 9);
    const Owned x = RandomView(rng, Type(DType::bf16, dims));
    const Owned ids = RandomIds(rng, ids_dims, -dims[axis], dims[axis] - 1);
    auto run = RunOp(Op::k_take_along_axis, k_take_along_axis, {x, ids}, {int64_t{axis}});
    ASSERT_TRUE(run.ok()) << run.status().message();
    const View& y = (*run)[0].v;
    const int64_t n = y.size();
    for (int64_t i = 0; i < n; ++i) {
      std::vector<int64_t> index = Unravel(y, i);
      index[axis] = Id(ids.v, index, dims[axis]);
      ASSERT_EQ(std::memcmp(Element(y, i), At(x.v, index), 2), 0);
    }
  }
}

/// What one update does, in f64: exact for the small whole numbers of these tests.
double Updated(const std::string& mode, DType dtype, double old, double update) {
  if (mode == "set") return update;
  if (mode == "max") return std::max(old, update);
  if (mode == "min") return std::min(old, update);
  if (dtype == DType::boolean) return old != 0 || update != 0;
  alignas(8) char element[8];
  if (IsInt(dtype))
    FromInt64(static_cast<int64_t>(old + update), element, dtype);
  else
    FromDouble(old + update, element, dtype);
  return ToDouble(element, dtype);
}

TEST(Scatter, EveryModeAndDType) {
  Rng rng(5);
  for (int round = 0; round < 1000; ++round) {
    const DType dtype = AllDTypes()[round % AllDTypes().size()];
    const std::string mode = std::vector<std::string>{"set", "add", "max", "min"}[round % 4];
    const int rank = 1 + static_cast<int>(Uniform(rng, 0, 2));
    const int64_t k = Uniform(rng, 0, rank);
    const std::vector<int64_t> dims = RandomDims(rng, rank, 5, false);
    const Owned x = RandomSmall(rng, Type(dtype, dims));
    const int outer_rank = static_cast<int>(Uniform(rng, 0, 2));
    const std::vector<int64_t> outer = RandomDims(rng, outer_rank, 6);
    Owned ids = RandomView(rng, Type(DType::i64, Join(outer, {k})), /*repeat=*/false);
    for (int64_t i = 0; i < ids.v.size(); ++i) {
      const int64_t dim = dims[i % k], id = Uniform(rng, -dim, dim - 1);
      std::memcpy(Element(ids.v, i), &id, 8);
    }
    const Owned u = RandomSmall(rng, Type(dtype, Join(outer, Sub(dims, k, rank))));
    auto run = RunOp(Op::k_scatter, k_scatter, {x, ids, u}, {mode});
    ASSERT_TRUE(run.ok()) << run.status().message();
    std::vector<double> want = Doubles(x.v);
    const int64_t n = u.v.size();
    for (int64_t i = 0; i < n; ++i) {
      const std::vector<int64_t> index = Unravel(u.v, i);
      std::vector<int64_t> to;
      for (int64_t j = 0; j < k; ++j) to.push_back(Id(ids.v, Join(Sub(index, 0, outer_rank), {j}), dims[j]));
      to = Join(to, Sub(index, outer_rank, index.size()));
      int64_t at = 0;
      for (int d = 0; d < rank; ++d) at = at * dims[d] + to[d];
      want[at] = Updated(mode, dtype, want[at], ToDouble(Element(u.v, i), dtype));
    }
    ASSERT_EQ(Doubles((*run)[0].v), want) << mode << " " << Name(dtype);
  }
}

// Many updates that meet: floating sums depend on their order, which must be that of the updates. Both ways in which
// the work is divided over threads.
TEST(Scatter, OrderHoldsOverThreads) {
  Rng rng(6);
  for (const int64_t length : {1, 1000}) {
    const int64_t places = 37, rows = length == 1 ? 150000 : 120;
    const Owned x = Zeros(Type(DType::f32, {places, length}));
    const Owned ids = RandomIds(rng, {rows, 1}, 0, places - 1);
    Owned u = Zeros(Type(DType::f32, {rows, length}));
    for (int64_t i = 0; i < rows * length; ++i) u.v.as<float>()[i] = static_cast<float>(Uniform(rng, -1000, 1000)) / 7;
    for (const std::string mode : {"add", "set"}) {
      auto run = RunOp(Op::k_scatter, k_scatter, {x, ids, u}, {mode});
      ASSERT_TRUE(run.ok());
      std::vector<float> want(places * length);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < length; ++c) {
          float& w = want[Id(ids.v, {r, 0}, places) * length + c];
          const float update = u.v.as<float>()[r * length + c];
          w = mode == "add" ? w + update : update;
        }
      }
      ASSERT_EQ(std::memcmp((*run)[0].v.data, want.data(), want.size() * 4), 0);
    }
  }
}

TEST(Scatter, NarrowFloatsRoundAtEachUpdate) {
  // 1 is half a unit in the last place of 256 in bf16: each addition rounds back to even.
  const Owned x = Values(DType::bf16, {1}, {256});
  const Owned ids = Values(DType::i64, {4, 1}, {0, 0, 0, 0});
  const Owned u = Values(DType::bf16, {4}, {1, 1, 1, 1});
  auto run = RunOp(Op::k_scatter, k_scatter, {x, ids, u}, {std::string("add")});
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(Doubles((*run)[0].v), std::vector<double>{256});
}

TEST(Scatter, IntegersWrapAndNanWins) {
  const Owned ids = Values(DType::i64, {1, 1}, {0});
  auto run = RunOp(Op::k_scatter, k_scatter, {Values(DType::i8, {1}, {127}), ids, Values(DType::i8, {1}, {1})},
                   {std::string("add")});
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(Doubles((*run)[0].v)[0], -128);
  for (const std::string mode : {"max", "min"}) {
    for (const auto& [a, b] : {std::pair<double, double>{NAN, 1}, {1, NAN}}) {
      auto nan =
          RunOp(Op::k_scatter, k_scatter, {Values(DType::f32, {1}, {a}), ids, Values(DType::f32, {1}, {b})}, {mode});
      ASSERT_TRUE(nan.ok());
      EXPECT_TRUE(std::isnan(Doubles((*nan)[0].v)[0]));
    }
  }
}

TEST(PutAlongAxis, EveryModeAndDType) {
  Rng rng(7);
  for (int round = 0; round < 600; ++round) {
    const DType dtype = AllDTypes()[round % AllDTypes().size()];
    const std::string mode = std::vector<std::string>{"set", "add", "max", "min"}[round % 4];
    const int rank = 1 + round % 3, axis = static_cast<int>(Uniform(rng, 0, rank - 1));
    const std::vector<int64_t> dims = RandomDims(rng, rank, 6, false);
    std::vector<int64_t> ids_dims = dims;
    ids_dims[axis] = Uniform(rng, 0, 8);
    const Owned x = RandomSmall(rng, Type(dtype, dims));
    const Owned ids = RandomIds(rng, ids_dims, -dims[axis], dims[axis] - 1);
    const Owned u = RandomSmall(rng, Type(dtype, ids_dims));
    auto run = RunOp(Op::k_put_along_axis, k_put_along_axis, {x, ids, u}, {int64_t{axis}, mode});
    ASSERT_TRUE(run.ok()) << run.status().message();
    std::vector<double> want = Doubles(x.v);
    const int64_t n = u.v.size();
    for (int64_t i = 0; i < n; ++i) {
      std::vector<int64_t> index = Unravel(u.v, i);
      index[axis] = Id(ids.v, index, dims[axis]);
      int64_t at = 0;
      for (int d = 0; d < rank; ++d) at = at * dims[d] + index[d];
      want[at] = Updated(mode, dtype, want[at], ToDouble(Element(u.v, i), dtype));
    }
    ASSERT_EQ(Doubles((*run)[0].v), want) << mode << " " << Name(dtype);
  }
}

TEST(OneHot, NegativeFromTheEndAndZerosOutOfRange) {
  const Owned ids = Values(DType::i64, {5}, {0, 2, -1, 3, -4});
  for (DType dtype : AllDTypes()) {
    auto run = RunOp(Op::k_one_hot, k_one_hot, {ids}, {int64_t{3}, dtype});
    ASSERT_TRUE(run.ok());
    EXPECT_EQ(Doubles((*run)[0].v), (std::vector<double>{1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}));
  }
}

TEST(Indexing, OutOfRangeMessages) {
  const Owned x = Values(DType::f32, {4, 5}, {});
  const auto message = [](const absl::StatusOr<std::vector<Owned>>& run) {
    EXPECT_EQ(run.status().code(), absl::StatusCode::kOutOfRange);
    return std::string(run.status().message());
  };
  EXPECT_EQ(message(RunOp(Op::k_take, k_take, {x, Values(DType::i64, {2, 2}, {0, 4, 5, 6})}, {int64_t{1}})),
            "index 5 at [1,0] of ids is outside dim 1 of x, which is 5; use -5 to 4");
  EXPECT_EQ(message(RunOp(Op::k_take, k_take, {x, Values(DType::i64, {}, {-5})}, {int64_t{0}})),
            "index -5 of ids is outside dim 0 of x, which is 4; use -4 to 3");
  EXPECT_EQ(message(RunOp(Op::k_embedding, k_embedding, {x, Values(DType::i64, {1}, {4})}, {})),
            "index 4 at [0] of ids is outside dim 0 of table, which is 4; use -4 to 3");
  EXPECT_EQ(message(RunOp(Op::k_gather, k_gather, {x, Values(DType::i64, {2, 2}, {0, 0, 1, 7})}, {})),
            "index 7 at [1,1] of ids is outside dim 1 of x, which is 5; use -5 to 4");
  EXPECT_EQ(
      message(RunOp(Op::k_take, k_take, {Values(DType::f32, {0}, {}), Values(DType::i64, {1}, {0})}, {int64_t{0}})),
      "index 0 at [0] of ids is outside dim 0 of x, which is 0; there is no valid index");
  EXPECT_EQ(message(RunOp(Op::k_scatter, k_scatter,
                          {x, Values(DType::i64, {1, 1}, {9}), Values(DType::f32, {1, 5}, {})}, {std::string("add")})),
            "index 9 at [0,0] of ids is outside dim 0 of x, which is 4; use -4 to 3");
}

TEST(Indexing, ShapeMessages) {
  const TensorType x = Type(DType::f32, {4, 5}), ids = Type(DType::i64, {3, 1});
  EXPECT_EQ(Inferred(Op::k_gather, {x, Type(DType::i64, {3, 1})}, {}), "f32[3,5]");
  EXPECT_EQ(Inferred(Op::k_gather, {x, Type(DType::i64, {3})}, {}),
            "gather: the last dim of ids is 3, but x has rank 2; it says how many dims of x are addressed (given "
            "f32[4,5], i64[3])");
  EXPECT_EQ(Inferred(Op::k_scatter, {x, ids, Type(DType::f32, {3, 5})}, {std::string("mul")}),
            "scatter: mode \"mul\" is unknown; use set, add, max or min (given f32[4,5], i64[3,1], f32[3,5])");
  EXPECT_EQ(Inferred(Op::k_scatter, {x, ids, Type(DType::f32, {5})}, {std::string("set")}),
            "scatter: updates is f32[5], but ids and x ask for f32[3,5]; broadcast or reshape it (given f32[4,5], "
            "i64[3,1], f32[5])");
  EXPECT_EQ(
      Inferred(Op::k_take_along_axis, {x, Type(DType::i64, {3, 2})}, {int64_t{1}}),
      "take_along_axis: dim 0 of ids is 3, of x 4; dims other than axis 1 must be equal (given f32[4,5], i64[3,2])");
  EXPECT_EQ(Inferred(Op::k_take, {Type(DType::f32, {2, 2, 2, 2, 2}), Type(DType::i64, {1, 1, 1, 1, 1})}, {int64_t{0}}),
            "take: the result would have rank 9 or more; the rank is at most 8 (given f32[2,2,2,2,2], i64[1,1,1,1,1])");
  EXPECT_EQ(Inferred(Op::k_one_hot, {Type(DType::i64, {2})}, {int64_t{-1}, DType::f32}),
            "one_hot: depth is -1; it is at least 0 (given i64[2])");
}

}  // namespace
}  // namespace tessera::cpu
