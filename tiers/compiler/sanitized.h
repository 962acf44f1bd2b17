// Included first by every file that is compiled with the address sanitizer and uses LLVM. LLVM's arenas poison what
// they have not given out yet, and that in inline functions: our copies would poison what the distribution's archives,
// which were built without the sanitizer, give out without saying so. So nobody poisons LLVM's arenas.
#ifndef TESSERA_TIERS_COMPILER_SANITIZED_H_
#define TESSERA_TIERS_COMPILER_SANITIZED_H_

#include "llvm/Support/Compiler.h"

// (A file may be left out of it: then there is nothing to take back.)
#if __has_feature(address_sanitizer)
#undef LLVM_ADDRESS_SANITIZER_BUILD
#define LLVM_ADDRESS_SANITIZER_BUILD 0
#define __asan_poison_memory_region(address, size)
#define __asan_unpoison_memory_region(address, size)
// Every header of LLVM that does so.
#include "llvm/ADT/FunctionExtras.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/ArrayRecycler.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Recycler.h"
#undef __asan_poison_memory_region
#undef __asan_unpoison_memory_region
#endif

#endif  // TESSERA_TIERS_COMPILER_SANITIZED_H_
