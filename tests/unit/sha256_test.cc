// SHA-256: the vectors of NIST, every way to cut the input, and Python's hashlib.
#include "runtime/sha256.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "temp_folder.h"

namespace tessera::rt {
namespace {

std::string HexOf(std::string_view bytes) { return Hex(Sha256::Of(bytes)); }

std::string RandomBytes(std::mt19937_64& rng, size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(rng());
  return bytes;
}

// FIPS 180-4 examples and the vectors SHA256ShortMsg of the Cryptographic Algorithm Validation Program.
TEST(Sha256Test, NistVectors) {
  EXPECT_EQ(HexOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexOf("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(
      HexOf("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrst"
            "nopqrstu"),
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(HexOf("\xd3"), "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1");
  EXPECT_EQ(HexOf("\x11\xaf"), "5ca7133fa735326081558ac312c620eeca9970d1e70a4b95533d956f072d1f98");
  EXPECT_EQ(HexOf("\xb4\x19\x0e"), "dff2e73091f6c05e528896c4c831b9448653dc2ff043528f6769437bc7b975c2");
  EXPECT_EQ(HexOf("\x74\xba\x25\x21"), "b16aa56be3880d18cd41e68384cf1ec8c17680c45a02b1575dc1518923ae8b0e");
  EXPECT_EQ(HexOf(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Lengths around the block and around what the padding needs, cut at every place.
TEST(Sha256Test, PartsGiveTheSameAsTheWhole) {
  std::mt19937_64 rng(1);
  for (size_t size = 0; size <= 200; ++size) {
    const std::string bytes = RandomBytes(rng, size);
    const std::string_view all = bytes;
    const Sha256::Digest whole = Sha256::Of(all);
    for (size_t cut = 0; cut <= size; ++cut) {
      Sha256 hash;
      hash.Update(all.substr(0, cut));
      hash.Update("");
      hash.Update(all.substr(cut));
      ASSERT_EQ(hash.Finish(), whole) << size << " cut at " << cut;
    }
    Sha256 hash;
    for (char c : bytes) hash.Update({&c, 1});
    ASSERT_EQ(hash.Finish(), whole) << size;
  }
}

TEST(Sha256Test, AgreesWithPython) {
  if (std::system("python3 -c 'import hashlib' >/dev/null 2>&1") != 0) GTEST_SKIP() << "python3 is not there";
  const TempFolder folder;
  std::mt19937_64 rng(2);
  std::vector<std::string> ours;
  {
    std::ofstream blob(folder.path() / "blob", std::ios::binary), sizes(folder.path() / "sizes");
    for (int i = 0; i < 300; ++i) {
      const size_t size = i < 150 ? static_cast<size_t>(i) : rng() % 20000;
      const std::string bytes = RandomBytes(rng, size);
      blob << bytes;
      sizes << size << "\n";
      ours.push_back(HexOf(bytes));
    }
  }
  const std::string command = "cd '" + folder.path().string() +
                              "' && python3 -c 'import hashlib\n"
                              "b = open(\"blob\", \"rb\")\n"
                              "for n in open(\"sizes\"): print(hashlib.sha256(b.read(int(n))).hexdigest())' >digests";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::ifstream digests(folder.path() / "digests");
  std::string line;
  size_t i = 0;
  for (; std::getline(digests, line); ++i) {
    ASSERT_LT(i, ours.size());
    EXPECT_EQ(line, ours[i]) << i;
  }
  EXPECT_EQ(i, ours.size());
}

}  // namespace
}  // namespace tessera::rt
