// Trains a GPT from the start of a process and prints what it did as one JSON object; train_gpt.cc runs it.
//
//   tessera_train_gpt SIZE STEPS DEVICE F32|BF16 STARTED    STARTED: seconds on the steady clock when it was executed
//
// SIZE is tiny, 10m or 124m, or 124m_lengths: another sequence length in every step, 128 to 1024 by eights.
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
  Gpt(const nn::Params& params, const Size& size)
      : tokens(params / "tokens", size.vocabulary, size.width),
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
    return mean(cross_entropy(tokens.logits(norm(h)), y));
  }
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

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 6) return 2;
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
  Gpt gpt(params, *size);
  if (std::strcmp(argv[4], "BF16") == 0) params.cast(bf16);
  optim::AdamW optimizer(params, {.rate = 3e-4, .decay = 0.1, .clip = 1.0});
  std::vector<double> ends;
  double first = 0, loss_value = 0, half_versions = 0, half_ops = 0;
  for (int step = 0; step < steps; ++step) {
    auto [x, y] = batches.next();
    if (lengths) {
      const int64_t length = 128 + 8 * (step * 37 % 113);
      x = slice(x, {0, 0}, {size->batch, length});
      y = slice(y, {0, 0}, {size->batch, length});
    }
    auto [loss, grads] = nn::value_and_grad(params, [&] { return gpt.loss(x, y); });
    optimizer.step(grads);
    if (step == 0 || step % kChunk == kChunk - 1) {
      loss_value = loss.item<double>();
      ends.push_back(Now());
      if (step == 0) first = ends.back() - started;
    }
    if (step == steps / 2) half_versions = Metric("version_ops"), half_ops = Metric("ops_executed");
  }
  std::vector<double> late;
  for (size_t i = ends.size() / 2 + 1; i < ends.size(); ++i) late.push_back((ends[i] - ends[i - 1]) / kChunk);
  std::sort(late.begin(), late.end());
  const double versions = Metric("version_ops") - half_versions, ops = Metric("ops_executed") - half_ops;
  std::printf(
      "{\"first_s\": %.4f, \"all_s\": %.4f, \"step_s\": %.6f, \"best_s\": %.6f, \"in_versions\": %.4f, "
      "\"parameters\": %lld, \"peak_bytes\": %lld, \"loss\": %.4f}\n",
      first, ends.back() - started, late.empty() ? 0.0 : late[late.size() / 2], late.empty() ? 0.0 : late[0],
      versions / std::max(versions + ops, 1.0), static_cast<long long>(params.count()),
      static_cast<long long>(Runtime::memory(Runtime::device()).peak_bytes), loss_value);
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "tessera_train_gpt: %s\n", e.what());
  return 1;
}
