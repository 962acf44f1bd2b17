// What a mask of attention lets through, where that can be said in a word: code that relies on it needs no mask.
#ifndef TESSERA_TRACER_MASK_H_
#define TESSERA_TRACER_MASK_H_

#include <cstdint>
#include <string_view>

#include "runtime/tensor.h"

namespace tessera::tracer {

enum class MaskShape : uint8_t {
  unknown,
  everything,  // every key for every query
  causal,      // query i of S sees the keys up to i + T - S of T, as the op's attribute `causal` has it
};

/// The operand of the op attention that is its mask.
inline constexpr uint32_t kMaskOperand = 3;

/// Of a tensor in memory of the host, with any strides: one of booleans, where true keeps, or of floats, which are
/// added, so that 0 keeps and -inf does not. Stops at the first element that fits neither.
MaskShape ShapeOfMask(const View& mask);

/// "a mask that keeps everything", "a causal mask", "a mask"
std::string_view Name(MaskShape shape);

}  // namespace tessera::tracer

#endif  // TESSERA_TRACER_MASK_H_
