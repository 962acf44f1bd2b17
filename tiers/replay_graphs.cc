#include "tiers/replay_graphs.h"

#include <algorithm>

namespace tessera::tiers {

ReplayGraphs::Entry* ReplayGraphs::Find() {
  ++clock_;
  for (Entry& e : entries_) {
    if (e.key != key_) continue;
    e.used = clock_;
    if (e.graph != nullptr && recordings_left_ < kRecordings) ++recordings_left_;
    return &e;
  }
  if (given_up()) return nullptr;
  if (entries_.size() < kMostEntries) {
    entries_.emplace_back();
  } else {
    // The one that was not used for the longest time goes.
    std::swap(*std::min_element(entries_.begin(), entries_.end(),
                                [](const Entry& a, const Entry& b) { return a.used < b.used; }),
              entries_.back());
    entries_.back() = {};
  }
  entries_.back().key = key_;
  entries_.back().used = clock_;
  return nullptr;
}

}  // namespace tessera::tiers
