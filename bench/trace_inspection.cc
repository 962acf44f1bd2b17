// What recording a trace costs and how large it is: trace_overhead, trace_size, report_time.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "bench/benchmarks.h"
#include "bench/tracing.h"
#include "tessera/tessera.h"

namespace bench {
namespace {

using tessera::Runtime;
using tessera::Tensor;

constexpr int kOps = 300;
constexpr int64_t kEvents = 1'000'000;

std::string TraceFile() {
  return (std::filesystem::temp_directory_path() / ("tessera_bench_" + std::to_string(getpid()) + ".trace")).string();
}

void Must(const tessera::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

/// The loop of 300 small ops. A hundred lines of the program, so that sites are as many as in one.
[[gnu::noinline]] Tensor SmallOps(Tensor v, const Tensor& a, const Tensor& b) {
  TSR_BENCH_HUNDRED(v = v * a; v = v + b; v = v - a;)
  return v;
}

Timed Task(bool recorded) {
  return [recorded, x = Filled(1), a = Filled(0.5f), b = Filled(1)](int64_t n) {
    if (recorded) Must(Runtime::trace_start(TraceFile()));
    const double start = Now();
    for (int64_t i = 0; i < n; ++i) SmallOps(x, a, b).read<float>();
    const double seconds = Now() - start;
    if (recorded) Must(Runtime::trace_stop());
    return seconds;
  };
}

/// Of two contenders, with recording and without, what it adds to one op.
void ReportOverhead(const std::string& name, const std::string& tier, Goal goal) {
  Must(Runtime::set_option("tier", tier));
  Must(Runtime::set_option("trace_stages", "0"));  // their texts are not made by the program's threads
  Task(false)(200);
  Runtime::wait_for_builds();
  const Race race = RunRace({Task(true), Task(false)}, Budget());
  const Summary &with = race.times[0], &without = race.times[1];
  Figure figure{.name = name, .unit = Nanoseconds(kOps)};
  figure.ours = {with.median - without.median, with.best - without.best, with.spread};
  figure.goal = goal;
  figure.note = "what recording adds to an op, on average over 300 of them";
  figure.more = {{"ns_with", Json(with.median * 1e9 / kOps)},
                 {"ns_without", Json(without.median * 1e9 / kOps)},
                 {"ratio_without", Json(1 / race.ratios[1])}};
  Report(figure);
  Must(Runtime::set_option("tier", "3"));
}

/// Records a million ops and more; the bytes of the file.
double RecordMillion(const std::string& path) {
  Must(Runtime::set_option("tier", "1"));
  const Tensor x = Filled(1), a = Filled(0.5f), b = Filled(1);
  Must(Runtime::trace_start(path));
  for (int64_t i = 0; i < kEvents / kOps + 1; ++i) SmallOps(x, a, b).read<float>();
  Must(Runtime::trace_stop());
  Must(Runtime::set_option("tier", "3"));
  return static_cast<double>(std::filesystem::file_size(path));
}

}  // namespace

void TraceOverhead() {
  ReportOverhead("trace_overhead/tier_1", "1", {Goal::value_at_most, 20});
  ReportOverhead("trace_overhead/versions", "3", {Goal::value_at_most, 20});
  std::filesystem::remove(TraceFile());
}

void TraceSize() {
  const double bytes = RecordMillion(TraceFile());
  Figure figure{.name = "trace_size", .unit = {"MB", 1e-6, false}};
  figure.ours = {bytes, bytes, 0};
  figure.goal = {Goal::value_at_most, 40};
  figure.note = "of a recording of a million ops in tier 1";
  Report(figure);
  std::filesystem::remove(TraceFile());
}

void ReportTime() {
  const std::string path = TraceFile(), page = path + ".html";
  RecordMillion(path);
  const std::string tool = ProgramFolder() + "/../tessera";
  if (!std::filesystem::exists(tool)) throw std::runtime_error("there is no " + tool);
  const std::string command = "'" + tool + "' trace report '" + path + "' --html '" + page + "' 2>/dev/null";
  const Race race = RunRace({Loop([&] {
                              if (std::system(command.c_str()) != 0)
                                throw std::runtime_error("tessera trace report failed");
                            })},
                            Budget());
  Figure figure{.name = "report_time", .unit = Milliseconds()};
  figure.goal = {Goal::value_at_most, 3000};
  figure.note = "the HTML report of a million events, from exec to exit";
  figure.more = {{"page_mb", Json(static_cast<double>(std::filesystem::file_size(page)) * 1e-6)}};
  Report(figure, race, {});
  std::filesystem::remove(path);
  std::filesystem::remove(page);
}

}  // namespace bench
