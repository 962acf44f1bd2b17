#include "runtime/trace/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/fault.h"

namespace tessera::rt::trace {
namespace {

absl::Status Failed(const char* what, const std::string& path, int error) {
  const std::string why = absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error));
  return error == ENOSPC || error == EDQUOT ? absl::ResourceExhaustedError(why) : absl::InvalidArgumentError(why);
}

}  // namespace

void AppendBlock(std::string* out, BlockKind kind, uint32_t rows, std::string_view bytes) {
  const BlockHeader header = {kBlockMagic, static_cast<uint32_t>(kind), static_cast<uint32_t>(bytes.size()), rows,
                              BlockChecksum(kind, rows, bytes)};
  out->append(reinterpret_cast<const char*>(&header), sizeof(header));
  out->append(bytes);
}

std::string HeaderBytes(bool redacted) {
  FileHeader header = {{}, kFormatVersion, redacted ? kRedacted : 0};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header));
}

absl::Status BlockFile::Open(const std::string& path) {
  Close();
  path_ = path;
  bytes_ = 0;
  const int fd = FaultFires(Fault::file_open)
                     ? (errno = EACCES, -1)
                     : ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0) return Failed("write", path, errno);
  struct stat info;
  int error = ::fstat(fd, &info) != 0 ? errno : 0;
  if (error == 0 && !S_ISREG(info.st_mode)) error = EINVAL;
  // A file that was there may be open to others.
  if (error == 0 && (::fchmod(fd, 0600) != 0 || ::ftruncate(fd, 0) != 0)) error = errno;
  if (error != 0) {
    ::close(fd);
    return Failed("write", path, error);
  }
  fd_ = fd;
  return absl::OkStatus();
}

absl::Status BlockFile::Append(std::string_view bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        FaultFires(Fault::file_write) ? (errno = ENOSPC, -1) : ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (n < 0) {
      if (errno == EINTR) continue;
      const int error = errno;
      if (::ftruncate(fd_, bytes_) != 0) return Failed("write", path_, errno);
      return Failed("write", path_, error);
    }
    done += static_cast<size_t>(n);
  }
  bytes_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

void BlockFile::Close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace tessera::rt::trace
