// The smallest program that does something with Tessera; cold_start times it from exec to exit.
#include <tessera/tessera.h>

int main() {
  const tessera::Tensor a = tessera::Tensor::from({1.0f, 2.0f, 3.0f});
  const tessera::Tensor b = tessera::Tensor::from({10.0f, 20.0f, 30.0f});
  (a + b).print();
  return 0;
}
