// tests/lang/errors/NAME.tsr gives the messages of NAME.expected, word for word, among them the row NAME of the table
// (what comes after a dash tells files of one row apart). Every row is reached. UPDATE_EXPECTED=1 writes the texts
// anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "lang/session.h"

namespace tessera::lang {
namespace {

namespace fs = std::filesystem;

std::string ReadText(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<fs::path> Files() {
  std::vector<fs::path> files;
  for (const auto& e : fs::directory_iterator(fs::path(TESSERA_TEST_DIR) / "lang" / "errors"))
    if (e.path().extension() == ".tsr") files.push_back(e.path());
  std::sort(files.begin(), files.end());
  return files;
}

struct Outcome {
  std::string text;
  std::set<std::string> rows;
};

void Collect(const Diagnostic& d, std::set<std::string>* rows) {
  rows->insert(std::string(Info(d.id).name));
  for (const Diagnostic& note : d.notes) Collect(note, rows);
}

Outcome RunOne(const fs::path& path) {
  SessionImpl session;
  session.on_print = [](std::string_view) {};
  auto outcome = session.Evaluate(ReadText(path), path.filename().string(), path.parent_path().string());
  Outcome out;
  for (const Diagnostic& d : outcome.diagnostics) Collect(d, &out.rows);
  out.text = session.Render(outcome.diagnostics, false);
  // Where the tree lies is no part of a message.
  const std::string folder = path.parent_path().string() + "/";
  for (size_t at; (at = out.text.find(folder)) != std::string::npos;) out.text.erase(at, folder.size());
  return out;
}

// Files that others import.
bool IsHelper(const fs::path& path) { return path.stem() == "kind_of_file" || path.stem() == "cycle_of_two"; }

class Errors : public testing::TestWithParam<fs::path> {};

TEST_P(Errors, SayThis) {
  const fs::path path = GetParam();
  fs::path expected = path;
  expected.replace_extension(".expected");
  const Outcome got = RunOne(path);
  if (std::getenv("UPDATE_EXPECTED") != nullptr) std::ofstream(expected, std::ios::binary) << got.text;
  EXPECT_EQ(got.text, ReadText(expected));
  EXPECT_FALSE(got.text.empty());
  const std::string stem = path.stem().string();
  const std::string row = stem.substr(0, stem.find('-'));
  bool is_row = false;
  for (int i = 0; i < kNumDiags; ++i) is_row |= Info(static_cast<Diag>(i)).name == row;
  if (is_row) EXPECT_TRUE(got.rows.contains(row)) << got.text;
}

std::vector<fs::path> Cases() {
  std::vector<fs::path> files = Files();
  std::erase_if(files, IsHelper);
  return files;
}

std::string TestName(const testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Errors, testing::ValuesIn(Cases()), TestName);

// Rows that no text of a few lines can reach, with the test that does.
const std::set<std::string>& Elsewhere() {
  static const std::set<std::string> rows = {
      "source_too_large",       // LimitsTest.SourceSize
      "too_many_tokens",        // LimitsTest.Tokens
      "function_too_large",     // LimitsTest.Instructions
      "call_depth",             // LimitsTest.CallDepth
      "global_unusable",        // LowerTest.GlobalThatFunctionsCannotUse
      "unknown_member",         // LowerTest.MemberOfAFile
      "statement_in_function",  // LowerTest.StatementOfTheTopLevel
      "eval_interrupted",       // tools/repl
      "eval_import_depth",      // LimitsTest.Imports
      "eval_file",              // tools/cli
  };
  return rows;
}

TEST(ErrorsTest, EveryRowIsReached) {
  std::set<std::string> reached;
  for (const fs::path& path : Cases()) reached.merge(RunOne(path).rows);
  int count = 0;
  for (int i = 0; i < kNumDiags; ++i) {
    const std::string name(Info(static_cast<Diag>(i)).name);
    count += reached.contains(name);
    EXPECT_TRUE(reached.contains(name) || Elsewhere().contains(name)) << name << ": no file of tests/lang/errors";
    EXPECT_FALSE(reached.contains(name) && Elsewhere().contains(name)) << name << " is reached by a file";
  }
  EXPECT_GE(count, 80);
}

}  // namespace
}  // namespace tessera::lang
