#include "tools/tessera/line_editor.h"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "tools/tessera/terminal.h"

namespace tessera::tools {
namespace {

constexpr int Ctrl(char c) { return c & 0x1f; }
constexpr int kEscape = 27, kBackspace = 127;
// Between the bytes of one key.
constexpr int kKeyMs = 50;
constexpr size_t kMostLine = size_t{1} << 20;

// Keys one by one and unseen, Ctrl-C among them; as it was when it ends.
class RawMode {
 public:
  explicit RawMode(int fd) : fd_(fd) {
    if (::tcgetattr(fd, &before_) != 0) return;
    termios raw = before_;
    raw.c_iflag &= ~static_cast<tcflag_t>(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
    raw.c_cflag |= CS8;
    raw.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    on_ = ::tcsetattr(fd, TCSADRAIN, &raw) == 0;
  }
  ~RawMode() {
    if (on_) ::tcsetattr(fd_, TCSADRAIN, &before_);
  }
  RawMode(const RawMode&) = delete;

 private:
  const int fd_;
  termios before_{};
  bool on_ = false;
};

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }
bool InWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || (c & 0x80) != 0; }
// One column for each character: what is wider is rare in programs.
size_t Columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !Continues(c); }));
}

}  // namespace

void LineEditor::Write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t n = ::write(out_, text.data(), text.size());
    if (n < 0 && errno != EINTR && errno != EAGAIN) return;
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
}

int LineEditor::NextByte(int timeout_ms) {
  if (pending_.empty()) {
    pollfd ready{in_, POLLIN, 0};
    for (;;) {
      const int n = ::poll(&ready, 1, timeout_ms);
      if (n == 0) return kNothing;
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return kEnd;
      char bytes[256];
      const ssize_t got = ::read(in_, bytes, sizeof bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return kEnd;
      pending_.assign(bytes, static_cast<size_t>(got));
      break;
    }
  }
  const auto byte = static_cast<unsigned char>(pending_[0]);
  pending_.erase(0, 1);
  return byte;
}

// What follows an escape.
int LineEditor::Sequence() {
  const int first = NextByte(kKeyMs);
  switch (first) {
    case 'b': return kWordLeft;
    case 'f': return kWordRight;
    case 'd': return kDeleteWord;
    case '[':
    case 'O': break;
    default: return kNothing;
  }
  std::string number;
  int c = NextByte(kKeyMs);
  while (c < 256 && (std::isdigit(c) != 0 || c == ';') && number.size() < 16) {
    number += static_cast<char>(c);
    c = NextByte(kKeyMs);
  }
  const bool modified = number.size() > 2 && number.starts_with("1;");
  switch (c) {
    case 'A': return kUp;
    case 'B': return kDown;
    case 'C': return modified ? kWordRight : kRight;
    case 'D': return modified ? kWordLeft : kLeft;
    case 'H': return kHome;
    case 'F': return kEndOfLine;
    case '~': break;
    default: return kNothing;
  }
  if (number == "1" || number == "7") return kHome;
  if (number == "4" || number == "8") return kEndOfLine;
  if (number == "3") return kDelete;
  if (number == "200") return kPasteBegins;
  if (number == "201") return kPasteEnds;
  return kNothing;
}

int LineEditor::NextKey() {
  const int byte = NextByte(-1);
  return byte == kEscape ? Sequence() : byte;
}

size_t LineEditor::Before(size_t at) const {
  if (at == 0) return 0;
  --at;
  while (at > 0 && Continues(line_[at])) --at;
  return at;
}
size_t LineEditor::After(size_t at) const {
  if (at >= line_.size()) return line_.size();
  ++at;
  while (at < line_.size() && Continues(line_[at])) ++at;
  return at;
}
size_t LineEditor::WordBefore(size_t at) const {
  while (at > 0 && !InWord(line_[at - 1])) --at;
  while (at > 0 && InWord(line_[at - 1])) --at;
  return at;
}
size_t LineEditor::WordAfter(size_t at) const {
  while (at < line_.size() && !InWord(line_[at])) ++at;
  while (at < line_.size() && InWord(line_[at])) ++at;
  return at;
}

void LineEditor::Insert(std::string_view text) {
  if (line_.size() + text.size() > kMostLine) return;
  line_.insert(cursor_, text);
  cursor_ += text.size();
}

void LineEditor::Erase(size_t from, size_t to, bool keep) {
  if (keep && to > from) kept_ = line_.substr(from, to - from);
  line_.erase(from, to - from);
  cursor_ = from;
}

void LineEditor::Recall(int step) {
  const size_t to = recalled_ + static_cast<size_t>(step);
  if (step < 0 ? recalled_ == 0 : recalled_ >= history_.size()) return;
  if (recalled_ == history_.size()) draft_ = line_;
  recalled_ = to;
  line_ = to == history_.size() ? draft_ : history_[to];
  cursor_ = line_.size();
}

void LineEditor::Complete() {
  size_t start = cursor_;
  if (!completer_) return;
  std::vector<std::string> words = completer_(line_, cursor_, &start);
  if (words.empty() || start > cursor_) return;
  std::string common = words[0];
  for (const std::string& word : words) {
    const auto end = std::mismatch(common.begin(), common.end(), word.begin(), word.end()).first;
    common.erase(end, common.end());
  }
  if (common.size() > cursor_ - start) {
    line_.replace(start, cursor_ - start, common);
    cursor_ = start + common.size();
    return;
  }
  if (words.size() == 1) return;
  // Nothing more is certain: show what there is, in columns below, and the line again.
  constexpr size_t kShown = 100;
  size_t widest = 0;
  const size_t shown = std::min(words.size(), kShown);
  for (size_t i = 0; i < shown; ++i) widest = std::max(widest, words[i].size());
  const size_t columns = std::max<size_t>(static_cast<size_t>(TerminalWidth(out_)) / (widest + 2), 1);
  const size_t rows = (shown + columns - 1) / columns;
  std::string text;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = r; i < shown; i += rows) {
      text += words[i];
      if (i + rows < shown) text.append(widest + 2 - words[i].size(), ' ');
    }
    text += "\r\n";
  }
  if (words.size() > shown) text += "... and " + std::to_string(words.size() - shown) + " more\r\n";
  Leave("\r\n" + text);
}

// Types what is looked for; each Ctrl-R goes further back. Any other key takes the line found and does what it does.
void LineEditor::Search() {
  const std::string before = line_, prompt = prompt_;
  const size_t prompt_width = prompt_width_;
  std::string wanted;
  size_t at = history_.size();
  const auto find = [&](size_t from) {
    for (size_t i = from; i-- > 0;) {
      const size_t where = history_[i].find(wanted);
      if (where == std::string::npos) continue;
      at = i;
      line_ = history_[i];
      cursor_ = where;
      return;
    }
  };
  for (;;) {
    prompt_ = "(search) " + wanted + ": ";
    prompt_width_ = Columns(prompt_);
    Draw();
    const int key = NextKey();
    if (key == Ctrl('r')) {
      if (!wanted.empty()) find(at);
    } else if ((key == kBackspace || key == Ctrl('h')) && !wanted.empty()) {
      wanted.pop_back();
      at = history_.size();
      if (!wanted.empty()) find(at);
    } else if (key >= 32 && key < 256 && key != kBackspace) {
      wanted += static_cast<char>(key);
      find(at == history_.size() ? at : at + 1);
    } else {
      if (key == Ctrl('c') || key == Ctrl('g'))
        line_ = before, cursor_ = line_.size();
      else if (key < 256 && key != kEscape)
        pending_.insert(pending_.begin(), static_cast<char>(key));
      break;
    }
  }
  prompt_ = prompt;
  prompt_width_ = prompt_width;
  recalled_ = history_.size();
}

// Rows above the cursor's are those of the last drawing.
void LineEditor::Draw(std::string_view after) {
  const auto width = static_cast<size_t>(std::max(TerminalWidth(out_), 1));
  std::string text = "\r";
  if (cursor_row_ > 0) text += "\x1b[" + std::to_string(cursor_row_) + "A";
  text += "\x1b[J" + prompt_ + line_;
  const size_t end = prompt_width_ + Columns(line_);
  const size_t at = prompt_width_ + Columns(std::string_view(line_).substr(0, cursor_));
  // A full row leaves the cursor at its end: the next one must exist to be gone to.
  if (end > 0 && end % width == 0) text += "\r\n";
  if (const size_t up = end / width - at / width; up > 0) text += "\x1b[" + std::to_string(up) + "A";
  text += "\r";
  if (at % width > 0) text += "\x1b[" + std::to_string(at % width) + "C";
  cursor_row_ = at / width;
  Write(text.append(after));
}

// The drawing stays as it is, and what is written goes below it.
void LineEditor::Leave(std::string_view after) {
  MoveTo(line_.size());
  Draw(after);
  cursor_row_ = 0;
}

bool LineEditor::Edit(int key) {
  switch (key) {
    case Ctrl('a'):
    case kHome: MoveTo(0); break;
    case Ctrl('e'):
    case kEndOfLine: MoveTo(line_.size()); break;
    case Ctrl('b'):
    case kLeft: MoveTo(Before(cursor_)); break;
    case Ctrl('f'):
    case kRight: MoveTo(After(cursor_)); break;
    case kWordLeft: MoveTo(WordBefore(cursor_)); break;
    case kWordRight: MoveTo(WordAfter(cursor_)); break;
    case Ctrl('h'):
    case kBackspace: {
      // In the indentation, a level at a time.
      const bool indentation = cursor_ >= 4 && cursor_ % 4 == 0 && line_.find_first_not_of(' ') >= cursor_;
      Erase(indentation ? cursor_ - 4 : Before(cursor_), cursor_, false);
      break;
    }
    case Ctrl('d'):
    case kDelete: Erase(cursor_, After(cursor_), false); break;
    case kDeleteWord: Erase(cursor_, WordAfter(cursor_), true); break;
    case Ctrl('w'): Erase(WordBefore(cursor_), cursor_, true); break;
    case Ctrl('k'): Erase(cursor_, line_.size(), true); break;
    case Ctrl('u'): Erase(0, cursor_, true); break;
    case Ctrl('y'): Insert(kept_); break;
    case Ctrl('t'):
      if (cursor_ > 0 && line_.size() > 1) {
        const size_t middle = cursor_ < line_.size() ? cursor_ : Before(cursor_);
        const size_t first = Before(middle), last = After(middle);
        std::rotate(line_.begin() + static_cast<std::ptrdiff_t>(first),
                    line_.begin() + static_cast<std::ptrdiff_t>(middle),
                    line_.begin() + static_cast<std::ptrdiff_t>(last));
        cursor_ = last;
      }
      break;
    case Ctrl('p'):
    case kUp: Recall(-1); break;
    case Ctrl('n'):
    case kDown: Recall(1); break;
    case Ctrl('r'): Search(); break;
    case Ctrl('l'):
      Write("\x1b[H\x1b[2J");
      cursor_row_ = 0;
      break;
    case '\t':
      if (pasting_ || line_.find_first_not_of(' ') >= cursor_)
        Insert("    ");
      else
        Complete();
      break;
    default: {
      if (key < 32 || key > 255) return false;
      const char byte = static_cast<char>(key);
      Insert({&byte, 1});
    }
  }
  return true;
}

LineEditor::Answer LineEditor::Read(const std::string& prompt, size_t prompt_width, const std::string& start,
                                    std::string* line) {
  const RawMode raw(in_);
  prompt_ = prompt;
  prompt_width_ = prompt_width;
  line_ = start;
  cursor_ = line_.size();
  recalled_ = history_.size();
  draft_.clear();
  cursor_row_ = 0;
  Write("\x1b[?2004h");
  Answer answer = Answer::line;
  for (;;) {
    // Drawn once for what arrived together.
    if (pending_.empty()) Draw();
    const int key = NextKey();
    if (key == kPasteBegins || key == kPasteEnds) {
      pasting_ = key == kPasteBegins;
      continue;
    }
    if (key == '\r' || key == '\n') break;
    if (key == Ctrl('c')) {
      answer = Answer::interrupted;
      break;
    }
    if (key == kEnd || (key == Ctrl('d') && line_.empty())) {
      answer = Answer::end;
      break;
    }
    Edit(key);
  }
  Leave(answer == Answer::interrupted ? "^C\r\n\x1b[?2004l" : "\r\n\x1b[?2004l");
  if (answer == Answer::interrupted) pending_.clear(), pasting_ = false;
  *line = line_;
  if (answer == Answer::line) history_.Add(line_);
  return answer;
}

}  // namespace tessera::tools
