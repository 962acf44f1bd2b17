// Graph IR programs: a module, and calls of its function @main with literal arguments.
#ifndef TESSERA_TESTS_RANDOM_GIR_H_
#define TESSERA_TESTS_RANDOM_GIR_H_

#include <string>
#include <vector>

#include "tests/random/program.h"

namespace tessera::random {

/// Text form: the module, with one comment "// call LITERAL; LITERAL ..." for each call. A literal followed by " ^T" is
/// transposed after it was made, so that the argument is a view.
class GirProgram : public Program {
 public:
  using Call = std::vector<std::string>;
  GirProgram(std::string module, std::vector<Call> calls) : module_(std::move(module)), calls_(std::move(calls)) {}

  Kind kind() const override { return Kind::gir; }
  Log Run(bool broken) const override;
  std::string Text() const override;
  void Count(Counts& counts) const override;
  void Reduce(const std::function<bool(const std::string&)>& fails) override;
  std::string FileTest() const override;

  const std::string& module() const { return module_; }

 private:
  std::string module_;
  std::vector<Call> calls_;
};

}  // namespace tessera::random

#endif  // TESSERA_TESTS_RANDOM_GIR_H_
