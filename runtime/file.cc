#include "runtime/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "runtime/fault.h"

namespace tessera::rt {
namespace {

absl::Status Failed(const char* what, const std::string& path, int error) {
  const std::string why = absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(why);
  if (error == ENOSPC || error == EDQUOT || error == EMFILE || error == ENFILE || error == ENOMEM) {
    return absl::ResourceExhaustedError(why);
  }
  return absl::InvalidArgumentError(why);
}

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

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = FaultFires(Fault::file_write) ? (errno = ENOSPC, -1) : ::write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return Failed("write", path, errno);
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const Descriptor fd(FaultFires(Fault::file_open) ? (errno = EACCES, -1) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return Failed("open", path, errno);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return Failed("read", path, errno);
  if (S_ISDIR(info.st_mode)) return Failed("read", path, EISDIR);
  std::string bytes(info.st_size > 0 ? static_cast<size_t>(info.st_size) : 0, '\0');
  size_t have = 0;
  for (;;) {
    if (have == bytes.size()) bytes.resize(bytes.size() + 4096);
    const ssize_t n =
        FaultFires(Fault::file_read) ? (errno = EIO, -1) : ::read(fd.get(), &bytes[have], bytes.size() - have);
    if (n < 0) {
      if (errno == EINTR) continue;
      return Failed("read", path, errno);
    }
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  bytes.resize(have);
  return bytes;
}

absl::Status WriteFile(const std::string& path, std::initializer_list<std::string_view> parts, unsigned mode) {
  static std::atomic<int> counter{0};
  const std::string temporary = absl::StrCat(path, ".tmp.", ::getpid(), ".", counter.fetch_add(1));
  absl::Status status;
  {
    const Descriptor fd(FaultFires(Fault::file_open)
                            ? (errno = EACCES, -1)
                            : ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (fd.get() < 0) return Failed("write", path, errno);
    for (std::string_view part : parts) {
      if (status.ok()) status = WriteAll(fd.get(), part, path);
    }
    if (status.ok() && ::fsync(fd.get()) != 0) status = Failed("write", path, errno);
  }
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) status = Failed("write", path, errno);
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

}  // namespace tessera::rt
