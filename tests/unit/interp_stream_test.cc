// The trail of a stream tells ops apart as their folded paths do.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "interp/stream.h"

namespace tessera::interp {
namespace {

constexpr int32_t kNotHot = 1 << 30;

/// Gives every path an entry, and notes what it was asked.
class Hook final : public StreamHook {
 public:
  Stream* NewStream() override { return nullptr; }
  void OnThreadEnd(Stream&) override {}
  void OnMiss(Stream& stream, HotEntry& entry, const EagerCall& call) override {
    ++misses;
    if (entry.tag != 0) stream.ForgetTrail();
    entry.tag = Stream::TagOf(call.path);
    entry.countdown = kNotHot;
  }
  bool OnHot(Stream&, HotEntry&, const EagerCall&, absl::Span<rt::TensorImpl*>) override { return false; }
  void OnDecay(Stream& stream) override {
    ++decays;
    stream.until_decay = every;
  }
  void OnExecuted(Stream&, const EagerCall&, absl::Span<rt::TensorImpl* const>, const absl::Status&, int64_t) override {
  }
  void OnStep(Stream&, const void*) override {}
  void OnWrite(Stream&) override {}
  absl::Status OnWait(Stream&) override { return absl::OkStatus(); }

  int64_t misses = 0, decays = 0, every = 1 << 20;
};

class InterpStream : public testing::Test {
 protected:
  InterpStream() : before_(CurrentStreamHook()) {
    SetStreamHook(&hook);
    stream->until_decay = hook.every;
  }
  ~InterpStream() override { SetStreamHook(before_); }

  /// An op arrives; its path is checked against the sites folded one by one.
  void Arrive(int site, ir::Op op = ir::Op::k_add) {
    const void* const place = &sites_[static_cast<size_t>(site)];
    path = Stream::Fold(path, place, op);
    EagerCall call{op, {}, {}, place, 0, nullptr, nullptr};
    HotEntry* entry = stream->Arrive(call);
    ASSERT_EQ(call.path, path & stream->path_mask);
    ASSERT_EQ(stream->path(), path);
    if (entry->tag != 0) {
      ASSERT_EQ(entry->tag, Stream::TagOf(call.path));
    }
    --entry->countdown;
    ++arrivals;
  }

  Hook hook;
  std::unique_ptr<Stream> stream = std::make_unique<Stream>();
  uint64_t path = 0;
  int64_t arrivals = 0;

 private:
  StreamHook* const before_;
  char sites_[1 << 14] = {};
};

TEST_F(InterpStream, RandomLoops) {
  std::mt19937 random(20261118);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int program = 0; program < 200; ++program) {
    // Loops in loops, with a branch that is seldom taken and the same site with two ops.
    const int first = below(8000), inner = 1 + below(6), turns = 1 + below(5), outer = 2 + below(20);
    for (int i = 0; i < outer; ++i) {
      for (int k = 0; k < turns; ++k)
        for (int s = 0; s < inner; ++s) Arrive(first + s, s % 3 == 0 ? ir::Op::k_mul : ir::Op::k_add);
      if (below(5) == 0) Arrive(first + 7);
      if (below(9) == 0) {
        // Ops that waited elsewhere.
        path = Stream::Fold(path, &hook, ir::Op::k_add);
        stream->SetPath(path);
      }
      Arrive(first + inner, below(2) == 0 ? ir::Op::k_sub : ir::Op::k_add);
    }
  }
  stream->ForgetTrail();
  EXPECT_EQ(stream->until_decay, hook.every - arrivals);
}

TEST_F(InterpStream, ALoopIsCounted) {
  constexpr int kOps = 300, kTurns = 50;
  for (int turn = 0; turn < kTurns; ++turn)
    for (int s = 0; s < kOps; ++s) Arrive(s);
  const int64_t misses = hook.misses;
  // Once more: each op has its entry, which counts it once. The first fifteen of the first turn had other paths.
  std::vector<int32_t> counts;
  for (int s = 0; s < kOps; ++s) {
    Arrive(s);
    counts.push_back(kNotHot - stream->EntryOf(path).countdown);
  }
  EXPECT_EQ(hook.misses, misses);
  for (int s = 0; s < kOps; ++s) EXPECT_EQ(counts[static_cast<size_t>(s)], s < 15 ? kTurns - 1 : kTurns) << s;
}

TEST_F(InterpStream, LoopsOfMoreOpsThanTheTrailHas) {
  for (int turn = 0; turn < 3; ++turn)
    for (int s = 0; s < Stream::kLinks + 100; ++s) Arrive(s);
}

TEST_F(InterpStream, WhoeverWantsToBeAskedAtEachOpIs) {
  for (int turn = 0; turn < 4; ++turn)
    for (int s = 0; s < 10; ++s) Arrive(s);
  hook.every = 1;
  stream->ForgetTrail();
  stream->until_decay = 1;
  const int64_t before = hook.decays;
  for (int turn = 0; turn < 4; ++turn)
    for (int s = 0; s < 10; ++s) Arrive(s);
  EXPECT_EQ(hook.decays - before, 40);
}

TEST_F(InterpStream, FewBitsOfPaths) {
  stream->path_mask = 7;
  for (int turn = 0; turn < 20; ++turn)
    for (int s = 0; s < 30; ++s) Arrive(s);
}

}  // namespace
}  // namespace tessera::interp
