#include "tiers/compiler/tile/gpu_geometry.h"

#include <algorithm>

#include "llvm/Support/MathExtras.h"

namespace tessera::compiler {
namespace {

constexpr int64_t kThreads = 256;  // of a block, where rows do not ask for more
constexpr int64_t kMostThreads = 1024;
constexpr int64_t kWarp = 32;
constexpr int64_t kUnknownRow = 4096;  // elements of a row of which nothing is known
// Threads that fill a large device, and rows that do not.
constexpr int64_t kBusyThreads = 132 * 1024;
constexpr int64_t kFewRows = 64;
constexpr int64_t kMultiprocessors = 132;
// So few teams of this size fit that they do not cover each other's waits. More bytes are taken from the cache that
// holds what all rows share: rows of 32768 f32 are slower so (RMS norm 0.85 of a copy, 0.93 without), of bf16 faster
// (layer norm 0.93 and 0.79). Sizes that are not known take registers which a thread of so many does not have.
constexpr int64_t kFetchTeam = 1024;
constexpr int64_t kFetchBytes = 64 << 10;
// Element by element: a block that stays has this many elements of each thread in flight, for at most so many operands,
// and goes around so often at least that it does not matter how the last pieces come out.
constexpr int64_t kElementsAhead = 16;
constexpr int64_t kMostFetched = 2;
constexpr int64_t kFetchedBytes = 16;  // of an access
constexpr int64_t kPiecesOfBlock = 4;
constexpr int64_t kBlocksAhead = 4;  // of a multiprocessor

int64_t PowerOfTwo(int64_t n) {
  return static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(std::max<int64_t>(1, n))));
}

// 32 elements of f32 that a thread keeps leave enough of its registers (64, in a block of 1024 threads) for the rest,
// if what they are computed from is not much larger.
int64_t MostElements(const GpuFacts& facts, int64_t team) {
  int64_t most = facts.early_bytes <= 8 ? 32 : 16;
  if (team > 512) most = facts.early_bytes <= 4 ? 32 : facts.early_bytes <= 8 ? 16 : 8;
  return facts.computed > 4 ? most / 2 : most;
}

GpuGeometry ForElements(const GpuFacts& facts, GpuGeometry g, int64_t row) {
  g.chunks = facts.num_inputs <= 1 ? 4 : facts.num_inputs <= 3 ? 2 : 1;
  if (facts.is_one_run) {
    if (row <= kBusyThreads * g.lanes) g.chunks = 1;
    g.team = kThreads;
    return g;
  }
  // Short rows: a vector for each thread.
  if (row <= kWarp * g.lanes * 2) g.chunks = 1;
  g.team = std::min(kThreads, PowerOfTwo(llvm::divideCeil(row, g.lanes * g.chunks)));
  g.rows = kThreads / g.team;
  return g;
}

GpuGeometry ForRows(const GpuFacts& facts, GpuGeometry g, int64_t row) {
  const int64_t vectors = std::max<int64_t>(1, llvm::divideCeil(row, g.lanes));
  // Up to a warp, two vectors of a thread; beyond that, four and more.
  g.team = std::min(kWarp, PowerOfTwo(llvm::divideCeil(vectors, 2)));
  if (g.team * MostElements(facts, g.team) < row) {
    g.team = std::clamp(PowerOfTwo(llvm::divideCeil(vectors, 4)), 2 * kWarp, kMostThreads);
    while (g.team < kMostThreads && g.team * MostElements(facts, g.team) < row) g.team *= 2;
    // Few rows: more threads for each.
    while (g.team < kMostThreads && facts.num_rows > 0 && facts.num_rows * g.team < kBusyThreads &&
           g.team * g.lanes < row)
      g.team *= 2;
  }
  g.chunks = llvm::divideCeil(vectors, g.team);
  g.keeps_rows = row > 0 && g.chunks * g.lanes <= MostElements(facts, g.team);
  if (!g.keeps_rows) g.chunks = 1;
  g.rows = g.team > kWarp ? 1 : kThreads / g.team;
  return g;
}

// Blocks that stay, where that is worth it: a vector of each row, and rows enough for as many elements as a thread that
// computes has registers for.
std::optional<GpuGeometry> ForElementsAhead(const GpuFacts& facts, GpuGeometry g, int64_t row) {
  if (!facts.is_heavy || facts.has_numbers || facts.row <= 0 || facts.num_rows <= 0 || facts.num_whole == 0 ||
      facts.num_whole > kMostFetched || facts.num_outer > 2 || g.lanes * facts.narrowest < kFetchedBytes)
    return std::nullopt;
  g.chunks = 1;
  g.team = facts.is_one_run ? kThreads : std::min(kThreads, PowerOfTwo(llvm::divideCeil(row, g.lanes)));
  g.rows = kThreads / g.team;
  // Where a row is found by several indices, each of those in flight takes registers for that.
  const int64_t share = facts.num_whole * (facts.computed > 4 ? 2 : 1) * (facts.num_outer > 1 ? 2 : 1);
  g.at_once = std::max<int64_t>(1, kElementsAhead / (g.lanes * share));
  g.fetches = true;
  const int64_t pieces =
      static_cast<int64_t>(llvm::divideCeil(row, g.Capacity())) * llvm::divideCeil(facts.num_rows, g.rows);
  if (pieces < kPiecesOfBlock * g.at_once * kMultiprocessors * kBlocksAhead) return std::nullopt;
  return g;
}

}  // namespace

int64_t LikelySize(sched::KernelOp kernel, const Dim& d) {
  if (!d.is_symbol) return d.value;
  auto trace = kernel->getParentOfType<graph::TraceOp>();
  if (!trace || !trace.getLikely()) return -1;
  const auto seen = *trace.getLikely();
  return d.value >= 0 && d.value < static_cast<int64_t>(seen.size()) ? seen[static_cast<size_t>(d.value)] : -1;
}

std::optional<GpuGeometry> ChooseGeometry(const GpuFacts& facts) {
  GpuGeometry g;
  const int64_t row = facts.row >= 0 ? facts.row : kUnknownRow;
  if (facts.narrowest > 0) {
    g.lanes = std::clamp<int64_t>(16 / facts.narrowest, 1, 8);
    while (g.lanes > 1 && g.lanes * facts.widest > 32) g.lanes /= 2;
    while (facts.is_row_exact && g.lanes > std::max<int64_t>(1, row)) g.lanes /= 2;
    // Rows whose length is no multiple of a vector's begin anywhere.
    if (facts.is_row_exact && (facts.is_reduction || !facts.is_one_run))
      while (g.lanes > 1 && row % g.lanes != 0) g.lanes /= 2;
  }
  g = facts.is_reduction ? ForRows(facts, g, row) : ForElements(facts, g, row);
  if (facts.is_reduction && !g.keeps_rows && facts.num_rows >= 0 && facts.num_rows < kFewRows && row > kUnknownRow)
    return std::nullopt;
  // Loads in flight come from many threads or from many elements of each: 64 registers, or 80 for those that keep
  // many, and twice that for f64.
  const bool is_large = g.keeps_rows && g.chunks * g.lanes > 16;
  int64_t busy = is_large && g.Threads() <= kThreads ? 768 : 1024;
  if (facts.needs_registers) busy = std::min<int64_t>(busy, 512);
  if (facts.computed > 4) busy /= 2;
  if (!facts.is_reduction) {
    if (std::optional<GpuGeometry> ahead = ForElementsAhead(facts, g, row)) {
      g = *ahead;
      busy = std::min(busy, (facts.num_outer > 1 ? kBlocksAhead - 1 : kBlocksAhead) * kThreads);
    }
    g.blocks = std::max<int64_t>(1, busy / g.Threads());
    return g;
  }
  g.blocks = std::max<int64_t>(1, busy / g.Threads());
  g.fetches = facts.is_row_exact && g.keeps_rows && g.rows == 1 && g.team >= kFetchTeam &&
              g.Capacity() * facts.early_bytes <= std::min(kFetchBytes, facts.shared_bytes / g.blocks) &&
              (facts.num_rows < 0 || facts.num_rows > 4 * kMultiprocessors * g.blocks);
  return g;
}

}  // namespace tessera::compiler
