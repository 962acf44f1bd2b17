// Rows of all lengths on a CUDA device: each op reads its rows once and writes them once, or writes a number for each,
// in about the time of a copy, or of a read, of the same bytes.
#include <tessera/tessera.h>

#include <sstream>

#include "bench/benchmarks.h"
#include "bench/gpu.h"
#include "bench/gpu_processes.h"
#include "bench/peer_process.h"

namespace bench {
namespace {

using tessera::DType;
using tessera::Function;
using tessera::Tensor;

constexpr int64_t kBytes = int64_t{1} << 30;  // of all rows

/// T: the rows, R: one of them, S: a number for each, I: indices.
struct RowOp {
  const char* name;
  const char* parameters;
  const char* result;
  const char* body;
};
constexpr RowOp kRowOps[] = {
    {"softmax", "%x: T", "T", "softmax %x : T"},
    {"layer_norm", "%x: T, %w: R, %b: R", "T", "layer_norm %x, %w, %b : T"},
    {"rms_norm", "%x: T, %w: R", "T", "rms_norm %x, %w : T"},
    {"cross_entropy_grad", "%x: T, %t: I, %g: S", "T", "cross_entropy_grad %x, %t, %g : T"},
    {"cross_entropy", "%x: T, %t: I", "S", "cross_entropy %x, %t : S"},
};

std::string Text(const RowOp& op, const std::string& dtype) {
  const std::string text =
      std::string("func @f(") + op.parameters + ") -> " + op.result + " {\n  %y = " + op.body + "\n  return %y\n}\n";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_type = i >= 2 && text[i - 1] == ' ' && (text[i - 2] == ':' || text[i - 2] == '>');
    switch (is_type ? text[i] : ' ') {
      case 'T': out += "tensor<M x N x " + dtype + ">"; break;
      case 'R': out += "tensor<N x " + dtype + ">"; break;
      case 'S': out += "tensor<M x " + dtype + ">"; break;
      case 'I': out += "tensor<M x i64>"; break;
      default: out += text[i];
    }
  }
  return out;
}

}  // namespace

Timed GpuRowsTask(const std::string& task) {
  std::istringstream words(task);
  std::string kind, name, dtype;
  int64_t n = 0;
  words >> kind >> name >> dtype >> n;
  if (kind != "row_op" || n <= 0) return {};
  for (const RowOp& op : kRowOps) {
    if (name != op.name) continue;
    const DType t = *tessera::ParseDType(dtype);
    const int64_t m = kBytes / (n * (dtype == "f32" ? 4 : 2));
    const auto normal = [&](const tessera::Dims& dims, int64_t seed) {
      return tessera::random_normal(seed, 0, dims, 0, 1, tessera::f32).cast(t);
    };
    std::vector<Tensor> args = {normal({m, n}, 1)};
    const std::string parameters = op.parameters;
    if (parameters.find("%w") != std::string::npos) args.push_back(normal({n}, 2));
    if (parameters.find("%b") != std::string::npos) args.push_back(normal({n}, 3));
    if (parameters.find("%t") != std::string::npos) args.push_back(tessera::random_int(7, 0, {m}, 0, n));
    if (parameters.find("%g") != std::string::npos) args.push_back(normal({m}, 4));
    const Function f = Function::parse(Text(op, dtype)).value();
    return GpuWork([f, args] { f(args); });
  }
  return {};
}

void GpuRowLengths() {
  CheckGpu();
  const Process ours = StartGpu(Tier::all), raw = StartRaw();
  for (const RowOp& op : kRowOps) {
    const bool is_read = std::string(op.result) == "S";
    for (const char* dtype : {"bf16", "f32"}) {
      for (int64_t n = 1024; n <= 131072; n *= 2) {
        std::vector<Timed> contenders = {
            PeerProcess::Task(ours, std::string("row_op ") + op.name + " " + dtype + " " + std::to_string(n))};
        std::vector<std::string> peers;
        AddPeer(contenders, peers, raw, (is_read ? "read " : "copy ") + std::to_string(kBytes),
                is_read ? "a read of the same bytes" : "a copy of the same bytes");
        Report({.name = std::string("gpu_rows/") + op.name + "_" + dtype + "_" + std::to_string(n),
                .unit = Rate("GB/s", static_cast<double>(kBytes) * (is_read ? 1e-9 : 2e-9)),
                .goal = {Goal::ratio_at_least, 0.95}},
               RunRace(contenders, Budget()), peers);
      }
    }
  }
}

}  // namespace bench
