// The storage formats bit by bit, and quantize with dequantize over blocks, strides and dtypes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/formats.h"
#include "tests/unit/movement_util.h"

namespace tessera::cpu {
namespace {

using namespace movement;
using ir::Op;
using ir::StorageFormat;

// From the definition alone: sign, exponent and fraction by division, no shared code.
double Meaning(const StorageFormat& f, int code) {
  const int fraction_count = 1 << f.fraction_bits, exponent_count = 1 << f.exponent_bits;
  const int fraction = code % fraction_count, exponent = code / fraction_count % exponent_count;
  const int sign = code / fraction_count / exponent_count;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - f.bias() - f.fraction_bits)
                                         : std::ldexp(fraction_count + fraction, exponent - f.bias() - f.fraction_bits);
  return sign ? -magnitude : magnitude;
}

// The nearest code by looking at all of them; of two equally near, the one whose last bit is 0.
int Nearest(const StorageFormat& f, double x) {
  int best = -1;
  for (int code = 0; code < f.num_codes(); ++code) {
    if (std::signbit(Meaning(f, code)) != std::signbit(x)) continue;
    const double d = std::fabs(Meaning(f, code) - x);
    if (best < 0 || d < std::fabs(Meaning(f, best) - x) || (d == std::fabs(Meaning(f, best) - x) && code % 2 == 0))
      best = code;
  }
  return best;
}

TEST(StorageFormats, KnownValues) {
  const double f4[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int code = 0; code < 8; ++code) EXPECT_EQ(DecodeStorage(*ir::FindStorageFormat("f4e2m1"), code), f4[code]);
  EXPECT_EQ(DecodeStorage(*ir::FindStorageFormat("f6e2m3"), 0x1f), 7.5f);
  EXPECT_EQ(DecodeStorage(*ir::FindStorageFormat("f6e2m3"), 0x01), 0.125f);
  EXPECT_EQ(DecodeStorage(*ir::FindStorageFormat("f6e3m2"), 0x1f), 28.0f);
  EXPECT_EQ(DecodeStorage(*ir::FindStorageFormat("f6e3m2"), 0x01), 0.0625f);
  EXPECT_EQ(ir::FindStorageFormat("f8"), nullptr);
}

TEST(StorageFormats, EveryCodeAndEveryMidpoint) {
  for (const StorageFormat& f : ir::kStorageFormats) {
    for (int code = 0; code < f.num_codes(); ++code) {
      const double value = Meaning(f, code);
      ASSERT_EQ(DecodeStorage(f, code), value) << f.name << " " << code;
      ASSERT_EQ(std::signbit(DecodeStorage(f, code)), std::signbit(value));
      ASSERT_EQ(EncodeStorage(f, value), static_cast<uint32_t>(code)) << f.name << " " << code;
      if ((code + 1) % (f.num_codes() / 2) == 0) continue;
      const double next = Meaning(f, code + 1), middle = (value + next) / 2;
      for (double x : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, 2 * middle)})
        ASSERT_EQ(EncodeStorage(f, x), static_cast<uint32_t>(Nearest(f, x))) << f.name << " " << x;
    }
    ASSERT_EQ(EncodeStorage(f, 1e300), f.sign_bit() - 1);
    ASSERT_EQ(EncodeStorage(f, -INFINITY), 2 * f.sign_bit() - 1);
    for (double x : {1e9, 29.0, 7.6, 6.5, 1e-9, 5e-324}) {
      ASSERT_EQ(EncodeStorage(f, x), static_cast<uint32_t>(Nearest(f, x))) << f.name << " " << x;
      ASSERT_EQ(EncodeStorage(f, -x), static_cast<uint32_t>(Nearest(f, -x))) << f.name << " " << -x;
    }
  }
}

uint32_t CodeAt(const uint8_t* bytes, int64_t k, int bits) {
  uint32_t code = 0;
  for (int b = 0; b < bits; ++b) code |= ((bytes[(k * bits + b) / 8] >> ((k * bits + b) % 8)) & 1u) << b;
  return code;
}

TEST(Quantize, AgainstTheDefinition) {
  Rng rng(1);
  const DType floats[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2};
  for (int round = 0; round < 300; ++round) {
    const StorageFormat& f = ir::kStorageFormats[round % 3];
    const DType dtype = floats[round % 6];
    const int64_t block = std::vector<int64_t>{4, 8, 12, 32, 200}[Uniform(rng, 0, 4)];
    std::vector<int64_t> dims = RandomDims(rng, 1 + round % 3, 4);
    dims.back() = Uniform(rng, 0, 70);
    Owned x = RandomView(rng, Type(dtype, dims), /*repeat=*/false);
    for (int64_t i = 0; i < x.v.size(); ++i) {
      const double magnitude = std::exp2(static_cast<double>(Uniform(rng, -500, 500)) / 100);
      FromDouble(Uniform(rng, 0, 9) == 0 ? 0 : rng() % 2 ? magnitude : -magnitude, Element(x.v, i), dtype);
    }
    auto run = RunOp(Op::k_quantize, k_quantize, {x}, {std::string(f.name), block});
    ASSERT_TRUE(run.ok()) << run.status().message();
    const View &data = (*run)[0].v, &scale = (*run)[1].v;
    const int64_t n = dims.back(), blocks = (n + block - 1) / block, rows = n == 0 ? 0 : x.v.size() / n;
    ASSERT_EQ(scale.dims[scale.rank - 1], blocks);
    ASSERT_EQ(data.dims[data.rank - 1], blocks * block * f.bits / 8);
    auto back = RunOp(Op::k_dequantize, k_dequantize, {(*run)[0], (*run)[1]}, {std::string(f.name), block, DType::f64});
    ASSERT_TRUE(back.ok()) << back.status().message();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t b = 0; b < blocks; ++b) {
        const auto value = [&](int64_t i) {
          return b * block + i < n ? ToDouble(Element(x.v, r * n + b * block + i), dtype) : 0.0;
        };
        double amax = 0;
        for (int64_t i = 0; i < block; ++i) amax = std::max(amax, std::fabs(value(i)));
        const double want = amax == 0 ? 1 : std::exp2(std::floor(std::log2(amax)) - f.emax());
        ASSERT_EQ(scale.as<float>()[r * blocks + b], want);
        for (int64_t i = 0; i < block; ++i) {
          const int code = Nearest(f, value(i) / want);
          ASSERT_EQ(CodeAt(data.as<uint8_t>() + (r * blocks + b) * block * f.bits / 8, i, f.bits),
                    static_cast<uint32_t>(code));
          ASSERT_EQ((*back)[0].v.as<double>()[(r * blocks + b) * block + i], Meaning(f, code) * want);
        }
      }
    }
  }
}

TEST(Quantize, PackingOrder) {
  auto f4 = RunOp(Op::k_quantize, k_quantize, {Values(DType::f32, {4}, {4, -0.5, 1, 6})},
                  {std::string("f4e2m1"), int64_t{4}});
  ASSERT_TRUE(f4.ok());
  EXPECT_EQ((*f4)[0].v.as<uint8_t>()[0], 0x96);  // 4 is code 6, in the low half; -0.5 is code 9
  EXPECT_EQ((*f4)[0].v.as<uint8_t>()[1], 0x72);
  auto f6 = RunOp(Op::k_quantize, k_quantize, {Values(DType::f32, {4}, {4, 0, 0, -7.5})},
                  {std::string("f6e2m3"), int64_t{4}});
  ASSERT_TRUE(f6.ok());
  EXPECT_EQ((*f6)[0].v.as<uint8_t>()[0], 0x18);
  EXPECT_EQ((*f6)[0].v.as<uint8_t>()[1], 0x00);
  EXPECT_EQ((*f6)[0].v.as<uint8_t>()[2], 0xfc);
}

TEST(Quantize, NanAndInfinityPoisonTheirBlockOnly) {
  for (double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY), -static_cast<double>(INFINITY)}) {
    auto run = RunOp(Op::k_quantize, k_quantize, {Values(DType::f32, {8}, {1, 2, bad, 3, 1, 2, 3, 4})},
                     {std::string("f6e3m2"), int64_t{4}});
    ASSERT_TRUE(run.ok());
    auto back =
        RunOp(Op::k_dequantize, k_dequantize, {(*run)[0], (*run)[1]}, {std::string("f6e3m2"), int64_t{4}, DType::f32});
    ASSERT_TRUE(back.ok());
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan((*back)[0].v.as<float>()[i]));
    for (int i = 4; i < 8; ++i) EXPECT_EQ((*back)[0].v.as<float>()[i], i - 3);
  }
}

TEST(Quantize, ExtremesOfTheScale) {
  const double tiny = std::numeric_limits<float>::denorm_min();
  auto run = RunOp(Op::k_quantize, k_quantize, {Values(DType::f64, {4}, {tiny, 0, 1e300, 0})},
                   {std::string("f4e2m1"), int64_t{2}});
  ASSERT_TRUE(run.ok());
  EXPECT_EQ((*run)[1].v.as<float>()[0], std::numeric_limits<float>::min());
  EXPECT_EQ((*run)[1].v.as<float>()[1], std::exp2(127.0f));
  EXPECT_EQ((*run)[0].v.as<uint8_t>()[0], 0);
  EXPECT_EQ((*run)[0].v.as<uint8_t>()[1], 7);  // cut to the largest
}

TEST(Quantize, Messages) {
  const TensorType x = Type(DType::f32, {2, 33});
  EXPECT_EQ(Inferred(Op::k_quantize, {x}, {std::string("f4e2m1"), int64_t{32}}), "u8[2,32], f32[2,2]");
  EXPECT_EQ(Inferred(Op::k_quantize, {x}, {std::string("f5"), int64_t{32}}),
            "quantize: format \"f5\" is unknown; use f4e2m1, f6e2m3 or f6e3m2 (given f32[2,33])");
  EXPECT_EQ(
      Inferred(Op::k_quantize, {x}, {std::string("f6e2m3"), int64_t{6}}),
      "quantize: block is 6; for f6e2m3 it must be a positive multiple of 4, so that a block is whole bytes (given "
      "f32[2,33])");
  EXPECT_EQ(
      Inferred(Op::k_dequantize, {Type(DType::u8, {2, 32}), Type(DType::f32, {2, 3})},
               {std::string("f4e2m1"), int64_t{32}, DType::f32}),
      "dequantize: the last dim of scale is 3, of data 32; with blocks of 32 f4e2m1 elements it must be 48 (given "
      "u8[2,32], f32[2,3])");
  ir::SymbolTable t;
  const int64_t s = t.Named("S");
  EXPECT_EQ(Inferred(Op::k_quantize, {Type(DType::f32, {s, 64})}, {std::string("f6e2m3"), int64_t{32}}, &t),
            "u8[S,48], f32[S,2]");
}

}  // namespace
}  // namespace tessera::cpu
