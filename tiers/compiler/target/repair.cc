#include "tiers/compiler/target/repair.h"

#include "interp/cpu/ew_ops_isa.h"

namespace tessera::cpu::TSR_ISA {

#define TSR_FN1(name, dtype, T, fast, rest, slow)                                   \
  TSR_REPAIR_CC void tsr_##name##_##dtype##__repair(T* y, const T* xs, int32_t n) { \
    for (int32_t i = 0; i < n; ++i) {                                               \
      const T x = xs[i];                                                            \
      if (rest) y[i] = slow;                                                        \
    }                                                                               \
  }
#define TSR_FN2(name, dtype, T, fast, rest, slow)                                                \
  TSR_REPAIR_CC void tsr_##name##_##dtype##__repair(T* y, const T* as, const T* bs, int32_t n) { \
    for (int32_t i = 0; i < n; ++i) {                                                            \
      const T a = as[i], b = bs[i];                                                              \
      if (rest) y[i] = slow;                                                                     \
    }                                                                                            \
  }
#define TSR_FNS1(name, ...) TSR_FN1(name, f32, float, __VA_ARGS__) TSR_FN1(name, f64, double, __VA_ARGS__)
#define TSR_FNS2(name, ...) TSR_FN2(name, f32, float, __VA_ARGS__) TSR_FN2(name, f64, double, __VA_ARGS__)

TSR_REPAIR1(TSR_FNS1)
TSR_REPAIR2(TSR_FNS2)

#define TSR_ROW(name, dtype) \
  {"tsr_" #name "_" #dtype "__repair", reinterpret_cast<void*>(tsr_##name##_##dtype##__repair)},
#define TSR_ROWS(name, ...) TSR_ROW(name, f32) TSR_ROW(name, f64)

extern "C" const TsrRepair tsr_repair_table[] = {TSR_REPAIR1(TSR_ROWS) TSR_REPAIR2(TSR_ROWS){nullptr, nullptr}};

}  // namespace tessera::cpu::TSR_ISA
