// Generated reductions, softmax and norms against f64 arithmetic, within the bounds of the op table: the ops
// themselves, and the same written by hand from smaller ones.
#include "tests/unit/cpu_rows_testing.h"
#include "tests/unit/tiers_code_testing.h"

namespace tessera {
namespace {

using rows_testing::Epsilon;
using rows_testing::SmallestStep;

class TiersCodeRows : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  }
};

/// A value in f64, and how large the terms were that made it: errors count in units of that.
struct Exact {
  double value;
  double scale;
};
using Rows = std::vector<std::vector<double>>;
using Reference = std::function<std::vector<Exact>(const std::vector<double>& row)>;

double Sum(const std::vector<double>& x, const std::function<double(double)>& f = [](double v) { return v; }) {
  long double sum = 0;
  for (const double v : x) sum += f(v);
  return static_cast<double>(sum);
}
double Largest(const std::vector<double>& x) {
  double best = -std::numeric_limits<double>::infinity();
  for (const double v : x) best = v > best || std::isnan(v) ? v : best;
  return best;
}
double Smallest(const std::vector<double>& x) {
  double best = std::numeric_limits<double>::infinity();
  for (const double v : x) best = v < best || std::isnan(v) ? v : best;
  return best;
}
double Absolute(double v) { return std::abs(v); }

std::vector<Exact> RefSum(const std::vector<double>& x) { return {{Sum(x), Sum(x, Absolute)}}; }
std::vector<Exact> RefMean(const std::vector<double>& x) {
  const auto n = static_cast<double>(x.size());
  return {{Sum(x) / n, Sum(x, Absolute) / n}};
}
std::vector<Exact> RefVar(const std::vector<double>& x) {
  const auto n = static_cast<double>(x.size());
  const double mean = Sum(x) / n;
  const double var = Sum(x, [&](double v) { return (v - mean) * (v - mean); }) / n;
  // x - mean is rounded once, which a large offset makes much of: the deviation is off by a unit of x.
  const double off = std::abs(mean) * std::sqrt(var) * 2;
  return {{var, var + off}};
}
std::vector<Exact> RefMax(const std::vector<double>& x) { return {{Largest(x), 0}}; }
std::vector<Exact> RefMin(const std::vector<double>& x) { return {{Smallest(x), 0}}; }
double LogSumExp(const std::vector<double>& x) {
  const double m = Largest(x);
  if (!std::isfinite(m)) return m;
  return m + std::log(Sum(x, [&](double v) { return std::exp(v - m); }));
}
std::vector<Exact> RefLogSumExp(const std::vector<double>& x) {
  const double y = LogSumExp(x);
  return {{y, std::abs(y) + std::abs(Largest(x)) + 1}};
}
std::vector<Exact> RefSoftmax(const std::vector<double>& x) {
  const double m = Largest(x), sum = Sum(x, [&](double v) { return std::exp(v - m); });
  std::vector<Exact> y;
  for (const double v : x) {
    const double e = std::exp(v - m) / sum;
    // v - m is rounded to its own size, and the exponential makes that a relative error.
    y.push_back({e, e * (1 + std::abs(v - m))});
  }
  return y;
}
std::vector<Exact> RefLogSoftmax(const std::vector<double>& x) {
  const double all = LogSumExp(x), m = Largest(x);
  std::vector<Exact> y;
  for (const double v : x) y.push_back({v - all, std::abs(v - m) + std::abs(all - m) + 1});
  return y;
}
std::vector<Exact> RefLayerNorm(const std::vector<double>& x) {
  const auto n = static_cast<double>(x.size());
  const double mean = Sum(x) / n, var = Sum(x, [&](double v) { return (v - mean) * (v - mean); }) / n;
  const double scale = 1 / std::sqrt(var + 1e-5);
  std::vector<Exact> y;
  for (const double v : x) y.push_back({(v - mean) * scale, (std::abs(v) + std::abs(mean)) * scale + 1});
  return y;
}
std::vector<Exact> RefRmsNorm(const std::vector<double>& x) {
  const auto n = static_cast<double>(x.size());
  const double scale = 1 / std::sqrt(Sum(x, [](double v) { return v * v; }) / n + 1e-6);
  std::vector<Exact> y;
  for (const double v : x) y.push_back({v * scale, std::abs(v) * scale});
  return y;
}

struct Case {
  const char* name;
  std::function<Tensor(const Tensor&)> eager;
  Reference reference;
  bool exact = false;
};

std::vector<Case> Cases() {
  return {
      {"sum", [](const Tensor& x) { return sum(x * 1.0, -1); }, RefSum},
      {"mean", [](const Tensor& x) { return mean(x * 1.0, -1); }, RefMean},
      {"var", [](const Tensor& x) { return var(x * 1.0, -1); }, RefVar},
      {"max", [](const Tensor& x) { return max(x * 1.0, -1); }, RefMax, true},
      {"min", [](const Tensor& x) { return min(x * 1.0, -1, true) * 1.0; }, RefMin, true},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x * 1.0, -1); }, RefLogSumExp},
      {"softmax", [](const Tensor& x) { return softmax(x * 1.0); }, RefSoftmax},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x * 1.0); }, RefLogSoftmax},
      {"layer_norm", [](const Tensor& x) { return layer_norm(x * 1.0); }, RefLayerNorm},
      {"rms_norm", [](const Tensor& x) { return rms_norm(x * 1.0); }, RefRmsNorm},
      {"mean by hand", [](const Tensor& x) { return sum(x * 1.0, -1, true) * (1.0 / static_cast<double>(x.dim(-1))); },
       RefMean},
      {"var by hand",
       [](const Tensor& x) {
         const Tensor d = x - mean(x, -1, true);
         return mean(d * d, -1);
       },
       RefVar},
      {"logsumexp by hand",
       [](const Tensor& x) {
         const Tensor m = max(x, -1, true), safe = where(isfinite(m), m, 0.0);
         return log(sum(exp(x - safe), -1, true)) + safe;
       },
       RefLogSumExp},
      {"softmax by hand",
       [](const Tensor& x) {
         const Tensor e = exp(x - max(x, -1, true));
         return e / sum(e, -1, true);
       },
       RefSoftmax},
      {"log_softmax by hand",
       [](const Tensor& x) {
         const Tensor d = x - max(x, -1, true);
         return d - log(sum(exp(d), -1, true));
       },
       RefLogSoftmax},
      {"layer_norm by hand",
       [](const Tensor& x) {
         const Tensor d = x - mean(x, -1, true);
         return d * rsqrt(mean(square(d), -1, true) + 1e-5);
       },
       RefLayerNorm},
      {"rms_norm by hand", [](const Tensor& x) { return x * rsqrt(mean(x * x, -1, true) + 1e-6); }, RefRmsNorm},
  };
}

Rows RowsOf(const Tensor& x) {
  const std::vector<double> all = x.to_vector<double>();
  const auto n = static_cast<size_t>(x.dim(-1));
  Rows rows;
  for (size_t at = 0; at < all.size(); at += n)
    rows.emplace_back(all.begin() + static_cast<int64_t>(at), all.begin() + static_cast<int64_t>(at + n));
  return rows;
}

void ExpectWithinBounds(const Case& c, const Tensor& x, const Tensor& y) {
  // By hand every op rounds to the dtype, so its unit counts, once for each of a handful of ops.
  const double unit = std::max(Epsilon(x.dtype()), 0x1p-52);
  const double units = c.exact ? 0 : 8;
  const std::vector<double> got = y.to_vector<double>();
  size_t at = 0;
  for (const std::vector<double>& row : RowsOf(x)) {
    for (const Exact& want : c.reference(row)) {
      ASSERT_LT(at, got.size());
      const double bound = units * unit * want.scale + SmallestStep(x.dtype());
      rows_testing::ExpectNear(got[at], want.value, bound, x.dtype(), absl::StrCat(c.name, " element ", at));
      if (::testing::Test::HasFailure()) return;
      ++at;
    }
  }
  EXPECT_EQ(at, got.size());
}

/// Fresh inputs each time, some of them before there is code and most of them with it.
void CheckRows(const Case& c, Way way, const std::function<Tensor(uint64_t seed)>& input, bool kernels = true) {
  SCOPED_TRACE(absl::StrCat(c.name, ", ", NameOf(way)));
  Settings settings = CodeAtOnce(way, /*bitwise=*/false);
  settings["hot_eager"] = "1000000";
  const OptionScope scope(settings);
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  const int64_t before = MetricNow("kernels_generated");
  for (uint64_t i = 0; i < 9; ++i) {
    const Tensor x = input(i);
    const Step step;
    const Tensor y = c.eager(x);
    ExpectWithinBounds(c, x, y);
    if (::testing::Test::HasFailure()) return;
  }
  if (kernels) EXPECT_GT(MetricNow("kernels_generated"), before) << Runtime::explain();
}

constexpr Way kFused[] = {{2, true}, {3, true}};

TEST_F(TiersCodeRows, RowsOfManyLengths) {
  for (const Case& c : Cases()) {
    for (const int64_t n :
         {1, 2, 3, 7, 8, 15, 16, 17, 33, 63, 64, 65, 100, 127, 129, 255, 500, 1000, 1023, 4096, 5000}) {
      SCOPED_TRACE(n);
      const Way way = kFused[n % 2];
      CheckRows(c, way, [&](uint64_t seed) { return Uniform({n > 500 ? 2 : 5, n}, seed); }, n > 1);
      if (HasFailure()) return;
    }
  }
}

TEST_F(TiersCodeRows, OneCodeForAllLengths) {
  for (const Case& c : Cases()) {
    const int64_t made = MetricNow("codes_made");
    Settings settings = CodeAtOnce({2, true}, false);
    settings["hot_eager"] = "1000000";
    const OptionScope scope(settings);
    tiers::Manager::Get().Reset();
    deopt::Ledger::Get().Clear();
    SCOPED_TRACE(c.name);
    for (int64_t i = 0; i < 60; ++i) {
      const Tensor x = Uniform({1 + i * 7 % 5, 1 + i * 613 % 5000}, static_cast<uint64_t>(i));
      const Step step;
      ExpectWithinBounds(c, x, c.eager(x));
      if (HasFailure()) return;
    }
    EXPECT_LE(MetricNow("codes_made") - made, 6) << Runtime::explain();
  }
}

TEST_F(TiersCodeRows, LargeOffsets) {
  for (const Case& c : Cases())
    for (const double offset : {100.0, -3000.0, 1e6}) {
      SCOPED_TRACE(offset);
      CheckRows(c, kFused[0], [&](uint64_t seed) { return Uniform({3, 257}, seed, offset - 2, offset + 2); });
      if (HasFailure()) return;
    }
}

TEST_F(TiersCodeRows, OtherDTypes) {
  for (const Case& c : Cases())
    for (const DType dtype : {f64, f16, bf16}) {
      // By hand a narrow float rounds after each op, which the bound of the whole does not allow for.
      if (IsNarrowFloat(dtype) && std::string_view(c.name).ends_with("by hand")) continue;
      SCOPED_TRACE(std::string(Name(dtype)));
      CheckRows(c, kFused[1], [&](uint64_t seed) { return Uniform({4, 133}, seed, -2, 2, dtype); });
      if (HasFailure()) return;
    }
}

TEST_F(TiersCodeRows, WeightsAndBiases) {
  for (const Way way : kFused) {
    SCOPED_TRACE(NameOf(way));
    Settings settings = CodeAtOnce(way, false);
    settings["hot_eager"] = "1000000";
    const OptionScope scope(settings);
    tiers::Manager::Get().Reset();
    const Tensor weight = Uniform({77}, 1), bias = Uniform({77}, 2);
    const auto w = weight.to_vector<double>(), b = bias.to_vector<double>();
    for (uint64_t i = 0; i < 9; ++i) {
      const Tensor x = Uniform({6, 77}, i);
      const Step step;
      const Tensor y = layer_norm(x, weight, bias), z = rms_norm(y, weight) + x;
      const auto got = y.to_vector<double>(), last = z.to_vector<double>(), in = x.to_vector<double>();
      const Rows rows = RowsOf(x), again = RowsOf(y);
      for (size_t r = 0; r < rows.size(); ++r) {
        const auto want = RefLayerNorm(rows[r]), rms = RefRmsNorm(again[r]);
        for (size_t k = 0; k < 77; ++k) {
          const size_t at = r * 77 + k;
          ASSERT_NEAR(got[at], want[k].value * w[k] + b[k], 10 * 0x1p-23 * (want[k].scale * std::abs(w[k]) + 2));
          ASSERT_NEAR(last[at], rms[k].value * w[k] + in[at], 10 * 0x1p-23 * (rms[k].scale * std::abs(w[k]) + 2));
        }
      }
    }
  }
}

/// What a result is where it is no number: NaN, an infinity, or a number.
std::string Class(double v) { return std::isnan(v) ? "nan" : std::isinf(v) ? (v > 0 ? "inf" : "-inf") : "number"; }

// Runs `ops` in tier 1 and every way, and compares all results.
void AsInTier1(const char* name, const std::function<std::vector<Tensor>()>& ops, double tolerance = 1e-5) {
  std::vector<std::vector<double>> want;
  {
    const OptionScope tier1({{"tier", "1"}});
    for (const Tensor& y : ops()) want.push_back(y.to_vector<double>());
  }
  for (const Way way : kWays) {
    SCOPED_TRACE(absl::StrCat(name, ", ", NameOf(way)));
    Settings settings = CodeAtOnce(way, false);
    settings["hot_eager"] = "1000000";
    const OptionScope scope(settings);
    tiers::Manager::Get().Reset();
    for (int i = 0; i < 9; ++i) {
      const Step step;
      const std::vector<Tensor> results = ops();
      for (size_t r = 0; r < results.size(); ++r) {
        const std::vector<double> got = results[r].to_vector<double>();
        ASSERT_EQ(got.size(), want[r].size());
        for (size_t k = 0; k < got.size(); ++k) {
          ASSERT_EQ(Class(got[k]), Class(want[r][k])) << "result " << r << " element " << k << " is " << got[k]
                                                      << ", in tier 1 " << want[r][k] << ", round " << i;
          if (std::isfinite(want[r][k])) {
            ASSERT_NEAR(got[k], want[r][k], (std::abs(want[r][k]) + 1) * tolerance)
                << "result " << r << " element " << k << " round " << i;
          }
        }
      }
    }
  }
}

TEST_F(TiersCodeRows, InfinitiesAndNaNsAsInTier1) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> odd = {{kInf},        {-kInf},        {kNaN},     {kInf, -kInf}, {kInf, kInf},
                                               {-kInf, kNaN}, {3e37f, 3e37f}, {-3.4e38f}, {1e-45f},      {}};
  // Fewer elements than a vector has, and several vectors with some that are left.
  for (const size_t n : {size_t{37}, size_t{300}}) {
    std::vector<float> values;
    for (const std::vector<float>& few : odd)
      for (size_t k = 0; k < n; ++k) {
        const bool placed = k % 17 < few.size();
        values.push_back(placed ? few[k % 17] : 0.01f * static_cast<float>(k));
      }
    for (const float all : {-kInf, kInf, kNaN}) values.insert(values.end(), n, all);
    // A single NaN, which larger elements come after or before, and one among elements that are hidden.
    for (const size_t at : {size_t{0}, size_t{1}, n / 2, n - 20, n - 1})
      for (const float step : {1.0f, -1.0f, -kInf})
        for (size_t k = 0; k < n; ++k) values.push_back(k == at ? kNaN : step * static_cast<float>(k + 1));
    const Tensor x = Tensor::from(values, {static_cast<int64_t>(values.size() / n), static_cast<int64_t>(n)});
    for (const Case& c : Cases()) AsInTier1(c.name, [&] { return std::vector<Tensor>{c.eager(x)}; });
  }
}

// What passes over a row leave for later ones is in the rows of results until those are written.
TEST_F(TiersCodeRows, WhatIsKeptInResults) {
  const auto softmax_of = [](const Tensor& x) {
    const Tensor e = exp(x - max(x, -1, true));
    return e / sum(e, -1, true);
  };
  for (const int64_t n : {37, 300}) {
    SCOPED_TRACE(n);
    const Tensor x = Uniform({5, n}, 1), y = Uniform({5, n}, 2), z = Uniform({5, n}, 3), w = Uniform({n}, 4);
    using Results = std::vector<Tensor>;
    AsInTier1("a sum, then weights", [&] { return Results{softmax(x + y)}; });
    AsInTier1("operands once more after", [&] { return Results{softmax(x * y + z) * y + x}; });
    AsInTier1("sums that are results", [&] {
      const Tensor h = x + y * w;
      return Results{h, rms_norm(h, w)};
    });
    AsInTier1("a sum for three passes", [&] { return Results{layer_norm(x + y, w, w)}; });
    AsInTier1("two at a time", [&] {
      const Tensor h = x + y;
      return Results{softmax(h), layer_norm(h) * z};
    });
    AsInTier1("a result that is needed again", [&] {
      const Tensor e = exp(x + y), d = e - max(e, -1, true);
      return Results{d, d * sum(d, -1, true)};
    });
    AsInTier1("an exponential that is a result", [&] {
      const Tensor e = exp(x * y - max(x * y, -1, true));
      return Results{e, e / sum(e, -1, true)};
    });
    AsInTier1("softmax twice", [&] { return Results{softmax_of(softmax_of(x + y) * 8.0 + z)}; });
    const auto narrow = [&] { return Results{softmax(cast(x, bf16) + cast(y, bf16)), cast(softmax(x + y), bf16)}; };
    AsInTier1("narrow results", narrow, 0x1p-7);
    AsInTier1("wide ones", [&] { return Results{softmax(cast(x, f64) + cast(y, f64)), softmax(x - y)}; });
  }
}

TEST_F(TiersCodeRows, EmptyRows) {
  // Nothing has a sum and no largest element.
  RunEveryWay(
      [](Log& log) {
        for (int i = 0; i < 30; ++i) {
          const int64_t n = i < 12 ? 6 : i % 3 == 0 ? 0 : 6;
          const Tensor x = Uniform({4, n}, 1) * 2.0;
          log.Add(Bits(sum(x, -1)));
          log.Add(Bits(mean(x, -1)));
          log.Add(Bits(softmax(x) * 2.0));
          log.Try([&] { log.Add(Bits(max(x * 3.0, -1))); });
          log.Try([&] { log.Add(Bits(min(x * 3.0, -1))); });
        }
      },
      false);
}

TEST_F(TiersCodeRows, WithTheOptionBitwiseSumsHaveTheBitsOfTier1) {
  for (const int64_t n : {1, 5, 16, 17, 40, 127, 128, 129, 300, 1000, 5000}) {
    SCOPED_TRACE(n);
    RunBodyEveryWay(
        [](const std::vector<Tensor>& in) {
          const Tensor x = in[0] * 1.1, m = max(x, -1, true), s = sum(x, -1, true), e = x - m;
          return std::vector<Tensor>{s * 0.5 + m,   mean(e, -1), var(x, -1), logsumexp(x, -1), softmax(x),
                                     layer_norm(e), rms_norm(x), sum(e),     min(x, -1)};
        },
        {Uniform({5, n}, 3)}, false);
  }
}

// +0 and -0 are equal: which of them is the largest is nobody's promise, but one of them is.
TEST_F(TiersCodeRows, LargestAndSmallestOfZeros) {
  std::vector<float> values;
  for (int i = 0; i < 8 * 37; ++i) values.push_back(i * 7 % 3 == 0 ? 0.0f : -0.0f);
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        const Tensor x = in[0] * 1.0;
        return std::vector<Tensor>{abs(max(x, -1)), abs(min(x, -1)), abs(max(x, -1, true) + -0.0)};
      },
      {Tensor::from(values, {8, 37})}, false);
}

}  // namespace
}  // namespace tessera
