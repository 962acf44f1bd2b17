// attention, rotary and cross_entropy.
#include "tests/unit/products_testing.h"

namespace tessera {
namespace {

using namespace tessera::testing;  // NOLINT(google-build-using-namespace)
using ir::Op;

/// The value of a mask for [.., h, s, t], as what is added to the score.
double MaskAt(const Array* mask, const Dims& index) {
  if (mask == nullptr) return 0;
  const int skip = static_cast<int>(index.size()) - mask->v.rank;
  Dims at;
  for (int d = 0; d < mask->v.rank; ++d) at.push_back(mask->v.dims[d] == 1 ? 0 : index[skip + d]);
  const double v = mask->At(at);
  return mask->v.dtype == DType::boolean ? (v != 0 ? 0 : -INFINITY) : v;
}

void CheckAttention(const Array& q, const Array& k, const Array& v, const Array* mask, bool causal, double scale,
                    const Array& y, int64_t window = 0) {
  const int r = q.v.rank;
  const int64_t heads = q.v.dims[r - 3], queries = q.v.dims[r - 2], keys = k.v.dims[r - 2], dim = q.v.dims[r - 1];
  const int64_t values = v.v.dims[r - 1], share = std::max<int64_t>(1, heads / std::max<int64_t>(1, k.v.dims[r - 3]));
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(dim));
  const double eps = ComputeEpsilon(y.v.dtype);
  const int64_t rows = y.v.size() / std::max<int64_t>(1, values);
  for (int64_t row = 0; values > 0 && row < rows; ++row) {
    Dims at(r);
    int64_t rest = row;
    for (int d = r - 2; d >= 0; --d) at[d] = rest % y.v.dims[d], rest /= y.v.dims[d];
    Dims at_kv = at;
    at_kv[r - 3] /= share;
    std::vector<double> score(keys);
    double max = -INFINITY, spread = 0;
    for (int64_t t = 0; t < keys; ++t) {
      double s = 0, terms = 0;
      Dims qa = at, ka = at_kv, ma = at;
      ka[r - 2] = t;
      ma[r - 1] = t;
      for (int64_t d = 0; d < dim; ++d) {
        qa[r - 1] = ka[r - 1] = d;
        s += q.At(qa) * k.At(ka);
        terms += std::abs(q.At(qa) * k.At(ka));
      }
      const int64_t behind = at[r - 2] + keys - queries - t;
      const bool is_hidden = causal && (behind < 0 || (window > 0 && behind >= window));
      const double m = is_hidden ? -INFINITY : MaskAt(mask, ma);
      score[t] = m == -INFINITY ? m : scale * s + m;
      if (score[t] != -INFINITY) spread = std::max(spread, std::abs(scale) * terms + std::abs(m));
      max = std::max(max, score[t]);
    }
    double sum = 0;
    for (double& s : score) sum += s = s == -INFINITY ? 0 : std::exp(s - max);
    for (int64_t j = 0; j < values; ++j) {
      double want = 0, terms = 0;
      for (int64_t t = 0; t < keys && sum > 0; ++t) {
        Dims va = at_kv;
        va[r - 2] = t;
        va[r - 1] = j;
        want += score[t] / sum * v.At(va);
        terms += score[t] / sum * std::abs(v.At(va));
      }
      const double got = y.Get(row * values + j);
      // An error of a score becomes a relative one of its weight.
      ASSERT_LE(std::abs(got - want),
                8 * eps * (1 + spread) * terms + RoundingOf(y.v.dtype) * std::abs(want) * 1.01 + TinyOf(y.v.dtype))
          << "row " << row << ", " << j << ": got " << got << ", want " << want << " (" << queries << " queries)";
    }
  }
}

TEST(Attention, RandomShapesStridesMasksAndDtypes) {
  Rng rng(1);
  for (int round = 0; round < 400; ++round) {
    const DType t = kFloats[round % 8 < 6 ? round % 8 : 0];
    const int batch = static_cast<int>(Pick(rng, 0, 2));
    const int64_t low = round % 11 == 0 ? 0 : 1, top = round % 10 == 0 ? 150 : 12;
    const int64_t kv = Pick(rng, 1, 3), heads = kv * Pick(rng, 1, 3), queries = Pick(rng, low, top);
    const int64_t keys = Pick(rng, low, top), dim = Pick(rng, 1, 9), values = Pick(rng, low, 9);
    Dims lead;
    for (int d = 0; d < batch; ++d) lead.push_back(Pick(rng, low, 2));
    const auto dims = [&](int64_t h, int64_t rows, int64_t cols) {
      Dims d = lead;
      d.insert(d.end(), {h, rows, cols});
      return d;
    };
    const Array q = Random(rng, t, dims(heads, queries, dim)), k = Random(rng, t, dims(kv, keys, dim));
    const Array v = Random(rng, t, dims(kv, keys, values));
    Dims dm = dims(heads, queries, keys);
    for (int64_t& d : dm) {
      if (rng() % 4 == 0) d = 1;
    }
    dm.erase(dm.begin(), dm.begin() + Pick(rng, 0, static_cast<int64_t>(dm.size())));
    const DType mask_dtypes[] = {DType::boolean, DType::f32, DType::f64, DType::bf16, DType::i8};
    Array mask = Strided(rng, mask_dtypes[rng() % 5], dm);
    for (int64_t i = 0; i < mask.v.size(); ++i) {
      const bool keep = rng() % 4 != 0;
      const bool removes = !keep && IsFloat(mask.v.dtype);
      mask.Set(i, mask.v.dtype == DType::boolean ? keep : removes ? -INFINITY : Pick(rng, -2, 2));
    }
    const Array* m = rng() % 2 ? &mask : nullptr;
    const bool causal = rng() % 2;
    const double scale = rng() % 2 ? 0 : 0.7;
    const int64_t window = causal && rng() % 2 ? Pick(rng, 1, rng() % 2 ? 4 : 160) : 0;
    SCOPED_TRACE(absl::StrCat("round ", round, ": q ", ToString(q.v), " k ", ToString(k.v), " v ", ToString(v.v),
                              m ? " mask " + ToString(mask.v) : "", causal ? " causal" : "",
                              window > 0 ? absl::StrCat(" window ", window) : ""));
    auto y = RunOp(Op::k_attention, cpu::k_attention, {&q, &k, &v, m}, {causal, scale, window});
    ASSERT_TRUE(y.ok()) << y.status();
    CheckAttention(q, k, v, m, causal, scale, *y, window);
    if (HasFatalFailure()) return;
  }
}

TEST(Attention, FullyMaskedRowsAreZeroAndOverflowIsAvoided) {
  Array q = Contiguous(DType::f32, {1, 3, 2}), k = Contiguous(DType::f32, {1, 4, 2});
  Array v = Contiguous(DType::f32, {1, 4, 2});
  for (int i = 0; i < 6; ++i) q.Set(i, 1e4);
  for (int i = 0; i < 8; ++i) k.Set(i, 1e4), v.Set(i, i);
  Array mask = Contiguous(DType::boolean, {3, 4});
  for (int i = 0; i < 12; ++i) mask.Set(i, i >= 4);
  auto y = RunOp(Op::k_attention, cpu::k_attention, {&q, &k, &v, &mask}, {});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ(y->Get(0), 0);
  EXPECT_EQ(y->Get(1), 0);
  EXPECT_EQ(y->Get(2), 3);  // the mean of 0, 2, 4, 6
  EXPECT_EQ(y->Get(5), 4);
}

TEST(Attention, MoreQueriesThanKeysUnderACausalMask) {
  Rng rng(2);
  const Array q = Random(rng, DType::f32, {2, 70, 4}), k = Random(rng, DType::f32, {2, 3, 4});
  const Array v = Random(rng, DType::f32, {2, 3, 4});
  auto y = RunOp(Op::k_attention, cpu::k_attention, {&q, &k, &v, nullptr}, {true});
  ASSERT_TRUE(y.ok()) << y.status();
  for (int64_t i = 0; i < 67 * 4; ++i) ASSERT_EQ(y->Get(i), 0);  // the first 67 queries see no key
  CheckAttention(q, k, v, nullptr, true, 0, *y);
}

TEST(Attention, NanOfAQueryStaysInItsRow) {
  Rng rng(3);
  Array q = Contiguous(DType::f32, {1, 80, 4}), k = Contiguous(DType::f32, {1, 9, 4});
  Array v = Contiguous(DType::f32, {1, 9, 4});
  Fill(rng, q), Fill(rng, k), Fill(rng, v);
  q.Set(7 * 4, std::nan(""));
  auto y = RunOp(Op::k_attention, cpu::k_attention, {&q, &k, &v, nullptr}, {});
  ASSERT_TRUE(y.ok()) << y.status();
  for (int64_t i = 0; i < 320; ++i) EXPECT_EQ(std::isnan(y->Get(i)), i / 4 == 7) << i;
}

TEST(Attention, MessagesSayWhatWouldWork) {
  const auto message = [](const Dims& q, const Dims& k, const Dims& v, const Dims* mask = nullptr) {
    const Array aq = Contiguous(DType::f32, q), ak = Contiguous(DType::f32, k), av = Contiguous(DType::f32, v);
    Array am;
    if (mask != nullptr) am = Contiguous(DType::boolean, *mask);
    return std::string(
        RunOp(Op::k_attention, cpu::k_attention, {&aq, &ak, &av, mask ? &am : nullptr}, {}).status().message());
  };
  EXPECT_NE(message({2, 3}, {2, 3}, {2, 3}).find("at least 3"), std::string::npos);
  EXPECT_NE(message({3, 5, 4}, {2, 5, 4}, {2, 5, 4}).find("heads of q (3) must be a multiple"), std::string::npos);
  EXPECT_NE(message({2, 5, 4}, {2, 5, 3}, {2, 5, 4}).find("4 must equal 3"), std::string::npos);
  EXPECT_NE(message({2, 5, 4}, {2, 6, 4}, {2, 5, 4}).find("k and v differ"), std::string::npos);
  EXPECT_NE(message({7, 2, 5, 4}, {6, 2, 5, 4}, {6, 2, 5, 4}).find("dim 0 must be the same"), std::string::npos);
  const Dims mask = {4, 6};
  EXPECT_NE(message({2, 5, 4}, {2, 6, 4}, {2, 6, 4}, &mask).find("must broadcast to bool[2,5,6]"), std::string::npos);
}

TEST(Rotary, RandomShapesStridesAndDtypes) {
  Rng rng(4);
  for (int round = 0; round < 300; ++round) {
    const DType t = kFloats[round % 6];
    const int rank = static_cast<int>(Pick(rng, 2, 4));
    Dims dx, dp;
    for (int d = 0; d < rank - 1; ++d) dx.push_back(Pick(rng, round % 11 == 0 ? 0 : 1, 6));
    dp = dx;
    const int64_t width = 2 * Pick(rng, round % 13 == 0 ? 0 : 1, 9), half = width / 2;
    dx.push_back(width);
    for (int64_t& d : dp) {
      if (rng() % 3 == 0) d = 1;
    }
    dp.erase(dp.begin(), dp.begin() + Pick(rng, 0, rank - 1));
    const Array x = Random(rng, t, dx);
    Array positions = Strided(rng, DType::i64, dp);
    for (int64_t i = 0; i < positions.v.size(); ++i) positions.SetInt(i, Pick(rng, 0, 3000));
    const double base = rng() % 2 ? 10000 : 500;
    const bool interleaved = rng() % 2;
    SCOPED_TRACE(absl::StrCat("round ", round, ": ", ToString(x.v), " at ", ToString(positions.v)));
    auto y = RunOp(Op::k_rotary, cpu::k_rotary, {&x, &positions}, {base, interleaved});
    ASSERT_TRUE(y.ok()) << y.status();
    for (int64_t i = 0; i < x.v.size(); ++i) {
      Dims at(rank);
      int64_t rest = i;
      for (int d = rank - 1; d >= 0; --d) at[d] = rest % dx[d], rest /= dx[d];
      Dims at_p;
      for (int d = 0; d < positions.v.rank; ++d) {
        at_p.push_back(dp[d] == 1 ? 0 : at[rank - 1 - positions.v.rank + d]);
      }
      const int64_t j = at[rank - 1], pair = interleaved ? j / 2 : j % half;
      const bool second = interleaved ? j % 2 : j >= half;
      Dims first_at = at, second_at = at;
      first_at[rank - 1] = interleaved ? 2 * pair : pair;
      second_at[rank - 1] = interleaved ? 2 * pair + 1 : pair + half;
      const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(width);
      const double angle = positions.At(at_p) * std::pow(base, exponent);
      const double a = x.At(first_at), b = x.At(second_at);
      const double c = std::cos(angle), s = std::sin(angle), want = second ? b * c + a * s : a * c - b * s;
      ASSERT_TRUE(Close(t, y->Get(i), want, std::abs(a) + std::abs(b))) << i;
    }
  }
}

TEST(Rotary, MessagesSayWhatWouldWork) {
  const auto message = [](const Dims& x, const Dims& positions) {
    const Array ax = Contiguous(DType::f32, x);
    Array ap = Contiguous(DType::i64, positions);
    return std::string(RunOp(Op::k_rotary, cpu::k_rotary, {&ax, &ap}, {}).status().message());
  };
  EXPECT_NE(message({4, 5}, {4}).find("must be even"), std::string::npos);
  EXPECT_NE(message({4, 6}, {3}).find("positions must broadcast to i64[4]"), std::string::npos);
}

TEST(CrossEntropy, RandomShapesStridesAndDtypes) {
  Rng rng(5);
  for (int round = 0; round < 300; ++round) {
    const DType t = kFloats[round % 6];
    const int rank = static_cast<int>(Pick(rng, 1, 4));
    Dims dx;
    for (int d = 0; d < rank - 1; ++d) dx.push_back(Pick(rng, round % 11 == 0 ? 0 : 1, 5));
    const int64_t classes = round % 7 == 0 ? Pick(rng, 1000, 3000) : Pick(rng, 1, 40);
    const Dims dt = dx;
    dx.push_back(classes);
    const Array x = Random(rng, t, dx);
    Array targets = Strided(rng, DType::i64, dt);
    for (int64_t i = 0; i < targets.v.size(); ++i) targets.SetInt(i, rng() % 5 ? Pick(rng, 0, classes - 1) : -7);
    SCOPED_TRACE(absl::StrCat("round ", round, ": ", ToString(x.v)));
    auto y = RunOp(Op::k_cross_entropy, cpu::k_cross_entropy, {&x, &targets}, {int64_t{-7}});
    ASSERT_TRUE(y.ok()) << y.status();
    for (int64_t i = 0; i < y->v.size(); ++i) {
      const int64_t target = targets.GetInt(i);
      if (target == -7) {
        ASSERT_EQ(y->Get(i), 0);
        continue;
      }
      double max = -INFINITY, sum = 0;
      for (int64_t c = 0; c < classes; ++c) max = std::max(max, x.Get(i * classes + c));
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(x.Get(i * classes + c) - max);
      const double want = max + std::log(sum) - x.Get(i * classes + target);
      ASSERT_TRUE(Close(t, y->Get(i), want, std::abs(max) + std::log(sum) + 2)) << i;
    }
  }
}

TEST(CrossEntropy, ExtremeLogits) {
  Array x = Contiguous(DType::f32, {4, 3000}), targets = Contiguous(DType::i64, {4});
  for (int64_t i = 0; i < 3000; ++i) {
    x.Set(i, i < 2000 ? -INFINITY : 5);         // whole blocks of -inf come first
    x.Set(3000 + i, i == 2500 ? 3e38 : -3e38);  // exp would overflow
    x.Set(6000 + i, i == 100 ? std::nan("") : 0);
    x.Set(9000 + i, i == 2999 ? INFINITY : 0);
  }
  for (int i = 0; i < 4; ++i) targets.SetInt(i, 2500);
  auto y = RunOp(Op::k_cross_entropy, cpu::k_cross_entropy, {&x, &targets}, {});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_NEAR(y->Get(0), std::log(1000.0), 1e-5);
  EXPECT_EQ(y->Get(1), 0);
  EXPECT_TRUE(std::isnan(y->Get(2)));
  EXPECT_FALSE(std::isfinite(y->Get(3)));
}

TEST(CrossEntropy, ATargetThatIsNoClassIsNamed) {
  Array x = Contiguous(DType::f32, {2, 3, 5}), targets = Contiguous(DType::i64, {2, 3});
  for (int i = 0; i < 30; ++i) x.Set(i, 0);
  for (int i = 0; i < 6; ++i) targets.SetInt(i, i < 4 ? i : 5);
  auto y = RunOp(Op::k_cross_entropy, cpu::k_cross_entropy, {&x, &targets}, {});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_NE(std::string(y.status().message()).find("targets[1,1] is 5; it must be in [0, 5)"), std::string::npos)
      << y.status();
  targets.SetInt(4, -1), targets.SetInt(5, -100);
  y = RunOp(Op::k_cross_entropy, cpu::k_cross_entropy, {&x, &targets}, {});
  EXPECT_NE(std::string(y.status().message()).find("targets[1,1] is -1"), std::string::npos) << y.status();
  targets.SetInt(4, 0);
  EXPECT_TRUE(RunOp(Op::k_cross_entropy, cpu::k_cross_entropy, {&x, &targets}, {}).ok());
}

TEST(CrossEntropy, MessagesSayWhatWouldWork) {
  const Array x = Contiguous(DType::f32, {2, 3, 5}), targets = Contiguous(DType::i64, {2});
  auto y = RunOp(Op::k_cross_entropy, cpu::k_cross_entropy, {&x, &targets}, {});
  EXPECT_NE(std::string(y.status().message()).find("targets must be i64[2,3]"), std::string::npos) << y.status();
}

}  // namespace
}  // namespace tessera
