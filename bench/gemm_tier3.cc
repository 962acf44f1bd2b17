// Products in functions that are hot, so that whatever the tiers make of them runs, against OpenBLAS called directly.
#include "bench/benchmarks.h"
#include "bench/peer_process.h"
#include "bench/tracing.h"

namespace bench {
namespace {

struct Shape {
  const char* name;
  int m, n, k;
  double goal;  // of the ratio to OpenBLAS
};
// Small and skinny ones should be faster than the library, large ones nearly as fast.
constexpr Shape kShapes[] = {
    {"256", 256, 256, 256, 1.0},           {"512", 512, 512, 512, 0.95},        {"1024", 1024, 1024, 1024, 0.95},
    {"2048", 2048, 2048, 2048, 0.95},      {"1x4096x4096", 1, 4096, 4096, 1.0}, {"8x4096x4096", 8, 4096, 4096, 1.0},
    {"64x4096x4096", 64, 4096, 4096, 1.0},
};
constexpr const char* kBlas = "OpenBLAS cblas_sgemm";

std::string Words(const Shape& s) {
  return " " + std::to_string(s.m) + " " + std::to_string(s.n) + " " + std::to_string(s.k);
}

Unit Flops(const Shape& s) { return Rate("GFLOP/s", 2e-9 * s.m * s.n * s.k); }

void ReportProduct(const Shape& shape, bool transposed, const Process& engine, const Process& blas) {
  const std::string task = (transposed ? "program gemm_nt" : "program gemm") + Words(shape);
  const std::string peer_task = (transposed ? "nt" : "nn") + Words(shape);
  Figure figure{.name = std::string("cpu_gemm_tier3/") + shape.name + (transposed ? "_nt" : ""),
                .unit = Flops(shape),
                .goal = {Goal::ratio_at_least, shape.goal}};
  std::vector<Timed> contenders = {PeerProcess::Task(engine, task)};
  std::vector<std::string> peers;
  if (blas != nullptr && blas->Knows(peer_task)) {
    contenders.push_back(PeerProcess::Task(blas, peer_task));
    peers.push_back(kBlas);
  } else {
    figure.note = "no peer: libopenblas.so.0 cannot be opened";
  }
  const Race race = RunRace(contenders, Budget());
  figure.more = ShareOf(engine, task);
  Report(figure, race, peers);
}

/// With bias and gelu: against the product of OpenBLAS and tier 1's ops one after another, in one process, and against
/// the same function in tier 1.
void ReportEpilogue(const Process& engine, const Process& blas) {
  const Shape shape = {"gelu_1024x1024x128", 1024, 1024, 128, 1.15};
  const Process tier1 = StartTracing(Tier::one);
  const std::string task = "program gemm_gelu" + Words(shape), peer_task = "gelu" + Words(shape);
  Figure figure{.name = std::string("cpu_gemm_tier3/") + shape.name,
                .unit = Flops(shape),
                .goal = {Goal::ratio_at_least, shape.goal},
                .note = "a product with bias and gelu; the operations of the product alone are counted"};
  std::vector<Timed> contenders = {PeerProcess::Task(engine, task), PeerProcess::Task(tier1, task)};
  std::vector<std::string> peers = {"tier 1: a product of OpenBLAS, then two ops"};
  if (blas != nullptr && blas->Knows(peer_task)) {
    contenders.push_back(PeerProcess::Task(blas, peer_task));
    peers.push_back(std::string(kBlas) + " with its own threads, then two ops of tier 1");
  } else {
    figure.note += "; no peer: libopenblas.so.0 cannot be opened";
  }
  const Race race = RunRace(contenders, Budget());
  figure.more = ShareOf(engine, task);
  Report(figure, race, peers);
}

}  // namespace

void CpuGemmTier3() {
  const Process engine = StartTracing(Tier::all, {"TESSERA_CACHE=false", "TESSERA_HOT_FUNCTION=4",
                                                  "TESSERA_COMPILE_AFTER=0", "TESSERA_SPECIALISE_AFTER=0"});
  const Process blas = PeerProcess::Start({ProgramFolder() + "/tessera_bench", "--serve", "sgemm"}, {"TESSERA_TIER=1"});
  for (const Shape& shape : kShapes)
    for (const bool transposed : {false, true}) ReportProduct(shape, transposed, engine, blas);
  ReportEpilogue(engine, blas);
}

}  // namespace bench
