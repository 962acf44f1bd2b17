#include "tools/trace/pcs.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "runtime/trace/sort.h"
#include "tools/trace/table.h"

namespace tessera::tools {
namespace {

using rt::trace::PcRow;

struct Seen {
  int64_t samples = 0;
  std::string reason;  // the most frequent
};

/// CUPTI's names have a prefix that says nothing here: "smsp__pcsamp_warps_issue_stalled_long_scoreboard".
std::string Short(const std::string& reason) {
  const size_t at = reason.find("stalled_");
  return at == std::string::npos ? reason : reason.substr(at + 8);
}

Seen Of(const PcRow& row) {
  Seen seen;
  int64_t most = -1;
  for (const rt::trace::StallRow& stall : row.stalls) {
    seen.samples = Sum(seen.samples, stall.samples);
    if (stall.samples <= most) continue;
    most = stall.samples;
    seen.reason = Short(stall.reason);
  }
  return seen;
}

}  // namespace

std::string PcsOfPlace(const Analysis& a, const PlaceSummary& place, size_t rows) {
  std::map<std::pair<int64_t, std::string>, std::vector<const PcRow*>> functions;
  for (const PcRow& row : a.data->pcs)
    for (const size_t v : place.versions)
      if (a.versions[v].row->id == row.version) functions[{row.version, row.function}].push_back(&row);
  if (functions.empty()) return "";
  Table table({"kernel", ">version", ">instruction", ">samples", ">of the kernel's", "mostly waiting for"});
  for (auto& [function, pcs] : functions) {
    int64_t all = 0;
    for (const PcRow* pc : pcs) all = Sum(all, Of(*pc).samples);
    rt::trace::SortStably(&pcs, [](const PcRow* x, const PcRow* y) { return Of(*x).samples > Of(*y).samples; });
    for (size_t i = 0; i < pcs.size() && i < rows; ++i) {
      const Seen seen = Of(*pcs[i]);
      table.Row({KeepStart(function.second, 40), absl::StrCat(function.first),
                 absl::StrFormat("0x%04x", static_cast<uint64_t>(pcs[i]->pc)), absl::StrCat(seen.samples),
                 ShareText(static_cast<double>(seen.samples), static_cast<double>(all)), seen.reason});
    }
  }
  return absl::StrCat("\ninstructions at which warps were seen most (--stage sass shows all)\n", table.Text());
}

std::string WithSamples(const std::string& sass, const TraceData& data, int64_t version) {
  std::map<std::string, std::map<int64_t, Seen>> functions;
  for (const PcRow& row : data.pcs)
    if (row.version == version) functions[row.function][row.pc] = Of(row);
  if (functions.empty()) return sass;
  constexpr size_t kWidth = 34;
  std::string out;
  const std::map<int64_t, Seen>* pcs = nullptr;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(sass, '\n'))) {
    if (absl::StartsWith(line, ".text.") && absl::EndsWith(line, ":")) {
      const auto found = functions.find(line.substr(6, line.size() - 7));
      pcs = found == functions.end() ? nullptr : &found->second;
    }
    std::string note;
    const size_t at = line.find("/*");
    if (pcs != nullptr && at != std::string::npos && line.find_first_not_of(" \t") == at) {
      char* end = nullptr;
      const long long pc = std::strtoll(line.c_str() + at + 2, &end, 16);
      const auto seen = pcs->find(pc);
      if (end != line.c_str() + at + 2 && absl::StartsWith(end, "*/") && seen != pcs->end())
        note = absl::StrCat(seen->second.samples, " ", seen->second.reason);
    }
    if (!line.empty()) note.resize(std::max(note.size(), kWidth), ' ');
    absl::StrAppend(&out, note, line, "\n");
  }
  out.pop_back();
  return out;
}

}  // namespace tessera::tools
