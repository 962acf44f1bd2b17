// safetensors: eight bytes with the length of a header, the header in JSON, then the elements of all tensors.
#include <algorithm>
#include <cstring>

#include "tessera/data.h"
#include "train/files.h"
#include "train/json.h"

namespace tessera::data {

using train::Bytes;
using train::Json;

namespace {

constexpr uint64_t kMostHeader = 100'000'000;
constexpr size_t kMostRank = 8;

struct Row {
  DType dtype;
  std::string_view name;
};
constexpr Row kTypes[] = {{f64, "F64"},        {f32, "F32"},        {f16, "F16"},     {bf16, "BF16"},
                          {f8e4m3, "F8_E4M3"}, {f8e5m2, "F8_E5M2"}, {i64, "I64"},     {i32, "I32"},
                          {i8, "I8"},          {u8, "U8"},          {boolean, "BOOL"}};

Status Damaged(const std::string& what) { return Status(Code::data_loss, "not a readable safetensors file: " + what); }

std::string Shown(std::string_view name) { return train::Quoted(name.substr(0, 60)); }

struct Entry {
  std::string_view name;
  DType dtype;
  std::vector<int64_t> dims;
  uint64_t begin, end;
};

Status ReadEntry(const std::string& name, const Json& json, uint64_t size, Entry* entry) {
  const Json *dtype = json.find("dtype"), *shape = json.find("shape"), *offsets = json.find("data_offsets");
  if (dtype == nullptr || dtype->kind != Json::Kind::string || shape == nullptr || shape->kind != Json::Kind::array ||
      offsets == nullptr || offsets->kind != Json::Kind::array || offsets->items.size() != 2 || json.keys.size() != 3)
    return Damaged("tensor " + Shown(name) + " has not just dtype, shape and data_offsets");
  const auto row =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Row& r) { return r.name == dtype->string; });
  if (row == std::end(kTypes))
    return Status(Code::unsupported,
                  "tensor " + Shown(name) + " is of type " + Shown(dtype->string) + ", which Tessera does not have");
  if (shape->items.size() > kMostRank)
    return Status(Code::unsupported, "tensor " + Shown(name) + " has a rank above " + std::to_string(kMostRank));
  entry->name = name;
  entry->dtype = row->dtype;
  uint64_t bytes = SizeOf(row->dtype);
  for (const Json& d : shape->items) {
    if (d.kind != Json::Kind::integer || d.integer < 0) return Damaged("a dim of " + Shown(name) + " is none");
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(d.integer), &bytes))
      return Damaged("the shape of " + Shown(name) + " is too large");
    entry->dims.push_back(d.integer);
  }
  for (const Json& o : offsets->items)
    if (o.kind != Json::Kind::integer || o.integer < 0) return Damaged("an offset of " + Shown(name) + " is none");
  entry->begin = static_cast<uint64_t>(offsets->items[0].integer);
  entry->end = static_cast<uint64_t>(offsets->items[1].integer);
  if (entry->begin > entry->end || entry->end > size)
    return Damaged("tensor " + Shown(name) + " lies outside the file");
  if (entry->end - entry->begin != bytes)
    return Damaged("tensor " + Shown(name) + " has " + std::to_string(entry->end - entry->begin) +
                   " bytes where its shape needs " + std::to_string(bytes));
  return {};
}

}  // namespace

Status save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata)
      header += (header.back() == '{' ? "" : ",") + train::Quoted(key) + ":" + train::Quoted(value);
    header += "}";
  }
  std::vector<std::vector<std::byte>> values;
  uint64_t at = 0;
  // Large elements first, so that all begin where their type wants it.
  std::vector<const std::pair<const std::string, Tensor>*> order;
  for (const auto& named : tensors) {
    if (!named.second.defined())
      return Status(Code::invalid_argument, "save_safetensors: tensor " + Shown(named.first) + " is an empty handle");
    if (named.first == "__metadata__")
      return Status(Code::invalid_argument, "save_safetensors: no tensor may be named __metadata__");
    order.push_back(&named);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const size_t x = SizeOf(a->second.dtype()), y = SizeOf(b->second.dtype());
    return x != y ? x > y : a->first < b->first;
  });
  try {
    for (const auto* named : order) {
      const Tensor& x = named->second;
      const Row& row =
          *std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Row& r) { return r.dtype == x.dtype(); });
      values.push_back(x.to_bytes());
      header += (header.back() == '{' ? "" : ",") + train::Quoted(named->first) + ":{\"dtype\":\"" +
                std::string(row.name) + "\",\"shape\":[";
      for (const int64_t d : x.dims()) header += (header.back() == '[' ? "" : ",") + std::to_string(d);
      header += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(at + values.back().size()) + "]}";
      at += values.back().size();
    }
  } catch (const Error& e) {
    return e.status();
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > kMostHeader)
    return Status(Code::resource_exhausted, "save_safetensors: the header would be larger than the format allows");
  std::string prefix;
  train::AppendLittle(&prefix, static_cast<uint64_t>(header.size()));
  std::vector<Bytes> parts = {train::BytesOf(prefix), train::BytesOf(header)};
  for (const auto& v : values) parts.emplace_back(v);
  return train::WriteWhole(path, parts);
}

Result<TensorFile> parse_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < 8) return Damaged("it has no header");
  const auto length = train::ReadLittle<uint64_t>(bytes.data());
  if (length > kMostHeader) return Damaged("its header has " + std::to_string(length) + " bytes; 100 MB are the most");
  if (length > bytes.size() - 8) return Damaged("it ends within its header");
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + 8, length);
  if (header.empty() || header[0] != '{') return Damaged("its header does not begin with '{'");
  auto json = train::ParseJson(header);
  if (!json.ok()) return Damaged("its header is " + json.status().message());
  const Bytes data = bytes.subspan(8 + length);

  TensorFile file;
  std::vector<Entry> entries;
  for (size_t i = 0; i < json->keys.size(); ++i) {
    const std::string& name = json->keys[i];
    const Json& value = json->items[i];
    if (name == "__metadata__") {
      if (value.kind != Json::Kind::object) return Damaged("its metadata is no object");
      for (size_t k = 0; k < value.keys.size(); ++k) {
        if (value.items[k].kind != Json::Kind::string) return Damaged("its metadata is not text");
        file.metadata[value.keys[k]] = value.items[k].string;
      }
      continue;
    }
    if (const Status status = ReadEntry(name, value, data.size(), &entries.emplace_back()); !status.ok()) return status;
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t at = 0;
  for (const Entry& e : entries) {
    if (e.begin < at) return Damaged("tensor " + Shown(e.name) + " overlaps another");
    if (e.begin > at) return Damaged("there is a hole before tensor " + Shown(e.name));
    at = e.end;
  }
  if (at != data.size()) return Damaged("there is something after the last tensor");
  try {
    for (const Entry& e : entries) {
      const Bytes part = data.subspan(e.begin, e.end - e.begin);
      Tensor x = Tensor::from_bytes(part, e.dtype == boolean ? u8 : e.dtype, e.dims);
      file.tensors[std::string(e.name)] = e.dtype == boolean ? x.cast(boolean) : x;
    }
  } catch (const Error& e) {
    return e.status();
  }
  return file;
}

Result<TensorFile> load_safetensors(const std::string& path) {
  auto file = train::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  auto parsed = parse_safetensors((*file)->bytes());
  if (!parsed.ok()) return Status(parsed.status().code(), path + ": " + parsed.status().message());
  return parsed;
}

}  // namespace tessera::data
