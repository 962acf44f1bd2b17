// Element-wise ops on integers.
#include "interp/cuda/kernels/ew.cuh"

namespace tessera::cuda {

TSR_INT1(TSR_F1)
TSR_INT2(TSR_F2)
TSR_INT2_BOOL(TSR_F2)
TSR_INT3(TSR_F3)
TSR_INT1_NOT_BOOL(TSR_F1)
TSR_INT2_NOT_BOOL(TSR_F2)
TSR_ASK1(TSR_Q1)
TSR_ASK2(TSR_Q2)

#define TSR_KERNELS(name, ...)                \
  TSR_EW_KERNELS(name, i64, int64_t, int64_t) \
  TSR_EW_KERNELS(name, i32, int32_t, int32_t) \
  TSR_EW_KERNELS(name, i8, int8_t, int8_t)    \
  TSR_EW_KERNELS(name, u8, uint8_t, uint8_t)
TSR_INT1(TSR_KERNELS)
TSR_INT2(TSR_KERNELS)
TSR_INT2_BOOL(TSR_KERNELS)
TSR_INT3(TSR_KERNELS)
TSR_INT1_NOT_BOOL(TSR_KERNELS)
TSR_INT2_NOT_BOOL(TSR_KERNELS)
#define TSR_ASK_KERNELS(name, ...)             \
  TSR_EW_KERNELS(name, i64, int64_t, BoolByte) \
  TSR_EW_KERNELS(name, i32, int32_t, BoolByte) \
  TSR_EW_KERNELS(name, i8, int8_t, BoolByte)   \
  TSR_EW_KERNELS(name, u8, uint8_t, BoolByte)
TSR_ASK1(TSR_ASK_KERNELS)
TSR_ASK2(TSR_ASK_KERNELS)

}  // namespace tessera::cuda
