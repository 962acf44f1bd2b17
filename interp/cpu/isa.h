// Which instruction set the vectorised loops run with. Files named *_isa.cc are compiled once per instruction set,
// each time into a namespace of its own (tessera::cpu::neon; or base, avx2 and avx512), and export tables of function
// pointers. This header declares such a table in all of them and picks one at run time:
//
//   TSR_DECLARE_ISA(FooLoops, kFooLoops);                                // in the header, in namespace tessera::cpu
//   const FooLoops& Loops() {
//     static const FooLoops& loops = TSR_SELECT_ISA(kFooLoops);          // in an ordinary .cc
//     return loops;
//   }
//
// In the *_isa.cc, where TSR_ISA is the name of the namespace:
//
//   namespace tessera::cpu::TSR_ISA {
//   const FooLoops kFooLoops = {...};                                    // declared extern by the header
//   }
//
// All of them compute the same bits; the choice is a matter of speed.
#ifndef TESSERA_INTERP_CPU_ISA_H_
#define TESSERA_INTERP_CPU_ISA_H_

namespace tessera::cpu {

enum class Isa : unsigned char { base, neon, avx2, avx512 };

/// The widest instruction set that this machine has and this build has loops for. The environment variable
/// TESSERA_ISA (base, avx2 or avx512) asks for a narrower one; it is read once, at the first call.
Isa ActiveIsa();
/// "neon", "avx2", ...
const char* IsaName(Isa isa);

}  // namespace tessera::cpu

#if defined(__aarch64__)
#define TSR_DECLARE_ISA(type, symbol) \
  namespace neon {                    \
  extern const type symbol;           \
  }                                   \
  static_assert(true)
#define TSR_SELECT_ISA(symbol) (::tessera::cpu::neon::symbol)
#elif defined(__x86_64__)
#define TSR_DECLARE_ISA(type, symbol) \
  namespace base {                    \
  extern const type symbol;           \
  }                                   \
  namespace avx2 {                    \
  extern const type symbol;           \
  }                                   \
  namespace avx512 {                  \
  extern const type symbol;           \
  }                                   \
  static_assert(true)
#define TSR_SELECT_ISA(symbol)                                                                 \
  (::tessera::cpu::ActiveIsa() == ::tessera::cpu::Isa::avx512 ? ::tessera::cpu::avx512::symbol \
   : ::tessera::cpu::ActiveIsa() == ::tessera::cpu::Isa::avx2 ? ::tessera::cpu::avx2::symbol   \
                                                              : ::tessera::cpu::base::symbol)
#else
#define TSR_DECLARE_ISA(type, symbol) \
  namespace base {                    \
  extern const type symbol;           \
  }                                   \
  static_assert(true)
#define TSR_SELECT_ISA(symbol) (::tessera::cpu::base::symbol)
#endif

#endif  // TESSERA_INTERP_CPU_ISA_H_
