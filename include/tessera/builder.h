// Building Graph IR from C++, where text is inconvenient. Types are inferred as instructions are added. The first
// mistake sticks and is what build() returns, so calls chain without checks.
//
//   Builder b;
//   FunctionBuilder f = b.function("scale");
//   Value x = f.param("x", f32, {"B", 768});
//   f.ret({f.op("mul", {x, 0.5})});
//   Module module = b.build().value();
#ifndef TESSERA_BUILDER_H_
#define TESSERA_BUILDER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/function.h"
#include "tessera/tensor.h"

namespace tessera {

/// A dim of a parameter: a number, or the name of a symbol.
class Dim {
 public:
  template <class T>
    requires std::is_integral_v<T>
  Dim(T number) : number_(static_cast<int64_t>(number)) {}  // NOLINT(google-explicit-constructor)
  Dim(const char* symbol) : symbol_(symbol) {}              // NOLINT(google-explicit-constructor)
  Dim(std::string symbol) : symbol_(std::move(symbol)) {}   // NOLINT(google-explicit-constructor)
  bool is_symbol() const { return !symbol_.empty(); }
  int64_t number() const { return number_; }
  const std::string& symbol() const { return symbol_; }

 private:
  int64_t number_ = 0;
  std::string symbol_;
};

/// A value of the function being built.
class Value {
 public:
  Value() = default;
  explicit Value(int id) : id_(id) {}
  int id() const { return id_; }

 private:
  int id_ = -1;
};

/// A value, a number (which takes the dtype of the tensors beside it), or nothing where an operand is optional.
using Operand = std::variant<std::monostate, Value, bool, int, int64_t, double>;
using AttrValue = std::variant<bool, int, int64_t, double, DType, Dims, std::string, Tensor>;
using NamedAttrs = std::vector<std::pair<std::string, AttrValue>>;

class TSR_API FunctionBuilder {
 public:
  Value param(std::string_view name, DType dtype, const std::vector<Dim>& dims);
  /// A symbol equals another, or a number; a symbol is a multiple of a number.
  void assume_equal(const Dim& a, const Dim& b);
  void assume_divisible(const Dim& a, int64_t divisor);
  /// How the function's matrix products are cut, in place of what the compiler chooses: "form=packed,rows=64,nr=8".
  /// docs/graph-ir.md has the entries. build() says what is wrong with it.
  void schedule(std::string_view entries);
  /// The schedules that the tuner may try for them, with spaces between ("rows=32 rows=64"; empty: those the compiler
  /// names), and the symbols whose sizes need a tuning of their own ("B,K"; empty: every dim).
  void autotune(std::string_view space, std::string_view key = {});
  /// Where the elements of a value lie on a mesh of devices: an axis or * for each dim, "dp,*" or "dp:4,*" (4 devices).
  /// Kept and checked; nothing uses it yet.
  Value shard(Value value, std::string_view spec);
  /// Needed before this function is called by one built earlier, or by itself.
  void declare_results(const std::vector<std::pair<DType, std::vector<Dim>>>& types);

  /// An op of the op table with one result, or none.
  Value op(std::string_view name, const std::vector<Operand>& operands, const NamedAttrs& attrs = {});
  std::vector<Value> op_many(std::string_view name, const std::vector<Operand>& operands, const NamedAttrs& attrs = {});
  Value constant(const Tensor& value);

  std::vector<Value> if_(const Operand& condition, const std::function<std::vector<Operand>()>& then_block,
                         const std::function<std::vector<Operand>()>& else_block);
  std::vector<Value> while_(const std::vector<Operand>& inits,
                            const std::function<Operand(const std::vector<Value>&)>& condition,
                            const std::function<std::vector<Operand>(const std::vector<Value>&)>& body);
  std::vector<Value> for_(const Operand& start, const Operand& stop, const Operand& step,
                          const std::vector<Operand>& inits,
                          const std::function<std::vector<Operand>(Value, const std::vector<Value>&)>& body);
  std::vector<Value> call(std::string_view function, const std::vector<Operand>& args);
  void ret(const std::vector<Operand>& values);

 private:
  friend class Builder;
  struct Impl;
  explicit FunctionBuilder(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

/// Builds one module.
class TSR_API Builder {
 public:
  Builder();
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  void buffer(std::string_view name, DType dtype, const Dims& dims);
  FunctionBuilder function(std::string_view name);
  /// Verifies and gives the module. The builder is empty afterwards.
  Result<Module> build();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera

#endif  // TESSERA_BUILDER_H_
