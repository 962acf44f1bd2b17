// The loops over rows for the processor at hand, by the type that is computed in. Not for rows_isa.cc, which is
// compiled once for each instruction set.
#ifndef TESSERA_INTERP_CPU_ROW_LOOPS_H_
#define TESSERA_INTERP_CPU_ROW_LOOPS_H_

#include <type_traits>

#include "interp/cpu/rows_isa.h"
#include "tessera/dtype.h"

namespace tessera::cpu {

template <class T>
const RowLoopsOf<T>& LoopsOf() {
  static const RowLoops& loops = TSR_SELECT_ISA(kRowLoops);
  if constexpr (std::is_same_v<T, double>)
    return loops.f64;
  else
    return loops.f32;
}

template <class T>
inline constexpr DType kCompute = std::is_same_v<T, double> ? DType::f64 : DType::f32;

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_ROW_LOOPS_H_
