// The slow code of ops that have some (sin of large arguments, fmod of distant ones). It is part of the library, so
// that kernels need not compile it; the loader resolves it by name.
//
//   tsr_<op>_<dtype>__repair(y, operands..., n)   computes those of n elements for which __rest holds, and leaves the
//                                                 others as they are
//
// Compiled by clang whatever compiles the rest: on arm64 the functions save all registers from v8 up, so that the loop
// that calls one, on a path that is hardly ever taken, keeps its constants where they are. (On x86-64 that would need
// code for each width of register.)
#ifndef TESSERA_TIERS_COMPILER_TARGET_REPAIR_H_
#define TESSERA_TIERS_COMPILER_TARGET_REPAIR_H_

#if defined(__aarch64__) && defined(__clang__)
#define TSR_REPAIR_CC extern "C" __attribute__((noinline, cold, preserve_all))
#else
#define TSR_REPAIR_CC extern "C" __attribute__((noinline, cold))
#endif

struct TsrRepair {
  const char* name;
  void* address;
};

/// All of them; the last has no name. The functions may only be called from code that knows their convention.
extern "C" __attribute__((visibility("hidden"))) const TsrRepair tsr_repair_table[];

#endif  // TESSERA_TIERS_COMPILER_TARGET_REPAIR_H_
