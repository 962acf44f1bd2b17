// Every op of the op table as a function on tensors. Operands may be tensors or numbers; dims broadcast as in NumPy;
// dtypes are promoted as tessera/dtype.h says. A wrong call throws Error at this line, with a message that names the
// op, the operands and what would work. docs/ops.md has the whole table with supported dtypes and error bounds.
#ifndef TESSERA_OPS_H_
#define TESSERA_OPS_H_

#include <string>
#include <string_view>
#include <vector>

#include "tessera/tensor.h"

namespace tessera {

/// Place of a call, for messages and traces; where an operand can carry it (Arg), it does.
using Where = std::source_location;

// ---- making tensors, on the default device (Runtime::set_device)
TSR_API Tensor full(const Dims& dims, const Arg& value, DType dtype = f32);
TSR_API Tensor zeros(const Dims& dims, DType dtype = f32, Where where = Where::current());
TSR_API Tensor ones(const Dims& dims, DType dtype = f32, Where where = Where::current());
TSR_API Tensor zeros_like(const Tensor& x, Where where = Where::current());
TSR_API Tensor ones_like(const Tensor& x, Where where = Where::current());
/// start, start + step, ... before stop. i64, or f32 when a number is floating.
TSR_API Tensor arange(const Arg& stop);
TSR_API Tensor arange(const Arg& start, const Arg& stop, const Arg& step = 1);
/// `count` numbers from start to stop, both included.
TSR_API Tensor linspace(double start, double stop, int64_t count, DType dtype = f32, Where where = Where::current());
TSR_API Tensor eye(int64_t n, DType dtype = f32, Where where = Where::current());
/// start + step * index along axis.
TSR_API Tensor iota(const Dims& dims, int axis = 0, const Arg& start = 0, const Arg& step = 1, DType dtype = i64);
/// The random functions draw from one counter-based stream (Philox): the same seed gives the same numbers on every
/// device. manual_seed() starts it anew.
TSR_API void manual_seed(uint64_t seed);
TSR_API Tensor rand(const Dims& dims, DType dtype = f32, Where where = Where::current());
TSR_API Tensor randn(const Dims& dims, DType dtype = f32, Where where = Where::current());
TSR_API Tensor randint(int64_t low, int64_t high, const Dims& dims, DType dtype = i64, Where where = Where::current());
/// The same with the stream's position given: pure functions of their arguments.
TSR_API Tensor random_uniform(const Arg& seed, const Arg& offset, const Dims& dims, double low = 0, double high = 1,
                              DType dtype = f32);
TSR_API Tensor random_normal(const Arg& seed, const Arg& offset, const Dims& dims, double mean = 0, double std = 1,
                             DType dtype = f32);
TSR_API Tensor random_int(const Arg& seed, const Arg& offset, const Dims& dims, int64_t low, int64_t high,
                          DType dtype = i64);

// ---- element-wise, one operand
TSR_API Tensor neg(const Arg& x);          // -x
TSR_API Tensor abs(const Arg& x);          // |x|
TSR_API Tensor sign(const Arg& x);         // -1, 0 or 1; NaN stays NaN
TSR_API Tensor square(const Arg& x);       // x * x
TSR_API Tensor reciprocal(const Arg& x);   // 1 / x
TSR_API Tensor sqrt(const Arg& x);         // Square root
TSR_API Tensor rsqrt(const Arg& x);        // 1 / sqrt(x)
TSR_API Tensor cbrt(const Arg& x);         // Cube root
TSR_API Tensor exp(const Arg& x);          // e to the x
TSR_API Tensor exp2(const Arg& x);         // 2 to the x
TSR_API Tensor expm1(const Arg& x);        // exp(x) - 1, exact near 0
TSR_API Tensor log(const Arg& x);          // Natural logarithm
TSR_API Tensor log2(const Arg& x);         // Logarithm to base 2
TSR_API Tensor log10(const Arg& x);        // Logarithm to base 10
TSR_API Tensor log1p(const Arg& x);        // log(1 + x), exact near 0
TSR_API Tensor sin(const Arg& x);          // Sine
TSR_API Tensor cos(const Arg& x);          // Cosine
TSR_API Tensor tan(const Arg& x);          // Tangent
TSR_API Tensor asin(const Arg& x);         // Inverse sine
TSR_API Tensor acos(const Arg& x);         // Inverse cosine
TSR_API Tensor atan(const Arg& x);         // Inverse tangent
TSR_API Tensor sinh(const Arg& x);         // Hyperbolic sine
TSR_API Tensor cosh(const Arg& x);         // Hyperbolic cosine
TSR_API Tensor tanh(const Arg& x);         // Hyperbolic tangent
TSR_API Tensor asinh(const Arg& x);        // Inverse hyperbolic sine
TSR_API Tensor acosh(const Arg& x);        // Inverse hyperbolic cosine
TSR_API Tensor atanh(const Arg& x);        // Inverse hyperbolic tangent
TSR_API Tensor degrees(const Arg& x);      // Radians to degrees
TSR_API Tensor radians(const Arg& x);      // Degrees to radians
TSR_API Tensor erf(const Arg& x);          // Error function
TSR_API Tensor erfc(const Arg& x);         // 1 - erf(x), exact in the tail
TSR_API Tensor sigmoid(const Arg& x);      // 1 / (1 + exp(-x))
TSR_API Tensor softplus(const Arg& x);     // log(1 + exp(x))
TSR_API Tensor floor(const Arg& x);        // Largest integer not above x
TSR_API Tensor ceil(const Arg& x);         // Smallest integer not below x
TSR_API Tensor round(const Arg& x);        // Nearest integer, halves to even
TSR_API Tensor trunc(const Arg& x);        // Integer part
TSR_API Tensor isnan(const Arg& x);        // Is not a number
TSR_API Tensor isinf(const Arg& x);        // Is an infinity
TSR_API Tensor isfinite(const Arg& x);     // Is neither NaN nor an infinity
TSR_API Tensor signbit(const Arg& x);      // Has its sign bit set
TSR_API Tensor logical_not(const Arg& x);  // x == 0
TSR_API Tensor bit_not(const Arg& x);      // Every bit inverted; logical not of a bool
TSR_API Tensor relu(const Arg& x);         // max(x, 0)
TSR_API Tensor relu6(const Arg& x);        // min(max(x, 0), 6)
TSR_API Tensor gelu(const Arg& x);         // x * Phi(x), exact form
TSR_API Tensor gelu_tanh(const Arg& x);    // gelu by its tanh approximation
TSR_API Tensor silu(const Arg& x);         // x * sigmoid(x)
TSR_API Tensor mish(const Arg& x);         // x * tanh(softplus(x))
TSR_API Tensor selu(const Arg& x);         // Self-normalising elu
TSR_API Tensor hardswish(const Arg& x);    // x * relu6(x + 3) / 6

// ---- element-wise, two operands
TSR_API Tensor add(const Arg& a, const Arg& b);         // a + b; logical or of bools
TSR_API Tensor sub(const Arg& a, const Arg& b);         // a - b
TSR_API Tensor mul(const Arg& a, const Arg& b);         // a * b; logical and of bools
TSR_API Tensor div(const Arg& a, const Arg& b);         // a / b
TSR_API Tensor floor_div(const Arg& a, const Arg& b);   // floor(a / b); an integer by 0 gives 0
TSR_API Tensor mod(const Arg& a, const Arg& b);         // a - b * floor(a / b), sign of b; an integer by 0 gives 0
TSR_API Tensor fmod(const Arg& a, const Arg& b);        // a - b * trunc(a / b), sign of a; an integer by 0 gives 0
TSR_API Tensor pow(const Arg& a, const Arg& b);         // a to the b; integers wrap, a negative integer power truncates
TSR_API Tensor maximum(const Arg& a, const Arg& b);     // The larger; NaN if either is
TSR_API Tensor minimum(const Arg& a, const Arg& b);     // The smaller; NaN if either is
TSR_API Tensor fmax(const Arg& a, const Arg& b);        // The larger; the other one if one is NaN
TSR_API Tensor fmin(const Arg& a, const Arg& b);        // The smaller; the other one if one is NaN
TSR_API Tensor atan2(const Arg& a, const Arg& b);       // Angle of the point (b, a)
TSR_API Tensor hypot(const Arg& a, const Arg& b);       // sqrt(a*a + b*b) without overflow
TSR_API Tensor logaddexp(const Arg& a, const Arg& b);   // log(exp(a) + exp(b))
TSR_API Tensor logaddexp2(const Arg& a, const Arg& b);  // log2(2^a + 2^b)
TSR_API Tensor heaviside(const Arg& a, const Arg& b);   // 0 where a < 0, b where a == 0, 1 where a > 0
TSR_API Tensor copysign(const Arg& a, const Arg& b);    // |a| with the sign of b
TSR_API Tensor gcd(const Arg& a, const Arg& b);         // Greatest common divisor
TSR_API Tensor lcm(const Arg& a, const Arg& b);         // Least common multiple
TSR_API Tensor bit_and(const Arg& a, const Arg& b);     // Bitwise and
TSR_API Tensor bit_or(const Arg& a, const Arg& b);      // Bitwise or
TSR_API Tensor bit_xor(const Arg& a, const Arg& b);     // Bitwise exclusive or
TSR_API Tensor shift_left(const Arg& a, const Arg& b);  // a << b; 0 where b is not within the width
TSR_API Tensor shift_right(const Arg& a,
                           const Arg& b);       // a >> b, keeping the sign; sign alone where b is not within the width
TSR_API Tensor eq(const Arg& a, const Arg& b);  // a == b
TSR_API Tensor ne(const Arg& a, const Arg& b);  // a != b
TSR_API Tensor lt(const Arg& a, const Arg& b);  // a < b
TSR_API Tensor le(const Arg& a, const Arg& b);  // a <= b
TSR_API Tensor gt(const Arg& a, const Arg& b);  // a > b
TSR_API Tensor ge(const Arg& a, const Arg& b);  // a >= b
TSR_API Tensor logical_and(const Arg& a, const Arg& b);                // a != 0 and b != 0
TSR_API Tensor logical_or(const Arg& a, const Arg& b);                 // a != 0 or b != 0
TSR_API Tensor logical_xor(const Arg& a, const Arg& b);                // one of a != 0, b != 0
TSR_API Tensor leaky_relu(const Arg& x, const Arg& slope = 0.01);      // x where x > 0, else slope * x
TSR_API Tensor elu(const Arg& x, const Arg& alpha = 1.0);              // x where x > 0, else alpha * (exp(x) - 1)
TSR_API std::pair<Tensor, Tensor> divmod(const Arg& a, const Arg& b);  // floor_div and mod
TSR_API std::pair<Tensor, Tensor> modf(const Arg& x);                  // fraction and integer part, both with x's sign

// ---- element-wise, three operands
TSR_API Tensor where(const Arg& cond, const Arg& a, const Arg& b);
TSR_API Tensor clamp(const Arg& x, const Arg& lo, const Arg& hi);

TSR_API Tensor cast(const Arg& x, DType dtype);

// ---- operators
TSR_API Tensor operator-(const Arg& x);
TSR_API Tensor operator!(const Arg& x);
TSR_API Tensor operator~(const Arg& x);
TSR_API Tensor operator+(const Arg& a, const Arg& b);
TSR_API Tensor operator-(const Arg& a, const Arg& b);
TSR_API Tensor operator*(const Arg& a, const Arg& b);
TSR_API Tensor operator/(const Arg& a, const Arg& b);
TSR_API Tensor operator%(const Arg& a, const Arg& b);
TSR_API Tensor operator&(const Arg& a, const Arg& b);
TSR_API Tensor operator|(const Arg& a, const Arg& b);
TSR_API Tensor operator^(const Arg& a, const Arg& b);
TSR_API Tensor operator<<(const Arg& a, const Arg& b);
TSR_API Tensor operator>>(const Arg& a, const Arg& b);
TSR_API Tensor operator==(const Arg& a, const Arg& b);
TSR_API Tensor operator!=(const Arg& a, const Arg& b);
TSR_API Tensor operator<(const Arg& a, const Arg& b);
TSR_API Tensor operator<=(const Arg& a, const Arg& b);
TSR_API Tensor operator>(const Arg& a, const Arg& b);
TSR_API Tensor operator>=(const Arg& a, const Arg& b);

// ---- reductions; no axes means all of them
TSR_API Tensor sum(const Arg& x, const Axes& axes = {}, bool keepdims = false);
TSR_API Tensor prod(const Arg& x, const Axes& axes = {}, bool keepdims = false);
TSR_API Tensor mean(const Arg& x, const Axes& axes = {}, bool keepdims = false);
TSR_API Tensor max(const Arg& x, const Axes& axes = {}, bool keepdims = false);
TSR_API Tensor min(const Arg& x, const Axes& axes = {}, bool keepdims = false);
TSR_API Tensor any(const Arg& x, const Axes& axes = {}, bool keepdims = false);
TSR_API Tensor all(const Arg& x, const Axes& axes = {}, bool keepdims = false);
TSR_API Tensor logsumexp(const Arg& x, const Axes& axes = {}, bool keepdims = false);
TSR_API Tensor var(const Arg& x, const Axes& axes = {}, bool keepdims = false, double correction = 0);
TSR_API Tensor std_dev(const Arg& x, const Axes& axes = {}, bool keepdims = false, double correction = 0);
TSR_API Tensor argmax(const Arg& x, int axis, bool keepdims = false);
TSR_API Tensor argmin(const Arg& x, int axis, bool keepdims = false);
TSR_API Tensor cumsum(const Arg& x, int axis, bool exclusive = false, bool reverse = false);

// ---- products
TSR_API Tensor matmul(const Arg& a, const Arg& b, bool transpose_a = false, bool transpose_b = false);
TSR_API Tensor dot_general(const Arg& a, const Arg& b, const Dims& contract_a, const Dims& contract_b,
                           const Dims& batch_a = {}, const Dims& batch_b = {});
/// x [N,C,spatial...], weight [O,C/groups,window...], 1 to 3 spatial dims. padding: one number a dim, or low and high.
TSR_API Tensor conv(const Arg& x, const Arg& weight, const Arg& bias = {}, const Dims& stride = {},
                    const Dims& padding = {}, const Dims& dilation = {}, int64_t groups = 1);
TSR_API Tensor max_pool(const Arg& x, const Dims& window, const Dims& stride = {}, const Dims& padding = {},
                        const Dims& dilation = {});
TSR_API Tensor avg_pool(const Arg& x, const Dims& window, const Dims& stride = {}, const Dims& padding = {},
                        const Dims& dilation = {}, bool count_padding = true);

// ---- neural networks
TSR_API Tensor softmax(const Arg& x, int axis = -1);
TSR_API Tensor log_softmax(const Arg& x, int axis = -1);
TSR_API Tensor layer_norm(const Arg& x, const Arg& weight = {}, const Arg& bias = {}, int dims = 1, double eps = 1e-5);
TSR_API Tensor rms_norm(const Arg& x, const Arg& weight = {}, int dims = 1, double eps = 1e-6);
/// The gradients of layer_norm's x, weight and bias, and of rms_norm's x and weight: g is that of the result.
struct LayerNormGrads {
  Tensor x, weight, bias;
};
TSR_API LayerNormGrads layer_norm_grad(const Arg& x, const Arg& g, const Arg& weight = {}, int dims = 1,
                                       double eps = 1e-5);
struct RmsNormGrads {
  Tensor x, weight;
};
TSR_API RmsNormGrads rms_norm_grad(const Arg& x, const Arg& g, const Arg& weight = {}, int dims = 1, double eps = 1e-6);
/// The gradient of gelu_tanh's x: g is that of its result.
TSR_API Tensor gelu_tanh_grad(const Arg& x, const Arg& g);
TSR_API Tensor batch_norm(const Arg& x, const Arg& mean, const Arg& var, const Arg& weight = {}, const Arg& bias = {},
                          int axis = 1, double eps = 1e-5);
/// q [...,H,S,D]; k, v [...,G,T,D]; mask bool (true = keep) or added. scale 0 means 1/sqrt(D). With a window, which
/// needs causal, a query sees only the last so many keys up to its own position.
TSR_API Tensor attention(const Arg& q, const Arg& k, const Arg& v, const Arg& mask = {}, bool causal = false,
                         double scale = 0, int64_t window = 0);
/// The gradients of attention's q, k and v: y is its result, g the gradient of that.
struct AttentionGrads {
  Tensor q, k, v;
};
TSR_API AttentionGrads attention_grad(const Arg& q, const Arg& k, const Arg& v, const Arg& y, const Arg& g,
                                      const Arg& mask = {}, bool causal = false, double scale = 0, int64_t window = 0);
/// Attention over keys and values in pages, as for serving. q [B,H,S,D]; k [P,N,G,D] and v [P,N,G,E] are pools of P
/// pages of N positions; table [B,T] has the pages of each sequence in order, lengths [B] how many positions it has.
/// The queries are the last S of these, and each sees the positions up to its own. There is no gradient.
TSR_API Tensor paged_attention(const Arg& q, const Arg& k, const Arg& v, const Arg& table, const Arg& lengths,
                               double scale = 0);
TSR_API Tensor rotary(const Arg& x, const Arg& positions, double base = 10000, bool interleaved = false);
/// One loss per row of logits.
TSR_API Tensor cross_entropy(const Arg& logits, const Arg& targets, int64_t ignore = -100);
/// The gradient of cross_entropy's logits: g is that of its result.
TSR_API Tensor cross_entropy_grad(const Arg& logits, const Arg& targets, const Arg& g, int64_t ignore = -100);
/// cross_entropy of the logits x w^T, x [..., features] and w [classes, features], of which only some rows are in
/// memory at a time; neither does its gradient have all of them.
TSR_API Tensor linear_cross_entropy(const Arg& x, const Arg& w, const Arg& targets, int64_t ignore = -100);
/// The gradients of linear_cross_entropy's x and w: g is that of its result.
struct LinearCrossEntropyGrads {
  Tensor x, w;
};
TSR_API LinearCrossEntropyGrads linear_cross_entropy_grad(const Arg& x, const Arg& w, const Arg& targets, const Arg& g,
                                                          int64_t ignore = -100);
TSR_API Tensor embedding(const Arg& table, const Arg& ids);

// ---- shape
TSR_API Tensor reshape(const Arg& x, const Dims& dims);
TSR_API Tensor transpose(const Arg& x, const Dims& perm = {});
TSR_API Tensor broadcast(const Arg& x, const Dims& dims);
TSR_API Tensor squeeze(const Arg& x, const Axes& axes = {});
TSR_API Tensor unsqueeze(const Arg& x, const Axes& axes);
/// On axes (the leading ones without): starts, stops and steps as in Python.
TSR_API Tensor slice(const Arg& x, const Dims& starts, const Dims& stops, const Dims& steps = {},
                     const Axes& axes = {});
TSR_API std::vector<Tensor> split(const Arg& x, const Dims& sizes, int axis = 0);
TSR_API Tensor flip(const Arg& x, const Axes& axes = {});
TSR_API Tensor concat(const std::vector<Tensor>& xs, int axis = 0, Where where = Where::current());
TSR_API Tensor stack(const std::vector<Tensor>& xs, int axis = 0, Where where = Where::current());
TSR_API Tensor pad(const Arg& x, const Dims& low, const Dims& high, double value = 0);
TSR_API Tensor tril(const Arg& x, int64_t k = 0);
TSR_API Tensor triu(const Arg& x, int64_t k = 0);
TSR_API Tensor copy(const Arg& x);

// ---- indexing; negative indices count from the end
TSR_API Tensor take(const Arg& x, const Arg& ids, int axis = 0);
TSR_API Tensor take_along_axis(const Arg& x, const Arg& ids, int axis);
TSR_API Tensor gather(const Arg& x, const Arg& ids);
/// mode: set, add, max or min.
TSR_API Tensor scatter(const Arg& x, const Arg& ids, const Arg& updates, std::string_view mode = "set");
TSR_API Tensor put_along_axis(const Arg& x, const Arg& ids, const Arg& updates, int axis,
                              std::string_view mode = "set");
TSR_API Tensor update_slice(const Arg& x, const Arg& updates, const Dims& starts, const Dims& steps = {});
TSR_API Tensor one_hot(const Arg& ids, int64_t depth, DType dtype = f32);
struct Sorted {
  Tensor values, indices;
};
TSR_API Sorted sort(const Arg& x, int axis = -1, bool descending = false);
TSR_API Sorted topk(const Arg& x, int64_t k, int axis = -1, bool largest = true);

// ---- storage formats: f4e2m1, f6e2m3, f6e3m2 in blocks with a power-of-two scale each
struct Quantized {
  Tensor data, scale;
};
TSR_API Quantized quantize(const Arg& x, std::string_view format, int64_t block = 32);
TSR_API Tensor dequantize(const Arg& data, const Arg& scale, std::string_view format, int64_t block = 32,
                          DType dtype = f32);

// ---- files
/// NumPy's .npy. bf16 and f8 are refused, because the format has no name for them.
TSR_API Status save_npy(const Tensor& x, const std::string& path);
TSR_API Result<Tensor> load_npy(const std::string& path);
/// The same from memory.
TSR_API Result<Tensor> parse_npy(std::span<const std::byte> bytes);

}  // namespace tessera

#endif  // TESSERA_OPS_H_
