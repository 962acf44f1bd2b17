// Source text to tokens, with Python's rules for lines and indentation.
#ifndef TESSERA_LANG_LEXER_H_
#define TESSERA_LANG_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"
#include "lang/source.h"

namespace tessera::lang {

enum class Tok : uint8_t {
#define TSR_TOKEN(name, text) name,
#define TSR_PUNCT(name, text) name,
#define TSR_KEYWORD(name, text) name,
#include "lang/tokens.def"
};
/// The spelling, or what kind of token it is.
std::string_view Describe(Tok kind);
/// For a reserved word: what there is in place of it. Empty for any other.
std::string_view InsteadOf(std::string_view word);
/// Words that cannot be names, in the order of the table, without those that are reserved only.
const std::vector<std::string_view>& Keywords();

struct Token {
  Tok kind;
  uint32_t begin;  // offsets in the text, without the file's base
  uint32_t end;
};

/// Tokens of one text.
inline constexpr size_t kMaxTokens = size_t{1} << 24;

struct Tokens {
  std::vector<Token> tokens;  // the last one is `end`; lines and blocks are closed
  std::vector<Comment> comments;
  /// The text stops inside brackets, a string of three quotes or after a backslash.
  bool incomplete = false;
};

/// Gives diagnostics for what is no token and goes on after it.
Tokens Lex(const SourceFile& file, Diagnostics& diagnostics);

/// The value of a string token, escapes replaced; false, with a diagnostic, for an escape that there is not. `span` is
/// the token with its quotes.
bool UnescapeString(std::string_view token, Span span, Diagnostics& diagnostics, std::string& out);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_LEXER_H_
