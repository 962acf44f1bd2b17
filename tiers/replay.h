// The simplest generator: a version that runs its trace as a flat list of tier-1 kernel calls, bound beforehand to
// operands, attributes and memory. No dispatch, no inference and no allocation but for values that leave it. It is also
// what remains when no compiler is installed. Where there is one, generated kernels take the place of steps, and the
// steps stay for what they do not cover: a run that ends in the middle, shapes that break a kernel's assumptions.
#ifndef TESSERA_TIERS_REPLAY_H_
#define TESSERA_TIERS_REPLAY_H_

#include <memory>

#include "tiers/memory_plan.h"
#include "tiers/version.h"

namespace tessera::tiers {

class Replay final : public Version {
 public:
  /// An operand that a kernel wants in another dtype.
  struct Cast : Extra {
    int operand;
    DType dtype;
  };

  /// `code`: generated kernels that take the place of steps; null for none.
  Replay(std::shared_ptr<const Trace> trace, Rung rung, std::shared_ptr<const Code> code = nullptr);
  const MemoryPlan& plan() const { return plan_; }
  const std::vector<Cast>& casts() const { return casts_; }

 protected:
  std::unique_ptr<Activation> NewActivation() override;

 private:
  std::vector<Cast> casts_;  // in the order of steps
  MemoryPlan plan_;
};

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_REPLAY_H_
