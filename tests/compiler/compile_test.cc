// tiers/compiler/compile.h: modules of every stage in; code that runs, plans, texts, reports and errors out.
#include "tiers/compiler/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <thread>

#include "llvm/Support/ErrorHandling.h"
#include "mlir/Parser/Parser.h"
#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/rehearsal.h"
#include "tiers/compiler/worker.h"

namespace tessera::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kSoftmax[] = R"(
!t = tensor<?x?xf32, [0, 1]>
!r = tensor<?xf32, [1]>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !t, %v1: !r) {
  %v2 = tsr_graph.mul %v0, %v1 step 0 values [2] until [1] : (!t, !r) -> !t loc("model.gir":12:3)
  %v3 = tsr_graph.softmax %v2 step 1 values [3] until [end] {axis = -1 : i64} : (!t) -> !t loc("model.gir":13:3)
})";

constexpr char kChain[] = R"(
!t = tensor<8x16xf32>
tsr_graph.trace "function" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.exp %v0 step 0 values [1] until [1] : (!t) -> !t
  %v2 = tsr_graph.neg %v1 step 1 values [2] until [end] : (!t) -> !t
})";

Compiled MustCompile(llvm::StringRef text, const CompileSettings& settings = {}) {
  llvm::Expected<Compiled> compiled = Compile(text, settings);
  if (compiled) return std::move(*compiled);
  ADD_FAILURE() << llvm::toString(compiled.takeError());
  return {};
}

std::string WhyNot(llvm::StringRef text, const CompileSettings& settings = {}) {
  llvm::Expected<Compiled> compiled = Compile(text, settings);
  return compiled ? "it compiles" : llvm::toString(compiled.takeError());
}

std::unique_ptr<Kernels> MustLoad(const Compiled& compiled) {
  llvm::Expected<std::unique_ptr<Kernels>> kernels = Kernels::Load(compiled);
  if (kernels) return std::move(*kernels);
  ADD_FAILURE() << llvm::toString(kernels.takeError());
  return nullptr;
}

std::string WhyNot(llvm::Error error) { return error ? llvm::toString(std::move(error)) : "it runs"; }

CompileSettings WithTexts(std::vector<std::string> texts) {
  CompileSettings settings;
  settings.texts = std::move(texts);
  return settings;
}

// ---- formulas

TEST(Formula, SumsAndProducts) {
  const Formula s = Formula::Symbol("s"), t = Formula::Symbol("t");
  EXPECT_EQ(Formula().ToString(), "0");
  EXPECT_EQ(Formula(7).ToString(), "7");
  EXPECT_EQ((4 * t * s + 64 + 8 * s).ToString(), "4*s*t + 8*s + 64");
  EXPECT_EQ((s * s + s).ToString(), "s*s + s");
  EXPECT_EQ((s + -1 * s).ToString(), "0");
  EXPECT_EQ((s * 0).ToString(), "0");
  EXPECT_EQ(s * t + s, s + t * s);
  EXPECT_THAT((4 * t * s + t).Symbols(), ElementsAre("s", "t"));
  EXPECT_EQ((4 * t * s + 3).Evaluate([](const std::string& name) { return name == "s" ? 10 : 2; }), 83);
  const Formula large = INT64_MAX;
  EXPECT_EQ((large * large + large).ToString(), std::to_string(INT64_MAX));
}

// ---- what comes out

TEST(Compile, TextBecomesCodeAPlanTextsAndTimes) {
  CompileSettings settings = WithTexts({"graph", "sched", "tile", "target", "llvm", "asm"});
  settings.profile = true;
  const Compiled compiled = MustCompile(kSoftmax, settings);
  EXPECT_THAT(compiled.object, HasSubstr("ELF"));
  ASSERT_THAT(compiled.plan, SizeIs(1));
  const Launch& launch = compiled.plan[0];
  EXPECT_EQ(launch.kernel, "k1");
  EXPECT_EQ(launch.position, 1);
  EXPECT_THAT(launch.steps, ElementsAre(0, 1));
  EXPECT_THAT(launch.inputs, ElementsAre(0, 1));
  EXPECT_THAT(launch.outputs, ElementsAre(3));
  EXPECT_THAT(launch.scratch, IsEmpty());
  EXPECT_THAT(compiled.texts.at("graph"), HasSubstr("tsr_graph.softmax"));
  EXPECT_THAT(compiled.texts.at("sched"), HasSubstr("tsr_sched.kernel @k1"));
  EXPECT_THAT(compiled.texts.at("tile"), HasSubstr("tsr_tile.kernel @k1"));
  EXPECT_THAT(compiled.texts.at("target"), HasSubstr("tsr_target.launch @k1"));
  EXPECT_THAT(compiled.texts.at("llvm"), HasSubstr("@k1(ptr"));
  EXPECT_THAT(compiled.texts.at("asm"), HasSubstr("k1:"));
  std::vector<std::string> passes;
  for (const PassTime& pass : compiled.passes) passes.push_back(pass.pass);
  EXPECT_EQ(passes.front(), "tsr-fuse");
  EXPECT_EQ(passes.back(), "llvm-codegen");
  EXPECT_THAT(passes, ::testing::IsSupersetOf({"tsr-decompose", "tsr-lower-kernels", "tsr-lower-to-llvm", "cse"}));
  EXPECT_THAT(MustCompile(kSoftmax).passes, IsEmpty()) << "nobody asked";
}

// Nobody would hear that it does not compile.
TEST(Compile, TheRehearsalGivesKernels) {
  for (const char* device : {"sm_80", "sm_90a"}) {
    CompileSettings settings;
    settings.options.device = device;
    const Compiled compiled = MustCompile(kRehearsal, settings);
    ASSERT_THAT(compiled.plan, SizeIs(1)) << device;
    EXPECT_FALSE(compiled.object.empty()) << device;
  }
}

TEST(Compile, AModuleOfOnesOwnStaysAsItIs) {
  mlir::MLIRContext context;
  PrepareContext(context);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(kSoftmax, &context);
  ASSERT_TRUE(module);
  const auto text = [&] {
    std::string s;
    llvm::raw_string_ostream stream(s);
    module->print(stream);
    return s;
  };
  const std::string before = text();
  llvm::Expected<Compiled> compiled = Compile(*module, {});
  ASSERT_TRUE(!!compiled) << llvm::toString(compiled.takeError());
  EXPECT_EQ(text(), before);
  EXPECT_EQ(compiled->object, MustCompile(kSoftmax).object);
}

TEST(Compile, AnyLaterStageGivesTheSameCode) {
  const std::vector<std::string> stages = {"graph", "sched", "tile", "target"};
  const Compiled all = MustCompile(kSoftmax, WithTexts(stages));
  for (const std::string& stage : stages) {
    SCOPED_TRACE(stage);
    const Compiled again = MustCompile(all.texts.at(stage), WithTexts(stages));
    EXPECT_EQ(again.object, all.object);
    EXPECT_THAT(again.texts.at("target"), HasSubstr("loc(\"model.gir\":13:3)")) << "places come along";
    EXPECT_EQ(again.texts.count("graph"), stage == "graph" ? 1u : 0u) << "what was before is not known";
    ASSERT_THAT(again.report, SizeIs(1));
    EXPECT_EQ(again.report[0].counted, stage == "graph" || stage == "sched");
    EXPECT_EQ(again.report[0].code.code_bytes, all.report[0].code.code_bytes);
  }
}

TEST(Compile, OnlyTextsWhereNoCodeIsWanted) {
  CompileSettings settings = WithTexts({"sched"});
  settings.code = false;
  const Compiled compiled = MustCompile(kSoftmax, settings);
  EXPECT_THAT(compiled.texts, SizeIs(1));
  EXPECT_THAT(compiled.object, IsEmpty());
  EXPECT_THAT(compiled.plan, IsEmpty());
  EXPECT_THAT(compiled.report, IsEmpty());
}

TEST(Compile, OptionsReachThePasses) {
  CompileSettings settings;
  settings.options.fuse = false;
  EXPECT_THAT(MustCompile(kChain, settings).plan, SizeIs(2));
  settings.options.fuse = true;
  settings.options.grain = 77;
  EXPECT_EQ(MustCompile(kChain, settings).plan.at(0).grain, 77);
  settings.options.bitwise = true;
  EXPECT_THAT(MustCompile(kSoftmax, settings).plan, IsEmpty()) << "softmax is left to tier 1";
}

// Launches are out of the way while kernels are translated, and come back where they were.
TEST(Compile, TextsLeaveThePlanAsItIs) {
  const std::string text = R"(
!t = tensor<64x96xf32>
tsr_graph.trace "three" values [0] strides [[]] (%v0: !t) {
  %v1 = tsr_graph.softmax %v0 step 0 values [1] until [end] : (!t) -> !t
  %v2 = tsr_graph.transpose %v1 step 1 values [2] until [2] {perm = array<i64: 1, 0>} : (!t) -> tensor<96x64xf32>
  %v3 = tsr_graph.softmax %v2 step 2 values [3] until [end] : (tensor<96x64xf32>) -> tensor<96x64xf32>
  %v4 = tsr_graph.transpose %v3 step 3 values [4] until [4] {perm = array<i64: 1, 0>} : (tensor<96x64xf32>) -> !t
  %v5 = tsr_graph.softmax %v4 step 4 values [5] until [end] : (!t) -> !t
}
)";
  for (const char* device : {"", "sm_90"}) {
    std::vector<std::vector<std::string>> plans;
    for (const std::vector<std::string>& texts : {std::vector<std::string>{}, {"llvm"}, {"llvm", "asm"}}) {
      CompileSettings settings = WithTexts(texts);
      settings.options.device = device;
      settings.device_threads = 2;
      const Compiled compiled = MustCompile(text, settings);
      for (plans.emplace_back(); const Launch& launch : compiled.plan) plans.back().push_back(launch.kernel);
    }
    EXPECT_THAT(plans[0], SizeIs(::testing::Ge(2))) << device;
    EXPECT_EQ(plans[1], plans[0]) << device;
    EXPECT_EQ(plans[2], plans[0]) << device;
  }
}

TEST(Compile, ThreadsAtOnce) {
  const std::string want = MustCompile(kSoftmax).object;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) EXPECT_EQ(MustCompile(kSoftmax).object, want);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- errors

TEST(Compile, WhatIsNoModuleIsAnError) {
  EXPECT_EQ(WhyNot("neither"), "module:1:1: custom op 'neither' is unknown (tried 'builtin.neither' as well)");
  EXPECT_THAT(WhyNot("tsr_graph.trace \"f\" values [0] strides [] () {\n}"), HasSubstr("names each of its arguments"));
  EXPECT_THAT(WhyNot(""), HasSubstr("nothing to compile: the module has no tsr_graph.trace"));
  EXPECT_THAT(WhyNot("module { module {} }"), HasSubstr("nothing to compile"));
  EXPECT_THAT(WhyNot(std::string("\0\xff\x80", 3)), HasSubstr("unexpected character"));
  EXPECT_THAT(WhyNot(std::string(kSoftmax).substr(0, 200)), HasSubstr("module:"));
  llvm::Expected<Compiled> none = Compile(mlir::ModuleOp(), {});
  ASSERT_FALSE(!!none);
  EXPECT_EQ(llvm::toString(none.takeError()), "there is no module");
}

TEST(Compile, AModuleThatIsInvalidIsAnError) {
  mlir::MLIRContext context;
  PrepareContext(context);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(kSoftmax, &context);
  ASSERT_TRUE(module);
  module->walk([](graph::TraceOp trace) { trace.setValues({1, 2, 3}); });
  llvm::Expected<Compiled> compiled = Compile(*module, {});
  ASSERT_FALSE(!!compiled);
  EXPECT_THAT(llvm::toString(compiled.takeError()), HasSubstr("names each of its arguments"));
}

TEST(Compile, SettingsThatAreNoneAreAnError) {
  CompileSettings settings;
  settings.options.tier = 4;
  EXPECT_EQ(WhyNot(kChain, settings), "tier 4: code is made for tiers 2 and 3");
  settings = {};
  settings.options.grain = 0;
  EXPECT_EQ(WhyNot(kChain, settings), "the grain is at least 1");
  EXPECT_EQ(WhyNot(kChain, WithTexts({"tiles"})),
            "stages are graph, sched, tile, target, llvm, asm and cuda, not tiles");
  settings = {};
  settings.cpu = "abacus";
  EXPECT_THAT(WhyNot(kChain, settings), HasSubstr("there is no processor abacus of "));
  settings = {};
  settings.features = "+wings";
  EXPECT_THAT(WhyNot(kChain, settings), HasSubstr("none called +wings"));
  settings.features = "neon";
  EXPECT_THAT(WhyNot(kChain, settings), HasSubstr("features are written +name or -name"));
}

TEST(Compile, AFunctionThatNobodyKnowsIsAnError) {
  const std::string why = WhyNot(R"(
    tsr_tile.kernel @k0 at 0 steps [0] inputs [0] outputs [1] dims [] strides [[], []] tasks [-9] unit [] grain 32768
        scratch []
        (%in0: !llvm.ptr, %out0: !llvm.ptr, %scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
      %x = tsr_tile.load %in0[%begin] : f32 -> f32
      %y = tsr_tile.map "whistle_f32"(%x) : (f32) -> f32
      tsr_tile.store %y, %out0[%begin] : f32 -> f32
    })");
  EXPECT_THAT(why, HasSubstr("whistle_f32"));
}

// ---- threads that help

TEST(Helpers, DoTheirPartsBeforeTheCompileGoesOn) {
  std::string why;
  auto sum = std::make_shared<std::atomic<int>>(0);
  ASSERT_TRUE(RunOnCompilerThread(
      [sum](mlir::MLIRContext&) {
        {
          Helpers helpers;
          for (int i = 1; i <= 8; ++i) EXPECT_TRUE(helpers.Run([sum, i] { *sum += i; }));
        }
        *sum += *sum;
      },
      &why))
      << why;
  EXPECT_EQ(*sum, 72);
}

/// In a process of its own: a compiler that is lost stays lost.
[[noreturn]] void LoseAHelper() {
  alarm(60);
  std::string why;
  const bool done = RunOnCompilerThread(
      [](mlir::MLIRContext&) {
        Helpers helpers;
        helpers.Run([] { llvm::report_fatal_error("of the test"); });
      },
      &why);
  if (done) _exit(1);
  if (why != "LLVM: fatal error: of the test") _exit(2);
  llvm::Expected<Compiled> compiled = Compile(kSoftmax, CompileSettings());
  if (compiled) _exit(3);
  llvm::consumeError(compiled.takeError());
  _exit(0);
}

TEST(Helpers, OneThatIsLostIsTold) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(LoseAHelper(), testing::ExitedWithCode(0), "");
}

// ---- running

TEST(Kernels, RunForAnyDims) {
  const std::unique_ptr<Kernels> kernels = MustLoad(MustCompile(kSoftmax));
  ASSERT_NE(kernels, nullptr);
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {2, 100}, {0, 7}, {4, 0}}) {
    std::vector<float> x(static_cast<size_t>(rows * columns)), w(static_cast<size_t>(columns)), y(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
    for (size_t i = 0; i < w.size(); ++i) w[i] = 0.5f + static_cast<float>(i % 3);
    ASSERT_EQ(WhyNot(kernels->Run(
                  0, {{x.data(), {rows, columns}, {}}, {w.data(), {columns}, {}}, {y.data(), {rows, columns}, {}}})),
              "it runs");
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c) sum += std::exp(double{x[r * columns + c]} * w[c]);
      for (int64_t c = 0; c < columns; ++c)
        EXPECT_NEAR(y[r * columns + c], std::exp(double{x[r * columns + c]} * w[c]) / sum, 1e-6);
    }
  }
}

TEST(Kernels, BuffersThatDoNotFitAreAnError) {
  const std::unique_ptr<Kernels> kernels = MustLoad(MustCompile(kSoftmax));
  ASSERT_NE(kernels, nullptr);
  std::vector<float> x(64), w(8), y(64);
  const Buffer in = {x.data(), {8, 8}, {}}, row = {w.data(), {8}, {}}, out = {y.data(), {8, 8}, {}};
  EXPECT_EQ(WhyNot(kernels->Run(1, {in, row, out})), "the plan: it has 1 launches");
  EXPECT_EQ(WhyNot(kernels->Run(0, {in, out})), "k1: takes 2 inputs and 1 outputs");
  EXPECT_EQ(WhyNot(kernels->Run(0, {{x.data(), {8, 8}, {1, 8}}, row, out})),
            "k1: buffer 0 has strides that the code is not made for");
  EXPECT_EQ(WhyNot(kernels->Run(0, {{x.data(), {8, 8}, {8}}, row, out})),
            "k1: buffer 0 has a stride for each dim, or none");
  EXPECT_THAT(WhyNot(kernels->Run(0, {{x.data(), {}, {}}, row, out})), HasSubstr("has no dim"));
  EXPECT_EQ(WhyNot(kernels->Run(0, {{x.data(), {8, 8}, {8, 1}}, row, out})), "it runs");
}

TEST(Kernels, ForAnotherProcessorAreNotLoaded) {
  CompileSettings settings;
  settings.cpu = "generic";
  ASSERT_NE(MustLoad(MustCompile(kChain, settings)), nullptr);
#ifdef __aarch64__
  settings.cpu = ThisCpu().cpu == "cortex-a53" ? "cortex-a72" : "cortex-a53";
#else
  settings.cpu = ThisCpu().cpu == "nehalem" ? "haswell" : "nehalem";
#endif
  const Compiled compiled = MustCompile(kChain, settings);
  EXPECT_THAT(compiled.object, HasSubstr("ELF"));
  EXPECT_EQ(compiled.cpu.cpu, settings.cpu);
  llvm::Expected<std::unique_ptr<Kernels>> kernels = Kernels::Load(compiled);
  ASSERT_FALSE(!!kernels);
  EXPECT_THAT(llvm::toString(kernels.takeError()), HasSubstr("does not run on this machine"));
}

TEST(Kernels, WithoutKernelsThereIsNothingToLoad) {
  CompileSettings settings;
  settings.options.bitwise = true;
  const std::unique_ptr<Kernels> kernels = MustLoad(MustCompile(kSoftmax, settings));
  ASSERT_NE(kernels, nullptr);
  EXPECT_THAT(kernels->plan(), IsEmpty());
}

// ---- reports

KernelReport ReportOf(llvm::StringRef text) {
  const Compiled compiled = MustCompile(text);
  if (compiled.report.size() == 1) return compiled.report[0];
  ADD_FAILURE() << compiled.report.size() << " kernels";
  return {};
}

TEST(Report, OfASoftmaxForAnyDims) {
  const KernelReport r = ReportOf(kSoftmax);
  EXPECT_EQ(r.name, "k1");
  EXPECT_THAT(r.steps, ElementsAre(0, 1));
  EXPECT_THAT(r.sources, ElementsAre("model.gir:12:3", "model.gir:13:3"));
  EXPECT_EQ(r.bytes_read.ToString(), "4*s0*s1 + 4*s1");
  EXPECT_EQ(r.bytes_written.ToString(), "4*s0*s1");
  EXPECT_EQ(r.functions.ToString(), "s0*s1");
  // The product, the maximum, the difference, the sum; and the scaling, whose factor may be made once for each row.
  EXPECT_THAT(r.operations.ToString(), ::testing::StartsWith("5*s0*s1"));
  EXPECT_EQ(r.tasks.ToString(), "s0");
  EXPECT_EQ(r.unit.ToString(), "s1");
  EXPECT_EQ(r.scratch_bytes.ToString(), "0") << "the weights are kept where the result will be";
  EXPECT_GT(r.lanes, 1);
  EXPECT_GT(r.code.code_bytes, 100);
}

TEST(Report, NarrowResultsHoldNoWeights) {
  const std::string text = R"(
    !t = tensor<?x?xbf16, [0, 1]>
    tsr_graph.trace "f" values [0] strides [[]] (%v0: !t) {
      %v1 = tsr_graph.softmax %v0 step 0 values [1] until [end] {axis = -1 : i64} : (!t) -> !t
    })";
  EXPECT_EQ(ReportOf(text).scratch_bytes.ToString(), "4*s1");
  EXPECT_THAT(MustCompile(text).plan[0].scratch, ElementsAre(4));
}

TEST(Report, DimsThatAreKnownAreNumbers) {
  const KernelReport r = ReportOf(kChain);
  EXPECT_EQ(r.bytes_read.ToString(), "512");
  EXPECT_EQ(r.bytes_written.ToString(), "512");
  EXPECT_EQ(r.operations.ToString(), "128");
  EXPECT_EQ(r.functions.ToString(), "128");
  EXPECT_EQ(r.tasks.ToString(), "128");
  EXPECT_EQ(r.scratch_bytes.ToString(), "0");
  EXPECT_EQ(r.code.spills, 0);
}

TEST(Report, NarrowTypesAndWhatDoesNotMove) {
  const KernelReport r = ReportOf(R"(
    !t = tensor<32x64xbf16>
    tsr_graph.trace "f" values [0, 1] strides [[], [0, 1]] (%v0: !t, %v1: !t) {
      %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [1] : (!t, !t) -> !t
      %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!t) -> !t
    })");
  EXPECT_EQ(r.bytes_read.ToString(), std::to_string(2 * 32 * 64 + 2 * 64));
  EXPECT_EQ(r.bytes_written.ToString(), std::to_string(2 * 32 * 64));
  EXPECT_EQ(r.operations.ToString(), std::to_string(2 * 32 * 64));
  EXPECT_TRUE(r.functions.is_zero());
}

TEST(Report, RegistersThatDoNotSuffice) {
  // Each of sixteen functions is of the one before, and all are needed again after the last, in the other order.
  constexpr int kFunctions = 16, kLast = 2 * kFunctions - 2;
  std::string text = "!t = tensor<4096xf32>\ntsr_graph.trace \"f\" values [0] strides [[]] (%v0: !t) {\n";
  const auto name = [](int value) { return "%v" + std::to_string(value); };
  for (int step = 0; step <= kLast; ++step) {
    const bool first = step < kFunctions;
    text += "  " + name(step + 1) + " = tsr_graph." + (first ? "tanh " + name(step) : "mul " + name(step)) +
            (first ? "" : ", " + name(2 * kFunctions - 1 - step)) + " step " + std::to_string(step) + " values [" +
            std::to_string(step + 1) + "] until [" + (step == kLast ? "end" : std::to_string(kLast)) +
            "] : " + (first ? "(!t)" : "(!t, !t)") + " -> !t\n";
  }
  const KernelReport r = ReportOf(text + "}\n");
  EXPECT_GT(r.code.spills, 0);
  EXPECT_GT(r.code.reloads, 0);
  EXPECT_GT(r.code.stack_bytes, 0);
}

TEST(Report, ProductsAndAttention) {
  mlir::MLIRContext context;
  PrepareContext(context);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(R"(
    !a = tensor<?x64xf32, [0, -1]>
    !b = tensor<64x32xf32>
    !y = tensor<?x32xf32, [0, -1]>
    !q = tensor<2x4x10x16xf32>
    !k = tensor<2x4x20x16xf32>
    tsr_graph.trace "f" values [0, 1, 2, 3] strides [[], [], [], []] (%v0: !a, %v1: !b, %v2: !q, %v3: !k) {
      %v4 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0, 1] outputs [4] strides [[], []] row 0 lanes 8 grain 32768
          {product = {form = "packed", rows = 4, columns = 16, depth = 64, mr = 4, nr = 16}}
          (%in0 = %v0 : !a, %in1 = %v1 : !b) -> (!y) {
        %0 = tsr_graph.matmul %in0, %in1 : (!a, !b) -> !y
        tsr_sched.yield %0 : !y
      }
      %v5 = tsr_sched.kernel @k1 at 1 steps [1] inputs [2, 3] outputs [5] strides [[], []] row 0 lanes 8 grain 32768
          (%in0 = %v2 : !q, %in1 = %v3 : !k) -> (!q) {
        %0 = tsr_graph.attention %in0, %in1, %in1 : (!q, !k, !k) -> !q
        tsr_sched.yield %0 : !q
      }
    })",
                                                                                     &context);
  ASSERT_TRUE(module);
  const std::vector<KernelReport> reports = CountKernels(*module);
  ASSERT_THAT(reports, SizeIs(2));
  EXPECT_EQ(reports[0].operations.ToString(), std::to_string(2 * 64 * 32) + "*s0");
  EXPECT_EQ(reports[0].bytes_read.ToString(), "256*s0 + 8192");
  const int64_t scores = 2 * 4 * 10 * 20;
  EXPECT_EQ(reports[1].operations.ToString(), std::to_string(2 * scores * 16 + 2 * scores * 16 + 4 * scores));
  EXPECT_EQ(reports[1].functions.ToString(), std::to_string(scores));
}

TEST(Report, TheRooflineSaysWhatBounds) {
  const KernelReport r = ReportOf(kSoftmax);
  Roofline machine;
  machine.dims = {{"s0", 1000}, {"s1", 100}};
  EXPECT_EQ(EstimateOf(r, machine).bound, Estimate::Bound::unknown);
  EXPECT_DOUBLE_EQ(EstimateOf(r, machine).bytes, 4 * 1000 * 100 + 4 * 100 + 4 * 1000 * 100);
  machine.gigabytes_per_second = 1;
  machine.gflops = 1e6;
  const Estimate slow = EstimateOf(r, machine);
  EXPECT_EQ(slow.bound, Estimate::Bound::memory);
  EXPECT_DOUBLE_EQ(slow.milliseconds, slow.bytes * 1e-6);
  machine.gflops = 1;
  const Estimate weak = EstimateOf(r, machine);
  EXPECT_EQ(weak.bound, Estimate::Bound::compute);
  EXPECT_DOUBLE_EQ(weak.milliseconds, weak.operations * 1e-6);
  EXPECT_DOUBLE_EQ(weak.intensity, weak.operations / weak.bytes);
  machine.dims.clear();
  EXPECT_THAT(ReportText({r}, machine), HasSubstr("s0 = 1024, s1 = 1024"));
  EXPECT_THAT(ReportText({}, machine), HasSubstr("no kernels"));
}

}  // namespace
}  // namespace tessera::compiler
