#include "tiers/replay.h"

#include <algorithm>
#include <cstring>

#include "interp/cpu/convert.h"
#include "interp/cpu/direct.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "interp/views.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "tiers/generated.h"
#include "tiers/replay_step.h"

namespace tessera::tiers {
namespace {

using rt::Ref;
using rt::TensorImpl;

constexpr size_t kAlign = 64;
// Numbers among which another one that is alike is looked for.
constexpr size_t kMostDistinct = 32;
size_t Aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }
size_t BytesOf(const TensorType& t) { return static_cast<size_t>(t.size()) * SizeOf(t.dtype); }

class ReplayActivation final : public Activation {
 public:
  explicit ReplayActivation(const Replay& replay) : Activation(replay), replay_(replay), plan_(replay.plan()) {
    const size_t n = trace_.values.size();
    if (replay.code() != nullptr) generated_ = std::make_unique<GeneratedKernels>(*replay.code());
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
      if (trace_.values[v].kind == TraceValue::Kind::constant) data_[v] = views_[v].data;
      if (number_of_[v] >= 0) data_[v] = numbers_[number_of_[v]].data;
    }
  }

 protected:
  absl::Status Prepare(int to) override {
    for (int i = position_; i < to; ++i) {
      if (bound_once_ && (!layout_.steps[i].varies || BindAgain(i))) continue;
      Bind(i);
      const Bound& b = bound_[i];
      fast_[i] = {b.loop, b.n, {b.in[0], b.in[1], b.in[2]}, b.out, b.kind};
      // Where the arena is large enough, nothing else gives a place to the results of a step that is bound anew.
      for (ValueId v : trace_.steps[i].out)
        if (plan_.slots[v] >= 0 && roots_[v] == v && !own_[v]) SetData(v, arena_data_[v]);
    }
    TSR_RETURN_IF_ERROR(LayOut(position_, to));
    if (generated_ != nullptr) generated_->Bind(views_);
    return absl::OkStatus();
  }

  absl::Status Place(int to) override {
    const uint32_t first = position_ < to ? layout_.steps[position_].results : 0;
    const uint32_t last = position_ < to ? layout_.steps[to - 1].results + layout_.steps[to - 1].num_out : 0;
    if (trace_.is_eager) {
      kept_.clear();
      for (uint32_t k = first; k < last; ++k) {
        const ValueId v = layout_.results[k];
        if (tensors_[v] != nullptr && !tensors_[v]->dropped_relaxed()) kept_.push_back(v);
      }
    }
    for (ValueId v : kept_) {
      if (trace_.values[v].step >= to) continue;
      const int32_t root = roots_[v];
      if (plan_.slots[root] < 0 || own_[root]) continue;
      TSR_ASSIGN_OR_RETURN(storages_[root], rt::Storage::Make(*trace_.device, BytesOf(views_[root])));
      own_[root] = true;
      stored_.push_back(root);
      SetData(root, storages_[root]->data());
    }
    for (Splat& s : splats_) Fill(s);
    return absl::OkStatus();
  }

  absl::Status RunSteps(int to) override {
    absl::Status status;
    int i = position_;
    const int from = i;
    if (generated_ != nullptr) {
      generated_->Choose(position_, to, [&](ValueId v) {
        return trace_.is_eager && tensors_[v] != nullptr && !tensors_[v]->dropped_relaxed();
      });
    }
    failure_.step = -1;
    const uint64_t buffer_epoch = visits_buffers_ ? instance->buffer_epoch.now() : 0;
    buffers_known_ = visits_buffers_ && buffer_epoch == read_epoch_;
    if (!buffers_known_) read_epoch_ = 0;
    for (; i < to; ++i) {
      const FastStep& b = fast_[i];
      if (generated_ != nullptr && generated_->Takes(i)) {
        generated_->Run(i, data_.data());
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
            return absl::OkStatus();
          }
          break;
        }
      }
      if (!status.ok()) [[unlikely]]
        break;
    }
    position_ = i;
    if (from == 0 && i == static_cast<int>(fast_.size())) read_epoch_ = buffer_epoch;
    rt::Count(rt::Metric::version_ops, i - from);
    if (trace_.is_eager) Publish(i);
    return status;
  }

 public:
  // Only addresses change from one iteration to the next. A tensor that an iteration leaves behind, held by nobody
  // else, takes the value of the iteration after: two tensors in turn serve a loop that goes round a million times.
  absl::Status RunAgain(absl::Span<const Carry> carried, int to) override {
    old_.resize(carried.size(), nullptr);
    unread_.resize(carried.size(), nullptr);
    for (size_t k = 0; k < carried.size(); ++k) {
      const ValueId v = carried[k].out;
      if (tensors_[v] == nullptr) {
        const auto made = MakeTensor(v);
        if (!made.ok()) {
          while (k-- > 0) old_[k]->Release();
          return made.status();
        }
      }
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
    for (ValueId v : lasting_) {
      if (tensors_[v] != nullptr) std::exchange(tensors_[v], nullptr)->Release();
      if (storages_[v]) storages_[v] = nullptr;
    }
    made_.clear();
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
    for (ValueId v : lasting_) {
      if (!own_[v] || roots_[v] != v || tensors_[v] != nullptr || plan_.slots[v] < 0) continue;
      TSR_ASSIGN_OR_RETURN(storages_[v], rt::Storage::Make(*trace_.device, BytesOf(views_[v])));
      SetData(v, storages_[v]->data());
    }
    return RunSteps(to);
  }

  Ref<TensorImpl> Carried(absl::Span<const Carry> carried, size_t k) const override {
    const ValueId in = carried[k].in;
    return Ref<TensorImpl>::Share(in == kNoValue ? unread_[k] : tensors_[in]);
  }

  absl::StatusOr<Ref<TensorImpl>> MakeTensor(ValueId v) override {
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
        if (BytesOf(views_[root]) > 0) std::memcpy(storages_[root]->data(), data_[root], BytesOf(views_[root]));
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

  // Its memory goes with it, or the copy that it gets: nothing is kept here, and nothing is counted.
  absl::StatusOr<Ref<TensorImpl>> TakeTensor(ValueId v) override {
    if (tensors_[v] != nullptr || roots_[v] != v || windowed_[v] || plan_.slots[v] < 0) return MakeTensor(v);
    if (rt::Storage* own = storages_[v].release()) return Ref<TensorImpl>::Adopt(NewTensor(v, own));
    absl::StatusOr<Ref<TensorImpl>> copy = TensorImpl::Make(*trace_.device, views_[v]);
    if (!copy.ok()) [[unlikely]]
      return copy;
    if (const size_t bytes = (*copy)->storage()->bytes(); bytes > 0) std::memcpy((*copy)->data, data_[v], bytes);
    return copy;
  }

  void Forget() override {
    for (ValueId v : stored_) {
      storages_[v] = nullptr;
      own_[v] = false;
      SetData(v, arena_data_[v]);
    }
    stored_.clear();
    for (TensorImpl*& t : unread_)
      if (t != nullptr) std::exchange(t, nullptr)->Release();
  }

 private:
  // With one reference, for the value as it is now.
  TensorImpl* NewTensor(ValueId v, rt::Storage* storage) {
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

  void SetData(ValueId v, void* data) {
    data_[v] = data;
    views_[v].data = data;
  }

  absl::Span<const View* const> Operands(int i) const {
    return {operand_views_.data() + bound_[i].operands, trace_.steps[i].in.size()};
  }
  absl::Span<View* const> Results(int i) const {
    return {result_views_.data() + bound_[i].results, trace_.steps[i].out.size()};
  }

  // Most elements for which one call of the loop is all there is to it.
  static int64_t MostAtOnce(bool has_number) { return has_number ? kSplatRoom : rt::options().parallel_grain(); }

  // For other shapes most steps are the same but for the number of elements. False: Bind() it.
  bool BindAgain(int i) {
    Bound& b = bound_[i];
    switch (b.again) {
      case Bound::Again::everything: return false;
      case Bound::Again::nothing: return true;
      case Bound::Again::size: break;
    }
    const int64_t n = views_[b.out].size();
    if (n == 0 || n > MostAtOnce(b.has_number)) {
      fast_[i].kind = Bound::Kind::elementwise;
      return true;
    }
    fast_[i].kind = Bound::Kind::loop;
    fast_[i].n = n;
    for (int32_t splat : b.splats)
      if (splat >= 0) Need(splats_[splat], n);
    return true;
  }

  // True when every operand has the dims of the result whatever the shape, and lies in memory as it does.
  bool AlwaysAlike(const TraceStep& s) const {
    const ValueId out = s.out[0];
    for (ValueId v : s.in) {
      if (number_of_[v] >= 0) continue;
      const TraceValue& value = trace_.values[v];
      if (value.type.rank != trace_.values[out].type.rank || roots_[v] != v) return false;
      if (value.kind == TraceValue::Kind::input && version_.guard(v).layout == deopt::InputGuard::Layout::free) {
        return false;
      }
      for (int d = 0; d < value.type.rank; ++d)
        if (value.type.dims[d] != trace_.values[out].type.dims[d]) return false;
    }
    return true;
  }

  void Bind(int i) {
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
      b.kernel = interp::KernelOf(s.op);
      if (b.num_casts == 0 && !layout_.steps[i].attrs_vary && trace_.is_eager) b.again = Bound::Again::nothing;
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
    b.kernel = cpu::RunElementwise;
    cpu::DirectLoop direct;
    if (s.in.size() > 3) return;
    if (!cpu::FindDirect({op, Operands(i), Results(i), b.attrs}, &direct)) {
      BindExpanded(i, op, b);
      return;
    }
    b.has_number = direct.has_number;
    if (direct.n > 0 && direct.n <= MostAtOnce(direct.has_number)) b.kind = Bound::Kind::loop;
    SetLoop(i, direct, b);
    if (AlwaysAlike(s)) b.again = Bound::Again::size;
  }

  uint64_t BitsOf(const interp::ScalarView& number) const {
    return number.dtype == DType::boolean ? number.b : static_cast<uint64_t>(number.i);
  }

  void Need(Splat& s, int64_t n) {
    s.needed = std::max(s.needed, n);
    if (s.like >= 0) splats_[s.like].needed = std::max(splats_[s.like].needed, n);
  }

  // A program uses few different numbers, in many places: what is repeated for one of them stays in the cache.
  void Fill(Splat& s) {
    const interp::ScalarView& number = numbers_[s.number];
    const uint64_t bits = BitsOf(number);
    if (s.like >= 0) {
      const Splat& other = splats_[s.like];
      if (other.bits == bits && other.filled >= s.needed) {
        data_[s.to] = other.data.get();
        return;
      }
    }
    if (s.data == nullptr) s.data = std::make_unique<double[]>(static_cast<size_t>(s.room));
    data_[s.to] = s.data.get();
    if (s.filled >= s.needed && s.bits == bits) return;
    cpu::RepeatNumber(number, s.dtype, s.needed, s.data.get());
    s.bits = bits;
    s.filled = s.needed;
  }

  // Index in splats_ of the number, repeated n times.
  int32_t SplatOf(int32_t number, DType dtype, int64_t n) {
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
             BitsOf(other) == BitsOf(mine);
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
    Need(s, n);
    return index;
  }

  // The same where operands are repeated first. Tier 1 would run the loop row by row; the elements are the same.
  bool BindExpanded(int i, const ir::OpInfo& op, Bound& b) {
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
        fresh.room = std::make_unique<double[]>(static_cast<size_t>(kSplatRoom));
        fresh.to = static_cast<int32_t>(data_.size());
        data_.push_back(fresh.room.get());
      }
      Expansion& e = expansions_[b.expansions[k]];
      e.from = s.in[k];
      e.bytes = static_cast<size_t>(runs[k]) * SizeOf(same[k].dtype);
      e.times = out.size() / runs[k];
      b.in[k] = e.to;
      if (k == 0)
        for (size_t rest = s.in.size(); rest < 3; ++rest) b.in[rest] = e.to;
    }
    for (size_t k = 0; k < s.in.size(); ++k)
      if (runs[k] == 0 && b.expansions[k] >= 0) expansions_[b.expansions[k]].times = 0;
    return true;
  }

  void SetLoop(int i, const cpu::DirectLoop& direct, Bound& b) {
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

  void Expand(const Bound& b) {
    for (int32_t index : b.expansions) {
      if (index < 0) continue;
      const Expansion& e = expansions_[index];
      const char* from = static_cast<const char*>(data_[e.from]);
      char* to = static_cast<char*>(data_[e.to]);
      if (e.bytes == 4) {
        uint32_t word;
        std::memcpy(&word, from, 4);
        for (int64_t k = 0; k < e.times; ++k) std::memcpy(to + k * 4, &word, 4);
      } else {
        for (int64_t k = 0; k < e.times; ++k) std::memcpy(to + static_cast<size_t>(k) * e.bytes, from, e.bytes);
      }
    }
  }

  void BindView(int i, const ir::OpInfo& op, Bound& b) {
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

  // Gives every slot room for what the steps of the range put there. Slots never shrink, so most shapes find them large
  // enough.
  absl::Status LayOut(int from, int to) {
    const size_t n = trace_.values.size();
    slot_bytes_.resize(static_cast<size_t>(plan_.num_slots), 0);
    bool fits = arena_.get() != nullptr;
    auto need = [&](int slot, const TensorType& t) {
      if (slot < 0) return;
      const size_t bytes = Aligned(BytesOf(t));
      if (bytes <= slot_bytes_[slot]) return;
      // Where shapes vary, the next one may be a little larger.
      slot_bytes_[slot] = trace_.symbols != nullptr ? Aligned(bytes + bytes / 2) : bytes;
      fits = false;
    };
    for (int i = from; i < to; ++i) {
      const Layout::Step& s = layout_.steps[i];
      if (bound_once_ && !s.varies && fits) continue;
      for (uint32_t k = s.results; k < s.results + s.num_out; ++k)
        need(plan_.slots[layout_.results[k]], views_[layout_.results[k]]);
      const Bound& b = bound_[i];
      for (uint32_t k = b.first_cast; k < b.first_cast + b.num_casts; ++k) need(plan_.slots[n + k], cast_views_[k]);
    }
    if (fits) return absl::OkStatus();
    std::vector<size_t> at(slot_bytes_.size());
    size_t total = 0;
    for (size_t slot = 0; slot < at.size(); ++slot) {
      at[slot] = total;
      total += slot_bytes_[slot];
    }
    // What steps before this range left in the arena is needed no more: eager handles that live have memory of their
    // own.
    if (arena_) Account(-static_cast<int64_t>(arena_->bytes()));
    arena_ = nullptr;
    auto arena = rt::Storage::Make(*trace_.device, total);
    if (!arena.ok()) {
      slot_bytes_.clear();
      return arena.status();
    }
    arena_ = *std::move(arena);
    Account(static_cast<int64_t>(total));
    char* base = static_cast<char*>(arena_->data());
    for (ValueId v : layout_.results) {
      if (plan_.slots[v] < 0) continue;
      arena_data_[v] = base + at[static_cast<size_t>(plan_.slots[v])];
      if (roots_[v] == v && !own_[v]) SetData(v, arena_data_[v]);
    }
    for (size_t k = 0; k < cast_views_.size(); ++k)
      cast_views_[k].data = base + at[static_cast<size_t>(plan_.slots[n + k])];
    return absl::OkStatus();
  }

  absl::Status RunKernel(int i, const Bound& b) {
    const TraceStep& s = trace_.steps[i];
    for (ValueId v : s.in)
      if (v != kNoValue && number_of_[v] < 0) views_[v].data = data_[v];
    for (uint32_t k = b.first_cast; k < b.first_cast + b.num_casts; ++k) {
      const ValueId v = s.in[static_cast<size_t>(replay_.casts()[k].operand)];
      const View* in = number_of_[v] >= 0 ? static_cast<const View*>(&numbers_[number_of_[v]]) : &views_[v];
      View* out = &cast_views_[k];
      const ir::Attr dtype = replay_.casts()[k].dtype;
      TSR_RETURN_IF_ERROR(cpu::k_cast({ir::Info(ir::Op::k_cast), {&in, 1}, {&out, 1}, {&dtype, 1}}));
    }
    return b.kernel({ir::Info(s.op), Operands(i), Results(i), b.attrs});
  }

  void Windows(int i) {
    const TraceStep& s = trace_.steps[i];
    views_[s.in[0]].data = data_[s.in[0]];
    const View* in = &views_[s.in[0]];
    interp::MakeViews({ir::Info(s.op), {&in, 1}, Results(i), bound_[i].attrs});
    for (ValueId v : s.out) data_[v] = views_[v].data;
  }

  // A view op whose operand's strides cannot say it: the operand is copied, and the result lies in the copy.
  absl::Status Copy(int i) {
    const TraceStep& s = trace_.steps[i];
    const ValueId from = s.in[0];
    View dense;
    if (number_of_[from] >= 0) {
      const View* in = &numbers_[number_of_[from]];
      View* out = &views_[s.out[0]];
      const ir::Attr dtype = out->dtype;
      return cpu::k_cast({ir::Info(ir::Op::k_cast), {&in, 1}, {&out, 1}, {&dtype, 1}});
    }
    views_[from].data = data_[from];
    dense = views_[from];
    dense.SetContiguousStrides();
    dense.data = data_[s.out[0]];
    cpu::CopyStrided(dense, views_[from]);
    return absl::OkStatus();
  }

  absl::Status Fail(int i, deopt::GuardKind guard, std::string expected, std::string seen, bool* holds) {
    *holds = false;
    failure_ = {};
    failure_.guard = guard;
    failure_.reason = deopt::Info(guard).reason;
    failure_.step = i;
    failure_.source = trace_.steps[i].source;
    failure_.expected = std::move(expected);
    failure_.seen = std::move(seen);
    return absl::OkStatus();
  }

  const View& OperandView(int i, size_t k) {
    const ValueId v = trace_.steps[i].in[k];
    if (number_of_[v] >= 0) return numbers_[number_of_[v]];
    views_[v].data = data_[v];
    return views_[v];
  }

  absl::Status Other(int i, bool* holds) {
    const TraceStep& s = trace_.steps[i];
    switch (s.kind) {
      case TraceStep::Kind::op: return absl::OkStatus();
      case TraceStep::Kind::tensor: {
        const View* in = &numbers_[number_of_[s.in[0]]];
        View* out = &views_[s.out[0]];
        const ir::Attr dtype = out->dtype;
        return cpu::k_cast({ir::Info(ir::Op::k_cast), {&in, 1}, {&out, 1}, {&dtype, 1}});
      }
      case TraceStep::Kind::branch: {
        const bool taken = *static_cast<const bool*>(data_[s.in[0]]);
        if (taken == s.outcome) return absl::OkStatus();
        return Fail(i, deopt::GuardKind::branch, s.outcome ? "true" : "false", taken ? "true" : "false", holds);
      }
      case TraceStep::Kind::for_begin: {
        interp::Frame::Counter& c = counters_[s.counter];
        c = {interp::ReadInt(OperandView(i, 0)), interp::ReadInt(OperandView(i, 1)),
             interp::ReadInt(OperandView(i, 2))};
        return c.step == 0 ? Internal("the step is 0") : absl::OkStatus();
      }
      case TraceStep::Kind::for_next: {
        interp::Frame::Counter& c = counters_[s.counter];
        const bool more = c.step > 0 ? c.next < c.stop : c.next > c.stop;
        if (more != s.outcome) {
          return Fail(i, deopt::GuardKind::branch, s.outcome ? "another iteration" : "the end of the loop",
                      more ? "another iteration" : "the end of the loop", holds);
        }
        if (!more) return absl::OkStatus();
        std::memcpy(data_[s.out[0]], &c.next, sizeof c.next);
        if (__builtin_add_overflow(c.next, c.step, &c.next)) c.next = c.stop;
        return absl::OkStatus();
      }
      case TraceStep::Kind::buffer_read: {
        if (buffers_known_) return absl::OkStatus();
        TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> value, instance->buffers[s.target]->Read(*device));
        if (!value->IsContiguous()) return Fail(i, deopt::GuardKind::strides, "row-major", "other strides", holds);
        buffer_values_[s.out[0]] = value.get();
        Hold(s.out[0], std::move(value));
        return absl::OkStatus();
      }
      case TraceStep::Kind::buffer_write:
      case TraceStep::Kind::buffer_add: {
        TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> value, MakeTensor(s.in[0]));
        // What was read from the buffer and is not needed any more must not keep it from adding in place.
        for (int k = 0; k < i; ++k) {
          const TraceStep& r = trace_.steps[k];
          if (r.kind != TraceStep::Kind::buffer_read || r.target != s.target || plan_.last[r.out[0]] >= i) continue;
          if (tensors_[r.out[0]] != nullptr) std::exchange(tensors_[r.out[0]], nullptr)->Release();
        }
        interp::BufferState& buffer = *instance->buffers[s.target];
        return s.kind == TraceStep::Kind::buffer_write ? buffer.Write(std::move(value)) : buffer.Add(*value);
      }
      case TraceStep::Kind::call: return Call(i, holds);
    }
    return absl::OkStatus();
  }

  void Hold(ValueId v, Ref<TensorImpl> value) {
    SetData(v, value->data);
    if (tensors_[v] != nullptr) tensors_[v]->Release();
    tensors_[v] = value.release();
    made_.push_back(v);
  }

  absl::Status Call(int i, bool* holds) {
    const TraceStep& s = trace_.steps[i];
    absl::InlinedVector<Ref<TensorImpl>, 8> owned;
    interp::Results results;
    absl::InlinedVector<TensorImpl*, 8> args;
    for (ValueId v : s.in) {
      TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> value, MakeTensor(v));
      args.push_back(value.get());
      owned.push_back(std::move(value));
    }
    // Every activation in between counts towards the limit of nested calls, as it would in tier 1.
    int nested = depth + 1;
    for (int f = s.frame; trace_.frames[f].parent >= 0; f = trace_.frames[f].parent) ++nested;
    TSR_RETURN_IF_ERROR(interp::CallAtDepth(*instance, s.target, args, *device, nested, &results));
    bool same = true;
    for (size_t k = 0; k < s.out.size(); ++k) {
      same = same && results[k]->SameDims(views_[s.out[k]]) && results[k]->IsContiguous();
      Hold(s.out[k], std::move(results[k]));
    }
    if (same) return absl::OkStatus();
    stop_after_ = true;
    return Fail(i, deopt::GuardKind::exact_dim, "results as recorded", "results of other dims or strides", holds);
  }

  // Handles that are still held get what was computed for them.
  void Publish(int to) {
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

  const Replay& replay_;
  const MemoryPlan& plan_;
  std::vector<Bound> bound_;
  std::vector<FastStep> fast_;
  std::vector<const View*> operand_views_;
  std::vector<View*> result_views_;
  std::vector<View> cast_views_;
  std::vector<void*> arena_data_;  // of each value with a slot
  std::vector<ValueId> kept_;      // results that leave the version: of this range, or (functions) of all steps
  std::vector<ValueId> stored_;    // values with a storage
  std::vector<int32_t> roots_;     // the value whose memory each value lies in
  std::vector<uint8_t> windowed_;  // some value is a window onto it
  std::vector<uint8_t> own_;       // the value has memory of its own in this run
  std::vector<Ref<rt::Storage>> storages_;
  std::vector<ValueId> lasting_;     // functions: results that may be tensors when a run ends
  std::vector<TensorImpl*> old_;     // while an iteration begins: what it leaves behind, one reference each
  std::vector<TensorImpl*> unread_;  // values carried in registers that no step reads, one reference each
  std::vector<Splat> splats_;
  std::vector<int32_t> distinct_;  // those that others may be like
  std::vector<Expansion> expansions_;
  std::vector<size_t> slot_bytes_;
  Ref<rt::Storage> arena_;
  std::unique_ptr<GeneratedKernels> generated_;
  std::vector<TensorImpl*> buffer_values_;  // read from buffers; theirs, and good only for...
  uint64_t read_epoch_ = 0;                 // ...this epoch of the buffers; 0: for none
  bool buffers_known_ = false;              // in this run
  bool stop_after_ = false;
};

}  // namespace

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
      extras.push_back({static_cast<int>(i)});
    }
  }
  plan_ = PlanMemory(t, extras, this->code());
}

std::unique_ptr<Activation> Replay::NewActivation() { return std::make_unique<ReplayActivation>(*this); }

}  // namespace tessera::tiers
