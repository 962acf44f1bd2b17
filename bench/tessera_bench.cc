// Runs benchmarks and prints one JSON object on a line for each figure. README.md says what is measured and how.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "bench/benchmarks.h"
#include "bench/gpu.h"
#include "bench/gpu_raw.h"
#include "bench/peer_serve.h"

namespace bench {
namespace {

struct Row {
  const char* name;
  void (*run)();
  const char* summary;
};

constexpr Row kRows[] = {
#define X(name, function, summary) {#name, function, summary},
    TSR_BENCHMARKS(X)
#undef X
};

const Row* Find(const std::string& name) {
  for (const Row& row : kRows)
    if (name == row.name) return &row;
  return nullptr;
}

void PrintUsage(FILE* to) {
  std::fprintf(to,
               "usage: tessera_bench [--seconds S] [NAME ...]\n"
               "       tessera_bench --list\n\n"
               "Runs the benchmarks named, or all. S is the time for each comparison, 2 if not given.\n");
}

int Main(int argc, char** argv) {
  std::vector<const Row*> chosen;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string next = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--help" || word == "-h") {
      PrintUsage(stdout);
      return EXIT_SUCCESS;
    } else if (word == "--list") {
      for (const Row& row : kRows) std::printf("%-18s %s\n", row.name, row.summary);
      return EXIT_SUCCESS;
    } else if (word == "--seconds" && std::atof(next.c_str()) > 0) {
      SetBudget(std::atof(argv[++i]));
    } else if (word == "--serve" && next == "sgemm") {
      return Serve(SgemmTask);
    } else if (word == "--serve" && next == "threads") {
      return Serve(ThreadsTask);
    } else if (word == "--serve" && next == "tracing") {
      return Serve(TracingTask);
    } else if (word == "--serve" && next == "gpu") {
      return Serve(GpuTask);
    } else if (word == "--serve" && next == "gpu_raw") {
      return Serve(GpuRawTask);
    } else if (word == "--trial" && !next.empty()) {
      return TracingTrial(next);
    } else if (const Row* row = Find(word)) {
      chosen.push_back(row);
    } else {
      std::fprintf(stderr, "tessera_bench: no benchmark or option is called '%s'; --list shows the benchmarks\n\n",
                   argv[i]);
      PrintUsage(stderr);
      return 2;
    }
  }
  // Those of a GPU only where they are named.
  if (chosen.empty())
    for (const Row& row : kRows)
      if (std::strncmp(row.name, "gpu_", 4) != 0) chosen.push_back(&row);
  int status = EXIT_SUCCESS;
  for (const Row* row : chosen) {
    Progress(std::string(row->name) + ": " + row->summary);
    try {
      row->run();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "tessera_bench: %s: %s\n", row->name, e.what());
      status = EXIT_FAILURE;
    }
  }
  return status;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) { return bench::Main(argc, argv); }
