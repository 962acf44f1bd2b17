#include "tracer/modules.h"

#include <elf.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tessera::tracer {
namespace {

struct Module {
  std::string build_id;  // empty: nothing names it
  uintptr_t base = 0;
  std::vector<std::pair<uintptr_t, uintptr_t>> code;  // executable segments

  bool Contains(uintptr_t address) const {
    for (const auto& [begin, end] : code)
      if (begin <= address && address < end) return true;
    return false;
  }
};

// The loader's counts of modules that came and went: while they stay the same, so do the modules.
using Generation = std::pair<uint64_t, uint64_t>;

struct Modules {
  Generation generation;
  std::vector<Module> list;
  std::vector<std::string> files;  // of each
};

size_t RoundUp(size_t n, size_t align) { return (n + align - 1) & ~(align - 1); }

// The build id in a segment of notes, which may be cut or odd: nobody checked it.
std::string_view FindBuildId(std::string_view notes, size_t align) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data(), sizeof header);
    const size_t name = sizeof header;
    const size_t id = RoundUp(name + header.n_namesz, align);
    const size_t end = RoundUp(id + header.n_descsz, align);
    if (id + header.n_descsz > notes.size()) break;
    if (header.n_type == NT_GNU_BUILD_ID && notes.substr(name, header.n_namesz) == std::string_view("GNU\0", 4))
      return notes.substr(id, header.n_descsz);
    if (end >= notes.size()) break;
    notes.remove_prefix(end);
  }
  return {};
}

// Runs under the loader's lock, so that what it reads stays mapped. Exceptions must not leave it; without memory the
// process ends there as it does elsewhere.
int AddModule(dl_phdr_info* info, size_t, void* out) noexcept {
  auto& modules = *static_cast<Modules*>(out);
  modules.generation = {info->dlpi_adds, info->dlpi_subs};
  Module module;
  module.base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & segment = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0)
      module.code.emplace_back(begin, begin + segment.p_memsz);
    if (segment.p_type != PT_NOTE || !module.build_id.empty()) continue;
    const std::string_view notes(reinterpret_cast<const char*>(begin), segment.p_memsz);
    const std::string_view id = FindBuildId(notes, segment.p_align == 8 ? 8 : 4);
    module.build_id = absl::BytesToHexString(absl::string_view(id.data(), id.size()));
  }
  modules.list.push_back(std::move(module));
  modules.files.emplace_back(info->dlpi_name == nullptr ? "" : info->dlpi_name);
  return 0;
}

std::string NameOfFile(std::string file) {
  if (file.empty()) {  // the executable
    char buffer[PATH_MAX];
    const ssize_t n = ::readlink("/proc/self/exe", buffer, sizeof buffer);
    if (n <= 0) return "";
    file.assign(buffer, static_cast<size_t>(n));
  }
  struct stat info;
  if (::stat(file.c_str(), &info) != 0) return "";
  return absl::StrCat(file.substr(file.rfind('/') + 1), ":", info.st_size);
}

std::shared_ptr<const Modules> Collect() {
  auto modules = std::make_shared<Modules>();
  dl_iterate_phdr(&AddModule, modules.get());
  for (size_t i = 0; i < modules->list.size(); ++i) {
    Module& module = modules->list[i];
    if (module.build_id.empty()) module.build_id = NameOfFile(modules->files[i]);
  }
  return modules;
}

Generation CurrentGeneration() {
  Generation generation;
  const auto first = [](dl_phdr_info* info, size_t, void* out) {
    *static_cast<Generation*>(out) = {info->dlpi_adds, info->dlpi_subs};
    return 1;
  };
  dl_iterate_phdr(first, &generation);
  return generation;
}

// Never held together with the loader's lock. Nothing is destroyed: threads may outlive static objects.
std::shared_ptr<const Modules> Loaded() {
  struct Cache {
    std::mutex mutex;
    std::shared_ptr<const Modules> modules;
  };
  static auto* cache = new Cache;
  const Generation now = CurrentGeneration();
  {
    std::lock_guard lock(cache->mutex);
    if (cache->modules != nullptr && cache->modules->generation == now) return cache->modules;
  }
  std::shared_ptr<const Modules> fresh = Collect();
  std::lock_guard lock(cache->mutex);
  cache->modules = fresh;
  return fresh;
}

}  // namespace

std::optional<Site> NameSite(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const std::shared_ptr<const Modules> modules = Loaded();
  for (const Module& m : modules->list)
    if (!m.build_id.empty() && m.Contains(at)) return Site{m.build_id, at - m.base};
  return std::nullopt;
}

const void* FindSite(const Site& site) {
  if (site.build_id.empty()) return nullptr;
  const std::shared_ptr<const Modules> modules = Loaded();
  for (const Module& m : modules->list) {
    const uintptr_t at = m.base + site.offset;
    if (m.build_id == site.build_id && m.Contains(at)) return reinterpret_cast<const void*>(at);
  }
  return nullptr;
}

}  // namespace tessera::tracer
