// What is known of a product before it is cut.
#ifndef TESSERA_TIERS_COMPILER_SCHED_FACTS_H_
#define TESSERA_TIERS_COMPILER_SCHED_FACTS_H_

#include "tiers/compiler/passes.h"
#include "tiers/compiler/sched/group.h"
#include "tiers/compiler/sched/product.h"

namespace tessera::compiler {

/// The dim that is summed up.
Dim DepthOf(mlir::Operation* product);
/// Does operand k of a product lie along the sum?
bool IsAlongSum(graph::TraceOp trace, mlir::Operation* product, unsigned k);
/// All but what follows the product: `has_more` says what is folded into it. `share`: heads that are multiplied with
/// the same matrices, if there are several.
ProductFacts FactsOf(const Group& g, graph::TraceOp trace, const CompileOptions& options, int64_t share);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_SCHED_FACTS_H_
