// A random program of either kind: made from a seed, written as text, read back, run, reduced.
#ifndef TESSERA_TESTS_RANDOM_PROGRAM_H_
#define TESSERA_TESTS_RANDOM_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::random {

/// Everything a program lets a host see, in order. Equal logs mean equal bytes, dims, dtypes, prints and messages; the
/// sign and payload of a NaN are left out, because they are the processor's choice.
using Log = std::vector<std::string>;
using Options = std::vector<std::pair<std::string, std::string>>;
/// How often ops and constructs occur.
using Counts = std::map<std::string, int64_t>;

enum class Kind { gir, eager };

class Program {
 public:
  virtual ~Program() = default;
  virtual Kind kind() const = 0;
  /// Runs it from a fresh state under the options that are set. With `broken` one op gives wrong results once it got
  /// warm, as a wrong version would: the tests of the tests ask for that.
  virtual Log Run(bool broken) const = 0;
  /// What Parse() reads back.
  virtual std::string Text() const = 0;
  virtual void Count(Counts& counts) const = 0;
  /// Makes the program smaller as long as `fails` holds for what is left; it is asked with whole texts.
  virtual void Reduce(const std::function<bool(const std::string&)>& fails) = 0;
  /// A file of the reduced program for people to keep: for Graph IR a file test, otherwise the text.
  virtual std::string FileTest() const = 0;
};

/// The same seed gives the same program on every machine.
std::unique_ptr<Program> GenerateGir(uint64_t seed);
std::unique_ptr<Program> GenerateEager(uint64_t seed);
/// Lines that start with "//!" are not part of a program. Throws std::runtime_error with a reason.
std::unique_ptr<Program> ParseGir(std::string_view text);
std::unique_ptr<Program> ParseEager(std::string_view text);

/// "tensor<2 x f32>[1.0, nan]", as constants are written in Graph IR.
std::string Literal(const Tensor& x);

std::vector<std::string> SplitLines(std::string_view text);
std::vector<std::string> SplitWords(std::string_view line);

}  // namespace tessera::random

#endif  // TESSERA_TESTS_RANDOM_PROGRAM_H_
