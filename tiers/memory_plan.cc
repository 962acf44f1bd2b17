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

/// Gives each its slot, numbered from `first` on, and returns how many there are. The largest come first, so that a
/// slot is as large as what comes into it first, and what is small goes where something large has left a gap in time.
int Share(std::vector<Need>& needs, int first, std::vector<int32_t>* slots) {
  std::sort(needs.begin(), needs.end(),
            [](const Need& a, const Need& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.index < b.index; });
  std::vector<std::map<int, int>> taken;  // of each slot: until when, by the step from which on
  const auto is_free = [](const std::map<int, int>& slot, const Need& need) {
    const auto after = slot.upper_bound(need.until);
    return after == slot.begin() || std::prev(after)->second < need.from;
  };
  for (const Need& need : needs) {
    // The latest slot is the smallest. How far back one is looked for is limited, so that long traces stay cheap.
    constexpr size_t kMostTries = 256;
    size_t found = taken.size();
    for (size_t k = taken.size(), tries = 0; k-- > 0 && tries < kMostTries; ++tries) {
      if (!is_free(taken[k], need)) continue;
      found = k;
      break;
    }
    if (found == taken.size()) taken.emplace_back();
    taken[found].emplace(need.from, need.until);
    (*slots)[need.index] = static_cast<int32_t>(found) + first;
  }
  return static_cast<int>(taken.size());
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
  plan.num_slots = Share(needs, 0, &plan.slots);
  plan.num_spare = Share(spare, plan.num_slots, &plan.slots);
  return plan;
}

}  // namespace tessera::tiers
