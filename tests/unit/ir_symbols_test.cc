#include <gtest/gtest.h>

#include <random>

#include "ir/symbols.h"

namespace tessera::ir {
namespace {

TEST(Symbols, EqualExpressionsAreOneNumber) {
  SymbolTable t;
  const int64_t b = t.Named("B"), s = t.Named("S");
  EXPECT_TRUE(IsSymbol(b));
  EXPECT_EQ(t.Named("B"), b);
  EXPECT_EQ(t.Find("S"), s);
  EXPECT_EQ(t.Find("T"), 0);
  EXPECT_EQ(t.Mul(b, s), t.Mul(s, b));
  EXPECT_EQ(t.Sub(t.Add(b, s), s), b);
  EXPECT_EQ(t.Sub(b, b), 0);
  EXPECT_EQ(t.Add(t.Add(b, 1), 1), t.Add(b, 2));
  EXPECT_EQ(t.Mul(2, t.Add(b, 1)), t.Add(t.Mul(2, b), 2));
  EXPECT_EQ(t.Mul(b, 0), 0);
  EXPECT_NE(t.Add(b, 1), t.Add(s, 1));
}

TEST(Symbols, Names) {
  SymbolTable t;
  const int64_t b = t.Named("B"), s = t.Named("S");
  EXPECT_EQ(t.Name(768), "768");
  EXPECT_EQ(t.Name(b), "B");
  EXPECT_EQ(t.Name(t.Mul(b, s)), "(B*S)");
  EXPECT_EQ(t.Name(t.Add(s, 1)), "(S+1)");
  EXPECT_EQ(t.Name(t.Sub(s, 1)), "(S-1)");
  EXPECT_EQ(t.Name(t.Sub(8, s)), "(8-S)");
  EXPECT_EQ(t.Name(t.FloorDiv(s, 2)), "(S/2)");
  EXPECT_EQ(t.Name(t.Mul(b, t.FloorDiv(t.Add(s, 1), 2))), "(B*((S+1)/2))");
  EXPECT_EQ(t.Name(t.Mul(s, 768)), "(768*S)");
}

TEST(Symbols, Division) {
  SymbolTable t;
  const int64_t b = t.Named("B"), s = t.Named("S");
  EXPECT_EQ(t.FloorDiv(t.Mul(b, s), s), b);
  EXPECT_EQ(t.FloorDiv(t.Mul(t.Mul(b, s), 768), t.Mul(b, 768)), s);
  EXPECT_EQ(t.FloorDiv(t.Mul(6, s), 3), t.Mul(2, s));
  EXPECT_EQ(t.FloorDiv(t.Mul(t.Add(b, 1), s), t.Add(b, 1)), s);
  EXPECT_EQ(t.FloorDiv(t.FloorDiv(s, 2), 2), t.FloorDiv(s, 4));
  EXPECT_EQ(t.FloorDiv(t.Add(s, 9), 4), t.Add(t.FloorDiv(t.Add(s, 1), 4), 2));
  EXPECT_EQ(t.FloorDiv(s, 0), SymbolTable::kUnknownDim);
}

TEST(Symbols, EqualityFacts) {
  SymbolTable t;
  const int64_t a = t.Named("A"), b = t.Named("B"), c = t.Named("C"), d = t.Named("D");
  EXPECT_FALSE(t.KnownEqual(a, b));
  EXPECT_TRUE(t.AssumeEqual(c, b));
  EXPECT_TRUE(t.AssumeEqual(b, a));
  EXPECT_TRUE(t.KnownEqual(a, c));
  EXPECT_TRUE(t.KnownEqual(t.Mul(a, d), t.Mul(d, c)));
  EXPECT_FALSE(t.KnownEqual(a, 8));
  EXPECT_TRUE(t.AssumeEqual(a, 8));
  EXPECT_TRUE(t.KnownEqual(c, 8));
  EXPECT_TRUE(t.KnownEqual(t.FloorDiv(t.Mul(c, d), 8), d));
  EXPECT_FALSE(t.AssumeEqual(b, 9));
  EXPECT_EQ(t.Facts(), "C == B, B == A, A == 8");
}

TEST(Symbols, EquationsThatCannotBeSolvedAreKept) {
  SymbolTable t;
  const int64_t a = t.Named("A"), b = t.Named("B");
  EXPECT_TRUE(t.AssumeEqual(t.Mul(a, b), 1024));
  EXPECT_TRUE(t.KnownEqual(t.Mul(t.Mul(a, 2), b), 2048));
  EXPECT_FALSE(t.KnownEqual(a, 32));
  EXPECT_FALSE(t.AssumeEqual(t.Mul(2, a), 3)) << "no whole number";
  EXPECT_TRUE(t.AssumeEqual(t.Mul(2, a), 16));
  EXPECT_TRUE(t.KnownEqual(a, 8));
}

TEST(Symbols, SymbolsAreAtLeastTwo) {
  SymbolTable t;
  EXPECT_FALSE(t.AssumeEqual(t.Named("A"), 1));
  EXPECT_FALSE(t.AssumeEqual(t.Named("A"), 0));
  EXPECT_EQ(t.Facts(), "");
}

TEST(Symbols, DivisibilityFacts) {
  SymbolTable t;
  const int64_t s = t.Named("S"), b = t.Named("B");
  EXPECT_TRUE(t.AssumeDivisible(s, 8));
  EXPECT_TRUE(t.KnownDivisible(s, 4));
  EXPECT_FALSE(t.KnownDivisible(s, 16));
  EXPECT_TRUE(t.KnownDivisible(t.Mul(b, s), 8));
  EXPECT_TRUE(t.KnownDivisible(t.Add(t.Mul(2, s), 16), 16));
  EXPECT_FALSE(t.KnownDivisible(t.Add(s, 4), 8));
  EXPECT_TRUE(t.KnownEqual(t.Mul(t.FloorDiv(s, 8), 8), s));
  EXPECT_FALSE(t.KnownEqual(t.Mul(t.FloorDiv(b, 8), 8), b));
  EXPECT_FALSE(t.AssumeEqual(s, 12));
  EXPECT_TRUE(t.AssumeEqual(b, s));
  EXPECT_TRUE(t.KnownDivisible(b, 8));
  EXPECT_FALSE(t.AssumeDivisible(s, 0));
  EXPECT_EQ(t.Facts(), "S % 8 == 0, B == S");
}

TEST(Symbols, EvaluateAgreesWithArithmetic) {
  std::mt19937_64 rng(7);
  for (int round = 0; round < 300; ++round) {
    SymbolTable t;
    std::vector<int64_t> values, dims, numbers;
    for (const char* name : {"A", "B", "C"}) {
      values.push_back(2 + static_cast<int64_t>(rng() % 30));
      dims.push_back(t.Named(name));
      numbers.push_back(values.back());
    }
    for (int step = 0; step < 8; ++step) {
      const size_t i = rng() % dims.size(), j = rng() % dims.size();
      const bool literal = rng() % 2 == 0;
      const int64_t k = 1 + static_cast<int64_t>(rng() % 6);
      const int64_t rd = literal ? k : dims[j], rn = literal ? k : numbers[j];
      int64_t d = 0, n = 0;
      switch (rng() % 4) {
        case 0: d = t.Add(dims[i], rd), n = numbers[i] + rn; break;
        case 1: d = t.Sub(dims[i], rd), n = numbers[i] - rn; break;
        case 2:
          d = t.Mul(dims[i], rd);
          if (__builtin_mul_overflow(numbers[i], rn, &n)) continue;
          break;
        default:
          if (rn == 0) continue;
          d = t.FloorDiv(dims[i], rd);
          n = numbers[i] / rn - (numbers[i] % rn != 0 && (numbers[i] < 0) != (rn < 0));
      }
      if (!t.Contains(d) || n > (int64_t{1} << 40) || n < -(int64_t{1} << 40)) continue;
      ASSERT_EQ(IsSymbol(d) ? t.Evaluate(d, values) : d, n) << t.Name(d);
      dims.push_back(d);
      numbers.push_back(n);
    }
  }
}

TEST(Symbols, ExpressionsAreBounded) {
  SymbolTable t;
  int64_t d = t.Named("A");
  for (int i = 0; i < 1000; ++i) d = t.Add(t.FloorDiv(d, t.Named("B")), d);
  EXPECT_EQ(d, SymbolTable::kUnknownDim);
  EXPECT_FALSE(t.KnownEqual(d, d));
  int64_t m = t.Named("A");
  for (int i = 0; i < 100; ++i) m = t.Mul(m, 2);
  EXPECT_EQ(m, SymbolTable::kUnknownDim);
}

TEST(Symbols, Substitute) {
  SymbolTable callee, caller;
  const int64_t n = callee.Named("N"), m = callee.Named("M");
  const int64_t e = callee.FloorDiv(callee.Add(callee.Mul(n, m), 1), 2);
  const int64_t b = caller.Named("B");
  EXPECT_EQ(caller.Substitute(callee, e, {b, 4}), caller.FloorDiv(caller.Add(caller.Mul(b, 4), 1), 2));
  EXPECT_EQ(caller.Substitute(callee, e, {3, 5}), 8);
  EXPECT_EQ(caller.Substitute(callee, e, {3}), SymbolTable::kUnknownDim);
}

TEST(Symbols, CheckFacts) {
  SymbolTable t;
  const int64_t b = t.Named("B"), s = t.Named("S");
  ASSERT_TRUE(t.AssumeDivisible(s, 8));
  ASSERT_TRUE(t.AssumeEqual(b, t.Add(s, 1)));
  EXPECT_TRUE(t.CheckFacts({17, 16}).ok());
  EXPECT_EQ(t.CheckFacts({13, 12}).message(), "the dims must satisfy S % 8 == 0, but S is 12");
  EXPECT_EQ(t.CheckFacts({16, 16}).message(), "the dims must satisfy B == (S+1), but B is 16, (S+1) is 17");
}

TEST(Symbols, NumbersWithoutATable) {
  EXPECT_EQ(DimAdd(nullptr, -2, 1), -1);
  EXPECT_EQ(DimFloorDiv(nullptr, -3, 2), -2);
  EXPECT_EQ(DimMul(nullptr, int64_t{1} << 40, int64_t{1} << 40), std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(DimEqual(nullptr, 3, 3));
  EXPECT_EQ(DimName(nullptr, 3), "3");
}

}  // namespace
}  // namespace tessera::ir
