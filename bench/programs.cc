#include "bench/programs.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <sstream>

#include "bench/tracing.h"

namespace bench {
namespace {

using tessera::Dims;
using tessera::Function;
using tessera::Tensor;

/// Collects parameters and instructions.
class Text {
 public:
  /// A parameter of fixed dims, with fresh numbers: of variance 1 / fan for weights, so that values stay in range.
  std::string Param(const std::string& name, const Dims& dims, double fan = 1) {
    std::string type;
    for (const int64_t dim : dims) type += std::to_string(dim) + " x ";
    params_ += (params_.empty() ? "%" : ", %") + name + ": tensor<" + type + "f32>";
    args_.push_back(tessera::randn(dims) * (1 / std::sqrt(fan)));
    return "%" + name;
  }
  std::string Add(const std::string& instruction) {
    const std::string name = "%t" + std::to_string(next_++);
    body_ += "  " + name + " = " + instruction + "\n";
    return name;
  }
  std::string Op(const std::string& op, const std::string& a, const std::string& b, const std::string& attrs = "") {
    return Add(op + " " + a + ", " + b + (attrs.empty() ? "" : " {" + attrs + "}"));
  }
  Program Return(const std::string& value, const Dims& dims) {
    std::string type;
    for (const int64_t dim : dims) type += std::to_string(dim) + " x ";
    return {Function::parse("func @program(" + params_ + ") -> tensor<" + type + "f32> {\n" + body_ + "  return " +
                            value + "\n}\n")
                .value(),
            std::move(args_)};
  }

 private:
  std::string params_, body_;
  std::vector<Tensor> args_;
  int next_ = 0;
};

using Sizes = std::vector<int64_t>;

Program Chain(const Sizes& n) {
  Text t;
  const std::string x = t.Param("x", {n[0], n[1]}), b = t.Param("b", {n[1]});
  std::string v = t.Op("add", t.Op("mul", x, b), b);
  v = t.Op("mul", t.Op("add", t.Add("exp " + v), x), b);
  v = t.Op("sub", t.Add("relu " + v), x);
  v = t.Op("mul", t.Op("add", t.Add("abs " + v), b), x);
  return t.Return(v, {n[0], n[1]});
}

Program Numbers(const Sizes& n) {
  const auto run = [](const std::vector<Tensor>& args) {
    const Tensor &x = args[0], &y = args[1];
    return ((x / 8.0 - y / 4.0) / 2.0 + x) / 16.0 * 1.0;
  };
  return {std::nullopt, {tessera::randn({n[0], n[1]}), tessera::randn({n[0], n[1]})}, run};
}

Program OneOp(const std::string& op, const Sizes& n) {
  Text t;
  const std::string x = t.Param("x", {n[0], n[1]});
  const std::string y = op == "add" ? t.Op("add", x, t.Param("y", {n[0], n[1]})) : t.Add(op + " " + x);
  return t.Return(y, {n[0], n[1]});
}

Program ScaledSoftmax(const Sizes& n) {
  Text t;
  const std::string x = t.Param("x", {n[0], n[1]});
  return t.Return(t.Add("softmax " + t.Op("mul", x, t.Param("b", {n[1]}))), {n[0], n[1]});
}

Program SoftmaxByHand(const Sizes& n) {
  Text t;
  const std::string x = t.Param("x", {n[0], n[1]});
  const std::string e = t.Add("exp " + t.Op("sub", x, t.Add("max " + x + " {axes = [1], keepdims = true}")));
  return t.Return(t.Op("div", e, t.Add("sum " + e + " {axes = [1], keepdims = true}")), {n[0], n[1]});
}

Program NormOfSum(const std::string& norm, const Sizes& n) {
  Text t;
  const std::string x = t.Param("x", {n[0], n[1]}), y = t.Param("y", {n[0], n[1]}), w = t.Param("w", {n[1]});
  const std::string s = t.Op("add", x, y);
  return t.Return(norm == "rms_norm" ? t.Op(norm, s, w) : t.Op(norm, s, w + ", " + t.Param("b", {n[1]})), {n[0], n[1]});
}

/// The variance of each row, written out, and the largest deviation.
Program Sums(const Sizes& n) {
  Text t;
  const std::string x = t.Param("x", {n[0], n[1]});
  const std::string d = t.Op("sub", x, t.Add("mean " + x + " {axes = [1], keepdims = true}"));
  const std::string variance = t.Add("mean " + t.Op("mul", d, d) + " {axes = [1]}");
  return t.Return(t.Op("add", variance, t.Add("max " + t.Add("abs " + d) + " {axes = [1]}")), {n[0]});
}

Program Gemm(const std::string& kind, const Sizes& n) {
  const int64_t rows = n[0], columns = n[1], depth = n[2];
  const auto fan = static_cast<double>(depth);
  Text t;
  const std::string a = t.Param("a", {rows, depth});
  std::string c = kind == "gemm_nt" ? t.Op("matmul", a, t.Param("b", {columns, depth}, fan), "transpose_b = true")
                                    : t.Op("matmul", a, t.Param("b", {depth, columns}, fan));
  if (kind == "gemm_gelu" || kind == "linear")
    c = t.Add((kind == "linear" ? "relu " : "gelu ") + t.Op("add", c, t.Param("bias", {columns})));
  return t.Return(c, {rows, columns});
}

std::string Norm(Text& t, const std::string& x, const std::string& name, int64_t width) {
  return t.Op("layer_norm", x, t.Param(name + "_weight", {width}) + ", " + t.Param(name + "_bias", {width}));
}

std::string MlpOf(Text& t, const std::string& x, int64_t width) {
  const int64_t inner = 4 * width;
  std::string h = Norm(t, x, "mlp_norm", width);
  h = t.Op("matmul", h, t.Param("w1", {width, inner}, static_cast<double>(width)));
  h = t.Add("gelu " + t.Op("add", h, t.Param("b1", {inner})));
  h = t.Op("matmul", h, t.Param("w2", {inner, width}, static_cast<double>(inner)));
  return t.Op("add", x, t.Op("add", h, t.Param("b2", {width})));
}

std::string AttentionOf(Text& t, const std::string& q, const std::string& k, const std::string& v, int64_t size) {
  const std::string scores = t.Op("matmul", q, k, "transpose_b = true");
  const std::string scaled = t.Op("mul", scores, std::to_string(1 / std::sqrt(static_cast<double>(size))));
  return t.Op("matmul", t.Add("softmax " + scaled), v);
}

Program Attention(const std::string& kind, const Sizes& n) {
  const Dims dims = {1, n[0], n[1], n[2]};
  Text t;
  const std::string q = t.Param("q", dims), k = t.Param("k", dims), v = t.Param("v", dims);
  if (kind == "attention") return t.Return(AttentionOf(t, q, k, v, n[2]), dims);
  if (kind == "attention_op") return t.Return(t.Op("attention", q, k + ", " + v), dims);
  const std::string mask = t.Param("mask", {n[1], n[1]});
  Program program = t.Return(t.Op("attention", q, k + ", " + v + ", " + mask), dims);
  program.args.back() = tessera::triu(tessera::full({n[1], n[1]}, -std::numeric_limits<double>::infinity()), 1);
  return program;
}

Program Block(const Sizes& n) {
  constexpr int64_t kHeads = 4;
  const int64_t length = n[0], width = n[1], size = width / kHeads;
  const std::string split =
      "dims = [" + std::to_string(length) + ", " + std::to_string(kHeads) + ", " + std::to_string(size) + "]";
  const std::string joined = "dims = [" + std::to_string(length) + ", " + std::to_string(width) + "]";
  const auto fan = static_cast<double>(width);
  Text t;
  const std::string x = t.Param("x", {length, width});
  const std::string h = Norm(t, x, "norm", width);
  std::string parts[3];
  for (int i = 0; i < 3; ++i) {
    const std::string weight = t.Param("w" + std::string(1, "qkv"[i]), {width, width}, fan);
    parts[i] = t.Add("reshape " + t.Op("matmul", h, weight) + " {" + split + "}");
    parts[i] = t.Add("transpose " + parts[i] + " {perm = [1, 0, 2]}");
  }
  std::string o = AttentionOf(t, parts[0], parts[1], parts[2], size);
  o = t.Add("reshape " + t.Add("transpose " + o + " {perm = [1, 0, 2]}") + " {" + joined + "}");
  const std::string r = t.Op("add", x, t.Op("matmul", o, t.Param("wo", {width, width}, fan)));
  return t.Return(MlpOf(t, r, width), {length, width});
}

Program Mlp(const Sizes& n) {
  Text t;
  const std::string x = t.Param("x", {n[0], n[1]});
  return t.Return(MlpOf(t, x, n[1]), {n[0], n[1]});
}

/// Hot, built, compiled, and compiled again: each takes some runs, and a version that does not pay some more.
void WarmUp(const Program& program) {
  constexpr int kRounds = 6;
  for (int round = 0; round < kRounds; ++round) {
    const double end = Now() + 20e-3;
    for (int i = 0; i < 8 || (Now() < end && i < 2000); ++i) program.Run();
    tessera::Runtime::wait_for_builds();
  }
}

double PeakMib(const Program& program) {
  const tessera::Device cpu = tessera::Device::cpu();
  tessera::Runtime::reset_peak_memory(cpu);
  for (int i = 0; i < 3; ++i) program.Run();
  return static_cast<double>(tessera::Runtime::memory(cpu).peak_bytes - program.Bytes()) / (1 << 20);
}

}  // namespace

void Program::Run() const {
  const Tensor result = function ? function->call(args) : eager(args);
  volatile float first = result.read<float>()[0];  // what is read has been computed
  (void)first;
}

int64_t Program::Bytes() const {
  int64_t bytes = 0;
  for (const Tensor& t : args) bytes += t.size() * int64_t{sizeof(float)};
  return bytes;
}

std::optional<Program> MakeProgram(const std::string& name) {
  std::istringstream words(name);
  std::string what;
  words >> what;
  std::vector<int64_t> n;
  for (int64_t number = 0; words >> number;) n.push_back(number);
  if (n.size() == 2) {
    if (what == "chain") return Chain(n);
    if (what == "numbers") return Numbers(n);
    if (what == "add" || what == "exp" || what == "softmax") return OneOp(what, n);
    if (what == "scaled_softmax") return ScaledSoftmax(n);
    if (what == "softmax_by_hand") return SoftmaxByHand(n);
    if (what == "layer_norm" || what == "rms_norm") return NormOfSum(what, n);
    if (what == "sums") return Sums(n);
    if (what == "mlp") return Mlp(n);
    if (what == "block") return Block(n);
  }
  if (n.size() == 3) {
    if (what == "gemm" || what == "gemm_nt" || what == "gemm_gelu" || what == "linear") return Gemm(what, n);
    if (what == "attention" || what == "attention_op" || what == "attention_masked") return Attention(what, n);
  }
  return std::nullopt;
}

Timed ProgramTask(const std::string& task) {
  static std::map<std::string, std::shared_ptr<const Program>> made;  // a function that is parsed anew would be cold
  const size_t space = task.find(' ');
  const std::string verb = task.substr(0, space);
  if (verb != "program" && verb != "memory") return {};
  const std::string name = task.substr(space + 1);
  std::shared_ptr<const Program>& program = made[name];
  if (program == nullptr) {
    std::optional<Program> fresh = MakeProgram(name);
    if (!fresh) return {};
    program = std::make_shared<const Program>(*std::move(fresh));
    WarmUp(*program);
  }
  if (verb == "program") return Loop([program = program] { program->Run(); });
  return [program = program](int64_t) { return PeakMib(*program); };
}

}  // namespace bench
