// Chains, softmax and norms of large tensors, written as eager ops.
#include "bench/benchmarks.h"
#include "bench/handwritten.h"
#include "bench/team.h"
#include "bench/tracing.h"

namespace bench {
namespace {

using tessera::Tensor;

constexpr int64_t kSide = 4096;
constexpr double kBytes = 4.0 * kSide * kSide;

/// The same rows for a kernel written by hand; w and b are one row.
struct Rows {
  const float *x, *y, *w, *b;
  float* out;
  int64_t count;
};

/// w and b are rows, ids one index for each row of x, few has 8 rows, and narrow is a matrix of bf16.
struct Operands {
  Tensor x, y, z, w, b, ids, few, narrow;
};

struct Fused {
  const char* name;
  double operands;  // that must be read and written, each of 64 MiB
  Tensor (*run)(const Operands& in);
  void (*by_hand)(const Rows& rows);  // null where memory is the limit, and a copy says what it gives
  double tier1_goal;                  // 0: none
};

// Each is at a place of its own.
const Fused kFused[] = {
    {"chain", 4, [](const Operands& in) { return (in.x * in.y + in.z) * 0.5 + in.x; }, nullptr, 3},
    {"chain_of_rows", 2, [](const Operands& in) { return (in.x * in.w + in.b) * 0.5 + in.x; }, nullptr, 3},
    {"gelu", 2, [](const Operands& in) { return tessera::gelu(in.x * in.w + in.b) * 0.5 + in.x; },
     [](const Rows& r) { HandwrittenGeluChain(r.x, r.w, r.b, r.out, r.count, kSide); }, 1.5},
    {"softmax", 2, [](const Operands& in) { return tessera::softmax(in.x * 0.125, -1); },
     [](const Rows& r) { HandwrittenSoftmax(r.x, r.out, r.count, kSide, 0.125f); }, 0},
    {"softmax_by_hand", 2,
     [](const Operands& in) {
       Tensor e = tessera::exp(in.x - tessera::max(in.x, -1, true));
       return e / tessera::sum(e, -1, true);
     },
     [](const Rows& r) { HandwrittenSoftmax(r.x, r.out, r.count, kSide); }, 1.5},
    {"layer_norm", 3, [](const Operands& in) { return tessera::layer_norm(in.x + in.y, in.w, in.b); },
     [](const Rows& r) { HandwrittenAddLayerNorm(r.x, r.y, r.w, r.b, r.out, r.count, kSide, 1e-5f); }, 0},
    {"rms_norm", 3, [](const Operands& in) { return tessera::rms_norm(in.x + in.y, in.w); },
     [](const Rows& r) { HandwrittenAddRmsNorm(r.x, r.y, r.w, r.out, r.count, kSide, 1e-6f); }, 0},
    {"embedding", 3, [](const Operands& in) { return tessera::embedding(in.x, in.ids) * 0.5 + in.y; }, nullptr, 1.5},
    {"narrow_weight", 0.5,
     [](const Operands& in) { return tessera::matmul(in.few, tessera::cast(in.narrow, tessera::f32)) * 0.5; }, nullptr,
     1.5},
    {"column_sum", 2, [](const Operands& in) { return tessera::sum(in.x * in.y, 0); }, nullptr, 1.5},
    {"mean_square", 2, [](const Operands& in) { return tessera::mean(tessera::square(in.x - in.y)); }, nullptr, 1.5},
};

const Fused* FindFused(const std::string& name) {
  for (const Fused& p : kFused)
    if (name == p.name) return &p;
  return nullptr;
}

/// What is read decides when ops run.
void Read(const Tensor& t) {
  volatile float first = t.read<float>()[0];
  (void)first;
}

/// On a few rows, in this process.
void Check(const Fused& fused, Rows rows) {
  rows.count = 8;
  auto tensor = [&](const float* data, const tessera::Dims& dims) {
    return Tensor::from(
        std::span<const float>(data, static_cast<size_t>(dims.size() == 2 ? rows.count * kSide : kSide)), dims);
  };
  const Tensor x = tensor(rows.x, {rows.count, kSide}), y = tensor(rows.y, {rows.count, kSide});
  const Tensor r = fused.run({x, y, y, tensor(rows.w, {kSide}), tensor(rows.b, {kSide}), {}, {}, {}});
  fused.by_hand(rows);
  const auto values = r.read<float>();
  CheckClose({values.data(), values.size()}, rows.out, 2e-6);
}

}  // namespace

Timed FusedTask(const std::string& task) {
  const Fused* fused = task.starts_with("fused ") ? FindFused(task.substr(6)) : nullptr;
  if (fused == nullptr) return {};
  // Steps of 1001 come to every row once, and to no neighbour after another.
  const Operands in = {tessera::randn({kSide, kSide}), tessera::randn({kSide, kSide}),
                       tessera::randn({kSide, kSide}), tessera::randn({kSide}),
                       tessera::randn({kSide}),        tessera::mod(tessera::arange(kSide) * 1001, kSide),
                       tessera::randn({8, kSide}),     tessera::cast(tessera::randn({kSide, kSide}), tessera::bf16)};
  const Timed timed = Loop([=] { Read(fused->run(in)); });
  // Hot, built, compiled, and compiled again: each takes some runs.
  for (int round = 0; round < 4; ++round) {
    timed(20);
    tessera::Runtime::wait_for_builds();
  }
  return timed;
}

void CpuFused() {
  const Process engine = StartTracing(Tier::all, {"TESSERA_CACHE=false", "TESSERA_COMPILE_AFTER=0",
                                                  "TESSERA_SPECIALISE_AFTER=0", "TESSERA_TUNE_BUDGET=0"});
  const Process tier1 = StartTracing(Tier::one);
  const Floats to(kSide * kSide * 2), from(kSide * kSide * 2), weight(kSide), bias(kSide);
  const Rows all = {from.data(), from.data() + kSide * kSide, weight.data(), bias.data(), to.data(), kSide};
  for (const Fused& p : kFused) {
    const std::string task = std::string("fused ") + p.name;
    std::vector<Timed> contenders = {PeerProcess::Task(engine, task), PeerProcess::Task(tier1, task)};
    std::vector<std::string> peers = {"tier 1"};
    Figure figure{.name = std::string("cpu_fused/") + p.name, .unit = Rate("GB/s", p.operands * kBytes * 1e-9)};
    figure.note = "bytes read and written once";
    if (p.by_hand == nullptr) {
      const auto bytes = static_cast<int64_t>(p.operands * kBytes / 2);
      contenders.push_back(Loop([&to, &from, bytes] { ThreadedCopy(to.data(), from.data(), bytes); }));
      peers.push_back("threaded memcpy of as many bytes");
    } else if (HandwrittenExp() != nullptr) {
      Check(p, all);
      contenders.push_back(Loop([&] {
        AllCores().Run(kSide, 1, [&](int64_t begin, int64_t end) {
          const int64_t at = begin * kSide;
          p.by_hand({all.x + at, all.y + at, all.w, all.b, all.out + at, end - begin});
        });
      }));
      peers.push_back("hand-written, threaded");
    } else {
      figure.note += "; no hand-written kernel for this instruction set";
    }
    const Race race = RunRace(contenders, Budget());
    figure.more = ShareOf(engine, task);
    figure.ours = race.times[0];
    for (size_t k = 0; k < peers.size(); ++k) {
      figure.peer = peers[k];
      figure.theirs = race.times[k + 1];
      figure.ratio = race.ratios[k + 1];
      figure.goal = {Goal::ratio_at_least, k == 0 ? p.tier1_goal : p.by_hand == nullptr ? 0.85 : 0.95};
      if (figure.goal.number == 0) figure.goal = {};
      Report(figure);
    }
  }
}

}  // namespace bench
