#include "runtime/metrics.h"

#include "absl/strings/str_format.h"

namespace tessera::rt {
namespace {

// What threads that have ended, and threads past their end, counted.
constinit std::array<std::atomic<int64_t>, kNumMetrics> ended = {};

}  // namespace

namespace internal {

void MetricCells::Fold() {
  for (int i = 0; i < kNumMetrics; ++i)
    ended[i].fetch_add(cells[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void CountSlow(Metric m, int64_t n) {
  const int i = static_cast<int>(m);
  if (MetricCells* mine = PerThread<MetricCells>::Get())
    mine->cells[i].store(mine->cells[i].load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  else
    ended[i].fetch_add(n, std::memory_order_relaxed);
}

}  // namespace internal

MetricValues SnapshotMetrics() {
  MetricValues sum{};
  PerThread<internal::MetricCells>::ForEach(
      [&](internal::MetricCells& thread) {
        for (int i = 0; i < kNumMetrics; ++i) sum[i] += thread.cells[i].load(std::memory_order_relaxed);
      },
      [&] {
        for (int i = 0; i < kNumMetrics; ++i) sum[i] += ended[i].load(std::memory_order_relaxed);
      });
  return sum;
}

std::string PrintMetrics(const MetricValues& now, const MetricValues* before) {
  std::string text;
  for (const MetricInfo& row : kMetrics) {
    const int i = static_cast<int>(row.id);
    absl::StrAppendFormat(&text, "%-20s %15d %s\n", std::string(row.name), now[i] - (before ? (*before)[i] : 0),
                          std::string(row.unit));
  }
  return text;
}

}  // namespace tessera::rt
