#include <charconv>
#include <cmath>

#include "lang/parser_impl.h"

namespace tessera::lang {

uint16_t Parser::Height(std::initializer_list<const Expr*> parts, Span span) {
  int height = 0;
  for (const Expr* e : parts)
    if (e != nullptr && e->height > height) height = e->height;
  if (height >= kMaxExprHeight) {
    Error(Diag::expression_too_high, span, kMaxExprHeight);
    return 1;
  }
  return static_cast<uint16_t>(height + 1);
}
uint16_t Parser::Height(absl::Span<Expr* const> parts, Span span) {
  const Expr* highest = nullptr;
  for (const Expr* e : parts)
    if (highest == nullptr || e->height > highest->height) highest = e;
  return Height({highest}, span);
}

bool Parser::Deeper(Span at) {
  if (depth_ <= kMaxNesting) return true;
  Error(Diag::nesting_too_deep, at, kMaxNesting);
  return false;
}

Expr* Parser::ExpressionList() {
  const uint32_t begin = Here().begin;
  Expr* first = Expression();
  if (!At(Tok::comma) || panic_) return first;
  ExprList items = {first};
  while (Accept(Tok::comma)) {
    switch (kind()) {
      case Tok::newline:
      case Tok::end:
      case Tok::assign:
      case Tok::rparen:
      case Tok::rbracket:
      case Tok::colon:
      case Tok::semicolon: goto done;
      default: break;
    }
    items.push_back(Expression());
    if (panic_) break;
    if (items.size() > kMaxItems) {
      Error(Diag::too_many_items, Here(), kMaxItems);
      break;
    }
  }
done:
  const Span span = Since(begin);
  return arena_.New<TupleExpr>(TupleExpr{{ExprKind::tuple, Height(items, span), span}, arena_.Copy(items), false});
}

Expr* Parser::Expression() {
  Expr* value = Or();
  if (At(Tok::walrus)) Error(Diag::walrus, Here());
  if (!At(Tok::kw_if) || panic_) return value;
  Advance();
  Expr* condition = Or();
  if (!Expect(Tok::kw_else)) return value;
  Nested nested(*this);
  if (!Deeper(Here())) return value;
  Expr* other = Expression();
  const Span span = SpanFrom(*value);
  return arena_.New<ConditionalExpr>(
      ConditionalExpr{{ExprKind::conditional, Height({value, condition, other}, span), span}, condition, value, other});
}

Expr* Parser::Or() {
  Expr* left = And();
  while (At(Tok::kw_or) && !panic_) {
    Advance();
    Expr* right = And();
    const Span span = SpanFrom(*left);
    left = arena_.New<LogicalExpr>(
        LogicalExpr{{ExprKind::logical, Height({left, right}, span), span}, false, left, right});
  }
  return left;
}
Expr* Parser::And() {
  Expr* left = Not();
  while (At(Tok::kw_and) && !panic_) {
    Advance();
    Expr* right = Not();
    const Span span = SpanFrom(*left);
    left =
        arena_.New<LogicalExpr>(LogicalExpr{{ExprKind::logical, Height({left, right}, span), span}, true, left, right});
  }
  return left;
}
Expr* Parser::Not() {
  if (!At(Tok::kw_not)) return Comparison();
  Nested nested(*this);
  const Span at = Here();
  if (!Deeper(at)) return Bad(at);
  Advance();
  Expr* operand = Not();
  const Span span = Since(at.begin);
  return arena_.New<UnaryExpr>(
      UnaryExpr{{ExprKind::unary, Height({operand}, span), span}, UnaryOp::logical_not, operand});
}

Expr* Parser::Comparison() {
  Expr* first = Binary(0);
  const auto op_here = [&](CompareOp* op) {
    switch (kind()) {
      case Tok::eq: *op = CompareOp::eq; return true;
      case Tok::ne: *op = CompareOp::ne; return true;
      case Tok::lt: *op = CompareOp::lt; return true;
      case Tok::le: *op = CompareOp::le; return true;
      case Tok::gt: *op = CompareOp::gt; return true;
      case Tok::ge: *op = CompareOp::ge; return true;
      case Tok::kw_is: *op = next_kind() == Tok::kw_not ? CompareOp::is_not : CompareOp::is; return true;
      case Tok::kw_not:
        if (next_kind() == Tok::kw_in) Error(Diag::membership, {Here().begin, Here().end + 3}, "not in");
        return false;
      default: return false;
    }
  };
  CompareOp op;
  if (panic_ || !op_here(&op)) return first;
  ExprList operands = {first};
  absl::InlinedVector<CompareOp, 4> ops;
  while (!panic_ && op_here(&op)) {
    Advance();
    if (op == CompareOp::is_not) Advance();
    ops.push_back(op);
    operands.push_back(Binary(0));
  }
  const Span span = SpanFrom(*first);
  return arena_.New<CompareExpr>(
      CompareExpr{{ExprKind::compare, Height(operands, span), span}, arena_.Copy(ops), arena_.Copy(operands)});
}

namespace {
// Levels of binary operators: | ^ & shifts, sums, products.
int Precedence(Tok kind, BinaryOp* op) {
  switch (kind) {
    case Tok::pipe: *op = BinaryOp::bit_or; return 1;
    case Tok::caret: *op = BinaryOp::bit_xor; return 2;
    case Tok::amp: *op = BinaryOp::bit_and; return 3;
    case Tok::shl: *op = BinaryOp::shift_left; return 4;
    case Tok::shr: *op = BinaryOp::shift_right; return 4;
    case Tok::plus: *op = BinaryOp::add; return 5;
    case Tok::minus: *op = BinaryOp::sub; return 5;
    case Tok::star: *op = BinaryOp::mul; return 6;
    case Tok::slash: *op = BinaryOp::div; return 6;
    case Tok::slash2: *op = BinaryOp::floor_div; return 6;
    case Tok::percent: *op = BinaryOp::mod; return 6;
    case Tok::at: *op = BinaryOp::matmul; return 6;
    default: return 0;
  }
}
}  // namespace

Expr* Parser::Binary(int precedence) {
  Expr* left = Unary();
  BinaryOp op;
  for (int level; !panic_ && (level = Precedence(kind(), &op)) > precedence;) {
    const Span op_span = Here();
    if (next_kind() == kind() && t_[1].begin == t_->end && (At(Tok::plus) || At(Tok::minus)) &&
        (t_[2].kind == Tok::newline || t_[2].kind == Tok::end)) {
      Error(Diag::increment, {op_span.begin, op_span.end + 1}, At(Tok::plus) ? "++" : "--").hint =
          At(Tok::plus) ? "write x += 1" : "write x -= 1";
      return left;
    }
    Advance();
    Expr* right = Binary(level);
    const Span span = SpanFrom(*left);
    left = arena_.New<BinaryExpr>(
        BinaryExpr{{ExprKind::binary, Height({left, right}, span), span}, op, op_span, left, right});
  }
  return left;
}

Expr* Parser::Unary() {
  UnaryOp op;
  switch (kind()) {
    case Tok::minus: op = UnaryOp::neg; break;
    case Tok::plus: op = UnaryOp::pos; break;
    case Tok::tilde: op = UnaryOp::invert; break;
    default: return Power();
  }
  Nested nested(*this);
  const Span at = Here();
  if (!Deeper(at)) return Bad(at);
  Advance();
  Expr* operand = Unary();
  const Span span = Since(at.begin);
  return arena_.New<UnaryExpr>(UnaryExpr{{ExprKind::unary, Height({operand}, span), span}, op, operand});
}

Expr* Parser::Power() {
  Expr* base = Postfix();
  if (!At(Tok::star2) || panic_) return base;
  Nested nested(*this);
  const Span op_span = Here();
  if (!Deeper(op_span)) return base;
  Advance();
  Expr* exponent = Unary();
  const Span span = SpanFrom(*base);
  return arena_.New<BinaryExpr>(
      BinaryExpr{{ExprKind::binary, Height({base, exponent}, span), span}, BinaryOp::pow, op_span, base, exponent});
}

Expr* Parser::Postfix() {
  Expr* e = Primary();
  while (!panic_) {
    if (At(Tok::lparen)) {
      e = Call(e);
    } else if (At(Tok::lbracket)) {
      e = Index(e);
    } else if (At(Tok::dot)) {
      Advance();
      Name name;
      Span name_span;
      if (!TakeName(&name, &name_span)) return e;
      const Span span = SpanFrom(*e);
      e = arena_.New<AttributeExpr>(AttributeExpr{{ExprKind::attribute, Height({e}, span), span}, e, name, name_span});
    } else {
      break;
    }
  }
  return e;
}

Expr* Parser::Call(Expr* callee) {
  Nested nested(*this);
  if (!Deeper(Here())) return callee;
  Advance();
  absl::InlinedVector<Argument, 6> args;
  ExprList values = {callee};
  while (!At(Tok::rparen) && !panic_) {
    if (At(Tok::star) || At(Tok::star2)) {
      Error(Diag::star_argument, Here(), At(Tok::star) ? "*args" : "**kwargs");
      break;
    }
    Argument arg{{}, {}, nullptr};
    if (At(Tok::name) && next_kind() == Tok::assign) {
      TakeName(&arg.name, &arg.name_span);
      Advance();
      for (const Argument& a : args)
        if (a.name == arg.name) Error(Diag::repeated_keyword, arg.name_span, ast_.Text(arg.name));
    } else if (!args.empty() && args.back().name.id != 0) {
      Error(Diag::positional_after_keyword, Here());
      break;
    }
    arg.value = Expression();
    if (At(Tok::kw_for)) Error(Diag::comprehension, Here());
    if (panic_) break;
    args.push_back(arg);
    values.push_back(arg.value);
    if (args.size() > kMaxItems) Error(Diag::too_many_items, Here(), kMaxItems);
    if (!At(Tok::rparen) && !Expect(Tok::comma)) break;
  }
  if (!panic_) Expect(Tok::rparen);
  const Span span = SpanFrom(*callee);
  return arena_.New<CallExpr>(CallExpr{{ExprKind::call, Height(values, span), span}, callee, arena_.Copy(args)});
}

Expr* Parser::IndexItem() {
  const uint32_t begin = Here().begin;
  Expr* start = nullptr;
  if (!At(Tok::colon)) {
    start = Expression();
    if (!At(Tok::colon) || panic_) return start;
  }
  Expr *stop = nullptr, *step = nullptr;
  const auto part_follows = [&] { return !At(Tok::colon) && !At(Tok::comma) && !At(Tok::rbracket); };
  Advance();
  if (part_follows()) stop = Expression();
  if (!panic_ && Accept(Tok::colon) && part_follows()) step = Expression();
  const Span span = Since(begin);
  return arena_.New<SliceExpr>(
      SliceExpr{{ExprKind::slice, Height({start, stop, step}, span), span}, start, stop, step});
}

Expr* Parser::Index(Expr* object) {
  Nested nested(*this);
  const Span open = Here();
  if (!Deeper(open)) return object;
  Advance();
  ExprList items;
  bool trailing_comma = false;
  while (!At(Tok::rbracket) && !panic_) {
    items.push_back(IndexItem());
    trailing_comma = false;
    if (panic_ || At(Tok::rbracket)) break;
    if (!Expect(Tok::comma)) break;
    trailing_comma = true;
    if (items.size() > kMaxItems) Error(Diag::too_many_items, Here(), kMaxItems);
  }
  if (!panic_ && items.empty()) Error(Diag::empty_index, {open.begin, Here().end});
  if (!panic_) Expect(Tok::rbracket);
  const Span span = SpanFrom(*object);
  uint16_t height = Height(items, span);
  height = std::max(height, Height({object}, span));
  return arena_.New<IndexExpr>(IndexExpr{{ExprKind::index, height, span}, object, arena_.Copy(items), trailing_comma});
}

Expr* Parser::Primary() {
  const Span at = Here();
  switch (kind()) {
    case Tok::name: {
      const Name name = ast_.Intern(Text());
      Advance();
      return arena_.New<NameExpr>(NameExpr{{ExprKind::name, 1, at}, name});
    }
    case Tok::integer:
    case Tok::floating: return Number();
    case Tok::string: return String();
    case Tok::kw_true:
    case Tok::kw_false: {
      const bool value = At(Tok::kw_true);
      Advance();
      return arena_.New<BooleanExpr>(BooleanExpr{{ExprKind::boolean, 1, at}, value});
    }
    case Tok::kw_none: Advance(); return arena_.New<Expr>(ExprKind::none, uint16_t{1}, at);
    case Tok::ellipsis: Advance(); return arena_.New<Expr>(ExprKind::ellipsis, uint16_t{1}, at);
    case Tok::lparen: return Bracketed();
    case Tok::lbracket: return ListLiteral();
    case Tok::lbrace: return DictLiteral();
    default: return FoundNoExpression();
  }
}

Expr* Parser::FoundNoExpression() {
  const Span at = Here();
  if (At(Tok::reserved)) {
    const std::string_view word = Text();
    Error(Diag::reserved_word, at, word).hint = std::string(InsteadOf(word));
  } else if (At(Tok::bad)) {
    panic_ = true;  // the lexer has said it
  } else if (At(Tok::kw_not) && next_kind() == Tok::kw_in) {
    Error(Diag::membership, at, "not in");
  } else {
    Error(Diag::expected_expression, at, Found());
  }
  return Bad(at);
}

Expr* Parser::Bracketed() {
  Nested nested(*this);
  const Span open = Here();
  if (!Deeper(open)) return Bad(open);
  Advance();
  ExprList items;
  bool tuple = At(Tok::rparen);
  while (!At(Tok::rparen) && !panic_) {
    items.push_back(Expression());
    if (At(Tok::kw_for)) Error(Diag::comprehension, Here());
    if (At(Tok::colon)) Error(Diag::slice_outside_index, Here());
    if (panic_ || At(Tok::rparen)) break;
    if (!Expect(Tok::comma)) break;
    tuple = true;
    if (items.size() > kMaxItems) Error(Diag::too_many_items, Here(), kMaxItems);
  }
  if (!panic_) Expect(Tok::rparen);
  if (panic_) return Bad(Since(open.begin));
  const Span span = Since(open.begin);
  if (!tuple) {
    // The brackets are part of the expression for messages, and nothing else.
    items[0]->span = span;
    return items[0];
  }
  return arena_.New<TupleExpr>(TupleExpr{{ExprKind::tuple, Height(items, span), span}, arena_.Copy(items), true});
}

Expr* Parser::ListLiteral() {
  Nested nested(*this);
  const Span open = Here();
  if (!Deeper(open)) return Bad(open);
  Advance();
  ExprList items;
  while (!At(Tok::rbracket) && !panic_) {
    items.push_back(Expression());
    if (At(Tok::kw_for)) Error(Diag::comprehension, Here());
    if (At(Tok::colon)) Error(Diag::slice_outside_index, Here());
    if (panic_ || At(Tok::rbracket)) break;
    if (!Expect(Tok::comma)) break;
    if (items.size() > kMaxItems) Error(Diag::too_many_items, Here(), kMaxItems);
  }
  if (!panic_) Expect(Tok::rbracket);
  const Span span = Since(open.begin);
  return arena_.New<TupleExpr>(TupleExpr{{ExprKind::list, Height(items, span), span}, arena_.Copy(items), true});
}

Expr* Parser::DictLiteral() {
  Nested nested(*this);
  const Span open = Here();
  if (!Deeper(open)) return Bad(open);
  Advance();
  ExprList keys, values, all;
  while (!At(Tok::rbrace) && !panic_) {
    keys.push_back(Expression());
    if (panic_) break;
    if (At(Tok::comma) || At(Tok::rbrace)) {
      Error(Diag::set_literal, open);
      break;
    }
    if (!Expect(Tok::colon)) break;
    values.push_back(Expression());
    if (At(Tok::kw_for)) Error(Diag::comprehension, Here());
    if (panic_ || At(Tok::rbrace)) break;
    if (!Expect(Tok::comma)) break;
    if (keys.size() > kMaxItems) Error(Diag::too_many_items, Here(), kMaxItems);
  }
  if (!panic_) Expect(Tok::rbrace);
  const Span span = Since(open.begin);
  all.insert(all.end(), keys.begin(), keys.end());
  all.insert(all.end(), values.begin(), values.end());
  return arena_.New<DictExpr>(
      DictExpr{{ExprKind::dict, Height(all, span), span}, arena_.Copy(keys), arena_.Copy(values)});
}

Expr* Parser::Number() {
  const Span at = Here();
  std::string digits;
  std::string_view text = Text();
  const bool floating = At(Tok::floating);
  Advance();
  if (text.find('_') != std::string_view::npos) {
    for (char c : text)
      if (c != '_') digits += c;
    text = digits;
  }
  if (floating) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    // Beyond the range of f64: 0 or infinity, as strtod would have it.
    if (error == std::errc::result_out_of_range) value = std::strtod(std::string(text).c_str(), nullptr);
    if (error == std::errc::invalid_argument) Error(Diag::bad_number, at, text);
    return arena_.New<FloatingExpr>(FloatingExpr{{ExprKind::floating, 1, at}, value});
  }
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char c = static_cast<char>(text[1] | 32);
    base = c == 'x' ? 16 : c == 'b' ? 2 : c == 'o' ? 8 : 10;
    if (base != 10) text.remove_prefix(2);
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error == std::errc::result_out_of_range) {
    Error(Diag::number_too_large, at, file_.TextOf(at));
  } else if (error != std::errc() || end != text.data() + text.size()) {
    Error(Diag::bad_number, at, file_.TextOf(at));
  }
  return arena_.New<IntegerExpr>(IntegerExpr{{ExprKind::integer, 1, at}, value});
}

Expr* Parser::String() {
  const uint32_t begin = Here().begin;
  std::string all, part;
  // Strings beside each other are one.
  while (At(Tok::string)) {
    const std::string_view text = Text();
    const Span span = Here();
    Advance();
    if (!UnescapeString(text, span, diagnostics_, part)) panic_ = true;
    all += part;
  }
  return arena_.New<StringExpr>(StringExpr{{ExprKind::string, 1, Since(begin)}, arena_.Copy(std::string_view(all))});
}

}  // namespace tessera::lang
