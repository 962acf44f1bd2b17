// What Tessera is like to use: ops run when they are called, functions in Graph IR run at once too, and mistakes are
// answered with a sentence.
#include <tessera/tessera.h>

#include <cstdio>
#include <cstdlib>

using namespace tessera;

int main() {
  std::printf("Tessera %s\n\n", std::string(Runtime::version()).c_str());

  std::printf("Eager: every line runs when it is reached.\n");
  manual_seed(7);
  Tensor x = randn({4, 3});
  Tensor w = randn({3, 2});
  Tensor y = softmax(matmul(x, w) + 0.5);
  y.print();
  std::printf("mean of each column: %s\n\n", mean(y, 0).to_string().c_str());

  std::printf("Views share memory; a write gives the writer memory of its own.\n");
  Tensor a = arange(12).reshape({3, 4});
  Tensor evens = a[{{}, {none, none, 2}}];
  evens.print();
  std::printf("shares storage: %s\n\n", evens.shares_storage_with(a) ? "yes" : "no");

  std::printf("Graph IR: a Newton iteration for the square root, with control flow.\n");
  Function root = *Function::parse(R"(
    func @root(%a: tensor<N x f32>) -> tensor<N x f32> {
      %start = add %a, 1.0
      %root, %change = while (%x = %start, %d = 1.0) -> (tensor<N x f32>, tensor<f32>) {
        %go = gt %d, 1e-6
        yield %go
      } do {
        %q = div %a, %x
        %s = add %x, %q
        %next = mul %s, 0.5
        %diff = sub %next, %x
        %abs = abs %diff
        %max = max %abs
        yield %next, %max
      }
      return %root
    })");
  root.call({Tensor::from({2.0f, 9.0f, 144.0f})}).print();

  std::printf("\nA mistake is answered with what was given and what would work:\n");
  try {
    matmul(x, x);
    return EXIT_FAILURE;
  } catch (const Error& e) {
    std::printf("  %s\n", e.what());
  }
  auto bad = Function::parse("func @f(%a: tensor<2 x f32>) -> tensor<2 x f32> {\n  %b = sigmoyd %a\n  return %b\n}\n");
  std::printf("%s\n", bad.status().message().c_str());

  int64_t ops = 0;
  for (const MetricValue& m : Runtime::metrics()) {
    if (m.name == "ops_executed") ops = m.value;
  }
  std::printf("\n%lld ops ran in tier 1; TESSERA_DEBUG=3 shows each of them.\n", static_cast<long long>(ops));
  return EXIT_SUCCESS;
}
