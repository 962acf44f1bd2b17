#include "tiers/compiler/sched/streams.h"

#include "tiers/compiler/sched/columns.h"

using namespace mlir;

namespace tessera::compiler {

bool Streams(sched::KernelOp kernel, graph::TraceOp trace, const CompileOptions& options) {
  // More than what one program has of a shared cache, on most machines.
  constexpr int64_t kLarge = int64_t{32} << 20;
  const bool is_x86 = options.device.empty() && options.vector_bytes > 16;
  if (!is_x86 || kernel.getRow() > 0 || kernel.getCut() || kernel.getProduct() || kernel.getUpdates()) return false;
  int64_t bytes = 0;
  for (Type type : kernel.getResultTypes()) {
    const unsigned bits = cast<RankedTensorType>(type).getElementTypeBitWidth();
    int64_t size = std::max(1u, bits / 8);
    for (const Dim& d : DimsOf(type)) {
      const int64_t n = LikelyOf(trace, d);
      if (n < 0 || __builtin_mul_overflow(size, n, &size)) return false;
    }
    bytes = std::max(bytes, size);
  }
  return bytes >= kLarge;
}

}  // namespace tessera::compiler
