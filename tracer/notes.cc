#include "tracer/notes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::tracer {
namespace {

// The counter may tick more slowly than a small op runs; none takes less than this, over all of them.
constexpr int64_t kLeastNs = 20;

uint8_t AlignmentOf(const void* data) {
  const uintptr_t low = reinterpret_cast<uintptr_t>(data) & 63;
  return static_cast<uint8_t>(low == 0 ? 64 : low & -low);
}

int64_t Nanoseconds(int64_t ticks, double ns_per_tick) {
  return static_cast<int64_t>(static_cast<double>(ticks) * ns_per_tick);
}

interp::Source SourceOf(const EagerNotes::Step& s) {
  if (s.is_text) return *s.source;
  if (s.where.line() == 0) return {};
  return {s.where.file_name(), static_cast<int>(s.where.line()), static_cast<int>(s.where.column())};
}

}  // namespace

// ---- ValueNotes

ValueId ValueNotes::AddInput(const View& x, int32_t step, int32_t reg) {
  const ValueId v = Add(TraceValue::Kind::input, x, step);
  values_.back().alignment = AlignmentOf(x.data);
  for (int d = 0; d < x.rank; ++d) numbers_.emplace_back(x.strides[d]);
  numbers_.emplace_back(reg);
  return v;
}

void ValueNotes::SetMask(ValueId v, const rt::TensorImpl& x, bool is_of_buffer) {
  if (!values_[static_cast<size_t>(v)].is(TraceValue::Kind::input) && !is_of_buffer) return;
  if (x.device().kind() != rt::DeviceKind::cpu || x.storage()->is_wrapped()) return;
  // The same one serves many layers.
  for (const auto& [value, shape] : masks_)
    if (value == v) return;
  masks_.emplace_back(v, ShapeOfMask(x));
}

ValueId ValueNotes::AddNumber(const TensorType& type, int64_t bits, int32_t step, bool is_fixed) {
  const ValueId v = Add(TraceValue::Kind::number, type, step);
  values_.back().is_fixed = is_fixed ? 1 : 0;
  numbers_.emplace_back(bits);
  return v;
}

void ValueNotes::Expand(Chunked<TraceValue>& values) const {
  auto number = numbers_.begin();
  for (const Value& from : values_) {
    TraceValue& to = values.emplace_back();
    to.kind = static_cast<TraceValue::Kind>(from.kind);
    to.is_fixed = from.is_fixed != 0;
    to.step = from.step;
    to.alignment = from.alignment;
    to.type.dtype = from.dtype;
    to.type.rank = from.rank;
    to.type.weak = from.weak != 0;
    for (int d = 0; d < from.rank; ++d) to.type.dims[d] = *number++;
    if (from.is(TraceValue::Kind::input)) {
      to.strides.resize(from.rank);
      for (int64_t& stride : to.strides) stride = *number++;
      to.reg = static_cast<int32_t>(*number++);
    } else if (from.is(TraceValue::Kind::number)) {
      to.number.i = *number++;
    }
  }
  for (const auto& [v, shape] : masks_) values[static_cast<size_t>(v)].mask = shape;
}

// ---- EagerNotes

std::string EagerNotes::Name() const {
  if (steps.empty()) return "";
  const interp::Source source = SourceOf(steps[0]);
  if (source.file == nullptr) return absl::StrCat("op ", std::string(ir::Info(static_cast<ir::Op>(steps[0].op)).name));
  const std::string_view file = source.file;
  return absl::StrCat(std::string(file.substr(file.rfind('/') + 1)), ":", source.line);
}

std::shared_ptr<Trace> EagerNotes::Expand() {
  Trace& t = *trace;
  t.name = Name();
  values.Expand(t.values);
  for (size_t v = 0; v < values.size(); ++v) t.values[v].death = lives[v].death();
  auto operand = operands.begin();
  ValueId result = 0;
  int64_t ticks = 0;
  for (const Step& from : steps) {
    TraceStep& to = t.steps.emplace_back();
    to.op = static_cast<ir::Op>(from.op);
    to.site = from.site;
    to.path = from.path;
    to.source = SourceOf(from);
    to.ns = Nanoseconds(from.ticks, ns_per_tick);
    to.attrs = attrs.Take(from.attrs);
    for (int k = 0; k < from.num_in; ++k) to.in.push_back(*operand++);
    for (int k = 0; k < from.num_out; ++k) {
      while (t.values[static_cast<size_t>(result)].kind != TraceValue::Kind::result) ++result;
      to.out.push_back(result++);
    }
    ticks += from.ticks;
  }
  t.tier1_ns = std::max(Nanoseconds(ticks, ns_per_tick), kLeastNs * static_cast<int64_t>(t.steps.size()));
  return std::move(trace);
}

void EagerNotes::Recycle() {
  const size_t count = steps.size();
  trace = nullptr;
  steps.clear();
  operands.clear();
  values.clear();
  lives.clear();
  attrs.clear();
  sources.clear();
  SpareNotes<EagerNotes>::Give(this, count);
}

void EagerNotes::Touch(size_t size) {
  steps.Touch(size);
  operands.Touch(2 * size);
  values.Touch(size);
  lives.Touch(size);
}

void EagerNotes::Fetch() const {
  steps.Fetch();
  operands.Fetch();
  values.Fetch();
  lives.Fetch();
}

// ---- FunctionNotes

void FunctionNotes::ShareTicks() {
  for (size_t i = 0, first = 0; i < steps.size(); ++i) {
    const int64_t ticks = steps[i].ticks;
    if (ticks == Step::kWithNext) continue;
    for (size_t k = first; k <= i; ++k) steps[k].ticks = ticks / static_cast<int64_t>(i + 1 - first);
    first = i + 1;
  }
}

std::shared_ptr<Trace> FunctionNotes::Expand() {
  ShareTicks();
  Trace& t = *trace;
  values.Expand(t.values);
  auto constant = constants.begin();
  for (TraceValue& v : t.values)
    if (v.kind == TraceValue::Kind::constant) v.constant = std::move(*constant++);

  // What the registers of each frame hold; those of the root frame that the trace never reads hold something, too.
  constexpr ValueId kUnknown = -2;
  std::vector<std::vector<ValueId>> held;
  for (const TraceFrame& f : t.frames)
    held.emplace_back(static_cast<size_t>(f.code->num_registers), held.empty() ? kUnknown : kNoValue);
  for (size_t v = 0; v < t.values.size(); ++v)
    if (const int32_t reg = t.values[v].reg; reg >= 0) held[0][static_cast<size_t>(reg)] = static_cast<ValueId>(v);
  const auto change = [&](int32_t frame, int32_t reg, ValueId value) {
    ValueId& now = held[static_cast<size_t>(frame)][static_cast<size_t>(reg)];
    if (std::exchange(now, value) == value) return;
    t.changes.push_back({static_cast<int32_t>(t.steps.size()), frame, reg, value});
  };
  auto told = changes.begin();
  const auto tell = [&] {
    for (; told != changes.end() && (*told).position <= static_cast<int32_t>(t.steps.size()); ++told)
      change((*told).frame, (*told).reg, (*told).value);
  };
  auto operand = operands.begin();
  tell();
  for (const Step& from : steps) {
    const TraceFrame& frame = t.frames[static_cast<size_t>(from.frame)];
    const interp::Insn& insn = frame.code->code[static_cast<size_t>(from.pc)];
    TraceStep& to = t.steps.emplace_back();
    to.kind = from.kind;
    to.outcome = from.outcome;
    to.op = insn.op;
    to.frame = from.frame;
    to.pc = from.pc;
    to.source = {nullptr, insn.loc.line, insn.loc.column};
    to.ns = Nanoseconds(from.ticks, ns_per_tick);
    to.attrs = attrs.Take(from.attrs);
    for (int k = 0; k < from.num_in; ++k) {
      if (from.kind != TraceStep::Kind::op) {
        to.in.push_back(*operand++);
        continue;
      }
      const interp::OperandRef ref = frame.code->operands[insn.operands + static_cast<uint32_t>(k)];
      to.in.push_back(ref >= 0                 ? held[static_cast<size_t>(from.frame)][static_cast<size_t>(ref)]
                      : ref == interp::kAbsent ? kNoValue
                                               : numbers.at({frame.code, ref}));
    }
    for (int k = 0; k < from.num_out; ++k) to.out.push_back(from.first_out + k);
    // An immediate that becomes a tensor belongs to the instruction that needs it, and is in no register.
    if (from.kind == TraceStep::Kind::tensor) {
      tell();
      continue;
    }
    to.target = insn.target;
    if (from.kind == TraceStep::Kind::op) to.attrs_index = insn.attrs;
    if (from.kind == TraceStep::Kind::for_begin) to.counter = frame.first_counter + insn.target;
    if (from.kind == TraceStep::Kind::for_next) to.counter = frame.first_counter + insn.slot;
    const int32_t* registers = frame.code->registers.data();
    for (int k = 0; k < from.num_out; ++k)
      change(from.frame, registers[insn.results + static_cast<uint32_t>(k)], to.out[static_cast<size_t>(k)]);
    for (int k = 0; k < insn.num_frees; ++k)
      change(from.frame, registers[insn.frees + static_cast<uint32_t>(k)], kNoValue);
    tell();
  }
  return std::move(trace);
}

void FunctionNotes::Touch(size_t size) {
  steps.Touch(size);
  operands.Touch(2 * size);
  values.Touch(size);
}

void FunctionNotes::Fetch() const {
  steps.Fetch();
  operands.Fetch();
  values.Fetch();
}

void FunctionNotes::Recycle() {
  const size_t count = steps.size();
  trace = nullptr;
  steps.clear();
  operands.clear();
  values.clear();
  attrs.clear();
  numbers.clear();
  changes.clear();
  constants.clear();
  SpareNotes<FunctionNotes>::Give(this, count);
}

}  // namespace tessera::tracer
