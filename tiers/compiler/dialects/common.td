// What the four dialects share.
#ifndef TESSERA_COMMON_TD
#define TESSERA_COMMON_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"

// In assembly [[0, 1], []]: custom<Lists> of assembly.h.
def Tsr_Lists : TypedArrayAttrBase<DenseI64ArrayAttr, "array of lists of numbers">;

def Tsr_Pointer : Type<CPred<"::mlir::isa<::mlir::LLVM::LLVMPointerType>($_self)">, "pointer">,
                  BuildableType<"::mlir::LLVM::LLVMPointerType::get($_builder.getContext())">;

// Values get names that tell which value of the trace they are.
def Tsr_NamesResults : DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>;
def Tsr_NamesArguments : DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>;
def Tsr_NamesBoth
    : DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames", "getAsmBlockArgumentNames"]>;

#endif
