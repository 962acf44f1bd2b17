#include "tracer/function_recorder.h"

#include <algorithm>

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

// The counter may tick more slowly than a small instruction runs; none takes less than this, over all of them.
constexpr int64_t kLeastNs = 20;

int32_t AlignmentOf(const void* data) {
  const uintptr_t low = reinterpret_cast<uintptr_t>(data) & 63;
  return low == 0 ? 64 : static_cast<int32_t>(low & -low);
}

int32_t BackEdgeTo(const Bytecode& code, int32_t head) {
  int32_t last = -1;
  for (size_t pc = 0; pc < code.code.size(); ++pc)
    if (code.code[pc].code == Code::back && code.code[pc].target == head) last = static_cast<int32_t>(pc);
  return last;
}

bool HasHostEffect(const Bytecode& code) {
  return std::any_of(code.code.begin(), code.code.end(),
                     [](const Insn& i) { return i.code == Code::print || i.code == Code::host_read; });
}

}  // namespace

FunctionRecorder* FunctionRecorder::OfThread() { return rt::PerThread<FunctionRecorder>::Get(); }

void FunctionRecorder::Begin(Frame& frame, From from, std::string name, std::shared_ptr<Client> client) {
  trace_ = std::make_shared<Trace>();
  trace_->name = std::move(name);
  trace_->device = frame.device;
  trace_->program = frame.instance->program;
  trace_->config_epoch = ConfigEpoch();
  trace_->start_pc = frame.pc;
  client_ = std::move(client);
  from_ = from;
  loop_end_ = from == From::loop ? BackEdgeTo(*frame.code, frame.pc) : -1;
  first_ = true;
  failed_ = false;
  ops_ = 0;
  most_ops_ = rt::options().trace_ops();
  ticks_ = instructions_ = 0;
  numbers_.clear();
  loops_.clear();
  stack_.clear();
  Push(frame, -1, {});
  std::fill(top().registers.begin(), top().registers.end(), kUnread);
  frame.recorder = this;
  open_ = true;
  start_ns_ = rt::NowNs();
  start_ticks_ = rt::Ticks();
}

void FunctionRecorder::Push(Frame& frame, int32_t call_pc, std::vector<ValueId> args) {
  const auto index = static_cast<int32_t>(trace().frames.size());
  trace().frames.push_back(
      {frame.code, stack_.empty() ? -1 : top().index, call_pc, std::move(args), trace().num_counters});
  trace().num_counters += frame.code->num_slots;
  stack_.push_back({&frame, index, std::vector<ValueId>(static_cast<size_t>(frame.code->num_registers), kNoValue)});
}

// ---- values

// Values and steps are made where they stay.
TraceValue& FunctionRecorder::NewValue(TraceValue::Kind kind, const TensorType& type) {
  TraceValue& value = trace().values.emplace_back();
  value.kind = kind;
  value.type = type;
  value.step = position();
  return value;
}

ValueId FunctionRecorder::Register(int reg) {
  ValueId& held = top().registers[reg];
  if (held != kUnread) return held;
  const rt::TensorImpl* x = top().frame->registers[reg];
  if (x == nullptr || &x->device() != trace().device) {
    failed_ = true;
    why_ = TraceAbort::other_device;
    return kNoValue;
  }
  TraceValue& value = NewValue(TraceValue::Kind::input, *x);
  value.reg = reg;
  value.alignment = AlignmentOf(x->data);
  value.strides.assign(x->strides, x->strides + x->rank);
  return held = LastValue();
}

ValueId FunctionRecorder::Number(const Bytecode& code, OperandRef ref) {
  auto [it, fresh] = numbers_.try_emplace({&code, ref}, kNoValue);
  if (!fresh) return it->second;
  const interp::ScalarView& number = code.immediates[interp::ImmediateIndex(ref)];
  TraceValue& value = NewValue(TraceValue::Kind::number, number);
  value.step = -1;
  value.is_fixed = true;
  if (number.dtype == DType::f64)
    value.number.f = number.f;
  else
    value.number.i = number.dtype == DType::boolean ? number.b : number.i;
  return it->second = LastValue();
}

ValueId FunctionRecorder::Operand(const Insn& insn, int i) {
  const Bytecode& code = *top().frame->code;
  const OperandRef ref = code.operands[insn.operands + static_cast<uint32_t>(i)];
  if (ref == interp::kAbsent) return kNoValue;
  return ref >= 0 ? Register(ref) : Number(code, ref);
}

ValueId FunctionRecorder::TensorOperand(const Insn& insn, int i) {
  const ValueId operand = Operand(insn, i);
  const Bytecode& code = *top().frame->code;
  const OperandRef ref = code.operands[insn.operands + static_cast<uint32_t>(i)];
  if (!interp::IsImmediate(ref)) return operand;
  View type{};
  type.dtype = code.immediate_dtypes[interp::ImmediateIndex(ref)];
  const ValueId out = Result(type, position());
  TraceStep& step = NewStep(Kind::tensor, insn);
  step.in = {operand};
  step.out = {out};
  return out;
}

ValueId FunctionRecorder::Result(const View& type, int32_t step) {
  TraceValue& value = NewValue(TraceValue::Kind::result, type);
  value.type.weak = false;
  value.step = step;
  return LastValue();
}

TraceStep& FunctionRecorder::NewStep(Kind kind, const Insn& insn) {
  // What decides only where to go saves nothing by itself. A product may be worth code of its own; so may, on a GPU,
  // whatever has no fixed number of elements in each result.
  ops_ += kind != Kind::branch && kind != Kind::for_begin;
  const bool on_cpu = trace().device->kind() == rt::DeviceKind::cpu;
  ops_ += kind == Kind::op &&
          (ir::Info(insn.op).bound == ir::Bound::dot || (!on_cpu && ir::Info(insn.op).bound == ir::Bound::accum));
  TraceStep& step = trace().steps.emplace_back();
  step.kind = kind;
  step.op = insn.op;
  step.frame = top().index;
  step.pc = top().frame->pc;
  step.source = {nullptr, insn.loc.line, insn.loc.column};
  return step;
}

void FunctionRecorder::Change(Level& level, int reg, ValueId value) {
  if (std::exchange(level.registers[reg], value) == value) return;
  trace().changes.push_back({position(), level.index, reg, value});
}

// ---- instructions

void FunctionRecorder::Before(Frame& frame, const Insn& insn) {
  if (&frame != top().frame) return;
  if (ConfigEpoch() != trace().config_epoch) return Abort(TraceAbort::configuration);
  const bool root = stack_.size() == 1;
  if (root && !first_) {
    if (frame.pc == trace().start_pc) return Stop(frame.pc);
    if (loop_end_ >= 0 && (frame.pc < trace().start_pc || frame.pc > loop_end_)) return Abort(TraceAbort::left);
  }
  if (!root || !first_) {
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
    if (!Useful(ops_, trace().steps.size())) return Abort(TraceAbort::too_short);
    Close(TraceEnd::returned, frame.pc);
  }
}

// Reads the operands, before the instruction takes them away, and makes the step that it will be.
void FunctionRecorder::Describe(const Insn& insn) {
  Level& level = top();
  level.has_step = false;
  level.inlined = false;
  level.in.clear();
  auto read = [&](bool as_tensors) {
    for (int i = 0; i < insn.num_operands; ++i)
      level.in.push_back(as_tensors ? TensorOperand(insn, i) : Operand(insn, i));
  };
  Kind kind = Kind::op;
  switch (insn.code) {
    case Code::op: read(false); break;
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
  TraceStep& step = NewStep(kind, insn);
  step.in.assign(level.in.begin(), level.in.end());
  step.target = insn.target;
  const int32_t first_counter = trace().frames[static_cast<size_t>(level.index)].first_counter;
  switch (insn.code) {
    case Code::op:
      if (!level.frame->attrs[insn.attrs].empty()) step.attrs = level.frame->attrs[insn.attrs];
      step.attrs_index = insn.attrs;
      break;
    case Code::branch: {
      const View& condition = *level.frame->registers[level.frame->code->operands[insn.operands]];
      // A device that cannot be read fails the branch itself, too.
      step.outcome = interp::ReadBool(condition, *level.frame->device).value_or(false);
      break;
    }
    case Code::for_begin: step.counter = first_counter + insn.target; break;
    case Code::for_next: {
      const Frame::Counter& c = level.frame->counters[insn.slot];
      step.counter = first_counter + insn.slot;
      step.outcome = c.step > 0 ? c.next < c.stop : c.next > c.stop;
      break;
    }
    default: break;
  }
}

void FunctionRecorder::After(Frame& frame, const Insn& insn, int, int64_t ticks) {
  if (!open_ || &frame != top().frame) return;
  Level& level = top();
  // An inlined call is the sum of its instructions.
  if (!level.inlined) ticks_ += ticks;
  ++instructions_;
  const Bytecode& code = *frame.code;
  const int32_t* results = code.registers.data() + insn.results;
  if (insn.code == Code::move) {
    for (size_t i = 0; i < level.in.size(); ++i) Change(level, results[i], level.in[i]);
  } else if (insn.code == Code::constant) {
    // As the interpreter brought it to the device.
    auto constant = rt::Ref<rt::TensorImpl>::Share(frame.registers[results[0]]);
    if (&constant->device() != trace().device) return Abort(TraceAbort::other_device);
    NewValue(TraceValue::Kind::constant, *constant).constant = constant;
    Change(level, results[0], LastValue());
  } else if (insn.code == Code::call && level.inlined) {
    for (size_t i = 0; i < returned_.size(); ++i) Change(level, results[i], returned_[i]);
    returned_.clear();
  } else if (level.has_step || insn.code == Code::call) {
    if (!level.has_step) {
      TraceStep& call = NewStep(Kind::call, insn);
      call.in.assign(level.in.begin(), level.in.end());
      call.target = insn.target;
    }
    TraceStep& step = trace().steps.back();
    step.ns = ticks;  // until Close()
    const int num_results = insn.code != Code::for_next || step.outcome ? insn.num_results : 0;
    for (int i = 0; i < num_results; ++i) {
      const rt::TensorImpl& x = *frame.registers[results[i]];
      if (&x.device() != trace().device) return Abort(TraceAbort::other_device);
      step.out.push_back(Result(x, position() - 1));
      Change(level, results[i], step.out.back());
    }
  }
  for (int i = 0; i < insn.num_frees; ++i) {
    Change(level, code.registers[insn.frees + static_cast<uint32_t>(i)], kNoValue);
  }
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
  if (root && Decide(client_->IsLive(slot), 8) && Useful(ops_, trace().steps.size())) {
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
  const Trace& t = *trace_;
  return {t.steps.size(), t.values.size(), t.changes.size(), t.frames.size(), t.num_counters,
          ops_,           ticks_,          instructions_};
}

void FunctionRecorder::CutTo(const Mark& mark) {
  Trace& t = trace();
  t.steps.resize(mark.steps);
  t.values.resize(mark.values);
  t.changes.resize(mark.changes);
  t.frames.resize(mark.frames);
  t.num_counters = mark.counters;
  ticks_ = mark.ticks;
  instructions_ = mark.instructions;
  ops_ = mark.ops;
}

bool FunctionRecorder::Useful(int ops, size_t steps) const { return from_ == From::exit ? steps > 0 : ops >= 2; }

void FunctionRecorder::Stop(int32_t pc) {
  if (!Useful(ops_, trace().steps.size())) return Abort(TraceAbort::too_short);
  Close(pc == trace().start_pc ? TraceEnd::loop : TraceEnd::stopped, pc);
}

void FunctionRecorder::Close(TraceEnd end, int32_t end_pc) {
  trace().end = end;
  trace().end_pc = end_pc;
  const int64_t ticks = rt::Ticks() - start_ticks_;
  const int64_t ns = End();
  const double ns_per_tick = ticks > 0 ? static_cast<double>(ns) / static_cast<double>(ticks) : 0;
  for (TraceStep& s : trace().steps) s.ns = static_cast<int64_t>(static_cast<double>(s.ns) * ns_per_tick);
  trace().tier1_ns =
      std::max(static_cast<int64_t>(static_cast<double>(ticks_) * ns_per_tick), kLeastNs * instructions_);
  const std::shared_ptr<Client> client = std::move(client_);
  client->OnTrace(std::move(trace_), ns);
}

void FunctionRecorder::Abort(TraceAbort reason, const Bytecode* callee) {
  const int64_t ns = End();
  trace_ = nullptr;
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
