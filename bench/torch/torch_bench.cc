// The LibTorch peer: a program of its own, because its libraries do not share a process with ours. --serve lets
// tessera_bench time it in turn with Tessera, --warm_up is for warm_up; alone it prints its figures.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/peer_serve.h"
#include "bench/torch/warm_up.h"

namespace {

using Timed = std::function<double(int64_t)>;

template <class F>
Timed Loop(F body) {
  return [body](int64_t n) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < n; ++i) body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
}

Timed Find(const std::string& task) {
  if (task == "add64") return Loop([a = torch::ones({64}), b = torch::ones({64})] { torch::Tensor c = a + b; });
  if (task == "views")
    return Loop([a = torch::ones({64, 32})] {
      torch::Tensor t = a.t();
      torch::Tensor s = t.slice(0, 1, 9);
    });
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  // Without the bookkeeping for gradients, which Tessera's eager ops do not do either.
  const c10::InferenceMode inference;
  if (argc > 1 && std::string(argv[1]) == "--serve") return bench::Serve(Find);
  if (argc > 5 && std::string(argv[1]) == "--warm_up") {
    std::vector<double> times;
    for (int i = 5; i < argc; ++i) times.push_back(std::strtod(argv[i], nullptr));
    return PrintWarmUp(argv[2], argv[3], std::strtod(argv[4], nullptr), times);
  }
  for (const std::string task : {"add64", "views"}) {
    const Timed timed = Find(task);
    std::vector<double> times;
    for (int i = 0; i < 200; ++i) times.push_back(timed(2000) / 2000);
    std::sort(times.begin(), times.end());
    std::printf(
        "{\"name\": \"libtorch/%s\", \"value\": %.4g, \"unit\": \"ns\", \"better\": \"lower\", \"best\": %.4g, "
        "\"version\": \"%s\"}\n",
        task.c_str(), 1e9 * times[100], 1e9 * times[0], TORCH_VERSION);
  }
  return 0;
}
