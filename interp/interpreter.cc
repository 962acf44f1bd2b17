#include "interp/interpreter.h"

#include <cstdio>
#include <cstring>

#include "interp/cpu/convert.h"
#include "interp/format.h"
#include "interp/interrupt.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/per_thread.h"
#include "runtime/ring.h"

namespace tessera::interp {

std::atomic<bool> internal::g_interrupt{false};

namespace {

using rt::Ref;
using rt::TensorImpl;

void ReleaseRegisters(Frame& frame) {
  // What is borrowed are the parameters, and they have the first registers.
  for (int i = frame.borrows ? static_cast<int>(frame.code->params.size()) : 0; i < frame.code->num_registers; ++i) {
    if (frame.registers[i] != nullptr) std::exchange(frame.registers[i], nullptr)->Release();
  }
}

absl::Status AtLine(const absl::Status& status, const Frame& frame, const Insn& insn) {
  const std::string& file = frame.instance->program->module->file;
  std::string where = absl::StrCat(file.empty() ? "" : file + ":");
  if (insn.loc.line > 0) absl::StrAppend(&where, insn.loc.line, ":", insn.loc.column, ": ");
  return absl::Status(status.code(), absl::StrCat(where, "in @", frame.code->name, ": ", status.message()));
}

// A site for recordings; the ring has no sites, but the function's own number.
int64_t NumberOf(const Bytecode& code) { return rt::RecorderOn() ? SiteNumber({{&code, INT32_MAX, 0}, {}}) : code.id; }

// Runs one activation; the error names no position yet.
class Machine {
 public:
  explicit Machine(Frame& frame) : f_(frame), code_(*frame.code) {}

  absl::Status Run(Results* results) {
    bool returned = false;
    absl::Status status;
    // A recording may open at any anchor and close at any instruction.
    while (status.ok() && !returned) {
      status = f_.recorder != nullptr ? Loop<true>(results, &returned) : Loop<false>(results, &returned);
    }
    rt::Count(rt::Metric::instructions_run, count_);
    if (rt::EventsOn()) [[unlikely]]
      rt::Record(rt::EventKind::function_exit, NumberOf(code_), f_.depth, count_);
    return status;
  }

 private:
  template <bool kRecord>
  absl::Status Loop(Results* results, bool* returned) {
    const Insn* const code = code_.code.data();
    absl::Status status;
    for (;;) {
      const Insn& insn = code[f_.pc];
      int next = f_.pc + 1;
      if constexpr (kRecord) {
        if (f_.recorder->open()) f_.recorder->Before(f_, insn);
        if (!f_.recorder->open()) {
          f_.recorder = nullptr;
          return status;
        }
      }
      ++count_;
      switch (insn.code) {
        case Code::op: status = Op(insn); break;
        case Code::constant: status = Constant(insn); break;
        case Code::move: status = Move(insn); break;
        case Code::jump: next = insn.target; break;
        case Code::back:
          next = insn.target;
          if (Interrupted()) [[unlikely]]
            status = InterruptedStatus();
          if (Observer* o = CurrentObserver()) [[unlikely]]
            o->OnBackEdge(ThePc());
          break;
        case Code::branch: {
          const View& condition = *Operand(insn, 0);
          bool taken = false;
          if (condition.rank == 0 && (condition.weak || f_.device->kind() == rt::DeviceKind::cpu)) [[likely]] {
            taken = *condition.as<uint8_t>() != 0;
          } else {
            const absl::StatusOr<bool> read = ReadBool(condition, *f_.device);
            status = read.status();
            if (!status.ok()) break;
            taken = *read;
          }
          if (!taken) next = insn.target;
          if (Observer* o = CurrentObserver()) [[unlikely]]
            o->OnBranch(ThePc(), taken);
          break;
        }
        case Code::for_begin: status = ForBegin(insn); break;
        case Code::for_next: status = ForNext(insn, &next); break;
        case Code::call: status = CallFunction(insn); break;
        case Code::ret:
          status = Return(insn, results);
          if (status.ok()) {
            *returned = true;
            return status;
          }
          break;
        case Code::buffer_read: status = BufferRead(insn); break;
        case Code::buffer_write:
        case Code::buffer_add: status = BufferUpdate(insn); break;
        case Code::print: status = Print(insn); break;
        case Code::host_read: status = HostRead(insn); break;
      }
      if (!status.ok()) [[unlikely]] {
        // A callee's message has its own position; this one is of use only at the bottom.
        return insn.code == Code::call ? status : AtLine(status, f_, insn);
      }
      if constexpr (kRecord) f_.recorder->After(f_, insn, next);
      for (int i = 0; i < insn.num_frees; ++i) {
        TensorImpl*& r = f_.registers[code_.registers[insn.frees + i]];
        if (r != nullptr) std::exchange(r, nullptr)->Release();
      }
      f_.pc = next;
      if (insn.anchor >= 0 && !kRecord) {
        TSR_RETURN_IF_ERROR(Arrive(code_.anchors[insn.anchor], results, returned));
        if (*returned || f_.recorder != nullptr) return status;
      }
    }
  }

  absl::Status Arrive(AnchorSlot& slot, Results* results, bool* returned) {
    if (!slot.Arrive()) return absl::OkStatus();
    FunctionHook* hook = CurrentFunctionHook();
    if (hook == nullptr) return absl::OkStatus();
    TSR_ASSIGN_OR_RETURN(FunctionHook::Next next, hook->OnAnchor(f_, slot, results));
    *returned = next == FunctionHook::Next::returned;
    return absl::OkStatus();
  }

  Pc ThePc() const { return {&code_, f_.pc, 0}; }
  Site TheSite(const Insn& insn) const { return {ThePc(), {nullptr, insn.loc.line, insn.loc.column}}; }

  const View* Operand(const Insn& insn, int i) const {
    const OperandRef r = code_.operands[insn.operands + i];
    if (r >= 0) return f_.registers[r];
    return r == kAbsent ? nullptr : &code_.immediates[ImmediateIndex(r)];
  }

  // The operand as a tensor with a reference of its own; immediates are made into one.
  absl::StatusOr<Ref<TensorImpl>> TensorOperand(const Insn& insn, int i) const {
    const OperandRef r = code_.operands[insn.operands + i];
    if (r >= 0) return Ref<TensorImpl>::Share(f_.registers[r]);
    const size_t k = ImmediateIndex(r);
    return Cast(code_.immediates[k], *f_.device, code_.immediate_dtypes[k]);
  }

  absl::Status Op(const Insn& insn) {
    constexpr int kInline = 8;
    const View* inline_in[kInline];
    std::unique_ptr<const View*[]> heap_in;
    const View** in = inline_in;
    if (insn.num_operands > kInline) [[unlikely]] {
      heap_in = std::make_unique<const View*[]>(insn.num_operands);
      in = heap_in.get();
    }
    for (int i = 0; i < insn.num_operands; ++i) in[i] = Operand(insn, i);
    if (insn.reuse >= 0) {
      TensorImpl*& dying = f_.registers[code_.operands[insn.operands + insn.reuse]];
      absl::Status status;
      if (ExecuteSmallInPlace(insn.op, {in, insn.num_operands}, *dying, &status, TheSite(insn))) {
        if (status.ok()) SetRegister(f_.registers[code_.registers[insn.results]], std::exchange(dying, nullptr));
        return status;
      }
    }
    TensorImpl* out[kMaxResults];
    if (insn.num_results > kMaxResults) return ResourceExhausted("more than ", kMaxResults, " results");
    TSR_RETURN_IF_ERROR(Execute(insn.op, {in, insn.num_operands}, f_.attrs[insn.attrs], *f_.device,
                                {out, insn.num_results}, TheSite(insn)));
    for (int i = 0; i < insn.num_results; ++i) SetRegister(f_.registers[code_.registers[insn.results + i]], out[i]);
    return absl::OkStatus();
  }

  absl::Status Constant(const Insn& insn) {
    const auto& value = std::get<Ref<TensorImpl>>(f_.attrs[insn.attrs][0]);
    TensorImpl* out = value.get();
    if (&value->device() == f_.device) {
      out->Retain();
    } else {
      TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> there, f_.instance->ConstantOn(*value, *f_.device));
      out = there.release();
    }
    SetRegister(f_.registers[code_.registers[insn.results]], out);
    return absl::OkStatus();
  }

  absl::Status Move(const Insn& insn) {
    constexpr int kInline = 16;
    TensorImpl* inline_values[kInline];
    std::unique_ptr<TensorImpl*[]> heap_values;
    TensorImpl** values = inline_values;
    if (insn.num_operands > kInline) [[unlikely]] {
      heap_values = std::make_unique<TensorImpl*[]>(insn.num_operands);
      values = heap_values.get();
    }
    for (int i = 0; i < insn.num_operands; ++i) {
      const OperandRef r = code_.operands[insn.operands + i];
      if (r >= 0) {
        values[i] = f_.registers[r];
        if (i < 32 && (insn.steals >> i) & 1) {
          f_.registers[r] = nullptr;
        } else {
          values[i]->Retain();
        }
        continue;
      }
      auto value = TensorOperand(insn, i);
      if (!value.ok()) [[unlikely]] {
        while (i-- > 0) values[i]->Release();
        return std::move(value).status();
      }
      values[i] = value->release();
    }
    for (int i = 0; i < insn.num_operands; ++i) SetRegister(f_.registers[code_.registers[insn.results + i]], values[i]);
    return absl::OkStatus();
  }

  absl::Status ForBegin(const Insn& insn) {
    Frame::Counter& c = f_.counters[insn.target];
    TSR_ASSIGN_OR_RETURN(c.next, ReadInt(*Operand(insn, 0), *f_.device));
    TSR_ASSIGN_OR_RETURN(c.stop, ReadInt(*Operand(insn, 1), *f_.device));
    TSR_ASSIGN_OR_RETURN(c.step, ReadInt(*Operand(insn, 2), *f_.device));
    if (c.step == 0) return InvalidArgument("for: the step is 0; use a positive or a negative step");
    return absl::OkStatus();
  }

  absl::Status ForNext(const Insn& insn, int* next) {
    Frame::Counter& c = f_.counters[insn.slot];
    const bool more = c.step > 0 ? c.next < c.stop : c.next > c.stop;
    if (Observer* o = CurrentObserver()) [[unlikely]]
      o->OnBranch(ThePc(), more);
    if (!more) {
      *next = insn.target;
      return absl::OkStatus();
    }
    TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> index, Cast(ScalarView(c.next), *f_.device, DType::i64));
    SetRegister(f_.registers[code_.registers[insn.results]], index.release());
    // A step past the end of the number range ends the loop.
    if (__builtin_add_overflow(c.next, c.step, &c.next)) c.next = c.stop;
    return absl::OkStatus();
  }

  absl::Status CallFunction(const Insn& insn);

  absl::Status Return(const Insn& insn, Results* results) {
    if (!results->empty()) results->clear();
    for (int i = 0; i < insn.num_operands; ++i) {
      const OperandRef r = code_.operands[insn.operands + i];
      // The registers are of no use any more, so references move out of them.
      if (f_.borrows && r >= 0 && static_cast<size_t>(r) < code_.params.size()) {
        results->push_back(Ref<TensorImpl>::Share(f_.registers[r]));
      } else if (r >= 0 && f_.registers[r] != nullptr) {
        results->push_back(Ref<TensorImpl>::Adopt(std::exchange(f_.registers[r], nullptr)));
      } else if (r >= 0) {
        int same = 0;
        while (code_.operands[insn.operands + same] != r) ++same;
        results->push_back((*results)[same]);
      } else {
        TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> value, TensorOperand(insn, i));
        results->push_back(std::move(value));
      }
    }
    return absl::OkStatus();
  }

  absl::Status BufferRead(const Insn& insn) {
    TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> value, f_.instance->buffers[insn.target]->Read(*f_.device));
    SetRegister(f_.registers[code_.registers[insn.results]], value.release());
    return absl::OkStatus();
  }

  absl::Status BufferUpdate(const Insn& insn) {
    TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> value, TensorOperand(insn, 0));
    BufferState& buffer = *f_.instance->buffers[insn.target];
    absl::Status status = insn.code == Code::buffer_write ? buffer.Write(std::move(value)) : buffer.Add(*value);
    if (status.ok()) return status;
    return Annotate(status, absl::StrCat(std::string(ir::Info(insn.op).name), ": "));
  }

  absl::Status Print(const Insn& insn) {
    TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> value, TensorOperand(insn, 0));
    const std::string& label = std::get<std::string>(f_.attrs[insn.attrs][0]);
    TSR_ASSIGN_OR_RETURN(std::string text, Format(*value));
    PrintLine(label.empty() ? text : absl::StrCat(label, ": ", text));
    return absl::OkStatus();
  }

  absl::Status HostRead(const Insn& insn) {
    TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> value, TensorOperand(insn, 0));
    if (f_.instance->on_host_read) f_.instance->on_host_read(std::get<std::string>(f_.attrs[insn.attrs][0]), value);
    return absl::OkStatus();
  }

  Frame& f_;
  const Bytecode& code_;
  int64_t count_ = 0;
};

}  // namespace

absl::StatusOr<Ref<TensorImpl>> Instance::ConstantOn(const TensorImpl& value, rt::Device& device) {
  std::lock_guard lock(constants_mutex_);
  Ref<TensorImpl>& there = constants_[{&value, &device}];
  if (there) return there;
  TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> copy, TensorImpl::Make(device, value));
  TSR_RETURN_IF_ERROR(
      device.CopyFromHost(copy->data, value.data, static_cast<size_t>(value.size()) * SizeOf(value.dtype)));
  there = copy;
  return copy;
}

absl::Status Bind(const Bytecode& code, absl::Span<const TensorType* const> args,
                  absl::InlinedVector<int64_t, 8>* values) {
  const ir::Function& function = *code.source;
  const ir::SymbolTable& symbols = *function.symbols;
  const int n = symbols.num_named();
  if (args.size() != code.params.size()) {
    return InvalidArgument("@", code.name, " takes ", code.params.size(), " arguments, not ", args.size());
  }
  values->assign(n, -1);
  for (size_t i = 0; i < args.size(); ++i) {
    const TensorType& want = code.param_types[i];
    const TensorType& given = *args[i];
    auto wrong = [&](const std::string& why) {
      return InvalidArgument("@", code.name, ": argument ", i, " (%", function.values[function.params[i].value].name,
                             ") must be ", ir::TypeName(&symbols, want), ", not ", ToString(given), why);
    };
    if (given.dtype != want.dtype) return wrong("; cast it");
    if (given.rank != want.rank) return wrong("");
    for (int d = 0; d < want.rank; ++d) {
      if (want.dims[d] >= 0) {
        if (want.dims[d] != given.dims[d]) return wrong("");
        continue;
      }
      const int32_t s = code.param_symbols[i * kMaxRank + static_cast<size_t>(d)];
      if (s < 0) continue;
      if ((*values)[s] < 0) {
        (*values)[s] = given.dims[d];
      } else if ((*values)[s] != given.dims[d]) {
        return wrong(absl::StrCat(": ", std::string(symbols.named(s)), " is ", (*values)[s], " already"));
      }
    }
  }
  // Dims that are expressions can be checked once every symbol has its number.
  for (size_t i = 0; i < args.size(); ++i) {
    for (int d = 0; d < code.param_types[i].rank; ++d) {
      const int64_t want = code.param_types[i].dims[d];
      if (want >= 0 || code.param_symbols[i * kMaxRank + static_cast<size_t>(d)] >= 0) continue;
      const int64_t number = symbols.Evaluate(want, *values);
      if (number != args[i]->dims[d]) {
        return InvalidArgument("@", code.name, ": argument ", i, " is ", ToString(*args[i]), ", and dim ", d,
                               " must be ", symbols.Name(want), " = ", number);
      }
    }
  }
  return symbols.CheckFacts(*values);
}

std::vector<std::vector<ir::Attr>> ResolveAttrs(const Bytecode& code, absl::Span<const int64_t> values) {
  std::vector<std::vector<ir::Attr>> attrs = code.attrs;
  for (auto& list : attrs) {
    for (ir::Attr& a : list) {
      if (auto* ints = std::get_if<ir::Ints>(&a)) {
        for (int64_t& v : *ints)
          if (ir::IsSymbol(v)) v = code.source->symbols->Evaluate(v, values);
      }
    }
  }
  return attrs;
}

namespace {

// The attributes of one call, with numbers in place of symbols. Copies are used again by later calls, so that only what
// the symbols are in is written.
class CallAttrs {
 public:
  CallAttrs(const Bytecode& code, absl::Span<const int64_t> values) : code_(code) {
    if (!code.symbolic_attrs) return;
    {
      std::lock_guard lock(code.attr_pool.mutex);
      if (!code.attr_pool.idle.empty()) {
        mine_ = std::move(code.attr_pool.idle.back());
        code.attr_pool.idle.pop_back();
      }
    }
    if (mine_ == nullptr) mine_ = std::make_unique<std::vector<std::vector<ir::Attr>>>(code.attrs);
    for (const auto& [list, index] : code.attr_pool.symbolic) {
      const ir::Ints& from = std::get<ir::Ints>(code.attrs[list][index]);
      ir::Ints& to = std::get<ir::Ints>((*mine_)[list][index]);
      for (size_t i = 0; i < from.size(); ++i)
        if (ir::IsSymbol(from[i])) to[i] = code.source->symbols->Evaluate(from[i], values);
    }
  }
  ~CallAttrs() {
    constexpr size_t kMostIdle = 16;
    if (mine_ == nullptr) return;
    std::lock_guard lock(code_.attr_pool.mutex);
    if (code_.attr_pool.idle.size() < kMostIdle) code_.attr_pool.idle.push_back(std::move(mine_));
  }
  CallAttrs(const CallAttrs&) = delete;
  const std::vector<ir::Attr>* data() const { return mine_ != nullptr ? mine_->data() : code_.attrs.data(); }

 private:
  const Bytecode& code_;
  std::unique_ptr<std::vector<std::vector<ir::Attr>>> mine_;
};

// The arguments of a plain function; what is wrong with them, if anything, Bind() says.
bool Fit(const Bytecode& code, absl::Span<TensorImpl* const> args) {
  if (args.size() != code.params.size()) return false;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i]->dtype != code.param_types[i].dtype || !args[i]->SameDims(code.param_types[i])) return false;
  return true;
}

}  // namespace

absl::Status CallAtDepth(Instance& instance, int function, absl::Span<TensorImpl* const> args, rt::Device& device,
                         int depth, Results* results, Frame* caller, const Insn* call) {
  const Bytecode& code = *instance.program->functions[function];
  if (depth >= kMaxDepth) {
    return ResourceExhausted("@", code.name, ": calls are nested more than ", kMaxDepth,
                             " deep; is there a recursion without end?");
  }
  if (Interrupted()) [[unlikely]]
    return InterruptedStatus();
  absl::InlinedVector<int64_t, 8> values;
  if (!code.is_plain || !Fit(code, args)) {
    absl::InlinedVector<const TensorType*, 8> types(args.begin(), args.end());
    TSR_RETURN_IF_ERROR(Bind(code, types, &values));
  }
  const CallAttrs attrs(code, values);
  rt::Count(rt::Metric::functions_called);
  FrameMemory memory(code);
  Frame frame{.instance = &instance,
              .code = &code,
              .device = args.empty() ? &device : &args[0]->device(),
              .depth = depth,
              .registers = memory.registers(),
              .counters = memory.counters(code),
              .attrs = attrs.data()};
  // No two parameters have the same register, and all registers are empty.
  for (size_t i = 0; i < args.size(); ++i) frame.registers[code.params[i]] = args[i];
  frame.borrows = true;
  if (caller != nullptr && caller->recorder != nullptr) [[unlikely]] {
    frame.Own();
    if (caller->recorder->open() && caller->recorder->OnCall(*caller, *call, frame)) frame.recorder = caller->recorder;
  } else if (code.anchors[0].Arrive()) {
    if (FunctionHook* hook = CurrentFunctionHook()) {
      auto next = hook->OnAnchor(frame, code.anchors[0], results);
      if (!next.ok() || *next == FunctionHook::Next::returned) {
        if (!frame.borrows) ReleaseRegisters(frame);
        return next.status();
      }
    }
  }
  if (!code.is_straight) frame.Own();
  return Resume(frame, results);
}

namespace {

absl::Status Machine::CallFunction(const Insn& insn) {
  absl::InlinedVector<Ref<TensorImpl>, 8> owned;
  absl::InlinedVector<TensorImpl*, 8> args;
  for (int i = 0; i < insn.num_operands; ++i) {
    TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> value, TensorOperand(insn, i));
    args.push_back(value.get());
    owned.push_back(std::move(value));
  }
  Results results;
  TSR_RETURN_IF_ERROR(CallAtDepth(*f_.instance, insn.target, args, *f_.device, f_.depth + 1, &results, &f_, &insn));
  for (int i = 0; i < insn.num_results; ++i) {
    SetRegister(f_.registers[code_.registers[insn.results + i]], results[i].release());
  }
  return absl::OkStatus();
}

struct PrintSink {
  std::mutex mutex;
  std::function<void(std::string_view)> sink;
};
PrintSink& ThePrintSink() {
  static auto* sink = new PrintSink;
  return *sink;
}

}  // namespace

Instance::~Instance() {
  if (FunctionHook* hook = CurrentFunctionHook(); hook != nullptr && program != nullptr) hook->OnInstanceEnd(*this);
}

std::unique_ptr<Instance> MakeInstance(std::shared_ptr<const ir::Module> module) {
  StartTiers();
  auto instance = std::make_unique<Instance>();
  for (const ir::Buffer& b : module->buffers) {
    instance->buffers.push_back(std::make_unique<BufferState>(b.type, instance->buffer_epoch));
  }
  instance->program = Decode(std::move(module));
  return instance;
}

// Registers and counters of nested activations, one stack per thread, so that a call allocates nothing after the
// first. Frames that do not fit (deep recursion, huge functions) go to the heap.
constexpr size_t kStackWords = 16384;
// On the heap: a library that is opened late, as from Python, has little room for thread-local storage.
struct FrameMemory::Stack {
  size_t used = 0;
  int64_t words[kStackWords];
  void Retire() {}
  void Fold() {}
};

FrameMemory::FrameMemory(const Bytecode& code)
    : words_(static_cast<size_t>(code.num_registers) + static_cast<size_t>(code.num_slots) * 3) {
  Stack* stack = rt::PerThread<Stack>::Get();
  if (stack != nullptr && stack->used + words_ <= kStackWords) {
    stack_ = stack;
    base_ = stack->words + stack->used;
    stack->used += words_;
  } else {
    heap_ = std::make_unique<int64_t[]>(words_);
    base_ = heap_.get();
  }
  std::memset(base_, 0, words_ * sizeof(int64_t));
}

FrameMemory::~FrameMemory() {
  if (!heap_) stack_->used -= words_;
}

absl::Status Resume(Frame& frame, Results* results) {
  Observer* observer = CurrentObserver();
  if (observer != nullptr) [[unlikely]]
    observer->OnFunctionEnter(frame.code);
  if (rt::EventsOn()) [[unlikely]]
    rt::Record(rt::EventKind::function_enter, NumberOf(*frame.code), frame.depth);
  TSR_LOG(2, "tier 1 enters @", frame.code->name, " at depth ", frame.depth);
  absl::Status status = Machine(frame).Run(results);
  if (frame.recorder != nullptr && frame.recorder->open()) [[unlikely]]
    frame.recorder->OnLeave(frame, status);
  // Straight code that has returned has freed all but its parameters.
  if (!frame.borrows || !status.ok()) ReleaseRegisters(frame);
  if (observer != nullptr) [[unlikely]]
    observer->OnFunctionExit(frame.code);
  return status;
}

absl::Status Call(Instance& instance, int function, absl::Span<TensorImpl* const> args, rt::Device& device,
                  Results* results) {
  const Bytecode& code = *instance.program->functions[function];
  if (code.anchors.front().at_once.load(std::memory_order_relaxed) && !Interrupted() &&
      CurrentFunctionHook()->CallAtOnce(instance, code, args, results)) {
    return absl::OkStatus();
  }
  return CallAtDepth(instance, function, args, device, 0, results);
}

void SetPrintSink(std::function<void(std::string_view)> sink) {
  std::lock_guard lock(ThePrintSink().mutex);
  ThePrintSink().sink = std::move(sink);
}

void PrintLine(std::string_view text) {
  std::lock_guard lock(ThePrintSink().mutex);
  if (ThePrintSink().sink) return ThePrintSink().sink(text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

}  // namespace tessera::interp
