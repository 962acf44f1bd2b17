// Status inside Tessera is absl::Status; this header adds the few macros and makers that Debian's Abseil lacks,
// and the bridge to the public tessera::Status.
#ifndef TESSERA_RUNTIME_STATUS_H_
#define TESSERA_RUNTIME_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tessera/status.h"

#define TSR_CONCAT_INNER(a, b) a##b
#define TSR_CONCAT(a, b) TSR_CONCAT_INNER(a, b)

/// Returns from the enclosing function when `expr` is not ok.
#define TSR_RETURN_IF_ERROR(expr)                                        \
  do {                                                                   \
    if (absl::Status tsr_status = (expr); !tsr_status.ok()) [[unlikely]] \
      return tsr_status;                                                 \
  } while (0)

/// TSR_ASSIGN_OR_RETURN(auto x, MakeX());
#define TSR_ASSIGN_OR_RETURN(lhs, expr) TSR_ASSIGN_OR_RETURN_INNER(TSR_CONCAT(tsr_or_, __LINE__), lhs, expr)
#define TSR_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) [[unlikely]]                      \
    return std::move(tmp).status();                \
  lhs = *std::move(tmp)

namespace tessera {

template <class... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}
template <class... Parts>
absl::Status NotFound(const Parts&... parts) {
  return absl::NotFoundError(absl::StrCat(parts...));
}
template <class... Parts>
absl::Status OutOfRange(const Parts&... parts) {
  return absl::OutOfRangeError(absl::StrCat(parts...));
}
template <class... Parts>
absl::Status ResourceExhausted(const Parts&... parts) {
  return absl::ResourceExhaustedError(absl::StrCat(parts...));
}
template <class... Parts>
absl::Status Unsupported(const Parts&... parts) {
  return absl::UnimplementedError(absl::StrCat(parts...));
}
template <class... Parts>
absl::Status DataLoss(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat(parts...));
}
template <class... Parts>
absl::Status Internal(const Parts&... parts) {
  return absl::InternalError(absl::StrCat(parts...));
}

/// The same failure with `prefix` before its message.
absl::Status Annotate(const absl::Status& status, std::string_view prefix);

Status ToPublic(const absl::Status& status);
absl::Status FromPublic(const Status& status);

}  // namespace tessera

#endif  // TESSERA_RUNTIME_STATUS_H_
