#include "interp/cpu/isa.h"

#include <cstdlib>
#include <string_view>

namespace tessera::cpu {

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::base: return "base";
    case Isa::neon: return "neon";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
  }
  return "?";
}

namespace {

Isa Detect() {
#if defined(__aarch64__)
  return Isa::neon;
#elif defined(__x86_64__)
  __builtin_cpu_init();
  Isa best = Isa::base;
  // What -march=x86-64-v3 and -v4 let the compiler use; the system must save the registers too, which these ask.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt")) {
    best = Isa::avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      best = Isa::avx512;
    }
  }
  if (const char* env = std::getenv("TESSERA_ISA")) {
    const std::string_view asked = env;
    for (Isa isa : {Isa::base, Isa::avx2})
      if (asked == IsaName(isa) && isa < best) return isa;
  }
  return best;
#else
  return Isa::base;
#endif
}

}  // namespace

Isa ActiveIsa() {
  static const Isa isa = Detect();
  return isa;
}

}  // namespace tessera::cpu
