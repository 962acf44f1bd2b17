#include "interp/cpu/gemm_narrow.h"

#include <algorithm>

#include "interp/cpu/convert.h"
#include "interp/cpu/gemm_direct.h"
#include "interp/cpu/strided.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

// Elements of a panel: 32 MiB of f32 where the pool works on one product together, and what stays in a core's cache
// where each thread converts panels of its own.
constexpr int64_t kSharedPanel = int64_t{8} << 20;
constexpr int64_t kOwnPanel = 64 * 1024;
// Products with fewer rows (or columns) than this read the larger operand once, so each thread converts what it uses.
constexpr int64_t kSkinny = 16;
// Multiply-adds below which a product of a batch is not split.
constexpr int64_t kSmallProduct = 4 * 1024 * 1024;
constexpr int64_t kConvertGrain = 32 * 1024;

const char* At(const void* base, DType t, int64_t elements) {
  return static_cast<const char*>(base) + elements * static_cast<int64_t>(SizeOf(t));
}

/// `outer` runs of `inner` adjacent elements, ld apart, become one contiguous f32 block.
void Widen(const char* from, DType t, int64_t ld, int64_t outer, int64_t inner, float* to, bool threaded) {
  const auto rows = [&](int64_t begin, int64_t end) {
    if (ld == inner) {
      Convert(to + begin * inner, DType::f32, At(from, t, begin * inner), t, (end - begin) * inner);
      return;
    }
    for (int64_t i = begin; i < end; ++i) Convert(to + i * inner, DType::f32, At(from, t, i * ld), t, inner);
  };
  if (!threaded) return rows(0, outer);
  rt::ParallelFor(outer, std::max<int64_t>(1, kConvertGrain / std::max<int64_t>(1, inner)), rows);
}

/// A rows x cols matrix of form `f` as f32; returns its form.
BlasMatrix WidenMatrix(const char* from, DType t, BlasMatrix f, int64_t rows, int64_t cols, float* to, bool threaded) {
  const int64_t outer = f.transposed ? cols : rows, inner = f.transposed ? rows : cols;
  Widen(from, t, f.ld, outer, inner, to, threaded);
  return {f.transposed, inner};
}

int64_t PanelExtent(int64_t dim, int64_t k, int64_t elements) {
  return std::min(dim, std::max<int64_t>(64, elements / k / 64 * 64));
}

struct Item {
  DType t;
  int64_t m, n, k;
  const char* a;
  const char* b;
  BlasMatrix fa, fb;
  char* c;
};

const char* RowAt(const char* p, DType t, BlasMatrix f, int64_t i) { return At(p, t, i * (f.transposed ? 1 : f.ld)); }
const char* ColAt(const char* p, DType t, BlasMatrix f, int64_t j) { return At(p, t, j * (f.transposed ? f.ld : 1)); }

/// Panel by panel; with `threaded` the pool converts and multiplies each panel.
absl::Status ByPanels(const rt::Blas& blas, const Item& x, bool threaded) {
  const int64_t rows = PanelExtent(x.m, x.k, kSharedPanel), cols = PanelExtent(x.n, x.k, kSharedPanel);
  TSR_ASSIGN_OR_RETURN(Scratch scratch, Scratch::Make(sizeof(float) * (rows * x.k + x.k * cols + rows * cols)));
  float* a = scratch.as<float>();
  float* b = a + rows * x.k;
  float* c = b + x.k * cols;
  BlasMatrix fa;
  for (int64_t j = 0; j < x.n; j += cols) {
    const int64_t nj = std::min(cols, x.n - j);
    const BlasMatrix fb = WidenMatrix(ColAt(x.b, x.t, x.fb, j), x.t, x.fb, x.k, nj, b, threaded);
    for (int64_t i = 0; i < x.m; i += rows) {
      const int64_t mi = std::min(rows, x.m - i);
      if (j == 0 || rows < x.m) fa = WidenMatrix(RowAt(x.a, x.t, x.fa, i), x.t, x.fa, mi, x.k, a, threaded);
      if (threaded) {
        BlasGemmThreaded(blas, mi, nj, x.k, 1.0f, a, fa, b, fb, 0.0f, c, nj);
      } else {
        BlasGemm(blas, mi, nj, x.k, 1.0f, a, fa, b, fb, 0.0f, c, nj);
      }
      const auto narrow = [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          Convert(const_cast<char*>(At(x.c, x.t, (i + r) * x.n + j)), x.t, c + r * nj, DType::f32, nj);
        }
      };
      if (threaded) {
        rt::ParallelFor(mi, std::max<int64_t>(1, kConvertGrain / nj), narrow);
      } else {
        narrow(0, mi);
      }
    }
  }
  return absl::OkStatus();
}

/// For few rows or few columns: the smaller operand is converted once, pieces of the larger one by whoever needs them.
absl::Status Skinny(const rt::Blas& blas, const Item& x) {
  const bool few_rows = x.m <= x.n;
  const int64_t few = few_rows ? x.m : x.n, many = few_rows ? x.n : x.m;
  TSR_ASSIGN_OR_RETURN(Scratch scratch, Scratch::Make(sizeof(float) * few * x.k));
  float* small = scratch.as<float>();
  const BlasMatrix f_small = few_rows ? WidenMatrix(x.a, x.t, x.fa, x.m, x.k, small, true)
                                      : WidenMatrix(x.b, x.t, x.fb, x.k, x.n, small, true);
  const int64_t step = PanelExtent(many, x.k, kOwnPanel);
  FirstError error;
  ParallelBlas(blas, many, step, [&](int64_t first, int64_t last) {
    auto panel = Scratch::Make(sizeof(float) * (step * x.k + step * few));
    if (!panel.ok()) return error.Add(panel.status());
    float* large = panel->as<float>();
    float* c = large + step * x.k;
    for (int64_t begin = first; begin < last; begin += step) {
      const int64_t end = std::min(last, begin + step), count = end - begin;
      if (few_rows) {
        const BlasMatrix f = WidenMatrix(ColAt(x.b, x.t, x.fb, begin), x.t, x.fb, x.k, count, large, false);
        BlasGemm(blas, few, count, x.k, 1.0f, small, f_small, large, f, 0.0f, c, count);
        for (int64_t i = 0; i < few; ++i) {
          Convert(const_cast<char*>(At(x.c, x.t, i * x.n + begin)), x.t, c + i * count, DType::f32, count);
        }
      } else {
        const BlasMatrix f = WidenMatrix(RowAt(x.a, x.t, x.fa, begin), x.t, x.fa, count, x.k, large, false);
        BlasGemm(blas, count, few, x.k, 1.0f, large, f, small, f_small, 0.0f, c, few);
        Convert(const_cast<char*>(At(x.c, x.t, begin * x.n)), x.t, c, DType::f32, count * few);
      }
    }
  });
  return error.Take();
}

}  // namespace

absl::Status NarrowGemm(const rt::Blas& blas, const GemmArgs& p, int64_t count, BlasMatrix fa, BlasMatrix fb) {
  const auto item = [&](int64_t t) {
    return Item{p.dtype,
                p.m,
                p.n,
                p.k,
                At(p.a.data, p.dtype, BatchOffset(p, p.a, t)),
                At(p.b.data, p.dtype, BatchOffset(p, p.b, t)),
                fa,
                fb,
                const_cast<char*>(At(p.c, p.dtype, t * p.m * p.n))};
  };
  const int64_t work = p.m * p.n * p.k;
  const bool direct = HasDirectGemm(p.dtype), skinny = std::min(p.m, p.n) < kSkinny;
  const auto multiply = [&](int64_t t, bool threaded) {
    const Item x = item(t);
    if (direct) return DirectGemm(x.t, x.m, x.n, x.k, x.a, x.fa, x.b, x.fb, x.c, threaded);
    return threaded && skinny ? Skinny(blas, x) : ByPanels(blas, x, threaded);
  };
  if (count == 1 || work >= kSmallProduct) {
    for (int64_t t = 0; t < count; ++t) TSR_RETURN_IF_ERROR(multiply(t, true));
    return absl::OkStatus();
  }
  FirstError error;
  const auto some = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      if (absl::Status s = multiply(t, false); !s.ok()) return error.Add(std::move(s));
  };
  const int64_t grain = std::max<int64_t>(1, kSmallProduct / 8 / work);
  if (direct) {
    rt::ParallelFor(count, grain, some);
  } else {
    ParallelBlas(blas, count, grain, some);
  }
  return error.Take();
}

}  // namespace tessera::cpu
