// Tokens to a syntax tree. An error ends its statement, the next line is read as if nothing had been wrong, and one
// mistake gives one diagnostic.
#ifndef TESSERA_LANG_PARSER_H_
#define TESSERA_LANG_PARSER_H_

#include <string_view>

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tessera::lang {

struct Parsed {
  Program* program;  // never null; statements with errors are left out
  /// The text stops where more must follow: inside brackets, after a colon, in a string of three quotes. A REPL then
  /// asks for another line, and shows the diagnostics only if there is none.
  bool incomplete = false;
};

/// The tree is in `ast` and refers to the text of `file`.
Parsed Parse(const SourceFile& file, Ast& ast, Diagnostics& diagnostics);

/// For a REPL: should it ask for another line? Yes for text that is incomplete, and for a block (`if`, `for`, `def`,
/// a decorator) until its last line is blank.
bool NeedsMoreLines(std::string_view text);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_PARSER_H_
