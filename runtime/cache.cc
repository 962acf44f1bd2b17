#include "runtime/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <tuple>
#include <vector>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "runtime/sha256.h"

namespace tessera::rt {
namespace {

constexpr std::string_view kMagic = "TSRCACHE";
constexpr uint64_t kFormat = 1;
constexpr int kBadKept = 4;
// A hit marks its file as used only where the mark is older than this: reading stays reading.
constexpr int64_t kTouchSeconds = 10 * 60;
// No Put() takes this long; a temporary file that is older belonged to a process that was killed.
constexpr int64_t kStaleSeconds = 60 * 60;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& from) noexcept : fd_(from.Release()) {}
  Descriptor& operator=(Descriptor&& from) noexcept {
    std::swap(fd_, from.fd_);
    return *this;
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Descriptor OpenAt(int folder, const std::string& name, int flags, mode_t mode = 0) {
  if (FaultFires(Fault::file_open)) return errno = EACCES, Descriptor(-1);
  return Descriptor(::openat(folder, name.c_str(), flags | O_CLOEXEC, mode));
}

// ---- one entry

using Header = std::array<char, 32>;

Header MakeHeader(uint64_t key_bytes, uint64_t payload_bytes) {
  Header header;
  std::copy(kMagic.begin(), kMagic.end(), header.begin());
  size_t at = kMagic.size();
  for (const uint64_t word : {kFormat, key_bytes, payload_bytes})
    for (int i = 0; i < 8; ++i) header[at++] = static_cast<char>(word >> (8 * i));
  return header;
}

std::string_view View(const Header& header) { return {header.data(), header.size()}; }
std::string_view View(const Sha256::Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

Sha256::Digest Checksum(const Header& header, std::string_view key, std::string_view payload) {
  Sha256 hash;
  for (std::string_view part : {View(header), key, payload}) hash.Update(part);
  return hash.Finish();
}

constexpr size_t Overhead(std::string_view key) { return sizeof(Header) + key.size() + sizeof(Sha256::Digest); }

// What a file counts for, so that the limit holds for many small entries too.
constexpr int64_t OnDisk(int64_t bytes) { return (bytes + 4095) & ~int64_t{4095}; }

enum class Got { all, end, failed };

// Fills the buffer from the file; `end` where the file has less.
Got ReadAll(int fd, char* to, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = FaultFires(Fault::file_read) ? (errno = EIO, -1) : ::read(fd, to, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? Got::failed : Got::end;
    to += n;
    bytes -= static_cast<size_t>(n);
  }
  return Got::all;
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = FaultFires(Fault::file_write) ? (errno = ENOSPC, -1) : ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// Failures that say nothing about the file: there is none, or this process or the server is short of something.
bool IsPassing(int error) {
  switch (error) {
    case ENOENT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EINTR:
    case EAGAIN:
    case ESTALE: return true;
    default: return false;
  }
}

// ---- names: nothing else in the folder is ever touched, whatever folder the option names

constexpr std::string_view kOurs = "tessera-", kEntry = ".entry", kBad = ".bad", kTemporary = ".tmp";

std::string EntryName(std::string_view key) { return Hex(Sha256::Of(key)).append(kEntry); }
std::string BadName(int i) { return std::string(kOurs).append(std::to_string(i)).append(kBad); }

std::string TemporaryName() {
  // Likely to be new; O_EXCL sees to the rest.
  return absl::StrCat("tessera-",
                      absl::Hex(static_cast<uint64_t>(NowNs()) ^ uint64_t(::getpid()) << 40, absl::kZeroPad16), ".tmp");
}

enum class Kind { bad, entry, temporary, foreign };

Kind KindOf(std::string_view name) {
  const auto middle_is_hex = [&](std::string_view before, std::string_view after, size_t digits) {
    if (name.size() != before.size() + digits + after.size() || !name.starts_with(before) || !name.ends_with(after))
      return false;
    return name.substr(before.size(), digits).find_first_not_of("0123456789abcdef") == name.npos;
  };
  if (middle_is_hex("", kEntry, 64)) return Kind::entry;
  if (middle_is_hex(kOurs, kBad, 1)) return Kind::bad;
  if (middle_is_hex(kOurs, kTemporary, 16)) return Kind::temporary;
  return Kind::foreign;
}

// ---- the folder

absl::Status Refused(const std::string& folder, const char* why) { return InvalidArgument(folder, " ", why); }

absl::Status Failed(const char* what, const std::string& folder, int error) {
  return InvalidArgument("cannot ", what, " ", folder, ": ", std::strerror(error));
}

// Looks at the folder and at all above it: those it really lies in, whatever links led to it.
absl::Status RefuseShared(int fd, const std::string& folder) {
  Descriptor at = OpenAt(fd, ".", O_PATH | O_DIRECTORY);
  struct stat info, below = {};
  for (;;) {
    if (at.get() < 0 || ::fstat(at.get(), &info) != 0) return Failed("look above", folder, errno);
    if (info.st_mode & S_IWOTH) return Refused(folder, "lies in a folder that everyone may write to");
    if (info.st_dev == below.st_dev && info.st_ino == below.st_ino) return absl::OkStatus();
    below = info;
    at = OpenAt(at.get(), "..", O_PATH | O_DIRECTORY);
  }
}

absl::StatusOr<Descriptor> OpenFolder(const std::string& folder) {
  std::string there = folder;
  std::vector<std::string> missing;
  Descriptor at(-1);
  for (;;) {
    while (there.size() > 1 && there.back() == '/') there.pop_back();
    at = OpenAt(AT_FDCWD, there, O_PATH | O_DIRECTORY);
    if (at.get() >= 0) break;
    if (errno != ENOENT || there == "." || there == "/") return Failed("open", folder, errno);
    const size_t slash = there.find_last_of('/');
    missing.push_back(there.substr(slash == there.npos ? 0 : slash + 1));
    there = slash == there.npos ? "." : there.substr(0, std::max<size_t>(slash, 1));
  }
  // Before anything is made: a folder that is refused is not left behind.
  if (!missing.empty()) TSR_RETURN_IF_ERROR(RefuseShared(at.get(), folder));
  for (; !missing.empty(); missing.pop_back()) {
    struct stat info;
    if (::fstat(at.get(), &info) != 0) return Failed("open", folder, errno);
    // Under sudo with the user's HOME: a folder of root's in it would lock the user out.
    if (::geteuid() == 0 && info.st_uid != 0) return Refused(folder, "would be root's in a folder of another user");
    if (::mkdirat(at.get(), missing.back().c_str(), 0700) != 0 && errno != EEXIST) return Failed("make", folder, errno);
    at = OpenAt(at.get(), missing.back(), O_PATH | O_DIRECTORY | O_NOFOLLOW);
    if (at.get() < 0) return Failed("open", folder, errno);
  }
  struct stat info;
  if (::fstat(at.get(), &info) != 0) return Failed("open", folder, errno);
  if (info.st_uid != ::geteuid()) return Refused(folder, "belongs to another user");
  if (info.st_mode & (S_IWGRP | S_IWOTH)) return Refused(folder, "may be written to by others; chmod 700 it");
  TSR_RETURN_IF_ERROR(RefuseShared(at.get(), folder));
  return at;
}

absl::StatusOr<std::string> DefaultFolder() {
  const char* cache = ::secure_getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return absl::StrCat(cache, "/tessera");
  const char* home = ::secure_getenv("HOME");
  if (home != nullptr && home[0] == '/') return absl::StrCat(home, "/.cache/tessera");
  return NotFound("neither XDG_CACHE_HOME nor HOME names a folder; option cache_dir can");
}

// By the wall clock, which may have been set back: the distance counts.
bool OlderThan(const struct stat& info, int64_t seconds) {
  const int64_t age = int64_t{::time(nullptr)} - info.st_mtim.tv_sec;
  return age > seconds || age < -seconds;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Cache>> Cache::Open(const std::string& folder, int64_t limit_bytes) {
  if (folder.empty()) return InvalidArgument("no folder is named");
  TSR_ASSIGN_OR_RETURN(Descriptor fd, OpenFolder(folder));
  auto cache = std::unique_ptr<Cache>(new Cache(folder, fd.get(), limit_bytes));
  fd.Release();
  return cache;
}

Cache::~Cache() { ::close(fd_); }

std::optional<std::string> Cache::Get(std::string_view key) noexcept {
  std::optional<std::string> payload;
  try {
    payload = Read(key);
  } catch (...) {  // no memory
  }
  Count(payload ? Metric::cache_hits : Metric::cache_misses);
  return payload;
}

std::optional<std::string> Cache::Read(std::string_view key) {
  const std::string name = EntryName(key);
  // O_NONBLOCK: opening a pipe that lies there must not wait for a writer.
  const Descriptor fd = OpenAt(fd_, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  struct stat info;
  if (fd.get() < 0 || ::fstat(fd.get(), &info) != 0) {
    if (!IsPassing(errno)) SetAside(name, 0);
    return std::nullopt;
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  const bool ours = S_ISREG(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (ours && size >= Overhead(key)) {
    std::string payload;
    Header header;
    std::string stored_key(key.size(), '\0');
    Sha256::Digest digest;
    Got got = ReadAll(fd.get(), header.data(), header.size());
    if (got == Got::all) got = ReadAll(fd.get(), stored_key.data(), stored_key.size());
    // The header must be the one that Put() would write; so no length is taken from the file unchecked.
    if (got == Got::all && header == MakeHeader(key.size(), size - Overhead(key)) && stored_key == key) {
      payload.resize(size - Overhead(key));
      got = ReadAll(fd.get(), payload.data(), payload.size());
      if (got == Got::all) got = ReadAll(fd.get(), reinterpret_cast<char*>(digest.data()), digest.size());
      if (got == Got::all && digest == Checksum(header, key, payload)) {
        if (OlderThan(info, kTouchSeconds)) (void)::futimens(fd.get(), nullptr);
        return payload;
      }
    }
    if (got == Got::failed && IsPassing(errno)) return std::nullopt;
  }
  SetAside(name, info.st_ino);
  return std::nullopt;
}

// `inode`: the file that was found bad and is still open, 0 where none is; another process may have put a good one in
// its place since.
void Cache::SetAside(const std::string& name, uint64_t inode) {
  struct stat now;
  if (inode != 0 && (::fstatat(fd_, name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0 || now.st_ino != inode)) return;
  Count(Metric::cache_bad);
  TSR_LOG(1, "code cache: ", folder_, "/", name, " is not sound and is set aside");
  const int first = name[0] % kBadKept;
  for (int i = 0; i < kBadKept; ++i) {
    const std::string bad = BadName((first + i) % kBadKept);
    if (::renameat(fd_, name.c_str(), fd_, bad.c_str()) == 0 || errno == ENOENT) return;
    // A folder does not replace a file, nor a file a folder.
    if (::unlinkat(fd_, bad.c_str(), 0) != 0) (void)::unlinkat(fd_, bad.c_str(), AT_REMOVEDIR);
    if (::renameat(fd_, name.c_str(), fd_, bad.c_str()) == 0 || errno == ENOENT) return;
  }
  if (::unlinkat(fd_, name.c_str(), 0) != 0) (void)::unlinkat(fd_, name.c_str(), AT_REMOVEDIR);
}

bool Cache::Put(std::string_view key, std::string_view bytes) noexcept {
  bool kept = false;
  try {
    const int64_t size = OnDisk(static_cast<int64_t>(Overhead(key) + bytes.size()));
    kept = size <= limit_ / 2 && Write(key, bytes);
    if (kept && room_.fetch_sub(size) < size) Trim();
  } catch (...) {  // no memory
  }
  return kept;
}

bool Cache::Write(std::string_view key, std::string_view bytes) {
  const Header header = MakeHeader(key.size(), bytes.size());
  const Sha256::Digest digest = Checksum(header, key, bytes);
  const std::string name = EntryName(key);
  std::string temporary;
  Descriptor fd(-1);
  for (int i = 0; i < 100; ++i) {
    temporary = TemporaryName();
    fd = OpenAt(fd_, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (fd.get() >= 0 || errno != EEXIST) break;
  }
  bool done = fd.get() >= 0;
  int error = errno;
  if (done) {
    for (std::string_view part : {View(header), key, bytes, View(digest)}) done = done && WriteAll(fd.get(), part);
    // The file before its name: after a power cut the name must not stand for less. Whether the name itself survives
    // one does not matter, so the folder is not synced.
    done = done && ::fsync(fd.get()) == 0;
    if (done) {
      done = ::renameat(fd_, temporary.c_str(), fd_, name.c_str()) == 0;
      if (!done && errno == EISDIR) {
        SetAside(name, 0);
        done = ::renameat(fd_, temporary.c_str(), fd_, name.c_str()) == 0;
      }
    }
    error = errno;
    if (!done) (void)::unlinkat(fd_, temporary.c_str(), 0);
  }
  // A folder that is read-only may be meant so; a full disk is not.
  const int level = error == EROFS || error == EACCES || error == EPERM || error == ENOENT;
  if (!done) TSR_LOG(level, "code cache: cannot write to ", folder_, ": ", std::strerror(error));
  return done;
}

// Removes what killed processes left, and the least recently used entries where there is too much. Other processes may
// do the same at the same time: all see the same order, so together they remove no more than one would.
void Cache::Trim() {
  if (trimming_.exchange(true)) return;
  struct Done {
    std::atomic<bool>& trimming;
    ~Done() { trimming = false; }
  } done{trimming_};
  // Whoever writes meanwhile only counts: where that is more than there is room for, it is looked at again.
  for (int round = 0; round < 4; ++round) {
    room_ = 0;
    const int64_t room = RemoveOldest();
    if (room_.fetch_add(room) + room >= 0) return;
  }
}

int64_t Cache::RemoveOldest() {
  // Opened anew: the place in the listing belongs to the open file, which threads and forked processes share.
  Descriptor fd = OpenAt(fd_, ".", O_RDONLY | O_DIRECTORY);
  DIR* listing = fd.get() < 0 ? nullptr : ::fdopendir(fd.get());
  if (listing == nullptr) return limit_ / 16;
  fd.Release();
  const std::unique_ptr<DIR, int (*)(DIR*)> closes(listing, &::closedir);

  struct File {
    Kind kind;
    int64_t seconds, nanoseconds, bytes;
    std::string name;
  };
  std::vector<File> files;
  int64_t sum = 0;
  while (const dirent* item = ::readdir(listing)) {
    const Kind kind = KindOf(item->d_name);
    struct stat info;
    if (kind == Kind::foreign || ::fstatat(fd_, item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISDIR(info.st_mode)) continue;
    if (kind == Kind::temporary && OlderThan(info, kStaleSeconds) && ::unlinkat(fd_, item->d_name, 0) == 0) continue;
    sum += OnDisk(info.st_size);
    if (kind != Kind::temporary)
      files.push_back({kind, info.st_mtim.tv_sec, info.st_mtim.tv_nsec, OnDisk(info.st_size), item->d_name});
  }
  if (sum > limit_) {
    const auto order = [](const File& f) { return std::tie(f.kind, f.seconds, f.nanoseconds, f.name); };
    std::sort(files.begin(), files.end(), [&](const File& a, const File& b) { return order(a) < order(b); });
    for (const File& file : files) {
      if (sum <= limit_ - limit_ / 10) break;
      const bool removed = ::unlinkat(fd_, file.name.c_str(), 0) == 0;
      if (removed || errno == ENOENT) sum -= file.bytes;
      if (removed && file.kind == Kind::entry) Count(Metric::cache_evictions);
    }
  }
  // Others write too, and what cannot be removed must not make every Put() look again.
  return std::clamp(limit_ - sum, limit_ / 64, limit_ / 16);
}

std::shared_ptr<Cache> CodeCache() noexcept {
  struct Opened {
    std::mutex mutex;
    std::string dir;
    int64_t limit = 0;  // none was opened yet
    std::shared_ptr<Cache> cache;
  };
  static Opened* const opened = new (std::nothrow) Opened;
  if (opened == nullptr || !options().cache()) return nullptr;
  try {
    const std::string dir = options().cache_dir();
    const int64_t limit = options().cache_limit();
    if (dir.empty()) return nullptr;
    std::lock_guard lock(opened->mutex);
    if (opened->dir == dir && opened->limit == limit) return opened->cache;
    opened->cache = nullptr;
    absl::StatusOr<std::string> folder = dir == "auto" ? DefaultFolder() : dir;
    absl::StatusOr<std::unique_ptr<Cache>> cache =
        folder.ok() ? Cache::Open(*folder, limit) : absl::StatusOr<std::unique_ptr<Cache>>(folder.status());
    if (cache.ok())
      opened->cache = *std::move(cache);
    else
      TSR_LOG(0, "the code cache is off: ", cache.status().message());
    opened->dir = dir;
    opened->limit = limit;
    return opened->cache;
  } catch (...) {  // no memory
    return nullptr;
  }
}

}  // namespace tessera::rt
