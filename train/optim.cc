// What the optimisers have in common.
#include "tessera/optim.h"

#include <cmath>
#include <numbers>

#include "tessera/ops.h"

namespace tessera::optim {

namespace {

constexpr double kScaleDown = 0.5, kScaleUp = 2, kMostScale = 1 << 24;

[[noreturn]] void Refuse(const std::string& message) { throw Error(Status(Code::invalid_argument, message)); }

double Warming(double peak, int64_t warmup, int64_t step) {
  return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
}
double Progress(int64_t warmup, int64_t total, int64_t step) {
  return std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(std::max<int64_t>(total - warmup, 1)));
}

// Rows first, which are many, and so are done in parallel by one kernel with the squares; the sums of all rows of all
// tensors are then one vector. No sum waits for that of another tensor.
Tensor SumOfSquares(const std::vector<Tensor>& tensors) {
  constexpr size_t kMost = 128;  // operands of an op
  std::vector<Tensor> parts;
  for (const Tensor& x : tensors) {
    // In f32 for narrow types: the square of an f16 is soon infinite.
    const Tensor squared = square(IsNarrowFloat(x.dtype()) ? x.cast(f32) : x);
    parts.push_back((squared.rank() > 0 ? sum(squared, {-1}) : squared).reshape({-1}));
  }
  while (parts.size() > 1) {
    std::vector<Tensor> joined;
    for (size_t from = 0; from < parts.size(); from += kMost) {
      const size_t until = std::min(from + kMost, parts.size());
      const std::vector<Tensor> some(parts.begin() + static_cast<std::ptrdiff_t>(from),
                                     parts.begin() + static_cast<std::ptrdiff_t>(until));
      joined.push_back(some.size() == 1 ? parts[from] : concat(some, 0));
    }
    parts = std::move(joined);
  }
  return sum(parts[0]);
}

std::string Shape(const Tensor& x) {
  std::string text = std::string(Name(x.dtype())) + "[";
  const Dims dims = x.dims();
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? "," : "") + std::to_string(dims[i]);
  return text + "]";
}

}  // namespace

Schedule constant(double rate) {
  return [rate](int64_t) { return rate; };
}
Schedule warmup_cosine(double peak, int64_t warmup, int64_t total, double floor) {
  return [=](int64_t step) {
    if (step < warmup) return Warming(peak, warmup, step);
    return floor + (peak - floor) * 0.5 * (1 + std::cos(std::numbers::pi * Progress(warmup, total, step)));
  };
}
Schedule warmup_linear(double peak, int64_t warmup, int64_t total, double floor) {
  return [=](int64_t step) {
    if (step < warmup) return Warming(peak, warmup, step);
    return peak + (floor - peak) * Progress(warmup, total, step);
  };
}

Optimizer::Optimizer(const nn::Params& params, Options options, std::vector<std::string> slots)
    : params_(params), options_(std::move(options)), slot_names_(std::move(slots)), schedule_(constant(options_.rate)) {
  for (const nn::Param& p : params_.all()) {
    Entry entry;
    entry.param = p;
    const bool decays = options_.decay_mask ? options_.decay_mask(*p) : p->value.rank() >= 2;
    entry.decay = decays ? options_.decay : 0;
    for (const Group& group : options_.groups) {
      if (!group.takes || !group.takes(*p)) continue;
      entry.rate_scale = group.rate_scale;
      entry.decay = group.decay;
      break;
    }
    if (IsNarrowFloat(p->value.dtype())) entry.master = p->value.cast(f32);
    const Tensor& value = entry.master.defined() ? entry.master : p->value;
    for (size_t i = 0; i < slot_names_.size(); ++i) entry.slots.push_back(zeros_like(value));
    entries_.push_back(std::move(entry));
  }
  if (options_.loss_scale > 0) {
    scale_ = full({}, options_.loss_scale);
    good_steps_ = zeros({});
    applied_ = zeros({});
  }
}
Optimizer::~Optimizer() = default;

std::vector<Optimizer::Entry*> Optimizer::TrainableEntries() {
  std::vector<Entry*> entries;
  for (Entry& entry : entries_)
    if (entry.param->trainable) entries.push_back(&entry);
  return entries;
}

Tensor Optimizer::Factor(const std::vector<Tensor>& grads) {
  norm_ = finite_ = Tensor();
  if (options_.clip <= 0 && !scale_.defined()) return {};
  norm_ = sqrt(SumOfSquares(grads));
  Tensor factor;
  if (scale_.defined()) {
    finite_ = isfinite(norm_);
    factor = 1.0 / scale_;
    norm_ = norm_ * factor;
  }
  if (options_.clip > 0) {
    const Tensor clipped = minimum(options_.clip / (norm_ + 1e-6), 1.0);
    factor = factor.defined() ? factor * clipped : clipped;
  }
  return factor;
}

void Optimizer::step(const std::vector<Tensor>& grads) {
  const std::vector<Entry*> entries = TrainableEntries();
  if (grads.size() != entries.size())
    Refuse("Optimizer::step: given " + std::to_string(grads.size()) + " gradients for " +
           std::to_string(entries.size()) + " trainable parameters");
  for (size_t i = 0; i < grads.size(); ++i) {
    const nn::Parameter& p = *entries[i]->param;
    if (!grads[i].defined() || grads[i].dims() != p.value.dims())
      Refuse("Optimizer::step: the gradient of " + p.name + ", " + Shape(p.value) + ", is " +
             (grads[i].defined() ? Shape(grads[i]) : "an empty handle"));
  }
  const Tensor factor = grads.empty() ? Tensor() : Factor(grads);
  const double rate = schedule_(steps_);
  const Tensor count_with = finite_.defined() ? applied_ + 1.0 : Tensor();
  const Arg count = count_with.defined() ? Arg(count_with) : Arg(static_cast<double>(steps_ + 1));

  for (size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = *entries[i];
    const bool narrow = entry.master.defined();
    const Tensor value = narrow ? entry.master : entry.param->value;
    Tensor grad = grads[i].dtype() == value.dtype() ? grads[i] : grads[i].cast(value.dtype());
    if (factor.defined()) grad = grad * factor;
    const std::vector<Tensor> old = finite_.defined() ? entry.slots : std::vector<Tensor>();
    Tensor next = Apply({value, grad, rate * entry.rate_scale, entry.decay, entry.slots, count});
    if (finite_.defined()) {
      next = where(finite_, next, value);
      for (size_t s = 0; s < old.size(); ++s) entry.slots[s] = where(finite_, entry.slots[s], old[s]);
    }
    if (narrow) {
      entry.param->value = next.cast(entry.param->value.dtype());
      entry.master = std::move(next);
    } else {
      entry.param->value = std::move(next);
    }
  }
  if (finite_.defined()) {
    applied_ = where(finite_, count_with, applied_);
    const Tensor good = where(finite_, good_steps_ + 1.0, 0.0);
    const Tensor full_run = good >= static_cast<double>(options_.scale_interval);
    scale_ = where(finite_, where(full_run, minimum(scale_ * kScaleUp, kMostScale), scale_),
                   maximum(scale_ * kScaleDown, 1.0));
    good_steps_ = where(full_run, 0.0, good);
    finite_ = Tensor();
  }
  ++steps_;
}

std::map<std::string, Tensor> Optimizer::state() const {
  std::map<std::string, Tensor> state;
  for (const Entry& entry : entries_) {
    if (entry.master.defined()) state[entry.param->name + "/master"] = entry.master;
    for (size_t s = 0; s < slot_names_.size(); ++s) state[entry.param->name + "/" + slot_names_[s]] = entry.slots[s];
  }
  if (scale_.defined()) {
    state["/loss_scale"] = scale_;
    state["/good_steps"] = good_steps_;
    state["/applied"] = applied_;
  }
  return state;
}

void Optimizer::load_state(const std::map<std::string, Tensor>& state, int64_t steps) {
  const std::map<std::string, Tensor> mine = this->state();
  for (const auto& [name, value] : mine) {
    const auto it = state.find(name);
    if (it == state.end()) Refuse("Optimizer::load_state: " + name + " is missing");
    if (!it->second.defined() || it->second.dims() != value.dims() || it->second.dtype() != value.dtype())
      Refuse("Optimizer::load_state: " + name + " is " + (it->second.defined() ? Shape(it->second) : "empty") +
             ", where " + Shape(value) + " is needed");
  }
  for (const auto& [name, value] : state)
    if (!mine.contains(name)) Refuse("Optimizer::load_state: " + name + " belongs to no parameter of this optimiser");
  for (Entry& entry : entries_) {
    if (entry.master.defined()) entry.master = state.at(entry.param->name + "/master");
    for (size_t s = 0; s < slot_names_.size(); ++s) entry.slots[s] = state.at(entry.param->name + "/" + slot_names_[s]);
  }
  if (scale_.defined()) {
    scale_ = state.at("/loss_scale");
    good_steps_ = state.at("/good_steps");
    applied_ = state.at("/applied");
  }
  steps_ = steps;
}

}  // namespace tessera::optim
