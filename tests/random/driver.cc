#include "tests/random/driver.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tessera/runtime.h"
#include "tests/random/harness.h"
#include "tests/random/process.h"

namespace tessera::random {
namespace {

// Seconds of work for one child: enough to be worth its start, few enough that a crash loses little.
constexpr double kBatchSeconds = 5;
// Reduction is slow; the first failures are the ones that are looked at.
constexpr int kReducedFailures = 3;
constexpr double kReduceSeconds = 60;

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string KindName(Kind kind) { return kind == Kind::gir ? "gir" : "eager"; }

std::string PathFor(const Settings& s, Kind kind, uint64_t seed, const std::string& ending) {
  return s.out + "/" + KindName(kind) + "_" + std::to_string(seed) + ending;
}

// The fault that the tests of this driver ask for, in one of five programs.
void MaybeFault(const Settings& s, uint64_t seed) {
  if (seed % 5 != 3) return;
  if (s.broken == "crash") std::abort();
  while (s.broken == "hang") sleep(1);
}

}  // namespace

std::string Totals::Line() const {
  char line[256];
  std::snprintf(line, sizeof(line), "%lld programs (%lld gir, %lld eager), %lld runs, %lld failures, seeds %llu..%llu",
                static_cast<long long>(programs()), static_cast<long long>(gir), static_cast<long long>(eager),
                static_cast<long long>(runs), static_cast<long long>(failures),
                static_cast<unsigned long long>(first_seed), static_cast<unsigned long long>(last_seed));
  return line;
}

Totals RunBatch(const Settings& s) {
  const Stopwatch watch;
  Totals totals;
  totals.first_seed = totals.last_seed = s.seed;
  std::FILE* last = s.child ? nullptr : std::fopen((s.out + "/last_seed").c_str(), "w");
  for (uint64_t seed = s.seed;; ++seed) {
    if (s.programs > 0 && totals.programs() >= s.programs) break;
    if (s.seconds > 0 && watch.seconds() >= s.seconds) break;
    const Kind kind = KindOf(seed, s.kind);
    if (s.child) std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    if (last != nullptr) {
      std::rewind(last);
      std::fprintf(last, "%llu\n", static_cast<unsigned long long>(seed));
      std::fflush(last);
    }
    totals.last_seed = seed;
    ++(kind == Kind::gir ? totals.gir : totals.eager);
    const std::unique_ptr<Program> program = Generate(kind, seed);
    SetOptions(Baseline());
    const Log want = program->Run(false);
    ++totals.runs;
    for (const Config& config : ConfigsFor(seed)) {
      if (s.verbose) {
        std::fprintf(stderr, "%s %llu %s\n", KindName(kind).c_str(), static_cast<unsigned long long>(seed),
                     config.name.c_str());
      }
      SetOptions(config.options);
      MaybeFault(s, seed);
      const Log got = program->Run(s.broken == "wrong");
      ++totals.runs;
      const std::string difference = Difference(want, got);
      if (difference.empty()) continue;
      ++totals.failures;
      const std::string path = PathFor(s, kind, seed, ".txt");
      WriteFile(path, FileText(*program, config.options, "config " + config.name + "\n" + difference));
      std::printf("fail %s seed %llu config %s: %s\n%s\n", KindName(kind).c_str(),
                  static_cast<unsigned long long>(seed), config.name.c_str(), path.c_str(), difference.c_str());
      std::fflush(stdout);
      break;
    }
  }
  SetOptions({});
  if (last != nullptr) std::fclose(last);
  if (s.verbose && !s.child) {
    for (const MetricValue& m : Runtime::metrics())
      std::fprintf(stderr, "%12lld %s\n", static_cast<long long>(m.value), m.name.c_str());
  }
  if (s.child) {
    for (const std::string& name : UnknownOptions()) std::printf("unknown %s\n", name.c_str());
    std::printf("done %lld %lld %lld %lld\n", static_cast<long long>(totals.gir), static_cast<long long>(totals.eager),
                static_cast<long long>(totals.runs), static_cast<long long>(totals.failures));
  }
  return totals;
}

Totals RunForked(const Settings& s) {
  const Stopwatch watch;
  Totals totals;
  totals.first_seed = totals.last_seed = s.seed;
  std::vector<uint64_t> failed;
  const auto note_failure = [&](uint64_t seed) {
    if (s.reduce_failures && failed.size() < kReducedFailures) failed.push_back(seed);
  };
  for (uint64_t seed = s.seed;;) {
    if (s.programs > 0 && totals.programs() >= s.programs) break;
    if (s.seconds > 0 && watch.seconds() >= s.seconds) break;
    double seconds = kBatchSeconds;
    if (s.seconds > 0) seconds = std::clamp(s.seconds - watch.seconds(), 0.1, kBatchSeconds);
    std::vector<std::string> args = {"--child", "--seed", std::to_string(seed), "--seconds", std::to_string(seconds),
                                     "--out",   s.out};
    if (s.programs > 0) args.insert(args.end(), {"--programs", std::to_string(s.programs - totals.programs())});
    if (!s.kind.empty()) args.insert(args.end(), {"--kind", s.kind});
    if (!s.broken.empty()) args.push_back("--break=" + s.broken);
    if (s.verbose) args.push_back("--verbose");
    uint64_t current = seed;
    Totals batch;  // as far as the child said
    bool done = false;
    const ChildResult child = RunSelf(args, s.silence_s, [&](const std::string& line) {
      if (std::sscanf(line.c_str(), "done %ld %ld %ld %ld", &batch.gir, &batch.eager, &batch.runs, &batch.failures) ==
          4) {
        done = true;
      } else if (line.starts_with("unknown ")) {
        UnknownOptions().insert(line.substr(8));
      } else if (line.starts_with("seed ")) {
        current = std::strtoull(line.c_str() + 5, nullptr, 10);
      } else {
        std::printf("%s\n", line.c_str());
        std::fflush(stdout);
        if (line.starts_with("fail ")) note_failure(current);
      }
    });
    if (!done) {  // what was done before the end is known by seeds alone
      for (uint64_t n = seed; n <= current; ++n) ++(KindOf(n, s.kind) == Kind::gir ? batch.gir : batch.eager);
      batch.failures = 1;
      std::printf("fail %s seed %llu: the process ended with %s\n", KindName(KindOf(current, s.kind)).c_str(),
                  static_cast<unsigned long long>(current), child.Ending().c_str());
      std::fflush(stdout);
      note_failure(current);
    }
    totals.gir += batch.gir;
    totals.eager += batch.eager;
    totals.runs += batch.runs;
    totals.failures += batch.failures;
    totals.last_seed = current;
    seed = current + 1;
  }
  for (uint64_t seed : failed) {
    try {
      std::printf("%s\n", ReduceSeed(s, seed, kReduceSeconds).report.c_str());
    } catch (const std::exception& e) {  // no program at all, perhaps; the other ones are asked all the same
      std::printf("seed %llu is not reduced: %s\n", static_cast<unsigned long long>(seed), e.what());
    }
  }
  return totals;
}

int RunFile(const std::string& path, const Settings& s) {
  ProgramFile file;
  try {
    file = ReadProgram(path);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), e.what());
    return 2;
  }
  SetOptions(Baseline());
  const Log want = file.program->Run(false);
  if (s.verbose)
    for (const std::string& line : want) std::printf("%s\n", line.c_str());
  if (s.reducing && UsesEmptyHandle(want)) return 0;
  SetOptions(file.options);
  const Log got = file.program->Run(s.broken == "wrong");
  const std::string difference = Difference(want, got);
  if (!difference.empty()) std::printf("%s\n", difference.c_str());
  return difference.empty() ? 0 : 3;
}

Reduced ReduceSeed(const Settings& s, uint64_t seed, double seconds) {
  const Stopwatch watch;
  const Kind kind = KindOf(seed, s.kind);
  const std::unique_ptr<Program> program = Generate(kind, seed);
  const std::string trial = PathFor(s, kind, seed, ".trial");
  int trials = 0;
  SetOptions(Baseline());
  const bool careful = !UsesEmptyHandle(program->Run(false));
  const auto ending = [&](const std::string& text) {
    WriteFile(trial, text);
    std::vector<std::string> args = {"--run", trial};
    if (careful) args.push_back("--reducing");
    if (!s.broken.empty()) args.push_back("--break=" + s.broken);
    ++trials;
    return RunSelf(args, 20, [](const std::string&) {}).Ending();
  };

  Reduced reduced;
  Options options;
  std::string how;
  int tries = 1;
  for (const Config& config : ConfigsFor(seed)) {
    int failures = 0;
    for (int i = 0; i < 3; ++i) {
      const std::string e = ending(FileText(*program, config.options, ""));
      if (e != "exit 0") how = e, ++failures;
    }
    if (failures == 0) continue;
    options = config.options;
    // One that fails now and then is asked more often before it counts as mended.
    tries = failures == 3 ? 1 : 5;
    reduced.reproduced = true;
    break;
  }
  if (!reduced.reproduced) {
    std::remove(trial.c_str());
    reduced.report = KindName(kind) + " seed " + std::to_string(seed) +
                     " does not fail in a process of its own: it needs what ran before it";
    return reduced;
  }
  const auto fails = [&](const std::string& text) {
    if (watch.seconds() > seconds) return false;
    for (int i = 0; i < tries; ++i)
      if (ending(text) == how) return true;
    return false;
  };
  for (size_t i = options.size(); i-- > 0;) {
    Options fewer = options;
    fewer.erase(fewer.begin() + static_cast<int64_t>(i));
    if (fails(FileText(*program, fewer, ""))) options = fewer;
  }
  const std::string head = "//! kind " + KindName(kind) + "\n//! options " + OptionsText(options) + "\n";
  program->Reduce([&](const std::string& text) { return fails(head + text); });
  std::remove(trial.c_str());

  reduced.text = program->Text();
  const std::string base = PathFor(s, kind, seed, "");
  WriteFile(base + ".reduced", FileText(*program, options, how));
  if (kind == Kind::gir) {
    SetOptions(Baseline());
    WriteFile(base + ".gir", program->FileTest());
    std::string conf;
    for (const auto& [name, value] : options) conf += name + "=" + value + "\n";
    WriteFile(base + ".conf", conf);
  }
  reduced.report = KindName(kind) + " seed " + std::to_string(seed) + " (" + how + ") reduced in " +
                   std::to_string(trials) + " runs to " + base + ".reduced:\n" + FileText(*program, options, "");
  return reduced;
}

}  // namespace tessera::random
