// The parser's state, shared by parser.cc (modules, functions, instructions, blocks) and parser_values.cc (types, dims,
// attributes, literals). Nobody else includes it; the entry point is Parse() in ir/function.h.
#ifndef TESSERA_IR_PARSER_IMPL_H_
#define TESSERA_IR_PARSER_IMPL_H_

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ir/lexer.h"
#include "ir/literal.h"
#include "ir/typing.h"

namespace tessera::ir {

/// Recursive descent over the tokens, in two passes: signatures first, so that calls may refer forward, then bodies.
/// Instructions are checked as they are read, so that a message points at the place; the first error ends it.
class Parser {
 public:
  Parser(std::string_view text, std::string_view file);
  absl::StatusOr<std::unique_ptr<Module>> Run();

 private:
  // How names in dims are taken: a parameter's type makes symbols, a body uses them, a buffer has none.
  enum class SymbolMode { declare, use, none };

  /// Which result has which.
  using Shards = std::vector<std::pair<size_t, std::string>>;

  struct FunctionText {
    Function* function;
    size_t body;  // index of the token after {
    std::vector<std::pair<Token, ValueId>> params;
  };
  struct Definition {
    ValueId id;  // -1 while the instruction that defines it is being read
    Token token;
  };

  // ---- parser.cc
  absl::Status ScanTopLevel();
  absl::Status ParseBuffer();
  absl::Status ParseSignature();
  absl::Status ParseParam(FunctionText& text);
  absl::Status ParseFacts();
  absl::Status SkipBody();
  absl::Status ParseBody(const FunctionText& text);
  absl::Status ParseBlock(Block& block, bool is_body, int depth);
  absl::Status ParseInstruction(Block& block, bool is_body, int depth, bool* last);
  absl::Status ParseGeneric(Instruction& inst, const Token& op, const std::vector<Token>& results);
  absl::Status ParseIf(Instruction& inst, const Token& op, const std::vector<Token>& results, int depth);
  absl::Status ParseWhile(Instruction& inst, const Token& op, const std::vector<Token>& results, int depth);
  absl::Status ParseFor(Instruction& inst, const Token& op, const std::vector<Token>& results, int depth);
  absl::Status ParseCall(Instruction& inst, const Token& op, const std::vector<Token>& results);
  absl::Status ParseYield(Instruction& inst, const Token& op, bool is_body);
  absl::Status ParseCarried(std::vector<Token>& names, std::vector<Operand>& inits);
  absl::Status CarriedTypes(const Token& op, const Operand* inits, size_t n, std::vector<TensorType>& types,
                            Shards* shards);
  absl::Status ParseOperand(Operand& operand);
  absl::Status ParseOperands(std::vector<Operand>& operands, int most);
  absl::Status ParseWrittenTypes(std::vector<TensorType>& inferred, const Token& op, Shards* shards);
  absl::Status ParseTuning();
  absl::Status FindValue(const Token& t, ValueId* id);
  absl::Status DeclareName(const Token& t);
  ValueId NewValue(const Token& name, const TensorType& type);
  absl::Status BindResults(Instruction& inst, const Token& op, const std::vector<Token>& names,
                           const std::vector<TensorType>& types, Shards shards = {});

  // ---- parser_values.cc
  absl::Status NoDType(const Token& t) const;
  absl::Status ParseType(TensorType& type, SymbolMode mode);
  /// `shards` as in ParseShard(); null where types have none.
  absl::Status ParseTypeList(std::vector<TensorType>& types, Shards* shards = nullptr);
  /// "{shard = "dp,*"}" after the type of result `index`; nothing where it is not there.
  absl::Status ParseShard(const TensorType& type, size_t index, Shards* shards);
  absl::Status ParseDims(int64_t& dim, SymbolMode mode, int depth);
  absl::Status ParseTerm(int64_t& dim, SymbolMode mode, int depth);
  absl::Status ParseFactor(int64_t& dim, SymbolMode mode, int depth);
  absl::Status ParseSymbol(int64_t& dim, SymbolMode mode);
  absl::Status ParseAttrs(Instruction& inst, const Token& op);
  absl::Status ParseAttr(const AttrSpec& spec, Attr& attr);
  absl::Status ParseInts(const AttrSpec& spec, Ints& ints);
  absl::Status ParseTensor(rt::Ref<rt::TensorImpl>& tensor);
  absl::Status ParseNumber(Number& number, Token& whole);
  absl::Status ParseImmediate(Immediate& immediate);
  absl::Status ParseBounded(int64_t& value, int64_t limit);
  std::string Unescape(const Token& t) const;

  // ---- tokens
  const Token& Peek(size_t ahead = 0) const {
    const auto& tokens = source_.tokens();
    return tokens[std::min(at_ + ahead, tokens.size() - 1)];
  }
  const Token& Take() {
    const Token& t = Peek();
    if (at_ + 1 < source_.tokens().size()) ++at_;
    return t;
  }
  std::string_view Text(const Token& t) const { return source_.Text(t); }
  bool Is(Tok kind) const { return Peek().kind == kind; }
  bool IsWord(std::string_view word) const { return Is(Tok::name) && Text(Peek()) == word; }
  bool TakeIf(Tok kind) {
    if (!Is(kind)) return false;
    Take();
    return true;
  }
  bool TakeWord(std::string_view word) {
    if (!IsWord(word)) return false;
    Take();
    return true;
  }
  /// "expected ..., got ..." at the next token.
  absl::Status Expected(std::string_view what, std::string_view hint = "") const;
  absl::Status Expect(Tok kind, std::string_view what, std::string_view hint = "");
  absl::Status Fail(const Token& t, std::string_view message, std::string_view hint = "",
                    const Token* first = nullptr) const;
  absl::Status FailAt(const Token& t, const absl::Status& status) const;
  /// "did you mean X?" or nothing; `prefix` stands before X.
  std::string Suggest(std::string_view name, const std::vector<std::string_view>& names,
                      std::string_view prefix = "") const;

  Source source_;
  size_t at_ = 0;
  std::unique_ptr<Module> module_;
  std::vector<FunctionText> texts_;
  absl::flat_hash_map<std::string, Token> function_tokens_, buffer_tokens_;
  absl::flat_hash_map<std::string, const Function*> functions_;
  absl::flat_hash_map<std::string, size_t> buffers_;
  absl::Status held_;  // of the first pass; reported unless a body before it has an error

  // of the function being read
  Function* f_ = nullptr;
  absl::flat_hash_map<std::string, Definition> values_;
  std::vector<bool> visible_;                           // by ValueId
  Token yield_{};                                       // of the block read last
  std::vector<std::pair<Token, int64_t>> new_symbols_;  // where a parameter's type first names each
};

}  // namespace tessera::ir

#endif  // TESSERA_IR_PARSER_IMPL_H_
