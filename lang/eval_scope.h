// The names of one file, or of the REPL.
#ifndef TESSERA_LANG_EVAL_SCOPE_H_
#define TESSERA_LANG_EVAL_SCOPE_H_

#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "lang/ast.h"
#include "lang/eval_value.h"
#include "lang/lower.h"

namespace tessera::lang {

/// Lives as long as its session: functions and values refer to it.
struct ModuleScope final : Scope {
  ModuleScope(const Ast& the_ast, std::string the_name, std::string the_folder)
      : ast(the_ast), name(std::move(the_name)), folder(std::move(the_folder)) {}
  ModuleScope(const ModuleScope&) = delete;

  bool Lookup(Name name, Desc* out) const override;
  void Names(std::vector<std::string_view>* out) const override;

  const Value* Find(Name n) const {
    const auto it = values.find(n.id);
    return it == values.end() ? nullptr : &it->second;
  }
  void Set(Name n, Value value) { values[n.id] = std::move(value); }
  std::string_view NameOf(const FunctionDef& def) const { return ast.Text(def.name); }

  const Ast& ast;
  const std::string name;  // of the file, for messages
  std::string folder;      // imports are looked for here; empty: the current one
  absl::flat_hash_map<uint32_t, Value> values;
};

/// What the lowering may know of a value.
Desc Describe(const Value& value);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_EVAL_SCOPE_H_
