// Questions, whose answers are bools, and `where`.
#include "interp/cpu/ew_ops_isa.h"
#include "interp/cpu/loops_ew_isa.h"

namespace tessera::cpu::TSR_ISA {
namespace {

TSR_ASK1(TSR_EW1_BOOL)
TSR_ASK2(TSR_EW2_BOOL)

// Moves bits, so one loop serves all dtypes of a size, and narrow floats need no f32.
template <typename T>
void where_loop(void* out, const void* const* in, int64_t n) {
  T* __restrict y = static_cast<T*>(out);
  const uint8_t* __restrict cond = static_cast<const uint8_t*>(in[0]);
  const T* __restrict as = static_cast<const T*>(in[1]);
  const T* __restrict bs = static_cast<const T*>(in[2]);
  for (int64_t i = 0; i < n; ++i) {
    const T a = as[i], b = bs[i];
    y[i] = cond[i] != 0 ? a : b;
  }
}

#define TSR_EW_ALL(name, ...) \
  TSR_EW_FLOATS(name)         \
  TSR_EW_INTS(name)           \
  TSR_EW_ENTRY(name, boolean, uint8_t)

const EwEntry kEntries[] = {TSR_ASK1(TSR_EW_ALL) TSR_ASK2(TSR_EW_ALL) TSR_EW_ENTRY(where, f64, uint64_t)
                                TSR_EW_ENTRY(where, i64, uint64_t) TSR_EW_ENTRY(where, f32, uint32_t)
                                    TSR_EW_ENTRY(where, i32, uint32_t) TSR_EW_ENTRY(where, f16, uint16_t)
                                        TSR_EW_ENTRY(where, bf16, uint16_t) TSR_EW_ENTRY(where, f8e4m3, uint8_t)
                                            TSR_EW_ENTRY(where, f8e5m2, uint8_t) TSR_EW_ENTRY(where, i8, uint8_t)
                                                TSR_EW_ENTRY(where, u8, uint8_t) TSR_EW_ENTRY(where, boolean, uint8_t)};

}  // namespace

TSR_EW_LIST(kEwCompare, kEntries);

}  // namespace tessera::cpu::TSR_ISA
