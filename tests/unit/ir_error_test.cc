// Every tests/error/ir/NAME.gir must fail to parse with exactly the message in NAME.expected. UPDATE_EXPECTED=1 in the
// environment rewrites the messages.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/function.h"

namespace tessera::ir {
namespace {

namespace fs = std::filesystem;

std::string Read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(IrError, MessagesAreWordForWord) {
  const fs::path folder = fs::path(TESSERA_TEST_DIR) / "error" / "ir";
  const char* update = std::getenv("UPDATE_EXPECTED");
  int pairs = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".gir") continue;
    ++pairs;
    const std::string text = Read(entry.path());
    const auto module = Parse(text, entry.path().filename().string());
    ASSERT_FALSE(module.ok()) << entry.path() << " was accepted";
    const std::string message = std::string(module.status().message()) + "\n";
    fs::path expected = entry.path();
    expected.replace_extension(".expected");
    if (update != nullptr && update[0] == '1') {
      std::ofstream(expected, std::ios::binary) << message;
    } else {
      EXPECT_EQ(message, Read(expected)) << entry.path();
    }
  }
  EXPECT_GE(pairs, 45);
}

}  // namespace
}  // namespace tessera::ir
