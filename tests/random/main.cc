// tessera_random: random programs, run in the interpreter and in the engine, must give the same. See README.md.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>

#include "tessera/runtime.h"
#include "tests/random/driver.h"
#include "tests/random/harness.h"

namespace {

using tessera::random::Settings;

constexpr const char* kUsage =
    R"(usage: tessera_random [--seconds S] [--programs N] [--seed S|fresh] [--kind gir|eager] [--fork] [--no-reduce]
                      [--out DIR] [--verbose]
       tessera_random --reduce SEED [--seconds S] [--kind gir|eager] [--out DIR]
       tessera_random --run FILE | --print SEED | --stats | --self-test
       --break[=wrong|crash|hang] puts a fault into the executor, to see that it is found
)";

int Stats(const Settings& s) {
  tessera::random::Counts counts;
  const int64_t n = s.programs > 0 ? s.programs : 1000;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t seed = s.seed + static_cast<uint64_t>(i);
    tessera::random::Generate(tessera::random::KindOf(seed, s.kind), seed)->Count(counts);
  }
  std::printf("%lld programs\n", static_cast<long long>(n));
  for (const auto& [what, count] : counts) std::printf("%8lld %s\n", static_cast<long long>(count), what.c_str());
  return 0;
}

int Batch(const Settings& s) {
  if (s.child) return tessera::random::RunBatch(s).failures > 0 ? 1 : 0;
  std::printf("tessera_random: seeds from %llu\n", static_cast<unsigned long long>(s.seed));
  std::fflush(stdout);
  const tessera::random::Totals totals = s.fork ? tessera::random::RunForked(s) : tessera::random::RunBatch(s);
  if (!tessera::random::UnknownOptions().empty()) {
    std::string names;
    for (const std::string& name : tessera::random::UnknownOptions()) names += " " + name;
    std::printf("tessera_random: this library has no option called%s; they were left out\n", names.c_str());
  }
  std::printf("tessera_random: %s\n", totals.Line().c_str());
  return totals.failures > 0 ? 1 : 0;
}

int Main(int argc, char** argv) {
  Settings s;
  enum class Mode { batch, run, reduce, print, stats, self_test } mode = Mode::batch;
  std::string file;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto value = [&]() -> std::string {
      if (++i >= argc) throw std::runtime_error(arg + " needs a value");
      return argv[i];
    };
    if (arg == "--seconds") {
      s.seconds = std::stod(value());
    } else if (arg == "--programs") {
      s.programs = std::stoll(value());
    } else if (arg == "--seed") {
      const std::string text = value();
      // Room for the seeds that follow, and short enough to be typed.
      s.seed = text == "fresh" ? std::random_device()() * uint64_t{1000} + 1 : std::stoull(text);
    } else if (arg == "--kind") {
      s.kind = value();
      if (s.kind != "gir" && s.kind != "eager") throw std::runtime_error("--kind is gir or eager");
    } else if (arg == "--out") {
      s.out = value();
    } else if (arg == "--silence") {
      s.silence_s = std::stoi(value());
    } else if (arg == "--fork") {
      s.fork = true;
    } else if (arg == "--child") {
      s.child = true;
    } else if (arg == "--reducing") {
      s.reducing = true;
    } else if (arg == "--no-reduce") {
      s.reduce_failures = false;
    } else if (arg == "--verbose") {
      s.verbose = true;
    } else if (arg == "--break" || arg.starts_with("--break=")) {
      s.broken = arg == "--break" ? "wrong" : arg.substr(8);
    } else if (arg == "--run") {
      mode = Mode::run, file = value();
    } else if (arg == "--reduce" || arg == "--print") {
      mode = arg == "--reduce" ? Mode::reduce : Mode::print;
      s.seed = std::stoull(value());
    } else if (arg == "--stats") {
      mode = Mode::stats;
    } else if (arg == "--self-test") {
      mode = Mode::self_test;
    } else {
      std::fputs(kUsage, stderr);
      return 2;
    }
  }
  // The engine says once for each place why it stays in tier 1: with so many places, that is noise.
  if (!s.verbose) tessera::Runtime::set_log_sink([](int, std::string_view) {});
  switch (mode) {
    case Mode::run: return tessera::random::RunFile(file, s);
    case Mode::stats: return Stats(s);
    case Mode::print:
      std::fputs(Generate(tessera::random::KindOf(s.seed, s.kind), s.seed)->Text().c_str(), stdout);
      return 0;
    case Mode::reduce: {
      const auto reduced = tessera::random::ReduceSeed(s, s.seed, s.seconds > 0 ? s.seconds : 300);
      std::printf("%s\n", reduced.report.c_str());
      return reduced.reproduced ? 1 : 0;
    }
    case Mode::self_test:
      if (!tessera::random::SelfTest(s)) return 1;
      std::printf("tessera_random: self test passed\n");
      return 0;
    case Mode::batch: break;
  }
  if (s.seconds <= 0 && s.programs <= 0) s.programs = 1000;
  return Batch(s);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tessera_random: %s\n", e.what());
    return 2;
  }
}
