#include "tiers/compiler/dialects/assembly.h"

#include <cstdint>
#include <limits>
#include <string>

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

constexpr int32_t kEnd = std::numeric_limits<int32_t>::max();
using Delimiter = OpAsmParser::Delimiter;

// [1, 2]; with `end`, the word for the largest number.
ParseResult ParseIds(OpAsmParser& parser, StringRef name, bool end, NamedAttrList& attrs) {
  SmallVector<int32_t> ids;
  auto one = [&]() -> ParseResult {
    ids.push_back(kEnd);
    if (end && succeeded(parser.parseOptionalKeyword("end"))) return success();
    return parser.parseInteger(ids.back());
  };
  if (parser.parseCommaSeparatedList(Delimiter::Square, one)) return failure();
  attrs.set(name, parser.getBuilder().getDenseI32ArrayAttr(ids));
  return success();
}

void PrintIds(OpAsmPrinter& printer, DenseI32ArrayAttr ids, bool end) {
  printer << '[';
  llvm::interleaveComma(ids.asArrayRef(), printer, [&](int32_t id) {
    if (end && id == kEnd)
      printer << "end";
    else
      printer << id;
  });
  printer << ']';
}

bool IsStep(OperationName name) { return name.getStringRef() == "tsr_graph.step"; }

}  // namespace

ParseResult parseLists(OpAsmParser& parser, ArrayAttr& lists) {
  SmallVector<Attribute> all;
  auto list = [&]() -> ParseResult {
    SmallVector<int64_t> numbers;
    auto number = [&] { return parser.parseInteger(numbers.emplace_back()); };
    if (parser.parseCommaSeparatedList(Delimiter::Square, number)) return failure();
    all.push_back(parser.getBuilder().getDenseI64ArrayAttr(numbers));
    return success();
  };
  if (parser.parseCommaSeparatedList(Delimiter::Square, list)) return failure();
  lists = parser.getBuilder().getArrayAttr(all);
  return success();
}

void printLists(OpAsmPrinter& printer, Operation*, ArrayAttr lists) {
  printer << '[';
  llvm::interleaveComma(lists, printer, [&](Attribute list) {
    printer << '[';
    llvm::interleaveComma(cast<DenseI64ArrayAttr>(list).asArrayRef(), printer);
    printer << ']';
  });
  printer << ']';
}

ParseResult parseBody(OpAsmParser& parser, Region& body) {
  SmallVector<OpAsmParser::Argument> arguments;
  if (parser.parseArgumentList(arguments, Delimiter::Paren, /*allowType=*/true) || parser.parseRegion(body, arguments))
    return failure();
  if (body.empty()) body.emplaceBlock();
  return success();
}

void printBody(OpAsmPrinter& printer, Operation*, Region& body) {
  printer << '(';
  llvm::interleaveComma(body.getArguments(), printer, [&](BlockArgument a) { printer.printRegionArgument(a); });
  printer << ") ";
  printer.printRegion(body, /*printEntryBlockArgs=*/false);
}

ParseResult parseKernel(OpAsmParser& parser, SmallVectorImpl<OpAsmParser::UnresolvedOperand>& operands,
                        SmallVectorImpl<Type>& types, SmallVectorImpl<Type>& results, Region& body) {
  SmallVector<OpAsmParser::Argument> arguments;
  auto one = [&]() -> ParseResult {
    OpAsmParser::Argument& argument = arguments.emplace_back();
    if (parser.parseArgument(argument) || parser.parseEqual() || parser.parseOperand(operands.emplace_back()) ||
        parser.parseColonType(argument.type))
      return failure();
    types.push_back(argument.type);
    return success();
  };
  auto result = [&] { return parser.parseType(results.emplace_back()); };
  return failure(parser.parseCommaSeparatedList(Delimiter::Paren, one) || parser.parseArrow() ||
                 parser.parseCommaSeparatedList(Delimiter::Paren, result) || parser.parseRegion(body, arguments));
}

void printKernel(OpAsmPrinter& printer, Operation*, OperandRange operands, TypeRange, TypeRange results, Region& body) {
  printer << '(';
  llvm::interleaveComma(llvm::zip(body.getArguments(), operands), printer, [&](auto pair) {
    auto [argument, operand] = pair;
    printer << argument << " = " << operand << " : " << operand.getType();
  });
  printer << ") -> (" << results << ") ";
  printer.printRegion(body, /*printEntryBlockArgs=*/false);
}

ParseResult parseWords(OpAsmParser& parser, const Unresolved& sums, const Unresolved& right, const Unresolved& left,
                       SmallVectorImpl<Type>& sum_types, SmallVectorImpl<Type>& right_types,
                       SmallVectorImpl<Type>& left_types, SmallVectorImpl<Type>& results) {
  Type words;
  if (parser.parseType(words)) return failure();
  Builder& b = parser.getBuilder();
  sum_types.assign(sums.size(), VectorType::get({4}, b.getF32Type()));
  right_types.assign(right.size(), words);
  left_types.assign(left.size(), VectorType::get({4}, b.getI32Type()));
  results.assign(sums.size(), VectorType::get({4}, b.getF32Type()));
  return success();
}

void printWords(OpAsmPrinter& printer, Operation*, OperandRange, OperandRange, OperandRange, TypeRange,
                TypeRange right_types, TypeRange, TypeRange) {
  printer << right_types.front();
}

ParseResult parseTracedOp(OpAsmParser& parser, OperationState& result) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  FunctionType type;
  NamedAttrList& attrs = result.attributes;
  if (IsStep(result.name)) {
    StringAttr kind;
    if (parser.parseAttribute(kind, "kind", attrs)) return failure();
  }
  if (parser.parseOperandList(operands)) return failure();
  if (succeeded(parser.parseOptionalKeyword("step"))) {
    int32_t step = 0;
    if (parser.parseInteger(step)) return failure();
    attrs.set("step", parser.getBuilder().getI32IntegerAttr(step));
  }
  for (const char* name : {"values", "until"})
    if (succeeded(parser.parseOptionalKeyword(name)) && ParseIds(parser, name, name[0] == 'u', attrs)) return failure();
  const SMLoc at = parser.getCurrentLocation();
  if (parser.parseOptionalAttrDict(attrs) || parser.parseColonType(type)) return failure();
  result.addTypes(type.getResults());
  return parser.resolveOperands(operands, type.getInputs(), at, result.operands);
}

void printTracedOp(OpAsmPrinter& printer, Operation* op) {
  SmallVector<StringRef> said;
  if (IsStep(op->getName())) {
    printer << ' ' << op->getAttr("kind");
    said.push_back("kind");
  }
  if (op->getNumOperands() > 0) printer << ' ' << op->getOperands();
  if (auto step = op->getAttrOfType<IntegerAttr>("step")) {
    printer << " step " << step.getInt();
    said.push_back("step");
  }
  for (StringRef name : {"values", "until"}) {
    if (auto ids = op->getAttrOfType<DenseI32ArrayAttr>(name)) {
      printer << ' ' << name << ' ';
      PrintIds(printer, ids, name == "until");
      said.push_back(name);
    }
  }
  printer.printOptionalAttrDict(op->getAttrs(), said);
  printer << " : ";
  printer.printFunctionalType(op);
}

void NameResults(Operation* op, StringRef attribute, OpAsmSetValueNameFn set) {
  auto ids = op->getAttrOfType<DenseI32ArrayAttr>(attribute);
  if (!ids) return;
  for (auto [result, id] : llvm::zip(op->getResults(), ids.asArrayRef())) set(result, "v" + std::to_string(id));
}

}  // namespace tessera::compiler
