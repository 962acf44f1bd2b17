#include <algorithm>

#include "absl/strings/numbers.h"
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

std::string ChromeTrace(const Analysis& analysis) {
  const TraceData& data = *analysis.data;
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  int64_t pid = 1;
  std::string name = "tessera";
  for (const rt::trace::MetaRow& row : data.meta) {
    int64_t number = 0;
    if (row.key == "process" && absl::SimpleAtoi(row.value, &number)) pid = number;
    if (row.key == "command" && !row.value.empty()) name = row.value;
  }
  absl::StrAppend(&out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":", pid,
                  ",\"args\":{\"name\":", JsonString(name), "}}");
  for (const rt::trace::ThreadRow& t : data.threads)
    absl::StrAppend(&out, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":", pid, ",\"tid\":", t.number,
                    ",\"args\":{\"name\":", JsonString(t.name), "}}");
  for (const rt::trace::TraceEvent& e : data.events) {
    if (e.kind == rt::EventKind::function_exit) continue;
    const rt::EventInfo& info = rt::kEvents[static_cast<int>(e.kind)];
    const bool is_slice = info.form == rt::EventForm::slice;
    absl::StrAppend(&out, ",\n{\"ph\":\"", is_slice ? "X" : "i", "\",\"name\":", JsonString(LabelOf(data, e)),
                    ",\"cat\":\"", std::string(info.name), "\",\"pid\":", pid, ",\"tid\":", e.thread,
                    ",\"ts\":", Micros(e.start_ns));
    absl::StrAppend(&out, is_slice ? ",\"dur\":" + Micros(e.ns) : std::string(",\"s\":\"t\""), ",\"args\":{");
    bool any = false;
    const auto word = [&](std::string_view what, int64_t value) {
      if (what.empty()) return;
      const std::string place = what == "site" ? data.SiteName(value) : "";
      absl::StrAppend(&out, any ? "," : "", JsonString(what), ":",
                      place.empty() ? absl::StrCat(value) : JsonString(place));
      any = true;
    };
    word(info.a, e.a);
    word(info.b, e.b);
    word(info.c, e.c);
    out += "}}";
  }
  for (const rt::trace::SampleRow& s : data.samples)
    absl::StrAppend(&out, ",\n{\"ph\":\"C\",\"name\":\"memory\",\"pid\":", pid, ",\"ts\":", Micros(s.ticks),
                    ",\"args\":{\"in use\":", s.bytes_in_use, ",\"cached\":", s.bytes_cached, "}}");
  return out + "\n]}\n";
}

}  // namespace tessera::tools
