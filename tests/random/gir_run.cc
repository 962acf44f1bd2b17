// Graph IR programs: the text form, running, counting, and writing a file test.
#include <algorithm>
#include <stdexcept>

#include "ir/literal.h"
#include "ir/typing.h"
#include "tessera/function.h"
#include "tessera/runtime.h"
#include "tests/random/gir.h"

namespace tessera::random {
namespace {

constexpr std::string_view kCall = "// call";

Tensor Argument(std::string text) {
  const bool transposed = text.ends_with(" ^T");
  if (transposed) text.resize(text.size() - 3);
  const std::string type = text.substr(0, text.find('[', text.find('>')));
  auto module = ir::Parse("func @a() -> " + type + " { %c = constant {value = " + text + "} return %c }");
  if (!module.ok()) throw std::runtime_error("bad argument: " + std::string(module.status().message()));
  const auto& value = std::get<rt::Ref<rt::TensorImpl>>((*module)->functions[0]->body.instructions[0].attrs[0]);
  // A copy, so that a program which wrote into its arguments would be found and not confuse the next run.
  const Tensor x = Tensor::Adopt(rt::Ref<rt::TensorImpl>::Share(value.get()).release()).clone();
  return transposed ? x.transpose() : x;
}

void Replace(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

void CountBlock(const ir::Block& block, int depth, Counts& counts) {
  for (const ir::Instruction& inst : block.instructions) {
    ++counts["op " + std::string(ir::Info(inst.op).name)];
    for (const ir::Operand& o : inst.operands)
      if (o.kind == ir::Operand::Kind::immediate) ++counts["gir immediate"];
    if (!inst.blocks.empty()) ++counts["gir nesting " + std::to_string(depth + 1)];
    for (const ir::Block& b : inst.blocks) CountBlock(b, depth + 1, counts);
  }
}

}  // namespace

std::string Literal(const Tensor& x) {
  // Reads without an op, so that looking at a value adds nothing to what is being tested.
  const std::vector<std::byte> bytes = x.to_bytes();
  const Dims dims = x.dims();
  TensorType type;
  type.dtype = x.dtype();
  type.rank = static_cast<uint8_t>(dims.size());
  std::copy(dims.begin(), dims.end(), type.dims);
  std::string text = ir::TypeText(nullptr, type) + "[";
  for (size_t i = 0; i < bytes.size(); i += SizeOf(type.dtype)) {
    if (i > 0) text += ", ";
    const size_t at = text.size();
    ir::AppendElement(bytes.data() + i, type.dtype, text);
    if (text.find("nan", at) != std::string::npos) text.replace(at, text.size() - at, "nan");
  }
  return text + "]";
}

std::vector<std::string> SplitLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string> SplitWords(std::string_view line) {
  std::vector<std::string> words;
  size_t at = 0;
  while ((at = line.find_first_not_of(' ', at)) != std::string_view::npos) {
    const size_t end = std::min(line.find(' ', at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

std::unique_ptr<Program> ParseGir(std::string_view text) {
  std::string module;
  std::vector<GirProgram::Call> calls;
  for (const std::string& line : SplitLines(text)) {
    if (line.starts_with(kCall)) {
      GirProgram::Call call;
      std::string rest = line.substr(kCall.size());
      while (!rest.empty()) {
        rest.erase(0, rest.find_first_not_of(' '));
        const size_t end = std::min(rest.find("; "), rest.size());
        if (end > 0) call.push_back(rest.substr(0, end));
        rest.erase(0, std::min(end + 2, rest.size()));
      }
      calls.push_back(std::move(call));
    } else if (!line.starts_with("//")) {
      module += line + "\n";
    }
  }
  auto parsed = ir::Parse(module);
  if (!parsed.ok()) throw std::runtime_error(std::string(parsed.status().message()));
  return std::make_unique<GirProgram>(std::move(module), std::move(calls));
}

std::string GirProgram::Text() const {
  std::string text;
  for (const Call& call : calls_) {
    text += kCall;
    for (size_t i = 0; i < call.size(); ++i) text += (i > 0 ? "; " : " ") + call[i];
    text += "\n";
  }
  return text + module_;
}

void GirProgram::Count(Counts& counts) const {
  auto module = ir::Parse(module_);
  counts["gir calls of main"] += static_cast<int64_t>(calls_.size());
  for (size_t i = 1; i < calls_.size(); ++i) {
    bool same = true;
    for (size_t a = 0; a < calls_[i].size(); ++a)
      same &= calls_[i][a].substr(0, calls_[i][a].find('[')) == calls_[i - 1][a].substr(0, calls_[i - 1][a].find('['));
    if (!same) ++counts["gir calls with other shapes"];
  }
  for (const auto& f : (*module)->functions) {
    ++counts["gir functions"];
    if (f->symbols->num_named() > 0) ++counts["gir functions with symbols"];
    CountBlock(f->body, 0, counts);
  }
}

Log GirProgram::Run(bool broken) const {
  Log log;
  std::string text = module_;
  if (broken) Replace(text, " = tanh ", " = sin ");
  Result<Module> parsed = Module::parse(text, "random.gir");
  if (!parsed.ok()) return {"parse: " + parsed.status().message()};
  Module module = *parsed;
  Runtime::set_print_sink([&](std::string_view line) { log.push_back("print " + std::string(line)); });
  module.on_host_read(
      [&](std::string_view label, const Tensor& x) { log.push_back("read " + std::string(label) + " " + Literal(x)); });
  const Function main = module.function("main").value();
  std::vector<std::pair<Tensor, size_t>> kept;  // with the line of the log that says what it was
  for (size_t c = 0; c < calls_.size(); ++c) {
    log.push_back("call " + std::to_string(c));
    std::vector<Tensor> args;
    for (const std::string& literal : calls_[c]) args.push_back(Argument(literal));
    std::vector<std::string> before;
    for (const Tensor& a : args) before.push_back(Literal(a));
    try {
      for (const Tensor& y : main(args)) {
        log.push_back("result " + Literal(y));
        if (c % 3 == 0) kept.emplace_back(y, log.size() - 1);
      }
    } catch (const Error& e) {
      log.push_back("error " + std::to_string(static_cast<int>(e.code())) + " " + e.what());
    }
    for (size_t a = 0; a < args.size(); ++a)
      if (Literal(args[a]) != before[a])
        log.push_back("argument " + std::to_string(a) + " changed: " + Literal(args[a]));
  }
  // Results must not live in memory that later calls use.
  for (const auto& [y, line] : kept)
    if ("result " + Literal(y) != log[line]) log.push_back("kept result changed: " + Literal(y));
  for (const std::string& name : module.buffer_names()) {
    Result<Tensor> value = module.buffer(name);
    log.push_back("buffer " + name + " " + (value.ok() ? Literal(*value) : value.status().message()));
  }
  Runtime::set_print_sink({});
  return log;
}

// Each call becomes a function without parameters, because that is what file tests call.
std::string GirProgram::FileTest() const {
  auto parsed = ir::Parse(module_);
  const size_t num_results = parsed.ok() ? (*parsed)->FindFunction("main")->results.size() : 0;
  std::string out, names;
  for (size_t i = 0; i < num_results; ++i) names += (i > 0 ? ", %r" : "%r") + std::to_string(i);
  // The types of the results depend on the shapes of the arguments, so each call is run to learn them.
  Result<Module> running = Module::parse(module_, "random.gir");
  if (!running.ok()) return Text();
  std::string problem;
  Log lines;
  Runtime::set_print_sink([&](std::string_view line) { lines.push_back("prints @NAME: " + std::string(line)); });
  running->on_host_read([&](std::string_view label, const Tensor& x) {
    lines.push_back("reads @NAME: " + std::string(label) + " " + Literal(x));
  });
  const Function main = running->function("main").value();
  for (size_t c = 0; c < calls_.size(); ++c) {
    lines.clear();
    std::vector<Tensor> args;
    std::string body, list;
    for (size_t a = 0; a < calls_[c].size(); ++a) {
      std::string literal = calls_[c][a];
      const bool transposed = literal.ends_with(" ^T");
      if (transposed) literal.resize(literal.size() - 3);
      args.push_back(Argument(calls_[c][a]));
      const std::string k = std::to_string(a);
      body += "  %a" + k + " = constant {value = " + literal + "}\n";
      if (transposed) body += "  %t" + k + " = transpose %a" + k + "\n";
      list += (a > 0 ? ", %" : "%") + std::string(transposed ? "t" : "a") + k;
    }
    std::string types;
    try {
      for (const Tensor& y : main(args)) {
        const std::string text = Literal(y);
        lines.push_back("expect @NAME: " + text);
        types += (types.empty() ? "" : ", ") + text.substr(0, text.find('[', text.find('>')));
      }
    } catch (const Error& e) {
      const std::string message = SplitLines(e.what())[0];
      const size_t at = message.rfind("in @");
      lines.push_back("error @NAME: " + (at == std::string::npos ? message : message.substr(at)));
    }
    const std::string name = "call_" + std::to_string(c);
    for (std::string line : lines) {
      if (line.find('\n') != std::string::npos)
        problem = "//! it prints several lines at once, which no directive says\n";
      Replace(line, "@NAME", "@" + name);
      Replace(line, "\n", "\\n");
      out += "// " + line + "\n";
    }
    const bool returns = !types.empty();
    out += "func @" + name + "()" + (returns ? " -> (" + types + ")" : "") + " {\n" + body + "  ";
    if (num_results > 0) out += names + " = ";
    out += "call @main(" + list + ")\n  return" + (returns ? " " + names : "") + "\n}\n\n";
  }
  Runtime::set_print_sink({});
  std::string reads, types, values;
  for (const std::string& name : running->buffer_names()) {
    const std::string text = Literal(running->buffer(name).value());
    out += "// expect @buffers: " + text + "\n";
    types += (types.empty() ? "" : ", ") + text.substr(0, text.find('[', text.find('>')));
    values += (values.empty() ? "%" : ", %") + name;
    reads += "  %" + name + " = buffer_read {buffer = \"" + name + "\"}\n";
  }
  if (!reads.empty()) out += "func @buffers() -> (" + types + ") {\n" + reads + "  return " + values + "\n}\n";
  return problem + module_ + "\n" + out;
}

}  // namespace tessera::random
