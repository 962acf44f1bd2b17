#include "bench/gpu_raw.h"

#ifdef TESSERA_CUDA

#include <cublasLt.h>
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace bench {
namespace {

#define TSR_TEXT(name) TSR_TEXT_INNER(name)
#define TSR_TEXT_INNER(name) #name

template <class F>
F* Symbol(void* library, const char* name) {
  auto* f = reinterpret_cast<F*>(dlsym(library, name));
  if (f == nullptr) throw std::runtime_error(std::string("no function ") + name);
  return f;
}
void* Library(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return library;
}

/// The functions of the driver that are used here.
struct Cuda {
  void* library = Library("libcuda.so.1");
#define TSR_F(name) \
  decltype(&::name) f_##name = Symbol<std::remove_pointer_t<decltype(&::name)>>(library, TSR_TEXT(name));
  TSR_F(cuInit)
  TSR_F(cuDeviceGet)
  TSR_F(cuDevicePrimaryCtxRetain)
  TSR_F(cuCtxSetCurrent)
  TSR_F(cuStreamCreate)
  TSR_F(cuStreamSynchronize)
  TSR_F(cuStreamBeginCapture)
  TSR_F(cuStreamEndCapture)
  TSR_F(cuGraphInstantiateWithFlags)
  TSR_F(cuGraphLaunch)
  TSR_F(cuModuleLoadData)
  TSR_F(cuModuleGetFunction)
  TSR_F(cuLaunchKernel)
  TSR_F(cuMemAlloc)
  TSR_F(cuMemcpyDtoDAsync)
  TSR_F(cuMemcpyHtoD)
  TSR_F(cuEventCreate)
  TSR_F(cuEventRecord)
  TSR_F(cuEventQuery)
  TSR_F(cuEventElapsedTime)
#undef TSR_F
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUfunction kernel = nullptr, spin = nullptr, read = nullptr;
  CUdeviceptr memory = 0;
};

void Check(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) throw std::runtime_error(std::string(what) + " gives " + std::to_string(result));
}

// one: y[i] += 1 for 64 floats. spin: nothing, for so many nanoseconds.
constexpr const char* kPtx = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry one(.param .u64 p) {
  .reg .b64 %rd<4>;
  .reg .b32 %r<2>;
  .reg .f32 %f<3>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f1, [%rd3];
  add.f32 %f2, %f1, 0f3F800000;
  st.global.f32 [%rd3], %f2;
  ret;
}
.visible .entry spin(.param .u64 ns) {
  .reg .b64 %rd<5>;
  .reg .pred %p;
  ld.param.u64 %rd1, [ns];
  mov.u64 %rd2, %globaltimer;
  add.s64 %rd3, %rd2, %rd1;
again:
  mov.u64 %rd4, %globaltimer;
  setp.lt.u64 %p, %rd4, %rd3;
  @%p bra again;
  ret;
}
.visible .entry read(.param .u64 p, .param .u64 end, .param .u64 to) {
  .reg .b64 %rd<8>;
  .reg .b32 %r<4>;
  .reg .b32 %a<32>;
  .reg .b32 %s<4>;
  .reg .pred %p;
  ld.param.u64 %rd1, [p];
  ld.param.u64 %rd2, [end];
  ld.param.u64 %rd3, [to];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  cvta.to.global.u64 %rd3, %rd3;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %nctaid.x;
  mul.wide.u32 %rd4, %r2, 32768;
  mul.wide.u32 %rd5, %r1, 16;
  mul.wide.u32 %rd6, %r3, 32768;
  add.s64 %rd1, %rd1, %rd4;
  add.s64 %rd1, %rd1, %rd5;
  mov.u32 %s0, 0;
  mov.u32 %s1, 0;
  mov.u32 %s2, 0;
  mov.u32 %s3, 0;
next:
  ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%rd1+0];
  ld.global.v4.u32 {%a4, %a5, %a6, %a7}, [%rd1+4096];
  ld.global.v4.u32 {%a8, %a9, %a10, %a11}, [%rd1+8192];
  ld.global.v4.u32 {%a12, %a13, %a14, %a15}, [%rd1+12288];
  ld.global.v4.u32 {%a16, %a17, %a18, %a19}, [%rd1+16384];
  ld.global.v4.u32 {%a20, %a21, %a22, %a23}, [%rd1+20480];
  ld.global.v4.u32 {%a24, %a25, %a26, %a27}, [%rd1+24576];
  ld.global.v4.u32 {%a28, %a29, %a30, %a31}, [%rd1+28672];
  xor.b32 %s0, %s0, %a0;
  xor.b32 %s1, %s1, %a1;
  xor.b32 %s2, %s2, %a2;
  xor.b32 %s3, %s3, %a3;
  xor.b32 %s0, %s0, %a4;
  xor.b32 %s1, %s1, %a5;
  xor.b32 %s2, %s2, %a6;
  xor.b32 %s3, %s3, %a7;
  xor.b32 %s0, %s0, %a8;
  xor.b32 %s1, %s1, %a9;
  xor.b32 %s2, %s2, %a10;
  xor.b32 %s3, %s3, %a11;
  xor.b32 %s0, %s0, %a12;
  xor.b32 %s1, %s1, %a13;
  xor.b32 %s2, %s2, %a14;
  xor.b32 %s3, %s3, %a15;
  xor.b32 %s0, %s0, %a16;
  xor.b32 %s1, %s1, %a17;
  xor.b32 %s2, %s2, %a18;
  xor.b32 %s3, %s3, %a19;
  xor.b32 %s0, %s0, %a20;
  xor.b32 %s1, %s1, %a21;
  xor.b32 %s2, %s2, %a22;
  xor.b32 %s3, %s3, %a23;
  xor.b32 %s0, %s0, %a24;
  xor.b32 %s1, %s1, %a25;
  xor.b32 %s2, %s2, %a26;
  xor.b32 %s3, %s3, %a27;
  xor.b32 %s0, %s0, %a28;
  xor.b32 %s1, %s1, %a29;
  xor.b32 %s2, %s2, %a30;
  xor.b32 %s3, %s3, %a31;
  add.s64 %rd1, %rd1, %rd6;
  setp.lt.u64 %p, %rd1, %rd2;
  @%p bra next;
  xor.b32 %s0, %s0, %s1;
  xor.b32 %s2, %s2, %s3;
  xor.b32 %s0, %s0, %s2;
  setp.eq.u32 %p, %s0, 305419896;
  @%p st.global.u32 [%rd3], %s0;
  ret;
}
)";

Cuda& Driver() {
  static Cuda* cuda = [] {
    auto* c = new Cuda;
    Check(c->f_cuInit(0), "cuInit");
    CUdevice device;
    Check(c->f_cuDeviceGet(&device, 0), "cuDeviceGet");
    Check(c->f_cuDevicePrimaryCtxRetain(&c->context, device), "cuDevicePrimaryCtxRetain");
    Check(c->f_cuCtxSetCurrent(c->context), "cuCtxSetCurrent");
    Check(c->f_cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    CUmodule module;
    Check(c->f_cuModuleLoadData(&module, kPtx), "cuModuleLoadData");
    Check(c->f_cuModuleGetFunction(&c->kernel, module, "one"), "cuModuleGetFunction");
    Check(c->f_cuModuleGetFunction(&c->spin, module, "spin"), "cuModuleGetFunction");
    Check(c->f_cuModuleGetFunction(&c->read, module, "read"), "cuModuleGetFunction");
    Check(c->f_cuMemAlloc(&c->memory, 4096), "cuMemAlloc");
    return c;
  }();
  return *cuda;
}

void LaunchOne() {
  Cuda& c = Driver();
  void* params[] = {&c.memory};
  Check(c.f_cuLaunchKernel(c.kernel, 1, 1, 1, 64, 1, 1, 0, c.stream, params, nullptr), "cuLaunchKernel");
}
void Wait() { Check(Driver().f_cuStreamSynchronize(Driver().stream), "cuStreamSynchronize"); }

/// The time that the host takes for n submissions, in stretches that the queue holds.
template <class F>
Timed Submissions(F submit) {
  return [submit](int64_t n) mutable {
    constexpr int64_t kStretch = 200;
    double seconds = 0;
    for (int64_t done = 0; done < n; done += kStretch) {
      Wait();
      const double start = Now();
      for (int64_t i = done; i < n && i < done + kStretch; ++i) submit();
      seconds += Now() - start;
    }
    Wait();
    return seconds;
  };
}
/// The time until the device has done n of them.
template <class F>
Timed Work(F submit) {
  return [submit](int64_t n) mutable {
    const double start = Now();
    for (int64_t i = 0; i < n; ++i) submit();
    Wait();
    return Now() - start;
  };
}

CUdeviceptr Allocate(size_t bytes) {
  CUdeviceptr p = 0;
  Check(Driver().f_cuMemAlloc(&p, bytes), "cuMemAlloc");
  return p;
}

// ---- cuBLASLt

struct Lt {
  void* library = nullptr;
  Lt() {
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so"})
      if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error("no cuBLASLt");
  }
};
struct LtApi : Lt {
#define TSR_F(name) decltype(&::name) f_##name = Symbol<std::remove_pointer_t<decltype(&::name)>>(library, #name);
  TSR_F(cublasLtCreate)
  TSR_F(cublasLtMatmul)
  TSR_F(cublasLtMatmulAlgoGetHeuristic)
  TSR_F(cublasLtMatmulDescCreate)
  TSR_F(cublasLtMatmulDescSetAttribute)
  TSR_F(cublasLtMatmulPreferenceCreate)
  TSR_F(cublasLtMatmulPreferenceSetAttribute)
  TSR_F(cublasLtMatrixLayoutCreate)
#undef TSR_F
};

struct Gemm {
  LtApi api;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t op = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> algos;
  size_t best = 0;
  CUdeviceptr pa = 0, pb = 0, pc = 0, workspace = 0;
  bool has_other = false;  // what would be added has another dtype than the result, so it must not be its memory
  static constexpr size_t kWorkspace = size_t{32} << 20;

  void PickFastestOnDevice() {
    double fastest = 1e9;
    for (size_t i = 0; i < algos.size(); ++i) {
      Run(i);
      if (const double seconds = DeviceWork([this, i] { Run(i); }, Driver().stream)(50); seconds < fastest)
        fastest = seconds, best = i;
    }
  }
  template <class F>
  void PickFastest(F run) {
    double fastest = 1e9;
    for (size_t i = 0; i < algos.size(); ++i) {
      run(i);
      Wait();
      const double start = Now();
      for (int r = 0; r < 20; ++r) run(i);
      Wait();
      if (const double seconds = Now() - start; seconds < fastest) fastest = seconds, best = i;
    }
  }
  void Run(size_t k) {
    const float one = 1, zero = 0;
    const auto p = [](CUdeviceptr x) { return reinterpret_cast<void*>(x); };
    if (api.f_cublasLtMatmul(handle, op, &one, p(pa), a, p(pb), b, &zero, has_other ? nullptr : p(pc), c, p(pc), d,
                             &algos[k].algo, p(workspace), kWorkspace, Driver().stream) != CUBLAS_STATUS_SUCCESS)
      throw std::runtime_error("cublasLtMatmul failed");
  }
};

std::shared_ptr<Gemm> MakeGemm(int64_t m, int64_t n, int64_t k, const std::string& given,
                               cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT, bool transposed = false) {
  Driver();
  auto g = std::make_shared<Gemm>();
  const bool has_scales = given == "f8e4m3_blocks", widens = given == "f8e4m3_bf16" || has_scales;
  const std::string dtype = widens ? "f8e4m3" : given;
  const cudaDataType_t in = dtype == "bf16"     ? CUDA_R_16BF
                            : dtype == "f16"    ? CUDA_R_16F
                            : dtype == "f8e4m3" ? CUDA_R_8F_E4M3
                                                : CUDA_R_32F;
  const cudaDataType_t added = in == CUDA_R_8F_E4M3 ? CUDA_R_16BF : in;  // nothing, but it has a dtype
  const cudaDataType_t out = widens ? CUDA_R_16BF : in;
  g->has_other = added != out;
  const size_t bytes = in == CUDA_R_32F ? 4 : in == CUDA_R_8F_E4M3 ? 1 : 2;
  const auto check = [](cublasStatus_t s) {
    if (s != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("cuBLASLt gives " + std::to_string(s));
  };
  check(g->api.f_cublasLtCreate(&g->handle));
  check(g->api.f_cublasLtMatmulDescCreate(&g->op, dtype == "tf32" ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                          CUDA_R_32F));
  // c^T = b^T a^T of row-major matrices; f8 needs the first factor transposed.
  const cublasOperation_t ta = dtype == "f8e4m3" || transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(g->api.f_cublasLtMatmulDescSetAttribute(g->op, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta));
  check(g->api.f_cublasLtMatrixLayoutCreate(&g->a, in, ta == CUBLAS_OP_T ? k : n, ta == CUBLAS_OP_T ? n : k,
                                            ta == CUBLAS_OP_T ? k : n));
  check(g->api.f_cublasLtMatrixLayoutCreate(&g->b, in, k, m, k));
  check(g->api.f_cublasLtMatrixLayoutCreate(&g->c, added, n, m, n));
  check(g->api.f_cublasLtMatrixLayoutCreate(&g->d, out, n, m, n));
  if (epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    const CUdeviceptr bias = Allocate(static_cast<size_t>(n) * bytes);
    check(g->api.f_cublasLtMatmulDescSetAttribute(g->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    check(g->api.f_cublasLtMatmulDescSetAttribute(g->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
  }
  if (has_scales) {
#if CUBLAS_VERSION >= 120900
    // Of the first factor (ours is the second one) a scale for each 128 x 128, of the other one for each 128 of a row.
    const int32_t squares = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F, rows = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    const auto ones = [&](int64_t count) {
      const std::vector<float> one(static_cast<size_t>(count), 1.0f);
      const CUdeviceptr p = Allocate(one.size() * 4);
      Check(Driver().f_cuMemcpyHtoD(p, one.data(), one.size() * 4), "cuMemcpyHtoD");
      return p;
    };
    const CUdeviceptr of_a = ones((n / 128 + 4) * (k / 128 + 4)), of_b = ones(m * (k / 128));
    const auto set = [&](cublasLtMatmulDescAttributes_t what, const auto& value) {
      check(g->api.f_cublasLtMatmulDescSetAttribute(g->op, what, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, squares);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, rows);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, of_a);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, of_b);
#else
    throw std::runtime_error("these headers of cuBLASLt have no scales for blocks");
#endif
  }
  cublasLtMatmulPreference_t preference;
  check(g->api.f_cublasLtMatmulPreferenceCreate(&preference));
  const size_t room = Gemm::kWorkspace;
  check(g->api.f_cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room,
                                                      sizeof room));
  g->algos.resize(8);
  int found = 0;
  check(g->api.f_cublasLtMatmulAlgoGetHeuristic(g->handle, g->op, g->a, g->b, g->c, g->d, preference, 8,
                                                g->algos.data(), &found));
  g->algos.resize(static_cast<size_t>(found));
  const auto fill = [&](size_t count) {
    // Normal numbers of any of the dtypes, by the bits of the f32: what has fewer bits is cut off.
    std::vector<unsigned char> data(count * bytes);
    std::mt19937 rng(7);
    std::normal_distribution<float> normal;
    const auto narrow = [](uint32_t bits, int bias, int fraction) {
      const int exponent = static_cast<int>(bits >> 23 & 255) - 127 + bias;
      const uint32_t sign = bits >> 31 << (bias == 15 ? 15 : 7);
      return exponent <= 0 ? sign
                           : sign | static_cast<uint32_t>(exponent) << fraction | (bits & 0x7fffff) >> (23 - fraction);
    };
    for (size_t i = 0; i < count; ++i) {
      const float x = normal(rng);
      uint32_t bits;
      std::memcpy(&bits, &x, 4);
      const uint32_t kept = in == CUDA_R_16BF      ? bits >> 16
                            : in == CUDA_R_16F     ? narrow(bits, 15, 10)
                            : in == CUDA_R_8F_E4M3 ? narrow(bits, 7, 3)
                                                   : bits;
      for (size_t k = 0; k < bytes; ++k) data[i * bytes + k] = static_cast<unsigned char>(kept >> (8 * k));
    }
    const CUdeviceptr p = Allocate(data.size());
    Check(Driver().f_cuMemcpyHtoD(p, data.data(), data.size()), "cuMemcpyHtoD");
    return p;
  };
  g->pa = fill(static_cast<size_t>(n * k));
  g->pb = fill(static_cast<size_t>(k * m));
  g->pc = Allocate(static_cast<size_t>(m * n) * 4);
  g->workspace = Allocate(Gemm::kWorkspace);
  g->PickFastest([&](size_t algo) { g->Run(algo); });
  return g;
}

}  // namespace

Timed DeviceWork(std::function<void()> submit, void* on) {
  Cuda& c = Driver();
  CUevent first, last;
  Check(c.f_cuEventCreate(&first, CU_EVENT_DEFAULT), "cuEventCreate");
  Check(c.f_cuEventCreate(&last, CU_EVENT_DEFAULT), "cuEventCreate");
  const auto stream = static_cast<CUstream>(on);
  auto ns = std::make_shared<uint64_t>(500'000);
  return [=, &c](int64_t n) {
    constexpr int64_t kStretch = 100;  // fewer than the queue holds
    double seconds = 0;
    for (int64_t done = 0; done < n;) {
      void* params[] = {ns.get()};
      Check(c.f_cuStreamSynchronize(stream), "cuStreamSynchronize");
      Check(c.f_cuLaunchKernel(c.spin, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr), "cuLaunchKernel");
      Check(c.f_cuEventRecord(first, stream), "cuEventRecord");
      const int64_t stretch = std::min(kStretch, n - done);
      for (int64_t i = 0; i < stretch; ++i) submit();
      const bool was_late = c.f_cuEventQuery(first) == CUDA_SUCCESS;
      Check(c.f_cuEventRecord(last, stream), "cuEventRecord");
      Check(c.f_cuStreamSynchronize(stream), "cuStreamSynchronize");
      float ms = 0;
      Check(c.f_cuEventElapsedTime(&ms, first, last), "cuEventElapsedTime");
      // The device must not have waited for the host, unless the queue did not hold all of it.
      if (was_late && *ns < 20'000'000 && ms < 10) {
        *ns *= 2;
        continue;
      }
      seconds += ms * 1e-3;
      done += stretch;
    }
    return seconds;
  };
}

Timed GpuRawTask(const std::string& task) {
  std::istringstream words(task);
  std::string name;
  words >> name;
  if (name == "init") {
    // It happens once in a process, at the first question.
    static const double seconds = [] {
      const double start = Now();
      Driver();
      return Now() - start;
    }();
    return [](int64_t) { return seconds; };
  }
  if (name == "launch") return Submissions(LaunchOne);
  if (name == "graph") {
    int nodes = 1;
    words >> nodes;
    Cuda& c = Driver();
    CUgraph graph;
    CUgraphExec exec;
    Check(c.f_cuStreamBeginCapture(c.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
    for (int i = 0; i < nodes; ++i) LaunchOne();
    Check(c.f_cuStreamEndCapture(c.stream, &graph), "cuStreamEndCapture");
    Check(c.f_cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    return Submissions([exec, &c] { Check(c.f_cuGraphLaunch(exec, c.stream), "cuGraphLaunch"); });
  }
  if (name == "copy") {
    size_t bytes = 0;
    words >> bytes;
    const CUdeviceptr from = Allocate(bytes), to = Allocate(bytes);
    return Work([=] { Check(Driver().f_cuMemcpyDtoDAsync(to, from, bytes, Driver().stream), "cuMemcpyDtoDAsync"); });
  }
  if (name == "read") {
    // Blocks of 256 threads read 32 KiB at a time.
    constexpr size_t kAtATime = 32768;
    size_t bytes = 0;
    words >> bytes;
    if (bytes == 0 || bytes % kAtATime != 0) return {};
    const CUdeviceptr from = Allocate(bytes);
    const auto blocks = static_cast<unsigned>(std::min<size_t>(bytes / kAtATime, 132 * 8));
    return Work([=]() mutable {
      Cuda& c = Driver();
      CUdeviceptr begin = from, end = from + bytes;
      void* params[] = {&begin, &end, &c.memory};
      Check(c.f_cuLaunchKernel(c.read, blocks, 1, 1, 256, 1, 1, 0, c.stream, params, nullptr), "cuLaunchKernel");
    });
  }
  if (name == "gemm_on_device") {
    int64_t m = 0, n = 0, k = 0;
    std::string dtype;
    words >> m >> n >> k >> dtype;
    const std::shared_ptr<Gemm> g = MakeGemm(m, n, k, dtype);
    g->PickFastestOnDevice();
    return DeviceWork([g] { g->Run(g->best); }, Driver().stream);
  }
  if (name == "gemm" || name == "gemm_bias" || name == "gemm_bias_gelu") {
    int64_t m = 0, n = 0, k = 0;
    std::string dtype, way;
    words >> m >> n >> k >> dtype >> way;
    const std::shared_ptr<Gemm> g = MakeGemm(m, n, k, dtype,
                                             name == "gemm"        ? CUBLASLT_EPILOGUE_DEFAULT
                                             : name == "gemm_bias" ? CUBLASLT_EPILOGUE_BIAS
                                                                   : CUBLASLT_EPILOGUE_GELU_BIAS,
                                             way == "nt");
    return Work([g] { g->Run(g->best); });
  }
  if (name == "gemm_in_turn") {
    int64_t m = 0, n = 0, k = 0;
    std::string way;
    words >> way >> m >> n >> k;
    const std::shared_ptr<Gemm> g = MakeGemm(m, n, k, "bf16", CUBLASLT_EPILOGUE_DEFAULT, way == "nt");
    std::vector<CUdeviceptr> all = {g->pa};
    const auto bytes = static_cast<size_t>(n * k) * 2;
    while (static_cast<int64_t>(all.size()) < MatricesBeyondCache(n, k)) {
      all.push_back(Allocate(bytes));
      Check(Driver().f_cuMemcpyDtoDAsync(all.back(), g->pa, bytes, Driver().stream), "cuMemcpyDtoDAsync");
    }
    auto run = [g, all, at = size_t{0}](size_t algo) mutable {
      g->pa = all[at++ % all.size()];
      g->Run(algo);
    };
    g->PickFastest(run);
    return Work([g, run]() mutable { run(g->best); });
  }
  return {};
}

}  // namespace bench

#else

namespace bench {
Timed DeviceWork(std::function<void()>, void*) { return {}; }
Timed GpuRawTask(const std::string&) { return {}; }
}  // namespace bench

#endif
