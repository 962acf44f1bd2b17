// A list that grows without moving what is in it: chunks of elements, small ones first. Recordings write into it op by
// op, while the program waits. A vector would copy all of it each time it grows, and what it takes for a long recording
// comes fresh from the kernel, a fault for each page; chunks are small enough to be taken from memory that was used
// before.
#ifndef TESSERA_TRACER_CHUNKED_H_
#define TESSERA_TRACER_CHUNKED_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/fetch.h"

namespace tessera::tracer {

/// Addresses of elements stay until they are removed. Indices cost a little more than those of a vector.
template <class T>
class Chunked {
 public:
  using value_type = T;
  using reference = T&;
  using const_reference = const T&;
  using size_type = size_t;

  Chunked() = default;
  Chunked(const Chunked& other) : Chunked() {  // so that what was made goes where an element throws
    for (const T& x : other) emplace_back(x);
  }
  Chunked(Chunked&& other) noexcept { swap(other); }
  Chunked& operator=(Chunked other) noexcept {
    swap(other);
    return *this;
  }
  ~Chunked() {
    clear();
    FreeFrom(0);
  }
  void swap(Chunked& other) noexcept {
    chunks_.swap(other.chunks_);
    std::swap(next_, other.next_);
    std::swap(last_, other.last_);
    std::swap(room_, other.room_);
  }

  size_t size() const { return room_ - static_cast<size_t>(last_ - next_); }
  bool empty() const { return size() == 0; }
  T& operator[](size_t i) { return *At(i); }
  const T& operator[](size_t i) const { return *At(i); }
  T& front() { return *At(0); }
  const T& front() const { return *At(0); }
  T& back() { return *At(size() - 1); }
  const T& back() const { return *At(size() - 1); }

  template <class... Args>
  [[gnu::always_inline]] T& emplace_back(Args&&... args) {
    if (next_ == last_) [[unlikely]]
      NextChunk();
    T* x = new (next_) T(std::forward<Args>(args)...);
    ++next_;
    rt::FetchToWrite(reinterpret_cast<const char*>(next_) + kFetched);
    return *x;
  }
  void push_back(T x) { emplace_back(std::move(x)); }
  void pop_back() {
    const size_t last = size() - 1;
    At(last)->~T();
    Seek(last);
  }
  /// The next element needs memory.
  bool full() const { return next_ == last_ && ChunkOf(size()) == chunks_.size(); }
  /// Takes memory for so many elements in all, and uses it once, so that the system has brought it.
  void Touch(size_t size) {
    while (chunks_.empty() || BeginOf(chunks_.size()) < size) {
      AddChunk();
      std::memset(static_cast<void*>(chunks_.back()), 0, RoomOf(chunks_.size() - 1) * sizeof(T));
    }
    Seek(this->size());
  }
  void resize(size_t size) {
    size_t now = this->size();
    if (now > size) {
      if constexpr (!std::is_trivially_destructible_v<T>)
        while (now > size) At(--now)->~T();
      Seek(size);
    }
    for (; now < size; ++now) emplace_back();
  }
  /// The memory stays, for as many elements again.
  void clear() { resize(0); }
  /// The first elements are about to be written, in memory that another core has used.
  void Fetch() const {
    for (size_t k = 0; k < 2 && k < chunks_.size(); ++k) FetchChunk(k);
  }
  /// Gives up what no element lies in.
  void shrink_to_fit() {
    const size_t now = size();
    FreeFrom(now == 0 ? 0 : ChunkOf(now - 1) + 1);
    Seek(now);
  }

  template <class List>
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = T;
    using difference_type = ptrdiff_t;
    using reference = std::conditional_t<std::is_const_v<List>, const T&, T&>;
    using pointer = std::remove_reference_t<reference>*;

    Iterator() = default;
    Iterator(List* list, size_t i) : list_(list), i_(i) {}
    reference operator*() const { return (*list_)[i_]; }
    pointer operator->() const { return &(*list_)[i_]; }
    Iterator& operator++() {
      ++i_;
      return *this;
    }
    Iterator operator++(int) { return {list_, i_++}; }
    bool operator==(const Iterator&) const = default;

   private:
    List* list_ = nullptr;
    size_t i_ = 0;
  };
  using iterator = Iterator<Chunked>;
  using const_iterator = Iterator<const Chunked>;
  iterator begin() { return {this, 0}; }
  iterator end() { return {this, size()}; }
  const_iterator begin() const { return {this, 0}; }
  const_iterator end() const { return {this, size()}; }

 private:
  // 16, 16, 32, 64, 128, and from there on 256 in each.
  static constexpr size_t kFirst = 16, kMost = 256, kGrowing = 5;
  static constexpr size_t kFetched = 512;  // bytes ahead
  static size_t ChunkOf(size_t i) {
    return i < kMost ? static_cast<size_t>(std::bit_width(i / kFirst)) : kGrowing - 1 + i / kMost;
  }
  static size_t BeginOf(size_t k) {
    if (k >= kGrowing) return (k - kGrowing + 1) * kMost;
    return k == 0 ? 0 : kFirst << (k - 1);
  }
  static size_t RoomOf(size_t k) { return BeginOf(k + 1) - BeginOf(k); }
  T* At(size_t i) const {
    const size_t k = ChunkOf(i);
    return chunks_[k] + (i - BeginOf(k));
  }
  void AddChunk() {
    chunks_.reserve(chunks_.size() + 1);  // so that a chunk is never without an owner
    chunks_.push_back(std::allocator<T>().allocate(RoomOf(chunks_.size())));
  }
  [[gnu::noinline]] void NextChunk() {
    const size_t now = size(), k = ChunkOf(now);
    if (k == chunks_.size()) AddChunk();
    if (k + 1 < chunks_.size()) FetchChunk(k + 1);
    Seek(now);
  }
  /// What is fetched from an element on lies in its chunk; this is what comes first in one.
  void FetchChunk(size_t k) const {
    const auto* const chunk = reinterpret_cast<const char*>(chunks_[k]);
    const size_t bytes = std::min(RoomOf(k) * sizeof(T), kFetched);
    for (size_t at = 0; at < bytes; at += 64) rt::FetchToWrite(chunk + at);
  }
  /// There are so many elements now: where does the next one go? Nowhere when the last chunk is full.
  void Seek(size_t size) {
    const size_t k = ChunkOf(size);
    if (k >= chunks_.size()) {
      next_ = last_ = nullptr;
      room_ = size;
      return;
    }
    last_ = chunks_[k] + RoomOf(k);
    next_ = chunks_[k] + (size - BeginOf(k));
    room_ = BeginOf(k + 1);
  }
  void FreeFrom(size_t k) {
    for (size_t c = k; c < chunks_.size(); ++c) std::allocator<T>().deallocate(chunks_[c], RoomOf(c));
    chunks_.resize(k < chunks_.size() ? k : chunks_.size());
  }

  std::vector<T*> chunks_;
  T *next_ = nullptr, *last_ = nullptr;  // in the chunk of the next element; alike: it has none yet
  size_t room_ = 0;                      // elements up to last_
};

}  // namespace tessera::tracer

#endif  // TESSERA_TRACER_CHUNKED_H_
