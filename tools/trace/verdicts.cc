// What holds a kernel up, and what would help: a list of rules, the weightiest first. Each looks at counters of the
// hardware where they were taken (rows `measures` of the trace), and otherwise at what follows from the grid, the
// resources, the time, and the bytes and operations that the compiler counted.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/trace/analysis.h"
#include "tools/trace/gpu.h"

namespace tessera::tools {
namespace {

struct Facts {
  const KernelSummary& kernel;
  const rt::trace::GpuRow* gpu;  // nullptr: not known

  double Get(const char* measure, double otherwise = 0) const { return kernel.Measure(measure).value_or(otherwise); }
  int64_t blocks() const { return kernel.row != nullptr ? kernel.row->blocks : 0; }
  int64_t multiprocessors() const { return gpu != nullptr ? gpu->multiprocessors : 0; }
  /// Some unit of the GPU is busy enough that nothing else matters.
  bool saturated() const {
    return kernel.memory_share >= kSaturated || kernel.compute_share >= kSaturated ||
           Get("tensor_percent") >= 100 * kSaturated;
  }
  static constexpr double kSaturated = 0.6;
};

std::string Percent(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

using Said = std::optional<Verdict>;

// ---- the rules

Said MemoryBound(const Facts& f) {
  if (f.kernel.memory_share < Facts::kSaturated) return {};
  return Verdict{
      absl::StrCat("memory-bound at ", Percent(f.kernel.memory_share), " of the memory's rate"),
      f.kernel.memory_share >= 0.85
          ? "nothing to gain but fewer bytes: fuse it with what makes or reads its values, or store narrower "
            "types"
          : "fewer bytes help most; wider loads and more of them in flight help up to the memory's rate"};
}

Said TensorBound(const Facts& f) {
  const double measured = f.Get("tensor_percent") / 100;
  const double share = std::max(measured, f.kernel.work.is_product ? f.kernel.compute_share : 0);
  if (share < 0.4) return {};
  return Verdict{absl::StrCat("tensor cores busy ", Percent(share)),
                 share >= 0.75 ? "as good as products get: a narrower type or less arithmetic is what is left"
                               : "another tile or a deeper pipeline may feed them better (option schedule, the tuner)"};
}

/// What a multiprocessor may be short of, by the counter that tells.
struct Unit {
  const char *measure, *busy, *advice;
};
constexpr Unit kUnits[] = {
    {"special_percent", "units for special functions and conversions busy ",
     "cheaper functions (option fast_math), or fewer casts for each element"},
    {"fma_percent", "units for products and sums busy ", "less arithmetic for each element"},
    {"alu_percent", "units for integers, comparisons and logic busy ",
     "simpler addresses and masks: more elements for each thread, dims that are powers of two"},
    {"issue_percent", "issue slots busy ", "fewer instructions for each element: wider loads and stores"},
};

Said ArithmeticBound(const Facts& f) {
  const double counted = f.kernel.work.is_product ? 0 : f.kernel.compute_share;
  const Unit* busiest = nullptr;
  for (const Unit& unit : kUnits)
    if (busiest == nullptr || f.Get(unit.measure) > f.Get(busiest->measure)) busiest = &unit;
  const double share = f.Get(busiest->measure) / 100;
  if (std::max(share, counted) < Facts::kSaturated || f.kernel.memory_share >= Facts::kSaturated) return {};
  if (share < counted)
    return Verdict{absl::StrCat("arithmetic-bound: ", Percent(counted), " of the arithmetic that the GPU could"),
                   "less arithmetic for each element, or cheaper functions (option fast_math)"};
  return Verdict{absl::StrCat("arithmetic-bound: ", busiest->busy, Percent(share)), busiest->advice};
}

Said CacheBound(const Facts& f) {
  const double l2 = std::max(f.Get("l2_percent"), f.Get("l2_out_percent")), l1 = f.Get("l1_percent");
  if (std::max(l1, l2) < 100 * Facts::kSaturated || f.saturated()) return {};
  return Verdict{absl::StrCat(l2 >= l1 ? "bound by the L2 cache, " : "bound by the L1 cache and shared memory, ",
                              Percent(std::max(l1, l2) / 100), " of its rate"),
                 l2 >= l1 ? "larger tiles read each byte less often" : "more work in registers for each byte loaded"};
}

Said FewBlocks(const Facts& f) {
  if (f.blocks() <= 0 || f.multiprocessors() <= 0 || f.blocks() >= f.multiprocessors()) return {};
  return Verdict{absl::StrCat("latency-bound: ", f.blocks(), f.blocks() == 1 ? " block for " : " blocks for ",
                              f.multiprocessors(), " multiprocessors"),
                 "smaller tiles, or a split of the dim that is summed over, would use the others; or fuse it, if it is "
                 "small"};
}

Said LastWave(const Facts& f) {
  const int64_t at_once = f.kernel.occupancy.blocks * f.multiprocessors();
  if (at_once <= 0 || f.blocks() <= at_once || f.blocks() > 4 * at_once || f.saturated()) return {};
  const double waves = static_cast<double>(f.blocks()) / static_cast<double>(at_once);
  const double last = static_cast<double>(f.blocks() % at_once) / static_cast<double>(at_once);
  if (last <= 0 || last > 0.5) return {};
  return Verdict{absl::StrFormat("a short last wave: %.2f waves of blocks", waves),
                 "a tile that makes a few blocks less, or blocks that stay and take the next tile"};
}

Said Tiny(const Facts& f) {
  if (f.kernel.each_ns() >= kTinyNs) return {};
  return Verdict{absl::StrCat("tiny: ", TimeText(f.kernel.each_ns()), ", about what a launch costs"),
                 f.kernel.in_graph > 0 ? "fusing it with its neighbours is what is left: it is in a graph already"
                                       : "fused with its neighbours, or in a graph, it would cost less"};
}

Said LowOccupancy(const Facts& f) {
  const Occupancy& o = f.kernel.occupancy;
  const double share = f.Get("occupancy_percent", 100 * o.share) / 100;
  if (o.blocks <= 0 || share > 0.3 || f.saturated()) return {};
  // Products by tensor cores are made for few threads with many registers.
  if (f.kernel.work.is_product && f.kernel.compute_share >= 0.4) return {};
  const bool by_resources = o.share <= 0.3;
  return Verdict{by_resources ? absl::StrCat("limited by ", o.limited_by, ": ", Percent(share), " occupancy")
                              : absl::StrCat("few threads at work: ", Percent(share), " occupancy where ",
                                             Percent(o.share), " would fit"),
                 !by_resources ? "blocks differ in length, or there are too few of them"
                 : std::string_view(o.limited_by) == "registers" ? "smaller tiles, or fewer values alive at once"
                 : std::string_view(o.limited_by) == "blocks"    ? "blocks of more threads"
                                                                 : "fewer stages of the pipeline, or smaller tiles"};
}

Said BankConflicts(const Facts& f) {
  const double conflicts = f.Get("bank_conflicts"), wavefronts = f.Get("shared_wavefronts");
  if (wavefronts <= 0 || conflicts < 0.1 * wavefronts) return {};
  return Verdict{absl::StrCat("bank conflicts: ", Percent(std::min(conflicts / wavefronts, 1.0)),
                              " of the accesses of shared memory"),
                 "a swizzle of 128 bytes, or rows with padding, so that the threads of a warp meet in no bank"};
}

Said PartialSectors(const Facts& f) {
  const double loads = f.Get("load_bytes_per_sector_percent", 100),
               stores = f.Get("store_bytes_per_sector_percent", 100);
  const double least = std::min(loads, stores);
  if (least > 60 || least <= 0) return {};
  return Verdict{
      absl::StrCat("partial sectors: ", Percent(least / 100), " of the bytes that its ",
                   loads <= stores ? "loads" : "stores", " move are used"),
      "let neighbours in a warp touch neighbours in memory: another layout, or a copy through shared memory"};
}

Said Spills(const Facts& f) {
  const double bytes = f.Get("local_bytes");
  if (bytes <= 0 && f.kernel.work.spills > 0 && !f.kernel.Measure("local_bytes"))
    return Verdict{absl::StrCat("spills: the assembler found no register for ", f.kernel.work.spills, " values"),
                   "fewer values alive at once: smaller tiles, or less fused into it"};
  if (bytes <= 0) return {};
  return Verdict{absl::StrCat("spills: ", BytesText(bytes), " of local memory moved"),
                 "fewer values alive at once: smaller tiles, or less fused into it"};
}

Said Rereads(const Facts& f) {
  const auto read = f.kernel.Measure("dram_read_bytes"), written = f.kernel.Measure("dram_write_bytes");
  if (!read || !written || f.kernel.work.bytes <= 0) return {};
  const double ratio = (*read + *written) / f.kernel.work.bytes;
  if (ratio < 1.5 || *read + *written < 1e6) return {};
  return Verdict{absl::StrFormat("moves %.1f times the bytes that it must", ratio),
                 "larger tiles, or another order of blocks, so that what is read again is still in the L2 cache"};
}

Said WaitsForMemory(const Facts& f) {
  if (f.Get("stall_memory") < 30 || f.saturated()) return {};
  return Verdict{absl::StrCat("waits for memory: ", Percent(f.Get("stall_memory") / 100), " of its issue slots"),
                 "more loads in flight: a deeper pipeline, wider loads, or more blocks at once"};
}

Said WaitsAtBarriers(const Facts& f) {
  if (f.Get("stall_barrier") < 20) return {};
  return Verdict{absl::StrCat("waits at barriers: ", Percent(f.Get("stall_barrier") / 100), " of its issue slots"),
                 "smaller blocks, fewer barriers, or a second buffer so that loads and arithmetic overlap"};
}

Said WaitsForShared(const Facts& f) {
  if (f.Get("stall_mio") < 20) return {};
  return Verdict{absl::StrCat("waits for shared memory and special functions: ", Percent(f.Get("stall_mio") / 100),
                              " of its issue slots"),
                 "wider accesses of shared memory, or values kept in registers"};
}

Said WaitsForArithmetic(const Facts& f) {
  if (f.Get("stall_math") < 30 || f.Get("tensor_percent") >= 40) return {};
  return Verdict{
      absl::StrCat("waits for arithmetic units: ", Percent(f.Get("stall_math") / 100), " of its issue slots"),
      "fewer operations of that kind; divisions and 64-bit integers are the usual ones"};
}

Said WaitsForItself(const Facts& f) {
  if (f.Get("stall_wait") < 30 || f.saturated()) return {};
  return Verdict{
      absl::StrCat("waits for its own instructions: ", Percent(f.Get("stall_wait") / 100), " of its issue slots"),
      "more independent work for each thread, or more threads"};
}

/// Said where nothing else is.
Said Otherwise(const Facts& f) {
  if (f.kernel.roofline_share() <= 0) return {};  // no counters, and what it must do is not known
  return Verdict{absl::StrCat(Percent(f.kernel.roofline_share()),
                              " of what the GPU could, and nothing of the grid or "
                              "the resources says why"),
                 "counters of the hardware tell more"};
}

constexpr Said (*kRules[])(const Facts&) = {
    MemoryBound,    TensorBound,    ArithmeticBound, CacheBound, FewBlocks,
    BankConflicts,  PartialSectors, Spills,          Rereads,    WaitsAtBarriers,
    WaitsForShared, WaitsForMemory, LowOccupancy,    LastWave,   WaitsForArithmetic,
    WaitsForItself, Tiny,
};

}  // namespace

std::vector<Verdict> VerdictsOf(const KernelSummary& kernel, const rt::trace::GpuRow* gpu) {
  const Facts facts{kernel, gpu};
  std::vector<Verdict> verdicts;
  for (const auto rule : kRules)
    if (Said said = rule(facts)) verdicts.push_back(*std::move(said));
  if (verdicts.empty())
    if (Said said = Otherwise(facts)) verdicts.push_back(*std::move(said));
  return verdicts;
}

}  // namespace tessera::tools
