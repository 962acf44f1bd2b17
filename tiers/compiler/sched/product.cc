// The cost model of matrix products.
//
// A register tile of mr x nr accumulators does mr * nr / w fused steps for (mr + nr / w) loads, so it is as large as
// the registers allow. The right factor is packed once for every `rows` rows of the result: copies cost 1 / rows of an
// element each. Fewer, larger tasks copy less; too few leave threads idle. The model adds up both and takes the best of
// a few sizes, which are also the space that the tuner searches.
#include "tiers/compiler/sched/product.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/bit.h"
#include "tiers/compiler/sched/group.h"
#include "tiers/compiler/sched/kinds.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

// Nanoseconds, on the machine at hand roughly; only their proportions matter.
constexpr double kCopy = 0.35;  // to pack one element
constexpr double kFetch = 0.3;  // to bring one element of the left factor into the cache
constexpr double kTask = 500;   // to begin a task
constexpr int64_t kFewRows = 8;
constexpr int64_t kFarApart = 2048, kHalfOfCache = 524288;  // bytes

constexpr const char* kForms[] = {
#define TSR_SCHEDULE_FORM(name, doc) #name,
#include "ir/schedule.def"
};

// A number of a schedule, and what it may be.
struct Entry {
  const char* name;
  int64_t ProductSchedule::* to;
  int64_t low, high;
};
constexpr Entry kEntries[] = {
#define TSR_SCHEDULE_ENTRY(name, low, high, doc) {#name, &ProductSchedule::name, low, high},
#include "ir/schedule.def"
};

// Tiles of sm_90a: groups of 64 or 128 rows, with at most 128 sums in a thread. `part` is that of the peak which the
// model takes them to reach where all rows in memory begin at lines of 128 bytes, and `part_across` where they do not:
// then what lies in two lines is fetched twice, and tiles that fetch less are ahead. These, and the numbers of
// ChooseTensor, are what comes closest to the times of all seven on an H200, for products of random sizes, most of them
// with something after them: 71 whose rows begin at lines, and 50 of other sizes (gpu_tuner_model has others again).
struct TensorTile {
  int64_t rows, columns, apart, cluster;
  double part, part_across = part;
};
constexpr TensorTile kTensorTiles[] = {
    {128, 128, 1, 2, 0.78, 0.7},  {128, 128, 1, 0, 0.84, 0.66}, {128, 256, 0, 0, 0.8, 0.8}, {128, 256, 0, 2, 0.8, 0.85},
    {256, 128, 0, 2, 0.79, 0.83}, {128, 128, 0, 0, 0.8, 0.65},  {128, 64, 0, 0, 0.6, 0.43}};
// Of f8 a group has 64 rows, and sums of some of the columns twice. As an H200 showed them for 8192 cubed.
constexpr TensorTile kF8Tiles[] = {{128, 256, 0, 0, 0.79}, {128, 256, 0, 2, 0.77}, {128, 192, 0, 0, 0.75},
                                   {128, 192, 0, 2, 0.74}, {128, 128, 0, 2, 0.72}, {128, 128, 0, 0, 0.68}};
constexpr int64_t kTensorDepth = 64, kTf32Depth = 32, kF8Depth = 128, kMultiprocessors = 132, kFewRowBytes = 2048;
// Where each warp multiplies for itself: two blocks of 64 rows for a group share what a warp reads of the right factor.
constexpr TensorTile kWarpTiles[] = {{256, 128, 0, 0, 0.5}, {128, 128, 0, 0, 0.4}, {128, 64, 0, 0, 0.35}};

// Elements of a piece along the sum: they have 128 bytes.
int64_t DepthOf(const ProductFacts& f) { return f.is_f8 ? kF8Depth : f.is_tf32 ? kTf32Depth : kTensorDepth; }

bool IsByWarps(const CompileOptions& options) { return options.device != "sm_90a"; }
ArrayRef<TensorTile> TilesFor(bool by_warps, bool is_f8, StringRef device) {
  if (is_f8) return kF8Tiles;
  if (!by_warps) return kTensorTiles;
  // Code for sm_80 to sm_89 takes more registers for addresses, and has none left for 128 sums.
  return ArrayRef<TensorTile>(kWarpTiles).drop_front(device.starts_with("sm_8") ? 1 : 0);
}
// Bytes of shared memory of a block; of a device that is not known, what all have.
int64_t SharedBytesOf(StringRef device) {
  return llvm::StringSwitch<int64_t>(device)
      .Cases({"sm_90", "sm_90a", "sm_100"}, ProductSchedule::kSharedBytes)
      .Case("sm_80", 166912)
      .Default(101376);
}

// With as many pieces in the ring as shared memory has room for, but no more than help; with fewer than two it does not
// fit the device. On sm_90a results go through shared memory, and so does a matrix that is read, unless it is f32, for
// which there is no room: then results do not, either.
ProductSchedule ScheduleOf(const TensorTile& tile, bool by_warps, const ProductFacts& f, int64_t shared) {
  ProductSchedule s;
  s.form = ProductSchedule::Form::tensor;
  s.rows = tile.rows, s.columns = tile.columns, s.apart = tile.apart, s.warps = by_warps, s.cluster = tile.cluster;
  s.depth = DepthOf(f);
  // Sums of f8 that are there twice take more registers than PTX gets.
  s.source = f.is_f8 && s.columns > 192;
  const bool has_places = !by_warps && !(f.is_tf32 && f.has_matrix);
  const int64_t places = !has_places ? 0 : f.has_matrix ? s.Places() : std::min<int64_t>(2, s.Places());
  shared -= places * 4 * ProductSchedule::kGroups * ProductSchedule::kPlaceBytes;
  // SharedBytes() has all that rows may take. With places they are a few as a rule; where they find no room, results
  // are written from registers.
  if (has_places) shared += ProductSchedule::kRowBytes - kFewRowBytes;
  for (s.stages = by_warps ? 3 : 6; s.SharedBytes() > shared;) --s.stages;
  return s;
}

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
int64_t Blocks(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Words of factors of bf16 that the target's best instruction takes.
int64_t WordsOf(const CompileOptions& options) {
  switch (options.bf16) {
    case Bf16::none: return 0;
    case Bf16::avx512: return 1;
    case Bf16::neon: return options.vector_bytes == 16 ? 2 : 0;
  }
  return 0;
}

// ---- few rows on a CUDA device

constexpr int64_t kFewColumns = 256, kFewDepth = 256;

bool HasClusters(StringRef device) { return !device.starts_with("sm_8"); }

// For rows that are not known, or given from outside: what suits most.
ProductSchedule FewSchedule(int64_t rows) {
  ProductSchedule s;
  s.form = ProductSchedule::Form::few;
  s.rows = rows, s.nr = s.columns = 32, s.depth = 64, s.stages = 2, s.warps = 8;
  return s;
}

// Blocks that a multiprocessor has room for.
int64_t BlocksAtOnce(const ProductSchedule& s, int64_t shared) {
  const int64_t threads = 32 * s.warps;
  return std::max<int64_t>(1, std::min({2048 / threads, 65536 / (threads * RoundUp(s.Registers(), 8)),
                                        shared / std::max<int64_t>(1, s.FewBytes() + 1024), int64_t{32}}));
}

// Microseconds of an H200, roughly. The right factor comes from memory, the left one from the second-level cache, once
// for each block: that has room for little more than what memory gives. Enough must be on its way at any time. What
// begins and ends a block takes its time, which others fill where there are any. A multiprocessor that has more to do
// than others gets more than its share of memory's time in the end, but not twice as much.
double FewTime(const ProductSchedule& s, int64_t m, int64_t n, int64_t k, bool is_along, int64_t shared) {
  constexpr double kMemory = 4.3e6, kCache = 1.35, kOnTheWay = 64e3;  // bytes; and parts of them
  constexpr double kBegin = 1.4, kBlock = 0.9, kStep = 0.02, kMeet = 0.1;
  const auto as_double = [](int64_t x) { return static_cast<double>(x); };
  const int64_t parts = s.Along() * s.Blocks(), steps = Blocks(k, parts * s.depth);
  const int64_t blocks = Blocks(m, s.rows) * Blocks(n, s.columns) * s.Blocks(), at_once = BlocksAtOnce(s, shared);
  const double each = as_double(blocks) / kMultiprocessors, most = as_double(Blocks(blocks, kMultiprocessors));
  const double balance = each < 1 ? std::max(1.0, 0.85 / each) : 1 + (most / each - 1) / 2;
  const double on_the_way =
      std::min(as_double(at_once), most) * as_double(32 * s.warps * s.depth * s.nr / 16) * (as_double(s.stages) - 0.5);
  const double traffic = (1 + as_double(std::min(m, s.rows)) / as_double(s.columns)) / kCache;
  // Lines of memory that are read by halves and quarters.
  const double lines = is_along || s.nr == 64 ? 1 : s.nr == 32 ? 1.04 : 1.2;
  const double waste = as_double(steps * parts * s.depth) / as_double(k);
  const double read = as_double(Blocks(m, s.rows)) * as_double(n * k * 2) / kMemory * waste;
  const double rounds = as_double(Blocks(blocks, at_once * kMultiprocessors));
  return read * balance * std::max(1.0, traffic) * std::max(1.0, kOnTheWay / on_the_way) * lines + kBegin +
         kBlock * (rounds - 1) / as_double(at_once) + kStep * as_double(steps) +
         (s.Blocks() > 1 ? kMeet * as_double(s.Blocks()) : 0);
}

std::optional<ProductSchedule> ChooseFew(const ProductFacts& f, const CompileOptions& options, int64_t shared) {
  if (f.m < 1 || !f.has_rows || f.whole_rows || f.batch != 1 || f.is_f8 || f.is_tf32) return std::nullopt;
  const int64_t n = f.n > 0 ? f.n : 4096, k = f.k > 0 ? f.k : 4096;
  // On an H200 such kernels were 1.09 to 2.3 times as fast as tier 1 where something follows, and 0.97 to 1.17 of
  // cuBLASLt where nothing does, but 0.89 to 0.94 with large matrices along the sum; with 16 rows 0.81 to 0.99, with 64
  // about a half of it or less.
  const bool is_few = f.has_more ? f.m <= 16 : f.m <= 8 && (!f.b_along_k || n * k <= int64_t{1} << 25);
  if (!is_few || n < kFewColumns || k < kFewDepth || n % 8 != 0 || k % 8 != 0) return std::nullopt;
  // Sizes that are read at run time take registers, too, and so do pairs of rows that lie across the sum.
  const int64_t most = f.is_exact && f.b_along_k ? 232 : 212;
  std::optional<ProductSchedule> best;
  double least = std::numeric_limits<double>::infinity();
  ProductSchedule s =
      FewSchedule(std::max<int64_t>(8, static_cast<int64_t>(llvm::bit_ceil(static_cast<uint64_t>(f.m)))));
  for (const int64_t nr : {64, 32, 16}) {
    for (const int64_t across : {1, 2, 4}) {
      for (const int64_t stages : {2, 3}) {
        for (const int64_t depth : {1024 / nr, 2048 / nr}) {
          for (const int64_t warps : {4, 8, 16}) {
            for (const int64_t cluster : {0, 2, 4, 8}) {
              s.nr = nr, s.columns = nr * across, s.stages = stages, s.depth = depth, s.warps = warps;
              s.cluster = cluster;
              if (depth < 32 || warps % across != 0 || !CanBeCut(s, f, options) || s.Registers() > most) continue;
              const double time = FewTime(s, f.m, n, k, f.b_along_k, shared);
              if (time >= least) continue;
              least = time;
              best = s;
            }
          }
        }
      }
    }
  }
  return best;
}

// ---- attention

// With as many tiles on their way as shared memory has room for, up to three. Wide heads take more registers than PTX
// gets.
ProductSchedule ChooseAttention(const ProductFacts& f) {
  constexpr int64_t kFewest = 16;
  ProductSchedule s;
  s.rows = ProductSchedule::kQueries, s.columns = f.n > 0 && f.n <= 64 ? 64 : 128;
  s.depth = kTensorDepth, s.nr = std::max(f.k, f.width) <= 64 ? 64 : 128;
  s.source = 1;
  for (s.stages = 3; s.stages > 2 && !s.FitsAttention();) --s.stages;
  // For fewer rows the library multiplies.
  s.form = f.m >= 0 && f.m < kFewest ? ProductSchedule::Form::library : ProductSchedule::Form::attention;
  return s;
}

// ---- a sum that blocks share

// With as many pieces in the ring as shared memory has room for: all of them are on their way.
ProductSchedule SplitSchedule(int64_t rows, int64_t columns, int64_t cluster) {
  ProductSchedule s;
  s.form = ProductSchedule::Form::split;
  s.rows = rows, s.columns = columns, s.cluster = cluster, s.depth = kTensorDepth;
  for (s.stages = 12; s.stages > 4 && !s.FitsSplit();) s.stages -= 2;
  return s;
}

std::vector<ProductSchedule> SplitSchedules(const ProductFacts& f) {
  const int64_t k = f.k > 0 ? f.k : 4096;
  std::vector<ProductSchedule> all;
  for (const int64_t rows : {64, 128}) {
    if (rows > 64 && f.m <= 64) continue;
    for (const int64_t columns : {64, 128, 256})
      for (const int64_t cluster : {0, 2, 4, 8})
        if (const ProductSchedule s = SplitSchedule(rows, columns, cluster);
            s.FitsSplit() && k >= 2 * s.Blocks() * s.kGroups * kTensorDepth)
          all.push_back(s);
  }
  return all;
}

// Clusters of so many blocks that run at a time, a block on each multiprocessor: those of a part of the device, and a
// few parts of an H200 have fewer than 16.
int64_t ClustersAtOnce(int64_t blocks) {
  return blocks == 1 ? kMultiprocessors : blocks == 2 ? kMultiprocessors / 2 : blocks == 4 ? 30 : 14;
}

// Microseconds of an H200, as it showed them for 64 rows: what memory takes for the right factor, the second-level
// cache for what all blocks copy, and a multiprocessor for its pieces, whichever is longest; then sums go from block to
// block. What a piece takes at least is what its signals take, or, of large tiles, the products.
double SplitTime(const ProductSchedule& s, int64_t m, int64_t n, int64_t k) {
  constexpr double kMemory = 4.3e6, kCache = 8.5e6, kSums = 40e3;  // bytes
  constexpr double kBegin = 4.0, kMeet = 0.5, kMeetOthers = 0.8, kPiece = 0.165;
  constexpr double kProducts = 3.3e6;  // in a microsecond of a multiprocessor
  const auto as_double = [](int64_t x) { return static_cast<double>(x); };
  const int64_t tiles = Blocks(m, s.rows) * Blocks(n, s.columns), rounds = Blocks(tiles, ClustersAtOnce(s.Blocks()));
  const int64_t pieces = Blocks(Blocks(k, s.depth), s.Blocks());
  const double piece = std::max(kPiece, as_double(s.rows * s.columns * s.depth) / kProducts);
  const double copied = as_double(pieces * (std::min(s.rows, RoundUp(m, 8)) + s.columns) * 128);
  const double read = std::max({as_double(n * k * 2) / kMemory, as_double(tiles * s.Blocks()) * copied / kCache,
                                as_double(rounds * pieces) * piece});
  const double meet = s.Blocks() > 1 ? kMeetOthers + as_double(s.rows * s.columns * 8) / kSums : kMeet;
  return kBegin + read + as_double(rounds) * meet;
}

// `cycles`: what the best tile would take that is not shared.
std::optional<ProductSchedule> ChooseSplit(const ProductFacts& f, const CompileOptions& options, double cycles) {
  // On an H200 such kernels were 1.2 to 1.7 times as fast as tier 1 where something follows, with 16 rows 1.02 to 1.19
  // of those of few rows; where nothing does, 0.86 to 0.99 of cuBLASLt. With more rows than 64 there are tiles that
  // nobody shares: few of those leave most multiprocessors idle. With 96 to 256 rows shared ones were 1.2 to 1.9 times
  // as fast as tier 1, and 1.7 to 6 times as fast as those; with 512 rows they no longer gained.
  constexpr int64_t kFewest = 9, kFew = 64, kMost = 256;
  constexpr double kBegin = 3.0, kCycles = 1.7e3, kGain = 0.8;  // microseconds, a microsecond, of the time
  if (f.m < kFewest || f.m > kMost || !f.has_more || f.whole_rows || f.batch != 1 || f.is_f8 || f.is_tf32)
    return std::nullopt;
  // Otherwise other sizes may come, of many tiles.
  if (f.m > kFew && !f.is_exact) return std::nullopt;
  const int64_t n = f.n > 0 ? f.n : 4096, k = f.k > 0 ? f.k : 4096;
  if (n < kFewColumns || k < kFewDepth || n % 8 != 0 || k % 8 != 0) return std::nullopt;
  std::optional<ProductSchedule> best;
  double least = std::numeric_limits<double>::infinity();
  for (const ProductSchedule& s : SplitSchedules(f)) {
    if (!CanBeCut(s, f, options)) continue;
    const double time = SplitTime(s, f.m, n, k);
    if (time >= least) continue;
    least = time;
    best = s;
  }
  if (f.m > kFew && least > kGain * (kBegin + cycles / kCycles)) return std::nullopt;
  return best;
}

}  // namespace

DictionaryAttr ProductSchedule::ToAttr(Builder& b) const {
  using Entries = std::initializer_list<std::pair<StringRef, int64_t>>;
  SmallVector<NamedAttribute> entries = {b.getNamedAttr("form", b.getStringAttr(kForms[static_cast<int>(form)]))};
  auto add = [&](Entries values) {
    for (auto [name, n] : values) entries.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(n)));
  };
  auto add_if_set = [&](Entries values) {
    for (auto entry : values)
      if (entry.second > 0) add({entry});
  };
  add({{"rows", rows}, {"columns", columns}, {"depth", depth}});
  switch (form) {
    case Form::tensor:
      add({{"stages", stages}, {"apart", apart}});
      add_if_set({{"cluster", cluster}, {"source", source}, {"warps", warps}});
      break;
    case Form::few: add({{"nr", nr}, {"stages", stages}, {"warps", warps}, {"cluster", cluster}}); break;
    case Form::split: add({{"stages", stages}, {"cluster", cluster}, {"source", source}}); break;
    case Form::attention: add({{"nr", nr}, {"stages", stages}, {"apart", apart}, {"source", source}}); break;
    default: add({{"mr", mr}, {"nr", nr}, {"copy", copy}}); add_if_set({{"words", words}, {"queries", queries}});
  }
  return b.getDictionaryAttr(entries);
}

bool ProductSchedule::FitsFew() const {
  auto is_power = [](int64_t n, int64_t low, int64_t high) {
    return n >= low && n <= high && llvm::isPowerOf2_64(static_cast<uint64_t>(n));
  };
  return is_power(rows, 8, 64) && is_power(nr, 16, 64) && columns >= nr && columns % nr == 0 && columns <= 512 &&
         warps >= Across() && warps % Across() == 0 && depth >= 32 && depth % 32 == 0 && depth <= 256 && stages >= 1 &&
         stages <= 8 && cluster <= 8 && Registers() <= 255 && 32 * warps * Registers() <= 65536 &&
         FewBytes() <= kSharedBytes;
}

bool ProductSchedule::FitsSplit() const {
  // Instructions read 64 lines of the left factor, however few were copied: what follows them is the right one. A slot
  // of the ring is always the same group's, which sees each of its rounds: so it knows them apart.
  return (rows == 64 || (rows == 128 && columns >= 128)) && columns >= 64 && columns % 64 == 0 && columns <= 256 &&
         rows * columns <= 128 * 128 && depth == kTensorDepth && stages >= 2 * kGroups && stages % kGroups == 0 &&
         cluster <= 8 && llvm::isPowerOf2_64(static_cast<uint64_t>(Blocks())) &&
         SplitBytes() + 16 * stages <= kSharedBytes;
}

std::optional<ProductSchedule> ProductSchedule::FromAttr(DictionaryAttr attr) {
  ProductSchedule s;
  auto form = attr.getAs<StringAttr>("form");
  if (!form) return std::nullopt;
  const auto* found = std::find(std::begin(kForms), std::end(kForms), form.getValue());
  if (found == std::end(kForms)) return std::nullopt;
  s.form = static_cast<Form>(found - std::begin(kForms));
  for (const Entry& entry : kEntries) {
    const bool is_of_registers = entry.to == &ProductSchedule::mr || entry.to == &ProductSchedule::nr;
    if ((s.form == Form::tensor || s.form == Form::split) && is_of_registers) continue;
    if ((s.form == Form::few || s.form == Form::attention) && entry.to == &ProductSchedule::mr) continue;
    auto n = attr.getAs<IntegerAttr>(entry.name);
    // What may be 0 may be left out.
    if (!n && entry.low == 0) continue;
    if (!n || n.getInt() < entry.low || n.getInt() > entry.high) return std::nullopt;
    s.*entry.to = n.getInt();
  }
  if (s.form == Form::tensor) {
    const int64_t own = s.OwnRows();
    const bool is_f8 = s.depth == kF8Depth;
    const bool fits =
        (own == 64 || own == 128) && s.rows % 64 == 0 && s.columns % 32 == 0 && s.columns <= 256 &&
        (is_f8 ? own == 64 && s.apart == 0 && s.warps == 0 : s.depth == kTensorDepth || s.depth == kTf32Depth) &&
        s.stages >= 2 && own * s.columns <= 128 * 192 && s.SharedBytes() <= kSharedBytes &&
        (s.warps == 0 || (s.apart == 0 && s.cluster == 0)) && s.warps <= 1 && s.cluster <= 2 &&
        (s.Blocks() == 1 || s.columns % (s.depth == kTensorDepth ? 128 : 64) == 0);
    if (!fits) return std::nullopt;
    return s;
  }
  if (s.form == Form::few) return s.FitsFew() ? std::optional(s) : std::nullopt;
  if (s.form == Form::split) return s.FitsSplit() ? std::optional(s) : std::nullopt;
  if (s.form == Form::attention) return s.FitsAttention() ? std::optional(s) : std::nullopt;
  if (auto queries = attr.getAs<IntegerAttr>("queries")) s.queries = queries.getInt();
  if (s.queries < 0) return std::nullopt;
  if (s.form == Form::stream && s.rows != s.mr) return std::nullopt;
  if (s.mr * s.nr > 1024 || s.rows % s.mr != 0) return std::nullopt;
  if (s.words > 0 && (s.form != Form::packed || s.depth % (2 * s.words) != 0)) return std::nullopt;
  if (s.words == 2 && (s.mr % 2 != 0 || s.nr % 4 != 0)) return std::nullopt;
  return s;
}

std::optional<Dim> GroupsOf(ArrayRef<Dim> scores, Type keys, Type values) {
  if (scores.size() < 3) return std::nullopt;
  const Dim heads = scores[scores.size() - 3];
  auto groups = [](Type type) {
    const SmallVector<Dim> dims = DimsOf(type);
    return dims.size() < 3 ? Dim{false, 1} : dims[dims.size() - 3];
  };
  if (heads.is_one() || groups(keys) == heads || groups(keys) != groups(values)) return std::nullopt;
  return groups(keys);
}

bool IsOfBf16(Operation* product) {
  auto is_bf16 = [](Value v) { return cast<RankedTensorType>(v.getType()).getElementType().isBF16(); };
  return is_bf16(product->getOperand(0)) && is_bf16(product->getOperand(1)) && is_bf16(product->getResult(0));
}

bool ReadsMatrix(ValueRange reads, Operation* product) {
  const SmallVector<Dim> dims = DimsOf(product->getResult(0).getType());
  return llvm::any_of(
      reads, [&](Value v) { return !llvm::is_contained(product->getOperands(), v) && DimsOf(v.getType()) == dims; });
}

void SetWhatFollows(ArrayRef<Operation*> ops, ValueRange reads, Operation* product, ProductFacts* facts) {
  facts->has_matrix = ReadsMatrix(reads, product);
  int32_t last = 0;
  for (Operation* op : ops)
    if (!IsLoose(op)) last = std::max(last, StepOf(op));
  int64_t results = 0;
  for (Operation* op : ops) {
    facts->heavy += op != product && !IsCheap(op);
    auto until = op->getAttrOfType<DenseI32ArrayAttr>("until");
    results += until && !until.empty() && until[0] > last;
  }
  facts->heavy += std::max<int64_t>(0, results - 1);
}

std::vector<std::string> Alternatives(const ProductSchedule& s, const ProductFacts& f, const CompileOptions& options) {
  std::vector<std::string> choices = {"form=library"};
  auto add = [&](const char* name, int64_t value) { choices.push_back(name + ("=" + std::to_string(value))); };
  const bool whole_rows = s.columns == 1;
  switch (s.form) {
    case ProductSchedule::Form::tensor:
      for (const TensorTile& tile : TilesFor(s.warps != 0, s.depth == kF8Depth, options.device)) {
        ProductFacts own = f;
        own.is_f8 = s.depth == kF8Depth, own.is_tf32 = s.depth == kTf32Depth;
        const ProductSchedule other = ScheduleOf(tile, s.warps != 0, own, SharedBytesOf(options.device));
        if (other.stages < 2 || (f.has_scales && !other.FitsBlocks())) continue;
        if (other.rows == s.rows && other.columns == s.columns && other.apart == s.apart && other.cluster == s.cluster)
          continue;
        choices.push_back("rows=" + std::to_string(other.rows) + ",columns=" + std::to_string(other.columns) +
                          ",stages=" + std::to_string(other.stages) + ",apart=" + std::to_string(other.apart) +
                          ",cluster=" + std::to_string(other.cluster) + ",source=" + std::to_string(other.source));
      }
      if (s.warps == 0) add("source", 1 - s.source);
      break;
    case ProductSchedule::Form::few: {
      // More blocks or fewer for a sum, wider ones, and more of it on its way.
      auto offer = [&](const ProductSchedule& other) {
        if (!other.FitsFew() || (other.cluster > 1 && !HasClusters(options.device))) return;
        if (other.FewBytes() > SharedBytesOf(options.device)) return;
        choices.push_back("nr=" + std::to_string(other.nr) + ",columns=" + std::to_string(other.columns) +
                          ",depth=" + std::to_string(other.depth) + ",stages=" + std::to_string(other.stages) +
                          ",warps=" + std::to_string(other.warps) + ",cluster=" + std::to_string(other.cluster));
      };
      for (const int64_t cluster : {s.Blocks() * 2, s.Blocks() / 2}) {
        ProductSchedule other = s;
        other.cluster = cluster > 1 ? cluster : 0;
        if (cluster >= 1 && cluster <= 8) offer(other);
      }
      ProductSchedule other = s;
      other.columns = 2 * s.columns;
      offer(other);
      other = s;
      other.stages = s.stages + 1;
      offer(other);
      break;
    }
    case ProductSchedule::Form::split: {
      ProductFacts own = f;
      own.m = std::max(f.m, s.rows);
      for (const ProductSchedule& other : SplitSchedules(own)) {
        if (other.rows == s.rows && other.columns == s.columns && other.cluster == s.cluster) continue;
        choices.push_back("rows=" + std::to_string(other.rows) + ",columns=" + std::to_string(other.columns) +
                          ",stages=" + std::to_string(other.stages) + ",cluster=" + std::to_string(other.cluster));
      }
      break;
    }
    case ProductSchedule::Form::attention:
      choices.push_back("columns=" + std::to_string(192 - s.columns));
      add("apart", 1 - s.apart);
      add("source", 1 - s.source);
      break;
    case ProductSchedule::Form::packed:
      add("rows", 2 * s.rows);
      if (s.rows >= 2 * s.mr) add("rows", RoundUp(s.rows / 2, s.mr));
      if (whole_rows) break;
      if (s.words > 0) add("words", 0);
      if (s.words == 0 && f.is_bf16 && WordsOf(options) > 0) add("words", WordsOf(options));
      add("columns", 2 * s.columns);
      if (s.columns >= 2 * s.nr) add("columns", s.columns / 2);
      add("depth", 2 * s.depth);
      if (s.depth >= 64) add("depth", s.depth / 2);
      if (!f.has_prologue && s.words == 0) add("copy", 1 - s.copy);
      break;
    case ProductSchedule::Form::direct: choices.push_back("form=packed"); break;
    case ProductSchedule::Form::stream:
      add("columns", 2 * s.columns);
      if (s.columns >= 32) add("columns", s.columns / 2);
      break;
    case ProductSchedule::Form::dot:
      for (int64_t nr : {2, 4, 8})
        if (nr != s.nr) add("nr", nr);
      break;
    case ProductSchedule::Form::library: break;
  }
  return choices;
}

bool WantsSource(const CompileOptions& options) {
  SmallVector<StringRef> products;
  StringRef(options.schedule).split(products, '+', -1, false);
  return llvm::any_of(products, [](StringRef product) {
    auto [name, values] = product.split(':');
    SmallVector<StringRef> entries;
    values.split(entries, ',', -1, false);
    return name == "*" && llvm::is_contained(entries, "source=1");
  });
}

void Override(const CompileOptions& options, int32_t step, ProductSchedule* schedule) {
  SmallVector<StringRef> products, entries;
  StringRef(options.schedule).split(products, '+', -1, false);
  const std::string mine = "p" + std::to_string(step);
  for (StringRef product : products) {
    auto [name, values] = product.split(':');
    if (name != mine && name != "*") continue;
    values.split(entries, ',', -1, false);
    break;
  }
  bool has_rows = false, has_columns = false, has_cluster = false;
  const auto usual_tile = [&] {
    ProductFacts facts;
    facts.has_matrix = true;
    return ScheduleOf(TilesFor(IsByWarps(options), /*is_f8=*/false, options.device)[0], IsByWarps(options), facts,
                      SharedBytesOf(options.device));
  };
  const auto take_entries = [&] {
    for (StringRef entry : entries) {
      auto [name, value] = entry.split('=');
      has_rows |= name == "rows";
      has_columns |= name == "columns";
      has_cluster |= name == "cluster";
      for (const Entry& known : kEntries)
        if (name == known.name) value.getAsInteger(10, schedule->*known.to);
    }
  };
  for (StringRef entry : entries) {
    auto [name, value] = entry.split('=');
    if (name != "form") continue;
    const auto* found = std::find(std::begin(kForms), std::end(kForms), value);
    if (found == std::end(kForms)) continue;
    const auto form = static_cast<ProductSchedule::Form>(found - std::begin(kForms));
    // What is attention has this form as it is, and nothing else can.
    if (form == ProductSchedule::Form::attention) continue;
    // Forms of CUDA devices have nothing in common.
    const bool has_few = schedule->mr == 0 && schedule->nr != 0;
    if (form == ProductSchedule::Form::few && !has_few) *schedule = FewSchedule(8);
    if (form == ProductSchedule::Form::split && schedule->form != form) *schedule = SplitSchedule(64, 128, 4);
    if (form == ProductSchedule::Form::tensor && (has_few || schedule->form == ProductSchedule::Form::split))
      *schedule = usual_tile();
    schedule->form = form;
  }
  take_entries();
  // Narrow tiles have no clusters: who asks for these, and for no tile, does not mean the narrow one that was chosen.
  if (schedule->form == ProductSchedule::Form::tensor && schedule->depth == kTensorDepth && schedule->Blocks() > 1 &&
      schedule->columns % 128 != 0 && !has_rows && !has_columns) {
    *schedule = usual_tile();
    take_entries();
  }
  // There are no clusters of what warps do.
  if (schedule->form == ProductSchedule::Form::tensor && schedule->warps != 0 && !has_cluster) schedule->cluster = 0;
  // A task of this form has one tile of rows.
  if (!entries.empty() && !has_rows && schedule->form == ProductSchedule::Form::stream) schedule->rows = schedule->mr;
  schedule->rows = RoundUp(schedule->rows, std::max<int64_t>(1, schedule->mr));
}

bool CanBeCut(const ProductSchedule& s, const ProductFacts& f, const CompileOptions& options) {
  switch (s.form) {
    case ProductSchedule::Form::packed:
      if (s.words > 0 && (!f.is_bf16 || options.vector_bytes < 16 || (s.words == 2 && options.vector_bytes != 16)))
        return false;
      return s.nr % std::max<int64_t>(1, options.vector_bytes / f.bytes) == 0;
    case ProductSchedule::Form::direct:
      return f.is_exact && f.a_in_place && f.b_along_n && f.n % std::max<int64_t>(1, s.nr) == 0 &&
             s.nr % std::max<int64_t>(1, options.vector_bytes / f.bytes) == 0 && options.vector_bytes > 16 &&
             !f.whole_rows && !f.has_prologue && s.copy == 0;
    case ProductSchedule::Form::stream:
      return f.a_along_k && f.b_along_n && !f.whole_rows && !f.has_prologue && s.copy == 0;
    case ProductSchedule::Form::dot:
      return f.a_along_k && f.b_along_k && !f.whole_rows && !f.has_prologue && s.copy == 0;
    // Only sm_90a multiplies otherwise than by warps. The verifier sees the rest.
    case ProductSchedule::Form::tensor:
      return f.is_tensor && (s.warps != 0 || !IsByWarps(options)) && s.SharedBytes() <= SharedBytesOf(options.device) &&
             s.depth == DepthOf(f) && (!f.is_tf32 || f.is_along_sum) && (!f.has_scales || s.FitsBlocks());
    case ProductSchedule::Form::few:
      return f.is_tensor && !f.is_f8 && !f.is_tf32 && f.has_rows && !f.whole_rows &&
             (s.cluster <= 1 || HasClusters(options.device)) && s.FitsFew() &&
             s.FewBytes() <= SharedBytesOf(options.device);
    case ProductSchedule::Form::split:
      return f.is_tensor && !f.is_f8 && !f.is_tf32 && !IsByWarps(options) && !f.whole_rows && s.FitsSplit();
    case ProductSchedule::Form::attention: return f.is_attention && s.FitsAttention();
    case ProductSchedule::Form::library: break;
  }
  return false;
}

// Small products of known size: factors stay in a first-level cache wherever they lie, and to copy them would take as
// long as to multiply. In cycles: two steps or two loads each, and a step waits four for the one before.
std::optional<ProductSchedule> ChooseDirect(const ProductFacts& f, const CompileOptions& options) {
  constexpr int64_t kBytes = 16384, kRows = 64;  // of the right factor; of a task
  constexpr int64_t kBegin = 40, kEnd = 4;       // of a tile, and of each of its vectors
  if (!f.is_exact || f.m < 1 || f.n < 1 || f.n > kBytes || f.k > kBytes || f.k * f.n * f.bytes > kBytes)
    return std::nullopt;
  const int64_t w = std::max<int64_t>(1, options.vector_bytes / f.bytes);
  const int64_t registers = options.vector_bytes == 64 ? 24 : 12;
  std::optional<ProductSchedule> best;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t vectors = 1; vectors <= 4; ++vectors) {
    for (int64_t mr = 1; mr <= std::min<int64_t>(16, registers / vectors); ++mr) {
      ProductSchedule s;
      s.form = ProductSchedule::Form::direct;
      s.mr = mr, s.nr = vectors * w, s.columns = f.n, s.depth = std::max<int64_t>(1, f.k);
      s.rows = RoundUp(std::min(f.m, std::max(kRows, Blocks(f.m, 2 * options.threads))), mr);
      const int64_t sums = mr * vectors, half_cycles = std::max({sums, mr + vectors, int64_t{8}});
      const int64_t time = Blocks(f.m, mr) * Blocks(f.n, s.nr) * (f.k * half_cycles / 2 + kBegin + kEnd * sums);
      if (time >= least || !CanBeCut(s, f, options)) continue;
      least = time;
      best = s;
    }
  }
  return best;
}

// Cycles of an H200. Groups that share a tile multiply little while they compute what follows; groups that are apart
// do, but their tiles are smaller.
ProductSchedule ChooseTensor(const ProductFacts& f, const CompileOptions& options) {
  const int64_t m = f.m > 0 ? f.m : 4096, n = f.n > 0 ? f.n : 4096, k = f.k > 0 ? f.k : 1024;
  ProductSchedule best;
  double least = std::numeric_limits<double>::infinity();
  // Elements of f32 take twice the room, and tiles that fetch less are ahead in any case.
  const bool at_lines = k % DepthOf(f) == 0 && n % DepthOf(f) == 0 && !f.is_tf32;
  for (const TensorTile& t : TilesFor(IsByWarps(options), f.is_f8, options.device)) {
    const ProductSchedule schedule = ScheduleOf(t, IsByWarps(options), f, SharedBytesOf(options.device));
    if (schedule.stages < 2 || (f.has_scales && !schedule.FitsBlocks())) continue;
    const int64_t tiles = f.batch * RoundUp(Blocks(m, t.rows), schedule.Blocks()) * Blocks(n, t.columns);
    const auto area = static_cast<double>(t.rows * t.columns);
    // A piece of f8 has twice as many elements along the sum, one of tf32 half as many, and they take as long.
    const double multiply = static_cast<double>(Blocks(k, schedule.depth)) * area * kTensorDepth /
                            (2048 * (at_lines ? t.part : t.part_across));
    // With gelu, or with two results, an H200 took three times as long for it as without.
    const double follow = area / 30 * static_cast<double>(1 + 2 * f.heavy);
    const double tile = t.apart != 0 ? std::max(multiply, (multiply + follow) / 2) + 850 : multiply + 1.5 * follow;
    // The last round, of fewer blocks, takes less than the others.
    const double rounds = static_cast<double>(tiles) / kMultiprocessors;
    const double time = (0.76 * std::ceil(rounds) + 0.24 * std::max(1.0, rounds)) * tile;
    if (time >= least) continue;
    least = time;
    best = schedule;
  }
  if (const auto split = ChooseSplit(f, options, least)) return *split;
  if (const auto few = ChooseFew(f, options, SharedBytesOf(options.device))) return *few;
  // A library has more ways to cut small products, and does what nothing follows as well. It has no scales: factors
  // would be written down with them first.
  const bool is_small = f.has_scales ? n < 64 : m < 128 || n < 64 || k < 64;
  if (is_small || !f.has_more || ((f.is_f8 || f.is_tf32) && !f.is_along_sum))
    best.form = ProductSchedule::Form::library;
  return best;
}

ProductSchedule ChooseProduct(const ProductFacts& f, const CompileOptions& options) {
  const int64_t w = std::max<int64_t>(1, options.vector_bytes / f.bytes);
  const int64_t m = f.m > 0 ? f.m : 256, n = f.n > 0 ? f.n : 1024, k = f.k > 0 ? f.k : 512;
  const bool is_x86 = options.vector_bytes > 16;
  ProductSchedule s;
  if (f.is_attention) return ChooseAttention(f);
  if (f.is_tensor) return ChooseTensor(f, options);
  if (const auto direct = ChooseDirect(f, options)) return *direct;
  if (f.m >= 0 && f.m <= kFewRows && !f.whole_rows) {
    // Lanes are added once for each sum, which takes as long as ten steps.
    const bool is_long = !f.is_exact || k >= 8 * w || m < 4 || !is_x86;
    if (f.a_along_k && f.b_along_k && is_long) {
      s.form = ProductSchedule::Form::dot;
      s.mr = f.is_exact ? std::clamp<int64_t>(f.m, 1, 4) : 4;
      // One row is as fast as memory: hardware foresees two runs better than many.
      s.nr = s.mr == 1 ? 2 : 4;
      s.rows = RoundUp(kFewRows, s.mr);
      s.columns = RoundUp(std::clamp<int64_t>(n / (4 * options.threads), 16, 256), s.nr);
      s.depth = k;
      return s;
    }
    if (f.a_along_k && f.b_along_n) {
      // The rows of the result stay in a quarter of a first-level cache of 64 kB.
      s.form = ProductSchedule::Form::stream;
      s.mr = f.is_exact ? std::max<int64_t>(1, f.m) : kFewRows;
      s.rows = s.mr;
      s.nr = w;
      s.columns = std::min(16384 / (s.rows * f.bytes), Blocks(n, options.threads));
      s.columns = RoundUp(std::max<int64_t>(s.columns, 16), w);
      s.depth = k;
      return s;
    }
  }
  // Register tiles, and what part of the peak they were seen to reach.
  struct Tile {
    int64_t mr, vectors;
    double part;
  };
  constexpr Tile kNeon[] = {{4, 4, 1}, {5, 4, 0.99}, {6, 3, 0.93}, {8, 2, 0.9}, {4, 3, 0.9}, {4, 2, 0.8}};
  constexpr Tile kAvx2[] = {{6, 2, 1}, {4, 2, 0.85}, {4, 3, 0.95}};
  constexpr Tile kAvx512[] = {{12, 2, 1}, {8, 2, 0.95}, {8, 3, 0.93}, {4, 4, 0.9}, {16, 1, 0.8}, {8, 1, 0.6}};
  // Of pairs of rows and columns: by how much they load for what they multiply, and not measured.
  constexpr Tile kPairs[] = {{8, 3, 1}, {8, 2, 0.95}, {4, 3, 0.85}, {4, 2, 0.8}};
  // Factors of bf16 are multiplied as they are where an instruction does four times what one of f32 does; what that
  // gains was not measured, so the tuner has the other way, too. vdpbf16ps does twice as much in twice the time: 1024
  // cubed with a bias and gelu takes a Xeon (16 threads) 3.6 ms that way and 2.2 to 2.5 as f32.
  if (f.is_bf16 && options.bf16 == Bf16::neon) s.words = WordsOf(options);
  const ArrayRef<Tile> tiles = s.words == 2                 ? ArrayRef<Tile>(kPairs)
                               : options.vector_bytes == 16 ? ArrayRef<Tile>(kNeon)
                               : options.vector_bytes == 32 ? ArrayRef<Tile>(kAvx2)
                                                            : ArrayRef<Tile>(kAvx512);
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : tiles) {
    const int64_t nr = tile.vectors * w;
    const double waste = static_cast<double>(RoundUp(m, tile.mr) * RoundUp(n, nr)) / static_cast<double>(m * n);
    if (waste / tile.part < best) {
      best = waste / tile.part;
      s.mr = tile.mr;
      s.nr = nr;
    }
    // Other sizes will come. But rows of attention are few at a time, or many, and a tile that is mostly empty stays
    // so.
    if (!f.is_exact && (!f.whole_rows || f.m <= 0 || f.n <= 0 || waste < 1.4)) break;
  }
  // A panel of depth x nr fills half of a first-level cache of 64 kB, or, on x86, all of one.
  const int64_t bytes = s.words > 0 ? 2 : f.bytes;
  s.depth = 32768 / (s.nr * bytes);
  // What is computed on the way to a copy runs along the sum by vectors of four registers, and what is left of a piece
  // takes as long as whole ones: gelu before a product of 1024 x 1024 x 64 f32, with AVX-512, gains nothing in pieces
  // of 170 and a third in those of 192.
  if (f.has_prologue) s.depth = RoundUp(s.depth, 4 * w);
  if (f.is_exact && f.k > 0 && f.k <= s.depth + s.depth / 4) s.depth = f.k;
  if (s.words > 0) s.depth = RoundUp(s.depth, 2 * s.words);
  if (f.whole_rows) {
    // Blocks of whole rows that stay in the second-level cache. What a causal one computes for its last query it
    // computes for all: short ones compute less that nobody sees.
    s.columns = 1;
    s.rows = s.mr;
    while (s.rows < 128 && 2 * s.rows * n * f.bytes <= 524288 && (!f.is_causal || 16 * s.rows <= n)) s.rows *= 2;
    // Enough tasks for all threads.
    while (s.rows > s.mr && s.rows % (2 * s.mr) == 0 && f.batch * Blocks(m, s.rows) < 2 * options.threads) s.rows /= 2;
    if (f.m > 0) s.rows = std::min(s.rows, RoundUp(f.m, s.mr));
    return s;
  }
  // Rows of the left factor that lie a page or half of one apart share the few places that a first-level cache has for
  // them, and each has an entry of the page table: they are copied. NEON reads them by vectors and suffers less.
  if (is_x86 && f.a_along_k && k * f.bytes >= kFarApart && n >= 128) s.copy = 1;
  const double step = 2.0 * static_cast<double>(bytes) / (options.vector_bytes * 10);  // ns for one element's step
  best = std::numeric_limits<double>::infinity();
  for (int64_t rows : {16, 32, 64, 128, 256}) {
    rows = std::min(RoundUp(rows, s.mr), RoundUp(m, s.mr));
    for (int64_t columns : {64, 128, 256, 512, 1024, 2048}) {
      columns = std::min(RoundUp(columns, s.nr), RoundUp(n, s.nr));
      const int64_t tasks = f.batch * Blocks(m, rows) * Blocks(n, columns);
      const double work = static_cast<double>(rows * columns * k) * step;
      // What is read by all panels should stay in half of a second-level cache. So should the panels, where all of a
      // task are packed at once (with twice as many 1024 cubed with AVX-512 is a tenth slower), and otherwise the sums
      // between pieces.
      if (rows > s.mr && rows * s.depth * bytes > kHalfOfCache) continue;
      const int64_t kept = columns * (f.b_along_n ? s.depth * bytes : rows * f.bytes);
      if (is_x86 && columns > s.nr && kept > kHalfOfCache) continue;
      const double copies = static_cast<double>(k * columns) * kCopy + static_cast<double>(k * rows) * kFetch;
      const double time = static_cast<double>(Blocks(tasks, options.threads)) * (work + copies + kTask);
      if (time < best) {
        best = time;
        s.rows = rows;
        s.columns = columns;
      }
    }
  }
  return s;
}

ProductSchedule ScheduleProduct(const ProductFacts& facts, const CompileOptions& options, int32_t step) {
  ProductSchedule schedule = ChooseProduct(facts, options);
  Override(options, step, &schedule);
  if (!facts.is_bf16 || schedule.form != ProductSchedule::Form::packed) schedule.words = 0;
  if (schedule.words > 0) schedule.depth = RoundUp(schedule.depth, 2 * schedule.words);
  if (schedule.words == 2) {
    schedule.mr = RoundUp(schedule.mr, 2);
    schedule.rows = RoundUp(schedule.rows, schedule.mr);
  }
  return schedule;
}

}  // namespace tessera::compiler
