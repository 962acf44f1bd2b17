#include "bench/harness.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/machine.h"

namespace bench {
namespace {

constexpr double kBatchSeconds = 2e-3;
constexpr int kMinRounds = 7;
constexpr int kMaxRounds = 2000;

double budget = 2.0;

/// Of a sorted list, between elements where it falls there.
double Quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const size_t low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

Summary Summarize(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const double median = Quantile(times, 0.5);
  return {median, times.front(), (Quantile(times, 0.75) - Quantile(times, 0.25)) / median};
}

/// Runs that fill a batch. The first run may load libraries and fault pages in, so it is not looked at.
int64_t BatchSize(const Timed& timed) {
  timed(1);
  int64_t n = 1;
  for (double t = timed(1); t < kBatchSeconds && n < (int64_t{1} << 30); t = timed(n)) {
    const double wanted = 1.2 * kBatchSeconds / std::max(t, 1e-9) * static_cast<double>(n);
    n = std::clamp(static_cast<int64_t>(wanted), n + 1, n * 16);
  }
  return n;
}

std::string Number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string GoalText(const Goal& goal, const Unit& unit) {
  if (goal.kind == Goal::value_at_most) return "value at most " + Number(goal.number) + " " + unit.name;
  return "ratio at least " + Number(goal.number);
}

}  // namespace

Race RunRace(const std::vector<Timed>& contenders, double seconds) {
  const size_t count = contenders.size();
  std::vector<int64_t> batch(count);
  double round_seconds = 0;
  for (size_t i = 0; i < count; ++i) {
    batch[i] = BatchSize(contenders[i]);
    round_seconds += contenders[i](batch[i]) + contenders[i](1);
  }
  Race race;
  race.rounds = static_cast<int>(std::clamp(seconds / round_seconds, double{kMinRounds}, double{kMaxRounds}));
  std::vector<std::vector<double>> times(count), ratios(count);
  for (int round = 0; round < race.rounds; ++round) {
    for (size_t k = 0; k < count; ++k) {
      const size_t i = round % 2 == 0 ? k : count - 1 - k;
      contenders[i](1);
      times[i].push_back(contenders[i](batch[i]) / static_cast<double>(batch[i]));
    }
    for (size_t i = 0; i < count; ++i) ratios[i].push_back(times[i].back() / times[0].back());
  }
  for (size_t i = 0; i < count; ++i) {
    race.times.push_back(Summarize(times[i]));
    race.ratios.push_back(Summarize(ratios[i]).median);
  }
  return race;
}

double Budget() { return budget; }
void SetBudget(double seconds) { budget = seconds; }

void Report(const Figure& figure) {
  const bool peer = !figure.peer.empty();
  const Unit& unit = figure.unit;
  const double value = unit.Of(figure.ours.median);
  std::string line = "{\"name\": " + JsonString(figure.name);
  auto add = [&line](const char* key, const std::string& json) { line += ", \"" + std::string(key) + "\": " + json; };
  add("value", Number(value));
  add("unit", JsonString(unit.name));
  add("better", unit.rate ? "\"higher\"" : "\"lower\"");
  add("peer", peer ? JsonString(figure.peer) : "null");
  add("peer_value", peer ? Number(unit.Of(figure.theirs.median)) : "null");
  add("ratio", peer ? Number(figure.ratio) : "null");
  add("spread", Number(figure.ours.spread));
  add("best", Number(unit.Of(figure.ours.best)));
  if (peer) {
    add("peer_spread", Number(figure.theirs.spread));
    add("peer_best", Number(unit.Of(figure.theirs.best)));
    add("ratio_best", Number(figure.theirs.best / figure.ours.best));
  }
  const Goal& goal = figure.goal;
  if (goal.kind != Goal::none && (peer || goal.kind != Goal::ratio_at_least)) {
    add("goal", JsonString(GoalText(goal, unit)));
    const bool met = goal.kind == Goal::value_at_most ? value <= goal.number : figure.ratio >= goal.number;
    add("goal_met", met ? "true" : "false");
  }
  for (const auto& [key, json] : figure.more) add(key.c_str(), json);
  if (!figure.note.empty()) add("note", JsonString(figure.note));
  add("machine", MachineJson());
  std::printf("%s}\n", line.c_str());
  std::fflush(stdout);
}

void Report(Figure figure, const Race& race, const std::vector<std::string>& peers) {
  figure.ours = race.times[0];
  if (peers.empty()) Report(figure);
  for (size_t i = 0; i < peers.size(); ++i) {
    figure.peer = peers[i];
    figure.theirs = race.times[i + 1];
    figure.ratio = race.ratios[i + 1];
    Report(figure);
  }
}

std::string JsonString(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out + '"';
}

void Progress(const std::string& line) {
  if (isatty(STDERR_FILENO)) std::fprintf(stderr, "%s\n", line.c_str());
}

std::string ProgramFolder() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  if (n <= 0) return ".";
  const std::string full(path, static_cast<size_t>(n));
  return full.substr(0, full.rfind('/'));
}

}  // namespace bench
