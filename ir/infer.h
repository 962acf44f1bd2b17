// The shape rules that ops.def names, one function each: shape_broadcast, shape_reduce, ...
#ifndef TESSERA_IR_INFER_H_
#define TESSERA_IR_INFER_H_

#include "ir/op.h"
#include "ir/symbols.h"

namespace tessera::ir {

#define TSR_SHAPE_RULE(name) absl::Status shape_##name(const InferArgs& args, absl::Span<TensorType> out);
// infer_basic.cc
TSR_SHAPE_RULE(none)       // no results, or results that the interpreter determines (control flow)
TSR_SHAPE_RULE(same)       // dims of the first operand
TSR_SHAPE_RULE(broadcast)  // operands broadcast against each other
TSR_SHAPE_RULE(dims)       // attribute `dims`
TSR_SHAPE_RULE(constant)
TSR_SHAPE_RULE(buffer)
// infer_reduce.cc
TSR_SHAPE_RULE(reduce)   // attributes axes, keepdims first
TSR_SHAPE_RULE(reduce1)  // attributes axis, keepdims first
TSR_SHAPE_RULE(axis)     // dims of the first operand; attribute axis is checked
TSR_SHAPE_RULE(axes)     // dims of the first operand; attribute axes is checked
TSR_SHAPE_RULE(sort)
TSR_SHAPE_RULE(topk)
TSR_SHAPE_RULE(layer_norm)
TSR_SHAPE_RULE(norm_grad)
TSR_SHAPE_RULE(batch_norm)
// infer_products.cc
TSR_SHAPE_RULE(matmul)
TSR_SHAPE_RULE(dot_general)
TSR_SHAPE_RULE(conv)
TSR_SHAPE_RULE(pool)
TSR_SHAPE_RULE(attention)
TSR_SHAPE_RULE(attention_grad)
TSR_SHAPE_RULE(paged_attention)
TSR_SHAPE_RULE(rotary)
TSR_SHAPE_RULE(cross_entropy)
TSR_SHAPE_RULE(cross_entropy_grad)
TSR_SHAPE_RULE(linear_cross_entropy)
TSR_SHAPE_RULE(linear_cross_entropy_grad)
// infer_shape.cc
TSR_SHAPE_RULE(reshape)
TSR_SHAPE_RULE(transpose)
TSR_SHAPE_RULE(broadcast_to)
TSR_SHAPE_RULE(squeeze)
TSR_SHAPE_RULE(unsqueeze)
TSR_SHAPE_RULE(slice)
TSR_SHAPE_RULE(split)
TSR_SHAPE_RULE(concat)
TSR_SHAPE_RULE(stack)
TSR_SHAPE_RULE(pad)
TSR_SHAPE_RULE(matrix)  // dims of the first operand, rank at least 2
// infer_index.cc
TSR_SHAPE_RULE(embedding)
TSR_SHAPE_RULE(take)
TSR_SHAPE_RULE(take_along_axis)
TSR_SHAPE_RULE(gather)
TSR_SHAPE_RULE(scatter)
TSR_SHAPE_RULE(put_along_axis)
TSR_SHAPE_RULE(update_slice)
TSR_SHAPE_RULE(one_hot)
TSR_SHAPE_RULE(quantize)
TSR_SHAPE_RULE(dequantize)
#undef TSR_SHAPE_RULE

/// Broadcasts dims `b` into dims `a` (ranks aligned at the right); the error names both and the dim that differs.
absl::Status BroadcastDims(SymbolTable* symbols, const TensorType& a, const TensorType& b, TensorType* out);

}  // namespace tessera::ir

#endif  // TESSERA_IR_INFER_H_
