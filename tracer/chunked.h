// A list that grows without moving what is in it: chunks of elements, small ones first. Recordings write into it op by
// op, while the program waits. A vector would copy all of it each time it grows, and what it takes for a long recording
// comes fresh from the kernel, a fault for each page; chunks are small enough to be taken from memory that was used
// before.
#ifndef TESSERA_TRACER_CHUNKED_H_
#define TESSERA_TRACER_CHUNKED_H_

#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

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
    std::swap(size_, other.size_);
    std::swap(next_, other.next_);
    std::swap(last_, other.last_);
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return *At(i); }
  const T& operator[](size_t i) const { return *At(i); }
  T& front() { return *At(0); }
  const T& front() const { return *At(0); }
  T& back() { return *At(size_ - 1); }
  const T& back() const { return *At(size_ - 1); }

  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (next_ == last_) [[unlikely]]
      NextChunk();
    T* x = new (next_) T(std::forward<Args>(args)...);
    ++next_;
    // Another core has brought the memory; it takes long to come from there.
    __builtin_prefetch(reinterpret_cast<const char*>(next_) + kFetched, 1);
    ++size_;
    return *x;
  }
  void push_back(T x) { emplace_back(std::move(x)); }
  void pop_back() {
    At(--size_)->~T();
    Seek();
  }
  /// The next element needs memory.
  bool full() const { return next_ == last_ && ChunkOf(size_) == chunks_.size(); }
  /// Takes memory for so many elements in all, and uses it once, so that the system has brought it.
  void Touch(size_t size) {
    while (chunks_.empty() || BeginOf(chunks_.size()) < size) {
      AddChunk();
      std::memset(static_cast<void*>(chunks_.back()), 0, RoomOf(chunks_.size() - 1) * sizeof(T));
    }
    Seek();
  }
  void resize(size_t size) {
    if (size_ > size) {
      if constexpr (std::is_trivially_destructible_v<T>) {
        size_ = size;
      } else {
        while (size_ > size) At(--size_)->~T();
      }
      Seek();
    }
    while (size_ < size) emplace_back();
  }
  /// The memory stays, for as many elements again.
  void clear() { resize(0); }
  /// Gives up what no element lies in.
  void shrink_to_fit() {
    FreeFrom(size_ == 0 ? 0 : ChunkOf(size_ - 1) + 1);
    Seek();
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
  iterator end() { return {this, size_}; }
  const_iterator begin() const { return {this, 0}; }
  const_iterator end() const { return {this, size_}; }

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
    if (ChunkOf(size_) == chunks_.size()) AddChunk();
    Seek();
  }
  /// Where the next element goes; nowhere when the last chunk is full.
  void Seek() {
    const size_t k = ChunkOf(size_);
    if (k >= chunks_.size()) {
      next_ = last_ = nullptr;
      return;
    }
    last_ = chunks_[k] + RoomOf(k);
    next_ = chunks_[k] + (size_ - BeginOf(k));
  }
  void FreeFrom(size_t k) {
    for (size_t c = k; c < chunks_.size(); ++c) std::allocator<T>().deallocate(chunks_[c], RoomOf(c));
    chunks_.resize(k < chunks_.size() ? k : chunks_.size());
  }

  std::vector<T*> chunks_;
  size_t size_ = 0;
  T *next_ = nullptr, *last_ = nullptr;  // in the chunk of the next element; alike: it has none yet
};

}  // namespace tessera::tracer

#endif  // TESSERA_TRACER_CHUNKED_H_
