// Whatever its size, a text gives an answer: limits with clear errors in place of a crash, a hang or no memory.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lang/lexer.h"
#include "lang/printer.h"
#include "lang/session.h"
#include "lang/text.h"
#include "tests/lang/harness.h"

namespace tessera::lang {
namespace {

std::string Repeat(std::string_view text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

TEST(LimitsTest, SourceSize) {
  FrontEnd fe;
  fe.Run("big", std::string(kMaxSourceBytes + 1, '\n'));
  ASSERT_EQ(fe.diagnostics().errors(), 1);
  EXPECT_EQ(fe.diagnostics().all()[0].id, Diag::source_too_large);
}

TEST(LimitsTest, Tokens) {
  SourceMap sources;
  Diagnostics diagnostics;
  const SourceFile* file = sources.Add("many", Repeat("1 ", static_cast<int>(kMaxTokens) + 10));
  const Tokens tokens = Lex(*file, diagnostics);
  EXPECT_LE(tokens.tokens.size(), kMaxTokens + 300);
  ASSERT_EQ(diagnostics.errors(), 1);
  EXPECT_EQ(diagnostics.all()[0].id, Diag::too_many_tokens);
}

// Deep or long in each way that the grammar allows.
TEST(LimitsTest, Nesting) {
  const int n = 100000;
  std::string blocks, ifs;
  for (int i = 0; i < 300; ++i) blocks += std::string(static_cast<size_t>(i), ' ') + "if a:\n";
  for (int i = 0; i < 2000; ++i) ifs += "elif a:\n    pass\n";
  for (const std::string& text : {
           "x = " + Repeat("(", n) + "1" + Repeat(")", n) + "\n",
           "x = " + Repeat("[", n) + "\n",
           "x = " + Repeat("-", n) + "1\n",
           "x = " + Repeat("not ", n) + "1\n",
           "x = " + Repeat("2 ** ", n) + "1\n",
           "x = " + Repeat("1 + ", n) + "1\n",
           "x = " + Repeat("1 < ", n) + "1\n",
           "x = a" + Repeat(".b", n) + "\n",
           "x = a" + Repeat("[0]", n) + "\n",
           "x = a" + Repeat("()", n) + "\n",
           "x = " + Repeat("1 if a else ", n) + "1\n",
           "x = " + Repeat("f(", n) + "\n",
           "x = " + Repeat("{1: ", n) + "\n",
           "x = " + Repeat("1, ", n) + "\n",
           Repeat("x = ", n) + "1\n",
           Repeat("@f\n", n) + "def f(): pass\n",
           "def f(" + Repeat("a, ", n) + "): pass\n",
           "if a:\n    pass\n" + ifs,
           blocks,
           Repeat("import a.", n) + "\n",
           "import " + Repeat("a.", n) + "b\n",
           "x = '" + Repeat("\\n", n) + "'\n",
           Repeat("\"\"\"", n),
           Repeat("\t", n) + "x",
           Repeat("\\\n", n),
       }) {
    SCOPED_TRACE(text.substr(0, 40));
    SourceMap sources;
    Ast ast;
    Diagnostics diagnostics;
    const Parsed parsed = Parse(*sources.Add("t", text), ast, diagnostics);
    if (diagnostics.ok()) Format(*parsed.program, ast);
    EXPECT_LE(diagnostics.errors(), Diagnostics::kMaxErrors + 1);
    EXPECT_LT(Render(sources, diagnostics.all()).size(), 200000u);
  }
}

TEST(LimitsTest, HighExpressionsInFunctions) {
  FrontEnd fe;
  std::string nested = "x";
  for (int i = 0; i < 190; ++i) nested = "relu(" + nested + ")";
  fe.Run("t", "def f(x):\n    return " + Repeat("x + ", 990) + "x\ndef g(x):\n    return " + nested + "\n");
  EXPECT_NE(fe.Call("f(f32[4])"), nullptr) << fe.Rendered();
  EXPECT_NE(fe.Call("g(f32[4])"), nullptr) << fe.Rendered();
}

TEST(LimitsTest, NestedBlocksInFunctions) {
  FrontEnd fe;
  std::string deep = "def f(x):\n";
  for (int i = 1; i < 198; ++i) deep += std::string(static_cast<size_t>(i), ' ') + "if x.sum() > 0:\n";
  deep += std::string(198, ' ') + "x = x + 1\n return x\n";
  // A row of early returns nests, too.
  std::string row = "def g(x):\n";
  for (int i = 0; i < 1000; ++i) row += Cat("    if x.sum() > ", i, ":\n        return x\n");
  fe.Run("t", deep + row + "    return -x\n");
  fe.Call("f(f32[4])");
  fe.Call("g(f32[4])");
  EXPECT_NE(fe.Rendered().find("nested more than"), std::string::npos);
}

TEST(LimitsTest, CallDepth) {
  FrontEnd fe;
  std::string text = "def f0(x):\n    return x\n";
  for (int i = 1; i < 300; ++i) text += Cat("def f", i, "(x):\n    return f", i - 1, "(x) + 1\n");
  fe.Run("t", text);
  EXPECT_NE(fe.Call("f50(f32[4])"), nullptr) << fe.Rendered();
  EXPECT_EQ(fe.Call("f299(f32[4])"), nullptr);
  EXPECT_EQ(fe.diagnostics().all().back().id, Diag::call_depth);
}

// Loops that are written out multiply.
TEST(LimitsTest, Instructions) {
  FrontEnd fe;
  std::string text = "def many(x, parts):\n    for i in range(4000):\n        y = parts[i % 2]\n";
  for (int i = 0; i < 300; ++i) text += "        x = x + y\n";
  text += "    return x\n";
  // Nothing is emitted, and it would take years.
  text +=
      "def idle(parts):\n    for i in range(4000):\n        for j in range(4000):\n            for k in range(4000):\n"
      "                y = parts[(i + j + k) % 2]\n    return y\n";
  fe.Run("t", text);
  EXPECT_EQ(fe.Call("many(f32[4], (1, 2))"), nullptr);
  EXPECT_EQ(fe.diagnostics().all().back().id, Diag::function_too_large) << fe.Rendered();
  fe.diagnostics().Clear();
  EXPECT_EQ(fe.Call("idle((1, 2))"), nullptr);
  EXPECT_EQ(fe.diagnostics().all().back().id, Diag::function_too_large) << fe.Rendered();
}

// Tuples that hold themselves twice, or once, and strings: a few lines would be gigabytes.
TEST(LimitsTest, ValuesThatGrow) {
  FrontEnd fe;
  fe.Run("t", R"(def wide(ws):
    t = (1, 2)
    for w in ws:
        t = (t, t)
    return 1

def deep(ws):
    t = ()
    for w in ws:
        t = (t,)
    return 1

def text(ws):
    t = "ab"
    for w in ws:
        t = t + t
    return 1
)");
  std::string many = "(0,";
  for (int i = 0; i < 300; ++i) many += "0,";
  for (const char* f : {"wide", "deep", "text"}) {
    fe.diagnostics().Clear();
    EXPECT_EQ(fe.Call(std::string(f) + "(" + many + "))"), nullptr) << f;
    EXPECT_EQ(fe.diagnostics().errors(), 1) << fe.Rendered();
  }
}

TEST(LimitsTest, Imports) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "tessera_import_chain";
  fs::create_directories(folder);
  constexpr int kFiles = 400;
  for (int i = 0; i < kFiles; ++i)
    std::ofstream(folder / Cat("f", i, ".tsr"))
        << (i + 1 < kFiles ? Cat("import f", i + 1, "\n") : std::string("x = 1\n"));
  SessionImpl session;
  const auto outcome = session.RunFile((folder / "f0.tsr").string());
  fs::remove_all(folder);
  EXPECT_FALSE(outcome.ok);
  ASSERT_FALSE(outcome.diagnostics.empty());
  EXPECT_EQ(outcome.diagnostics[0].id, Diag::eval_import_depth);
}

}  // namespace
}  // namespace tessera::lang
