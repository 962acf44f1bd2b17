// Element-wise ops on bools, and `where`, which moves bits.
#include "interp/cuda/kernels/ew.cuh"

namespace tessera::cuda {

TSR_INT2_BOOL(TSR_F2)
TSR_BOOL1(TSR_F1)
TSR_BOOL2(TSR_F2)
TSR_ASK1(TSR_Q1)
TSR_ASK2(TSR_Q2)

#define TSR_KERNELS(name, ...) TSR_EW_KERNELS(name, bool, BoolByte, BoolByte)
TSR_INT2_BOOL(TSR_KERNELS)
TSR_BOOL1(TSR_KERNELS)
TSR_BOOL2(TSR_KERNELS)
TSR_ASK1(TSR_KERNELS)
TSR_ASK2(TSR_KERNELS)

/// The condition is operand 0; its elements are bytes. T is an unsigned integer of the element's size.
template <class T>
__device__ __forceinline__ void WhereBody(const EwStrided& a) {
  T* const out = At<T>(a.out);
  for (int64_t i = ThreadIndex(); i < a.size; i += ThreadCount()) {
    int64_t offset[3] = {};
    int64_t rest = i;
    for (int d = a.rank - 1; d > 0; --d) {
      int64_t q;
      if ((rest >> 31) == 0 && (a.dims[d] >> 31) == 0)
        q = static_cast<uint32_t>(rest) / static_cast<uint32_t>(a.dims[d]);
      else
        q = rest / a.dims[d];
      const int64_t r = rest - q * a.dims[d];
      for (int k = 0; k < 3; ++k) offset[k] += r * a.strides[k][d];
      rest = q;
    }
    for (int k = 0; k < 3; ++k) offset[k] += rest * a.strides[k][0];
    const bool cond = a.kind[0] == OperandKind::immediate ? a.in[0] != 0 : At<const uint8_t>(a.in[0])[offset[0]] != 0;
    const int k = cond ? 1 : 2;
    out[i] = a.kind[k] == OperandKind::immediate ? static_cast<T>(a.in[k]) : At<const T>(a.in[k])[offset[k]];
  }
}
#define TSR_WHERE(bytes, T)                                                                                          \
  extern "C" __global__ void __launch_bounds__(256) ew_where_##bytes(const __grid_constant__ EwStrided a) { \
    WhereBody<T>(a);                                                                                                 \
  }
TSR_WHERE(1, uint8_t)
TSR_WHERE(2, uint16_t)
TSR_WHERE(4, uint32_t)
TSR_WHERE(8, uint64_t)

}  // namespace tessera::cuda
