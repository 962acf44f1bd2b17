// What goes into a function and what comes out of it: parameters, annotations, globals, results.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "ir/typing.h"
#include "lang/decorators.h"
#include "lang/lower_impl.h"
#include "lang/text.h"

namespace tessera::lang {

using ir::Op;

FunctionLowering::FunctionLowering(ModuleLowering& module, const FunctionDef& def, const Scope& scope, Demands& demands,
                                   Span call)
    : Machine(module.ast, module.diagnostics),
      module_(module),
      def_(def),
      scope_(scope),
      demands_(demands),
      call_(call),
      f_(std::make_unique<ir::Function>()) {
  f_->loc = LocOf(def.name_span);
  // A guess that most functions keep within.
  f_->values.reserve(64), value_names_.reserve(64), deps_.reserve(64);
  f_->body.instructions.reserve(32);
  vars_.reserve(24), names_.reserve(24), slots_.reserve(24), blocks_.reserve(4);
  blocks_.push_back(&f_->body);
  vars_.assign(kFirstVariable, Val::Boolean(false));
  vars_[kResult] = Val::Of(Val::Kind::undefined);
}

void FunctionLowering::Know(Header header) {
  settings_ = std::move(header.settings);
  annotations_ = std::move(header.params);
  result_type_ = std::move(header.result);
  header_known_ = true;
}

bool FunctionLowering::ReadSettings() { return ReadDecorators(def_, ast, diagnostics, &settings_); }

bool FunctionLowering::ReadAnnotations() {
  bool good = true;
  for (const Parameter& p : def_.params) good &= ReadType(p.annotation, ast, diagnostics, &annotations_.emplace_back());
  return ReadType(def_.result, ast, diagnostics, &result_type_) && good;
}

// ---- types of parameters

int64_t FunctionLowering::SymbolFor(int64_t key, int64_t size) {
  if (key == 0 || key == 1) return key;
  if (size >= 0 && demands_.sizes.contains(size)) return size;
  for (const auto& [known, symbol] : keys_)
    if (known == key) return symbol;
  ir::SymbolTable& table = *f_->symbols;
  std::string name;
  for (int n = 0;; ++n) {
    name = std::string(1, static_cast<char>('A' + n % 26));
    if (n >= 26) Append(name, n / 26);
    bool written = table.Find(name) != 0;
    for (const TypeExpr& t : annotations_)
      for (const TypeDim& d : t.dims) written |= d.text == name;
    if (!written) break;
  }
  const int64_t symbol = table.Named(name);
  sizes_.resize(static_cast<size_t>(table.num_named()), -1);
  sizes_.back() = size;
  has_sizes_ &= size >= 0;
  keys_.emplace_back(key, symbol);
  return symbol;
}

bool FunctionLowering::MakeType(const ArgType& arg, const TypeExpr* annotation, std::string_view what, Span span,
                                TensorType* out) {
  const auto mismatch = [&] {
    TensorType given = arg.type;
    for (int i = 0; i < given.rank; ++i)
      if (arg.sizes[i] >= 0) given.dims[i] = arg.sizes[i];
    Diagnostic& d = diagnostics.Report(Diag::argument_mismatch, call_.known() ? call_ : span, what, ast.Text(def_.name),
                                       TypeExprText(*annotation), Cat("a tensor ", ir::TypeName(nullptr, given)));
    Diagnostics::Note(d, Diag::note_annotation, annotation->span);
    return false;
  };
  *out = arg.type;
  out->weak = false;
  const bool typed = annotation != nullptr && annotation->kind == TypeExpr::Kind::tensor;
  if (annotation != nullptr && annotation->kind != TypeExpr::Kind::any && !typed) return mismatch();
  if (typed && annotation->has_dtype && annotation->dtype != arg.type.dtype) return mismatch();
  const int rank = arg.type.rank;
  const int written = typed && annotation->has_dims ? static_cast<int>(annotation->dims.size()) : 0;
  const bool dims = typed && annotation->has_dims;
  if (dims && (annotation->ellipsis < 0 ? written != rank : written > rank)) return mismatch();
  for (int i = 0; i < rank; ++i) {
    const int64_t key = arg.type.dims[i], size = arg.sizes[i];
    const TypeDim* dim = nullptr;
    if (dims) {
      const int before = annotation->ellipsis < 0 ? written : annotation->ellipsis;
      const int after = written - before;
      if (i < before) dim = &annotation->dims[static_cast<size_t>(i)];
      if (i >= rank - after) dim = &annotation->dims[static_cast<size_t>(written - (rank - i))];
    }
    if (dim == nullptr || dim->kind == TypeDim::Kind::any) {
      out->dims[i] = SymbolFor(key, size);
      continue;
    }
    if (dim->kind == TypeDim::Kind::number) {
      if (size >= 0 ? size != dim->number : key != dim->number) return mismatch();
      out->dims[i] = dim->number;
      continue;
    }
    ir::SymbolTable& table = *f_->symbols;
    const int64_t value = DimOf(*dim, table, diagnostics);
    if (value == ir::SymbolTable::kUnknownDim) return false;
    sizes_.resize(static_cast<size_t>(table.num_named()), -1);
    if (dim->kind == TypeDim::Kind::symbol) {
      for (int k = 0; k < table.num_named(); ++k) {
        if (table.NamedSymbol(k) != value) continue;
        int64_t& bound = sizes_[static_cast<size_t>(k)];
        if (bound >= 0 && size >= 0 && bound != size) {
          Diagnostic& d =
              diagnostics.Report(Diag::symbol_conflict, call_.known() ? call_ : span, dim->text, bound, size, what);
          Diagnostics::Note(d, Diag::note_annotation, dim->span);
          return false;
        }
        bound = size;
        has_sizes_ &= size >= 0;
      }
      bool keyed = false;
      for (const auto& [known, symbol] : keys_) keyed |= known == key;
      if (!keyed && key != 0 && key != 1) keys_.emplace_back(key, value);
    } else if (const int64_t have = SizeOf(value); have >= 0 && size >= 0 && have != size) {
      return mismatch();
    }
    out->dims[i] = value;
  }
  return true;
}

Val FunctionLowering::AddParam(std::string_view name, const TensorType& type, ParamSource source,
                               const TypeExpr* annotation) {
  const int32_t id = NewValue(type);
  value_names_.back() = ast.Intern(name);
  ir::Param param;
  param.value = id;
  if (annotation != nullptr) {
    param.privilege = annotation->privilege;
    param.shard = annotation->shard;
    if (!param.shard.empty()) {
      if (absl::Status s = ir::CheckShard(param.shard, type); !s.ok()) {
        diagnostics.Report(Diag::bad_shard, annotation->span, std::string_view(s.message().data(), s.message().size()));
        return Val::Poison();
      }
    }
  }
  f_->params.push_back(std::move(param));
  if (!f_->params.back().shard.empty()) {
    if (absl::Status s = ir::CheckShards(*f_); !s.ok()) {
      diagnostics.Report(Diag::bad_shard, annotation->span, std::string_view(s.message().data(), s.message().size()));
      return Val::Poison();
    }
  }
  sources_.push_back(std::move(source));
  return Val::Tensor(id);
}

Val FunctionLowering::ValOfArg(const ArgType& arg, ParamSource source, std::string_view name, Span span,
                               const TypeExpr* annotation, ArgType* made) {
  *made = arg;
  const bool any = annotation == nullptr || annotation->kind == TypeExpr::Kind::any;
  const auto wrong = [&](const std::string& given) {
    Diagnostic& d = diagnostics.Report(Diag::argument_mismatch, call_.known() ? call_ : span, name, ast.Text(def_.name),
                                       TypeExprText(*annotation), given);
    Diagnostics::Note(d, Diag::note_annotation, annotation->span);
    return Val::Poison();
  };
  switch (arg.kind) {
    case ArgType::Kind::tensor: {
      TensorType type;
      if (!MakeType(arg, annotation, name, span, &type)) return Val::Poison();
      made->type = type;
      Val v = AddParam(name, type, std::move(source), annotation);
      v.origin = span;
      return v;
    }
    case ArgType::Kind::number: {
      DType dtype = arg.type.dtype;
      bool weak = true;
      if (!any) {
        const bool scalar = annotation->kind == TypeExpr::Kind::tensor && annotation->has_dims &&
                            annotation->dims.empty() && annotation->ellipsis < 0;
        const std::string_view given = dtype == DType::i64 ? "an int" : dtype == DType::f64 ? "a float" : "a bool";
        DType want = DType::i64;
        switch (annotation->kind) {
          case TypeExpr::Kind::integer: break;
          case TypeExpr::Kind::floating: want = DType::f64; break;
          case TypeExpr::Kind::boolean: want = DType::boolean; break;
          default:
            if (!scalar) return wrong(std::string(given));
            want = annotation->dtype;
            weak = false;
        }
        if (static_cast<int>(KindOf(dtype)) > static_cast<int>(KindOf(want))) return wrong(std::string(given));
        dtype = want;
        made->declared = true;
      }
      const int leaf = next_leaf_++;
      made->type.dtype = dtype;
      if (demands_.numbers.contains(leaf) && weak && arg.value.number()) {
        made->kind = ArgType::Kind::known;
        if (dtype == DType::f64) made->value = Val::Floating(arg.value.as_double());
        return made->value;
      }
      source.is_number = true;
      source.dtype = dtype;
      TensorType type;
      type.dtype = dtype;
      Val v = AddParam(name, type, std::move(source), annotation);
      if (v.poison()) return v;
      // Only a number whose value is at hand can be built in.
      if (leaf < 32 && weak && arg.value.number()) deps_[static_cast<size_t>(v.id)] = uint64_t{1} << leaf;
      v.weak = weak;
      v.origin = span;
      return v;
    }
    case ArgType::Kind::known:
      if (!any && !(annotation->kind == TypeExpr::Kind::none && arg.value.kind == Val::Kind::none))
        return wrong(DescribeVal(*this, arg.value));
      return arg.value;
    case ArgType::Kind::tuple: {
      if (!any && (annotation->kind != TypeExpr::Kind::tuple || annotation->items.size() != arg.items.size()))
        return wrong(Cat("a tuple of ", arg.items.size()));
      Vals items;
      for (size_t i = 0; i < arg.items.size(); ++i) {
        ParamSource inner = source;
        inner.path.push_back(static_cast<int>(i));
        items.push_back(ValOfArg(arg.items[i], std::move(inner), Cat(name, "_", i), span,
                                 any ? nullptr : &annotation->items[i], &made->items[i]));
        if (items.back().poison()) return Val::Poison();
      }
      return Val::Tuple(std::move(items), arg.is_list);
    }
  }
  return Val::Poison();
}

namespace {

// The argument that an annotation stands for, where there is no call.
ArgType DeclaredArg(const TypeExpr& type, ir::SymbolTable& table, Diagnostics& diagnostics, bool* good) {
  ArgType arg;
  switch (type.kind) {
    case TypeExpr::Kind::tensor:
      arg.kind = ArgType::Kind::tensor;
      arg.type.dtype = type.dtype;
      for (const TypeDim& d : type.dims) {
        arg.sizes[arg.type.rank] = -1;
        const int64_t dim = DimOf(d, table, diagnostics);
        *good &= dim != ir::SymbolTable::kUnknownDim;
        arg.type.dims[arg.type.rank++] = dim;
      }
      break;
    case TypeExpr::Kind::integer:
    case TypeExpr::Kind::floating:
    case TypeExpr::Kind::boolean:
      arg.kind = ArgType::Kind::number;
      arg.type.dtype = type.kind == TypeExpr::Kind::integer    ? DType::i64
                       : type.kind == TypeExpr::Kind::floating ? DType::f64
                                                               : DType::boolean;
      break;
    case TypeExpr::Kind::tuple:
      arg.kind = ArgType::Kind::tuple;
      for (const TypeExpr& item : type.items) arg.items.push_back(DeclaredArg(item, table, diagnostics, good));
      break;
    default: arg.value = Val::None(); break;
  }
  return arg;
}

}  // namespace

bool FunctionLowering::RunDeclared() {
  if (!header_known_ && (!ReadSettings() || !ReadAnnotations())) return false;
  std::vector<ArgType> args;
  const std::vector<bool> given(annotations_.size(), true);
  bool good = true;
  args.reserve(annotations_.size());
  for (const TypeExpr& t : annotations_) args.push_back(DeclaredArg(t, *f_->symbols, diagnostics, &good));
  if (!good) return false;
  has_sizes_ = false;
  return Body(args, given);
}

bool FunctionLowering::Run(const std::vector<ArgType>& args, const std::vector<bool>& given) {
  return ReadSettings() && ReadAnnotations() && Body(args, given);
}

bool FunctionLowering::Body(const std::vector<ArgType>& args, const std::vector<bool>& given) {
  module_.active.push_back(this);
  const int errors = diagnostics.errors();
  for (const Parameter& p : def_.params) AddVariable(p.name);
  FindVariables(def_.body);
  given_ = given;
  made_args_.resize(args.size());
  f_->params.reserve(args.size()), sources_.reserve(args.size());
  bool good = true;
  for (size_t i = 0; i < def_.params.size(); ++i) {
    const Parameter& p = def_.params[i];
    Val v;
    if (given[i]) {
      ParamSource source;
      source.param = static_cast<int>(i);
      v = ValOfArg(args[i], std::move(source), ast.Text(p.name), p.span, &annotations_[i], &made_args_[i]);
    } else if (p.default_value != nullptr) {
      v = Eval(*p.default_value);
      if (!v.poison() && annotations_[i].kind != TypeExpr::Kind::any &&
          !CheckResult(annotations_[i], &v, p.default_value->span))
        v = Val::Poison();
    }
    good &= !v.poison();
    vars_[static_cast<size_t>(SlotOf(p.name))] = v;
  }
  if (good && !Stopped()) Statements(def_.body);
  good = good && !Stopped() && diagnostics.errors() == errors && Finish();
  module_.active.pop_back();
  return good && !again_;
}

// ---- globals

bool FunctionLowering::ArgOfDesc(const Desc& desc, Ast& ast, bool number_leaves, ArgType* out) {
  switch (desc.kind) {
    case Desc::Kind::tensor:
      out->kind = ArgType::Kind::tensor;
      out->type = desc.type;
      out->type.weak = false;
      for (int i = 0; i < desc.type.rank; ++i) out->sizes[i] = desc.type.dims[i];
      return true;
    case Desc::Kind::integer:
    case Desc::Kind::floating:
    case Desc::Kind::boolean:
      out->value = desc.kind == Desc::Kind::floating  ? Val::Floating(desc.floating)
                   : desc.kind == Desc::Kind::integer ? Val::Integer(desc.integer)
                                                      : Val::Boolean(desc.integer != 0);
      if (!number_leaves) return true;
      out->kind = ArgType::Kind::number;
      out->type.rank = 0;
      out->type.dtype = desc.kind == Desc::Kind::floating  ? DType::f64
                        : desc.kind == Desc::Kind::integer ? DType::i64
                                                           : DType::boolean;
      return true;
    case Desc::Kind::string: out->value = Val::String(ast.Text(ast.Intern(desc.text))); return true;
    case Desc::Kind::none: out->value = Val::None(); return true;
    case Desc::Kind::dtype: out->value = Val::OfDType(desc.dtype); return true;
    case Desc::Kind::tuple:
      out->kind = ArgType::Kind::tuple;
      for (const Desc& item : desc.items)
        if (!ArgOfDesc(item, ast, number_leaves, &out->items.emplace_back())) return false;
      return true;
    case Desc::Kind::function:
      out->value = Val::Of(Val::Kind::function);
      out->value.def = desc.def;
      out->value.scope = desc.scope;
      return true;
    case Desc::Kind::module:
      out->value = Val::Of(Val::Kind::module);
      out->value.scope = desc.scope;
      return true;
    case Desc::Kind::builtin: out->value = LanguageName(desc.text); return !out->value.poison();
    default: return false;
  }
}

Val FunctionLowering::Global(const Scope& scope, Name name, const Expr& at) {
  for (const GlobalVal& g : globals_)
    if (g.scope == &scope && g.name == name) return g.value;
  Desc desc;
  if (!scope.Lookup(name, &desc)) return Val::Poison();
  ArgType arg;
  if (!ArgOfDesc(desc, ast, false, &arg)) {
    diagnostics.Report(Diag::global_unusable, at.span, ast.Text(name), desc.text.empty() ? "a host value" : desc.text);
    return Val::Poison();
  }
  ParamSource source;
  source.kind = ParamSource::Kind::global;
  source.scope = &scope;
  source.name = name;
  GlobalUse use{&scope, name, {}};
  // Beside parameters of no size at hand, a global's dims are numbers.
  const bool sized = has_sizes_;
  if (!sized) {
    const std::function<void(const ArgType&)> demand = [&](const ArgType& a) {
      for (int i = 0; a.kind == ArgType::Kind::tensor && i < a.type.rank; ++i) demands_.sizes.insert(a.sizes[i]);
      for (const ArgType& item : a.items) demand(item);
    };
    demand(arg);
  }
  Val v = ValOfArg(arg, std::move(source), ast.Text(name), at.span, nullptr, &use.type);
  globals_.push_back({&scope, name, v});
  global_uses_.push_back(std::move(use));
  return v;
}

// ---- results

bool FunctionLowering::FitsTensor(const TypeExpr& type, const TensorType& given) {
  if (type.has_dtype && type.dtype != given.dtype) return false;
  if (!type.has_dims) return true;
  const int written = static_cast<int>(type.dims.size()), rank = given.rank;
  if (type.ellipsis < 0 ? written != rank : written > rank) return false;
  const int before = type.ellipsis < 0 ? written : type.ellipsis, after = written - before;
  for (int i = 0; i < rank; ++i) {
    const TypeDim* dim = i < before          ? &type.dims[static_cast<size_t>(i)]
                         : i >= rank - after ? &type.dims[static_cast<size_t>(written - (rank - i))]
                                             : nullptr;
    if (dim == nullptr || dim->kind == TypeDim::Kind::any) continue;
    if (dim->kind == TypeDim::Kind::symbol && f_->symbols->Find(dim->text) == 0) {
      diagnostics.Report(Diag::unbound_symbol, dim->span, dim->text);
      return true;
    }
    const int64_t want = DimOf(*dim, *f_->symbols, diagnostics);
    if (want == ir::SymbolTable::kUnknownDim) return true;
    if (!MakeEqual(given.dims[i], want)) return false;
  }
  return true;
}

bool FunctionLowering::SetShard(const Val& v, const TypeExpr& type) {
  if (type.kind == TypeExpr::Kind::tuple && v.kind == Val::Kind::tuple) {
    for (size_t i = 0; i < type.items.size() && i < v.items->size(); ++i)
      if (!SetShard((*v.items)[i], type.items[i])) return false;
    return true;
  }
  if (type.shard.empty() || !v.tensor()) return true;
  absl::Status s = ir::CheckShard(type.shard, TypeOf(v));
  if (s.ok()) {
    for (ir::Param& p : f_->params) {
      if (p.value != v.id) continue;
      // Another name for an argument: it cannot lie in two ways.
      if (p.shard.empty() || p.shard == type.shard) {
        p.shard = type.shard;
        return true;
      }
      s = InvalidArgument("the same value has the shard \"", p.shard, "\" already");
    }
  }
  if (s.ok()) {
    auto at = std::lower_bound(f_->shards.begin(), f_->shards.end(), v.id,
                               [](const auto& entry, int32_t id) { return entry.first < id; });
    if (at == f_->shards.end() || at->first != v.id) {
      f_->shards.emplace(at, v.id, type.shard);
    } else if (at->second != type.shard) {
      s = InvalidArgument("the same value has the shard \"", at->second, "\" already");
    }
  }
  if (s.ok()) s = ir::CheckShards(*f_);
  if (s.ok()) return true;
  diagnostics.Report(Diag::bad_shard, type.span, std::string_view(s.message().data(), s.message().size()));
  return false;
}

bool FunctionLowering::CheckResult(const TypeExpr& type, Val* v, Span at) {
  const auto number = [&](DType dtype) {
    if (v->number() || v->kind == Val::Kind::dim) {
      const DType given = v->kind == Val::Kind::floating  ? DType::f64
                          : v->kind == Val::Kind::boolean ? DType::boolean
                                                          : DType::i64;
      if (dtype == DType::f64 && v->number()) *v = Val::Floating(v->as_double());
      return given == dtype || (dtype == DType::f64 && v->kind != Val::Kind::dim);
    }
    return v->tensor() && TypeOf(*v).rank == 0 && TypeOf(*v).dtype == dtype;
  };
  const int errors = diagnostics.errors();
  bool fits = false;
  switch (type.kind) {
    case TypeExpr::Kind::any: return true;
    case TypeExpr::Kind::tensor: {
      const bool is_number = v->number() || v->kind == Val::Kind::dim || (v->tensor() && v->weak);
      if (is_number && type.has_dtype && type.dims.empty() && type.ellipsis < 0) {
        *v = CastTo(*this, *v, type.dtype, Expr{ExprKind::none, 1, at});
        return !v->poison();
      }
      fits = v->strong() && FitsTensor(type, TypeOf(*v));
      break;
    }
    case TypeExpr::Kind::integer: fits = number(DType::i64); break;
    case TypeExpr::Kind::floating: fits = number(DType::f64); break;
    case TypeExpr::Kind::boolean: fits = number(DType::boolean); break;
    case TypeExpr::Kind::none: fits = v->kind == Val::Kind::none; break;
    case TypeExpr::Kind::tuple: {
      if (v->kind != Val::Kind::tuple || v->items->size() != type.items.size()) break;
      Vals items = *v->items;
      for (size_t i = 0; i < items.size(); ++i)
        if (!CheckResult(type.items[i], &items[i], at)) return false;
      *v = Val::Tuple(std::move(items), v->is_list);
      return true;
    }
  }
  if (diagnostics.errors() > errors) return false;
  if (fits) return true;
  const std::string given = v->strong() ? Cat("a tensor ", ir::TypeName(has_sizes_ ? nullptr : f_->symbols.get(),
                                                                        has_sizes_ ? Concrete(TypeOf(*v)) : TypeOf(*v)))
                                        : DescribeVal(*this, *v);
  Diagnostic& d = diagnostics.Report(Diag::result_mismatch, at, ast.Text(def_.name), TypeExprText(type), given);
  Diagnostics::Note(d, Diag::note_annotation, type.span);
  return false;
}

bool FunctionLowering::MakeResult(const Val& v, ResultTree* tree, std::vector<ir::Operand>* results) {
  const Expr at{ExprKind::none, 1, result_span_};
  switch (v.kind) {
    case Val::Kind::tensor:
      tree->kind = v.weak ? ResultTree::Kind::number : ResultTree::Kind::tensor;
      tree->index = static_cast<int>(results->size());
      results->push_back(OperandOf(v));
      f_->results.push_back(TypeOf(v));
      return true;
    case Val::Kind::dim: {
      const Val number = DimTensor(v, at);
      return !number.poison() && MakeResult(number, tree, results);
    }
    case Val::Kind::tuple:
      tree->kind = ResultTree::Kind::tuple;
      tree->value.integer = v.is_list;
      for (const Val& item : *v.items)
        if (!MakeResult(item, &tree->items.emplace_back(), results)) return false;
      return true;
    case Val::Kind::none: tree->value.kind = Desc::Kind::none; return true;
    case Val::Kind::boolean:
    case Val::Kind::integer:
      tree->value.kind = v.kind == Val::Kind::boolean ? Desc::Kind::boolean : Desc::Kind::integer;
      tree->value.integer = v.integer;
      return true;
    case Val::Kind::floating:
      tree->value.kind = Desc::Kind::floating;
      tree->value.floating = v.floating;
      return true;
    case Val::Kind::string:
      tree->value.kind = Desc::Kind::string;
      tree->value.text = std::string(v.text);
      return true;
    case Val::Kind::dtype:
      tree->value.kind = Desc::Kind::dtype;
      tree->value.dtype = v.dtype;
      return true;
    case Val::Kind::function:
      tree->value.kind = Desc::Kind::function;
      tree->value.def = v.def;
      tree->value.scope = v.scope;
      return true;
    default: diagnostics.Report(Diag::return_kind, result_span_, DescribeVal(*this, v)); return false;
  }
}

bool FunctionLowering::Finish() {
  const Val returned = vars_[kReturned];
  Val v = vars_[kResult];
  result_span_ = v.origin.known() ? v.origin : def_.name_span;
  if (returned.poison() || v.poison()) return false;
  const bool never = returned.kind == Val::Kind::boolean && returned.integer == 0;
  if (never || (v.kind == Val::Kind::undefined && v.items == nullptr)) v = Val::None();
  if (v.kind == Val::Kind::undefined) {
    diagnostics.Report(Diag::return_conflict, def_.name_span, ast.Text(def_.name), DescribeVal(*this, (*v.items)[0]),
                       DescribeVal(*this, (*v.items)[1]));
    return false;
  }
  if (returned.kind != Val::Kind::boolean && v.kind != Val::Kind::none) {
    diagnostics.Report(Diag::missing_return, def_.name_span, ast.Text(def_.name));
    return false;
  }
  if (def_.result != nullptr && (!CheckResult(result_type_, &v, result_span_) || !SetShard(v, result_type_)))
    return false;
  std::vector<ir::Operand> results;
  if (!MakeResult(v, &result_, &results)) return false;
  Push({Op::k_return, std::move(results), {}, {}, {}, LocOf(result_span_)});
  for (int i = 0; i < f_->symbols->num_named(); ++i) {
    bool bound = false;
    for (const ir::Param& p : f_->params) {
      const TensorType& type = f_->values[static_cast<size_t>(p.value)].type;
      for (int k = 0; k < type.rank; ++k) bound |= type.dims[k] == f_->symbols->NamedSymbol(i);
    }
    if (bound) continue;
    diagnostics.Report(Diag::unbound_symbol, def_.header, f_->symbols->named(i));
    return false;
  }
  // Values are called after the variable that had them first.
  absl::flat_hash_map<uint32_t, int> counts;
  counts.reserve(names_.size());
  const auto is_variable = [&](std::string_view name) {
    const Name known = ast.Find(name);
    return known.id != 0 && counts.contains(known.id);
  };
  for (const Name name : value_names_)
    if (name.id != 0) counts.emplace(name.id, 0);
  for (size_t i = 0; i < value_names_.size(); ++i) {
    if (value_names_[i].id == 0) continue;
    const std::string_view text = ast.Text(value_names_[i]);
    if (text == "_") continue;
    int& n = counts.find(value_names_[i].id)->second;
    std::string& name = f_->values[i].name;
    name = text;
    // x_1 is another x, unless a variable of the program is called so.
    for (; n > 0; ++n) {
      name = Cat(text, "_", n);
      if (!is_variable(name)) break;
    }
    ++n;
  }
  return module_.instructions < kMaxInstructions;
}

std::unique_ptr<Lowered> FunctionLowering::Take(std::string name) {
  auto done = std::make_unique<Lowered>();
  f_->name = std::move(name);
  f_->schedule = settings_.schedule;
  f_->tune_space = settings_.tune_space;
  for (const auto& [key, span] : settings_.tune_key)
    if (f_->symbols->Find(key) != 0) Append(f_->tune_key, f_->tune_key.empty() ? "" : ",", key);
  done->def = &def_;
  done->scope = &scope_;
  done->function = f_.get();
  done->args = std::move(made_args_);
  done->given = std::move(given_);
  done->params = std::move(sources_);
  done->globals = std::move(global_uses_);
  done->result = std::move(result_);
  module_.module->functions.push_back(std::move(f_));
  return done;
}

}  // namespace tessera::lang
