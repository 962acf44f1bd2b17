// The code cache: what is put is found, and nothing else ever is, whatever happens to the files and processes.
#include "runtime/cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/file.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "runtime/sanitizer.h"
#include "runtime/sha256.h"
#include "temp_folder.h"

namespace tessera::rt {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLarge = int64_t{1} << 30;
constexpr uid_t kNobody = 65534;

std::string ReadBytes(const fs::path& path) { return *ReadFile(path.string()); }

void WriteBytes(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  fs::permissions(path, fs::perms(0600));
}

void SetAge(const fs::path& path, int64_t seconds) {
  const timespec then = {::time(nullptr) - seconds, 0};
  const timespec times[2] = {then, then};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
}

int64_t AgeOf(const fs::path& path) {
  struct stat info;
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return ::time(nullptr) - info.st_mtim.tv_sec;
}

int64_t CountOf(Metric m) { return SnapshotMetrics()[static_cast<int>(m)]; }

// Bytes that tell by themselves whether they are whole: a seed, and what follows from it.
std::string Made(uint64_t seed, size_t most) {
  std::mt19937_64 rng(seed);
  std::string bytes(8 + rng() % most, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(seed >> (8 * i));
  for (size_t i = 8; i < bytes.size(); ++i) bytes[i] = static_cast<char>(rng());
  return bytes;
}

bool IsWhole(const std::string& bytes, size_t most) {
  if (bytes.size() < 8) return false;
  uint64_t seed = 0;
  for (int i = 0; i < 8; ++i) seed |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return bytes == Made(seed, most);
}

// Runs `body` in a process of its own, which ends with what it returns; 0 is success.
pid_t Fork(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 100;
    try {
      code = body();
    } catch (...) {
    }
    ::_exit(code);
  }
  return child;
}

int ExitCode(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

class CacheTest : public testing::Test {
 protected:
  // Not in the temporary folder, where a cache is refused.
  void SetUp() override {
    std::vector<fs::path> bases = {fs::current_path()};
    if (const char* home = std::getenv("HOME")) bases.emplace_back(home);
    for (const fs::path& base : bases) {
      std::string name = base / "tessera_cache_test_XXXXXX";
      if (::mkdtemp(name.data()) == nullptr) continue;
      root_ = name;
      folder_ = root_ / "cache";
      const auto opened = Cache::Open(folder_, kLarge);
      if (opened.ok()) return;
      fs::remove_all(root_);
      root_.clear();
    }
    GTEST_SKIP() << "everyone may write to " << bases[0] << ": run this in a folder of your own";
  }
  void TearDown() override {
    DisarmFaults();
    SetLogSink({});
    if (root_.empty()) return;
    fs::permissions(folder_, fs::perms(0700));
    fs::remove_all(root_);
  }

  std::unique_ptr<Cache> Open(int64_t limit = kLarge) { return OpenAt(folder_, limit); }
  static std::unique_ptr<Cache> OpenAt(const fs::path& folder, int64_t limit = kLarge) {
    auto cache = Cache::Open(folder, limit);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return cache.ok() ? *std::move(cache) : nullptr;
  }
  static std::string WhyNot(const fs::path& folder) {
    const auto cache = Cache::Open(folder, kLarge);
    return cache.ok() ? "opened" : std::string(cache.status().message());
  }
  fs::path PathOf(std::string_view key) const { return folder_ / (Hex(Sha256::Of(key)) + ".entry"); }
  std::set<std::string> Names(std::string_view ending = "") const {
    std::set<std::string> names;
    for (const auto& item : fs::directory_iterator(folder_))
      if (const std::string name = item.path().filename(); name.ends_with(ending)) names.insert(name);
    return names;
  }
  int64_t BytesOnDisk() const {
    int64_t sum = 0;
    for (const auto& item : fs::directory_iterator(folder_)) sum += (item.file_size() + 4095) / 4096 * 4096;
    return sum;
  }

  fs::path root_, folder_;
};

TEST_F(CacheTest, FindsWhatWasPut) {
  const int64_t hits = CountOf(Metric::cache_hits), misses = CountOf(Metric::cache_misses);
  const auto cache = Open();
  const std::vector<std::pair<std::string, std::string>> entries = {
      {"a key", "some bytes"},
      {"", "under no key"},
      {"nothing", ""},
      {std::string("zero\0one", 8), std::string("\0\xff\n", 3)},
      {std::string("zero\0two", 8), "another"},
      {std::string(100'000, 'k'), Made(1, 4)},
      {"large", std::string(3'000'000, 'x')}};
  for (const auto& [key, bytes] : entries) EXPECT_EQ(cache->Get(key), std::nullopt);
  for (const auto& [key, bytes] : entries) EXPECT_TRUE(cache->Put(key, bytes));
  const auto second = Open();
  for (const auto& [key, bytes] : entries) {
    EXPECT_EQ(cache->Get(key), bytes);
    EXPECT_EQ(second->Get(key), bytes);
  }
  EXPECT_TRUE(second->Put("a key", "other bytes"));
  EXPECT_EQ(cache->Get("a key"), "other bytes");
  EXPECT_EQ(CountOf(Metric::cache_hits) - hits, 15);
  EXPECT_EQ(CountOf(Metric::cache_misses) - misses, 7);
  EXPECT_EQ(Names().size(), entries.size()) << "one file for each, and nothing left over";
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms(0700));
  EXPECT_EQ(fs::status(PathOf("a key")).permissions(), fs::perms(0600));
  EXPECT_EQ(ReadBytes(PathOf("a key")).substr(0, 8), "TSRCACHE");
}

TEST_F(CacheTest, EveryByteIsChecked) {
  const auto cache = Open();
  const std::string key = "a key of some bytes", bytes = Made(3, 60);
  ASSERT_TRUE(cache->Put(key, bytes));
  const fs::path path = PathOf(key);
  const std::string entry = ReadBytes(path);
  ASSERT_EQ(entry.size(), 32 + key.size() + bytes.size() + 32);
  const int64_t bad = CountOf(Metric::cache_bad);
  for (size_t i = 0; i < entry.size(); ++i)
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string damaged = entry;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      WriteBytes(path, damaged);
      ASSERT_EQ(cache->Get(key), std::nullopt) << "byte " << i;
      ASSERT_FALSE(fs::exists(path)) << "set aside";
    }
  EXPECT_EQ(CountOf(Metric::cache_bad) - bad, static_cast<int64_t>(3 * entry.size()));
  EXPECT_GE(Names(".bad").size(), 1u);
  EXPECT_LE(Names(".bad").size(), 4u);
  WriteBytes(path, entry);
  EXPECT_EQ(cache->Get(key), bytes) << "the file itself was fine";
}

TEST_F(CacheTest, EveryLengthIsChecked) {
  const auto cache = Open();
  const std::string key = "key", bytes = Made(4, 60);
  ASSERT_TRUE(cache->Put(key, bytes));
  const std::string entry = ReadBytes(PathOf(key));
  for (size_t size = 0; size < entry.size(); ++size) {
    WriteBytes(PathOf(key), entry.substr(0, size));
    ASSERT_EQ(cache->Get(key), std::nullopt) << size;
    // As after a crash of the system: the length is there, the bytes are not.
    WriteBytes(PathOf(key), entry.substr(0, size) + std::string(entry.size() - size, '\0'));
    ASSERT_EQ(cache->Get(key), std::nullopt) << size;
  }
  for (const std::string& more : {std::string(1, '\0'), std::string("x"), entry}) {
    WriteBytes(PathOf(key), entry + more);
    EXPECT_EQ(cache->Get(key), std::nullopt);
  }
  ASSERT_TRUE(cache->Put(key, bytes));
  EXPECT_EQ(cache->Get(key), bytes);
}

// Sound files that are not this entry: of another key, of another format.
TEST_F(CacheTest, AnotherKeyOrFormatIsAMiss) {
  const auto cache = Open();
  ASSERT_TRUE(cache->Put("key a", "for a"));
  ASSERT_TRUE(cache->Put("key b", "for b"));
  ASSERT_TRUE(cache->Put("longer key", "for c"));
  for (const char* other : {"key b", "longer key"}) {
    fs::copy_file(PathOf(other), PathOf("key a"), fs::copy_options::overwrite_existing);
    EXPECT_EQ(cache->Get("key a"), std::nullopt);
  }
  std::string entry = ReadBytes(PathOf("key b"));
  const auto sign = [&] {
    const Sha256::Digest digest = Sha256::Of(std::string_view(entry).substr(0, entry.size() - 32));
    std::copy(digest.begin(), digest.end(), entry.end() - 32);
    WriteBytes(PathOf("key b"), entry);
  };
  sign();
  EXPECT_EQ(cache->Get("key b"), "for b") << "the checksum is that of the format";
  // The bytes of the key divided in another way between key and payload; then another format.
  for (const auto& [at, add] : std::vector<std::pair<int, int>>{{16, -1}, {8, 1}}) {
    const std::string before = entry;
    entry[at] = static_cast<char>(entry[at] + add);
    if (at == 16) entry[24] = static_cast<char>(entry[24] + 1);
    sign();
    EXPECT_EQ(cache->Get("key b"), std::nullopt) << at;
    entry = before;
  }
}

TEST_F(CacheTest, WhatIsNoFileIsAMissAndIsReplaced) {
  const auto cache = Open();
  const std::string key = "key";
  ASSERT_TRUE(cache->Put(key, "right"));
  const std::string entry = ReadBytes(PathOf(key));
  fs::remove(PathOf(key));
  const fs::path outside = root_ / "outside";
  WriteBytes(outside, entry);
  const std::vector<std::pair<const char*, std::function<void(const fs::path&)>>> cases = {
      {"folder", [](const fs::path& p) { fs::create_directory(p); }},
      {"full folder", [](const fs::path& p) { fs::create_directories(p / "inside"); }},
      {"link to a sound file", [&](const fs::path& p) { fs::create_symlink(outside, p); }},
      {"link to nothing", [&](const fs::path& p) { fs::create_symlink("nowhere", p); }},
      {"link to itself", [&](const fs::path& p) { fs::create_symlink(p.filename(), p); }},
      {"pipe", [](const fs::path& p) { ASSERT_EQ(::mkfifo(p.c_str(), 0600), 0); }},
      {"file others may write", [&](const fs::path& p) {
         WriteBytes(p, entry);
         fs::permissions(p, fs::perms(0622));
       }}};
  for (const bool get_first : {true, false})
    for (const auto& [what, make] : cases) {
      fs::remove_all(PathOf(key));
      make(PathOf(key));
      if (get_first) {
        EXPECT_EQ(cache->Get(key), std::nullopt) << what;
        EXPECT_FALSE(fs::exists(fs::symlink_status(PathOf(key)))) << what << " is set aside";
      }
      EXPECT_TRUE(cache->Put(key, "right")) << what;
      EXPECT_EQ(cache->Get(key), "right") << what;
      EXPECT_EQ(ReadBytes(outside), entry) << what;
      EXPECT_LE(Names(".bad").size(), 4u);
      EXPECT_TRUE(Names(".tmp").empty()) << what;
    }
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(PathOf(key).c_str(), kNobody, kNobody), 0);
    EXPECT_EQ(cache->Get(key), std::nullopt) << "someone else's file";
  }
}

// A folder in the way that cannot be moved: the entry is not kept, and nothing is left over.
TEST_F(CacheTest, WhatCannotBeReplacedStays) {
  const auto cache = Open();
  fs::create_directories(PathOf("key") / "inside");
  for (int i = 0; i < 4; ++i) fs::create_directories(folder_ / ("tessera-" + std::to_string(i) + ".bad") / "inside");
  SetLogSink([](int, std::string_view) {});
  EXPECT_EQ(cache->Get("key"), std::nullopt);
  EXPECT_FALSE(cache->Put("key", "bytes"));
  EXPECT_EQ(cache->Get("key"), std::nullopt);
  EXPECT_TRUE(Names(".tmp").empty());
  EXPECT_TRUE(cache->Put("other", "bytes"));
}

TEST_F(CacheTest, RefusesFoldersThatOthersMayChange) {
  for (const int mode : {0770, 0720, 0702, 01777}) {
    ASSERT_EQ(::chmod(folder_.c_str(), mode), 0);
    EXPECT_EQ(WhyNot(folder_), folder_.string() + " may be written to by others; chmod 700 it");
  }
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  EXPECT_EQ(WhyNot(folder_), "opened") << "reading is harmless";

  const fs::path shared = root_ / "shared";
  fs::create_directory(shared);
  for (const int mode : {0777, 01777}) {
    ASSERT_EQ(::chmod(shared.c_str(), mode), 0);
    EXPECT_EQ(WhyNot(shared / "a" / "b"), (shared / "a/b").string() + " lies in a folder that everyone may write to");
    EXPECT_TRUE(fs::is_empty(shared)) << "nothing is left behind";
    fs::create_directory(shared / "mine");
    ASSERT_EQ(::chmod((shared / "mine").c_str(), 0700), 0);
    EXPECT_NE(WhyNot(shared / "mine").find("lies in a folder that everyone may write to"), std::string::npos);
    EXPECT_NE(WhyNot(shared / "mine" / "deep").find("lies in"), std::string::npos);
    // Whatever the way to it.
    fs::create_directory_symlink(shared / "mine", root_ / "link");
    EXPECT_NE(WhyNot(root_ / "link").find("lies in"), std::string::npos);
    EXPECT_NE(WhyNot(root_ / "link" / "deep").find("lies in"), std::string::npos);
    fs::remove(root_ / "link");
    fs::remove(shared / "mine");
  }
  const TempFolder temporary;
  if (fs::status("/tmp").permissions() == fs::perms(01777) && temporary.path().string().starts_with("/tmp/")) {
    EXPECT_NE(WhyNot(temporary.path()).find("lies in"), std::string::npos);
  }

  WriteBytes(root_ / "file", "");
  EXPECT_NE(WhyNot(root_ / "file").find("Not a directory"), std::string::npos);
  EXPECT_NE(WhyNot(root_ / "file" / "below").find("Not a directory"), std::string::npos);
  fs::create_directory_symlink("nowhere", root_ / "dangling");
  EXPECT_NE(WhyNot(root_ / "dangling"), "opened");
  EXPECT_EQ(WhyNot(""), "no folder is named");

  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(folder_.c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(WhyNot(folder_), folder_.string() + " belongs to another user");
  EXPECT_NE(WhyNot(folder_ / "sub").find("would be root's in a folder of another user"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(CacheTest, MakesTheFolderAndThoseAboveIt) {
  const auto deep = OpenAt(root_ / "x//y" / "z" / "");
  ASSERT_NE(deep, nullptr);
  EXPECT_TRUE(deep->Put("key", "bytes"));
  for (const char* made : {"x", "x/y", "x/y/z"})
    EXPECT_EQ(fs::status(root_ / made).permissions(), fs::perms(0700)) << made;
  fs::create_directory_symlink(root_ / "x/y", root_ / "link");
  EXPECT_EQ(OpenAt(root_ / "link/z")->Get("key"), "bytes") << "links on the way are the owner's business";

  // The open folder is what counts, not its name; and one that is gone keeps nothing.
  fs::rename(root_ / "x/y/z", root_ / "moved");
  EXPECT_EQ(deep->Get("key"), "bytes");
  fs::remove_all(root_ / "moved");
  EXPECT_EQ(deep->Get("key"), std::nullopt);
  EXPECT_FALSE(deep->Put("key", "bytes"));

  const fs::path before = fs::current_path();
  fs::current_path(root_);
  const auto relative = OpenAt("r/s");
  fs::current_path(before);
  EXPECT_TRUE(relative->Put("key", "relative"));
  EXPECT_EQ(OpenAt(root_ / "r/s")->Get("key"), "relative");
}

// With the rights of an ordinary user, whoever runs the test.
TEST_F(CacheTest, ReadOnlyFolderAndUnreadableFile) {
  const auto cache = Open();
  for (const char* key : {"sound", "damaged", "unreadable"}) ASSERT_TRUE(cache->Put(key, "bytes"));
  WriteBytes(PathOf("damaged"), "no entry");
  ASSERT_EQ(::chmod(PathOf("unreadable").c_str(), 0), 0);
  const bool root = ::geteuid() == 0;
  if (root) {
    ASSERT_EQ(::chown(folder_.c_str(), kNobody, kNobody), 0);
    for (const std::string& name : Names()) ASSERT_EQ(::chown((folder_ / name).c_str(), kNobody, kNobody), 0);
  }
  ASSERT_EQ(::chmod(folder_.c_str(), 0500), 0);
  const auto as_user = [&](const std::function<int()>& body) {
    return ExitCode(Fork([&] {
      if (root && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) return 99;
      return body();
    }));
  };
  EXPECT_EQ(as_user([&] {
              if (cache->Get("sound") != "bytes") return 1;
              if (cache->Get("damaged") || cache->Get("damaged") || cache->Get("unreadable")) return 2;
              if (cache->Put("sound", "new") || cache->Put("more", "new")) return 3;
              return cache->Get("sound") == "bytes" ? 0 : 4;
            }),
            0);
  EXPECT_EQ(Names().size(), 3u);
  ASSERT_EQ(::chmod(folder_.c_str(), 0700), 0);
  EXPECT_EQ(as_user([&] {
              if (cache->Get("unreadable")) return 1;
              if (!cache->Put("unreadable", "new")) return 2;
              return cache->Get("unreadable") == "new" ? 0 : 3;
            }),
            0);
}

TEST_F(CacheTest, FaultsAreMisses) {
  const auto cache = Open();
  std::vector<std::string> lines;
  SetLogSink([&](int, std::string_view line) { lines.emplace_back(line); });
  // An entry has four parts to read and to write: header, key, payload, checksum.
  for (int nth = 1; nth <= 4; ++nth) {
    ASSERT_TRUE(cache->Put("key", "old"));
    ArmFault(Fault::file_write, nth);
    EXPECT_FALSE(cache->Put("key", "new")) << nth;
    EXPECT_EQ(cache->Get("key"), "old") << nth;
    EXPECT_TRUE(Names(".tmp").empty()) << nth;
    ArmFault(Fault::file_read, nth);
    EXPECT_EQ(cache->Get("key"), std::nullopt) << nth;
    DisarmFaults();
  }
  ASSERT_TRUE(cache->Put("key", "old"));
  EXPECT_EQ(ExitCode(Fork([&] {
              const rlimit none = {0, 0};
              if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
              return cache->Get("key") || cache->Put("key", "new") ? 2 : 0;
            })),
            0);
  EXPECT_EQ(cache->Get("key"), "old") << "too many open files say nothing about this one";
  ArmFault(Fault::file_open, 1, -1);
  EXPECT_FALSE(cache->Put("key", "new"));
  EXPECT_EQ(cache->Get("key"), std::nullopt);
  EXPECT_FALSE(Cache::Open(folder_, kLarge).ok());
  DisarmFaults();
  // Where a fault meets the trimming, the entry is kept all the same.
  const auto fresh = Open();
  ArmFault(Fault::file_open, 2);
  EXPECT_TRUE(fresh->Put("key", "kept"));
  DisarmFaults();
  EXPECT_EQ(fresh->Get("key"), "kept");
  EXPECT_EQ(lines,
            (std::vector<std::string>{"code cache: cannot write to " + folder_.string() + ": No space left on device"}))
      << "once";
}

TEST_F(CacheTest, NoMemoryIsAMissAndTheEntryStays) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer needs the address space";
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "the sanitizer needs the address space";
#endif
#endif
  const auto cache = Open();
  const std::string large(32 << 20, 'x');
  ASSERT_TRUE(cache->Put("large", large));
  EXPECT_EQ(ExitCode(Fork([&] {
              int64_t pages = 0;
              std::ifstream("/proc/self/statm") >> pages;
              const rlim_t most = static_cast<rlim_t>(pages) * static_cast<rlim_t>(::getpagesize()) + (16 << 20);
              const rlimit limit = {most, most};
              if (::setrlimit(RLIMIT_AS, &limit) != 0) return 1;
              // What the heap still has would be enough.
              static void* volatile last = nullptr;
              do last = std::malloc(8 << 20);
              while (last != nullptr);
              if (cache->Get("large")) return 2;
              if (!cache->Put("again", large)) return 3;  // takes no memory
              return 0;
            })),
            0);
  EXPECT_EQ(cache->Get("large"), large);
  EXPECT_EQ(cache->Get("again"), large);
}

TEST_F(CacheTest, LeastRecentlyUsedGoFirst) {
  constexpr int64_t kBlock = 4096;
  const auto fill = Open();
  std::vector<int> order(60);
  for (int i = 0; i < 60; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  const auto key = [](int i) { return "key " + std::to_string(i); };
  // Rank 0 was used last; one block each.
  for (int rank = 0; rank < 60; ++rank) {
    ASSERT_TRUE(fill->Put(key(order[rank]), "bytes"));
    SetAge(PathOf(key(order[rank])), 3600 * (rank + 1));
  }
  EXPECT_EQ(fill->Get(key(order[59])), "bytes");
  EXPECT_LE(AgeOf(PathOf(key(order[59]))), 60) << "a hit makes it the latest";
  SetAge(PathOf(key(order[0])), 300);
  EXPECT_EQ(fill->Get(key(order[0])), "bytes");
  EXPECT_GE(AgeOf(PathOf(key(order[0]))), 299) << "but marks it no more than once in ten minutes";
  WriteBytes(folder_ / "notes.txt", std::string(100 * kBlock, 'n'));
  WriteBytes(folder_ / "abc.entry", "not ours");
  WriteBytes(folder_ / "tessera-2.bad", "bad");

  const int64_t evictions = CountOf(Metric::cache_evictions);
  const auto cache = Open(40 * kBlock);
  EXPECT_EQ(cache->Get(key(order[1])), "bytes") << "opening removes nothing";
  ASSERT_TRUE(cache->Put("new", "bytes"));
  // 62 blocks: the bad file goes, then the oldest, until 36 are left: the new one, the touched one and ranks 0 to 33.
  EXPECT_EQ(CountOf(Metric::cache_evictions) - evictions, 25);
  EXPECT_TRUE(fs::exists(PathOf("new")));
  for (int rank = 0; rank < 60; ++rank)
    EXPECT_EQ(fs::exists(PathOf(key(order[rank]))), rank <= 33 || rank == 59) << rank;
  EXPECT_TRUE(fs::exists(folder_ / "notes.txt")) << "foreign files are neither counted nor touched";
  EXPECT_TRUE(fs::exists(folder_ / "abc.entry"));
  EXPECT_FALSE(fs::exists(folder_ / "tessera-2.bad"));
}

TEST_F(CacheTest, TheLimitHolds) {
  constexpr int64_t kLimit = 512 << 10;
  const auto cache = Open(kLimit);
  EXPECT_FALSE(cache->Put("large", std::string(kLimit / 2, 'x'))) << "more than half of it";
  EXPECT_TRUE(cache->Put("less", std::string(kLimit / 2 - 4096, 'x')));
  std::mt19937_64 rng(6);
  for (int i = 0; i < 200; ++i) {
    const std::string key = std::to_string(i), bytes = Made(rng(), 20000);
    ASSERT_TRUE(cache->Put(key, bytes));
    ASSERT_EQ(cache->Get(key), bytes) << "the latest is not what goes";
    ASSERT_LE(BytesOnDisk(), kLimit + kLimit / 16);
  }
  EXPECT_GE(BytesOnDisk(), kLimit / 2) << "nor is all";
  for (const int64_t none : {int64_t{0}, int64_t{-5}}) EXPECT_FALSE(Open(none)->Put("key", ""));
}

TEST_F(CacheTest, LeftoversOfKilledProcessesAreSwept) {
  const std::string old = "tessera-0123456789abcdef.tmp", young = "tessera-00000000000000ff.tmp",
                    ahead = "tessera-0000000000000aaa.tmp", foreign = "tessera-mine.tmp";
  for (const std::string& name : {old, young, ahead, foreign}) WriteBytes(folder_ / name, "half");
  SetAge(folder_ / old, 3700);
  SetAge(folder_ / young, 3000);
  SetAge(folder_ / ahead, -7200);
  SetAge(folder_ / foreign, 100000);
  ASSERT_TRUE(Open()->Put("key", "bytes"));
  EXPECT_EQ(Names(".tmp"), (std::set<std::string>{young, foreign}));
}

TEST_F(CacheTest, SixteenProcessesAtOnce) {
  constexpr size_t kMost = 6000;
  std::vector<pid_t> children;
  for (int p = 0; p < 16; ++p)
    children.push_back(Fork([&, p] {
      auto cache = Cache::Open(folder_, kLarge);
      if (!cache.ok()) return 1;
      std::mt19937_64 rng(p);
      for (int i = 0; i < 60; ++i) {
        // One key that all write, each time other bytes; keys that several write alike; keys of its own.
        if (i % 4 == 0 && !(*cache)->Put("one", Made(rng(), kMost))) return 2;
        const auto one = (*cache)->Get("one");
        if (!one || !IsWhole(*one, kMost)) return 3;
        const uint64_t n = rng() % 20;
        const std::string key = "many " + std::to_string(n), expected = Made(n, kMost);
        const auto many = (*cache)->Get(key);
        if (many && *many != expected) return 4;
        if (!many && !(*cache)->Put(key, expected)) return 5;
        const std::string mine = "mine " + std::to_string(p) + " " + std::to_string(i % 3), bytes = Made(rng(), kMost);
        if (i % 5 == 0 && (!(*cache)->Put(mine, bytes) || (*cache)->Get(mine) != bytes)) return 6;
      }
      return 0;
    }));
  for (const pid_t child : children) EXPECT_EQ(ExitCode(child), 0);
  const auto cache = Open();
  EXPECT_TRUE(IsWhole(*cache->Get("one"), kMost));
  EXPECT_TRUE(Names(".tmp").empty());
  EXPECT_TRUE(Names(".bad").empty()) << "nobody ever saw a damaged file";
}

TEST_F(CacheTest, AWriterKilledAtAnyMomentLeavesAllOrNothing) {
  constexpr size_t kMost = 300'000;
  const auto cache = Open();
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* written = new (page) std::atomic<int>(0);  // by the writer of this round
  std::mt19937_64 rng(7);
  std::set<std::string> found;
  for (int round = 0; round < 60; ++round) {
    const uint64_t seed = rng();
    *written = 0;
    const pid_t writer = Fork([&] {
      std::mt19937_64 own(seed);
      for (;; ++*written) cache->Put(own() % 2 ? "a" : "b", Made(own(), kMost));
      return 0;
    });
    const auto look = [&] {
      for (const char* key : {"a", "b"})
        if (const auto bytes = cache->Get(key)) {
          EXPECT_TRUE(IsWhole(*bytes, kMost));
          found.insert(bytes->substr(0, 8));
        }
    };
    for (const int some = static_cast<int>(rng() % 3); *written < some;) look();
    for (const int64_t until = NowNs() + static_cast<int64_t>(rng() % 8'000'000); NowNs() < until;) look();
    ::kill(writer, SIGKILL);
    EXPECT_EQ(ExitCode(writer), 1000 + SIGKILL);
    look();
  }
  ::munmap(page, 4096);
  EXPECT_GT(found.size(), 20u);
  EXPECT_TRUE(Names(".bad").empty());
  for (const std::string& name : Names(".tmp")) SetAge(folder_ / name, 4000);
  ASSERT_TRUE(Open()->Put("c", "bytes"));
  EXPECT_TRUE(Names(".tmp").empty());
}

TEST_F(CacheTest, ProcessesEvictTogether) {
  constexpr int64_t kLimit = 512 << 10;
  constexpr int kProcesses = 4;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p)
    children.push_back(Fork([&, p] {
      const auto cache = Cache::Open(folder_, kLimit);
      if (!cache.ok()) return 1;
      std::mt19937_64 rng(p);
      for (int i = 0; i < 150; ++i) {
        const uint64_t n = rng() % 200;
        const auto bytes = (*cache)->Get(std::to_string(n));
        if (bytes && *bytes != Made(n, 20000)) return 2;
        if (!bytes && !(*cache)->Put(std::to_string(n), Made(n, 20000))) return 3;
      }
      return 0;
    }));
  for (const pid_t child : children) EXPECT_EQ(ExitCode(child), 0);
  EXPECT_LE(BytesOnDisk(), kLimit + kProcesses * kLimit / 16);
  EXPECT_GE(BytesOnDisk(), kLimit / 2) << "together they remove no more than one would";
  EXPECT_TRUE(Names(".bad").empty());
}

TEST_F(CacheTest, ThreadsShareOne) {
  const auto cache = Open(512 << 10);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 rng(t);
      for (int i = 0; i < 60; ++i) {
        const uint64_t n = rng() % 100;
        const auto bytes = cache->Get(std::to_string(n));
        if (bytes)
          EXPECT_EQ(*bytes, Made(n, 20000));
        else
          EXPECT_TRUE(cache->Put(std::to_string(n), Made(n, 20000)));
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_LE(BytesOnDisk(), (512 << 10) * 3 / 2);
  EXPECT_TRUE(Names(".tmp").empty());
}

// The cache of the process follows the options.
TEST_F(CacheTest, OptionsChooseTheCache) {
  struct Variable {
    explicit Variable(const char* n) : name(n) {
      if (const char* text = std::getenv(n)) before = text;
    }
    ~Variable() {
      if (before)
        ::setenv(name, before->c_str(), 1);
      else
        ::unsetenv(name);
    }
    const char* name;
    std::optional<std::string> before;
  };
  const Variable restore_xdg("XDG_CACHE_HOME"), restore_home("HOME");
  std::vector<std::string> before;
  for (const char* name : {"cache", "cache_dir", "cache_limit"}) before.push_back(*options().Get(name));
  std::vector<std::string> lines;
  SetLogSink([&](int, std::string_view line) { lines.emplace_back(line); });
  const auto set = [](const char* name, const std::string& text) {
    // Away and back: what the environment says is looked at when an option changes.
    ASSERT_TRUE(options().Set("cache_limit", "1048576").ok());
    ASSERT_TRUE(options().Set(name, text).ok());
    CodeCache();
    ASSERT_TRUE(options().Set("cache_limit", "2097152").ok());
  };

  ASSERT_TRUE(options().Set("cache_dir", "").ok());  // not the cache of whoever runs this
  set("cache", "true");
  set("cache_dir", folder_.string());
  ASSERT_NE(CodeCache(), nullptr);
  EXPECT_EQ(CodeCache()->folder(), folder_.string());
  EXPECT_EQ(CodeCache()->limit_bytes(), 2 << 20);
  EXPECT_EQ(CodeCache(), CodeCache());
  EXPECT_TRUE(CodeCache()->Put("key", "bytes"));
  set("cache", "false");
  EXPECT_EQ(CodeCache(), nullptr);
  set("cache", "true");
  EXPECT_EQ(CodeCache()->Get("key"), "bytes");
  set("cache_dir", "");
  EXPECT_EQ(CodeCache(), nullptr);

  ::setenv("XDG_CACHE_HOME", (root_ / "xdg").c_str(), 1);
  ::setenv("HOME", (root_ / "home").c_str(), 1);
  set("cache_dir", "auto");
  ASSERT_NE(CodeCache(), nullptr);
  EXPECT_EQ(CodeCache()->folder(), (root_ / "xdg/tessera").string());
  for (const char* useless : {"", "relative/path"}) {
    ::setenv("XDG_CACHE_HOME", useless, 1);
    set("cache_dir", "auto");
    EXPECT_EQ(CodeCache()->folder(), (root_ / "home/.cache/tessera").string());
  }
  EXPECT_TRUE(lines.empty());
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  set("cache_dir", "auto");
  EXPECT_EQ(CodeCache(), nullptr);
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  set("cache_dir", folder_.string());
  EXPECT_EQ(CodeCache(), nullptr);
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "the code cache is off: neither XDG_CACHE_HOME nor HOME names a folder; option cache_dir can",
                       "the code cache is off: " + folder_.string() + " may be written to by others; chmod 700 it"}));
  EXPECT_TRUE(options().Set("cache", before[0]).ok());
  EXPECT_TRUE(options().Set("cache_dir", before[1]).ok());
  EXPECT_TRUE(options().Set("cache_limit", before[2]).ok());
}

}  // namespace
}  // namespace tessera::rt
