// What other shapes change in a replay: which loop or kernel runs a step, what is repeated for it, where results lie.
#include <algorithm>
#include <memory>

#include "interp/cpu/direct.h"
#include "interp/kernel.h"
#include "interp/views.h"
#include "runtime/log.h"
#include "tiers/replay_activation.h"

namespace tessera::tiers {

using rt::Ref;

namespace {

// Numbers among which another one that is alike is looked for.
constexpr size_t kMostDistinct = 32;
// The larger a value, the rounder its size: places follow from the sizes of what is at least as large, so what is large
// begins at whole lines and pages.
size_t Aligned(size_t bytes) {
  const size_t to = bytes >= (size_t{64} << 10) ? 4096 : bytes >= 4096 ? 512 : 64;
  return (bytes + to - 1) / to * to;
}

}  // namespace

void ReplayActivation::Bind(int i) {
  const TraceStep& s = trace_.steps[i];
  Bound& b = bound_[i];
  b.again = Bound::Again::everything;
  for (ValueId v : s.out) roots_[v] = v;
  b.kind = Bound::Kind::other;
  if (s.kind != TraceStep::Kind::op) {
    for (ValueId v : s.out) views_[v].SetContiguousStrides();
    return;
  }
  const ir::OpInfo& op = ir::Info(s.op);
  b.attrs = AttrsOf(i);
  if (op.impl == ir::Impl::view) return BindView(i, op, b);
  if (op.impl == ir::Impl::kernel) {
    b.kind = Bound::Kind::kernel;
    b.kernel = interp::KernelOf(s.op, trace_.device->kind());
    const bool same_attrs = trace_.is_eager ? !layout_.steps[i].attrs_vary : step_attrs_[i].empty();
    if (b.num_casts == 0 && same_attrs) b.again = Bound::Again::nothing;
    for (uint32_t k = 0; k < b.num_casts; ++k) {
      const Replay::Cast& cast = replay_.casts()[b.first_cast + k];
      const ValueId v = s.in[static_cast<size_t>(cast.operand)];
      View& view = cast_views_[b.first_cast + k];
      static_cast<TensorType&>(view) = number_of_[v] >= 0 ? static_cast<const TensorType&>(numbers_[number_of_[v]])
                                                          : static_cast<const TensorType&>(views_[v]);
      view.weak = false;
      view.dtype = cast.dtype;
      view.SetContiguousStrides();
    }
    return;
  }
  b.kind = Bound::Kind::elementwise;
  b.kernel = interp::KernelOf(s.op, trace_.device->kind());
  // What follows binds loops of the cpu.
  if (s.in.size() > 3 || trace_.device->kind() != rt::DeviceKind::cpu) return;
  cpu::DirectLoop direct;
  if (!cpu::FindDirect({op, Operands(i), Results(i), b.attrs}, &direct)) {
    BindExpanded(i, op, b);
    return;
  }
  b.has_number = direct.has_number;
  if (direct.n > 0 && direct.n <= MostAtOnce(direct.has_number)) b.kind = Bound::Kind::loop;
  SetLoop(i, direct, b);
  if (AlwaysAlike(s)) b.again = Bound::Again::size;
}

bool ReplayActivation::IsAlike(ValueId v, ValueId out) const {
  const TraceValue& value = trace_.values[v];
  if (value.type.rank != trace_.values[out].type.rank || roots_[v] != v) return false;
  if (value.kind == TraceValue::Kind::input && version_.guard(v).layout == deopt::InputGuard::Layout::free)
    return false;
  return std::equal(value.type.dims, value.type.dims + value.type.rank, trace_.values[out].type.dims);
}

bool ReplayActivation::AlwaysAlike(const TraceStep& s) const {
  return std::all_of(s.in.begin(), s.in.end(), [&](ValueId v) { return number_of_[v] >= 0 || IsAlike(v, s.out[0]); });
}

bool ReplayActivation::AlwaysRepeats(const TraceStep& s) const {
  const TensorType& out = trace_.values[s.out[0]].type;
  return std::all_of(s.in.begin(), s.in.end(), [&](ValueId v) {
    if (number_of_[v] >= 0 || IsAlike(v, s.out[0])) return true;
    const TensorType& type = trace_.values[v].type;
    if (roots_[v] != v || type.rank >= out.rank) return false;
    for (int d = 0; d < type.rank; ++d)
      if (ir::IsSymbol(type.dims[d]) || type.dims[d] != out.dims[out.rank - type.rank + d]) return false;
    return true;
  });
}

void ReplayActivation::SetTimes(Expansion& e, int64_t n) {
  e.times = n / e.run;
  const size_t bytes = static_cast<size_t>(e.times) * e.bytes;
  if (bytes <= e.room_bytes) return;
  // Where shapes vary, the next one may be larger.
  const size_t words = (trace_.symbols != nullptr ? bytes + bytes / 4 : bytes) / sizeof(double) + 1;
  e.room = std::make_unique<double[]>(words);
  e.room_bytes = words * sizeof(double);
  data_[e.to] = e.room.get();
}

int32_t ReplayActivation::SplatOf(int32_t number, DType dtype, int64_t n) {
  for (size_t k = 0; k < splats_.size(); ++k) {
    Splat& s = splats_[k];
    if (s.number != number || s.dtype != dtype || s.room < n) continue;
    Need(s, n);
    return static_cast<int32_t>(k);
  }
  const int64_t room = trace_.symbols != nullptr ? kSplatRoom : std::max<int64_t>(n, 1);
  const auto index = static_cast<int32_t>(splats_.size());
  const interp::ScalarView& mine = numbers_[number];
  const auto is_like = [&](int32_t k) {
    const interp::ScalarView& other = numbers_[splats_[k].number];
    return splats_[k].dtype == dtype && splats_[k].room >= room && other.dtype == mine.dtype &&
           interp::BitsOf(other) == interp::BitsOf(mine);
  };
  const auto like = std::find_if(distinct_.begin(), distinct_.end(), is_like);
  Splat& s = splats_.emplace_back();
  s.number = number;
  s.dtype = dtype;
  s.room = room;
  s.to = static_cast<int32_t>(data_.size());
  data_.push_back(nullptr);
  if (like != distinct_.end())
    s.like = *like;
  else if (distinct_.size() < kMostDistinct)
    distinct_.push_back(index);
  splat_keys_.push_back({number, s.like >= 0 ? s.like : index});
  stale_.push_back(true);
  splats_stale_ = true;
  Need(s, n);
  return index;
}

void ReplayActivation::SetLoop(int i, const cpu::DirectLoop& direct, Bound& b) {
  const TraceStep& s = trace_.steps[i];
  b.loop = direct.loop;
  b.n = direct.n;
  for (size_t k = 0; k < s.in.size(); ++k) {
    const ValueId v = s.in[k];
    b.splats[k] = -1;
    b.in[k] = v;
    if (number_of_[v] < 0) continue;
    b.splats[k] = SplatOf(number_of_[v], direct.number, std::min(direct.n, kSplatRoom));
    b.in[k] = splats_[b.splats[k]].to;
  }
  for (size_t k = s.in.size(); k < 3; ++k) b.in[k] = b.in[0];
}

bool ReplayActivation::BindExpanded(int i, const ir::OpInfo& op, Bound& b) {
  const TraceStep& s = trace_.steps[i];
  const View& out = views_[b.out];
  if (s.in.size() > 3 || out.size() > kSplatRoom || out.size() == 0) return false;
  View same[3];
  const View* in[3];
  int64_t runs[3] = {};
  for (size_t k = 0; k < s.in.size(); ++k) {
    in[k] = Operands(i)[k];
    if (in[k]->weak || in[k]->SameDims(out)) continue;
    runs[k] = RunOf(*in[k], out);
    if (runs[k] == 0) return false;
    same[k] = out;
    same[k].dtype = in[k]->dtype;
    same[k].SetContiguousStrides();
    in[k] = &same[k];
  }
  cpu::DirectLoop direct;
  if (!cpu::FindDirect({op, {in, s.in.size()}, Results(i), b.attrs}, &direct)) return false;
  b.has_number = direct.has_number;
  b.kind = Bound::Kind::expanded;
  SetLoop(i, direct, b);
  for (size_t k = 0; k < s.in.size(); ++k) {
    if (runs[k] == 0) continue;
    if (b.expansions[k] < 0) {
      b.expansions[k] = static_cast<int32_t>(expansions_.size());
      Expansion& fresh = expansions_.emplace_back();
      fresh.to = static_cast<int32_t>(data_.size());
      data_.push_back(nullptr);
    }
    Expansion& e = expansions_[b.expansions[k]];
    e.from = s.in[k];
    e.run = runs[k];
    e.bytes = static_cast<size_t>(runs[k]) * SizeOf(same[k].dtype);
    SetTimes(e, out.size());
    b.in[k] = e.to;
    if (k == 0)
      for (size_t rest = s.in.size(); rest < 3; ++rest) b.in[rest] = e.to;
  }
  for (size_t k = 0; k < s.in.size(); ++k)
    if (runs[k] == 0 && b.expansions[k] >= 0) expansions_[b.expansions[k]].times = 0;
  if (AlwaysRepeats(s)) b.again = Bound::Again::repeats;
  return true;
}

void ReplayActivation::BindView(int i, const ir::OpInfo& op, Bound& b) {
  const TraceStep& s = trace_.steps[i];
  b.kind = Bound::Kind::copy;
  if (number_of_[s.in[0]] >= 0) return;  // a number becomes a tensor first
  View source = views_[s.in[0]];
  source.data = kSomewhere;
  const View* in = &source;
  if (!interp::MakeViews({op, {&in, 1}, Results(i), b.attrs})) {
    for (ValueId v : s.out) views_[v].SetContiguousStrides();
    return;
  }
  for (ValueId v : s.out) roots_[v] = roots_[s.in[0]];
  windowed_[roots_[s.in[0]]] = true;
  b.kind = s.out.size() == 1 ? Bound::Kind::window : Bound::Kind::windows;
  b.in[0] = s.in[0];
  if (s.out.size() == 1) b.n = views_[b.out].as<char>() - kSomewhere;
}

void ReplayActivation::FindNeeds() {
  for (int i : layout_.varying) {
    const Layout::Step& s = layout_.steps[i];
    if (!s.is_simple || bound_[i].num_casts > 0) {
      other_needs_.push_back(i);
      continue;
    }
    for (uint32_t k = s.results; k < s.results + s.num_out; ++k) {
      const ValueId v = layout_.results[k];
      const SlotNeed need = {plan_.slots[v], layout_.shape_of[v], static_cast<uint32_t>(SizeOf(views_[v].dtype))};
      if (need.slot < 0 || need.slot == MemoryPlan::kElsewhere || need.shape < 0) continue;
      if (std::none_of(slot_needs_.begin(), slot_needs_.end(), [&](const SlotNeed& o) {
            return o.slot == need.slot && o.shape == need.shape && o.bytes >= need.bytes;
          }))
        slot_needs_.push_back(need);
    }
  }
}

absl::Status ReplayActivation::LayOut(int from, int to) {
  const size_t n = trace_.values.size();
  // Once all steps were laid out, only those that vary may need more.
  const bool all = !bound_once_ || slot_bytes_.empty();
  slot_bytes_.resize(static_cast<size_t>(plan_.num_slots + plan_.num_spare), 0);
  // What is lent is taken again when the steps run.
  bool fits = arena_.get() != nullptr || (is_lent_ && arena_bytes_ > 0), spare_fits = true;
  const auto need = [&](int slot, size_t bytes) {
    if (slot < 0 || slot == MemoryPlan::kElsewhere) return;
    if (bytes <= slot_bytes_[slot]) return;
    bytes = Aligned(bytes);
    // Where shapes vary, the next one may be larger: a little, and more where another arena would cost more than room.
    constexpr size_t kSmall = size_t{16} << 10;
    const size_t more = trace_.symbols == nullptr ? 0 : bytes > kSmall ? bytes / 8 : bound_once_ ? bytes : 3 * bytes;
    slot_bytes_[slot] = Aligned(bytes + more);
    (plan_.is_spare(slot) ? spare_fits : fits) = false;
  };
  const auto need_all = [&](int i) {
    const Layout::Step& s = layout_.steps[i];
    for (uint32_t k = s.results; k < s.results + s.num_out; ++k) {
      const ValueId v = layout_.results[k];
      if (roots_[v] == v) need(plan_.slots[v], BytesOf(views_[v]));  // most reshapes are windows after all
    }
    const Bound& b = bound_[i];
    for (uint32_t k = b.first_cast; k < b.first_cast + b.num_casts; ++k)
      need(plan_.slots[n + k], BytesOf(cast_views_[k]));
  };
  if (all) {
    for (int i = from; i < to; ++i) need_all(i);
  } else {
    if (slot_needs_.empty() && other_needs_.empty()) FindNeeds();
    for (const SlotNeed& s : slot_needs_) {
      const int64_t size = shapes_[static_cast<size_t>(s.shape)].size;
      if (size >= 0) need(s.slot, static_cast<size_t>(size) * s.bytes);  // -1: no step has come to it yet
    }
    for (int i : other_needs_)
      if (i >= from && i < to) need_all(i);
  }
  // What steps before this range left there is needed no more: eager handles that live have memory of their own.
  if (!spare_fits) {
    Give(spare_);
    spare_bytes_ = 0;
  }
  if (fits) return absl::OkStatus();
  Give(arena_);
  arena_bytes_ = 0;
  const absl::Status status = Take(0, plan_.num_slots, arena_);
  if (!status.ok()) {
    slot_bytes_.clear();
    Give(spare_);
  }
  return status;
}

void ReplayActivation::Give(Ref<rt::Storage>& arena) {
  if (arena) Account(-static_cast<int64_t>(arena->bytes()));
  arena = nullptr;
}

absl::Status ReplayActivation::Take(int first, int count, Ref<rt::Storage>& arena) {
  const bool is_spare = &arena == &spare_;
  size_t& total = is_spare ? spare_bytes_ : arena_bytes_;
  std::vector<size_t>& at = is_spare ? spare_at_ : arena_at_;
  if (total == 0) {
    const auto begin = static_cast<size_t>(first), n = static_cast<size_t>(count);
    total = PackSlots(absl::MakeConstSpan(plan_.lives).subspan(begin, n),
                      absl::MakeConstSpan(slot_bytes_).subspan(begin, n), &at);
  }
  TSR_ASSIGN_OR_RETURN(arena, rt::Storage::Make(*trace_.device, total));
  // On a GPU memory is used again in the order of its stream, by other versions and by tier 1: what is large is held
  // only while a run needs it.
  constexpr size_t kLent = size_t{64} << 20;
  if (!is_spare) is_lent_ = trace_.device->kind() == rt::DeviceKind::cuda && total >= kLent;
  Account(static_cast<int64_t>(total));
  TSR_LOG(3, "version ", version_.id, " takes ", (total + 1023) >> 10, " KiB for ",
          is_spare ? "what its kernels have in registers, because some of it is needed" : "its values");
  char* base = static_cast<char*>(arena->data());
  const auto has = [&](int slot) { return slot >= first && slot < first + count; };
  for (ValueId v : layout_.results) {
    if (!has(plan_.slots[v])) continue;
    arena_data_[v] = base + at[static_cast<size_t>(plan_.slots[v] - first)];
    if (roots_[v] == v && !own_[v]) SetData(v, arena_data_[v]);
  }
  const size_t n = trace_.values.size();
  for (size_t k = 0; k < cast_views_.size(); ++k)
    if (has(plan_.slots[n + k])) cast_views_[k].data = base + at[static_cast<size_t>(plan_.slots[n + k] - first)];
  return absl::OkStatus();
}

}  // namespace tessera::tiers
