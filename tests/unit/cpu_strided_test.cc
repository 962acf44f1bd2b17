// Strided copies against element-by-element references, over random views.
#include <gtest/gtest.h>

#include "interp/cpu/strided.h"
#include "tests/unit/movement_util.h"

namespace tessera::cpu {
namespace {

using namespace movement;

constexpr DType kSizes[] = {DType::u8, DType::bf16, DType::i32, DType::f64};

TEST(GatherBlock, EveryRankAndSizeFromAnyElement) {
  Rng rng(1);
  for (int round = 0; round < 1500; ++round) {
    const int rank = round % (kMaxRank + 1);
    const TensorType type = Type(kSizes[round % 4], RandomDims(rng, rank, rank > 5 ? 4 : rank > 2 ? 9 : 70));
    const Owned x = RandomView(rng, type);
    const int64_t n = type.size(), size = SizeOf(type.dtype);
    const std::string want = Bytes(x.v);
    const int64_t first = n == 0 ? 0 : Uniform(rng, 0, n - 1);
    const int64_t count = n == 0 ? 0 : Uniform(rng, 0, n - first);
    for (const auto& [from, many] : {std::pair<int64_t, int64_t>{0, n}, {first, count}}) {
      std::string got(many * size + 8, '\x5a');
      GatherBlock(x.v, from, many, got.data());
      ASSERT_EQ(got, want.substr(from * size, many * size) + std::string(8, '\x5a')) << "round " << round;
    }
  }
}

TEST(ScatterBlock, WritesThoseElementsAndNoOthers) {
  Rng rng(2);
  for (int round = 0; round < 1500; ++round) {
    const int rank = round % (kMaxRank + 1);
    const TensorType type = Type(kSizes[round % 4], RandomDims(rng, rank, rank > 5 ? 4 : rank > 2 ? 9 : 70));
    const Owned y = RandomView(rng, type, /*repeat=*/false);
    const int64_t n = type.size(), size = SizeOf(type.dtype);
    const int64_t first = n == 0 ? 0 : Uniform(rng, 0, n - 1);
    const int64_t count = n == 0 ? 0 : Uniform(rng, 0, n - first);
    std::string src(count * size, 0);
    for (char& c : src) c = static_cast<char>(rng());
    std::vector<uint64_t> want = *y.memory;
    View reference = y.v;
    reference.data = reinterpret_cast<char*>(want.data()) +
                     (static_cast<char*>(y.v.data) - reinterpret_cast<char*>(y.memory->data()));
    for (int64_t i = 0; i < count; ++i) std::memcpy(Element(reference, first + i), src.data() + i * size, size);
    ScatterBlock(y.v, first, count, src.data());
    ASSERT_EQ(*y.memory, want) << "round " << round;
  }
}

TEST(CopyStrided, RandomViewsToRandomViews) {
  Rng rng(3);
  for (int round = 0; round < 1500; ++round) {
    const int rank = round % (kMaxRank + 1);
    const TensorType type = Type(kSizes[round % 4], RandomDims(rng, rank, rank > 5 ? 4 : rank > 2 ? 9 : 90));
    const Owned src = RandomView(rng, type);
    const Owned dst = RandomView(rng, type, /*repeat=*/false);
    std::vector<uint64_t> want = *dst.memory;
    View reference = dst.v;
    reference.data = reinterpret_cast<char*>(want.data()) +
                     (static_cast<char*>(dst.v.data) - reinterpret_cast<char*>(dst.memory->data()));
    const int64_t n = type.size();
    for (int64_t i = 0; i < n; ++i) std::memcpy(Element(reference, i), Element(src.v, i), SizeOf(type.dtype));
    CopyStrided(dst.v, src.v);
    ASSERT_EQ(*dst.memory, want) << "round " << round;
  }
}

// Above the grain, so that pieces are copied by several threads, with edges that fill no tile.
TEST(CopyStrided, LargeTransposesOfEverySize) {
  Rng rng(4);
  for (DType dtype : kSizes) {
    for (const std::vector<int64_t>& dims :
         {std::vector<int64_t>{301, 519}, {2, 300, 130}, {1030, 67}, {7, 5, 11, 301}, {200000}}) {
      const TensorType type = Type(dtype, dims);
      for (int k = 0; k < 6; ++k) {
        const Owned src = RandomView(rng, type);
        const Owned dst = Zeros(type);
        CopyStrided(dst.v, src.v);
        ASSERT_EQ(Bytes(dst.v), Bytes(src.v));
      }
    }
  }
}

TEST(MakeContiguous, SharesWhatIsContiguousAndCopiesTheRest) {
  const Owned x = Values(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  Scratch scratch;
  absl::StatusOr<View> same = MakeContiguous(x.v, &scratch);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->data, x.v.data);
  EXPECT_EQ(scratch.data(), nullptr);
  const int perm[] = {1, 0};
  absl::StatusOr<View> turned = MakeContiguous(Permuted(x.v, perm), &scratch);
  ASSERT_TRUE(turned.ok());
  EXPECT_TRUE(turned->IsContiguous());
  EXPECT_EQ(Doubles(*turned), (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

TEST(BroadcastTo, RepeatsOnesAndMissingDims) {
  const Owned x = Values(DType::i32, {2, 1}, {7, 8});
  const View y = BroadcastTo(x.v, Type(DType::i32, {2, 2, 3}));
  EXPECT_EQ(Doubles(y), (std::vector<double>{7, 7, 7, 8, 8, 8, 7, 7, 7, 8, 8, 8}));
}

TEST(Coalesce, MergesWhatAllViewsWalkAlike) {
  Rng rng(5);
  View v[2];
  v[0] = Zeros(Type(DType::f32, {2, 1, 3, 4})).v;
  v[1] = v[0];
  Coalesce(v, 2);
  EXPECT_EQ(v[0].rank, 1);
  EXPECT_EQ(v[0].dims[0], 24);
  v[0] = Zeros(Type(DType::f32, {2, 3, 4})).v;
  v[1] = BroadcastTo(Zeros(Type(DType::f32, {2, 1, 1})).v, v[0]);
  Coalesce(v, 2);
  EXPECT_EQ(v[1].rank, 2);
  EXPECT_EQ(v[1].dims[1], 12);
  EXPECT_EQ(v[1].strides[1], 0);
  for (int round = 0; round < 300; ++round) {
    const TensorType type = Type(DType::i32, RandomDims(rng, round % (kMaxRank + 1), 4));
    const Owned a = RandomView(rng, type), b = RandomView(rng, type);
    v[0] = a.v;
    v[1] = b.v;
    Coalesce(v, 2);
    ASSERT_EQ(Bytes(v[0]), Bytes(a.v));
    ASSERT_EQ(Bytes(v[1]), Bytes(b.v));
  }
}

}  // namespace
}  // namespace tessera::cpu
