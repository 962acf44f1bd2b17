// Gzip: what is made smaller comes back, by an inflater that is written here from the RFC, and shares no code with it.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tools/trace/gzip.h"

namespace tessera::tools {
namespace {

class Inflater {
 public:
  explicit Inflater(const std::string& in) : in_(in) {}

  /// Nothing where the bytes are no gzip, or are damaged.
  std::optional<std::string> Run() {
    if (in_.size() < 18 || in_.substr(0, 3) != "\x1f\x8b\x08") return std::nullopt;
    at_ = 10 * 8;
    for (bool last = false; !last;) {
      last = Bits(1) == 1;
      if (Bits(2) != 2 || !Block()) return std::nullopt;  // blocks with codes of their own are all that is written
    }
    const size_t end = (at_ + 7) / 8;
    if (end + 8 != in_.size()) return std::nullopt;
    uint32_t size = 0;
    for (size_t i = 0; i < 4; ++i) size |= uint32_t{static_cast<uint8_t>(in_[end + 4 + i])} << (8 * i);
    return size == out_.size() ? std::optional(out_) : std::nullopt;
  }

 private:
  uint32_t Bits(int n) {
    uint32_t value = 0;
    for (int i = 0; i < n; ++i, ++at_) {
      if (at_ / 8 >= in_.size()) return 0;
      value |= static_cast<uint32_t>(static_cast<uint8_t>(in_[at_ / 8]) >> (at_ % 8) & 1) << i;
    }
    return value;
  }
  // One bit after the other: the codes of each length are numbers in a row.
  int Symbol(const std::vector<int>& lengths) {
    int code = 0, first = 0;
    for (int bits = 1; bits <= 15; ++bits) {
      code |= static_cast<int>(Bits(1));
      int count = 0;
      for (const int n : lengths) count += n == bits;
      if (code - first < count) {
        for (size_t s = 0; s < lengths.size(); ++s)
          if (lengths[s] == bits && code - first == 0)
            return static_cast<int>(s);
          else if (lengths[s] == bits)
            ++first;
      }
      first = (first + count) << 1;
      code <<= 1;
    }
    return -1;
  }
  bool Block() {
    const int literals = static_cast<int>(Bits(5)) + 257, distances = static_cast<int>(Bits(5)) + 1;
    const int given = static_cast<int>(Bits(4)) + 4;
    constexpr int kOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    std::vector<int> of_lengths(19), lengths;
    for (int i = 0; i < given; ++i) of_lengths[static_cast<size_t>(kOrder[i])] = static_cast<int>(Bits(3));
    while (static_cast<int>(lengths.size()) < literals + distances) {
      const int symbol = Symbol(of_lengths);
      if (symbol < 0 || symbol > 15) return false;  // runs are not written
      lengths.push_back(symbol);
    }
    const std::vector<int> literal(lengths.begin(), lengths.begin() + literals),
        distance(lengths.begin() + literals, lengths.end());
    for (;;) {
      const int symbol = Symbol(literal);
      if (symbol == 256) return true;
      if (symbol < 0 || symbol > 285) return false;
      if (symbol < 256) {
        out_ += static_cast<char>(symbol);
        continue;
      }
      int length = 258;
      if (symbol < 265) {
        length = symbol - 254;
      } else if (symbol < 285) {
        const int extra = (symbol - 261) / 4;
        length = ((4 + (symbol - 265) % 4) << extra) + 3 + static_cast<int>(Bits(extra));
      }
      const int far = Symbol(distance);
      if (far < 0 || far > 29) return false;
      size_t back = static_cast<size_t>(far) + 1;
      if (far > 3) {
        const int extra = far / 2 - 1;
        back = (static_cast<size_t>(2 + far % 2) << extra) + 1 + Bits(extra);
      }
      if (back > out_.size()) return false;
      for (int i = 0; i < length; ++i) out_ += out_[out_.size() - back];
    }
  }

  const std::string& in_;
  size_t at_ = 0;  // in bits
  std::string out_;
};

std::string Random(size_t n, int kinds, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text;
  for (size_t i = 0; i < n; ++i) text += static_cast<char>(random() % static_cast<uint32_t>(kinds));
  return text;
}

TEST(ToolsTraceGzip, WhatGoesInComesOut) {
  std::string counting;
  for (int i = 0; i < 3000; ++i) counting += "packet " + std::to_string(i * i) + "; ";
  std::string skewed;  // codes of more than 15 bits, if nobody looks after them
  for (int i = 0, a = 1, b = 1; i < 22; ++i, b += a, a = b - a)
    skewed += std::string(static_cast<size_t>(a), static_cast<char>(i * 7));
  const std::string far = Random(200, 256, 7) + std::string(40'000, 'x') + Random(200, 256, 7);
  for (const std::string& text :
       {std::string(), std::string("a"), std::string("abc"), std::string(100'000, '\0'), counting, skewed, far,
        Random(5000, 256, 1), Random(20'000, 3, 2), Random(80'000, 2, 3)}) {
    const std::string small = Gzip(text);
    const auto back = Inflater(small).Run();
    ASSERT_TRUE(back.has_value()) << text.size();
    EXPECT_EQ(*back, text);
  }
  EXPECT_LT(Gzip(counting).size(), counting.size() / 2);
  EXPECT_LT(Gzip(std::string(100'000, '\0')).size(), 1000u);
}

}  // namespace
}  // namespace tessera::tools
