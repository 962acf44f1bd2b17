#include "tiers/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

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
    // Where the kernel is not used its steps run one by one at its place, and read no more than it does. Its inner
    // values need no longer lives for that: they are made and read there, in their order.
    for (ValueId v : kernel.views) last[v] = std::max(last[v], kernel.latest);
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

namespace {

bool SameType(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
}

// Who reads a value, and when at the latest.
struct Reader {
  int step;
  int kernel;      // that has the step, or -1
  int latest;      // where that runs at the latest; without a kernel the step itself
  bool is_direct;  // not through a window, which may have other elements at the same place
};
/// Of all values that are no windows.
using Readers = std::vector<std::vector<Reader>>;

Readers FindReaders(const Trace& trace, const Code* code) {
  Readers readers(trace.values.size());
  std::vector<ValueId> roots(trace.values.size());
  for (size_t v = 0; v < roots.size(); ++v) roots[v] = static_cast<ValueId>(v);
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const TraceStep& s = trace.steps[i];
    const int step = static_cast<int>(i), kernel = code != nullptr ? code->kernel_of(step) : -1;
    const int latest = kernel >= 0 ? code->kernels()[static_cast<size_t>(kernel)].latest : step;
    for (ValueId v : s.in) {
      if (v == kNoValue) continue;
      const ValueId root = roots[static_cast<size_t>(v)];
      readers[static_cast<size_t>(root)].push_back({step, kernel, latest, root == v && !MayShare(s)});
    }
    if (MayShare(s))
      for (ValueId v : s.out) roots[static_cast<size_t>(v)] = roots[static_cast<size_t>(s.in[0])];
  }
  return readers;
}

/// Is the result the first operand but for what the step writes? Kernels of tier 1 look at all that may be wrong before
/// they write, and copy the operand only where the result is elsewhere.
bool Updates(const TraceStep& s) {
  return s.kind == TraceStep::Kind::op &&
         (s.op == ir::Op::k_update_slice || s.op == ir::Op::k_scatter || s.op == ir::Op::k_put_along_axis);
}

/// That operand; kNoValue: the step has no such result, or one that a kernel keeps to itself. In a kernel updates may
/// follow one another.
ValueId BaseOf(const Trace& trace, const Code* code, int step) {
  const TraceStep& s = trace.steps[static_cast<size_t>(step)];
  if (!Updates(s)) return kNoValue;
  const int kernel = code != nullptr ? code->kernel_of(step) : -1;
  if (kernel < 0) return s.in[0];
  for (const Code::Kernel::Update& update : code->kernels()[static_cast<size_t>(kernel)].updates)
    if (update.result == s.out[0]) return update.base;
  return kNoValue;
}

/// Does the reader of `base` leave all of it as it is but for what it writes?
bool IsUpdateOf(const Trace& trace, const Reader& r, ValueId base) {
  const TraceStep& s = trace.steps[static_cast<size_t>(r.step)];
  return Updates(s) && r.is_direct && std::count(s.in.begin(), s.in.end(), base) == 1 && s.in[0] == base;
}

/// The operand whose memory the step's result may take over, and both lie alike: the kernel has read all of a row
/// before it writes there, or leaves it as it is but for what it writes. kNoValue: none.
ValueId TakenOver(const Trace& trace, const MemoryPlan& plan, const Code* code, const Readers& readers, int step) {
  const TraceStep& s = trace.steps[step];
  if (s.kind != TraceStep::Kind::op) return kNoValue;
  const int kernel = code != nullptr ? code->kernel_of(step) : -1;
  ValueId in = kNoValue;
  if (s.op == ir::Op::k_cross_entropy_grad && kernel < 0) in = s.in[0];
  const ValueId base = BaseOf(trace, code, step);
  const int latest = kernel >= 0 ? code->kernels()[static_cast<size_t>(kernel)].latest : step;
  if (base != kNoValue) {
    // All others have read it before, be it that steps run in place of the kernel.
    int updates = 0;
    const auto allows = [&](const Reader& r) {
      const bool is_own = kernel >= 0 ? r.kernel == kernel : r.step == step;
      return is_own ? IsUpdateOf(trace, r, base) && ++updates == 1 : r.latest < step;
    };
    const std::vector<Reader>& all = readers[static_cast<size_t>(base)];
    if (std::all_of(all.begin(), all.end(), allows)) in = base;
  }
  if (in == kNoValue) return kNoValue;
  const ValueId out = s.out[0];
  const TraceValue& value = trace.values[in];
  if (value.kind != TraceValue::Kind::result || plan.last[in] != latest || plan.escapes[in]) return kNoValue;
  // A reshape may be a window onto what something else still needs.
  const TraceStep& maker = trace.steps[value.step];
  if (maker.kind != TraceStep::Kind::op || MayShare(maker)) return kNoValue;
  return SameType(value.type, trace.values[out].type) ? in : kNoValue;
}

bool IsElementwise(const TraceStep& s) {
  if (s.kind != TraceStep::Kind::op) return false;
  return ir::Info(s.op).impl == ir::Impl::ew || s.op == ir::Op::k_cast || s.op == ir::Op::k_copy;
}

// Results may be written over inputs that are read no later than there. Where an input is read by the very kernel that
// writes the result, each element has to be read, by whoever needs it, before it is written: kernels of element-wise
// ops alone read everything at a point of their space before they write anything there, and every result has the dims
// of the space; so an input with the same dims, read directly, is read at the point that it is written at. An update
// of a part may be where the input is that it leaves as it is otherwise.
void FindDonors(const Trace& trace, const Code* code, const Readers& readers, MemoryPlan& plan) {
  std::vector<bool> is_elementwise(code != nullptr ? code->kernels().size() : 0);
  for (size_t k = 0; k < is_elementwise.size(); ++k) {
    const std::vector<int>& steps = code->kernels()[k].steps;
    is_elementwise[k] = std::all_of(steps.begin(), steps.end(),
                                    [&](int i) { return IsElementwise(trace.steps[static_cast<size_t>(i)]); });
  }
  // Inputs by type, in the order of their first use: programs tend to replace their state in that order, and a value
  // that stays where it is from run to run keeps the addresses of the run the same.
  std::map<std::vector<int64_t>, std::vector<ValueId>> inputs;
  const auto type_of = [&](ValueId v) {
    const TensorType& t = trace.values[static_cast<size_t>(v)].type;
    std::vector<int64_t> key{static_cast<int64_t>(t.dtype)};
    key.insert(key.end(), t.dims, t.dims + t.rank);
    return key;
  };
  for (size_t v = 0; v < trace.values.size(); ++v)
    if (trace.values[v].kind == TraceValue::Kind::input && !readers[v].empty())
      inputs[type_of(static_cast<ValueId>(v))].push_back(static_cast<ValueId>(v));
  for (auto& [type, list] : inputs)
    std::sort(list.begin(), list.end(), [&](ValueId a, ValueId b) {
      const int x = readers[static_cast<size_t>(a)][0].step, y = readers[static_cast<size_t>(b)][0].step;
      return x != y ? x < y : a < b;
    });
  const bool loops_work_in_place = trace.device->kind() == rt::DeviceKind::cuda;
  plan.donors.resize(trace.values.size());
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const TraceStep& s = trace.steps[i];
    if (s.kind != TraceStep::Kind::op || MayShare(s)) continue;
    const int step = static_cast<int>(i), kernel = code != nullptr ? code->kernel_of(step) : -1;
    const int position = kernel >= 0 ? code->kernels()[static_cast<size_t>(kernel)].position : step;
    const ValueId base = BaseOf(trace, code, step);
    const auto allows = [&](ValueId in, const Reader& r) {
      if (base != kNoValue && (kernel >= 0 ? r.kernel == kernel : r.step == step))
        return in == base && IsUpdateOf(trace, r, base);
      if (kernel >= 0 && r.kernel == kernel) return is_elementwise[static_cast<size_t>(kernel)] && r.is_direct;
      if (r.step == step) return loops_work_in_place && r.is_direct && ir::Info(s.op).impl == ir::Impl::ew;
      return r.latest < position;
    };
    for (ValueId v : s.out) {
      // Handles that died in the recording are gone when the version runs.
      if (trace.values[static_cast<size_t>(v)].death != tracer::kAtEnd) continue;
      const auto same = inputs.find(type_of(v));
      if (same == inputs.end()) continue;
      MemoryPlan::Donors& donors = plan.donors[static_cast<size_t>(v)];
      donors.kernel = kernel;
      for (ValueId in : same->second) {
        const std::vector<Reader>& all = readers[static_cast<size_t>(in)];
        if (!std::all_of(all.begin(), all.end(), [&](const Reader& r) { return allows(in, r); })) continue;
        // First where nothing has to be copied.
        donors.inputs.insert(in == base ? donors.inputs.begin() : donors.inputs.end(), in);
      }
    }
  }
}

}  // namespace

MemoryPlan PlanMemory(const Trace& trace, const std::vector<Extra>& extras, const Code* code) {
  MemoryPlan plan;
  plan.slots.assign(trace.values.size() + extras.size(), -1);
  plan.escapes.assign(trace.values.size(), false);
  plan.last = LastNeeds(trace, code, &plan.escapes);
  const int end = static_cast<int>(trace.steps.size());
  const Readers readers = FindReaders(trace, code);
  std::vector<bool> inner(trace.values.size(), false);
  for (size_t k = 0; code != nullptr && k < code->kernels().size(); ++k)
    for (ValueId v : code->kernels()[k].inner) inner[static_cast<size_t>(v)] = true;
  // Those of kernels' inner values come after the others.
  std::vector<std::pair<size_t, Life>> needs, spare;
  needs.reserve(trace.values.size() + extras.size());
  std::vector<std::pair<size_t, Life>*> slot_of(trace.values.size(), nullptr);
  std::vector<std::pair<size_t, size_t>> also;  // values in the memory of others
  size_t extra = 0;
  for (int i = 0; i < end; ++i) {
    const bool has_kernel = code != nullptr && code->kernel_of(i) >= 0;
    for (; extra < extras.size() && extras[extra].step == i; ++extra)
      (has_kernel ? spare : needs).push_back({trace.values.size() + extra, {i, i}});
    const TraceStep& s = trace.steps[i];
    for (ValueId v : s.out) {
      // Only a reshape may need memory although it is a view; the others always are windows.
      if (MayShare(s) && s.op != ir::Op::k_reshape) continue;
      if (s.kind == TraceStep::Kind::buffer_read || s.kind == TraceStep::Kind::call) continue;
      // Eager values escape where somebody holds them, which no plan can know.
      if (!trace.is_eager && plan.escapes[v]) {
        plan.slots[v] = MemoryPlan::kElsewhere;
        continue;
      }
      const int until = std::min(plan.last[v], end);
      if (const ValueId in = TakenOver(trace, plan, code, readers, i); in != kNoValue && slot_of[in] != nullptr) {
        slot_of[in]->second.until = until;
        also.push_back({static_cast<size_t>(v), static_cast<size_t>(in)});
        continue;
      }
      const bool is_spare = inner[static_cast<size_t>(v)];
      (is_spare ? spare : needs).push_back({static_cast<size_t>(v), {i, until}});
      if (!is_spare) slot_of[v] = &needs.back();
    }
  }
  plan.num_slots = static_cast<int>(needs.size());
  plan.num_spare = static_cast<int>(spare.size());
  needs.insert(needs.end(), spare.begin(), spare.end());
  for (const auto& [value, life] : needs) {
    plan.slots[value] = static_cast<int32_t>(plan.lives.size());
    plan.lives.push_back(life);
  }
  for (const auto& [value, other] : also) plan.slots[value] = plan.slots[other];
  if (trace.is_eager) FindDonors(trace, code, readers, plan);
  return plan;
}

namespace {

// The bytes of all slots that live at once where those are most: no packing needs less.
size_t MostAtOnce(absl::Span<const Life> lives, absl::Span<const size_t> bytes, absl::Span<const size_t> slots,
                  int steps) {
  std::vector<int64_t> change(static_cast<size_t>(steps) + 1, 0);
  for (const size_t k : slots) {
    change[static_cast<size_t>(lives[k].from)] += static_cast<int64_t>(bytes[k]);
    change[static_cast<size_t>(lives[k].until) + 1] -= static_cast<int64_t>(bytes[k]);
  }
  int64_t now = 0, most = 0;
  for (const int64_t c : change) most = std::max(most, now += c);
  return static_cast<size_t>(most);
}

// Gives each slot, in that order, the first gap that is large enough among those that live when it does, or the
// tightest. Returns the bytes for all.
size_t PackInOrder(absl::Span<const Life> lives, absl::Span<const size_t> bytes, absl::Span<const size_t> order,
                   int steps, bool tightest, std::vector<size_t>* at) {
  struct Placed {
    size_t begin, end;
    Life life;
  };
  // By address: all, and those that live in each stretch of steps. Most slots live within one stretch, and meet few.
  constexpr int kStretches = 64;
  std::vector<Placed> placed, within[kStretches];
  const int stretch = steps / kStretches + 1;
  size_t total = 0;
  placed.reserve(order.size());
  for (const size_t k : order) {
    const Life& life = lives[k];
    const int first_stretch = life.from / stretch, last_stretch = life.until / stretch;
    size_t end = 0, best = SIZE_MAX, best_gap = SIZE_MAX;  // end: of what lives at the same time and was met so far
    for (const Placed& p : first_stretch == last_stretch ? within[first_stretch] : placed) {
      if (p.life.until < life.from || life.until < p.life.from) continue;
      if (p.begin > end && p.begin - end >= bytes[k] && p.begin - end < best_gap) {
        best = end;
        if (!tightest) break;
        best_gap = p.begin - end;
      }
      end = std::max(end, p.end);
    }
    if (best == SIZE_MAX) best = end;
    (*at)[k] = best;
    total = std::max(total, best + bytes[k]);
    const auto add = [&](std::vector<Placed>& to) {
      const auto after =
          std::upper_bound(to.begin(), to.end(), best, [](size_t begin, const Placed& p) { return begin < p.begin; });
      to.insert(after, {best, best + bytes[k], life});
    };
    add(placed);
    for (int s = first_stretch; s <= last_stretch; ++s) add(within[s]);
  }
  return total;
}

}  // namespace

size_t PackSlots(absl::Span<const Life> lives, absl::Span<const size_t> bytes, std::vector<size_t>* at) {
  // What is small gets memory of its own: there are many of them, and little to gain.
  constexpr size_t kSmall = 512;
  // Where this much could be had, it is looked for.
  constexpr size_t kWorthwhile = size_t{1} << 20;
  std::vector<size_t> order;
  int steps = 0;
  for (const Life& life : lives) steps = std::max(steps, life.until + 1);
  at->assign(lives.size(), 0);
  size_t small = 0;
  for (size_t k = 0; k < lives.size(); ++k) {
    if (bytes[k] > kSmall)
      order.push_back(k);
    else
      (*at)[k] = std::exchange(small, small + bytes[k]);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return bytes[a] != bytes[b] ? bytes[a] > bytes[b] : lives[a].from < lives[b].from;
  });
  size_t total = PackInOrder(lives, bytes, order, steps, /*tightest=*/false, at);
  if (total > MostAtOnce(lives, bytes, order, steps) + kWorthwhile) {
    std::vector<size_t> other = *at;
    const size_t bytes_of_other = PackInOrder(lives, bytes, order, steps, /*tightest=*/true, &other);
    if (bytes_of_other < total) {
      total = bytes_of_other;
      *at = std::move(other);
    }
  }
  // The small ones lie after all others.
  for (size_t k = 0; k < lives.size(); ++k)
    if (bytes[k] <= kSmall) (*at)[k] += total;
  return total + small;
}

}  // namespace tessera::tiers
