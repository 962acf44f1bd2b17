#include "interp/cuda/library_product.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "interp/product_choices.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/options.h"

namespace tessera::cuda {
namespace {

constexpr size_t kWorkspace = size_t{32} << 20;
/// Kinds that are kept; one more, and all are described again when they come.
constexpr size_t kMostKinds = 4096;
/// Kinds of wide floats that are asked about in any case: a program of fixed shapes hardly has more.
constexpr int kAskedFirst = 64;
/// Multiplications of a product that takes as long as loading a kernel: 2 ms at half of what an H100 can do in bf16.
constexpr double kLongProduct = 4e11;
/// Kernels that are tried for a product.
constexpr int kMostTried = 8;
/// A result that is written for nothing but a trial, at most.
constexpr size_t kMostScratch = size_t{256} << 20;
/// Runs of a kind with the choice of another, at most: then it is worth a question, and maybe a kernel of its own.
constexpr int kBorrowedRuns = 8;
/// Choices of a family that are kept; another one takes the place of the nearest.
constexpr size_t kMostChoices = 16;

absl::Status LtError(const char* call, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return Internal(call, " gives error ", static_cast<int>(status));
}

cudaDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::f64: return CUDA_R_64F;
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f8e4m3: return CUDA_R_8F_E4M3;
    default: return CUDA_R_32F;
  }
}

/// By how many powers of two two kinds of a family differ in their sizes.
double Distance(const ProductKind& a, const ProductKind& b) {
  const auto apart = [](int64_t x, int64_t y) { return std::abs(std::log2(double(x) / double(y))); };
  return apart(a.m, b.m) + apart(a.n, b.n) + apart(a.k, b.k) + apart(a.batches, b.batches);
}
double Multiplications(const ProductKind& kind) {
  return double(kind.m) * double(kind.n) * double(kind.k) * double(kind.batches);
}
/// What a run takes by guess, at half of what an H100 can do with each dtype. However small: a kernel takes as long.
double Microseconds(const ProductKind& kind) {
  constexpr double kLeast = 2;
  const double per_us = kind.in == DType::f64      ? 1.5e7
                        : kind.in == DType::f32    ? (kind.tf32 ? 1e8 : 1.5e7)
                        : kind.in == DType::f8e4m3 ? 4e8
                                                   : 2e8;
  return std::max(kLeast, Multiplications(kind) / per_us);
}
bool MayTry() { return !rt::options().bitwise() && rt::options().tune_budget() > 0; }
void NoteUntried(const ProductKind& kind) {
  if (MayTry()) interp::t_product_trials.untried_us += Microseconds(kind);
}
/// Another order of the sum can be seen in the result.
bool IsWide(const ProductKind& kind) { return kind.in == DType::f64 || (kind.in == DType::f32 && !kind.tf32); }
/// The largest power of two up to 16 that divides a stride; 0 stays 0, which is a matrix used again and again.
int64_t Divisor(int64_t stride) { return stride == 0 ? 0 : std::min<int64_t>(stride & -stride, 16); }

}  // namespace

ProductKind ProductKind::Family() const {
  ProductKind r = *this;
  r.m = r.n = r.k = r.batches = 1;
  r.a_ld = Divisor(a_ld);
  r.b_ld = Divisor(b_ld);
  r.a_batch = Divisor(a_batch);
  r.b_batch = Divisor(b_batch);
  r.divisor = static_cast<int32_t>(Divisor(n));
  return r;
}

size_t ProductKind::Hash::operator()(const ProductKind& k) const {
  uint64_t h = 0;
  for (const int64_t word :
       {k.m, k.n, k.k, k.a_ld, k.b_ld, k.batches, k.a_batch, k.b_batch, int64_t{static_cast<int>(k.in)},
        int64_t{static_cast<int>(k.out)},
        int64_t{k.has_bias * 32 + k.has_added * 16 + k.has_gelu * 8 + k.a_transposed * 4 + k.b_transposed * 2 + k.tf32},
        int64_t{k.alignment}, int64_t{k.divisor}}) {
    h = (h ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  return h;
}

/// A kind of product with everything a call needs.
struct LibraryProducts::Prepared {
  explicit Prepared(const CublasLt& table) : api(table) {}
  Prepared(const Prepared&) = delete;
  ~Prepared() {
    if (op != nullptr) api.cublasLtMatmulDescDestroy(op);
    for (cublasLtMatrixLayout_t layout : {a, b, c, d})
      if (layout != nullptr) api.cublasLtMatrixLayoutDestroy(layout);
  }

  const CublasLt& api;
  cublasLtMatmulDesc_t op = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr;  // ours: a and b change places in the call
  // The result, and what would be added to it, which is nothing; of f8 results it has another dtype.
  cublasLtMatrixLayout_t c = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algo;
  bool is_borrowed = false;  // the choice is that of another kind
  bool is_final = false;     // no other kernel is tried
  // Under the lock:
  mutable int runs = 0;   // while it is borrowed
  mutable double us = 0;  // of all runs, by guess
  mutable std::unique_ptr<ProductTrial> trial;
  absl::Status status;  // not OK: there is none
};

absl::StatusOr<LibraryProducts*> LibraryProducts::On(Device& device) {
  static auto* mutex = new std::mutex;
  static constinit std::atomic<LibraryProducts*> all[kMaxDevices] = {};
  std::atomic<LibraryProducts*>& slot = all[device.index()];
  if (LibraryProducts* lt = slot.load(std::memory_order_acquire)) return lt;
  std::lock_guard lock(*mutex);
  if (LibraryProducts* lt = slot.load(std::memory_order_acquire)) return lt;
  TSR_ASSIGN_OR_RETURN(const CublasLt* api, GetCublasLt());
  TSR_RETURN_IF_ERROR(device.Enter());
  std::unique_ptr<LibraryProducts> lt(new LibraryProducts(device, *api));
  TSR_RETURN_IF_ERROR(LtError("cublasLtCreate", api->cublasLtCreate(&lt->handle_)));
  TSR_ASSIGN_OR_RETURN(lt->workspace_, device.Allocate(kWorkspace));
  slot.store(lt.get(), std::memory_order_release);
  return lt.release();
}

absl::Status LibraryProducts::Run(const ProductKind& kind, const void* a, const void* b, void* c, const void* bias,
                                  const void* added) {
  TSR_RETURN_IF_ERROR(device_.Enter());
  ProductTrial::Turn turn;
  TSR_ASSIGN_OR_RETURN(const std::shared_ptr<const Prepared> p, Find(kind, &turn));
  const float one = 1, zero = 0;
  const double one64 = 1, zero64 = 0;
  const bool wide = kind.in == DType::f64;
  std::unique_lock lock(bias_mutex_, std::defer_lock);
  if (kind.has_bias) {
    lock.lock();
    TSR_RETURN_IF_ERROR(SetBias(*p, bias));
  }
  const void* const of_product = wide ? static_cast<const void*>(&one64) : &one;
  const void* const of_added = kind.has_added ? of_product : wide ? static_cast<const void*>(&zero64) : &zero;
  const auto submit = [&](const cublasLtMatmulAlgo_t& algo, void* to, CUstream stream) {
    // Nothing is read there where nothing is added; but it may be the result's memory only if both have one dtype.
    const void* const nothing = kind.out == DType::f8e4m3 ? nullptr : to;
    return api_.cublasLtMatmul(handle_, p->op, of_product, b, p->b, a, p->a, of_added, kind.has_added ? added : nothing,
                               p->c, to, p->d, &algo, workspace_, kWorkspace, stream);
  };
  using Outcome = ProductTrial::Outcome;
  const auto end = [&](Outcome outcome) {
    std::lock_guard trials(mutex_);
    p->trial->End(device_.stream(), outcome);
  };
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  if (turn.algo != nullptr && !turn.behind) [[unlikely]] {
    status = submit(*turn.algo, c, device_.stream());
    end(status == CUBLAS_STATUS_SUCCESS ? Outcome::done : Outcome::refused);
  }
  if (status != CUBLAS_STATUS_SUCCESS) status = submit(p->algo, c, device_.stream());
  if (turn.behind) [[unlikely]] {
    const size_t bytes = static_cast<size_t>(kind.m * kind.n * kind.batches) * SizeOf(kind.out);
    const absl::StatusOr<void*> scratch = bytes <= kMostScratch ? device_.Allocate(bytes) : Unsupported("too large");
    end(!scratch.ok() ? Outcome::failed
                      : p->trial->Measure(device_.stream(), [&](const cublasLtMatmulAlgo_t& algo, CUstream stream) {
                          return submit(algo, *scratch, stream) == CUBLAS_STATUS_SUCCESS;
                        }));
    if (scratch.ok()) device_.Free(*scratch, bytes);
  }
  device_.Note("a product of cuBLASLt");
  rt::Count(rt::Metric::products_run);
  return LtError("cublasLtMatmul", status);
}

absl::Status LibraryProducts::SetBias(const Prepared& p, const void* bias) {
  return LtError("cublasLtMatmulDescSetAttribute",
                 api_.cublasLtMatmulDescSetAttribute(p.op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
}

absl::StatusOr<std::shared_ptr<const LibraryProducts::Prepared>> LibraryProducts::Find(const ProductKind& kind,
                                                                                       ProductTrial::Turn* turn) {
  std::lock_guard lock(mutex_);
  const int runs = turn != nullptr ? 1 : 0;
  const auto it = prepared_.find(kind);
  const bool is_new = it == prepared_.end();
  // A graph runs what was recorded again and again; and a choice that is borrowed first and then one's own may round
  // otherwise, which is not for runs that are to be the same to the bit.
  const auto may_borrow = [&] {
    return !(runs > 0 && device_.stream() != device_.live_stream()) && !rt::options().bitwise();
  };
  if (!is_new) [[likely]] {
    const Prepared& known = *it->second;
    TSR_RETURN_IF_ERROR(known.status);
    if (!known.is_borrowed) [[likely]] {
      if (runs > 0 && !known.is_final) {
        NoteUntried(kind);
        *turn = Try(kind, it->second);
      }
      return it->second;
    }
    if (may_borrow() && known.runs + runs <= kBorrowedRuns) {
      known.runs += runs;
      return it->second;
    }
  }
  auto made = std::make_shared<Prepared>(api_);
  TSR_RETURN_IF_ERROR(Describe(kind, made.get()));
  if (prepared_.size() >= kMostKinds) prepared_.clear();
  if (choices_.size() >= kMostKinds) choices_.clear();
  made->is_final = kind.in == DType::f64;
  const bool borrows =
      is_new && (asked_ >= kAskedFirst || !IsWide(kind)) && Multiplications(kind) < kLongProduct && may_borrow();
  if (const cublasLtMatmulAlgo_t* near = borrows ? Borrow(kind, *made) : nullptr) {
    made->algo = *near;
    made->is_borrowed = true;
  } else {
    const absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> best = Ask(kind, *made, 1);
    made->status = best.status();
    ++asked_;
    if (best.ok()) {
      made->algo = best->front();
      Keep(kind, made->algo);
    } else if (!absl::IsUnimplemented(made->status)) {
      return made->status;  // of the device, not of the kind
    }
  }
  made->runs = runs;
  if (runs > 0 && !made->is_final) NoteUntried(kind);
  prepared_[kind] = made;
  TSR_RETURN_IF_ERROR(made->status);
  return made;
}

absl::Status LibraryProducts::Layout(cublasLtMatrixLayout_t* layout, DType dtype, int64_t rows, int64_t cols,
                                     int64_t ld, int64_t batches, int64_t stride) {
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

// It counts matrices by columns, so it is given c^T = b^T a^T: the call's A is our b.
absl::Status LibraryProducts::Describe(const ProductKind& kind, Prepared* p) {
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
  TSR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, kind.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
  TSR_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, kind.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
  if (kind.has_bias || kind.has_gelu) {
    const cublasLtEpilogue_t epilogue = !kind.has_gelu  ? CUBLASLT_EPILOGUE_BIAS
                                        : kind.has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS
                                                        : CUBLASLT_EPILOGUE_GELU;
    TSR_RETURN_IF_ERROR(
        LtError("cublasLtMatmulDescSetAttribute",
                api_.cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue)));
    // An address that is aligned as any bias will be: what is chosen may depend on it.
    if (kind.has_bias) TSR_RETURN_IF_ERROR(SetBias(*p, workspace_));
  }
  TSR_RETURN_IF_ERROR(kind.b_transposed
                          ? Layout(&p->b, kind.in, kind.k, kind.n, kind.b_ld, kind.batches, kind.b_batch)
                          : Layout(&p->b, kind.in, kind.n, kind.k, kind.b_ld, kind.batches, kind.b_batch));
  TSR_RETURN_IF_ERROR(kind.a_transposed
                          ? Layout(&p->a, kind.in, kind.m, kind.k, kind.a_ld, kind.batches, kind.a_batch)
                          : Layout(&p->a, kind.in, kind.k, kind.m, kind.a_ld, kind.batches, kind.a_batch));
  const DType added = kind.out == DType::f8e4m3 ? DType::bf16 : kind.out;
  TSR_RETURN_IF_ERROR(Layout(&p->c, added, kind.n, kind.m, kind.n, kind.batches, kind.m * kind.n));
  return Layout(&p->d, kind.out, kind.n, kind.m, kind.n, kind.batches, kind.m * kind.n);
}

absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> LibraryProducts::Ask(const ProductKind& kind, const Prepared& p,
                                                                       int most) {
  cublasLtMatmulPreference_t preference = nullptr;
  TSR_RETURN_IF_ERROR(LtError("cublasLtMatmulPreferenceCreate", api_.cublasLtMatmulPreferenceCreate(&preference)));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    api_.cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value);
  };
  const size_t workspace = kWorkspace;
  const auto alignment = static_cast<uint32_t>(kind.alignment);
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
  int found = 0;
  TSR_RETURN_IF_ERROR(device_.Enter());
  const cublasStatus_t status =
      api_.cublasLtMatmulAlgoGetHeuristic(handle_, p.op, p.b, p.a, p.c, p.d, preference, most, results.data(), &found);
  api_.cublasLtMatmulPreferenceDestroy(preference);
  if (most == 1) rt::Count(rt::Metric::products_chosen);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) TSR_RETURN_IF_ERROR(LtError("cublasLtMatmulAlgoGetHeuristic", status));
  if (status != CUBLAS_STATUS_SUCCESS || found == 0)
    return Unsupported("cuBLASLt has no kernel for a product of ", kind.m, "x", kind.k, " and ", kind.k, "x", kind.n,
                       " in ", std::string(Name(kind.in)), " (error ", static_cast<int>(status), ")");
  std::vector<cublasLtMatmulAlgo_t> algos;
  for (int i = 0; i < found; ++i) algos.push_back(results[static_cast<size_t>(i)].algo);
  return algos;
}

ProductTrial::Turn LibraryProducts::Try(const ProductKind& kind, std::shared_ptr<const Prepared>& known) {
  if (!MayTry()) return {};
  // A graph would run what is tried for ever.
  if (device_.stream() != device_.live_stream()) return {};
  if (known->trial == nullptr) {
    known->us += Microseconds(kind);
    if (!interp::t_product_trials.now && known->us < static_cast<double>(rt::options().tune_after())) return {};
    std::vector<cublasLtMatmulAlgo_t> algos = {known->algo};
    if (const auto others = Ask(kind, *known, kMostTried); others.ok()) {
      for (const cublasLtMatmulAlgo_t& algo : *others)
        if (std::memcmp(&algo, &known->algo, sizeof algo) != 0) algos.push_back(algo);
    }
    // It is asked for at once by runs that were graphs before, and will be again.
    known->trial = std::make_unique<ProductTrial>(std::move(algos), Microseconds(kind),
                                                  /*for_graph=*/interp::t_product_trials.now);
  }
  const ProductTrial::Turn turn = known->trial->Begin(device_.stream());
  if (turn.algo == nullptr && known->trial->is_over()) Settle(kind, known);
  return turn;
}

void LibraryProducts::Settle(const ProductKind& kind, std::shared_ptr<const Prepared>& known) {
  const ProductTrial& trial = *known->trial;
  auto made = std::make_shared<Prepared>(api_);
  if (!Describe(kind, made.get()).ok()) return;
  const size_t best = trial.best();
  made->algo = trial.algos()[best];
  made->is_final = true;
  const std::string what = absl::StrCat("product of ", kind.m, "x", kind.k, " and ", kind.k, "x", kind.n, " in ",
                                        std::string(Name(kind.in)), ": ");
  if (trial.has_times()) {
    TSR_LOG(2, what, "of ", trial.algos().size(), " kernels of cuBLASLt ",
            best == 0 ? "the first stays, " : "another takes over, ", trial.us(best), " us; the first takes ",
            trial.us(0));
  } else {
    TSR_LOG(2, what, "the first kernel of cuBLASLt stays; others could not be measured");
  }
  rt::Count(rt::Metric::products_tried);
  Keep(kind, made->algo);
  known = std::move(made);
  if (best != 0) interp::product_choices.fetch_add(1, std::memory_order_relaxed);
}

void LibraryProducts::Keep(const ProductKind& kind, const cublasLtMatmulAlgo_t& algo) {
  std::vector<Choice>& all = choices_[kind.Family()];
  for (Choice& choice : all) {
    if (choice.kind != kind) continue;
    choice.algo = algo;
    return;
  }
  if (all.size() < kMostChoices) {
    all.push_back({kind, algo});
    return;
  }
  *std::min_element(all.begin(), all.end(), [&](const Choice& a, const Choice& b) {
    return Distance(a.kind, kind) < Distance(b.kind, kind);
  }) = {kind, algo};
}

const cublasLtMatmulAlgo_t* LibraryProducts::Borrow(const ProductKind& kind, const Prepared& p) {
  const auto family = choices_.find(kind.Family());
  if (family == choices_.end()) return nullptr;
  std::vector<std::pair<double, const Choice*>> near;
  for (const Choice& c : family->second) near.push_back({Distance(c.kind, kind), &c});
  std::sort(near.begin(), near.end());
  for (const auto& [distance, choice] : near)
    if (Accepts(p, choice->algo)) return &choice->algo;
  return nullptr;
}

bool LibraryProducts::Accepts(const Prepared& p, const cublasLtMatmulAlgo_t& algo) {
  cublasLtMatmulHeuristicResult_t result = {};
  return device_.Enter().ok() &&
         api_.cublasLtMatmulAlgoCheck(handle_, p.op, p.b, p.a, p.c, p.d, &algo, &result) == CUBLAS_STATUS_SUCCESS &&
         result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kWorkspace;
}

}  // namespace tessera::cuda
