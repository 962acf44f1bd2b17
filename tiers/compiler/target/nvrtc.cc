#include "tiers/compiler/target/nvrtc.h"

#include <dlfcn.h>

#include <iterator>
#include <mutex>

#include "tiers/compiler/target/nvptx.h"

namespace tessera::compiler {
namespace {

// What is needed of nvrtc.h, which the machine that builds this may not have.
using Program = struct _nvrtcProgram*;
struct Library {
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;

  bool Find(void* library) {
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    return find(create, "nvrtcCreateProgram") && find(destroy, "nvrtcDestroyProgram") &&
           find(compile, "nvrtcCompileProgram") && find(cubin_size, "nvrtcGetCUBINSize") &&
           find(cubin, "nvrtcGetCUBIN") && find(log_size, "nvrtcGetProgramLogSize") && find(log, "nvrtcGetProgramLog");
  }
};

// Null where there is none. Never closed. AssemblersInUse() is held.
const Library* TheLibrary() {
  static const Library* const found = []() -> const Library* {
    for (const char* folder : {"", "/usr/local/cuda/lib64/"})
      for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
        if (void* opened = dlopen((std::string(folder) + name).c_str(), RTLD_NOW | RTLD_LOCAL)) {
          static Library library;
          if (!library.Find(opened)) return nullptr;
          StopAssemblingAtExit();
          return &library;
        }
    return nullptr;
  }();
  return found;
}

}  // namespace

bool HasNvrtc() {
  const std::shared_lock lock(AssemblersInUse());
  return TheLibrary() != nullptr;
}

llvm::Expected<std::string> CompileCuda(const std::string& source, llvm::StringRef device,
                                        std::map<std::string, CodeResources>* code) {
  const std::shared_lock lock(AssemblersInUse());
  const Library* library = TheLibrary();
  if (library == nullptr) return llvm::createStringError("libnvrtc is not on this machine");
  Program program = nullptr;
  if (library->create(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr) != 0)
    return llvm::createStringError("NVRTC takes no program");
  const std::string arch = "-arch=" + device.str();
  const char* options[] = {arch.c_str(), "-std=c++17", "--device-int128", "--ptxas-options=-v", "-w"};
  const bool compiled = library->compile(program, std::size(options), options) == 0;
  std::string log, cubin;
  size_t size = 0;
  if (library->log_size(program, &size) == 0 && size > 0) {
    log.resize(size);
    library->log(program, log.data());
    while (!log.empty() && log.back() == '\0') log.pop_back();
  }
  bool done = compiled && library->cubin_size(program, &size) == 0 && size > 0;
  if (done) {
    cubin.resize(size);
    done = library->cubin(program, cubin.data()) == 0;
  }
  library->destroy(&program);
  if (!done) return llvm::createStringError("NVRTC: " + log);
  if (code != nullptr) *code = ResourcesOf(log);
  return cubin;
}

}  // namespace tessera::compiler
