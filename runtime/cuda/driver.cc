#include "runtime/cuda/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/log.h"

// The name of a function after cuda.h has renamed it.
#define TSR_NAME(name) TSR_NAME_INNER(name)
#define TSR_NAME_INNER(name) #name

namespace tessera::cuda {
namespace {

constinit std::atomic<const Driver*> driver{nullptr};

absl::StatusOr<const Driver*> Open() {
  const int64_t start = rt::NowNs();
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return NotFound("the CUDA driver cannot be opened (", why != nullptr ? why : "libcuda.so.1",
                    "); install NVIDIA's driver, or use device cpu");
  }
  auto* table = new Driver;
  const char* missing = nullptr;
#define TSR_CUDA(name)                                                                   \
  table->name = reinterpret_cast<decltype(table->name)>(dlsym(library, TSR_NAME(name))); \
  if (table->name == nullptr) missing = TSR_NAME(name);
#define TSR_CUDA_NEW(name) table->name = reinterpret_cast<decltype(table->name)>(dlsym(library, TSR_NAME(name)));
#include "runtime/cuda/driver.def"
  if (missing != nullptr) {
    delete table;
    return NotFound("libcuda.so.1 has no function ", missing, ": the driver is too old; CUDA 12.0 is needed");
  }
  if (const CUresult result = table->cuInit(0); result != CUDA_SUCCESS) {
    std::string why = absl::StrCat("cuInit gives error ", static_cast<int>(result));
    const char* name = nullptr;
    if (table->cuGetErrorName(result, &name) == CUDA_SUCCESS && name != nullptr) why = absl::StrCat("cuInit: ", name);
    delete table;
    return NotFound("the CUDA driver does not start (", why, "); is there a GPU, and may this process use it?");
  }
  table->cuDriverGetVersion(&table->version);
  TSR_LOG(1, "opened the CUDA driver, version ", table->version / 1000, ".", table->version % 1000 / 10, ", in ",
          (rt::NowNs() - start) / 1000000, " ms");
  return table;
}

}  // namespace

absl::StatusOr<const Driver*> GetDriver() {
  if (const Driver* d = driver.load(std::memory_order_acquire)) return d;
  if (rt::FaultFires(rt::Fault::cuda_load)) return NotFound("libcuda.so.1: refused by the fault point cuda_load");
  static auto* mutex = new std::mutex;
  static auto* failure = new absl::Status;
  std::lock_guard lock(*mutex);
  if (const Driver* d = driver.load(std::memory_order_relaxed)) return d;
  if (!failure->ok()) return *failure;
  absl::StatusOr<const Driver*> opened = Open();
  if (!opened.ok()) {
    *failure = opened.status();
    return *failure;
  }
  driver.store(*opened, std::memory_order_release);
  return opened;
}

const Driver& TheDriver() { return *driver.load(std::memory_order_acquire); }

std::string Describe(const char* call, CUresult result) {
  const char *name = nullptr, *text = nullptr;
  TheDriver().cuGetErrorName(result, &name);
  TheDriver().cuGetErrorString(result, &text);
  return absl::StrCat(call, ": ", text != nullptr ? text : "unknown error", " (",
                      name != nullptr ? std::string(name) : absl::StrCat(static_cast<int>(result)), ")");
}

bool IsSticky(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_DEINITIALIZED: return true;
    default: return false;
  }
}

}  // namespace tessera::cuda
