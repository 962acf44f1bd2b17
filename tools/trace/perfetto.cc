// The fields of Perfetto's protos that are written here, by number:
//   Trace: packet = 1
//   TracePacket: timestamp = 8, trusted_packet_sequence_id = 10, track_event = 11, interned_data = 12,
//     sequence_flags = 13, timestamp_clock_id = 58, track_descriptor = 60
//   TrackDescriptor: uuid = 1, name = 2, process = 3, thread = 4, parent_uuid = 5, counter = 8
//   ProcessDescriptor: pid = 1, process_name = 6;  ThreadDescriptor: pid = 1, tid = 2, thread_name = 5
//   CounterDescriptor: unit = 3 (1: time in ns, 2: count, 3: bytes)
//   TrackEvent: category_iids = 3, debug_annotations = 4, type = 9 (1: slice begin, 2: slice end, 3: instant,
//     4: counter), name_iid = 10, track_uuid = 11, counter_value = 30
//   InternedData: event_categories = 1 {iid = 1, name = 2}, event_names = 2 {iid = 1, name = 2},
//     debug_annotation_names = 3 {iid = 1, name = 2}
//   DebugAnnotation: name_iid = 1, int_value = 4, string_value = 6
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/trace/coding.h"
#include "tools/trace/export.h"

namespace tessera::tools {
namespace {

using rt::trace::TraceEvent;

/// One protobuf message.
class Message {
 public:
  Message& Number(int field, uint64_t value) {
    rt::trace::PutUnsigned(&bytes_, static_cast<uint64_t>(field) << 3);
    rt::trace::PutUnsigned(&bytes_, value);
    return *this;
  }
  Message& Text(int field, std::string_view text) {
    rt::trace::PutUnsigned(&bytes_, static_cast<uint64_t>(field) << 3 | 2);
    rt::trace::PutUnsigned(&bytes_, text.size());
    bytes_.append(text);
    return *this;
  }
  Message& Part(int field, const Message& part) { return Text(field, part.bytes_); }
  const std::string& bytes() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string bytes_;
};

constexpr uint64_t kSequence = 1;
constexpr uint64_t kProcessTrack = 1, kFirstThread = 100, kFirstCounter = 10;
constexpr uint64_t kStateCleared = 1, kNeedsState = 2;  // sequence_flags
enum : uint64_t { kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4 };

class Writer {
 public:
  explicit Writer(const Analysis& analysis) : data_(*analysis.data) {}

  std::string Run() {
    Tracks();
    Events();
    Counters();
    return std::move(out_);
  }

 private:
  void Packet(const Message& packet) {
    Message whole;
    whole.Part(1, packet);
    out_ += whole.bytes();
  }
  static uint64_t Time(int64_t ns) { return static_cast<uint64_t>(std::max<int64_t>(ns, 0)); }

  void Track(const Message& descriptor) {
    Message packet;
    packet.Number(10, kSequence).Part(60, descriptor);
    if (first_) packet.Number(13, kStateCleared);
    first_ = false;
    Packet(packet);
  }

  void Tracks() {
    uint64_t pid = 1;
    std::string name = "tessera";
    for (const rt::trace::MetaRow& row : data_.meta) {
      uint64_t number = 0;
      if (row.key == "process" && absl::SimpleAtoi(row.value, &number)) pid = number;
      if (row.key == "command" && !row.value.empty()) name = row.value;
    }
    Track(Message().Number(1, kProcessTrack).Part(3, Message().Number(1, pid).Text(6, name)));
    for (const rt::trace::ThreadRow& t : data_.threads) {
      Message thread;
      thread.Number(1, pid).Number(2, static_cast<uint64_t>(t.system_id)).Text(5, t.name);
      Track(
          Message().Number(1, kFirstThread + static_cast<uint64_t>(t.number)).Number(5, kProcessTrack).Part(4, thread));
    }
  }

  uint64_t Intern(std::map<std::string, uint64_t>* names, int field, const std::string& name, Message* data) {
    const auto [it, is_new] = names->emplace(name, names->size() + 1);
    if (is_new) data->Part(field, Message().Number(1, it->second).Text(2, name));
    return it->second;
  }

  void Event(uint64_t type, int64_t ns, const TraceEvent& e) {
    Message interned, event;
    event.Number(9, type).Number(11, kFirstThread + e.thread);
    if (type != kEnd) {
      const rt::EventInfo& info = rt::kEvents[static_cast<int>(e.kind)];
      event.Number(3, Intern(&categories_, 1, std::string(info.name), &interned));
      event.Number(10, Intern(&names_, 2, LabelOf(data_, e), &interned));
      const auto note = [&](std::string_view what, int64_t value) {
        if (what.empty()) return;
        Message annotation;
        annotation.Number(1, Intern(&notes_, 3, std::string(what), &interned));
        const std::string place = what == "site" ? data_.SiteName(value) : "";
        if (place.empty())
          annotation.Number(4, static_cast<uint64_t>(value));
        else
          annotation.Text(6, place);
        event.Part(4, annotation);
      };
      note(info.a, e.a);
      note(info.b, e.b);
      note(info.c, e.c);
    }
    Message packet;
    packet.Number(8, Time(ns)).Number(10, kSequence).Number(13, kNeedsState);
    if (!interned.empty()) packet.Part(12, interned);
    Packet(packet.Part(11, event));
  }

  // Slices of one track must lie within each other; one that would cross the end of another is cut there.
  void Events() {
    struct Open {
      int64_t end;
      const TraceEvent* event;
    };
    std::map<uint32_t, std::vector<Open>> open;
    const auto close = [&](std::vector<Open>* stack, int64_t until) {
      while (!stack->empty() && stack->back().end <= until) {
        Event(kEnd, stack->back().end, *stack->back().event);
        stack->pop_back();
      }
    };
    for (const TraceEvent& e : data_.events) {
      if (e.kind == rt::EventKind::function_exit) continue;  // their tracks show ops
      std::vector<Open>& stack = open[e.thread];
      close(&stack, e.start_ns);
      const bool is_slice = rt::kEvents[static_cast<int>(e.kind)].form == rt::EventForm::slice;
      if (!is_slice) {
        Event(kInstant, e.start_ns, e);
        continue;
      }
      int64_t end = e.start_ns + e.ns;
      if (!stack.empty()) end = std::min(end, stack.back().end);
      Event(kBegin, e.start_ns, e);
      stack.push_back({end, &e});
    }
    for (auto& [thread, stack] : open) close(&stack, INT64_MAX);
  }

  void Counters() {
    if (data_.samples.empty()) return;
    struct Counter {
      std::string name;
      uint64_t unit;
      int metric;  // -1: bytes in use
    };
    std::vector<Counter> counters = {{"memory in use", 3, -1}};
    const rt::trace::SampleRow &first = data_.samples.front(), &last = data_.samples.back();
    for (size_t m = 0; m < std::min(first.metrics.size(), last.metrics.size()); ++m)
      if (first.metrics[m] != last.metrics[m])
        counters.push_back({data_.Name("metric", static_cast<int64_t>(m)), 2, static_cast<int>(m)});
    for (size_t c = 0; c < counters.size(); ++c) {
      const uint64_t uuid = kFirstCounter + (uint64_t{1} << 32) + c;
      Track(Message()
                .Number(1, uuid)
                .Text(2, counters[c].name)
                .Number(5, kProcessTrack)
                .Part(8, Message().Number(3, counters[c].unit)));
      for (const rt::trace::SampleRow& s : data_.samples) {
        const auto metric = static_cast<size_t>(std::max(counters[c].metric, 0));
        if (counters[c].metric >= 0 && metric >= s.metrics.size()) continue;
        const int64_t value = counters[c].metric < 0 ? s.bytes_in_use : s.metrics[metric];
        Message packet, event;
        event.Number(9, kCounter).Number(11, uuid).Number(30, static_cast<uint64_t>(value));
        Packet(packet.Number(8, Time(s.ticks)).Number(10, kSequence).Number(13, kNeedsState).Part(11, event));
      }
    }
  }

  const TraceData& data_;
  std::string out_;
  bool first_ = true;
  std::map<std::string, uint64_t> categories_, names_, notes_;
};

}  // namespace

std::string PerfettoTrace(const Analysis& analysis) { return Writer(analysis).Run(); }

}  // namespace tessera::tools
