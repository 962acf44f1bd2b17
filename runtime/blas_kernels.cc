#include "runtime/blas_kernels.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace tessera::rt {
namespace {

constexpr char kVariable[] = "OPENBLAS_CORETYPE";

// Kernels with the instructions of this processor, in place of those that know none of them; null: they are as good.
const char* Better(std::string_view name) {
#if defined(__x86_64__)
  // All for processors without AVX2.
  constexpr std::string_view kOld[] = {"Katmai",       "Coppermine", "Northwood", "Prescott",    "Banias", "Core2",
                                       "Penryn",       "Dunnington", "Nehalem",   "Sandybridge", "Atom",   "Opteron",
                                       "Opteron_SSE3", "Barcelona",  "Bobcat",    "Athlon",      "Nano"};
  if (std::find(std::begin(kOld), std::end(kOld), name) == std::end(kOld)) return nullptr;
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  (void)name;
  return nullptr;
}

// The choice is made where the environment is read, once. setenv() would free what other threads may be reading;
// another environment for a moment frees nothing.
class Environment {
 public:
  explicit Environment(const std::string& more) {
    auto* entries = new std::vector<char*>;  // for whoever reads it meanwhile
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) entries->push_back(*entry);
    entries->push_back(strdup(more.c_str()));
    entries->push_back(nullptr);
    static std::vector<char*>* kept = nullptr;  // reachable, so not a leak
    kept = entries;
    before_ = environ;
    environ = kept->data();
  }
  ~Environment() { environ = before_; }
  Environment(const Environment&) = delete;

 private:
  char** before_;
};

}  // namespace

BlasKernels ChooseBlasKernels(void* library) {
  const auto name = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"));
  if (name == nullptr) return {};
  const std::string chosen = name();
  const char* const better = Better(chosen);
  const auto quit = reinterpret_cast<void (*)()>(dlsym(library, "gotoblas_dynamic_quit"));
  const auto init = reinterpret_cast<void (*)()>(dlsym(library, "gotoblas_dynamic_init"));
  if (better == nullptr || quit == nullptr || init == nullptr || std::getenv(kVariable) != nullptr) return {chosen, ""};
  {
    const Environment environment(std::string(kVariable) + "=" + better);
    quit();
    init();
  }
  const std::string now = name();
  return {now, now == chosen ? "" : chosen};
}

}  // namespace tessera::rt
