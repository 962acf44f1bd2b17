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
  Value Small(int64_t n) {
    return LLVM::ConstantOp::create(b_, loc_, b_.getI32Type(), b_.getI32IntegerAttr(static_cast<int32_t>(n)));
  }

  /// How instructions see a piece: where it begins (in sixteens of bytes), how far apart its blocks of 64 lines across
  /// the sum are, and its groups of eight rows; and that rows have 128 bytes, exchanged as the copy did. The upper half
  /// is the same for all pieces, so there is arithmetic on the lower one only.
  Value LowerDescriptor(Value slot, int64_t depth) {
    const int64_t blocks = depth * 128 / 16;
    Value at = LLVM::LShrOp::create(b_, loc_, Address(slot), Small(4));
    return LLVM::OrOp::create(b_, loc_, LLVM::AndOp::create(b_, loc_, at, Small(0x3fff)), Small(blocks << 16));
  }
  static constexpr uint32_t kUpperDescriptor = (uint32_t{1} << 30) | (1024 / 16);

  SmallVector<Value> Elements(Value vector) {
    SmallVector<Value> all;
    for (int64_t k = 0; k < cast<VectorType>(vector.getType()).getNumElements(); ++k)
      all.push_back(LLVM::ExtractElementOp::create(b_, loc_, vector, Small(k)));
    return all;
  }
  /// Text that reads and writes the sums ($0 and on), with `more` operands behind them ($2n and on); `fresh`: it does
  /// not read them, and there are $n and on.
  Value WithSums(const std::string& text, Value sums, ArrayRef<Value> more, bool fresh = false) {
    const auto n = static_cast<size_t>(cast<VectorType>(sums.getType()).getNumElements());
    SmallVector<Value> operands = fresh ? SmallVector<Value>() : Elements(sums);
    std::string constraints;
    for (size_t k = 0; k < n; ++k) constraints += "=f,";
    for (size_t k = 0; k < operands.size(); ++k) constraints += std::to_string(k) + ",";
    for (size_t k = 0; k < more.size(); ++k) constraints += "r,";
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

  /// Of a piece along the sum: 32 bytes of a row each, or 16 rows.
  static constexpr int64_t kSteps = 4;

  Value Multiply(tile::MultiplyOp op) {
    const auto rows = static_cast<int64_t>(op.getRows()), columns = static_cast<int64_t>(op.getColumns());
    const auto depth = static_cast<int64_t>(op.getDepth());
    const int64_t sums = rows * columns / 128, of_block = columns / 2, first = op.getFresh() ? sums : 2 * sums;
    // Rows of tf32 and f8 always lie along the sum.
    const bool may_be_across = op.getDtype().isBF16() || op.getDtype().isF16();
    const std::string dtypes = "." + NameOf(op.getDtype()) + "." + NameOf(op.getRightDtype().value_or(op.getDtype()));
    const std::string left = "$" + std::to_string(first), right = "$" + std::to_string(first + 1);
    const int64_t elements = depth / kSteps;
    const int64_t left_step = op.getLeftAcross() ? 128 : 2, right_step = op.getRightAcross() ? 128 : 2;
    const std::string upper = ", " + std::to_string(kUpperDescriptor) + "};\n";
    std::string text =
        "{\n.reg .b32 l;\n.reg .b64 a, b;\n.reg .pred p, q;\nsetp.eq.u32 p, 0, 0;\nsetp.ne.u32 q, 0, 0;\n"
        "wgmma.fence.sync.aligned;\n";
    for (int64_t block = 0; block < rows / 64; ++block) {
      for (int64_t k = 0; k < kSteps; ++k) {
        text += "add.u32 l, " + left + ", " + std::to_string(block * 512 + k * left_step) + ";\nmov.b64 a, {l" + upper;
        text += "add.u32 l, " + right + ", " + std::to_string(k * right_step) + ";\nmov.b64 b, {l" + upper;
        text += "wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k" + std::to_string(elements) +
                ".f32" + dtypes + " {";
        for (int64_t e = 0; e < of_block; ++e) text += (e > 0 ? ",$" : "$") + std::to_string(block * of_block + e);
        text += std::string("}, a, b, ") + (op.getFresh() && k == 0 ? "q" : "p") + ", 1, 1";
        if (may_be_across)
          text += std::string(op.getLeftAcross() ? ", 1" : ", 0") + (op.getRightAcross() ? ", 1" : ", 0");
        text += ";\n";
      }
    }
    text += "wgmma.commit_group.sync.aligned;\n}";
    return WithSums(text, op.getSums(), {LowerDescriptor(op.getLeft(), depth), LowerDescriptor(op.getRight(), depth)},
                    op.getFresh());
  }
  static std::string NameOf(Type dtype) {
    return dtype.isBF16()                 ? "bf16"
           : dtype.isF16()                ? "f16"
           : isa<FloatTF32Type>(dtype)    ? "tf32"
           : isa<Float8E4M3FNType>(dtype) ? "e4m3"
                                          : "e5m2";
  }

  Value Promote(tile::PromoteOp op) {
    Value sums = op.getSums();
    for (auto [k, part] : llvm::enumerate(Elements(op.getPart()))) {
      Value at = Small(static_cast<int64_t>(op.getFrom() + k));
      Value sum = LLVM::ExtractElementOp::create(b_, loc_, sums, at);
      // Of four sums two are of the upper row.
      Value scale = k % 4 < 2 ? op.getUpper() : op.getLower();
      if (scale) {
        sum = LLVM::FMAOp::create(b_, loc_, part.getType(), part, scale, sum);
      } else {
        sum = LLVM::FAddOp::create(b_, loc_, sum, part);
      }
      sums = LLVM::InsertElementOp::create(b_, loc_, sums, sum, at);
    }
    return sums;
  }

  Value Thread() {
    return LLVM::CallIntrinsicOp::create(b_, loc_, b_.getI32Type(), b_.getStringAttr("llvm.nvvm.read.ptx.sreg.tid.x"),
                                         ValueRange())
        .getResult(0);
  }
  Value Bits(Value x, int64_t from, int64_t count) {
    return LLVM::AndOp::create(b_, loc_, LLVM::LShrOp::create(b_, loc_, x, Small(from)),
                               Small((int64_t{1} << count) - 1));
  }
  Value Times(Value x, int64_t n) { return LLVM::MulOp::create(b_, loc_, x, Small(n)); }
  Value Plus(Value x, Value y) { return LLVM::AddOp::create(b_, loc_, x, y); }

  // Each warp has 16 of every 64 rows. A line of a piece, 128 bytes, begins at a multiple of them, and its sixteens of
  // bytes are exchanged by the line's number modulo eight: so the place of the next 16 elements along the sum is that
  // of the first with bits flipped, where lines lie along the sum, and 16 lines further where they lie across. Eight
  // elements for tf32 have as many bytes, and threads that have pairs of others have one of them each.
  Value MultiplyByWarp(tile::MultiplyOp op) {
    const auto rows = static_cast<int64_t>(op.getRows()), columns = static_cast<int64_t>(op.getColumns());
    const int64_t sums = rows * columns / 128, of_block = columns / 2, blocks = rows / 64;
    const bool left_across = op.getLeftAcross(), right_across = op.getRightAcross();
    Value thread = Thread();
    // A thread names one line of the four blocks of 8 x 8 elements that an instruction loads: `line` of them, and which
    // sixteen bytes of it.
    Value low = Bits(thread, 0, 3), second = Bits(thread, 3, 1), third = Bits(thread, 4, 1), warp = Bits(thread, 5, 2);
    auto address = [&](Value slot, Value line, Value sixteen) {
      Value place = LLVM::XOrOp::create(b_, loc_, sixteen, low);
      return Plus(Address(slot), Plus(Times(line, 128), Times(place, 16)));
    };
    Value left = left_across ? address(op.getLeft(), Plus(Times(third, 8), low), Plus(Times(warp, 2), second))
                             : address(op.getLeft(), Plus(Times(warp, 16), Plus(Times(second, 8), low)), third);
    Value right = right_across ? address(op.getRight(), Plus(Times(second, 8), low), third)
                               : address(op.getRight(), Plus(Times(third, 8), low), second);
    const bool is_tf32 = isa<FloatTF32Type>(op.getDtype());
    const std::string dtype = NameOf(op.getDtype());
    const std::string instruction = std::string("mma.sync.aligned.m16n8") + (is_tf32 ? "k8" : "k16") + ".row.col.f32." +
                                    dtype + "." + dtype + ".f32 {";
    const std::string a = "$" + std::to_string(2 * sums), b = "$" + std::to_string(2 * sums + 1);
    auto load = [&](const std::string& to, bool across, const std::string& at, int64_t plus) {
      std::string text = "ldmatrix.sync.aligned.m8n8.x4" + std::string(across ? ".trans" : "") + ".shared.b16 {" + to +
                         "0," + to + "1," + to + "2," + to + "3}, [" + at + "+" + std::to_string(plus) + "];\n";
      for (int64_t k = 0; is_tf32 && k < 4; ++k) {
        const std::string one = to + std::to_string(k);
        text += "cvt.rna.tf32.f32 " + one + ", " + one + ";\n";
      }
      return text;
    };
    std::string text = "{\n.reg .b32 l<4>, m<4>, r<4>, p, q<4>;\n";
    // Of lines across the sum, the four sixteens of columns of a block.
    for (int64_t n = 0; n < 4; ++n)
      text += "xor.b32 q" + std::to_string(n) + ", " + b + ", " + std::to_string(n * 32) + ";\n";
    for (int64_t k = 0; k < kSteps; ++k) {
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
            text += instruction + own + "}, {" + x + "0," + x + "1," + x + "2," + x + "3}, {r" + y + ",r" + z + "}, {" +
                    own + "};\n";
          }
        }
      }
    }
    return WithSums(text + "}", op.getSums(), {left, right});
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
    const bool to_many = op.getBlocks().has_value();
    SmallVector<Value> operands = {Address(op.getSlot()), maps[op.getMap()]};
    const std::string at = Indices(op.getAt(), operands), signal = "$" + std::to_string(operands.size());
    std::string text = "cp.async.bulk.tensor." + std::to_string(op.getAt().size()) +
                       "d.shared::cluster.global.mbarrier::complete_tx::bytes";
    text += (to_many ? ".multicast::cluster [$0], [$1, " : " [$0], [$1, ") + at + "], [" + signal + "]";
    operands.push_back(Address(op.getSignal()));
    std::string constraints = "r,l" + Repeated(",r", operands.size() - 2);
    if (to_many) {
      text += ", $" + std::to_string(operands.size());
      constraints += ",h";
      const auto all = static_cast<int16_t>((1 << *op.getBlocks()) - 1);
      operands.push_back(LLVM::ConstantOp::create(b_, loc_, b_.getI16Type(), b_.getI16IntegerAttr(all)));
    }
    Text(text + ";", constraints, operands);
  }

  void CopyOut(tile::CopyOutOp op, ArrayRef<Value> maps) {
    SmallVector<Value> operands = {Address(op.getSlot()), maps[op.getMap()]};
    const std::string at = Indices(op.getAt(), operands);
    Text("cp.async.bulk.tensor." + std::to_string(op.getAt().size()) + "d.global.shared::cta.bulk_group [$1, " + at +
             "], [$0];\ncp.async.bulk.commit_group;",
         "r,l" + Repeated(",r", operands.size() - 2), operands);
  }

  // ---- pieces of a warp: 16 rows of 128 bytes, whose sixteens are exchanged as by a copy

  void Take(tile::TakeOp op) {
    for (int64_t half = 0; half < 2; ++half) {
      Value row = LLVM::PoisonOp::create(b_, loc_, op.getUpper().getType());
      for (int64_t k = 0; k < 8; ++k) {
        const int64_t from = static_cast<int64_t>(op.getFrom()) + k / 2 * 4 + half * 2 + k % 2;
        Value sum = LLVM::ExtractElementOp::create(b_, loc_, op.getSums(), Small(from));
        row = LLVM::InsertElementOp::create(b_, loc_, row, sum, Small(k));
      }
      op.getResult(static_cast<unsigned>(half)).replaceAllUsesWith(row);
    }
  }

  // An instruction has four blocks of 8 x 8 elements: of eight columns the upper rows and the lower ones, then of the
  // next eight. A thread names a row of one of them; blocks further on differ in bits of the address.
  Value RowOfBlocks(Value slot) {
    Value thread = LLVM::CallIntrinsicOp::create(b_, loc_, b_.getI32Type(),
                                                 b_.getStringAttr("llvm.nvvm.read.ptx.sreg.tid.x"), ValueRange())
                       .getResult(0);
    auto bits = [&](int64_t mask) { return LLVM::AndOp::create(b_, loc_, thread, Small(mask)).getResult(); };
    auto shifted = [&](Value x, int64_t by) { return LLVM::ShlOp::create(b_, loc_, x, Small(by)).getResult(); };
    Value block = LLVM::LShrOp::create(b_, loc_, bits(16), Small(4));
    Value place = shifted(LLVM::XOrOp::create(b_, loc_, bits(7), block), 4);
    Value at = LLVM::AddOp::create(b_, loc_, shifted(bits(15), 7), place);
    return LLVM::AddOp::create(b_, loc_, Address(slot), at);
  }
  static std::string Repeated(const std::string& text, size_t n) {
    std::string all;
    for (size_t k = 0; k < n; ++k) all += text;
    return all;
  }

  // Of f32 a thread has two elements of every eight, in 32 bytes of its row: the next eight differ in bits of the
  // address, and the lower row is 1024 bytes further.
  void LayDownWide(tile::LayDownOp op) {
    Value thread = Thread();
    Value row = Bits(thread, 2, 3), place = LLVM::XOrOp::create(b_, loc_, Bits(thread, 1, 1), row);
    SmallVector<Value> operands = {
        Plus(Address(op.getSlot()), Plus(Times(row, 128), Plus(Times(place, 16), Times(Bits(thread, 0, 1), 8))))};
    for (Value tile : {op.getUpper(), op.getLower()}) operands.append(Elements(tile));
    std::string text = "{\n.reg .b32 a;\n";
    for (int64_t k = 0; k < 4; ++k) {
      text += "xor.b32 a, $0, " + std::to_string(k * 32) + ";\n";
      for (int64_t lower = 0; lower < 2; ++lower) {
        const int64_t x = 1 + lower * 8 + k * 2;
        text += "st.shared.v2.f32 [a+" + std::to_string(lower * 1024) + "], {$" + std::to_string(x) + ", $" +
                std::to_string(x + 1) + "};\n";
      }
    }
    Text(text + "}", "r" + Repeated(",f", 16) + ",~{memory}", operands);
  }

  void LayDown(tile::LayDownOp op) {
    if (op.getDtype().isF32()) return LayDownWide(op);
    SmallVector<Value> operands = {RowOfBlocks(op.getSlot())};
    for (Value tile : {op.getUpper(), op.getLower()}) operands.append(Elements(tile));
    std::string text = "{\n.reg .b32 a, u<4>, l<4>;\n";
    for (int64_t k = 0; k < 4; ++k) {
      for (int64_t lower = 0; lower < 2; ++lower) {
        const int64_t x = 1 + lower * 8 + k * 2;
        text += std::string("cvt.rn.") + (op.getDtype().isBF16() ? "bf16x2" : "f16x2") + ".f32 " + (lower ? "l" : "u") +
                std::to_string(k) + ", $" + std::to_string(x + 1) + ", $" + std::to_string(x) + ";\n";
      }
    }
    for (int64_t j = 0; j < 2; ++j) {
      const std::string x = std::to_string(2 * j), y = std::to_string(2 * j + 1);
      text += "xor.b32 a, $0, " + std::to_string(static_cast<int64_t>(op.getHalf()) * 64 + j * 32) +
              ";\nstmatrix.sync.aligned.m8n8.x4.shared.b16 [a], {u" + x + ", l" + x + ", u" + y + ", l" + y + "};\n";
    }
    Text(text + "}", "r" + Repeated(",f", 16), operands);
  }

  void TakeUp(tile::TakeUpOp op) {
    Type i32 = b_.getI32Type(), f32 = b_.getF32Type();
    std::string text = "{\n.reg .b32 a;\n";
    for (int64_t j = 0; j < 2; ++j) {
      text += "xor.b32 a, $8, " + std::to_string(static_cast<int64_t>(op.getHalf()) * 64 + j * 32) +
              ";\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {";
      for (int64_t k = 0; k < 4; ++k) text += (k > 0 ? ", $" : "$") + std::to_string(j * 4 + k);
      text += "}, [a];\n";
    }
    auto words = LLVM::LLVMStructType::getLiteral(b_.getContext(), SmallVector<Type>(8, i32));
    Value all = Text(text + "}", Repeated("=&r,", 8) + "r", RowOfBlocks(op.getSlot()), words);
    for (int64_t lower = 0; lower < 2; ++lower) {
      Value row = LLVM::PoisonOp::create(b_, loc_, op.getUpper().getType());
      for (int64_t k = 0; k < 4; ++k) {
        Value word = LLVM::ExtractValueOp::create(b_, loc_, all, ArrayRef<int64_t>{k / 2 * 4 + k % 2 * 2 + lower});
        for (int64_t e = 0; e < 2; ++e) {
          Value x;
          if (op.getDtype().isBF16()) {
            Value bits = e == 0 ? LLVM::ShlOp::create(b_, loc_, word, Small(16)).getResult()
                                : LLVM::AndOp::create(b_, loc_, word, Small(-65536)).getResult();
            x = LLVM::BitcastOp::create(b_, loc_, f32, bits);
          } else {
            Value pair = LLVM::BitcastOp::create(b_, loc_, VectorType::get({2}, b_.getF16Type()), word);
            x = LLVM::FPExtOp::create(b_, loc_, f32, LLVM::ExtractElementOp::create(b_, loc_, pair, Small(e)));
          }
          row = LLVM::InsertElementOp::create(b_, loc_, row, x, Small(k * 2 + e));
        }
      }
      op.getResult(static_cast<unsigned>(lower)).replaceAllUsesWith(row);
    }
  }

  // ---- few rows

  // Words of 32 bits, each by itself.
  SmallVector<Value> Words(Value words) {
    if (isa<VectorType>(words.getType())) return Elements(words);
    return {words};
  }
  Value Joined(ArrayRef<Value> words, Type type) {
    if (!isa<VectorType>(type)) return words[0];
    Value vector = LLVM::PoisonOp::create(b_, loc_, type);
    for (auto [k, word] : llvm::enumerate(words))
      vector = LLVM::InsertElementOp::create(b_, loc_, vector, word, Small(static_cast<int64_t>(k)));
    return vector;
  }
  Value Apart(const std::string& text, const std::string& constraints, ValueRange operands, int64_t n, Type each,
              Type vector, bool has_effects) {
    Type result =
        n == 1 ? each
               : LLVM::LLVMStructType::getLiteral(b_.getContext(), SmallVector<Type>(static_cast<size_t>(n), each));
    auto op =
        LLVM::InlineAsmOp::create(b_, loc_, result, operands, text, constraints, has_effects, /*is_align_stack=*/false,
                                  LLVM::tailcallkind::TailCallKind::None,
                                  LLVM::AsmDialectAttr::get(b_.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
    SmallVector<Value> parts;
    for (int64_t k = 0; k < n; ++k)
      parts.push_back(n == 1
                          ? op.getResult(0)
                          : LLVM::ExtractValueOp::create(b_, loc_, op.getResult(0), ArrayRef<int64_t>{k}).getResult());
    return Joined(parts, vector);
  }

  // The order of reads is that of the text: the next piece is on its way before the one at hand is used.
  Value Read(tile::ReadOp op) {
    Type type = op.getWords().getType(), i32 = b_.getI32Type();
    const int64_t n = isa<VectorType>(type) ? cast<VectorType>(type).getNumElements() : 1;
    Type global = LLVM::LLVMPointerType::get(b_.getContext(), 1);
    Value at = LLVM::GEPOp::create(b_, loc_, op.getView().getType(), b_.getI16Type(), op.getView(),
                                   ArrayRef<LLVM::GEPArg>{op.getOffset()});
    SmallVector<Value> operands = {LLVM::AddrSpaceCastOp::create(b_, loc_, global, at)};
    const std::string address = "$" + std::to_string(n);
    std::string to, zeros;
    for (int64_t k = 0; k < n; ++k) {
      to += (k > 0 ? ", $" : "$") + std::to_string(k);
      zeros += "mov.b32 $" + std::to_string(k) + ", 0;\n";
    }
    const std::string load = std::string("ld.global.nc") + (op.getShared() ? "" : ".L1::no_allocate") +
                             (n > 1 ? ".v" + std::to_string(n) + ".b32 {" + to + "}" : ".b32 " + to) + ", [" + address +
                             "];";
    const bool is_conditional = op.getCondition() != nullptr;
    std::string text = load, constraints = Repeated(is_conditional ? "=&r," : "=r,", static_cast<size_t>(n)) + "l";
    if (is_conditional) {
      operands.push_back(LLVM::ZExtOp::create(b_, loc_, i32, op.getCondition()));
      text = "{\n.reg .pred p;\nsetp.ne.b32 p, $" + std::to_string(n + 1) + ", 0;\n" + zeros + "@p " + load + "\n}";
      constraints += ",r";
    }
    return Apart(text, constraints, operands, n, i32, type, /*has_effects=*/true);
  }

  // Columns of the right factor are rows of an instruction's left operand, and the other way round. Which element of a
  // sum is which of the instruction's sixteen makes no difference, as long as both operands agree: of those that a
  // thread has, words 2 s and 2 s + 1 of a run are its elements of step s.
  SmallVector<Value> MultiplyRead(tile::MultiplyReadOp op) {
    Type i32 = b_.getI32Type(), f32 = b_.getF32Type();
    SmallVector<SmallVector<Value>> right, left;
    for (Value w : op.getRight()) right.push_back(Words(w));
    for (Value w : op.getLeft()) left.push_back(Words(w));
    SmallVector<SmallVector<Value>> sums;
    for (Value s : op.getSums()) sums.push_back(Elements(s));
    const size_t columns = op.getSums().size() / left.size();
    const std::string dtype = op.getDtype().isBF16() ? "bf16" : "f16";
    const std::string text = "mma.sync.aligned.m16n8k16.row.col.f32." + dtype + "." + dtype +
                             ".f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};";
    auto type = LLVM::LLVMStructType::getLiteral(b_.getContext(), SmallVector<Type>(4, f32));
    auto halves = [&](Value x, Value y, int64_t which) {
      return LLVM::CallIntrinsicOp::create(b_, loc_, i32, b_.getStringAttr("llvm.nvvm.prmt"),
                                           ValueRange({x, y, Small(which)}))
          .getResult(0);
    };
    for (size_t s = 0; s < 2; ++s) {
      for (size_t c = 0; c < columns; ++c) {
        SmallVector<Value> a;
        if (op.getAcross()) {
          for (size_t pair : {4 * s, 4 * s + 2})
            for (int64_t which : {0x5410, 0x7632}) a.push_back(halves(right[pair][c], right[pair + 1][c], which));
        } else {
          for (size_t word : {2 * s, 2 * s + 1})
            for (size_t half : {0, 1}) a.push_back(right[2 * c + half][word]);
        }
        for (size_t r = 0; r < left.size(); ++r) {
          SmallVector<Value>& own = sums[r * columns + c];
          SmallVector<Value> operands = a;
          operands.append({left[r][2 * s], left[r][2 * s + 1]});
          operands.append(own);
          auto all = LLVM::InlineAsmOp::create(
              b_, loc_, type, operands, text, "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3", /*has_side_effects=*/false,
              /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
              LLVM::AsmDialectAttr::get(b_.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
          for (size_t k = 0; k < 4; ++k)
            own[k] =
                LLVM::ExtractValueOp::create(b_, loc_, all.getResult(0), ArrayRef<int64_t>{static_cast<int64_t>(k)});
        }
      }
    }
    SmallVector<Value> results;
    for (auto [own, sum] : llvm::zip(sums, op.getSums())) results.push_back(Joined(own, sum.getType()));
    return results;
  }

  void Leave(tile::LeaveOp op) {
    const SmallVector<Value> sums = Elements(op.getSums());
    const int64_t pitch = static_cast<int64_t>(op.getPitch()), apart = static_cast<int64_t>(op.getApart());
    std::string text;
    for (int64_t row = 0; row < 2; ++row) {
      const std::string x = "$" + std::to_string(row), y = "$" + std::to_string(row + 2);
      auto at = [&](int64_t byte) { return " [$4+" + std::to_string(row * pitch + byte) + "], "; };
      text += apart == 4 ? "st.shared.v2.f32" + at(0) + "{" + x + ", " + y + "};\n"
                         : "st.shared.f32" + at(0) + x + ";\nst.shared.f32" + at(apart) + y + ";\n";
    }
    SmallVector<Value> operands = sums;
    operands.push_back(Address(op.getSlot()));
    Text(text, "f,f,f,f,r,~{memory}", operands);
  }

  void LeaveGroup(tile::LeaveGroupOp op) {
    const SmallVector<Value> sums = Elements(op.getSums());
    const int64_t pitch = static_cast<int64_t>(op.getPitch()), of_block = static_cast<int64_t>(op.getColumns()) / 2;
    Value slot = Address(op.getSlot());
    for (int64_t k = 0; k < static_cast<int64_t>(sums.size()); k += 4) {
      const int64_t at = k / of_block * 64 * pitch + k % of_block * 8;
      Text("st.shared.v2.f32 [$4+" + std::to_string(at) + "], {$0, $1};\nst.shared.v2.f32 [$4+" +
               std::to_string(at + 8 * pitch) + "], {$2, $3};",
           "f,f,f,f,r,~{memory}",
           {sums[static_cast<size_t>(k)], sums[static_cast<size_t>(k + 1)], sums[static_cast<size_t>(k + 2)],
            sums[static_cast<size_t>(k + 3)], slot});
    }
  }

  Value FetchedOf(tile::FetchedOp op) {
    Type type = op.getTile().getType(), f32 = b_.getF32Type();
    const int64_t n = isa<VectorType>(type) ? cast<VectorType>(type).getNumElements() : 1;
    const int64_t each = std::min<int64_t>(n, 4);
    std::string text =
        "{\n.reg .b32 a;\nmapa.shared::cluster.u32 a, $" + std::to_string(n) + ", $" + std::to_string(n + 1) + ";\n";
    for (int64_t k = 0; k < n; k += each) {
      std::string to;
      for (int64_t e = 0; e < each; ++e) to += (e > 0 ? ", $" : "$") + std::to_string(k + e);
      text += "ld.shared::cluster" + (each > 1 ? ".v" + std::to_string(each) + ".f32 {" + to + "}" : ".f32 " + to) +
              ", [a+" + std::to_string(4 * k) + "];\n";
    }
    return Apart(text + "}", Repeated("=&f,", static_cast<size_t>(n)) + "r,r,~{memory}",
                 {Address(op.getSlot()), Narrow(op.getRank())}, n, f32, type, /*has_effects=*/true);
  }

  // "{$2, $3}", for indices that are put behind the other operands.
  std::string Indices(ValueRange at, SmallVector<Value>& operands) {
    std::string text = "{";
    for (auto [d, index] : llvm::enumerate(at)) {
      text += (d > 0 ? ", $" : "$") + std::to_string(operands.size());
      operands.push_back(Narrow(index));
    }
    return text + "}";
  }

  // ---- attention

  Value Weights(tile::WeightsOp op) {
    const char* name = op.getDtype().isBF16() ? "llvm.nvvm.ff2bf16x2.rn" : "llvm.nvvm.ff2f16x2.rn";
    Type pair = VectorType::get({2}, op.getDtype());
    const SmallVector<Value> rows[2] = {Elements(op.getUpper()), Elements(op.getLower())};
    SmallVector<Value> words;
    for (size_t k = 0; k < 8; k += 2) {
      for (const SmallVector<Value>& row : rows) {
        // The first operand goes to the upper half.
        Value two =
            LLVM::CallIntrinsicOp::create(b_, loc_, pair, b_.getStringAttr(name), ValueRange({row[k + 1], row[k]}))
                .getResult(0);
        words.push_back(LLVM::BitcastOp::create(b_, loc_, b_.getI32Type(), two));
      }
    }
    return Joined(words, op.getWords().getType());
  }

  // One text for all pieces, with one commit.
  Value MultiplyWeights(tile::MultiplyWeightsOp op) {
    const auto columns = static_cast<int64_t>(op.getColumns()), pitch = static_cast<int64_t>(op.getPitch());
    const int64_t sums = columns / 2, words = static_cast<int64_t>(op.getWords().size()) * 8;
    SmallVector<Value> more;
    for (Value w : op.getWords()) more.append(Elements(w));
    more.push_back(LowerDescriptor(op.getRight(), 64));
    auto operand = [&](int64_t k) { return "$" + std::to_string(2 * sums + k); };
    const std::string dtype = NameOf(op.getDtype());
    std::string text =
        "{\n.reg .b32 l;\n.reg .b64 b;\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\nwgmma.fence.sync.aligned;\n";
    for (int64_t step = 0; step < words / 4; ++step) {
      const int64_t at = step / kSteps * (pitch / 16) + step % kSteps * (op.getRightAcross() ? 128 : 2);
      text += "add.u32 l, " + operand(words) + ", " + std::to_string(at) + ";\nmov.b64 b, {l, " +
              std::to_string(kUpperDescriptor) + "};\n";
      text += "wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k16.f32." + dtype + "." + dtype + " {";
      for (int64_t e = 0; e < sums; ++e) text += (e > 0 ? ",$" : "$") + std::to_string(e);
      text += "}, {";
      for (int64_t w = 0; w < 4; ++w) text += (w > 0 ? "," : "") + operand(4 * step + w);
      text += std::string("}, b, p, 1, 1, ") + (op.getRightAcross() ? "1" : "0") + ";\n";
    }
    return WithSums(text + "wgmma.commit_group.sync.aligned;\n}", op.getSums(), more);
  }

  // Words that were multiplied are operands, so that they stay where they are until now, and those that are next are
  // results, so that they are not there before.
  void Weighed(tile::WeighedOp op) {
    const SmallVector<Value> sums = Elements(op.getSums());
    SmallVector<Value> next, operands = sums;
    for (Value w : op.getNext()) next.append(Elements(w));
    operands.append(next);
    std::string constraints = Repeated("=f,", sums.size()) + Repeated("=r,", next.size());
    for (size_t k = 0; k < operands.size(); ++k) constraints += std::to_string(k) + ",";
    for (Value w : op.getWords()) {
      operands.append(Elements(w));
      constraints += Repeated("r,", 8);
    }
    constraints.pop_back();
    SmallVector<Type> types(sums.size(), b_.getF32Type());
    types.append(next.size(), b_.getI32Type());
    Value all = Text("wgmma.wait_group.sync.aligned 0;", constraints, operands,
                     LLVM::LLVMStructType::getLiteral(b_.getContext(), types));
    SmallVector<Value> parts;
    for (size_t k = 0; k < types.size(); ++k)
      parts.push_back(LLVM::ExtractValueOp::create(b_, loc_, all, ArrayRef<int64_t>{static_cast<int64_t>(k)}));
    const ArrayRef<Value> given(parts);
    op.getResult().replaceAllUsesWith(Joined(given.take_front(sums.size()), op.getSums().getType()));
    for (auto [k, kept] : llvm::enumerate(op.getKept()))
      kept.replaceAllUsesWith(Joined(given.slice(sums.size() + 8 * k, 8), kept.getType()));
  }

  Value Any(tile::AnyOp op) {
    Value flag = LLVM::ZExtOp::create(b_, loc_, b_.getI32Type(), op.getFlag());
    Value any = Text(
        "{\n.reg .pred p, q;\nsetp.ne.u32 p, $1, 0;\nvote.sync.any.pred q, p, 0xffffffff;\nselp.u32 $0, 1, 0, q;\n}",
        "=r,r", flag, b_.getI32Type());
    return LLVM::ICmpOp::create(b_, loc_, LLVM::ICmpPredicate::ne, any, Small(0));
  }

  Value ScaleRows(tile::ScaleRowsOp op) {
    Value sums = op.getSums();
    SmallVector<Value> scaled = Elements(sums);
    for (auto [k, x] : llvm::enumerate(scaled))
      x = LLVM::FMulOp::create(b_, loc_, x, k % 4 < 2 ? op.getUpper() : op.getLower());
    return Joined(scaled, sums.getType());
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
    w.Text("mbarrier.init.shared::cta.b64 [$0], " + std::to_string(init.getCount()) + ";", "r",
           w.Address(init.getSignal()));
  } else if (isa<tile::SignalsReadyOp>(op)) {
    w.Text("fence.mbarrier_init.release.cluster;\nfence.proxy.async;", "~{memory}", {});
  } else if (auto expect = dyn_cast<tile::SignalExpectOp>(op)) {
    w.Text("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], " + std::to_string(expect.getBytes()) + ";", "r",
           w.Address(expect.getSignal()));
  } else if (auto arrive = dyn_cast<tile::SignalArriveOp>(op)) {
    if (Value rank = arrive.getRank()) {
      w.Text(
          "{\n.reg .b32 a;\nmapa.shared::cluster.u32 a, $0, $1;\n"
          "mbarrier.arrive.shared::cluster.b64 _, [a];\n}",
          "r,r", {w.Address(arrive.getSignal()), w.Narrow(rank)});
    } else {
      w.Text("mbarrier.arrive.shared::cta.b64 _, [$0];", "r", w.Address(arrive.getSignal()));
    }
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
  } else if (auto out = dyn_cast<tile::CopyOutOp>(op)) {
    w.CopyOut(out, maps);
  } else if (isa<tile::PublishOp>(op)) {
    w.Text("fence.proxy.async.shared::cta;", "~{memory}", {});
  } else if (auto await = dyn_cast<tile::AwaitOutOp>(op)) {
    w.Text("cp.async.bulk.wait_group" + std::string(await.getWritten() ? " " : ".read ") +
               std::to_string(await.getPending()) + ";",
           "~{memory}", {});
  } else if (auto barrier = dyn_cast<tile::GroupBarrierOp>(op)) {
    // Number 0 is that of the block.
    w.Text("{\n.reg .b32 n;\nadd.s32 n, $0, 1;\nbar.sync n, 128;\n}", "r,~{memory}", w.Narrow(barrier.getGroup()));
  } else if (auto turn = dyn_cast<tile::TakeTurnOp>(op)) {
    // Numbers 1 and 2 are those of groups, 3 and 4 those of their turns.
    w.Text("{\n.reg .b32 n;\nadd.s32 n, $0, 3;\nbar.sync n, 256;\n}", "r,~{memory}", w.Narrow(turn.getGroup()));
  } else if (auto turn = dyn_cast<tile::EndTurnOp>(op)) {
    w.Text("{\n.reg .b32 n;\nsub.s32 n, 4, $0;\nbar.arrive n, 256;\n}", "r,~{memory}", w.Narrow(turn.getGroup()));
  } else if (auto cluster = dyn_cast<tile::ClusterBarrierOp>(op)) {
    // Without words these release and acquire, on devices whose PTX has no words for it, too.
    w.Text(cluster.getRelaxed() ? "fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.relaxed;\n"
                                  "barrier.cluster.wait.acquire;"
                                : "barrier.cluster.arrive;\nbarrier.cluster.wait;",
           "~{memory}", {});
  } else if (auto take = dyn_cast<tile::TakeOp>(op)) {
    w.Take(take);
  } else if (auto down = dyn_cast<tile::LayDownOp>(op)) {
    w.LayDown(down);
  } else if (auto up = dyn_cast<tile::TakeUpOp>(op)) {
    w.TakeUp(up);
  } else if (auto multiply = dyn_cast<tile::MultiplyOp>(op)) {
    multiply.getResult().replaceAllUsesWith(multiply.getByWarps() ? w.MultiplyByWarp(multiply) : w.Multiply(multiply));
  } else if (auto multiplied = dyn_cast<tile::MultipliedOp>(op)) {
    multiplied.getResult().replaceAllUsesWith(w.Wait(multiplied));
  } else if (auto promote = dyn_cast<tile::PromoteOp>(op)) {
    promote.getResult().replaceAllUsesWith(w.Promote(promote));
  } else if (auto collect = dyn_cast<tile::CollectOp>(op)) {
    w.Collect(collect);
  } else if (auto read = dyn_cast<tile::ReadOp>(op)) {
    read.getResult().replaceAllUsesWith(w.Read(read));
  } else if (auto few = dyn_cast<tile::MultiplyReadOp>(op)) {
    few->replaceAllUsesWith(w.MultiplyRead(few));
  } else if (auto weights = dyn_cast<tile::WeightsOp>(op)) {
    weights.getResult().replaceAllUsesWith(w.Weights(weights));
  } else if (auto product = dyn_cast<tile::MultiplyWeightsOp>(op)) {
    product.getResult().replaceAllUsesWith(w.MultiplyWeights(product));
  } else if (auto weighed = dyn_cast<tile::WeighedOp>(op)) {
    w.Weighed(weighed);
  } else if (auto any = dyn_cast<tile::AnyOp>(op)) {
    any.getResult().replaceAllUsesWith(w.Any(any));
  } else if (auto scale = dyn_cast<tile::ScaleRowsOp>(op)) {
    scale.getResult().replaceAllUsesWith(w.ScaleRows(scale));
  } else if (auto leave = dyn_cast<tile::LeaveOp>(op)) {
    w.Leave(leave);
  } else if (auto group = dyn_cast<tile::LeaveGroupOp>(op)) {
    w.LeaveGroup(group);
  } else if (auto fetched = dyn_cast<tile::FetchedOp>(op); fetched && fetched.getRank()) {
    fetched.getResult().replaceAllUsesWith(w.FetchedOf(fetched));
  } else {
    return false;
  }
  return true;
}

}  // namespace tessera::compiler
