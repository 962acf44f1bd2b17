// What a kernel must do: bytes and operations, as the compiler's report of its version counts them or, where there is
// none (products by the library, steps that are left to tier 1), as the shapes of its step say.
#ifndef TESSERA_TOOLS_TRACE_WORK_H_
#define TESSERA_TOOLS_TRACE_WORK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/trace/reader.h"

namespace tessera::tools {

/// Of one launch.
struct Work {
  double bytes = 0, flops = 0;  // 0: not known
  bool is_product = false;      // it can use tensor cores
  bool is_guess = false;        // dims that the version leaves open were taken from another trace of its place
  std::string dtype;            // of its operands, where it is a product
  int64_t spills = 0;           // values that the assembler found no register for, in its code
};

/// A step of a trace as its text has it: "3: y7 = matmul y4 x1 {transpose_b=true}  f32[8,16]  train.cc:40".
struct StepText {
  std::vector<std::string> results, operands, types;
  std::string op, attrs;
};
StepText ParseStep(std::string_view text);

/// The product of sums that the compiler's reports have: "4*s0*s1 + 12". Nothing where a symbol has no value.
std::optional<double> Evaluate(std::string_view formula, const std::map<std::string, double>& symbols);

class WorkTable {
 public:
  explicit WorkTable(const rt::trace::TraceData& data) : data_(data) {}
  /// Of a kernel with that name, launched by a step of a version; empty where nothing is known. A step that no code was
  /// generated for may launch several: what it must do is said of each.
  Work Of(int64_t version, int32_t step, const std::string& kernel);
  /// Of all kernels of the report of a version together; empty where there is none.
  Work OfReport(int64_t version);
  /// Is the kernel one of the report's?
  bool IsGenerated(int64_t version, const std::string& kernel) { return Read(version).kernels.contains(kernel); }

 private:
  struct Version {
    std::map<std::string, Work> kernels;            // of the report, by name
    std::map<int64_t, std::string> kernel_of_step;  // of the report
    std::vector<StepText> steps;
    std::map<std::string, std::string> types;    // of values: "y4" is "f32[8,16]"
    std::map<std::string, double> symbols;       // of the trace
    std::map<std::string, double> code_symbols;  // of the report: tier 2 leaves dims open that the guards do not
    bool guessed = false;                        // the symbols are those of another trace
  };
  const Version& Read(int64_t id);
  void ReadGraph(const std::string& text, Version* into) const;
  void ReadReport(const std::string& text, Version* into) const;
  void BindSymbols(const rt::trace::TraceRow& trace, Version* into) const;
  static Work OfStep(const Version& version, const StepText& step);

  const rt::trace::TraceData& data_;
  std::map<int64_t, Version> versions_;
};

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_WORK_H_
