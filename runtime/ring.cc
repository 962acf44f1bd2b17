#include "runtime/ring.h"

#include <algorithm>
#include <bit>
#include <mutex>

#include "absl/strings/str_format.h"
#include "runtime/clock.h"
#include "runtime/options.h"

namespace tessera::rt {

EventRing::EventRing(size_t slots)
    : mask_(std::bit_ceil(std::max<size_t>(slots, 1)) - 1), slots_(new Slot[mask_ + 1]) {}

void EventRing::Write(const Event& event) {
  const uint64_t ticket = head_.fetch_add(1, std::memory_order_relaxed);
  Slot& slot = slots_[ticket & mask_];
  uint64_t seen = slot.sequence.load(std::memory_order_relaxed);
  // Claimed by another writer, or already holding a later ticket: this writer was overtaken.
  if ((seen & 1) != 0 || seen > 2 * ticket ||
      !slot.sequence.compare_exchange_strong(seen, 2 * ticket + 1, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  // release, so that none of these is seen before the claim; plain stores on x86.
  slot.time.store(event.time_ns, std::memory_order_release);
  slot.kind_and_thread.store(uint64_t{static_cast<uint16_t>(event.kind)} << 32 | event.thread,
                             std::memory_order_release);
  slot.a.store(event.a, std::memory_order_release);
  slot.b.store(event.b, std::memory_order_release);
  slot.c.store(event.c, std::memory_order_release);
  slot.duration.store(event.duration_ns, std::memory_order_release);
  slot.sequence.store(2 * ticket + 2, std::memory_order_release);
}

std::vector<Event> EventRing::Snapshot() const {
  struct Numbered {
    uint64_t sequence;
    Event event;
  };
  std::vector<Numbered> found;
  found.reserve(slots());
  for (size_t i = 0; i <= mask_; ++i) {
    const Slot& slot = slots_[i];
    const uint64_t before = slot.sequence.load(std::memory_order_acquire);
    if (before == 0 || (before & 1) != 0) continue;
    Event e;
    e.time_ns = slot.time.load(std::memory_order_acquire);
    const uint64_t packed = slot.kind_and_thread.load(std::memory_order_acquire);
    e.kind = static_cast<EventKind>(packed >> 32);
    e.thread = static_cast<uint32_t>(packed);
    e.a = slot.a.load(std::memory_order_acquire);
    e.b = slot.b.load(std::memory_order_acquire);
    e.c = slot.c.load(std::memory_order_acquire);
    e.duration_ns = slot.duration.load(std::memory_order_acquire);
    if (slot.sequence.load(std::memory_order_relaxed) == before) found.push_back({before, e});
  }
  std::sort(found.begin(), found.end(), [](const Numbered& x, const Numbered& y) { return x.sequence < y.sequence; });
  std::vector<Event> events;
  events.reserve(found.size());
  for (const Numbered& n : found) events.push_back(n.event);
  return events;
}

namespace {

constinit std::mutex mutex;
constinit std::atomic<EventRing*> the_ring{nullptr};

// Rings are never deleted: a writer may be inside one at any time. One per size, so that switching events on and off
// does not grow memory.
EventRing* RingOfSize(size_t slots) {
  static auto* rings = new std::vector<EventRing*>;
  slots = std::bit_ceil(slots);
  for (EventRing* ring : *rings)
    if (ring->slots() == slots) return ring;
  rings->push_back(new EventRing(slots));
  return rings->back();
}

void ReadOption() {
  std::lock_guard lock(mutex);
  const auto slots = static_cast<size_t>(options().events());
  the_ring.store(slots == 0 ? nullptr : RingOfSize(slots), std::memory_order_release);
  if (slots == 0)
    internal::g_events.fetch_and(~internal::kRing, std::memory_order_release);
  else
    internal::g_events.fetch_or(internal::kRing, std::memory_order_release);
  internal::g_events.fetch_and(~internal::kUnread, std::memory_order_release);
}

}  // namespace

namespace internal {

constinit std::atomic<uint32_t> g_events{kUnread};
constinit std::atomic<void (*)(EventKind, int64_t, int64_t, int64_t, int64_t)> g_recorder{nullptr};

void RecordSlow(EventKind kind, int64_t ns, int64_t a, int64_t b, int64_t c) {
  if (RecorderOn()) {
    if (const auto recorder = g_recorder.load(std::memory_order_acquire)) recorder(kind, ns, a, b, c);
  }
  if (!RingOn()) return;
  if (EventRing* ring = GlobalRing()) ring->Write({NowNs(), kind, ThreadNumber(), a, b, c, ns});
}

}  // namespace internal

uint32_t ThreadNumber() {
  static constinit std::atomic<uint32_t> last{0};
  static constinit thread_local uint32_t mine = 0;
  if (mine == 0) mine = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return mine;
}

EventRing* GlobalRing() {
  if ((internal::g_events.load(std::memory_order_acquire) & internal::kUnread) != 0) {
    options().OnChange(OptionId::events, ReadOption);
    ReadOption();
  }
  return the_ring.load(std::memory_order_acquire);
}

std::string ToString(const Event& event) {
  const EventInfo& row = kEvents[static_cast<int>(event.kind)];
  std::string text = absl::StrFormat("%d.%09d [%d] %s", event.time_ns / 1'000'000'000, event.time_ns % 1'000'000'000,
                                     event.thread, std::string(row.name));
  const auto add = [&](std::string_view what, int64_t value) {
    if (!what.empty()) absl::StrAppendFormat(&text, " %s=%d", std::string(what), value);
  };
  add(row.a, event.a);
  add(row.b, event.b);
  add(row.c, event.c);
  add(row.form == EventForm::slice ? "nanoseconds" : "", event.duration_ns);
  return text;
}

}  // namespace tessera::rt
