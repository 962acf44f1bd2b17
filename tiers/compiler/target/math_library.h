// The bitcode of math_functions.cc, which the library carries.
#ifndef TESSERA_TIERS_COMPILER_TARGET_MATH_LIBRARY_H_
#define TESSERA_TIERS_COMPILER_TARGET_MATH_LIBRARY_H_

#include <string_view>

namespace tessera::compiler {

/// Aligned to 16 bytes; there for the life of the process.
std::string_view MathBitcode();
/// The same source compiled for CUDA devices.
std::string_view DeviceMathBitcode();

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_MATH_LIBRARY_H_
