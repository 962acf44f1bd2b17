#include "tiers/version.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "interp/views.h"
#include "ir/infer.h"

namespace tessera::tiers {
namespace {

using rt::Ref;
using rt::TensorImpl;

bool HasSymbol(const std::vector<ir::Attr>& attrs) {
  for (const ir::Attr& a : attrs) {
    if (const auto* ints = std::get_if<ir::Ints>(&a))
      for (int64_t i : *ints)
        if (ir::IsSymbol(i)) return true;
  }
  return false;
}

// As ==, without a call for the kinds that most attributes are.
bool SameAttr(const ir::Attr& a, const ir::Attr& b) {
  if (a.index() != b.index()) return false;
  if (const bool* x = std::get_if<bool>(&a)) return *x == *std::get_if<bool>(&b);
  if (const int64_t* x = std::get_if<int64_t>(&a)) return *x == *std::get_if<int64_t>(&b);
  return a == b;
}

// The step was recorded with other attributes, and nothing in its version depends on them.
bool OtherAttrs(const TraceStep& step, const std::vector<ir::Attr>& given, GuardFailure* failure) {
  for (size_t a = 0; failure != nullptr && a < given.size(); ++a) {
    if (given[a] == step.attrs[a]) continue;
    failure->guard = deopt::GuardKind::scalar_value;
    failure->reason = deopt::DeoptReason::scalar;
    failure->source = step.source;
    failure->expected = ir::ToString(step.attrs[a]);
    failure->seen = ir::ToString(given[a]);
    break;
  }
  return false;
}

// One for each device, for good: a handle may be asked for its device by any thread while it waits.
rt::Storage* Nothing(rt::Device& device) {
  static std::mutex mutex;
  static auto* all = new std::vector<Ref<rt::Storage>>;
  std::lock_guard lock(mutex);
  for (const Ref<rt::Storage>& s : *all)
    if (&s->device() == &device) return s.get();
  return all->emplace_back(rt::Storage::Wrap(device, nullptr, 0, [](void*) {}, nullptr)).get();
}

void TakeDims(TensorImpl& t, const View& from) {
  for (int d = 0; d < from.rank; ++d) {
    t.dims[d] = from.dims[d];
    t.strides[d] = from.strides[d];
  }
}

}  // namespace

// ---- Version

Version::Version(std::shared_ptr<const Trace> trace, Rung rung, std::shared_ptr<const Code> code)
    : trace_(std::move(trace)), layout_(*trace_), rung_(rung), code_(std::move(code)) {
  // Code counts towards the budget of bytes like memory does.
  if (code_ != nullptr) bytes_.store(static_cast<int64_t>(code_->bytes()), std::memory_order_relaxed);
  guards_.resize(trace_->values.size());
  for (size_t v = 0; v < guards_.size(); ++v) {
    const TraceValue& value = trace_->values[v];
    if (value.kind != TraceValue::Kind::input) continue;
    deopt::InputGuard& g = guards_[v];
    g.device = trace_->device;
    g.dtype = value.type.dtype;
    g.rank = value.type.rank;
    bool varies = false;
    bool dense = true;
    int64_t stride = 1;
    for (int d = g.rank - 1; d >= 0; --d) {
      const int64_t dim = value.type.dims[d];
      g.strides[d] = value.strides[d];
      g.dims[d] = dim;
      if (ir::IsSymbol(dim)) {
        g.dims[d] = -1 - tracer::NamedIndex(*trace_->symbols, dim);
        varies = true;
      }
    }
    // The recording's own dims are gone where they became symbols; a row-major tensor has falling strides down to 1.
    for (int d = g.rank - 1; d >= 0 && dense; --d) {
      if (ir::IsSymbol(value.type.dims[d])) {
        dense = value.strides[d] == stride;
        stride = d > 0 ? value.strides[d - 1] : 0;
      } else if (value.type.dims[d] != 1) {
        dense = value.strides[d] == stride;
        stride *= value.type.dims[d];
      }
    }
    g.layout = !varies ? deopt::InputGuard::Layout::exact
               : dense ? deopt::InputGuard::Layout::dense
                       : deopt::InputGuard::Layout::free;
  }
  std::vector<int32_t> number_of(trace_->values.size(), -1);
  for (size_t v = 0; v < trace_->values.size(); ++v) {
    if (trace_->values[v].kind != TraceValue::Kind::number) continue;
    number_of[v] = static_cast<int32_t>(numbers_.size());
    numbers_.push_back(static_cast<ValueId>(v));
  }
  relies_on_number_.resize(numbers_.size());
  varied_ = std::make_shared<std::vector<std::atomic<bool>>>(numbers_.size());
  // A kernel that does not read a mask or a number relies on what it was seen to be.
  for (size_t i = 0; code_ != nullptr && i < trace_->steps.size(); ++i) {
    const TraceStep& s = trace_->steps[i];
    const int kernel = code_->kernel_of(static_cast<int>(i));
    if (s.kind != TraceStep::Kind::op || kernel < 0) continue;
    const std::vector<ValueId>& views = code_->kernels()[static_cast<size_t>(kernel)].views;
    const auto is_read = [&](ValueId v) { return std::find(views.begin(), views.end(), v) != views.end(); };
    for (ValueId v : s.in) {
      const int32_t number = v != kNoValue ? number_of[static_cast<size_t>(v)] : -1;
      if (number >= 0 && trace_->is_eager && trace_->values[static_cast<size_t>(v)].is_fixed && !is_read(v))
        relies_on_number_[static_cast<size_t>(number)] = true;
    }
    if (s.op != ir::Op::k_attention || s.in.size() <= tracer::kMaskOperand) continue;
    const ValueId mask = s.in[tracer::kMaskOperand];
    if (mask != kNoValue && !is_read(mask)) guards_[mask].mask = trace_->values[mask].mask;
  }
}

bool Version::NumberMayChange(int number_index) const {
  (*varied_)[static_cast<size_t>(number_index)].store(true, std::memory_order_relaxed);
  return !relies_on_number_[static_cast<size_t>(number_index)];
}

std::vector<ValueId> Version::VaryingNumbers() const {
  std::vector<ValueId> varying;
  for (size_t i = 0; i < numbers_.size(); ++i)
    if ((*varied_)[i].load(std::memory_order_relaxed) || trace_->values[static_cast<size_t>(numbers_[i])].varies)
      varying.push_back(numbers_[i]);
  return varying;
}

Version::~Version() { delete spare_.load(std::memory_order_acquire); }

std::unique_ptr<Activation> Version::Acquire() {
  if (Activation* a = spare_.exchange(nullptr, std::memory_order_acquire)) [[likely]]
    return std::unique_ptr<Activation>(a);
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Activation> a = std::move(idle_.back());
      idle_.pop_back();
      return a;
    }
  }
  return NewActivation();
}

void Version::Return(std::unique_ptr<Activation> activation) {
  activation->Begin();
  std::unique_ptr<Activation> other(spare_.exchange(activation.release(), std::memory_order_acq_rel));
  if (other != nullptr) {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(other));
  }
  // Whoever marked it dead may have trimmed it before this one came back.
  if (dead.load(std::memory_order_seq_cst)) [[unlikely]]
    Trim();
}

void Version::Trim() {
  std::vector<std::unique_ptr<Activation>> gone;
  gone.emplace_back(spare_.exchange(nullptr, std::memory_order_acq_rel));
  std::lock_guard lock(mutex_);
  for (auto& a : idle_) gone.push_back(std::move(a));
  idle_.clear();
}

void Version::WarmUp(const Trace& recording) {
  std::unique_ptr<Activation> a = NewActivation();
  a->WarmUp(recording);
  Return(std::move(a));
}

// ---- Activation

Activation::Activation(const Version& version)
    : version_(version),
      trace_(version.trace()),
      layout_(version.layout()),
      nothing_(trace_.is_eager ? Nothing(*trace_.device) : nullptr) {
  version_.handles_.fetch_add(1, std::memory_order_relaxed);
  const size_t n = trace_.values.size();
  views_.resize(n);
  const size_t num_guards = trace_.is_eager ? layout_.guards.size() : 0;
  tensors_.assign(n + 2 + num_guards, reinterpret_cast<TensorImpl*>(kSomewhere));
  std::fill_n(tensors_.begin(), n + 1, nullptr);
  kept_inputs_.resize(num_guards);
  given_.reserve(num_guards);
  data_.assign(n, nullptr);
  number_of_.assign(n, -1);
  counters_.resize(static_cast<size_t>(trace_.num_counters));
  symbols_.assign(trace_.ranges.size(), -1);
  expression_values_.assign(layout_.expressions.size(), 0);
  expression_known_.assign(layout_.expressions.size(), 0);
  shapes_.resize(layout_.shapes.size());
  for (Shape& shape : shapes_) shape.size = -1;
  last_symbols_ = symbols_;
  if (!trace_.is_eager) {
    step_attrs_.resize(trace_.steps.size());
    for (size_t i = 0; i < trace_.steps.size(); ++i) {
      const TraceStep& s = trace_.steps[i];
      if (s.kind != TraceStep::Kind::op || !HasSymbol(trace_.frames[s.frame].code->attrs[s.attrs_index])) continue;
      step_attrs_[i] = s.attrs;
      if (s.frame == 0) root_symbolic_.push_back(static_cast<int>(i));
    }
    for (size_t i = 0; i < trace_.steps.size(); ++i)
      if (layout_.steps[i].varies || !step_attrs_[i].empty()) symbolic_.push_back(static_cast<int>(i));
  }
  const auto is_number = [](const TraceValue& v) { return v.kind == TraceValue::Kind::number; };
  numbers_ = std::vector<interp::ScalarView>(
      static_cast<size_t>(std::count_if(trace_.values.begin(), trace_.values.end(), is_number)));
  number_changed_.assign(numbers_.size(), true);
  numbers_changed_ = true;
  int32_t next_number = 0;
  for (size_t v = 0; v < n; ++v) {
    const TraceValue& value = trace_.values[v];
    View& view = views_[v];
    static_cast<TensorType&>(view) = value.type;
    switch (value.kind) {
      case TraceValue::Kind::number: {
        number_of_[v] = next_number;
        interp::ScalarView& number = numbers_[next_number++];
        number.Init(value.type.dtype);
        if (value.type.dtype == DType::boolean)
          number.b = value.number.i != 0;
        else
          number.i = value.number.i;
        number_bits_.push_back(interp::BitsOf(number));
        break;
      }
      case TraceValue::Kind::constant:
        value.constant->Retain();
        tensors_[v] = value.constant.get();
        view = *value.constant;
        break;
      case TraceValue::Kind::input:
        for (int d = 0; d < view.rank; ++d) view.strides[d] = value.strides[d];
        break;
      case TraceValue::Kind::result: break;
    }
  }
}

Activation::~Activation() {
  version_.handles_.fetch_sub(1, std::memory_order_relaxed);
  Account(-accounted_);
  tensors_.resize(trace_.values.size());
  for (TensorImpl* t : tensors_) {
    if (t == nullptr) continue;
    // Nobody holds a handle that still waits when its activation goes.
    if (t->dropped())
      t->DestroyDropped();
    else if (!t->waiting())
      t->Release();
  }
}

bool Activation::ChangeNumber(int number_index, uint64_t bits) {
  if (!version_.NumberMayChange(number_index)) return false;
  number_bits_[number_index] = bits;
  interp::ScalarView& mine = numbers_[number_index];
  if (mine.dtype == DType::boolean)
    mine.b = bits != 0;
  else
    mine.i = static_cast<int64_t>(bits);
  number_changed_[number_index] = numbers_changed_ = true;
  return true;
}

void Activation::Account(int64_t bytes) {
  accounted_ += bytes;
  version_.bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void Activation::Begin() {
  Forget();
  if (trace_.is_eager) {
    for (int32_t guard : given_) {
      TensorImpl*& x = tensors_[layout_.guarded[guard]];
      if (x == nullptr || x == Slot(guard) || Keeps(guard, *x)) continue;
      std::exchange(x, nullptr)->Release();
    }
    given_.clear();
  } else {
    for (ValueId v : layout_.inputs)
      if (TensorImpl* x = std::exchange(tensors_[v], nullptr); x != nullptr && !borrows_) x->Release();
    borrows_ = false;
  }
  for (const auto& list : {&published_, &made_}) {
    for (ValueId v : *list)
      if (tensors_[v] != nullptr) std::exchange(tensors_[v], nullptr)->Release();
    list->clear();
  }
  if (std::exchange(visits_buffers_, false)) instance->buffer_epoch.Leave();
  if (!symbols_.empty()) {
    if (position_ == static_cast<int>(trace_.steps.size())) {
      // Steps that were not asked again have not said what is as it was.
      for (size_t s = 0; s < symbols_.size(); ++s)
        if (symbols_[s] != -1) last_symbols_[s] = symbols_[s];
    }
    std::fill(symbols_.begin(), symbols_.end(), -1);
    std::fill(expression_known_.begin(), expression_known_.end(), 0);
    for (Shape& shape : shapes_) shape.size = -1;
  }
  if (shapes_changed_ && position_ < static_cast<int>(trace_.steps.size())) prepared_ = false;
  shapes_changed_ = !prepared_;
  resolved_until_ = shapes_changed_ ? 0 : INT_MAX;
  position_ = 0;
}

void Activation::WarmUp(const Trace& example) {
  // Attributes of functions that follow from symbols come with the call.
  const bool has_attrs = std::any_of(step_attrs_.begin(), step_attrs_.end(), [](const auto& a) { return !a.empty(); });
  if (trace_.device->kind() != rt::DeviceKind::cpu || has_attrs) return;
  for (ValueId v : layout_.inputs) {
    const deopt::InputGuard& guard = version_.guard(v);
    const TraceValue& seen = example.values[v];
    for (int d = 0; d < guard.rank; ++d) {
      views_[v].dims[d] = seen.type.dims[d];
      views_[v].strides[d] = seen.strides[d];
      if (guard.dims[d] < 0) symbols_[static_cast<size_t>(-1 - guard.dims[d])] = seen.type.dims[d];
    }
  }
  if (std::find(symbols_.begin(), symbols_.end(), -1) != symbols_.end()) return;
  const auto size = static_cast<int>(trace_.steps.size());
  for (int i = 0; i < size; ++i)
    if (!ResolveStep(i, nullptr)) return;
  if (!Prepare(size).ok()) return;
  Settle();
  bound_once_ = true;
  if (!trace_.is_eager) return;
  // The thread that runs it first would take memory for all of them in one go.
  for (ValueId v : layout_.results)
    if (tensors_[v] == nullptr) tensors_[v] = SpareHandle(v, nullptr);
}

void Activation::WatchHandles(rt::Watcher* watcher) {
  for (ValueId v : layout_.results)
    if (TensorImpl* t = tensors_[v]; t != nullptr && t->dropped()) t->set_watcher(watcher);
}

void Activation::Own() {
  if (!borrows_) return;
  borrows_ = false;
  for (ValueId v : layout_.inputs)
    if (tensors_[v] != nullptr) tensors_[v]->Retain();
}

bool Activation::SetOtherInput(const Layout::Operand& operand, TensorImpl& x, GuardFailure* failure) {
  if (Slot(operand.number) == tensors_[operand.value] && tensors_[operand.value] != nullptr) {
    Kept& kept = kept_inputs_[operand.number];
    kept.changes = static_cast<uint8_t>(std::min(kept.changes + 1, 255));
    Unkeep(operand.number);
  }
  return SetInput(operand.value, x, failure);
}

bool Activation::Keeps(int guard, const TensorImpl& x) {
  // Where more is read, checking and counting are nothing beside it.
  constexpr size_t kMostBytes = 4096, kMostInAll = size_t{1} << 20;
  constexpr int kMostChanges = 3;
  Kept& kept = kept_inputs_[guard];
  const rt::Storage& storage = *x.storage();
  if (std::exchange(kept.last, &x) != &x || kept.changes > kMostChanges) return false;
  // Guards that bind symbols are asked each time; somebody else's memory is given back when it was asked for.
  if (layout_.guards[guard].device == nullptr || storage.device().kind() != rt::DeviceKind::cpu || x.unique() ||
      storage.is_wrapped() || storage.bytes() > kMostBytes || kept_bytes_ + storage.bytes() > kMostInAll) {
    return false;
  }
  kept_bytes_ += storage.bytes();
  ++num_kept_;
  Slot(guard) = tensors_[layout_.guarded[guard]];
  return true;
}

void Activation::Unkeep(int guard) {
  TensorImpl* x = std::exchange(tensors_[layout_.guarded[guard]], nullptr);
  Slot(guard) = reinterpret_cast<TensorImpl*>(kSomewhere);
  kept_bytes_ -= x->storage()->bytes();
  --num_kept_;
  x->Release();
}

void Activation::ReleaseKept() {
  for (size_t guard = 0; num_kept_ > 0 && guard < kept_inputs_.size(); ++guard)
    if (Slot(static_cast<int>(guard)) == tensors_[layout_.guarded[guard]]) Unkeep(static_cast<int>(guard));
}

void Activation::ReleaseIfKept(ValueId input) {
  if (num_kept_ == 0) return;
  const int32_t guard = layout_.guard_of[input];
  if (guard >= 0 && Slot(guard) == tensors_[input]) Unkeep(guard);
}

bool Activation::LookAtMask(ValueId v, TensorImpl& x, GuardFailure* failure) {
  auto it = std::find_if(masks_.begin(), masks_.end(), [&](const auto& m) { return m.first == v; });
  if (it != masks_.end() && it->second.get() == &x) return true;
  if (!deopt::CheckMask(version_.guard(v), x, failure)) return false;
  if (it == masks_.end()) it = masks_.insert(it, {v, nullptr});
  it->second = rt::Ref<TensorImpl>::Share(&x);
  return true;
}

bool Activation::SetInput(ValueId v, TensorImpl& x, GuardFailure* failure) {
  const deopt::InputGuard& guard = version_.guard(v);
  for (int d = 0; trace_.is_eager && d < guard.rank; ++d)
    if (guard.dims[d] < 0) Recall(-1 - guard.dims[d], trace_.values[v].step);
  if (!deopt::CheckInput(guard, x, trace_.ranges, symbols_, failure) ||
      (guard.mask != tracer::MaskShape::unknown && !LookAtMask(v, x, failure))) [[unlikely]] {
    if (failure != nullptr) {
      failure->value = v;
      failure->reason = deopt::Info(failure->guard).reason;
    }
    return false;
  }
  View& view = views_[v];
  if (guard.layout != deopt::InputGuard::Layout::exact) {
    for (int d = 0; d < view.rank; ++d) {
      if (view.dims[d] != x.dims[d] || view.strides[d] != x.strides[d]) ChangeShapes();
      view.dims[d] = x.dims[d];
      view.strides[d] = x.strides[d];
    }
  }
  data_[v] = view.data = x.data;
  if (!borrows_) x.Retain();
  if (tensors_[v] != nullptr) tensors_[v]->Release();
  tensors_[v] = &x;
  return true;
}

absl::Span<const ir::Attr> Activation::AttrsOf(int step) {
  const TraceStep& s = trace_.steps[step];
  if (!trace_.is_eager && !step_attrs_[step].empty()) return step_attrs_[step];
  if (!trace_.is_eager || trace_.symbols == nullptr) return s.attrs;
  if (!layout_.steps[step].attrs_vary) return s.attrs;
  step_attrs_.resize(trace_.steps.size());
  std::vector<ir::Attr>& attrs = step_attrs_[step];
  attrs = s.attrs;
  for (ir::Attr& a : attrs) {
    if (auto* ints = std::get_if<ir::Ints>(&a))
      for (int64_t& i : *ints) i = Evaluate(i);
  }
  return attrs;
}

int64_t Activation::Expression(int16_t index) {
  if (!expression_known_[index]) {
    expression_values_[index] = Evaluate(layout_.expressions[index]);
    expression_known_[index] = 1;
  }
  return expression_values_[index];
}

int64_t Activation::Evaluate(int64_t dim) const {
  return ir::IsSymbol(dim) ? trace_.symbols->Evaluate(dim, symbols_) : dim;
}

bool Activation::SetAttrs(int step, absl::Span<const ir::Attr> attrs, GuardFailure* failure) {
  const std::vector<ir::Attr>& want = trace_.steps[step].attrs;
  for (size_t a = 0; a < want.size(); ++a) {
    if (SameAttr(want[a], attrs[a])) [[likely]]
      continue;
    bool same = want[a].index() == attrs[a].index();
    const auto* ints = std::get_if<ir::Ints>(&want[a]);
    if (same && ints != nullptr && ints->size() == std::get<ir::Ints>(attrs[a]).size() && trace_.symbols != nullptr) {
      const ir::Ints& given = std::get<ir::Ints>(attrs[a]);
      for (size_t k = 0; k < ints->size() && same; ++k) {
        const int64_t symbol = ir::IsSymbol((*ints)[k]) ? tracer::NamedIndex(*trace_.symbols, (*ints)[k]) : -1;
        if (symbol >= 0) Recall(symbol, step);
        if (symbol >= 0 && symbols_[symbol] == -1) {
          same = given[k] != -1 && trace_.ranges[symbol].Has(given[k]);
          symbols_[symbol] = given[k];
          if (given[k] != last_symbols_[symbol]) ChangeShapes();
        } else {
          same = Evaluate((*ints)[k]) == given[k];
        }
      }
    } else {
      same = false;
    }
    if (same) continue;
    if (failure != nullptr) {
      failure->guard = deopt::GuardKind::scalar_value;
      failure->reason = deopt::DeoptReason::scalar;
      failure->expected = ir::ToString(want[a]);
      failure->seen = ir::ToString(attrs[a]);
    }
    return false;
  }
  return true;
}

bool Activation::SetRootAttrs(const std::vector<ir::Attr>* attrs, GuardFailure* failure) {
  for (int i : root_symbolic_) {
    const TraceStep& s = trace_.steps[i];
    const std::vector<ir::Attr>& given = attrs[s.attrs_index];
    if (given == step_attrs_[i]) continue;
    if (!s.infer_at_run && given != s.attrs) return OtherAttrs(s, given, failure);
    step_attrs_[i] = given;
    ChangeShapes();
  }
  return true;
}

bool Activation::SetDims(ValueId v) {
  View& view = views_[v];
  for (int d = 0; d < view.rank; ++d) {
    const int16_t e = layout_.dim(v, d);
    if (e < 0) continue;
    view.dims[d] = Expression(e);
    if (view.dims[d] < 0) return false;
  }
  return true;
}

bool Activation::SetShape(int32_t index) {
  const ValueId v = layout_.shapes[static_cast<size_t>(index)];
  Shape& shape = shapes_[static_cast<size_t>(index)];
  int64_t size = 1;
  for (int d = trace_.values[v].type.rank - 1; d >= 0; --d) {
    const int16_t e = layout_.dim(v, d);
    const int64_t dim = e < 0 ? trace_.values[v].type.dims[d] : Expression(e);
    if (dim < 0) return false;
    shape.dims[d] = dim;
    shape.strides[d] = size;
    size *= std::max<int64_t>(dim, 1);
  }
  // Strides count as if no dim were 0.
  for (int d = 0; d < trace_.values[v].type.rank; ++d)
    if (shape.dims[d] == 0) size = 0;
  shape.size = size;
  return true;
}

bool Activation::ResolveAll(GuardFailure* failure, int* failed) {
  const auto resolve = [&](int i) {
    if (ResolveStep(i, failure)) return true;
    *failed = i;
    return false;
  };
  // Once every step was resolved, those that never vary stay as they are.
  if (bound_once_) return std::all_of(symbolic_.begin(), symbolic_.end(), resolve);
  for (int i = 0; i < static_cast<int>(trace_.steps.size()); ++i)
    if (!resolve(i)) return false;
  return true;
}

bool Activation::ResolveRest(int step) {
  const std::vector<int32_t>& alone = layout_.resolved_alone;
  const auto stop = std::lower_bound(alone.begin(), alone.end(), step);
  int until = stop == alone.end() ? static_cast<int>(trace_.steps.size()) : *stop, resolved = -1;
  if (step >= until || std::find(symbols_.begin(), symbols_.end(), -1) != symbols_.end()) return false;
  const auto& varying = layout_.varying_results;
  auto it = std::lower_bound(varying.begin(), varying.end(), step,
                             [](const Layout::VaryingResult& r, int s) { return r.step < s; });
  for (; it != varying.end() && it->step < until; ++it) {
    const Layout::VaryingResult& r = *it;
    if (r.shape >= 0) {
      const Shape* shape = ShapeOf(r.shape);
      if (shape == nullptr) return false;
      SetView(r.value, *shape);
    } else if (std::exchange(resolved, r.step) != r.step && !ResolveStep(r.step, nullptr)) {
      return false;
    }
    TensorImpl* t = tensors_[r.value];
    if (t == nullptr) continue;
    if (!t->dropped()) {
      until = r.step;
      break;
    }
    const View& view = views_[r.value];
    for (int d = 0; d < r.rank; ++d) {
      t->dims[d] = view.dims[d];
      t->strides[d] = view.strides[d];
    }
  }
  resolved_until_ = until == static_cast<int>(trace_.steps.size()) ? INT_MAX : until;
  return step < until;
}

bool Activation::ResolveStep(int step, GuardFailure* failure) {
  const Layout::Step& brief = layout_.steps[step];
  if (trace_.is_eager && bound_once_ && !brief.varies) return true;
  const auto refuse = [&] {
    if (failure != nullptr) {
      failure->guard = deopt::GuardKind::exact_dim;
      failure->reason = deopt::DeoptReason::shape;
      failure->expected = "operands as recorded";
      failure->seen = "operands that the op refuses";
    }
    return false;
  };
  const auto differs = [&](int64_t given, int64_t wanted) {
    refuse();
    if (failure == nullptr) return false;
    failure->expected = wanted < 0 ? "a dim of the result within the range that was seen" : absl::StrCat(wanted);
    failure->seen = absl::StrCat(given);
    return false;
  };
  if (brief.is_simple && (trace_.is_eager || step_attrs_[step].empty())) {
    for (uint32_t k = brief.results; k < brief.results + brief.num_out; ++k) {
      const ValueId v = layout_.results[k];
      if (layout_.shape_of[v] < 0) {
        views_[v].SetContiguousStrides();
        continue;
      }
      const Shape* shape = ShapeOf(layout_.shape_of[v]);
      if (shape == nullptr) return refuse();
      SetView(v, *shape);
    }
    return true;
  }
  const TraceStep& s = trace_.steps[step];
  if (s.kind != TraceStep::Kind::op) return true;
  if (!trace_.is_eager && s.frame > 0 && !step_attrs_[step].empty() && trace_.symbols != nullptr) {
    const tracer::TraceFrame& frame = trace_.frames[s.frame];
    absl::InlinedVector<const TensorType*, 8> types;
    for (ValueId v : frame.args) types.push_back(&views_[v]);
    absl::InlinedVector<int64_t, 8> values;
    std::vector<ir::Attr> given = s.attrs;
    if (interp::Bind(*frame.code, types, &values).ok())
      given = interp::ResolveAttrs(*frame.code, values)[s.attrs_index];
    if (!s.infer_at_run && given != s.attrs) return OtherAttrs(s, given, failure);
    // A step whose attributes are the same every time is bound to them once.
    if (given != step_attrs_[step]) step_attrs_[step] = std::move(given);
  }
  const ir::OpInfo& op = ir::Info(s.op);
  // With other attributes a rule may refuse what it took before: a slice that lies outside, say.
  if (s.infer_at_run || brief.attrs_vary) {
    absl::InlinedVector<const TensorType*, 8> in;
    for (ValueId v : s.in) {
      in.push_back(v == kNoValue        ? nullptr
                   : number_of_[v] >= 0 ? static_cast<const TensorType*>(&numbers_[number_of_[v]])
                                        : &views_[v]);
    }
    absl::InlinedVector<TensorType, 2> out(s.out.size());
    if (!ir::Infer({op, in, AttrsOf(step), nullptr}, absl::MakeSpan(out)).ok()) return refuse();
    const bool all_known = std::find(symbols_.begin(), symbols_.end(), -1) == symbols_.end();
    for (size_t k = 0; k < s.out.size(); ++k) {
      const TensorType& want = trace_.values[s.out[k]].type;
      if (out[k].rank != want.rank || out[k].dtype != want.dtype) return refuse();
      for (int d = 0; d < want.rank; ++d) {
        const int64_t given = out[k].dims[d], wanted = want.dims[d];
        const int64_t symbol = ir::IsSymbol(wanted) ? tracer::NamedIndex(*trace_.symbols, wanted) : -1;
        views_[s.out[k]].dims[d] = given;
        if (symbol >= 0 && symbols_[symbol] == -1) {
          if (!trace_.ranges[symbol].Has(given)) return differs(given, -1);
          symbols_[symbol] = given;
        } else if (symbol >= 0 || !ir::IsSymbol(wanted) || all_known) {
          if (const int64_t now = Evaluate(wanted); now != given) return differs(given, now);
        }
      }
    }
  } else {
    for (ValueId v : s.out)
      if (!SetDims(v)) return refuse();
  }
  if (op.impl != ir::Impl::view) {
    for (ValueId v : s.out) views_[v].SetContiguousStrides();
    return true;
  }
  // Strides of views, so that a handle can be asked for them; where the data has to be copied, the result is row-major.
  View source = number_of_[s.in[0]] >= 0 ? static_cast<const View&>(numbers_[number_of_[s.in[0]]]) : views_[s.in[0]];
  source.data = kSomewhere;
  const View* in = &source;
  absl::InlinedVector<View*, 4> out;
  for (ValueId v : s.out) out.push_back(&views_[v]);
  if (!interp::MakeViews({op, {&in, 1}, absl::MakeSpan(out), AttrsOf(step)})) {
    for (ValueId v : s.out) views_[v].SetContiguousStrides();
  }
  return true;
}

bool Activation::TakeOver(Activation& from, int steps) {
  Begin();
  for (int i = 0; i < steps; ++i) {
    const Layout::Step& step = layout_.steps[i];
    for (uint32_t k = step.operands; k < step.operands + step.num_in; ++k) {
      const Layout::Operand& o = layout_.operands[k];
      if (o.kind == Layout::Operand::Kind::number && !SetNumber(o.number, from.number_bits_[o.number])) return false;
      if (o.kind == Layout::Operand::Kind::new_input && from.tensors_[o.value] != tensors_[o.tensor] &&
          !SetInput(o, *from.tensors_[o.value], nullptr)) {
        return false;
      }
    }
    if (step.has_attrs && !SetAttrs(i, from.AttrsOf(i), nullptr)) return false;
    if (!Resolve(i, nullptr)) return false;
  }
  for (int i = 0; i < steps; ++i) {
    const Layout::Step& step = layout_.steps[i];
    for (uint32_t k = step.results; k < step.results + step.num_out; ++k) {
      const ValueId v = layout_.results[k];
      // Ours go: they have the shapes of our last run, and the other version could not tell.
      if (tensors_[v] != nullptr && tensors_[v]->dropped()) tensors_[v]->DestroyDropped();
      tensors_[v] = std::exchange(from.tensors_[v], nullptr);
    }
  }
  return true;
}

TensorImpl* Activation::SpareHandle(ValueId v, rt::Watcher* watcher) const {
  TensorImpl* const t = TensorImpl::New();
  t->dtype = views_[v].dtype;
  t->rank = views_[v].rank;
  TakeDims(*t, views_[v]);
  t->set_storage(nothing_);
  t->set_slot(static_cast<uint32_t>(v));
  t->set_watcher(watcher);
  t->MarkDropped();
  return t;
}

TensorImpl* Activation::NewHandle(ValueId v, rt::Watcher* watcher) {
  TensorImpl*& t = tensors_[v];
  if (t == nullptr || !t->dropped())
    t = SpareHandle(v, watcher);
  else
    TakeDims(*t, views_[v]);
  t->StartWaiting();
  return t;
}

absl::Status Activation::Run(int to) {
  if (shapes_changed_) {
    TSR_RETURN_IF_ERROR(Prepare(to));
    // A function may leave at every run before the end; what was prepared in one go serves the next run all the same.
    if (!trace_.is_eager && to == static_cast<int>(trace_.steps.size())) {
      prepared_ = true;
      shapes_changed_ = false;
    }
  }
  TSR_RETURN_IF_ERROR(Place(to));
  TSR_RETURN_IF_ERROR(RunSteps(to));
  if (position_ == static_cast<int>(trace_.steps.size())) prepared_ = bound_once_ = true;
  return absl::OkStatus();
}

int64_t Activation::Size() const {
  if (trace_.symbols == nullptr) return 0;
  int64_t size = 0;
  for (size_t v = 0; v < views_.size(); ++v)
    if (number_of_[v] < 0) size += views_[v].size();
  return size;
}

int Activation::ReleaseHandles() {
  for (ValueId v : published_) std::exchange(tensors_[v], nullptr)->Release();
  published_.clear();
  return std::exchange(escaped_, 0);
}

}  // namespace tessera::tiers
