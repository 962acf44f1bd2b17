// Optimisers and modules against formulas written out on the host, in f64.
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/nn.h"
#include "tessera/ops.h"
#include "tessera/optim.h"
#include "tiers_testing.h"

namespace tessera {
namespace {

using Doubles = std::vector<double>;

std::string MessageOf(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

void ExpectNear(const Tensor& x, const Doubles& want, double bound) {
  const Doubles values = x.to_vector<double>();
  ASSERT_EQ(values.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(values[i], want[i], bound * (1 + std::abs(want[i]))) << i;
}

// One matrix and one bias with gradients that change from step to step.
struct Problem {
  nn::Params params{3, f64};
  nn::Linear layer{params / "layer", 2, 3, true, nn::normal(1)};
  std::vector<Tensor> GradsAt(int step) const {
    return {random_normal(11, step * 100, {2, 3}, 0, 1, f64), random_normal(12, step * 100, {3}, 0, 1, f64)};
  }
};

TEST(TrainOptim, SgdIsItsFormula) {
  for (const bool nesterov : {false, true}) {
    Problem p;
    optim::Sgd sgd(p.params, {.rate = 0.1, .decay = 0.01}, 0.8, nesterov);
    Doubles w = p.layer.weight->value.to_vector<double>(), v(6);
    for (int step = 0; step < 5; ++step) {
      const std::vector<Tensor> g = p.GradsAt(step);
      sgd.step(g);
      const Doubles gw = g[0].to_vector<double>();
      for (size_t i = 0; i < 6; ++i) {
        v[i] = 0.8 * v[i] + gw[i];
        w[i] -= 0.1 * ((nesterov ? gw[i] + 0.8 * v[i] : v[i]) + 0.01 * w[i]);
      }
      ExpectNear(p.layer.weight->value, w, 1e-14);
    }
  }
}

TEST(TrainOptim, AdamWIsItsFormulaAndBiasesDoNotDecay) {
  Problem p;
  optim::AdamW adam(p.params, {.rate = 0.1, .decay = 0.5}, 0.9, 0.99, 1e-8);
  adam.schedule(optim::warmup_cosine(0.1, 2, 6));
  const double rates[] = {0.05, 0.1, 0.1, 0.05 * (1 + std::cos(M_PI / 4)), 0.05};
  for (int which = 0; which < 2; ++which) EXPECT_DOUBLE_EQ(optim::warmup_cosine(0.1, 2, 6)(which), rates[which]);
  Doubles w = p.layer.weight->value.to_vector<double>(), m(6), v(6);
  Doubles b(3), bm(3), bv(3);
  for (int step = 0; step < 5; ++step) {
    const std::vector<Tensor> g = p.GradsAt(step);
    EXPECT_DOUBLE_EQ(adam.rate(), rates[step]);
    adam.step(g);
    const auto update = [&](Doubles& x, Doubles& m, Doubles& v, const Doubles& g, double decay) {
      for (size_t i = 0; i < x.size(); ++i) {
        m[i] = 0.9 * m[i] + 0.1 * g[i];
        v[i] = 0.99 * v[i] + 0.01 * g[i] * g[i];
        const double mh = m[i] / (1 - std::pow(0.9, step + 1)), vh = v[i] / (1 - std::pow(0.99, step + 1));
        x[i] -= rates[step] * (mh / (std::sqrt(vh) + 1e-8) + decay * x[i]);
      }
    };
    update(w, m, v, g[0].to_vector<double>(), 0.5);
    update(b, bm, bv, g[1].to_vector<double>(), 0);
    ExpectNear(p.layer.weight->value, w, 1e-12);
    ExpectNear(p.layer.bias->value, b, 1e-12);
  }
}

TEST(TrainOptim, LionIsItsFormula) {
  Problem p;
  optim::Lion lion(p.params, {.rate = 0.01, .decay = 0.1});
  Doubles w = p.layer.weight->value.to_vector<double>(), m(6);
  for (int step = 0; step < 5; ++step) {
    const std::vector<Tensor> g = p.GradsAt(step);
    lion.step(g);
    const Doubles gw = g[0].to_vector<double>();
    for (size_t i = 0; i < 6; ++i) {
      const double c = 0.9 * m[i] + 0.1 * gw[i];
      w[i] -= 0.01 * ((c > 0 ? 1.0 : c < 0 ? -1.0 : 0.0) + 0.1 * w[i]);
      m[i] = 0.99 * m[i] + 0.01 * gw[i];
    }
    ExpectNear(p.layer.weight->value, w, 1e-14);
  }
}

TEST(TrainOptim, GroupsMasksAndFrozenParameters) {
  Problem p;
  const optim::Group biases{[](const nn::Parameter& q) { return q.name.ends_with("bias"); }, 10, 0};
  optim::Options options{.rate = 0.1};
  options.groups = {biases};
  optim::Sgd sgd(p.params, options, 0);
  const Doubles w = p.layer.weight->value.to_vector<double>();
  sgd.step({ones({2, 3}, f64), ones({3}, f64)});
  ExpectNear(p.layer.bias->value, {-1, -1, -1}, 1e-15);
  p.layer.weight->trainable = false;
  const Tensor frozen = p.layer.weight->value;
  sgd.step({ones({3}, f64)});
  ExpectNear(p.layer.bias->value, {-2, -2, -2}, 1e-15);
  EXPECT_TRUE(p.layer.weight->value.shares_storage_with(frozen));
  EXPECT_EQ(MessageOf([&] { sgd.step({}); }), "Optimizer::step: given 0 gradients for 1 trainable parameters");
  EXPECT_EQ(MessageOf([&] { sgd.step({ones({2})}); }),
            "Optimizer::step: the gradient of layer.bias, f64[3], is f32[2]");
  ExpectNear(p.layer.bias->value, {-2, -2, -2}, 1e-15);
}

TEST(TrainOptim, ClippingByTheNormOfAll) {
  Problem p;
  optim::Sgd sgd(p.params, {.rate = 1, .clip = 0.5}, 0);
  const Tensor before = p.layer.weight->value;
  sgd.step({full({2, 3}, 2.0, f64), full({3}, 1.0, f64)});
  const double norm = std::sqrt(6 * 4.0 + 3);
  EXPECT_NEAR(sgd.norm().item<double>(), norm, 1e-12);
  ExpectNear(before - p.layer.weight->value, Doubles(6, 2 * 0.5 / (norm + 1e-6)), 1e-12);
  // A small one stays as it is.
  const Tensor again = p.layer.weight->value;
  sgd.step({full({2, 3}, 0.01, f64), full({3}, 0.0, f64)});
  ExpectNear(again - p.layer.weight->value, Doubles(6, 0.01), 1e-12);
}

TEST(TrainOptim, NarrowParametersHaveWideOnesBehindThem) {
  nn::Params params(1);
  nn::Linear layer(params, 2, 2, false, nn::constant(1));
  params.cast(bf16);
  optim::Sgd sgd(params, {.rate = 1}, 0);
  // 2^-12 is lost in a bf16 of 1; sixteen of them are not.
  for (int i = 0; i < 16; ++i) sgd.step({full({2, 2}, std::ldexp(1.0, -12), bf16)});
  EXPECT_EQ(layer.weight->value.dtype(), bf16);
  ExpectNear(layer.weight->value, Doubles(4, 1 - std::ldexp(1.0, -8)), 1e-9);
  ExpectNear(sgd.state().at("weight/master"), Doubles(4, 1 - std::ldexp(1.0, -8)), 1e-9);
}

TEST(TrainOptim, AStepThatOverflowsChangesNothingAndIsNotRead) {
  nn::Params params(1);
  nn::Linear layer(params, 2, 1, false, nn::constant(1));
  params.cast(f16);
  optim::Options options{.rate = 0.25};
  options.loss_scale = 1024;
  options.scale_interval = 3;
  optim::AdamW adam(params, options);
  const auto step = [&](double x) {
    const Tensor in = full({1, 2}, x, f16);
    auto [loss, grads] = nn::value_and_grad(params, [&] { return sum(layer(in)); }, adam.loss_scale());
    adam.step(grads);
  };
  step(1);
  const Doubles one = layer.weight->value.to_vector<double>();
  const Doubles mean = adam.state().at("weight/mean").to_vector<double>();
  EXPECT_NEAR(one[0], 0.75, 1e-3);
  step(1000);  // times 1024: infinite in f16
  EXPECT_EQ(layer.weight->value.to_vector<double>(), one);
  EXPECT_EQ(adam.state().at("weight/mean").to_vector<double>(), mean);
  EXPECT_EQ(adam.loss_scale().item<float>(), 512);
  EXPECT_EQ(adam.state().at("/applied").item<float>(), 1) << "the correction of the means counts updates";
  for (int i = 0; i < 3; ++i) step(1);
  EXPECT_EQ(adam.loss_scale().item<float>(), 1024) << "three good ones in a row";
  EXPECT_LT(layer.weight->value.to_vector<double>()[0], one[0]);
}

TEST(TrainOptim, StateGoesBackOrNothingChanges) {
  Problem a, b;
  optim::AdamW first(a.params, {.rate = 0.1}), second(b.params, {.rate = 0.1});
  for (int i = 0; i < 3; ++i) first.step(a.GradsAt(i));
  for (size_t i = 0; i < a.params.all().size(); ++i) b.params.all()[i]->value = a.params.all()[i]->value;
  second.load_state(first.state(), first.steps());
  first.step(a.GradsAt(3));
  second.step(b.GradsAt(3));
  EXPECT_EQ(a.layer.weight->value.to_bytes(), b.layer.weight->value.to_bytes());
  std::map<std::string, Tensor> bad = first.state();
  bad["layer.weight/mean"] = ones({2}, f64);
  EXPECT_EQ(MessageOf([&] { second.load_state(bad, 9); }),
            "Optimizer::load_state: layer.weight/mean is f64[2], where f64[2,3] is needed");
  bad.erase("layer.weight/mean");
  EXPECT_EQ(MessageOf([&] { second.load_state(bad, 9); }), "Optimizer::load_state: layer.weight/mean is missing");
  EXPECT_EQ(second.steps(), 4);
}

TEST(TrainNn, ParametersAreATreeWithNames) {
  nn::Params params(7);
  nn::Block block(params / "block" / 0, 8, {.attention = {.heads = 2}, .hidden = 16});
  EXPECT_EQ((params / "block" / 0 / "mlp").to_string(),
            "block.0.mlp.up.weight  f32[8,16]\nblock.0.mlp.up.bias  f32[16]\n"
            "block.0.mlp.down.weight  f32[16,8]\nblock.0.mlp.down.bias  f32[8]\n");
  EXPECT_EQ(MessageOf([&] { nn::LayerNorm(params / "block" / 0 / "norm1", 8); }),
            "Params: there is a parameter block.0.norm1.weight already; names are unique");
  // The same numbers whatever else there is.
  nn::Params other(7), seeded(8);
  const nn::Linear up(other / "block" / 0 / "mlp" / "up", 8, 16);
  EXPECT_EQ(up.weight->value.to_bytes(), block.mlp.up.weight->value.to_bytes());
  const nn::Linear different(seeded / "block" / 0 / "mlp" / "up", 8, 16);
  EXPECT_NE(different.weight->value.to_bytes(), up.weight->value.to_bytes());
  EXPECT_EQ(params.find("block.0.mlp.up.bias")->value.size(), 16);
  (params / "block" / 0 / "attention").set_trainable(false);
  EXPECT_EQ(params.trainable().size(), params.all().size() - 4);
}

TEST(TrainNn, GroupedRotaryAttentionSeesThePastAlone) {
  nn::Params params(7, f64);
  nn::Attention attention(params, 16, {.heads = 4, .groups = 2, .rotary = true});
  EXPECT_EQ(attention.qkv.weight->value.dims(), (Dims{16, 32}));
  const Tensor x = random_normal(1, 0, {2, 5, 16}, 0, 1, f64);
  Tensor other = x.clone();
  other.write<double>()[4 * 16] = 100;  // the last place of the first row
  const Doubles a = attention(x).to_vector<double>(), b = attention(other).to_vector<double>();
  for (size_t i = 0; i < 4 * 16; ++i) EXPECT_EQ(a[i], b[i]) << i;
  EXPECT_NE(a[4 * 16], b[4 * 16]);
  EXPECT_EQ(MessageOf([&] { nn::Attention(params / "a", 16, {.heads = 3}); }),
            "Attention: a width of 16 cannot be cut into 3 heads");
  EXPECT_EQ(MessageOf([&] { nn::Attention(params / "b", 16, {.heads = 4, .groups = 3}); }),
            "Attention: 4 heads cannot share 3 groups of keys evenly");
}

TEST(TrainNn, AWindowOfAttentionIsWhatAPlaceSees) {
  nn::Params params(7, f64);
  const nn::Attention attention(params, 16, {.heads = 2, .window = 3});
  const Tensor x = random_normal(1, 0, {1, 8, 16}, 0, 1, f64);
  Tensor other = x.clone();
  other.write<double>()[2 * 16] = 100;  // place 2, which places 2 to 4 see
  const Doubles a = attention(x).to_vector<double>(), b = attention(other).to_vector<double>();
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(a[i * 16] != b[i * 16], i >= 2 && i < 5) << i;
  EXPECT_EQ(MessageOf([&] { nn::Attention(params / "a", 16, {.causal = false, .window = 3}); }),
            "Attention: a window of 3 places needs causal");
  EXPECT_EQ(MessageOf([&] { nn::Attention(params / "b", 16, {.window = -1}); }),
            "Attention: a window of -1 places; 0 is none");
}

TEST(TrainNn, DropoutDropsInTrainingOnly) {
  manual_seed(1);
  nn::Params params;
  const nn::Dropout dropout(params, 0.25);
  const Tensor x = ones({100, 100});
  const Doubles y = dropout(x).to_vector<double>();
  int64_t zeros = 0;
  for (const double v : y) {
    zeros += v == 0;
    if (v != 0) EXPECT_NEAR(v, 4.0 / 3, 1e-6);
  }
  EXPECT_NEAR(static_cast<double>(zeros), 2500, 200);
  params.set_training(false);
  EXPECT_TRUE(dropout(x).shares_storage_with(x));
}

}  // namespace
}  // namespace tessera
