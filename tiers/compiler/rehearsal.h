// What the compiler makes when it rehearses (tiers/compiler.h).
#ifndef TESSERA_TIERS_COMPILER_REHEARSAL_H_
#define TESSERA_TIERS_COMPILER_REHEARSAL_H_

namespace tessera::compiler {

/// A product with rows before it and something after it, as in most models: kernels of both kinds.
inline constexpr char kRehearsal[] = R"(
!x = tensor<?x1024xbf16, [0, -1]>
!row = tensor<1024xbf16>
!w = tensor<1024x1024xbf16>
tsr_graph.trace "rehearsal" values [0, 1, 2] strides [[], [], []] likely [4096] (%v0: !x, %v1: !w, %v2: !row) {
  %v3 = tsr_graph.layer_norm %v0, %v2, %v2 step 0 values [3] until [0] {axis = -1 : i64} : (!x, !row, !row) -> !x
  %v4 = tsr_graph.matmul %v3, %v1 step 1 values [4] until [1] : (!x, !w) -> !x
  %v5 = tsr_graph.add %v4, %v2 step 2 values [5] until [2] : (!x, !row) -> !x
  %v6 = tsr_graph.gelu %v5 step 3 values [6] until [end] : (!x) -> !x
}
)";

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_REHEARSAL_H_
