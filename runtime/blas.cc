#include "runtime/blas.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/blas_kernels.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/log.h"
#include "runtime/ring.h"

namespace tessera::rt {
namespace {

constinit std::atomic<const Blas*> loaded{nullptr};
constinit std::atomic<void (*)()> on_opened{nullptr};

template <class Fn>
bool Find(void* handle, const char* name, Fn*& out) {
  out = reinterpret_cast<Fn*>(dlsym(handle, name));
  return out != nullptr;
}

/// Null, with the reason in *why, when the library cannot be used.
const Blas* Open(const std::string& name, std::string* why) {
  if (FaultFires(Fault::blas_load)) {
    *why = absl::StrCat(name, ": refused by the fault point blas_load");
    return nullptr;
  }
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  const bool shared = handle != nullptr;
  if (!shared) handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    *why = reason != nullptr ? reason : absl::StrCat(name, ": cannot be opened");
    return nullptr;
  }
  auto* blas = new Blas;
  if (!Find(handle, "cblas_sgemm", blas->sgemm) || !Find(handle, "cblas_dgemm", blas->dgemm) ||
      !Find(handle, "cblas_sgemv", blas->sgemv) || !Find(handle, "cblas_dgemv", blas->dgemv)) {
    *why = absl::StrCat(name, ": has no CBLAS functions (cblas_sgemm and others)");
    delete blas;
    dlclose(handle);
    return nullptr;
  }
  Find(handle, "openblas_set_num_threads", blas->set_num_threads);
  Find(handle, "openblas_get_num_threads", blas->get_num_threads);
  blas->library = name;
  blas->shared_with_application = shared;
  if (!shared) {
    const BlasKernels kernels = ChooseBlasKernels(handle);
    if (!kernels.name.empty()) blas->kernels = absl::StrCat("kernels for ", kernels.name);
    if (!kernels.taken_for.empty())
      absl::StrAppend(&blas->kernels, "; it does not know this processor, and took it for ", kernels.taken_for);
    if (blas->set_num_threads != nullptr) blas->set_num_threads(1);
  }
  return blas;
}

}  // namespace

void OnBlasOpened(void (*hook)()) { on_opened.store(hook, std::memory_order_release); }

absl::StatusOr<const Blas*> GetBlas() {
  if (const Blas* blas = loaded.load(std::memory_order_acquire)) [[likely]]
    return blas;

  static auto* mutex = new std::mutex;
  static auto* failed_with = new std::optional<std::string>;  // the option at the last failure
  static auto* failure = new absl::Status;
  std::lock_guard lock(*mutex);
  if (const Blas* blas = loaded.load(std::memory_order_relaxed)) return blas;
  const std::string wanted = options().blas_library();
  if (failed_with->has_value() && **failed_with == wanted) return *failure;

  const int64_t start = NowNs();
  std::vector<std::string> names = {"libopenblas.so.0", "libblas.so.3"};
  if (!wanted.empty()) names.insert(names.begin(), wanted);
  std::vector<std::string> reasons;
  for (const std::string& name : names) {
    std::string why;
    const Blas* blas = Open(name, &why);
    RecordFor(EventKind::blas_load, NowNs() - start, blas != nullptr, blas != nullptr && blas->shared_with_application);
    if (blas == nullptr) {
      reasons.push_back(std::move(why));
      continue;
    }
    if (!wanted.empty() && name != wanted)
      TSR_LOG(0, "option blas_library asks for ", wanted, ", but it cannot be used (", reasons.front(), "); ", name,
              " is used in its place");
    TSR_LOG(1, "opened ", name, blas->shared_with_application ? ", which the application had opened already" : "",
            blas->kernels.empty() ? "" : absl::StrCat(" (", blas->kernels, ")"));
    loaded.store(blas, std::memory_order_release);
    if (void (*hook)() = on_opened.load(std::memory_order_acquire)) hook();
    return blas;
  }
  *failed_with = wanted;
  *failure = NotFound("matrix products need a BLAS library, and none could be opened (", absl::StrJoin(reasons, "; "),
                      "); install OpenBLAS (Debian: libopenblas0, Fedora: openblas), or set the option blas_library ",
                      "(TESSERA_BLAS_LIBRARY) to the path of one");
  return *failure;
}

}  // namespace tessera::rt
