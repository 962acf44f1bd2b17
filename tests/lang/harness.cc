#include "tests/lang/harness.h"

#include "ir/function.h"
#include "tessera/dtype.h"

namespace tessera::lang {

bool FrontEnd::ReadDesc(const Expr& e, Desc* out) {
  switch (e.kind) {
    case ExprKind::integer: *out = Desc::Integer(As<IntegerExpr>(e).value); return true;
    case ExprKind::floating: *out = Desc::Floating(As<FloatingExpr>(e).value); return true;
    case ExprKind::boolean: *out = Desc::Boolean(As<BooleanExpr>(e).value); return true;
    case ExprKind::none: out->kind = Desc::Kind::none; return true;
    case ExprKind::string:
      out->kind = Desc::Kind::string;
      out->text = As<StringExpr>(e).value;
      return true;
    case ExprKind::unary: {
      if (!ReadDesc(*As<UnaryExpr>(e).operand, out)) return false;
      out->integer = -out->integer;
      out->floating = -out->floating;
      return true;
    }
    case ExprKind::tuple:
    case ExprKind::list:
      out->kind = Desc::Kind::tuple;
      for (const Expr* item : As<TupleExpr>(e).items)
        if (!ReadDesc(*item, &out->items.emplace_back())) return false;
      return true;
    case ExprKind::name: {
      const std::string_view name = ast_.Text(As<NameExpr>(e).name);
      if (Lookup(As<NameExpr>(e).name, out)) return true;
      const auto dtype = ParseDType(name);
      if (!dtype) return false;
      out->kind = Desc::Kind::dtype;
      out->dtype = *dtype;
      return true;
    }
    // f32[2,3]; f32[...] is a scalar.
    case ExprKind::index: {
      const auto& x = As<IndexExpr>(e);
      if (x.object->kind != ExprKind::name) return false;
      const auto dtype = ParseDType(ast_.Text(As<NameExpr>(*x.object).name));
      if (!dtype) return false;
      out->kind = Desc::Kind::tensor;
      out->type.dtype = *dtype;
      for (const Expr* item : x.items) {
        if (item->kind == ExprKind::integer && out->type.rank < kMaxRank)
          out->type.dims[out->type.rank++] = As<IntegerExpr>(*item).value;
      }
      return true;
    }
    default: return false;
  }
}

const Instance* FrontEnd::Call(const std::string& text) {
  const SourceFile* file = sources_.Add("call", text);
  const Parsed parsed = Parse(*file, ast_, diagnostics_);
  if (parsed.program->body.size() != 1 || parsed.program->body[0]->kind != StmtKind::expr) return nullptr;
  const Expr& e = *As<ExprStmt>(*parsed.program->body[0]).value;
  if (e.kind != ExprKind::call || As<CallExpr>(e).callee->kind != ExprKind::name) return nullptr;
  const auto& call = As<CallExpr>(e);
  Desc f;
  if (!Lookup(As<NameExpr>(*call.callee).name, &f) || f.kind != Desc::Kind::function) return nullptr;
  std::vector<int> order;
  if (!BindArguments(*f.def, call, ast_, diagnostics_, &order)) return nullptr;
  std::vector<Desc> args(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i] >= 0 && !ReadDesc(*call.args[static_cast<size_t>(order[i])].value, &args[i])) return nullptr;
  return instances_.Get(*f.def, *this, args, call.span, diagnostics_);
}

void FrontEnd::Run(const std::string& name, const std::string& text) {
  const SourceFile* file = sources_.Add(name, text);
  if (file == nullptr) {
    diagnostics_.Report(Diag::source_too_large, {}, name, text.size(), kMaxSourceBytes);
    return;
  }
  program_ = Parse(*file, ast_, diagnostics_).program;
  for (const Comment& c : program_->comments) {
    std::string line(file->TextOf(c.span));
    if (!line.starts_with("# global ")) continue;
    line = line.substr(9);
    const size_t equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    const SourceFile* value = sources_.Add("global", line.substr(equals + 3));
    const Parsed parsed = Parse(*value, ast_, diagnostics_);
    Desc desc;
    if (parsed.program->body.size() == 1 && parsed.program->body[0]->kind == StmtKind::expr &&
        ReadDesc(*As<ExprStmt>(*parsed.program->body[0]).value, &desc))
      globals_[ast_.Intern(line.substr(0, equals)).id] = desc;
  }
  for (const Stmt* s : program_->body) {
    if (s->kind != StmtKind::def) continue;
    const auto& def = As<FunctionDef>(*s);
    Desc& desc = globals_[def.name.id];
    desc = Desc();
    desc.kind = Desc::Kind::function;
    desc.def = &def;
    desc.scope = this;
    instances_.Define(def, *this, diagnostics_);
  }
  instances_.CheckDeferred(diagnostics_);
  for (const Comment& c : program_->comments) {
    const std::string line(file->TextOf(c.span));
    if (line.starts_with("# call ")) called_.push_back(Call(line.substr(7)));
  }
}

std::string FrontEnd::Print(const Instance& instance) { return ir::Print(*instance.state->module); }

bool FrontEnd::Lookup(Name name, Desc* out) const {
  const auto it = globals_.find(name.id);
  if (it == globals_.end()) return false;
  *out = it->second;
  return true;
}

void FrontEnd::Names(std::vector<std::string_view>* out) const {
  for (const auto& [id, desc] : globals_) out->push_back(ast_.Text(Name{id}));
}

}  // namespace tessera::lang
