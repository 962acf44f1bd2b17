// What stands before a def: @function, @accum, @kernel.schedule, @kernel.autotune.
#ifndef TESSERA_LANG_DECORATORS_H_
#define TESSERA_LANG_DECORATORS_H_

#include <string>
#include <utility>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"
#include "lang/types.h"
#include "tessera/dtype.h"

namespace tessera::lang {

/// What decorators ask for.
struct Settings {
  bool has_accum = false;
  DType accum = DType::f32;
  // As in ir::Function.
  std::string schedule;
  std::string tune_space;
  std::vector<std::pair<std::string, Span>> tune_key;
};

/// False after diagnostics.
bool ReadDecorators(const FunctionDef& def, const Ast& ast, Diagnostics& diagnostics, Settings* out);

/// Does the key name dims of parameters? False after diagnostics.
bool CheckTuneKey(const Settings& settings, const std::vector<TypeExpr>& params, Diagnostics& diagnostics);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_DECORATORS_H_
