// Bytes made smaller by zlib, in the form of gzip: viewers of traces read it as it is.
#ifndef TESSERA_TOOLS_TRACE_GZIP_H_
#define TESSERA_TOOLS_TRACE_GZIP_H_

#include <string>
#include <string_view>

namespace tessera::tools {

/// Without zlib in the build, and without memory, the bytes as they are: viewers read these,
/// too.
std::string Gzip(std::string_view bytes);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_GZIP_H_
