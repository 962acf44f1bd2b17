#include "tools/trace/ranks.h"

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/trace/export.h"
#include "tools/trace/table.h"

namespace tessera::tools {

std::vector<Process> OnOneTimeline(const std::vector<const Analysis*>& analyses, bool* steady) {
  const std::string boot = analyses.empty() ? "" : MetaOf(*analyses[0]->data, "boot");
  bool same = !boot.empty();
  for (const Analysis* a : analyses) same &= MetaOf(*a->data, "boot") == boot && !a->data->clocks.empty();
  if (steady != nullptr) *steady = same;
  const auto began = [&](const Analysis& a) {
    const int64_t ns = a.data->clocks.empty() ? 0
                       : same                 ? a.data->clocks.front().steady_ns
                                              : a.data->clocks.front().wall_ns;
    // Any number may stand in a file: no difference of two may overflow.
    return std::clamp<int64_t>(ns, 0, int64_t{1} << 61);
  };
  int64_t first = INT64_MAX;
  for (const Analysis* a : analyses) first = std::min(first, began(*a));
  std::vector<Process> processes;
  std::set<int64_t> pids;
  for (const Analysis* a : analyses) {
    Process process;
    process.analysis = a;
    process.shift_ns = analyses.size() == 1 ? 0 : began(*a) - first;
    if (!absl::SimpleAtoi(MetaOf(*a->data, "process"), &process.pid) || process.pid <= 0) process.pid = 1;
    // Processes of two machines may have the same id.
    while (!pids.insert(process.pid).second) process.pid = *pids.rbegin() + 1;
    const std::string rank = MetaOf(*a->data, "rank"), command = MetaOf(*a->data, "command");
    process.name = command.empty() ? "tessera" : command;
    if (!rank.empty() && analyses.size() > 1) process.name = absl::StrCat("rank ", rank, ": ", process.name);
    processes.push_back(std::move(process));
  }
  return processes;
}

std::string RanksText(const std::vector<const Analysis*>& analyses, const std::vector<std::string>& names) {
  bool steady = false;
  const std::vector<Process> processes = OnOneTimeline(analyses, &steady);
  std::string out =
      absl::StrCat("ranks, on ", steady ? "the clock of the machine" : "the wall clocks of their machines", "\n");
  Table table({"rank", "file", ">began", ">recorded", ">steps", ">a step", ">tier 1", ">replay", ">tier 2", ">tier 3",
               ">building", ">idle", ">GPU busy", ">of its time", ">deopts", ">lost"});
  struct Rank {
    double step_ns = 0;
    std::string name;
  };
  std::vector<Rank> ranks;
  for (size_t i = 0; i < analyses.size(); ++i) {
    const Analysis& a = *analyses[i];
    const std::string rank = MetaOf(*a.data, "rank");
    // A step is what the program marks; without marks, a run of a version says as much.
    const int64_t steps = a.steps.count > 0 ? a.steps.count : a.version_runs.count;
    const double step_ns = steps > 0 ? static_cast<double>(a.data->duration_ns) / static_cast<double>(steps) : 0;
    const auto lane = [&](Lane l) { return TimeText(static_cast<double>(a.lane_ns[static_cast<size_t>(l)])); };
    int64_t span = 0;
    for (const GpuSummary& gpu : a.gpus) span = Sum(span, gpu.last_ns - gpu.first_ns);
    table.Row({rank.empty() ? absl::StrCat(i) : rank, KeepEnd(names[i], 28),
               absl::StrCat("+", TimeText(static_cast<double>(processes[i].shift_ns))),
               TimeText(static_cast<double>(a.data->duration_ns)), absl::StrCat(steps),
               step_ns > 0 ? TimeText(step_ns) : "-", lane(Lane::tier1), lane(Lane::replay), lane(Lane::tier2),
               lane(Lane::tier3), lane(Lane::compile), TimeText(static_cast<double>(a.main_idle_ns)),
               a.gpus.empty() ? "-" : TimeText(static_cast<double>(a.gpu_busy_ns)),
               ShareText(static_cast<double>(a.gpu_busy_ns), static_cast<double>(span)), absl::StrCat(a.deopts.count),
               absl::StrCat(a.data->lost)});
    ranks.push_back({step_ns, rank.empty() ? names[i] : absl::StrCat("rank ", rank)});
  }
  absl::StrAppend(&out, table.Text());
  const auto [fast, slow] = std::minmax_element(ranks.begin(), ranks.end(),
                                                [](const Rank& x, const Rank& y) { return x.step_ns < y.step_ns; });
  if (ranks.size() > 1 && fast->step_ns > 0 && slow->step_ns > 1.02 * fast->step_ns)
    absl::StrAppend(&out, "\nthe slowest is ", slow->name, ": a step takes ", TimeText(slow->step_ns), ", ",
                    absl::StrFormat("%.3gx", slow->step_ns / fast->step_ns), " of ", fast->name,
                    "'s; tessera trace diff shows what differs\n");
  return out;
}

}  // namespace tessera::tools
