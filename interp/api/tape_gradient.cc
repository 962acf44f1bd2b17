// A tape walked backwards. The ops of the gradient are eager ops: the site of each follows from the site of the op
// whose gradient it is part of and from its place in the rule, so that a loop that comes back gives the same stream of
// ops each time, which gets hot, is recorded and compiled together with the ops before it.
#include <algorithm>
#include <utility>

#include "interp/api/eager.h"
#include "interp/api/tape_record.h"
#include "interp/take_over.h"

namespace tessera::api {

using ir::Op;
using ir::Val;
using rt::TensorImpl;

namespace {

/// Call sites of what adds gradients up come after those of a rule's ops.
constexpr uintptr_t kSumSites = 512;

// A tape that is walked is off its thread's list of those that remember, if only for the time.
class Busy {
 public:
  explicit Busy(bool* flag) : flag_(flag) { *flag_ = true; }
  ~Busy() { *flag_ = false; }
  Busy(const Busy&) = delete;

 private:
  bool* flag_;
};

}  // namespace

/// Runs what a rule emits. Values are held until the next op's turn.
class TapeRecord::Emitter final : public ir::GradEmitter {
 public:
  /// What follows belongs to the gradient of an op at that site.
  void Begin(const void* site, const std::source_location& where, rt::Device& device, std::string_view op) {
    held_.clear();
    site_ = reinterpret_cast<uintptr_t>(site);
    where_ = where;
    device_ = &device;
    op_ = op;
    count_ = 0;
  }
  void SetSite(uintptr_t count) { count_ = count; }
  /// Nobody asks for what it holds after this walk.
  void SetLast() { is_last_ = true; }

  Val Hold(Tensor value) {
    const TensorType type = *value.waiting_impl();
    held_.push_back({std::move(value), type});
    return {static_cast<ir::ValueId>(held_.size()) - 1};
  }
  Val Hold(Tensor value, const TensorType& type) {
    if (value.defined()) return Hold(std::move(value));
    held_.push_back({Tensor(), type});
    return {static_cast<ir::ValueId>(held_.size()) - 1};
  }
  const Tensor& Get(Val v) const { return held_[v.id].value; }

  TensorType TypeOf(Val v) const override { return held_[v.id].type; }
  ir::SymbolTable* symbols() override { return nullptr; }
  std::vector<Val> Emit(Op op, absl::Span<const ir::Arg> args, std::vector<ir::Attr> attrs) override {
    absl::InlinedVector<const View*, 8> in(args.size(), nullptr);
    interp::ScalarView numbers[3];
    size_t used = 0;
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].kind == ir::Operand::Kind::value) {
        const Tensor& x = held_[args[i].value].value;
        if (!x.defined())
          Throw(Internal("the gradient of ", std::string(op_), " uses a value that grads.def does not say it needs"));
        in[i] = x.waiting_impl();
      } else if (args[i].kind == ir::Operand::Kind::immediate) {
        interp::ScalarView& s = numbers[used++];
        std::visit([&](auto v) { s.Set(v); }, args[i].immediate);
        in[i] = &s;
      }
    }
    // What the tape alone kept is not read again after its turn; an outer tape might keep it.
    const bool dies = is_last_ && !in.empty() && in[0] != nullptr && !in[0]->weak && !AnyTapes();
    const interp::TakeOver scope(dies ? const_cast<TensorImpl*>(static_cast<const TensorImpl*>(in[0])) : nullptr);
    std::vector<Val> out;
    for (Tensor& y : RunViews(op, in, attrs, *device_, reinterpret_cast<const void*>(site_ + ++count_), &where_))
      out.push_back(Hold(std::move(y)));
    return out;
  }

  Tensor Full(double value, const TensorType& type) {
    const ir::Arg number(value);
    return Get(
        Emit(Op::k_full, absl::MakeConstSpan(&number, 1), {ir::Ints(type.dims, type.dims + type.rank), type.dtype})[0]);
  }
  Tensor Cast(const Tensor& x, DType dtype) {
    if (x.waiting_impl()->dtype == dtype) return x;
    const ir::Arg arg(Hold(x));
    return Get(Emit(Op::k_cast, absl::MakeConstSpan(&arg, 1), {dtype})[0]);
  }
  /// In f32 where the type is a narrow one.
  Tensor Add(const Tensor& a, const Tensor& b) {
    const DType t = a.waiting_impl()->dtype;
    const DType wide = IsNarrowFloat(t) ? DType::f32 : t;
    const ir::Arg args[] = {Hold(Cast(a, wide)), Hold(Cast(b, wide))};
    return Get(Emit(Op::k_add, args, {})[0]);
  }

 private:
  struct Held {
    Tensor value;
    TensorType type;
  };

  std::vector<Held> held_;
  uintptr_t site_ = 0;
  uintptr_t count_ = 0;
  std::source_location where_;
  rt::Device* device_ = nullptr;
  std::string_view op_;
  bool is_last_ = false;
};

std::vector<Tensor> TapeRecord::Gradient(const Tensor& target, const Tensor& seed, const std::vector<Tensor>& sources,
                                         const void* site) {
  const TensorType& type = TypeOf(target, "gradient");
  if (used_) {
    Throw(InvalidArgument(
        "gradient: the tape has given its gradient and let go of what it kept; make it one of Use::many to ask again"));
  }
  CheckThread("gradient");
  if (busy_) Throw(InvalidArgument("gradient: the tape is giving a gradient already"));
  const int32_t at = SlotOf(*target.waiting_impl());
  if (at < 0) {
    Throw(InvalidArgument("gradient: the target ", ToString(type),
                          " does not follow from anything that the tape watches; watch() comes before the ops"));
  }
  std::vector<int32_t> slots;
  std::vector<bool> is_source(num_slots_);
  for (size_t i = 0; i < sources.size(); ++i) {
    const TensorImpl& x = TypeOf(sources[i], "gradient");
    slots.push_back(SlotOf(x));
    if (slots[i] < 0) {
      Throw(InvalidArgument("gradient: source ", i, ", ", ToString(static_cast<const TensorType&>(x)),
                            ", is not watched by the tape and does not follow from what is"));
    }
    is_source[slots[i]] = true;
  }
  Emitter emitter;
  emitter.Begin(site, {}, target.waiting_impl()->device(), "gradient");
  std::vector<Tensor> grads(num_slots_);
  if (seed.defined()) {
    const TensorType& given = TypeOf(seed, "gradient");
    if (!given.SameDims(type) || !IsFloat(given.dtype)) {
      Throw(InvalidArgument("gradient: the seed is ", ToString(given), "; it must have the dims of the target ",
                            ToString(type), " and a floating type"));
    }
    grads[at] = seed;
  } else if (type.size() != 1) {
    Throw(InvalidArgument("gradient: the target is ", ToString(type),
                          "; it must have one element: reduce it with sum or mean, or give a seed"));
  }

  const Busy busy(&busy_);
  if (once_) {
    used_ = true;
    Close();
    emitter.SetLast();
  }
  if (!seed.defined()) grads[at] = emitter.Full(1, type);
  try {
    Walk(emitter, grads, is_source);
  } catch (...) {
    EndWalk();
    if (once_) nodes_.clear();
    throw;
  }
  EndWalk();
  // What the target does not depend on was never used.
  if (once_) {
    nodes_.clear();
    slots_.clear();
  }
  std::vector<Tensor> results;
  for (size_t i = 0; i < sources.size(); ++i) {
    const TensorImpl& x = *sources[i].waiting_impl();
    emitter.Begin(site, {}, x.device(), "gradient");
    emitter.SetSite(kSumSites + 2 * i);
    const Tensor& g = grads[slots[i]];
    results.push_back(g.defined() ? emitter.Cast(g, x.dtype) : emitter.Full(0, x));
  }
  return results;
}

void TapeRecord::Walk(Emitter& emitter, std::vector<Tensor>& grads, const std::vector<bool>& is_source) {
  for (size_t n = nodes_.size(); n-- > 0;) {
    Node& node = nodes_[n];
    const bool reached = std::any_of(node.out.begin(), node.out.end(),
                                     [&](const Saved& s) { return s.slot >= 0 && grads[s.slot].defined(); });
    if (reached) Step(node, emitter, grads, is_source);
    if (store_ != nullptr) Drop(node);
    if (once_) node = Node();
  }
}

void TapeRecord::Step(Node& node, Emitter& emitter, std::vector<Tensor>& grads, const std::vector<bool>& is_source) {
  if (node.custom == nullptr && node.rule == nullptr) {
    Throw(Unsupported("gradient: ", NameOf(node),
                      " has no gradient, and one would have to pass through it; put stop_gradient around its operand"));
  }
  emitter.Begin(node.site, node.where, *node.device, node.custom != nullptr ? node.custom : ir::Info(node.op).name);
  if (node.custom != nullptr) return CallCustom(node, emitter, grads, is_source);
  if (store_ != nullptr) Fetch(node);

  absl::InlinedVector<ir::Arg, 4> in(node.in.size());
  absl::InlinedVector<bool, 4> wants(node.in.size(), false);
  absl::InlinedVector<Val, 2> out, g;
  // What a tape kept for one gradient is the emitter's from now on.
  const auto hold = [&](Saved& s) { return emitter.Hold(once_ ? std::move(s.value) : s.value, s.type); };
  for (Saved& s : node.out) {
    out.push_back(hold(s));
    if (s.slot < 0 || !grads[s.slot].defined()) {
      g.push_back({});
      continue;
    }
    g.push_back(emitter.Hold(emitter.Cast(grads[s.slot], s.type.dtype)));
    if (!is_source[s.slot]) grads[s.slot] = Tensor();
  }
  for (size_t i = 0; i < node.in.size(); ++i) {
    Saved& s = node.in[i];
    if (s.kind == ir::Operand::Kind::immediate) {
      in[i].kind = s.kind;
      in[i].immediate = s.number;
    } else if (s.kind == ir::Operand::Kind::value) {
      in[i] = hold(s);
      wants[i] = s.slot >= 0;
    }
  }
  // What was kept for this op alone is held by the emitter now, until it is through.
  ir::GradCall call(emitter, node.op, in, node.attrs, out, g, wants);
  node.rule->function(call);
  for (size_t i = 0; i < node.in.size(); ++i) {
    if (!wants[i] || call.results()[i].id < 0) continue;
    Tensor& sum = grads[node.in[i].slot];
    const Tensor more = emitter.Get(call.results()[i]);
    emitter.SetSite(kSumSites + 4 * i);
    Tensor total = sum.defined() ? emitter.Add(sum, more) : more;
    grads[node.in[i].slot] = std::move(total);
  }
}

void TapeRecord::CallCustom(Node& node, Emitter& emitter, std::vector<Tensor>& grads,
                            const std::vector<bool>& is_source) {
  std::vector<Tensor> given;
  for (const Saved& s : node.out) {
    if (s.slot < 0)
      given.emplace_back();
    else
      given.push_back(grads[s.slot].defined() ? emitter.Cast(grads[s.slot], s.type.dtype) : emitter.Full(0, s.type));
    if (s.slot >= 0 && !is_source[s.slot]) grads[s.slot] = Tensor();
  }
  std::vector<bool> wants;
  for (const Saved& s : node.in) wants.push_back(s.slot >= 0);
  const std::vector<Tensor> results = (*node.backward)(given, wants);
  if (results.size() != node.in.size()) {
    Throw(InvalidArgument(NameOf(node), ": its backward function gave ", results.size(), " gradients for ",
                          node.in.size(), " inputs; give one for each, or an empty handle"));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!wants[i] || !results[i].defined()) continue;
    const TensorType& g = *results[i].waiting_impl();
    if (!g.SameDims(node.in[i].type) || !IsFloat(g.dtype)) {
      Throw(InvalidArgument(NameOf(node), ": its backward function gave ", ToString(g), " for input ", i, ", ",
                            ToString(node.in[i].type), "; a gradient has the dims of its input and a floating type"));
    }
    Tensor& sum = grads[node.in[i].slot];
    emitter.SetSite(kSumSites + 4 * i);
    Tensor total = sum.defined() ? emitter.Add(sum, results[i]) : results[i];
    grads[node.in[i].slot] = std::move(total);
  }
}

}  // namespace tessera::api
