// The eager half of tessera/autodiff.h; functions are in autodiff_function.cc.
#include "tessera/autodiff.h"

#include <utility>

#include "interp/api/eager.h"
#include "interp/api/tape_record.h"

namespace tessera {

struct Tape::Impl : api::TapeRecord {
  using TapeRecord::TapeRecord;
};

Tape::Tape(Use use) : impl_(std::make_unique<Impl>(use == Use::once)) {}
Tape::~Tape() = default;

void Tape::limit(int64_t bytes) { impl_->SetLimit(bytes); }
void Tape::watch(const Tensor& x) { impl_->Watch(x); }
void Tape::watch(const std::vector<Tensor>& xs) {
  for (const Tensor& x : xs) impl_->Watch(x);
}
bool Tape::watches(const Tensor& x) const { return x.defined() && impl_->SlotOf(*x.waiting_impl()) >= 0; }

std::vector<Tensor> Tape::gradient(const Tensor& target, const std::vector<Tensor>& sources, const Tensor& seed) {
  return impl_->Gradient(target, seed, sources, TSR_SITE);
}

namespace {

ValueAndGrad ValueAndGradAt(const TensorFunction& f, const std::vector<Tensor>& params, const void* site) {
  api::TapeRecord tape(true);
  for (const Tensor& p : params) tape.Watch(p);
  ValueAndGrad result;
  result.value = f(params);
  result.grads = tape.Gradient(result.value, {}, params, site);
  return result;
}

// The same value as another tensor, which no tape knows.
Tensor Unknown(const Tensor& x, const void* site) {
  const api::PauseTapes pause;
  const Arg arg(x);
  return api::Run(ir::Op::k_reshape, {&arg}, {api::ToInts(x.dims())}, site);
}

}  // namespace

ValueAndGrad value_and_grad(const TensorFunction& f, const std::vector<Tensor>& params) {
  return ValueAndGradAt(f, params, TSR_SITE);
}
std::vector<Tensor> grad(const TensorFunction& f, const std::vector<Tensor>& params) {
  return ValueAndGradAt(f, params, TSR_SITE).grads;
}

Tensor stop_gradient(const Tensor& x) {
  api::TypeOf(x, "stop_gradient");
  return Unknown(x, TSR_SITE);
}

std::vector<Tensor> custom_gradient(const std::vector<Tensor>& inputs,
                                    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& forward,
                                    std::function<std::vector<Tensor>(const std::vector<Tensor>&)> backward) {
  for (const Tensor& x : inputs) api::TypeOf(x, "custom_gradient");
  std::vector<Tensor> results;
  {
    const api::PauseTapes pause;
    results = forward(inputs);
  }
  for (Tensor& y : results) {
    api::TypeOf(y, "custom_gradient");
    // A value that tapes know already, such as an input, gets a handle that stands for the result.
    if (y.waiting_impl()->number() != 0) y = Unknown(y, TSR_SITE);
  }
  api::RecordCustom(
      "custom_gradient", inputs, results,
      [backward = std::move(backward)](const std::vector<Tensor>& grads, const std::vector<bool>&) {
        return backward(grads);
      },
      TSR_SITE);
  return results;
}

Tensor checkpoint(TensorFunction f, const std::vector<Tensor>& inputs) {
  for (const Tensor& x : inputs) api::TypeOf(x, "checkpoint");
  if (!api::IsWatched(inputs)) return f(inputs);
  const void* site = TSR_SITE;
  const api::RandomPosition random = api::CurrentRandom();
  Tensor y;
  {
    std::vector<Tensor> unknown;
    for (const Tensor& x : inputs) unknown.push_back(Unknown(x, site));
    const api::PauseTapes pause("checkpoint");
    y = f(unknown);
    api::TypeOf(y, "checkpoint");
  }
  api::RecordCustom(
      "checkpoint", inputs, {y},
      [f = std::move(f), inputs, random, site](const std::vector<Tensor>& grads, const std::vector<bool>& wants) {
        api::TapeRecord tape(true);
        std::vector<Tensor> sources;
        for (size_t i = 0; i < inputs.size(); ++i) {
          if (!wants[i]) continue;
          tape.Watch(inputs[i]);
          sources.push_back(inputs[i]);
        }
        const api::RandomPosition now = api::CurrentRandom();
        api::SetRandom(random);
        const Tensor again = f(inputs);
        api::SetRandom(now);
        std::vector<Tensor> found = tape.Gradient(again, grads[0], sources, site);
        std::vector<Tensor> all(inputs.size());
        for (size_t i = 0, k = 0; i < inputs.size(); ++i)
          if (wants[i]) all[i] = std::move(found[k++]);
        return all;
      },
      site);
  return y;
}

}  // namespace tessera
