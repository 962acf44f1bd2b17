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
// Rows that are stored stay in registers up to so many bytes of each of these threads; longer ones go to shared memory
// if they can. Two blocks of a multiprocessor cover each other's waits.
constexpr int64_t kRowBytes = 64;
constexpr int64_t kRowThreads = 512;
constexpr int64_t kRegisterElements = 16;  // for which there are registers besides
// Rows that are longer than that are shared by clusters of up to so many blocks. Each has about so many bytes of the
// rows in its shared memory, so that there are several blocks of a multiprocessor, which do not all read, add up or
// write at the same time. Of operands that all rows share each row would fetch as many bytes again from the
// second-level cache, or twice as many: there two rows go together.
constexpr int64_t kMostOfCluster = 8;
constexpr int64_t kPartBytes = 32 << 10;
constexpr int64_t kPartThreads = 256;
constexpr int64_t kPartBlocks = 4;
constexpr int64_t kEnoughBlocks = 3;         // for two rows at a time
constexpr int64_t kReservedBytes = 2 << 10;  // of each block, for the device and for what begins at a multiple
constexpr int64_t kRowsTogether = 2;
// Element by element: a block that has a column of pieces has this many elements of each thread in flight, twice that
// if it stays. It does so for at most so many operands, and where blocks go around so often at least that it does not
// matter how the last pieces come out.
constexpr int64_t kElementsOfColumn = 8;
constexpr int64_t kMostFetched = 2;
constexpr int64_t kFetchedBytes = 16;  // of an access
constexpr int64_t kComputedBytes = 4;  // of an element in registers
constexpr int64_t kPiecesOfBlock = 4;
constexpr int64_t kMostSteps = 2;       // of a block that does not stay,
constexpr int64_t kRounds = 8;          // if there are blocks for so many rounds
constexpr int64_t kBlocksAhead = 4;     // of a multiprocessor, that stay
constexpr int64_t kBlocksOfColumn = 5;  // and that do not

int64_t PowerOfTwo(int64_t n) {
  return static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(std::max<int64_t>(1, n))));
}

// 32 elements of f32 that a thread keeps leave enough of its registers (64, in a block of 1024 threads) for the rest,
// if what they are computed from is not much larger.
int64_t MostElements(const GpuFacts& facts, int64_t team) {
  int64_t most = facts.early_bytes <= (facts.has_rows ? kRowBytes / 32 : 8) ? 32 : 16;
  if (team > kRowThreads) most = facts.early_bytes <= 4 ? 32 : facts.early_bytes <= 8 ? 16 : 8;
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

// Rows in shared memory of clusters, some at a time: as many blocks of a multiprocessor as find room.
std::optional<GpuGeometry> ForClusters(const GpuFacts& facts, GpuGeometry g, int64_t row, int64_t at_once) {
  g.at_once = at_once;
  g.cluster = std::min(kMostOfCluster, PowerOfTwo(llvm::divideCeil(row * facts.early_bytes * at_once, kPartBytes)));
  if (g.cluster < 2) return std::nullopt;
  g.keeps_rows = g.in_shared = true;
  for (g.blocks = kPartBlocks; g.blocks > 0; --g.blocks) {
    g.team = g.blocks >= kEnoughBlocks ? kPartThreads : kMostThreads / g.blocks;
    g.chunks = static_cast<int64_t>(llvm::divideCeil(llvm::divideCeil(row, g.lanes), g.OfRow()));
    const int64_t each = facts.shared_bytes / g.blocks - kReservedBytes - g.SentBytes(facts.num_reductions);
    const int64_t room = each / (g.team * g.lanes * facts.early_bytes * at_once);
    g.in_registers = std::max<int64_t>(0, g.chunks - room);
    if (g.in_registers == 0 || (g.blocks == 1 && at_once == 1 && g.in_registers * g.lanes <= kRegisterElements))
      return g;
  }
  return std::nullopt;
}

// Rows in shared memory: nothing where registers do, or where there is no room. Registers also do, if for one block
// alone, where two blocks would not find all of their rows there.
std::optional<GpuGeometry> ForRowsInShared(const GpuFacts& facts, GpuGeometry g, int64_t row) {
  if (!facts.is_row_exact || !facts.has_rows || !facts.is_cheap_again || facts.has_tables || facts.computed > 4 ||
      row <= kRowThreads * MostElements(facts, kRowThreads) || facts.early_bytes == 0 ||
      g.lanes * facts.narrowest < kFetchedBytes)
    return std::nullopt;
  if (facts.has_clusters) {
    // (Several operands of two rows would take more registers than there are.)
    if (facts.num_late > 0 && facts.early_bytes <= facts.narrowest)
      if (std::optional<GpuGeometry> both = ForClusters(facts, g, row, kRowsTogether);
          both && both->blocks >= kEnoughBlocks)
        return both;
    if (std::optional<GpuGeometry> one = ForClusters(facts, g, row, 1)) return one;
  }
  const bool do_registers = row <= kMostThreads * MostElements(facts, kMostThreads);
  g.keeps_rows = g.in_shared = true;
  for (g.blocks = facts.needs_registers ? 1 : 2; g.blocks > 0; --g.blocks) {
    g.team = facts.needs_registers ? kRowThreads : kMostThreads / g.blocks;
    g.chunks = static_cast<int64_t>(llvm::divideCeil(llvm::divideCeil(row, g.lanes), g.team));
    const int64_t room = facts.shared_bytes / (g.blocks * g.team * g.lanes * facts.early_bytes);
    g.in_registers = std::max<int64_t>(0, g.chunks - room);
    if (g.in_registers > 0 && do_registers) break;
    if (g.in_registers * g.lanes <= kRegisterElements) return g;
  }
  return std::nullopt;
}

GpuGeometry ForRows(const GpuFacts& facts, GpuGeometry g, int64_t row) {
  if (std::optional<GpuGeometry> shared = ForRowsInShared(facts, g, row)) return *shared;
  const int64_t vectors = std::max<int64_t>(1, llvm::divideCeil(row, g.lanes));
  // Up to a warp, two vectors of a thread; beyond that, four and more. A warp has more only of rows that are not
  // stored.
  g.team = std::min(kWarp, PowerOfTwo(llvm::divideCeil(vectors, 2)));
  if (g.team * (facts.has_rows ? 2 * g.lanes : MostElements(facts, g.team)) < row) {
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

// Blocks that have a column of pieces, where that is worth it: a vector of each row, and rows enough for as many
// elements as a thread that computes has registers for. What the rows share is read once. Narrow elements are so many
// that arithmetic is what takes the time; there blocks stay, and convert what rows share once.
std::optional<GpuGeometry> ForColumns(const GpuFacts& facts, GpuGeometry g, int64_t row) {
  const bool stays = facts.narrowest < kComputedBytes;
  if (!facts.is_heavy || facts.has_numbers || facts.row <= 0 || facts.num_rows <= 0 || facts.num_whole == 0 ||
      facts.num_whole > kMostFetched || facts.num_outer > 2 || g.lanes * facts.narrowest < kFetchedBytes)
    return std::nullopt;
  if (!stays && (facts.is_one_run || facts.num_inputs == facts.num_whole)) return std::nullopt;
  g.chunks = 1;
  g.team = facts.is_one_run ? kThreads : std::min(kThreads, PowerOfTwo(llvm::divideCeil(row, g.lanes)));
  g.rows = kThreads / g.team;
  // Where a row is found by several indices, each of those in flight takes registers for that.
  const int64_t share = facts.num_whole * (facts.computed > 4 ? 2 : 1) * (facts.num_outer > 1 ? 2 : 1);
  g.at_once = std::max<int64_t>(1, (stays ? 2 : 1) * kElementsOfColumn / (g.lanes * share));
  g.fetches = stays;
  const int64_t pieces =
      static_cast<int64_t>(llvm::divideCeil(row, g.Capacity())) * llvm::divideCeil(facts.num_rows, g.rows);
  g.blocks = stays ? kBlocksAhead : kBlocksOfColumn;
  if (pieces < kPiecesOfBlock * g.at_once * kMultiprocessors * g.blocks) return std::nullopt;
  // What a block does once takes less of its time then.
  if (!stays && facts.is_row_exact)
    g.steps = std::clamp<int64_t>(pieces / (g.at_once * kMultiprocessors * g.blocks * kRounds), 1, kMostSteps);
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

int64_t SharedBytesOf(llvm::StringRef device) {
  return device == "sm_80" ? 160 << 10 : device.starts_with("sm_90") || device == "sm_100" ? 224 << 10 : 96 << 10;
}

bool HasClusters(llvm::StringRef device) { return device.starts_with("sm_90") || device.starts_with("sm_10"); }

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
  const bool is_large = g.keeps_rows && g.chunks * g.lanes > 16 && !(facts.is_row_exact && facts.has_rows);
  int64_t busy = is_large && g.Threads() <= kThreads ? 768 : 1024;
  if (facts.needs_registers) busy = std::min<int64_t>(busy, 512);
  if (facts.computed > 4) busy /= 2;
  if (g.in_shared) return g;
  if (!facts.is_reduction) {
    if (std::optional<GpuGeometry> column = ForColumns(facts, g, row)) {
      g = *column;
      const int64_t blocks = facts.num_outer > 1 ? g.blocks - 1 : g.blocks;
      busy = g.fetches || busy < 1024 ? std::min(busy, blocks * kThreads) : blocks * kThreads;
    }
  }
  g.blocks = std::max<int64_t>(1, busy / g.Threads());
  return g;
}

}  // namespace tessera::compiler
