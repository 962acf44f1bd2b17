// LLVM has intrinsics for some of these instructions only, so all are written in PTX, one piece of text for each op.
//
// Sums go through the text of a product as operands that are read and written: so LLVM keeps them where they are until
// the wait, which names them too. All products of one piece of the sum stand in one text, with one fence and one
// commit.
#include "tiers/compiler/target/tensor_cores.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

class Writer {
 public:
  Writer(Operation* op, OpBuilder& b, llvm::function_ref<Value(Value)> shared)
      : b_(b), loc_(op->getLoc()), shared_(shared) {}

  Value Text(const std::string& text, const std::string& constraints, ValueRange operands, Type result = Type()) {
    auto op = LLVM::InlineAsmOp::create(
        b_, loc_, result ? TypeRange(result) : TypeRange(), operands, text, constraints,
        /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
        LLVM::AsmDialectAttr::get(b_.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
    return result ? op.getResult(0) : Value();
  }

  /// The address of a byte of shared memory, as instructions take it.
  Value Address(Value slot) { return LLVM::PtrToIntOp::create(b_, loc_, b_.getI32Type(), shared_(slot)); }
  Value Narrow(Value n) { return LLVM::TruncOp::create(b_, loc_, b_.getI32Type(), n); }
  Value Number(int64_t n) { return LLVM::ConstantOp::create(b_, loc_, b_.getI64Type(), b_.getI64IntegerAttr(n)); }
  Value Small(int64_t n) {
    return LLVM::ConstantOp::create(b_, loc_, b_.getI32Type(), b_.getI32IntegerAttr(static_cast<int32_t>(n)));
  }

  /// How instructions see a piece: where it begins (in sixteens of bytes), how far apart its blocks of 64 lines across
  /// the sum are, and its groups of eight rows; and that rows have 128 bytes, exchanged as the copy did.
  Value Descriptor(Value slot, int64_t depth) {
    const int64_t blocks = depth * 128 / 16, eights = 1024 / 16;
    Value at = LLVM::ZExtOp::create(b_, loc_, b_.getI64Type(), Address(slot));
    at = LLVM::AndOp::create(b_, loc_, LLVM::LShrOp::create(b_, loc_, at, Number(4)), Number(0x3fff));
    const int64_t fixed = (int64_t{1} << 62) | (eights << 32) | (blocks << 16);
    return LLVM::OrOp::create(b_, loc_, at, Number(fixed));
  }

  SmallVector<Value> Elements(Value vector) {
    SmallVector<Value> all;
    for (int64_t k = 0; k < cast<VectorType>(vector.getType()).getNumElements(); ++k)
      all.push_back(LLVM::ExtractElementOp::create(b_, loc_, vector, Small(k)));
    return all;
  }
  /// Text that reads and writes the sums ($0 and on), with `more` operands behind them ($2n and on).
  Value WithSums(const std::string& text, Value sums, ArrayRef<Value> more, const std::string& constraint = "l,") {
    SmallVector<Value> operands = Elements(sums);
    const size_t n = operands.size();
    std::string constraints;
    for (size_t k = 0; k < n; ++k) constraints += "=f,";
    for (size_t k = 0; k < n; ++k) constraints += std::to_string(k) + ",";
    for (size_t k = 0; k < more.size(); ++k) constraints += constraint;
    constraints.pop_back();
    operands.append(more.begin(), more.end());
    auto type = LLVM::LLVMStructType::getLiteral(b_.getContext(), SmallVector<Type>(n, b_.getF32Type()));
    Value all = Text(text, constraints, operands, type);
    Value vector = LLVM::PoisonOp::create(b_, loc_, sums.getType());
    for (size_t k = 0; k < n; ++k) {
      Value one = LLVM::ExtractValueOp::create(b_, loc_, all, ArrayRef<int64_t>{static_cast<int64_t>(k)});
      vector = LLVM::InsertElementOp::create(b_, loc_, vector, one, Small(static_cast<int64_t>(k)));
    }
    return vector;
  }

  Value Multiply(tile::MultiplyOp op) {
    const auto rows = static_cast<int64_t>(op.getRows()), columns = static_cast<int64_t>(op.getColumns());
    const auto depth = static_cast<int64_t>(op.getDepth());
    const int64_t sums = rows * columns / 128, of_block = columns / 2;
    const std::string dtype = op.getDtype().isBF16() ? "bf16" : "f16";
    const std::string left = "$" + std::to_string(2 * sums), right = "$" + std::to_string(2 * sums + 1);
    // Steps of 16 along the sum: 32 bytes of a row, or 16 rows.
    const int64_t left_step = op.getLeftAcross() ? 128 : 2, right_step = op.getRightAcross() ? 128 : 2;
    std::string text = "{\n.reg .b64 a, b;\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\nwgmma.fence.sync.aligned;\n";
    for (int64_t block = 0; block < rows / 64; ++block) {
      for (int64_t k = 0; k < depth / 16; ++k) {
        text += "add.s64 a, " + left + ", " + std::to_string(block * 512 + k * left_step) + ";\n";
        text += "add.s64 b, " + right + ", " + std::to_string(k * right_step) + ";\n";
        text += "wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k16.f32." + dtype + "." + dtype + " {";
        for (int64_t e = 0; e < of_block; ++e) text += (e > 0 ? ",$" : "$") + std::to_string(block * of_block + e);
        text += "}, a, b, p, 1, 1, " + std::string(op.getLeftAcross() ? "1" : "0") + ", " +
                (op.getRightAcross() ? "1" : "0") + ";\n";
      }
    }
    text += "wgmma.commit_group.sync.aligned;\n}";
    return WithSums(text, op.getSums(), {Descriptor(op.getLeft(), depth), Descriptor(op.getRight(), depth)});
  }

  // Each warp has 16 of every 64 rows. A line of a piece, 128 bytes, begins at a multiple of them, and its sixteens of
  // bytes are exchanged by the line's number modulo eight: so the place of the next 16 elements along the sum is that
  // of the first with bits flipped, where lines lie along the sum, and 16 lines further where they lie across.
  Value MultiplyByWarp(tile::MultiplyOp op) {
    const auto rows = static_cast<int64_t>(op.getRows()), columns = static_cast<int64_t>(op.getColumns());
    const auto depth = static_cast<int64_t>(op.getDepth());
    const int64_t sums = rows * columns / 128, of_block = columns / 2, blocks = rows / 64;
    const bool left_across = op.getLeftAcross(), right_across = op.getRightAcross();
    Value thread = LLVM::CallIntrinsicOp::create(b_, loc_, b_.getI32Type(),
                                                 b_.getStringAttr("llvm.nvvm.read.ptx.sreg.tid.x"), ValueRange())
                       .getResult(0);
    auto bits = [&](int64_t from, int64_t count) {
      return LLVM::AndOp::create(b_, loc_, LLVM::LShrOp::create(b_, loc_, thread, Small(from)),
                                 Small((int64_t{1} << count) - 1))
          .getResult();
    };
    auto times = [&](Value x, int64_t n) { return LLVM::MulOp::create(b_, loc_, x, Small(n)).getResult(); };
    auto plus = [&](Value x, Value y) { return LLVM::AddOp::create(b_, loc_, x, y).getResult(); };
    // A thread names one line of the four blocks of 8 x 8 elements that an instruction loads: `line` of them, and which
    // sixteen bytes of it.
    Value low = bits(0, 3), second = bits(3, 1), third = bits(4, 1), warp = bits(5, 2);
    auto address = [&](Value slot, Value line, Value sixteen) {
      Value place = LLVM::XOrOp::create(b_, loc_, sixteen, low);
      return plus(Address(slot), plus(times(line, 128), times(place, 16)));
    };
    Value left = left_across ? address(op.getLeft(), plus(times(third, 8), low), plus(times(warp, 2), second))
                             : address(op.getLeft(), plus(times(warp, 16), plus(times(second, 8), low)), third);
    Value right = right_across ? address(op.getRight(), plus(times(second, 8), low), third)
                               : address(op.getRight(), plus(times(third, 8), low), second);
    const std::string dtype = op.getDtype().isBF16() ? "bf16" : "f16";
    const std::string a = "$" + std::to_string(2 * sums), b = "$" + std::to_string(2 * sums + 1);
    auto load = [](const std::string& to, bool across, const std::string& at, int64_t plus) {
      return "ldmatrix.sync.aligned.m8n8.x4" + std::string(across ? ".trans" : "") + ".shared.b16 {" + to + "0," + to +
             "1," + to + "2," + to + "3}, [" + at + "+" + std::to_string(plus) + "];\n";
    };
    std::string text = "{\n.reg .b32 l<4>, m<4>, r<4>, p, q<4>;\n";
    // Of lines across the sum, the four sixteens of columns of a block.
    for (int64_t n = 0; n < 4; ++n)
      text += "xor.b32 q" + std::to_string(n) + ", " + b + ", " + std::to_string(n * 32) + ";\n";
    for (int64_t k = 0; k < depth / 16; ++k) {
      if (!left_across) text += "xor.b32 p, " + a + ", " + std::to_string(k * 32) + ";\n";
      for (int64_t block = 0; block < blocks; ++block)
        text += load(block == 0 ? "l" : "m", left_across, left_across ? a : "p",
                     block * 8192 + (left_across ? k * 2048 : 0));
      for (int64_t n = 0; n < columns / 16; ++n) {
        text += right_across ? load("r", true, "q" + std::to_string(n % 4), n / 4 * 8192 + k * 2048)
                             : load("r", false, "q" + std::to_string(k), n * 2048);
        for (int64_t block = 0; block < blocks; ++block) {
          const std::string x = block == 0 ? "l" : "m";
          for (int64_t half = 0; half < 2; ++half) {
            std::string own;
            for (int64_t e = 0; e < 4; ++e)
              own += (e > 0 ? ",$" : "$") + std::to_string(block * of_block + n * 8 + half * 4 + e);
            const std::string y = std::to_string(2 * half), z = std::to_string(2 * half + 1);
            text += "mma.sync.aligned.m16n8k16.row.col.f32." + dtype + "." + dtype + ".f32 {" + own + "}, {" + x +
                    "0," + x + "1," + x + "2," + x + "3}, {r" + y + ",r" + z + "}, {" + own + "};\n";
          }
        }
      }
    }
    return WithSums(text + "}", op.getSums(), {left, right}, "r,");
  }

  // Threads whose numbers differ in a bit exchange halves of what they have: first every other eight columns, then
  // every other sixteen.
  void Collect(tile::CollectOp op) {
    Type i32 = b_.getI32Type();
    Value thread =
        LLVM::CallIntrinsicOp::create(b_, loc_, i32, b_.getStringAttr("llvm.nvvm.read.ptx.sreg.tid.x"), ValueRange())
            .getResult(0);
    auto exchange = [&](Value& low, Value& high, Value is_upper, int64_t mask) {
      Value sent = LLVM::SelectOp::create(b_, loc_, is_upper, low, high);
      Value got = LLVM::CallIntrinsicOp::create(
                      b_, loc_, i32, b_.getStringAttr("llvm.nvvm.shfl.sync.bfly.i32"),
                      ValueRange({Small(-1), LLVM::BitcastOp::create(b_, loc_, i32, sent), Small(mask), Small(31)}))
                      .getResult(0);
      got = LLVM::BitcastOp::create(b_, loc_, b_.getF32Type(), got);
      Value kept = LLVM::SelectOp::create(b_, loc_, is_upper, high, low);
      low = LLVM::SelectOp::create(b_, loc_, is_upper, got, kept);
      high = LLVM::SelectOp::create(b_, loc_, is_upper, kept, got);
    };
    auto has = [&](int64_t bit) {
      Value masked = LLVM::AndOp::create(b_, loc_, thread, Small(bit));
      return LLVM::ICmpOp::create(b_, loc_, LLVM::ICmpPredicate::ne, masked, Small(0)).getResult();
    };
    Value odd = has(1), upper = has(2);
    for (int64_t half = 0; half < 2; ++half) {
      // x[block][element]: two elements of each of four blocks of eight columns.
      Value x[4][2];
      for (int64_t block = 0; block < 4; ++block)
        for (int64_t e = 0; e < 2; ++e)
          x[block][e] = LLVM::ExtractElementOp::create(
              b_, loc_, op.getSums(), Small(static_cast<int64_t>(op.getFrom()) + block * 4 + half * 2 + e));
      for (int64_t e = 0; e < 2; ++e) {
        exchange(x[0][e], x[1][e], odd, 1);
        exchange(x[2][e], x[3][e], odd, 1);
        exchange(x[0][e], x[2][e], upper, 2);
        exchange(x[1][e], x[3][e], upper, 2);
      }
      // Now block b has the elements of thread b of the four.
      Value row = LLVM::PoisonOp::create(b_, loc_, op.getUpper().getType());
      for (int64_t k = 0; k < 8; ++k) row = LLVM::InsertElementOp::create(b_, loc_, row, x[k / 2][k % 2], Small(k));
      op.getResult(static_cast<unsigned>(half)).replaceAllUsesWith(row);
    }
  }

  void Copy(tile::CopyOp op, ArrayRef<Value> maps) {
    const size_t rank = op.getAt().size();
    SmallVector<Value> operands = {Address(op.getSlot()), maps[op.getMap()]};
    std::string text = "cp.async.bulk.tensor." + std::to_string(rank) +
                       "d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {";
    std::string constraints = "r,l,";
    for (size_t d = 0; d < rank; ++d) {
      operands.push_back(Narrow(op.getAt()[static_cast<unsigned>(d)]));
      text += (d > 0 ? ", $" : "$") + std::to_string(2 + d);
      constraints += "r,";
    }
    text += "}], [$" + std::to_string(2 + rank) + "];";
    operands.push_back(Address(op.getSignal()));
    Text(text, constraints + "r", operands);
  }

  Value Wait(tile::MultipliedOp op) {
    return WithSums("wgmma.wait_group.sync.aligned " + std::to_string(op.getPending()) + ";", op.getSums(), {});
  }

 private:
  OpBuilder& b_;
  const Location loc_;
  llvm::function_ref<Value(Value)> shared_;
};

}  // namespace

bool LowerTensorCoreOp(Operation* op, OpBuilder& b, llvm::function_ref<Value(Value)> shared, ArrayRef<Value> maps) {
  Writer w(op, b, shared);
  if (auto init = dyn_cast<tile::SignalInitOp>(op)) {
    w.Text("mbarrier.init.shared::cta.b64 [$0], " + std::to_string(init.getCount()) +
               ";\nfence.mbarrier_init.release.cluster;\nfence.proxy.async;",
           "r", w.Address(init.getSignal()));
  } else if (auto expect = dyn_cast<tile::SignalExpectOp>(op)) {
    w.Text("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], " + std::to_string(expect.getBytes()) + ";", "r",
           w.Address(expect.getSignal()));
  } else if (auto arrive = dyn_cast<tile::SignalArriveOp>(op)) {
    w.Text("mbarrier.arrive.shared::cta.b64 _, [$0];", "r", w.Address(arrive.getSignal()));
  } else if (auto wait = dyn_cast<tile::SignalWaitOp>(op)) {
    w.Text(
        "{\n.reg .pred p;\nAgain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;\n@p bra Over;\nbra Again;\n"
        "Over:\n}",
        "r,r", {w.Address(wait.getSignal()), w.Narrow(wait.getPhase())});
  } else if (auto registers = dyn_cast<tile::RegistersOp>(op)) {
    w.Text("setmaxnreg." + std::string(registers.getMore() ? "inc" : "dec") + ".sync.aligned.u32 " +
               std::to_string(registers.getCount()) + ";",
           "", {});
  } else if (auto copy = dyn_cast<tile::CopyOp>(op)) {
    w.Copy(copy, maps);
  } else if (auto multiply = dyn_cast<tile::MultiplyOp>(op)) {
    multiply.getResult().replaceAllUsesWith(multiply.getByWarps() ? w.MultiplyByWarp(multiply) : w.Multiply(multiply));
  } else if (auto multiplied = dyn_cast<tile::MultipliedOp>(op)) {
    multiplied.getResult().replaceAllUsesWith(w.Wait(multiplied));
  } else if (auto collect = dyn_cast<tile::CollectOp>(op)) {
    w.Collect(collect);
  } else {
    return false;
  }
  return true;
}

}  // namespace tessera::compiler
