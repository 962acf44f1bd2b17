#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/trace/export.h"

namespace tessera::tools {
namespace {

/// The length of the UTF-8 sequence that begins there; 0 where none does.
size_t SequenceAt(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  const size_t n = lead < 0x80                   ? 1
                   : lead >= 0xc2 && lead < 0xe0 ? 2
                   : lead >= 0xe0 && lead < 0xf0 ? 3
                   : lead >= 0xf0 && lead < 0xf5 ? 4
                                                 : 0;
  if (n == 0 || text.size() < n) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((static_cast<uint8_t>(text[i]) & 0xc0) != 0x80) return 0;
  const auto second = n > 1 ? static_cast<uint8_t>(text[1]) : 0;
  const bool too_long = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool out_of_range = (lead == 0xed && second >= 0xa0) || (lead == 0xf4 && second >= 0x90);
  return too_long || out_of_range ? 0 : n;
}

std::string Micros(int64_t ns) { return absl::StrFormat("%.3f", static_cast<double>(ns) / 1000); }

}  // namespace

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t n = SequenceAt(text);
    const char c = text[0];
    if (n == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<uint8_t>(c) < 0x20 || c == '<' || c == '>' || c == '&') {
      out += absl::StrFormat("\\u%04x", static_cast<unsigned>(c));
    } else {
      out.append(text.substr(0, n));
    }
    text.remove_prefix(std::max<size_t>(n, 1));
  }
  return out + "\"";
}

namespace {

class ChromeWriter {
 public:
  ChromeWriter(const Process& process, bool first, std::string* out)
      : process_(process), a_(*process.analysis), data_(*process.analysis->data), first_(first), out_(*out) {}

  void Run() {
    Row(absl::StrCat(R"("ph":"M","name":"process_name","args":{"name":)", JsonString(process_.name), "}"));
    for (const rt::trace::ThreadRow& t : data_.threads) Name(t.number, t.name);
    for (const rt::trace::TraceEvent& e : data_.events) Event(e);
    Streams();
    Flows();
    for (const rt::trace::SampleRow& s : data_.samples)
      Row(absl::StrCat(R"("ph":"C","name":"memory","ts":)", At(s.ticks), R"(,"args":{"in use":)", s.bytes_in_use,
                       R"(,"cached":)", s.bytes_cached, "}"));
    for (const rt::trace::GpuSampleRow& s : data_.gpu_samples)
      Row(absl::StrCat(R"("ph":"C","name":"memory of GPU )", s.gpu, R"(","ts":)", At(s.ticks), R"(,"args":{"in use":)",
                       s.bytes_in_use, R"(,"cached":)", s.bytes_cached, "}"));
  }

 private:
  // Threads of the program have their numbers; streams come after all of them.
  static constexpr int64_t kFirstStream = 1'000'000;

  void Row(const std::string& fields) {
    absl::StrAppend(&out_, first_ ? "" : ",\n", "{\"pid\":", process_.pid, ",", fields, "}");
    first_ = false;
  }
  std::string At(int64_t ns) const { return Micros(Sum(ns, process_.shift_ns)); }
  void Name(int64_t thread, const std::string& name) {
    Row(absl::StrCat(R"("ph":"M","name":"thread_name","tid":)", thread, R"(,"args":{"name":)", JsonString(name), "}"));
  }

  void Event(const rt::trace::TraceEvent& e) {
    if (e.kind == rt::EventKind::function_exit) return;
    const rt::EventInfo& info = rt::kEvents[static_cast<int>(e.kind)];
    const bool is_slice = info.form == rt::EventForm::slice;
    std::string fields =
        absl::StrCat("\"ph\":\"", is_slice ? "X" : "i", "\",\"name\":", JsonString(LabelOf(data_, e)), ",\"cat\":\"",
                     std::string(info.name), "\",\"tid\":", e.thread, ",\"ts\":", At(e.start_ns));
    absl::StrAppend(&fields, is_slice ? ",\"dur\":" + Micros(e.ns) : std::string(",\"s\":\"t\""), ",\"args\":{");
    bool any = false;
    const auto word = [&](std::string_view what, int64_t value) {
      if (what.empty()) return;
      const std::string place = what == "site" ? data_.SiteName(value) : "";
      absl::StrAppend(&fields, any ? "," : "", JsonString(what), ":",
                      place.empty() ? absl::StrCat(value) : JsonString(place));
      any = true;
    };
    word(info.a, e.a);
    word(info.b, e.b);
    word(info.c, e.c);
    Row(fields + "}");
  }

  int64_t StreamOf(const rt::trace::GpuActivity& a) {
    const auto [it, is_new] =
        streams_.emplace(std::pair(a.gpu, a.stream), kFirstStream + static_cast<int64_t>(streams_.size()));
    if (is_new) Name(it->second, absl::StrCat("GPU ", a.gpu, ", stream ", a.stream));
    return it->second;
  }

  void Streams() {
    for (size_t i = 0; i < data_.activities.size(); ++i) {
      const rt::trace::GpuActivity& a = data_.activities[i];
      if (!IsWork(a.kind)) continue;
      const int64_t stream = StreamOf(a);
      std::string fields =
          absl::StrCat(R"("ph":"X","name":)", JsonString(a_.kernels[a_.kernel_of[i]].name), R"(,"cat":"gpu_)",
                       std::string(rt::kActivities[static_cast<size_t>(a.kind)].name), R"(","tid":)", stream,
                       R"(,"ts":)", At(a.start_ns), R"(,"dur":)", Micros(a.ns), R"(,"args":{)");
      bool any = false;
      for (const Note& note : NotesOf(a_, i)) {
        absl::StrAppend(&fields, any ? "," : "", JsonString(note.what), ":",
                        note.text.empty() ? absl::StrCat(note.number) : JsonString(note.text));
        any = true;
      }
      Row(fields + "}");
    }
  }

  void Flows() {
    for (const Flow& flow : FlowsOf(data_)) {
      const rt::trace::GpuActivity& a = data_.activities[flow.activity];
      // The id must be one of all processes.
      const std::string id = absl::StrCat("\"", process_.pid, "-", flow.id, "\"");
      Row(absl::StrCat(R"("ph":"s","name":"launch","cat":"launch","id":)", id, R"(,"tid":)", flow.thread, R"(,"ts":)",
                       At(flow.at_ns)));
      Row(absl::StrCat(R"("ph":"f","bp":"e","name":"launch","cat":"launch","id":)", id, R"(,"tid":)", StreamOf(a),
                       R"(,"ts":)", At(a.start_ns)));
    }
  }

  const Process& process_;
  const Analysis& a_;
  const TraceData& data_;
  bool first_;
  std::string& out_;
  std::map<std::pair<uint32_t, uint32_t>, int64_t> streams_;
};

}  // namespace

std::string ChromeTrace(const std::vector<Process>& processes) {
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  for (size_t i = 0; i < processes.size(); ++i) ChromeWriter(processes[i], i == 0, &out).Run();
  return out + "\n]}\n";
}
std::string ChromeTrace(const Analysis& analysis) { return ChromeTrace(OnOneTimeline({&analysis})); }

}  // namespace tessera::tools
