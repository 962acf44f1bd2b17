#include "tools/trace/slices.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tessera::tools {
namespace {

std::vector<Slice> Merge(const std::vector<Slice>& slices, int64_t grain) {
  std::vector<Slice> merged;
  std::map<uint32_t, int64_t> lanes;
  int64_t busy = 0;
  for (const Slice& s : slices) {
    Slice* last = merged.empty() ? nullptr : &merged.back();
    const bool joins = last != nullptr && s.ns < grain && last->ns < grain && s.start < last->start + grain &&
                       s.start - (last->start + last->ns) < grain / 4;
    if (!joins) {
      merged.push_back(s);
      lanes.clear();
      busy = s.ns;
      lanes[static_cast<uint32_t>(s.lane)] = s.ns;
      continue;
    }
    last->ns = std::max(last->start + last->ns, s.start + s.ns) - last->start;
    last->count += s.count;
    busy += s.ns;
    auto& mine = lanes[static_cast<uint32_t>(s.lane)];
    mine += s.ns;
    if (mine * 2 > busy) {
      last->lane = s.lane;
      last->label = s.label;
    }
  }
  return merged;
}

}  // namespace

void MergeUntilFew(int64_t duration_ns, size_t most, std::vector<Track>* tracks) {
  size_t all = 0;
  for (const Track& track : *tracks) all += track.slices.size();
  for (int64_t grain = std::max<int64_t>(duration_ns / 200'000, 8); all > most && grain < duration_ns; grain *= 2) {
    all = 0;
    for (Track& track : *tracks) {
      track.slices = Merge(track.slices, grain);
      all += track.slices.size();
    }
  }
}

}  // namespace tessera::tools
