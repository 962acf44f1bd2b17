// Joining pieces of text. (The distribution's Abseil has a string_view of its own, so absl::StrCat takes no std one.)
#ifndef TESSERA_LANG_TEXT_H_
#define TESSERA_LANG_TEXT_H_

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>

namespace tessera::lang {

inline void AppendPiece(std::string& out, std::string_view piece) { out += piece; }
template <std::integral T>
  requires(!std::same_as<T, char> && !std::same_as<T, bool>)
void AppendPiece(std::string& out, T number) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

template <class... T>
void Append(std::string& out, const T&... pieces) {
  (AppendPiece(out, pieces), ...);
}
template <class... T>
std::string Cat(const T&... pieces) {
  std::string out;
  Append(out, pieces...);
  return out;
}

/// "1 argument", "2 arguments"
inline std::string CountOf(size_t n, std::string_view what) { return Cat(n, " ", what, n == 1 ? "" : "s"); }

}  // namespace tessera::lang

#endif  // TESSERA_LANG_TEXT_H_
