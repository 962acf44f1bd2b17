// Building Graph IR from C++. Types are inferred as instructions are added, by the same checks as the verifier's.
//
//   Module module;
//   FunctionBuilder b(module, "scale");
//   Val x = b.Param("x", b.Type(DType::f32, {b.Symbol("B"), 768}));
//   b.Return({b.Emit(Op::k_mul, {x, 0.5})});
//   TSR_RETURN_IF_ERROR(b.Finish());
//
// The first error sticks: later calls do nothing and give values that may be passed on, and Finish() returns it.
#ifndef TESSERA_IR_BUILDER_H_
#define TESSERA_IR_BUILDER_H_

#include <concepts>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "ir/function.h"

namespace tessera::ir {

/// A value of the function being built.
struct Val {
  ValueId id = -1;
};

/// An operand: a value, a number, or nothing where an optional one is left out.
struct Arg : Operand {
  Arg() = default;
  Arg(Val v) { kind = Kind::value, value = v.id; }        // NOLINT(google-explicit-constructor)
  Arg(bool v) { kind = Kind::immediate, immediate = v; }  // NOLINT(google-explicit-constructor)
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Arg(T v) {
    kind = Kind::immediate, immediate = static_cast<int64_t>(v);
  }  // NOLINT(google-explicit-constructor)
  template <std::floating_point T>
  Arg(T v) {
    kind = Kind::immediate, immediate = static_cast<double>(v);
  }  // NOLINT(google-explicit-constructor)
};
/// An optional operand left out before one that is given.
inline const Arg kNoArg;

/// Adds one function to a module. It is in the module from the start, so that it may call itself and that two may call
/// each other (give their parameters and DeclareResults first); it is taken out again if Finish() fails or is never
/// called. One thread; the module must outlive it and its functions must not be removed meanwhile.
class FunctionBuilder {
 public:
  using Vals = std::vector<Val>;
  using Args = std::vector<Arg>;
  using Attrs = std::vector<std::pair<std::string, Attr>>;

  FunctionBuilder(Module& module, std::string_view name, Loc loc = {});
  ~FunctionBuilder();
  FunctionBuilder(const FunctionBuilder&) = delete;

  /// The symbol of that name, to be used as a dim. A parameter must have it as one of its dims.
  int64_t Symbol(std::string_view name);
  SymbolTable& symbols() { return *f_->symbols; }
  TensorType Type(DType dtype, std::initializer_list<int64_t> dims = {});
  void AssumeEqual(int64_t a, int64_t b);
  void AssumeDivisible(int64_t a, int64_t divisor);

  Val Param(std::string_view name, const TensorType& type, Privilege privilege = Privilege::read,
            std::string shard = "");
  /// The ShardSpec of a value that is no parameter, as in Param().
  Val Shard(Val value, std::string shard, Loc loc = {});
  /// How the function's matrix products are cut (ir/schedule.h), and what the tuner may try. Finish() checks them.
  void Schedule(std::string schedule);
  void Autotune(std::string space, std::string key = "");
  /// Needed before a call of this function is built; otherwise Return() decides.
  void DeclareResults(std::vector<TensorType> types);

  /// An op with one result, or none: the value then stands for nothing.
  Val Emit(Op op, const Args& args, const Attrs& attrs = {}, Loc loc = {});
  Vals EmitMany(Op op, const Args& args, const Attrs& attrs = {}, Loc loc = {});
  Val Constant(rt::Ref<rt::TensorImpl> value, Loc loc = {});

  /// The functions add the instructions of their block and give what it yields. The results' types are those of the
  /// then block; a number stands for a scalar of the default dtype of its kind.
  Vals If(const Arg& condition, const std::function<Args()>& then_block, const std::function<Args()>& else_block,
          Loc loc = {});
  /// The functions get the carried values.
  Vals While(const Args& inits, const std::function<Arg(const Vals&)>& condition,
             const std::function<Args(const Vals&)>& body, Loc loc = {});
  /// The function gets the index and the carried values.
  Vals For(const Arg& start, const Arg& stop, const Arg& step, const Args& inits,
           const std::function<Args(Val, const Vals&)>& body, Loc loc = {});
  Vals Call(std::string_view callee, const Args& args, Loc loc = {});
  void Return(const Args& values, Loc loc = {});

  /// Names a value for the text form; what is not a name is made one, and a name that is taken gets a number.
  Val Name(Val value, std::string_view name);
  const TensorType& TypeOf(Val value) const;
  const absl::Status& status() const { return status_; }

  /// Keeps the function, which Verify() then accepts, or takes it out and says what was wrong first.
  absl::Status Finish();

 private:
  bool ok() const { return status_.ok(); }
  void Fail(const absl::Status& status, Loc loc);
  bool CheckArgs(Op op, const Args& args, Loc loc);
  Val NewValue(const TensorType& type);
  Vals Bind(Instruction inst, const std::vector<TensorType>& types);
  std::vector<TensorType> ScalarTypes(const Args& args) const;
  /// Runs `fill` with a block as the place where instructions go, ends it with yield, and gives what it yields.
  Args Fill(Block& block, Loc loc, const std::function<Args()>& fill);

  Module& module_;
  Function* f_;
  bool finished_ = false;
  bool returned_ = false;
  bool declared_ = false;
  std::vector<Block*> blocks_;
  std::vector<bool> visible_;               // by ValueId
  absl::flat_hash_set<std::string> taken_;  // names
  absl::Status status_;
};

}  // namespace tessera::ir

#endif  // TESSERA_IR_BUILDER_H_
