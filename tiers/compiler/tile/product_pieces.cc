#include "tiers/compiler/tile/product_pieces.h"

#include "tiers/compiler.h"

using namespace mlir;

namespace tessera::compiler {

bool ProductPieces::Transposes(StringRef which) const {
  auto attr = product_->getAttrOfType<BoolAttr>(which);
  return attr && attr.getValue();
}

Dim ProductPieces::DepthOf() {
  const SmallVector<Dim> dims = DimsOf(product_->getOperand(0).getType());
  return dims[dims.size() - (Transposes("transpose_a") ? 2 : 1)];
}

ProductPieces::Ring ProductPieces::Next(const Ring& ring) {
  Value next = Sum(ring.slot, I64(1));
  Value wraps = Compare(arith::CmpIPredicate::eq, next, I64(s_.stages));
  Value other = arith::XOrIOp::create(b_, loc_, ring.phase, I64(1));
  return {arith::SelectOp::create(b_, loc_, wraps, I64(0), next),
          arith::SelectOp::create(b_, loc_, wraps, other, ring.phase)};
}

bool ProductPieces::FindFactor(Matrix& matrix, unsigned operand, int64_t lines, Operation* product) {
  if (product == nullptr) product = product_;
  const auto transposes = [&](StringRef which) {
    auto attr = product->getAttrOfType<BoolAttr>(which);
    return attr && attr.getValue();
  };
  const size_t index = cast<BlockArgument>(product->getOperand(operand)).getArgNumber();
  const ViewPlan& v = nest_.views[index];
  const int64_t rank = v.type.getRank();
  const bool dense = !v.known || v.known.empty();
  int64_t run = rank - 1;
  if (!dense && v.known[run] != 1) run = rank - 2;
  if (!dense && v.known[run] != 1) return false;
  const int64_t other = run == rank - 1 ? rank - 2 : rank - 1;
  // The last dim counts rows (columns) of the result, not elements of a sum.
  const bool is_last_line = operand == 0 ? transposes("transpose_a") : !transposes("transpose_b");
  matrix.view = index;
  matrix.is_last = run == rank - 1;
  matrix.is_across = (run == rank - 1) == is_last_line;
  SmallVector<int64_t> map = {static_cast<int64_t>(index), run, s_.depth, other, lines};
  if (matrix.is_across) map[2] = map[4] = 64;
  const SmallVector<Dim> dims = DimsOf(v.type);
  for (int64_t d = rank - 3; d >= 0; --d) {
    if (dims[static_cast<size_t>(d)].is_one()) continue;
    map.append({d, 1});
    matrix.batch.push_back(rank_ - static_cast<size_t>(rank - d));
    matrix.dims.push_back(d);
  }
  if (is_tf32_) map.push_back(tiers::kToTf32);
  matrix.map = DenseI64ArrayAttr::get(kernel_.getContext(), map);
  return matrix.batch.size() <= 3;
}

void ProductPieces::Copy(const Matrix& matrix, int64_t map, ArrayRef<Value> batch, Value line, Value along, Value slot,
                         Value signal, int64_t lines, int64_t blocks) {
  const int64_t step = matrix.is_across ? 64 : lines;
  for (int64_t at = 0; at < lines; at += step) {
    Value here = at == 0 ? line : Sum(line, I64(at));
    SmallVector<Value> indices = {matrix.is_across ? here : along, matrix.is_across ? along : here};
    for (size_t d : matrix.batch) indices.push_back(batch[d]);
    tile::CopyOp::create(b_, loc_, b_.getI64IntegerAttr(map), indices, at == 0 ? slot : Sum(slot, I64(at * kRowBytes)),
                         signal, blocks > 1 ? b_.getI64IntegerAttr(blocks) : IntegerAttr());
  }
}

Value ProductPieces::Multiply(Value sums, Value left, Value right, int64_t columns, bool by_warps, bool fresh) {
  auto unit = [&](bool is) { return is ? b_.getUnitAttr() : UnitAttr(); };
  Type dtype = is_tf32_ ? Type(FloatTF32Type::get(b_.getContext())) : dtype_;
  return tile::MultiplyOp::create(b_, loc_, sums.getType(), sums, left, right, b_.getI64IntegerAttr(s_.OwnRows()),
                                  b_.getI64IntegerAttr(columns), b_.getI64IntegerAttr(s_.depth), unit(left_.is_across),
                                  unit(right_.is_across), unit(by_warps), unit(fresh), TypeAttr::get(dtype),
                                  right_dtype_ == dtype_ ? TypeAttr() : TypeAttr::get(right_dtype_));
}

void ProductPieces::CollectOperands(Value v, llvm::SmallPtrSet<Value, 8>& into) {
  if (v.getDefiningOp() == product_) return;
  if (isa<BlockArgument>(v)) {
    into.insert(v);
    return;
  }
  for (Value o : v.getDefiningOp()->getOperands()) CollectOperands(o, into);
}

std::pair<Value, Value> ProductPieces::Split(Value x, Value by) {
  auto narrow = [&](Value v) { return arith::TruncIOp::create(b_, loc_, b_.getI32Type(), v).getResult(); };
  Value quotient = arith::DivUIOp::create(b_, loc_, narrow(x), narrow(by));
  quotient = arith::ExtUIOp::create(b_, loc_, b_.getI64Type(), quotient);
  return {quotient, Minus(x, Mul(quotient, by))};
}

}  // namespace tessera::compiler
