// A count that depends on dims: a sum of products of numbers and symbols, such as 4*s0*s1 + 8*s1.
#ifndef TESSERA_TIERS_COMPILER_FORMULA_H_
#define TESSERA_TIERS_COMPILER_FORMULA_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tessera::compiler {

class Formula {
 public:
  Formula() = default;
  /// A number is a formula, too.
  Formula(int64_t number);  // NOLINT: meant to convert
  static Formula Symbol(std::string name);

  Formula& operator+=(const Formula& other);
  friend Formula operator+(Formula a, const Formula& b) { return a += b; }
  /// Numbers that do not fit 64 bits stay at the largest.
  friend Formula operator*(const Formula& a, const Formula& b);
  bool operator==(const Formula&) const = default;

  bool is_zero() const { return terms_.empty(); }
  /// The symbols in it, each once, in alphabetical order.
  std::vector<std::string> Symbols() const;
  double Evaluate(const std::function<double(const std::string& symbol)>& value_of) const;
  /// "4*s0*s1 + 64": the longest products first; "0" for nothing.
  std::string ToString() const;

 private:
  // Symbols, sorted, and how often their product counts; never 0 times.
  std::map<std::vector<std::string>, int64_t> terms_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_FORMULA_H_
