// Function::inspect_ir: the text of every stage of a version, and what is said where there is none.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "tests/unit/tiers_testing.h"
#include "tiers/compiler_library.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kRows[] = R"(
  func @rows(%x: tensor<M x N x f32>, %w: tensor<N x f32>) -> tensor<M x N x f32> {
    %a = mul %x, %w
    %y = softmax %a {axis = -1}
    return %y
  })";

constexpr char kLoop[] = R"(
  func @power(%x: tensor<N x f32>, %n: tensor<i64>) -> tensor<N x f32> {
    %y = for %i in (0, %n) (%a = %x) -> (tensor<N x f32>) {
      %b = mul %a, %x
      %c = tanh %b
      yield %c
    }
    return %y
  })";

std::map<std::string, std::string> WithCode(const std::string& tier) {
  std::map<std::string, std::string> options = HotAtOnce();
  options["tier"] = tier;
  options["compile_after"] = options["specialise_after"] = "0";
  return options;
}

Function HotRows() {
  Function f = *Function::parse(kRows);
  const Tensor x = ones({4, 16}), w = ones({16});
  for (int i = 0; i < 20; ++i) f.call({x, w});
  Runtime::wait_for_builds();
  return f;
}

bool NoCompiler() { return !tiers::Compiler().ok(); }

TEST(TiersInspect, AnUnknownStageIsRefusedWithTheKnownOnes) {
  const Function f = *Function::parse(kRows);
  const Result<std::string> text = f.inspect_ir("tiles");
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().code(), Code::invalid_argument);
  EXPECT_EQ(text.status().message(),
            "inspect_ir: there is no stage \"tiles\"; stages are graph, sched, tile, target, llvm, asm and cuda, and "
            "there is report");
}

TEST(TiersInspect, AFunctionThatIsNotHotHasNoVersion) {
  const Function f = *Function::parse(kRows);
  const Result<std::string> text = f.inspect_ir("graph");
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().code(), Code::not_found);
  EXPECT_EQ(text.status().message(),
            "inspect_ir: @rows has no version yet, or none any more; Runtime::explain() lists versions");
  const OptionScope scope({{"tier", "1"}});
  EXPECT_EQ(f.inspect_ir("graph").status().message(), "inspect_ir: @rows has no version: the option tier is 1");
}

TEST(TiersInspect, WithoutACompilerThatIsSaid) {
  if (!NoCompiler()) GTEST_SKIP() << "there is a compiler";
  const OptionScope scope(WithCode("3"));
  const Result<std::string> text = HotRows().inspect_ir("graph");
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().code(), Code::not_found);
  EXPECT_THAT(text.status().message(), HasSubstr("inspect_ir: "));
  EXPECT_THAT(text.status().message(), HasSubstr("compiler"));
}

TEST(TiersInspect, EveryStageOfAVersion) {
  if (NoCompiler()) GTEST_SKIP() << "no compiler";
  const OptionScope scope(WithCode("3"));
  const Function f = HotRows();
  EXPECT_THAT(*f.inspect_ir("graph"), HasSubstr("%v3 = tsr_graph.softmax %v2 step 1"));
  const std::string sched = *f.inspect_ir("sched");
  EXPECT_THAT(sched, HasSubstr("tsr_sched.kernel @k1 at 1 steps [0, 1]"));
  EXPECT_THAT(sched, HasSubstr("tsr_graph.reduce \"max\""));
  EXPECT_THAT(sched, Not(HasSubstr("softmax")));
  EXPECT_THAT(*f.inspect_ir("tile"), HasSubstr("tsr_tile.map \"exp_weight_f32\""));
  EXPECT_THAT(*f.inspect_ir("target"), HasSubstr("tsr_target.launch @k1 at 1"));
  EXPECT_THAT(*f.inspect_ir("llvm"), HasSubstr("@k1(ptr"));
  EXPECT_THAT(*f.inspect_ir("asm"), HasSubstr("k1:"));
}

TEST(TiersInspect, TierTwoReadsDimsAndTierThreeHasThemBuiltIn) {
  if (NoCompiler()) GTEST_SKIP() << "no compiler";
  {
    const OptionScope scope(WithCode("2"));
    EXPECT_THAT(*HotRows().inspect_ir("graph"), HasSubstr("tensor<?x?xf32, [0, 1]>"));
  }
  const OptionScope scope(WithCode("3"));
  EXPECT_THAT(*HotRows().inspect_ir("graph"), HasSubstr("tensor<4x16xf32>"));
}

TEST(TiersInspect, OpsNameTheirPlaceInTheProgram) {
  if (NoCompiler()) GTEST_SKIP() << "no compiler";
  const OptionScope scope(WithCode("3"));
  const Module module = *Module::parse(kRows, "model.gir");
  Function f = *module.function("rows");
  const Tensor x = ones({4, 16}), w = ones({16});
  for (int i = 0; i < 20; ++i) f.call({x, w});
  for (const char* stage : {"graph", "sched", "tile", "target"}) {
    const std::string text = *f.inspect_ir(stage);
    EXPECT_THAT(text, HasSubstr("loc(\"model.gir\":3:")) << stage;
    EXPECT_THAT(text, HasSubstr("loc(\"model.gir\":4:")) << stage;
    EXPECT_THAT(text, Not(HasSubstr("loc(\"trace\""))) << stage;
  }
  EXPECT_THAT(*f.inspect_ir("report"), HasSubstr("from        model.gir:3:"));
  EXPECT_THAT(*HotRows().inspect_ir("graph"), HasSubstr("loc(\"text\":3:")) << "a function without a file";
}

TEST(TiersInspect, AReportHasAllThatAKernelDoes) {
  if (NoCompiler()) GTEST_SKIP() << "no compiler";
  {
    const OptionScope scope(WithCode("2"));
    const std::string report = *HotRows().inspect_ir("report");
    EXPECT_THAT(report, HasSubstr("kernel k1 in place of steps 0, 1\n"));
    EXPECT_THAT(report, HasSubstr("reads       4*s0*s1 + 4*s1 bytes\n"));
    EXPECT_THAT(report, HasSubstr("writes      4*s0*s1 bytes\n"));
    EXPECT_THAT(report, HasSubstr("s0*s1 functions such as exp\n"));
    EXPECT_THAT(report, Not(HasSubstr("roofline  "))) << "the peaks are not known";
    EXPECT_THAT(report, HasSubstr("\nsymbol s0 is dim 0 of value "));
    EXPECT_THAT(report, HasSubstr("\nsymbol s1 is dim "));
  }
  std::map<std::string, std::string> options = WithCode("3");
  options["peak_gbps"] = "100";
  options["peak_gflops"] = "1";
  const OptionScope scope(options);
  const std::string report = *HotRows().inspect_ir("report");
  EXPECT_THAT(report, HasSubstr("reads       320 bytes\n"));
  EXPECT_THAT(report, HasSubstr("arithmetic is the bound"));
}

TEST(TiersInspect, ALoopIsShownToo) {
  if (NoCompiler()) GTEST_SKIP() << "no compiler";
  const OptionScope scope(WithCode("3"));
  const Function f = *Function::parse(kLoop);
  f.call({ones({16}), Tensor::scalar(int64_t{50})});
  Runtime::wait_for_builds();
  EXPECT_THAT(*f.inspect_ir("graph"), HasSubstr("tsr_graph.step \"for_next\""));
  EXPECT_THAT(*f.inspect_ir("sched"), HasSubstr("tsr_graph.tanh"));
}

TEST(TiersInspect, ACubinOfATraceForAGpu) {
  if (NoCompiler()) GTEST_SKIP() << "no compiler";
  std::ifstream file(std::string(TESSERA_TEST_DIR) + "/compiler/gpu_corpus.mlir");
  std::stringstream all;
  all << file.rdbuf();
  const std::string text = all.str().substr(0, all.str().find("// -----"));
  TesseraCompileRequest request = {text.data(), text.size(), 3, 1, 1, 0, 1, 1, "", 0, 0, "sm_90a"};
  const auto cubin = tiers::Inspect(**tiers::Compiler(), request, "cubin");
  if (cubin.ok()) {
    EXPECT_EQ(cubin->substr(0, 4),
              "\x7f"
              "ELF");
    EXPECT_THAT(*tiers::Inspect(**tiers::Compiler(), request, "asm"), HasSubstr(".target sm_90a"));
    EXPECT_THAT(*tiers::Inspect(**tiers::Compiler(), request, "cuda"), HasSubstr("__global__"));
  } else {
    EXPECT_THAT(std::string(cubin.status().message()), HasSubstr("libnvJitLink"));
  }
  request.target = "";
  const auto source = tiers::Inspect(**tiers::Compiler(), request, "cuda");
  ASSERT_FALSE(source.ok());
  EXPECT_THAT(std::string(source.status().message()), HasSubstr("CUDA C++ is for CUDA devices"));
  const auto host = tiers::Inspect(**tiers::Compiler(), request, "cubin");
  ASSERT_FALSE(host.ok());
  EXPECT_THAT(std::string(host.status().message()), HasSubstr("the code is for the host"));
}

TEST(TiersInspect, ProductsInTf32AreAskedFor) {
  if (NoCompiler()) GTEST_SKIP() << "no compiler";
  const std::string text = R"(
!t = tensor<512x512xf32>
tsr_graph.trace "function" values [0, 1] strides [[], []] (%v0: !t, %v1: !t) {
  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] {transpose_b = true} : (!t, !t) -> !t
  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (!t) -> !t
}
)";
  TesseraCompileRequest request = {text.data(), text.size(), 3, 1, 0, 0, 1, 1, "", 0, 0, "sm_90a"};
  EXPECT_THAT(*tiers::Inspect(**tiers::Compiler(), request, "tile"), Not(HasSubstr("tsr_tile.multiply")));
  request.tf32 = 1;
  EXPECT_THAT(*tiers::Inspect(**tiers::Compiler(), request, "tile"), HasSubstr(" : tf32, vector<"));
}

}  // namespace
}  // namespace tessera
