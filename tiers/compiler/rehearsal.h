// What the compiler makes when it rehearses (tiers/compiler.h).
#ifndef TESSERA_TIERS_COMPILER_REHEARSAL_H_
#define TESSERA_TIERS_COMPILER_REHEARSAL_H_

namespace tessera::compiler {

/// A product with a sum after it: the code for tensor cores takes most parts of the compiler and of the assembler. More
/// would only be longer, and what the program asks for waits until it is made.
inline constexpr char kRehearsal[] = R"(
!x = tensor<?x1024xbf16, [0, -1]>
!row = tensor<1024xbf16>
!w = tensor<1024x1024xbf16>
tsr_graph.trace "rehearsal" values [0, 1, 2] strides [[], [], []] likely [4096] (%v0: !x, %v1: !w, %v2: !row) {
  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] : (!x, !w) -> !x
  %v4 = tsr_graph.add %v3, %v2 step 1 values [4] until [end] : (!x, !row) -> !x
}
)";

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_REHEARSAL_H_
