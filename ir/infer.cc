// Infer(): counts, roles and dtypes by the columns of the op table, then the op's shape rule.
#include "ir/infer.h"

#include <climits>

#include "absl/strings/match.h"
#include "ir/op.h"

namespace tessera::ir {
namespace {

const OperandSpec& SpecOf(const OpInfo& op, size_t i) {
  return i < op.operands.size() ? op.operands[i] : op.operands.back();
}

// The dtype of weak number `weak` beside tensors of `dtype`: theirs, unless the number is of a higher kind.
DType Weaken(DType dtype, DType weak) {
  if (static_cast<int>(KindOf(weak)) <= static_cast<int>(KindOf(dtype))) return dtype;
  return KindOf(weak) == DTypeKind::floating ? DType::f32 : DType::i64;
}

DType ResultDType(const OpInfo& op, DType operand) {
  switch (op.rule) {
    case DTypeRule::r_compare:
    case DTypeRule::r_bool: return DType::boolean;
    case DTypeRule::r_index: return DType::i64;
    case DTypeRule::r_accum: return IsFloat(operand) ? operand : DType::i64;
    default: return operand;
  }
}

absl::Status CheckRoles(const InferArgs& args) {
  const OpInfo& op = args.op;
  const int n = static_cast<int>(args.in.size());
  if (n < op.min_operands || n > op.max_operands) {
    return InvalidArgument("takes ", op.min_operands,
                           op.max_operands == op.min_operands ? std::string()
                           : op.max_operands == INT_MAX       ? std::string(" or more")
                                                              : absl::StrCat(" to ", op.max_operands),
                           " operand", op.min_operands == 1 && op.max_operands == 1 ? "" : "s", ", not ", n);
  }
  for (int i = 0; i < n; ++i) {
    const OperandSpec& spec = SpecOf(op, i);
    if (args.in[i] == nullptr) {
      if (!spec.optional) return InvalidArgument("operand ", spec.name, " is missing");
      continue;
    }
    DType t = args.in[i]->dtype;
    if (spec.role == Role::index && !IsInt(t)) {
      return InvalidArgument("operand ", spec.name, " must be of an integer type, not ",
                             TypeName(args.symbols, *args.in[i]), "; cast it to i64");
    }
    if (spec.role == Role::boolean && t != DType::boolean) {
      return InvalidArgument("operand ", spec.name, " must be bool, not ", TypeName(args.symbols, *args.in[i]),
                             "; compare it with something, for example x != 0");
    }
  }
  return absl::OkStatus();
}

// "f32[2,3], f32[4]": the operands, for the end of a message.
std::string Operands(const InferArgs& args) {
  std::string s;
  for (size_t i = 0; i < args.in.size(); ++i) {
    const TensorType* type = args.in[i];
    absl::StrAppend(&s, i ? ", " : "",
                    type == nullptr ? "nothing"
                    : type->weak    ? "a number"
                                    : TypeName(args.symbols, *type));
  }
  return s;
}

absl::Status Failure(const InferArgs& args, const absl::Status& status) {
  std::string message = absl::StrCat(std::string(args.op.name), ": ", status.message());
  // Rules that compare operands show them already.
  const bool shown =
      !args.in.empty() && args.in[0] != nullptr && absl::StrContains(message, TypeName(args.symbols, *args.in[0]));
  if (!args.in.empty() && !shown) absl::StrAppend(&message, " (given ", Operands(args), ")");
  return absl::Status(status.code(), message);
}

absl::Status InferUnnamed(const InferArgs& args, absl::Span<TensorType> out) {
  const OpInfo& op = args.op;
  TSR_RETURN_IF_ERROR(CheckRoles(args));
  if (op.rule == DTypeRule::r_attr) {
    DType t = args.dtype(FindAttr(op, "dtype"));
    for (TensorType& o : out) o.dtype = t;
  } else if (!args.in.empty() && op.dtypes != DTypeSet::s_none) {
    DType operand = OperandDType(op, args.in);
    if (!Allows(op.dtypes, operand)) {
      return Unsupported("is not defined for ", std::string(Name(operand)), "; it takes ",
                         std::string(Describe(op.dtypes)));
    }
    DType result = ResultDType(op, operand);
    for (TensorType& o : out) o.dtype = result;
  }
  for (TensorType& o : out) o.weak = false;
  TSR_RETURN_IF_ERROR(op.shape(args, out));
  // No tensor may have more bytes than an address can count.
  for (const TensorType& o : out) {
    int64_t bytes = static_cast<int64_t>(SizeOf(o.dtype));
    for (int i = 0; i < o.rank; ++i) {
      if (o.dims[i] <= 0) {
        bytes = 0;
        break;
      }
      if (__builtin_mul_overflow(bytes, o.dims[i], &bytes)) {
        return ResourceExhausted("the result ", TypeName(args.symbols, o), " is too large");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

DType OperandDType(const OpInfo& op, absl::Span<const TensorType* const> in) {
  DType dtype = DType::boolean;
  DType weak = DType::boolean;
  bool have = false, have_weak = false;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] == nullptr) continue;
    const OperandSpec& spec = SpecOf(op, i);
    if (spec.role != Role::data && !(i == 0 && spec.role == Role::any)) continue;
    if (in[i]->weak) {
      weak =
          have_weak && static_cast<int>(KindOf(weak)) >= static_cast<int>(KindOf(in[i]->dtype)) ? weak : in[i]->dtype;
      have_weak = true;
    } else {
      dtype = have && dtype != in[i]->dtype ? Promote(dtype, in[i]->dtype) : in[i]->dtype;
      have = true;
    }
  }
  if (!have) {
    dtype = KindOf(weak) == DTypeKind::floating ? DType::f32 : KindOf(weak) == DTypeKind::integer ? DType::i64 : weak;
  } else if (have_weak) {
    dtype = Weaken(dtype, weak);
  }
  if (op.rule == DTypeRule::r_pfloat && !IsFloat(dtype)) dtype = DType::f32;
  return dtype;
}

int NumResults(const OpInfo& op, absl::Span<const Attr> attrs) {
  if (!op.variadic_results) return static_cast<int>(op.results.size());
  if (op.op == Op::k_split) return static_cast<int>(std::get<Ints>(attrs[0]).size());
  return 0;
}

absl::Status Infer(const InferArgs& args, absl::Span<TensorType> out) {
  absl::Status status = InferUnnamed(args, out);
  if (!status.ok()) [[unlikely]]
    return Failure(args, status);
  return status;
}

}  // namespace tessera::ir
