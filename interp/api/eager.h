// From a public call to dispatch: operands out of Args, the call site, and a status turned into an exception.
#ifndef TESSERA_INTERP_API_EAGER_H_
#define TESSERA_INTERP_API_EAGER_H_

#include <vector>

#include "interp/dispatch.h"
#include "ir/op.h"
#include "tessera/tensor.h"

namespace tessera::api {

rt::Device& DefaultDevice();
void SetDefaultDevice(rt::Device& device);

[[noreturn]] void Throw(const absl::Status& status);
inline void Check(const absl::Status& status) {
  if (!status.ok()) [[unlikely]]
    Throw(status);
}
template <class T>
T Check(absl::StatusOr<T> value) {
  if (!value.ok()) [[unlikely]]
    Throw(value.status());
  return *std::move(value);
}

/// The impl of a defined tensor, with its contents; throws for an empty handle.
rt::TensorImpl& ImplOf(const Tensor& x, const char* what);
/// The same where its type is all that is asked for: it may still wait to be computed.
const rt::TensorImpl& TypeOf(const Tensor& x, const char* what);
/// What a tensor with these dims is; throws Error, which begins with `what`, where there is none.
TensorType TypeFor(DType dtype, const Dims& dims, const char* what);
/// A tensor that the host made, brought to the default device where that is a GPU.
Tensor OnDefaultDevice(rt::Ref<rt::TensorImpl> x);
inline Tensor Wrap(rt::Ref<rt::TensorImpl> impl) { return Tensor::Adopt(impl.release()); }

ir::Ints ToInts(const Dims& dims);

/// Runs an op with one result. `site` is the return address of the public function.
Tensor Run(ir::Op op, std::initializer_list<const Arg*> args, std::initializer_list<ir::Attr> attrs, const void* site);
/// The same for ops without attributes, or with two booleans. Where a version expects just this op, nothing more is
/// made of the call than a comparison.
Tensor Run(ir::Op op, const Arg& a, const void* site);
Tensor Run(ir::Op op, const Arg& a, const Arg& b, const void* site);
Tensor Run(ir::Op op, const Arg& a, const Arg& b, const Arg& c, const void* site);
Tensor Run(ir::Op op, const Arg& a, const Arg& b, bool first, bool second, const void* site);
std::vector<Tensor> RunMany(ir::Op op, absl::Span<const Arg* const> args, absl::Span<const ir::Attr> attrs,
                            const void* site);

/// The same for a program that is text: operands are ready, nothing is thrown, and `out` gets new references. `site` is
/// an address that stands for the op's place, the same each time the op comes by and no other's while the program
/// lives; `source` is where it stands in the text, and its file's name must stay for ever (versions keep it). Every
/// attribute is given, and no trailing operand is null.
absl::Status RunAt(ir::Op op, absl::Span<const View* const> in, absl::Span<const ir::Attr> attrs,
                   absl::Span<rt::TensorImpl*> out, const void* site, const interp::Source& source);

/// Where the next `count` random numbers come from; they are then used up.
struct RandomPosition {
  int64_t seed, offset;
};
RandomPosition TakeRandom(uint64_t count);
/// The same with operands as dispatch sees them, on a device of the caller's choice: for ops that Tessera itself calls.
std::vector<Tensor> RunViews(ir::Op op, absl::Span<const View* const> in, absl::Span<const ir::Attr> attrs,
                             rt::Device& device, const void* site, const std::source_location* where);

#define TSR_SITE __builtin_return_address(0)

}  // namespace tessera::api

#endif  // TESSERA_INTERP_API_EAGER_H_
