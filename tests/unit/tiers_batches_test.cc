// Which kernels of a plan run in one launch. What a launch computes is for a GPU to show: cuda_batches_test.cc.
#include <gtest/gtest.h>

#include "tests/unit/tiers_testing.h"
#include "tiers/batches.h"

namespace tessera::tiers {
namespace {

using tracer::Trace;
using tracer::TraceStep;
using tracer::TraceValue;
using tracer::ValueId;

/// Traces of ops on vectors, and kernels that stand for some of their steps.
class BatchesTest : public ::testing::Test {
 protected:
  ValueId Input() {
    TraceValue& value = trace_.values.emplace_back();
    value.kind = TraceValue::Kind::input;
    return static_cast<ValueId>(trace_.values.size()) - 1;
  }
  ValueId Step(ir::Op op, const std::vector<ValueId>& in) {
    TraceValue& value = trace_.values.emplace_back();
    value.kind = TraceValue::Kind::result;
    value.step = static_cast<int32_t>(trace_.steps.size());
    const auto out = static_cast<ValueId>(trace_.values.size()) - 1;
    TraceStep& step = trace_.steps.emplace_back();
    step.kind = TraceStep::Kind::op;
    step.op = op;
    step.in.assign(in.begin(), in.end());
    step.out = {out};
    return out;
  }
  /// Two steps and the kernel for them; `function` says whose code it has.
  ValueId Kernel(ValueId x, int function = 1, int64_t many = 100) {
    const ValueId y = Step(ir::Op::k_neg, {Step(ir::Op::k_square, {x})});
    Code::Kernel& kernel = kernels_.emplace_back();
    kernel.position = kernel.latest = static_cast<int>(trace_.steps.size()) - 1;
    kernel.steps = {kernel.position - 1, kernel.position};
    kernel.views = {x, y};
    kernel.num_inputs = 1;
    kernel.function = reinterpret_cast<const void*>(static_cast<uintptr_t>(function));
    kernel.many = many;
    return y;
  }
  std::vector<std::vector<int>> Batches() { return FindBatches(trace_, kernels_); }
  using Lists = std::vector<std::vector<int>>;

  Trace trace_;
  std::vector<Code::Kernel> kernels_;
};

TEST_F(BatchesTest, KernelsOfOneFunction) {
  for (int function : {1, 2, 1, 3, 2, 1}) Kernel(Input(), function);
  EXPECT_EQ(Batches(), (Lists{{0, 2, 5}, {1, 4}}));
}

TEST_F(BatchesTest, NotWhatHasNoFunctionForMany) {
  for (int i = 0; i < 3; ++i) Kernel(Input(), 1, /*many=*/0);
  EXPECT_EQ(Batches(), Lists());
}

TEST_F(BatchesTest, NoneNeedsAnother) {
  const ValueId a = Kernel(Input());
  Kernel(Input());
  Kernel(a);
  Kernel(Input());
  EXPECT_EQ(Batches(), (Lists{{0, 1}, {2, 3}}));
}

TEST_F(BatchesTest, NothingInBetweenNeedsOne) {
  const ValueId a = Kernel(Input());
  Kernel(a, 2);
  Kernel(Input());
  Kernel(Input());
  EXPECT_EQ(Batches(), (Lists{{2, 3}}));
}

TEST_F(BatchesTest, WindowsReadNothing) {
  const ValueId a = Kernel(Input());
  const ValueId window = Step(ir::Op::k_reshape, {Step(ir::Op::k_reshape, {a})});
  Kernel(Input());
  EXPECT_EQ(Batches(), (Lists{{0, 1}}));
  // Who reads a window reads what it looks at.
  Kernel(window, 2);
  Kernel(Input());
  EXPECT_EQ(Batches(), (Lists{{0, 1}}));
}

// A reshape of what does not lie in order is a copy.
TEST_F(BatchesTest, CopiesRead) {
  const ValueId a = Kernel(Input());
  Step(ir::Op::k_reshape, {Step(ir::Op::k_transpose, {a})});
  Kernel(Input());
  Kernel(Input());
  EXPECT_EQ(Batches(), (Lists{{1, 2}}));
}

// They end a stretch: they may fail, and memory that kernels read is free for them.
TEST_F(BatchesTest, OtherStepsEndThem) {
  Kernel(Input());
  Kernel(Input());
  Step(ir::Op::k_sort, {Input()});
  Kernel(Input());
  Kernel(Input());
  Kernel(Input());
  EXPECT_EQ(Batches(), (Lists{{0, 1}, {2, 3, 4}}));
}

TEST_F(BatchesTest, ParametersAreAsMany) {
  Kernel(Input());
  Kernel(Input());
  kernels_[1].dims = {{0, 0}};
  Kernel(Input());
  kernels_[2].dims = {{0, 0}};
  EXPECT_EQ(Batches(), (Lists{{1, 2}}));
}

}  // namespace
}  // namespace tessera::tiers
