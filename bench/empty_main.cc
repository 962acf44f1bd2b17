// The peer of cold_start: what a C++ program that uses its standard library costs before it does anything.
#include <iostream>

int main() {
  std::cout << "hello\n";
  return 0;
}
