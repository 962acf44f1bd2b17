// The way there: what follows from the parameters, and the function as it was. The way back is in
// differentiate_back.cc.
#include "ir/differentiate.h"

#include <algorithm>
#include <utility>

#include "ir/differentiate_impl.h"
#include "ir/typing.h"

namespace tessera::ir {

// ---- activity

void Differentiator::MarkActive(const Block& block) {
  for (const Instruction& inst : block.instructions) {
    const bool any =
        std::any_of(inst.operands.begin(), inst.operands.end(), [&](const Operand& o) { return IsActive(o); });
    switch (inst.op) {
      case Op::k_if:
        ++depth_;
        for (const Block& b : inst.blocks) MarkActive(b);
        --depth_;
        for (size_t i = 0; i < inst.results.size(); ++i)
          for (const Block& b : inst.blocks) Activate(inst.results[i], IsActive(Ending(b).operands[i]));
        break;
      case Op::k_while:
      case Op::k_for: MarkLoop(inst); break;
      case Op::k_buffer_write:
      case Op::k_buffer_add:
        if (any) MarkBuffer(std::get<std::string>(inst.attrs[0]), depth_ > 0);
        break;
      case Op::k_call:
        if (program_.from().FindFunction(std::get<std::string>(inst.attrs[0]))->stops_gradient) break;
        for (ValueId r : inst.results) Activate(r, any);
        if (!any) break;
        for (const Buffer& b : program_.from().buffers)
          if (program_.Writes(*program_.from().FindFunction(std::get<std::string>(inst.attrs[0])), b.name))
            MarkBuffer(b.name, true);
        break;
      case Op::k_buffer_read:
        Activate(inst.results[0], active_buffers_.contains(std::get<std::string>(inst.attrs[0])));
        break;
      default:
        if (Info(inst.op).grad == Grad::zero) break;
        for (ValueId r : inst.results) Activate(r, any);
    }
  }
}

void Differentiator::MarkLoop(const Instruction& inst) {
  const bool counted = inst.op == Op::k_for;
  const size_t bounds = counted ? 3 : 0, index = counted ? 1 : 0;
  const Block& body = inst.blocks.back();
  const size_t n = inst.operands.size() - bounds;
  for (size_t i = 0; i < n; ++i) Activate(body.params[index + i], IsActive(inst.operands[bounds + i]));
  ++depth_;
  // A value may need several rounds to follow from another.
  for (bool changed = true; changed;) {
    changed = false;
    MarkActive(body);
    for (size_t i = 0; i < n; ++i) changed |= Activate(body.params[index + i], IsActive(Ending(body).operands[i]));
  }
  --depth_;
  for (size_t i = 0; i < n; ++i) Activate(inst.results[i], active_[body.params[index + i]]);
}

// ---- the way there

Args Differentiator::Typed(const Operand* operands, const std::vector<ValueId>& like, size_t skip) {
  Args args;
  for (size_t i = skip; i < like.size(); ++i) {
    const Operand& o = operands[i - skip];
    if (o.kind != Operand::Kind::immediate) {
      args.push_back(Map(o));
      continue;
    }
    // A number has no dtype of its own; the program says there which one is meant.
    args.push_back(b_.Emit(Op::k_full, {ToArg(o)}, {{"dims", Ints()}, {"dtype", f_.values[like[i]].type.dtype}}));
  }
  return args;
}

void Differentiator::Forward(const Block& block) {
  for (size_t i = 0; i + 1 < block.instructions.size(); ++i)
    if (status_.ok() && b_.status().ok()) ForwardOne(block.instructions[i]);
}

void Differentiator::ForwardPlain(const Instruction& inst) {
  const OpInfo& info = Info(inst.op);
  if (!effects_ && (info.effect == Effect::host || info.effect == Effect::writes)) return;
  if (!effects_ && info.effect == Effect::reads && program_.IsWritten(std::get<std::string>(inst.attrs[0]))) {
    return Fail(inst, "buffer @", std::get<std::string>(inst.attrs[0]),
                " would have to be read again on the way back, and the module writes it");
  }
  Args args;
  for (const Operand& o : inst.operands) args.push_back(Map(o));
  FunctionBuilder::Attrs attrs;
  for (size_t i = 0; i < inst.attrs.size(); ++i) {
    Attr attr = inst.attrs[i];
    if (Ints* ints = std::get_if<Ints>(&attr))
      for (int64_t& v : *ints) v = Dim(v);
    attrs.emplace_back(info.attrs[i].name, std::move(attr));
  }
  const Vals out = b_.EmitMany(inst.op, args, attrs, inst.loc);
  for (size_t i = 0; i < out.size(); ++i) env_[inst.results[i]] = out[i];
}

Args Differentiator::Round(const Instruction& loop, const Arg& index, const Vals& carried) {
  const Block& body = loop.blocks.back();
  const size_t first = loop.op == Op::k_for ? 1 : 0;
  if (first == 1) env_[body.params[0]] = index;
  for (size_t i = 0; i < carried.size(); ++i) env_[body.params[first + i]] = carried[i];
  Forward(body);
  return Typed(Ending(body).operands.data(), body.params, first);
}

void Differentiator::ForwardOne(const Instruction& inst) {
  Vals out;
  switch (inst.op) {
    case Op::k_if: {
      const auto block = [&](int i) {
        return [&, i] {
          Forward(inst.blocks[i]);
          return Typed(Ending(inst.blocks[i]).operands.data(), inst.results);
        };
      };
      out = b_.If(Map(inst.operands[0]), block(0), block(1), inst.loc);
      break;
    }
    case Op::k_for:
      out = b_.For(
          Map(inst.operands[0]), Map(inst.operands[1]), Map(inst.operands[2]),
          Typed(inst.operands.data() + 3, inst.blocks[0].params, 1),
          [&](Val index, const Vals& carried) { return Round(inst, index, carried); }, inst.loc);
      break;
    case Op::k_while: {
      // The rounds are counted, so that the way back knows how many there were.
      Args inits = Typed(inst.operands.data(), inst.blocks[0].params);
      inits.insert(inits.begin(), b_.Emit(Op::k_full, {0}, {{"dims", Ints()}, {"dtype", DType::i64}}));
      out = b_.While(
          inits,
          [&](const Vals& carried) {
            for (size_t i = 1; i < carried.size(); ++i) env_[inst.blocks[0].params[i - 1]] = carried[i];
            Forward(inst.blocks[0]);
            return Map(Ending(inst.blocks[0]).operands[0]);
          },
          [&](const Vals& carried) {
            Args next = Round(inst, {}, Vals(carried.begin() + 1, carried.end()));
            next.insert(next.begin(), b_.Emit(Op::k_add, {carried[0], 1}));
            return next;
          },
          inst.loc);
      if (out.empty()) return;
      rounds_[&inst] = out[0];
      out.erase(out.begin());
      break;
    }
    case Op::k_call: {
      const auto& callee = std::get<std::string>(inst.attrs[0]);
      if (!effects_ && program_.HasEffects(*program_.from().FindFunction(callee)))
        return Fail(inst, "@", callee, " has effects and would have to be called again on the way back");
      Args args;
      for (const Operand& o : inst.operands) args.push_back(Map(o));
      out = b_.Call(callee, args, inst.loc);
      break;
    }
    default: return ForwardPlain(inst);
  }
  for (size_t i = 0; i < out.size(); ++i) env_[inst.results[i]] = out[i];
}

// ---- a whole function

absl::Status Differentiator::Run() {
  effects_ = kind_ != GradKind::vjp;
  for (int i = 0; i < f_.symbols->num_named(); ++i) symbols_.push_back(b_.Symbol(f_.symbols->named(i)));
  std::vector<TensorType> results;
  if (kind_ == GradKind::value_and_grad)
    for (const TensorType& t : f_.results) results.push_back(Type(t));
  for (size_t i = 0; i < f_.params.size(); ++i) {
    const ValueId id = f_.params[i].value;
    env_[id] = b_.Param(f_.values[id].name, Type(f_.values[id].type), f_.params[i].privilege, f_.params[i].shard);
    if (!wrt_[i]) continue;
    active_[id] = true;
    results.push_back(Type(f_.values[id].type));
  }
  for (const SymbolTable::Fact& fact : f_.symbols->facts()) {
    if (fact.kind == SymbolTable::Fact::Kind::equal)
      b_.AssumeEqual(Dim(fact.a), Dim(fact.b));
    else
      b_.AssumeDivisible(Dim(fact.a), fact.b);
  }
  std::vector<Val> seeds(f_.results.size());
  for (size_t i = 0; kind_ == GradKind::vjp && i < seeds.size(); ++i)
    if (IsFloat(f_.results[i].dtype)) seeds[i] = b_.Param(absl::StrCat("grad", i), Type(f_.results[i]));
  b_.DeclareResults(results);

  MarkActive(f_.body);
  Forward(f_.body);
  TSR_RETURN_IF_ERROR(status_);
  TSR_RETURN_IF_ERROR(b_.status());
  const Instruction& ending = Ending(f_.body);
  if (kind_ != GradKind::vjp)
    seeds[0] = b_.Emit(Op::k_full, {1}, {{"dims", Ints()}, {"dtype", f_.results[0].dtype}}, ending.loc);
  for (size_t i = 0; i < seeds.size(); ++i) Accumulate(ending.operands[i], seeds[i]);
  Backward(f_.body);
  TSR_RETURN_IF_ERROR(status_);
  Args values;
  if (kind_ == GradKind::value_and_grad)
    for (const Operand& o : ending.operands) values.push_back(Map(o));
  for (size_t i = 0; i < f_.params.size(); ++i) {
    if (!wrt_[i]) continue;
    const ValueId id = f_.params[i].value;
    values.push_back(Cast(SumOf(id), f_.values[id].type.dtype));
  }
  b_.Return(values, ending.loc);
  return b_.Finish();
}

absl::StatusOr<std::string> Program::Make(const Function& f, const std::vector<bool>& wrt, GradKind kind) {
  static constexpr const char* kNames[] = {"grad", "value_and_grad", "vjp"};
  const std::string base = absl::StrCat(f.name, ".", kNames[static_cast<int>(kind)]);
  std::string key = base;
  for (bool w : wrt) key += w ? '1' : '0';
  std::string& name = made_[key];
  if (!name.empty()) return name;
  std::string fresh = base;
  for (int n = 2; to_.FindFunction(fresh) != nullptr; ++n) fresh = absl::StrCat(base, n);
  name = fresh;
  TSR_RETURN_IF_ERROR(Differentiator(*this, f, fresh, wrt, kind).Run());
  return fresh;
}

bool Program::HasEffects(const Function& f) {
  const auto [it, fresh] = effects_.try_emplace(&f, false);  // a function that calls itself adds nothing
  if (!fresh) return it->second;
  bool found = false;
  ForEach(f.body, [&](const Instruction& inst) {
    const Effect effect = Info(inst.op).effect;
    found |= effect == Effect::host || effect == Effect::writes;
    if (inst.op == Op::k_call) found |= HasEffects(*from_.FindFunction(std::get<std::string>(inst.attrs[0])));
  });
  return effects_[&f] = found;
}

bool Program::Writes(const Function& f, const std::string& buffer) {
  const std::pair key(&f, buffer);
  const auto [it, fresh] = writes_.try_emplace(key, false);
  if (!fresh) return it->second;
  bool found = false;
  ForEach(f.body, [&](const Instruction& inst) {
    found |= Info(inst.op).effect == Effect::writes && std::get<std::string>(inst.attrs[0]) == buffer;
    if (inst.op == Op::k_call) found |= Writes(*from_.FindFunction(std::get<std::string>(inst.attrs[0])), buffer);
  });
  return writes_[key] = found;
}

bool Program::IsWritten(const std::string& buffer) {
  bool found = false;
  for (const auto& f : from_.functions) {
    ForEach(f->body, [&](const Instruction& inst) {
      found |= Info(inst.op).effect == Effect::writes && std::get<std::string>(inst.attrs[0]) == buffer;
    });
  }
  return found;
}

absl::StatusOr<Differentiated> Differentiate(const Module& module, std::string_view function,
                                             const std::vector<int>& wrt, GradKind kind) {
  static constexpr const char* kNames[] = {"grad", "value_and_grad", "vjp"};
  const std::string what = absl::StrCat(kNames[static_cast<int>(kind)], " of @", std::string(function), ": ");
  const Function* f = module.FindFunction(function);
  if (f == nullptr) return NotFound(what, "there is no such function");
  std::vector<bool> mask(f->params.size(), false);
  if (wrt.empty()) return InvalidArgument(what, "wrt is empty; name at least one parameter by its number");
  for (int i : wrt) {
    if (i < 0 || static_cast<size_t>(i) >= mask.size())
      return InvalidArgument(what, "there is no parameter ", i, "; it has ", mask.size());
    const Value& p = f->values[f->params[i].value];
    if (!IsFloat(p.type.dtype)) {
      return InvalidArgument(what, "parameter ", i, " is ", TypeText(f->symbols.get(), p.type),
                             "; only those of a floating type have a gradient");
    }
    if (mask[i]) return InvalidArgument(what, "parameter ", i, " is named twice");
    mask[i] = true;
  }
  if (!std::is_sorted(wrt.begin(), wrt.end()))
    return InvalidArgument(what, "wrt names parameters in their own order, the lowest number first");
  if (kind != GradKind::vjp) {
    const bool scalar = !f->results.empty() && f->results[0].rank == 0 && IsFloat(f->results[0].dtype);
    if (!scalar) {
      return InvalidArgument(
          what, "its first result must be a floating scalar, and ",
          f->results.empty() ? "there is none" : TypeText(f->symbols.get(), f->results[0]) + " is it",
          "; reduce it with sum or mean");
    }
  }
  Differentiated out;
  // A copy: what the new functions call comes along.
  TSR_ASSIGN_OR_RETURN(out.module, Parse(Print(module)));
  out.module->file = module.file;
  TSR_ASSIGN_OR_RETURN(out.function, Program(module, *out.module).Make(*f, mask, kind));
  if (absl::Status s = Verify(*out.module); !s.ok()) return Internal(what, "the result is not valid: ", s.message());
  return out;
}

}  // namespace tessera::ir
