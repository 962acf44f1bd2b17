#include "tiers/compiler/target/widen.h"

#include <algorithm>
#include <utility>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "tiers/compiler/target/math_library.h"

namespace tessera::compiler {
namespace {

using llvm::ArrayRef;
using llvm::FixedVectorType;
using llvm::Function;
using llvm::FunctionType;
using llvm::IRBuilder;
using llvm::SmallVector;
using llvm::StringRef;
using llvm::Type;
using llvm::Value;

constexpr StringRef kPrefix = "tsr_";

llvm::Error Failure(const llvm::Twine& what) { return llvm::createStringError(what); }

/// Reads names and types; bodies when they are needed.
llvm::Expected<std::unique_ptr<llvm::Module>> OpenLibrary(llvm::LLVMContext& context, bool device = false) {
  const std::string_view bitcode = device ? DeviceMathBitcode() : MathBitcode();
  return llvm::getLazyBitcodeModule(llvm::MemoryBufferRef(StringRef(bitcode.data(), bitcode.size()), "tessera_math"),
                                    context,
                                    /*ShouldLazyLoadMetadata=*/true);
}

/// "tsr_exp_f32_v8": the scalar name and 8. 0 lanes: a scalar function.
std::pair<StringRef, unsigned> SplitName(StringRef name) {
  const size_t at = name.rfind("_v");
  unsigned lanes = 0;
  if (at != StringRef::npos && !name.substr(at + 2).getAsInteger(10, lanes) && lanes > 0) {
    return {name.take_front(at), lanes};
  }
  return {name, 0};
}

FunctionType* Widened(FunctionType* type, unsigned lanes) {
  SmallVector<Type*, 4> operands;
  for (Type* t : type->params()) operands.push_back(FixedVectorType::get(t, lanes));
  return FunctionType::get(FixedVectorType::get(type->getReturnType(), lanes), operands, false);
}

bool WidensType(const Type* type) { return type->isIntegerTy() || type->isFloatingPointTy(); }

/// A function of scalars that LLVM has no vector form of.
bool IsForEachLane(const llvm::Instruction& i) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
  return call != nullptr && !llvm::isTriviallyVectorizable(call->getIntrinsicID()) && call->doesNotAccessMemory();
}

/// Has each instruction a vector form that does the same in every lane? `interleaves`: one that has none is repeated
/// for each lane.
bool IsStraight(const Function& f, bool interleaves = false) {
  if (f.size() != 1) return false;
  for (const llvm::Instruction& i : f.getEntryBlock()) {
    if (llvm::isa<llvm::ReturnInst>(i)) continue;
    if (!WidensType(i.getType())) return false;
    for (const Value* v : i.operand_values()) {
      if (!WidensType(v->getType()) && !llvm::isa<Function>(v)) return false;
    }
    if (llvm::isa<llvm::BinaryOperator, llvm::UnaryOperator, llvm::CmpInst, llvm::CastInst, llvm::SelectInst,
                  llvm::FreezeInst>(i)) {
      continue;
    }
    if (interleaves && IsForEachLane(i)) continue;
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
    if (call == nullptr || !llvm::isTriviallyVectorizable(call->getIntrinsicID())) return false;
  }
  return true;
}

bool HasLoop(const Function& f) {
  // Blocks are in reverse post-order where clang put them: an edge back is an edge to a block that stands earlier.
  llvm::DenseMap<const llvm::BasicBlock*, int> order;
  int n = 0;
  for (const llvm::BasicBlock& b : f) order[&b] = n++;
  for (const llvm::BasicBlock& b : f) {
    for (const llvm::BasicBlock* s : llvm::successors(&b)) {
      if (order[s] <= order[&b]) return true;
    }
  }
  return false;
}

/// The body of f, which IsStraight, on vectors.
Value* WidenBody(IRBuilder<>& b, const Function& f, ArrayRef<Value*> operands, unsigned lanes) {
  llvm::DenseMap<const Value*, Value*> wide;
  for (const llvm::Argument& a : f.args()) wide[&a] = operands[a.getArgNo()];
  const auto widen_type = [&](Type* t) { return FixedVectorType::get(t, lanes); };
  const auto get = [&](const Value* v) -> Value* {
    if (const auto* c = llvm::dyn_cast<llvm::Constant>(v)) {
      return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(lanes), const_cast<llvm::Constant*>(c));
    }
    return wide.at(v);
  };
  for (const llvm::Instruction& i : f.getEntryBlock()) {
    Value* r = nullptr;
    if (const auto* op = llvm::dyn_cast<llvm::BinaryOperator>(&i)) {
      r = b.CreateBinOp(op->getOpcode(), get(op->getOperand(0)), get(op->getOperand(1)));
    } else if (const auto* op = llvm::dyn_cast<llvm::UnaryOperator>(&i)) {
      r = b.CreateUnOp(op->getOpcode(), get(op->getOperand(0)));
    } else if (const auto* op = llvm::dyn_cast<llvm::CmpInst>(&i)) {
      r = b.CreateCmp(op->getPredicate(), get(op->getOperand(0)), get(op->getOperand(1)));
    } else if (const auto* op = llvm::dyn_cast<llvm::CastInst>(&i)) {
      r = b.CreateCast(op->getOpcode(), get(op->getOperand(0)), widen_type(op->getType()));
    } else if (const auto* op = llvm::dyn_cast<llvm::SelectInst>(&i)) {
      r = b.CreateSelect(get(op->getCondition()), get(op->getTrueValue()), get(op->getFalseValue()));
    } else if (const auto* op = llvm::dyn_cast<llvm::FreezeInst>(&i)) {
      r = b.CreateFreeze(get(op->getOperand(0)));
    } else if (IsForEachLane(i)) {
      const auto& call = llvm::cast<llvm::IntrinsicInst>(i);
      r = llvm::PoisonValue::get(widen_type(i.getType()));
      for (unsigned k = 0; k < lanes; ++k) {
        SmallVector<Value*, 4> values;
        for (const llvm::Use& v : call.args()) values.push_back(b.CreateExtractElement(get(v), k));
        r = b.CreateInsertElement(r, b.CreateCall(call.getCalledFunction(), values), k);
      }
    } else if (const auto* op = llvm::dyn_cast<llvm::IntrinsicInst>(&i)) {
      const llvm::Intrinsic::ID id = op->getIntrinsicID();
      SmallVector<Type*, 2> overloads;
      SmallVector<Value*, 4> values;
      if (llvm::isVectorIntrinsicWithOverloadTypeAtArg(id, -1, nullptr)) overloads.push_back(widen_type(op->getType()));
      for (unsigned k = 0; k < op->arg_size(); ++k) {
        Value* v = op->getArgOperand(k);
        const bool scalar = llvm::isVectorIntrinsicWithScalarOpAtArg(id, k, nullptr);
        values.push_back(scalar ? v : get(v));
        if (llvm::isVectorIntrinsicWithOverloadTypeAtArg(id, static_cast<int>(k), nullptr)) {
          overloads.push_back(values.back()->getType());
        }
      }
      r = b.CreateIntrinsic(id, overloads, values);
    } else {
      return get(llvm::cast<llvm::ReturnInst>(i).getReturnValue());
    }
    if (auto* made = llvm::dyn_cast<llvm::Instruction>(r); made != nullptr && !IsForEachLane(i)) made->copyIRFlags(&i);
    wide[&i] = r;
  }
  return nullptr;
}

/// N calls.
Value* Lanes(IRBuilder<>& b, Function* f, ArrayRef<Value*> operands, unsigned lanes) {
  Value* result = llvm::PoisonValue::get(FixedVectorType::get(f->getReturnType(), lanes));
  for (unsigned k = 0; k < lanes; ++k) {
    SmallVector<Value*, 4> values;
    for (Value* v : operands) values.push_back(b.CreateExtractElement(v, k));
    result = b.CreateInsertElement(result, b.CreateCall(f, values), k);
  }
  return result;
}

Value* WidenCall(IRBuilder<>& b, Function* f, ArrayRef<Value*> operands, unsigned lanes, bool interleaves = false) {
  return IsStraight(*f, interleaves) ? WidenBody(b, *f, operands, lanes) : Lanes(b, f, operands, lanes);
}

/// The fast path for all lanes; where one of them needs more, everything goes through memory to __repair, which
/// overwrites those lanes.
Value* Repaired(IRBuilder<>& b, Function* fast, Function* rest, Function* repair, ArrayRef<Value*> operands,
                unsigned lanes) {
  Function* f = b.GetInsertBlock()->getParent();
  llvm::LLVMContext& context = f->getContext();
  Type* type = FixedVectorType::get(fast->getReturnType(), lanes);
  SmallVector<Value*, 4> room;
  for (size_t k = 0; k < operands.size() + 1; ++k) room.push_back(b.CreateAlloca(type));
  Value* y = WidenCall(b, fast, operands, lanes);
  Value* needs = WidenCall(b, rest, operands, lanes);
  Value* any = b.CreateOrReduce(b.CreateICmpNE(needs, llvm::Constant::getNullValue(needs->getType())));
  llvm::BasicBlock* from = b.GetInsertBlock();
  llvm::BasicBlock* cold = llvm::BasicBlock::Create(context, "repair", f);
  llvm::BasicBlock* done = llvm::BasicBlock::Create(context, "done", f);
  b.CreateCondBr(any, cold, done, llvm::MDBuilder(context).createBranchWeights(1, 1 << 20));
  b.SetInsertPoint(cold);
  b.CreateStore(y, room[0]);
  for (size_t k = 0; k < operands.size(); ++k) b.CreateStore(operands[k], room[k + 1]);
  SmallVector<Value*, 4> arguments(room);
  arguments.push_back(b.getInt32(lanes));
  b.CreateCall(repair, arguments)->setCallingConv(repair->getCallingConv());
  Value* fixed = b.CreateLoad(type, room[0]);
  b.CreateBr(done);
  b.SetInsertPoint(done);
  llvm::PHINode* result = b.CreatePHI(type, 2);
  result->addIncoming(y, from);
  result->addIncoming(fixed, cold);
  return result;
}

/// What clang wrote for the machine the bitcode was made on. The target machine's own settings hold instead.
void StripAttributes(Function& f) {
  for (const char* name : {"target-cpu", "target-features", "tune-cpu", "min-legal-vector-width", "prefer-vector-width",
                           "frame-pointer", "stack-protector-buffer-size", "no-builtins"}) {
    f.removeFnAttr(name);
  }
}

/// A declaration: what the optimiser may know about it.
void DescribeRepair(Function& f) {
  StripAttributes(f);
  f.setVisibility(llvm::GlobalValue::DefaultVisibility);
  f.setDSOLocal(false);
  f.setMemoryEffects(llvm::MemoryEffects::argMemOnly());
  for (const llvm::Attribute::AttrKind kind :
       {llvm::Attribute::Cold, llvm::Attribute::NoUnwind, llvm::Attribute::WillReturn, llvm::Attribute::NoFree,
        llvm::Attribute::NoSync, llvm::Attribute::NoCallback}) {
    f.addFnAttr(kind);
  }
  for (llvm::Argument& a : f.args()) {
    if (a.getType()->isPointerTy()) {
      a.addAttr(llvm::Attribute::getWithCaptureInfo(f.getContext(), llvm::CaptureInfo::none()));
    }
  }
}

llvm::FastMathFlags Fast() {
  llvm::FastMathFlags flags;
  flags.setAllowContract();
  flags.setAllowReassoc();
  flags.setAllowReciprocal();
  flags.setNoSignedZeros();
  return flags;
}

/// An op that is one instruction of floating-point arithmetic.
void MakeFast(Function& f) {
  if (f.size() != 1 || f.getEntryBlock().size() != 2) return;
  llvm::Instruction& i = f.getEntryBlock().front();
  if (llvm::isa<llvm::BinaryOperator>(i) && i.getType()->isFloatingPointTy()) i.setFastMathFlags(Fast());
}

struct Wanted {
  Function* vector;
  std::string scalar;
  unsigned lanes;
};

}  // namespace

llvm::Error LinkMath(llvm::Module& module, const MathOptions& options) {
  SmallVector<Function*, 8> declared;
  for (Function& f : llvm::make_early_inc_range(module)) {
    if (!f.isDeclaration() || !f.getName().starts_with(kPrefix)) continue;
    if (f.use_empty()) {
      f.eraseFromParent();
    } else {
      declared.push_back(&f);
    }
  }
  if (declared.empty()) return llvm::Error::success();

  llvm::Expected<std::unique_ptr<llvm::Module>> opened = OpenLibrary(module.getContext(), options.device);
  if (!opened) return opened.takeError();
  std::unique_ptr<llvm::Module> library = std::move(*opened);
  library->setDataLayout(module.getDataLayout());
  library->setTargetTriple(module.getTargetTriple());
  library->setSourceFileName(module.getSourceFileName());

  const auto soft = [&](StringRef name) {
    std::string other = (name + "__soft").str();
    return options.soft_f16 && library->getFunction(other) != nullptr ? other : name.str();
  };
  // Declarations pull bodies in.
  std::vector<std::string> pulled;
  const auto pull = [&](StringRef name) {
    const Function* f = library->getFunction(name);
    if (module.getFunction(name) == nullptr) {
      Function::Create(f->getFunctionType(), llvm::GlobalValue::ExternalLinkage, name, module)
          ->setCallingConv(f->getCallingConv());
    }
    if (!f->isDeclaration()) pulled.push_back(name.str());
  };

  std::vector<Wanted> wanted;
  for (Function* f : declared) {
    const auto [scalar, lanes] = SplitName(f->getName());
    const Function* source = library->getFunction(scalar);
    if (source == nullptr || scalar.contains("__")) return Failure("there is no function " + f->getName());
    FunctionType* type = source->getFunctionType();
    if (f->getFunctionType() != (lanes == 0 ? type : Widened(type, lanes))) {
      return Failure(f->getName() + " is declared with other types than it has");
    }
    const std::string name = soft(scalar);
    if (lanes == 0 && name == scalar) {
      pulled.push_back(name);
      continue;
    }
    // A scalar function that stands in for another is called as one lane would be.
    wanted.push_back({f, name, lanes});
    if (lanes != 0 && library->getFunction(name + "__fast") != nullptr) {
      for (const char* part : {"__fast", "__rest", "__repair"}) pull(name + part);
    } else {
      pull(name);
    }
  }

  // Of the library's metadata only what hangs on instructions is wanted.
  if (llvm::Error e = library->materializeMetadata()) return e;
  while (!library->named_metadata_empty()) library->eraseNamedMetadata(&*library->named_metadata_begin());
  if (llvm::Linker::linkModules(module, std::move(library), llvm::Linker::Flags::LinkOnlyNeeded)) {
    return Failure("the functions of ops cannot be linked");
  }
  std::sort(pulled.begin(), pulled.end());
  pulled.erase(std::unique(pulled.begin(), pulled.end()), pulled.end());
  for (const std::string& name : pulled) {
    Function* f = module.getFunction(name);
    f->setLinkage(llvm::GlobalValue::InternalLinkage);
    f->setVisibility(llvm::GlobalValue::DefaultVisibility);
    f->setDSOLocal(true);
    StripAttributes(*f);
    if (options.fast_math) MakeFast(*f);
    f->addFnAttr(HasLoop(*f) ? llvm::Attribute::NoInline : llvm::Attribute::AlwaysInline);
  }
  // The slow code is the library's own.
  for (Function& f : module) {
    if (f.isDeclaration() && f.getName().starts_with(kPrefix) && f.getName().ends_with("__repair")) DescribeRepair(f);
  }

  IRBuilder<> b(module.getContext());
  for (const Wanted& w : wanted) {
    Function* f = w.vector;
    f->setLinkage(llvm::GlobalValue::InternalLinkage);
    f->setDSOLocal(true);
    f->addFnAttr(llvm::Attribute::AlwaysInline);
    f->addFnAttr(llvm::Attribute::NoUnwind);
    b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", f));
    SmallVector<Value*, 4> operands;
    for (llvm::Argument& a : f->args()) operands.push_back(&a);
    if (w.lanes == 0) {
      b.CreateRet(b.CreateCall(module.getFunction(w.scalar), operands));
    } else if (Function* fast = module.getFunction(w.scalar + "__fast")) {
      b.CreateRet(Repaired(b, fast, module.getFunction(w.scalar + "__rest"), module.getFunction(w.scalar + "__repair"),
                           operands, w.lanes));
    } else {
      b.CreateRet(WidenCall(b, module.getFunction(w.scalar), operands, w.lanes, options.interleave));
    }
  }
  // Those that vectors were made from and nobody calls.
  for (const std::string& name : pulled) {
    Function* f = module.getFunction(name);
    if (f->use_empty()) f->eraseFromParent();
  }
  return llvm::Error::success();
}

std::vector<std::string> MathFunctions() {
  llvm::LLVMContext context;
  llvm::Expected<std::unique_ptr<llvm::Module>> library = OpenLibrary(context);
  std::vector<std::string> names;
  if (!library) {
    llvm::consumeError(library.takeError());
    return names;
  }
  for (const Function& f : **library) {
    const StringRef name = f.getName();
    if (name.starts_with(kPrefix) && !name.contains("__")) names.push_back(name.str());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool FindMathFunction(StringRef name, llvm::LLVMContext& context, FunctionType** type, Widening* widening) {
  llvm::Expected<std::unique_ptr<llvm::Module>> library = OpenLibrary(context);
  if (!library) {
    llvm::consumeError(library.takeError());
    return false;
  }
  Function* f = (*library)->getFunction(name);
  if (f == nullptr || name.contains("__")) return false;
  if (llvm::Error e = f->materialize()) {
    llvm::consumeError(std::move(e));
    return false;
  }
  *type = f->getFunctionType();
  *widening = (*library)->getFunction((name + "__fast").str()) != nullptr ? Widening::repair
              : IsStraight(*f)                                            ? Widening::vector
                                                                          : Widening::lanes;
  return true;
}

}  // namespace tessera::compiler
