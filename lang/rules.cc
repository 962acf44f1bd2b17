// Operators, on known numbers, dims and tensors, and the way of every op's operands.
#include "lang/rules.h"

#include <cmath>

#include "ir/power.h"
#include "ir/typing.h"
#include "lang/text.h"

namespace tessera::lang {

using ir::Op;

std::string DidYouMean(std::string_view name, absl::Span<const std::string_view> candidates) {
  const std::string near = ir::DidYouMean(name, candidates);
  return near.empty() ? near : Cat("did you mean ", near, "?");
}

Span CallArgs::span(size_t i) const {
  return call != nullptr && i >= before && i - before < call->args.size() ? call->args[i - before].value->span : Span{};
}
const Expr& CallArgs::At(size_t i, const Expr& otherwise) const {
  return call != nullptr && i >= before && i - before < call->args.size() ? *call->args[i - before].value : otherwise;
}

bool TooLarge(Machine& m, const Val& v, const Expr& at) {
  constexpr size_t kMaxText = size_t{1} << 20;
  if (v.kind == Val::Kind::tuple && v.integer > kMaxNesting) {
    m.diagnostics.Report(Diag::nesting_too_deep, at.span, kMaxNesting);
    return true;
  }
  const size_t size = v.kind == Val::Kind::tuple ? static_cast<size_t>(v.id) : 0;
  if (size <= kMaxItems && (v.kind != Val::Kind::string || v.text.size() <= kMaxText)) return false;
  m.diagnostics.Report(Diag::too_many_items, at.span, v.kind == Val::Kind::string ? kMaxText : kMaxItems);
  return true;
}

std::string DescribeVal(Machine& m, const Val& v) {
  switch (v.kind) {
    case Val::Kind::poison: return "an erroneous value";
    case Val::Kind::undefined: return "a variable without a value";
    case Val::Kind::none: return "None";
    case Val::Kind::boolean: return "a bool";
    case Val::Kind::integer: return "an int";
    case Val::Kind::floating: return "a float";
    case Val::Kind::dim: return Cat("the dim ", ir::DimName(m.symbols(), v.integer));
    case Val::Kind::tensor: {
      const TensorType& type = m.TypeOf(v);
      if (v.weak) return type.dtype == DType::boolean ? "a bool" : type.dtype == DType::i64 ? "an int" : "a float";
      return Cat("a tensor ", m.TypeText(type));
    }
    case Val::Kind::string: return "a string";
    case Val::Kind::dtype: return Cat("the dtype ", tessera::Name(v.dtype));
    case Val::Kind::tuple: return Cat(v.is_list ? "a list of " : "a tuple of ", v.items->size());
    case Val::Kind::ellipsis: return "...";
    case Val::Kind::range: return "a range";
    case Val::Kind::function: return "a function";
    case Val::Kind::module: return "an imported file";
    case Val::Kind::builtin: return Cat("the builtin ", v.builtin->name);
    case Val::Kind::host: return std::string(v.text);
  }
  return "";
}

Val LanguageName(std::string_view name) {
  // bool, int and float are builtins first; where a dtype is needed, bool is one.
  if (const Builtin* builtin = FindBuiltin(name)) {
    Val v = Val::Of(Val::Kind::builtin);
    v.builtin = builtin;
    return v;
  }
  if (name == "pi") return Val::Floating(M_PI);
  if (name == "inf") return Val::Floating(INFINITY);
  if (name == "nan") return Val::Floating(NAN);
  if (name == "newaxis") return Val::None();
  if (name != "boolean")
    if (auto dtype = ParseDType(name)) return Val::OfDType(*dtype);
  return Val::Poison();
}

bool KnownTruth(const Val& v, bool* out) {
  switch (v.kind) {
    case Val::Kind::none: *out = false; return true;
    case Val::Kind::boolean:
    case Val::Kind::integer: *out = v.integer != 0; return true;
    case Val::Kind::floating: *out = v.floating != 0; return true;
    case Val::Kind::dim: *out = true; return true;  // symbols are at least 2; 0 is never one
    case Val::Kind::string: *out = !v.text.empty(); return true;
    case Val::Kind::tuple: *out = !v.items->empty(); return true;
    default: return false;
  }
}

// ---- attributes

bool ToInt(Machine& m, const Val& v, std::string_view what, const Expr& at, int64_t* out) {
  if (v.poison()) return false;
  if (v.int_like()) {
    *out = v.integer;
    return true;
  }
  const bool unknown = v.kind == Val::Kind::dim || (v.tensor() && v.weak && m.TypeOf(v).dtype != DType::f64);
  if (unknown) {
    Val known = v;
    if (!m.Know(&known, what, at)) return false;
    *out = known.integer;
    return true;
  }
  m.diagnostics.Report(Diag::not_an_int, at.span, what, DescribeVal(m, v));
  return false;
}

bool ToDims(Machine& m, const Val& v, std::string_view what, const Expr& at, ir::Ints* out, bool symbols) {
  if (v.poison()) return false;
  if (v.kind == Val::Kind::tuple) {
    for (const Val& item : *v.items)
      if (item.kind == Val::Kind::tuple || !ToDims(m, item, what, at, out, symbols)) {
        if (item.kind == Val::Kind::tuple) m.diagnostics.Report(Diag::not_an_int, at.span, what, DescribeVal(m, item));
        return false;
      }
    return true;
  }
  if (v.kind == Val::Kind::dim && symbols) {
    out->push_back(v.integer);
    return true;
  }
  int64_t number;
  if (!ToInt(m, v, what, at, &number)) return false;
  if (number > ir::kMaxListNumber || number < -ir::kMaxListNumber) {
    m.diagnostics.Report(Diag::number_out_of_range, at.span, what, number);
    return false;
  }
  out->push_back(number);
  return true;
}

bool ToDType(Machine& m, const Val& v, const Expr& at, DType* out) {
  if (v.poison()) return false;
  if (v.kind == Val::Kind::dtype) {
    *out = v.dtype;
    return true;
  }
  if (v.kind == Val::Kind::builtin && v.builtin->id == BuiltinId::b_bool) {
    *out = DType::boolean;
    return true;
  }
  if (v.kind == Val::Kind::builtin && (v.builtin->id == BuiltinId::b_int || v.builtin->id == BuiltinId::b_float)) {
    *out = v.builtin->id == BuiltinId::b_int ? DType::i64 : DType::f32;
    return true;
  }
  if (v.kind == Val::Kind::string) {
    if (auto dtype = ParseDType(v.text)) {
      *out = *dtype;
      return true;
    }
    std::vector<std::string_view> names;
    for (int i = 0; i < kNumDTypes; ++i) names.push_back(tessera::Name(static_cast<DType>(i)));
    Diagnostic& d = m.diagnostics.Report(Diag::unknown_dtype, at.span, v.text);
    if (std::string near = DidYouMean(v.text, names); !near.empty()) d.hint = near;
    return false;
  }
  m.diagnostics.Report(Diag::not_a_dtype, at.span, DescribeVal(m, v));
  return false;
}

// ---- ops

Val CastTo(Machine& m, const Val& x, DType dtype, const Expr& at) {
  if (x.poison()) return x;
  if (x.tensor()) {
    if (m.TypeOf(x).dtype == dtype) {
      Val same = x;
      same.weak = false;
      return same;
    }
    Vals out;
    if (!m.Emit(Op::k_cast, {x}, {dtype}, at, &out)) return Val::Poison();
    return out[0];
  }
  if (x.kind == Val::Kind::dim) return CastTo(m, m.DimTensor(x, at), dtype, at);
  Vals out;
  if (!m.Emit(Op::k_full, {x}, {ir::Ints{}, dtype}, at, &out)) return Val::Poison();
  return out[0];
}

namespace {

bool IsSquare(Machine& m, absl::Span<const Val> in) {
  if (in.size() != 2 || !in[0].tensor() || !in[1].number() || in[1].kind == Val::Kind::boolean) return false;
  return ir::IsSquare(m.TypeOf(in[0]).dtype, in[1].kind == Val::Kind::floating, in[1].as_double());
}

// False after a diagnostic.
bool EmitInto(Machine& m, Op op, absl::Span<const Val> given, std::vector<ir::Attr> attrs, const Expr& at, Vals& out) {
  if (op == Op::k_pow && IsSquare(m, given)) {
    op = Op::k_square;
    given.remove_suffix(1);
  }
  const ir::OpInfo& info = ir::Info(op);
  bool any_strong = false, any_weak = false;
  absl::Span<const Val> in = given;
  Vals own;  // where something must be changed
  const auto change = [&](size_t i) -> Val& {
    if (own.empty()) own.assign(in.begin(), in.end()), in = own;
    return own[i];
  };
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].poison()) return false;
    if (in[i].kind == Val::Kind::dim) {
      change(i) = m.DimTensor(in[i], at);
      if (in[i].poison()) return false;
    }
    const Val& v = in[i];
    if (v.kind == Val::Kind::none || v.number()) continue;
    if (!v.tensor()) {
      const ir::OperandSpec& spec = info.operands[std::min(i, info.operands.size() - 1)];
      m.diagnostics.Report(Diag::not_a_tensor, at.span, info.name, spec.name, DescribeVal(m, v));
      return false;
    }
    (v.weak ? any_weak : any_strong) = true;
  }
  bool result_weak = false;
  if (any_weak) {
    // Numbers that are known at run time behave as those that are known now: they take the dtype of the tensors
    // beside them, and are numbers again where there is no tensor.
    result_weak = !any_strong && (info.impl == ir::Impl::ew || op == Op::k_cast);
    absl::InlinedVector<TensorType, 4> types(in.size());
    absl::InlinedVector<const TensorType*, 4> pointers(in.size(), nullptr);
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i].kind == Val::Kind::none) continue;
      if (in[i].tensor()) {
        types[i] = m.TypeOf(in[i]);
        types[i].weak = in[i].weak;
      } else {
        types[i].dtype = in[i].kind == Val::Kind::floating  ? DType::f64
                         : in[i].kind == Val::Kind::boolean ? DType::boolean
                                                            : DType::i64;
        types[i].weak = true;
      }
      pointers[i] = &types[i];
    }
    DType want = ir::OperandDType(info, pointers);
    if (!any_strong && IsFloat(want)) want = DType::f64;
    for (size_t i = 0; i < in.size(); ++i) {
      const ir::OperandSpec& spec = info.operands[std::min(i, info.operands.size() - 1)];
      if (!in[i].tensor() || !in[i].weak || spec.role != ir::Role::data) continue;
      Val cast = CastTo(m, in[i], want, at);
      if (cast.poison()) return false;
      change(i) = std::move(cast);
    }
  }
  while (!in.empty() && in.back().kind == Val::Kind::none) in.remove_suffix(1);
  if (!m.Emit(op, in, std::move(attrs), at, &out)) return false;
  for (Val& v : out) {
    if (result_weak) {
      const DType t = m.TypeOf(v).dtype;
      v.weak = t == DType::boolean || t == DType::i64 || t == DType::f64;
    }
    v.origin = at.span;
  }
  return true;
}

}  // namespace

Vals EmitOps(Machine& m, Op op, absl::Span<const Val> in, std::vector<ir::Attr> attrs, const Expr& at) {
  Vals out;
  if (!EmitInto(m, op, in, std::move(attrs), at, out)) out.assign(1, Val::Poison());
  return out;
}

Val EmitOp(Machine& m, Op op, absl::Span<const Val> in, std::vector<ir::Attr> attrs, const Expr& at) {
  Vals out = m.TakeList();
  Val v = Val::Poison();
  if (EmitInto(m, op, in, std::move(attrs), at, out)) v = out.empty() ? Val::None() : std::move(out[0]);
  m.GiveList(std::move(out));
  return v;
}

// ---- operators

namespace {

constexpr Op kBinaryOps[] = {Op::k_add,     Op::k_sub,        Op::k_mul,        Op::k_div,     Op::k_floor_div,
                             Op::k_mod,     Op::k_pow,        Op::k_matmul,     Op::k_bit_and, Op::k_bit_or,
                             Op::k_bit_xor, Op::k_shift_left, Op::k_shift_right};
constexpr Op kCompareOps[] = {Op::k_eq, Op::k_ne, Op::k_lt, Op::k_le, Op::k_gt, Op::k_ge};

Val Overflow(Machine& m, const Expr& at) {
  m.diagnostics.Report(Diag::int_overflow, at.span);
  return Val::Poison();
}
Val DivisionByZero(Machine& m, const Expr& at) {
  m.diagnostics.Report(Diag::division_by_zero, at.span);
  return Val::Poison();
}

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Val IntPower(Machine& m, int64_t base, int64_t exponent, const Expr& at) {
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent & 1)
      if (__builtin_mul_overflow(result, base, &result)) return Overflow(m, at);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return Overflow(m, at);
  }
  return Val::Integer(result);
}

Val IntBinary(Machine& m, BinaryOp op, int64_t a, int64_t b, bool bools, const Expr& at) {
  int64_t r = 0;
  switch (op) {
    case BinaryOp::add: return __builtin_add_overflow(a, b, &r) ? Overflow(m, at) : Val::Integer(r);
    case BinaryOp::sub: return __builtin_sub_overflow(a, b, &r) ? Overflow(m, at) : Val::Integer(r);
    case BinaryOp::mul: return __builtin_mul_overflow(a, b, &r) ? Overflow(m, at) : Val::Integer(r);
    case BinaryOp::div:
      return b == 0 ? DivisionByZero(m, at) : Val::Floating(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOp::floor_div:
      if (b == 0) return DivisionByZero(m, at);
      return b == -1 && a == INT64_MIN ? Overflow(m, at) : Val::Integer(FloorDiv(a, b));
    case BinaryOp::mod:
      if (b == 0) return DivisionByZero(m, at);
      return Val::Integer(b == -1 ? 0 : a - b * FloorDiv(a, b));
    case BinaryOp::pow:
      if (b >= 0) return IntPower(m, a, b, at);
      if (a == 0) return DivisionByZero(m, at);
      return Val::Floating(std::pow(static_cast<double>(a), static_cast<double>(b)));
    case BinaryOp::bit_and: return bools ? Val::Boolean((a & b) != 0) : Val::Integer(a & b);
    case BinaryOp::bit_or: return bools ? Val::Boolean((a | b) != 0) : Val::Integer(a | b);
    case BinaryOp::bit_xor: return bools ? Val::Boolean((a ^ b) != 0) : Val::Integer(a ^ b);
    case BinaryOp::shift_left:
      if (b < 0 || b > 62 || __builtin_mul_overflow(a, int64_t{1} << b, &r)) return Overflow(m, at);
      return Val::Integer(r);
    case BinaryOp::shift_right: return b < 0 ? Overflow(m, at) : Val::Integer(a >> std::min<int64_t>(b, 63));
    default: return Val::Poison();
  }
}

// False: the operator is not for numbers.
bool NumberBinary(Machine& m, BinaryOp op, const Val& a, const Val& b, const Expr& at, Val* out) {
  if (op == BinaryOp::matmul) return false;
  if (a.int_like() && b.int_like()) {
    const bool bools = a.kind == Val::Kind::boolean && b.kind == Val::Kind::boolean;
    *out = IntBinary(m, op, a.integer, b.integer, bools, at);
    return true;
  }
  const double x = a.as_double(), y = b.as_double();
  switch (op) {
    case BinaryOp::add: *out = Val::Floating(x + y); return true;
    case BinaryOp::sub: *out = Val::Floating(x - y); return true;
    case BinaryOp::mul: *out = Val::Floating(x * y); return true;
    case BinaryOp::div: *out = y == 0 ? DivisionByZero(m, at) : Val::Floating(x / y); return true;
    case BinaryOp::floor_div: *out = y == 0 ? DivisionByZero(m, at) : Val::Floating(std::floor(x / y)); return true;
    case BinaryOp::mod: *out = y == 0 ? DivisionByZero(m, at) : Val::Floating(x - y * std::floor(x / y)); return true;
    case BinaryOp::pow: *out = Val::Floating(std::pow(x, y)); return true;
    default: return false;
  }
}

bool DimBinary(Machine& m, BinaryOp op, const Val& a, const Val& b, Val* out) {
  ir::SymbolTable* t = m.symbols();
  const auto dim_like = [](const Val& v) { return v.kind == Val::Kind::dim || v.kind == Val::Kind::integer; };
  if (t == nullptr || !dim_like(a) || !dim_like(b)) return false;
  int64_t r;
  switch (op) {
    case BinaryOp::add: r = t->Add(a.integer, b.integer); break;
    case BinaryOp::sub: r = t->Sub(a.integer, b.integer); break;
    case BinaryOp::mul: r = t->Mul(a.integer, b.integer); break;
    case BinaryOp::floor_div:
      if (b.integer == 0) return false;
      r = t->FloorDiv(a.integer, b.integer);
      break;
    case BinaryOp::mod:
      if (b.integer == 0) return false;
      r = t->KnownDivisible(a.integer, b.integer) && !ir::IsSymbol(b.integer)
              ? 0
              : t->Sub(a.integer, t->Mul(b.integer, t->FloorDiv(a.integer, b.integer)));
      break;
    default: return false;
  }
  if (r == ir::SymbolTable::kUnknownDim) return false;
  *out = Val::Dim(r);
  return true;
}

bool Numeric(const Val& v) { return v.number() || v.tensor() || v.kind == Val::Kind::dim; }

}  // namespace

Val ApplyUnary(Machine& m, UnaryOp op, const Val& x, const Expr& at) {
  if (x.poison()) return x;
  if (op == UnaryOp::logical_not) {
    bool known;
    if (KnownTruth(x, &known)) return Val::Boolean(!known);
    if (x.tensor()) return EmitOp(m, Op::k_logical_not, {x}, {}, at);
  } else if (x.number()) {
    const int64_t i = x.kind == Val::Kind::floating ? 0 : x.integer;
    if (x.kind == Val::Kind::floating && op != UnaryOp::invert)
      return Val::Floating(op == UnaryOp::neg ? -x.floating : x.floating);
    if (op == UnaryOp::neg && i == INT64_MIN) return Overflow(m, at);
    if (x.kind != Val::Kind::floating) return Val::Integer(op == UnaryOp::neg ? -i : op == UnaryOp::pos ? i : ~i);
  } else if (x.kind == Val::Kind::dim && op != UnaryOp::invert) {
    if (op == UnaryOp::pos) return x;
    return ApplyBinary(m, BinaryOp::sub, Val::Integer(0), x, at);
  } else if (x.tensor()) {
    if (op == UnaryOp::pos) return x;
    return EmitOp(m, op == UnaryOp::neg ? Op::k_neg : Op::k_bit_not, {x}, {}, at);
  }
  m.diagnostics.Report(Diag::bad_unary, at.span, Spelling(op), DescribeVal(m, x));
  return Val::Poison();
}

Val ApplyBinary(Machine& m, BinaryOp op, const Val& a, const Val& b, const Expr& at) {
  if (a.poison() || b.poison()) return Val::Poison();
  Val out;
  if (a.number() && b.number() && NumberBinary(m, op, a, b, at, &out)) return out;
  if ((a.kind == Val::Kind::dim || b.kind == Val::Kind::dim) && DimBinary(m, op, a, b, &out)) return out;
  if (Numeric(a) && Numeric(b) && (a.tensor() || b.tensor() || a.kind == Val::Kind::dim || b.kind == Val::Kind::dim)) {
    const Op ir_op = kBinaryOps[static_cast<int>(op)];
    if (op == BinaryOp::matmul) return EmitOp(m, ir_op, {a, b}, {false, false}, at);
    return EmitOp(m, ir_op, {a, b}, {}, at);
  }
  if (op == BinaryOp::add && a.kind == b.kind) {
    if (a.kind == Val::Kind::string) {
      const std::string text = Cat(a.text, b.text);
      if (TooLarge(m, Val::String(text), at)) return Val::Poison();
      return Val::String(m.ast.arena().Copy(std::string_view(text)));
    }
    if (a.kind == Val::Kind::tuple) {
      Vals items = *a.items;
      items.insert(items.end(), b.items->begin(), b.items->end());
      Val joined = Val::Tuple(std::move(items), a.is_list && b.is_list);
      return TooLarge(m, joined, at) ? Val::Poison() : joined;
    }
  }
  if (op == BinaryOp::mul && (a.kind == Val::Kind::tuple || b.kind == Val::Kind::tuple) &&
      (a.kind == Val::Kind::integer || b.kind == Val::Kind::integer)) {
    const Val& tuple = a.kind == Val::Kind::tuple ? a : b;
    const int64_t count = std::max<int64_t>(0, a.kind == Val::Kind::tuple ? b.integer : a.integer);
    const int64_t size = std::max<int64_t>(tuple.id, static_cast<int64_t>(tuple.items->size()));
    if (size > 0 && count > static_cast<int64_t>(kMaxItems) / size) {
      m.diagnostics.Report(Diag::too_many_items, at.span, kMaxItems);
      return Val::Poison();
    }
    Vals items;
    for (int64_t i = 0; i < count; ++i) items.insert(items.end(), tuple.items->begin(), tuple.items->end());
    return Val::Tuple(std::move(items), tuple.is_list);
  }
  m.diagnostics.Report(Diag::bad_binary, at.kind == ExprKind::binary ? As<BinaryExpr>(at).op_span : at.span,
                       Spelling(op), DescribeVal(m, a), DescribeVal(m, b));
  return Val::Poison();
}

namespace {

// Are two known values the same? False where that cannot be said.
bool SameKnown(const Val& a, const Val& b, bool* same) {
  if (a.number() && b.number()) {
    *same = a.int_like() && b.int_like() ? a.integer == b.integer : a.as_double() == b.as_double();
    return true;
  }
  if (a.tensor() || b.tensor() || a.kind == Val::Kind::dim || b.kind == Val::Kind::dim) return false;
  if (a.kind == Val::Kind::tuple && b.kind == Val::Kind::tuple) {
    *same = a.items->size() == b.items->size();
    for (size_t i = 0; *same && i < a.items->size(); ++i)
      if (!SameKnown((*a.items)[i], (*b.items)[i], same)) return false;
    return true;
  }
  if (a.kind != b.kind) {
    *same = false;
    return true;
  }
  switch (a.kind) {
    case Val::Kind::string: *same = a.text == b.text; return true;
    case Val::Kind::dtype: *same = a.dtype == b.dtype; return true;
    case Val::Kind::function: *same = a.def == b.def; return true;
    case Val::Kind::none:
    case Val::Kind::ellipsis: *same = true; return true;
    default: return false;
  }
}

}  // namespace

Val ApplyCompare(Machine& m, CompareOp op, const Val& a, const Val& b, const Expr& at) {
  if (a.poison() || b.poison()) return Val::Poison();
  if (op == CompareOp::is || op == CompareOp::is_not) {
    const bool none = a.kind == Val::Kind::none && b.kind == Val::Kind::none;
    if (a.kind != Val::Kind::none && b.kind != Val::Kind::none) {
      m.diagnostics.Report(Diag::is_without_none, at.span, Spelling(op)).hint = "write == to compare values";
      return Val::Poison();
    }
    return Val::Boolean(none == (op == CompareOp::is));
  }
  if (a.number() && b.number()) {
    const bool ints = a.int_like() && b.int_like();
    const double x = a.as_double(), y = b.as_double();
    switch (op) {
      case CompareOp::eq: return Val::Boolean(ints ? a.integer == b.integer : x == y);
      case CompareOp::ne: return Val::Boolean(ints ? a.integer != b.integer : x != y);
      case CompareOp::lt: return Val::Boolean(ints ? a.integer < b.integer : x < y);
      case CompareOp::le: return Val::Boolean(ints ? a.integer <= b.integer : x <= y);
      case CompareOp::gt: return Val::Boolean(ints ? a.integer > b.integer : x > y);
      default: return Val::Boolean(ints ? a.integer >= b.integer : x >= y);
    }
  }
  if ((a.kind == Val::Kind::dim || a.kind == Val::Kind::integer) &&
      (b.kind == Val::Kind::dim || b.kind == Val::Kind::integer)) {
    // What is known of dims is known now; the rest is for the run.
    if (m.symbols()->KnownEqual(a.integer, b.integer))
      return Val::Boolean(op == CompareOp::eq || op == CompareOp::le || op == CompareOp::ge);
    const int64_t difference = m.symbols()->Sub(a.integer, b.integer);
    if (!ir::IsSymbol(difference)) return ApplyCompare(m, op, Val::Integer(difference), Val::Integer(0), at);
  }
  if (Numeric(a) && Numeric(b)) return EmitOp(m, kCompareOps[static_cast<int>(op)], {a, b}, {}, at);
  if (op == CompareOp::eq || op == CompareOp::ne) {
    bool same;
    if (SameKnown(a, b, &same)) return Val::Boolean(same == (op == CompareOp::eq));
    if (a.kind == Val::Kind::tuple && b.kind == Val::Kind::tuple) {
      if (a.items->size() != b.items->size()) return Val::Boolean(op == CompareOp::ne);
      Val all = Val::Boolean(true);
      for (size_t i = 0; i < a.items->size(); ++i)
        all = ApplyLogical(m, true, all, ApplyCompare(m, CompareOp::eq, (*a.items)[i], (*b.items)[i], at), at);
      return op == CompareOp::eq ? all : ApplyUnary(m, UnaryOp::logical_not, all, at);
    }
  }
  m.diagnostics.Report(Diag::bad_compare, at.span, Spelling(op), DescribeVal(m, a), DescribeVal(m, b));
  return Val::Poison();
}

Val ApplyLogical(Machine& m, bool is_and, const Val& a, const Val& b, const Expr& at) {
  if (a.poison() || b.poison()) return Val::Poison();
  bool known;
  if (KnownTruth(a, &known)) return known == is_and ? b : a;
  if (KnownTruth(b, &known) && !b.tensor()) {
    if (a.tensor() && m.TypeOf(a).rank == 0 && m.TypeOf(a).dtype == DType::boolean) return known == is_and ? a : b;
  }
  if (Numeric(a) && Numeric(b)) {
    return EmitOp(m, is_and ? Op::k_logical_and : Op::k_logical_or, {a, b}, {}, at);
  }
  m.diagnostics.Report(Diag::bad_binary, at.span, is_and ? "and" : "or", DescribeVal(m, a), DescribeVal(m, b));
  return Val::Poison();
}

}  // namespace tessera::lang
