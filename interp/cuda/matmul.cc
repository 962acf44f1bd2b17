// matmul and dot_general on a CUDA device: cuBLASLt for floats, a kernel of our own for integers.
//
// f8 products run in f8 where cuBLASLt can (e4m3, multiples of 16), which rounds its f32 sums to f8 as a cast does.
// Else they run in f16, which holds all of their values, with sums that are stored as f32 and rounded to f8 once.
#include "interp/cuda/copy.h"
#include "interp/cuda/gemm_args.h"
#include "interp/cuda/launch.h"
#include "interp/cuda/library_product.h"
#include "interp/product.h"
#include "runtime/options.h"

namespace tessera::cuda {
namespace {

using interp::AsBlasMatrix;
using interp::BlasMatrix;
using interp::GemmArgs;
using interp::GemmOperand;

TSR_CUDA_IMAGE(gemm);
const Kernel kGemmI64(kImage, "gemm_i64"), kGemmI32(kImage, "gemm_i32"), kGemmI8(kImage, "gemm_i8"),
    kGemmU8(kImage, "gemm_u8");

/// An operand of a product in another dtype and in contiguous memory.
absl::Status Rewrite(const interp::KernelArgs& args, const GemmArgs& p, int64_t rows, int64_t cols, DType from,
                     DType to, bool transposed, GemmOperand* x, Scratch* scratch) {
  View v;
  v.dtype = from;
  v.data = const_cast<void*>(x->data);
  v.rank = 0;
  // Dims of 1 and repeated matrices are left out, so the rank is at most that of the op's operand.
  const auto add = [&](int64_t dim, int64_t stride) {
    if (dim == 1) return -1;
    v.dims[v.rank] = dim;
    v.strides[v.rank] = stride;
    return static_cast<int>(v.rank++);
  };
  int place[kMaxRank];
  for (int d = 0; d < p.batch_rank; ++d) place[d] = x->batch[d] == 0 ? -1 : add(p.batch_dims[d], x->batch[d]);
  add(transposed ? cols : rows, transposed ? x->col : x->row);
  add(transposed ? rows : cols, transposed ? x->row : x->col);
  View y;
  TSR_RETURN_IF_ERROR(CastTo(args, v, to, to, &y, scratch));
  x->data = y.data;
  x->row = transposed ? 1 : cols;
  x->col = transposed ? rows : 1;
  for (int d = 0; d < p.batch_rank; ++d) x->batch[d] = place[d] < 0 ? 0 : y.strides[place[d]];
  return absl::OkStatus();
}

int AlignmentOf(const void* p) {
  return static_cast<int>(std::min<uint64_t>(uint64_t{1} << std::countr_zero(std::bit_cast<uint64_t>(p) | 256), 256));
}

/// Inner dims of the batch whose products have the same b, and whose a go on where the last one's end, are more rows:
/// one product in place of many.
void MergeRows(GemmArgs& p) {
  while (p.batch_rank > 0) {
    const int d = p.batch_rank - 1;
    if (p.batch_dims[d] != 1) {
      if (p.b.batch[d] != 0 || p.a.batch[d] != p.m * p.a.row) return;
      p.m *= p.batch_dims[d];
    }
    --p.batch_rank;
  }
}

/// All products of a batch; kind says what they are but for the batch and the alignment. Without `submit` cuBLASLt is
/// asked about them, as if all addresses were multiples of 16.
absl::Status RunBatch(LibraryProducts& library, const GemmArgs& p, ProductKind kind, void* c,
                      const interp::Epilogue& epilogue = {}, bool submit = true) {
  // The inner dims of the batch that one stride walks are one call; the others are walked here.
  int outer = p.batch_rank;
  kind.batches = 1;
  while (outer > 0) {
    const int d = outer - 1;
    if (p.batch_dims[d] == 1) {
      --outer;
      continue;
    }
    if (kind.batches == 1) {
      kind.a_batch = p.a.batch[d];
      kind.b_batch = p.b.batch[d];
    } else if (p.a.batch[d] != kind.a_batch * kind.batches || p.b.batch[d] != kind.b_batch * kind.batches) {
      break;
    }
    if (kind.batches * p.batch_dims[d] > INT32_MAX) break;
    kind.batches *= p.batch_dims[d];
    --outer;
  }
  if (!submit) {
    kind.alignment = 16;
    return library.Check(kind);
  }
  int64_t calls = 1;
  for (int d = 0; d < outer; ++d) calls *= p.batch_dims[d];
  const void* const bias = epilogue.bias != nullptr ? epilogue.bias->data : nullptr;
  const auto in_bytes = static_cast<int64_t>(SizeOf(kind.in)), out_bytes = static_cast<int64_t>(SizeOf(kind.out));
  for (int64_t t = 0; t < calls; ++t) {
    int64_t rest = t, a_at = 0, b_at = 0;
    for (int d = outer - 1; d >= 0; --d) {
      const int64_t i = rest % p.batch_dims[d];
      rest /= p.batch_dims[d];
      a_at += i * p.a.batch[d];
      b_at += i * p.b.batch[d];
    }
    const char* a = static_cast<const char*>(p.a.data) + a_at * in_bytes;
    const char* b = static_cast<const char*>(p.b.data) + b_at * in_bytes;
    const int64_t y_at = t * kind.batches * p.m * p.n * out_bytes;
    char* y = static_cast<char*>(c) + y_at;
    kind.alignment = std::min({AlignmentOf(a), AlignmentOf(b), AlignmentOf(y)});
    const char* added = nullptr;
    if (kind.has_bias || kind.has_added || kind.has_gelu) {
      kind.alignment = std::min(kind.alignment, 16);  // as it was asked about
      if (kind.has_added) added = epilogue.added->as<const char>() + y_at;
    }
    TSR_RETURN_IF_ERROR(library.Run(kind, a, b, y, bias, added));
  }
  return absl::OkStatus();
}

void SetShape(const GemmArgs& p, const BlasMatrix& a, const BlasMatrix& b, ProductKind* kind) {
  kind->m = p.m;
  kind->n = p.n;
  kind->k = p.k;
  kind->a_transposed = a.transposed;
  kind->b_transposed = b.transposed;
  kind->a_ld = a.ld;
  kind->b_ld = b.ld;
}

absl::Status FloatProduct(const interp::KernelArgs& args, GemmArgs p) {
  Device& device = DeviceOf(*args.device);
  TSR_ASSIGN_OR_RETURN(LibraryProducts * library, LibraryProducts::On(device));
  MergeRows(p);
  ProductKind kind = {};
  kind.in = kind.out = p.dtype;
  Scratch a_scratch, b_scratch;
  if (p.dtype == DType::f8e4m3 || p.dtype == DType::f8e5m2) {
    const Properties& device_is = device.properties();
    const bool native = p.dtype == DType::f8e4m3 && device_is.major * 10 + device_is.minor >= 89 && p.m % 16 == 0 &&
                        p.n % 16 == 0 && p.k % 16 == 0;
    kind.in = native ? DType::f8e4m3 : DType::f16;
    if (!native) kind.out = DType::f32;
    // In f8 both operands have to lie along the sum.
    BlasMatrix fa, fb;
    const bool a_ready = native && AsBlasMatrix(p.m, p.k, p.a.row, p.a.col, &fa) && !fa.transposed && fa.ld % 16 == 0 &&
                         AlignmentOf(p.a.data) >= 16;
    const bool b_ready = native && AsBlasMatrix(p.k, p.n, p.b.row, p.b.col, &fb) && fb.transposed && fb.ld % 16 == 0 &&
                         AlignmentOf(p.b.data) >= 16;
    if (!a_ready) TSR_RETURN_IF_ERROR(Rewrite(args, p, p.m, p.k, p.dtype, kind.in, false, &p.a, &a_scratch));
    if (!b_ready) TSR_RETURN_IF_ERROR(Rewrite(args, p, p.k, p.n, p.dtype, kind.in, true, &p.b, &b_scratch));
  }
  kind.tf32 = p.dtype == DType::f32 && rt::options().tf32();
  BlasMatrix fa, fb;
  if (!AsBlasMatrix(p.m, p.k, p.a.row, p.a.col, &fa)) {
    TSR_RETURN_IF_ERROR(Rewrite(args, p, p.m, p.k, kind.in, kind.in, false, &p.a, &a_scratch));
    AsBlasMatrix(p.m, p.k, p.a.row, p.a.col, &fa);
  }
  if (!AsBlasMatrix(p.k, p.n, p.b.row, p.b.col, &fb)) {
    TSR_RETURN_IF_ERROR(Rewrite(args, p, p.k, p.n, kind.in, kind.in, false, &p.b, &b_scratch));
    AsBlasMatrix(p.k, p.n, p.b.row, p.b.col, &fb);
  }
  SetShape(p, fa, fb, &kind);
  if (kind.out == p.dtype) {
    const absl::Status status = RunBatch(*library, p, kind, p.c);
    // A kind of f8 product for which this cuBLASLt has no kernel with f8 results.
    if (kind.out != DType::f8e4m3 || !absl::IsUnimplemented(status)) return status;
  }
  kind.out = DType::f32;
  View wide = *args.out[0];
  wide.dtype = DType::f32;
  TSR_ASSIGN_OR_RETURN(const Scratch c, Scratch::Make(device, static_cast<size_t>(wide.size()) * 4));
  TSR_RETURN_IF_ERROR(RunBatch(*library, p, kind, c.data()));
  wide.data = c.data();
  return Cast(args, wide, *args.out[0]);
}

absl::Status Product(const interp::KernelArgs& args, const GemmArgs& p) {
  int64_t batches = 1;
  for (int d = 0; d < p.batch_rank; ++d) batches *= p.batch_dims[d];
  if (batches * p.m * p.n == 0) return absl::OkStatus();
  if (p.k == 0) return args.device->Zero(p.c, static_cast<size_t>(batches * p.m * p.n) * SizeOf(p.dtype));
  if (IsFloat(p.dtype)) return FloatProduct(args, p);

  GemmAnyArgs g = {};
  g.c = std::bit_cast<Address>(p.c);
  g.a = std::bit_cast<Address>(p.a.data);
  g.b = std::bit_cast<Address>(p.b.data);
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.batches = batches;
  g.a_row = p.a.row;
  g.a_col = p.a.col;
  g.b_row = p.b.row;
  g.b_col = p.b.col;
  g.a_batch.rank = g.b_batch.rank = p.batch_rank;
  for (int d = 0; d < p.batch_rank; ++d) {
    g.a_batch.dims[d] = g.b_batch.dims[d] = p.batch_dims[d];
    g.a_batch.strides[d] = p.a.batch[d];
    g.b_batch.strides[d] = p.b.batch[d];
  }
  const Kernel& kernel = p.dtype == DType::i64   ? kGemmI64
                         : p.dtype == DType::i32 ? kGemmI32
                         : p.dtype == DType::i8  ? kGemmI8
                                                 : kGemmU8;
  const int64_t tiles = batches * ((p.m + 31) / 32) * ((p.n + 31) / 32);
  return Launch(args, kernel, Grid{std::min<int64_t>(tiles, 1 << 20), kThreads}, g);
}

}  // namespace

absl::Status k_matmul(const interp::KernelArgs& args) { return Product(args, interp::DescribeMatmul(args)); }

absl::Status MatmulWithEpilogue(const interp::KernelArgs& args, const interp::Epilogue& epilogue, bool submit) {
  TSR_ASSIGN_OR_RETURN(LibraryProducts * library, LibraryProducts::On(DeviceOf(*args.device)));
  GemmArgs p = interp::DescribeMatmul(args);
  MergeRows(p);
  BlasMatrix fa, fb;
  if (!AsBlasMatrix(p.m, p.k, p.a.row, p.a.col, &fa) || !AsBlasMatrix(p.k, p.n, p.b.row, p.b.col, &fb))
    return Unsupported("the factors of the product would have to be copied first");
  ProductKind kind = {};
  kind.in = kind.out = p.dtype;
  kind.tf32 = p.dtype == DType::f32 && rt::options().tf32();
  kind.has_bias = epilogue.bias != nullptr;
  kind.has_added = epilogue.added != nullptr;
  kind.has_gelu = epilogue.activation == interp::Epilogue::Activation::gelu_tanh;
  SetShape(p, fa, fb, &kind);
  return RunBatch(*library, p, kind, p.c, epilogue, submit);
}

absl::Status ProductInto(const interp::KernelArgs& op, const View& a, const View& b, const View& c, bool add) {
  GemmArgs p;
  p.dtype = a.dtype;
  p.m = a.dims[0];
  p.k = a.dims[1];
  p.n = b.dims[1];
  if (p.m * p.n == 0) return absl::OkStatus();
  if (p.k == 0)
    return add ? absl::OkStatus() : op.device->Zero(c.data, static_cast<size_t>(p.m * p.n) * SizeOf(c.dtype));
  p.a.data = a.data;
  p.b.data = b.data;
  BlasMatrix fa, fb;
  if (!AsBlasMatrix(p.m, p.k, a.strides[0], a.strides[1], &fa) ||
      !AsBlasMatrix(p.k, p.n, b.strides[0], b.strides[1], &fb))
    return Internal("a product of ", ToString(a), " and ", ToString(b), " whose factors would have to be copied first");
  TSR_ASSIGN_OR_RETURN(LibraryProducts * library, LibraryProducts::On(DeviceOf(*op.device)));
  ProductKind kind = {};
  kind.in = a.dtype;
  kind.out = c.dtype;
  kind.tf32 = a.dtype == DType::f32 && rt::options().tf32();
  kind.has_added = add;
  SetShape(p, fa, fb, &kind);
  interp::Epilogue epilogue;
  if (add) epilogue.added = &c;
  return RunBatch(*library, p, kind, c.data, epilogue);
}

absl::Status k_dot_general(const interp::KernelArgs& args) {
  Scratch copies[2];
  TSR_ASSIGN_OR_RETURN(const GemmArgs p, interp::DescribeDotGeneral(args, [&](const View& v, int i) {
                         return MakeContiguous(args, v, &copies[i]);
                       }));
  return Product(args, p);
}

}  // namespace tessera::cuda
