// Code addresses that mean the same in another process: a module (the executable or a shared library) named by its
// build id, and the offset in it. Loading at another address changes neither.
#ifndef TESSERA_TRACER_MODULES_H_
#define TESSERA_TRACER_MODULES_H_

#include <cstdint>
#include <optional>
#include <string>

namespace tessera::tracer {

/// A place in the code of a module.
struct Site {
  /// In hex. A module that has none is known by its file's name and size: "libmodel.so:81920".
  std::string build_id;
  /// From where the module is loaded.
  uint64_t offset = 0;

  bool operator==(const Site&) const = default;
};

/// Both may be called from any thread; they take the loader's lock for a moment. Modules may come and go meanwhile.

/// Nothing for an address outside the code of every module: code made at run time, for instance.
std::optional<Site> NameSite(const void* address);
/// Null when the module is not loaded, or has no code there. When a module is loaded twice, the first one counts.
const void* FindSite(const Site& site);

}  // namespace tessera::tracer

#endif  // TESSERA_TRACER_MODULES_H_
