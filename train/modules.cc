// The modules: each is its parameters and its formula.
#include <cmath>

#include "tessera/nn.h"
#include "tessera/ops.h"

namespace tessera::nn {

namespace {

[[noreturn]] void Refuse(const std::string& message) { throw Error(Status(Code::invalid_argument, message)); }

int64_t Product(const Dims& dims) {
  int64_t product = 1;
  for (const int64_t d : dims) product *= d;
  return product;
}

AttentionOptions Checked(AttentionOptions options, int64_t width) {
  if (options.groups == 0) options.groups = options.heads;
  if (options.heads < 1 || width % options.heads != 0)
    Refuse("Attention: a width of " + std::to_string(width) + " cannot be cut into " + std::to_string(options.heads) +
           " heads");
  if (options.groups < 1 || options.heads % options.groups != 0)
    Refuse("Attention: " + std::to_string(options.heads) + " heads cannot share " + std::to_string(options.groups) +
           " groups of keys evenly");
  if (options.window < 0 || (options.window > 0 && !options.causal))
    Refuse("Attention: a window of " + std::to_string(options.window) +
           (options.window < 0 ? " places; 0 is none" : " places needs causal"));
  if (options.rotary && width / options.heads % 2 != 0)
    Refuse("Attention: rotary needs heads of an even width, not " + std::to_string(width / options.heads));
  return options;
}

}  // namespace

Linear::Linear(const Params& params, int64_t inputs, int64_t outputs, bool bias, const Init& init)
    : weight(params.add("weight", {inputs, outputs}, init)),
      bias(bias ? params.add("bias", {outputs}, constant(0)) : nullptr) {}
Tensor Linear::operator()(const Tensor& x) const {
  const Tensor y = matmul(x, weight->value);
  return bias ? y + bias->value : y;
}

Embedding::Embedding(const Params& params, int64_t count, int64_t width, const Init& init)
    : weight(params.add("weight", {count, width}, init)) {}
Tensor Embedding::operator()(const Tensor& ids) const { return embedding(weight->value, ids); }
Tensor Embedding::logits(const Tensor& x) const { return matmul(x, weight->value, false, true); }
Tensor Embedding::loss(const Tensor& x, const Tensor& targets, int64_t ignore) const {
  return linear_cross_entropy(x, weight->value, targets, ignore);
}

LayerNorm::LayerNorm(const Params& params, int64_t width, double eps)
    : weight(params.add("weight", {width}, constant(1))), bias(params.add("bias", {width}, constant(0))), eps(eps) {}
Tensor LayerNorm::operator()(const Tensor& x) const { return layer_norm(x, weight->value, bias->value, 1, eps); }

RmsNorm::RmsNorm(const Params& params, int64_t width, double eps)
    : weight(params.add("weight", {width}, constant(1))), eps(eps) {}
Tensor RmsNorm::operator()(const Tensor& x) const { return rms_norm(x, weight->value, 1, eps); }

Conv::Conv(const Params& params, int64_t inputs, int64_t outputs, const Dims& window, const Dims& stride,
           const Dims& padding, int64_t groups, bool bias)
    : stride(stride), padding(padding), groups(groups) {
  if (groups < 1 || inputs % groups != 0 || outputs % groups != 0)
    Refuse("Conv: " + std::to_string(inputs) + " inputs and " + std::to_string(outputs) +
           " outputs cannot be cut into " + std::to_string(groups) + " groups");
  std::vector<int64_t> dims = {outputs, inputs / groups};
  dims.insert(dims.end(), window.begin(), window.end());
  weight = params.add("weight", dims, kaiming(inputs / groups * Product(window)));
  if (bias) this->bias = params.add("bias", {outputs}, constant(0));
}
Tensor Conv::operator()(const Tensor& x) const {
  return conv(x, weight->value, bias ? Arg(bias->value) : Arg(), stride, padding, {}, groups);
}

Attention::Attention(const Params& params, int64_t width, const AttentionOptions& given)
    : options(Checked(given, width)),
      qkv(params / "qkv", width, width + 2 * (width / options.heads) * options.groups, options.bias),
      out(params / "out", width, width, options.bias, normal(0.02 * options.out_scale)),
      dropout(params, options.dropout) {}
Tensor Attention::operator()(const Tensor& x) const {
  const int64_t batch = x.dim(0), length = x.dim(1), width = x.dim(2), head = width / options.heads;
  // Cut between heads, not columns: then what comes back from the parts is joined with one copy.
  const int64_t groups = options.groups;
  const std::vector<Tensor> parts =
      split(qkv(x).reshape({batch, length, options.heads + 2 * groups, head}), {options.heads, groups, groups}, 2);
  Tensor q = parts[0].transpose({0, 2, 1, 3}), k = parts[1].transpose({0, 2, 1, 3});
  const Tensor v = parts[2].transpose({0, 2, 1, 3});
  if (options.rotary) {
    const Tensor positions = arange(length);
    q = rotary(q, positions, options.base);
    k = rotary(k, positions, options.base);
  }
  const Tensor y = attention(q, k, v, {}, options.causal, 0, options.window);
  return dropout(out(y.transpose({0, 2, 1, 3}).reshape({batch, length, width})));
}

Mlp::Mlp(const Params& params, int64_t width, int64_t hidden, Activation activation, bool bias, double out_scale,
         double dropout)
    : activation(activation),
      up(params / "up", width, activation == Activation::silu_gated ? 2 * hidden : hidden, bias),
      down(params / "down", hidden, width, bias, normal(0.02 * out_scale)),
      dropout(params, dropout) {}
Tensor Mlp::operator()(const Tensor& x) const {
  const Tensor h = up(x);
  switch (activation) {
    case Activation::relu: return dropout(down(relu(h)));
    case Activation::gelu: return dropout(down(gelu(h)));
    case Activation::gelu_tanh: return dropout(down(gelu_tanh(h)));
    case Activation::silu: return dropout(down(silu(h)));
    case Activation::silu_gated: break;
  }
  const int64_t hidden = h.dim(-1) / 2;
  const std::vector<Tensor> halves = split(h, {hidden, hidden}, -1);
  return dropout(down(silu(halves[0]) * halves[1]));
}

Block::Block(const Params& params, int64_t width, const Options& o)
    : norm1(params / "norm1", width),
      attention(params / "attention", width, o.attention),
      norm2(params / "norm2", width),
      mlp(params / "mlp", width, o.hidden == 0 ? 4 * width : o.hidden, o.activation, o.attention.bias,
          o.attention.out_scale, o.attention.dropout) {}
Tensor Block::operator()(const Tensor& x) const {
  const Tensor h = x + attention(norm1(x));
  return h + mlp(norm2(h));
}

}  // namespace tessera::nn
