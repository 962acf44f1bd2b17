// What a process that runs for days must not have more and more of.
#ifndef TESSERA_TESTS_UNIT_USAGE_H_
#define TESSERA_TESTS_UNIT_USAGE_H_

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/device.h"
#include "runtime/sanitizer.h"
#include "tiers/manager.h"

namespace tessera {

/// The sanitizers keep freed memory and a history of their own: resident memory says little there.
inline constexpr bool kSanitized = rt::kAddressSanitizer || rt::kThreadSanitizer;

struct Usage {
  int64_t bytes_in_use = 0;  // of the device
  int64_t versions = 0, version_bytes = 0, version_handles = 0, anchors = 0;
  int64_t resident = 0;    // bytes of the process
  int64_t code_bytes = 0;  // executable and of no file: generated code
  int64_t mappings = 0;

  static Usage Now() {
    Usage u;
    u.bytes_in_use = rt::Cpu().memory_stats().bytes_in_use;
    for (const auto& anchor : tiers::Manager::Get().anchors()) {
      ++u.anchors;
      for (const auto& version : anchor->versions()) {
        ++u.versions;
        u.version_bytes += version->bytes();
        u.version_handles += version->handles();
      }
    }
    int64_t all = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    u.resident = resident * sysconf(_SC_PAGESIZE);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line); ++u.mappings) {
      unsigned long long begin = 0, end = 0, inode = 0;
      char access[5] = {}, path[2] = {};
      // Only [vdso] and the like have a name but no inode.
      const int fields =
          std::sscanf(line.c_str(), "%llx-%llx %4s %*s %*s %llu %1s", &begin, &end, access, &inode, path);
      if (fields == 4 && inode == 0 && access[2] == 'x') u.code_bytes += static_cast<int64_t>(end - begin);
    }
    return u;
  }
  std::string ToString() const {
    return absl::StrCat("bytes in use ", bytes_in_use, ", versions ", versions, ", their bytes ", version_bytes,
                        ", their handles ", version_handles, ", anchors ", anchors, ", resident KiB ", resident / 1024,
                        ", mapped code KiB ", code_bytes / 1024, ", mappings ", mappings);
  }
};

}  // namespace tessera

#endif  // TESSERA_TESTS_UNIT_USAGE_H_
