// Whole runs of an activation on a GPU, recorded as graphs of the device: one submission in place of one for each
// kernel.
//
// A graph is good for the addresses, numbers and shapes with which it was recorded; all of them together are its key.
// Pools hand the same memory out again when a loop comes round, so few keys serve most programs. A run whose key is
// seen for the second time is recorded; runs with other keys go step by step. So do some runs with products of a
// library that have run for long, because other kernels for a product can be tried only there.
#ifndef TESSERA_TIERS_REPLAY_GRAPHS_H_
#define TESSERA_TIERS_REPLAY_GRAPHS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/device.h"
#include "runtime/options.h"

namespace tessera::tiers {

class ReplayGraphs {
 public:
  struct Entry {
    std::vector<uint64_t> key;
    std::unique_ptr<rt::DeviceGraph> graph;          // null: the key was seen once
    std::vector<std::pair<int32_t, void*>> windows;  // values that lie in the memory of others, and where
    int64_t number = 0;                              // of the graph, for recordings
    std::vector<int64_t> steps;                      // whose each node is; empty: not known
    uint64_t used = 0;
    double untried_us = 0;  // of products in it for which other kernels were not tried, by guess
  };

  /// The key of the run at hand; filled by the caller.
  std::vector<uint64_t>& key() { return key_; }
  /// The entry of that key; null where it is new, and remembered, or where recording does not pay here.
  Entry* Find();
  /// Nothing can be recorded here.
  void GiveUp() { recordings_left_ = 0, entries_.clear(); }
  bool given_up() const { return recordings_left_ <= 0; }
  /// Before a recording.
  void Count() { --recordings_left_; }
  /// A graph with that much of it was launched. True, a few times at most: its products have run for so long that they
  /// are to run by themselves for some time, so that other kernels can be tried.
  bool EarnsTrials(double untried_us) {
    untried_us_ += untried_us;
    if (trials_left_ == 0 || untried_us_ < static_cast<double>(rt::options().tune_after())) return false;
    untried_us_ = 0;
    --trials_left_;
    return true;
  }

 private:
  static constexpr size_t kMostEntries = 8;
  static constexpr int kRecordings = 64;  // of an activation; each use of a graph earns one more
  std::vector<uint64_t> key_;
  std::vector<Entry> entries_;
  uint64_t clock_ = 0;
  int recordings_left_ = kRecordings;
  double untried_us_ = 0;
  int trials_left_ = 3;
};

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_REPLAY_GRAPHS_H_
