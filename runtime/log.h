// The log of the runtime: lines "tessera: ..." on stderr, or in a sink of the application.
#ifndef TESSERA_RUNTIME_LOG_H_
#define TESSERA_RUNTIME_LOG_H_

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "runtime/options.h"

namespace tessera::rt {

/// Receives each line without "tessera: " and without the newline, one call at a time. It must not log.
using LogSink = std::function<void(int level, std::string_view line)>;
/// An empty sink: stderr again.
void SetLogSink(LogSink sink);

namespace internal {
/// Level 0 lines are warnings: the same text is written once per process, and after 1000 different ones no more.
void LogLine(int level, std::string line);

// Debian's Abseil has a string_view of its own, which StrCat takes in place of the one of std.
template <class T>
decltype(auto) LogPiece(const T& part) {
  if constexpr (std::is_same_v<T, std::string_view>)
    return absl::string_view(part.data(), part.size());
  else
    return (part);
}
}  // namespace internal

}  // namespace tessera::rt

/// TSR_LOG(1, "compiled ", name, " in ", ms, " ms"): the parts are evaluated only if the option debug is at least
/// `level`. Level 0 is for warnings and is always written.
#define TSR_LOG(level, ...)                                                       \
  do {                                                                            \
    if ((level) == 0 || ::tessera::rt::options().debug() >= (level)) [[unlikely]] \
      ::tessera::rt::internal::LogParts((level), __VA_ARGS__);                    \
  } while (0)

namespace tessera::rt::internal {
template <class... Parts>
void LogParts(int level, const Parts&... parts) {
  LogLine(level, absl::StrCat(LogPiece(parts)...));
}
}  // namespace tessera::rt::internal

#endif  // TESSERA_RUNTIME_LOG_H_
