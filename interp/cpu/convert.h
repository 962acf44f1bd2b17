// Converting contiguous elements between dtypes, by the rules in tessera/dtypes.def.
#ifndef TESSERA_INTERP_CPU_CONVERT_H_
#define TESSERA_INTERP_CPU_CONVERT_H_

#include <cstdint>

#include "runtime/tensor.h"

namespace tessera::cpu {

/// One thread, vectorised. dst and src do not overlap, unless the dtypes are of one size and dst == src.
void Convert(void* dst, DType dst_dtype, const void* src, DType src_dtype, int64_t n);

/// One element, for scalars and tests.
double ToDouble(const void* element, DType dtype);
int64_t ToInt64(const void* element, DType dtype);
void FromDouble(double value, void* element, DType dtype);
void FromInt64(int64_t value, void* element, DType dtype);

/// The dtype kernels compute in: f32 for narrow floats, else the same.
constexpr DType ComputeDType(DType t) { return IsNarrowFloat(t) ? DType::f32 : t; }

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_CONVERT_H_
