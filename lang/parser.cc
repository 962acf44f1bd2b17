#include "lang/parser.h"

#include "lang/parser_impl.h"

namespace tessera::lang {

std::string Parser::Found() const {
  switch (kind()) {
    case Tok::newline:
    case Tok::end:
    case Tok::indent:
    case Tok::dedent: return std::string(Describe(kind()));
    default: return Cat("`", Text().substr(0, 40), "`");
  }
}

bool Parser::Expect(Tok kind) {
  if (Accept(kind)) return true;
  if (panic_) return false;
  if (At(Tok::bad)) {
    panic_ = true;
    return false;
  }
  if (At(Tok::reserved)) {
    FoundNoExpression();
    return false;
  }
  // What is missing at the end of a line is missing after the last token.
  Span at = Here();
  if (At(Tok::newline) && t_ != lexed_.tokens.data() && t_[-1].end > t_[-1].begin)
    at = {file_.base() + t_[-1].end, file_.base() + t_[-1].end + 1};
  if (At(Tok::assign) && kind == Tok::colon) {
    Error(Diag::assign_in_condition, at).hint = "write == to compare";
  } else {
    Error(Diag::expected, at, Describe(kind), Found());
  }
  return false;
}

bool Parser::TakeName(Name* name, Span* span) {
  *span = Here();
  if (At(Tok::name)) {
    *name = ast_.Intern(Text());
    Advance();
    return true;
  }
  if (At(Tok::reserved) || (kind() >= Tok::kw_and && kind() <= Tok::kw_while)) {
    Error(Diag::keyword_as_name, Here(), Text());
  } else if (At(Tok::bad)) {
    panic_ = true;
  } else {
    Error(Diag::expected, Here(), Describe(Tok::name), Found());
  }
  return false;
}

void Parser::Recover() {
  panic_ = false;
  while (!At(Tok::newline) && !At(Tok::end) && !At(Tok::indent) && !At(Tok::dedent)) Advance();
  Accept(Tok::newline);
  if (!At(Tok::indent)) return;
  // The block belongs to a line that could not be read. What is in it is read for its errors and then forgotten.
  Advance();
  std::vector<Stmt*> dropped;
  const bool in_function = std::exchange(in_function_, true);
  ++loops_;
  Nested nested(*this);
  if (depth_ > kMaxNesting) {
    for (int open = 1; open > 0 && !At(Tok::end); Advance()) open += At(Tok::indent) ? 1 : At(Tok::dedent) ? -1 : 0;
  } else {
    while (!At(Tok::dedent) && !At(Tok::end)) Statement(dropped);
    Accept(Tok::dedent);
  }
  --loops_;
  in_function_ = in_function;
}

Parsed Parser::Run() {
  std::vector<Stmt*> body;
  while (!At(Tok::end)) {
    if (At(Tok::dedent)) {
      Advance();
      continue;
    }
    Statement(body);
  }
  auto* program = arena_.New<Program>(Program{&file_, arena_.Copy(body), arena_.Copy(lexed_.comments)});
  return {program, incomplete_ || lexed_.incomplete};
}

void Parser::Statement(std::vector<Stmt*>& out) {
  const Token* before = t_;
  if (At(Tok::newline)) {
    Advance();
    return;
  }
  if (At(Tok::indent)) {
    // The line is wrong, what it says may be right.
    Error(Diag::unexpected_indent, Here());
    panic_ = false;
    Advance();
    while (!At(Tok::dedent) && !At(Tok::end)) Statement(out);
    Accept(Tok::dedent);
    return;
  }
  if (Stmt* s = Compound()) {
    if (!panic_) out.push_back(s);
  } else {
    SimpleLine(out);
  }
  if (panic_) Recover();
  if (t_ == before) Advance();
}

Stmt* Parser::Compound() {
  switch (kind()) {
    case Tok::kw_if: return If();
    case Tok::kw_while: return While();
    case Tok::kw_for: return For();
    case Tok::kw_def: return Def({}, Here().begin);
    case Tok::at: return Decorated();
    case Tok::kw_elif:
    case Tok::kw_else: Error(Diag::else_without_if, Here(), Text()); return arena_.New<Stmt>(StmtKind::error, Here());
    default: return nullptr;
  }
}

void Parser::SimpleLine(std::vector<Stmt*>& out) {
  while (true) {
    Stmt* s = Simple();
    if (panic_) return;
    out.push_back(s);
    if (!Accept(Tok::semicolon) || At(Tok::newline)) break;
  }
  if (At(Tok::end) || Accept(Tok::newline)) return;
  if (At(Tok::assign)) {
    Error(Diag::cannot_assign, Here(), "this");
  } else if (At(Tok::colon)) {
    Error(Diag::expected, Here(), Describe(Tok::newline), Found());
  } else {
    Expect(Tok::newline);
  }
}

Stmt* Parser::Simple() {
  const Span at = Here();
  switch (kind()) {
    case Tok::kw_pass: Advance(); return arena_.New<Stmt>(StmtKind::pass, at);
    case Tok::kw_break:
    case Tok::kw_continue: {
      const StmtKind kind = At(Tok::kw_break) ? StmtKind::break_ : StmtKind::continue_;
      if (loops_ == 0) {
        Error(Diag::outside_loop, at, Text());
        panic_ = false;
      }
      Advance();
      return arena_.New<Stmt>(kind, at);
    }
    case Tok::kw_return: return Return();
    case Tok::kw_import: return Import();
    case Tok::kw_from: return From();
    case Tok::kw_assert: return Assert();
    default: return ExpressionOrAssignment();
  }
}

Stmt* Parser::Return() {
  const Span at = Here();
  if (!in_function_) {
    Error(Diag::outside_function, at, "return");
    panic_ = false;
  }
  Advance();
  Expr* value = nullptr;
  if (!At(Tok::newline) && !At(Tok::semicolon) && !At(Tok::end)) value = ExpressionList();
  return arena_.New<ReturnStmt>(ReturnStmt{{StmtKind::return_, Since(at.begin)}, value});
}

Stmt* Parser::Assert() {
  const Span at = Here();
  Advance();
  Expr* condition = Expression();
  Expr* message = nullptr;
  if (!panic_ && Accept(Tok::comma)) message = Expression();
  return arena_.New<AssertStmt>(AssertStmt{{StmtKind::assert_, Since(at.begin)}, condition, message});
}

bool Parser::CheckTarget(const Expr& target) {
  const char* what = nullptr;
  switch (target.kind) {
    case ExprKind::name:
    case ExprKind::index: return true;
    case ExprKind::tuple:
    case ExprKind::list:
      for (const Expr* item : As<TupleExpr>(target).items)
        if (!CheckTarget(*item)) return false;
      return true;
    case ExprKind::error: return false;
    case ExprKind::integer:
    case ExprKind::floating:
    case ExprKind::boolean:
    case ExprKind::none:
    case ExprKind::string: what = "a constant"; break;
    case ExprKind::call: what = "the result of a call"; break;
    case ExprKind::attribute: what = "an attribute"; break;
    default: what = "an expression"; break;
  }
  Error(Diag::cannot_assign, target.span, what);
  return false;
}

Stmt* Parser::ExpressionOrAssignment() {
  const uint32_t begin = Here().begin;
  Expr* first = ExpressionList();
  const auto bad = [&] { return arena_.New<Stmt>(StmtKind::error, Since(begin)); };
  if (panic_) return bad();
  const Tok op = kind();
  if (op == Tok::assign) {
    ExprList targets = {first};
    Expr* value = nullptr;
    while (Accept(Tok::assign)) {
      if (value != nullptr) targets.push_back(value);
      value = ExpressionList();
      if (panic_) return bad();
    }
    for (const Expr* t : targets)
      if (!CheckTarget(*t)) return bad();
    return arena_.New<AssignStmt>(AssignStmt{{StmtKind::assign, Since(begin)}, arena_.Copy(targets), nullptr, value});
  }
  if (op >= Tok::plus_assign && op <= Tok::shr_assign) {
    static constexpr BinaryOp kOps[] = {BinaryOp::add,        BinaryOp::sub,    BinaryOp::mul,     BinaryOp::div,
                                        BinaryOp::floor_div,  BinaryOp::mod,    BinaryOp::pow,     BinaryOp::matmul,
                                        BinaryOp::bit_and,    BinaryOp::bit_or, BinaryOp::bit_xor, BinaryOp::shift_left,
                                        BinaryOp::shift_right};
    const Span op_span = Here();
    const std::string_view text = Text();
    if (first->kind != ExprKind::name && first->kind != ExprKind::index) {
      Error(Diag::aug_assign_target, first->span, text);
      return bad();
    }
    Advance();
    Expr* value = ExpressionList();
    if (!panic_ && At(Tok::assign)) Error(Diag::chained_aug_assign, op_span, text);
    return arena_.New<AugAssignStmt>(AugAssignStmt{{StmtKind::aug_assign, Since(begin)},
                                                   kOps[static_cast<int>(op) - static_cast<int>(Tok::plus_assign)],
                                                   op_span,
                                                   first,
                                                   value});
  }
  if (op == Tok::colon && first->kind != ExprKind::error) {
    const Token* colon = t_;
    Advance();
    if (At(Tok::newline) || At(Tok::end)) {
      t_ = colon;
      return arena_.New<ExprStmt>(ExprStmt{{StmtKind::expr, Since(begin)}, first});
    }
    Expr* annotation = Expression();
    if (panic_) return bad();
    if (first->kind != ExprKind::name) {
      Error(Diag::cannot_annotate, first->span);
      return bad();
    }
    Expr* value = Accept(Tok::assign) ? ExpressionList() : nullptr;
    if (panic_) return bad();
    if (!in_function_) {
      Error(Diag::annotation_without_function, annotation->span);
      panic_ = false;
    }
    return arena_.New<AssignStmt>(
        AssignStmt{{StmtKind::assign, Since(begin)}, arena_.Copy(std::vector<Expr*>{first}), annotation, value});
  }
  return arena_.New<ExprStmt>(ExprStmt{{StmtKind::expr, Since(begin)}, first});
}

Block Parser::Body(std::string_view what, Span header) {
  if (!Expect(Tok::colon)) return {};
  std::vector<Stmt*> body;
  Nested nested(*this);
  ++blocks_;
  if (!At(Tok::newline)) {
    if (At(Tok::kw_if) || At(Tok::kw_while) || At(Tok::kw_for) || At(Tok::kw_def) || At(Tok::at)) {
      Error(Diag::expected, Here(), Describe(Tok::newline), Found());
    } else if (Deeper(Here())) {
      SimpleLine(body);
    }
    --blocks_;
    return arena_.Copy(body);
  }
  Advance();
  if (!At(Tok::indent)) {
    // Blocks around this one end with the text.
    const Token* next = t_;
    while (next->kind == Tok::dedent) ++next;
    if (next->kind == Tok::end) incomplete_ = true;
    Error(Diag::expected_block, header, what);
    panic_ = false;
    --blocks_;
    return {};
  }
  if (!Deeper(Here())) {
    --blocks_;
    return {};
  }
  Advance();
  while (!At(Tok::dedent) && !At(Tok::end)) Statement(body);
  Accept(Tok::dedent);
  --blocks_;
  return arena_.Copy(body);
}

Stmt* Parser::If() {
  const uint32_t begin = Here().begin;
  std::vector<IfStmt::Branch> branches;
  Block else_body;
  Span else_span;
  while (true) {
    const Span word = Here();
    const std::string_view text = Text();
    Advance();
    Expr* condition = Expression();
    const Span header = Since(word.begin);
    Block body;
    if (!panic_) body = Body(text, header);
    if (panic_) {
      // The other branches belong to this one.
      Recover();
      if (!At(Tok::kw_elif) && !At(Tok::kw_else)) return arena_.New<Stmt>(StmtKind::error, word);
    } else {
      branches.push_back({header, condition, body});
    }
    if (branches.size() > kMaxItems) {
      Error(Diag::too_many_items, word, kMaxItems);
      break;
    }
    if (At(Tok::kw_elif)) continue;
    if (At(Tok::kw_else)) {
      else_span = Here();
      Advance();
      else_body = Body("else", else_span);
    }
    break;
  }
  if (branches.empty()) return arena_.New<Stmt>(StmtKind::error, Since(begin));
  return arena_.New<IfStmt>(IfStmt{{StmtKind::if_, Since(begin)}, arena_.Copy(branches), else_body, else_span});
}

Stmt* Parser::While() {
  const uint32_t begin = Here().begin;
  Advance();
  Expr* condition = Expression();
  const Span header = Since(begin);
  if (panic_) return arena_.New<Stmt>(StmtKind::error, header);
  ++loops_;
  const Block body = Body("while", header);
  --loops_;
  if (At(Tok::kw_else) && !panic_) {
    Error(Diag::loop_else, Here());
    Recover();
  }
  return arena_.New<WhileStmt>(WhileStmt{{StmtKind::while_, Since(begin)}, condition, body, header});
}

Stmt* Parser::For() {
  const uint32_t begin = Here().begin;
  Advance();
  // Targets are names: an expression would take `in` for an operator of its own.
  std::vector<Expr*> names;
  const uint32_t first = Here().begin;
  const bool brackets = Accept(Tok::lparen);
  do {
    if (!names.empty() && (At(Tok::kw_in) || At(Tok::rparen))) break;
    Name name;
    Span span;
    if (!TakeName(&name, &span)) break;
    names.push_back(arena_.New<NameExpr>(NameExpr{{ExprKind::name, 1, span}, name}));
  } while (Accept(Tok::comma));
  const bool tuple = names.size() > 1 || (!panic_ && t_[-1].kind == Tok::comma);
  if (brackets && !panic_) Expect(Tok::rparen);
  const auto bad = [&] { return arena_.New<Stmt>(StmtKind::error, Since(begin)); };
  if (panic_) return bad();
  Expr* target = names[0];
  if (tuple) {
    target = arena_.New<TupleExpr>(TupleExpr{{ExprKind::tuple, 2, Since(first)}, arena_.Copy(names), false});
  }
  if (!Expect(Tok::kw_in)) return bad();
  Expr* iterable = ExpressionList();
  const Span header = Since(begin);
  if (panic_) return bad();
  ++loops_;
  const Block body = Body("for", header);
  --loops_;
  if (At(Tok::kw_else) && !panic_) {
    Error(Diag::loop_else, Here());
    Recover();
  }
  return arena_.New<ForStmt>(ForStmt{{StmtKind::for_, Since(begin)}, target, iterable, body, header});
}

Stmt* Parser::Decorated() {
  const uint32_t begin = Here().begin;
  std::vector<Expr*> decorators;
  while (Accept(Tok::at)) {
    decorators.push_back(Expression());
    if (panic_ || !Expect(Tok::newline)) return arena_.New<Stmt>(StmtKind::error, Since(begin));
  }
  if (!At(Tok::kw_def)) {
    if (At(Tok::end)) incomplete_ = true;
    Error(Diag::decorator_without_def, decorators.back()->span);
    panic_ = false;
    return arena_.New<Stmt>(StmtKind::error, Since(begin));
  }
  return Def(std::move(decorators), begin);
}

bool Parser::Parameters(std::vector<Parameter>& params) {
  if (!Expect(Tok::lparen)) return false;
  bool had_default = false;
  while (!At(Tok::rparen)) {
    if (At(Tok::star) || At(Tok::star2)) {
      Error(Diag::star_argument, Here(), At(Tok::star) ? "*args" : "**kwargs");
      return false;
    }
    Parameter p{{}, {}, nullptr, nullptr};
    if (!TakeName(&p.name, &p.span)) return false;
    for (const Parameter& other : params) {
      if (other.name == p.name) {
        Error(Diag::repeated_parameter, p.span, ast_.Text(p.name));
        return false;
      }
    }
    if (Accept(Tok::colon)) p.annotation = Expression();
    if (panic_) return false;
    if (Accept(Tok::assign)) p.default_value = Expression();
    if (panic_) return false;
    if (p.default_value != nullptr) {
      had_default = true;
    } else if (had_default) {
      Error(Diag::default_order, p.span, ast_.Text(p.name));
      return false;
    }
    params.push_back(p);
    // Names are compared with each other above: few of them.
    if (params.size() > 1000) {
      Error(Diag::too_many_items, p.span, 1000);
      return false;
    }
    if (!At(Tok::rparen) && !Expect(Tok::comma)) return false;
  }
  return Expect(Tok::rparen);
}

Stmt* Parser::Def(std::vector<Expr*> decorators, uint32_t begin) {
  const uint32_t def = Here().begin;
  Advance();
  Name name;
  Span name_span;
  std::vector<Parameter> params;
  Expr* result = nullptr;
  const bool nested = in_function_ || blocks_ > 0;
  const auto bad = [&] { return arena_.New<Stmt>(StmtKind::error, Since(begin)); };
  if (!TakeName(&name, &name_span) || !Parameters(params)) return bad();
  if (Accept(Tok::arrow)) result = Expression();
  if (panic_) return bad();
  if (nested) {
    Error(Diag::nested_def, name_span, ast_.Text(name));
    return bad();
  }
  const Span header = Since(def);
  in_function_ = true;
  const int loops = std::exchange(loops_, 0);
  const Block body = Body("def", header);
  loops_ = loops;
  in_function_ = false;
  return arena_.New<FunctionDef>(FunctionDef{{StmtKind::def, Since(begin)},
                                             name,
                                             name_span,
                                             arena_.Copy(params),
                                             result,
                                             body,
                                             arena_.Copy(decorators),
                                             header});
}

std::string_view Parser::ImportPath(Span* span, Name* last) {
  const uint32_t begin = Here().begin;
  if (At(Tok::string)) {
    Expr* e = String();
    *span = e->span;
    return As<StringExpr>(*e).value;
  }
  std::string path;
  while (At(Tok::dot) || At(Tok::ellipsis)) {
    const int dots = At(Tok::dot) ? 1 : 3;
    for (int i = 0; i < dots; ++i) path += path.empty() ? "./" : path == "./" ? "" : "../";
    if (path == "./" && dots == 3) path = "../../";
    Advance();
  }
  do {
    Span at;
    if (!TakeName(last, &at)) return {};
    Append(path, path.empty() || path.ends_with('/') ? "" : "/", ast_.Text(*last));
  } while (Accept(Tok::dot));
  *span = Since(begin);
  return arena_.Copy(std::string_view(path));
}

bool Parser::Item(ImportStmt::Item* item) {
  if (At(Tok::star)) {
    Error(Diag::import_star, Here());
    return false;
  }
  if (!TakeName(&item->name, &item->span)) return false;
  item->as = item->name;
  Span span;
  return !Accept(Tok::kw_as) || TakeName(&item->as, &span);
}

Stmt* Parser::Import() {
  const Span at = Here();
  Advance();
  Span span;
  Name as;
  const bool quoted = At(Tok::string);
  const std::string_view path = ImportPath(&span, &as);
  Span as_span;
  if (!panic_ && Accept(Tok::kw_as)) {
    TakeName(&as, &as_span);
  } else if (!panic_ && quoted) {
    Expect(Tok::kw_as);
  }
  if (!panic_ && (in_function_ || blocks_ > 0)) Error(Diag::nested_import, at);
  return arena_.New<ImportStmt>(ImportStmt{{StmtKind::import, Since(at.begin)}, path, span, as, false, {}});
}

Stmt* Parser::From() {
  const Span at = Here();
  Advance();
  Span span;
  Name last;
  const std::string_view path = ImportPath(&span, &last);
  std::vector<ImportStmt::Item> items;
  if (!panic_ && Expect(Tok::kw_import)) {
    const bool brackets = Accept(Tok::lparen);
    do {
      if (brackets && At(Tok::rparen)) break;
      ImportStmt::Item item{};
      if (!Item(&item)) break;
      items.push_back(item);
      if (items.size() > kMaxItems) Error(Diag::too_many_items, at, kMaxItems);
    } while (!panic_ && Accept(Tok::comma));
    if (brackets && !panic_) Expect(Tok::rparen);
  }
  if (!panic_ && (in_function_ || blocks_ > 0)) Error(Diag::nested_import, at);
  return arena_.New<ImportStmt>(
      ImportStmt{{StmtKind::import, Since(at.begin)}, path, span, {}, true, arena_.Copy(items)});
}

Parsed Parse(const SourceFile& file, Ast& ast, Diagnostics& diagnostics) {
  return Parser(file, ast, diagnostics, Lex(file, diagnostics)).Run();
}

bool NeedsMoreLines(std::string_view text) {
  SourceMap sources;
  Ast ast;
  Diagnostics diagnostics;
  const SourceFile* file = sources.Add("", std::string(text));
  if (file == nullptr) return false;
  const Parsed parsed = Parse(*file, ast, diagnostics);
  if (parsed.incomplete) return true;
  if (!diagnostics.ok() || parsed.program->body.empty()) return false;
  switch (parsed.program->body.back()->kind) {
    case StmtKind::if_:
    case StmtKind::while_:
    case StmtKind::for_:
    case StmtKind::def: break;
    default: return false;
  }
  // It ends with a blank line, as in Python.
  std::string_view rest = text;
  while (rest.ends_with('\n')) rest.remove_suffix(1);
  if (rest.size() + 2 <= text.size()) return false;
  const size_t last = rest.rfind('\n');
  const std::string_view line = last == std::string_view::npos ? rest : rest.substr(last + 1);
  return line.find_first_not_of(" \t") != std::string_view::npos;
}

}  // namespace tessera::lang
