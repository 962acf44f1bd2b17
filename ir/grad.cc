#include "ir/grad.h"

#include <array>
#include <utility>

#include "absl/strings/str_split.h"
#include "ir/typing.h"

namespace tessera::ir {

GradCall::GradCall(GradEmitter& emitter, Op op, absl::Span<const Arg> in, absl::Span<const Attr> attrs,
                   absl::Span<const Val> out, absl::Span<const Val> grads, absl::Span<const bool> wants)
    : emitter_(emitter),
      op_(Info(op)),
      in_(in),
      attrs_(attrs),
      out_(out),
      grads_(grads),
      wants_(wants),
      given_(in.size()) {}

TensorType GradCall::TypeOf(const Expr& x) const {
  return x.is_number() ? ImmediateType(x.arg.immediate) : emitter_.TypeOf(Val{x.arg.value});
}

TensorType GradCall::InType(size_t i) const {
  return in_[i].kind == Operand::Kind::immediate ? ImmediateType(in_[i].immediate) : emitter_.TypeOf({in_[i].value});
}

int GradCall::Axis(int i) const {
  const int64_t axis = integer(i);
  return static_cast<int>(axis < 0 ? axis + InType(0).rank : axis);
}

Ints GradCall::Axes(int i) const {
  const int rank = InType(0).rank;
  const uint32_t mask = CanonicalAxes(ints(i), rank).value_or(0);
  Ints axes;
  for (int k = 0; k < rank; ++k)
    if (mask >> k & 1) axes.push_back(k);
  return axes;
}

void GradCall::Give(size_t i, const Expr& gradient) { given_[i] = Val{SumTo(gradient, InType(i)).arg.value}; }

std::vector<Expr> GradCall::EmitMany(Op op, absl::Span<const Expr> args, std::vector<Attr> attrs) {
  std::vector<Arg> in;
  in.reserve(args.size());
  for (const Expr& a : args) in.push_back(a.arg);
  std::vector<Expr> out;
  for (Val v : emitter_.Emit(op, in, std::move(attrs))) out.emplace_back(this, v);
  return out;
}

Expr GradCall::Emit(Op op, std::initializer_list<Expr> args, std::vector<Attr> attrs) {
  std::vector<Expr> out = EmitMany(op, {args.begin(), args.size()}, std::move(attrs));
  return out.empty() ? Expr(this, Val{}) : out[0];
}

Expr GradCall::Cast(const Expr& x, DType dtype) {
  if (x.is_number() || TypeOf(x).dtype == dtype) return x;
  return Emit(Op::k_cast, {x}, {dtype});
}

Expr GradCall::Wide(const Expr& x) {
  if (!x.given() || x.is_number() || !IsNarrowFloat(TypeOf(x).dtype)) return x;
  return Cast(x, DType::f32);
}

Expr GradCall::Value(const Expr& x) { return x.is_number() ? Wide(Full(x, {}, OutType().dtype)) : x; }

Expr GradCall::Index(size_t i) { return In(i).is_number() ? Full(In(i), {}, DType::i64) : Cast(In(i), DType::i64); }

Expr GradCall::Full(const Expr& value, absl::Span<const int64_t> dims, DType dtype) {
  return Emit(Op::k_full, {value}, {Ints(dims.begin(), dims.end()), dtype});
}
Expr GradCall::Reshape(const Expr& x, absl::Span<const int64_t> dims) {
  return Emit(Op::k_reshape, {x}, {Ints(dims.begin(), dims.end())});
}
Expr GradCall::BroadcastTo(const Expr& x, absl::Span<const int64_t> dims) {
  return Emit(Op::k_broadcast, {x}, {Ints(dims.begin(), dims.end())});
}
Expr GradCall::Transpose(const Expr& x, Ints perm) { return Emit(Op::k_transpose, {x}, {std::move(perm)}); }
Expr GradCall::Unsqueeze(const Expr& x, Ints axes) {
  return axes.empty() ? x : Emit(Op::k_unsqueeze, {x}, {std::move(axes)});
}
// A list without axes stands for all of them in the op, and for none here.
Expr GradCall::Sum(const Expr& x, Ints axes, bool keepdims) {
  return axes.empty() ? x : Emit(Op::k_sum, {x}, {std::move(axes), keepdims});
}
Expr GradCall::Mean(const Expr& x, Ints axes) {
  return axes.empty() ? x : Emit(Op::k_mean, {x}, {std::move(axes), true});
}
Expr GradCall::Iota(absl::Span<const int64_t> dims, int axis) {
  return Emit(Op::k_iota, {0, 1}, {Ints(dims.begin(), dims.end()), int64_t{axis}, DType::i64});
}
Expr GradCall::Matmul(const Expr& a, const Expr& b, bool transpose_a, bool transpose_b) {
  return Emit(Op::k_matmul, {a, b}, {transpose_a, transpose_b});
}

Expr GradCall::SumTo(const Expr& x, const TensorType& type) {
  const TensorType from = TypeOf(x);
  const int missing = from.rank - type.rank;
  if (missing < 0) return x;  // an emitter that failed
  Ints axes;
  for (int i = 0; i < missing; ++i) axes.push_back(i);
  bool inside = false;
  for (int i = 0; i < type.rank; ++i) {
    if (type.dims[i] != 1 || from.dims[missing + i] == 1) continue;
    axes.push_back(missing + i);
    inside = true;
  }
  if (axes.empty()) return x;
  if (missing == 0) return Sum(x, std::move(axes), true);
  const Expr sum = Sum(x, std::move(axes), false);
  return inside ? Reshape(sum, {type.dims, type.rank}) : sum;
}

Expr GradCall::Count(absl::Span<const int64_t> dims) {
  int64_t count = 1;
  bool known = true;
  for (int64_t d : dims) {
    known &= !IsSymbol(d);
    count = DimMul(symbols(), count, d);
  }
  if (known) return static_cast<double>(count);
  // A symbol is a number only when the function runs: as many ones are counted then.
  Ints axes;
  for (size_t i = 0; i < dims.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  return Sum(Full(1, dims, DType::i64), axes, false);
}

namespace {

// The mask of the names in `text`, which stand among the operands and results of op.
uint32_t MaskOf(const OpInfo& op, std::string_view text) {
  uint32_t mask = 0;
  for (const std::string& name :
       std::vector<std::string>(absl::StrSplit(absl::string_view(text.data(), text.size()), ' ', absl::SkipEmpty()))) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i].name == name) mask |= 1u << i;
    for (size_t i = 0; i < op.results.size(); ++i)
      if (op.results[i] == name) mask |= 1u << (kResultBit + i);
  }
  return mask;
}

GradRule MakeRule(Op op, GradFunction function, const char* needs) {
  GradRule rule{op, function, {}};
  const OpInfo& info = Info(op);
  rule.needs.assign(info.operands.size(), 0);
  for (const std::string& entry : std::vector<std::string>(absl::StrSplit(needs, ';', absl::SkipEmpty()))) {
    const std::vector<std::string> parts = absl::StrSplit(entry, ':');
    const uint32_t of = MaskOf(info, parts[0]);
    for (size_t i = 0; i < rule.needs.size(); ++i)
      if (of >> i & 1) rule.needs[i] = MaskOf(info, parts[1]);
  }
  return rule;
}

std::array<const GradRule*, kNumOps> MakeRules() {
  std::array<const GradRule*, kNumOps> rules{};
#define TSR_GRAD(op, needs) rules[static_cast<int>(Op::k_##op)] = new GradRule(MakeRule(Op::k_##op, Grad_##op, needs));
#include "ir/grads.def"
  return rules;
}

}  // namespace

const GradRule* FindGradRule(Op op) {
  static const std::array<const GradRule*, kNumOps> rules = MakeRules();
  return rules[static_cast<int>(op)];
}

}  // namespace tessera::ir
