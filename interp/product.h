// What the ops matmul and dot_general ask for: a batch of matrix products, described by strides.
#ifndef TESSERA_INTERP_PRODUCT_H_
#define TESSERA_INTERP_PRODUCT_H_

#include "absl/functional/function_ref.h"
#include "interp/kernel.h"

namespace tessera::interp {

/// One operand of a batch of products: element (i, j) of the product at batch index t is at
/// data + sum(t[d] * batch[d]) + i * row + j * col. Any strides.
struct GemmOperand {
  const void* data = nullptr;
  int64_t row = 0, col = 0;
  int64_t batch[kMaxRank] = {};
};

/// c[t] = a[t] b[t] for every batch index t; a is m x k, b is k x n, c is contiguous [batch..., m, n] and is only
/// written. All of one dtype. Integers wrap. k == 0 gives zeros.
struct GemmArgs {
  DType dtype = DType::f32;
  int64_t m = 0, n = 0, k = 0;
  int batch_rank = 0;
  int64_t batch_dims[kMaxRank] = {};
  GemmOperand a, b;
  void* c = nullptr;
};

/// The last two dims of an operand of matmul.
struct Matrix {
  int64_t rows, cols;
  int64_t row, col;
};

/// `vector_row` says what a 1-d operand is.
inline Matrix MatrixOf(const View& v, bool transposed, bool vector_row) {
  if (v.rank == 1) {
    const int64_t dim = v.dims[0], stride = v.strides[0];
    return vector_row ? Matrix{1, dim, dim, stride} : Matrix{dim, 1, stride, dim};
  }
  const int r = v.rank - (transposed ? 1 : 2), c = v.rank - (transposed ? 2 : 1);
  return {v.dims[r], v.dims[c], v.strides[r], v.strides[c]};
}

GemmArgs DescribeMatmul(const KernelArgs& args);
/// `contiguous(v, i)` gives operand i, with its dims permuted, in contiguous memory: it is called where no strides can
/// say what the product needs.
absl::StatusOr<GemmArgs> DescribeDotGeneral(const KernelArgs& args,
                                            absl::FunctionRef<absl::StatusOr<View>(const View& v, int i)> contiguous);

/// What a library may do with a product before it is stored: activation(a b + added + bias), in f32.
struct Epilogue {
  enum class Activation : uint8_t { none, gelu_tanh };
  const View* bias = nullptr;   // [n], contiguous
  const View* added = nullptr;  // as large as the result, contiguous
  Activation activation = Activation::none;
};
/// matmul and what follows it in one call of a device's library. All views have one dtype and begin at multiples of 16
/// bytes. Unimplemented: the library does not have it. Without `submit` that is all that is found out, and what the
/// views point to does not matter.
using EpilogueKernel = absl::Status (*)(const KernelArgs& args, const Epilogue& epilogue, bool submit);
/// Null where the device has no such library.
EpilogueKernel MatmulWithEpilogue(rt::DeviceKind device);

/// A matrix as BLAS takes it: rows (or, transposed, columns) of adjacent elements, `ld` apart.
struct BlasMatrix {
  bool transposed = false;
  int64_t ld = 1;
};
/// False when BLAS cannot read a rows x cols matrix with those strides, and it has to be copied.
bool AsBlasMatrix(int64_t rows, int64_t cols, int64_t row, int64_t col, BlasMatrix* out);

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_PRODUCT_H_
