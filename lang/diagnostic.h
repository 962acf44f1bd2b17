// Errors, warnings and notes as values, and how they look. Every text is a row of diagnostics.def.
#ifndef TESSERA_LANG_DIAGNOSTIC_H_
#define TESSERA_LANG_DIAGNOSTIC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "lang/source.h"
#include "lang/text.h"

namespace tessera::lang {

enum class Diag : uint16_t {
#define TSR_DIAG(name, severity, text) name,
#include "lang/diagnostics.def"
};
inline constexpr int kNumDiags = 0
#define TSR_DIAG(name, severity, text) +1
#include "lang/diagnostics.def"
    ;

enum class Severity : uint8_t { error, warning, note };

struct DiagInfo {
  std::string_view name;
  Severity severity;
  std::string_view text;  // {0}, {1}, ... stand for what the place at hand fills in
};
const DiagInfo& Info(Diag id);

struct Diagnostic {
  Diag id;
  Severity severity;
  Span span;
  std::string message;
  std::string hint;               // empty: none. "did you mean ...?"
  std::vector<Diagnostic> notes;  // their severity is note
};

/// Gathers diagnostics in the order they are found. One thread.
class Diagnostics {
 public:
  /// After this many errors further ones are counted and dropped.
  static constexpr int kMaxErrors = 100;

  /// Adds one. The answer may be given notes and a hint; it is valid until the next Report.
  template <class... T>
  Diagnostic& Report(Diag id, Span span, const T&... args) {
    return ReportText(id, span, {Cat(args)...});
  }
  template <class... T>
  static void Note(Diagnostic& to, Diag id, Span span, const T&... args) {
    to.notes.push_back(Make(id, span, {Cat(args)...}));
  }
  Diagnostic& ReportText(Diag id, Span span, const std::vector<std::string>& args);
  static Diagnostic Make(Diag id, Span span, const std::vector<std::string>& args);

  /// Adds a note to all errors that came after there were `count` diagnostics.
  template <class... T>
  void Explain(size_t count, Diag id, Span span, const T&... args) {
    for (size_t i = count; i < all_.size(); ++i)
      if (all_[i].severity == Severity::error && all_[i].notes.size() < 8 && !(all_[i].span == span))
        Note(all_[i], id, span, args...);
  }
  void Append(const Diagnostics& other);

  const std::vector<Diagnostic>& all() const { return all_; }
  int errors() const { return errors_; }
  bool ok() const { return errors_ == 0; }
  void Clear();
  std::vector<Diagnostic> Take();
  /// Takes back what came after there were `count` of them: a part of the program is looked at again.
  void Rewind(size_t count, int errors);

 private:
  std::vector<Diagnostic> all_;
  Diagnostic dropped_;
  int errors_ = 0;
};

struct RenderOptions {
  bool colour = false;
  /// Longer source lines are cut around the place.
  int width = 160;
};

/// "file:line:col: error: ...\n<line>\n<caret, ~ to the end>\n", then its notes in the same form and "hint: ...".
std::string Render(const SourceMap& sources, const Diagnostic& diagnostic, const RenderOptions& options = {});
std::string Render(const SourceMap& sources, absl::Span<const Diagnostic> diagnostics,
                   const RenderOptions& options = {});

}  // namespace tessera::lang

#endif  // TESSERA_LANG_DIAGNOSTIC_H_
