// What a kernel is given. Before it runs, dispatch has inferred and allocated the outputs (contiguous), brought all
// data operands to OperandDType(), index operands to i64 and bool operands to bool. Inputs may have any strides.
// Element-wise ops are the exception: their operands arrive as they are, in dtypes of their own and with weak numbers
// among them, and RunElementwise converts block by block.
#ifndef TESSERA_INTERP_KERNEL_H_
#define TESSERA_INTERP_KERNEL_H_

#include "absl/types/span.h"
#include "ir/op.h"
#include "runtime/status.h"
#include "runtime/tensor.h"

namespace tessera::interp {

struct KernelArgs {
  const ir::OpInfo& op;
  /// Null where an optional operand is absent.
  absl::Span<const View* const> in;
  absl::Span<View* const> out;
  absl::Span<const ir::Attr> attrs;
  /// Where it runs. Kernels of the cpu do without.
  rt::Device* device = nullptr;

  bool flag(int i) const { return std::get<bool>(attrs[i]); }
  int64_t integer(int i) const { return std::get<int64_t>(attrs[i]); }
  double number(int i) const { return std::get<double>(attrs[i]); }
  DType dtype(int i) const { return std::get<DType>(attrs[i]); }
  const ir::Ints& ints(int i) const { return std::get<ir::Ints>(attrs[i]); }
  const std::string& str(int i) const { return std::get<std::string>(attrs[i]); }
};

/// On the cpu it runs to completion, on the calling thread and the thread pool; on a CUDA device it is submitted. A
/// failure's message does not name the op.
using Kernel = absl::Status (*)(const KernelArgs& args);
/// Null for view, host and control ops.
Kernel KernelOf(ir::Op op, rt::DeviceKind device);

}  // namespace tessera::interp

namespace tessera::cpu {
// One kernel for each row of ops.def whose impl is `kernel`: k_sum, k_matmul, ...
#define TSR_IMPL_ew(name)
#define TSR_IMPL_view(name)
#define TSR_IMPL_host(name)
#define TSR_IMPL_control(name)
#define TSR_IMPL_kernel(name) absl::Status k_##name(const interp::KernelArgs& args);
#define TSR_OP(name, operands, attrs, results, effect, dtypes, rule, shape, impl, grad, bound, summary) \
  TSR_IMPL_##impl(name)
#include "ir/ops.def"
#undef TSR_IMPL_ew
#undef TSR_IMPL_view
#undef TSR_IMPL_host
#undef TSR_IMPL_control
#undef TSR_IMPL_kernel

/// All rows whose impl is `ew`: finds the loop of the op and dtype and runs it over blocks.
absl::Status RunElementwise(const interp::KernelArgs& args);
/// The same for scalars, with less before the loop: tensors of rank 0 in `dtype`, and numbers. `out` takes one element
/// of the loop's result. False, with nothing done, where there is no such loop (narrow floats).
bool RunScalar(ir::Op op, DType dtype, absl::Span<const View* const> in, void* out);
}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_KERNEL_H_
