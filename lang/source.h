// Source texts and places in them. All texts of a session share one range of offsets, so that a place is two numbers.
#ifndef TESSERA_LANG_SOURCE_H_
#define TESSERA_LANG_SOURCE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::lang {

/// Bytes of one source text.
inline constexpr size_t kMaxSourceBytes = size_t{64} << 20;

/// A stretch of source text: offsets of a SourceMap. {0, 0} is nowhere.
struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool known() const { return end > 0; }
  friend bool operator==(const Span&, const Span&) = default;
};
inline Span Join(Span a, Span b) {
  if (!a.known()) return b;
  if (!b.known()) return a;
  return {a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}

/// One text. Made by a SourceMap; does not move or change.
class SourceFile {
 public:
  const std::string& name() const { return name_; }
  std::string_view text() const { return text_; }
  uint32_t base() const { return base_; }
  std::string_view TextOf(Span span) const { return text().substr(span.begin - base_, span.end - span.begin); }

 private:
  friend class SourceMap;
  std::string name_;
  std::string text_;
  uint32_t base_ = 0;
  mutable std::vector<uint32_t> lines_;  // offsets where lines start; made at the first question
};

/// A place for people: 1-based; columns count bytes, as Graph IR's messages do.
struct Position {
  const SourceFile* file = nullptr;
  int line = 0;
  int column = 0;
};

/// Owns the texts. One thread at a time.
class SourceMap {
 public:
  SourceMap() = default;
  SourceMap(const SourceMap&) = delete;

  /// Null when the text, or all texts together (2 GiB), are too large.
  const SourceFile* Add(std::string name, std::string text);
  /// Null for a span that is nowhere.
  const SourceFile* FileOf(Span span) const;
  Position PositionOf(uint32_t offset) const;
  /// The line without its end.
  /// Where the next line begins, as a place of the whole map.
  uint32_t EndOfLine(const SourceFile& file, int line) const;
  std::string_view Line(const SourceFile& file, int line) const;
  std::string_view TextOf(Span span) const;

 private:
  void FindLines(const SourceFile& file) const;
  std::deque<SourceFile> files_;
  uint32_t next_ = 1;  // so that {0, 0} is no place
};

}  // namespace tessera::lang

#endif  // TESSERA_LANG_SOURCE_H_
