// Whole files, read and written with clear errors.
#ifndef TESSERA_RUNTIME_FILE_H_
#define TESSERA_RUNTIME_FILE_H_

#include <string>
#include <string_view>

#include "runtime/status.h"

namespace tessera::rt {

absl::StatusOr<std::string> ReadFile(const std::string& path);
/// Writes to a temporary file beside `path`, syncs it and renames it: afterwards `path` holds all of `parts` in order,
/// or what it held before. `mode`: the permissions of the file, less those that the process masks out.
absl::Status WriteFile(const std::string& path, std::initializer_list<std::string_view> parts, unsigned mode = 0666);

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_FILE_H_
