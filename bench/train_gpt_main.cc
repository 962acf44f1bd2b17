// Trains a GPT from the start of a process and prints what it did as one JSON object; train_gpt.cc runs it.
//
//   tessera_train_gpt SIZE STEPS DEVICE F32|BF16 STARTED [FILE] [--loss whole|chunked]
//
// STARTED: seconds on the steady clock when it was executed. With FILE, what recording a trace there costs is measured
// after STEPS steps: stretches of steps that are recorded and that are not, in turn.
// SIZE is tiny, 10m or 124m, or 124m_lengths: another sequence length in every step, 128 to 1024 by eights.
// --loss chunked: by linear_cross_entropy, which never has all logits in memory; whole, as without, has them all.
#include <tessera/data.h>
#include <tessera/nn.h>
#include <tessera/optim.h>
#include <tessera/tessera.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

namespace {

using namespace tessera;

struct Size {
  const char* name;
  int64_t layers, heads, width, vocabulary, context, batch;
};
constexpr Size kSizes[] = {{"tiny", 2, 4, 64, 256, 64, 8},
                           {"10m", 6, 6, 384, 256, 128, 4},
                           {"124m", 12, 12, 768, 50304, 1024, 16},
                           {"124m_lengths", 12, 12, 768, 50304, 1024, 16}};
constexpr int kChunk = 10;  // steps from one read of the loss to the next

struct Gpt {
  Gpt(const nn::Params& params, const Size& size, bool chunked)
      : chunked(chunked),
        tokens(params / "tokens", size.vocabulary, size.width),
        positions(params / "positions", size.context, size.width),
        norm(params / "norm", size.width) {
    nn::Block::Options options;
    options.attention.heads = size.heads;
    options.activation = nn::Activation::gelu_tanh;
    for (int64_t i = 0; i < size.layers; ++i) blocks.emplace_back(params / "block" / i, size.width, options);
  }
  Tensor loss(const Tensor& x, const Tensor& y) const {
    Tensor h = tokens(x) + positions(arange(x.dim(1)));
    for (const nn::Block& block : blocks) h = block(h);
    h = norm(h);
    return mean(chunked ? tokens.loss(h, y) : cross_entropy(tokens.logits(h), y));
  }
  bool chunked;
  nn::Embedding tokens, positions;
  std::vector<nn::Block> blocks;
  nn::LayerNorm norm;
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
double Metric(const char* name) {
  for (const MetricValue& m : Runtime::metrics())
    if (m.name == name) return static_cast<double>(m.value);
  return 0;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

/// `step(read)` trains one step, and with `read` waits for its loss.
void MeasureRecording(const std::function<void(bool read)>& step, const std::string& file) {
  constexpr int kSteps = 20, kRounds = 8;
  const auto stretch = [&](int steps) {
    step(true);
    const double start = Now();
    for (int i = 1; i <= steps; ++i) step(i == steps);
    return (Now() - start) / steps;
  };
  const auto recorded = [&](int steps, double* bytes) {
    const auto check = [](const Status& status) {
      if (!status.ok()) throw Error(status);
    };
    check(Runtime::trace_start(file));
    const double seconds = stretch(steps);
    check(Runtime::trace_stop());
    *bytes = static_cast<double>(std::filesystem::file_size(file));
    std::filesystem::remove(file);
    return seconds;
  };
  std::vector<double> before, with, without, ratios;
  double bytes = 0, more_bytes = 0;
  for (int i = 0; i < 4; ++i) before.push_back(stretch(kSteps));
  // The texts of stages are asked for once in a process: this one is not timed.
  (void)recorded(kSteps, &bytes);
  for (int i = 0; i < kRounds; ++i) {
    const double a1 = recorded(kSteps, &bytes), b1 = stretch(kSteps), b2 = stretch(kSteps),
                 a2 = recorded(kSteps, &bytes);
    for (const double a : {a1, a2}) with.push_back(a);
    for (const double b : {b1, b2}) without.push_back(b);
    ratios.push_back((b1 + b2) / (a1 + a2));
  }
  (void)recorded(2 * kSteps, &more_bytes);
  // What is in a file once, and what each step adds to it.
  const double each = (more_bytes - bytes) / kSteps, once = bytes - (kSteps + 1) * each;
  std::sort(ratios.begin(), ratios.end());
  std::printf(
      "{\"before_s\": %.6f, \"with_s\": %.6f, \"without_s\": %.6f, \"with_best_s\": %.6f, \"without_best_s\": %.6f, "
      "\"ratio\": %.6f, \"worst_ratio\": %.6f, \"best_ratio\": %.6f, \"bytes_once\": %.0f, \"bytes_each\": %.0f}\n",
      Median(before), Median(with), Median(without), *std::min_element(with.begin(), with.end()),
      *std::min_element(without.begin(), without.end()), ratios[ratios.size() / 2], ratios.front(), ratios.back(), once,
      each);
}

}  // namespace

int main(int argc, char** argv) try {
  bool chunked = false;
  if (argc > 2 && std::strcmp(argv[argc - 2], "--loss") == 0) {
    chunked = std::strcmp(argv[argc - 1], "chunked") == 0;
    if (!chunked && std::strcmp(argv[argc - 1], "whole") != 0) return 2;
    argc -= 2;
  }
  if (argc != 6 && argc != 7) return 2;
  const Size* size = std::find_if(std::begin(kSizes), std::end(kSizes),
                                  [&](const Size& s) { return std::strcmp(s.name, argv[1]) == 0; });
  if (size == std::end(kSizes)) return 2;
  const int steps = std::atoi(argv[2]);
  Runtime::set_device(Device::find(argv[3]).value());
  const double started = std::atof(argv[5]);
  const bool lengths = std::strstr(argv[1], "lengths") != nullptr;

  // Numbers that can be learned a little: each follows from the one before, with noise.
  std::string bytes;
  uint32_t state = 1;
  for (int i = 0; i < (1 << 20); ++i) {
    state = state * 1664525u + 1013904223u;
    bytes += static_cast<char>((state >> 29) == 0 ? state >> 24 : (bytes.empty() ? 0 : bytes.back() * 5 + 1));
  }
  data::Batches batches(data::Tokens::of(bytes), {.batch = size->batch, .length = size->context, .seed = 1});

  nn::Params params(1);
  Gpt gpt(params, *size, chunked);
  if (std::strcmp(argv[4], "BF16") == 0) params.cast(bf16);
  optim::AdamW optimizer(params, {.rate = 3e-4, .decay = 0.1, .clip = 1.0});
  std::vector<double> ends;
  double first = 0, loss_value = 0, half_versions = 0, half_ops = 0, half_runs = 0;
  const auto train = [&](int step, bool read) {
    auto [x, y] = batches.next();
    if (lengths) {
      const int64_t length = 128 + 8 * (step * 37 % 113);
      x = slice(x, {0, 0}, {size->batch, length});
      y = slice(y, {0, 0}, {size->batch, length});
    }
    auto [loss, grads] = nn::value_and_grad(params, [&] { return gpt.loss(x, y); });
    optimizer.step(grads);
    if (read) loss_value = loss.item<double>();
  };
  for (int step = 0; step < steps; ++step) {
    const bool read = step == 0 || step % kChunk == kChunk - 1;
    train(step, read);
    if (read) {
      ends.push_back(Now());
      if (step == 0) first = ends.back() - started;
    }
    if (step == steps / 2) {
      half_versions = Metric("version_ops");
      half_ops = Metric("ops_executed");
      half_runs = Metric("version_runs");
    }
  }
  if (argc == 7) {
    int step = steps;
    MeasureRecording([&](bool read) { train(step++, read); }, argv[6]);
    return 0;
  }
  std::vector<double> late;
  for (size_t i = ends.size() / 2 + 1; i < ends.size(); ++i) late.push_back((ends[i] - ends[i - 1]) / kChunk);
  std::sort(late.begin(), late.end());
  const double versions = Metric("version_ops") - half_versions, ops = Metric("ops_executed") - half_ops;
  const double runs = (Metric("version_runs") - half_runs) / std::max(steps - 1 - steps / 2, 1);
  // How many steps were done when.
  std::string at;
  for (size_t i = 0; i < ends.size(); ++i) {
    char pair[64];
    std::snprintf(pair, sizeof pair, "%s[%zu, %.4f]", at.empty() ? "" : ", ", i == 0 ? 1 : i * kChunk,
                  ends[i] - started);
    at += pair;
  }
  std::printf(
      "{\"first_s\": %.4f, \"all_s\": %.4f, \"steps_done\": %d, \"step_s\": %.6f, \"best_s\": %.6f, "
      "\"at\": [%s], \"in_versions\": %.4f, \"runs_a_step\": %.4f, \"parameters\": %lld, \"peak_bytes\": %lld, "
      "\"loss\": %.4f}\n",
      first, ends.back() - started, steps, late.empty() ? 0.0 : late[late.size() / 2], late.empty() ? 0.0 : late[0],
      at.c_str(), versions / std::max(versions + ops, 1.0), runs, static_cast<long long>(params.count()),
      static_cast<long long>(Runtime::memory(Runtime::device()).peak_bytes), loss_value);
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "tessera_train_gpt: %s\n", e.what());
  return 1;
}
