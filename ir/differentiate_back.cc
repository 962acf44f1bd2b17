// The way back: gradients of instructions in the reverse of their order. Blocks are computed again where their
// gradients are.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "ir/differentiate_impl.h"
#include "ir/grad.h"

namespace tessera::ir {
namespace {

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

}  // namespace

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
      case Op::k_minimum: return std::min(x, y);
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

Arg Differentiator::StretchLength(const Arg& rounds) {
  if (rounds.kind == Operand::Kind::immediate)
    return std::max<int64_t>(
        1, std::llround(std::ceil(std::sqrt(static_cast<double>(std::get<int64_t>(rounds.immediate))))));
  const Val root = b_.Emit(Op::k_ceil, {b_.Emit(Op::k_sqrt, {Cast(Val{rounds.value}, DType::f64)})});
  return b_.Emit(Op::k_maximum, {Cast(root, DType::i64), 1});
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

  // The values that the loop carries into round `to`, from those it carried into round `from`.
  const auto run = [&](const Arg& from, const Arg& to, const Args& values) {
    return b_.For(from, to, 1, values, [&](Val m, const Vals& c) { return Round(inst, index(m), c); }, inst.loc);
  };
  // One round backwards.
  const auto back = [&](const Arg& round, const Vals& values, const Vals& sums) {
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
  };
  // In stretches: the values at the beginning of one are computed from the start of the loop, those of a round from
  // there.
  const Arg length = StretchLength(rounds);
  const Arg stretches = Int(Op::k_floor_div, Int(Op::k_sub, Int(Op::k_add, rounds, length), 1), length);
  const auto stretch = [&](Val s, const Vals& sums) {
    return Inside([&] {
      const Arg begin = Int(Op::k_mul, Int(Op::k_sub, Int(Op::k_sub, stretches, 1), s), length);
      const Arg end = Int(Op::k_minimum, Int(Op::k_add, begin, length), rounds);
      const Vals base = run(0, begin, Typed(inst.operands.data() + bounds, body.params, first));
      const Vals next = b_.For(
          0, Int(Op::k_sub, end, begin), 1, Args(sums.begin(), sums.end()),
          [&](Val k, const Vals& inner) {
            return Inside([&] {
              const Arg round = Int(Op::k_sub, Int(Op::k_sub, end, 1), k);
              const Vals values = run(begin, round, Args(base.begin(), base.end()));
              return b_.status().ok() ? back(round, values, inner) : Args();
            });
          },
          inst.loc);
      return Args(next.begin(), next.end());
    });
  };
  const Vals grads = b_.For(0, stretches, 1, inits, stretch, inst.loc);
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

}  // namespace tessera::ir
