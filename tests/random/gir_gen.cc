// Makes Graph IR programs. Functions are made in order and call earlier ones only, so that nothing recurs without end;
// functions that call themselves count down.
#include <algorithm>
#include <stdexcept>

#include "ir/literal.h"
#include "ir/typing.h"
#include "tests/random/gir.h"
#include "tests/random/op_gen.h"

namespace tessera::random {
namespace {

using ir::Op;
using ir::Operand;

// Instructions that one call of a function may run, as far as can be told from the text.
constexpr int64_t kMaxCost = 1500;
constexpr int kMaxDepth = 3;

class GirGen {
 public:
  explicit GirGen(uint64_t seed) : rng_(seed * 2 + 1), ops_(rng_) {}

  std::unique_ptr<Program> Run() {
    for (int64_t i = rng_.Below(3); i > 0; --i) {
      TensorType type = ops_.Type({});
      if (type.dtype == DType::boolean) type.dtype = DType::f32;
      module_.buffers.push_back({"buf" + std::to_string(i), type, {}});
    }
    for (int64_t i = rng_.Below(4); i > 0; --i) {
      if (rng_.Chance(20)) {
        Recursive("f" + std::to_string(i));
      } else {
        Plain("f" + std::to_string(i), kMaxCost / 20);
      }
    }
    ir::Function& main = Plain("main", kMaxCost);
    const absl::Status status = ir::Verify(module_);
    if (!status.ok()) throw std::logic_error("generated a wrong module: " + std::string(status.message()));
    std::vector<GirProgram::Call> calls = Calls(main);
    return std::make_unique<GirProgram>(ir::Print(module_), std::move(calls));
  }

 private:
  struct Scope {
    ir::Function& function;
    int64_t times;  // product of the trip counts around
    int depth;
    int64_t limit;  // of the function's cost
  };

  ir::Function& NewFunction(const std::string& name) {
    module_.functions.push_back(std::make_unique<ir::Function>());
    module_.functions.back()->name = name;
    cost_ = 0;
    return *module_.functions.back();
  }
  ValueId NewValue(ir::Function& f, TensorType type) {
    type.weak = false;
    f.values.push_back({"", type});
    return static_cast<ValueId>(f.values.size() - 1);
  }
  void End(ir::Block& block, Op op, std::vector<Operand> values) {
    block.instructions.push_back({op, std::move(values), {}, {}, {}, {}});
  }

  // ---- functions

  ir::Function& Plain(const std::string& name, int64_t limit) {
    ir::Function& f = NewFunction(name);
    std::vector<int64_t> symbols;
    if (rng_.Chance(55)) symbols.push_back(f.symbols->Named("B"));
    if (!symbols.empty() && rng_.Chance(25)) symbols.push_back(f.symbols->Named("S"));
    std::vector<ValueId> visible;
    for (int64_t i = rng_.Between(1, 4); i > 0; --i) AddParam(f, ops_.Type(symbols), visible);
    // A symbol needs a parameter that has it as a dim.
    for (int64_t s : symbols) {
      TensorType type;
      type.rank = 2, type.dims[0] = s, type.dims[1] = 4;
      AddParam(f, type, visible);
    }
    const size_t params = visible.size();
    Scope scope{f, 1, 0, limit};
    const bool is_main = name == "main";
    Fill(scope, f.body, visible, rng_.Between(4, 14));
    if (is_main && cost_ < limit / 2) {
      Loop(scope, f.body, visible, rng_.Chance(35));
      Fill(scope, f.body, visible, rng_.Between(0, 4));
    }
    // What nobody sees cannot be compared, so @main gives much of what it computed.
    std::vector<Operand> results;
    for (int64_t i = is_main ? rng_.Between(3, 7) : rng_.Between(1, 3); i > 0; --i) {
      const auto n = static_cast<int64_t>(visible.size());
      const int64_t low = n > static_cast<int64_t>(params) ? static_cast<int64_t>(params) : 0;
      const ValueId v = visible[static_cast<size_t>(rng_.Between(low, n - 1))];
      results.push_back(Use(v));
      f.results.push_back(f.values[v].type);
    }
    End(f.body, Op::k_return, results);
    costs_.push_back(cost_ + 1);
    return f;
  }

  // Counts its first parameter down and gives the second one, changed at each level.
  void Recursive(const std::string& name) {
    ir::Function& f = NewFunction(name);
    std::vector<ValueId> visible;
    TensorType count;
    count.dtype = DType::i64;
    AddParam(f, count, visible);
    AddParam(f, ops_.Type({}), visible);
    const ValueId n = visible[0], x = visible[1];
    const TensorType type = f.values[x].type;
    f.results = {type};
    const ValueId done = ops_.Emit({f, f.body.instructions, visible}, Op::k_le, {Use(n), Imm(int64_t{0})});
    ir::Instruction inst{Op::k_if, {Use(done)}, {}, {}, std::vector<ir::Block>(2), {}};
    End(inst.blocks[0], Op::k_yield, {Use(x)});
    ir::Block& more = inst.blocks[1];
    std::vector<ValueId> inner = visible;
    for (int64_t i = rng_.Between(1, 3); i > 0; --i) ops_.Add({f, more.instructions, inner});
    const ValueId less = ops_.Emit({f, more.instructions, inner}, Op::k_sub, {Use(n), Imm(int64_t{1})});
    const ValueId next = Newest({f, more.instructions, inner}, type, x);
    const ValueId rest = NewValue(f, type);
    more.instructions.push_back({Op::k_call, {Use(less), Use(next)}, {std::string(name)}, {rest}, {}, {}});
    inner.push_back(rest);
    End(more, Op::k_yield, {Use(rng_.Chance(50) ? Stirred({f, more.instructions, inner}, rest) : rest)});
    inst.results.push_back(NewValue(f, type));
    End(f.body, Op::k_return, {});  // placed first, so that the value exists
    f.body.instructions.back().operands = {Use(inst.results[0])};
    f.body.instructions.insert(f.body.instructions.end() - 1, std::move(inst));
    costs_.push_back(60);
    recursive_.push_back(module_.functions.size() - 1);
  }

  void AddParam(ir::Function& f, const TensorType& type, std::vector<ValueId>& visible) {
    visible.push_back(NewValue(f, type));
    f.params.push_back({visible.back(), ir::Privilege::read, ""});
  }

  // ---- blocks

  void Fill(const Scope& scope, ir::Block& block, std::vector<ValueId>& visible, int64_t n) {
    for (; n > 0 && cost_ < scope.limit; --n) {
      const Place place{scope.function, block.instructions, visible};
      const size_t before = block.instructions.size();
      const int64_t r = rng_.Below(100);
      if (r < 7 && scope.depth < kMaxDepth) {
        If(scope, block, visible);
      } else if (r < 16 && scope.depth < kMaxDepth) {
        Loop(scope, block, visible, rng_.Chance(35));
      } else if (r < 24) {
        Call(scope, place);
      } else if (r < 31) {
        Effect(scope, place);
      } else {
        ops_.Add(place);
      }
      cost_ += scope.times * static_cast<int64_t>(block.instructions.size() - before);
    }
  }

  void If(const Scope& scope, ir::Block& block, std::vector<ValueId>& visible) {
    const ValueId cond = ops_.Condition({scope.function, block.instructions, visible});
    if (cond < 0) return;
    ir::Instruction inst{Op::k_if, {Use(cond)}, {}, {}, std::vector<ir::Block>(2), {}};
    const std::vector<ValueId> results = Some(visible, 0, 2);
    for (ir::Block& b : inst.blocks) {
      std::vector<ValueId> inner = visible;
      Fill({scope.function, scope.times, scope.depth + 1, scope.limit}, b, inner, rng_.Between(0, 4));
      std::vector<Operand> yields;
      for (ValueId v : results) {
        const Place place{scope.function, b.instructions, inner};
        yields.push_back(Use(Newest(place, scope.function.values[v].type, rng_.Chance(60) ? v : -1)));
      }
      End(b, Op::k_yield, yields);
    }
    Bind(scope.function, inst, results, visible);
    block.instructions.push_back(std::move(inst));
  }

  void Loop(const Scope& scope, ir::Block& block, std::vector<ValueId>& visible, bool is_while) {
    ir::Function& f = scope.function;
    const int64_t room = std::max<int64_t>(2, (scope.limit - cost_) / (scope.times * 4));
    const int64_t trips = std::min(room, scope.depth == 0 ? rng_.Between(5, 60) : rng_.Between(2, 9));
    std::vector<ValueId> carried = Some(visible, 1, 3);
    ir::Instruction inst{is_while ? Op::k_while : Op::k_for, {}, {}, {}, std::vector<ir::Block>(is_while ? 2 : 1), {}};
    ir::Block& body = inst.blocks.back();
    std::vector<ValueId> inner = visible;
    TensorType index;
    index.dtype = DType::i64;
    const ValueId i = NewValue(f, index);
    body.params.push_back(i);
    inner.push_back(i);
    const int64_t start = is_while ? 0 : rng_.Between(-1, 2);
    if (is_while) {
      inst.operands.push_back(Imm(start));
    } else {
      const int64_t step = rng_.Of<int64_t>({1, 1, 1, 2, -1});
      inst.operands = {Imm(start), Imm(start + step * trips), Imm(step)};
      if (rng_.Chance(15)) {  // a bound that is computed
        const ValueId stop = ops_.Emit({f, block.instructions, visible}, Op::k_full, {Imm(start + step * trips)},
                                       {{"dims", ir::Ints()}, {"dtype", DType::i64}});
        inst.operands[1] = Use(stop);
      }
    }
    for (ValueId v : carried) {
      inst.operands.push_back(Use(v));
      body.params.push_back(NewValue(f, f.values[v].type));
      inner.push_back(body.params.back());
    }
    if (is_while) {
      ir::Block& test = inst.blocks[0];
      test.params = body.params;
      std::vector<ValueId> seen = inner;
      const Place place{f, test.instructions, seen};
      ValueId go = ops_.Emit(place, Op::k_lt, {Use(i), Imm(trips)});
      if (rng_.Chance(40)) {
        const ValueId also = ops_.Condition(place);
        if (also >= 0) go = ops_.Emit(place, rng_.Of({Op::k_logical_and, Op::k_logical_and}), {Use(go), Use(also)});
      }
      End(test, Op::k_yield, {Use(go)});
    }
    Fill({f, scope.times * trips, scope.depth + 1, scope.limit}, body, inner, rng_.Between(1, 6));
    std::vector<Operand> yields;
    const Place place{f, body.instructions, inner};
    if (is_while) yields.push_back(Use(ops_.Emit(place, Op::k_add, {Use(i), Imm(int64_t{1})})));
    for (size_t k = 0; k < carried.size(); ++k) {
      const ValueId param = body.params[k + 1];
      yields.push_back(Use(Newest(place, f.values[param].type, rng_.Chance(15) ? -1 : param)));
    }
    cost_ += scope.times * trips;
    End(body, Op::k_yield, yields);
    if (is_while) carried.insert(carried.begin(), i);
    Bind(f, inst, carried, visible);
    block.instructions.push_back(std::move(inst));
  }

  // The newest value of that type, changed when it would be `old`; `old` < 0: any will do.
  ValueId Newest(Place place, const TensorType& type, ValueId old) {
    for (size_t k = place.visible.size(); k-- > 0;) {
      const ValueId v = place.visible[k];
      if (!ir::SameType(place.function.symbols.get(), place.function.values[v].type, type)) continue;
      if (v != old) {
        // What is carried through many iterations should neither overflow at once nor die out.
        return old >= 0 && rng_.Chance(40) && IsFloat(type.dtype) ? Stirred(place, v) : v;
      }
      return Stirred(place, v);
    }
    return old;
  }

  // v itself where no op changes such a value.
  ValueId Stirred(Place place, ValueId v) {
    const ValueId changed = ops_.Stir(place, v);
    return changed >= 0 ? changed : v;
  }

  std::vector<ValueId> Some(const std::vector<ValueId>& visible, int64_t low, int64_t high) {
    std::vector<ValueId> some;
    for (int64_t i = rng_.Between(low, high); i > 0; --i) some.push_back(rng_.Of(visible));
    return some;
  }

  void Bind(ir::Function& f, ir::Instruction& inst, const std::vector<ValueId>& like, std::vector<ValueId>& visible) {
    for (ValueId v : like) {
      inst.results.push_back(NewValue(f, f.values[v].type));
      visible.push_back(inst.results.back());
    }
  }

  // ---- calls and effects

  void Call(const Scope& scope, Place place) {
    const size_t earlier = costs_.size();
    if (earlier == 0) return;
    const auto k = static_cast<size_t>(rng_.Below(static_cast<int64_t>(earlier)));
    if (cost_ + scope.times * costs_[k] > scope.limit) return;
    const ir::Function& callee = *module_.functions[k];
    const bool counts_down = std::find(recursive_.begin(), recursive_.end(), k) != recursive_.end();
    // The callee's symbols as the caller has them.
    std::vector<int64_t> bound;
    for (int i = 0; i < callee.symbols->num_named(); ++i) {
      const int64_t own = place.function.symbols->Find("B");
      bound.push_back(own != 0 && rng_.Chance(60) ? own : rng_.Of<int64_t>({1, 2, 3, 4}));
    }
    ir::Instruction inst{Op::k_call, {}, {callee.name}, {}, {}, {}};
    for (size_t p = 0; p < callee.params.size(); ++p) {
      if (p == 0 && counts_down) {
        inst.operands.push_back(Imm(rng_.Between(0, 8)));
        continue;
      }
      TensorType want = callee.values[callee.params[p].value].type;
      for (int i = 0; i < want.rank; ++i)
        want.dims[i] = place.function.symbols->Substitute(*callee.symbols, want.dims[i], bound);
      ValueId arg = -1;
      for (size_t v = place.visible.size(); v-- > 0 && arg < 0;) {
        const ValueId id = place.visible[v];
        if (ir::SameType(place.function.symbols.get(), place.function.values[id].type, want) && rng_.Chance(70))
          arg = id;
      }
      if (arg < 0) arg = ops_.Make(place, want);
      if (arg < 0) return;
      inst.operands.push_back(Use(arg));
    }
    std::vector<TensorType> types;
    if (!ir::InferCall(place.function, inst, callee, types).ok()) return;
    for (const TensorType& t : types) {
      inst.results.push_back(NewValue(place.function, t));
      place.visible.push_back(inst.results.back());
    }
    place.instructions.push_back(std::move(inst));
    cost_ += scope.times * costs_[k];
  }

  void Effect(const Scope& scope, Place place) {
    const int64_t r = rng_.Below(10);
    if (r < 2 && scope.times <= 40) {
      const ValueId x = rng_.Of(place.visible);
      Plain0(place, Op::k_print, {Use(x)}, rng_.Chance(50) ? "p" : "");
    } else if (r < 4 && scope.times <= 200) {
      Plain0(place, Op::k_host_read, {Use(rng_.Of(place.visible))}, std::string("r"));
    } else if (!module_.buffers.empty()) {
      const ir::Buffer& buffer = rng_.Of(module_.buffers);
      if (r < 7) {
        ir::Instruction inst{Op::k_buffer_read, {}, {buffer.name}, {NewValue(place.function, buffer.type)}, {}, {}};
        place.visible.push_back(inst.results[0]);
        place.instructions.push_back(std::move(inst));
        return;
      }
      ValueId x = Newest(place, buffer.type, -1);
      if (x < 0) x = ops_.Make(place, buffer.type);
      if (x < 0) return;
      Plain0(place, r < 9 ? Op::k_buffer_write : Op::k_buffer_add, {Use(x)}, buffer.name);
    }
  }
  void Plain0(Place place, Op op, std::vector<Operand> operands, std::string attr) {
    place.instructions.push_back({op, std::move(operands), {std::move(attr)}, {}, {}, {}});
  }

  // ---- arguments

  std::vector<GirProgram::Call> Calls(const ir::Function& main) {
    const int64_t n = rng_.Between(6, 14);
    const int64_t period = rng_.Of<int64_t>({100, 1, 1, 2, 4, 5});
    const bool same_numbers = rng_.Chance(30);
    const bool views = rng_.Chance(30);
    const std::vector<int64_t> sizes =
        rng_.Chance(25) ? std::vector<int64_t>{3, 1, 0, 5} : std::vector<int64_t>{3, 5, 2, 7};
    std::vector<GirProgram::Call> calls;
    const uint64_t contents = rng_.Next();
    for (int64_t c = 0; c < n; ++c) {
      std::vector<int64_t> bound;
      for (int i = 0; i < main.symbols->num_named(); ++i)
        bound.push_back(sizes[static_cast<size_t>((c / period + i) % static_cast<int64_t>(sizes.size()))]);
      Rng numbers(same_numbers ? contents : contents + static_cast<uint64_t>(c));
      GirProgram::Call call;
      for (const ir::Param& p : main.params) {
        TensorType type = main.values[p.value].type;
        for (int i = 0; i < type.rank; ++i)
          if (ir::IsSymbol(type.dims[i])) type.dims[i] = main.symbols->Evaluate(type.dims[i], bound);
        const bool transposed = views && type.rank > 1 && numbers.Chance(50);
        if (transposed) std::reverse(type.dims, type.dims + type.rank);
        call.push_back(RandomLiteral(numbers, type) + (transposed ? " ^T" : ""));
      }
      calls.push_back(std::move(call));
    }
    return calls;
  }

  static std::string RandomLiteral(Rng& rng, const TensorType& type) {
    std::string text = ir::TypeText(nullptr, type) + "[";
    for (int64_t i = 0, n = type.size(); i < n; ++i) {
      if (i > 0) text += ", ";
      if (type.dtype == DType::boolean) {
        text += rng.Chance(50) ? "true" : "false";
      } else if (IsInt(type.dtype)) {
        text += std::to_string(rng.Between(type.dtype == DType::u8 ? 0 : -4, 9));
      } else if (rng.Chance(2)) {
        text += rng.Of({"inf", "-inf", "nan", "-0.0", "1e-30", "3e4"});
      } else {
        // Few fraction bits, so that every floating dtype holds it.
        text += ir::DoubleText(static_cast<double>(rng.Between(-16, 16)) / 8);
      }
    }
    if (type.dtype == DType::f8e4m3 || type.dtype == DType::f16) {
      for (const char* odd : {"-inf", "inf", "3e4", "1e-30"}) {
        for (size_t at; (at = text.find(odd)) != std::string::npos;) text.replace(at, std::string(odd).size(), "1.0");
      }
    }
    return text + "]";
  }

  Rng rng_;
  OpGen ops_;
  ir::Module module_;
  std::vector<int64_t> costs_;  // of the finished functions, in their order
  std::vector<size_t> recursive_;
  int64_t cost_ = 0;
};

}  // namespace

std::unique_ptr<Program> GenerateGir(uint64_t seed) { return GirGen(seed).Run(); }

}  // namespace tessera::random
