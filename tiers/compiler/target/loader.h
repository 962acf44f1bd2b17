// Objects of CompileToObject, in memory and ready to be called.
#ifndef TESSERA_TIERS_COMPILER_TARGET_LOADER_H_
#define TESSERA_TIERS_COMPILER_TARGET_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "llvm/Support/Error.h"

namespace tessera::compiler {

/// Any thread may call any method. Memory is written first and executable after that, never both at once. Objects know
/// each other's symbols as little as the process's: an object may use what it defines itself and memcpy, memmove,
/// memset and memcmp (on x86-64 also rounding and fma, for machines without instructions for them).
class Loader {
 public:
  /// Names an object; never 0, and never given twice.
  using Handle = uint64_t;

  static llvm::Expected<std::unique_ptr<Loader>> Create();
  /// One for the process, made at the first call and never destroyed.
  static llvm::Expected<Loader*> OfProcess();
  /// Frees all code.
  ~Loader();

  /// Links the object, which is copied. An error for what is no object of this machine, and for symbols that nobody
  /// defines; they are in its text.
  llvm::Expected<Handle> Load(std::string_view object);
  /// A function or constant that the object defines (not an internal one).
  llvm::Expected<void*> Lookup(Handle handle, std::string_view symbol) const;
  /// Frees the object's memory. No thread may be inside its code.
  llvm::Error Unload(Handle handle);

  size_t loaded_objects() const;

 private:
  struct State;
  explicit Loader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_LOADER_H_
