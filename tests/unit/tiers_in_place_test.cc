// State that a step replaces is written where the old one was, if nobody else has that.
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/optim.h"
#include "tests/unit/tiers_code_testing.h"
#include "tiers/memory_plan.h"
#include "tiers/replay.h"

namespace tessera {
namespace {

constexpr int64_t kRows = 64, kColumns = 259, kBytes = kRows * kColumns * 4;  // rows that are no whole vectors

struct State {
  Tensor w = Uniform({kRows, kColumns}, 2), m = Uniform({kRows, kColumns}, 3), v = Uniform({kRows, kColumns}, 4);
  void Step(const Tensor& g) {
    m = m * 0.9 + g * 0.1;
    v = v * 0.99 + square(g) * 0.01;
    w = w - m / (sqrt(v) + 1e-3) * 0.01;
  }
};

/// Of all versions of eager traces.
std::vector<const tiers::Replay*> Versions() {
  std::vector<const tiers::Replay*> all;
  for (const auto& a : tiers::Manager::Get().anchors())
    for (const auto& v : a->versions())
      if (v->trace().is_eager) all.push_back(static_cast<const tiers::Replay*>(v.get()));
  return all;
}

TEST(TiersInPlace, StateMayBeWhereItWas) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  for (const Way way : kWays) {
    SCOPED_TRACE(NameOf(way));
    OptionScope scope(CodeAtOnce(way));
    tiers::Manager::Get().Reset();
    State state;
    for (int i = 0; i < 30; ++i) {
      state.Step(Uniform({kRows, kColumns}, 5 + i % 3));
      (void)state.w.to_bytes();
    }
    int64_t with_code = 0;
    for (const tiers::Replay* version : Versions()) {
      if (version->code() == nullptr) continue;
      ++with_code;
      const tiers::Trace& trace = version->trace();
      const std::vector<tiers::MemoryPlan::Donors>& donors = version->plan().donors;
      ASSERT_EQ(donors.size(), trace.values.size());
      int64_t pairs = 0;
      for (size_t v = 0; v < donors.size(); ++v) {
        for (const tiers::ValueId input : donors[v].inputs) {
          ++pairs;
          const int kernel = donors[v].kernel;
          EXPECT_EQ(trace.values[static_cast<size_t>(input)].kind, tiers::TraceValue::Kind::input);
          EXPECT_EQ(kernel, version->code()->kernel_of(trace.values[v].step));
          // Whoever reads the input later than the result is made is part of the kernel that makes it.
          const int made =
              kernel >= 0 ? version->code()->kernels()[static_cast<size_t>(kernel)].position : trace.values[v].step;
          for (size_t i = 0; i < trace.steps.size(); ++i) {
            if (std::count(trace.steps[i].in.begin(), trace.steps[i].in.end(), input) == 0) continue;
            const int reads = version->code()->kernel_of(static_cast<int>(i));
            if (reads >= 0 && reads == kernel) continue;
            EXPECT_LT(
                reads >= 0 ? version->code()->kernels()[static_cast<size_t>(reads)].position : static_cast<int>(i),
                made);
          }
        }
      }
      EXPECT_GE(pairs, 2) << "m and v at the least";
    }
    EXPECT_GT(with_code, 0) << Runtime::explain();
  }
}

/// Bytes that a step takes beyond what is there before it.
int64_t PeakOfStep(bool hold) {
  tiers::Manager::Get().Reset();
  State state;
  std::vector<Tensor> held;
  const Tensor g = Uniform({kRows, kColumns}, 5);
  int64_t before = 0;
  for (int i = 0; i < 30; ++i) {
    if (hold) held = {state.w, state.m, state.v};
    before = Runtime::memory(Device::cpu()).bytes_in_use;
    Runtime::reset_peak_memory(Device::cpu());
    state.Step(g);
    (void)slice(state.w, {0, 0}, {1, 1}).to_bytes();
  }
  return Runtime::memory(Device::cpu()).peak_bytes - before;
}

TEST(TiersInPlace, AStepTakesNoMoreMemory) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  for (const Way way : {Way{2, true}, Way{3, true}}) {
    SCOPED_TRACE(NameOf(way));
    OptionScope scope(CodeAtOnce(way));
    EXPECT_LT(PeakOfStep(false), kBytes) << Runtime::explain();
    EXPECT_GE(PeakOfStep(true), 3 * kBytes) << "what the program holds stays as it was";
  }
}

// What may not be written over: values that are read elsewhere, at another place, by later kernels, through windows, or
// held by the program. Every way and every stress must give what tier 1 gives.
void Tricky(Log& log) {
  const Tensor g = Uniform({kRows, kRows}, 1);
  Tensor a = Uniform({kRows, kRows}, 2), b = a * 0.5, c = a * 0.25, d = Uniform({kRows, kRows}, 3), e = d * 0.5;
  Tensor p = Uniform({kRows, kRows}, 4), q = Uniform({kRows, kRows}, 5);
  Tensor held, window, row;
  for (int i = 0; i < 48; ++i) {
    if (i % 7 == 3) held = a;
    if (i % 11 == 4) window = transpose(b);
    if (i % 5 == 1) row = slice(c, {1, 0}, {2, kRows});
    // Two states that change places.
    const Tensor next = b * 0.9 + g * 0.1;
    b = c * 0.5 + next * 0.25;
    c = next;
    // Read at another point than it is written, and by its own transpose.
    a = a * 0.5 + transpose(a) * 0.25 + g * 0.125;
    // A row of it for all rows, and a sum over all of it.
    d = d * 0.5 + slice(d, {0, 0}, {1, kRows}) * 0.25;
    e = e - sum(e, {1}).reshape({kRows, 1}) * 0.001;
    // Two results of one kernel, of which the second needs what the first may be written over.
    const Tensor f = e + d * 0.5;
    e = e * d - f * 0.125;
    d = f;
    // The first result is written where the operand of the second is, which nothing has needed before.
    const Tensor half = p * 0.5, first = q * 0.25 + g;
    q = half + g;
    p = first;
    if (i % 7 == 6) log.Add(held);
    if (i % 11 == 9) log.Add(window);
    if (i % 5 == 4) log.Add(row);
    if (i % 3 == 0) log.Add(a);
    if (i % 16 == 5) log.Add(next);
  }
  for (const Tensor& x : {a, b, c, d, e, p, q}) log.Add(x);
}

TEST(TiersInPlace, NothingIsWrittenOverThatIsNeeded) {
  RunEveryWay(Tricky);
  for (const char* every : {"1", "2", "3", "7"}) {
    SCOPED_TRACE(every);
    Settings settings = CodeAtOnce({2, true});
    settings["deopt_every"] = every;
    RunBoth(Tricky, settings);
  }
  for (const char* seed : {"5", "6"}) {
    SCOPED_TRACE(seed);
    Settings settings = CodeAtOnce({3, true});
    settings["chaos_seed"] = seed;
    RunBoth(Tricky, settings);
  }
}

// The optimiser of narrow weights, with clipping, and weights that are looked at between steps.
void Training(Log& log) {
  nn::Params params(3);
  nn::Linear first(params / "first", 33, 37, true, nn::normal(0.1)), second(params / "second", 37, 5, true);
  params.cast(bf16);
  optim::AdamW adam(params, {.rate = 0.05, .decay = 0.1, .clip = 0.5});
  const Tensor x = Uniform({16, 33}, 1).cast(bf16), y = Uniform({16, 5}, 2).cast(bf16);
  Tensor before;
  for (int i = 0; i < 30; ++i) {
    const auto [loss, grads] =
        nn::value_and_grad(params, [&] { return mean(square(second(relu(first(x))) - y).cast(f32)); });
    if (i % 7 == 2) before = first.weight->value;
    adam.step(grads);
    if (i % 7 == 2) log.Add(before);
    if (i % 5 == 0) log.Add(loss);
    if (i % 9 == 4) log.Add(grads[0]);
  }
  for (const auto& [name, value] : adam.state()) log.Add(value);
}

TEST(TiersInPlace, TrainingIsThatOfTier1) {
  RunEveryWay(Training, /*kernels=*/true, {}, kTwoWays);
  for (const char* every : {"2", "5"}) {
    SCOPED_TRACE(every);
    Settings settings = CodeAtOnce({2, true});
    settings["deopt_every"] = every;
    RunBoth(Training, settings);
  }
}

}  // namespace
}  // namespace tessera
