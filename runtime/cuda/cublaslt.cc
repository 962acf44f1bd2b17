#include "runtime/cuda/cublaslt.h"

#include <dlfcn.h>

#include "runtime/clock.h"
#include "runtime/cuda/library.h"
#include "runtime/log.h"

namespace tessera::cuda {
namespace {

absl::StatusOr<const CublasLt*> Open() {
  const int64_t start = rt::NowNs();
  TSR_ASSIGN_OR_RETURN(void* library, OpenLibrary({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
                                                  "matrix products on a CUDA device need cuBLASLt"));
  auto* table = new CublasLt;
  const char* missing = nullptr;
#define TSR_CUBLASLT(name)                                                      \
  table->name = reinterpret_cast<decltype(table->name)>(dlsym(library, #name)); \
  if (table->name == nullptr) missing = #name;
#include "runtime/cuda/cublaslt.def"
  if (missing != nullptr) {
    delete table;
    return NotFound("cuBLASLt has no function ", missing, ": it is too old; CUDA 12 is needed");
  }
  TSR_LOG(1, "cuBLASLt ", table->cublasLtGetVersion(), " opened in ", (rt::NowNs() - start) / 1000000, " ms");
  return table;
}

}  // namespace

absl::StatusOr<const CublasLt*> GetCublasLt() {
  static const auto* opened = new absl::StatusOr<const CublasLt*>(Open());
  return *opened;
}

}  // namespace tessera::cuda
