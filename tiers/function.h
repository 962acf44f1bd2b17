// Versions of functions: what happens when a function, a loop or the place behind an effect on the host is hot, and how
// execution goes from tier 1 into versions, from one to the next, over bridges, and back.
#ifndef TESSERA_TIERS_FUNCTION_H_
#define TESSERA_TIERS_FUNCTION_H_

#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "interp/anchor.h"

namespace tessera::tiers {

class FunctionPlace;

/// Thread-safe; lives as long as the process. What it keeps at an anchor belongs to the instance: a program has one.
class FunctionTiers final : public interp::FunctionHook {
 public:
  static FunctionTiers& Get();

  absl::StatusOr<Next> OnAnchor(interp::Frame& frame, interp::AnchorSlot& slot, interp::Results* results) override;
  bool CallAtOnce(interp::Instance& instance, const interp::Bytecode& code, absl::Span<rt::TensorImpl* const> args,
                  interp::Results* results) override;
  void OnInstanceEnd(interp::Instance& instance) override;

 private:
  /// True when a profile knows the place, which is hot then.
  bool AddPlace(interp::Frame& frame, interp::AnchorSlot& slot);

  std::mutex mutex_;
  absl::flat_hash_map<const interp::Instance*, std::vector<std::shared_ptr<FunctionPlace>>> places_;
};

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_FUNCTION_H_
