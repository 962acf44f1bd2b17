// Which products of a trace are given to the library of a CUDA device together with what follows them. What they
// compute is for a GPU to show: cuda_epilogues_test.cc.
#include <gtest/gtest.h>

#include "tests/unit/tiers_testing.h"
#include "tiers/library_kernels.h"

namespace tessera::tiers {
namespace {

using interp::Epilogue;
using tracer::Trace;
using tracer::TraceStep;
using tracer::TraceValue;
using tracer::ValueId;

/// Traces of eager ops, whose handles all die in them, and kernels that stand for some of their steps.
class LibraryKernelsTest : public ::testing::Test {
 protected:
  LibraryKernelsTest() {
    trace_.is_eager = true;
    trace_.device = &rt::Cpu();  // only for what the plan of its memory looks at
  }
  TraceValue& Value(const std::vector<int64_t>& dims, DType dtype) {
    TraceValue& value = trace_.values.emplace_back();
    value.type.dtype = dtype;
    value.type.rank = static_cast<uint8_t>(dims.size());
    std::copy(dims.begin(), dims.end(), value.type.dims);
    return value;
  }
  ValueId Last() const { return static_cast<ValueId>(trace_.values.size()) - 1; }
  ValueId Input(const std::vector<int64_t>& dims, DType dtype = DType::bf16) {
    Value(dims, dtype).kind = TraceValue::Kind::input;
    return Last();
  }
  ValueId Step(ir::Op op, const std::vector<ValueId>& in, const std::vector<int64_t>& dims, DType dtype = DType::bf16) {
    TraceValue& value = Value(dims, dtype);
    value.kind = TraceValue::Kind::result;
    value.step = static_cast<int32_t>(trace_.steps.size());
    value.death = value.step + 2;
    TraceStep& step = trace_.steps.emplace_back();
    step.kind = TraceStep::Kind::op;
    step.op = op;
    step.in.assign(in.begin(), in.end());
    step.out = {Last()};
    kernel_of_.push_back(-1);
    return Last();
  }
  ValueId Matmul(DType dtype = DType::bf16) {
    return Step(ir::Op::k_matmul, {Input({64, 32}, dtype), Input({32, 16}, dtype)}, {64, 16}, dtype);
  }
  ValueId Add(ValueId a, ValueId b, DType dtype = DType::bf16) { return Step(ir::Op::k_add, {a, b}, {64, 16}, dtype); }
  /// A generated kernel for the steps from `from` up to the last one.
  void Generated(int from) {
    Code::Kernel& kernel = kernels_.emplace_back();
    kernel.position = kernel.latest = static_cast<int>(trace_.steps.size()) - 1;
    for (int s = from; s <= kernel.position; ++s) {
      kernel.steps.push_back(s);
      kernel_of_[static_cast<size_t>(s)] = static_cast<int32_t>(kernels_.size()) - 1;
    }
    kernel.name = "generated";
  }
  void Find() { FindLibraryKernels(trace_, kernels_, kernel_of_); }

  Trace trace_;
  std::vector<Code::Kernel> kernels_;
  std::vector<int32_t> kernel_of_;
};

TEST_F(LibraryKernelsTest, ABias) {
  const ValueId p = Matmul(), b = Input({16}), y = Add(b, p);
  Step(ir::Op::k_exp, {y}, {64, 16});
  Find();
  ASSERT_EQ(kernels_.size(), 1u);
  const Code::Kernel& kernel = kernels_[0];
  ASSERT_TRUE(kernel.library);
  EXPECT_EQ(kernel.steps, (std::vector<int>{0, 1}));
  EXPECT_EQ(kernel.position, 1);
  EXPECT_EQ(kernel.latest, 1);
  EXPECT_EQ(kernel.views, (std::vector<ValueId>{0, 1, b, y}));
  EXPECT_EQ(kernel.num_inputs, 3u);
  EXPECT_EQ(kernel.inner, std::vector<ValueId>{p});
  EXPECT_EQ(kernel.library->bias, 2);
  EXPECT_EQ(kernel.library->added, -1);
  EXPECT_EQ(kernel.library->attrs.size(), 2u);
  EXPECT_EQ(kernel_of_, (std::vector<int32_t>{0, 0, -1}));
}

TEST_F(LibraryKernelsTest, ABiasATensorAndAnActivation) {
  const ValueId p = Matmul(), b = Input({16}), r = Input({64, 16});
  const ValueId y = Step(ir::Op::k_gelu_tanh, {Add(Add(p, r), b)}, {64, 16});
  Step(ir::Op::k_neg, {y}, {64, 16});
  Find();
  ASSERT_EQ(kernels_.size(), 1u);
  EXPECT_EQ(kernels_[0].steps, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(kernels_[0].views, (std::vector<ValueId>{0, 1, r, b, y}));
  EXPECT_EQ(kernels_[0].library->added, 2);
  EXPECT_EQ(kernels_[0].library->bias, 3);
  EXPECT_EQ(kernels_[0].library->activation, Epilogue::Activation::gelu_tanh);
}

TEST_F(LibraryKernelsTest, NothingFollowsAnActivation) {
  const ValueId p = Matmul(), b = Input({16}), r = Input({64, 16});
  Add(Step(ir::Op::k_gelu_tanh, {Add(p, b)}, {64, 16}), r);
  Find();
  ASSERT_EQ(kernels_.size(), 1u);
  EXPECT_EQ(kernels_[0].steps, (std::vector<int>{0, 1, 2}));
}

TEST_F(LibraryKernelsTest, TheLibrarysTanhIsNotExactEnoughForF32) {
  const ValueId p = Matmul(DType::f32), b = Input({16}, DType::f32);
  Step(ir::Op::k_gelu_tanh, {Add(p, b, DType::f32)}, {64, 16}, DType::f32);
  Find();
  ASSERT_EQ(kernels_.size(), 1u);
  EXPECT_EQ(kernels_[0].steps, (std::vector<int>{0, 1}));
}

TEST_F(LibraryKernelsTest, NotWhatOthersNeed) {
  const ValueId p = Matmul(), b = Input({16});
  Add(p, b);
  Step(ir::Op::k_exp, {p}, {64, 16});
  Find();
  EXPECT_TRUE(kernels_.empty());
}

TEST_F(LibraryKernelsTest, NotWhatTheProgramHolds) {
  const ValueId p = Matmul(), b = Input({16});
  trace_.values[static_cast<size_t>(p)].death = tracer::kAtEnd;
  Add(p, b);
  Find();
  EXPECT_TRUE(kernels_.empty());
}

TEST_F(LibraryKernelsTest, OnlyWindowsStandBetween) {
  const ValueId p = Matmul(), b = Input({16, 1});
  Step(ir::Op::k_exp, {b}, {16, 1});
  Add(p, Input({16}));
  const ValueId q = Matmul(), flat = Step(ir::Op::k_reshape, {b}, {16});
  Add(q, flat);
  Find();
  ASSERT_EQ(kernels_.size(), 1u);
  EXPECT_EQ(kernels_[0].steps, (std::vector<int>{3, 5}));
}

TEST_F(LibraryKernelsTest, NotWhatIsOfAnotherShapeOrDType) {
  Add(Matmul(), Input({64, 1}));
  Add(Matmul(), Input({16}, DType::f32));
  Step(ir::Op::k_add, {Matmul(), Input({3, 64, 16})}, {3, 64, 16});
  Add(Matmul(DType::f64), Input({16}, DType::f64), DType::f64);
  const ValueId p = Matmul();
  Add(p, p);
  // A part may begin anywhere.
  Add(Matmul(), Step(ir::Op::k_slice, {Input({20})}, {16}));
  Find();
  EXPECT_TRUE(kernels_.empty());
}

TEST_F(LibraryKernelsTest, GeneratedKernelsGoAsAWholeOrStay) {
  const ValueId b = Input({16}), r = Input({64, 16});
  const int first = static_cast<int>(trace_.steps.size());
  Step(ir::Op::k_exp, {r}, {64, 16});
  Generated(first);
  Add(Add(Matmul(), b), r);  // steps 1 to 3
  Generated(first + 2);
  Step(ir::Op::k_exp, {Add(Matmul(), b)}, {64, 16});  // steps 4 to 6: the kernel does more than the library can
  Generated(first + 5);
  Find();
  ASSERT_EQ(kernels_.size(), 3u);
  EXPECT_EQ(kernels_[0].name, "generated");
  EXPECT_EQ(kernels_[1].name, "generated");
  EXPECT_EQ(kernels_[1].steps, (std::vector<int>{5, 6}));
  EXPECT_TRUE(kernels_[2].library);
  EXPECT_EQ(kernels_[2].steps, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(kernel_of_, (std::vector<int32_t>{0, 2, 2, 2, -1, 1, 1}));
}

TEST_F(LibraryKernelsTest, ProductsThatAreGeneratedStay) {
  Add(Matmul(), Input({16}));
  Generated(0);
  Find();
  ASSERT_EQ(kernels_.size(), 1u);
  EXPECT_FALSE(kernels_[0].library);
}

}  // namespace
}  // namespace tessera::tiers
