// The threads that compute. One pool per process, made at the first loop that is large enough to be split.
#ifndef TESSERA_RUNTIME_THREAD_POOL_H_
#define TESSERA_RUNTIME_THREAD_POOL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace tessera::rt {

template <class F>
using FunctionRef = absl::FunctionRef<F>;

/// The loop is cut into pieces of this many indices (the last may be shorter): a multiple of `grain`, so that there
/// are at most kMaxChunks pieces.
inline constexpr int64_t kMaxChunks = 512;
constexpr int64_t ChunkSize(int64_t n, int64_t grain) {
  if (grain < 1) grain = 1;
  const int64_t grains = n / grain + (n % grain != 0);
  const int64_t size_in_grains = grains / kMaxChunks + (grains % kMaxChunks != 0);
  return grains <= 1 ? n : size_in_grains * grain;
}

/// Calls fn(begin, end) for pieces that cover [0, n), and returns when all have returned; n and grain are at most
/// 2^60. The pieces depend on n and grain only, never on the number of threads or on how busy they are, so that a sum
/// per piece comes out the same everywhere; their order is not fixed. Piece i begins at i * ChunkSize(n, grain).
///
/// The calling thread works too. It does all pieces itself when there is one piece, one thread, when it already runs
/// inside a piece, in a forked child, and while another thread's loop holds the pool: that loop has the other cores
/// already, and waiting would leave this one idle.
///
/// fn must not throw (the process would end) and may call ParallelFor. Nothing is allocated per call.
void ParallelFor(int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> fn) noexcept;

/// True in fn of a loop that was split over the pool.
bool InParallelRegion();

/// Threads that a loop may use, counting the caller: 1 or more. Starts the pool.
int NumThreads();

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_THREAD_POOL_H_
