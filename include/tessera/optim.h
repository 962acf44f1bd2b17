// Optimisers over a tree of parameters. A step is eager ops like any other: the gradients are made ready (scaled back,
// clipped), then each parameter gets another value. Nothing is read back to the host.
//
//   optim::AdamW optimizer(params, {.rate = 3e-4, .decay = 0.1, .clip = 1.0});
//   optimizer.schedule(optim::warmup_cosine(3e-4, 100, 10000));
//   optimizer.step(grads);
#ifndef TESSERA_OPTIM_H_
#define TESSERA_OPTIM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/nn.h"
#include "tessera/tensor.h"

namespace tessera::optim {

/// The learning rate of each step, from 0.
using Schedule = std::function<double(int64_t step)>;
TSR_API Schedule constant(double rate);
/// Linearly to `peak` in `warmup` steps, then along half a cosine down to `floor` at step `total`, and on at that.
TSR_API Schedule warmup_cosine(double peak, int64_t warmup, int64_t total, double floor = 0);
/// Linearly to `peak` in `warmup` steps, then linearly down to `floor` at step `total`.
TSR_API Schedule warmup_linear(double peak, int64_t warmup, int64_t total, double floor = 0);

/// What some parameters have of their own. The first group that takes a parameter has it.
struct Group {
  std::function<bool(const nn::Parameter&)> takes;
  double rate_scale = 1;  // times the rate of the step
  double decay = 0;       // in place of Options::decay
};

struct Options {
  double rate = 1e-3;  // until schedule() sets another
  double decay = 0;    // of weights, decoupled from the gradient; only what decay_mask takes decays
  /// Matrices and larger by default: biases and the weights of norms do not decay.
  std::function<bool(const nn::Parameter&)> decay_mask = nullptr;
  std::vector<Group> groups = {};
  double clip = 0;  // most that the norm of all gradients together may be; 0: any
  /// The first scale of the loss, for f16; 0: none. A step whose gradients are not finite changes nothing and halves
  /// the scale, 2000 good ones in a row double it. All of that happens on the device: there is no read.
  double loss_scale = 0;
  int64_t scale_interval = 2000;
};

/// Common to all of them: groups, masks, schedules, clipping, loss scaling, and f32 copies of narrow parameters
/// ("master weights"), which the updates go to. Parameters that are frozen keep their state.
class TSR_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// `grads` are those of params.trainable(), as nn::value_and_grad gives them. Throws Error where they do not fit.
  void step(const std::vector<Tensor>& grads);

  void schedule(Schedule schedule) { schedule_ = std::move(schedule); }
  /// The rate of the next step.
  double rate() const { return schedule_(steps_); }
  int64_t steps() const { return steps_; }
  /// By what the loss is to be multiplied before it is differentiated; an empty handle without loss scaling.
  const Tensor& loss_scale() const { return scale_; }
  /// The norm of the gradients of the last step before clipping; an empty handle where there is neither clipping nor
  /// loss scaling. Reading it waits for the step.
  const Tensor& norm() const { return norm_; }

  /// Everything that a resumed run needs beside the parameters, by name.
  std::map<std::string, Tensor> state() const;
  /// The same back. Throws Error, having changed nothing, where a name, type or shape does not fit.
  void load_state(const std::map<std::string, Tensor>& state, int64_t steps);

 protected:
  Optimizer(const nn::Params& params, Options options, std::vector<std::string> slots);

  /// What the rule is given for one parameter; everything is f32 or f64.
  struct Update {
    const Tensor& value;
    const Tensor& grad;
    double rate, decay;
    std::vector<Tensor>& slots;  // in the order of the names given to the constructor
    const Arg& count;            // updates with this one: a number or, with loss scaling, a scalar
  };
  /// The new value; new slots are assigned in place.
  virtual Tensor Apply(const Update& update) const = 0;

 private:
  struct Entry {
    nn::Param param;
    double rate_scale = 1, decay = 0;
    Tensor master;  // of a narrow parameter
    std::vector<Tensor> slots;
  };
  std::vector<Entry*> TrainableEntries();
  /// The factor that gradients take: unscaled and clipped; an empty handle: none.
  Tensor Factor(const std::vector<Tensor>& grads);

  nn::Params params_;
  Options options_;
  std::vector<std::string> slot_names_;
  std::vector<Entry> entries_;
  Schedule schedule_;
  int64_t steps_ = 0;
  Tensor scale_, good_steps_, applied_;  // f32 scalars with loss scaling
  Tensor norm_;
  Tensor finite_;  // of the step under way
};

/// v = momentum v + g; x -= rate (v + decay x), or with Nesterov's step x -= rate (g + momentum v + decay x).
class TSR_API Sgd : public Optimizer {
 public:
  explicit Sgd(const nn::Params& params, Options options = {}, double momentum = 0.9, bool nesterov = false);

 protected:
  Tensor Apply(const Update& update) const override;

 private:
  double momentum_;
  bool nesterov_;
};

/// Adam with decoupled decay.
class TSR_API AdamW : public Optimizer {
 public:
  explicit AdamW(const nn::Params& params, Options options = {}, double beta1 = 0.9, double beta2 = 0.999,
                 double eps = 1e-8);

 protected:
  Tensor Apply(const Update& update) const override;

 private:
  double beta1_, beta2_, eps_;
};

/// The sign of a mix of momentum and gradient.
class TSR_API Lion : public Optimizer {
 public:
  explicit Lion(const nn::Params& params, Options options = {}, double beta1 = 0.9, double beta2 = 0.99);

 protected:
  Tensor Apply(const Update& update) const override;

 private:
  double beta1_, beta2_;
};

}  // namespace tessera::optim

#endif  // TESSERA_OPTIM_H_
