#include "tracer/eager_recorder.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "runtime/clock.h"

namespace tessera::tracer {
namespace {

using rt::TensorImpl;

// Inputs of so many bytes are looked at once in a while, whether the program still has them.
constexpr size_t kLarge = size_t{1} << 20;
constexpr int kLookEvery = 8;  // steps

}  // namespace

const void* ThisThread() {
  // A load from the thread pointer, where a shared library would call.
  [[gnu::tls_model("initial-exec")]] static thread_local char marker;
  return &marker;
}

void EagerRecorder::Begin(uint64_t config_epoch) {
  std::unique_ptr<EagerNotes, RecordingDone> notes = SpareNotes<EagerNotes>::Take();
  notes->Fetch();
  notes->trace = std::make_shared<Trace>();
  notes->trace->is_eager = true;
  notes->trace->config_epoch = config_epoch;
  thread_ = ThisThread();
  was_read_ = false;
  read_elsewhere_.store(false, std::memory_order_relaxed);
  position_.store(0, std::memory_order_relaxed);
  {
    std::lock_guard lock(mutex_);  // a tensor of the last recording may be dying in another thread just now
    notes_ = std::move(notes);
  }
  start_ns_ = rt::NowNs();
  start_ticks_ = rt::Ticks();
}

inline void EagerRecorder::AddLife(TensorImpl* tensor) {
  Chunked<EagerNotes::Life>& lives = notes_->lives;
  std::unique_lock<std::mutex> lock;
  if (lives.full()) [[unlikely]]
    lock = std::unique_lock(mutex_);
  lives.emplace_back(tensor);
}

inline ValueId EagerRecorder::Operand(const View& v, int step) {
  if (!v.weak) [[likely]] {
    auto& x = const_cast<TensorImpl&>(static_cast<const TensorImpl&>(v));
    if (x.watcher() == this) return static_cast<ValueId>(x.slot());
    // The same few tensors come again and again.
    const Known& known = known_[(reinterpret_cast<uintptr_t>(&x) >> 6) % std::size(known_)];
    if (known.tensor == &x) return known.value;
  }
  return NewOperand(v, step);
}

ValueId EagerRecorder::NewOperand(const View& v, int step) {
  ValueNotes& values = notes_->values;
  if (v.weak) {
    int64_t bits = 0;
    if (v.dtype == DType::boolean)
      bits = *v.as<bool>();
    else
      std::memcpy(&bits, v.data, sizeof bits);
    AddLife(nullptr);
    return values.AddNumber(v, bits, step, /*is_fixed=*/false);
  }
  auto& x = const_cast<TensorImpl&>(static_cast<const TensorImpl&>(v));
  auto [it, fresh] = inputs_.try_emplace(&x, static_cast<ValueId>(values.size()));
  known_[(reinterpret_cast<uintptr_t>(&x) >> 6) % std::size(known_)] = {&x, it->second};
  if (!fresh) return it->second;
  (x.storage()->bytes() >= kLarge ? large_ : held_).push_back(rt::Ref<TensorImpl>::Share(&x));
  AddLife(nullptr);
  return values.AddInput(x, step);
}

void EagerRecorder::LetGo() {
  const auto dropped = [&](const rt::Ref<TensorImpl>& x) {
    if (!x->unique()) return false;
    // Its address may come to name another tensor.
    inputs_.erase(x.get());
    Known& known = known_[(reinterpret_cast<uintptr_t>(x.get()) >> 6) % std::size(known_)];
    if (known.tensor == x.get()) known = {};
    return true;
  };
  large_.erase(std::remove_if(large_.begin(), large_.end(), dropped), large_.end());
}

void EagerRecorder::Add(const interp::EagerCall& call, absl::Span<TensorImpl* const> out, int64_t ticks) {
  EagerNotes& n = *notes_;
  const int step = static_cast<int>(n.steps.size());
  if (step % kLookEvery == 0 && !large_.empty()) LetGo();
  if (step == 0) n.trace->device = out.empty() ? &call.default_device() : &out[0]->device();
  for (const View* v : call.in) n.operands.emplace_back(v == nullptr ? kNoValue : Operand(*v, step));
  if (call.op == ir::Op::k_attention && call.in.size() > kMaskOperand && call.in[kMaskOperand] != nullptr &&
      !call.in[kMaskOperand]->weak) {
    n.values.SetMask(n.operands[n.operands.size() - call.in.size() + kMaskOperand],
                     static_cast<const TensorImpl&>(*call.in[kMaskOperand]));
  }
  EagerNotes::Step& s = n.steps.emplace_back();
  s.site = call.site;
  s.path = call.path;
  if (call.text != nullptr) {
    s.source = &n.sources.emplace_back(*call.text);
    s.is_text = 1;
  } else if (call.where != nullptr) {
    s.where = *call.where;
  }
  s.ticks = ticks;
  s.attrs = n.attrs.Add(call.attrs) & EagerNotes::kMostAttrs;
  s.num_in = static_cast<uint16_t>(call.in.size());
  s.num_out = static_cast<uint16_t>(out.size());
  s.op = static_cast<uint8_t>(call.op);
  position_.store(step + 1, std::memory_order_relaxed);
  for (TensorImpl* y : out) {
    // Only what has a life here may name this as its watcher: without memory for it, Close() would not find it.
    AddLife(y);
    y->set_slot(static_cast<uint32_t>(n.values.Add(TraceValue::Kind::result, *y, step)));
    y->set_watcher(this);
  }
}

std::unique_ptr<EagerNotes, RecordingDone> EagerRecorder::Close() {
  std::unique_ptr<EagerNotes, RecordingDone> notes;
  {
    std::lock_guard lock(mutex_);
    notes = std::move(notes_);
    if (notes == nullptr) return notes;
    for (EagerNotes::Life& life : notes->lives)
      if (TensorImpl* y = life.tensor()) y->set_watcher(nullptr);
  }
  inputs_.clear();
  std::fill(std::begin(known_), std::end(known_), Known{});
  held_.clear();
  large_.clear();
  return notes;
}

std::unique_ptr<EagerNotes, RecordingDone> EagerRecorder::Finish(TraceEnd end) {
  std::unique_ptr<EagerNotes, RecordingDone> notes = Close();
  if (notes == nullptr || notes->steps.empty()) return nullptr;
  const int64_t ticks = rt::Ticks() - start_ticks_;
  if (ticks > 0) notes->ns_per_tick = static_cast<double>(rt::NowNs() - start_ns_) / static_cast<double>(ticks);
  notes->trace->end = end;
  return notes;
}

void EagerRecorder::Abort() { Close(); }

std::vector<int> EagerRecorder::LiveCounts() const {
  const size_t n = notes_->steps.size();
  std::vector<int> live(n + 2, 0);
  for (size_t v = 0; v < notes_->values.size(); ++v) {
    const ValueNotes::Value& value = notes_->values[v];
    if (!value.is(TraceValue::Kind::result)) continue;
    ++live[static_cast<size_t>(value.step) + 1];
    --live[std::min(static_cast<size_t>(notes_->lives[v].death()), n + 1)];
  }
  for (size_t i = 1; i < live.size(); ++i) live[i] += live[i - 1];
  live.pop_back();
  return live;
}

absl::Status EagerRecorder::OnAccess(TensorImpl&) {
  if (ThisThread() == thread_)
    was_read_ = true;
  else
    read_elsewhere_.store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status EagerRecorder::OnOperand(TensorImpl&) {
  if (ThisThread() != thread_) read_elsewhere_.store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

void EagerRecorder::OnDeath(TensorImpl& x) {
  const bool is_mine = ThisThread() == thread_.load(std::memory_order_relaxed);
  std::unique_lock<std::mutex> lock;
  if (!is_mine) lock = std::unique_lock(mutex_);
  // Where the recording has ended in the meantime, it watches x no more.
  if (x.watcher() != this) return;
  // The trace ends at the read: what dies after it was alive at the end.
  const bool at_end = was_read_.load(std::memory_order_relaxed);
  notes_->lives[x.slot()].Die(at_end ? kAtEnd : position_.load(std::memory_order_relaxed));
}

}  // namespace tessera::tracer
