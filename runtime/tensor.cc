#include "runtime/tensor.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/fetch.h"
#include "runtime/owner.h"
#include "runtime/per_thread.h"
#include "runtime/sanitizer.h"

namespace tessera {

std::string ToString(const TensorType& type) {
  std::string text(Name(type.dtype));
  text += '[';
  for (int i = 0; i < type.rank; ++i) {
    if (i > 0) text += ',';
    if (type.dims[i] < 0)
      text += '?';
    else
      absl::StrAppend(&text, type.dims[i]);
  }
  text += ']';
  return text;
}

namespace rt {

/// Objects of this thread that wait to be used again. They stay constructed: neither class owns anything then.
struct FreeLists {
  // With AddressSanitizer nothing is kept, so that it sees a use after the last reference.
  static constexpr int kKept = kAddressSanitizer ? 0 : 256;

  template <class T>
  struct List {
    int count = 0;
    T* objects[kKept + 1];
  };
  List<Storage> storages;
  List<TensorImpl> tensors;

  template <class T>
  static List<T>& ListOf(FreeLists& lists) {
    if constexpr (std::is_same_v<T, Storage>)
      return lists.storages;
    else
      return lists.tensors;
  }

  /// An object with one reference and everything else as its last user left it.
  template <class T>
  static T* Take() {
    if (FreeLists* lists = PerThread<FreeLists>::Peek()) [[likely]] {
      List<T>& list = ListOf<T>(*lists);
      if (list.count > 0) [[likely]] {
        T* object = list.objects[--list.count];
        object->refs_.store(1, std::memory_order_relaxed);
        return object;
      }
    }
    return new T;
  }

  /// The n-th to be taken from now on, of both, are about to be written to.
  static void Foresee(int n) {
    const FreeLists* lists = PerThread<FreeLists>::Peek();
    if (lists == nullptr || lists->storages.count < n || lists->tensors.count < n) return;
    const auto* tensor = reinterpret_cast<const char*>(lists->tensors.objects[lists->tensors.count - n]);
    for (size_t at = 0; at < sizeof(TensorImpl); at += 64) FetchToWrite(tensor + at);
    FetchToWrite(lists->storages.objects[lists->storages.count - n]);
  }

  template <class T>
  static void Put(T* object) {
    if (FreeLists* lists = PerThread<FreeLists>::Get()) [[likely]] {
      List<T>& list = ListOf<T>(*lists);
      if (list.count < kKept) [[likely]] {
        list.objects[list.count++] = object;
        return;
      }
    }
    delete object;
  }

  void Retire() {
    while (storages.count > 0) delete storages.objects[--storages.count];
    while (tensors.count > 0) delete tensors.objects[--tensors.count];
  }
  void Fold() {}

  static Storage* NewStorage(Device& device, void* data, size_t bytes) {
    Storage* s = Take<Storage>();
    s->device_ = &device;
    s->data_ = data;
    s->bytes_ = bytes;
    s->done_ = nullptr;
    return s;
  }
};

absl::StatusOr<Ref<Storage>> Storage::Make(Device& device, size_t bytes) {
  TSR_ASSIGN_OR_RETURN(void* data, device.Allocate(bytes));
  return Ref<Storage>::Adopt(FreeLists::NewStorage(device, data, bytes));
}

Ref<Storage> Storage::Wrap(Device& device, void* data, size_t bytes, void (*done)(void*), void* arg) {
  Storage* s = FreeLists::NewStorage(device, data, bytes);
  s->done_ = done;
  s->done_arg_ = arg;
  return Ref<Storage>::Adopt(s);
}

void Storage::Destroy() {
  if (done_ != nullptr) [[unlikely]]
    done_(done_arg_);
  else
    device_->Free(data_, bytes_);
  FreeLists::Put(this);
}

TensorImpl* TensorImpl::New() {
  TensorImpl* t = FreeLists::Take<TensorImpl>();
  t->weak = false;
  t->data = nullptr;
  t->storage_ = nullptr;
  t->number_.store(0, std::memory_order_relaxed);
  return t;
}

uint64_t TensorImpl::EnsureNumber() {
  static constinit std::atomic<uint64_t> next{1};
  uint64_t number = number_.load(std::memory_order_relaxed);
  if (number != 0) return number;
  // Two threads may meet here; one of them decides.
  const uint64_t fresh = next.fetch_add(1, std::memory_order_relaxed);
  return number_.compare_exchange_strong(number, fresh, std::memory_order_relaxed) ? fresh : number;
}

namespace {
[[gnu::noinline, gnu::cold]] absl::Status NoMemoryFor(const TensorType& type, const absl::Status& why) {
  return Annotate(why, absl::StrCat("no memory for a tensor ", ToString(type), ": "));
}
}  // namespace

absl::StatusOr<Ref<TensorImpl>> TensorImpl::Make(Device& device, const TensorType& type) {
  // The product of the dims other than 0 must fit too: strides are made of them.
  int64_t span = static_cast<int64_t>(SizeOf(type.dtype));
  bool empty = false;
  for (int i = 0; i < type.rank; ++i) {
    if (type.dims[i] < 0) [[unlikely]]
      return InvalidArgument("cannot make a tensor ", ToString(type), ": dim ", i, " is not a number of 0 or more");
    empty |= type.dims[i] == 0;
    if (__builtin_mul_overflow(span, type.dims[i] == 0 ? 1 : type.dims[i], &span)) [[unlikely]]
      return InvalidArgument("cannot make a tensor ", ToString(type), ": it would have more than 2^63 bytes");
  }
  const size_t bytes = empty ? 0 : static_cast<size_t>(span);
  auto memory = device.Allocate(bytes);
  if (!memory.ok()) [[unlikely]]
    return NoMemoryFor(type, memory.status());
  TensorImpl* t = New();
  t->dtype = type.dtype;
  t->rank = type.rank;
  t->weak = type.weak;
  for (int i = 0; i < type.rank; ++i) t->dims[i] = type.dims[i];
  t->SetContiguousStrides();
  t->data = *memory;
  t->storage_ = FreeLists::NewStorage(device, *memory, bytes);
  return Ref<TensorImpl>::Adopt(t);
}

bool TensorImpl::ReleaseWaiting() {
  Owner* const owner = internal::t_owner;
  // The owner may be inside already: a host's own memory is given back there, by code of the host.
  if (owner != nullptr && watcher() == owner->watcher && !owner->busy.load(std::memory_order_relaxed)) {
    // While nobody else is inside, a tensor that waits does so until this is over.
    const bool waits = owner->TryEnter() && watcher() == owner->watcher;
    if (waits) {
      MarkDropped();
      ++owner->drops;
    }
    owner->Leave();
    if (waits) return false;
  }
  // Its op may be running in another thread, which learns of this when it is through.
  return refs_.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

absl::Status MakeCopies(Device& device, absl::Span<const TensorCopy> copies) {
  // None of the objects was used of late: those that come next are on their way meanwhile.
  constexpr int kAhead = 6;
  const bool on_cpu = device.kind() == DeviceKind::cpu;
  for (const auto& [type, data, to] : copies) {
    FreeLists::Foresee(kAhead);
    TensorImpl* const t = TensorImpl::New();
    t->dtype = type->dtype;
    t->rank = type->rank;
    t->weak = false;
    int64_t size = 1, stride = 1;
    for (int i = type->rank - 1; i >= 0; --i) {
      const int64_t dim = type->dims[i];
      t->dims[i] = dim;
      t->strides[i] = stride;
      size *= dim;
      stride *= dim > 0 ? dim : 1;
    }
    const size_t bytes = static_cast<size_t>(size) * SizeOf(type->dtype);
    const auto memory = device.Allocate(bytes);
    if (!memory.ok()) [[unlikely]] {
      t->Release();
      return NoMemoryFor(*type, memory.status());
    }
    t->data = *memory;
    t->set_storage(FreeLists::NewStorage(device, *memory, bytes));
    if (on_cpu) {
      if (bytes != 0) std::memcpy(*memory, data, bytes);
    } else if (absl::Status copied = device.CopyWithin(*memory, data, bytes); !copied.ok()) [[unlikely]] {
      t->Release();
      return copied;
    }
    *to = t;
  }
  return absl::OkStatus();
}

void TensorImpl::Destroy() {
  if (Watcher* w = watcher()) [[unlikely]] {
    w->OnDeath(*this);
    set_watcher(nullptr);
  }
  if (storage_ != nullptr) storage_->Release();
  FreeLists::Put(this);
}

}  // namespace rt
}  // namespace tessera
