// The one program of a bundle that links the compiler: every test, tool and example that would, called by its own name.
// The build writes bundle_programs.inc: TESTS("name", "/source.cc", ...) or PROGRAM("name", its main renamed).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

// A program has one of the two.
#define TESTS(name, ...)
#define PROGRAM(name, function)         \
  __attribute__((weak)) int function(); \
  __attribute__((weak)) int function(int argc, char** argv);
#include "bundle_programs.inc"
#undef TESTS
#undef PROGRAM

namespace {

struct Program {
  const char* name;
  std::vector<const char*> sources;  // of tests
  int (*plain)() = nullptr;
  int (*with_arguments)(int, char**) = nullptr;
};

std::vector<Program> Programs() {
  return {
#define TESTS(name, ...) Program{name, {__VA_ARGS__}},
#define PROGRAM(name, function) Program{name, {}, &function, &function},
#include "bundle_programs.inc"
  };
}

// All tests are registered in this process: those of other programs are added to what the filter leaves out.
int RunTests(const Program& program, int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string others;
  const testing::UnitTest& unit = *testing::UnitTest::GetInstance();
  for (int i = 0; i < unit.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *unit.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      const std::string_view file = test.file();
      bool own = false;
      for (const char* source : program.sources) own |= file.ends_with(source);
      if (!own) others += std::string(others.empty() ? "" : ":") + suite.name() + "." + test.name();
    }
  }
  std::string filter = testing::GTEST_FLAG(filter);
  if (!others.empty()) filter += (filter.find('-') == std::string::npos ? "-" : ":") + others;
  testing::GTEST_FLAG(filter) = filter;
  return RUN_ALL_TESTS();
}

}  // namespace

int main(int argc, char** argv) {
  const char* slash = std::strrchr(argv[0], '/');
  const std::string name = slash == nullptr ? argv[0] : slash + 1;
  for (const Program& program : Programs()) {
    if (name != program.name) continue;
    if (program.plain != nullptr) return program.plain();
    return program.with_arguments != nullptr ? program.with_arguments(argc, argv) : RunTests(program, argc, argv);
  }
  std::fprintf(stderr, "%s: call it by one of these names:", name.c_str());
  for (const Program& program : Programs()) std::fprintf(stderr, " %s", program.name);
  std::fprintf(stderr, "\n");
  return 2;
}
