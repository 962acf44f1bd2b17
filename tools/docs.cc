// Writes the pages of docs/ that are made from tables: tessera_docs FOLDER, or tessera_docs --check FOLDER.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "ir/op.h"
#include "runtime/fault.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "runtime/ring.h"

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

std::string Ops() {
  std::string s = "# Ops\n\n";
  s += kMade;
  s +=
      "Every op of the table `ir/ops.def`. Under each dtype: `x` is supported and tested, `f` is supported and "
      "computed after promotion to f32, `.` is refused with an error. Narrow floats (f16, bf16, f8) compute in f32 and "
      "round once.\n\nBound: *exact* is the correctly rounded result; *n ulp* is in units in the last place of the "
      "compute dtype; *accumulated* is 8 units times the sum of the absolute terms, *product* (8 + k/2) units times "
      "that sum of k terms. How values convert between dtypes "
      "is said in `include/tessera/dtypes.def`.\n\n| op | operands | attributes | ";
  for (int t = 0; t < kNumDTypes; ++t) s += std::string(Name(static_cast<DType>(t))) + " | ";
  s += "result | bound | what it gives |\n| --- | --- | --- |";
  for (int t = 0; t < kNumDTypes; ++t) s += " :-: |";
  s += " --- | --- | --- |\n";
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
         Cell(op.summary) + " |\n";
  }
  return s;
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
  s += "\n`TESSERA_ISA` (base, avx2, avx512) asks for a narrower instruction set on x86-64; it is read once.\n\n"
       "| metric | unit | meaning |\n| --- | --- | --- |\n";
  for (const rt::MetricInfo& m : rt::kMetrics) {
    s += "| `" + std::string(m.name) + "` | " + std::string(m.unit) + " | " + Cell(m.summary) + " |\n";
  }
  s += "\n| event | a | b | c | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const rt::EventInfo& e : rt::kEvents) {
    s += "| `" + std::string(e.name) + "` | " + Cell(e.a) + " | " + Cell(e.b) + " | " + Cell(e.c) + " | " +
         Cell(e.summary) + " |\n";
  }
  s += "\n| fault point | what fails when it is fired |\n| --- | --- |\n";
  for (const rt::FaultInfo& f : rt::kFaults) s += "| `" + std::string(f.name) + "` | " + Cell(f.summary) + " |\n";
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
  const bool options = tessera::Handle(folder + "/options.md", tessera::Options(), check);
  return ops && options ? 0 : 1;
}
