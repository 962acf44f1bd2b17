#include "bench/torch/warm_up.h"

#include <torch/script.h>
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <sstream>
#include <vector>

namespace {

using torch::Tensor;

constexpr int64_t kHeads = 4;

constexpr const char* kScript = R"(
def mlp(x: Tensor, g: Tensor, c: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    h = torch.layer_norm(x, [x.size(1)], g, c)
    h = torch.gelu(torch.matmul(h, w1) + b1)
    return x + (torch.matmul(h, w2) + b2)

def block(x: Tensor, n: Tensor, m: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, wo: Tensor, g: Tensor, c: Tensor,
          w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    size = x.size(1) // 4
    h = torch.layer_norm(x, [x.size(1)], n, m)
    q = torch.matmul(h, wq).reshape([x.size(0), 4, size]).transpose(0, 1)
    k = torch.matmul(h, wk).reshape([x.size(0), 4, size]).transpose(0, 1)
    v = torch.matmul(h, wv).reshape([x.size(0), 4, size]).transpose(0, 1)
    p = torch.softmax(torch.matmul(q, k.transpose(1, 2)) * (1.0 / (float(size) ** 0.5)), -1)
    o = torch.matmul(p, v).transpose(0, 1).reshape([x.size(0), x.size(1)])
    return mlp(x + torch.matmul(o, wo), g, c, w1, b1, w2, b2)
)";

Tensor Mlp(const Tensor& x, const std::vector<Tensor>& p) {
  Tensor h = torch::layer_norm(x, {x.size(1)}, p[0], p[1]);
  h = torch::gelu(torch::matmul(h, p[2]) + p[3]);
  return x + (torch::matmul(h, p[4]) + p[5]);
}

/// `p` has what the script's block takes after x.
Tensor Block(const Tensor& x, const std::vector<Tensor>& p) {
  const int64_t length = x.size(0), width = x.size(1), size = width / kHeads;
  const Tensor h = torch::layer_norm(x, {width}, p[0], p[1]);
  auto heads = [&](const Tensor& w) { return torch::matmul(h, w).reshape({length, kHeads, size}).transpose(0, 1); };
  const Tensor q = heads(p[2]), k = heads(p[3]), v = heads(p[4]);
  const Tensor scores = torch::matmul(q, k.transpose(1, 2)) * (1 / std::sqrt(static_cast<double>(size)));
  const Tensor o = torch::matmul(torch::softmax(scores, -1), v).transpose(0, 1).reshape({length, width});
  return Mlp(x + torch::matmul(o, p[5]), {p.begin() + 6, p.end()});
}

std::vector<Tensor> Parameters(bool block, int64_t width) {
  auto weight = [](int64_t in, int64_t out) {
    return torch::randn({in, out}) * (1 / std::sqrt(static_cast<double>(in)));
  };
  std::vector<Tensor> p;
  if (block) {
    p = {torch::randn({width}), torch::randn({width})};
    for (int i = 0; i < 4; ++i) p.push_back(weight(width, width));
  }
  p.insert(p.end(), {torch::randn({width}), torch::randn({width}), weight(width, 4 * width), torch::randn({4 * width}),
                     weight(4 * width, width), torch::randn({width})});
  return p;
}

}  // namespace

int PrintWarmUp(const std::string& kind, const std::string& program, double begin, const std::vector<double>& times) {
  std::istringstream words(program);
  std::string name;
  int64_t rows = 0, width = 0;
  if (!(words >> name >> rows >> width) || (name != "mlp" && name != "block")) return 2;
  const bool block = name == "block";
  const Tensor x = torch::randn({rows, width});
  const std::vector<Tensor> parameters = Parameters(block, width);
  std::function<Tensor()> run = [&] { return block ? Block(x, parameters) : Mlp(x, parameters); };
  if (kind == "script") {
    const auto unit = torch::jit::compile(kScript);
    std::vector<c10::IValue> inputs = {x};
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    torch::jit::Function& function = unit->get_function(c10::QualifiedName(name));
    run = [unit, inputs, &function] { return function(inputs).toTensor(); };
  }
  const auto now = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count() - begin;
  };
  size_t at = 0;
  double first = 0;
  for (int64_t done = 0; at < times.size();) {
    for (const double t = now(); at < times.size() && t >= times[at]; ++at)
      std::printf("%lld ", static_cast<long long>(done));  // NOLINT
    run();
    if (++done == 1) first = now();
  }
  std::printf("%g", first);
  std::printf("\n");
  return 0;
}
