#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/options.h"
#include "runtime/ring.h"

namespace tessera::rt {
namespace {

Event Numbered(int64_t i) { return {i, EventKind::op, 1, i, i * 2, i * 3}; }

TEST(EventRing, KeepsTheLatestInOrder) {
  EventRing ring(10);
  EXPECT_EQ(ring.slots(), 16u);
  EXPECT_TRUE(ring.Snapshot().empty());
  for (int i = 0; i < 5; ++i) ring.Write(Numbered(i));
  EXPECT_EQ(ring.Snapshot().size(), 5u);
  for (int i = 5; i < 100; ++i) ring.Write(Numbered(i));
  const std::vector<Event> events = ring.Snapshot();
  ASSERT_EQ(events.size(), 16u);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(events[i].a, 84 + i);
    EXPECT_EQ(events[i].b, 2 * (84 + i));
    EXPECT_EQ(events[i].c, 3 * (84 + i));
    EXPECT_EQ(events[i].kind, EventKind::op);
    EXPECT_EQ(events[i].thread, 1u);
  }
  EXPECT_EQ(ring.written(), 100);
  EXPECT_EQ(ring.dropped(), 0);
}

TEST(EventRing, SnapshotsAreWholeWhileManyWrite) {
  EventRing ring(32);
  std::atomic<bool> stop{false};
  std::atomic<int64_t> torn{0};
  std::thread reader([&] {
    while (!stop.load()) {
      for (const Event& e : ring.Snapshot())
        if (e.b != e.a * 2 || e.c != e.a * 3 || e.time_ns != e.a) torn.fetch_add(1);
    }
  });
  std::vector<std::thread> writers;
  for (int w = 0; w < 3; ++w)
    writers.emplace_back([&, w] {
      for (int64_t i = 0; i < 20000; ++i) ring.Write(Numbered(i * 3 + w));
    });
  for (std::thread& t : writers) t.join();
  stop.store(true);
  reader.join();
  EXPECT_EQ(torn.load(), 0);
  EXPECT_EQ(ring.written(), 60000);
  EXPECT_LE(ring.Snapshot().size(), 32u);
  EXPECT_GE(static_cast<int64_t>(ring.Snapshot().size()) + ring.dropped(), 32);
}

TEST(EventRing, RingOfTheProcessFollowsTheOption) {
  ASSERT_TRUE(options().Set("events", "0").ok());
  EXPECT_EQ(GlobalRing(), nullptr);
  EXPECT_FALSE(EventsOn());
  Record(EventKind::op, 1, 2, 3);
  ASSERT_TRUE(options().Set("events", "100").ok());
  EventRing* ring = GlobalRing();
  ASSERT_NE(ring, nullptr);
  EXPECT_EQ(ring->slots(), 128u);
  EXPECT_EQ(ring->written(), 0);
  Record(EventKind::function_enter, 7, 1);
  std::thread([] { Record(EventKind::function_exit, 7, 1, 12); }).join();
  const std::vector<Event> events = ring->Snapshot();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_LE(events[0].time_ns, events[1].time_ns);
  EXPECT_NE(events[0].thread, events[1].thread);
  const std::string text = ToString(events[1]);
  EXPECT_NE(text.find("function_exit site=7 depth of calls=1 instructions run=12"), std::string::npos) << text;
  ASSERT_TRUE(options().Set("events", "0").ok());
  EXPECT_FALSE(EventsOn());
  ASSERT_TRUE(options().Set("events", "128").ok());
  EXPECT_EQ(GlobalRing(), ring) << "switching on and off does not grow memory";
  ASSERT_TRUE(options().Set("events", "0").ok());
}

}  // namespace
}  // namespace tessera::rt
