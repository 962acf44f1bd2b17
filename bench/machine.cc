#include "bench/machine.h"

#include <sched.h>
#include <sys/utsname.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "bench/harness.h"

namespace bench {
namespace {

/// What follows `key` and `separator` on the first line of `file` that begins with key; empty if there is none.
template <class Stream>
std::string Field(Stream&& file, const std::string& key, char separator) {
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    at = line.find_first_not_of(" \t\"", at + 1);
    if (at == std::string::npos) continue;
    return line.substr(at, line.find_last_not_of(" \t\"\n") - at + 1);
  }
  return {};
}

/// lscpu knows names of arm64 processors, which /proc/cpuinfo gives as numbers.
std::string Processor() {
  std::string name = Field(std::ifstream("/proc/cpuinfo"), "model name", ':');
  if (!name.empty()) return name;
  if (FILE* pipe = popen("LC_ALL=C lscpu 2>/dev/null", "r")) {
    char line[512];
    while (std::fgets(line, sizeof line, pipe) != nullptr) {
      const std::string text = line;
      const size_t at = text.find(':');
      if (name.empty() && text.compare(0, 10, "Model name") == 0 && at != std::string::npos)
        name = text.substr(text.find_first_not_of(' ', at + 1));
    }
    pclose(pipe);
  }
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name.empty() ? "unknown" : name;
}

std::string InstructionSet() {
#if defined(__aarch64__)
  return "neon";
#elif defined(__x86_64__)
  const char* asked = std::getenv("TESSERA_ISA");
  if (asked != nullptr && *asked != '\0') return asked;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) return "avx512";
  return __builtin_cpu_supports("avx2") ? "avx2" : "base";
#else
  return "base";
#endif
}

std::string System() {
  utsname names{};
  uname(&names);
  const std::string distribution = Field(std::ifstream("/etc/os-release"), "PRETTY_NAME", '=');
  return std::string(names.sysname) + " " + names.release + " " + names.machine +
         (distribution.empty() ? "" : ", " + distribution);
}

std::string Compiler() {
#if defined(__clang__)
  return std::string("clang ") + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__) + "." +
         std::to_string(__clang_patchlevel__);
#else
  return std::string("gcc ") + __VERSION__;
#endif
}

}  // namespace

int Cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set);
}

std::string MachineJson() {
  static const std::string fixed = "{\"cpu\": " + JsonString(Processor()) + ", \"cores\": " + std::to_string(Cores()) +
                                   ", \"isa\": " + JsonString(InstructionSet()) + ", \"os\": " + JsonString(System()) +
                                   ", \"compiler\": " + JsonString(Compiler());
  double load = 0;
  char text[48];
  std::snprintf(text, sizeof text, ", \"load\": %.2f}", getloadavg(&load, 1) == 1 ? load : 0.0);
  return fixed + text;
}

}  // namespace bench
