#include "tiers/replay.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>

#include "interp/cpu/direct.h"
#include "interp/dispatch.h"
#include "interp/kernel.h"
#include "interp/product_choices.h"
#include "interp/views.h"
#include "runtime/activity.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/nvtx.h"
#include "runtime/trace/gpu.h"
#include "tiers/replay_activation.h"

namespace tessera::tiers {

using rt::Ref;
using rt::TensorImpl;

ReplayActivation::ReplayActivation(const Replay& replay) : Activation(replay), replay_(replay), plan_(replay.plan()) {
  const size_t n = trace_.values.size();
  if (replay.code() != nullptr) {
    generated_ = std::make_unique<GeneratedKernels>(*replay.code(), *trace_.device,
                                                    [&](ValueId v) { return number_of_[v] >= 0; });
    for (const Code::Kernel& kernel : replay.code()->kernels())
      for (const std::vector<ValueId>* values : {&kernel.inner, &kernel.windows})
        for (ValueId v : *values) inner_lasts_ = inner_lasts_ || layout_.lasts[v];
  }
  last_branch_ = LastBranch();
  if (trace_.device->kind() == rt::DeviceKind::cuda) {
    const bool no_host = std::all_of(trace_.steps.begin(), trace_.steps.end(), [&](const TraceStep& s) {
      return (s.kind == TraceStep::Kind::op && s.op != ir::Op::k_constant) ||
             (s.kind == TraceStep::Kind::branch && last_branch_ >= 0);
    });
    if (no_host) graphs_ = std::make_unique<ReplayGraphs>();
    has_products_ = std::any_of(trace_.steps.begin(), trace_.steps.end(), [](const TraceStep& s) {
      return s.op == ir::Op::k_matmul || s.op == ir::Op::k_dot_general;
    });
  }
  arena_data_.assign(n, nullptr);
  storages_.resize(n);
  roots_.assign(n, -1);
  own_.assign(n, false);
  windowed_.assign(n, false);
  buffer_values_.assign(n, nullptr);
  cast_views_.resize(replay.casts().size());
  bound_.resize(trace_.steps.size());
  fast_.resize(trace_.steps.size());
  size_t cast = 0;
  // Room first: the spans of kernels point into these lists.
  size_t num_in = 0, num_out = 0;
  for (const TraceStep& s : trace_.steps) num_in += s.in.size(), num_out += s.out.size();
  operand_views_.reserve(num_in);
  result_views_.reserve(num_out);
  for (size_t i = 0; i < bound_.size(); ++i) {
    const TraceStep& s = trace_.steps[i];
    Bound& b = bound_[i];
    b.operands = static_cast<uint32_t>(operand_views_.size());
    b.results = static_cast<uint32_t>(result_views_.size());
    b.first_cast = static_cast<uint32_t>(cast);
    b.op = &ir::Info(s.op);
    b.first_tensor = static_cast<uint32_t>(tensor_operands_.size());
    for (ValueId v : s.in)
      if (v != kNoValue && number_of_[v] < 0) tensor_operands_.push_back(v);
    b.num_tensors = static_cast<uint32_t>(tensor_operands_.size()) - b.first_tensor;
    for (ValueId v : s.in) {
      operand_views_.push_back(v == kNoValue        ? nullptr
                               : number_of_[v] >= 0 ? static_cast<const View*>(&numbers_[number_of_[v]])
                                                    : &views_[v]);
    }
    for (ValueId v : s.out) result_views_.push_back(&views_[v]);
    for (; cast < replay.casts().size() && replay.casts()[cast].step == static_cast<int>(i); ++cast) {
      ++b.num_casts;
      operand_views_[b.operands + static_cast<uint32_t>(replay.casts()[cast].operand)] = &cast_views_[cast];
    }
    b.num_in = static_cast<uint8_t>(std::min<size_t>(s.in.size(), 255));
    b.num_operands = static_cast<uint32_t>(s.in.size());
    b.num_results = static_cast<uint32_t>(s.out.size());
    b.out = s.out.empty() ? -1 : s.out[0];
  }
  for (const TraceStep& s : trace_.steps) {
    const bool held = s.kind == TraceStep::Kind::buffer_read || s.kind == TraceStep::Kind::call;
    for (ValueId v : s.out)
      if (held || plan_.escapes[v]) lasting_.push_back(v);
    for (ValueId v : s.out)
      if (!trace_.is_eager && plan_.escapes[v]) kept_.push_back(v);
  }
  for (size_t v = 0; v < n; ++v) {
    if (trace_.values[v].kind != TraceValue::Kind::result) roots_[v] = static_cast<int32_t>(v);
    if (roots_[v] >= 0 && number_of_[v] < 0) given_values_.push_back(static_cast<ValueId>(v));
    if (trace_.values[v].kind == TraceValue::Kind::constant) data_[v] = views_[v].data;
    if (number_of_[v] >= 0) data_[v] = numbers_[number_of_[v]].data;
  }
}

absl::Status ReplayActivation::Prepare(int to) {
  ++bindings_;
  const int64_t grain = rt::options().parallel_grain();
  const auto bind = [&](int i) {
    Bind(i);
    const Bound& b = bound_[i];
    fast_[i] = {b.loop, b.n, {b.in[0], b.in[1], b.in[2]}, b.out, b.kind};
    // Where the arena is large enough, nothing else gives a place to the results of a step that is bound anew.
    for (ValueId v : trace_.steps[i].out)
      if (plan_.slots[v] >= 0 && roots_[v] == v && !own_[v]) SetData(v, arena_data_[v]);
  };
  if (bound_once_) {
    resizes_.resize(layout_.varying.size());
    for (size_t k = 0; k < resizes_.size(); ++k) {
      const int i = layout_.varying[k];
      if (i < position_) continue;
      if (i >= to) break;
      if (BindAgain(resizes_[k], fast_[i], grain)) continue;
      bind(i);
      const Bound& b = bound_[i];
      Resize& r = resizes_[k];
      r = {b.again, b.has_number, b.out >= 0 ? layout_.shape_of[b.out] : -1, b.out, {}, {}};
      std::copy_n(b.splats, 3, r.splats);
      std::copy_n(b.expansions, 3, r.expansions);
    }
  } else {
    for (int i = position_; i < to; ++i) bind(i);
  }
  TSR_RETURN_IF_ERROR(LayOut(position_, to));
  if (generated_ != nullptr) generated_->Bind(views_, [&](int step) { return bound_[step].attrs; });
  return absl::OkStatus();
}

bool ReplayActivation::BindAgain(const Resize& r, FastStep& fast, int64_t grain) {
  switch (r.again) {
    case Bound::Again::everything: return false;
    case Bound::Again::nothing: return true;
    case Bound::Again::size:
    case Bound::Again::repeats: break;
  }
  const bool repeats = r.again == Bound::Again::repeats;
  // A step before the first input with other dims was not resolved in this run: its symbols are as they were.
  const Shape* shape = r.shape >= 0 ? ShapeOf(r.shape) : nullptr;
  const int64_t n = shape != nullptr ? shape->size : views_[r.out].size();
  if (n == 0 || n > (r.has_number || repeats ? kSplatRoom : grain)) {
    fast.kind = Bound::Kind::elementwise;
    return true;
  }
  fast.kind = repeats ? Bound::Kind::expanded : Bound::Kind::loop;
  fast.n = n;
  if (r.has_number)
    for (int32_t splat : r.splats)
      if (splat >= 0) Need(splats_[splat], n);
  if (repeats)
    for (int32_t expansion : r.expansions)
      if (expansion >= 0) SetTimes(expansions_[expansion], n);
  return true;
}

void ReplayActivation::Fill(Splat& s) {
  const interp::ScalarView& number = numbers_[s.number];
  const uint64_t bits = interp::BitsOf(number);
  if (s.like >= 0) {
    const Splat& other = splats_[s.like];
    if (other.bits == bits && other.filled >= s.needed) {
      data_[s.to] = other.data.get();
      return;
    }
  }
  if (s.data == nullptr) {
    const size_t bytes = static_cast<size_t>(s.room) * SizeOf(s.dtype);
    s.data = std::make_unique<double[]>((bytes + sizeof(double) - 1) / sizeof(double));
  }
  data_[s.to] = s.data.get();
  if (s.filled >= s.needed && s.bits == bits) return;
  cpu::RepeatNumber(number, s.dtype, s.needed, s.data.get());
  s.bits = bits;
  s.filled = s.needed;
}

void ReplayActivation::FillStale() {
  for (const SplatKey& key : splat_keys_)
    if (number_changed_[static_cast<size_t>(key.number)]) stale_[static_cast<size_t>(key.head)] = true;
  for (size_t k = 0; k < splat_keys_.size(); ++k)
    if (stale_[static_cast<size_t>(splat_keys_[k].head)]) Fill(splats_[k]);
  std::fill(number_changed_.begin(), number_changed_.end(), false);
  std::fill(stale_.begin(), stale_.end(), false);
  numbers_changed_ = splats_stale_ = false;
}

void ReplayActivation::Settle() {
  FillStale();
  // The system brings memory when it is first used, a page at a time.
  constexpr size_t kMost = size_t{1} << 20;
  if (arena_ && arena_->bytes() <= kMost) std::memset(arena_->data(), 0, arena_->bytes());
}

absl::Status ReplayActivation::Place(int to) {
  if (trace_.is_eager) {
    const auto look_at = [&](ValueId v) {
      if (tensors_[v] != nullptr && !tensors_[v]->dropped_relaxed()) kept_.push_back(v);
    };
    kept_.clear();
    // Where those that were expected to be held and those that were dropped are all, nobody need look at the others.
    if (position_ == 0 && to == static_cast<int>(trace_.steps.size()))
      std::for_each(layout_.lasting.begin(), layout_.lasting.end(), look_at);
    as_expected_ = kept_.size() + static_cast<size_t>(drops_) == layout_.results.size();
    if (!as_expected_) {
      kept_.clear();
      const uint32_t first = position_ < to ? layout_.steps[position_].results : 0;
      const uint32_t last = position_ < to ? layout_.steps[to - 1].results + layout_.steps[to - 1].num_out : 0;
      for (uint32_t k = first; k < last; ++k) look_at(layout_.results[k]);
    }
  }
  const bool to_end = to == static_cast<int>(bound_.size());
  if (trace_.is_eager || !to_end) {
    TSR_RETURN_IF_ERROR(PlaceKept(to));
  } else {
    if (placed_for_ != bindings_) [[unlikely]] {
      placed_for_ = bindings_;
      placed_.clear();
      for (ValueId v : kept_)
        if (const int32_t root = roots_[v]; plan_.slots[root] >= 0) placed_.push_back({root, BytesOf(views_[root])});
    }
    for (const auto& [root, bytes] : placed_) {
      if (own_[root]) continue;
      TSR_ASSIGN_OR_RETURN(storages_[root], rt::Storage::Make(*trace_.device, bytes));
      Store(root);
    }
  }
  if (numbers_changed_ || splats_stale_) FillStale();
  return absl::OkStatus();
}

void ReplayActivation::Store(ValueId root) {
  own_[root] = true;
  stored_.push_back(root);
  SetData(root, storages_[root]->data());
}

absl::Status ReplayActivation::PlaceKept(int to) {
  looked_at_.clear();
  for (ValueId v : kept_)
    if (const int32_t root = roots_[v]; root >= 0 && root != v && plan_.slots[root] < 0) looked_at_.push_back(root);
  for (ValueId v : kept_) {
    if (trace_.values[v].step >= to) continue;
    const int32_t root = roots_[v];
    if (plan_.slots[root] < 0 || own_[root]) continue;
    if (rt::Storage* donated = MemoryToTake(root)) {
      storages_[root] = Ref<rt::Storage>::Share(donated);
      taken_.push_back(root);
    } else {
      TSR_ASSIGN_OR_RETURN(storages_[root], rt::Storage::Make(*trace_.device, BytesOf(views_[root])));
    }
    Store(root);
  }
  return absl::OkStatus();
}

rt::Storage* ReplayActivation::MemoryToTake(ValueId result) {
  // Little to gain below this.
  constexpr size_t kLeast = 512;
  if (plan_.donors.empty() || plan_.donors[result].inputs.empty()) return nullptr;
  const View& y = views_[result];
  if (BytesOf(y) < kLeast) return nullptr;
  const auto storage_of = [&](ValueId v) -> rt::Storage* {
    const TensorImpl* x = tensors_[v];
    if (x == nullptr || !x->unique() || !x->SameDims(y) || !x->IsContiguous()) return nullptr;
    rt::Storage* const storage = x->storage();
    if (!storage->unique() || storage->is_wrapped() || x->data != storage->data()) return nullptr;
    // A window onto it that somebody holds gets its memory when the run is done.
    return std::find(looked_at_.begin(), looked_at_.end(), v) == looked_at_.end() ? storage : nullptr;
  };
  // What was there in the last run first: a loop does the same again.
  const std::vector<ValueId>& inputs = plan_.donors[result].inputs;
  donors_.resize(trace_.values.size(), 0);
  uint32_t& last = donors_[result];
  rt::Storage* storage = storage_of(inputs[last]);
  for (uint32_t k = 0; storage == nullptr && k < inputs.size(); ++k)
    if ((storage = storage_of(inputs[k])) != nullptr) last = k;
  if (storage != nullptr) donated_.push_back(inputs[last]);
  return storage;
}

absl::Status ReplayActivation::MoveOut(bool all) {
  for (ValueId v : taken_) {
    const int kernel = plan_.donors[v].kernel;
    if (trace_.values[v].step < position_) continue;
    if (!all && (kernel < 0 || generated_->WasChosen(kernel))) continue;
    TSR_ASSIGN_OR_RETURN(storages_[v], rt::Storage::Make(*trace_.device, BytesOf(views_[v])));
    SetData(v, storages_[v]->data());
  }
  return absl::OkStatus();
}

void ReplayActivation::Expand(const Bound& b) {
  for (int32_t index : b.expansions) {
    if (index < 0) continue;
    const Expansion& e = expansions_[index];
    const char* from = static_cast<const char*>(data_[e.from]);
    char* to = static_cast<char*>(data_[e.to]);
    const size_t all = static_cast<size_t>(e.times) * e.bytes;
    if (e.bytes == 4) {
      uint32_t word;
      std::memcpy(&word, from, 4);
      for (int64_t k = 0; k < e.times; ++k) std::memcpy(to + k * 4, &word, 4);
    } else if (all > 0) {
      // What is there is copied behind itself: twice as much each time.
      std::memcpy(to, from, e.bytes);
      for (size_t done = e.bytes; done < all; done *= 2) std::memcpy(to + done, to, std::min(done, all - done));
    }
  }
}

absl::Status ReplayActivation::RunKernel(int i, const Bound& b) {
  // Nothing here looks at the trace, which is large and was not needed since it was bound.
  const ValueId* v = tensor_operands_.data() + b.first_tensor;
  for (const ValueId* end = v + b.num_tensors; v != end; ++v) views_[*v].data = data_[*v];
  if (b.num_casts > 0) TSR_RETURN_IF_ERROR(CastOperands(i, b));
  return b.kernel({*b.op,
                   {operand_views_.data() + b.operands, b.num_operands},
                   {result_views_.data() + b.results, b.num_results},
                   b.attrs,
                   trace_.device});
}

absl::Status ReplayActivation::CastOperands(int i, const Bound& b) {
  const TraceStep& s = trace_.steps[i];
  for (uint32_t k = b.first_cast; k < b.first_cast + b.num_casts; ++k) {
    const ValueId v = s.in[static_cast<size_t>(replay_.casts()[k].operand)];
    const View* in = number_of_[v] >= 0 ? static_cast<const View*>(&numbers_[number_of_[v]]) : &views_[v];
    View* out = &cast_views_[k];
    TSR_RETURN_IF_ERROR(ConvertTo(*in, *out));
  }
  return absl::OkStatus();
}

absl::Status ReplayActivation::ConvertTo(const View& from, View& to) {
  const View* in = &from;
  View* out = &to;
  const ir::Attr dtype = to.dtype;
  return interp::KernelOf(ir::Op::k_cast, trace_.device->kind())(
      {ir::Info(ir::Op::k_cast), {&in, 1}, {&out, 1}, {&dtype, 1}, trace_.device});
}

void ReplayActivation::Windows(int i) {
  const TraceStep& s = trace_.steps[i];
  views_[s.in[0]].data = data_[s.in[0]];
  const View* in = &views_[s.in[0]];
  interp::MakeViews({ir::Info(s.op), {&in, 1}, Results(i), bound_[i].attrs});
  for (ValueId v : s.out) data_[v] = views_[v].data;
}

absl::Status ReplayActivation::Copy(int i) {
  const TraceStep& s = trace_.steps[i];
  const ValueId from = s.in[0];
  View dense;
  if (number_of_[from] >= 0) {
    const View* in = &numbers_[number_of_[from]];
    View* out = &views_[s.out[0]];
    return ConvertTo(*in, *out);
  }
  views_[from].data = data_[from];
  dense = views_[from];
  dense.SetContiguousStrides();
  dense.data = data_[s.out[0]];
  return interp::CopyElements(views_[from], *trace_.device, dense);
}

namespace {
/// A run, for tools.
class RunRange {
 public:
  RunRange(const Version& version, const Trace& trace) : is_open_(rt::NvtxOn()) {
    if (is_open_) [[unlikely]]
      rt::PushNvtx(absl::StrCat("version ", version.id, " of ", trace.name), version.id);
  }
  ~RunRange() {
    if (is_open_) [[unlikely]]
      rt::PopNvtx();
  }
  RunRange(const RunRange&) = delete;
  RunRange& operator=(const RunRange&) = delete;

 private:
  const bool is_open_;
};
}  // namespace

absl::Status ReplayActivation::RunSteps(int to) {
  const RunRange range(version_, trace_);
  const int from = position_;
  failure_.step = -1;
  started_ahead_ = true;
  if (!arena_ && is_lent_) TSR_RETURN_IF_ERROR(Take(0, plan_.num_slots, arena_));
  const bool whole = from == 0 && to == static_cast<int>(fast_.size());
  if (generated_ != nullptr) {
    const bool all = generated_->Choose(
        position_, to, whole, trace_.is_eager && (!as_expected_ || inner_lasts_),
        [&](ValueId v) { return tensors_[v] != nullptr && !tensors_[v]->dropped_relaxed(); },
        [&](ValueId v) { return roots_[v] >= 0 ? data_[roots_[v]] : nullptr; });
    // Steps that a kernel was to replace leave their results in memory, which has to be there.
    if (!all && !spare_ && plan_.num_spare > 0) [[unlikely]]
      TSR_RETURN_IF_ERROR(Take(plan_.num_slots, plan_.num_spare, spare_));
  }
  const uint64_t buffer_epoch = visits_buffers_ ? instance->buffer_epoch.now() : 0;
  buffers_known_ = visits_buffers_ && buffer_epoch == read_epoch_;
  if (!buffers_known_) read_epoch_ = 0;
  absl::Status status;
  bool stopped = false;
  // Steps that are ops alone do the same when they run again, unless they write over what they read.
  const rt::trace::Look look = graphs_ != nullptr && last_branch_ < 0 && whole && rt::ActivityRecorder::is_on()
                                   ? rt::trace::HowToLook(version_.id)
                                   : rt::trace::Look::none;
  const bool closely = look > rt::trace::Look::launches;
  if (!taken_.empty()) TSR_RETURN_IF_ERROR(MoveOut(/*all=*/closely));
  if (closely) [[unlikely]] {
    status = rt::trace::LookAtRun(look, *trace_.device, version_.id, [&] {
      position_ = 0;
      if (generated_ != nullptr) TSR_RETURN_IF_ERROR(generated_->WriteNumbers(data_.data()));
      return Steps(to, &stopped);
    });
  } else if (graphs_ != nullptr && whole && (last_branch_ < 0 || ahead_) && look == rt::trace::Look::none &&
             RunGraph(&status)) {
    position_ = to;
  } else {
    // All that changed at once, in place of one by one where a kernel reads it.
    if (generated_ != nullptr && whole) status = generated_->WriteNumbers(data_.data());
    if (status.ok()) status = trials_left_ > 0 ? StepsWithTrials(to, &stopped) : Steps(to, &stopped);
  }
  if (stopped) return status;
  if (whole && position_ == to) read_epoch_ = buffer_epoch;
  rt::Count(rt::Metric::version_ops, position_ - from);
  if (trace_.is_eager) Publish(position_);
  return status;
}

bool ReplayActivation::RunGraph(absl::Status* status) {
  if (graphs_->given_up() || trials_left_ > 0) return false;
  std::vector<uint64_t>& key = graphs_->key();
  key.clear();
  const auto add = [&](const void* data) { key.push_back(reinterpret_cast<uintptr_t>(data)); };
  key.push_back(bindings_);
  if (has_products_) key.push_back(interp::product_choices.load(std::memory_order_relaxed));
  // Results are where the shapes put them in the arena, unless they have memory of their own.
  add(arena_ ? arena_->data() : nullptr);
  add(spare_ ? spare_->data() : nullptr);
  for (ValueId v : given_values_) add(data_[v]);
  for (ValueId v : stored_) key.push_back(static_cast<uint64_t>(v)), add(data_[v]);
  // Kernels of tier 1 take numbers with the launch; generated ones read them.
  for (const interp::ScalarView& number : numbers_) key.push_back(interp::BitsOf(number));
  const int64_t kernels = generated_ != nullptr ? generated_->AppendChosen(key) : 0;
  ReplayGraphs::Entry* entry = graphs_->Find();
  if (entry == nullptr) return false;
  if (generated_ != nullptr) {
    *status = generated_->WriteNumbers(data_.data());
    if (!status->ok()) return true;
  }
  rt::Device& device = *trace_.device;
  if (entry->graph == nullptr) {
    if (!device.BeginRecording()) return false;
    graphs_->Count();
    bool stopped = false;
    node_steps_ = &entry->steps;
    const interp::UntriedProducts untried(/*now=*/false);
    const absl::Status recorded = Steps(static_cast<int>(fast_.size()), &stopped);
    entry->untried_us = untried.us();
    node_steps_ = nullptr;
    std::unique_ptr<rt::DeviceGraph> graph = device.EndRecording(LabelOf(absl::StrCat("the graph of ", trace_.name)));
    position_ = 0;
    if (!recorded.ok() || stopped || graph == nullptr) {
      graphs_->GiveUp();
      TSR_LOG(2, "version ", version_.id, " of ", trace_.name, ": its run cannot be a graph of ", device.name(),
              recorded.ok() ? "" : ": ", recorded.message());
      return false;
    }
    entry->graph = std::move(graph);
    for (size_t v = 0; v < roots_.size(); ++v)
      if (roots_[v] != static_cast<int32_t>(v) && number_of_[v] < 0)
        entry->windows.push_back({static_cast<int32_t>(v), data_[v]});
    entry->number = rt::trace::NewGraphNumber();
    TSR_LOG(2, "version ", version_.id, " of ", trace_.name, ": its run is a graph of ", device.name());
  } else {
    for (const auto& [v, data] : entry->windows) SetData(v, data);
  }
  if (rt::ActivityRecorder::is_on()) [[unlikely]]
    rt::trace::TellGraph(entry->number, version_.id, entry->steps);
  const rt::ActivityScope scope(device, {rt::ActivityOwner::Kind::graph, 0, entry->number});
  *status = entry->graph->Launch();
  rt::Count(rt::Metric::graphs_launched);
  rt::Count(rt::Metric::kernels_generated, kernels);
  if (entry->untried_us > 0 && graphs_->EarnsTrials(entry->untried_us)) [[unlikely]] {
    // A kernel takes a few runs to be tried, and there are eight of them; no more than this in any case.
    constexpr int kMostTrials = 300;
    trials_left_ = kMostTrials;
  }
  return true;
}

absl::Status ReplayActivation::StepsWithTrials(int to, bool* stopped) {
  const interp::UntriedProducts untried(/*now=*/true);
  const absl::Status status = Steps(to, stopped);
  // All were tried, or some never will be.
  if (untried.us() == 0 || --trials_left_ == 0) {
    trials_left_ = 0;
    TSR_LOG(2, "version ", version_.id, " of ", trace_.name,
            ": its products have been tried, and runs are graphs again");
  }
  return status;
}

// The nodes of the graph that have come since the last call are the step's.
void ReplayActivation::NoteNodes(int step) {
  const int64_t nodes = rt::RecordedNodes(*trace_.device);
  if (nodes > static_cast<int64_t>(node_steps_->size())) node_steps_->resize(static_cast<size_t>(nodes), step);
}

absl::Status ReplayActivation::Steps(int to, bool* stopped) {
  const bool watched =
      trace_.device->kind() == rt::DeviceKind::cuda && (node_steps_ != nullptr || rt::ActivityScope::wanted());
  return watched ? StepsThat<true>(to, stopped) : StepsThat<false>(to, stopped);
}

template <bool kWatched>
absl::Status ReplayActivation::StepsThat(int to, bool* stopped) {
  absl::Status status;
  int i = position_;
  for (; i < to; ++i) {
    const FastStep& b = fast_[i];
    std::conditional_t<kWatched, std::optional<rt::ActivityScope>, char> scope{};
    if constexpr (kWatched) {
      if (node_steps_ == nullptr)
        scope.emplace(*trace_.device, rt::ActivityOwner{rt::ActivityOwner::Kind::step, i, version_.id});
      else
        NoteNodes(i - 1);
    }
    if (generated_ != nullptr && generated_->Takes(i)) {
      if (!kWatched && !generated_->Acts(i)) {
        i = std::min(generated_->RestEnd(i), to) - 1;
        continue;
      }
      status = generated_->Run(i, data_.data());
      if (!status.ok()) [[unlikely]]
        break;
      continue;
    }
    switch (b.kind) {
      case Bound::Kind::expanded: Expand(bound_[i]); [[fallthrough]];
      case Bound::Kind::loop: {
        const void* in[3] = {data_[b.in[0]], data_[b.in[1]], data_[b.in[2]]};
        b.loop(data_[b.out], in, b.n);
        continue;
      }
      case Bound::Kind::window: SetData(b.out, static_cast<char*>(data_[b.in[0]]) + b.n); continue;
      case Bound::Kind::elementwise:
      case Bound::Kind::kernel: status = RunKernel(i, bound_[i]); break;
      case Bound::Kind::windows: Windows(i); continue;
      case Bound::Kind::copy: status = Copy(i); break;
      case Bound::Kind::other: {
        bool holds = true;
        status = Other(i, &holds);
        if (!holds) {
          position_ = stop_after_ ? i + 1 : i;
          stop_after_ = false;
          *stopped = true;
          return absl::OkStatus();
        }
        break;
      }
    }
    if (!status.ok()) [[unlikely]]
      break;
  }
  if (kWatched && node_steps_ != nullptr) NoteNodes(i - 1);
  position_ = i;
  return status;
}

void ReplayActivation::Publish(int to) {
  // Operands of the steps that are left are compared with what was published before.
  const bool last = to == static_cast<int>(trace_.steps.size());
  for (ValueId v : kept_) {
    const TraceValue& value = trace_.values[v];
    if (value.step >= to) continue;  // a step before it failed
    TensorImpl* t = tensors_[v];
    const int32_t root = roots_[v];
    rt::Storage* storage = plan_.slots[root] < 0 ? tensors_[root]->storage() : storages_[root].get();
    // At the end nobody needs our own reference to what no other value looks at.
    if (last && root == v && !windowed_[v])
      storages_[v].release();
    else
      storage->Retain();
    t->set_storage(storage);
    t->data = data_[v];
    rt::Watcher* const watcher = t->watcher();
    t->set_watcher(nullptr);
    if (!t->StopWaiting(last ? 0 : 1)) [[unlikely]] {
      // Another thread dropped it just now.
      t->data = nullptr;
      t->set_storage(nothing_);
      t->set_watcher(watcher);
      storage->Release();
      continue;
    }
    escaped_ += value.death != tracer::kAtEnd;
    if (last)
      tensors_[v] = nullptr;
    else
      published_.push_back(v);
  }
}

absl::Status ReplayActivation::RunAgain(absl::Span<const Carry> carried, int to) {
  old_.resize(carried.size(), nullptr);
  unread_.resize(carried.size(), nullptr);
  // All of them before the first one moves: one may be a window onto another.
  for (const Carry& c : carried)
    if (tensors_[c.out] == nullptr) TSR_RETURN_IF_ERROR(MakeTensor(c.out).status());
  for (size_t k = 0; k < carried.size(); ++k) {
    const ValueId v = carried[k].out;
    old_[k] = tensors_[v];
    if (carried[k].moves)
      tensors_[v] = nullptr;
    else
      old_[k]->Retain();
  }
  position_ = 0;
  // All at once: a value may go where another one came from.
  for (size_t k = 0; k < carried.size(); ++k) {
    const ValueId in = carried[k].in;
    std::swap(old_[k], in == kNoValue ? unread_[k] : tensors_[in]);
    if (in != kNoValue) SetData(in, tensors_[in]->data);
  }
  LetGoOfLasting();
  for (size_t k = 0; k < carried.size(); ++k) {
    TensorImpl* old = old_[k];
    if (old == nullptr) continue;
    const ValueId v = carried[k].out;
    if (carried[k].moves && own_[v] && roots_[v] == v && old->unique() && old->storage()->unique() &&
        old->IsContiguous()) {
      tensors_[v] = old;
      made_.push_back(v);
      SetData(v, old->data);
    } else {
      old->Release();
    }
  }
  TSR_RETURN_IF_ERROR(PlaceLasting());
  return RunSteps(to);
}

void ReplayActivation::LetGoOfLasting() {
  for (ValueId v : lasting_) {
    if (tensors_[v] != nullptr) std::exchange(tensors_[v], nullptr)->Release();
    if (storages_[v]) storages_[v] = nullptr;
  }
  made_.clear();
}

absl::Status ReplayActivation::PlaceLasting() {
  for (ValueId v : lasting_) {
    if (!own_[v] || roots_[v] != v || tensors_[v] != nullptr || plan_.slots[v] < 0) continue;
    TSR_ASSIGN_OR_RETURN(storages_[v], rt::Storage::Make(*trace_.device, BytesOf(views_[v])));
    SetData(v, storages_[v]->data());
  }
  return absl::OkStatus();
}

Ref<TensorImpl> ReplayActivation::Carried(absl::Span<const Carry> carried, size_t k) const {
  const ValueId in = carried[k].in;
  return Ref<TensorImpl>::Share(in == kNoValue ? unread_[k] : tensors_[in]);
}

TensorImpl* ReplayActivation::NewTensor(ValueId v, rt::Storage* storage) {
  TensorImpl* t = TensorImpl::New();
  const View& view = views_[v];
  t->dtype = view.dtype;
  t->rank = view.rank;
  for (int d = 0; d < view.rank; ++d) {
    t->dims[d] = view.dims[d];
    t->strides[d] = view.strides[d];
  }
  t->data = data_[v];
  t->set_storage(storage);
  return t;
}

absl::StatusOr<Ref<TensorImpl>> ReplayActivation::MakeTensor(ValueId v) {
  const int32_t root = roots_[v];
  if (buffers_known_ && tensors_[root] == nullptr && buffer_values_[root] != nullptr)
    Hold(root, Ref<TensorImpl>::Share(buffer_values_[root]));
  if (tensors_[v] != nullptr) return Ref<TensorImpl>::Share(tensors_[v]);
  Ref<rt::Storage> storage;
  const bool is_tensor = !trace_.is_eager && tensors_[root] != nullptr;
  if (is_tensor || trace_.values[root].kind != TraceValue::Kind::result || plan_.slots[root] < 0) {
    storage = Ref<rt::Storage>::Share(tensors_[root]->storage());
  } else {
    if (!storages_[root]) {
      TSR_ASSIGN_OR_RETURN(storages_[root], rt::Storage::Make(*trace_.device, BytesOf(views_[root])));
      stored_.push_back(root);
      TSR_RETURN_IF_ERROR(trace_.device->CopyWithin(storages_[root]->data(), data_[root], BytesOf(views_[root])));
      const char* old = static_cast<const char*>(data_[root]);
      char* const now = static_cast<char*>(storages_[root]->data());
      // Windows that were made already look at the copy from now on.
      for (size_t w = 0; windowed_[root] && w < roots_.size(); ++w) {
        if (roots_[w] != root || data_[w] == nullptr || w == static_cast<size_t>(root)) continue;
        SetData(static_cast<ValueId>(w), now + (static_cast<const char*>(data_[w]) - old));
      }
      SetData(root, now);
    }
    storage = storages_[root];
  }
  TensorImpl* t = NewTensor(v, storage.release());
  t->Retain();
  tensors_[v] = t;
  made_.push_back(v);
  return Ref<TensorImpl>::Adopt(t);
}

absl::StatusOr<Ref<TensorImpl>> ReplayActivation::TakeTensor(ValueId v) {
  if (!IsAlone(v)) return MakeTensor(v);
  if (rt::Storage* own = storages_[v].release()) return Ref<TensorImpl>::Adopt(NewTensor(v, own));
  TensorImpl* copy = nullptr;
  const rt::TensorCopy from{&views_[v], data_[v], &copy};
  TSR_RETURN_IF_ERROR(rt::MakeCopies(*trace_.device, {&from, 1}));
  return Ref<TensorImpl>::Adopt(copy);
}

absl::Status ReplayActivation::FillRegisters(absl::Span<const deopt::Snapshot::Register> from, TensorImpl** registers) {
  copies_.clear();
  for (const auto& [reg, v, alone] : from) {
    TensorImpl* x = nullptr;
    if (v != kNoValue && alone && IsAlone(v) && !storages_[v]) {
      // So are most, and there may be hundreds.
      copies_.push_back({&views_[v], data_[v], &registers[reg]});
    } else if (v != kNoValue) {
      TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> made, alone ? TakeTensor(v) : MakeTensor(v));
      x = made.release();
    }
    interp::SetRegister(registers[reg], x);
  }
  return rt::MakeCopies(*trace_.device, copies_);
}

void ReplayActivation::Forget() {
  for (ValueId v : stored_) {
    storages_[v] = nullptr;
    own_[v] = false;
    SetData(v, arena_data_[v]);
  }
  stored_.clear();
  taken_.clear();
  for (ValueId v : donated_) ReleaseIfKept(v);
  donated_.clear();
  if (is_lent_) {
    Give(arena_);
    Give(spare_);
  }
  for (TensorImpl*& t : unread_)
    if (t != nullptr) std::exchange(t, nullptr)->Release();
}

Replay::Replay(std::shared_ptr<const Trace> trace, Rung rung, std::shared_ptr<const Code> code)
    : Version(std::move(trace), rung, std::move(code)) {
  const Trace& t = this->trace();
  std::vector<Extra> extras;
  for (size_t i = 0; i < t.steps.size(); ++i) {
    const TraceStep& s = t.steps[i];
    if (s.kind != TraceStep::Kind::op) continue;
    const ir::OpInfo& op = ir::Info(s.op);
    if (op.impl != ir::Impl::kernel) continue;
    absl::InlinedVector<const TensorType*, 8> types;
    for (ValueId v : s.in) types.push_back(v == kNoValue ? nullptr : &t.values[v].type);
    const DType data = op.dtypes == ir::DTypeSet::s_none ? DType::f32 : ir::OperandDType(op, types);
    for (size_t k = 0; k < s.in.size(); ++k) {
      if (s.in[k] == kNoValue) continue;
      const ir::OperandSpec& spec = k < op.operands.size() ? op.operands[k] : op.operands.back();
      if (spec.role == ir::Role::any || spec.role == ir::Role::boolean) continue;
      const DType want = spec.role == ir::Role::index ? DType::i64 : data;
      if (t.values[s.in[k]].type.dtype == want) continue;
      casts_.push_back({{static_cast<int>(i)}, static_cast<int>(k), want});
      extras.push_back(casts_.back());
    }
  }
  plan_ = PlanMemory(t, extras, this->code());
}

std::unique_ptr<Activation> Replay::NewActivation() { return std::make_unique<ReplayActivation>(*this); }

}  // namespace tessera::tiers
