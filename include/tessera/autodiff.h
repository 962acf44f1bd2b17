// Gradients by reverse mode, of eager programs and of functions. docs/autodiff.md says what is differentiated and how.
//
//   Tape tape;
//   tape.watch({w, b});
//   Tensor loss = mean(square(matmul(x, w) + b - y));
//   std::vector<Tensor> g = tape.gradient(loss, {w, b});
#ifndef TESSERA_AUTODIFF_H_
#define TESSERA_AUTODIFF_H_

#include <functional>
#include <memory>
#include <vector>

#include "tessera/function.h"
#include "tessera/tensor.h"

namespace tessera {

/// Remembers the ops that follow from what it watches, on the thread that made it, for gradient(). It keeps the values
/// that gradients need and lets go of them as they are used. Tapes nest: the ops of a gradient are ops like any other,
/// which the tapes outside remember, so that gradients of gradients need an outer tape. A tape belongs to one thread.
class TSR_API Tape {
 public:
  enum class Use {
    once,  // gradient() may be called once; the tape then remembers nothing more
    many,  // as often as is wanted; values are kept as long as the tape lives
  };
  explicit Tape(Use use = Use::once);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Keep at most so many bytes of values, and compute the others again on the way back: those that cost least for the
  /// memory they take. 0: keep everything. Before watch(); the option tape_bytes is the limit of tapes that say nothing.
  /// More is kept where less cannot be: what was given, results of custom gradients and of checkpoints.
  void limit(int64_t bytes);

  /// From now on, what is computed from x follows from something watched. x must be of a floating type.
  void watch(const Tensor& x);
  void watch(const std::vector<Tensor>& xs);
  /// Does x follow from something watched, or is it watched itself?
  bool watches(const Tensor& x) const;

  /// The gradient of `target` with respect to each of `sources`, of their types: zeros where it does not depend on one.
  /// `target` has one element; for others `seed`, of target's dims, says by what each element counts. Throws Error,
  /// also for an op on the way that has no gradient, with its name and place.
  std::vector<Tensor> gradient(const Tensor& target, const std::vector<Tensor>& sources, const Tensor& seed = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;

struct ValueAndGrad {
  Tensor value;
  std::vector<Tensor> grads;
};
/// f(params), and its gradient with respect to each of them.
TSR_API ValueAndGrad value_and_grad(const TensorFunction& f, const std::vector<Tensor>& params);
/// The gradient alone.
TSR_API std::vector<Tensor> grad(const TensorFunction& f, const std::vector<Tensor>& params);

/// The same value, which follows from nothing.
TSR_API Tensor stop_gradient(const Tensor& x);

/// forward(inputs), with a gradient of the caller's own: tapes do not look into it. `backward` is given the gradient of
/// each result and gives one for each input, or an empty handle where there is none; it runs once for each tape that
/// asks for it, on the thread of the tape.
TSR_API std::vector<Tensor> custom_gradient(
    const std::vector<Tensor>& inputs,
    const std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>& forward,
    std::function<std::vector<Tensor>(const std::vector<Tensor>& grads)> backward);

/// f(inputs), keeping the inputs alone for the gradient: f runs again when that is asked for, and must do the same
/// then. Random numbers of the process's stream repeat. Whatever f uses that is watched must be one of the inputs.
TSR_API Tensor checkpoint(TensorFunction f, const std::vector<Tensor>& inputs);

// ---- functions. The new function lives in a module of its own with copies of what it calls, and can be differentiated
// again. `wrt` are parameters by number; those must be of a floating type.
/// From f's arguments to the gradient of f's first result, a floating scalar, with respect to each of wrt.
TSR_API Result<Function> grad(const Function& f, const std::vector<int>& wrt = {0});
/// The same with all of f's results before the gradients.
TSR_API Result<Function> value_and_grad(const Function& f, const std::vector<int>& wrt = {0});
/// From f's arguments and then a gradient for each of its floating results, of that result's type, to the gradient with
/// respect to each of wrt.
TSR_API Result<Function> vjp(const Function& f, const std::vector<int>& wrt);

}  // namespace tessera

#endif  // TESSERA_AUTODIFF_H_
