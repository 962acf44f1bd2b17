// The compiler by itself, for programs that hold MLIR: a module goes in; code, its launch plan and a report come out,
// and the code is called. Built only where the compiler is.
#include "tiers/compiler/compile.h"

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

// exp(x) * 0.5, then each row divided by its sum: for any number of rows of any length.
constexpr char kModule[] = R"(
!rows = tensor<?x?xf32, [0, 1]>
!sums = tensor<?x1xf32, [0, -1]>
tsr_graph.trace "rows" values [0, 1] strides [[], []] (%v0: !rows, %v1: tensor<f32>) {
  %v2 = tsr_graph.exp %v0 step 0 values [2] until [1] : (!rows) -> !rows
  %v3 = tsr_graph.mul %v2, %v1 step 1 values [3] until [3] : (!rows, tensor<f32>) -> !rows
  %v4 = tsr_graph.sum %v3 step 2 values [4] until [3] {axes = array<i64: 1>, keepdims = true} : (!rows) -> !sums
  %v5 = tsr_graph.div %v3, %v4 step 3 values [5] until [end] : (!rows, !sums) -> !rows
}
)";

int Fail(llvm::Error error) {
  std::fprintf(stderr, "compile: %s\n", llvm::toString(std::move(error)).c_str());
  return 1;
}

}  // namespace

int main() {
  using namespace tessera::compiler;
  CompileSettings settings;
  settings.options.tier = 2;
  settings.profile = true;
  settings.texts = {"tile"};
  llvm::Expected<Compiled> compiled = Compile(kModule, settings);
  if (!compiled) return Fail(compiled.takeError());

  Roofline machine;
  machine.gigabytes_per_second = 100;
  machine.gflops = 150;
  machine.dims = {{"s0", 4096}, {"s1", 4096}};
  std::printf("%s\n", ReportText(compiled->report, machine).c_str());
  for (const PassTime& pass : compiled->passes) std::printf("%-28s %.2f ms\n", pass.pass.c_str(), pass.milliseconds);
  std::printf("%zu bytes of object code, %zu of text at tsr_tile\n\n", compiled->object.size(),
              compiled->texts.at("tile").size());

  llvm::Expected<std::unique_ptr<Kernels>> kernels = Kernels::Load(*compiled);
  if (!kernels) return Fail(kernels.takeError());
  constexpr int64_t kRows = 3, kColumns = 5;
  std::vector<float> x(kRows * kColumns), half = {0.5f}, y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.1f * static_cast<float>(i);
  if (llvm::Error error = (*kernels)->Run(0, {Buffer{x.data(), {kRows, kColumns}, {}}, Buffer{half.data(), {}, {}},
                                              Buffer{y.data(), {kRows, kColumns}, {}}}))
    return Fail(std::move(error));
  for (int64_t row = 0; row < kRows; ++row) {
    float sum = 0;
    for (int64_t k = 0; k < kColumns; ++k) sum += y[static_cast<size_t>(row * kColumns + k)];
    std::printf("row %lld sums to %g\n", static_cast<long long>(row), static_cast<double>(sum));
    if (std::abs(sum - 1) > 1e-5f) return 1;
  }
  return 0;
}
