// Which of cuBLASLt's kernels is the fastest for a product, found while the program runs it. Nobody waits for the
// events between which a kernel is timed: they are asked for at later runs.
//
// Long products are timed as they are: run after run takes the next kernel. The first round does not count: a kernel
// that was not used before is loaded then. A short run that the device was waiting for does not count either: its time
// is the host's.
//
// Short products, and those that the device goes on waiting for, are timed in graphs: a run of the program is followed
// by some runs of one kernel, recorded as a graph, into memory that nobody reads. The host takes no part in that, so
// it is what the kernel takes in a full queue, or in a graph of the program.
#ifndef TESSERA_INTERP_CUDA_PRODUCT_TRIAL_H_
#define TESSERA_INTERP_CUDA_PRODUCT_TRIAL_H_

#include <functional>
#include <vector>

#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/driver.h"

namespace tessera::cuda {

/// Not thread-safe. Within the context of the product's device.
class ProductTrial {
 public:
  /// What a run is to do. `algo` null: nothing. `in_graph`: Measure() it behind the run, else the run is to use it.
  struct Turn {
    const cublasLtMatmulAlgo_t* algo = nullptr;
    bool in_graph = false;
  };
  enum class Outcome { done, refused, failed };
  /// Submits the product to a stream; false: cuBLASLt refuses.
  using Submit = std::function<bool(const cublasLtMatmulAlgo_t& algo, CUstream stream)>;

  /// The first of `algos` is the one in use. `us`: what a run may take, by guess.
  ProductTrial(std::vector<cublasLtMatmulAlgo_t> algos, double us);
  ProductTrial(const ProductTrial&) = delete;
  ~ProductTrial();

  /// For a run that begins now; nothing where the turn before is not over. End() must follow a turn.
  Turn Begin(CUstream stream);
  /// Times the turn's kernel in a graph, between Begin() and End(). No lock is needed for it: nobody else gets a turn.
  Outcome Measure(CUstream stream, const Submit& submit);
  void End(CUstream stream, Outcome outcome);

  bool is_over() const { return run_ == Run::none && (has_failed_ || round_ == (in_graphs_ ? kGraphRounds : kRounds)); }
  /// Whether the kernels were measured; else something was missing for it.
  bool has_times() const { return !has_failed_; }
  /// The fastest; 0 unless another one is faster by more than noise.
  size_t best() const;
  const std::vector<cublasLtMatmulAlgo_t>& algos() const { return algos_; }
  /// The best of its times, in microseconds.
  double us(size_t i) const { return us_[i]; }

 private:
  static constexpr int kRounds = 5, kGraphRounds = 3;

  void Next();
  /// Takes the times of the turn that is under way, if it is over.
  void Take();
  void DropGraph();

  std::vector<cublasLtMatmulAlgo_t> algos_;
  std::vector<double> us_;
  double guess_us_;
  CUevent first_ = nullptr, last_ = nullptr;
  enum class Run { none, begun, ended } run_ = Run::none;
  size_t at_ = 0;  // the kernel whose turn it is
  int round_ = 0, waits_ = 0;
  bool waited_ = false;  // the device has, for this turn
  bool in_graphs_ = false;
  bool has_failed_ = false;
  // In graphs:
  CUstream capture_ = nullptr;
  CUgraphExec graph_ = nullptr;  // on its way until the turn is over
  int launches_;                 // in a graph
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_PRODUCT_TRIAL_H_
