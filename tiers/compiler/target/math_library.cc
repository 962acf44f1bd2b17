#include "tiers/compiler/target/math_library.h"

__asm__(
    ".pushsection .rodata.tessera_math_bitcode,\"a\"\n"
    ".balign 16\n"
    ".hidden tessera_math_bitcode_begin\n"
    ".hidden tessera_math_bitcode_end\n"
    ".globl tessera_math_bitcode_begin\n"
    ".globl tessera_math_bitcode_end\n"
    "tessera_math_bitcode_begin:\n"
    ".incbin \"" TESSERA_MATH_BITCODE
    "\"\n"
    "tessera_math_bitcode_end:\n"
    ".popsection\n");

extern "C" {
extern const char tessera_math_bitcode_begin[];
extern const char tessera_math_bitcode_end[];
}

namespace tessera::compiler {

std::string_view MathBitcode() {
  return std::string_view(tessera_math_bitcode_begin,
                          static_cast<size_t>(tessera_math_bitcode_end - tessera_math_bitcode_begin));
}

}  // namespace tessera::compiler
