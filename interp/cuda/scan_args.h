// The arguments of scan.cu. nvcc compiles this file, too.
#ifndef TESSERA_INTERP_CUDA_SCAN_ARGS_H_
#define TESSERA_INTERP_CUDA_SCAN_ARGS_H_

#include "interp/cuda/args.h"

namespace tessera::cuda {

enum ScanMode : int32_t {
  kScanWhole,  // lines in one piece
  kScanSums,   // the sum of each chunk
  kScanApply,  // chunks, each from where scan_join says that the one before ends
};

struct ScanArgs {
  Operand x;  // the dims without the axis: where lines begin
  Address y;
  Address sums;                        // [chunks, lines]
  int64_t lines, extent, inner, step;  // inner: elements after the axis. step: from element to element in x
  int64_t chunk, chunks;               // of a line, counted in the order of the sum
  int32_t lanes;                       // rows: threads of a chunk
  int32_t exclusive, reverse;
  int32_t mode;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_SCAN_ARGS_H_
