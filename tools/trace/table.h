// Tables for terminals.
#ifndef TESSERA_TOOLS_TRACE_TABLE_H_
#define TESSERA_TOOLS_TRACE_TABLE_H_

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/trace/tally.h"

namespace tessera::tools {

inline constexpr size_t kPlaceWidth = 32;

/// What tells names apart is at their end.
inline std::string KeepEnd(const std::string& text, size_t most = kPlaceWidth) {
  return text.size() <= most ? text : "..." + text.substr(text.size() - (most - 3));
}

/// What tells names of kernels apart is at their beginning.
inline std::string KeepStart(const std::string& text, size_t most = kPlaceWidth) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

/// Columns that are as wide as their widest cell; numbers to the right.
class Table {
 public:
  /// A name that begins with '>' is a column of numbers.
  explicit Table(std::initializer_list<const char*> columns) {
    std::vector<std::string> names;
    for (const char* name : columns) {
      is_number_.push_back(*name == '>');
      names.emplace_back(name + (*name == '>' ? 1 : 0));
    }
    widths_.resize(names.size());
    Row(std::move(names));
  }
  void Row(std::vector<std::string> cells) {
    cells.resize(widths_.size());
    for (size_t c = 0; c < cells.size(); ++c) widths_[c] = std::max(widths_[c], cells[c].size());
    rows_.push_back(std::move(cells));
  }
  bool empty() const { return rows_.size() == 1; }
  std::string Text() const {
    std::string out;
    for (const auto& cells : rows_) {
      std::string line;
      for (size_t c = 0; c < cells.size(); ++c) {
        const std::string blanks(widths_[c] - cells[c].size(), ' ');
        absl::StrAppend(&line, "  ", is_number_[c] ? blanks : "", cells[c], is_number_[c] ? "" : blanks);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      absl::StrAppend(&out, line, "\n");
    }
    return out;
  }

 private:
  std::vector<bool> is_number_;
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

inline std::string Count(int64_t n, const char* what) { return absl::StrCat(n, " ", what, n == 1 ? "" : "s"); }
inline double Each(const Tally& t) {
  return t.count > 0 ? static_cast<double>(t.ns) / static_cast<double>(t.count) : 0;
}

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_TABLE_H_
