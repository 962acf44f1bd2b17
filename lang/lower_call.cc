// Calls of functions by functions: the callee is lowered for the types it is called with, into the same module.
#include <algorithm>

#include "ir/typing.h"
#include "lang/lower_impl.h"
#include "lang/text.h"

namespace tessera::lang {

using ir::Op;

bool BindArguments(const FunctionDef& def, const CallExpr& call, const Ast& ast, Diagnostics& diagnostics,
                   std::vector<int>* order) {
  const std::string_view name = ast.Text(def.name);
  order->assign(def.params.size(), -1);
  for (size_t i = 0; i < call.args.size(); ++i) {
    const Argument& a = call.args[i];
    size_t place = i;
    if (a.name.id != 0) {
      place = 0;
      while (place < def.params.size() && !(def.params[place].name == a.name)) ++place;
      if (place == def.params.size()) {
        std::vector<std::string_view> names;
        for (const Parameter& p : def.params) names.push_back(ast.Text(p.name));
        Diagnostic& d = diagnostics.Report(Diag::unknown_keyword, a.name_span, name, ast.Text(a.name));
        d.hint = DidYouMean(ast.Text(a.name), names);
        Diagnostics::Note(d, Diag::note_annotation, def.header);
        return false;
      }
    } else if (place >= def.params.size()) {
      Diagnostic& d = diagnostics.Report(Diag::too_many_arguments, a.value->span, name,
                                         CountOf(def.params.size(), "argument"), call.args.size());
      Diagnostics::Note(d, Diag::note_annotation, def.header);
      return false;
    }
    if ((*order)[place] >= 0) {
      diagnostics.Report(Diag::argument_twice, a.name_span, name, ast.Text(a.name));
      return false;
    }
    (*order)[place] = static_cast<int>(i);
  }
  for (size_t i = 0; i < def.params.size(); ++i) {
    if ((*order)[i] >= 0 || def.params[i].default_value != nullptr) continue;
    Diagnostic& d = diagnostics.Report(Diag::missing_argument, call.span, name, ast.Text(def.params[i].name));
    Diagnostics::Note(d, Diag::note_annotation, def.params[i].span);
    return false;
  }
  return true;
}

std::string ModuleLowering::UniqueName(std::string_view name) const {
  std::string unique(name);
  const auto taken = [&](const std::string& n) {
    // The function that was asked for comes last, and has its own name.
    if (!active.empty() && n == ast.Text(active.front()->def().name)) return true;
    return module->FindFunction(n) != nullptr;
  };
  for (int n = 1; taken(unique); ++n) unique = Cat(name, "_", n);
  return unique;
}

bool FunctionLowering::ArgOfVal(const Val& v, ArgType* out) {
  switch (v.kind) {
    case Val::Kind::tensor:
      out->type = TypeOf(v);
      if (v.weak) {
        out->kind = ArgType::Kind::number;
        out->value = Val::None();
        return true;
      }
      out->kind = ArgType::Kind::tensor;
      for (int i = 0; i < out->type.rank; ++i) out->sizes[i] = SizeOf(out->type.dims[i]);
      return true;
    case Val::Kind::boolean:
    case Val::Kind::integer:
    case Val::Kind::floating:
      out->kind = ArgType::Kind::number;
      out->value = v;
      out->type.dtype = v.kind == Val::Kind::floating  ? DType::f64
                        : v.kind == Val::Kind::integer ? DType::i64
                                                       : DType::boolean;
      return true;
    case Val::Kind::dim:
      // The size at hand is no constant of this function: the callee gets it as a number that is not built in.
      out->kind = ArgType::Kind::number;
      out->value = Val::None();
      out->type.dtype = DType::i64;
      return true;
    case Val::Kind::tuple:
      out->kind = ArgType::Kind::tuple;
      out->is_list = v.is_list;
      for (const Val& item : *v.items)
        if (!ArgOfVal(item, &out->items.emplace_back())) return false;
      return true;
    case Val::Kind::poison:
    case Val::Kind::undefined:
    case Val::Kind::host: return false;
    default:
      out->kind = ArgType::Kind::known;
      out->value = v;
      return true;
  }
}

namespace {

bool SameKnown(const Val& a, const Val& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Val::Kind::boolean:
    case Val::Kind::integer: return a.integer == b.integer;
    case Val::Kind::floating: return a.floating == b.floating;
    case Val::Kind::string: return a.text == b.text;
    case Val::Kind::dtype: return a.dtype == b.dtype;
    case Val::Kind::function: return a.def == b.def && a.scope == b.scope;
    case Val::Kind::module: return a.scope == b.scope;
    case Val::Kind::builtin: return a.builtin == b.builtin && a.items == nullptr && b.items == nullptr;
    case Val::Kind::none:
    case Val::Kind::ellipsis: return true;
    case Val::Kind::range: return false;
    default: return false;
  }
}

}  // namespace

bool FunctionLowering::Matches(const Lowered& f, const std::vector<ArgType>& args, const std::vector<bool>& given) {
  if (f.given != given) return false;
  std::vector<std::pair<int64_t, int64_t>> bound;
  const std::function<bool(const ArgType&, const ArgType&)> match = [&](const ArgType& want, const ArgType& have) {
    switch (want.kind) {
      case ArgType::Kind::tensor: {
        if (have.kind != ArgType::Kind::tensor || want.type.dtype != have.type.dtype ||
            want.type.rank != have.type.rank)
          return false;
        for (int i = 0; i < want.type.rank; ++i) {
          const int64_t w = want.type.dims[i], h = have.type.dims[i];
          if (!ir::IsSymbol(w)) {
            if (!ir::DimEqual(symbols(), w, h)) return false;
            continue;
          }
          if (h == 0 || h == 1) return false;
          bool seen = false;
          for (const auto& [symbol, dim] : bound) {
            if (symbol != w) continue;
            seen = true;
            if (!ir::DimEqual(symbols(), dim, h)) return false;
          }
          if (!seen) bound.emplace_back(w, h);
        }
        return true;
      }
      case ArgType::Kind::number: return have.kind == ArgType::Kind::number && have.type.dtype == want.type.dtype;
      case ArgType::Kind::known:
        return (have.kind == ArgType::Kind::known || have.kind == ArgType::Kind::number) &&
               SameKnown(want.value, have.value);
      case ArgType::Kind::tuple: {
        if (have.kind != ArgType::Kind::tuple || have.items.size() != want.items.size()) return false;
        for (size_t i = 0; i < want.items.size(); ++i)
          if (!match(want.items[i], have.items[i])) return false;
        return true;
      }
    }
    return false;
  };
  for (size_t i = 0; i < args.size(); ++i)
    if (given[i] && !match(f.args[i], args[i])) return false;
  return true;
}

const Lowered* FunctionLowering::Callee(const FunctionDef& def, const Scope& scope, const std::vector<ArgType>& args,
                                        const std::vector<bool>& given, Span at) {
  for (const auto& f : module_.done)
    if (f->def == &def && f->scope == &scope && Matches(*f, args, given)) return f.get();
  if (def.derivative != nullptr) {
    const Lowered* base = Callee(*def.derivative->of, scope, args, given, at);
    return base == nullptr ? nullptr : module_.Derive(*base, def, at);
  }
  for (const FunctionLowering* f : module_.active) {
    if (&f->def_ != &def) continue;
    diagnostics.Report(Diag::recursive_call, at, ast.Text(def.name));
    return nullptr;
  }
  char here;
  const auto depth = static_cast<size_t>(module_.stack > &here ? module_.stack - &here : &here - module_.stack);
  if (module_.active.size() > static_cast<size_t>(kMaxCallDepth) || depth > (size_t{2} << 20)) {
    diagnostics.Report(Diag::call_depth, at, kMaxCallDepth);
    return nullptr;
  }
  const size_t said = diagnostics.all().size();
  Demands demands;
  for (size_t round = 0; round < 200; ++round) {
    const size_t before = demands.count();
    const size_t functions = module_.module->functions.size(), finished = module_.done.size();
    const int64_t instructions = module_.instructions;
    FunctionLowering lowering(module_, def, scope, demands, at);
    if (lowering.Run(args, given)) {
      module_.done.push_back(lowering.Take(module_.UniqueName(ast.Text(def.name))));
      return module_.done.back().get();
    }
    if (!lowering.again() || demands.count() == before) break;
    // What it called stays: the next round calls it again.
    (void)functions, (void)finished;
    module_.instructions = instructions;
  }
  diagnostics.Explain(said, Diag::note_in_call, at, ast.Text(def.name));
  return nullptr;
}

Val FunctionLowering::ResultOf(const ResultTree& tree, absl::Span<const int32_t> results) {
  switch (tree.kind) {
    case ResultTree::Kind::tensor: return Val::Tensor(results[static_cast<size_t>(tree.index)]);
    case ResultTree::Kind::number: return Val::Tensor(results[static_cast<size_t>(tree.index)], true);
    case ResultTree::Kind::tuple: {
      Vals items;
      for (const ResultTree& item : tree.items) items.push_back(ResultOf(item, results));
      return Val::Tuple(std::move(items), tree.value.integer != 0);
    }
    case ResultTree::Kind::known: break;
  }
  ArgType known;
  ArgOfDesc(tree.value, ast, false, &known);
  return known.value;
}

Val FunctionLowering::CallFunction(const Val& f, const CallArgs& given_args, const CallExpr& at) {
  const FunctionDef& def = *f.def;
  std::vector<int> order;
  if (!BindArguments(def, at, ast, diagnostics, &order)) return Val::Poison();
  std::vector<ArgType> args(order.size());
  std::vector<bool> given(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    given[i] = order[i] >= 0;
    if (!given[i]) continue;
    const Val& v = given_args.values[static_cast<size_t>(order[i])];
    if (v.poison()) return v;
    if (!ArgOfVal(v, &args[i])) {
      diagnostics.Report(Diag::argument_kind, at.args[static_cast<size_t>(order[i])].value->span,
                         ast.Text(def.params[i].name), DescribeVal(*this, v));
      return Val::Poison();
    }
  }
  const Lowered* callee = Callee(def, *f.scope, args, given, at.span);
  if (callee == nullptr) return Val::Poison();
  const ir::Function& function = *callee->function;

  ir::Instruction inst{Op::k_call, {}, {ir::Attr(function.name)}, {}, {}, LocOf(at.span)};
  ir::SymbolTable& table = *f_->symbols;
  const ir::SymbolTable& theirs = *function.symbols;
  std::vector<int64_t> bound(static_cast<size_t>(theirs.num_named()), ir::SymbolTable::kUnknownDim);
  for (size_t i = 0; i < callee->params.size(); ++i) {
    const ParamSource& source = callee->params[i];
    Val v;
    if (source.kind == ParamSource::Kind::global) {
      v = Global(*source.scope, source.name, at);
    } else {
      v = given_args.values[static_cast<size_t>(order[static_cast<size_t>(source.param)])];
    }
    for (int k : source.path) v = Val((*v.items)[static_cast<size_t>(k)]);
    const TensorType& want = function.values[static_cast<size_t>(function.params[i].value)].type;
    if (v.kind == Val::Kind::dim) v = DimTensor(v, at);
    if (v.tensor() && want.rank == 0 && TypeOf(v).dtype != want.dtype) v = CastTo(*this, v, want.dtype, at);
    if (v.number() && want.dtype != DType::i64 && want.dtype != DType::f64 && want.dtype != DType::boolean)
      v = CastTo(*this, v, want.dtype, at);
    if (v.poison()) return v;
    inst.operands.push_back(OperandOf(v));
    if (!v.tensor()) continue;
    const TensorType type = TypeOf(v);
    for (int k = 0; k < want.rank && k < type.rank; ++k) {
      if (!ir::IsSymbol(want.dims[k])) {
        MakeEqual(type.dims[k], want.dims[k]);
        continue;
      }
      for (int s = 0; s < theirs.num_named(); ++s) {
        if (theirs.NamedSymbol(s) != want.dims[k]) continue;
        int64_t& b = bound[static_cast<size_t>(s)];
        if (b == ir::SymbolTable::kUnknownDim) {
          b = type.dims[k];
        } else {
          MakeEqual(b, type.dims[k]);
        }
      }
    }
  }
  // What the callee assumes, this function assumes, so that a call with other sizes gets another instance.
  for (const auto& fact : theirs.facts()) {
    const int64_t a = table.Substitute(theirs, fact.a, bound), b = table.Substitute(theirs, fact.b, bound);
    if (fact.kind == ir::SymbolTable::Fact::Kind::equal) {
      MakeEqual(a, b);
    } else if (has_sizes_ && !ir::IsSymbol(b) && b > 0 && ir::IsSymbol(a) && SizeOf(a) % b == 0) {
      table.AssumeDivisible(a, b);
    }
  }
  std::vector<TensorType> types;
  if (absl::Status s = ir::InferCall(*f_, inst, function, types); !s.ok()) {
    diagnostics.Report(Diag::op_error, at.span, std::string_view(s.message().data(), s.message().size()));
    return Val::Poison();
  }
  for (const TensorType& t : types) inst.results.push_back(NewValue(t));
  const std::vector<int32_t> results(inst.results.begin(), inst.results.end());
  Push(std::move(inst));
  Val v = ResultOf(callee->result, results);
  v.origin = at.span;
  return v;
}

}  // namespace tessera::lang
