#include "lang/source.h"

#include <algorithm>
#include <cstring>

namespace tessera::lang {

const SourceFile* SourceMap::Add(std::string name, std::string text) {
  constexpr uint32_t kMaxAll = uint32_t{1} << 31;
  if (text.size() > kMaxSourceBytes || text.size() + 1 > kMaxAll - next_) return nullptr;
  SourceFile& file = files_.emplace_back();
  file.name_ = std::move(name);
  file.text_ = std::move(text);
  file.base_ = next_;
  next_ += static_cast<uint32_t>(file.text_.size()) + 1;  // the end of a text is a place of its own
  return &file;
}

const SourceFile* SourceMap::FileOf(Span span) const {
  if (!span.known()) return nullptr;
  auto it = std::upper_bound(files_.begin(), files_.end(), span.begin,
                             [](uint32_t offset, const SourceFile& f) { return offset < f.base_; });
  return it == files_.begin() ? nullptr : &*std::prev(it);
}

void SourceMap::FindLines(const SourceFile& file) const {
  if (!file.lines_.empty()) return;
  file.lines_.push_back(0);
  const char* const begin = file.text_.data();
  const char* const end = begin + file.text_.size();
  for (const char* p = begin; p < end; ++p) {
    p = static_cast<const char*>(std::memchr(p, '\n', static_cast<size_t>(end - p)));
    if (p == nullptr) break;
    file.lines_.push_back(static_cast<uint32_t>(p - begin) + 1);
  }
}

Position SourceMap::PositionOf(uint32_t offset) const {
  const SourceFile* file = FileOf({offset, offset + 1});
  if (file == nullptr) return {};
  FindLines(*file);
  const uint32_t at = std::min(offset - file->base_, static_cast<uint32_t>(file->text_.size()));
  const auto line = std::upper_bound(file->lines_.begin(), file->lines_.end(), at) - 1;
  return {file, static_cast<int>(line - file->lines_.begin()) + 1, static_cast<int>(at - *line) + 1};
}

std::string_view SourceMap::Line(const SourceFile& file, int line) const {
  FindLines(file);
  if (line < 1 || static_cast<size_t>(line) > file.lines_.size()) return {};
  const uint32_t begin = file.lines_[line - 1];
  std::string_view text = file.text().substr(begin);
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

uint32_t SourceMap::EndOfLine(const SourceFile& file, int line) const {
  FindLines(file);
  const auto next = static_cast<size_t>(line);
  return file.base_ + (next < file.lines_.size() ? file.lines_[next] : static_cast<uint32_t>(file.text_.size()) + 1);
}

std::string_view SourceMap::TextOf(Span span) const {
  const SourceFile* file = FileOf(span);
  return file == nullptr ? std::string_view() : file->TextOf(span);
}

}  // namespace tessera::lang
