#include "tracer/function_recorder.h"

#include <algorithm>
#include <bit>

#include "interp/dispatch.h"
#include "runtime/clock.h"
#include "runtime/options.h"
#include "runtime/per_thread.h"
#include "tracer/control.h"

namespace tessera::tracer {
namespace {

using interp::AnchorSlot;
using interp::Bytecode;
using interp::Code;
using interp::Frame;
using interp::Insn;
using interp::OperandRef;
using Kind = TraceStep::Kind;

// A register of the root frame that the trace has not looked at.
constexpr ValueId kUnread = -2;

// Fewer save nothing.
constexpr int kLeastOps = 2;

// All of the first instructions have readings of their own, before and after: a recording may have no more. Later what
// recording takes in between is measured now and then.
constexpr int64_t kFirst = 16, kMeasuredEvery = 32;

// So many small ops share a reading of the counter, which may take half as long as one of them does.
constexpr int64_t kShared = 8, kSmallElements = 1024;
static_assert(kMeasuredEvery % kShared == 0);

// The counter may tick more slowly than a small instruction runs; none takes less than this, over all of them.
constexpr int64_t kLeastNs = 20;

int32_t BackEdgeTo(const Bytecode& code, int32_t head) {
  int32_t last = -1;
  for (size_t pc = 0; pc < code.code.size(); ++pc)
    if (code.code[pc].code == Code::back && code.code[pc].target == head) last = static_cast<int32_t>(pc);
  return last;
}

constexpr bool kIsElementwise[] = {
#define TSR_OP(name, operands, attrs, results, effect, dtypes, rule, shape, impl, grad, bound, summary) \
  ir::Impl::impl == ir::Impl::ew,
#include "ir/ops.def"
};

bool HasHostEffect(const Bytecode& code) {
  return std::any_of(code.code.begin(), code.code.end(),
                     [](const Insn& i) { return i.code == Code::print || i.code == Code::host_read; });
}

}  // namespace

FunctionRecorder* FunctionRecorder::OfThread() { return rt::PerThread<FunctionRecorder>::Get(); }

void FunctionRecorder::Begin(Frame& frame, From from, std::string name, std::shared_ptr<Client> client) {
  notes_ = SpareNotes<FunctionNotes>::Take();
  notes_->Fetch();
  notes_->trace = std::make_shared<Trace>();
  trace().name = std::move(name);
  trace().device = frame.device;
  trace().program = frame.instance->program;
  trace().config_epoch = config_epoch_ = ConfigEpoch();
  trace().start_pc = frame.pc;
  device_ = frame.device;
  start_pc_ = frame.pc;
  options_ = &rt::options();
  client_ = std::move(client);
  from_ = from;
  loop_end_ = from == From::loop ? BackEdgeTo(*frame.code, frame.pc) : -1;
  first_ = true;
  failed_ = false;
  ops_ = 0;
  most_ops_ = rt::options().trace_ops();
  ticks_ = instructions_ = 0;
  loops_.clear();
  stack_.clear();
  Push(frame, -1, {});
  std::fill(top().registers.begin(), top().registers.end(), kUnread);
  frame.recorder = this;
  open_ = true;
  own_ticks_ = read_ticks_ = INT64_MAX;
  unread_ = 0;
  start_ns_ = rt::NowNs();
  start_ticks_ = rt::Ticks();
  for (int i = 0; i < 3; ++i) {
    last_ticks_ = rt::Ticks();
    read_ticks_ = std::min(read_ticks_, rt::Ticks() - last_ticks_);
  }
  last_ticks_ = rt::Ticks();
}

void FunctionRecorder::Push(Frame& frame, int32_t call_pc, std::vector<ValueId> args) {
  const auto index = static_cast<int32_t>(trace().frames.size());
  trace().frames.push_back(
      {frame.code, stack_.empty() ? -1 : top().index, call_pc, std::move(args), trace().num_counters});
  trace().num_counters += frame.code->num_slots;
  stack_.push_back({&frame, index, std::vector<ValueId>(static_cast<size_t>(frame.code->num_registers), kNoValue),
                    frame.code->anchors.size() > 1});
}

// ---- values

ValueId FunctionRecorder::Input(Level& level, int reg) {
  const rt::TensorImpl* x = level.frame->registers[reg];
  if (x == nullptr || &x->device() != device_) {
    failed_ = true;
    why_ = TraceAbort::other_device;
    return kNoValue;
  }
  return level.registers[static_cast<size_t>(reg)] = notes_->values.AddInput(*x, position(), reg);
}

ValueId FunctionRecorder::Number(const Bytecode& code, OperandRef ref) {
  auto [it, fresh] = notes_->numbers.try_emplace({&code, ref}, kNoValue);
  if (!fresh) return it->second;
  const interp::ScalarView& number = code.immediates[interp::ImmediateIndex(ref)];
  const int64_t bits = number.dtype == DType::f64       ? std::bit_cast<int64_t>(number.f)
                       : number.dtype == DType::boolean ? int64_t{number.b}
                                                        : number.i;
  return it->second = notes_->values.AddNumber(number, bits, /*step=*/-1, /*is_fixed=*/true);
}

inline ValueId FunctionRecorder::Operand(Level& level, const Insn& insn, int i) {
  const Bytecode& code = *level.frame->code;
  const OperandRef ref = code.operands[insn.operands + static_cast<uint32_t>(i)];
  if (ref == interp::kAbsent) return kNoValue;
  if (ref < 0) return Number(code, ref);
  const ValueId held = level.registers[static_cast<size_t>(ref)];
  return held != kUnread ? held : Input(level, ref);
}

ValueId FunctionRecorder::TensorOperand(const Insn& insn, int i) {
  const ValueId operand = Operand(top(), insn, i);
  const Bytecode& code = *top().frame->code;
  const OperandRef ref = code.operands[insn.operands + static_cast<uint32_t>(i)];
  if (!interp::IsImmediate(ref)) return operand;
  View type{};
  type.dtype = code.immediate_dtypes[interp::ImmediateIndex(ref)];
  const ValueId out = Result(type, position());
  FunctionNotes::Step& step = NewStep(Kind::tensor, insn, {operand});
  step.first_out = out;
  step.num_out = 1;
  return out;
}

inline ValueId FunctionRecorder::Result(const View& type, int32_t step) {
  return notes_->values.Add(TraceValue::Kind::result, type, step);
}

inline FunctionNotes::Step& FunctionRecorder::StepWith(Kind kind, const Insn& insn, int num_in, uint32_t attrs) {
  // What decides only where to go saves nothing by itself. A product may be worth code of its own; so may, on a GPU,
  // whatever has no fixed number of elements in each result.
  ops_ += kind != Kind::branch && kind != Kind::for_begin;
  if (kind == Kind::op && ops_ < kLeastOps) {
    const ir::Bound bound = ir::Info(insn.op).bound;
    ops_ += bound == ir::Bound::dot || (bound == ir::Bound::accum && device_->kind() != rt::DeviceKind::cpu);
  }
  const Level& level = top();
  return notes_->steps.emplace_back(0, level.frame->pc, level.index, kNoValue, attrs, static_cast<uint16_t>(num_in),
                                    uint16_t{0}, kind, false);
}

FunctionNotes::Step& FunctionRecorder::NewStep(Kind kind, const Insn& insn, absl::Span<const ValueId> in) {
  for (ValueId v : in) notes_->operands.emplace_back(v);
  return StepWith(kind, insn, static_cast<int>(in.size()));
}

void FunctionRecorder::Change(Level& level, int reg, ValueId value) {
  if (std::exchange(level.registers[reg], value) == value && value == kNoValue) return;
  notes_->changes.push_back({position(), level.index, reg, value});
}

// ---- instructions

[[gnu::always_inline]] inline void FunctionRecorder::StartTime() {
  if (unread_ > 0) {
    between_ticks_ += own_ticks_ - read_ticks_;
    return;
  }
  between_ticks_ = own_ticks_;
  if (instructions_ >= kFirst && instructions_ % kMeasuredEvery != 0) return;
  const int64_t now = rt::Ticks();
  if (instructions_ > 0) own_ticks_ = std::min(own_ticks_, now - last_ticks_);
  last_ticks_ = now;
  between_ticks_ = 0;
}

[[gnu::always_inline]] inline int64_t FunctionRecorder::EndTime() {
  const int64_t now = rt::Ticks();
  const int64_t ticks = std::max<int64_t>(now - std::exchange(last_ticks_, now) - between_ticks_, 0);
  unread_ = 0;
  return ticks;
}

[[gnu::always_inline]] inline bool FunctionRecorder::IsReadLater(const Level& level, const Insn& insn) const {
  if (insn.code != Code::op || !level.has_step || instructions_ < kFirst) return false;
  if (instructions_ % kShared == kShared - 1 || !kIsElementwise[static_cast<int>(insn.op)]) return false;
  return level.frame->registers[level.frame->code->registers[insn.results]]->size() <= kSmallElements;
}

// Looks at the operands that are new, before the instruction takes them away, and makes the step that it will be. Most
// instructions are ops, and nobody asks for their operands again: what they are follows from the instructions before.
[[gnu::always_inline]] inline void FunctionRecorder::DescribeOp(Level& level, const Insn& insn) {
  const Bytecode& code = *level.frame->code;
  const OperandRef* const refs = code.operands.data() + insn.operands;
  const ValueId* const registers = level.registers.data();
  for (int i = 0; i < insn.num_operands; ++i) {
    const OperandRef ref = refs[i];
    if (ref >= 0) {
      if (registers[ref] == kUnread) [[unlikely]]
        Input(level, ref);
    } else if (ref != interp::kAbsent) {
      Number(code, ref);
    }
  }
  level.has_step = !failed_;
  level.inlined = false;
  if (failed_) return;
  if (insn.op == ir::Op::k_attention && insn.num_operands > static_cast<int>(kMaskOperand)) [[unlikely]] {
    if (const OperandRef ref = refs[kMaskOperand]; ref >= 0) {
      const ValueId mask = registers[ref];
      const ValueNotes::Value& value = notes_->values[static_cast<size_t>(mask)];
      const bool is_of_buffer = value.is(TraceValue::Kind::result) && value.step >= 0 &&
                                notes_->steps[static_cast<size_t>(value.step)].kind == Kind::buffer_read;
      notes_->values.SetMask(mask, *level.frame->registers[ref], is_of_buffer);
    }
  }
  step_ = &StepWith(Kind::op, insn, insn.num_operands, notes_->attrs.Add(level.frame->attrs[insn.attrs]));
}

void FunctionRecorder::Before(Frame& frame, const Insn& insn) {
  Level& level = top();
  if (&frame != level.frame) return;
  if (options_->epoch() != config_epoch_) return Abort(TraceAbort::configuration);
  // Where nothing goes round, no op is where a trace ends.
  if (insn.code == Code::op && !level.has_loops && !first_ && ops_ < most_ops_) [[likely]] {
    DescribeOp(level, insn);
    return failed_ ? Abort(why_) : StartTime();
  }
  BeforeAny(frame, insn);
}

void FunctionRecorder::BeforeAny(Frame& frame, const Insn& insn) {
  // None but ops share a reading.
  if (unread_ > 0) ticks_ += notes_->steps.back().ticks = EndTime();
  const bool root = top().index == 0;
  if (root && !first_) {
    if (frame.pc == start_pc_) return Stop(frame.pc);
    if (loop_end_ >= 0 && (frame.pc < start_pc_ || frame.pc > loop_end_)) return Abort(TraceAbort::left);
  }
  if (top().has_loops && (!root || !first_)) {
    for (const AnchorSlot& slot : frame.code->anchors)
      if (slot.kind == AnchorSlot::Kind::loop && slot.pc == frame.pc && !AtLoopHead(slot)) return;
  }
  if (ops_ >= most_ops_) return Abort(TraceAbort::too_long);
  if (insn.code == Code::print || insn.code == Code::host_read) {
    if (!root || first_) return Abort(TraceAbort::host_effect, root ? nullptr : frame.code);
    return Stop(frame.pc);
  }
  first_ = false;
  Describe(insn);
  if (failed_) return Abort(why_);
  if (insn.code == Code::ret && root) {
    trace().results = std::move(returned_);
    if (!Useful(ops_, notes_->steps.size())) return Abort(TraceAbort::too_short);
    return Close(TraceEnd::returned, frame.pc);
  }
  StartTime();
}

void FunctionRecorder::Describe(const Insn& insn) {
  Level& level = top();
  if (insn.code == Code::op) return DescribeOp(level, insn);
  level.has_step = false;
  level.inlined = false;
  level.in.clear();
  auto read = [&](bool as_tensors) {
    for (int i = 0; i < insn.num_operands; ++i)
      level.in.push_back(as_tensors ? TensorOperand(insn, i) : Operand(level, insn, i));
  };
  Kind kind = Kind::op;
  switch (insn.code) {
    case Code::branch:
      kind = Kind::branch;
      read(false);
      // An immediate always goes the same way.
      if (level.frame->code->operands[insn.operands] < 0) return;
      break;
    case Code::for_begin:
      kind = Kind::for_begin;
      read(false);
      break;
    case Code::for_next: kind = Kind::for_next; break;
    case Code::buffer_read: kind = Kind::buffer_read; break;
    case Code::buffer_write:
    case Code::buffer_add:
      kind = insn.code == Code::buffer_write ? Kind::buffer_write : Kind::buffer_add;
      read(true);
      break;
    case Code::call:
    case Code::move: read(true); return;
    case Code::ret:
      read(true);
      returned_.assign(level.in.begin(), level.in.end());
      return;
    default: return;
  }
  if (failed_) return;
  level.has_step = true;
  FunctionNotes::Step& step = NewStep(kind, insn, level.in);
  step_ = &step;
  switch (insn.code) {
    case Code::branch: {
      const View& condition = *level.frame->registers[level.frame->code->operands[insn.operands]];
      // A device that cannot be read fails the branch itself, too.
      step.outcome = interp::ReadBool(condition, *level.frame->device).value_or(false);
      break;
    }
    case Code::for_next: {
      const Frame::Counter& c = level.frame->counters[insn.slot];
      step.outcome = c.step > 0 ? c.next < c.stop : c.next > c.stop;
      break;
    }
    default: break;
  }
}

void FunctionRecorder::After(Frame& frame, const Insn& insn, int) {
  if (!open_ || &frame != top().frame) return;
  Level& level = top();
  int64_t ticks = 0;
  if (IsReadLater(level, insn)) {
    ++unread_;
    step_->ticks = FunctionNotes::Step::kWithNext;
  } else {
    ticks = EndTime();
    if (level.has_step) step_->ticks = ticks;
  }
  // An inlined call is the sum of its instructions.
  if (!level.inlined) ticks_ += ticks;
  ++instructions_;
  const Bytecode& code = *frame.code;
  const int32_t* results = code.registers.data() + insn.results;
  const int32_t* frees = code.registers.data() + insn.frees;
  if (level.has_step || (insn.code == Code::call && !level.inlined)) {
    FunctionNotes::Step& step = level.has_step ? *step_ : NewStep(Kind::call, insn, level.in);
    if (!level.has_step) step.ticks = ticks;
    const int num_results = insn.code != Code::for_next || step.outcome ? insn.num_results : 0;
    ValueNotes& values = notes_->values;
    const int32_t at = position() - 1;
    step.first_out = static_cast<ValueId>(values.size());
    step.num_out = static_cast<uint16_t>(num_results);
    for (int i = 0; i < num_results; ++i) {
      const rt::TensorImpl& x = *frame.registers[results[i]];
      if (&x.device() != device_) return Abort(TraceAbort::other_device);
      level.registers[static_cast<size_t>(results[i])] = values.Add(TraceValue::Kind::result, x, at);
    }
    return;
  }
  if (insn.code == Code::move) {
    for (size_t i = 0; i < level.in.size(); ++i) Change(level, results[i], level.in[i]);
  } else if (insn.code == Code::constant) {
    // As the interpreter brought it to the device.
    auto constant = rt::Ref<rt::TensorImpl>::Share(frame.registers[results[0]]);
    if (&constant->device() != device_) return Abort(TraceAbort::other_device);
    Change(level, results[0], notes_->values.Add(TraceValue::Kind::constant, *constant, position()));
    notes_->constants.push_back(std::move(constant));
  } else if (insn.code == Code::call) {
    for (size_t i = 0; i < returned_.size(); ++i) Change(level, results[i], returned_[i]);
    returned_.clear();
  }
  for (int i = 0; i < insn.num_frees; ++i) Change(level, frees[i], kNoValue);
}

bool FunctionRecorder::OnCall(Frame& caller, const Insn&, Frame& callee) {
  if (!open_ || &caller != top().frame) return false;
  if (static_cast<int64_t>(stack_.size()) > rt::options().trace_depth()) return false;
  for (const Level& level : stack_)
    if (level.frame->code == callee.code) return false;
  if (callee.device != trace().device || HasHostEffect(*callee.code) || !client_->MayInline(*callee.code)) return false;
  if (!Decide(true, 8)) return false;
  const std::vector<ValueId> args(top().in.begin(), top().in.end());
  top().inlined = true;
  Push(callee, caller.pc, args);
  for (size_t i = 0; i < args.size(); ++i) Change(top(), callee.code->params[i], args[i]);
  return true;
}

void FunctionRecorder::OnLeave(Frame& frame, const absl::Status& status) {
  if (!open_ || &frame != top().frame) return;
  if (!status.ok()) return Abort(TraceAbort::op_failed);
  if (stack_.size() == 1) return Abort(TraceAbort::left);
  Level& level = top();
  for (size_t r = 0; r < level.registers.size(); ++r) Change(level, static_cast<int>(r), kNoValue);
  stack_.pop_back();
}

// ---- where it ends

bool FunctionRecorder::AtLoopHead(const AnchorSlot& slot) {
  const bool root = stack_.size() == 1;
  if (root && Decide(client_->IsLive(slot), 8) && Useful(ops_, notes_->steps.size())) {
    Stop(slot.pc);
    return false;
  }
  auto [it, fresh] = loops_.try_emplace({top().index, slot.pc});
  LoopHead& head = it->second;
  if (fresh) head.mark = Here();
  if (head.visits++ <= rt::options().trace_unroll()) return true;
  if (root && Useful(head.mark.ops, head.mark.steps)) {
    CutTo(head.mark);
    Close(TraceEnd::stopped, slot.pc);
  } else {
    Abort(TraceAbort::unrolled, root ? nullptr : top().frame->code);
  }
  return false;
}

FunctionRecorder::Mark FunctionRecorder::Here() const {
  const FunctionNotes& n = *notes_;
  return {n.steps.size(),
          n.operands.size(),
          n.changes.size(),
          n.trace->frames.size(),
          n.constants.size(),
          n.values.Here(),
          n.trace->num_counters,
          ops_,
          ticks_,
          instructions_};
}

void FunctionRecorder::CutTo(const Mark& mark) {
  Trace& t = trace();
  notes_->steps.resize(mark.steps);
  notes_->operands.resize(mark.operands);
  notes_->changes.resize(mark.changes);
  notes_->constants.resize(mark.constants);
  notes_->values.CutTo(mark.values);
  t.frames.resize(mark.frames);
  t.num_counters = mark.counters;
  ticks_ = mark.ticks;
  instructions_ = mark.instructions;
  ops_ = mark.ops;
}

bool FunctionRecorder::Useful(int ops, size_t steps) const {
  return from_ == From::exit ? steps > 0 : ops >= kLeastOps;
}

void FunctionRecorder::Stop(int32_t pc) {
  if (!Useful(ops_, notes_->steps.size())) return Abort(TraceAbort::too_short);
  Close(pc == trace().start_pc ? TraceEnd::loop : TraceEnd::stopped, pc);
}

void FunctionRecorder::Close(TraceEnd end, int32_t end_pc) {
  trace().end = end;
  trace().end_pc = end_pc;
  const int64_t ticks = rt::Ticks() - start_ticks_;
  const int64_t ns = End();
  const double ns_per_tick = ticks > 0 ? static_cast<double>(ns) / static_cast<double>(ticks) : 0;
  notes_->ns_per_tick = ns_per_tick;
  trace().tier1_ns =
      std::max(static_cast<int64_t>(static_cast<double>(ticks_) * ns_per_tick), kLeastNs * instructions_);
  const std::shared_ptr<Client> client = std::move(client_);
  client->OnRecording(std::move(notes_), ns);
}

void FunctionRecorder::Abort(TraceAbort reason, const Bytecode* callee) {
  const int64_t ns = End();
  notes_ = nullptr;
  const std::shared_ptr<Client> client = std::move(client_);
  client->OnAbort(reason, ns, callee);
}

int64_t FunctionRecorder::End() {
  open_ = false;
  stack_.clear();
  returned_.clear();
  return rt::NowNs() - start_ns_;
}

void FunctionRecorder::Retire() {
  if (open_) Abort(TraceAbort::thread_end);
}

}  // namespace tessera::tracer
