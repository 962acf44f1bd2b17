// Random numbers that are the same on every machine for the same seed: the standard library's distributions are not.
#ifndef TESSERA_TESTS_RANDOM_RNG_H_
#define TESSERA_TESTS_RANDOM_RNG_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace tessera::random {

/// Two draws in the arguments of one call, or in the operands of one operator, come in an order that compilers choose:
/// draw into variables, or in braces, whose elements are evaluated in order.
///
/// splitmix64 (Steele, Lea, Flood 2014).
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, n); n > 0. The bias of the remainder does not matter here.
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % static_cast<uint64_t>(n)); }
  /// In [low, high].
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  /// True in `percent` of 100 cases.
  bool Chance(int percent) { return Below(100) < percent; }
  /// In [low, high), a multiple of 1/64, so that its text is short.
  double Real(double low, double high) {
    return low + static_cast<double>(Below(static_cast<int64_t>((high - low) * 64))) / 64;
  }
  template <class T>
  const T& Of(const std::vector<T>& list) {
    return list[static_cast<size_t>(Below(static_cast<int64_t>(list.size())))];
  }
  template <class T>
  T Of(std::initializer_list<T> list) {
    return list.begin()[Below(static_cast<int64_t>(list.size()))];
  }

 private:
  uint64_t state_;
};

}  // namespace tessera::random

#endif  // TESSERA_TESTS_RANDOM_RNG_H_
