#include "ir/builder.h"

#include <algorithm>

#include "ir/schedule.h"
#include "ir/typing.h"

namespace tessera::ir {

FunctionBuilder::FunctionBuilder(Module& module, std::string_view name, Loc loc) : module_(module) {
  auto function = std::make_unique<Function>();
  f_ = function.get();
  f_->name = std::string(name);
  f_->loc = loc;
  if (!IsName(name)) Fail(InvalidArgument("\"", f_->name, "\" cannot be the name of a function"), loc);
  if (module.FindFunction(name) != nullptr) Fail(InvalidArgument("function @", f_->name, " is defined twice"), loc);
  blocks_.push_back(&f_->body);
  module.functions.push_back(std::move(function));
}

FunctionBuilder::~FunctionBuilder() {
  if (finished_) return;
  auto& all = module_.functions;
  all.erase(std::remove_if(all.begin(), all.end(), [this](const auto& f) { return f.get() == f_; }), all.end());
}

void FunctionBuilder::Fail(const absl::Status& status, Loc loc) {
  if (!ok() || status.ok()) return;
  std::string where = module_.file.empty() ? "" : absl::StrCat(module_.file, ":");
  if (loc.line > 0) absl::StrAppend(&where, loc.line, ":", loc.column, ": ");
  status_ = absl::Status(status.code(), absl::StrCat(where, "in @", f_->name, ": ", status.message()));
}

int64_t FunctionBuilder::Symbol(std::string_view name) {
  if (!IsSymbolName(name)) Fail(InvalidArgument("\"", std::string(name), "\" cannot be a symbol"), {});
  return f_->symbols->Named(name);
}

TensorType FunctionBuilder::Type(DType dtype, std::initializer_list<int64_t> dims) {
  TensorType type;
  type.dtype = dtype;
  if (dims.size() > kMaxRank) {
    Fail(InvalidArgument("a type has ", dims.size(), " dims; the rank is at most ", kMaxRank), {});
    return type;
  }
  for (int64_t d : dims) type.dims[type.rank++] = d;
  return type;
}

void FunctionBuilder::AssumeEqual(int64_t a, int64_t b) {
  if (ok() && !f_->symbols->AssumeEqual(a, b))
    Fail(InvalidArgument("the fact ", f_->symbols->Name(a), " == ", f_->symbols->Name(b), " cannot hold"), {});
}

void FunctionBuilder::AssumeDivisible(int64_t a, int64_t divisor) {
  if (ok() && !f_->symbols->AssumeDivisible(a, divisor))
    Fail(InvalidArgument("the fact ", f_->symbols->Name(a), " % ", divisor, " == 0 cannot hold"), {});
}

Val FunctionBuilder::NewValue(const TensorType& type) {
  f_->values.push_back({"", type});
  f_->values.back().type.weak = false;
  visible_.push_back(true);
  return {static_cast<ValueId>(f_->values.size()) - 1};
}

Val FunctionBuilder::Param(std::string_view name, const TensorType& type, Privilege privilege, std::string shard) {
  if (!ok()) return {};
  if (absl::Status s = CheckType(f_->symbols.get(), type); !s.ok()) {
    Fail(InvalidArgument("parameter %", std::string(name), ": ", s.message()), {});
    return {};
  }
  const Val v = NewValue(type);
  f_->params.push_back({v.id, privilege, std::move(shard)});
  return Name(v, name);
}

Val FunctionBuilder::Shard(Val value, std::string shard, Loc loc) {
  if (!ok()) return value;
  if (value.id < 0 || static_cast<size_t>(value.id) >= f_->values.size()) {
    Fail(InvalidArgument("shard: this is no value of the function"), loc);
    return value;
  }
  Fail(CheckShard(shard, f_->values[value.id].type), loc);
  auto at = std::lower_bound(f_->shards.begin(), f_->shards.end(), value.id,
                             [](const auto& entry, ValueId id) { return entry.first < id; });
  if (at != f_->shards.end() && at->first == value.id) {
    at->second = std::move(shard);
  } else {
    f_->shards.emplace(at, value.id, std::move(shard));
  }
  return value;
}

void FunctionBuilder::Schedule(std::string schedule) { f_->schedule = std::move(schedule); }

void FunctionBuilder::Autotune(std::string space, std::string key) {
  f_->tune_space = std::move(space);
  f_->tune_key = std::move(key);
}

void FunctionBuilder::DeclareResults(std::vector<TensorType> types) {
  f_->results = std::move(types);
  declared_ = true;
}

Val FunctionBuilder::Name(Val value, std::string_view name) {
  if (!ok() || value.id < 0) return value;
  std::string text(name);
  for (char& c : text)
    if (c != '.' && !IsName(std::string("_") + c)) c = '_';
  if (std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) text.clear();
  if (!text.empty() && (!IsName(text) || text == "_")) text = "_" + text;
  if (!text.empty()) {
    std::string unique = text;
    for (int n = 1; taken_.contains(unique); ++n) unique = absl::StrCat(text, "_", n);
    text = unique;
    taken_.insert(text);
  }
  f_->values[value.id].name = text;
  return value;
}

const TensorType& FunctionBuilder::TypeOf(Val value) const {
  static const TensorType kNothing{};
  return value.id < 0 || static_cast<size_t>(value.id) >= f_->values.size() ? kNothing : f_->values[value.id].type;
}

bool FunctionBuilder::CheckArgs(Op op, const Args& args, Loc loc) {
  const std::string name(Info(op).name);
  if (blocks_.back() == &f_->body && returned_) Fail(InvalidArgument(name, ": stands after return"), loc);
  for (const Arg& a : args) {
    if (a.kind != Operand::Kind::value) continue;
    if (a.value < 0 || static_cast<size_t>(a.value) >= f_->values.size()) {
      Fail(InvalidArgument(name, ": an operand is no value of this function"), loc);
    } else if (!visible_[a.value]) {
      Fail(InvalidArgument(name,
                           ": an operand is defined inside a block and cannot be seen here; yield it from the block"),
           loc);
    }
  }
  return ok();
}

FunctionBuilder::Vals FunctionBuilder::Bind(Instruction inst, const std::vector<TensorType>& types) {
  Vals vals;
  for (const TensorType& t : types) {
    vals.push_back(NewValue(t));
    inst.results.push_back(vals.back().id);
  }
  blocks_.back()->instructions.push_back(std::move(inst));
  return vals;
}

FunctionBuilder::Vals FunctionBuilder::EmitMany(Op op, const Args& args, const Attrs& attrs, Loc loc) {
  if (!ok() || !CheckArgs(op, args, loc)) return {};
  const OpInfo& info = Info(op);
  const std::string name(info.name);
  if (info.effect == Effect::control) {
    Fail(InvalidArgument(name, ": is built with If, While, For, Call and Return"), loc);
    return {};
  }
  Instruction inst{op, {args.begin(), args.end()}, std::vector<Attr>(info.attrs.size()), {}, {}, loc};
  while (!inst.operands.empty() && inst.operands.back().kind == Operand::Kind::absent) inst.operands.pop_back();
  for (const auto& [key, value] : attrs) {
    const int index = FindAttr(info, key);
    if (index < 0) {
      Fail(InvalidArgument(name, ": has no attribute ", key), loc);
      return {};
    }
    inst.attrs[index] = value;
  }
  absl::Status s = CompleteAttrs(info, absl::MakeSpan(inst.attrs));
  const Buffer* buffer = nullptr;
  if (s.ok() && (op == Op::k_buffer_read || op == Op::k_buffer_write || op == Op::k_buffer_add)) {
    buffer = module_.FindBuffer(std::get<std::string>(inst.attrs[0]));
    if (buffer == nullptr) s = InvalidArgument(name, ": there is no buffer @", std::get<std::string>(inst.attrs[0]));
  }
  std::vector<TensorType> types;
  if (s.ok()) s = InferOp(*f_, inst, buffer, types);
  Fail(s, loc);
  if (!ok()) return {};
  return Bind(std::move(inst), types);
}

Val FunctionBuilder::Emit(Op op, const Args& args, const Attrs& attrs, Loc loc) {
  const Vals vals = EmitMany(op, args, attrs, loc);
  return vals.empty() ? Val{} : vals[0];
}

Val FunctionBuilder::Constant(rt::Ref<rt::TensorImpl> value, Loc loc) {
  return Emit(Op::k_constant, {}, {{"value", std::move(value)}}, loc);
}

FunctionBuilder::Args FunctionBuilder::Fill(Block& block, Loc loc, const std::function<Args()>& fill) {
  if (static_cast<int>(blocks_.size()) > kMaxNesting) {
    Fail(InvalidArgument("blocks are nested more than ", kMaxNesting, " deep"), loc);
    return {};
  }
  const size_t first = f_->values.size();
  blocks_.push_back(&block);
  Args yielded = fill();
  if (ok() && CheckArgs(Op::k_yield, yielded, loc)) {
    block.instructions.push_back({Op::k_yield, {yielded.begin(), yielded.end()}, {}, {}, {}, loc});
  }
  blocks_.pop_back();
  for (size_t i = first; i < f_->values.size(); ++i) visible_[i] = false;
  return yielded;
}

std::vector<TensorType> FunctionBuilder::ScalarTypes(const Args& args) const {
  std::vector<TensorType> types;
  for (const Arg& a : args) {
    types.push_back(a.kind == Operand::Kind::absent ? TensorType() : OperandType(*f_, a));
    types.back().weak = false;
  }
  return types;
}

FunctionBuilder::Vals FunctionBuilder::If(const Arg& condition, const std::function<Args()>& then_block,
                                          const std::function<Args()>& else_block, Loc loc) {
  if (!ok() || !CheckArgs(Op::k_if, {condition}, loc)) return {};
  Fail(CheckCondition(*f_, condition), loc);
  if (!ok()) return {};
  Instruction inst{Op::k_if, {condition}, {}, {}, std::vector<Block>(2), loc};
  const Args then_values = Fill(inst.blocks[0], loc, then_block);
  if (!ok()) return {};
  const std::vector<TensorType> types = ScalarTypes(then_values);
  const Args else_values = Fill(inst.blocks[1], loc, else_block);
  if (!ok()) return {};
  Fail(CheckYield(*f_, "yield", {then_values.begin(), then_values.end()}, types), loc);
  Fail(CheckYield(*f_, "yield", {else_values.begin(), else_values.end()}, types), loc);
  if (!ok()) return {};
  return Bind(std::move(inst), types);
}

FunctionBuilder::Vals FunctionBuilder::While(const Args& inits, const std::function<Arg(const Vals&)>& condition,
                                             const std::function<Args(const Vals&)>& body, Loc loc) {
  if (!ok() || !CheckArgs(Op::k_while, inits, loc)) return {};
  Instruction inst{Op::k_while, {inits.begin(), inits.end()}, {}, {}, std::vector<Block>(2), loc};
  const std::vector<TensorType> types = ScalarTypes(inits);
  Fail(CheckInits(*f_, "while", inst.operands.data(), inst.operands.size(), types), loc);
  if (!ok()) return {};
  const size_t first = f_->values.size();
  Vals carried;
  for (const TensorType& t : types) carried.push_back(NewValue(t));
  for (Block& b : inst.blocks)
    for (Val v : carried) b.params.push_back(v.id);
  const Args cond = Fill(inst.blocks[0], loc, [&] { return Args{condition(carried)}; });
  if (ok()) Fail(CheckCondition(*f_, cond[0]), loc);
  if (!ok()) return {};
  const Args next = Fill(inst.blocks[1], loc, [&] { return body(carried); });
  if (ok()) Fail(CheckYield(*f_, "yield", {next.begin(), next.end()}, types), loc);
  if (!ok()) return {};
  for (size_t i = first; i < f_->values.size(); ++i) visible_[i] = false;
  return Bind(std::move(inst), types);
}

FunctionBuilder::Vals FunctionBuilder::For(const Arg& start, const Arg& stop, const Arg& step, const Args& inits,
                                           const std::function<Args(Val, const Vals&)>& body, Loc loc) {
  if (!ok() || !CheckArgs(Op::k_for, {start, stop, step}, loc) || !CheckArgs(Op::k_for, inits, loc)) return {};
  Instruction inst{Op::k_for, {start, stop, step}, {}, {}, std::vector<Block>(1), loc};
  inst.operands.insert(inst.operands.end(), inits.begin(), inits.end());
  const std::vector<TensorType> types = ScalarTypes(inits);
  Fail(CheckBounds(*f_, inst.operands.data()), loc);
  Fail(CheckInits(*f_, "for", inst.operands.data() + 3, inits.size(), types), loc);
  if (!ok()) return {};
  const size_t first = f_->values.size();
  const Val index = NewValue(Type(DType::i64));
  Vals carried;
  inst.blocks[0].params.push_back(index.id);
  for (const TensorType& t : types) {
    carried.push_back(NewValue(t));
    inst.blocks[0].params.push_back(carried.back().id);
  }
  const Args next = Fill(inst.blocks[0], loc, [&] { return body(index, carried); });
  if (ok()) Fail(CheckYield(*f_, "yield", {next.begin(), next.end()}, types), loc);
  if (!ok()) return {};
  for (size_t i = first; i < f_->values.size(); ++i) visible_[i] = false;
  return Bind(std::move(inst), types);
}

FunctionBuilder::Vals FunctionBuilder::Call(std::string_view callee, const Args& args, Loc loc) {
  if (!ok() || !CheckArgs(Op::k_call, args, loc)) return {};
  const Function* function = module_.FindFunction(callee);
  Instruction inst{Op::k_call, {args.begin(), args.end()}, {Attr(std::string(callee))}, {}, {}, loc};
  std::vector<TensorType> types;
  Fail(function == nullptr ? InvalidArgument("call: there is no function @", std::string(callee))
                           : InferCall(*f_, inst, *function, types),
       loc);
  if (function == f_ && !declared_)
    Fail(InvalidArgument("call: @", f_->name, " calls itself; DeclareResults comes first"), loc);
  if (!ok()) return {};
  return Bind(std::move(inst), types);
}

void FunctionBuilder::Return(const Args& values, Loc loc) {
  if (!ok() || !CheckArgs(Op::k_return, values, loc)) return;
  if (blocks_.back() != &f_->body)
    return Fail(InvalidArgument("return stands at the end of a function's body; a block ends by giving what it yields"),
                loc);
  if (!declared_) f_->results = ScalarTypes(values);
  Fail(CheckYield(*f_, "return", {values.begin(), values.end()}, f_->results), loc);
  f_->body.instructions.push_back({Op::k_return, {values.begin(), values.end()}, {}, {}, {}, loc});
  returned_ = true;
}

absl::Status FunctionBuilder::Finish() {
  if (!returned_) Fail(InvalidArgument("the function has no return"), f_->loc);
  if (ok()) Fail(CheckSymbolsBound(*f_), f_->loc);
  for (const struct Param& p : f_->params)
    if (ok() && !p.shard.empty()) Fail(CheckShard(p.shard, f_->values[p.value].type), f_->loc);
  if (ok()) Fail(CheckShards(*f_), f_->loc);
  if (ok()) Fail(CheckTuning(*f_), f_->loc);
  finished_ = ok();
  return status_;
}

}  // namespace tessera::ir
