// The parser's inside: parser.cc has statements, parser_expr.cc expressions.
#ifndef TESSERA_LANG_PARSER_IMPL_H_
#define TESSERA_LANG_PARSER_IMPL_H_

#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "lang/lexer.h"
#include "lang/parser.h"

namespace tessera::lang {

/// Few are long: no memory is asked for.
using ExprList = absl::InlinedVector<Expr*, 8>;

class Parser {
 public:
  Parser(const SourceFile& file, Ast& ast, Diagnostics& diagnostics, Tokens tokens)
      : file_(file), ast_(ast), arena_(ast.arena()), diagnostics_(diagnostics), lexed_(std::move(tokens)) {
    t_ = lexed_.tokens.data();
  }
  Parsed Run();

 private:
  // ---- tokens
  Tok kind() const { return t_->kind; }
  Tok next_kind() const { return t_->kind == Tok::end ? Tok::end : t_[1].kind; }
  bool At(Tok kind) const { return t_->kind == kind; }
  Span Here() const { return {file_.base() + t_->begin, file_.base() + t_->end}; }
  /// Where the last token ended; at the first one, where that begins.
  uint32_t Ended() const { return file_.base() + (t_ == lexed_.tokens.data() ? t_->begin : t_[-1].end); }
  Span Since(uint32_t begin) const { return {begin, Ended()}; }
  std::string_view Text() const { return file_.text().substr(t_->begin, t_->end - t_->begin); }
  void Advance() {
    if (t_->kind != Tok::end) ++t_;
  }
  bool Accept(Tok kind) {
    if (t_->kind != kind) return false;
    Advance();
    return true;
  }
  bool Expect(Tok kind);
  std::string Found() const;
  /// Reports, unless this statement has an error already, and marks the statement as wrong.
  template <class... T>
  Diagnostic& Error(Diag id, Span span, const T&... args) {
    // The lexer has closed a bracket, and said so.
    const bool added = t_->begin == t_->end && (At(Tok::rparen) || At(Tok::rbracket) || At(Tok::rbrace));
    if (panic_ || added) {
      panic_ = true;
      return muted_ = Diagnostics::Make(id, span, {});
    }
    panic_ = true;
    return diagnostics_.Report(id, span, args...);
  }

  // ---- statements (parser.cc)
  void Statement(std::vector<Stmt*>& out);
  Stmt* Compound();
  void SimpleLine(std::vector<Stmt*>& out);
  Stmt* Simple();
  Stmt* ExpressionOrAssignment();
  Stmt* If();
  Stmt* While();
  Stmt* For();
  Stmt* Def(std::vector<Expr*> decorators, uint32_t begin);
  bool Parameters(std::vector<Parameter>& params);
  Stmt* Decorated();
  Stmt* Import();
  Stmt* From();
  std::string_view ImportPath(Span* span, Name* last);
  bool Item(ImportStmt::Item* item);
  Stmt* Return();
  Stmt* Assert();
  /// `: newline indent statements dedent`, or statements on the same line. `what` is the word it belongs to.
  Block Body(std::string_view what, Span header);
  bool CheckTarget(const Expr& target);
  /// After an error: to the end of the line, and over a block that belongs to it.
  void Recover();
  bool TakeName(Name* name, Span* span);

  // ---- expressions (parser_expr.cc)
  /// One expression, or several with commas between them, which are a tuple.
  Expr* ExpressionList();
  Expr* Expression();
  Expr* Or();
  Expr* And();
  Expr* Not();
  Expr* Comparison();
  Expr* Binary(int precedence);
  Expr* Unary();
  Expr* Power();
  Expr* Postfix();
  Expr* Primary();
  Expr* Bracketed();
  Expr* ListLiteral();
  Expr* DictLiteral();
  Expr* Number();
  Expr* String();
  Expr* Call(Expr* callee);
  Expr* Index(Expr* object);
  Expr* IndexItem();
  Expr* Bad(Span span) { return arena_.New<Expr>(ExprKind::error, uint16_t{1}, span); }
  Expr* FoundNoExpression();
  Span SpanFrom(const Expr& first) const { return {first.span.begin, Ended()}; }
  uint16_t Height(std::initializer_list<const Expr*> parts, Span span);
  uint16_t Height(absl::Span<Expr* const> parts, Span span);
  bool Deeper(Span at);

  struct Nested {
    explicit Nested(Parser& p) : p(p) { ++p.depth_; }
    ~Nested() { --p.depth_; }
    Parser& p;
  };

  const SourceFile& file_;
  Ast& ast_;
  Arena& arena_;
  Diagnostics& diagnostics_;
  Tokens lexed_;
  const Token* t_;
  bool panic_ = false;
  bool incomplete_ = false;
  int depth_ = 0;
  int loops_ = 0;
  bool in_function_ = false;
  int blocks_ = 0;
  Diagnostic muted_;
};

}  // namespace tessera::lang

#endif  // TESSERA_LANG_PARSER_IMPL_H_
