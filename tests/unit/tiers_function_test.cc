// Functions in versions: loops, returns, exits, inlined calls, bridges, and that a program cannot tell the difference.
#include <gtest/gtest.h>

#include <thread>

#include "deopt/frames.h"
#include "deopt/ledger.h"
#include "runtime/metrics.h"
#include "tests/unit/tiers_function_testing.h"
#include "tiers/function.h"
#include "tiers/manager.h"

namespace tessera {
namespace {

using testing::Program;
using testing::WithOptions;
using Settings = std::vector<std::pair<std::string, std::string>>;

// Hot at once, built at once, kept whatever it measures.
const Settings kHot = {{"tier", "3"},         {"background", "false"}, {"hot_loop", "2"},
                       {"hot_function", "2"}, {"hot_exit", "2"},       {"profit_gate", "false"},
                       {"deopt_every", "0"},  {"chaos_seed", "0"},     {"deopt_pin", "1000"}};
const Settings kInterpreter = {{"tier", "1"}};

Settings With(Settings settings, const Settings& more) {
  for (const auto& [name, value] : more) {
    auto it = std::find_if(settings.begin(), settings.end(), [&, &n = name](const auto& s) { return s.first == n; });
    if (it != settings.end())
      it->second = value;
    else
      settings.emplace_back(name, value);
  }
  return settings;
}

int64_t Metric(rt::Metric m) { return rt::SnapshotMetrics()[static_cast<size_t>(m)]; }

Tensor Number(int64_t n) { return Tensor::scalar(n); }
Tensor Ramp(int64_t n) { return iota({n}, 0, 0.5, 1.0, f32); }

struct Case {
  std::string name;
  std::string text;  // the first function is called
  std::vector<std::vector<Tensor>> calls;
};

std::vector<std::vector<Tensor>> Times(int n, const std::vector<Tensor>& args) {
  return {static_cast<size_t>(n), args};
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  cases.push_back({"while_loop", R"(func @f(%x: tensor<N x f32>, %n: tensor<i64>) -> tensor<N x f32> {
    %last, %r = while (%i = 0, %a = %x) -> (tensor<i64>, tensor<N x f32>) {
      %go = lt %i, %n
      yield %go
    } do {
      %j = add %i, 1
      %b = mul %a, 1.01
      %c = sub %b, 0.5
      %d = sum %c {axes = [0], keepdims = true}
      %e = add %c, %d
      yield %j, %e
    }
    return %r
  })",
                   Times(12, {Ramp(5), Number(9)})});
  cases.push_back({"for_loop_and_swap", R"(func @f(%n: tensor<i64>) -> (tensor<i64>, tensor<i64>, tensor<i64>) {
    %one = constant {value = tensor<i64>[1]}
    %x, %y, %unused = for %i in (0, %n, 1) (%a = %one, %b = 2, %u = 7) -> (tensor<i64>, tensor<i64>, tensor<i64>) {
      %c = add %a, %i
      %w = mul %i, 3
      yield %b, %c, %w
    }
    return %x, %y, %unused
  })",
                   Times(10, {Number(11)})});
  cases.push_back({"nested", R"(func @f(%x: tensor<4 x f32>, %n: tensor<i64>) -> tensor<4 x f32> {
    %r = for %i in (0, %n, 1) (%a = %x) -> (tensor<4 x f32>) {
      %k = cast %i {dtype = f32}
      %m = add %a, %k
      %s = for %j in (0, 5, 1) (%b = %m) -> (tensor<4 x f32>) {
        %p = mul %b, 0.75
        %c = add %p, %x
        yield %c
      }
      %t = sub %s, 0.125
      yield %t
    }
    return %r
  })",
                   Times(8, {Ramp(4), Number(7)})});
  cases.push_back({"flipping_branch", R"(func @f(%n: tensor<i64>) -> (tensor<i64>, tensor<f32>) {
    %r, %s = for %i in (0, %n, 1) (%a = 0, %z = 1.0) -> (tensor<i64>, tensor<f32>) {
      %m = mod %i, 2
      %odd = eq %m, 1
      %b, %y = if %odd -> (tensor<i64>, tensor<f32>) {
        %c = mul %a, 3
        %d = add %c, 1
        %v = mul %z, 0.5
        yield %d, %v
      } else {
        %e = add %a, %i
        yield %e, %z
      }
      %q = add %y, 0.25
      yield %b, %q
    }
    return %r, %s
  })",
                   Times(6, {Number(24)})});
  cases.push_back(
      {"early_exit",
       R"(func @f(%x: tensor<3 x f32>) -> (tensor<3 x f32>, tensor<i64>) {
    %r, %k, %more = while (%a = %x, %i = 0, %go = true) -> (tensor<3 x f32>, tensor<i64>, tensor<bool>) {
      yield %go
    } do {
      %b = mul %a, 1.5
      %j = add %i, 1
      %m = max %b {axes = [0]}
      %again = lt %m, 40.0
      yield %b, %j, %again
    }
    return %r, %k
  })",
       {{Ramp(3)}, {Ramp(3)}, {full({3}, 0.001)}, {full({3}, 50.0)}, {Ramp(3)}, {Ramp(3)}, {full({3}, 0.01)}}});
  cases.push_back({"inlined",
                   R"(func @f(%x: tensor<N x f32>, %n: tensor<i64>) -> tensor<N x f32> {
    %r = for %i in (0, %n, 1) (%a = %x) -> (tensor<N x f32>) {
      %b = call @step(%a, %i, 0.5)
      %c = call @shift(%b)
      yield %c
    }
    return %r
  }
  func @step(%x: tensor<M x f32>, %i: tensor<i64>, %s: tensor<f32>) -> tensor<M x f32> {
    %m = mod %i, 3
    %zero = eq %m, 0
    %w = full 0.25 {dims = [M]}
    %r = if %zero -> (tensor<M x f32>) {
      %a = mul %x, %s
      %b = call @shift(%a)
      yield %b
    } else {
      %c = for %j in (0, 3, 1) (%d = %x) -> (tensor<M x f32>) {
        %e = add %d, %w
        %k = eq %j, %m
        %g = if %k -> (tensor<M x f32>) {
          %h = neg %e
          yield %h
        } else {
          yield %e
        }
        yield %g
      }
      yield %c
    }
    return %r
  }
  func @shift(%x: tensor<K x f32>) -> tensor<K x f32> {
    %p = reshape %x {dims = [1, K]}
    %q = sub %p, 1.0
    %r = reshape %q {dims = [K]}
    return %r
  })",
                   {{Ramp(4), Number(9)},
                    {Ramp(4), Number(9)},
                    {Ramp(6), Number(7)},
                    {Ramp(4), Number(9)},
                    {Ramp(9), Number(8)},
                    {Ramp(6), Number(9)},
                    {Ramp(12), Number(9)},
                    {Ramp(1), Number(6)},
                    {Ramp(5), Number(9)}}});
  cases.push_back({"recursion", R"(func @fib(%n: tensor<i64>) -> tensor<i64> {
    %small = lt %n, 2
    %r = if %small -> (tensor<i64>) {
      yield %n
    } else {
      %n1 = sub %n, 1
      %n2 = sub %n, 2
      %a = call @fib(%n1)
      %b = call @fib(%n2)
      %s = add %a, %b
      yield %s
    }
    return %r
  })",
                   Times(4, {Number(9)})});
  cases.push_back({"buffers", R"(
  buffer @count : tensor<i64>
  buffer @w : tensor<3 x f32>
  func @f(%x: tensor<3 x f32>) -> (tensor<3 x f32>, tensor<3 x f32>) {
    %first = buffer_read {buffer = "w"}
    for %i in (0, 6, 1) {
      buffer_add 1 {buffer = "count"}
      %w = buffer_read {buffer = "w"}
      %v = mul %w, 0.5
      %u = add %v, %x
      buffer_write %u {buffer = "w"}
      buffer_add %x {buffer = "w"}
      yield
    }
    %last = buffer_read {buffer = "w"}
    return %first, %last
  })",
                   Times(8, {Ramp(3)})});
  cases.push_back({"host_effects", R"(func @f(%x: tensor<2 x f32>) -> tensor<2 x f32> {
    %r = for %i in (0, 8, 1) (%a = %x) -> (tensor<2 x f32>) {
      %b = mul %a, 1.25
      %c = sub %b, 0.5
      print %c {label = "c"}
      %d = add %c, %x
      %e = mul %d, 0.5
      %k = mod %i, 3
      %third = eq %k, 0
      if %third {
        host_read %e {label = "e"}
        yield
      }
      %g = call @say(%e)
      yield %g
    }
    return %r
  }
  func @say(%x: tensor<2 x f32>) -> tensor<2 x f32> {
    %y = neg %x
    print %y {label = "say"}
    %z = neg %y
    return %z
  })",
                   Times(6, {Ramp(2)})});
  cases.push_back({"failing_op",
                   R"(func @f(%x: tensor<4 x f32>, %n: tensor<i64>) -> tensor<f32> {
    %r = for %i in (0, %n, 1) (%s = 0.0) -> (tensor<f32>) {
      %id = reshape %i {dims = [1]}
      %t = take %x, %id {axis = 0}
      %u = reshape %t {dims = []}
      %v = add %s, %u
      yield %v
    }
    return %r
  })",
                   {{Ramp(4), Number(4)},
                    {Ramp(4), Number(4)},
                    {Ramp(4), Number(4)},
                    {Ramp(4), Number(9)},
                    {Ramp(4), Number(4)},
                    {Ramp(4), Number(6)}}});
  cases.push_back(
      {"failing_callee",
       R"(func @f(%x: tensor<4 x f32>, %n: tensor<i64>) -> tensor<f32> {
    %r = for %i in (0, %n, 1) (%s = 0.0) -> (tensor<f32>) {
      %u = call @get(%x, %i)
      %v = add %s, %u
      yield %v
    }
    return %r
  }
  func @get(%x: tensor<4 x f32>, %i: tensor<i64>) -> tensor<f32> {
    %id = reshape %i {dims = [1]}
    %y = neg %x
    %t = take %y, %id {axis = 0}
    %u = reshape %t {dims = []}
    return %u
  })",
       {{Ramp(4), Number(4)}, {Ramp(4), Number(4)}, {Ramp(4), Number(4)}, {Ramp(4), Number(9)}, {Ramp(4), Number(4)}}});
  cases.push_back({"endless_recursion", R"(func @f(%n: tensor<i64>) -> tensor<i64> {
    %m = add %n, 1
    %k = mul %m, 2
    %r = call @f(%k)
    return %r
  })",
                   Times(3, {Number(1)})});
  cases.push_back({"strides_that_change", R"(func @f(%x: tensor<N x N x f32>) -> tensor<N x N x f32> {
    %y = add %x, 1.0
    %r = for %i in (0, 9, 1) (%a = %y) -> (tensor<N x N x f32>) {
      %b = transpose %a
      %s = sum %b {axes = [0]}
      %m = mean %s
      %k = cast %m {dtype = f32}
      %odd = gt %k, 3.0
      %c = if %odd -> (tensor<N x N x f32>) {
        %d = mul %b, 0.5
        yield %d
      } else {
        yield %b
      }
      yield %c
    }
    return %r
  })",
                   Times(6, {reshape(Ramp(9), {3, 3})})});
  // N is seen by no input of the loop.
  cases.push_back({"symbols_behind_the_loop",
                   R"(func @f(%x: tensor<N x f32>) -> tensor<f32> {
    %r = for %i in (0, 8, 1) (%a = 0.0) -> (tensor<f32>) {
      %o = full 1.0 {dims = [N]}
      %s = sum %o {axes = [0]}
      %b = add %a, %s
      yield %b
    }
    return %r
  })",
                   {{Ramp(4)}, {Ramp(4)}, {Ramp(6)}, {Ramp(4)}, {Ramp(7)}, {Ramp(6)}, {Ramp(30)}, {Ramp(4)}}});
  // Every shape passes the guards of the symbolic version; the callee still takes even ones only.
  cases.push_back({"facts_of_a_callee",
                   R"(func @f(%x: tensor<M x f32>) -> tensor<M x f32> {
    %a = mul %x, 2.0
    %b = add %a, 3.0
    %r = call @even(%b)
    return %r
  }
  func @even(%x: tensor<A x f32>) -> tensor<A x f32> where A % 2 == 0 {
    %s = sum %x {axes = [0], keepdims = true}
    %t = add %x, %s
    return %t
  })",
                   {{Ramp(4)},
                    {Ramp(4)},
                    {Ramp(4)},
                    {Ramp(6)},
                    {Ramp(6)},
                    {Ramp(12)},
                    {Ramp(30)},
                    {Ramp(300)},
                    {Ramp(8)},
                    {Ramp(5)},
                    {Ramp(70)},
                    {Ramp(9)},
                    {Ramp(8)}}});
  // One dim varies and the other does not: attributes that follow from the second stay as they were bound.
  std::vector<std::vector<Tensor>> rows;
  for (int64_t n : {2, 2, 2, 3, 3, 5, 9, 17, 4, 33, 6, 7}) rows.push_back({reshape(Ramp(n * 4), {n, 4})});
  cases.push_back({"attributes_of_a_callee", R"(func @f(%x: tensor<N x C x f32>) -> tensor<N x C x f32> {
    %a = mul %x, 2.0
    %b = call @noise(%a)
    %r = add %b, 1.0
    return %r
  }
  func @noise(%x: tensor<A x B x f32>) -> tensor<A x B x f32> {
    %u = random_uniform 3, 0 {dims = [B]}
    %v = add %x, %u
    %w = random_uniform 4, 0 {dims = [A, B]}
    %y = mul %v, %w
    return %y
  })",
                   rows});
  // A value is needed for two iterations, so that its memory must not be used again after one.
  cases.push_back(
      {"delay_line",
       R"(func @f(%x: tensor<3 x f32>, %n: tensor<i64>) -> (tensor<3 x f32>, tensor<3 x f32>, tensor<3 x f32>) {
    %p, %q, %r = for %i in (0, %n, 1) (%a = %x, %b = %x, %z = %x) -> (tensor<3 x f32>, tensor<3 x f32>, tensor<3 x f32>) {
      %c = add %a, 1.0
      %e = mul %c, %b
      yield %c, %a, %e
    }
    return %p, %q, %r
  })",
       Times(5, {Ramp(3), Number(12)})});
  cases.push_back(
      {"returns_what_it_got",
       R"(func @f(%x: tensor<3 x f32>, %p: tensor<bool>) -> (tensor<3 x f32>, tensor<3 x f32>, tensor<i64>) {
    %a = add %x, 1.0
    %b = mul %a, %a
    %c = if %p -> (tensor<3 x f32>) {
      yield %x
    } else {
      yield %b
    }
    return %c, %x, 5
  })",
       {{Ramp(3), Tensor::scalar(true)},
        {Ramp(3), Tensor::scalar(true)},
        {Ramp(3), Tensor::scalar(true)},
        {Ramp(3), Tensor::scalar(false)},
        {Ramp(3), Tensor::scalar(true)},
        {Ramp(3), Tensor::scalar(false)},
        {Ramp(3), Tensor::scalar(false)},
        {Ramp(3), Tensor::scalar(false)},
        {Ramp(3), Tensor::scalar(false)}}});
  return cases;
}

std::vector<std::string> Seen(const Case& c, const Settings& settings) {
  WithOptions options(settings);
  Program program(c.text);
  for (const auto& args : c.calls) program.Call(args);
  program.ReadBuffers();
  return program.seen();
}

struct Config {
  std::string name;
  Settings settings;
};

void PrintTo(const Config& config, std::ostream* out) { *out << config.name; }

class FunctionTiers : public ::testing::TestWithParam<Config> {};

TEST_P(FunctionTiers, SeeWhatTheInterpreterSees) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(Seen(c, kInterpreter), Seen(c, With(kHot, GetParam().settings)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Configs, FunctionTiers,
    ::testing::Values(
        Config{"hot", {}}, Config{"hot_exit_1", {{"hot_exit", "1"}, {"hot_loop", "1"}, {"hot_function", "1"}}},
        Config{"no_bridges", {{"hot_exit", "1000000"}}}, Config{"inlines_one_level", {{"trace_depth", "1"}}},
        Config{"short_unroll", {{"trace_unroll", "1"}}}, Config{"deopt_1", {{"deopt_every", "1"}}},
        Config{"deopt_2", {{"deopt_every", "2"}}}, Config{"deopt_3", {{"deopt_every", "3"}}},
        Config{"deopt_5", {{"deopt_every", "5"}}}, Config{"chaos_1", {{"chaos_seed", "1"}}},
        Config{"chaos_2", {{"chaos_seed", "2"}}}, Config{"chaos_3", {{"chaos_seed", "3"}}},
        Config{"ahead_1", {{"run_ahead", "1"}}}, Config{"ahead_7", {{"run_ahead", "7"}, {"hot_exit", "1000000"}}},
        Config{"ahead_deopt", {{"run_ahead", "3"}, {"deopt_every", "7"}}},
        Config{"background", {{"background", "true"}}},
        Config{"defaults", {{"hot_loop", "40"}, {"hot_function", "200"}}}),
    [](const auto& info) { return info.param.name; });

// ---- every frame that deopt puts together is one that the interpreter had

std::vector<std::string>* g_frames = nullptr;

std::string Describe(const interp::Frame& frame) {
  std::string text = absl::StrCat("@", frame.code->name, " pc ", frame.pc, " depth ", frame.depth);
  for (int r = 0; r < frame.code->num_registers; ++r)
    if (frame.registers[r] != nullptr) absl::StrAppend(&text, " r", r, "=", testing::Bytes(*frame.registers[r]));
  for (int s = 0; s < frame.code->num_slots; ++s) {
    const interp::Frame::Counter& c = frame.counters[s];
    absl::StrAppend(&text, " c", s, "=", c.next, ",", c.stop, ",", c.step);
  }
  return text;
}

class Spy final : public interp::InsnRecorder, public interp::FunctionHook {
 public:
  Spy() { open_ = true; }
  void Before(interp::Frame& frame, const interp::Insn&) override { g_frames->push_back(Describe(frame)); }
  void After(interp::Frame&, const interp::Insn&, int) override {}
  bool OnCall(interp::Frame&, const interp::Insn&, interp::Frame&) override { return true; }
  void OnLeave(interp::Frame&, const absl::Status&) override {}
  absl::StatusOr<Next> OnAnchor(interp::Frame& frame, interp::AnchorSlot&, interp::Results*) override {
    frame.recorder = this;
    return Next::interpret;
  }
  void OnInstanceEnd(interp::Instance&) override {}
};

class FunctionFrames : public ::testing::TestWithParam<int> {};

TEST_P(FunctionFrames, AreTheInterpretersOwn) {
  for (const Case& c : Cases()) {
    if (c.name == "endless_recursion") continue;  // a thousand frames at every instruction
    SCOPED_TRACE(c.name);
    std::vector<std::string> all, restored;
    {
      interp::StartTiers();
      Spy spy;
      g_frames = &all;
      interp::SetFunctionHook(&spy);
      Program program(c.text);
      for (const auto& args : c.calls) program.Call(args);
      interp::SetFunctionHook(&tiers::FunctionTiers::Get());
    }
    WithOptions options(With(kHot, {{"deopt_every", absl::StrCat(GetParam())}}));
    g_frames = &restored;
    deopt::SetFrameObserver([](const interp::Frame& frame) { g_frames->push_back(Describe(frame)); });
    {
      Program program(c.text);
      for (const auto& args : c.calls) program.Call(args);
    }
    deopt::SetFrameObserver(nullptr);
    size_t at = 0;
    for (size_t i = 0; i < restored.size(); ++i) {
      while (at < all.size() && all[at] != restored[i]) ++at;
      ASSERT_LT(at, all.size()) << "restored frame " << i << " of " << restored.size()
                                << " is none of the interpreter's: " << restored[i].substr(0, restored[i].find(" r"));
    }
    if (GetParam() == 1) {
      EXPECT_GT(restored.size(), 0u);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Every, FunctionFrames, ::testing::Values(0, 1, 2, 3, 5));

// ---- that versions are used at all

const Case& CaseOf(const std::string& name) {
  static const auto* cases = new std::vector<Case>(Cases());
  for (const Case& c : *cases)
    if (c.name == name) return c;
  ADD_FAILURE() << name;
  return cases->front();
}

TEST(FunctionVersions, AHotLoopIsEnteredInTheMiddleOfACall) {
  WithOptions options(kHot);
  Program program(CaseOf("while_loop").text);
  const int64_t runs = Metric(rt::Metric::version_runs), instructions = Metric(rt::Metric::instructions_run);
  program.Call({Ramp(5), Number(1000)});
  EXPECT_GE(Metric(rt::Metric::version_runs) - runs, 980) << "nearly every iteration runs in a version";
  EXPECT_LT(Metric(rt::Metric::instructions_run) - instructions, 200) << "and few instructions in tier 1";
}

TEST(FunctionVersions, AnOptionThatChangesInTheMiddleOfALoopEndsTheVersion) {
  WithOptions options(With(kHot, {{"hot_eager", "16"}}));
  Program program(R"(func @f(%x: tensor<f32>, %n: tensor<i64>) -> tensor<f32> {
    %r = for %i in (0, %n, 1) (%a = %x) -> (tensor<f32>) {
      %b = mul %a, 0.999
      %c = add %b, 1.0
      yield %c
    }
    return %r
  })");
  program.Call({Tensor::scalar(1.0f), Number(100)});
  std::thread other([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_TRUE(rt::options().Set("hot_eager", "16").ok());
  });
  const int64_t dropped = Metric(rt::Metric::versions_dropped);
  program.Call({Tensor::scalar(1.0f), Number(3000000)});
  other.join();
  program.Call({Tensor::scalar(1.0f), Number(100)});
  EXPECT_GT(Metric(rt::Metric::versions_dropped), dropped);
}

TEST(FunctionVersions, BridgesJoinTheTwoWaysOfABranch) {
  WithOptions options(kHot);
  const int64_t bridges = Metric(rt::Metric::bridges_made);
  Program program(CaseOf("flipping_branch").text);
  program.Call({Number(100)});
  EXPECT_GT(Metric(rt::Metric::bridges_made), bridges);
  const int64_t instructions = Metric(rt::Metric::instructions_run);
  const int64_t deopts = Metric(rt::Metric::deopts);
  program.Call({Number(1000)});
  EXPECT_LT(Metric(rt::Metric::deopts) - deopts, 10) << "the exits lead to bridges";
  EXPECT_LT(Metric(rt::Metric::instructions_run) - instructions, 400);
}

TEST(FunctionVersions, CallsAreInlined) {
  WithOptions options(kHot);
  Program program(R"(func @f(%x: tensor<8 x f32>) -> tensor<8 x f32> {
    %a = call @g(%x)
    %b = call @g(%a)
    return %b
  }
  func @g(%x: tensor<8 x f32>) -> tensor<8 x f32> {
    %a = mul %x, 2.0
    %b = add %a, 1.0
    return %b
  })");
  for (int i = 0; i < 10; ++i) program.Call({Ramp(8)});
  const int64_t instructions = Metric(rt::Metric::instructions_run), called = Metric(rt::Metric::functions_called);
  program.Call({Ramp(8)});
  EXPECT_EQ(Metric(rt::Metric::instructions_run), instructions);
  EXPECT_EQ(Metric(rt::Metric::functions_called), called + 1);
}

TEST(FunctionVersions, OneVersionServesManyShapes) {
  WithOptions options(kHot);
  Program program(R"(func @f(%x: tensor<N x f32>) -> tensor<(N*2) x f32> {
    %a = mul %x, 2.0
    %b = reshape %a {dims = [N, 1]}
    %c = full 3.0 {dims = [N, 1]}
    %d = concat %b, %c {axis = 1}
    %e = reshape %d {dims = [N*2]}
    return %e
  })");
  for (int64_t n = 4; n < 40; ++n) program.Call({Ramp(n)});
  const int64_t instructions = Metric(rt::Metric::instructions_run);
  for (int64_t n = 50; n < 60; ++n) program.Call({Ramp(n)});
  EXPECT_EQ(Metric(rt::Metric::instructions_run), instructions) << "shapes that nobody has seen before";
}

// A register holds what a call gave, another one a window onto it: the next iteration takes both, in any order.
TEST(FunctionVersions, AWindowIsCarriedBesideWhatItLooksAt) {
  const std::string text =
      R"(func @g(%x: tensor<4 x 17 x i64>, %n: tensor<i64>) -> (tensor<1 x 17 x i64>, tensor<1 x 17 x i64>) {
  %p = ne %n, -1.4375
  if %p {
    %o = full 1 {dims = [4, 17]}
    %r = for %i in (0, 6, 1) (%a = %x) -> (tensor<4 x 17 x i64>) {
      %k = random_int 1, 0 {dims = [3], low = -4, high = 4}
      yield %a
    }
    yield
  }
  %y = full 1 {dims = [1, 17], dtype = i64}
  return %y, %y
}

func @f(%x: tensor<2 x f32>) -> tensor<2 x f32> {
  %one = full 1 {dims = []}
  %n, %r, %s = while (%i = 0, %a = %x, %b = %x) -> (tensor<i64>, tensor<2 x f32>, tensor<2 x f32>) {
    %p = lt %i, 10
    yield %p
  } do {
    %c = div %a, %one
    %k = random_int 126, 0 {dims = [4, 17], low = 0, high = 6}
    %t, %u = call @g(%k, %i)
    %q = lt %one, 1.234375
    if %q {
      %w = transpose %t {perm = [0, 1]}
      %l = for %j in (1, -7, -1) (%m = %one) -> (tensor<f32>) {
        %e = exp2 %j
        yield %e
      }
      %z = round %w
      yield
    }
    %next = add %i, 1
    yield %next, %c, %c
  }
  return %r
}
)";
  const WithOptions options(With(kHot, {{"hot_exit", "1"}}));
  for (int round = 0; round < 24; ++round) {
    tiers::Manager::Get().Reset();
    auto module = Module::parse(text);
    ASSERT_TRUE(module.ok()) << module.status().message();
    for (const float n : {1.0f, 2.0f, 3.0f})
      EXPECT_EQ((*module->function("f"))({full({2}, n)})[0].to_vector<float>(), (std::vector<float>{n, n}));
  }
}

TEST(FunctionVersions, ThreadsShareThem) {
  WithOptions options(With(kHot, {{"background", "true"}}));
  Program program(CaseOf("nested").text);
  program.Call({Ramp(4), Number(20)});
  const std::string want = program.seen().back();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      const Tensor x = Ramp(4), n = Number(20);
      rt::TensorImpl* args[] = {x.impl(), n.impl()};
      for (int i = 0; i < 60; ++i) {
        interp::Results results;
        const bool ok = interp::Call(program.instance(), 0, args, rt::Cpu(), &results).ok();
        if (!ok || "result " + testing::Bytes(*results[0]) != want) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(FunctionVersions, AnInstanceMayEndWhileItsBuildsAreQueued) {
  WithOptions options(With(kHot, {{"background", "true"}}));
  for (int i = 0; i < 20; ++i) {
    Program program(CaseOf("nested").text);
    program.Call({Ramp(4), Number(12)});
  }
  tiers::Manager::Get().Drain();
  WithOptions now({{"background", "false"}});
  const size_t anchors = tiers::Manager::Get().anchors().size();
  {
    Program program(CaseOf("inlined").text);
    for (int i = 0; i < 6; ++i) program.Call({Ramp(4), Number(12)});
    EXPECT_GT(tiers::Manager::Get().anchors().size(), anchors);
  }
  EXPECT_EQ(tiers::Manager::Get().anchors().size(), anchors) << "places go with the instance";
}

// ---- every reason for which recordings of functions abort

int64_t Aborts(tracer::TraceAbort reason) { return deopt::Ledger::Get().count(reason); }

struct AbortCase {
  tracer::TraceAbort reason;
  Settings settings;
  std::string text;
  std::vector<Tensor> args;
};

TEST(FunctionRecorder, AbortsForEveryReason) {
  const std::string two_ops = R"(func @f(%x: tensor<3 x f32>) -> tensor<3 x f32> {
    %a = exp %x
    %b = neg %a
    %c = add %b, %a
    return %c
  })";
  const std::string short_loop = R"(func @f(%x: tensor<3 x f32>) -> tensor<3 x f32> {
    %r = for %i in (0, 2, 1) (%a = %x) -> (tensor<3 x f32>) {
      %b = exp %a
      %c = neg %b
      yield %c
    }
    return %r
  })";
  const std::vector<AbortCase> cases = {
      {tracer::TraceAbort::too_long, {{"trace_ops", "2"}}, two_ops, {Ramp(3)}},
      {tracer::TraceAbort::too_short,
       {},
       "func @f(%x: tensor<3 x f32>) -> tensor<3 x f32> {\n%a = exp %x\nreturn %a\n}",
       {Ramp(3)}},
      {tracer::TraceAbort::unrolled,
       {{"trace_unroll", "1"}, {"hot_loop", "100000"}},
       R"(
        func @f(%x: tensor<3 x f32>) -> tensor<3 x f32> {
          %r = for %i in (0, 9, 1) (%a = %x) -> (tensor<3 x f32>) {
            %b = exp %a
            %c = neg %b
            yield %c
          }
          return %r
        })",
       {Ramp(3)}},
      {tracer::TraceAbort::left, {{"hot_loop", "1"}, {"hot_function", "100000"}}, short_loop, {Ramp(3)}},
      {tracer::TraceAbort::host_effect,
       {},
       R"(func @f(%x: tensor<3 x f32>) -> tensor<3 x f32> {
          print %x {label = "x"}
          %a = exp %x
          return %a
        })",
       {Ramp(3)}},
      {tracer::TraceAbort::op_failed,
       {},
       R"(func @f(%x: tensor<3 x f32>) -> tensor<1 x f32> {
          %i = constant {value = tensor<1 x i64>[7]}
          %a = exp %x
          %b = neg %a
          %c = take %b, %i {axis = 0}
          return %c
        })",
       {Ramp(3)}},
      {tracer::TraceAbort::other_device,
       {},
       R"(func @f(%x: tensor<3 x f32>, %y: tensor<3 x f32>) -> tensor<3 x f32> {
          %a = exp %x
          %b = neg %a
          %c = exp %y
          return %b
        })",
       {Ramp(3), Ramp(3).to(Device::null())}},
  };
  for (const AbortCase& c : cases) {
    SCOPED_TRACE(Info(c.reason).name);
    WithOptions options(With(kHot, c.settings));
    const int64_t before = Aborts(c.reason);
    Program program(c.text);
    for (int i = 0; i < 12; ++i) program.Call(c.args);
    EXPECT_GT(Aborts(c.reason), before);
  }
}

// The end of an instruction is noted, and its beginning only now and then: nothing may count twice.
TEST(FunctionRecorder, TimesOfStepsAddUpToNoMoreThanTheRecording) {
  WithOptions options(kHot);
  std::string text = "func @many(%x: tensor<3 x f32>) -> tensor<3 x f32> {\n  %v0 = exp %x\n";
  for (int i = 1; i < 100; ++i) absl::StrAppend(&text, "  %v", i, " = neg %v", i - 1, "\n");
  Program program(absl::StrCat(text, "  return %v99\n}\n"));
  for (int i = 0; i < 8; ++i) program.Call({Ramp(3)});
  int64_t recording_ns = 0, sum = 0;
  for (const deopt::VersionRecord& v : deopt::Ledger::Get().versions())
    if (v.steps == 100) recording_ns = v.recording_ns;
  for (const tiers::Manager::Learned& learned : tiers::Manager::Get().LearnedTraces()) {
    for (const auto& trace : learned.samples) {
      if (trace->steps.size() != 100) continue;
      for (const tracer::TraceStep& s : trace->steps) {
        EXPECT_GE(s.ns, 0);
        sum += s.ns;
      }
    }
  }
  EXPECT_GT(sum, 0);
  EXPECT_LE(sum, recording_ns);
}

TEST(FunctionRecorder, AbortsWhenAnOptionChanges) {
  WithOptions options(kHot);
  Program program(R"(func @f(%x: tensor<3 x f32>) -> tensor<3 x f32> {
    %a = exp %x
    %b = neg %a
    %c = call @say(%b)
    return %c
  }
  func @say(%x: tensor<3 x f32>) -> tensor<3 x f32> {
    host_read %x {label = "x"}
    return %x
  })");
  program.instance().on_host_read = [](std::string_view, rt::Ref<rt::TensorImpl>) {
    ASSERT_TRUE(rt::options().Set("hot_eager", "16").ok());
  };
  const int64_t before = Aborts(tracer::TraceAbort::configuration);
  for (int i = 0; i < 8; ++i) program.Call({Ramp(3)});
  EXPECT_GT(Aborts(tracer::TraceAbort::configuration), before);
}

}  // namespace
}  // namespace tessera
