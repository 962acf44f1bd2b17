// The readers of safetensors and .npz on any bytes: tensors or an error, and what was read can be written and read
// again.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tessera/data.h"

namespace {

using tessera::data::TensorFile;

void Same(const TensorFile& a, const TensorFile& b) {
  if (a.tensors.size() != b.tensors.size() || a.metadata != b.metadata) std::abort();
  for (const auto& [name, x] : a.tensors) {
    const auto it = b.tensors.find(name);
    if (it == b.tensors.end() || it->second.dims() != x.dims() || it->second.dtype() != x.dtype() ||
        it->second.to_bytes() != x.to_bytes())
      std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = "/tmp/tessera_safetensors_fuzz." + std::to_string(::getpid());
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  auto zip = tessera::data::parse_npz(bytes);
  if (!zip.ok() && zip.status().message().empty()) std::abort();
  auto file = tessera::data::parse_safetensors(bytes);
  if (!file.ok() && file.status().message().empty()) std::abort();
  if (file.ok()) {
    if (!tessera::data::save_safetensors(path, file->tensors, file->metadata).ok()) std::abort();
    auto again = tessera::data::load_safetensors(path);
    std::remove(path.c_str());
    if (!again.ok()) std::abort();
    Same(*file, *again);
  }
  return 0;
}
