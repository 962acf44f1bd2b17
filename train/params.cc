// The tree of parameters, and gradients with respect to it.
#include <cmath>

#include "tessera/nn.h"
#include "tessera/ops.h"

namespace tessera::nn {

struct Params::Tree {
  uint64_t seed = 0;
  DType dtype = f32;
  bool training = true;
  std::vector<Param> params;
};

namespace {

// FNV-1a: a parameter's own stream of random numbers. It must be the same everywhere and for ever.
uint64_t HashOf(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

[[noreturn]] void Refuse(const std::string& message) { throw Error(Status(Code::invalid_argument, message)); }

}  // namespace

Init kaiming(int64_t inputs) { return normal(std::sqrt(2.0 / static_cast<double>(inputs))); }
Init xavier(int64_t inputs, int64_t outputs) { return uniform(std::sqrt(6.0 / static_cast<double>(inputs + outputs))); }

Params::Params(uint64_t seed, DType dtype) : tree_(std::make_shared<Tree>()) {
  if (!IsFloat(dtype)) Refuse("Params: parameters are of a floating type, not " + std::string(Name(dtype)));
  tree_->seed = seed;
  tree_->dtype = dtype;
}

Params Params::operator/(std::string_view name) const {
  Params below = *this;
  below.prefix_ += std::string(name) + ".";
  return below;
}
Params Params::operator/(int64_t number) const { return *this / std::to_string(number); }

Param Params::add(std::string_view name, const Dims& dims, const Init& init) const {
  auto param = std::make_shared<Parameter>();
  param->name = prefix_ + std::string(name);
  for (const Param& p : tree_->params)
    if (p->name == param->name) Refuse("Params: there is a parameter " + p->name + " already; names are unique");
  // Narrow types begin as rounded f32, so that a model has the same beginning in every type.
  const DType wide = IsNarrowFloat(tree_->dtype) ? f32 : tree_->dtype;
  const auto seed = static_cast<int64_t>(tree_->seed ^ HashOf(param->name));
  Tensor value;
  switch (init.kind) {
    case Init::Kind::constant: value = full(dims, init.a, wide); break;
    case Init::Kind::normal: value = random_normal(seed, 0, dims, 0, init.a, wide); break;
    case Init::Kind::uniform: value = random_uniform(seed, 0, dims, -init.a, init.a, wide); break;
  }
  param->value = wide == tree_->dtype ? value : value.cast(tree_->dtype);
  tree_->params.push_back(param);
  return param;
}

Param Params::find(std::string_view name) const {
  const std::string full_name = prefix_ + std::string(name);
  for (const Param& p : tree_->params)
    if (p->name == full_name) return p;
  throw Error(Status(Code::not_found, "Params: there is no parameter " + full_name));
}

std::vector<Param> Params::all() const {
  std::vector<Param> below;
  for (const Param& p : tree_->params)
    if (p->name.starts_with(prefix_)) below.push_back(p);
  return below;
}
std::vector<Param> Params::trainable() const {
  std::vector<Param> below;
  for (const Param& p : tree_->params)
    if (p->trainable && p->name.starts_with(prefix_)) below.push_back(p);
  return below;
}
std::vector<Tensor> Params::values() const {
  std::vector<Tensor> values;
  for (const Param& p : trainable()) values.push_back(p->value);
  return values;
}

void Params::set_trainable(bool trainable) const {
  for (const Param& p : all()) p->trainable = trainable;
}
void Params::cast(DType dtype) const {
  if (!IsFloat(dtype)) Refuse("Params: parameters are of a floating type, not " + std::string(Name(dtype)));
  for (const Param& p : all())
    if (p->value.dtype() != dtype) p->value = p->value.cast(dtype);
}
void Params::set_training(bool training) const { tree_->training = training; }
bool Params::training() const { return tree_->training; }

int64_t Params::count() const {
  int64_t count = 0;
  for (const Param& p : all()) count += p->value.size();
  return count;
}

std::string Params::to_string() const {
  std::string text;
  for (const Param& p : all()) {
    text += p->name + "  " + std::string(Name(p->value.dtype())) + "[";
    const Dims dims = p->value.dims();
    for (size_t i = 0; i < dims.size(); ++i) text += (i ? "," : "") + std::to_string(dims[i]);
    text += p->trainable ? "]\n" : "]  frozen\n";
  }
  return text;
}

Gradients value_and_grad(const Params& params, const std::function<Tensor()>& f, const Tensor& scale) {
  const std::vector<Tensor> values = params.values();
  Tape tape;
  tape.watch(values);
  Gradients result;
  result.loss = f();
  result.grads = tape.gradient(scale.defined() ? result.loss * scale : result.loss, values);
  return result;
}

Dropout::Dropout(const Params& params, double rate) : rate(rate), tree_(params.tree_) {
  if (!(rate >= 0 && rate < 1))
    Refuse("Dropout: its rate is " + std::to_string(rate) + "; from 0 to below 1 is possible");
}
Tensor Dropout::operator()(const Tensor& x) const {
  if (rate == 0 || !tree_->training) return x;
  return where(rand(x.dims()) >= rate, x * (1 / (1 - rate)), 0.0);
}

}  // namespace tessera::nn
