// What each kernel of a compile has to do and what it takes: bytes, operations, the bound that a machine's peaks set,
// and resources. Counted, not measured: what is read twice from a cache counts once, and so does what is computed
// twice.
#ifndef TESSERA_TIERS_COMPILER_REPORT_H_
#define TESSERA_TIERS_COMPILER_REPORT_H_

#include <map>
#include <string>
#include <vector>

#include "mlir/IR/BuiltinOps.h"
#include "tiers/compiler/formula.h"
#include "tiers/compiler/target/codegen.h"
#include "tiers/compiler/target/plan.h"

namespace tessera::compiler {

/// Symbols in formulas: s3 is symbol 3 of the types; where the module came in after tsr_sched, v2_0 is dim 0 of
/// value 2.
struct KernelReport {
  std::string name;
  std::vector<int64_t> steps;        ///< of the trace, that it takes the place of
  std::vector<std::string> sources;  ///< "model.gir:12:3", where those came from
  /// Whether these four are known: the module has been at tsr_sched.
  bool counted = false;
  Formula bytes_read, bytes_written;
  Formula operations;  ///< additions, products, comparisons and so on
  Formula functions;   ///< exponentials and other functions that take a polynomial, which are not among the operations
  /// What dims of values are: of (value, dim).
  std::map<std::pair<int64_t, int64_t>, Formula> places;
  int64_t lanes = 0;                   ///< elements of a vector; 0: not known
  Formula tasks, unit;                 ///< what there is to share among threads, and the elements of one task
  Formula scratch_bytes;               ///< for each thread, without the padding to whole cache lines
  int64_t threads = 0, per_block = 0;  ///< of a block, and its tasks; 0: the host
  CodeResources code;
};

/// The machine and the dims that a report is read for.
struct Roofline {
  double gigabytes_per_second = 0;      ///< 0: not known
  double gflops = 0;                    ///< 0: not known
  double operations_of_function = 20;   ///< an exponential is about that many
  std::map<std::string, int64_t> dims;  ///< of symbols
  int64_t other_dims = 1024;            ///< of those that are not in `dims`
};

struct Estimate {
  enum class Bound { unknown, memory, compute } bound = Bound::unknown;
  double bytes = 0, operations = 0;  ///< functions among them
  double intensity = 0;              ///< operations for each byte
  double milliseconds = 0;           ///< at least; 0: the peaks are not known
};
Estimate EstimateOf(const KernelReport& kernel, const Roofline& roofline);

/// Kernels of a module at the stage tsr_sched: everything but resources.
std::vector<KernelReport> CountKernels(mlir::ModuleOp module);
/// The report of those that have become code. `counted` may be empty.
std::vector<KernelReport> FinishReport(std::vector<KernelReport> counted, const std::vector<Launch>& plan,
                                       const std::map<std::string, CodeResources>& code);

/// For people.
std::string ReportText(const std::vector<KernelReport>& report, const Roofline& roofline);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_REPORT_H_
