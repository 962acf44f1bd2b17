// Expressions of the top level.
#include "lang/eval.h"
#include "lang/text.h"

namespace tessera::lang {

bool Evaluator::EvaluateAny(const Expr& e, Value* out) {
  switch (e.kind) {
    case ExprKind::error: return false;
    case ExprKind::name: return EvaluateName(As<NameExpr>(e), out);
    case ExprKind::integer: *out = Value(As<IntegerExpr>(e).value); return true;
    case ExprKind::floating: *out = Value(As<FloatingExpr>(e).value); return true;
    case ExprKind::boolean: *out = Value(As<BooleanExpr>(e).value); return true;
    case ExprKind::string: *out = Value::String(std::string(As<StringExpr>(e).value)); return true;
    case ExprKind::none: *out = Value(); return true;
    case ExprKind::ellipsis: *out = Value(Ellipsis()); return true;
    case ExprKind::tuple:
    case ExprKind::list: {
      std::vector<Value> values;
      if (!EvaluateItems(As<TupleExpr>(e).items, &values)) return false;
      *out = Value::Tuple(std::move(values), e.kind == ExprKind::list);
      return true;
    }
    case ExprKind::dict: return Report(Diag::dict_outside_decorator, e.span);
    case ExprKind::unary: {
      const auto& u = As<UnaryExpr>(e);
      Value x;
      if (!Evaluate(*u.operand, &x)) return false;
      if (bool truth = false; u.op == UnaryOp::logical_not && (x.tensor() == nullptr || x.tensor()->size() == 1)) {
        if (!TruthOf(x, u.operand->span, &truth)) return false;
        *out = Value(!truth);
        return true;
      }
      const EagerMachine::Scope scope(machine_);
      return machine_.Out(ApplyUnary(machine_, u.op, machine_.In(x), e), out);
    }
    case ExprKind::binary: {
      const auto& b = As<BinaryExpr>(e);
      Value left, right;
      return Evaluate(*b.left, &left) && Evaluate(*b.right, &right) && Binary(e, b.op, left, right, out);
    }
    case ExprKind::logical: return Logical(As<LogicalExpr>(e), out);
    case ExprKind::compare: return Compare(As<CompareExpr>(e), out);
    case ExprKind::conditional: {
      const auto& c = As<ConditionalExpr>(e);
      bool taken = false;
      return Condition(*c.condition, &taken) && Evaluate(taken ? *c.then_value : *c.else_value, out);
    }
    case ExprKind::call: return Call(As<CallExpr>(e), out);
    case ExprKind::attribute: {
      const auto& a = As<AttributeExpr>(e);
      Value object;
      if (!Evaluate(*a.object, &object)) return false;
      const EagerMachine::Scope scope(machine_);
      return machine_.Out(ApplyAttribute(machine_, machine_.In(object), a), out);
    }
    case ExprKind::index: return Index(As<IndexExpr>(e), out);
    case ExprKind::slice: return false;  // the parser has refused it
  }
  return false;
}

bool Evaluator::EvaluateItems(Exprs items, std::vector<Value>* out) {
  out->reserve(items.size());
  for (const Expr* item : items) {
    out->emplace_back();
    if (!Evaluate(*item, &out->back())) return false;
  }
  return true;
}

bool Evaluator::EvaluateName(const NameExpr& e, Value* out) {
  if (const Value* value = scope_.Find(e.name)) {
    *out = *value;
    return true;
  }
  const std::string_view name = ast_.Text(e.name);
  if (const Val known = LanguageName(name); !known.poison()) return machine_.Out(known, out);
  Diagnostic& d = host_.diagnostics().Report(Diag::unknown_name, e.span, name);
  std::vector<std::string_view> names;
  for (const Builtin* b : AllBuiltins()) names.push_back(b->name);
  scope_.Names(&names);
  d.hint = DidYouMean(name, names);
  return false;
}

bool Evaluator::Binary(const Expr& at, BinaryOp op, const Value& a, const Value& b, Value* out) {
  // Strings that are made while a program runs belong to its values: the rules keep theirs for good.
  if (const std::string *x = a.string(), *y = b.string(); op == BinaryOp::add && x != nullptr && y != nullptr) {
    if (x->size() + y->size() > kMaxItems) return Report(Diag::too_many_items, at.span, kMaxItems);
    *out = Value::String(*x + *y);
    return true;
  }
  const EagerMachine::Scope scope(machine_);
  const Val left = machine_.In(a), right = machine_.In(b);
  return machine_.Out(ApplyBinary(machine_, op, left, right, at), out);
}

// As in Python where the left side is one value; element by element where it is a tensor of several.
bool Evaluator::Logical(const LogicalExpr& e, Value* out) {
  Value left;
  if (!Evaluate(*e.left, &left)) return false;
  if (const Tensor* x = left.tensor(); x != nullptr && x->size() != 1) {
    Value right;
    if (!Evaluate(*e.right, &right)) return false;
    const EagerMachine::Scope scope(machine_);
    const Val a = machine_.In(left), b = machine_.In(right);
    return machine_.Out(ApplyLogical(machine_, e.is_and, a, b, e), out);
  }
  bool truth = false;
  if (!TruthOf(left, e.left->span, &truth)) return false;
  if (truth == e.is_and) return Evaluate(*e.right, out);
  *out = std::move(left);
  return true;
}

// a < b < c is a < b and b < c, with b evaluated once.
bool Evaluator::Compare(const CompareExpr& e, Value* out) {
  Value left, so_far;
  if (!Evaluate(*e.operands[0], &left)) return false;
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right, answer;
    if (!Evaluate(*e.operands[i + 1], &right)) return false;
    {
      const EagerMachine::Scope scope(machine_, static_cast<int>(2 * i));
      const Val a = machine_.In(left), b = machine_.In(right);
      if (!machine_.Out(ApplyCompare(machine_, e.ops[i], a, b, e), &answer)) return false;
      if (so_far.tensor() != nullptr) {
        const Val before = machine_.In(so_far), now = machine_.In(answer);
        if (!machine_.Out(ApplyLogical(machine_, true, before, now, e), &answer)) return false;
      }
    }
    so_far = std::move(answer);
    if (i + 1 == e.ops.size()) break;
    if (const Tensor* x = so_far.tensor(); x == nullptr || x->size() == 1) {
      bool truth = false;
      if (!TruthOf(so_far, e.span, &truth)) return false;
      if (!truth) break;
      so_far = Value(true);
    }
    left = std::move(right);
  }
  *out = std::move(so_far);
  return true;
}

bool Evaluator::ReadIndex(Exprs items, std::vector<IndexItem>* out, std::vector<Value>* keep) {
  for (const Expr* e : items) {
    IndexItem item;
    item.at = e;
    if (e->kind == ExprKind::slice) {
      const auto& s = As<SliceExpr>(*e);
      item.kind = IndexItem::Kind::slice;
      for (const Expr* part : {s.start, s.stop, s.step}) {
        keep->emplace_back();
        if (part != nullptr && !Evaluate(*part, &keep->back())) return false;
      }
    } else {
      keep->emplace_back();
      if (!Evaluate(*e, &keep->back())) return false;
    }
    out->push_back(std::move(item));
  }
  return true;
}

namespace {

// The values of ReadIndex, in their order, as the machine sees them.
void FillIndex(EagerMachine& machine, const std::vector<Value>& values, std::vector<IndexItem>* items) {
  size_t next = 0;
  for (IndexItem& item : *items) {
    if (item.kind == IndexItem::Kind::value) {
      item.value = machine.In(values[next++]);
      continue;
    }
    item.start = machine.In(values[next++]);
    item.stop = machine.In(values[next++]);
    item.step = machine.In(values[next++]);
  }
}

}  // namespace

bool Evaluator::Index(const IndexExpr& e, Value* out) {
  Value object;
  std::vector<IndexItem> items;
  std::vector<Value> values;
  if (!Evaluate(*e.object, &object) || !ReadIndex(e.items, &items, &values)) return false;
  const EagerMachine::Scope scope(machine_);
  FillIndex(machine_, values, &items);
  return machine_.Out(ApplyIndex(machine_, machine_.In(object), items, e), out);
}

bool Evaluator::AssignIndex(const IndexExpr& target, const Value& value) {
  if (target.object->kind != ExprKind::name) return Report(Diag::eval_assign_index, target.object->span);
  Value object, updated;
  std::vector<IndexItem> items;
  std::vector<Value> values;
  if (!EvaluateName(As<NameExpr>(*target.object), &object) || !ReadIndex(target.items, &items, &values)) return false;
  {
    const EagerMachine::Scope scope(machine_);
    FillIndex(machine_, values, &items);
    const Val x = machine_.In(object), v = machine_.In(value);
    if (!machine_.Out(ApplySetIndex(machine_, x, items, v, target), &updated)) return false;
  }
  scope_.Set(As<NameExpr>(*target.object).name, std::move(updated));
  return true;
}

bool Evaluator::Row(const Expr& at, const Value& x, int64_t i, Value* out) {
  IndexItem item;
  item.at = &at;
  item.value = Val::Integer(i);
  const EagerMachine::Scope scope(machine_);
  return machine_.Out(ApplyIndex(machine_, machine_.In(x), {&item, 1}, at), out);
}

bool Evaluator::Call(const CallExpr& e, Value* out) {
  Value callee;
  if (!Evaluate(*e.callee, &callee)) return false;
  const auto* function = callee.As<FunctionValue>();
  if (function == nullptr && callee.As<BuiltinValue>() == nullptr) {
    Diagnostic& d = host_.diagnostics().Report(Diag::not_callable, e.callee->span, callee.Describe());
    if (const auto* dtype = callee.As<DType>()) d.hint = Cat("x.astype(", tessera::Name(*dtype), ") converts a tensor");
    return false;
  }
  std::vector<Value> args(e.args.size());
  for (size_t i = 0; i < args.size(); ++i)
    if (!Evaluate(*e.args[i].value, &args[i])) return false;
  if (function != nullptr) return host_.Call(*function, e, args, out);
  const EagerMachine::Scope scope(machine_);
  CallArgs given;
  given.call = &e;
  bool named = false;
  for (size_t i = 0; i < args.size(); ++i) {
    given.values.push_back(machine_.In(args[i]));
    given.names.push_back(e.args[i].name);
    named |= e.args[i].name.id != 0;
  }
  if (!named) given.names.clear();
  return machine_.Out(ApplyBuiltin(machine_, machine_.In(callee), given, e), out);
}

}  // namespace tessera::lang
