// Stands in for cuBLASLt beside cuda_driver.cc: products of f32 and bf16 in memory that is the host's, with the
// epilogues that Tessera asks for. It counts what it is asked, and refuses what an aligned kernel could not do.
#include <cublasLt.h>
#include <dlfcn.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

namespace {

struct Desc {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct Layout {
  cudaDataType_t type;
  uint64_t rows, cols;
  int64_t ld;
  int32_t batches = 1;
  int64_t stride = 0;
};
struct Algo {
  uint64_t aligned;  // it reads four elements at a time
  uint64_t index;
};
/// What it says of its kernels is wrong: the third is the fastest, in graphs the second, and the last does not run.
/// Milliseconds.
constexpr float kTimes[] = {0.05f, 0.06f, 0.03f, 0.01f}, kTimesInGraphs[] = {0.05f, 0.02f, 0.03f, 0.01f};
constexpr uint64_t kLast = 3;
std::atomic<int> asked, checked, refused, strangers, runs_of[4];
std::atomic<bool> computes{std::getenv("STAND_IN_IDLE") == nullptr};

Desc* Of(cublasLtMatmulDesc_t d) { return reinterpret_cast<Desc*>(d); }
const Layout& Of(cublasLtMatrixLayout_t l) { return *reinterpret_cast<const Layout*>(l); }

bool IsKnown(cudaDataType_t type) { return type == CUDA_R_32F || type == CUDA_R_16BF; }
bool IsAligned(const Layout& l) { return l.ld % 4 == 0; }
float At(const void* p, cudaDataType_t type, int64_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(p)[i];
  return std::bit_cast<float>(static_cast<uint32_t>(static_cast<const uint16_t*>(p)[i]) << 16);
}
void Put(void* p, cudaDataType_t type, int64_t i, float x) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(p)[i] = x;
    return;
  }
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  static_cast<uint16_t*>(p)[i] = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float Gelu(float x) { return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x))); }

template <class Fn>
Fn Driver(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Fn>(dlsym(library, name));
}
void Watch(const void* p) {
  static const auto owner = Driver<int (*)(const void*)>("StandInOwner");
  static const auto current = Driver<int (*)()>("StandInCurrent");
  if (owner(p) != current()) ++strangers;
}

bool HasBias(const Desc& op) {
  return op.epilogue == CUBLASLT_EPILOGUE_BIAS || op.epilogue == CUBLASLT_EPILOGUE_GELU_BIAS;
}
void Compute(const Desc& op, float scale, const void* pa, const Layout& a, const void* pb, const Layout& b, float old,
             const void* pc, const Layout& c, void* pd, const Layout& d) {
  const auto depth = static_cast<int64_t>(op.a == CUBLAS_OP_N ? a.cols : a.rows);
  for (int32_t t = 0; t < d.batches; ++t) {
    for (int64_t j = 0; j < static_cast<int64_t>(d.cols); ++j) {
      for (int64_t i = 0; i < static_cast<int64_t>(d.rows); ++i) {
        float sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += At(pa, a.type, t * a.stride + (op.a == CUBLAS_OP_N ? k * a.ld + i : i * a.ld + k)) *
                 At(pb, b.type, t * b.stride + (op.b == CUBLAS_OP_N ? j * b.ld + k : k * b.ld + j));
        sum *= scale;
        if (old != 0) sum += old * At(pc, c.type, t * c.stride + j * c.ld + i);
        if (HasBias(op)) sum += At(op.bias, d.type, i);
        if (op.epilogue == CUBLASLT_EPILOGUE_GELU || op.epilogue == CUBLASLT_EPILOGUE_GELU_BIAS) sum = Gelu(sum);
        Put(pd, d.type, t * d.stride + j * d.ld + i, sum);
      }
    }
  }
}

}  // namespace

extern "C" {

// ---- for tests

int StandInAsked() { return asked; }
int StandInChecked() { return checked; }
int StandInRefused() { return refused; }
/// Matrices of another device than the current one.
int StandInStrangers() { return strangers; }
/// Of the kernel of that index, also those that failed.
int StandInRuns(int index) { return runs_of[index]; }
/// Else results are not written: large products would take long.
void StandInSetComputes(bool value) { computes = value; }

// ---- cuBLASLt

size_t cublasLtGetVersion() { return 130000; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t, cudaDataType_t) {
  *d = reinterpret_cast<cublasLtMatmulDesc_t>(new Desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete Of(d);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t which,
                                              const void* value, size_t size) {
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA: std::memcpy(&Of(d)->a, value, size); break;
    case CUBLASLT_MATMUL_DESC_TRANSB: std::memcpy(&Of(d)->b, value, size); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: std::memcpy(&Of(d)->epilogue, value, size); break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: std::memcpy(&Of(d)->bias, value, size); break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType_t type, uint64_t rows, uint64_t cols,
                                          int64_t ld) {
  *l = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, cols, ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete reinterpret_cast<Layout*>(l);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, size_t size) {
  auto* layout = reinterpret_cast<Layout*>(l);
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    std::memcpy(&layout->batches, value, size);
  else if (which == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    std::memcpy(&layout->stride, value, size);
  else
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  *p = reinterpret_cast<cublasLtMatmulPreference_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete reinterpret_cast<int*>(p);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  ++asked;
  *found = 0;
  if (!IsKnown(Of(a).type) || !IsKnown(Of(d).type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (uint64_t i = 0; i <= kLast && *found < most; ++i) {
    const Algo algo = {IsAligned(Of(a)) && IsAligned(Of(b)) && IsAligned(Of(d)), i};
    std::memcpy(&results[(*found)++].algo, &algo, sizeof algo);
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* given, cublasLtMatmulHeuristicResult_t* result) {
  ++checked;
  Algo algo;
  std::memcpy(&algo, given, sizeof algo);
  const bool fits = algo.aligned == 0 || (IsAligned(Of(a)) && IsAligned(Of(b)) && IsAligned(Of(d)));
  result->state = fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = 0;
  return result->state;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* pa,
                              cublasLtMatrixLayout_t la, const void* pb, cublasLtMatrixLayout_t lb, const void* beta,
                              const void* pc, cublasLtMatrixLayout_t lc, void* pd, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t* given, void* workspace, size_t, cudaStream_t stream) {
  const Desc& op = *Of(desc);
  const Layout &a = Of(la), &b = Of(lb), &c = Of(lc), &d = Of(ld);
  Algo algo;
  std::memcpy(&algo, given, sizeof algo);
  if (algo.aligned != 0 && !(IsAligned(a) && IsAligned(b) && IsAligned(d))) {
    ++refused;
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  ++runs_of[algo.index];
  if (algo.index == kLast) return CUBLAS_STATUS_EXECUTION_FAILED;
  static const auto submit =
      Driver<void (*)(cudaStream_t, float, float, const std::function<void()>&)>("StandInSubmit");
  const float scale = *static_cast<const float*>(alpha), old = *static_cast<const float*>(beta);
  submit(stream, kTimes[algo.index], kTimesInGraphs[algo.index], [=, op = op, a = a, b = b, c = c, d = d] {
    for (const void* p : {pa, pb, static_cast<const void*>(pd), static_cast<const void*>(workspace)}) Watch(p);
    if (old != 0) Watch(pc);
    if (HasBias(op)) Watch(op.bias);
    if (computes) Compute(op, scale, pa, a, pb, b, old, pc, c, pd, d);
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
