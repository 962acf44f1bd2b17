#include "tracer/eager_recorder.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "runtime/clock.h"

namespace tessera::tracer {
namespace {

using rt::TensorImpl;

// The counter may tick more slowly than a small op runs; none takes less than this, over all of them.
constexpr int64_t kLeastNs = 20;

// Steps of an aborted recording up to which its memory is kept: about a megabyte.
constexpr size_t kMostSpare = 4096;

// Inputs of so many bytes are looked at once in a while, whether the program still has them.
constexpr size_t kLarge = size_t{1} << 20;
constexpr int kLookEvery = 8;  // steps

int32_t AlignmentOf(const void* data) {
  const uintptr_t low = reinterpret_cast<uintptr_t>(data) & 63;
  return low == 0 ? 64 : static_cast<int32_t>(low & -low);
}

void SetType(TraceValue& value, const TensorType& type) {
  value.type.dtype = type.dtype;
  value.type.rank = type.rank;
  value.type.weak = type.weak;
  for (int d = 0; d < type.rank; ++d) value.type.dims[d] = type.dims[d];
}

std::string NameOf(const interp::EagerCall& call) {
  const interp::Source source = call.source();
  if (source.file == nullptr) return absl::StrCat("op ", std::string(ir::Info(call.op).name));
  const std::string_view file = source.file;
  return absl::StrCat(std::string(file.substr(file.rfind('/') + 1)), ":", source.line);
}

}  // namespace

const void* ThisThread() {
  static thread_local char marker;
  return &marker;
}

void EagerRecorder::Begin(uint64_t config_epoch) {
  std::lock_guard lock(mutex_);  // a tensor of the last recording may be dying in another thread just now
  trace_ = std::make_shared<Trace>();
  trace_->is_eager = true;
  trace_->config_epoch = config_epoch;
  trace_->steps.swap(spare_.steps);
  trace_->values.swap(spare_.values);
  thread_ = ThisThread();
  was_read_ = false;
  read_elsewhere_.store(false, std::memory_order_relaxed);
  start_ns_ = rt::NowNs();
  start_ticks_ = rt::Ticks();
}

ValueId EagerRecorder::Operand(const View& v, int step) {
  Trace& t = *trace_;
  if (v.weak) {
    TraceValue& value = t.values.emplace_back();
    SetType(value, v);
    value.step = step;
    value.kind = TraceValue::Kind::number;
    if (v.dtype == DType::boolean)
      value.number.i = *v.as<bool>();
    else
      std::memcpy(&value.number, v.data, sizeof value.number);
    return static_cast<ValueId>(t.values.size() - 1);
  }
  auto& x = const_cast<TensorImpl&>(static_cast<const TensorImpl&>(v));
  if (x.watcher() == this) return static_cast<ValueId>(x.slot());
  // The same few tensors come again and again.
  Known& known = known_[(reinterpret_cast<uintptr_t>(&x) >> 6) % std::size(known_)];
  if (known.tensor == &x) return known.value;
  auto [it, fresh] = inputs_.try_emplace(&x, static_cast<ValueId>(t.values.size()));
  known = {&x, it->second};
  if (!fresh) return it->second;
  (x.storage()->bytes() >= kLarge ? large_ : held_).push_back(rt::Ref<TensorImpl>::Share(&x));
  TraceValue& value = t.values.emplace_back();
  SetType(value, x);
  value.step = step;
  value.kind = TraceValue::Kind::input;
  value.alignment = AlignmentOf(x.data);
  value.strides.assign(x.strides, x.strides + x.rank);
  return it->second;
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
  std::lock_guard lock(mutex_);
  Trace& t = *trace_;
  const int step = static_cast<int>(t.steps.size());
  if (step % kLookEvery == 0 && !large_.empty()) LetGo();
  if (step == 0) {
    t.name = NameOf(call);
    t.device = out.empty() ? &call.default_device() : &out[0]->device();
  }
  TraceStep& s = t.steps.emplace_back();
  s.op = call.op;
  if (!call.attrs.empty()) s.attrs.assign(call.attrs.begin(), call.attrs.end());
  s.site = call.site;
  s.path = call.path;
  s.source = call.source();
  s.ns = ticks;  // until Finish()
  for (const View* v : call.in) s.in.push_back(v == nullptr ? kNoValue : Operand(*v, step));
  for (TensorImpl* y : out) {
    const auto v = static_cast<ValueId>(t.values.size());
    s.out.push_back(v);
    TraceValue& value = t.values.emplace_back();
    SetType(value, *y);
    value.step = step;
    // Only what is listed here may name this as its watcher: without memory for the list, Finish() would not find it.
    while (live_.size() < t.values.size() - 1) live_.push_back(nullptr);
    live_.push_back(y);
    y->set_slot(static_cast<uint32_t>(v));
    y->set_watcher(this);
  }
  t.tier1_ns += ticks;  // the same
}

std::shared_ptr<Trace> EagerRecorder::Close() {
  std::shared_ptr<Trace> trace;
  {
    std::lock_guard lock(mutex_);
    for (TensorImpl* y : live_)
      if (y != nullptr) y->set_watcher(nullptr);
    live_.clear();
    trace = std::move(trace_);
  }
  inputs_.clear();
  std::fill(std::begin(known_), std::end(known_), Known{});
  held_.clear();
  large_.clear();
  return trace;
}

std::shared_ptr<Trace> EagerRecorder::Finish(TraceEnd end) {
  std::shared_ptr<Trace> trace = Close();
  if (trace == nullptr || trace->steps.empty()) return nullptr;
  trace->steps.shrink_to_fit();
  trace->values.shrink_to_fit();
  const int64_t ticks = rt::Ticks() - start_ticks_;
  const double ns_per_tick = ticks > 0 ? static_cast<double>(rt::NowNs() - start_ns_) / static_cast<double>(ticks) : 0;
  for (TraceStep& s : trace->steps) s.ns = static_cast<int64_t>(static_cast<double>(s.ns) * ns_per_tick);
  trace->tier1_ns = std::max(static_cast<int64_t>(static_cast<double>(trace->tier1_ns) * ns_per_tick),
                             kLeastNs * static_cast<int64_t>(trace->steps.size()));
  trace->end = end;
  return trace;
}

void EagerRecorder::Abort() {
  const std::shared_ptr<Trace> trace = Close();
  if (trace == nullptr || trace->steps.size() > kMostSpare) return;
  trace->steps.clear();
  trace->values.clear();
  spare_.steps.swap(trace->steps);
  spare_.values.swap(trace->values);
}

std::vector<int> EagerRecorder::LiveCounts() const {
  const size_t n = trace_->steps.size();
  std::vector<int> live(n + 2, 0);
  for (const TraceValue& v : trace_->values) {
    if (v.kind != TraceValue::Kind::result) continue;
    ++live[static_cast<size_t>(v.step) + 1];
    --live[std::min<size_t>(static_cast<size_t>(v.death), n + 1)];
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
  std::lock_guard lock(mutex_);
  if (x.slot() >= live_.size() || live_[x.slot()] != &x) return;
  live_[x.slot()] = nullptr;
  // The trace ends at the read: what dies after it was alive at the end.
  if (was_read_.load(std::memory_order_relaxed)) return;
  trace_->values[x.slot()].death = static_cast<int32_t>(trace_->steps.size());
}

}  // namespace tessera::tracer
