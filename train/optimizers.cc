// The rules of the optimisers, one function each.
#include <cmath>

#include "tessera/ops.h"
#include "tessera/optim.h"

namespace tessera::optim {

namespace {

// 1 - beta^count.
Tensor Corrected(const Tensor& x, double beta, const Arg& count) {
  if (count.kind() == Arg::Kind::floating) return x * (1 / (1 - std::pow(beta, count.floating())));
  return x / -expm1(count.tensor() * std::log(beta));
}

Tensor Decayed(const Tensor& direction, const Tensor& value, double decay) {
  return decay == 0 ? direction : direction + value * decay;
}

}  // namespace

Sgd::Sgd(const nn::Params& params, Options options, double momentum, bool nesterov)
    : Optimizer(params, std::move(options),
                momentum == 0 ? std::vector<std::string>() : std::vector<std::string>{"momentum"}),
      momentum_(momentum),
      nesterov_(nesterov) {}
Tensor Sgd::Apply(const Update& u) const {
  if (momentum_ == 0) return u.value - Decayed(u.grad, u.value, u.decay) * u.rate;
  Tensor& v = u.slots[0];
  v = v * momentum_ + u.grad;
  return u.value - Decayed(nesterov_ ? u.grad + v * momentum_ : v, u.value, u.decay) * u.rate;
}

AdamW::AdamW(const nn::Params& params, Options options, double beta1, double beta2, double eps)
    : Optimizer(params, std::move(options), {"mean", "square"}), beta1_(beta1), beta2_(beta2), eps_(eps) {}
Tensor AdamW::Apply(const Update& u) const {
  Tensor &m = u.slots[0], &v = u.slots[1];
  m = m * beta1_ + u.grad * (1 - beta1_);
  v = v * beta2_ + square(u.grad) * (1 - beta2_);
  const Tensor direction = Corrected(m, beta1_, u.count) / (sqrt(Corrected(v, beta2_, u.count)) + eps_);
  return u.value - Decayed(direction, u.value, u.decay) * u.rate;
}

Lion::Lion(const nn::Params& params, Options options, double beta1, double beta2)
    : Optimizer(params, std::move(options), {"momentum"}), beta1_(beta1), beta2_(beta2) {}
Tensor Lion::Apply(const Update& u) const {
  Tensor& m = u.slots[0];
  const Tensor direction = sign(m * beta1_ + u.grad * (1 - beta1_));
  m = m * beta2_ + u.grad * (1 - beta2_);
  return u.value - Decayed(direction, u.value, u.decay) * u.rate;
}

}  // namespace tessera::optim
