// tsr_tile: kernels in tiles: explicit loads, stores, vectors and reductions, in loops of scf.
#ifndef TESSERA_TILE_TD
#define TESSERA_TILE_TD

include "common.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def TsrTile_Dialect : Dialect {
  let name = "tsr_tile";
  let cppNamespace = "::tessera::compiler::tile";
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
  let summary = "Kernels in tiles";
  let description = [{
    A tile is a value of a builtin scalar or vector type in the computing dtype: f32 for narrow floats, i8 for bool. It is
    loaded from and stored to a view, which is an operand, a result or scratch memory of the kernel, at an offset in
    elements. Loops are scf, index arithmetic is arith. Kernels for a CUDA device are written for one thread of a block,
    which finds out by tsr_tile.place which one it is; threads that work on one row are a team.
  }];
}

class TsrTile_Op<string name, list<Trait> traits = []> : Op<TsrTile_Dialect, name, traits>;

def TsrTile_KernelOp : TsrTile_Op<"kernel", [IsolatedFromAbove, Symbol, SingleBlock, NoTerminator, Tsr_NamesArguments]> {
  let summary = "A kernel over a range of tasks";
  let description = [{
    Block arguments: the views of operands and results and `scratch` (all of type !llvm.ptr), then the table of dims and
    strides (!llvm.ptr), then the first task and the one after the last (i64). `dims` says what stands in the table,
    `tasks` how many tasks there are and `unit` how large one is, as in tsr_target.launch: the core reads them. With
    `partial` there is one more view after the results, which has so many bytes for each task: what tasks leave there is
    put together by a last call, whose range ends at -1.

    With `team` (threads of a block, tasks that a block does, blocks that a multiprocessor must have registers for, bytes
    that tsr_tile.fetch has for a block that stays for many tasks, and, if any, for one that does not) the kernel is for a
    CUDA device. Its scratch memory is shared by the threads of
    a block, and has `plus` bytes; the first task is 0 and the last one that of the launch: a
    block begins at its own number and goes on by the number of blocks. A sixth number of the team is that of blocks of a
    cluster, which run at one time, reach each other's shared memory, and do a task together. `maps` are matrices that
    tsr_tile.copy and tsr_tile.copy_out name, `aligned` views that are read and written by vectors, as in
    tsr_target.launch.

    ```mlir
    tsr_tile.kernel @k0 at 0 steps [0] inputs [0] outputs [1] dims [] strides [[], []] tasks [-9] unit [] grain 32768
        scratch []
        (%in0: !llvm.ptr, %out0: !llvm.ptr, %scratch: !llvm.ptr, %table: !llvm.ptr, %begin: i64, %end: i64) {
      %one = arith.constant 1 : i64
      scf.for %i = %begin to %end step %one : i64 {
        %x = tsr_tile.load %in0[%i] : f32 -> f32
        %y = tsr_tile.map "exp_f32"(%x) : (f32) -> f32
        tsr_tile.store %y, %out0[%i] : f32 -> f32
      }
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I32Attr:$position, DenseI32ArrayAttr:$steps, DenseI32ArrayAttr:$inputs,
                       DenseI32ArrayAttr:$outputs, Tsr_Lists:$dims, Tsr_Lists:$strides, DenseI64ArrayAttr:$tasks,
                       OptionalAttr<DenseI64ArrayAttr>:$blocks, DenseI64ArrayAttr:$unit, I64Attr:$grain,
                       DenseI64ArrayAttr:$scratch, DefaultValuedAttr<I64Attr, "0">:$fixed,
                       DefaultValuedAttr<I64Attr, "0">:$partial, OptionalAttr<DenseI64ArrayAttr>:$team,
                       OptionalAttr<Tsr_Lists>:$maps, OptionalAttr<DenseI64ArrayAttr>:$aligned);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `at` $position `steps` $steps `inputs` $inputs `outputs` $outputs `dims` custom<Lists>($dims)
    `strides` custom<Lists>($strides) `tasks` $tasks (`blocks` $blocks^)? `unit` $unit `grain` $grain
    `scratch` $scratch (`plus` $fixed^)? (`partial` $partial^)? (`team` $team^)? (`maps` custom<Lists>($maps)^)?
    (`aligned` $aligned^)? attr-dict custom<Body>($body)
  }];
  let hasVerifier = 1;
}

def TsrTile_DimOp : TsrTile_Op<"dim", [Pure]> {
  let summary = "An entry of the table of dims and strides";
  let description = [{
    ```mlir
    %n = tsr_tile.dim %table[2]
    ```
  }];
  let arguments = (ins Tsr_Pointer:$table, I64Attr:$index);
  let results = (outs I64:$value);
  let assemblyFormat = "$table `[` $index `]` attr-dict";
}

def TsrTile_LoadOp : TsrTile_Op<"load", [MemoryEffects<[MemRead]>]> {
  let summary = "A tile from memory, in the computing dtype";
  let description = [{
    `dtype` is the dtype in memory. Without a stride the elements of a vector lie next to each other; with one they are
    that many elements apart. `aligned` says that the address is a multiple of the vector's size, or of 16 bytes. bf16 may
    also be loaded as words of two elements each, for tsr_tile.multiply_words: the offset is still in elements.

    ```mlir
    %y = tsr_tile.load %view[%offset] : bf16 -> vector<8xf32>
    %z = tsr_tile.load %view[%offset] stride %stride : f32 -> vector<8xf32>
    %a = tsr_tile.load %view[%offset] aligned : bf16 -> vector<8xf32>
    %w = tsr_tile.load %view[%offset] : bf16 -> vector<4xi32>
    ```
  }];
  let arguments = (ins Tsr_Pointer:$view, I64:$offset, Optional<I64>:$stride, TypeAttr:$dtype, UnitAttr:$aligned);
  let results = (outs AnyType:$tile);
  let assemblyFormat = [{
    $view `[` $offset `]` (`stride` $stride^)? (`aligned` $aligned^)? attr-dict `:` $dtype `->` type($tile)
  }];
  let hasVerifier = 1;
}

def TsrTile_StoreOp : TsrTile_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "A tile to memory, where elements lie next to each other";
  let description = [{
    `aligned` as in tsr_tile.load. On a CUDA device an aligned store may depend on a condition, without a branch. On the
    cpu a store that `streams` goes past the caches: the address is a multiple of 64 bytes, and the tile fills whole lines.

    ```mlir
    tsr_tile.store %v8, %view[%offset] : vector<8xf32> -> bf16
    tsr_tile.store %v64, %view[%offset] streams : vector<64xf32> -> f32
    tsr_tile.store %v8, %view[%offset] aligned if %flag : vector<8xf32> -> bf16
    ```
  }];
  let arguments = (ins AnyType:$tile, Tsr_Pointer:$view, I64:$offset, Optional<I1>:$condition, TypeAttr:$dtype,
                       UnitAttr:$aligned, UnitAttr:$streams);
  let assemblyFormat = [{
    $tile `,` $view `[` $offset `]` (`aligned` $aligned^)? (`streams` $streams^)? (`if` $condition^)? attr-dict `:`
    type($tile) `->` $dtype
  }];
  let hasVerifier = 1;
}

def TsrTile_SplatOp : TsrTile_Op<"splat", [Pure]> {
  let summary = "A scalar in all lanes";
  let description = [{
    ```mlir
    %v = tsr_tile.splat %scalar : f32 -> vector<8xf32>
    ```
  }];
  let arguments = (ins AnyType:$scalar);
  let results = (outs AnyType:$tile);
  let assemblyFormat = "$scalar attr-dict `:` type($scalar) `->` type($tile)";
  let hasVerifier = 1;
}

def TsrTile_MapOp : TsrTile_Op<"map", [Pure]> {
  let summary = "An element-wise function of tiles, by tier 1's own source";
  let description = [{
    `function` names an op and the dtype it computes in, as in `exp_f32`; its results are bit for bit those of tier 1.

    ```mlir
    %y = tsr_tile.map "exp_f32"(%v8) : (vector<8xf32>) -> vector<8xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$operands, StrAttr:$function);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$function `` `(` $operands `)` attr-dict `:` functional-type($operands, $result)";
}

def TsrTile_WidenOp : TsrTile_Op<"widen", [Pure]> {
  let summary = "An f32 tile as f64, exactly";
  let description = [{
    ```mlir
    %d = tsr_tile.widen %v8 : vector<8xf32> -> vector<8xf64>
    ```
  }];
  let arguments = (ins AnyType:$x);
  let results = (outs AnyType:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
}

def TsrTile_FmaOp : TsrTile_Op<"fma", [Pure, AllTypesMatch<["a", "b", "c", "d"]>]> {
  let summary = "a * b + c, rounded once: one step of a register tile";
  let description = [{
    A register tile of a product is so many accumulators, each a vector; one step of the sum multiplies one element of
    each row of the left factor with the vectors of a row of the right one.

    ```mlir
    %d = tsr_tile.fma %v8, %v8, %v8 : vector<8xf32>
    ```
  }];
  let arguments = (ins AnyType:$a, AnyType:$b, AnyType:$c);
  let results = (outs AnyType:$d);
  let assemblyFormat = "$a `,` $b `,` $c attr-dict `:` type($d)";
}

def TsrTile_WordsOp : TsrTile_Op<"words", [Pure, AllTypesMatch<["low", "high"]>]> {
  let summary = "Numbers that bf16 has, two to a word";
  let description = [{
    The lower half of each word is the number in that lane of `low`, the upper one that of `high`. What f32 has beyond bf16
    is dropped: elements that were loaded as bf16 have nothing there.

    ```mlir
    %w = tsr_tile.words %v4, %v4 : vector<4xf32> -> vector<4xi32>
    ```
  }];
  let arguments = (ins AnyType:$low, AnyType:$high);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$low `,` $high attr-dict `:` type($low) `->` type($result)";
  let hasVerifier = 1;
}

def TsrTile_MultiplyWordsOp : TsrTile_Op<"multiply_words", [Pure, AllTypesMatch<["a", "b"]>, AllTypesMatch<["c", "d"]>]> {
  let summary = "Products of bf16 along the sum, added to sums of f32: a step of a register tile";
  let description = [{
    A word has two elements of bf16. Each lane of the sums `c` gets both products of the words in that lane of `a` and `b`.
    With `pairs` there are four words: two of each of two rows in `a`, and of two columns in `b`. The sums are those of the
    first row, then those of the second, and each gets four products.

    Where the target has instructions for it (vdpbf16ps, bfdot, bfmmla) it is one of them: those take subnormal numbers
    for 0, and round sums on the way each in its own way. Otherwise words are taken apart and multiplied in f32.

    ```mlir
    %d = tsr_tile.multiply_words %w4, %w4, %v4 : vector<4xi32>, vector<4xf32>
    %e = tsr_tile.multiply_words %w4, %w4, %v4 pairs : vector<4xi32>, vector<4xf32>
    ```
  }];
  let arguments = (ins AnyType:$a, AnyType:$b, AnyType:$c, UnitAttr:$pairs);
  let results = (outs AnyType:$d);
  let assemblyFormat = "$a `,` $b `,` $c (`pairs` $pairs^)? attr-dict `:` type($a) `,` type($d)";
  let hasVerifier = 1;
}

def TsrTile_LaneOp : TsrTile_Op<"lane", [Pure]> {
  let summary = "One lane of a tile in all lanes of another";
  let description = [{
    ```mlir
    %s = tsr_tile.lane %v8[2] : vector<8xf32> -> vector<4xf32>
    ```
  }];
  let arguments = (ins AnyType:$tile, I64Attr:$index);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$tile `[` $index `]` attr-dict `:` type($tile) `->` type($result)";
  let hasVerifier = 1;
}

def TsrTile_ShuffleOp : TsrTile_Op<"shuffle", [Pure, AllTypesMatch<["a", "b", "result"]>]> {
  let summary = "Lanes of two tiles: those of the first are counted from 0, those of the second go on from there";
  let description = [{
    ```mlir
    %s = tsr_tile.shuffle %v8, %v8 [0, 8, 1, 9, 2, 10, 3, 11] : vector<8xf32>
    ```
  }];
  let arguments = (ins AnyType:$a, AnyType:$b, DenseI32ArrayAttr:$lanes);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$a `,` $b $lanes attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def TsrTile_ReduceOp : TsrTile_Op<"reduce", [Pure]> {
  let summary = "The lanes of a tile made fewer, in halves: lane i with lane i + n/2, and so on, down to one scalar";
  let description = [{
    `function` as in tsr_tile.map, of two operands.

    ```mlir
    %d4 = tsr_tile.reduce "add_f64" %d8 : vector<8xf64> -> vector<4xf64>
    %s = tsr_tile.reduce "add_f64" %d4 : vector<4xf64> -> f64
    ```
  }];
  let arguments = (ins AnyType:$tile, StrAttr:$function);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$function $tile attr-dict `:` type($tile) `->` type($result)";
  let hasVerifier = 1;
}

// ---- CUDA devices

def TsrTile_PlaceOp : TsrTile_Op<"place", [Pure]> {
  let summary = "Where this thread is: `thread` of its block, `block` of the grid; or `blocks`, how many there are";
  let description = [{
    `rank`: the block within its cluster. `group`: the 128 threads within the block; whole warps ask for it.

    ```mlir
    %t = tsr_tile.place "thread"
    ```
  }];
  let arguments = (ins StrAttr:$what);
  let results = (outs I64:$index);
  let assemblyFormat = "$what attr-dict";
  let hasVerifier = 1;
}

def TsrTile_TeamReduceOp : TsrTile_Op<"team_reduce", [MemoryEffects<[MemRead, MemWrite]>,
                                                      AllTypesMatch<["x", "result"]>]> {
  let summary = "The scalars of the threads of a team made one, which all of them get";
  let description = [{
    `function` as in tsr_tile.map, of two operands; `threads` the size of the team, a power of two. Threads of a warp
    exchange registers, in halves: thread i with thread i + n/2, and so on. A team larger than a warp is the whole block:
    each warp leaves its result in the shared memory at `scratch`, from byte 256 * `slot` on, and after a barrier each
    thread reads all of them. Nobody may use the slot again before another barrier. All threads of the block come here.

    ```mlir
    %sum = tsr_tile.team_reduce "add_f32" %scalar threads 256 scratch %view slot 0 : f32
    ```
  }];
  let arguments = (ins StrAttr:$function, AnyType:$x, I64Attr:$threads, Tsr_Pointer:$scratch, I64Attr:$slot);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $function $x `threads` $threads `scratch` $scratch `slot` $slot attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def TsrTile_ClusterReduceOp : TsrTile_Op<"cluster_reduce", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "The scalars of all threads of a cluster made one, which all of them get; of several rows at once";
  let description = [{
    As tsr_tile.team_reduce, for each operand; a block has `threads` threads, the cluster `blocks` blocks. Each warp sends
    its result to every block: to byte `slot` of its dynamic shared memory, where there are 8 bytes for each operand and
    each warp of the cluster. Each thread waits until all have come and reads them, in the same order everywhere.
    `signal` of each block has been made for one arrival, which has announced 4 bytes for each of them, or 8 for scalars
    of 64 bits; this is its first phase. All blocks have come to a barrier since then. After the last reduction a block
    may leave: nobody writes to it any more.

    ```mlir
    %sums:2 = tsr_tile.cluster_reduce "add_f32"(%scalar, %scalar) threads 256 blocks 4 to %slot signal %offset : (f32, f32) -> (f32, f32)
    ```
  }];
  let arguments = (ins StrAttr:$function, Variadic<AnyType>:$x, I64Attr:$threads, I64Attr:$blocks, I64:$slot, I64:$signal);
  let results = (outs Variadic<AnyType>:$reduced);
  let assemblyFormat = [{
    $function `` `(` $x `)` `threads` $threads `blocks` $blocks `to` $slot `signal` $signal attr-dict `:`
    functional-type($x, $reduced)
  }];
  let hasVerifier = 1;
}

def TsrTile_BarrierOp : TsrTile_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "All threads of the block come here before any goes on";
  let description = [{
    ```mlir
    tsr_tile.barrier
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def TsrTile_ReportOp : TsrTile_Op<"report", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Leaves an error that depends on values for the host, which finds it when it next waits for the device";
  let description = [{
    `error` is the address of the device's error (an entry of the table, of value -1), `value` an index of the op of that
    name which is outside its dim, `bound`. The first one wins.

    ```mlir
    tsr_tile.report "embedding" %n of %n to %offset
    ```
  }];
  let arguments = (ins StrAttr:$op, I64:$value, I64:$bound, I64:$error);
  let assemblyFormat = "$op $value `of` $bound `to` $error attr-dict";
  let hasVerifier = 1;
}

def TsrTile_FetchOp : TsrTile_Op<"fetch", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Starts to copy elements that this thread will need to memory of its block";
  let description = [{
    `lanes` elements of `dtype` from view[offset] on go to byte `slot` of the block's dynamic shared memory; both are
    multiples of 16 bytes, or of as many as are copied. The thread goes on at once. A thread that uses a slot of another one
    waits for it at a barrier, after tsr_tile.await. With a condition that does not hold nothing is read, and zeros are written.

    ```mlir
    tsr_tile.fetch %view[%offset] to %offset lanes 8 if %flag : bf16
    ```
  }];
  let arguments = (ins Tsr_Pointer:$view, I64:$offset, I64:$slot, Optional<I1>:$condition, I64Attr:$lanes, TypeAttr:$dtype);
  let assemblyFormat = "$view `[` $offset `]` `to` $slot `lanes` $lanes (`if` $condition^)? attr-dict `:` $dtype";
  let hasVerifier = 1;
}

def TsrTile_CommitOp : TsrTile_Op<"commit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "The copies that this thread has started since the last one are a group";
  let description = [{
    ```mlir
    tsr_tile.commit
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def TsrTile_AwaitOp : TsrTile_Op<"await", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits for copies that this thread has started";
  let description = [{
    For all of them, or, with `pending`, until at most so many groups of tsr_tile.commit are on their way.

    ```mlir
    tsr_tile.await pending 1
    ```
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$pending);
  let assemblyFormat = "(`pending` $pending^)? attr-dict";
}

def TsrTile_FetchedOp : TsrTile_Op<"fetched", [MemoryEffects<[MemRead]>]> {
  let summary = "A tile that tsr_tile.fetch has brought, in the computing dtype";
  let description = [{
    With `in_pairs`: two of every eight elements from `slot` on, as tsr_tile.take has sums. With a rank: from the shared
    memory of that block of the cluster, f32 only.

    ```mlir
    %y = tsr_tile.fetched %offset : bf16 -> vector<8xf32>
    %z = tsr_tile.fetched %offset of %n : f32 -> vector<8xf32>
    ```
  }];
  let arguments = (ins I64:$slot, Optional<I64>:$rank, UnitAttr:$in_pairs, TypeAttr:$dtype);
  let results = (outs AnyType:$tile);
  let assemblyFormat = "$slot (`of` $rank^)? (`in_pairs` $in_pairs^)? attr-dict `:` $dtype `->` type($tile)";
  let hasVerifier = 1;
}

// ---- tensor cores
//
// Blocks bring pieces of matrices to their shared memory, which goes round as a ring of slots, and multiply them there.
// Whoever fills a slot and whoever has used it say so with a signal: 8 bytes of shared memory. Its phase is 0, then 1,
// then 0 again; it goes on when everybody it was made for has arrived and all bytes that were announced have come.

def TsrTile_SignalInitOp : TsrTile_Op<"signal_init", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Makes a signal for so many arrivals; by one thread, before tsr_tile.signals_ready and a barrier";
  let description = [{
    ```mlir
    tsr_tile.signal_init %offset count 2
    ```
  }];
  let arguments = (ins I64:$signal, I64Attr:$count);
  let assemblyFormat = "$signal `count` $count attr-dict";
}

def TsrTile_SignalsReadyOp : TsrTile_Op<"signals_ready", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Signals that this thread has made are there for copies, and for other blocks after a barrier with them";
  let description = [{
    ```mlir
    tsr_tile.signals_ready
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def TsrTile_SignalExpectOp : TsrTile_Op<"signal_expect", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Arrives, and announces bytes that copies will bring";
  let description = [{
    ```mlir
    tsr_tile.signal_expect %offset bytes 49152
    ```
  }];
  let arguments = (ins I64:$signal, I64Attr:$bytes);
  let assemblyFormat = "$signal `bytes` $bytes attr-dict";
}

def TsrTile_SignalArriveOp : TsrTile_Op<"signal_arrive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Arrives";
  let description = [{
    At the signal of this block, or of the one with that rank of its cluster.

    ```mlir
    tsr_tile.signal_arrive %offset of %n
    ```
  }];
  let arguments = (ins I64:$signal, Optional<I64>:$rank);
  let assemblyFormat = "$signal (`of` $rank^)? attr-dict";
}

def TsrTile_SignalWaitOp : TsrTile_Op<"signal_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until a phase of a signal is over";
  let description = [{
    Of a new signal the phase before the first, 1, is over.

    ```mlir
    tsr_tile.signal_wait %offset phase %n
    ```
  }];
  let arguments = (ins I64:$signal, I64:$phase);
  let assemblyFormat = "$signal `phase` $phase attr-dict";
}

def TsrTile_CopyOp : TsrTile_Op<"copy", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Starts to copy a piece of a matrix to shared memory";
  let description = [{
    The piece of map number `map` whose first element is at these indices, the innermost first, goes to byte `slot`, a
    multiple of 1024, in rows of 128 bytes. Part p of 16 bytes of row r lies where p xor (r mod 8) would: so
    tsr_tile.multiply reads rows and columns without conflicts. What lies beyond the matrix is zero. The bytes count for
    `signal`. One thread does this. With `blocks` the piece goes to so many blocks of the cluster, from rank 0 on, to the
    same slot of each, and counts for the same signal there.

    ```mlir
    tsr_tile.copy map 0 [%k, %m] to %slot signal %offset blocks 2
    ```
  }];
  let arguments = (ins I64Attr:$map, Variadic<I64>:$at, I64:$slot, I64:$signal, OptionalAttr<I64Attr>:$blocks);
  let assemblyFormat = "`map` $map `[` $at `]` `to` $slot `signal` $signal (`blocks` $blocks^)? attr-dict";
  let hasVerifier = 1;
}

def TsrTile_CopyOutOp : TsrTile_Op<"copy_out", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Starts to copy a piece from shared memory to a matrix";
  let description = [{
    As tsr_tile.copy does, the other way round; what lies beyond the matrix is not written. One thread does this, after
    tsr_tile.publish and a barrier of those who wrote the piece.

    ```mlir
    tsr_tile.copy_out map 2 [%k, %m] from %slot
    ```
  }];
  let arguments = (ins I64Attr:$map, Variadic<I64>:$at, I64:$slot);
  let assemblyFormat = "`map` $map `[` $at `]` `from` $slot attr-dict";
  let hasVerifier = 1;
}

def TsrTile_PublishOp : TsrTile_Op<"publish", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "What this thread wrote to shared memory can be seen by copies that are started later";
  let description = [{
    ```mlir
    tsr_tile.publish
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def TsrTile_AwaitOutOp : TsrTile_Op<"await_out", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until shared memory that this thread copies out may be written again";
  let description = [{
    Until all but the last `pending` copies have read it. With `written` until they have also arrived.

    ```mlir
    tsr_tile.await_out pending 1
    ```
  }];
  let arguments = (ins I64Attr:$pending, UnitAttr:$written);
  let assemblyFormat = "`pending` $pending (`written` $written^)? attr-dict";
}

def TsrTile_RegistersOp : TsrTile_Op<"registers", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "From here on the threads of this warp group have so many registers";
  let description = [{
    `more` or fewer than before. All 128 threads of a group come here, once, and each role of a block is one branch.

    ```mlir
    tsr_tile.registers 232 more
    ```
  }];
  let arguments = (ins I64Attr:$count, UnitAttr:$more);
  let assemblyFormat = "$count (`more` $more^)? attr-dict";
  let hasVerifier = 1;
}

def TsrTile_MultiplyOp : TsrTile_Op<"multiply", [MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["sums", "result"]>]> {
  let summary = "Starts to add the product of two pieces in shared memory to the sums of a warp group";
  let description = [{
    The left piece has `rows` (64 or 128) x `depth` elements of `dtype` at byte `left`, the right one `depth` x `columns`
    at byte `right`, both as tsr_tile.copy left them: 64 elements of bf16 or f16 along the sum, 32 of tf32, which lie in
    32 bits, or 128 of the f8 types, of which the right piece may have another (`right_dtype`). The rows of a piece in
    memory lie along the sum, or, of bf16 and f16 with `left_across` and `right_across`, along the rows or columns of the
    result: then they are blocks of 64 of them.

    `sums` are the elements that one thread of the 128 has: for each 64 rows, and for each 8 columns, two of its row and
    two of the row eight further down. The thread goes on at once, and touches neither before tsr_tile.multiplied.
    With `by_warps` each warp multiplies its 16 of each 64 rows for itself, by instructions that every device since sm_80
    has, and the sums are ready at once; it rounds f32 to tf32. With `fresh` the sums are those of these pieces alone.

    ```mlir
    %s = tsr_tile.multiply %v128, %slot, %slot rows 64 columns 256 depth 64 right_across : bf16, vector<128xf32>
    ```
  }];
  let arguments = (ins AnyType:$sums, I64:$left, I64:$right, I64Attr:$rows, I64Attr:$columns, I64Attr:$depth,
                       UnitAttr:$left_across, UnitAttr:$right_across, UnitAttr:$by_warps, UnitAttr:$fresh,
                       TypeAttr:$dtype, OptionalAttr<TypeAttr>:$right_dtype);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $sums `,` $left `,` $right `rows` $rows `columns` $columns `depth` $depth (`left_across` $left_across^)?
    (`right_across` $right_across^)? (`by_warps` $by_warps^)? (`fresh` $fresh^)? attr-dict `:` $dtype
    (`by` $right_dtype^)? `,` type($result)
  }];
  let hasVerifier = 1;
}

def TsrTile_MultipliedOp : TsrTile_Op<"multiplied", [MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["sums", "result"]>]> {
  let summary = "Waits until at most `pending` products of this warp group are on their way";
  let description = [{
    ```mlir
    %s = tsr_tile.multiplied %v128 pending 1 : vector<128xf32>
    ```
  }];
  let arguments = (ins AnyType:$sums, I64Attr:$pending);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$sums `pending` $pending attr-dict `:` type($result)";
}

def TsrTile_PromoteOp : TsrTile_Op<"promote", [Pure, AttrSizedOperandSegments, AllTypesMatch<["sums", "result"]>]> {
  let summary = "Adds sums of some columns to those of all";
  let description = [{
    `part` has the sums of 64 rows that are numbers `from` and on of `sums`. Tensor cores keep fewer bits of sums of f8
    than f32 has, so few products are added up there, and the rest here. With scales each is multiplied on the way, in
    one instruction: those of the thread's row, and those of the row eight further down.

    ```mlir
    %s = tsr_tile.promote %v64, %v128[64] : vector<64xf32>, vector<128xf32>
    %t = tsr_tile.promote %v64, %v128[64] by %scalar, %scalar : vector<64xf32>, vector<128xf32>
    ```
  }];
  let arguments = (ins AnyType:$part, AnyType:$sums, I64Attr:$from, Optional<F32>:$upper, Optional<F32>:$lower);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $part `,` $sums `[` $from `]` (`by` $upper^ `,` $lower)? attr-dict `:` type($part) `,` type($result)
  }];
  let hasVerifier = 1;
}

def TsrTile_WarpBarrierOp : TsrTile_Op<"warp_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "All threads of the warp come here before any goes on";
  let description = [{
    ```mlir
    tsr_tile.warp_barrier
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def TsrTile_GroupBarrierOp : TsrTile_Op<"group_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "All 128 threads of warp group number `group` come here before any goes on";
  let description = [{
    ```mlir
    tsr_tile.group_barrier %n
    ```
  }];
  let arguments = (ins I64:$group);
  let assemblyFormat = "$group attr-dict";
}

def TsrTile_ClusterBarrierOp : TsrTile_Op<"cluster_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "All threads of all blocks of the cluster come here before any goes on";
  let description = [{
    With `relaxed` the only writes that others see afterwards are signals that were made. Nobody waits for what is on
    its way to memory then.

    ```mlir
    tsr_tile.cluster_barrier
    ```
  }];
  let arguments = (ins UnitAttr:$relaxed);
  let assemblyFormat = "(`relaxed` $relaxed^)? attr-dict";
}

def TsrTile_TakeOp : TsrTile_Op<"take", [Pure, AllTypesMatch<["upper", "lower"]>]> {
  let summary = "Sums of a thread as they lie";
  let description = [{
    16 sums of each thread from number `from` on are 32 columns of 16 rows. Of every eight columns thread t of the warp
    has 2 * (t mod 4) and the one after it: of row t / 4, and of the row eight further down.

    ```mlir
    %upper, %lower = tsr_tile.take %v128[16] : vector<128xf32> -> vector<8xf32>
    ```
  }];
  let arguments = (ins AnyType:$sums, I64Attr:$from);
  let results = (outs VectorOfLengthAndType<[8], [F32]>:$upper, VectorOfLengthAndType<[8], [F32]>:$lower);
  let assemblyFormat = "$sums `[` $from `]` attr-dict `:` type($sums) `->` type($upper)";
  let hasVerifier = 1;
}

// Each warp has places in shared memory for pieces of 16 rows of 64 elements of two bytes, or of 32 of f32, as
// tsr_tile.copy would leave them. 32 columns at a time are laid down and taken up as tsr_tile.take has them: halves of a
// piece, or all of one of f32.

def TsrTile_LayDownOp : TsrTile_Op<"lay_down", [MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["upper", "lower"]>]> {
  let summary = "Writes half a piece to shared memory";
  let description = [{
    `half` is 0 or 1, and 0 of f32. All threads of a warp do this together.

    ```mlir
    tsr_tile.lay_down %v8, %v8 to %slot half 1 : vector<8xf32> -> bf16
    ```
  }];
  let arguments = (ins VectorOfLengthAndType<[8], [F32]>:$upper, VectorOfLengthAndType<[8], [F32]>:$lower, I64:$slot,
                       I64Attr:$half, TypeAttr:$dtype);
  let assemblyFormat = "$upper `,` $lower `to` $slot `half` $half attr-dict `:` type($upper) `->` $dtype";
  let hasVerifier = 1;
}

def TsrTile_TakeUpOp : TsrTile_Op<"take_up", [MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["upper", "lower"]>]> {
  let summary = "Reads half a piece from shared memory";
  let description = [{
    ```mlir
    %upper, %lower = tsr_tile.take_up %slot half 0 : bf16 -> vector<8xf32>
    ```
  }];
  let arguments = (ins I64:$slot, I64Attr:$half, TypeAttr:$dtype);
  let results = (outs VectorOfLengthAndType<[8], [F32]>:$upper, VectorOfLengthAndType<[8], [F32]>:$lower);
  let assemblyFormat = "$slot `half` $half attr-dict `:` $dtype `->` type($upper)";
  let hasVerifier = 1;
}

def TsrTile_CollectOp : TsrTile_Op<"collect", [MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["upper", "lower"]>]> {
  let summary = "Sums of a warp as runs along rows";
  let description = [{
    16 sums of each thread from number `from` on are 32 columns of 16 rows. The four threads that share rows exchange
    them: thread t of the warp gets columns 8 * (t mod 4) to 8 * (t mod 4) + 7 of row t / 4, and of the row eight further
    down.

    ```mlir
    %upper, %lower = tsr_tile.collect %v128[16] : vector<128xf32> -> vector<8xf32>
    ```
  }];
  let arguments = (ins AnyType:$sums, I64Attr:$from);
  let results = (outs VectorOfLengthAndType<[8], [F32]>:$upper, VectorOfLengthAndType<[8], [F32]>:$lower);
  let assemblyFormat = "$sums `[` $from `]` attr-dict `:` type($sums) `->` type($upper)";
  let hasVerifier = 1;
}

// ---- few rows
//
// Where a product has few rows its right factor is read once, from memory to registers. A warp has 16, 32 or 64 columns
// of the result and 32 elements of their sums at a time. With g = lane / 4 and t = lane mod 4, a thread has elements 8 t
// to 8 t + 7 of the sum, of rows 8 r + g of the left factor and of these columns:
//
// - where the right factor lies along the sum, g and g + 8 of each 16: two times 16 bytes
// - where it lies across, one, two or four pairs of columns from pair number g * (columns / 16) on: a row each for the
//   eight elements. Of each pair the first is column g of an instruction, the second one column g + 8.

def TsrTile_ReadOp : TsrTile_Op<"read", [MemoryEffects<[MemRead]>]> {
  let summary = "Words of a view as they lie, for tsr_tile.multiply_read";
  let description = [{
    1, 2 or 4 words of 32 bits from view[offset] on, a multiple of their size; zeros where a condition does not hold, and
    nothing is read. They are read once: no first-level cache keeps them, unless they are `shared` with other warps.

    ```mlir
    %w = tsr_tile.read %view[%offset] if %flag : bf16 -> vector<4xi32>
    %x = tsr_tile.read %view[%offset] shared : bf16 -> vector<4xi32>
    ```
  }];
  let arguments = (ins Tsr_Pointer:$view, I64:$offset, Optional<I1>:$condition, UnitAttr:$shared, TypeAttr:$dtype);
  let results = (outs AnyType:$words);
  let assemblyFormat = [{
    $view `[` $offset `]` (`if` $condition^)? (`shared` $shared^)? attr-dict `:` $dtype `->` type($words)
  }];
  let hasVerifier = 1;
}

def TsrTile_MultiplyReadOp : TsrTile_Op<"multiply_read", [Pure, AttrSizedOperandSegments]> {
  let summary = "Adds products of what a warp has read to its sums";
  let description = [{
    `right` is what the threads have of the right factor for 32 elements of the sum, along it or `across`, `left` what
    they have of the left one, for eight rows each. Sums are four for each eight rows and, within them, each 16 columns:
    of column g rows 2 t and 2 t + 1, and of column g + 8 the same.

    ```mlir
    %s = tsr_tile.multiply_read [%v4], [%w4, %w4], [%w4] : bf16, vector<4xi32>
    %q = tsr_tile.multiply_read [%v4], [%n0, %n0, %n0, %n0, %n0, %n0, %n0, %n0], [%w4] across : f16, i32
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$sums, Variadic<AnyType>:$right, Variadic<AnyType>:$left, UnitAttr:$across,
                       TypeAttr:$dtype);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = [{
    `[` $sums `]` `,` `[` $right `]` `,` `[` $left `]` (`across` $across^)? attr-dict `:` $dtype `,`
    custom<Words>(ref($sums), ref($right), ref($left), type($sums), type($right), type($left), type($results))
  }];
  let hasVerifier = 1;
}

def TsrTile_LeaveOp : TsrTile_Op<"leave", [MemoryEffects<[MemWrite]>]> {
  let summary = "Writes four sums to shared memory";
  let description = [{
    They are two rows, which lie `pitch` bytes apart, of two columns, `apart` bytes apart, from byte `slot` on.

    ```mlir
    tsr_tile.leave %v4 to %slot pitch 144 apart 32 : vector<4xf32>
    ```
  }];
  let arguments = (ins VectorOfLengthAndType<[4], [F32]>:$sums, I64:$slot, I64Attr:$pitch, I64Attr:$apart);
  let assemblyFormat = "$sums `to` $slot `pitch` $pitch `apart` $apart attr-dict `:` type($sums)";
}

def TsrTile_LeaveGroupOp : TsrTile_Op<"leave_group", [MemoryEffects<[MemWrite]>]> {
  let summary = "Writes the sums that a group has of a product to shared memory";
  let description = [{
    As tsr_tile.multiply has them: of each block of 64 rows, which have `columns` columns, a thread has pairs of every
    eight columns, in two rows that are eight apart. Rows lie `pitch` bytes apart; the thread's first pair goes to byte
    `slot`.

    ```mlir
    tsr_tile.leave_group %v64 to %slot pitch 544 columns 128 : vector<64xf32>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[1], [F32]>:$sums, I64:$slot, I64Attr:$pitch, I64Attr:$columns);
  let assemblyFormat = "$sums `to` $slot `pitch` $pitch `columns` $columns attr-dict `:` type($sums)";
  let hasVerifier = 1;
}

include "tile_attention.td"

#endif
