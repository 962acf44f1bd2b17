// tsr_target: what a version runs: the kernels as code, and the plan by which the core launches them.
#ifndef TESSERA_TARGET_TD
#define TESSERA_TARGET_TD

include "common.td"

def TsrTarget_Dialect : Dialect {
  let name = "tsr_target";
  let cppNamespace = "::tessera::compiler::target";
  let summary = "The launch plan of a version; its kernels are functions of the LLVM dialect beside it";
}

def TsrTarget_LaunchOp : Op<TsrTarget_Dialect, "launch"> {
  let summary = "One kernel of the plan";
  let description = [{
    The core runs it at step `position` in place of `steps`, over as many tasks as `tasks` says: a product of entries of
    `dims`. Each entry of `dims` is a pair (value, dim) or, for strides, (value, -1 - dim); (value, -1000) is the element of
    a result where the part begins that the update_slice of that value writes. `tasks` and `unit` are products:
    entries of `dims` where they are not negative, and otherwise -1 - e is a number; `unit` is the
    elements of one task. `strides` says what the code takes the strides of each operand to be: nothing means row-major,
    -1 that it reads them. Where they are not so, the core runs the steps instead. `scratch` has the bytes of an element
    for each row of scratch memory that a thread needs, `fixed` (written `plus`) the bytes that it needs besides. With
    `blocks` each factor of `tasks` is divided by its block and rounded up. `team`, for a CUDA device: the threads of a
    block, the tasks that a block does, its bytes of dynamic shared memory, the most blocks for each multiprocessor
    (0: any number), and, if any, the blocks of a cluster, which do its tasks together. `maps`: matrices of which the kernel copies pieces, each as the number of a view and, for each of
    its dims from the innermost on, the view's own dim and the size of a piece; a last number, -1, says that elements,
    which are f32, are rounded to tf32 on the way. `aligned`: numbers of views whose
    rows are so many vectors of eight elements, each at a multiple of its size or of 16 bytes. Where that does not hold,
    or the device cannot copy pieces of a view, the core runs the steps instead. `code`: the function of another kernel, which
    this one shares because it would be the same. `many`: the function has a second form, with `_many` after its name,
    which runs up to so many kernels that share it in one launch. `partial`: there is one more view after the results, of so many
    bytes for each task, and after all tasks one more call, whose range ends at -1: sums that tasks did parts of.

    ```mlir
    tsr_target.launch @k4 at 4 steps [3, 4] inputs [0, 1] outputs [5] dims [[0, 0], [0, 1]] strides [[], [], []]
        tasks [0] unit [1] grain 32768 scratch []
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, I32Attr:$position, DenseI32ArrayAttr:$steps,
                       DenseI32ArrayAttr:$inputs, DenseI32ArrayAttr:$outputs, Tsr_Lists:$dims, Tsr_Lists:$strides,
                       DenseI64ArrayAttr:$tasks, OptionalAttr<DenseI64ArrayAttr>:$blocks, DenseI64ArrayAttr:$unit,
                       I64Attr:$grain, DenseI64ArrayAttr:$scratch, DefaultValuedAttr<I64Attr, "0">:$fixed,
                       DefaultValuedAttr<I64Attr, "0">:$partial, OptionalAttr<DenseI64ArrayAttr>:$team,
                       OptionalAttr<Tsr_Lists>:$maps,
                       OptionalAttr<DenseI64ArrayAttr>:$aligned, OptionalAttr<FlatSymbolRefAttr>:$code,
                       DefaultValuedAttr<I64Attr, "0">:$many);
  let assemblyFormat = [{
    $kernel `at` $position `steps` $steps `inputs` $inputs `outputs` $outputs `dims` custom<Lists>($dims)
    `strides` custom<Lists>($strides) `tasks` $tasks (`blocks` $blocks^)? `unit` $unit `grain` $grain
    `scratch` $scratch (`plus` $fixed^)? (`partial` $partial^)? (`team` $team^)? (`maps` custom<Lists>($maps)^)? (`aligned` $aligned^)?
    (`code` $code^)? (`many` $many^)? attr-dict
  }];
  let hasVerifier = 1;
}

#endif
