// f8 with scales for blocks, as ops of the public API: what is written down, and what comes back.
#include "tessera/f8_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tessera/tessera.h"

namespace tessera {
namespace {

/// Blocks of very different sizes: block (i, j) of 128 x 128 has numbers of about 4^(i + j).
Tensor Uneven(int64_t rows, int64_t columns) {
  std::vector<float> x;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      x.push_back(std::ldexp(static_cast<float>(std::sin(static_cast<double>(i * columns + j)) + 1.5),
                             static_cast<int>(2 * (i / 128 + j / 128))));
  return Tensor::from(x, {rows, columns});
}

TEST(F8Blocks, RowsAndSquares) {
  for (const DType dtype : {f8e4m3, f8e5m2}) {
    for (const int64_t rows : {1, 128}) {
      for (const int64_t m : {3, 128, 200}) {
        const Tensor x = Uneven(m, 384);
        const Quantized q = quantize_blocks(x, dtype, rows);
        ASSERT_EQ(q.data.dtype(), dtype);
        ASSERT_EQ(q.data.dims(), x.dims());
        ASSERT_EQ(q.scale.dims(), (Dims{rows == 1 ? m : (m + 127) / 128, 3}));
        const Tensor back = dequantize_blocks(q, f32);
        const double step = dtype == f8e4m3 ? 1.0 / 16 : 1.0 / 8;  // half of one, of a number's own size
        EXPECT_LE(max(abs(back - x) / x).item<float>(), step * 1.001) << m << " " << rows;
        // The largest element of a block is the largest number of the dtype.
        EXPECT_EQ(max(abs(cast(q.data, f32))).item<float>(), dtype == f8e4m3 ? 448 : 57344);
      }
    }
  }
}

TEST(F8Blocks, ScaleOfABlockIsThatOfItsLargest) {
  const Tensor x = Uneven(256, 256);
  const std::vector<float> values = x.to_vector<float>();
  const std::vector<float> of_rows = quantize_blocks(x).scale.to_vector<float>();
  const std::vector<float> of_squares = quantize_blocks(x, f8e4m3, 128).scale.to_vector<float>();
  float squares[4] = {};
  for (size_t i = 0; i < 256; ++i) {
    for (size_t b = 0; b < 2; ++b) {
      float largest = 0;
      for (size_t j = b * 128; j < b * 128 + 128; ++j) largest = std::max(largest, std::abs(values[i * 256 + j]));
      EXPECT_FLOAT_EQ(of_rows[i * 2 + b], largest / 448);
      squares[i / 128 * 2 + b] = std::max(squares[i / 128 * 2 + b], largest / 448);
    }
  }
  for (size_t k = 0; k < 4; ++k) EXPECT_FLOAT_EQ(of_squares[k], squares[k]);
}

TEST(F8Blocks, ZerosSmallNumbersAndNaN) {
  std::vector<float> x(4 * 256, 0.0f);
  for (size_t j = 0; j < 128; ++j) x[256 + j] = 1e-40f;
  x[2 * 256 + 5] = std::numeric_limits<float>::quiet_NaN();
  x[3 * 256 + 200] = std::numeric_limits<float>::infinity();
  const std::vector<float> back = dequantize_blocks(quantize_blocks(Tensor::from(x, {4, 256})), f32).to_vector<float>();
  for (size_t j = 0; j < 256; ++j) {
    EXPECT_EQ(back[j], 0);
    EXPECT_EQ(std::isnan(back[2 * 256 + j]), j < 128) << j;
    EXPECT_EQ(std::isnan(back[3 * 256 + j]), j >= 128) << j;
  }
  for (size_t j = 0; j < 128; ++j) EXPECT_NEAR(back[256 + j], 1e-40f, 1e-41f);
}

TEST(F8Blocks, Product) {
  for (const int64_t n : {128, 200}) {
    const Tensor x = reshape(Uneven(6, 256), {2, 3, 256}), w = Uneven(n, 256);
    const Quantized a = quantize_blocks(x), b = quantize_blocks(w, f8e4m3, 128);
    EXPECT_EQ(a.scale.dims(), (Dims{2, 3, 2}));
    const Tensor y = matmul_blocks(a, b), want = matmul(x, w, false, true);
    ASSERT_EQ(y.dims(), (Dims{2, 3, n}));
    EXPECT_EQ(y.dtype(), bf16);
    // All numbers are positive: errors of elements are those of sums, or less.
    EXPECT_LT(max(abs(cast(y, f32) - want) / want).item<float>(), 0.05);
  }
}

TEST(F8Blocks, WhatItRefuses) {
  EXPECT_THROW(quantize_blocks(zeros({2, 100})), Error);
  EXPECT_THROW(quantize_blocks(zeros({2, 128}), bf16), Error);
  EXPECT_THROW(quantize_blocks(zeros({2, 128}), f8e4m3, 64), Error);
  EXPECT_THROW(quantize_blocks(zeros({2, 2, 128}), f8e4m3, 128), Error);
  const Quantized q = quantize_blocks(zeros({130, 256}), f8e4m3, 128);
  EXPECT_THROW(dequantize_blocks({q.data, zeros({2, 1})}), Error);
  EXPECT_THROW(dequantize_blocks({q.data, zeros({3, 2})}), Error);
  try {
    dequantize_blocks({q.data, zeros({3, 2})});
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("f32[3,2]"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tessera
