// A GPT that learns to write this repository's documentation, byte by byte. A plain loop: nothing in it says what to
// record or to compile.
//
//   gpt                                    a tiny one, on the CPU
//   gpt --size 10m --steps 500             10 million parameters
//   gpt --size 124m --device cuda --bf16   GPT-2, batches of 16 x 1024
//   gpt ... --chunked                      logits of some rows at a time: less memory, and one more product
//   gpt --run DIR                          with checkpoints; goes on where it was stopped
#include <tessera/data.h>
#include <tessera/nn.h>
#include <tessera/optim.h>
#include <tessera/tessera.h>
#include <tessera/train.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace tessera;

namespace {

struct Size {
  const char* name;
  int64_t layers, heads, width, vocabulary, context, batch;
};
constexpr Size kSizes[] = {
    {"tiny", 2, 4, 64, 256, 64, 8}, {"10m", 6, 6, 384, 256, 128, 4}, {"124m", 12, 12, 768, 50304, 1024, 16}};

struct Gpt {
  Gpt(const nn::Params& params, const Size& size)
      : tokens(params / "tokens", size.vocabulary, size.width),
        positions(params / "positions", size.context, size.width),
        norm(params / "norm", size.width) {
    nn::Block::Options options;
    options.attention.heads = size.heads;
    options.attention.out_scale = 1 / std::sqrt(2.0 * static_cast<double>(size.layers));
    options.activation = nn::Activation::gelu_tanh;
    for (int64_t i = 0; i < size.layers; ++i) blocks.emplace_back(params / "block" / i, size.width, options);
  }
  Tensor hidden(const Tensor& x) const {
    Tensor h = tokens(x) + positions(arange(x.dim(1)));
    for (const nn::Block& block : blocks) h = block(h);
    return norm(h);
  }
  Tensor logits(const Tensor& x) const { return tokens.logits(hidden(x)); }
  Tensor loss(const Tensor& x, const Tensor& y, bool chunked) const {
    return mean(chunked ? tokens.loss(hidden(x), y) : cross_entropy(logits(x), y));
  }
  nn::Embedding tokens, positions;
  std::vector<nn::Block> blocks;
  nn::LayerNorm norm;
};

std::string Write(const Gpt& gpt, const Size& size, std::string text, int count) {
  for (int i = 0; i < count; ++i) {
    const size_t length = std::min<size_t>(text.size(), static_cast<size_t>(size.context));
    const std::vector<uint8_t> last(text.end() - static_cast<long>(length), text.end());
    const Tensor x = Tensor::from(last, {1, static_cast<int64_t>(length)}).cast(i32);
    const Tensor next = gpt.logits(x)[0][-1].cast(f32) * 1.25;
    // The largest of logits with Gumbel noise is a draw from their distribution.
    text += static_cast<char>(argmax(next - log(-log(rand(next.dims()) + 1e-9)), 0).item<int64_t>());
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  Size size = kSizes[0];
  int64_t steps = 1000, every = 50;
  std::string text = EXAMPLE_TEXT, run;
  bool narrow = false, chunked = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (word == "--steps")
      steps = std::atoll(value().c_str());
    else if (word == "--every")
      every = std::atoll(value().c_str());
    else if (word == "--text")
      text = value();
    else if (word == "--run")
      run = value();
    else if (word == "--bf16")
      narrow = true;
    else if (word == "--chunked")
      chunked = true;
    else if (word == "--device")
      Runtime::set_device(Device::find(value()).value());
    else if (word == "--batch")
      size.batch = std::atoll(value().c_str());
    else if (word == "--size") {
      const std::string name = value();
      for (const Size& s : kSizes)
        if (name == s.name) size = s;
    } else {
      std::fprintf(stderr,
                   "usage: gpt [--size tiny|10m|124m] [--steps N] [--every N] [--batch N] [--text FILE] "
                   "[--run DIR] [--device NAME] [--bf16] [--chunked]\n");
      return 2;
    }
  }

  manual_seed(1);
  nn::Params params(/*seed=*/1);
  Gpt gpt(params, size);
  if (narrow) params.cast(bf16);
  optim::AdamW optimizer(params, {.decay = 0.1, .clip = 1.0}, 0.9, 0.95);
  optimizer.schedule(optim::warmup_cosine(size.width > 500 ? 6e-4 : 2e-3, steps / 20 + 1, steps, 1e-4));
  data::Batches batches(data::Tokens::open(text).value(), {.batch = size.batch, .length = size.context, .seed = 1});
  train::Monitor monitor({.every = every,
                          .total = steps,
                          .tokens_per_step = size.batch * size.context,
                          .metrics_file = run.empty() ? "" : run + ".jsonl"});
  train::Checkpoints checkpoints(run);
  train::StopSignal stop;
  if (!run.empty()) {
    if (auto found = checkpoints.load(params, optimizer); found.ok()) {
      batches.seek(found->numbers["batches"]);
      std::fprintf(stderr, "going on after step %lld\n", static_cast<long long>(found->step));
    }
  }
  const auto save = [&] {
    if (run.empty()) return;
    if (const Status s = checkpoints.save(params, optimizer, {{"batches", batches.position()}}); !s.ok())
      std::fprintf(stderr, "no checkpoint: %s\n", s.message().c_str());
  };

  std::fprintf(stderr, "%lld parameters\n", static_cast<long long>(params.count()));
  while (optimizer.steps() < steps && !stop.requested()) {
    const auto [x, y] = batches.next();
    auto [loss, grads] = nn::value_and_grad(params, [&] { return gpt.loss(x, y, chunked); });
    optimizer.step(grads);
    monitor.step(optimizer.steps(), loss);
    if (optimizer.steps() % 500 == 0) save();
  }
  save();
  params.set_training(false);
  if (size.vocabulary == 256) std::printf("%s\n", Write(gpt, size, "A version is ", 200).c_str());
  std::fprintf(stderr, "\n%s", Runtime::explain().c_str());
} catch (const Error& e) {
  std::fprintf(stderr, "gpt: %s\n", e.what());
  return 1;
}
