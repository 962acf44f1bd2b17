// The text form, written. What parser.cc reads is documented in docs/graph-ir.md; this file writes one spelling of it.
#include <algorithm>
#include <bit>

#include "ir/literal.h"
#include "ir/typing.h"
#include "runtime/device.h"

namespace tessera::ir {
namespace {

bool IsDefault(const Attr& attr, const Attr& default_value) {
  if (std::holds_alternative<double>(attr) && std::holds_alternative<double>(default_value)) {
    // -0.0 and NaN: bits decide.
    return std::bit_cast<uint64_t>(std::get<double>(attr)) == std::bit_cast<uint64_t>(std::get<double>(default_value));
  }
  if (std::holds_alternative<rt::Ref<rt::TensorImpl>>(attr)) return false;
  if (attr.index() != default_value.index()) return false;
  if (const bool* b = std::get_if<bool>(&attr)) return *b == std::get<bool>(default_value);
  if (const int64_t* i = std::get_if<int64_t>(&attr)) return *i == std::get<int64_t>(default_value);
  if (const DType* t = std::get_if<DType>(&attr)) return *t == std::get<DType>(default_value);
  if (const Ints* v = std::get_if<Ints>(&attr)) return *v == std::get<Ints>(default_value);
  if (const std::string* s = std::get_if<std::string>(&attr)) return *s == std::get<std::string>(default_value);
  return true;
}

bool OnlyYields(const Block& block) {
  return block.params.empty() && block.instructions.size() == 1 && block.instructions[0].operands.empty();
}

class Printer {
 public:
  Printer(const Function& function, std::string& out) : f_(function), out_(out), names_(function.values.size()) {}

  void Run() {
    out_ += "func @";
    out_ += f_.name;
    out_ += '(';
    for (size_t i = 0; i < f_.params.size(); ++i) {
      const Param& p = f_.params[i];
      if (i > 0) out_ += ", ";
      Define(p.value);
      out_ += ": ";
      Type(f_.values[p.value].type);
      if (p.privilege == Privilege::read && p.shard.empty()) continue;
      out_ += " {";
      if (p.privilege != Privilege::read)
        absl::StrAppend(&out_, "privilege = \"", std::string(PrivilegeName(p.privilege)), "\"");
      if (p.privilege != Privilege::read && !p.shard.empty()) out_ += ", ";
      if (!p.shard.empty()) absl::StrAppend(&out_, "shard = ", StringText(p.shard));
      out_ += '}';
    }
    out_ += ')';
    if (f_.results.size() == 1) {
      out_ += " -> ";
      Type(f_.results[0]);
    } else if (!f_.results.empty()) {
      Arrow(f_.results);
    }
    const std::string facts = f_.symbols->Facts();
    if (!facts.empty()) absl::StrAppend(&out_, " where ", facts);
    const char* between = " with {";
    const std::string gradient = f_.stops_gradient ? "none" : "";
    for (const auto& [name, text] : {std::pair<const char*, const std::string&>{"schedule", f_.schedule},
                                     {"space", f_.tune_space},
                                     {"key", f_.tune_key},
                                     {"gradient", gradient}}) {
      if (text.empty()) continue;
      absl::StrAppend(&out_, between, name, " = ", StringText(text));
      between = ", ";
    }
    if (*between == ',') out_ += '}';
    out_ += ' ';
    Braces(f_.body, 0);
    out_ += '\n';
  }

 private:
  void Type(const TensorType& type) { out_ += TypeText(f_.symbols.get(), type); }

  // `values`: of which these are the types, or none.
  void Arrow(const std::vector<TensorType>& types, const std::vector<ValueId>& values = {}) {
    if (types.empty()) return;
    out_ += " -> (";
    for (size_t i = 0; i < types.size(); ++i) {
      if (i > 0) out_ += ", ";
      Type(types[i]);
      if (!values.empty()) Shard(values[i]);
    }
    out_ += ')';
  }

  void Shard(ValueId id) {
    const auto at = std::lower_bound(f_.shards.begin(), f_.shards.end(), id,
                                     [](const auto& entry, ValueId value) { return entry.first < value; });
    if (at == f_.shards.end() || at->first != id) return;
    absl::StrAppend(&out_, " {shard = ", StringText(at->second), "}");
  }

  // Values without a name get the next number at the place that defines them.
  void Define(ValueId id) {
    std::string& name = names_[id];
    if (name.empty()) name = f_.values[id].name.empty() ? std::to_string(next_++) : f_.values[id].name;
    out_ += '%';
    out_ += name;
  }

  void Use(const Operand& operand) {
    switch (operand.kind) {
      case Operand::Kind::absent: out_ += '_'; return;
      case Operand::Kind::immediate: out_ += ImmediateText(operand.immediate); return;
      case Operand::Kind::value: break;
    }
    out_ += '%';
    out_ += names_[operand.value];
  }

  void Operands(const Operand* begin, const Operand* end) {
    while (end != begin && end[-1].kind == Operand::Kind::absent) --end;
    for (const Operand* o = begin; o != end; ++o) {
      if (o != begin) out_ += ", ";
      Use(*o);
    }
  }

  void AttrValue(const Attr& attr) {
    if (const double* d = std::get_if<double>(&attr)) {
      out_ += DoubleText(*d);
    } else if (const std::string* s = std::get_if<std::string>(&attr)) {
      out_ += StringText(*s);
    } else if (const Ints* ints = std::get_if<Ints>(&attr)) {
      out_ += '[';
      for (size_t i = 0; i < ints->size(); ++i) {
        if (i > 0) out_ += ", ";
        out_ += f_.symbols->Name((*ints)[i]);
      }
      out_ += ']';
    } else if (const auto* tensor = std::get_if<rt::Ref<rt::TensorImpl>>(&attr)) {
      Tensor(**tensor);
    } else {
      out_ += ToString(attr);
    }
  }

  void Tensor(const rt::TensorImpl& t) {
    Type(t);
    out_ += '[';
    int64_t index[kMaxRank] = {};
    const int64_t n = t.size();
    const size_t bytes = SizeOf(t.dtype);
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0) out_ += ", ";
      int64_t offset = 0;
      for (int k = 0; k < t.rank; ++k) offset += index[k] * t.strides[k];
      AppendElement(static_cast<const char*>(t.data) + offset * static_cast<int64_t>(bytes), t.dtype, out_);
      for (int k = t.rank - 1; k >= 0 && ++index[k] == t.dims[k]; --k) index[k] = 0;
    }
    out_ += ']';
  }

  void Attrs(const Instruction& inst) {
    const OpInfo& info = Info(inst.op);
    bool any = false;
    for (size_t i = 0; i < info.attrs.size(); ++i) {
      if (!info.attrs[i].required && IsDefault(inst.attrs[i], info.attrs[i].default_value)) continue;
      absl::StrAppend(&out_, any ? ", " : " {", info.attrs[i].name, " = ");
      any = true;
      AttrValue(inst.attrs[i]);
    }
    if (any) out_ += '}';
  }

  void Carried(const Instruction& inst, size_t first_init, const ValueId* params) {
    if (inst.operands.size() == first_init) return;
    out_ += " (";
    for (size_t i = first_init; i < inst.operands.size(); ++i) {
      if (i > first_init) out_ += ", ";
      Define(params[i - first_init]);
      out_ += " = ";
      Use(inst.operands[i]);
    }
    out_ += ')';
  }

  void Braces(const Block& block, int indent) {
    out_ += "{\n";
    for (const Instruction& inst : block.instructions) Line(inst, indent + 2);
    out_.append(indent, ' ');
    out_ += '}';
  }

  void Line(const Instruction& inst, int indent) {
    const OpInfo& info = Info(inst.op);
    out_.append(indent, ' ');
    for (size_t i = 0; i < inst.results.size(); ++i) {
      if (i > 0) out_ += ", ";
      Define(inst.results[i]);
    }
    if (!inst.results.empty()) out_ += " = ";
    out_ += info.name;
    std::vector<TensorType> types;
    for (ValueId r : inst.results) types.push_back(f_.values[r].type);
    const Operand* begin = inst.operands.data();
    const Operand* end = begin + inst.operands.size();
    switch (inst.op) {
      case Op::k_if:
        out_ += ' ';
        Use(inst.operands[0]);
        Arrow(types, inst.results);
        out_ += ' ';
        Braces(inst.blocks[0], indent);
        if (!OnlyYields(inst.blocks[1])) {
          out_ += " else ";
          Braces(inst.blocks[1], indent);
        }
        break;
      case Op::k_while:
        Carried(inst, 0, inst.blocks[0].params.data());
        Arrow(types, inst.results);
        out_ += ' ';
        Braces(inst.blocks[0], indent);
        out_ += " do ";
        Braces(inst.blocks[1], indent);
        break;
      case Op::k_for:
        out_ += ' ';
        Define(inst.blocks[0].params[0]);
        out_ += " in (";
        Operands(begin, begin + 3);
        out_ += ')';
        Carried(inst, 3, inst.blocks[0].params.data() + 1);
        Arrow(types, inst.results);
        out_ += ' ';
        Braces(inst.blocks[0], indent);
        break;
      case Op::k_call:
        absl::StrAppend(&out_, " @", std::get<std::string>(inst.attrs[0]), "(");
        Operands(begin, end);
        out_ += ')';
        Types(types, inst.results);
        break;
      default:
        if (!inst.operands.empty() && inst.operands[0].kind != Operand::Kind::absent) out_ += ' ';
        Operands(begin, end);
        Attrs(inst);
        Types(types, inst.results);
    }
    out_ += '\n';
  }

  void Types(const std::vector<TensorType>& types, const std::vector<ValueId>& values) {
    for (size_t i = 0; i < types.size(); ++i) {
      out_ += i > 0 ? ", " : " : ";
      Type(types[i]);
      Shard(values[i]);
    }
  }

  const Function& f_;
  std::string& out_;
  std::vector<std::string> names_;
  int next_ = 0;
};

}  // namespace

std::string Print(const Function& function) {
  std::string out;
  Printer(function, out).Run();
  return out;
}

std::string Print(const Module& module) {
  std::string out;
  for (const Buffer& b : module.buffers)
    absl::StrAppend(&out, "buffer @", b.name, " : ", TypeText(nullptr, b.type), "\n");
  for (const auto& f : module.functions) {
    if (!out.empty()) out += '\n';
    Printer(*f, out).Run();
  }
  return out;
}

}  // namespace tessera::ir
