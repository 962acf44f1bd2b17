// Checkpoints: written so that a crash at any moment leaves the last good one.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tessera/data.h"
#include "tessera/debug.h"
#include "tessera/runtime.h"
#include "tessera/train.h"
#include "train/files.h"
#include "train/json.h"

namespace tessera::train {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "step-", kTemporary = ".writing-";
constexpr int64_t kVersion = 1;

Status Damaged(const std::string& path, const std::string& what) {
  return Status(Code::data_loss, "checkpoint " + path + ": " + what);
}

std::string NameOf(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%012lld", static_cast<long long>(step));
  return name;
}

/// The step in a name, or -1.
int64_t StepOf(const std::string& name) {
  if (!name.starts_with(kPrefix)) return -1;
  int64_t step = -1;
  const char *begin = name.data() + kPrefix.size(), *end = name.data() + name.size();
  const auto [last, error] = std::from_chars(begin, end, step);
  return error == std::errc() && last == end ? step : -1;
}

struct Sum {
  uint64_t bytes = 0;
  uint32_t crc = 0;
};
Result<Sum> SumOf(const std::string& path) {
  auto file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  return Sum{(*file)->bytes().size(), Crc32((*file)->bytes())};
}

std::string Manifest(int64_t step, const RandomState& random, const Numbers& numbers,
                     const std::vector<std::pair<std::string, Sum>>& files) {
  std::string text = "{\n  \"version\": " + std::to_string(kVersion) + ",\n  \"step\": " + std::to_string(step);
  // As text: readers may hold numbers as doubles.
  text += ",\n  \"random\": {\"seed\": \"" + std::to_string(random.seed) + "\", \"offset\": \"" +
          std::to_string(random.offset) + "\"},\n  \"numbers\": {";
  for (const auto& [name, value] : numbers)
    text += (text.back() == '{' ? "" : ", ") + Quoted(name) + ": " + std::to_string(value);
  text += "},\n  \"files\": {";
  for (const auto& [name, sum] : files)
    text += (text.back() == '{' ? "\n    " : ",\n    ") + Quoted(name) + ": {\"bytes\": " + std::to_string(sum.bytes) +
            ", \"crc32\": " + std::to_string(sum.crc) + "}";
  return text + "\n  }\n}\n";
}

/// Gives a folder its name. Where there is one of that name, from a run that came this far before, the two change
/// places in one step of the file system.
Status Install(const std::string& temporary, const std::string& path) {
  if (std::rename(temporary.c_str(), path.c_str()) == 0) return {};
  if (errno != ENOTEMPTY && errno != EEXIST) return FileError("rename to", path, errno);
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0)
    return FileError("rename to", path, errno);
  std::error_code error;
  fs::remove_all(temporary, error);
  return {};
}

bool ReadU64(const Json* json, uint64_t* out) {
  if (json == nullptr || json->kind != Json::Kind::string) return false;
  const auto [end, error] = std::from_chars(json->string.data(), json->string.data() + json->string.size(), *out);
  return error == std::errc() && end == json->string.data() + json->string.size();
}

struct Contents {
  int64_t step = 0;
  RandomState random;
  Numbers numbers;
  std::map<std::string, Tensor> model, optimizer;
  bool profile = false;
};

Status ReadManifest(const std::string& path, Contents* out, std::map<std::string, Sum>* files) {
  auto file = MappedFile::Open(path + "/manifest.json");
  if (!file.ok()) return Damaged(path, file.status().message());
  const Bytes bytes = (*file)->bytes();
  auto json = ParseJson({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!json.ok()) return Damaged(path, "its manifest is " + json.status().message());
  const Json *version = json->find("version"), *step = json->find("step"), *random = json->find("random");
  const Json *numbers = json->find("numbers"), *sums = json->find("files");
  if (version == nullptr || version->kind != Json::Kind::integer || step == nullptr ||
      step->kind != Json::Kind::integer || random == nullptr || numbers == nullptr || sums == nullptr)
    return Damaged(path, "its manifest lacks something");
  if (version->integer != kVersion)
    return Status(Code::unsupported, "checkpoint " + path + " is of version " + std::to_string(version->integer) +
                                         "; " + std::to_string(kVersion) + " can be read");
  out->step = step->integer;
  if (!ReadU64(random->find("seed"), &out->random.seed) || !ReadU64(random->find("offset"), &out->random.offset))
    return Damaged(path, "its manifest has no random state");
  for (size_t i = 0; i < numbers->keys.size(); ++i) {
    if (numbers->items[i].kind != Json::Kind::integer) return Damaged(path, "a number in its manifest is none");
    out->numbers[numbers->keys[i]] = numbers->items[i].integer;
  }
  for (size_t i = 0; i < sums->keys.size(); ++i) {
    const Json *size = sums->items[i].find("bytes"), *crc = sums->items[i].find("crc32");
    if (size == nullptr || crc == nullptr || size->integer < 0) return Damaged(path, "a checksum is missing");
    (*files)[sums->keys[i]] = {static_cast<uint64_t>(size->integer), static_cast<uint32_t>(crc->integer)};
  }
  return {};
}

Status Read(const std::string& path, Contents* out) {
  std::map<std::string, Sum> files;
  if (Status s = ReadManifest(path, out, &files); !s.ok()) return s;
  for (const char* needed : {"model.safetensors", "optimizer.safetensors"})
    if (!files.contains(needed)) return Damaged(path, "its manifest does not name " + std::string(needed));
  for (const auto& [name, want] : files) {
    if (name.find('/') != std::string::npos) return Damaged(path, "its manifest names a file elsewhere");
    auto have = SumOf(path + "/" + name);
    if (!have.ok()) return Damaged(path, have.status().message());
    if (have->bytes != want.bytes || have->crc != want.crc)
      return Damaged(path, "the checksum of " + name + " is wrong");
  }
  auto model = data::load_safetensors(path + "/model.safetensors");
  if (!model.ok()) return model.status();
  auto optimizer = data::load_safetensors(path + "/optimizer.safetensors");
  if (!optimizer.ok()) return optimizer.status();
  out->model = std::move(model->tensors);
  out->optimizer = std::move(optimizer->tensors);
  out->profile = files.contains("profile");
  return {};
}

Status Fits(const std::string& path, const std::map<std::string, Tensor>& model, const std::vector<nn::Param>& params) {
  if (model.size() != params.size())
    return Status(Code::invalid_argument, "checkpoint " + path + " has " + std::to_string(model.size()) +
                                              " parameters, the model " + std::to_string(params.size()));
  for (const nn::Param& p : params) {
    const auto it = model.find(p->name);
    if (it == model.end()) return Status(Code::invalid_argument, "checkpoint " + path + " has no parameter " + p->name);
    if (it->second.dims() != p->value.dims() || it->second.dtype() != p->value.dtype())
      return Status(Code::invalid_argument,
                    "checkpoint " + path + ": " + p->name + " has another type or shape than in the model");
  }
  return {};
}

}  // namespace

Checkpoints::Checkpoints(std::string folder, CheckpointOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {}

std::vector<std::string> Checkpoints::list() const {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error))
    if (const int64_t step = StepOf(it->path().filename().string()); step >= 0)
      found.emplace_back(step, it->path().string());
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

Status Checkpoints::save(const nn::Params& params, const optim::Optimizer& optimizer, const Numbers& numbers) {
  const TraceSpan span("checkpoint");
  const std::string name = NameOf(optimizer.steps()), path = folder_ + "/" + name;
  const std::string temporary = folder_ + "/" + std::string(kTemporary) + name;
  const auto before = [&](const char* step) { return options_.fault ? options_.fault(step) : Status(); };
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return FileError("make", folder_, error.value());
  // What a process that ended within save() left behind.
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().starts_with(kTemporary)) fs::remove_all(it->path(), error);

  const auto write = [&]() -> Status {
    if (Status s = before("make_folder"); !s.ok()) return s;
    if (!fs::create_directory(temporary, error)) return FileError("make", temporary, error.value());
    std::map<std::string, Tensor> model;
    for (const nn::Param& p : params.all()) model[p->name] = p->value;
    if (Status s = before("write_model"); !s.ok()) return s;
    if (Status s = data::save_safetensors(temporary + "/model.safetensors", model); !s.ok()) return s;
    if (Status s = before("write_optimizer"); !s.ok()) return s;
    if (Status s = data::save_safetensors(temporary + "/optimizer.safetensors", optimizer.state()); !s.ok()) return s;
    std::vector<std::string> files = {"model.safetensors", "optimizer.safetensors"};
    if (options_.profile) {
      if (Status s = before("write_profile"); !s.ok()) return s;
      // A run without versions has nothing to write, which is no reason to lose a checkpoint.
      if (Runtime::save_profile(temporary + "/profile").ok()) files.push_back("profile");
    }
    std::vector<std::pair<std::string, Sum>> sums;
    for (const std::string& file : files) {
      auto sum = SumOf(temporary + "/" + file);
      if (!sum.ok()) return sum.status();
      sums.emplace_back(file, *sum);
    }
    if (Status s = before("write_manifest"); !s.ok()) return s;
    const std::string manifest = Manifest(optimizer.steps(), random_state(), numbers, sums);
    if (Status s = WriteSynced(temporary + "/manifest.json", {BytesOf(manifest)}); !s.ok()) return s;
    if (Status s = before("sync_folder"); !s.ok()) return s;
    if (Status s = SyncFolder(temporary); !s.ok()) return s;
    if (Status s = before("rename"); !s.ok()) return s;
    return Install(temporary, path);
  };
  Status status;
  try {
    status = write();
  } catch (const Error& e) {
    status = e.status();
  }
  if (!status.ok()) {
    fs::remove_all(temporary, error);
    return status;
  }
  if (Status s = before("sync_parent"); !s.ok()) return s;
  if (Status s = SyncFolder(folder_); !s.ok()) return s;
  if (options_.keep <= 0) return {};
  if (Status s = before("remove_old"); !s.ok()) return s;
  const std::vector<std::string> all = list();
  for (size_t i = static_cast<size_t>(options_.keep); i < all.size(); ++i) {
    // Under another name first, so that none is ever there in part.
    const std::string old = folder_ + "/" + std::string(kTemporary) + "old";
    fs::remove_all(old, error);
    fs::rename(all[i], old, error);
    if (error) return FileError("remove", all[i], error.value());
    fs::remove_all(old, error);
  }
  return {};
}

Result<LoadedCheckpoint> Checkpoints::load(const nn::Params& params, optim::Optimizer& optimizer) {
  LoadedCheckpoint loaded;
  for (const std::string& path : list()) {
    Contents contents;
    if (const Status status = Read(path, &contents); !status.ok()) {
      // An older one is better than none, where a file is damaged; a fault of the caller's is told.
      if (status.code() != Code::data_loss) return status;
      loaded.skipped.push_back(status.message());
      continue;
    }
    const std::vector<nn::Param> all = params.all();
    if (const Status status = Fits(path, contents.model, all); !status.ok()) return status;
    try {
      optimizer.load_state(contents.optimizer, contents.step);
    } catch (const Error& e) {
      return Status(e.code(), "checkpoint " + path + ": " + e.what());
    }
    for (const nn::Param& p : all) p->value = contents.model.at(p->name);
    set_random_state(contents.random);
    // Good for speed alone: a profile of another build is ignored.
    if (options_.profile && contents.profile) (void)Runtime::load_profile(path + "/profile").ok();
    loaded.path = path;
    loaded.step = contents.step;
    loaded.numbers = std::move(contents.numbers);
    return loaded;
  }
  std::string message = "there is no checkpoint in " + folder_;
  for (const std::string& why : loaded.skipped) message += "; " + why;
  return Status(loaded.skipped.empty() ? Code::not_found : Code::data_loss, message);
}

}  // namespace tessera::train
