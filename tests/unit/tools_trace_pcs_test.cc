// Samples of program counters: a table for a place, and notes in the margin of SASS.
#include <gmock/gmock.h>

#include "tools/trace/pcs.h"
#include "trace_testing.h"

namespace tessera::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TraceData WithPcs() {
  TraceData data;
  data.versions.push_back({});
  data.versions[0].id = 3;
  data.versions[0].place = "train.cc:7";
  const std::string prefix = "smsp__pcsamp_warps_issue_stalled_";
  data.pcs = {{3, "k0", 0x10, {{prefix + "wait", 5}, {prefix + "long_scoreboard", 30}}},
              {3, "k0", 0x20, {{prefix + "barrier", 65}}},
              {3, "k1", 0x10, {{"odd name", 7}}},
              {9, "k0", 0x10, {{prefix + "wait", 1000}}}};
  return data;
}

TEST(ToolsTracePcs, TheTableHasWhatWasSeenMost) {
  const TraceData data = WithPcs();
  const Analysis a = Analyse(data);
  ASSERT_EQ(a.places.size(), 1u);
  const std::string text = PcsOfPlace(a, a.places[0], 1);
  EXPECT_THAT(text, HasSubstr("0x0020"));
  EXPECT_THAT(text, HasSubstr("65 %"));
  EXPECT_THAT(text, HasSubstr("barrier"));
  EXPECT_THAT(text, HasSubstr("odd name"));
  EXPECT_THAT(text, Not(HasSubstr("long_scoreboard"))) << "one row for each kernel";
  EXPECT_THAT(text, Not(HasSubstr("1000"))) << "another version's";
  EXPECT_THAT(PcsOfPlace(a, a.places[0], 5), HasSubstr("long_scoreboard"));
  EXPECT_EQ(PcsOfPlace(a, PlaceSummary{}, 5), "");
}

TEST(ToolsTracePcs, SassHasThemInItsMargin) {
  const TraceData data = WithPcs();
  const std::string sass =
      ".text.k0:\n        /*0000*/ MOV R1, c[0x0][0x28] ;\n        /*0010*/ LDG.E R2, [R4] ;\n"
      ".text.k2:\n        /*0010*/ EXIT ;\n// /*0020*/ a comment\n";
  const std::string text = WithSamples(sass, data, 3);
  EXPECT_THAT(text, HasSubstr("35 long_scoreboard                        /*0010*/ LDG.E"));
  EXPECT_THAT(text, Not(HasSubstr("65"))) << "no instruction of k0 is at 0x20 here";
  EXPECT_EQ(WithSamples(sass, data, 4), sass);
  EXPECT_EQ(WithSamples("", data, 3), "");
}

}  // namespace
}  // namespace tessera::tools
