// A corpus of traces through PTX and on to cubins for every kind of CUDA device, which needs no device. Nothing may
// spill; registers and shared memory of each kernel go to gpu_corpus.json in the build folder.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "llvm/ADT/StringExtras.h"
#include "tiers/compiler/compile.h"
#include "tiers/compiler/target/nvptx.h"
#include "tiers/compiler/target/nvrtc.h"

// nvJitLink keeps some of what it allocates for each link.
extern "C" const char* __lsan_default_suppressions();  // NOLINT
extern "C" const char* __lsan_default_suppressions() { return "leak:libnvJitLink"; }

namespace tessera::compiler {
namespace {

constexpr const char* kDevices[] = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"};

struct Trace {
  std::string name, text;
  size_t kernels = 0;
};

std::vector<Trace> Corpus() {
  std::ifstream file(TESSERA_GPU_CORPUS);
  std::stringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(text).split(parts, "// -----\n");
  std::vector<Trace> traces;
  for (llvm::StringRef part : parts) {
    // The last comment before the trace: "// name: kernels".
    llvm::StringRef head = part.take_front(part.find("\n!"));
    const auto [name, kernels] = head.substr(head.rfind("// ") + 3).split(": ");
    Trace trace;
    trace.name = name.str();
    trace.text = part.str();
    if (kernels.getAsInteger(10, trace.kernels)) ADD_FAILURE() << "no number of kernels in " << head.str();
    traces.push_back(std::move(trace));
  }
  return traces;
}

CompileSettings For(const char* device, const std::string& text) {
  CompileSettings settings;
  settings.options.device = device;
  settings.options.tier = text.find('?') == std::string::npos ? 3 : 2;
  settings.texts = {"asm"};
  settings.options.tf32 = text.find("// tf32_") != std::string::npos;
  // The library's, unless a schedule says otherwise.
  if (text.find("// few_rows_64") != std::string::npos)
    settings.options.schedule = "*:form=few,rows=64,columns=64,nr=16,depth=64,stages=2,warps=4,cluster=0";
  return settings;
}

// The other way down: all kernels as CUDA C++, by NVRTC.
TEST(GpuCorpus, AsCudaSource) {
  for (const char* device : {"sm_80", "sm_90a"}) {
    for (const Trace& trace : Corpus()) {
      if (trace.kernels == 0) continue;
      SCOPED_TRACE(trace.name + " for " + device);
      CompileSettings settings = For(device, trace.text);
      settings.options.schedule =
          settings.options.schedule.empty() ? "*:source=1" : settings.options.schedule + ",source=1";
      settings.texts = {"cuda"};
      settings.code = HasNvrtc() && std::string_view(device) == "sm_90a";
      llvm::Expected<Compiled> compiled = Compile(trace.text, settings);
      ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
      EXPECT_NE(compiled->texts["cuda"].find("__global__"), std::string::npos);
      if (!settings.code) continue;
      EXPECT_EQ(compiled->kind, tiers::kCubin);
      EXPECT_EQ(compiled->cubins.size(), 1u);
      for (const KernelReport& kernel : compiled->report) {
        EXPECT_TRUE(kernel.code.as_source);
        EXPECT_GT(kernel.code.code_bytes, 0);
        // Products of few rows go the other way: here loops are unrolled for more registers than there are.
        const int64_t most = llvm::StringRef(trace.name).starts_with("few_rows") ? 64 : 2;
        EXPECT_LE(kernel.code.spills, most);
        EXPECT_LE(kernel.code.reloads, most);
      }
    }
  }
}

// Wide tiles of f8 need registers that only CUDA C++ gets: an artifact has two cubins where other kernels are with
// them.
TEST(GpuCorpus, BothWays) {
  if (!HasAssembler() || !HasNvrtc()) GTEST_SKIP() << "no libnvJitLink, or no libnvrtc";
  const std::string text = R"(
!x8 = tensor<4096x1024xf8E4M3FN>
!x = tensor<4096x1024xbf16>
!y = tensor<4096x4096xbf16>
tsr_graph.trace "function" values [0, 1] strides [[], []]
    (%v0: !x8, %v1: !x8) {
  %v2 = tsr_graph.cast %v0 step 0 values [2] until [2] {dtype = "bf16"} : (!x8) -> !x
  %v3 = tsr_graph.cast %v1 step 1 values [3] until [2] {dtype = "bf16"} : (!x8) -> !x
  %v4 = tsr_graph.matmul %v2, %v3 step 2 values [4] until [3] {transpose_b = true} : (!x, !x) -> !y
  %v5 = tsr_graph.softmax %v4 step 3 values [5] until [end] : (!y) -> !y
}
)";
  llvm::Expected<Compiled> compiled = Compile(text, For("sm_90a", text));
  ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
  ASSERT_EQ(compiled->report.size(), 2u);
  EXPECT_TRUE(compiled->report[0].code.as_source);
  EXPECT_FALSE(compiled->report[1].code.as_source);
  EXPECT_EQ(compiled->kind, tiers::kCubin);
  ASSERT_EQ(compiled->cubins.size(), 2u);
  EXPECT_EQ(compiled->object.substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_EQ(compiled->object.substr(compiled->object.size() - static_cast<size_t>(compiled->cubins[1]), 4),
            "\x7f"
            "ELF");
}

TEST(GpuCorpus, EveryDevice) {
  if (!HasAssembler()) std::cout << "libnvJitLink is not on this machine: PTX is made, and not assembled\n";
  std::ofstream json("gpu_corpus.json");
  json << "[";
  const char* comma = "\n";
  for (const Trace& trace : Corpus()) {
    for (const char* device : kDevices) {
      SCOPED_TRACE(trace.name + " for " + device);
      llvm::Expected<Compiled> compiled = Compile(trace.text, For(device, trace.text));
      ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
      ASSERT_EQ(compiled->plan.size(), trace.kernels);
      if (trace.kernels == 0) continue;
      EXPECT_EQ(compiled->kind, HasAssembler() ? tiers::kCubin : tiers::kPtx);
      EXPECT_FALSE(compiled->object.empty());
      const std::string& ptx = compiled->texts["asm"];
      // Exact arithmetic: no step that rounds otherwise, or that an assembler may fuse. Kernels of narrow floats have
      // both, and gelu and the weights of a softmax make good what the device's power of two lacks.
      const bool has_powers =
          trace.name.find("gelu") != std::string::npos || trace.name.find("softmax") != std::string::npos;
      if (trace.text.find("f16") == std::string::npos && trace.text.find("f8") == std::string::npos)
        for (const char* never :
             {"div.full", "div.approx", "\tsqrt.approx", "ex2.approx", "mul.f32 ", "add.f32 ", "mul.f64 ", "add.f64 "})
          if (!has_powers || std::string_view(never) != "ex2.approx")
            EXPECT_EQ(ptx.find(never), std::string::npos) << never;
      for (const KernelReport& kernel : compiled->report) {
        EXPECT_GE(kernel.threads, 32);
        EXPECT_LE(kernel.threads, 1024);
        EXPECT_GE(kernel.per_block, 1);
        // A thread of 1024 has 64 registers, and code for some devices takes more: what lies in the cache then is a
        // part of the row. Code for sm_80 to sm_89 takes a few more in smaller blocks, too.
        const bool is_old = llvm::StringRef(device).starts_with("sm_8");
        const bool may_spill = kernel.threads == 1024 && (is_old || llvm::StringRef(device) == "sm_120");
        // Groups that hold 128 sums put some addresses away, once for each tile. (ptxas by itself does not; nvJitLink
        // assembles what might be linked to more.)
        const bool is_hopper = llvm::StringRef(device) == "sm_90a";
        // Products of few rows may be by warps there, too.
        const bool has_few_rows = llvm::StringRef(trace.name).starts_with("few_rows");
        const bool has_groups = ptx.find("wgmma") != std::string::npos;
        const bool holds_sums =
            is_hopper && !has_few_rows ? has_groups : has_groups || ptx.find("mma.sync") != std::string::npos;
        const int64_t most = is_old ? 8 : holds_sums ? 32 : 0;
        if (!may_spill) EXPECT_LE(kernel.code.spills, most);
        if (!may_spill) EXPECT_LE(kernel.code.reloads, most);
        EXPECT_EQ(holds_sums, trace.text.find("matmul") != std::string::npos);
        if (!is_hopper) EXPECT_FALSE(has_groups);
        json << comma << "  {\"trace\": \"" << trace.name << "\", \"device\": \"" << device << "\", \"kernel\": \""
             << kernel.name << "\", \"threads\": " << kernel.threads << ", \"registers\": " << kernel.code.registers
             << ", \"shared_bytes\": " << kernel.code.shared_bytes << ", \"spills\": " << kernel.code.spills
             << ", \"assemble_ms\": " << compiled->times.assemble << ", \"compile_ms\": "
             << compiled->times.parse + compiled->times.sched + compiled->times.tile + compiled->times.target +
                    compiled->times.link + compiled->times.opt + compiled->times.codegen
             << "}";
        comma = ",\n";
      }
    }
  }
  json << "\n]\n";
}

// Scales for blocks of f8 take registers besides two sets of sums. Only one kind of device has such kernels, so these
// are not in the corpus.
TEST(GpuCorpus, ScalesOfBlocks) {
  if (!HasAssembler() || !HasNvrtc()) GTEST_SKIP() << "no libnvJitLink, or no libnvrtc";
  const std::string text = R"(
!x8 = tensor<4096x4096xf8E4M3FN>
!x = tensor<4096x4096xbf16>
!r = tensor<4096x32x128xf32>
!s = tensor<32x128x32x128xf32>
tsr_graph.trace "function" values [0, 1, 2, 3, 4, 5] strides [[], [], [], [], [], []]
    (%v0: !x8, %v1: !x8, %v2: tensor<4096x32x1xf32>, %v3: tensor<32x1x32x1xf32>, %v4: tensor<4096xbf16>, %v5: !x) {
  %v6 = tsr_graph.reshape %v0 step 0 values [6] until [1] {"tsr.strides" = array<i64>} : (!x8) -> tensor<4096x32x128xf8E4M3FN>
  %v7 = tsr_graph.cast %v6 step 1 values [7] until [2] {dtype = "f32"} : (tensor<4096x32x128xf8E4M3FN>) -> !r
  %v8 = tsr_graph.mul %v7, %v2 step 2 values [8] until [4] : (!r, tensor<4096x32x1xf32>) -> !r
  %v9 = tsr_graph.reshape %v8 step 3 values [9] until [4] {"tsr.strides" = array<i64>} : (!r) -> tensor<4096x4096xf32>
  %v10 = tsr_graph.cast %v9 step 4 values [10] until [10] {dtype = "bf16"} : (tensor<4096x4096xf32>) -> !x
  %v11 = tsr_graph.reshape %v1 step 5 values [11] until [6] {"tsr.strides" = array<i64>} : (!x8) -> tensor<32x128x32x128xf8E4M3FN>
  %v12 = tsr_graph.cast %v11 step 6 values [12] until [7] {dtype = "f32"} : (tensor<32x128x32x128xf8E4M3FN>) -> !s
  %v13 = tsr_graph.mul %v12, %v3 step 7 values [13] until [9] : (!s, tensor<32x1x32x1xf32>) -> !s
  %v14 = tsr_graph.reshape %v13 step 8 values [14] until [9] {"tsr.strides" = array<i64>} : (!s) -> tensor<4096x4096xf32>
  %v15 = tsr_graph.cast %v14 step 9 values [15] until [10] {dtype = "bf16"} : (tensor<4096x4096xf32>) -> !x
  %v16 = tsr_graph.matmul %v10, %v15 step 10 values [16] until [11] {transpose_b = true} : (!x, !x) -> !x
)";
  const char* const ends[] = {
      "  %v17 = tsr_graph.neg %v16 step 11 values [17] until [end] : (!x) -> !x\n}\n",
      "  %v17 = tsr_graph.add %v16, %v4 step 11 values [17] until [12] : (!x, tensor<4096xbf16>) -> !x\n"
      "  %v18 = tsr_graph.add %v17, %v5 step 12 values [18] until [end] : (!x, !x) -> !x\n}\n"};
  for (const char* end : ends) {
    CompileSettings settings = For("sm_90a", text);
    settings.code = false;
    settings.texts = {"space"};
    llvm::Expected<Compiled> compiled = Compile(text + end, settings);
    ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
    llvm::SmallVector<llvm::StringRef> choices;
    llvm::StringRef(compiled->texts["space"]).trim().split(choices, ' ');
    EXPECT_GT(choices.size(), 2u);
    for (const llvm::StringRef choice : choices) {
      // Everything the tuner may try, and, in place of the name, what the model chose.
      if (choice == "form=library") continue;
      const std::string schedule = choice == choices[0] ? "" : "*:" + choice.str();
      SCOPED_TRACE(schedule + "\n" + end);
      settings = For("sm_90a", text);
      settings.options.schedule = schedule;
      llvm::Expected<Compiled> other = Compile(text + end, settings);
      ASSERT_TRUE(static_cast<bool>(other)) << llvm::toString(other.takeError());
      ASSERT_EQ(other->report.size(), 1u);
      EXPECT_LE(other->report[0].code.spills, 8);
      EXPECT_LE(other->report[0].code.reloads, 8);
    }
  }
}

// Whatever the tuner may try for a product of few rows, or in tf32, is a kernel, but for the library.
TEST(GpuCorpus, OtherCuts) {
  for (const Trace& trace : Corpus()) {
    const llvm::StringRef name(trace.name);
    if (!name.starts_with("few_rows") && !name.starts_with("tf32_")) continue;
    for (const char* device : {"sm_80", "sm_90a"}) {
      CompileSettings settings = For(device, trace.text);
      const std::string given = settings.options.schedule.empty() ? "*:" : settings.options.schedule + ",";
      settings.code = false;
      settings.texts = {"space"};
      llvm::Expected<Compiled> compiled = Compile(trace.text, settings);
      ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
      llvm::SmallVector<llvm::StringRef> choices;
      llvm::StringRef(compiled->texts["space"]).trim().split(choices, ' ');
      EXPECT_GT(choices.size(), 2u) << trace.name;
      for (const llvm::StringRef choice : llvm::drop_begin(choices)) {
        SCOPED_TRACE(trace.name + " for " + device + ": " + choice.str());
        settings.options.schedule = given + choice.str();
        settings.texts = {"asm"};
        llvm::Expected<Compiled> other = Compile(trace.text, settings);
        ASSERT_TRUE(static_cast<bool>(other)) << llvm::toString(other.takeError());
        const std::string& ptx = other->texts["asm"];
        const bool multiplies = ptx.find("mma.sync") != std::string::npos || ptx.find("wgmma") != std::string::npos;
        EXPECT_EQ(multiplies, choice != "form=library");
      }
    }
  }
}

TEST(Assembler, Log) {
  const std::map<std::string, CodeResources> code = ResourcesOf(
      "ptxas info    : Compiling entry function 'k1' for 'sm_90'\n"
      "ptxas info    : Function properties for k1\n"
      "    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 512 bytes smem\n"
      "ptxas info    : Compiling entry function 'k2' for 'sm_90'\n"
      "ptxas info    : Function properties for other\n"
      "    64 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 8 registers, used 0 barriers\n"
      "info    : Function properties for 'k1':\n"
      "info    : used 41 registers, used 1 barriers, 0 stack, 1536 bytes smem\n");
  ASSERT_EQ(code.size(), 2u);
  EXPECT_EQ(code.at("k1").registers, 40);
  EXPECT_EQ(code.at("k1").stack_bytes, 16);
  EXPECT_EQ(code.at("k1").spills, 2);
  EXPECT_EQ(code.at("k1").reloads, 3);
  EXPECT_EQ(code.at("k1").shared_bytes, 512);
  EXPECT_EQ(code.at("k2").registers, 8);
  EXPECT_EQ(code.at("k2").stack_bytes, 0);
}

// What many threads make is what one does.
TEST(Assembler, ThreadsShareKernels) {
  if (!HasAssembler()) GTEST_SKIP() << "libnvJitLink is not on this machine";
  const std::string text = R"(
!x = tensor<4096x1024xbf16>
!y = tensor<4096x4096xbf16>
tsr_graph.trace "function" values [0, 1] strides [[], []]
    (%v0: !x, %v1: !x) {
  %v2 = tsr_graph.softmax %v0 step 0 values [2] until [1] : (!x) -> !x
  %v3 = tsr_graph.matmul %v2, %v1 step 1 values [3] until [2] {transpose_b = true} : (!x, !x) -> !y
  %v4 = tsr_graph.tanh %v3 step 2 values [4] until [end] : (!y) -> !y
}
)";
  CompileSettings settings = For("sm_90a", text);
  llvm::Expected<Compiled> one = Compile(text, settings);
  ASSERT_TRUE(static_cast<bool>(one)) << llvm::toString(one.takeError());
  settings.device_threads = 8;
  llvm::Expected<Compiled> many = Compile(text, settings);
  ASSERT_TRUE(static_cast<bool>(many)) << llvm::toString(many.takeError());
  ASSERT_EQ(one->report.size(), 2u);
  ASSERT_EQ(many->report.size(), 2u);
  ASSERT_EQ(one->cubins.size(), 1u);
  ASSERT_EQ(many->cubins.size(), 2u);
  EXPECT_EQ(one->cubins[0], static_cast<int64_t>(one->object.size()));
  const int64_t second = static_cast<int64_t>(many->object.size()) - many->cubins[1];
  EXPECT_EQ(second % static_cast<int64_t>(tiers::kImageAlignment), 0);
  EXPECT_GE(second, many->cubins[0]);
  EXPECT_LT(second, many->cubins[0] + static_cast<int64_t>(tiers::kImageAlignment));
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_GT(one->report[k].code.registers, 0);
    EXPECT_EQ(one->report[k].code.registers, many->report[k].code.registers);
    EXPECT_EQ(one->report[k].code.code_bytes, many->report[k].code.code_bytes);
  }
}

TEST(Assembler, BadPtxIsAnError) {
  if (!HasAssembler()) GTEST_SKIP() << "libnvJitLink is not on this machine";
  llvm::Expected<std::string> cubin = Assemble("no PTX", "sm_90", nullptr);
  ASSERT_FALSE(static_cast<bool>(cubin));
  llvm::consumeError(cubin.takeError());
}

TEST(Devices, UnknownKindIsAnError) {
  CompileSettings settings;
  settings.options.device = "sm_35";
  llvm::Expected<Compiled> compiled = Compile("module {}", settings);
  ASSERT_FALSE(static_cast<bool>(compiled));
  EXPECT_NE(llvm::toString(compiled.takeError()).find("sm_35"), std::string::npos);
}

TEST(Devices, CodeIsNotLoadedOnTheHost) {
  const std::vector<Trace> corpus = Corpus();
  llvm::Expected<Compiled> compiled = Compile(corpus[0].text, For("sm_90", corpus[0].text));
  ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
  llvm::Expected<std::unique_ptr<Kernels>> kernels = Kernels::Load(*compiled);
  ASSERT_FALSE(static_cast<bool>(kernels));
  llvm::consumeError(kernels.takeError());
}

}  // namespace
}  // namespace tessera::compiler
