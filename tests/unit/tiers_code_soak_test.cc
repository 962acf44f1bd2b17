// Code that comes and goes: thousands of compiles, loads and evictions, after which a process holds no more than after
// the first ones. TESSERA_SOAK=1 makes it 10,000 compiles; the figures are printed (ctest -V).
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "tests/unit/tiers_code_testing.h"
#include "tests/unit/usage.h"

namespace tessera {
namespace {

int64_t Compiles() {
  const char* soak = std::getenv("TESSERA_SOAK");
  return soak != nullptr && std::string_view(soak) == "1" ? 10'000 : 400;
}

/// A function that no other one is like: its numbers are its own, and so is the order of its ops.
std::string FunctionText(int64_t nth) {
  constexpr const char* kOps[] = {"tanh", "exp", "neg", "sigmoid", "abs", "relu"};
  std::string body = absl::StrCat("  %v0 = mul %x, ", 0.5 + 0.0001 * static_cast<double>(nth), "\n");
  int64_t rest = nth;
  for (int k = 0; k < 3; ++k, rest /= 6) absl::StrAppend(&body, "  %v", k + 1, " = ", kOps[rest % 6], " %v", k, "\n");
  const char* last = nth % 4 == 0 ? "  %y = softmax %v3\n" : "  %y = add %v3, %x\n";
  return absl::StrCat("func @f(%x: tensor<M x N x f32>) -> tensor<M x N x f32> {\n", body, last, "  return %y\n}\n");
}

TEST(TiersCodeSoak, CodeThatIsEvictedLeavesNothing) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  const int64_t compiles = Compiles();
  Settings settings = CodeAtOnce({3, true}, /*bitwise=*/false);
  // Some functions go with their module, the others' versions because there is room for few.
  settings["version_count"] = "12";
  const OptionScope scope(settings);
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  const Usage before = Usage::Now();
  constexpr size_t kHeld = 24;
  std::deque<Function> held;
  std::vector<Usage> samples;
  const int64_t made = MetricNow("codes_made"), failed = MetricNow("codes_failed"),
                dropped = MetricNow("versions_dropped");
  const int64_t at[] = {compiles / 10, compiles / 2, compiles};
  const Tensor x = Uniform({5, 40}, 1), other = Uniform({3, 24}, 2);
  for (int64_t nth = 0; samples.size() < std::size(at); ++nth) {
    Result<Function> f = Function::parse(FunctionText(nth));
    ASSERT_TRUE(f.ok()) << f.status().message();
    // Hot after five; every second one meets another shape, whose guards fail and for which there is code, too.
    for (int call = 0; call < 9; ++call) (*f)({call == 7 && nth % 2 == 0 ? other : x});
    held.push_back(*f);
    if (held.size() > kHeld) held.pop_front();
    if (const int64_t done = MetricNow("codes_made") - made; done >= at[samples.size()]) {
      samples.push_back(Usage::Now());
      std::printf("after %lld compiles: %s\n", static_cast<long long>(done), samples.back().ToString().c_str());
    }
    ASSERT_LE(nth, 4 * compiles) << "functions get no code";
  }
  EXPECT_EQ(MetricNow("codes_failed"), failed) << Runtime::explain();
  EXPECT_GT(MetricNow("versions_dropped") - dropped, compiles / 4);
  for (const Usage& late : {samples[1], samples[2]}) {
    EXPECT_LE(late.versions, 12);
    EXPECT_LE(late.bytes_in_use, samples[0].bytes_in_use + (64 << 10));
    EXPECT_LE(late.code_bytes, samples[0].code_bytes + (256 << 10));
    EXPECT_LE(late.mappings, samples[0].mappings + 32);
    EXPECT_LE(late.anchors, samples[0].anchors + 16);
    if (!kSanitized) EXPECT_LE(late.resident, samples[0].resident + (8 << 20));
  }
  held.clear();
  tiers::Manager::Get().Reset();
  const Usage end = Usage::Now();
  std::printf("without functions: %s\n", end.ToString().c_str());
  EXPECT_EQ(end.versions, 0);
  EXPECT_EQ(end.code_bytes, before.code_bytes) << "code of versions that are gone is still mapped";
}

}  // namespace
}  // namespace tessera
