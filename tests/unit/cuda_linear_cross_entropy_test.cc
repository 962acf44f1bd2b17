// linear_cross_entropy and its gradient on a CUDA device against the cpu, with one chunk and with several.
#include "cuda_ops_testing.h"
#include "interp/row_chunks.h"

namespace tessera {
namespace {

using ir::Op;
using rt::Ref;
using rt::TensorImpl;

class CudaLinearCrossEntropy : public CudaOpsTesting {
 protected:
  void TearDown() override { interp::logits_budget = 0; }

  Ref<TensorImpl> Targets(std::vector<int64_t> dims, int64_t classes) {
    Ref<TensorImpl> targets = Make(DType::i64, std::move(dims));
    for (int64_t i = 0; i < targets->size(); ++i)
      targets->as<int64_t>()[i] = i % 5 == 2 ? -100 : static_cast<int64_t>(rng_() % static_cast<uint64_t>(classes));
    return targets;
  }
  /// Both ops. The device rounds logits and their gradients to f16 and bf16, the cpu does not; sums over rows grow.
  void CompareBoth(DType dtype, const std::vector<int64_t>& lead, int64_t classes, int64_t features, int how) {
    std::vector<int64_t> of_x = lead;
    of_x.push_back(features);
    int64_t rows = 1;
    for (const int64_t d : lead) rows *= d;
    const auto x = Strided(Random(dtype, of_x), how), w = Strided(Random(dtype, {classes, features}, 0.2), how);
    const auto targets = Targets(lead, classes);
    const bool half = dtype == DType::f16 || dtype == DType::bf16;
    // Of a class that few rows have there are few terms.
    const double terms = std::sqrt(1 + static_cast<double>(rows) / static_cast<double>(classes));
    const double units = half ? 16 : IsNarrowFloat(dtype) ? 2 : 256;
    Compare(Op::k_linear_cross_entropy, {x, w, targets}, {}, half ? 4 : units, half ? 1 : 4);
    Compare(Op::k_linear_cross_entropy_grad, {x, w, targets, Random(dtype, lead)}, {}, units, half ? terms / 4 : terms);
  }
};

TEST_F(CudaLinearCrossEntropy, ShapesStridesAndDtypes) {
  for (const DType dtype : kFloats) {
    for (const int64_t budget : {int64_t{0}, int64_t{1}, int64_t{20000}}) {
      interp::logits_budget = budget;
      for (int how = 0; how < 3; ++how) {
        CompareBoth(dtype, {}, 7, 5, how);
        CompareBoth(dtype, {13}, 1, 3, how);
        CompareBoth(dtype, {3, 11}, 33, 17, how);
        CompareBoth(dtype, {5, 16}, 1000, 64, how);
        CompareBoth(dtype, {70}, 2047, 40, how);
      }
      CompareBoth(dtype, {0}, 5, 4, 0);
      CompareBoth(dtype, {2, 0, 3}, 5, 4, 0);
      CompareBoth(dtype, {4}, 5, 0, 0);
    }
  }
}

TEST_F(CudaLinearCrossEntropy, AsALanguageModelHasIt) {
  // The device's own budget has several chunks of these, the last one smaller.
  CompareBoth(DType::bf16, {5000}, 50304, 64, 0);
  CompareBoth(DType::f32, {2, 1500}, 50257, 48, 0);
}

TEST_F(CudaLinearCrossEntropy, SumsOfManyChunksAreRoundedOnce) {
  interp::logits_budget = 1;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const int64_t rows = dtype == DType::bf16 ? 1000 : 4000;
    const auto full = [&](std::vector<int64_t> dims, double value) {
      Ref<TensorImpl> wide = Make(DType::f64, std::move(dims));
      for (int64_t i = 0; i < wide->size(); ++i) wide->as<double>()[i] = value;
      return *interp::Cast(*wide, rt::Cpu(), dtype);
    };
    Ref<TensorImpl> targets = Make(DType::i64, {rows});
    for (int64_t i = 0; i < rows; ++i) targets->as<int64_t>()[i] = 0;
    Compare(Op::k_linear_cross_entropy_grad, {full({rows, 8}, 1), full({2, 8}, 0), targets, full({rows}, 1)}, {}, 1,
            1e-3);
  }
}

TEST_F(CudaLinearCrossEntropy, SpecialValues) {
  for (const int64_t budget : {0, 1}) {
    interp::logits_budget = budget;
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Ref<TensorImpl> wide = Make(DType::f64, {4, 16});
      for (int64_t i = 0; i < 64; ++i) wide->as<double>()[i] = i == 20 ? NAN : i == 40 ? INFINITY : 0.25;
      const auto x = *interp::Cast(*wide, rt::Cpu(), dtype);
      const auto w = Random(dtype, {24, 16});
      Compare(Op::k_linear_cross_entropy, {x, w, Targets({4}, 24)}, {}, IsNarrowFloat(dtype) ? 8 : 256, 4);
    }
  }
}

TEST_F(CudaLinearCrossEntropy, TheLogitsAreNeverAllInMemory) {
  const int64_t rows = 32768, classes = 32768, features = 64, logits = rows * classes * 2;
  const auto x = ToCuda(Random(DType::bf16, {rows, features})), w = ToCuda(Random(DType::bf16, {classes, features}));
  const auto g = ToCuda(Random(DType::bf16, {rows})), targets = ToCuda(Targets({rows}, classes));
  ASSERT_TRUE(RunOn(*cuda_, Op::k_linear_cross_entropy, {x, w, targets}, {}).ok());
  const int64_t before = cuda_->memory_stats().bytes_in_use;
  cuda_->ResetPeak();
  ASSERT_TRUE(RunOn(*cuda_, Op::k_linear_cross_entropy, {x, w, targets}, {}).ok());
  ASSERT_TRUE(RunOn(*cuda_, Op::k_linear_cross_entropy_grad, {x, w, targets, g}, {}).ok());
  EXPECT_LT(cuda_->memory_stats().peak_bytes - before, logits / 2) << "also where kernels of products are tried";
  EXPECT_TRUE(cuda_->Synchronize().ok());
}

TEST_F(CudaLinearCrossEntropy, ATargetThatIsNoClassIsReported) {
  for (const Op op : {Op::k_linear_cross_entropy, Op::k_linear_cross_entropy_grad}) {
    Ref<TensorImpl> targets = Make(DType::i64, {6});
    for (int64_t i = 0; i < 6; ++i) targets->as<int64_t>()[i] = i == 4 ? 9 : i;
    Inputs in = {ToCuda(Random(DType::f32, {6, 8})), ToCuda(Random(DType::f32, {9, 8})), ToCuda(targets)};
    if (op == Op::k_linear_cross_entropy_grad) in.push_back(ToCuda(Random(DType::f32, {6})));
    ASSERT_TRUE(cuda_->Synchronize().ok());
    ASSERT_TRUE(RunOn(*cuda_, op, in, {}).ok());
    const absl::Status status = cuda_->Synchronize();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
    EXPECT_NE(std::string(status.message()).find("target 9 is no class; there are 9"), std::string::npos) << status;
    EXPECT_NE(std::string(status.message()).find(ir::Info(op).name), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace tessera
