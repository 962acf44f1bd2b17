// Arithmetic is what LLVM IR says and nothing else: what may not be contracted is written with functions that say how
// they round, and the rest with operators. Integers are unsigned, as in the IR; f16 and bf16 are their 16 bits.
//
// Variables of a function are declared at its beginning, since jumps may not cross declarations. Those of a phi are
// two: blocks before it write the first, and the block of the phi begins by copying it, so that phis which use each
// other read old values.
#include "tiers/compiler/target/cuda_source.h"

#include <optional>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"
#include "llvm/Support/raw_ostream.h"
#include "tiers/compiler/target/cuda_intrinsics.h"
#include "tiers/compiler/target/cuda_wrappers.h"

namespace tessera::compiler {
namespace {

using llvm::StringRef;
using llvm::Twine;
using llvm::Value;

class Function {
 public:
  Function(const llvm::Function& f, llvm::raw_ostream& out)
      : f_(f), layout_(f.getParent()->getDataLayout()), out_(out) {}

  llvm::Error Write() {
    for (const llvm::BasicBlock& block : f_) blocks_[&block] = static_cast<int>(blocks_.size());
    int number = 0;
    for (const llvm::Argument& a : f_.args()) names_[&a] = "a" + std::to_string(number++);
    for (const llvm::Instruction& i : llvm::instructions(f_)) {
      if (i.getType()->isVoidTy() || IsRename(i)) continue;
      names_[&i] = "v" + std::to_string(number++);
      for (unsigned k = 0; k < Lanes(i.getType()); ++k)
        if (TypeOf(ElementOf(i.getType(), k)).empty()) Missing(i);
    }
    std::string body;
    {
      llvm::raw_string_ostream stream(body);
      text_ = &stream;
      for (const llvm::BasicBlock& block : f_) Block(block);
    }
    if (!missing_.empty()) return llvm::createStringError("CUDA C++ has no words here for: " + missing_);
    Head();
    out_ << " {\n";
    Shared();
    for (const llvm::Instruction& i : llvm::instructions(f_)) Declare(i);
    out_ << body << "}\n\n";
    return llvm::Error::success();
  }

  void Head() {
    if (f_.getCallingConv() == llvm::CallingConv::PTX_Kernel) {
      out_ << "extern \"C\" __global__ void";
      if (f_.hasFnAttribute("nvvm.cluster_dim"))
        out_ << " __cluster_dims__(" << f_.getFnAttribute("nvvm.cluster_dim").getValueAsString() << ")";
      if (f_.hasFnAttribute("nvvm.maxntid")) {
        out_ << " __launch_bounds__(" << f_.getFnAttribute("nvvm.maxntid").getValueAsString();
        if (f_.hasFnAttribute("nvvm.minctasm")) out_ << ", " << f_.getFnAttribute("nvvm.minctasm").getValueAsString();
        out_ << ")";
      }
    } else {
      out_ << "static __device__ __noinline__ " << TypeOf(f_.getReturnType());
    }
    out_ << " " << NameOf(f_) << "(";
    for (const llvm::Argument& a : f_.args()) {
      if (a.getArgNo() > 0) out_ << ", ";
      if (a.hasByValAttr()) {
        const uint64_t bytes = layout_.getTypeAllocSize(a.getParamByValType()).getFixedValue();
        out_ << "const __grid_constant__ tsr_given<" << bytes << ", " << a.getParamAlign().valueOrOne().value() << "> "
             << names_[&a];
      } else {
        out_ << TypeOf(a.getType()) << " " << names_[&a];
      }
    }
    out_ << ")";
  }

  /// Names of the IR may have characters that C++ has not.
  static std::string NameOf(const llvm::GlobalValue& g) {
    std::string name = g.getName().str();
    for (char& c : name)
      if (!llvm::isAlnum(c)) c = '_';
    return name;
  }

 private:
  // ---- types

  static int64_t Lanes(const llvm::Type* t) {
    if (const auto* v = llvm::dyn_cast<llvm::FixedVectorType>(t)) return v->getNumElements();
    if (const auto* s = llvm::dyn_cast<llvm::StructType>(t)) return s->getNumElements();
    return 1;
  }
  static const llvm::Type* ElementOf(const llvm::Type* t, unsigned k = 0) {
    if (const auto* v = llvm::dyn_cast<llvm::FixedVectorType>(t)) return v->getElementType();
    if (const auto* s = llvm::dyn_cast<llvm::StructType>(t)) return s->getElementType(k);
    return t;
  }
  static std::string TypeOf(const llvm::Type* t) {
    if (t->isVoidTy()) return "void";
    if (t->isFloatTy()) return "float";
    if (t->isDoubleTy()) return "double";
    if (t->isHalfTy() || t->isBFloatTy()) return "u16";
    if (t->isPointerTy()) return "u8*";
    if (t->isIntegerTy(1)) return "bool";
    if (t->isIntegerTy() && llvm::is_contained({8u, 16u, 32u, 64u, 128u}, t->getIntegerBitWidth()))
      return "u" + std::to_string(t->getIntegerBitWidth());
    return "";
  }
  static unsigned Bits(const llvm::Type* t) { return t->isPointerTy() ? 64 : t->getScalarSizeInBits(); }

  void Missing(const Twine& what) {
    if (missing_.empty()) missing_ = what.str();
  }
  void Missing(const llvm::Value& v) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    v.print(stream);
    Missing(StringRef(text).trim().take_front(160));
  }

  // ---- names

  // Takes elements of vectors apart or puts them together: needs no variables, since every element has one.
  static bool IsRename(const llvm::Instruction& i) {
    if (llvm::isa<llvm::ShuffleVectorInst, llvm::FreezeInst>(i)) return true;
    if (const auto* e = llvm::dyn_cast<llvm::ExtractValueInst>(&i)) return e->getNumIndices() == 1;
    if (llvm::isa<llvm::ExtractElementInst>(i)) return llvm::isa<llvm::ConstantInt>(i.getOperand(1));
    return llvm::isa<llvm::InsertElementInst>(i) && llvm::isa<llvm::ConstantInt>(i.getOperand(2));
  }
  std::string Renamed(const llvm::Instruction& i, int64_t k) {
    const Value* from = i.getOperand(0);
    if (const auto* e = llvm::dyn_cast<llvm::ExtractValueInst>(&i)) return Name(from, e->getIndices()[0]);
    if (llvm::isa<llvm::FreezeInst>(i)) return Name(from, k);
    if (const auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(&i)) {
      const int at = shuffle->getMaskValue(static_cast<unsigned>(k));
      const int64_t lanes = Lanes(from->getType());
      return at < 0 ? Zero(ElementOf(i.getType())) : Name(i.getOperand(at < lanes ? 0 : 1), at % lanes);
    }
    const auto at = [&](unsigned operand) {
      return static_cast<int64_t>(llvm::cast<llvm::ConstantInt>(i.getOperand(operand))->getZExtValue());
    };
    if (llvm::isa<llvm::ExtractElementInst>(i)) return Name(from, at(1));
    return at(2) == k ? Name(i.getOperand(1)) : Name(from, k);
  }

  /// Element k of a value, as an expression.
  std::string Name(const Value* v, int64_t k = 0) {
    if (auto it = names_.find(v); it != names_.end()) {
      const bool is_single = Lanes(v->getType()) == 1 && !v->getType()->isVectorTy() && !v->getType()->isStructTy();
      if (const auto* a = llvm::dyn_cast<llvm::Argument>(v); a != nullptr && a->hasByValAttr())
        return "((u8*)&" + it->second + ")";
      return is_single ? it->second : it->second + "_" + std::to_string(k);
    }
    if (const auto* c = llvm::dyn_cast<llvm::Constant>(v)) return Literal(c, k);
    if (const auto* i = llvm::dyn_cast<llvm::Instruction>(v); i != nullptr && IsRename(*i)) return Renamed(*i, k);
    Missing(*v);
    return "0";
  }

  std::string Literal(const llvm::Constant* c, int64_t k) {
    if (c->getType()->isVectorTy() || c->getType()->isStructTy()) {
      if (llvm::isa<llvm::UndefValue>(c)) return Zero(ElementOf(c->getType(), static_cast<unsigned>(k)));
      const llvm::Constant* element = c->getAggregateElement(static_cast<unsigned>(k));
      if (element == nullptr) {
        Missing(*c);
        return "0";
      }
      return Literal(element, 0);
    }
    const llvm::Type* t = c->getType();
    if (llvm::isa<llvm::UndefValue>(c)) return Zero(t);
    if (const auto* n = llvm::dyn_cast<llvm::ConstantInt>(c)) return Integer(n->getValue(), t);
    if (const auto* x = llvm::dyn_cast<llvm::ConstantFP>(c)) {
      const llvm::APInt bits = x->getValueAPF().bitcastToAPInt();
      const std::string hex = "0x" + llvm::utohexstr(bits.getZExtValue(), /*LowerCase=*/true);
      if (t->isFloatTy()) return "tsr_f32(" + hex + "u)";
      if (t->isDoubleTy()) return "tsr_f64(" + hex + "ull)";
      return "((u16)" + hex + ")";
    }
    if (llvm::isa<llvm::ConstantPointerNull>(c)) return "((u8*)0)";
    if (const auto* g = llvm::dyn_cast<llvm::GlobalVariable>(c)) return "((u8*)" + NameOf(*g) + ")";
    if (const auto* e = llvm::dyn_cast<llvm::ConstantExpr>(c)) {
      switch (e->getOpcode()) {
        case llvm::Instruction::GetElementPtr: return Address(llvm::cast<llvm::GEPOperator>(e));
        case llvm::Instruction::AddrSpaceCast: return Name(e->getOperand(0));
        case llvm::Instruction::PtrToInt: return ToInteger(e->getOperand(0), e->getType());
        case llvm::Instruction::IntToPtr: return "((u8*)(u64)" + Name(e->getOperand(0)) + ")";
        default: break;
      }
    }
    Missing(*c);
    return "0";
  }
  static std::string Zero(const llvm::Type* t) { return "((" + TypeOf(t) + ")0)"; }
  std::string Integer(const llvm::APInt& n, const llvm::Type* t) {
    if (t->isIntegerTy(1)) return n.isZero() ? "false" : "true";
    if (n.getActiveBits() > 64) Missing("a number of more than 64 bits");
    if (n.getBitWidth() > 64) return "((u128)" + llvm::utostr(n.getLimitedValue()) + "ull)";
    const std::string digits = llvm::utostr(n.getZExtValue());
    switch (n.getBitWidth()) {
      case 64: return digits + "ull";
      case 32: return digits + "u";
      default: return "((" + TypeOf(t) + ")" + digits + ")";
    }
  }

  std::string Address(const llvm::GEPOperator* gep) {
    llvm::SmallMapVector<Value*, llvm::APInt, 4> variable;
    llvm::APInt constant(64, 0);
    if (!gep->collectOffset(layout_, 64, variable, constant)) {
      Missing(*gep);
      return "((u8*)0)";
    }
    std::string text = "(" + Name(gep->getPointerOperand());
    for (const auto& [index, scale] : variable) {
      const std::string n = Signed(index, Name(index));
      text += " + (s64)" + n + (scale.isOne() ? "" : " * " + llvm::itostr(scale.getSExtValue()) + "ll");
    }
    if (!constant.isZero()) text += " + " + llvm::itostr(constant.getSExtValue()) + "ll";
    return text + ")";
  }
  // Shared memory has addresses of 32 bits; what has 64 is of the same number.
  std::string ToInteger(const Value* pointer, const llvm::Type* to) {
    const std::string p = Name(pointer);
    const bool is_shared = pointer->getType()->getPointerAddressSpace() == 3;
    return "((" + TypeOf(to) + ")" + (is_shared ? "tsr_shared(" + p + ")" : "(u64)" + p) + ")";
  }

  static std::string Signed(const Value* v, const std::string& name) {
    const unsigned bits = Bits(v->getType());
    return bits == 1 ? "(" + name + " ? -1 : 0)" : "(s" + std::to_string(bits) + ")" + name;
  }

  // ---- functions as a whole

  void Declare(const llvm::Instruction& i) {
    if (i.getType()->isVoidTy() || IsRename(i)) return;
    if (const auto* a = llvm::dyn_cast<llvm::AllocaInst>(&i)) {
      const uint64_t bytes = layout_.getTypeAllocSize(a->getAllocatedType()).getFixedValue();
      out_ << "  __align__(" << a->getAlign().value() << ") u8 m_" << names_[&i] << "[" << bytes << "];\n";
    }
    const bool is_phi = llvm::isa<llvm::PHINode>(i);
    const bool is_single = !i.getType()->isVectorTy() && !i.getType()->isStructTy();
    for (int64_t k = 0; k < Lanes(i.getType()); ++k) {
      const std::string name = is_single ? names_[&i] : names_[&i] + "_" + std::to_string(k);
      out_ << "  " << TypeOf(ElementOf(i.getType(), static_cast<unsigned>(k))) << " " << name;
      if (is_phi) out_ << ", p" << name;
      out_ << ";\n";
    }
  }

  // Shared memory of the kernel, as far as it is used here.
  void Shared() {
    for (const llvm::GlobalVariable& g : f_.getParent()->globals()) {
      if (g.getAddressSpace() != 3 || !IsUsedHere(g)) continue;
      const uint64_t bytes = layout_.getTypeAllocSize(g.getValueType()).getFixedValue();
      out_ << "  " << (g.isDeclaration() ? "extern " : "") << "__shared__ __align__("
           << g.getAlign().valueOrOne().value() << ") u8 " << NameOf(g) << "["
           << (g.isDeclaration() ? "" : std::to_string(bytes)) << "];\n";
    }
  }
  bool IsUsedHere(const llvm::Constant& c) const {
    return llvm::any_of(c.users(), [&](const llvm::User* user) {
      if (const auto* i = llvm::dyn_cast<llvm::Instruction>(user)) return i->getFunction() == &f_;
      const auto* other = llvm::dyn_cast<llvm::Constant>(user);
      return other != nullptr && IsUsedHere(*other);
    });
  }

  void Block(const llvm::BasicBlock& block) {
    if (!block.isEntryBlock()) *text_ << "b" << blocks_[&block] << ":;\n";
    for (const llvm::PHINode& phi : block.phis())
      for (int64_t k = 0; k < Lanes(phi.getType()); ++k)
        *text_ << "  " << Name(&phi, k) << " = p" << Name(&phi, k) << ";\n";
    for (const llvm::Instruction& i : block)
      if (!llvm::isa<llvm::PHINode>(i)) Instruction(i);
  }

  void Jump(const llvm::BasicBlock* from, const llvm::BasicBlock* to) {
    for (const llvm::PHINode& phi : to->phis()) {
      const Value* v = phi.getIncomingValueForBlock(from);
      if (llvm::isa<llvm::UndefValue>(v)) continue;
      for (int64_t k = 0; k < Lanes(phi.getType()); ++k)
        *text_ << "  p" << Name(&phi, k) << " = " << Name(v, k) << ";\n";
    }
    *text_ << "  goto b" << blocks_[to] << ";\n";
  }

  // ---- instructions

  void Set(const llvm::Instruction& i, int64_t k, const std::string& text) {
    *text_ << "  " << Name(&i, k) << " = " << text << ";\n";
  }

  void Instruction(const llvm::Instruction& i) {
    if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(&i)) return Load(*load);
    if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(&i)) return Store(*store);
    if (const auto* call = llvm::dyn_cast<llvm::CallInst>(&i)) return Call(*call);
    if (i.getOpcode() == llvm::Instruction::BitCast) return BitCast(i);
    if (const auto* br = llvm::dyn_cast<llvm::BranchInst>(&i)) {
      if (br->isUnconditional()) return Jump(i.getParent(), br->getSuccessor(0));
      *text_ << "  if (" << Name(br->getCondition()) << ") {\n";
      Jump(i.getParent(), br->getSuccessor(0));
      *text_ << "  }\n";
      return Jump(i.getParent(), br->getSuccessor(1));
    }
    if (const auto* ret = llvm::dyn_cast<llvm::ReturnInst>(&i)) {
      *text_ << "  return" << (ret->getReturnValue() != nullptr ? " " + Name(ret->getReturnValue()) : "") << ";\n";
      return;
    }
    if (llvm::isa<llvm::UnreachableInst>(i)) {
      *text_ << "  __builtin_unreachable();\n";
      return;
    }
    if (const auto* gep = llvm::dyn_cast<llvm::GetElementPtrInst>(&i))
      return Set(i, 0, Address(llvm::cast<llvm::GEPOperator>(gep)));
    if (llvm::isa<llvm::AllocaInst>(i)) return Set(i, 0, "m_" + names_[&i]);
    if (IsRename(i)) return;
    if (const auto* select = llvm::dyn_cast<llvm::SelectInst>(&i)) {
      const bool each = select->getCondition()->getType()->isVectorTy();
      for (int64_t k = 0; k < Lanes(i.getType()); ++k)
        Set(i, k,
            Name(select->getCondition(), each ? k : 0) + " ? " + Name(select->getTrueValue(), k) + " : " +
                Name(select->getFalseValue(), k));
      return;
    }
    for (int64_t k = 0; k < Lanes(i.getType()); ++k) {
      const std::string text = Scalar(i, k);
      if (text.empty()) return Missing(i);
      Set(i, k, text);
    }
  }

  // Element k of an instruction that has no more to it.
  std::string Scalar(const llvm::Instruction& i, int64_t k) {
    const Value* x = i.getOperand(0);
    const std::string a = Name(x, k), b = i.getNumOperands() > 1 ? Name(i.getOperand(1), k) : "";
    const llvm::Type* t = ElementOf(i.getType());
    const std::string to = TypeOf(t);
    auto wrap = [&](const std::string& text) { return "(" + to + ")(" + text + ")"; };
    auto signs = [&](const char* op) { return wrap(Signed(x, a) + op + Signed(x, b)); };
    auto rounded = [&](const char* f32, const char* f64, const char* op) {
      if (t->isHalfTy() || t->isBFloatTy()) return std::string();
      if (i.hasAllowContract()) return a + op + b;
      return (t->isFloatTy() ? f32 : f64) + ("(" + a + ", " + b + ")");
    };
    switch (i.getOpcode()) {
      case llvm::Instruction::Add: return wrap(a + " + " + b);
      case llvm::Instruction::Sub: return wrap(a + " - " + b);
      case llvm::Instruction::Mul: return wrap(Bits(t) < 32 ? "(u32)" + a + " * " + b : a + " * " + b);
      case llvm::Instruction::UDiv: return wrap(a + " / " + b);
      case llvm::Instruction::URem: return wrap(a + " % " + b);
      case llvm::Instruction::SDiv: return signs(" / ");
      case llvm::Instruction::SRem: return signs(" % ");
      case llvm::Instruction::And: return wrap(a + " & " + b);
      case llvm::Instruction::Or: return wrap(a + " | " + b);
      case llvm::Instruction::Xor: return wrap(a + " ^ " + b);
      case llvm::Instruction::Shl: return wrap(a + " << " + b);
      case llvm::Instruction::LShr: return wrap(a + " >> " + b);
      case llvm::Instruction::AShr: return wrap(Signed(x, a) + " >> " + b);
      case llvm::Instruction::ZExt: return wrap(a);
      case llvm::Instruction::Trunc: return t->isIntegerTy(1) ? "(" + a + " & 1) != 0" : wrap(a);
      case llvm::Instruction::SExt: return wrap(Signed(x, a));
      case llvm::Instruction::FAdd: return rounded("__fadd_rn", "__dadd_rn", " + ");
      case llvm::Instruction::FSub: return rounded("__fsub_rn", "__dsub_rn", " - ");
      case llvm::Instruction::FMul: return rounded("__fmul_rn", "__dmul_rn", " * ");
      case llvm::Instruction::FDiv:
        return t->isFloatTy()    ? "__fdiv_rn(" + a + ", " + b + ")"
               : t->isDoubleTy() ? "__ddiv_rn(" + a + ", " + b + ")"
                                 : "";
      case llvm::Instruction::FNeg: return t->isHalfTy() || t->isBFloatTy() ? "(u16)(" + a + " ^ 0x8000)" : "-" + a;
      case llvm::Instruction::FPExt: {
        const llvm::Type* from = ElementOf(x->getType());
        if (from->isFloatTy()) return "(double)" + a;
        const std::string wide = (from->isHalfTy() ? "tsr_from_f16(" : "tsr_from_bf16(") + a + ")";
        return t->isFloatTy() ? wide : "(double)" + wide;
      }
      case llvm::Instruction::FPTrunc: {
        if (t->isFloatTy()) return "__double2float_rn(" + a + ")";
        if (!ElementOf(x->getType())->isFloatTy()) return "";
        return (t->isHalfTy() ? "tsr_to_f16(" : "tsr_to_bf16(") + a + ")";
      }
      case llvm::Instruction::SIToFP: return t->isFloatTy() || t->isDoubleTy() ? wrap(Signed(x, a)) : "";
      case llvm::Instruction::UIToFP: return t->isFloatTy() || t->isDoubleTy() ? wrap(a) : "";
      case llvm::Instruction::FPToSI: return wrap("(s" + std::to_string(std::max(32u, Bits(t))) + ")" + a);
      case llvm::Instruction::FPToUI: return wrap(a);
      case llvm::Instruction::AddrSpaceCast: return a;
      case llvm::Instruction::PtrToInt: return ToInteger(x, t);
      case llvm::Instruction::IntToPtr:
        if (t->getPointerAddressSpace() == 1) return "(u8*)__cvta_global_to_generic((size_t)" + a + ")";
        if (t->getPointerAddressSpace() == 3) return "(u8*)__cvta_shared_to_generic((size_t)" + a + ")";
        return "(u8*)(u64)" + a;
      case llvm::Instruction::ICmp: return Compare(llvm::cast<llvm::ICmpInst>(i), a, b);
      case llvm::Instruction::FCmp: return CompareFloats(llvm::cast<llvm::FCmpInst>(i), a, b);
      default: return "";
    }
  }

  static std::string Compare(const llvm::ICmpInst& i, const std::string& a, const std::string& b) {
    const Value* x = i.getOperand(0);
    const std::string l = i.isSigned() ? Signed(x, a) : a, r = i.isSigned() ? Signed(x, b) : b;
    switch (i.getPredicate()) {
      case llvm::CmpInst::ICMP_EQ: return a + " == " + b;
      case llvm::CmpInst::ICMP_NE: return a + " != " + b;
      case llvm::CmpInst::ICMP_UGT:
      case llvm::CmpInst::ICMP_SGT: return l + " > " + r;
      case llvm::CmpInst::ICMP_UGE:
      case llvm::CmpInst::ICMP_SGE: return l + " >= " + r;
      case llvm::CmpInst::ICMP_ULT:
      case llvm::CmpInst::ICMP_SLT: return l + " < " + r;
      default: return l + " <= " + r;
    }
  }
  static std::string CompareFloats(const llvm::FCmpInst& i, const std::string& a, const std::string& b) {
    const llvm::Type* t = ElementOf(i.getOperand(0)->getType());
    if (!t->isFloatTy() && !t->isDoubleTy()) return "";
    switch (i.getPredicate()) {
      case llvm::CmpInst::FCMP_FALSE: return "false";
      case llvm::CmpInst::FCMP_OEQ: return a + " == " + b;
      case llvm::CmpInst::FCMP_OGT: return a + " > " + b;
      case llvm::CmpInst::FCMP_OGE: return a + " >= " + b;
      case llvm::CmpInst::FCMP_OLT: return a + " < " + b;
      case llvm::CmpInst::FCMP_OLE: return a + " <= " + b;
      case llvm::CmpInst::FCMP_ONE: return a + " < " + b + " || " + a + " > " + b;
      case llvm::CmpInst::FCMP_ORD: return a + " == " + a + " && " + b + " == " + b;
      case llvm::CmpInst::FCMP_UNO: return a + " != " + a + " || " + b + " != " + b;
      case llvm::CmpInst::FCMP_UEQ: return "!(" + a + " < " + b + " || " + a + " > " + b + ")";
      case llvm::CmpInst::FCMP_UGT: return "!(" + a + " <= " + b + ")";
      case llvm::CmpInst::FCMP_UGE: return "!(" + a + " < " + b + ")";
      case llvm::CmpInst::FCMP_ULT: return "!(" + a + " >= " + b + ")";
      case llvm::CmpInst::FCMP_ULE: return "!(" + a + " > " + b + ")";
      case llvm::CmpInst::FCMP_UNE: return a + " != " + b;
      default: return "true";
    }
  }

  // ---- bits

  // An expression of bits as a value of the type.
  static std::string As(const llvm::Type* t, const std::string& bits) {
    if (t->isFloatTy()) return "tsr_f32((u32)(" + bits + "))";
    if (t->isDoubleTy()) return "tsr_f64((u64)(" + bits + "))";
    return "(" + TypeOf(t) + ")(" + bits + ")";
  }
  static std::string UnsignedOf(unsigned bits) { return "u" + std::to_string(bits); }

  void BitCast(const llvm::Instruction& i) {
    const Value* x = i.getOperand(0);
    const llvm::Type *from = ElementOf(x->getType()), *to = ElementOf(i.getType());
    const unsigned wide = Bits(to), narrow = Bits(from);
    if (narrow < 8 || wide < 8 || from->isPointerTy()) return Missing(i);
    for (int64_t k = 0; k < Lanes(i.getType()); ++k) {
      std::string bits;
      if (wide >= narrow) {
        for (unsigned j = 0; j < wide / narrow; ++j) {
          const std::string part = "(" + UnsignedOf(wide) + ")tsr_bits(" + Name(x, k * (wide / narrow) + j) + ")";
          bits += (j > 0 ? " | " : "") + (j > 0 ? "(" + part + " << " + std::to_string(j * narrow) + ")" : part);
        }
      } else {
        const unsigned parts = narrow / wide;
        bits = "tsr_bits(" + Name(x, k / parts) + ") >> " + std::to_string(k % parts * wide);
      }
      Set(i, k, As(to, bits));
    }
  }

  // A vector lies in memory as words of 32 bits (or fewer, where it is smaller or not aligned): `words` of them at a
  // time.
  struct Access {
    unsigned bits = 0;   // of a word
    unsigned words = 0;  // of an access
    unsigned count = 0;  // of words
  };
  std::optional<Access> AccessOf(const llvm::Type* t, uint64_t align) {
    const unsigned element = Bits(ElementOf(t)), total = element * static_cast<unsigned>(Lanes(t));
    Access a;
    a.bits = align >= 4 && total % 32 == 0 ? 32 : element;
    a.count = total / a.bits;
    if (total % a.bits != 0 || align * 8 < a.bits || (a.bits < element)) {
      // Elements of 64 bits as two words.
      if (a.bits != 32 || element != 64) return std::nullopt;
    }
    a.words = 1;
    while (a.bits == 32 && a.words < 4 && a.count % (2 * a.words) == 0 && align >= 8 * a.words) a.words *= 2;
    return a;
  }
  static const char* Member(unsigned k) {
    constexpr const char* kMembers[] = {".x", ".y", ".z", ".w"};
    return kMembers[k];
  }

  void Load(const llvm::LoadInst& i) {
    const llvm::Type *t = i.getType(), *element = ElementOf(t);
    const std::string p = Name(i.getPointerOperand());
    if (!t->isVectorTy()) {
      const bool is_bits = element->isIntegerTy(1);
      return Set(i, 0,
                 "*(const " + std::string(is_bits ? "u8" : TypeOf(element)) + "*)" + p + (is_bits ? " != 0" : ""));
    }
    const std::optional<Access> a = AccessOf(t, i.getAlign().value());
    if (!a) return Missing(i);
    *text_ << "  {\n";
    for (unsigned w = 0; w < a->count; w += a->words) {
      const std::string at = "(" + p + " + " + std::to_string(w * a->bits / 8) + ")";
      const std::string type = a->words == 1 ? UnsignedOf(a->bits) : a->words == 2 ? "tsr_w2" : "tsr_w4";
      *text_ << "    const " << type << " w" << w << " = *(const " << type << "*)" << at << ";\n";
    }
    auto word = [&](unsigned k) {
      const std::string base = "w" + std::to_string(k / a->words * a->words);
      return a->words == 1 ? base : base + Member(k % a->words);
    };
    const unsigned bits = Bits(element);
    for (int64_t k = 0; k < Lanes(t); ++k) {
      const unsigned at = static_cast<unsigned>(k) * bits;
      std::string text;
      if (bits > a->bits) {
        text = "(u64)" + word(at / 32) + " | ((u64)" + word(at / 32 + 1) + " << 32)";
      } else {
        text = word(at / a->bits) + (bits < a->bits ? " >> " + std::to_string(at % a->bits) : "");
      }
      Set(i, k, As(element, text));
    }
    *text_ << "  }\n";
  }

  void Store(const llvm::StoreInst& i) {
    const Value* v = i.getValueOperand();
    const llvm::Type *t = v->getType(), *element = ElementOf(t);
    const std::string p = Name(i.getPointerOperand());
    if (!t->isVectorTy()) {
      *text_ << "  *(" << (element->isIntegerTy(1) ? "u8" : TypeOf(element)) << "*)" << p << " = " << Name(v) << ";\n";
      return;
    }
    const std::optional<Access> a = AccessOf(t, i.getAlign().value());
    if (!a) return Missing(i);
    const unsigned bits = Bits(element);
    auto word = [&](unsigned w) {
      if (bits > a->bits)
        return "(u32)(tsr_bits(" + Name(v, w * 32 / bits) + ") >> " + std::to_string(w * 32 % bits) + ")";
      std::string text;
      for (unsigned j = 0; j < a->bits / bits; ++j) {
        const std::string part = "(" + UnsignedOf(a->bits) + ")tsr_bits(" + Name(v, w * (a->bits / bits) + j) + ")";
        text += j == 0 ? part : " | (" + part + " << " + std::to_string(j * bits) + ")";
      }
      return text;
    };
    for (unsigned w = 0; w < a->count; w += a->words) {
      const std::string at = "(" + p + " + " + std::to_string(w * a->bits / 8) + ")";
      if (a->words == 1) {
        *text_ << "  *(" << UnsignedOf(a->bits) << "*)" << at << " = " << word(w) << ";\n";
        continue;
      }
      const char* type = a->words == 2 ? "tsr_w2" : "tsr_w4";
      *text_ << "  *(" << type << "*)" << at << " = " << type << "{";
      for (unsigned j = 0; j < a->words; ++j) *text_ << (j > 0 ? ", " : "") << word(w + j);
      *text_ << "};\n";
    }
  }

  // ---- calls

  void Call(const llvm::CallInst& i) {
    if (i.isInlineAsm()) return Assembly(i);
    const llvm::Function* callee = i.getCalledFunction();
    if (callee == nullptr) return Missing(i);
    if (!callee->isIntrinsic()) {
      if (callee->isDeclaration() || Lanes(i.getType()) != 1) return Missing(i);
      std::string text = NameOf(*callee) + "(";
      for (unsigned k = 0; k < i.arg_size(); ++k) text += (k > 0 ? ", " : "") + Name(i.getArgOperand(k));
      if (i.getType()->isVoidTy()) {
        *text_ << "  " << text << ");\n";
      } else {
        Set(i, 0, text + ")");
      }
      return;
    }
    if (llvm::isa<llvm::LifetimeIntrinsic>(i) || llvm::isa<llvm::AssumeInst>(i) || llvm::isa<llvm::DbgInfoIntrinsic>(i))
      return;
    const StringRef name = callee->getName();
    if (i.getType()->isVoidTy()) {
      const std::string text = EffectOf(i, name, [&](unsigned n) { return Name(i.getArgOperand(n)); });
      if (text.empty()) return Missing(i);
      *text_ << "  " << text << ";\n";
      return;
    }
    if (name == "llvm.nvvm.ff2bf16x2.rn" || name == "llvm.nvvm.ff2f16x2.rn") {
      const char* f = name == "llvm.nvvm.ff2f16x2.rn" ? "tsr_f16x2" : "tsr_bf16x2";
      *text_ << "  {\n    const u32 w = " << f << "(" << Name(i.getArgOperand(0)) << ", " << Name(i.getArgOperand(1))
             << ");\n";
      Set(i, 0, "(u16)w");
      Set(i, 1, "(u16)(w >> 16)");
      *text_ << "  }\n";
      return;
    }
    for (int64_t k = 0; k < Lanes(i.getType()); ++k) {
      const std::string text = IntrinsicOf(i, name, [&](unsigned n) {
        const Value* v = i.getArgOperand(n);
        return Name(v, v->getType()->isVectorTy() ? k : 0);
      });
      if (text.empty()) return Missing(i);
      Set(i, k, text);
    }
  }

  // The text of PTX stays, but for how operands are written; operands that are read and written are one there.
  void Assembly(const llvm::CallInst& i) {
    const auto* assembly = llvm::cast<llvm::InlineAsm>(i.getCalledOperand());
    const llvm::InlineAsm::ConstraintInfoVector constraints = assembly->ParseConstraints();
    llvm::SmallVector<std::string> outputs, inputs;
    llvm::SmallVector<unsigned> number;  // by operand of the text
    llvm::SmallVector<bool> tied;        // by output
    bool clobbers = false;
    unsigned operand = 0;
    for (const llvm::InlineAsm::ConstraintInfo& c : constraints) {
      if (c.Type == llvm::InlineAsm::isClobber) {
        clobbers = true;
      } else if (c.Type == llvm::InlineAsm::isOutput) {
        const auto k = static_cast<int64_t>(outputs.size());
        number.push_back(static_cast<unsigned>(outputs.size()));
        outputs.push_back("\"=" + c.Codes[0] + "\"(" + Name(&i, k) + ")");
        tied.push_back(false);
      } else {
        const Value* v = i.getArgOperand(operand++);
        unsigned same = 0;
        if (!StringRef(c.Codes[0]).getAsInteger(10, same)) {
          // Read and written: the variable has the value before.
          number.push_back(same);
          *text_ << "  " << Name(&i, same) << " = " << Name(v) << ";\n";
          outputs[same][1] = '+';
          tied[same] = true;
        } else {
          number.push_back(~0u);
          const std::string text = Name(v);
          inputs.push_back("\"" + c.Codes[0] + "\"(" + (v->getType()->isPointerTy() ? "(u64)" + text : text) + ")");
        }
      }
    }
    unsigned next = static_cast<unsigned>(outputs.size());
    for (unsigned& n : number)
      if (n == ~0u) n = next++;
    std::string text;
    const StringRef given = assembly->getAsmString();
    for (size_t k = 0; k < given.size(); ++k) {
      const char c = given[k];
      if (c == '$' && k + 1 < given.size() && llvm::isDigit(given[k + 1])) {
        size_t end = k + 1;
        while (end < given.size() && llvm::isDigit(given[end])) ++end;
        unsigned n = 0;
        given.substr(k + 1, end - k - 1).getAsInteger(10, n);
        if (n >= number.size()) return Missing(i);
        text += "%" + std::to_string(number[n]);
        k = end - 1;
      } else if (c == '%') {
        text += "%%";
      } else if (c == '\n') {
        text += "\\n";
      } else if (c == '"' || c == '\\') {
        text += std::string("\\") + c;
      } else {
        text += c;
      }
    }
    *text_ << "  asm" << (assembly->hasSideEffects() ? " volatile" : "") << "(\"" << text
           << "\" : " << llvm::join(outputs, ", ") << " : " << llvm::join(inputs, ", ")
           << (clobbers ? " : \"memory\"" : "") << ");\n";
  }

  const llvm::Function& f_;
  const llvm::DataLayout& layout_;
  llvm::raw_ostream& out_;
  llvm::raw_ostream* text_ = nullptr;
  llvm::DenseMap<const Value*, std::string> names_;
  llvm::DenseMap<const llvm::BasicBlock*, int> blocks_;
  std::string missing_;
};

// Tables of constants that functions read.
llvm::Error WriteTable(const llvm::GlobalVariable& g, llvm::raw_ostream& out) {
  const auto* data = g.hasInitializer() ? llvm::dyn_cast<llvm::ConstantDataArray>(g.getInitializer()) : nullptr;
  if (data == nullptr) return llvm::createStringError("CUDA C++ has no words here for: " + g.getName());
  const unsigned bits = data->getElementType()->getScalarSizeInBits();
  out << "static __device__ const u" << bits << " " << Function::NameOf(g) << "[" << data->getNumElements() << "] = {";
  for (unsigned k = 0; k < data->getNumElements(); ++k) {
    const uint64_t n = data->getElementType()->isIntegerTy()
                           ? data->getElementAsInteger(k)
                           : data->getElementAsAPFloat(k).bitcastToAPInt().getZExtValue();
    out << (k > 0 ? ", " : "") << n << (bits == 64 ? "ull" : "u");
  }
  out << "};\n\n";
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<CudaSource> ToCudaSource(const llvm::Module& module) {
  CudaSource source;
  llvm::raw_string_ostream common(source.common);
  common << kCudaWrappers;
  for (const llvm::GlobalVariable& g : module.globals())
    if (g.getAddressSpace() != 3)
      if (llvm::Error e = WriteTable(g, common)) return e;
  // Functions that kernels call come first.
  for (const bool is_kernel : {false, true})
    for (const llvm::Function& f : module) {
      if (f.isDeclaration() || (f.getCallingConv() == llvm::CallingConv::PTX_Kernel) != is_kernel) continue;
      llvm::raw_string_ostream own(source.kernels[f.getName().str()]);
      if (llvm::Error e = Function(f, is_kernel ? own : common).Write()) return e;
      if (!is_kernel) source.kernels.erase(f.getName().str());
    }
  return source;
}

}  // namespace tessera::compiler
