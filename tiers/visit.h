// When a list of versions can go. Threads that run functions read the list of a place through one pointer, without a
// lock and without counting; whoever puts another one in its place leaves the old one here, and it goes when no thread
// can still be looking at it.
#ifndef TESSERA_TIERS_VISIT_H_
#define TESSERA_TIERS_VISIT_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "runtime/per_thread.h"

namespace tessera::tiers {

namespace internal {
/// The system can make every core of the process pass a barrier, so that visitors need none.
[[gnu::visibility("hidden")]] extern std::atomic<bool> g_barrier;
[[gnu::visibility("hidden")]] extern std::atomic<bool> g_retired;
struct Visitor {
  std::atomic<int32_t> inside{0};
  int32_t patience = 0;  // visits until it tries to collect again
  void Retire() {}
  void Fold() {}
};
}  // namespace internal

/// Whatever a thread finds during a visit stays until the visit is over. They nest. Cheap: two stores.
class Visit {
 public:
  Visit() : visitor_(rt::PerThread<internal::Visitor>::Get()) {
    if (visitor_ == nullptr) return;
    visitor_->inside.store(visitor_->inside.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (internal::g_barrier.load(std::memory_order_relaxed)) [[likely]]
      std::atomic_signal_fence(std::memory_order_seq_cst);
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  ~Visit() {
    if (visitor_ == nullptr) return;
    const int32_t outer = visitor_->inside.load(std::memory_order_relaxed) - 1;
    visitor_->inside.store(outer, std::memory_order_release);
    if (outer == 0 && internal::g_retired.load(std::memory_order_relaxed)) [[unlikely]]
      Collect();
  }
  Visit(const Visit&) = delete;
  /// False: there is no memory for it, or the thread is past its end. Nothing may be looked at then.
  bool ok() const { return visitor_ != nullptr; }

  /// Nobody finds it any more. It goes at the end of some visit.
  static void Retire(std::shared_ptr<const void> object);
  /// Asks the system for its barriers, once.
  static void Prepare();

 private:
  void Collect();
  internal::Visitor* const visitor_;
};

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_VISIT_H_
