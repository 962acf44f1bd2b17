// Reads a line from a terminal, with editing, history and completion. A small editor of its own: the library that most
// programs use for this would be one more thing to install, and is not needed for so little.
//
// Keys: arrows, Home, End, Ctrl-A/E/B/F/P/N, Alt-B/F (words), Backspace, Delete, Ctrl-D (delete, or the end of input in
// an empty line), Ctrl-K/U/W, Alt-D, Ctrl-Y (what was cut last), Ctrl-T, Ctrl-L, Ctrl-R (search the history), Tab.
#ifndef TESSERA_TOOLS_TESSERA_LINE_EDITOR_H_
#define TESSERA_TOOLS_TESSERA_LINE_EDITOR_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tessera/history.h"

namespace tessera::tools {

class LineEditor {
 public:
  enum class Answer { line, interrupted, end };
  /// The words that may stand at line[*start, cursor): *start is set, too.
  using Completer = std::function<std::vector<std::string>(std::string_view line, size_t cursor, size_t* start)>;

  LineEditor(int in, int out, History& history) : in_(in), out_(out), history_(history) {}
  void SetCompleter(Completer completer) { completer_ = std::move(completer); }

  /// The line begins with `start`. `prompt` has `prompt_width` columns (it may hold colours). Without its newline.
  Answer Read(const std::string& prompt, size_t prompt_width, const std::string& start, std::string* line);
  /// Text is being pasted: it has its own indentation.
  bool pasting() const { return pasting_; }

 private:
  // Codes above any byte, for what arrives as several.
  enum Key : int {
    kEnd = 256,
    kLeft,
    kRight,
    kUp,
    kDown,
    kHome,
    kEndOfLine,
    kDelete,
    kWordLeft,
    kWordRight,
    kDeleteWord,
    kPasteBegins,
    kPasteEnds,
    kNothing,
  };

  int NextByte(int timeout_ms);
  int NextKey();
  int Sequence();
  void Insert(std::string_view text);
  void Erase(size_t from, size_t to, bool keep);
  void MoveTo(size_t cursor) { cursor_ = cursor; }
  size_t Before(size_t at) const;
  size_t After(size_t at) const;
  size_t WordBefore(size_t at) const;
  size_t WordAfter(size_t at) const;
  void Recall(int step);
  void Complete();
  void Search();
  bool Edit(int key);
  void Draw(std::string_view after = {});
  void Leave(std::string_view after);
  void Write(std::string_view text) const;

  const int in_, out_;
  History& history_;
  Completer completer_;
  std::string pending_;  // bytes that were read and not used yet
  std::string prompt_;
  size_t prompt_width_ = 0;
  std::string line_, kept_, draft_;
  size_t cursor_ = 0, recalled_ = 0;
  size_t cursor_row_ = 0;  // where the last drawing left the cursor, below the prompt
  bool pasting_ = false;
};

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TESSERA_LINE_EDITOR_H_
