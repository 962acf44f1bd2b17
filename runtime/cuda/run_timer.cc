#include "runtime/run_timer.h"

#include <algorithm>
#include <mutex>

#include "runtime/cuda/device.h"

namespace tessera::cuda {
namespace {

class EventPairs final : public rt::RunTimer {
 public:
  explicit EventPairs(Device& device) : device_(device) {}
  ~EventPairs() override {
    if (!device_.Enter().ok()) return;
    for (const Pair& p : pairs_)
      for (CUevent event : {p.first, p.last})
        if (event != nullptr) TheDriver().cuEventDestroy(event);
  }

  int Begin() override {
    std::lock_guard lock(mutex_);
    const auto free = std::find_if(std::begin(pairs_), std::end(pairs_), [](const Pair& p) { return !p.is_used; });
    if (free == std::end(pairs_) || !device_.Enter().ok() || !Record(free->first)) return -1;
    free->is_used = true;
    free->runs = 0;
    return static_cast<int>(free - pairs_);
  }
  void End(int number, int64_t runs) override {
    std::lock_guard lock(mutex_);
    Pair& p = pairs_[number];
    p.runs = runs;
    p.is_used = runs > 0 && device_.Enter().ok() && Record(p.last);
  }
  int64_t Take() override {
    std::lock_guard lock(mutex_);
    if (!device_.Enter().ok()) return 0;
    for (Pair& p : pairs_) {
      if (!p.is_used || p.runs == 0) continue;
      const CUresult done = TheDriver().cuEventQuery(p.last);
      if (done == CUDA_ERROR_NOT_READY) continue;
      p.is_used = false;
      float ms = 0;
      if (done != CUDA_SUCCESS || TheDriver().cuEventElapsedTime(&ms, p.first, p.last) != CUDA_SUCCESS) continue;
      return std::max<int64_t>(static_cast<int64_t>(double{ms} * 1e6) / p.runs, 1);
    }
    return 0;
  }

 private:
  struct Pair {
    CUevent first = nullptr, last = nullptr;
    bool is_used = false;
    int64_t runs = 0;  // 0: it has not ended
  };
  bool Record(CUevent& event) {
    const Driver& driver = TheDriver();
    if (event == nullptr && driver.cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return false;
    return driver.cuEventRecord(event, device_.live_stream()) == CUDA_SUCCESS;
  }

  Device& device_;
  std::mutex mutex_;
  Pair pairs_[8];
};

}  // namespace
}  // namespace tessera::cuda

namespace tessera::rt {

std::unique_ptr<RunTimer> RunTimer::On(Device& device) {
  if (device.kind() != DeviceKind::cuda) return nullptr;
  return std::make_unique<cuda::EventPairs>(cuda::DeviceOf(device));
}

}  // namespace tessera::rt
