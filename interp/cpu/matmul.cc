// The ops matmul and dot_general: interp/product describes them to Gemm() by strides, without moving elements where the
// strides allow it.
#include "interp/cpu/gemm.h"
#include "interp/cpu/gemm_small.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"

namespace tessera::cpu {

absl::Status k_matmul(const interp::KernelArgs& args) {
  const View &a = *args.in[0], &b = *args.in[1], &y = *args.out[0];
  // Describing a batch would take as long as the smallest products.
  if (a.rank <= 2 && b.rank <= 2) {
    const interp::Matrix ma = interp::MatrixOf(a, args.flag(0), true), mb = interp::MatrixOf(b, args.flag(1), false);
    if (RunSmallGemm(y.dtype, ma.rows, mb.cols, ma.cols, a.data, ma.row, ma.col, b.data, mb.row, mb.col, y.data))
      return absl::OkStatus();
  }
  return Gemm(interp::DescribeMatmul(args));
}

absl::Status k_dot_general(const interp::KernelArgs& args) {
  Scratch copies[2];
  TSR_ASSIGN_OR_RETURN(const GemmArgs p, interp::DescribeDotGeneral(args, [&](const View& v, int i) {
                         return MakeContiguous(v, &copies[i]);
                       }));
  return Gemm(p);
}

}  // namespace tessera::cpu
