// Attention written in ops through PTX and CUDA C++ to cubins, which needs no device: on sm_90a it is one kernel, which
// does not spill; on other devices its parts are the library's and other kernels.
#include <gtest/gtest.h>

#include "tiers/compiler/compile.h"
#include "tiers/compiler/target/nvptx.h"
#include "tiers/compiler/target/nvrtc.h"

namespace tessera::compiler {
namespace {

// From %v5, the product, to %v20, what the softmax is of: both !s. %v3 and %v4 are numbers, %v6 a bias of heads, %v7 a
// mask of queries and keys, %v8 and %v9 whole numbers.
struct Scores {
  const char *name, *steps;
};
constexpr Scores kScores[] = {
    {"scaled", "  %v20 = tsr_graph.mul %v5, %v3 step 11 values [20] until [12] : (!s, !n) -> !s\n"},
    {"capped",
     "  %v11 = tsr_graph.mul %v5, %v3 step 1 values [11] until [2] : (!s, !n) -> !s\n"
     "  %v12 = tsr_graph.tanh %v11 step 2 values [12] until [11] : (!s) -> !s\n"
     "  %v20 = tsr_graph.mul %v12, %v4 step 11 values [20] until [12] : (!s, !n) -> !s\n"},
    {"masked",
     "  %v11 = tsr_graph.add %v5, %v6 step 1 values [11] until [11] : (!s, !b) -> !s\n"
     "  %v20 = tsr_graph.where %v7, %v11, %v4 step 11 values [20] until [12] : (!m, !s, !n) -> !s\n"},
    {"causal",
     "  %v11 = tsr_graph.iota %v8, %v9 step 1 values [11] until [3] {axis = 0 : i64} : (!i, !i) -> !q1\n"
     "  %v12 = tsr_graph.iota %v8, %v9 step 2 values [12] until [3] {axis = 1 : i64} : (!i, !i) -> !k1\n"
     "  %v13 = tsr_graph.ge %v11, %v12 step 3 values [13] until [11] : (!q1, !k1) -> !m\n"
     "  %v14 = tsr_graph.mul %v5, %v3 step 4 values [14] until [11] : (!s, !n) -> !s\n"
     "  %v20 = tsr_graph.where %v13, %v14, %v4 step 11 values [20] until [12] : (!m, !s, !n) -> !s\n"},
};

std::string Trace(const Scores& scores, const std::string& dtype, int64_t depth, bool is_exact) {
  const std::string d = std::to_string(depth);
  const auto type = [&](const std::string& exact, const std::string& symbols, const std::string& element,
                        const std::string& names) {
    return "tensor<" + (is_exact ? exact + element : symbols + element + ", [" + names + "]") + ">\n";
  };
  std::string text =
      "!q = " + type("4x16x2048x" + d + "x", "?x16x?x" + d + "x", dtype, "0, -1, 1, -1") +
      "!k = " + type("4x16x2048x" + d + "x", "?x16x?x" + d + "x", dtype, "0, -1, 2, -1") +
      "!s = " + type("4x16x2048x2048x", "?x16x?x?x", dtype, "0, -1, 1, 2") +
      "!b = " + type("16x1x2048x", "16x1x?x", dtype, "-1, -1, 2") + "!m = " + type("2048x2048x", "?x?x", "i1", "1, 2") +
      "!q1 = " + type("2048x1x", "?x1x", "i64", "1, -1") + "!k1 = " + type("1x2048x", "1x?x", "i64", "-1, 2");
  text += "!n = tensor<" + dtype + ">\n!i = tensor<i64>\n";
  text +=
      "tsr_graph.trace \"attention\" values [0, 1, 2, 3, 4, 6, 7, 8, 9] strides [[], [], [], [], [], [], [], [], []]" +
      std::string(is_exact ? "" : " likely [4, 2048, 2048]") +
      "\n    (%v0: !q, %v1: !k, %v2: !k, %v3: !n, %v4: !n, %v6: !b, %v7: !m, %v8: !i, %v9: !i) {\n"
      "  %v5 = tsr_graph.matmul %v0, %v1 step 0 values [5] until [11] {transpose_b = true} : (!q, !k) -> !s\n";
  text += scores.steps;
  return text +
         "  %v21 = tsr_graph.softmax %v20 step 12 values [21] until [13] {axis = -1 : i64} : (!s) -> !s\n"
         "  %v22 = tsr_graph.matmul %v21, %v2 step 13 values [22] until [end] : (!s, !k) -> !q\n}\n";
}

TEST(AttentionCorpus, IsOneKernelThatDoesNotSpill) {
  if (!HasNvrtc() || !HasAssembler()) GTEST_SKIP() << "no libnvrtc, or no libnvJitLink";
  for (const Scores& scores : kScores) {
    for (const char* dtype : {"bf16", "f16"}) {
      for (const int64_t depth : {32, 64, 80, 128}) {
        for (const bool is_exact : {false, true}) {
          // Each takes most of a second.
          if (depth != 128 && (is_exact || std::string_view(dtype) == "f16")) continue;
          SCOPED_TRACE(std::string(scores.name) + " " + dtype + " " + std::to_string(depth) +
                       (is_exact ? " exact" : ""));
          CompileSettings settings;
          settings.options.device = "sm_90a";
          settings.options.tier = is_exact ? 3 : 2;
          llvm::Expected<Compiled> compiled = Compile(Trace(scores, dtype, depth, is_exact), settings);
          ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
          ASSERT_EQ(compiled->report.size(), 1u);
          const KernelReport& kernel = compiled->report[0];
          EXPECT_EQ(kernel.threads, 384);
          EXPECT_TRUE(kernel.code.as_source);
          // A few addresses, before and after the tiles of a task.
          EXPECT_LE(kernel.code.spills, 16);
          EXPECT_LE(kernel.code.reloads, 16);
        }
      }
    }
  }
}

TEST(AttentionCorpus, OtherDevices) {
  for (const char* device : {"sm_80", "sm_90", "sm_100"}) {
    SCOPED_TRACE(device);
    CompileSettings settings;
    settings.options.device = device;
    settings.texts = {"sched"};
    llvm::Expected<Compiled> compiled = Compile(Trace(kScores[1], "bf16", 64, /*is_exact=*/true), settings);
    ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
    EXPECT_EQ(compiled->texts["sched"].find("form = \"attention\""), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera::compiler
