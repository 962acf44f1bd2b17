#include "runtime/trace/live.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/trace/recorder.h"

namespace tessera::rt::trace {
namespace {

std::string Folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && runtime[0] == '/' ? absl::StrCat(runtime, "/tessera")
                                                 : absl::StrCat("/tmp/tessera-", ::geteuid());
}

/// A folder that only this user can enter. One that somebody else made under its name is not used.
absl::Status CheckFolder(const std::string& folder) {
  struct stat info;
  if (::lstat(folder.c_str(), &info) != 0) return NotFound("there is no folder ", folder);
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0)
    return absl::PermissionDeniedError(absl::StrCat(folder, " is not a folder for its owner alone"));
  return absl::OkStatus();
}

bool AddressOf(const std::string& path, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (path.size() >= sizeof(address->sun_path)) return false;
  std::memcpy(address->sun_path, path.data(), path.size());
  return true;
}

bool IsOfThisUser(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

void RemoveSocket() {
  // A process that was forked from this one has no socket of that name.
  ::unlink(SocketPath(::getpid()).c_str());
}

}  // namespace

std::string SocketPath(pid_t process) { return absl::StrCat(Folder(), "/", process); }

absl::Status AllowLiveClients() {
  const std::string folder = Folder(), path = SocketPath(::getpid());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return InvalidArgument("cannot make ", folder, ": ", std::strerror(errno));
  TSR_RETURN_IF_ERROR(CheckFolder(folder));
  sockaddr_un address;
  if (!AddressOf(path, &address)) return InvalidArgument(path, ": the name is too long for a socket");
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return InvalidArgument("no socket: ", std::strerror(errno));
  ::unlink(path.c_str());  // of a process that had this number before
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::listen(fd, 4) != 0) {
    const int error = errno;
    ::close(fd);
    return InvalidArgument("cannot listen at ", path, ": ", std::strerror(error));
  }
  Recorder::Get().AllowClients();
  std::atexit(RemoveSocket);
  try {
    std::thread([fd] {
      pthread_setname_np(pthread_self(), "tessera live");
      for (;;) {
        const int client = ::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
        if (client < 0) return;
        if (!IsOfThisUser(client) || !Recorder::Get().AddClient(client)) ::close(client);
      }
    }).detach();
  } catch (const std::system_error&) {
    ::close(fd);
    return InvalidArgument("no thread can be started");
  }
  return absl::OkStatus();
}

absl::StatusOr<int> ConnectLive(pid_t process) {
  TSR_RETURN_IF_ERROR(CheckFolder(Folder()));
  const std::string path = SocketPath(process);
  sockaddr_un address;
  if (!AddressOf(path, &address)) return InvalidArgument(path, ": the name is too long for a socket");
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return InvalidArgument("no socket: ", std::strerror(errno));
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 || !IsOfThisUser(fd)) {
    ::close(fd);
    return NotFound("process ", process,
                    " cannot be looked at: it is not there, does not run Tessera, or runs without ",
                    "TESSERA_TRACE_LIVE=true");
  }
  return fd;
}

}  // namespace tessera::rt::trace
