#include "lang/diagnostic.h"

#include <algorithm>

namespace tessera::lang {
namespace {

constexpr DiagInfo kDiags[] = {
#define TSR_DIAG(name, severity, text) {#name, Severity::severity, text},
#include "lang/diagnostics.def"
};

constexpr std::string_view kReset = "\033[0m", kBold = "\033[1m", kGreen = "\033[1;32m";

std::string_view Colour(Severity s) {
  return s == Severity::error ? "\033[1;31m" : s == Severity::warning ? "\033[1;35m" : "\033[1;36m";
}
std::string_view Word(Severity s) {
  return s == Severity::error ? "error" : s == Severity::warning ? "warning" : "note";
}

// Control characters would garble a terminal, and a tab would shift the caret.
std::string Clean(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = ' ';
  return out;
}

void RenderOne(const SourceMap& sources, const Diagnostic& d, const RenderOptions& options, std::string& out) {
  const auto paint = [&](std::string_view colour, std::string_view text) {
    if (options.colour) Append(out, colour);
    Append(out, text);
    if (options.colour) Append(out, kReset);
  };
  Position at;
  if (d.span.known()) at = sources.PositionOf(d.span.begin);
  if (at.file != nullptr) paint(kBold, Cat(at.file->name(), ":", at.line, ":", at.column, ": "));
  paint(Colour(d.severity), Cat(Word(d.severity), ": "));
  paint(kBold, d.message);
  out += '\n';
  if (at.file != nullptr) {
    const std::string_view full = sources.Line(*at.file, at.line);
    const Position end = sources.PositionOf(std::max(d.span.end, d.span.begin + 1) - 1);
    size_t first = static_cast<size_t>(at.column) - 1;
    size_t last = end.line == at.line ? static_cast<size_t>(end.column) - 1 : std::max(full.size(), first + 1) - 1;
    last = std::max(first, std::min(last, std::max(full.size(), first + 1) - 1));
    // A long line is cut around the place.
    size_t from = 0;
    const size_t width = static_cast<size_t>(std::max(options.width, 20));
    if (full.size() > width && first > width / 2) from = std::min(first - width / 2, full.size() - width / 2);
    std::string line = Clean(full.substr(std::min(from, full.size()), width));
    first -= from;
    last = std::min(last - from, first + width);
    Append(out, line, "\n", std::string(first, ' '));
    paint(kGreen, Cat("^", std::string(last - first, '~')));
    out += '\n';
  }
  for (const Diagnostic& note : d.notes) RenderOne(sources, note, options, out);
  if (!d.hint.empty()) Append(out, "hint: ", d.hint, "\n");
}

}  // namespace

const DiagInfo& Info(Diag id) { return kDiags[static_cast<size_t>(id)]; }

Diagnostic Diagnostics::Make(Diag id, Span span, const std::vector<std::string>& args) {
  const DiagInfo& info = Info(id);
  Diagnostic d{id, info.severity, span, "", "", {}};
  const std::string_view text = info.text;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{' && i + 2 < text.size() && text[i + 2] == '}' && text[i + 1] >= '0' && text[i + 1] <= '9') {
      const size_t index = static_cast<size_t>(text[i + 1] - '0');
      if (index < args.size()) d.message += Clean(args[index]);
      i += 2;
    } else {
      d.message += text[i];
    }
  }
  return d;
}

Diagnostic& Diagnostics::ReportText(Diag id, Span span, const std::vector<std::string>& args) {
  Diagnostic d = Make(id, span, args);
  if (d.severity == Severity::error && errors_ == kMaxErrors) id = Diag::too_many_errors, d = Make(id, span, {});
  if (errors_ > kMaxErrors || (d.severity != Severity::error && all_.size() > 4 * kMaxErrors)) {
    dropped_ = std::move(d);
    return dropped_;
  }
  if (d.severity == Severity::error) ++errors_;
  all_.push_back(std::move(d));
  return all_.back();
}

void Diagnostics::Clear() { all_.clear(), errors_ = 0; }
std::vector<Diagnostic> Diagnostics::Take() {
  std::vector<Diagnostic> out = std::move(all_);
  Clear();
  return out;
}
void Diagnostics::Append(const Diagnostics& other) {
  for (const Diagnostic& d : other.all_) {
    if (errors_ > kMaxErrors) return;
    all_.push_back(d);
    errors_ += d.severity == Severity::error;
  }
}
void Diagnostics::Rewind(size_t count, int errors) {
  if (count < all_.size()) all_.erase(all_.begin() + static_cast<ptrdiff_t>(count), all_.end());
  errors_ = errors;
}

std::string Render(const SourceMap& sources, const Diagnostic& diagnostic, const RenderOptions& options) {
  std::string out;
  RenderOne(sources, diagnostic, options, out);
  return out;
}
std::string Render(const SourceMap& sources, absl::Span<const Diagnostic> diagnostics, const RenderOptions& options) {
  std::string out;
  for (const Diagnostic& d : diagnostics) RenderOne(sources, d, options, out);
  return out;
}

}  // namespace tessera::lang
