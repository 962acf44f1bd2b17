// Kernels for CUDA devices, from LLVM IR to cubins.
//
// There are two ways down. PTX of LLVM's is assembled by nvJitLink, in a fourth of the time. But that makes code which
// others could be linked to, and there groups of warps cannot hand registers to each other (setmaxnreg): a kernel on
// tensor cores has no more than 168 for a thread. NVRTC's code can have 232. So what the schedule says goes that way,
// and what spills otherwise.
#ifndef TESSERA_TIERS_COMPILER_DEVICE_OBJECT_H_
#define TESSERA_TIERS_COMPILER_DEVICE_OBJECT_H_

#include <map>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "tiers/compiler/target/codegen.h"

namespace tessera::compiler {

/// Cubins, or PTX with a NUL at its end where that cannot be assembled here.
struct DeviceImage {
  std::string object;
  /// Of each cubin in the object; each begins at a multiple of kImageAlignment. A kernel that is in several of them is
  /// the last one's.
  std::vector<int64_t> cubins;

  bool is_cubin() const { return !cubins.empty(); }
  void Add(llvm::StringRef cubin);
  void Add(const DeviceImage& other);
};

struct DeviceOptions {
  CodegenOptions codegen;
  /// All kernels by way of CUDA C++, and not only those that ask for it.
  bool as_source = false;
};

struct DeviceObject {
  DeviceImage image;
  CodegenTimes times;
  std::map<std::string, CodeResources> code;  ///< of each kernel, where CodegenOptions::resources asks for it
};

/// The kernels of the module, which is used up. `options.codegen.cpu` is the device. Any thread, inside a CompileScope.
llvm::Expected<DeviceObject> MakeDeviceObject(llvm::Module& module, const DeviceOptions& options);

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_DEVICE_OBJECT_H_
