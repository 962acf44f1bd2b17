#include "runtime/trace/reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/file.h"
#include "runtime/trace/sort.h"

namespace tessera::rt::trace {
namespace {

/// Ticks of one processor to nanoseconds since the recording began, between the moments at which both were known.
class Timeline {
 public:
  explicit Timeline(std::vector<ClockRow> clocks) : clocks_(std::move(clocks)) {
    SortStably(&clocks_, [](const auto& x, const auto& y) { return x.ticks < y.ticks; });
    clocks_.erase(
        std::unique(clocks_.begin(), clocks_.end(), [](const auto& x, const auto& y) { return x.ticks == y.ticks; }),
        clocks_.end());
    if (clocks_.size() >= 2) rate_ = Rate(clocks_.front(), clocks_.back());
  }

  int64_t Ns(int64_t ticks) const {
    if (clocks_.empty()) return Clamp(static_cast<double>(ticks));
    const auto after = std::upper_bound(clocks_.begin(), clocks_.end(), ticks,
                                        [](int64_t t, const ClockRow& c) { return t < c.ticks; });
    const bool inside = after != clocks_.begin() && after != clocks_.end();
    const ClockRow& base = after == clocks_.begin() ? clocks_.front() : *(after - 1);
    const double rate = inside ? Rate(base, *after) : rate_;
    return Clamp(Difference(base.steady_ns, clocks_.front().steady_ns) + Difference(ticks, base.ticks) * rate);
  }
  /// Of the steady clock.
  int64_t SinceStart(int64_t steady_ns) const {
    return Clamp(clocks_.empty() ? static_cast<double>(steady_ns) : Difference(steady_ns, clocks_.front().steady_ns));
  }
  int64_t Duration(int64_t ticks) const { return Clamp(static_cast<double>(ticks) * rate_); }

 private:
  // Any numbers may stand in a file: no difference of them may overflow.
  static double Difference(int64_t x, int64_t y) { return static_cast<double>(x) - static_cast<double>(y); }
  static double Rate(const ClockRow& x, const ClockRow& y) {
    const double ticks = Difference(y.ticks, x.ticks), ns = Difference(y.steady_ns, x.steady_ns);
    return ticks > 0 && ns > 0 ? ns / ticks : 1;
  }
  // Sums and differences of a few of them do not overflow.
  static int64_t Clamp(double ns) { return static_cast<int64_t>(std::clamp(ns, -1e18, 1e18)); }

  std::vector<ClockRow> clocks_;
  double rate_ = 1;
};

struct RawTraceEvent {
  int64_t end, took;
  int64_t a, b, c;
  uint32_t thread;
  uint8_t kind;
};

absl::Status Damaged(size_t at, const char* what) {
  return absl::DataLossError(absl::StrCat("the trace is damaged: ", what, " at byte ", at));
}

int64_t Add(int64_t x, int64_t y) { return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y)); }

bool ReadEvents(std::string_view bytes, uint32_t rows, TraceData* data, std::vector<RawTraceEvent>* events) {
  Cursor in(bytes);
  const auto thread = static_cast<uint32_t>(in.Unsigned());
  data->lost = std::max(data->lost, static_cast<int64_t>(in.Unsigned() & INT64_MAX));
  // Six bytes each, at least.
  if (rows > in.left() / 6) return false;
  struct Payload {
    int64_t a = 0, b = 0, c = 0;
  };
  std::array<Payload, 256> last{};
  int64_t end = 0;
  for (uint32_t i = 0; i < rows && in.ok(); ++i) {
    // The kind is a byte of its own: below 128 it is read as a number.
    const uint64_t kind = in.Unsigned();
    if (kind >= last.size()) return false;
    Payload& p = last[kind];
    end = Add(end, in.Signed());
    const auto took = static_cast<int64_t>(in.Unsigned() & ((uint64_t{1} << 48) - 1));
    p.a = Add(p.a, in.Signed());
    p.b = Add(p.b, in.Signed());
    p.c = Add(p.c, in.Signed());
    events->push_back({end, took, p.a, p.b, p.c, thread, static_cast<uint8_t>(kind)});
  }
  return in.ok() && in.left() == 0;
}

template <class Row>
bool ReadRows(std::string_view bytes, uint32_t rows, std::vector<Row>* out) {
  Cursor in(bytes);
  RowReader reader(&in);
  for (uint32_t i = 0; i < rows && in.ok(); ++i) {
    out->emplace_back();
    out->back().Fields(reader);
  }
  return in.ok() && in.left() == 0;
}

/// Leaves the last of the rows with the same key, in the order of their first ones.
template <class Row, class Key>
void KeepLast(std::vector<Row>* rows, Key key) {
  std::map<decltype(key(std::declval<Row&>())), size_t> places;
  std::vector<Row> kept;
  for (Row& row : *rows) {
    const auto [it, is_new] = places.emplace(key(row), kept.size());
    if (is_new)
      kept.push_back(std::move(row));
    else
      kept[it->second] = std::move(row);
  }
  *rows = std::move(kept);
}

// Nodes of a graph have the graph as their owner, and run one after the other: the n-th of a launch is the n-th node.
void FindSteps(TraceData* data) {
  std::map<int64_t, const GraphRow*> graphs;
  for (const GraphRow& row : data->graphs) graphs[row.number] = &row;
  std::map<std::pair<uint32_t, int64_t>, std::vector<GpuActivity*>> launches;
  for (GpuActivity& a : data->activities)
    if (a.owner == ActivityOwner::Kind::graph && a.kind <= ActivityKind::set)
      launches[{a.gpu, a.correlation}].push_back(&a);
  for (const auto& [launch, nodes] : launches) {
    const auto graph = graphs.find(nodes[0]->number);
    // Where records were lost, or the graph is not in the file, nobody can say which is which.
    const bool known = graph != graphs.end() && graph->second->steps.size() == nodes.size();
    for (size_t i = 0; i < nodes.size(); ++i)
      nodes[i]->part = known ? static_cast<int32_t>(std::clamp<int64_t>(graph->second->steps[i], -1, INT32_MAX)) : -1;
  }
  for (GpuActivity& a : data->activities) {
    if (a.owner != ActivityOwner::Kind::graph) continue;
    const auto graph = graphs.find(a.number);
    a.in_graph = true;
    a.owner = graph != graphs.end() ? ActivityOwner::Kind::step : ActivityOwner::Kind::nobody;
    a.number = graph != graphs.end() ? graph->second->version : 0;
  }
}

// The kernels of each run of a version, in order. A run begins where its steps begin again; where there is only one step,
// with its first kernel.
using Runs = std::vector<std::vector<const GpuActivity*>>;
std::map<int64_t, Runs> RunsOf(const TraceData& data, const std::set<int64_t>& versions) {
  std::map<int64_t, Runs> runs;
  for (const GpuActivity& a : data.activities) {
    if (a.kind != ActivityKind::kernel || a.owner != ActivityOwner::Kind::step || !versions.contains(a.number))
      continue;
    Runs& mine = runs[a.number];
    const auto begins_again = [&](const std::vector<const GpuActivity*>& run) {
      return a.part < run.back()->part || (a.part == run.front()->part && a.kernel == run.front()->kernel);
    };
    if (mine.empty() || begins_again(mine.back())) mine.emplace_back();
    mine.back().push_back(&a);
  }
  return runs;
}

// Measures come in the order of the kernels of a run: another run of the same version tells which those are.
void FindMeasured(TraceData* data) {
  std::map<int64_t, std::vector<MeasureRow*>> rows_of;
  std::set<int64_t> versions;
  std::vector<MeasureRow> found;
  for (MeasureRow& row : data->measures) {
    if (row.kernel != 0) {
      found.push_back(row);
      continue;
    }
    const int64_t version = ActivityOwner::Unpack(row.owner).number;
    rows_of[version].push_back(&row);
    versions.insert(version);
  }
  if (versions.empty()) return;
  const std::map<int64_t, Runs> runs = RunsOf(*data, versions);
  for (const auto& [version, rows] : rows_of) {
    const auto measured = static_cast<size_t>(std::count_if(
        rows.begin(), rows.end(), [](const MeasureRow* r) { return ActivityOwner::Unpack(r->owner).part == 0; }));
    const auto mine = runs.find(version);
    if (measured == 0 || mine == runs.end()) continue;
    for (const auto& kernels : mine->second) {
      if (kernels.size() != rows.size() / measured || rows.size() % measured != 0) continue;
      for (size_t i = 0; i < rows.size(); ++i) {
        const GpuActivity& kernel = *kernels[i % kernels.size()];
        rows[i]->kernel = kernel.kernel;
        rows[i]->owner = ActivityOwner{ActivityOwner::Kind::step, kernel.part, version}.Pack();
        found.push_back(*rows[i]);
      }
      break;
    }
  }
  data->measures = std::move(found);
}

void ReadActivities(TraceData* data, const Timeline& timeline) {
  for (const ActivityBatchRow& batch : data->batches) {
    data->gpu_lost = std::max(data->gpu_lost, batch.lost);
    ActivityRow at;
    for (const ActivityRow& row : batch.rows) {
      at.start_ns = Add(Add(at.start_ns, at.ns), row.start_ns);
      at.ns = row.ns;
      at.launched_ns = Add(at.launched_ns, row.launched_ns);
      at.kernel = Add(at.kernel, row.kernel);
      at.stream = Add(at.stream, row.stream);
      at.correlation = Add(at.correlation, row.correlation);
      at.owner = Add(at.owner, row.owner);
      if (row.kind < 0 || row.kind >= static_cast<int64_t>(std::size(kActivities))) {
        ++data->unknown;
        continue;
      }
      const ActivityOwner owner = ActivityOwner::Unpack(at.owner);
      GpuActivity a;
      a.start_ns = timeline.SinceStart(at.start_ns);
      a.ns = std::clamp<int64_t>(row.ns, 0, int64_t{1} << 60);
      a.launched_ns = at.launched_ns == 0 ? -1 : std::max<int64_t>(timeline.SinceStart(at.launched_ns), -1);
      a.bytes = std::max<int64_t>(row.bytes, 0);
      a.correlation = at.correlation;
      a.number = owner.number;
      a.part = owner.kind == ActivityOwner::Kind::graph ? -1 : owner.part;
      a.kernel = static_cast<uint32_t>(at.kernel);
      a.gpu = static_cast<uint32_t>(batch.gpu);
      a.stream = static_cast<uint32_t>(at.stream);
      a.kind = static_cast<ActivityKind>(row.kind);
      a.owner = owner.kind;
      data->activities.push_back(a);
      data->duration_ns = std::max(data->duration_ns, a.start_ns + a.ns);
    }
  }
  data->batches.clear();
  SortStably(&data->activities, [](const GpuActivity& x, const GpuActivity& y) { return x.start_ns < y.start_ns; });
  FindSteps(data);
  FindMeasured(data);
}

void Finish(TraceData* data, const std::vector<RawTraceEvent>& events) {
  const Timeline timeline(data->clocks);
  if (!data->clocks.empty()) data->wall_ns = data->clocks.front().wall_ns;
  KeepLast(&data->names, [](const NameRow& r) { return std::pair(r.table, r.number); });
  KeepLast(&data->sites, [](const SiteRow& r) { return r.number; });
  KeepLast(&data->spans, [](const SpanRow& r) { return r.number; });
  KeepLast(&data->threads, [](const ThreadRow& r) { return r.number; });
  KeepLast(&data->traces, [](const TraceRow& r) { return r.id; });
  KeepLast(&data->versions, [](const VersionRow& r) { return r.id; });
  KeepLast(&data->stages, [](const StageRow& r) { return std::pair(r.version, r.stage); });
  KeepLast(&data->aborts, [](const AbortRow& r) { return std::pair(r.place, r.reason); });
  KeepLast(&data->pins, [](const PinRow& r) { return r.place; });
  KeepLast(&data->sources, [](const SourceRow& r) { return r.file; });
  KeepLast(&data->meta, [](const MetaRow& r) { return r.key; });
  KeepLast(&data->gpus, [](const GpuRow& r) { return r.number; });
  KeepLast(&data->links, [](const LinkRow& r) { return std::pair(r.name0, r.name1); });
  KeepLast(&data->kernels, [](const KernelRow& r) { return r.number; });
  KeepLast(&data->graphs, [](const GraphRow& r) { return r.number; });
  std::sort(data->versions.begin(), data->versions.end(), [](const auto& x, const auto& y) { return x.id < y.id; });
  const auto index = [](const auto& rows, auto key, auto* into) {
    for (size_t i = 0; i < rows.size(); ++i) (*into)[key(rows[i])] = i;
  };
  index(data->names, [](const NameRow& r) { return std::pair(r.table, r.number); }, &data->name_index);
  index(data->sites, [](const SiteRow& r) { return r.number; }, &data->site_index);
  index(data->versions, [](const VersionRow& r) { return r.id; }, &data->version_index);
  index(data->traces, [](const TraceRow& r) { return r.id; }, &data->trace_index);

  index(data->kernels, [](const KernelRow& r) { return r.number; }, &data->kernel_index);
  index(data->gpus, [](const GpuRow& r) { return r.number; }, &data->gpu_index);

  // Numbers of kinds as they are in this build.
  std::array<int, 256> kinds;
  kinds.fill(-1);
  for (const NameRow& row : data->names) {
    if (row.table != "event" || row.number < 0 || row.number >= 256) continue;
    for (const EventInfo& e : kEvents)
      if (e.name == row.name) kinds[static_cast<size_t>(row.number)] = static_cast<int>(e.id);
  }
  data->events.reserve(events.size());
  for (const RawTraceEvent& e : events) {
    const int kind = kinds[e.kind];
    if (kind < 0) {
      ++data->unknown;
      continue;
    }
    const int64_t end = timeline.Ns(e.end), ns = timeline.Duration(e.took);
    data->events.push_back({end - ns, ns, e.a, e.b, e.c, e.thread, static_cast<uint32_t>(data->events.size()),
                            static_cast<EventKind>(kind)});
    data->duration_ns = std::max(data->duration_ns, end);
  }
  SortStably(&data->events, [](const TraceEvent& x, const TraceEvent& y) {
    return x.start_ns != y.start_ns ? x.start_ns < y.start_ns : x.ns > y.ns;
  });
  for (SampleRow& row : data->samples) {
    row.ticks = timeline.Ns(row.ticks);
    data->duration_ns = std::max(data->duration_ns, row.ticks);
  }
  for (GpuSampleRow& row : data->gpu_samples) row.ticks = timeline.Ns(row.ticks);
  ReadActivities(data, timeline);
  for (DeoptRow& row : data->deopts) row.ticks = timeline.Ns(row.ticks);
  for (EndRow& row : data->ends) {
    row.ticks = timeline.Ns(row.ticks);
    data->duration_ns = std::max(data->duration_ns, row.ticks);
    data->lost = std::max(data->lost, row.lost);
    data->is_complete = true;
  }
}

}  // namespace

absl::StatusOr<TraceData> ReadTrace(std::string_view bytes) {
  FileHeader header;
  if (bytes.size() < sizeof(header) || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0)
    return InvalidArgument("this is no trace: a trace begins with the letters TSRTRACE");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.version != kFormatVersion)
    return InvalidArgument("the trace is in version ", header.version,
                           " of the format, and this program reads version ", kFormatVersion);
  TraceData data;
  data.is_redacted = (header.flags & kRedacted) != 0;
  data.bytes = static_cast<int64_t>(bytes.size());
  std::vector<RawTraceEvent> events;
  size_t at = sizeof(header);
  while (bytes.size() - at >= sizeof(BlockHeader)) {
    BlockHeader block;
    std::memcpy(&block, bytes.data() + at, sizeof(block));
    if (block.magic != kBlockMagic || block.bytes > kMostBlockBytes) return Damaged(at, "no block begins");
    if (bytes.size() - at - sizeof(block) < block.bytes) break;
    const std::string_view payload = bytes.substr(at + sizeof(block), block.bytes);
    if (BlockChecksum(static_cast<BlockKind>(block.kind), block.rows, payload) != block.checksum)
      return Damaged(at, "a checksum is wrong");
    bool ok = true;
    switch (static_cast<BlockKind>(block.kind)) {
      case BlockKind::events: ok = ReadEvents(payload, block.rows, &data, &events); break;
#define TSR_TRACE_BLOCK(name, Row, summary) \
  case BlockKind::name: ok = ReadRows(payload, block.rows, &data.name); break;
#include "runtime/trace/blocks.def"
    }
    if (!ok) return Damaged(at, "a block does not hold what it says");
    at += sizeof(block) + block.bytes;
  }
  Finish(&data, events);
  return data;
}

absl::StatusOr<TraceData> ReadTraceFile(const std::string& path) {
  TSR_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  auto data = ReadTrace(bytes);
  if (!data.ok()) return Annotate(data.status(), absl::StrCat(path, ": "));
  return data;
}

std::string TraceData::Name(const std::string& table, int64_t number) const {
  const auto it = name_index.find({table, number});
  return it != name_index.end() ? names[it->second].name : absl::StrCat(table, " ", number);
}

std::string TraceData::Words(const std::string& table, int64_t number) const {
  const auto it = name_index.find({table, number});
  return it != name_index.end() ? names[it->second].text : "";
}

std::string TraceData::SiteName(int64_t site) const {
  const auto it = site_index.find(site);
  if (it == site_index.end()) return "";
  const SiteRow& row = sites[it->second];
  const std::string file = row.file.substr(row.file.rfind('/') + 1);
  const std::string place = !file.empty() ? file : row.function.empty() ? "" : absl::StrCat("@", row.function);
  if (row.line <= 0) return row.function.empty() ? place : absl::StrCat("@", row.function);
  return absl::StrCat(place.empty() ? "line " : place + ":", row.line);
}

const VersionRow* TraceData::FindVersion(int64_t id) const {
  const auto it = version_index.find(id);
  return it != version_index.end() ? &versions[it->second] : nullptr;
}

const KernelRow* TraceData::FindKernel(int64_t number) const {
  const auto it = kernel_index.find(number);
  return it != kernel_index.end() ? &kernels[it->second] : nullptr;
}

const GpuRow* TraceData::FindGpu(int64_t number) const {
  const auto it = gpu_index.find(number);
  return it != gpu_index.end() ? &gpus[it->second] : nullptr;
}

const TraceRow* TraceData::FindTrace(int64_t id) const {
  const auto it = trace_index.find(id);
  return it != trace_index.end() ? &traces[it->second] : nullptr;
}

}  // namespace tessera::rt::trace
