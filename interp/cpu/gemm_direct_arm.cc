// The loops of gemm_direct_loops.h for Arm: bfmmla and bfmlal for bf16 (FEAT_BF16), fmlal for f16 (FEAT_FHM). bfmlal
// and fmlal round once, as a fused multiplication and addition does; bfmmla adds two products at a time, rounds to odd
// and takes subnormal numbers for 0.
#include "interp/cpu/gemm_direct_loops.h"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace tessera::cpu {
namespace {

// ---- packing: bits move, whatever their type

/// Four rows of four elements become columns, `step` apart.
void Turn4(const uint16_t* const rows[4], uint16_t* to, int64_t step) {
  const uint16x4_t a = vld1_u16(rows[0]), b = vld1_u16(rows[1]), c = vld1_u16(rows[2]), d = vld1_u16(rows[3]);
  const uint32x2_t ab0 = vreinterpret_u32_u16(vzip1_u16(a, b)), ab1 = vreinterpret_u32_u16(vzip2_u16(a, b));
  const uint32x2_t cd0 = vreinterpret_u32_u16(vzip1_u16(c, d)), cd1 = vreinterpret_u32_u16(vzip2_u16(c, d));
  vst1_u16(to, vreinterpret_u16_u32(vzip1_u32(ab0, cd0)));
  vst1_u16(to + step, vreinterpret_u16_u32(vzip2_u32(ab0, cd0)));
  vst1_u16(to + 2 * step, vreinterpret_u16_u32(vzip1_u32(ab1, cd1)));
  vst1_u16(to + 3 * step, vreinterpret_u16_u32(vzip2_u32(ab1, cd1)));
}

/// The same for eight elements, with the columns one after the other.
void Turn8(const uint16_t* const rows[4], uint16_t* to) {
  const uint16x8_t a = vld1q_u16(rows[0]), b = vld1q_u16(rows[1]), c = vld1q_u16(rows[2]), d = vld1q_u16(rows[3]);
  const uint32x4_t ab0 = vreinterpretq_u32_u16(vzip1q_u16(a, b)), ab1 = vreinterpretq_u32_u16(vzip2q_u16(a, b));
  const uint32x4_t cd0 = vreinterpretq_u32_u16(vzip1q_u16(c, d)), cd1 = vreinterpretq_u32_u16(vzip2q_u16(c, d));
  vst1q_u16(to, vreinterpretq_u16_u32(vzip1q_u32(ab0, cd0)));
  vst1q_u16(to + 8, vreinterpretq_u16_u32(vzip2q_u32(ab0, cd0)));
  vst1q_u16(to + 16, vreinterpretq_u16_u32(vzip1q_u32(ab1, cd1)));
  vst1q_u16(to + 24, vreinterpretq_u16_u32(vzip2q_u32(ab1, cd1)));
}

constexpr int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

/// What is not there.
constexpr uint16_t kNothing[kTileCols > kTileRows ? kTileCols : kTileRows] = {};

/// bf16: for each row, or column, its four elements of the group.
struct ByColumn {
  static void Along(int64_t width, int64_t count, int64_t k, const uint16_t* from, int64_t ld, uint16_t* to) {
    const int64_t step = width * kTileDepth;
    for (int64_t r = 0; r < width; ++r) {
      const uint16_t* row = from + r * ld;
      uint16_t* out = to + r * kTileDepth;
      int64_t i = 0;
      if (r >= count) {
        for (; i < k; i += 4, out += step) vst1_u16(out, vdup_n_u16(0));
        continue;
      }
      for (; i + 4 <= k; i += 4, out += step) vst1_u16(out, vld1_u16(row + i));
      for (int64_t j = i; i < k && j < i + 4; ++j) out[j - i] = j < k ? row[j] : 0;
    }
  }
  /// Four rows of `count` elements.
  static void Group(int64_t width, int64_t count, const uint16_t* const rows[4], uint16_t* to) {
    int64_t r = 0;
    const auto at = [&](auto turn) {
      const uint16_t* const here[4] = {rows[0] + r, rows[1] + r, rows[2] + r, rows[3] + r};
      turn(here, to + r * kTileDepth);
    };
    for (; r + 8 <= count; r += 8) at(Turn8);
    for (; r + 4 <= count; r += 4) at([](const uint16_t* const here[4], uint16_t* out) { Turn4(here, out, 4); });
    for (; r < width; ++r)
      for (int j = 0; j < 4; ++j) to[r * kTileDepth + j] = r < count ? rows[j][r] : 0;
  }
};

/// f16: for each k of the group, the elements of all rows, or columns.
struct ByRow {
  static void Along(int64_t width, int64_t count, int64_t k, const uint16_t* from, int64_t ld, uint16_t* to) {
    for (int64_t r = 0; r < width; r += 4) {
      int64_t i = 0;
      if (r + 4 <= count) {
        for (; i + 4 <= k; i += 4) {
          const uint16_t* p = from + r * ld + i;
          const uint16_t* const rows[4] = {p, p + ld, p + 2 * ld, p + 3 * ld};
          Turn4(rows, to + i * width + r, width);
        }
      }
      for (; i < k; i += 4)
        for (int64_t j = i; j < i + 4; ++j)
          for (int64_t s = r; s < r + 4; ++s) to[j * width + s] = s < count && j < k ? from[s * ld + j] : 0;
    }
  }
  static void Group(int64_t width, int64_t count, const uint16_t* const rows[4], uint16_t* to) {
    for (int j = 0; j < 4; ++j, to += width) {
      int64_t r = 0;
      for (; r + 4 <= count; r += 4) vst1_u16(to + r, vld1_u16(rows[j] + r));
      for (; r < width; ++r) to[r] = r < count ? rows[j][r] : 0;
    }
  }
};

template <class Order>
void PackAcross(int64_t width, int64_t count, int64_t k, const uint16_t* from, int64_t ld, uint16_t* to,
                int64_t panel) {
  // All panels of four rows before the next four: rows may lie pages apart.
  for (int64_t i = 0; i < k; i += 4, to += width * kTileDepth) {
    uint16_t* out = to;
    for (int64_t r = 0; r < count; r += width, out += panel) {
      const uint16_t* rows[4];
      for (int64_t j = 0; j < 4; ++j) rows[j] = i + j < k ? from + (i + j) * ld + r : kNothing;
      Order::Group(width, Least(width, count - r), rows, out);
    }
  }
}

// ---- the two types: what multiplies eight elements into two vectors of sums

struct Bf16 {
  using Vector = bfloat16x8_t;
  static Vector Load(const uint16_t* p) { return vreinterpretq_bf16_u16(vld1q_u16(p)); }
  static float One(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    return __builtin_bit_cast(float, wide);
  }
  // The even elements and the odd ones.
  static void Add(float32x4_t& first, float32x4_t& second, Vector w, Vector x) {
    first = vbfmlalbq_f32(first, w, x);
    second = vbfmlaltq_f32(second, w, x);
  }
  template <int kLane>
  static void AddLane(float32x4_t& first, float32x4_t& second, Vector w, Vector x) {
    first = vbfmlalbq_laneq_f32(first, w, x, kLane);
    second = vbfmlaltq_laneq_f32(second, w, x, kLane);
  }
  static void Order(float32x4_t first, float32x4_t second, float* y) {
    vst1q_f32(y, vzip1q_f32(first, second));
    vst1q_f32(y + 4, vzip2q_f32(first, second));
  }
};

struct F16 {
  using Vector = float16x8_t;
  static Vector Load(const uint16_t* p) { return vreinterpretq_f16_u16(vld1q_u16(p)); }
  static float One(uint16_t bits) { return static_cast<float>(__builtin_bit_cast(__fp16, bits)); }
  // The lower half and the upper one.
  static void Add(float32x4_t& first, float32x4_t& second, Vector w, Vector x) {
    first = vfmlalq_low_f16(first, w, x);
    second = vfmlalq_high_f16(second, w, x);
  }
  template <int kLane>
  static void AddLane(float32x4_t& first, float32x4_t& second, Vector w, Vector x) {
    first = vfmlalq_laneq_low_f16(first, w, x, kLane);
    second = vfmlalq_laneq_high_f16(second, w, x, kLane);
  }
  static void Order(float32x4_t first, float32x4_t second, float* y) {
    vst1q_f32(y, first);
    vst1q_f32(y + 4, second);
  }
};

template <class T>
void Spread(int64_t n, int64_t rows, const uint16_t* x, const uint16_t* w, int64_t ld, float* sums) {
  int64_t j = 0;
  if (rows == kSpreadRows) {
    const typename T::Vector v = T::Load(x);
    for (; j + 8 <= n; j += 8) {
      float32x4_t first = vld1q_f32(sums + j), second = vld1q_f32(sums + j + 4);
      const uint16_t* p = w + j;
      T::template AddLane<0>(first, second, T::Load(p), v);
      T::template AddLane<1>(first, second, T::Load(p + ld), v);
      T::template AddLane<2>(first, second, T::Load(p + 2 * ld), v);
      T::template AddLane<3>(first, second, T::Load(p + 3 * ld), v);
      T::template AddLane<4>(first, second, T::Load(p + 4 * ld), v);
      T::template AddLane<5>(first, second, T::Load(p + 5 * ld), v);
      T::template AddLane<6>(first, second, T::Load(p + 6 * ld), v);
      T::template AddLane<7>(first, second, T::Load(p + 7 * ld), v);
      vst1q_f32(sums + j, first);
      vst1q_f32(sums + j + 4, second);
    }
  } else {
    for (; j + 8 <= n; j += 8) {
      float32x4_t first = vld1q_f32(sums + j), second = vld1q_f32(sums + j + 4);
      for (int64_t r = 0; r < rows; ++r) {
        uint16_t same[8];
        for (uint16_t& s : same) s = x[r];
        T::Add(first, second, T::Load(w + r * ld + j), T::Load(same));
      }
      vst1q_f32(sums + j, first);
      vst1q_f32(sums + j + 4, second);
    }
  }
  for (; j < n; ++j)
    for (int64_t r = 0; r < rows; ++r) sums[j] = __builtin_fmaf(T::One(x[r]), T::One(w[r * ld + j]), sums[j]);
}

template <class T>
void Collect(int64_t n, const float* sums, float* y) {
  int64_t j = 0;
  for (; j + 8 <= n; j += 8) T::Order(vld1q_f32(sums + j), vld1q_f32(sums + j + 4), y + j);
  for (; j < n; ++j) y[j] = sums[j];
}

template <class T>
void Dots(int64_t k, const uint16_t* x, const uint16_t* w, int64_t ld, float* y) {
  float32x4_t first[kDotRows], second[kDotRows];
  for (int r = 0; r < kDotRows; ++r) first[r] = second[r] = vdupq_n_f32(0);
  int64_t i = 0;
  for (; i + 8 <= k; i += 8) {
    const typename T::Vector v = T::Load(x + i);
    for (int r = 0; r < kDotRows; ++r) T::Add(first[r], second[r], T::Load(w + r * ld + i), v);
  }
  for (int r = 0; r < kDotRows; ++r) {
    float sum = vaddvq_f32(vaddq_f32(first[r], second[r]));
    for (int64_t j = i; j < k; ++j) sum = __builtin_fmaf(T::One(x[j]), T::One(w[r * ld + j]), sum);
    y[r] = sum;
  }
}

// ---- tiles

/// bfmmla: 2 x 4 times 4 x 2, into sums that lie as r0c0 r0c1 r1c0 r1c1.
void TileBf16(int64_t groups, const uint16_t* a, const uint16_t* b, float* c, int64_t ldc, bool add) {
  constexpr int kRowPairs = kTileRows / 2, kColPairs = kTileCols / 2;
  float32x4_t sums[kRowPairs][kColPairs];
  for (int i = 0; i < kRowPairs; ++i) {
    for (int j = 0; j < kColPairs; ++j) {
      const float* p = c + 2 * i * ldc + 2 * j;
      sums[i][j] = add ? vcombine_f32(vld1_f32(p), vld1_f32(p + ldc)) : vdupq_n_f32(0);
    }
  }
  for (; groups > 0; --groups, a += kTileRows * kTileDepth, b += kTileCols * kTileDepth) {
    bfloat16x8_t rows[kRowPairs];
    for (int i = 0; i < kRowPairs; ++i) rows[i] = Bf16::Load(a + 8 * i);
    for (int j = 0; j < kColPairs; ++j) {
      const bfloat16x8_t cols = Bf16::Load(b + 8 * j);
      for (int i = 0; i < kRowPairs; ++i) sums[i][j] = vbfmmlaq_f32(sums[i][j], rows[i], cols);
    }
  }
  for (int i = 0; i < kRowPairs; ++i) {
    for (int j = 0; j < kColPairs; ++j) {
      float* p = c + 2 * i * ldc + 2 * j;
      vst1_f32(p, vget_low_f32(sums[i][j]));
      vst1_f32(p + ldc, vget_high_f32(sums[i][j]));
    }
  }
}

/// fmlal: one element of each row times four columns.
template <int kRow>
void AddRow(float32x4_t sums[][3], float16x8_t rows, float16x8_t cols, float16x4_t more) {
  sums[kRow][0] = vfmlalq_laneq_low_f16(sums[kRow][0], cols, rows, kRow);
  sums[kRow][1] = vfmlalq_laneq_high_f16(sums[kRow][1], cols, rows, kRow);
  sums[kRow][2] = vfmlalq_laneq_low_f16(sums[kRow][2], vcombine_f16(more, more), rows, kRow);
  if constexpr (kRow + 1 < kTileRows) AddRow<kRow + 1>(sums, rows, cols, more);
}

void TileF16(int64_t groups, const uint16_t* a, const uint16_t* b, float* c, int64_t ldc, bool add) {
  static_assert(kTileCols == 12 && kTileRows == 8);
  float32x4_t sums[kTileRows][3];
  for (int i = 0; i < kTileRows; ++i)
    for (int j = 0; j < 3; ++j) sums[i][j] = add ? vld1q_f32(c + i * ldc + 4 * j) : vdupq_n_f32(0);
  for (int64_t k = 0; k < kTileDepth * groups; ++k, a += kTileRows, b += kTileCols)
    AddRow<0>(sums, F16::Load(a), F16::Load(b), vreinterpret_f16_u16(vld1_u16(b + 8)));
  for (int i = 0; i < kTileRows; ++i)
    for (int j = 0; j < 3; ++j) vst1q_f32(c + i * ldc + 4 * j, sums[i][j]);
}

}  // namespace

const DirectLoops kArmBf16Loops = {
    4, TileBf16, ByColumn::Along, PackAcross<ByColumn>, Spread<Bf16>, Collect<Bf16>, Dots<Bf16>};
const DirectLoops kArmF16Loops = {16, TileF16, ByRow::Along, PackAcross<ByRow>, Spread<F16>, Collect<F16>, Dots<F16>};

}  // namespace tessera::cpu
#endif
