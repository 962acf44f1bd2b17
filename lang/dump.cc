// The tree with every detail but places, for tests that compare two of them.
#include "lang/printer.h"
#include "lang/text.h"

namespace tessera::lang {
namespace {

class Dumper {
 public:
  explicit Dumper(const Ast& ast) : ast_(ast) {}
  std::string Take() { return std::move(out_); }

  void Statements(Block body) {
    out_ += '{';
    for (const Stmt* s : body) Statement(*s);
    out_ += '}';
  }

 private:
  void Text(std::string_view text) { Append(out_, text.size(), ":", text); }
  void Text(Name name) { Text(ast_.Text(name)); }
  void Maybe(const Expr* e) {
    if (e != nullptr) {
      Expression(*e);
    } else {
      out_ += '_';
    }
  }
  void All(Exprs items) {
    for (const Expr* e : items) Expression(*e);
  }

  void Expression(const Expr& e) {
    Append(out_, "(", static_cast<int>(e.kind), " ");
    switch (e.kind) {
      case ExprKind::error:
      case ExprKind::none:
      case ExprKind::ellipsis: break;
      case ExprKind::name: Text(As<NameExpr>(e).name); break;
      case ExprKind::integer: Append(out_, As<IntegerExpr>(e).value); break;
      case ExprKind::floating: {
        const double value = As<FloatingExpr>(e).value;
        uint64_t bits;
        static_assert(sizeof bits == sizeof value);
        __builtin_memcpy(&bits, &value, sizeof bits);
        Append(out_, bits);
        break;
      }
      case ExprKind::boolean: Append(out_, int{As<BooleanExpr>(e).value}); break;
      case ExprKind::string: Text(As<StringExpr>(e).value); break;
      case ExprKind::tuple:
      case ExprKind::list: All(As<TupleExpr>(e).items); break;
      case ExprKind::dict: All(As<DictExpr>(e).keys), All(As<DictExpr>(e).values); break;
      case ExprKind::unary:
        out_ += Spelling(As<UnaryExpr>(e).op);
        Expression(*As<UnaryExpr>(e).operand);
        break;
      case ExprKind::binary:
        out_ += Spelling(As<BinaryExpr>(e).op);
        Expression(*As<BinaryExpr>(e).left);
        Expression(*As<BinaryExpr>(e).right);
        break;
      case ExprKind::logical:
        out_ += As<LogicalExpr>(e).is_and ? "and" : "or";
        Expression(*As<LogicalExpr>(e).left);
        Expression(*As<LogicalExpr>(e).right);
        break;
      case ExprKind::compare:
        for (CompareOp op : As<CompareExpr>(e).ops) out_ += Spelling(op);
        All(As<CompareExpr>(e).operands);
        break;
      case ExprKind::conditional:
        Expression(*As<ConditionalExpr>(e).condition);
        Expression(*As<ConditionalExpr>(e).then_value);
        Expression(*As<ConditionalExpr>(e).else_value);
        break;
      case ExprKind::call:
        Expression(*As<CallExpr>(e).callee);
        for (const Argument& a : As<CallExpr>(e).args) Text(a.name), Expression(*a.value);
        break;
      case ExprKind::attribute:
        Expression(*As<AttributeExpr>(e).object);
        Text(As<AttributeExpr>(e).name);
        break;
      case ExprKind::index: {
        const auto& x = As<IndexExpr>(e);
        Expression(*x.object);
        All(x.items);
        if (x.trailing_comma && x.items.size() == 1) out_ += ',';
        break;
      }
      case ExprKind::slice:
        Maybe(As<SliceExpr>(e).start);
        Maybe(As<SliceExpr>(e).stop);
        Maybe(As<SliceExpr>(e).step);
        break;
    }
    out_ += ')';
  }

  void Statement(const Stmt& s) {
    Append(out_, "\n<", static_cast<int>(s.kind), " ");
    switch (s.kind) {
      case StmtKind::expr: Expression(*As<ExprStmt>(s).value); break;
      case StmtKind::assign:
        All(As<AssignStmt>(s).targets);
        Maybe(As<AssignStmt>(s).annotation);
        Maybe(As<AssignStmt>(s).value);
        break;
      case StmtKind::aug_assign:
        out_ += Spelling(As<AugAssignStmt>(s).op);
        Expression(*As<AugAssignStmt>(s).target);
        Expression(*As<AugAssignStmt>(s).value);
        break;
      case StmtKind::if_:
        for (const IfStmt::Branch& b : As<IfStmt>(s).branches) Expression(*b.condition), Statements(b.body);
        Statements(As<IfStmt>(s).else_body);
        break;
      case StmtKind::while_:
        Expression(*As<WhileStmt>(s).condition);
        Statements(As<WhileStmt>(s).body);
        break;
      case StmtKind::for_:
        Expression(*As<ForStmt>(s).target);
        Expression(*As<ForStmt>(s).iterable);
        Statements(As<ForStmt>(s).body);
        break;
      case StmtKind::def: {
        const auto& f = As<FunctionDef>(s);
        Text(f.name);
        for (const Parameter& p : f.params) Text(p.name), Maybe(p.annotation), Maybe(p.default_value);
        Maybe(f.result);
        All(f.decorators);
        Statements(f.body);
        break;
      }
      case StmtKind::return_: Maybe(As<ReturnStmt>(s).value); break;
      case StmtKind::import: {
        const auto& i = As<ImportStmt>(s);
        Text(i.path), Text(i.as);
        for (const ImportStmt::Item& item : i.names) Text(item.name), Text(item.as);
        break;
      }
      case StmtKind::assert_:
        Expression(*As<AssertStmt>(s).condition);
        Maybe(As<AssertStmt>(s).message);
        break;
      default: break;
    }
    out_ += '>';
  }

  const Ast& ast_;
  std::string out_;
};

}  // namespace

std::string Dump(const Program& program, const Ast& ast) {
  Dumper dumper(ast);
  dumper.Statements(program.body);
  return dumper.Take();
}

}  // namespace tessera::lang
