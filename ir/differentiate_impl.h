// Inside of ir/differentiate.h: one Differentiator makes one function; a Program holds what they share.
#ifndef TESSERA_IR_DIFFERENTIATE_IMPL_H_
#define TESSERA_IR_DIFFERENTIATE_IMPL_H_

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/differentiate.h"

namespace tessera::ir {

using Args = FunctionBuilder::Args;
using Vals = FunctionBuilder::Vals;

/// The dtype that gradients of a value add up in.
inline DType SumDType(DType t) { return IsNarrowFloat(t) ? DType::f32 : t; }

/// Calls fn(instruction) for those of a block and of the blocks inside it.
template <class Fn>
void ForEach(const Block& block, const Fn& fn) {
  for (const Instruction& inst : block.instructions) {
    fn(inst);
    for (const Block& b : inst.blocks) ForEach(b, fn);
  }
}

/// What the functions of one module share.
class Program {
 public:
  Program(const Module& from, Module& to) : from_(from), to_(to) {}

  const Module& from() const { return from_; }
  Module& to() { return to_; }
  absl::StatusOr<std::string> Make(const Function& f, const std::vector<bool>& wrt, GradKind kind);
  /// Does a call of it do something that must not be done twice?
  bool HasEffects(const Function& f);
  bool IsWritten(const std::string& buffer);
  /// Does a call of f write it, itself or in a call of its own?
  bool Writes(const Function& f, const std::string& buffer);

 private:
  const Module& from_;
  Module& to_;
  std::map<std::string, std::string> made_;  // names of gradients, of functions that are complete or under way
  std::map<const Function*, bool> effects_;
  std::map<std::pair<const Function*, std::string>, bool> writes_;
};

/// Makes one function.
class Differentiator {
 public:
  Differentiator(Program& program, const Function& f, std::string name, std::vector<bool> wrt, GradKind kind)
      : program_(program),
        f_(f),
        b_(program.to(), name, f.loc),
        wrt_(std::move(wrt)),
        kind_(kind),
        env_(f.values.size()),
        adjoint_(f.values.size()),
        active_(f.values.size(), false) {}

  absl::Status Run();

 private:
  // ---- what follows from the parameters that are asked for
  void MarkActive(const Block& block);
  void MarkLoop(const Instruction& inst);
  void MarkBuffer(const std::string& name, bool out_of_sight) {
    active_buffers_.insert(name);
    if (out_of_sight) lost_buffers_.insert(name);
  }
  bool IsActive(const Operand& o) const { return o.kind == Operand::Kind::value && active_[o.value]; }
  bool Activate(ValueId id, bool active) {
    if (!active || active_[id] || !IsFloat(f_.values[id].type.dtype)) return false;
    return active_[id] = true;
  }

  // ---- the way there
  void Forward(const Block& block);
  void ForwardOne(const Instruction& inst);
  void ForwardPlain(const Instruction& inst);
  Args Typed(const Operand* operands, const std::vector<ValueId>& like, size_t skip = 0);
  Arg Map(const Operand& o) const { return o.kind == Operand::Kind::value ? env_[o.value] : ToArg(o); }
  static Arg ToArg(const Operand& o) {
    Arg a;
    static_cast<Operand&>(a) = o;
    return a;
  }
  static const Instruction& Ending(const Block& block) { return block.instructions.back(); }
  /// One round of a loop with those carried values; gives the next ones.
  Args Round(const Instruction& loop, const Arg& index, const Vals& carried);
  int64_t Dim(int64_t d) { return b_.symbols().Substitute(*f_.symbols, d, symbols_); }
  TensorType Type(TensorType type) {
    for (int i = 0; i < type.rank; ++i) type.dims[i] = Dim(type.dims[i]);
    return type;
  }

  // ---- the way back
  void Backward(const Block& block);
  void BackwardPlain(const Instruction& inst);
  void BackwardBuffer(const Instruction& inst);
  void BackwardIf(const Instruction& inst);
  void BackwardLoop(const Instruction& inst);
  void BackwardCall(const Instruction& inst);
  bool Reached(const Instruction& inst) const {
    return std::any_of(inst.results.begin(), inst.results.end(), [&](ValueId v) { return adjoint_[v].id >= 0; });
  }
  void Accumulate(ValueId id, Val g);
  void Accumulate(const Operand& o, Val g) {
    if (IsActive(o) && g.id >= 0) Accumulate(o.value, g);
  }
  Val Add(Val a, Val b);
  Val Cast(Val v, DType dtype) {
    return b_.TypeOf(v).dtype == dtype ? v : b_.Emit(Op::k_cast, {v}, {{"dtype", dtype}});
  }
  /// The gradient of a value as its own dtype.
  Val GradOf(ValueId id) { return Cast(adjoint_[id], f_.values[id].type.dtype); }
  /// The gradient so far, or zeros, in the dtype that gradients add up in.
  Val SumOf(ValueId id);
  Val Zeros(const TensorType& type, DType dtype);
  /// Active values from outside that a block uses.
  std::vector<ValueId> Captured(const Instruction& inst) const;
  /// Runs fn with no gradients yet, in a block.
  template <class Fn>
  Args Inside(Fn fn) {
    std::vector<Val> outer(f_.values.size());
    outer.swap(adjoint_);
    const bool effects = std::exchange(effects_, false);
    ++depth_;
    Args result = fn();
    --depth_;
    effects_ = effects;
    outer.swap(adjoint_);
    return result;
  }

  // ---- integers of the program, folded where they are numbers
  Arg Int(Op op, const Arg& a, const Arg& b);
  Arg Rounds(const Instruction& loop);
  /// About the square root of the number of rounds.
  Arg StretchLength(const Arg& rounds);

  template <class... Parts>
  void Fail(const Instruction& inst, const Parts&... parts) {
    if (!status_.ok()) return;
    const std::string& file = program_.from().file;
    std::string where = file.empty() ? "" : absl::StrCat(file, ":");
    if (inst.loc.line > 0) absl::StrAppend(&where, inst.loc.line, ":", inst.loc.column, ": ");
    status_ = Unsupported(where, "in @", f_.name, ": ", std::string(Info(inst.op).name), ": ", parts...);
  }

  Program& program_;
  const Function& f_;
  FunctionBuilder b_;
  const std::vector<bool> wrt_;
  const GradKind kind_;
  std::vector<Arg> env_;                  // what stands for each value of f
  std::vector<Val> adjoint_;              // its gradient so far
  std::vector<bool> active_;              // does it follow from what is asked for
  std::set<std::string> active_buffers_;  // something active was written to them
  std::set<std::string> lost_buffers_;    // the same in a block or a call, where the way back does not follow it
  std::map<std::string, Val> buffer_adjoints_;
  std::map<const Instruction*, Val> rounds_;  // of a while
  std::vector<int64_t> symbols_;              // of b_, for those of f in their order
  bool effects_ = true;
  int depth_ = 0;
  absl::Status status_;
};

}  // namespace tessera::ir

#endif  // TESSERA_IR_DIFFERENTIATE_IMPL_H_
