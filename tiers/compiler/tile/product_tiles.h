// Matrix products in tiles of registers: copies of their factors, and the sums.
#ifndef TESSERA_TIERS_COMPILER_TILE_PRODUCT_TILES_H_
#define TESSERA_TIERS_COMPILER_TILE_PRODUCT_TILES_H_

#include <functional>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tiers/compiler/sched/product.h"
#include "tiers/compiler/tile/row_lowering.h"

namespace tessera::compiler {

/// A factor of a product: element (i, k) of the left one, (k, j) of the right one, is at
/// view[base + (i or j) * line + k * along].
struct Factor {
  mlir::Value view, base, line, along;
  mlir::Type dtype;
  bool is_operand = false;  // not rows in scratch
  size_t index = 0;         // of the operand
  bool runs_along = false;  // along == 1
  bool runs_line = false;   // line == 1
  mlir::Value head, first;  // of a left one whose rows are of several heads: from head to head; the first row
  /// Of a left one that is in no memory: computes elements k0 to k1 of row i, and writes them to view[at + k].
  std::function<void(mlir::Value i, mlir::Value k0, mlir::Value k1, mlir::Value view, mlir::Value at)> compute;
};

/// What kernels with a product have in common; tile/lower_product.cc says in which order it comes.
class ProductTiles {
 protected:
  ProductTiles(RowLowering rows, const ProductSchedule& schedule, const CompileOptions& options, mlir::Type type);

  // Where sums are between two pieces of the depth. Without a place there is one piece.
  struct Sums {
    mlir::Value view;
    mlir::Value width;  // elements of a row
  };

  // A panel of the right factor: `nr` columns from view[base + k * stride] on. Not a copy, where there is a factor.
  struct Panel {
    mlir::Value view, base, stride;
    const Factor* in_place = nullptr;
  };

  static int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
  int64_t Wide(int64_t columns) const { return RoundUp(columns, w_); }
  mlir::OpBuilder& b() { return rows_.b(); }
  mlir::Location loc() const { return rows_.loc(); }
  mlir::Value I64(int64_t n) { return rows_.I64(n); }
  mlir::Value Min(mlir::Value x, mlir::Value y) { return mlir::arith::MinSIOp::create(b(), loc(), x, y); }
  mlir::Value Sub(mlir::Value x, mlir::Value y) { return mlir::arith::SubIOp::create(b(), loc(), x, y); }
  mlir::Value Div(mlir::Value x, mlir::Value y) { return mlir::arith::DivUIOp::create(b(), loc(), x, y); }
  mlir::Value Rem(mlir::Value x, mlir::Value y) { return mlir::arith::RemUIOp::create(b(), loc(), x, y); }
  mlir::Value CeilDiv(mlir::Value x, int64_t by) {
    return mlir::arith::DivUIOp::create(b(), loc(), rows_.Sum(x, I64(by - 1)), I64(by));
  }

  // Elements of scratch; the result is their offset in bytes.
  mlir::Value Reserve(int64_t elements) {
    mlir::Value at = I64(fixed_);
    fixed_ = RoundUp(fixed_ + elements * bytes_, 64);
    return at;
  }
  mlir::Value Scratch(mlir::Value offset) {
    return mlir::LLVM::GEPOp::create(b(), loc(), rows_.scratch().getType(), b().getI8Type(), rows_.scratch(), offset);
  }

  // sink(i, n, left): the tile of rows i to i + left and columns from n on is in scratch. Without a sink the sums are
  // the result.
  void Multiply(const Factor& x, const Factor& y, mlir::Value panel_scratch, mlir::Value depth, mlir::Value count,
                mlir::Value n0, mlir::Value n1, mlir::Value columns, Sums sums,
                llvm::function_ref<void(mlir::Value, mlir::Value, mlir::Value)> sink);
  mlir::Value Greater(mlir::Value x, mlir::Value y);
  mlir::Value Equal(mlir::Value x, mlir::Value y);
  mlir::Value LoadWide(mlir::Value view, mlir::Value at, int64_t lanes);
  void StoreWide(mlir::Value x, mlir::Value view, mlir::Value at);
  mlir::Value Zero(int64_t lanes);
  // An element of a factor and those that follow along one of its directions, in the computing dtype.
  mlir::Value LoadFactor(const Factor& f, mlir::Value at, int64_t lanes, bool is_run, mlir::Value stride);
  // fn(at, lanes) for 0 to n.
  void AlongRow(mlir::Value n, llvm::function_ref<void(mlir::Value, int64_t)> fn);
  // Rows of the left factor next to each other, each a run along the sum; what is computed before is, on the way, from
  // element k0 on (null: 0).
  Factor CopyRows(const Factor& x, mlir::Value count, mlir::Value k0, mlir::Value length);
  // All panels of a block at once, where the right factor has runs along its columns: it is then read run by run.
  void PackBlock(const Factor& y, mlir::Value scratch, mlir::Value length, mlir::Value n0, mlir::Value n1);
  // The panel at y.base, `columns` of which are there.
  Panel PackPanel(const Factor& y, mlir::Value scratch, mlir::Value length, mlir::Value columns);
  // w columns from j on, w elements of each along the sum, transposed in registers.
  void PackSquare(const Factor& y, const Panel& packed, mlir::Value k, int64_t j);
  // Fewer columns than a panel has: zeros beyond.
  void PackPart(const Factor& y, const Panel& packed, mlir::Value length, mlir::Value columns);
  // Vectors, as many as each has lanes; the result has in each what was in one lane of all.
  llvm::SmallVector<mlir::Value> Transpose(llvm::SmallVector<mlir::Value> square);

  // ---- factors of bf16 that are multiplied as they are (tile/product_words.cc)

  // Elements along the sum that are multiplied at a time: a group.
  int64_t OfGroup() const { return 2 * schedule_.words; }
  // Numbers, or words, that a panel or the copy of a row has for a whole piece, for each of its columns.
  int64_t PieceEntries() const { return schedule_.words > 0 ? schedule_.depth / 2 : schedule_.depth; }
  // As CopyRows, PackBlock and PackPanel: zeros are put where a last group has fewer elements.
  Factor CopyWords(const Factor& x, mlir::Value count, mlir::Value k0, mlir::Value length);
  void PackWordsOfBlock(const Factor& y, mlir::Value scratch, mlir::Value length, mlir::Value n0, mlir::Value n1);
  Panel PackWords(const Factor& y, mlir::Value scratch, mlir::Value length, mlir::Value columns);
  // Group number g of a whole panel, whose first element is at `from`.
  void PackGroup(const Factor& y, mlir::Value from, const Panel& packed, mlir::Value g);
  // w columns, or two, from column j on, and as many words along the sum, from group g on.
  void PackSquareOfWords(const Factor& y, const Panel& packed, mlir::Value g, int64_t j);
  // Groups g0 to g1 of some columns, one by one, and zeros beyond them.
  void PackWordsOneByOne(const Factor& y, const Panel& packed, mlir::Value g0, mlir::Value g1, mlir::Value length,
                         mlir::Value columns);
  mlir::Value LoadWords(mlir::Value view, mlir::Value at, int64_t lanes);
  void StoreWords(mlir::Value words, mlir::Value view, mlir::Value at);
  // Words of elements that follow one another along the sum.
  mlir::Value WordsAlong(const Factor& f, mlir::Value at, int64_t lanes);
  // Elements k and k + 1 of the line that begins at `from`; zeros from `end` on.
  mlir::Value WordAt(const Factor& f, mlir::Value from, mlir::Value k, mlir::Value end);
  mlir::Value Words(mlir::Value low, mlir::Value high);
  mlir::Value Shuffle(mlir::Value a, mlir::Value c, llvm::ArrayRef<int32_t> lanes);
  // RegisterTile for two words at a time: sums of two rows and two columns lie together.
  llvm::SmallVector<mlir::Value> TileOfPairs(const Factor& x, const Panel& panel, mlir::Value length, mlir::Value i,
                                             mlir::Value rows, llvm::ArrayRef<mlir::Value> start);

  // Where row i of the left factor begins.
  mlir::Value RowOf(const Factor& x, mlir::Value i);
  // mr x nr / w vectors: zeros, or where the last piece left them.
  llvm::SmallVector<mlir::Value> Start(const Sums& sums, mlir::Value offset, mlir::Value is_first);
  mlir::Value InSums(const Sums& sums, mlir::Value offset, int64_t r, int64_t v);
  // With `words` of words, one at a time.
  llvm::SmallVector<mlir::Value> RegisterTile(const Factor& x, const Panel& panel, mlir::Value length, mlir::Value i,
                                              mlir::Value rows, llvm::ArrayRef<mlir::Value> start, bool words);
  // The right factor is read once, four of its rows at a time; sums are in scratch, one row for each row of the result.
  void Stream(const Factor& x, const Factor& y, mlir::Value depth, mlir::Value count, mlir::Value n0, mlir::Value n1,
              mlir::Value sums, mlir::Value width);
  // mr x nr scalars: vectors run along the sum.
  llvm::SmallVector<mlir::Value> DotTile(const Factor& x, const Factor& y, mlir::Value length, mlir::Value i,
                                         mlir::Value rows, mlir::Value columns);
  // The tile goes to the sums of the next piece, or is done.
  void Finish(llvm::ArrayRef<mlir::Value> tile, const Sums& sums, mlir::Value offset, mlir::Value is_last,
              bool has_sink, llvm::function_ref<void()> sink);

  RowLowering rows_;
  const ProductSchedule schedule_;
  const mlir::Type type_;  // that is computed in
  const bool lanes_of_a_;
  const int64_t bytes_, w_;
  int64_t fixed_ = 0;
  int64_t second_depth_ = 0;
  mlir::Value share_;  // heads whose rows the left factor has
  bool sums_in_pieces_ = false, packs_block_ = false;
  // Offsets in scratch, in bytes. A row of f32 is there where what becomes words is computed.
  mlir::Value panel_, copy_, row_, tile_, second_panel_, second_sums_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TILE_PRODUCT_TILES_H_
