#include "tiers/rounds.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "interp/stream.h"

namespace tessera::tiers {
namespace {

/// Steps that are looked at, from the end: the program waits meanwhile.
constexpr size_t kMostSteps = 4096;
constexpr size_t kMostPlaces = 32;
/// Stretches of fewer ops on average are left to tier 1.
constexpr size_t kLeastOps = 8;
constexpr size_t kLeastRounds = 4;
/// Part of the steps that must lie in stretches which came more than once.
constexpr double kLeastCovered = 0.5;
/// The difference of scores that is worth shorter stretches.
constexpr double kClose = 0.05;

struct Place {
  uint64_t hash = 0;
  size_t count = 0;
  int64_t live = 0;
};

/// How well the place cuts: the part of the steps between its first and its last time that lies in stretches which came
/// again, and less of it the more ways there are. 0: not well enough.
double ScoreOf(const std::vector<uint64_t>& steps, uint64_t place) {
  struct Way {
    size_t times = 0, ops = 0;
  };
  absl::flat_hash_map<uint64_t, Way> ways;
  size_t begin = 0, all = 0, stretches = 0;
  uint64_t way = 0;
  bool inside = false;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] == place) {
      if (inside) {
        Way& w = ways[way];
        ++w.times;
        w.ops = i - begin;
        all += i - begin;
        ++stretches;
      }
      inside = true;
      begin = i;
      way = 0;
    }
    way = (way ^ steps[i]) * 0x9e3779b97f4a7c15ull;
    way ^= way >> 29;
  }
  size_t covered = 0;
  for (const auto& [hash, w] : ways)
    if (w.times > 1) covered += w.times * w.ops;
  if (all == 0 || static_cast<double>(covered) < kLeastCovered * static_cast<double>(all)) return 0;
  const double again = 1 - static_cast<double>(ways.size()) / static_cast<double>(stretches);
  return again * static_cast<double>(covered) / static_cast<double>(all);
}

}  // namespace

uint64_t PlaceOf(const void* site, ir::Op op) { return interp::Stream::SiteHash(site, op) | 1; }

uint64_t FindDelimiter(const tracer::Trace& trace, const std::vector<int>& live) {
  const size_t size = trace.steps.size(), first = size - std::min(size, kMostSteps);
  std::vector<uint64_t> steps;
  absl::flat_hash_map<uint64_t, Place> seen;
  for (size_t i = first; i < size; ++i) {
    const tracer::TraceStep& s = trace.steps[i];
    steps.push_back(PlaceOf(s.site, s.op));
    Place& p = seen[steps.back()];
    p.hash = steps.back();
    ++p.count;
    p.live += live[i];
  }
  std::vector<Place> places;
  for (const auto& [hash, p] : seen)
    if (p.count >= kLeastRounds && p.count * kLeastOps <= steps.size()) places.push_back(p);
  // Long stretches first; the hash only so that the order is the same each time.
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    if (a.count != b.count) return a.count < b.count;
    if (a.live != b.live) return a.live < b.live;
    return a.hash < b.hash;
  });
  if (places.size() > kMostPlaces) places.resize(kMostPlaces);
  uint64_t best = 0;
  double most = 0;
  for (const Place& p : places) {
    const double score = ScoreOf(steps, p.hash);
    if (score == 0 || (best != 0 && score < most + kClose)) continue;
    best = p.hash;
    most = score;
  }
  return best;
}

}  // namespace tessera::tiers
