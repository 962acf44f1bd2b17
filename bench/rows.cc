// Ops over rows: each element is read and written once, with a few passes over a row that stays in the cache.
#include <tessera/tessera.h>

#include <span>

#include "bench/benchmarks.h"
#include "bench/handwritten.h"
#include "bench/team.h"

namespace bench {
namespace {

using tessera::Tensor;

constexpr int64_t kRows = 4096;
constexpr int64_t kColumns = 4096;
constexpr double kBytes = 2.0 * 4 * kRows * kColumns;

void Rows(const char* name, const std::function<Tensor(const Tensor&)>& ours,
          const std::function<void(const float*, float*, int64_t, int64_t)>& handwritten, double absolute) {
  const Floats source(kRows * kColumns), destination(kRows * kColumns);
  const Tensor x =
      Tensor::from(std::span<const float>(source.data(), static_cast<size_t>(source.size())), {kRows, kColumns});
  std::vector<Timed> contenders = {Loop([&] { Tensor y = ours(x); }), Loop([&] {
                                     ThreadedCopy(destination.data(), source.data(), static_cast<int64_t>(kBytes / 2));
                                   })};
  std::vector<std::string> peers = {"threaded memcpy of as many bytes"};
  Figure figure{.name = name, .unit = Rate("GB/s", kBytes * 1e-9), .note = "bytes read and written once"};
  if (HandwrittenExp() != nullptr) {
    auto all = [&] {
      AllCores().Run(kRows, 1, [&](int64_t begin, int64_t end) {
        handwritten(source.data() + begin * kColumns, destination.data() + begin * kColumns, end - begin, kColumns);
      });
    };
    all();
    const Tensor y = ours(x);
    const auto values = y.read<float>();
    CheckClose({values.data(), values.size()}, destination.data(), absolute);
    contenders.push_back(Loop(all));
    peers.push_back("hand-written, threaded");
  } else {
    figure.note += "; no hand-written kernel for this instruction set";
  }
  Report(figure, RunRace(contenders, Budget()), peers);
}

}  // namespace

void CpuSoftmax() {
  auto handwritten = [](const float* x, float* y, int64_t rows, int64_t columns) {
    HandwrittenSoftmax(x, y, rows, columns);
  };
  Rows("cpu_softmax", [](const Tensor& x) { return tessera::softmax(x); }, handwritten, 0);
}

void CpuLayerNorm() {
  const Floats weight(kColumns), bias(kColumns);
  const std::span<const float> w(weight.data(), kColumns), b(bias.data(), kColumns);
  const Tensor weights = Tensor::from(w, {kColumns}), biases = Tensor::from(b, {kColumns});
  auto handwritten = [&](const float* x, float* y, int64_t rows, int64_t columns) {
    HandwrittenLayerNorm(x, weight.data(), bias.data(), y, rows, columns, 1e-5f);
  };
  Rows("cpu_layernorm", [&](const Tensor& x) { return tessera::layer_norm(x, weights, biases); }, handwritten, 1e-5);
}

}  // namespace bench
