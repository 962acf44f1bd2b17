// Arguments for a function of which only the types of its parameters are known.
#ifndef TESSERA_TOOLS_TESSERA_EXAMPLE_INPUTS_H_
#define TESSERA_TOOLS_TESSERA_EXAMPLE_INPUTS_H_

#include <map>
#include <string>
#include <vector>

#include "ir/function.h"
#include "tessera/tensor.h"

namespace tessera::tools {

/// What the user says of them. Parameters are named as in the text, with or without %.
struct InputWishes {
  std::map<std::string, int64_t> dims;                 // of symbols
  std::map<std::string, std::vector<int64_t>> shapes;  // of parameters
  std::map<std::string, double> values;                // of parameters: every element
};

/// Numbers between 0 and 1 for floats, 8 for a single integer (which is often a count), 0 for several (which are often
/// indices), true for bools. Symbols that nobody gave are 64, 96, 128 and so on, or all 64 where facts want that. An
/// error names what does not fit.
absl::StatusOr<std::vector<Tensor>> ExampleInputs(const ir::Function& function, const InputWishes& wishes);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TESSERA_EXAMPLE_INPUTS_H_
