// What of a trace does not depend on a run: steps as they are matched, guards of inputs, and which types vary with
// what.
#include <algorithm>

#include "tiers/version.h"

namespace tessera::tiers {
namespace {

bool HasSymbol(const TensorType& type) {
  return std::any_of(type.dims, type.dims + type.rank, [](int64_t dim) { return ir::IsSymbol(dim); });
}

Layout::Guard GuardOf(const Trace& trace, const TraceValue& input) {
  Layout::Guard g;
  if (input.type.rank > 3 || input.mask != tracer::MaskShape::unknown) return g;
  for (int d = 0; d < input.type.rank; ++d) {
    if (ir::IsSymbol(input.type.dims[d])) return g;
    g.dims[d] = input.type.dims[d];
    g.strides[d] = input.strides[d];
  }
  g.dtype = input.type.dtype;
  g.rank = input.type.rank;
  g.device = trace.device;
  return g;
}

using interp::PlainStep;

PlainStep PlainStepOf(const Layout::Step& step, const Layout::Operand* operands) {
  using Kind = Layout::Operand::Kind;
  PlainStep plain;
  // More than booleans is compared with the trace.
  uint8_t bools = 0;
  if (step.has_attrs) {
    if (step.num_bools != 2) return plain;
    bools = PlainStep::Bools((step.bools & 1) != 0, (step.bools & 2) != 0);
  }
  if (step.num_in > PlainStep::kMost || step.may_fail || step.num_out != 1 || step.on_default) return plain;
  uint64_t key = PlainStep::Key(step.op, step.num_in, bools);
  for (size_t k = 0; k < step.num_in; ++k) {
    const Layout::Operand& o = operands[k];
    PlainStep::Operand kind = PlainStep::Operand::tensor;
    if (o.kind == Kind::absent) return plain;
    if (o.kind == Kind::number) {
      kind = o.dtype == DType::boolean ? PlainStep::Operand::boolean
             : o.dtype == DType::i64   ? PlainStep::Operand::integer
                                       : PlainStep::Operand::floating;
    }
    plain.in[k] = o.kind == Kind::number ? -1 - o.number : o.tensor;
    key |= PlainStep::Key(k, kind);
  }
  plain.site = step.site;
  plain.key = key;
  plain.result = step.result;
  return plain;
}

}  // namespace

Layout::Layout(const Trace& trace) {
  const auto num_values = static_cast<int32_t>(trace.values.size());
  dims.assign(trace.values.size() * kMaxRank, -1);
  shape_of.assign(trace.values.size(), -1);
  guard_of.assign(trace.values.size(), -1);
  lasts.assign(trace.values.size(), false);
  std::vector<bool> varies(trace.values.size(), false);
  std::vector<bool> by_symbols(trace.values.size(), false);  // results whose strides follow from symbols
  symbol_made_at.assign(trace.ranges.size(), INT32_MAX);
  for (size_t v = 0; v < trace.values.size(); ++v) {
    const TraceValue& value = trace.values[v];
    if (value.kind == TraceValue::Kind::input) inputs.push_back(static_cast<ValueId>(v));
    for (int d = 0; d < value.type.rank; ++d) {
      const int64_t dim = value.type.dims[d];
      if (!ir::IsSymbol(dim)) continue;
      varies[v] = true;
      auto it = std::find(expressions.begin(), expressions.end(), dim);
      dims[v * kMaxRank + static_cast<size_t>(d)] = static_cast<int16_t>(it - expressions.begin());
      if (it == expressions.end()) expressions.push_back(dim);
    }
  }
  std::vector<int32_t> number_of(trace.values.size(), -1);
  int32_t numbers = 0;
  for (size_t v = 0; v < trace.values.size(); ++v)
    if (trace.values[v].kind == TraceValue::Kind::number) number_of[v] = numbers++;
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const TraceStep& s = trace.steps[i];
    const ir::OpInfo& op = ir::Info(s.op);
    Step step;
    step.site = s.site;
    step.op = s.op;
    step.num_in = static_cast<uint8_t>(std::min<size_t>(s.in.size(), 255));
    step.num_out = static_cast<uint16_t>(s.out.size());
    step.has_attrs = !s.attrs.empty();
    step.operands = static_cast<uint32_t>(operands.size());
    step.results = static_cast<uint32_t>(results.size());
    step.varies = s.infer_at_run;
    for (const ir::Attr& a : s.attrs) {
      if (const auto* ints = std::get_if<ir::Ints>(&a))
        for (int64_t n : *ints) step.attrs_vary |= ir::IsSymbol(n);
    }
    if (step.has_attrs && s.attrs.size() <= 8 && std::all_of(s.attrs.begin(), s.attrs.end(), [](const ir::Attr& a) {
          return std::get_if<bool>(&a) != nullptr;
        })) {
      step.num_bools = static_cast<int8_t>(s.attrs.size());
      for (size_t k = 0; k < s.attrs.size(); ++k)
        step.bools = static_cast<uint8_t>(step.bools | std::get<bool>(s.attrs[k]) << k);
    }
    step.varies |= step.attrs_vary;
    step.is_simple = s.kind == TraceStep::Kind::op && !s.infer_at_run && !step.attrs_vary && op.impl != ir::Impl::view;
    // A GPU tells of errors in values when somebody waits for it, in tier 1 as here.
    if (op.impl == ir::Impl::kernel && !op.name.starts_with("random_") && trace.device->kind() == rt::DeviceKind::cpu) {
      for (const ir::OperandSpec& o : op.operands) step.may_fail |= o.role == ir::Role::index;
    }
    for (ValueId v : s.in) {
      if (v == kNoValue) {
        operands.push_back({Operand::Kind::absent, DType::f32, v, -1, num_values});
        continue;
      }
      const TraceValue& value = trace.values[v];
      step.varies |= varies[v];
      const bool is_new = value.kind == TraceValue::Kind::input && value.step == static_cast<int32_t>(i) &&
                          std::none_of(operands.begin() + step.operands, operands.end(),
                                       [&](const Operand& o) { return o.value == v; });
      const bool is_number = value.kind == TraceValue::Kind::number;
      operands.push_back({value.kind == TraceValue::Kind::result ? Operand::Kind::result
                          : is_number                            ? Operand::Kind::number
                          : is_new                               ? Operand::Kind::new_input
                                                                 : Operand::Kind::known_input,
                          value.type.dtype, v,
                          is_number ? number_of[v]
                          : is_new  ? static_cast<int32_t>(guards.size())
                                    : -1,
                          is_number ? num_values + 1
                          : is_new  ? num_values + 2 + static_cast<int32_t>(guards.size())
                                    : v});
      if (!is_new) continue;
      guard_of[v] = static_cast<int32_t>(guards.size());
      guards.push_back(GuardOf(trace, value));
      guarded.push_back(v);
    }
    for (ValueId v : s.out) {
      // The strides of a window vary with those of what it looks at.
      step.varies |= varies[v];
      if (step.varies) varies[v] = true;
      results.push_back(v);
      lasts[v] = trace.values[v].death == tracer::kAtEnd;
      if (lasts[v]) lasting.push_back(v);
      const TensorType& type = trace.values[v].type;
      for (int d = 0; s.infer_at_run && d < type.rank; ++d) {
        const int symbol = ir::IsSymbol(type.dims[d]) ? tracer::NamedIndex(*trace.symbols, type.dims[d]) : -1;
        if (symbol >= 0) symbol_made_at[symbol] = std::min(symbol_made_at[symbol], static_cast<int32_t>(i));
      }
    }
    for (ValueId v : s.out) {
      const TensorType& type = trace.values[v].type;
      if (!step.is_simple || !HasSymbol(type)) continue;
      const auto it =
          std::find_if(shapes.begin(), shapes.end(), [&](ValueId w) { return type.SameDims(trace.values[w].type); });
      shape_of[v] = static_cast<int32_t>(it - shapes.begin());
      if (it == shapes.end()) shapes.push_back(v);
    }
    const bool follows = step.is_simple || (s.kind == TraceStep::Kind::op && !s.infer_at_run && !step.attrs_vary &&
                                            s.in.size() == 1 && s.in[0] != kNoValue && by_symbols[s.in[0]]);
    for (ValueId v : s.out) by_symbols[v] = follows;
    if (step.varies) {
      varying.push_back(static_cast<int32_t>(i));
      if (!follows) resolved_alone.push_back(static_cast<int32_t>(i));
    }
    for (ValueId v : s.out)
      if (step.varies && (shape_of[v] >= 0 || !step.is_simple))
        varying_results.push_back({static_cast<int32_t>(i), v, shape_of[v], trace.values[v].type.rank});
    const Operand* const in = operands.data() + step.operands;
    const auto is_number = [](const Operand& o) { return o.kind == Operand::Kind::number; };
    step.on_default =
        std::all_of(in, in + step.num_in, [&](const Operand& o) { return is_number(o) || o.value == kNoValue; });
    if (step.num_out > 0) step.result = s.out[0];
    steps.push_back(step);
    if (trace.is_eager) plain.push_back(PlainStepOf(step, in));
  }
  steps.emplace_back();
  plain.emplace_back();
}

}  // namespace tessera::tiers
