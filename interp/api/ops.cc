// Ops of the public API that are not element-wise.
#include "tessera/ops.h"

#include "interp/api/eager.h"

namespace tessera {

using api::Run;
using api::RunMany;
using api::ToInts;
using ir::Attr;
using ir::Op;

namespace {
std::string Str(std::string_view s) { return std::string(s); }
int64_t Int(int64_t i) { return i; }

std::vector<Arg> Args(const std::vector<Tensor>& xs, Where where) {
  std::vector<Arg> args;
  args.reserve(xs.size());
  for (const Tensor& x : xs) args.emplace_back(x, where);
  return args;
}

Tensor Join(Op op, const std::vector<Tensor>& xs, int axis, Where where, const void* site) {
  std::vector<Arg> args = Args(xs, where);
  std::vector<const Arg*> pointers;
  for (const Arg& a : args) pointers.push_back(&a);
  const Attr attr = Int(axis);
  return std::move(RunMany(op, pointers, {&attr, 1}, site)[0]);
}
}  // namespace

// ---- reductions
#define TSR_REDUCTION(name)                                             \
  Tensor name(const Arg& x, const Axes& axes, bool keepdims) {          \
    return Run(Op::k_##name, {&x}, {ToInts(axes), keepdims}, TSR_SITE); \
  }
TSR_REDUCTION(sum)
TSR_REDUCTION(prod)
TSR_REDUCTION(mean)
TSR_REDUCTION(max)
TSR_REDUCTION(min)
TSR_REDUCTION(any)
TSR_REDUCTION(all)
TSR_REDUCTION(logsumexp)

Tensor var(const Arg& x, const Axes& axes, bool keepdims, double correction) {
  return Run(Op::k_var, {&x}, {ToInts(axes), keepdims, correction}, TSR_SITE);
}
Tensor std_dev(const Arg& x, const Axes& axes, bool keepdims, double correction) {
  return sqrt(var(x, axes, keepdims, correction));
}
Tensor argmax(const Arg& x, int axis, bool keepdims) {
  return Run(Op::k_argmax, {&x}, {Int(axis), keepdims}, TSR_SITE);
}
Tensor argmin(const Arg& x, int axis, bool keepdims) {
  return Run(Op::k_argmin, {&x}, {Int(axis), keepdims}, TSR_SITE);
}
Tensor cumsum(const Arg& x, int axis, bool exclusive, bool reverse) {
  return Run(Op::k_cumsum, {&x}, {Int(axis), exclusive, reverse}, TSR_SITE);
}

// ---- products
Tensor matmul(const Arg& a, const Arg& b, bool transpose_a, bool transpose_b) {
  return Run(Op::k_matmul, a, b, transpose_a, transpose_b, TSR_SITE);
}
Tensor dot_general(const Arg& a, const Arg& b, const Dims& contract_a, const Dims& contract_b, const Dims& batch_a,
                   const Dims& batch_b) {
  return Run(Op::k_dot_general, {&a, &b}, {ToInts(contract_a), ToInts(contract_b), ToInts(batch_a), ToInts(batch_b)},
             TSR_SITE);
}
Tensor conv(const Arg& x, const Arg& weight, const Arg& bias, const Dims& stride, const Dims& padding,
            const Dims& dilation, int64_t groups) {
  return Run(Op::k_conv, {&x, &weight, &bias}, {ToInts(stride), ToInts(padding), ToInts(dilation), groups}, TSR_SITE);
}
Tensor max_pool(const Arg& x, const Dims& window, const Dims& stride, const Dims& padding, const Dims& dilation) {
  return Run(Op::k_max_pool, {&x}, {ToInts(window), ToInts(stride), ToInts(padding), ToInts(dilation)}, TSR_SITE);
}
Tensor avg_pool(const Arg& x, const Dims& window, const Dims& stride, const Dims& padding, const Dims& dilation,
                bool count_padding) {
  return Run(Op::k_avg_pool, {&x}, {ToInts(window), ToInts(stride), ToInts(padding), ToInts(dilation), count_padding},
             TSR_SITE);
}

// ---- neural networks
Tensor softmax(const Arg& x, int axis) { return Run(Op::k_softmax, {&x}, {Int(axis)}, TSR_SITE); }
Tensor log_softmax(const Arg& x, int axis) { return Run(Op::k_log_softmax, {&x}, {Int(axis)}, TSR_SITE); }
Tensor layer_norm(const Arg& x, const Arg& weight, const Arg& bias, int dims, double eps) {
  return Run(Op::k_layer_norm, {&x, &weight, &bias}, {Int(dims), eps}, TSR_SITE);
}
Tensor rms_norm(const Arg& x, const Arg& weight, int dims, double eps) {
  return Run(Op::k_rms_norm, {&x, &weight}, {Int(dims), eps}, TSR_SITE);
}
LayerNormGrads layer_norm_grad(const Arg& x, const Arg& g, const Arg& weight, int dims, double eps) {
  const Arg* args[] = {&x, &g, &weight};
  const Attr attrs[] = {Int(dims), eps};
  std::vector<Tensor> r = RunMany(Op::k_layer_norm_grad, args, attrs, TSR_SITE);
  return {std::move(r[0]), std::move(r[1]), std::move(r[2])};
}
RmsNormGrads rms_norm_grad(const Arg& x, const Arg& g, const Arg& weight, int dims, double eps) {
  const Arg* args[] = {&x, &g, &weight};
  const Attr attrs[] = {Int(dims), eps};
  std::vector<Tensor> r = RunMany(Op::k_rms_norm_grad, args, attrs, TSR_SITE);
  return {std::move(r[0]), std::move(r[1])};
}
Tensor batch_norm(const Arg& x, const Arg& mean, const Arg& var, const Arg& weight, const Arg& bias, int axis,
                  double eps) {
  return Run(Op::k_batch_norm, {&x, &mean, &var, &weight, &bias}, {Int(axis), eps}, TSR_SITE);
}
Tensor attention(const Arg& q, const Arg& k, const Arg& v, const Arg& mask, bool causal, double scale, int64_t window) {
  return Run(Op::k_attention, {&q, &k, &v, &mask}, {causal, scale, window}, TSR_SITE);
}
AttentionGrads attention_grad(const Arg& q, const Arg& k, const Arg& v, const Arg& y, const Arg& g, const Arg& mask,
                              bool causal, double scale, int64_t window) {
  const Arg* args[] = {&q, &k, &v, &y, &g, &mask};
  const Attr attrs[] = {causal, scale, window};
  std::vector<Tensor> r = RunMany(Op::k_attention_grad, args, attrs, TSR_SITE);
  return {std::move(r[0]), std::move(r[1]), std::move(r[2])};
}
Tensor paged_attention(const Arg& q, const Arg& k, const Arg& v, const Arg& table, const Arg& lengths, double scale) {
  return Run(Op::k_paged_attention, {&q, &k, &v, &table, &lengths}, {scale}, TSR_SITE);
}
Tensor rotary(const Arg& x, const Arg& positions, double base, bool interleaved) {
  return Run(Op::k_rotary, {&x, &positions}, {base, interleaved}, TSR_SITE);
}
Tensor cross_entropy(const Arg& logits, const Arg& targets, int64_t ignore) {
  return Run(Op::k_cross_entropy, {&logits, &targets}, {ignore}, TSR_SITE);
}
Tensor cross_entropy_grad(const Arg& logits, const Arg& targets, const Arg& g, int64_t ignore) {
  return Run(Op::k_cross_entropy_grad, {&logits, &targets, &g}, {ignore}, TSR_SITE);
}
Tensor linear_cross_entropy(const Arg& x, const Arg& w, const Arg& targets, int64_t ignore) {
  return Run(Op::k_linear_cross_entropy, {&x, &w, &targets}, {ignore}, TSR_SITE);
}
LinearCrossEntropyGrads linear_cross_entropy_grad(const Arg& x, const Arg& w, const Arg& targets, const Arg& g,
                                                  int64_t ignore) {
  const Arg* args[] = {&x, &w, &targets, &g};
  const Attr attrs[] = {ignore};
  std::vector<Tensor> r = RunMany(Op::k_linear_cross_entropy_grad, args, attrs, TSR_SITE);
  return {std::move(r[0]), std::move(r[1])};
}
Tensor embedding(const Arg& table, const Arg& ids) { return Run(Op::k_embedding, table, ids, TSR_SITE); }

// ---- shape
Tensor reshape(const Arg& x, const Dims& dims) { return Run(Op::k_reshape, {&x}, {ToInts(dims)}, TSR_SITE); }
Tensor transpose(const Arg& x, const Dims& perm) { return Run(Op::k_transpose, {&x}, {ToInts(perm)}, TSR_SITE); }
Tensor broadcast(const Arg& x, const Dims& dims) { return Run(Op::k_broadcast, {&x}, {ToInts(dims)}, TSR_SITE); }
Tensor squeeze(const Arg& x, const Axes& axes) { return Run(Op::k_squeeze, {&x}, {ToInts(axes)}, TSR_SITE); }
Tensor unsqueeze(const Arg& x, const Axes& axes) { return Run(Op::k_unsqueeze, {&x}, {ToInts(axes)}, TSR_SITE); }
Tensor slice(const Arg& x, const Dims& starts, const Dims& stops, const Dims& steps, const Axes& axes) {
  return Run(Op::k_slice, {&x}, {ToInts(starts), ToInts(stops), ToInts(steps), ToInts(axes)}, TSR_SITE);
}
std::vector<Tensor> split(const Arg& x, const Dims& sizes, int axis) {
  const Arg* arg = &x;
  const Attr attrs[] = {ToInts(sizes), Int(axis)};
  return RunMany(Op::k_split, {&arg, 1}, attrs, TSR_SITE);
}
Tensor flip(const Arg& x, const Axes& axes) { return Run(Op::k_flip, {&x}, {ToInts(axes)}, TSR_SITE); }
Tensor concat(const std::vector<Tensor>& xs, int axis, Where where) {
  return Join(Op::k_concat, xs, axis, where, TSR_SITE);
}
Tensor stack(const std::vector<Tensor>& xs, int axis, Where where) {
  return Join(Op::k_stack, xs, axis, where, TSR_SITE);
}
Tensor pad(const Arg& x, const Dims& low, const Dims& high, double value) {
  return Run(Op::k_pad, {&x}, {ToInts(low), ToInts(high), value}, TSR_SITE);
}
Tensor tril(const Arg& x, int64_t k) { return Run(Op::k_tril, {&x}, {k}, TSR_SITE); }
Tensor triu(const Arg& x, int64_t k) { return Run(Op::k_triu, {&x}, {k}, TSR_SITE); }
Tensor copy(const Arg& x) { return Run(Op::k_copy, x, TSR_SITE); }

// ---- indexing
Tensor take(const Arg& x, const Arg& ids, int axis) { return Run(Op::k_take, {&x, &ids}, {Int(axis)}, TSR_SITE); }
Tensor take_along_axis(const Arg& x, const Arg& ids, int axis) {
  return Run(Op::k_take_along_axis, {&x, &ids}, {Int(axis)}, TSR_SITE);
}
Tensor gather(const Arg& x, const Arg& ids) { return Run(Op::k_gather, x, ids, TSR_SITE); }
Tensor scatter(const Arg& x, const Arg& ids, const Arg& updates, std::string_view mode) {
  return Run(Op::k_scatter, {&x, &ids, &updates}, {Str(mode)}, TSR_SITE);
}
Tensor put_along_axis(const Arg& x, const Arg& ids, const Arg& updates, int axis, std::string_view mode) {
  return Run(Op::k_put_along_axis, {&x, &ids, &updates}, {Int(axis), Str(mode)}, TSR_SITE);
}
Tensor update_slice(const Arg& x, const Arg& updates, const Dims& starts, const Dims& steps) {
  return Run(Op::k_update_slice, {&x, &updates}, {ToInts(starts), ToInts(steps)}, TSR_SITE);
}
Tensor one_hot(const Arg& ids, int64_t depth, DType dtype) {
  return Run(Op::k_one_hot, {&ids}, {depth, dtype}, TSR_SITE);
}
Sorted sort(const Arg& x, int axis, bool descending) {
  const Arg* arg = &x;
  const Attr attrs[] = {Int(axis), descending};
  std::vector<Tensor> r = RunMany(Op::k_sort, {&arg, 1}, attrs, TSR_SITE);
  return {std::move(r[0]), std::move(r[1])};
}
Sorted topk(const Arg& x, int64_t k, int axis, bool largest) {
  const Arg* arg = &x;
  const Attr attrs[] = {k, Int(axis), largest};
  std::vector<Tensor> r = RunMany(Op::k_topk, {&arg, 1}, attrs, TSR_SITE);
  return {std::move(r[0]), std::move(r[1])};
}

// ---- storage formats
Quantized quantize(const Arg& x, std::string_view format, int64_t block) {
  const Arg* arg = &x;
  const Attr attrs[] = {Str(format), block};
  std::vector<Tensor> r = RunMany(Op::k_quantize, {&arg, 1}, attrs, TSR_SITE);
  return {std::move(r[0]), std::move(r[1])};
}
Tensor dequantize(const Arg& data, const Arg& scale, std::string_view format, int64_t block, DType dtype) {
  return Run(Op::k_dequantize, {&data, &scale}, {Str(format), block, dtype}, TSR_SITE);
}

}  // namespace tessera
