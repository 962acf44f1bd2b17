// Reverse mode as a transform of Graph IR: from a function, one that computes its gradients. The new function computes
// what the old one does, then the gradients backwards, by the rules of ir/grad.h.
//
// Blocks and calls keep nothing for the way back: they are computed again there. An `if` runs the block that was taken
// once more; a call of @f becomes a call of @f.vjp, which computes @f again; a loop of n rounds computes the values
// that it carries into each round again from the start, n * (n - 1) / 2 rounds in all, in memory for one.
#ifndef TESSERA_IR_DIFFERENTIATE_H_
#define TESSERA_IR_DIFFERENTIATE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/function.h"

namespace tessera::ir {

enum class GradKind : uint8_t {
  grad,            // the arguments to the gradients of the first result, a scalar
  value_and_grad,  // to all results, then those gradients
  vjp,             // the arguments and a gradient for each floating result to the gradients
};

struct Differentiated {
  std::unique_ptr<Module> module;  // all functions of the old one, and the new ones
  std::string function;
};

/// `wrt` are numbers of parameters. Effects happen once, as the function has them; a vjp has none. Fails where a
/// gradient would have to pass through an op that has none, through a buffer in a block, or where something with
/// effects would have to be computed again; the message has the place.
absl::StatusOr<Differentiated> Differentiate(const Module& module, std::string_view function,
                                             const std::vector<int>& wrt, GradKind kind);

}  // namespace tessera::ir

#endif  // TESSERA_IR_DIFFERENTIATE_H_
