// Matrix products of every dtype: loops of our own for small f32 and f64 products (gemm_small.h) and BLAS for larger
// ones, the same on f32 copies of panels for narrow floats, loops of our own for integers. Products are split over
// rt::ParallelFor, not over the BLAS's threads.
#ifndef TESSERA_INTERP_CPU_GEMM_H_
#define TESSERA_INTERP_CPU_GEMM_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "interp/product.h"
#include "runtime/blas.h"
#include "runtime/status.h"
#include "runtime/tensor.h"

namespace tessera::cpu {

using interp::AsBlasMatrix;
using interp::BlasMatrix;
using interp::GemmArgs;
using interp::GemmOperand;

/// The pieces of a product, one per thread, begin at multiples of 32. With most kernels of the BLAS its elements then
/// come out the same however many pieces there are; some (AVX-512) treat the edges of a matrix apart and round
/// differently there, so this is no promise.
absl::Status Gemm(GemmArgs args);

/// c = alpha a b + beta c on the calling thread; c's rows are ldc apart. With beta == 0, c is only written. All dims
/// are at least 1 and, like the strides, below 2^31 (FitsBlas).
void BlasGemm(const rt::Blas& blas, int64_t m, int64_t n, int64_t k, float alpha, const float* a, BlasMatrix a_form,
              const float* b, BlasMatrix b_form, float beta, float* c, int64_t ldc);
void BlasGemm(const rt::Blas& blas, int64_t m, int64_t n, int64_t k, double alpha, const double* a, BlasMatrix a_form,
              const double* b, BlasMatrix b_form, double beta, double* c, int64_t ldc);

/// The same with c cut into pieces that the pool works on.
void BlasGemmThreaded(const rt::Blas& blas, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
                      BlasMatrix a_form, const float* b, BlasMatrix b_form, float beta, float* c, int64_t ldc);
void BlasGemmThreaded(const rt::Blas& blas, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
                      BlasMatrix a_form, const double* b, BlasMatrix b_form, double beta, double* c, int64_t ldc);

/// How c of a product is cut: pieces of rows x cols, which begin at multiples of those.
struct GemmGrid {
  int64_t rows = 0, cols = 0;
};
/// For at most `parts` pieces of about equal work.
GemmGrid ChooseGrid(int64_t m, int64_t n, int64_t k, int64_t parts);

/// rt::ParallelFor for loops that call BLAS. A BLAS that the application uses too has threads of its own: then the
/// calling thread makes all calls.
void ParallelBlas(const rt::Blas& blas, int64_t n, int64_t grain,
                  absl::FunctionRef<void(int64_t begin, int64_t end)> fn);

/// The first failure of a parallel loop.
class FirstError {
 public:
  void Add(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = std::move(status);
  }
  absl::Status Take() {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  absl::Mutex mutex_;
  absl::Status status_;
};

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_GEMM_H_
