// gpu_scores: attention that is written in ops, with functions of its scores that no library has a kernel for: one
// generated kernel on tensor cores.
#include <tessera/tessera.h>

#include <algorithm>
#include <sstream>

#include "bench/benchmarks.h"
#include "bench/gpu.h"
#include "bench/gpu_processes.h"

namespace bench {
namespace {

using tessera::Function;
using tessera::Tensor;

struct Scores {
  const char* name;
  const char* steps;  // from %s, the product, to %x, what the softmax is of
  const char* op;     // the op attention does the same: which; null: it does not
  bool is_causal = false;
};

constexpr const char* kPositions =
    "  %i = iota 0, 1 {dims = [S, 1], axis = 0, dtype = i64}\n"
    "  %j = iota 0, 1 {dims = [1, S], axis = 1, dtype = i64}\n";
constexpr Scores kScores[] = {
    {"plain", "  %x = mul %s, %c\n", "full"},
    {"causal", "  %m = ge %i, %j\n  %a = mul %s, %c\n  %x = where %m, %a, -inf\n", "causal", true},
    {"cap", "  %a = mul %s, 0.005\n  %b = tanh %a\n  %x = mul %b, 20.0\n", nullptr},
    {"cap_alibi",
     "  %d = sub %j, %i\n  %e = cast %d {dtype = f32}\n  %g = mul %e, %l\n  %f = cast %s {dtype = f32}\n"
     "  %a = mul %f, 0.005\n  %b = tanh %a\n  %h = mul %b, 20.0\n  %z = add %h, %g\n  %x = cast %z {dtype = bf16}\n",
     nullptr},
    {"cap_alibi_causal",
     "  %d = sub %j, %i\n  %e = cast %d {dtype = f32}\n  %g = mul %e, %l\n  %f = cast %s {dtype = f32}\n"
     "  %a = mul %f, 0.005\n  %b = tanh %a\n  %h = mul %b, 20.0\n  %z = add %h, %g\n  %m = ge %i, %j\n"
     "  %y0 = where %m, %z, -inf\n  %x = cast %y0 {dtype = bf16}\n",
     nullptr, true},
};

/// attention(q, k, v, slopes, scale).
Function Attention(const Scores& scores, int64_t columns) {
  const std::string t = "tensor<B x H x S x " + std::to_string(columns) + " x bf16>";
  return Function::parse("func @attention(%q: " + t + ", %k: " + t + ", %v: " + t +
                         ", %l: tensor<H x 1 x 1 x f32>, %c: tensor<bf16>) -> " + t + " {\n" + kPositions +
                         "  %s = matmul %q, %k {transpose_b = true}\n" + scores.steps +
                         "  %w = softmax %x {axis = -1}\n  %y = matmul %w, %v\n  return %y\n}\n")
      .value();
}

}  // namespace

Timed GpuScoresTask(const std::string& task) {
  std::istringstream words(task);
  std::string name, which;
  int64_t b = 0, h = 0, s = 0, d = 0;
  words >> name >> which >> b >> h >> s >> d;
  const auto* scores =
      std::find_if(std::begin(kScores), std::end(kScores), [&](const Scores& known) { return which == known.name; });
  if (name != "scores" || scores == std::end(kScores)) return {};
  const auto normal = [&](int64_t seed) {
    return tessera::random_normal(seed, 0, {b, h, s, d}, 0, 1, tessera::f32).cast(tessera::bf16);
  };
  const Tensor heads = tessera::iota({h, 1, 1}, 0, 1, 1, tessera::f32);
  const std::vector<Tensor> args = {normal(1), normal(2), normal(3),
                                    tessera::exp2(heads * (-8.0 / static_cast<double>(h))),
                                    tessera::full({}, 0.125).cast(tessera::bf16)};
  const Function f = Attention(*scores, d);
  return GpuWork([f, args] { f(args); });
}

void GpuScores() {
  CheckGpu();
  const Process all = StartGpu(Tier::all), tier1 = StartGpu(Tier::one), torch = StartTorch();
  for (const auto& [b, h, s, d] : {std::array<int64_t, 4>{4, 16, 4096, 128}, {4, 32, 4096, 64}, {16, 12, 1024, 64}}) {
    for (const Scores& scores : kScores) {
      std::ostringstream shape;
      shape << b << " " << h << " " << s << " " << d;
      const std::string task = std::string("scores ") + scores.name + " " + shape.str();
      std::vector<Timed> contenders = {PeerProcess::Task(all, task)};
      std::vector<std::string> peers;
      AddPeer(contenders, peers, torch, "flex_" + task, "PyTorch (flex_attention, compiled)");
      AddPeer(contenders, peers, tier1, task, "tier 1, op by op");
      if (scores.op != nullptr) {
        std::ostringstream own;
        own << "attention " << b << " " << h << " " << h << " " << s << " " << d << " " << scores.op;
        AddPeer(contenders, peers, tier1, own.str(), "the op attention in tier 1");
      }
      std::string name = "gpu_scores/" + task.substr(7);
      std::replace(name.begin(), name.end(), ' ', '_');
      const auto n = static_cast<double>(s);
      const double flop = (scores.is_causal ? 2.0 : 4.0) * static_cast<double>(b * h * d) * n * n;
      Figure figure{.name = name, .unit = Rate("TFLOP/s", flop * 1e-12), .goal = {Goal::ratio_at_least, 1}};
      const Race race = RunRace(contenders, Budget());
      figure.more = {{"generated_kernels", Json(PeerProcess::Task(all, "generated " + task)(1))}};
      Report(figure, race, peers);
    }
  }
}

}  // namespace bench
