// Annotations: what a type in the source says of a parameter or a result.
#ifndef TESSERA_LANG_TYPES_H_
#define TESSERA_LANG_TYPES_H_

#include <string>
#include <string_view>
#include <vector>

#include "ir/function.h"
#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tessera::lang {

struct TypeDim {
  enum class Kind : uint8_t { number, symbol, expression, any } kind = Kind::any;
  int64_t number = 0;
  std::string_view text;  // symbol, expression
  Span span;
};

struct TypeExpr {
  enum class Kind : uint8_t { any, tensor, integer, floating, boolean, none, tuple } kind = Kind::any;
  // tensor
  bool has_dtype = false;
  DType dtype = DType::f32;
  bool has_dims = false;  // false: Tensor alone
  int ellipsis = -1;      // how many dims stand before `...`; -1: there is none
  std::vector<TypeDim> dims;
  ir::Privilege privilege = ir::Privilege::read;
  std::string shard;
  std::vector<TypeExpr> items;  // tuple
  Span span;

  /// Says all there is to say: the function can be compiled without a call.
  bool full() const;
};

/// Null is any type. False after diagnostics.
bool ReadType(const Expr* annotation, const Ast& ast, Diagnostics& diagnostics, TypeExpr* out);

/// The dim in a table: a symbol, or an expression of those; kUnknownDim after a diagnostic.
int64_t DimOf(const TypeDim& dim, ir::SymbolTable& symbols, Diagnostics& diagnostics);

/// "Tensor["B", 768, f32]" as it was written.
std::string TypeExprText(const TypeExpr& type);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_TYPES_H_
