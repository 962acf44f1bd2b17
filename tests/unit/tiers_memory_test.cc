// What versions with generated kernels hold: values that fusion removed are in no memory, until their steps run after
// all.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "interp/dispatch.h"
#include "runtime/fault.h"
#include "tests/unit/tiers_code_testing.h"
#include "tiers/memory_plan.h"
#include "tracer/eager_recorder.h"

namespace tessera {
namespace {

constexpr int64_t kRows = 512, kColumns = 1024, kBytes = kRows * kColumns * 4;

constexpr char kChain[] = R"(func @f(%x: tensor<512 x 1024 x f32>) -> tensor<512 x 1024 x f32> {
    %a = mul %x, 0.5
    %b = tanh %a
    %c = add %b, %x
    %d = exp %c
    %e = sub %d, %x
    return %e
  })";
constexpr char kSoftmax[] = R"(func @f(%x: tensor<512 x 1024 x f32>) -> tensor<512 x 1024 x f32> {
    %a = max %x {axes = [1], keepdims = true}
    %b = sub %x, %a
    %c = exp %b
    %d = sum %c {axes = [1], keepdims = true}
    %e = div %c, %d
    return %e
  })";

// The most that the pool had in use in a call once all is built, beyond the argument.
int64_t PeakOf(const char* text, const Tensor& x, const Settings& settings) {
  OptionScope scope(settings);
  tiers::Manager::Get().Reset();
  const Function f = Function::parse(text).value();
  for (int i = 0; i < 12; ++i) f.call({x}).to_bytes();
  Runtime::trim_memory(Device::cpu());
  const int64_t before = Runtime::memory(Device::cpu()).bytes_in_use;
  // What the version holds between calls counts too.
  int64_t held = 0;
  for (const auto& a : tiers::Manager::Get().anchors())
    for (const auto& v : a->versions()) held += v->bytes();
  Runtime::reset_peak_memory(Device::cpu());
  f.call({x});
  return Runtime::memory(Device::cpu()).peak_bytes - before + held;
}

TEST(TiersMemory, WhatFusionRemovedTakesNone) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  const Tensor x = Uniform({kRows, kColumns}, 1);
  for (const char* text : {kChain, kSoftmax}) {
    for (const Way way : {Way{2, true}, Way{3, true}}) {
      SCOPED_TRACE(NameOf(way));
      const int64_t before = MetricNow("kernels_generated");
      const int64_t tier1 = PeakOf(text, x, {{"tier", "1"}}),
                    code = PeakOf(text, x, CodeAtOnce(way, /*bitwise=*/false));
      EXPECT_GT(MetricNow("kernels_generated"), before) << Runtime::explain();
      EXPECT_LT(code, tier1) << text;
      EXPECT_LT(code, 2 * kBytes) << "the result, and nothing else of its size: " << text;
    }
  }
}

// Large values and small ones in turns: a small one does not keep a place for itself that a large one then takes over.
TEST(TiersMemory, ValuesShareBySize) {
  std::string text = "func @f(%v0: tensor<512 x 1024 x f32>) -> tensor<f32> {\n";
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    text += "  %s" + n + " = max %v" + n + " {axes = [0, 1]}\n  %w" + n + " = sub %v" + n + ", %s" + n + "\n  %t" + n +
            " = exp %s" + n + "\n  %v" + next + " = mul %w" + n + ", %t" + n + "\n";
  }
  text += "  %y = max %v8 {axes = [0, 1]}\n  return %y\n}";
  OptionScope scope({{"tier", "3"},
                     {"background", "false"},
                     {"profit_gate", "false"},
                     {"hot_function", "3"},
                     {"compile_after", "1000000000"}});
  tiers::Manager::Get().Reset();
  const Tensor x = Uniform({kRows, kColumns}, 1);
  const Function f = Function::parse(text).value();
  for (int i = 0; i < 12; ++i) f.call({x}).to_bytes();
  int64_t held = 0;
  for (const auto& a : tiers::Manager::Get().anchors())
    for (const auto& v : a->versions()) held += v->bytes();
  EXPECT_GT(held, 0) << Runtime::explain();
  EXPECT_LT(held, 2 * kBytes + kBytes / 2) << "two that live at a time, and numbers";
}

/// The most bytes that live at a time: no arena is smaller.
size_t MostAlive(const std::vector<tiers::Life>& lives, const std::vector<size_t>& bytes, int steps) {
  std::vector<size_t> alive(static_cast<size_t>(steps) + 1, 0);
  for (size_t k = 0; k < lives.size(); ++k)
    for (int i = lives[k].from; i <= lives[k].until; ++i) alive[static_cast<size_t>(i)] += bytes[k];
  return *std::max_element(alive.begin(), alive.end());
}

void ExpectApart(const std::vector<tiers::Life>& lives, const std::vector<size_t>& bytes, const std::vector<size_t>& at,
                 size_t total) {
  for (size_t a = 0; a < lives.size(); ++a) {
    EXPECT_LE(at[a] + bytes[a], total);
    for (size_t b = 0; b < a; ++b) {
      if (lives[a].until < lives[b].from || lives[b].until < lives[a].from || bytes[a] == 0 || bytes[b] == 0) continue;
      ASSERT_TRUE(at[a] + bytes[a] <= at[b] || at[b] + bytes[b] <= at[a]) << a << " and " << b;
    }
  }
}

TEST(TiersMemory, SlotsAreApartAndCloseTogether) {
  std::mt19937 rng(7);
  for (int round = 0; round < 50; ++round) {
    const int steps = 5 + static_cast<int>(rng() % 200);
    std::vector<tiers::Life> lives;
    std::vector<size_t> bytes, at;
    for (int i = 0; i < steps; ++i) {
      // Most are needed soon, some for long; sizes of all kinds.
      const int until = i + static_cast<int>(rng() % 4 == 0 ? rng() % static_cast<unsigned>(steps) : rng() % 5);
      lives.push_back({i, std::min(until, steps)});
      bytes.push_back(rng() % 5 == 0 ? 0 : 64 * (rng() % (round % 2 == 0 ? 4096 : 12)));
    }
    const size_t total = tiers::PackSlots(lives, bytes, &at);
    ExpectApart(lives, bytes, at, total);
    EXPECT_GE(total, MostAlive(lives, bytes, steps));
    // What is small does not share.
    EXPECT_LE(total, MostAlive(lives, bytes, steps) * 5 / 4 + 512 * lives.size());
  }
}

// Layers that keep what their gradients need, with temporary values twice as large on the way back.
TEST(TiersMemory, TrainingTakesLittleMoreThanWhatLives) {
  constexpr int kLayers = 12, kOps = 10;
  std::vector<tiers::Life> lives;
  std::vector<size_t> bytes, at;
  const int middle = kLayers * kOps, end = 2 * middle;
  for (int i = 0; i < middle; ++i) {
    const int back = end - 1 - i;
    lives.push_back({i, i % 3 == 0 ? i + 1 : back});
    bytes.push_back(static_cast<size_t>(i % 4 + 1) << 20);
    lives.push_back({back, back + 2});
    bytes.push_back(static_cast<size_t>(i % 4 + 1) << 21);
  }
  const size_t total = tiers::PackSlots(lives, bytes, &at);
  ExpectApart(lives, bytes, at, total);
  EXPECT_LE(total, MostAlive(lives, bytes, end + 2) * 21 / 20);
}

// A recording holds its inputs, because their addresses name them; but not large ones that nobody else has.
TEST(TiersMemory, ARecordingLetsGoOfWhatTheProgramDropped) {
  static auto& recorder = *new tracer::EagerRecorder;
  const auto make = [](int64_t n) {
    TensorType type;
    type.dtype = DType::f32;
    type.rank = 1;
    type.dims[0] = n;
    rt::Ref<rt::TensorImpl> x = *rt::TensorImpl::Make(rt::Cpu(), type);
    std::fill_n(x->as<float>(), n, 1.0f);
    return x;
  };
  const auto run = [&](const rt::Ref<rt::TensorImpl>& x) {
    const View* in[] = {x.get()};
    rt::TensorImpl* out = nullptr;
    const interp::EagerCall call{ir::Op::k_neg, in, {}, nullptr, 0, nullptr, nullptr};
    EXPECT_TRUE(interp::Execute(ir::Op::k_neg, in, {}, rt::Cpu(), {&out, 1}, {}).ok());
    recorder.Add(call, {&out, 1}, 1);
    out->Release();
  };
  const auto in_use = [] { return Runtime::memory(Device::cpu()).bytes_in_use; };
  constexpr int64_t kMany = 1 << 20;
  const rt::Ref<rt::TensorImpl> small = make(8), kept = make(kMany);
  rt::Ref<rt::TensorImpl> dropped = make(kMany);
  recorder.Begin(0);
  run(kept);
  run(dropped);
  run(small);
  run(kept);
  const int64_t before = in_use();
  dropped = nullptr;
  for (int i = 0; i < 16; ++i) run(small);
  EXPECT_LE(in_use(), before - 4 * kMany);
  // What comes to its address, if it does, is another value.
  const rt::Ref<rt::TensorImpl> later = make(kMany);
  run(later);
  run(kept);
  const auto notes = recorder.Finish(tracer::TraceEnd::stopped);
  ASSERT_NE(notes, nullptr);
  const std::shared_ptr<tracer::Trace> trace = notes->Expand();
  const size_t n = trace->steps.size();
  EXPECT_EQ(trace->steps[n - 1].in[0], trace->steps[0].in[0]);
  EXPECT_EQ(trace->steps[3].in[0], trace->steps[0].in[0]);
  EXPECT_EQ(trace->steps[4].in[0], trace->steps[2].in[0]);
  EXPECT_NE(trace->steps[n - 2].in[0], trace->steps[1].in[0]);
}

TEST(TiersMemory, StateThatIsReplaced) {
  RunEveryWay([](Log& log) {
    const Tensor g = Uniform({64, 256}, 1);
    Tensor w = Uniform({64, 256}, 2), m = w * 0.5, n = w * 0.25, old, view, row;
    for (int i = 0; i < 60; ++i) {
      if (i % 7 == 3) old = w;
      if (i % 11 == 4) view = m.reshape({256, 64});
      if (i % 5 == 1) row = slice(m, {1, 0}, {2, 256});
      const Tensor next = m * 0.9 + g * 0.1;
      w = w - next * 0.01 + m * 0.001;
      const Tensor swapped = n * 0.5 + next;
      n = next;
      m = swapped;
      if (i % 7 == 6) log.Add(old);
      if (i % 11 == 9) log.Add(view);
      if (i % 5 == 4) log.Add(row);
      if (i % 3 == 0) log.Add(w);
    }
    log.Add(m);
    log.Add(n);
  });
}

TEST(TiersMemory, LogitsMakeRoomForTheirGradient) {
  // The tape alone has the logits of the first; of the second there is another handle, and of the third a view.
  const Tensor x = Uniform({512, 64}, 1), targets = full({512}, 3, DType::i64);
  Tensor w = Uniform({64, 2048}, 2);
  std::vector<Tensor> grads;
  std::vector<int64_t> peaks;
  for (int how = 0; how < 3; ++how) {
    OptionScope scope({{"tier", "1"}});
    Tape tape;
    tape.watch({w});
    Tensor kept;
    Tensor loss;
    {
      const Tensor logits = matmul(x, w);
      if (how == 1) kept = logits;
      if (how == 2) kept = logits.reshape({-1});
      loss = mean(cross_entropy(logits, targets));
    }
    const double total = how == 0 ? 0 : sum(kept).item<double>();
    const int64_t before = Runtime::memory(Device::cpu()).bytes_in_use;
    Runtime::reset_peak_memory(Device::cpu());
    grads.push_back(tape.gradient(loss, {w})[0]);
    peaks.push_back(Runtime::memory(Device::cpu()).peak_bytes - before);
    if (how > 0) EXPECT_EQ(sum(kept).item<double>(), total) << "what somebody holds is as it was";
    EXPECT_EQ(grads[how].to_bytes(), grads[0].to_bytes());
  }
  constexpr int64_t kLogits = 512 * 2048 * 4;
  EXPECT_LT(peaks[0], peaks[1] - kLogits / 2);
  EXPECT_LT(peaks[0], peaks[2] - kLogits / 2);
}

// An eager chain that is read in the middle now and then: the steps of a kernel run up to there.
TEST(TiersMemory, StepsRunInPlaceOfTheKernelAllTheSame) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  RunEveryWay([](Log& log) {
    const Tensor x = Uniform({64, 256}, 1);
    Tensor held;
    for (int i = 0; i < 60; ++i) {
      const Tensor a = x * 0.5;
      const Tensor b = tanh(a) + x;
      if (i % 16 == 15) log.Add(b);
      const Tensor c = exp(b) - a;
      if (i % 16 == 7) held = b;
      log.Add(c);
    }
    log.Add(held);
  });
  Settings deopts = CodeAtOnce({2, true});
  deopts["deopt_every"] = "3";
  const std::string text = kSoftmax;
  RunBoth(
      [&](Log& log) {
        const Function f = Function::parse(text).value();
        for (int i = 0; i < 20; ++i) log.Add(f.call({Uniform({kRows, kColumns}, 7)}));
      },
      deopts);
}

TEST(TiersMemory, NoneForThemIsAnErrorLikeAnyOther) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  OptionScope scope(CodeAtOnce({2, true}));
  tiers::Manager::Get().Reset();
  const Tensor x = Uniform({64, 4096}, 1);
  const auto middle = [&](bool read) {
    const Tensor a = x * 0.5;
    const Tensor b = tanh(a) + x;
    if (read) return b.to_bytes();
    return (exp(b) - a).to_bytes();
  };
  for (int i = 0; i < 20; ++i) middle(false);
  const int64_t kernels = MetricNow("kernels_generated");
  middle(false);
  EXPECT_GT(MetricNow("kernels_generated"), kernels) << Runtime::explain();
  Runtime::trim_memory(Device::cpu());
  rt::ArmFault(rt::Fault::allocation, 1, -1);
  EXPECT_THROW(middle(true), Error);
  rt::DisarmFaults();
  EXPECT_EQ(middle(true).size(), size_t{64 * 4096 * 4});
}

}  // namespace
}  // namespace tessera
