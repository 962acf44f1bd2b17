#include "tests/random/op_gen.h"

#include "ir/slice.h"
#include "ir/typing.h"

namespace tessera::random {
namespace {

using ir::Ints;
using ir::Op;
using ir::Operand;

constexpr int kMaxGeneratedRank = 4;
constexpr int64_t kMaxGeneratedElements = 3000;
// Stands for every symbol where a size is estimated.
constexpr int64_t kTypicalDim = 6;

std::vector<Op> ElementwiseOps(size_t operands) {
  std::vector<Op> ops;
  for (const ir::OpInfo& info : ir::AllOps())
    if (info.impl == ir::Impl::ew && info.operands.size() == operands) ops.push_back(info.op);
  return ops;
}

bool IsSmall(const ir::Function& f, const TensorType& type) {
  if (type.rank > kMaxGeneratedRank) return false;
  const std::vector<int64_t> values(static_cast<size_t>(f.symbols->num_named()), kTypicalDim);
  int64_t size = 1;
  for (int i = 0; i < type.rank; ++i) {
    const int64_t d = ir::IsSymbol(type.dims[i]) ? f.symbols->Evaluate(type.dims[i], values) : type.dims[i];
    if (d < 0 || d > kMaxGeneratedElements) return false;
    size *= d;
    if (size > kMaxGeneratedElements) return false;
  }
  return true;
}

bool IsFloatType(const TensorType& t) { return IsFloat(t.dtype); }
bool IsRanked(const TensorType& t) { return t.rank > 0; }
bool IsMatrix(const TensorType& t) { return t.rank > 1; }
bool IsBool(const TensorType& t) { return t.dtype == DType::boolean; }

}  // namespace

Operand Use(ValueId value) { return {Operand::Kind::value, value, int64_t{0}}; }
Operand Imm(ir::Immediate number) { return {Operand::Kind::immediate, -1, number}; }

// ---- choices

DType OpGen::AnyDType() {
  const int64_t r = rng_.Below(100);
  return r < 46   ? DType::f32
         : r < 56 ? DType::f64
         : r < 70 ? DType::i64
         : r < 78 ? DType::i32
         : r < 86 ? DType::bf16
         : r < 95 ? DType::boolean
         : r < 97 ? DType::f16
         : r < 98 ? DType::u8
         : r < 99 ? DType::i8
                  : DType::f8e4m3;
}

TensorType OpGen::Type(const std::vector<int64_t>& symbols) {
  TensorType type;
  type.dtype = AnyDType();
  type.rank = static_cast<uint8_t>(rng_.Of({0, 1, 1, 2, 2, 2, 3}));
  for (int i = 0; i < type.rank; ++i) {
    if (!symbols.empty() && rng_.Chance(45)) {
      type.dims[i] = rng_.Of(symbols);
    } else {
      type.dims[i] = rng_.Chance(3) ? 0 : rng_.Of<int64_t>({1, 2, 3, 4, 4, 4, 5, 8, 17});
    }
  }
  return type;
}

Operand OpGen::Value(Place place) {
  const auto n = static_cast<int64_t>(place.visible.size());
  if (n == 0) return {};
  // New values twice as often as old ones, so that chains grow.
  const int64_t i = rng_.Chance(50) ? rng_.Below(n) : n - 1 - rng_.Below(std::min<int64_t>(n, 4));
  return Use(place.visible[static_cast<size_t>(i)]);
}

Operand OpGen::ValueWhere(Place place, bool (*fits)(const TensorType&)) {
  for (int i = 0; i < 12; ++i) {
    const Operand o = Value(place);
    if (o.kind == Operand::Kind::value && fits(place.function.values[o.value].type)) return o;
  }
  return {};
}

Operand OpGen::Number(DType beside) {
  if (beside == DType::boolean && rng_.Chance(60)) return Imm(rng_.Chance(50));
  if (!IsFloat(beside) && rng_.Chance(85)) return Imm(rng_.Between(-3, 7));
  if (rng_.Chance(2)) return Imm(std::numeric_limits<double>::infinity());
  if (rng_.Chance(20)) return Imm(rng_.Between(-2, 3));
  return Imm(rng_.Real(-2, 2));
}

Ints OpGen::Axes(int rank) {
  Ints axes;
  for (int i = 0; i < rank; ++i)
    if (rng_.Chance(45)) axes.push_back(rng_.Chance(30) ? i - rank : i);
  return axes;
}

// ---- adding

bool OpGen::Try(Place place, Op op, std::vector<Operand> operands, const Attrs& attrs) {
  const ir::OpInfo& info = ir::Info(op);
  ir::Instruction inst{op, std::move(operands), {}, {}, {}, {}};
  inst.attrs.resize(info.attrs.size());
  for (const auto& [name, value] : attrs) inst.attrs[static_cast<size_t>(ir::FindAttr(info, name))] = value;
  if (!ir::CompleteAttrs(info, absl::MakeSpan(inst.attrs)).ok()) return false;
  std::vector<TensorType> types;
  if (!ir::InferOp(place.function, inst, nullptr, types).ok()) return false;
  for (const TensorType& t : types)
    if (!IsSmall(place.function, t)) return false;
  for (TensorType t : types) {
    t.weak = false;
    inst.results.push_back(static_cast<ValueId>(place.function.values.size()));
    place.function.values.push_back({"", t});
    place.visible.push_back(inst.results.back());
  }
  place.instructions.push_back(std::move(inst));
  return true;
}

ValueId OpGen::Emit(Place place, Op op, std::vector<Operand> operands, const Attrs& attrs) {
  if (!Try(place, op, std::move(operands), attrs)) return -1;
  const ir::Instruction& inst = place.instructions.back();
  return inst.results.empty() ? -1 : inst.results[0];
}

bool OpGen::Add(Place place) {
  if (place.visible.empty()) return Create(place);
  for (int attempt = 0; attempt < 12; ++attempt) {
    const int64_t r = rng_.Below(100);
    const bool added = r < 44   ? Elementwise(place)
                       : r < 53 ? Reduction(place)
                       : r < 59 ? Product(place)
                       : r < 65 ? Normalise(place)
                       : r < 82 ? ViewOp(place)
                       : r < 88 ? Join(place)
                       : r < 95 ? Index(place)
                                : Create(place);
    if (added) return true;
  }
  return false;
}

ValueId OpGen::Make(Place place, const TensorType& type) {
  const Ints dims(type.dims, type.dims + type.rank);
  const Operand seed = Imm(rng_.Below(1000));
  if (type.dtype == DType::boolean) {
    const ValueId bits = Emit(place, Op::k_random_int, {seed, Imm(int64_t{0})},
                              {{"dims", dims}, {"low", int64_t{0}}, {"high", int64_t{2}}});
    return Emit(place, Op::k_cast, {Use(bits)}, {{"dtype", type.dtype}});
  }
  if (!IsFloat(type.dtype)) {
    return Emit(place, Op::k_random_int, {seed, Imm(int64_t{0})},
                {{"dims", dims}, {"low", int64_t{0}}, {"high", int64_t{6}}, {"dtype", type.dtype}});
  }
  if (rng_.Chance(40)) return Emit(place, Op::k_full, {Number(type.dtype)}, {{"dims", dims}, {"dtype", type.dtype}});
  return Emit(place, Op::k_random_uniform, {seed, Imm(rng_.Below(100))},
              {{"dims", dims}, {"low", -2.0}, {"high", 2.0}, {"dtype", type.dtype}});
}

ValueId OpGen::Stir(Place place, ValueId x) {
  const DType dtype = place.function.values[x].type.dtype;
  if (dtype == DType::boolean) return Emit(place, Op::k_logical_not, {Use(x)});
  if (IsInt(dtype)) return Emit(place, Op::k_add, {Use(x), Imm(rng_.Between(1, 3))});
  switch (rng_.Below(4)) {
    case 0: return Emit(place, Op::k_tanh, {Use(x)});
    case 1: return Emit(place, Op::k_clamp, {Use(x), Imm(-3.0), Imm(2.5)});
    case 2: return Emit(place, Op::k_sin, {Use(x)});
    default: return Emit(place, Op::k_add, {Use(x), Imm(rng_.Real(-1, 1))});
  }
}

ValueId OpGen::Condition(Place place) {
  const Operand x = Value(place);
  if (x.kind != Operand::Kind::value) return -1;
  const TensorType type = place.function.values[x.value].type;
  ValueId scalar = x.value;
  if (type.rank > 0) {
    scalar = Emit(place, type.dtype == DType::boolean ? Op::k_any : rng_.Of({Op::k_sum, Op::k_mean, Op::k_sum}), {x});
    if (scalar < 0) return -1;
  }
  const DType dtype = place.function.values[scalar].type.dtype;
  if (dtype == DType::boolean) return scalar;
  const Op compare = rng_.Of({Op::k_gt, Op::k_lt, Op::k_le, Op::k_ne});
  return Emit(place, compare, {Use(scalar), Number(dtype)});
}

// ---- families

bool OpGen::Elementwise(Place place) {
  static const std::vector<Op> unary = ElementwiseOps(1), binary = ElementwiseOps(2);
  const Operand a = Value(place);
  if (a.kind != Operand::Kind::value) return false;
  const DType dtype = place.function.values[a.value].type.dtype;
  const int64_t r = rng_.Below(100);
  if (r < 30) return Try(place, rng_.Of(unary), {a}, {});
  if (r < 80) {
    const Op op = rng_.Chance(60) ? rng_.Of({Op::k_add, Op::k_sub, Op::k_mul, Op::k_div, Op::k_maximum, Op::k_minimum})
                                  : rng_.Of(binary);
    for (int i = 0; i < 4; ++i) {
      const Operand b = rng_.Chance(35) ? Number(dtype) : Value(place);
      if (rng_.Chance(50) ? Try(place, op, {a, b}, {}) : Try(place, op, {b, a}, {})) return true;
    }
    return false;
  }
  if (r < 86) {
    const Operand cond = ValueWhere(place, IsBool);
    if (cond.kind == Operand::Kind::absent) return false;
    return Try(place, Op::k_where, {cond, a, rng_.Chance(50) ? Number(dtype) : Value(place)}, {});
  }
  if (r < 90) return Try(place, Op::k_clamp, {a, Imm(rng_.Real(-2, 0)), Imm(rng_.Real(0, 2))}, {});
  if (r < 97) return Try(place, Op::k_cast, {a}, {{"dtype", AnyDType()}});
  return Try(place, Op::k_copy, {a}, {});
}

bool OpGen::Reduction(Place place) {
  const Operand x = ValueWhere(place, IsRanked);
  if (x.kind == Operand::Kind::absent) return false;
  const int rank = place.function.values[x.value].type.rank;
  const Op op = rng_.Of({Op::k_sum, Op::k_sum, Op::k_mean, Op::k_mean, Op::k_max, Op::k_min, Op::k_prod, Op::k_var,
                         Op::k_any, Op::k_all, Op::k_logsumexp, Op::k_argmax, Op::k_argmin, Op::k_cumsum});
  if (op == Op::k_argmax || op == Op::k_argmin)
    return Try(place, op, {x}, {{"axis", rng_.Between(-rank, rank - 1)}, {"keepdims", rng_.Chance(30)}});
  if (op == Op::k_cumsum) {
    return Try(place, op, {x},
               {{"axis", rng_.Between(-rank, rank - 1)}, {"exclusive", rng_.Chance(30)}, {"reverse", rng_.Chance(30)}});
  }
  return Try(place, op, {x}, {{"axes", Axes(rank)}, {"keepdims", rng_.Chance(50)}});
}

bool OpGen::Pages(Place place) {
  const int64_t batch = rng_.Between(1, 2), heads = rng_.Between(1, 2), columns = rng_.Between(1, 3);
  const int64_t pages = rng_.Between(1, 3), page = rng_.Between(1, 3), entries = rng_.Between(1, 3);
  const auto normal = [&](Ints dims) {
    return Emit(place, Op::k_random_normal, {Imm(rng_.Below(1000)), Imm(int64_t{0})}, {{"dims", std::move(dims)}});
  };
  // A few pages and lengths are out of range.
  const auto integers = [&](Ints dims, int64_t count) {
    return Emit(place, Op::k_random_int, {Imm(rng_.Below(1000)), Imm(int64_t{0})},
                {{"dims", std::move(dims)}, {"low", int64_t{0}}, {"high", rng_.Chance(3) ? count + 1 : count}});
  };
  ValueId q = normal({batch, heads * rng_.Between(1, 2), rng_.Between(1, 3), columns});
  const ValueId k = normal({pages, page, heads, columns}), v = normal({pages, page, heads, rng_.Between(1, 3)});
  const ValueId table = integers({batch, entries}, pages), lengths = integers({batch}, page * entries + 1);
  const Operand x = ValueWhere(place, IsFloatType);
  const ValueId by = x.kind == Operand::Kind::value ? Emit(place, Op::k_mean, {x}) : -1;
  if (const ValueId other = by < 0 ? -1 : Emit(place, Op::k_mul, {Use(q), Use(by)}); other >= 0) q = other;
  return Try(place, Op::k_paged_attention, {Use(q), Use(k), Use(v), Use(table), Use(lengths)}, {});
}

bool OpGen::Loss(Place place) {
  const int64_t rows = rng_.Between(1, 4), classes = rng_.Between(1, 5), features = rng_.Between(1, 3);
  const auto normal = [&](Ints dims) {
    return Emit(place, Op::k_random_normal, {Imm(rng_.Below(1000)), Imm(int64_t{0})}, {{"dims", std::move(dims)}});
  };
  ValueId x = normal({rows, features});
  const ValueId w = normal({classes, features});
  // A few targets are no classes.
  const ValueId targets =
      Emit(place, Op::k_random_int, {Imm(rng_.Below(1000)), Imm(int64_t{0})},
           {{"dims", Ints{rows}}, {"low", int64_t{0}}, {"high", rng_.Chance(3) ? classes + 1 : classes}});
  const Operand by = ValueWhere(place, IsFloatType);
  const ValueId mean = by.kind == Operand::Kind::value ? Emit(place, Op::k_mean, {by}) : -1;
  if (const ValueId other = mean < 0 ? -1 : Emit(place, Op::k_mul, {Use(x), Use(mean)}); other >= 0) x = other;
  const std::vector<std::pair<const char*, ir::Attr>> ignore = {
      {"ignore", rng_.Chance(50) ? int64_t{0} : int64_t{-100}}};
  if (rng_.Chance(50)) return Try(place, Op::k_linear_cross_entropy, {Use(x), Use(w), Use(targets)}, ignore);
  const ValueId g = normal({rows});
  return Try(place, Op::k_linear_cross_entropy_grad, {Use(x), Use(w), Use(targets), Use(g)}, ignore);
}

bool OpGen::Product(Place place) {
  if (rng_.Chance(6)) return Pages(place);
  if (rng_.Chance(6)) return Loss(place);
  const Operand a = ValueWhere(place, IsRanked);
  if (a.kind == Operand::Kind::absent) return false;
  if (rng_.Chance(8)) {
    const bool causal = rng_.Chance(50);
    const int64_t keys = causal && rng_.Chance(50) ? rng_.Between(1, 4) : 0;
    return Try(place, Op::k_attention, {a, a, a}, {{"causal", causal}, {"window", keys}}) ||
           Try(place, Op::k_avg_pool, {a}, {{"window", Ints{2}}, {"stride", Ints{1}}}) ||
           Try(place, Op::k_conv, {a, Value(place)}, {{"padding", Ints{1}}});
  }
  for (int i = 0; i < 8; ++i) {
    const Operand b = ValueWhere(place, IsRanked);
    if (Try(place, Op::k_matmul, {a, b}, {{"transpose_a", rng_.Chance(25)}, {"transpose_b", rng_.Chance(35)}}))
      return true;
  }
  return Try(place, Op::k_matmul, {a, a}, {{"transpose_b", true}}) ||
         Try(place, Op::k_dot_general, {a, a}, {{"contract_a", Ints{0}}, {"contract_b", Ints{0}}});
}

bool OpGen::Normalise(Place place) {
  const Operand x = ValueWhere(place, [](const TensorType& t) { return IsFloatType(t) && IsRanked(t); });
  if (x.kind == Operand::Kind::absent) return false;
  const int rank = place.function.values[x.value].type.rank;
  switch (rng_.Below(6)) {
    case 0: return Try(place, Op::k_log_softmax, {x}, {{"axis", rng_.Between(-rank, rank - 1)}});
    case 1: return Try(place, Op::k_layer_norm, {x}, {});
    case 2: return Try(place, Op::k_layer_norm, {x, Value(place)}, {});
    case 3: return Try(place, Op::k_rms_norm, {x}, {{"dims", rng_.Between(1, rank)}});
    default: return Try(place, Op::k_softmax, {x}, {{"axis", rng_.Between(-rank, rank - 1)}});
  }
}

bool OpGen::ViewOp(Place place) {
  const Operand x = Value(place);
  if (x.kind != Operand::Kind::value) return false;
  const TensorType type = place.function.values[x.value].type;
  const int rank = type.rank;
  switch (rng_.Below(9)) {
    case 0: {  // reshape: flattened, split off, two dims joined, a dim of 1 added
      Ints dims;
      switch (rng_.Below(4)) {
        case 0: dims = {-1}; break;
        case 1: dims = {rng_.Of<int64_t>({1, 2, 4}), -1}; break;
        case 2:
          for (int i = 0; i < rank; ++i)
            if (i != 1) dims.push_back(i == 0 && rank > 1 ? -1 : type.dims[i]);
          break;
        default: dims.assign(type.dims, type.dims + rank), dims.insert(dims.begin() + rng_.Between(0, rank), 1);
      }
      return Try(place, Op::k_reshape, {x}, {{"dims", dims}});
    }
    case 1: {
      Ints perm;
      for (int i = 0; i < rank; ++i) perm.insert(perm.begin() + rng_.Below(i + 1), i);
      return Try(place, Op::k_transpose, {x}, {{"perm", rng_.Chance(30) ? Ints() : perm}});
    }
    case 2: {
      Ints dims;
      for (int i = 0; i < rank; ++i) dims.push_back(type.dims[i] == 1 && rng_.Chance(70) ? 4 : type.dims[i]);
      if (rng_.Chance(60)) dims.insert(dims.begin(), rng_.Of<int64_t>({1, 2, 3}));
      return Try(place, Op::k_broadcast, {x}, {{"dims", dims}});
    }
    case 3: return Try(place, Op::k_squeeze, {x}, {});
    case 4: return Try(place, Op::k_unsqueeze, {x}, {{"axes", Ints{rng_.Between(-rank - 1, rank)}}});
    case 5: return rank > 0 && Try(place, Op::k_flip, {x}, {{"axes", Axes(rank)}});
    case 6: {
      if (rank == 0) return false;
      const int64_t axis = rng_.Below(rank);
      if (ir::IsSymbol(type.dims[axis])) return false;
      const int64_t first = rng_.Between(0, type.dims[axis]);
      return Try(place, Op::k_split, {x}, {{"sizes", Ints{first, type.dims[axis] - first}}, {"axis", axis}});
    }
    default: {
      if (rank == 0) return false;
      const int64_t axis = rng_.Below(rank);
      const int64_t start = rng_.Of<int64_t>({0, 0, 1, 1, 2, -2, -1});
      const int64_t stop = rng_.Of<int64_t>({ir::kSliceEnd, ir::kSliceEnd, 2, 3, -1, 5});
      const int64_t step = rng_.Of<int64_t>({1, 1, 1, 2, 3, -1});
      return Try(place, Op::k_slice, {x},
                 {{"starts", Ints{step < 0 ? -1 : start}},
                  {"stops", Ints{step < 0 ? ir::kSliceThroughFirst : stop}},
                  {"steps", Ints{step}},
                  {"axes", Ints{axis}}});
    }
  }
}

bool OpGen::Join(Place place) {
  const Operand a = ValueWhere(place, IsRanked);
  if (a.kind == Operand::Kind::absent) return false;
  const int rank = place.function.values[a.value].type.rank;
  switch (rng_.Below(6)) {
    case 0: {
      const Operand b = Value(place);
      return Try(place, Op::k_stack, {a, b}, {{"axis", rng_.Between(-rank - 1, rank)}});
    }
    case 1: {
      Ints low, high;
      for (int i = 0; i < rank; ++i) low.push_back(rng_.Below(2)), high.push_back(rng_.Below(3));
      return Try(place, Op::k_pad, {a}, {{"low", low}, {"high", high}, {"value", rng_.Real(-1, 1)}});
    }
    case 2: {
      const Operand m = ValueWhere(place, IsMatrix);
      const Op keep = rng_.Of({Op::k_tril, Op::k_triu});
      return m.kind == Operand::Kind::value && Try(place, keep, {m}, {{"k", rng_.Between(-1, 1)}});
    }
    default:
      for (int i = 0; i < 5; ++i) {
        const Operand b = Value(place);
        if (Try(place, Op::k_concat, {a, b}, {{"axis", rng_.Between(-rank, rank - 1)}})) return true;
      }
      return Try(place, Op::k_concat, {a, a}, {{"axis", rng_.Between(-rank, rank - 1)}});
  }
}

bool OpGen::Index(Place place) {
  const Operand x = ValueWhere(place, IsRanked);
  if (x.kind == Operand::Kind::absent) return false;
  const TensorType type = place.function.values[x.value].type;
  const int64_t axis = rng_.Below(type.rank);
  const int64_t dim = ir::IsSymbol(type.dims[axis]) ? 2 : type.dims[axis];
  if (dim == 0) return false;
  // A few indices are out of range, so that errors in the middle happen, too.
  const int64_t above = rng_.Chance(3) ? dim + 2 : dim;
  const Ints count = rng_.Chance(25) ? Ints{} : Ints{rng_.Between(1, 4)};
  ValueId ids = -1;
  const Operand any =
      rng_.Chance(40) ? ValueWhere(place, [](const TensorType& t) { return IsInt(t.dtype); }) : Operand();
  if (any.kind == Operand::Kind::value && rng_.Chance(25)) {
    ids = any.value;  // as they are, so that indices come from before a loop, too
  } else if (any.kind == Operand::Kind::value) {
    ids = Emit(place, Op::k_mod, {any, Imm(above)});
  } else {
    ids = Emit(place, Op::k_random_int, {Imm(rng_.Below(1000)), Imm(int64_t{0})},
               {{"dims", count}, {"low", -dim}, {"high", above}});
  }
  if (ids < 0) return false;
  switch (rng_.Below(9)) {
    case 0: return Try(place, Op::k_one_hot, {Use(ids)}, {{"depth", dim}, {"dtype", AnyDType()}});
    case 1: return Try(place, Op::k_sort, {x}, {{"axis", axis}, {"descending", rng_.Chance(50)}});
    case 2: return Try(place, Op::k_topk, {x}, {{"k", int64_t{1}}, {"axis", axis}, {"largest", rng_.Chance(50)}});
    case 3: {
      const ValueId column = Emit(place, Op::k_unsqueeze, {Use(ids)}, {{"axes", Ints{-1}}});
      const ValueId rows = column < 0 ? -1 : Emit(place, Op::k_gather, {x, Use(column)});
      if (rows < 0 || rng_.Chance(50)) return rows >= 0;
      return Try(place, Op::k_scatter, {x, Use(column), Use(rows)},
                 {{"mode", std::string(rng_.Of({"set", "add", "max"}))}});
    }
    case 4: {
      const ValueId part =
          Emit(place, Op::k_slice, {x}, {{"starts", Ints{0}}, {"stops", Ints{1}}, {"axes", Ints{axis}}});
      const Ints starts(type.rank, 0);
      return part >= 0 && Try(place, Op::k_update_slice, {x, Use(part)}, {{"starts", starts}});
    }
    case 5:
    case 6: {
      // What is computed from rows may be computed where they are read.
      const ValueId rows = Emit(place, Op::k_embedding, {x, Use(ids)});
      if (rows < 0 || rng_.Chance(30)) return rows >= 0;
      return Try(place, rng_.Of({Op::k_mul, Op::k_add}), {Use(rows), Number(type.dtype)}, {});
    }
    default: return Try(place, Op::k_take, {x, Use(ids)}, {{"axis", axis}});
  }
}

bool OpGen::Create(Place place) {
  if (rng_.Chance(25)) {
    const DType dtype = rng_.Of({DType::i64, DType::f32, DType::i32, DType::f64});
    const Ints dims{rng_.Between(1, 5)};
    return Try(place, Op::k_iota, {Imm(rng_.Between(-2, 2)), Imm(rng_.Between(1, 2))},
               {{"dims", dims}, {"dtype", dtype}});
  }
  if (rng_.Chance(15)) {
    const Ints dims{rng_.Between(1, 4), 4};
    return Try(place, Op::k_random_normal, {Imm(rng_.Below(1000)), Imm(rng_.Below(100))}, {{"dims", dims}});
  }
  return Make(place, Type({})) >= 0;
}

}  // namespace tessera::random
