// The counters that kernels are measured by, as CUPTI knows them without a GPU: that a chip has them, and how often a
// run is repeated to read them all. Without CUPTI there is nothing to run.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/activity.h"
#include "runtime/sanitizer.h"

namespace tessera {
namespace {

constexpr int64_t kRows = 0
#define TSR_MEASURE(name, metric, unit) +1
#include "runtime/cuda/measures.def"
    ;

class CudaCounters : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef TSR_ADDRESS_SANITIZER
    GTEST_SKIP() << "CUPTI opens a library in a way (RTLD_DEEPBIND) that AddressSanitizer refuses";
#endif
  }
};

TEST_F(CudaCounters, HopperHasAllOfThemInFewPasses) {
  const auto plan = rt::PlanMeasures("GH100");
  if (absl::IsNotFound(plan.status())) GTEST_SKIP() << plan.status();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->missing, "");
  EXPECT_EQ(plan->metrics, kRows);
  // Each pass is another run of the version: a counter that asks for one more must be worth it.
  EXPECT_LE(plan->passes, 4);
  EXPECT_GE(plan->passes, 2) << "more counters than the hardware has";
}

TEST_F(CudaCounters, WhatAChipLacksIsLeftOut) {
  const auto plan = rt::PlanMeasures("GB202");
  if (absl::IsNotFound(plan.status())) GTEST_SKIP() << plan.status();
  if (!plan.ok()) GTEST_SKIP() << "this CUPTI does not know the chip: " << plan.status();
  EXPECT_GT(plan->metrics, kRows / 2);
  EXPECT_GT(plan->passes, 0);
  const auto missing = std::count(plan->missing.begin(), plan->missing.end(), ',') + (plan->missing.empty() ? 0 : 1);
  EXPECT_EQ(plan->metrics + missing, kRows);
}

TEST_F(CudaCounters, AChipThatIsNoneIsAnError) {
  const auto plan = rt::PlanMeasures("no such chip");
  EXPECT_FALSE(plan.ok());
}

}  // namespace
}  // namespace tessera
