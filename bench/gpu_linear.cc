// gpu_linear: matrix products of bf16 with what follows them, in one kernel on tensor cores; gpu_epilogues: the same
// where the product is the library's; gpu_gemm_tier3: products alone, of bf16 and of f32 in tf32 (generated although
// the library is the default), and of f8e4m3 that are cast to bf16, with a scale for each row and column, with scales
// for blocks of 128, and without; gpu_skinny: products of few rows, in tier 1 and generated; gpu_few_tiles: products of
// more rows, but few tiles, whose sums are long.
#include <tessera/tessera.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "bench/benchmarks.h"
#include "bench/gpu.h"
#include "bench/gpu_processes.h"
#include "bench/gpu_raw.h"

namespace bench {
namespace {

using tessera::Function;
using tessera::Tensor;

struct Program {
  const char* name;
  const char* steps;   // from %p to %y
  const char* raw;     // what cuBLASLt has for it; null: nothing
  bool keeps = false;  // %q, too, is a result: what the way back needs
};
constexpr Program kPrograms[] = {
    {"bias", "  %y = add %p, %b\n", "gemm_bias"},
    {"bias_gelu", "  %q = add %p, %b\n  %y = gelu %q\n", nullptr},
    {"bias_gelu_tanh", "  %q = add %p, %b\n  %y = gelu_tanh %q\n", "gemm_bias_gelu"},
    {"bias_gelu_residual", "  %q = add %p, %b\n  %g = gelu %q\n  %y = add %g, %r\n", nullptr},
    {"bias_residual", "  %q = add %p, %b\n  %y = add %q, %r\n", nullptr},
    {"bias_gelu_tanh_kept", "  %q = add %p, %b\n  %y = gelu_tanh %q\n", nullptr, true},
    {"gelu_tanh_grad", "  %y = gelu_tanh_grad %r, %p\n", nullptr},
};

std::string Join(const std::string& name, int64_t m, int64_t n, int64_t k) {
  return name + " " + std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k);
}

constexpr Program kProduct = {"product", "", nullptr};

/// Null: there is none of that name.
const Program* ProgramOf(const std::string& name) {
  if (name == kProduct.name) return &kProduct;
  const auto* it = std::find_if(std::begin(kPrograms), std::end(kPrograms),
                                [&](const Program& known) { return name == known.name; });
  return it == std::end(kPrograms) ? nullptr : it;
}

/// linear(x, w, b, r).
Function Linear(const Program& program, const std::string& t, bool transposed) {
  const std::string y = "tensor<M x N x " + t + ">";
  const bool is_product = &program == &kProduct;
  return Function::parse("func @linear(%x: tensor<M x K x " + t + ">, %w: tensor<" +
                         (transposed ? "N x K x " : "K x N x ") + t + ">, %b: tensor<N x " + t + ">, %r: " + y +
                         ") -> " + (program.keeps ? "(" + y + ", " + y + ")" : y) + " {\n  %p = matmul %x, %w" +
                         (transposed ? " {transpose_b = true}\n" : "\n") + program.steps + "  return " +
                         (is_product      ? "%p"
                          : program.keeps ? "%q, %y"
                                          : "%y") +
                         "\n}\n")
      .value();
}

/// Matrices that together do not fit into any cache, in turn: by the op, or, with a program, in a function.
Timed SkinnyTask(bool transposed, int64_t m, int64_t n, int64_t k, const std::string& program) {
  const auto normal = [](const tessera::Dims& dims, int64_t seed) {
    return tessera::random_normal(seed, 0, dims, 0, 1, tessera::f32).cast(tessera::bf16);
  };
  const Tensor a = normal({m, k}, 1);
  std::vector<Tensor> all;
  for (int64_t i = 0; i < MatricesBeyondCache(n, k); ++i)
    all.push_back(transposed ? normal({n, k}, 2 + i) : normal({k, n}, 2 + i));
  if (program.empty()) {
    return GpuWork([a, all, transposed, at = size_t{0}]() mutable {
      tessera::matmul(a, all[at++ % all.size()], false, transposed);
    });
  }
  const Program* steps = ProgramOf(program);
  if (steps == nullptr) return {};
  const Function f = Linear(*steps, "bf16", transposed);
  std::vector<std::vector<Tensor>> args;
  const Tensor b = normal({n}, 100), r = normal({m, n}, 101);
  for (const Tensor& w : all) args.push_back({a, w, b, r});
  return GpuWork([f, args, at = size_t{0}]() mutable { f(args[at++ % args.size()]); });
}

/// A product of f8e4m3 in bf16. The weight lies along the sum. `scaled`: with a scale for each row and each column.
Timed F8Task(bool scaled, int64_t m, int64_t n, int64_t k) {
  const auto normal = [](const tessera::Dims& dims, int64_t seed) {
    return tessera::random_normal(seed, 0, dims, 0, 1, tessera::f32);
  };
  const std::vector<Tensor> args = {normal({m, k}, 1).cast(tessera::f8e4m3), normal({n, k}, 2).cast(tessera::f8e4m3),
                                    normal({m, 1}, 3), normal({n}, 4)};
  const Function f =
      Function::parse(
          "func @product(%x: tensor<M x K x f8e4m3>, %w: tensor<N x K x f8e4m3>, %s: tensor<M x 1 x f32>, %t: "
          "tensor<N x f32>) -> tensor<M x N x bf16> {\n  %a = cast %x {dtype = bf16}\n  %b = cast %w {dtype = bf16}\n"
          "  %p = matmul %a, %b {transpose_b = true}\n" +
          std::string(scaled ? "  %q = mul %p, %s\n  %r = mul %q, %t\n  %y = cast %r {dtype = bf16}\n  return %y\n}\n"
                             : "  return %p\n}\n"))
          .value();
  return GpuWork([f, args] { f(args); });
}

/// The same with a scale for each 128 elements of a row, and for each 128 x 128 of the weight.
Timed F8BlocksTask(int64_t m, int64_t n, int64_t k) {
  const auto normal = [](const tessera::Dims& dims, int64_t seed) {
    return tessera::random_normal(seed, 0, dims, 0, 1, tessera::f32);
  };
  const std::vector<Tensor> args = {normal({m, k}, 1).cast(tessera::f8e4m3), normal({n, k}, 2).cast(tessera::f8e4m3),
                                    normal({m, k / 128}, 3), normal({n / 128, k / 128}, 4)};
  const auto text = [](std::initializer_list<int64_t> dims) {
    std::string all;
    for (const int64_t d : dims) all += (all.empty() ? "" : ", ") + std::to_string(d);
    return "[" + all + "]";
  };
  const auto type = [](int64_t rows, int64_t columns, const char* dtype) {
    return ": tensor<" + std::to_string(rows) + " x " + std::to_string(columns) + " x " + dtype + ">";
  };
  const Function f =
      Function::parse(
          "func @product(%x" + type(m, k, "f8e4m3") + ", %w" + type(n, k, "f8e4m3") + ", %s" + type(m, k / 128, "f32") +
          ", %t" + type(n / 128, k / 128, "f32") + ") -> tensor<" + std::to_string(m) + " x " + std::to_string(n) +
          " x bf16> {\n  %a = reshape %x {dims = " + text({m, k / 128, 128}) +
          "}\n  %b = reshape %s {dims = " + text({m, k / 128, 1}) +
          "}\n  %c = cast %a {dtype = f32}\n  %d = mul %c, %b\n  %e = reshape %d {dims = " + text({m, k}) +
          "}\n  %f = cast %e {dtype = bf16}\n  %g = reshape %w {dims = " + text({n / 128, 128, k / 128, 128}) +
          "}\n  %h = reshape %t {dims = " + text({n / 128, 1, k / 128, 1}) +
          "}\n  %i = cast %g {dtype = f32}\n  %j = mul %i, %h\n  %k = reshape %j {dims = " + text({n, k}) +
          "}\n  %l = cast %k {dtype = bf16}\n  %p = matmul %f, %l {transpose_b = true}\n"
          "  return %p\n}\n")
          .value();
  return GpuWork([f, args] { f(args); });
}

}  // namespace

Timed GpuLinearTask(const std::string& task) {
  std::istringstream words(task);
  std::string name, which, given, way;
  int64_t m = 0, n = 0, k = 0;
  words >> name >> which >> m >> n >> k >> given >> way;
  if (name == "f8" && which == "blocks") return F8BlocksTask(m, n, k);
  if (name == "f8") return F8Task(which == "scaled", m, n, k);
  if (name == "skinny") return SkinnyTask(which == "nt", m, n, k, given);
  if (name != "linear") return {};
  const std::string t = given.empty() ? "bf16" : given == "tf32" ? "f32" : given;
  tessera::Runtime::set_option("tf32", given == "tf32" ? "true" : "false").ok();
  const auto normal = [&](const tessera::Dims& dims, int64_t seed, double scale) {
    return tessera::random_normal(seed, 0, dims, 0, scale, tessera::f32).cast(*tessera::ParseDType(t));
  };
  const bool transposed = way == "nt";
  const std::vector<Tensor> args = {normal({m, k}, 1, 1),
                                    transposed ? normal({n, k}, 2, 0.03) : normal({k, n}, 2, 0.03), normal({n}, 3, 1),
                                    normal({m, n}, 4, 1)};
  const Program* program = ProgramOf(which);
  if (program == nullptr) return {};
  const Function f = Linear(*program, t, transposed);
  return GpuWork([f, args] { f(args); });
}

void GpuLinear() {
  CheckGpu();
  const Process all = StartGpu(Tier::all), tier1 = StartGpu(Tier::one), raw = StartRaw(), torch = StartTorch();
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{8192, 4096, 1024}, {16384, 3072, 768}, {16384, 768, 3072}, {4096, 4096, 4096}}) {
    for (const Program& program : kPrograms) {
      const std::string task = Join(std::string("linear ") + program.name, m, n, k);
      std::vector<Timed> contenders = {PeerProcess::Task(all, task)};
      std::vector<std::string> peers;
      AddPeer(contenders, peers, torch, "compiled_" + task, "torch.compile");
      AddPeer(contenders, peers, torch, task, "PyTorch eager");
      if (program.raw != nullptr)
        AddPeer(contenders, peers, raw, Join(program.raw, m, n, k) + " bf16", "cuBLASLt with its epilogue");
      AddPeer(contenders, peers, raw, Join("gemm", m, n, k) + " bf16", "cuBLASLt, the product alone");
      AddPeer(contenders, peers, tier1, task, "tier 1");
      std::string name = "gpu_linear/" + task.substr(7);
      std::replace(name.begin(), name.end(), ' ', '_');
      const double flop = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
      Figure figure{.name = name, .unit = Rate("TFLOP/s", flop * 1e-12), .goal = {Goal::ratio_at_least, 1}};
      const Race race = RunRace(contenders, Budget());
      figure.more = {{"generated_kernels", Json(PeerProcess::Task(all, "generated " + task)(1))}};
      Report(figure, race, peers);
    }
  }
}

void GpuEpilogues() {
  CheckGpu();
  const Process all = StartGpu(Tier::all, {"TESSERA_SCHEDULE=*:form=library"}), tier1 = StartGpu(Tier::one),
                raw = StartRaw();
  constexpr int64_t m = 8192, n = 3072, k = 768;
  for (const char* dtype : {"tf32", "bf16"}) {
    for (const char* which : {"bias", "bias_residual", "bias_gelu_tanh"}) {
      const bool narrow = dtype[0] == 'b', has_gelu = std::string_view(which) == "bias_gelu_tanh";
      if (has_gelu && !narrow) continue;
      const std::string task = Join(std::string("linear ") + which, m, n, k) + " " + dtype;
      std::vector<Timed> contenders = {PeerProcess::Task(all, task)};
      std::vector<std::string> peers;
      AddPeer(contenders, peers, tier1, task, "tier 1");
      AddPeer(contenders, peers, raw, Join("gemm", m, n, k) + " " + dtype, "cuBLASLt, the product alone");
      if (std::string_view(which) != "bias_residual")
        AddPeer(contenders, peers, raw, Join(has_gelu ? "gemm_bias_gelu" : "gemm_bias", m, n, k) + " " + dtype,
                "cuBLASLt with its epilogue");
      std::string name = "gpu_epilogues/" + task.substr(7);
      std::replace(name.begin(), name.end(), ' ', '_');
      const double flop = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
      Report({.name = name, .unit = Rate("TFLOP/s", flop * 1e-12), .goal = {Goal::ratio_at_least, 1}},
             RunRace(contenders, Budget()), peers);
    }
  }
}

void GpuGemmTier3() {
  CheckGpu();
  const char* given = std::getenv("TESSERA_SCHEDULE");
  const Process ours = StartGpu(Tier::all, {std::string("TESSERA_SCHEDULE=") + (given ? given : "*:form=tensor")});
  const Process raw = StartRaw(), torch = StartTorch();
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{4096, 4096, 4096},
                                {8192, 8192, 8192},
                                {8192, 4096, 1024},
                                {16384, 768, 3072},
                                {16384, 50304, 768}}) {
    const std::string task = Join("linear product", m, n, k);
    std::vector<Timed> contenders = {PeerProcess::Task(ours, task)};
    std::vector<std::string> peers;
    AddPeer(contenders, peers, raw, Join("gemm", m, n, k) + " bf16", "cuBLASLt, the fastest of eight");
    std::string name = "gpu_gemm_tier3/bf16" + task.substr(14);
    std::replace(name.begin(), name.end(), ' ', '_');
    const double flop = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    Figure figure{.name = name, .unit = Rate("TFLOP/s", flop * 1e-12), .goal = {Goal::ratio_at_least, 0.97}};
    const Race race = RunRace(contenders, Budget());
    figure.more = {{"generated_kernels", Json(PeerProcess::Task(ours, "generated " + task)(1))}};
    Report(figure, race, peers);
  }
  // Tensor cores read f32 along the sum only: the weight is transposed.
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{4096, 4096, 4096}, {8192, 8192, 8192}, {16384, 768, 3072}}) {
    const std::string task = Join("linear product", m, n, k) + " tf32 nt";
    std::vector<Timed> contenders = {PeerProcess::Task(ours, task)};
    std::vector<std::string> peers;
    AddPeer(contenders, peers, raw, Join("gemm", m, n, k) + " tf32 nt", "cuBLASLt, the fastest of eight");
    AddPeer(contenders, peers, raw, Join("gemm", m, n, k) + " tf32", "cuBLASLt, the fastest of eight, not transposed");
    std::string name = Join("gpu_gemm_tier3/tf32", m, n, k);
    std::replace(name.begin(), name.end(), ' ', '_');
    const double flop = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    Figure figure{.name = name, .unit = Rate("TFLOP/s", flop * 1e-12), .goal = {Goal::ratio_at_least, 0.97}};
    const Race race = RunRace(contenders, Budget());
    figure.more = {{"generated_kernels", Json(PeerProcess::Task(ours, "generated " + task)(1))}};
    Report(figure, race, peers);
  }
  for (const int64_t size : {4096, 8192}) {
    for (const char* which : {"product", "scaled", "blocks"}) {
      const std::string task = Join(std::string("f8 ") + which, size, size, size);
      std::vector<Timed> contenders = {PeerProcess::Task(ours, task)};
      std::vector<std::string> peers;
      if (std::string_view(which) == "blocks") {
        AddPeer(contenders, peers, raw, Join("gemm", size, size, size) + " f8e4m3_blocks",
                "cuBLASLt, the fastest of eight, with such scales");
        AddPeer(contenders, peers, torch, task, "torch._scaled_mm with such scales");
      }
      AddPeer(contenders, peers, raw, Join("gemm", size, size, size) + " f8e4m3_bf16",
              "cuBLASLt, the fastest of eight, without scales");
      const double flop = 2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
      Figure figure{.name = std::string("gpu_gemm_tier3/f8e4m3_") + which + "_" + std::to_string(size),
                    .unit = Rate("TFLOP/s", flop * 1e-12),
                    .goal = {Goal::ratio_at_least, 1}};
      const Race race = RunRace(contenders, Budget());
      figure.more = {{"generated_kernels", Json(PeerProcess::Task(ours, "generated " + task)(1))}};
      Report(figure, race, peers);
    }
  }
}

namespace {

/// More schedules for the same races: TESSERA_BENCH_SCHEDULES, with spaces between them.
std::vector<std::pair<std::string, Process>> OtherSchedules() {
  std::vector<std::pair<std::string, Process>> others;
  const char* listed = std::getenv("TESSERA_BENCH_SCHEDULES");
  std::istringstream schedules(listed ? listed : "");
  for (std::string schedule; schedules >> schedule;)
    others.emplace_back(schedule, StartGpu(Tier::all, {"TESSERA_SCHEDULE=" + schedule, "TESSERA_TUNE_BUDGET=0"}));
  return others;
}

}  // namespace

void GpuFewTiles() {
  CheckGpu();
  const char* given = std::getenv("TESSERA_SCHEDULE");
  const Process tier1 = StartGpu(Tier::one), raw = StartRaw();
  const Process all = StartGpu(Tier::all, {std::string("TESSERA_SCHEDULE=") + (given ? given : "")});
  const Process tensor = StartGpu(Tier::all, {"TESSERA_SCHEDULE=*:form=tensor"});
  const std::vector<std::pair<std::string, Process>> others = OtherSchedules();
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{96, 1024, 8192},
                                {128, 4096, 8192},
                                {128, 1024, 4096},
                                {256, 256, 16384},
                                {256, 1024, 4096},
                                {512, 512, 8192},
                                {512, 1024, 4096}}) {
    const std::string task = Join("skinny nt", m, n, k) + " bias_gelu_residual";
    std::vector<Timed> contenders = {PeerProcess::Task(all, task)};
    std::vector<std::string> peers;
    AddPeer(contenders, peers, tier1, task, "tier 1");
    AddPeer(contenders, peers, raw, Join("gemm_in_turn nt", m, n, k), "cuBLASLt, the product alone");
    AddPeer(contenders, peers, tensor, task, "a sum of one block each");
    for (const auto& [schedule, process] : others) AddPeer(contenders, peers, process, task, schedule);
    const double flop = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    Figure figure{.name = Join("gpu_few_tiles/bias_gelu_residual", m, n, k),
                  .unit = Rate("TFLOP/s", flop * 1e-12),
                  .goal = {Goal::ratio_at_least, 1}};
    std::replace(figure.name.begin(), figure.name.end(), ' ', '_');
    const Race race = RunRace(contenders, Budget());
    figure.more = {{"generated_kernels", Json(PeerProcess::Task(all, "generated " + task)(1))}};
    Report(figure, race, peers);
  }
}

void GpuSkinny() {
  CheckGpu();
  const char* given = std::getenv("TESSERA_SCHEDULE");
  const Process tier1 = StartGpu(Tier::one), raw = StartRaw();
  const Process all = StartGpu(Tier::all, {std::string("TESSERA_SCHEDULE=") + (given ? given : "")});
  const std::vector<std::pair<std::string, Process>> others = OtherSchedules();
  constexpr int64_t kCopied = int64_t{1} << 29;
  const Timed copy = PeerProcess::Task(raw, "copy " + std::to_string(kCopied));
  copy(1);
  const double copied = 2.0 * kCopied * 20 / copy(20);  // bytes a second, read and written
  for (const auto& [n, k] : {std::array<int64_t, 2>{4096, 4096}, {14336, 4096}}) {
    for (const int64_t m : {1, 8, 16, 64}) {
      for (const char* way : {"nn", "nt"}) {
        // The op in tier 1, the same in a function, and with what follows it.
        for (const std::string program : {"", "product", "bias_gelu_residual"}) {
          const std::string task = Join(std::string("skinny ") + way, m, n, k) + (program.empty() ? "" : " " + program);
          const bool has_more = program == "bias_gelu_residual";
          std::vector<Timed> contenders = {PeerProcess::Task(program.empty() ? tier1 : all, task)};
          std::vector<std::string> peers;
          AddPeer(contenders, peers, raw, Join(std::string("gemm_in_turn ") + way, m, n, k),
                  has_more ? "cuBLASLt, the product alone" : "cuBLASLt, the fastest of eight");
          if (has_more) AddPeer(contenders, peers, tier1, task, "tier 1");
          if (!program.empty())
            for (const auto& [schedule, process] : others) AddPeer(contenders, peers, process, task, schedule);
          const double bytes = 2.0 * static_cast<double>(n * k + m * k + (has_more ? 2 * m * n + n : m * n));
          Figure figure{.name = "gpu_skinny/" + task.substr(7),
                        .unit = Rate("GB/s", bytes * 1e-9),
                        .goal = {Goal::ratio_at_least, 1}};
          std::replace(figure.name.begin(), figure.name.end(), ' ', '_');
          const Race race = RunRace(contenders, Budget());
          figure.more = {{"of_a_copy", Json(bytes / race.times[0].median / copied)}};
          if (!program.empty())
            figure.more.emplace_back("generated_kernels", Json(PeerProcess::Task(all, "generated " + task)(1)));
          Report(figure, race, peers);
        }
      }
    }
  }
}

}  // namespace bench
