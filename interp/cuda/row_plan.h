// How rows that are held in registers (kernels/row_regs.cuh) are given to threads.
#ifndef TESSERA_INTERP_CUDA_ROW_PLAN_H_
#define TESSERA_INTERP_CUDA_ROW_PLAN_H_

#include "interp/cuda/launch.h"

namespace tessera::cuda {

struct RowPlan {
  int32_t lanes;
  Grid grid;
  int64_t chunk, chunks;  // one chunk: the row is not cut
};

/// `held`: elements that a thread can hold; `most`: threads that a block may have. There is a group of lanes for each
/// chunk of a row: kernels do not loop.
inline RowPlan PlanRows(int64_t rows, int64_t n, int held, int most) {
  RowPlan p = {4, {0, kThreads, 0}, n, 1};
  if (n > int64_t{most} * held) {
    p.lanes = kThreads;
    p.chunk = kThreads * held;
    p.chunks = (n + p.chunk - 1) / p.chunk;
  } else {
    // Few elements a thread while the row is short: the sooner it is done.
    const int64_t some = n <= 32 * held / 2 ? std::max(held / 4, 1) : held / 2;
    while (p.lanes < most && p.lanes * some < n) p.lanes *= 2;
    if (p.lanes > 32) p.grid.threads = p.lanes;
  }
  const int64_t groups = p.grid.threads / p.lanes;
  p.grid.blocks = (rows * p.chunks + groups - 1) / groups;
  return p;
}

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_ROW_PLAN_H_
