// Deflate (RFC 1951): repeated stretches are found by a table of where four bytes stood last, and written with codes
// that are made anew for each block from how often its symbols occur.
#include "tools/trace/gzip.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tessera::tools {
namespace {

constexpr size_t kWindow = 32768, kShortest = 4, kLongest = 258;
constexpr int kEndOfBlock = 256, kLiterals = 286, kDistances = 30;
constexpr size_t kBlockTokens = 1 << 16;

class BitWriter {
 public:
  explicit BitWriter(std::string* out) : out_(*out) {}
  void Put(uint32_t value, int bits) {
    held_ |= static_cast<uint64_t>(value) << count_;
    for (count_ += bits; count_ >= 8; count_ -= 8, held_ >>= 8) out_ += static_cast<char>(held_);
  }
  void Flush() {
    if (count_ > 0) out_ += static_cast<char>(held_);
    held_ = 0;
    count_ = 0;
  }

 private:
  std::string& out_;
  uint64_t held_ = 0;
  int count_ = 0;
};

/// A symbol with the extra bits that follow it.
struct Coded {
  int symbol, bits;
  uint32_t extra;
};
Coded LengthCode(size_t length) {
  if (length == kLongest) return {285, 0, 0};
  const auto n = static_cast<uint32_t>(length - 3);
  if (n < 8) return {257 + static_cast<int>(n), 0, 0};
  const int bits = 29 - __builtin_clz(n);  // of n: its three upper bits say the symbol
  return {257 + 4 * bits + 4 + static_cast<int>((n >> bits) & 3), bits, n & ((1u << bits) - 1)};
}
Coded DistanceCode(size_t distance) {
  const auto n = static_cast<uint32_t>(distance - 1);
  if (n < 4) return {static_cast<int>(n), 0, 0};
  const int bits = 30 - __builtin_clz(n);
  return {2 * bits + 2 + static_cast<int>((n >> bits) & 1), bits, n & ((1u << bits) - 1)};
}

/// Prefix codes of symbols, none longer than `most` bits.
struct Codes {
  std::vector<uint8_t> lengths;
  std::vector<uint16_t> codes;  // with their bits reversed, as they are written

  Codes(std::vector<uint32_t> counts, int most) : lengths(counts.size()), codes(counts.size()) {
    // Where a code would be too long, rare symbols are counted as less rare.
    while (!Measure(counts, most))
      for (uint32_t& n : counts)
        if (n > 0) n = n / 2 + 1;
    Assign();
  }

 private:
  // Huffman's: the two rarest become one. False where a code would have more than `most` bits.
  bool Measure(const std::vector<uint32_t>& counts, int most) {
    struct Node {
      uint64_t count;
      int parent;
    };
    std::fill(lengths.begin(), lengths.end(), uint8_t{0});
    std::vector<int> symbols;
    for (size_t s = 0; s < counts.size(); ++s)
      if (counts[s] > 0) symbols.push_back(static_cast<int>(s));
    // A code of one symbol has one bit all the same.
    if (symbols.size() <= 1) {
      if (!symbols.empty()) lengths[static_cast<size_t>(symbols[0])] = 1;
      return true;
    }
    std::sort(symbols.begin(), symbols.end(), [&](int x, int y) {
      const uint32_t a = counts[static_cast<size_t>(x)], b = counts[static_cast<size_t>(y)];
      return a != b ? a < b : x < y;
    });
    std::vector<Node> nodes;
    for (const int s : symbols) nodes.push_back({counts[static_cast<size_t>(s)], -1});
    // Leaves come by count, and so do the nodes that are made of them: the rarest is at one of two fronts.
    size_t leaf = 0, made = symbols.size();
    const size_t leaves = symbols.size();
    const auto rarest = [&] {
      return leaf < leaves && (made >= nodes.size() || nodes[leaf].count <= nodes[made].count) ? leaf++ : made++;
    };
    while (nodes.size() < 2 * leaves - 1) {
      const size_t x = rarest(), y = rarest();
      nodes[x].parent = nodes[y].parent = static_cast<int>(nodes.size());
      nodes.push_back({nodes[x].count + nodes[y].count, -1});
    }
    std::vector<int> depth(nodes.size());
    for (size_t i = nodes.size() - 1; i-- > 0;) depth[i] = depth[static_cast<size_t>(nodes[i].parent)] + 1;
    for (size_t i = 0; i < leaves; ++i) {
      if (depth[i] > most) return false;
      lengths[static_cast<size_t>(symbols[i])] = static_cast<uint8_t>(depth[i]);
    }
    return true;
  }

  void Assign() {
    uint32_t next = 0;
    for (int bits = 1; bits <= 15; ++bits, next <<= 1) {
      for (size_t s = 0; s < lengths.size(); ++s) {
        if (lengths[s] != bits) continue;
        uint32_t reversed = 0;
        for (int i = 0; i < bits; ++i) reversed |= (next >> i & 1) << (bits - 1 - i);
        codes[s] = static_cast<uint16_t>(reversed);
        ++next;
      }
    }
  }
};

/// A literal (distance 0, length is the byte) or a copy.
struct Token {
  uint16_t length, distance;
};

void WriteBlock(const std::vector<Token>& tokens, bool last, BitWriter* out) {
  std::vector<uint32_t> literals(kLiterals), distances(kDistances);
  literals[kEndOfBlock] = 1;
  for (const Token& t : tokens) {
    ++literals[t.distance == 0 ? t.length : static_cast<size_t>(LengthCode(t.length).symbol)];
    if (t.distance != 0) ++distances[static_cast<size_t>(DistanceCode(t.distance).symbol)];
  }
  const Codes literal(literals, 15), distance(distances, 15);
  // The lengths of both codes, with codes of their own; runs are not shortened, which costs some bytes for each block.
  std::vector<uint32_t> counts(19);
  for (const uint8_t n : literal.lengths) ++counts[n];
  for (const uint8_t n : distance.lengths) ++counts[n];
  const Codes lengths(counts, 7);
  constexpr std::array<uint8_t, 19> kOrder = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  out->Put(last ? 1 : 0, 1);
  out->Put(2, 2);
  out->Put(kLiterals - 257, 5);
  out->Put(kDistances - 1, 5);
  out->Put(19 - 4, 4);
  for (const uint8_t s : kOrder) out->Put(lengths.lengths[s], 3);
  for (const Codes* codes : {&literal, &distance})
    for (const uint8_t n : codes->lengths) out->Put(lengths.codes[n], lengths.lengths[n]);
  const auto put = [&](const Codes& codes, int symbol) {
    out->Put(codes.codes[static_cast<size_t>(symbol)], codes.lengths[static_cast<size_t>(symbol)]);
  };
  for (const Token& t : tokens) {
    if (t.distance == 0) {
      put(literal, t.length);
      continue;
    }
    const Coded l = LengthCode(t.length), d = DistanceCode(t.distance);
    put(literal, l.symbol);
    out->Put(l.extra, l.bits);
    put(distance, d.symbol);
    out->Put(d.extra, d.bits);
  }
  put(literal, kEndOfBlock);
}

uint32_t Crc(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t;
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
      t[i] = c;
    }
    return t;
  }();
  uint32_t crc = 0xffffffffu;
  for (const char c : bytes) crc = table[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  return crc ^ 0xffffffffu;
}

}  // namespace

std::string Gzip(std::string_view bytes) {
  std::string out("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  BitWriter bits(&out);
  constexpr int kHashBits = 15, kMostTries = 12;
  // Where four bytes with that hash stood last, and before that; one more than the place, 0: nowhere.
  std::vector<uint32_t> last(size_t{1} << kHashBits), before(kWindow);
  std::vector<Token> tokens;
  const auto word = [&](size_t at) {
    uint32_t w;
    std::memcpy(&w, bytes.data() + at, 4);
    return w;
  };
  const auto enter = [&](size_t at) {
    uint32_t& place = last[(word(at) * 2654435761u) >> (32 - kHashBits)];
    before[at % kWindow] = place;
    place = static_cast<uint32_t>(at) + 1;
  };
  // Places are of 32 bits; only differences within the window are looked at, so it does not matter that they wrap.
  for (size_t at = 0; at < bytes.size();) {
    size_t length = 0, distance = 0;
    if (at + kShortest <= bytes.size()) {
      const size_t most = std::min(kLongest, bytes.size() - at);
      enter(at);
      uint32_t place = before[at % kWindow];
      for (int tries = 0; place != 0 && tries < kMostTries && length < most; ++tries) {
        const size_t far = static_cast<uint32_t>(static_cast<uint32_t>(at) + 1 - place);
        if (far == 0 || far >= kWindow || far > at || far <= distance) break;
        if (word(at - far) == word(at)) {
          size_t n = kShortest;
          while (n < most && bytes[at - far + n] == bytes[at + n]) ++n;
          if (n > length) {
            length = n;
            distance = far;
          }
        }
        place = before[(at - far) % kWindow];
      }
    }
    if (length >= kShortest) {
      tokens.push_back({static_cast<uint16_t>(length), static_cast<uint16_t>(distance)});
      for (size_t i = at + 1; i < at + length && i + kShortest <= bytes.size(); ++i) enter(i);
      at += length;
    } else {
      tokens.push_back({static_cast<uint8_t>(bytes[at]), 0});
      ++at;
    }
    if (tokens.size() == kBlockTokens) {
      WriteBlock(tokens, false, &bits);
      tokens.clear();
    }
  }
  WriteBlock(tokens, true, &bits);
  bits.Flush();
  const uint32_t crc = Crc(bytes), size = static_cast<uint32_t>(bytes.size());
  for (const uint32_t n : {crc, size})
    for (int i = 0; i < 32; i += 8) out += static_cast<char>(n >> i);
  return out;
}

}  // namespace tessera::tools
