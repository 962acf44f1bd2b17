// Element-wise ops on a CUDA device: finds the kernel of the op and dtype, and brings operands to where it can read
// them. Numbers of the host travel with the launch.
#include <cstdlib>
#include <cstring>

#include "interp/cpu/convert.h"
#include "interp/cuda/copy.h"
#include "interp/cuda/ew_args.h"
#include "interp/cuda/launch.h"

extern "C" {
const unsigned char* tessera_cuda_image_ew_f32();
const unsigned char* tessera_cuda_image_ew_f16();
const unsigned char* tessera_cuda_image_ew_bf16();
const unsigned char* tessera_cuda_image_ew_f64();
const unsigned char* tessera_cuda_image_ew_int();
const unsigned char* tessera_cuda_image_ew_bool();
}

namespace tessera::cuda {
namespace {

/// The image with the kernels for operands of that dtype; null where there are none (f8 goes through f32).
Image ImageOf(DType dtype) {
  switch (dtype) {
    case DType::f32: return tessera_cuda_image_ew_f32;
    case DType::f16: return tessera_cuda_image_ew_f16;
    case DType::bf16: return tessera_cuda_image_ew_bf16;
    case DType::f64: return tessera_cuda_image_ew_f64;
    case DType::i64:
    case DType::i32:
    case DType::i8:
    case DType::u8: return tessera_cuda_image_ew_int;
    case DType::boolean: return tessera_cuda_image_ew_bool;
    default: return nullptr;
  }
}

enum Form { kFlat, kStrided };

/// Kernels by op, dtype and form, each made at its first use.
const Kernel& KernelFor(const ir::OpInfo& op, DType dtype, Form form) {
  static constinit std::atomic<const Kernel*> kernels[ir::kNumOps][kNumDTypes][2] = {};
  std::atomic<const Kernel*>& slot = kernels[static_cast<int>(op.op)][static_cast<int>(dtype)][form];
  const Kernel* kernel = slot.load(std::memory_order_acquire);
  if (kernel != nullptr) [[likely]]
    return *kernel;
  const std::string name = op.op == ir::Op::k_where
                               ? absl::StrCat("ew_where_", SizeOf(dtype))
                               : absl::StrCat("ew_", std::string(op.name), "_", std::string(Name(dtype)),
                                              form == kFlat ? "_flat" : "_strided");
  const Image image = op.op == ir::Op::k_where ? tessera_cuda_image_ew_bool : ImageOf(dtype);
  // Both stay for the life of the process.
  auto* made = new Kernel(image, strdup(name.c_str()));
  if (slot.compare_exchange_strong(kernel, made, std::memory_order_acq_rel)) return *made;
  // Another thread was first.
  std::free(const_cast<char*>(made->name));
  delete made;
  return *kernel;
}

/// The operand as the kernel reads it.
struct Ready {
  View view;  // in the kernel's dtype, unless it is a number
  OperandKind kind;
  uint64_t in;
  Scratch scratch;
};

bool IsOneElement(const View& v) {
  for (int i = 0; i < v.rank; ++i)
    if (v.dims[i] != 1) return false;
  return true;
}

/// `dtype` is the op's operand dtype, `storage` what the kernel reads: values are rounded to the first on the way.
absl::Status Prepare(const interp::KernelArgs& args, const View& v, DType dtype, DType storage, Ready* out) {
  out->view = v;
  if (v.weak) {
    alignas(8) char rounded[8] = {}, bits[8] = {};
    const DType compute = args.op.op == ir::Op::k_where ? storage : cpu::ComputeDType(storage);
    cpu::Convert(rounded, dtype, v.data, v.dtype, 1);
    cpu::Convert(bits, compute, rounded, dtype, 1);
    std::memcpy(&out->in, bits, sizeof bits);
    out->kind = OperandKind::immediate;
    return absl::OkStatus();
  }
  if (v.dtype != storage) {
    TSR_RETURN_IF_ERROR(CastTo(args, v, dtype, storage, &out->view, &out->scratch));
  }
  out->in = AddressOf(out->view);
  out->kind = IsOneElement(v) ? OperandKind::element : OperandKind::elements;
  return absl::OkStatus();
}

/// Element i of the output belongs to element i in memory.
bool LiesAs(const View& v, const View& out) { return v.SameDims(out) && v.IsContiguous(); }

EwStrided StridedArgs(const View& out, const Ready* in, int n) {
  EwStrided a = {};
  a.out = AddressOf(out);
  a.size = out.size();
  int64_t strides[kMostOperands][kMaxRank] = {};
  for (int k = 0; k < n; ++k) {
    a.in[k] = in[k].in;
    a.kind[k] = in[k].kind;
    if (in[k].kind != OperandKind::elements) continue;
    const View& v = in[k].view;
    for (int d = 0; d < v.rank; ++d) strides[k][out.rank - v.rank + d] = v.dims[d] == 1 ? 0 : v.strides[d];
  }
  // From the last dim on; a dim joins the one after it where every operand lets it.
  int64_t dims[kMaxRank], merged[kMostOperands][kMaxRank];
  int rank = 0;
  for (int d = out.rank - 1; d >= 0; --d) {
    if (out.dims[d] == 1) continue;
    bool joins = rank > 0;
    for (int k = 0; k < n && joins; ++k) joins = strides[k][d] == merged[k][rank - 1] * dims[rank - 1];
    if (joins) {
      dims[rank - 1] *= out.dims[d];
      continue;
    }
    dims[rank] = out.dims[d];
    for (int k = 0; k < n; ++k) merged[k][rank] = strides[k][d];
    ++rank;
  }
  if (rank == 0) {
    dims[rank++] = 1;
    for (int k = 0; k < n; ++k) merged[k][0] = 0;
  }
  a.rank = rank;
  for (int d = 0; d < rank; ++d) {
    a.dims[d] = dims[rank - 1 - d];
    for (int k = 0; k < n; ++k) a.strides[k][d] = merged[k][rank - 1 - d];
  }
  return a;
}

/// EwStrided::pack. Kernels that do not take packs go on by elements: they look at none of this.
int32_t PackOf(const EwStrided& a, int n, int64_t in_size, int64_t out_size) {
  const int64_t pack = 16 / std::max(in_size, out_size);
  const int last = a.rank - 1;
  if (pack < 2 || a.dims[last] % pack != 0 || a.out % static_cast<uint64_t>(pack * out_size) != 0) return 1;
  for (int k = 0; k < n; ++k) {
    if (a.kind[k] != OperandKind::elements || a.strides[k][last] == 0) continue;
    int64_t steps = 0;
    for (int d = 0; d < last; ++d) steps |= a.strides[k][d];
    if (a.strides[k][last] != 1 || steps % pack != 0 || a.in[k] % static_cast<uint64_t>(pack * in_size) != 0) return 1;
  }
  return static_cast<int32_t>(pack);
}

}  // namespace

absl::Status RunElementwise(const interp::KernelArgs& args) {
  const View& y = *args.out[0];
  const int64_t n = y.size();
  if (n == 0) return absl::OkStatus();
  const int n_in = static_cast<int>(args.in.size());
  const bool is_where = args.op.op == ir::Op::k_where;
  const bool compares = args.op.rule == ir::DTypeRule::r_compare;
  DType dtype = y.dtype;
  if (compares) {
    absl::InlinedVector<const TensorType*, kMostOperands> types(args.in.begin(), args.in.end());
    dtype = ir::OperandDType(args.op, types);
  }
  const DType storage = is_where || ImageOf(dtype) != nullptr ? dtype : DType::f32;

  Ready in[kMostOperands];
  // f8: the result is made in f32 and rounded.
  View out = y;
  Scratch wide;
  if (!compares && storage != y.dtype) {
    out.dtype = storage;
    TSR_ASSIGN_OR_RETURN(wide, Scratch::Make(*args.device, static_cast<size_t>(n) * SizeOf(storage)));
    out.data = wide.data();
  }
  bool flat = !is_where && AddressOf(out) % 16 == 0;
  for (int k = 0; k < n_in; ++k) {
    const bool condition = is_where && k == 0;
    TSR_RETURN_IF_ERROR(
        Prepare(args, *args.in[k], condition ? DType::boolean : dtype, condition ? DType::boolean : storage, &in[k]));
    if (in[k].kind == OperandKind::elements && !(LiesAs(in[k].view, out) && in[k].in % 16 == 0)) flat = false;
  }
  const Kernel& kernel = KernelFor(args.op, storage, flat ? kFlat : kStrided);
  if (flat) {
    EwFlat a = {};
    a.out = AddressOf(out);
    a.size = n;
    for (int k = 0; k < n_in; ++k) {
      a.in[k] = in[k].in;
      a.kind[k] = in[k].kind;
    }
    const int64_t pack = 16 / static_cast<int64_t>(std::max(SizeOf(storage), SizeOf(out.dtype)));
    TSR_RETURN_IF_ERROR(Launch(args, kernel, GridFor(std::max(n / pack, std::min(n, pack))), a));
  } else {
    EwStrided a = StridedArgs(out, in, n_in);
    a.pack = 1;
    if (!is_where)
      a.pack = PackOf(a, n_in, static_cast<int64_t>(SizeOf(storage)), static_cast<int64_t>(SizeOf(out.dtype)));
    TSR_RETURN_IF_ERROR(Launch(args, kernel, GridFor(n / a.pack), a));
  }
  if (out.data == y.data) return absl::OkStatus();
  return Cast(args, out, y);
}

}  // namespace tessera::cuda
