// Threads for the peers that are compiled into this program, and memory for them. One thread per core, all started
// once.
#ifndef TESSERA_BENCH_TEAM_H_
#define TESSERA_BENCH_TEAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <vector>

namespace bench {

class Team {
 public:
  /// `threads` counts the caller of Run.
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Cuts [0, n) into one piece for each thread, with bounds that are multiples of `unit`, and calls fn(begin, end).
  void Run(int64_t n, int64_t unit, const std::function<void(int64_t, int64_t)>& fn);

 private:
  void Work(int index);
  void Piece(int index);

  int threads_;
  int64_t n_ = 0;
  int64_t piece_ = 0;
  const std::function<void(int64_t, int64_t)>* fn_ = nullptr;
  std::atomic<uint32_t> round_{0};
  std::atomic<int> working_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

/// The team of all cores, made at first use.
Team& AllCores();

/// f32 memory with huge pages, as the library's own has, filled with numbers in [-4, 4).
class Floats {
 public:
  explicit Floats(int64_t count);
  ~Floats();
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* data() const { return data_; }
  int64_t size() const { return count_; }

 private:
  float* data_;
  int64_t count_;
};

/// Throws unless |ours - theirs| <= absolute + 1e-5 |ours| everywhere: a peer that computes something else is no peer.
void CheckClose(std::span<const float> ours, const float* theirs, double absolute);

/// memcpy by all cores.
void ThreadedCopy(void* to, const void* from, int64_t bytes);

}  // namespace bench

#endif  // TESSERA_BENCH_TEAM_H_
