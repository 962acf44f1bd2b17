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
  std::vector<bool> inner(trace.values.size(), false);
  for (size_t k = 0; code != nullptr && k < code->kernels().size(); ++k)
    for (ValueId v : code->kernels()[k].inner) inner[static_cast<size_t>(v)] = true;
  // Spare slots are counted from 0 until it is known how many come before them.
  struct Slots {
    int count = 0;
    std::vector<int> free;
    std::vector<std::vector<int>> dying;
    std::vector<size_t> users;
  } arena, spare;
  for (Slots* s : {&arena, &spare}) s->dying.resize(static_cast<size_t>(end) + 1);
  auto take = [&](Slots& from, size_t index, int until) {
    if (from.free.empty()) from.free.push_back(from.count++);
    plan.slots[index] = from.free.back();
    from.free.pop_back();
    from.dying[static_cast<size_t>(std::min(until, end))].push_back(plan.slots[index]);
    from.users.push_back(index);
  };
  size_t extra = 0;
  for (int i = 0; i < end; ++i) {
    const bool has_kernel = code != nullptr && code->kernel_of(i) >= 0;
    for (; extra < extras.size() && extras[extra].step == i; ++extra)
      take(has_kernel ? spare : arena, trace.values.size() + extra, i);
    const TraceStep& s = trace.steps[i];
    for (ValueId v : s.out) {
      // Only a reshape may need memory although it is a view; the others always are windows.
      if (MayShare(s) && s.op != ir::Op::k_reshape) continue;
      if (s.kind == TraceStep::Kind::buffer_read || s.kind == TraceStep::Kind::call) continue;
      // Eager values escape where somebody holds them, which no plan can know.
      if (!trace.is_eager && plan.escapes[v])
        plan.slots[v] = MemoryPlan::kElsewhere;
      else
        take(inner[static_cast<size_t>(v)] ? spare : arena, static_cast<size_t>(v), plan.last[v]);
    }
    for (Slots* slots : {&arena, &spare})
      for (int slot : slots->dying[static_cast<size_t>(i)]) slots->free.push_back(slot);
  }
  plan.num_slots = arena.count;
  plan.num_spare = spare.count;
  for (size_t index : spare.users) plan.slots[index] += arena.count;
  return plan;
}

}  // namespace tessera::tiers
