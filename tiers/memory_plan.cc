#include "tiers/memory_plan.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "ir/symbols.h"

namespace tessera::tiers {
namespace {

using tracer::kNoValue;
using tracer::Trace;
using tracer::TraceStep;
using tracer::TraceValue;
using tracer::ValueId;

// The last step at which each value is needed, by a step or (functions) by the interpreter after an exit.
std::vector<int> LastNeeds(const Trace& trace, const Code* code, std::vector<bool>* escapes) {
  std::vector<int> last(trace.values.size(), -1);
  const int end = static_cast<int>(trace.steps.size());
  for (int i = 0; i < end; ++i) {
    const TraceStep& s = trace.steps[i];
    for (ValueId v : s.out) last[v] = std::max(last[v], i);
    for (ValueId v : s.in) {
      if (v == kNoValue) continue;
      last[v] = std::max(last[v], i);
      if (s.kind == TraceStep::Kind::buffer_write || s.kind == TraceStep::Kind::buffer_add ||
          s.kind == TraceStep::Kind::call) {
        (*escapes)[v] = true;
      }
    }
  }
  for (size_t k = 0; code != nullptr && k < code->kernels().size(); ++k) {
    const Code::Kernel& kernel = code->kernels()[k];
    for (ValueId v : kernel.views) last[v] = std::max(last[v], kernel.position);
    // Where the kernel is not used its steps run one by one, and read no more than it does.
    for (ValueId v : kernel.inner) last[v] = std::max(last[v], kernel.position);
  }
  // A value is needed as long as a register holds it: an exit puts it there.
  std::map<std::pair<int, int>, ValueId> registers;
  for (const tracer::RegisterChange& c : trace.changes) {
    ValueId& held = registers.try_emplace({c.frame, c.reg}, kNoValue).first->second;
    if (held != kNoValue) last[held] = std::max(last[held], c.position - 1);
    held = c.value;
  }
  auto leaves = [&](ValueId v) {
    (*escapes)[v] = true;
    last[v] = end;
  };
  for (const auto& [where, v] : registers)
    if (v != kNoValue) leaves(v);
  for (ValueId v : trace.results) leaves(v);
  // A window keeps what it looks at.
  for (int i = end - 1; i >= 0; --i) {
    const TraceStep& s = trace.steps[i];
    if (!MayShare(s)) continue;
    for (ValueId v : s.out) {
      last[s.in[0]] = std::max(last[s.in[0]], last[v]);
      if ((*escapes)[v]) (*escapes)[s.in[0]] = true;
    }
  }
  return last;
}

/// Something that needs memory from one step to another, both of them included.
struct Need {
  size_t index;  // into MemoryPlan::slots
  int from, until;
  double bytes;
};

bool Overlap(const Need& a, const Need& b) { return a.from <= b.until && b.from <= a.until; }

/// A set of steps, as stretches that do not touch each other.
class Steps {
 public:
  bool Touch(int from, int until) const {
    const auto after = stretches_.upper_bound(until);
    return after != stretches_.begin() && std::prev(after)->second >= from;
  }
  bool Hold(int from, int until) const {
    const auto after = stretches_.upper_bound(from);
    return after != stretches_.begin() && std::prev(after)->second >= until;
  }
  /// Those of a stretch that touches none.
  void Add(int from, int until) {
    auto at = stretches_.emplace(from, until).first;
    if (const auto next = std::next(at); next != stretches_.end() && next->first == until + 1) {
      at->second = next->second;
      stretches_.erase(next);
    }
    if (at != stretches_.begin() && std::prev(at)->second + 1 == from) {
      std::prev(at)->second = at->second;
      stretches_.erase(at);
    }
  }

 private:
  std::map<int, int> stretches_;  // from, until
};

/// Gives each a slot, numbered from `first` on, and says which slots lie below which. The largest come first, each as
/// low as what needs memory at the same time leaves room for it: so a large value makes room for many small ones where
/// it is gone, and the other way round.
int Pack(std::vector<Need>& needs, int first, MemoryPlan* plan) {
  std::sort(needs.begin(), needs.end(),
            [](const Need& a, const Need& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.index < b.index; });
  std::vector<double> at(needs.size());
  std::vector<size_t> placed;  // by their place, from the bottom up
  placed.reserve(needs.size());
  const auto end_of = [&](size_t k) { return at[k] + std::max(needs[k].bytes, 1.0); };
  for (size_t k = 0; k < needs.size(); ++k) {
    double low = 0;
    for (const size_t other : placed) {
      if (!Overlap(needs[k], needs[other])) continue;
      if (at[other] - low >= std::max(needs[k].bytes, 1.0)) break;
      low = std::max(low, end_of(other));
    }
    at[k] = low;
    placed.insert(std::upper_bound(placed.begin(), placed.end(), low, [&](double x, size_t y) { return x < at[y]; }),
                  k);
  }
  // From the bottom up, each with what lies right below it: what lies further down is below that.
  for (size_t n = 0; n < placed.size(); ++n) {
    const size_t k = placed[n];
    plan->slots[needs[k].index] = first + static_cast<int32_t>(n);
    plan->first_below.push_back(static_cast<uint32_t>(plan->below.size()));
    Steps covered;
    for (size_t m = n; m-- > 0 && !covered.Hold(needs[k].from, needs[k].until);) {
      const Need& other = needs[placed[m]];
      if (!Overlap(needs[k], other) || covered.Touch(other.from, other.until)) continue;
      covered.Add(other.from, other.until);
      plan->below.push_back(first + static_cast<int32_t>(m));
    }
  }
  return static_cast<int>(needs.size());
}

}  // namespace

double LikelyBytes(const TensorType& type) {
  constexpr double kSize = 1024;
  auto bytes = static_cast<double>(SizeOf(type.dtype));
  for (int d = 0; d < type.rank; ++d) bytes *= ir::IsSymbol(type.dims[d]) ? kSize : static_cast<double>(type.dims[d]);
  return bytes;
}

bool MayShare(const TraceStep& step) {
  return step.kind == TraceStep::Kind::op && ir::Info(step.op).impl == ir::Impl::view;
}

MemoryPlan PlanMemory(const Trace& trace, const std::vector<Extra>& extras, const Code* code) {
  MemoryPlan plan;
  plan.slots.assign(trace.values.size() + extras.size(), -1);
  plan.escapes.assign(trace.values.size(), false);
  plan.last = LastNeeds(trace, code, &plan.escapes);
  const int end = static_cast<int>(trace.steps.size());
  std::vector<bool> inner(trace.values.size(), false);
  for (size_t k = 0; code != nullptr && k < code->kernels().size(); ++k)
    for (ValueId v : code->kernels()[k].inner) inner[static_cast<size_t>(v)] = true;
  std::vector<Need> needs, spare;
  size_t extra = 0;
  for (int i = 0; i < end; ++i) {
    const bool has_kernel = code != nullptr && code->kernel_of(i) >= 0;
    for (; extra < extras.size() && extras[extra].step == i; ++extra)
      (has_kernel ? spare : needs).push_back({trace.values.size() + extra, i, i, extras[extra].bytes});
    const TraceStep& s = trace.steps[i];
    for (ValueId v : s.out) {
      // Only a reshape may need memory although it is a view; the others always are windows.
      if (MayShare(s) && s.op != ir::Op::k_reshape) continue;
      if (s.kind == TraceStep::Kind::buffer_read || s.kind == TraceStep::Kind::call) continue;
      // Eager values escape where somebody holds them, which no plan can know.
      if (!trace.is_eager && plan.escapes[v])
        plan.slots[v] = MemoryPlan::kElsewhere;
      else
        (inner[static_cast<size_t>(v)] ? spare : needs)
            .push_back({static_cast<size_t>(v), i, std::min(plan.last[v], end), LikelyBytes(trace.values[v].type)});
    }
  }
  plan.num_slots = Pack(needs, 0, &plan);
  plan.num_spare = Pack(spare, plan.num_slots, &plan);
  plan.first_below.push_back(static_cast<uint32_t>(plan.below.size()));
  return plan;
}

size_t MemoryPlan::Place(int first, int count, absl::Span<const size_t> bytes, std::vector<size_t>* at) const {
  at->resize(static_cast<size_t>(count));
  size_t total = 0;
  for (int k = 0; k < count; ++k) {
    const auto slot = static_cast<size_t>(first + k);
    size_t low = 0;
    for (uint32_t b = first_below[slot]; b < first_below[slot + 1]; ++b)
      low = std::max(low, (*at)[static_cast<size_t>(below[b] - first)] + bytes[static_cast<size_t>(below[b])]);
    (*at)[static_cast<size_t>(k)] = low;
    total = std::max(total, low + bytes[slot]);
  }
  return total;
}

}  // namespace tessera::tiers
