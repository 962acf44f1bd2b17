// Exits with 0 when the installed library does what its headers promise: ops compute, and an error thrown inside it is
// caught by its type on this side of the boundary.
#include <cstdio>
#include <string>
#include <vector>

#include "tessera/tessera.h"

int main() {
  using tessera::Tensor;
  const Tensor a = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor b = Tensor::from<float>({1, 0, 0, 1, 1, 1}, {3, 2});
  if (matmul(a, b).to_vector<float>() != std::vector<float>{4, 5, 10, 11}) {
    std::printf("package: a wrong product: %s\n", matmul(a, b).to_string().c_str());
    return 1;
  }
  tessera::Session session;
  const tessera::Evaluation done = session.evaluate("y = ones(3) * 2\ny.sum()");
  if (!done.ok || done.value != "6. f32[]") {
    std::printf("package: a wrong sum: %s%s\n", done.value.c_str(), done.text().c_str());
    return 1;
  }
  try {
    static_cast<void>(matmul(a, a));
  } catch (const tessera::Error& error) {
    if (error.code() == tessera::Code::invalid_argument) {
      std::printf("package: the C++ application works with Tessera %s\n",
                  std::string(tessera::Runtime::version()).c_str());
      return 0;
    }
  }
  std::puts("package: a product of [2, 3] and [2, 3] did not throw tessera::Error with invalid_argument");
  return 1;
}
