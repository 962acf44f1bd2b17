// The checks that the parser, the builder and the verifier share, so that all three accept the same programs with the
// same words. Messages name the op and carry no location: the caller has it.
#ifndef TESSERA_IR_TYPING_H_
#define TESSERA_IR_TYPING_H_

#include <string>
#include <string_view>
#include <vector>

#include "ir/function.h"

namespace tessera::ir {

/// Blocks within blocks; parentheses within parentheses.
inline constexpr int kMaxNesting = 200;
/// Elements of one tensor, dims of 0 and symbols not counted.
inline constexpr int64_t kMaxElements = int64_t{1} << 62;
/// Numbers in a list attribute, in either direction; beyond it they would be symbols.
inline constexpr int64_t kMaxListNumber = int64_t{1} << 60;

/// A letter or _, then letters, digits, _ and dots: a value, function or buffer. Values may not be `_` alone.
bool IsName(std::string_view text);
/// A letter or _, then letters, digits and _; neither a dtype nor `x`, which separates dims.
bool IsSymbolName(std::string_view text);

/// May the elements of that list attribute be symbols: they stand for dims.
bool TakesSymbols(const AttrSpec& spec);

std::string_view PrivilegeName(Privilege privilege);

TensorType ImmediateType(const Immediate& immediate);
/// Not for absent operands.
TensorType OperandType(const Function& function, const Operand& operand);

/// "tensor<B x 3 x f32>"
std::string TypeText(const SymbolTable* symbols, const TensorType& type);
/// Equal dtypes and ranks, dims equal or known to be.
bool SameType(SymbolTable* symbols, const TensorType& a, const TensorType& b);
/// SameType, or a number beside a scalar of its kind or a higher one.
bool Accepts(const Function& function, const TensorType& want, const Operand& given);
/// "tensor<f32>" or "the number 0.5".
std::string Describe(const Function& function, const Operand& operand);

/// Rank, dims and element count within bounds, symbols of this table.
absl::Status CheckType(const SymbolTable* symbols, const TensorType& type);
/// One entry for each dim, each * or a mesh axis with its number of devices where that is known (dp, dp:4); an axis
/// stands once, and a dim that is a number is a multiple of its devices.
absl::Status CheckShard(std::string_view shard, const TensorType& type);
/// Those of values: of values that there are and that are no parameters; and an axis has one size in all of them.
absl::Status CheckShards(const Function& function);
/// Every symbol is the dim of a parameter, so that a call gives it a value.
absl::Status CheckSymbolsBound(const Function& function);

/// The types of the results of an op that is not control flow. `buffer` is the one it names, for buffer ops.
absl::Status InferOp(const Function& function, const Instruction& instruction, const Buffer* buffer,
                     std::vector<TensorType>& out);
/// The same for a call: binds the callee's symbols to the caller's dims.
absl::Status InferCall(const Function& caller, const Instruction& instruction, const Function& callee,
                       std::vector<TensorType>& out);
/// The condition of an `if`, and what a while's condition block yields.
absl::Status CheckCondition(const Function& function, const Operand& condition);
/// start, stop and step of a `for`.
absl::Status CheckBounds(const Function& function, const Operand* bounds);
/// What a block or function ends with, against what it must give. `what` is "yield" or "return".
absl::Status CheckYield(const Function& function, std::string_view what, const std::vector<Operand>& given,
                        const std::vector<TensorType>& want);
/// The initial values of a loop against the types it carries.
absl::Status CheckInits(const Function& function, std::string_view op, const Operand* given, size_t n,
                        const std::vector<TensorType>& want);

}  // namespace tessera::ir

#endif  // TESSERA_IR_TYPING_H_
