#include "tools/trace/gzip.h"

#include <algorithm>

#ifdef TESSERA_ZLIB
#include <zlib.h>

namespace tessera::tools {

std::string Gzip(std::string_view bytes) {
  z_stream stream = {};
  constexpr int kGzip = 16 + MAX_WBITS;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return std::string(bytes);
  std::string out;
  std::string_view left = bytes;
  int result = Z_OK;
  while (result == Z_OK) {
    char buffer[1 << 16];
    const size_t some = std::min<size_t>(left.size(), 1 << 30);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(left.data()));
    stream.avail_in = static_cast<uInt>(some);
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof buffer;
    result = deflate(&stream, some == left.size() ? Z_FINISH : Z_NO_FLUSH);
    out.append(buffer, sizeof buffer - stream.avail_out);
    left.remove_prefix(some - stream.avail_in);
  }
  deflateEnd(&stream);
  return result == Z_STREAM_END ? out : std::string(bytes);
}

}  // namespace tessera::tools

#else

namespace tessera::tools {

std::string Gzip(std::string_view bytes) { return std::string(bytes); }

}  // namespace tessera::tools

#endif
