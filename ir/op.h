// The op table as data: what ops.def says about each op, its attributes as values, and the inference entry points.
#ifndef TESSERA_IR_OP_H_
#define TESSERA_IR_OP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "ir/opcode.h"
#include "runtime/status.h"
#include "runtime/tensor.h"

namespace tessera::ir {

class SymbolTable;

enum class Effect : uint8_t { pure, reads, writes, host, control };
enum class DTypeSet : uint8_t { s_all, s_num, s_flt, s_int, s_bit, s_bln, s_none };
enum class DTypeRule : uint8_t { r_promote, r_pfloat, r_compare, r_accum, r_bool, r_index, r_attr, r_custom };
enum class Impl : uint8_t { ew, kernel, view, host, control };
enum class Grad : uint8_t { diff, zero, none };
enum class Bound : uint8_t { exact, ulp2, ulp4, accum, dot };

using Ints = absl::InlinedVector<int64_t, kMaxRank>;
/// The value of an attribute; monostate is "not given". An element of Ints may be a symbol (ir/symbols.h) where it
/// stands for a dim.
using Attr = std::variant<std::monostate, bool, int64_t, double, DType, Ints, std::string, rt::Ref<rt::TensorImpl>>;
enum class AttrType : uint8_t { t_bool, t_int, t_float, t_dtype, t_ints, t_str, t_tensor };

struct AttrSpec {
  std::string name;
  AttrType type;
  bool required;
  Attr default_value;
};

enum class Role : uint8_t { data, index, boolean, any };

struct OperandSpec {
  std::string name;
  Role role = Role::data;
  bool optional = false;
  bool variadic = false;
};

struct InferArgs;
/// Checks operands and attributes and fills `out`, whose dtypes are set already unless the op's rule is custom.
/// Messages do not name the op: Infer() puts "add: " before them.
using ShapeRule = absl::Status (*)(const InferArgs& args, absl::Span<TensorType> out);

struct OpInfo {
  Op op;
  std::string_view name;
  Effect effect;
  DTypeSet dtypes;
  DTypeRule rule;
  Impl impl;
  Grad grad;
  Bound bound;
  std::string_view summary;
  ShapeRule shape;
  std::string_view shape_name;
  std::vector<OperandSpec> operands;
  std::vector<AttrSpec> attrs;
  std::vector<std::string> results;
  bool variadic_results = false;
  int min_operands = 0;
  int max_operands = 0;  // INT_MAX for variadic
};

/// The table, parsed once at first use.
const OpInfo& Info(Op op);
absl::Span<const OpInfo> AllOps();
std::optional<Op> FindOp(std::string_view name);
/// The row's attribute index, or -1.
int FindAttr(const OpInfo& info, std::string_view name);
/// The names closest to `name`, for hints: "did you mean matmul?"; empty when nothing is near.
std::string DidYouMean(std::string_view name, absl::Span<const std::string_view> candidates);
bool Allows(DTypeSet set, DType dtype);
std::string_view Describe(DTypeSet set);  // "floating", "integer or bool", ...

struct InferArgs {
  const OpInfo& op;
  /// Null where an optional operand is absent.
  absl::Span<const TensorType* const> in;
  /// One per row of op.attrs, defaults filled in.
  absl::Span<const Attr> attrs;
  /// Null in eager execution, where every dim is a number.
  SymbolTable* symbols = nullptr;

  bool flag(int i) const { return std::get<bool>(attrs[i]); }
  int64_t integer(int i) const { return std::get<int64_t>(attrs[i]); }
  double number(int i) const { return std::get<double>(attrs[i]); }
  DType dtype(int i) const { return std::get<DType>(attrs[i]); }
  const Ints& ints(int i) const { return std::get<Ints>(attrs[i]); }
  const std::string& str(int i) const { return std::get<std::string>(attrs[i]); }
};

/// How many results the op has with those attributes (variadic: split; control ops are not asked).
int NumResults(const OpInfo& op, absl::Span<const Attr> attrs);

/// Checks counts, roles and dtypes, applies the dtype rule and the shape rule. `out` has NumResults elements. A
/// failure names the op and lists the operands: "add: cannot broadcast f32[2,3] with f32[4]: ...".
absl::Status Infer(const InferArgs& args, absl::Span<TensorType> out);

/// The one dtype that the data operands are brought to before the kernel runs (weak numbers take the dtype of the
/// tensors beside them, or the default of their kind when those are of a lower kind). For narrow floats this is the
/// narrow type; kernels compute in f32.
DType OperandDType(const OpInfo& op, absl::Span<const TensorType* const> in);

/// Fills in defaults in table order; fails for missing or wrongly typed ones. Used by the parser, the builder and
/// the C API; eager C++ ops build the list directly.
absl::Status CompleteAttrs(const OpInfo& op, absl::Span<Attr> attrs);

/// axis in [-rank, rank) made non-negative, or an error that says what would work.
absl::StatusOr<int> CanonicalAxis(int64_t axis, int rank);
/// A set of axes as a bit mask; no axes means all. Duplicates are an error.
absl::StatusOr<uint32_t> CanonicalAxes(const Ints& axes, int rank);

std::string ToString(const Attr& attr);

}  // namespace tessera::ir

#endif  // TESSERA_IR_OP_H_
