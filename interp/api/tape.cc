#include "interp/api/tape.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "interp/api/eager.h"
#include "interp/api/tape_record.h"
#include "runtime/options.h"
#include "runtime/per_thread.h"

namespace tessera::api {
namespace internal {
std::atomic<int> g_tapes{0};
}

using rt::TensorImpl;

/// The tapes of a thread, the newest first.
struct TapeThread {
  TapeRecord* top = nullptr;
  int paused = 0;
  const char* paused_of = nullptr;

  /// Does one that remembers know it?
  bool Knows(const TensorImpl& x) const {
    for (const TapeRecord* tape = top; tape != nullptr; tape = tape->below_)
      if (!tape->busy_ && tape->SlotOf(x) >= 0) return true;
    return false;
  }
  void Retire() {
    while (top != nullptr) top->Close();
  }
  void Fold() {}
};

namespace {

TapeThread& Mine() {
  TapeThread* t = rt::PerThread<TapeThread>::Get();
  if (t == nullptr) Throw(ResourceExhausted("no memory for a tape, or the thread is past its end"));
  return *t;
}

TensorImpl& TensorOf(const View* v) { return const_cast<TensorImpl&>(static_cast<const TensorImpl&>(*v)); }

std::string Place(const std::source_location* where) {
  if (where == nullptr || where->line() == 0) return "";
  const std::string_view file = where->file_name();
  return absl::StrCat(" (at ", std::string(file.substr(file.rfind('/') + 1)), ":", where->line(), ")");
}

[[noreturn]] void ThrowLost(const char* scope, size_t operand, const std::string& of) {
  Throw(InvalidArgument(scope, ": operand ", operand, " of ", of,
                        " is watched by a tape and not one of the inputs, so its gradient would be lost; make it one "
                        "of them"));
}

ir::Immediate NumberIn(const View& v) {
  switch (KindOf(v.dtype)) {
    case DTypeKind::floating: return *v.as<double>();
    case DTypeKind::integer: return *v.as<int64_t>();
    case DTypeKind::boolean: return *v.as<bool>();
  }
  return false;
}

}  // namespace

TapeRecord::TapeRecord(bool once) : thread_(&Mine()), once_(once) {
  SetLimit(rt::options().tape_bytes());
  below_ = std::exchange(thread_->top, this);
  internal::g_tapes.fetch_add(1, std::memory_order_relaxed);
}

TapeRecord::~TapeRecord() { Close(); }

void TapeRecord::Close() {
  if (thread_ == nullptr) return;
  TapeRecord** at = &thread_->top;
  while (*at != this) at = &(*at)->below_;
  *at = below_;
  thread_ = nullptr;
  internal::g_tapes.fetch_sub(1, std::memory_order_relaxed);
}

void TapeRecord::CheckThread(const char* what) const {
  if (thread_ != rt::PerThread<TapeThread>::Peek())
    Throw(InvalidArgument(what, ": the tape belongs to another thread; use it on the one that made it"));
}

int32_t TapeRecord::SlotOf(const TensorImpl& x) const {
  const uint64_t number = x.number();
  if (number == 0) return -1;
  const auto it = slots_.find(number);
  return it == slots_.end() ? -1 : it->second;
}

int32_t TapeRecord::NewSlot(TensorImpl& x) {
  const auto [it, fresh] = slots_.try_emplace(x.EnsureNumber(), num_slots_);
  num_slots_ += fresh;
  return it->second;
}

void TapeRecord::Watch(const Tensor& x) {
  TypeOf(x, "watch");
  if (!IsFloat(x.waiting_impl()->dtype)) {
    Throw(InvalidArgument("watch: ", ToString(static_cast<const TensorType&>(*x.waiting_impl())),
                          " has no gradient; only tensors of a floating type do"));
  }
  if (used_) Throw(InvalidArgument("watch: the tape has given its gradient; make another one, or one of Use::many"));
  CheckThread("watch");
  const int32_t before = num_slots_;
  NewSlot(*x.waiting_impl());
  if (store_ != nullptr && num_slots_ != before) store_->AddGiven(x);
}

TapeRecord::Saved TapeRecord::Result(TensorImpl& x, bool keep, const TapeStore::Made& made,
                                     absl::Span<const int32_t> operands) {
  Saved s;
  s.kind = ir::Operand::Kind::value;
  s.type = x;
  const int32_t before = num_slots_;
  if (IsFloat(x.dtype)) s.slot = NewSlot(x);
  if (store_ != nullptr && num_slots_ != before) store_->AddResult(made, operands);
  if (keep && store_ != nullptr && s.slot >= 0) {
    store_->Keep(s.slot, x);
    s.is_kept = true;
  } else if (keep) {
    x.Retain();
    s.value = Tensor::Adopt(&x);
  }
  return s;
}

void TapeRecord::Record(const interp::EagerCall& call, absl::Span<TensorImpl* const> out) {
  absl::InlinedVector<int32_t, 8> slots(call.in.size(), -1);
  bool known = false;
  for (size_t i = 0; i < call.in.size(); ++i) {
    const View* v = call.in[i];
    if (v == nullptr || v->weak || !IsFloat(v->dtype)) continue;
    slots[i] = SlotOf(TensorOf(v));
    known |= slots[i] >= 0;
  }
  if (!known) return;
  const ir::OpInfo& info = ir::Info(call.op);
  if (info.grad == ir::Grad::zero) return;
  bool floating = false;
  for (TensorImpl* y : out) floating |= IsFloat(y->dtype);
  if (!floating) return;

  Node& node = nodes_.emplace_back();
  node.op = call.op;
  node.rule = info.grad == ir::Grad::diff ? ir::FindGradRule(call.op) : nullptr;
  uint32_t needs = 0;
  for (size_t i = 0; node.rule != nullptr && i < std::min(slots.size(), node.rule->needs.size()); ++i)
    if (slots[i] >= 0) needs |= node.rule->needs[i];
  node.attrs.assign(call.attrs.begin(), call.attrs.end());
  node.site = call.site;
  if (call.where != nullptr) node.where = *call.where;
  node.device = &out[0]->device();
  node.in.resize(call.in.size());
  const bool limited = store_ != nullptr;
  for (size_t i = 0; i < call.in.size(); ++i) {
    const View* v = call.in[i];
    Saved& s = node.in[i];
    if (v == nullptr) continue;
    s.type = *v;
    if (v->weak) {
      s.kind = ir::Operand::Kind::immediate;
      s.number = NumberIn(*v);
      continue;
    }
    s.kind = ir::Operand::Kind::value;
    s.slot = slots[i];
    const bool needed = i < ir::kResultBit && (needs >> i & 1) != 0;
    // Under a limit the op may run again: what no op of the tape can make stays for it.
    if (limited && s.slot >= 0) {
      s.is_kept = needed || (!store_->can_repeat(s.slot) && store_->maker(s.slot).node >= 0);
      if (s.is_kept) store_->Keep(s.slot, TensorOf(v));
    } else if (needed || limited) {
      TensorOf(v).Retain();
      s.value = Tensor::Adopt(&TensorOf(v));
    }
  }
  node.out.reserve(out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t bit = ir::kResultBit + i;
    node.out.push_back(Result(*out[i], bit < 32 && (needs >> bit & 1) != 0,
                              limited ? Describe(node, i, *out[i]) : TapeStore::Made(), slots));
  }
  if (limited) store_->MakeRoom();
}

void TapeRecord::RecordCustom(const char* name, const std::vector<Tensor>& inputs, const std::vector<Tensor>& results,
                              const std::shared_ptr<const Backward>& backward, const void* site) {
  std::vector<Saved> in(inputs.size());
  bool known = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorImpl& x = TypeOf(inputs[i], name);
    in[i].kind = ir::Operand::Kind::value;
    in[i].type = x;
    if (IsFloat(x.dtype)) in[i].slot = SlotOf(x);
    known |= in[i].slot >= 0;
  }
  if (!known) return;
  Node& node = nodes_.emplace_back();
  node.custom = name;
  node.backward = backward;
  node.in = std::move(in);
  node.site = site;
  for (const Tensor& y : results) {
    TapeStore::Made made;
    made.maker.node = static_cast<int32_t>(nodes_.size()) - 1;
    made.bytes = y.waiting_impl()->size() * static_cast<int64_t>(SizeOf(y.waiting_impl()->dtype));
    made.can_repeat = false;
    node.out.push_back(Result(*y.waiting_impl(), false, made, {}));
  }
  node.device = results.empty() ? &DefaultDevice() : &results[0].waiting_impl()->device();
}

std::string TapeRecord::NameOf(const Node& node) const {
  return absl::StrCat(node.custom != nullptr ? std::string(node.custom) : std::string(ir::Info(node.op).name),
                      Place(&node.where));
}

void RecordOp(const interp::EagerCall& call, absl::Span<TensorImpl* const> out) {
  TapeThread* t = rt::PerThread<TapeThread>::Peek();
  if (t == nullptr || t->top == nullptr) return;
  if (t->paused == 0) {
    for (TapeRecord* tape = t->top; tape != nullptr; tape = tape->below_)
      if (!tape->busy_) tape->Record(call, out);
    return;
  }
  if (t->paused_of == nullptr) return;
  for (size_t i = 0; i < call.in.size(); ++i) {
    const View* v = call.in[i];
    if (v == nullptr || v->weak || !t->Knows(TensorOf(v))) continue;
    ThrowLost(t->paused_of, i, absl::StrCat(std::string(ir::Info(call.op).name), Place(call.where)));
  }
}

void RecordCustom(const char* name, const std::vector<Tensor>& inputs, const std::vector<Tensor>& results,
                  Backward backward, const void* site) {
  TapeThread* t = rt::PerThread<TapeThread>::Peek();
  if (t == nullptr || t->top == nullptr) return;
  if (t->paused > 0) {
    for (size_t i = 0; t->paused_of != nullptr && i < inputs.size(); ++i)
      if (inputs[i].defined() && t->Knows(*inputs[i].waiting_impl())) ThrowLost(t->paused_of, i, name);
    return;
  }
  const auto shared = std::make_shared<const Backward>(std::move(backward));
  for (TapeRecord* tape = t->top; tape != nullptr; tape = tape->below_)
    if (!tape->busy_) tape->RecordCustom(name, inputs, results, shared, site);
}

bool IsWatched(const std::vector<Tensor>& inputs) {
  const TapeThread* t = AnyTapes() ? rt::PerThread<TapeThread>::Peek() : nullptr;
  if (t == nullptr || t->paused > 0) return false;
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const Tensor& x) { return x.defined() && t->Knows(*x.waiting_impl()); });
}

PauseTapes::PauseTapes(const char* of) {
  TapeThread& t = Mine();
  ++t.paused;
  old_of_ = std::exchange(t.paused_of, of);
}

PauseTapes::~PauseTapes() {
  TapeThread* t = rt::PerThread<TapeThread>::Peek();
  --t->paused;
  t->paused_of = old_of_;
}

}  // namespace tessera::api
