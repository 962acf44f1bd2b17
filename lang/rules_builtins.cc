#include "lang/rules_builtins.h"

#include <cmath>

#include "interp/dispatch.h"
#include "ir/function.h"
#include "lang/text.h"

namespace tessera::lang {
namespace {

using ir::Ints;
using ir::Op;

/// Arguments by the names of a signature, for one call. The first error sticks.
class Args {
 public:
  /// `names`: "x axis keepdims"; those after a * are given by name only.
  Args(Machine& m, const Builtin& b, const CallArgs& args, const Expr& at, std::string_view names)
      : m_(m), b_(b), args_(args), at_(at) {
    bool named_only = false;
    size_t positional = 0;
    for (size_t begin = 0; begin < names.size();) {
      const size_t end = std::min(names.find(' ', begin), names.size());
      const std::string_view name = names.substr(begin, end - begin);
      begin = end + 1;
      if (name == "*") {
        named_only = true;
        continue;
      }
      names_.push_back(name);
      if (!named_only) ++positional;
    }
    places_.assign(names_.size(), -1);
    for (size_t i = 0; i < args.values.size() && ok_; ++i) {
      const Span span = args.span(i).known() ? args.span(i) : at.span;
      size_t place = i;
      if (!args.names.empty() && args.names[i].id != 0) {
        const std::string_view name = m.ast.Text(args.names[i]);
        place = static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
        if (place == names_.size()) {
          m.diagnostics.Report(Diag::unknown_keyword, span, b.name, name).hint = Cat("it is called as ", b.signature);
          ok_ = false;
        }
      } else if (i >= positional) {
        m.diagnostics
            .Report(Diag::too_many_arguments, span, b.name, CountOf(positional, "argument"), args.values.size())
            .hint = Cat("it is called as ", b.signature);
        ok_ = false;
      }
      if (ok_ && places_[place] >= 0) {
        m.diagnostics.Report(Diag::argument_twice, span, b.name, names_[place]);
        ok_ = false;
      }
      if (ok_) places_[place] = static_cast<int>(i);
    }
  }

  bool ok() const { return ok_; }
  bool Has(size_t i) const {
    return places_[i] >= 0 && args_.values[static_cast<size_t>(places_[i])].kind != Val::Kind::none;
  }
  const Val& operator[](size_t i) const { return args_.values[static_cast<size_t>(places_[i])]; }
  const Expr& At(size_t i) const { return places_[i] >= 0 ? args_.At(static_cast<size_t>(places_[i]), at_) : at_; }
  bool Need(size_t i) {
    if (!ok_) return false;
    if (places_[i] >= 0) return true;
    m_.diagnostics.Report(Diag::missing_argument, at_.span, b_.name, names_[i]).hint =
        Cat("it is called as ", b_.signature);
    return ok_ = false;
  }
  bool NeedTensor(size_t i) {
    if (!Need(i)) return false;
    if ((*this)[i].tensor()) return true;
    m_.diagnostics.Report(Diag::not_a_tensor, At(i).span, b_.name, names_[i], DescribeVal(m_, (*this)[i]));
    return ok_ = false;
  }
  /// An optional int, bool, dtype, list of axes: the default stays where none is given.
  bool Int(size_t i, int64_t* out) {
    return ok_ && (!Has(i) || (ok_ = ToInt(m_, (*this)[i], Cat("`", names_[i], "` of ", b_.name), At(i), out)));
  }
  bool Bool(size_t i, bool* out) {
    int64_t value = *out;
    const bool good = Int(i, &value);
    *out = value != 0;
    return good;
  }
  bool Type(size_t i, DType* out) { return ok_ && (!Has(i) || (ok_ = ToDType(m_, (*this)[i], At(i), out))); }
  bool Ints(size_t i, ir::Ints* out) {
    return ok_ && (!Has(i) || (ok_ = ToDims(m_, (*this)[i], Cat("`", names_[i], "` of ", b_.name), At(i), out, true)));
  }

 private:
  Machine& m_;
  const Builtin& b_;
  const CallArgs& args_;
  const Expr& at_;
  std::vector<std::string_view> names_;
  std::vector<int> places_;
  bool ok_ = true;
};

/// zeros(2, 3), zeros((2, 3)), zeros(2, 3, dtype=f64), zeros((2, 3), f64): dims and what is given by name. `first`:
/// arguments before the dims.
bool Shape(Machine& m, const Builtin& b, const CallArgs& args, const Expr& at, size_t first, Ints* dims, DType* dtype,
           bool* has_dtype = nullptr) {
  bool whole = false;
  for (size_t i = first; i < args.values.size(); ++i) {
    const Val& v = args.values[i];
    const Expr& where = args.At(i, at);
    const std::string_view name = !args.names.empty() && args.names[i].id != 0 ? m.ast.Text(args.names[i]) : "";
    const bool is_dtype = v.kind == Val::Kind::dtype || v.kind == Val::Kind::builtin;
    if (name == "dtype" || (name.empty() && is_dtype && i > first)) {
      if (!ToDType(m, v, where, dtype)) return false;
      if (has_dtype != nullptr) *has_dtype = true;
    } else if (name.empty() || name == "shape") {
      if (whole) {
        m.diagnostics.Report(Diag::too_many_arguments, where.span, b.name, CountOf(first + 1, "argument"),
                             args.values.size());
        return false;
      }
      whole = v.kind == Val::Kind::tuple;
      if (!ToDims(m, v, Cat("a dim of ", b.name), where, dims, true)) return false;
    } else {
      m.diagnostics.Report(Diag::unknown_keyword, where.span, b.name, name).hint = Cat("it is called as ", b.signature);
      return false;
    }
  }
  return true;
}

Val Full(Machine& m, const Val& value, const Ints& dims, DType dtype, const Expr& at) {
  return EmitOp(m, Op::k_full, {value}, {dims, dtype}, at);
}

DType NumberDType(Machine& m, const Val& v) {
  if (v.tensor()) {
    const DType t = m.TypeOf(v).dtype;
    return v.weak && t == DType::f64 ? DType::f32 : t;
  }
  return v.kind == Val::Kind::floating ? DType::f32 : v.kind == Val::Kind::boolean ? DType::boolean : DType::i64;
}

// ---- nested lists of numbers

struct Literal {
  Ints dims;
  std::vector<Val> leaves;
  bool all_known = true;
};

bool Flatten(Machine& m, const Val& v, size_t depth, const Expr& at, Literal* out) {
  if (v.kind != Val::Kind::tuple) {
    if (!v.number() && !v.tensor() && v.kind != Val::Kind::dim) {
      m.diagnostics.Report(Diag::bad_literal, at.span, DescribeVal(m, v));
      return false;
    }
    if (depth != out->dims.size()) {
      m.diagnostics.Report(Diag::ragged_literal, at.span);
      return false;
    }
    out->all_known &= v.number();
    out->leaves.push_back(v);
    return true;
  }
  const auto size = static_cast<int64_t>(v.items->size());
  if (depth == out->dims.size()) {
    if (!out->leaves.empty() || depth >= kMaxRank) {
      m.diagnostics.Report(depth >= kMaxRank ? Diag::literal_rank : Diag::ragged_literal, at.span, kMaxRank);
      return false;
    }
    out->dims.push_back(size);
  } else if (out->dims[depth] != size) {
    m.diagnostics.Report(Diag::ragged_literal, at.span);
    return false;
  }
  for (const Val& item : *v.items)
    if (!Flatten(m, item, depth + 1, at, out)) return false;
  return true;
}

/// Null where there is no memory. Numbers are rounded to the dtype once.
rt::Ref<rt::TensorImpl> MakeConstant(DType dtype, const Ints& dims, const Vals& numbers) {
  bool floating = false;
  for (const Val& v : numbers) floating |= v.kind == Val::Kind::floating;
  TensorType type;
  type.dtype = floating ? DType::f64 : DType::i64;
  for (int64_t d : dims) type.dims[type.rank++] = d;
  auto made = rt::TensorImpl::Make(rt::Cpu(), type);
  if (!made.ok()) return nullptr;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (floating) {
      (*made)->as<double>()[i] = numbers[i].as_double();
    } else {
      (*made)->as<int64_t>()[i] = numbers[i].integer;
    }
  }
  if (type.dtype == dtype) return *std::move(made);
  auto cast = interp::Cast(**made, rt::Cpu(), dtype);
  return cast.ok() ? *std::move(cast) : nullptr;
}

Val Array(Machine& m, const Builtin& b, const CallArgs& call, const Expr& at) {
  Args a(m, b, call, at, "data dtype");
  if (!a.Need(0)) return Val::Poison();
  const Val& data = a[0];
  DType dtype = DType::f32;
  if (!a.Type(1, &dtype)) return Val::Poison();
  if (data.strong()) return a.Has(1) ? CastTo(m, data, dtype, at) : data;
  Literal literal;
  // The first path down tells the rank; the rest must agree with it.
  if (!Flatten(m, data, 0, a.At(0), &literal)) return Val::Poison();
  if (!a.Has(1)) {
    dtype = DType::boolean;
    for (const Val& v : literal.leaves) {
      const DType t = NumberDType(m, v);
      dtype = dtype == t ? t : Promote(dtype, t);
    }
    if (literal.leaves.empty()) dtype = DType::f32;
  }
  if (!literal.all_known) {
    Vals parts;
    for (const Val& v : literal.leaves) parts.push_back(CastTo(m, v, dtype, at));
    const Val stacked = EmitOp(m, Op::k_stack, parts, {int64_t{0}}, at);
    return literal.dims.size() == 1 ? stacked : EmitOp(m, Op::k_reshape, {stacked}, {literal.dims}, at);
  }
  if (literal.leaves.empty() || literal.dims.empty())
    return Full(m, literal.leaves.empty() ? Val::Integer(0) : literal.leaves[0], literal.dims, dtype, at);
  rt::Ref<rt::TensorImpl> value = MakeConstant(dtype, literal.dims, literal.leaves);
  if (!value) {
    m.diagnostics.Report(Diag::op_error, at.span, "there is no memory for this constant");
    return Val::Poison();
  }
  Vals out;
  if (!m.Emit(Op::k_constant, {}, {std::move(value)}, at, &out)) return Val::Poison();
  return out[0];
}

Val Like(Machine& m, const Builtin& b, const CallArgs& call, const Expr& at, bool with_value, int64_t fill) {
  Args a(m, b, call, at, with_value ? "x value dtype" : "x dtype");
  if (!a.NeedTensor(0) || (with_value && !a.Need(1))) return Val::Poison();
  const TensorType& type = m.TypeOf(a[0]);
  DType dtype = type.dtype;
  if (!a.Type(with_value ? 2 : 1, &dtype)) return Val::Poison();
  return Full(m, with_value ? a[1] : Val::Integer(fill), Ints(type.dims, type.dims + type.rank), dtype, at);
}

Val Arange(Machine& m, const Builtin& b, const CallArgs& call, const Expr& at) {
  Args a(m, b, call, at, "start stop step dtype");
  if (!a.Need(0)) return Val::Poison();
  Val start = Val::Integer(0), stop = a[0], step = Val::Integer(1);
  if (a.Has(1)) start = a[0], stop = a[1];
  if (a.Has(2)) step = a[2];
  for (Val* v : {&start, &stop, &step}) {
    if (v->tensor() && v->weak && !m.Know(v, "a bound of arange", at)) return Val::Poison();
    if (!v->number() && v->kind != Val::Kind::dim) {
      m.diagnostics.Report(Diag::wrong_argument, at.span, "a bound of arange", "a number", DescribeVal(m, *v));
      return Val::Poison();
    }
  }
  const bool symbolic = start.kind == Val::Kind::dim || stop.kind == Val::Kind::dim || step.kind == Val::Kind::dim;
  DType dtype =
      start.kind == Val::Kind::floating || stop.kind == Val::Kind::floating || step.kind == Val::Kind::floating
          ? DType::f32
          : DType::i64;
  if (!a.Type(3, &dtype)) return Val::Poison();
  int64_t count;
  if (symbolic && step.kind == Val::Kind::integer && step.integer == 1 && dtype != DType::f32) {
    count = m.symbols()->Sub(stop.integer, start.integer);
  } else {
    for (Val* v : {&start, &stop, &step})
      if (v->kind == Val::Kind::dim && !m.Know(v, "a bound of arange", at)) return Val::Poison();
    const double by = step.as_double();
    const double n = by == 0 ? NAN : std::ceil((stop.as_double() - start.as_double()) / by);
    if (!(n < 4.6e18)) {
      m.diagnostics.Report(by == 0 ? Diag::zero_step : Diag::endless_range, at.span);
      return Val::Poison();
    }
    count = n > 0 ? static_cast<int64_t>(n) : 0;
  }
  return EmitOp(m, Op::k_iota, {start, step}, {Ints{count}, int64_t{0}, dtype}, at);
}

Val Linspace(Machine& m, const Builtin& b, const CallArgs& call, const Expr& at) {
  Args a(m, b, call, at, "start stop count dtype");
  if (!a.Need(0) || !a.Need(1) || !a.Need(2)) return Val::Poison();
  int64_t count = 0;
  DType dtype = DType::f32;
  if (!a.Int(2, &count) || !a.Type(3, &dtype)) return Val::Poison();
  const Val span = ApplyBinary(m, BinaryOp::sub, a[1], a[0], at);
  const Val step = count > 1 ? ApplyBinary(m, BinaryOp::div, span, Val::Integer(count - 1), at) : Val::Floating(0);
  return EmitOp(m, Op::k_iota, {a[0], step}, {Ints{count}, int64_t{0}, dtype}, at);
}

Val Eye(Machine& m, const Builtin& b, const CallArgs& call, const Expr& at) {
  Args a(m, b, call, at, "n dtype");
  Ints dims;
  DType dtype = DType::f32;
  if (!a.Need(0) || !a.Ints(0, &dims) || !a.Type(1, &dtype)) return Val::Poison();
  if (dims.size() != 1) {
    m.diagnostics.Report(Diag::not_an_int, a.At(0).span, "`n` of eye", DescribeVal(m, a[0]));
    return Val::Poison();
  }
  dims.push_back(dims[0]);
  const Val zero = Val::Integer(0), one = Val::Integer(1);
  const Val rows = EmitOp(m, Op::k_iota, {zero, one}, {dims, int64_t{0}, DType::i64}, at);
  const Val columns = EmitOp(m, Op::k_iota, {zero, one}, {dims, int64_t{1}, DType::i64}, at);
  return EmitOp(m, Op::k_cast, {EmitOp(m, Op::k_eq, {rows, columns}, {}, at)}, {dtype}, at);
}

Val RandomTensor(Machine& m, const Builtin& b, const CallArgs& args, const Expr& at) {
  Ints dims;
  const bool ints = b.id == BuiltinId::b_randint;
  DType dtype = ints ? DType::i64 : DType::f32;
  int64_t low = 0, high = 0;
  if (ints) {
    if (args.values.size() < 2) {
      m.diagnostics.Report(Diag::missing_argument, at.span, b.name, args.values.empty() ? "low" : "high");
      return Val::Poison();
    }
    if (!ToInt(m, args.values[0], "`low` of randint", at, &low)) return Val::Poison();
    if (!ToInt(m, args.values[1], "`high` of randint", at, &high)) return Val::Poison();
  }
  if (!Shape(m, b, args, at, ints ? 2 : 0, &dims, &dtype)) return Val::Poison();
  int64_t count = 1;
  for (int64_t d : dims) count = ir::DimMul(m.symbols(), count, d < 0 && !ir::IsSymbol(d) ? 0 : d);
  int64_t seed, offset;
  if (!m.Random(count, &seed, &offset, at)) return Val::Poison();
  const Val s = Val::Integer(seed), o = Val::Integer(offset);
  if (ints) return EmitOp(m, Op::k_random_int, {s, o}, {dims, low, high, dtype}, at);
  return EmitOp(m, b.id == BuiltinId::b_rand ? Op::k_random_uniform : Op::k_random_normal, {s, o},
                {dims, 0.0, 1.0, dtype}, at);
}

/// reshape(x, 2, -1), reshape(x, (2, -1)), transpose(x, 1, 0): x and the ints after it.
bool TensorAndInts(Machine& m, const Builtin& b, const CallArgs& args, const Expr& at, Ints* ints) {
  if (args.values.empty() || (!args.names.empty() && args.names[0].id != 0 && m.ast.Text(args.names[0]) != "x")) {
    m.diagnostics.Report(Diag::missing_argument, at.span, b.name, "x").hint = Cat("it is called as ", b.signature);
    return false;
  }
  if (!args.values[0].tensor()) {
    m.diagnostics.Report(Diag::not_a_tensor, args.span(0).known() ? args.span(0) : at.span, b.name, "x",
                         DescribeVal(m, args.values[0]));
    return false;
  }
  for (size_t i = 1; i < args.values.size(); ++i) {
    const std::string_view name = !args.names.empty() && args.names[i].id != 0 ? m.ast.Text(args.names[i]) : "";
    if (!name.empty() && name != "shape" && name != "axes" && name != "dims" && name != "perm") {
      m.diagnostics.Report(Diag::unknown_keyword, at.span, b.name, name).hint = Cat("it is called as ", b.signature);
      return false;
    }
    if (!ToDims(m, args.values[i], Cat("an argument of ", b.name), args.At(i, at), ints, true)) return false;
  }
  return true;
}

Val Reduce(Machine& m, const Builtin& b, const CallArgs& call, const Expr& at, Op op) {
  Args a(m, b, call, at, op == Op::k_var ? "x axis keepdims correction" : "x axis keepdims");
  if (!a.Need(0)) return Val::Poison();
  Ints axes;
  bool keepdims = false;
  if (!a.Ints(1, &axes) || !a.Bool(2, &keepdims)) return Val::Poison();
  std::vector<ir::Attr> attrs = {axes, keepdims};
  if (op == Op::k_var) {
    double correction = 0;
    if (a.Has(3)) {
      if (!a[3].number()) {
        m.diagnostics.Report(Diag::wrong_argument, a.At(3).span, "`correction` of std", "a float",
                             DescribeVal(m, a[3]));
        return Val::Poison();
      }
      correction = a[3].as_double();
    }
    attrs.emplace_back(correction);
  }
  return EmitOp(m, op, {a[0]}, std::move(attrs), at);
}

// max(x, axis=...) of a tensor, max(a, b, ...) of numbers and scalars.
Val MaxMin(Machine& m, const Builtin& b, const CallArgs& args, const Expr& at) {
  const bool is_max = b.id == BuiltinId::b_max;
  Vals values = args.values;
  bool named = false;
  for (Name n : args.names) named |= n.id != 0;
  if (values.size() == 1 && values[0].kind == Val::Kind::tuple) values = Vals(*values[0].items);
  const bool tensor_first = !args.values.empty() && args.values[0].tensor() && !args.values[0].weak;
  const bool axis_second =
      args.values.size() > 1 && (args.values[1].int_like() || args.values[1].kind == Val::Kind::tuple);
  if (named || (tensor_first && (args.values.size() == 1 || axis_second)))
    return Reduce(m, b, args, at, is_max ? Op::k_max : Op::k_min);
  if (values.empty()) {
    m.diagnostics.Report(Diag::missing_argument, at.span, b.name, "x").hint = Cat("it is called as ", b.signature);
    return Val::Poison();
  }
  Val best = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    const Val& v = values[i];
    if (best.number() && v.number()) {
      const bool take = best.int_like() && v.int_like()
                            ? (is_max ? v.integer > best.integer : v.integer < best.integer)
                            : (is_max ? v.as_double() > best.as_double() : v.as_double() < best.as_double());
      if (take) best = v;
    } else {
      best = EmitOp(m, is_max ? Op::k_maximum : Op::k_minimum, {best, v}, {}, at);
    }
  }
  return best;
}

Val ArgMaxMin(Machine& m, const Builtin& b, const CallArgs& call, const Expr& at) {
  Args a(m, b, call, at, "x axis keepdims");
  if (!a.NeedTensor(0)) return Val::Poison();
  int64_t axis = 0;
  bool keepdims = false;
  if (!a.Int(1, &axis) || !a.Bool(2, &keepdims)) return Val::Poison();
  Val x = a[0];
  if (!a.Has(1)) x = EmitOp(m, Op::k_reshape, {x}, {Ints{-1}}, at);
  return EmitOp(m, b.id == BuiltinId::b_argmax ? Op::k_argmax : Op::k_argmin, {x}, {axis, keepdims}, at);
}

Val Sort(Machine& m, const Builtin& b, const CallArgs& call, const Expr& at) {
  Args a(m, b, call, at, "x axis descending");
  int64_t axis = -1;
  bool descending = false;
  if (!a.NeedTensor(0) || !a.Int(1, &axis) || !a.Bool(2, &descending)) return Val::Poison();
  Vals out = EmitOps(m, Op::k_sort, {a[0]}, {axis, descending}, at);
  return out[0].poison() || b.id == BuiltinId::b_sort ? out[0] : out[1];
}

Val Split(Machine& m, const Builtin& b, const CallArgs& call, const Expr& at) {
  Args a(m, b, call, at, "x parts axis");
  int64_t axis = 0;
  if (!a.NeedTensor(0) || !a.Need(1) || !a.Int(2, &axis)) return Val::Poison();
  Ints sizes;
  if (!a.Ints(1, &sizes)) return Val::Poison();
  if (a[1].kind != Val::Kind::tuple) {
    const TensorType& type = m.TypeOf(a[0]);
    const int64_t parts = sizes[0], place = axis < 0 ? axis + type.rank : axis;
    if (place < 0 || place >= type.rank) {
      m.diagnostics.Report(Diag::axis_out_of_range, a.At(2).span, axis, m.TypeText(type));
      return Val::Poison();
    }
    const int64_t dim = type.dims[place];
    if (parts < 1 || parts > 64 || (!ir::IsSymbol(dim) && dim % parts != 0)) {
      m.diagnostics.Report(Diag::uneven_split, a.At(1).span, m.TypeText(type), place, parts);
      return Val::Poison();
    }
    sizes.assign(static_cast<size_t>(parts), ir::DimFloorDiv(m.symbols(), dim, parts));
  }
  Vals out = EmitOps(m, Op::k_split, {a[0]}, {sizes, axis}, at);
  return !out.empty() && out[0].poison() ? out[0] : Val::Tuple(std::move(out));
}

Val Number(Machine& m, const Builtin& b, const CallArgs& call, const Expr& at) {
  Args a(m, b, call, at, "x");
  if (!a.Need(0)) return Val::Poison();
  Val v = a[0];
  if (b.id == BuiltinId::b_bool) {
    bool truth;
    if (KnownTruth(v, &truth)) return Val::Boolean(truth);
  }
  if (v.kind == Val::Kind::dim && b.id == BuiltinId::b_int) return v;
  if (v.kind == Val::Kind::dim) v = m.DimTensor(v, at);
  if (v.tensor() && v.weak) {
    const DType want = b.id == BuiltinId::b_int ? DType::i64 : b.id == BuiltinId::b_float ? DType::f64 : DType::boolean;
    if (m.TypeOf(v).dtype == want) return v;
    return EmitOp(m, Op::k_cast, {v}, {want}, at);
  }
  if (v.tensor()) v = m.Item(v, at);
  if (v.poison()) return v;
  if (!v.number()) {
    m.diagnostics.Report(Diag::wrong_argument, a.At(0).span, Cat("the argument of ", b.name), "a number",
                         DescribeVal(m, v));
    return Val::Poison();
  }
  if (b.id == BuiltinId::b_bool) return Val::Boolean(v.as_double() != 0);
  if (b.id == BuiltinId::b_float) return Val::Floating(v.as_double());
  if (v.int_like()) return Val::Integer(v.integer);
  if (!(std::fabs(v.floating) < 9.2e18)) {
    m.diagnostics.Report(Diag::int_overflow, at.span);
    return Val::Poison();
  }
  return Val::Integer(static_cast<int64_t>(v.floating));
}

Val Range(Machine& m, const Builtin& b, const CallArgs& call, const Expr& at) {
  Args a(m, b, call, at, "start stop step");
  if (!a.Need(0)) return Val::Poison();
  Vals parts = {Val::Integer(0), a[0], Val::Integer(1)};
  if (a.Has(1)) parts[0] = a[0], parts[1] = a[1];
  if (a.Has(2)) parts[2] = a[2];
  for (Val& v : parts) {
    if (v.kind == Val::Kind::boolean) v = Val::Integer(v.integer);
    const bool good =
        v.int_like() || v.kind == Val::Kind::dim || (v.tensor() && m.TypeOf(v).rank == 0 && IsInt(m.TypeOf(v).dtype));
    if (!good) {
      m.diagnostics.Report(Diag::not_an_int, at.span, "a bound of range", DescribeVal(m, v));
      return Val::Poison();
    }
  }
  if (parts[2].int_like() && parts[2].integer == 0) {
    m.diagnostics.Report(Diag::zero_step, at.span);
    return Val::Poison();
  }
  Val range = Val::Of(Val::Kind::range);
  range.items = std::make_shared<const Vals>(std::move(parts));
  return range;
}

Val TupleOf(Machine& m, const Builtin& b, const CallArgs& call, const Expr& at) {
  Args a(m, b, call, at, "x");
  if (!a.Need(0)) return Val::Poison();
  const Val& v = a[0];
  if (v.kind == Val::Kind::tuple) return Val::Tuple(*v.items);
  if (v.kind == Val::Kind::range) {
    int64_t bounds[3];
    for (int i = 0; i < 3; ++i)
      if (!ToInt(m, (*v.items)[static_cast<size_t>(i)], "a bound of range", at, &bounds[i])) return Val::Poison();
    Vals items;
    for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1]; i += bounds[2]) {
      if (items.size() == kMaxItems) {
        m.diagnostics.Report(Diag::too_many_items, at.span, kMaxItems);
        return Val::Poison();
      }
      items.push_back(Val::Integer(i));
      if (int64_t next; __builtin_add_overflow(i, bounds[2], &next)) break;
    }
    return Val::Tuple(std::move(items));
  }
  m.diagnostics.Report(Diag::wrong_argument, a.At(0).span, "the argument of tuple", "a tuple, a list or a range",
                       DescribeVal(m, v));
  return Val::Poison();
}

Val AboutShape(Machine& m, const Builtin& b, const CallArgs& call, const Expr& at) {
  Args a(m, b, call, at, "x");
  if (!a.Need(0)) return Val::Poison();
  const Val& v = a[0];
  if (b.id == BuiltinId::b_len) {
    if (v.kind == Val::Kind::tuple) return Val::Integer(static_cast<int64_t>(v.items->size()));
    if (v.kind == Val::Kind::string) return Val::Integer(static_cast<int64_t>(v.text.size()));
    if (v.tensor() && m.TypeOf(v).rank > 0) return Val::Dim(m.TypeOf(v).dims[0]);
    m.diagnostics.Report(Diag::no_len, a.At(0).span, DescribeVal(m, v));
    return Val::Poison();
  }
  if (!a.NeedTensor(0)) return Val::Poison();
  const TensorType& type = m.TypeOf(v);
  if (b.id == BuiltinId::b_ndim) return Val::Integer(type.rank);
  Vals dims;
  int64_t size = 1;
  for (int i = 0; i < type.rank; ++i) {
    dims.push_back(Val::Dim(type.dims[i]));
    size = ir::DimMul(m.symbols(), size, type.dims[i]);
  }
  return b.id == BuiltinId::b_shape ? Val::Tuple(std::move(dims)) : Val::Dim(size);
}

Val Print(Machine& m, const CallArgs& args, const Expr& at) {
  Vals values;
  std::string_view label;
  for (size_t i = 0; i < args.values.size(); ++i) {
    const std::string_view name = !args.names.empty() && args.names[i].id != 0 ? m.ast.Text(args.names[i]) : "";
    if (name == "label" && args.values[i].kind == Val::Kind::string) {
      label = args.values[i].text;
    } else if (!name.empty()) {
      m.diagnostics.Report(Diag::unknown_keyword, args.span(i).known() ? args.span(i) : at.span, "print", name).hint =
          "it takes values, and label=\"...\"";
      return Val::Poison();
    } else {
      values.push_back(args.values[i]);
    }
  }
  return m.Print(values, label, at) ? Val::None() : Val::Poison();
}

}  // namespace

Val CallOwnBuiltin(Machine& m, const Builtin& b, const CallArgs& args, const Expr& at) {
  switch (b.id) {
    case BuiltinId::b_array:
    case BuiltinId::b_tensor: return Array(m, b, args, at);
    case BuiltinId::b_zeros:
    case BuiltinId::b_ones: {
      Ints dims;
      DType dtype = DType::f32;
      if (!Shape(m, b, args, at, 0, &dims, &dtype)) return Val::Poison();
      return Full(m, Val::Integer(b.id == BuiltinId::b_ones), dims, dtype, at);
    }
    case BuiltinId::b_full: {
      Args a(m, b, args, at, "shape value dtype");
      if (!a.Need(0) || !a.Need(1)) return Val::Poison();
      Ints dims;
      DType dtype = NumberDType(m, a[1]);
      if (!a.Ints(0, &dims) || !a.Type(2, &dtype)) return Val::Poison();
      return Full(m, a[1], dims, dtype, at);
    }
    case BuiltinId::b_zeros_like: return Like(m, b, args, at, false, 0);
    case BuiltinId::b_ones_like: return Like(m, b, args, at, false, 1);
    case BuiltinId::b_full_like: return Like(m, b, args, at, true, 0);
    case BuiltinId::b_arange: return Arange(m, b, args, at);
    case BuiltinId::b_linspace: return Linspace(m, b, args, at);
    case BuiltinId::b_eye: return Eye(m, b, args, at);
    case BuiltinId::b_rand:
    case BuiltinId::b_randn:
    case BuiltinId::b_randint: return RandomTensor(m, b, args, at);
    case BuiltinId::b_reshape:
    case BuiltinId::b_transpose:
    case BuiltinId::b_permute: {
      Ints ints;
      if (!TensorAndInts(m, b, args, at, &ints)) return Val::Poison();
      return EmitOp(m, b.id == BuiltinId::b_reshape ? Op::k_reshape : Op::k_transpose, {args.values[0]}, {ints}, at);
    }
    case BuiltinId::b_flatten:
    case BuiltinId::b_ravel: {
      Args a(m, b, args, at, "x");
      if (!a.NeedTensor(0)) return Val::Poison();
      return EmitOp(m, Op::k_reshape, {a[0]}, {Ints{-1}}, at);
    }
    case BuiltinId::b_swapaxes: {
      Args a(m, b, args, at, "x a b");
      int64_t one = 0, two = 0;
      if (!a.NeedTensor(0) || !a.Need(1) || !a.Need(2) || !a.Int(1, &one) || !a.Int(2, &two)) return Val::Poison();
      const int rank = m.TypeOf(a[0]).rank;
      Ints perm;
      for (int64_t i = 0; i < rank; ++i) perm.push_back(i);
      for (int64_t* axis : {&one, &two}) {
        if (*axis < -rank || *axis >= rank) {
          m.diagnostics.Report(Diag::axis_out_of_range, at.span, *axis, m.TypeText(m.TypeOf(a[0])));
          return Val::Poison();
        }
        if (*axis < 0) *axis += rank;
      }
      std::swap(perm[static_cast<size_t>(one)], perm[static_cast<size_t>(two)]);
      return EmitOp(m, Op::k_transpose, {a[0]}, {perm}, at);
    }
    case BuiltinId::b_max:
    case BuiltinId::b_min: return MaxMin(m, b, args, at);
    case BuiltinId::b_std: return EmitOp(m, Op::k_sqrt, {Reduce(m, b, args, at, Op::k_var)}, {}, at);
    case BuiltinId::b_argmax:
    case BuiltinId::b_argmin: return ArgMaxMin(m, b, args, at);
    case BuiltinId::b_sort:
    case BuiltinId::b_argsort: return Sort(m, b, args, at);
    case BuiltinId::b_split: return Split(m, b, args, at);
    case BuiltinId::b_dot: {
      Args a(m, b, args, at, "a b");
      if (!a.Need(0) || !a.Need(1)) return Val::Poison();
      return ApplyBinary(m, BinaryOp::matmul, a[0], a[1], at);
    }
    case BuiltinId::b_outer: {
      Args a(m, b, args, at, "a b");
      if (!a.NeedTensor(0) || !a.NeedTensor(1)) return Val::Poison();
      const Val column = EmitOp(m, Op::k_reshape, {a[0]}, {Ints{-1, 1}}, at);
      const Val row = EmitOp(m, Op::k_reshape, {a[1]}, {Ints{1, -1}}, at);
      return EmitOp(m, Op::k_mul, {column, row}, {}, at);
    }
    case BuiltinId::b_divmod: {
      Args a(m, b, args, at, "a b");
      if (!a.Need(0) || !a.Need(1)) return Val::Poison();
      return Val::Tuple(
          {ApplyBinary(m, BinaryOp::floor_div, a[0], a[1], at), ApplyBinary(m, BinaryOp::mod, a[0], a[1], at)});
    }
    case BuiltinId::b_len:
    case BuiltinId::b_shape:
    case BuiltinId::b_ndim:
    case BuiltinId::b_size: return AboutShape(m, b, args, at);
    case BuiltinId::b_int:
    case BuiltinId::b_float:
    case BuiltinId::b_bool: return Number(m, b, args, at);
    case BuiltinId::b_range: return Range(m, b, args, at);
    case BuiltinId::b_tuple: return TupleOf(m, b, args, at);
    case BuiltinId::b_item: {
      Args a(m, b, args, at, "x");
      if (!a.NeedTensor(0)) return Val::Poison();
      return m.Item(a[0], at);
    }
    case BuiltinId::b_print: return Print(m, args, at);
    case BuiltinId::b_stop_gradient: {
      Args a(m, b, args, at, "x");
      if (!a.Need(0)) return Val::Poison();
      if (a[0].number() || a[0].kind == Val::Kind::dim) return a[0];
      return a.NeedTensor(0) ? m.StopGradient(a[0], at) : Val::Poison();
    }
    case BuiltinId::b_grad:
    case BuiltinId::b_value_and_grad: {
      Args a(m, b, args, at, "f wrt");
      if (!a.Need(0)) return Val::Poison();
      return MakeGradient(m, b.id == BuiltinId::b_value_and_grad, a[0], a.At(0), a.Has(1) ? a[1] : Val::Integer(0),
                          a.At(1));
    }
    case BuiltinId::b_seed: return m.CallHost(b, args.values, at);
    case BuiltinId::op: break;
  }
  return Val::Poison();
}

}  // namespace tessera::lang
