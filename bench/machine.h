#ifndef TESSERA_BENCH_MACHINE_H_
#define TESSERA_BENCH_MACHINE_H_

#include <string>

namespace bench {

/// What the figures were measured on, as a JSON object: processor, cores, instruction set, system, compiler, and how
/// busy the machine is now.
std::string MachineJson();

/// Cores that this process may run on.
int Cores();

}  // namespace bench

#endif  // TESSERA_BENCH_MACHINE_H_
