// Bytes made smaller, in the form of RFC 1952: viewers of traces read it as it is.
#ifndef TESSERA_TOOLS_TRACE_GZIP_H_
#define TESSERA_TOOLS_TRACE_GZIP_H_

#include <string>
#include <string_view>

namespace tessera::tools {

/// Fast rather than small: for what repeats itself, such as packets of a trace. Traces are no text of a language.
std::string Gzip(std::string_view bytes);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_GZIP_H_
