// The lowering's inside. A FunctionLowering makes one Graph IR function for one combination of argument types; a
// ModuleLowering holds what the function that was asked for shares with those it calls.
//
//   lower.cc         instances: finding them again, and making them
//   lower_params.cc  parameters, annotations, globals, results
//   lower_emit.cc    ops: types, facts, messages (the Machine of lang/rules.h)
//   lower_expr.cc    expressions
//   lower_stmt.cc    statements
//   lower_flow.cc    if and loops
//   lower_call.cc    calls of functions by functions
//   lower_grad.cc    gradients of functions
#ifndef TESSERA_LANG_LOWER_IMPL_H_
#define TESSERA_LANG_LOWER_IMPL_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ir/function.h"
#include "lang/decorators.h"
#include "lang/lower.h"
#include "lang/rules.h"
#include "lang/types.h"

namespace tessera::lang {

/// Instructions of one module, and statements lowered on the way there, each time a loop is written out.
inline constexpr int64_t kMaxInstructions = 1'000'000;
/// Rounds of a loop that is written out.
inline constexpr int64_t kMaxUnroll = 4096;
/// Blocks within blocks of Graph IR; it allows for a few more.
inline constexpr size_t kMaxBlocks = 190;

/// What a function is compiled for, one for each parameter.
struct ArgType {
  enum class Kind : uint8_t {
    tensor,  // `type`: dims of the caller, or numbers
    number,  // a bool, int or float whose value is not built in
    known,   // `value`
    tuple,   // `items`
  };
  Kind kind = Kind::known;
  TensorType type;          // number: rank 0, of bool, i64 or f64
  int64_t sizes[kMaxRank];  // tensor: the sizes at hand, -1 where they are not known
  Val value;                // known; number: its value, where the caller knows it, else none
  std::vector<ArgType> items;
  bool is_list = false;
  bool declared = false;  // number: an annotation says its dtype
};

/// A global name that a function has read: an instance is good only while that is what the name stands for.
struct GlobalUse {
  const Scope* scope;
  Name name;
  ArgType type;
};

/// A function of the module, finished.
struct Lowered {
  const FunctionDef* def = nullptr;
  const Scope* scope = nullptr;
  ir::Function* function = nullptr;
  std::vector<ArgType> args;        // dims are those of the function's own table
  std::vector<bool> given;          // which parameters were given; the others have their defaults
  std::vector<ParamSource> params;  // of the Graph IR function
  std::vector<GlobalUse> globals;
  ResultTree result;
};

class FunctionLowering;

/// Lines and columns for places that come mostly in order.
class Locations {
 public:
  explicit Locations(const SourceMap& sources) : sources_(sources) {}
  ir::Loc Of(uint32_t offset) {
    if (offset < begin_ || offset >= end_) Find(offset);
    return {line_, static_cast<int>(offset - begin_) + 1};
  }

 private:
  void Find(uint32_t offset);
  const SourceMap& sources_;
  const SourceFile* file_ = nullptr;
  uint32_t begin_ = 1, end_ = 0;  // of the line that was asked for last; its end is where the next one begins
  int line_ = 0;
};

struct ModuleLowering {
  ModuleLowering(Ast& the_ast, const SourceMap& the_sources, Diagnostics& the_diagnostics)
      : ast(the_ast),
        sources(the_sources),
        diagnostics(the_diagnostics),
        module(std::make_unique<ir::Module>()),
        locations(the_sources) {}
  Ast& ast;
  const SourceMap& sources;
  Diagnostics& diagnostics;
  std::unique_ptr<ir::Module> module;
  Locations locations;
  std::vector<std::unique_ptr<Lowered>> done;
  std::vector<FunctionLowering*> active;  // calls within calls
  int64_t instructions = 0;
  const char* stack = nullptr;  // where it began: calls within calls are walked by recursion

  /// The gradients of a function of the module, as `def` asks for them. Null after diagnostics. (lower_grad.cc)
  const Lowered* Derive(const Lowered& base, const FunctionDef& def, Span at);
  void ReportAt(const FunctionDef& def, const std::string& message, Span call) const;
  /// The same for gradients of gradients: `base` is what `def` was made from in the end.
  const Lowered* DeriveAll(const Lowered& base, const FunctionDef& def, Span at);

  /// A name that no function of the module has yet.
  std::string UniqueName(std::string_view name) const;
};

/// What must be known when a function is lowered, found out while lowering it: then it is lowered again.
struct Demands {
  std::set<int> numbers;           // leaves of the arguments whose values are built in
  std::set<int64_t> sizes;         // dims of these sizes are numbers
  std::set<const Stmt*> unrolled;  // loops
  size_t count() const { return numbers.size() + sizes.size() + unrolled.size(); }
};

class FunctionLowering : public Machine {
 public:
  FunctionLowering(ModuleLowering& module, const FunctionDef& def, const Scope& scope, Demands& demands, Span call);

  /// One for each parameter; known none-values of kind `undefined` for those that are not given. False after
  /// diagnostics, or where demands were added.
  bool Run(const std::vector<ArgType>& args, const std::vector<bool>& given);
  /// For a function whose parameters have full types: no sizes are at hand.
  bool RunDeclared();
  /// What was read of its decorators and annotations already, and found good.
  struct Header {
    Settings settings;
    std::vector<TypeExpr> params;
    TypeExpr result;
  };
  void Know(Header header);
  bool again() const { return again_; }
  std::unique_ptr<Lowered> Take(std::string name);

  // ---- Machine (lower_emit.cc)
  ir::SymbolTable* symbols() override { return f_->symbols.get(); }
  const TensorType& TypeOf(const Val& v) override { return f_->values[static_cast<size_t>(v.id)].type; }
  std::string TypeText(const TensorType& type) override;
  bool Emit(ir::Op op, absl::Span<const Val> in, std::vector<ir::Attr> attrs, const Expr& at, Vals* out) override;
  bool Know(Val* number, std::string_view what, const Expr& at) override;
  Val DimTensor(const Val& dim, const Expr& at) override;
  bool Random(int64_t count, int64_t* seed, int64_t* offset, const Expr& at) override;
  bool Print(absl::Span<const Val> args, std::string_view label, const Expr& at) override;
  Val Item(const Val& tensor, const Expr& at) override;
  bool Places(const Val& mask, const Expr& at, Val* out) override;
  Val StopGradient(const Val& tensor, const Expr& at) override;
  Val MemberOf(const Val& module, Name name, const Expr& at) override;
  Val CallHost(const Builtin& builtin, absl::Span<const Val> args, const Expr& at) override;

  const FunctionDef& def() const { return def_; }
  /// A value of the host as an argument. `number_leaves`: numbers are not built in. False: functions cannot use it.
  static bool ArgOfDesc(const Desc& desc, Ast& ast, bool number_leaves, ArgType* out);

 private:
  // Slots of `vars_` that are no variables: has the function returned, with what; is the loop left, or this round.
  enum : int { kReturned, kResult, kBroken, kSkipped, kFirstVariable };

  // ---- lower_params.cc
  bool ReadSettings();
  bool ReadAnnotations();
  bool Body(const std::vector<ArgType>& args, const std::vector<bool>& given);
  /// A tensor's type with the symbols of this function; false after a diagnostic.
  bool MakeType(const ArgType& arg, const TypeExpr* annotation, std::string_view what, Span span, TensorType* out);
  int64_t SymbolFor(int64_t key, int64_t size);
  Val AddParam(std::string_view name, const TensorType& type, ParamSource source, const TypeExpr* annotation);
  Val Global(const Scope& scope, Name name, const Expr& at);
  Val ValOfArg(const ArgType& arg, ParamSource source, std::string_view name, Span span, const TypeExpr* annotation,
               ArgType* made);
  bool Finish();
  bool MakeResult(const Val& v, ResultTree* tree, std::vector<ir::Operand>* results);
  bool CheckResult(const TypeExpr& type, Val* v, Span at);
  /// Keeps the ShardSpec of an annotation that the value fits; false after a diagnostic.
  bool SetShard(const Val& v, const TypeExpr& type);
  bool FitsTensor(const TypeExpr& type, const TensorType& given);

  // ---- lower_emit.cc
  int32_t NewValue(const TensorType& type);
  void Push(ir::Instruction instruction);
  ir::Loc LocOf(Span span) { return module_.locations.Of(span.begin); }
  ir::Operand OperandOf(const Val& v) const;
  bool IsNarrowerThanF64(const ir::OpInfo& info, absl::Span<const Val> in);
  bool EmitAccumulated(ir::Op op, absl::Span<const Val> in, std::vector<ir::Attr> attrs, const Expr& at, Vals* out);
  void ReportOp(const absl::Status& status, ir::Op op, absl::Span<const Val> in, const Expr& at);
  /// The op fits with the sizes at hand and not with symbols: finds what must be known. True: facts were added.
  bool FindFacts(const ir::OpInfo& info, absl::Span<const TensorType* const> in, std::vector<ir::Attr>& attrs);
  bool has_sizes() const { return has_sizes_; }
  /// With the sizes at hand; -1 where that cannot be said.
  int64_t SizeOf(int64_t dim) const;
  TensorType Concrete(const TensorType& type) const;
  void DemandSizes(int64_t dim);
  bool MakeEqual(int64_t a, int64_t b);
  bool MakeSameType(const TensorType& a, const TensorType& b);
  uint64_t DepsOf(const Val& v) const;

  // ---- lower_expr.cc
  Val Eval(const Expr& e);
  Val EvalName(const NameExpr& e);
  Val EvalLogical(const LogicalExpr& e);
  Val EvalCompare(const CompareExpr& e);
  Val EvalConditional(const ConditionalExpr& e);
  Val EvalCall(const CallExpr& e);
  bool EvalItems(const IndexExpr& e, std::vector<IndexItem>* items);
  /// A value as a condition: a known bool, or a tensor of one bool.
  Val Condition(const Val& v, const Expr& at);

  // ---- lower_stmt.cc
  void Statements(Block body);
  void Statement(const Stmt& s);
  /// The statements in a block that runs where `exited` does not hold.
  void Unless(const Val& exited, Block rest, Span span);
  void Assign(const Expr& target, const Val& v, const Expr& at);
  void AssignStatement(const AssignStmt& s);
  void AugAssign(const AugAssignStmt& s);
  void Assert(const AssertStmt& s);
  void FindVariables(Block body);
  void AddVariable(Name name);
  int SlotOf(Name name) const;
  /// Slots that the statements may change, each once.
  void Changed(Block body, std::vector<int>* slots, bool in_loop = false);
  void ChangedTarget(const Expr& target, std::vector<int>* slots);
  bool Stopped() const {
    return again_ || module_.instructions >= kMaxInstructions || diagnostics.errors() > Diagnostics::kMaxErrors;
  }
  /// One more instruction or statement; false, after a diagnostic, when there are too many.
  bool CountWork();

  // ---- lower_flow.cc
  /// True: the statements after it were lowered, too, into one of its blocks.
  bool If(const IfStmt& s, size_t branch, Block rest);
  void Loop(const Stmt& s);
  struct LoopPlan;
  void DynamicLoop(const LoopPlan& plan);
  bool TryLoop(const LoopPlan& plan, std::vector<int>& slots, Vals& inits, bool* retry);
  void UnrolledLoop(const LoopPlan& plan, const Vals& items);
  /// The loop's variable for a round: v, or row v of the tensor that the loop goes over.
  void AssignRound(const LoopPlan& plan, Val v);
  void Branch(const Val& condition, std::vector<int> slots, const std::function<void()>& then_block,
              const std::function<void()>& else_block, std::string_view word, Span span);
  struct Join;
  Val Merge(const Val& a, const Val& b, Join& join, int slot);
  /// The value of one side as a result of that type; in the block of that side.
  bool Yielded(const Val& v, const TensorType& type, ir::Block& block, ir::Operand* out, const Expr& at);
  Val Placeholder(const Val& like);
  /// Is control past this point on no way, on some, on all? The first is known false, the last known true.
  Val Exited(const Expr& at);

  // ---- lower_call.cc
  Val CallFunction(const Val& f, const CallArgs& args, const CallExpr& at);
  const Lowered* Callee(const FunctionDef& def, const Scope& scope, const std::vector<ArgType>& args,
                        const std::vector<bool>& given, Span at);
  bool ArgOfVal(const Val& v, ArgType* out);
  bool Matches(const Lowered& f, const std::vector<ArgType>& args, const std::vector<bool>& given);
  Val ResultOf(const ResultTree& tree, absl::Span<const int32_t> results);

  ModuleLowering& module_;
  const FunctionDef& def_;
  const Scope& scope_;
  Demands& demands_;
  const Span call_;
  std::unique_ptr<ir::Function> f_;
  std::vector<ir::Block*> blocks_;
  bool again_ = false;

  bool header_known_ = false;
  Settings settings_;
  std::vector<TypeExpr> annotations_;
  TypeExpr result_type_;
  std::vector<std::pair<int64_t, int64_t>> keys_;  // a dim of the caller, and the symbol it has here
  bool has_sizes_ = true;
  std::vector<int64_t> sizes_;  // by the order of named symbols
  std::vector<ParamSource> sources_;
  std::vector<uint64_t> deps_;  // by ValueId, where not 0: leaves of arguments that a number depends on
  std::vector<const Stmt*> loop_of_bit_;
  int next_leaf_ = 0;

  Vals vars_;
  std::vector<Name> names_;  // of variables; index is slot - kFirstVariable
  std::vector<std::pair<uint32_t, int>> slots_;
  struct GlobalVal {
    const Scope* scope;
    Name name;
    Val value;
  };
  std::vector<GlobalVal> globals_;
  std::vector<GlobalUse> global_uses_;
  std::vector<ArgType> made_args_;
  std::vector<bool> given_;
  ResultTree result_;
  std::vector<Name> value_names_;  // by ValueId: the variable that holds it first
  std::vector<uint32_t> marks_;    // by slot, to collect each once
  uint32_t mark_ = 0;
  Span result_span_;
};

}  // namespace tessera::lang

#endif  // TESSERA_LANG_LOWER_IMPL_H_
