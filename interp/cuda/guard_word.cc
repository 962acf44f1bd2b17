#include "interp/cuda/guard_word.h"

#include <atomic>
#include <cstring>

#include "interp/cuda/guard_args.h"
#include "interp/cuda/launch.h"

TSR_CUDA_IMAGE(guard);

namespace tessera::cuda {
namespace {

const Kernel kCheck(kImage, "check_guard");

class CudaGuardWord final : public interp::GuardWord {
 public:
  static absl::StatusOr<std::unique_ptr<interp::GuardWord>> Make(Device& device) {
    std::unique_ptr<CudaGuardWord> word(new CudaGuardWord(device));
    TSR_RETURN_IF_ERROR(device.Enter());
    void* verdicts = nullptr;
    TSR_RETURN_IF_ERROR(device.Check("cuMemHostAlloc",
                                     TheDriver().cuMemHostAlloc(&verdicts, kRuns * sizeof(uint64_t),
                                                                CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)));
    std::memset(verdicts, 0, kRuns * sizeof(uint64_t));
    word->verdicts_ = static_cast<std::atomic<uint64_t>*>(verdicts);
    TSR_ASSIGN_OR_RETURN(word->state_, Scratch::Make(device, sizeof(GuardState)));
    TSR_RETURN_IF_ERROR(device.Zero(word->state_.data(), sizeof(GuardState)));
    return word;
  }

  ~CudaGuardWord() override {
    // What was submitted may still write there.
    device_.Wait();
    if (verdicts_ != nullptr && device_.Enter().ok()) TheDriver().cuMemFreeHost(verdicts_);
  }

  absl::Status Check(const View& condition, bool expected, bool last) override {
    return Submit(AddressOf(condition), expected, last);
  }
  absl::Status GiveUp() override { return Submit(0, false, /*last=*/true); }

  absl::StatusOr<bool> Held(uint64_t run) override {
    // Looking costs nothing; the driver is asked now and then whether there is still something to wait for.
    constexpr int kLooks = 4096;
    const std::atomic<uint64_t>& verdict = verdicts_[run % kRuns];
    for (;;) {
      for (int i = 0; i < kLooks; ++i)
        if (const uint64_t seen = verdict.load(std::memory_order_acquire); seen / 2 == run + 1) return seen % 2 == 0;
      TSR_RETURN_IF_ERROR(device_.Enter());
      const CUresult state = TheDriver().cuStreamQuery(device_.live_stream());
      if (state == CUDA_ERROR_NOT_READY) continue;
      TSR_RETURN_IF_ERROR(device_.Check("cuStreamQuery", state));
      if (const uint64_t seen = verdict.load(std::memory_order_acquire); seen / 2 == run + 1) return seen % 2 == 0;
      return Internal("the device is idle and has not checked run ", run);
    }
  }

 private:
  explicit CudaGuardWord(Device& device) : device_(device) {}

  absl::Status Submit(Address condition, bool expected, bool last) {
    GuardArgs a = {};
    a.condition = condition;
    a.state = state_.address();
    a.verdicts = std::bit_cast<Address>(verdicts_);
    a.num_verdicts = kRuns;
    a.expected = expected;
    a.last = last;
    return device_.Launch(kCheck, Grid{1, 1, 0}, &a, sizeof a);
  }

  Device& device_;
  std::atomic<uint64_t>* verdicts_ = nullptr;
  Scratch state_;
};

static_assert(sizeof(std::atomic<uint64_t>) == sizeof(uint64_t));

}  // namespace

absl::StatusOr<std::unique_ptr<interp::GuardWord>> MakeGuardWord(rt::Device& device) {
  return CudaGuardWord::Make(DeviceOf(device));
}

}  // namespace tessera::cuda
