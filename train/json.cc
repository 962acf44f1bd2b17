#include "train/json.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <unordered_set>

namespace tessera::train {

namespace {

constexpr int kMostDepth = 16;

class Parser {
 public:
  explicit Parser(std::string_view text) : all_(text), text_(text) {}

  bool Run(Json* out) {
    if (!Value(out, 0)) return false;
    Skip();
    return text_.empty() || Fail("something follows the end");
  }
  std::string error() const { return error_; }

 private:
  bool Fail(const char* what) {
    if (error_.empty()) error_ = "at byte " + std::to_string(all_.size() - text_.size()) + ": " + what;
    return false;
  }
  void Skip() {
    while (!text_.empty() && std::string_view(" \t\r\n").find(text_[0]) != std::string_view::npos)
      text_.remove_prefix(1);
  }
  bool Accept(char c) {
    Skip();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool Word(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  bool Value(Json* out, int depth) {
    if (depth > kMostDepth) return Fail("nested too deeply");
    Skip();
    if (text_.empty()) return Fail("it ends where a value belongs");
    switch (text_[0]) {
      case '{': return Object(out, depth);
      case '[': return Array(out, depth);
      case '"': out->kind = Json::Kind::string; return String(&out->string);
      case 't':
      case 'f':
        out->kind = Json::Kind::boolean;
        out->integer = text_[0] == 't';
        return Word("true") || Word("false") || Fail("a value that is none");
      case 'n': return Word("null") || Fail("a value that is none");
      default: return Number(out);
    }
  }
  bool Object(Json* out, int depth) {
    out->kind = Json::Kind::object;
    std::unordered_set<std::string> seen;
    Accept('{');
    if (Accept('}')) return true;
    for (;;) {
      Skip();
      std::string key;
      if (text_.empty() || text_[0] != '"') return Fail("no key where one belongs");
      if (!String(&key)) return false;
      if (!seen.insert(key).second) return Fail("a key that was there before");
      if (!Accept(':')) return Fail("no ':' after a key");
      out->keys.push_back(std::move(key));
      if (!Value(&out->items.emplace_back(), depth + 1)) return false;
      if (Accept('}')) return true;
      if (!Accept(',')) return Fail("neither ',' nor '}' after a member");
    }
  }
  bool Array(Json* out, int depth) {
    out->kind = Json::Kind::array;
    Accept('[');
    if (Accept(']')) return true;
    for (;;) {
      if (!Value(&out->items.emplace_back(), depth + 1)) return false;
      if (Accept(']')) return true;
      if (!Accept(',')) return Fail("neither ',' nor ']' after an item");
    }
  }
  bool Number(Json* out) {
    const char *begin = text_.data(), *end = begin + text_.size();
    // from_chars also takes "inf" and "nan", which JSON has not.
    if (*begin != '-' && (*begin < '0' || *begin > '9')) return Fail("a value that is none");
    const auto whole = std::from_chars(begin, end, out->integer);
    const auto real = std::from_chars(begin, end, out->number);
    if (real.ec != std::errc() || !std::isfinite(out->number)) return Fail("a number that is none");
    out->kind = whole.ec == std::errc() && whole.ptr == real.ptr ? Json::Kind::integer : Json::Kind::number;
    text_.remove_prefix(static_cast<size_t>(real.ptr - begin));
    return true;
  }
  bool Hex4(uint32_t* code) {
    if (text_.size() < 4) return Fail("an escape that ends early");
    const auto [end, ec] = std::from_chars(text_.data(), text_.data() + 4, *code, 16);
    if (ec != std::errc() || end != text_.data() + 4) return Fail("an escape that is none");
    text_.remove_prefix(4);
    return true;
  }
  bool String(std::string* out) {
    text_.remove_prefix(1);
    while (!text_.empty()) {
      const char c = text_[0];
      text_.remove_prefix(1);
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return Fail("a control character in a string");
      if (c != '\\') {
        *out += c;
        continue;
      }
      if (text_.empty()) break;
      const char e = text_[0];
      text_.remove_prefix(1);
      static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
      if (const size_t i = kFrom.find(e); i != std::string_view::npos) {
        *out += kTo[i];
        continue;
      }
      uint32_t code = 0, low = 0;
      if (e != 'u') return Fail("an escape that is none");
      if (!Hex4(&code)) return false;
      if (code >= 0xd800 && code < 0xdc00) {
        if (!Word("\\u")) return Fail("half of a pair of surrogates");
        if (!Hex4(&low)) return false;
        if (low < 0xdc00 || low > 0xdfff) return Fail("half of a pair of surrogates");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      } else if (code >= 0xdc00 && code < 0xe000) {
        return Fail("half of a pair of surrogates");
      }
      AppendUtf8(code, out);
    }
    return Fail("a string without end");
  }
  static void AppendUtf8(uint32_t code, std::string* out) {
    const auto tail = [&](int shift) { *out += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
    if (code < 0x80) {
      *out += static_cast<char>(code);
    } else if (code < 0x800) {
      *out += static_cast<char>(0xc0 | (code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      *out += static_cast<char>(0xe0 | (code >> 12));
      tail(6), tail(0);
    } else {
      *out += static_cast<char>(0xf0 | (code >> 18));
      tail(12), tail(6), tail(0);
    }
  }

  std::string_view all_, text_;
  std::string error_;
};

}  // namespace

const Json* Json::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i)
    if (keys[i] == key) return &items[i];
  return nullptr;
}

Result<Json> ParseJson(std::string_view text) {
  Parser parser(text);
  Json json;
  if (!parser.Run(&json)) return Status(Code::data_loss, "not JSON, " + parser.error());
  return json;
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned char>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace tessera::train
