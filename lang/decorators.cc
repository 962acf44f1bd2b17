#include "lang/decorators.h"

#include <algorithm>

#include "ir/schedule.h"
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

class Reader {
 public:
  Reader(const Ast& ast, Diagnostics& diagnostics, Settings* out) : ast_(ast), diagnostics_(diagnostics), out_(out) {}

  bool One(const Expr& d) {
    const CallExpr* call = d.kind == ExprKind::call ? &As<CallExpr>(d) : nullptr;
    name_ = PathOf(call != nullptr ? *call->callee : d, ast_);
    if (name_ == "function")
      return call == nullptr || call->args.empty() || Wrong(call->args[0].value->span, "it takes no arguments");
    if (name_ == "accum") return Accum(d, call);
    if (name_ == "kernel.schedule") return Schedule(d, call);
    if (name_ == "kernel.autotune") return Autotune(d, call);
    static constexpr std::string_view kNames[] = {"function", "accum", "kernel.schedule", "kernel.autotune"};
    diagnostics_.Report(Diag::unknown_decorator, d.span, name_).hint = DidYouMean(name_, kNames);
    return false;
  }

 private:
  bool Wrong(Span span, std::string_view what) {
    diagnostics_.Report(Diag::decorator_argument, span, name_, what);
    return false;
  }

  bool Accum(const Expr& d, const CallExpr* call) {
    const Expr* arg = call != nullptr && call->args.size() == 1 ? call->args[0].value : nullptr;
    const std::string_view text =
        arg != nullptr && arg->kind == ExprKind::name ? ast_.Text(As<NameExpr>(*arg).name) : "";
    if (text != "f32" && text != "f64") {
      diagnostics_.Report(Diag::bad_accum, arg != nullptr ? arg->span : d.span,
                          arg == nullptr ? "nothing"
                          : text.empty() ? "this"
                                         : text);
      return false;
    }
    out_->has_accum = true;
    out_->accum = text == "f64" ? DType::f64 : DType::f32;
    return true;
  }

  // "rows=64" of an entry and its value, added to a schedule.
  bool Entry(std::string_view entry, Span at, const Expr& value, std::string* schedule) {
    std::string text;
    if (value.kind == ExprKind::string) text = std::string(As<StringExpr>(value).value);
    if (value.kind == ExprKind::integer) text = Cat(As<IntegerExpr>(value).value);
    if (entry == "form") {
      if (value.kind != ExprKind::string || !ir::IsScheduleForm(text)) {
        std::vector<std::string_view> names;
        for (const ir::ScheduleForm& f : ir::kScheduleForms) names.push_back(f.name);
        Diagnostic& d = diagnostics_.Report(Diag::schedule_value, value.span, entry, ir::ScheduleFormNames(),
                                            text.empty() ? "this" : text);
        if (value.kind == ExprKind::string) d.hint = DidYouMean(text, names);
        return false;
      }
    } else {
      const ir::ScheduleEntry* known = ir::FindScheduleEntry(entry);
      if (known == nullptr) {
        std::vector<std::string_view> names = {"form"};
        for (const ir::ScheduleEntry& e : ir::kScheduleEntries) names.push_back(e.name);
        Diagnostic& d = diagnostics_.Report(Diag::schedule_entry, at, entry);
        d.hint = DidYouMean(entry, names);
        if (!d.hint.empty()) return false;
        d.hint = "entries are ";
        for (size_t i = 0; i < names.size(); ++i)
          Append(d.hint, i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
        return false;
      }
      const int64_t number = value.kind == ExprKind::integer ? As<IntegerExpr>(value).value : known->low - 1;
      if (number < known->low || number > known->high) {
        diagnostics_.Report(Diag::schedule_value, value.span, entry, Cat(known->low, " to ", known->high),
                            text.empty() ? "this" : text);
        return false;
      }
    }
    Append(*schedule, schedule->empty() ? "" : ",", entry, "=", text);
    return true;
  }

  // Entries that are good by themselves may not go together.
  bool Together(const std::string& schedule, Span at) {
    const absl::Status s = ir::CheckSchedule(schedule);
    if (s.ok()) return true;
    diagnostics_.Report(Diag::schedule_conflict, at, std::string_view(s.message().data(), s.message().size()));
    return false;
  }

  bool Schedule(const Expr& d, const CallExpr* call) {
    if (call == nullptr || call->args.empty())
      return Wrong(d.span, "it takes entries such as form=\"packed\", rows=64");
    bool good = true;
    std::string schedule;
    for (const Argument& a : call->args) {
      if (a.name.id == 0) {
        good = Wrong(a.value->span, "every argument has a name, as in rows=64");
      } else {
        good &= Entry(ast_.Text(a.name), a.name_span, *a.value, &schedule);
      }
    }
    if (!good || !Together(schedule, d.span)) return false;
    if (!out_->schedule.empty()) return Wrong(d.span, "a function has one schedule");
    out_->schedule = std::move(schedule);
    return true;
  }

  bool Autotune(const Expr& d, const CallExpr* call) {
    if (call == nullptr || call->args.empty())
      return Wrong(d.span, "it takes space={\"rows\": [32, 64]}, key=[\"B\"], or one of them");
    bool good = true;
    for (const Argument& a : call->args) {
      const std::string_view name = a.name.id == 0 ? "" : ast_.Text(a.name);
      if (name == "space") {
        good &= Space(*a.value);
      } else if (name == "key") {
        good &= Key(*a.value);
      } else {
        good = Wrong(a.value->span, "its arguments are space and key");
      }
    }
    return good;
  }

  // All combinations of the values.
  bool Space(const Expr& e) {
    if (e.kind != ExprKind::dict || As<DictExpr>(e).keys.empty())
      return Wrong(e.span, "space is { } with a list of values for each entry: {\"rows\": [32, 64]}");
    const auto& dict = As<DictExpr>(e);
    std::vector<std::string> choices = {""};
    bool good = true;
    for (size_t i = 0; i < dict.keys.size(); ++i) {
      const Expr &key = *dict.keys[i], &value = *dict.values[i];
      if (key.kind != ExprKind::string) {
        good = Wrong(key.span, "an entry of space is a string, such as \"rows\"");
        continue;
      }
      if ((value.kind != ExprKind::list && value.kind != ExprKind::tuple) || As<TupleExpr>(value).items.empty()) {
        good = Wrong(value.span, "the values of an entry are a list: [32, 64]");
        continue;
      }
      const Exprs values = As<TupleExpr>(value).items;
      if (choices.size() * values.size() > ir::kMaxTuneSpace)
        return Wrong(e.span, Cat("space has more than ", ir::kMaxTuneSpace, " combinations"));
      std::vector<std::string> next;
      for (const Expr* v : values) {
        std::string entry;
        if (!Entry(As<StringExpr>(key).value, key.span, *v, &entry)) {
          good = false;
          break;
        }
        for (const std::string& c : choices) next.push_back(Cat(c, c.empty() ? "" : ",", entry));
      }
      if (good) choices = std::move(next);
    }
    if (!good) return false;
    for (const std::string& c : choices)
      if (!Together(c, e.span)) return false;
    if (!out_->tune_space.empty()) return Wrong(e.span, "space is given twice");
    for (const std::string& c : choices) Append(out_->tune_space, out_->tune_space.empty() ? "" : " ", c);
    return true;
  }

  bool Key(const Expr& e) {
    const bool is_list = e.kind == ExprKind::list || e.kind == ExprKind::tuple;
    if (!is_list || As<TupleExpr>(e).items.empty())
      return Wrong(e.span, "key is a list of names of dims: [\"B\", \"K\"]");
    for (const Expr* item : As<TupleExpr>(e).items) {
      if (item->kind != ExprKind::string) return Wrong(item->span, "a key names a dim in quotes: \"B\"");
      out_->tune_key.emplace_back(std::string(As<StringExpr>(*item).value), item->span);
    }
    return true;
  }

  const Ast& ast_;
  Diagnostics& diagnostics_;
  Settings* const out_;
  std::string name_;
};

void SymbolsOf(const TypeExpr& type, std::vector<std::string_view>* out) {
  for (const TypeDim& d : type.dims)
    if (d.kind == TypeDim::Kind::symbol) out->push_back(d.text);
  for (const TypeExpr& item : type.items) SymbolsOf(item, out);
}

}  // namespace

bool ReadDecorators(const FunctionDef& def, const Ast& ast, Diagnostics& diagnostics, Settings* out) {
  bool good = true;
  Reader reader(ast, diagnostics, out);
  for (const Expr* d : def.decorators) good &= reader.One(*d);
  return good;
}

bool CheckTuneKey(const Settings& settings, const std::vector<TypeExpr>& params, Diagnostics& diagnostics) {
  if (settings.tune_key.empty()) return true;
  std::vector<std::string_view> symbols;
  for (const TypeExpr& t : params) SymbolsOf(t, &symbols);
  bool good = true;
  for (const auto& [name, span] : settings.tune_key) {
    if (std::find(symbols.begin(), symbols.end(), name) != symbols.end()) continue;
    Diagnostic& d = diagnostics.Report(Diag::tune_key, span, name);
    d.hint =
        symbols.empty() ? "write the types of the parameters: x: Tensor[\"B\", \"K\", f32]" : DidYouMean(name, symbols);
    good = false;
  }
  return good;
}

}  // namespace tessera::lang
