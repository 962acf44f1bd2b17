#include "tiers/compiler/target/sums.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/ValueHandle.h"
#include "llvm/Transforms/Utils/Local.h"

namespace tessera::compiler {
namespace {

using llvm::Value;

class Elements {
 public:
  /// Element `k` of a vector, where it is known by itself; otherwise null.
  Value* Find(Value* vector, unsigned k) {
    while (auto* insert = llvm::dyn_cast<llvm::InsertElementInst>(vector)) {
      const auto* at = llvm::dyn_cast<llvm::ConstantInt>(insert->getOperand(2));
      if (at == nullptr) return nullptr;
      if (at->equalsInt(k)) return insert->getOperand(1);
      vector = insert->getOperand(0);
    }
    if (auto* constant = llvm::dyn_cast<llvm::Constant>(vector)) return constant->getAggregateElement(k);
    if (auto* phi = llvm::dyn_cast<llvm::PHINode>(vector)) return Apart(phi)[k];
    return nullptr;
  }

  /// Gives the phis that were made what comes in. Vectors that nobody needs any more go.
  void Finish() {
    // Others may be made meanwhile.
    for (size_t n = 0; n < phis_.size(); ++n) {
      llvm::PHINode* phi = phis_[n];
      const llvm::SmallVector<llvm::PHINode*> parts = apart_[phi];
      for (unsigned from = 0; from < phi->getNumIncomingValues(); ++from) {
        Value* vector = phi->getIncomingValue(from);
        llvm::BasicBlock* block = phi->getIncomingBlock(from);
        for (unsigned k = 0; k < parts.size(); ++k) {
          Value* element = Find(vector, k);
          if (element == nullptr) {
            Value* at = llvm::ConstantInt::get(llvm::Type::getInt32Ty(phi->getContext()), k);
            element = llvm::ExtractElementInst::Create(vector, at, "", block->getTerminator()->getIterator());
          }
          parts[k]->addIncoming(element, block);
        }
      }
    }
    llvm::SmallVector<llvm::WeakTrackingVH> vectors;
    for (llvm::PHINode* phi : phis_) {
      if (!llvm::all_of(phi->users(), [&](llvm::User* user) {
            auto* other = llvm::dyn_cast<llvm::PHINode>(user);
            return other != nullptr && apart_.contains(other);
          }))
        continue;
      vectors.append(phi->value_op_begin(), phi->value_op_end());
      phi->replaceAllUsesWith(llvm::PoisonValue::get(phi->getType()));
      phi->eraseFromParent();
    }
    llvm::RecursivelyDeleteTriviallyDeadInstructionsPermissive(vectors);
  }

 private:
  const llvm::SmallVector<llvm::PHINode*>& Apart(llvm::PHINode* phi) {
    llvm::SmallVector<llvm::PHINode*>& parts = apart_[phi];
    if (!parts.empty()) return parts;
    phis_.push_back(phi);
    auto* type = llvm::cast<llvm::FixedVectorType>(phi->getType());
    for (unsigned k = 0; k < type->getNumElements(); ++k)
      parts.push_back(
          llvm::PHINode::Create(type->getElementType(), phi->getNumIncomingValues(), "", phi->getIterator()));
    return parts;
  }

  llvm::DenseMap<llvm::PHINode*, llvm::SmallVector<llvm::PHINode*>> apart_;
  llvm::SmallVector<llvm::PHINode*> phis_;
};

}  // namespace

void TakeSumsApart(llvm::Function& f) {
  Elements elements;
  llvm::SmallVector<llvm::ExtractElementInst*> extracts;
  for (llvm::Instruction& i : llvm::instructions(f))
    if (auto* extract = llvm::dyn_cast<llvm::ExtractElementInst>(&i)) extracts.push_back(extract);
  for (llvm::ExtractElementInst* extract : extracts) {
    const auto* at = llvm::dyn_cast<llvm::ConstantInt>(extract->getIndexOperand());
    Value* element =
        at == nullptr ? nullptr : elements.Find(extract->getVectorOperand(), static_cast<unsigned>(at->getZExtValue()));
    if (element == nullptr) continue;
    extract->replaceAllUsesWith(element);
    extract->eraseFromParent();
  }
  elements.Finish();
}

}  // namespace tessera::compiler
