// Gathers of rows in generated kernels against tier 1, to the bit: shapes, layouts, dtypes, indices from the end, and
// errors of indices at the op that has them.
#include "tests/unit/ids_testing.h"
#include "tests/unit/tiers_code_testing.h"

namespace tessera {
namespace {

class TiersCodeGather : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  }
};

TEST_F(TiersCodeGather, ShapesAndDTypes) {
  const Dims tables[] = {{7, 5}, {3, 33}, {9, 4, 6}, {5, 2, 3, 7}, {4, 1, 8}, {4, 8, 1}, {1, 19}};
  const Dims shapes[] = {{6}, {1}, {2, 3}, {3, 1}, {2, 2, 2}};
  uint64_t seed = 0;
  for (const Dims& table : tables)
    for (const Dims& shape : shapes) {
      if (table.size() + shape.size() > 5) continue;
      SCOPED_TRACE(absl::StrCat("table ", table.size(), " ids ", shape.size(), " number ", ++seed));
      const DType index = seed % 3 == 0 ? i32 : i64;
      RunBodyEveryWay(
          [](const std::vector<Tensor>& in) {
            const Tensor y = embedding(in[0], in[1]) * 2.0;
            return std::vector{take(in[0], in[1], 0) + tanh(y)};
          },
          {AnyTensor(f32, table, seed), Ids(shape, table[0], seed, index)});
      if (HasFailure()) return;
    }
  for (const DType dtype : {f64, bf16, f16, f8e4m3, f8e5m2, i64, i32, i8, u8, boolean})
    RunBodyEveryWay(
        [](const std::vector<Tensor>& in) {
          const Tensor y = embedding(in[0], in[1]);
          return std::vector{y, y + y, abs(cast(y, f32))};
        },
        {AnyTensor(dtype, {6, 17}, 3), Ids({4, 3}, 6, 4)});
}

TEST_F(TiersCodeGather, Layouts) {
  // A part of the columns, every other row, the transposed table, rows that stand still; indices of all kinds.
  const Tensor wide = Uniform({8, 40}, 1), ids = Ids({6, 4}, 8, 2);
  const auto body = [](const std::vector<Tensor>& in) {
    const Tensor y = embedding(in[0], in[1]);
    return std::vector{y * y - 1.0};
  };
  const Tensor every_other = slice(Uniform({16, 21}, 3), {0}, {16}, {2}, {0});
  const Tensor still = broadcast(Uniform({8, 1}, 4), {8, 13}), one_row = broadcast(Uniform({1, 13}, 5), {8, 13});
  for (const Tensor& table : {slice(wide, {3}, {30}, {1}, {1}), slice(wide, {3}, {30}, {3}, {1}), every_other,
                              transpose(Uniform({21, 8}, 6)), still, one_row})
    for (const Tensor& index :
         {ids, transpose(ids), slice(ids, {0}, {6}, {2}, {0}), broadcast(Ids({1, 4}, 8, 7), {5, 4})}) {
      RunBodyEveryWay(body, {table, index});
      if (HasFailure()) return;
    }
}

TEST_F(TiersCodeGather, TokensAndPositions) {
  // Positions have no dim for the batch; both tables may be one.
  for (const int64_t width : {1, 8, 31}) {
    RunBodyEveryWay(
        [](const std::vector<Tensor>& in) {
          const Tensor tokens = embedding(in[0], in[1]), positions = embedding(in[2], in[3]);
          const Tensor x = tokens + positions;
          return std::vector{x, relu(x) * 0.5};
        },
        {Uniform({11, width}, 1), Ids({3, 5}, 11, 2), Uniform({9, width}, 3), Ids({5}, 9, 4)});
    const Tensor table = Uniform({11, width}, 5);
    RunBodyEveryWay(
        [&](const std::vector<Tensor>& in) { return std::vector{embedding(in[0], in[1]) - embedding(in[0], in[2])}; },
        {table, Ids({3, 5}, 11, 6), Ids({3, 5}, 11, 7)}, width > 1);
  }
}

TEST_F(TiersCodeGather, NormalisedAfter) {
  // What a norm gives is within its bound of tier 1.
  const Tensor table = Uniform({50, 96}, 1), positions = Uniform({7, 96}, 2), ids = Ids({4, 7}, 50, 3),
               at = Ids({7}, 7, 4);
  const auto body = [&] { return layer_norm(embedding(table, ids) + embedding(positions, at)); };
  std::vector<double> want;
  {
    const OptionScope tier1({{"tier", "1"}});
    want = body().to_vector<double>();
  }
  StepsEveryWay([&] {
    const std::vector<double> got = body().to_vector<double>();
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < got.size(); ++k) ASSERT_NEAR(got[k], want[k], 8 * 0x1p-23 * (std::abs(want[k]) + 4));
  });
}

TEST_F(TiersCodeGather, NothingThere) {
  // No indices, and no columns; no rows only where there are no indices.
  const auto body = [](const std::vector<Tensor>& in) { return std::vector{embedding(in[0], in[1]) * 2.0 + 1.0}; };
  RunBodyEveryWay(body, {Uniform({5, 8}, 1), Ids({0}, 5, 2)}, false);
  RunBodyEveryWay(body, {Uniform({5, 8}, 1), Ids({3, 0}, 5, 2)}, false);
  RunBodyEveryWay(body, {Uniform({5, 0}, 1), Ids({4}, 5, 2)}, false);
  RunBodyEveryWay(body, {Uniform({0, 8}, 1), Ids({0}, 5, 2)}, false);
}

TEST_F(TiersCodeGather, ErrorsAtTheirOp) {
  // Of one gather, of the second in a kernel, and of indices that the program computed; before and after it nothing is
  // lost.
  RunEveryWay([](Log& log) {
    const Tensor table = Uniform({10, 6}, 1), other = Uniform({4, 6}, 2);
    Tensor state = Uniform({3, 6}, 3);
    for (int i = 0; i < 60; ++i) {
      const Tensor ids = Tensor::from<int64_t>({i % 10, i == 40 ? 10 : -10, 2});
      const Tensor at = Tensor::from<int64_t>({i == 50 ? -5 : -4, 3, i % 4});
      const Step step;
      state = state * 0.5;
      Tensor a, b;
      log.Try([&] { a = embedding(table, ids); });
      log.Try([&] { b = embedding(other, at); });
      if (a.defined()) state = state + a;
      if (b.defined()) state = state + b * 0.25;
      if (i % 7 == 0 || i > 38) log.Add(Bits(state));
    }
  });
}

TEST_F(TiersCodeGather, ErrorsInFunctions) {
  const std::string text = R"(func @f(%t: tensor<10 x 6 x f32>, %ids: tensor<3 x i64>, %p: tensor<4 x 6 x f32>,
                                  %at: tensor<3 x i64>, %x: tensor<3 x 6 x f32>) -> (tensor<3 x 6 x f32>, tensor<3 x 6 x f32>) {
  %half = neg %x
  %a = embedding %t, %ids
  %one = tanh %half
  %b = embedding %p, %at
  %y = add %a, %b
  %z = mul %y, %one
  return %z, %y
}
)";
  RunEveryWay([&](Log& log) {
    auto function = Function::parse(text);
    ASSERT_TRUE(function.ok()) << text;
    const Tensor table = Uniform({10, 6}, 1), other = Uniform({4, 6}, 2), x = Uniform({3, 6}, 3);
    for (int i = 0; i < 30; ++i) {
      const Tensor ids = Tensor::from<int64_t>({i % 10, i == 20 ? -11 : -10, 2});
      const Tensor at = Tensor::from<int64_t>({i == 25 ? 4 : -4, 3, i % 4});
      log.Try([&] {
        for (const Tensor& y : (*function)({table, ids, other, at, x})) log.Add(Bits(y));
      });
    }
  });
}

TEST_F(TiersCodeGather, IndicesOfTheFunctionItself) {
  const std::string text = R"(func @f(%t: tensor<9 x 6 x f32>, %x: tensor<4 x i64>) -> (tensor<4 x 6 x f32>) {
  %ids = neg %x
  %a = embedding %t, %ids
  %y = exp %a
  %z = tanh %y
  return %z
}
)";
  RunEveryWay(Called(text, {Uniform({9, 6}, 1), Tensor::from<int64_t>({0, 1, 8, 4})}));
}

}  // namespace
}  // namespace tessera
