#include "bench/tracing_mlp.h"

namespace bench {
namespace {

using tessera::Function;
using tessera::Tensor;

constexpr double kDecay = 1e-4, kMomentum = 0.9, kRate = 1e-3;

/// Text of MlpFunction. Members append instructions and give the name of the value.
class Writer {
 public:
  std::string Add(const std::string& instruction) {
    const std::string name = "%t" + std::to_string(next_++);
    text_ += "  " + name + " = " + instruction + "\n";
    return name;
  }
  std::string Read(const std::string& buffer) { return Add("buffer_read {buffer = \"" + buffer + "\"}"); }
  void Write(const std::string& value, const std::string& buffer) {
    text_ += "  buffer_write " + value + " {buffer = \"" + buffer + "\"}\n";
  }
  void Update(const std::string& name, const std::string& value, std::string gradient) {
    gradient = Add("clamp " + gradient + ", -1.0, 1.0");
    gradient = Add("add " + gradient + ", " + Add("mul " + value + ", " + std::to_string(kDecay)));
    std::string momentum = Add("mul " + Read("m" + name) + ", " + std::to_string(kMomentum));
    momentum = Add("add " + momentum + ", " + gradient);
    const std::string ahead = Add("mul " + momentum + ", " + std::to_string(kMomentum));
    const std::string step = Add("mul " + Add("add " + gradient + ", " + ahead) + ", " + std::to_string(kRate));
    Write(Add("sub " + value + ", " + step), name);
    Write(momentum, "m" + name);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int next_ = 0;
};

}  // namespace

Tensor Numbers(const tessera::Dims& dims, uint32_t seed, float scale) {
  size_t size = 1;
  for (const int64_t dim : dims) size *= static_cast<size_t>(dim);
  std::vector<float> values(size);
  uint32_t state = seed * 2654435761u + 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = scale * (static_cast<float>(state >> 8) / 8388608.0f - 1.0f);
  }
  return Tensor::from(values, dims);
}

Mlp::Mlp(int layers, int64_t width) {
  const std::vector<float> none(static_cast<size_t>(width), 0.0f);
  for (int i = 0; i < layers; ++i) {
    Layer layer;
    layer.weight = {Numbers({width, width}, static_cast<uint32_t>(i), 0.3f), Numbers({width, width}, 0, 0)};
    layer.bias = {Tensor::from(none), Tensor::from(none)};
    layers_.push_back(layer);
  }
}

void Mlp::Parameter::Update(const Tensor& gradient, double rate) {
  const Tensor g = tessera::clamp(gradient, -1.0, 1.0) + value * kDecay;
  momentum = momentum * kMomentum + g;
  value = value - (g + momentum * kMomentum) * rate;
}

Tensor Mlp::Step(const Tensor& x, const Tensor& y) {
  const double rate = kRate / (1 + 1e-4 * static_cast<double>(++steps_));
  Tensor h = x;
  for (Layer& layer : layers_) {
    layer.input = h;
    layer.active = tessera::relu(tessera::matmul(h, layer.weight.value) + layer.bias.value);
    h = h + layer.active * 0.5;
  }
  const Tensor difference = h - y;
  Tensor loss = tessera::mean(tessera::square(difference));
  Tensor gradient = difference * (2.0 / static_cast<double>(difference.size()));
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    const Tensor dz = tessera::where(layer->active > 0.0, gradient * 0.5, 0.0);
    const Tensor weight = x.rank() == 2 ? tessera::matmul(layer->input, dz, true)
                                        : tessera::dot_general(layer->input, dz, {0, 1}, {0, 1});
    const Tensor bias = x.rank() == 2 ? tessera::sum(dz, 0) : tessera::sum(dz, {0, 1});
    gradient = gradient + tessera::matmul(dz, layer->weight.value, false, true);
    layer->weight.Update(weight, rate);
    layer->bias.Update(bias, rate);
  }
  return loss;
}

Function MlpFunction(int layers, int64_t width) {
  const std::string w = std::to_string(width), batch = "tensor<B x S x " + w + " x f32>";
  std::string buffers;
  Writer out;
  std::string h = "%x";
  std::vector<std::string> inputs, actives, weights, biases;
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    for (const char* kind : {"w", "mw"})
      buffers += "buffer @" + (kind + n) + " : tensor<" + w + " x " + w + " x f32>\n";
    for (const char* kind : {"b", "mb"}) buffers += "buffer @" + (kind + n) + " : tensor<" + w + " x f32>\n";
    weights.push_back(out.Read("w" + n));
    biases.push_back(out.Read("b" + n));
    inputs.push_back(h);
    const std::string product = out.Add("matmul " + h + ", " + weights.back());
    actives.push_back(out.Add("relu " + out.Add("add " + product + ", " + biases.back())));
    h = out.Add("add " + h + ", " + out.Add("mul " + actives.back() + ", 0.5"));
  }
  const std::string difference = out.Add("sub " + h + ", %y");
  const std::string loss = out.Add("mean " + out.Add("square " + difference));
  std::string gradient = out.Add("mul " + difference + ", 0.01");
  for (size_t i = static_cast<size_t>(layers); i-- > 0;) {
    const std::string n = std::to_string(i), half = out.Add("mul " + gradient + ", 0.5");
    const std::string dz = out.Add("where " + out.Add("gt " + actives[i] + ", 0.0") + ", " + half + ", 0.0");
    const std::string weight =
        out.Add("dot_general " + inputs[i] + ", " + dz + " {contract_a = [0, 1], contract_b = [0, 1]}");
    const std::string bias = out.Add("sum " + dz + " {axes = [0, 1]}");
    const std::string back = out.Add("matmul " + dz + ", " + weights[i] + " {transpose_b = true}");
    gradient = out.Add("add " + gradient + ", " + back);
    out.Update("w" + n, weights[i], weight);
    out.Update("b" + n, biases[i], bias);
  }
  const Function step = Function::parse(buffers + "func @step(%x: " + batch + ", %y: " + batch +
                                        ") -> tensor<f32> {\n" + out.text() + "  return " + loss + "\n}\n")
                            .value();
  for (int i = 0; i < layers; ++i)
    (void)step.module()
        .set_buffer("w" + std::to_string(i), Numbers({width, width}, static_cast<uint32_t>(i), 0.3f))
        .ok();
  return step;
}

}  // namespace bench
