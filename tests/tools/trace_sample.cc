// Writes a trace as a run on a GPU would leave it, for tests of the tools: trace_sample FILE [LAUNCHES [RANK [BOOT
// [CUBIN]]]]
#include <cstdio>
#include <cstdlib>

#include "runtime/file.h"
#include "tests/unit/trace_testing.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto number = [&](int i, int64_t otherwise) {
    return argc > i ? std::strtoll(argv[i], nullptr, 10) : static_cast<long long>(otherwise);
  };
  std::string cubin;
  if (argc > 5) {
    const auto read = tessera::rt::ReadFile(argv[5]);
    if (!read.ok()) return 1;
    cubin = *read;
  }
  const std::string bytes =
      tessera::testing_trace::GpuSample(number(2, 100), number(3, 0), argc > 4 ? argv[4] : "boot-1", cubin);
  const absl::Status written = tessera::rt::WriteFile(argv[1], {bytes}, 0600);
  if (!written.ok()) std::fprintf(stderr, "%s\n", written.ToString().c_str());
  return written.ok() ? 0 : 1;
}
