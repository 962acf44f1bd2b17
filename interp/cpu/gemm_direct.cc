#include "interp/cpu/gemm_direct.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "interp/cpu/convert.h"
#include "interp/cpu/gemm_direct_loops.h"
#include "interp/cpu/strided.h"
#include "runtime/thread_pool.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace tessera::cpu {
namespace {

// Elements along k for which a tile's pieces stay in the first cache; rows of a block, which a thread packs for itself;
// panels of columns that it multiplies them by; and elements of the second factor that are packed at a time.
constexpr int64_t kDepth = 1024, kBlockRows = 128, kBlockPanels = 20, kPacked = int64_t{4} << 20;
// Columns that a thread spreads rows over at a time; rows that it multiplies.
constexpr int64_t kSpreadCols = 512, kDotBlock = 16 * kDotRows;

/// Null: there are no such instructions. TESSERA_ISA=neon does without them.
const DirectLoops* LoopsOf(DType dtype) {
#if defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kFhm = 1ul << 23, kBf16 = 1ul << 14;  // HWCAP_ASIMDFHM, HWCAP2_BF16
  static const char* const asked = std::getenv("TESSERA_ISA");
  static const bool plain = asked != nullptr && std::string_view(asked) == "neon";
  static const bool bf16 = !plain && (getauxval(AT_HWCAP2) & kBf16) != 0;
  static const bool f16 = !plain && (getauxval(AT_HWCAP) & kFhm) != 0;
  if (dtype == DType::bf16 && bf16) return &kArmBf16Loops;
  if (dtype == DType::f16 && f16) return &kArmF16Loops;
#else
  (void)dtype;
#endif
  return nullptr;
}

void For(bool threaded, int64_t n, int64_t grain, absl::FunctionRef<void(int64_t, int64_t)> fn) {
  if (threaded) {
    rt::ParallelFor(n, grain, fn);
  } else if (n > 0) {
    fn(0, n);
  }
}

int64_t Blocks(int64_t n, int64_t block) { return (n + block - 1) / block; }

// ---- few rows or few columns: c[i][j] = sum over k of few[i][k] many[j][k]

struct FewTimesMany {
  const DirectLoops& loops;
  DType dtype;
  int64_t few, many, k;
  const uint16_t* x;  // few rows of k, one after the other
  const uint16_t* w;
  bool along;  // a row of `many` lies along k
  int64_t ld;
  uint16_t* c;
  int64_t c_few, c_many;  // strides of c

  /// Rounds results [first, first + n) of row i.
  void Store(int64_t i, int64_t first, int64_t n, const float* y) const {
    uint16_t* to = c + i * c_few + first * c_many;
    if (c_many == 1) {
      Convert(to, dtype, y, DType::f32, n);
      return;
    }
    for (int64_t j = 0; j < n; ++j) Convert(to + j * c_many, dtype, y + j, DType::f32, 1);
  }

  void Dots(int64_t begin, int64_t end) const {
    float y[kMostFew][kDotBlock];
    for (int64_t j = begin; j < end; j += kDotBlock) {
      const int64_t n = std::min(kDotBlock, end - j);
      for (int64_t r = 0; r < n; r += kDotRows) {
        // The last rows once more where there are not enough of them; of fewer than that in all, one at a time.
        const bool one_by_one = many < kDotRows;
        const int64_t at = one_by_one ? j + r : std::min(j + r, many - kDotRows);
        for (int64_t i = 0; i < few; ++i) {
          float sums[kDotRows];
          if (!one_by_one) {
            loops.dots(k, x + i * k, w + at * ld, ld, sums);
          } else {
            for (int64_t s = 0; s < n; ++s) {
              float same[kDotRows];
              loops.dots(k, x + i * k, w + (at + s) * ld, 0, same);
              sums[s] = same[0];
            }
          }
          for (int64_t s = 0; s < kDotRows; ++s) {
            const int64_t place = at + s - j;
            if (place >= r && place < n) y[i][place] = sums[s];
          }
        }
      }
      for (int64_t i = 0; i < few; ++i) Store(i, j, n, y[i]);
    }
  }

  void Spread(int64_t begin, int64_t end) const {
    float sums[kMostFew][kSpreadCols], y[kSpreadCols];
    for (int64_t j = begin; j < end; j += kSpreadCols) {
      const int64_t n = std::min(kSpreadCols, end - j);
      for (int64_t i = 0; i < few; ++i) std::fill_n(sums[i], n, 0.0f);
      for (int64_t p = 0; p < k; p += kSpreadRows) {
        const int64_t rows = std::min<int64_t>(kSpreadRows, k - p);
        for (int64_t i = 0; i < few; ++i) loops.spread(n, rows, x + i * k + p, w + p * ld + j, ld, sums[i]);
      }
      for (int64_t i = 0; i < few; ++i) {
        loops.collect(n, sums[i], y);
        Store(i, j, n, y);
      }
    }
  }

  void Run(bool threaded) const {
    const int64_t block = along ? kDotBlock : kSpreadCols;
    // A few microseconds of work are not worth another thread.
    const int64_t grain = std::max<int64_t>(1, 64 * 1024 / std::max<int64_t>(1, block * k));
    For(threaded, Blocks(many, block), grain, [&](int64_t begin, int64_t end) {
      along ? Dots(begin * block, std::min(many, end * block)) : Spread(begin * block, std::min(many, end * block));
    });
  }
};

absl::Status Few(const DirectLoops& loops, DType dtype, int64_t m, int64_t n, int64_t k, const uint16_t* a,
                 BlasMatrix fa, const uint16_t* b, BlasMatrix fb, uint16_t* c, bool threaded) {
  const bool few_rows = m <= n;
  const int64_t few = few_rows ? m : n;
  // The smaller one with its rows along k.
  const uint16_t* x = few_rows ? a : b;
  const BlasMatrix fx = few_rows ? fa : BlasMatrix{!fb.transposed, fb.ld};
  Scratch scratch;
  if (fx.transposed || (few > 1 && fx.ld != k)) {
    TSR_ASSIGN_OR_RETURN(scratch, Scratch::Make(sizeof(uint16_t) * static_cast<size_t>(few * k)));
    uint16_t* to = scratch.as<uint16_t>();
    for (int64_t i = 0; i < few; ++i)
      for (int64_t p = 0; p < k; ++p) to[i * k + p] = fx.transposed ? x[p * fx.ld + i] : x[i * fx.ld + p];
    x = to;
  }
  const FewTimesMany product{loops,
                             dtype,
                             few,
                             few_rows ? n : m,
                             k,
                             x,
                             few_rows ? b : a,
                             few_rows ? fb.transposed : !fa.transposed,
                             few_rows ? fb.ld : fa.ld,
                             c,
                             few_rows ? n : 1,
                             few_rows ? 1 : n};
  product.Run(threaded);
  return absl::OkStatus();
}

// ---- tiles

class Tiles {
 public:
  Tiles(const DirectLoops& loops, DType dtype, int64_t m, int64_t n, int64_t k, const uint16_t* a, BlasMatrix fa,
        const uint16_t* b, BlasMatrix fb, uint16_t* c)
      : loops_(loops), dtype_(dtype), m_(m), n_(n), k_(k), a_(a), b_(b), fa_(fa), fb_(fb), c_(c) {}

  absl::Status Run(bool threaded) {
    const int64_t groups = Blocks(k_, kTileDepth), panel = groups * kTileDepth * kTileCols;
    const int64_t all_panels = Blocks(n_, kTileCols);
    const int64_t panels = std::clamp<int64_t>(kPacked / panel, 1, all_panels);
    TSR_ASSIGN_OR_RETURN(Scratch packed, Scratch::Make(sizeof(uint16_t) * static_cast<size_t>(panels * panel)));
    packed_ = packed.as<uint16_t>();
    FirstError error;
    for (int64_t first = 0; first < all_panels; first += panels) {
      const int64_t here = std::min(panels, all_panels - first);
      For(threaded, Blocks(here, kBlockPanels), 1, [&](int64_t begin, int64_t end) {
        const int64_t last = std::min(here, end * kBlockPanels);
        PackColumns(first + begin * kBlockPanels, first + last, panel, packed_ + begin * kBlockPanels * panel);
      });
      const int64_t row_blocks = Blocks(m_, kBlockRows), col_blocks = Blocks(here, kBlockPanels);
      For(threaded, row_blocks * col_blocks, 1, [&](int64_t begin, int64_t end) {
        const int64_t rows = std::min(kBlockRows, Blocks(m_, kTileRows) * kTileRows);
        const int64_t depth = std::min(kDepth, groups * kTileDepth), cols = std::min(kBlockPanels, here) * kTileCols;
        auto scratch = Scratch::Make(sizeof(float) * static_cast<size_t>(rows * cols) +
                                     sizeof(uint16_t) * static_cast<size_t>(rows * depth));
        if (!scratch.ok()) return error.Add(scratch.status());
        for (int64_t t = begin; t < end; ++t) {
          const int64_t col = t % col_blocks * kBlockPanels;
          Block(t / col_blocks * kBlockRows, first + col, std::min(kBlockPanels, here - col), packed_ + col * panel,
                scratch->as<float>(), cols);
        }
      });
    }
    return error.Take();
  }

 private:
  /// Panels [begin, end), each of `panel` elements.
  void PackColumns(int64_t begin, int64_t end, int64_t panel, uint16_t* to) const {
    if (!fb_.transposed) {
      const int64_t j = begin * kTileCols, count = std::min(end * kTileCols, n_) - j;
      return loops_.pack_across(kTileCols, count, k_, b_ + j, fb_.ld, to, panel);
    }
    for (int64_t p = begin; p < end; ++p, to += panel) {
      const int64_t j = p * kTileCols, count = std::min<int64_t>(kTileCols, n_ - j);
      loops_.pack_along(kTileCols, count, k_, b_ + j * fb_.ld, fb_.ld, to);
    }
  }

  /// Rows from `row` on by `panels` panels of columns from number `panel` on, which are packed at b.
  void Block(int64_t row, int64_t panel, int64_t panels, const uint16_t* b, float* c, int64_t ldc) const {
    const int64_t rows = std::min(kBlockRows, m_ - row), row_panels = Blocks(rows, kTileRows);
    const int64_t b_panel = Blocks(k_, kTileDepth) * kTileDepth * kTileCols;
    uint16_t* const a = reinterpret_cast<uint16_t*>(c + row_panels * kTileRows * ldc);
    for (int64_t p = 0; p < k_; p += kDepth) {
      const int64_t depth = std::min(kDepth, k_ - p), groups = Blocks(depth, kTileDepth);
      const int64_t a_panel = groups * kTileDepth * kTileRows;
      if (fa_.transposed) {
        loops_.pack_across(kTileRows, rows, depth, a_ + p * fa_.ld + row, fa_.ld, a, a_panel);
      } else {
        for (int64_t i = 0; i < row_panels; ++i) {
          const int64_t r = row + i * kTileRows, count = std::min<int64_t>(kTileRows, m_ - r);
          loops_.pack_along(kTileRows, count, depth, a_ + r * fa_.ld + p, fa_.ld, a + i * a_panel);
        }
      }
      for (int64_t j = 0; j < panels; ++j) {
        for (int64_t i = 0; i < row_panels; ++i) {
          loops_.tile(groups, a + i * a_panel, b + j * b_panel + p * kTileCols, c + i * kTileRows * ldc + j * kTileCols,
                      ldc, p > 0);
        }
      }
    }
    const int64_t first = panel * kTileCols, cols = std::min(panels * kTileCols, n_ - first);
    for (int64_t r = 0; r < rows; ++r) Convert(c_ + (row + r) * n_ + first, dtype_, c + r * ldc, DType::f32, cols);
  }

  const DirectLoops& loops_;
  const DType dtype_;
  const int64_t m_, n_, k_;
  const uint16_t* const a_;
  const uint16_t* const b_;
  const BlasMatrix fa_, fb_;
  uint16_t* const c_;
  uint16_t* packed_ = nullptr;
};

}  // namespace

bool HasDirectGemm(DType dtype) { return LoopsOf(dtype) != nullptr; }

absl::Status DirectGemm(DType dtype, int64_t m, int64_t n, int64_t k, const void* a, BlasMatrix a_form, const void* b,
                        BlasMatrix b_form, void* c, bool threaded) {
  const DirectLoops& loops = *LoopsOf(dtype);
  const auto *x = static_cast<const uint16_t*>(a), *y = static_cast<const uint16_t*>(b);
  auto* const to = static_cast<uint16_t*>(c);
  if (std::min(m, n) <= loops.few) return Few(loops, dtype, m, n, k, x, a_form, y, b_form, to, threaded);
  return Tiles(loops, dtype, m, n, k, x, a_form, y, b_form, to).Run(threaded);
}

}  // namespace tessera::cpu
