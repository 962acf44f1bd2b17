#include "deopt/frames.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace tessera::deopt {
namespace {

using interp::Bytecode;
using interp::Frame;
using interp::Insn;
using rt::Ref;
using rt::TensorImpl;
using tracer::kNoValue;
using tracer::TraceFrame;
using tracer::TraceStep;
using tracer::ValueId;

// A register that the trace has left alone.
constexpr ValueId kSame = -2;

std::atomic<FrameObserver> g_observer{nullptr};

void Observe(const Frame& frame) {
  if (FrameObserver observer = g_observer.load(std::memory_order_relaxed)) [[unlikely]]
    observer(frame);
}

void ReleaseRegisters(Frame& frame) {
  for (int r = 0; r < frame.code->num_registers; ++r) interp::SetRegister(frame.registers[r], nullptr);
}

}  // namespace

void SetFrameObserver(FrameObserver observer) { g_observer.store(observer, std::memory_order_relaxed); }

Snapshot TakeSnapshot(const tracer::Trace& trace, int32_t position) {
  const bool at_end = position >= static_cast<int32_t>(trace.steps.size());
  const int32_t innermost = at_end ? 0 : trace.steps[static_cast<size_t>(position)].frame;
  Snapshot snapshot;
  std::vector<Snapshot::Level>& levels = snapshot.levels;
  int32_t pc = at_end ? trace.end_pc : trace.steps[static_cast<size_t>(position)].pc;
  for (int32_t f = innermost; f >= 0; f = trace.frames[static_cast<size_t>(f)].parent) {
    levels.push_back({f, pc, {}, {}});
    pc = trace.frames[static_cast<size_t>(f)].call_pc;
  }
  std::reverse(levels.begin(), levels.end());

  std::vector<Snapshot::Level*> level_of(trace.frames.size(), nullptr);
  std::vector<std::vector<ValueId>> held(levels.size());
  for (size_t l = 0; l < levels.size(); ++l) {
    level_of[static_cast<size_t>(levels[l].frame)] = &levels[l];
    const Bytecode& code = *trace.frames[static_cast<size_t>(levels[l].frame)].code;
    held[l].assign(static_cast<size_t>(code.num_registers), l == 0 ? kSame : kNoValue);
  }
  for (const tracer::RegisterChange& c : trace.changes) {
    if (c.position > position && !at_end) break;
    if (const Snapshot::Level* level = level_of[static_cast<size_t>(c.frame)])
      held[static_cast<size_t>(level - levels.data())][static_cast<size_t>(c.reg)] = c.value;
  }
  for (size_t l = 0; l < levels.size(); ++l) {
    for (size_t r = 0; r < held[l].size(); ++r) {
      const bool empty = held[l][r] == kSame || (l > 0 && held[l][r] == kNoValue);
      if (!empty) levels[l].registers.push_back({static_cast<int32_t>(r), held[l][r]});
    }
  }

  std::vector<int> holders(trace.values.size(), 0);
  for (const Snapshot::Level& level : levels)
    for (const Snapshot::Register& r : level.registers)
      if (r.value != kNoValue) ++holders[static_cast<size_t>(r.value)];
  for (Snapshot::Level& level : levels)
    for (Snapshot::Register& r : level.registers)
      r.alone = r.value != kNoValue && holders[static_cast<size_t>(r.value)] == 1;

  for (int32_t i = 0; i < trace.frames[0].code->num_slots; ++i) levels[0].counters.push_back(i);
  // A counter of an inlined call holds something once its loop has begun.
  for (int32_t i = 0; i < position && !at_end; ++i) {
    const TraceStep& s = trace.steps[static_cast<size_t>(i)];
    if (s.kind != TraceStep::Kind::for_begin || s.frame == 0 || level_of[static_cast<size_t>(s.frame)] == nullptr)
      continue;
    const int32_t slot = s.counter - trace.frames[static_cast<size_t>(s.frame)].first_counter;
    std::vector<int32_t>& counters = level_of[static_cast<size_t>(s.frame)]->counters;
    if (std::find(counters.begin(), counters.end(), slot) == counters.end()) counters.push_back(slot);
  }
  return snapshot;
}

Frames::~Frames() {
  while (!inner_.empty()) {
    ReleaseRegisters(inner_.back()->frame);
    inner_.pop_back();
  }
}

absl::Status Frames::MakeInner(int32_t index, ExitValues& values) {
  const TraceFrame& from = trace_.frames[static_cast<size_t>(index)];
  const Frame& parent = inner_.empty() ? root_ : inner_.back()->frame;
  const int depth = parent.depth + 1;
  inner_.push_back(std::make_unique<Inner>(*from.code, from.call_pc));
  Inner& inner = *inner_.back();
  inner.frame.instance = root_.instance;
  inner.frame.code = from.code;
  inner.frame.device = root_.device;
  inner.frame.depth = depth;
  inner.frame.registers = inner.memory.registers();
  inner.frame.counters = inner.memory.counters(*from.code);
  inner.frame.attrs = from.code->attrs.data();
  if (!from.code->symbolic_attrs) return absl::OkStatus();
  absl::InlinedVector<const TensorType*, 8> types;
  for (ValueId v : from.args) types.push_back(&values.Type(v));
  absl::InlinedVector<int64_t, 8> symbols;
  TSR_RETURN_IF_ERROR(interp::Bind(*from.code, types, &symbols));
  inner.attrs = interp::ResolveAttrs(*from.code, symbols);
  inner.frame.attrs = inner.attrs.data();
  return absl::OkStatus();
}

absl::Status Frames::Restore(const Snapshot& snapshot, ExitValues& values) {
  for (size_t l = 0; l < snapshot.levels.size(); ++l) {
    const Snapshot::Level& level = snapshot.levels[l];
    if (l > 0) TSR_RETURN_IF_ERROR(MakeInner(level.frame, values));
    Frame& frame = l == 0 ? root_ : inner_.back()->frame;
    TSR_RETURN_IF_ERROR(values.Fill(level.registers, frame.registers));
    const int32_t first = trace_.frames[static_cast<size_t>(level.frame)].first_counter;
    for (int32_t slot : level.counters) frame.counters[slot] = values.Counter(first + slot);
    frame.pc = level.pc;
  }
  if (inner_.empty()) Observe(root_);
  return absl::OkStatus();
}

absl::Status Frames::Resume() {
  while (!inner_.empty()) {
    const int32_t call_pc = inner_.back()->call_pc;
    interp::Results results;
    Observe(inner_.back()->frame);
    const absl::Status status = interp::Resume(inner_.back()->frame, &results);
    inner_.pop_back();
    TSR_RETURN_IF_ERROR(status);
    // The rest of the call instruction.
    Frame& parent = inner_.empty() ? root_ : inner_.back()->frame;
    const Bytecode& code = *parent.code;
    const Insn& call = code.code[static_cast<size_t>(call_pc)];
    for (uint32_t i = 0; i < call.num_results; ++i)
      interp::SetRegister(parent.registers[code.registers[call.results + i]], results[i].release());
    for (uint32_t i = 0; i < call.num_frees; ++i)
      interp::SetRegister(parent.registers[code.registers[call.frees + i]], nullptr);
    parent.pc = call_pc + 1;
    if (inner_.empty()) Observe(root_);
  }
  return absl::OkStatus();
}

}  // namespace tessera::deopt
