// The builtins that are no ops: one function for each row of builtins.def.
#ifndef TESSERA_LANG_RULES_BUILTINS_H_
#define TESSERA_LANG_RULES_BUILTINS_H_

#include "lang/rules.h"

namespace tessera::lang {

Val CallOwnBuiltin(Machine& m, const Builtin& builtin, const CallArgs& args, const Expr& at);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_RULES_BUILTINS_H_
