// Generated matrix products and attention against sums in double: every way to cut them, layouts, dtypes, batches, what
// comes before a product and what follows it, and odd sizes.
#include "tests/unit/tiers_code_testing.h"

namespace tessera {
namespace {

class TiersCodeProducts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  }
};

struct Matrix {
  int64_t rows, columns;
  std::vector<double> at;  // row-major
  double operator()(int64_t i, int64_t j) const { return at[static_cast<size_t>(i * columns + j)]; }
};

Matrix MatrixOf(const Tensor& x) { return {x.dim(-2), x.dim(-1), x.to_vector<double>()}; }

double Unit(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-52;
    case DType::f32: return 0x1p-23;
    case DType::f16: return 0x1p-10;
    default: return 0x1p-7;
  }
}

/// y = a b, element by element, within what so many roundings may do. A narrow result is rounded once more.
void ExpectProduct(const Tensor& a, const Tensor& b, const Tensor& y) {
  const Matrix x = MatrixOf(a), z = MatrixOf(b), got = MatrixOf(y);
  ASSERT_EQ(got.rows, x.rows);
  ASSERT_EQ(got.columns, z.columns);
  const double sums = std::max(Unit(y.dtype()) == 0x1p-52 ? 0x1p-52 : 0x1p-23, 0x1p-52);
  for (int64_t i = 0; i < got.rows; ++i) {
    for (int64_t j = 0; j < got.columns; ++j) {
      double sum = 0, scale = 0;
      for (int64_t k = 0; k < x.columns; ++k) {
        sum += x(i, k) * z(k, j);
        scale += std::abs(x(i, k) * z(k, j));
      }
      const double bound = (8 + static_cast<double>(x.columns) / 2) * sums * scale + Unit(y.dtype()) * std::abs(sum);
      ASSERT_NEAR(got(i, j), sum, bound) << i << ", " << j;
    }
  }
}

/// Calls `body` in steps, with fresh inputs each time, until generated code must have run.
void Steps(Way way, const std::string& schedule, const std::function<void(uint64_t seed)>& body, bool kernels = true) {
  SCOPED_TRACE(absl::StrCat(NameOf(way), " ", schedule));
  Settings settings = CodeAtOnce(way, /*bitwise=*/false);
  settings["hot_eager"] = "1000000";
  settings["schedule"] = schedule;
  const OptionScope scope(settings);
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  const int64_t before = MetricNow("kernels_generated"), failed = MetricNow("codes_failed");
  for (uint64_t i = 0; i < 10 && !::testing::Test::HasFailure(); ++i) body(i);
  EXPECT_EQ(MetricNow("codes_failed"), failed) << Runtime::explain();
  if (kernels) EXPECT_GT(MetricNow("kernels_generated"), before) << Runtime::explain();
}

constexpr Way kTiers[] = {{2, true}, {3, true}};

struct Shape {
  int64_t m, n, k;
};

/// The product and something that follows it, so that eager steps have two ops.
void CheckShape(Way way, const std::string& schedule, Shape s, bool ta, bool tb, DType dtype = f32) {
  SCOPED_TRACE(absl::StrCat(s.m, " x ", s.n, " x ", s.k, ta ? " ta" : "", tb ? " tb" : ""));
  Steps(
      way, schedule,
      [&](uint64_t seed) {
        const Tensor a = Uniform(ta ? Dims{s.k, s.m} : Dims{s.m, s.k}, seed, -2, 2, dtype);
        const Tensor b = Uniform(tb ? Dims{s.n, s.k} : Dims{s.k, s.n}, seed + 100, -2, 2, dtype);
        Tensor y, twice;
        {
          const Step step;
          y = matmul(a, b, ta, tb);
          twice = y + y;
        }
        ExpectProduct(ta ? transpose(a, {1, 0}) : a, tb ? transpose(b, {1, 0}) : b, y);
        const std::vector<double> one = y.to_vector<double>(), two = twice.to_vector<double>();
        for (size_t i = 0; i < one.size(); ++i) ASSERT_EQ(one[i] * 2, two[i]);
      },
      s.n > 1 && schedule != "*:form=library");
}

TEST_F(TiersCodeProducts, EveryFormAndLayout) {
  const Shape shapes[] = {{1, 1, 1}, {2, 3, 5}, {7, 33, 19}, {8, 64, 70}, {37, 53, 29}, {65, 130, 300}};
  // Columns of a register tile are whole vectors, of which those of x86-64 may have 16 elements.
#if defined(__x86_64__)
  constexpr char kOdd[] = "*:form=packed,rows=12,columns=96,depth=7,mr=3,nr=48,copy=1";
  constexpr char kThin[] = "*:form=packed,rows=5,columns=112,depth=1000,mr=5,nr=16";
#else
  constexpr char kOdd[] = "*:form=packed,rows=12,columns=24,depth=7,mr=6,nr=12,copy=1";
  constexpr char kThin[] = "*:form=packed,rows=5,columns=100,depth=1000,mr=5,nr=4";
#endif
  for (const char* schedule :
       {"", "*:form=packed,rows=8,columns=32,depth=16,mr=4,nr=16", kOdd, kThin, "*:form=library"}) {
    for (const Shape s : shapes)
      for (const auto& [ta, tb] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
        const Way way = kTiers[(s.m + ta) % 2];
        CheckShape(way, schedule, s, ta, tb);
        if (HasFailure()) return;
      }
  }
}

TEST_F(TiersCodeProducts, FewRows) {
  for (const Way way : kTiers)
    for (int64_t m = 1; m <= 9; ++m)
      for (const bool tb : {false, true}) {
        CheckShape(way, "", {m, 45 + m, 83}, false, tb);
        if (HasFailure()) return;
      }
}

/// Of known sizes, with columns that are whole vectors: factors are read where they lie.
TEST_F(TiersCodeProducts, SmallOnes) {
  for (const DType dtype : {f32, f64, f16})
    for (const Shape s : {Shape{1, 16, 16}, Shape{8, 16, 16}, Shape{16, 16, 8}, Shape{13, 48, 21}, Shape{70, 64, 5},
                          Shape{300, 32, 33}})
      for (const auto& [ta, tb] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
        SCOPED_TRACE(std::string(Name(dtype)));
        CheckShape(kTiers[1], "", s, ta, tb, dtype);
        if (HasFailure()) return;
      }
}

TEST_F(TiersCodeProducts, SmallOnesOfViewsAndBatches) {
  Steps(kTiers[1], "", [](uint64_t seed) {
    const Tensor whole = Uniform({40, 60}, seed), other = Uniform({40, 64}, seed + 1),
                 some = Uniform({3, 9, 10}, seed + 2);
    Tensor a, b, y, z;
    {
      const Step step;
      a = slice(whole, {5, 3}, {38, 13}, {1, 1});  // 33 x 10, rows apart
      b = slice(other, {0, 8}, {20, 40}, {2, 1});  // 10 x 32, every other row
      y = relu(matmul(a, b));
      z = relu(matmul(some, b));
    }
    const Matrix r = MatrixOf(b);
    const auto expect = [&](const Tensor& left, const Tensor& got) {
      const Matrix x = MatrixOf(left), out = MatrixOf(got);
      for (int64_t i = 0; i < out.rows; ++i)
        for (int64_t j = 0; j < out.columns; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < x.columns; ++k) sum += x(i, k) * r(k, j);
          ASSERT_NEAR(out(i, j), std::max(sum, 0.0), 1e-4);
        }
    };
    expect(a, y);
    expect(reshape(some, {27, 10}), reshape(z, {27, 32}));
  });
}

TEST_F(TiersCodeProducts, DTypes) {
  for (const DType dtype : {f64, f16, bf16})
    for (const Way way : kTiers)
      for (const Shape s : {Shape{33, 47, 65}, Shape{3, 40, 33}}) {
        SCOPED_TRACE(std::string(Name(dtype)));
        // Without one they are the core's where it has instructions for them.
        const std::string schedule = dtype == bf16 ? "*:form=packed" : "";
        CheckShape(way, schedule, s, false, false, dtype);
        CheckShape(way, schedule, s, true, true, dtype);
        if (HasFailure()) return;
      }
}

/// bf16 as it is, two or four elements at a time: what the machine has no instructions for is taken apart.
TEST_F(TiersCodeProducts, WordsOfBf16) {
#if defined(__x86_64__)
  constexpr const char* kSchedules[] = {"*:form=packed,words=1",
                                        "*:form=packed,rows=12,columns=96,depth=20,mr=3,nr=48,words=1"};
#else
  constexpr const char* kSchedules[] = {"*:form=packed,words=1", "*:form=packed,words=2",
                                        "*:form=packed,rows=12,columns=24,depth=20,mr=6,nr=12,words=2"};
#endif
  for (const char* schedule : kSchedules)
    for (const Way way : kTiers)
      for (const Shape s : {Shape{33, 47, 65}, Shape{3, 40, 33}, Shape{9, 70, 1}, Shape{16, 96, 64}})
        for (const auto& [ta, tb] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
          CheckShape(way, schedule, s, ta, tb, bf16);
          if (HasFailure()) return;
        }
}

TEST_F(TiersCodeProducts, SumsInManyPieces) {
  CheckShape(kTiers[0], "", {20, 40, 3000}, false, false);
  CheckShape(kTiers[1], "", {20, 40, 3000}, false, true);
}

TEST_F(TiersCodeProducts, ViewsAsFactors) {
  for (const Way way : kTiers) {
    Steps(way, "", [](uint64_t seed) {
      const Tensor whole = Uniform({40, 60}, seed), other = Uniform({90, 50}, seed + 1);
      Tensor a, b, c, y, z;
      {
        const Step step;
        a = slice(whole, {5, 3}, {38, 48}, {1, 1});                     // 33 x 45, rows apart
        b = slice(other, {0, 0}, {90, 50}, {2, 1});                     // 45 x 50, every other row
        c = transpose(slice(other, {0, 0}, {45, 50}, {1, 1}), {1, 0});  // 50 x 45
        y = relu(matmul(a, b));
        z = relu(matmul(a, c, false, true));
      }
      for (const auto& [got, right] : {std::pair{y, b}, {z, transpose(c, {1, 0})}}) {
        const Matrix x = MatrixOf(a), r = MatrixOf(right), out = MatrixOf(got);
        for (int64_t i = 0; i < out.rows; ++i)
          for (int64_t j = 0; j < out.columns; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < x.columns; ++k) sum += x(i, k) * r(k, j);
            ASSERT_NEAR(out(i, j), std::max(sum, 0.0), 1e-4);
          }
      }
    });
    if (HasFailure()) return;
  }
}

TEST_F(TiersCodeProducts, BatchesAreBroadcast) {
  for (const Way way : kTiers) {
    Steps(way, "", [](uint64_t seed) {
      const Tensor a = Uniform({2, 1, 9, 20}, seed), b = Uniform({3, 20, 17}, seed + 1), bias = Uniform({17}, seed + 2);
      Tensor y;
      {
        const Step step;
        y = matmul(a, b) + bias;
      }
      ASSERT_EQ(y.dims(), (Dims{2, 3, 9, 17}));
      const auto x = a.to_vector<double>(), z = b.to_vector<double>(), add = bias.to_vector<double>(),
                 got = y.to_vector<double>();
      size_t at = 0;
      for (size_t p = 0; p < 2; ++p)
        for (size_t q = 0; q < 3; ++q)
          for (size_t i = 0; i < 9; ++i)
            for (size_t j = 0; j < 17; ++j, ++at) {
              double sum = add[j];
              for (size_t k = 0; k < 20; ++k) sum += x[(p * 9 + i) * 20 + k] * z[(q * 20 + k) * 17 + j];
              ASSERT_NEAR(got[at], sum, 1e-4);
            }
    });
    if (HasFailure()) return;
  }
}

/// What follows a product is fused with it: bias, activation, residual, a number, rows that are reduced.
TEST_F(TiersCodeProducts, WhatFollows) {
  for (const Way way : kTiers) {
    for (const int64_t n : {16, 45, 200}) {
      Steps(way, "", [&](uint64_t seed) {
        const Tensor a = Uniform({23, 31}, seed), b = Uniform({31, n}, seed + 1), bias = Uniform({n}, seed + 2),
                     residual = Uniform({23, n}, seed + 3);
        Tensor p, y, z, s;
        {
          const Step step;
          p = matmul(a, b);
          y = relu(p + bias) * 0.5 + residual;
          z = softmax(matmul(a, b) * 0.25, -1);
          s = sum(matmul(a, b), -1, true);
        }
        ExpectProduct(a, b, p);
        const Matrix product = MatrixOf(p), got = MatrixOf(y), soft = MatrixOf(z), sums = MatrixOf(s);
        const auto add = bias.to_vector<double>();
        const Matrix rest = MatrixOf(residual);
        for (int64_t i = 0; i < 23; ++i) {
          double largest = -1e300, total = 0, whole = 0;
          for (int64_t j = 0; j < n; ++j) largest = std::max(largest, product(i, j) * 0.25);
          for (int64_t j = 0; j < n; ++j) {
            total += std::exp(product(i, j) * 0.25 - largest);
            whole += product(i, j);
          }
          ASSERT_NEAR(sums(i, 0), whole, 1e-2);
          for (int64_t j = 0; j < n; ++j) {
            const double want = std::max(product(i, j) + add[static_cast<size_t>(j)], 0.0) * 0.5 + rest(i, j);
            ASSERT_NEAR(got(i, j), want, 1e-4);
            ASSERT_NEAR(soft(i, j), std::exp(product(i, j) * 0.25 - largest) / total, 1e-4);
          }
        }
      });
      if (HasFailure()) return;
    }
  }
}

TEST_F(TiersCodeProducts, EmptyAndSpecial) {
  for (const Way way : kTiers) {
    // Nothing to add up gives zeros; nothing to compute is nothing.
    for (const Shape s : {Shape{3, 5, 0}, Shape{0, 5, 4}, Shape{3, 0, 4}}) {
      Steps(
          way, "",
          [&](uint64_t seed) {
            const Tensor a = Uniform({s.m, s.k}, seed), b = Uniform({s.k, s.n}, seed);
            const Step step;
            const Tensor y = matmul(a, b) + 1.0;
            for (const double v : y.to_vector<double>()) ASSERT_EQ(v, 1.0);
          },
          false);
    }
    // A NaN or an infinity spoils its row or column and nothing else, also at the edge of a tile.
    Steps(way, "", [&](uint64_t seed) {
      std::vector<float> left(19 * 21, 1), right(21 * 35, 1);
      left[18 * 21 + 20] = std::numeric_limits<float>::quiet_NaN();
      right[20 * 35 + 34] = std::numeric_limits<float>::infinity();
      left[0] = static_cast<float>(seed);
      const Tensor a = Tensor::from(left, {19, 21}), b = Tensor::from(right, {21, 35});
      Tensor y;
      {
        const Step step;
        y = matmul(a, b) + 0.0;
      }
      const Matrix got = MatrixOf(y);
      for (int64_t i = 0; i < 19; ++i)
        for (int64_t j = 0; j < 35; ++j) {
          if (i == 18)
            ASSERT_TRUE(std::isnan(got(i, j)));
          else if (j == 34)
            ASSERT_TRUE(std::isinf(got(i, j)));
          else
            ASSERT_EQ(got(i, j), i == 0 ? 20 + static_cast<double>(seed) : 21);
        }
    });
    if (HasFailure()) return;
  }
}

// ---- what is computed before a product

/// Operands of what is computed: x[m, k], another of its dims, a row, a column, a number.
struct Left {
  Tensor x, full, row, column, number;
};
Left LeftOf(std::vector<int64_t> dims, uint64_t seed, DType dtype) {
  Left left;
  left.x = Uniform(dims, seed + 1, -2, 2, dtype);
  left.full = Uniform(dims, seed + 2, -2, 2, dtype);
  left.row = Uniform({dims.back()}, seed + 3, -2, 2, dtype);
  left.number = Uniform({}, seed + 5, -2, 2, dtype);
  dims.back() = 1;
  left.column = Uniform(dims, seed + 4, -2, 2, dtype);
  return left;
}

/// However many threads there are, all columns are in one block, so that what comes before is computed once.
constexpr char kOneBlock[] = "*:form=packed,columns=960";

/// What tier 1 computes in each of the rounds of Steps(). Nothing is computed between steps: it would be recorded, too.
std::vector<Tensor> InTier1(const std::function<Tensor(uint64_t seed)>& round) {
  const OptionScope scope({{"tier", "1"}});
  std::vector<Tensor> all;
  for (uint64_t seed = 0; seed < 10; ++seed) all.push_back(round(seed));
  return all;
}

/// `round` in steps gives what it gives in tier 1, about, in so many generated kernels.
void CheckRounds(Way way, int64_t kernels, const std::function<Tensor(uint64_t seed)>& round) {
  const std::vector<Tensor> want = InTier1(round);
  int64_t ran = -1;
  Steps(way, kOneBlock, [&](uint64_t seed) {
    Tensor y;
    const int64_t start = MetricNow("kernels_generated");
    {
      const Step step;
      y = round(seed);
    }
    const auto got = y.to_vector<double>(), expected = want[seed].to_vector<double>();
    ran = std::max(ran, MetricNow("kernels_generated") - start);
    ASSERT_EQ(y.dims(), want[seed].dims());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << i;
  });
  EXPECT_EQ(ran, kernels) << Runtime::explain();
}

using Before = std::function<Tensor(const Left&)>;
const std::pair<const char*, Before> kBefore[] = {
    {"gelu of rows", [](const Left& l) { return gelu(l.x * l.row + l.row); }},
    {"gated", [](const Left& l) { return silu(l.x) * l.row; }},
    {"scaled rows", [](const Left& l) { return relu(l.x * l.column + 0.5); }},
    {"a number", [](const Left& l) { return (l.x - l.number) * l.number; }},
    {"a condition", [](const Left& l) { return where(l.x > l.row, l.x * 0.25, l.column); }},
    {"other dtypes", [](const Left& l) { return cast(cast(l.x * l.column, i32), l.x.dtype()) + l.row; }},
};

/// One product of what is computed in a step, and how many generated kernels that takes. What tier 1 computes must be
/// what is multiplied, to the bit.
void CheckBefore(Way way, const std::string& schedule, Shape s, DType dtype, const Before& before, int64_t kernels,
                 bool tb = false) {
  const auto operands = [&](uint64_t seed) { return LeftOf({s.m, s.k}, 10 * seed, dtype); };
  const std::vector<Tensor> lefts = InTier1([&](uint64_t seed) { return before(operands(seed)); });
  int64_t ran = -1;
  Steps(
      way, schedule,
      [&](uint64_t seed) {
        const Left left = operands(seed);
        const Tensor w = Uniform(tb ? Dims{s.n, s.k} : Dims{s.k, s.n}, seed + 100, -2, 2, dtype);
        Tensor y;
        const int64_t start = MetricNow("kernels_generated");
        {
          const Step step;
          y = matmul(before(left), w, false, tb);
        }
        (void)y.to_bytes();
        ran = std::max(ran, MetricNow("kernels_generated") - start);
        ExpectProduct(lefts[seed], tb ? transpose(w, {1, 0}) : w, y);
      },
      kernels > 0);
  if (kernels >= 0) EXPECT_EQ(ran, kernels) << Runtime::explain();
}

TEST_F(TiersCodeProducts, WhatComesBefore) {
  for (const auto& [name, before] : kBefore)
    for (const Way way : kTiers)
      for (const Shape s : {Shape{37, 53, 29}, {64, 64, 64}, {65, 130, 700}, {9, 40, 3}, {300, 17, 33}}) {
        SCOPED_TRACE(absl::StrCat(name, ": ", s.m, " x ", s.n, " x ", s.k));
        CheckBefore(way, kOneBlock, s, f32, before, 1);
        if (HasFailure()) return;
      }
}

TEST_F(TiersCodeProducts, DTypesOfWhatComesBefore) {
  for (const auto& [name, before] : kBefore)
    for (const DType dtype : {f64, bf16, f16})
      for (const Way way : kTiers)
        for (const Shape s : {Shape{37, 53, 229}, {64, 48, 16}}) {
          SCOPED_TRACE(absl::StrCat(name, " ", std::string(Name(dtype)), ": ", s.m, " x ", s.n, " x ", s.k));
          CheckBefore(way, kOneBlock, s, dtype, before, 1);
          if (HasFailure()) return;
        }
}

TEST_F(TiersCodeProducts, WordsOfWhatComesBefore) {
  const std::string schedule = std::string(kOneBlock) + ",words=1";
  for (const auto& [name, before] : kBefore)
    for (const Way way : kTiers)
      for (const Shape s : {Shape{37, 53, 229}, {64, 48, 16}}) {
        SCOPED_TRACE(absl::StrCat(name, ": ", s.m, " x ", s.n, " x ", s.k));
        CheckBefore(way, schedule, s, bf16, before, 1);
        if (HasFailure()) return;
      }
}

/// Other cuts compute it more often, or not in the product's kernel.
TEST_F(TiersCodeProducts, WhatComesBeforeHoweverItIsCut) {
  const Before gated = kBefore[1].second, scaled = kBefore[2].second;
  for (const Way way : kTiers) {
    for (const char* schedule :
         {"*:rows=16,columns=48,depth=24,mr=4,nr=48", "*:depth=1000,columns=96,nr=48", "*:copy=1"})
      CheckBefore(way, schedule, {70, 130, 100}, f32, gated, -1);
    CheckBefore(way, "*:form=library", {70, 130, 100}, f32, gated, 1);
    CheckBefore(way, "*:form=stream,mr=4", {70, 130, 100}, f32, scaled, 2);
    CheckBefore(way, "*:form=dot,mr=2,nr=2", {70, 130, 100}, f32, scaled, 2, /*tb=*/true);
    CheckBefore(way, kOneBlock, {70, 130, 100}, f32, scaled, 1, /*tb=*/true);
    CheckBefore(way, "", {70, 130, 100}, f32, scaled, -1);
    // Two operands of all elements are read faster as two runs.
    CheckBefore(way, kOneBlock, {70, 130, 100}, f32, [](const Left& l) { return silu(l.x) * l.full; }, 2);
    // Few rows are multiplied where they lie.
    CheckBefore(way, "", {5, 130, 100}, f32, scaled, 2);
    if (HasFailure()) return;
  }
}

/// All of one size, so that operands of both sides could be taken for each other.
TEST_F(TiersCodeProducts, BeforeAndAfter) {
  const auto operands = [](uint64_t seed) { return LeftOf({40, 40}, 10 * seed, f32); };
  const auto left = [](const Left& l) { return gelu(l.x * l.row) + l.column; };
  for (const Way way : kTiers) {
    CheckRounds(way, 1, [&](uint64_t seed) {
      const Left l = operands(seed);
      return relu(matmul(left(l), Uniform({40, 40}, seed)) + l.row) * l.column + l.x;
    });
    CheckRounds(way, 1, [&](uint64_t seed) {
      const Left l = operands(seed);
      return softmax(matmul(left(l), Uniform({40, 40}, seed)) * l.number, -1) + l.column;
    });
    // The right factor is an operand of what is computed for the left one; the same is computed on both sides.
    CheckRounds(way, 1, [&](uint64_t seed) {
      const Left l = operands(seed);
      return matmul(relu(l.x + l.row), l.x) + relu(l.x + l.row);
    });
    if (HasFailure()) return;
  }
}

/// Batches of the result are those of the left factor, or it is computed once, in a kernel of its own.
TEST_F(TiersCodeProducts, BatchesOfWhatComesBefore) {
  using Sizes = std::vector<int64_t>;
  for (const Way way : kTiers)
    for (const auto& [left, right, kernels] : {std::tuple<Sizes, Sizes, int64_t>{{2, 3, 20, 30}, {30, 17}, 1},
                                               {{2, 3, 20, 30}, {3, 30, 17}, 1},
                                               {{20, 30}, {3, 30, 17}, 2},
                                               {{1, 20, 30}, {3, 30, 17}, 2}}) {
      CheckRounds(way, kernels, [&, &left = left, &right = right](uint64_t seed) {
        const Left l = LeftOf(left, 10 * seed, f32);
        return matmul((l.x + l.row) * l.column, Uniform(right, seed));
      });
      if (HasFailure()) return;
    }
}

TEST_F(TiersCodeProducts, ViewsAndHandlesBeforeAProduct) {
  // Columns for rows, every other element of a row, a column of something wider.
  const auto left = [](uint64_t seed) {
    const Tensor whole = Uniform({60, 70}, seed), row = Uniform({66}, seed + 2);
    return relu(transpose(slice(whole, {3, 2}, {36, 47}, {1, 1}), {1, 0}) + slice(row, {0}, {66}, {2})) *
           slice(whole, {1, 4}, {46, 5}, {1, 1});
  };
  for (const Way way : kTiers) {
    CheckRounds(way, 1, [&](uint64_t seed) { return matmul(left(seed), Uniform({33, 50}, seed)); });
    // Somebody holds it.
    Tensor held;
    CheckRounds(way, 2, [&](uint64_t seed) {
      held = left(seed);
      return matmul(held, Uniform({33, 50}, seed));
    });
    if (HasFailure()) return;
  }
}

TEST_F(TiersCodeProducts, NothingBeforeAProduct) {
  for (const Way way : kTiers)
    for (const Shape s : {Shape{12, 5, 0}, {0, 5, 4}, {12, 0, 4}}) {
      Steps(
          way, "",
          [&](uint64_t seed) {
            const Left left = LeftOf({s.m, s.k}, seed, f32);
            const Tensor w = Uniform({s.k, s.n}, seed);
            const Step step;
            const Tensor y = matmul(gelu(left.x * left.row) + left.column, w) + 1.0;
            ASSERT_EQ(y.dims(), (Dims{s.m, s.n}));
            const auto got = y.to_vector<double>();
            if (s.k == 0)
              for (const double v : got) ASSERT_EQ(v, 1.0);
          },
          false);
      if (HasFailure()) return;
    }
}

/// The code of tier 2 computes it for any sizes.
TEST_F(TiersCodeProducts, OneCodeForAllShapesBefore) {
  const int64_t made = MetricNow("codes_made");
  Settings settings = CodeAtOnce({2, true}, false);
  settings["hot_eager"] = "1000000";
  settings["schedule"] = kOneBlock;
  const OptionScope scope(settings);
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  int64_t ran = 0;
  for (int64_t i = 0; i < 60; ++i) {
    const int64_t m = 10 + i * 7 % 40, k = 2 + i * 61 % 300, n = 2 + i * 13 % 70;
    const Left left = LeftOf({m, k}, static_cast<uint64_t>(i), f32);
    const Tensor w = Uniform({k, n}, static_cast<uint64_t>(i) + 1);
    Tensor y;
    const int64_t start = MetricNow("kernels_generated");
    {
      const Step step;
      y = matmul(relu(left.x * left.row) + left.column, w);
    }
    const Matrix x = MatrixOf(left.x), z = MatrixOf(w), got = MatrixOf(y);
    ran = std::max(ran, MetricNow("kernels_generated") - start);
    const auto row = left.row.to_vector<double>(), column = left.column.to_vector<double>();
    for (int64_t r = 0; r < m; ++r)
      for (int64_t c = 0; c < n; ++c) {
        double sum = 0;
        for (int64_t e = 0; e < k; ++e)
          sum += (std::max(x(r, e) * row[static_cast<size_t>(e)], 0.0) + column[static_cast<size_t>(r)]) * z(e, c);
        ASSERT_NEAR(got(r, c), sum, 1e-3) << r << ", " << c << " of " << m << " x " << n << " x " << k;
      }
    if (HasFailure()) return;
  }
  EXPECT_EQ(ran, 1) << Runtime::explain();
  EXPECT_LE(MetricNow("codes_made") - made, 6) << Runtime::explain();
}

// ---- attention

struct AttentionCase {
  int64_t batch, heads, queries, keys, depth, width;
};

/// softmax(scale q k^T + mask) v in double; minus infinity where a key is masked.
std::vector<double> Attention(const AttentionCase& c, const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                              const std::function<double(int64_t head, int64_t i, int64_t j)>& mask) {
  const auto x = q.to_vector<double>(), y = k.to_vector<double>(), z = v.to_vector<double>();
  std::vector<double> out;
  for (int64_t h = 0; h < c.batch * c.heads; ++h)
    for (int64_t i = 0; i < c.queries; ++i) {
      std::vector<double> s;
      double largest = -std::numeric_limits<double>::infinity(), total = 0;
      for (int64_t j = 0; j < c.keys; ++j) {
        double sum = 0;
        for (int64_t d = 0; d < c.depth; ++d)
          sum += x[static_cast<size_t>((h * c.queries + i) * c.depth + d)] *
                 y[static_cast<size_t>((h * c.keys + j) * c.depth + d)];
        s.push_back(sum * scale + mask(h, i, j));
        largest = std::max(largest, s.back());
      }
      for (double& e : s) {
        e = std::isinf(e) ? 0 : std::exp(e - largest);
        total += e;
      }
      for (int64_t d = 0; d < c.width; ++d) {
        double sum = 0;
        for (int64_t j = 0; j < c.keys; ++j)
          sum += s[static_cast<size_t>(j)] * z[static_cast<size_t>((h * c.keys + j) * c.width + d)];
        out.push_back(total == 0 ? 0 : sum / total);
      }
    }
  return out;
}

void ExpectClose(const Tensor& y, const std::vector<double>& want, double bound) {
  const auto got = y.to_vector<double>();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], bound) << i;
}

constexpr AttentionCase kCases[] = {
    {1, 2, 17, 33, 8, 8}, {2, 3, 64, 64, 16, 16}, {1, 1, 5, 300, 40, 24}, {1, 4, 1, 77, 64, 64}, {2, 2, 40, 9, 7, 33}};

TEST_F(TiersCodeProducts, AttentionByHand) {
  for (const Way way : kTiers)
    for (const AttentionCase& c : kCases) {
      SCOPED_TRACE(absl::StrCat(c.queries, " queries, ", c.keys, " keys"));
      Steps(way, "", [&](uint64_t seed) {
        const Tensor q = Uniform({c.batch, c.heads, c.queries, c.depth}, seed),
                     k = Uniform({c.batch, c.heads, c.keys, c.depth}, seed + 1),
                     v = Uniform({c.batch, c.heads, c.keys, c.width}, seed + 2),
                     add = Uniform({c.queries, c.keys}, seed + 3);
        Tensor y;
        {
          const Step step;
          y = matmul(softmax(matmul(q, k, false, true) * 0.3 + add, -1), v);
        }
        const auto bias = add.to_vector<double>();
        ExpectClose(y,
                    Attention(c, q, k, v, 0.3,
                              [&](int64_t, int64_t i, int64_t j) { return bias[static_cast<size_t>(i * c.keys + j)]; }),
                    2e-5);
      });
      if (HasFailure()) return;
    }
}

TEST_F(TiersCodeProducts, AttentionOp) {
  for (const Way way : kTiers)
    for (const AttentionCase& c : kCases)
      for (const std::string kind : {"plain", "causal", "added", "bool"}) {
        SCOPED_TRACE(absl::StrCat(c.queries, " queries, ", c.keys, " keys, ", kind));
        Steps(way, "", [&](uint64_t seed) {
          const Tensor q = Uniform({c.batch, c.heads, c.queries, c.depth}, seed),
                       k = Uniform({c.batch, c.heads, c.keys, c.depth}, seed + 1),
                       v = Uniform({c.batch, c.heads, c.keys, c.width}, seed + 2),
                       add = Uniform({c.queries, c.keys}, seed + 3), keep = add > 0.7;
          Tensor y;
          {
            const Step step;
            const Tensor a = kind == "plain"    ? attention(q, k, v)
                             : kind == "causal" ? attention(q, k, v, {}, true)
                             : kind == "added"  ? attention(q, k, v, add)
                                                : attention(q, k, v, keep, false, 0.2);
            y = a + 0.0;
          }
          const auto bias = add.to_vector<double>();
          const double hidden = -std::numeric_limits<double>::infinity();
          const double scale = kind == "bool" ? 0.2 : 1 / std::sqrt(static_cast<double>(c.depth));
          ExpectClose(y,
                      Attention(c, q, k, v, scale,
                                [&](int64_t, int64_t i, int64_t j) {
                                  const double b = bias[static_cast<size_t>(i * c.keys + j)];
                                  if (kind == "causal") return j <= i + c.keys - c.queries ? 0.0 : hidden;
                                  return kind == "added" ? b : kind == "bool" ? (b > 0.7f ? 0.0 : hidden) : 0.0;
                                }),
                      2e-5);
        });
        if (HasFailure()) return;
      }
}

/// Sizes may change under code that reads them.
TEST_F(TiersCodeProducts, OneCodeForAllShapes) {
  const int64_t made = MetricNow("codes_made");
  Settings settings = CodeAtOnce({2, true}, false);
  settings["hot_eager"] = "1000000";
  const OptionScope scope(settings);
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  for (int64_t i = 0; i < 60; ++i) {
    const Tensor a = Uniform({1 + i * 7 % 40, 2 + i * 61 % 90}, static_cast<uint64_t>(i)),
                 b = Uniform({2 + i * 61 % 90, 2 + i * 13 % 70}, static_cast<uint64_t>(i) + 1);
    Tensor y;
    {
      const Step step;
      y = matmul(a, b);
      (void)(y + 1.0).impl();
    }
    ExpectProduct(a, b, y);
    if (HasFailure()) return;
  }
  EXPECT_LE(MetricNow("codes_made") - made, 6) << Runtime::explain();
}

/// A schedule that makes no sense costs the generated code, not the program.
TEST_F(TiersCodeProducts, BadSchedules) {
  for (const char* schedule :
       {"*:mr=0", "*:nr=100000", "*:rows=-4", "*:depth=0", "*:form=stream,rows=8,mr=4", "*:nr=5", "*:form=dot",
        "*:form=dot,copy=1", "*:form=stream,copy=1", "*:form=direct,mr=4,nr=16", "*:form=direct,mr=4,nr=16,copy=1"}) {
    Settings settings = CodeAtOnce({3, true}, false);
    settings["schedule"] = schedule;
    const OptionScope scope(settings);
    tiers::Manager::Get().Reset();
    for (uint64_t i = 0; i < 6; ++i) {
      const Tensor a = Uniform({20, 30}, i), b = Uniform({30, 40}, i + 1);
      Tensor y;
      {
        const Step step;
        y = matmul(a, b);
        (void)(y + 1.0).impl();
      }
      ExpectProduct(a, b, y);
    }
  }
}

}  // namespace
}  // namespace tessera
