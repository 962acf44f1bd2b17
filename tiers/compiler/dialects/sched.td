// tsr_sched: which ops are computed together, and how.
#ifndef TESSERA_SCHED_TD
#define TESSERA_SCHED_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def TsrSched_Dialect : Dialect {
  let name = "tsr_sched";
  let cppNamespace = "::tessera::compiler::sched";
  let summary = "Kernels: ops of the trace that are computed together";
}

def TsrSched_KernelOp : Op<TsrSched_Dialect, "kernel", [IsolatedFromAbove, SingleBlock]> {
  let summary = "Ops that become one kernel, with their schedule";
  let description = [{
    The body holds tsr_graph ops; its block arguments are the operands, its yield names what is written to memory.

    - `position`: the step of the trace at which it runs; `steps`: those that it takes the place of
    - `inputs`, `outputs`: ids of the values that are its operands and results
    - `strides`: what is known of each operand's strides (as tsr.strides in tsr_graph); empty: row-major
    - `row`: how many trailing dims of the iteration space are one row, which one thread does in passes; 0: no reduction
    - `lanes`: elements of a vector; `grain`: elements that are worth a thread

    ```mlir
    %y = "tsr_sched.kernel"(%x, %b) ({
    ^bb0(%x: tensor<8x16xf32>, %b: tensor<16xf32>):
      %0 = "tsr_graph.add"(%x, %b) : ...
      %1 = "tsr_graph.gelu"(%0) : ...
      "tsr_sched.yield"(%1) : ...
    }) {position = 4 : i32, steps = array<i32: 3, 4>, ...} : ...
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$operands, StrAttr:$name, I32Attr:$position, DenseI32ArrayAttr:$steps,
                       DenseI32ArrayAttr:$inputs, DenseI32ArrayAttr:$outputs, ArrayAttr:$strides, I64Attr:$row,
                       I64Attr:$lanes, I64Attr:$grain);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
}

def TsrSched_YieldOp : Op<TsrSched_Dialect, "yield", [Pure, Terminator, ParentOneOf<["KernelOp"]>]> {
  let summary = "The values that a kernel writes to memory";
  let description = [{
    ```mlir
    "tsr_sched.yield"(%y) : (tensor<8x16xf32>) -> ()
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
}

#endif
