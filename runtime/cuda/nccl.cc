#include "runtime/cuda/nccl.h"

#include <string>

#include "runtime/cuda/library.h"
#include "runtime/log.h"

namespace tessera::cuda {
namespace {

absl::StatusOr<const Nccl*> Open() {
  TSR_ASSIGN_OR_RETURN(void* library, OpenLibrary({"libnccl.so.2", "libnccl.so"}, "collectives of GPUs need NCCL"));
  auto* table = new Nccl;
  const char* missing = nullptr;
#define TSR_NCCL(name, arguments) FindFunction(library, #name, table->name, missing);
#include "runtime/cuda/nccl.def"
  FindFunction(library, "ncclGetErrorString", table->ncclGetErrorString, missing);
  if (missing != nullptr) {
    delete table;
    return NotFound("NCCL has no function ", missing, ": it is too old");
  }
  FindFunction(library, "ncclGetLastError", table->ncclGetLastError, missing);
  int version = 0;
  table->ncclGetVersion(&version);
  TSR_LOG(1, "NCCL ", version / 10000, ".", version % 10000 / 100, ".", version % 100, " opened");
  return table;
}

}  // namespace

absl::StatusOr<const Nccl*> GetNccl() {
  static const auto* opened = new absl::StatusOr<const Nccl*>(Open());
  return *opened;
}

absl::Status CheckNccl(const Nccl& nccl, const char* call, int result) {
  if (result == 0) return absl::OkStatus();
  const char* const more = nccl.ncclGetLastError != nullptr ? nccl.ncclGetLastError(nullptr) : "";
  return Internal(call, ": ", nccl.ncclGetErrorString(result), more != nullptr && *more != 0 ? ": " : "",
                  more != nullptr ? more : "");
}

absl::StatusOr<int> NcclDType(DType dtype) {
  switch (dtype) {
    case DType::i8: return 0;
    case DType::u8: return 1;
    case DType::i32: return 2;
    case DType::i64: return 4;
    case DType::f16: return 6;
    case DType::f32: return 7;
    case DType::f64: return 8;
    case DType::bf16: return 9;
    default: return Unsupported("NCCL has no ", std::string(Name(dtype)));
  }
}

}  // namespace tessera::cuda
