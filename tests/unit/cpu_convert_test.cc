// Conversions between all dtypes, against a slow reference that knows each float format only as the list of its
// values and rounds by comparing with the midpoints of neighbours, in long double (which holds every value met here).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "interp/cpu/convert.h"
#include "interp/cpu/numeric_isa.h"
#include "interp/kernel.h"

namespace tessera::cpu {
namespace {

constexpr DType kAll[] = {f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i8, u8, boolean};
constexpr DType kNarrow[] = {f16, bf16, f8e4m3, f8e5m2};

struct Format {
  int exponent_bits, fraction_bits;
  bool ieee;  // the highest exponent holds infinities and NaN; else only all ones is NaN
  bool saturates;
};

Format FormatOf(DType t) {
  switch (t) {
    case DType::f16: return {5, 10, true, false};
    case DType::bf16: return {8, 7, true, false};
    case DType::f8e4m3: return {4, 3, false, true};
    default: return {5, 2, true, true};
  }
}

int Width(const Format& f) { return 1 + f.exponent_bits + f.fraction_bits; }

long double Decode(const Format& f, uint32_t bits) {
  const uint32_t fraction = bits & ((1u << f.fraction_bits) - 1);
  const int exponent = static_cast<int>(bits >> f.fraction_bits) & ((1 << f.exponent_bits) - 1);
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const long double sign = (bits >> (Width(f) - 1)) != 0 ? -1 : 1;
  const bool top = exponent == (1 << f.exponent_bits) - 1;
  if (f.ieee && top) return fraction != 0 ? NAN : sign * std::numeric_limits<long double>::infinity();
  if (!f.ieee && top && fraction == (1u << f.fraction_bits) - 1) return NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<long double>(fraction), 1 - bias - f.fraction_bits);
  return sign *
         std::ldexp(static_cast<long double>(fraction + (1u << f.fraction_bits)), exponent - bias - f.fraction_bits);
}

/// All finite magnitudes in order; their index is their bit pattern.
const std::vector<long double>& Values(DType t) {
  static std::vector<long double> lists[kNumDTypes];
  std::vector<long double>& list = lists[static_cast<int>(t)];
  if (list.empty()) {
    const Format f = FormatOf(t);
    for (uint32_t bits = 0; bits < 1u << (Width(f) - 1); ++bits) {
      const long double v = Decode(f, bits);
      if (!std::isfinite(v)) break;
      list.push_back(v);
    }
  }
  return list;
}

/// Bits of x rounded to nearest even; -1 for NaN.
int64_t Encode(DType t, long double x) {
  if (std::isnan(x)) return -1;
  const Format f = FormatOf(t);
  const std::vector<long double>& values = Values(t);
  const uint32_t sign = std::signbit(x) ? 1u << (Width(f) - 1) : 0;
  const long double a = std::fabs(x);
  const uint32_t last = static_cast<uint32_t>(values.size()) - 1;
  if (a >= values[last]) {
    // The value that would come next if the exponent went on.
    const long double next = values[last] + (values[last] - values[last - 1]);
    const bool over = a >= (values[last] + next) / 2 && (last % 2 == 1 || a > (values[last] + next) / 2);
    return sign | (over && !f.saturates ? last + 1 : last);
  }
  size_t lo = 0, hi = last;
  while (hi - lo > 1) {
    const size_t mid = (lo + hi) / 2;
    (values[mid] <= a ? lo : hi) = mid;
  }
  const long double middle = (values[lo] + values[hi]) / 2;
  const bool up = a > middle || (a == middle && lo % 2 == 1);
  return sign | static_cast<uint32_t>(up ? hi : lo);
}

struct Element {
  alignas(8) unsigned char bytes[8] = {};
};

Element One(DType dst, DType src, const void* value) {
  Element e;
  Convert(e.bytes, dst, value, src, 1);
  return e;
}

uint64_t BitsOf(const Element& e, DType t) {
  uint64_t bits = 0;
  std::memcpy(&bits, e.bytes, SizeOf(t));
  return bits;
}

template <class I>
I Truncated(long double x) {
  if (std::isnan(x)) return 0;
  if (x <= static_cast<long double>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  if (x >= static_cast<long double>(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
  return static_cast<I>(std::trunc(x));
}

/// What a float of that exact value must become.
void ExpectFromFloat(long double x, DType src, const void* value, DType dst) {
  const Element e = One(dst, src, value);
  const std::string where =
      std::string(Name(src)) + " " + std::to_string(static_cast<double>(x)) + " to " + std::string(Name(dst));
  if (IsNarrowFloat(dst)) {
    const int64_t want = Encode(dst, x);
    if (want >= 0) {
      ASSERT_EQ(BitsOf(e, dst), static_cast<uint64_t>(want)) << where;
    } else {
      ASSERT_TRUE(std::isnan(Decode(FormatOf(dst), static_cast<uint32_t>(BitsOf(e, dst))))) << where;
    }
    return;
  }
  switch (dst) {
    case DType::f64:
    case DType::f32: {
      const double got = ToDouble(e.bytes, dst);
      const double want = dst == f64 ? static_cast<double>(x) : static_cast<float>(static_cast<double>(x));
      if (std::isnan(x))
        ASSERT_TRUE(std::isnan(got)) << where;
      else
        ASSERT_TRUE(got == want && std::signbit(got) == std::signbit(want)) << where;
      return;
    }
    case DType::i64: {
      int64_t v;
      std::memcpy(&v, e.bytes, 8);
      ASSERT_EQ(v, Truncated<int64_t>(x)) << where;
      return;
    }
    case DType::i32: {
      int32_t v;
      std::memcpy(&v, e.bytes, 4);
      ASSERT_EQ(v, Truncated<int32_t>(x)) << where;
      return;
    }
    case DType::i8: ASSERT_EQ(static_cast<int8_t>(e.bytes[0]), Truncated<int8_t>(x)) << where; return;
    case DType::u8: ASSERT_EQ(e.bytes[0], Truncated<uint8_t>(x)) << where; return;
    default: ASSERT_EQ(e.bytes[0], x != 0 ? 1 : 0) << where; return;
  }
}

TEST(Convert, EveryNarrowPatternToEveryDType) {
  for (DType src : kNarrow) {
    const Format f = FormatOf(src);
    for (uint32_t bits = 0; bits < 1u << Width(f); ++bits) {
      const uint16_t element = static_cast<uint16_t>(bits);
      for (DType dst : kAll) {
        if (dst == src) {
          ASSERT_EQ(BitsOf(One(dst, src, &element), dst), bits);
        } else {
          ExpectFromFloat(Decode(f, bits), src, &element, dst);
        }
        if (HasFatalFailure()) return;
      }
      // There and back through f32 and f64 gives the same bits; a NaN may become quiet, an f8 infinity saturates.
      for (DType wide : {f32, f64}) {
        const Element up = One(wide, src, &element);
        const uint64_t back = BitsOf(One(src, wide, up.bytes), src);
        if (std::isnan(Decode(f, bits)))
          ASSERT_TRUE(std::isnan(Decode(f, static_cast<uint32_t>(back)))) << bits;
        else
          ASSERT_EQ(back, static_cast<uint64_t>(Encode(src, Decode(f, bits)))) << Name(src);
      }
    }
  }
}

TEST(Convert, EveryByteToEveryDType) {
  for (DType src : {i8, u8, boolean}) {
    for (int bits = 0; bits < (src == boolean ? 2 : 256); ++bits) {
      const uint8_t element = static_cast<uint8_t>(bits);
      const int value = src == i8 ? static_cast<int8_t>(element) : element;
      for (DType dst : kAll) {
        const Element e = One(dst, src, &element);
        if (IsNarrowFloat(dst))
          ASSERT_EQ(BitsOf(e, dst), static_cast<uint64_t>(Encode(dst, value))) << Name(dst);
        else if (dst == boolean)
          ASSERT_EQ(e.bytes[0], value != 0 ? 1 : 0);
        else if (dst == i8)
          ASSERT_EQ(static_cast<int8_t>(e.bytes[0]), static_cast<int8_t>(value));
        else if (dst == u8)
          ASSERT_EQ(e.bytes[0], static_cast<uint8_t>(value));
        else
          ASSERT_EQ(ToDouble(e.bytes, dst), value) << Name(src) << " to " << Name(dst);
      }
    }
  }
}

template <class F>
std::vector<F> Around(F x) {
  const F inf = std::numeric_limits<F>::infinity();
  return {x, std::nextafter(x, inf), std::nextafter(x, -inf), -x, -std::nextafter(x, inf), -std::nextafter(x, -inf)};
}

/// Every value and every midpoint of every narrow format, its neighbours in F, and limits of the integers.
template <class F>
void Boundaries(DType src) {
  const F inf = std::numeric_limits<F>::infinity();
  for (DType dst : kNarrow) {
    const std::vector<long double>& values = Values(dst);
    const int step = dst == bf16 && sizeof(F) == 8 ? 3 : 1;
    for (size_t i = 0; i < values.size(); i += static_cast<size_t>(step)) {
      const long double next = i + 1 < values.size() ? values[i + 1] : values[i] + (values[i] - values[i - 1]);
      for (long double x : {values[i], (values[i] + next) / 2}) {
        for (F y : Around(static_cast<F>(x))) {
          ExpectFromFloat(y, src, &y, dst);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
  std::vector<F> special = {F(0),
                            -F(0),
                            inf,
                            -inf,
                            std::numeric_limits<F>::quiet_NaN(),
                            -std::numeric_limits<F>::quiet_NaN(),
                            std::numeric_limits<F>::max(),
                            std::numeric_limits<F>::min(),
                            std::numeric_limits<F>::denorm_min(),
                            F(0.5),
                            F(0.999),
                            F(1.5),
                            F(2.5),
                            F(-0.5)};
  for (int power : {7, 8, 31, 32, 53, 62, 63, 64, 127, 128})
    for (F y : Around(static_cast<F>(std::ldexp(1.0, power)))) special.push_back(y);
  for (F limit : {F(127), F(128), F(129), F(255), F(256), F(2147483647.0), F(2147483648.0), F(4294967295.0)})
    for (F y : Around(limit)) special.push_back(y);
  for (F y : special)
    for (DType dst : kAll) ExpectFromFloat(y, src, &y, dst);
}

TEST(Convert, F32Boundaries) { Boundaries<float>(f32); }
TEST(Convert, F64Boundaries) { Boundaries<double>(f64); }

TEST(Convert, RandomFloats) {
  std::mt19937_64 gen(1);
  for (int i = 0; i < 40000; ++i) {
    const uint64_t bits = gen();
    // All exponents of f32, then only those that the narrow formats resolve.
    const uint32_t low = static_cast<uint32_t>(bits);
    const uint32_t middling = (low & 0x807fffffu) | ((96 + (low >> 23) % 64) << 23);
    for (uint32_t pattern : {low, middling}) {
      float x;
      std::memcpy(&x, &pattern, 4);
      for (DType dst : kAll) ExpectFromFloat(x, f32, &x, dst);
    }
    const double y =
        std::ldexp(static_cast<double>(static_cast<int64_t>(bits)), -63 + static_cast<int>(bits % 80) - 40);
    for (DType dst : kAll) ExpectFromFloat(y, f64, &y, dst);
    if (HasFatalFailure()) return;
  }
}

TEST(Convert, F64RoundsOnce) {
  // Just off a midpoint by less than f32 resolves: rounding to f32 first would make it a tie.
  const double x = 1 + 0x1p-11 + 0x1p-40;  // f16: the midpoint is 1 + 2^-11
  EXPECT_EQ(BitsOf(One(f16, f64, &x), f16), 0x3c01u);
  const double y = 1 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(BitsOf(One(bf16, f64, &y), bf16), 0x3f81u);
  const double z = 1 + 0x1p-4 + 0x1p-40;
  EXPECT_EQ(BitsOf(One(f8e4m3, f64, &z), f8e4m3), 0x39u);
  const double w = 1 + 0x1p-3 + 0x1p-40;
  EXPECT_EQ(BitsOf(One(f8e5m2, f64, &w), f8e5m2), 0x3du);
  const double below = 65520.0 - 0x1p-30;  // f16 overflows from 65520
  EXPECT_EQ(BitsOf(One(f16, f64, &below), f16), 0x7bffu);
}

// Where the compiler offers the hardware's f16 conversions they are used, and differ in no bit from ours.
TEST(Convert, F16HardwareAndSoftwareAgree) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float soft = TSR_ISA::SoftFromF16(static_cast<uint16_t>(h));
    const float used = TSR_ISA::ToF32(TSR_ISA::Half{static_cast<uint16_t>(h)});
    ASSERT_EQ(TSR_ISA::Bits(soft), TSR_ISA::Bits(used)) << h;
  }
  // Every upper half with lower halves at and around the places where rounding turns.
  for (uint32_t upper = 0; upper < 65536; ++upper)
    for (uint32_t lower :
         {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu, 0x2000u, 0x3000u, 0x7fffu, 0x8000u, 0xffffu}) {
      const float x = TSR_ISA::FromBits(upper << 16 | lower);
      TSR_ISA::Half used;
      TSR_ISA::FromF32(x, used);
      ASSERT_EQ(TSR_ISA::SoftToF16(x), used.bits) << (upper << 16 | lower);
    }
}

TEST(Convert, WideIntegers) {
  std::vector<int64_t> values = {0, INT64_MIN, INT64_MAX, INT64_MIN + 1, INT64_MAX - 1};
  for (int p = 0; p < 63; ++p)
    for (int q = 0; q <= p; ++q)
      for (int64_t d : {-1, 0, 1}) {
        const int64_t v = (int64_t{1} << p) + ((int64_t{1} << q) >> 1) + d;
        values.push_back(v);
        values.push_back(-v);
      }
  std::mt19937_64 gen(2);
  for (int i = 0; i < 100000; ++i) values.push_back(static_cast<int64_t>(gen()) >> (gen() % 64));
  for (int64_t v : values) {
    for (DType dst : kNarrow) {
      ASSERT_EQ(BitsOf(One(dst, i64, &v), dst), static_cast<uint64_t>(Encode(dst, v))) << v << " to " << Name(dst);
    }
    float f;
    Convert(&f, f32, &v, i64, 1);
    ASSERT_EQ(f, static_cast<float>(static_cast<long double>(v))) << v;
    ASSERT_EQ(ToDouble(&v, i64), static_cast<double>(v));
    const int32_t w = static_cast<int32_t>(static_cast<uint64_t>(v));
    ASSERT_EQ(BitsOf(One(i32, i64, &v), i32), static_cast<uint32_t>(w));
    ASSERT_EQ(BitsOf(One(i8, i64, &v), i8), static_cast<uint8_t>(w));
    ASSERT_EQ(BitsOf(One(u8, i64, &v), u8), static_cast<uint8_t>(w));
    ASSERT_EQ(BitsOf(One(boolean, i64, &v), boolean), v != 0 ? 1u : 0u);
    for (DType dst : kNarrow) ASSERT_EQ(BitsOf(One(dst, i32, &w), dst), static_cast<uint64_t>(Encode(dst, w))) << w;
    Convert(&f, f32, &w, i32, 1);
    ASSERT_EQ(f, static_cast<float>(static_cast<long double>(w)));
    ASSERT_EQ(BitsOf(One(i64, i32, &w), i64), static_cast<uint64_t>(static_cast<int64_t>(w)));
    ASSERT_EQ(BitsOf(One(i8, i32, &w), i8), static_cast<uint8_t>(w));
    ASSERT_EQ(BitsOf(One(boolean, i32, &w), boolean), w != 0 ? 1u : 0u);
  }
}

// Vector bodies and tails give what single elements give, at every length and in place.
TEST(Convert, LengthsAndInPlace) {
  std::mt19937_64 gen(3);
  std::vector<uint64_t> raw(70);
  for (DType src : kAll) {
    for (uint64_t& r : raw) r = gen();
    unsigned char* bytes = reinterpret_cast<unsigned char*>(raw.data());
    if (src == boolean)
      for (size_t i = 0; i < raw.size() * 8; ++i) bytes[i] &= 1;
    const size_t src_bytes = SizeOf(src);
    for (DType dst : kAll) {
      const size_t dst_bytes = SizeOf(dst);
      for (int64_t n = 0; n < 70; ++n) {
        std::vector<unsigned char> out(static_cast<size_t>(n) * dst_bytes + 1, 0xee);
        Convert(out.data(), dst, bytes, src, n);
        ASSERT_EQ(out.back(), 0xee);
        for (int64_t i = 0; i < n; ++i) {
          const Element want = One(dst, src, bytes + static_cast<size_t>(i) * src_bytes);
          ASSERT_EQ(std::memcmp(want.bytes, out.data() + static_cast<size_t>(i) * dst_bytes, dst_bytes), 0)
              << Name(src) << " to " << Name(dst) << " element " << i << " of " << n;
        }
        if (src_bytes == dst_bytes && n > 0) {
          std::vector<unsigned char> same(bytes, bytes + static_cast<size_t>(n) * src_bytes);
          Convert(same.data(), dst, same.data(), src, n);
          ASSERT_EQ(std::memcmp(same.data(), out.data(), same.size()), 0) << Name(src) << " to " << Name(dst);
        }
      }
    }
  }
}

TEST(Convert, OneElement) {
  Element e;
  FromDouble(-2.5, e.bytes, bf16);
  EXPECT_EQ(ToDouble(e.bytes, bf16), -2.5);
  EXPECT_EQ(ToInt64(e.bytes, bf16), -2);
  FromInt64(300, e.bytes, u8);
  EXPECT_EQ(ToInt64(e.bytes, u8), 44);
  FromDouble(1e9, e.bytes, f8e4m3);
  EXPECT_EQ(ToDouble(e.bytes, f8e4m3), 448);
}

View MakeView(DType dtype, std::vector<int64_t> dims, void* data) {
  View v;
  v.dtype = dtype;
  v.rank = static_cast<uint8_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) v.dims[i] = dims[i];
  v.SetContiguousStrides();
  v.data = data;
  return v;
}

TEST(Cast, StridedLargeAndEmpty) {
  constexpr int64_t kRows = 300, kColumns = 401;
  std::vector<float> x(kRows * kColumns);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 0.37f - 1000;
  for (bool transposed : {false, true}) {
    for (DType dst : {f32, i32, bf16, f64}) {
      View in = MakeView(f32, {kRows, kColumns}, x.data());
      if (transposed) {
        std::swap(in.dims[0], in.dims[1]);
        std::swap(in.strides[0], in.strides[1]);
      }
      std::vector<double> memory(x.size());
      View out = MakeView(dst, {in.dims[0], in.dims[1]}, memory.data());
      const View* ins[] = {&in};
      View* outs[] = {&out};
      const ir::Attr attrs[] = {dst};
      const interp::KernelArgs args{ir::Info(ir::Op::k_cast), ins, outs, attrs};
      ASSERT_TRUE(k_cast(args).ok());
      for (int64_t r = 0; r < in.dims[0]; r += 7)
        for (int64_t c = 0; c < in.dims[1]; ++c) {
          const float v = x[static_cast<size_t>(r * in.strides[0] + c * in.strides[1])];
          const Element want = One(dst, f32, &v);
          const char* got = out.as<char>() + (r * in.dims[1] + c) * static_cast<int64_t>(SizeOf(dst));
          ASSERT_EQ(std::memcmp(want.bytes, got, SizeOf(dst)), 0) << r << "," << c;
        }
    }
  }
  View in = MakeView(f32, {3, 0}, nullptr), out = MakeView(f16, {3, 0}, nullptr);
  const View* ins[] = {&in};
  View* outs[] = {&out};
  const ir::Attr attrs[] = {f16};
  EXPECT_TRUE(k_cast({ir::Info(ir::Op::k_cast), ins, outs, attrs}).ok());
}

}  // namespace
}  // namespace tessera::cpu
