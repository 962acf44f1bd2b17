// conv as a product that never writes its columns: weights [outputs, depth] by windows [depth, positions], where depth
// counts the taps of all input channels of a group, and positions those of all images. Where a group has few output
// channels (a depthwise window), each thread slides its own.
#include "interp/cuda/kernels/rows.cuh"
#include "interp/cuda/window_args.h"

namespace tessera::cuda {
namespace {

constexpr int kDepth = 16;  // of a step

/// Where tap number k of a group's depth reads, from where the window begins.
struct Tap {
  int64_t offset;
  int z, y, x;
};

__device__ __forceinline__ Tap TapOf(const Slide& s, uint32_t k) {
  const uint32_t wx = static_cast<uint32_t>(s.dim[2].window), wy = static_cast<uint32_t>(s.dim[1].window);
  const uint32_t wz = static_cast<uint32_t>(s.dim[0].window);
  const uint32_t x = k % wx, row = k / wx, y = row % wy, plane = row / wy, z = plane % wz, channel = plane / wz;
  Tap t;
  t.z = static_cast<int>(z * s.dim[0].dilation);
  t.y = static_cast<int>(y * s.dim[1].dilation);
  t.x = static_cast<int>(x * s.dim[2].dilation);
  t.offset = channel * s.x_channel + t.z * s.dim[0].x_stride + t.y * s.dim[1].x_stride + t.x * s.dim[2].x_stride;
  return t;
}

/// Where the window of an output position begins: in each dim, and in x. An image is part of the position.
struct Corner {
  int64_t offset;
  int z, y, x;
};

__device__ __forceinline__ Corner CornerOf(const Slide& s, int64_t positions, int64_t p) {
  const int64_t image = p / positions;
  const uint32_t at = static_cast<uint32_t>(p - image * positions);
  const uint32_t nx = static_cast<uint32_t>(s.dim[2].out), ny = static_cast<uint32_t>(s.dim[1].out);
  const uint32_t ox = at % nx, row = at / nx, oy = row % ny, oz = row / ny;
  Corner c;
  c.z = static_cast<int>(oz * s.dim[0].stride - s.dim[0].low);
  c.y = static_cast<int>(oy * s.dim[1].stride - s.dim[1].low);
  c.x = static_cast<int>(ox * s.dim[2].stride - s.dim[2].low);
  c.offset = image * s.x_batch + c.z * s.dim[0].x_stride + c.y * s.dim[1].x_stride + c.x * s.dim[2].x_stride;
  return c;
}

__device__ __forceinline__ bool Inside(int at, int64_t in) {
  return static_cast<uint32_t>(at) < static_cast<uint32_t>(in);
}

/// 256 threads make a tile of 16 n outputs by 16 n positions. Thread (y, x) of 16 by 16 has n rows and n columns, in
/// groups of 4 that are 64 apart.
template <class C, int n>
__device__ __forceinline__ void Tiles(const ConvArgs& a) {
  constexpr int kTile = 16 * n, kWide = kTile + 4, kLoads = kTile * kDepth / 256;
  __shared__ alignas(16) C weights[kDepth][kWide];
  __shared__ alignas(16) C columns[kDepth][kWide];
  __shared__ Tap taps[2][kDepth];
  const Slide& s = a.slide;
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  const int64_t positions = s.dim[0].out * s.dim[1].out * s.dim[2].out, all = s.batch * positions;
  const int64_t m_tiles = (a.outputs + kTile - 1) / kTile, n_tiles = (all + kTile - 1) / kTile;
  const int64_t m_tile = blockIdx.x % m_tiles, rest = blockIdx.x / m_tiles, group = rest / n_tiles;
  const int64_t m0 = m_tile * kTile, p0 = (rest - group * n_tiles) * kTile;
  const uint32_t depth = static_cast<uint32_t>(a.inputs * s.dim[0].window * s.dim[1].window * s.dim[2].window);

  // The column that this thread reads.
  const int column = t % kTile;
  const bool live = p0 + column < all;
  const Corner corner = CornerOf(s, positions, live ? p0 + column : 0);
  const int64_t x_at = corner.offset + group * a.inputs * s.x_channel;
  // Weights are contiguous.
  const int64_t w_at = (group * a.outputs + m0) * depth;

  C acc[n][n] = {};
  if (t < kDepth && t < depth) taps[0][t] = TapOf(s, t);
  int step = 0;
#pragma unroll 1
  for (uint32_t k0 = 0; k0 < depth; k0 += kDepth, ++step) {
    __syncthreads();  // taps are there, and the tiles are used up
    WithStorage<C>(a.dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const T* w = At<const T>(a.weight.data) + w_at;
      const T* x = At<const T>(a.x) + x_at;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int k = t % kDepth, row = t / kDepth + i * (256 / kDepth);
        const bool in = m0 + row < a.outputs && k0 + k < depth;
        weights[k][row] = in ? Get<C>(w[static_cast<int64_t>(row) * depth + k0 + k]) : C(0);
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int k = t / kTile + i * (256 / kTile);
        C v = 0;
        if (live && k0 + k < depth) {
          const Tap tap = taps[step % 2][k];
          if (Inside(corner.z + tap.z, s.dim[0].in) && Inside(corner.y + tap.y, s.dim[1].in) &&
              Inside(corner.x + tap.x, s.dim[2].in))
            v = Get<C>(x[tap.offset]);
        }
        columns[k][column] = v;
      }
    });
    if (t < kDepth && k0 + kDepth + t < depth) taps[(step + 1) % 2][t] = TapOf(s, k0 + kDepth + t);
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < kDepth; ++k) {
      alignas(16) C u[n], v[n];
#pragma unroll
      for (int i = 0; i < n; i += 4) {
        *reinterpret_cast<Pack<C, 4>*>(u + i) = *reinterpret_cast<const Pack<C, 4>*>(&weights[k][i * 16 + 4 * ty]);
        *reinterpret_cast<Pack<C, 4>*>(v + i) = *reinterpret_cast<const Pack<C, 4>*>(&columns[k][i * 16 + 4 * tx]);
      }
#pragma unroll
      for (int i = 0; i < n; ++i) {
#pragma unroll
        for (int j = 0; j < n; ++j) acc[i][j] = Fma(u[i], v[j], acc[i][j]);
      }
    }
  }

  int64_t to[n];  // of the columns, in an output of row 0; -1: none
#pragma unroll
  for (int j = 0; j < n; ++j) {
    const int64_t p = p0 + j / 4 * 64 + 4 * tx + j % 4, image = p / positions;
    to[j] = p < all ? (image * a.groups + group) * a.outputs * positions + (p - image * positions) : -1;
  }
  WithStorage<C>(a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* y = At<T>(a.y);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const int64_t o = m0 + i / 4 * 64 + 4 * ty + i % 4;
      if (o >= a.outputs) continue;
      C bias = 0;
      if (a.has_bias) bias = Get<C>(At<const T>(a.bias.data)[(group * a.outputs + o) * a.bias.layout.strides[0]]);
#pragma unroll
      for (int j = 0; j < n; ++j)
        if (to[j] >= 0) Put(acc[i][j] + bias, y[to[j] + o * positions]);
    }
  });
}

/// A thread for each output.
template <class T, class C>
__device__ __forceinline__ void Direct(const ConvArgs& a) {
  const Slide& s = a.slide;
  const int64_t positions = s.dim[0].out * s.dim[1].out * s.dim[2].out, channels = a.groups * a.outputs;
  const int wz = static_cast<int>(s.dim[0].window), wy = static_cast<int>(s.dim[1].window);
  const int wx = static_cast<int>(s.dim[2].window);
  const int64_t depth = a.inputs * wz * wy * wx;
#pragma unroll 1
  for (int64_t i = ThreadIndex(); i < s.batch * channels * positions; i += ThreadCount()) {
    const int64_t plane = i / positions, image = plane / channels, o = plane - image * channels;
    const Corner corner = CornerOf(s, positions, image * positions + (i - plane * positions));
    const T* x = At<const T>(a.x) + corner.offset + o / a.outputs * a.inputs * s.x_channel;
    const T* w = At<const T>(a.weight.data) + o * depth;
    C acc = 0;
    if (a.has_bias) acc = Get<C>(At<const T>(a.bias.data)[o * a.bias.layout.strides[0]]);
#pragma unroll 1
    for (int64_t c = 0; c < a.inputs; ++c, x += s.x_channel) {
#pragma unroll 1
      for (int z = 0; z < wz; ++z) {
        const int dz = static_cast<int>(z * s.dim[0].dilation);
#pragma unroll 1
        for (int y = 0; y < wy; ++y, w += wx) {
          const int dy = static_cast<int>(y * s.dim[1].dilation);
          if (!Inside(corner.z + dz, s.dim[0].in) || !Inside(corner.y + dy, s.dim[1].in)) continue;
          const T* row = x + dz * s.dim[0].x_stride + dy * s.dim[1].x_stride;
#pragma unroll 2
          for (int k = 0; k < wx; ++k) {
            const int dx = static_cast<int>(k * s.dim[2].dilation);
            if (Inside(corner.x + dx, s.dim[2].in)) acc = Fma(Get<C>(w[k]), Get<C>(row[dx * s.dim[2].x_stride]), acc);
          }
        }
      }
    }
    Put(acc, At<T>(a.y)[i]);
  }
}

template <class C>
__device__ __forceinline__ void AllDirect(const ConvArgs& a) {
  WithStorage<C>(a.dtype, [&](auto tag) { Direct<typename decltype(tag)::Type, C>(a); });
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256, 2) conv_large_f32(const __grid_constant__ ConvArgs a) {
  Tiles<float, 8>(a);
}
extern "C" __global__ void __launch_bounds__(256, 2) conv_small_f32(const __grid_constant__ ConvArgs a) {
  Tiles<float, 4>(a);
}
extern "C" __global__ void __launch_bounds__(256, 2) conv_small_f64(const __grid_constant__ ConvArgs a) {
  Tiles<double, 4>(a);
}
extern "C" __global__ void __launch_bounds__(256) conv_direct_f32(const __grid_constant__ ConvArgs a) {
  AllDirect<float>(a);
}
extern "C" __global__ void __launch_bounds__(256) conv_direct_f64(const __grid_constant__ ConvArgs a) {
  AllDirect<double>(a);
}

}  // namespace tessera::cuda
