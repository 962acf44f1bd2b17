// linear_cross_entropy as programs use it: beside the ops that it stands for, on a tape, in versions, and what memory
// it takes.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "interp/row_chunks.h"
#include "tessera/nn.h"
#include "tests/unit/tiers_code_testing.h"

namespace tessera {
namespace {

Tensor TargetsOf(int64_t rows, int64_t classes) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < rows; ++i) values.push_back(i % 7 == 3 ? -100 : i * 31 % classes);
  return Tensor::from(values, {rows});
}

struct Losses {
  Tensor loss;
  std::vector<Tensor> grads;  // of x and of w
};
/// The mean loss and its gradients, by the op or by those that it stands for.
Losses LossOf(const Tensor& x, const Tensor& w, const Tensor& targets, bool by_op) {
  Tape tape;
  tape.watch({x, w});
  const Tensor losses = by_op ? linear_cross_entropy(x, w, targets) : cross_entropy(matmul(x, w, false, true), targets);
  const Tensor loss = mean(cast(losses, f32));
  return {loss, tape.gradient(loss, {x, w})};
}

void ExpectAlike(const Tensor& got, const Tensor& want, double tolerance, const char* what) {
  ASSERT_EQ(got.dtype(), want.dtype());
  ASSERT_EQ(got.dims(), want.dims());
  const auto a = got.cast(f64).to_vector<double>(), b = want.cast(f64).to_vector<double>();
  double largest = 0;
  for (const double v : b) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], tolerance * (std::abs(b[i]) + 0.1 * largest)) << what << " " << i;
}

TEST(LinearCrossEntropyApi, IsCrossEntropyOfAProduct) {
  const Tensor targets = TargetsOf(60, 37);
  for (const DType dtype : {f64, f32, f16, bf16}) {
    const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 1e-4 : 0.1;
    const Tensor x = Uniform({60, 24}, 1, -1, 1, dtype), w = Uniform({37, 24}, 2, -0.5, 0.5, dtype);
    const Losses want = LossOf(x, w, targets, false);
    for (const int64_t budget : {0, 1, 37 * 8 * 7}) {
      SCOPED_TRACE(std::string(Name(dtype)) + ", budget " + std::to_string(budget));
      interp::logits_budget = budget;
      const Losses got = LossOf(x, w, targets, true);
      // w as a window onto something else.
      const Losses turned = LossOf(x, copy(transpose(w)).transpose(), targets, true);
      interp::logits_budget = 0;
      for (const Losses* l : {&got, &turned}) {
        ExpectAlike(l->loss, want.loss, tolerance, "loss");
        ExpectAlike(l->grads[0], want.grads[0], tolerance, "dx");
        ExpectAlike(l->grads[1], want.grads[1], tolerance, "dw");
      }
    }
  }
}

TEST(LinearCrossEntropyApi, TheLossOfATiedTable) {
  nn::Params params(3);
  const nn::Embedding tokens(params / "tokens", 32, 16);
  const Tensor h = Uniform({4, 8, 16}, 5), targets = TargetsOf(32, 32).reshape({4, 8});
  ExpectAlike(tokens.loss(h, targets), cross_entropy(tokens.logits(h), targets), 1e-5, "loss");
  const Tensor classes = maximum(targets, 0);
  ExpectAlike(tokens.loss(h, classes, 0), cross_entropy(tokens.logits(h), classes, 0), 1e-5, "loss without class 0");
}

TEST(LinearCrossEntropyApi, TheLogitsAreNeverAllInMemory) {
  constexpr int64_t kRows = 4096, kClasses = 4096, kFeatures = 16, kLogits = kRows * kClasses * 4;
  const OptionScope scope({{"tier", "1"}});
  const Tensor x = Uniform({kRows, kFeatures}, 1), w = Uniform({kClasses, kFeatures}, 2),
               targets = TargetsOf(kRows, kClasses);
  const auto peak = [&](bool by_op) {
    const int64_t before = Runtime::memory(Device::cpu()).bytes_in_use;
    Runtime::reset_peak_memory(Device::cpu());
    LossOf(x, w, targets, by_op).grads[1].to_bytes();
    return Runtime::memory(Device::cpu()).peak_bytes - before;
  };
  EXPECT_GE(peak(false), kLogits);
  EXPECT_LT(peak(true), kLogits / 4);
}

TEST(LinearCrossEntropyApi, InVersionsItIsAsInTier1) {
  for (const int64_t budget : {0, 1000}) {
    SCOPED_TRACE(budget);
    interp::logits_budget = budget;
    RunEveryWay(
        [](Log& log) {
          const Tensor targets = TargetsOf(40, 33);
          Tensor w = Uniform({33, 12}, 2, -0.5, 0.5);
          for (int i = 0; i < 24; ++i) {
            const Tensor x = tanh(Uniform({40, 12}, static_cast<uint64_t>(i)) * 0.5);
            const Losses l = LossOf(x, w, targets, true);
            w = w - l.grads[1] * 0.1;
            if (i % 4 == 3) log.Add(l.loss);
            if (i % 8 == 7) log.Add(l.grads[0]);
          }
          log.Add(w);
        },
        /*kernels=*/false);
    interp::logits_budget = 0;
  }
}

TEST(LinearCrossEntropyApi, ABadTargetIsRaisedWhereItIsRead) {
  RunEveryWay(
      [](Log& log) {
        const Tensor x = Uniform({2, 12}, 1), w = Uniform({33, 12}, 2);
        for (int i = 0; i < 16; ++i)
          log.Try([&] {
            log.Add(
                sum(linear_cross_entropy(x * 0.5, w, Tensor::from({int64_t{3}, i == 12 ? int64_t{33} : int64_t{5}}))));
          });
      },
      /*kernels=*/false);
}

}  // namespace
}  // namespace tessera
