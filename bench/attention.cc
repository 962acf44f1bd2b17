// Attention written with ops and as the op, in tier 3, against tier 1 running the ops: products of OpenBLAS, and scores
// that are held in memory.
#include "bench/benchmarks.h"
#include "bench/tracing.h"

namespace bench {
namespace {

const Settings kSettings = {"TESSERA_CACHE=false", "TESSERA_HOT_FUNCTION=4", "TESSERA_COMPILE_AFTER=0",
                            "TESSERA_SPECIALISE_AFTER=0"};

}  // namespace

void CpuAttention() {
  constexpr double kFlops = 4e-9 * 8 * 1024 * 1024 * 64;  // the two products
  const Process engine = StartTracing(Tier::all, kSettings);
  const Process tier1 = StartTracing(Tier::one);
  const std::string ops = "attention 8 1024 64", op = "attention_op 8 1024 64";
  const Race by_hand =
      RunRace({PeerProcess::Task(engine, "program " + ops), PeerProcess::Task(tier1, "program " + ops)}, Budget());
  const Race as_op = RunRace({PeerProcess::Task(engine, "program " + op), PeerProcess::Task(tier1, "program " + ops),
                              PeerProcess::Task(tier1, "program " + op)},
                             Budget());
  // In processes of their own: what versions of the other program hold would count too.
  auto memory_of = [](Tier tier, const std::string& name) {
    return PeerProcess::Task(StartTracing(tier, tier == Tier::one ? Settings{} : kSettings), "memory " + name)(1);
  };
  const double composed = memory_of(Tier::one, ops);
  for (const bool written : {true, false}) {
    const std::string& name = written ? ops : op;
    const double memory = memory_of(Tier::all, name);
    Figure figure{.name = written ? "cpu_attention/by_hand" : "cpu_attention/op",
                  .unit = Rate("GFLOP/s", kFlops),
                  .goal = {Goal::ratio_at_least, 1.3}};
    figure.more = ShareOf(engine, "program " + name);
    figure.more.insert(figure.more.end(), {{"peak_mib", Json(memory)},
                                           {"peer_peak_mib", Json(composed)},
                                           {"memory_ratio", Json(memory / composed)},
                                           {"memory_goal", "\"less than 0.25\""},
                                           {"memory_goal_met", memory < 0.25 * composed ? "true" : "false"}});
    figure.note = std::string("f32 [1, 8, 1024, 64], ") +
                  (written ? "q k^T, scale, softmax and v" : "the op attention") +
                  "; peak_mib: of the pool during a call, less q, k and v";
    const Race& race = written ? by_hand : as_op;
    figure.ours = race.times[0];
    figure.peer = "tier 1, with ops";
    figure.theirs = race.times[1];
    figure.ratio = race.ratios[1];
    Report(figure);
    if (written) continue;
    figure.peer = "tier 1, the op";
    figure.theirs = race.times[2];
    figure.ratio = race.ratios[2];
    figure.goal = {};
    Report(figure);
  }
}

}  // namespace bench
