#include "tools/tessera/beside.h"

#include <unistd.h>

#include <climits>
#include <filesystem>

#include "runtime/options.h"

namespace tessera::tools {

namespace fs = std::filesystem;

std::string FindBeside(const std::string& name) {
  char self[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", self, sizeof self);
  if (size <= 0) return "";
  const fs::path folder = fs::path(std::string(self, static_cast<size_t>(size))).parent_path();
  for (const char* place : {".", "..", "tools", "../lib", TESSERA_TOOL_LIBDIR}) {
    const fs::path file = folder / place / name;
    std::error_code ignored;
    if (fs::exists(file, ignored)) return file.lexically_normal().string();
  }
  return "";
}

absl::Status FindCompiler() {
  if (!rt::options().compiler_library().empty()) return absl::OkStatus();
  const std::string file = FindBeside("libtessera_compiler.so");
  return file.empty() ? absl::OkStatus() : rt::options().Set("compiler_library", file);
}

}  // namespace tessera::tools
