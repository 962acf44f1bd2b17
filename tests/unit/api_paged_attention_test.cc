// paged_attention of eager programs: index dtypes, devices, gradients, and versions with errors in the middle.
#include "tiers_testing.h"

namespace tessera {
namespace {

struct Cache {
  Tensor q = randn({2, 4, 1, 8}), k = randn({6, 4, 2, 8}), v = randn({6, 4, 2, 8});
  Tensor table = Tensor::from<int64_t>({5, 1, 0, 2, 1, 4}, {2, 3}), lengths = Tensor::from<int64_t>({9, 12});
};

TEST(ApiPagedAttention, IndexDtypesAndDevices) {
  const Cache c;
  const Tensor y = paged_attention(c.q, c.k, c.v, c.table, c.lengths);
  EXPECT_EQ(paged_attention(c.q, c.k, c.v, c.table.cast(i32), c.lengths.cast(u8)).to_bytes(), y.to_bytes());
  EXPECT_EQ(paged_attention(c.q.cast(bf16), c.k, c.v, c.table, c.lengths).dtype(), f32);
  EXPECT_EQ(paged_attention(c.q.cast(bf16), c.k.cast(bf16), c.v.cast(bf16), c.table, c.lengths).dtype(), bf16);
  const auto nowhere = [](const Tensor& x) { return x.to(Device::null()); };
  const Tensor none = paged_attention(nowhere(c.q), nowhere(c.k), nowhere(slice(c.v, {0}, {3}, {1}, {3})),
                                      nowhere(c.table), nowhere(c.lengths));
  EXPECT_EQ(none.dims(), (Dims{2, 4, 1, 3}));
}

// Queries that are scaled by a number are the same as scores that are.
TEST(ApiPagedAttention, Scale) {
  const Cache c;
  const std::vector<float> a = paged_attention(c.q, c.k, c.v, c.table, c.lengths, 0.5).to_vector<float>();
  const std::vector<float> b = paged_attention(c.q * 0.25, c.k, c.v, c.table, c.lengths, 2.0).to_vector<float>();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5);
}

TEST(ApiPagedAttention, HasNoGradient) {
  const Cache c;
  Tape tape;
  tape.watch({c.q});
  const Tensor loss = sum(paged_attention(c.q, c.k, c.v, c.table, c.lengths));
  std::string message;
  try {
    tape.gradient(loss, {c.q});
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("paged_attention"), std::string::npos) << message;
  EXPECT_NE(message.find("has no gradient"), std::string::npos) << message;
}

// Decoding: a position more in each step, until a page that is not there is needed.
TEST(ApiPagedAttention, ErrorsOfValuesAtTheirOpInALoop) {
  const Cache c;
  const auto program = [&](Log& log) {
    Tensor q = c.q;
    for (int i = 0; i < 40; ++i) {
      const Tensor table = Tensor::from<int64_t>({5, 1, 0, 2, i == 33 ? 6 : 1, 4}, {2, 3});
      const Tensor lengths = Tensor::from<int64_t>({i % 13, 12 - i % 7});
      const Tensor scaled = q * 0.5;
      Tensor y;
      log.Try([&] { y = paged_attention(scaled, c.k, c.v, table, lengths); });
      if (!y.defined()) continue;
      q = q + y * 0.125;
    }
    log.Add(q);
  };
  const int64_t before = MetricNow("version_runs");
  RunBoth(program, HotAtOnce());
  EXPECT_GT(MetricNow("version_runs") - before, 10);
  EXPECT_EQ(Deopts(deopt::DeoptReason::op_failed), 1) << Runtime::explain();
}

}  // namespace
}  // namespace tessera
