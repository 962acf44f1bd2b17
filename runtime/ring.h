// The ring buffer of events: fixed-size binary records, any number of writers, the oldest are overwritten.
#ifndef TESSERA_RUNTIME_RING_H_
#define TESSERA_RUNTIME_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::rt {

enum class EventKind : uint16_t {
#define TSR_EVENT(name, form, a, b, c, summary) name,
#include "runtime/events.def"
};

inline constexpr int kNumEventKinds = 0
#define TSR_EVENT(name, form, a, b, c, summary) +1
#include "runtime/events.def"
    ;

enum class EventForm : uint8_t { slice, instant };

struct EventInfo {
  EventKind id;
  EventForm form;
  std::string_view name, a, b, c, summary;
};
inline constexpr EventInfo kEvents[] = {
#define TSR_EVENT(name, form, a, b, c, summary) {EventKind::name, EventForm::form, #name, a, b, c, summary},
#include "runtime/events.def"
};

struct Event {
  int64_t time_ns = 0;  // NowNs() when it was recorded
  EventKind kind{};
  uint32_t thread = 0;  // small number, counted from 1 in the order in which threads recorded
  int64_t a = 0, b = 0, c = 0;
  int64_t duration_ns = 0;  // of a slice, which ended at time_ns
};

enum class CompileStage : uint8_t {
#define TSR_COMPILE_STAGE(name, summary) name,
#include "runtime/compile_stages.def"
};

/// One ring. Each slot is a sequence lock: a writer claims it, fills it and opens it again; a reader takes a slot
/// only if it did not change meanwhile. Nobody ever waits: a writer that finds its slot claimed (it was overtaken by
/// a whole round of the ring) drops its event and counts it.
class EventRing {
 public:
  /// `slots` is rounded up to a power of two.
  explicit EventRing(size_t slots);
  EventRing(const EventRing&) = delete;
  EventRing& operator=(const EventRing&) = delete;

  void Write(const Event& event);
  /// The events that are complete now, oldest first.
  std::vector<Event> Snapshot() const;

  size_t slots() const { return mask_ + 1; }
  int64_t written() const { return head_.load(std::memory_order_relaxed); }
  int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  struct alignas(64) Slot {
    std::atomic<uint64_t> sequence{0};  // 0: never used; 2t + 1: being written as ticket t; 2t + 2: holds ticket t
    std::atomic<int64_t> time{0};
    std::atomic<uint64_t> kind_and_thread{0};
    std::atomic<int64_t> a{0}, b{0}, c{0}, duration{0};
  };
  size_t mask_;
  std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<uint64_t> head_{0};
  std::atomic<int64_t> dropped_{0};
};

namespace internal {
/// Who wants events.
enum : uint32_t {
  kUnread = 1,    // the option `events` has not been looked at yet
  kRing = 2,      // the ring of the process
  kRecorder = 4,  // a recording is open (runtime/trace/recorder.h)
};
[[gnu::visibility("hidden")]] extern std::atomic<uint32_t> g_events;
void RecordSlow(EventKind kind, int64_t ns, int64_t a, int64_t b, int64_t c);
/// For the recorder; null before there is one. It takes an event that ended now and took ns.
[[gnu::visibility("hidden")]] extern std::atomic<void (*)(EventKind, int64_t, int64_t, int64_t, int64_t)> g_recorder;
}  // namespace internal

/// True when somebody wants events. One load.
inline bool EventsOn() { return internal::g_events.load(std::memory_order_relaxed) != 0; }
/// Does the ring, or the recorder, want them? The first may be true when it is not known yet.
inline bool RingOn() { return (internal::g_events.load(std::memory_order_relaxed) & ~internal::kRecorder) != 0; }
inline bool RecorderOn() { return (internal::g_events.load(std::memory_order_relaxed) & internal::kRecorder) != 0; }

/// Tells whoever wants events that something happened; otherwise one relaxed load.
inline void Record(EventKind kind, int64_t a = 0, int64_t b = 0, int64_t c = 0) {
  if (EventsOn()) [[unlikely]]
    internal::RecordSlow(kind, 0, a, b, c);
}
/// The same for a slice, which took ns and ends now.
inline void RecordFor(EventKind kind, int64_t ns, int64_t a = 0, int64_t b = 0, int64_t c = 0) {
  if (EventsOn()) [[unlikely]]
    internal::RecordSlow(kind, ns, a, b, c);
}

/// Of the calling thread, as in Event::thread.
uint32_t ThreadNumber();

/// The ring of the process; null when the option `events` is 0. Setting that option makes a new ring (an old one is
/// kept, because a writer may still be in it, and used again when its size is asked for again).
EventRing* GlobalRing();

/// "12.345678901 [2] op op number=3 elements of the result=6 site=1 nanoseconds=410"
std::string ToString(const Event& event);

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_RING_H_
