#include "runtime/status.h"

#include <string>

namespace tessera {

// Here, so that the type information of Error has one home and a throw can be caught across shared libraries.
Error::~Error() = default;

namespace {

struct CodePair {
  Code ours;
  absl::StatusCode theirs;
};
constexpr CodePair kCodes[] = {
    {Code::ok, absl::StatusCode::kOk},
    {Code::invalid_argument, absl::StatusCode::kInvalidArgument},
    {Code::not_found, absl::StatusCode::kNotFound},
    {Code::out_of_range, absl::StatusCode::kOutOfRange},
    {Code::resource_exhausted, absl::StatusCode::kResourceExhausted},
    {Code::unsupported, absl::StatusCode::kUnimplemented},
    {Code::data_loss, absl::StatusCode::kDataLoss},
    {Code::internal, absl::StatusCode::kInternal},
    {Code::cancelled, absl::StatusCode::kCancelled},
};

}  // namespace

absl::Status Annotate(const absl::Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(absl::string_view(prefix.data(), prefix.size()), status.message()));
}

Status ToPublic(const absl::Status& status) {
  if (status.ok()) return Status();
  for (const CodePair& pair : kCodes)
    if (pair.theirs == status.code()) return Status(pair.ours, std::string(status.message()));
  return Status(Code::internal, std::string(status.message()));
}

absl::Status FromPublic(const Status& status) {
  for (const CodePair& pair : kCodes)
    if (pair.ours == status.code()) return absl::Status(pair.theirs, status.message());
  return absl::InternalError(status.message());
}

}  // namespace tessera
