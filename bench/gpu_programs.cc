// Benchmarks of whole programs and of single ops of tier 1 on a CUDA device: gpu_shape_churn, gpu_until, gpu_attention,
// gpu_decode, gpu_ops.
#include <tessera/tessera.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "bench/benchmarks.h"
#include "bench/gpu.h"
#include "bench/gpu_processes.h"
#include "bench/tracing.h"

namespace bench {
namespace {

using tessera::Function;
using tessera::Runtime;
using tessera::Tensor;

void Wait() { Runtime::synchronize(Runtime::device()).ok(); }

// ---- gpu_shape_churn

constexpr size_t kShapes = 200;
constexpr size_t kSettled = 50;  // calls after which most ops should run in versions

/// Where such a process leaves its profile.
constexpr char kProfileFor[] = "TESSERA_BENCH_PROFILE";

/// A block of a transformer without its attention, in bf16. The number of rows is another one in each call.
struct Block {
  const char* name;
  int64_t width, inner;
  int64_t fewest, step;  // sequences: one of seven numbers
  size_t rounds;         // of all shapes, in all
  const char* note;

  std::string Text() const {
    const std::string w = std::to_string(width) + " x bf16>", i = std::to_string(inner) + " x bf16>";
    const std::string x = "tensor<B x S x " + w, up = "tensor<" + std::to_string(width) + " x " + i,
                      down = "tensor<" + std::to_string(inner) + " x " + w, row = "tensor<" + w;
    return "func @block(%x: " + x + ", %w1: " + up + ", %b1: tensor<" + i + ", %w2: " + down + ", %b2: " + row +
           ", %g: " + row + ", %c: " + row + ") -> " + x + R"( {
  %n = layer_norm %x, %g, %c
  %h = matmul %n, %w1
  %hb = add %h, %b1
  %a = gelu %hb
  %m = matmul %a, %w2
  %mb = add %m, %b2
  %s = mul %mb, 0.5
  %y = add %x, %s
  return %y
}
)";
  }
};
constexpr Block kBlocks[] = {
    {"mlp_block", 512, 2048, 2, 1, 20, ""},
    {"gpt_block", 768, 3072, 16, 8, 5, ", of the sizes of GPT-2 124M, 16 to 64 sequences of 64 to 1656 tokens"},
};

Series ChurnTrial(const Block& of) {
  const auto normal = [](const tessera::Dims& dims, int64_t seed, double scale) {
    return tessera::random_normal(seed, 0, dims, 0, scale, tessera::f32).cast(tessera::bf16);
  };
  const Function block = Function::parse(of.Text()).value();
  const std::vector<Tensor> parameters = {normal({of.width, of.inner}, 1, 0.02),
                                          normal({of.inner}, 2, 1),
                                          normal({of.inner, of.width}, 3, 0.02),
                                          normal({of.width}, 4, 1),
                                          normal({of.width}, 5, 1),
                                          normal({of.width}, 6, 1)};
  // Of the smaller block each has memory of its own; all of the larger one would be ten times as much.
  constexpr int64_t kMemory = int64_t{1} << 29;
  const Tensor memory = normal({kMemory}, 10, 1);
  std::vector<Tensor> xs;
  int64_t at = 0;
  for (size_t i = 0; i < kShapes; ++i) {
    const auto n = static_cast<int64_t>(i * 73 % kShapes);  // in an order without pattern
    const tessera::Dims dims = {of.fewest + of.step * (n % 7), 64 + 8 * n, of.width};
    const int64_t size = dims[0] * dims[1] * dims[2];
    if (at + size > kMemory) at = 0;
    xs.push_back(reshape(slice(memory, {at}, {at + size}, {1}, {0}), dims));
    at += size;
  }
  // Opening cuBLASLt and loading kernels is not what this is about: one call of every op.
  std::vector<Tensor> args = {normal({3, 40, of.width}, 10, 1)};
  args.insert(args.end(), parameters.begin(), parameters.end());
  block(args);
  Wait();
  double executed = 0, versions = 0;
  Series series;
  for (size_t i = 0; i < kShapes; ++i) {
    if (i == kSettled) {
      executed = Metric("ops_executed");
      versions = Metric("version_ops");
    }
    args[0] = xs[i];
    const double start = Now();
    block(args);
    Wait();
    series["seconds"].push_back(Now() - start);
  }
  versions = Metric("version_ops") - versions;
  executed = Metric("ops_executed") - executed;
  series["in_versions"] = {versions / (versions + executed)};
  // The same shapes again, in other orders: the calls of a server.
  const double start = Now();
  for (size_t round = 1; round < of.rounds; ++round) {
    for (size_t i = 0; i < kShapes; ++i) {
      args[0] = xs[(i * 37 + round * 59) % kShapes];
      block(args);
      Wait();
    }
  }
  series["rounds"] = {Now() - start};
  if (const char* profile = std::getenv(kProfileFor)) Runtime::save_profile(profile).ok();
  return series;
}

// ---- gpu_until

constexpr int64_t kUnknowns = 512;
constexpr double kIterations = 270;  // until the residual is small enough, whatever rounds how

/// Richardson's iteration: how often it goes round depends on what the device computes.
constexpr char kSolve[] = R"(
func @solve(%a: tensor<512 x 512 x f32>, %b: tensor<512 x 1 x f32>, %small: tensor<f32>) -> tensor<512 x 1 x f32> {
  %none = mul %b, 0.0
  %x, %rest = while (%y = %none, %r = %b) -> (tensor<512 x 1 x f32>, tensor<512 x 1 x f32>) {
    %s = mul %r, %r
    %t = sum %s {axes = [0, 1]}
    %go = gt %t, %small
    yield %go
  } do {
    %d = mul %r, 0.5
    %z = add %y, %d
    %p = matmul %a, %d
    %q = sub %r, %p
    yield %z, %q
  }
  return %x
}
)";

Timed SolveTask() {
  const Function solve = Function::parse(kSolve).value();
  const Tensor rows = tessera::iota({kUnknowns, kUnknowns}, 0), columns = tessera::iota({kUnknowns, kUnknowns}, 1);
  const Tensor a = tessera::eq(rows, columns).cast(tessera::f32) * 0.1;
  const Tensor b = tessera::full({kUnknowns, 1}, 1.0, tessera::f32);
  const Tensor small = tessera::full({}, 5e-10, tessera::f32);
  return GpuWork([=] { solve({a, b, small}); });
}

// ---- ops

struct Op {
  const char* task;
  double bytes;
  Tensor (*run)(const Tensor& x, const Tensor& ids);
};

constexpr int64_t kRows = 16384, kColumns = 4096;
constexpr double kMatrix = 2.0 * kRows * kColumns;  // bytes of bf16
const Op kOps[] = {
    {"sum_columns", kMatrix, [](const Tensor& x, const Tensor&) { return tessera::sum(x, 0); }},
    {"sum_all", kMatrix, [](const Tensor& x, const Tensor&) { return tessera::sum(x); }},
    {"argmax", kMatrix, [](const Tensor& x, const Tensor&) { return tessera::argmax(x, 1); }},
    {"transpose", 2 * kMatrix, [](const Tensor& x, const Tensor&) { return tessera::copy(x.transpose()); }},
    {"take_rows", 2 * kMatrix, [](const Tensor& x, const Tensor& ids) { return tessera::take(x, ids, 0); }},
    {"cumsum", 2 * kMatrix, [](const Tensor& x, const Tensor&) { return tessera::cumsum(x, 1); }},
    {"concat", 4 * kMatrix, [](const Tensor& x, const Tensor&) { return tessera::concat({x, x}, 1); }},
    {"sort", 2 * kMatrix, [](const Tensor& x, const Tensor&) { return tessera::sort(x, 1).values; }},
};

// ---- gpu_moves

/// Functions that read elsewhere than they write: transposed operands, rows that indices name. Without a text: new keys
/// of a cache, turned by their positions and written where those are, at each step further on.
struct Move {
  const char* task;
  double bytes;
  const char* text;
  int64_t tokens = 0;
};
constexpr int64_t kBatch = 32, kHeads = 8, kLength = 4096, kDepth = 128;
constexpr double kToken = 2.0 * kBatch * kHeads * kDepth * 2;  // bytes of one position, read and written
constexpr int64_t kWords = 50304, kModel = 768;
const Move kMoves[] = {
    {"transposed_gelu", 3 * kMatrix,
     "func @f(%x: tensor<4096 x 16384 x bf16>, %y: tensor<16384 x 4096 x bf16>) -> tensor<16384 x 4096 x bf16> {\n"
     "  %t = transpose %x\n  %s = add %t, %y\n  %g = gelu %s\n  return %g\n}\n"},
    {"transposed_copy", 2 * kMatrix,
     "func @f(%x: tensor<4096 x 16384 x bf16>, %y: tensor<16384 x 4096 x bf16>) -> tensor<16384 x 4096 x bf16> {\n"
     "  %t = transpose %x\n  %c = copy %t\n  return %c\n}\n"},
    {"embedding_norm", 2.0 * kRows * kModel * 3 + 8.0 * kRows,
     "func @f(%t: tensor<50304 x 768 x bf16>, %i: tensor<16384 x i64>, %p: tensor<16384 x 768 x bf16>, %g: tensor<768 "
     "x "
     "bf16>, %b: tensor<768 x bf16>) -> tensor<16384 x 768 x bf16> {\n"
     "  %e = embedding %t, %i\n  %s = add %e, %p\n  %n = layer_norm %s, %g, %b\n  return %n\n}\n"},
    {"kv_update_1", kToken, nullptr, 1},
    {"kv_update_128", kToken * 128, nullptr, 128},
};

/// Rotary embedding by halves of rows, into the cache.
struct KvCache {
  Tensor cache, keys, cosine, sine;
  int64_t tokens, at = 0;

  void Step() {
    const tessera::Step step;
    const int64_t half = kDepth / 2;
    const Tensor a = slice(keys, {0}, {half}, {1}, {3}), b = slice(keys, {half}, {kDepth}, {1}, {3});
    cache = update_slice(cache, a * cosine - b * sine, {0, 0, at, 0});
    cache = update_slice(cache, b * cosine + a * sine, {0, 0, at, half});
    at = (at + tokens) % (kLength - tokens + 1);
  }
};

}  // namespace

Timed GpuProgramTask(const std::string& task) {
  std::istringstream words(task);
  std::string name;
  words >> name;
  const auto normal = [](const tessera::Dims& dims, int64_t seed) {
    return tessera::random_normal(seed, 0, dims, 0, 1, tessera::f32).cast(tessera::bf16);
  };
  if (name == "attention" || name == "attention_grad") {
    int64_t b = 0, h = 0, kv = 0, s = 0, d = 0;
    std::string which, word;
    int64_t window = 0;
    words >> b >> h >> kv >> s >> d >> which >> word >> window;
    const bool causal = which == "causal";
    const Tensor added = which == "mask" ? normal({1, 1, s, s}, 5) : Tensor();
    const auto mask = [added, has_mask = which == "mask"] { return has_mask ? tessera::Arg(added) : tessera::Arg(); };
    const Tensor q = normal({b, h, s, d}, 1), k = normal({b, kv, s, d}, 2), v = normal({b, kv, s, d}, 3);
    if (name == "attention") return GpuWork([=] { tessera::attention(q, k, v, mask(), causal, 0, window); });
    const Tensor y = tessera::attention(q, k, v, mask(), causal, 0, window), g = normal({b, h, s, d}, 4);
    return GpuWork([=] { tessera::attention_grad(q, k, v, y, g, mask(), causal, 0, window); });
  }
  if (name == "decode") {
    int64_t b = 0, h = 0, kv = 0, s = 0, d = 0;
    words >> b >> h >> kv >> s >> d;
    const Tensor q = normal({b, h, 1, d}, 1), k = normal({b, kv, s, d}, 2), v = normal({b, kv, s, d}, 3);
    return GpuWork([=] { tessera::attention(q, k, v); });
  }
  if (name == "paged_decode") {
    int64_t b = 0, h = 0, kv = 0, s = 0, d = 0, page = 0;
    std::string first;  // positions or heads, in a page's memory
    words >> b >> h >> kv >> s >> d >> page >> first;
    const auto pool = [&](int64_t seed) {
      if (first == "positions") return normal({b * s / page, page, kv, d}, seed);
      return transpose(normal({b * s / page, kv, page, d}, seed), {0, 2, 1, 3});
    };
    const Tensor q = normal({b, h, 1, d}, 1), k = pool(2), v = pool(3);
    // Each page once, in a random order.
    const Tensor order = tessera::sort(tessera::random_uniform(4, 0, {b * s / page}), 0).indices;
    const Tensor table = reshape(order, {b, s / page}), lengths = tessera::full({b}, s, tessera::i64);
    return GpuWork([=] { tessera::paged_attention(q, k, v, table, lengths); });
  }
  if (name == "until") return SolveTask();
  if (name == "move") {
    words >> name;
    for (const Move& move : kMoves) {
      if (name != move.task) continue;
      if (move.text == nullptr) {
        auto state = std::make_shared<KvCache>(
            KvCache{normal({kBatch, kHeads, kLength, kDepth}, 1), normal({kBatch, kHeads, move.tokens, kDepth}, 2),
                    normal({move.tokens, kDepth / 2}, 3), normal({move.tokens, kDepth / 2}, 4), move.tokens});
        return GpuWork([state] { state->Step(); });
      }
      const Function f = Function::parse(move.text).value();
      std::vector<Tensor> args = {normal({kColumns, kRows}, 1), normal({kRows, kColumns}, 2)};
      if (name == "embedding_norm")
        args = {normal({kWords, kModel}, 1), tessera::random_int(7, 0, {kRows}, 0, kWords), normal({kRows, kModel}, 2),
                normal({kModel}, 3), normal({kModel}, 4)};
      return GpuWork([f, args] { f(args); });
    }
  }
  if (name != "op") return {};
  words >> name;
  for (const Op& op : kOps) {
    if (name != op.task) continue;
    const Tensor x = normal({kRows, kColumns}, 1);
    const Tensor ids = tessera::random_int(7, 0, {kRows}, 0, kRows);
    return GpuWork([&op, x, ids] { op.run(x, ids); });
  }
  return {};
}

Series GpuTrial(const std::string& trial) {
  for (const Block& block : kBlocks)
    if (trial == std::string("gpu_churn ") + block.name) return ChurnTrial(block);
  return {};
}

namespace {

void ReportChurn(const Block& block) {
  constexpr int kTrials = 5;
  const std::string task = std::string("gpu_churn ") + block.name, name = std::string("gpu_shape_churn/") + block.name;
  const Settings settings = {"TESSERA_DEVICE=cuda", "TESSERA_CACHE=false", kNoDriverCache};
  std::vector<std::vector<double>> ours(kShapes), theirs(kShapes);  // [call][trial]
  std::vector<double> totals[2], rounds[2], in_versions, ratios, ratios_of_rounds;
  // A program that ran before finds its code and its profile.
  const char* const home = std::getenv("HOME");  // the cache is not for folders that everyone may write to
  const std::filesystem::path folder =
      std::filesystem::path(home != nullptr ? home : ".") / (".tessera_bench_" + std::to_string(getpid()));
  const std::string profile = (folder / "profile").string();
  const auto with_cache = [&](const std::string& variable) {
    return Settings{"TESSERA_DEVICE=cuda", "TESSERA_CACHE=true", "TESSERA_CACHE_DIR=" + (folder / "code").string(),
                    variable + "=" + profile};
  };
  std::filesystem::create_directories(folder);
  RunTrial(task, Tier::all, with_cache(kProfileFor));
  std::vector<double> again, ratios_again;
  for (int trial = 0; trial < kTrials; ++trial) {
    double total[2] = {};
    for (const int k : {trial % 2, 1 - trial % 2}) {
      const Series run = RunTrial(task, k == 0 ? Tier::all : Tier::one, settings);
      for (size_t i = 0; i < kShapes; ++i) {
        (k == 0 ? ours : theirs)[i].push_back(run.at("seconds")[i]);
        total[k] += run.at("seconds")[i];
      }
      rounds[k].push_back(total[k] + run.at("rounds")[0]);
      if (k == 0) in_versions.push_back(run.at("in_versions")[0]);
    }
    for (int k = 0; k < 2; ++k) totals[k].push_back(total[k]);
    ratios.push_back(total[1] / total[0]);
    ratios_of_rounds.push_back(rounds[1].back() / rounds[0].back());
    double second = 0;
    const Series run = RunTrial(task, Tier::all, with_cache("TESSERA_PROFILE"));
    for (const double seconds : run.at("seconds")) second += seconds;
    again.push_back(second);
    ratios_again.push_back(total[1] / second);
  }
  std::filesystem::remove_all(folder);
  double worst = 0, at = 0;
  for (size_t i = 0; i < kShapes; ++i) {
    const double ratio = Median(ours[i]) / Median(theirs[i]);
    if (ratio <= worst) continue;
    worst = ratio;
    at = static_cast<double>(i);
  }
  const double settled = Median(in_versions);
  Figure total{.name = name,
               .unit = Milliseconds(),
               .ours = Summarize(totals[0]),
               .peer = "tier 1",
               .theirs = Summarize(totals[1]),
               .ratio = Median(ratios),
               .goal = {Goal::ratio_at_least, 1.25}};
  total.more = {{"in_versions", Json(settled)}, {"in_versions_goal_met", settled >= 0.9 ? "true" : "false"}};
  total.note = std::string("200 calls") + block.note +
               ", no two with the same shape, from the start of a process; in_versions: part of the ops after 50";
  Report(total);
  Figure later{.name = name + "_again",
               .unit = Milliseconds(),
               .ours = Summarize(again),
               .peer = "tier 1",
               .theirs = Summarize(totals[1]),
               .ratio = Median(ratios_again),
               .goal = {Goal::ratio_at_least, 1.25}};
  later.note = "the same 200 calls in a process that finds the code and the profile of one before";
  Report(later);
  Figure all{.name = name + "_" + std::to_string(block.rounds) + "_rounds",
             .unit = Milliseconds(),
             .ours = Summarize(rounds[0]),
             .peer = "tier 1",
             .theirs = Summarize(rounds[1]),
             .ratio = Median(ratios_of_rounds),
             .goal = {Goal::ratio_at_least, 1.25}};
  all.note = std::to_string(block.rounds * kShapes) + " calls: the 200 shapes " + std::to_string(block.rounds) +
             " times, from the start of a process";
  Report(all);
  const bool is_first = &block == kBlocks;
  Figure moment{.name = is_first ? "gpu_shape_churn/worst_call" : name + "_worst_call",
                .unit = {"x", 1, false},
                .ours = {worst, worst, 0},
                .goal = {Goal::value_at_most, 2}};
  moment.more = {{"call", Json(at)}};
  moment.note = "a call against the same call in tier 1, at the worst one (medians of 5 processes)";
  Report(moment);
}

}  // namespace

void GpuShapeChurn() {
  CheckGpu();
  for (const Block& block : kBlocks) ReportChurn(block);
}

void GpuAttention() {
  CheckGpu();
  const Process ours = StartGpu(Tier::one), torch = StartTorch();
  struct Shape {
    int64_t b, h, kv, s, d;
    std::string_view which;
    bool is_gradient = false;
    int64_t window = 0;
  };
  for (const Shape& s : {Shape{4, 16, 16, 2048, 128, "full"},
                         {4, 16, 16, 4096, 128, "full"},
                         {2, 16, 16, 8192, 128, "full"},
                         {4, 16, 16, 4096, 128, "causal"},
                         {2, 16, 16, 16384, 128, "causal"},
                         {4, 32, 32, 4096, 64, "full"},
                         {4, 32, 8, 4096, 128, "causal"},
                         {4, 16, 16, 4096, 192, "full"},
                         {4, 16, 16, 4096, 192, "causal"},
                         {4, 16, 16, 4096, 256, "full"},
                         {4, 16, 16, 4096, 256, "causal"},
                         {4, 16, 16, 4096, 128, "mask"},
                         {4, 16, 16, 16384, 128, "causal", false, 1024},
                         {4, 16, 16, 4096, 128, "full", true},
                         {2, 16, 16, 8192, 128, "full", true},
                         {2, 16, 16, 8192, 128, "causal", true},
                         {4, 16, 16, 4096, 192, "full", true},
                         {4, 16, 16, 4096, 256, "full", true},
                         {4, 16, 16, 16384, 128, "causal", true, 1024}}) {
    std::ostringstream shape;
    shape << s.b << " " << s.h << " " << s.kv << " " << s.s << " " << s.d << " " << s.which;
    if (s.window > 0) shape << " window " << s.window;
    const std::string task = (s.is_gradient ? "attention_grad " : "attention ") + shape.str();
    std::vector<Timed> contenders = {PeerProcess::Task(ours, task)};
    std::vector<std::string> peers;
    // FlashAttention-2 takes no mask, and there is no peer for a window.
    if (s.which == "mask")
      AddPeer(contenders, peers, torch, "efficient_" + task, "PyTorch (memory-efficient)");
    else if (s.window == 0)
      AddPeer(contenders, peers, torch, task, "PyTorch (FlashAttention-2)");
    if (s.window == 0) AddPeer(contenders, peers, torch, "cudnn_" + task, "PyTorch (cuDNN)");
    const auto n = static_cast<double>(s.s), w = static_cast<double>(s.window);
    // Scores that are there: all, the lower half, or a band of it.
    const double scores = s.window > 0 ? n * w - w * w / 2 : s.which == "causal" ? n * n / 2 : n * n;
    // Two products, five in the gradient.
    const double flop = (s.is_gradient ? 10.0 : 4.0) * static_cast<double>(s.b * s.h * s.d) * scores;
    std::string name = shape.str();
    std::replace(name.begin(), name.end(), ' ', '_');
    Report(
        {.name = std::string("gpu_attention/") + (s.is_gradient ? "gradient_" : "") + "bf16_" + name,
         .unit = Rate("TFLOP/s", flop * 1e-12),
         .goal = s.window > 0 ? Goal() : Goal{Goal::ratio_at_least, s.is_gradient ? 0.9 : 1.0},
         .note = "tier 1: batch, heads, heads of keys, length, columns; the mask is added, one for all heads; causal "
                 "may have a window"},
        RunRace(contenders, Budget()), peers);
  }
}

void GpuDecode() {
  CheckGpu();
  const Process ours = StartGpu(Tier::one), raw = StartRaw(), torch = StartTorch();
  struct Shape {
    int64_t b, h, kv, s, d;
  };
  for (const Shape& s :
       {Shape{128, 32, 8, 8192, 128}, {16, 32, 32, 4096, 128}, {64, 12, 12, 1024, 64}, {1, 32, 8, 8192, 128}}) {
    std::ostringstream task;
    task << "decode " << s.b << " " << s.h << " " << s.kv << " " << s.s << " " << s.d;
    const auto bytes = 4.0 * static_cast<double>(s.b * s.kv * s.s * s.d);
    std::vector<Timed> contenders = {PeerProcess::Task(ours, task.str())};
    std::vector<std::string> peers;
    AddPeer(contenders, peers, raw, "copy " + std::to_string(static_cast<int64_t>(bytes / 2)),
            "a copy of the same bytes");
    AddPeer(contenders, peers, torch, task.str(), "PyTorch (FlashAttention-2)");
    AddPeer(contenders, peers, torch, "cudnn_" + task.str(), "PyTorch (cuDNN)");
    std::string name = task.str().substr(7);
    std::replace(name.begin(), name.end(), ' ', '_');
    Report({.name = "gpu_decode/bf16_" + name,
            .unit = Rate("GB/s", bytes * 1e-9),
            .goal = {Goal::ratio_at_least, 0.9},
            .note = "tier 1, one query: batch, heads, heads of keys, keys, columns; bytes of keys and values"},
           RunRace(contenders, Budget()), peers);
  }
  // PyTorch has none to compare with.
  const std::string sizes = "128 32 8 8192 128";
  for (const std::string first : {"positions", "heads"}) {
    std::vector<Timed> contenders = {PeerProcess::Task(ours, "paged_decode " + sizes + " 64 " + first)};
    std::vector<std::string> peers;
    AddPeer(contenders, peers, ours, "decode " + sizes, "the same without pages");
    Report({.name = "gpu_decode/bf16_128_32_8_8192_128_paged_" + first,
            .unit = Rate("GB/s", 4.0 * 128 * 8 * 8192 * 128 * 1e-9),
            .goal = {Goal::ratio_at_least, 0.95},
            .note = "as above, keys and values in pages of 64 positions in random order, in whose memory " + first +
                    " come first"},
           RunRace(contenders, Budget()), peers);
  }
}

void GpuUntil() {
  CheckGpu();
  const Process ours = StartGpu(Tier::all), reading = StartGpu(Tier::all, {"TESSERA_RUN_AHEAD=0"}),
                torch = StartTorch();
  std::vector<Timed> contenders = {PeerProcess::Task(ours, "until")};
  std::vector<std::string> peers;
  AddPeer(contenders, peers, reading, "until", "the same with branches read back");
  AddPeer(contenders, peers, torch, "until", "PyTorch eager");
  Report({.name = "gpu_until/solve_512",
          .unit = {"us an iteration", 1e6 / kIterations, false},
          .note = "a loop that ends when what the device computed is small: four small kernels and a product"},
         RunRace(contenders, Budget()), peers);
}

void GpuOps() {
  CheckGpu();
  const Process ours = StartGpu(Tier::one), raw = StartRaw(), torch = StartTorch();
  for (const Op& op : kOps) {
    const std::string task = std::string("op ") + op.task;
    std::vector<Timed> contenders = {PeerProcess::Task(ours, task)};
    std::vector<std::string> peers;
    AddPeer(contenders, peers, torch, task, "PyTorch eager");
    AddPeer(contenders, peers, raw, "copy " + std::to_string(static_cast<int64_t>(op.bytes / 2)),
            "a copy of the same bytes");
    Report({.name = std::string("gpu_ops/") + op.task,
            .unit = Rate("GB/s", op.bytes * 1e-9),
            .goal = {Goal::ratio_at_least, 1},
            .note = "tier 1, bf16, 16384x4096"},
           RunRace(contenders, Budget()), peers);
  }
}

void GpuMoves() {
  CheckGpu();
  const Process ours = StartGpu(Tier::all), tier1 = StartGpu(Tier::one), raw = StartRaw();
  for (const Move& move : kMoves) {
    const std::string task = std::string("move ") + move.task;
    std::vector<Timed> contenders = {PeerProcess::Task(ours, task), PeerProcess::Task(tier1, task)};
    std::vector<std::string> peers = {"tier 1"};
    AddPeer(contenders, peers, raw, "copy " + std::to_string(static_cast<int64_t>(move.bytes / 2)),
            "a copy of the same bytes");
    Figure figure{.name = std::string("gpu_moves/") + move.task, .unit = Rate("GB/s", move.bytes * 1e-9)};
    const Race race = RunRace(contenders, Budget());
    figure.more = {{"generated_kernels", Json(PeerProcess::Task(ours, "generated " + task)(1))}};
    Report(figure, race, peers);
  }
}

}  // namespace bench
