#include "interp/cpu/gemm.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "interp/cpu/gemm_loops.h"
#include "interp/cpu/gemm_narrow.h"
#include "interp/cpu/gemm_small.h"
#include "interp/cpu/strided.h"
#include "runtime/metrics.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

// Up to this many multiply-adds, loops of our own are done before a BLAS that has to look at its arguments and pack
// them. Measured on Neoverse N1 against OpenBLAS, where it is the same for all layouts. Where the loops cannot fuse
// multiply and add, a BLAS that does catches up sooner.
#if defined(__aarch64__)
constexpr int64_t kSmallProduct = 64 * 1024;
#else
constexpr int64_t kSmallProduct = 16 * 1024;
#endif
// Multiply-adds worth a piece of their own: about ten times what handing one to another thread costs.
constexpr int64_t kMinPiece = 512 * 1024;
// The same for matrix times vector, which memory bounds.
constexpr int64_t kMinVectorPiece = 128 * 1024;
// Pieces begin at multiples of this; all BLAS tiles divide it, so that an element is summed the same way in any piece.
constexpr int64_t kAlign = 32;

int64_t RoundUp(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
int64_t CeilDiv(int64_t x, int64_t by) { return (x + by - 1) / by; }

void Sgemm(const rt::Blas& blas, int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda,
           const float* b, int ldb, float beta, float* c, int ldc) {
  blas.sgemm(rt::kBlasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void Sgemm(const rt::Blas& blas, int ta, int tb, int m, int n, int k, double alpha, const double* a, int lda,
           const double* b, int ldb, double beta, double* c, int ldc) {
  blas.dgemm(rt::kBlasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void Sgemv(const rt::Blas& blas, int trans, int m, int n, float alpha, const float* a, int lda, const float* x,
           int incx, float* y) {
  blas.sgemv(rt::kBlasRowMajor, trans, m, n, alpha, a, lda, x, incx, 1.0f, y, 1);
}
void Sgemv(const rt::Blas& blas, int trans, int m, int n, double alpha, const double* a, int lda, const double* x,
           int incx, double* y) {
  blas.dgemv(rt::kBlasRowMajor, trans, m, n, alpha, a, lda, x, incx, 1.0, y, 1);
}

template <class T>
void GemmOnce(const rt::Blas& blas, int64_t m, int64_t n, int64_t k, T alpha, const T* a, BlasMatrix fa, const T* b,
              BlasMatrix fb, T beta, T* c, int64_t ldc) {
  rt::Count(rt::Metric::products_run);
  if ((n == 1 && ldc == 1) || m == 1) {
    // y = matrix * x. y is cleared here: what a gemv with beta 0 does to NaNs differs between BLAS versions.
    const int64_t outputs = n == 1 && ldc == 1 ? m : n;
    if (beta == T(0)) {
      std::memset(c, 0, sizeof(T) * outputs);
    } else if (beta != T(1)) {
      for (int64_t i = 0; i < outputs; ++i) c[i] *= beta;
    }
    const bool by_rows = n == 1 && ldc == 1;  // else x is a's row and b is used transposed
    const T* matrix = by_rows ? a : b;
    const BlasMatrix form = by_rows ? fa : fb;
    const T* x = by_rows ? b : a;
    const int64_t inc = by_rows ? (fb.transposed ? 1 : fb.ld) : (fa.transposed ? fa.ld : 1);
    const bool trans = by_rows ? form.transposed : !form.transposed;
    // BLAS is told of the matrix as it is stored: outputs x k, or transposed.
    const int64_t stored_rows = trans ? k : outputs, stored_cols = trans ? outputs : k;
    Sgemv(blas, trans ? rt::kBlasTrans : rt::kBlasNoTrans, static_cast<int>(stored_rows), static_cast<int>(stored_cols),
          alpha, matrix, static_cast<int>(form.ld), x, static_cast<int>(inc), c);
    return;
  }
  Sgemm(blas, fa.transposed ? rt::kBlasTrans : rt::kBlasNoTrans, fb.transposed ? rt::kBlasTrans : rt::kBlasNoTrans,
        static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), alpha, a, static_cast<int>(fa.ld), b,
        static_cast<int>(fb.ld), beta, c, static_cast<int>(ldc));
}

/// Element (i, 0) of a matrix, or (0, j).
template <class T>
const T* RowOf(const T* p, BlasMatrix f, int64_t i) {
  return p + i * (f.transposed ? 1 : f.ld);
}
template <class T>
const T* ColOf(const T* p, BlasMatrix f, int64_t j) {
  return p + j * (f.transposed ? f.ld : 1);
}

/// Pieces that a product is worth.
int64_t PartsFor(int64_t m, int64_t n, int64_t k) {
  const int64_t work = m * n * k;
  const int64_t least = m == 1 || n == 1 ? kMinVectorPiece : kMinPiece;
  if (work < 2 * least || rt::InParallelRegion()) return 1;
  return std::min<int64_t>(rt::NumThreads(), work / least);
}

template <class T>
void GemmThreaded(const rt::Blas& blas, int64_t m, int64_t n, int64_t k, T alpha, const T* a, BlasMatrix fa, const T* b,
                  BlasMatrix fb, T beta, T* c, int64_t ldc) {
  const GemmGrid grid = ChooseGrid(m, n, k, blas.shared_with_application ? 1 : PartsFor(m, n, k));
  const int64_t across = CeilDiv(n, grid.cols), pieces = CeilDiv(m, grid.rows) * across;
  if (pieces == 1) return GemmOnce(blas, m, n, k, alpha, a, fa, b, fb, beta, c, ldc);
  ParallelBlas(blas, pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t i = p / across * grid.rows, j = p % across * grid.cols;
      GemmOnce(blas, std::min(grid.rows, m - i), std::min(grid.cols, n - j), k, alpha, RowOf(a, fa, i), fa,
               ColOf(b, fb, j), fb, beta, c + i * ldc + j, ldc);
    }
  });
}

/// Asks neither for threads nor for the batch, so that a product is always computed the same way.
bool IsSmall(int64_t m, int64_t n, int64_t k) { return m * n * k <= kSmallProduct; }

const SmallGemmLoops& SmallLoops() {
  static const SmallGemmLoops& loops = TSR_SELECT_ISA(kSmallGemmLoops);
  return loops;
}

int64_t BatchCount(const GemmArgs& p) {
  int64_t count = 1;
  for (int d = 0; d < p.batch_rank; ++d) count *= p.batch_dims[d];
  return count;
}

/// Folds batch dims into m (or n) where the strides let one product stand for many: above all activations
/// [batch, s, d] times one weight matrix.
void FoldBatch(GemmArgs* p) {
  while (p->batch_rank > 0) {
    const int last = p->batch_rank - 1;
    const int64_t dim = p->batch_dims[last], a = p->a.batch[last], b = p->b.batch[last];
    if (dim == 1) {
      // Nothing to fold.
    } else if (b == 0 && (p->m == 1 || a == p->m * p->a.row)) {
      if (p->m == 1) p->a.row = a;
      p->m *= dim;
    } else if (p->m == 1 && a == 0 && (p->n == 1 || b == p->n * p->b.col)) {
      if (p->n == 1) p->b.col = b;
      p->n *= dim;
    } else {
      return;
    }
    --p->batch_rank;
  }
}

/// Makes BLAS able to read the operand, by a copy if need be. Dims that the batch repeats are not copied twice.
absl::Status Normalise(const GemmArgs& p, int64_t rows, int64_t cols, GemmOperand* x, BlasMatrix* form,
                       Scratch* scratch) {
  if (AsBlasMatrix(rows, cols, x->row, x->col, form)) return absl::OkStatus();
  View v;
  v.dtype = p.dtype;
  v.data = const_cast<void*>(x->data);
  v.rank = 0;
  const auto add = [&](int64_t dim, int64_t stride) {
    if (dim == 1 || stride == 0) return;
    v.dims[v.rank] = dim;
    v.strides[v.rank++] = stride;
  };
  for (int d = 0; d < p.batch_rank; ++d) add(p.batch_dims[d], x->batch[d]);
  // A repeated row or column has to be written out: BLAS knows no stride of 0.
  const auto add_always = [&](int64_t dim, int64_t stride) {
    if (dim == 1) return;
    v.dims[v.rank] = dim;
    v.strides[v.rank++] = stride;
  };
  add_always(rows, x->row);
  add_always(cols, x->col);
  View copy = v;
  copy.SetContiguousStrides();
  TSR_ASSIGN_OR_RETURN(*scratch, Scratch::Make(SizeOf(p.dtype) * static_cast<size_t>(v.size())));
  copy.data = scratch->data();
  CopyStrided(copy, v);
  x->data = scratch->data();
  x->row = cols;
  x->col = 1;
  int64_t stride = rows * cols;
  for (int d = p.batch_rank - 1; d >= 0; --d) {
    if (p.batch_dims[d] == 1 || x->batch[d] == 0) continue;
    x->batch[d] = stride;
    stride *= p.batch_dims[d];
  }
  AsBlasMatrix(rows, cols, x->row, x->col, form);
  return absl::OkStatus();
}

/// Calls one(item) for every product of the batch, where one product is too small to be split.
void ForBatch(const GemmArgs& p, absl::FunctionRef<void(int64_t item)> one) {
  const int64_t count = BatchCount(p);
  const int64_t grain = std::max<int64_t>(1, kMinPiece / std::max<int64_t>(1, p.m * p.n * p.k));
  rt::ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) one(t);
  });
}

template <class T>
void SmallGemm(const GemmArgs& p, SmallGemmFn<T> fn) {
  const T* a = static_cast<const T*>(p.a.data);
  const T* b = static_cast<const T*>(p.b.data);
  T* c = static_cast<T*>(p.c);
  if (p.batch_rank == 0) return fn(p.m, p.n, p.k, a, p.a.row, p.a.col, b, p.b.row, p.b.col, c);
  ForBatch(p, [&](int64_t t) {
    fn(p.m, p.n, p.k, a + BatchOffset(p, p.a, t), p.a.row, p.a.col, b + BatchOffset(p, p.b, t), p.b.row, p.b.col,
       c + t * p.m * p.n);
  });
}

template <class T>
absl::Status FloatGemm(GemmArgs& p) {
  T* c = static_cast<T*>(p.c);
  TSR_ASSIGN_OR_RETURN(const rt::Blas* blas, rt::GetBlas());
  BlasMatrix fa, fb;
  Scratch sa, sb;
  TSR_RETURN_IF_ERROR(Normalise(p, p.m, p.k, &p.a, &fa, &sa));
  TSR_RETURN_IF_ERROR(Normalise(p, p.k, p.n, &p.b, &fb, &sb));
  TSR_RETURN_IF_ERROR(CheckFitsBlas(p, fa, fb));
  const T* a = static_cast<const T*>(p.a.data);
  const T* b = static_cast<const T*>(p.b.data);
  const int64_t count = BatchCount(p);
  // A few large products are split one by one, so that all threads end together; many are handed out whole.
  const bool split = count == 1 || (count < 4 * int64_t{rt::NumThreads()} && PartsFor(p.m, p.n, p.k) > 1);
  if (split || blas->shared_with_application) {
    for (int64_t t = 0; t < count; ++t) {
      GemmThreaded<T>(*blas, p.m, p.n, p.k, T(1), a + BatchOffset(p, p.a, t), fa, b + BatchOffset(p, p.b, t), fb, T(0),
                      c + t * p.m * p.n, p.n);
    }
    return absl::OkStatus();
  }
  ForBatch(p, [&](int64_t t) {
    GemmOnce<T>(*blas, p.m, p.n, p.k, T(1), a + BatchOffset(p, p.a, t), fa, b + BatchOffset(p, p.b, t), fb, T(0),
                c + t * p.m * p.n, p.n);
  });
  return absl::OkStatus();
}

template <class U>
void IntGemm(const GemmArgs& p, IntGemmFn<U> fn) {
  const U* a = static_cast<const U*>(p.a.data);
  const U* b = static_cast<const U*>(p.b.data);
  U* c = static_cast<U*>(p.c);
  // Pieces of 64 rows and 256 columns, over all products of the batch.
  constexpr int64_t kRows = 64, kCols = 256;
  const int64_t down = CeilDiv(p.m, kRows), across = CeilDiv(p.n, kCols);
  const int64_t per_piece = std::min(p.m, kRows) * std::min(p.n, kCols) * p.k;
  const int64_t grain = std::max<int64_t>(1, kMinPiece / std::max<int64_t>(1, per_piece));
  rt::ParallelFor(BatchCount(p) * down * across, grain, [&](int64_t begin, int64_t end) {
    for (int64_t x = begin; x < end; ++x) {
      const int64_t t = x / (down * across), i = x / across % down * kRows, j = x % across * kCols;
      fn(std::min(kRows, p.m - i), std::min(kCols, p.n - j), p.k, a + BatchOffset(p, p.a, t) + i * p.a.row, p.a.row,
         p.a.col, b + BatchOffset(p, p.b, t) + j * p.b.col, p.b.row, p.b.col, c + t * p.m * p.n + i * p.n + j, p.n);
    }
  });
}

absl::Status NarrowFloatGemm(GemmArgs& p) {
  TSR_ASSIGN_OR_RETURN(const rt::Blas* blas, rt::GetBlas());
  BlasMatrix fa, fb;
  Scratch sa, sb;
  TSR_RETURN_IF_ERROR(Normalise(p, p.m, p.k, &p.a, &fa, &sa));
  TSR_RETURN_IF_ERROR(Normalise(p, p.k, p.n, &p.b, &fb, &sb));
  TSR_RETURN_IF_ERROR(CheckFitsBlas(p, fa, fb));
  return NarrowGemm(*blas, p, BatchCount(p), fa, fb);
}

}  // namespace

int64_t BatchOffset(const GemmArgs& p, const GemmOperand& x, int64_t item) {
  int64_t offset = 0;
  for (int d = p.batch_rank - 1; d >= 0; --d) {
    offset += item % p.batch_dims[d] * x.batch[d];
    item /= p.batch_dims[d];
  }
  return offset;
}

absl::Status CheckFitsBlas(const GemmArgs& p, BlasMatrix fa, BlasMatrix fb) {
  if (std::max({p.m, p.n, p.k, fa.ld, fb.ld}) <= INT_MAX) return absl::OkStatus();
  return Unsupported("a product of ", p.m, " x ", p.k, " by ", p.k, " x ", p.n,
                     ": dims and row strides must be below 2^31; split it into smaller products");
}

GemmGrid ChooseGrid(int64_t m, int64_t n, int64_t k, int64_t parts) {
  GemmGrid best = {m, n};
  if (parts <= 1 || k < 1) return best;
  int64_t best_cost = INT64_MAX;
  for (int64_t down = 1; down <= parts; ++down) {
    const int64_t across = parts / down;
    const int64_t rows = std::min(m, RoundUp(CeilDiv(m, down), kAlign));
    const int64_t cols = std::min(n, RoundUp(CeilDiv(n, across), kAlign));
    // Multiply-adds of the largest piece, and what packing its operands costs in the same unit. Of equal grids the
    // one with more rows cut wins: then threads write rows of their own.
    const int64_t cost = rows * cols + 16 * (rows + cols);
    if (cost <= best_cost) {
      best_cost = cost;
      best = {rows, cols};
    }
  }
  return best;
}

void ParallelBlas(const rt::Blas& blas, int64_t n, int64_t grain,
                  absl::FunctionRef<void(int64_t begin, int64_t end)> fn) {
  if (!blas.shared_with_application) return rt::ParallelFor(n, grain, fn);
  if (n > 0) fn(0, n);
}

void BlasGemm(const rt::Blas& blas, int64_t m, int64_t n, int64_t k, float alpha, const float* a, BlasMatrix a_form,
              const float* b, BlasMatrix b_form, float beta, float* c, int64_t ldc) {
  GemmOnce(blas, m, n, k, alpha, a, a_form, b, b_form, beta, c, ldc);
}
void BlasGemm(const rt::Blas& blas, int64_t m, int64_t n, int64_t k, double alpha, const double* a, BlasMatrix a_form,
              const double* b, BlasMatrix b_form, double beta, double* c, int64_t ldc) {
  GemmOnce(blas, m, n, k, alpha, a, a_form, b, b_form, beta, c, ldc);
}
void BlasGemmThreaded(const rt::Blas& blas, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
                      BlasMatrix a_form, const float* b, BlasMatrix b_form, float beta, float* c, int64_t ldc) {
  GemmThreaded(blas, m, n, k, alpha, a, a_form, b, b_form, beta, c, ldc);
}
void BlasGemmThreaded(const rt::Blas& blas, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
                      BlasMatrix a_form, const double* b, BlasMatrix b_form, double beta, double* c, int64_t ldc) {
  GemmThreaded(blas, m, n, k, alpha, a, a_form, b, b_form, beta, c, ldc);
}

bool RunSmallGemm(DType dtype, int64_t m, int64_t n, int64_t k, const void* a, int64_t a_row, int64_t a_col,
                  const void* b, int64_t b_row, int64_t b_col, void* c) {
  if (m == 0 || n == 0 || k == 0 || !IsSmall(m, n, k)) return false;
  if (dtype == DType::f32) {
    SmallLoops().f32(m, n, k, static_cast<const float*>(a), a_row, a_col, static_cast<const float*>(b), b_row, b_col,
                     static_cast<float*>(c));
    return true;
  }
  if (dtype != DType::f64) return false;
  SmallLoops().f64(m, n, k, static_cast<const double*>(a), a_row, a_col, static_cast<const double*>(b), b_row, b_col,
                   static_cast<double*>(c));
  return true;
}

absl::Status Gemm(GemmArgs p) {
  const int64_t outputs = BatchCount(p) * p.m * p.n;
  if (outputs == 0) return absl::OkStatus();
  if (p.k == 0) {
    std::memset(p.c, 0, static_cast<size_t>(outputs) * SizeOf(p.dtype));
    return absl::OkStatus();
  }
  FoldBatch(&p);
  static const GemmLoops& loops = TSR_SELECT_ISA(kGemmLoops);
  switch (p.dtype) {
    case DType::f32:
      if (!IsSmall(p.m, p.n, p.k)) return FloatGemm<float>(p);
      SmallGemm(p, SmallLoops().f32);
      return absl::OkStatus();
    case DType::f64:
      if (!IsSmall(p.m, p.n, p.k)) return FloatGemm<double>(p);
      SmallGemm(p, SmallLoops().f64);
      return absl::OkStatus();
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3:
    case DType::f8e5m2: return NarrowFloatGemm(p);
    case DType::i64: IntGemm<uint64_t>(p, loops.i64); return absl::OkStatus();
    case DType::i32: IntGemm<uint32_t>(p, loops.i32); return absl::OkStatus();
    case DType::i8:
    case DType::u8: IntGemm<uint8_t>(p, loops.i8); return absl::OkStatus();
    case DType::boolean: break;
  }
  return Unsupported("a product of bool is not defined; use logical_and and any, or cast to i64");
}

}  // namespace tessera::cpu
