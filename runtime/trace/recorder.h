// Records events and what their numbers stand for, to a file, or in memory for a dump of the last seconds. A thread
// writes its events into a buffer of its own, without a lock and without waiting; one thread of the recorder empties
// the buffers, encodes and writes. An event that finds its buffer full is dropped and counted: recording never holds up
// a program, and never fails it.
#ifndef TESSERA_RUNTIME_TRACE_RECORDER_H_
#define TESSERA_RUNTIME_TRACE_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/clock.h"
#include "runtime/per_thread.h"
#include "runtime/ring.h"
#include "runtime/status.h"
#include "runtime/trace/format.h"

namespace tessera::rt::trace {

struct RawEvent {
  int64_t end;             // ticks
  uint64_t kind_and_took;  // the kind in the upper 16 bits, ticks in the others
  int64_t a, b, c;
};

class ThreadBuffer;
/// This thread's buffer; null without memory and at the end of the thread.
ThreadBuffer* BufferOfThread();

namespace internal {
struct BufferHolder {
  std::shared_ptr<ThreadBuffer> buffer;
  void Retire();
  void Fold() {}
};
}  // namespace internal

/// The events of one thread that nobody has fetched yet, and the sites that it came by. One thread writes, the
/// recorder's reads.
class ThreadBuffer {
 public:
  static constexpr uint64_t kSlots = 1 << 16;

  void Push(EventKind kind, int64_t end, int64_t took, int64_t a, int64_t b, int64_t c) {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_seen_ >= kSlots) [[unlikely]] {
      tail_seen_ = tail_.load(std::memory_order_acquire);
      if (head - tail_seen_ >= kSlots) {
        lost_.fetch_add(1, std::memory_order_relaxed);
        return;
      }
    }
    slots_[head % kSlots] = {end, uint64_t{static_cast<uint16_t>(kind)} << 48 | (static_cast<uint64_t>(took) & kTook),
                             a, b, c};
    head_.store(head + 1, std::memory_order_release);
    if (((head + 1) & (kSlots / 4 - 1)) == 0) [[unlikely]]
      Wake();
  }

  /// The number of a site that this thread came by lately; 0: it must be looked up.
  uint32_t FindSite(const void* base, int32_t index, const char* file, int32_t line) const {
    const SiteEntry& e = sites_[Hash(base, index)];
    return e.base == base && e.index == index && e.line == line && e.file == file ? e.number : 0;
  }
  void KeepSite(const void* base, int32_t index, const char* file, int32_t line, uint32_t number) {
    sites_[Hash(base, index)] = {base, file, index, line, number};
  }

 private:
  friend class Recorder;
  friend struct internal::BufferHolder;
  friend ThreadBuffer* BufferOfThread();
  static constexpr uint64_t kTook = (uint64_t{1} << 48) - 1;
  static constexpr int kSites = 2048;
  struct SiteEntry {
    const void* base = nullptr;
    const char* file = nullptr;
    int32_t index = 0, line = 0;
    uint32_t number = 0;
  };
  static size_t Hash(const void* base, int32_t index) {
    return ((reinterpret_cast<uintptr_t>(base) + static_cast<uintptr_t>(index) * 64) * 0x9e3779b97f4a7c15ull) >> 53;
  }
  static void Wake();

  alignas(64) std::atomic<uint64_t> head_{0};
  uint64_t tail_seen_ = 0;
  std::atomic<int64_t> lost_{0};
  alignas(64) std::atomic<uint64_t> tail_{0};
  std::atomic<bool> ended_{false};
  int64_t number_ = 0;
  std::unique_ptr<RawEvent[]> slots_{new RawEvent[kSlots]};
  SiteEntry sites_[kSites];
};

inline ThreadBuffer* PeekBuffer() {
  if (auto* holder = PerThread<internal::BufferHolder>::Peek(); holder != nullptr) [[likely]] {
    if (holder->buffer != nullptr) [[likely]]
      return holder->buffer.get();
  }
  return BufferOfThread();
}

/// An event that began at `start` (Ticks()) and ends now. For whoever has asked RecorderOn().
inline void RecordSince(EventKind kind, int64_t start, int64_t a, int64_t b, int64_t c) {
  const int64_t end = Ticks();
  if (ThreadBuffer* buffer = PeekBuffer()) buffer->Push(kind, end, end - start, a, b, c);
}

/// %p becomes the process id.
std::string ExpandPath(std::string path);

class Recorder {
 public:
  static Recorder& Get();  // never destroyed

  /// Begins a file, which only its owner may read. An error where it cannot be made or another one is open.
  absl::Status Start(const std::string& path);
  /// Ends it: whatever was recorded before the call is in the file. The error is that of the file, if it could not be
  /// written; the recording had ended then already, with a line in the log.
  absl::Status Stop(std::string_view reason = "stopped");
  /// From now on the events of the last `seconds` are kept in memory; 0: no more.
  void Keep(int64_t seconds);
  /// Writes what is kept to a file. An error where nothing is.
  absl::Status Dump(const std::string& path);
  /// The next pass of the recorder's thread dumps to the file of the option trace_dump. May be called by the handler of
  /// a signal.
  void AskForDump() { dump_wanted_.store(true, std::memory_order_relaxed); }

  /// Rows are kept from now on for clients that may come.
  void AllowClients();
  /// Whoever is at the other end of the socket gets a trace that goes on until they leave; the socket is the recorder's
  /// then. False: there are too many.
  bool AddClient(int fd);

  bool on() const { return RecorderOn(); }
  /// Names become tokens, and there is no text. Fixed when recording begins.
  bool redacts() const { return redact_.load(std::memory_order_relaxed); }

  /// A row of what numbers in events stand for. Nothing when off.
  template <class Row>
  void Add(Row row) {
    if (on()) AddEncoded(kKindOf<Row>, Encode(row));
  }
  /// The number of a place of the program; makes one where it is new. Strings are copied.
  uint32_t SiteNumber(ThreadBuffer& buffer, const void* base, int32_t index, const char* file, int32_t line,
                      int32_t column, std::string_view module_file, std::string_view function);
  /// The number of a name that the program gave.
  int64_t SpanNumber(std::string_view name);

  /// The text of that file belongs into the recording.
  void AddSourceFile(std::string_view path);

  /// Adds the rows that tell of the state of things: versions with their counts, traces. Called when recording begins,
  /// by the recorder's thread once in a second (then what has changed is enough), and when a file ends. One for the
  /// process, set before recording begins.
  enum class Moment : uint8_t { begin, now, end };
  using Collector = void (*)(Recorder& recorder, Moment moment);
  static void SetCollector(Collector collector);

  /// Events written to the file, and events that found no room.
  int64_t events() const { return events_.load(std::memory_order_relaxed); }
  int64_t lost() const { return lost_.load(std::memory_order_relaxed); }

  static constexpr int64_t kSampleNs = 100'000'000;
  static constexpr size_t kMostSites = 1 << 20;
  /// Source files longer than this are left out.
  static constexpr size_t kMostSourceBytes = 1 << 20;
  /// Rows that are kept for dumps, all told; those beyond are left out.
  static constexpr size_t kMostKeptBytes = size_t{64} << 20;

 private:
  friend class ThreadBuffer;
  friend ThreadBuffer* BufferOfThread();
  struct State;
  Recorder();

  template <class Row>
  std::string Encode(Row& row) const {
    std::string bytes;
    RowWriter writer(&bytes, redacts() ? &TokenOf : nullptr);
    row.Fields(writer);
    return bytes;
  }
  static std::string TokenOf(std::string_view name);
  void AddEncoded(BlockKind kind, std::string row);
  void Switch();
  void Work(int64_t generation);
  void Pass(bool last);
  void Collect(Moment moment);
  void PutSources();
  std::string KeptRows();
  void SendToClients();
  void DrainAll();
  void Drain(ThreadBuffer& buffer);
  void Sample();
  void Clock();
  void PutRows();
  void Put(BlockKind kind, uint32_t rows, std::string_view bytes, int64_t last_ns);
  void Preamble();
  void Fail(const absl::Status& status);

  std::atomic<bool> redact_{false}, dump_wanted_{false}, forked_{false};
  std::atomic<int64_t> events_{0}, lost_{0};
  State* const state_;
};

}  // namespace tessera::rt::trace

#endif  // TESSERA_RUNTIME_TRACE_RECORDER_H_
