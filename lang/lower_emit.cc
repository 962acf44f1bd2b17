// Ops on their way into Graph IR: types, facts that the sizes at hand allow to assume, and messages.
#include <algorithm>

#include "ir/typing.h"
#include "lang/lower_impl.h"
#include "lang/text.h"

namespace tessera::lang {

using ir::Op;

namespace {
std::string_view View(const absl::Status& s) { return {s.message().data(), s.message().size()}; }
}  // namespace

int32_t FunctionLowering::NewValue(const TensorType& type) {
  f_->values.push_back({"", type});
  f_->values.back().type.weak = false;
  value_names_.emplace_back();
  deps_.push_back(0);
  return static_cast<int32_t>(f_->values.size()) - 1;
}

void Locations::Find(uint32_t offset) {
  // Most often it is a line or two further down.
  if (file_ != nullptr && offset >= end_) {
    for (int k = 0; k < 8; ++k) {
      const uint32_t next = sources_.EndOfLine(*file_, line_ + 1);
      if (next <= end_) break;
      ++line_, begin_ = end_, end_ = next;
      if (offset < end_) return;
    }
  }
  const Position at = sources_.PositionOf(offset);
  file_ = at.file;
  line_ = at.line;
  begin_ = offset - static_cast<uint32_t>(at.column > 0 ? at.column - 1 : 0);
  end_ = file_ == nullptr ? begin_ : sources_.EndOfLine(*file_, line_);
}

bool FunctionLowering::CountWork() {
  if (++module_.instructions == kMaxInstructions)
    diagnostics.Report(Diag::function_too_large, def_.name_span, kMaxInstructions);
  return module_.instructions < kMaxInstructions;
}

void FunctionLowering::Push(ir::Instruction instruction) {
  if (CountWork()) blocks_.back()->instructions.push_back(std::move(instruction));
}

ir::Operand FunctionLowering::OperandOf(const Val& v) const {
  ir::Operand o;
  switch (v.kind) {
    case Val::Kind::tensor:
      o.kind = ir::Operand::Kind::value;
      o.value = v.id;
      break;
    case Val::Kind::boolean: o.kind = ir::Operand::Kind::immediate, o.immediate = v.integer != 0; break;
    case Val::Kind::integer: o.kind = ir::Operand::Kind::immediate, o.immediate = v.integer; break;
    case Val::Kind::floating: o.kind = ir::Operand::Kind::immediate, o.immediate = v.floating; break;
    default: break;
  }
  return o;
}

uint64_t FunctionLowering::DepsOf(const Val& v) const { return v.tensor() ? deps_[static_cast<size_t>(v.id)] : 0; }

// ---- sizes

int64_t FunctionLowering::SizeOf(int64_t dim) const {
  if (!ir::IsSymbol(dim)) return dim;
  if (!has_sizes_) return -1;
  std::vector<int64_t> sizes = sizes_;
  sizes.resize(static_cast<size_t>(f_->symbols->num_named()), -1);
  for (int64_t s : sizes)
    if (s < 0) return -1;
  return f_->symbols->Evaluate(dim, sizes);
}

TensorType FunctionLowering::Concrete(const TensorType& type) const {
  TensorType t = type;
  for (int i = 0; i < t.rank; ++i) t.dims[i] = SizeOf(t.dims[i]);
  return t;
}

std::string FunctionLowering::TypeText(const TensorType& type) {
  if (has_sizes_) {
    const TensorType t = Concrete(type);
    bool all = true;
    for (int i = 0; i < t.rank; ++i) all &= t.dims[i] >= 0;
    if (all) return ir::TypeName(nullptr, t);
  }
  return ir::TypeName(f_->symbols.get(), type);
}

void FunctionLowering::DemandSizes(int64_t dim) {
  // The symbols of an expression are told by its text.
  const std::string text = f_->symbols->Name(dim);
  for (int i = 0; i < f_->symbols->num_named(); ++i) {
    const std::string_view name = f_->symbols->named(i);
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
      const auto word = [&](size_t k) {
        return k < text.size() && (std::isalnum(static_cast<unsigned char>(text[k])) || text[k] == '_');
      };
      if ((at > 0 && word(at - 1)) || word(at + name.size())) continue;
      if (static_cast<size_t>(i) < sizes_.size() && sizes_[static_cast<size_t>(i)] >= 0)
        demands_.sizes.insert(sizes_[static_cast<size_t>(i)]);
      break;
    }
  }
}

bool FunctionLowering::MakeEqual(int64_t a, int64_t b) {
  if (ir::DimEqual(f_->symbols.get(), a, b)) return true;
  if (!has_sizes_ || SizeOf(a) != SizeOf(b) || SizeOf(a) < 0) return false;
  return f_->symbols->AssumeEqual(a, b);
}

bool FunctionLowering::MakeSameType(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i)
    if (!MakeEqual(a.dims[i], b.dims[i])) return false;
  return true;
}

namespace {

// A table with the same symbols and facts, to try a fact in. Dims of the other table are translated.
class Trial {
 public:
  explicit Trial(const ir::SymbolTable& from) : from_(from) {
    for (int i = 0; i < from.num_named(); ++i) bound_.push_back(table_.Named(from.named(i)));
    for (const auto& fact : from.facts()) {
      if (fact.kind == ir::SymbolTable::Fact::Kind::equal) {
        table_.AssumeEqual(Dim(fact.a), Dim(fact.b));
      } else {
        table_.AssumeDivisible(Dim(fact.a), fact.b);
      }
    }
  }
  int64_t Dim(int64_t dim) { return ir::IsSymbol(dim) ? table_.Substitute(from_, dim, bound_) : dim; }
  ir::SymbolTable& table() { return table_; }

  bool Fits(const ir::OpInfo& info, absl::Span<const TensorType* const> in, std::vector<ir::Attr> attrs) {
    std::vector<TensorType> types(in.size());
    std::vector<const TensorType*> pointers(in.size());
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i] == nullptr) continue;
      types[i] = *in[i];
      for (int k = 0; k < types[i].rank; ++k) types[i].dims[k] = Dim(types[i].dims[k]);
      pointers[i] = &types[i];
    }
    for (ir::Attr& a : attrs)
      if (auto* ints = std::get_if<ir::Ints>(&a))
        for (int64_t& v : *ints) v = Dim(v);
    std::vector<TensorType> out(static_cast<size_t>(ir::NumResults(info, attrs)));
    return ir::Infer({info, pointers, attrs, &table_}, absl::MakeSpan(out)).ok();
  }

 private:
  const ir::SymbolTable& from_;
  ir::SymbolTable table_;
  std::vector<int64_t> bound_;
};

}  // namespace

bool FunctionLowering::FindFacts(const ir::OpInfo& info, absl::Span<const TensorType* const> in,
                                 std::vector<ir::Attr>& attrs) {
  std::vector<int64_t> dims;  // symbols first
  const auto add = [&](int64_t d) {
    if ((ir::IsSymbol(d) || d >= 2) && std::find(dims.begin(), dims.end(), d) == dims.end()) dims.push_back(d);
  };
  for (const TensorType* t : in)
    for (int i = 0; t != nullptr && i < t->rank; ++i) add(t->dims[i]);
  for (const ir::Attr& a : attrs)
    if (const auto* ints = std::get_if<ir::Ints>(&a))
      for (int64_t d : *ints) add(d);
  ir::SymbolTable& table = *f_->symbols;
  if (dims.size() > 32 || table.facts().size() > 200) return false;
  // One equation between two dims of equal size, then one divisor; each is tried before it is stated.
  for (const int64_t a : dims) {
    if (!ir::IsSymbol(a)) continue;
    for (const int64_t b : dims) {
      if (a == b || SizeOf(a) != SizeOf(b) || table.KnownEqual(a, b)) continue;
      Trial trial(table);
      if (trial.table().AssumeEqual(trial.Dim(a), trial.Dim(b)) && trial.Fits(info, in, attrs))
        return table.AssumeEqual(a, b);
    }
  }
  for (const int64_t a : dims) {
    if (!ir::IsSymbol(a)) continue;
    for (const int64_t b : dims) {
      if (ir::IsSymbol(b) || SizeOf(a) % b != 0 || table.KnownDivisible(a, b)) continue;
      Trial trial(table);
      if (trial.table().AssumeDivisible(trial.Dim(a), b) && trial.Fits(info, in, attrs))
        return table.AssumeDivisible(a, b);
    }
  }
  return false;
}

// ---- ops

bool FunctionLowering::Emit(Op op, absl::Span<const Val> in, std::vector<ir::Attr> attrs, const Expr& at, Vals* out) {
  if (again_) return false;
  const ir::OpInfo& info = ir::Info(op);
  if (settings_.has_accum && settings_.accum == DType::f64 &&
      (info.bound == ir::Bound::accum || info.bound == ir::Bound::dot) && IsNarrowerThanF64(info, in))
    return EmitAccumulated(op, in, std::move(attrs), at, out);
  absl::InlinedVector<TensorType, 4> numbers(in.size());
  absl::InlinedVector<const TensorType*, 4> types(in.size(), nullptr);
  uint64_t deps = 0;
  ir::Instruction inst{op, {}, {}, {}, {}, LocOf(at.span)};
  inst.operands.reserve(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    inst.operands.push_back(OperandOf(in[i]));
    if (in[i].tensor()) {
      types[i] = &f_->values[static_cast<size_t>(in[i].id)].type;
      deps |= deps_[static_cast<size_t>(in[i].id)];
    } else if (in[i].number()) {
      numbers[i] = ir::ImmediateType(inst.operands.back().immediate);
      types[i] = &numbers[i];
    }
  }
  const size_t count = static_cast<size_t>(ir::NumResults(info, attrs));
  absl::InlinedVector<TensorType, 2> results(count);
  const auto infer = [&] {
    absl::Status s = ir::Infer({info, types, attrs, f_->symbols.get()}, absl::MakeSpan(results));
    for (size_t i = 0; i < count && s.ok(); ++i)
      if (absl::Status bad = ir::CheckType(f_->symbols.get(), results[i]); !bad.ok()) s = bad;
    return s;
  };
  absl::Status status = infer();
  if (!status.ok() && has_sizes_) {
    // What symbols leave open, the sizes at hand decide.
    std::vector<TensorType> concrete(in.size());
    std::vector<const TensorType*> pointers(in.size());
    bool symbolic = false, sized = true;
    for (size_t i = 0; i < in.size(); ++i) {
      if (types[i] == nullptr) continue;
      concrete[i] = Concrete(*types[i]);
      pointers[i] = &concrete[i];
      for (int k = 0; k < concrete[i].rank; ++k) {
        symbolic |= ir::IsSymbol(types[i]->dims[k]);
        sized &= concrete[i].dims[k] >= 0;
      }
    }
    std::vector<ir::Attr> numbers_only = attrs;
    for (ir::Attr& a : numbers_only) {
      if (auto* ints = std::get_if<ir::Ints>(&a)) {
        for (int64_t& v : *ints) {
          if (!ir::IsSymbol(v)) continue;
          symbolic = true;
          v = SizeOf(v);
        }
      }
    }
    if (symbolic && sized) {
      std::vector<TensorType> ignored(count);
      const absl::Status with_sizes = ir::Infer({info, pointers, numbers_only, nullptr}, absl::MakeSpan(ignored));
      if (!with_sizes.ok()) {
        status = with_sizes;
      } else if (FindFacts(info, types, attrs)) {
        status = infer();
      } else {
        const size_t before = demands_.count();
        for (const TensorType* t : types)
          for (int k = 0; t != nullptr && k < t->rank; ++k)
            if (ir::IsSymbol(t->dims[k])) DemandSizes(t->dims[k]);
        for (const ir::Attr& a : attrs)
          if (const auto* ints = std::get_if<ir::Ints>(&a))
            for (int64_t v : *ints)
              if (ir::IsSymbol(v)) DemandSizes(v);
        if (demands_.count() > before) {
          again_ = true;
          return false;
        }
      }
    }
  }
  if (!status.ok()) {
    ReportOp(status, op, in, at);
    return false;
  }
  inst.attrs = std::move(attrs);
  inst.results.reserve(count);
  out->reserve(out->size() + count);
  for (const TensorType& t : results) {
    const int32_t id = NewValue(t);
    inst.results.push_back(id);
    if (t.rank == 0) deps_[static_cast<size_t>(id)] = deps;
    out->push_back(Val::Tensor(id));
    out->back().origin = at.span;
  }
  Push(std::move(inst));
  return true;
}

// @accum(f64): sums and products of narrower floats are made in f64 and rounded once, at their end.
bool FunctionLowering::IsNarrowerThanF64(const ir::OpInfo& info, absl::Span<const Val> in) {
  bool any = false;
  for (size_t i = 0; i < in.size(); ++i) {
    const ir::OperandSpec& spec = info.operands[std::min(i, info.operands.size() - 1)];
    if (!in[i].tensor() || spec.role != ir::Role::data) continue;
    const DType t = TypeOf(in[i]).dtype;
    if (!IsFloat(t) || t == DType::f64) return false;
    any = true;
  }
  return any;
}

bool FunctionLowering::EmitAccumulated(Op op, absl::Span<const Val> in, std::vector<ir::Attr> attrs, const Expr& at,
                                       Vals* out) {
  const ir::OpInfo& info = ir::Info(op);
  Vals wide(in.begin(), in.end());
  bool any = false;
  DType narrow = DType::f32;
  for (size_t i = 0; i < in.size(); ++i) {
    const ir::OperandSpec& spec = info.operands[std::min(i, info.operands.size() - 1)];
    if (!in[i].tensor() || spec.role != ir::Role::data) continue;
    const DType t = TypeOf(in[i]).dtype;
    narrow = any ? Promote(narrow, t) : t;
    any = true;
    wide[i] = CastTo(*this, in[i], DType::f64, at);
    if (wide[i].poison()) return false;
  }
  Vals results;
  if (!Emit(op, wide, std::move(attrs), at, &results)) return false;
  for (Val& v : results) {
    if (TypeOf(v).dtype == DType::f64) v = CastTo(*this, v, narrow, at);
    if (v.poison()) return false;
    out->push_back(v);
  }
  return true;
}

void FunctionLowering::ReportOp(const absl::Status& status, Op op, absl::Span<const Val> in, const Expr& at) {
  const Span span = at.kind == ExprKind::binary ? As<BinaryExpr>(at).op_span : at.span;
  Diagnostic& d = diagnostics.Report(Diag::op_error, span, View(status));
  (void)op;
  int notes = 0;
  for (const Val& v : in) {
    if (!v.tensor() || !v.origin.known() || v.origin == at.span || notes == 3) continue;
    const std::string type = Cat("a tensor ", TypeText(TypeOf(v)));
    bool is_param = false;
    for (size_t i = 0; i < f_->params.size() && !is_param; ++i) {
      if (f_->params[i].value != v.id || sources_[i].kind != ParamSource::Kind::argument) continue;
      const Parameter& p = def_.params[static_cast<size_t>(sources_[i].param)];
      Diagnostics::Note(d, Diag::note_parameter, p.span, ast.Text(p.name), type);
      is_param = true;
    }
    if (!is_param) Diagnostics::Note(d, Diag::note_value, v.origin, type);
    ++notes;
  }
}

// ---- the rest of the machine

bool FunctionLowering::Know(Val* number, std::string_view what, const Expr& at) {
  if (again_) return false;
  if (number->kind == Val::Kind::dim) {
    if (!has_sizes_) {
      diagnostics.Report(Diag::needs_known_dim, at.span, what, f_->symbols->Name(number->integer));
      return false;
    }
    // Known by a fact already?
    const int64_t size = SizeOf(number->integer);
    if (size >= 0 && f_->symbols->KnownEqual(number->integer, size)) {
      *number = Val::Integer(size);
      return true;
    }
    DemandSizes(number->integer);
    again_ = true;
    return false;
  }
  const uint64_t deps = DepsOf(*number);
  const size_t before = demands_.count();
  for (int bit = 0; bit < 64; ++bit) {
    if ((deps >> bit & 1) == 0) continue;
    const int loop = 63 - bit;
    if (bit >= 32 && static_cast<size_t>(loop) < loop_of_bit_.size()) {
      demands_.unrolled.insert(loop_of_bit_[static_cast<size_t>(loop)]);
    } else if (bit < 32) {
      demands_.numbers.insert(bit);
    }
  }
  if (demands_.count() > before) {
    again_ = true;
    return false;
  }
  diagnostics.Report(Diag::needs_known, at.span, what);
  return false;
}

Val FunctionLowering::DimTensor(const Val& dim, const Expr& at) {
  // Graph IR has no op for a dim. A row of ones of that length costs no memory, and its sum is the dim.
  Vals one, row, sum;
  if (!Emit(Op::k_full, {Val::Integer(1)}, {ir::Ints{}, DType::i64}, at, &one) ||
      !Emit(Op::k_broadcast, one, {ir::Ints{dim.integer}}, at, &row) ||
      !Emit(Op::k_sum, row, {ir::Ints{}, false}, at, &sum))
    return Val::Poison();
  sum[0].weak = true;
  return sum[0];
}

bool FunctionLowering::Random(int64_t, int64_t*, int64_t*, const Expr& at) {
  diagnostics.Report(Diag::random_in_function, at.span, module_.sources.TextOf(at.span).substr(0, 40)).hint =
      "make the numbers at the top level and pass them, or use random_normal(seed, offset, shape)";
  return false;
}

Val FunctionLowering::Item(const Val&, const Expr& at) {
  diagnostics.Report(Diag::item_in_function, at.span).hint = "a tensor of one element works as a number as it is";
  return Val::Poison();
}

bool FunctionLowering::Places(const Val&, const Expr& at, Val*) {
  diagnostics.Report(Diag::mask_index, at.span).hint = "where(mask, x, 0) keeps the shape";
  return false;
}

Val FunctionLowering::CallHost(const Builtin& builtin, absl::Span<const Val>, const Expr& at) {
  diagnostics.Report(Diag::host_in_function, at.span, builtin.name);
  return Val::Poison();
}

bool FunctionLowering::Print(absl::Span<const Val> args, std::string_view label, const Expr& at) {
  // One line for each tensor, with the text before it as its label; what is known is text.
  std::string text(label);
  const auto line = [&](Op op, const Val& v, std::string the_label) {
    Push({op, {OperandOf(v)}, {std::move(the_label)}, {}, {}, LocOf(at.span)});
  };
  bool pending = !label.empty() || args.empty();
  for (const Val& v : args) {
    if (v.poison()) return false;
    Val x = v.kind == Val::Kind::dim ? DimTensor(v, at) : v;
    if (x.poison()) return false;
    if (x.tensor()) {
      line(Op::k_print, x, text);
      text.clear();
      pending = false;
      continue;
    }
    Append(text, text.empty() ? "" : " ");
    switch (x.kind) {
      case Val::Kind::string: Append(text, x.text); break;
      case Val::Kind::none: Append(text, "None"); break;
      case Val::Kind::boolean: Append(text, x.integer != 0 ? "True" : "False"); break;
      case Val::Kind::integer: Append(text, x.integer); break;
      case Val::Kind::floating: {
        char digits[32];
        const auto end = std::to_chars(digits, digits + sizeof digits, x.floating).ptr;
        Append(text, std::string_view(digits, static_cast<size_t>(end - digits)));
        break;
      }
      default: Append(text, DescribeVal(*this, x)); break;
    }
    pending = true;
  }
  if (pending) line(Op::k_host_read, Val::Integer(0), Cat(kPrintLabel, text));
  return true;
}

Val FunctionLowering::MemberOf(const Val& module, Name name, const Expr& at) {
  Desc desc;
  if (module.scope->Lookup(name, &desc)) return Global(*module.scope, name, at);
  std::vector<std::string_view> names;
  module.scope->Names(&names);
  diagnostics.Report(Diag::unknown_member, at.span, ast.Text(name)).hint = DidYouMean(ast.Text(name), names);
  return Val::Poison();
}

}  // namespace tessera::lang
