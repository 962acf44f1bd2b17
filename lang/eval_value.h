// The values of a program's top level: what its names stand for while it runs, statement by statement.
#ifndef TESSERA_LANG_EVAL_VALUE_H_
#define TESSERA_LANG_EVAL_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/status.h"
#include "tessera/tensor.h"

namespace tessera::lang {

class Value;
struct FunctionDef;
struct ModuleScope;
struct Builtin;

/// A tuple, or what was written as a list: both cannot be changed.
struct Items {
  std::vector<Value> values;
  bool is_list = false;
  int depth = 1;      // tuples within tuples
  int64_t total = 0;  // items in all of them, each as often as it occurs
};
struct Range {
  int64_t start, stop, step;
  int64_t size() const;
};
/// A `def`, with the module whose names it sees.
struct FunctionValue {
  const FunctionDef* def;
  ModuleScope* scope;
};
/// A name that calls an op or something the host does; a method has the object that it is called on.
struct BuiltinValue {
  const Builtin* builtin;
  std::shared_ptr<const Value> self;
};
struct None {};
struct Ellipsis {};

class Value {
 public:
  using Holder =
      std::variant<None, bool, int64_t, double, std::shared_ptr<const std::string>, std::shared_ptr<const Items>,
                   Tensor, DType, FunctionValue, BuiltinValue, Range, ModuleScope*, Ellipsis>;
  Value() = default;
  template <class T>
    requires std::is_constructible_v<Holder, std::in_place_type_t<T>, T>
  Value(T value) : holder_(std::in_place_type<T>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  static Value String(std::string text) { return Value(std::make_shared<const std::string>(std::move(text))); }
  static Value Tuple(std::vector<Value> values, bool is_list = false);

  template <class T>
  const T* As() const {
    return std::get_if<T>(&holder_);
  }
  bool is_none() const { return As<None>() != nullptr; }
  const Tensor* tensor() const { return As<Tensor>(); }
  const std::string* string() const;
  const Items* items() const;

  /// "an int", "a tensor f32[2,3]", "a tuple of 3": for messages.
  std::string Describe() const;

  /// Which tier computed it; null where nobody looked. For the REPL.
  const char* tier = nullptr;

 private:
  Holder holder_;
};

/// As print() shows it, and, with `repr`, as the REPL does (strings in quotes).
absl::StatusOr<std::string> Format(const Value& value, bool repr);
/// A float that reads back to itself, as Python writes it: 0.1, 1e-05, 3.0.
std::string FormatFloat(double value);
/// The one element of a tensor; an error when it has more.
absl::StatusOr<Value> Item(const Tensor& x);
/// An error for a tensor of several elements.
absl::StatusOr<bool> Truth(const Value& value);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_EVAL_VALUE_H_
