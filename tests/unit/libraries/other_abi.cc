// A compiler of another version: everything in it but its number must be left alone.
#include <cstdlib>

#include "tiers/compiler.h"

extern "C" __attribute__((visibility("default"))) const TesseraCompilerApi* tessera_compiler_entry() {
  static const TesseraCompilerApi api = {
      kTesseraCompilerAbi + 1,
      nullptr,
      [](const TesseraCompileRequest*, const TesseraSink*, const TesseraSink*) -> int32_t { std::abort(); },
      [](const TesseraCompileRequest*, const char*, const TesseraSink*, const TesseraSink*) -> int32_t {
        std::abort();
      },
      [](const char*, size_t, const int64_t*, TesseraKernel*, size_t, uint64_t*, const TesseraSink*) -> int32_t {
        std::abort();
      },
      [](uint64_t) { std::abort(); },
      [](const char*) { std::abort(); },
      [] { std::abort(); }};
  return &api;
}
