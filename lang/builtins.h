// The table of names that can be called: ops, other names of ops, and what builtins.def adds.
#ifndef TESSERA_LANG_BUILTINS_H_
#define TESSERA_LANG_BUILTINS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "ir/op.h"

namespace tessera::lang {

/// The rows of builtins.def that are no aliases.
enum class BuiltinId : uint8_t {
#define TSR_BUILTIN(name, signature, summary) b_##name,
#define TSR_HOST(name, signature, summary) b_##name,
#include "lang/builtins.def"
  op,  // an op, called by the rules for all ops
};

struct Builtin {
  std::string_view name;
  BuiltinId id = BuiltinId::op;
  ir::Op op{};  // where id is `op`
  /// For people; empty where the op's row says it.
  std::string_view signature;
  std::string_view summary;
};

/// Null: there is none. Pointers stay valid.
const Builtin* FindBuiltin(std::string_view name);
/// By name.
absl::Span<const Builtin* const> AllBuiltins();

/// Ops that programs cannot call: constants and control flow have a syntax, buffers have none yet.
bool IsCallable(ir::Op op);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_BUILTINS_H_
