// Which of cuBLASLt's kernels is the fastest for a product, found while the program runs it: run after run takes the
// next of them, between two events, and nobody waits for those. The first round does not count: a kernel that was not
// used before is loaded then. A run that the device was waiting for does not count either: its time is the host's.
// Where that goes on, there is nothing to be won by another kernel, and the trial ends.
#ifndef TESSERA_INTERP_CUDA_PRODUCT_TRIAL_H_
#define TESSERA_INTERP_CUDA_PRODUCT_TRIAL_H_

#include <vector>

#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/driver.h"

namespace tessera::cuda {

/// Not thread-safe. Within the context of the product's device.
class ProductTrial {
 public:
  /// The first of `algos` is the one in use.
  explicit ProductTrial(std::vector<cublasLtMatmulAlgo_t> algos);
  ProductTrial(const ProductTrial&) = delete;
  ~ProductTrial();

  /// The kernel for a run that begins now; null: none, because the run before is not over. End() must follow.
  const cublasLtMatmulAlgo_t* Begin(CUstream stream);
  /// `ran`: whether cuBLASLt took it.
  void End(CUstream stream, bool ran);

  bool is_over() const { return round_ == kRounds || waits_ == kMostWaits; }
  /// Whether the kernels were measured; else the device was waiting for the host.
  bool has_times() const { return round_ == kRounds; }
  /// The fastest; 0 unless another one is faster by more than noise.
  size_t best() const;
  const std::vector<cublasLtMatmulAlgo_t>& algos() const { return algos_; }
  /// The best of its runs, in microseconds.
  double us(size_t i) const { return us_[i]; }

 private:
  static constexpr int kRounds = 5, kMostWaits = 200;

  void Next();

  std::vector<cublasLtMatmulAlgo_t> algos_;
  std::vector<double> us_;
  CUevent first_ = nullptr, last_ = nullptr;
  enum class Run { none, begun, ended } run_ = Run::none;
  size_t at_ = 0;  // the kernel whose turn it is
  int round_ = 0, waits_ = 0;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_PRODUCT_TRIAL_H_
