// The thread whose ops tensors wait for, and the lock on them.
#ifndef TESSERA_RUNTIME_OWNER_H_
#define TESSERA_RUNTIME_OWNER_H_

#include <atomic>
#include <cstdint>

#include "runtime/sanitizer.h"

namespace tessera::rt {

class Watcher;

/// One for each thread of which ops wait. The thread itself goes in and out without an atomic read-modify-write, and
/// mostly without a fence. Another thread that wants in closes the gate, makes every core of the process pass a barrier
/// (tiers/deferral.cc) and waits until the owner is out; so the owner's plain loads and stores are enough.
struct Owner {
  static constexpr uint8_t kWanted = 1;     // another thread wants in
  static constexpr uint8_t kNoBarrier = 2;  // and has nothing but fences to find out whether the owner is inside
  // ThreadSanitizer does not know of that barrier.
  static constexpr auto kAcquire = kThreadSanitizer ? std::memory_order_acquire : std::memory_order_relaxed;
  static constexpr auto kRelease = kThreadSanitizer ? std::memory_order_release : std::memory_order_relaxed;

  /// Of the tensors that wait for this thread's ops.
  Watcher* watcher = nullptr;
  std::atomic<bool> busy{false};  // the owner is inside
  std::atomic<uint8_t> gate{0};
  /// Tensors that waited when the thread let go of them.
  int32_t drops = 0;

  /// True: the owner is inside and nobody else is. False: it is to Leave() at once.
  [[gnu::always_inline]] bool TryEnter() {
    busy.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return gate.load(kAcquire) == 0;
  }
  [[gnu::always_inline]] void Leave() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (gate.load(std::memory_order_relaxed) != 0) [[unlikely]]
      std::atomic_thread_fence(std::memory_order_release);
    busy.store(false, kRelease);
  }
};

/// The owner's way in and, however the scope ends, out.
class OwnerScope {
 public:
  [[gnu::always_inline]] explicit OwnerScope(Owner& owner) : owner_(owner), is_inside_(owner.TryEnter()) {}
  [[gnu::always_inline]] ~OwnerScope() { owner_.Leave(); }
  OwnerScope(const OwnerScope&) = delete;
  /// False: somebody else is inside, or wants to be.
  bool is_inside() const { return is_inside_; }

 private:
  Owner& owner_;
  const bool is_inside_;
};

namespace internal {
/// Of this thread; null where none of its ops can wait.
[[gnu::tls_model("initial-exec")]] inline thread_local constinit Owner* t_owner = nullptr;
}  // namespace internal

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_OWNER_H_
