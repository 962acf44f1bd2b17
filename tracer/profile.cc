#include "tracer/profile.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "interp/stream.h"
#include "ir/infer.h"
#include "runtime/file.h"

namespace tessera::tracer {
namespace {

constexpr int kPathOps = 16;                     // that leave a mark in a path
constexpr size_t kMostBytes = size_t{64} << 20;  // of a file
constexpr std::string_view kMagic = "tessera profile ";
constexpr std::string_view kVersion = "2";
constexpr std::string_view kChecksum = "checksum ";
constexpr std::string_view kLegend =
    "# An entry is: eager NAME, or function NAME FUNCTION MODULE-HASH ANCHOR; site MODULE OFFSET OP, oldest first;\n"
    "# sample: the numbers of one recording; varying VALUE, of host numbers; input VALUE DTYPE ALIGNMENT CONTIGUOUS;\n"
    "# dim: SIZE COUNT for each size; step OP SOURCE NS BYTES-READ BYTES-WRITTEN. Then: tuned HASH SCHEDULE\n";

// ---- hashing

class Hasher {
 public:
  void Bytes(std::string_view bytes) {
    for (const char c : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  }
  void Number(uint64_t n) {
    for (int i = 0; i < 8; ++i) hash_ = (hash_ ^ ((n >> (8 * i)) & 0xff)) * 0x100000001b3ull;
  }
  template <class Enum>
  void Enumerator(Enum e) {
    Number(static_cast<uint64_t>(e));
  }
  void Text(std::string_view text) {
    Number(text.size());
    Bytes(text);
  }
  void Ids(absl::Span<const ValueId> ids) {
    Number(ids.size());
    for (const ValueId id : ids) Number(static_cast<uint64_t>(id));
  }
  void Attr(const ir::Attr& attr) {
    Number(attr.index());
    if (const auto* flag = std::get_if<bool>(&attr)) Number(*flag);
    if (const auto* integer = std::get_if<int64_t>(&attr)) Number(static_cast<uint64_t>(*integer));
    // The two zeros are equal.
    if (const auto* number = std::get_if<double>(&attr)) Number(std::bit_cast<uint64_t>(*number == 0 ? 0 : *number));
    if (const auto* dtype = std::get_if<DType>(&attr)) Text(Name(*dtype));
    if (const auto* ints = std::get_if<ir::Ints>(&attr)) Number(ints->size());
    if (const auto* text = std::get_if<std::string>(&attr)) Text(*text);
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325ull;  // FNV-1a: no two inputs that differ in one byte only have the same
};

// ---- numbers

/// Calls number(n) for each of Numbers(), in its order.
template <class TraceOrConst, class Fn>
void ForEachNumber(TraceOrConst& trace, Fn&& number) {
  for (auto& value : trace.values) {
    for (int d = 0; d < value.type.rank; ++d) number(value.type.dims[d]);
    for (int d = 0; d < value.type.rank && value.kind == TraceValue::Kind::input; ++d) number(value.strides[d]);
  }
  for (auto& step : trace.steps) {
    for (auto& attr : step.attrs)
      if (auto* ints = std::get_if<ir::Ints>(&attr))
        for (auto& n : *ints) number(n);
  }
}

bool IsType(const TensorType& type) {
  int64_t bytes = static_cast<int64_t>(SizeOf(type.dtype));
  for (int d = 0; d < type.rank; ++d) {
    const int64_t dim = type.dims[d];
    if (dim < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes)) return false;
  }
  return true;
}

/// Do the shape rules give the results that the step has?
bool Follows(const Trace& trace, const TraceStep& step) {
  if (step.kind != TraceStep::Kind::op) return true;
  for (const ir::Attr& attr : step.attrs) {
    const auto* ints = std::get_if<ir::Ints>(&attr);
    if (ints != nullptr && std::any_of(ints->begin(), ints->end(), ir::IsSymbol)) return false;
  }
  absl::InlinedVector<const TensorType*, 8> in;
  for (const ValueId v : step.in) in.push_back(v == kNoValue ? nullptr : &trace.values[v].type);
  absl::InlinedVector<TensorType, 2> out(step.out.size());
  if (!ir::Infer({ir::Info(step.op), in, step.attrs}, absl::MakeSpan(out)).ok()) return false;
  for (size_t k = 0; k < out.size(); ++k)
    if (step.out[k] != kNoValue && !out[k].SameDims(trace.values[step.out[k]].type)) return false;
  return true;
}

// ---- what a recording says

std::string What(const TraceStep& step) {
  const char* outcome = step.outcome ? " true" : " false";
  switch (step.kind) {
    case TraceStep::Kind::op: return std::string(ir::Info(step.op).name);
    case TraceStep::Kind::tensor: return "tensor";
    case TraceStep::Kind::branch: return absl::StrCat("branch", outcome);
    case TraceStep::Kind::for_begin: return "for_begin";
    case TraceStep::Kind::for_next: return absl::StrCat("for_next", outcome);
    case TraceStep::Kind::buffer_read: return "buffer_read";
    case TraceStep::Kind::buffer_write: return "buffer_write";
    case TraceStep::Kind::buffer_add: return "buffer_add";
    case TraceStep::Kind::call: return "call";
  }
  return "";
}

std::string Where(const Trace& trace, const TraceStep& step) {
  if (step.source.file != nullptr) {
    const std::string file = step.source.file;
    return absl::StrCat(file.substr(file.rfind('/') + 1), ":", step.source.line);
  }
  if (trace.is_eager || static_cast<size_t>(step.frame) >= trace.frames.size()) return "";
  return absl::StrCat("@", trace.frames[step.frame].code->name, " pc ", step.pc);
}

int64_t BytesOf(const Trace& trace, absl::Span<const ValueId> ids) {
  int64_t bytes = 0;
  for (const ValueId id : ids) {
    if (id == kNoValue || trace.values[id].kind == TraceValue::Kind::number) continue;
    const TensorType& type = trace.values[id].type;
    bytes += type.size() * static_cast<int64_t>(SizeOf(type.dtype));
  }
  return bytes;
}

bool IsContiguous(const TraceValue& input) {
  View view;
  static_cast<TensorType&>(view) = input.type;
  std::copy(input.strides.begin(), input.strides.end(), view.strides);
  return view.IsContiguous();
}

void AddInput(const TraceValue& value, InputProfile& input) {
  input.dtype = std::string(Name(value.type.dtype));
  input.alignment = std::min(input.alignment, value.alignment);
  input.contiguous = input.contiguous && IsContiguous(value);
  input.dims.resize(value.type.rank);
  for (int d = 0; d < value.type.rank; ++d) ++input.dims[d][value.type.dims[d]];
}

// ---- the file. An entry is lines of a word and its fields, in a fixed order, up to "end".

std::string Quoted(std::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(absl::string_view(text.data(), text.size())), "\"");
}

class Writer {
 public:
  template <class... Fields>
  void Line(std::string_view word, const Fields&... fields) {
    out_.append(word);
    (Field(fields), ...);
    out_ += '\n';
  }
  void Entry(const ProfileEntry& e) {
    if (e.kind == ProfileEntry::Kind::eager)
      Line("eager", e.name);
    else
      Line("function", e.name, e.function, e.module_hash, e.anchor);
    for (const CallSite& s : e.sites) Line("site", s.site.build_id, s.site.offset, s.op);
    Line("structure", e.structure);
    Line("runs", e.runs);
    Line("tier1_ns", e.tier1_ns);
    for (const auto& s : e.samples) Line("sample", s);
    if (!e.varying.empty()) Line("varying", e.varying);
    for (const InputProfile& i : e.inputs) {
      Line("input", i.value, i.dtype, i.alignment, static_cast<int32_t>(i.contiguous));
      for (const auto& sizes : i.dims) Line("dim", sizes);
    }
    for (const StepProfile& s : e.steps) Line("step", s.what, s.where, s.ns, s.bytes_read, s.bytes_written);
    Line("end");
  }
  std::string& out() { return out_; }

 private:
  void Field(const std::string& text) { absl::StrAppend(&out_, " ", Quoted(text)); }
  void Field(int32_t n) { absl::StrAppend(&out_, " ", n); }
  void Field(int64_t n) { absl::StrAppend(&out_, " ", n); }
  void Field(uint64_t n) { absl::StrAppend(&out_, " ", n); }
  template <class Int>
  void Field(const std::vector<Int>& list) {
    for (const Int n : list) Field(n);
  }
  void Field(const std::map<int64_t, int64_t>& sizes) {
    for (const auto& [size, count] : sizes) {
      Field(size);
      Field(count);
    }
  }

  std::string out_;
};

/// Reads what Writer wrote. Memory grows with what is read, never with a number that is read.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) { NextLine(); }

  absl::StatusOr<std::vector<ProfileEntry>> Run(TunedChoices* tuned) {
    std::vector<ProfileEntry> entries;
    while (!at_end_ && !At("tuned")) {
      ProfileEntry& e = entries.emplace_back();
      TSR_RETURN_IF_ERROR(Entry(e));
    }
    while (!at_end_) {
      uint64_t hash = 0;
      std::string schedule;
      TSR_RETURN_IF_ERROR(Line("tuned", hash, schedule));
      if (tuned != nullptr) (*tuned)[hash] = std::move(schedule);
    }
    return entries;
  }

 private:
  absl::Status Entry(ProfileEntry& e) {
    if (At("eager")) {
      e.kind = ProfileEntry::Kind::eager;
      TSR_RETURN_IF_ERROR(Line("eager", e.name));
    } else if (At("function")) {
      e.kind = ProfileEntry::Kind::function;
      TSR_RETURN_IF_ERROR(Line("function", e.name, e.function, e.module_hash, e.anchor));
    } else {
      return DataLoss("line ", number_, ": expected 'eager' or 'function'");
    }
    while (At("site")) {
      CallSite& s = e.sites.emplace_back();
      TSR_RETURN_IF_ERROR(Line("site", s.site.build_id, s.site.offset, s.op));
    }
    TSR_RETURN_IF_ERROR(Line("structure", e.structure));
    TSR_RETURN_IF_ERROR(Line("runs", e.runs));
    TSR_RETURN_IF_ERROR(Line("tier1_ns", e.tier1_ns));
    while (At("sample")) TSR_RETURN_IF_ERROR(Line("sample", e.samples.emplace_back()));
    if (At("varying")) TSR_RETURN_IF_ERROR(Line("varying", e.varying));
    while (At("input")) {
      InputProfile& i = e.inputs.emplace_back();
      int32_t contiguous = 0;
      TSR_RETURN_IF_ERROR(Line("input", i.value, i.dtype, i.alignment, contiguous));
      i.contiguous = contiguous != 0;
      while (At("dim")) TSR_RETURN_IF_ERROR(Line("dim", i.dims.emplace_back()));
    }
    while (At("step")) {
      StepProfile& s = e.steps.emplace_back();
      TSR_RETURN_IF_ERROR(Line("step", s.what, s.where, s.ns, s.bytes_read, s.bytes_written));
    }
    return Line("end");
  }

  void NextLine() {
    do {
      at_end_ = text_.empty();
      const size_t length = std::min(text_.find('\n'), text_.size());
      line_ = text_.substr(0, length);
      text_.remove_prefix(std::min(length + 1, text_.size()));
      ++number_;
    } while (!at_end_ && line_.substr(0, 1) == "#");
  }

  bool At(std::string_view word) const { return !at_end_ && line_.substr(0, line_.find(' ')) == word; }

  /// Reads the fields of a line that must be of that word, and goes on to the next.
  template <class... Fields>
  absl::Status Line(std::string_view word, Fields&... fields) {
    const std::string expected(word);
    if (!At(word)) return DataLoss("line ", number_, ": expected '", expected, "'");
    line_.remove_prefix(word.size());
    if (!(Field(fields) && ...) || !line_.empty())
      return DataLoss("line ", number_, ": the fields of '", expected, "' are wrong");
    NextLine();
    return absl::OkStatus();
  }

  bool Space() {
    if (line_.empty() || line_[0] != ' ') return false;
    line_.remove_prefix(1);
    return true;
  }
  template <class Int>
  bool Field(Int& n) {
    if (!Space()) return false;
    const auto [end, error] = std::from_chars(line_.data(), line_.data() + line_.size(), n);
    line_.remove_prefix(static_cast<size_t>(end - line_.data()));
    return error == std::errc() && (line_.empty() || line_[0] == ' ');
  }
  bool Field(std::string& text) {
    if (!Space() || line_.empty() || line_[0] != '"') return false;
    size_t end = 1;
    while (end < line_.size() && line_[end] != '"') end += line_[end] == '\\' ? 2 : 1;
    if (end >= line_.size()) return false;
    const bool good = absl::CUnescape(absl::string_view(line_.data() + 1, end - 1), &text);
    line_.remove_prefix(end + 1);
    return good;
  }
  template <class Int>
  bool Field(std::vector<Int>& list) {
    while (!line_.empty())
      if (!Field(list.emplace_back())) return false;
    return true;
  }
  bool Field(std::map<int64_t, int64_t>& sizes) {
    while (!line_.empty()) {
      int64_t size = 0, count = 0;
      if (!Field(size) || !Field(count)) return false;
      sizes[size] = count;
    }
    return true;
  }

  std::string_view text_;  // after line_
  std::string_view line_;  // the rest of it
  bool at_end_ = false;
  int number_ = 1;  // the line before the first was the file's first
};

std::string ChecksumLine(std::string_view text) {
  return absl::StrCat(std::string(kChecksum), absl::Hex(StableHash(text), absl::kZeroPad16), "\n");
}

}  // namespace

// ---- traces

uint64_t StableHash(std::string_view bytes) {
  Hasher h;
  h.Bytes(bytes);
  return h.hash();
}

uint64_t StructureHash(const Trace& trace) {
  Hasher h;
  h.Number(trace.is_eager);
  h.Text(trace.device == nullptr ? std::string_view() : trace.device->name());
  h.Enumerator(trace.end);
  h.Number(static_cast<uint64_t>(trace.end_pc));
  h.Ids(trace.results);
  h.Number(trace.values.size());
  for (const TraceValue& v : trace.values) {
    h.Enumerator(v.kind);
    h.Text(Name(v.type.dtype));
    h.Number(v.type.rank);
    h.Number(static_cast<uint64_t>(v.reg));
  }
  h.Number(trace.steps.size());
  for (const TraceStep& s : trace.steps) {
    h.Enumerator(s.kind);
    h.Text(ir::Info(s.op).name);
    h.Number(s.outcome);
    h.Number(static_cast<uint64_t>(s.target));
    h.Number(static_cast<uint64_t>(s.counter));
    h.Ids(s.in);
    h.Ids(s.out);
    const Site site = s.site == nullptr ? Site() : NameSite(s.site).value_or(Site());
    h.Text(site.build_id);
    h.Number(site.offset);
    h.Number(static_cast<uint64_t>(s.frame));
    h.Number(static_cast<uint64_t>(s.pc));
    h.Number(s.attrs.size());
    for (const ir::Attr& attr : s.attrs) h.Attr(attr);
  }
  return h.hash();
}

std::vector<int64_t> Numbers(const Trace& recording) {
  std::vector<int64_t> numbers;
  ForEachNumber(recording, [&](int64_t n) { numbers.push_back(n); });
  return numbers;
}

std::shared_ptr<const Trace> WithNumbers(const Trace& like, const std::vector<int64_t>& numbers) {
  if (like.symbols != nullptr) return nullptr;
  size_t count = 0;
  ForEachNumber(like, [&](int64_t) { ++count; });
  if (count != numbers.size()) return nullptr;
  auto trace = std::make_shared<Trace>(like);
  auto next = numbers.begin();
  ForEachNumber(*trace, [&](int64_t& n) { n = *next++; });
  for (const TraceValue& v : trace->values)
    if (!IsType(v.type)) return nullptr;
  for (const TraceStep& s : trace->steps)
    if (!Follows(*trace, s)) return nullptr;
  return trace;
}

std::vector<CallSite> LoopSites(const Trace& trace) {
  std::vector<CallSite> sites;
  const auto n = static_cast<int>(trace.steps.size());
  for (int k = 1 - kPathOps; k <= 0 && n > 0; ++k) {
    const TraceStep& step = trace.steps[static_cast<size_t>((k + n * kPathOps) % n)];
    std::optional<Site> site = NameSite(step.site);
    if (!site.has_value()) return {};
    sites.push_back({*std::move(site), std::string(ir::Info(step.op).name)});
  }
  return sites;
}

uint64_t PathOf(const std::vector<CallSite>& sites) {
  uint64_t path = 0;
  for (const CallSite& s : sites) {
    const void* address = FindSite(s.site);
    const std::optional<ir::Op> op = ir::FindOp(s.op);
    if (address == nullptr || !op.has_value()) return 0;
    path = (path << 4) ^ interp::Stream::SiteHash(address, *op);
  }
  return path;
}

void AddRecording(const Trace& recording, ProfileEntry& entry) {
  if (entry.samples.empty()) {
    entry.kind = recording.is_eager ? ProfileEntry::Kind::eager : ProfileEntry::Kind::function;
    entry.name = recording.name;
    entry.structure = StructureHash(recording);
    entry.tier1_ns = recording.tier1_ns;
    if (recording.is_eager && entry.sites.empty()) entry.sites = LoopSites(recording);
    for (size_t v = 0; v < recording.values.size(); ++v)
      if (recording.values[v].kind == TraceValue::Kind::input)
        entry.inputs.emplace_back().value = static_cast<ValueId>(v);
    for (const TraceStep& s : recording.steps) entry.steps.push_back({What(s), Where(recording, s), s.ns, 0, 0});
  }
  std::vector<int64_t> numbers = Numbers(recording);
  if (std::find(entry.samples.begin(), entry.samples.end(), numbers) == entry.samples.end())
    entry.samples.push_back(std::move(numbers));
  entry.tier1_ns = std::min(entry.tier1_ns, recording.tier1_ns);
  // The entry may come from a file, which promises nothing.
  for (InputProfile& i : entry.inputs)
    if (const auto v = static_cast<size_t>(i.value); v < recording.values.size()) AddInput(recording.values[v], i);
  for (size_t i = 0; i < std::min(entry.steps.size(), recording.steps.size()); ++i) {
    const TraceStep& s = recording.steps[i];
    StepProfile& step = entry.steps[i];
    step.ns = std::min(step.ns, s.ns);
    if (s.kind == TraceStep::Kind::op && ir::Info(s.op).impl == ir::Impl::view) continue;
    step.bytes_read = BytesOf(recording, s.in);
    step.bytes_written = BytesOf(recording, s.out);
  }
}

// ---- files

std::string FormatProfile(const std::vector<ProfileEntry>& entries, const TunedChoices& tuned) {
  Writer writer;
  std::string& text = writer.out();
  absl::StrAppend(&text, std::string(kMagic), std::string(kVersion), "\n", std::string(kLegend));
  for (const ProfileEntry& e : entries) writer.Entry(e);
  for (const auto& [hash, schedule] : tuned) writer.Line("tuned", hash, schedule);
  text += ChecksumLine(text);
  return std::move(text);
}

absl::StatusOr<std::vector<ProfileEntry>> ParseProfile(std::string_view text, TunedChoices* tuned) {
  if (text.substr(0, kMagic.size()) != kMagic) return DataLoss("it is not a profile");
  const size_t first = text.find('\n');
  if (first == std::string_view::npos) return DataLoss("it is cut short");
  const std::string version(text.substr(kMagic.size(), first - kMagic.size()));
  if (version != kVersion)
    return DataLoss("it is of version ", Quoted(version), ", and this library reads version ", std::string(kVersion));
  const size_t length = kChecksum.size() + 17;
  if (text.size() < first + 1 + length) return DataLoss("it is cut short");
  const size_t body = text.size() - length;
  if (text[body - 1] != '\n' || text.substr(body, kChecksum.size()) != kChecksum) return DataLoss("it is cut short");
  if (text.substr(body) != ChecksumLine(text.substr(0, body))) return DataLoss("its checksum is wrong");
  return Reader(text.substr(first + 1, body - first - 1)).Run(tuned);
}

absl::Status SaveProfile(const std::string& path, const std::vector<ProfileEntry>& entries, const TunedChoices& tuned) {
  const std::string text = FormatProfile(entries, tuned);
  if (text.size() > kMostBytes)
    return ResourceExhausted("cannot write profile ", path, ": it has more than ", kMostBytes >> 20, " MiB");
  return rt::WriteFile(path, {text}, 0600);
}

absl::StatusOr<std::vector<ProfileEntry>> LoadProfile(const std::string& path, TunedChoices* tuned) {
  const auto refused = [&](const std::string& why) {
    return DataLoss("cannot use profile ", path, ": ", why,
                    "; delete it, or write a new one with Runtime::save_profile");
  };
  // A pipe or a device may never end. What cannot be looked at is ReadFile's to explain.
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) return refused("it is not a file");
    if (static_cast<size_t>(info.st_size) > kMostBytes) return refused("it is too large");
  }
  TSR_ASSIGN_OR_RETURN(const std::string text, rt::ReadFile(path));
  absl::StatusOr<std::vector<ProfileEntry>> entries = ParseProfile(text, tuned);
  if (!entries.ok()) return refused(std::string(entries.status().message()));
  return entries;
}

}  // namespace tessera::tracer
