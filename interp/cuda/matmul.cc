// matmul and dot_general on a CUDA device: cuBLASLt for floats, a kernel of our own for integers.
//
// cuBLASLt is asked once for each kind of product which of its kernels is best; what it says is kept with the
// descriptions of the matrices, so that a later call only launches. It counts matrices by columns, so it is given
// c^T = b^T a^T. f8 products run in f8 where cuBLASLt can (e4m3, multiples of 16) and else in f16, which holds all of
// their values; their sums are f32 and are rounded to f8 once.
#include <mutex>
#include <unordered_map>

#include "interp/cuda/copy.h"
#include "interp/cuda/gemm_args.h"
#include "interp/cuda/launch.h"
#include "interp/product.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/metrics.h"
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

constexpr size_t kWorkspace = size_t{32} << 20;

absl::Status LtError(const char* call, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return Internal(call, " gives error ", static_cast<int>(status));
}

/// What a product is, as far as cuBLASLt's choice depends on it.
struct Kind {
  DType in, out;
  bool tf32;
  bool a_transposed, b_transposed;
  int32_t alignment;  // of the addresses, in bytes, at most 256
  int64_t m, n, k;
  int64_t a_ld, b_ld;
  int64_t batches, a_batch, b_batch;

  bool operator==(const Kind&) const = default;
  struct Hash {
    size_t operator()(const Kind& k) const {
      uint64_t h = 0;
      for (const int64_t word : {k.m, k.n, k.k, k.a_ld, k.b_ld, k.batches, k.a_batch, k.b_batch,
                                 int64_t{static_cast<int>(k.in)}, int64_t{static_cast<int>(k.out)},
                                 int64_t{k.a_transposed * 4 + k.b_transposed * 2 + k.tf32}, int64_t{k.alignment}}) {
        h = (h ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
      }
      return h;
    }
  };
};

cudaDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::f64: return CUDA_R_64F;
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f8e4m3: return CUDA_R_8F_E4M3;
    default: return CUDA_R_32F;
  }
}

/// A kind of product with everything a call needs.
struct Prepared {
  cublasLtMatmulDesc_t op = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;  // ours: a and b change places in the call
  cublasLtMatmulAlgo_t algo;
};

/// cuBLASLt on one device.
class Lt {
 public:
  static absl::StatusOr<Lt*> On(Device& device) {
    static auto* mutex = new std::mutex;
    static constinit std::atomic<Lt*> all[kMaxDevices] = {};
    std::atomic<Lt*>& slot = all[device.index()];
    if (Lt* lt = slot.load(std::memory_order_acquire)) return lt;
    std::lock_guard lock(*mutex);
    if (Lt* lt = slot.load(std::memory_order_acquire)) return lt;
    TSR_ASSIGN_OR_RETURN(const CublasLt* api, GetCublasLt());
    TSR_RETURN_IF_ERROR(device.Enter());
    auto lt = std::make_unique<Lt>(device, *api);
    TSR_RETURN_IF_ERROR(LtError("cublasLtCreate", api->cublasLtCreate(&lt->handle_)));
    TSR_ASSIGN_OR_RETURN(lt->workspace_, device.Allocate(kWorkspace));
    slot.store(lt.get(), std::memory_order_release);
    return lt.release();
  }
  Lt(Device& device, const CublasLt& api) : device_(device), api_(api) {}

  absl::Status Run(const Kind& kind, const void* a, const void* b, void* c) {
    TSR_ASSIGN_OR_RETURN(const Prepared* p, Find(kind));
    const float one = 1, zero = 0;
    const double one64 = 1, zero64 = 0;
    const bool wide = kind.in == DType::f64;
    TSR_RETURN_IF_ERROR(device_.Enter());
    const cublasStatus_t status =
        api_.cublasLtMatmul(handle_, p->op, wide ? static_cast<const void*>(&one64) : &one, b, p->b, a, p->a,
                            wide ? static_cast<const void*>(&zero64) : &zero, c, p->c, c, p->c, &p->algo, workspace_,
                            kWorkspace, device_.stream());
    rt::Count(rt::Metric::products_run);
    return LtError("cublasLtMatmul", status);
  }

 private:
  absl::StatusOr<const Prepared*> Find(const Kind& kind) {
    std::lock_guard lock(mutex_);
    auto it = prepared_.find(kind);
    if (it != prepared_.end()) return it->second.get();
    auto made = std::make_unique<Prepared>();
    TSR_RETURN_IF_ERROR(Prepare(kind, made.get()));
    return prepared_.emplace(kind, std::move(made)).first->second.get();
  }

  absl::Status Layout(cublasLtMatrixLayout_t* layout, DType dtype, int64_t rows, int64_t cols, int64_t ld,
                      int64_t batches, int64_t stride) {
    TSR_RETURN_IF_ERROR(LtError("cublasLtMatrixLayoutCreate",
                                api_.cublasLtMatrixLayoutCreate(layout, TypeOf(dtype), static_cast<uint64_t>(rows),
                                                                static_cast<uint64_t>(cols), ld)));
    if (batches == 1) return absl::OkStatus();
    const auto count = static_cast<int32_t>(batches);
    TSR_RETURN_IF_ERROR(LtError(
        "cublasLtMatrixLayoutSetAttribute",
        api_.cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count)));
    return LtError("cublasLtMatrixLayoutSetAttribute",
                   api_.cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                         sizeof stride));
  }

  absl::Status Prepare(const Kind& kind, Prepared* p) {
    const cublasComputeType_t compute = kind.in == DType::f64 ? CUBLAS_COMPUTE_64F
                                        : kind.tf32           ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                              : CUBLAS_COMPUTE_32F;
    TSR_RETURN_IF_ERROR(
        LtError("cublasLtMatmulDescCreate",
                api_.cublasLtMatmulDescCreate(&p->op, compute, kind.in == DType::f64 ? CUDA_R_64F : CUDA_R_32F)));
    const auto set = [&](cublasLtMatmulDescAttributes_t which, cublasOperation_t value) {
      return LtError("cublasLtMatmulDescSetAttribute",
                     api_.cublasLtMatmulDescSetAttribute(p->op, which, &value, sizeof value));
    };
    // The call's A is our b.
    TSR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, kind.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
    TSR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, kind.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
    TSR_RETURN_IF_ERROR(kind.b_transposed
                            ? Layout(&p->b, kind.in, kind.k, kind.n, kind.b_ld, kind.batches, kind.b_batch)
                            : Layout(&p->b, kind.in, kind.n, kind.k, kind.b_ld, kind.batches, kind.b_batch));
    TSR_RETURN_IF_ERROR(kind.a_transposed
                            ? Layout(&p->a, kind.in, kind.m, kind.k, kind.a_ld, kind.batches, kind.a_batch)
                            : Layout(&p->a, kind.in, kind.k, kind.m, kind.a_ld, kind.batches, kind.a_batch));
    TSR_RETURN_IF_ERROR(Layout(&p->c, kind.out, kind.n, kind.m, kind.n, kind.batches, kind.m * kind.n));

    cublasLtMatmulPreference_t preference = nullptr;
    TSR_RETURN_IF_ERROR(LtError("cublasLtMatmulPreferenceCreate", api_.cublasLtMatmulPreferenceCreate(&preference)));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
      api_.cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value);
    };
    const size_t workspace = kWorkspace;
    const auto alignment = static_cast<uint32_t>(kind.alignment), c_alignment = uint32_t{16};
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c_alignment);
    cublasLtMatmulHeuristicResult_t best = {};
    int found = 0;
    TSR_RETURN_IF_ERROR(device_.Enter());
    const cublasStatus_t status =
        api_.cublasLtMatmulAlgoGetHeuristic(handle_, p->op, p->b, p->a, p->c, p->c, preference, 1, &best, &found);
    api_.cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0)
      return Unsupported("cuBLASLt has no kernel for a product of ", kind.m, "x", kind.k, " and ", kind.k, "x", kind.n,
                         " in ", std::string(Name(kind.in)), " (error ", static_cast<int>(status), ")");
    p->algo = best.algo;
    return absl::OkStatus();
  }

  Device& device_;
  const CublasLt& api_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<Kind, std::unique_ptr<Prepared>, Kind::Hash> prepared_;
};

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

absl::Status FloatProduct(const interp::KernelArgs& args, GemmArgs p) {
  Device& device = DeviceOf(*args.device);
  TSR_ASSIGN_OR_RETURN(Lt * lt, Lt::On(device));
  Kind kind = {};
  kind.in = kind.out = p.dtype;
  Scratch a_scratch, b_scratch, c_scratch;
  void* c = p.c;
  if (p.dtype == DType::f8e4m3 || p.dtype == DType::f8e5m2) {
    const Properties& device_is = device.properties();
    const bool native = p.dtype == DType::f8e4m3 && device_is.major * 10 + device_is.minor >= 89 && p.m % 16 == 0 &&
                        p.n % 16 == 0 && p.k % 16 == 0;
    kind.in = native ? DType::f8e4m3 : DType::f16;
    kind.out = DType::f32;
    // In f8 both operands have to lie along the sum.
    BlasMatrix fa, fb;
    const bool a_ready = native && AsBlasMatrix(p.m, p.k, p.a.row, p.a.col, &fa) && !fa.transposed && fa.ld % 16 == 0 &&
                         AlignmentOf(p.a.data) >= 16;
    const bool b_ready = native && AsBlasMatrix(p.k, p.n, p.b.row, p.b.col, &fb) && fb.transposed && fb.ld % 16 == 0 &&
                         AlignmentOf(p.b.data) >= 16;
    if (!a_ready) TSR_RETURN_IF_ERROR(Rewrite(args, p, p.m, p.k, p.dtype, kind.in, false, &p.a, &a_scratch));
    if (!b_ready) TSR_RETURN_IF_ERROR(Rewrite(args, p, p.k, p.n, p.dtype, kind.in, true, &p.b, &b_scratch));
    int64_t count = p.m * p.n;
    for (int d = 0; d < p.batch_rank; ++d) count *= p.batch_dims[d];
    TSR_ASSIGN_OR_RETURN(c_scratch, Scratch::Make(device, static_cast<size_t>(count) * 4));
    c = c_scratch.data();
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
  kind.m = p.m;
  kind.n = p.n;
  kind.k = p.k;
  kind.a_transposed = fa.transposed;
  kind.b_transposed = fb.transposed;
  kind.a_ld = fa.ld;
  kind.b_ld = fb.ld;

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
  int64_t calls = 1;
  for (int d = 0; d < outer; ++d) calls *= p.batch_dims[d];
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
    char* y = static_cast<char*>(c) + t * kind.batches * p.m * p.n * out_bytes;
    kind.alignment = std::min({AlignmentOf(a), AlignmentOf(b), AlignmentOf(y)});
    TSR_RETURN_IF_ERROR(lt->Run(kind, a, b, y));
  }
  if (c == p.c) return absl::OkStatus();
  View wide = *args.out[0];
  wide.dtype = DType::f32;
  wide.data = c;
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

absl::Status k_dot_general(const interp::KernelArgs& args) {
  Scratch copies[2];
  TSR_ASSIGN_OR_RETURN(const GemmArgs p, interp::DescribeDotGeneral(args, [&](const View& v, int i) {
                         return MakeContiguous(args, v, &copies[i]);
                       }));
  return Product(args, p);
}

}  // namespace tessera::cuda
