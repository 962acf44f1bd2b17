// paged_attention against attention of the keys and values that the table names, one sequence after the other.
#include "tests/unit/products_testing.h"

namespace tessera {
namespace {

using namespace tessera::testing;  // NOLINT(google-build-using-namespace)
using ir::Op;
using Dims = tessera::testing::Dims;

struct Sizes {
  int64_t batch, heads, groups, queries, dim, value_dim, pages, page, entries;
};

struct Paged {
  Array q, k, v, table, lengths;

  absl::StatusOr<Array> Run(double scale = 0) const {
    return RunOp(Op::k_paged_attention, cpu::k_paged_attention, {&q, &k, &v, &table, &lengths}, {scale});
  }
};

/// Lengths from 0 to all there is room for; entries behind them are no pages.
Paged Make(Rng& rng, DType dtype, const Sizes& s) {
  Paged p = {Random(rng, dtype, {s.batch, s.heads, s.queries, s.dim}),
             Random(rng, dtype, {s.pages, s.page, s.groups, s.dim}),
             Random(rng, dtype, {s.pages, s.page, s.groups, s.value_dim}),
             Strided(rng, DType::i64, {s.batch, s.entries}), Strided(rng, DType::i64, {s.batch})};
  const int64_t most = s.pages == 0 ? 0 : s.entries * s.page;
  for (int64_t b = 0; b < s.batch; ++b)
    p.lengths.SetInt(b, rng() % 4 == 0 ? most : rng() % 4 == 0 ? 0 : Pick(rng, 0, most));
  int64_t needed = 0;
  for (int64_t b = 0; b < s.batch; ++b) needed = std::max(needed, p.lengths.GetInt(b));
  // Entries may lie in one place for several sequences, or all: what is needed is written last.
  for (int64_t i = 0; i < s.batch * s.entries; ++i) p.table.SetInt(i, Pick(rng, -3, 1000));
  for (int64_t i = 0; i < s.batch * s.entries; ++i)
    if (i % s.entries * s.page < needed) p.table.SetInt(i, Pick(rng, 0, s.pages - 1));
  return p;
}

/// Keys, or values, of one sequence: [G, L, columns].
Array Gathered(const Paged& p, const Array& pool, int64_t b) {
  const int64_t length = p.lengths.GetInt(b), page = pool.v.dims[1], groups = pool.v.dims[2], cols = pool.v.dims[3];
  Array r = Contiguous(pool.v.dtype, {groups, length, cols});
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t i = 0; i < length; ++i)
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t at = p.table.GetInt(b * p.table.v.dims[1] + i / page);
        r.Set((g * length + i) * cols + c, pool.At({at, i % page, g, c}));
      }
  return r;
}

void Check(const Paged& p, double scale, const Array& y) {
  const int64_t rows = p.q.v.dims[1] * p.q.v.dims[2], dim = p.q.v.dims[3], value_dim = p.v.v.dims[3];
  const DType t = y.v.dtype;
  for (int64_t b = 0; b < p.q.v.dims[0]; ++b) {
    Array q = Contiguous(t, {p.q.v.dims[1], p.q.v.dims[2], dim});
    for (int64_t i = 0; i < rows * dim; ++i) q.Set(i, p.q.Get(b * rows * dim + i));
    const Array k = Gathered(p, p.k, b), v = Gathered(p, p.v, b);
    auto want = RunOp(Op::k_attention, cpu::k_attention, {&q, &k, &v, nullptr}, {true, scale});
    ASSERT_TRUE(want.ok()) << want.status();
    for (int64_t i = 0; i < rows * value_dim; ++i) {
      const double got = y.Get(b * rows * value_dim + i), expected = want->Get(i);
      // Both add up in an order of their own; scores are below 100 in size, values below 2.
      ASSERT_LE(std::abs(got - expected), 1000 * ComputeEpsilon(t) + 2 * RoundingOf(t) * std::abs(expected) + TinyOf(t))
          << "sequence " << b << ", element " << i << ": got " << got << ", want " << expected;
    }
  }
}

TEST(PagedAttention, RandomShapesStridesAndDtypes) {
  Rng rng(1);
  for (int round = 0; round < 300; ++round) {
    const DType t = kFloats[round % 8 < 6 ? round % 8 : 0];
    const int64_t low = round % 11 == 0 ? 0 : 1, top = round % 10 == 0 ? 40 : 7, groups = Pick(rng, 1, 3);
    const Sizes s = {Pick(rng, low, 4),   groups * Pick(rng, 1, 3), groups,
                     Pick(rng, low, top), Pick(rng, low, 17),       Pick(rng, low, 17),
                     Pick(rng, low, 9),   Pick(rng, low, top),      Pick(rng, low, top)};
    const Paged p = Make(rng, t, s);
    const double scale = rng() % 2 ? 0 : 0.7;
    SCOPED_TRACE(absl::StrCat("round ", round, ": q ", ToString(p.q.v), " k ", ToString(p.k.v), " v ", ToString(p.v.v),
                              " table ", ToString(p.table.v)));
    auto y = p.Run(scale);
    ASSERT_TRUE(y.ok()) << y.status();
    Check(p, scale, *y);
    if (HasFatalFailure()) return;
  }
}

TEST(PagedAttention, AQueryThatSeesNothingGivesZeros) {
  Rng rng(2);
  Paged p = Make(rng, DType::f32, {3, 2, 1, 4, 8, 8, 5, 4, 3});
  p.lengths = Contiguous(DType::i64, {3});
  p.lengths.SetInt(0, 0), p.lengths.SetInt(1, 1), p.lengths.SetInt(2, 12);
  p.table = Contiguous(DType::i64, {3, 3});
  for (int64_t i = 0; i < 9; ++i) p.table.SetInt(i, i < 3 ? -1 : 4);  // one page, three times
  auto y = p.Run();
  ASSERT_TRUE(y.ok()) << y.status();
  Check(p, 0, *y);
  for (int64_t i = 0; i < 2 * 4 * 8; ++i) ASSERT_EQ(y->Get(i), 0);
  for (int64_t head = 0; head < 2; ++head)
    for (int64_t i = 0; i < 3 * 8; ++i) ASSERT_EQ(y->Get((2 + head) * 32 + i), 0);
}

// What lies behind the length, or in pages that are not named, is not looked at.
TEST(PagedAttention, WhatIsBehindTheLengthDoesNotMatter) {
  Rng rng(3);
  Paged p = Make(rng, DType::f32, {1, 1, 1, 1, 4, 4, 3, 4, 2});
  p.k = Contiguous(DType::f32, {3, 4, 1, 4}), p.v = Contiguous(DType::f32, {3, 4, 1, 4});  // NaN everywhere
  for (int64_t i = 0; i < 6 * 4; ++i) {
    const int64_t at = i < 16 ? 32 + i : i - 16;  // page 2, then half of page 0
    p.k.Set(at, 0.1 * static_cast<double>(i)), p.v.Set(at, static_cast<double>(i));
  }
  p.table = Contiguous(DType::i64, {1, 2}), p.lengths = Contiguous(DType::i64, {1});
  p.table.SetInt(0, 2), p.table.SetInt(1, 0), p.lengths.SetInt(0, 6);
  auto y = p.Run();
  ASSERT_TRUE(y.ok()) << y.status();
  for (int64_t i = 0; i < 4; ++i) ASSERT_TRUE(std::isfinite(y->Get(i))) << i;
  Check(p, 0, *y);
}

TEST(PagedAttention, PagesAndLengthsThatCannotBeAreErrors) {
  Rng rng(4);
  const Paged good = Make(rng, DType::f32, {2, 2, 1, 1, 4, 4, 5, 4, 3});
  const auto message = [&](std::vector<int64_t> table, std::vector<int64_t> lengths) {
    Paged p = good;
    p.table = Contiguous(DType::i64, {2, 3}), p.lengths = Contiguous(DType::i64, {2});
    for (int64_t i = 0; i < 6; ++i) p.table.SetInt(i, table[i]);
    for (int64_t i = 0; i < 2; ++i) p.lengths.SetInt(i, lengths[i]);
    return std::string(p.Run().status().message());
  };
  EXPECT_EQ(message({0, 1, 99, 4, 3, 2}, {8, 12}), "");
  EXPECT_EQ(message({0, 1, 99, 4, 3, 2}, {9, 12}),
            "page 99 at [0,2] of table is outside the pool, which has 5 pages; use 0 to 4");
  EXPECT_EQ(message({0, 1, 2, 4, -1, 2}, {0, 5}),
            "page -1 at [1,1] of table is outside the pool, which has 5 pages; use 0 to 4");
  EXPECT_EQ(message({0, 1, 2, 0, 1, 2}, {1, 13}),
            "length 13 at [1] of lengths is outside what the pages of a sequence hold; use 0 to 12");
  EXPECT_EQ(message({0, 1, 2, 0, 1, 2}, {-1, 12}),
            "length -1 at [0] of lengths is outside what the pages of a sequence hold; use 0 to 12");
  Paged none = good;
  none.k = none.v = Contiguous(DType::f32, {0, 4, 1, 4});
  none.lengths = Contiguous(DType::i64, {2});
  none.lengths.SetInt(0, 0), none.lengths.SetInt(1, 1);
  EXPECT_NE(none.Run().status().message().find("which has 0 pages; there is no valid page"), std::string::npos);
}

TEST(PagedAttention, MessagesSayWhatWouldWork) {
  const auto message = [](const Dims& q, const Dims& k, const Dims& v, const Dims& table, const Dims& lengths) {
    const Paged p = {Contiguous(DType::f32, q), Contiguous(DType::f32, k), Contiguous(DType::f32, v),
                     Contiguous(DType::i64, table), Contiguous(DType::i64, lengths)};
    return std::string(p.Run().status().message());
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(message({2, 5, 4}, {6, 4, 2, 4}, {6, 4, 2, 4}, {2, 3}, {2}), "they must be q [B,H,S,D]");
  has(message({2, 4, 1, 8}, {6, 4, 2, 8}, {6, 4, 1, 8}, {2, 3}, {2}), "k and v differ");
  has(message({2, 4, 1, 8}, {6, 4, 2, 4}, {6, 4, 2, 8}, {2, 3}, {2}), "8 must equal 4");
  has(message({2, 3, 1, 8}, {6, 4, 2, 8}, {6, 4, 2, 8}, {2, 3}, {2}), "heads of q (3) must be a multiple");
  has(message({2, 4, 1, 8}, {6, 4, 2, 8}, {6, 4, 2, 8}, {3, 3}, {2}), "table must be [B,T]");
  has(message({2, 4, 1, 8}, {6, 4, 2, 8}, {6, 4, 2, 8}, {2, 3}, {2, 1}), "lengths must be [B]");
}

}  // namespace
}  // namespace tessera
