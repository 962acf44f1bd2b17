// Files of the training library: mapped for reading, written as a whole.
#ifndef TESSERA_TRAIN_FILES_H_
#define TESSERA_TRAIN_FILES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/status.h"

namespace tessera::train {

using Bytes = std::span<const std::byte>;

/// A file that is mapped for reading. An empty file has no bytes.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  Bytes bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  MappedFile(void* data, size_t size) : data_(data), size_(size) {}
  void* data_;
  size_t size_;
};

/// "cannot open x: No such file or directory"
Status FileError(std::string_view what, const std::string& path, int error);

/// The parts in order to a new file, which is on the disk when this returns.
Status WriteSynced(const std::string& path, const std::vector<Bytes>& parts);
/// The same by way of a temporary file beside it and a rename: afterwards the file is there as a whole, or as it was.
Status WriteWhole(const std::string& path, const std::vector<Bytes>& parts);
/// Makes what was created, renamed and removed in a folder last.
Status SyncFolder(const std::string& path);

/// CRC-32 as zip has it; `crc` is that of what came before.
uint32_t Crc32(Bytes bytes, uint32_t crc = 0);

inline Bytes BytesOf(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

template <class T>
void AppendLittle(std::string* out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) *out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
}
template <class T>
T ReadLittle(const std::byte* p) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(p[i]) << (8 * i);
  return static_cast<T>(value);
}

}  // namespace tessera::train

#endif  // TESSERA_TRAIN_FILES_H_
