#include "tracer/generalise.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "ir/infer.h"

namespace tessera::tracer {
namespace {

using Seen = absl::InlinedVector<int64_t, 4>;  // one number for each sample

bool Same(const Seen& s) {
  return std::all_of(s.begin(), s.end(), [&](int64_t v) { return v == s[0]; });
}

bool SameKind(const ir::Attr& a, const ir::Attr& b) {
  if (a.index() != b.index()) return false;
  const auto* x = std::get_if<ir::Ints>(&a);
  return x != nullptr ? x->size() == std::get<ir::Ints>(b).size() : a == b;
}

class Generaliser {
 public:
  Generaliser(const std::vector<std::shared_ptr<const Trace>>& samples, Width width, IsTooNarrow is_too_narrow)
      : samples_(samples),
        width_(width),
        is_too_narrow_(is_too_narrow),
        out_(std::make_shared<Trace>(*samples.back())) {}

  std::shared_ptr<const Trace> Run() {
    out_->symbols = std::make_shared<ir::SymbolTable>();
    for (size_t v = 0; v < out_->values.size(); ++v) {
      if (out_->values[v].kind == TraceValue::Kind::input && !Input(v)) return nullptr;
      if (out_->values[v].kind == TraceValue::Kind::number) Number(v);
    }
    for (size_t i = 0; i < out_->steps.size(); ++i) {
      Attrs(i);
      if (!Results(i)) return nullptr;
    }
    for (const auto& s : samples_) out_->tier1_ns = std::min(out_->tier1_ns, s->tier1_ns);
    // Attributes that a function computes from its symbols are computed only where there is a table of them.
    const bool infers =
        std::any_of(out_->steps.begin(), out_->steps.end(), [](const TraceStep& step) { return step.infer_at_run; });
    if (numbers_.empty() && !infers) {
      out_->symbols = nullptr;
      return out_;
    }
    for (const Seen& seen : numbers_) out_->ranges.push_back(Range(seen));
    if (width_ == Width::bucketed && is_too_narrow_(*out_)) {
      width_ = Width::symbolic;
      for (size_t s = 0; s < numbers_.size(); ++s) out_->ranges[s] = Range(numbers_[s]);
    }
    return out_;
  }

 private:
  // The symbol of numbers that vary as `seen` does.
  int64_t Symbol(const Seen& seen) {
    auto [it, fresh] = symbols_.try_emplace(seen, 0);
    if (fresh) it->second = Fresh(seen);
    return it->second;
  }
  int64_t Fresh(const Seen& seen) {
    numbers_.push_back(seen);
    return out_->symbols->Named(absl::StrCat("s", numbers_.size() - 1));
  }

  // Dims 0 and 1 are never symbols: they broadcast.
  static bool MayVary(const Seen& seen) {
    return std::all_of(seen.begin(), seen.end(), [](int64_t v) { return v >= 2; });
  }

  DimRange Range(const Seen& seen) const {
    DimRange r;
    if (width_ == Width::symbolic || !MayVary(seen)) return MayVary(seen) ? r : DimRange{INT64_MIN, INT64_MAX, 1};
    const auto [low, high] = std::minmax_element(seen.begin(), seen.end());
    r.low = std::max<int64_t>(2, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(*low))));
    r.high = *high > (int64_t{1} << 61) ? INT64_MAX : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(*high)));
    int64_t divisor = 0;
    for (int64_t v : seen) divisor = std::gcd(divisor, v);
    // The largest power of two up to 16: what vector loads care about.
    r.divisor = std::min<int64_t>(16, divisor & -divisor);
    return r;
  }

  bool Input(size_t v) {
    TraceValue& value = out_->values[v];
    for (const auto& s : samples_)
      if (s->values[v].mask != value.mask) value.mask = MaskShape::unknown;
    for (int d = 0; d < value.type.rank; ++d) {
      Seen seen;
      for (const auto& s : samples_) seen.push_back(s->values[v].type.dims[d]);
      if (Same(seen)) continue;
      if (!MayVary(seen)) return false;
      value.type.dims[d] = Symbol(seen);
    }
    return true;
  }

  void Number(size_t v) {
    TraceValue& value = out_->values[v];
    for (const auto& s : samples_) value.varies |= s->values[v].varies || s->values[v].number.i != value.number.i;
  }

  void Attrs(size_t i) {
    TraceStep& step = out_->steps[i];
    for (size_t a = 0; a < step.attrs.size(); ++a) {
      auto* ints = std::get_if<ir::Ints>(&step.attrs[a]);
      if (ints == nullptr) continue;
      for (size_t k = 0; k < ints->size(); ++k) {
        Seen seen;
        for (const auto& s : samples_) seen.push_back(std::get<ir::Ints>(s->steps[i].attrs[a])[k]);
        if (Same(seen)) continue;
        // A function computes its own from its symbols, so nothing is guessed; eager ones are compared when they come.
        if (out_->is_eager)
          (*ints)[k] = Follows(seen);
        else
          step.infer_at_run = true;
      }
    }
  }

  // An expression over dims that gives these numbers, or a symbol of their own.
  int64_t Follows(const Seen& seen) {
    if (auto it = symbols_.find(seen); it != symbols_.end()) return it->second;
    ir::SymbolTable& t = *out_->symbols;
    const auto known = symbols_;  // Named() below must not change what is walked over
    auto holds = [&](auto&& fn) {
      for (size_t s = 0; s < seen.size(); ++s)
        if (fn(s) != seen[s]) return false;
      return true;
    };
    for (const auto& [numbers, symbol] : known) {
      if (!MayVary(numbers)) continue;
      if (seen[0] > 0 && seen[0] % numbers[0] == 0) {
        const int64_t c = seen[0] / numbers[0];
        if (holds([&, &n = numbers](size_t s) { return n[s] * c; })) return t.Mul(symbol, c);
      }
      if (seen[0] > 0 && numbers[0] % seen[0] == 0) {
        const int64_t c = numbers[0] / seen[0];
        if (holds([&, &n = numbers](size_t s) { return n[s] / c; })) return t.FloorDiv(symbol, c);
      }
      const int64_t difference = seen[0] - numbers[0];
      if (holds([&, &n = numbers](size_t s) { return n[s] + difference; })) return t.Add(symbol, difference);
    }
    for (const auto& [a, x] : known) {
      for (const auto& [b, y] : known) {
        if (!MayVary(a) || !MayVary(b)) continue;
        const int64_t product = a[0] * b[0];
        if (product == 0 || seen[0] % product != 0) continue;
        const int64_t c = seen[0] / product;
        if (holds([&, &n = a, &m = b](size_t s) { return n[s] * m[s] * c; })) return t.Mul(t.Mul(x, y), c);
      }
    }
    return Symbol(seen);
  }

  int64_t Evaluate(int64_t dim, size_t sample) const {
    if (!ir::IsSymbol(dim)) return dim;
    absl::InlinedVector<int64_t, 8> values;
    for (const Seen& n : numbers_) values.push_back(n[sample]);
    return out_->symbols->Evaluate(dim, values);
  }

  // False where a result's dims vary and no rule says how: what a call returns.
  bool Results(size_t i) {
    TraceStep& step = out_->steps[i];
    if (step.out.empty()) return true;
    absl::InlinedVector<TensorType, 2> inferred(step.out.size());
    bool known = step.kind == TraceStep::Kind::op && !step.infer_at_run;
    if (known) {
      absl::InlinedVector<const TensorType*, 8> in;
      for (ValueId v : step.in) in.push_back(v == kNoValue ? nullptr : &out_->values[v].type);
      known = ir::Infer({ir::Info(step.op), in, step.attrs, out_->symbols.get()}, absl::MakeSpan(inferred)).ok();
    }
    for (size_t k = 0; k < step.out.size(); ++k) {
      TensorType& type = out_->values[step.out[k]].type;
      for (int d = 0; d < type.rank; ++d) {
        Seen seen;
        for (const auto& s : samples_) seen.push_back(s->values[step.out[k]].type.dims[d]);
        int64_t dim = known && inferred[k].rank == type.rank ? inferred[k].dims[d] : ir::SymbolTable::kUnknownDim;
        for (size_t s = 0; s < samples_.size(); ++s) {
          if (dim != ir::SymbolTable::kUnknownDim && Evaluate(dim, s) != seen[s]) dim = ir::SymbolTable::kUnknownDim;
        }
        if (dim == ir::SymbolTable::kUnknownDim && step.kind != TraceStep::Kind::op) {
          if (!Same(seen)) return false;
          dim = seen[0];
        }
        if (dim == ir::SymbolTable::kUnknownDim) {
          // What was the same every time, or always agreed with other dims, is taken to be so again: runs check it.
          dim = Same(seen) ? seen[0] : MayVary(seen) ? Symbol(seen) : Fresh(seen);
          step.infer_at_run = true;
        }
        type.dims[d] = dim;
      }
    }
    return true;
  }

  const std::vector<std::shared_ptr<const Trace>>& samples_;
  Width width_;
  const IsTooNarrow is_too_narrow_;
  std::shared_ptr<Trace> out_;
  std::map<Seen, int64_t> symbols_;
  std::vector<Seen> numbers_;  // of the named symbols
};

}  // namespace

bool SameSteps(const Trace& a, const Trace& b) {
  if (a.is_eager != b.is_eager || a.device != b.device || a.end != b.end || a.end_pc != b.end_pc ||
      a.steps.size() != b.steps.size() || a.values.size() != b.values.size() || a.results != b.results) {
    return false;
  }
  for (size_t v = 0; v < a.values.size(); ++v) {
    const TraceValue &x = a.values[v], &y = b.values[v];
    if (x.kind != y.kind || x.type.dtype != y.type.dtype || x.type.rank != y.type.rank || x.reg != y.reg) return false;
    if (x.is_fixed && !a.is_eager && x.number.i != y.number.i) return false;
    if (x.kind == TraceValue::Kind::constant && x.constant.get() != y.constant.get()) return false;
  }
  for (size_t i = 0; i < a.steps.size(); ++i) {
    const TraceStep &x = a.steps[i], &y = b.steps[i];
    if (x.kind != y.kind || x.op != y.op || x.outcome != y.outcome || x.target != y.target || x.counter != y.counter ||
        x.in != y.in || x.out != y.out || x.site != y.site || x.frame != y.frame || x.pc != y.pc ||
        x.attrs.size() != y.attrs.size()) {
      return false;
    }
    for (size_t k = 0; k < x.attrs.size(); ++k)
      if (!SameKind(x.attrs[k], y.attrs[k])) return false;
  }
  return true;
}

bool Mergeable(const Trace& a, const Trace& b) {
  if (!SameSteps(a, b)) return false;
  const auto varies = [](int64_t dim) { return ir::IsSymbol(dim) || dim >= 2; };
  for (size_t v = 0; v < a.values.size(); ++v) {
    if (a.values[v].kind != TraceValue::Kind::input) continue;
    for (int d = 0; d < a.values[v].type.rank; ++d) {
      const int64_t x = a.values[v].type.dims[d], y = b.values[v].type.dims[d];
      if (x != y && !(varies(x) && varies(y))) return false;
    }
  }
  return true;
}

bool SameDims(const Trace& a, const Trace& b) {
  for (size_t v = 0; v < a.values.size(); ++v) {
    const TraceValue &x = a.values[v], &y = b.values[v];
    if (!x.type.SameDims(y.type)) return false;
    for (int d = 0; d < x.type.rank && x.kind == TraceValue::Kind::input; ++d)
      if (x.strides[d] != y.strides[d]) return false;
  }
  for (size_t i = 0; i < a.steps.size(); ++i)
    if (a.steps[i].attrs != b.steps[i].attrs) return false;
  return true;
}

bool Serves(const Trace& trace, const Trace& recording) {
  for (size_t v = 0; v < trace.values.size(); ++v) {
    const TraceValue &value = trace.values[v], &seen = recording.values[v];
    if (value.mask != MaskShape::unknown && value.mask != seen.mask) return false;
    if (value.is_fixed && value.number.i != seen.number.i) return false;
  }
  if (trace.symbols == nullptr) return SameDims(trace, recording);
  const ir::SymbolTable& table = *trace.symbols;
  std::vector<int64_t> numbers(trace.ranges.size(), -1);
  auto fits = [&](int64_t want, int64_t given, bool is_dim) {
    if (!ir::IsSymbol(want)) return want == given;
    const int s = NamedIndex(table, want);
    if (s < 0) return table.Evaluate(want, numbers) == given;
    int64_t& number = numbers[static_cast<size_t>(s)];
    if (number == -1) {
      if (!trace.ranges[static_cast<size_t>(s)].Has(given) || (is_dim && given < 2)) return false;
      number = given;
    }
    return number == given;
  };
  for (size_t v = 0; v < trace.values.size(); ++v) {
    if (trace.values[v].kind != TraceValue::Kind::input) continue;
    for (int d = 0; d < trace.values[v].type.rank; ++d)
      if (!fits(trace.values[v].type.dims[d], recording.values[v].type.dims[d], true)) return false;
  }
  for (size_t i = 0; trace.is_eager && i < trace.steps.size(); ++i) {
    for (size_t a = 0; a < trace.steps[i].attrs.size(); ++a) {
      const auto* ints = std::get_if<ir::Ints>(&trace.steps[i].attrs[a]);
      if (ints == nullptr) {
        if (trace.steps[i].attrs[a] != recording.steps[i].attrs[a]) return false;
        continue;
      }
      const auto& given = std::get<ir::Ints>(recording.steps[i].attrs[a]);
      for (size_t k = 0; k < ints->size(); ++k)
        if (!fits((*ints)[k], given[k], false)) return false;
    }
  }
  // Dims that no rule promises; symbols of attributes have their numbers by now.
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    if (!trace.steps[i].infer_at_run) continue;
    for (ValueId v : trace.steps[i].out) {
      for (int d = 0; d < trace.values[v].type.rank; ++d)
        if (!fits(trace.values[v].type.dims[d], recording.values[v].type.dims[d], false)) return false;
    }
  }
  return true;
}

std::shared_ptr<const Trace> Generalise(const std::vector<std::shared_ptr<const Trace>>& samples, Width width,
                                        IsTooNarrow is_too_narrow) {
  return samples.size() == 1 ? samples[0] : Generaliser(samples, width, is_too_narrow).Run();
}

std::shared_ptr<const Trace> WithFixed(const std::shared_ptr<const Trace>& trace,
                                       absl::FunctionRef<bool(ValueId)> is_fixed) {
  std::shared_ptr<Trace> out;
  for (size_t v = 0; trace->is_eager && v < trace->values.size(); ++v) {
    if (trace->values[v].kind != TraceValue::Kind::number) continue;
    const bool fixed = is_fixed(static_cast<ValueId>(v));
    if (fixed == trace->values[v].is_fixed) continue;
    if (out == nullptr) out = std::make_shared<Trace>(*trace);
    out->values[v].is_fixed = fixed;
  }
  return out != nullptr ? out : trace;
}

}  // namespace tessera::tracer
