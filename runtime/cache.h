// The code cache on disk: byte strings (object code, measured choices) kept under a key for later runs.
//
// One entry is one file, named by the SHA-256 of its key; its bytes, numbers little-endian:
//
//   "TSRCACHE"  u64 format version  u64 bytes of key  u64 bytes of payload  key  payload  SHA-256 of all before it
//
// A cache never fails a run. Whatever goes wrong (damage, no memory, no space, no permission, other processes at work
// in the same folder) is a miss, or an entry that is not kept. Files appear by rename and are never changed in place,
// and what was read is what is checked, so a reader has either all of what a Put() wrote or nothing.
#ifndef TESSERA_RUNTIME_CACHE_H_
#define TESSERA_RUNTIME_CACHE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/status.h"

namespace tessera::rt {

/// Any number of threads and processes may use one folder at once; no lock is held and nobody waits for another.
class Cache {
 public:
  /// Makes the folder, for its owner alone, where it is missing. Refuses one that belongs to someone else, that group
  /// or others may write to, or that lies in a folder that everyone may write to (/tmp), because what is in the cache
  /// is executed. The folder is held open: later renames and links on the way to it change nothing.
  static absl::StatusOr<std::unique_ptr<Cache>> Open(const std::string& folder, int64_t limit_bytes);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  /// What was put under this key, or nothing. A file that is there but not sound is set aside (tessera-N.bad, the
  /// latest few) or removed. The key must name everything that the bytes depend on: it is compared whole.
  std::optional<std::string> Get(std::string_view key) noexcept;
  /// Keeps the bytes in place of what was under the key. Blocks until they are on disk. False: they are not kept, which
  /// is also so for an entry of more than half the limit.
  bool Put(std::string_view key, std::string_view bytes) noexcept;

  const std::string& folder() const { return folder_; }
  int64_t limit_bytes() const { return limit_; }

 private:
  Cache(std::string folder, int fd, int64_t limit) : folder_(std::move(folder)), fd_(fd), limit_(limit) {}
  std::optional<std::string> Read(std::string_view key);
  bool Write(std::string_view key, std::string_view bytes);
  void SetAside(const std::string& name, uint64_t inode);
  void Trim();
  /// One look at the folder: removes what is too much, gives the bytes that may be written before the next.
  int64_t RemoveOldest();

  const std::string folder_;
  const int fd_;
  const int64_t limit_;
  std::atomic<int64_t> room_{0};  // bytes that this process may still write before it looks at the folder again
  std::atomic<bool> trimming_{false};
};

/// The cache that the options cache, cache_dir and cache_limit ask for now; null where it is off or refused, which is
/// said once. Keep what it returns for one piece of work only: the options may change.
std::shared_ptr<Cache> CodeCache() noexcept;

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_CACHE_H_
