#include "tiers/dims_seen.h"

#include <algorithm>
#include <bit>

#include "ir/symbols.h"

namespace tessera::tiers {
namespace {

using tracer::TraceValue;

// The powers of two at or below the number, and those below it: a bucket from 2^a to 2^b holds both ends.
uint64_t LowClass(int64_t n) { return static_cast<uint64_t>(std::bit_width(static_cast<uint64_t>(n))); }
uint64_t HighClass(int64_t n) { return static_cast<uint64_t>(std::bit_width(static_cast<uint64_t>(n - 1))); }
uint64_t ByteAt(uint64_t bytes, int d) { return bytes >> (8 * d) & 0xff; }
uint64_t WithByte(uint64_t bytes, int d, uint64_t byte) {
  return (bytes & ~(uint64_t{0xff} << (8 * d))) | byte << (8 * d);
}

// That comes with an arrival: an operand of the first step, or the first argument of a function. Null: the trace does
// not use it.
const TraceValue* FirstTensor(const tracer::Trace& trace) {
  if (!trace.is_eager) {
    const auto is_first = [](const TraceValue& v) { return v.kind == TraceValue::Kind::input && v.reg == 0; };
    const auto it = std::find_if(trace.values.begin(), trace.values.end(), is_first);
    return it != trace.values.end() ? &*it : nullptr;
  }
  for (const tracer::ValueId v : trace.steps[0].in) {
    if (v == tracer::kNoValue) continue;
    const TraceValue& value = trace.values[static_cast<size_t>(v)];
    if (value.kind != TraceValue::Kind::number) return &value;
  }
  return nullptr;
}

}  // namespace

void DimsSeen::Add(absl::Span<const View* const> operands) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const auto is_tensor = [](const View* v) { return v != nullptr && !v->weak; };
  const auto it = std::find_if(operands.begin(), operands.end(), is_tensor);
  if (it == operands.end()) return;
  uint64_t least = least_.load(kRelaxed), most = most_.load(kRelaxed), twos = twos_.load(kRelaxed);
  for (int d = 0; d < (*it)->rank; ++d) {
    const int64_t n = (*it)->dims[d];
    if (n < 2) continue;  // never part of a bucket: another trace serves those
    least = WithByte(least, d, std::min(ByteAt(least, d), LowClass(n)));
    most = WithByte(most, d, std::max(ByteAt(most, d), HighClass(n)));
    twos =
        WithByte(twos, d, std::min(ByteAt(twos, d), static_cast<uint64_t>(std::countr_zero(static_cast<uint64_t>(n)))));
  }
  least_.store(least, kRelaxed);
  most_.store(most, kRelaxed);
  twos_.store(twos, kRelaxed);
}

void DimsSeen::Clear() {
  least_.store(~uint64_t{0}, std::memory_order_relaxed);
  most_.store(0, std::memory_order_relaxed);
  twos_.store(~uint64_t{0}, std::memory_order_relaxed);
}

bool DimsSeen::ExceedBuckets(const tracer::Trace& trace) const {
  if (trace.symbols == nullptr || trace.steps.empty()) return false;
  const tracer::TraceValue* first = FirstTensor(trace);
  if (first == nullptr) return false;
  const TensorType& type = first->type;
  const uint64_t least = least_.load(std::memory_order_relaxed), most = most_.load(std::memory_order_relaxed),
                 twos = twos_.load(std::memory_order_relaxed);
  for (int d = 0; d < type.rank; ++d) {
    if (ByteAt(least, d) == 0xff) continue;  // nothing came
    for (int s = 0; s < trace.symbols->num_named(); ++s) {
      if (trace.symbols->NamedSymbol(s) != type.dims[d]) continue;
      const tracer::DimRange& range = trace.ranges[static_cast<size_t>(s)];
      if (ByteAt(least, d) < LowClass(range.low) || ByteAt(most, d) > HighClass(range.high)) return true;
      if (ByteAt(twos, d) < static_cast<uint64_t>(std::countr_zero(static_cast<uint64_t>(range.divisor)))) return true;
    }
  }
  return false;
}

}  // namespace tessera::tiers
