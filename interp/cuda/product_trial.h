// Which of cuBLASLt's kernels is the fastest for a product, found while the program runs it. Nobody waits for the
// events between which a kernel is timed: they are asked for at later runs.
//
// Long products are timed as they are: run after run takes the next kernel. The first round does not count: a kernel
// that was not used before is loaded then. A short run that the device was waiting for does not count either: its time
// is the host's.
//
// Short products, and those that the device goes on waiting for, are timed behind a run of the program, by some runs of
// one kernel into memory that nobody reads. From one kernel to the next a device takes another time in a graph than in
// its queue, which for kernels of some microseconds decides: those that are two, or clusters. So they are timed as the
// program will run them, in a graph, or one by one behind a graph of the same kernel that keeps the device busy while
// the host submits them. The host's time takes no part in either.
//
// After three rounds only those go on that are close to the fastest: their best times decide.
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
  /// What a run is to do. `algo` null: nothing. `behind`: Measure() it behind the run, else the run is to use it.
  struct Turn {
    const cublasLtMatmulAlgo_t* algo = nullptr;
    bool behind = false;
  };
  enum class Outcome { done, refused, failed };
  /// Submits the product to a stream; false: cuBLASLt refuses.
  using Submit = std::function<bool(const cublasLtMatmulAlgo_t& algo, CUstream stream)>;

  /// The first of `algos` is the one in use. `us`: what a run may take, by guess. `for_graph`: it will be part of one.
  ProductTrial(std::vector<cublasLtMatmulAlgo_t> algos, double us, bool for_graph);
  ProductTrial(const ProductTrial&) = delete;
  ~ProductTrial();

  /// For a run that begins now; nothing where the turn before is not over. End() must follow a turn.
  Turn Begin(CUstream stream);
  /// Times the turn's kernel behind a run, between Begin() and End(). It needs no lock: nobody else gets a turn.
  Outcome Measure(CUstream stream, const Submit& submit);
  void End(CUstream stream, Outcome outcome);

  bool is_over() const { return run_ == Run::none && (has_failed_ || round_ == kRounds); }
  /// Whether the kernels were measured; else something was missing for it.
  bool has_times() const { return !has_failed_; }
  /// The fastest; 0 unless another one is faster by more than noise.
  size_t best() const;
  const std::vector<cublasLtMatmulAlgo_t>& algos() const { return algos_; }
  /// The best of its times, in microseconds.
  double us(size_t i) const { return us_[i]; }

 private:
  static constexpr int kRounds = 7;

  void Next();
  /// Takes the times of the turn that is under way, if it is over.
  void Take();
  void DropGraph();
  /// What was measured counts for nothing: from now on all is done behind runs, one by one or not.
  void BeginBehind(bool one_by_one);

  std::vector<cublasLtMatmulAlgo_t> algos_;
  std::vector<double> us_;
  double guess_us_;
  CUevent first_ = nullptr, last_ = nullptr;
  enum class Run { none, begun, ended } run_ = Run::none;
  size_t at_ = 0;  // the kernel whose turn it is
  int round_ = 0, waits_ = 0;
  bool waited_ = false;  // the device has, for this turn
  bool behind_ = false;
  bool has_failed_ = false;
  // Behind runs:
  const bool for_graph_;
  bool one_by_one_ = false;  // else in a graph
  CUstream capture_ = nullptr;
  CUgraphExec graph_ = nullptr;  // on its way until the turn is over
  int launches_;                 // in a graph, and one by one
  int ahead_ = 1;                // graphs before what is timed
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_PRODUCT_TRIAL_H_
