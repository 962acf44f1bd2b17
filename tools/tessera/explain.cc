// tessera explain: what became of a program in the tiers, or what a word of the tables means.
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deopt/guards.h"
#include "ir/op.h"
#include "runtime/options.h"
#include "tessera/tessera.h"
#include "tools/tessera/command.h"
#include "tools/tessera/program.h"
#include "tools/tessera/terminal.h"
#include "tracer/trace.h"

namespace tessera::tools {
namespace {

struct Word {
  std::string kind, name, text;
};

/// Every word of the ledger and of the language that a table says something about.
std::vector<Word> Words() {
  std::vector<Word> words;
#define TSR_DEOPT_REASON(name, policy, message) \
  words.push_back({"reason for a deopt", #name, message "; policy: " #policy});
#include "deopt/deopt_reasons.def"
#define TSR_GUARD(name, reason, expected, summary) \
  words.push_back({"guard", #name, summary "; a failure is a deopt for the reason " #reason});
#include "deopt/guards.def"
#define TSR_TRACE_ABORT(name, retry, message) \
  words.push_back({"reason why a recording is aborted", #name, message "; tried again: " #retry});
#include "tracer/trace_abort.def"
  for (const OptionDescription& o : Runtime::options())
    words.push_back(
        {"option", o.name, absl::StrCat(o.summary, "; ", o.environment, ", at the start ", o.default_value)});
  for (const MetricValue& m : Runtime::metrics())
    words.push_back({"metric", m.name, absl::StrCat(m.summary, ", in ", m.unit)});
  for (const ir::OpInfo& op : ir::AllOps()) {
    std::vector<std::string> parts;
    for (const ir::OperandSpec& o : op.operands)
      parts.push_back(absl::StrCat(o.name, o.optional ? "?" : o.variadic ? "..." : ""));
    for (const ir::AttrSpec& a : op.attrs)
      parts.push_back(absl::StrCat(a.name, a.required ? "" : "=" + ir::ToString(a.default_value)));
    words.push_back(
        {"op", std::string(op.name),
         absl::StrCat(std::string(op.name), "(", absl::StrJoin(parts, ", "), "): ", std::string(op.summary))});
  }
  return words;
}

absl::Status ExplainWord(const std::string& name) {
  const Style style(UseColour(stdout));
  const std::vector<Word> words = Words();
  std::vector<std::string_view> names;
  bool found = false;
  for (const Word& word : words) {
    names.push_back(word.name);
    if (word.name != name) continue;
    found = true;
    std::printf("%s: %s\n", style.Bold(absl::StrCat(word.kind, " ", word.name)).c_str(), word.text.c_str());
  }
  if (found) return absl::OkStatus();
  const std::string near = ir::DidYouMean(name, names);
  return NotFound(
      "nothing is known of ", name, near.empty() ? "" : "; " + near,
      " (a .tsr file, an op, an option, a metric, a guard, or a reason for a deopt or an aborted recording)");
}

absl::Status Explain(const Arguments& arguments) {
  const std::string& what = arguments.operand(0);
  if (!absl::EndsWith(what, ".tsr") && what.find('/') == std::string::npos) return ExplainWord(what);
  const absl::Status status = RunFile(what, arguments);
  Runtime::wait_for_builds();
  std::printf("\n%s", Runtime::explain().c_str());
  return status;
}

}  // namespace

const Command kExplain = {
    "explain",
    "FILE|WORD",
    "runs a program and says what got hot and what became of it; or explains a word of such tables",
    R"(The tables after the program's output are those of Runtime::explain(): versions with what they cost and saved,
deopts with their reasons, recordings that were aborted, places that stay in tier 1.

Examples:
  tessera explain train.tsr
  tessera explain escape             a reason for a deopt, and the guard of that name
  tessera explain compile_after      an option
  tessera explain softmax            an op with its operands and attributes
)",
    kRunFlags,
    Explain};

}  // namespace tessera::tools
