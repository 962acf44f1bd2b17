// Writes the pages of docs/ that are made from tables: tessera_docs FOLDER, or tessera_docs --check FOLDER.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "deopt/guards.h"
#include "ir/op.h"
#include "ir/schedule.h"
#include "lang/builtins.h"
#include "lang/diagnostic.h"
#include "lang/lexer.h"
#include "runtime/fault.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "runtime/ring.h"
#include "tracer/trace.h"

namespace tessera {
namespace {

constexpr const char* kMade =
    "<!-- Made by tessera_docs from the tables in the source; ./dev docs writes it anew. -->\n\n";

std::string Cell(std::string_view text) {
  std::string s;
  for (char c : text) {
    if (c == '|') s += '\\';
    s += c;
  }
  return s;
}

std::string Operands(const ir::OpInfo& op) {
  std::string s;
  for (const ir::OperandSpec& o : op.operands) {
    if (!s.empty()) s += ", ";
    s += o.name;
    if (o.role == ir::Role::index) s += ": integers";
    if (o.role == ir::Role::boolean) s += ": bool";
    if (o.optional) s += " (optional)";
    if (o.variadic) s += " ...";
  }
  return s;
}

std::string Attrs(const ir::OpInfo& op) {
  std::string s;
  for (const ir::AttrSpec& a : op.attrs) {
    if (!s.empty()) s += ", ";
    s += a.name;
    if (!a.required) s += " = " + ir::ToString(a.default_value);
  }
  return s;
}

std::string_view BoundName(ir::Bound b) {
  static constexpr std::string_view kNames[] = {"exact", "2 ulp", "4 ulp", "accumulated", "product"};
  return kNames[static_cast<int>(b)];
}

// A summary of an op's arguments as a call has them.
std::string CallOf(std::string_view name, const ir::OpInfo& op) {
  std::string s = std::string(name) + "(";
  bool first = true;
  for (const ir::OperandSpec& o : op.operands) {
    s += (first ? "" : ", ") + (o.variadic ? "[" + o.name + "]" : o.name) + (o.optional ? "=None" : "");
    first = false;
  }
  for (const ir::AttrSpec& a : op.attrs) {
    s += (first ? "" : ", ") + (a.name == "axes"                                     ? "axis"
                                : a.name == "dims" && a.type == ir::AttrType::t_ints ? "shape"
                                                                                     : a.name);
    if (!a.required) s += "=" + ir::ToString(a.default_value);
    first = false;
  }
  return s + ")";
}

std::string Language() {
  std::string s = "# Names and messages of the language\n\n";
  s += kMade;
  s += "Keywords: ";
  for (std::string_view word : lang::Keywords()) s += "`" + std::string(word) + "` ";
  s += "\n\n## Builtins\n\n| call | meaning |\n| --- | --- |\n";
  for (const lang::Builtin* b : lang::AllBuiltins()) {
    if (b->id == lang::BuiltinId::op) continue;
    s += "| `" + Cell(b->signature) + "` | " + Cell(b->summary) + " |\n";
  }
  s += "\n## Ops\n\nWhat they do, with their dtypes and bounds: `ops.md`.\n\n| call | op |\n| --- | --- |\n";
  for (const lang::Builtin* b : lang::AllBuiltins()) {
    if (b->id != lang::BuiltinId::op) continue;
    s += "| `" + Cell(CallOf(b->name, ir::Info(b->op))) + "` | `" + std::string(ir::Info(b->op).name) + "` |\n";
  }
  s += "\n## Schedules\n\nWhat `@kernel.schedule` takes, and the `space` of `@kernel.autotune` (`ir/schedule.def`).\n\n"
       "| entry | values | meaning |\n| --- | --- | --- |\n";
  for (const ir::ScheduleForm& f : ir::kScheduleForms)
    s += "| `form` | `\"" + std::string(f.name) + "\"` | " + std::string(f.doc) + " |\n";
  for (const ir::ScheduleEntry& e : ir::kScheduleEntries)
    s += "| `" + std::string(e.name) + "` | " + std::to_string(e.low) + " to " + std::to_string(e.high) + " | " +
         std::string(e.doc) + " |\n";
  s +=
      "\n## Messages\n\n`{0}`, `{1}`, ... are filled in at the place.\n\n| name | kind | text |\n| --- | --- | --- |\n";
  static constexpr std::string_view kKinds[] = {"error", "warning", "note"};
  for (int i = 0; i < lang::kNumDiags; ++i) {
    const lang::DiagInfo& d = lang::Info(static_cast<lang::Diag>(i));
    s += "| `" + std::string(d.name) + "` | " + std::string(kKinds[static_cast<int>(d.severity)]) + " | " +
         Cell(d.text) + " |\n";
  }
  return s;
}

std::string Ops() {
  std::string s = "# Ops\n\n";
  s += kMade;
  s +=
      "Every op of the table `ir/ops.def`. Under each dtype: `x` is supported and tested, `f` is supported and "
      "computed after promotion to f32, `.` is refused with an error. Narrow floats (f16, bf16, f8) compute in f32 and "
      "round once.\n\nBound: *exact* is the correctly rounded result; *n ulp* is in units in the last place of the "
      "compute dtype; *accumulated* is 8 units times the sum of the absolute terms, *product* (8 + k/2) units times "
      "that sum of k terms. How values convert between dtypes "
      "is said in `include/tessera/dtypes.def`.\n\nGradient: *yes* is a rule of `ir/grads.def` (control flow and "
      "buffers: of `ir/differentiate.cc`), *zero* that it is 0 almost everywhere, *none* that it would be an error to "
      "ask for one. "
      "Integers and booleans have none in any op.\n\n| op | operands | attributes | ";
  for (int t = 0; t < kNumDTypes; ++t) s += std::string(Name(static_cast<DType>(t))) + " | ";
  s += "result | bound | gradient | what it gives |\n| --- | --- | --- |";
  for (int t = 0; t < kNumDTypes; ++t) s += " :-: |";
  s += " --- | --- | --- | --- |\n";
  static constexpr std::string_view kGrads[] = {"yes", "zero", "none"};
  static constexpr std::string_view kRules[] = {
      "common dtype", "common float", "bool", "same, integers i64", "bool", "i64", "attribute dtype", "see text"};
  for (const ir::OpInfo& op : ir::AllOps()) {
    s += "| `" + std::string(op.name) + "` | " + Operands(op) + " | " + Cell(Attrs(op)) + " |";
    for (int t = 0; t < kNumDTypes; ++t) {
      const DType dtype = static_cast<DType>(t);
      const bool data = op.dtypes != ir::DTypeSet::s_none;
      const bool promoted = op.rule == ir::DTypeRule::r_pfloat && !IsFloat(dtype);
      s += !data ? "   |" : !ir::Allows(op.dtypes, dtype) ? " . |" : promoted ? " f |" : " x |";
    }
    s += " " + std::string(kRules[static_cast<int>(op.rule)]) + " | " + std::string(BoundName(op.bound)) + " | " +
         std::string(kGrads[static_cast<int>(op.grad)]) + " | " + Cell(op.summary) + " |\n";
  }
  return s;
}

std::string MetricRow(const rt::MetricInfo& m) {
  return "| `" + std::string(m.name) + "` | " + std::string(m.unit) + " | " + Cell(m.summary) + " |\n";
}

constexpr const char* kEventHead = "| event | form | a | b | c | meaning |\n| --- | --- | --- | --- | --- | --- |\n";
std::string EventRow(const rt::EventInfo& e) {
  return "| `" + std::string(e.name) + "` | " + (e.form == rt::EventForm::slice ? "slice" : "instant") + " | " +
         Cell(e.a) + " | " + Cell(e.b) + " | " + Cell(e.c) + " | " + Cell(e.summary) + " |\n";
}

std::string Options() {
  std::string s = "# Options, metrics, events and fault points\n\n";
  s += kMade;
  s += "Options are set with `Runtime::set_option`, with `tsr_set_option`, or by the environment.\n\n"
       "| option | environment | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const rt::OptionInfo& o : rt::AllOptions()) {
    s += "| `" + std::string(o.name) + "` | `" + std::string(o.env) + "` | " +
         (o.default_text.empty() ? "" : "`" + o.default_text + "`") + " | " + Cell(o.summary) + " |\n";
  }
  s += "\n`TESSERA_ISA` (base, avx2, avx512) asks for a narrower instruction set on x86-64, `neon` on Arm for products "
       "of bf16 and f16 "
       "without instructions of their own; it is read once.\n\n"
       "| metric | unit | meaning |\n| --- | --- | --- |\n";
  for (const rt::MetricInfo& m : rt::kMetrics) s += MetricRow(m);
  s += std::string("\n") + kEventHead;
  for (const rt::EventInfo& e : rt::kEvents) s += EventRow(e);
  s += "\n| fault point | what fails when it is fired |\n| --- | --- |\n";
  for (const rt::FaultInfo& f : rt::kFaults) s += "| `" + std::string(f.name) + "` | " + Cell(f.summary) + " |\n";
  return s;
}

std::string_view RetryName(tracer::Retry retry) {
  static constexpr std::string_view kNames[] = {"later", "never", "free"};
  return kNames[static_cast<int>(retry)];
}

// The rows that tell of the tiers; the other metrics and events are in options.md alone.
bool IsOfTiers(std::string_view name) {
  for (std::string_view part : {"trace", "version", "deopt", "bridge", "ops_deferred"})
    if (name.starts_with(part)) return true;
  return false;
}

std::string Deopt() {
  std::string s = "# Guards, deopts and aborted recordings\n\n";
  s += kMade;
  s += "`docs/tracing.md` tells how these work together; `Runtime::explain()` and the log (option `debug`) use these "
       "names.\n\n## Guards\n\nOne checked assumption of a version each, from `deopt/guards.def`. A guard that fails "
       "is booked under its reason.\n\n| guard | holds when | reason | expected and seen show |\n"
       "| --- | --- | --- | --- |\n";
  for (const deopt::GuardInfo& g : deopt::kGuards) {
    s += "| `" + std::string(g.name) + "` | " + Cell(g.summary) + " | `" + std::string(Info(g.reason).name) + "` | " +
         Cell(g.expected) + " |\n";
  }
  s +=
      "\n## Deopt reasons\n\nWhy a version is left before its end, from `deopt/deopt_reasons.def`. The policy says "
      "what follows:\n\n"
      "- *generalise*: after `deopt_generalise` failures the place is recorded again and a wider version is made\n"
      "- *bridge*: after `hot_exit` exits a trace is recorded from there; eager ops and inlined calls do as *record*\n"
      "- *record*: after `hot_exit` exits, and more of them where that showed nothing new, the place is recorded anew; "
      "the version stays\n"
      "- *keep*: nothing is done\n"
      "- *drop*: the version goes\n\n"
      "| reason | policy | meaning |\n| --- | --- | --- |\n";
  for (const deopt::DeoptReasonInfo& r : deopt::kDeoptReasons) {
    s += "| `" + std::string(r.name) + "` | " + std::string(Name(r.policy)) + " | " + Cell(r.message) + " |\n";
  }
  s += "\n## Trace aborts\n\nWhy a recording ends without a trace, from `tracer/trace_abort.def`. *later*: counts "
       "towards `trace_attempts`, and the place waits longer each time; *never*: the place stays in tier 1; *free*: "
       "counts for nothing.\n\n| abort | again | meaning |\n| --- | --- | --- |\n";
  for (const tracer::TraceAbortInfo& a : tracer::kTraceAborts) {
    s += "| `" + std::string(a.name) + "` | " + std::string(RetryName(a.retry)) + " | " + Cell(a.message) + " |\n";
  }
  s += "\n## Metrics and events of the tiers\n\nA part of `docs/options.md`.\n\n| metric | unit | meaning |\n"
       "| --- | --- | --- |\n";
  for (const rt::MetricInfo& m : rt::kMetrics) {
    if (IsOfTiers(m.name)) s += MetricRow(m);
  }
  s += std::string("\n") + kEventHead;
  for (const rt::EventInfo& e : rt::kEvents) {
    if (IsOfTiers(e.name)) s += EventRow(e);
  }
  return s;
}

bool Handle(const std::string& path, const std::string& text, bool check) {
  if (!check) {
    std::ofstream(path) << text;
    return true;
  }
  std::ifstream in(path);
  std::stringstream have;
  have << in.rdbuf();
  if (have.str() == text) return true;
  std::fprintf(stderr, "%s is not what the tables say; run ./dev docs\n", path.c_str());
  return false;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const bool check = argc == 3 && std::string(argv[1]) == "--check";
  if (argc != 2 && !check) {
    std::fprintf(stderr, "usage: tessera_docs [--check] FOLDER\n");
    return 2;
  }
  const std::string folder = argv[argc - 1];
  const bool ops = tessera::Handle(folder + "/ops.md", tessera::Ops(), check);
  const bool language = tessera::Handle(folder + "/language-tables.md", tessera::Language(), check);
  const bool options = tessera::Handle(folder + "/options.md", tessera::Options(), check);
  const bool deopt = tessera::Handle(folder + "/deopt.md", tessera::Deopt(), check);
  return ops && language && options && deopt ? 0 : 1;
}
