#include "lang/printer.h"

#include <algorithm>

#include "lang/text.h"

namespace tessera::lang {
namespace {

// How tightly an expression holds together; what binds less than its place needs brackets.
enum Level : int {
  kTuple,
  kConditional,
  kOr,
  kAnd,
  kNot,
  kCompare,
  kBitOr,
  kBitXor,
  kBitAnd,
  kShift,
  kSum,
  kProduct,
  kUnary,
  kPower,
  kPostfix
};

Level LevelOf(const Expr& e) {
  switch (e.kind) {
    case ExprKind::tuple: return As<TupleExpr>(e).brackets || As<TupleExpr>(e).items.empty() ? kPostfix : kTuple;
    case ExprKind::conditional: return kConditional;
    case ExprKind::logical: return As<LogicalExpr>(e).is_and ? kAnd : kOr;
    case ExprKind::unary: return As<UnaryExpr>(e).op == UnaryOp::logical_not ? kNot : kUnary;
    case ExprKind::compare: return kCompare;
    case ExprKind::binary:
      switch (As<BinaryExpr>(e).op) {
        case BinaryOp::bit_or: return kBitOr;
        case BinaryOp::bit_xor: return kBitXor;
        case BinaryOp::bit_and: return kBitAnd;
        case BinaryOp::shift_left:
        case BinaryOp::shift_right: return kShift;
        case BinaryOp::add:
        case BinaryOp::sub: return kSum;
        case BinaryOp::pow: return kPower;
        default: return kProduct;
      }
    default: return kPostfix;
  }
}

std::string Quoted(std::string_view value) {
  std::string out = "\"";
  for (char c : value) {
    switch (c) {
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      default:
        if (static_cast<unsigned char>(c) < 32 || c == 127) {
          constexpr std::string_view kHex = "0123456789abcdef";
          const auto u = static_cast<unsigned char>(c);
          Append(out, "\\x", kHex.substr(u / 16, 1), kHex.substr(u % 16, 1));
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

class Printer {
 public:
  Printer(const SourceFile& file, const Ast& ast) : file_(file), ast_(ast) {}

  std::string Run(const Program& program) {
    comments_ = program.comments;
    body_end_ = file_.base() + static_cast<uint32_t>(file_.text().size()) + 1;
    last_end_ = file_.base();
    Statements(program.body, body_end_);
    CommentsBefore(body_end_, -1);
    return std::move(out_);
  }

  /// On one line where `broken` is false; otherwise its outermost brackets have a line for each item.
  void Write(const Expr& e, int at_least = kTuple, bool broken = false) {
    const bool brackets = LevelOf(e) < at_least;
    if (brackets) out_ += '(';
    WriteInner(e, broken);
    if (brackets) out_ += ')';
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string_view Source(Span span) const { return file_.TextOf(span); }

  void Items(Exprs items, bool broken) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (broken) {
        BrokenLine();
      } else if (i > 0) {
        out_ += ", ";
      }
      Write(*items[i], kConditional);
      if (broken) out_ += ',';
    }
    if (broken && !items.empty()) Line();
  }
  void BrokenLine() {
    out_ += '\n';
    out_.append(static_cast<size_t>(4 * (depth_ + 1)), ' ');
  }
  void Line() {
    out_ += '\n';
    out_.append(static_cast<size_t>(4 * depth_), ' ');
  }

  void WriteInner(const Expr& e, bool broken) {
    switch (e.kind) {
      case ExprKind::error: out_ += Source(e.span); break;
      case ExprKind::name: out_ += ast_.Text(As<NameExpr>(e).name); break;
      case ExprKind::integer:
      case ExprKind::floating: WriteNumber(e); break;
      case ExprKind::boolean: out_ += As<BooleanExpr>(e).value ? "True" : "False"; break;
      case ExprKind::string: out_ += Quoted(As<StringExpr>(e).value); break;
      case ExprKind::none: out_ += "None"; break;
      case ExprKind::ellipsis: out_ += "..."; break;
      case ExprKind::tuple: {
        const auto& t = As<TupleExpr>(e);
        const bool brackets = t.brackets || t.items.empty();
        if (brackets) out_ += '(';
        Items(t.items, broken && brackets);
        if (t.items.size() == 1 && !(broken && brackets)) out_ += ',';
        if (brackets) out_ += ')';
        break;
      }
      case ExprKind::list:
        out_ += '[';
        Items(As<TupleExpr>(e).items, broken);
        out_ += ']';
        break;
      case ExprKind::dict: {
        const auto& d = As<DictExpr>(e);
        out_ += '{';
        for (size_t i = 0; i < d.keys.size(); ++i) {
          if (i > 0) out_ += ", ";
          Write(*d.keys[i], kConditional);
          out_ += ": ";
          Write(*d.values[i], kConditional);
        }
        out_ += '}';
        break;
      }
      case ExprKind::unary: {
        const auto& u = As<UnaryExpr>(e);
        Append(out_, Spelling(u.op), u.op == UnaryOp::logical_not ? " " : "");
        Write(*u.operand, u.op == UnaryOp::logical_not ? kNot : kUnary, broken);
        break;
      }
      case ExprKind::binary: {
        const auto& b = As<BinaryExpr>(e);
        const Level level = LevelOf(e);
        // ** takes a postfix on its left and a sign on its right; the others group to the left.
        Write(*b.left, b.op == BinaryOp::pow ? kPostfix : level);
        if (b.op == BinaryOp::pow) {
          Append(out_, "**");
        } else {
          Append(out_, " ", Spelling(b.op), " ");
        }
        Write(*b.right, b.op == BinaryOp::pow ? kUnary : level + 1, broken);
        break;
      }
      case ExprKind::logical: {
        const auto& l = As<LogicalExpr>(e);
        const int level = l.is_and ? kAnd : kOr;
        Write(*l.left, level);
        out_ += l.is_and ? " and " : " or ";
        Write(*l.right, level + 1, broken);
        break;
      }
      case ExprKind::compare: {
        const auto& c = As<CompareExpr>(e);
        for (size_t i = 0; i < c.operands.size(); ++i) {
          if (i > 0) Append(out_, " ", Spelling(c.ops[i - 1]), " ");
          Write(*c.operands[i], kBitOr, broken && i + 1 == c.operands.size());
        }
        break;
      }
      case ExprKind::conditional: {
        const auto& c = As<ConditionalExpr>(e);
        Write(*c.then_value, kOr);
        out_ += " if ";
        Write(*c.condition, kOr);
        out_ += " else ";
        Write(*c.else_value, kConditional, broken);
        break;
      }
      case ExprKind::call: WriteCall(As<CallExpr>(e), broken); break;
      case ExprKind::attribute: {
        const auto& a = As<AttributeExpr>(e);
        WriteObject(*a.object);
        Append(out_, ".", ast_.Text(a.name));
        break;
      }
      case ExprKind::index: {
        const auto& x = As<IndexExpr>(e);
        WriteObject(*x.object);
        out_ += '[';
        // One index with a comma is another index than one without.
        const bool breaks = broken && (x.trailing_comma || x.items.size() > 1);
        Items(x.items, breaks);
        if (x.trailing_comma && x.items.size() == 1 && !breaks) out_ += ',';
        out_ += ']';
        break;
      }
      case ExprKind::slice: {
        const auto& s = As<SliceExpr>(e);
        if (s.start != nullptr) Write(*s.start, kConditional);
        out_ += ':';
        if (s.stop != nullptr) Write(*s.stop, kConditional);
        if (s.step != nullptr) {
          out_ += ':';
          Write(*s.step, kConditional);
        }
        break;
      }
    }
  }

  // 1.real is no number with an attribute.
  void WriteObject(const Expr& e) { Write(e, e.kind == ExprKind::integer ? kPostfix + 1 : kPostfix); }

  void WriteNumber(const Expr& e) {
    std::string text(Source(e.span));
    // The span has the brackets in it that stood around the number.
    const size_t first = text.find_first_of("0123456789.");
    const size_t last = text.find_last_of("0123456789abcdefABCDEF._");
    out_ += text.substr(first, last - first + 1);
  }

  void WriteCall(const CallExpr& c, bool broken) {
    WriteObject(*c.callee);
    out_ += '(';
    for (size_t i = 0; i < c.args.size(); ++i) {
      if (broken) {
        BrokenLine();
      } else if (i > 0) {
        out_ += ", ";
      }
      if (c.args[i].name.id != 0) Append(out_, ast_.Text(c.args[i].name), "=");
      Write(*c.args[i].value, kConditional);
      if (broken) out_ += ',';
    }
    if (broken && !c.args.empty()) Line();
    out_ += ')';
  }

  // ---- statements

  /// Comments that stand before `offset`, each on a line of its own. Those of a block that ends are told by their
  /// column: at_least is the column of the block's statements, -1 for any. Those from inside a statement have its own
  /// lines before them, which are no blank ones.
  void CommentsBefore(uint32_t offset, int at_least, bool from_inside = false) {
    while (next_comment_ < comments_.size() && comments_[next_comment_].span.begin < offset) {
      const Comment& c = comments_[next_comment_];
      if (at_least >= 0 && (!c.own_line || c.column < at_least)) return;
      if (!from_inside) BlankLines(c.span.begin);
      Indent();
      Append(out_, Source(c.span), "\n");
      last_end_ = c.span.end;
      ++next_comment_;
    }
  }

  /// Keeps one of the blank lines between what was written last and `begin`.
  void BlankLines(uint32_t begin) {
    if (out_.empty() || fresh_block_) {
      fresh_block_ = false;
      return;
    }
    if (begin <= last_end_) return;
    const std::string_view between = file_.text().substr(last_end_ - file_.base(), begin - last_end_);
    if (std::count(between.begin(), between.end(), '\n') >= 2 && !out_.ends_with("\n\n")) out_ += '\n';
  }

  void Indent() { out_.append(static_cast<size_t>(4 * depth_), ' '); }

  /// The comment at the end of the line on which `end` stands.
  void TrailingComment(uint32_t end) {
    if (next_comment_ >= comments_.size()) return;
    const Comment& c = comments_[next_comment_];
    if (c.own_line || c.span.begin < end) return;
    const std::string_view between = file_.text().substr(end - file_.base(), c.span.begin - end);
    if (between.find('\n') != std::string_view::npos) return;
    Append(out_, "  ", Source(c.span));
    last_end_ = c.span.end;
    ++next_comment_;
  }
  /// Ends the line of something whose text ends at `end`.
  void EndLine(uint32_t end) {
    last_end_ = std::max(last_end_, end);
    TrailingComment(end);
    out_ += '\n';
  }
  /// The same for a line that opens a block.
  void EndHeader(uint32_t end) {
    out_ += ':';
    // The comment stands after the colon, which is after the header.
    uint32_t at = end;
    const std::string_view text = file_.text();
    while (at - file_.base() < text.size() && text[at - file_.base()] != ':' && text[at - file_.base()] != '\n') ++at;
    EndLine(at);
  }

  /// `limit` is where the text goes on after them: comments up to there may belong to the last of them.
  void Statements(Block body, uint32_t limit) {
    const bool top = depth_ == 0;
    bool after_def = false;
    for (size_t i = 0; i < body.size(); ++i) {
      const Stmt& s = *body[i];
      const bool def = s.kind == StmtKind::def;
      if (top && i > 0 && (def || after_def) && !out_.ends_with("\n\n")) {
        // Comments right above a function belong to it.
        out_ += '\n';
      }
      CommentsBefore(s.span.begin, -1);
      BlankLines(s.span.begin);
      // Comments inside a statement that goes over several lines come before it.
      CommentsBefore(InnerEnd(s), -1, /*from_inside=*/true);
      Statement(s, i + 1 < body.size() ? body[i + 1]->span.begin : limit);
      after_def = def;
    }
  }

  /// Up to where comments must be moved before the statement: the end of its first line's tokens.
  static uint32_t InnerEnd(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::if_: return As<IfStmt>(s).branches[0].span.end;
      case StmtKind::while_: return As<WhileStmt>(s).header.end;
      case StmtKind::for_: return As<ForStmt>(s).header.end;
      case StmtKind::def:
        return As<FunctionDef>(s).decorators.empty() ? As<FunctionDef>(s).header.end : As<FunctionDef>(s).span.begin;
      default: return s.span.end;
    }
  }

  void BlockOf(Block body, uint32_t limit) {
    ++depth_;
    fresh_block_ = true;
    Statements(body, limit);
    if (body.empty()) {
      Indent();
      out_ += "pass\n";
    }
    // Comments after the last statement that are indented as much as the block are its own.
    const int column = body.empty() ? 1 : ColumnOf(body[0]->span.begin);
    CommentsBefore(limit, column);
    fresh_block_ = false;
    --depth_;
  }

  int ColumnOf(uint32_t offset) const {
    const std::string_view text = file_.text();
    size_t at = offset - file_.base();
    int column = 0;
    while (at > 0 && text[at - 1] != '\n') --at, ++column;
    return std::max(column, 1);
  }

  /// One line, or one with a line for each item of its outermost brackets.
  template <class F>
  void Fitting(const F& write) {
    const size_t begin = out_.size();
    write(false);
    const size_t newline = out_.rfind('\n', out_.size() - 1);
    const size_t line = newline == std::string::npos || newline < begin ? begin : newline;
    if (out_.size() - line + static_cast<size_t>(4 * depth_) <= kMaxColumns) return;
    out_.resize(begin);
    write(true);
  }

  void Statement(const Stmt& s, uint32_t limit) {
    switch (s.kind) {
      case StmtKind::if_: return IfStatement(As<IfStmt>(s), limit);
      case StmtKind::while_: {
        const auto& w = As<WhileStmt>(s);
        Indent();
        out_ += "while ";
        Fitting([&](bool broken) { Write(*w.condition, kTuple, broken); });
        EndHeader(w.header.end);
        return BlockOf(w.body, limit);
      }
      case StmtKind::for_: {
        const auto& f = As<ForStmt>(s);
        Indent();
        out_ += "for ";
        Write(*f.target);
        out_ += " in ";
        Fitting([&](bool broken) { Write(*f.iterable, kTuple, broken); });
        EndHeader(f.header.end);
        return BlockOf(f.body, limit);
      }
      case StmtKind::def: return Def(As<FunctionDef>(s), limit);
      default: break;
    }
    Indent();
    Fitting([&](bool broken) { Simple(s, broken); });
    EndLine(s.span.end);
  }

  void Simple(const Stmt& s, bool broken) {
    switch (s.kind) {
      case StmtKind::expr: Write(*As<ExprStmt>(s).value, kTuple, broken); break;
      case StmtKind::assign: {
        const auto& a = As<AssignStmt>(s);
        for (size_t i = 0; i < a.targets.size(); ++i) {
          if (i > 0) out_ += " = ";
          Write(*a.targets[i]);
        }
        if (a.annotation != nullptr) {
          out_ += ": ";
          Write(*a.annotation, kConditional);
        }
        if (a.value != nullptr) {
          out_ += " = ";
          Write(*a.value, kTuple, broken);
        }
        break;
      }
      case StmtKind::aug_assign: {
        const auto& a = As<AugAssignStmt>(s);
        Write(*a.target);
        Append(out_, " ", Spelling(a.op), "= ");
        Write(*a.value, kTuple, broken);
        break;
      }
      case StmtKind::return_:
        out_ += "return";
        if (const Expr* value = As<ReturnStmt>(s).value) {
          out_ += ' ';
          Write(*value, kTuple, broken);
        }
        break;
      case StmtKind::break_: out_ += "break"; break;
      case StmtKind::continue_: out_ += "continue"; break;
      case StmtKind::pass: out_ += "pass"; break;
      case StmtKind::import: ImportStatement(As<ImportStmt>(s)); break;
      case StmtKind::assert_: {
        const auto& a = As<AssertStmt>(s);
        out_ += "assert ";
        Write(*a.condition, kConditional, broken && a.message == nullptr);
        if (a.message != nullptr) {
          out_ += ", ";
          Write(*a.message, kConditional, broken);
        }
        break;
      }
      default: out_ += Source(s.span); break;
    }
  }

  void ImportStatement(const ImportStmt& s) {
    const bool quoted = Source(s.path_span).starts_with('"') || Source(s.path_span).starts_with('\'');
    const std::string path = quoted ? Quoted(s.path) : std::string(Source(s.path_span));
    if (!s.is_from) {
      Append(out_, "import ", path);
      const std::string_view text = ast_.Text(s.as);
      const bool same = !quoted && (s.path == text || s.path.ends_with(Cat("/", text)));
      if (!same) Append(out_, " as ", text);
      return;
    }
    Append(out_, "from ", path, " import ");
    for (size_t i = 0; i < s.names.size(); ++i) {
      Append(out_, i > 0 ? ", " : "", ast_.Text(s.names[i].name));
      if (!(s.names[i].as == s.names[i].name)) Append(out_, " as ", ast_.Text(s.names[i].as));
    }
  }

  void IfStatement(const IfStmt& s, uint32_t limit) {
    for (size_t i = 0; i < s.branches.size(); ++i) {
      const IfStmt::Branch& b = s.branches[i];
      if (i > 0) CommentsBefore(b.span.end, -1);
      Indent();
      out_ += i == 0 ? "if " : "elif ";
      Fitting([&](bool broken) { Write(*b.condition, kTuple, broken); });
      EndHeader(b.span.end);
      BlockOf(b.body, i + 1 < s.branches.size() ? s.branches[i + 1].span.begin
                      : s.else_span.known()     ? s.else_span.begin
                                                : limit);
    }
    if (!s.else_span.known()) return;
    CommentsBefore(s.else_span.begin, -1);
    Indent();
    out_ += "else";
    EndHeader(s.else_span.end);
    BlockOf(s.else_body, limit);
  }

  void Def(const FunctionDef& f, uint32_t limit) {
    for (const Expr* d : f.decorators) {
      CommentsBefore(d->span.end, -1);
      Indent();
      out_ += '@';
      Fitting([&](bool broken) { Write(*d, kConditional, broken); });
      EndLine(d->span.end);
    }
    CommentsBefore(f.header.end, -1);
    Indent();
    Fitting([&](bool broken) {
      Append(out_, "def ", ast_.Text(f.name), "(");
      for (size_t i = 0; i < f.params.size(); ++i) {
        const Parameter& p = f.params[i];
        if (broken) {
          BrokenLine();
        } else if (i > 0) {
          out_ += ", ";
        }
        out_ += ast_.Text(p.name);
        if (p.annotation != nullptr) {
          out_ += ": ";
          Write(*p.annotation, kConditional);
        }
        if (p.default_value != nullptr) {
          out_ += p.annotation != nullptr ? " = " : "=";
          Write(*p.default_value, kConditional);
        }
        if (broken) out_ += ',';
      }
      if (broken && !f.params.empty()) Line();
      out_ += ')';
      if (f.result != nullptr) {
        out_ += " -> ";
        Write(*f.result, kConditional);
      }
    });
    EndHeader(f.header.end);
    BlockOf(f.body, limit);
  }

  const SourceFile& file_;
  const Ast& ast_;
  std::string out_;
  int depth_ = 0;
  std::span<const Comment> comments_;
  size_t next_comment_ = 0;
  uint32_t last_end_ = 0;
  uint32_t body_end_ = 0;
  bool fresh_block_ = false;
};

}  // namespace

std::string Format(const Program& program, const Ast& ast) { return Printer(*program.file, ast).Run(program); }

std::string Format(const Expr& expr, const SourceFile& file, const Ast& ast) {
  Printer printer(file, ast);
  printer.Write(expr);
  return printer.Take();
}

}  // namespace tessera::lang
