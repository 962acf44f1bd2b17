// A small transformer and the job that trains it, for the tests of the training library.
#ifndef TESSERA_TESTS_UNIT_TRAIN_TESTING_H_
#define TESSERA_TESTS_UNIT_TRAIN_TESTING_H_

#include <string>
#include <vector>

#include "tessera/data.h"
#include "tessera/nn.h"
#include "tessera/ops.h"
#include "tessera/optim.h"

namespace tessera {

struct SmallGpt {
  static constexpr int64_t kVocabulary = 32, kWidth = 16, kContext = 32;
  explicit SmallGpt(const nn::Params& params, double dropout = 0, int64_t layers = 2)
      : tokens(params / "tokens", kVocabulary, kWidth),
        positions(params / "positions", kContext, kWidth),
        norm(params / "norm", kWidth) {
    nn::Block::Options options;
    options.attention.heads = 2;
    options.attention.dropout = dropout;
    options.activation = nn::Activation::gelu_tanh;
    for (int64_t i = 0; i < layers; ++i) blocks.emplace_back(params / "block" / i, kWidth, options);
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

inline data::Tokens SmallText() {
  std::string text;
  uint32_t state = 1;
  for (int i = 0; i < 3000; ++i) {
    state = state * 1664525 + 1013904223;
    text += static_cast<char>((i * i / 7 + (state >> 30)) % SmallGpt::kVocabulary);
  }
  return data::Tokens::of(text);
}

/// Everything that a job has, and one step of it.
struct SmallJob {
  explicit SmallJob(uint64_t seed = 1, double dropout = 0, DType dtype = f32)
      : params(seed, dtype), model(params, dropout), optimizer(params, {.rate = 3e-3, .decay = 0.1, .clip = 1}) {
    optimizer.schedule(optim::warmup_cosine(3e-3, 5, 60));
  }
  Tensor step() {
    const auto [x, y] = batches.next();
    auto [loss, grads] = nn::value_and_grad(params, [&] { return model.loss(x, y); });
    optimizer.step(grads);
    return loss;
  }
  nn::Params params;
  SmallGpt model;
  optim::AdamW optimizer;
  data::Batches batches{SmallText(), {.batch = 4, .length = 16, .seed = 3}};
};

}  // namespace tessera

#endif  // TESSERA_TESTS_UNIT_TRAIN_TESTING_H_
