#include "tiers/function_place.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace tessera::tiers {
namespace {

using interp::AnchorSlot;
using interp::Bytecode;
using tracer::FunctionRecorder;
using tracer::TraceEnd;

// While a recording is open on a caller, arrivals within it are let pass in steps of this many.
constexpr int32_t kWhileRecording = 16;

FunctionRecorder::From FromOf(const AnchorSlot* slot) {
  if (slot == nullptr) return FunctionRecorder::From::exit;
  return slot->kind == AnchorSlot::Kind::loop ? FunctionRecorder::From::loop : FunctionRecorder::From::place;
}

std::string NameOf(const AnchorSlot* slot, const Bytecode& code, int pc) {
  const bool entry = slot != nullptr && slot->kind == AnchorSlot::Kind::function;
  const int line = entry ? code.source->loc.line : code.code[static_cast<size_t>(pc)].loc.line;
  return line > 0 ? absl::StrCat("@", code.name, ":", line) : absl::StrCat("@", code.name, " pc ", pc);
}

Anchor::Kind KindOf(const AnchorSlot* slot) {
  if (slot == nullptr) return Anchor::Kind::exit;
  return slot->kind == AnchorSlot::Kind::loop ? Anchor::Kind::loop : Anchor::Kind::function;
}

}  // namespace

// ---- FunctionVersion

FunctionVersion::FunctionVersion(rt::Ref<Version> v)
    : version(std::move(v)), exits(std::make_unique<Exit[]>(version->trace().steps.size() + 1)) {
  const Trace& trace = version->trace();
  absl::flat_hash_map<int32_t, ValueId> input_of;
  for (size_t i = 0; i < trace.values.size(); ++i) {
    if (trace.values[i].kind != TraceValue::Kind::input) continue;
    const std::vector<ValueId>& guarded = version->layout().guarded;
    const auto guard = std::find(guarded.begin(), guarded.end(), static_cast<ValueId>(i));
    inputs.push_back({static_cast<ValueId>(i), trace.values[i].reg,
                      guard == guarded.end() ? -1 : static_cast<int32_t>(guard - guarded.begin())});
    input_of[trace.values[i].reg] = static_cast<ValueId>(i);
  }
  for (const tracer::TraceFrame& f : trace.frames) {
    int depth = 0;
    for (int32_t p = f.parent; p >= 0; p = trace.frames[static_cast<size_t>(p)].parent) ++depth;
    inlined = std::max(inlined, depth);
  }
  const auto has = [&](TraceStep::Kind kind) {
    return std::any_of(trace.steps.begin(), trace.steps.end(), [&](const TraceStep& s) { return s.kind == kind; });
  };
  const bool calls = has(TraceStep::Kind::call);
  is_straight = trace.end == TraceEnd::returned && !calls;
  reads_buffers = trace.end != TraceEnd::loop && has(TraceStep::Kind::buffer_read) && !calls &&
                  !has(TraceStep::Kind::buffer_write) && !has(TraceStep::Kind::buffer_add);
  const bool ops_only = std::all_of(trace.steps.begin(), trace.steps.end(), [](const TraceStep& s) {
    return s.kind == TraceStep::Kind::op || s.kind == TraceStep::Kind::tensor || s.kind == TraceStep::Kind::buffer_read;
  });
  if (is_straight && ops_only) FindParameters();
  for (ValueId v : trace.results) taken.push_back(std::count(trace.results.begin(), trace.results.end(), v) == 1);
  if (trace.end == TraceEnd::stopped) {
    for (AnchorSlot& slot : trace.frames[0].code->anchors)
      if (slot.kind == AnchorSlot::Kind::loop && slot.pc == trace.end_pc) next = &slot;
  }
  if (trace.end != TraceEnd::loop) return;
  absl::flat_hash_map<int32_t, ValueId> at_end;
  for (const tracer::RegisterChange& c : trace.changes)
    if (c.frame == 0) at_end[c.reg] = c.value;
  absl::flat_hash_map<ValueId, int> places;
  for (const auto& [reg, value] : at_end) {
    const auto it = input_of.find(reg);
    const ValueId in = it == input_of.end() ? kNoValue : it->second;
    if (value == kNoValue)
      freed.push_back(reg);
    else if (in != value)
      carried.push_back({in, value, reg, false});
    ++places[value];
  }
  for (Activation::Carry& c : carried)
    c.moves = trace.values[c.out].kind == TraceValue::Kind::result && places[c.out] == 1;
}

void FunctionVersion::FindParameters() {
  const Bytecode& code = *version->trace().frames[0].code;
  for (const int32_t reg : code.params) {
    const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const Input& i) { return i.reg == reg; });
    if (input == inputs.end() || input->guard < 0 || version->layout().guards[input->guard].device == nullptr) return;
    parameters.push_back(*input);
  }
  is_plain = parameters.size() == inputs.size() && !parameters.empty() && !code.symbolic_attrs;
}

FunctionPlace& FunctionVersion::AddBridge(int step, const interp::Frame& frame) {
  std::lock_guard lock(mutex_);
  std::atomic<FunctionPlace*>& bridge = exits[static_cast<size_t>(step)].bridge;
  if (bridge.load(std::memory_order_relaxed) == nullptr) {
    bridges_.push_back(std::make_shared<FunctionPlace>(nullptr, *frame.code, frame.pc));
    bridge.store(bridges_.back().get(), std::memory_order_release);
  }
  return *bridge.load(std::memory_order_relaxed);
}

const deopt::Snapshot& FunctionVersion::SnapshotAt(int position) {
  std::atomic<const deopt::Snapshot*>& snapshot = exits[static_cast<size_t>(position)].snapshot;
  if (const deopt::Snapshot* known = snapshot.load(std::memory_order_acquire)) return *known;
  std::lock_guard lock(mutex_);
  if (snapshot.load(std::memory_order_relaxed) == nullptr) {
    snapshots_.push_back(std::make_unique<deopt::Snapshot>(deopt::TakeSnapshot(version->trace(), position)));
    snapshot.store(snapshots_.back().get(), std::memory_order_release);
  }
  return *snapshot.load(std::memory_order_relaxed);
}

// ---- FunctionPlace

FunctionPlace::FunctionPlace(AnchorSlot* slot, const Bytecode& code, int pc)
    : slot_(slot),
      from_(FromOf(slot)),
      name_(NameOf(slot, code, pc)),
      anchor_(Manager::Get().NewAnchor(KindOf(slot), name_)),
      owned_(std::make_shared<const Installed>()),
      installed_(owned_.get()) {}

FunctionPlace::~FunctionPlace() { Manager::Get().Forget(*anchor_); }

void FunctionPlace::Wait(int32_t arrivals) {
  (slot_ != nullptr ? slot_->countdown : wait_).store(arrivals, std::memory_order_relaxed);
}

Anchor::Action FunctionPlace::Arrive(const interp::Frame& frame) {
  if (slot_ == nullptr) {
    const int32_t left = wait_.load(std::memory_order_relaxed);
    if (left > 0) {
      wait_.store(left - 1, std::memory_order_relaxed);
      return Anchor::Action::wait;
    }
  }
  int32_t countdown = 1;
  const View* first = nullptr;  // argument
  if (anchor_->kind == Anchor::Kind::function && !frame.code->params.empty())
    first = frame.registers[frame.code->params[0]];
  const Anchor::Action action = anchor_->Arrive(&countdown, {&first, 1}, frame.device->kind() == rt::DeviceKind::cpu);
  Wait(slot_ != nullptr ? countdown : countdown - 1);
  return action;
}

void FunctionPlace::Record(interp::Frame& frame) {
  FunctionRecorder* recorder = FunctionRecorder::OfThread();
  if (recorder == nullptr || recorder->open()) return Wait(kWhileRecording);
  recorder->Begin(frame, from_, name_, shared_from_this());
}

const FunctionPlace::List& FunctionPlace::Install() {
  std::lock_guard lock(mutex_);
  const uint32_t generation = anchor_->generation();
  const List& old = owned_->versions;
  if (generation == owned_->generation) return old;
  auto now = std::make_shared<Installed>();
  now->generation = generation;
  for (const rt::Ref<Version>& v : anchor_->versions()) {
    auto it = std::find_if(old.begin(), old.end(), [&](const auto& f) { return f->version == v; });
    now->versions.push_back(it != old.end() ? *it : std::make_shared<FunctionVersion>(v));
  }
  installed_.store(now.get(), std::memory_order_release);
  if (anchor_->kind == Anchor::Kind::function) {
    const bool plain = !now->versions.empty() && now->versions.front()->is_plain;
    slot_->at_once.store(plain && slot_->kind == AnchorSlot::Kind::function, std::memory_order_relaxed);
  }
  const List& versions = now->versions;
  Visit::Retire(std::exchange(owned_, std::move(now)));
  return versions;
}

void FunctionPlace::OnRecording(tracer::FinishedRecording recording, int64_t ns) {
  Wait(slot_ != nullptr ? 1 : 0);
  Manager::Get().AddRecording(anchor_, std::move(recording), ns);
}

void FunctionPlace::OnAbort(tracer::TraceAbort reason, int64_t ns, const Bytecode* callee) {
  Wait(Manager::Get().AddAbort(*anchor_, reason, ns));
  if (callee == nullptr) return;
  std::lock_guard lock(mutex_);
  called_.push_back(callee);
}

bool FunctionPlace::IsLive(const AnchorSlot& loop) const {
  FunctionPlace* place = PlaceAt(loop);
  return place != nullptr && !place->anchor_->versions().empty();
}

bool FunctionPlace::MayInline(const Bytecode& callee) const {
  {
    std::lock_guard lock(mutex_);
    if (std::find(called_.begin(), called_.end(), &callee) != called_.end()) return false;
  }
  // A loop with versions of its own is too long to be unrolled.
  return std::none_of(callee.anchors.begin(), callee.anchors.end(),
                      [&](const AnchorSlot& slot) { return slot.kind == AnchorSlot::Kind::loop && IsLive(slot); });
}

}  // namespace tessera::tiers
