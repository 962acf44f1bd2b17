// Makes eager programs. Slots keep one type for the whole program, so that loops mostly run without errors whatever
// order statements come in; locals have the type their op gives. Types are those of a scratch Graph IR function.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "ir/literal.h"
#include "ir/slice.h"
#include "ir/typing.h"
#include "tests/random/eager.h"
#include "tests/random/eager_call.h"
#include "tests/random/op_gen.h"

namespace tessera::random {
namespace {

using ir::Op;
using ir::Operand;

constexpr int64_t kMaxCost = 2200;
constexpr int kMaxDepth = 4;

std::string DTypeText(DType t) { return std::string(Name(t)); }

class EagerGen {
 public:
  explicit EagerGen(uint64_t seed) : rng_(seed * 2 + 0x10001), ops_(rng_) { b_ = f_.symbols->Named("B"); }

  std::unique_ptr<Program> Run() {
    std::vector<Stmt> program;
    calm_ = rng_.Chance(40);
    program.push_back({Shapes(), {}, {}});
    for (int64_t i = rng_.Below(3); i > 0; --i) program.push_back(MakeLayer());
    names_.assign(f_.values.size(), "");
    next_local_ = 0;
    std::vector<ValueId> visible;
    for (int64_t k = 0, n = rng_.Between(3, 7); k < n; ++k) {
      TensorType type = ops_.Type({});
      if (!layers_.empty() && rng_.Chance(40)) type = rng_.Of(rng_.Of(layers_).params);
      if (HasSymbol(type)) type.dims[0] = 4;
      if (k == 0) type.dtype = DType::f32, type.rank = 2, type.dims[0] = type.dims[1] = 4;
      slots_.push_back(NewValue(type, "s" + std::to_string(k)));
      visible.push_back(slots_.back());
      program.push_back({"s" + std::to_string(k) + " = " + Host(type), {}, {}});
    }
    for (int64_t n = rng_.Between(1, 3); n > 0 && cost_ < kMaxCost; --n) {
      Fill(program, visible, {1, 0}, rng_.Between(0, 3));
      Loop(program, visible, {1, 0});
    }
    Observe(program, visible);
    return std::make_unique<EagerProgram>(std::move(program));
  }

 private:
  struct Scope {
    int64_t times;
    int depth;
  };
  struct Layer {
    std::vector<TensorType> params;
    TensorType result;
    int64_t cost;
  };

  // ---- text

  std::string Shapes() {
    std::string text = "shape B";
    std::vector<int> sizes = rng_.Chance(25) ? std::vector<int>{0, 1, 3} : std::vector<int>{2, 3, 4, 5, 7};
    for (int64_t i = rng_.Between(1, 3); i > 0; --i) {
      const auto at = rng_.Below(static_cast<int64_t>(sizes.size()));
      text += " " + std::to_string(sizes[static_cast<size_t>(at)]);
      sizes.erase(sizes.begin() + at);
    }
    return text + " every " + std::to_string(rng_.Of({1, 1, 3, 6, 10}));
  }

  std::optional<std::string> DimText(int64_t d) {
    if (d == ir::kSliceEnd) return "end";
    if (d == ir::kSliceThroughFirst) return "first";
    if (!ir::IsSymbol(d)) return std::to_string(d);
    if (d == b_) return "B";
    return {};
  }
  std::optional<std::string> DimsText(const int64_t* begin, const int64_t* end) {
    std::string text;
    for (const int64_t* d = begin; d != end; ++d) {
      const std::optional<std::string> one = DimText(*d);
      if (!one) return {};
      text += (d == begin ? "" : ",") + *one;
    }
    return text;
  }

  static bool HasSymbol(const TensorType& t) {
    return std::any_of(t.dims, t.dims + t.rank, [](int64_t d) { return ir::IsSymbol(d); });
  }

  std::string Host(const TensorType& type) {
    return "host " + DTypeText(type.dtype) + " dims=" + DimsText(type.dims, type.dims + type.rank).value() +
           " seed=" + std::to_string(rng_.Below(1000));
  }

  std::string Number(const ir::Immediate& n, bool changes) {
    if (const double* d = std::get_if<double>(&n); d != nullptr && changes && std::isfinite(*d)) {
      const double step = rng_.Real(-0.5, 0.5);
      const int period = rng_.Of({1, 1, 4, 9});
      return "~" + ir::DoubleText(*d) + "," + ir::DoubleText(step) + "," + std::to_string(period);
    }
    return ir::ImmediateText(n);
  }

  // The op with its attributes; nothing when an attribute cannot be said in the text form.
  std::optional<std::string> OpText(const ir::Instruction& inst, bool in_loop) {
    const ir::OpInfo& info = ir::Info(inst.op);
    std::string text(info.name);
    for (const Operand& o : inst.operands) {
      if (o.kind == Operand::Kind::absent) return {};
      text +=
          " " + (o.kind == Operand::Kind::value ? names_[o.value] : Number(o.immediate, in_loop && rng_.Chance(25)));
    }
    for (size_t i = 0; i < info.attrs.size(); ++i) {
      const ir::Attr& a = inst.attrs[i];
      text += " " + info.attrs[i].name + "=";
      if (const ir::Ints* v = std::get_if<ir::Ints>(&a)) {
        const std::optional<std::string> list = DimsText(v->data(), v->data() + v->size());
        if (!list) return {};
        text += *list;
      } else if (const bool* flag = std::get_if<bool>(&a)) {
        text += *flag ? "1" : "0";
      } else if (const DType* t = std::get_if<DType>(&a)) {
        text += DTypeText(*t);
      } else if (const double* d = std::get_if<double>(&a)) {
        text += ir::DoubleText(*d);
      } else if (const int64_t* n = std::get_if<int64_t>(&a)) {
        text += std::to_string(*n);
      } else {
        text += std::get<std::string>(a);
      }
    }
    return text + Site();
  }
  std::string Site() { return " @" + std::to_string(rng_.Below(kCallSites)); }

  // ---- values

  ValueId NewValue(const TensorType& type, std::string name) {
    f_.values.push_back({"", type});
    names_.resize(f_.values.size());
    names_.back() = std::move(name);
    return static_cast<ValueId>(f_.values.size() - 1);
  }
  const TensorType& TypeOf(ValueId v) { return f_.values[v].type; }
  bool Same(const TensorType& a, const TensorType& b) { return ir::SameType(f_.symbols.get(), a, b); }
  const std::string& NameOf(ValueId v) { return names_[v]; }
  std::string NewLocal() { return "t" + std::to_string(next_local_++); }

  // Adds what `add` emits into a scratch list as statements. Results become locals, or the next value of a slot.
  template <class Add>
  ValueId Statements(std::vector<Stmt>& block, std::vector<ValueId>& visible, const Scope& scope, bool to_slots,
                     const Add& add) {
    std::vector<ir::Instruction> list;
    std::vector<ValueId> seen = visible;
    add(Place{f_, list, seen});
    names_.resize(f_.values.size());
    ValueId last = -1;
    for (const ir::Instruction& inst : list) {
      // An operand without a name comes from an instruction that was left out.
      for (const Operand& o : inst.operands)
        if (o.kind == Operand::Kind::value && names_[o.value].empty()) return last;
      const std::optional<std::string> text = OpText(inst, scope.depth > 0);
      if (!text) return last;
      std::string results;
      for (ValueId r : inst.results) {
        std::string name;
        if (to_slots && list.size() == 1 && inst.results.size() == 1 && rng_.Chance(45)) {
          for (ValueId s : slots_)
            if (Same(TypeOf(s), TypeOf(r)) && rng_.Chance(60)) name = NameOf(s);
        }
        if (name.empty()) {
          name = NewLocal();
          visible.push_back(r);
        }
        names_[r] = name;
        results += name + " ";
        last = r;
      }
      block.push_back({results + "= " + *text, {}, {}});
      cost_ += scope.times;
    }
    return last;
  }

  // ---- structure

  Stmt MakeLayer() {
    Stmt layer;
    Layer info;
    const int64_t cost = cost_;
    cost_ = 0;
    next_local_ = 0;
    std::vector<ValueId> visible;
    const int64_t n = rng_.Between(1, 3);
    for (int64_t p = 0; p < n; ++p) {
      TensorType type = ops_.Type(p == 0 ? std::vector<int64_t>{b_} : std::vector<int64_t>{});
      if (rng_.Chance(60)) type.dtype = DType::f32;
      info.params.push_back(type);
      visible.push_back(NewValue(type, "p" + std::to_string(p)));
    }
    for (int64_t i = rng_.Between(1, 6); i > 0; --i)
      Statements(layer.body, visible, {1, 0}, false, [&](Place p) { ops_.Add(p); });
    if (rng_.Chance(15)) Observe(layer.body, visible);
    layer.body.push_back({"return " + NameOf(visible.back()), {}, {}});
    info.result = TypeOf(visible.back());
    info.cost = std::max<int64_t>(1, cost_);
    cost_ = cost;
    layer.text = "layer " + std::to_string(layers_.size()) + " " + std::to_string(n);
    layers_.push_back(info);
    return layer;
  }

  void Fill(std::vector<Stmt>& block, std::vector<ValueId>& visible, const Scope& scope, int64_t n) {
    for (; n > 0 && cost_ < kMaxCost; --n) {
      int64_t r = rng_.Below(100);
      if (calm_ && r >= 66 && rng_.Chance(85)) r = rng_.Chance(30) ? 80 : 0;
      if (r < 58) {
        Statements(block, visible, scope, true, [&](Place p) { ops_.Add(p); });
      } else if (r < 70) {
        Handle(block, visible);
      } else if (r < 79) {
        Observe(block, visible);
      } else if (r < 86) {
        CallLayer(block, visible, scope);
      } else if (r < 88) {
        Wrong(block, visible);
      } else if (r < 90) {
        const ValueId x = rng_.Of(visible);
        block.push_back({"async " + NameOf(x), {}, {}});
        if (rng_.Chance(60)) block.push_back({"join", {}, {}});
      } else if (scope.depth < kMaxDepth) {
        Nest(block, visible, scope);
      }
    }
  }

  std::vector<Stmt> Inner(const std::vector<ValueId>& visible, const Scope& scope, int64_t n) {
    std::vector<Stmt> block;
    std::vector<ValueId> inner = visible;
    Fill(block, inner, {scope.times, scope.depth + 1}, n);
    return block;
  }

  void Nest(std::vector<Stmt>& block, std::vector<ValueId>& visible, const Scope& scope) {
    switch (rng_.Below(5)) {
      case 0: {
        const ValueId c = Statements(block, visible, scope, false, [&](Place p) { ops_.Condition(p); });
        if (c < 0 || TypeOf(c).rank != 0) return;
        Stmt s{"if " + NameOf(c), Inner(visible, scope, rng_.Between(1, 4)), {}};
        if (rng_.Chance(60)) s.otherwise = Inner(visible, scope, rng_.Between(1, 4));
        block.push_back(std::move(s));
        return;
      }
      case 1: {
        const int64_t k = rng_.Between(2, 9);
        block.push_back({"every " + std::to_string(k) + " " + std::to_string(rng_.Below(k)),
                         Inner(visible, scope, rng_.Between(1, 4)),
                         {}});
        return;
      }
      case 2: {
        Stmt s{"try", Inner(visible, scope, rng_.Between(1, 4)), {}};
        Wrong(s.body, visible);
        if (rng_.Chance(50)) Observe(s.body, visible);
        block.push_back(std::move(s));
        return;
      }
      default: Loop(block, visible, scope); return;
    }
  }

  void Loop(std::vector<Stmt>& block, std::vector<ValueId>& visible, const Scope& scope) {
    const int64_t room = std::max<int64_t>(2, (kMaxCost - cost_) / (scope.times * 6));
    const int64_t trips = std::min(room, scope.depth > 0 ? rng_.Between(2, 7)
                                         : calm_         ? rng_.Between(50, 150)
                                                         : rng_.Between(12, 60));
    Stmt loop{"loop " + std::to_string(trips), {}, {}};
    std::vector<ValueId> inner = visible;
    const Scope within{scope.times * trips, scope.depth + 1};
    if (rng_.Chance(scope.depth == 0 ? 70 : 20)) {  // a batch that may change its shape
      TensorType type = ops_.Type({b_});
      if (rng_.Chance(50)) type.dtype = DType::f32, type.rank = 2, type.dims[0] = b_, type.dims[1] = 4;
      const ValueId x = NewValue(type, NewLocal());
      inner.push_back(x);
      loop.body.push_back({NameOf(x) + " = " + Host(type), {}, {}});
    }
    Fill(loop.body, inner, within, rng_.Between(3, 11));
    // Something carried through the iterations changes.
    if (rng_.Chance(70)) {
      const ValueId s = rng_.Of(slots_);
      Statements(loop.body, inner, within, false, [&](Place p) { ops_.Stir(p, s); });
      if (Same(TypeOf(inner.back()), TypeOf(s)))
        loop.body.push_back({NameOf(s) + " = " + NameOf(inner.back()), {}, {}});
    }
    // What nobody sees cannot be compared: now and then the last locals are looked at.
    if (rng_.Chance(60)) {
      Stmt look{"every " + std::to_string(rng_.Of({2, 5, 9})) + " 1", {}, {}};
      for (size_t k = inner.size(); k-- > visible.size() && look.body.size() < 4;)
        look.body.push_back({"read " + NameOf(inner[k]), {}, {}});
      if (!look.body.empty()) loop.body.push_back(std::move(look));
    }
    if (rng_.Chance(10)) loop.body.push_back({"stop " + std::to_string(rng_.Below(trips)), {}, {}});
    block.push_back(std::move(loop));
  }

  void CallLayer(std::vector<Stmt>& block, std::vector<ValueId>& visible, const Scope& scope) {
    if (layers_.empty()) return;
    const auto k = static_cast<size_t>(rng_.Below(static_cast<int64_t>(layers_.size())));
    const Layer& layer = layers_[k];
    if (cost_ + scope.times * layer.cost > kMaxCost) return;
    std::string args;
    for (const TensorType& want : layer.params) {
      ValueId arg = -1;
      for (ValueId v : visible)
        if (Same(TypeOf(v), want) && (arg < 0 || rng_.Chance(50))) arg = v;
      if (arg < 0) {
        arg = NewValue(want, NewLocal());
        block.push_back({NameOf(arg) + " = " + Host(want), {}, {}});
        visible.push_back(arg);
      }
      args += " " + NameOf(arg);
    }
    const ValueId y = NewValue(layer.result, NewLocal());
    visible.push_back(y);
    block.push_back({NameOf(y) + " = layer " + std::to_string(k) + args, {}, {}});
    cost_ += scope.times * layer.cost;
  }

  // Handles copied, moved, dropped, written through.
  void Handle(std::vector<Stmt>& block, std::vector<ValueId>& visible) {
    const ValueId x = rng_.Of(visible);
    const ValueId s = rng_.Of(slots_);
    switch (rng_.Below(6)) {
      case 0:
      case 1: {
        static constexpr const char* kSigns[] = {" += ", " -= ", " *= ", " /= "};
        std::string other;
        for (ValueId v : visible)
          if (Same(TypeOf(v), TypeOf(s)) && rng_.Chance(50)) other = NameOf(v);
        if (other.empty()) other = IsFloat(TypeOf(s).dtype) ? Number(ir::Immediate(rng_.Real(-1, 1)), true) : "1";
        const char* sign = kSigns[rng_.Below(IsFloat(TypeOf(s).dtype) ? 4 : 3)];
        block.push_back({NameOf(s) + sign + other + Site(), {}, {}});
        return;
      }
      case 2: {
        const std::string index = std::to_string(rng_.Below(20));
        const std::string number = ir::DoubleText(rng_.Real(-2, 2));
        block.push_back({"write " + NameOf(s) + " " + index + " " + number, {}, {}});
        return;
      }
      case 3: {
        for (ValueId v : slots_) {
          if (v == x || !(Same(TypeOf(v), TypeOf(x)) || rng_.Chance(1))) continue;
          block.push_back({NameOf(v) + " = " + NameOf(x), {}, {}});
          return;
        }
        return;
      }
      default: {
        // A local that is not used any more dies before its block ends.
        if (std::find(slots_.begin(), slots_.end(), x) != slots_.end()) return;
        if (NameOf(x)[0] != 't') return;
        visible.erase(std::find(visible.begin(), visible.end(), x));
        for (ValueId v : slots_) {
          if (!Same(TypeOf(v), TypeOf(x)) || rng_.Chance(50)) continue;
          block.push_back({NameOf(v) + " = move " + NameOf(x), {}, {}});
          return;
        }
        block.push_back({"drop " + NameOf(x), {}, {}});
        return;
      }
    }
  }

  void Observe(std::vector<Stmt>& block, std::vector<ValueId>& visible) {
    const ValueId x = rng_.Chance(40) ? rng_.Of(slots_.empty() ? visible : slots_) : rng_.Of(visible);
    const char* what = rng_.Of({"read", "read", "vec", "view", "dims", "string", "item"});
    if (TypeOf(x).rank > 0 && what[0] == 'i') what = rng_.Chance(5) ? "item" : "read";
    block.push_back({std::string(what) + " " + NameOf(x), {}, {}});
    if (rng_.Chance(15)) block.push_back({"shares " + NameOf(x) + " " + NameOf(rng_.Of(visible)), {}, {}});
  }

  // An op that fails, or would if nobody looked at the shapes.
  void Wrong(std::vector<Stmt>& block, std::vector<ValueId>& visible) {
    const std::string x = NameOf(rng_.Of(visible)), y = NameOf(rng_.Of(visible));
    const std::string t = NewLocal() + " = ";
    switch (rng_.Below(5)) {
      case 0: block.push_back({t + "matmul " + x + " " + y + Site(), {}, {}}); return;
      case 1: block.push_back({t + "reshape " + x + " dims=3,5,7" + Site(), {}, {}}); return;
      case 2: block.push_back({t + "add " + x + " " + y + Site(), {}, {}}); return;
      case 3: block.push_back({t + "softmax " + x + " axis=2" + Site(), {}, {}}); return;
      default: {
        const std::string index = std::to_string(rng_.Of({0, 3, 99}));
        block.push_back({t + "take " + x + " " + index + Site(), {}, {}});
        return;
      }
    }
  }

  Rng rng_;
  OpGen ops_;
  ir::Function f_;
  int64_t b_;
  std::vector<std::string> names_;  // by ValueId
  std::vector<ValueId> slots_;
  std::vector<Layer> layers_;
  int64_t cost_ = 0;
  int64_t next_local_ = 0;
  bool calm_ = false;  // long loops of ops and layers, with few branches and reads: they stay in versions
};

}  // namespace

std::unique_ptr<Program> GenerateEager(uint64_t seed) { return EagerGen(seed).Run(); }

}  // namespace tessera::random
