#include "lang/lexer.h"

#include <array>
#include <cstring>

namespace tessera::lang {
namespace {

constexpr std::string_view kDescriptions[] = {
#define TSR_TOKEN(name, text) text,
#define TSR_PUNCT(name, text) "`" text "`",
#define TSR_KEYWORD(name, text) "`" text "`",
#include "lang/tokens.def"
};

struct Word {
  std::string_view text;
  Tok kind;
};
constexpr Word kWords[] = {
#define TSR_KEYWORD(name, text) {text, Tok::name},
#define TSR_RESERVED(text, instead) {text, Tok::reserved},
#include "lang/tokens.def"
};

// Words by their first letter: most names are told from words by one or two comparisons.
struct WordIndex {
  uint8_t first[128][8] = {};
  uint8_t count[128] = {};
  constexpr WordIndex() {
    for (size_t i = 0; i < std::size(kWords); ++i) {
      const auto c = static_cast<unsigned char>(kWords[i].text[0]);
      first[c][count[c]++] = static_cast<uint8_t>(i);
    }
  }
};
constexpr WordIndex kWordIndex;

enum : uint8_t { kIdentStart = 1, kDigit = 2, kBlank = 4 };
constexpr std::array<uint8_t, 256> MakeClasses() {
  std::array<uint8_t, 256> classes{};
  for (int c = 'a'; c <= 'z'; ++c) classes[c] = kIdentStart;
  for (int c = 'A'; c <= 'Z'; ++c) classes[c] = kIdentStart;
  for (int c = '0'; c <= '9'; ++c) classes[c] = kDigit;
  classes['_'] = kIdentStart;
  classes[' '] = classes['\t'] = classes['\f'] = kBlank;
  return classes;
}
constexpr std::array<uint8_t, 256> kClasses = MakeClasses();
uint8_t ClassOf(char c) { return kClasses[static_cast<unsigned char>(c)]; }
bool IsIdent(char c) { return (ClassOf(c) & (kIdentStart | kDigit)) != 0; }
bool IsDigit(char c) { return ClassOf(c) == kDigit; }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Lexer {
 public:
  Lexer(const SourceFile& file, Diagnostics& diagnostics)
      : file_(file), text_(file.text()), diagnostics_(diagnostics), p_(text_.data()), end_(p_ + text_.size()) {
    out_.tokens.reserve(std::min(text_.size() / 3 + 16, kMaxTokens));
  }

  Tokens Run() {
    if (text_.starts_with("\xef\xbb\xbf")) p_ += 3;
    bool line_start = true;
    while (out_.tokens.size() < kMaxTokens) {
      if (line_start && brackets_.empty()) Indentation();
      line_start = false;
      p_ = SkipBlanks(p_);
      if (p_ == end_) break;
      const char c = *p_;
      if (c == '\n' || c == '\r') {
        const char* begin = p_;
        p_ += c == '\r' && p_ + 1 < end_ && p_[1] == '\n' ? 2 : 1;
        if (brackets_.empty()) {
          EndLine(begin);
          line_start = true;
        }
      } else if (c == '#') {
        LexComment();
      } else if (c == '\\') {
        line_start = Continuation();
      } else {
        LexToken(c);
      }
    }
    if (out_.tokens.size() >= kMaxTokens) diagnostics_.Report(Diag::too_many_tokens, At(p_, p_), kMaxTokens);
    if (!brackets_.empty()) {
      out_.incomplete = true;
      CloseAll(end_);
    }
    EndLine(end_);
    while (indents_.size() > 1) {
      indents_.pop_back();
      Add(Tok::dedent, end_, end_);
    }
    Add(Tok::end, end_, end_);
    return std::move(out_);
  }

 private:
  const char* SkipBlanks(const char* p) const {
    while (p < end_ && ClassOf(*p) == kBlank) ++p;
    return p;
  }
  Span At(const char* begin, const char* end) const {
    const auto base = file_.base();
    return {base + static_cast<uint32_t>(begin - text_.data()), base + static_cast<uint32_t>(end - text_.data())};
  }
  Span Of(const Token& t) const { return {file_.base() + t.begin, file_.base() + t.end}; }
  void Add(Tok kind, const char* begin, const char* end) {
    out_.tokens.push_back(
        {kind, static_cast<uint32_t>(begin - text_.data()), static_cast<uint32_t>(end - text_.data())});
  }
  void EndLine(const char* at) {
    // An empty line is no line.
    if (out_.tokens.empty()) return;
    const Tok last = out_.tokens.back().kind;
    if (last == Tok::newline || last == Tok::indent || last == Tok::dedent) return;
    Add(Tok::newline, at, at);
  }

  void Indentation() {
    const char* begin = p_;
    bool tabs = false, spaces = false;
    int column = 0;
    const char* p = p_;
    while (p < end_ && *p == ' ') ++p;
    column = static_cast<int>(p - begin);
    spaces = column > 0;
    for (; p < end_ && ClassOf(*p) == kBlank; ++p) {
      tabs |= *p == '\t';
      spaces |= *p == ' ';
      column = *p == '\t' ? (column / 8 + 1) * 8 : column + 1;
    }
    p_ = p;
    if (p_ == end_ || *p_ == '\n' || *p_ == '\r' || *p_ == '#') return;
    if (tabs && spaces) diagnostics_.Report(Diag::mixed_indentation, At(begin, p_));
    if (column == indents_.back()) return;
    if (column > indents_.back()) {
      if (indents_.size() > kMaxNesting) {
        if (!told_deep_) diagnostics_.Report(Diag::nesting_too_deep, At(begin, p_), kMaxNesting);
        told_deep_ = true;
        return;
      }
      indents_.push_back(column);
      Add(Tok::indent, begin, p_);
      return;
    }
    // The outermost level stays, and is that of the lines after a mistake until one stands at the margin again.
    while (indents_.size() > 1 && column < indents_.back()) {
      indents_.pop_back();
      Add(Tok::dedent, p_, p_);
    }
    if (column != indents_.back()) {
      if (column > 0) diagnostics_.Report(Diag::bad_dedent, At(begin, p_));
      indents_.back() = column;
    }
  }

  void LexComment() {
    const char* begin = p_;
    const char* line = begin;
    while (line > text_.data() && line[-1] != '\n') --line;
    bool own = true;
    for (const char* q = line; q < begin; ++q) own &= ClassOf(*q) == kBlank;
    const void* stop = std::memchr(p_, '\n', static_cast<size_t>(end_ - p_));
    p_ = stop != nullptr ? static_cast<const char*>(stop) : end_;
    const char* last = p_;
    while (last > begin + 1 && (ClassOf(last[-1]) == kBlank || last[-1] == '\r')) --last;
    out_.comments.push_back({At(begin, last), own, static_cast<int>(begin - line)});
  }

  bool Continuation() {
    const char* begin = p_++;
    if (p_ < end_ && *p_ == '\r') ++p_;
    if (p_ == end_) {
      out_.incomplete = true;
      diagnostics_.Report(Diag::stray_backslash, At(begin, begin + 1));
      return false;
    }
    if (*p_ == '\n') {
      ++p_;
    } else {
      diagnostics_.Report(Diag::stray_backslash, At(begin, begin + 1));
    }
    return false;
  }

  void LexToken(char c) {
    const char* begin = p_;
    const uint8_t kind = ClassOf(c);
    if (kind == kIdentStart) {
      // A local: what is read through p_ might be p_ itself, for all the compiler knows.
      const char* p = p_;
      while (p < end_ && IsIdent(*p)) ++p;
      p_ = p;
      if (p_ < end_ && (*p_ == '"' || *p_ == '\'') && p_ - begin <= 2) {
        diagnostics_.Report(Diag::string_prefix, At(begin, p_), std::string_view(begin, p_));
        return LexString();
      }
      return LexWord(begin);
    }
    if (kind == kDigit || (c == '.' && p_ + 1 < end_ && IsDigit(p_[1]))) return LexNumber();
    if (c == '"' || c == '\'') return LexString();
    LexPunct(c);
  }

  /// Reports the bracket that is open and closes all of them, so that the parser has nothing to add.
  void CloseAll(const char* at) {
    diagnostics_.Report(Diag::unclosed_bracket, Of(brackets_.back()), file_.TextOf(Of(brackets_.back())));
    for (; !brackets_.empty(); brackets_.pop_back())
      Add(static_cast<Tok>(static_cast<int>(brackets_.back().kind) + 1), at, at);
  }

  /// A word that begins statements and stands in no expression, first on its line: a bracket before it was forgotten.
  bool BeginsStatement(Tok kind, const char* begin) const {
    switch (kind) {
      case Tok::kw_def:
      case Tok::kw_return:
      case Tok::kw_while:
      case Tok::kw_import:
      case Tok::kw_from:
      case Tok::kw_assert:
      case Tok::kw_pass:
      case Tok::kw_break:
      case Tok::kw_continue: break;
      default: return false;
    }
    while (begin > text_.data() && ClassOf(begin[-1]) == kBlank) --begin;
    return begin == text_.data() || begin[-1] == '\n';
  }

  void LexWord(const char* begin) {
    const std::string_view word(begin, p_);
    const auto c = static_cast<unsigned char>(word[0]);
    for (int i = 0; i < kWordIndex.count[c]; ++i) {
      const Word& w = kWords[kWordIndex.first[c][i]];
      if (w.text != word) continue;
      if (!brackets_.empty() && BeginsStatement(w.kind, begin)) [[unlikely]] {
        CloseAll(begin);
        EndLine(begin);
        p_ = begin;
        while (p_ > text_.data() && ClassOf(p_[-1]) == kBlank) --p_;
        Indentation();
        p_ = begin + word.size();
      }
      return Add(w.kind, begin, p_);
    }
    Add(Tok::name, begin, p_);
  }

  void LexNumber() {
    const char* begin = p_;
    bool floating = false;
    if (*p_ == '0' && p_ + 1 < end_ && std::strchr("xXbBoO", p_[1]) != nullptr && p_[1] != 0) {
      p_ += 2;
      while (p_ < end_ && (IsHex(*p_) || *p_ == '_')) ++p_;
    } else {
      const auto digits = [&] {
        while (p_ < end_ && (IsDigit(*p_) || *p_ == '_')) ++p_;
      };
      digits();
      if (p_ < end_ && *p_ == '.' && !(p_ + 1 < end_ && p_[1] == '.')) {
        floating = true;
        ++p_;
        digits();
      }
      if (p_ < end_ && (*p_ == 'e' || *p_ == 'E')) {
        const char* q = p_ + 1;
        if (q < end_ && (*q == '+' || *q == '-')) ++q;
        if (q < end_ && IsDigit(*q)) {
          floating = true;
          p_ = q;
          digits();
        }
      }
    }
    if (p_ < end_ && IsIdent(*p_)) {
      while (p_ < end_ && IsIdent(*p_)) ++p_;
      diagnostics_.Report(Diag::bad_number, At(begin, p_), std::string_view(begin, p_));
      return Add(Tok::bad, begin, p_);
    }
    Add(floating ? Tok::floating : Tok::integer, begin, p_);
  }

  void LexString() {
    const char* begin = p_;
    const char quote = *p_;
    if (end_ - p_ >= 3 && p_[1] == quote && p_[2] == quote) {
      for (p_ += 3; p_ < end_; ++p_) {
        if (*p_ == '\\' && p_ + 1 < end_) {
          ++p_;
        } else if (*p_ == quote && end_ - p_ >= 3 && p_[1] == quote && p_[2] == quote) {
          p_ += 3;
          return Add(Tok::string, begin, p_);
        }
      }
      out_.incomplete = true;
      diagnostics_.Report(Diag::unclosed_string, At(begin, begin + 3));
      return Add(Tok::bad, begin, p_);
    }
    for (++p_; p_ < end_ && *p_ != '\n'; ++p_) {
      if (*p_ == '\\' && p_ + 1 < end_ && p_[1] != '\n') {
        ++p_;
      } else if (*p_ == quote) {
        ++p_;
        return Add(Tok::string, begin, p_);
      }
    }
    diagnostics_.Report(Diag::unclosed_string, At(begin, p_));
    Add(Tok::bad, begin, p_);
  }

  void LexPunct(char c) {
    const char* begin = p_;
    const char next = p_ + 1 < end_ ? p_[1] : '\0', third = p_ + 2 < end_ ? p_[2] : '\0';
    size_t best = 1;
    Tok kind = Tok::bad;
    // One sign, the same with =, and for some the sign twice with the same choice.
    const auto with_assign = [&](Tok plain, Tok assign) {
      kind = next == '=' ? assign : plain;
      best = next == '=' ? 2 : 1;
    };
    const auto doubled = [&](Tok plain, Tok assign, Tok twice, Tok twice_assign) {
      if (next != c) return with_assign(plain, assign);
      kind = third == '=' ? twice_assign : twice;
      best = third == '=' ? 3 : 2;
    };
    switch (c) {
      case '(': kind = Tok::lparen; break;
      case ')': kind = Tok::rparen; break;
      case '[': kind = Tok::lbracket; break;
      case ']': kind = Tok::rbracket; break;
      case '{': kind = Tok::lbrace; break;
      case '}': kind = Tok::rbrace; break;
      case ',': kind = Tok::comma; break;
      case ';': kind = Tok::semicolon; break;
      case '~': kind = Tok::tilde; break;
      case ':': with_assign(Tok::colon, Tok::walrus); break;
      case '=': with_assign(Tok::assign, Tok::eq); break;
      case '+': with_assign(Tok::plus, Tok::plus_assign); break;
      case '%': with_assign(Tok::percent, Tok::percent_assign); break;
      case '@': with_assign(Tok::at, Tok::at_assign); break;
      case '&': with_assign(Tok::amp, Tok::amp_assign); break;
      case '|': with_assign(Tok::pipe, Tok::pipe_assign); break;
      case '^': with_assign(Tok::caret, Tok::caret_assign); break;
      case '*': doubled(Tok::star, Tok::star_assign, Tok::star2, Tok::star2_assign); break;
      case '/': doubled(Tok::slash, Tok::slash_assign, Tok::slash2, Tok::slash2_assign); break;
      case '<': doubled(Tok::lt, Tok::le, Tok::shl, Tok::shl_assign); break;
      case '>': doubled(Tok::gt, Tok::ge, Tok::shr, Tok::shr_assign); break;
      case '-':
        with_assign(Tok::minus, Tok::minus_assign);
        if (next == '>') kind = Tok::arrow, best = 2;
        break;
      case '!':
        kind = Tok::ne;
        best = next == '=' ? 2 : 0;
        break;
      case '.':
        kind = next == '.' && third == '.' ? Tok::ellipsis : Tok::dot;
        best = kind == Tok::ellipsis ? 3 : 1;
        break;
      default: best = 0;
    }
    if (best == 0) return Unknown();
    p_ += best;
    switch (kind) {
      case Tok::lparen:
      case Tok::lbracket:
      case Tok::lbrace:
        Add(kind, begin, p_);
        brackets_.push_back(out_.tokens.back());
        return;
      case Tok::rparen:
      case Tok::rbracket:
      case Tok::rbrace: return Close(kind, begin);
      default: Add(kind, begin, p_);
    }
  }

  void Close(Tok kind, const char* begin) {
    const Tok open = static_cast<Tok>(static_cast<int>(kind) - 1);
    if (brackets_.empty()) {
      diagnostics_.Report(Diag::stray_bracket, At(begin, p_), std::string_view(begin, p_));
      return Add(Tok::bad, begin, p_);
    }
    if (brackets_.back().kind != open) {
      Diagnostic& d = diagnostics_.Report(Diag::wrong_bracket, At(begin, p_), std::string_view(begin, p_),
                                          file_.TextOf(Of(brackets_.back())));
      Diagnostics::Note(d, Diag::note_opened_here, Of(brackets_.back()), file_.TextOf(Of(brackets_.back())));
      // Taken for the one that was meant, so that the rest is read as it was.
      kind = static_cast<Tok>(static_cast<int>(brackets_.back().kind) + 1);
    }
    brackets_.pop_back();
    Add(kind, begin, p_);
  }

  void Unknown() {
    const char* begin = p_;
    // All bytes of a letter that is not ASCII at once.
    do ++p_;
    while (p_ < end_ && static_cast<unsigned char>(*p_) >= 0x80 && static_cast<unsigned char>(*begin) >= 0x80);
    const auto c = static_cast<unsigned char>(*begin);
    if (c >= 0x80) {
      diagnostics_.Report(Diag::not_ascii, At(begin, p_), std::string_view(begin, p_));
    } else if (c == '!') {
      diagnostics_.Report(Diag::bang, At(begin, p_)).hint = "write `not x`, or `x != y`";
    } else if (c > 32 && c < 127) {
      diagnostics_.Report(Diag::unknown_character, At(begin, p_), std::string_view(begin, p_));
    } else {
      diagnostics_.Report(Diag::control_character, At(begin, p_), static_cast<int>(c));
    }
    Add(Tok::bad, begin, p_);
  }

  const SourceFile& file_;
  std::string_view text_;
  Diagnostics& diagnostics_;
  const char* p_;
  const char* end_;
  Tokens out_;
  std::vector<int> indents_ = {0};
  std::vector<Token> brackets_;
  bool told_deep_ = false;
};

int HexValue(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

}  // namespace

std::string_view Describe(Tok kind) { return kDescriptions[static_cast<int>(kind)]; }

std::string_view InsteadOf(std::string_view word) {
  static constexpr struct {
    std::string_view text, instead;
  } kReserved[] = {
#define TSR_RESERVED(text, instead) {text, instead},
#include "lang/tokens.def"
  };
  for (const auto& r : kReserved)
    if (r.text == word) return r.instead;
  return {};
}

const std::vector<std::string_view>& Keywords() {
  static const auto* words = new std::vector<std::string_view>{
#define TSR_KEYWORD(name, text) text,
#include "lang/tokens.def"
  };
  return *words;
}

Tokens Lex(const SourceFile& file, Diagnostics& diagnostics) { return Lexer(file, diagnostics).Run(); }

bool UnescapeString(std::string_view token, Span span, Diagnostics& diagnostics, std::string& out) {
  const size_t quotes = token.size() >= 6 && token[1] == token[0] && token[2] == token[0] ? 3 : 1;
  const std::string_view body = token.substr(quotes, token.size() - 2 * quotes);
  bool ok = true;
  out.clear();
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      out += body[i];
      continue;
    }
    const char c = ++i < body.size() ? body[i] : 0;
    switch (c) {
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case 'r': out += '\r'; break;
      case '0': out += '\0'; break;
      case '\\':
      case '\'':
      case '"': out += c; break;
      case '\n': break;
      case 'x':
        if (i + 2 < body.size() && IsHex(body[i + 1]) && IsHex(body[i + 2])) {
          out += static_cast<char>(HexValue(body[i + 1]) * 16 + HexValue(body[i + 2]));
          i += 2;
          break;
        }
        [[fallthrough]];
      default: {
        const auto at = span.begin + static_cast<uint32_t>(quotes + i) - 1;
        diagnostics.Report(Diag::bad_escape, {at, at + 2}, body.substr(i - 1, 2)).hint = "write \\\\ for a backslash";
        ok = false;
      }
    }
  }
  return ok;
}

}  // namespace tessera::lang
