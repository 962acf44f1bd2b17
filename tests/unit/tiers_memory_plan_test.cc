// Where values of a trace lie: never two in the same place at the same time, whatever their sizes, and close together.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tiers/memory_plan.h"

namespace tessera::tiers {
namespace {

using tracer::Trace;
using tracer::TraceStep;
using tracer::TraceValue;
using tracer::ValueId;

/// A step that reads `in` and makes a value of so many floats.
ValueId AddStep(Trace* trace, std::vector<ValueId> in, int64_t size) {
  const auto v = static_cast<ValueId>(trace->values.size());
  TraceValue value;
  value.kind = TraceValue::Kind::result;
  value.step = static_cast<int32_t>(trace->steps.size());
  value.type.dtype = DType::f32;
  value.type.rank = 1;
  value.type.dims[0] = size;
  trace->values.push_back(value);
  TraceStep step;
  step.kind = TraceStep::Kind::op;
  step.op = ir::Op::k_add;
  step.in.assign(in.begin(), in.end());
  step.out.push_back(v);
  trace->steps.push_back(step);
  return v;
}

Trace Start(int64_t size) {
  Trace trace;
  trace.is_eager = true;
  TraceValue input;
  input.kind = TraceValue::Kind::input;
  input.type.dtype = DType::f32;
  input.type.rank = 1;
  input.type.dims[0] = size;
  trace.values.push_back(input);
  return trace;
}

struct Layout {
  std::vector<size_t> bytes, at;
  size_t total = 0, most_alive = 0;
};

/// With sizes of the caller's choice; checks that what lives at the same time lies apart.
Layout LayOut(const Trace& trace, const MemoryPlan& plan, const std::vector<size_t>& value_bytes) {
  Layout l;
  l.bytes.resize(static_cast<size_t>(plan.num_slots));
  for (size_t v = 0; v < trace.values.size(); ++v)
    if (plan.slots[v] >= 0) l.bytes[static_cast<size_t>(plan.slots[v])] = value_bytes[v];
  l.total = plan.Place(0, plan.num_slots, l.bytes, &l.at);
  for (int i = 0; i < static_cast<int>(trace.steps.size()); ++i) {
    std::vector<std::pair<size_t, size_t>> alive;
    size_t sum = 0;
    for (size_t v = 0; v < trace.values.size(); ++v) {
      if (plan.slots[v] < 0 || trace.values[v].step > i || plan.last[v] < i) continue;
      const auto slot = static_cast<size_t>(plan.slots[v]);
      alive.emplace_back(l.at[slot], l.at[slot] + l.bytes[slot]);
      sum += l.bytes[slot];
    }
    l.most_alive = std::max(l.most_alive, sum);
    std::sort(alive.begin(), alive.end());
    for (size_t k = 0; k + 1 < alive.size(); ++k) EXPECT_LE(alive[k].second, alive[k + 1].first) << "at step " << i;
    if (!alive.empty()) {
      EXPECT_LE(alive.back().second, l.total);
    }
  }
  return l;
}

TEST(MemoryPlan, WhatLivesTogetherLiesApartWhateverTheSizes) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    Trace trace = Start(1);
    std::vector<size_t> likely(1, 0);
    const int steps = 1 + static_cast<int>(random() % 120);
    for (int i = 0; i < steps; ++i) {
      std::vector<ValueId> in;
      for (int k = 0; k < 2; ++k) {
        // Mostly recent ones, now and then one of long ago.
        const size_t n = trace.values.size();
        const size_t back = random() % 8 == 0 ? random() % n : std::min<size_t>(random() % 4, n - 1);
        in.push_back(static_cast<ValueId>(n - 1 - back));
      }
      const int64_t size = random() % 16 == 0 ? 0 : int64_t{1} << random() % 16;
      AddStep(&trace, in, size);
      likely.push_back(static_cast<size_t>(size) * 4);
    }
    const MemoryPlan plan = PlanMemory(trace, {}, nullptr);
    const Layout planned = LayOut(trace, plan, likely);
    EXPECT_LE(planned.total, planned.most_alive + planned.most_alive / 2) << "close to what lives at a time";
    // The same plan with sizes that nobody foresaw.
    for (int other = 0; other < 3; ++other) {
      std::vector<size_t> sizes(likely.size());
      for (size_t& s : sizes) s = random() % 3 == 0 ? 0 : random() % 100'000;
      LayOut(trace, plan, sizes);
    }
  }
}

// Forward and backward of a deep model: each layer keeps two values for its gradient, and at the top there is one as
// large as all of them.
TEST(MemoryPlan, ALargeValueMakesRoomForManySmallOnes) {
  constexpr int kLayers = 20;
  constexpr int64_t kSize = 1000;
  Trace trace = Start(kSize);
  std::vector<size_t> bytes(1, 0);
  const auto add = [&](std::vector<ValueId> in, int64_t size) {
    bytes.push_back(static_cast<size_t>(size) * 4);
    return AddStep(&trace, std::move(in), size);
  };
  std::vector<std::pair<ValueId, ValueId>> kept;
  ValueId x = 0;
  for (int i = 0; i < kLayers; ++i) {
    const ValueId a = add({x, x}, kSize), b = add({a, a}, kSize);
    x = add({b, a}, kSize);
    kept.emplace_back(a, b);
  }
  const ValueId logits = add({x, x}, kLayers * kSize);
  ValueId grad = add({logits, logits}, kSize);
  std::vector<ValueId> grads;
  for (int i = kLayers; i-- > 0;) {
    grads.push_back(add({grad, kept[static_cast<size_t>(i)].second}, 2 * kSize));
    grad = add({grads.back(), kept[static_cast<size_t>(i)].first}, kSize);
  }
  add(grads, 1);  // they all live until here
  const MemoryPlan plan = PlanMemory(trace, {}, nullptr);
  const Layout l = LayOut(trace, plan, bytes);
  EXPECT_LE(l.total, l.most_alive + l.most_alive / 20);
}

}  // namespace
}  // namespace tessera::tiers
