#include "tiers/compiler/formula.h"

#include <algorithm>
#include <limits>
#include <set>

namespace tessera::compiler {
namespace {

int64_t Limited(__int128 n) {
  constexpr __int128 kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::clamp(n, -kMost, kMost));
}

}  // namespace

Formula::Formula(int64_t number) {
  if (number != 0) terms_[{}] = number;
}

Formula Formula::Symbol(std::string name) {
  Formula f;
  f.terms_[{std::move(name)}] = 1;
  return f;
}

Formula& Formula::operator+=(const Formula& other) {
  for (const auto& [symbols, times] : other.terms_) {
    int64_t& mine = terms_[symbols];
    mine = Limited(static_cast<__int128>(mine) + times);
    if (mine == 0) terms_.erase(symbols);
  }
  return *this;
}

Formula operator*(const Formula& a, const Formula& b) {
  Formula product;
  for (const auto& [x, n] : a.terms_) {
    for (const auto& [y, m] : b.terms_) {
      std::vector<std::string> symbols = x;
      symbols.insert(symbols.end(), y.begin(), y.end());
      std::sort(symbols.begin(), symbols.end());
      Formula term;
      term.terms_[std::move(symbols)] = Limited(static_cast<__int128>(n) * m);
      product += term;
    }
  }
  return product;
}

std::vector<std::string> Formula::Symbols() const {
  std::set<std::string> all;
  for (const auto& [symbols, times] : terms_) all.insert(symbols.begin(), symbols.end());
  return {all.begin(), all.end()};
}

double Formula::Evaluate(const std::function<double(const std::string& symbol)>& value_of) const {
  double sum = 0;
  for (const auto& [symbols, times] : terms_) {
    double product = static_cast<double>(times);
    for (const std::string& s : symbols) product *= value_of(s);
    sum += product;
  }
  return sum;
}

std::string Formula::ToString() const {
  std::vector<std::pair<std::vector<std::string>, int64_t>> terms(terms_.begin(), terms_.end());
  std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) {
    return a.first.size() != b.first.size() ? a.first.size() > b.first.size() : a.first < b.first;
  });
  std::string text;
  for (const auto& [symbols, times] : terms) {
    if (!text.empty()) text += " + ";
    std::string product = times == 1 && !symbols.empty() ? "" : std::to_string(times);
    for (const std::string& s : symbols) product += (product.empty() ? "" : "*") + s;
    text += product;
  }
  return text.empty() ? "0" : text;
}

}  // namespace tessera::compiler
