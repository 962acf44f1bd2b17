#include "tests/random/harness.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "tessera/runtime.h"
#include "tests/random/rng.h"

namespace tessera::random {
namespace {

std::set<std::string> g_unknown;

// Every option that a Config sets.
constexpr const char* kNames[] = {
    "tier",           "background",       "hot_eager",        "hot_loop",    "hot_function",  "hot_exit",
    "trace_ops",      "trace_unroll",     "trace_depth",      "profit_gate", "version_bytes", "anchor_versions",
    "version_count",  "deopt_generalise", "deopt_pin",        "deopt_every", "chaos_seed",    "hash_bits",
    "parallel_grain", "compile_after",    "specialise_after", "fuse",        "bitwise",       "run_ahead"};

Options Hot(int64_t threshold) {
  const std::string n = std::to_string(threshold);
  return {{"background", "false"}, {"profit_gate", "false"}, {"hot_eager", n},
          {"hot_loop", n},         {"hot_function", n},      {"hot_exit", n}};
}
// Versions get generated code at once.
Options Code(const Options& hot);
Options With(Options base, const Options& more) {
  for (const auto& [name, value] : more) {
    const auto old = std::find_if(base.begin(), base.end(), [&](const auto& o) { return o.first == name; });
    if (old != base.end()) {
      old->second = value;
    } else {
      base.emplace_back(name, value);
    }
  }
  return base;
}

Options Code(const Options& hot) { return With(hot, {{"compile_after", "0"}, {"specialise_after", "1000000"}}); }

}  // namespace

Options Baseline() { return {{"tier", "1"}}; }

std::vector<Config> ConfigsFor(uint64_t seed) {
  Rng rng(seed ^ 0x636f6e666967u);
  const std::string number = std::to_string(1 + seed % 1000003);
  const Options hot = Hot(rng.Between(1, 3));
  std::vector<Config> others = {
      {"background", With(hot, {{"background", "true"}})},
      {"deopt_1", With(hot, {{"deopt_every", "1"}})},
      {"deopt_2", With(hot, {{"deopt_every", "2"}})},
      {"deopt_3", With(hot, {{"deopt_every", "3"}})},
      {"deopt_7", With(hot, {{"deopt_every", "7"}, {"deopt_pin", "1000000"}})},
      {"chaos", With(hot, {{"chaos_seed", number}})},
      {"chaos_background", With(hot, {{"chaos_seed", number}, {"background", "true"}, {"profit_gate", "true"}})},
      {"hash", With(hot, {{"hash_bits", std::to_string(rng.Between(1, 4))}})},
      {"few_versions", With(hot, {{"version_count", "2"}, {"anchor_versions", "1"}})},
      {"few_bytes", With(hot, {{"version_bytes", std::to_string(rng.Of({0, 256, 4096}))}})},
      {"short_traces", With(hot, {{"trace_ops", std::to_string(rng.Between(1, 12))},
                                  {"trace_unroll", std::to_string(rng.Between(1, 3))},
                                  {"trace_depth", std::to_string(rng.Between(1, 2))}})},
      {"exact", With(hot, {{"deopt_generalise", "1000"}, {"anchor_versions", "8"}})},
      {"profit_gate", With(hot, {{"profit_gate", "true"}})},
      {"tier_2", With(Code(hot), {{"tier", "2"}})},
      {"tier_3", With(Code(hot), {{"specialise_after", "0"}})},
      {"mixed", With(Code(hot), {{"background", "true"}, {"specialise_after", "1"}})},
      {"no_fusion", With(Code(hot), {{"fuse", "false"}})},
      {"code_deopt", With(Code(hot), {{"deopt_every", std::to_string(rng.Between(1, 7))}})},
      {"code_chaos", With(Code(hot), {{"chaos_seed", number}})},
      {"ahead", With(hot, {{"run_ahead", std::to_string(rng.Between(1, 8))}})},
      {"code_ahead", With(Code(hot), {{"run_ahead", std::to_string(rng.Between(1, 8))}, {"hot_exit", "1000000"}})},
      {"tiny_grain", With(hot, {{"parallel_grain", "64"}})},
      {"defaults", {}},
      {"interpreter", Baseline()},
  };
  std::vector<Config> chosen = {{"hot", hot}};
  while (chosen.size() < 6) {
    const auto i = rng.Below(static_cast<int64_t>(others.size()));
    chosen.push_back(others[static_cast<size_t>(i)]);
    others.erase(others.begin() + i);
  }
  return chosen;
}

void SetOptions(const Options& options) {
  static const std::map<std::string, std::string> defaults = [] {
    std::map<std::string, std::string> all;
    for (const OptionDescription& o : Runtime::options()) all[o.name] = o.default_value;
    return all;
  }();
  for (const char* name : kNames) {
    if (const auto it = defaults.find(name); it != defaults.end()) {
      if (Status s = Runtime::set_option(name, it->second); !s.ok()) throw std::runtime_error(s.message());
    }
  }
  // Any configuration may come to generated code, and logs are compared to the bit.
  if (Status s = Runtime::set_option("bitwise", "true"); !s.ok()) throw std::runtime_error(s.message());
  for (const auto& [name, value] : options) {
    const Status s = Runtime::set_option(name, value);
    if (s.code() == Code::not_found) {
      g_unknown.insert(name);
    } else if (!s.ok()) {
      throw std::runtime_error(s.message());
    }
  }
}

std::set<std::string>& UnknownOptions() { return g_unknown; }

std::string Difference(const Log& want, const Log& got) {
  const size_t n = std::min(want.size(), got.size());
  size_t i = 0;
  while (i < n && want[i] == got[i]) ++i;
  if (i == want.size() && i == got.size()) return "";
  const auto line = [&](const Log& log) { return i < log.size() ? log[i] : "(nothing)"; };
  return "line " + std::to_string(i) + " of the log\n  interpreter: " + line(want) + "\n  engine:      " + line(got);
}

bool UsesEmptyHandle(const Log& log) {
  return std::any_of(log.begin(), log.end(), [](const std::string& line) {
    return line.find("empty Tensor handle") != std::string::npos ||
           line.find("Tensor handle is empty") != std::string::npos;
  });
}

std::string OptionsText(const Options& options) {
  std::string text;
  for (const auto& [name, value] : options) text += (text.empty() ? "" : " ") + name + "=" + value;
  return text;
}

Options ParseOptions(std::string_view text) {
  Options options;
  for (const std::string& word : SplitWords(text)) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) throw std::runtime_error("not an option: " + word);
    options.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return options;
}

Kind KindOf(uint64_t seed, const std::string& asked) {
  if (asked.empty()) return seed % 2 == 1 ? Kind::gir : Kind::eager;
  return asked == "gir" ? Kind::gir : Kind::eager;
}

std::unique_ptr<Program> Generate(Kind kind, uint64_t seed) {
  return kind == Kind::gir ? GenerateGir(seed) : GenerateEager(seed);
}

std::string FileText(const Program& program, const Options& options, const std::string& note) {
  std::string text = std::string("//! kind ") + (program.kind() == Kind::gir ? "gir" : "eager") + "\n";
  text += "//! options " + OptionsText(options) + "\n";
  for (const std::string& line : SplitLines(note)) text += "//! note " + line + "\n";
  return text + program.Text();
}

ProgramFile ReadProgram(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::stringstream text;
  text << in.rdbuf();
  ProgramFile file;
  bool gir = path.ends_with(".gir");
  std::string program;
  for (const std::string& line : SplitLines(text.str())) {
    if (line.starts_with("//! kind ")) gir = line == "//! kind gir";
    if (line.starts_with("//! options ")) file.options = ParseOptions(line.substr(12));
    if (!line.starts_with("//!")) program += line + "\n";
  }
  file.program = gir ? ParseGir(program) : ParseEager(program);
  return file;
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace tessera::random
