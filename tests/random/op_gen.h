// Random instructions over values whose types are known. Both kinds of programs are made of them: Graph IR as it is,
// eager programs as calls of the public functions with the same operands and attributes. Types come from the rules of
// the op table (ir::InferOp), so a new row of a known form is used without a change here.
#ifndef TESSERA_TESTS_RANDOM_OP_GEN_H_
#define TESSERA_TESTS_RANDOM_OP_GEN_H_

#include <optional>
#include <vector>

#include "ir/function.h"
#include "tests/random/rng.h"

namespace tessera::random {

using ir::ValueId;

/// The place where instructions go: the values that may be used there, and the list that they are added to. Borrowed by
/// OpGen; `visible` grows with the results.
struct Place {
  ir::Function& function;
  std::vector<ir::Instruction>& instructions;
  std::vector<ValueId>& visible;
};

class OpGen {
 public:
  explicit OpGen(Rng& rng) : rng_(rng) {}

  /// Adds one op and sometimes one that makes its indices. False when nothing fitting was found.
  bool Add(Place place);
  /// Adds an op that makes a tensor of that type, whose dims may be symbols of the function.
  ValueId Make(Place place, const TensorType& type);
  /// Adds an op whose result has the same type as `x` and, mostly, other contents that do not grow without bound.
  ValueId Stir(Place place, ValueId x);
  /// A random scalar bool out of what is visible: a comparison of a reduced value.
  ValueId Condition(Place place);
  /// Adds an instruction that is known to be right; gives its first result.
  ValueId Emit(Place place, ir::Op op, std::vector<ir::Operand> operands,
               const std::vector<std::pair<const char*, ir::Attr>>& attrs = {});

  /// A random type of rank 0 to 3 with small dims. Dims are taken from `symbols`, too, where there are some.
  TensorType Type(const std::vector<int64_t>& symbols);
  DType AnyDType();

 private:
  using Attrs = std::vector<std::pair<const char*, ir::Attr>>;
  bool Try(Place place, ir::Op op, std::vector<ir::Operand> operands, const Attrs& attrs);

  bool Elementwise(Place place);
  bool Reduction(Place place);
  bool Pages(Place place);
  bool Loss(Place place);
  bool Product(Place place);
  bool Normalise(Place place);
  bool ViewOp(Place place);
  bool Join(Place place);
  bool Index(Place place);
  bool Create(Place place);

  ir::Operand Value(Place place);
  ir::Operand ValueWhere(Place place, bool (*fits)(const TensorType&));
  ir::Operand Number(DType beside);
  ir::Ints Axes(int rank);

  Rng& rng_;
};

ir::Operand Use(ValueId value);
ir::Operand Imm(ir::Immediate number);

}  // namespace tessera::random

#endif  // TESSERA_TESTS_RANDOM_OP_GEN_H_
