#include "interp/guard_word.h"

#ifdef TESSERA_CUDA
#include "interp/cuda/guard_word.h"
#endif

namespace tessera::interp {
namespace {

class HostGuardWord final : public GuardWord {
 public:
  absl::Status Check(const View& condition, bool expected, bool last) override {
    held_[run_ % kRuns] &= (*condition.as<uint8_t>() != 0) == expected;
    if (last) Complete();
    return absl::OkStatus();
  }
  absl::Status GiveUp() override {
    Complete();
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Held(uint64_t run) override { return held_[run % kRuns]; }

  HostGuardWord() {
    for (bool& held : held_) held = true;
  }

 private:
  void Complete() { held_[++run_ % kRuns] = true; }

  uint64_t run_ = 0;
  bool held_[kRuns];
};

}  // namespace

absl::StatusOr<std::unique_ptr<GuardWord>> MakeGuardWord(rt::Device& device) {
#ifdef TESSERA_CUDA
  if (device.kind() == rt::DeviceKind::cuda) return cuda::MakeGuardWord(device);
#endif
  if (device.kind() == rt::DeviceKind::cpu) return std::make_unique<HostGuardWord>();
  return Unsupported(std::string(device.name()), " has no branches");
}

}  // namespace tessera::interp
