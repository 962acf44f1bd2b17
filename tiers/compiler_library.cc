#include "tiers/compiler_library.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "runtime/log.h"
#include "runtime/options.h"

namespace tessera::tiers {
namespace {

constexpr char kFile[] = "libtessera_compiler.so";

std::atomic<const TesseraCompilerApi*> g_registered{nullptr};
const TesseraCompilerApi* g_stopped = nullptr;

// No compile begins once the process ends.
void StopAtExit(const TesseraCompilerApi* api) {
  g_stopped = api;
  std::atexit([] { g_stopped->stop(); });
}

// The folder of the library or program that this code is in, with a slash.
std::string OwnFolder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&OwnFolder), &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

absl::StatusOr<const TesseraCompilerApi*> Open(bool* missing) {
  if (const TesseraCompilerApi* api = g_registered.load(std::memory_order_acquire)) return api;
  const std::string asked = rt::options().compiler_library();
  *missing = true;
  if (asked == "none") return absl::NotFoundError("the option compiler_library is none");
  void* library = nullptr;
  std::string error;
  for (const std::string& path :
       {asked.empty() ? OwnFolder() + kFile : asked, asked.empty() ? std::string(kFile) : asked}) {
    // Never closed: code that it has generated, and its threads, stay.
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    if (const char* why = dlerror()) error = why;
  }
  if (library == nullptr) {
    // Not there is one thing, there and broken another.
    *missing = asked.empty() && error.find("cannot open shared object file") != std::string::npos;
    return absl::NotFoundError(absl::StrCat("the compiler is not to be had: ", error));
  }
  *missing = false;
  using Entry = const TesseraCompilerApi* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "tessera_compiler_entry"));
  if (entry == nullptr) return absl::NotFoundError("the compiler's library has no tessera_compiler_entry");
  const TesseraCompilerApi* api = entry();
  if (api == nullptr || api->abi != kTesseraCompilerAbi)
    return absl::NotFoundError("the compiler's library is of another version");
  return api;
}

TesseraSink To(std::string* text) {
  return {[](void* to, const char* data, size_t size) { static_cast<std::string*>(to)->append(data, size); }, text};
}

}  // namespace

void RegisterCompiler(const TesseraCompilerApi* api) { g_registered.store(api, std::memory_order_release); }

absl::StatusOr<const TesseraCompilerApi*> Compiler() {
  static std::once_flag once;
  static auto* const result = new absl::StatusOr<const TesseraCompilerApi*>(absl::NotFoundError(""));
  std::call_once(once, [] {
    bool missing = false;
    *result = Open(&missing);
    if (result->ok()) {
      StopAtExit(**result);
      TSR_LOG(1, "compiler: ", (**result)->build_id);
    } else if (missing) {
      TSR_LOG(1, std::string(result->status().message()), "; versions are replayed");
    } else {
      TSR_LOG(0, std::string(result->status().message()), "; versions are replayed");
    }
  });
  return *result;
}

absl::StatusOr<std::string> Compile(const TesseraCompilerApi& api, const TesseraCompileRequest& request) {
  std::string artifact, why;
  const TesseraSink out = To(&artifact), error = To(&why);
  if (api.compile(&request, &out, &error) != 0) return Internal(why);
  return artifact;
}

absl::StatusOr<std::string> Inspect(const TesseraCompilerApi& api, const TesseraCompileRequest& request,
                                    const std::string& stage) {
  std::string text, why;
  const TesseraSink out = To(&text), error = To(&why);
  if (api.inspect(&request, stage.c_str(), &out, &error) != 0) return InvalidArgument(why);
  return text;
}

}  // namespace tessera::tiers
