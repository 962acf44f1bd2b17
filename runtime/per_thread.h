// One object of T per thread, reached through one pointer in thread-local storage.
//
// C++ destroys thread_local objects when a thread ends, and static objects after that; tensors may die in either. So
// the pointer itself is trivially destructible and turns null at the end of the thread, and users must then do
// without (Get() returns null).
#ifndef TESSERA_RUNTIME_PER_THREAD_H_
#define TESSERA_RUNTIME_PER_THREAD_H_

#include <mutex>
#include <new>

namespace tessera::rt {

namespace internal {
/// Guards the lists of all PerThread types. Held briefly, and last of all locks.
extern std::mutex g_per_thread_mutex;
}  // namespace internal

/// T is default constructible and has
///   void Retire();  // at the end of its thread, no lock held: give back what it holds
///   void Fold();    // right after that, under the lock that ForEach takes: add its counts to those that stay
template <class T>
class PerThread {
 public:
  /// This thread's object, made at first use; null without memory or when the thread is past its end.
  static T* Get() {
    T* p = current_;
    return p != nullptr ? p : Make();
  }
  /// This thread's object, or null if it has none now.
  static T* Peek() { return current_; }

  /// Calls fn(T&) for the objects of all threads; no thread begins or ends meanwhile, but their owners go on using
  /// them. `last` runs under the same lock: read there what Fold() adds to.
  template <class Fn, class Last>
  static void ForEach(Fn fn, Last last) {
    std::lock_guard lock(internal::g_per_thread_mutex);
    for (Node* n = head_; n != nullptr; n = n->next) fn(n->object);
    last();
  }

 private:
  struct Node {
    T object;
    Node* next = nullptr;
    Node* prev = nullptr;
  };
  struct Guard {
    ~Guard() { End(); }
    void Touch() {}
  };

  [[gnu::noinline]] static T* Make() noexcept {
    if (ended_) return nullptr;
    Node* n = new (std::nothrow) Node;
    if (n == nullptr) return nullptr;
    {
      std::lock_guard lock(internal::g_per_thread_mutex);
      n->next = head_;
      if (head_ != nullptr) head_->prev = n;
      head_ = n;
    }
    node_ = n;
    current_ = &n->object;
    static thread_local Guard guard;
    guard.Touch();
    return current_;
  }

  static void End() noexcept {
    Node* n = node_;
    node_ = nullptr;
    current_ = nullptr;
    ended_ = true;
    if (n == nullptr) return;
    n->object.Retire();
    {
      std::lock_guard lock(internal::g_per_thread_mutex);
      n->object.Fold();
      if (n->next != nullptr) n->next->prev = n->prev;
      (n->prev != nullptr ? n->prev->next : head_) = n->next;
    }
    delete n;
  }

  // initial-exec: a load from the thread pointer in place of a call, also in a shared library. Only these few words
  // per type live there, because a library that is opened late shares a small reserve of such storage.
  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit T* current_ = nullptr;
  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit Node* node_ = nullptr;
  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit bool ended_ = false;
  static inline constinit Node* head_ = nullptr;
};

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_PER_THREAD_H_
