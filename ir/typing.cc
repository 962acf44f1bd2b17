#include "ir/typing.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "ir/literal.h"

namespace tessera::ir {
namespace {

// Devices of one mesh axis.
constexpr int64_t kMaxAxis = int64_t{1} << 20;

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string Str(std::string_view name) { return std::string(name); }

std::string Count(size_t n, std::string_view noun) { return absl::StrCat(n, " ", Str(noun), n == 1 ? "" : "s"); }

std::string TypeList(const SymbolTable* symbols, const std::vector<TensorType>& types) {
  std::string out;
  for (const TensorType& t : types) absl::StrAppend(&out, out.empty() ? "" : ", ", TypeText(symbols, t));
  return out;
}

absl::Status InferBufferOp(const Function& function, const Instruction& instruction, const Buffer& buffer,
                           std::vector<TensorType>& out) {
  const OpInfo& info = Info(instruction.op);
  const int n = static_cast<int>(instruction.operands.size());
  if (n != info.min_operands) {
    return InvalidArgument(Str(info.name), ": takes ", Count(info.min_operands, "operand"), ", not ", n);
  }
  if (instruction.op == Op::k_buffer_read) {
    out.assign(1, buffer.type);
    return absl::OkStatus();
  }
  out.clear();
  const Operand& given = instruction.operands[0];
  if (given.kind == Operand::Kind::absent) return InvalidArgument(Str(info.name), ": operand x is missing");
  if (!Accepts(function, buffer.type, given)) {
    return InvalidArgument(Str(info.name), ": buffer @", buffer.name, " is ",
                           TypeText(function.symbols.get(), buffer.type), ", and ", Describe(function, given),
                           " was given; they must be the same");
  }
  if (!Allows(info.dtypes, buffer.type.dtype)) {
    return InvalidArgument(Str(info.name), ": is not defined for ", Str(Name(buffer.type.dtype)), "; it takes ",
                           Str(Describe(info.dtypes)));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsName(std::string_view text) {
  if (text.empty() || !IsLetter(text[0])) return false;
  for (char c : text)
    if (!IsLetter(c) && !IsDigit(c) && c != '.') return false;
  return true;
}

bool IsSymbolName(std::string_view text) {
  return IsName(text) && text.find('.') == std::string_view::npos && text != "x" && !ParseDType(text);
}

bool TakesSymbols(const AttrSpec& spec) {
  return spec.type == AttrType::t_ints && (spec.name == "dims" || spec.name == "sizes" || spec.name == "starts" ||
                                           spec.name == "stops" || spec.name == "low" || spec.name == "high");
}

std::string_view PrivilegeName(Privilege privilege) {
  switch (privilege) {
    case Privilege::read: return "read";
    case Privilege::write: return "write";
    case Privilege::reduce_sum: return "reduce_sum";
  }
  return "";
}

TensorType ImmediateType(const Immediate& immediate) {
  TensorType type;
  type.weak = true;
  type.dtype = std::holds_alternative<bool>(immediate)      ? DType::boolean
               : std::holds_alternative<int64_t>(immediate) ? DType::i64
                                                            : DType::f32;
  return type;
}

TensorType OperandType(const Function& function, const Operand& operand) {
  return operand.kind == Operand::Kind::value ? function.values[operand.value].type : ImmediateType(operand.immediate);
}

std::string TypeText(const SymbolTable* symbols, const TensorType& type) {
  std::string out = "tensor<";
  for (int i = 0; i < type.rank; ++i) absl::StrAppend(&out, DimName(symbols, type.dims[i]), " x ");
  absl::StrAppend(&out, Str(Name(type.dtype)), ">");
  return out;
}

bool SameType(SymbolTable* symbols, const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i)
    if (!DimEqual(symbols, a.dims[i], b.dims[i])) return false;
  return true;
}

bool Accepts(const Function& function, const TensorType& want, const Operand& given) {
  if (given.kind == Operand::Kind::absent) return false;
  const TensorType type = OperandType(function, given);
  if (!type.weak) return SameType(function.symbols.get(), want, type);
  return want.rank == 0 && KindOf(type.dtype) <= KindOf(want.dtype);
}

std::string Describe(const Function& function, const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::absent: return "nothing";
    case Operand::Kind::immediate: return absl::StrCat("the number ", ImmediateText(operand.immediate));
    case Operand::Kind::value: break;
  }
  return TypeText(function.symbols.get(), function.values[operand.value].type);
}

absl::Status CheckType(const SymbolTable* symbols, const TensorType& type) {
  if (type.rank > kMaxRank)
    return InvalidArgument("the rank is ", static_cast<int>(type.rank), "; it is at most ", kMaxRank);
  if (static_cast<int>(type.dtype) >= kNumDTypes) return InvalidArgument("there is no such dtype");
  int64_t elements = 1;
  for (int i = 0; i < type.rank; ++i) {
    const int64_t d = type.dims[i];
    if (IsSymbol(d)) {
      if (d == SymbolTable::kUnknownDim) return InvalidArgument("dim ", i, " is too large an expression of symbols");
      if (symbols == nullptr || !symbols->Contains(d))
        return InvalidArgument("dim ", i, " is a symbol of another function");
    } else if (d < 0) {
      return InvalidArgument("dim ", i, " is ", d, "; dims are at least 0");
    } else if (d > 0 && (__builtin_mul_overflow(elements, d, &elements) || elements > kMaxElements)) {
      return InvalidArgument(TypeText(symbols, type), " has more than 2^62 elements");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckShard(std::string_view shard, const TensorType& type) {
  const std::vector<absl::string_view> parts = absl::StrSplit(absl::string_view(shard.data(), shard.size()), ',');
  if (parts.size() != type.rank) {
    return InvalidArgument("shard ", StringText(shard), " names ", Count(parts.size(), "dim"), ", and the value has ",
                           static_cast<int>(type.rank), "; give a mesh axis or * for each dim");
  }
  std::vector<absl::string_view> axes;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == "*") continue;
    const std::pair<absl::string_view, absl::string_view> axis = absl::StrSplit(parts[i], absl::MaxSplits(':', 1));
    const bool has_size = axis.first.size() != parts[i].size();
    int64_t size = 1;
    if (!IsName(std::string_view(axis.first.data(), axis.first.size())) ||
        (has_size && (!absl::SimpleAtoi(axis.second, &size) || size < 1 || size > kMaxAxis))) {
      return InvalidArgument("shard ", StringText(shard), " has the entry \"", parts[i],
                             "\"; an entry is *, or the name of a mesh axis, with : and the number of its devices "
                             "where that is known");
    }
    if (std::find(axes.begin(), axes.end(), axis.first) != axes.end())
      return InvalidArgument("shard ", StringText(shard), " names the axis ", axis.first,
                             " twice; an axis divides one dim");
    axes.push_back(axis.first);
    if (!IsSymbol(type.dims[i]) && type.dims[i] % size != 0)
      return InvalidArgument("shard ", StringText(shard), ": dim ", i, " is ", type.dims[i],
                             ", which cannot be divided evenly among ", size, " devices of ", axis.first);
  }
  return absl::OkStatus();
}

absl::Status CheckShards(const Function& function) {
  absl::flat_hash_map<std::string, std::string> sizes;
  const auto check = [&](const std::string& shard) -> absl::Status {
    for (absl::string_view part : absl::StrSplit(shard, ',')) {
      const std::pair<std::string, std::string> axis = absl::StrSplit(part, absl::MaxSplits(':', 1));
      if (axis.second.empty()) continue;
      const auto [it, fresh] = sizes.emplace(axis);
      if (it->second != axis.second)
        return InvalidArgument("the mesh axis ", axis.first, " has ", it->second, " devices in one shard and ",
                               axis.second, " in another");
    }
    return absl::OkStatus();
  };
  for (const Param& p : function.params)
    if (!p.shard.empty()) TSR_RETURN_IF_ERROR(check(p.shard));
  ValueId last = -1;
  for (const auto& [id, shard] : function.shards) {
    if (id <= last || static_cast<size_t>(id) >= function.values.size())
      return InvalidArgument("a shard belongs to no value, or stands out of order");
    last = id;
    for (const Param& p : function.params)
      if (p.value == id) return InvalidArgument("the shard of a parameter stands among those of other values");
    TSR_RETURN_IF_ERROR(CheckShard(shard, function.values[static_cast<size_t>(id)].type));
    TSR_RETURN_IF_ERROR(check(shard));
  }
  return absl::OkStatus();
}

absl::Status CheckSymbolsBound(const Function& function) {
  for (int i = 0; i < function.symbols->num_named(); ++i) {
    const int64_t symbol = function.symbols->NamedSymbol(i);
    bool bound = false;
    for (const Param& p : function.params) {
      const TensorType& type = function.values[p.value].type;
      for (int k = 0; k < type.rank && !bound; ++k) bound = type.dims[k] == symbol;
    }
    if (!bound) {
      return InvalidArgument("symbol ", Str(function.symbols->named(i)),
                             " is not a dim of a parameter, so a call cannot give it a value");
    }
  }
  return absl::OkStatus();
}

absl::Status InferOp(const Function& function, const Instruction& instruction, const Buffer* buffer,
                     std::vector<TensorType>& out) {
  const OpInfo& info = Info(instruction.op);
  if (buffer != nullptr) return InferBufferOp(function, instruction, *buffer, out);
  std::vector<TensorType> types(instruction.operands.size());
  std::vector<const TensorType*> in(instruction.operands.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (instruction.operands[i].kind == Operand::Kind::absent) continue;
    types[i] = OperandType(function, instruction.operands[i]);
    in[i] = &types[i];
  }
  for (size_t i = 0; i < info.attrs.size(); ++i) {
    const Ints* ints = std::get_if<Ints>(&instruction.attrs[i]);
    if (ints == nullptr) continue;
    for (int64_t v : *ints) {
      if (IsSymbol(v) ? !TakesSymbols(info.attrs[i]) || !function.symbols->Contains(v)
                      : v > kMaxListNumber || v < -kMaxListNumber) {
        return InvalidArgument(Str(info.name), ": attribute ", info.attrs[i].name, " holds ",
                               IsSymbol(v) ? absl::StrCat("the symbol ", function.symbols->Name(v)) : absl::StrCat(v),
                               IsSymbol(v) ? ", which does not stand for a dim there" : ", which is out of range");
      }
    }
  }
  // Without axes the rank would be another one in calls where a dim is 1.
  const Ints* axes = instruction.op == Op::k_squeeze ? std::get_if<Ints>(&instruction.attrs[0]) : nullptr;
  if (axes != nullptr && axes->empty() && !types.empty() &&
      std::any_of(types[0].dims, types[0].dims + types[0].rank, IsSymbol))
    return InvalidArgument(Str(info.name), ": x is ", TypeName(function.symbols.get(), types[0]),
                           ", of which a dim may be 1 in some calls and not in others; say which dims go, as axes");
  out.assign(NumResults(info, instruction.attrs), TensorType());
  TSR_RETURN_IF_ERROR(Infer({info, in, instruction.attrs, function.symbols.get()}, absl::MakeSpan(out)));
  for (TensorType& t : out) {
    t.weak = false;
    if (absl::Status s = CheckType(function.symbols.get(), t); !s.ok())
      return InvalidArgument(Str(info.name), ": the result is not valid: ", s.message());
  }
  return absl::OkStatus();
}

absl::Status InferCall(const Function& caller, const Instruction& instruction, const Function& callee,
                       std::vector<TensorType>& out) {
  SymbolTable& symbols = *caller.symbols;
  const SymbolTable& theirs = *callee.symbols;
  const std::string name = absl::StrCat("call: @", callee.name);
  if (instruction.operands.size() != callee.params.size()) {
    return InvalidArgument(name, " takes ", Count(callee.params.size(), "argument"), ", not ",
                           instruction.operands.size());
  }
  std::vector<int64_t> own(theirs.num_named());
  for (int i = 0; i < theirs.num_named(); ++i) own[i] = theirs.NamedSymbol(i);
  std::vector<int64_t> bound(theirs.num_named(), SymbolTable::kUnknownDim);

  const auto mismatch = [&](size_t i) {
    const Value& v = callee.values[callee.params[i].value];
    return InvalidArgument(name, ": parameter ", v.name.empty() ? absl::StrCat(i) : "%" + v.name, " is ",
                           TypeText(&theirs, v.type), ", and ", Describe(caller, instruction.operands[i]),
                           " was given");
  };
  for (size_t i = 0; i < callee.params.size(); ++i) {
    const TensorType& want = callee.values[callee.params[i].value].type;
    const Operand& given = instruction.operands[i];
    if (given.kind == Operand::Kind::absent) return mismatch(i);
    const TensorType type = OperandType(caller, given);
    if (type.weak) {
      if (want.rank != 0 || KindOf(type.dtype) > KindOf(want.dtype)) return mismatch(i);
      continue;
    }
    if (type.dtype != want.dtype || type.rank != want.rank) return mismatch(i);
    for (int k = 0; k < want.rank; ++k) {
      for (size_t s = 0; s < own.size(); ++s) {
        if (own[s] != want.dims[k]) continue;
        if (bound[s] == SymbolTable::kUnknownDim) {
          bound[s] = type.dims[k];
        } else if (!DimEqual(&symbols, bound[s], type.dims[k])) {
          return InvalidArgument(name, ": its symbol ", Str(theirs.named(static_cast<int>(s))), " is ",
                                 symbols.Name(bound[s]), " by an earlier argument and ", symbols.Name(type.dims[k]),
                                 " by dim ", k, " of argument ", i, ", ", TypeText(&symbols, type));
        }
      }
    }
  }
  for (size_t i = 0; i < callee.params.size(); ++i) {
    if (instruction.operands[i].kind == Operand::Kind::immediate) continue;
    const TensorType& want = callee.values[callee.params[i].value].type;
    const TensorType type = OperandType(caller, instruction.operands[i]);
    for (int k = 0; k < want.rank; ++k)
      if (!DimEqual(&symbols, symbols.Substitute(theirs, want.dims[k], bound), type.dims[k])) return mismatch(i);
  }
  // What the caller does not know is checked when the call runs.
  for (const SymbolTable::Fact& fact : theirs.facts()) {
    const int64_t a = symbols.Substitute(theirs, fact.a, bound);
    const int64_t b = symbols.Substitute(theirs, fact.b, bound);
    if (IsSymbol(a) || IsSymbol(b)) continue;
    if (fact.kind == SymbolTable::Fact::Kind::equal ? a != b : a % b != 0) {
      return InvalidArgument(name, " needs ", theirs.FactName(fact), ", but ", theirs.Name(fact.a), " is ", a,
                             IsSymbol(fact.b) ? absl::StrCat(" and ", theirs.Name(fact.b), " is ", b) : std::string());
    }
  }
  out = callee.results;
  for (TensorType& t : out) {
    for (int k = 0; k < t.rank; ++k) t.dims[k] = symbols.Substitute(theirs, t.dims[k], bound);
    if (absl::Status s = CheckType(&symbols, t); !s.ok())
      return InvalidArgument(name, ": the result is not valid: ", s.message());
  }
  return absl::OkStatus();
}

absl::Status CheckCondition(const Function& function, const Operand& condition) {
  TensorType want;
  want.dtype = DType::boolean;
  if (Accepts(function, want, condition)) return absl::OkStatus();
  return InvalidArgument("a condition is tensor<bool>, and ", Describe(function, condition), " was given");
}

absl::Status CheckBounds(const Function& function, const Operand* bounds) {
  static constexpr std::string_view kNames[] = {"start", "stop", "step"};
  for (int i = 0; i < 3; ++i) {
    bool ok = bounds[i].kind != Operand::Kind::absent;
    if (ok) {
      const TensorType type = OperandType(function, bounds[i]);
      ok = type.rank == 0 && IsInt(type.dtype);
    }
    if (!ok)
      return InvalidArgument("for: ", Str(kNames[i]), " is an integer scalar, and ", Describe(function, bounds[i]),
                             " was given");
  }
  const int64_t* step =
      bounds[2].kind == Operand::Kind::immediate ? std::get_if<int64_t>(&bounds[2].immediate) : nullptr;
  if (step != nullptr && *step == 0) return InvalidArgument("for: step is 0, so it would never end");
  return absl::OkStatus();
}

absl::Status CheckYield(const Function& function, std::string_view what, const std::vector<Operand>& given,
                        const std::vector<TensorType>& want) {
  if (given.size() != want.size()) {
    return InvalidArgument(Str(what), ": ", Count(given.size(), "value"), given.size() == 1 ? " is" : " are",
                           " given, and ", want.size(), want.size() == 1 ? " is" : " are", " expected",
                           want.empty() ? "" : ": ", TypeList(function.symbols.get(), want));
  }
  for (size_t i = 0; i < want.size(); ++i)
    if (!Accepts(function, want[i], given[i])) {
      return InvalidArgument(Str(what), ": value ", i, " must be ", TypeText(function.symbols.get(), want[i]), ", and ",
                             Describe(function, given[i]), " was given");
    }
  return absl::OkStatus();
}

absl::Status CheckInits(const Function& function, std::string_view op, const Operand* given, size_t n,
                        const std::vector<TensorType>& want) {
  if (n != want.size()) {
    return InvalidArgument(Str(op), ": ", Count(n, "initial value"), " for ", Count(want.size(), "type"));
  }
  for (size_t i = 0; i < n; ++i)
    if (!Accepts(function, want[i], given[i])) {
      return InvalidArgument(Str(op), ": carried value ", i, " is ", TypeText(function.symbols.get(), want[i]),
                             ", and it starts with ", Describe(function, given[i]));
    }
  return absl::OkStatus();
}

}  // namespace tessera::ir
