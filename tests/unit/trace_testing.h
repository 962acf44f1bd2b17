// Trace files that are made by hand, so that what is in them is known.
#ifndef TESSERA_TESTS_UNIT_TRACE_TESTING_H_
#define TESSERA_TESTS_UNIT_TRACE_TESTING_H_

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/trace/file.h"
#include "runtime/trace/reader.h"

namespace tessera::testing_trace {

/// A file in the making; a tick is a nanosecond.
class Recording {
 public:
  /// `steady_ns`: when it began, on the clock of activities.
  explicit Recording(int64_t steady_ns = 0) : bytes_(rt::trace::HeaderBytes(false)) {
    constexpr int64_t kWall = 1'700'000'000'000'000'000;
    Add(rt::trace::ClockRow{0, steady_ns, kWall + steady_ns});
    Add(rt::trace::ClockRow{1'000'000, steady_ns + 1'000'000, kWall + steady_ns + 1'000'000});
    for (const rt::EventInfo& e : rt::kEvents)
      Add(rt::trace::NameRow{"event", static_cast<int64_t>(e.id), std::string(e.name), ""});
    Add(rt::trace::NameRow{"op", 3, "tanh", ""});
    Add(rt::trace::NameRow{"deopt_reason", 4, "shape", "a dim is not one that the version serves"});
    Add(rt::trace::SiteRow{1, "src/walk.cc", 8, 1, ""});
    Add(rt::trace::SiteRow{2, "src/walk.cc", 8, 20, ""});
  }
  template <class Row>
  Recording& Add(Row row) {
    std::string text;
    rt::trace::RowWriter writer(&text, nullptr);
    row.Fields(writer);
    rt::trace::AppendBlock(&bytes_, rt::trace::kKindOf<Row>, 1, text);
    return *this;
  }
  Recording& Event(rt::EventKind kind, int64_t start, int64_t ns, int64_t a, int64_t b = 0, int64_t c = 0,
                   uint64_t thread = 1) {
    std::string text;
    rt::trace::PutUnsigned(&text, thread);
    rt::trace::PutUnsigned(&text, lost_);
    text += static_cast<char>(kind);
    rt::trace::PutSigned(&text, start + ns);
    rt::trace::PutUnsigned(&text, static_cast<uint64_t>(ns));
    for (const int64_t v : {a, b, c}) rt::trace::PutSigned(&text, v);
    rt::trace::AppendBlock(&bytes_, rt::trace::BlockKind::events, 1, text);
    return *this;
  }
  Recording& Version(int64_t id, const char* generator, int64_t runs, int64_t run_ns, int64_t tier1_ns,
                     int64_t compile_ns, const char* place = "walk.cc:8", int64_t trace = 1) {
    rt::trace::VersionRow row;
    row.id = id;
    row.trace_id = trace;
    row.place = place;
    row.generator = generator;
    row.rung = "exact";
    row.state = "live";
    row.steps = 5;
    row.runs = row.timed_runs = runs;
    row.timed_ns = runs * run_ns;
    row.tier1_ns = tier1_ns;
    row.compile_ns = compile_ns;
    row.guards = {{0, "x0: f32[8]"}, {1, "x1: f32[8]"}};
    return Add(row);
  }
  Recording& Lost(uint64_t n) {
    lost_ = n;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }
  /// Empty where it cannot be read.
  rt::trace::TraceData Read() const {
    auto data = rt::trace::ReadTrace(bytes_);
    return data.ok() ? *std::move(data) : rt::trace::TraceData();
  }

  // ---- what ran on GPUs

  /// One that is easy to reckon with: 100 multiprocessors, 4 TB/s, 1000 TFLOP/s by tensor cores, 60 by the others.
  Recording& Gpu(int64_t number = 0, const char* name = "Test GPU") {
    return Add(rt::trace::GpuRow{number, name, "sm_90a", 100, int64_t{80} << 30, 4'000'000'000'000,
                                 1'000'000'000'000'000, 60'000'000'000'000, 2048, 32, 65536, 233'472});
  }
  Recording& Kernel(int64_t number, const char* name, int64_t blocks = 1000, int64_t threads = 256,
                    int64_t registers = 32, int64_t shared_bytes = 0) {
    return Add(rt::trace::KernelRow{number, name, blocks, threads, registers, shared_bytes});
  }
  /// Of the batch that EndBatch() writes. Times as they are, not as differences.
  Recording& Activity(rt::ActivityKind kind, int64_t start, int64_t ns, int64_t kernel, rt::ActivityOwner owner = {},
                      int64_t launched = 0, int64_t stream = 7, int64_t correlation = 0, int64_t bytes = 0) {
    const rt::trace::ActivityRow at = {
        static_cast<int64_t>(kind), start, ns, launched, kernel, bytes, stream, correlation, owner.Pack()};
    rt::trace::ActivityRow row = at;
    row.start_ns -= last_.start_ns + last_.ns;
    row.launched_ns -= last_.launched_ns;
    row.kernel -= last_.kernel;
    row.stream -= last_.stream;
    row.correlation -= last_.correlation;
    row.owner -= last_.owner;
    last_ = at;
    batch_.push_back(row);
    return *this;
  }
  Recording& EndBatch(int64_t gpu = 0, int64_t lost = 0) {
    rt::trace::ActivityBatchRow row{gpu, lost, std::move(batch_)};
    batch_.clear();
    last_ = {};
    return Add(std::move(row));
  }
  /// Names of measures and the values of one kernel, in the same order.
  Recording& Measures(int64_t kernel, rt::ActivityOwner owner, const std::map<std::string, double>& values) {
    rt::trace::MeasureRow row{0, kernel, owner.Pack(), {}};
    for (const auto& [name, value] : values) {
      const auto [it, is_new] = measures_.emplace(name, static_cast<int64_t>(measures_.size()));
      if (is_new) Add(rt::trace::NameRow{"measure", it->second, name, ""});
      row.thousandths.resize(std::max(row.thousandths.size(), static_cast<size_t>(it->second) + 1), -1000);
      row.thousandths[static_cast<size_t>(it->second)] = static_cast<int64_t>(value * 1000);
    }
    return Add(std::move(row));
  }

 private:
  std::string bytes_;
  uint64_t lost_ = 0;
  std::vector<rt::trace::ActivityRow> batch_;
  rt::trace::ActivityRow last_;
  std::map<std::string, int64_t> measures_;
};

/// A file as a run on a GPU with counters leaves it: ops in tier 1, then a version whose steps a graph launches, with
/// products, generated kernels, copies, memory and counters; all the times are made up. `launches`: of the graph.
/// Ranks of one job have the same boot and other numbers. `cubin`: of a kernel k5, at whose second instruction warps
/// were seen; empty: bytes that are none, and no samples.
std::string GpuSample(int64_t launches, int64_t rank = 0, const std::string& boot = "boot-1",
                      const std::string& cubin = "");

}  // namespace tessera::testing_trace

#endif  // TESSERA_TESTS_UNIT_TRACE_TESTING_H_
