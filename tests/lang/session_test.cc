// tessera::Session: what evaluations leave behind, what they say, and how they end.
#include "lang/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "deopt/ledger.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Value(Session& session, std::string_view text) {
  const Evaluation e = session.evaluate(text);
  return e.ok ? e.value : e.text();
}

TEST(SessionTest, NamesOutliveAnEvaluation) {
  Session s;
  EXPECT_TRUE(s.evaluate("x = 2\ny = ones(3) * x\n").ok);
  EXPECT_EQ(Value(s, "x + 1"), "3");
  EXPECT_EQ(Value(s, "y"), "[2., 2., 2.] f32[3]");
  EXPECT_THAT(s.names(), ElementsAre("x", "y"));
  EXPECT_THAT(s.tensor("y").value().to_vector<float>(), ElementsAre(2, 2, 2));
  EXPECT_EQ(s.number("x").value(), 2);
  EXPECT_THAT(s.tensor("x").status().message(), HasSubstr("x is an int, not a tensor"));
  EXPECT_EQ(s.tensor("z").status().code(), Code::not_found);
  EXPECT_THAT(s.number("y").status().message(), HasSubstr("not a number"));
}

TEST(SessionTest, WhatWasDoneBeforeAFailureStays) {
  Session s;
  const Evaluation e = s.evaluate("a = 1\nb = a / 0\nc = 3\n", "file.tsr");
  EXPECT_FALSE(e.ok);
  ASSERT_EQ(e.diagnostics.size(), 1u);
  EXPECT_EQ(e.diagnostics[0].name, "division_by_zero");
  EXPECT_EQ(e.diagnostics[0].file, "file.tsr");
  EXPECT_EQ(e.diagnostics[0].line, 2);
  EXPECT_THAT(e.text(), HasSubstr("file.tsr:2:"));
  EXPECT_THAT(s.names(), ElementsAre("a"));
}

TEST(SessionTest, TextThatDoesNotParseIsNotBegun) {
  Session s;
  const Evaluation e = s.evaluate("a = 1\nb = = 2\nc = )\n");
  EXPECT_FALSE(e.ok);
  EXPECT_EQ(e.diagnostics.size(), 2u);
  EXPECT_TRUE(s.names().empty());
}

TEST(SessionTest, TensorsComeInAndFunctionsGoOut) {
  Session s;
  s.set("data", Tensor::from({1.0f, 2.0f, 3.0f}));
  EXPECT_EQ(Value(s, "data.sum()"), "6. f32[]");
  ASSERT_TRUE(s.evaluate("def twice(x):\n    return x * 2\n").ok);
  Result<Function> f = s.function("twice", {Tensor::from({1.0f, 4.0f})});
  ASSERT_TRUE(f.ok()) << f.status().message();
  EXPECT_THAT(f->call({Tensor::from({5.0f, 6.0f, 7.0f})}).to_vector<float>(), ElementsAre(10, 12, 14));
  EXPECT_THAT(s.function("data", {}).status().message(), HasSubstr("not a function"));
  EXPECT_THAT(s.function("twice", {Tensor()}).status().message(), HasSubstr("empty"));
  EXPECT_FALSE(s.function("twice", {Tensor::scalar(1.0f), Tensor::scalar(1.0f)}).ok());
}

TEST(SessionTest, PrintGoesToTheSink) {
  Session s;
  std::vector<std::string> lines;
  s.on_print([&](std::string_view line) { lines.emplace_back(line); });
  s.evaluate("print(1, 2.5, \"a\")\nprint()\nprint((1,), [2], None, True)\n");
  EXPECT_THAT(lines, ElementsAre("1 2.5 a", "", "(1,) [2] None True"));
}

TEST(SessionTest, HostNumbersAreThoseOfPython) {
  Session s;
  EXPECT_EQ(Value(s, "(7 // 2, -7 // 2, -7 % 3, 7 / 2, 2 ** 10, 2 ** -1, 1e-5, 1e22, 0.1, True + 1)"),
            "(3, -4, 2, 3.5, 1024, 0.5, 1e-05, 1e+22, 0.1, 2)");
  EXPECT_EQ(Value(s, "1 < 2 < 3 and not 0 or None"), "True");
  EXPECT_EQ(Value(s, "(1, 2) + (3,)"), "(1, 2, 3)");
  EXPECT_EQ(Value(s, "'a' + \"b\""), "\"ab\"");
  EXPECT_THAT(Value(s, "9223372036854775807 + 1"), HasSubstr("64 bits"));
}

TEST(SessionTest, LoopsGoThroughRangesTuplesAndTensors) {
  Session s;
  EXPECT_TRUE(s.evaluate("t = 0\n"
                         "for i in range(10, 0, -3):\n    t += i\n"
                         "for a, b in ((1, 2), (3, 4)):\n    t += a * b\n"
                         "for row in ones(2, 3):\n    t += int(row.sum())\n"
                         "while True:\n    t += 1\n    if t > 100:\n        break\n    continue\n")
                  .ok);
  EXPECT_EQ(Value(s, "t"), "101");
  EXPECT_GE(s.iterations(), 4 + 2 + 2);
  EXPECT_EQ(Value(s, "for i in 5:\n    pass\n").find("<text>:1:10: error: "), 0u);
}

TEST(SessionTest, AssigningToAPartLeavesOthersAlone) {
  Session s;
  EXPECT_TRUE(s.evaluate("x = zeros(2, 3)\ny = x\nx[0, 1:] = 5\nx[1] = ones(3)\nx[0, 0] += 2\n").ok);
  EXPECT_THAT(s.tensor("x").value().to_vector<float>(), ElementsAre(2, 5, 5, 1, 1, 1));
  EXPECT_THAT(s.tensor("y").value().to_vector<float>(), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(Value(s, "(1, 2)[0] = 3"), HasSubstr("error: "));
}

TEST(SessionTest, MasksTakeWhatTheySay) {
  Session s;
  ASSERT_TRUE(s.evaluate("x = arange(6.0).reshape(3, 2)").ok);
  EXPECT_EQ(Value(s, "x[x > 2]"), "[3., 4., 5.] f32[3]");
  EXPECT_EQ(Value(s, "x[x.sum(axis=1) > 4]"), "[[2., 3.],\n [4., 5.]]\nf32[2,2]");
  EXPECT_EQ(Value(s, "x.T[x.T < 3]"), "[0., 2., 1.] f32[3]") << "in the order of the rows of the mask";
  EXPECT_EQ(Value(s, "x[x > 9].shape"), "(0,)");
}

TEST(SessionTest, ARedefinedFunctionIsTheNewOneEverywhere) {
  Session s;
  ASSERT_TRUE(s.evaluate("def f(x):\n    return x + 1\ndef g(x):\n    return f(x) * 10\nx = zeros(1)\n").ok);
  EXPECT_EQ(Value(s, "g(x)"), "[10.] f32[1]");
  ASSERT_TRUE(s.evaluate("def f(x):\n    return x + 2\n").ok);
  EXPECT_EQ(Value(s, "f(x)"), "[2.] f32[1]");
  EXPECT_EQ(Value(s, "g(x)"), "[20.] f32[1]");
}

TEST(SessionTest, GlobalsOfAFunctionAreReadWhenItIsCalled) {
  Session s;
  ASSERT_TRUE(s.evaluate("w = ones(2)\nk = 3\ndef f(x):\n    return x * w + k\n").ok);
  EXPECT_EQ(Value(s, "f(ones(2))"), "[4., 4.] f32[2]");
  ASSERT_TRUE(s.evaluate("w = ones(2) * 5\nk = 1\n").ok);
  EXPECT_EQ(Value(s, "f(ones(2))"), "[6., 6.] f32[2]");
}

// The tiers see a loop of the top level as they see one of C++: it is recorded, and its ops wait for a version.
TEST(SessionTest, LoopsOfTheTopLevelGetHot) {
  const auto runs = [] {
    int64_t n = 0;
    for (const deopt::VersionRecord& v : deopt::Ledger::Get().versions())
      if (v.trace.find("hot_loop.tsr:4") != std::string::npos) n += v.counters->runs.load();
    return n;
  };
  if (Runtime::option("tier").value() == "1") GTEST_SKIP() << "the option tier is 1";
  Session s;
  // Versions are built by threads of low priority: on a busy machine a program may be over before they had a turn.
  const auto start = std::chrono::steady_clock::now();
  do {
    const Evaluation e = s.evaluate(
        "x = ones(64)\nfor i in range(20000):\n    # the place of the loop's first op is line 4\n    x = x * 0.5 + "
        "tanh(x)\n",
        "hot_loop.tsr");
    ASSERT_TRUE(e.ok) << e.text();
    Runtime::wait_for_builds();
  } while (runs() == 0 && std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
  EXPECT_GT(runs(), 0);
  // The same values as one op after another.
  ASSERT_TRUE(Runtime::set_option("tier", "1").ok());
  Session plain;
  plain.evaluate("x = ones(64)\nfor i in range(20000):\n    x = x * 0.5 + tanh(x)\n");
  EXPECT_EQ(s.tensor("x").value().to_vector<float>(), plain.tensor("x").value().to_vector<float>());
  ASSERT_TRUE(Runtime::set_option("tier", "3").ok());
}

int64_t VersionsMade() {
  for (const MetricValue& m : Runtime::metrics())
    if (m.name == "versions_made") return m.value;
  return 0;
}

// From another thread, as a signal handler would; with `version`, when there is one that was made meanwhile.
void Interrupted(const std::string& text, bool version = false) {
  const int64_t before = VersionsMade();
  Session s;
  ASSERT_TRUE(s.evaluate("kept = 1\n").ok);
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (version && VersionsMade() == before && !done.load())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (version) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    // Until it stops: a request that comes before the evaluation begins is forgotten.
    while (!done.load()) {
      Session::interrupt();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  const Evaluation e = s.evaluate(text);
  done = true;
  other.join();
  EXPECT_FALSE(e.ok);
  EXPECT_TRUE(e.interrupted) << e.text();
  EXPECT_EQ(Value(s, "kept"), "1");
}
TEST(SessionTest, InterruptsALoopOfTheTopLevel) { Interrupted("while True:\n    pass\n"); }
TEST(SessionTest, InterruptsALoopOfAFunction) {
  Interrupted("def f(x):\n    while x.sum() > 0.0:\n        x = x * 1.0\n    return x\nf(ones(4))\n");
}
TEST(SessionTest, InterruptsALoopThatRunsInAVersion) {
  if (Runtime::option("tier").value() == "1") GTEST_SKIP() << "the option tier is 1";
  Interrupted(
      "def f(x, n: int):\n    for i in range(n):\n        x = x * 1.0 + 0.0\n    return x\nf(ones(4), 1000000000000)\n",
      true);
}

TEST(SessionTest, SourceThatIsTooLargeIsRefused) {
  Session s;
  const Evaluation e = s.evaluate(std::string(lang::kMaxSourceBytes + 1, ' '));
  EXPECT_FALSE(e.ok);
  EXPECT_THAT(e.text(), HasSubstr("has 67108865 bytes"));
  EXPECT_TRUE(s.evaluate("x = 1\n").ok);
}

TEST(SessionTest, IndentationThatStandsUnderNothing) {
  Session s;
  EXPECT_THAT(Value(s, "if True:\n        x = 1\n    y\n z\nw = 1\n"), HasSubstr("<text>:3:1: error: "));
  EXPECT_THAT(Value(s, "def f():\n        return 1\n    return\n\n g()\n"), HasSubstr("<text>:3:1: error: "));
}

// Whatever a program does to its values, memory and the stack are bounded.
TEST(SessionTest, ValuesAreBounded) {
  Session s;
  EXPECT_THAT(Value(s, "x = 'a'\nfor i in range(40):\n    x = x + x\n"), HasSubstr("more than 65536 items"));
  EXPECT_THAT(Value(s, "x = (1,)\nfor i in range(40):\n    x = x + x\n"), HasSubstr("more than 65536 items"));
  EXPECT_THAT(Value(s, "x = ()\nfor i in range(1000000):\n    x = (x,)\n"), HasSubstr("nested more than 200 deep"));
  EXPECT_THAT(Value(s, "x = []\nfor i in range(1000000):\n    x = [x, x]\n"), HasSubstr("more than 1048576 items"));
  EXPECT_THAT(Value(s, "def f(x):\n    return (x,)\nx = ()\nfor i in range(1000):\n    x = f(x)\n"),
              HasSubstr("error: "));
  EXPECT_THAT(Value(s, "zeros(10 ** 12, 10 ** 3)"), HasSubstr("error: "));
}

TEST(SessionTest, FilesAndImports) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "tessera_session";
  fs::create_directories(folder / "lib");
  const auto write = [&](const char* name, const char* text) { std::ofstream(folder / name) << text; };
  write("lib/nn.tsr", "count = 0\ndef relu6(x):\n    return clip(x, 0, 6)\n");
  write("main.tsr",
        "import lib.nn\nfrom lib.nn import relu6 as r\nprint(r(array([-1.0, 9.0])))\ny = nn.relu6(ones(1))\n");
  Session s;
  std::vector<std::string> lines;
  s.on_print([&](std::string_view line) { lines.emplace_back(line); });
  const Evaluation e = s.run_file((folder / "main.tsr").string());
  EXPECT_TRUE(e.ok) << e.text();
  EXPECT_THAT(lines, ElementsAre("[0., 6.] f32[2]"));
  EXPECT_FALSE(s.run_file((folder / "none.tsr").string()).ok);
  EXPECT_TRUE(s.check_file((folder / "main.tsr").string()).ok);
  write("typed.tsr", "def f(x: Tensor[\"N\", f32]) -> Tensor[\"N\", f32]:\n    return x.sum()\n");
  EXPECT_THAT(Session().check_file((folder / "typed.tsr").string()).text(), HasSubstr("typed.tsr:2:"));
  // Nothing of a checked file is run.
  write("effect.tsr", "print(1)\nx = 1 / 0\n");
  lines.clear();
  EXPECT_TRUE(s.check_file((folder / "effect.tsr").string()).ok);
  EXPECT_TRUE(lines.empty());
  fs::remove_all(folder);
}

TEST(SessionTest, FormatsAndAsksForMore) {
  EXPECT_EQ(Session::format("x=1\n").value(), "x = 1\n");
  EXPECT_THAT(Session::format("x = = 1\n").status().message(), HasSubstr("<text>:1:5"));
  EXPECT_TRUE(Session::needs_more_lines("for i in range(3):\n"));
  EXPECT_TRUE(Session::needs_more_lines("for i in range(3):\n    if i:\n"));
  EXPECT_TRUE(Session::needs_more_lines("f(1,\n"));
  EXPECT_FALSE(Session::needs_more_lines("for i in range(3):\n    i\n\n"));
  EXPECT_FALSE(Session::needs_more_lines("1 + 1\n"));
}

}  // namespace
}  // namespace tessera
