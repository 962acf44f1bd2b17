#include "tiers/visit.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <utility>
#include <vector>

namespace tessera::tiers {
namespace internal {
std::atomic<bool> g_barrier{false};
std::atomic<bool> g_retired{false};
}  // namespace internal

namespace {

// While another thread stays inside, for as long as a loop goes round perhaps, visits between two attempts.
constexpr int32_t kPatience = 64;

struct Retired {
  std::mutex mutex;
  std::vector<std::shared_ptr<const void>> objects;
};
Retired& TheRetired() {
  static auto* retired = new Retired;
  return *retired;
}

bool NobodyIsInside() {
  bool inside = false;
  rt::PerThread<internal::Visitor>::ForEach(
      [&](internal::Visitor& v) { inside |= v.inside.load(std::memory_order_acquire) != 0; }, [] {});
  return !inside;
}

}  // namespace

void Visit::Prepare() {
  internal::g_barrier = syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void Visit::Retire(std::shared_ptr<const void> object) {
  Retired& retired = TheRetired();
  std::lock_guard lock(retired.mutex);
  retired.objects.push_back(std::move(object));
  internal::g_retired.store(true, std::memory_order_relaxed);
}

void Visit::Collect() {
  if (--visitor_->patience > 0) return;
  visitor_->patience = kPatience;
  std::vector<std::shared_ptr<const void>> gone;  // after the lock: what goes may have objects of its own to retire
  Retired& retired = TheRetired();
  std::lock_guard lock(retired.mutex);
  if (!NobodyIsInside()) return;
  // Whoever has come in since then, unseen, has found what is there now.
  if (internal::g_barrier.load(std::memory_order_relaxed))
    syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!NobodyIsInside()) return;
  gone.swap(retired.objects);
  internal::g_retired.store(false, std::memory_order_relaxed);
  visitor_->patience = 0;
}

}  // namespace tessera::tiers
