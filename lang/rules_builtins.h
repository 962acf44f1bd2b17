// The builtins that are no ops: one function for each row of builtins.def.
#ifndef TESSERA_LANG_RULES_BUILTINS_H_
#define TESSERA_LANG_RULES_BUILTINS_H_

#include "lang/rules.h"

namespace tessera::lang {

Val CallOwnBuiltin(Machine& m, const Builtin& builtin, const CallArgs& args, const Expr& at);

/// grad(f, wrt) and value_and_grad(f, wrt): a function. (lower_grad.cc)
Val MakeGradient(Machine& m, bool with_value, const Val& f, const Expr& f_at, const Val& wrt, const Expr& wrt_at);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_RULES_BUILTINS_H_
