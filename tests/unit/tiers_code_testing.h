// Programs under generated code: their values must be those of tier 1, to the bit.
#ifndef TESSERA_TESTS_UNIT_TIERS_CODE_TESTING_H_
#define TESSERA_TESTS_UNIT_TIERS_CODE_TESTING_H_

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <span>

#include "interp/cpu/convert.h"
#include "tests/unit/tiers_function_testing.h"
#include "tests/unit/tiers_testing.h"

namespace tessera {

using Settings = std::map<std::string, std::string>;

/// How code is generated.
struct Way {
  int tier;
  bool fuse;
};
inline constexpr Way kWays[] = {{2, true}, {2, false}, {3, true}, {3, false}};
inline constexpr Way kTwoWays[] = {{2, true}, {3, false}};  // where there is much to compile
inline std::string NameOf(Way way) { return absl::StrCat("tier ", way.tier, way.fuse ? "" : ", no fusion"); }

/// Versions get generated code after their first run, on the thread that runs them.
inline Settings CodeAtOnce(Way way, bool bitwise = true) {
  Settings settings = HotAtOnce();
  settings["tier"] = std::to_string(way.tier);
  settings["fuse"] = way.fuse ? "true" : "false";
  settings["bitwise"] = bitwise ? "true" : "false";
  settings["compile_after"] = "0";
  settings["specialise_after"] = "0";
  return settings;
}

/// The program's log under every way is that of tier 1. `kernels`: some of it must have been generated.
inline void RunEveryWay(const TestProgram& program, bool kernels = true, const Settings& more = {},
                        std::span<const Way> ways = kWays) {
  for (const Way way : ways) {
    SCOPED_TRACE(NameOf(way));
    const int64_t before = MetricNow("kernels_generated"), failed = MetricNow("codes_failed");
    Settings settings = more;
    settings.merge(CodeAtOnce(way));
    RunBoth(program, settings);
    if (kernels && HasCompiler()) EXPECT_GT(MetricNow("kernels_generated"), before) << Runtime::explain();
    EXPECT_EQ(MetricNow("codes_failed"), failed) << Runtime::explain();
  }
}

/// Where generated code is within bounds and not to the bit: `round` in eager steps under every way, comparing what it
/// computes itself. `kernels`: under which of them some of it must have been generated.
inline void StepsEveryWay(const std::function<void()>& round, const std::function<bool(Way)>& kernels = nullptr) {
  for (const Way way : kWays) {
    SCOPED_TRACE(NameOf(way));
    Settings settings = CodeAtOnce(way, /*bitwise=*/false);
    settings["hot_eager"] = "1000000";
    const OptionScope scope(settings);
    tiers::Manager::Get().Reset();
    deopt::Ledger::Get().Clear();
    const int64_t before = MetricNow("kernels_generated"), failed = MetricNow("codes_failed");
    for (int i = 0; i < 9 && !::testing::Test::HasFatalFailure(); ++i) {
      SCOPED_TRACE(absl::StrCat("round ", i));
      const Step step;
      round();
    }
    if (kernels == nullptr || kernels(way)) EXPECT_GT(MetricNow("kernels_generated"), before) << Runtime::explain();
    EXPECT_EQ(MetricNow("codes_failed"), failed) << Runtime::explain();
  }
}

/// Elements as a program may meet them: any bits, plain numbers, and the ends of the range.
inline Tensor AnyTensor(DType dtype, const Dims& dims, uint64_t seed) {
  std::mt19937_64 rng(seed * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(dtype));
  int64_t size = 1;
  for (const int64_t d : dims) size *= d;
  const size_t width = SizeOf(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(size) * width);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double special[] = {0,        -0.0,     1,       -1,   kInf,  -kInf, std::nan(""), 0x1p-1074, -0x1p-149,
                            0x1p-149, 0x1p-126, 0x1p-24, 3e38, -3e38, 65504, 448,          -57344,    0x1p-9};
  for (int64_t i = 0; i < size; ++i) {
    std::byte* at = bytes.data() + static_cast<size_t>(i) * width;
    if (dtype == DType::boolean) {
      *at = static_cast<std::byte>(rng() & 1);
      continue;
    }
    // Of bytes all patterns come up, also those that no conversion makes.
    switch (width == 1 ? rng() % 2 * 2 : rng() % 4) {
      case 0: {
        const uint64_t any = rng();
        std::memcpy(at, &any, width);
        break;
      }
      case 1: cpu::FromDouble(special[rng() % std::size(special)], at, dtype); break;
      default: cpu::FromDouble(static_cast<double>(static_cast<int64_t>(rng() % 8001) - 4000) / 500, at, dtype);
    }
  }
  return Tensor::from_bytes(bytes, dtype, dims);
}

/// Plain numbers.
inline Tensor Uniform(const Dims& dims, uint64_t seed, double low = -2, double high = 2, DType dtype = f32) {
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> any(low, high);
  int64_t size = 1;
  for (const int64_t d : dims) size *= d;
  std::vector<std::byte> bytes(static_cast<size_t>(size) * SizeOf(dtype));
  for (int64_t i = 0; i < size; ++i)
    cpu::FromDouble(any(rng), bytes.data() + static_cast<size_t>(i) * SizeOf(dtype), dtype);
  return Tensor::from_bytes(bytes, dtype, dims);
}

/// Type and elements bit by bit, but for NaN, which is NaN whatever its sign and payload.
inline std::string Bits(const Tensor& x) {
  std::vector<std::byte> bytes = x.to_bytes();
  std::string text = absl::StrCat(std::string(Name(x.dtype())), " ");
  for (const int64_t d : x.dims()) absl::StrAppend(&text, d, " ");
  const size_t width = SizeOf(x.dtype());
  for (size_t at = 0; at < bytes.size(); at += width) {
    const std::byte* p = bytes.data() + at;
    if (IsFloat(x.dtype()) && std::isnan(cpu::ToDouble(p, x.dtype()))) {
      text += "nan ";
      continue;
    }
    for (size_t k = width; k-- > 0;) {
      static constexpr char kHex[] = "0123456789abcdef";
      text += kHex[static_cast<int>(p[k]) >> 4];
      text += kHex[static_cast<int>(p[k]) & 15];
    }
    text += ' ';
  }
  return text;
}

/// What `round` gives in generated code, with a grain at which a single thread does everything and with one at which
/// each task may have its own.
inline void ExpectSameBitsWithAnyThreads(const std::function<std::string()>& round) {
  const auto bits = [&](const char* grain) {
    Settings settings = CodeAtOnce({2, true}, false);
    settings["hot_eager"] = "1000000";
    settings["parallel_grain"] = grain;
    const OptionScope scope(settings);
    tiers::Manager::Get().Reset();
    std::set<std::string> seen;  // of rounds with generated code
    for (int i = 0; i < 16; ++i) {
      const int64_t before = MetricNow("kernels_generated");
      std::string got;
      {
        const Step step;
        got = round();
      }
      if (MetricNow("kernels_generated") > before) seen.insert(got);
    }
    EXPECT_EQ(seen.size(), 1u) << Runtime::explain();
    return seen.empty() ? "" : *seen.begin();
  };
  EXPECT_EQ(bits("1"), bits("1000000000"));
}

/// Calls the body again and again with the same inputs; what came back first, last and next to last goes to the log.
using Body = std::function<std::vector<Tensor>(const std::vector<Tensor>& in)>;
inline void RunBodyEveryWay(const Body& body, const std::vector<Tensor>& in, bool kernels = true, Settings more = {}) {
  // Only the whole step gets hot, not what goes round within it.
  more.emplace("hot_eager", "1000000");
  RunEveryWay(
      [&](Log& log) {
        constexpr int kTimes = 12;
        for (int i = 0; i < kTimes; ++i) {
          const Step step;
          const std::vector<Tensor> out = body(in);
          for (const Tensor& x : out) {
            if (i == 0 || i >= kTimes - 2)
              log.Add(Bits(x));
            else
              (void)x.impl();  // results that nobody reads are worth no code
          }
        }
      },
      kernels, more);
}

/// A program that does the same with the first function of a module.
inline TestProgram Called(const std::string& text, const std::vector<Tensor>& in, int times = 8) {
  return [=](Log& log) {
    auto function = Function::parse(text);
    ASSERT_TRUE(function.ok()) << text;
    for (int i = 0; i < times; ++i) {
      const auto out = (*function)(in);
      if (i == 0 || i >= times - 2)
        for (const Tensor& x : out) log.Add(Bits(x));
    }
  };
}

}  // namespace tessera

#endif  // TESSERA_TESTS_UNIT_TIERS_CODE_TESTING_H_
