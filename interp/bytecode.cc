#include "interp/bytecode.h"

#include <algorithm>
#include <atomic>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace tessera::interp {
namespace {

using ir::Block;
using ir::Instruction;
using ir::Op;
using ir::ValueId;

// Where the values of a yield go.
struct Targets {
  std::vector<int32_t> registers;
  std::vector<DType> dtypes;
};

class Decoder {
 public:
  Decoder(const ir::Module& module, const ir::Function& function) : module_(module), function_(function) {}

  std::unique_ptr<Bytecode> Run() {
    out_ = std::make_unique<Bytecode>();
    out_->name = function_.name;
    out_->source = &function_;
    out_->anchors.emplace_back(AnchorSlot::Kind::function, 0);
    registers_.assign(function_.values.size(), -1);
    for (const ir::Param& p : function_.params) {
      out_->params.push_back(Register(p.value));
      out_->param_types.push_back(function_.values[p.value].type);
    }
    const std::vector<Instruction>& body = function_.body.instructions;
    out_->is_straight = std::all_of(body.begin(), body.end(), [](const Instruction& i) {
      return i.op == Op::k_return || i.op == Op::k_constant ||
             (i.blocks.empty() && ir::Info(i.op).impl != ir::Impl::control && ir::Info(i.op).impl != ir::Impl::host);
    });
    std::vector<ValueId> params;
    for (const ir::Param& p : function_.params)
      if (!out_->is_straight) params.push_back(p.value);
    DecodeBlock(function_.body, params, {});
    FindSymbols();
    return std::move(out_);
  }

 private:
  // What Bind() would otherwise look up at each call.
  void FindSymbols() {
    const ir::SymbolTable& symbols = *function_.symbols;
    out_->is_plain = !out_->symbolic_attrs && symbols.facts().empty();
    out_->param_symbols.assign(out_->params.size() * kMaxRank, -1);
    for (size_t i = 0; i < out_->params.size(); ++i) {
      for (int d = 0; d < out_->param_types[i].rank; ++d) {
        const int64_t dim = out_->param_types[i].dims[d];
        if (!ir::IsSymbol(dim)) continue;
        out_->is_plain = false;
        for (int s = 0; s < symbols.num_named(); ++s)
          if (symbols.NamedSymbol(s) == dim) out_->param_symbols[i * kMaxRank + static_cast<size_t>(d)] = s;
      }
    }
  }

  int32_t Register(ValueId value) {
    if (registers_[value] < 0) registers_[value] = out_->num_registers++;
    return registers_[value];
  }

  // `dtype`: what an immediate becomes where it must be a tensor.
  OperandRef Ref(const ir::Operand& o, DType dtype = DType::f32) {
    switch (o.kind) {
      case ir::Operand::Kind::value: return Register(o.value);
      case ir::Operand::Kind::absent: return kAbsent;
      case ir::Operand::Kind::immediate:
        std::visit([&](auto v) { out_->immediates.emplace_back(v); }, o.immediate);
        out_->immediate_dtypes.push_back(dtype);
        return kAbsent - 1 - static_cast<int32_t>(out_->immediates.size() - 1);
    }
    return kAbsent;
  }

  Insn& Emit(Code code, const Instruction& from) {
    Insn insn{.code = code, .op = from.op, .loc = from.loc};
    out_->code.push_back(insn);
    return out_->code.back();
  }
  int Here() const { return static_cast<int>(out_->code.size()); }

  void SetOperands(Insn& insn, const std::vector<OperandRef>& refs) {
    insn.operands = static_cast<uint32_t>(out_->operands.size());
    insn.num_operands = static_cast<uint16_t>(refs.size());
    out_->operands.insert(out_->operands.end(), refs.begin(), refs.end());
  }
  void SetResults(Insn& insn, const std::vector<int32_t>& registers) {
    insn.results = static_cast<uint32_t>(out_->registers.size());
    insn.num_results = static_cast<uint16_t>(registers.size());
    out_->registers.insert(out_->registers.end(), registers.begin(), registers.end());
  }
  void SetFrees(Insn& insn, const std::vector<int32_t>& registers) {
    if (registers.empty()) return;
    insn.frees = static_cast<uint32_t>(out_->registers.size());
    insn.num_frees = static_cast<uint16_t>(registers.size());
    out_->registers.insert(out_->registers.end(), registers.begin(), registers.end());
  }

  void EmitMove(const Instruction& from, const std::vector<ir::Operand>& sources, const Targets& targets) {
    if (targets.registers.empty()) return;
    std::vector<OperandRef> refs;
    for (size_t i = 0; i < sources.size(); ++i) refs.push_back(Ref(sources[i], targets.dtypes[i]));
    Insn& insn = Emit(Code::move, from);
    SetOperands(insn, refs);
    SetResults(insn, targets.registers);
  }
  Targets TargetsOf(const std::vector<ValueId>& values) {
    Targets targets{.registers = Registers(values), .dtypes = {}};
    for (ValueId v : values) targets.dtypes.push_back(function_.values[v].type.dtype);
    return targets;
  }
  static std::vector<ir::Operand> AsOperands(const std::vector<ValueId>& values) {
    std::vector<ir::Operand> operands;
    for (ValueId v : values) operands.push_back({.kind = ir::Operand::Kind::value, .value = v, .immediate = {}});
    return operands;
  }
  std::vector<int32_t> Registers(const std::vector<ValueId>& values) {
    std::vector<int32_t> registers;
    for (ValueId v : values) registers.push_back(Register(v));
    return registers;
  }

  static void VisitUses(const Instruction& insn, auto&& fn) {
    for (const ir::Operand& o : insn.operands)
      if (o.kind == ir::Operand::Kind::value) fn(o.value);
    for (const Block& b : insn.blocks)
      for (const Instruction& i : b.instructions) VisitUses(i, fn);
  }

  // Decodes a block whose yield goes to `targets`. Values it defines, and its parameters, are freed at their last use:
  // a use inside a nested block counts as a use by the instruction that holds the block.
  void DecodeBlock(const Block& block, const std::vector<ValueId>& params, const Targets& targets) {
    absl::flat_hash_map<ValueId, size_t> last_use;
    for (ValueId p : params) last_use[p] = SIZE_MAX;  // unused parameters die with the frame
    for (size_t i = 0; i < block.instructions.size(); ++i) {
      for (ValueId r : block.instructions[i].results) last_use[r] = i;
    }
    for (size_t i = 0; i < block.instructions.size(); ++i) {
      VisitUses(block.instructions[i], [&](ValueId v) {
        if (auto it = last_use.find(v); it != last_use.end()) it->second = i;
      });
    }
    std::vector<std::vector<int32_t>> frees(block.instructions.size());
    const auto note = [&](ValueId value) {
      const int32_t r = Register(value);
      if (const size_t i = last_use[value]; i != SIZE_MAX) frees[i].push_back(r);
    };
    for (ValueId p : params) note(p);
    for (const Instruction& insn : block.instructions)
      for (ValueId r : insn.results) note(r);
    for (size_t i = 0; i < block.instructions.size(); ++i) {
      DecodeInstruction(block.instructions[i], frees[i], targets);
    }
  }

  void DecodeInstruction(const Instruction& from, const std::vector<int32_t>& frees, const Targets& targets) {
    if (from.op == Op::k_yield) return DecodeYield(from, frees, targets);
    if (from.blocks.empty()) return DecodePlain(from, frees);
    // What no block reads dies as the construct begins: the initial value of a loop must not live as long as the loop.
    absl::flat_hash_set<int32_t> inside;
    for (const Block& b : from.blocks)
      for (const Instruction& i : b.instructions) VisitUses(i, [&](ValueId v) { inside.insert(Register(v)); });
    std::vector<int32_t> early, late;
    const std::vector<int32_t> results = Registers(from.results);
    for (int32_t r : frees) {
      const bool own = std::find(results.begin(), results.end(), r) != results.end();
      (inside.contains(r) || own ? late : early).push_back(r);
    }
    switch (from.op) {
      case Op::k_if: DecodeIf(from, early); break;
      case Op::k_while: DecodeWhile(from, early); break;
      default: DecodeFor(from, early); break;
    }
    EmitFrees(from, late);
  }

  // Frees by a move of nothing.
  void EmitFrees(const Instruction& from, const std::vector<int32_t>& frees) {
    if (!frees.empty()) SetFrees(Emit(Code::move, from), frees);
  }

  void DecodeYield(const Instruction& from, std::vector<int32_t> frees, const Targets& to) {
    const std::vector<int32_t>& targets = to.registers;
    EmitMove(from, from.operands, to);
    // A target that is also a dying source (a loop parameter yielded unchanged) holds the new value now.
    std::erase_if(frees, [&](int32_t r) { return std::find(targets.begin(), targets.end(), r) != targets.end(); });
    if (targets.empty()) {
      if (!frees.empty()) SetFrees(Emit(Code::move, from), frees);
    } else {
      SetFrees(out_->code.back(), frees);
      MarkSteals(out_->code.back());
    }
  }

  void MarkSteals(Insn& move) {
    const auto refs = out_->operands.begin() + move.operands;
    const auto frees = out_->registers.begin() + move.frees;
    for (int i = 0; i < move.num_operands && i < 32; ++i) {
      const bool dies = refs[i] >= 0 && std::find(frees, frees + move.num_frees, refs[i]) != frees + move.num_frees;
      if (dies && std::count(refs, refs + move.num_operands, refs[i]) == 1) move.steals |= 1u << i;
    }
  }

  void DecodeIf(const Instruction& from, const std::vector<int32_t>& early) {
    const Targets results = TargetsOf(from.results);
    Insn& branch = Emit(Code::branch, from);
    SetOperands(branch, {Ref(from.operands[0])});
    SetFrees(branch, early);
    const int branch_at = Here() - 1;
    DecodeBlock(from.blocks[0], {}, results);
    Emit(Code::jump, from);
    const int jump_at = Here() - 1;
    out_->code[branch_at].target = Here();
    if (from.blocks.size() > 1) DecodeBlock(from.blocks[1], {}, results);
    out_->code[jump_at].target = Here();
  }

  void DecodeWhile(const Instruction& from, const std::vector<int32_t>& early) {
    const Block& condition = from.blocks[0];
    const Block& body = from.blocks[1];
    const Targets params = TargetsOf(condition.params);
    for (size_t i = 0; i < body.params.size(); ++i) registers_[body.params[i]] = params.registers[i];
    EmitMove(from, from.operands, params);
    EmitFrees(from, early);
    const int head = Here();
    const int32_t verdict = out_->num_registers++;
    DecodeBlock(condition, {}, {{verdict}, {DType::boolean}});
    Insn& branch = Emit(Code::branch, from);
    SetOperands(branch, {verdict});
    SetFrees(branch, {verdict});
    const int branch_at = Here() - 1;
    DecodeBlock(body, body.params, params);
    EmitBack(from, head);
    out_->code[branch_at].target = Here();
    EndLoop(from, AsOperands(condition.params), params);
  }

  void DecodeFor(const Instruction& from, const std::vector<int32_t>& early) {
    const Block& body = from.blocks[0];
    const std::vector<ValueId> carried(body.params.begin() + 1, body.params.end());
    const Targets params = TargetsOf(carried);
    const int slot = out_->num_slots++;
    Insn& begin = Emit(Code::for_begin, from);
    SetOperands(begin, {Ref(from.operands[0]), Ref(from.operands[1]), Ref(from.operands[2])});
    begin.target = slot;
    EmitMove(from, {from.operands.begin() + 3, from.operands.end()}, params);
    EmitFrees(from, early);
    const int head = Here();
    Insn& next = Emit(Code::for_next, from);
    next.slot = slot;
    SetResults(next, {Register(body.params[0])});
    DecodeBlock(body, body.params, params);
    EmitBack(from, head);
    out_->code[head].target = Here();
    EndLoop(from, AsOperands(carried), params);
  }

  void EmitBack(const Instruction& from, int head) {
    Insn& back = Emit(Code::back, from);
    back.target = head;
    back.anchor = NewAnchor(AnchorSlot::Kind::loop, head);
  }
  int32_t NewAnchor(AnchorSlot::Kind kind, int pc) {
    out_->anchors.emplace_back(kind, pc);
    return static_cast<int32_t>(out_->anchors.size() - 1);
  }

  void EndLoop(const Instruction& from, const std::vector<ir::Operand>& carried, const Targets& params) {
    if (carried.empty()) return;
    EmitMove(from, carried, TargetsOf(from.results));
    SetFrees(out_->code.back(), params.registers);
    MarkSteals(out_->code.back());
  }

  void DecodePlain(const Instruction& from, const std::vector<int32_t>& frees) {
    Code code = Code::op;
    int32_t target = -1;
    switch (from.op) {
      case Op::k_return: code = Code::ret; break;
      case Op::k_constant: code = Code::constant; break;
      case Op::k_print: code = Code::print; break;
      case Op::k_host_read: code = Code::host_read; break;
      case Op::k_buffer_read: code = Code::buffer_read; break;
      case Op::k_buffer_write: code = Code::buffer_write; break;
      case Op::k_buffer_add: code = Code::buffer_add; break;
      case Op::k_call: code = Code::call; break;
      default: break;
    }
    if (code == Code::call) {
      for (size_t i = 0; i < module_.functions.size(); ++i)
        if (module_.functions[i]->name == std::get<std::string>(from.attrs[0])) target = static_cast<int32_t>(i);
    } else if (code == Code::buffer_read || code == Code::buffer_write || code == Code::buffer_add) {
      for (size_t i = 0; i < module_.buffers.size(); ++i)
        if (module_.buffers[i].name == std::get<std::string>(from.attrs[0])) target = static_cast<int32_t>(i);
    }
    std::vector<OperandRef> refs;
    for (size_t i = 0; i < from.operands.size(); ++i) {
      DType dtype = DType::f32;
      if (code == Code::ret) {
        dtype = function_.results[i].dtype;
      } else if (code == Code::call) {
        const ir::Function& callee = *module_.functions[target];
        dtype = callee.values[callee.params[i].value].type.dtype;
      } else if (code == Code::buffer_write || code == Code::buffer_add) {
        dtype = module_.buffers[target].type.dtype;
      }
      refs.push_back(Ref(from.operands[i], dtype));
    }
    const std::vector<int32_t> results = Registers(from.results);
    Insn& insn = Emit(code, from);
    insn.target = target;
    insn.attrs = static_cast<uint32_t>(out_->attrs.size());
    out_->attrs.push_back(from.attrs);
    for (size_t i = 0; i < from.attrs.size(); ++i) {
      const auto* ints = std::get_if<ir::Ints>(&from.attrs[i]);
      if (ints == nullptr || std::none_of(ints->begin(), ints->end(), ir::IsSymbol)) continue;
      out_->symbolic_attrs = true;
      out_->attr_pool.symbolic.emplace_back(insn.attrs, static_cast<uint32_t>(i));
    }
    SetOperands(insn, refs);
    SetResults(insn, results);
    SetFrees(insn, frees);
    if (code == Code::print || code == Code::host_read) insn.anchor = NewAnchor(AnchorSlot::Kind::after_host, Here());
    if (code == Code::op && ir::Info(from.op).impl == ir::Impl::ew) insn.reuse = ReusedOperand(refs, frees);
  }

  // The first operand that dies here.
  static int16_t ReusedOperand(const std::vector<OperandRef>& refs, const std::vector<int32_t>& frees) {
    for (size_t i = 0; i < refs.size(); ++i) {
      const bool dies = refs[i] >= 0 && std::find(frees.begin(), frees.end(), refs[i]) != frees.end();
      if (dies) return static_cast<int16_t>(i);
    }
    return -1;
  }

  const ir::Module& module_;
  const ir::Function& function_;
  std::unique_ptr<Bytecode> out_;
  std::vector<int32_t> registers_;
};

std::string_view CodeName(Code code) {
  static constexpr std::string_view kNames[] = {"op",          "constant",     "move",       "jump",  "back",
                                                "branch",      "for_begin",    "for_next",   "call",  "ret",
                                                "buffer_read", "buffer_write", "buffer_add", "print", "host_read"};
  return kNames[static_cast<int>(code)];
}

}  // namespace

int Program::FindFunction(std::string_view name) const {
  for (size_t i = 0; i < functions.size(); ++i)
    if (functions[i]->name == name) return static_cast<int>(i);
  return -1;
}

std::unique_ptr<Program> Decode(std::shared_ptr<const ir::Module> module) {
  auto program = std::make_unique<Program>();
  static constinit std::atomic<int64_t> last_id{0};
  for (const auto& f : module->functions) {
    program->functions.push_back(Decoder(*module, *f).Run());
    program->functions.back()->file = module->file;
    program->functions.back()->id = last_id.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  program->module = std::move(module);
  return program;
}

std::string Disassemble(const Bytecode& code) {
  std::string text = absl::StrCat("@", code.name, ": ", code.num_registers, " registers\n");
  for (size_t i = 0; i < code.code.size(); ++i) {
    const Insn& insn = code.code[i];
    absl::StrAppend(&text, i, ": ");
    for (int k = 0; k < insn.num_results; ++k) absl::StrAppend(&text, "r", code.registers[insn.results + k], " ");
    std::string_view name = insn.code == Code::op ? ir::Info(insn.op).name : CodeName(insn.code);
    absl::StrAppend(&text, insn.num_results ? "= " : "", std::string(name));
    for (int k = 0; k < insn.num_operands; ++k) {
      OperandRef r = code.operands[insn.operands + k];
      if (r >= 0) {
        absl::StrAppend(&text, " r", r);
      } else if (r == kAbsent) {
        absl::StrAppend(&text, " _");
      } else {
        const ScalarView& v = code.immediates[ImmediateIndex(r)];
        absl::StrAppend(&text, " ",
                        v.dtype == DType::f64   ? ir::ToString(ir::Attr(v.f))
                        : v.dtype == DType::i64 ? absl::StrCat(v.i)
                                                : std::string(v.b ? "true" : "false"));
      }
    }
    if (insn.target >= 0) absl::StrAppend(&text, " @", insn.target);
    if (insn.num_frees > 0) absl::StrAppend(&text, "  ; frees");
    for (int k = 0; k < insn.num_frees; ++k) absl::StrAppend(&text, " r", code.registers[insn.frees + k]);
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace tessera::interp
