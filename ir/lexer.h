// Tokens of the text form, and error messages that show where in the text they arose.
#ifndef TESSERA_IR_LEXER_H_
#define TESSERA_IR_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/function.h"

namespace tessera::ir {

enum class Tok : uint8_t {
  end,
  error,    // what Source::lex_error says; the last token
  name,     // add, B, tensor, _
  value,    // %x
  symbol,   // @f
  integer,  // 12
  hex,      // 0x1f
  real,     // 1.5, 1e-5
  string,   // "text"
  lparen,
  rparen,
  lbrace,
  rbrace,
  lbracket,
  rbracket,
  less,
  greater,
  comma,
  colon,
  equal,
  equal_equal,
  arrow,
  percent,
  star,
  plus,
  minus,
  slash,
};

struct Token {
  Tok kind;
  uint32_t offset;
  uint32_t length;
  uint32_t line;  // 1-based
};

/// The text with its tokens. The last token is `end` or `error`. Reading is linear in the text. The text must outlive
/// it.
class Source {
 public:
  Source(std::string_view text, std::string_view file);

  const std::vector<Token>& tokens() const { return tokens_; }
  std::string_view Text(const Token& t) const { return text_.substr(t.offset, t.length); }
  Loc LocOf(const Token& t) const;
  /// "'add'", "the end of the text": for messages.
  std::string Describe(const Token& t) const;
  /// "file:line:column: error: ...", the line, and a caret under the token with ~ to its end.
  std::string Message(std::string_view kind, const Token& t, std::string_view message) const;
  const std::string& lex_error() const { return lex_error_; }
  const std::string& lex_hint() const { return lex_hint_; }

 private:
  class Lexer;
  std::string_view text_;
  std::string file_;
  std::vector<uint32_t> line_starts_;
  std::vector<Token> tokens_;
  std::string lex_error_;
  std::string lex_hint_;
};

/// A token that spans from the first to the last of two on one line (to the end of the first one's line otherwise).
Token Span(const Token& first, const Token& last);

}  // namespace tessera::ir

#endif  // TESSERA_IR_LEXER_H_
