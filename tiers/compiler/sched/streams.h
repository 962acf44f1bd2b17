// Results that are written past the caches.
#ifndef TESSERA_TIERS_COMPILER_SCHED_STREAMS_H_
#define TESSERA_TIERS_COMPILER_SCHED_STREAMS_H_

#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/passes.h"

namespace tessera::compiler {

/// A processor that writes to a line reads it first, and puts something else out of the caches for it. Stores that go
/// past them do neither: a chain that reads one large matrix and writes one moves two thirds of the bytes. But who
/// reads the results next does so from memory. So this is for results that would not be in a cache by then, as far as
/// sizes were seen, on x86 (elsewhere processors see by themselves that whole lines are written), and for kernels of
/// element-wise ops: others read again what they have written.
bool Streams(sched::KernelOp kernel, graph::TraceOp trace, const CompileOptions& options);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_SCHED_STREAMS_H_
