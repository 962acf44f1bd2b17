// linear_cross_entropy and its gradient against f64 references, with all rows at once and with chunks of few rows.
#include "interp/row_chunks.h"
#include "tests/unit/products_testing.h"

namespace tessera {
namespace {

using namespace tessera::testing;  // NOLINT(google-build-using-namespace)
using ir::Op;

/// Chunks have logits of at most so many bytes; 0: as the kernel has it.
class Budget {
 public:
  explicit Budget(int64_t bytes) { interp::logits_budget = bytes; }
  ~Budget() { interp::logits_budget = 0; }
};

absl::StatusOr<Array> Losses(const Array& x, const Array& w, const Array& targets, int64_t ignore = -100) {
  return RunOp(Op::k_linear_cross_entropy, cpu::k_linear_cross_entropy, {&x, &w, &targets}, {ignore});
}

struct Grads {
  absl::Status status;
  Array x, w;
};
Grads Gradients(const Array& x, const Array& w, const Array& targets, const Array& g, int64_t ignore = -100) {
  const ir::OpInfo& info = ir::Info(Op::k_linear_cross_entropy_grad);
  const std::vector<ir::Attr> attrs = {ignore};
  const std::vector<const TensorType*> types = {&x.v, &w.v, &targets.v, &g.v};
  const std::vector<const View*> views = {&x.v, &w.v, &targets.v, &g.v};
  TensorType type[2];
  Grads r;
  r.status = ir::Infer({info, types, attrs, nullptr}, type);
  if (!r.status.ok()) return r;
  r.x = Contiguous(type[0].dtype, Dims(type[0].dims, type[0].dims + type[0].rank));
  r.w = Contiguous(type[1].dtype, Dims(type[1].dims, type[1].dims + type[1].rank));
  View* out[] = {&r.x.v, &r.w.v};
  r.status = cpu::k_linear_cross_entropy_grad({info, views, out, attrs});
  return r;
}

/// Sums with what they may be off by.
struct Sums {
  explicit Sums(int64_t n) : value(static_cast<size_t>(n)), off(static_cast<size_t>(n)) {}
  std::vector<double> value, off;
};

void ExpectClose(const Array& got, const Sums& want, const char* what) {
  const DType t = got.v.dtype;
  ASSERT_EQ(got.v.size(), static_cast<int64_t>(want.value.size()));
  for (int64_t i = 0; i < got.v.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    ASSERT_LE(std::abs(got.Get(i) - want.value[at]),
              want.off[at] + RoundingOf(t) * (std::abs(want.value[at]) + want.off[at]) * 1.01 + TinyOf(t))
        << what << " " << i << ": got " << got.Get(i) << ", want " << want.value[at];
  }
}

/// Both ops against the definition. Each logit may be off by (8 + features / 2) units of its absolute terms, which its
/// exponential turns into a relative error; products of the gradients add theirs.
void CheckBoth(const Array& x, const Array& w, const Array& targets, const Array& g, int64_t ignore) {
  const int64_t classes = w.v.dims[0], features = w.v.dims[1], rows = targets.v.size();
  const double eps = ComputeEpsilon(x.v.dtype);
  Sums loss(rows), dx(rows * features), dw(classes * features);
  std::vector<double> logit(static_cast<size_t>(classes)), off(logit);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t target = targets.GetInt(r);
    if (target == ignore) continue;
    double max = -INFINITY, worst = 0, sum = 0;
    for (int64_t c = 0; c < classes; ++c) {
      double s = 0, terms = 0;
      for (int64_t f = 0; f < features; ++f) {
        const double term = x.Get(r * features + f) * w.Get(c * features + f);
        s += term;
        terms += std::abs(term);
      }
      const auto at = static_cast<size_t>(c);
      logit[at] = s;
      off[at] = (8 + static_cast<double>(features) / 2) * eps * terms;
      max = std::max(max, s);
      worst = std::max(worst, off[at]);
    }
    for (const double s : logit) sum += std::exp(s - max);
    const double at_target = logit[static_cast<size_t>(target)];
    loss.value[static_cast<size_t>(r)] = max + std::log(sum) - at_target;
    loss.off[static_cast<size_t>(r)] = 2 * worst + 8 * eps * (std::abs(max) + std::abs(at_target) + std::log(sum) + 1);
    const double by = g.Get(r);
    for (int64_t c = 0; c < classes; ++c) {
      const double far = logit[static_cast<size_t>(c)] - max, p = std::exp(far) / sum, hot = c == target ? 1 : 0;
      const double d = (p - hot) * by;
      const double relative = 2 * worst + (24 + static_cast<double>(classes) / 2 + std::abs(far)) * eps;
      const double d_off = std::abs(by) * (p * relative + 4 * eps * (p + hot));
      for (int64_t f = 0; f < features; ++f) {
        const auto of_x = static_cast<size_t>(r * features + f), of_w = static_cast<size_t>(c * features + f);
        const double xf = x.Get(r * features + f), wf = w.Get(c * features + f);
        dx.value[of_x] += d * wf;
        dx.off[of_x] += (d_off + (8 + static_cast<double>(classes) / 2) * eps * std::abs(d)) * std::abs(wf);
        dw.value[of_w] += d * xf;
        dw.off[of_w] += (d_off + (8 + static_cast<double>(rows) / 2) * eps * std::abs(d)) * std::abs(xf);
      }
    }
  }
  const auto y = Losses(x, w, targets, ignore);
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectClose(*y, loss, "loss");
  const Grads grads = Gradients(x, w, targets, g, ignore);
  ASSERT_TRUE(grads.status.ok()) << grads.status;
  ExpectClose(grads.x, dx, "dx");
  ExpectClose(grads.w, dw, "dw");
}

TEST(LinearCrossEntropy, RandomShapesStridesDtypesAndChunks) {
  Rng rng(7);
  for (int round = 0; round < 240; ++round) {
    const DType t = kFloats[round % 6];
    Dims lead;
    const int rank = static_cast<int>(Pick(rng, 0, 3));
    for (int d = 0; d < rank; ++d) lead.push_back(Pick(rng, round % 13 == 0 ? 0 : 1, 6));
    const int64_t classes = round % 7 == 0 ? Pick(rng, 300, 1500) : Pick(rng, 1, 40);
    const int64_t features = round % 17 == 0 ? 0 : round % 5 == 0 ? Pick(rng, 60, 130) : Pick(rng, 1, 20);
    Dims of_x = lead;
    of_x.push_back(features);
    const Array x = Random(rng, t, of_x), w = Random(rng, t, {classes, features}), g = Random(rng, t, lead);
    Array targets = Strided(rng, DType::i64, lead);
    for (int64_t i = 0; i < targets.v.size(); ++i) targets.SetInt(i, rng() % 5 ? Pick(rng, 0, classes - 1) : -7);
    // Of one row, of some, and of all.
    const int64_t bytes = classes * (t == DType::f64 ? 8 : 4);
    for (const int64_t budget : {int64_t{1}, bytes * Pick(rng, 2, 7), int64_t{0}}) {
      SCOPED_TRACE(absl::StrCat("round ", round, ": ", ToString(x.v), " ", ToString(w.v), ", budget ", budget));
      const Budget scope(budget);
      CheckBoth(x, w, targets, g, -7);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(LinearCrossEntropy, MoreRowsThanTheBudgetHolds) {
  // The kernel's own budget, of which chunks have 128 rows here and the last one fewer; w lies transposed.
  Rng rng(8);
  const int64_t rows = 300, classes = 17000, features = 3;
  for (const DType t : {DType::f32, DType::bf16}) {
    Array x = Contiguous(t, {rows, features}), w = Contiguous(t, {features, classes}), g = Contiguous(t, {rows});
    Array targets = Contiguous(DType::i64, {rows});
    for (Array* a : {&x, &w, &g}) Fill(rng, *a);
    std::swap(w.v.dims[0], w.v.dims[1]);
    std::swap(w.v.strides[0], w.v.strides[1]);
    for (int64_t i = 0; i < rows; ++i) targets.SetInt(i, i % 9 == 4 ? -100 : i * 997 % classes);
    CheckBoth(x, w, targets, g, -100);
  }
}

TEST(LinearCrossEntropy, SumsOfManyChunksAreRoundedOnce) {
  // Each row adds a half; in bf16 that would be lost from 128 on, and in f16 from 1024.
  for (const DType t : {DType::bf16, DType::f16}) {
    const int64_t rows = t == DType::bf16 ? 1000 : 4000;
    Array x = Contiguous(t, {rows, 1}), w = Contiguous(t, {2, 1}), g = Contiguous(t, {rows});
    Array targets = Contiguous(DType::i64, {rows});
    for (int64_t i = 0; i < rows; ++i) x.Set(i, 1), g.Set(i, 1), targets.SetInt(i, 0);
    w.Set(0, 0), w.Set(1, 0);
    const Budget scope(1);
    const Grads grads = Gradients(x, w, targets, g);
    ASSERT_TRUE(grads.status.ok()) << grads.status;
    EXPECT_EQ(grads.w.Get(0), -static_cast<double>(rows) / 2);
    EXPECT_EQ(grads.w.Get(1), static_cast<double>(rows) / 2);
  }
}

TEST(LinearCrossEntropy, NoRowsNoFeaturesNoClasses) {
  const Array none = Contiguous(DType::f32, {0, 3}), no_targets = Contiguous(DType::i64, {0}),
              no_g = Contiguous(DType::f32, {0});
  Rng rng(9);
  const Array w = Random(rng, DType::f32, {4, 3});
  EXPECT_TRUE(Losses(none, w, no_targets).ok());
  Grads grads = Gradients(none, w, no_targets, no_g);
  ASSERT_TRUE(grads.status.ok()) << grads.status;
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(grads.w.Get(i), 0) << "what nothing adds to is 0";

  Array targets = Contiguous(DType::i64, {2});
  targets.SetInt(0, 1), targets.SetInt(1, -100);
  const Array g = Random(rng, DType::f32, {2});
  const auto y = Losses(Contiguous(DType::f32, {2, 0}), Contiguous(DType::f32, {4, 0}), targets);
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_NEAR(y->Get(0), std::log(4.0), 1e-6) << "all logits are 0";
  EXPECT_EQ(y->Get(1), 0);

  targets.SetInt(0, -100);
  const Array x = Random(rng, DType::f32, {2, 3});
  const auto ignored = Losses(x, Contiguous(DType::f32, {0, 3}), targets);
  ASSERT_TRUE(ignored.ok()) << ignored.status();
  EXPECT_EQ(ignored->Get(0), 0);
  grads = Gradients(x, Contiguous(DType::f32, {0, 3}), targets, g);
  ASSERT_TRUE(grads.status.ok()) << grads.status;
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(grads.x.Get(i), 0);
}

TEST(LinearCrossEntropy, WhatIsNotANumberStaysInItsRow) {
  Rng rng(10);
  for (const int64_t budget : {0, 1}) {
    const Budget scope(budget);
    Array x = Contiguous(DType::f32, {4, 3}), targets = Contiguous(DType::i64, {4});
    Fill(rng, x);
    x.Set(4, std::nan(""));
    x.Set(6, INFINITY);
    const Array w = Random(rng, DType::f32, {5, 3}), g = Random(rng, DType::f32, {4});
    for (int i = 0; i < 4; ++i) targets.SetInt(i, i);
    const auto y = Losses(x, w, targets);
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_TRUE(std::isfinite(y->Get(0)) && std::isfinite(y->Get(3)));
    EXPECT_TRUE(std::isnan(y->Get(1)));
    EXPECT_FALSE(std::isfinite(y->Get(2)));
    Grads grads = Gradients(x, w, targets, g);
    ASSERT_TRUE(grads.status.ok()) << grads.status;
    for (int f = 0; f < 3; ++f) {
      EXPECT_TRUE(std::isfinite(grads.x.Get(f)) && std::isfinite(grads.x.Get(9 + f)));
      EXPECT_TRUE(std::isnan(grads.x.Get(3 + f)));
    }
    EXPECT_TRUE(std::isnan(grads.w.Get(1)));
  }
}

TEST(LinearCrossEntropy, ATargetThatIsNoClassIsNamed) {
  Rng rng(11);
  const Array x = Random(rng, DType::bf16, {2, 3, 4}), w = Random(rng, DType::bf16, {5, 4}),
              g = Random(rng, DType::bf16, {2, 3});
  Array targets = Contiguous(DType::i64, {2, 3});
  for (int i = 0; i < 6; ++i) targets.SetInt(i, i < 4 ? i : 5);
  const std::string text = "targets[1,1] is 5; it must be in [0, 5), the classes of w bf16[5,4], or ignore (-100)";
  for (const absl::Status& s : {Losses(x, w, targets).status(), Gradients(x, w, targets, g).status}) {
    EXPECT_EQ(s.code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(std::string(s.message()), text);
  }
  EXPECT_TRUE(Losses(x, w, targets, 5).ok());
}

TEST(LinearCrossEntropy, MessagesSayWhatWouldWork) {
  const auto message = [](const Dims& x, const Dims& w, const Dims& targets, const Dims& g) {
    return std::string(Gradients(Contiguous(DType::f32, x), Contiguous(DType::f32, w), Contiguous(DType::i64, targets),
                                 Contiguous(DType::f32, g))
                           .status.message());
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(message({}, {5, 4}, {}, {}), "x [...,features] and w [classes,features]"));
  EXPECT_TRUE(has(message({3, 4}, {5, 4, 1}, {3}, {3}), "x [...,features] and w [classes,features]"));
  EXPECT_TRUE(has(message({3, 4}, {4, 5}, {3}, {3}), "4 must equal 5"));
  EXPECT_TRUE(has(message({2, 3, 4}, {5, 4}, {2}, {2}), "targets must be i64[2,3]"));
  EXPECT_TRUE(has(message({3, 4}, {5, 4}, {3}, {3, 1}), "g must have the dims of targets"));
}

TEST(LinearCrossEntropy, ChunksAreEvenAndWithinTheirLimits) {
  const interp::ChunkLimits limits = {.bytes = int64_t{256} << 20, .least = 1024, .multiple = 128};
  // GPT-2 in bf16, batches of 16 x 1024: 2668 rows would fit, and 8 chunks are alike.
  EXPECT_EQ(interp::RowsOfChunk(16384, 50304 * 2, limits), 2048);
  EXPECT_EQ(interp::RowsOfChunk(2000, 50304 * 2, limits), 2000) << "all at once";
  EXPECT_EQ(interp::RowsOfChunk(0, 50304 * 2, limits), 1);
  Rng rng(12);
  for (int round = 0; round < 1000; ++round) {
    const int64_t rows = Pick(rng, 1, 100000), row_bytes = Pick(rng, 0, 1 << 20);
    const int64_t most = std::max(limits.least, limits.bytes / std::max<int64_t>(1, row_bytes));
    const int64_t chunk = interp::RowsOfChunk(rows, row_bytes, limits);
    ASSERT_GE(chunk, 1);
    ASSERT_LE(chunk, std::min(rows, most));
    const int64_t least = (rows + most - 1) / most, chunks = (rows + chunk - 1) / chunk;
    ASSERT_LE(chunks, 2 * least) << rows << " rows of " << row_bytes;
  }
}

}  // namespace
}  // namespace tessera
