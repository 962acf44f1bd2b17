// tsr_graph: a trace as it was recorded, one op for each step. The ops of the op table come from graph_ops.py.
#ifndef TESSERA_GRAPH_TD
#define TESSERA_GRAPH_TD

include "common.td"
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
    last step that needs each of them (`end`, in the generic form INT32_MAX: it leaves the trace). Rewrites keep them on
    what replaces the op. In assembly `%v5` is the value with id 5.

    ```mlir
    tsr_graph.trace "function" values [0, 1] strides [[], [-1, 1]]
        (%v0: tensor<?x16xf32, [3, -1]>, %v1: tensor<?x16xf32, [3, -1]>) {
      %v2 = tsr_graph.add %v0, %v1 step 0 values [2] until [1]
          : (tensor<?x16xf32, [3, -1]>, tensor<?x16xf32, [3, -1]>) -> tensor<?x16xf32, [3, -1]>
      %v3 = tsr_graph.softmax %v2 step 1 values [3] until [end] {axis = -1 : i64}
          : (tensor<?x16xf32, [3, -1]>) -> tensor<?x16xf32, [3, -1]>
    }
    ```
  }];
}

def TsrGraph_Tensor : Type<CPred<"::mlir::isa<::mlir::RankedTensorType>($_self)">, "tensor of a known rank">;

class TsrGraph_Op<string name, list<Trait> traits = []> : Op<TsrGraph_Dialect, name, traits>;

def TsrGraph_Table : NativeOpTrait<"TableOp"> {
  let cppNamespace = "::tessera::compiler::graph";
}

// Ops that came from the trace are written alike, by functions that they share: assembly.h.
class TsrGraph_TracedOp<string name, list<Trait> traits = []>
    : TsrGraph_Op<name, !listconcat(traits, [Tsr_NamesResults])> {
  let results = (outs Variadic<TsrGraph_Tensor>:$results);
  let hasCustomAssemblyFormat = 1;
  let extraClassDefinition = [{
    ::mlir::ParseResult $cppClass::parse(::mlir::OpAsmParser& parser, ::mlir::OperationState& result) {
      return ::tessera::compiler::parseTracedOp(parser, result);
    }
    void $cppClass::print(::mlir::OpAsmPrinter& printer) { ::tessera::compiler::printTracedOp(printer, *this); }
    void $cppClass::getAsmResultNames(::mlir::OpAsmSetValueNameFn set) {
      ::tessera::compiler::NameResults(*this, "values", set);
    }
  }];
}

// A row of the op table.
class TsrGraph_TableOp<string name, list<Trait> traits = []>
    : TsrGraph_TracedOp<name, !listconcat(traits, [TsrGraph_Table])>;

def TsrGraph_TraceOp : TsrGraph_Op<"trace", [IsolatedFromAbove, SingleBlock, NoTerminator, Tsr_NamesArguments]> {
  let summary = "The whole trace";
  let description = [{
    Block arguments are the inputs, constants and host numbers; `values` are their ids. `strides` has one array for each
    argument, as `tsr.strides` says it. `likely` has a size that was seen for each symbol: schedules are chosen for it,
    and hold for all others. `numbers` has those host numbers that never change, by their ids, exact in f64. The body ends
    where the trace does; what leaves it is said by `until`.

    ```mlir
    tsr_graph.trace "train.cc:40" values [0] strides [[]] (%v0: tensor<8xf32>) {
    }
    ```
  }];
  let arguments = (ins StrAttr:$sym_name, DenseI32ArrayAttr:$values, Tsr_Lists:$strides,
                       OptionalAttr<DenseI64ArrayAttr>:$likely, OptionalAttr<DictionaryAttr>:$numbers);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `values` $values `strides` custom<Lists>($strides) (`likely` $likely^)? (`numbers` $numbers^)? attr-dict
    custom<Body>($body)
  }];
  let hasVerifier = 1;
}

def TsrGraph_StepOp : TsrGraph_TracedOp<"step"> {
  let summary = "A step that only the core runs: a guard, a buffer, a call, a host number made a tensor";
  let description = [{
    It may leave the trace, so no kernel reaches across it.

    ```mlir
    tsr_graph.step "branch" %flag step 7 : (tensor<i1>) -> ()
    ```
  }];
  let arguments = (ins Variadic<TsrGraph_Tensor>:$operands, StrAttr:$kind, I32Attr:$step,
                       OptionalAttr<DenseI32ArrayAttr>:$values, OptionalAttr<DenseI32ArrayAttr>:$until);
}

def TsrGraph_NumberOp : TsrGraph_Op<"number", [Pure]> {
  let summary = "A number that is known, exact in f64";
  let description = [{
    ```mlir
    %eps = tsr_graph.number 1.0e-5 : tensor<f32>
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs TsrGraph_Tensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

def TsrGraph_SizeOp : TsrGraph_Op<"size", [Pure]> {
  let summary = "The size of a dim, as a number";
  let description = [{
    ```mlir
    %n = tsr_graph.size %x dim 1 : tensor<8x16xf32> -> tensor<f64>
    ```
  }];
  let arguments = (ins TsrGraph_Tensor:$x, I64Attr:$dim);
  let results = (outs TsrGraph_Tensor:$n);
  let assemblyFormat = "$x `dim` $dim attr-dict `:` type($x) `->` type($n)";
}

def TsrGraph_CausalOp : TsrGraph_Op<"causal", [Pure, AllTypesMatch<["x", "y"]>]> {
  let summary = "Scores of keys that come after the query become minus infinity";
  let description = [{
    What the attribute `causal` of attention means: of S queries and T keys, query i sees the keys up to i + T - S.

    ```mlir
    %y = tsr_graph.causal %x : tensor<8x16xf32>
    ```
  }];
  let arguments = (ins TsrGraph_Tensor:$x);
  let results = (outs TsrGraph_Tensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($y)";
}

def TsrGraph_ReduceOp : TsrGraph_Op<"reduce", [Pure]> {
  let summary = "A reduction over `rank` dims, the last ones or those from `from` on, which stay as dims of 1";
  let description = [{
    What the reductions of the op table, softmax and the norms are made of. `kind` is sum, mean, max or min, and along
    columns (`from`) also var or logsumexp. Sums of f32 are kept in f64 and rounded once; those of i64 wrap. A mean or a
    variance divides by the number of elements less `correction`.
    `loose`: of a row with a NaN in it the maximum may be any element, because whatever uses it sees the NaN as well.

    ```mlir
    %m = tsr_graph.reduce "max" %x rank 1 : tensor<8x16xf32> -> tensor<8x1xf32>
    %l = tsr_graph.reduce "max" %x rank 1 loose : tensor<8x16xf32> -> tensor<8x1xf32>
    %u = tsr_graph.reduce "mean" %x rank 2 correction 1.0 : tensor<8x16xf32> -> tensor<1x1xf32>
    %c = tsr_graph.reduce "sum" %x rank 1 from 0 : tensor<8x16xf32> -> tensor<1x16xf32>
    ```
  }];
  let arguments = (ins TsrGraph_Tensor:$x, StrAttr:$kind, I64Attr:$rank, OptionalAttr<I64Attr>:$from,
                       OptionalAttr<F64Attr>:$correction, UnitAttr:$loose);
  let results = (outs TsrGraph_Tensor:$y);
  let assemblyFormat = [{
    $kind $x `rank` $rank (`from` $from^)? (`correction` $correction^)? (`loose` $loose^)? attr-dict `:` type($x) `->` type($y)
  }];
  let hasVerifier = 1;
}

include "GraphTable.td"

#endif
