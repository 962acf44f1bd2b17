#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "bench/handwritten.h"
#include "bench/handwritten_simd.h"

namespace bench {

#if TSR_HANDWRITTEN
namespace {

using SleefFunction = Vec(Vec);
#if defined(__aarch64__)
constexpr const char* kSleefName = "Sleef_expf4_u10advsimd";
#else
constexpr const char* kSleefName = "Sleef_expf8_u10avx2";
#endif
SleefFunction* sleef = nullptr;

/// Calls fn on blocks of kUnroll vectors, and on a padded block for the rest.
template <class F>
inline void Apply(const float* x, float* y, int64_t n, F fn) {
  Vec v[kUnroll];
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    for (int j = 0; j < kUnroll; ++j) v[j] = Load(x + i + j * kLanes);
    fn(v);
    for (int j = 0; j < kUnroll; ++j) Store(y + i + j * kLanes, v[j]);
  }
  if (i < n) {
    float rest[kBlock] = {};
    memcpy(rest, x + i, static_cast<size_t>(n - i) * sizeof(float));
    for (int j = 0; j < kUnroll; ++j) v[j] = Load(rest + j * kLanes);
    fn(v);
    for (int j = 0; j < kUnroll; ++j) Store(rest + j * kLanes, v[j]);
    memcpy(y + i, rest, static_cast<size_t>(n - i) * sizeof(float));
  }
}

void ExpByHand(const float* x, float* y, int64_t n) {
  Apply(x, y, n, [](Vec* v) {
    for (int j = 0; j < kUnroll; ++j) v[j] = Min(Max(v[j], Set(-87.0f)), Set(88.0f));
    Exp<kUnroll>(v);
  });
}

void ExpBySleef(const float* x, float* y, int64_t n) {
  SleefFunction* const function = sleef;
  Apply(x, y, n, [function](Vec* v) {
    for (int j = 0; j < kUnroll; ++j) v[j] = function(v[j]);
  });
}

bool Supported() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

}  // namespace

ExpLoop* HandwrittenExp() { return Supported() ? ExpByHand : nullptr; }

ExpLoop* SleefExp() {
  if (!Supported()) return nullptr;
  void* library = dlopen("libsleef.so.3", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  sleef = reinterpret_cast<SleefFunction*>(dlsym(library, kSleefName));
  return sleef == nullptr ? nullptr : ExpBySleef;
}

#else

ExpLoop* HandwrittenExp() { return nullptr; }
ExpLoop* SleefExp() { return nullptr; }

#endif

}  // namespace bench
