// Kernels that write at indices: scatter and put_along_axis. Updates that meet in one element apply in their order,
// whatever the number of threads: work is divided by destination, and each thread goes through the updates in order.
#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "interp/cpu/convert.h"
#include "interp/cpu/ids.h"
#include "interp/cpu/math/basic.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

enum class Mode { set, add, max, min };

Mode ModeOf(const std::string& name) {
  return name == "add" ? Mode::add : name == "max" ? Mode::max : name == "min" ? Mode::min : Mode::set;
}

template <Mode kMode, class T>
inline T Apply(T old, T update) {
  if constexpr (kMode == Mode::set) {
    return update;
  } else if constexpr (kMode == Mode::add) {
    if constexpr (std::is_same_v<T, bool>)
      return old || update;
    else if constexpr (std::is_integral_v<T>) {
      // Wraps, which only unsigned arithmetic promises.
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(old) + static_cast<U>(update)));
    } else {
      return old + update;
    }
  } else {
    // As the ops maximum and minimum: NaN if either is, +0 > -0.
    if constexpr (std::is_floating_point_v<T>)
      return kMode == Mode::max ? base::Maximum(old, update) : base::Minimum(old, update);
    else
      return (kMode == Mode::max ? old < update : update < old) ? update : old;
  }
}

/// dst[i] = f(dst[i], src[i]) for contiguous elements of one dtype.
using Combine = void (*)(void* dst, const void* src, int64_t n);

template <Mode kMode, class T>
void CombineTyped(void* dst, const void* src, int64_t n) {
  T* d = static_cast<T*>(dst);
  const T* s = static_cast<const T*>(src);
  for (int64_t i = 0; i < n; ++i) d[i] = Apply<kMode, T>(d[i], s[i]);
}

/// In f32, rounded for each update.
template <Mode kMode, DType kType>
void CombineNarrow(void* dst, const void* src, int64_t n) {
  constexpr int64_t kBlock = 128, kSize = SizeOf(kType);
  float a[kBlock], b[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    char* d = static_cast<char*>(dst) + i * kSize;
    Convert(a, DType::f32, d, kType, m);
    Convert(b, DType::f32, static_cast<const char*>(src) + i * kSize, kType, m);
    for (int64_t k = 0; k < m; ++k) a[k] = Apply<kMode, float>(a[k], b[k]);
    Convert(d, kType, a, DType::f32, m);
  }
}

template <int64_t kSize>
void CombineSet(void* dst, const void* src, int64_t n) {
  if (n == 1) {
    std::memcpy(dst, src, kSize);
  } else {
    std::memcpy(dst, src, n * kSize);
  }
}

template <Mode kMode>
Combine CombineOf(DType t) {
  switch (t) {
    case DType::f64: return CombineTyped<kMode, double>;
    case DType::f32: return CombineTyped<kMode, float>;
    case DType::f16: return CombineNarrow<kMode, DType::f16>;
    case DType::bf16: return CombineNarrow<kMode, DType::bf16>;
    case DType::f8e4m3: return CombineNarrow<kMode, DType::f8e4m3>;
    case DType::f8e5m2: return CombineNarrow<kMode, DType::f8e5m2>;
    case DType::i64: return CombineTyped<kMode, int64_t>;
    case DType::i32: return CombineTyped<kMode, int32_t>;
    case DType::i8: return CombineTyped<kMode, int8_t>;
    case DType::u8: return CombineTyped<kMode, uint8_t>;
    case DType::boolean: return CombineTyped<kMode, bool>;
  }
  return nullptr;
}

Combine CombineOf(Mode mode, DType t) {
  switch (mode) {
    case Mode::add: return CombineOf<Mode::add>(t);
    case Mode::max: return CombineOf<Mode::max>(t);
    case Mode::min: return CombineOf<Mode::min>(t);
    case Mode::set: break;
  }
  switch (SizeOf(t)) {
    case 1: return CombineSet<1>;
    case 2: return CombineSet<2>;
    case 4: return CombineSet<4>;
    default: return CombineSet<8>;
  }
}

}  // namespace

absl::Status k_scatter(const interp::KernelArgs& args) {
  const View &x = *args.in[0], &ids = *args.in[1], &y = *args.out[0];
  TSR_ASSIGN_OR_RETURN(const Scratch checked, CheckedOffsets(ids, x, y.strides));
  Scratch scratch;
  TSR_ASSIGN_OR_RETURN(const View updates, MakeContiguous(*args.in[2], &scratch));
  // A version may have put the result where x is (tiers/memory_plan.h).
  if (y.data != x.data) CopyStrided(y, x);
  const int64_t total = updates.size();
  if (total == 0) return absl::OkStatus();
  const int64_t* offsets = checked.as<int64_t>();
  const int64_t size = SizeOf(y.dtype);
  int64_t length = 1;
  for (int i = static_cast<int>(ids.dims[ids.rank - 1]); i < x.rank; ++i) length *= x.dims[i];
  const int64_t rows = total / length;
  const Combine combine = CombineOf(ModeOf(args.str(0)), y.dtype);
  const int64_t grain = rt::options().parallel_grain();
  const int parts = total <= grain ? 1 : rt::NumThreads();
  char* base = y.as<char>();
  const char* from = updates.as<const char>();
  if (length >= parts * 64) {
    // Each part takes some columns of every row.
    rt::ParallelFor(length, (length + parts - 1) / parts, [&](int64_t begin, int64_t end) {
      for (int64_t r = 0; r < rows; ++r)
        combine(base + (offsets[r] + begin) * size, from + (r * length + begin) * size, end - begin);
    });
    return absl::OkStatus();
  }
  // Each part takes a range of destinations and looks at every row. Rows do not straddle ranges: an offset is a
  // multiple of the length.
  const int64_t places = y.size() / length;
  rt::ParallelFor(places, (places + parts - 1) / parts, [&](int64_t begin, int64_t end) {
    const int64_t low = begin * length, high = end * length;
    for (int64_t r = 0; r < rows; ++r) {
      if (offsets[r] >= low && offsets[r] < high) combine(base + offsets[r] * size, from + r * length * size, length);
    }
  });
  return absl::OkStatus();
}

absl::Status k_put_along_axis(const interp::KernelArgs& args) {
  const View &x = *args.in[0], &ids = *args.in[1], &y = *args.out[0];
  const int axis = static_cast<int>(args.integer(0) < 0 ? args.integer(0) + x.rank : args.integer(0));
  TSR_ASSIGN_OR_RETURN(const Scratch checked, CheckedIds(ids, x.dims[axis], axis, "x"));
  Scratch scratch;
  TSR_ASSIGN_OR_RETURN(const View updates, MakeContiguous(*args.in[2], &scratch));
  // A version may have put the result where x is (tiers/memory_plan.h).
  if (y.data != x.data) CopyStrided(y, x);
  if (updates.size() == 0) return absl::OkStatus();
  const int64_t* id = checked.as<int64_t>();
  const int64_t size = SizeOf(y.dtype), count = ids.dims[axis], dim = x.dims[axis];
  int64_t after = 1, before = 1;
  for (int i = 0; i < axis; ++i) before *= x.dims[i];
  for (int i = axis + 1; i < x.rank; ++i) after *= x.dims[i];
  const Combine combine = CombineOf(ModeOf(args.str(1)), y.dtype);
  // Lines along axis do not meet: a thread takes some of them.
  const int64_t grain = std::max<int64_t>(1, rt::options().parallel_grain() / count);
  rt::ParallelFor(before * after, grain, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end;) {
      const int64_t b = line / after, first = line - b * after, last = std::min(after, first + (end - line));
      for (int64_t i = 0; i < count; ++i) {
        const int64_t from = (b * count + i) * after;
        for (int64_t a = first; a < last; ++a) {
          combine(y.as<char>() + ((b * dim + id[from + a]) * after + a) * size,
                  updates.as<const char>() + (from + a) * size, 1);
        }
      }
      line += last - first;
    }
  });
  return absl::OkStatus();
}

}  // namespace tessera::cpu
