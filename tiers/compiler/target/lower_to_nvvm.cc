// tsr-lower-to-nvvm: each tsr_tile.kernel for a CUDA device becomes a kernel function and a tsr_target.launch.
//
// The function takes the views, the entries of the table of dims and the number of tasks, each of 8 bytes. A view with
// bit 63 set is the address of a slot that holds the data's address; that is resolved first, by a branch that all
// threads take alike. Views are in global memory; saying so once, by a cast between address spaces, is enough for LLVM
// to see it at each access. Scratch memory of the kernel is an array in shared memory.
//
// Where several kernels share a function it has a second form, which runs many of them in one launch: small kernels,
// such as the updates of an optimiser, take less time than their launches. Each kernel has a range of blocks; a block
// finds its kernel, takes its parameters, and does what the block of that number of that kernel would do.
//
// Narrow floats are converted by instructions: bf16 to f32 is a shift, and two f32 become two bf16 or f16 at once. A
// NaN that is stored as bf16 or f16 loses its payload. Functions of ops are those of target/math_functions.cc, compiled
// for the device, as on the host. What is special here are intrinsics of NVPTX: places, exchanges in a warp, barriers.
#include "tiers/compiler.h"
#include "tiers/compiler/passes.h"
#include "tiers/compiler/target/codegen.h"
#include "tiers/compiler/target/tensor_cores.h"
#include "tiers/compiler/target/tile_lowering.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

constexpr int32_t kGlobal = 1, kShared = 3;  // address spaces
constexpr int64_t kSlotBytes = 256;          // a value of up to 8 bytes for each warp of a block
constexpr int64_t kRounds = 3;               // of blocks that stay

class DeviceLowering : public TileLowering {
 public:
  using TileLowering::TileLowering;

  /// How many kernels a launch of RunMany() may have; 0: it cannot be made.
  static int64_t MostAtOnce(tile::KernelOp kernel) {
    const int64_t most = tiers::MostOfMany(NumParameters(kernel));
    // Maps are no words. Blocks that stay for many rows are as many as the device has room for, not as there is work,
    // and those that keep rows in shared memory take much of it.
    return kernel.getMaps() || SharedBytes(kernel) > 0 || most < 2 ? 0 : most;
  }
  void SetMany(int64_t most) { many_ = most; }

  void Run() {
    MLIRContext* context = b_.getContext();
    Type ptr = LLVM::LLVMPointerType::get(context);
    SmallVector<Type> parameters(static_cast<size_t>(NumParameters(kernel_)), b_.getI64Type());
    const size_t words = parameters.size();
    const unsigned maps = kernel_.getMaps() ? static_cast<unsigned>(kernel_.getMaps()->size()) : 0;
    parameters.append(maps, ptr);
    LLVM::LLVMFuncOp function = Function(kernel_.getSymName(), parameters);
    // A map is 128 bytes of the launch's own.
    for (size_t k = words; k < parameters.size(); ++k) {
      function.setArgAttr(static_cast<unsigned>(k), "llvm.byval",
                          TypeAttr::get(LLVM::LLVMArrayType::get(b_.getI8Type(), 128)));
      function.setArgAttr(static_cast<unsigned>(k), "llvm.align", b_.getI64IntegerAttr(64));
    }
    Block* entry = function.addEntryBlock(b_);
    b_.setInsertionPointToEnd(entry);
    for (unsigned k = 0; k < maps; ++k) maps_.push_back(entry->getArgument(static_cast<unsigned>(words) + k));
    Fill(function, entry->getArguments().take_front(words));
    LaunchIt();
  }

  /// The function that runs up to `most` kernels in one launch. The kernel stays.
  void RunMany(int64_t most) {
    suffix_ = "_many";
    Type i64 = b_.getI64Type();
    Type ptr = LLVM::LLVMPointerType::get(b_.getContext());
    const int64_t each = NumParameters(kernel_);
    LLVM::LLVMFuncOp function = Function((kernel_.getSymName() + suffix_).str(), ptr);
    const auto words = LLVM::LLVMArrayType::get(i64, static_cast<unsigned>(most + 1 + most * each));
    function.setArgAttr(0, "llvm.byval", TypeAttr::get(words));
    function.setArgAttr(0, "llvm.align", b_.getI64IntegerAttr(8));
    Block* entry = function.addEntryBlock(b_);
    b_.setInsertionPointToEnd(entry);
    auto word = [&](Value index) {
      Value at = LLVM::GEPOp::create(b_, loc_, ptr, i64, entry->getArgument(0), ValueRange(index));
      return LLVM::LoadOp::create(b_, loc_, i64, at, 8);
    };
    auto plus = [&](Value x, Value y) { return LLVM::AddOp::create(b_, loc_, x, y); };
    // The last kernel whose first block is not after this one.
    Value block = Place("block"), member = Number(0);
    for (int64_t step = static_cast<int64_t>(llvm::bit_floor(static_cast<uint64_t>(most))); step > 0; step /= 2) {
      Value next = plus(member, Number(step));
      Value index = LLVM::UMinOp::create(b_, loc_, next, Number(most));
      Value is_there = LLVM::ICmpOp::create(b_, loc_, LLVM::ICmpPredicate::ule, word(index), block);
      member = LLVM::SelectOp::create(b_, loc_, is_there, next, member);
    }
    Value first = word(member);
    block_ = LLVM::SubOp::create(b_, loc_, block, first);
    blocks_ = LLVM::SubOp::create(b_, loc_, word(plus(member, Number(1))), first);
    Value from = plus(LLVM::MulOp::create(b_, loc_, member, Number(each)), Number(most + 1));
    SmallVector<Value> parameters;
    for (int64_t k = 0; k < each; ++k) parameters.push_back(word(plus(from, Number(k))));
    Fill(function, parameters);
  }

 private:
  /// For tsr_tile.fetch and the like.
  static int64_t SharedBytes(tile::KernelOp kernel) {
    const ArrayRef<int64_t> team = *kernel.getTeam();
    return team[3] + (team.size() > 4 ? team[4] : 0);
  }
  /// Blocks of a cluster.
  static int64_t ClusterOf(tile::KernelOp kernel) {
    const ArrayRef<int64_t> team = *kernel.getTeam();
    return team.size() > 5 ? team[5] : 1;
  }
  static int64_t NumViews(tile::KernelOp kernel) { return kernel.getBody().front().getNumArguments() - 4; }
  /// But for maps: views, dims, tasks.
  static int64_t NumParameters(tile::KernelOp kernel) {
    return NumViews(kernel) + static_cast<int64_t>(kernel.getDims().size()) + 1;
  }

  LLVM::LLVMFuncOp Function(StringRef name, ArrayRef<Type> parameters) {
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b_.getContext()), parameters);
    auto function = LLVM::LLVMFuncOp::create(b_, loc_, name, type);
    function.setCConv(LLVM::CConv::PTX_Kernel);
    const int64_t threads = (*kernel_.getTeam())[0];
    const std::string blocks = std::to_string((*kernel_.getTeam())[2]);
    SmallVector<Attribute> attributes = {b_.getStrArrayAttr({"nvvm.maxntid", std::to_string(threads)}),
                                         b_.getStrArrayAttr({"nvvm.minctasm", blocks})};
    if (holds_sums_) attributes.push_back(b_.getStringAttr(kHoldsSums));
    if (kernel_->hasAttr("source")) attributes.push_back(b_.getStringAttr(kAsSource));
    if (reads_ahead_) attributes.push_back(b_.getStringAttr(kKeepsLoops));
    if (ClusterOf(kernel_) > 1)
      attributes.push_back(b_.getStrArrayAttr({"nvvm.cluster_dim", std::to_string(ClusterOf(kernel_)) + ",1,1"}));
    function.setPassthroughAttr(b_.getArrayAttr(attributes));
    return function;
  }

  /// The body of the kernel, with these parameters.
  void Fill(LLVM::LLVMFuncOp function, ValueRange parameters) {
    Type ptr = LLVM::LLVMPointerType::get(b_.getContext());
    Block& body = kernel_.getBody().front();
    const auto views = static_cast<unsigned>(NumViews(kernel_));
    const auto dims = static_cast<unsigned>(kernel_.getDims().size());
    IRMapping map;
    for (auto [k, view] : llvm::enumerate(Resolved(parameters.take_front(views))))
      map.map(body.getArgument(static_cast<unsigned>(k)), view);
    Value scratch = kernel_.getFixed() > 0 ? SharedMemory(kernel_.getFixed()) : LLVM::ZeroOp::create(b_, loc_, ptr);
    map.map(body.getArgument(views), scratch);
    // Nothing reads the table but tsr_tile.dim.
    map.map(body.getArgument(views + 1), LLVM::ZeroOp::create(b_, loc_, ptr).getResult());
    map.map(body.getArgument(views + 2), Number(0));
    map.map(body.getArgument(views + 3), parameters[views + dims]);
    for (unsigned k = 0; k < dims; ++k) dims_.push_back(parameters[views + k]);
    LowerBody(function, map);
  }

  void LaunchIt() override {
    // Blocks that fetch what they need next while they compute stay for long: for what one of several rounds of them
    // has, so that it does not matter how the last ones come out. Those that multiply are as many as find room.
    const ArrayRef<int64_t> team = *kernel_.getTeam();
    const int64_t resident = team[3] == 0 ? 0 : holds_sums_ ? team[2] : kRounds * team[2];
    SmallVector<int64_t> of_launch = {team[0], team[1], SharedBytes(kernel_), resident};
    if (ClusterOf(kernel_) > 1) of_launch.push_back(ClusterOf(kernel_));
    Launch(b_.getI64IntegerAttr(0), b_.getDenseI64ArrayAttr(of_launch));
  }

  Value Number(int64_t n) { return LLVM::ConstantOp::create(b_, loc_, b_.getI64Type(), b_.getI64IntegerAttr(n)); }
  Value Small(int64_t n) {
    return LLVM::ConstantOp::create(b_, loc_, b_.getI32Type(), b_.getI32IntegerAttr(static_cast<int32_t>(n)));
  }
  Value Intrinsic(StringRef name, ValueRange operands, Type result) {
    return LLVM::CallIntrinsicOp::create(b_, loc_, result, b_.getStringAttr(name), operands).getResult(0);
  }
  Value Generic(Value pointer) {
    return LLVM::AddrSpaceCastOp::create(b_, loc_, LLVM::LLVMPointerType::get(b_.getContext()), pointer);
  }

  // The views as pointers. All are looked at together: one branch, which is seldom taken, and little to do without it.
  SmallVector<Value> Resolved(ValueRange views) {
    Type i64 = b_.getI64Type();
    Type global = LLVM::LLVMPointerType::get(b_.getContext(), kGlobal);
    Region* region = b_.getBlock()->getParent();
    auto is_slot = [&](Value v) { return LLVM::ICmpOp::create(b_, loc_, LLVM::ICmpPredicate::slt, v, Number(0)); };
    auto block = [&](size_t arguments) {
      return b_.createBlock(region, region->end(), SmallVector<Type>(arguments, i64),
                            SmallVector<Location>(arguments, loc_));
    };
    Value any;
    for (Value v : views) any = any ? LLVM::OrOp::create(b_, loc_, any, v).getResult() : v;
    any = is_slot(any);
    Block *entry = b_.getBlock(), *slots = block(0), *from = slots;
    SmallVector<Value> found;
    for (Value v : views) {
      Value is_one = is_slot(v);
      Block* slot = block(0);
      Value at = LLVM::AndOp::create(b_, loc_, v, Number(INT64_MAX));
      Value data = LLVM::LoadOp::create(b_, loc_, i64, LLVM::IntToPtrOp::create(b_, loc_, global, at), 8);
      Block* after = block(1);
      b_.setInsertionPointToEnd(slot);
      LLVM::BrOp::create(b_, loc_, ValueRange(data), after);
      b_.setInsertionPointToEnd(from);
      LLVM::CondBrOp::create(b_, loc_, is_one, slot, ValueRange(), after, ValueRange(v));
      found.push_back(after->getArgument(0));
      b_.setInsertionPointToEnd(from = after);
    }
    Block* next = block(views.size());
    b_.setInsertionPointToEnd(from);
    LLVM::BrOp::create(b_, loc_, found, next);
    b_.setInsertionPointToEnd(entry);
    LLVM::CondBrOp::create(b_, loc_, any, slots, ValueRange(), next, views);
    b_.setInsertionPointToEnd(next);
    SmallVector<Value> pointers;
    for (Value v : next->getArguments()) pointers.push_back(Generic(LLVM::IntToPtrOp::create(b_, loc_, global, v)));
    return pointers;
  }

  Value SharedMemory(uint64_t bytes) {
    const std::string name = (kernel_.getSymName() + suffix_ + "_shared").str();
    auto type = LLVM::LLVMArrayType::get(b_.getI8Type(), static_cast<unsigned>(bytes));
    LLVM::GlobalOp global;
    {
      OpBuilder::InsertionGuard guard(b_);
      b_.setInsertionPointToStart(module_.getBody());
      global = LLVM::GlobalOp::create(b_, loc_, type, /*isConstant=*/false, LLVM::Linkage::Internal, name, Attribute(),
                                      /*alignment=*/16, kShared);
      b_.createBlock(&global.getInitializer());
      LLVM::ReturnOp::create(b_, loc_, ValueRange(LLVM::UndefOp::create(b_, loc_, type)));
    }
    return Generic(LLVM::AddressOfOp::create(b_, loc_, global));
  }

  Value Byte(Value base, Value at) {
    return LLVM::GEPOp::create(b_, loc_, base.getType(), b_.getI8Type(), base, ValueRange(at));
  }

  // The dynamic shared memory of a block from byte `slot` on.
  Value Fetched(Value slot) {
    const std::string name = (kernel_.getSymName() + "_rows").str();
    auto global = module_.lookupSymbol<LLVM::GlobalOp>(name);
    if (!global) {
      OpBuilder::InsertionGuard guard(b_);
      b_.setInsertionPointToStart(module_.getBody());
      global = LLVM::GlobalOp::create(b_, loc_, LLVM::LLVMArrayType::get(b_.getI8Type(), 0), /*isConstant=*/false,
                                      LLVM::Linkage::External, name, Attribute(), /*alignment=*/1024, kShared);
    }
    return Byte(LLVM::AddressOfOp::create(b_, loc_, global), slot);
  }

  void Fetch(tile::FetchOp op) {
    Type global = LLVM::LLVMPointerType::get(b_.getContext(), kGlobal);
    Value from =
        LLVM::AddrSpaceCastOp::create(b_, loc_, global, At(op.getView(), op.getOffset(), MemoryType(op.getDtype())));
    Value to = Fetched(op.getSlot());
    const int64_t bytes = static_cast<int64_t>(op.getLanes()) * op.getDtype().getIntOrFloatBitWidth() / 8;
    const int64_t each = std::min<int64_t>(bytes, 16);
    const std::string name = each == 16  ? "llvm.nvvm.cp.async.cg.shared.global.16"
                             : each == 8 ? "llvm.nvvm.cp.async.ca.shared.global.8"
                                         : "llvm.nvvm.cp.async.ca.shared.global.4";
    if (Value condition = op.getCondition()) {
      Value size = LLVM::SelectOp::create(b_, loc_, condition, Small(16), Small(0));
      Value address = LLVM::PtrToIntOp::create(b_, loc_, b_.getI32Type(), to);
      LLVM::InlineAsmOp::create(b_, loc_, TypeRange(), ValueRange({address, from, size}),
                                "cp.async.cg.shared.global [$0], [$1], 16, $2;", "r,l,r", /*has_side_effects=*/true,
                                /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
                                LLVM::AsmDialectAttr::get(b_.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
      return;
    }
    for (int64_t at = 0; at < bytes; at += each) {
      Value there = at == 0 ? to : Byte(to, Number(at));
      Value here = at == 0 ? from : Byte(from, Number(at));
      LLVM::CallIntrinsicOp::create(b_, loc_, b_.getStringAttr(name), ValueRange({there, here}));
    }
  }

  // In text, so that no branch cuts what is computed into pieces.
  void StoreIf(tile::StoreOp op) {
    Value tile = op.getTile();
    const int64_t lanes = LanesOf(tile.getType());
    Type memory = MemoryType(op.getDtype()), i32 = b_.getI32Type();
    if (IsNarrowFloat(op.getDtype())) tile = ToMemory(tile, op.getDtype(), WithLanes(memory, lanes));
    const int64_t words = lanes * memory.getIntOrFloatBitWidth() / 32;
    Value all = LLVM::BitcastOp::create(b_, loc_, WithLanes(i32, words), tile);
    Type global = LLVM::LLVMPointerType::get(b_.getContext(), kGlobal);
    Value to = LLVM::AddrSpaceCastOp::create(b_, loc_, global, At(op.getView(), op.getOffset(), memory));
    Value condition = LLVM::ZExtOp::create(b_, loc_, i32, op.getCondition());
    for (int64_t at = 0; at < words;) {
      const int64_t n = words - at >= 4 ? 4 : words - at >= 2 ? 2 : 1;
      SmallVector<Value> operands = {condition, at == 0 ? to : Byte(to, Number(at * 4))};
      std::string text = "{\n.reg .pred p;\nsetp.ne.b32 p, $0, 0;\n@p st.global" +
                         (n > 1 ? ".v" + std::to_string(n) : std::string()) + ".b32 [$1], {";
      std::string constraints = "r,l";
      for (int64_t k = 0; k < n; ++k) {
        operands.push_back(words == 1 ? all : Element(all, at + k));
        text += (k > 0 ? ", $" : "$") + std::to_string(2 + k);
        constraints += ",r";
      }
      LLVM::InlineAsmOp::create(b_, loc_, TypeRange(), operands, text + "};\n}", constraints,
                                /*has_side_effects=*/true, /*is_align_stack=*/false,
                                LLVM::tailcallkind::TailCallKind::None,
                                LLVM::AsmDialectAttr::get(b_.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
      at += n;
    }
  }

  // The fields of a cuda::DeviceError. In text, so that there is no branch in the middle of a block.
  void Report(tile::ReportOp op) {
    const std::string text =
        "{\n.reg .pred p;\n.reg .b64 t;\n.reg .b32 o;\nld.b64 t, [$0+24];\natom.cas.b32 o, [t], 0, 1;\n"
        "setp.eq.b32 p, o, 0;\n@p st.b32 [$0+4], $3;\n@p st.b64 [$0+8], $1;\n@p st.b64 [$0+16], $2;\n"
        "@p st.b32 [$0], 1;\n}";
    LLVM::InlineAsmOp::create(b_, loc_, TypeRange(),
                              ValueRange({op.getError(), op.getValue(), op.getBound(), Small(NumberOf(op.getOp()))}),
                              text, "l,l,l,r,~{memory}", /*has_side_effects=*/true, /*is_align_stack=*/false,
                              LLVM::tailcallkind::TailCallKind::None,
                              LLVM::AsmDialectAttr::get(b_.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
  }

  Value LoadFetched(tile::FetchedOp op) {
    Type memory = MemoryType(op.getDtype()), tile = op.getTile().getType();
    const int64_t lanes = LanesOf(tile);
    const unsigned each = memory.getIntOrFloatBitWidth() / 8, bytes = static_cast<unsigned>(lanes) * each;
    Value bits;
    if (op.getInPairs()) {
      bits = LLVM::PoisonOp::create(b_, loc_, WithLanes(memory, lanes));
      for (int64_t k = 0; k < lanes; k += 2) {
        Value at = Byte(Fetched(op.getSlot()), Number(k * 4 * each));
        Value pair = LLVM::LoadOp::create(b_, loc_, WithLanes(memory, 2), at, 2 * each);
        for (int64_t e = 0; e < 2; ++e) bits = Insert(bits, Element(pair, e), k + e);
      }
    } else {
      bits = LLVM::LoadOp::create(b_, loc_, WithLanes(memory, lanes), Fetched(op.getSlot()),
                                  std::min<unsigned>(16, bytes));
    }
    return IsNarrowFloat(op.getDtype()) ? FromMemory(bits, op.getDtype(), tile) : bits;
  }

  // In text, so that there are no branches: each element, or each pair, is read where it is there.
  Value LoadPairs(tile::LoadPairsOp op) {
    constexpr int64_t kLanes = 8;
    Type memory = MemoryType(op.getDtype()), i32 = b_.getI32Type();
    const unsigned bits = memory.getIntOrFloatBitWidth();
    const bool in_pairs = op.getAligned() && (bits == 16 || bits == 32);
    Type global = LLVM::LLVMPointerType::get(b_.getContext(), kGlobal);
    Value left = LLVM::TruncOp::create(b_, loc_, i32, op.getLeft());
    Type word = bits == 64 ? b_.getI64Type() : bits == 32 || in_pairs ? i32 : Type(b_.getI16Type());
    const std::string letter = bits == 64 ? "l" : bits == 32 || in_pairs ? "r" : "h";
    auto load = [&](Value at, int64_t lane, const std::string& what, int64_t results) -> Value {
      std::string zeros, constraints;
      for (int64_t k = 0; k < results; ++k) {
        zeros += "mov.b" + std::to_string(word.getIntOrFloatBitWidth()) + " $" + std::to_string(k) + ", 0;\n";
        constraints += "=&" + letter + ",";
      }
      const std::string text = "{\n.reg .pred p;\nsetp.gt.s32 p, $" + std::to_string(results + 1) + ", " +
                               std::to_string(lane) + ";\n" + zeros + "@p ld.global.nc." + what + ", [$" +
                               std::to_string(results) + "];\n}";
      Type type = word;
      if (results > 1)
        type = LLVM::LLVMStructType::getLiteral(b_.getContext(), SmallVector<Type>(static_cast<size_t>(results), word));
      return LLVM::InlineAsmOp::create(b_, loc_, type, ValueRange({at, left}), text, constraints + "l,r",
                                       /*has_side_effects=*/true, /*is_align_stack=*/false,
                                       LLVM::tailcallkind::TailCallKind::None,
                                       LLVM::AsmDialectAttr::get(b_.getContext(), LLVM::AsmDialect::AD_ATT),
                                       ArrayAttr())
          .getResult(0);
    };
    Value base = LLVM::AddrSpaceCastOp::create(b_, loc_, global, At(op.getView(), op.getOffset(), memory));
    Value all = LLVM::PoisonOp::create(b_, loc_, WithLanes(memory, kLanes));
    auto as_element = [&](Value w) -> Value {
      if (bits == 8) w = LLVM::TruncOp::create(b_, loc_, b_.getI8Type(), w);
      return w.getType() == memory ? w : LLVM::BitcastOp::create(b_, loc_, memory, w).getResult();
    };
    for (int64_t k = 0; k < kLanes; k += in_pairs ? 2 : 1) {
      const int64_t lane = k / 2 * 8 + k % 2;
      Value at = base;
      if (lane > 0 && op.getStride()) {
        Value far = LLVM::MulOp::create(b_, loc_, op.getStride(), Number(lane));
        at = LLVM::GEPOp::create(b_, loc_, global, memory, base, ArrayRef<LLVM::GEPArg>{far});
      } else if (lane > 0) {
        at = LLVM::GEPOp::create(b_, loc_, global, memory, base, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(lane)});
      }
      if (!in_pairs) {
        all = Insert(all, as_element(load(at, lane, "b" + std::to_string(bits) + " $0", 1)), k);
      } else if (bits == 16) {
        Value two = LLVM::BitcastOp::create(b_, loc_, WithLanes(memory, 2), load(at, lane, "b32 $0", 1));
        for (int64_t e = 0; e < 2; ++e) all = Insert(all, Element(two, e), k + e);
      } else {
        Value two = load(at, lane, "v2.b32 {$0, $1}", 2);
        for (int64_t e = 0; e < 2; ++e)
          all = Insert(all, as_element(LLVM::ExtractValueOp::create(b_, loc_, two, ArrayRef<int64_t>{e})), k + e);
      }
    }
    Type tile = op.getTile().getType();
    return IsNarrowFloat(op.getDtype()) ? FromMemory(all, op.getDtype(), tile) : all;
  }

  // ---- narrow floats

  static bool HasInstructions(Type dtype) { return dtype.isBF16() || dtype.isF16(); }

  Type MemoryType(Type dtype) override { return dtype.isF16() ? dtype : TileLowering::MemoryType(dtype); }

  Value FromMemory(Value bits, Type dtype, Type tile) override {
    if (dtype.isF16()) return LLVM::FPExtOp::create(b_, loc_, tile, bits);
    if (!dtype.isBF16()) return TileLowering::FromMemory(bits, dtype, tile);
    const int64_t lanes = LanesOf(tile);
    Type i32 = b_.getI32Type();
    if (lanes % 2 != 0) {
      Value wide = LLVM::ZExtOp::create(b_, loc_, WithLanes(i32, lanes), bits);
      return LLVM::BitcastOp::create(b_, loc_, tile, LLVM::ShlOp::create(b_, loc_, wide, Splat(16, wide.getType())));
    }
    Type half = WithLanes(i32, lanes / 2);
    Value pairs = LLVM::BitcastOp::create(b_, loc_, half, bits);
    Value low = LLVM::ShlOp::create(b_, loc_, pairs, Splat(16, half));
    Value high = LLVM::AndOp::create(b_, loc_, pairs, Splat(-65536, half));
    Value all = LLVM::PoisonOp::create(b_, loc_, WithLanes(i32, lanes));
    for (int64_t k = 0; k < lanes; ++k) {
      Value from = k % 2 == 0 ? low : high;
      all = Insert(all, lanes == 2 ? from : Element(from, k / 2), k);
    }
    return LLVM::BitcastOp::create(b_, loc_, tile, all);
  }

  Value ToMemory(Value tile, Type dtype, Type bits) override {
    if (!HasInstructions(dtype)) return TileLowering::ToMemory(tile, dtype, bits);
    const int64_t lanes = LanesOf(tile.getType());
    if (lanes % 2 != 0) {
      Value narrow = LLVM::FPTruncOp::create(b_, loc_, WithLanes(dtype, lanes), tile);
      return narrow.getType() == bits ? narrow : LLVM::BitcastOp::create(b_, loc_, bits, narrow).getResult();
    }
    const StringRef name = dtype.isF16() ? "llvm.nvvm.ff2f16x2.rn" : "llvm.nvvm.ff2bf16x2.rn";
    Type pair = WithLanes(dtype, 2), i32 = b_.getI32Type();
    Value all = LLVM::PoisonOp::create(b_, loc_, WithLanes(i32, lanes / 2));
    for (int64_t k = 0; k < lanes; k += 2) {
      // The first operand goes to the upper half.
      Value two = Intrinsic(name, {Element(tile, k + 1), Element(tile, k)}, pair);
      Value word = LLVM::BitcastOp::create(b_, loc_, i32, two);
      all = lanes == 2 ? word : Insert(all, word, k / 2);
    }
    return LLVM::BitcastOp::create(b_, loc_, bits, all);
  }

  Value Splat(int64_t n, Type type) {
    Attribute value = b_.getI32IntegerAttr(static_cast<int32_t>(n));
    if (auto vector = dyn_cast<VectorType>(type)) value = DenseElementsAttr::get(vector, value);
    return LLVM::ConstantOp::create(b_, loc_, type, value);
  }

  // ---- threads

  Value Place(StringRef what) {
    if (what == "block" && block_) return block_;
    if (what == "blocks" && blocks_) return blocks_;
    if (what == "group") {
      // All threads of a warp are of one group. An exchange says so to the assembler, which then keeps what follows
      // from it where instructions of tensor cores want their operands.
      Value thread = Intrinsic("llvm.nvvm.read.ptx.sreg.tid.x", {}, b_.getI32Type());
      Value group = LLVM::LShrOp::create(b_, loc_, thread, Small(7));
      group = Intrinsic("llvm.nvvm.shfl.sync.idx.i32", {Small(-1), group, Small(0), Small(31)}, b_.getI32Type());
      return LLVM::ZExtOp::create(b_, loc_, b_.getI64Type(), group);
    }
    const StringRef name = what == "thread"  ? "llvm.nvvm.read.ptx.sreg.tid.x"
                           : what == "block" ? "llvm.nvvm.read.ptx.sreg.ctaid.x"
                           : what == "rank"  ? "llvm.nvvm.read.ptx.sreg.cluster.ctarank"
                                             : "llvm.nvvm.read.ptx.sreg.nctaid.x";
    return LLVM::ZExtOp::create(b_, loc_, b_.getI64Type(), Intrinsic(name, {}, b_.getI32Type()));
  }

  void Barrier() {
    LLVM::CallIntrinsicOp::create(b_, loc_, b_.getStringAttr("llvm.nvvm.barrier.cta.sync.aligned.all"),
                                  ValueRange(Small(0)));
  }

  // x of the thread whose number differs in the bits of `mask`.
  Value Exchanged(Value x, int64_t mask) {
    Type type = x.getType(), i32 = b_.getI32Type();
    const unsigned bits = type.getIntOrFloatBitWidth();
    auto word = [&](Value w) {
      return Intrinsic("llvm.nvvm.shfl.sync.bfly.i32", {Small(-1), w, Small(mask), Small(31)}, i32);
    };
    if (bits == 64) {
      Type pair = WithLanes(i32, 2);
      Value halves = LLVM::BitcastOp::create(b_, loc_, pair, x);
      Value both = LLVM::PoisonOp::create(b_, loc_, pair);
      for (int64_t k = 0; k < 2; ++k) both = Insert(both, word(Element(halves, k)), k);
      return LLVM::BitcastOp::create(b_, loc_, type, both);
    }
    if (bits == 32) {
      Value w = type == i32 ? x : LLVM::BitcastOp::create(b_, loc_, i32, x).getResult();
      w = word(w);
      return type == i32 ? w : LLVM::BitcastOp::create(b_, loc_, type, w).getResult();
    }
    return LLVM::TruncOp::create(b_, loc_, type, word(LLVM::ZExtOp::create(b_, loc_, i32, x)));
  }

  Value TeamReduce(tile::TeamReduceOp op) {
    Value x = op.getX();
    Type type = x.getType();
    const int64_t threads = static_cast<int64_t>(op.getThreads());
    auto exchange = [&](int64_t width) {
      for (int64_t mask = width / 2; mask > 0; mask /= 2) x = Pair(op.getFunction(), x, Exchanged(x, mask));
    };
    exchange(std::min<int64_t>(threads, 32));
    const int64_t warps = threads / 32;
    if (warps <= 1) return x;
    Value slot = LLVM::GEPOp::create(b_, loc_, op.getScratch().getType(), b_.getI8Type(), op.getScratch(),
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(op.getSlot() * kSlotBytes)});
    Value thread = Intrinsic("llvm.nvvm.read.ptx.sreg.tid.x", {}, b_.getI32Type());
    Value warp = LLVM::LShrOp::create(b_, loc_, thread, Small(5));
    // All lanes of a warp have the same value: that they all write it costs nothing.
    const unsigned bytes = type.getIntOrFloatBitWidth() / 8;
    LLVM::StoreOp::create(b_, loc_, x, At(slot, warp, type), bytes);
    Barrier();
    Value lane = LLVM::AndOp::create(b_, loc_, thread, Small(warps - 1));
    x = LLVM::LoadOp::create(b_, loc_, type, At(slot, lane, type), bytes);
    exchange(warps);
    return x;
  }

  void Text(const std::string& text, StringRef constraints, ValueRange operands) {
    LLVM::InlineAsmOp::create(b_, loc_, TypeRange(), operands, text, constraints, /*has_side_effects=*/true,
                              /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
                              LLVM::AsmDialectAttr::get(b_.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
  }

  void ClusterReduce(tile::ClusterReduceOp op) {
    const auto blocks = static_cast<int64_t>(op.getBlocks());
    const int64_t warps = static_cast<int64_t>(op.getThreads()) / 32, all = warps * blocks;
    const int64_t width = std::min<int64_t>(all, 32);  // results of warps that a warp reads at a time
    Type i32 = b_.getI32Type();
    auto plus = [&](Value x, Value y) { return LLVM::AddOp::create(b_, loc_, x, y).getResult(); };
    auto address = [&](Value pointer) { return LLVM::PtrToIntOp::create(b_, loc_, i32, pointer).getResult(); };
    auto exchange = [&](Value x, int64_t lanes) {
      for (int64_t mask = lanes / 2; mask > 0; mask /= 2) x = Pair(op.getFunction(), x, Exchanged(x, mask));
      return x;
    };
    // What is sent has 4 or 8 bytes.
    auto sent = [&](Value x) { return x.getType().getIntOrFloatBitWidth() == 64 ? 64u : 32u; };
    auto place = [&](size_t k, Value warp) {
      Value at = LLVM::MulOp::create(b_, loc_, warp, Small(sent(op.getX()[k]) / 8));
      return Byte(Fetched(op.getSlot()), plus(at, Small(static_cast<int64_t>(k) * all * 8)));
    };
    Value thread = Intrinsic("llvm.nvvm.read.ptx.sreg.tid.x", {}, i32);
    Value rank = Intrinsic("llvm.nvvm.read.ptx.sreg.cluster.ctarank", {}, i32);
    Value warp = LLVM::LShrOp::create(b_, loc_, thread, Small(5));
    Value lane = LLVM::AndOp::create(b_, loc_, thread, Small(31));
    Value mine = plus(LLVM::MulOp::create(b_, loc_, rank, Small(warps)), warp);
    Value signal = address(Fetched(op.getSignal()));
    for (auto [k, x] : llvm::enumerate(op.getX())) {
      Value word = exchange(x, 32);
      const unsigned bits = x.getType().getIntOrFloatBitWidth();
      if (isa<FloatType>(x.getType())) word = LLVM::BitcastOp::create(b_, loc_, b_.getIntegerType(bits), word);
      if (bits < 32) word = LLVM::ZExtOp::create(b_, loc_, i32, word);
      // A lane for each block.
      Text("{\n.reg .pred p;\n.reg .b32 a, s;\nsetp.lt.u32 p, $2, " + std::to_string(blocks) +
               ";\n@p mapa.shared::cluster.u32 a, $0, $2;\n@p mapa.shared::cluster.u32 s, $1, $2;\n"
               "@p st.async.shared::cluster.mbarrier::complete_tx::bytes.b" +
               std::to_string(sent(x)) + " [a], $3, [s];\n}",
           bits == 64 ? "r,r,r,l,~{memory}" : "r,r,r,r,~{memory}", {address(place(k, mine)), signal, lane, word});
    }
    Text(
        "{\n.reg .pred p;\nAgain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [$0], 0;\n@p bra Over;\nbra Again;\n"
        "Over:\n}",
        "r,~{memory}", signal);
    Value first = LLVM::AndOp::create(b_, loc_, lane, Small(width - 1));
    for (auto [k, x] : llvm::enumerate(op.getX())) {
      Type type = x.getType();
      Value sum;
      for (int64_t from = 0; from < all; from += width) {
        Value at = place(k, from == 0 ? first : plus(first, Small(from)));
        Value part = LLVM::LoadOp::create(b_, loc_, type, at, sent(x) / 8);
        sum = sum ? Pair(op.getFunction(), sum, part) : part;
      }
      op.getReduced()[k].replaceAllUsesWith(exchange(sum, width));
    }
  }

  // Larger and smaller of two f32 are instructions. Null for other functions.
  Value Larger(StringRef function, Value x, Value y) {
    if (function == "maximum_f32") return LLVM::MaximumOp::create(b_, loc_, x, y);
    if (function == "minimum_f32") return LLVM::MinimumOp::create(b_, loc_, x, y);
    return Value();
  }
  Value Pair(StringRef function, Value x, Value y) override {
    Value larger = Larger(function, x, y);
    return larger ? larger : TileLowering::Pair(function, x, y);
  }

  std::optional<Value> LowerOwn(Operation* op) override {
    if (auto dim = dyn_cast<tile::DimOp>(op)) return dims_[dim.getIndex()];
    if (auto place = dyn_cast<tile::PlaceOp>(op)) return Place(place.getWhat());
    if (auto team = dyn_cast<tile::TeamReduceOp>(op)) return TeamReduce(team);
    if (auto fetched = dyn_cast<tile::FetchedOp>(op); fetched && !fetched.getRank()) return LoadFetched(fetched);
    if (auto cluster = dyn_cast<tile::ClusterReduceOp>(op)) {
      ClusterReduce(cluster);
      return Value();
    }
    if (auto store = dyn_cast<tile::StoreOp>(op); store && store.getCondition()) {
      StoreIf(store);
      return Value();
    }
    if (auto fetch = dyn_cast<tile::FetchOp>(op)) {
      Fetch(fetch);
      return Value();
    }
    if (auto report = dyn_cast<tile::ReportOp>(op)) {
      Report(report);
      return Value();
    }
    if (auto await = dyn_cast<tile::AwaitOp>(op)) {
      const bool all = !await.getPending();
      SmallVector<Value> pending;
      if (!all) pending.push_back(Small(static_cast<int64_t>(*await.getPending())));
      LLVM::CallIntrinsicOp::create(
          b_, loc_, b_.getStringAttr(all ? "llvm.nvvm.cp.async.wait.all" : "llvm.nvvm.cp.async.wait.group"), pending);
      return Value();
    }
    if (isa<tile::CommitOp>(op)) {
      LLVM::CallIntrinsicOp::create(b_, loc_, b_.getStringAttr("llvm.nvvm.cp.async.commit.group"), ValueRange());
      return Value();
    }
    if (auto pairs = dyn_cast<tile::LoadPairsOp>(op)) return LoadPairs(pairs);
    if (LowerTensorCoreOp(op, b_, [&](Value slot) { return Fetched(slot); }, maps_)) return Value();
    if (isa<tile::WarpBarrierOp>(op)) {
      LLVM::CallIntrinsicOp::create(b_, loc_, b_.getStringAttr("llvm.nvvm.bar.warp.sync"), ValueRange(Small(-1)));
      return Value();
    }
    if (isa<tile::BarrierOp>(op)) {
      Barrier();
      return Value();
    }
    if (auto map = dyn_cast<tile::MapOp>(op)) {
      if (Value y = map.getOperands().size() == 2
                        ? Larger(map.getFunction(), map.getOperands()[0], map.getOperands()[1])
                        : Value())
        return y;
      Type narrow = map.getFunction() == "round_bf16"  ? Type(b_.getBF16Type())
                    : map.getFunction() == "round_f16" ? Type(b_.getF16Type())
                                                       : Type();
      if (!narrow) return std::nullopt;
      Value x = map.getOperands()[0];
      const int64_t lanes = LanesOf(x.getType());
      Value bits = ToMemory(x, narrow, WithLanes(MemoryType(narrow), lanes));
      return FromMemory(bits, narrow, x.getType());
    }
    return std::nullopt;
  }

  SmallVector<Value> dims_, maps_;
  const bool holds_sums_ = kernel_.walk([](tile::MultiplyOp) { return WalkResult::interrupt(); }).wasInterrupted();
  const bool reads_ahead_ = kernel_.walk([](tile::MultiplyReadOp) { return WalkResult::interrupt(); }).wasInterrupted();
  StringRef suffix_;      // of the function
  Value block_, blocks_;  // this one and how many there are, of one kernel of many; null: of the launch
};

class LowerToNvvmPass : public PassWrapper<LowerToNvvmPass, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerToNvvmPass)
  StringRef getArgument() const override { return "tsr-lower-to-nvvm"; }
  StringRef getDescription() const override { return "tile kernels as kernels of a CUDA device, and the plan"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<target::TsrTargetDialect, LLVM::LLVMDialect>();
  }
  void runOnOperation() override {
    SmallVector<tile::KernelOp> kernels;
    getOperation().walk([&](tile::KernelOp kernel) { kernels.push_back(kernel); });
    SharedCode shared;
    SmallVector<StringAttr> functions;
    llvm::DenseMap<StringAttr, int64_t> users, most;
    for (tile::KernelOp kernel : kernels) {
      if (!kernel.getTeam()) {
        kernel.emitOpError("is no kernel for a CUDA device: it has no team");
        return signalPassFailure();
      }
      functions.push_back(shared.FunctionOf(kernel));
      ++users[functions.back()];
    }
    for (auto [kernel, function] : llvm::zip(kernels, functions)) {
      const bool is_own = function == kernel.getSymNameAttr();
      if (is_own && users.lookup(function) > 1) {
        const int64_t n = most[function] = DeviceLowering::MostAtOnce(kernel);
        if (n > 0) DeviceLowering(getOperation(), kernel).RunMany(n);
      }
      DeviceLowering lowering(getOperation(), kernel);
      lowering.SetMany(most.lookup(function));
      is_own ? lowering.Run() : lowering.Share(function);
    }
  }
};

}  // namespace

std::unique_ptr<Pass> MakeLowerToNvvmPass() { return std::make_unique<LowerToNvvmPass>(); }

}  // namespace tessera::compiler
