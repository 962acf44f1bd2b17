#include "lang/eval_machine.h"

#include <algorithm>
#include <chrono>

#include "interp/api/eager.h"
#include "interp/dispatch.h"
#include "lang/eval.h"
#include "lang/text.h"
#include "tessera/ops.h"

namespace tessera::lang {
namespace {

// Room for an operand that is a host number.
union NumberRoom {
  interp::ScalarView view;
  NumberRoom() {}
  ~NumberRoom() {}
};

}  // namespace

EagerMachine::EagerMachine(EvalHost& host) : Machine(host.ast(), host.diagnostics()), host_(host) {}

bool EagerMachine::Fail(const absl::Status& status, Span span, Diag id) {
  if (absl::IsCancelled(status)) {
    diagnostics.Report(Diag::eval_interrupted, span);
  } else {
    diagnostics.Report(id, span, std::string(status.message()));
  }
  return false;
}

// With what each operand was, where that is to be seen in the text.
bool EagerMachine::OpFailed(const absl::Status& status, absl::Span<const Val> in, const Expr& at) {
  if (absl::IsCancelled(status)) return Fail(status, at.span);
  std::string message(status.message());
  // Tier 1 says where the op stands, in the same words each time; the diagnostic says it better.
  const interp::Source& source = SourceOf(at);
  const std::string_view file = source.file;
  const std::string where = Cat(" (at ", file.substr(file.rfind('/') + 1), ":", source.line, ")");
  if (message.ends_with(where)) message.resize(message.size() - where.size());
  Diagnostic& d = diagnostics.Report(Diag::op_error, at.span, message);
  const auto note = [&](size_t operand, const Expr& e) {
    if (operand < in.size() && in[operand].tensor())
      Diagnostics::Note(d, Diag::note_value, e.span, DescribeVal(*this, in[operand]));
  };
  if (at.kind == ExprKind::binary) {
    d.span = As<BinaryExpr>(at).op_span;
    note(0, *As<BinaryExpr>(at).left);
    note(1, *As<BinaryExpr>(at).right);
  } else if (at.kind == ExprKind::call) {
    const auto& call = As<CallExpr>(at);
    // Arguments by their place are operands in order; a method's object is the first of them.
    size_t operand = 0;
    if (call.callee->kind == ExprKind::attribute && in.size() > call.args.size())
      note(operand++, *As<AttributeExpr>(*call.callee).object);
    for (const Argument& a : call.args) {
      if (a.name.id != 0) break;
      note(operand++, *a.value);
    }
  }
  return false;
}

const interp::Source& EagerMachine::SourceOf(const Expr& e) {
  interp::Source& source = sources_[&e];
  if (source.file == nullptr) {
    const Position at = host_.sources().PositionOf(e.span.begin);
    source = {InternFileName(at.file == nullptr ? "" : at.file->name()), at.line, at.column};
  }
  return source;
}

Val EagerMachine::In(const Value& value) {
  if (const Tensor* x = value.tensor()) {
    tensors_.push_back(*x);
    return Val::Tensor(static_cast<int32_t>(tensors_.size() - 1));
  }
  if (const auto* b = value.As<bool>()) return Val::Boolean(*b);
  if (const auto* i = value.As<int64_t>()) return Val::Integer(*i);
  if (const auto* d = value.As<double>()) return Val::Floating(*d);
  if (const std::string* s = value.string()) {
    kept_.push_back(value);
    return Val::String(*s);
  }
  if (const auto* d = value.As<DType>()) return Val::OfDType(*d);
  if (const Items* items = value.items()) {
    Vals vals;
    vals.reserve(items->values.size());
    for (const Value& v : items->values) vals.push_back(In(v));
    return Val::Tuple(std::move(vals), items->is_list);
  }
  if (const auto* r = value.As<Range>()) {
    Val v = Val::Of(Val::Kind::range);
    v.items = std::make_shared<const Vals>(Vals{Val::Integer(r->start), Val::Integer(r->stop), Val::Integer(r->step)});
    return v;
  }
  if (const auto* f = value.As<FunctionValue>()) {
    Val v = Val::Of(Val::Kind::function);
    v.def = f->def, v.scope = f->scope;
    return v;
  }
  if (const auto* m = value.As<ModuleScope*>()) {
    Val v = Val::Of(Val::Kind::module);
    v.scope = *m;
    return v;
  }
  if (const auto* b = value.As<BuiltinValue>()) {
    Val v = Val::Of(Val::Kind::builtin);
    v.builtin = b->builtin;
    if (b->self != nullptr) v.items = std::make_shared<const Vals>(Vals{In(*b->self)});
    return v;
  }
  return value.is_none() ? Val::None() : Val::Of(Val::Kind::ellipsis);
}

bool EagerMachine::Out(const Val& val, Value* out) {
  switch (val.kind) {
    case Val::Kind::poison:
    case Val::Kind::undefined:
    case Val::Kind::host: return false;
    case Val::Kind::none: *out = Value(); break;
    case Val::Kind::boolean: *out = Value(val.integer != 0); break;
    case Val::Kind::integer:
    case Val::Kind::dim: *out = Value(val.integer); break;
    case Val::Kind::floating: *out = Value(val.floating); break;
    case Val::Kind::tensor: *out = Value(tensors_[static_cast<size_t>(val.id)]); break;
    case Val::Kind::string: *out = Value::String(std::string(val.text)); break;
    case Val::Kind::dtype: *out = Value(val.dtype); break;
    case Val::Kind::tuple: {
      std::vector<Value> values(val.items->size());
      for (size_t i = 0; i < values.size(); ++i)
        if (!Out((*val.items)[i], &values[i])) return false;
      *out = Value::Tuple(std::move(values), val.is_list);
      break;
    }
    case Val::Kind::ellipsis: *out = Value(Ellipsis()); break;
    case Val::Kind::range: {
      const Vals& r = *val.items;
      *out = Value(Range{r[0].integer, r[1].integer, r[2].integer});
      break;
    }
    // Every scope of a session is a ModuleScope.
    case Val::Kind::function:
      *out = Value(FunctionValue{val.def, const_cast<ModuleScope*>(static_cast<const ModuleScope*>(val.scope))});
      break;
    case Val::Kind::module: *out = Value(const_cast<ModuleScope*>(static_cast<const ModuleScope*>(val.scope))); break;
    case Val::Kind::builtin: {
      BuiltinValue b{val.builtin, nullptr};
      if (val.items != nullptr && !val.items->empty()) {
        Value self;
        if (!Out((*val.items)[0], &self)) return false;
        b.self = std::make_shared<const Value>(std::move(self));
      }
      *out = Value(std::move(b));
      break;
    }
  }
  return true;
}

const TensorType& EagerMachine::TypeOf(const Val& tensor) {
  return *tensors_[static_cast<size_t>(tensor.id)].waiting_impl();
}

bool EagerMachine::Emit(ir::Op op, absl::Span<const Val> in, std::vector<ir::Attr> attrs, const Expr& at, Vals* out) {
  if (failed_) return false;
  absl::InlinedVector<const View*, 4> views;
  absl::InlinedVector<NumberRoom, 4> rooms(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const Val& v = in[i];
    switch (v.kind) {
      case Val::Kind::tensor: views.push_back(tensors_[static_cast<size_t>(v.id)].waiting_impl()); break;
      case Val::Kind::boolean: views.push_back(new (&rooms[i].view) interp::ScalarView(v.integer != 0)); break;
      case Val::Kind::integer: views.push_back(new (&rooms[i].view) interp::ScalarView(v.integer)); break;
      case Val::Kind::floating: views.push_back(new (&rooms[i].view) interp::ScalarView(v.floating)); break;
      default: views.push_back(nullptr);  // left out
    }
  }
  while (!views.empty() && views.back() == nullptr) views.pop_back();
  const int results = ir::NumResults(ir::Info(op), attrs);
  if (results > interp::kMaxResults)
    return Fail(ResourceExhausted("more than ", interp::kMaxResults, " results"), at.span);
  rt::TensorImpl* made[interp::kMaxResults];
  // The ops of one node are told apart by the bytes of its address.
  const char* site = reinterpret_cast<const char*>(&at) + (step_++ % static_cast<int>(sizeof(Expr)));
  const absl::Status status = api::RunAt(op, views, attrs, {made, static_cast<size_t>(results)}, site, SourceOf(at));
  if (!status.ok()) {
    failed_ = true;
    return OpFailed(status, in, at);
  }
  out->clear();
  for (int i = 0; i < results; ++i) {
    tensors_.push_back(Tensor::Adopt(made[i]));
    out->push_back(Val::Tensor(static_cast<int32_t>(tensors_.size() - 1)));
  }
  return true;
}

bool EagerMachine::Random(int64_t count, int64_t* seed, int64_t* offset, const Expr&) {
  const api::RandomPosition position = api::TakeRandom(static_cast<uint64_t>(std::max<int64_t>(count, 0)));
  *seed = position.seed, *offset = position.offset;
  return true;
}

bool EagerMachine::Print(absl::Span<const Val> args, std::string_view label, const Expr& at) {
  std::string line = label.empty() ? "" : Cat(label, ": ");
  for (size_t i = 0; i < args.size(); ++i) {
    Value value;
    if (!Out(args[i], &value)) return false;
    auto text = Format(value, false);
    if (!text.ok()) return Fail(text.status(), at.span);
    // A tensor of several rows begins a line of its own.
    const bool tall = text->find('\n') != std::string::npos;
    if (i > 0) line += tall ? "\n" : " ";
    line += *text;
  }
  host_.Print(line);
  return true;
}

Val EagerMachine::Item(const Val& tensor, const Expr& at) {
  auto item = lang::Item(tensors_[static_cast<size_t>(tensor.id)]);
  if (item.ok()) return In(*item);
  Fail(item.status(), at.span);
  return Val::Poison();
}

bool EagerMachine::Places(const Val& mask, const Expr& at, Val* out) {
  const auto places = [&]() -> absl::StatusOr<Tensor> {
    rt::TensorImpl& impl = *tensors_[static_cast<size_t>(mask.id)].waiting_impl();
    TSR_RETURN_IF_ERROR(rt::Ready(impl));
    if (!impl.device().executes())
      return InvalidArgument("tensors of device ", std::string(impl.device().name()), " have no values");
    TSR_ASSIGN_OR_RETURN(const rt::Ref<rt::TensorImpl> here, interp::OnHost(impl));
    // Bytes in the order of the elements, whatever the mask's strides were.
    TSR_ASSIGN_OR_RETURN(const rt::Ref<rt::TensorImpl> bytes, interp::Cast(*here, here->device(), DType::u8));
    const auto* data = static_cast<const uint8_t*>(bytes->data);
    const int64_t n = bytes->size();
    TensorType type;
    type.dtype = DType::i64;
    type.rank = 1;
    type.dims[0] = std::count(data, data + n, 1);
    TSR_ASSIGN_OR_RETURN(const rt::Ref<rt::TensorImpl> ids, rt::TensorImpl::Make(rt::Cpu(), type));
    int64_t* to = ids->as<int64_t>();
    for (int64_t i = 0; i < n; ++i)
      if (data[i] != 0) *to++ = i;
    TSR_ASSIGN_OR_RETURN(rt::Ref<rt::TensorImpl> moved, interp::Cast(*ids, impl.device(), DType::i64));
    return api::Wrap(std::move(moved));
  }();
  if (!places.ok()) return Fail(places.status(), at.span);
  tensors_.push_back(*places);
  *out = Val::Tensor(static_cast<int32_t>(tensors_.size() - 1));
  return true;
}

Val EagerMachine::MemberOf(const Val& module, Name name, const Expr& at) {
  const auto& scope = static_cast<const ModuleScope&>(*module.scope);
  if (const Value* value = scope.Find(name)) return In(*value);
  Diagnostic& d = diagnostics.Report(Diag::eval_import_name, at.span, scope.name, ast.Text(name));
  std::vector<std::string_view> names;
  scope.Names(&names);
  d.hint = DidYouMean(ast.Text(name), names);
  return Val::Poison();
}

Val EagerMachine::CallHost(const Builtin& builtin, absl::Span<const Val> args, const Expr& at) {
  switch (builtin.id) {
    case BuiltinId::b_seed: {
      int64_t n = 0;
      if (args.empty()) break;
      if (!ToInt(*this, args[0], "a seed", at, &n)) return Val::Poison();
      manual_seed(static_cast<uint64_t>(n));
      break;
    }
    default: break;
  }
  return Val::None();
}

}  // namespace tessera::lang
