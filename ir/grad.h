// Gradient rules: for each op that the op table calls `diff`, how the gradients of its operands follow from those of
// its results. A rule is written once, over an emitter; functions (ir/differentiate.h) and eager programs
// (interp/api/tape.h) differ only in where the ops that it emits go. grads.def is the table of the rules.
//
//   void Grad_mul(GradCall& c) {
//     if (c.Wants(0)) c.Give(0, c.Grad() * c.In(1));
//     if (c.Wants(1)) c.Give(1, c.Grad() * c.In(0));
//   }
#ifndef TESSERA_IR_GRAD_H_
#define TESSERA_IR_GRAD_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "ir/builder.h"

namespace tessera::ir {

/// Where the ops of a gradient go. A Val means what the emitter says it means.
class GradEmitter {
 public:
  virtual ~GradEmitter() = default;
  /// Dims may be symbols of symbols().
  virtual TensorType TypeOf(Val value) const = 0;
  /// Null where every dim is a number.
  virtual SymbolTable* symbols() = 0;
  /// `attrs` are complete and in the table's order. What fails is the emitter's to report; it gives values that may be
  /// passed on.
  virtual std::vector<Val> Emit(Op op, absl::Span<const Arg> args, std::vector<Attr> attrs) = 0;
};

class GradCall;

/// A value or a number in a rule, so that a rule reads like the formula. A number takes the dtype of what stands beside
/// it.
struct Expr {
  GradCall* call = nullptr;  // null: a number
  Arg arg;
  Expr() = default;
  Expr(GradCall* c, const Arg& a) : call(c), arg(a) {}
  Expr(double number) : arg(number) {}        // NOLINT(google-explicit-constructor)
  Expr(int number) : arg(int64_t{number}) {}  // NOLINT(google-explicit-constructor)
  bool is_number() const { return arg.kind == Operand::Kind::immediate; }
  bool given() const { return arg.kind != Operand::Kind::absent; }
};

/// One op whose gradient is asked for, as a rule sees it.
class GradCall {
 public:
  GradCall(GradEmitter& emitter, Op op, absl::Span<const Arg> in, absl::Span<const Attr> attrs,
           absl::Span<const Val> out, absl::Span<const Val> grads, absl::Span<const bool> wants);

  // ---- what the rule is given
  const OpInfo& op() const { return op_; }
  size_t num_operands() const { return in_.size(); }
  /// Is operand i there, floating, and its gradient asked for?
  bool Wants(size_t i) const { return i < wants_.size() && wants_[i]; }
  bool Given(size_t i) const { return i < in_.size() && in_[i].kind != Operand::Kind::absent; }
  Expr In(size_t i) { return Expr(this, in_[i]); }
  Expr Out(size_t i = 0) { return Expr(this, out_[i]); }
  /// The gradient of result i, of its type. Only the rules of ops with several results need to ask.
  bool HasGrad(size_t i) const { return grads_[i].id >= 0; }
  Expr Grad(size_t i = 0) { return Expr(this, grads_[i]); }
  /// The same in f32 where they are of a narrow type: rules of several steps round once, at the end.
  Expr WideIn(size_t i) { return Wide(In(i)); }
  Expr WideOut(size_t i = 0) { return Wide(Out(i)); }
  Expr WideGrad(size_t i = 0) { return Wide(Grad(i)); }
  TensorType InType(size_t i) const;
  TensorType OutType(size_t i = 0) const { return emitter_.TypeOf(out_[i]); }

  bool flag(int i) const { return std::get<bool>(attrs_[i]); }
  int64_t integer(int i) const { return std::get<int64_t>(attrs_[i]); }
  double number(int i) const { return std::get<double>(attrs_[i]); }
  const Ints& ints(int i) const { return std::get<Ints>(attrs_[i]); }
  const std::string& str(int i) const { return std::get<std::string>(attrs_[i]); }
  /// Attributes i, an axis, and i, a list of axes (none: all), of operand 0.
  int Axis(int i) const;
  Ints Axes(int i) const;
  SymbolTable* symbols() { return emitter_.symbols(); }

  // ---- what it gives
  /// The gradient of operand i. What was broadcast is summed; the dtype may be wider than the operand's.
  void Give(size_t i, const Expr& gradient);

  // ---- what it emits
  Expr Emit(Op op, std::initializer_list<Expr> args, std::vector<Attr> attrs = {});
  std::vector<Expr> EmitMany(Op op, absl::Span<const Expr> args, std::vector<Attr> attrs);
  Expr Wide(const Expr& x);
  Expr Cast(const Expr& x, DType dtype);
  /// A number as a scalar of the result's dtype, for ops that take values alone; a value as it is.
  Expr Value(const Expr& x);
  /// Operand i, integers, as i64.
  Expr Index(size_t i);
  TensorType TypeOf(const Expr& x) const;
  /// A tensor of those dims with one value.
  Expr Full(const Expr& value, absl::Span<const int64_t> dims, DType dtype);
  Expr Zeros(const TensorType& type) { return Full(0, {type.dims, type.rank}, type.dtype); }
  Expr Reshape(const Expr& x, absl::Span<const int64_t> dims);
  Expr BroadcastTo(const Expr& x, absl::Span<const int64_t> dims);
  Expr Transpose(const Expr& x, Ints perm);
  Expr Unsqueeze(const Expr& x, Ints axes);
  Expr Sum(const Expr& x, Ints axes, bool keepdims);
  Expr Mean(const Expr& x, Ints axes);  // keeps dims
  Expr Iota(absl::Span<const int64_t> dims, int axis);
  Expr Matmul(const Expr& a, const Expr& b, bool transpose_a, bool transpose_b);
  /// x summed over what broadcasting repeated to get its dims from those of `type`.
  Expr SumTo(const Expr& x, const TensorType& type);
  /// The product of the dims, as a number where they are numbers.
  Expr Count(absl::Span<const int64_t> dims);

  absl::Span<const Val> results() const { return given_; }

 private:
  GradEmitter& emitter_;
  const OpInfo& op_;
  absl::Span<const Arg> in_;
  absl::Span<const Attr> attrs_;
  absl::Span<const Val> out_;
  absl::Span<const Val> grads_;
  absl::Span<const bool> wants_;
  std::vector<Val> given_;
};

// ---- ops as functions of expressions; one of the operands must be a value
// clang-format off
#define TSR_GRAD_OPS(X1, X2)                                                                                          \
  X1(Neg, neg) X1(Sign, sign) X1(Square, square) X1(Sqrt, sqrt) X1(Rsqrt, rsqrt) X1(Exp, exp) X1(Exp2, exp2)          \
  X1(Expm1, expm1) X1(Log, log) X1(Sin, sin) X1(Cos, cos) X1(Sinh, sinh) X1(Cosh, cosh) X1(Tanh, tanh) X1(Erfc, erfc) \
  X1(Sigmoid, sigmoid) X1(Softplus, softplus) X1(Trunc, trunc) X1(Signbit, signbit)                                   \
  X2(operator+, add) X2(operator-, sub) X2(operator*, mul) X2(operator/, div) X2(FloorDiv, floor_div) X2(Pow, pow)    \
  X2(Maximum, maximum) X2(Eq, eq) X2(Gt, gt) X2(Ge, ge) X2(Lt, lt) X2(Le, le) X2(And, logical_and)
// clang-format on
#define TSR_GRAD_1(function, op) \
  inline Expr function(const Expr& x) { return x.call->Emit(Op::k_##op, {x}); }
#define TSR_GRAD_2(function, op)                                       \
  inline Expr function(const Expr& a, const Expr& b) {                 \
    return (a.call != nullptr ? a : b).call->Emit(Op::k_##op, {a, b}); \
  }
TSR_GRAD_OPS(TSR_GRAD_1, TSR_GRAD_2)
#undef TSR_GRAD_1
#undef TSR_GRAD_2
#undef TSR_GRAD_OPS
inline Expr operator-(const Expr& x) { return Neg(x); }
inline Expr Where(const Expr& condition, const Expr& a, const Expr& b) {
  return condition.call->Emit(Op::k_where, {condition, a, b});
}

using GradFunction = void (*)(GradCall& call);

/// A row of grads.def.
struct GradRule {
  Op op;
  GradFunction function;
  /// For each operand a mask of what its gradient needs to know beyond types: bit i is operand i, and bit kResultBit +
  /// i result i. Operands beyond the last have none.
  std::vector<uint32_t> needs;
};
inline constexpr int kResultBit = 16;

/// Null for ops that are not `diff`, and for control flow and buffers, which whoever walks over a program treats.
const GradRule* FindGradRule(Op op);

#define TSR_GRAD(op, needs) void Grad_##op(GradCall& c);
#include "ir/grads.def"

}  // namespace tessera::ir

#endif  // TESSERA_IR_GRAD_H_
