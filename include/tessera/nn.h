// Networks on the public API: parameters as a tree with names, and modules that are plain values with a call operator.
//
//   nn::Params params(/*seed=*/1);
//   nn::Linear first(params / "first", 4, 8), second(params / "second", 8, 1);
//   auto [loss, grads] = nn::value_and_grad(params, [&] { return mean(square(second(tanh(first(x))) - y)); });
//
// A module holds handles to its parameters: a copy of a module shares them. What a module needs beyond that is given
// with the call. A tree and its modules belong to one thread at a time. docs/training.md has the whole story.
#ifndef TESSERA_NN_H_
#define TESSERA_NN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/autodiff.h"
#include "tessera/tensor.h"

namespace tessera::nn {

/// How a parameter begins. Random numbers follow from the tree's seed and the parameter's name alone, so that a model
/// begins the same however its parts are ordered, on every device.
struct Init {
  enum class Kind { constant, normal, uniform };
  Kind kind = Kind::constant;
  double a = 0;  // the constant, the standard deviation, or the bound on both sides
};
constexpr Init constant(double value) { return {Init::Kind::constant, value}; }
constexpr Init normal(double deviation) { return {Init::Kind::normal, deviation}; }
constexpr Init uniform(double bound) { return {Init::Kind::uniform, bound}; }
/// Normal with variance 2 / inputs, for what a relu follows.
TSR_API Init kaiming(int64_t inputs);
/// Uniform with variance 2 / (inputs + outputs).
TSR_API Init xavier(int64_t inputs, int64_t outputs);

struct Parameter {
  std::string name;  // "block.0.mlp.up.weight"
  Tensor value;
  bool trainable = true;  // false: no gradient, no update
};
using Param = std::shared_ptr<Parameter>;

/// The parameters of a model, in the order they were added. A handle, and a place in the tree: `params / "block" / 3`
/// names what is added through it "block.3.<name>", and lists what lies below that place. Copies share the tree.
class TSR_API Params {
 public:
  explicit Params(uint64_t seed = 0, DType dtype = f32);

  Params operator/(std::string_view name) const;
  Params operator/(int64_t number) const;
  /// A new parameter; throws Error where the name is taken.
  Param add(std::string_view name, const Dims& dims, const Init& init) const;
  /// One that exists, so that two modules share it: a tied embedding.
  Param find(std::string_view name) const;

  std::vector<Param> all() const;
  std::vector<Param> trainable() const;
  std::vector<Tensor> values() const;  // of the trainable ones
  /// Freezes or unfreezes everything below this place.
  void set_trainable(bool trainable) const;
  /// Casts the floating parameters below this place. An optimiser that is made after this keeps f32 copies.
  void cast(DType dtype) const;
  /// Switches what differs between training and evaluation (dropout), for the whole tree.
  void set_training(bool training) const;
  bool training() const;

  /// Numbers in all parameters below this place.
  int64_t count() const;
  /// One line for each parameter.
  std::string to_string() const;

 private:
  friend class Dropout;
  struct Tree;
  std::shared_ptr<Tree> tree_;
  std::string prefix_;
};

struct Gradients {
  Tensor loss;
  std::vector<Tensor> grads;  // one for each of params.trainable()
};
/// f(), and its gradient with respect to the trainable parameters. `scale` (a scalar; none: 1) multiplies the loss
/// before it is differentiated, for f16: see optim::Optimizer::loss_scale(). The loss that is given is not scaled.
TSR_API Gradients value_and_grad(const Params& params, const std::function<Tensor()>& f, const Tensor& scale = {});

// ---- modules

/// x W + b, with W [inputs, outputs].
class TSR_API Linear {
 public:
  Linear(const Params& params, int64_t inputs, int64_t outputs, bool bias = true, const Init& init = normal(0.02));
  Tensor operator()(const Tensor& x) const;
  Param weight, bias;
};

/// Rows of a table by number.
class TSR_API Embedding {
 public:
  Embedding(const Params& params, int64_t count, int64_t width, const Init& init = normal(0.02));
  Tensor operator()(const Tensor& ids) const;
  /// x times the transposed table: logits of a model whose output shares its table with its input.
  Tensor logits(const Tensor& x) const;
  /// The cross entropy of those logits, one loss per row of x, without all of them in memory.
  Tensor loss(const Tensor& x, const Tensor& targets, int64_t ignore = -100) const;
  Param weight;
};

class TSR_API LayerNorm {
 public:
  LayerNorm(const Params& params, int64_t width, double eps = 1e-5);
  Tensor operator()(const Tensor& x) const;
  Param weight, bias;
  double eps;
};

class TSR_API RmsNorm {
 public:
  RmsNorm(const Params& params, int64_t width, double eps = 1e-6);
  Tensor operator()(const Tensor& x) const;
  Param weight;
  double eps;
};

/// Convolution of x [N, C, spatial...] by W [outputs, inputs / groups, window...].
class TSR_API Conv {
 public:
  Conv(const Params& params, int64_t inputs, int64_t outputs, const Dims& window, const Dims& stride = {},
       const Dims& padding = {}, int64_t groups = 1, bool bias = true);
  Tensor operator()(const Tensor& x) const;
  Param weight, bias;
  Dims stride, padding;
  int64_t groups;
};

/// While the tree is in training, sets each number to 0 with probability `rate` and divides the others by 1 - rate.
class TSR_API Dropout {
 public:
  Dropout(const Params& params, double rate);
  Tensor operator()(const Tensor& x) const;
  double rate;

 private:
  std::shared_ptr<Params::Tree> tree_;
};

struct AttentionOptions {
  int64_t heads = 1;
  int64_t groups = 0;    // heads of keys and values, which heads share evenly; 0: as many as heads
  bool causal = true;    // a place sees itself and what is before it
  int64_t window = 0;    // a place sees itself and window - 1 places before it; 0: all of them
  bool rotary = false;   // turn queries and keys by their place
  double base = 10000;   // of the rotation
  bool bias = true;      // in the projections
  double out_scale = 1;  // of the initial output projection: 1 / sqrt(2 * layers) in GPT-2
  double dropout = 0;    // of what it gives
};
/// Self-attention over x [B, S, width].
class TSR_API Attention {
 public:
  Attention(const Params& params, int64_t width, const AttentionOptions& options);
  Tensor operator()(const Tensor& x) const;
  AttentionOptions options;
  Linear qkv, out;
  Dropout dropout;
};

enum class Activation { relu, gelu, gelu_tanh, silu, silu_gated };
/// width -> hidden -> width. silu_gated is SwiGLU: silu(x G) * (x U), then down.
class TSR_API Mlp {
 public:
  Mlp(const Params& params, int64_t width, int64_t hidden, Activation activation = Activation::gelu, bool bias = true,
      double out_scale = 1, double dropout = 0);
  Tensor operator()(const Tensor& x) const;
  Activation activation;
  Linear up, down;
  Dropout dropout;
};

/// A transformer block that normalises first: x + attention(norm(x)), then x + mlp(norm(x)).
class TSR_API Block {
 public:
  struct Options {
    AttentionOptions attention;
    int64_t hidden = 0;  // 0: four times the width
    Activation activation = Activation::gelu;
  };
  Block(const Params& params, int64_t width, const Options& options);
  Tensor operator()(const Tensor& x) const;
  LayerNorm norm1;
  Attention attention;
  LayerNorm norm2;
  Mlp mlp;
};

}  // namespace tessera::nn

#endif  // TESSERA_NN_H_
