#include "tests/random/eager_call.h"

#include <stdexcept>
#include <utility>

#include "tessera/ops.h"

namespace tessera::random {
namespace {

using ir::Op;

constexpr int Words(const char* text) {
  int n = *text != 0 ? 1 : 0;
  for (; *text != 0; ++text) n += *text == ' ' ? 1 : 0;
  return n;
}

// A call that ends its function may become a jump, and then returns to another site's caller.
inline void NoTailCall() { asm volatile(""); }

std::vector<Tensor> One(Tensor x) {
  std::vector<Tensor> list;
  list.push_back(std::move(x));
  return list;
}

std::vector<Tensor> TensorsOf(const OpCall& c) {
  std::vector<Tensor> xs;
  for (const Arg& a : c.args) xs.push_back(a.kind() == Arg::Kind::tensor ? a.tensor() : Tensor::scalar(a.floating()));
  return xs;
}

// An instance for each site: its own code, so its own return addresses.
template <int kSite>
[[gnu::noinline]] std::vector<Tensor> Call(const OpCall& c) {
  const auto arg = [&](size_t i) { return i < c.args.size() ? c.args[i] : Arg(); };
  const Arg a = arg(0), b = arg(1), d = arg(2);
  // Half of the sites use operators and methods where there are some.
  if constexpr (kSite % 2 == 1) {
    const bool is_tensor = a.kind() == Arg::Kind::tensor;
    switch (c.op) {
      case Op::k_add: return One(a + b);
      case Op::k_sub: return One(a - b);
      case Op::k_mul: return One(a * b);
      case Op::k_div: return One(a / b);
      case Op::k_gt: return One(a > b);
      case Op::k_neg: return One(-a);
      case Op::k_reshape:
        if (is_tensor) return One(a.tensor().reshape(c.ints(0)));
        break;
      case Op::k_transpose:
        if (is_tensor) return One(a.tensor().transpose(c.ints(0)));
        break;
      case Op::k_broadcast:
        if (is_tensor) return One(a.tensor().broadcast(c.ints(0)));
        break;
      case Op::k_flip:
        if (is_tensor) return One(a.tensor().flip(c.axes(0)));
        break;
      case Op::k_cast:
        if (is_tensor) return One(a.tensor().cast(c.dtype(0)));
        break;
      case Op::k_copy:
        if (is_tensor) return One(a.tensor().clone());
        break;
      default: break;
    }
  }
  switch (c.op) {
#define TSR_CALL_ew(name, operands)                              \
  case Op::k_##name:                                             \
    return One([](const auto& x, const auto& y, const auto& z) { \
      if constexpr (Words(operands) == 1) {                      \
        return tessera::name(x);                                 \
      } else if constexpr (Words(operands) == 2) {               \
        return tessera::name(x, y);                              \
      } else {                                                   \
        return tessera::name(x, y, z);                           \
      }                                                          \
    }(a, b, d));
#define TSR_CALL_kernel(name, operands)
#define TSR_CALL_view(name, operands)
#define TSR_CALL_host(name, operands)
#define TSR_CALL_control(name, operands)
#define TSR_OP(name, operands, attrs, results, effect, dtypes, rule, shape, impl, grad, bound, summary) \
  TSR_CALL_##impl(name, operands)
#include "ir/ops.def"
    case Op::k_cast: return One(cast(a, c.dtype(0)));
    case Op::k_copy: return One(copy(a));
    case Op::k_full: return One(full(c.ints(0), a, c.dtype(1)));
    case Op::k_iota: return One(iota(c.ints(0), c.axis(1), a, b, c.dtype(2)));
    case Op::k_random_uniform: return One(random_uniform(a, b, c.ints(0), c.real(1), c.real(2), c.dtype(3)));
    case Op::k_random_normal: return One(random_normal(a, b, c.ints(0), c.real(1), c.real(2), c.dtype(3)));
    case Op::k_random_int: return One(random_int(a, b, c.ints(0), c.integer(1), c.integer(2), c.dtype(3)));
    case Op::k_sum: return One(sum(a, c.axes(0), c.flag(1)));
    case Op::k_prod: return One(prod(a, c.axes(0), c.flag(1)));
    case Op::k_mean: return One(mean(a, c.axes(0), c.flag(1)));
    case Op::k_max: return One(max(a, c.axes(0), c.flag(1)));
    case Op::k_min: return One(min(a, c.axes(0), c.flag(1)));
    case Op::k_any: return One(any(a, c.axes(0), c.flag(1)));
    case Op::k_all: return One(all(a, c.axes(0), c.flag(1)));
    case Op::k_logsumexp: return One(logsumexp(a, c.axes(0), c.flag(1)));
    case Op::k_var: return One(var(a, c.axes(0), c.flag(1), c.real(2)));
    case Op::k_argmax: return One(argmax(a, c.axis(0), c.flag(1)));
    case Op::k_argmin: return One(argmin(a, c.axis(0), c.flag(1)));
    case Op::k_cumsum: return One(cumsum(a, c.axis(0), c.flag(1), c.flag(2)));
    case Op::k_matmul: return One(matmul(a, b, c.flag(0), c.flag(1)));
    case Op::k_dot_general: return One(dot_general(a, b, c.ints(0), c.ints(1), c.ints(2), c.ints(3)));
    case Op::k_conv: return One(conv(a, b, d, c.ints(0), c.ints(1), c.ints(2), c.integer(3)));
    case Op::k_avg_pool: return One(avg_pool(a, c.ints(0), c.ints(1), c.ints(2), c.ints(3), c.flag(4)));
    case Op::k_attention: return One(attention(a, b, d, {}, c.flag(0), c.real(1), c.integer(2)));
    case Op::k_paged_attention: return One(paged_attention(a, b, d, arg(3), arg(4), c.real(0)));
    case Op::k_linear_cross_entropy: return One(linear_cross_entropy(a, b, d, c.integer(0)));
    case Op::k_linear_cross_entropy_grad: {
      const LinearCrossEntropyGrads grads = linear_cross_entropy_grad(a, b, d, arg(3), c.integer(0));
      NoTailCall();
      return {grads.x, grads.w};
    }
    case Op::k_softmax: return One(softmax(a, c.axis(0)));
    case Op::k_log_softmax: return One(log_softmax(a, c.axis(0)));
    case Op::k_layer_norm: return One(layer_norm(a, b, d, c.axis(0), c.real(1)));
    case Op::k_rms_norm: return One(rms_norm(a, b, c.axis(0), c.real(1)));
    case Op::k_reshape: return One(reshape(a, c.ints(0)));
    case Op::k_transpose: return One(transpose(a, c.ints(0)));
    case Op::k_broadcast: return One(broadcast(a, c.ints(0)));
    case Op::k_squeeze: return One(squeeze(a, c.axes(0)));
    case Op::k_unsqueeze: return One(unsqueeze(a, c.axes(0)));
    case Op::k_slice: return One(slice(a, c.ints(0), c.ints(1), c.ints(2), c.axes(3)));
    case Op::k_split: {
      std::vector<Tensor> parts = split(a, c.ints(0), c.axis(1));
      NoTailCall();
      return parts;
    }
    case Op::k_flip: return One(flip(a, c.axes(0)));
    case Op::k_concat: return One(concat(TensorsOf(c), c.axis(0)));
    case Op::k_stack: return One(stack(TensorsOf(c), c.axis(0)));
    case Op::k_pad: return One(pad(a, c.ints(0), c.ints(1), c.real(2)));
    case Op::k_tril: return One(tril(a, c.integer(0)));
    case Op::k_triu: return One(triu(a, c.integer(0)));
    case Op::k_take: return One(take(a, b, c.axis(0)));
    case Op::k_embedding: return One(embedding(a, b));
    case Op::k_gather: return One(gather(a, b));
    case Op::k_scatter: return One(scatter(a, b, d, c.str(0)));
    case Op::k_update_slice: return One(update_slice(a, b, c.ints(0), c.ints(1)));
    case Op::k_one_hot: return One(one_hot(a, c.integer(0), c.dtype(1)));
    case Op::k_sort: {
      Sorted sorted = sort(a, c.axis(0), c.flag(1));
      return {sorted.values, sorted.indices};
    }
    case Op::k_topk: {
      Sorted sorted = topk(a, c.integer(0), c.axis(1), c.flag(2));
      return {sorted.values, sorted.indices};
    }
    default: throw std::logic_error("eager programs do not know this op");
  }
}

template <int kSite>
[[gnu::noinline]] void Update(Op op, Tensor& x, const Arg& y) {
  switch (op) {
    case Op::k_add: x += y; break;
    case Op::k_sub: x -= y; break;
    case Op::k_mul: x *= y; break;
    default: x /= y; break;
  }
  NoTailCall();
}

template <int... kSites>
std::vector<Tensor> Dispatch(int site, const OpCall& call, std::integer_sequence<int, kSites...>) {
  using Fn = std::vector<Tensor> (*)(const OpCall&);
  static constexpr Fn kTable[] = {Call<kSites>...};
  return kTable[site % kCallSites](call);
}

template <int... kSites>
void DispatchUpdate(int site, Op op, Tensor& x, const Arg& y, std::integer_sequence<int, kSites...>) {
  using Fn = void (*)(Op, Tensor&, const Arg&);
  static constexpr Fn kTable[] = {Update<kSites>...};
  kTable[site % kCallSites](op, x, y);
}

}  // namespace

std::vector<Tensor> CallAt(int site, const OpCall& call) {
  return Dispatch(site, call, std::make_integer_sequence<int, kCallSites>());
}
void UpdateAt(int site, Op op, Tensor& x, const Arg& y) {
  DispatchUpdate(site, op, x, y, std::make_integer_sequence<int, kCallSites>());
}

}  // namespace tessera::random
