// Statements of the top level.
#include <mutex>
#include <set>

#include "interp/interrupt.h"
#include "lang/eval.h"
#include "lang/text.h"

namespace tessera::lang {

const char* InternFileName(std::string_view name) {
  static auto* const mutex = new std::mutex;
  static auto* const names = new std::set<std::string, std::less<>>;
  std::lock_guard lock(*mutex);
  auto it = names->find(name);
  if (it == names->end()) it = names->emplace(name).first;
  return it->c_str();
}

bool Evaluator::Interrupted(Span span) {
  if (!interp::Interrupted()) [[likely]]
    return false;
  Report(Diag::eval_interrupted, span);
  return true;
}

bool Evaluator::Run(const Program& program, Value* last) {
  last_ = Value();
  for (const Stmt* s : program.body) {
    host_.BeginStatement();
    const Flow flow = RunStatement(*s);
    host_.EndStatement();
    if (flow == Flow::failed) return false;
    if (s->kind != StmtKind::expr) last_ = Value();
  }
  *last = std::move(last_);
  return true;
}

Evaluator::Flow Evaluator::RunBlock(Block body) {
  for (const Stmt* s : body) {
    const Flow flow = RunStatement(*s);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Evaluator::Flow Evaluator::RunStatement(const Stmt& s) {
  if (Interrupted(s.span)) return Flow::failed;
  const auto done = [](bool ok) { return ok ? Flow::next : Flow::failed; };
  switch (s.kind) {
    case StmtKind::error: return Flow::failed;
    case StmtKind::expr: return done(Evaluate(*As<ExprStmt>(s).value, &last_));
    case StmtKind::assign: {
      const auto& assign = As<AssignStmt>(s);
      if (assign.value == nullptr) return Flow::next;
      Value value;
      if (!Evaluate(*assign.value, &value)) return Flow::failed;
      for (size_t i = 0; i + 1 < assign.targets.size(); ++i)
        if (!Assign(*assign.targets[i], value)) return Flow::failed;
      return done(Assign(*assign.targets.back(), std::move(value)));
    }
    case StmtKind::aug_assign: return done(AugAssign(As<AugAssignStmt>(s)));
    case StmtKind::if_: {
      const auto& choice = As<IfStmt>(s);
      for (const IfStmt::Branch& branch : choice.branches) {
        bool taken = false;
        if (!Condition(*branch.condition, &taken)) return Flow::failed;
        if (taken) return RunBlock(branch.body);
      }
      return RunBlock(choice.else_body);
    }
    case StmtKind::while_: return RunWhile(As<WhileStmt>(s));
    case StmtKind::for_: return RunFor(As<ForStmt>(s));
    case StmtKind::def: {
      const auto& def = As<FunctionDef>(s);
      if (!host_.Define(def, scope_)) return Flow::failed;
      scope_.Set(def.name, Value(FunctionValue{&def, &scope_}));
      return Flow::next;
    }
    case StmtKind::break_: return Flow::break_;
    case StmtKind::continue_: return Flow::continue_;
    // The parser refuses it outside a function.
    case StmtKind::return_:
    case StmtKind::pass: return Flow::next;
    case StmtKind::import: return done(RunImport(As<ImportStmt>(s)));
    case StmtKind::assert_: {
      const auto& check = As<AssertStmt>(s);
      bool holds = false;
      if (!Condition(*check.condition, &holds)) return Flow::failed;
      if (holds) return Flow::next;
      std::string text;
      if (Value message; check.message != nullptr) {
        if (!Evaluate(*check.message, &message)) return Flow::failed;
        auto shown = Format(message, false);
        text = shown.ok() ? Cat(": ", *shown) : "";
      }
      return done(Report(Diag::eval_assert, check.condition->span, text));
    }
  }
  return Flow::next;
}

bool Evaluator::TruthOf(const Value& value, Span span, bool* out) {
  auto truth = Truth(value);
  if (!truth.ok()) {
    return absl::IsInvalidArgument(truth.status()) ? Report(Diag::condition_not_scalar, span, value.Describe())
                                                   : machine_.Fail(truth.status(), span);
  }
  *out = *truth;
  return true;
}

bool Evaluator::Condition(const Expr& e, bool* out) {
  Value value;
  return Evaluate(e, &value) && TruthOf(value, e.span, out);
}

Evaluator::Flow Evaluator::RunWhile(const WhileStmt& s) {
  for (;;) {
    if (Interrupted(s.header)) return Flow::failed;
    bool more = false;
    if (!Condition(*s.condition, &more)) return Flow::failed;
    if (!more) return Flow::next;
    host_.iterations.fetch_add(1, std::memory_order_relaxed);
    const Flow flow = RunBlock(s.body);
    if (flow == Flow::failed) return flow;
    if (flow == Flow::break_) return Flow::next;
  }
}

Evaluator::Flow Evaluator::Iterate(const ForStmt& s, Value item, bool* stop) {
  if (Interrupted(s.header)) return Flow::failed;
  host_.iterations.fetch_add(1, std::memory_order_relaxed);
  if (!Assign(*s.target, std::move(item))) return Flow::failed;
  const Flow flow = RunBlock(s.body);
  *stop = flow == Flow::break_ || flow == Flow::failed;
  return flow == Flow::failed ? flow : Flow::next;
}

Evaluator::Flow Evaluator::RunFor(const ForStmt& s) {
  Value over;
  if (!Evaluate(*s.iterable, &over)) return Flow::failed;
  bool stop = false;
  Flow flow = Flow::next;
  if (const auto* range = over.As<Range>()) {
    const int64_t count = range->size();
    for (int64_t i = 0; i < count && !stop && flow == Flow::next; ++i)
      flow = Iterate(s, Value(range->start + i * range->step), &stop);
    return flow;
  }
  if (const Items* items = over.items()) {
    for (size_t i = 0; i < items->values.size() && !stop && flow == Flow::next; ++i)
      flow = Iterate(s, items->values[i], &stop);
    return flow;
  }
  if (const Tensor* x = over.tensor(); x != nullptr && x->rank() > 0) {
    const int64_t rows = x->dim(0);
    for (int64_t i = 0; i < rows && !stop && flow == Flow::next; ++i) {
      Value row;
      if (!Row(*s.iterable, over, i, &row)) return Flow::failed;
      flow = Iterate(s, std::move(row), &stop);
    }
    return flow;
  }
  Report(Diag::not_iterable, s.iterable->span, over.Describe());
  return Flow::failed;
}

bool Evaluator::Assign(const Expr& target, Value value) {
  switch (target.kind) {
    case ExprKind::name: scope_.Set(As<NameExpr>(target).name, std::move(value)); return true;
    case ExprKind::tuple:
    case ExprKind::list: return Unpack(As<TupleExpr>(target), value);
    case ExprKind::index: return AssignIndex(As<IndexExpr>(target), value);
    default: return false;  // the parser has refused it
  }
}

bool Evaluator::Unpack(const TupleExpr& target, const Value& value) {
  const size_t n = target.items.size();
  if (const Items* items = value.items(); items != nullptr && items->values.size() == n) {
    for (size_t i = 0; i < n; ++i)
      if (!Assign(*target.items[i], items->values[i])) return false;
    return true;
  }
  if (const Tensor* x = value.tensor(); x != nullptr && x->rank() > 0 && x->dim(0) == static_cast<int64_t>(n)) {
    for (size_t i = 0; i < n; ++i) {
      Value row;
      if (!Row(*target.items[i], value, static_cast<int64_t>(i), &row) || !Assign(*target.items[i], std::move(row)))
        return false;
    }
    return true;
  }
  if (const Items* items = value.items()) return Report(Diag::unpack_count, target.span, n, items->values.size());
  if (const Tensor* x = value.tensor(); x != nullptr && x->rank() > 0)
    return Report(Diag::unpack_count, target.span, n, x->dim(0));
  return Report(Diag::unpack_kind, target.span, value.Describe());
}

bool Evaluator::AugAssign(const AugAssignStmt& s) {
  Value before, value, after;
  if (!Evaluate(*s.target, &before) || !Evaluate(*s.value, &value)) return false;
  if (!Binary(*s.target, s.op, before, value, &after)) return false;
  before = value = Value();
  return Assign(*s.target, std::move(after));
}

bool Evaluator::RunImport(const ImportStmt& s) {
  ModuleScope* module = host_.Import(s, scope_);
  if (module == nullptr) return false;
  if (!s.is_from) {
    scope_.Set(s.as, Value(module));
    return true;
  }
  bool ok = true;
  for (const ImportStmt::Item& item : s.names) {
    const Value* value = module->Find(item.name);
    if (value == nullptr) {
      ok = Report(Diag::eval_import_name, item.span, module->name, ast_.Text(item.name));
      continue;
    }
    scope_.Set(item.as, Value(*value));
  }
  return ok;
}

}  // namespace tessera::lang
