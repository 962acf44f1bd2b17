// matmul against the BLAS it uses, called directly. The peer is a process of its own, where OpenBLAS keeps its own
// threads: ours has set it to one thread and splits the work itself.
#include <dlfcn.h>
#include <tessera/tessera.h>

#include <cstdlib>
#include <memory>
#include <span>

#include "bench/benchmarks.h"
#include "bench/peer_process.h"
#include "bench/team.h"

namespace bench {
namespace {

using tessera::Tensor;

// The CBLAS interface, which is opened at run time.
using Sgemm = void(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                   const float* b, int ldb, float beta, float* c, int ldc);
constexpr int kRowMajor = 101;
constexpr int kNoTrans = 111;

Tensor Square(int n) {
  const Floats values(int64_t{n} * n);
  return Tensor::from(std::span<const float>(values.data(), static_cast<size_t>(values.size())), {n, n});
}

}  // namespace

Timed SgemmTask(const std::string& task) {
  const int n = std::atoi(task.c_str());
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (n <= 0 || library == nullptr) return {};
  auto* sgemm = reinterpret_cast<Sgemm*>(dlsym(library, "cblas_sgemm"));
  if (sgemm == nullptr) return {};
  const int64_t size = int64_t{n} * n;
  auto a = std::make_shared<Floats>(size), b = std::make_shared<Floats>(size), c = std::make_shared<Floats>(size);
  return Loop(
      [=] { sgemm(kRowMajor, kNoTrans, kNoTrans, n, n, n, 1.0f, a->data(), n, b->data(), n, 0.0f, c->data(), n); });
}

void CpuGemm() {
  auto blas = PeerProcess::Start({ProgramFolder() + "/tessera_bench", "--serve", "sgemm"});
  for (const int n : {64, 128, 256, 512, 1024, 2048}) {
    const Tensor a = Square(n), b = Square(n);
    std::vector<Timed> contenders = {Loop([&] { Tensor c = tessera::matmul(a, b); })};
    std::vector<std::string> peers;
    Figure figure{.name = "cpu_gemm/" + std::to_string(n),
                  .unit = Rate("GFLOP/s", 2e-9 * n * n * n),
                  .goal = {Goal::ratio_at_least, 0.97}};
    if (blas != nullptr && blas->Knows(std::to_string(n))) {
      contenders.push_back(PeerProcess::Task(blas, std::to_string(n)));
      peers.push_back("OpenBLAS cblas_sgemm");
    } else {
      figure.note = "no peer: libopenblas.so.0 cannot be opened";
    }
    Report(figure, RunRace(contenders, Budget()), peers);
  }
}

}  // namespace bench
