// Ops of tsr_tile as ops of the LLVM dialect: what the host and CUDA devices share.
#ifndef TESSERA_TIERS_COMPILER_TARGET_TILE_LOWERING_H_
#define TESSERA_TIERS_COMPILER_TARGET_TILE_LOWERING_H_

#include "llvm/ADT/StringMap.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tiers/compiler/dialects/dialects.h"

namespace tessera::compiler {

/// Kernels of a module that do the same have one function: layers of a model, for one. Gives the kernel whose function
/// is that of `kernel`, which is itself where it is the first of its kind.
class SharedCode {
 public:
  mlir::StringAttr FunctionOf(tile::KernelOp kernel);

 private:
  llvm::StringMap<mlir::StringAttr> functions_;
};

/// Whoever derives from it makes the function and its arguments, and may lower ops in a way of its own.
class TileLowering {
 public:
  TileLowering(mlir::ModuleOp module, tile::KernelOp kernel)
      : module_(module), kernel_(kernel), b_(kernel), loc_(kernel.getLoc()) {}
  virtual ~TileLowering() = default;

  /// A launch of another kernel's function takes the place of the kernel.
  void Share(mlir::StringAttr function) {
    code_ = mlir::FlatSymbolRefAttr::get(function);
    LaunchIt();
  }

 protected:
  /// Launch() as the target does it.
  virtual void LaunchIt() = 0;
  /// The body of the kernel at the end of `function`, with its arguments as `map` has them, and a return; then each op
  /// of tsr_tile in it is lowered.
  void LowerBody(mlir::LLVM::LLVMFuncOp function, mlir::IRMapping& map);
  /// The launch of the plan takes the place of the kernel.
  void Launch(mlir::IntegerAttr fixed, mlir::DenseI64ArrayAttr team);

  /// What the target lowers in its own way: the op's result, which may be null for ops without one. Nothing for ops
  /// that are lowered as everywhere.
  virtual std::optional<mlir::Value> LowerOwn(mlir::Operation*) { return std::nullopt; }
  /// The type of an element as it lies in memory, as bits where only functions understand them.
  virtual mlir::Type MemoryType(mlir::Type dtype);
  /// Narrow floats from memory and to memory.
  virtual mlir::Value FromMemory(mlir::Value bits, mlir::Type dtype, mlir::Type tile);
  virtual mlir::Value ToMemory(mlir::Value tile, mlir::Type dtype, mlir::Type bits);

  static int64_t LanesOf(mlir::Type t);
  static mlir::Type WithLanes(mlir::Type scalar, int64_t lanes);
  mlir::Value Call(llvm::StringRef function, mlir::ValueRange operands, mlir::Type result);
  /// A function of two operands.
  virtual mlir::Value Pair(llvm::StringRef function, mlir::Value x, mlir::Value y);
  mlir::Value Element(mlir::Value vector, int64_t lane);
  mlir::Value Insert(mlir::Value vector, mlir::Value scalar, int64_t lane);
  mlir::Value At(mlir::Value view, mlir::Value offset, mlir::Type memory);

  mlir::ModuleOp module_;
  tile::KernelOp kernel_;
  mlir::OpBuilder b_;
  mlir::Location loc_;
  mlir::FlatSymbolRefAttr code_;  // null: the kernel's own
  int64_t many_ = 0;              // kernels that a launch may have; 0: one

 private:
  void Lower(mlir::Operation* op);
  mlir::Value LowerLoad(tile::LoadOp load);
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_TILE_LOWERING_H_
