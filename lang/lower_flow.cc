// if and loops. Variables that a block changes become results of the instruction. return, break and continue inside
// blocks set flags (kReturned, ...), and what comes after them stands in a block of its own or, where one side of an
// `if` always leaves, in the other one.
#include <algorithm>

#include "lang/lower_impl.h"
#include "lang/text.h"

namespace tessera::lang {

using ir::Op;

namespace {

bool AlwaysExits(Block body) {
  for (const Stmt* s : body) {
    if (s->kind == StmtKind::return_ || s->kind == StmtKind::break_ || s->kind == StmtKind::continue_) return true;
    if (s->kind != StmtKind::if_) continue;
    const auto& i = As<IfStmt>(*s);
    bool all = AlwaysExits(i.else_body);
    for (const IfStmt::Branch& b : i.branches) all = all && AlwaysExits(b.body);
    if (all) return true;
  }
  return false;
}

bool Same(const Val& a, const Val& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Val::Kind::tensor: return a.id == b.id && a.weak == b.weak;
    case Val::Kind::boolean:
    case Val::Kind::integer:
    case Val::Kind::dim: return a.integer == b.integer;
    case Val::Kind::floating: return a.floating == b.floating && (a.floating != 0 || 1 / a.floating == 1 / b.floating);
    case Val::Kind::string:
    case Val::Kind::host: return a.text == b.text;
    case Val::Kind::dtype: return a.dtype == b.dtype;
    case Val::Kind::function: return a.def == b.def && a.scope == b.scope;
    case Val::Kind::module: return a.scope == b.scope;
    case Val::Kind::builtin: return a.builtin == b.builtin && a.items == b.items;
    case Val::Kind::tuple:
    case Val::Kind::range:
      if (a.items == b.items) return true;
      if (a.items->size() != b.items->size()) return false;
      for (size_t i = 0; i < a.items->size(); ++i)
        if (!Same((*a.items)[i], (*b.items)[i])) return false;
      return true;
    default: return true;
  }
}

bool IsNumber(const Val& v) { return v.number() || v.kind == Val::Kind::dim || (v.tensor() && v.weak); }

}  // namespace

// ---- if

struct FunctionLowering::Join {
  ir::Block blocks[2];
  std::vector<ir::Operand> yields[2];
  std::vector<int32_t> results;
  bool dead[2] = {false, false};  // that side has returned: nobody looks at its variables
  Val condition;
  Expr at;
  std::string_view word;
};

namespace {
TensorType ScalarType(DType dtype) {
  TensorType t;
  t.dtype = dtype;
  return t;
}
}  // namespace

bool FunctionLowering::Yielded(const Val& v, const TensorType& type, ir::Block& block, ir::Operand* out,
                               const Expr& at) {
  Val x = v;
  blocks_.push_back(&block);
  if (x.kind == Val::Kind::dim) x = DimTensor(x, at);
  // A number may stand for a scalar of its kind or a higher one; -1 for an unsigned one could not be told from 255.
  const bool plain = x.number() && type.rank == 0 &&
                     (type.dtype == DType::i64 || type.dtype == DType::f64 || type.dtype == DType::f32 ||
                      (type.dtype == DType::boolean && x.kind == Val::Kind::boolean));
  if (!x.poison() && !plain && (!x.tensor() || TypeOf(x).dtype != type.dtype)) x = CastTo(*this, x, type.dtype, at);
  blocks_.pop_back();
  if (x.poison()) return false;
  *out = OperandOf(x);
  return true;
}

Val FunctionLowering::Merge(const Val& a, const Val& b, Join& join, int slot) {
  if (Same(a, b)) return a;
  if (a.poison() || b.poison()) return Val::Poison();
  const auto undefined = [&] {
    Val v = Val::Of(Val::Kind::undefined);
    v.text = join.word;
    v.origin = join.at.span;
    return v;
  };
  if (a.kind == Val::Kind::undefined || b.kind == Val::Kind::undefined) {
    const bool first = a.kind == Val::Kind::undefined, second = b.kind == Val::Kind::undefined;
    if (first && second) return a.origin.known() ? a : b;
    if (slot != kResult && !join.dead[first ? 0 : 1]) {
      const Val& v = first ? a : b;
      return v.origin.known() ? v : undefined();
    }
    // The result of a function that has not returned is never looked at.
    blocks_.push_back(&join.blocks[first ? 0 : 1]);
    const Val filled = Placeholder(first ? b : a);
    blocks_.pop_back();
    return first ? Merge(filled, b, join, slot) : Merge(a, filled, join, slot);
  }
  if (a.kind == Val::Kind::boolean && b.kind == Val::Kind::boolean) {
    Val flag = join.condition;
    if (a.integer == 0) flag = EmitOp(*this, Op::k_logical_not, {flag}, {}, join.at);
    flag.weak = true;
    return flag;
  }
  TensorType type;
  bool weak = false;
  if (IsNumber(a) && IsNumber(b)) {
    const auto kind = [&](const Val& v) {
      if (v.tensor()) return TypeOf(v).dtype;
      return v.kind == Val::Kind::floating ? DType::f64 : v.kind == Val::Kind::boolean ? DType::boolean : DType::i64;
    };
    const DType x = kind(a), y = kind(b);
    type = ScalarType(x == y ? x : x == DType::f64 || y == DType::f64 ? DType::f64 : DType::i64);
    weak = true;
  } else if (a.strong() && b.strong() && MakeSameType(TypeOf(a), TypeOf(b))) {
    type = TypeOf(a);
  } else if ((a.strong() && IsNumber(b) && TypeOf(a).rank == 0) || (b.strong() && IsNumber(a) && TypeOf(b).rank == 0)) {
    type = TypeOf(a.strong() ? a : b);
  } else if (a.kind == Val::Kind::tuple && b.kind == Val::Kind::tuple && a.items->size() == b.items->size()) {
    Vals items;
    for (size_t i = 0; i < a.items->size(); ++i) {
      items.push_back(Merge((*a.items)[i], (*b.items)[i], join, slot));
      if (items.back().kind == Val::Kind::undefined || items.back().poison()) return items.back();
    }
    return Val::Tuple(std::move(items), a.is_list && b.is_list);
  } else if (join.dead[0] != join.dead[1] && slot >= kFirstVariable) {
    blocks_.push_back(&join.blocks[join.dead[0] ? 0 : 1]);
    const Val filled = Placeholder(join.dead[0] ? b : a);
    blocks_.pop_back();
    return join.dead[0] ? Merge(filled, b, join, slot) : Merge(a, filled, join, slot);
  } else {
    Val v = undefined();
    v.items = std::make_shared<const Vals>(Vals{a, b});
    return v;
  }
  ir::Operand one, two;
  if (!Yielded(a, type, join.blocks[0], &one, join.at) || !Yielded(b, type, join.blocks[1], &two, join.at))
    return Val::Poison();
  join.yields[0].push_back(one);
  join.yields[1].push_back(two);
  join.results.push_back(NewValue(type));
  Val v = Val::Tensor(join.results.back(), weak);
  v.origin = a.origin;
  return v;
}

void FunctionLowering::Branch(const Val& condition, std::vector<int> slots, const std::function<void()>& then_block,
                              const std::function<void()>& else_block, std::string_view word, Span span) {
  Join join;
  join.condition = condition;
  join.at = Expr{ExprKind::none, 1, span};
  join.word = word;
  if (blocks_.size() > kMaxBlocks) {
    diagnostics.Report(Diag::nesting_too_deep, span, kMaxBlocks);
    for (int slot : slots) vars_[static_cast<size_t>(slot)] = Val::Poison();
    return;
  }
  Vals before, sides[2];
  for (int slot : slots) before.push_back(vars_[static_cast<size_t>(slot)]);
  for (int side = 0; side < 2 && !Stopped(); ++side) {
    blocks_.push_back(&join.blocks[side]);
    (side == 0 ? then_block : else_block)();
    blocks_.pop_back();
    for (size_t i = 0; i < slots.size(); ++i) {
      sides[side].push_back(vars_[static_cast<size_t>(slots[i])]);
      vars_[static_cast<size_t>(slots[i])] = before[i];
    }
  }
  if (Stopped()) return;
  bool returned[2] = {false, false};
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] != kReturned) continue;
    for (int side = 0; side < 2; ++side)
      returned[side] = sides[side][i].kind == Val::Kind::boolean && sides[side][i].integer != 0;
  }
  for (int side = 0; side < 2; ++side) join.dead[side] = returned[side];
  for (size_t i = 0; i < slots.size(); ++i) {
    // Where both sides have returned, only what they return matters.
    if (returned[0] && returned[1] && slots[i] >= kBroken) continue;
    vars_[static_cast<size_t>(slots[i])] = Merge(sides[0][i], sides[1][i], join, slots[i]);
  }
  ir::Instruction inst{Op::k_if, {OperandOf(condition)}, {}, std::move(join.results), {}, LocOf(span)};
  for (int side = 0; side < 2; ++side) {
    join.blocks[side].instructions.push_back({Op::k_yield, std::move(join.yields[side]), {}, {}, {}, inst.loc});
    inst.blocks.push_back(std::move(join.blocks[side]));
  }
  if (inst.results.empty() && inst.blocks[0].instructions.size() == 1 && inst.blocks[1].instructions.size() == 1)
    return;
  Push(std::move(inst));
}

bool FunctionLowering::If(const IfStmt& s, size_t branch, Block rest) {
  if (branch == s.branches.size()) {
    Statements(s.else_body);
    return false;
  }
  const IfStmt::Branch& b = s.branches[branch];
  const Val condition = Condition(Eval(*b.condition), *b.condition);
  if (condition.kind == Val::Kind::boolean) {
    if (condition.integer == 0) return If(s, branch + 1, rest);
    Statements(b.body);
    return false;
  }
  std::vector<int> slots;
  ++mark_;
  for (size_t i = branch; i < s.branches.size(); ++i) Changed(s.branches[i].body, &slots);
  Changed(s.else_body, &slots);
  if (condition.poison()) {
    for (int slot : slots)
      if (slot >= kFirstVariable) vars_[static_cast<size_t>(slot)] = Val::Poison();
    return false;
  }
  const bool then_exits = AlwaysExits(b.body);
  bool else_exits = AlwaysExits(s.else_body);
  for (size_t i = branch + 1; i < s.branches.size(); ++i) else_exits = else_exits && AlwaysExits(s.branches[i].body);
  const bool room = !rest.empty() && blocks_.size() < kMaxBlocks / 2;
  const bool rest_in_else = then_exits && room, rest_in_then = !then_exits && else_exits && room;
  if (rest_in_else || rest_in_then) Changed(rest, &slots);
  const std::string_view word = branch == 0 ? "if" : "elif";
  const auto go_on = [&] {
    const Expr at{ExprKind::none, 1, s.span};
    const Val exited = Exited(at);
    if (exited.poison() || (exited.kind == Val::Kind::boolean && exited.integer != 0)) return;
    if (exited.kind == Val::Kind::boolean) return Statements(rest);
    Unless(exited, rest, s.span);
  };
  Branch(
      condition, std::move(slots),
      [&] {
        Statements(b.body);
        if (rest_in_then) go_on();
      },
      [&] {
        const bool taken = If(s, branch + 1, rest_in_else ? rest : Block());
        if (rest_in_else && !taken) go_on();
      },
      word, b.span);
  return rest_in_else || rest_in_then;
}

// ---- loops

struct FunctionLowering::LoopPlan {
  const Stmt* stmt = nullptr;
  const Expr* condition = nullptr;  // while
  const Expr* target = nullptr;     // for
  Vals range;                       // for: start, stop, step
  Val rows;                         // for over a tensor: its rows are the values
  Block body;
  Span header;
  std::string_view word;
  Expr at;
};

Val FunctionLowering::Placeholder(const Val& like) {
  const Expr at{ExprKind::none, 1, like.origin.known() ? like.origin : def_.name_span};
  switch (like.kind) {
    case Val::Kind::tensor: {
      const TensorType type = TypeOf(like);
      Vals out;
      if (!Emit(Op::k_full, {Val::Integer(0)}, {ir::Ints(type.dims, type.dims + type.rank), type.dtype}, at, &out))
        return Val::Poison();
      out[0].weak = like.weak;
      return out[0];
    }
    case Val::Kind::tuple: {
      Vals items;
      for (const Val& item : *like.items) items.push_back(Placeholder(item));
      return Val::Tuple(std::move(items), like.is_list);
    }
    default: return like;
  }
}

void FunctionLowering::Loop(const Stmt& s) {
  LoopPlan plan;
  plan.stmt = &s;
  if (s.kind == StmtKind::while_) {
    const auto& w = As<WhileStmt>(s);
    plan.condition = w.condition, plan.body = w.body, plan.header = w.header, plan.word = "while";
    plan.at = Expr{ExprKind::none, 1, w.header};
    return DynamicLoop(plan);
  }
  const auto& f = As<ForStmt>(s);
  plan.target = f.target, plan.body = f.body, plan.header = f.header, plan.word = "for";
  plan.at = Expr{ExprKind::none, 1, f.header};
  const Val iterable = Eval(*f.iterable);
  if (iterable.kind == Val::Kind::tuple) return UnrolledLoop(plan, *iterable.items);
  if (iterable.kind == Val::Kind::range) {
    plan.range = *iterable.items;
  } else if (iterable.strong() && TypeOf(iterable).rank > 0) {
    plan.range = {Val::Integer(0), Val::Dim(TypeOf(iterable).dims[0]), Val::Integer(1)};
    plan.rows = iterable;
  } else {
    if (!iterable.poison()) diagnostics.Report(Diag::not_iterable, f.iterable->span, DescribeVal(*this, iterable));
    std::vector<int> slots;
    ++mark_;
    ChangedTarget(*plan.target, &slots);
    Changed(plan.body, &slots);
    for (int slot : slots)
      if (slot >= kFirstVariable) vars_[static_cast<size_t>(slot)] = Val::Poison();
    return;
  }
  if (demands_.unrolled.contains(&s)) {
    int64_t bounds[3];
    for (size_t i = 0; i < 3; ++i)
      if (!ToInt(*this, plan.range[i], "a bound of this loop", *f.iterable, &bounds[i])) return;
    Vals items;
    for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1]; i += bounds[2]) {
      if (static_cast<int64_t>(items.size()) == kMaxUnroll) {
        diagnostics.Report(Diag::unroll_limit, f.iterable->span, kMaxUnroll);
        return;
      }
      items.push_back(Val::Integer(i));
      if (int64_t next; __builtin_add_overflow(i, bounds[2], &next)) break;
    }
    return UnrolledLoop(plan, items);
  }
  DynamicLoop(plan);
}

void FunctionLowering::AssignRound(const LoopPlan& plan, Val v) {
  if (plan.rows.tensor()) {
    IndexItem item;
    item.value = v;
    item.at = &plan.at;
    v = ApplyIndex(*this, plan.rows, {&item, 1}, plan.at);
  }
  Assign(*plan.target, v, *plan.target);
}

void FunctionLowering::UnrolledLoop(const LoopPlan& plan, const Vals& items) {
  const Val broken = std::exchange(vars_[kBroken], Val::Boolean(false));
  const Val skipped = std::exchange(vars_[kSkipped], Val::Boolean(false));
  std::vector<int> slots;
  ++mark_;
  Changed(plan.body, &slots);
  ChangedTarget(*plan.target, &slots);
  const std::function<void(size_t)> round = [&](size_t first) {
    for (size_t i = first; i < items.size() && !Stopped() && CountWork(); ++i) {
      vars_[kSkipped] = Val::Boolean(false);
      AssignRound(plan, items[i]);
      Statements(plan.body);
      vars_[kSkipped] = Val::Boolean(false);
      const Val exited = Exited(plan.at);
      if (exited.poison() || (exited.kind == Val::Kind::boolean && exited.integer != 0)) return;
      if (exited.kind == Val::Kind::boolean) continue;
      if (i + 1 < items.size()) {
        Branch(
            EmitOp(*this, Op::k_logical_not, {exited}, {}, plan.at), slots, [&, i] { round(i + 1); }, [] {}, "for",
            plan.header);
      }
      return;
    }
  };
  round(0);
  vars_[kBroken] = broken;
  vars_[kSkipped] = skipped;
}

void FunctionLowering::DynamicLoop(const LoopPlan& plan) {
  if (blocks_.size() > kMaxBlocks) {
    diagnostics.Report(Diag::nesting_too_deep, plan.header, kMaxBlocks);
    return;
  }
  const Val broken = std::exchange(vars_[kBroken], Val::Boolean(false));
  const Val skipped = std::exchange(vars_[kSkipped], Val::Boolean(false));
  std::vector<int> slots, targets;
  ++mark_;
  if (marks_.size() < vars_.size()) marks_.resize(vars_.size(), 0);
  // A target has no value that a round hands to the next; it is set before anything else.
  if (plan.target != nullptr) ChangedTarget(*plan.target, &targets);
  Changed(plan.body, &slots);
  std::erase(slots, int{kSkipped});
  const Val returned = vars_[kReturned];
  const bool returns = std::find(slots.begin(), slots.end(), int{kReturned}) != slots.end();
  Vals inits;
  for (int slot : slots) inits.push_back(vars_[static_cast<size_t>(slot)]);
  for (int attempt = 0; attempt < 10 && !Stopped(); ++attempt) {
    bool retry = false;
    if (TryLoop(plan, slots, inits, &retry) || !retry) break;
  }
  const auto forget = [&](int slot) {
    Val v = Val::Of(Val::Kind::undefined);
    v.origin = plan.header;
    v.text = plan.word;
    vars_[static_cast<size_t>(slot)] = v;
  };
  for (int slot : targets) forget(slot);
  if (!returns) vars_[kReturned] = returned;
  vars_[kBroken] = broken;
  vars_[kSkipped] = skipped;
}

bool FunctionLowering::TryLoop(const LoopPlan& plan, std::vector<int>& slots, Vals& inits, bool* retry) {
  struct Leaf {
    TensorType type;
    bool weak;
    ir::Operand init;
    int32_t param;
    Span origin;
  };
  ir::Block& outer = *blocks_.back();
  const size_t values = f_->values.size(), instructions = outer.instructions.size(), said = diagnostics.all().size();
  const int errors = diagnostics.errors();
  // Globals that were met in the loop are parameters; they are met again.
  const size_t params = f_->params.size(), globals = globals_.size(), uses = global_uses_.size();
  const auto roll_back = [&] {
    f_->params.resize(params);
    sources_.resize(params);
    globals_.erase(globals_.begin() + static_cast<ptrdiff_t>(globals), globals_.end());
    global_uses_.erase(global_uses_.begin() + static_cast<ptrdiff_t>(uses), global_uses_.end());
    f_->values.resize(values);
    while (!f_->shards.empty() && static_cast<size_t>(f_->shards.back().first) >= values) f_->shards.pop_back();
    value_names_.resize(values);
    deps_.resize(values);
    outer.instructions.erase(outer.instructions.begin() + static_cast<ptrdiff_t>(instructions),
                             outer.instructions.end());
    diagnostics.Rewind(said, errors);
  };
  const bool is_for = plan.target != nullptr;
  bool exits = false;
  for (int slot : slots) exits |= slot == kReturned || slot == kBroken;
  const bool as_while = !is_for || exits;

  // Bounds and initial values, outside.
  Vals range;
  for (Val v : plan.range) {
    if (v.kind == Val::Kind::dim) v = DimTensor(v, plan.at);
    if (v.poison()) return false;
    range.push_back(v);
  }
  std::vector<Leaf> leaves;
  bool poison = false;
  const std::function<Val(const Val&)> open = [&](const Val& v) -> Val {
    if (v.kind == Val::Kind::tuple) {
      Vals items;
      for (const Val& item : *v.items) items.push_back(open(item));
      return Val::Tuple(std::move(items), v.is_list);
    }
    if (!IsNumber(v) && !v.tensor()) return v;
    Leaf leaf;
    leaf.weak = !v.strong();
    leaf.origin = v.origin;
    Val x = v.kind == Val::Kind::dim ? DimTensor(v, plan.at) : v;
    poison |= x.poison();
    if (x.poison()) return x;
    leaf.type = x.tensor()                      ? TypeOf(x)
                : x.kind == Val::Kind::floating ? ScalarType(DType::f64)
                : x.kind == Val::Kind::boolean  ? ScalarType(DType::boolean)
                                                : ScalarType(DType::i64);
    leaf.init = OperandOf(x);
    leaf.param = -1;
    leaves.push_back(leaf);
    // The number of the leaf, until it has a parameter.
    Val opened = Val::Tensor(static_cast<int32_t>(leaves.size()) - 1, leaf.weak);
    opened.origin = v.origin;
    return opened;
  };
  Vals opened;
  for (const Val& v : inits) opened.push_back(open(v));
  const Leaf* counter = nullptr;
  Val step_known = range.size() == 3 ? range[2] : Val::None();
  if (is_for && as_while) {
    if (!step_known.int_like()) {
      Val v = step_known;
      if (!Know(&v, "the step of a loop that is left early", plan.at)) return false;
      step_known = v;
    }
    open(range[0]);
    counter = &leaves.back();
  }
  if (poison) return false;
  ir::Instruction inst{as_while ? Op::k_while : Op::k_for, {}, {}, {}, {}, LocOf(plan.header)};
  inst.blocks.resize(as_while ? 2 : 1);
  ir::Block& body = inst.blocks.back();
  int32_t index = -1;
  if (!as_while) {
    for (const Val& v : range) inst.operands.push_back(OperandOf(v));
    index = NewValue(ScalarType(DType::i64));
    body.params.push_back(index);
  }
  for (Leaf& leaf : leaves) {
    inst.operands.push_back(leaf.init);
    leaf.param = NewValue(leaf.type);
    body.params.push_back(leaf.param);
  }
  if (as_while) inst.blocks[0].params = body.params;
  if (counter != nullptr) index = counter->param;
  const std::function<Val(const Val&, bool)> bind = [&](const Val& v, bool results) -> Val {
    if (v.kind == Val::Kind::tuple) {
      Vals items;
      for (const Val& item : *v.items) items.push_back(bind(item, results));
      return Val::Tuple(std::move(items), v.is_list);
    }
    if (!v.tensor()) return v;
    Val bound = v;
    const auto leaf = static_cast<size_t>(v.id);
    bound.id = results ? inst.results[leaf] : leaves[leaf].param;
    return bound;
  };
  for (size_t i = 0; i < slots.size(); ++i) {
    const Val bound = bind(opened[i], false);
    vars_[static_cast<size_t>(slots[i])] = bound;
    if (bound.tensor() && slots[i] >= kFirstVariable)
      value_names_[static_cast<size_t>(bound.id)] = names_[static_cast<size_t>(slots[i] - kFirstVariable)];
  }
  if (index >= 0) {
    if (std::find(loop_of_bit_.begin(), loop_of_bit_.end(), plan.stmt) == loop_of_bit_.end())
      loop_of_bit_.push_back(plan.stmt);
    const auto at = std::find(loop_of_bit_.begin(), loop_of_bit_.end(), plan.stmt) - loop_of_bit_.begin();
    if (at < 31) deps_[static_cast<size_t>(index)] = uint64_t{1} << (63 - at);
  }

  if (as_while) {
    blocks_.push_back(&inst.blocks[0]);
    Val go_on;
    if (is_for) {
      go_on = ApplyCompare(*this, step_known.integer > 0 ? CompareOp::lt : CompareOp::gt, Val::Tensor(index, true),
                           range[1], plan.at);
    } else {
      go_on = Condition(Eval(*plan.condition), *plan.condition);
    }
    for (const int flag : {kBroken, kReturned}) {
      const Val& v = vars_[static_cast<size_t>(flag)];
      if (!v.tensor() || go_on.poison() || std::find(slots.begin(), slots.end(), flag) == slots.end()) continue;
      const Val left = EmitOp(*this, Op::k_logical_not, {v}, {}, plan.at);
      go_on = go_on.kind == Val::Kind::boolean && go_on.integer != 0 ? left
                                                                     : ApplyLogical(*this, true, left, go_on, plan.at);
    }
    inst.blocks[0].instructions.push_back({Op::k_yield, {OperandOf(go_on)}, {}, {}, {}, inst.loc});
    blocks_.pop_back();
    poison |= go_on.poison();
  }

  blocks_.push_back(&body);
  // A round begins only where the loop was not left.
  for (const int flag : {kSkipped, kBroken, kReturned}) vars_[static_cast<size_t>(flag)] = Val::Boolean(false);
  if (is_for) {
    Val v = Val::Tensor(index, true);
    v.origin = plan.target->span;
    AssignRound(plan, v);
  }
  Statements(plan.body);
  if (Stopped()) {
    blocks_.pop_back();
    return false;
  }

  // What the next round begins with. A leaf that has become of a higher kind begins as that.
  std::vector<ir::Operand> next(leaves.size());
  std::vector<std::pair<TensorType, bool>> wanted;
  for (const Leaf& leaf : leaves) wanted.emplace_back(leaf.type, leaf.weak);
  bool promoted = false, failed = poison;
  Val result_like;
  const std::function<bool(const Val&, const Val&)> close = [&](const Val& was, const Val& is) -> bool {
    if (is.poison()) return failed = true;
    if (was.kind == Val::Kind::tuple) {
      if (is.kind != Val::Kind::tuple || is.items->size() != was.items->size()) return false;
      for (size_t i = 0; i < was.items->size(); ++i)
        if (!close((*was.items)[i], (*is.items)[i])) return false;
      return true;
    }
    if (!was.tensor()) return Same(was, is);
    const auto k = static_cast<size_t>(was.id);
    const Leaf& leaf = leaves[k];
    const auto promote = [&](const TensorType& type, bool weak) {
      wanted[k] = {type, weak};
      return promoted = true;
    };
    if (leaf.weak) {
      if (is.strong()) return TypeOf(is).rank == 0 && promote(TypeOf(is), false);
      if (!IsNumber(is)) return false;
      const DType t = is.tensor()                      ? TypeOf(is).dtype
                      : is.kind == Val::Kind::floating ? DType::f64
                      : is.kind == Val::Kind::boolean  ? DType::boolean
                                                       : DType::i64;
      if (t != leaf.type.dtype && static_cast<int>(KindOf(t)) > static_cast<int>(KindOf(leaf.type.dtype)))
        return promote(ScalarType(t), true);
    } else if (is.strong()) {
      if (!MakeSameType(leaf.type, TypeOf(is))) return false;
    } else if (!IsNumber(is) || leaf.type.rank != 0) {
      return false;
    }
    return Yielded(is, leaf.type, body, &next[k], plan.at) || (failed = true);
  };
  for (size_t i = 0; i < slots.size() && !failed; ++i) {
    const Val is = vars_[static_cast<size_t>(slots[i])];
    if (opened[i].kind == Val::Kind::undefined) {
      if (slots[i] == kResult && is.kind != Val::Kind::undefined) result_like = is;
      continue;
    }
    if (close(opened[i], is)) continue;
    failed = true;
    if (slots[i] < kFirstVariable) {
      diagnostics.Report(Diag::return_conflict, plan.header, ast.Text(def_.name), DescribeVal(*this, inits[i]),
                         DescribeVal(*this, is));
      break;
    }
    const Name name = names_[static_cast<size_t>(slots[i] - kFirstVariable)];
    Val was = inits[i];
    if (is.kind == Val::Kind::undefined) {
      diagnostics.Report(Diag::maybe_undefined, plan.header, ast.Text(name));
    } else {
      Diagnostic& d = diagnostics.Report(Diag::loop_changes_type, plan.header, ast.Text(name), DescribeVal(*this, was),
                                         DescribeVal(*this, is));
      if (is.strong()) {
        d.hint = Cat("begin with a tensor ", TypeText(TypeOf(is)), ", for example by zeros");
        if (is.origin.known()) Diagnostics::Note(d, Diag::note_value, is.origin, DescribeVal(*this, is));
      }
    }
  }
  if (counter != nullptr && !failed) {
    const auto k = leaves.size() - 1;
    const Val following = ApplyBinary(*this, BinaryOp::add, Val::Tensor(index, true), step_known, plan.at);
    failed |= following.poison() || !Yielded(following, leaves[k].type, body, &next[k], plan.at);
  }
  body.instructions.push_back({Op::k_yield, next, {}, {}, {}, inst.loc});
  blocks_.pop_back();

  if (failed) {
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i] >= kFirstVariable) vars_[static_cast<size_t>(slots[i])] = Val::Poison();
    vars_[kReturned] = Val::Boolean(false);
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i] == kResult) vars_[kResult] = Val::Poison(), vars_[kReturned] = Val::Boolean(true);
    return false;
  }
  if (promoted || result_like.kind != Val::Kind::none) {
    // The types are taken before the values they belong to are.
    struct Skeleton {
      Val v;
      TensorType type;
      std::vector<Skeleton> items;
    };
    const std::function<Skeleton(const Val&)> skeleton = [&](const Val& v) {
      Skeleton s;
      s.v = v;
      if (v.tensor()) s.type = TypeOf(v);
      if (v.kind == Val::Kind::tuple)
        for (const Val& item : *v.items) s.items.push_back(skeleton(item));
      return s;
    };
    const Skeleton like = skeleton(result_like);
    roll_back();
    size_t leaf = 0;
    const std::function<Val(const Val&)> raise = [&](const Val& v) -> Val {
      if (v.kind == Val::Kind::tuple) {
        Vals items;
        for (const Val& item : *v.items) items.push_back(raise(item));
        return Val::Tuple(std::move(items), v.is_list);
      }
      if (!IsNumber(v) && !v.tensor()) return v;
      const auto [type, weak] = wanted[leaf++];
      if (v.tensor() && TypeOf(v).dtype == type.dtype && v.weak == weak) return v;
      if (v.number() && weak) {
        if (type.dtype == DType::f64) return Val::Floating(v.as_double());
        return type.dtype == DType::i64 ? Val::Integer(v.integer) : v;
      }
      Val raised = CastTo(*this, v, type.dtype, plan.at);
      raised.weak = weak;
      return raised;
    };
    for (Val& v : inits) v = raise(v);
    const std::function<Val(const Skeleton&)> build = [&](const Skeleton& s) -> Val {
      if (s.v.kind == Val::Kind::tuple) {
        Vals items;
        for (const Skeleton& item : s.items) items.push_back(build(item));
        return Val::Tuple(std::move(items), s.v.is_list);
      }
      if (!s.v.tensor()) return s.v;
      Vals out;
      if (!Emit(Op::k_full, {Val::Integer(0)}, {ir::Ints(s.type.dims, s.type.dims + s.type.rank), s.type.dtype},
                plan.at, &out))
        return Val::Poison();
      out[0].weak = s.v.weak;
      return out[0];
    };
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i] == kResult && inits[i].kind == Val::Kind::undefined && result_like.kind != Val::Kind::none)
        inits[i] = build(like);
    for (size_t i = 0; i < slots.size(); ++i) vars_[static_cast<size_t>(slots[i])] = inits[i];
    *retry = true;
    return false;
  }
  for (const Leaf& leaf : leaves) inst.results.push_back(NewValue(leaf.type));
  for (size_t i = 0; i < slots.size(); ++i) {
    Val after = bind(opened[i], true);
    if (after.kind == Val::Kind::undefined) {
      after.origin = plan.header;
      after.text = plan.word;
    }
    vars_[static_cast<size_t>(slots[i])] = after;
  }
  Push(std::move(inst));
  return true;
}

}  // namespace tessera::lang
