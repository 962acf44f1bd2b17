// Whole runs of an activation on a GPU, recorded as graphs of the device: one submission in place of one for each
// kernel.
//
// A graph is good for the addresses, numbers and shapes with which it was recorded; all of them together are its key.
// Pools hand the same memory out again when a loop comes round, so few keys serve most programs. A run whose key is
// seen for the second time is recorded; runs with other keys go step by step.
#ifndef TESSERA_TIERS_REPLAY_GRAPHS_H_
#define TESSERA_TIERS_REPLAY_GRAPHS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/device.h"

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

 private:
  static constexpr size_t kMostEntries = 8;
  static constexpr int kRecordings = 64;  // of an activation; each use of a graph earns one more
  std::vector<uint64_t> key_;
  std::vector<Entry> entries_;
  uint64_t clock_ = 0;
  int recordings_left_ = kRecordings;
};

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_REPLAY_GRAPHS_H_
