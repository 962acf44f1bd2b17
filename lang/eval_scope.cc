#include "lang/eval_scope.h"

#include "lang/builtins.h"

namespace tessera::lang {

Desc Describe(const Value& value) {
  Desc d;
  if (const Tensor* x = value.tensor()) return Desc::Tensor(*x->waiting_impl());
  if (const auto* b = value.As<bool>()) return Desc::Boolean(*b);
  if (const auto* i = value.As<int64_t>()) return Desc::Integer(*i);
  if (const auto* f = value.As<double>()) return Desc::Floating(*f);
  if (const auto* s = value.string()) {
    d.kind = Desc::Kind::string, d.text = *s;
  } else if (value.is_none()) {
    d.kind = Desc::Kind::none;
  } else if (const auto* t = value.As<DType>()) {
    d.kind = Desc::Kind::dtype, d.dtype = *t;
  } else if (const Items* items = value.items()) {
    d.kind = Desc::Kind::tuple;
    d.items.reserve(items->values.size());
    for (const Value& v : items->values) d.items.push_back(Describe(v));
  } else if (const auto* f = value.As<FunctionValue>()) {
    d.kind = Desc::Kind::function, d.def = f->def, d.scope = f->scope;
  } else if (const auto* m = value.As<ModuleScope*>()) {
    d.kind = Desc::Kind::module, d.scope = *m;
  } else if (const auto* b = value.As<BuiltinValue>(); b != nullptr && b->self == nullptr) {
    d.kind = Desc::Kind::builtin, d.text = std::string(b->builtin->name);
  } else {
    d.kind = Desc::Kind::other, d.text = value.Describe();
  }
  return d;
}

bool ModuleScope::Lookup(Name n, Desc* out) const {
  const Value* value = Find(n);
  if (value == nullptr) return false;
  *out = Describe(*value);
  return true;
}

void ModuleScope::Names(std::vector<std::string_view>* out) const {
  for (const auto& [id, value] : values) out->push_back(ast.Text(Name{id}));
}

}  // namespace tessera::lang
