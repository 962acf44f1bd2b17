// Tensors as the runtime holds them: a Storage is one allocation on one device, a TensorImpl is a typed, strided
// window onto one. Both are counted by intrusive references and recycled through per-thread free lists, because an
// eager op makes one of each.
#ifndef TESSERA_RUNTIME_TENSOR_H_
#define TESSERA_RUNTIME_TENSOR_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "runtime/device.h"
#include "tessera/dtype.h"

namespace tessera {

inline constexpr int kMaxRank = 8;

/// Element type and dims. During shape inference with symbols a negative dim is a symbol (ir/symbols.h); in a View
/// and in a TensorImpl every dim is a number >= 0.
struct TensorType {
  DType dtype = DType::f32;
  uint8_t rank = 0;
  /// A host number without a dtype of its own: it takes the dtype of the tensors beside it (ir/op.h).
  bool weak = false;
  int64_t dims[kMaxRank];

  int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  bool SameDims(const TensorType& o) const {
    if (rank != o.rank) return false;
    for (int i = 0; i < rank; ++i)
      if (dims[i] != o.dims[i]) return false;
    return true;
  }
};

/// "f32[2,3]"
std::string ToString(const TensorType& type);

/// What a kernel sees of a tensor. `data` is the first element; strides count elements, and may be 0 (broadcast) or
/// negative (flipped).
struct View : TensorType {
  int64_t strides[kMaxRank];
  void* data = nullptr;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  bool IsContiguous() const {
    int64_t want = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (dims[i] == 0) return true;
      if (dims[i] != 1 && strides[i] != want) return false;
      want *= dims[i];
    }
    return true;
  }
  void SetContiguousStrides() {
    int64_t s = 1;
    for (int i = rank - 1; i >= 0; --i) {
      strides[i] = s;
      s *= dims[i] > 0 ? dims[i] : 1;
    }
  }
};

namespace rt {

/// Intrusive pointer: T has Retain() and Release().
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  Ref(const Ref& o) : p_(o.p_) {
    if (p_) p_->Retain();
  }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() {
    if (p_) p_->Release();
  }
  /// Takes over one reference that the caller holds.
  static Ref Adopt(T* p) {
    Ref r;
    r.p_ = p;
    return r;
  }
  static Ref Share(T* p) {
    if (p) p->Retain();
    return Adopt(p);
  }
  T* get() const { return p_; }
  T* release() { return std::exchange(p_, nullptr); }
  T& operator*() const { return *p_; }
  T* operator->() const { return p_; }
  explicit operator bool() const { return p_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.p_ == b.p_; }

 private:
  T* p_ = nullptr;
};

/// One allocation. Its memory goes back to the device with the last reference.
class Storage {
 public:
  static absl::StatusOr<Ref<Storage>> Make(Device& device, size_t bytes);
  /// Memory that someone else owns; `done(arg)` runs with the last reference.
  static Ref<Storage> Wrap(Device& device, void* data, size_t bytes, void (*done)(void*), void* arg);

  void Retain() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Release() {
    if (refs_.load(std::memory_order_acquire) == 1 || refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) Destroy();
  }
  bool unique() const { return refs_.load(std::memory_order_acquire) == 1; }

  Device& device() const { return *device_; }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  /// Somebody else's memory.
  bool is_wrapped() const { return done_ != nullptr; }

 private:
  friend struct FreeLists;
  void Destroy();
  std::atomic<int32_t> refs_{1};
  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  void (*done_)(void*) = nullptr;
  void* done_arg_ = nullptr;
};

class TensorImpl;

/// Whoever must know when a tensor is used or dies: ops that wait to run, or a recording. A tensor has at most one.
/// All calls may come from any thread.
class Watcher {
 public:
  virtual ~Watcher() = default;
  /// The contents of x are about to be used by the host. Afterwards x has them, or the status says why not.
  virtual absl::Status OnAccess(TensorImpl& x) = 0;
  /// The same for an op that executes at once.
  virtual absl::Status OnOperand(TensorImpl& x) = 0;
  /// The last reference to x is gone.
  virtual void OnDeath(TensorImpl& x) = 0;
};

/// A tensor. dims and strides are set before it is shared and never change after that; so is data, unless a watcher
/// says that the op which makes it has not run yet.
class TensorImpl : public View {
 public:
  /// A TensorImpl with one reference, no storage and unset dims: the caller fills the View and calls set_storage().
  static TensorImpl* New();
  /// A contiguous tensor of that type with memory of its own, contents undefined.
  static absl::StatusOr<Ref<TensorImpl>> Make(Device& device, const TensorType& type);

  void Retain() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Release() {
    const int32_t refs = refs_.load(std::memory_order_acquire);
    if (refs == 1 || (refs == kWaiting + 1 ? ReleaseWaiting() : refs_.fetch_sub(1, std::memory_order_acq_rel) == 1))
      Destroy();
  }
  bool unique() const { return refs_.load(std::memory_order_acquire) == 1; }

  // ---- waiting. A tensor whose op has not run belongs to its watcher, which holds no reference: most die before their
  // op runs, and the owner's thread then marks them without an atomic read-modify-write. The storage of one that waits
  // is not counted.
  /// For the watcher: from now on there is one reference, the caller's. It is a new tensor, or was dropped.
  void StartWaiting() {
    refs_.store(kWaiting + 1, std::memory_order_relaxed);
    number_.store(0, std::memory_order_relaxed);
  }
  bool waiting() const { return refs_.load(std::memory_order_relaxed) >= kWaiting; }
  /// It waits and nobody holds it: it is the watcher's to use again. What its last holder did with it comes before.
  bool dropped() const { return refs_.load(std::memory_order_acquire) == kWaiting; }
  bool dropped_relaxed() const { return refs_.load(std::memory_order_relaxed) == kWaiting; }
  void MarkDropped() { refs_.store(kWaiting, std::memory_order_relaxed); }
  /// It is a tensor like any other now, with `more` references for the caller. False when it was dropped before.
  bool StopWaiting(int32_t more) {
    if (refs_.fetch_sub(kWaiting - more, std::memory_order_acq_rel) != kWaiting) [[likely]]
      return true;
    refs_.store(kWaiting, std::memory_order_relaxed);
    return false;
  }
  /// For the watcher, of one that was dropped.
  void DestroyDropped() {
    storage_ = nullptr;
    watcher_.store(nullptr, std::memory_order_relaxed);
    Destroy();
  }

  Storage* storage() const { return storage_; }
  /// Takes over one reference.
  void set_storage(Storage* storage) { storage_ = storage; }
  Device& device() const { return storage_->device(); }

  Watcher* watcher() const { return watcher_.load(std::memory_order_acquire); }
  void set_watcher(Watcher* watcher) { watcher_.store(watcher, std::memory_order_release); }
  /// The watcher's number for this tensor; meaningless without one.
  uint32_t slot() const { return slot_; }
  void set_slot(uint32_t slot) { slot_ = slot; }

  /// What tapes know this value by (interp/api/tape.h): no other value of the process ever has the same; 0 for none.
  uint64_t number() const { return number_.load(std::memory_order_relaxed); }
  uint64_t EnsureNumber();

 private:
  friend struct FreeLists;
  static constexpr int32_t kWaiting = 1 << 30;  // beside the references
  void Destroy();
  /// True when the tensor is to be destroyed.
  bool ReleaseWaiting();
  std::atomic<int32_t> refs_{1};
  uint32_t slot_ = 0;
  Storage* storage_ = nullptr;
  std::atomic<Watcher*> watcher_{nullptr};
  std::atomic<uint64_t> number_{0};
};

/// A contiguous tensor of that type lies at `data`; *to gets a copy of it, with one reference.
struct TensorCopy {
  const TensorType* type;
  const void* data;
  TensorImpl** to;
};
/// Many at once. On failure some were made.
absl::Status MakeCopies(Device& device, absl::Span<const TensorCopy> copies);

/// Makes sure that x has its contents.
inline absl::Status Ready(TensorImpl& x) {
  if (Watcher* w = x.watcher()) [[unlikely]]
    return w->OnAccess(x);
  return absl::OkStatus();
}

}  // namespace rt
}  // namespace tessera

#endif  // TESSERA_RUNTIME_TENSOR_H_
