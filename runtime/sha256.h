// SHA-256 (FIPS 180-4), in plain C++: slow beside the instructions some processors have for it, fast beside a compile.
#ifndef TESSERA_RUNTIME_SHA256_H_
#define TESSERA_RUNTIME_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::rt {

/// Sha256 h; h.Update(a); h.Update(b); h.Finish(): the digest of a followed by b. Never fails, allocates nothing.
class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  void Update(std::string_view bytes);
  /// Once; nothing may follow.
  Digest Finish();

  static Digest Of(std::string_view bytes);

 private:
  void Block(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> partial_ = {};
  uint64_t bytes_ = 0;  // so far; the last bytes_ % 64 of them wait in partial_
};

/// 64 lower-case hexadecimal digits.
std::string Hex(const Sha256::Digest& digest);

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_SHA256_H_
