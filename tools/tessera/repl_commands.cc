// What begins with a colon at the prompt.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "deopt/ledger.h"
#include "ir/function.h"
#include "ir/op.h"
#include "lang/builtins.h"
#include "runtime/options.h"
#include "tessera/tessera.h"
#include "tools/tessera/program.h"
#include "tools/tessera/repl.h"

namespace tessera::tools {
namespace {

void Say(const std::string& text) { std::printf("%s\n", text.c_str()); }

void Fail(ReplState& repl, const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", text.c_str());
  repl.failed = true;
}

void Help(ReplState& repl, const std::string& rest) {
  if (!rest.empty()) {
    const lang::Builtin* b = lang::FindBuiltin(rest);
    if (b == nullptr) return Fail(repl, absl::StrCat("nothing is known of ", rest));
    if (!b->summary.empty())
      return Say(absl::StrCat(repl.style.Bold(std::string(b->signature)), "\n  ", std::string(b->summary)));
    const ir::OpInfo& op = ir::Info(b->op);
    std::vector<std::string> parts;
    for (const ir::OperandSpec& o : op.operands) parts.push_back(absl::StrCat(o.name, o.optional ? "=None" : ""));
    for (const ir::AttrSpec& a : op.attrs)
      parts.push_back(absl::StrCat(a.name, a.required ? "" : "=" + ir::ToString(a.default_value)));
    std::string signature = absl::StrCat(std::string(b->name), "(");
    for (size_t i = 0; i < parts.size(); ++i) absl::StrAppend(&signature, i == 0 ? "" : ", ", parts[i]);
    return Say(absl::StrCat(repl.style.Bold(signature + ")"), "\n  ", std::string(op.summary)));
  }
  std::printf("Enter statements of the language (docs/tutorial.md), or\n");
  for (const ReplCommand& c : ReplCommands())
    std::printf("  %-22s %s\n", absl::StrCat(c.name, " ", c.operands).c_str(), c.summary);
  std::printf("Tab completes names; Ctrl-C interrupts what runs, and what is defined stays; Ctrl-D leaves.\n");
}

void Quit(ReplState& repl, const std::string&) { repl.quit = true; }

void Tier(ReplState& repl, const std::string& rest) {
  if (!rest.empty()) {
    if (const absl::Status set = rt::options().Set("tier", rest); !set.ok())
      return Fail(repl, std::string(set.message()));
  }
  int counts[4] = {};
  for (const deopt::VersionRecord& v : deopt::Ledger::Get().versions())
    if (v.state == "live") ++counts[v.generator == "tier 3" ? 3 : v.generator == "tier 2" ? 2 : 1];
  const rt::MetricValues now = rt::SnapshotMetrics();
  const auto get = [&](rt::Metric m) { return now[static_cast<size_t>(m)]; };
  Say(absl::StrFormat("highest tier in use: %d%s", rt::options().tier(),
                      rt::options().tier() == 1 ? " (the interpreter)" : ""));
  Say(absl::StrFormat("ops run: %d in tier 1, %d in versions", get(rt::Metric::ops_executed),
                      get(rt::Metric::version_ops)));
  Say(absl::StrFormat("versions live: %d replayed, %d tier 2, %d tier 3; deopts: %d", counts[1], counts[2], counts[3],
                      get(rt::Metric::deopts)));
}

void ShowIr(ReplState& repl, const std::string& rest) {
  const std::vector<std::string> words = absl::StrSplit(rest, ' ', absl::SkipEmpty());
  constexpr std::string_view kStages[] = {"gir",    "bytecode", "graph", "sched", "tile",
                                          "target", "llvm",     "asm",   "cuda",  "report"};
  const std::string list = "gir (Graph IR), bytecode, graph, sched, tile, target, llvm, asm, cuda and report";
  if (words.empty() || words.size() > 2) return Fail(repl, ":ir STAGE [FUNCTION]; stages are " + list);
  if (std::find(std::begin(kStages), std::end(kStages), words[0]) == std::end(kStages))
    return Fail(repl, absl::StrCat("there is no stage ", words[0], "; stages are ", list));
  const lang::FunctionValue* function = nullptr;
  std::string name = words.size() > 1 ? words[1] : "";
  if (!name.empty()) {
    const lang::Value* value = repl.session.Find(name);
    if (value == nullptr) return Fail(repl, absl::StrCat("there is no ", name));
    function = value->As<lang::FunctionValue>();
    if (function == nullptr) return Fail(repl, absl::StrCat(name, " is ", value->Describe(), ", not a function"));
  } else {
    int functions = 0;
    for (const auto& [id, value] : repl.session.main().values) {
      if (value.As<lang::FunctionValue>() == nullptr) continue;
      function = value.As<lang::FunctionValue>();
      name = std::string(repl.session.ast().Text(lang::Name{id}));
      ++functions;
    }
    if (functions != 1)
      return Fail(repl, functions == 0 ? "no function is defined" : "several functions are defined: say which one");
  }
  const std::vector<const lang::Instance*> instances = repl.session.instances().Of(*function->def);
  if (instances.empty())
    return Fail(repl, absl::StrCat(name, " was not called yet, and has no types to compile it for"));
  for (const lang::Instance* instance : instances) {
    const Function handle = SessionImpl::HandleOf(*instance);
    Say(repl.style.Dim(absl::StrCat("# ", instance->signature)));
    if (words[0] == "gir") {
      std::printf("%s", handle.module().to_string().c_str());
    } else if (words[0] == "bytecode") {
      std::printf("%s", handle.bytecode().c_str());
    } else {
      Result<std::string> text = handle.inspect_ir(words[0]);
      if (!text.ok()) return Fail(repl, text.status().message());
      std::printf("%s", text->c_str());
    }
  }
}

void Explain(ReplState&, const std::string&) {
  Runtime::wait_for_builds();
  std::printf("%s", Runtime::explain().c_str());
}

std::string Duration(double seconds) {
  if (seconds < 1e-6) return absl::StrFormat("%.0f ns", seconds * 1e9);
  if (seconds < 1e-3) return absl::StrFormat("%.1f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.2f ms", seconds * 1e3);
  return absl::StrFormat("%.2f s", seconds);
}

// Runs it once, then again and again for half a second, and shows the first run, the median and the best.
void Time(ReplState& repl, const std::string& rest) {
  if (rest.empty()) return Fail(repl, ":time needs something to time, as in :time x @ x");
  using Clock = std::chrono::steady_clock;
  constexpr double kSeconds = 0.5;
  constexpr size_t kMost = 100000;
  std::vector<double> times;
  const InterruptibleScope interruptible;
  // One text, evaluated many times over: its places stay the same, so that it gets hot as a loop does.
  const SessionImpl::Outcome outcome = repl.session.EvaluateRepeatedly(rest, "<time>", [&](bool done) {
    static Clock::time_point start, all;
    const Clock::time_point now = Clock::now();
    if (!done) {
      if (times.empty()) all = now;
      start = Clock::now();
      return true;
    }
    times.push_back(std::chrono::duration<double>(now - start).count());
    return std::chrono::duration<double>(now - all).count() < kSeconds && times.size() < kMost;
  });
  if (!outcome.ok) {
    std::fputs(
        outcome.interrupted ? "interrupted\n" : repl.session.Render(outcome.diagnostics, UseColour(stderr)).c_str(),
        stderr);
    repl.failed = true;
  }
  if (times.empty()) return;
  const double first = times[0];
  std::sort(times.begin(), times.end());
  Say(absl::StrCat("median ", Duration(times[times.size() / 2]), ", best ", Duration(times[0]), ", first ",
                   Duration(first), " (", times.size(), " runs)"));
}

void SetDevice(ReplState& repl, const std::string& rest) {
  if (!rest.empty()) {
    Result<Device> device = Device::find(rest);
    if (!device.ok()) return Fail(repl, device.status().message());
    Runtime::set_device(*device);
  }
  std::string others;
  for (const Device& d : Device::all())
    if (d != Runtime::device()) absl::StrAppend(&others, others.empty() ? "" : ", ", std::string(d.name()));
  Say(absl::StrCat(std::string(Runtime::device().name()),
                   others.empty() ? "" : absl::StrCat(" (there is also ", others, ")")));
}

void Type(ReplState& repl, const std::string& rest) {
  if (rest.empty()) return Fail(repl, ":type needs an expression");
  SessionImpl::Outcome outcome;
  {
    const InterruptibleScope interruptible;
    outcome = repl.session.Evaluate(rest, "<type>");
  }
  if (!outcome.ok) {
    std::fputs(repl.session.Render(outcome.diagnostics, UseColour(stderr)).c_str(), stderr);
    repl.failed = true;
    return;
  }
  std::string text = outcome.value.Describe();
  if (const Tensor* x = outcome.value.tensor()) absl::StrAppend(&text, " on ", std::string(x->device().name()));
  if (const auto* f = outcome.value.As<lang::FunctionValue>())
    for (const lang::Instance* i : repl.session.instances().Of(*f->def)) absl::StrAppend(&text, "\n  ", i->signature);
  Say(text);
}

}  // namespace

const std::vector<ReplCommand>& ReplCommands() {
  static const auto* commands = new std::vector<ReplCommand>{
      {":device", "[NAME]", "where new tensors are made; with a name: from now on", SetDevice},
      {":explain", "", "what got hot and what became of it", Explain},
      {":help", "[NAME]", "this text, or what a built-in function does", Help},
      {":ir", "STAGE [FUNCTION]", "a function as gir, graph, sched, tile, target, llvm, asm or cuda", ShowIr},
      {":quit", "", "leaves", Quit},
      {":tier", "[1|2|3]", "which tiers do the work; with a number: the highest to use", Tier},
      {":time", "EXPRESSION", "how long it takes, first and later", Time},
      {":type", "EXPRESSION", "what its value is", Type},
  };
  return *commands;
}

void RunReplCommand(ReplState& repl, const std::string& line) {
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  const std::string name = line.substr(0, end);
  const std::string rest(absl::StripAsciiWhitespace(line.substr(end)));
  std::vector<std::string_view> names;
  const ReplCommand* meant = nullptr;
  int matches = 0;
  for (const ReplCommand& c : ReplCommands()) {
    names.push_back(c.name);
    if (c.name == name) return c.run(repl, rest);
    // What is begun unmistakably is enough.
    if (name.size() > 1 && std::string_view(c.name).starts_with(name)) meant = &c, ++matches;
  }
  if (matches == 1) return meant->run(repl, rest);
  const std::string near = ir::DidYouMean(name, names);
  Fail(repl, absl::StrCat("there is no command ", name, near.empty() ? "; :help lists them" : "; " + near));
}

}  // namespace tessera::tools
