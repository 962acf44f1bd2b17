// tsr_graph: a trace as it was recorded, one op for each step. The ops of the op table come from graph_ops.py.
#ifndef TESSERA_GRAPH_TD
#define TESSERA_GRAPH_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def TsrGraph_Dialect : Dialect {
  let name = "tsr_graph";
  let cppNamespace = "::tessera::compiler::graph";
  let summary = "A trace: a straight line of ops on tensors";
  let description = [{
    Values are `tensor` types. A dim that may differ from run to run is `?`, and the encoding says which symbol it is:
    in `tensor<?x16xf32, [3, -1]>` the first dim is symbol 3. Equal symbols are equal dims; a dim that is 0 or
    1 is always written as a number. `tsr.strides` on a view says what is known of its strides: 0, 1, or -1 for "known
    at run time".

    Each op that came from the trace carries `step`, its index there; `values`, the ids of its results; and `until`, the
    last step that needs each of them (INT32_MAX: it leaves the trace). Rewrites keep them on what replaces the op.
  }];
}

def TsrGraph_Tensor : Type<CPred<"::mlir::isa<::mlir::RankedTensorType>($_self)">, "tensor of a known rank">;

class TsrGraph_Op<string name, list<Trait> traits = []> : Op<TsrGraph_Dialect, name, traits>;

def TsrGraph_Table : NativeOpTrait<"TableOp"> {
  let cppNamespace = "::tessera::compiler::graph";
}

// A row of the op table.
class TsrGraph_TableOp<string name, list<Trait> traits = []>
    : TsrGraph_Op<name, !listconcat(traits, [TsrGraph_Table])> {
  let results = (outs Variadic<TsrGraph_Tensor>:$results);
}

def TsrGraph_TraceOp : TsrGraph_Op<"trace", [IsolatedFromAbove, SingleBlock, NoTerminator]> {
  let summary = "The whole trace";
  let description = [{
    Block arguments are the inputs, constants and host numbers; `values` are their ids. `strides` has one array for each
    argument, as `tsr.strides` says it. The body ends where the trace does; what leaves it is said by `until`.

    ```mlir
    tsr_graph.trace "train.cc:40" values [0, 1] strides [[-1, 1], [-1, 1]] { ... }
    ```
  }];
  let arguments = (ins StrAttr:$sym_name, DenseI32ArrayAttr:$values, ArrayAttr:$strides);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
}

def TsrGraph_StepOp : TsrGraph_Op<"step"> {
  let summary = "A step that only the core runs: a guard, a buffer, a call, a host number made a tensor";
  let description = [{
    It may leave the trace, so no kernel reaches across it.

    ```mlir
    "tsr_graph.step"(%c) {kind = "branch", step = 7 : i32} : (tensor<i1>) -> ()
    ```
  }];
  let arguments = (ins Variadic<TsrGraph_Tensor>:$operands, StrAttr:$kind, I32Attr:$step,
                       OptionalAttr<DenseI32ArrayAttr>:$values, OptionalAttr<DenseI32ArrayAttr>:$until);
  let results = (outs Variadic<TsrGraph_Tensor>:$results);
}

def TsrGraph_NumberOp : TsrGraph_Op<"number", [Pure]> {
  let summary = "A number that a rewrite brought in, exact in f64";
  let description = [{
    ```mlir
    %eps = "tsr_graph.number"() {value = 1.0e-5 : f64} : () -> tensor<f32>
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs TsrGraph_Tensor:$result);
}

def TsrGraph_ReduceOp : TsrGraph_Op<"reduce", [Pure]> {
  let summary = "A reduction over the last `rank` dims, which stay as dims of 1";
  let description = [{
    What the reductions of the op table, softmax and the norms are made of. `kind` is sum, mean, max or min. Sums of f32
    are kept in f64 and rounded once. A mean divides by the number of elements less `correction`.

    ```mlir
    %m = "tsr_graph.reduce"(%x) {kind = "max", rank = 1 : i64} : (tensor<8x16xf32>) -> tensor<8x1xf32>
    ```
  }];
  let arguments = (ins TsrGraph_Tensor:$x, StrAttr:$kind, I64Attr:$rank, OptionalAttr<F64Attr>:$correction);
  let results = (outs TsrGraph_Tensor:$y);
  let hasVerifier = 1;
}

include "GraphTable.td"

#endif
