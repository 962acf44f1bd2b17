#include "tiers/memory_plan.h"

#include <algorithm>
#include <map>

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

}  // namespace

bool MayShare(const TraceStep& step) {
  return step.kind == TraceStep::Kind::op && ir::Info(step.op).impl == ir::Impl::view;
}

MemoryPlan PlanMemory(const Trace& trace, const std::vector<Extra>& extras, const Code* code) {
  MemoryPlan plan;
  plan.slots.assign(trace.values.size() + extras.size(), -1);
  plan.escapes.assign(trace.values.size(), false);
  plan.last = LastNeeds(trace, code, &plan.escapes);
  const int end = static_cast<int>(trace.steps.size());
  std::vector<std::vector<int>> dying(static_cast<size_t>(end) + 1);
  std::vector<int> free;
  auto take = [&](size_t index, int until) {
    if (free.empty()) free.push_back(plan.num_slots++);
    plan.slots[index] = free.back();
    free.pop_back();
    dying[std::min(until, end)].push_back(plan.slots[index]);
  };
  size_t extra = 0;
  for (int i = 0; i < end; ++i) {
    for (; extra < extras.size() && extras[extra].step == i; ++extra) take(trace.values.size() + extra, i);
    const TraceStep& s = trace.steps[i];
    for (ValueId v : s.out) {
      // Only a reshape may need memory although it is a view; the others always are windows.
      if (MayShare(s) && s.op != ir::Op::k_reshape) continue;
      if (s.kind == TraceStep::Kind::buffer_read || s.kind == TraceStep::Kind::call) continue;
      take(v, plan.last[v]);
    }
    for (int slot : dying[i]) free.push_back(slot);
  }
  return plan;
}

}  // namespace tessera::tiers
