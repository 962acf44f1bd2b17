// A file that grows by blocks, for its owner alone.
#ifndef TESSERA_RUNTIME_TRACE_FILE_H_
#define TESSERA_RUNTIME_TRACE_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/status.h"
#include "runtime/trace/format.h"

namespace tessera::rt::trace {

/// The header and bytes of a block, appended to `out`.
void AppendBlock(std::string* out, BlockKind kind, uint32_t rows, std::string_view bytes);
/// The header of a file.
std::string HeaderBytes(bool redacted);

class BlockFile {
 public:
  BlockFile() = default;
  ~BlockFile() { Close(); }
  BlockFile(const BlockFile&) = delete;

  /// Makes the file, or empties it; links and what is no plain file are refused.
  absl::Status Open(const std::string& path);
  bool is_open() const { return fd_ >= 0; }
  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }
  /// All of `bytes`, or none: what was written of them is cut off again.
  absl::Status Append(std::string_view bytes);
  void Close();

 private:
  int fd_ = -1;
  int64_t bytes_ = 0;
  std::string path_;
};

}  // namespace tessera::rt::trace

#endif  // TESSERA_RUNTIME_TRACE_FILE_H_
