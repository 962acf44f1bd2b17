// How a trace file is written in bytes: integers of seven bits a byte, strings with their length, blocks with a
// checksum. The rows of a file say their fields once (format.h); a Writer and a Reader go over them.
#ifndef TESSERA_RUNTIME_TRACE_CODING_H_
#define TESSERA_RUNTIME_TRACE_CODING_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::rt::trace {

inline void PutUnsigned(std::string* out, uint64_t v) {
  char bytes[10];
  int n = 0;
  for (; v >= 0x80; v >>= 7) bytes[n++] = static_cast<char>(v | 0x80);
  bytes[n++] = static_cast<char>(v);
  out->append(bytes, static_cast<size_t>(n));
}
/// Small numbers of either sign are short.
inline uint64_t ZigZag(int64_t v) { return (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63); }
inline int64_t UnZigZag(uint64_t v) { return static_cast<int64_t>((v >> 1) ^ (~(v & 1) + 1)); }
inline void PutSigned(std::string* out, int64_t v) { PutUnsigned(out, ZigZag(v)); }

/// Reads what the functions above wrote, from any bytes: past the end or where the bytes make no sense everything is 0
/// or empty, and ok() is false from then on.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  uint64_t Unsigned() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64 && at_ != end_; shift += 7) {
      const auto byte = static_cast<uint8_t>(*at_++);
      v |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        // The tenth byte holds one bit.
        if (shift == 63 && byte > 1) break;
        return v;
      }
    }
    Fail();
    return 0;
  }
  int64_t Signed() { return UnZigZag(Unsigned()); }
  std::string_view Bytes() {
    const uint64_t n = Unsigned();
    if (n > left()) {
      Fail();
      return {};
    }
    const std::string_view bytes(at_, n);
    at_ += n;
    return bytes;
  }
  void Fail() {
    ok_ = false;
    at_ = end_;
  }
  bool ok() const { return ok_; }
  uint64_t left() const { return static_cast<uint64_t>(end_ - at_); }

 private:
  const char* at_;
  const char* end_;
  bool ok_ = true;
};

/// 64 bits that tell damage, not malice.
inline uint64_t Checksum(std::string_view bytes, uint64_t seed = 0) {
  constexpr uint64_t kPrime = 0x9e3779b97f4a7c15ull;
  uint64_t h = seed ^ (bytes.size() * kPrime);
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    h = (h ^ word) * kPrime;
    h ^= h >> 29;
  }
  for (; i < bytes.size(); ++i) h = (h ^ static_cast<uint8_t>(bytes[i])) * kPrime;
  h ^= h >> 32;
  return h * kPrime;
}

/// What a redacted file has in place of names: the same token for the same name, and another one in another file.
using Token = std::string (*)(std::string_view name);

/// Writes the fields of a row. Names and texts tell of the program; a redacted file has tokens in place of names, and
/// no texts.
class RowWriter {
 public:
  RowWriter(std::string* out, Token redact) : out_(out), redact_(redact) {}
  void operator()(int64_t& v) { PutSigned(out_, v); }
  void operator()(std::string& text) { Put(text); }
  void Name(std::string& text) { redact_ == nullptr || text.empty() ? Put(text) : Put(redact_(text)); }
  void Text(std::string& text) { Put(redact_ == nullptr ? text : ""); }
  /// A number that tells of shapes.
  void Size(int64_t& v) { PutSigned(out_, redact_ == nullptr ? v : 0); }
  template <class Row>
  void Rows(std::vector<Row>& rows) {
    PutUnsigned(out_, rows.size());
    for (Row& row : rows) row.Fields(*this);
  }
  void Numbers(std::vector<int64_t>& numbers) {
    PutUnsigned(out_, numbers.size());
    for (const int64_t v : numbers) PutSigned(out_, v);
  }

 private:
  void Put(std::string_view text) {
    PutUnsigned(out_, text.size());
    out_->append(text);
  }
  std::string* out_;
  Token redact_;
};

/// Reads them back.
class RowReader {
 public:
  explicit RowReader(Cursor* in) : in_(*in) {}
  void operator()(int64_t& v) { v = in_.Signed(); }
  void operator()(std::string& text) { text = in_.Bytes(); }
  void Name(std::string& text) { text = in_.Bytes(); }
  void Text(std::string& text) { text = in_.Bytes(); }
  void Size(int64_t& v) { v = in_.Signed(); }
  template <class Row>
  void Rows(std::vector<Row>& rows) {
    // Each has at least one byte: a count beyond what is left is damage, and asks for no memory.
    const uint64_t n = Count();
    for (uint64_t i = 0; i < n && in_.ok(); ++i) {
      rows.emplace_back();
      rows.back().Fields(*this);
    }
  }
  void Numbers(std::vector<int64_t>& numbers) {
    numbers.resize(Count());
    for (int64_t& v : numbers) v = in_.Signed();
  }

 private:
  uint64_t Count() {
    const uint64_t n = in_.Unsigned();
    if (n <= in_.left()) return n;
    in_.Fail();
    return 0;
  }
  Cursor& in_;
};

}  // namespace tessera::rt::trace

#endif  // TESSERA_RUNTIME_TRACE_CODING_H_
