// The heartbeat of a job, its stop, and the search for NaNs.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "tessera/debug.h"
#include "tessera/runtime.h"
#include "tessera/train.h"

namespace tessera::train {

namespace {

std::atomic<bool> g_stop{false};
std::atomic<bool> g_taken{false};
struct sigaction g_term, g_int;

void OnSignal(int) { g_stop.store(true, std::memory_order_relaxed); }

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string Number(double value, const char* format = "%.4g") {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// Counters of the runtime that a line is made of.
struct Counters {
  double seconds = 0;
  int64_t step = 0, ops = 0, version_ops = 0, compiles = 0, deopts = 0;

  static Counters Take(int64_t step) {
    Counters c;
    c.seconds = Now();
    c.step = step;
    for (const MetricValue& m : Runtime::metrics()) {
      if (m.name == "ops_executed") c.ops = m.value;
      if (m.name == "version_ops") c.version_ops = m.value;
      if (m.name == "codes_made") c.compiles = m.value;
      if (m.name == "deopts") c.deopts = m.value;
    }
    return c;
  }
};

}  // namespace

StopSignal::StopSignal() {
  if (g_taken.exchange(true))
    throw Error(Status(Code::invalid_argument, "StopSignal: there is one already in this process"));
  g_stop = false;
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  ::sigaction(SIGTERM, &action, &g_term);
  ::sigaction(SIGINT, &action, &g_int);
}
StopSignal::~StopSignal() {
  ::sigaction(SIGTERM, &g_term, nullptr);
  ::sigaction(SIGINT, &g_int, nullptr);
  g_taken = false;
}
bool StopSignal::requested() const { return g_stop.load(std::memory_order_relaxed); }

Diverged::Diverged(int64_t step, double loss)
    : Error(Status(Code::invalid_argument, "the loss of step " + std::to_string(step) + " is " +
                                               (std::isnan(loss) ? "not a number" : "infinite") +
                                               "; train::find_nan names the op that made it")) {}
Diverged::~Diverged() = default;

struct Monitor::Impl {
  MonitorOptions options;
  Counters last = Counters::Take(0);
  bool begun = false;
  std::string line;
  std::FILE* file = nullptr;
  bool terminal = ::isatty(STDERR_FILENO) == 1;

  std::string Bar(int64_t step) const {
    if (options.total <= 0) return "";
    constexpr int kWidth = 20;
    const int done = static_cast<int>(kWidth * std::min(step, options.total) / options.total);
    return "[" + std::string(static_cast<size_t>(done), '=') + std::string(static_cast<size_t>(kWidth - done), ' ') +
           "] ";
  }

  void Report(int64_t step, double loss) {
    const Counters now = Counters::Take(step);
    const double seconds = std::max(now.seconds - last.seconds, 1e-9);
    const double rate = static_cast<double>(now.step - last.step) / seconds;
    const double tokens = rate * static_cast<double>(options.tokens_per_step);
    const double used = options.peak_flops > 0 ? tokens * options.flops_per_token / options.peak_flops : NAN;
    const auto in_versions = static_cast<double>(now.version_ops - last.version_ops);
    const double all_ops = in_versions + static_cast<double>(now.ops - last.ops);
    const double versions = all_ops > 0 ? in_versions / all_ops : 0;
    const double deopts = static_cast<double>(now.deopts - last.deopts) / seconds * 60;
    const MemoryStatistics memory = Runtime::memory(Runtime::device());
    const double mib = static_cast<double>(memory.bytes_in_use) / (1 << 20);

    line = Bar(step) + "step " + std::to_string(step) + (options.total > 0 ? "/" + std::to_string(options.total) : "") +
           "  loss " + Number(loss, "%.4f") + "  " + Number(rate) + " steps/s";
    if (options.tokens_per_step > 0) line += "  " + Number(tokens) + " tokens/s";
    if (options.peak_flops > 0) line += "  " + Number(100 * used, "%.1f") + "% of peak";
    line += "  " + Number(100 * versions, "%.0f") + "% in versions  " + Number(deopts, "%.0f") + " deopts/min  " +
            Number(mib, "%.1f") + " MiB";
    if (!options.quiet) {
      // On a terminal one line that changes; in a log one after the other.
      std::fprintf(stderr, terminal ? "\r\033[K%s" : "%s\n", line.c_str());
      if (terminal && options.total > 0 && step >= options.total) std::fputc('\n', stderr);
    }
    if (file != nullptr) {
      std::fprintf(file,
                   "{\"step\": %" PRId64
                   ", \"loss\": %s, \"steps_per_s\": %s, \"tokens_per_s\": %s, \"mfu\": %s, "
                   "\"in_versions\": %s, \"compiles\": %" PRId64 ", \"deopts_per_min\": %s, \"memory_bytes\": %" PRId64
                   ", \"peak_bytes\": %" PRId64 "}\n",
                   step, Number(loss, "%.9g").c_str(), Number(rate).c_str(), Number(tokens).c_str(),
                   Number(used).c_str(), Number(versions).c_str(), now.compiles - last.compiles, Number(deopts).c_str(),
                   memory.bytes_in_use, memory.peak_bytes);
      std::fflush(file);
    }
    last = now;
  }
};

Monitor::Monitor(MonitorOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  if (impl_->options.metrics_file.empty()) return;
  impl_->file = std::fopen(impl_->options.metrics_file.c_str(), "ae");
  if (impl_->file == nullptr)
    throw Error(Status(Code::invalid_argument, "Monitor: cannot open " + impl_->options.metrics_file));
}
Monitor::~Monitor() {
  if (impl_->file != nullptr) std::fclose(impl_->file);
}
const std::string& Monitor::line() const { return impl_->line; }

void Monitor::step(int64_t step, const Tensor& loss) {
  if (!std::exchange(impl_->begun, true)) impl_->last.step = step - 1;  // a resumed run
  if (step % std::max<int64_t>(impl_->options.every, 1) != 0 && step != impl_->options.total) return;
  const double value = loss.item<double>();
  impl_->Report(step, value);
  if (!std::isfinite(value)) throw Diverged(step, value);
}

std::string find_nan(const std::function<void()>& step) {
  const RandomState random = random_state();
  std::string found;
  {
    NanCheck check;
    try {
      step();
    } catch (const Error&) {
      // What was found before it is what was asked for.
    }
    found = check.found();
  }
  set_random_state(random);
  return found;
}

}  // namespace tessera::train
