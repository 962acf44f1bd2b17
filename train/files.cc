#include "train/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tessera::train {

namespace {

// Eight tables: eight bytes at a time.
using Tables = std::array<std::array<uint32_t, 256>, 8>;
constexpr Tables MakeTables() {
  Tables t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1) ? 0xedb88320u ^ (c >> 1) : c >> 1;
    t[0][i] = c;
  }
  for (uint32_t i = 0; i < 256; ++i)
    for (size_t k = 1; k < 8; ++k) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xff];
  return t;
}
constexpr Tables kTables = MakeTables();

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Status FileError(std::string_view what, const std::string& path, int error) {
  const Code code = error == ENOENT                                         ? Code::not_found
                    : error == ENOSPC || error == EDQUOT || error == ENOMEM ? Code::resource_exhausted
                                                                            : Code::invalid_argument;
  return Status(code, "cannot " + std::string(what) + " " + path + ": " + std::strerror(error));
}

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return FileError("open", path, errno);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return FileError("look at", path, errno);
  if (!S_ISREG(info.st_mode)) return Status(Code::invalid_argument, "cannot open " + path + ": it is no file");
  const auto size = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) return FileError("map", path, errno);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(data, size));
}
MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Status WriteSynced(const std::string& path, const std::vector<Bytes>& parts) {
  const Descriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (fd.get() < 0) return FileError("create", path, errno);
  for (Bytes part : parts) {
    while (!part.empty()) {
      const ssize_t n = ::write(fd.get(), part.data(), part.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return FileError("write", path, n == 0 ? ENOSPC : errno);
      part = part.subspan(static_cast<size_t>(n));
    }
  }
  if (::fsync(fd.get()) != 0) return FileError("sync", path, errno);
  return {};
}

Status WriteWhole(const std::string& path, const std::vector<Bytes>& parts) {
  const std::string temporary = path + ".tmp." + std::to_string(::getpid());
  Status status = WriteSynced(temporary, parts);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) status = FileError("rename to", path, errno);
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  const size_t slash = path.rfind('/');
  return SyncFolder(slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash));
}

Status SyncFolder(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return FileError("open", path, errno);
  // Some file systems know no sync of a folder; nothing can be done about those.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return FileError("sync", path, errno);
  return {};
}

uint32_t Crc32(Bytes bytes, uint32_t crc) {
  crc = ~crc;
  const auto* p = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t n = bytes.size();
  for (; n >= 8; n -= 8, p += 8) {
    const uint32_t low = crc ^ ReadLittle<uint32_t>(reinterpret_cast<const std::byte*>(p));
    crc = kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^ kTables[5][(low >> 16) & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][p[4]] ^ kTables[2][p[5]] ^ kTables[1][p[6]] ^ kTables[0][p[7]];
  }
  for (; n > 0; --n, ++p) crc = kTables[0][(crc ^ *p) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace tessera::train
