// Gradient rules of convolutions and pools.
#include <algorithm>
#include <limits>

#include "ir/grad.h"

namespace tessera::ir {
namespace {

// How a window of n spatial dims slides.
struct Slide {
  int n = 0;
  Ints window, stride, low, high, dilation;
};

Slide ReadSlide(const TensorType& x, Ints window, const Ints& stride, const Ints& default_stride, const Ints& padding,
                const Ints& dilation) {
  Slide s;
  s.n = x.rank - 2;
  s.window = std::move(window);
  s.stride = stride.empty() ? default_stride : stride;
  s.dilation = dilation.empty() ? Ints(s.n, 1) : dilation;
  for (int i = 0; i < s.n; ++i) {
    const bool both = static_cast<int>(padding.size()) == 2 * s.n;
    s.low.push_back(padding.empty() ? 0 : both ? padding[2 * i] : padding[i]);
    s.high.push_back(padding.empty() ? 0 : both ? padding[2 * i + 1] : padding[i]);
  }
  return s;
}

// Elements from the first to the last of `count` that lie `by` apart.
int64_t Span(SymbolTable* t, int64_t count, int64_t by) { return DimAdd(t, DimMul(t, DimSub(t, count, 1), by), 1); }

// x with low and high elements added to each spatial dim, or cut where they are negative.
Expr PadSpatial(GradCall& c, const Expr& x, const Ints& low, const Ints& high, double value) {
  const auto none = [](int64_t v) { return v == 0; };
  if (std::all_of(low.begin(), low.end(), none) && std::all_of(high.begin(), high.end(), none)) return x;
  Ints lows(2, 0), highs(2, 0);
  lows.insert(lows.end(), low.begin(), low.end());
  highs.insert(highs.end(), high.begin(), high.end());
  return c.Emit(Op::k_pad, {x}, {lows, highs, value});
}

// g with stride - 1 zeros between its elements.
Expr Dilate(GradCall& c, const Expr& g, const Ints& stride) {
  if (std::all_of(stride.begin(), stride.end(), [](int64_t s) { return s == 1; })) return g;
  TensorType type = c.TypeOf(g);
  Ints starts(type.rank, 0), steps(type.rank, 1);
  for (size_t i = 0; i < stride.size(); ++i) {
    type.dims[2 + i] = Span(c.symbols(), type.dims[2 + i], stride[i]);
    steps[2 + i] = stride[i];
  }
  return c.Emit(Op::k_update_slice, {c.Zeros(type), g}, {starts, steps});
}

Expr Conv(GradCall& c, const Expr& x, const Expr& w, const Ints& stride, const Ints& dilation, int64_t groups) {
  return c.Emit(Op::k_conv, {x, w, Expr(&c, kNoArg)}, {stride, Ints(), dilation, groups});
}

Ints Spatial(int n) {
  Ints axes;
  for (int i = 0; i < n; ++i) axes.push_back(2 + i);
  return axes;
}

// What goes back to x when each window gives g times `turned` [C, O/groups, window...], its weights turned round.
Expr SpreadWindows(GradCall& c, const Expr& g, const Expr& turned, const Slide& s, const TensorType& x,
                   const TensorType& y, int64_t groups) {
  SymbolTable* t = c.symbols();
  Ints low, high;
  for (int i = 0; i < s.n; ++i) {
    const int64_t reach = DimMul(t, DimSub(t, s.window[i], 1), s.dilation[i]);
    low.push_back(DimSub(t, reach, s.low[i]));
    const int64_t have = DimAdd(t, low[i], Span(t, y.dims[2 + i], s.stride[i]));
    high.push_back(DimSub(t, DimAdd(t, x.dims[2 + i], reach), have));
  }
  return Conv(c, PadSpatial(c, Dilate(c, g, s.stride), low, high, 0), turned, Ints(), s.dilation, groups);
}

}  // namespace

void Grad_conv(GradCall& c) {
  const TensorType x = c.InType(0), w = c.InType(1), y = c.OutType();
  SymbolTable* t = c.symbols();
  const int n = x.rank - 2;
  const int64_t groups = c.integer(3), in_channels = w.dims[1], out_channels = w.dims[0];
  const Slide s = ReadSlide(x, Ints(w.dims + 2, w.dims + w.rank), c.ints(0), Ints(n, 1), c.ints(1), c.ints(2));
  const Expr g = c.Grad();
  const Ints spatial = Spatial(n);
  if (c.Wants(2)) {
    Ints axes = spatial;
    axes.insert(axes.begin(), 0);
    c.Give(2, c.Sum(g, axes, false));
  }
  // A tensor [groups * a, b, ...] as [groups, a, b, ...], the second and third dims swapped, and flat again.
  const auto swap = [&](const Expr& v, const TensorType& type, int64_t a, int first) {
    Ints dims(type.dims, type.dims + type.rank), perm;
    dims[first] = groups;
    dims.insert(dims.begin() + first + 1, a);
    for (int i = 0; i < static_cast<int>(dims.size()); ++i) perm.push_back(i);
    return std::make_pair(c.Reshape(v, dims), perm);
  };
  if (c.Wants(0)) {
    // [O, C/groups, ...] to [C, O/groups, ...], the window turned round.
    Expr turned = c.Emit(Op::k_flip, {c.In(1)}, {spatial});
    const int64_t each = DimFloorDiv(t, out_channels, groups);
    if (groups == 1) {
      Ints perm = {1, 0};
      perm.insert(perm.end(), spatial.begin(), spatial.end());
      turned = c.Transpose(turned, perm);
    } else {
      auto [parts, perm] = swap(turned, w, each, 0);
      std::swap(perm[1], perm[2]);
      Ints dims = {DimMul(t, in_channels, groups), each};
      dims.insert(dims.end(), w.dims + 2, w.dims + w.rank);
      turned = c.Reshape(c.Transpose(parts, perm), dims);
    }
    c.Give(0, SpreadWindows(c, g, turned, s, x, y, groups));
  }
  if (!c.Wants(1)) return;
  // A convolution of x with g: channels are its batch, the batch its channels; stride and dilation change places.
  Ints high;
  for (int i = 0; i < n; ++i) {
    const int64_t used =
        DimAdd(t, Span(t, y.dims[2 + i], s.stride[i]), DimMul(t, DimSub(t, s.window[i], 1), s.dilation[i]));
    high.push_back(DimSub(t, DimSub(t, used, x.dims[2 + i]), s.low[i]));
  }
  const Expr padded = PadSpatial(c, c.In(0), s.low, high, 0);
  Ints turn = {1, 0};
  turn.insert(turn.end(), spatial.begin(), spatial.end());
  Expr images;
  if (groups == 1) {
    images = c.Transpose(padded, turn);
  } else {
    // [N, G*C, ...] to [C, G*N, ...]
    TensorType type = c.TypeOf(padded);
    auto [parts, perm] = swap(padded, type, in_channels, 1);
    std::swap(perm[0], perm[2]);
    Ints dims(type.dims, type.dims + type.rank);
    dims[0] = in_channels;
    dims[1] = DimMul(t, groups, x.dims[0]);
    images = c.Reshape(c.Transpose(parts, perm), dims);
  }
  c.Give(1, c.Transpose(Conv(c, images, c.Transpose(g, turn), s.dilation, s.stride, groups), turn));
}

void Grad_avg_pool(GradCall& c) {
  const TensorType x = c.InType(0), y = c.OutType();
  SymbolTable* t = c.symbols();
  const Slide s = ReadSlide(x, c.ints(0), c.ints(1), c.ints(0), c.ints(2), c.ints(3));
  double taps = 1;
  for (int64_t w : s.window) taps *= static_cast<double>(w);
  Expr g = c.WideGrad();
  const DType dtype = c.TypeOf(g).dtype;
  if (c.flag(4)) {
    g = g / taps;
  } else {
    // The mean of ones, padding counted, is the part of each window that lies inside.
    Ints image(x.dims, x.dims + x.rank);
    image[0] = image[1] = 1;
    const Expr ones = c.Full(1, image, dtype);
    g = g / (c.Emit(Op::k_avg_pool, {ones}, {c.ints(0), c.ints(1), c.ints(2), c.ints(3), true}) * taps);
  }
  // Channels are images of their own.
  const auto planes = [&](const TensorType& type) {
    Ints dims(type.dims, type.dims + type.rank);
    dims[0] = DimMul(t, type.dims[0], type.dims[1]);
    dims[1] = 1;
    return dims;
  };
  Ints kernel(2, 1);
  kernel.insert(kernel.end(), s.window.begin(), s.window.end());
  TensorType flat_x = x, flat_y = y;
  flat_x.dims[1] = flat_y.dims[1] = 1;
  const Expr spread = SpreadWindows(c, c.Reshape(g, planes(y)), c.Full(1, kernel, dtype), s, flat_x, flat_y, 1);
  c.Give(0, c.Reshape(spread, {x.dims, x.rank}));
}

// One place of the window at a time: where x is the largest there, g goes back to it. Ties share.
void Grad_max_pool(GradCall& c) {
  const TensorType x = c.InType(0), y = c.OutType();
  SymbolTable* t = c.symbols();
  const Slide s = ReadSlide(x, c.ints(0), c.ints(1), c.ints(0), c.ints(2), c.ints(3));
  const Expr g = c.WideGrad();
  const DType dtype = c.TypeOf(g).dtype;
  struct Tap {
    Ints low, high;  // what to add to x, or cut, so that every stride-th element is this place of each window
    Expr chosen;
  };
  std::vector<Tap> taps;
  Ints at(s.n, 0);
  Expr count;
  for (bool more = true; more;) {
    Tap tap;
    Ints zero(x.rank, 0), by(x.rank, 1);
    for (int i = 0; i < s.n; ++i) {
      tap.low.push_back(s.low[i] - at[i] * s.dilation[i]);
      const int64_t used = Span(t, y.dims[2 + i], s.stride[i]);
      tap.high.push_back(DimSub(t, DimSub(t, used, x.dims[2 + i]), tap.low[i]));
      by[2 + i] = s.stride[i];
    }
    Expr values = PadSpatial(c, c.In(0), tap.low, tap.high, -std::numeric_limits<double>::infinity());
    const TensorType type = c.TypeOf(values);
    values = c.Emit(Op::k_slice, {values}, {zero, Ints(type.dims, type.dims + type.rank), by, Ints()});
    tap.chosen = Eq(values, c.Out());
    const Expr one = c.Cast(tap.chosen, dtype);
    count = count.given() ? count + one : one;
    taps.push_back(std::move(tap));
    more = false;
    for (int i = s.n - 1; i >= 0 && !more; --i) {
      more = ++at[i] < s.window[i];
      if (!more) at[i] = 0;
    }
  }
  const Expr share = g / count;
  Expr sum;
  for (const Tap& tap : taps) {
    Ints low, high;
    for (int i = 0; i < s.n; ++i) {
      low.push_back(DimSub(t, 0, tap.low[i]));
      high.push_back(DimSub(t, 0, tap.high[i]));
    }
    const Expr part = PadSpatial(c, Dilate(c, Where(tap.chosen, share, 0.0), s.stride), low, high, 0);
    sum = sum.given() ? sum + part : part;
  }
  c.Give(0, sum);
}

}  // namespace tessera::ir
