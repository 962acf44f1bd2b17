#include <string.h>

#include "interp/cpu/convert_loops.h"
#include "interp/cpu/numeric_isa.h"

#ifdef __clang__
// A build without optimisation or with sanitizers leaves loops scalar, and that is fine.
#pragma clang diagnostic ignored "-Wpass-failed"
#define TSR_NO_CARRIED_DEPENDENCE _Pragma("clang loop vectorize(assume_safety)")
#else
#define TSR_NO_CARRIED_DEPENDENCE _Pragma("GCC ivdep")
#endif

namespace tessera::cpu::TSR_ISA {
namespace {

template <typename D, typename S>
void ConvertAll(void* dst, const void* src, int64_t n) {
  D* d = static_cast<D*>(dst);
  const S* s = static_cast<const S*>(src);
  // Not __restrict: dst == src is allowed. The pragma says what then still holds.
  TSR_NO_CARRIED_DEPENDENCE
  for (int64_t i = 0; i < n; ++i) Store(Load(s[i]), d[i]);
}

template <int bytes>
void Copy(void* dst, const void* src, int64_t n) {
  if (n > 0) memmove(dst, src, static_cast<size_t>(n) * bytes);
}

template <typename D, typename S>
struct Loop {
  static constexpr ConvertLoop kFn = ConvertAll<D, S>;
};
template <typename T>
struct Loop<T, T> {
  static constexpr ConvertLoop kFn = Copy<sizeof(T)>;
};
// Wrapping keeps the bits.
template <>
struct Loop<int8_t, uint8_t> {
  static constexpr ConvertLoop kFn = Copy<1>;
};
template <>
struct Loop<uint8_t, int8_t> {
  static constexpr ConvertLoop kFn = Copy<1>;
};
template <>
struct Loop<int8_t, BoolByte> {
  static constexpr ConvertLoop kFn = Copy<1>;
};
template <>
struct Loop<uint8_t, BoolByte> {
  static constexpr ConvertLoop kFn = Copy<1>;
};

}  // namespace

#define TSR_ROW(S)                                                                            \
  {Loop<double, S>::kFn, Loop<float, S>::kFn,   Loop<Half, S>::kFn,    Loop<BHalf, S>::kFn,   \
   Loop<E4M3, S>::kFn,   Loop<E5M2, S>::kFn,    Loop<int64_t, S>::kFn, Loop<int32_t, S>::kFn, \
   Loop<int8_t, S>::kFn, Loop<uint8_t, S>::kFn, Loop<BoolByte, S>::kFn},
#define TSR_STORAGE_ROW(name, S) TSR_ROW(S)

const ConvertLoops kConvertLoops = {{TSR_FOR_EACH_STORAGE(TSR_STORAGE_ROW)}};

}  // namespace tessera::cpu::TSR_ISA
