// Runs the examples of docs/language.md: each ```tsr block in a session of its own, without an error; what it prints is
// the ```output block after it, where there is one.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "lang/session.h"

namespace tessera {
namespace {

TEST(DocsTest, ExamplesOfTheLanguagePage) {
  std::ifstream in(std::string(TESSERA_SOURCE_DIR) + "/docs/language.md");
  ASSERT_TRUE(in.good());
  struct Example {
    int line = 0;
    std::string text, output;
    bool has_output = false;
  };
  std::vector<Example> examples;
  std::string line, *into = nullptr;
  for (int number = 1; std::getline(in, line); ++number) {
    if (into != nullptr) {
      if (line == "```") {
        into = nullptr;
      } else {
        *into += line + "\n";
      }
    } else if (line == "```tsr") {
      examples.push_back({number, "", "", false});
      into = &examples.back().text;
    } else if (line == "```output") {
      ASSERT_FALSE(examples.empty());
      examples.back().has_output = true;
      into = &examples.back().output;
    }
  }
  EXPECT_GE(examples.size(), 5u);
  for (const Example& e : examples) {
    SCOPED_TRACE("line " + std::to_string(e.line));
    SessionImpl session;
    std::string printed;
    session.on_print = [&](std::string_view text) { printed += std::string(text) + "\n"; };
    const auto outcome = session.Evaluate(e.text, "language.md");
    EXPECT_TRUE(outcome.ok) << session.Render(outcome.diagnostics, false);
    EXPECT_FALSE(printed.empty());
    if (e.has_output) EXPECT_EQ(printed, e.output);
  }
}

}  // namespace
}  // namespace tessera
