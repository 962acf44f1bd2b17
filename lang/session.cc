#include "lang/session.h"

#include <filesystem>

#include "deopt/ledger.h"
#include "interp/interpreter.h"
#include "interp/interrupt.h"
#include "lang/text.h"
#include "runtime/file.h"

namespace tessera {

namespace fs = std::filesystem;
using lang::Diag;
using lang::ModuleScope;
using lang::Value;

namespace {

constexpr size_t kMostImports = 64;

std::string FolderOf(const std::string& path) { return fs::path(path).parent_path().string(); }

}  // namespace

SessionImpl::SessionImpl()
    : instances_(std::make_unique<lang::Instances>(ast_, sources_)),
      main_(std::make_unique<ModuleScope>(ast_, "<main>", "")) {}
SessionImpl::~SessionImpl() = default;

void SessionImpl::Print(std::string_view line) { on_print ? on_print(line) : interp::PrintLine(line); }

const lang::SourceFile* SessionImpl::AddSource(std::string name, std::string text) {
  const size_t size = text.size();
  const lang::SourceFile* file = sources_.Add(name, std::move(text));
  if (file == nullptr) {
    diagnostics_.Report(Diag::source_too_large, lang::Span(), name, size, lang::kMaxSourceBytes);
    return nullptr;
  }
  files_.push_back(file);
  return file;
}

bool SessionImpl::Run(const lang::SourceFile& file, ModuleScope& scope, Value* last) {
  const int errors = diagnostics_.errors();
  const lang::Parsed parsed = lang::Parse(file, ast_, diagnostics_);
  if (diagnostics_.errors() > errors) return false;
  if (checking_) {
    for (const lang::Stmt* s : parsed.program->body) CheckStatement(*s, scope);
  } else if (!lang::Evaluator(*this, scope).Run(*parsed.program, last)) {
    return false;
  }
  // At a prompt, what a function needs may still come.
  if (!watch_tiers_) instances_->CheckDeferred(diagnostics_);
  return diagnostics_.errors() == errors;
}

SessionImpl::Outcome SessionImpl::Finish(bool ok, Value value) {
  Outcome outcome;
  outcome.ok = ok && diagnostics_.ok();
  outcome.value = std::move(value);
  outcome.diagnostics = diagnostics_.Take();
  for (const lang::Diagnostic& d : outcome.diagnostics) outcome.interrupted |= d.id == Diag::eval_interrupted;
  return outcome;
}

SessionImpl::Outcome SessionImpl::Evaluate(std::string text, std::string name, std::string folder) {
  interp::ClearInterrupt();
  diagnostics_.Clear();
  importing_.clear();
  main_->folder = std::move(folder);
  Value last;
  const lang::SourceFile* file = AddSource(std::move(name), std::move(text));
  const bool ok = file != nullptr && Run(*file, *main_, &last);
  return Finish(ok, std::move(last));
}

SessionImpl::Outcome SessionImpl::EvaluateRepeatedly(std::string text, std::string name,
                                                     const std::function<bool(bool done)>& around) {
  interp::ClearInterrupt();
  diagnostics_.Clear();
  Value last;
  const lang::SourceFile* file = AddSource(std::move(name), std::move(text));
  if (file == nullptr) return Finish(false, Value());
  const lang::Parsed parsed = lang::Parse(*file, ast_, diagnostics_);
  bool ok = diagnostics_.ok();
  lang::Evaluator evaluator(*this, *main_);
  while (ok && around(false)) {
    ok = evaluator.Run(*parsed.program, &last);
    // What waits to be computed is part of it.
    if (const Tensor* x = last.tensor(); ok && x != nullptr) {
      const absl::Status status = rt::Ready(*x->waiting_impl());
      if (status.ok()) (void)x->waiting_impl()->device().Synchronize();
      ok = status.ok();
    }
    if (!around(true)) break;
  }
  return Finish(ok, std::move(last));
}

SessionImpl::Outcome SessionImpl::RunFile(const std::string& path) {
  auto text = rt::ReadFile(path);
  if (!text.ok()) {
    diagnostics_.Clear();
    diagnostics_.Report(Diag::eval_file, lang::Span(), std::string(text.status().message()));
    return Finish(false, Value());
  }
  return Evaluate(*std::move(text), path, FolderOf(path));
}

SessionImpl::Outcome SessionImpl::CheckFile(const std::string& path) {
  checking_ = true;
  Outcome outcome = RunFile(path);
  checking_ = false;
  return outcome;
}

namespace {

// Names that an expression or a statement refers to.
class NameCollector {
 public:
  std::vector<lang::Name> names;
  void Visit(const lang::Expr* e) {
    using lang::ExprKind;
    if (e == nullptr) return;
    const auto all = [&](lang::Exprs items) {
      for (const lang::Expr* item : items) Visit(item);
    };
    switch (e->kind) {
      case ExprKind::name: names.push_back(lang::As<lang::NameExpr>(*e).name); break;
      case ExprKind::tuple:
      case ExprKind::list: all(lang::As<lang::TupleExpr>(*e).items); break;
      case ExprKind::unary: Visit(lang::As<lang::UnaryExpr>(*e).operand); break;
      case ExprKind::binary:
        Visit(lang::As<lang::BinaryExpr>(*e).left);
        Visit(lang::As<lang::BinaryExpr>(*e).right);
        break;
      case ExprKind::logical:
        Visit(lang::As<lang::LogicalExpr>(*e).left);
        Visit(lang::As<lang::LogicalExpr>(*e).right);
        break;
      case ExprKind::compare: all(lang::As<lang::CompareExpr>(*e).operands); break;
      case ExprKind::conditional:
        Visit(lang::As<lang::ConditionalExpr>(*e).condition);
        Visit(lang::As<lang::ConditionalExpr>(*e).then_value);
        Visit(lang::As<lang::ConditionalExpr>(*e).else_value);
        break;
      case ExprKind::call:
        Visit(lang::As<lang::CallExpr>(*e).callee);
        for (const lang::Argument& a : lang::As<lang::CallExpr>(*e).args) Visit(a.value);
        break;
      case ExprKind::attribute: Visit(lang::As<lang::AttributeExpr>(*e).object); break;
      case ExprKind::index:
        Visit(lang::As<lang::IndexExpr>(*e).object);
        all(lang::As<lang::IndexExpr>(*e).items);
        break;
      case ExprKind::slice:
        Visit(lang::As<lang::SliceExpr>(*e).start);
        Visit(lang::As<lang::SliceExpr>(*e).stop);
        Visit(lang::As<lang::SliceExpr>(*e).step);
        break;
      default: break;
    }
  }
  void Visit(lang::Block body) {
    for (const lang::Stmt* s : body) Visit(*s);
  }
  void Visit(const lang::Stmt& s) {
    using lang::StmtKind;
    switch (s.kind) {
      case StmtKind::expr: Visit(lang::As<lang::ExprStmt>(s).value); break;
      case StmtKind::assign: Visit(lang::As<lang::AssignStmt>(s).value); break;
      case StmtKind::aug_assign: Visit(lang::As<lang::AugAssignStmt>(s).value); break;
      case StmtKind::if_:
        for (const auto& branch : lang::As<lang::IfStmt>(s).branches) Visit(branch.condition), Visit(branch.body);
        Visit(lang::As<lang::IfStmt>(s).else_body);
        break;
      case StmtKind::while_:
        Visit(lang::As<lang::WhileStmt>(s).condition);
        Visit(lang::As<lang::WhileStmt>(s).body);
        break;
      case StmtKind::for_:
        Visit(lang::As<lang::ForStmt>(s).iterable);
        Visit(lang::As<lang::ForStmt>(s).body);
        break;
      case StmtKind::return_: Visit(lang::As<lang::ReturnStmt>(s).value); break;
      case StmtKind::assert_: Visit(lang::As<lang::AssertStmt>(s).condition); break;
      default: break;
    }
  }
};

// What a name is bound to where nothing was run.
Value Unknown() { return Value(lang::Ellipsis()); }
bool IsUnknown(const Value* v) { return v != nullptr && v->As<lang::Ellipsis>() != nullptr; }

void BindUnknown(const lang::Expr& target, ModuleScope& scope) {
  if (target.kind == lang::ExprKind::name) scope.Set(lang::As<lang::NameExpr>(target).name, Unknown());
  if (target.kind == lang::ExprKind::tuple || target.kind == lang::ExprKind::list)
    for (const lang::Expr* item : lang::As<lang::TupleExpr>(target).items) BindUnknown(*item, scope);
}

}  // namespace

// Binds names without running anything that could take long or have an effect: a constant is what it is, everything
// else is unknown, and a function that needs something unknown is left to its calls.
void SessionImpl::CheckStatement(const lang::Stmt& s, ModuleScope& scope) {
  using lang::StmtKind;
  switch (s.kind) {
    case StmtKind::import: {
      const auto& import = lang::As<lang::ImportStmt>(s);
      ModuleScope* module = Import(import, scope);
      if (!import.is_from) {
        scope.Set(import.as, module == nullptr ? Unknown() : Value(module));
        break;
      }
      for (const auto& item : import.names) {
        const Value* value = module == nullptr ? nullptr : module->Find(item.name);
        if (module != nullptr && value == nullptr)
          diagnostics_.Report(Diag::eval_import_name, item.span, module->name, ast_.Text(item.name));
        scope.Set(item.as, value == nullptr ? Unknown() : Value(*value));
      }
      break;
    }
    case StmtKind::def: {
      const auto& def = lang::As<lang::FunctionDef>(s);
      NameCollector used;
      used.Visit(def.body);
      for (const lang::Parameter& p : def.params) used.Visit(p.default_value), used.Visit(p.annotation);
      bool known = true;
      for (lang::Name name : used.names) known &= !IsUnknown(scope.Find(name));
      if (known) Define(def, scope);
      scope.Set(def.name, Value(lang::FunctionValue{&def, &scope}));
      break;
    }
    case StmtKind::assign: {
      const auto& assign = lang::As<lang::AssignStmt>(s);
      const lang::Expr* value = assign.value;
      const bool literal =
          value != nullptr && value->kind >= lang::ExprKind::integer && value->kind <= lang::ExprKind::none;
      if (literal && assign.targets.size() == 1 && assign.targets[0]->kind == lang::ExprKind::name) {
        Value known;
        lang::Evaluator(*this, scope).Evaluate(*value, &known);
        scope.Set(lang::As<lang::NameExpr>(*assign.targets[0]).name, std::move(known));
        break;
      }
      for (const lang::Expr* target : assign.targets) BindUnknown(*target, scope);
      break;
    }
    case StmtKind::for_:
      BindUnknown(*lang::As<lang::ForStmt>(s).target, scope);
      for (const lang::Stmt* inner : lang::As<lang::ForStmt>(s).body) CheckStatement(*inner, scope);
      break;
    case StmtKind::while_:
      for (const lang::Stmt* inner : lang::As<lang::WhileStmt>(s).body) CheckStatement(*inner, scope);
      break;
    case StmtKind::if_:
      for (const auto& branch : lang::As<lang::IfStmt>(s).branches)
        for (const lang::Stmt* inner : branch.body) CheckStatement(*inner, scope);
      for (const lang::Stmt* inner : lang::As<lang::IfStmt>(s).else_body) CheckStatement(*inner, scope);
      break;
    default: break;
  }
}

ModuleScope* SessionImpl::Import(const lang::ImportStmt& import, ModuleScope& from) {
  std::string name(import.path);
  if (!name.ends_with(".tsr")) name += ".tsr";
  const fs::path path = fs::path(name).is_absolute() ? fs::path(name) : fs::path(from.folder) / name;
  std::error_code ignored;
  const fs::path canonical = fs::weakly_canonical(path, ignored);
  const std::string shown = path.lexically_normal().string(), key = canonical.empty() ? shown : canonical.string();
  if (const auto it = modules_.find(key); it != modules_.end()) {
    if (it->second != nullptr) return it->second.get();
    std::string chain;
    bool in = false;
    for (const std::string& p : importing_) {
      in |= p == key;
      if (in) lang::Append(chain, chain.empty() ? "" : ", ", fs::path(p).filename().string());
    }
    diagnostics_.Report(Diag::eval_import_cycle, import.path_span, shown, chain);
    return nullptr;
  }
  if (importing_.size() >= kMostImports) {
    diagnostics_.Report(Diag::eval_import_depth, import.path_span, kMostImports);
    return nullptr;
  }
  auto text = rt::ReadFile(path.string());
  if (!text.ok()) {
    diagnostics_.Report(Diag::eval_import_missing, import.path_span, shown);
    return nullptr;
  }
  const lang::SourceFile* file = AddSource(shown, *std::move(text));
  if (file == nullptr) return nullptr;
  auto scope = std::make_unique<ModuleScope>(ast_, shown, FolderOf(path.string()));
  modules_[key] = nullptr;
  importing_.push_back(key);
  Value last;
  const size_t said = diagnostics_.all().size();
  const bool ok = Run(*file, *scope, &last);
  importing_.pop_back();
  if (!ok) {
    // Functions of it may be known to others already: it stays, and a later import begins anew.
    modules_.erase(key);
    failed_.push_back(std::move(scope));
    diagnostics_.Explain(said, Diag::note_imported_here, import.path_span);
    return nullptr;
  }
  return (modules_[key] = std::move(scope)).get();
}

bool SessionImpl::Define(const lang::FunctionDef& def, ModuleScope& scope) {
  const int errors = diagnostics_.errors();
  instances_->Define(def, scope, diagnostics_);
  return diagnostics_.errors() == errors;
}

const Value* SessionImpl::Find(std::string_view name) const {
  const lang::Name n = ast_.Find(name);
  return n.id == 0 ? nullptr : main_->Find(n);
}

std::string SessionImpl::Render(const std::vector<lang::Diagnostic>& diagnostics, bool colour, int width) {
  lang::RenderOptions options;
  options.colour = colour;
  options.width = width;
  return lang::Render(sources_, diagnostics, options);
}

tessera::Diagnostic SessionImpl::ToPublic(const lang::Diagnostic& d) {
  tessera::Diagnostic out;
  using To = tessera::Diagnostic::Severity;
  out.severity = d.severity == lang::Severity::error     ? To::error
                 : d.severity == lang::Severity::warning ? To::warning
                                                         : To::note;
  out.name = std::string(lang::Info(d.id).name);
  if (d.span.known()) {
    const lang::Position at = sources_.PositionOf(d.span.begin);
    if (at.file != nullptr) out.file = at.file->name();
    out.line = at.line, out.column = at.column;
  }
  out.message = d.message;
  out.hint = d.hint;
  for (const lang::Diagnostic& note : d.notes) out.notes.push_back(ToPublic(note));
  out.text = lang::Render(sources_, d);
  return out;
}

// ---- which tier a statement ran in

void SessionImpl::BeginStatement() {
  if (!watch_tiers_) return;
  before_ = rt::SnapshotMetrics();
  runs_before_.clear();
  for (const deopt::VersionRecord& v : deopt::Ledger::Get().versions())
    runs_before_[v.id] = v.counters->runs.load(std::memory_order_relaxed);
}

const char* SessionImpl::TierOfStatement() {
  const rt::MetricValues now = rt::SnapshotMetrics();
  const auto runs = static_cast<size_t>(rt::Metric::version_runs);
  if (now[runs] == before_[runs]) return "tier 1";
  const char* best = "tier 1, replayed";
  for (const deopt::VersionRecord& v : deopt::Ledger::Get().versions()) {
    if (v.counters->runs.load(std::memory_order_relaxed) == runs_before_[v.id]) continue;
    if (v.generator == "tier 3") return "tier 3";
    if (v.generator == "tier 2") best = "tier 2";
  }
  return best;
}

void SessionImpl::EndStatement() {
  if (!watch_tiers_) return;
  const char* tier = TierOfStatement();
  for (auto& [name, value] : main_->values)
    if (value.tensor() != nullptr && value.tier == nullptr) value.tier = tier;
}

}  // namespace tessera
