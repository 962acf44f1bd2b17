// Runs one op: the single way by which eager calls and bytecode execute anything.
#ifndef TESSERA_INTERP_DISPATCH_H_
#define TESSERA_INTERP_DISPATCH_H_

#include "absl/types/span.h"
#include "interp/observer.h"
#include "ir/op.h"
#include "runtime/tensor.h"

namespace tessera::interp {

/// Most results of one op (split).
inline constexpr int kMaxResults = 64;

/// Where the op stands, for the observer and for messages.
struct Site {
  Pc pc;
  Source source;
};

/// Infers, allocates, runs. Operands that are weak are host numbers; every other View must be a TensorImpl (view ops
/// share its storage), and all of them must be on one device, which is where the op runs; without any, on `device`.
/// On success each of `out` (NumResults of them) holds a new reference. On failure nothing was changed.
/// Ops whose impl is host or control are not for this function.
absl::Status Execute(ir::Op op, absl::Span<const View* const> in, absl::Span<const ir::Attr> attrs, rt::Device& device,
                     absl::Span<rt::TensorImpl*> out, const Site& site);

/// An element-wise op whose result takes over the memory of `dying`, one of its operands that nobody needs afterwards:
/// no memory is taken or given back. False, with nothing done, unless the tensors are small, alike and unshared, and
/// nobody watches. It is what keeps scalar code in loops cheap.
bool ExecuteSmallInPlace(ir::Op op, absl::Span<const View* const> in, rt::TensorImpl& dying, absl::Status* status,
                         const Site& site);

/// The number that recorded events have for the place (runtime/trace/recorder.h); 0 where it is not known. For whoever
/// has asked RecorderOn().
int64_t SiteNumber(const Site& site);

/// A tensor with its contents in contiguous memory: x itself, or a copy.
absl::StatusOr<rt::Ref<rt::TensorImpl>> Contiguous(rt::TensorImpl& x);
/// The elements of `from` to contiguous memory of the same device and dtype.
absl::Status CopyElements(const View& from, rt::Device& device, View& to);
/// The one element of a tensor or number on `device`, as it is in memory; waits for a device that is not the cpu.
absl::Status ReadElement(const View& v, rt::Device& device, void* out);
absl::StatusOr<int64_t> ReadInt(const View& v, rt::Device& device);
absl::StatusOr<bool> ReadBool(const View& v, rt::Device& device);
/// A tensor that the host can read: x itself, or a copy of it in the memory of the cpu. Waits for x's device.
absl::StatusOr<rt::Ref<rt::TensorImpl>> OnHost(rt::TensorImpl& x);
absl::StatusOr<rt::Ref<rt::TensorImpl>> Cast(const View& x, rt::Device& device, DType dtype);

/// A host number as an operand: a weak View of rank 0 over eight bytes of its own.
struct ScalarView : View {
  union {
    double f;
    int64_t i;
    bool b;
  };
  ScalarView() : i(0) { Init(DType::i64); }
  explicit ScalarView(double v) { Set(v); }
  explicit ScalarView(int64_t v) { Set(v); }
  explicit ScalarView(bool v) { Set(v); }
  ScalarView(const ScalarView&) = delete;

  void Set(double v) {
    f = v;
    Init(DType::f64);
  }
  void Set(int64_t v) {
    i = v;
    Init(DType::i64);
  }
  void Set(bool v) {
    b = v;
    Init(DType::boolean);
  }

  void Init(DType t) {
    dtype = t;
    rank = 0;
    weak = true;
    data = &f;
  }
};

/// The value of a host number, as ScalarView has it in its eight bytes.
inline uint64_t BitsOf(const View& number) {
  return number.dtype == DType::boolean ? uint64_t{*number.as<bool>()} : *number.as<uint64_t>();
}

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_DISPATCH_H_
