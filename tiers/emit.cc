#include "tiers/emit.h"

#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "absl/numeric/bits.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "interp/views.h"
#include "runtime/options.h"
#include "tiers/memory_plan.h"
#include "tiers/version.h"

namespace tessera::tiers {
namespace {

using tracer::Trace;
using tracer::TraceStep;
using tracer::TraceValue;

const char* TypeName(DType dtype) {
  switch (dtype) {
    case DType::f64: return "f64";
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::f8e4m3: return "f8E4M3FN";
    case DType::f8e5m2: return "f8E5M2";
    case DType::i64: return "i64";
    case DType::i32: return "i32";
    case DType::i8: return "i8";
    case DType::u8: return "ui8";
    case DType::boolean: return "i1";
  }
  return "none";
}

std::string Float(double x) {
  if (!std::isfinite(x)) {
    uint64_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return absl::StrFormat("0x%016X : f64", bits);
  }
  std::string text = absl::StrFormat("%.17g", x);
  if (text.find('.') == std::string::npos) {
    const size_t e = text.find('e');
    text.insert(e == std::string::npos ? text.size() : e, ".0");
  }
  return text + " : f64";
}

template <class T>
std::string Array(const char* type, const T& list) {
  return list.empty() ? absl::StrCat("array<", type, ">")
                      : absl::StrCat("array<", type, ": ", absl::StrJoin(list, ", "), ">");
}

class Emitter {
 public:
  Emitter(const Trace& trace, const Trace& example, int tier, bool locations, const std::string& file)
      : trace_(trace),
        example_(example),
        tier_(tier),
        locations_(locations),
        file_(file),
        plan_(PlanMemory(trace, {}, nullptr)) {
    for (const TraceValue& value : trace.values) outlives_.push_back(value.death == tracer::kAtEnd);
    for (size_t i = trace.steps.size(); i-- > 0;) {
      const TraceStep& s = trace.steps[i];
      if (!MayShare(s)) continue;
      for (ValueId v : s.out)
        if (outlives_[static_cast<size_t>(v)]) outlives_[static_cast<size_t>(s.in[0])] = true;
    }
    views_.resize(trace.values.size());
    for (size_t v = 0; v < views_.size(); ++v) {
      const TraceValue& value = example_.values[v];
      static_cast<TensorType&>(views_[v]) = value.type;
      views_[v].weak = false;
      views_[v].SetContiguousStrides();
      views_[v].data = kSomewhere;
      if (value.kind == TraceValue::Kind::input)
        for (int d = 0; d < value.type.rank; ++d) views_[v].strides[d] = value.strides[d];
      if (value.kind == TraceValue::Kind::constant)
        for (int d = 0; d < value.type.rank; ++d) views_[v].strides[d] = value.constant->strides[d];
    }
  }

  std::string Emit(bool sizes = true) {
    std::vector<std::string> arguments, strides;
    std::vector<ValueId> ids;
    for (size_t v = 0; v < trace_.values.size(); ++v) {
      if (trace_.values[v].kind == TraceValue::Kind::result) continue;
      arguments.push_back(absl::StrCat(Name(static_cast<ValueId>(v)), ": ", Type(trace_.values[v].type)));
      strides.push_back(Strides(static_cast<ValueId>(v)));
      ids.push_back(static_cast<ValueId>(v));
    }
    for (size_t i = 0; i < trace_.steps.size(); ++i) Step(static_cast<int>(i));
    const std::vector<int64_t> likely = sizes ? Likely() : std::vector<int64_t>();
    return absl::StrCat("module {\n\"tsr_graph.trace\"() ({\n^bb0(", absl::StrJoin(arguments, ", "), "):\n", body_,
                        "}) {sym_name = \"", trace_.is_eager ? "eager" : "function", "\", values = ", Array("i32", ids),
                        ", strides = [", absl::StrJoin(strides, ", "), "]",
                        likely.empty() ? "" : absl::StrCat(", likely = ", Array("i64", likely)), Numbers(),
                        "} : () -> ()\n}\n");
  }

 private:
  static std::string Name(ValueId v) { return absl::StrCat("%v", v); }

  std::string Type(const TensorType& type) {
    std::vector<int64_t> symbols;
    std::string dims;
    bool any = false;
    for (int d = 0; d < type.rank; ++d) {
      const int64_t dim = type.dims[d];
      const bool is_symbol = ir::IsSymbol(dim) || (tier_ < 3 && dim >= 2);
      if (is_symbol) {
        any = true;
        symbols.push_back(symbols_.try_emplace(dim, static_cast<int64_t>(symbols_.size())).first->second);
        dims += "?x";
      } else {
        symbols.push_back(-1);
        absl::StrAppend(&dims, dim, "x");
      }
    }
    return absl::StrCat("tensor<", dims, TypeName(type.dtype),
                        any ? absl::StrCat(", [", absl::StrJoin(symbols, ", "), "]") : "", ">");
  }

  // Those that never change and are exact in f64.
  std::string Numbers() const {
    constexpr int64_t kMost = int64_t{1} << 53;
    std::vector<std::string> numbers;
    for (size_t v = 0; v < trace_.values.size(); ++v) {
      const TraceValue& value = trace_.values[v];
      if (value.kind != TraceValue::Kind::number || !value.is_fixed) continue;
      const bool is_float = value.type.dtype == DType::f64;
      if (!is_float && (value.number.i > kMost || value.number.i < -kMost)) continue;
      numbers.push_back(
          absl::StrCat("v", v, " = ", Float(is_float ? value.number.f : static_cast<double>(value.number.i))));
    }
    return numbers.empty() ? "" : absl::StrCat(", numbers = {", absl::StrJoin(numbers, ", "), "}");
  }

  // What the example has for each symbol. Large sizes are rounded, so that runs with others like them share the code.
  std::vector<int64_t> Likely() const {
    std::vector<int64_t> likely(symbols_.size(), -1);
    for (size_t v = 0; v < trace_.values.size(); ++v) {
      const TensorType &type = trace_.values[v].type, &seen = example_.values[v].type;
      for (int d = 0; d < type.rank && d < seen.rank; ++d) {
        auto it = symbols_.find(type.dims[d]);
        if (it == symbols_.end() || ir::IsSymbol(seen.dims[d])) continue;
        int64_t& size = likely[static_cast<size_t>(it->second)];
        size = seen.dims[d];
        if (size > 16) size = static_cast<int64_t>(absl::bit_ceil(static_cast<uint64_t>(size)));
      }
    }
    return likely;
  }

  std::string Strides(ValueId v) const {
    std::vector<int64_t> known;
    const View& view = views_[v];
    if (!view.IsContiguous())
      for (int d = 0; d < view.rank; ++d)
        known.push_back(view.dims[d] != 1 && (view.strides[d] == 0 || view.strides[d] == 1) ? view.strides[d] : -1);
    return Array("i64", known);
  }

  // The last step that needs v; INT32_MAX where it leaves the trace.
  int32_t Until(ValueId v) const {
    if (trace_.is_eager) return outlives_[static_cast<size_t>(v)] ? INT32_MAX : static_cast<int32_t>(plan_.last[v]);
    return plan_.last[v] >= static_cast<int>(trace_.steps.size()) ? INT32_MAX : static_cast<int32_t>(plan_.last[v]);
  }

  // v in another dtype, as the op wants its operand.
  std::string Cast(ValueId v, DType to) {
    TensorType type = trace_.values[v].type;
    if (type.dtype == to) return Name(v);
    const std::string from = Type(type);
    type.dtype = to;
    const std::string name = absl::StrCat("%c", casts_++);
    absl::StrAppend(&body_, "  ", name, " = \"tsr_graph.cast\"(", Name(v), ") : (", from, ") -> ", Type(type), place_,
                    "\n");
    return name;
  }

  void Step(int i) {
    TraceStep s = trace_.steps[i];
    UseKnownMask(s);
    const ir::OpInfo& op = ir::Info(s.op);
    std::vector<std::string> operands, operand_types, results, result_types, attrs;
    std::vector<int32_t> ids, untils, absent;
    const bool is_op = s.kind == TraceStep::Kind::op;
    place_ = Place(s.source);
    DType data = DType::f32;
    if (is_op && op.dtypes != ir::DTypeSet::s_none) {
      absl::InlinedVector<const TensorType*, 8> types;
      for (ValueId v : s.in) types.push_back(v == kNoValue ? nullptr : &trace_.values[v].type);
      data = ir::OperandDType(op, types);
    }
    for (size_t k = 0; k < s.in.size(); ++k) {
      const ValueId v = s.in[k];
      if (v == kNoValue) {
        absent.push_back(static_cast<int32_t>(k));
        continue;
      }
      TensorType type = trace_.values[v].type;
      std::string name = Name(v);
      if (is_op && op.impl == ir::Impl::ew) {
        const ir::OperandSpec& spec = k < op.operands.size() ? op.operands[k] : op.operands.back();
        const DType want = spec.role == ir::Role::boolean ? DType::boolean : data;
        name = Cast(v, want);
        type.dtype = want;
      }
      operands.push_back(name);
      operand_types.push_back(Type(type));
    }
    for (ValueId v : s.out) {
      results.push_back(Name(v));
      result_types.push_back(Type(trace_.values[v].type));
      ids.push_back(v);
      untils.push_back(Until(v));
    }
    // Absent operands are only said where a later one is given.
    while (!absent.empty() && static_cast<size_t>(absent.back()) == s.in.size() - 1) absent.pop_back();
    attrs.push_back(absl::StrCat("step = ", i, " : i32"));
    attrs.push_back(absl::StrCat("values = ", Array("i32", ids)));
    attrs.push_back(absl::StrCat("until = ", Array("i32", untils)));
    if (!absent.empty() && is_op) attrs.push_back(absl::StrCat("absent = ", Array("i32", absent)));
    if (is_op) {
      if (op.impl == ir::Impl::view) SetViews(i, op, &attrs);
      for (size_t a = 0; a < op.attrs.size() && a < s.attrs.size(); ++a) {
        const std::string text = Attr(op, op.attrs[a], s.attrs[a]);
        if (!text.empty()) attrs.push_back(absl::StrCat(op.attrs[a].name, " = ", text));
      }
    } else {
      attrs.push_back(absl::StrCat("kind = \"", KindName(s.kind), "\""));
    }
    absl::StrAppend(&body_, "  ", absl::StrJoin(results, ", "), results.empty() ? "" : " = ", "\"tsr_graph.",
                    is_op ? std::string(op.name) : "step", "\"(", absl::StrJoin(operands, ", "), ") {",
                    absl::StrJoin(attrs, ", "), "} : (", absl::StrJoin(operand_types, ", "), ") -> (",
                    absl::StrJoin(result_types, ", "), ")");
    absl::StrAppend(&body_, place_, "\n");
  }

  // Attention whose mask was seen to be simple does without it: tiers/version.cc makes that a guard. Tier 3 alone, and
  // not where bits count, because sums over fewer keys may round otherwise.
  void UseKnownMask(TraceStep& s) const {
    if (tier_ < 3 || rt::options().bitwise() || s.kind != TraceStep::Kind::op || s.op != ir::Op::k_attention) return;
    if (s.in.size() <= tracer::kMaskOperand || s.in[tracer::kMaskOperand] == kNoValue) return;
    const tracer::MaskShape mask = trace_.values[s.in[tracer::kMaskOperand]].mask;
    if (mask == tracer::MaskShape::unknown) return;
    s.in[tracer::kMaskOperand] = kNoValue;
    if (mask == tracer::MaskShape::causal) s.attrs[0] = true;
  }

  std::string Place(const interp::Source& source) const {
    if (!locations_ || source.line <= 0) return "";
    return absl::StrCat(" loc(\"", absl::CEscape(source.file != nullptr ? source.file : file_), "\":", source.line, ":",
                        std::max(source.column, 0), ")");
  }

  static const char* KindName(TraceStep::Kind kind) {
    switch (kind) {
      case TraceStep::Kind::op: return "op";
      case TraceStep::Kind::tensor: return "tensor";
      case TraceStep::Kind::branch: return "branch";
      case TraceStep::Kind::for_begin: return "for_begin";
      case TraceStep::Kind::for_next: return "for_next";
      case TraceStep::Kind::buffer_read: return "buffer_read";
      case TraceStep::Kind::buffer_write: return "buffer_write";
      case TraceStep::Kind::buffer_add: return "buffer_add";
      case TraceStep::Kind::call: return "call";
    }
    return "";
  }

  // Strides of a view op's results in the example.
  void SetViews(int i, const ir::OpInfo& op, std::vector<std::string>* attrs) {
    const TraceStep& s = example_.steps[i];
    const View* in = &views_[s.in[0]];
    std::vector<View*> out;
    for (ValueId v : s.out) out.push_back(&views_[v]);
    if (trace_.values[s.in[0]].kind == TraceValue::Kind::number ||
        !interp::MakeViews({op, {&in, 1}, absl::MakeSpan(out), s.attrs})) {
      for (View* v : out) v->SetContiguousStrides();
    }
    std::vector<std::string> strides;
    for (ValueId v : s.out) strides.push_back(Strides(v));
    attrs->push_back(strides.size() == 1 ? absl::StrCat("tsr.strides = ", strides[0])
                                         : absl::StrCat("tsr.strides = [", absl::StrJoin(strides, ", "), "]"));
  }

  // Empty for those that the code does not depend on: the dims of a view are those of its result.
  std::string Attr(const ir::OpInfo& op, const ir::AttrSpec& spec, const ir::Attr& attr) const {
    if (op.impl == ir::Impl::view && tier_ < 3) return "";
    if (const auto* b = std::get_if<bool>(&attr)) return *b ? "true" : "false";
    if (const auto* n = std::get_if<int64_t>(&attr)) return absl::StrCat(*n, " : i64");
    if (const auto* f = std::get_if<double>(&attr)) return Float(*f);
    if (const auto* d = std::get_if<DType>(&attr)) return TypeName(*d);
    if (const auto* ints = std::get_if<ir::Ints>(&attr)) {
      if (tier_ < 3 && spec.name != "axes" && spec.name != "steps") return "";
      for (int64_t n : *ints)
        if (ir::IsSymbol(n)) return "";
      return Array("i64", *ints);
    }
    if (const auto* text = std::get_if<std::string>(&attr)) return absl::StrCat("\"", absl::CEscape(*text), "\"");
    return "";
  }

  const Trace& trace_;
  const Trace& example_;
  const int tier_;
  const bool locations_;
  const std::string file_;
  const MemoryPlan plan_;
  std::vector<bool> outlives_;  // eager: the trace, in the recording; by itself or through a window onto it
  std::vector<View> views_;     // of the example
  std::map<int64_t, int64_t> symbols_;
  std::string body_;
  std::string place_;  // of the step at hand
  int casts_ = 0;
};

}  // namespace

std::string EmitTrace(const Trace& trace, const Trace& example, int tier, bool locations, const std::string& file) {
  return Emitter(trace, example, tier, locations, file).Emit();
}

std::string EmitPattern(const Trace& trace, const Trace& example) {
  return Emitter(trace, example, 2, /*locations=*/false, "").Emit(/*sizes=*/false);
}

}  // namespace tessera::tiers
