// tsr_sched: which ops are computed together, and how.
#ifndef TESSERA_SCHED_TD
#define TESSERA_SCHED_TD

include "common.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def TsrSched_Dialect : Dialect {
  let name = "tsr_sched";
  let cppNamespace = "::tessera::compiler::sched";
  let summary = "Kernels: ops of the trace that are computed together";
  let description = [{
    What tsr-fuse makes of a trace. Ops that are in no kernel stay beside them and run in tier 1.
  }];
}

def TsrSched_KernelOp : Op<TsrSched_Dialect, "kernel", [IsolatedFromAbove, SingleBlock, Tsr_NamesBoth]> {
  let summary = "Ops that become one kernel, with their schedule";
  let description = [{
    The body holds tsr_graph ops; its block arguments are the operands, its yield names what is written to memory.

    - `position`: the step of the trace at which it runs; `steps`: those that it takes the place of
    - `inputs`, `outputs`: ids of the values that are its operands and results
    - `strides`: what is known of each operand's strides (as tsr.strides in tsr_graph); empty: row-major
    - `row`: how many trailing dims of the iteration space are one row, which one thread does in passes; 0: no reduction
    - `cut`: for sums that many tasks do parts of. [first, count, rows, columns]: so many dims from `first` on are summed,
      vectors lie along the last dim, and a task does `rows` of the first summed dim and `columns` of the last one. Where
      `columns` is 0 all dims are summed, and a task does `rows` of the first
    - `lanes`: elements of a vector; `grain`: elements that are worth a thread
    - `streams`: results are larger than the caches, and are written past them (sched/streams.h)
    - `product`: how a matrix product in the body is cut; sched/product.h says what its entries mean. Element-wise ops
      before the first product may compute its left factor (a prologue), where that is packed, not transposed, and no
      second product follows. A product of f8 may have more operands than its factors: scales for their blocks of 128
      elements along the sum. Its attribute `scales` says of each factor which operand they are (-1: none), the rows of a
      block (1 or 128), how many of their first dims are batches, and which dims lie along rows and along the sum (-1: no
      dim does)
    - `updates`: results that are an operand with what is yielded written over a part of it. [result, operand, value,
      dims...]: which result, which operand it has elsewhere, the value whose update_slice says where the part begins, and
      for each dim of what is yielded the dim of the result along which it lies (-1: it is 1). The kernel writes the part
      alone; the core sees to the rest. Two parts of one result are two results with one id

    ```mlir
    %v5 = tsr_sched.kernel @k4 at 4 steps [3, 4] inputs [0, 1] outputs [5] strides [[], []] row 0 lanes 8 grain 32768
        (%in0 = %x : tensor<8x16xf32>, %in1 = %row : tensor<16xf32>) -> (tensor<8x16xf32>) {
      %0 = tsr_graph.add %in0, %in1 : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
      %1 = tsr_graph.gelu %0 : (tensor<8x16xf32>) -> tensor<8x16xf32>
      tsr_sched.yield %1 : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$operands, SymbolNameAttr:$name, I32Attr:$position, DenseI32ArrayAttr:$steps,
                       DenseI32ArrayAttr:$inputs, DenseI32ArrayAttr:$outputs, Tsr_Lists:$strides, I64Attr:$row,
                       I64Attr:$lanes, I64Attr:$grain, OptionalAttr<DenseI64ArrayAttr>:$cut,
                       OptionalAttr<DictionaryAttr>:$product, OptionalAttr<Tsr_Lists>:$updates, UnitAttr:$streams);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name `at` $position `steps` $steps `inputs` $inputs `outputs` $outputs `strides` custom<Lists>($strides) `row` $row
    (`cut` $cut^)? (`updates` custom<Lists>($updates)^)? `lanes` $lanes `grain` $grain (`streams` $streams^)? attr-dict
    custom<Kernel>($operands, type($operands), type($results), $body)
  }];
  let hasVerifier = 1;
}

def TsrSched_YieldOp : Op<TsrSched_Dialect, "yield", [Pure, Terminator, ParentOneOf<["KernelOp"]>]> {
  let summary = "The values that a kernel writes to memory";
  let description = [{
    ```mlir
    %v1 = tsr_sched.kernel @k0 at 0 steps [0] inputs [0] outputs [1] strides [[]] row 0 lanes 8 grain 32768
        (%in0 = %x : tensor<8x16xf32>) -> (tensor<8x16xf32>) {
      %y = tsr_graph.exp %in0 : (tensor<8x16xf32>) -> tensor<8x16xf32>
      tsr_sched.yield %y : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

#endif
