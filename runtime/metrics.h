// Metrics: the rows of metrics.def as counters. Each thread counts into cells of its own, so counting is one plain
// addition; reading sums over the threads.
#ifndef TESSERA_RUNTIME_METRICS_H_
#define TESSERA_RUNTIME_METRICS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/per_thread.h"

namespace tessera::rt {

enum class Metric : uint8_t {
#define TSR_METRIC(name, unit, summary) name,
#include "runtime/metrics.def"
};

inline constexpr int kNumMetrics = 0
#define TSR_METRIC(name, unit, summary) +1
#include "runtime/metrics.def"
    ;

struct MetricInfo {
  Metric id;
  std::string_view name, unit, summary;
};
inline constexpr MetricInfo kMetrics[] = {
#define TSR_METRIC(name, unit, summary) {Metric::name, #name, unit, summary},
#include "runtime/metrics.def"
};

namespace internal {
struct MetricCells {
  std::array<std::atomic<int64_t>, kNumMetrics> cells{};
  void Retire() {}
  void Fold();
};
void CountSlow(Metric m, int64_t n);
}  // namespace internal

/// Adds n to the metric. Never fails, never blocks.
inline void Count(Metric m, int64_t n = 1) {
  if (auto* mine = PerThread<internal::MetricCells>::Peek()) [[likely]] {
    auto& cell = mine->cells[static_cast<int>(m)];
    cell.store(cell.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    return;
  }
  internal::CountSlow(m, n);
}

using MetricValues = std::array<int64_t, kNumMetrics>;
/// The sums now. What other threads count at this moment may or may not be in it.
MetricValues SnapshotMetrics();
/// One line per row: name, value, unit. With `before`, the differences.
std::string PrintMetrics(const MetricValues& now, const MetricValues* before = nullptr);

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_METRICS_H_
