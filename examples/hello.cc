#include <tessera/tessera.h>

using namespace tessera;

int main() {
  manual_seed(1);
  Tensor x = randn({2, 3}), w = randn({3, 4});
  Tensor y = softmax(gelu(matmul(x, w)) + 0.1);
  y.print();
  sum(y, 1).print();
}
