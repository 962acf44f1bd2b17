// A folder of a test's own, gone with it.
#ifndef TESSERA_TESTS_UNIT_TEMP_FOLDER_H_
#define TESSERA_TESTS_UNIT_TEMP_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace tessera {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tessera_test_XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);  // puts letters in place of the X
    path_ = name;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tessera

#endif  // TESSERA_TESTS_UNIT_TEMP_FOLDER_H_
