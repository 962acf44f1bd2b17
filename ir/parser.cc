#include <algorithm>

#include "ir/parser_impl.h"
#include "ir/schedule.h"

namespace tessera::ir {
namespace {

// Facts are compared with each other, so their number is bounded to keep reading linear.
constexpr size_t kMaxFacts = 256;
// Hints look at that many names of at most that length.
constexpr size_t kMaxCandidates = 1000;
constexpr size_t kMaxHintName = 64;

std::string Str(std::string_view s) { return std::string(s); }

bool AllDigits(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string Results(const OpInfo& info, size_t n) {
  std::string out = absl::StrCat(n, n == 1 ? " result" : " results");
  if (!info.variadic_results && n > 1) {
    out += " (";
    for (size_t i = 0; i < n; ++i) absl::StrAppend(&out, i > 0 ? ", " : "", info.results[i]);
    out += ")";
  }
  return out;
}

}  // namespace

Parser::Parser(std::string_view text, std::string_view file)
    : source_(text, file), module_(std::make_unique<Module>()) {
  module_->file = Str(file);
}

absl::Status Parser::Fail(const Token& t, std::string_view message, std::string_view hint, const Token* first) const {
  std::string out = source_.Message("error", t, message);
  if (first != nullptr) absl::StrAppend(&out, "\n", source_.Message("note", *first, "first defined here"));
  if (!hint.empty()) absl::StrAppend(&out, "\nhint: ", Str(hint));
  return absl::InvalidArgumentError(out);
}

absl::Status Parser::FailAt(const Token& t, const absl::Status& status) const {
  return Fail(t, std::string_view(status.message().data(), status.message().size()));
}

absl::Status Parser::Expected(std::string_view what, std::string_view hint) const {
  const Token& t = Peek();
  if (t.kind == Tok::error) return Fail(t, source_.lex_error(), source_.lex_hint());
  if (t.kind == Tok::end && at_ > 0) {
    // Just after the last token: the end itself is often an empty line.
    const Token& before = source_.tokens()[at_ - 1];
    return Fail({Tok::end, before.offset + before.length, 1, before.line},
                absl::StrCat("expected ", Str(what), ", got ", source_.Describe(t)), hint);
  }
  return Fail(t, absl::StrCat("expected ", Str(what), ", got ", source_.Describe(t)), hint);
}

absl::Status Parser::Expect(Tok kind, std::string_view what, std::string_view hint) {
  if (!TakeIf(kind)) return Expected(what, hint);
  return absl::OkStatus();
}

std::string Parser::Suggest(std::string_view name, const std::vector<std::string_view>& names,
                            std::string_view prefix) const {
  // A name of one letter is near every other one.
  if (name.size() > kMaxHintName || name.size() < (name.starts_with('%') ? 3 : 2)) return "";
  std::vector<std::string_view> candidates;
  for (std::string_view n : names)
    if (n.size() <= kMaxHintName && candidates.size() < kMaxCandidates) candidates.push_back(n);
  // The same hint whatever order a hash table gave.
  std::sort(candidates.begin(), candidates.end());
  const std::string near = DidYouMean(name, candidates);
  return near.empty() ? "" : absl::StrCat("did you mean ", Str(prefix), near, "?");
}

// ---- top level

absl::StatusOr<std::unique_ptr<Module>> Parser::Run() {
  held_ = ScanTopLevel();
  for (const FunctionText& text : texts_) TSR_RETURN_IF_ERROR(ParseBody(text));
  TSR_RETURN_IF_ERROR(held_);
  return std::move(module_);
}

absl::Status Parser::ScanTopLevel() {
  while (!Is(Tok::end)) {
    if (IsWord("func")) {
      TSR_RETURN_IF_ERROR(ParseSignature());
    } else if (IsWord("buffer")) {
      TSR_RETURN_IF_ERROR(ParseBuffer());
    } else {
      return Expected("func or buffer", Is(Tok::name) ? Suggest(Text(Peek()), {"func", "buffer"}) : "");
    }
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseBuffer() {
  Take();
  const Token name = Peek();
  TSR_RETURN_IF_ERROR(Expect(Tok::symbol, "a buffer's name", "buffers are written: buffer @steps : tensor<i64>"));
  Buffer buffer{Str(Text(name).substr(1)), {}, source_.LocOf(name)};
  auto [it, fresh] = buffer_tokens_.try_emplace(buffer.name, name);
  if (!fresh) return Fail(name, absl::StrCat("buffer @", buffer.name, " is defined twice"), "", &it->second);
  TSR_RETURN_IF_ERROR(Expect(Tok::colon, "':' and the buffer's type"));
  TSR_RETURN_IF_ERROR(ParseType(buffer.type, SymbolMode::none));
  buffers_[buffer.name] = module_->buffers.size();
  module_->buffers.push_back(std::move(buffer));
  return absl::OkStatus();
}

absl::Status Parser::ParseSignature() {
  Take();
  const Token name = Peek();
  TSR_RETURN_IF_ERROR(Expect(Tok::symbol, "a function's name", "functions are written: func @name(%x: tensor<f32>)"));
  auto function = std::make_unique<Function>();
  f_ = function.get();
  f_->name = Str(Text(name).substr(1));
  f_->loc = source_.LocOf(name);
  auto [it, fresh] = function_tokens_.try_emplace(f_->name, name);
  if (!fresh) return Fail(name, absl::StrCat("function @", f_->name, " is defined twice"), "", &it->second);

  FunctionText text{f_, 0, {}};
  values_.clear();
  new_symbols_.clear();
  TSR_RETURN_IF_ERROR(Expect(Tok::lparen, "'(' and the parameters"));
  if (!TakeIf(Tok::rparen)) {
    do {
      TSR_RETURN_IF_ERROR(ParseParam(text));
    } while (TakeIf(Tok::comma));
    TSR_RETURN_IF_ERROR(Expect(Tok::rparen, "',' or ')'"));
  }
  // A symbol that stands only inside expressions has no value at a call.
  absl::flat_hash_map<int64_t, bool> bound;
  for (const Param& p : f_->params) {
    const TensorType& type = f_->values[p.value].type;
    for (int k = 0; k < type.rank; ++k) bound[type.dims[k]] = true;
  }
  for (const auto& [token, symbol] : new_symbols_)
    if (!bound.contains(symbol)) {
      return Fail(
          token,
          absl::StrCat("symbol ", Str(Text(token)), " is not a dim of a parameter, so a call cannot give it a value"),
          absl::StrCat("let a parameter have ", Str(Text(token)), " as one of its dims"));
    }
  if (TakeIf(Tok::arrow)) TSR_RETURN_IF_ERROR(ParseTypeList(f_->results));
  if (TakeWord("where")) TSR_RETURN_IF_ERROR(ParseFacts());
  if (TakeWord("with")) TSR_RETURN_IF_ERROR(ParseTuning());
  if (!Is(Tok::lbrace)) return Expected("'{' and the body of the function");
  Take();
  text.body = at_;
  functions_[f_->name] = f_;
  module_->functions.push_back(std::move(function));
  texts_.push_back(std::move(text));
  return SkipBody();
}

absl::Status Parser::ParseParam(FunctionText& text) {
  const Token name = Peek();
  TSR_RETURN_IF_ERROR(Expect(Tok::value, "a parameter such as %x: tensor<f32>"));
  TSR_RETURN_IF_ERROR(DeclareName(name));
  TSR_RETURN_IF_ERROR(Expect(Tok::colon, "':' and the parameter's type"));
  TensorType type;
  TSR_RETURN_IF_ERROR(ParseType(type, SymbolMode::declare));
  Param param;
  param.value = NewValue(name, type);
  if (TakeIf(Tok::lbrace)) {
    bool have_privilege = false, have_shard = false;
    do {
      const Token attr = Peek();
      TSR_RETURN_IF_ERROR(Expect(Tok::name, "privilege or shard"));
      const std::string_view attr_name = Text(attr);
      if (attr_name != "privilege" && attr_name != "shard") {
        return Fail(attr, absl::StrCat("parameters have no attribute ", Str(attr_name)),
                    Suggest(attr_name, {"privilege", "shard"}));
      }
      bool& have = attr_name == "shard" ? have_shard : have_privilege;
      if (have) return Fail(attr, absl::StrCat(Str(attr_name), " is given twice"));
      have = true;
      TSR_RETURN_IF_ERROR(Expect(Tok::equal, "'='"));
      const Token value = Peek();
      TSR_RETURN_IF_ERROR(Expect(Tok::string, "a string"));
      const std::string word = Unescape(value);
      if (attr_name == "shard") {
        if (absl::Status s = CheckShard(word, type); !s.ok()) return FailAt(value, s);
        param.shard = word;
        continue;
      }
      bool known = false;
      for (Privilege p : {Privilege::read, Privilege::write, Privilege::reduce_sum})
        if (PrivilegeName(p) == word) {
          param.privilege = p;
          known = true;
        }
      if (!known) {
        return Fail(value,
                    absl::StrCat("there is no privilege ", Str(Text(value)), "; it is read, write or reduce_sum"),
                    Suggest(word, {"read", "write", "reduce_sum"}));
      }
    } while (TakeIf(Tok::comma));
    TSR_RETURN_IF_ERROR(Expect(Tok::rbrace, "',' or '}'"));
  }
  text.params.emplace_back(name, param.value);
  f_->params.push_back(std::move(param));
  return absl::OkStatus();
}

absl::Status Parser::ParseFacts() {
  size_t count = 0;
  do {
    const Token first = Peek();
    if (++count > kMaxFacts) return Fail(first, absl::StrCat("a function states at most ", kMaxFacts, " facts"));
    int64_t a = 0, b = 0;
    TSR_RETURN_IF_ERROR(ParseDims(a, SymbolMode::use, 0));
    bool ok;
    Token last = first;
    if (TakeIf(Tok::equal_equal)) {
      last = Peek();
      TSR_RETURN_IF_ERROR(ParseDims(b, SymbolMode::use, 0));
      ok = f_->symbols->AssumeEqual(a, b);
    } else if (Is(Tok::percent) || (Is(Tok::value) && AllDigits(Text(Peek()).substr(1)))) {
      // "S %8" reads as a value; nothing else may stand here.
      if (Is(Tok::percent)) {
        Take();
        last = Peek();
        if (!Is(Tok::integer)) return Expected("a number to divide by", "write the fact as S % 8 == 0");
        TSR_RETURN_IF_ERROR(ParseBounded(b, kMaxListNumber));
      } else {
        last = Take();
        const std::string_view digits = Text(last).substr(1);
        if (digits.size() > 18) return Fail(last, "the number is too large");
        for (char c : digits) b = b * 10 + (c - '0');
      }
      if (b == 0) return Fail(last, "nothing is divisible by 0");
      TSR_RETURN_IF_ERROR(Expect(Tok::equal_equal, "'== 0'", "write the fact as S % 8 == 0"));
      last = Peek();
      if (!Is(Tok::integer) || Text(last) != "0") return Expected("0", "write the fact as S % 8 == 0");
      Take();
      ok = f_->symbols->AssumeDivisible(a, b);
    } else {
      return Expected("'==' or '%'", "facts are written B == S, B == 8 or S % 8 == 0");
    }
    if (!ok) {
      const std::string known = f_->symbols->Facts();
      return Fail(Span(first, last), "this fact cannot hold",
                  known.empty() ? "symbols are whole numbers of 2 or more"
                                : absl::StrCat("symbols are whole numbers of 2 or more, and it is known that ", known));
    }
  } while (TakeIf(Tok::comma));
  return absl::OkStatus();
}

absl::Status Parser::ParseTuning() {
  TSR_RETURN_IF_ERROR(Expect(Tok::lbrace, "'{' and an attribute", "write it as: with {schedule = \"rows=64\"}"));
  std::string gradient;
  do {
    const Token attr = Peek();
    TSR_RETURN_IF_ERROR(Expect(Tok::name, "schedule, space, key or gradient"));
    const std::string_view name = Text(attr);
    std::string* to = name == "schedule"   ? &f_->schedule
                      : name == "space"    ? &f_->tune_space
                      : name == "key"      ? &f_->tune_key
                      : name == "gradient" ? &gradient
                                           : nullptr;
    if (to == nullptr)
      return Fail(attr, absl::StrCat("functions have no attribute ", Str(name)),
                  Suggest(name, {"schedule", "space", "key", "gradient"}));
    if (!to->empty()) return Fail(attr, absl::StrCat(Str(name), " is given twice"));
    TSR_RETURN_IF_ERROR(Expect(Tok::equal, "'='"));
    const Token value = Peek();
    TSR_RETURN_IF_ERROR(Expect(Tok::string, "a string"));
    *to = Unescape(value);
    // What is left out is not written, either.
    if (to->empty()) return Fail(value, absl::StrCat(Str(name), " is empty"));
    if (absl::Status s = CheckTuning(*f_); !s.ok()) return FailAt(value, s);
    if (to != &gradient) continue;
    if (gradient != "none") return Fail(value, "a gradient is \"none\", or is not named");
    f_->stops_gradient = true;
  } while (TakeIf(Tok::comma));
  return Expect(Tok::rbrace, "',' or '}'");
}

// The body is read in the second pass; an end or an odd token within it is reported there.
absl::Status Parser::SkipBody() {
  for (int64_t open = 1; open > 0;) {
    if (Is(Tok::end)) return absl::OkStatus();
    if (Is(Tok::error)) return Expected("");
    const Tok kind = Take().kind;
    open += kind == Tok::lbrace ? 1 : kind == Tok::rbrace ? -1 : 0;
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseBody(const FunctionText& text) {
  f_ = text.function;
  at_ = text.body;
  values_.clear();
  visible_.assign(f_->values.size(), true);
  for (const auto& [token, id] : text.params) values_[Str(Text(token))] = {id, token};
  TSR_RETURN_IF_ERROR(ParseBlock(f_->body, true, 0));
  if (absl::Status s = CheckShards(*f_); !s.ok()) return FailAt(function_tokens_.find(f_->name)->second, s);
  return absl::OkStatus();
}

// ---- names

absl::Status Parser::DeclareName(const Token& t) {
  auto [it, fresh] = values_.try_emplace(Str(Text(t)), Definition{-1, t});
  if (fresh) return absl::OkStatus();
  return Fail(t, absl::StrCat(Str(Text(t)), " is defined twice"), "every value of a function has a name of its own",
              &it->second.token);
}

ValueId Parser::NewValue(const Token& name, const TensorType& type) {
  const ValueId id = static_cast<ValueId>(f_->values.size());
  const std::string_view text = Text(name);
  f_->values.push_back({AllDigits(text.substr(1)) ? std::string() : Str(text.substr(1)), type});
  visible_.resize(f_->values.size(), true);
  values_[Str(text)].id = id;
  return id;
}

absl::Status Parser::FindValue(const Token& t, ValueId* id) {
  const std::string_view name = Text(t);
  auto it = values_.find(Str(name));
  if (it == values_.end()) {
    std::vector<std::string_view> near;
    for (const auto& [n, d] : values_)
      if (d.id >= 0 && visible_[d.id] && near.size() < kMaxCandidates) near.push_back(n);
    return Fail(t, absl::StrCat(Str(name), " is not defined"), Suggest(name, near));
  }
  if (it->second.id < 0) return Fail(t, absl::StrCat(Str(name), " is used in its own definition"));
  if (!visible_[it->second.id]) {
    return Fail(t, absl::StrCat(Str(name), " is defined inside a block and cannot be seen here"),
                "yield it from the block to use it outside", &it->second.token);
  }
  *id = it->second.id;
  return absl::OkStatus();
}

absl::Status Parser::BindResults(Instruction& inst, const Token& op, const std::vector<Token>& names,
                                 const std::vector<TensorType>& types, Shards shards) {
  if (names.size() != types.size()) {
    return Fail(names.empty() ? op : Span(names.front(), names.back()),
                absl::StrCat(Str(Text(op)), " has ", Results(Info(inst.op), types.size()), ", and ", names.size(),
                             names.size() == 1 ? " name is" : " names are", " given"));
  }
  for (size_t i = 0; i < names.size(); ++i) inst.results.push_back(NewValue(names[i], types[i]));
  // Values within blocks of this instruction have smaller numbers, those after it larger ones.
  for (auto& [index, shard] : shards) f_->shards.emplace_back(inst.results[index], std::move(shard));
  return absl::OkStatus();
}

// ---- blocks and instructions

absl::Status Parser::ParseBlock(Block& block, bool is_body, int depth) {
  if (depth > kMaxNesting) return Fail(Peek(), absl::StrCat("blocks are nested more than ", kMaxNesting, " deep"));
  const size_t first = f_->values.size();
  const std::string_view ending = is_body ? "return" : "yield";
  bool last = false;
  while (!last) {
    if (Is(Tok::rbrace)) {
      return Fail(Peek(), absl::StrCat("the ", is_body ? "body" : "block", " does not end with ", Str(ending)),
                  absl::StrCat("put ", Str(ending), " before the }"));
    }
    TSR_RETURN_IF_ERROR(ParseInstruction(block, is_body, depth, &last));
  }
  if (!Is(Tok::rbrace)) return Expected(absl::StrCat("'}' after ", Str(ending)));
  Take();
  for (size_t i = first; i < f_->values.size(); ++i) visible_[i] = false;
  return absl::OkStatus();
}

absl::Status Parser::ParseInstruction(Block& block, bool is_body, int depth, bool* last) {
  std::vector<Token> results;
  if (Is(Tok::value)) {
    do {
      const Token name = Peek();
      TSR_RETURN_IF_ERROR(Expect(Tok::value, "the name of a result"));
      TSR_RETURN_IF_ERROR(DeclareName(name));
      results.push_back(name);
    } while (TakeIf(Tok::comma));
    TSR_RETURN_IF_ERROR(Expect(Tok::equal, "'='"));
  }
  const Token op = Peek();
  TSR_RETURN_IF_ERROR(Expect(Tok::name, "the name of an op"));
  const std::optional<Op> found = FindOp(Text(op));
  if (!found) {
    std::vector<std::string_view> names;
    for (const OpInfo& info : AllOps()) names.push_back(info.name);
    return Fail(op, absl::StrCat("there is no op ", Str(Text(op))), Suggest(Text(op), names));
  }
  Instruction inst{*found, {}, {}, {}, {}, source_.LocOf(op)};
  switch (*found) {
    case Op::k_if: TSR_RETURN_IF_ERROR(ParseIf(inst, op, results, depth)); break;
    case Op::k_while: TSR_RETURN_IF_ERROR(ParseWhile(inst, op, results, depth)); break;
    case Op::k_for: TSR_RETURN_IF_ERROR(ParseFor(inst, op, results, depth)); break;
    case Op::k_call: TSR_RETURN_IF_ERROR(ParseCall(inst, op, results)); break;
    case Op::k_yield:
    case Op::k_return:
      if (!results.empty()) return Fail(op, absl::StrCat(Str(Text(op)), " has no results"));
      TSR_RETURN_IF_ERROR(ParseYield(inst, op, is_body));
      *last = true;
      break;
    default: TSR_RETURN_IF_ERROR(ParseGeneric(inst, op, results));
  }
  block.instructions.push_back(std::move(inst));
  return absl::OkStatus();
}

absl::Status Parser::ParseOperand(Operand& operand) {
  const Token& t = Peek();
  if (t.kind == Tok::value) {
    Take();
    operand.kind = Operand::Kind::value;
    return FindValue(t, &operand.value);
  }
  if (t.kind == Tok::name && Text(t) == "_") {
    Take();
    return absl::OkStatus();
  }
  operand.kind = Operand::Kind::immediate;
  return ParseImmediate(operand.immediate);
}

absl::Status Parser::ParseOperands(std::vector<Operand>& operands, int most) {
  const Tok kind = Peek().kind;
  const std::string_view word = kind == Tok::name ? Text(Peek()) : std::string_view();
  const bool any = kind == Tok::value || kind == Tok::integer || kind == Tok::real || kind == Tok::minus ||
                   word == "_" || word == "true" || word == "false" || word == "inf" || word == "nan";
  if (!any || most == 0) return absl::OkStatus();
  do {
    if (static_cast<int>(operands.size()) == most) {
      return Fail(Peek(),
                  absl::StrCat("one operand too many: at most ", most, most == 1 ? " is" : " are", " taken here"));
    }
    TSR_RETURN_IF_ERROR(ParseOperand(operands.emplace_back()));
  } while (TakeIf(Tok::comma));
  while (!operands.empty() && operands.back().kind == Operand::Kind::absent) operands.pop_back();
  return absl::OkStatus();
}

absl::Status Parser::ParseGeneric(Instruction& inst, const Token& op, const std::vector<Token>& results) {
  const OpInfo& info = Info(inst.op);
  TSR_RETURN_IF_ERROR(ParseOperands(inst.operands, info.max_operands));
  if (!Is(Tok::error)) TSR_RETURN_IF_ERROR(ParseAttrs(inst, op));
  if (Is(Tok::error)) return Expected("");
  const Buffer* buffer = nullptr;
  if (inst.op == Op::k_buffer_read || inst.op == Op::k_buffer_write || inst.op == Op::k_buffer_add) {
    const std::string& name = std::get<std::string>(inst.attrs[0]);
    auto it = buffers_.find(name);
    if (it == buffers_.end()) {
      TSR_RETURN_IF_ERROR(held_);
      std::vector<std::string_view> near;
      for (const Buffer& b : module_->buffers) near.push_back(b.name);
      return Fail(op, absl::StrCat(Str(info.name), ": there is no buffer ", StringText(name)),
                  near.empty() ? "declare it before the functions: buffer @name : tensor<f32>" : Suggest(name, near));
    }
    buffer = &module_->buffers[it->second];
  }
  std::vector<TensorType> types;
  if (absl::Status s = InferOp(*f_, inst, buffer, types); !s.ok()) return FailAt(op, s);
  Shards shards;
  TSR_RETURN_IF_ERROR(ParseWrittenTypes(types, op, &shards));
  return BindResults(inst, op, results, types, std::move(shards));
}

// A written type replaces the inferred one: its dims are the same or known to be equal.
absl::Status Parser::ParseWrittenTypes(std::vector<TensorType>& inferred, const Token& op, Shards* shards) {
  const Token colon = Peek();
  if (!TakeIf(Tok::colon)) return absl::OkStatus();
  for (size_t i = 0;; ++i) {
    const size_t first = at_;
    TensorType type;
    TSR_RETURN_IF_ERROR(ParseType(type, SymbolMode::use));
    const Token span = Span(source_.tokens()[first], source_.tokens()[at_ - 1]);
    if (i >= inferred.size()) {
      return Fail(inferred.empty() ? colon : span,
                  absl::StrCat(Str(Text(op)), " has ", inferred.size(), inferred.size() == 1 ? " result" : " results",
                               ", and more types are written"));
    }
    if (!SameType(f_->symbols.get(), type, inferred[i])) {
      return Fail(span, absl::StrCat("the type of ",
                                     inferred.size() > 1 ? absl::StrCat("result ", i) : std::string("the result"),
                                     " is ", TypeText(f_->symbols.get(), inferred[i]), ", and ",
                                     TypeText(f_->symbols.get(), type), " is written"));
    }
    inferred[i] = type;
    TSR_RETURN_IF_ERROR(ParseShard(type, i, shards));
    if (TakeIf(Tok::comma)) continue;
    if (i + 1 < inferred.size()) {
      return Expected(absl::StrCat("',' and the types of all ", inferred.size(), " results"));
    }
    return absl::OkStatus();
  }
}

absl::Status Parser::ParseIf(Instruction& inst, const Token& op, const std::vector<Token>& results, int depth) {
  const Token condition = Peek();
  TSR_RETURN_IF_ERROR(ParseOperand(inst.operands.emplace_back()));
  if (absl::Status s = CheckCondition(*f_, inst.operands[0]); !s.ok()) {
    return Fail(condition, std::string(s.message()), "compare with something: %p = gt %x, 0");
  }
  std::vector<TensorType> types;
  Shards shards;
  if (TakeIf(Tok::arrow)) TSR_RETURN_IF_ERROR(ParseTypeList(types, &shards));
  inst.blocks.resize(2);
  const auto block = [&](Block& b) {
    TSR_RETURN_IF_ERROR(Expect(Tok::lbrace, "'{' and a block"));
    TSR_RETURN_IF_ERROR(ParseBlock(b, false, depth + 1));
    const Instruction& yield = b.instructions.back();
    if (absl::Status s = CheckYield(*f_, "yield", yield.operands, types); !s.ok()) return FailAt(yield_, s);
    return absl::OkStatus();
  };
  TSR_RETURN_IF_ERROR(block(inst.blocks[0]));
  if (TakeWord("else")) {
    TSR_RETURN_IF_ERROR(block(inst.blocks[1]));
  } else if (!types.empty()) {
    return Expected("else", "an if with results needs both blocks");
  } else {
    inst.blocks[1].instructions.push_back({Op::k_yield, {}, {}, {}, {}, inst.loc});
  }
  return BindResults(inst, op, results, types, std::move(shards));
}

// "(%i = %i0, %a = 0.5)"; nothing where nothing is carried. The names are declared, the values made later: their types
// are not known yet.
absl::Status Parser::ParseCarried(std::vector<Token>& names, std::vector<Operand>& inits) {
  if (!TakeIf(Tok::lparen) || TakeIf(Tok::rparen)) return absl::OkStatus();
  do {
    const Token name = Peek();
    TSR_RETURN_IF_ERROR(Expect(Tok::value, "a carried value such as %i = 0"));
    TSR_RETURN_IF_ERROR(DeclareName(name));
    TSR_RETURN_IF_ERROR(Expect(Tok::equal, "'=' and the initial value"));
    names.push_back(name);
    const Token init = Peek();
    TSR_RETURN_IF_ERROR(ParseOperand(inits.emplace_back()));
    if (inits.back().kind == Operand::Kind::absent) return Fail(init, "a carried value needs an initial value");
  } while (TakeIf(Tok::comma));
  return Expect(Tok::rparen, "',' or ')'");
}

absl::Status Parser::CarriedTypes(const Token& op, const Operand* inits, size_t n, std::vector<TensorType>& types,
                                  Shards* shards) {
  if (TakeIf(Tok::arrow)) {
    TSR_RETURN_IF_ERROR(ParseTypeList(types, shards));
  } else {
    for (size_t i = 0; i < n; ++i) {
      types.push_back(OperandType(*f_, inits[i]));
      types.back().weak = false;
    }
  }
  if (absl::Status s = CheckInits(*f_, Text(op), inits, n, types); !s.ok()) return FailAt(op, s);
  return absl::OkStatus();
}

absl::Status Parser::ParseWhile(Instruction& inst, const Token& op, const std::vector<Token>& results, int depth) {
  std::vector<Token> names;
  std::vector<TensorType> types;
  Shards shards;
  TSR_RETURN_IF_ERROR(ParseCarried(names, inst.operands));
  TSR_RETURN_IF_ERROR(CarriedTypes(op, inst.operands.data(), inst.operands.size(), types, &shards));
  const size_t first = f_->values.size();
  inst.blocks.resize(2);
  for (size_t i = 0; i < names.size(); ++i) inst.blocks[0].params.push_back(NewValue(names[i], types[i]));
  inst.blocks[1].params = inst.blocks[0].params;
  TSR_RETURN_IF_ERROR(Expect(Tok::lbrace, "'{' and the condition block"));
  TSR_RETURN_IF_ERROR(ParseBlock(inst.blocks[0], false, depth + 1));
  const std::vector<Operand>& condition = inst.blocks[0].instructions.back().operands;
  if (condition.size() != 1)
    return Fail(yield_, absl::StrCat("a condition block yields one tensor<bool>, not ", condition.size(), " values"));
  if (absl::Status s = CheckCondition(*f_, condition[0]); !s.ok()) return FailAt(yield_, s);
  if (!TakeWord("do")) return Expected("do and the body of the loop");
  TSR_RETURN_IF_ERROR(Expect(Tok::lbrace, "'{' and the body of the loop"));
  TSR_RETURN_IF_ERROR(ParseBlock(inst.blocks[1], false, depth + 1));
  if (absl::Status s = CheckYield(*f_, "yield", inst.blocks[1].instructions.back().operands, types); !s.ok())
    return FailAt(yield_, s);
  for (size_t i = first; i < f_->values.size(); ++i) visible_[i] = false;
  return BindResults(inst, op, results, types, std::move(shards));
}

absl::Status Parser::ParseFor(Instruction& inst, const Token& op, const std::vector<Token>& results, int depth) {
  const Token index = Peek();
  TSR_RETURN_IF_ERROR(Expect(Tok::value, "the index of the loop", "write it as: for %i in (0, 10, 1) { ... }"));
  TSR_RETURN_IF_ERROR(DeclareName(index));
  if (!TakeWord("in")) return Expected("in", "write it as: for %i in (0, 10, 1) { ... }");
  TSR_RETURN_IF_ERROR(Expect(Tok::lparen, "'(' and start, stop, step"));
  const Token bounds = Peek();
  TSR_RETURN_IF_ERROR(ParseOperands(inst.operands, 3));
  if (inst.operands.size() == 2) inst.operands.push_back({Operand::Kind::immediate, -1, int64_t{1}});
  if (inst.operands.size() != 3)
    return Fail(bounds, "for: start and stop are needed", "write it as: for %i in (0, 10, 1) { ... }");
  if (absl::Status s = CheckBounds(*f_, inst.operands.data()); !s.ok()) return FailAt(bounds, s);
  TSR_RETURN_IF_ERROR(Expect(Tok::rparen, "')'"));
  std::vector<Token> names;
  std::vector<TensorType> types;
  Shards shards;
  TSR_RETURN_IF_ERROR(ParseCarried(names, inst.operands));
  TSR_RETURN_IF_ERROR(CarriedTypes(op, inst.operands.data() + 3, names.size(), types, &shards));
  const size_t first = f_->values.size();
  TensorType index_type;
  index_type.dtype = DType::i64;
  inst.blocks.resize(1);
  inst.blocks[0].params.push_back(NewValue(index, index_type));
  for (size_t i = 0; i < names.size(); ++i) inst.blocks[0].params.push_back(NewValue(names[i], types[i]));
  TSR_RETURN_IF_ERROR(Expect(Tok::lbrace, "'{' and the body of the loop"));
  TSR_RETURN_IF_ERROR(ParseBlock(inst.blocks[0], false, depth + 1));
  if (absl::Status s = CheckYield(*f_, "yield", inst.blocks[0].instructions.back().operands, types); !s.ok())
    return FailAt(yield_, s);
  for (size_t i = first; i < f_->values.size(); ++i) visible_[i] = false;
  return BindResults(inst, op, results, types, std::move(shards));
}

absl::Status Parser::ParseCall(Instruction& inst, const Token& op, const std::vector<Token>& results) {
  const Token name = Peek();
  TSR_RETURN_IF_ERROR(Expect(Tok::symbol, "the function to call", "calls are written: call @f(%x)"));
  const std::string callee(Text(name).substr(1));
  auto it = functions_.find(callee);
  if (it == functions_.end()) {
    TSR_RETURN_IF_ERROR(held_);
    std::vector<std::string_view> near;
    for (const auto& f : module_->functions) near.push_back(f->name);
    return Fail(name, absl::StrCat("there is no function @", callee), Suggest(callee, near, "@"));
  }
  inst.attrs.emplace_back(callee);
  TSR_RETURN_IF_ERROR(Expect(Tok::lparen, "'(' and the arguments"));
  TSR_RETURN_IF_ERROR(ParseOperands(inst.operands, std::numeric_limits<int>::max()));
  TSR_RETURN_IF_ERROR(Expect(Tok::rparen, "',' or ')'"));
  std::vector<TensorType> types;
  if (absl::Status s = InferCall(*f_, inst, *it->second, types); !s.ok()) return FailAt(name, s);
  Shards shards;
  TSR_RETURN_IF_ERROR(ParseWrittenTypes(types, op, &shards));
  return BindResults(inst, op, results, types, std::move(shards));
}

absl::Status Parser::ParseYield(Instruction& inst, const Token& op, bool is_body) {
  yield_ = op;
  if (is_body != (inst.op == Op::k_return)) {
    return Fail(op, is_body ? "yield ends a block; the body of a function ends with return"
                            : "return stands at the end of a function's body; a block ends with yield");
  }
  TSR_RETURN_IF_ERROR(ParseOperands(inst.operands, std::numeric_limits<int>::max()));
  if (!is_body) return absl::OkStatus();
  if (absl::Status s = CheckYield(*f_, "return", inst.operands, f_->results); !s.ok()) return FailAt(op, s);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Module>> Parse(std::string_view text, std::string_view file) {
  return Parser(text, file).Run();
}

}  // namespace tessera::ir
