// What stands before a def: @function, @accum, @kernel.schedule, @kernel.autotune.
#ifndef TESSERA_LANG_DECORATORS_H_
#define TESSERA_LANG_DECORATORS_H_

#include "lang/ast.h"
#include "lang/diagnostic.h"
#include "tessera/dtype.h"

namespace tessera::lang {

/// What decorators ask for.
struct Settings {
  bool has_accum = false;
  DType accum = DType::f32;
};

/// False after diagnostics.
bool ReadDecorators(const FunctionDef& def, const Ast& ast, Diagnostics& diagnostics, Settings* out);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_DECORATORS_H_
