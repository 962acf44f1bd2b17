// Products by cuBLASLt: which of its kernels runs one, and the call.
//
// cuBLASLt is asked once for each kind of product which of its kernels is best; what it says is kept with the
// descriptions of the matrices, so that a later call only launches. Asking takes longer than many a product, and a
// kernel that was not used before takes milliseconds to load. So a product of a new size is given what was said of the
// one nearest to it that differs in nothing but its size, and is asked about when it has come back often enough, or is
// recorded into a graph. Products that take as long as loading does are asked about at once, and so are the first ones
// in f32 and f64, where another order of the sum can be seen in the result.
//
// What cuBLASLt says is a guess. Where the runs of a product have taken as long as `tune_after` says, the other kernels
// that it names are measured in or behind the runs that follow (product_trial.h), and the fastest one stays. Those of
// f64 are not, and where runs are to be the same to the bit (`bitwise`) none are: the order of the sum may be another.
#ifndef TESSERA_INTERP_CUDA_LIBRARY_PRODUCT_H_
#define TESSERA_INTERP_CUDA_LIBRARY_PRODUCT_H_

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "interp/cuda/product_trial.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/device.h"
#include "runtime/tensor.h"

namespace tessera::interp {
struct KernelArgs;
}

namespace tessera::cuda {

/// What a product is, as far as cuBLASLt's choice depends on it: c[m, n] = a[m, k] b[k, n], each row-major, or
/// transposed and then column-major. c is contiguous. What follows it in the same call: see interp::Epilogue.
struct ProductKind {
  DType in, out;
  bool tf32;
  bool a_transposed, b_transposed;
  bool has_bias, has_added, has_gelu;
  int32_t alignment;  // of the addresses, in bytes, at most 256
  int32_t divisor;    // 0 but in Family()
  int64_t m, n, k;
  int64_t a_ld, b_ld;
  int64_t batches, a_batch, b_batch;

  bool operator==(const ProductKind&) const = default;
  /// What all kinds have in common that differ in size alone: sizes are 1 here, strides what divides them.
  ProductKind Family() const;
  struct Hash {
    size_t operator()(const ProductKind& kind) const;
  };
};

/// cuBLASLt on one device. Thread-safe; made once and never destroyed.
class LibraryProducts {
 public:
  static absl::StatusOr<LibraryProducts*> On(Device& device);

  /// Submits the product. Unimplemented: cuBLASLt has no kernel for that kind, and nothing was submitted.
  absl::Status Run(const ProductKind& kind, const void* a, const void* b, void* c, const void* bias = nullptr,
                   const void* added = nullptr);
  /// Says the same of a product that is to be submitted later.
  absl::Status Check(const ProductKind& kind) { return Find(kind, /*turn=*/nullptr).status(); }

 private:
  struct Prepared;

  LibraryProducts(Device& device, const CublasLt& api) : device_(device), api_(api) {}
  /// `turn`: for a run; what it is to try. Null: the kind is only asked about.
  absl::StatusOr<std::shared_ptr<const Prepared>> Find(const ProductKind& kind, ProductTrial::Turn* turn);
  absl::Status Describe(const ProductKind& kind, Prepared* p);
  absl::Status Layout(cublasLtMatrixLayout_t* layout, DType dtype, int64_t rows, int64_t cols, int64_t ld,
                      int64_t batches, int64_t stride);
  absl::Status SetBias(const Prepared& p, const void* bias);
  /// Asks cuBLASLt for so many kernels, the one that it takes for the best first.
  absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> Ask(const ProductKind& kind, const Prepared& p, int most);
  /// What a run of `known` is to try. When all kernels have been tried, the best replaces it.
  ProductTrial::Turn Try(const ProductKind& kind, std::shared_ptr<const Prepared>& known);
  /// Ends the trial of `known`.
  void Settle(const ProductKind& kind, std::shared_ptr<const Prepared>& known);
  void Keep(const ProductKind& kind, const cublasLtMatmulAlgo_t& algo);
  /// The choice for the nearest kind of the family that will do for this one; null: there is none.
  const cublasLtMatmulAlgo_t* Borrow(const ProductKind& kind, const Prepared& p);
  bool Accepts(const Prepared& p, const cublasLtMatmulAlgo_t& algo);

  Device& device_;
  const CublasLt& api_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::mutex bias_mutex_;  // a description with a bias has its address
  std::mutex mutex_;
  std::unordered_map<ProductKind, std::shared_ptr<const Prepared>, ProductKind::Hash> prepared_;
  int asked_ = 0;  // kinds that cuBLASLt was asked about
  struct Choice {
    ProductKind kind;
    cublasLtMatmulAlgo_t algo;
  };
  /// What cuBLASLt said, by family.
  std::unordered_map<ProductKind, std::vector<Choice>, ProductKind::Hash> choices_;
};

/// c = a b, or c + a b, of matrices of floats that AsBlasMatrix() takes. a and b have one dtype, but not f8; c is
/// contiguous and has it too, or f32, in which it is then added up. In interp/cuda/matmul.cc.
absl::Status ProductInto(const interp::KernelArgs& op, const View& a, const View& b, const View& c, bool add);

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_LIBRARY_PRODUCT_H_
