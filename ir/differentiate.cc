#include "ir/differentiate.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "ir/grad.h"
#include "ir/typing.h"

namespace tessera::ir {
namespace {

using Args = FunctionBuilder::Args;
using Vals = FunctionBuilder::Vals;

DType SumDType(DType t) { return IsNarrowFloat(t) ? DType::f32 : t; }

/// Calls fn(instruction) for those of a block and of the blocks inside it.
void ForEach(const Block& block, const std::function<void(const Instruction&)>& fn) {
  for (const Instruction& inst : block.instructions) {
    fn(inst);
    for (const Block& b : inst.blocks) ForEach(b, fn);
  }
}

/// Puts what a rule emits into a function.
class BuilderEmitter final : public GradEmitter {
 public:
  BuilderEmitter(FunctionBuilder& builder, Loc loc) : b_(builder), loc_(loc) {}
  TensorType TypeOf(Val v) const override { return b_.TypeOf(v); }
  SymbolTable* symbols() override { return &b_.symbols(); }
  std::vector<Val> Emit(Op op, absl::Span<const Arg> args, std::vector<Attr> attrs) override {
    const OpInfo& info = Info(op);
    FunctionBuilder::Attrs named;
    for (size_t i = 0; i < attrs.size(); ++i) named.emplace_back(info.attrs[i].name, std::move(attrs[i]));
    std::vector<Val> out = b_.EmitMany(op, Args(args.begin(), args.end()), named, loc_);
    // After a failure, which the builder remembers, whoever asks for a result still gets one.
    if (out.empty()) out.resize(std::max<size_t>(1, info.results.size()));
    return out;
  }

 private:
  FunctionBuilder& b_;
  Loc loc_;
};

/// What the functions of one module share.
class Program {
 public:
  Program(const Module& from, Module& to) : from_(from), to_(to) {}

  const Module& from() const { return from_; }
  Module& to() { return to_; }
  absl::StatusOr<std::string> Make(const Function& f, const std::vector<bool>& wrt, GradKind kind);
  /// Does a call of it do something that must not be done twice?
  bool HasEffects(const Function& f);
  bool IsWritten(const std::string& buffer);
  /// Does a call of f write it, itself or in a call of its own?
  bool Writes(const Function& f, const std::string& buffer);

 private:
  const Module& from_;
  Module& to_;
  std::map<std::string, std::string> made_;  // names of gradients, of functions that are complete or under way
  std::map<const Function*, bool> effects_;
  std::map<std::pair<const Function*, std::string>, bool> writes_;
};

/// Makes one function.
class Differentiator {
 public:
  Differentiator(Program& program, const Function& f, std::string name, std::vector<bool> wrt, GradKind kind)
      : program_(program),
        f_(f),
        b_(program.to(), name, f.loc),
        wrt_(std::move(wrt)),
        kind_(kind),
        env_(f.values.size()),
        adjoint_(f.values.size()),
        active_(f.values.size(), false) {}

  absl::Status Run();

 private:
  // ---- what follows from the parameters that are asked for
  void MarkActive(const Block& block);
  void MarkLoop(const Instruction& inst);
  void MarkBuffer(const std::string& name, bool out_of_sight) {
    active_buffers_.insert(name);
    if (out_of_sight) lost_buffers_.insert(name);
  }
  bool IsActive(const Operand& o) const { return o.kind == Operand::Kind::value && active_[o.value]; }
  bool Activate(ValueId id, bool active) {
    if (!active || active_[id] || !IsFloat(f_.values[id].type.dtype)) return false;
    return active_[id] = true;
  }

  // ---- the way there
  void Forward(const Block& block);
  void ForwardOne(const Instruction& inst);
  void ForwardPlain(const Instruction& inst);
  Args Typed(const Operand* operands, const std::vector<ValueId>& like, size_t skip = 0);
  Arg Map(const Operand& o) const { return o.kind == Operand::Kind::value ? env_[o.value] : ToArg(o); }
  static Arg ToArg(const Operand& o) {
    Arg a;
    static_cast<Operand&>(a) = o;
    return a;
  }
  static const Instruction& Ending(const Block& block) { return block.instructions.back(); }
  /// One round of a loop with those carried values; gives the next ones.
  Args Round(const Instruction& loop, const Arg& index, const Vals& carried);
  int64_t Dim(int64_t d) { return b_.symbols().Substitute(*f_.symbols, d, symbols_); }
  TensorType Type(TensorType type) {
    for (int i = 0; i < type.rank; ++i) type.dims[i] = Dim(type.dims[i]);
    return type;
  }

  // ---- the way back
  void Backward(const Block& block);
  void BackwardPlain(const Instruction& inst);
  void BackwardBuffer(const Instruction& inst);
  void BackwardIf(const Instruction& inst);
  void BackwardLoop(const Instruction& inst);
  void BackwardCall(const Instruction& inst);
  bool Reached(const Instruction& inst) const {
    return std::any_of(inst.results.begin(), inst.results.end(), [&](ValueId v) { return adjoint_[v].id >= 0; });
  }
  void Accumulate(ValueId id, Val g);
  void Accumulate(const Operand& o, Val g) {
    if (IsActive(o) && g.id >= 0) Accumulate(o.value, g);
  }
  Val Add(Val a, Val b);
  Val Cast(Val v, DType dtype) {
    return b_.TypeOf(v).dtype == dtype ? v : b_.Emit(Op::k_cast, {v}, {{"dtype", dtype}});
  }
  /// The gradient of a value as its own dtype.
  Val GradOf(ValueId id) { return Cast(adjoint_[id], f_.values[id].type.dtype); }
  /// The gradient so far, or zeros, in the dtype that gradients add up in.
  Val SumOf(ValueId id);
  Val Zeros(const TensorType& type, DType dtype);
  /// Active values from outside that a block uses.
  std::vector<ValueId> Captured(const Instruction& inst) const;
  /// Runs fn with no gradients yet, in a block.
  template <class Fn>
  Args Inside(Fn fn) {
    std::vector<Val> outer(f_.values.size());
    outer.swap(adjoint_);
    const bool effects = std::exchange(effects_, false);
    ++depth_;
    Args result = fn();
    --depth_;
    effects_ = effects;
    outer.swap(adjoint_);
    return result;
  }

  // ---- integers of the program, folded where they are numbers
  Arg Int(Op op, const Arg& a, const Arg& b);
  Arg Rounds(const Instruction& loop);

  template <class... Parts>
  void Fail(const Instruction& inst, const Parts&... parts) {
    if (!status_.ok()) return;
    const std::string& file = program_.from().file;
    std::string where = file.empty() ? "" : absl::StrCat(file, ":");
    if (inst.loc.line > 0) absl::StrAppend(&where, inst.loc.line, ":", inst.loc.column, ": ");
    status_ = Unsupported(where, "in @", f_.name, ": ", std::string(Info(inst.op).name), ": ", parts...);
  }

  Program& program_;
  const Function& f_;
  FunctionBuilder b_;
  const std::vector<bool> wrt_;
  const GradKind kind_;
  std::vector<Arg> env_;                  // what stands for each value of f
  std::vector<Val> adjoint_;              // its gradient so far
  std::vector<bool> active_;              // does it follow from what is asked for
  std::set<std::string> active_buffers_;  // something active was written to them
  std::set<std::string> lost_buffers_;    // the same in a block or a call, where the way back does not follow it
  std::map<std::string, Val> buffer_adjoints_;
  std::map<const Instruction*, Val> rounds_;  // of a while
  std::vector<int64_t> symbols_;              // of b_, for those of f in their order
  bool effects_ = true;
  int depth_ = 0;
  absl::Status status_;
};

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

// ---- the way back

Val Differentiator::Add(Val a, Val b) {
  const DType dtype = SumDType(b_.TypeOf(a).dtype);
  return b_.Emit(Op::k_add, {Cast(a, dtype), Cast(b, dtype)});
}

void Differentiator::Accumulate(ValueId id, Val g) { adjoint_[id] = adjoint_[id].id < 0 ? g : Add(adjoint_[id], g); }

Val Differentiator::Zeros(const TensorType& type, DType dtype) {
  return b_.Emit(Op::k_full, {0}, {{"dims", Ints(type.dims, type.dims + type.rank)}, {"dtype", dtype}});
}

Val Differentiator::SumOf(ValueId id) {
  const DType dtype = SumDType(f_.values[id].type.dtype);
  return adjoint_[id].id >= 0 ? Cast(adjoint_[id], dtype) : Zeros(Type(f_.values[id].type), dtype);
}

std::vector<ValueId> Differentiator::Captured(const Instruction& inst) const {
  std::set<ValueId> used, defined;
  for (const Block& block : inst.blocks) {
    defined.insert(block.params.begin(), block.params.end());
    ForEach(block, [&](const Instruction& i) {
      for (const Operand& o : i.operands)
        if (IsActive(o)) used.insert(o.value);
      defined.insert(i.results.begin(), i.results.end());
      for (const Block& b : i.blocks) defined.insert(b.params.begin(), b.params.end());
    });
  }
  std::vector<ValueId> outer;
  for (ValueId v : used)
    if (!defined.contains(v)) outer.push_back(v);
  return outer;
}

void Differentiator::Backward(const Block& block) {
  for (size_t i = block.instructions.size() - 1; i-- > 0;) {
    const Instruction& inst = block.instructions[i];
    if (!status_.ok() || !b_.status().ok()) return;
    switch (inst.op) {
      case Op::k_buffer_read:
      case Op::k_buffer_write:
      case Op::k_buffer_add: BackwardBuffer(inst); continue;
      default: break;
    }
    if (!Reached(inst)) continue;
    switch (inst.op) {
      case Op::k_if: BackwardIf(inst); break;
      case Op::k_for:
      case Op::k_while: BackwardLoop(inst); break;
      case Op::k_call: BackwardCall(inst); break;
      default: BackwardPlain(inst);
    }
  }
}

void Differentiator::BackwardPlain(const Instruction& inst) {
  const size_t n = inst.operands.size();
  std::vector<Arg> in;
  const auto wants = std::make_unique<bool[]>(n);
  bool any = false;
  for (size_t i = 0; i < n; ++i) {
    in.push_back(Map(inst.operands[i]));
    any |= wants[i] = IsActive(inst.operands[i]);
  }
  if (!any) return;
  const GradRule* rule = FindGradRule(inst.op);
  if (rule == nullptr) return Fail(inst, "has no gradient, and one would have to pass through it");
  std::vector<Val> out, grads;
  for (ValueId r : inst.results) {
    out.push_back(Val{env_[r].value});
    grads.push_back(adjoint_[r].id >= 0 ? GradOf(r) : Val{});
  }
  std::vector<Attr> attrs = inst.attrs;
  for (Attr& attr : attrs)
    if (Ints* ints = std::get_if<Ints>(&attr))
      for (int64_t& v : *ints) v = Dim(v);
  BuilderEmitter emitter(b_, inst.loc);
  GradCall call(emitter, inst.op, in, attrs, out, grads, absl::MakeConstSpan(wants.get(), n));
  rule->function(call);
  for (size_t i = 0; i < n; ++i)
    if (wants[i]) Accumulate(inst.operands[i], call.results()[i]);
}

void Differentiator::BackwardBuffer(const Instruction& inst) {
  const auto& name = std::get<std::string>(inst.attrs[0]);
  const bool reads = inst.op == Op::k_buffer_read;
  if (!active_buffers_.contains(name) || (reads ? !Reached(inst) : !IsActive(inst.operands[0]))) return;
  if (reads && (depth_ > 0 || lost_buffers_.contains(name))) {
    return Fail(inst, "a gradient would have to pass through buffer @", name,
                " that is read or written in a block or a ",
                "call; give the value from the block in place of the buffer");
  }
  if (depth_ > 0) return;  // nothing that is read has a gradient then
  const auto it = buffer_adjoints_.find(name);
  if (reads) {
    const Val g = adjoint_[inst.results[0]];
    buffer_adjoints_[name] = it == buffer_adjoints_.end() ? g : Add(it->second, g);
  } else if (it != buffer_adjoints_.end()) {
    Accumulate(inst.operands[0], it->second);
  }
  // What was there before a write counts for nothing after it.
  if (inst.op == Op::k_buffer_write) buffer_adjoints_.erase(name);
}

void Differentiator::BackwardIf(const Instruction& inst) {
  const std::vector<ValueId> captured = Captured(inst);
  if (captured.empty()) return;
  const std::vector<Val> outer = adjoint_;
  const auto block = [&](int which) {
    return [&, which] {
      return Inside([&] {
        const Block& taken = inst.blocks[which];
        Forward(taken);
        for (size_t i = 0; i < inst.results.size(); ++i)
          if (outer[inst.results[i]].id >= 0) Accumulate(Ending(taken).operands[i], outer[inst.results[i]]);
        Backward(taken);
        Args sums;
        for (ValueId v : captured) sums.push_back(SumOf(v));
        return sums;
      });
    };
  };
  const Vals grads = b_.If(Map(inst.operands[0]), block(0), block(1), inst.loc);
  for (size_t i = 0; i < grads.size(); ++i) Accumulate(captured[i], grads[i]);
}

Arg Differentiator::Int(Op op, const Arg& a, const Arg& b) {
  if (a.kind == Operand::Kind::immediate && b.kind == Operand::Kind::immediate) {
    const int64_t x = std::get<int64_t>(a.immediate), y = std::get<int64_t>(b.immediate);
    switch (op) {
      case Op::k_add: return x + y;
      case Op::k_sub: return x - y;
      case Op::k_mul: return x * y;
      case Op::k_floor_div: return DimFloorDiv(nullptr, x, y);
      default: return std::max(x, y);
    }
  }
  return b_.Emit(op, {a, b});
}

Arg Differentiator::Rounds(const Instruction& loop) {
  if (loop.op == Op::k_while) return rounds_.at(&loop);
  const auto wide = [&](const Operand& o) -> Arg {
    return o.kind == Operand::Kind::value ? Arg(Cast(Val{env_[o.value].value}, DType::i64)) : ToArg(o);
  };
  const Arg start = wide(loop.operands[0]), stop = wide(loop.operands[1]), step = wide(loop.operands[2]);
  // ceil((stop - start) / step), for either sign of step
  const Arg sign = step.kind == Operand::Kind::immediate ? Arg(std::get<int64_t>(step.immediate) < 0 ? -1 : 1)
                                                         : Arg(b_.Emit(Op::k_sign, {step}));
  const Arg span = Int(Op::k_sub, Int(Op::k_add, Int(Op::k_sub, stop, start), step), sign);
  return Int(Op::k_maximum, Int(Op::k_floor_div, span, step), 0);
}

void Differentiator::BackwardLoop(const Instruction& inst) {
  const bool counted = inst.op == Op::k_for;
  const size_t bounds = counted ? 3 : 0, first = counted ? 1 : 0;
  const Block& body = inst.blocks.back();
  const std::vector<ValueId> captured = Captured(inst);
  std::vector<size_t> carried;  // those that have a gradient
  for (size_t i = 0; i < inst.results.size(); ++i)
    if (active_[body.params[first + i]]) carried.push_back(i);
  const Arg rounds = Rounds(inst);
  const auto index = [&](const Arg& round) -> Arg {
    if (!counted) return {};
    return Int(Op::k_add, Map(inst.operands[0]), Int(Op::k_mul, round, Map(inst.operands[2])));
  };
  Args inits;
  for (size_t i : carried) inits.push_back(SumOf(inst.results[i]));
  for (ValueId v : captured) inits.push_back(Zeros(Type(f_.values[v].type), SumDType(f_.values[v].type.dtype)));

  const auto back = [&](Val k, const Vals& sums) {
    return Inside([&] {
      const Arg round = Int(Op::k_sub, Int(Op::k_sub, rounds, 1), k);
      // The values that the loop carried into this round.
      const Vals values = b_.For(
          0, round, 1, Typed(inst.operands.data() + bounds, body.params, first),
          [&](Val m, const Vals& c) { return Round(inst, index(m), c); }, inst.loc);
      if (!b_.status().ok()) return Args();
      (void)Round(inst, index(round), values);
      for (size_t i = 0; i < carried.size(); ++i) Accumulate(Ending(body).operands[carried[i]], sums[i]);
      Backward(body);
      Args next;
      for (size_t i : carried) next.push_back(SumOf(body.params[first + i]));
      for (size_t i = 0; i < captured.size(); ++i) {
        const Val sum = sums[carried.size() + i];
        next.push_back(adjoint_[captured[i]].id < 0 ? sum : Add(sum, adjoint_[captured[i]]));
      }
      return next;
    });
  };
  const Vals grads = b_.For(0, rounds, 1, inits, back, inst.loc);
  if (!b_.status().ok()) return;
  for (size_t i = 0; i < carried.size(); ++i) Accumulate(inst.operands[bounds + carried[i]], grads[i]);
  for (size_t i = 0; i < captured.size(); ++i) Accumulate(captured[i], grads[carried.size() + i]);
}

void Differentiator::BackwardCall(const Instruction& inst) {
  const Function& callee = *program_.from().FindFunction(std::get<std::string>(inst.attrs[0]));
  std::vector<bool> wrt;
  Args args;
  for (const Operand& o : inst.operands) {
    wrt.push_back(IsActive(o));
    args.push_back(Map(o));
  }
  for (ValueId r : inst.results) {
    if (!IsFloat(f_.values[r].type.dtype)) continue;
    args.push_back(adjoint_[r].id >= 0 ? GradOf(r) : Zeros(Type(f_.values[r].type), f_.values[r].type.dtype));
  }
  absl::StatusOr<std::string> name = program_.Make(callee, wrt, GradKind::vjp);
  if (!name.ok()) {
    status_ = name.status();
    return;
  }
  const Vals grads = b_.Call(*name, args, inst.loc);
  for (size_t i = 0, k = 0; i < wrt.size() && k < grads.size(); ++i)
    if (wrt[i]) Accumulate(inst.operands[i], grads[k++]);
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

}  // namespace

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
