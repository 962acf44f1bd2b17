#include "tools/tessera/live.h"

#include <chrono>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "deopt/ledger.h"
#include "tessera/runtime.h"
#include "tools/tessera/terminal.h"

namespace tessera::tools {
namespace {

int64_t Get(const rt::MetricValues& values, rt::Metric m) { return values[static_cast<size_t>(m)]; }

// Highest tier of a version that is in use.
int HighestTier() {
  int tier = 1;
  for (const deopt::VersionRecord& v : deopt::Ledger::Get().versions()) {
    if (v.state != "live") continue;
    if (v.generator == "tier 2") tier = std::max(tier, 2);
    if (v.generator == "tier 3") tier = std::max(tier, 3);
  }
  return tier;
}

}  // namespace

LiveLine::LiveLine(const std::atomic<int64_t>* iterations) : iterations_(iterations) {
  if (iterations == nullptr) return;
  terminal_ = IsTerminal(stdout);
  last_ = rt::SnapshotMetrics();
  Runtime::set_print_sink([this](std::string_view text) {
    std::lock_guard lock(mutex_);
    Erase();
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fputc('\n', stdout);
    std::fflush(stdout);
  });
  thread_ = std::thread([this] { Loop(); });
}

LiveLine::~LiveLine() {
  if (iterations_ == nullptr) return;
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
  Runtime::set_print_sink({});
  Erase();
  std::fflush(stdout);
}

void LiveLine::Erase() {
  if (drawn_) std::fputs("\r\x1b[K", stdout);
  drawn_ = false;
}

void LiveLine::Show(double seconds, double since) {
  const rt::MetricValues now = rt::SnapshotMetrics();
  const int64_t iterations = iterations_->load(std::memory_order_relaxed);
  const auto delta = [&](rt::Metric m) { return Get(now, m) - Get(last_, m); };
  // Steps in versions against ops that tier 1 ran one by one.
  const auto versions = static_cast<double>(delta(rt::Metric::version_ops));
  const auto interpreted = static_cast<double>(delta(rt::Metric::ops_executed));
  const double all = versions + interpreted;
  const std::string line = absl::StrFormat(
      "%5.1f s  %8.0f it/s  %3.0f%% of ops in versions (highest: tier %d)  %d kernels generated  %d deopts", seconds,
      static_cast<double>(iterations - last_iterations_) / since, all > 0 ? 100 * versions / all : 0, HighestTier(),
      Get(now, rt::Metric::kernels_generated), Get(now, rt::Metric::deopts));
  last_ = now;
  last_iterations_ = iterations;
  Erase();
  if (terminal_) {
    const auto width = static_cast<size_t>(std::max(TerminalWidth(1) - 1, 10));
    std::fputs(Style(UseColour(stdout)).Cyan(line.substr(0, width)).c_str(), stdout);
    drawn_ = true;
  } else {
    std::printf("%s\n", line.c_str());
  }
  std::fflush(stdout);
}

void LiveLine::Loop() {
  using std::chrono::steady_clock;
  const auto start = steady_clock::now();
  const auto period = terminal_ ? std::chrono::milliseconds(250) : std::chrono::milliseconds(1000);
  auto last = start;
  std::unique_lock lock(mutex_);
  for (auto next = start + period; !wake_.wait_until(lock, next, [&] { return done_; }); next += period) {
    const auto now = steady_clock::now();
    Show(std::chrono::duration<double>(now - start).count(), std::chrono::duration<double>(now - last).count());
    last = now;
  }
}

}  // namespace tessera::tools
