// Runs the top level of a program, statement by statement, when it is met. Numbers, strings and tuples are the host's;
// ops on tensors go through eager dispatch, each with the address of its node of the syntax tree for a site, so that
// the tiers see a loop of a program as they see one of C++. Calls of functions run their Graph IR. What operators,
// indices and built-in functions mean is in rules.h, for functions and for the top level alike.
#ifndef TESSERA_LANG_EVAL_H_
#define TESSERA_LANG_EVAL_H_

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"
#include "lang/eval_machine.h"
#include "lang/eval_scope.h"
#include "lang/eval_value.h"

namespace tessera::lang {

/// What an evaluator needs of its session.
class EvalHost {
 public:
  virtual ~EvalHost() = default;
  /// Without a newline at its end.
  virtual void Print(std::string_view line) = 0;
  /// The module of a file, which it runs if it is the first to ask; null after a diagnostic.
  virtual ModuleScope* Import(const ImportStmt& import, ModuleScope& from) = 0;
  /// A `def` called from the top level; false after a diagnostic. The arguments are those of the call, in its order.
  virtual bool Call(const FunctionValue& function, const CallExpr& call, std::vector<Value>& args, Value* out) = 0;
  /// A `def` was met: what can be checked without a call is checked. False after a diagnostic.
  virtual bool Define(const FunctionDef& def, ModuleScope& scope) = 0;
  /// Around a statement of a program's outermost block.
  virtual void BeginStatement() {}
  virtual void EndStatement() {}

  SourceMap& sources() { return sources_; }
  Ast& ast() { return ast_; }
  Diagnostics& diagnostics() { return diagnostics_; }
  /// Iterations of loops of the top level; any thread may read it.
  std::atomic<int64_t> iterations{0};

 protected:
  SourceMap sources_;
  Ast ast_;
  Diagnostics diagnostics_;
};

/// Items of a tuple with those of the tuples in it.
inline constexpr int64_t kMostItemsInAll = int64_t{1} << 20;

/// One program in the names of one module. One thread.
class Evaluator {
 public:
  Evaluator(EvalHost& host, ModuleScope& scope) : host_(host), scope_(scope), ast_(host.ast()), machine_(host) {}

  /// False: it stopped at a statement that failed, and there is a diagnostic. *last is the value of the last statement
  /// if that is an expression, otherwise None.
  bool Run(const Program& program, Value* last);
  bool Evaluate(const Expr& e, Value* out) { return EvaluateAny(e, out) && CheckDepth(e, *out); }

 private:
  enum class Flow : uint8_t { next, break_, continue_, failed };

  Flow RunBlock(Block body);
  Flow RunStatement(const Stmt& s);
  Flow RunFor(const ForStmt& s);
  Flow RunWhile(const WhileStmt& s);
  Flow Iterate(const ForStmt& s, Value item, bool* stop);
  bool RunImport(const ImportStmt& s);
  bool Condition(const Expr& e, bool* out);
  bool TruthOf(const Value& value, Span span, bool* out);
  bool Assign(const Expr& target, Value value);
  bool AssignIndex(const IndexExpr& target, const Value& value);
  bool Unpack(const TupleExpr& target, const Value& value);
  bool AugAssign(const AugAssignStmt& s);
  bool Interrupted(Span span);
  template <class... T>
  bool Report(Diag id, Span span, const T&... args) {
    host_.diagnostics().Report(id, span, args...);
    return false;
  }

  bool EvaluateAny(const Expr& e, Value* out);
  /// What is nested without end would be walked, and freed, by recursion without end; what holds itself twice at each
  /// level would be written out for ever.
  bool CheckDepth(const Expr& e, const Value& value) {
    const Items* items = value.items();
    if (items == nullptr) return true;
    if (items->depth > kMaxNesting) [[unlikely]]
      return Report(Diag::nesting_too_deep, e.span, kMaxNesting);
    if (items->total > kMostItemsInAll) [[unlikely]]
      return Report(Diag::too_many_items, e.span, kMostItemsInAll);
    return true;
  }
  bool EvaluateName(const NameExpr& e, Value* out);
  bool EvaluateItems(Exprs items, std::vector<Value>* out);
  /// A row of a tensor. `at` is the place that asks.
  bool Row(const Expr& at, const Value& x, int64_t i, Value* out);
  bool Binary(const Expr& at, BinaryOp op, const Value& a, const Value& b, Value* out);
  bool Compare(const CompareExpr& e, Value* out);
  bool Logical(const LogicalExpr& e, Value* out);
  bool Index(const IndexExpr& e, Value* out);
  bool ReadIndex(Exprs items, std::vector<IndexItem>* out, std::vector<Value>* keep);
  bool Call(const CallExpr& e, Value* out);

  EvalHost& host_;
  ModuleScope& scope_;
  Ast& ast_;
  EagerMachine machine_;
  Value last_;
};

/// A name for good: what versions keep of a place outlives the session.
const char* InternFileName(std::string_view name);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_EVAL_H_
