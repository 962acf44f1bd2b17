// What expressions mean: operators, indices, attributes, methods and builtins, once for functions and for the top
// level. A Machine is where ops go: the lowering records them in Graph IR, the evaluator runs them. Both see the same
// Val, whose tensors are numbers that the machine gives out.
#ifndef TESSERA_LANG_RULES_H_
#define TESSERA_LANG_RULES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "ir/op.h"
#include "ir/symbols.h"
#include "lang/ast.h"
#include "lang/builtins.h"
#include "lang/diagnostic.h"

namespace tessera::lang {

class Scope;
struct Val;
using Vals = std::vector<Val>;

/// A value of an expression.
struct Val {
  enum class Kind : uint8_t {
    poison,     // there was an error; what comes of it is silent
    undefined,  // a variable without a value, or with one of several; `text` says why
    none,
    boolean,   // `integer` is 0 or 1
    integer,   // `integer`
    floating,  // `floating`
    dim,       // an int that is a symbol or an expression of symbols: `integer`, as in ir/symbols.h
    tensor,    // `id`. Weak: a number that is known only at run time, of rank 0 and of dtype bool, i64 or f64
    string,    // `text`
    dtype,     // `dtype`
    tuple,     // `items`
    ellipsis,
    range,     // `items`: start, stop, step
    function,  // `def` in `scope`
    module,    // `scope`
    builtin,   // `builtin`; a method has its object in `items`
    host,      // something of the host that has no place in expressions; `text` says what
  };
  Kind kind = Kind::none;
  bool weak = false;
  bool is_list = false;
  DType dtype = DType::f32;
  int32_t id = -1;
  union {
    int64_t integer = 0;
    double floating;
    const FunctionDef* def;
    const Builtin* builtin;
  };
  const Scope* scope = nullptr;
  std::string_view text;  // of the program's arena, or for ever
  std::shared_ptr<const Vals> items;
  Span origin;  // where the value came from, for notes

  static Val Poison() { return Of(Kind::poison); }
  static Val None() { return Of(Kind::none); }
  static Val Of(Kind kind) {
    Val v;
    v.kind = kind;
    return v;
  }
  static Val Integer(int64_t value) {
    Val v = Of(Kind::integer);
    v.integer = value;
    return v;
  }
  static Val Boolean(bool value) {
    Val v = Of(Kind::boolean);
    v.integer = value;
    return v;
  }
  static Val Floating(double value) {
    Val v = Of(Kind::floating);
    v.floating = value;
    return v;
  }
  /// A dim of a type: an int, or a symbol.
  static Val Dim(int64_t dim) {
    Val v = Of(ir::IsSymbol(dim) ? Kind::dim : Kind::integer);
    v.integer = dim;
    return v;
  }
  static Val Tensor(int32_t id, bool weak = false) {
    Val v = Of(Kind::tensor);
    v.id = id, v.weak = weak;
    return v;
  }
  static Val OfDType(DType dtype) {
    Val v = Of(Kind::dtype);
    v.dtype = dtype;
    return v;
  }
  static Val String(std::string_view text) {
    Val v = Of(Kind::string);
    v.text = text;
    return v;
  }
  /// `id` counts the values in it and in tuples within it, `integer` is how deep they are: both can grow fast, because
  /// tuples share their items, and whoever makes one in a loop looks at them (TooLarge).
  static Val Tuple(Vals items, bool is_list = false) {
    Val v = Of(Kind::tuple);
    int64_t count = 0, depth = 0;
    for (const Val& item : items) {
      const bool nested = item.kind == Kind::tuple;
      count += nested ? item.id : 1;
      if (nested && item.integer > depth) depth = item.integer;
    }
    v.id = static_cast<int32_t>(count < INT32_MAX ? count : INT32_MAX);
    v.integer = depth + 1;
    v.items = std::make_shared<const Vals>(std::move(items)), v.is_list = is_list;
    return v;
  }

  bool poison() const { return kind == Kind::poison; }
  bool tensor() const { return kind == Kind::tensor; }
  bool strong() const { return kind == Kind::tensor && !weak; }
  /// A bool, int or float that is known.
  bool number() const { return kind == Kind::boolean || kind == Kind::integer || kind == Kind::floating; }
  bool int_like() const { return kind == Kind::boolean || kind == Kind::integer; }
  double as_double() const { return kind == Kind::floating ? floating : static_cast<double>(integer); }
};

/// Where ops go. The answers `false` and poison come after a diagnostic.
class Machine {
 public:
  Machine(Ast& the_ast, Diagnostics& the_diagnostics) : ast(the_ast), diagnostics(the_diagnostics) {}
  virtual ~Machine() = default;
  Ast& ast;
  Diagnostics& diagnostics;
  /// An empty list, with memory of one that was given back: lists of a call's values come and go with each op.
  Vals TakeList() {
    if (spare_.empty()) return {};
    Vals list = std::move(spare_.back());
    spare_.pop_back();
    return list;
  }
  void GiveList(Vals list) {
    list.clear();
    if (list.capacity() > 0 && list.capacity() <= 16 && spare_.size() < 16) spare_.push_back(std::move(list));
  }

  /// Null where every dim is a number.
  virtual ir::SymbolTable* symbols() = 0;
  virtual const TensorType& TypeOf(const Val& tensor) = 0;
  /// "f32[4,3]": with the sizes at hand where there are some, else with symbols.
  virtual std::string TypeText(const TensorType& type) = 0;
  /// One op. Operands are tensors, known numbers, or none where an optional one is left out; attributes are complete.
  virtual bool Emit(ir::Op op, absl::Span<const Val> in, std::vector<ir::Attr> attrs, const Expr& at, Vals* out) = 0;
  /// Makes a number that is known at run time only (a weak tensor, a dim) a known one, where the machine can.
  /// `what` is what needs it: "an axis". False: it cannot, and has said so (or means to begin anew).
  virtual bool Know(Val* number, std::string_view what, const Expr& at) = 0;
  /// Makes a dim a weak tensor.
  virtual Val DimTensor(const Val& dim, const Expr& at) = 0;
  /// Seed and offset of the stream of random numbers for that many; false where there is none.
  virtual bool Random(int64_t count, int64_t* seed, int64_t* offset, const Expr& at) = 0;
  /// print(...): the arguments; `label` where one was given by name.
  virtual bool Print(absl::Span<const Val> args, std::string_view label, const Expr& at) = 0;
  /// The one element of a tensor as a known number.
  virtual Val Item(const Val& tensor, const Expr& at) = 0;
  /// The places of the true elements of a mask, counted row by row: a tensor i64[n].
  virtual bool Places(const Val& mask, const Expr& at, Val* out) = 0;
  /// The same tensor, through which no gradient passes.
  virtual Val StopGradient(const Val& tensor, const Expr& at) = 0;
  /// A name of an imported file.
  virtual Val MemberOf(const Val& module, Name name, const Expr& at) = 0;
  /// What builtins.def has under TSR_HOST.
  virtual Val CallHost(const Builtin& builtin, absl::Span<const Val> args, const Expr& at) = 0;

 private:
  std::vector<Vals> spare_;
};

/// Arguments of a call, evaluated: `names` is empty, or has one for each value, with id 0 for one without.
struct CallArgs {
  Vals values;
  std::vector<Name> names;
  const CallExpr* call = nullptr;  // for places; may be null
  size_t before = 0;               // values that stand before those of `call`: the object of a method
  Span span(size_t i) const;
  const Expr& At(size_t i, const Expr& otherwise) const;
};

/// A tuple or string beyond the limits; then there was a diagnostic.
bool TooLarge(Machine& m, const Val& v, const Expr& at);

/// "an int", "a tensor f32[B,3]", "a tuple of 3".
std::string DescribeVal(Machine& m, const Val& v);

Val ApplyUnary(Machine& m, UnaryOp op, const Val& x, const Expr& at);
Val ApplyBinary(Machine& m, BinaryOp op, const Val& a, const Val& b, const Expr& at);
Val ApplyCompare(Machine& m, CompareOp op, const Val& a, const Val& b, const Expr& at);
/// `a and b`, `a or b`, `not a` of values that are tensors: element-wise.
Val ApplyLogical(Machine& m, bool is_and, const Val& a, const Val& b, const Expr& at);

/// One item of x[...]: a value, or a slice with none where a part is left out.
struct IndexItem {
  enum class Kind : uint8_t { value, slice } kind = Kind::value;
  Val value;
  Val start, stop, step;
  const Expr* at = nullptr;
};
Val ApplyIndex(Machine& m, const Val& object, absl::Span<const IndexItem> items, const Expr& at);
/// x with v at the place that the items name: what x is after x[items] = v.
Val ApplySetIndex(Machine& m, const Val& object, absl::Span<const IndexItem> items, const Val& v, const Expr& at);

/// x.name: an attribute, or a method as a builtin with its object.
Val ApplyAttribute(Machine& m, const Val& object, const AttributeExpr& at);
/// builtin(args), or a method of an object.
Val ApplyBuiltin(Machine& m, const Val& builtin, const CallArgs& args, const Expr& at);

/// A name of the language itself: a builtin or a dtype. Poison without a diagnostic where there is none.
Val LanguageName(std::string_view name);
/// A known value as true or false. False where it is a tensor that is not known; then *out is not set.
bool KnownTruth(const Val& v, bool* out);

// ---- for those who implement the rules

/// Emits an op whose operands may be any numbers: dims and weak tensors are brought to what the op needs.
Val EmitOp(Machine& m, ir::Op op, absl::Span<const Val> in, std::vector<ir::Attr> attrs, const Expr& at);
Vals EmitOps(Machine& m, ir::Op op, absl::Span<const Val> in, std::vector<ir::Attr> attrs, const Expr& at);
/// A weak number or a known one as a tensor of that dtype.
Val CastTo(Machine& m, const Val& x, DType dtype, const Expr& at);
/// The value as an int, a list of dims, ... for an attribute; false after a diagnostic that names `what`.
bool ToInt(Machine& m, const Val& v, std::string_view what, const Expr& at, int64_t* out);
bool ToDims(Machine& m, const Val& v, std::string_view what, const Expr& at, ir::Ints* out, bool symbols);
bool ToDType(Machine& m, const Val& v, const Expr& at, DType* out);
/// The nearest of the names, or nothing.
std::string DidYouMean(std::string_view name, absl::Span<const std::string_view> candidates);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_RULES_H_
