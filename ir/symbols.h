// Symbolic dims. A dim is an int64: >= 0 is a number, a value for which IsSymbol() holds is a symbol or an
// expression over symbols, interned in a SymbolTable. So one set of shape rules serves numbers and symbols, and with
// numbers alone it costs a comparison.
#ifndef TESSERA_IR_SYMBOLS_H_
#define TESSERA_IR_SYMBOLS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "runtime/status.h"
#include "runtime/tensor.h"

namespace tessera::ir {

inline constexpr int64_t kSymbolBase = std::numeric_limits<int64_t>::min();
constexpr bool IsSymbol(int64_t dim) { return dim < kSymbolBase / 2; }

/// The symbols of one function with the facts known of them. Symbols are at least 2: dims 0 and 1 are never symbols'
/// values during broadcasting, so `B` against 1 broadcasts and `B` against `S` needs the fact `B == S`.
///
/// An expression that grows past a limit, or whose numbers overflow, becomes kUnknownDim; whoever stores a dim in a
/// type rejects that one. A table is used by one thread at a time while it may change; KnownEqual and KnownDivisible
/// may intern expressions. Name, Facts, Evaluate and CheckFacts only read.
class SymbolTable {
 public:
  /// Absorbs: an expression with it in it is it. It equals nothing, not even itself.
  static constexpr int64_t kUnknownDim = kSymbolBase;

  /// The symbol of that name, made at first use.
  int64_t Named(std::string_view name);
  /// 0 when there is none.
  int64_t Find(std::string_view name) const;
  /// Is it a number or a symbol of this table (kUnknownDim is neither).
  bool Contains(int64_t dim) const;

  // Expressions, simplified and interned: equal expressions are equal numbers. Operands may be numbers.
  int64_t Add(int64_t a, int64_t b);
  int64_t Sub(int64_t a, int64_t b);
  int64_t Mul(int64_t a, int64_t b);
  int64_t FloorDiv(int64_t a, int64_t b);
  /// `dim` of the table `from`, with dims of this table in place of its named symbols (index = order of Named()).
  int64_t Substitute(const SymbolTable& from, int64_t dim, absl::Span<const int64_t> bound);

  /// One fact as it was stated: a == b, or a % b == 0.
  struct Fact {
    enum class Kind : uint8_t { equal, divisible } kind;
    int64_t a;
    int64_t b;
  };

  /// Facts. False when it contradicts what is known; nothing changes then.
  bool AssumeEqual(int64_t a, int64_t b);
  bool AssumeDivisible(int64_t a, int64_t divisor);
  bool KnownEqual(int64_t a, int64_t b) const;
  bool KnownDivisible(int64_t a, int64_t divisor) const;
  /// Those that said something new, in the order they were stated.
  absl::Span<const Fact> facts() const;

  /// "B", "(B*S)", "768".
  std::string Name(int64_t dim) const;
  /// The text of all facts: "B == S, S % 8 == 0"; empty without.
  std::string Facts() const;
  std::string FactName(const Fact& fact) const;

  /// Numbers of the named symbols, to evaluate expressions with: index = order of Named().
  int num_named() const;
  std::string_view named(int index) const;
  int64_t NamedSymbol(int index) const;
  /// -1 when it overflows or divides by 0.
  int64_t Evaluate(int64_t dim, absl::Span<const int64_t> values) const;
  /// Checks every fact against the values; the error names the fact and the numbers.
  absl::Status CheckFacts(absl::Span<const int64_t> values) const;

  SymbolTable();
  SymbolTable(const SymbolTable&) = delete;
  ~SymbolTable();

 private:
  struct Impl;
  Impl* impl_;
};

// The same with a fast path for numbers; `t` may be null when no operand is a symbol. Numbers that overflow give
// INT64_MAX, which no type may hold.
inline int64_t DimAdd(SymbolTable* t, int64_t a, int64_t b) {
  if (IsSymbol(a) || IsSymbol(b)) [[unlikely]]
    return t->Add(a, b);
  int64_t r;
  return __builtin_add_overflow(a, b, &r) ? std::numeric_limits<int64_t>::max() : r;
}
inline int64_t DimSub(SymbolTable* t, int64_t a, int64_t b) {
  if (IsSymbol(a) || IsSymbol(b)) [[unlikely]]
    return t->Sub(a, b);
  int64_t r;
  return __builtin_sub_overflow(a, b, &r) ? std::numeric_limits<int64_t>::max() : r;
}
inline int64_t DimMul(SymbolTable* t, int64_t a, int64_t b) {
  if (IsSymbol(a) || IsSymbol(b)) [[unlikely]]
    return t->Mul(a, b);
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? std::numeric_limits<int64_t>::max() : r;
}
/// Rounds down; a division by 0 gives 0.
inline int64_t DimFloorDiv(SymbolTable* t, int64_t a, int64_t b) {
  if (IsSymbol(a) || IsSymbol(b)) [[unlikely]]
    return t->FloorDiv(a, b);
  if (b == 0) return 0;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
inline bool DimEqual(SymbolTable* t, int64_t a, int64_t b) {
  if (!IsSymbol(a) && !IsSymbol(b)) [[likely]]
    return a == b;
  return t != nullptr ? t->KnownEqual(a, b) : a == b;
}
std::string DimName(const SymbolTable* t, int64_t dim);
/// "f32[B,3]"
std::string TypeName(const SymbolTable* t, const TensorType& type);

}  // namespace tessera::ir

#endif  // TESSERA_IR_SYMBOLS_H_
