#include <cstring>

#include "ir/parser_impl.h"
#include "runtime/device.h"

namespace tessera::ir {
namespace {

// A constant of more is better kept in a file or a buffer.
constexpr int64_t kMaxConstantElements = int64_t{1} << 24;

std::string Str(std::string_view s) { return std::string(s); }

std::vector<std::string_view> DTypeNames() {
  std::vector<std::string_view> names;
  for (int i = 0; i < kNumDTypes; ++i) names.push_back(Name(static_cast<DType>(i)));
  return names;
}

std::string AllDTypes() {
  std::string all = "the dtypes are";
  for (std::string_view name : DTypeNames()) absl::StrAppend(&all, " ", Str(name));
  return all;
}

int HexDigit(char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; }

// False when it does not fit 64 bits.
bool ReadMagnitude(std::string_view digits, int base, uint64_t* out) {
  uint64_t value = 0;
  for (char c : digits) {
    if (__builtin_mul_overflow(value, static_cast<uint64_t>(base), &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(HexDigit(c)), &value))
      return false;
  }
  *out = value;
  return true;
}

}  // namespace

// ---- types

absl::Status Parser::NoDType(const Token& t) const {
  const std::string near = Suggest(Text(t), DTypeNames());
  return Fail(t, absl::StrCat("there is no dtype ", Str(Text(t))), near.empty() ? AllDTypes() : near);
}

absl::Status Parser::ParseType(TensorType& type, SymbolMode mode) {
  const size_t first = at_;
  if (!IsWord("tensor")) return Expected("a type such as tensor<B x 3 x f32>");
  Take();
  TSR_RETURN_IF_ERROR(Expect(Tok::less, "'<'", "types are written tensor<2 x 3 x f32>, scalars tensor<f32>"));
  type = TensorType();
  while (true) {
    const Token t = Peek();
    if (t.kind == Tok::name && Peek(1).kind == Tok::greater) {
      const std::optional<DType> dtype = ParseDType(Text(t));
      if (!dtype) return NoDType(t);
      Take();
      type.dtype = *dtype;
      break;
    }
    if (type.rank == kMaxRank) return Fail(t, absl::StrCat("a tensor has at most ", kMaxRank, " dims"));
    int64_t& dim = type.dims[type.rank];
    if (t.kind == Tok::integer) {
      TSR_RETURN_IF_ERROR(ParseBounded(dim, kMaxElements));
    } else if (t.kind == Tok::lparen && mode != SymbolMode::none) {
      Take();
      TSR_RETURN_IF_ERROR(ParseDims(dim, mode, 1));
      TSR_RETURN_IF_ERROR(Expect(Tok::rparen, "')'"));
    } else if (t.kind == Tok::name) {
      TSR_RETURN_IF_ERROR(ParseSymbol(dim, mode));
    } else if (t.kind == Tok::minus) {
      return Fail(t, "dims are at least 0");
    } else {
      return Expected("a dim or a dtype", "types are written tensor<2 x 3 x f32>, scalars tensor<f32>");
    }
    ++type.rank;
    if (!TakeWord("x")) {
      return Expected("x and the next dim or the dtype", "types are written tensor<2 x 3 x f32>, scalars tensor<f32>");
    }
  }
  TSR_RETURN_IF_ERROR(Expect(Tok::greater, "'>'"));
  if (absl::Status s = CheckType(f_ != nullptr ? f_->symbols.get() : nullptr, type); !s.ok())
    return FailAt(Span(source_.tokens()[first], source_.tokens()[at_ - 1]), s);
  return absl::OkStatus();
}

absl::Status Parser::ParseTypeList(std::vector<TensorType>& types, Shards* shards) {
  if (!TakeIf(Tok::lparen)) return ParseType(types.emplace_back(), SymbolMode::use);
  if (TakeIf(Tok::rparen)) return absl::OkStatus();
  do {
    TSR_RETURN_IF_ERROR(ParseType(types.emplace_back(), SymbolMode::use));
    if (shards != nullptr) TSR_RETURN_IF_ERROR(ParseShard(types.back(), types.size() - 1, shards));
  } while (TakeIf(Tok::comma));
  return Expect(Tok::rparen, "',' or ')'");
}

absl::Status Parser::ParseShard(const TensorType& type, size_t index, Shards* shards) {
  if (!TakeIf(Tok::lbrace)) return absl::OkStatus();
  if (!TakeWord("shard")) return Expected("shard", "what a type may have: {shard = \"dp,*\"}");
  TSR_RETURN_IF_ERROR(Expect(Tok::equal, "'='"));
  const Token value = Peek();
  TSR_RETURN_IF_ERROR(Expect(Tok::string, "a string"));
  std::string shard = Unescape(value);
  if (absl::Status s = CheckShard(shard, type); !s.ok()) return FailAt(value, s);
  shards->emplace_back(index, std::move(shard));
  return Expect(Tok::rbrace, "'}'");
}

// ---- dims: sums of products of numbers, symbols and parentheses; / rounds down

absl::Status Parser::ParseDims(int64_t& dim, SymbolMode mode, int depth) {
  if (depth > kMaxNesting) return Fail(Peek(), absl::StrCat("parentheses are nested more than ", kMaxNesting, " deep"));
  const Token first = Peek();
  TSR_RETURN_IF_ERROR(ParseTerm(dim, mode, depth));
  while (Is(Tok::plus) || Is(Tok::minus)) {
    const bool plus = Take().kind == Tok::plus;
    int64_t right = 0;
    TSR_RETURN_IF_ERROR(ParseTerm(right, mode, depth));
    dim = plus ? f_->symbols->Add(dim, right) : f_->symbols->Sub(dim, right);
  }
  if (dim == SymbolTable::kUnknownDim) return Fail(first, "this expression is too large");
  return absl::OkStatus();
}

absl::Status Parser::ParseTerm(int64_t& dim, SymbolMode mode, int depth) {
  TSR_RETURN_IF_ERROR(ParseFactor(dim, mode, depth));
  while (Is(Tok::star) || Is(Tok::slash)) {
    const bool times = Take().kind == Tok::star;
    const Token t = Peek();
    int64_t right = 0;
    TSR_RETURN_IF_ERROR(ParseFactor(right, mode, depth));
    if (!times && right == 0) return Fail(t, "a division by 0");
    dim = times ? f_->symbols->Mul(dim, right) : f_->symbols->FloorDiv(dim, right);
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseFactor(int64_t& dim, SymbolMode mode, int depth) {
  switch (Peek().kind) {
    case Tok::minus:
    case Tok::integer: {
      const bool negative = TakeIf(Tok::minus);
      if (!negative || Is(Tok::integer)) {
        TSR_RETURN_IF_ERROR(ParseBounded(dim, kMaxListNumber));
      } else {
        if (depth >= kMaxNesting)
          return Fail(Peek(), absl::StrCat("an expression is nested more than ", kMaxNesting, " deep"));
        TSR_RETURN_IF_ERROR(ParseFactor(dim, mode, depth + 1));
      }
      if (negative) dim = f_->symbols->Sub(0, dim);
      return absl::OkStatus();
    }
    case Tok::name: return ParseSymbol(dim, mode);
    case Tok::lparen:
      Take();
      TSR_RETURN_IF_ERROR(ParseDims(dim, mode, depth + 1));
      return Expect(Tok::rparen, "')'");
    default: return Expected("a number or a symbol");
  }
}

absl::Status Parser::ParseSymbol(int64_t& dim, SymbolMode mode) {
  const Token t = Take();
  const std::string_view name = Text(t);
  if (!IsSymbolName(name)) {
    return Fail(t, absl::StrCat(Str(name), " cannot be a symbol"),
                ParseDType(name) ? "a dtype stands last in a type: tensor<2 x f32>"
                                 : "symbols are made of letters, digits and _");
  }
  if (mode == SymbolMode::none)
    return Fail(t, "the dims of a buffer or a constant are numbers", Suggest(name, DTypeNames()));
  dim = f_->symbols->Find(name);
  if (dim != 0) return absl::OkStatus();
  if (mode == SymbolMode::declare) {
    dim = f_->symbols->Named(name);
    new_symbols_.emplace_back(t, dim);
    return absl::OkStatus();
  }
  std::vector<std::string_view> near;
  for (int i = 0; i < f_->symbols->num_named(); ++i) near.push_back(f_->symbols->named(i));
  const std::string hint = Suggest(name, near);
  return Fail(t, absl::StrCat("symbol ", Str(name), " is not a dim of a parameter"),
              hint.empty() ? "symbols get their values from the parameters' dims" : hint);
}

// ---- numbers

absl::Status Parser::ParseBounded(int64_t& value, int64_t limit) {
  const Token t = Peek();
  TSR_RETURN_IF_ERROR(Expect(Tok::integer, "an integer"));
  uint64_t magnitude;
  if (!ReadMagnitude(Text(t), 10, &magnitude) || magnitude > static_cast<uint64_t>(limit)) {
    return Fail(t, absl::StrCat("the number is too large; at most ", limit, " may stand here"));
  }
  value = static_cast<int64_t>(magnitude);
  return absl::OkStatus();
}

absl::Status Parser::ParseNumber(Number& number, Token& whole) {
  const Token first = Peek();
  number = Number();
  number.negative = TakeIf(Tok::minus);
  const Token t = Peek();
  whole = Span(first, t);
  number.text = Text(t);
  const std::string_view word = t.kind == Tok::name ? number.text : std::string_view();
  if (t.kind == Tok::integer) {
    if (!ReadMagnitude(number.text, 10, &number.magnitude))
      return Fail(whole, "the number does not fit 64 bits", "write 1e30 for a floating number");
  } else if (t.kind == Tok::real) {
    number.kind = Number::Kind::real;
  } else if ((word == "true" || word == "false") && !number.negative) {
    number.kind = Number::Kind::boolean;
    number.magnitude = word == "true";
  } else if (word == "inf") {
    number.kind = Number::Kind::inf;
  } else if (word == "nan") {
    number.kind = Number::Kind::nan;
    if (Peek(1).kind == Tok::lparen && Peek(2).kind == Tok::hex) {
      Take();
      Take();
      number.kind = Number::Kind::nan_bits;
      if (!ReadMagnitude(Text(Peek()).substr(2), 16, &number.magnitude))
        return Fail(Peek(), "the bits of a nan are at most 64");
      Take();
      whole = Span(first, Peek());
      return Expect(Tok::rparen, "')'");
    }
  } else {
    return Expected("a number", word == "True" || word == "False" ? "write true or false" : "");
  }
  Take();
  return absl::OkStatus();
}

absl::Status Parser::ParseImmediate(Immediate& immediate) {
  if (!Is(Tok::minus) && !Is(Tok::integer) && !Is(Tok::real) && !Is(Tok::name))
    return Expected("a value such as %x, or a number");
  Number number;
  Token whole;
  TSR_RETURN_IF_ERROR(ParseNumber(number, whole));
  bool ok = true;
  if (number.kind == Number::Kind::boolean) {
    immediate = number.magnitude != 0;
  } else if (number.kind == Number::Kind::integer) {
    int64_t value;
    ok = StoreElement(number, DType::i64, &value);
    if (ok) immediate = value;
  } else {
    double value;
    ok = StoreElement(number, DType::f64, &value);
    if (ok) immediate = value;
  }
  if (!ok) return Fail(whole, "the number is out of range");
  return absl::OkStatus();
}

std::string Parser::Unescape(const Token& t) const {
  std::string_view text = Text(t);
  text = text.substr(1, text.size() - 2);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    switch (text[++i]) {
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case 'r': out += '\r'; break;
      case 'x':
        out += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
        i += 2;
        break;
      default: out += text[i];
    }
  }
  return out;
}

// ---- attributes

absl::Status Parser::ParseAttrs(Instruction& inst, const Token& op) {
  const OpInfo& info = Info(inst.op);
  inst.attrs.resize(info.attrs.size());
  std::vector<Token> given(info.attrs.size());
  if (TakeIf(Tok::lbrace) && !TakeIf(Tok::rbrace)) {
    do {
      const Token name = Peek();
      TSR_RETURN_IF_ERROR(Expect(Tok::name, "the name of an attribute"));
      const int index = FindAttr(info, Text(name));
      if (index < 0) {
        std::vector<std::string_view> names;
        std::string all;
        for (const AttrSpec& spec : info.attrs) {
          names.push_back(spec.name);
          absl::StrAppend(&all, all.empty() ? "" : ", ", spec.name);
        }
        std::string hint = Suggest(Text(name), names);
        if (hint.empty())
          hint = all.empty() ? absl::StrCat(Str(info.name), " has no attributes") : absl::StrCat("it has: ", all);
        return Fail(name, absl::StrCat(Str(info.name), " has no attribute ", Str(Text(name))), hint);
      }
      if (given[index].length != 0)
        return Fail(name, absl::StrCat("attribute ", Str(Text(name)), " is given twice"), "", &given[index]);
      given[index] = name;
      TSR_RETURN_IF_ERROR(Expect(Tok::equal, "'='"));
      TSR_RETURN_IF_ERROR(ParseAttr(info.attrs[index], inst.attrs[index]));
    } while (TakeIf(Tok::comma));
    TSR_RETURN_IF_ERROR(Expect(Tok::rbrace, "',' or '}'"));
  }
  if (absl::Status s = CompleteAttrs(info, absl::MakeSpan(inst.attrs)); !s.ok()) return FailAt(op, s);
  return absl::OkStatus();
}

absl::Status Parser::ParseAttr(const AttrSpec& spec, Attr& attr) {
  const Token t = Peek();
  switch (spec.type) {
    case AttrType::t_bool:
      if (!IsWord("true") && !IsWord("false")) return Expected(absl::StrCat("true or false for ", spec.name));
      attr = Text(Take()) == "true";
      return absl::OkStatus();
    case AttrType::t_int: {
      if (!Is(Tok::integer) && !Is(Tok::minus)) return Expected(absl::StrCat("an integer for ", spec.name));
      Number number;
      Token whole;
      int64_t value;
      TSR_RETURN_IF_ERROR(ParseNumber(number, whole));
      if (!StoreElement(number, DType::i64, &value))
        return Fail(whole, absl::StrCat(spec.name, " is a 64-bit integer"));
      attr = value;
      return absl::OkStatus();
    }
    case AttrType::t_float: {
      if (!Is(Tok::integer) && !Is(Tok::minus) && !Is(Tok::real) && !IsWord("inf") && !IsWord("nan")) {
        return Expected(absl::StrCat("a number for ", spec.name));
      }
      Number number;
      Token whole;
      double value;
      TSR_RETURN_IF_ERROR(ParseNumber(number, whole));
      if (!StoreElement(number, DType::f64, &value)) return Fail(whole, "the number is out of range");
      attr = value;
      return absl::OkStatus();
    }
    case AttrType::t_dtype: {
      if (!Is(Tok::name)) return Expected(absl::StrCat("a dtype for ", spec.name));
      const std::optional<DType> dtype = ParseDType(Text(t));
      if (!dtype) return NoDType(t);
      Take();
      attr = *dtype;
      return absl::OkStatus();
    }
    case AttrType::t_str:
      if (!Is(Tok::string)) return Expected(absl::StrCat("a string for ", spec.name), "strings stand in double quotes");
      Take();
      attr = Unescape(t);
      return absl::OkStatus();
    case AttrType::t_ints: {
      Ints ints;
      TSR_RETURN_IF_ERROR(ParseInts(spec, ints));
      attr = std::move(ints);
      return absl::OkStatus();
    }
    case AttrType::t_tensor: {
      rt::Ref<rt::TensorImpl> tensor;
      TSR_RETURN_IF_ERROR(ParseTensor(tensor));
      attr = std::move(tensor);
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseInts(const AttrSpec& spec, Ints& ints) {
  TSR_RETURN_IF_ERROR(Expect(Tok::lbracket, absl::StrCat("a list such as [0, 1] for ", spec.name)));
  if (TakeIf(Tok::rbracket)) return absl::OkStatus();
  do {
    const size_t first = at_;
    int64_t value = 0;
    TSR_RETURN_IF_ERROR(ParseDims(value, SymbolMode::use, 0));
    const Token span = Span(source_.tokens()[first], source_.tokens()[at_ - 1]);
    if (IsSymbol(value) && !TakesSymbols(spec)) {
      return Fail(span, absl::StrCat(spec.name, " takes numbers; a symbol stands for a dim"));
    }
    if (!IsSymbol(value) && (value > kMaxListNumber || value < -kMaxListNumber))
      return Fail(span, "the number is too large");
    ints.push_back(value);
  } while (TakeIf(Tok::comma));
  return Expect(Tok::rbracket, "',' or ']'");
}

absl::Status Parser::ParseTensor(rt::Ref<rt::TensorImpl>& tensor) {
  const size_t first = at_;
  TensorType type;
  TSR_RETURN_IF_ERROR(ParseType(type, SymbolMode::none));
  const Token span = Span(source_.tokens()[first], source_.tokens()[at_ - 1]);
  const int64_t n = type.size();
  if (n > kMaxConstantElements) {
    return Fail(span, absl::StrCat("a constant has at most ", kMaxConstantElements, " elements"),
                "use a buffer or a parameter");
  }
  TSR_RETURN_IF_ERROR(Expect(Tok::lbracket, "'[' and the elements", "a constant is written tensor<2 x f32>[1.0, 2.5]"));
  const size_t bytes = SizeOf(type.dtype);
  std::vector<char> data;
  int64_t count = 0;
  if (!Is(Tok::rbracket)) {
    do {
      Number number;
      Token whole;
      TSR_RETURN_IF_ERROR(ParseNumber(number, whole));
      if (++count > n) break;
      data.resize(data.size() + bytes);
      if (!StoreElement(number, type.dtype, data.data() + data.size() - bytes)) {
        return Fail(whole, absl::StrCat(Str(Name(type.dtype)), " cannot hold ", Str(Text(whole))));
      }
    } while (TakeIf(Tok::comma));
  }
  if (count != n) {
    return Fail(Peek(),
                absl::StrCat(TypeText(nullptr, type), " has ", n, n == 1 ? " element" : " elements", ", and ",
                             count > n ? "more" : absl::StrCat(count), count == 1 && n > 0 ? " is" : " are", " given"));
  }
  TSR_RETURN_IF_ERROR(Expect(Tok::rbracket, "',' or ']'"));
  absl::StatusOr<rt::Ref<rt::TensorImpl>> made = rt::TensorImpl::Make(rt::Cpu(), type);
  if (!made.ok()) return FailAt(span, made.status());
  if (!data.empty()) std::memcpy((*made)->data, data.data(), data.size());
  tensor = *std::move(made);
  return absl::OkStatus();
}

}  // namespace tessera::ir
