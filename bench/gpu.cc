// The benchmarks of a CUDA device. Ours run in processes of their own (--serve gpu), as their peers do: the driver and
// cuBLASLt (gpu_raw.h), and PyTorch through bench/gpu_torch.py where python3 has it.
#include "bench/gpu.h"

#include <tessera/cuda.h>
#include <tessera/tessera.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <sstream>
#include <stdexcept>

#include "bench/benchmarks.h"
#include "bench/gpu_processes.h"
#include "bench/gpu_raw.h"
#include "bench/peer_process.h"
#include "bench/tracing.h"

namespace bench {
namespace {

using tessera::Device;
using tessera::Dims;
using tessera::DType;
using tessera::Function;
using tessera::Runtime;
using tessera::Tensor;

Device Gpu() { return Runtime::device(); }
void Wait() { Runtime::synchronize(Gpu()).ok(); }

Tensor Normal(const Dims& dims, DType dtype, int64_t seed) {
  return tessera::random_normal(seed, 0, dims, 0, 1, tessera::f32).cast(dtype);
}

/// A function of rows [M, N], and what else it takes.
struct Rows {
  const char* name;
  const char* body;
  int vectors;        // operands of [N] beside x
  bool sums = false;  // the result is [M]
};
constexpr Rows kRows[] = {
    {"gelu", "%p = mul %x, %w : T\n%s = add %p, %b : T\n%g = gelu %s : T\n%h = mul %g, 0.5 : T\n%y = add %h, %x : T\n",
     2},
    {"layer_norm", "%y = layer_norm %x, %w, %b : T\n", 2},
    {"rms_norm", "%y = rms_norm %x, %w : T\n", 2},
    {"softmax", "%y = softmax %x : T\n", 0},
    {"sum", "%y = sum %x {axes = [1]} : S\n", 0, true},
};

std::string Text(const Rows& rows, const std::string& dtype) {
  const std::string matrix = "tensor<M x N x " + dtype + ">", vector = "tensor<N x " + dtype + ">",
                    sums = "tensor<M x " + dtype + ">";
  std::string body = rows.body;
  for (const auto& [from, to] : {std::pair<std::string, std::string>{": T", ": " + matrix}, {": S", ": " + sums}})
    for (size_t at = 0; (at = body.find(from, at)) != std::string::npos; at += to.size())
      body.replace(at, from.size(), to);
  std::string text = "func @f(%x: " + matrix;
  if (rows.vectors > 0) text += ", %w: " + vector + ", %b: " + vector;
  return text + ") -> " + (rows.sums ? sums : matrix) + " {\n" + body + "return %y\n}\n";
}

double BytesOf(const Rows& rows, int64_t m, int64_t n, const std::string& dtype) {
  const double element = dtype == "f32" ? 4 : 2;
  return element * static_cast<double>(m) * static_cast<double>(n) * (rows.sums ? 1 : 2);
}

Function Parse(const std::string& text) {
  return tessera::Module::parse(text, "bench.gir").value().function("f").value();
}

/// Calls it until what the options allow is in place.
template <class F>
void WarmUp(F call) {
  for (int i = 0; i < 60; ++i) call();
  Runtime::wait_for_builds();
  for (int i = 0; i < 20; ++i) call();
  Runtime::wait_for_builds();
  Wait();
}

/// Only the time of the host, in stretches that the device's queue holds.
template <class F>
Timed Submissions(F call, int64_t stretch) {
  WarmUp(call);
  return [call, stretch](int64_t n) mutable {
    double seconds = 0;
    for (int64_t done = 0; done < n; done += stretch) {
      Wait();
      const double start = Now();
      for (int64_t i = done; i < n && i < done + stretch; ++i) call();
      seconds += Now() - start;
    }
    Wait();
    return seconds;
  };
}

Function SmallChain(int ops) {
  std::string text = "func @f(%x0: tensor<64 x f32>, %b: tensor<64 x f32>) -> tensor<64 x f32> {\n";
  for (int i = 0; i < ops; ++i) {
    const char* op = i % 3 == 0 ? "add" : i % 3 == 1 ? "mul" : "maximum";
    text += "%x" + std::to_string(i + 1) + " = " + op + " %x" + std::to_string(i) + ", %b : tensor<64 x f32>\n";
  }
  return Parse(text + "return %x" + std::to_string(ops) + "\n}\n");
}

}  // namespace

Process StartGpu(Tier tier, const Settings& more) {
  Settings settings = {"TESSERA_DEVICE=cuda", "TESSERA_CACHE=false",     "TESSERA_HOT_FUNCTION=4",
                       "TESSERA_HOT_EAGER=4", "TESSERA_COMPILE_AFTER=0", "TESSERA_PROFIT_GATE=false"};
  settings.push_back(tier == Tier::one ? "TESSERA_TIER=1" : tier == Tier::two ? "TESSERA_TIER=2" : "TESSERA_TIER=3");
  settings.push_back(tier == Tier::all ? "TESSERA_SPECIALISE_AFTER=0" : "TESSERA_SPECIALISE_AFTER=1000000000");
  settings.insert(settings.end(), more.begin(), more.end());
  return PeerProcess::Start({ProgramFolder() + "/tessera_bench", "--serve", "gpu"}, settings);
}
Process StartRaw() { return PeerProcess::Start({ProgramFolder() + "/tessera_bench", "--serve", "gpu_raw"}, {}); }
Process StartTorch() {
  for (const std::string& folder : {ProgramFolder() + "/../../../bench", ProgramFolder() + "/../../bench"}) {
    const std::string script = folder + "/gpu_torch.py";
    if (std::filesystem::exists(script)) return PeerProcess::Start({"python3", script}, {});
  }
  return nullptr;
}

void CheckGpu() {
  if (!Device::find("cuda").ok()) throw std::runtime_error(Device::find("cuda").status().message());
}

void AddPeer(std::vector<Timed>& contenders, std::vector<std::string>& peers, const Process& process,
             const std::string& task, const std::string& name) {
  if (process == nullptr || !process->Knows(task)) return;
  contenders.push_back(PeerProcess::Task(process, task));
  peers.push_back(name);
}

Timed GpuWork(std::function<void()> call) {
  WarmUp(call);
  return [call](int64_t n) {
    Wait();
    const double start = Now();
    for (int64_t i = 0; i < n; ++i) call();
    Wait();
    return Now() - start;
  };
}

Timed GpuTask(const std::string& task) {
  std::istringstream words(task);
  std::string name, dtype;
  int64_t m = 0, n = 0, k = 0;
  words >> name;
  if (name == "rows") {
    std::string which;
    words >> which >> dtype >> m >> n;
    for (const Rows& rows : kRows) {
      if (which != rows.name) continue;
      const DType t = *tessera::ParseDType(dtype);
      const Function f = Parse(Text(rows, dtype));
      std::vector<Tensor> args = {Normal({m, n}, t, 1)};
      for (int i = 0; i < rows.vectors; ++i) args.push_back(Normal({n}, t, 2 + i));
      return GpuWork([f, args] { f(args); });
    }
    return {};
  }
  if (name == "gemm" || name == "gemm_on_device") {
    words >> m >> n >> k >> dtype;
    Runtime::set_option("tf32", dtype == "tf32" ? "true" : "false").ok();
    const DType t = dtype == "tf32" ? tessera::f32 : *tessera::ParseDType(dtype);
    const bool f8 = dtype == "f8e4m3";
    const Tensor a = Normal({m, k}, t, 1), b = f8 ? Normal({n, k}, t, 2) : Normal({k, n}, t, 2);
    const auto call = [a, b, f8] { tessera::matmul(a, b, false, f8); };
    if (name == "gemm") return GpuWork(call);
    // Until each kernel of cuBLASLt has been tried, which of long products are fewer runs.
    constexpr int kLongRounds = 8;
    const double start = Now();
    for (int i = 0; i < 60 && (i < kLongRounds || Now() - start < 2); ++i) {
      for (int k = 0; k < 20; ++k) call();
      Wait();
    }
    return DeviceWork(call, tessera::cuda::stream(a.device()));
  }
  if (name == "eager_add") {
    const Tensor a = Normal({64}, tessera::f32, 1), b = Normal({64}, tessera::f32, 2);
    return Submissions([a, b] { const Tensor y = a + b; }, 200);
  }
  if (name == "call") {
    words >> n;
    const Function f = SmallChain(static_cast<int>(n));
    const std::vector<Tensor> args = {Normal({64}, tessera::f32, 1), Normal({64}, tessera::f32, 2)};
    return Submissions([f, args] { f(args); }, 30);
  }
  if (name == "loop") {
    // As a C++ loop writes it; each time round is one trace.
    const Tensor x = Normal({64}, tessera::f32, 1), b = Normal({64}, tessera::f32, 2);
    return Submissions(
        [x, b] {
          Tensor y = x;
          for (int i = 0; i < 10; ++i) y = tessera::maximum((y + b) * b, b);
          tessera::Step next;
        },
        30);
  }
  if (const Timed program = GpuProgramTask(task)) return program;
  if (const Timed linear = GpuLinearTask(task)) return linear;
  if (const Timed scores = GpuScoresTask(task)) return scores;
  if (const Timed rows = GpuRowsTask(task)) return rows;
  if (const Timed tuner = GpuTunerTask(task)) return tuner;
  if (name == "generated") {
    // How many generated kernels a call runs, in place of seconds.
    words.clear();
    const std::string rest = task.substr(10);
    const Timed timed = GpuTask(rest);
    if (!timed) return {};
    return [timed](int64_t) {
      const double before = Metric("kernels_generated");
      timed(10);
      return (Metric("kernels_generated") - before) / 10;
    };
  }
  return {};
}

void GpuColdStart() {
  CheckGpu();
  const std::string program = ProgramFolder() + "/tessera_cold_start";
  std::vector<double> ours, init;
  for (int i = 0; i < 5; ++i) {
    const double start = Now();
    if (!RunProgram({program}, {"TESSERA_DEVICE=cuda"}, nullptr)) throw std::runtime_error(program + " failed");
    ours.push_back(Now() - start);
    const Process raw = StartRaw();
    if (raw != nullptr && raw->Knows("init")) init.push_back(PeerProcess::Task(raw, "init")(1));
  }
  Figure figure{.name = "gpu_cold_start", .unit = Milliseconds(), .goal = {Goal::value_at_most, 1000}};
  figure.ours = Summarize(ours);
  figure.note = "exec to exit of a program that adds two tensors on the device and prints";
  figure.more = {{"driver_init_ms", Json(Median(init) * 1e3)}};
  Report(figure);
}

void GpuLaunch() {
  CheckGpu();
  const Process tier1 = StartGpu(Tier::one), all = StartGpu(Tier::all), raw = StartRaw(), torch = StartTorch();
  {
    std::vector<Timed> contenders = {PeerProcess::Task(tier1, "eager_add")};
    std::vector<std::string> peers;
    AddPeer(contenders, peers, raw, "launch", "cuLaunchKernel");
    AddPeer(contenders, peers, torch, "eager_add", "PyTorch eager");
    Report({.name = "gpu_launch/eager_add",
            .unit = Nanoseconds(),
            .goal = {Goal::ratio_at_least, 1 / 1.5},
            .note = "host time of a + b on 64 floats"},
           RunRace(contenders, Budget()), peers);
  }
  for (const int ops : {1, 30}) {
    const std::string task = "call " + std::to_string(ops);
    std::vector<Timed> contenders = {PeerProcess::Task(all, task)};
    std::vector<std::string> peers;
    AddPeer(contenders, peers, raw, "graph 1", "cuGraphLaunch of one kernel");
    AddPeer(contenders, peers, raw, "graph " + std::to_string(ops), "cuGraphLaunch of as many kernels");
    AddPeer(contenders, peers, torch, task, "torch.compile");
    AddPeer(contenders, peers, tier1, task, "tier 1");
    Report({.name = "gpu_launch/function_" + std::to_string(ops),
            .unit = Nanoseconds(),
            .note = "host time of a call of a hot function of small ops"},
           RunRace(contenders, Budget()), peers);
  }
  {
    std::vector<Timed> contenders = {PeerProcess::Task(all, "loop")};
    std::vector<std::string> peers;
    AddPeer(contenders, peers, all, "call 30", "the same ops as a function");
    AddPeer(contenders, peers, torch, "loop", "PyTorch eager");
    AddPeer(contenders, peers, tier1, "loop", "tier 1");
    Report({.name = "gpu_launch/eager_loop_30",
            .unit = Nanoseconds(),
            .note = "host time of 30 small ops in a C++ loop; goal: 40 ns an op above the function"},
           RunRace(contenders, Budget()), peers);
  }
}

void GpuFused() {
  CheckGpu();
  const Process tier2 = StartGpu(Tier::two), tier3 = StartGpu(Tier::all), tier1 = StartGpu(Tier::one), raw = StartRaw(),
                torch = StartTorch();
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{16384, 8192}, {32768, 1024}, {4096, 32768}}) {
    for (const char* dtype : {"bf16", "f32"}) {
      for (const Rows& rows : kRows) {
        const std::string task =
            std::string("rows ") + rows.name + " " + dtype + " " + std::to_string(m) + " " + std::to_string(n);
        const double bytes = BytesOf(rows, m, n, dtype);
        std::vector<Timed> contenders = {PeerProcess::Task(tier3, task)};
        std::vector<std::string> peers;
        AddPeer(contenders, peers, raw, "copy " + std::to_string(static_cast<int64_t>(bytes / 2)),
                "a copy of the same bytes");
        AddPeer(contenders, peers, tier2, task, "tier 2");
        AddPeer(contenders, peers, tier1, task, "tier 1");
        AddPeer(contenders, peers, torch, task, "torch.compile");
        Figure figure{.name = std::string("gpu_fused/") + rows.name + "_" + dtype + "_" + std::to_string(m) + "x" +
                              std::to_string(n),
                      .unit = Rate("GB/s", bytes * 1e-9),
                      .goal = {Goal::ratio_at_least, 0.9}};
        const Race race = RunRace(contenders, Budget());
        figure.more = {{"generated_kernels", Json(PeerProcess::Task(tier3, "generated " + task)(1))}};
        Report(figure, race, peers);
      }
    }
  }
}

void GpuGemmTier1() {
  CheckGpu();
  const Process ours = StartGpu(Tier::one, {"TESSERA_TUNE_AFTER=0"}), raw = StartRaw();
  for (const char* dtype : {"bf16", "f16", "tf32", "f32", "f8e4m3"}) {
    for (const int64_t size : {256, 512, 1024, 2048, 4096, 8192}) {
      const std::string s = std::to_string(size), task = "gemm_on_device " + s + " " + s + " " + s + " " + dtype;
      std::vector<Timed> contenders = {PeerProcess::Task(ours, task)};
      std::vector<std::string> peers;
      AddPeer(contenders, peers, raw, task, "cuBLASLt, the fastest of eight");
      const double n = static_cast<double>(size);
      Report({.name = std::string("gpu_gemm_tier1/") + dtype + "_" + s,
              .unit = Rate("TFLOP/s", 2e-12 * n * n * n),
              .goal = {Goal::ratio_at_least, 0.97}},
             RunRace(contenders, Budget()), peers);
    }
  }
  const char task[] = "gemm 256 256 256 bf16";
  std::vector<Timed> contenders = {PeerProcess::Task(ours, task)};
  std::vector<std::string> peers;
  AddPeer(contenders, peers, raw, task, "cublasLtMatmul");
  Figure call{.name = "gpu_gemm_tier1/call", .unit = Nanoseconds()};
  call.note = "one after the other, bf16, 256 cubed: the host takes longer than the device";
  Report(call, RunRace(contenders, Budget()), peers);
}

void GpuCompileLatency() {
  CheckGpu();
  for (const char* program : {"chain 16 64", "scaled_softmax 16 64", "layer_norm 16 64"}) {
    std::vector<double> seconds, first;
    for (int i = 0; i < 5; ++i) {
      Series series =
          RunTrial(std::string("compile softmax_by_hand 16 64 then ") + program, Tier::two,
                   {"TESSERA_DEVICE=cuda", "TESSERA_BACKGROUND=false", "TESSERA_HOT_FUNCTION=1",
                    "TESSERA_COMPILE_AFTER=0", "TESSERA_PROFIT_GATE=false", "TESSERA_CACHE=false", kNoDriverCache});
      seconds.insert(seconds.end(), series["compile"].begin(), series["compile"].end());
      first.insert(first.end(), series["first"].begin(), series["first"].end());
    }
    Figure figure{.name = std::string("gpu_compile_latency/") + std::string(program, std::strchr(program, ' ')),
                  .unit = Milliseconds(),
                  .goal = {Goal::value_at_most, 60},
                  .note =
                      "PTX and cubin, without any cache, where the compiler has made code before, as it does when a "
                      "program first uses a GPU; first_ms: that code, of a softmax, with opening the compiler and "
                      "nvJitLink"};
    figure.more = {{"first_ms", Json(Median(first) * 1e3)}};
    figure.ours = Summarize(seconds);
    Report(figure);
  }
}

}  // namespace bench
