// What Gzip makes smaller, zlib's own inflate gives back. That Python's gzip and Perfetto's form agree is in
// trace_test.py.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tools/trace/gzip.h"

#ifdef TESSERA_ZLIB
#include <zlib.h>

namespace tessera::tools {
namespace {

std::string Back(const std::string& packed, size_t size) {
  std::string out(size + 1, 'x');
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  inflateEnd(&stream);
  return out;
}

TEST(ToolsTraceGzip, ComesBack) {
  std::mt19937 random(3);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65535}, size_t{65536}, size_t{300'001}}) {
    std::string noise(size, 0), same(size, 'a');
    for (char& c : noise) c = static_cast<char>(random());
    EXPECT_EQ(Back(Gzip(noise), size), noise);
    EXPECT_EQ(Back(Gzip(same), size), same);
    if (size > 1000) {
      EXPECT_LT(Gzip(same).size(), size / 100);
    }
  }
}

}  // namespace
}  // namespace tessera::tools
#endif
