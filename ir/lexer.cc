#include "ir/lexer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tessera::ir {
namespace {

// Offsets are 32 bits.
constexpr size_t kMaxText = size_t{1} << 30;
// Of a source line in a message.
constexpr size_t kMaxShown = 160;

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsNamePart(char c) { return IsLetter(c) || IsDigit(c) || c == '.'; }
bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

class Source::Lexer {
 public:
  explicit Lexer(Source& source) : s_(source), text_(source.text_) {}

  void Run() {
    s_.line_starts_.push_back(0);
    if (text_.size() > kMaxText) {
      text_ = text_.substr(0, 0);
      return Error(0, 0, "the text is longer than 2^30 bytes", "");
    }
    while (Next()) {
    }
  }

 private:
  char Peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  bool Push(Tok kind, size_t begin) {
    s_.tokens_.push_back({kind, static_cast<uint32_t>(begin), static_cast<uint32_t>(at_ - begin),
                          static_cast<uint32_t>(s_.line_starts_.size())});
    return kind != Tok::end && kind != Tok::error;
  }

  void Error(size_t begin, size_t end, std::string message, std::string hint) {
    at_ = end;
    s_.lex_error_ = std::move(message);
    s_.lex_hint_ = std::move(hint);
    Push(Tok::error, begin);
  }

  bool Fail(size_t begin, size_t end, std::string message, std::string hint = "") {
    Error(begin, end, std::move(message), std::move(hint));
    return false;
  }

  bool Next() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        s_.line_starts_.push_back(static_cast<uint32_t>(at_ + 1));
      } else if (c == '/' && Peek(1) == '/') {
        const size_t end = text_.find('\n', at_);
        at_ = (end == std::string_view::npos ? text_.size() : end) - 1;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        break;
      }
    }
    const size_t begin = at_;
    if (at_ >= text_.size()) return Push(Tok::end, begin);
    const char c = text_[at_];
    if (IsLetter(c)) return Name(Tok::name, begin);
    if (IsDigit(c)) return Number(begin);
    if (c == '"') return String(begin);
    if (c == '%' && (IsLetter(Peek(1)) || IsDigit(Peek(1)))) {
      ++at_;
      const bool is_number = IsDigit(Peek());
      if (!Name(Tok::value, begin)) return false;
      const std::string_view name = text_.substr(begin + 1, at_ - begin - 1);
      if (!is_number || std::all_of(name.begin(), name.end(), IsDigit)) return true;
      return Fail(begin, at_, "a name does not start with a digit", "%0, %1 and so on are values without a name");
    }
    if (c == '@') {
      ++at_;
      if (!IsLetter(Peek())) return Fail(begin, at_, "'@' must be followed by a name", "functions are written @name");
      return Name(Tok::symbol, begin);
    }
    return Punctuation(begin);
  }

  bool Name(Tok kind, size_t begin) {
    while (IsNamePart(Peek())) ++at_;
    return Push(kind, begin);
  }

  bool Number(size_t begin) {
    Tok kind = Tok::integer;
    if (Peek() == '0' && Peek(1) == 'x' && IsHex(Peek(2))) {
      kind = Tok::hex;
      at_ += 2;
      while (IsHex(Peek())) ++at_;
    } else {
      while (IsDigit(Peek())) ++at_;
      if (Peek() == '.' && IsDigit(Peek(1))) {
        kind = Tok::real;
        ++at_;
        while (IsDigit(Peek())) ++at_;
      }
      const size_t sign = Peek(1) == '-' || Peek(1) == '+' ? 1 : 0;
      if ((Peek() == 'e' || Peek() == 'E') && IsDigit(Peek(1 + sign))) {
        kind = Tok::real;
        at_ += 1 + sign;
        while (IsDigit(Peek())) ++at_;
      }
    }
    if (!IsNamePart(Peek())) return Push(kind, begin);
    size_t end = at_;
    while (end < text_.size() && IsNamePart(text_[end])) ++end;
    const std::string_view all = text_.substr(begin, std::min<size_t>(end - begin, 40));
    std::string hint;
    if (all.find('x') != std::string_view::npos) {
      hint = "write spaces around the x between dims: tensor<2 x 3 x f32>";
    } else if (all.back() == '.') {
      hint = "write a digit after the dot: 1.0";
    }
    return Fail(begin, end, absl::StrCat("'", std::string(all), "' is not a number"), hint);
  }

  bool String(size_t begin) {
    for (++at_; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        return Push(Tok::string, begin);
      }
      if (text_[at_] != '\\') continue;
      const char e = Peek(1);
      if (e == 'x' && IsHex(Peek(2)) && IsHex(Peek(3))) {
        at_ += 3;
      } else if (e == '"' || e == '\\' || e == 'n' || e == 't' || e == 'r') {
        ++at_;
      } else {
        return Fail(at_, std::min(at_ + 2, text_.size()), "this escape is not known",
                    "the escapes are \\\" \\\\ \\n \\t \\r and \\xHH with two hexadecimal digits");
      }
    }
    return Fail(begin, at_, "the string has no end on its line", "put \" at its end; a line break is written \\n");
  }

  bool Punctuation(size_t begin) {
    const char c = text_[at_++];
    switch (c) {
      case '(': return Push(Tok::lparen, begin);
      case ')': return Push(Tok::rparen, begin);
      case '{': return Push(Tok::lbrace, begin);
      case '}': return Push(Tok::rbrace, begin);
      case '[': return Push(Tok::lbracket, begin);
      case ']': return Push(Tok::rbracket, begin);
      case '<': return Push(Tok::less, begin);
      case '>': return Push(Tok::greater, begin);
      case ',': return Push(Tok::comma, begin);
      case ':': return Push(Tok::colon, begin);
      case '%': return Push(Tok::percent, begin);
      case '*': return Push(Tok::star, begin);
      case '+': return Push(Tok::plus, begin);
      case '/': return Push(Tok::slash, begin);
      case '-':
        if (Peek() == '>') {
          ++at_;
          return Push(Tok::arrow, begin);
        }
        return Push(Tok::minus, begin);
      case '=':
        if (Peek() == '=') {
          ++at_;
          return Push(Tok::equal_equal, begin);
        }
        return Push(Tok::equal, begin);
      default: break;
    }
    size_t end = at_;
    while (end < text_.size() && IsContinuation(text_[end]) && end - begin < 4) ++end;
    const unsigned char u = static_cast<unsigned char>(c);
    std::string shown = u >= 0x20 && u < 0x7f ? absl::StrCat("'", std::string(1, c), "'")
                        : u >= 0xc0 && end - begin > 1
                            ? absl::StrCat("'", std::string(text_.substr(begin, end - begin)), "'")
                            : absl::StrCat("the byte 0x", absl::Hex(u, absl::kZeroPad2));
    std::string hint;
    if (c == '#' || c == ';') hint = "comments start with //";
    if (c == '\'') hint = "strings stand in double quotes";
    return Fail(begin, end, absl::StrCat(shown, " has no meaning here"), hint);
  }

  Source& s_;
  std::string_view text_;
  size_t at_ = 0;
};

Source::Source(std::string_view text, std::string_view file) : text_(text), file_(file) { Lexer(*this).Run(); }

Loc Source::LocOf(const Token& t) const {
  return {static_cast<int>(t.line), static_cast<int>(t.offset - line_starts_[t.line - 1]) + 1};
}

std::string Source::Describe(const Token& t) const {
  if (t.kind == Tok::end) return "the end of the text";
  std::string_view text = Text(t);
  if (t.kind == Tok::string) return text.size() > 40 ? "a string" : absl::StrCat("the string ", std::string(text));
  if (text.size() > 40) return absl::StrCat("'", std::string(text.substr(0, 40)), "...'");
  return absl::StrCat("'", std::string(text), "'");
}

std::string Source::Message(std::string_view kind, const Token& t, std::string_view message) const {
  const Loc loc = LocOf(t);
  std::string out = file_.empty() ? "" : absl::StrCat(file_, ":");
  absl::StrAppend(&out, loc.line, ":", loc.column, ": ", std::string(kind), ": ", std::string(message), "\n");

  size_t begin = line_starts_[t.line - 1];
  size_t end = text_.find('\n', begin);
  if (end == std::string_view::npos) end = text_.size();
  const size_t token_end =
      std::min<size_t>(std::max<size_t>(t.offset + t.length, t.offset + 1), std::max<size_t>(end, t.offset + 1));
  std::string before, after;
  // Where the character at i begins, which has at most three bytes more; of what is no UTF-8 there may be any number.
  const auto character_at = [&](size_t i) {
    for (int back = 0; back < 3 && i > begin && IsContinuation(text_[i]); ++back) --i;
    return i;
  };
  // A very long line is shown around the token.
  if (end - begin > kMaxShown) {
    if (t.offset - begin > kMaxShown / 2) {
      begin = character_at(t.offset - kMaxShown / 4);
      before = "...";
    }
    if (end - begin > kMaxShown) {
      end = character_at(begin + kMaxShown);
      after = "...";
    }
  }
  std::string line = before, carets(before.size(), ' ');
  for (size_t i = begin; i < std::max(end, std::min(token_end, begin + kMaxShown)); ++i) {
    const char c = i < end ? text_[i] : ' ';
    if (c == '\r') continue;
    if (i < end) line += static_cast<unsigned char>(c) < 0x20 && c != '\t' ? '?' : c;
    if (IsContinuation(c) && i != begin) continue;
    if (i < t.offset) {
      carets += c == '\t' ? '\t' : ' ';
    } else if (i < token_end) {
      carets += i == t.offset ? '^' : '~';
    }
  }
  absl::StrAppend(&out, line, after, "\n", carets);
  return out;
}

Token Span(const Token& first, const Token& last) {
  Token t = first;
  if (last.line == first.line && last.offset >= first.offset) t.length = last.offset + last.length - first.offset;
  return t;
}

}  // namespace tessera::ir
