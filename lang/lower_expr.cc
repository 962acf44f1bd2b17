// Expressions of functions. What they mean is in lang/rules.h; here they are walked.
#include "lang/lower_impl.h"
#include "lang/text.h"

namespace tessera::lang {

using ir::Op;

Val FunctionLowering::Eval(const Expr& e) {
  if (Stopped()) return Val::Poison();
  switch (e.kind) {
    case ExprKind::error: return Val::Poison();
    case ExprKind::name: return EvalName(As<NameExpr>(e));
    case ExprKind::integer: return Val::Integer(As<IntegerExpr>(e).value);
    case ExprKind::floating: return Val::Floating(As<FloatingExpr>(e).value);
    case ExprKind::boolean: return Val::Boolean(As<BooleanExpr>(e).value);
    case ExprKind::string: return Val::String(As<StringExpr>(e).value);
    case ExprKind::none: return Val::None();
    case ExprKind::ellipsis: return Val::Of(Val::Kind::ellipsis);
    case ExprKind::tuple:
    case ExprKind::list: {
      Vals items;
      bool poison = false;
      for (const Expr* item : As<TupleExpr>(e).items) {
        items.push_back(Eval(*item));
        poison |= items.back().poison();
      }
      if (poison) return Val::Poison();
      Val tuple = Val::Tuple(std::move(items), e.kind == ExprKind::list);
      return TooLarge(*this, tuple, e) ? Val::Poison() : tuple;
    }
    case ExprKind::dict: diagnostics.Report(Diag::dict_outside_decorator, e.span); return Val::Poison();
    case ExprKind::unary: {
      const auto& u = As<UnaryExpr>(e);
      Val v = Eval(*u.operand);
      return ApplyUnary(*this, u.op, v, e);
    }
    case ExprKind::binary: {
      const auto& b = As<BinaryExpr>(e);
      const Val left = Eval(*b.left);
      const Val right = Eval(*b.right);
      return ApplyBinary(*this, b.op, left, right, e);
    }
    case ExprKind::logical: return EvalLogical(As<LogicalExpr>(e));
    case ExprKind::compare: return EvalCompare(As<CompareExpr>(e));
    case ExprKind::conditional: return EvalConditional(As<ConditionalExpr>(e));
    case ExprKind::call: return EvalCall(As<CallExpr>(e));
    case ExprKind::attribute: {
      const auto& a = As<AttributeExpr>(e);
      return ApplyAttribute(*this, Eval(*a.object), a);
    }
    case ExprKind::index: {
      const auto& x = As<IndexExpr>(e);
      const Val object = Eval(*x.object);
      std::vector<IndexItem> items;
      if (!EvalItems(x, &items) || object.poison()) return Val::Poison();
      return ApplyIndex(*this, object, items, e);
    }
    case ExprKind::slice: break;
  }
  return Val::Poison();
}

bool FunctionLowering::EvalItems(const IndexExpr& e, std::vector<IndexItem>* items) {
  bool good = true;
  const auto add = [&](Val v, const Expr& at) {
    good &= !v.poison();
    IndexItem& item = items->emplace_back();
    item.value = std::move(v);
    item.at = &at;
  };
  for (const Expr* part : e.items) {
    if (part->kind != ExprKind::slice) {
      Val v = Eval(*part);
      // x[(i, j)] is x[i, j]; a list is an index tensor in NumPy, and is not taken for one here.
      if (v.kind == Val::Kind::tuple && !v.is_list && e.items.size() == 1) {
        for (const Val& item : *v.items) add(item, *part);
      } else {
        add(std::move(v), *part);
      }
      continue;
    }
    const auto& s = As<SliceExpr>(*part);
    IndexItem item;
    item.kind = IndexItem::Kind::slice;
    item.at = part;
    if (s.start != nullptr) item.start = Eval(*s.start);
    if (s.stop != nullptr) item.stop = Eval(*s.stop);
    if (s.step != nullptr) item.step = Eval(*s.step);
    good &= !item.start.poison() && !item.stop.poison() && !item.step.poison();
    items->push_back(std::move(item));
  }
  return good;
}

int FunctionLowering::SlotOf(Name name) const {
  for (const auto& [id, slot] : slots_)
    if (id == name.id) return slot;
  return -1;
}

Val FunctionLowering::EvalName(const NameExpr& e) {
  const int slot = SlotOf(e.name);
  if (slot < 0) {
    Desc desc;
    if (scope_.Lookup(e.name, &desc)) return Global(scope_, e.name, e);
    const void*& builtin = ast.note(e.name);
    if (builtin != nullptr) {
      Val v = Val::Of(Val::Kind::builtin);
      v.builtin = static_cast<const Builtin*>(builtin);
      return v;
    }
    const std::string_view text = ast.Text(e.name);
    Val v = LanguageName(text);
    if (v.kind == Val::Kind::builtin) builtin = v.builtin;
    if (!v.poison()) return v;
    std::vector<std::string_view> names;
    for (Name n : names_) names.push_back(ast.Text(n));
    scope_.Names(&names);
    for (const Builtin* b : AllBuiltins()) names.push_back(b->name);
    diagnostics.Report(Diag::unknown_name, e.span, text).hint = DidYouMean(text, names);
    return v;
  }
  const Val& v = vars_[static_cast<size_t>(slot)];
  if (v.kind != Val::Kind::undefined) return v;
  const std::string_view text = ast.Text(e.name);
  if (v.items == nullptr) {
    diagnostics.Report(v.origin.known() ? Diag::maybe_undefined : Diag::used_before_assignment, e.span, text);
    Diagnostic& d = const_cast<Diagnostic&>(diagnostics.all().back());
    if (v.origin.known()) {
      if (v.text == "for" || v.text == "while") {
        Diagnostics::Note(d, Diag::note_loop_without, v.origin);
      } else {
        Diagnostics::Note(d, Diag::note_branch_without, v.origin, v.text);
      }
    }
  } else {
    Diagnostic& d = diagnostics.Report(Diag::conflicting_types, e.span, text, DescribeVal(*this, (*v.items)[0]),
                                       DescribeVal(*this, (*v.items)[1]));
    Diagnostics::Note(d, Diag::note_conflict, v.origin, v.text);
  }
  vars_[static_cast<size_t>(slot)] = Val::Poison();
  return Val::Poison();
}

Val FunctionLowering::EvalLogical(const LogicalExpr& e) {
  const Val left = Eval(*e.left);
  if (left.poison()) return left;
  bool known;
  if (KnownTruth(left, &known) && known != e.is_and) return left;
  const Val right = Eval(*e.right);
  return ApplyLogical(*this, e.is_and, left, right, e);
}

Val FunctionLowering::EvalCompare(const CompareExpr& e) {
  Val left = Eval(*e.operands[0]);
  Val all;
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Val right = Eval(*e.operands[i + 1]);
    Val one = ApplyCompare(*this, e.ops[i], left, right, e);
    if (one.poison()) return one;
    all = i == 0 ? one : ApplyLogical(*this, true, all, one, e);
    if (all.poison()) return all;
    left = std::move(right);
  }
  return all;
}

Val FunctionLowering::Condition(const Val& v, const Expr& at) {
  if (v.poison()) return v;
  bool known;
  if (KnownTruth(v, &known)) return Val::Boolean(known);
  if (!v.tensor()) {
    diagnostics.Report(Diag::condition_not_bool, at.span, DescribeVal(*this, v));
    return Val::Poison();
  }
  const TensorType& type = TypeOf(v);
  if (type.rank != 0) {
    diagnostics.Report(Diag::condition_not_scalar, at.span, DescribeVal(*this, v)).hint =
        "any(x) and all(x) make one of many; where(c, a, b) chooses for each element";
    return Val::Poison();
  }
  if (type.dtype == DType::boolean) return v;
  return EmitOp(*this, Op::k_ne, {v, Val::Integer(0)}, {}, at);
}

Val FunctionLowering::EvalConditional(const ConditionalExpr& e) {
  const Val condition = Condition(Eval(*e.condition), *e.condition);
  if (condition.poison()) return condition;
  if (condition.kind == Val::Kind::boolean) return Eval(condition.integer != 0 ? *e.then_value : *e.else_value);
  // The value is a variable that both blocks set.
  const int slot = static_cast<int>(vars_.size());
  vars_.push_back(Val::None());
  names_.emplace_back();
  Branch(
      condition, {slot}, [&] { vars_[static_cast<size_t>(slot)] = Eval(*e.then_value); },
      [&] { vars_[static_cast<size_t>(slot)] = Eval(*e.else_value); }, "if", e.span);
  Val v = std::move(vars_.back());
  vars_.pop_back();
  names_.pop_back();
  if (v.kind == Val::Kind::undefined && v.items != nullptr) {
    diagnostics.Report(Diag::conflicting_types, e.span, "the value", DescribeVal(*this, (*v.items)[0]),
                       DescribeVal(*this, (*v.items)[1]));
    return Val::Poison();
  }
  return v;
}

Val FunctionLowering::EvalCall(const CallExpr& e) {
  const Val callee = Eval(*e.callee);
  CallArgs args;
  args.call = &e;
  args.values = TakeList();
  bool poison = callee.poison(), named = false;
  args.values.reserve(e.args.size());
  for (const Argument& a : e.args) {
    args.values.push_back(Eval(*a.value));
    poison |= args.values.back().poison();
    named |= a.name.id != 0;
  }
  if (poison) return Val::Poison();
  if (named)
    for (const Argument& a : e.args) args.names.push_back(a.name);
  if (callee.kind == Val::Kind::builtin) {
    Val v = ApplyBuiltin(*this, callee, args, e);
    GiveList(std::move(args.values));
    return v;
  }
  if (callee.kind == Val::Kind::function) return CallFunction(callee, args, e);
  diagnostics.Report(Diag::not_callable, e.callee->span, DescribeVal(*this, callee));
  return Val::Poison();
}

}  // namespace tessera::lang
