// matmul against the BLAS it uses, called directly. The peer is a process of its own, where OpenBLAS keeps its own
// threads: ours has set it to one thread and splits the work itself.
#include <dlfcn.h>
#include <tessera/tessera.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <utility>

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
constexpr int kNoTrans = 111, kTrans = 112;

Tensor Square(int n) {
  const Floats values(int64_t{n} * n);
  return Tensor::from(std::span<const float>(values.data(), static_cast<size_t>(values.size())), {n, n});
}

// Speaks the protocol of peer_serve.h: "bf16 M N K" and "f16 M N K".
constexpr const char* kTorchPeer = R"(
import os, sys, time
import torch
torch.set_num_threads(len(os.sched_getaffinity(0)))
types = {'bf16': torch.bfloat16, 'f16': torch.float16}
made = {}
def run(n, task):
    kind, *dims = task.split()
    if kind not in types:
        return -1.0
    if task not in made:
        made.clear()
        rows, columns, depth = map(int, dims)
        made[task] = torch.randn(rows, depth).to(types[kind]), torch.randn(depth, columns).to(types[kind])
    a, b = made[task]
    start = time.perf_counter()
    for _ in range(n):
        a @ b
    return time.perf_counter() - start
print('ready', flush=True)
with torch.inference_mode():
    for line in iter(sys.stdin.readline, ''):
        n, task = line.split(' ', 1)
        print('%.9e' % run(int(n), task.strip()), flush=True)
)";

std::shared_ptr<PeerProcess> Torch() {
  const char* named = std::getenv("TESSERA_BENCH_PYTHON");
  return PeerProcess::Start({"sh", "-c", "exec \"$0\" -c \"$1\" 2>/dev/null",
                             named != nullptr && *named != '\0' ? named : "python3", kTorchPeer});
}

}  // namespace

/// OpenBLAS with the best kernels that it has for this machine: one that does not know the processor takes the oldest.
void* OpenPeer() {
  static void* const library = [] {
    const auto open = [] { return dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL); };
    void* opened = open();
#if defined(__x86_64__)
    const auto name =
        opened == nullptr ? nullptr : reinterpret_cast<char* (*)()>(dlsym(opened, "openblas_get_corename"));
    if (name != nullptr && std::string(name()) == "Prescott" && __builtin_cpu_supports("avx2")) {
      dlclose(opened);
      setenv("OPENBLAS_CORETYPE", __builtin_cpu_supports("avx512vl") ? "SkylakeX" : "Haswell", /*overwrite=*/0);
      opened = open();
    }
#endif
    return opened;
  }();
  return library;
}

/// "N": a square product; "nn M N K", "nt M N K": b is [K, N] or [N, K]; "gelu M N K": nn, then tier 1's ops for a bias
/// and gelu.
Timed SgemmTask(const std::string& task) {
  std::istringstream words(task.find(' ') == std::string::npos ? "nn " + task + " " + task + " " + task : task);
  std::string kind;
  int m = 0, n = 0, k = 0;
  words >> kind >> m >> n >> k;
  void* library = OpenPeer();
  if (m <= 0 || n <= 0 || k <= 0 || library == nullptr) return {};
  auto* sgemm = reinterpret_cast<Sgemm*>(dlsym(library, "cblas_sgemm"));
  if (sgemm == nullptr) return {};
  auto a = std::make_shared<Floats>(int64_t{m} * k), b = std::make_shared<Floats>(int64_t{k} * n);
  const bool transposed = kind == "nt";
  auto product = [=](float* c) {
    sgemm(kRowMajor, kNoTrans, transposed ? kTrans : kNoTrans, m, n, k, 1.0f, a->data(), k, b->data(),
          transposed ? k : n, 0.0f, c, n);
  };
  if (kind == "gelu") {
    // Values within gelu's range, as the function that is compared has them.
    for (int64_t i = 0; i < b->size(); ++i) b->data()[i] /= 16;
    const Tensor bias = tessera::randn({n});
    return Loop([product, bias, c = tessera::zeros({m, n})]() mutable {
      {
        auto values = c.write<float>();
        product(values.data());
      }
      Tensor y = tessera::gelu(c + bias);
    });
  }
  auto c = std::make_shared<Floats>(int64_t{m} * n);
  return Loop([product, c] { product(c->data()); });
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

void CpuGemmNarrow() {
  auto torch = Torch();
  struct Row {
    int m, n, k;
  };
  for (const auto& [name, dtype] : {std::pair{"bf16", tessera::bf16}, {"f16", tessera::f16}}) {
    for (const auto& [m, n, k] : {Row{256, 256, 256},
                                  {512, 512, 512},
                                  {1024, 1024, 1024},
                                  {2048, 2048, 2048},
                                  {1, 4096, 4096},
                                  {8, 4096, 4096},
                                  {64, 4096, 4096},
                                  {1024, 1024, 64}}) {
      const Tensor a = tessera::cast(tessera::randn({m, k}), dtype), b = tessera::cast(tessera::randn({k, n}), dtype);
      const std::string size =
          m == n && n == k ? std::to_string(n) : std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
      std::vector<Timed> contenders = {Loop([&] { Tensor c = tessera::matmul(a, b); })};
      std::vector<std::string> peers;
      Figure figure{.name = std::string("cpu_gemm_narrow/") + name + "_" + size,
                    .unit = Rate("GFLOP/s", 2e-9 * m * n * k),
                    .goal = {Goal::ratio_at_least, 1}};
      if (torch != nullptr) {
        contenders.push_back(PeerProcess::Task(
            torch, std::string(name) + " " + std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k)));
        peers.push_back("PyTorch");
      } else {
        figure.note = "no peer: no Python with PyTorch (TESSERA_BENCH_PYTHON names one)";
      }
      Report(figure, RunRace(contenders, Budget()), peers);
    }
  }
}

}  // namespace bench
