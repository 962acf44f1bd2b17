// The op conv. Three ways: a depthwise window is slid directly; a 1x1 window of stride 1 is a matrix product with x
// as it lies; anything else copies windows into columns, a bounded chunk at a time, and multiplies.
#include <algorithm>
#include <climits>
#include <cstring>

#include "interp/cpu/convert.h"
#include "interp/cpu/gemm.h"
#include "interp/cpu/windows.h"
#include "interp/kernel.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

// Elements of a chunk of columns. A chunk has at least kMinChunk positions, or packing the weights for the product
// would cost more than the product.
constexpr int64_t kChunkElements = 256 * 1024;
constexpr int64_t kMinChunk = 256;

struct Conv {
  const View& x;
  const View& y;
  Windows w;
  int64_t groups, inputs, outputs;  // inputs and outputs: channels of one group
  DType dtype, compute;
};

/// The weights [O, C/groups * taps] or the bias [O], contiguous and in the compute dtype.
absl::StatusOr<const void*> Dense(const View& v, DType compute, Scratch* contiguous, Scratch* wide) {
  TSR_ASSIGN_OR_RETURN(View dense, MakeContiguous(v, contiguous));
  if (dense.dtype == compute) return dense.data;
  TSR_ASSIGN_OR_RETURN(*wide, Scratch::Make(SizeOf(compute) * static_cast<size_t>(v.size())));
  Convert(wide->data(), compute, dense.data, dense.dtype, v.size());
  return wide->data();
}

/// Row `k` of the columns for output positions [begin, begin + count): what tap and channel number k of the group read
/// there. E is any type of the element's size; padding is all bits 0, which is 0 in every dtype.
template <class E>
void ColumnRow(const Conv& c, const E* x, int64_t k, int64_t begin, int64_t count, E* to) {
  const WindowDim &dz = c.w.dim[0], &dy = c.w.dim[1], &dx = c.w.dim[2];
  const int64_t wx = k % dx.window, wy = k / dx.window % dy.window, wz = k / (dx.window * dy.window) % dz.window;
  const E* plane = x + k / c.w.taps() * c.w.x_channel;
  int64_t valid_first, valid_last;
  dx.Valid(wx, &valid_first, &valid_last);
  const int64_t step = dx.stride * dx.x_stride;
  for (int64_t p = begin; p < begin + count;) {
    const int64_t ox = p % dx.out, oy = p / dx.out % dy.out, oz = p / (dx.out * dy.out);
    const int64_t end = std::min(dx.out, ox + begin + count - p), n = end - ox;
    const int64_t z = dz.Position(oz, wz), y = dy.Position(oy, wy);
    if (z < 0 || z >= dz.in || y < 0 || y >= dy.in) {
      std::memset(to, 0, sizeof(E) * n);
    } else {
      const int64_t first = std::clamp(valid_first, ox, end), last = std::clamp(valid_last, first, end);
      const E* from = plane + z * dz.x_stride + y * dy.x_stride + dx.Position(first, wx) * dx.x_stride;
      std::memset(to, 0, sizeof(E) * (first - ox));
      E* row = to + (first - ox);
      if (step == 1) {
        std::memcpy(row, from, sizeof(E) * (last - first));
      } else {
        for (int64_t i = 0; i < last - first; ++i) row[i] = from[i * step];
      }
      std::memset(to + (last - ox), 0, sizeof(E) * (end - last));
    }
    to += n;
    p += n;
  }
}

template <class T>
void FillColumnRow(const Conv& c, const char* x, int64_t k, int64_t begin, int64_t count, void* raw, T* to) {
  switch (SizeOf(c.dtype)) {
    case 1: ColumnRow(c, reinterpret_cast<const uint8_t*>(x), k, begin, count, static_cast<uint8_t*>(raw)); break;
    case 2: ColumnRow(c, reinterpret_cast<const uint16_t*>(x), k, begin, count, static_cast<uint16_t*>(raw)); break;
    default: return ColumnRow(c, reinterpret_cast<const T*>(x), k, begin, count, to);
  }
  Convert(to, c.compute, raw, c.dtype, count);
}

/// x of one image and group can be the right side of the product as it lies.
bool ColumnsAreInput(const Conv& c) {
  if (c.dtype != c.compute || c.w.taps() != 1) return false;
  int64_t want = 1;
  for (int i = 2; i >= 0; --i) {
    const WindowDim& d = c.w.dim[i];
    if (d.in != d.out || d.stride != 1) return false;
    if (d.in != 1 && d.x_stride != want) return false;
    want *= d.in;
  }
  return c.inputs == 1 || (c.w.x_channel >= want && c.w.x_channel <= INT_MAX);
}

template <class T>
absl::Status ByProducts(const Conv& c, const T* weight, const T* bias) {
  TSR_ASSIGN_OR_RETURN(const rt::Blas* blas, rt::GetBlas());
  const int64_t depth = c.inputs * c.w.taps(), positions = c.w.positions();
  const bool direct = ColumnsAreInput(c), narrow = c.dtype != c.compute;
  if (std::max({depth, positions, c.outputs}) > INT_MAX) {
    return Unsupported("a product of ", c.outputs, " x ", depth, " by ", depth, " x ", positions,
                       ": dims must be below 2^31; split the input");
  }
  const int64_t chunk =
      std::min(positions, std::max<int64_t>(kMinChunk, kChunkElements / std::max<int64_t>(1, depth) / 64 * 64));
  const int64_t chunks = (positions + chunk - 1) / chunk, tasks = c.w.batch * c.groups * chunks;
  const int64_t size = static_cast<int64_t>(SizeOf(c.dtype));
  // Few large tasks: each is done by all threads together.
  const bool together = tasks < 2 * int64_t{rt::NumThreads()} && c.outputs * depth * chunk >= 4 * 1024 * 1024;

  const auto task = [&](int64_t t) -> absl::Status {
    const int64_t image = t / (c.groups * chunks), group = t / chunks % c.groups, begin = t % chunks * chunk;
    const int64_t count = std::min(chunk, positions - begin);
    const char* x = c.x.as<const char>() + (image * c.w.x_batch + group * c.inputs * c.w.x_channel) * size;
    const int64_t first_output = (image * c.groups + group) * c.outputs;
    // Columns, the result before it is rounded, and a row before it is widened.
    const int64_t columns_n = direct ? 0 : depth * count, result_n = narrow ? c.outputs * count : 0;
    const int64_t raw_n = narrow ? (count + 1) / 2 : 0;
    TSR_ASSIGN_OR_RETURN(Scratch scratch, Scratch::Make(sizeof(T) * static_cast<size_t>(columns_n + result_n + raw_n)));
    T* columns = scratch.as<T>();
    T* result = narrow ? columns + columns_n : c.y.as<T>() + first_output * positions + begin;
    const int64_t ldc = narrow ? count : positions;
    for (int64_t o = 0; o < c.outputs; ++o) {
      std::fill_n(result + o * ldc, count, bias != nullptr ? bias[group * c.outputs + o] : T(0));
    }
    if (depth > 0) {
      BlasMatrix form = {false, direct ? std::max(c.w.x_channel, positions) : count};
      const T* right = columns;
      if (direct) {
        right = reinterpret_cast<const T*>(x) + begin;
      } else if (together && !narrow) {
        const int64_t grain = std::max<int64_t>(1, rt::options().parallel_grain() / count);
        rt::ParallelFor(depth, grain, [&](int64_t first, int64_t last) {
          for (int64_t k = first; k < last; ++k) FillColumnRow(c, x, k, begin, count, nullptr, columns + k * count);
        });
      } else {
        void* raw = columns + columns_n + result_n;
        for (int64_t k = 0; k < depth; ++k) FillColumnRow(c, x, k, begin, count, raw, columns + k * count);
      }
      const T* left = weight + group * c.outputs * depth;
      const BlasMatrix left_form = {false, depth};
      if (together) {
        BlasGemmThreaded(*blas, c.outputs, count, depth, T(1), left, left_form, right, form, T(1), result, ldc);
      } else {
        BlasGemm(*blas, c.outputs, count, depth, T(1), left, left_form, right, form, T(1), result, ldc);
      }
    }
    if (narrow) {
      for (int64_t o = 0; o < c.outputs; ++o) {
        Convert(c.y.as<char>() + ((first_output + o) * positions + begin) * size, c.dtype, result + o * ldc, c.compute,
                count);
      }
    }
    return absl::OkStatus();
  };

  if (together) {
    for (int64_t t = 0; t < tasks; ++t) TSR_RETURN_IF_ERROR(task(t));
    return absl::OkStatus();
  }
  const int64_t work = std::max<int64_t>(1, depth * std::min(chunk, positions) * std::max<int64_t>(1, c.outputs / 16));
  FirstError error;
  ParallelBlas(*blas, tasks, std::max<int64_t>(1, rt::options().parallel_grain() / work),
               [&](int64_t begin, int64_t end) {
                 for (int64_t t = begin; t < end; ++t) {
                   if (absl::Status s = task(t); !s.ok()) return error.Add(std::move(s));
                 }
               });
  return error.Take();
}

/// One input channel for each group.
template <class T>
absl::Status Depthwise(const Conv& c, const T* weight, const T* bias, const RowLoops<T>& loops) {
  const int64_t positions = c.w.positions(), row_length = c.w.dim[2].out, taps = c.w.taps();
  const bool narrow = c.dtype != c.compute, copy = PlaneNeedsCopy(c.w, c.x);
  const int64_t size = static_cast<int64_t>(SizeOf(c.dtype));
  const int64_t work = std::max<int64_t>(1, positions * taps * c.outputs);
  FirstError error;
  rt::ParallelFor(c.w.batch * c.groups, std::max<int64_t>(1, rt::options().parallel_grain() / work),
                  [&](int64_t begin, int64_t end) {
                    const int64_t plane = copy ? c.w.plane() : 0;
                    auto scratch = Scratch::Make(sizeof(T) * static_cast<size_t>(plane + (narrow ? row_length : 0)));
                    if (!scratch.ok()) return error.Add(scratch.status());
                    T* row_buffer = scratch->template as<T>() + plane;
                    for (int64_t p = begin; p < end; ++p) {
                      const int64_t group = p % c.groups;
                      int64_t strides[3];
                      const T* from =
                          static_cast<const T*>(PlaneOf(c.w, c.x, p / c.groups, group, scratch->data(), strides));
                      for (int64_t o = 0; o < c.outputs; ++o) {
                        char* to = c.y.as<char>() + (p * c.outputs + o) * positions * size;
                        const T* taps_of = weight + (group * c.outputs + o) * taps;
                        const T start = bias != nullptr ? bias[group * c.outputs + o] : T(0);
                        const auto row_at = [&](int64_t row) {
                          return narrow ? row_buffer : reinterpret_cast<T*>(to) + row * row_length;
                        };
                        std::fill_n(row_at(0), row_length, start);
                        SlideWindows(
                            c.w, strides,
                            [&](int64_t row, int64_t tap, int64_t first, int64_t last, int64_t source, int64_t step) {
                              loops.multiply_add(row_at(row) + first, from + source, step, taps_of[tap], last - first);
                            },
                            [&](int64_t row, int64_t, int64_t) {
                              if (narrow)
                                Convert(to + row * row_length * size, c.dtype, row_buffer, c.compute, row_length);
                              if ((row + 1) * row_length < positions) std::fill_n(row_at(row + 1), row_length, start);
                            });
                      }
                    }
                  });
  return error.Take();
}

template <class T>
absl::Status Run(const Conv& c, const void* weight, const void* bias, const RowLoops<T>& loops) {
  const T* w = static_cast<const T*>(weight);
  const T* b = static_cast<const T*>(bias);
  if (c.inputs == 1 && c.outputs <= 4 && c.groups > 1) return Depthwise<T>(c, w, b, loops);
  return ByProducts<T>(c, w, b);
}

}  // namespace

absl::Status k_conv(const interp::KernelArgs& args) {
  const View &x = *args.in[0], &weight = *args.in[1], &y = *args.out[0];
  const View* bias = args.in.size() > 2 ? args.in[2] : nullptr;
  if (y.size() == 0) return absl::OkStatus();
  Conv c{x, y, {}, args.integer(3), 0, 0, y.dtype, ComputeDType(y.dtype)};
  c.w =
      MakeWindows(x, y, absl::MakeSpan(weight.dims + 2, weight.rank - 2), args.ints(0), {}, args.ints(1), args.ints(2));
  c.inputs = weight.dims[1];
  c.outputs = weight.dims[0] / c.groups;
  Scratch weight_dense, weight_wide, bias_dense, bias_wide;
  TSR_ASSIGN_OR_RETURN(const void* w, Dense(weight, c.compute, &weight_dense, &weight_wide));
  const void* b = nullptr;
  if (bias != nullptr) {
    TSR_ASSIGN_OR_RETURN(b, Dense(*bias, c.compute, &bias_dense, &bias_wide));
  }
  static const WindowLoops& loops = TSR_SELECT_ISA(kWindowLoops);
  return c.compute == DType::f64 ? Run<double>(c, w, b, loops.f64) : Run<float>(c, w, b, loops.f32);
}

}  // namespace tessera::cpu
