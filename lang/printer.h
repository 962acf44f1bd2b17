// A syntax tree as text: the one layout that `tessera fmt` writes, and a plain form for tests.
#ifndef TESSERA_LANG_PRINTER_H_
#define TESSERA_LANG_PRINTER_H_

#include <string>

#include "lang/ast.h"

namespace tessera::lang {

/// Columns of a line; longer ones are broken inside their outermost brackets where there are any.
inline constexpr int kMaxColumns = 100;

/// The program in canonical layout, with its comments: four blanks for a block, one statement a line, one blank line
/// at most, one around functions. Parsing it gives the same tree, and formatting it again the same text. The program
/// must have been parsed without errors.
std::string Format(const Program& program, const Ast& ast);

/// An expression as Format writes it, on one line.
std::string Format(const Expr& expr, const SourceFile& file, const Ast& ast);

/// The tree with every detail but places: equal for programs that mean the same.
std::string Dump(const Program& program, const Ast& ast);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_PRINTER_H_
