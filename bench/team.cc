#include "bench/team.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "bench/machine.h"

namespace bench {

Team::Team(int threads) : threads_(threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { Work(i); });
}

Team::~Team() {
  stop_ = true;
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Team::Run(int64_t n, int64_t unit, const std::function<void(int64_t, int64_t)>& fn) {
  n_ = n;
  piece_ = (n + threads_ * unit - 1) / (threads_ * unit) * unit;
  fn_ = &fn;
  working_.store(threads_ - 1);
  round_.fetch_add(1);
  round_.notify_all();
  Piece(0);
  for (int left = working_.load(); left != 0; left = working_.load()) working_.wait(left);
}

void Team::Piece(int index) {
  const int64_t begin = std::min(n_, index * piece_);
  const int64_t end = std::min(n_, begin + piece_);
  if (begin < end) (*fn_)(begin, end);
}

void Team::Work(int index) {
  for (uint32_t seen = 0;;) {
    round_.wait(seen);
    seen = round_.load();
    if (stop_) return;
    Piece(index);
    if (working_.fetch_sub(1) == 1) working_.notify_all();
  }
}

Team& AllCores() {
  static Team team(Cores());
  return team;
}

Floats::Floats(int64_t count) : count_(count) {
  constexpr size_t kHuge = size_t{2} << 20;
  const size_t bytes = (static_cast<size_t>(count) * sizeof(float) + kHuge - 1) / kHuge * kHuge;
  data_ = static_cast<float*>(std::aligned_alloc(kHuge, bytes));
  if (data_ == nullptr) throw std::bad_alloc();
  madvise(data_, bytes, MADV_HUGEPAGE);
  uint32_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    data_[i] = static_cast<float>(static_cast<int32_t>(state >> 8) - (1 << 23)) * 0x1p-21f;
  }
}

Floats::~Floats() { std::free(data_); }

void CheckClose(std::span<const float> ours, const float* theirs, double absolute) {
  for (size_t i = 0; i < ours.size(); ++i)
    if (!(std::abs(double{ours[i]} - double{theirs[i]}) <= absolute + 1e-5 * std::abs(double{ours[i]})))
      throw std::runtime_error("the hand-written kernel disagrees at element " + std::to_string(i) + ": " +
                               std::to_string(ours[i]) + " and " + std::to_string(theirs[i]));
}

void ThreadedCopy(void* to, const void* from, int64_t bytes) {
  AllCores().Run(bytes, 4096, [=](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

}  // namespace bench
