// What arrivals say of dims before there is a version, and what becomes of buckets that would not hold them.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tiers/dims_seen.h"
#include "tracer/generalise.h"

namespace tessera::tiers {
namespace {

using tracer::Trace;
using tracer::TraceValue;

/// One eager op on a number and a tensor of those dims, or a function that gives its argument back.
std::shared_ptr<const Trace> TraceOf(const std::vector<int64_t>& dims, bool is_eager = true) {
  auto trace = std::make_shared<Trace>();
  trace->is_eager = is_eager;
  TraceValue& number = trace->values.emplace_back();
  number.kind = TraceValue::Kind::number;
  for (const auto kind : {TraceValue::Kind::input, TraceValue::Kind::result}) {
    TraceValue& value = trace->values.emplace_back();
    value.kind = kind;
    value.reg = kind == TraceValue::Kind::input && !is_eager ? 0 : -1;
    value.type.dtype = DType::f32;
    value.type.rank = static_cast<uint8_t>(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) value.type.dims[d] = dims[d];
    value.strides.assign(dims.size(), 1);
  }
  trace->values[0].type.dtype = DType::f32;
  auto& step = trace->steps.emplace_back();
  step.op = ir::Op::k_add;
  step.in = {0, 1};
  step.out = {2};
  return trace;
}

void Add(DimsSeen& seen, const std::vector<int64_t>& dims) {
  View number, x;
  number.weak = true;
  number.rank = 0;
  x.rank = static_cast<uint8_t>(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) x.dims[d] = dims[d];
  const View* operands[] = {nullptr, &number, &x};
  seen.Add(operands);
}

/// Buckets 8 to 32, by 4, and 3, which does not vary.
std::shared_ptr<const Trace> Buckets(bool is_eager = true) {
  return Generalise({TraceOf({12, 3}, is_eager), TraceOf({20, 3}, is_eager)}, tracer::Width::bucketed);
}

TEST(TiersDimsSeen, NothingExceedsBeforeAnArrival) {
  DimsSeen seen;
  EXPECT_FALSE(seen.ExceedBuckets(*Buckets()));
}

TEST(TiersDimsSeen, BothEndsOfABucketAreInIt) {
  DimsSeen seen;
  for (const int64_t n : {8, 32, 16, 28}) Add(seen, {n, 3});
  EXPECT_FALSE(seen.ExceedBuckets(*Buckets()));
}

TEST(TiersDimsSeen, WhatLiesOutsideExceeds) {
  for (const int64_t n : {4, 36, 64, 10}) {  // below, above, far above, not divided by 4
    DimsSeen seen;
    Add(seen, {16, 3});
    Add(seen, {n, 3});
    EXPECT_TRUE(seen.ExceedBuckets(*Buckets())) << n;
    seen.Clear();
    EXPECT_FALSE(seen.ExceedBuckets(*Buckets())) << n;
  }
}

TEST(TiersDimsSeen, DimsThatDoNotVaryAndThoseThatBroadcastAreForRecordings) {
  DimsSeen seen;
  Add(seen, {16, 500});
  Add(seen, {1, 3});
  Add(seen, {0, 3});
  EXPECT_FALSE(seen.ExceedBuckets(*Buckets()));
  // All dims are the same: there are no buckets.
  Add(seen, {7, 3});
  EXPECT_FALSE(seen.ExceedBuckets(*TraceOf({16, 3})));
}

TEST(TiersDimsSeen, TheFirstArgumentOfAFunction) {
  DimsSeen seen;
  Add(seen, {64, 3});
  EXPECT_TRUE(seen.ExceedBuckets(*Buckets(/*is_eager=*/false)));
  auto other = std::make_shared<Trace>(*Buckets(/*is_eager=*/false));
  other->values[1].reg = 1;  // it uses the second one only
  EXPECT_FALSE(seen.ExceedBuckets(*other));
}

TEST(TiersDimsSeen, BucketsThatAreTooNarrowBecomeSymbolic) {
  int asked = 0;
  const auto too_narrow = [&](const Trace& trace) {
    ++asked;
    EXPECT_EQ(trace.ranges.at(0).high, 32);
    return true;
  };
  const auto trace = Generalise({TraceOf({12, 3}), TraceOf({20, 3})}, tracer::Width::bucketed, too_narrow);
  EXPECT_EQ(asked, 1);
  ASSERT_EQ(trace->ranges.size(), 1u);
  EXPECT_EQ(trace->ranges[0].low, 2);
  EXPECT_EQ(trace->ranges[0].high, INT64_MAX);
  EXPECT_EQ(trace->ranges[0].divisor, 1);
  // Nothing varies, or it is symbolic anyway: nobody is asked.
  Generalise({TraceOf({12, 3}), TraceOf({12, 3})}, tracer::Width::bucketed, too_narrow);
  Generalise({TraceOf({12, 3}), TraceOf({20, 3})}, tracer::Width::symbolic, too_narrow);
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace tessera::tiers
