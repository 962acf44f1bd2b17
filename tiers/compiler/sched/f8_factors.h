// Factors of a matrix product that are f8, as programs write them: cast to bf16 for the product, with or without
// scales.
#ifndef TESSERA_TIERS_COMPILER_SCHED_F8_FACTORS_H_
#define TESSERA_TIERS_COMPILER_SCHED_F8_FACTORS_H_

#include <array>

#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/passes.h"

namespace tessera::compiler {

constexpr int64_t kScaleBlock = 128;

/// Numbers that blocks of a factor are multiplied with: of kScaleBlock elements along the sum, and of one row or
/// kScaleBlock rows of the factor.
struct BlockScales {
  mlir::Value values;  // f32; null: none
  int64_t rows = 1;    // of a block
  int64_t outer = 0;   // dims of batches that they have: the first ones, aligned at the right end of the factor's
  int64_t row = -1;    // the dim along which there is one for each (block of) rows; -1: all have the same
  int64_t along = -1;  // and one for each block along the sum; all others are 1
};

/// What tensor cores multiply in place of the operands of a product.
struct F8Factors {
  llvm::SmallVector<mlir::Value, 2> narrow;    // empty: there are no such factors
  std::array<BlockScales, 2> scales;           // at most of both
  llvm::SmallVector<mlir::Operation*, 8> ops;  // what nobody needs then; users come before what they use

  bool HasScales() const { return scales[0].values || scales[1].values; }
};

/// The factors of a product of sm_90a that are f8 along the sum, where nothing stands between them and the product that
/// may leave the trace, and no other product.
F8Factors F8FactorsOf(graph::TraceOp trace, mlir::Operation* product, const CompileOptions& options);

/// Makes them the operands. Those of a product with scales are its factors, then the scales, of which its attribute
/// `scales` has the rest: for each factor the number of the operand (-1: none), rows, outer, row and along.
void SetFactors(mlir::Operation* product, const F8Factors& factors);
/// The scales of a factor of such a product.
BlockScales ScalesOf(mlir::Operation* product, unsigned factor);
bool HasScales(mlir::Operation* product);

/// Nothing, or what is wrong with the scales of a product.
const char* WrongScales(mlir::Operation* product);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_SCHED_F8_FACTORS_H_
