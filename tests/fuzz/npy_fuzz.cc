// The .npy reader on any bytes: a tensor or an error, and a tensor that was read can be written and read again.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tessera/ops.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto x = tessera::parse_npy({reinterpret_cast<const std::byte*>(data), size});
  if (!x.ok()) {
    if (x.status().message().empty()) std::abort();
    return 0;
  }
  static const std::string path = "/tmp/tessera_npy_fuzz." + std::to_string(::getpid());
  if (!tessera::save_npy(*x, path).ok()) std::abort();
  auto y = tessera::load_npy(path);
  std::remove(path.c_str());
  if (!y.ok() || y->dims() != x->dims() || y->dtype() != x->dtype() || y->to_bytes() != x->to_bytes()) std::abort();
  return 0;
}
