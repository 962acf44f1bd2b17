#include "tiers/compiler/target/nvptx.h"

#include <dlfcn.h>

#include <mutex>
#include <shared_mutex>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

namespace tessera::compiler {
namespace {

// nvJitLink.h has inline functions over names with a version in them. The library is opened at run time and may be of
// CUDA 12 or later, so what is needed of that header is declared here.
using Handle = struct nvJitLink*;
constexpr int kInputPtx = 2;

struct Library {
  int (*create)(Handle*, uint32_t, const char**) = nullptr;
  int (*destroy)(Handle*) = nullptr;
  int (*add_data)(Handle, int, const void*, size_t, const char*) = nullptr;
  int (*complete)(Handle) = nullptr;
  int (*cubin_size)(Handle, size_t*) = nullptr;
  int (*cubin)(Handle, void*) = nullptr;
  int (*error_log_size)(Handle, size_t*) = nullptr;
  int (*error_log)(Handle, char*) = nullptr;
  int (*info_log_size)(Handle, size_t*) = nullptr;
  int (*info_log)(Handle, char*) = nullptr;

  bool Find(void* library, const std::string& version) {
    const auto find = [&](auto& function, const char* name) {
      void* symbol = dlsym(library, ("__nvJitLink" + std::string(name) + version).c_str());
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
      return symbol != nullptr;
    };
    return find(create, "Create") && find(destroy, "Destroy") && find(add_data, "AddData") &&
           find(complete, "Complete") && find(cubin_size, "GetLinkedCubinSize") && find(cubin, "GetLinkedCubin") &&
           find(error_log_size, "GetErrorLogSize") && find(error_log, "GetErrorLog") &&
           find(info_log_size, "GetInfoLogSize") && find(info_log, "GetInfoLog");
  }
};

// Null where there is none. Never closed. AssemblersInUse() is held.
const Library* TheLibrary() {
  static const Library* const found = []() -> const Library* {
    void* opened = nullptr;
    for (const char* folder : {"", "/usr/local/cuda/lib64/"})
      for (const char* name : {"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"})
        if (opened == nullptr) opened = dlopen((std::string(folder) + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) return nullptr;
    auto* library = new Library;
    for (int major = 15; major >= 12; --major)
      for (int minor = 0; minor < 10; ++minor)
        if (library->Find(opened, "_" + std::to_string(major) + "_" + std::to_string(minor))) {
          StopAssemblingAtExit();
          return library;
        }
    delete library;
    return nullptr;
  }();
  return found;
}

std::string Log(Handle handle, int (*size_of)(Handle, size_t*), int (*get)(Handle, char*)) {
  size_t size = 0;
  if (size_of(handle, &size) != 0 || size == 0) return "";
  std::string text(size, '\0');
  if (get(handle, text.data()) != 0) return "";
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

struct Assembled {
  std::string cubin, log, error;
};

Assembled AssembleOne(const Library& library, const std::string& ptx, llvm::StringRef device, bool wants_log) {
  Assembled made;
  const std::string arch = "-arch=" + device.str();
  // Where there is a driver it keeps what is made here, and gives it back without a log.
  const char* options[] = {arch.c_str(), "-O3", "-verbose", "-no-cache"};
  Handle handle = nullptr;
  const bool knows = wants_log ? library.create(&handle, 4, options) == 0 || library.create(&handle, 3, options) == 0
                               : library.create(&handle, 2, options) == 0;
  if (!knows) {
    made.error = "it does not know " + device.str();
    return made;
  }
  bool done =
      library.add_data(handle, kInputPtx, ptx.c_str(), ptx.size() + 1, "kernels") == 0 && library.complete(handle) == 0;
  size_t size = 0;
  if (done) done = library.cubin_size(handle, &size) == 0;
  if (done) {
    made.cubin.resize(size);
    done = library.cubin(handle, made.cubin.data()) == 0;
  }
  if (!done) made.error = Log(handle, library.error_log_size, library.error_log);
  if (!done && made.error.empty()) made.error = "it made no cubin, and does not say why";
  if (done && wants_log) made.log = Log(handle, library.info_log_size, library.info_log);
  library.destroy(&handle);
  return made;
}

// The number that stands before `unit`; 0: it is not there.
int64_t NumberBefore(llvm::StringRef line, llvm::StringRef unit) {
  const size_t at = line.find(unit);
  if (at == llvm::StringRef::npos) return 0;
  llvm::StringRef head = line.take_front(at).rtrim();
  const size_t from = head.find_last_not_of("0123456789");
  int64_t n = 0;
  (void)head.substr(from == llvm::StringRef::npos ? 0 : from + 1).getAsInteger(10, n);
  return n;
}

}  // namespace

std::shared_mutex& AssemblersInUse() {
  static auto* mutex = new std::shared_mutex;
  return *mutex;
}

// Before the library destroys its objects, which it does when the process ends and where it was opened last. The
// registration is libc's: that of this library registers nothing (entry.cc).
void StopAssemblingAtExit() {
  using Register = int (*)(void (*)(void*), void*, void*);
  if (const auto at_exit = reinterpret_cast<Register>(dlsym(RTLD_DEFAULT, "__cxa_atexit")))
    at_exit([](void*) { StopAssembling(); }, nullptr, nullptr);
}

bool HasAssembler() {
  const std::shared_lock lock(AssemblersInUse());
  return TheLibrary() != nullptr;
}

void StopAssembling() {
  // Both the library's end and that of the compiler come here.
  static std::once_flag once;
  std::call_once(once, [] { AssemblersInUse().lock(); });
}

// Lines such as
//   ptxas info    : Compiling entry function 'k1' for 'sm_90'
//   ptxas info    : Function properties for k1
//       0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 32 registers, used 1 barriers, 256 bytes smem
// What the linker says of all kernels once more, in other words, comes after that:
//   info    : Function properties for 'k1':
//   info    : used 32 registers, used 1 barriers, 0 stack, 1280 bytes smem
std::map<std::string, CodeResources> ResourcesOf(llvm::StringRef log) {
  std::map<std::string, CodeResources> code;
  std::string entry, at;
  llvm::SmallVector<llvm::StringRef> lines;
  log.split(lines, '\n');
  for (llvm::StringRef line : lines) {
    if (line.starts_with("info ")) continue;
    if (size_t p = line.find("Compiling entry function '"); p != llvm::StringRef::npos) {
      entry = at = line.substr(p).split('\'').second.split('\'').first.str();
      code[entry];
    } else if (line.contains("Function properties for ")) {
      at = line.split("Function properties for ").second.trim().trim('\'').str();
    } else if (code.count(at) != 0 && line.contains("spill stores")) {
      CodeResources& r = code[at];
      r.stack_bytes = NumberBefore(line, " bytes stack frame");
      // Four bytes are a register.
      r.spills = NumberBefore(line, " bytes spill stores") / 4;
      r.reloads = NumberBefore(line, " bytes spill loads") / 4;
    } else if (!entry.empty() && line.contains(" registers")) {
      code[entry].registers = NumberBefore(line, " registers");
      code[entry].shared_bytes = NumberBefore(line, " bytes smem");
    }
  }
  return code;
}

llvm::Expected<std::string> Assemble(const std::string& ptx, llvm::StringRef device,
                                     std::map<std::string, CodeResources>* code) {
  const std::shared_lock lock(AssemblersInUse());
  const Library* library = TheLibrary();
  if (library == nullptr) return llvm::createStringError("libnvJitLink is not on this machine");
  Assembled made = AssembleOne(*library, ptx, device, code != nullptr);
  if (!made.error.empty()) return llvm::createStringError("nvJitLink: " + made.error);
  if (code != nullptr) *code = ResourcesOf(made.log);
  return std::move(made.cubin);
}

}  // namespace tessera::compiler
