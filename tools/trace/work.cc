#include "tools/trace/work.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace tessera::tools {
namespace {

using rt::trace::TraceRow;
using rt::trace::VersionRow;

/// As the compiler's report says it of itself, where it does not say otherwise.
constexpr double kOperationsOfFunction = 20;

std::string Text(std::string_view view) { return std::string(view); }
std::vector<std::string> Split(std::string_view text, std::string_view by) {
  return absl::StrSplit(absl::string_view(text.data(), text.size()), absl::string_view(by.data(), by.size()),
                        absl::SkipEmpty());
}

struct Type {
  std::string dtype;
  std::vector<double> dims;
  bool known = false;
  double elements() const {
    double n = 1;
    for (const double d : dims) n *= d;
    return n;
  }
  double FromEnd(size_t i) const { return i <= dims.size() ? dims[dims.size() - i] : 1; }
};

double BytesOf(const std::string& dtype) {
  if (dtype == "bool") return 1;
  const size_t digits = dtype.find_first_of("0123456789");
  if (digits == std::string::npos) return 0;
  int64_t bits = 0;
  for (size_t i = digits; i < dtype.size() && absl::ascii_isdigit(static_cast<unsigned char>(dtype[i])) && bits < 1000;
       ++i)
    bits = bits * 10 + (dtype[i] - '0');
  return static_cast<double>(bits) / 8;
}

// "bf16[8,s0]"; what comes after the bracket is left out.
Type ParseType(std::string_view text, const std::map<std::string, double>& symbols) {
  Type type;
  const size_t open = text.find('['), close = text.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return type;
  type.dtype = Text(text.substr(0, open));
  type.known = BytesOf(type.dtype) > 0;
  for (const std::string& dim : Split(text.substr(open + 1, close - open - 1), ",")) {
    // A guard says "s0 from 2".
    const std::string word = dim.substr(0, dim.find(' '));
    double size = 0;
    if (const auto it = symbols.find(word); it != symbols.end())
      size = it->second;
    else if (!absl::SimpleAtod(word, &size))
      type.known = false;
    type.dims.push_back(size);
  }
  return type;
}

// "reads       4*s0*s1 bytes" of a kernel's part of the report.
std::string Field(const std::string& part, std::string_view name) {
  for (const std::string& line : Split(part, "\n")) {
    if (!absl::StartsWith(line, "  " + Text(name) + " ")) continue;
    return std::string(absl::StripAsciiWhitespace(line.substr(2 + name.size())));
  }
  return "";
}

}  // namespace

StepText ParseStep(std::string_view text) {
  StepText step;
  if (const size_t colon = text.find(": "); colon != std::string_view::npos) text.remove_prefix(colon + 2);
  const size_t types = text.find("  ");
  if (types != std::string_view::npos) {
    std::string_view rest = text.substr(types + 2);
    rest = rest.substr(0, rest.find("  "));
    for (const std::string& type : Split(rest, ", ")) step.types.push_back(type);
  }
  std::string_view head = text.substr(0, types);
  if (const size_t equals = head.find(" = "); equals != std::string_view::npos) {
    step.results = Split(head.substr(0, equals), ", ");
    head.remove_prefix(equals + 3);
  }
  if (const size_t attrs = head.find(" {"); attrs != std::string_view::npos) {
    step.attrs = Text(head.substr(attrs + 1));
    head = head.substr(0, attrs);
  }
  step.operands = Split(head, " ");
  if (!step.operands.empty()) {
    step.op = step.operands.front();
    step.operands.erase(step.operands.begin());
  }
  return step;
}

std::optional<double> Evaluate(std::string_view formula, const std::map<std::string, double>& symbols) {
  double sum = 0;
  const std::vector<std::string> terms = Split(formula, " + ");
  if (terms.empty()) return std::nullopt;
  for (const std::string& term : terms) {
    double product = 1;
    for (const std::string& factor : Split(term, "*")) {
      double value = 0;
      if (const auto it = symbols.find(factor); it != symbols.end())
        value = it->second;
      else if (!absl::SimpleAtod(factor, &value))
        return std::nullopt;
      product *= value;
    }
    sum += product;
  }
  return sum;
}

void WorkTable::BindSymbols(const TraceRow& trace, Version* into) const {
  for (const TraceRow& other : data_.traces) {
    if (other.id == trace.id || other.place != trace.place || other.steps.size() != trace.steps.size()) continue;
    std::map<std::string, double> found;
    bool fits = true;
    for (size_t i = 0; i < trace.steps.size() && fits; ++i) {
      const StepText mine = ParseStep(trace.steps[i].text), theirs = ParseStep(other.steps[i].text);
      fits = mine.op == theirs.op && mine.types.size() == theirs.types.size();
      for (size_t t = 0; fits && t < mine.types.size(); ++t) {
        const std::vector<std::string> a = absl::StrSplit(mine.types[t], absl::ByAnyChar("[,]")),
                                       b = absl::StrSplit(theirs.types[t], absl::ByAnyChar("[,]"));
        fits = a.size() == b.size();
        for (size_t d = 0; fits && d < a.size(); ++d) {
          double size = 0;
          if (a[d] == b[d]) continue;
          fits = absl::StartsWith(a[d], "s") && absl::SimpleAtod(b[d], &size);
          if (fits) found.emplace(a[d], size);
        }
      }
    }
    if (!fits || found.empty()) continue;
    into->symbols = std::move(found);
    into->guessed = true;
    return;
  }
}

// Values of the stage "graph" have their types, in which open dims are symbols of the code, and their numbers:
//   %v2 = tsr_graph.sub %0, %v1 step 0 values [2] ... -> tensor<?xf32, [0]>
// What the trace says of the same value tells how large those dims are.
void WorkTable::ReadGraph(const std::string& text, Version* into) const {
  const auto bind = [&](std::string_view number, std::string_view type) {
    // "?x768xbf16, [3]": dims, the element type, and the symbols of the open dims.
    type = type.substr(0, type.find('>'));
    const size_t open = type.find('['), close = type.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) return;
    const std::vector<std::string> symbols = Split(type.substr(open + 1, close - open - 1), ", ");
    std::vector<std::string> dims = Split(type.substr(0, type.find(',')), "x");
    if (!dims.empty()) dims.pop_back();
    for (const char* kind : {"x", "y", "c"}) {
      const auto it = into->types.find(kind + Text(number));
      if (it == into->types.end()) continue;
      const Type known = ParseType(it->second, into->symbols);
      if (!known.known || known.dims.size() != dims.size()) continue;
      for (size_t d = 0, s = 0; d < dims.size() && s < symbols.size(); ++d)
        if (dims[d] == "?") into->code_symbols["s" + symbols[s++]] = known.dims[d];
    }
  };
  constexpr std::string_view kValue = "%v", kTensor = "tensor<";
  const auto digits = [](std::string_view at) {
    return at.substr(0, std::min(at.find_first_not_of("0123456789"), at.size()));
  };
  for (const std::string& owned : Split(text, "\n")) {
    const std::string_view line = owned;
    // Inputs: "%v1: tensor<...>".
    for (size_t at = line.find(kValue); at != std::string_view::npos; at = line.find(kValue, at + 2)) {
      const std::string_view number = digits(line.substr(at + 2));
      const std::string_view rest = line.substr(at + 2 + number.size());
      if (absl::StartsWith(Text(rest.substr(0, 9)), ": tensor<")) bind(number, rest.substr(9));
    }
    // Results: the types after the arrow, in the order of the names before the equals sign.
    const size_t equals = line.find(" = "), arrow = line.rfind("-> ");
    if (equals == std::string_view::npos || arrow == std::string_view::npos) continue;
    size_t type = line.find(kTensor, arrow);
    for (size_t at = line.find(kValue); at < equals && type != std::string_view::npos; at = line.find(kValue, at + 2)) {
      bind(digits(line.substr(at + 2)), line.substr(type + kTensor.size()));
      type = line.find(kTensor, type + 1);
    }
  }
}

void WorkTable::ReadReport(const std::string& text, Version* into) const {
  // "symbol s0 is dim 0 of value 1"
  for (const std::string& line : Split(text, "\n")) {
    if (!absl::StartsWith(line, "symbol ")) continue;
    const std::vector<std::string> words = Split(line, " ");
    size_t dim = 0;
    if (words.size() != 8 || !absl::SimpleAtoi(words[4], &dim)) continue;
    for (const char* kind : {"x", "y", "c"}) {
      const auto it = into->types.find(kind + words[7]);
      const Type type = it != into->types.end() ? ParseType(it->second, into->symbols) : Type();
      if (type.known && dim < type.dims.size()) into->code_symbols[words[1]] = type.dims[dim];
    }
  }
  // "kernel k1 in place of steps 0, 1"
  for (const std::string& part : Split("\n" + text, "\nkernel ")) {
    const size_t steps = part.find(" in place of step");
    if (steps == std::string::npos) continue;
    const std::string name = part.substr(0, steps);
    const std::string line = part.substr(steps, part.find('\n') - steps);
    Work work;
    work.is_guess = into->guessed;
    for (const std::string& word : std::vector<std::string>(absl::StrSplit(line, absl::ByAnyChar(" ,")))) {
      int64_t step = 0;
      if (!absl::SimpleAtoi(word, &step)) continue;
      into->kernel_of_step[step] = name;
      if (step < 0 || static_cast<size_t>(step) >= into->steps.size()) continue;
      const StepText& s = into->steps[static_cast<size_t>(step)];
      if (s.op != "matmul" && s.op != "dot_general" && !absl::StartsWith(s.op, "attention")) continue;
      work.is_product = true;
      for (const std::string& operand : s.operands)
        if (const auto it = into->types.find(operand); it != into->types.end() && work.dtype.empty())
          work.dtype = it->second.substr(0, it->second.find('['));
    }
    const auto number = [&](const char* field, const char* until) {
      const std::string value = Field(part, field);
      return Evaluate(value.substr(0, value.find(until)), into->code_symbols);
    };
    const auto reads = number("reads", " bytes"), writes = number("writes", " bytes");
    if (reads && writes) work.bytes = *reads + *writes;
    const std::string arithmetic = Field(part, "arithmetic");
    if (const auto operations = number("arithmetic", " operations")) {
      work.flops = *operations;
      if (const size_t and_at = arithmetic.find(" and "); and_at != std::string::npos) {
        const std::string rest = arithmetic.substr(and_at + 5);
        work.flops +=
            kOperationsOfFunction * Evaluate(rest.substr(0, rest.find(" functions")), into->code_symbols).value_or(0);
      }
    }
    // "blocks of 384 threads, ...; 168 registers, 19 spills, ..."
    for (const std::string& item : Split(Field(part, "code"), ", "))
      if (absl::EndsWith(item, " spills")) (void)absl::SimpleAtoi(item.substr(0, item.find(' ')), &work.spills);
    into->kernels[name] = std::move(work);
  }
}

const WorkTable::Version& WorkTable::Read(int64_t id) {
  const auto [it, is_new] = versions_.try_emplace(id);
  Version& version = it->second;
  const VersionRow* row = is_new ? data_.FindVersion(id) : nullptr;
  const TraceRow* trace = row != nullptr ? data_.FindTrace(row->trace_id) : nullptr;
  if (trace == nullptr) return version;
  BindSymbols(*trace, &version);
  // "x0: f32[8] on cpu, dense"
  for (const rt::trace::GuardRow& guard : row->guards)
    if (const size_t colon = guard.text.find(": "); colon != std::string::npos)
      version.types[guard.text.substr(0, colon)] = guard.text.substr(colon + 2);
  for (const rt::trace::StepRow& step : trace->steps) {
    version.steps.push_back(ParseStep(step.text));
    const StepText& parsed = version.steps.back();
    for (size_t i = 0; i < parsed.results.size() && i < parsed.types.size(); ++i)
      version.types[parsed.results[i]] = parsed.types[i];
  }
  version.code_symbols = version.symbols;
  const auto stage = [&](std::string_view name) -> const rt::trace::StageRow* {
    for (const rt::trace::StageRow& row : data_.stages)
      if (row.version == id && row.stage == name) return &row;
    return nullptr;
  };
  if (const auto* graph = stage("graph")) ReadGraph(graph->text, &version);
  if (const auto* report = stage("report")) ReadReport(report->text, &version);
  return version;
}

Work WorkTable::OfStep(const Version& version, const StepText& step) {
  Work work;
  work.is_guess = version.guessed;
  const auto type = [&](const std::string& value) {
    const auto it = version.types.find(value);
    return it == version.types.end() ? Type() : ParseType(it->second, version.symbols);
  };
  double most = 0;
  Type result;
  std::vector<Type> operands;
  for (const std::string& name : step.results) {
    const Type t = type(name);
    if (!t.known) return Work();
    if (result.dtype.empty()) result = t;
    work.bytes += t.elements() * BytesOf(t.dtype);
    most = std::max(most, t.elements());
  }
  for (const std::string& name : step.operands) {
    operands.push_back(type(name));
    const Type& t = operands.back();
    if (!t.known) continue;
    work.bytes += t.elements() * BytesOf(t.dtype);
    most = std::max(most, t.elements());
  }
  if (step.op == "paged_attention") return Work();  // how much of its pages is read, lengths say
  if (step.op == "matmul") {
    work.is_product = true;
    if (operands.size() < 2 || !operands[0].known) return Work();
    work.dtype = operands[0].dtype;
    work.flops = 2 * result.elements() * operands[0].FromEnd(absl::StrContains(step.attrs, "transpose_a=true") ? 2 : 1);
  } else if (step.op == "dot_general") {
    work.is_product = true;
    const size_t from = step.attrs.find("contract_a=[");
    if (operands.size() < 2 || !operands[0].known || from == std::string::npos) return Work();
    work.dtype = operands[0].dtype;
    work.flops = 2 * result.elements();
    const std::string dims = step.attrs.substr(from + 12, step.attrs.find(']', from) - from - 12);
    for (const std::string& text : Split(dims, ","))
      if (size_t d = 0; absl::SimpleAtoi(text, &d) && d < operands[0].dims.size()) work.flops *= operands[0].dims[d];
  } else if (absl::StartsWith(step.op, "attention")) {
    work.is_product = true;
    if (operands.size() < 3 || !operands[0].known || !operands[1].known) return Work();
    work.dtype = operands[0].dtype;
    // Two products of queries and keys; five of them for the gradients. A causal mask leaves half of the scores, and of
    // those a window leaves a band.
    const double products = step.op == "attention" ? 2 : 5, keys = operands[1].FromEnd(2);
    double seen = absl::StrContains(step.attrs, "causal=true") ? keys / 2 : keys;
    if (const size_t at = step.attrs.find("window="); at != std::string::npos) {
      const double window = std::strtod(step.attrs.c_str() + at + 7, nullptr);
      if (window > 0 && window < keys) seen = window * (1 - window / keys / 2);
    }
    work.flops = products * 2 * operands[0].elements() * seen;
  } else if (absl::StartsWith(step.op, "linear_cross_entropy")) {
    work.is_product = true;
    if (operands.size() < 2 || !operands[0].known || !operands[1].known) return Work();
    work.dtype = operands[0].dtype;
    // The logits; for the gradients they come again, and then dx and dw.
    const double products = step.op == "linear_cross_entropy" ? 1 : 3;
    work.flops = products * 2 * operands[0].elements() * operands[1].FromEnd(2);
  } else {
    work.flops = most;
  }
  return work;
}

Work WorkTable::Of(int64_t version_id, int32_t step, const std::string& kernel) {
  const Version& version = Read(version_id);
  if (const auto it = version.kernels.find(kernel); it != version.kernels.end()) {
    // Steps that are alike share the code of one of them: the step says which row of the report it is.
    const auto own = version.kernel_of_step.find(step);
    return own != version.kernel_of_step.end() ? version.kernels.at(own->second) : it->second;
  }
  // Generated code does several steps, and only its report says which; of many kernels in one launch, nothing does.
  const size_t name = absl::EndsWith(kernel, "_many") ? kernel.size() - 5 : kernel.size();
  const bool generated =
      name > 1 && kernel[0] == 'k' && kernel.substr(0, name).find_first_not_of("0123456789", 1) == std::string::npos;
  if (generated || step < 0 || static_cast<size_t>(step) >= version.steps.size()) return Work();
  return OfStep(version, version.steps[static_cast<size_t>(step)]);
}

Work WorkTable::OfReport(int64_t version) {
  Work all;
  for (const auto& [name, work] : Read(version).kernels) {
    all.bytes += work.bytes;
    all.flops += work.flops;
    all.is_guess |= work.is_guess;
  }
  return all;
}

}  // namespace tessera::tools
