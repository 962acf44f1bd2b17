#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "runtime/trace/sort.h"
#include "tools/trace/export.h"

namespace tessera::tools {

using rt::trace::GpuActivity;
using rt::trace::TraceEvent;

// The slice is the one in which the moment of the launch lies: ops and runs of versions, of which one thread has one at
// a time. Where several threads have one, that of the thread that launches most counts, which is the first to be found.
std::vector<Flow> FlowsOf(const TraceData& data) {
  struct Stretch {
    int64_t start, end;
  };
  std::map<uint32_t, std::vector<Stretch>> threads;  // by start, no two of a thread overlap
  for (const TraceEvent& e : data.events) {
    if (e.kind != rt::EventKind::op && e.kind != rt::EventKind::version_run && e.kind != rt::EventKind::copy) continue;
    std::vector<Stretch>& mine = threads[e.thread];
    if (mine.empty() || e.start_ns >= mine.back().end) mine.push_back({e.start_ns, e.start_ns + e.ns});
  }
  std::vector<std::pair<uint32_t, const std::vector<Stretch>*>> order;
  for (const auto& [thread, mine] : threads) order.emplace_back(thread, &mine);
  rt::trace::SortStably(&order, [](const auto& x, const auto& y) { return x.second->size() > y.second->size(); });

  std::vector<Flow> flows;
  // A run of a version launches hundreds of kernels: its arrow leads to the first of them, and so does that of an op.
  std::set<std::pair<uint32_t, int64_t>> seen;  // thread and start of slices
  for (size_t i = 0; i < data.activities.size(); ++i) {
    const GpuActivity& a = data.activities[i];
    if (a.launched_ns < 0 || !IsWork(a.kind)) continue;
    for (const auto& [thread, mine] : order) {
      const auto after = std::upper_bound(mine->begin(), mine->end(), a.launched_ns,
                                          [](int64_t t, const Stretch& s) { return t < s.start; });
      if (after == mine->begin() || (after - 1)->end < a.launched_ns) continue;
      if (seen.emplace(thread, (after - 1)->start).second)
        flows.push_back({i, thread, a.launched_ns, flows.size() + 1});
      break;
    }
  }
  rt::trace::SortStably(&flows, [](const Flow& x, const Flow& y) { return x.at_ns < y.at_ns; });
  return flows;
}

std::vector<Note> NotesOf(const Analysis& analysis, size_t i) {
  const GpuActivity& a = analysis.data->activities[i];
  const KernelSummary& k = analysis.kernels[analysis.kernel_of[i]];
  std::vector<Note> notes;
  if (const rt::trace::KernelRow* row = analysis.data->FindKernel(a.kernel)) {
    notes.push_back({"blocks", row->blocks, ""});
    notes.push_back({"threads of a block", row->threads, ""});
    notes.push_back({"registers", row->registers, ""});
    notes.push_back({"shared bytes", row->shared_bytes, ""});
  }
  if (!k.op.empty()) notes.push_back({"op", 0, k.op});
  if (!k.line.empty()) notes.push_back({"source", 0, k.line});
  if (k.owner == rt::ActivityOwner::Kind::step) {
    notes.push_back({"version", k.number, ""});
    if (!k.place.empty()) notes.push_back({"place", 0, k.place});
    if (k.part >= 0) notes.push_back({"step", k.part, ""});
  }
  if (a.bytes > 0) notes.push_back({"bytes", a.bytes, ""});
  if (a.in_graph) notes.push_back({"in a graph", 1, ""});
  if (!k.verdicts.empty()) notes.push_back({"verdict", 0, k.verdicts[0].words});
  return notes;
}

}  // namespace tessera::tools
