// Random numbers: Philox against published vectors, each element against the definition in random_loops.h written out
// anew, moments; and full, iota, constant.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "interp/cpu/convert.h"
#include "interp/cpu/random_loops.h"
#include "interp/kernel.h"
#include "runtime/options.h"

namespace tessera::cpu {
namespace {

const RandomLoops& Loops() { return TSR_SELECT_ISA(kRandomLoops); }

struct Words {
  uint32_t w[4];
};

/// Philox 4x32-10 as its authors write it.
Words Philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c0, b = uint64_t{0xCD9E8D57} * c2;
    const uint32_t n0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0, n2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(b), c3 = static_cast<uint32_t>(a), c0 = n0, c2 = n2;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

Words Group(uint64_t seed, uint64_t c) {
  return Philox(static_cast<uint32_t>(c), static_cast<uint32_t>(c >> 32), 0, 0, static_cast<uint32_t>(seed),
                static_cast<uint32_t>(seed >> 32));
}

TEST(Philox, PublishedVectors) {
  struct Case {
    uint64_t key, low, high;
    uint32_t want[4];
  };
  // From the known-answer file of Random123, words in order of significance.
  const Case cases[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Case& c : cases) {
    uint32_t out[4];
    Loops().words(c.key, c.low, c.high, 1, out);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(out[i], c.want[i]) << i;
  }
}

TEST(Philox, EveryCountAndWrap) {
  const uint64_t seed = 0x123456789abcdef0, start = ~uint64_t{0} - 20;
  for (int64_t groups = 0; groups < 40; ++groups) {
    std::vector<uint32_t> out(static_cast<size_t>(4 * groups) + 1, 77);
    Loops().words(seed, start, 0, groups, out.data());
    EXPECT_EQ(out.back(), 77u);
    for (int64_t g = 0; g < groups; ++g) {
      const Words want = Group(seed, start + static_cast<uint64_t>(g));
      for (int j = 0; j < 4; ++j) ASSERT_EQ(out[static_cast<size_t>(4 * g + j)], want.w[j]) << groups << " " << g;
    }
  }
}

struct Result {
  absl::Status status;
  View view;
  std::vector<unsigned char> memory;
  double at(int64_t i) const {
    return ToDouble(memory.data() + static_cast<size_t>(i) * SizeOf(view.dtype), view.dtype);
  }
  int64_t integer(int64_t i) const {
    return ToInt64(memory.data() + static_cast<size_t>(i) * SizeOf(view.dtype), view.dtype);
  }
};

View Scalar(DType dtype, void* data) {
  View v;
  v.dtype = dtype;
  v.rank = 0;
  v.data = data;
  return v;
}

Result Make(interp::Kernel kernel, ir::Op op, std::vector<const View*> in, DType dtype, ir::Ints dims,
            std::vector<ir::Attr> attrs) {
  Result r;
  r.view.dtype = dtype;
  r.view.rank = static_cast<uint8_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) r.view.dims[i] = dims[i];
  r.view.SetContiguousStrides();
  r.memory.assign(static_cast<size_t>(r.view.size()) * SizeOf(dtype) + 1, 0xcd);
  r.view.data = r.memory.data();
  attrs.insert(attrs.begin(), ir::Attr(dims));
  View* outs[] = {&r.view};
  r.status = kernel({ir::Info(op), in, outs, attrs});
  EXPECT_EQ(r.memory.back(), 0xcd);
  return r;
}

Result Uniform(int64_t seed, int64_t offset, int64_t n, double low, double high, DType dtype) {
  View s = Scalar(i64, &seed), o = Scalar(i64, &offset);
  return Make(k_random_uniform, ir::Op::k_random_uniform, {&s, &o}, dtype, {n}, {low, high, dtype});
}
Result Normal(int64_t seed, int64_t offset, int64_t n, double mean, double std, DType dtype) {
  View s = Scalar(i64, &seed), o = Scalar(i64, &offset);
  return Make(k_random_normal, ir::Op::k_random_normal, {&s, &o}, dtype, {n}, {mean, std, dtype});
}
Result Int(int64_t seed, int64_t offset, int64_t n, int64_t low, int64_t high, DType dtype) {
  View s = Scalar(i64, &seed), o = Scalar(i64, &offset);
  return Make(k_random_int, ir::Op::k_random_int, {&s, &o}, dtype, {n}, {low, high, dtype});
}

uint64_t Wide(const Words& w, int64_t i) { return w.w[2 * i] | static_cast<uint64_t>(w.w[2 * i + 1]) << 32; }

TEST(RandomUniform, IsWhatIsWritten) {
  for (int64_t n : {0, 1, 3, 4, 5, 1023, 1025, 4099}) {
    const Result a = Uniform(5, -3, n, 0, 1, f32), b = Uniform(5, -3, n, -2.5, 7, f64);
    ASSERT_TRUE(a.status.ok() && b.status.ok());
    for (int64_t i = 0; i < n; ++i) {
      const float u = static_cast<float>(Group(5, static_cast<uint64_t>(-3 + i / 4)).w[i % 4] >> 8) * 0x1p-24f;
      ASSERT_EQ(a.at(i), u) << i;
      const double v = static_cast<double>(Wide(Group(5, static_cast<uint64_t>(-3 + i / 2)), i % 2) >> 11) * 0x1p-53;
      ASSERT_EQ(b.at(i), std::fma(9.5, v, -2.5)) << i;
    }
  }
}

TEST(RandomUniform, StaysInRangeInEveryDType) {
  struct Range {
    double low, high;
  };
  for (DType dtype : {f64, f32, f16, bf16, f8e4m3, f8e5m2})
    for (Range r : {Range{0, 1}, {-1, 1}, {0.1, 0.9}, {1, 1.3}, {-3.3, -1.1}, {-200, 200}}) {
      const Result x = Uniform(1, 0, 20000, r.low, r.high, dtype);
      ASSERT_TRUE(x.status.ok()) << x.status;
      double sum = 0;
      for (int64_t i = 0; i < 20000; ++i) {
        ASSERT_GE(x.at(i), r.low) << Name(dtype);
        ASSERT_LT(x.at(i), r.high) << Name(dtype);
        sum += x.at(i);
      }
      const double coarse = SizeOf(dtype) == 1 ? 0.06 : 0.01;
      EXPECT_NEAR(sum / 20000, (r.low + r.high) / 2, (r.high - r.low) * coarse) << Name(dtype) << r.low;
    }
}

TEST(RandomUniform, Moments) {
  constexpr int64_t n = 400000;
  for (DType dtype : {f32, f64}) {
    const Result x = Uniform(42, 7, n, 0, 1, dtype);
    double s1 = 0, s2 = 0, lag = 0;
    std::vector<int> bins(64);
    for (int64_t i = 0; i < n; ++i) {
      const double v = x.at(i) - 0.5;
      s1 += v, s2 += v * v;
      if (i > 0) lag += v * (x.at(i - 1) - 0.5);
      ++bins[static_cast<size_t>(x.at(i) * 64)];
    }
    EXPECT_NEAR(s1 / n, 0, 0.0025);
    EXPECT_NEAR(s2 / n, 1.0 / 12, 0.001);
    EXPECT_NEAR(lag / n, 0, 0.001);
    double chi = 0;
    for (int b : bins) chi += (b - n / 64.0) * (b - n / 64.0) / (n / 64.0);
    EXPECT_LT(chi, 120);  // 63 degrees of freedom: mean 63, deviation 11
  }
}

TEST(RandomUniform, Errors) {
  EXPECT_EQ(Uniform(1, 0, 4, 1, 1, f32).status.message(), "low must be below high, and low is 1, high is 1");
  EXPECT_EQ(Uniform(1, 0, 4, 1.01, 1.02, f8e4m3).status.message(), "no number of dtype f8e4m3 lies in [1.01, 1.02)");
  EXPECT_EQ(Uniform(1, 0, 4, 1e5, 2e5, f16).status.message(), "no number of dtype f16 lies in [100000, 200000)");
  EXPECT_EQ(Uniform(1, 0, 4, 0, INFINITY, f32).status.message(),
            "high - low must be a finite f32, and low is 0, high is inf");
  EXPECT_EQ(Uniform(1, 0, 4, 0, 1, i32).status.message(),
            "makes floating numbers, and dtype is i32; random_int makes integers");
}

TEST(RandomNormal, IsWhatIsWritten) {
  const long double turn = 2 * acosl(-1);
  for (int64_t n : {1, 2, 5, 1023, 2051}) {
    const Result a = Normal(9, 100, n, 0, 1, f32), b = Normal(9, 100, n, 0, 1, f64);
    ASSERT_TRUE(a.status.ok() && b.status.ok());
    for (int64_t i = 0; i < n; ++i) {
      const Words g = Group(9, static_cast<uint64_t>(100 + i / 4));
      const long double u = static_cast<float>(std::fma(static_cast<float>(g.w[i % 4 / 2 * 2]), 0x1p-32f, 0x1p-33f));
      const long double t = static_cast<long double>(g.w[i % 4 / 2 * 2 + 1] >> 8) * 0x1p-24L;
      const long double z = sqrtl(-2 * logl(u)) * (i % 2 == 0 ? cosl(turn * t) : sinl(turn * t));
      ASSERT_NEAR(a.at(i), static_cast<double>(z), std::fabs(static_cast<double>(z)) * 4 * 0x1p-23 + 1e-30) << i;
      const Words h = Group(9, static_cast<uint64_t>(100 + i / 2));
      const long double u64 = (static_cast<long double>(Wide(h, 0) >> 11) + 1) * 0x1p-53L;
      const long double t64 = static_cast<long double>(Wide(h, 1) >> 11) * 0x1p-53L;
      const long double z64 = sqrtl(-2 * logl(u64)) * (i % 2 == 0 ? cosl(turn * t64) : sinl(turn * t64));
      ASSERT_NEAR(b.at(i), static_cast<double>(z64), std::fabs(static_cast<double>(z64)) * 4 * 0x1p-52 + 1e-300) << i;
    }
  }
}

TEST(RandomNormal, Moments) {
  constexpr int64_t n = 400000;
  for (DType dtype : {f32, f64, bf16}) {
    const Result x = Normal(3, 1 << 20, n, 2, 3, dtype);
    double s1 = 0, s2 = 0, s3 = 0, s4 = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double v = (x.at(i) - 2) / 3;
      s1 += v, s2 += v * v, s3 += v * v * v, s4 += v * v * v * v;
    }
    EXPECT_NEAR(s1 / n, 0, 0.008);
    EXPECT_NEAR(s2 / n, 1, 0.012);
    EXPECT_NEAR(s3 / n, 0, 0.03);
    EXPECT_NEAR(s4 / n, 3, 0.09);
  }
  EXPECT_EQ(Normal(1, 0, 4, 0, -1, f32).status.message(), "std must not be negative, and is -1");
  EXPECT_EQ(Normal(1, 0, 3, 5, 0, f32).at(2), 5);
}

TEST(RandomInt, IsWhatIsWritten) {
  struct Range {
    int64_t low, high;
  };
  for (Range r :
       {Range{0, 10}, {-5, 6}, {0, int64_t{1} << 32}, {-7, (int64_t{1} << 33) + 5}, {INT64_MIN, INT64_MAX}, {3, 4}}) {
    const Result x = Int(77, 5, 1003, r.low, r.high, i64);
    ASSERT_TRUE(x.status.ok());
    const uint64_t width = static_cast<uint64_t>(r.high) - static_cast<uint64_t>(r.low);
    for (int64_t i = 0; i < 1003; ++i) {
      const uint64_t d = Wide(Group(77, static_cast<uint64_t>(5 + i / 2)), i % 2);
      const uint64_t high = static_cast<uint64_t>(static_cast<unsigned __int128>(d) * width >> 64);
      ASSERT_EQ(x.integer(i), static_cast<int64_t>(static_cast<uint64_t>(r.low) + high)) << i;
    }
  }
  std::vector<int> bins(10);
  const Result x = Int(1, 0, 100000, 0, 10, u8);
  for (int64_t i = 0; i < 100000; ++i) ++bins.at(static_cast<size_t>(x.integer(i)));
  for (int b : bins) EXPECT_NEAR(b, 10000, 450);
  EXPECT_EQ(Int(1, 0, 4, 0, 300, u8).status.message(), "[0, 300) is not within u8, which holds 0 to 255");
  EXPECT_TRUE(Int(1, 0, 4, -128, 128, i8).status.ok());
  EXPECT_EQ(Int(1, 0, 4, 2, 2, i64).status.message(), "low must be below high, and low is 2, high is 2");
  EXPECT_FALSE(Int(1, 0, 4, 0, 2, f32).status.ok());
}

// Splitting over threads, and reading a stretch in two calls, give the same elements.
TEST(Random, DoesNotDependOnThreads) {
  rt::Options& options = rt::options();
  const std::string before = *options.Get("parallel_grain");
  const Result whole = Normal(8, 0, 10007, 0, 1, f32);
  ASSERT_TRUE(options.Set("parallel_grain", "1000").ok());
  const Result split = Normal(8, 0, 10007, 0, 1, f32);
  const Result later = Normal(8, 1000, 5, 0, 1, f32);
  ASSERT_TRUE(options.Set("parallel_grain", before).ok());
  EXPECT_EQ(whole.memory, split.memory);
  EXPECT_EQ(std::memcmp(later.memory.data(), whole.memory.data() + 4000 * 4, 20), 0);
}

TEST(Full, EveryDType) {
  for (DType dtype : {f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i8, u8, boolean})
    for (int64_t n : {0, 1, 7, 70000}) {
      double three = 3;
      int32_t four = 4;
      View a = Scalar(f64, &three), b = Scalar(i32, &four);
      const Result x = Make(k_full, ir::Op::k_full, {&a}, dtype, {n}, {dtype});
      const Result y = Make(k_full, ir::Op::k_full, {&b}, dtype, {n, 1}, {dtype});
      ASSERT_TRUE(x.status.ok() && y.status.ok());
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(x.at(i), dtype == boolean ? 1 : 3) << Name(dtype);
        ASSERT_EQ(y.at(i), dtype == boolean ? 1 : 4) << Name(dtype);
      }
    }
}

TEST(Iota, AxesAndDTypes) {
  for (DType dtype : {f64, f32, bf16, i64, i32, u8})
    for (int64_t axis : {0, 1, 2, -1}) {
      int64_t start = 3, step = 2;
      View a = Scalar(i64, &start), b = Scalar(i64, &step);
      const Result x = Make(k_iota, ir::Op::k_iota, {&a, &b}, dtype, {5, 30, 7}, {axis, dtype});
      ASSERT_TRUE(x.status.ok());
      for (int64_t i = 0; i < 5 * 30 * 7; ++i) {
        const int64_t index[] = {i / 210, i / 7 % 30, i % 7};
        ASSERT_EQ(x.at(i), static_cast<double>(3 + 2 * index[axis < 0 ? 2 : axis])) << Name(dtype) << " " << i;
      }
    }
  double start = 0.5, step = 0.1;
  View a = Scalar(f64, &start), b = Scalar(f64, &step);
  const Result x = Make(k_iota, ir::Op::k_iota, {&a, &b}, f32, {70001}, {int64_t{0}, f32});
  for (int64_t i = 0; i < 70001; ++i)
    ASSERT_EQ(x.at(i), static_cast<float>(std::fma(0.1, static_cast<double>(i), 0.5)));
  int64_t most = INT64_MAX, one = 1;
  View c = Scalar(i64, &most), d = Scalar(i64, &one);
  const Result y = Make(k_iota, ir::Op::k_iota, {&c, &d}, i64, {2}, {int64_t{0}, i64});
  EXPECT_EQ(y.integer(1), INT64_MIN);
  EXPECT_TRUE(Make(k_iota, ir::Op::k_iota, {&a, &b}, f32, {3, 0}, {int64_t{1}, f32}).status.ok());
}

TEST(Constant, CopiesItsPayload) {
  TensorType type;
  type.dtype = i32;
  type.rank = 2;
  type.dims[0] = 2, type.dims[1] = 3;
  auto payload = rt::TensorImpl::Make(rt::Cpu(), type);
  ASSERT_TRUE(payload.ok());
  for (int i = 0; i < 6; ++i) (*payload)->as<int32_t>()[i] = i * i;
  int32_t memory[6] = {};
  View out;
  static_cast<TensorType&>(out) = type;
  out.SetContiguousStrides();
  out.data = memory;
  View* outs[] = {&out};
  const ir::Attr attrs[] = {*payload};
  ASSERT_TRUE(k_constant({ir::Info(ir::Op::k_constant), {}, outs, attrs}).ok());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(memory[i], i * i);
}

}  // namespace
}  // namespace tessera::cpu
