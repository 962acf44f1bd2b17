// The machine of rules.h that runs ops at once.
#ifndef TESSERA_LANG_EVAL_MACHINE_H_
#define TESSERA_LANG_EVAL_MACHINE_H_

#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "interp/observer.h"
#include "lang/eval_value.h"
#include "lang/rules.h"

namespace tessera::lang {

class EvalHost;

/// Tensors have numbers here only while one node is evaluated: values of the program hold them by themselves, so that
/// they die when the program lets go of them.
class EagerMachine final : public Machine {
 public:
  explicit EagerMachine(EvalHost& host);

  /// One node: what was taken In is held as long as it lives. They do not nest. `step` tells the ops of a node apart
  /// that needs several of these.
  class Scope {
   public:
    explicit Scope(EagerMachine& machine, int step = 0) : machine_(machine) {
      machine.step_ = step;
      machine.failed_ = false;
    }
    ~Scope() {
      machine_.tensors_.clear();
      machine_.kept_.clear();
    }
    Scope(const Scope&) = delete;

   private:
    EagerMachine& machine_;
  };
  Val In(const Value& value);
  /// False for poison.
  bool Out(const Val& val, Value* out);

  ir::SymbolTable* symbols() override { return nullptr; }
  const TensorType& TypeOf(const Val& tensor) override;
  std::string TypeText(const TensorType& type) override { return ToString(type); }
  bool Emit(ir::Op op, absl::Span<const Val> in, std::vector<ir::Attr> attrs, const Expr& at, Vals* out) override;
  bool Know(Val*, std::string_view, const Expr&) override { return true; }
  Val DimTensor(const Val& dim, const Expr&) override { return dim; }
  bool Random(int64_t count, int64_t* seed, int64_t* offset, const Expr& at) override;
  bool Print(absl::Span<const Val> args, std::string_view label, const Expr& at) override;
  Val Item(const Val& tensor, const Expr& at) override;
  bool Places(const Val& mask, const Expr& at, Val* out) override;
  /// Gradients are those of functions: at the top level there is none that could pass.
  Val StopGradient(const Val& tensor, const Expr&) override { return tensor; }
  Val MemberOf(const Val& module, Name name, const Expr& at) override;
  Val CallHost(const Builtin& builtin, absl::Span<const Val> args, const Expr& at) override;

  /// Reports it at that place.
  bool Fail(const absl::Status& status, Span span, Diag id = Diag::op_error);

 private:
  bool OpFailed(const absl::Status& status, absl::Span<const Val> in, const Expr& at);
  const interp::Source& SourceOf(const Expr& e);
  EvalHost& host_;
  std::vector<Tensor> tensors_;
  std::vector<Value> kept_;  // strings that a Val looks at
  int step_ = 0;
  bool failed_ = false;  // an op of this node: the others are not run, and nothing more is said
  absl::flat_hash_map<const Expr*, interp::Source> sources_;
};

}  // namespace tessera::lang

#endif  // TESSERA_LANG_EVAL_MACHINE_H_
