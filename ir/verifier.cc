// Verify(): what the interpreter relies on, checked on the data structure alone, whoever made it.
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "ir/schedule.h"
#include "ir/typing.h"
#include "runtime/device.h"

namespace tessera::ir {
namespace {

std::string Str(std::string_view s) { return std::string(s); }

class Verifier {
 public:
  explicit Verifier(const Module& module) : m_(module) {}

  absl::Status Run() {
    for (const Buffer& b : m_.buffers) {
      loc_ = b.loc;
      if (!IsName(b.name)) return Fail("a buffer has the name \"", b.name, "\", which is not a name");
      if (!buffers_.emplace(b.name, &b).second) return Fail("buffer @", b.name, " is defined twice");
      TSR_RETURN_IF_ERROR(At(CheckType(nullptr, b.type)));
    }
    for (const auto& f : m_.functions) {
      if (f == nullptr || f->symbols == nullptr) return Internal("a function of the module is null");
      loc_ = f->loc;
      if (!IsName(f->name)) return Fail("a function has the name \"", f->name, "\", which is not a name");
      if (!functions_.emplace(f->name, f.get()).second) return Fail("function @", f->name, " is defined twice");
      f_ = f.get();
      TSR_RETURN_IF_ERROR(Signature());
    }
    for (const auto& f : m_.functions) {
      f_ = f.get();
      TSR_RETURN_IF_ERROR(Body());
    }
    return absl::OkStatus();
  }

 private:
  enum State : uint8_t { undefined, visible, hidden };

  template <class... Parts>
  absl::Status Fail(const Parts&... parts) const {
    std::string out = m_.file.empty() ? "" : absl::StrCat(m_.file, ":");
    if (loc_.line > 0) absl::StrAppend(&out, loc_.line, ":", loc_.column, ": ");
    if (f_ != nullptr) absl::StrAppend(&out, "in @", f_->name, ": ");
    absl::StrAppend(&out, parts...);
    return absl::InvalidArgumentError(out);
  }

  absl::Status At(const absl::Status& status) const { return status.ok() ? status : Fail(status.message()); }

  bool Known(ValueId id) const { return id >= 0 && static_cast<size_t>(id) < f_->values.size(); }

  std::string NameOf(ValueId id) const {
    if (!Known(id)) return absl::StrCat("value ", id);
    return f_->values[id].name.empty() ? absl::StrCat("value ", id) : "%" + f_->values[id].name;
  }

  absl::Status Signature() {
    for (const Value& v : f_->values) TSR_RETURN_IF_ERROR(At(CheckType(f_->symbols.get(), v.type)));
    for (const TensorType& t : f_->results) TSR_RETURN_IF_ERROR(At(CheckType(f_->symbols.get(), t)));
    for (const Param& p : f_->params) {
      if (!Known(p.value)) return Fail("a parameter has no value");
      if (!p.shard.empty()) TSR_RETURN_IF_ERROR(At(CheckShard(p.shard, f_->values[p.value].type)));
    }
    TSR_RETURN_IF_ERROR(At(CheckShards(*f_)));
    TSR_RETURN_IF_ERROR(At(CheckTuning(*f_)));
    for (int i = 0; i < f_->symbols->num_named(); ++i)
      if (!IsSymbolName(f_->symbols->named(i))) return Fail("\"", Str(f_->symbols->named(i)), "\" cannot be a symbol");
    return At(CheckSymbolsBound(*f_));
  }

  absl::Status Body() {
    loc_ = f_->loc;
    states_.assign(f_->values.size(), undefined);
    absl::flat_hash_set<std::string_view> names;
    for (const Value& v : f_->values) {
      if (v.name.empty()) continue;
      if (!IsName(v.name) || v.name == "_") return Fail("\"", v.name, "\" cannot be the name of a value");
      if (!names.insert(v.name).second) return Fail("%", v.name, " is defined twice");
    }
    for (const Param& p : f_->params) TSR_RETURN_IF_ERROR(Define(p.value));
    TSR_RETURN_IF_ERROR(CheckBlock(f_->body, Op::k_return, 0));
    loc_ = f_->body.instructions.back().loc;
    return At(CheckYield(*f_, "return", f_->body.instructions.back().operands, f_->results));
  }

  absl::Status Define(ValueId id) {
    if (!Known(id)) return Fail("a result has no value");
    if (f_->values[id].type.weak)
      return Fail(NameOf(id), " has a weak type; only numbers in place of operands have one");
    if (states_[id] != undefined) return Fail(NameOf(id), " is defined twice");
    states_[id] = visible;
    defined_.push_back(id);
    return absl::OkStatus();
  }

  void HideFrom(size_t mark) {
    for (; defined_.size() > mark; defined_.pop_back()) states_[defined_.back()] = hidden;
  }

  absl::Status CheckBlock(const Block& block, Op ending, int depth) {
    if (depth > kMaxNesting) return Fail("blocks are nested more than ", kMaxNesting, " deep");
    if (block.instructions.empty() || block.instructions.back().op != ending) {
      return Fail("a ", ending == Op::k_return ? "body" : "block", " does not end with ", Str(Info(ending).name));
    }
    const size_t mark = defined_.size();
    for (const Instruction& inst : block.instructions) {
      loc_ = inst.loc;
      if (static_cast<int>(inst.op) >= kNumOps) return Fail("there is no op number ", static_cast<int>(inst.op));
      const bool ends = inst.op == Op::k_yield || inst.op == Op::k_return;
      if (ends && &inst != &block.instructions.back())
        return Fail(Str(Info(inst.op).name), " stands before the end of a block");
      TSR_RETURN_IF_ERROR(CheckInstruction(inst, depth));
    }
    HideFrom(mark);
    return absl::OkStatus();
  }

  absl::Status CheckAttrs(const Instruction& inst) {
    const OpInfo& info = Info(inst.op);
    if (inst.attrs.size() != info.attrs.size()) {
      return Fail(Str(info.name), ": has ", inst.attrs.size(), " attributes, and its row of the op table ",
                  info.attrs.size());
    }
    // On a copy: it would fill in what is missing, and nothing may be missing here.
    std::vector<Attr> attrs = inst.attrs;
    for (size_t i = 0; i < attrs.size(); ++i) {
      if (std::holds_alternative<std::monostate>(attrs[i]))
        return Fail(Str(info.name), ": attribute ", info.attrs[i].name, " is missing");
      if (const auto* t = std::get_if<rt::Ref<rt::TensorImpl>>(&attrs[i]); t != nullptr && *t) {
        if ((*t)->storage() == nullptr || (*t)->device().kind() != rt::DeviceKind::cpu) {
          return Fail(Str(info.name), ": a constant lives in the memory of device cpu");
        }
      }
    }
    TSR_RETURN_IF_ERROR(At(CompleteAttrs(info, absl::MakeSpan(attrs))));
    for (size_t i = 0; i < attrs.size(); ++i)
      if (attrs[i].index() != inst.attrs[i].index())
        return Fail(Str(info.name), ": attribute ", info.attrs[i].name, " is of the wrong type");
    return absl::OkStatus();
  }

  absl::Status CheckInstruction(const Instruction& inst, int depth) {
    const OpInfo& info = Info(inst.op);
    for (const Operand& o : inst.operands) {
      if (o.kind != Operand::Kind::value) continue;
      if (!Known(o.value)) return Fail(Str(info.name), ": an operand is value ", o.value, ", which does not exist");
      if (states_[o.value] != visible) {
        return Fail(Str(info.name), ": ", NameOf(o.value),
                    states_[o.value] == hidden ? " is defined inside a block and cannot be seen here"
                                               : " is used before it is defined");
      }
    }
    TSR_RETURN_IF_ERROR(CheckAttrs(inst));
    const size_t blocks = inst.op == Op::k_if || inst.op == Op::k_while ? 2 : inst.op == Op::k_for ? 1 : 0;
    if (inst.blocks.size() != blocks)
      return Fail(Str(info.name), ": has ", inst.blocks.size(), " blocks, not ", blocks);

    std::vector<TensorType> declared, inferred;
    for (ValueId r : inst.results) {
      if (!Known(r)) return Fail(Str(info.name), ": a result has no value");
      declared.push_back(f_->values[r].type);
    }
    switch (inst.op) {
      case Op::k_if:
        if (inst.operands.size() != 1) return Fail("if: takes 1 operand, not ", inst.operands.size());
        TSR_RETURN_IF_ERROR(At(CheckCondition(*f_, inst.operands[0])));
        for (const Block& b : inst.blocks) {
          if (!b.params.empty()) return Fail("if: its blocks have no parameters");
          TSR_RETURN_IF_ERROR(CheckBlock(b, Op::k_yield, depth + 1));
          TSR_RETURN_IF_ERROR(At(CheckYield(*f_, "yield", b.instructions.back().operands, declared)));
        }
        inferred = declared;
        break;
      case Op::k_while:
      case Op::k_for:
        TSR_RETURN_IF_ERROR(CheckLoop(inst, declared, depth));
        inferred = declared;
        break;
      case Op::k_call: {
        const std::string& callee = std::get<std::string>(inst.attrs[0]);
        auto it = functions_.find(callee);
        if (it == functions_.end()) return Fail("call: there is no function @", callee);
        TSR_RETURN_IF_ERROR(At(InferCall(*f_, inst, *it->second, inferred)));
        break;
      }
      case Op::k_yield:
      case Op::k_return: break;
      default: {
        const Buffer* buffer = nullptr;
        if (inst.op == Op::k_buffer_read || inst.op == Op::k_buffer_write || inst.op == Op::k_buffer_add) {
          const std::string& name = std::get<std::string>(inst.attrs[0]);
          auto it = buffers_.find(name);
          if (it == buffers_.end()) return Fail(Str(info.name), ": there is no buffer @", name);
          buffer = it->second;
        }
        TSR_RETURN_IF_ERROR(At(InferOp(*f_, inst, buffer, inferred)));
      }
    }
    if (inferred.size() != declared.size()) {
      return Fail(Str(info.name), ": has ", inferred.size(), " results, and ", declared.size(),
                  " values are given for them");
    }
    for (size_t i = 0; i < declared.size(); ++i) {
      if (!SameType(f_->symbols.get(), declared[i], inferred[i])) {
        return Fail(Str(info.name), ": the type of ", NameOf(inst.results[i]), " is ",
                    TypeText(f_->symbols.get(), inferred[i]), ", and ", TypeText(f_->symbols.get(), declared[i]),
                    " is recorded");
      }
      TSR_RETURN_IF_ERROR(Define(inst.results[i]));
    }
    return absl::OkStatus();
  }

  absl::Status CheckLoop(const Instruction& inst, const std::vector<TensorType>& types, int depth) {
    const bool is_for = inst.op == Op::k_for;
    const std::string name = Str(Info(inst.op).name);
    const size_t bounds = is_for ? 3 : 0;
    if (inst.operands.size() < bounds) return Fail("for: takes start, stop and step");
    if (is_for) TSR_RETURN_IF_ERROR(At(CheckBounds(*f_, inst.operands.data())));
    TSR_RETURN_IF_ERROR(At(CheckInits(*f_, name, inst.operands.data() + bounds, inst.operands.size() - bounds, types)));
    const std::vector<ValueId>& params = inst.blocks[0].params;
    if (params.size() != types.size() + is_for)
      return Fail(name, ": its block has ", params.size(), " parameters, not ", types.size() + is_for);
    if (!is_for && inst.blocks[1].params != params) return Fail("while: both blocks have the same parameters");
    const size_t mark = defined_.size();
    for (size_t i = 0; i < params.size(); ++i) {
      TSR_RETURN_IF_ERROR(Define(params[i]));
      TensorType want;
      want.dtype = DType::i64;
      if (!is_for || i > 0) want = types[i - is_for];
      if (!SameType(f_->symbols.get(), f_->values[params[i]].type, want)) {
        return Fail(name, ": parameter ", NameOf(params[i]), " of its block must be ",
                    TypeText(f_->symbols.get(), want), ", not ",
                    TypeText(f_->symbols.get(), f_->values[params[i]].type));
      }
    }
    for (const Block& b : inst.blocks) {
      TSR_RETURN_IF_ERROR(CheckBlock(b, Op::k_yield, depth + 1));
      const std::vector<Operand>& yielded = b.instructions.back().operands;
      if (!is_for && &b == &inst.blocks[0]) {
        if (yielded.size() != 1)
          return Fail("while: its condition block yields ", yielded.size(), " values, not one tensor<bool>");
        TSR_RETURN_IF_ERROR(At(CheckCondition(*f_, yielded[0])));
      } else {
        TSR_RETURN_IF_ERROR(At(CheckYield(*f_, "yield", yielded, types)));
      }
    }
    HideFrom(mark);
    return absl::OkStatus();
  }

  const Module& m_;
  absl::flat_hash_map<std::string_view, const Function*> functions_;
  absl::flat_hash_map<std::string_view, const Buffer*> buffers_;
  const Function* f_ = nullptr;
  Loc loc_;
  std::vector<State> states_;     // by ValueId
  std::vector<ValueId> defined_;  // visible ones, in order, to hide at a block's end
};

}  // namespace

absl::Status Verify(const Module& module) { return Verifier(module).Run(); }

}  // namespace tessera::ir
