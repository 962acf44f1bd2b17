// NumPy's .npz: a zip archive of .npy files. Only stored entries, which is what np.savez writes.
#include <algorithm>
#include <cstring>

#include "tessera/data.h"
#include "tessera/ops.h"
#include "train/files.h"
#include "train/npy.h"

namespace tessera::data {

using train::AppendLittle;
using train::Bytes;
using train::ReadLittle;

namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22;
constexpr uint64_t kMostEntries = 100'000;
constexpr uint64_t k32 = 0xffffffff;

Status Damaged(const std::string& what) { return Status(Code::data_loss, "not a readable .npz file: " + what); }

struct Entry {
  std::string name;
  uint64_t begin = 0, size = 0;  // of the contents, in the file
  uint32_t crc = 0;
};

struct Directory {
  uint64_t count = 0, size = 0, begin = 0;
};

Status FindDirectory(Bytes file, Directory* out) {
  if (file.size() < kEndSize) return Damaged("it is too short for an archive");
  // Its record is the last one but for a comment of at most 64 KiB.
  const size_t first = file.size() - kEndSize, last = first > 0xffff ? first - 0xffff : 0;
  size_t at = first;
  while (ReadLittle<uint32_t>(&file[at]) != kEnd) {
    if (at == last) return Damaged("it has no directory");
    --at;
  }
  out->count = ReadLittle<uint16_t>(&file[at + 10]);
  out->size = ReadLittle<uint32_t>(&file[at + 12]);
  out->begin = ReadLittle<uint32_t>(&file[at + 16]);
  if (out->count == 0xffff || out->size == k32 || out->begin == k32) {
    if (at < 20 || ReadLittle<uint32_t>(&file[at - 20]) != kLocator64) return Damaged("it has no directory");
    const auto record = ReadLittle<uint64_t>(&file[at - 12]);
    if (record > file.size() || file.size() - record < 56 || ReadLittle<uint32_t>(&file[record]) != kEnd64)
      return Damaged("it has no directory");
    out->count = ReadLittle<uint64_t>(&file[record + 32]);
    out->size = ReadLittle<uint64_t>(&file[record + 40]);
    out->begin = ReadLittle<uint64_t>(&file[record + 48]);
  }
  if (out->begin > file.size() || out->size > file.size() - out->begin) return Damaged("its directory lies outside it");
  if (out->count > kMostEntries) return Damaged("it names " + std::to_string(out->count) + " entries");
  return {};
}

// The values of an entry that do not fit in 32 bits, in the order in which they are wanted.
Status Wide(Bytes extra, std::initializer_list<uint64_t*> wanted) {
  while (extra.size() >= 4) {
    const auto id = ReadLittle<uint16_t>(&extra[0]);
    const size_t size = ReadLittle<uint16_t>(&extra[2]);
    if (size > extra.size() - 4) break;
    if (id == 1) {
      size_t at = 4;
      for (uint64_t* value : wanted) {
        if (*value != k32) continue;
        if (at + 8 > 4 + size) return Damaged("an entry lacks its size");
        *value = ReadLittle<uint64_t>(&extra[at]);
        at += 8;
      }
      return {};
    }
    extra = extra.subspan(4 + size);
  }
  for (const uint64_t* value : wanted)
    if (*value == k32) return Damaged("an entry lacks its size");
  return {};
}

Status ReadEntries(Bytes file, const Directory& directory, std::vector<Entry>* entries) {
  Bytes rest = file.subspan(directory.begin, directory.size);
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (rest.size() < kCentralSize || ReadLittle<uint32_t>(&rest[0]) != kCentral)
      return Damaged("its directory ends early");
    const auto flags = ReadLittle<uint16_t>(&rest[8]), method = ReadLittle<uint16_t>(&rest[10]);
    uint64_t packed = ReadLittle<uint32_t>(&rest[20]), size = ReadLittle<uint32_t>(&rest[24]);
    const size_t name_size = ReadLittle<uint16_t>(&rest[28]), extra_size = ReadLittle<uint16_t>(&rest[30]);
    const size_t comment_size = ReadLittle<uint16_t>(&rest[32]);
    uint64_t local = ReadLittle<uint32_t>(&rest[42]);
    if (rest.size() - kCentralSize < name_size + extra_size + comment_size) return Damaged("its directory ends early");
    Entry entry;
    entry.name = std::string(reinterpret_cast<const char*>(&rest[0]) + kCentralSize, name_size);
    entry.crc = ReadLittle<uint32_t>(&rest[16]);
    // NumPy, too, wants them in the order of the format: size, packed size, place.
    if (const Status s = Wide(rest.subspan(kCentralSize + name_size, extra_size), {&size, &packed, &local}); !s.ok())
      return s;
    rest = rest.subspan(kCentralSize + name_size + extra_size + comment_size);
    if ((flags & 1) != 0) return Status(Code::unsupported, "an .npz entry is encrypted");
    if (method != 0)
      return Status(Code::unsupported, "an .npz entry is compressed; np.savez writes entries that can be read here");
    if (packed != size) return Damaged("a stored entry has two sizes");
    if (local > file.size() || file.size() - local < kLocalSize || ReadLittle<uint32_t>(&file[local]) != kLocal)
      return Damaged("an entry lies outside it");
    const uint64_t skip =
        kLocalSize + ReadLittle<uint16_t>(&file[local + 26]) + ReadLittle<uint16_t>(&file[local + 28]);
    if (file.size() - local < skip || file.size() - local - skip < size) return Damaged("an entry lies outside it");
    entry.begin = local + skip;
    entry.size = size;
    entries->push_back(std::move(entry));
  }
  return {};
}

}  // namespace

Status save_npz(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  std::vector<std::string> headers;
  std::vector<std::vector<std::byte>> values;
  headers.reserve(2 * tensors.size());
  std::vector<Bytes> parts;
  std::string central;
  uint64_t at = 0;
  for (const auto& [name, x] : tensors) {
    if (!x.defined()) return Status(Code::invalid_argument, "save_npz: " + name + " is an empty handle");
    if (name.empty() || name.size() > 60000)
      return Status(Code::invalid_argument, "save_npz: a name is empty or too long");
    auto npy = train::NpyHeader(x.dtype(), x.dims());
    if (!npy.ok()) return Status(npy.status().code(), "save_npz: " + name + ": " + npy.status().message());
    try {
      values.push_back(x.to_bytes());
    } catch (const Error& e) {
      return e.status();
    }
    const std::string file = name + ".npy";
    const uint64_t size = npy->size() + values.back().size();
    if (size >= k32 || at >= k32 - size - 100000)
      return Status(Code::unsupported, "save_npz: " + name + " lies beyond 4 GiB; save_safetensors has no such limit");
    const uint32_t crc = train::Crc32(values.back(), train::Crc32(train::BytesOf(*npy)));
    const auto common = [&](std::string* out) {
      AppendLittle<uint16_t>(out, 20);          // version that can read it
      AppendLittle<uint16_t>(out, 0x800);       // names are UTF-8
      AppendLittle<uint16_t>(out, 0);           // stored
      AppendLittle<uint32_t>(out, 0x00210000);  // 1980-01-01: the same tensors give the same file
      AppendLittle<uint32_t>(out, crc);
      AppendLittle(out, static_cast<uint32_t>(size));
      AppendLittle(out, static_cast<uint32_t>(size));
      AppendLittle(out, static_cast<uint16_t>(file.size()));
      AppendLittle<uint16_t>(out, 0);
    };
    std::string local;
    AppendLittle(&local, kLocal);
    common(&local);
    local += file;
    AppendLittle(&central, kCentral);
    AppendLittle<uint16_t>(&central, 20);
    common(&central);
    central.append(10, '\0');  // comment, disk, attributes
    AppendLittle(&central, static_cast<uint32_t>(at));
    central += file;
    at += local.size() + size;
    headers.push_back(local + *npy);
    parts.push_back(train::BytesOf(headers.back()));
    parts.emplace_back(values.back());
  }
  if (tensors.size() >= 0xffff) return Status(Code::unsupported, "save_npz: at most 65534 arrays");
  std::string end;
  AppendLittle(&end, kEnd);
  AppendLittle<uint32_t>(&end, 0);
  AppendLittle(&end, static_cast<uint16_t>(tensors.size()));
  AppendLittle(&end, static_cast<uint16_t>(tensors.size()));
  AppendLittle(&end, static_cast<uint32_t>(central.size()));
  AppendLittle(&end, static_cast<uint32_t>(at));
  AppendLittle<uint16_t>(&end, 0);
  parts.push_back(train::BytesOf(central));
  parts.push_back(train::BytesOf(end));
  return train::WriteWhole(path, parts);
}

Result<TensorFile> parse_npz(std::span<const std::byte> bytes) {
  Directory directory;
  std::vector<Entry> entries;
  if (Status s = FindDirectory(bytes, &directory); !s.ok()) return s;
  if (Status s = ReadEntries(bytes, directory, &entries); !s.ok()) return s;
  // Entries that share bytes make a small file unfold to a large one.
  std::vector<const Entry*> order;
  for (const Entry& e : entries) order.push_back(&e);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->begin < b->begin; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->begin - order[i - 1]->begin < order[i - 1]->size) return Damaged("two entries overlap");

  TensorFile file;
  for (const Entry& e : entries) {
    const Bytes contents = bytes.subspan(e.begin, e.size);
    if (train::Crc32(contents) != e.crc) return Damaged("the checksum of an entry is wrong");
    auto x = parse_npy(contents);
    if (!x.ok()) return Status(x.status().code(), "an .npz entry is " + x.status().message());
    std::string name = e.name.ends_with(".npy") ? e.name.substr(0, e.name.size() - 4) : e.name;
    if (!file.tensors.emplace(std::move(name), *std::move(x)).second) return Damaged("two entries have one name");
  }
  return file;
}

Result<TensorFile> load_npz(const std::string& path) {
  auto file = train::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  auto parsed = parse_npz((*file)->bytes());
  if (!parsed.ok()) return Status(parsed.status().code(), path + ": " + parsed.status().message());
  return parsed;
}

}  // namespace tessera::data
