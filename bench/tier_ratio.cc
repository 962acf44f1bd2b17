// What each tier gives, over programs of all kinds. bench/tier_ratio_plot.py draws it.
#include <memory>
#include <sstream>
#include <thread>

#include "bench/benchmarks.h"
#include "bench/handwritten.h"
#include "bench/programs.h"
#include "bench/team.h"
#include "bench/tracing.h"

namespace bench {
namespace {

/// large: an op that is large enough for tier 1 to be nearly as good. stable: small and always the same, which is what
/// tier 3 is for.
enum class Kind { large, stable, other };
struct Row {
  const char* name;
  const char* program;
  Kind kind;
};
constexpr Row kRows[] = {
    {"add_16mib", "add 2048 2048", Kind::large},
    {"exp_16mib", "exp 2048 2048", Kind::large},
    {"softmax_16mib", "softmax 2048 2048", Kind::large},
    {"product_1024", "gemm 1024 1024 1024", Kind::large},
    {"chain_16x64", "chain 16 64", Kind::stable},
    {"chain_256x256", "chain 256 256", Kind::stable},
    {"chain_of_numbers_256x256", "numbers 256 256", Kind::stable},
    {"chain_16mib", "chain 2048 2048", Kind::other},
    {"linear_16", "linear 16 16 16", Kind::stable},
    {"linear_64", "linear 64 64 64", Kind::stable},
    {"softmax_in_ops_64x256", "softmax_by_hand 64 256", Kind::other},
    {"layer_norm_of_sum_64x256", "layer_norm 64 256", Kind::other},
    {"variance_in_ops_256x256", "sums 256 256", Kind::other},
    {"attention_in_ops_4x128x32", "attention 4 128 32", Kind::other},
    {"attention_masked_8x512x64", "attention_masked 8 512 64", Kind::stable},
    {"mlp_64x64", "mlp 64 64", Kind::other},
    {"transformer_block_64x64", "block 64 64", Kind::other},
};

/// The chain by hand, for the sizes in the task, the larger one by two threads where there are two processors. Empty
/// for all others, and where there is no such kernel.
Timed ChainByHand(const std::string& program) {
  int64_t rows = 0, columns = 0;
  std::string what;
  std::istringstream(program) >> what >> rows >> columns;
  const int64_t parts = rows >= 256 && std::thread::hardware_concurrency() > 1 ? 2 : 1;
  ChainKernel* const kernel = what == "chain" ? HandwrittenChain(rows / parts, columns) : nullptr;
  if (kernel == nullptr) return {};
  const std::shared_ptr<const Program> chain = std::make_shared<const Program>(MakeProgram(program).value());
  const auto data = [](const tessera::Tensor& t) { return t.read<float>().data(); };
  const float *x = data(chain->args[0]), *b = data(chain->args[1]);
  auto y = std::make_shared<std::vector<float>>(static_cast<size_t>(rows * columns));
  const auto run = [=] {
    const int64_t part = rows / parts * columns;
    if (parts == 1) return kernel(x, b, y->data());
    AllCores().Run(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) kernel(x + i * part, b, y->data() + i * part);
    });
  };
  run();
  const tessera::Tensor ours = chain->function->call(chain->args);
  const auto values = ours.read<float>();
  CheckClose({values.data(), values.size()}, y->data(), 1e-4);
  return Loop([run, chain] { run(); });
}

}  // namespace

void TierRatio() {
  // A tier is held, whether it pays or not: that is what is asked.
  const Settings settings = {"TESSERA_CACHE=false", "TESSERA_HOT_FUNCTION=4", "TESSERA_COMPILE_AFTER=0",
                             "TESSERA_SPECIALISE_AFTER=0", "TESSERA_PROFIT_GATE=false"};
  const Process one = StartTracing(Tier::one), two = StartTracing(Tier::two, settings),
                three = StartTracing(Tier::all, settings);
  for (const Row& row : kRows) {
    const std::string task = std::string("program ") + row.program;
    // For large ops tier 1 is the one that has something to show.
    const bool large = row.kind == Kind::large;
    const std::vector<Process> order = large ? std::vector{one, two, three} : std::vector{three, two, one};
    std::vector<Timed> contenders;
    for (const Process& process : order) contenders.push_back(PeerProcess::Task(process, task));
    const Timed by_hand = ChainByHand(row.program);
    if (by_hand) contenders.push_back(by_hand);
    const Race race = RunRace(contenders, Budget());
    Figure figure{.name = std::string("tier_ratio/") + row.name, .unit = {"us", 1e6, false}};
    if (large) figure.goal = {Goal::ratio_at_least, 0.7};
    if (row.kind == Kind::stable) figure.goal = {Goal::ratio_at_least, 1.5};
    figure.ours = race.times[0];
    figure.peer = "tier 2";
    figure.theirs = race.times[1];
    figure.ratio = race.ratios[1];
    const Summary &tier1 = race.times[large ? 0 : 2], &tier3 = race.times[large ? 2 : 0];
    const auto share2 = ShareOf(two, task), share3 = ShareOf(three, task);
    figure.more = {{"tier_1_us", Json(1e6 * tier1.median)}, {"tier_2_us", Json(1e6 * race.times[1].median)},
                   {"tier_3_us", Json(1e6 * tier3.median)}, {"tier_2_generated", share2[0].second},
                   {"tier_3_generated", share3[0].second},  {"tier_3_blas", share3[1].second}};
    figure.note = large ? "the value is tier 1's" : "the value is tier 3's";
    if (by_hand) {
      // Without a call, a guard or memory for the result.
      figure.more.push_back({"by_hand_us", Json(1e6 * race.times[3].median)});
      figure.note += "; by_hand_us is a loop of vector instructions with these sizes built in, and nothing around it";
    }
    Report(figure);
  }
}

}  // namespace bench
