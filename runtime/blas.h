// The BLAS, opened with dlopen at the first product: linking it would start its threads in every program.
#ifndef TESSERA_RUNTIME_BLAS_H_
#define TESSERA_RUNTIME_BLAS_H_

#include <string>

#include "runtime/status.h"

namespace tessera::rt {

// Values of the CBLAS interface.
inline constexpr int kBlasRowMajor = 101, kBlasColMajor = 102;
inline constexpr int kBlasNoTrans = 111, kBlasTrans = 112;

/// The symbols used, with 32-bit dims as in every distribution's default BLAS: check that dims and strides fit.
struct Blas {
  void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                const float* b, int ldb, float beta, float* c, int ldc) = nullptr;
  void (*dgemm)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double* a, int lda,
                const double* b, int ldb, double beta, double* c, int ldc) = nullptr;
  void (*sgemv)(int order, int trans, int m, int n, float alpha, const float* a, int lda, const float* x, int incx,
                float beta, float* y, int incy) = nullptr;
  void (*dgemv)(int order, int trans, int m, int n, double alpha, const double* a, int lda, const double* x, int incx,
                double beta, double* y, int incy) = nullptr;
  // OpenBLAS only; null in others.
  void (*set_num_threads)(int) = nullptr;
  int (*get_num_threads)() = nullptr;

  std::string library;
  /// What is known of its kernels, for people; empty: nothing.
  std::string kernels;
  /// The application had opened it before, so its thread count was left as it was. Otherwise it runs on one thread:
  /// Tessera's own pool splits products, and two pools would fight for the cores.
  bool shared_with_application = false;
};

/// The BLAS of this process; safe from any thread. It stays open for ever. A failure is remembered and tried again
/// only when the option blas_library has changed. After the first success: one load.
absl::StatusOr<const Blas*> GetBlas();

/// Called once, by the thread that opens the BLAS, when that is done. It takes milliseconds and most start threads of
/// their own: whoever is about to need a thread, too, has it for little more here than in the middle of small ops.
void OnBlasOpened(void (*hook)());

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_BLAS_H_
