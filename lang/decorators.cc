#include "lang/decorators.h"

#include "lang/rules.h"
#include "lang/text.h"

namespace tessera::lang {
namespace {

std::string PathOf(const Expr& e, const Ast& ast) {
  if (e.kind == ExprKind::name) return std::string(ast.Text(As<NameExpr>(e).name));
  if (e.kind == ExprKind::attribute) {
    const auto& a = As<AttributeExpr>(e);
    return Cat(PathOf(*a.object, ast), ".", ast.Text(a.name));
  }
  return "?";
}

}  // namespace

bool ReadDecorators(const FunctionDef& def, const Ast& ast, Diagnostics& diagnostics, Settings* out) {
  bool good = true;
  for (const Expr* d : def.decorators) {
    const CallExpr* call = d->kind == ExprKind::call ? &As<CallExpr>(*d) : nullptr;
    const std::string name = PathOf(call != nullptr ? *call->callee : *d, ast);
    if (name == "function") {
      if (call != nullptr && !call->args.empty()) {
        diagnostics.Report(Diag::decorator_argument, call->args[0].value->span, name, "it takes no arguments");
        good = false;
      }
    } else if (name == "accum") {
      const Expr* arg = call != nullptr && call->args.size() == 1 ? call->args[0].value : nullptr;
      const std::string_view text =
          arg != nullptr && arg->kind == ExprKind::name ? ast.Text(As<NameExpr>(*arg).name) : "";
      if (text != "f32" && text != "f64") {
        diagnostics.Report(Diag::bad_accum, arg != nullptr ? arg->span : d->span,
                           arg == nullptr ? "nothing"
                           : text.empty() ? "this"
                                          : text);
        good = false;
        continue;
      }
      out->has_accum = true;
      out->accum = text == "f64" ? DType::f64 : DType::f32;
    } else if (name == "kernel.schedule" || name == "kernel.autotune") {
      // Options hold for the whole process, and Graph IR carries none for one function: nothing here could keep the
      // promise, so that it is not made.
      Diagnostic& error = diagnostics.Report(Diag::decorator_no_way, d->span, name);
      if (name == "kernel.autotune") {
        error.hint =
            "products are tuned without being asked; the options tune_after and tune_budget say when and how long";
      } else {
        error.hint = "TESSERA_SCHEDULE=\"*:";
        for (size_t i = 0; call != nullptr && i < call->args.size(); ++i) {
          const Argument& a = call->args[i];
          if (a.name.id == 0) continue;
          Append(error.hint, i > 0 ? "," : "", ast.Text(a.name), "=");
          if (a.value->kind == ExprKind::string) Append(error.hint, As<StringExpr>(*a.value).value);
          if (a.value->kind == ExprKind::integer) Append(error.hint, As<IntegerExpr>(*a.value).value);
        }
        error.hint += "\" schedules every product of the process so";
      }
      good = false;
    } else {
      static constexpr std::string_view kNames[] = {"function", "accum", "kernel.schedule", "kernel.autotune"};
      diagnostics.Report(Diag::unknown_decorator, d->span, name).hint = DidYouMean(name, kNames);
      good = false;
    }
  }
  return good;
}

}  // namespace tessera::lang
