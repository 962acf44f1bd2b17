// The parser and the formatter: what is formatted reads back to the same tree, and every .tsr of the tree is formatted.
#include "lang/parser.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "lang/printer.h"

namespace tessera::lang {
namespace {

namespace fs = std::filesystem;

struct Text {
  SourceMap sources;
  Ast ast;
  Diagnostics diagnostics;
  Parsed parsed;
  explicit Text(const std::string& text) { parsed = Parse(*sources.Add("t", text), ast, diagnostics); }
  std::string Formatted() { return Format(*parsed.program, ast); }
  std::string Dumped() { return Dump(*parsed.program, ast); }
  std::string Errors() { return Render(sources, diagnostics.all()); }
};

void ExpectRoundTrip(const std::string& source) {
  Text one(source);
  ASSERT_TRUE(one.diagnostics.ok()) << one.Errors();
  const std::string formatted = one.Formatted();
  Text two(formatted);
  ASSERT_TRUE(two.diagnostics.ok()) << formatted << two.Errors();
  EXPECT_EQ(one.Dumped(), two.Dumped()) << formatted;
  EXPECT_EQ(two.Formatted(), formatted) << "formatting twice changes something";
}

std::string FormatText(const std::string& source) {
  Text t(source);
  EXPECT_TRUE(t.diagnostics.ok()) << t.Errors();
  return t.Formatted();
}

TEST(FormatTest, Expressions) {
  for (const char* e : {
           "1 + 2 * 3",
           "(1 + 2) * 3",
           "1 - (2 - 3)",
           "-x ** 2",
           "(-x) ** 2",
           "2 ** -1",
           "2 ** 3 ** 4",
           "(2 ** 3) ** 4",
           "not a and b or c",
           "not (a and b)",
           "a < b < c",
           "(a < b) < c",
           "a if b else c if d else e",
           "(a if b else c) if d else e",
           "x[1:2, ::3, ..., None]",
           "x[:]",
           "x[a,]",
           "x[(a, b)]",
           "f(a, b=c)(d)",
           "a.b.c[0].d()",
           "(1,)",
           "()",
           "[1, [2, 3], (4,)]",
           "{\"a\": 1, \"b\": [2]}",
           "1.5e-3 + 0x1f + 1_000",
           "\"a\\n\\\"b\\\"\" 'c'",
           "a @ b // c % d << e & f | g ^ ~h",
           "(a, b)",
           "(1).real",
           "x is not None",
           "1. + .5",
           "((((x))))",
           "-(-x)",
           "(not x) + 1",
           "(a, b) + (c,)",
           "'\\x01\\t'",
       }) {
    ExpectRoundTrip(std::string("y = ") + e + "\n");
  }
}

TEST(FormatTest, Statements) {
  for (const char* s : {
           "a, b = b, a\n",
           "a = b = 1\n",
           "x[0] += 1\n",
           "(a, (b, c)) = d\n",
           "t = 1,\n",
           "import a.b\n",
           "import a.b as c\n",
           "import \"some file.tsr\" as d\n",
           "from .a import b, c as d\n",
           "from ..up.a import b\n",
           "if a: b\nelif c: d\nelse: e\n",
           "while a:\n  if b:\n     break\n  continue\n",
           "for i, j in f(x): pass\n",
           "for (i, j) in y:\n    pass\n",
           "def f(): return\n",
           "@a\n@b.c(d=1)\ndef f(x: int, y: Tensor[\"B\", 3, f32] = 1, z=2) -> Tensor[..., f32]:\n  return x, y\n",
           "assert a, \"b\"\n",
           "a; b; c\n",
           "x = (1 +\n     2)\n",
           "x = 1 \\\n  + 2\n",
           "def f(x):\n\ty: int = 3\n\treturn y\n",
           "",
           "\n\n",
           "# only a comment",
           "pass  # c\n",
       }) {
    ExpectRoundTrip(s);
  }
}

TEST(FormatTest, Layout) {
  EXPECT_EQ(FormatText("x=1\n\n\n\ny  =  f( a,b = 2 )\ndef g(x) : return x\nz=3"),
            "x = 1\n\ny = f(a, b=2)\n\ndef g(x):\n    return x\n\nz = 3\n");
}

TEST(FormatTest, CommentsStay) {
  const std::string text =
      "# top\n\nx = 1  # one\n# before f\ndef f(x):  # head\n    # first\n    if x:  # if\n        y = 1\n        # in "
      "if\n"
      "    # after if\n    return x  # end\n    # last\n# bottom\n";
  const std::string formatted = FormatText(text);
  for (const char* c : {"# top", "# one", "# before f", "# head", "# first", "# if", "# in if", "# after if", "# end",
                        "# last", "# bottom"})
    EXPECT_NE(formatted.find(c), std::string::npos) << c << "\n" << formatted;
  EXPECT_EQ(FormatText(formatted), formatted);
  // A comment goes to no block but the one it follows.
  ExpectRoundTrip("def f():\n    return 1\n\ndef g():\n    x = 1\n    # inside g\n    return x\n");
  EXPECT_EQ(FormatText("if a:\n    b = 1\nc = 2\n    # deep\nd = 3\n"), "if a:\n    b = 1\nc = 2\n# deep\nd = 3\n");
  EXPECT_NE(FormatText("x = [1,  # a\n     2]\n").find("# a"), std::string::npos);
}

TEST(FormatTest, LongLinesAreBroken) {
  std::string call = "result = some_function(";
  for (int i = 0; i < 20; ++i) call += (i ? ", argument_" : "argument_") + std::to_string(i);
  const std::string formatted = FormatText(call + ")\n");
  std::stringstream lines(formatted);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), static_cast<size_t>(kMaxColumns));
  ExpectRoundTrip(call + ")\n");
}

// Every program of the tree, but for those whose layout is what they are about.
TEST(FormatTest, TheTreeIsFormatted) {
  int count = 0;
  for (const char* folder : {"examples", "tests/filetests", "docs", "bench"}) {
    for (const auto& e : fs::recursive_directory_iterator(fs::path(TESSERA_SOURCE_DIR) / folder)) {
      if (e.path().extension() != ".tsr") continue;
      std::ifstream in(e.path());
      std::stringstream text;
      text << in.rdbuf();
      EXPECT_EQ(FormatText(text.str()), text.str()) << e.path() << ": tessera fmt writes it so";
      ExpectRoundTrip(text.str());
      ++count;
    }
  }
  EXPECT_GT(count, 0);
}

TEST(ParserTest, Incomplete) {
  for (const char* text :
       {"f(", "x = [1,", "if x:", "def f(x):\n", "\"\"\"abc", "x = 1 \\", "@function\n", "if a:\n  b\nelse:"})
    EXPECT_TRUE(Text(text).parsed.incomplete) << text;
  for (const char* text : {"f(1)", "x = ]", "if x: y", "x = 'abc", ""})
    EXPECT_FALSE(Text(text).parsed.incomplete) << text;
  EXPECT_TRUE(NeedsMoreLines("if x:\n    y = 1\n"));
  EXPECT_FALSE(NeedsMoreLines("if x:\n    y = 1\n\n"));
  EXPECT_FALSE(NeedsMoreLines("x = 1\n"));
  EXPECT_TRUE(NeedsMoreLines("x = (1,\n"));
}

TEST(ParserTest, PlacesAreThoseOfTheText) {
  Text t("total = alpha + beta(1)\n");
  const auto& s = As<AssignStmt>(*t.parsed.program->body[0]);
  EXPECT_EQ(t.sources.TextOf(s.value->span), "alpha + beta(1)");
  EXPECT_EQ(t.sources.TextOf(As<BinaryExpr>(*s.value).op_span), "+");
  EXPECT_EQ(t.sources.TextOf(s.span), "total = alpha + beta(1)");
  const Position at = t.sources.PositionOf(As<BinaryExpr>(*s.value).right->span.begin);
  EXPECT_EQ(at.line, 1);
  EXPECT_EQ(at.column, 17);
}

TEST(ParserTest, LineEndsAndMarks) {
  Text t("\xef\xbb\xbfif a:\r\n    b = 1\r\nc = 2\r\n");
  EXPECT_TRUE(t.diagnostics.ok()) << t.Errors();
  EXPECT_EQ(t.parsed.program->body.size(), 2u);
}

}  // namespace
}  // namespace tessera::lang
