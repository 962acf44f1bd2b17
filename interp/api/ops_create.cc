// Making tensors, and the process's stream of random numbers.
#include <atomic>
#include <cmath>
#include <mutex>

#include "interp/api/eager.h"
#include "interp/api/tape.h"
#include "tessera/ops.h"

namespace tessera {

using api::Run;
using api::ToInts;
using ir::Op;

namespace {

struct Stream {
  std::mutex mutex;
  uint64_t seed = 0;
  uint64_t offset = 0;
};
Stream& TheStream() {
  static auto* stream = new Stream;
  return *stream;
}

// Takes the next `count` elements' worth of the stream. One counter of Philox gives at least one element of any
// dtype, so `count` counters never overlap the next draw.
std::pair<Arg, Arg> Draw(const Dims& dims, Where where) {
  uint64_t count = 1;
  for (int64_t d : dims) count *= static_cast<uint64_t>(d > 0 ? d : 0);
  const api::RandomPosition at = api::TakeRandom(count);
  return {Arg(at.seed, where), Arg(at.offset, where)};
}

double Number(const Arg& a) {
  if (a.kind() == Arg::Kind::tensor) return a.tensor().item<double>();
  return a.kind() == Arg::Kind::floating ? a.floating() : static_cast<double>(a.integer());
}
bool IsFloating(const Arg& a) {
  return a.kind() == Arg::Kind::tensor ? IsFloat(a.tensor().dtype()) : a.kind() == Arg::Kind::floating;
}

}  // namespace

api::RandomPosition api::CurrentRandom() {
  Stream& s = TheStream();
  std::lock_guard lock(s.mutex);
  return {static_cast<int64_t>(s.seed), static_cast<int64_t>(s.offset)};
}
void api::SetRandom(const RandomPosition& position) {
  Stream& s = TheStream();
  std::lock_guard lock(s.mutex);
  s.seed = static_cast<uint64_t>(position.seed);
  s.offset = static_cast<uint64_t>(position.offset);
}

Tensor full(const Dims& dims, const Arg& value, DType dtype) {
  return Run(Op::k_full, {&value}, {ToInts(dims), dtype}, TSR_SITE);
}
Tensor zeros(const Dims& dims, DType dtype, Where where) {
  const Arg value(0, where);
  return Run(Op::k_full, {&value}, {ToInts(dims), dtype}, TSR_SITE);
}
Tensor ones(const Dims& dims, DType dtype, Where where) {
  const Arg value(1, where);
  return Run(Op::k_full, {&value}, {ToInts(dims), dtype}, TSR_SITE);
}
Tensor zeros_like(const Tensor& x, Where where) { return zeros(x.dims(), x.dtype(), where).to(x.device()); }
Tensor ones_like(const Tensor& x, Where where) { return ones(x.dims(), x.dtype(), where).to(x.device()); }

Tensor iota(const Dims& dims, int axis, const Arg& start, const Arg& step, DType dtype) {
  return Run(Op::k_iota, {&start, &step}, {ToInts(dims), static_cast<int64_t>(axis), dtype}, TSR_SITE);
}
Tensor arange(const Arg& stop) { return arange(Arg(0, stop.where()), stop, 1); }
Tensor arange(const Arg& start, const Arg& stop, const Arg& step) {
  const double by = Number(step);
  if (by == 0 || std::isnan(by)) api::Throw(InvalidArgument("arange: step is ", by, "; it must not be 0"));
  const double count = std::ceil((Number(stop) - Number(start)) / by);
  if (!(count < 4.6e18)) api::Throw(InvalidArgument("arange: there is no end from start to stop by that step"));
  const bool floating = IsFloating(start) || IsFloating(stop) || IsFloating(step);
  return iota({count > 0 ? static_cast<int64_t>(count) : 0}, 0, start, step, floating ? f32 : i64);
}
Tensor linspace(double start, double stop, int64_t count, DType dtype, Where where) {
  const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0;
  return iota({count}, 0, Arg(start, where), Arg(step, where), dtype);
}
Tensor eye(int64_t n, DType dtype, Where where) {
  const Tensor row = iota({n, n}, 0, Arg(0, where)), column = iota({n, n}, 1, Arg(0, where));
  return cast(Arg(eq(Arg(row, where), Arg(column, where)), where), dtype);
}

api::RandomPosition api::TakeRandom(uint64_t count) {
  Stream& s = TheStream();
  std::lock_guard lock(s.mutex);
  const RandomPosition at{static_cast<int64_t>(s.seed), static_cast<int64_t>(s.offset)};
  s.offset += count;
  return at;
}

void manual_seed(uint64_t seed) {
  Stream& s = TheStream();
  std::lock_guard lock(s.mutex);
  s.seed = seed;
  s.offset = 0;
}
Tensor rand(const Dims& dims, DType dtype, Where where) {
  const auto [seed, offset] = Draw(dims, where);
  return Run(Op::k_random_uniform, {&seed, &offset}, {ToInts(dims), 0.0, 1.0, dtype}, TSR_SITE);
}
Tensor randn(const Dims& dims, DType dtype, Where where) {
  const auto [seed, offset] = Draw(dims, where);
  return Run(Op::k_random_normal, {&seed, &offset}, {ToInts(dims), 0.0, 1.0, dtype}, TSR_SITE);
}
Tensor randint(int64_t low, int64_t high, const Dims& dims, DType dtype, Where where) {
  const auto [seed, offset] = Draw(dims, where);
  return Run(Op::k_random_int, {&seed, &offset}, {ToInts(dims), low, high, dtype}, TSR_SITE);
}
Tensor random_uniform(const Arg& seed, const Arg& offset, const Dims& dims, double low, double high, DType dtype) {
  return Run(Op::k_random_uniform, {&seed, &offset}, {ToInts(dims), low, high, dtype}, TSR_SITE);
}
Tensor random_normal(const Arg& seed, const Arg& offset, const Dims& dims, double mean, double std, DType dtype) {
  return Run(Op::k_random_normal, {&seed, &offset}, {ToInts(dims), mean, std, dtype}, TSR_SITE);
}
Tensor random_int(const Arg& seed, const Arg& offset, const Dims& dims, int64_t low, int64_t high, DType dtype) {
  return Run(Op::k_random_int, {&seed, &offset}, {ToInts(dims), low, high, dtype}, TSR_SITE);
}

}  // namespace tessera
