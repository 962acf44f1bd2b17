// Gradients: what grad(f) is, and its Graph IR, which ir/differentiate.h makes from that of f.
#include <algorithm>
#include <cstdio>

#include "ir/differentiate.h"
#include "ir/typing.h"
#include "lang/lower_impl.h"
#include "lang/rules_builtins.h"
#include "lang/text.h"

namespace tessera::lang {
namespace {

// Values of a module in which a gradient is made.
constexpr size_t kMaxDifferentiated = 100'000;

int DepthOf(const FunctionDef& def) { return def.derivative == nullptr ? 0 : 1 + DepthOf(*def.derivative->of); }

// A parameter by its number or its name; -1 after a diagnostic.
int ParameterOf(Machine& m, const FunctionDef& def, const Val& v, const Expr& at) {
  const size_t count = def.params.size();
  if (v.kind == Val::Kind::string) {
    std::vector<std::string_view> names;
    for (size_t i = 0; i < count; ++i) {
      names.push_back(m.ast.Text(def.params[i].name));
      if (names.back() == v.text) return static_cast<int>(i);
    }
    m.diagnostics.Report(Diag::grad_wrt, at.span, m.ast.Text(def.name), Cat("`", v.text, "`")).hint =
        DidYouMean(v.text, names);
    return -1;
  }
  int64_t number = 0;
  if (!ToInt(m, v, "`wrt`", at, &number)) return -1;
  const auto n = static_cast<int64_t>(count);
  if (number >= -n && number < n) return static_cast<int>(number < 0 ? number + n : number);
  m.diagnostics.Report(Diag::grad_wrt, at.span, m.ast.Text(def.name), number).hint =
      Cat("it has ", CountOf(count, "parameter"), ", and the first is 0");
  return -1;
}

}  // namespace

Val MakeGradient(Machine& m, bool with_value, const Val& f, const Expr& f_at, const Val& wrt, const Expr& wrt_at) {
  if (f.kind != Val::Kind::function) {
    m.diagnostics.Report(Diag::grad_function, f_at.span, with_value ? "value_and_grad" : "grad", DescribeVal(m, f));
    return Val::Poison();
  }
  if (DepthOf(*f.def) >= kMaxGradients) {
    m.diagnostics.Report(Diag::grad_depth, f_at.span, kMaxGradients);
    return Val::Poison();
  }
  std::vector<int> params;
  const bool is_tuple = wrt.kind == Val::Kind::tuple;
  for (const Val& v : is_tuple ? *wrt.items : Vals{wrt}) {
    const int param = ParameterOf(m, *f.def, v, wrt_at);
    if (param < 0) return Val::Poison();
    if (std::find(params.begin(), params.end(), param) != params.end()) {
      m.diagnostics.Report(Diag::grad_twice, wrt_at.span, m.ast.Text(f.def->params[static_cast<size_t>(param)].name));
      return Val::Poison();
    }
    params.push_back(param);
  }
  if (params.empty()) {
    m.diagnostics.Report(Diag::wrong_argument, wrt_at.span, "`wrt`", "a parameter or several", "an empty tuple");
    return Val::Poison();
  }
  Val v = f;
  v.def = m.ast.Derived(*f.def, with_value, is_tuple, params);
  return v;
}

// The message of a failure begins with "FILE:LINE:COLUMN: " where it has a place: it is shown there.
void ModuleLowering::ReportAt(const FunctionDef& def, const std::string& message, Span call) const {
  const SourceFile* file = sources.FileOf(def.span);
  const std::string prefix = Cat(module->file, ":");
  int line = 0, column = 0, used = 0;
  if (file == nullptr || !message.starts_with(prefix) ||
      std::sscanf(message.c_str() + prefix.size(), "%9d:%9d: %n", &line, &column, &used) < 2 || used == 0 || line < 2) {
    diagnostics.Report(Diag::grad_failed, call, message);
    return;
  }
  const uint32_t begin = sources.EndOfLine(*file, line - 1) + static_cast<uint32_t>(column) - 1;
  Diagnostic& d = diagnostics.Report(Diag::grad_failed, {begin, begin + 1},
                                     message.substr(prefix.size() + static_cast<size_t>(used)));
  Diagnostics::Note(d, Diag::note_in_gradient, call, ast.Text(def.name));
}

const Lowered* ModuleLowering::Derive(const Lowered& base, const FunctionDef& def, Span at) {
  const Derivative& d = *def.derivative;
  const ir::Function& f = *base.function;
  const std::string_view name = ast.Text(d.of->name);
  const bool one = base.result.kind == ResultTree::Kind::tensor || base.result.kind == ResultTree::Kind::number;
  if (!one || f.results.size() != 1 || f.results[0].rank != 0 || !IsFloat(f.results[0].dtype)) {
    Diagnostic& error = diagnostics.Report(Diag::grad_result, at, name,
                                           one ? Cat("a tensor ", ir::TypeName(f.symbols.get(), f.results[0]))
                                           : base.result.kind == ResultTree::Kind::tuple ? "a tuple"
                                                                                         : "no tensor");
    if (one && IsFloat(f.results[0].dtype)) error.hint = "sum(y) or mean(y) is one float";
    return nullptr;
  }
  // The parameters of the Graph IR function, in their order; gradients come out in that order.
  std::vector<int> wrt;
  for (size_t i = 0; i < base.params.size(); ++i) {
    const ParamSource& p = base.params[i];
    if (p.kind != ParamSource::Kind::argument || std::find(d.wrt.begin(), d.wrt.end(), p.param) == d.wrt.end())
      continue;
    const TensorType& type = f.values[static_cast<size_t>(f.params[i].value)].type;
    if (!IsFloat(type.dtype)) {
      Diagnostic& error =
          diagnostics.Report(Diag::grad_type, at, ast.Text(def.params[static_cast<size_t>(p.param)].name), name,
                             p.is_number ? type.dtype == DType::i64 ? "an int" : "a bool"
                                         : Cat("a tensor ", ir::TypeName(f.symbols.get(), type)));
      if (p.is_number && type.dtype == DType::i64) error.hint = "write it as a float: 3.0";
      return nullptr;
    }
    wrt.push_back(static_cast<int>(i));
  }
  for (int param : d.wrt) {
    const bool any =
        std::any_of(wrt.begin(), wrt.end(), [&](int i) { return base.params[static_cast<size_t>(i)].param == param; });
    if (any) continue;
    diagnostics.Report(Diag::grad_built_in, at, ast.Text(def.params[static_cast<size_t>(param)].name), name);
    return nullptr;
  }
  // Each gradient of a gradient is several times as large as the one before.
  size_t values = 0;
  for (const auto& function : module->functions) values += function->values.size();
  if (values > kMaxDifferentiated) {
    diagnostics.Report(Diag::function_too_large, at, kMaxDifferentiated);
    return nullptr;
  }
  auto made = ir::Differentiate(*module, f.name, wrt, d.with_value ? ir::GradKind::value_and_grad : ir::GradKind::grad);
  if (!made.ok()) {
    ReportAt(*d.of, std::string(made.status().message()), at);
    return nullptr;
  }
  for (auto& function : made->module->functions)
    if (module->FindFunction(function->name) == nullptr) {
      instructions += static_cast<int64_t>(function->values.size());
      module->functions.push_back(std::move(function));
    }

  auto lowered = std::make_unique<Lowered>();
  lowered->def = &def;
  lowered->scope = base.scope;
  for (const auto& function : module->functions)
    if (function->name == made->function) lowered->function = function.get();
  lowered->args = base.args;
  lowered->given = base.given;
  lowered->params = base.params;
  lowered->globals = base.globals;
  // Each gradient has the structure of its argument.
  const auto gradient = [&](int param) {
    const std::function<ResultTree(const ArgType&, std::vector<int>)> tree = [&](const ArgType& arg,
                                                                                 const std::vector<int>& path) {
      ResultTree out;
      out.value.kind = Desc::Kind::none;
      if (arg.kind == ArgType::Kind::tuple) {
        out.kind = ResultTree::Kind::tuple;
        out.value.integer = arg.is_list;
        for (size_t i = 0; i < arg.items.size(); ++i) {
          std::vector<int> inner = path;
          inner.push_back(static_cast<int>(i));
          out.items.push_back(tree(arg.items[i], inner));
        }
        return out;
      }
      for (size_t k = 0; k < wrt.size(); ++k) {
        const ParamSource& p = base.params[static_cast<size_t>(wrt[k])];
        if (p.param != param || p.path != path) continue;
        out.kind = p.is_number && p.dtype == DType::f64 ? ResultTree::Kind::number : ResultTree::Kind::tensor;
        out.index = static_cast<int>(k) + (d.with_value ? 1 : 0);
      }
      return out;
    };
    return tree(base.args[static_cast<size_t>(param)], {});
  };
  ResultTree gradients;
  if (d.is_tuple) {
    gradients.kind = ResultTree::Kind::tuple;
    for (int param : d.wrt) gradients.items.push_back(gradient(param));
  } else {
    gradients = gradient(d.wrt[0]);
  }
  if (d.with_value) {
    lowered->result.kind = ResultTree::Kind::tuple;
    lowered->result.items = {base.result, std::move(gradients)};
  } else {
    lowered->result = std::move(gradients);
  }
  done.push_back(std::move(lowered));
  return done.back().get();
}

// A function that gives what it is given. One serves all tensors of a dtype and rank, but for dims 0 and 1.
Val FunctionLowering::StopGradient(const Val& x, const Expr& at) {
  if (again_) return Val::Poison();
  auto made = std::make_unique<ir::Function>();
  TensorType type = TypeOf(x);
  for (int i = 0; i < type.rank; ++i)
    if (type.dims[i] != 0 && type.dims[i] != 1) type.dims[i] = made->symbols->Named(Cat("D", i));
  const ir::Function* callee = nullptr;
  for (const auto& f : module_.module->functions) {
    if (!f->stops_gradient || f->results[0].dtype != type.dtype || f->results[0].rank != type.rank) continue;
    // Symbols are numbered in the order they are named: the same dims have the same numbers.
    if (std::equal(type.dims, type.dims + type.rank, f->results[0].dims)) callee = f.get();
  }
  if (callee == nullptr) {
    made->name = module_.UniqueName("stop_gradient");
    made->stops_gradient = true;
    made->values.push_back({"x", type});
    made->params.push_back({0, ir::Privilege::read, ""});
    made->results.push_back(type);
    made->body.instructions.push_back(
        {ir::Op::k_return, {ir::Operand{ir::Operand::Kind::value, 0, {}}}, {}, {}, {}, {}});
    callee = made.get();
    module_.module->functions.push_back(std::move(made));
  }
  ir::Instruction inst{ir::Op::k_call, {OperandOf(x)}, {ir::Attr(callee->name)}, {}, {}, LocOf(at.span)};
  std::vector<TensorType> types;
  if (absl::Status s = ir::InferCall(*f_, inst, *callee, types); !s.ok()) {
    diagnostics.Report(Diag::op_error, at.span, std::string_view(s.message().data(), s.message().size()));
    return Val::Poison();
  }
  Val v = x;
  v.id = NewValue(types[0]);
  v.origin = at.span;
  deps_[static_cast<size_t>(v.id)] = deps_[static_cast<size_t>(x.id)];
  inst.results.push_back(v.id);
  Push(std::move(inst));
  return v;
}

const Lowered* ModuleLowering::DeriveAll(const Lowered& base, const FunctionDef& def, Span at) {
  if (def.derivative == nullptr) return &base;
  const Lowered* inner = DeriveAll(base, *def.derivative->of, at);
  return inner == nullptr ? nullptr : Derive(*inner, def, at);
}

}  // namespace tessera::lang
