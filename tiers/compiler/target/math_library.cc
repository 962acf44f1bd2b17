#include "tiers/compiler/target/math_library.h"

#define TSR_CARRY(name, file)            \
  __asm__(".pushsection .rodata." #name  \
          ",\"a\"\n"                     \
          ".balign 16\n"                 \
          ".hidden " #name               \
          "_begin\n"                     \
          ".hidden " #name               \
          "_end\n"                       \
          ".globl " #name                \
          "_begin\n"                     \
          ".globl " #name "_end\n" #name \
          "_begin:\n"                    \
          ".incbin \"" file "\"\n" #name \
          "_end:\n"                      \
          ".popsection\n");              \
  extern "C" {                           \
  extern const char name##_begin[];      \
  extern const char name##_end[];        \
  }

TSR_CARRY(tessera_math_bitcode, TESSERA_MATH_BITCODE)
TSR_CARRY(tessera_device_math_bitcode, TESSERA_DEVICE_MATH_BITCODE)

namespace tessera::compiler {

std::string_view MathBitcode() {
  return std::string_view(tessera_math_bitcode_begin,
                          static_cast<size_t>(tessera_math_bitcode_end - tessera_math_bitcode_begin));
}

std::string_view DeviceMathBitcode() {
  return std::string_view(tessera_device_math_bitcode_begin,
                          static_cast<size_t>(tessera_device_math_bitcode_end - tessera_device_math_bitcode_begin));
}

}  // namespace tessera::compiler
