// tsr_tile: what kernels of attention have beside those of products (tile.td).
#ifndef TESSERA_TILE_ATTENTION_TD
#define TESSERA_TILE_ATTENTION_TD

//
// A warp group has 64 queries, whose scores are the sums of one product and whose weights are the left factor of the
// next one: they stay in the registers in which they lie, as tsr_tile.take has them.

def TsrTile_WeightsOp : TsrTile_Op<"weights", [Pure, AllTypesMatch<["upper", "lower"]>]> {
  let summary = "32 columns of weights, rounded, as tsr_tile.multiply_weights takes them";
  let description = [{
    A word has the two columns that lie next to each other. Of each eight columns the upper row comes first.

    ```mlir
    %w = tsr_tile.weights %v8, %v8 : vector<8xf32> -> bf16, vector<8xi32>
    ```
  }];
  let arguments = (ins VectorOfLengthAndType<[8], [F32]>:$upper, VectorOfLengthAndType<[8], [F32]>:$lower, TypeAttr:$dtype);
  let results = (outs VectorOfLengthAndType<[8], [I32]>:$words);
  let assemblyFormat = "$upper `,` $lower attr-dict `:` type($upper) `->` $dtype `,` type($words)";
  let hasVerifier = 1;
}

def TsrTile_MultiplyWeightsOp : TsrTile_Op<"multiply_weights", [MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["sums", "result"]>]> {
  let summary = "Starts to add the product of weights in registers and of pieces in shared memory to the sums of a warp group";
  let description = [{
    `words` are weights of 64 rows, 32 columns each, in the order of the sum. Of the right factor there is a piece for
    each 64 of it, as tsr_tile.multiply has them, `pitch` bytes after the one before; the last block across the sum may
    be used in part. The thread goes on at once, and touches neither sums nor words before tsr_tile.weighed.

    ```mlir
    %s = tsr_tile.multiply_weights %v64, [%w8, %w8], %slot columns 128 pitch 16384 right_across
        : bf16, vector<64xf32>, vector<8xi32>, vector<8xi32>
    ```
  }];
  let arguments = (ins AnyType:$sums, Variadic<VectorOfLengthAndType<[8], [I32]>>:$words, I64:$right, I64Attr:$columns,
                       I64Attr:$pitch, UnitAttr:$right_across, TypeAttr:$dtype);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $sums `,` `[` $words `]` `,` $right `columns` $columns `pitch` $pitch (`right_across` $right_across^)? attr-dict
    `:` $dtype `,` type($result) `,` type($words)
  }];
  let hasVerifier = 1;
}

def TsrTile_WeighedOp : TsrTile_Op<"weighed", [MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["sums", "result"]>,
                                               AttrSizedOperandSegments]> {
  let summary = "Waits until no product of this warp group is on its way";
  let description = [{
    `words` are those of the product; what takes their place is `next`, which is there only now.

    ```mlir
    %s:2 = tsr_tile.weighed %v64, [%w8], [%w8] : vector<64xf32>, (vector<8xi32>), (vector<8xi32>) -> (vector<8xi32>)
    ```
  }];
  let arguments = (ins AnyType:$sums, Variadic<VectorOfLengthAndType<[8], [I32]>>:$words,
                       Variadic<VectorOfLengthAndType<[8], [I32]>>:$next);
  let results = (outs AnyType:$result, Variadic<VectorOfLengthAndType<[8], [I32]>>:$kept);
  let assemblyFormat = [{
    $sums `,` `[` $words `]` `,` `[` $next `]` attr-dict `:` type($result) `,` `(` type($words) `)` `,`
    `(` type($next) `)` `->` `(` type($kept) `)`
  }];
  let hasVerifier = 1;
}

def TsrTile_ScaleRowsOp : TsrTile_Op<"scale_rows", [Pure, AllTypesMatch<["sums", "result"]>]> {
  let summary = "The sums of a warp group, each row of the thread multiplied with a number";
  let description = [{
    ```mlir
    %s = tsr_tile.scale_rows %v64 by %scalar, %scalar : vector<64xf32>
    ```
  }];
  let arguments = (ins AnyType:$sums, F32:$upper, F32:$lower);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$sums `by` $upper `,` $lower attr-dict `:` type($result)";
}

def TsrTile_TakeTurnOp : TsrTile_Op<"take_turn", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "All threads of warp group number `group`, one of two, wait until the other one has given it its turn";
  let description = [{
    ```mlir
    tsr_tile.take_turn %n
    ```
  }];
  let arguments = (ins I64:$group);
  let assemblyFormat = "$group attr-dict";
}

def TsrTile_EndTurnOp : TsrTile_Op<"end_turn", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "All threads of warp group number `group`, one of two, give the other one its turn, and go on";
  let description = [{
    Each turn is given once: the last ones of a kernel may be left over.

    ```mlir
    tsr_tile.end_turn %n
    ```
  }];
  let arguments = (ins I64:$group);
  let assemblyFormat = "$group attr-dict";
}

def TsrTile_AnyOp : TsrTile_Op<"any", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Does it hold for any thread of the warp? All of them come here";
  let description = [{
    ```mlir
    %all = tsr_tile.any %flag
    ```
  }];
  let arguments = (ins I1:$flag);
  let results = (outs I1:$result);
  let assemblyFormat = "$flag attr-dict";
}

def TsrTile_LoadPairsOp : TsrTile_Op<"load_pairs", [MemoryEffects<[MemRead]>]> {
  let summary = "Elements of a view where a thread has sums, as tsr_tile.take has them";
  let description = [{
    Pairs of elements, each eight after the one before, from view[offset] on; with a stride, elements are that far apart.
    Those from number `left` on are not read, and are 0. `aligned`: a pair begins at a multiple of its size.

    ```mlir
    %x = tsr_tile.load_pairs %view[%offset] left %n : bf16 -> vector<8xf32>
    %y = tsr_tile.load_pairs %view[%offset] left %n stride %stride : f32 -> vector<8xf32>
    ```
  }];
  let arguments = (ins Tsr_Pointer:$view, I64:$offset, I64:$left, Optional<I64>:$stride, UnitAttr:$aligned, TypeAttr:$dtype);
  let results = (outs AnyType:$tile);
  let assemblyFormat = [{
    $view `[` $offset `]` `left` $left (`stride` $stride^)? (`aligned` $aligned^)? attr-dict `:` $dtype `->` type($tile)
  }];
  let hasVerifier = 1;
}

#endif
