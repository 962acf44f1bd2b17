// Whatever the text: parsing ends with a module or an error, and a module survives print, parse, print unchanged.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ir/function.h"

namespace {

[[noreturn]] void Die(const char* what, const std::string& text) {
  std::fprintf(stderr, "%s\n%s\n", what, text.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace ir = tessera::ir;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto module = ir::Parse(text, "fuzz.gir");
  if (!module.ok()) return 0;
  if (absl::Status s = ir::Verify(**module); !s.ok()) Die("parsed, but does not verify", s.ToString());
  const std::string printed = ir::Print(**module);
  auto again = ir::Parse(printed, "fuzz.gir");
  if (!again.ok()) Die(again.status().ToString().c_str(), printed);
  const std::string reprinted = ir::Print(**again);
  if (printed != reprinted) Die("printed differently the second time", printed + "\n----\n" + reprinted);
  return 0;
}
