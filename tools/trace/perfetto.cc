// The fields of Perfetto's protos that are written here, by number:
//   Trace: packet = 1
//   TracePacket: timestamp = 8, trusted_packet_sequence_id = 10, track_event = 11, interned_data = 12,
//     sequence_flags = 13, timestamp_clock_id = 58, track_descriptor = 60
//   TrackDescriptor: uuid = 1, name = 2, process = 3, thread = 4, parent_uuid = 5, counter = 8
//   ProcessDescriptor: pid = 1, process_name = 6;  ThreadDescriptor: pid = 1, tid = 2, thread_name = 5
//   CounterDescriptor: unit = 3 (1: time in ns, 2: count, 3: bytes)
//   TrackEvent: category_iids = 3, debug_annotations = 4, type = 9 (1: slice begin, 2: slice end, 3: instant,
//     4: counter), name_iid = 10, track_uuid = 11, counter_value = 30, flow_ids = 47,
//     terminating_flow_ids = 48 (both of 64 bits)
//   InternedData: event_categories = 1 {iid = 1, name = 2}, event_names = 2 {iid = 1, name = 2},
//     debug_annotation_names = 3 {iid = 1, name = 2}, debug_annotation_string_values = 29 {iid = 1, str = 2}
//   DebugAnnotation: name_iid = 1, int_value = 4, string_value = 6, string_value_iid = 17
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

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
  Message& Fixed(int field, uint64_t value) {
    rt::trace::PutUnsigned(&bytes_, static_cast<uint64_t>(field) << 3 | 1);
    for (int i = 0; i < 64; i += 8) bytes_ += static_cast<char>(value >> i);
    return *this;
  }
  Message& Part(int field, const Message& part) { return Text(field, part.bytes_); }
  const std::string& bytes() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string bytes_;
};

// Of each process: the numbers of its tracks begin with its own, in the upper bits. They are in every packet, so those
// of the first are small. Threads come last: there may be any number of them.
constexpr uint64_t kProcessTrack = 1, kFirstStream = 2, kFirstCounter = 1 << 10, kFirstThread = 1 << 12;
constexpr uint64_t kStateCleared = 1, kNeedsState = 2;  // sequence_flags
enum : uint64_t { kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4 };

class Writer {
 public:
  /// `number`: of the process, from 0.
  Writer(const Process& process, uint64_t number, std::string* out)
      : process_(process),
        a_(*process.analysis),
        data_(*process.analysis->data),
        sequence_(number + 1),
        base_(number << 40),
        out_(*out) {}

  void Run() {
    for (const Flow& flow : FlowsOf(data_)) {
      starts_[flow.thread].push_back(flow);
      ends_[flow.activity] = flow.id;
    }
    Tracks();
    Events();
    Activities();
    Counters();
  }

 private:
  void Packet(const Message& packet) {
    Message whole;
    whole.Part(1, packet);
    out_ += whole.bytes();
  }
  uint64_t Time(int64_t ns) const { return static_cast<uint64_t>(std::max<int64_t>(Sum(ns, process_.shift_ns), 0)); }
  uint64_t FlowId(uint64_t id) const { return base_ + id; }

  void Track(const Message& descriptor) {
    Message packet;
    packet.Number(10, sequence_).Part(60, descriptor);
    if (first_) packet.Number(13, kStateCleared);
    first_ = false;
    Packet(packet);
  }

  void Tracks() {
    const auto pid = static_cast<uint64_t>(process_.pid);
    Track(Message().Number(1, base_ + kProcessTrack).Part(3, Message().Number(1, pid).Text(6, process_.name)));
    for (const rt::trace::ThreadRow& t : data_.threads) {
      Message thread;
      thread.Number(1, pid).Number(2, static_cast<uint64_t>(t.system_id)).Text(5, t.name);
      Track(Message()
                .Number(1, base_ + kFirstThread + static_cast<uint64_t>(t.number))
                .Number(5, base_ + kProcessTrack)
                .Part(4, thread));
    }
  }

  uint64_t Intern(std::map<std::string, uint64_t>* names, int field, const std::string& name, Message* data) {
    const auto [it, is_new] = names->emplace(name, names->size() + 1);
    if (is_new) data->Part(field, Message().Number(1, it->second).Text(2, name));
    return it->second;
  }

  void Event(uint64_t type, int64_t ns, const TraceEvent& e) {
    Message interned, event;
    event.Number(9, type).Number(11, base_ + kFirstThread + e.thread);
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
      if (type == kBegin) Launches(e, &event);
    }
    Put(ns, interned, event, /*refers=*/type != kEnd);
  }

  /// `refers`: to names that stand in earlier packets.
  void Put(int64_t ns, const Message& interned, const Message& event, bool refers = true) {
    Message packet;
    packet.Number(8, Time(ns)).Number(10, sequence_);
    if (refers) packet.Number(13, kNeedsState);
    if (!interned.empty()) packet.Part(12, interned);
    Packet(packet.Part(11, event));
  }

  // The flows that begin within a slice: it is where they were launched. Slices of a thread come by their start.
  void Launches(const TraceEvent& e, Message* event) {
    const bool launches =
        e.kind == rt::EventKind::op || e.kind == rt::EventKind::version_run || e.kind == rt::EventKind::copy;
    const auto it = launches ? starts_.find(e.thread) : starts_.end();
    if (it == starts_.end()) return;
    size_t& next = next_[e.thread];
    for (; next < it->second.size() && it->second[next].at_ns <= e.start_ns + e.ns; ++next)
      if (it->second[next].at_ns >= e.start_ns) event->Fixed(47, FlowId(it->second[next].id));
  }

  // In one text, which is in the file once: a step of training has hundreds of kernels.
  std::string DetailsOf(size_t i) const {
    std::string text;
    for (const Note& note : NotesOf(a_, i))
      if (std::string_view(note.what) != "bytes")
        absl::StrAppend(&text, text.empty() ? "" : ", ", note.what, " ",
                        note.text.empty() ? absl::StrCat(note.number) : note.text);
    return text;
  }

  // A track for each stream of each GPU, below the process. What runs in a stream runs one after the other; where
  // rounding makes two overlap, the second begins when the first ends.
  void Activities() {
    std::map<std::pair<uint32_t, uint32_t>, std::pair<uint64_t, int64_t>> streams;  // track, and the end of the last
    for (size_t i = 0; i < data_.activities.size(); ++i) {
      const rt::trace::GpuActivity& a = data_.activities[i];
      if (!IsWork(a.kind)) continue;
      const auto [it, is_new] = streams.try_emplace(
          {a.gpu, a.stream}, base_ + kFirstStream + static_cast<uint64_t>(streams.size()), INT64_MIN);
      if (streams.size() > kFirstCounter - kFirstStream) continue;  // of no machine that there is
      if (is_new)
        Track(Message()
                  .Number(1, it->second.first)
                  .Text(2, absl::StrCat("GPU ", a.gpu, ", stream ", a.stream))
                  .Number(5, base_ + kProcessTrack));
      const int64_t start = std::max(a.start_ns, it->second.second), end = std::max(start, a.start_ns + a.ns);
      it->second.second = end;
      Message interned, begin, finish;
      begin.Number(9, kBegin).Number(11, it->second.first);
      begin.Number(
          3, Intern(&categories_, 1,
                    absl::StrCat("gpu_", std::string(rt::kActivities[static_cast<size_t>(a.kind)].name)), &interned));
      begin.Number(10, Intern(&names_, 2, a_.kernels[a_.kernel_of[i]].name, &interned));
      // Of a million activities a few hundred differ.
      const auto [details, unknown] = details_.try_emplace({a_.kernel_of[i], a.kernel, a.in_graph}, 0);
      if (unknown) details->second = Intern(&texts_, 29, DetailsOf(i), &interned);
      begin.Part(4, Message().Number(1, Intern(&notes_, 3, "details", &interned)).Number(17, details->second));
      if (a.bytes > 0)
        begin.Part(
            4, Message().Number(1, Intern(&notes_, 3, "bytes", &interned)).Number(4, static_cast<uint64_t>(a.bytes)));
      if (const auto flow = ends_.find(i); flow != ends_.end()) begin.Fixed(48, FlowId(flow->second));
      Put(start, interned, begin);
      Put(end, Message(), finish.Number(9, kEnd).Number(11, it->second.first), /*refers=*/false);
    }
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

  // Values at moments, as a track of numbers.
  template <class Rows, class Value>
  void Counter(const std::string& name, uint64_t unit, const Rows& rows, Value value) {
    const uint64_t uuid = base_ + kFirstCounter + counters_++;
    Track(Message().Number(1, uuid).Text(2, name).Number(5, base_ + kProcessTrack).Part(8, Message().Number(3, unit)));
    for (const auto& row : rows) {
      const std::optional<int64_t> number = value(row);
      if (!number) continue;
      Message event;
      Put(row.ticks, Message(), event.Number(9, kCounter).Number(11, uuid).Number(30, static_cast<uint64_t>(*number)));
    }
  }

  void Counters() {
    constexpr uint64_t kCount = 2, kBytes = 3;
    using Sample = rt::trace::SampleRow;
    for (const GpuSummary& gpu : a_.gpus)
      Counter(absl::StrCat("memory in use on GPU ", gpu.number), kBytes, data_.gpu_samples,
              [&](const rt::trace::GpuSampleRow& s) {
                return s.gpu == gpu.number ? std::optional(s.bytes_in_use) : std::nullopt;
              });
    if (data_.samples.empty()) return;
    Counter("memory in use", kBytes, data_.samples, [](const Sample& s) { return std::optional(s.bytes_in_use); });
    const Sample &first = data_.samples.front(), &last = data_.samples.back();
    for (size_t m = 0; m < std::min(first.metrics.size(), last.metrics.size()); ++m)
      if (first.metrics[m] != last.metrics[m])
        Counter(data_.Name("metric", static_cast<int64_t>(m)), kCount, data_.samples,
                [m](const Sample& s) { return m < s.metrics.size() ? std::optional(s.metrics[m]) : std::nullopt; });
  }

  const Process& process_;
  const Analysis& a_;
  const TraceData& data_;
  const uint64_t sequence_, base_;
  std::string& out_;
  bool first_ = true;
  uint64_t counters_ = 0;
  std::map<std::string, uint64_t> categories_, names_, notes_, texts_;
  std::map<std::tuple<uint32_t, uint32_t, bool>, uint64_t> details_;
  std::map<uint32_t, std::vector<Flow>> starts_;  // by thread, in the order of their moments
  std::map<uint32_t, size_t> next_;
  std::map<size_t, uint64_t> ends_;  // by activity
};

}  // namespace

std::string PerfettoTrace(const std::vector<Process>& processes) {
  std::string out;
  for (size_t i = 0; i < processes.size(); ++i) Writer(processes[i], i, &out).Run();
  return out;
}
std::string PerfettoTrace(const Analysis& analysis) { return PerfettoTrace(OnOneTimeline({&analysis})); }

}  // namespace tessera::tools
