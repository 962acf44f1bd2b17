// Masks of attention that were seen to be simple: code of tier 3 does without them, behind a guard.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <span>

#include "absl/strings/str_cat.h"
#include "tests/unit/tiers_code_testing.h"
#include "tracer/mask.h"

namespace tessera {
namespace {

using tracer::MaskShape;

Tensor Causal(int64_t s, int64_t t) { return tril(ones({s, t}), static_cast<int>(t - s)) > 0.5; }
Tensor AsAdded(const Tensor& keep, DType dtype) {
  return cast(where(keep, 0.0, -std::numeric_limits<double>::infinity()), dtype);
}
MaskShape ShapeOf(const Tensor& mask) { return tracer::ShapeOfMask(*mask.impl()); }

TEST(TracerMask, Shapes) {
  for (const auto& [s, t] : {std::pair<int64_t, int64_t>{5, 5}, {3, 7}, {7, 3}, {2, 2}}) {
    SCOPED_TRACE(absl::StrCat(s, " x ", t));
    const Tensor causal = Causal(s, t), all = ones({s, t}) > 0.5;
    EXPECT_EQ(ShapeOf(causal), MaskShape::causal);
    EXPECT_EQ(ShapeOf(all), MaskShape::everything);
    EXPECT_EQ(ShapeOf(all == false), MaskShape::unknown);
    for (const DType dtype : {f64, f32, f16, bf16}) {
      EXPECT_EQ(ShapeOf(AsAdded(causal, dtype)), MaskShape::causal) << Name(dtype);
      EXPECT_EQ(ShapeOf(AsAdded(all, dtype)), MaskShape::everything) << Name(dtype);
      EXPECT_EQ(ShapeOf(AsAdded(causal, dtype) + 0.5), MaskShape::unknown) << Name(dtype);
    }
    // One element of any place counts.
    for (int64_t i = 0; i < s * t; ++i) {
      for (const Tensor& mask : {causal, all}) {
        std::vector<uint8_t> bits;
        for (bool b : mask.to_vector<bool>()) bits.push_back(b);
        bits[static_cast<size_t>(i)] ^= 1;
        const Tensor other = cast(Tensor::from(bits, {s, t}), boolean);
        EXPECT_NE(ShapeOf(other), ShapeOf(mask)) << i;
      }
    }
    // However it lies, and for all matrices of a batch.
    EXPECT_EQ(ShapeOf(causal.flip().flip()), MaskShape::causal);
    EXPECT_EQ(ShapeOf(broadcast(causal, {2, 3, s, t})), MaskShape::causal);
    EXPECT_EQ(ShapeOf(stack({causal, all})), MaskShape::unknown);
    EXPECT_EQ(ShapeOf(stack({causal, causal}, 2).transpose({2, 0, 1})), MaskShape::causal);
  }
  // What stands for many rows or columns has no diagonal; -0 is 0, NaN is nothing.
  EXPECT_EQ(ShapeOf(ones({2, 1, 1, 4}) > 0.5), MaskShape::everything);
  EXPECT_EQ(ShapeOf(Causal(1, 4)), MaskShape::everything);
  EXPECT_EQ(ShapeOf(Tensor::from<float>({-std::numeric_limits<float>::infinity(), 0}, {2, 1})), MaskShape::unknown);
  EXPECT_EQ(ShapeOf(Tensor::from<float>({-0.0f, 0})), MaskShape::everything);
  EXPECT_EQ(ShapeOf(Tensor::from<float>({0, std::nanf("")})), MaskShape::unknown);
  EXPECT_EQ(ShapeOf(ones({0, 4}) > 0.5), MaskShape::unknown);
  EXPECT_EQ(ShapeOf(Tensor::from<int64_t>({1, 1})), MaskShape::unknown);
}

class TiersMasks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  }
  static constexpr int64_t kQueries = 33, kKeys = 40;
  static Settings Tier3() {
    Settings settings = CodeAtOnce({3, true}, /*bitwise=*/false);
    settings["profit_gate"] = "false";
    return settings;
  }
  static Tensor Q(uint64_t seed) { return random_normal(static_cast<int64_t>(seed), 0, {2, 2, kQueries, 16}); }
  static Tensor K(uint64_t seed) { return random_normal(static_cast<int64_t>(seed), 0, {2, 2, kKeys, 16}); }
  static int64_t Reasons() { return deopt::Ledger::Get().count(deopt::GuardKind::value_property); }

  /// A causal mask, but that the first query sees the last key.
  static std::vector<float> Corner() {
    std::vector<float> keep(static_cast<size_t>(kQueries * kKeys));
    for (int64_t i = 0; i < kQueries * kKeys; ++i)
      keep[static_cast<size_t>(i)] = i % kKeys <= i / kKeys + kKeys - kQueries || i == kKeys - 1 ? 1 : 0;
    return keep;
  }
  /// The same values in other memory, without an op.
  static Tensor Saved(const Tensor& mask) {
    if (mask.dtype() == f32) return Tensor::from(mask.to_vector<float>(), mask.dims());
    const std::vector<bool> keep = mask.to_vector<bool>();
    const auto bits = std::make_unique<bool[]>(keep.size());
    std::copy(keep.begin(), keep.end(), bits.get());
    return Tensor::from(std::span<const bool>(bits.get(), keep.size()), mask.dims());
  }
  static void ExpectSame(const Tensor& got, const Tensor& want, double tolerance, const std::string& what) {
    const std::vector<float> a = got.to_vector<float>(), b = want.to_vector<float>();
    ASSERT_EQ(a.size(), b.size());
    for (size_t e = 0; e < a.size(); ++e)
      ASSERT_NEAR(a[e], b[e], tolerance * (1 + std::abs(b[e]))) << what << ", " << e;
  }

  /// Attention with the mask that `of` gives for each round, then in tier 1 with what that was.
  static void Loop(int rounds, const std::function<Tensor(int)>& of) {
    tiers::Manager::Get().Reset();
    deopt::Ledger::Get().Clear();
    const auto round = [](int i, const Tensor& mask) {
      return attention(Q(static_cast<uint64_t>(i)), K(1000 + static_cast<uint64_t>(i)),
                       K(2000 + static_cast<uint64_t>(i)), mask) *
             2.0;
    };
    std::vector<std::vector<float>> got;
    std::vector<Tensor> masks;
    {
      OptionScope scope(Tier3());
      for (int i = 0; i < rounds; ++i) {
        const Tensor mask = of(i);
        got.push_back(round(i, mask).to_vector<float>());
        masks.push_back(Saved(mask));
      }
    }
    OptionScope scope({{"tier", "1"}});
    for (int i = 0; i < rounds; ++i)
      ExpectSame(Tensor::from(got[static_cast<size_t>(i)], {2, 2, kQueries, 16}),
                 round(i, masks[static_cast<size_t>(i)]), 1e-5, absl::StrCat("round ", i));
  }
};

constexpr const char* kText = R"(
func @f(%q: tensor<2 x 2 x 33 x 16 x f32>, %k: tensor<2 x 2 x 40 x 16 x f32>, %v: tensor<2 x 2 x 40 x 16 x f32>,
        %m: tensor<33 x 40 x bool>) -> tensor<2 x 2 x 33 x 16 x f32> {
  %a = attention %q, %k, %v, %m
  %y = mul %a, 2.0
  return %y
}
)";

TEST_F(TiersMasks, FunctionsDoWithoutACausalMask) {
  OptionScope scope(Tier3());
  const Function f = Function::parse(kText).value();
  const Tensor causal = Causal(kQueries, kKeys);
  // The same pattern but for one element, and a mask that keeps everything.
  const Tensor other = Tensor::from(Corner(), {kQueries, kKeys}) > 0.5, all = ones({kQueries, kKeys}) > 0.5;
  struct Call {
    Tensor q, k, v, mask, y;
  };
  std::vector<Call> calls;
  const auto call = [&](const Tensor& mask, uint64_t seed) {
    const Tensor q = Q(seed), k = K(seed + 1), v = K(seed + 2);
    calls.push_back({q, k, v, mask, f.call({q, k, v, mask})});
  };
  for (uint64_t i = 0; i < 8; ++i) call(causal, i);
  EXPECT_NE(f.inspect_ir("graph").value().find("causal = true"), std::string::npos) << f.inspect_ir("graph").value();
  EXPECT_EQ(Reasons(), 0);
  // Another tensor with the same pattern is looked at once more, and serves.
  for (uint64_t i = 0; i < 4; ++i) call(Causal(kQueries, kKeys), 10 + i);
  EXPECT_EQ(Reasons(), 0);
  call(other, 20);
  EXPECT_EQ(Reasons(), 1) << Runtime::explain();
  EXPECT_NE(Runtime::explain().find("a causal mask"), std::string::npos) << Runtime::explain();
  for (uint64_t i = 0; i < 12; ++i) call(i % 3 == 0 ? causal : i % 3 == 1 ? other : all, 30 + i);
  OptionScope plain({{"tier", "1"}});
  for (const Call& c : calls) ExpectSame(c.y, attention(c.q, c.k, c.v, c.mask) * 2.0, 1e-5, "a call");
}

TEST_F(TiersMasks, EagerLoopsDoWithoutThem) {
  const Tensor causal = Causal(kQueries, kKeys);
  const int64_t before = MetricNow("kernels_generated");
  Loop(12, [&](int) { return causal; });
  EXPECT_GT(MetricNow("kernels_generated"), before) << Runtime::explain();
  EXPECT_EQ(Reasons(), 0) << Runtime::explain();
  // From one round to the next it is another one.
  const Tensor all = ones({kQueries, kKeys}) > 0.5;
  Loop(16, [&](int i) { return i == 10 ? all : causal; });
  EXPECT_EQ(Reasons(), 1) << Runtime::explain();
}

TEST_F(TiersMasks, AddedMasksAndThoseOfABatch) {
  const Tensor causal = Causal(kQueries, kKeys), added = AsAdded(causal, f32), padding = ones({2, 1, 1, kKeys}) > 0.5;
  const Tensor padded = concat({ones({2, 1, 1, 30}), zeros({2, 1, 1, kKeys - 30})}, -1) > 0.5;
  Loop(10, [&](int) { return added; });
  EXPECT_EQ(Reasons(), 0) << Runtime::explain();
  Loop(14, [&](int i) { return i < 12 ? padding : padded; });
  EXPECT_GE(Reasons(), 1) << Runtime::explain();
}

// Who writes to a mask that a version holds writes to a copy.
TEST_F(TiersMasks, WritingToTheMask) {
  Tensor mask = AsAdded(Causal(kQueries, kKeys), f32);
  Loop(14, [&](int i) {
    if (i == 10) mask.write<float>()[kKeys - 1] = 0;
    if (i == 12) mask.write<float>()[kKeys - 1] = -std::numeric_limits<float>::infinity();
    return mask;
  });
  EXPECT_GE(Reasons(), 1) << Runtime::explain();
}

// A mask in a buffer is looked at when the buffer was written, and not while it was not.
TEST_F(TiersMasks, MasksInBuffers) {
  OptionScope scope(Tier3());
  deopt::Ledger::Get().Clear();
  const Function f = Function::parse(R"(
buffer @mask : tensor<33 x 40 x f32>
buffer @calls : tensor<f32>
func @f(%q: tensor<2 x 2 x 33 x 16 x f32>, %k: tensor<2 x 2 x 40 x 16 x f32>, %v: tensor<2 x 2 x 40 x 16 x f32>)
    -> tensor<2 x 2 x 33 x 16 x f32> {
  %n = buffer_read {buffer = "calls"}
  %more = add %n, 1.0
  buffer_write %more {buffer = "calls"}
  %m = buffer_read {buffer = "mask"}
  %a = attention %q, %k, %v, %m
  %y = mul %a, 2.0
  return %y
}
)")
                         .value();
  const auto changed = [] { return deopt::Ledger::Get().count(deopt::GuardKind::buffer_version); };
  const Tensor causal = AsAdded(Causal(kQueries, kKeys), f32);
  Tensor written = AsAdded(Tensor::from(Corner(), {kQueries, kKeys}) > 0.5, f32);
  struct Call {
    Tensor q, k, v, mask, y;
  };
  std::vector<Call> calls;
  const auto call = [&](const Tensor& mask, uint64_t seed) {
    const Tensor q = Q(seed), k = K(seed + 1), v = K(seed + 2);
    calls.push_back({q, k, v, mask, f.call({q, k, v})});
  };
  const auto set = [&](const Tensor& mask) { ASSERT_TRUE(f.module().set_buffer("mask", mask).ok()); };
  set(causal);
  for (uint64_t i = 0; i < 8; ++i) call(causal, i);
  EXPECT_NE(f.inspect_ir("graph").value().find("causal = true"), std::string::npos) << f.inspect_ir("graph").value();
  // Another tensor that keeps the same serves; one that keeps more does not.
  set(Saved(causal));
  for (uint64_t i = 0; i < 4; ++i) call(causal, 10 + i);
  EXPECT_EQ(changed(), 0) << Runtime::explain();
  set(Saved(written));
  call(Saved(written), 20);
  EXPECT_EQ(changed(), 1) << Runtime::explain();
  EXPECT_NE(Runtime::explain().find("a causal mask"), std::string::npos) << Runtime::explain();
  // What the program has written to a tensor since it put it there does not count.
  set(causal);
  call(causal, 30);
  const int64_t before = changed();
  written = causal;
  written.write<float>()[kKeys - 1] = 0;
  call(Saved(causal), 31);
  EXPECT_EQ(changed(), before) << Runtime::explain();
  set(written);
  for (uint64_t i = 0; i < 6; ++i) call(Saved(written), 32 + i);
  EXPECT_GT(changed(), before) << Runtime::explain();
  EXPECT_EQ(f.module().buffer("calls").value().item<float>(), static_cast<float>(calls.size()));
  OptionScope plain({{"tier", "1"}});
  for (const Call& c : calls) ExpectSame(c.y, attention(c.q, c.k, c.v, c.mask) * 2.0, 1e-5, "a call");
}

// A mask that changes from round to round within one call is looked at in each of them.
TEST_F(TiersMasks, LoopsThatCarryTheMask) {
  OptionScope scope(Tier3());
  const Function f = Function::parse(R"(
func @f(%q: tensor<2 x 2 x 33 x 16 x f32>, %k: tensor<2 x 2 x 40 x 16 x f32>, %m: tensor<33 x 40 x f32>)
    -> tensor<2 x 2 x 33 x 16 x f32> {
  %z = mul %q, 0.0
  %y, %last = for %i in (0, 30) (%sum = %z, %mask = %m) -> (tensor<2 x 2 x 33 x 16 x f32>, tensor<33 x 40 x f32>) {
    %a = attention %q, %k, %k, %mask
    %next = add %sum, %a
    %late = ge %i, 20
    %other = where %late, 0.0, %mask
    yield %next, %other
  }
  return %y
}
)")
                         .value();
  const Tensor q = Q(1), k = K(2), mask = AsAdded(Causal(kQueries, kKeys), f32);
  // In the later calls the loop is code of tier 3 from its beginning.
  std::vector<Tensor> got;
  for (int i = 0; i < 6; ++i) got.push_back(f.call({q, k, mask}));
  OptionScope plain({{"tier", "1"}});
  for (const Tensor& y : got) ExpectSame(y, f.call({q, k, mask}), 1e-4, "the sum");
}

}  // namespace
}  // namespace tessera
