#include "tiers/compiler/dialects/dialects.h"

#include "llvm/ADT/StringMap.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "tiers/compiler/dialects/GraphDialect.cpp.inc"
#include "tiers/compiler/dialects/SchedDialect.cpp.inc"
#include "tiers/compiler/dialects/TargetDialect.cpp.inc"
#include "tiers/compiler/dialects/TileDialect.cpp.inc"
#include "tiers/compiler/dialects/assembly.h"
#include "tiers/compiler/sched/f8_factors.h"
#include "tiers/compiler/sched/product.h"
#include "tiers/compiler/sched/prologue.h"
#define GET_OP_CLASSES
#include "tiers/compiler/dialects/Sched.cpp.inc"
#define GET_OP_CLASSES
#include "tiers/compiler/dialects/Tile.cpp.inc"
#define GET_OP_CLASSES
#include "tiers/compiler/dialects/Target.cpp.inc"

using namespace mlir;

namespace tessera::compiler {

// ---- types

Dim DimOf(RankedTensorType type, int64_t d) {
  if (!type.isDynamicDim(static_cast<unsigned>(d))) return {false, type.getDimSize(static_cast<unsigned>(d))};
  auto symbols = dyn_cast_or_null<ArrayAttr>(type.getEncoding());
  auto symbol = symbols && d < static_cast<int64_t>(symbols.size())
                    ? dyn_cast<IntegerAttr>(symbols[static_cast<size_t>(d)])
                    : IntegerAttr();
  return {true, symbol ? symbol.getInt() : -1};
}

SmallVector<Dim> DimsOf(Type type) {
  SmallVector<Dim> dims;
  auto tensor = cast<RankedTensorType>(type);
  for (int64_t d = 0; d < tensor.getRank(); ++d) dims.push_back(DimOf(tensor, d));
  return dims;
}

RankedTensorType TensorOf(MLIRContext* context, ArrayRef<Dim> dims, Type element) {
  SmallVector<int64_t> sizes, symbols;
  bool any = false;
  for (const Dim& d : dims) {
    sizes.push_back(d.is_symbol ? ShapedType::kDynamic : d.value);
    symbols.push_back(d.is_symbol ? d.value : -1);
    any |= d.is_symbol;
  }
  return RankedTensorType::get(sizes, element, any ? Builder(context).getI64ArrayAttr(symbols) : Attribute());
}

StringRef DTypeName(Type t) {
  if (t.isF64()) return "f64";
  if (t.isF32()) return "f32";
  if (t.isF16()) return "f16";
  if (t.isBF16()) return "bf16";
  if (isa<Float8E4M3FNType>(t)) return "f8e4m3";
  if (isa<Float8E5M2Type>(t)) return "f8e5m2";
  if (t.isInteger(64)) return "i64";
  if (t.isInteger(32)) return "i32";
  if (t.isUnsignedInteger(8)) return "u8";
  if (t.isInteger(8)) return "i8";
  if (t.isInteger(1)) return "bool";
  return "";
}

bool IsNarrowFloat(Type t) { return isa<FloatType>(t) && t.getIntOrFloatBitWidth() < 32; }
bool IsF8(Type element) { return isa<Float8E4M3FNType, Float8E5M2Type>(element); }

Type ComputeType(Type t) {
  if (IsNarrowFloat(t)) return Float32Type::get(t.getContext());
  if (t.isInteger(1)) return IntegerType::get(t.getContext(), 8);
  if (auto i = dyn_cast<IntegerType>(t)) return IntegerType::get(t.getContext(), i.getWidth());
  return t;
}

StringRef ComputeName(Type t) { return IsNarrowFloat(t) ? "f32" : DTypeName(t); }

// ---- the op table

const TableRow* RowOf(Operation* op) {
  static const llvm::StringMap<TableRow>* rows = [] {
    auto* map = new llvm::StringMap<TableRow>;
    auto required = [](StringRef operands) {
      int n = 0;
      SmallVector<StringRef> words;
      operands.split(words, ' ', -1, false);
      for (StringRef w : words) n += !w.ends_with("?") && !w.ends_with("*");
      return n;
    };
#define TSR_OP(name, operands, attrs, results, effect, dtypes, rule, shape, impl, grad, bound, summary) \
  map->try_emplace("tsr_graph." #name, TableRow{#name, #impl, #rule, required(operands)});
#include "ir/ops.def"
    return map;
  }();
  auto it = rows->find(op->getName().getStringRef());
  return it == rows->end() ? nullptr : &it->second;
}

int32_t NumberOf(StringRef op) {
  static constexpr StringLiteral names[] = {
#define TSR_OP(name, operands, attrs, results, effect, dtypes, rule, shape, impl, grad, bound, summary) #name,
#include "ir/ops.def"
  };
  const auto* it = llvm::find(names, op);
  return it == std::end(names) ? -1 : static_cast<int32_t>(it - std::begin(names));
}

bool IsElementwise(Operation* op) {
  const TableRow* row = RowOf(op);
  return row != nullptr && row->impl == "ew";
}

bool IsProduct(Operation* op) {
  const TableRow* row = RowOf(op);
  return row != nullptr && row->name == "matmul";
}

void RegisterDialects(DialectRegistry& registry) {
  registry.insert<graph::TsrGraphDialect, sched::TsrSchedDialect, tile::TsrTileDialect, target::TsrTargetDialect>();
}

// ---- dialects and verifiers

namespace sched {
void TsrSchedDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "tiers/compiler/dialects/Sched.cpp.inc"
      >();
}

namespace {
// An entry of `updates`: its result is as an operand is, and what is yielded lies in it.
bool IsPartOf(KernelOp kernel, ArrayRef<int64_t> words) {
  if (words.size() < 3 || words[0] < 0 || words[0] >= kernel.getNumResults() || words[1] < 0 ||
      words[1] >= static_cast<int64_t>(kernel.getOperands().size()))
    return false;
  auto whole = dyn_cast<RankedTensorType>(kernel.getResult(static_cast<unsigned>(words[0])).getType());
  Value yielded = kernel.getBody().front().back().getOperand(static_cast<unsigned>(words[0]));
  auto part = dyn_cast<RankedTensorType>(yielded.getType());
  if (!whole || !part || whole.getElementType() != part.getElementType() ||
      kernel.getOperands()[static_cast<size_t>(words[1])].getType() != Type(whole))
    return false;
  const ArrayRef<int64_t> dims = words.drop_front(3);
  int64_t last = -1;
  for (int64_t d : dims) {
    if (d < -1 || d >= whole.getRank() || (d >= 0 && d <= last)) return false;
    last = std::max(last, d);
  }
  return static_cast<int64_t>(dims.size()) == part.getRank();
}
}  // namespace

LogicalResult KernelOp::verify() {
  Block& body = getBody().front();
  if (body.getNumArguments() != getOperands().size()) return emitOpError("has as many block arguments as operands");
  for (auto [argument, operand] : llvm::zip(body.getArguments(), getOperands()))
    if (argument.getType() != operand.getType()) return emitOpError("block arguments have the types of the operands");
  auto yield = dyn_cast<YieldOp>(body.back());
  if (!yield) return emitOpError("ends with tsr_sched.yield");
  if (yield.getValues().size() != getNumResults()) return emitOpError("yields what it returns");
  SmallVector<bool> is_update(getNumResults(), false);
  if (ArrayAttr updates = getUpdatesAttr()) {
    for (Attribute entry : updates) {
      const ArrayRef<int64_t> words = cast<DenseI64ArrayAttr>(entry).asArrayRef();
      if (!IsPartOf(*this, words)) return emitOpError("writes a part of an operand for each update");
      is_update[static_cast<size_t>(words[0])] = true;
    }
  }
  for (auto [k, value] : llvm::enumerate(yield.getValues()))
    if (!is_update[k] && value.getType() != getResult(static_cast<unsigned>(k)).getType())
      return emitOpError("yields what it returns");
  if (getInputs().size() != getOperands().size() || getOutputs().size() != getResults().size())
    return emitOpError("names each operand and each result");
  if (getStrides().size() != getOperands().size()) return emitOpError("has strides for each operand");
  const bool has_product = llvm::any_of(body, [](Operation& op) { return IsProduct(&op); });
  if (has_product && !getProduct()) return emitOpError("has a matrix product and no schedule for it");
  const auto schedule = has_product ? ProductSchedule::FromAttr(*getProduct()) : std::nullopt;
  if (has_product && !schedule) return emitOpError("has a matrix product that cannot be cut as its schedule says");
  if (schedule && schedule->words > 0 &&
      (getRow() > 0 || llvm::any_of(body, [](Operation& op) { return IsProduct(&op) && !IsOfBf16(&op); })))
    return emitOpError("has words of two elements where factors or results are not bf16, or for whole rows");
  if (const char* wrong = has_product ? WrongPrologue(*this, *schedule) : nullptr) return emitOpError(wrong);
  for (Operation& op : body) {
    if (!IsProduct(&op)) continue;
    if (const char* wrong = WrongScales(&op)) return emitOpError(wrong);
    if (HasScales(&op) && (schedule->form != ProductSchedule::Form::tensor || !schedule->FitsBlocks()))
      return emitOpError("has scales for blocks that its schedule does not have");
  }
  if (getCut() && (getCut()->size() != 4 || (*getCut())[2] < 1 || (*getCut())[3] < 0))
    return emitOpError("cuts sums at a first dim, so many, into rows and columns");
  if (getLanes() < 1 || (getLanes() & (getLanes() - 1)) != 0) return emitOpError("lanes are a power of two");
  return success();
}

void KernelOp::getAsmResultNames(OpAsmSetValueNameFn set) { NameResults(*this, "outputs", set); }
void KernelOp::getAsmBlockArgumentNames(Region& region, OpAsmSetValueNameFn set) {
  for (BlockArgument argument : region.getArguments()) set(argument, "in" + std::to_string(argument.getArgNumber()));
}
}  // namespace sched

namespace tile {
void TsrTileDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "tiers/compiler/dialects/Tile.cpp.inc"
      >();
}

namespace {
LogicalResult VerifyTile(Operation* op, Type tile, Type dtype) {
  Type element = tile;
  if (auto vector = dyn_cast<VectorType>(tile)) element = vector.getElementType();
  if (element != ComputeType(dtype))
    return op->emitOpError("has tiles of ") << ComputeType(dtype) << " for " << dtype << " in memory";
  return success();
}
}  // namespace

LogicalResult KernelOp::verify() {
  const size_t views = getInputs().size() + getOutputs().size();
  if (getStrides().size() != views) return emitOpError("has strides for each view");
  if (getTeam() && (getTeam()->size() < 4 || getTeam()->size() > 6))
    return emitOpError("has the threads and the tasks of a block, blocks, and bytes of rows for a team");
  Block& body = getBody().front();
  const size_t all = views + (getPartial() > 0);
  bool fits = body.getNumArguments() == all + 4;
  for (auto [k, type] : llvm::enumerate(body.getArgumentTypes()))
    fits &= k < all + 2 ? isa<LLVM::LLVMPointerType>(type) : type.isInteger(64);
  if (!fits) return emitOpError("takes ") << views << " views, scratch, a table and the two ends of a range";
  return success();
}

void KernelOp::getAsmBlockArgumentNames(Region& region, OpAsmSetValueNameFn set) {
  static constexpr const char* kLast[] = {"partial", "scratch", "table", "begin", "end"};
  const size_t inputs = getInputs().size(), views = inputs + getOutputs().size();
  for (BlockArgument argument : region.getArguments()) {
    const size_t k = argument.getArgNumber();
    const size_t last = k - views + (getPartial() == 0);
    if (k >= views && last >= std::size(kLast)) return;
    set(argument, k < inputs  ? "in" + std::to_string(k)
                  : k < views ? "out" + std::to_string(k - inputs)
                              : std::string(kLast[last]));
  }
}

LogicalResult SplatOp::verify() {
  auto vector = dyn_cast<VectorType>(getTile().getType());
  if (!vector || vector.getElementType() != getScalar().getType())
    return emitOpError("makes a vector of what it is given");
  return success();
}

LogicalResult LaneOp::verify() {
  auto from = dyn_cast<VectorType>(getTile().getType()), to = dyn_cast<VectorType>(getResult().getType());
  if (!from || !to || from.getElementType() != to.getElementType()) return emitOpError("makes a vector of a vector");
  if (getIndex() >= static_cast<uint64_t>(from.getNumElements())) return emitOpError("has no lane ") << getIndex();
  return success();
}

LogicalResult ShuffleOp::verify() {
  auto type = dyn_cast<VectorType>(getA().getType());
  if (!type || static_cast<int64_t>(getLanes().size()) != type.getNumElements())
    return emitOpError("names as many lanes as its tiles have");
  for (int32_t lane : getLanes())
    if (lane < 0 || lane >= 2 * type.getNumElements()) return emitOpError("has no lane ") << lane;
  return success();
}

LogicalResult WidenOp::verify() {
  auto as = [&](Type element) -> Type {
    if (auto vector = dyn_cast<VectorType>(getX().getType())) return VectorType::get(vector.getShape(), element);
    return element;
  };
  if (getX().getType() != as(Float32Type::get(getContext())) || getY().getType() != as(Float64Type::get(getContext())))
    return emitOpError("makes f64 of as many f32");
  return success();
}

// `element` in place of each element.
static Type Of(Type tile, Type element) {
  auto vector = dyn_cast<VectorType>(tile);
  return vector ? Type(VectorType::get(vector.getShape(), element)) : element;
}

LogicalResult WordsOp::verify() {
  Type from = getLow().getType();
  if (from != Of(from, Float32Type::get(getContext())) ||
      getResult().getType() != Of(from, IntegerType::get(getContext(), 32)))
    return emitOpError("makes words of as many f32");
  return success();
}

LogicalResult MultiplyWordsOp::verify() {
  auto sums = dyn_cast<VectorType>(getC().getType());
  if (!sums || !sums.getElementType().isF32() || getA().getType() != Of(sums, IntegerType::get(getContext(), 32)))
    return emitOpError("adds to a vector of f32 the products of as many words");
  if (getPairs() && sums.getNumElements() != 4) return emitOpError("has two rows of two sums in pairs");
  return success();
}

LogicalResult ReduceOp::verify() {
  auto vector = dyn_cast<VectorType>(getTile().getType());
  if (!vector || vector.getElementType() != getElementTypeOrSelf(getResult().getType()))
    return emitOpError("makes one element, or a few of them, of a vector");
  auto fewer = dyn_cast<VectorType>(getResult().getType());
  if (vector.getRank() != 1 || !llvm::isPowerOf2_64(static_cast<uint64_t>(vector.getNumElements())) ||
      (fewer && (fewer.getRank() != 1 || !llvm::isPowerOf2_64(static_cast<uint64_t>(fewer.getNumElements())) ||
                 fewer.getNumElements() >= vector.getNumElements())))
    return emitOpError("halves its lanes, which are a power of two");
  return success();
}

LogicalResult PlaceOp::verify() {
  if (!llvm::is_contained({"thread", "group", "block", "blocks", "rank"}, getWhat()))
    return emitOpError("is of a thread, a group, a block, blocks or a rank, not ") << getWhat();
  return success();
}

LogicalResult TeamReduceOp::verify() {
  if (!llvm::isPowerOf2_64(getThreads()) || getThreads() > 1024)
    return emitOpError("halves its threads, which are a power of two and at most 1024");
  if (!getX().getType().isIntOrFloat()) return emitOpError("reduces a scalar of each thread");
  return success();
}

LogicalResult ClusterReduceOp::verify() {
  if (!llvm::isPowerOf2_64(getThreads()) || getThreads() < 32 || getThreads() > 1024)
    return emitOpError("has whole warps in a block, a power of two of them and at most 32");
  if (!llvm::isPowerOf2_64(getBlocks()) || getBlocks() > 8)
    return emitOpError("halves its blocks, which are a power of two and at most 8");
  if (getX().empty() || getX().getTypes() != getReduced().getTypes())
    return emitOpError("makes one of each of its operands");
  for (Value x : getX())
    if (!x.getType().isIntOrFloat()) return emitOpError("reduces a scalar of each thread");
  return success();
}

LogicalResult FetchOp::verify() {
  const int64_t bytes = static_cast<int64_t>(getLanes()) * getDtype().getIntOrFloatBitWidth() / 8;
  if (bytes != 4 && bytes != 8 && bytes % 16 != 0) return emitOpError("copies 4, 8 or a multiple of 16 bytes");
  if (getCondition() && bytes != 16) return emitOpError("has a condition for 16 bytes only");
  return success();
}

LogicalResult ReportOp::verify() {
  return NumberOf(getOp()) >= 0 ? success() : emitOpError("names no op: ") << getOp();
}

static LogicalResult VerifyCopy(auto op) {
  if (op.getAt().size() < 2 || op.getAt().size() > 5) return op.emitOpError("takes two to five indices");
  auto kernel = op->template getParentOfType<KernelOp>();
  if (kernel && (!kernel.getMaps() || op.getMap() >= kernel.getMaps()->size()))
    return op.emitOpError("has no map ") << op.getMap();
  return success();
}
LogicalResult CopyOp::verify() { return VerifyCopy(*this); }
LogicalResult CopyOutOp::verify() { return VerifyCopy(*this); }

LogicalResult RegistersOp::verify() {
  if (getCount() % 8 != 0 || getCount() < 24 || getCount() > 256)
    return emitOpError("takes a multiple of 8 from 24 to 256");
  return success();
}

LogicalResult LeaveGroupOp::verify() {
  const int64_t n = getSums().getType().getNumElements(), of_block = static_cast<int64_t>(getColumns()) / 2;
  if (of_block < 4 || getColumns() % 8 != 0 || n % of_block != 0)
    return emitOpError("has the sums of blocks of 64 rows, for each two columns one");
  return success();
}

LogicalResult MultiplyOp::verify() {
  if ((getRows() != 64 && getRows() != 128) || getColumns() % 8 != 0 || getColumns() < 8 || getColumns() > 256)
    return emitOpError("multiplies 64 or 128 rows with up to 256 columns, a multiple of 8");
  const bool is_half = getDepth() == 64 && (getDtype().isBF16() || getDtype().isF16()) && !getRightDtype();
  const bool is_tf32 =
      getDepth() == 32 && isa<FloatTF32Type>(getDtype()) && !getRightDtype() && !getLeftAcross() && !getRightAcross();
  const bool is_f8 = getDepth() == 128 && IsF8(getDtype()) && (!getRightDtype() || IsF8(*getRightDtype())) &&
                     !getByWarps() && !getLeftAcross() && !getRightAcross();
  if (!is_half && !is_tf32 && !is_f8)
    return emitOpError(
        "takes pieces of 64 bf16 or f16 along the sum, or of 32 tf32 or 128 of f8 types that lie along it");
  if (getByWarps() && getFresh()) return emitOpError("by warps adds to sums");
  if (getByWarps() && getColumns() % 16 != 0) return emitOpError("by warps has a multiple of 16 columns");
  if (getRightAcross() && getColumns() % 64 != 0) return emitOpError("has blocks of 64 columns across the sum");
  auto type = dyn_cast<VectorType>(getSums().getType());
  if (!type || !type.getElementType().isF32() ||
      type.getNumElements() != static_cast<int64_t>(getRows() * getColumns() / 128))
    return emitOpError("has ") << getRows() * getColumns() / 128 << " sums of f32 in a thread";
  return success();
}

LogicalResult PromoteOp::verify() {
  auto part = dyn_cast<VectorType>(getPart().getType()), sums = dyn_cast<VectorType>(getSums().getType());
  if (!part || !sums || !part.getElementType().isF32() || !sums.getElementType().isF32() ||
      static_cast<int64_t>(getFrom()) + part.getNumElements() > sums.getNumElements())
    return emitOpError("adds sums of f32 to some of others");
  if (!getUpper() != !getLower()) return emitOpError("has scales for both rows");
  return success();
}

static LogicalResult VerifySixteen(auto op) {
  auto type = dyn_cast<VectorType>(op.getSums().getType());
  if (!type || !type.getElementType().isF32() || op.getFrom() % 16 != 0 ||
      op.getFrom() + 16 > static_cast<uint64_t>(type.getNumElements()))
    return op.emitOpError("takes sixteens of the sums");
  return success();
}
LogicalResult CollectOp::verify() { return VerifySixteen(*this); }
LogicalResult TakeOp::verify() { return VerifySixteen(*this); }

static LogicalResult VerifyHalf(auto op) {
  if (op.getHalf() > 1) return op.emitOpError("is of half 0 or 1");
  if (!op.getDtype().isBF16() && !op.getDtype().isF16()) return op.emitOpError("is of bf16 or f16");
  return success();
}
LogicalResult LayDownOp::verify() {
  if (!getDtype().isF32()) return VerifyHalf(*this);
  return getHalf() == 0 ? success() : emitOpError("of f32 has no half 1");
}
LogicalResult TakeUpOp::verify() { return VerifyHalf(*this); }

static bool IsNarrow(Type dtype) { return dtype.isBF16() || dtype.isF16(); }
// One, two or four of 32 bits; otherwise 0.
static int64_t WordsOf(Type type) {
  if (type.isInteger(32)) return 1;
  auto vector = dyn_cast<VectorType>(type);
  const int64_t n = vector && vector.getElementType().isInteger(32) ? vector.getNumElements() : 0;
  return n == 2 || n == 4 ? n : 0;
}
LogicalResult ReadOp::verify() {
  if (WordsOf(getWords().getType()) == 0 || !IsNarrow(getDtype()))
    return emitOpError("reads 1, 2 or 4 words of bf16 or f16");
  return success();
}
LogicalResult MultiplyReadOp::verify() {
  auto four = VectorType::get({4}, Float32Type::get(getContext()));
  auto are = [](TypeRange types, auto is) { return !types.empty() && llvm::all_of(types, is); };
  if (!IsNarrow(getDtype()) || !are(getSums().getTypes(), [&](Type t) { return t == four; }) ||
      getResults().getTypes() != getSums().getTypes())
    return emitOpError("adds to sums of f32, four at a time, products of bf16 or f16");
  if (!are(getLeft().getTypes(), [](Type t) { return WordsOf(t) == 4; })) return emitOpError("has rows of four words");
  const size_t right = getRight().size(), sums = getSums().size(), rows = getLeft().size();
  const int64_t words = right == 0 ? 0 : WordsOf(getRight().front().getType());
  if (words == 0 || !are(getRight().getTypes(), [&](Type t) { return t == getRight().front().getType(); }) ||
      (getAcross() ? right != 8 : words != 4 || right % 2 != 0))
    return emitOpError("has a right factor of pairs of four words along the sum, or of eight rows across it");
  if (sums != rows * (getAcross() ? static_cast<size_t>(words) : right / 2))
    return emitOpError("has sums for each eight rows and each 16 columns");
  return success();
}

// Of 64 rows a thread has half as many sums as there are columns.
static bool AreSums(Type type, uint64_t columns) {
  auto vector = dyn_cast<VectorType>(type);
  return vector && vector.getElementType().isF32() && static_cast<uint64_t>(vector.getNumElements()) == columns / 2;
}
LogicalResult WeightsOp::verify() { return IsNarrow(getDtype()) ? success() : emitOpError("are of bf16 or f16"); }
LogicalResult MultiplyWeightsOp::verify() {
  if (!IsNarrow(getDtype())) return emitOpError("multiplies bf16 or f16");
  if (getColumns() % 8 != 0 || getColumns() < 8 || getColumns() > 256 || !AreSums(getSums().getType(), getColumns()))
    return emitOpError("has the sums of 64 rows and of up to 256 columns, a multiple of 8");
  if (getWords().empty() || getWords().size() % 2 != 0 || getPitch() % 1024 != 0)
    return emitOpError("has words for each piece of 64 elements of the sum, which begin at multiples of 1024 bytes");
  return success();
}
LogicalResult WeighedOp::verify() {
  return getNext().size() == getKept().size() ? success() : emitOpError("gives as many words as it takes");
}
LogicalResult LoadPairsOp::verify() {
  auto vector = dyn_cast<VectorType>(getTile().getType());
  if (!vector || vector.getNumElements() != 8) return emitOpError("loads eight elements");
  if (getAligned() && getStride()) return emitOpError("has no pairs of elements that lie apart");
  return VerifyTile(*this, getTile().getType(), getDtype());
}

LogicalResult FetchedOp::verify() {
  if (getRank() && (getInPairs() || !getDtype().isF32())) return emitOpError("of another block is of f32");
  auto vector = dyn_cast<VectorType>(getTile().getType());
  if (getInPairs() && (!vector || vector.getNumElements() != 8)) return emitOpError("in pairs has four of them");
  return VerifyTile(*this, getTile().getType(), getDtype());
}
LogicalResult LoadOp::verify() {
  if (getDtype().isBF16() && getElementTypeOrSelf(getTile().getType()).isInteger(32))
    return getStride() ? emitOpError("has no words of elements that lie apart") : success();
  return VerifyTile(*this, getTile().getType(), getDtype());
}
LogicalResult StoreOp::verify() {
  if (getCondition()) {
    auto vector = dyn_cast<VectorType>(getTile().getType());
    // A bool is a byte.
    const unsigned bits = std::max(8u, getDtype().getIntOrFloatBitWidth()) * (vector ? vector.getNumElements() : 1);
    if (!getAligned() || bits % 32 != 0) return emitOpError("with a condition is aligned and has words of 32 bits");
  }
  if (getStreams()) {
    auto vector = dyn_cast<VectorType>(getTile().getType());
    const unsigned bits = std::max(8u, getDtype().getIntOrFloatBitWidth());
    if (!vector || getCondition() || vector.getNumElements() * bits % 512 != 0)
      return emitOpError("that streams has whole lines of 64 bytes, and no condition");
  }
  return VerifyTile(*this, getTile().getType(), getDtype());
}
}  // namespace tile

namespace target {
void TsrTargetDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "tiers/compiler/dialects/Target.cpp.inc"
      >();
}

LogicalResult LaunchOp::verify() {
  if (getStrides().size() != getInputs().size() + getOutputs().size()) return emitOpError("has strides for each view");
  for (Attribute dim : getDims())
    if (cast<DenseI64ArrayAttr>(dim).size() != 2) return emitOpError("has pairs for dims: a value and a dim of it");
  if (getTeam() && getTeam()->size() != 4 && getTeam()->size() != 5)
    return emitOpError("has the threads, the tasks and the shared memory of a block, and blocks, for a team");
  if (getBlocks() && getBlocks()->size() != getTasks().size())
    return emitOpError("has a block for each factor of tasks");
  for (ArrayRef<int64_t> product : {getTasks(), getUnit()})
    for (int64_t factor : product)
      if (factor >= static_cast<int64_t>(getDims().size())) return emitOpError("has no entry ") << factor << " in dims";
  return success();
}
}  // namespace target

}  // namespace tessera::compiler
