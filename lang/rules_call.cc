// Calls of ops by their names, attributes of values, and the way to builtins.
#include <cmath>

#include "absl/container/inlined_vector.h"
#include "ir/typing.h"
#include "lang/rules.h"
#include "lang/rules_builtins.h"
#include "lang/text.h"

namespace tessera::lang {
namespace {

using ir::AttrSpec;
using ir::AttrType;
using ir::Op;

// NumPy's name for an attribute.
std::string_view OtherName(std::string_view attr) {
  if (attr == "axes") return "axis";
  if (attr == "dims") return "shape";
  return {};
}

// Known numbers have no need of a tensor. Nothing: not one of these, or not with those numbers.
bool HostMath(Op op, const Vals& in, Val* out) {
  for (const Val& v : in)
    if (!v.number()) return false;
  const auto one = [&](double (*f)(double)) {
    *out = Val::Floating(f(in[0].as_double()));
    return true;
  };
  if (in.size() == 1) {
    const bool is_int = in[0].int_like();
    switch (op) {
      case Op::k_sqrt: return one(std::sqrt);
      case Op::k_exp: return one(std::exp);
      case Op::k_exp2: return one(std::exp2);
      case Op::k_log: return one(std::log);
      case Op::k_log2: return one(std::log2);
      case Op::k_log10: return one(std::log10);
      case Op::k_sin: return one(std::sin);
      case Op::k_cos: return one(std::cos);
      case Op::k_tan: return one(std::tan);
      case Op::k_tanh: return one(std::tanh);
      case Op::k_atan: return one(std::atan);
      case Op::k_abs:
        if (!is_int) return one(std::fabs);
        *out = Val::Integer(in[0].integer < 0 ? -in[0].integer : in[0].integer);
        return in[0].integer != INT64_MIN;
      case Op::k_floor:
      case Op::k_ceil:
      case Op::k_trunc:
      case Op::k_round:
        if (is_int) {
          *out = Val::Integer(in[0].integer);
          return true;
        }
        return one(op == Op::k_floor   ? static_cast<double (*)(double)>(std::floor)
                   : op == Op::k_ceil  ? static_cast<double (*)(double)>(std::ceil)
                   : op == Op::k_trunc ? static_cast<double (*)(double)>(std::trunc)
                                       : static_cast<double (*)(double)>(std::nearbyint));
      default: return false;
    }
  }
  return false;
}

bool ToAttr(Machine& m, const ir::OpInfo& op, const AttrSpec& spec, const Val& v, const Expr& at, ir::Attr* out) {
  const std::string what =
      Cat("`", OtherName(spec.name).empty() ? std::string_view(spec.name) : OtherName(spec.name), "` of ", op.name);
  switch (spec.type) {
    case AttrType::t_int: {
      int64_t number;
      if (!ToInt(m, v, what, at, &number)) return false;
      *out = number;
      return true;
    }
    case AttrType::t_ints: {
      ir::Ints ints;
      if (v.kind != Val::Kind::none && !ToDims(m, v, what, at, &ints, ir::TakesSymbols(spec))) return false;
      *out = ints;
      return true;
    }
    case AttrType::t_float: {
      Val number = v;
      if ((v.kind == Val::Kind::dim || (v.tensor() && v.weak)) && !m.Know(&number, what, at)) return false;
      if (!number.number()) break;
      *out = number.as_double();
      return true;
    }
    case AttrType::t_bool: {
      Val known = v;
      if (v.tensor() && v.weak && !m.Know(&known, what, at)) return false;
      if (!known.int_like()) break;
      *out = known.integer != 0;
      return true;
    }
    case AttrType::t_dtype: {
      DType dtype;
      if (!ToDType(m, v, at, &dtype)) return false;
      *out = dtype;
      return true;
    }
    case AttrType::t_str:
      if (v.kind != Val::Kind::string) break;
      *out = std::string(v.text);
      return true;
    default: break;
  }
  if (v.poison()) return false;
  constexpr std::string_view kWant[] = {"a bool", "an int", "a float", "a dtype", "ints", "a string", "a tensor"};
  m.diagnostics.Report(Diag::wrong_argument, at.span, what, kWant[static_cast<int>(spec.type)], DescribeVal(m, v));
  return false;
}

Val CallOp(Machine& m, const Builtin& builtin, const CallArgs& args, const Expr& at) {
  const ir::OpInfo& op = ir::Info(builtin.op);
  const size_t num_operands = op.operands.size(), total = num_operands + op.attrs.size();
  const bool variadic = num_operands > 0 && op.operands[0].variadic;
  absl::InlinedVector<int, 12> given(total, -1);
  const auto span_of = [&](size_t i) { return args.span(i).known() ? args.span(i) : at.span; };
  for (size_t i = 0; i < args.values.size(); ++i) {
    if (args.values[i].poison()) return Val::Poison();
    size_t place = i;
    if (!args.names.empty() && args.names[i].id != 0) {
      const std::string_view name = m.ast.Text(args.names[i]);
      place = total;
      for (size_t k = 0; k < total; ++k) {
        const std::string& param = k < num_operands ? op.operands[k].name : op.attrs[k - num_operands].name;
        if (param == name || (k >= num_operands && OtherName(param) == name)) {
          place = k;
          break;
        }
      }
      if (place == total) {
        std::vector<std::string_view> names;
        for (const auto& o : op.operands) names.push_back(o.name);
        for (const auto& a : op.attrs) names.push_back(OtherName(a.name).empty() ? a.name : OtherName(a.name));
        Diagnostic& d = m.diagnostics.Report(Diag::unknown_keyword, span_of(i), builtin.name, name);
        d.hint = DidYouMean(name, names);
        if (d.hint.empty() && !names.empty()) {
          d.hint = "it takes ";
          for (size_t k = 0; k < names.size(); ++k) Append(d.hint, k > 0 ? ", " : "", names[k]);
        }
        return Val::Poison();
      }
    } else if (place >= total) {
      m.diagnostics.Report(Diag::too_many_arguments, span_of(i), builtin.name, CountOf(total, "argument"),
                           args.values.size());
      return Val::Poison();
    }
    if (given[place] >= 0) {
      const std::string& param = place < num_operands ? op.operands[place].name : op.attrs[place - num_operands].name;
      m.diagnostics.Report(Diag::argument_twice, span_of(i), builtin.name, param);
      return Val::Poison();
    }
    given[place] = static_cast<int>(i);
  }
  Vals in = m.TakeList();
  in.reserve(num_operands);
  for (size_t k = 0; k < num_operands; ++k) {
    if (given[k] >= 0) {
      const Val& v = args.values[static_cast<size_t>(given[k])];
      if (variadic) {
        if (v.kind != Val::Kind::tuple || v.items->empty()) {
          m.diagnostics
              .Report(Diag::needs_list, span_of(static_cast<size_t>(given[k])), builtin.name, DescribeVal(m, v))
              .hint = Cat("write ", builtin.name, "([a, b])");
          return Val::Poison();
        }
        in = *v.items;
        break;
      }
      in.push_back(v);
    } else if (op.operands[k].optional) {
      in.push_back(Val::None());
    } else {
      m.diagnostics.Report(Diag::missing_argument, at.span, builtin.name, op.operands[k].name);
      return Val::Poison();
    }
  }
  for (size_t k = 0; k < in.size(); ++k) {
    const bool optional = !variadic && op.operands[k].optional;
    if (in[k].kind == Val::Kind::none && !optional) {
      m.diagnostics.Report(Diag::not_a_tensor, at.span, builtin.name, op.operands[variadic ? 0 : k].name, "None");
      return Val::Poison();
    }
  }
  Val known;
  if (op.attrs.empty() && op.impl == ir::Impl::ew && HostMath(builtin.op, in, &known)) return known;
  std::vector<ir::Attr> attrs(op.attrs.size());
  for (size_t k = 0; k < attrs.size(); ++k) {
    const int from = given[num_operands + k];
    if (from < 0) {
      if (op.attrs[k].required) {
        m.diagnostics.Report(Diag::missing_argument, at.span, builtin.name,
                             OtherName(op.attrs[k].name).empty() ? op.attrs[k].name : OtherName(op.attrs[k].name));
        return Val::Poison();
      }
      attrs[k] = op.attrs[k].default_value;
      continue;
    }
    const Expr& where = args.At(static_cast<size_t>(from), at);
    if (!ToAttr(m, op, op.attrs[k], args.values[static_cast<size_t>(from)], where, &attrs[k])) return Val::Poison();
  }
  // One result, as most have.
  if (op.results.size() == 1 && !op.variadic_results) {
    Val v = EmitOp(m, builtin.op, in, std::move(attrs), at);
    m.GiveList(std::move(in));
    return v;
  }
  Vals out = EmitOps(m, builtin.op, in, std::move(attrs), at);
  if (out.size() == 1 && (out[0].poison() || (op.results.size() == 1 && !op.variadic_results))) return out[0];
  if (out.empty()) return Val::None();
  return Val::Tuple(std::move(out));
}

// Builtins that take no tensor first, so that no tensor has them as methods.
bool IsMethod(const Builtin& b) {
  switch (b.id) {
    case BuiltinId::op: return !ir::Info(b.op).operands.empty() && !ir::Info(b.op).operands[0].variadic;
    case BuiltinId::b_array:
    case BuiltinId::b_tensor:
    case BuiltinId::b_zeros:
    case BuiltinId::b_ones:
    case BuiltinId::b_full:
    case BuiltinId::b_arange:
    case BuiltinId::b_linspace:
    case BuiltinId::b_eye:
    case BuiltinId::b_rand:
    case BuiltinId::b_randn:
    case BuiltinId::b_randint:
    case BuiltinId::b_range:
    case BuiltinId::b_tuple:
    case BuiltinId::b_print:
    case BuiltinId::b_grad:
    case BuiltinId::b_value_and_grad:
    case BuiltinId::b_seed: return false;
    default: return true;
  }
}

}  // namespace

Val ApplyAttribute(Machine& m, const Val& object, const AttributeExpr& at) {
  if (object.poison()) return object;
  const std::string_view name = m.ast.Text(at.name);
  if (object.kind == Val::Kind::module) return m.MemberOf(object, at.name, at);
  if (object.tensor()) {
    const TensorType& type = m.TypeOf(object);
    if (name == "shape") {
      Vals dims;
      for (int i = 0; i < type.rank; ++i) dims.push_back(Val::Dim(type.dims[i]));
      return Val::Tuple(std::move(dims));
    }
    if (name == "ndim") return Val::Integer(type.rank);
    if (name == "dtype") return Val::OfDType(type.dtype);
    if (name == "size") {
      int64_t size = 1;
      for (int i = 0; i < type.rank; ++i) size = ir::DimMul(m.symbols(), size, type.dims[i]);
      return Val::Dim(size);
    }
    if (name == "T") return EmitOp(m, Op::k_transpose, {object}, {ir::Ints{}}, at);
    if (const Builtin* b = FindBuiltin(name); b != nullptr && IsMethod(*b)) {
      Val method = Val::Of(Val::Kind::builtin);
      method.builtin = b;
      method.items = std::make_shared<const Vals>(Vals{object});
      return method;
    }
  }
  std::vector<std::string_view> names = {"shape", "ndim", "dtype", "size", "T"};
  for (const Builtin* b : AllBuiltins())
    if (IsMethod(*b)) names.push_back(b->name);
  Diagnostic& d = m.diagnostics.Report(Diag::unknown_attribute, at.name_span, DescribeVal(m, object), name);
  if (object.tensor()) d.hint = DidYouMean(name, names);
  return Val::Poison();
}

Val ApplyBuiltin(Machine& m, const Val& builtin, const CallArgs& args, const Expr& at) {
  const CallArgs* all = &args;
  CallArgs with_object;
  if (builtin.items != nullptr) {
    with_object.values.reserve(args.values.size() + 1);
    with_object.values.push_back((*builtin.items)[0]);
    with_object.call = args.call;
    with_object.before = 1;
    with_object.values.insert(with_object.values.end(), args.values.begin(), args.values.end());
    if (!args.names.empty()) {
      with_object.names.reserve(args.names.size() + 1);
      with_object.names.emplace_back();
      with_object.names.insert(with_object.names.end(), args.names.begin(), args.names.end());
    }
    all = &with_object;
  }
  for (const Val& v : all->values)
    if (v.poison()) return v;
  if (builtin.builtin->id == BuiltinId::op) return CallOp(m, *builtin.builtin, *all, at);
  return CallOwnBuiltin(m, *builtin.builtin, *all, at);
}

}  // namespace tessera::lang
