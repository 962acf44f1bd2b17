// Instances: finding them again by what they were compiled for, and making them.
#include "lang/lower.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "ir/typing.h"
#include "lang/lower_impl.h"
#include "lang/text.h"

namespace tessera::lang {
namespace {

/// An instance with what it was compiled for.
struct Entry {
  Instance instance;
  std::vector<ArgType> args;
  std::vector<bool> given;
  std::vector<GlobalUse> globals;
  const ir::SymbolTable* symbols = nullptr;
  bool declared = false;  // its symbols may be of any size, 0 and 1 as well
};

using Bound = absl::InlinedVector<int64_t, 8>;

class Matcher {
 public:
  explicit Matcher(const Entry& entry) : e_(entry), bound_(static_cast<size_t>(entry.symbols->num_named()), -1) {}

  bool Run(absl::Span<const Desc> args) {
    for (size_t i = 0; i < args.size(); ++i) {
      if (e_.given[i] != (args[i].kind != Desc::Kind::absent)) return false;
      if (e_.given[i] && !Match(e_.args[i], args[i])) return false;
    }
    for (const GlobalUse& use : e_.globals) {
      Desc now;
      if (!use.scope->Lookup(use.name, &now) || !Match(use.type, now)) return false;
    }
    // Dims that are expressions, now that symbols have their sizes.
    for (const auto& [dim, size] : expressions_)
      if (e_.symbols->Evaluate(dim, bound_) != size) return false;
    return e_.symbols->facts().empty() || e_.symbols->CheckFacts(bound_).ok();
  }

 private:
  bool Match(const ArgType& want, const Desc& have) {
    switch (want.kind) {
      case ArgType::Kind::tensor: return have.kind == Desc::Kind::tensor && MatchType(want.type, have.type);
      case ArgType::Kind::number:
        switch (have.kind) {
          case Desc::Kind::integer: return MatchNumber(want, DType::i64);
          case Desc::Kind::floating: return MatchNumber(want, DType::f64);
          case Desc::Kind::boolean: return MatchNumber(want, DType::boolean);
          default: return false;
        }
      case ArgType::Kind::known: return MatchKnown(want.value, have);
      case ArgType::Kind::tuple:
        if (have.kind != Desc::Kind::tuple || have.items.size() != want.items.size()) return false;
        for (size_t i = 0; i < want.items.size(); ++i)
          if (!Match(want.items[i], have.items[i])) return false;
        return true;
    }
    return false;
  }
  // An annotation may make a number one of a higher kind.
  static bool MatchNumber(const ArgType& want, DType given) {
    return want.type.dtype == given || (want.declared && KindOf(given) <= KindOf(want.type.dtype));
  }

  bool MatchType(const TensorType& want, const TensorType& have) {
    if (want.dtype != have.dtype || want.rank != have.rank) return false;
    for (int i = 0; i < want.rank; ++i) {
      const int64_t w = want.dims[i], h = have.dims[i];
      if (!ir::IsSymbol(w)) {
        if (w != h) return false;
        continue;
      }
      if (h < 2 && !e_.declared) return false;
      bool named = false;
      for (size_t s = 0; s < bound_.size() && !named; ++s) {
        if (e_.symbols->NamedSymbol(static_cast<int>(s)) != w) continue;
        named = true;
        if (bound_[s] >= 0 && bound_[s] != h) return false;
        bound_[s] = h;
      }
      if (!named) expressions_.emplace_back(w, h);
    }
    return true;
  }

  static bool MatchKnown(const Val& want, const Desc& have) {
    switch (want.kind) {
      case Val::Kind::none: return have.kind == Desc::Kind::none;
      case Val::Kind::boolean: return have.kind == Desc::Kind::boolean && have.integer == want.integer;
      case Val::Kind::integer: return have.kind == Desc::Kind::integer && have.integer == want.integer;
      case Val::Kind::floating: return have.kind == Desc::Kind::floating && have.floating == want.floating;
      case Val::Kind::string: return have.kind == Desc::Kind::string && have.text == want.text;
      case Val::Kind::dtype: return have.kind == Desc::Kind::dtype && have.dtype == want.dtype;
      case Val::Kind::function:
        return have.kind == Desc::Kind::function && have.def == want.def && have.scope == want.scope;
      case Val::Kind::module: return have.kind == Desc::Kind::module && have.scope == want.scope;
      case Val::Kind::builtin: return have.kind == Desc::Kind::builtin && have.text == want.builtin->name;
      default: return false;
    }
  }

  const Entry& e_;
  Bound bound_;
  std::vector<std::pair<int64_t, int64_t>> expressions_;
};

}  // namespace

struct Instances::Impl {
  Ast& ast;
  const SourceMap& sources;
  // In the order they were made, which is that of their memory: so they go faster in the end.
  std::vector<std::unique_ptr<Entry>> all;
  absl::flat_hash_map<const FunctionDef*, std::vector<Entry*>> entries;
  std::vector<std::pair<const FunctionDef*, const Scope*>> deferred;

  /// `header`: of a declared function, where it is known; it is taken.
  Entry* Make(const FunctionDef& def, const Scope& scope, absl::Span<const Desc> args, Span call,
              Diagnostics& diagnostics, bool declared, FunctionLowering::Header* header = nullptr);
  /// What only those need that use the instance; null for null.
  const Instance* Ready(Entry* entry) const;
};

Instances::Instances(Ast& ast, const SourceMap& sources) : impl_(new Impl{ast, sources, {}, {}, {}}) {}
Instances::~Instances() = default;

namespace {

std::string Signature(const FunctionDef& def, const Entry& e, const Ast& ast) {
  std::string out = Cat(ast.Text(def.name), "(");
  const std::function<std::string(const ArgType&)> text = [&](const ArgType& a) -> std::string {
    switch (a.kind) {
      case ArgType::Kind::tensor: return ir::TypeName(e.symbols, a.type);
      case ArgType::Kind::number:
        return a.type.dtype == DType::i64       ? "int"
               : a.type.dtype == DType::f64     ? "float"
               : a.type.dtype == DType::boolean ? "bool"
                                                : ir::TypeName(nullptr, a.type);
      case ArgType::Kind::tuple: {
        std::string items = "(";
        for (size_t i = 0; i < a.items.size(); ++i) Append(items, i > 0 ? ", " : "", text(a.items[i]));
        return items + ")";
      }
      case ArgType::Kind::known: break;
    }
    switch (a.value.kind) {
      case Val::Kind::integer: return Cat(a.value.integer);
      case Val::Kind::boolean: return a.value.integer != 0 ? "True" : "False";
      case Val::Kind::floating: return std::to_string(a.value.floating);
      case Val::Kind::string: return Cat("\"", a.value.text, "\"");
      case Val::Kind::dtype: return std::string(tessera::Name(a.value.dtype));
      case Val::Kind::none: return "None";
      case Val::Kind::function: return std::string(ast.Text(a.value.def->name));
      default: return "...";
    }
  };
  bool first = true;
  for (size_t i = 0; i < e.args.size(); ++i) {
    if (!e.given[i]) continue;
    const bool built_in = e.args[i].kind == ArgType::Kind::known;
    Append(out, first ? "" : ", ", built_in ? Cat(ast.Text(def.params[i].name), "=") : "", text(e.args[i]));
    first = false;
  }
  out += ")";
  if (const std::string facts = e.symbols->Facts(); !facts.empty()) Append(out, " where ", facts);
  return out;
}

}  // namespace

const Instance* Instances::Impl::Ready(Entry* entry) const {
  if (entry == nullptr) return nullptr;
  Instance& instance = entry->instance;
  if (instance.state == nullptr) {
    instance.state = MakeModuleState(instance.module);
    instance.signature = Signature(*instance.def, *entry, ast);
  }
  return &instance;
}

Entry* Instances::Impl::Make(const FunctionDef& def, const Scope& scope, absl::Span<const Desc> args, Span call,
                             Diagnostics& diagnostics, bool declared, FunctionLowering::Header* header) {
  std::vector<ArgType> types(declared ? 0 : def.params.size());
  std::vector<bool> given(types.size(), false);
  for (size_t i = 0; i < args.size(); ++i) {
    given[i] = args[i].kind != Desc::Kind::absent;
    if (!given[i] || FunctionLowering::ArgOfDesc(args[i], ast, true, &types[i])) continue;
    diagnostics.Report(Diag::argument_kind, call, ast.Text(def.params[i].name),
                       args[i].text.empty() ? "this value" : args[i].text);
    return nullptr;
  }
  Demands demands;
  const size_t said = diagnostics.all().size();
  const FunctionDef* written = &def;
  while (written->derivative != nullptr) written = written->derivative->of;
  for (size_t round = 0; round < 200; ++round) {
    const size_t before = demands.count();
    char here;
    ModuleLowering module(ast, sources, diagnostics);
    module.stack = &here;
    if (const SourceFile* file = sources.FileOf(def.span)) module.module->file = file->name();
    FunctionLowering lowering(module, *written, scope, demands, call);
    // Lowered again, it reads what it was found good once more: that is rare.
    if (header != nullptr) lowering.Know(std::move(*std::exchange(header, nullptr)));
    const bool good = declared ? lowering.RunDeclared() : lowering.Run(types, given);
    if (!good) {
      if (lowering.again() && demands.count() > before) continue;
      break;
    }
    module.done.push_back(lowering.Take(std::string(ast.Text(written->name))));
    const ir::Function& base = *module.done.back()->function;
    const Lowered* derived = module.DeriveAll(*module.done.back(), def, call);
    if (derived == nullptr) break;
    Lowered* done = nullptr;
    auto entry = std::make_unique<Entry>();
    // What functions that it calls have read of the globals counts, too.
    for (const auto& f : module.done) {
      if (f.get() == derived) {
        done = f.get();
        continue;
      }
      for (const GlobalUse& use : f->globals)
        if (use.type.kind == ArgType::Kind::known) entry->globals.push_back(use);
    }
    entry->globals.insert(entry->globals.begin(), done->globals.begin(), done->globals.end());
    // The lowering is done with it: what it holds moves.
    entry->args = std::move(done->args);
    entry->given = std::move(done->given);
    // Those of the arguments' types; the gradients have them under the same names.
    entry->symbols = base.symbols.get();
    entry->declared = declared;
    entry->instance.def = &def;
    for (size_t i = 0; i < module.module->functions.size(); ++i)
      if (module.module->functions[i].get() == done->function) entry->instance.function = static_cast<int>(i);
    entry->instance.params = std::move(done->params);
    entry->instance.result = std::move(done->result);
    entry->instance.module = std::move(module.module);
    all.push_back(std::move(entry));
    entries[&def].push_back(all.back().get());
    return all.back().get();
  }
  if (call.known()) diagnostics.Explain(said, Diag::note_in_call, call, ast.Text(def.name));
  return nullptr;
}

const Instance* Instances::Get(const FunctionDef& def, const Scope& scope, absl::Span<const Desc> args, Span call,
                               Diagnostics& diagnostics) {
  const auto found = impl_->entries.find(&def);
  if (found != impl_->entries.end()) {
    for (Entry* entry : found->second)
      if (Matcher(*entry).Run(args)) return impl_->Ready(entry);
    if (found->second.size() >= static_cast<size_t>(kMaxInstances)) {
      diagnostics.Report(Diag::too_many_instances, call, impl_->ast.Text(def.name), found->second.size()).hint =
          "pass numbers that vary as tensors, or write the types of the parameters";
      return nullptr;
    }
  }
  return impl_->Ready(impl_->Make(def, scope, args, call, diagnostics, false));
}

const Instance* Instances::Define(const FunctionDef& def, const Scope& scope, Diagnostics& diagnostics) {
  FunctionLowering::Header header;
  bool good = ReadDecorators(def, impl_->ast, diagnostics, &header.settings), full = true;
  header.params.resize(def.params.size());
  for (size_t i = 0; i < def.params.size(); ++i) {
    good &= ReadType(def.params[i].annotation, impl_->ast, diagnostics, &header.params[i]);
    full &= header.params[i].full();
  }
  good &= ReadType(def.result, impl_->ast, diagnostics, &header.result);
  if (good) good = CheckTuneKey(header.settings, header.params, diagnostics);
  if (!good || !full) return nullptr;
  Diagnostics found;
  Entry* entry = impl_->Make(def, scope, {}, {}, found, true, &header);
  // A name that is not there yet may be there when the function is called.
  for (const Diagnostic& d : found.all()) {
    if (d.id != Diag::unknown_name && d.id != Diag::unknown_member) continue;
    impl_->deferred.emplace_back(&def, &scope);
    return nullptr;
  }
  diagnostics.Append(found);
  return entry == nullptr ? nullptr : &entry->instance;
}

void Instances::CheckDeferred(Diagnostics& diagnostics) {
  const auto deferred = std::exchange(impl_->deferred, {});
  for (const auto& [def, scope] : deferred)
    if (!impl_->entries.contains(def)) impl_->Make(*def, *scope, {}, {}, diagnostics, true);
}

std::vector<const Instance*> Instances::Of(const FunctionDef& def) const {
  std::vector<const Instance*> out;
  const auto found = impl_->entries.find(&def);
  if (found == impl_->entries.end()) return out;
  for (Entry* entry : found->second) out.push_back(impl_->Ready(entry));
  return out;
}

}  // namespace tessera::lang
