// Statements of functions.
#include "lang/lower_impl.h"
#include "lang/text.h"

namespace tessera::lang {

using ir::Op;

// ---- variables

void FunctionLowering::AddVariable(Name name) {
  if (SlotOf(name) >= 0) return;
  slots_.emplace_back(name.id, static_cast<int>(vars_.size()));
  names_.resize(vars_.size() - kFirstVariable + 1);
  names_.back() = name;
  vars_.push_back(Val::Of(Val::Kind::undefined));
}

namespace {

template <class F>
void EachTarget(const Expr& target, const F& f) {
  switch (target.kind) {
    case ExprKind::name: f(As<NameExpr>(target).name); break;
    case ExprKind::index: EachTarget(*As<IndexExpr>(target).object, f); break;
    case ExprKind::tuple:
    case ExprKind::list:
      for (const Expr* item : As<TupleExpr>(target).items) EachTarget(*item, f);
      break;
    default: break;
  }
}

}  // namespace

void FunctionLowering::FindVariables(Block body) {
  const auto add = [this](Name name) { AddVariable(name); };
  for (const Stmt* s : body) {
    switch (s->kind) {
      case StmtKind::assign:
        for (const Expr* t : As<AssignStmt>(*s).targets) EachTarget(*t, add);
        break;
      case StmtKind::aug_assign: EachTarget(*As<AugAssignStmt>(*s).target, add); break;
      case StmtKind::if_:
        for (const IfStmt::Branch& b : As<IfStmt>(*s).branches) FindVariables(b.body);
        FindVariables(As<IfStmt>(*s).else_body);
        break;
      case StmtKind::while_: FindVariables(As<WhileStmt>(*s).body); break;
      case StmtKind::for_:
        EachTarget(*As<ForStmt>(*s).target, add);
        FindVariables(As<ForStmt>(*s).body);
        break;
      default: break;
    }
  }
}

void FunctionLowering::ChangedTarget(const Expr& target, std::vector<int>* slots) {
  if (marks_.size() < vars_.size()) marks_.resize(vars_.size(), 0);
  EachTarget(target, [&](Name name) {
    const int slot = SlotOf(name);
    if (slot < 0 || marks_[static_cast<size_t>(slot)] == mark_) return;
    marks_[static_cast<size_t>(slot)] = mark_;
    slots->push_back(slot);
  });
}

// The caller counts mark_ up first. `in_loop`: break and continue belong to a loop within the statements.
void FunctionLowering::Changed(Block body, std::vector<int>* slots, bool in_loop) {
  if (marks_.size() < vars_.size()) marks_.resize(vars_.size(), 0);
  const auto add = [&](int slot) {
    if (marks_[static_cast<size_t>(slot)] == mark_) return;
    marks_[static_cast<size_t>(slot)] = mark_;
    slots->push_back(slot);
  };
  for (const Stmt* s : body) {
    switch (s->kind) {
      case StmtKind::assign:
        for (const Expr* t : As<AssignStmt>(*s).targets) ChangedTarget(*t, slots);
        break;
      case StmtKind::aug_assign: ChangedTarget(*As<AugAssignStmt>(*s).target, slots); break;
      case StmtKind::if_:
        for (const IfStmt::Branch& b : As<IfStmt>(*s).branches) Changed(b.body, slots, in_loop);
        Changed(As<IfStmt>(*s).else_body, slots, in_loop);
        break;
      case StmtKind::while_: Changed(As<WhileStmt>(*s).body, slots, true); break;
      case StmtKind::for_:
        ChangedTarget(*As<ForStmt>(*s).target, slots);
        Changed(As<ForStmt>(*s).body, slots, true);
        break;
      case StmtKind::return_: add(kReturned), add(kResult); break;
      case StmtKind::break_:
        if (!in_loop) add(kBroken);
        break;
      case StmtKind::continue_:
        if (!in_loop) add(kSkipped);
        break;
      default: break;
    }
  }
}

// ---- statements

Val FunctionLowering::Exited(const Expr& at) {
  Val exited = Val::Boolean(false);
  for (const int slot : {kReturned, kBroken, kSkipped}) {
    const Val& v = vars_[static_cast<size_t>(slot)];
    if (v.poison()) return v;
    exited = ApplyLogical(*this, false, exited, v, at);
  }
  return exited;
}

void FunctionLowering::Statements(Block body) {
  for (size_t i = 0; i < body.size() && !Stopped(); ++i) {
    const Stmt& s = *body[i];
    const Block rest = body.subspan(i + 1);
    if (s.kind == StmtKind::if_) {
      if (If(As<IfStmt>(s), 0, rest)) return;
    } else {
      Statement(s);
    }
    const bool simple = s.kind == StmtKind::assign || s.kind == StmtKind::aug_assign || s.kind == StmtKind::expr ||
                        s.kind == StmtKind::pass || s.kind == StmtKind::assert_;
    if (simple || rest.empty()) continue;
    const Expr at{ExprKind::none, 1, s.span};
    const Val exited = Exited(at);
    if (exited.poison()) return;
    if (exited.kind == Val::Kind::boolean) {
      if (exited.integer != 0) return;  // nothing comes here any more
      continue;
    }
    Unless(exited, rest, s.span);
    return;
  }
}

void FunctionLowering::Unless(const Val& exited, Block rest, Span span) {
  const Expr at{ExprKind::none, 1, span};
  // If nothing but a return leads past these statements, whoever passes them has returned.
  const bool only_return = exited.tensor() && vars_[kReturned].tensor() && exited.id == vars_[kReturned].id;
  std::vector<int> slots;
  ++mark_;
  Changed(rest, &slots);
  Branch(
      EmitOp(*this, Op::k_logical_not, {exited}, {}, at), std::move(slots), [&] { Statements(rest); },
      [&] {
        if (only_return) vars_[kReturned] = Val::Boolean(true);
      },
      "if", span);
}

void FunctionLowering::Statement(const Stmt& s) {
  if (!CountWork()) return;
  switch (s.kind) {
    case StmtKind::error:
    case StmtKind::pass: break;
    case StmtKind::expr: {
      const Expr& e = *As<ExprStmt>(s).value;
      // A string by itself is a comment; a value by itself is most likely a mistake.
      if (e.kind == ExprKind::string || e.kind == ExprKind::ellipsis) break;
      const Val v = Eval(e);
      if (e.kind != ExprKind::call && !v.poison()) diagnostics.Report(Diag::discarded_value, e.span);
      break;
    }
    case StmtKind::assign: AssignStatement(As<AssignStmt>(s)); break;
    case StmtKind::aug_assign: AugAssign(As<AugAssignStmt>(s)); break;
    case StmtKind::if_: break;  // Statements() does those
    case StmtKind::while_:
    case StmtKind::for_: Loop(s); break;
    case StmtKind::def:
    case StmtKind::import: diagnostics.Report(Diag::statement_in_function, s.span, "import"); break;
    case StmtKind::return_: {
      const auto& r = As<ReturnStmt>(s);
      vars_[kResult] = r.value != nullptr ? Eval(*r.value) : Val::None();
      if (!vars_[kResult].origin.known() || r.value != nullptr) vars_[kResult].origin = s.span;
      vars_[kReturned] = Val::Boolean(true);
      break;
    }
    case StmtKind::break_: vars_[kBroken] = Val::Boolean(true); break;
    case StmtKind::continue_: vars_[kSkipped] = Val::Boolean(true); break;
    case StmtKind::assert_: Assert(As<AssertStmt>(s)); break;
  }
}

void FunctionLowering::Assign(const Expr& target, const Val& v, const Expr& at) {
  switch (target.kind) {
    case ExprKind::name: {
      const int slot = SlotOf(As<NameExpr>(target).name);
      if (v.tensor() && value_names_[static_cast<size_t>(v.id)].id == 0)
        value_names_[static_cast<size_t>(v.id)] = As<NameExpr>(target).name;
      vars_[static_cast<size_t>(slot)] = v;
      break;
    }
    case ExprKind::index: {
      const auto& x = As<IndexExpr>(target);
      const Val object = Eval(*x.object);
      std::vector<IndexItem> items;
      if (!EvalItems(x, &items) || object.poison() || v.poison()) break;
      Assign(*x.object, ApplySetIndex(*this, object, items, v, target), target);
      break;
    }
    case ExprKind::tuple:
    case ExprKind::list: {
      const Exprs names = As<TupleExpr>(target).items;
      if (v.poison()) {
        for (const Expr* name : names) Assign(*name, v, at);
        break;
      }
      Vals parts;
      if (v.kind == Val::Kind::tuple) {
        parts = *v.items;
      } else if (v.strong() && TypeOf(v).rank > 0) {
        // The rows of a tensor, if there are as many as names.
        Val rows = Val::Dim(TypeOf(v).dims[0]);
        if (rows.kind == Val::Kind::dim && !Know(&rows, "the number of rows", at)) break;
        for (int64_t i = 0; i < rows.integer && i < 1000; ++i) {
          IndexItem item;
          item.value = Val::Integer(i);
          item.at = &at;
          parts.push_back(ApplyIndex(*this, v, {&item, 1}, at));
        }
      } else {
        diagnostics.Report(Diag::unpack_kind, at.span, DescribeVal(*this, v));
        for (const Expr* name : names) Assign(*name, Val::Poison(), at);
        break;
      }
      if (parts.size() != names.size()) {
        diagnostics.Report(Diag::unpack_count, target.span, names.size(), parts.size());
        parts.assign(names.size(), Val::Poison());
      }
      for (size_t i = 0; i < names.size(); ++i) Assign(*names[i], parts[i], at);
      break;
    }
    default:
      if (!v.poison()) diagnostics.Report(Diag::eval_assign_index, target.span);
      break;
  }
}

void FunctionLowering::AssignStatement(const AssignStmt& s) {
  TypeExpr type;
  const bool typed = s.annotation == nullptr || ReadType(s.annotation, ast, diagnostics, &type);
  if (s.value == nullptr) return;
  Val v = Eval(*s.value);
  if (!v.poison() && s.annotation != nullptr) {
    if (!typed || !CheckResult(type, &v, s.value->span) || !SetShard(v, type)) v = Val::Poison();
  }
  for (const Expr* target : s.targets) Assign(*target, v, *s.value);
}

void FunctionLowering::AugAssign(const AugAssignStmt& s) {
  // Where a message points to: the operator with both sides.
  auto* at = ast.arena().New<BinaryExpr>(BinaryExpr{{ExprKind::binary, 1, s.span}, s.op, s.op_span, s.target, s.value});
  const Val value = Eval(*s.value);
  if (s.target->kind == ExprKind::name) {
    const Val old = EvalName(As<NameExpr>(*s.target));
    return Assign(*s.target, ApplyBinary(*this, s.op, old, value, *at), *s.value);
  }
  const auto& x = As<IndexExpr>(*s.target);
  const Val object = Eval(*x.object);
  std::vector<IndexItem> items;
  if (!EvalItems(x, &items) || object.poison() || value.poison()) return;
  const Val old = ApplyIndex(*this, object, items, x);
  const Val next = ApplyBinary(*this, s.op, old, value, *at);
  if (next.poison()) return;
  Assign(*x.object, ApplySetIndex(*this, object, items, next, x), *s.value);
}

void FunctionLowering::Assert(const AssertStmt& s) {
  const Val condition = Condition(Eval(*s.condition), *s.condition);
  if (condition.poison()) return;
  std::string text;
  if (s.message != nullptr) {
    const Val message = Eval(*s.message);
    if (message.poison()) return;
    text = message.kind == Val::Kind::string ? std::string(message.text) : DescribeVal(*this, message);
  } else {
    text = Cat(module_.sources.TextOf(s.condition->span), " does not hold");
  }
  if (condition.kind == Val::Kind::boolean && condition.integer != 0) return;
  const Position at = module_.sources.PositionOf(s.span.begin);
  const std::string label =
      Cat(kAssertLabel, at.file != nullptr ? at.file->name() : std::string(), ":", at.line, ":", at.column, ": ", text);
  const auto fail = [&] { Push({Op::k_host_read, {OperandOf(Val::Boolean(false))}, {label}, {}, {}, LocOf(s.span)}); };
  if (condition.kind == Val::Kind::boolean) return fail();
  Branch(condition, {}, [] {}, fail, "assert", s.span);
}

}  // namespace tessera::lang
