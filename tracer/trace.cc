#include "tracer/trace.h"

#include "absl/strings/str_cat.h"

namespace tessera::tracer {
namespace {

class Printer {
 public:
  explicit Printer(const Trace& trace) : trace_(trace) {}

  std::string Run() {
    for (size_t i = 0; i < trace_.steps.size(); ++i) {
      absl::StrAppend(&out_, i, ": ");
      Step(trace_.steps[i]);
      out_ += '\n';
    }
    return std::move(out_);
  }

 private:
  // The letter tells the kind, the number is the value's: x input, n number, y result, c constant. A number that is the
  // same in every run is written as itself.
  std::string Value(ValueId id) const {
    if (id == kNoValue) return "_";
    const TraceValue& value = trace_.values[id];
    switch (value.kind) {
      case TraceValue::Kind::input: return absl::StrCat("x", id);
      case TraceValue::Kind::result: return absl::StrCat("y", id);
      case TraceValue::Kind::constant: return absl::StrCat("c", id);
      case TraceValue::Kind::number: break;
    }
    const std::string text = ir::ToString(IsFloat(value.type.dtype)            ? ir::Attr(value.number.f)
                                          : value.type.dtype == DType::boolean ? ir::Attr(value.number.i != 0)
                                                                               : ir::Attr(value.number.i));
    return value.is_fixed ? text : absl::StrCat("n", id, "=", text);
  }

  std::string Attr(const ir::Attr& attr) const {
    const ir::Ints* ints = std::get_if<ir::Ints>(&attr);
    if (ints == nullptr) return ir::ToString(attr);
    std::string text = "[";
    for (size_t i = 0; i < ints->size(); ++i)
      absl::StrAppend(&text, i > 0 ? "," : "", ir::DimName(trace_.symbols.get(), (*ints)[i]));
    return text + "]";
  }

  // Defaults are left out: they are in the op table.
  void Attrs(const TraceStep& step) {
    const ir::OpInfo& info = ir::Info(step.op);
    bool any = false;
    for (size_t i = 0; i < step.attrs.size() && i < info.attrs.size(); ++i) {
      const std::string text = Attr(step.attrs[i]);
      if (!info.attrs[i].required && text == Attr(info.attrs[i].default_value)) continue;
      absl::StrAppend(&out_, any ? ", " : " {", info.attrs[i].name, "=", text);
      any = true;
    }
    if (any) out_ += '}';
  }

  void Step(const TraceStep& step) {
    for (size_t i = 0; i < step.out.size(); ++i) absl::StrAppend(&out_, i > 0 ? ", " : "", Value(step.out[i]));
    if (!step.out.empty()) out_ += " = ";
    switch (step.kind) {
      case TraceStep::Kind::op: out_ += ir::Info(step.op).name; break;
      case TraceStep::Kind::tensor: out_ += "tensor"; break;
      case TraceStep::Kind::branch: out_ += "branch"; break;
      case TraceStep::Kind::for_begin: absl::StrAppend(&out_, "for_begin counter ", step.counter, ":"); break;
      case TraceStep::Kind::for_next: absl::StrAppend(&out_, "for_next counter ", step.counter); break;
      case TraceStep::Kind::buffer_read: absl::StrAppend(&out_, "buffer_read buffer ", step.target); break;
      case TraceStep::Kind::buffer_write: absl::StrAppend(&out_, "buffer_write buffer ", step.target, ":"); break;
      case TraceStep::Kind::buffer_add: absl::StrAppend(&out_, "buffer_add buffer ", step.target, ":"); break;
      case TraceStep::Kind::call: absl::StrAppend(&out_, "call function ", step.target, ":"); break;
    }
    for (const ValueId id : step.in) absl::StrAppend(&out_, " ", Value(id));
    if (step.kind == TraceStep::Kind::op) Attrs(step);
    if (step.kind == TraceStep::Kind::branch) out_ += step.outcome ? " is true" : " is false";
    if (step.kind == TraceStep::Kind::for_next) out_ += step.outcome ? " has more" : " is through";
    Types(step);
    Where(step);
  }

  void Types(const TraceStep& step) {
    for (size_t i = 0; i < step.out.size(); ++i) {
      out_ += i > 0 ? ", " : "  ";
      out_ += step.out[i] == kNoValue ? "_" : ir::TypeName(trace_.symbols.get(), trace_.values[step.out[i]].type);
    }
  }

  // In a function without lines: the instruction.
  void Where(const TraceStep& step) {
    if (step.source.file != nullptr) {
      const std::string file = step.source.file;
      absl::StrAppend(&out_, "  ", file.substr(file.rfind('/') + 1), ":", step.source.line);
      return;
    }
    if (trace_.is_eager || step.frame >= static_cast<int32_t>(trace_.frames.size())) return;
    absl::StrAppend(&out_, "  @", trace_.frames[step.frame].code->name);
    if (step.source.line > 0)
      absl::StrAppend(&out_, ":", step.source.line);
    else
      absl::StrAppend(&out_, " pc ", step.pc);
  }

  const Trace& trace_;
  std::string out_;
};

}  // namespace

int NamedIndex(const ir::SymbolTable& table, int64_t symbol) {
  for (int s = 0; s < table.num_named(); ++s)
    if (table.NamedSymbol(s) == symbol) return s;
  return -1;
}

std::string ToString(const Trace& trace) { return Printer(trace).Run(); }

}  // namespace tessera::tracer
