// Calls of functions from the top level: values to the arguments of their Graph IR, and results back to values.
#include <charconv>

#include "absl/container/inlined_vector.h"
#include "interp/api/eager.h"
#include "interp/dispatch.h"
#include "interp/interpreter.h"
#include "lang/session.h"
#include "lang/text.h"

namespace tessera {

using lang::Diag;
using lang::Instance;
using lang::ModuleScope;
using lang::ParamSource;
using lang::Value;

namespace {

// A host number as a tensor of rank 0.
absl::StatusOr<Tensor> NumberTensor(const Value& value, DType dtype, rt::Device& device) {
  const auto make = [&](const interp::ScalarView& number) -> absl::StatusOr<Tensor> {
    TSR_ASSIGN_OR_RETURN(rt::Ref<rt::TensorImpl> x, interp::Cast(number, device, dtype));
    return api::Wrap(std::move(x));
  };
  if (const auto* b = value.As<bool>()) return make(interp::ScalarView(*b));
  if (const auto* i = value.As<int64_t>()) return make(interp::ScalarView(*i));
  if (const auto* d = value.As<double>()) return make(interp::ScalarView(*d));
  return InvalidArgument("expected a number, got ", value.Describe());
}

Value FromDesc(const lang::Desc& d) {
  using Kind = lang::Desc::Kind;
  switch (d.kind) {
    case Kind::integer: return Value(d.integer);
    case Kind::floating: return Value(d.floating);
    case Kind::boolean: return Value(d.integer != 0);
    case Kind::string: return Value::String(d.text);
    case Kind::dtype: return Value(d.dtype);
    case Kind::tuple: {
      std::vector<Value> items;
      for (const lang::Desc& item : d.items) items.push_back(FromDesc(item));
      return Value::Tuple(std::move(items));
    }
    case Kind::function:
      return Value(lang::FunctionValue{d.def, const_cast<ModuleScope*>(static_cast<const ModuleScope*>(d.scope))});
    case Kind::module: return Value(const_cast<ModuleScope*>(static_cast<const ModuleScope*>(d.scope)));
    case Kind::builtin: return Value(lang::BuiltinValue{lang::FindBuiltin(d.text), nullptr});
    default: return Value();
  }
}

}  // namespace

bool SessionImpl::Arguments(const Instance& instance, const lang::FunctionValue& function,
                            const std::vector<int>& order, const std::vector<Value>& args, std::vector<Tensor>* out,
                            lang::Span span) {
  const lang::Name name = function.def->name;
  rt::Device* device = nullptr;
  std::vector<std::pair<size_t, const ParamSource*>> numbers;
  std::vector<Value> number_values;
  for (const ParamSource& p : instance.params) {
    Value value;
    if (p.kind == ParamSource::Kind::global) {
      const Value* found = static_cast<const ModuleScope*>(p.scope)->Find(p.name);
      if (found != nullptr) value = *found;
    } else if (const int arg = order[static_cast<size_t>(p.param)]; arg >= 0) {
      value = args[static_cast<size_t>(arg)];
    } else if (const lang::Expr* otherwise = function.def->params[static_cast<size_t>(p.param)].default_value) {
      if (!lang::Evaluator(*this, *function.scope).Evaluate(*otherwise, &value)) return false;
    }
    for (int i : p.path) {
      const lang::Items* items = value.items();
      if (items == nullptr || static_cast<size_t>(i) >= items->values.size()) break;
      value = Value(items->values[static_cast<size_t>(i)]);
    }
    if (p.is_number) {
      numbers.emplace_back(out->size(), &p);
      number_values.push_back(std::move(value));
      out->emplace_back();
      continue;
    }
    const Tensor* x = value.tensor();
    if (x == nullptr) {
      diagnostics_.Report(Diag::eval_function, span,
                          lang::Cat("an argument of ", ast_.Text(function.def->name), " is ", value.Describe(),
                                    " where it was compiled for a tensor"));
      return false;
    }
    if (const absl::Status status = rt::Ready(*x->waiting_impl()); !status.ok())
      return FunctionFailed(status, span, name);
    if (device == nullptr) device = &x->waiting_impl()->device();
    out->push_back(*x);
  }
  // Numbers go where the tensors are.
  for (size_t k = 0; k < numbers.size(); ++k) {
    auto x =
        NumberTensor(number_values[k], numbers[k].second->dtype, device == nullptr ? api::DefaultDevice() : *device);
    if (!x.ok()) return FunctionFailed(x.status(), span, name);
    (*out)[numbers[k].first] = *std::move(x);
  }
  return true;
}

const Instance* SessionImpl::InstanceFor(const lang::FunctionValue& function, const std::vector<Value>& args,
                                         lang::Span span) {
  std::vector<lang::Desc> descs;
  for (const Value& v : args) descs.push_back(Describe(v));
  descs.resize(function.def->params.size());
  return instances_->Get(*function.def, *function.scope, descs, span, diagnostics_);
}

Result<Function> SessionImpl::FunctionFor(std::string_view name, const std::vector<Tensor>& args) {
  const Value* value = Find(name);
  if (value == nullptr) return tessera::ToPublic(NotFound("there is no ", std::string(name)));
  const auto* function = value->As<lang::FunctionValue>();
  if (function == nullptr)
    return tessera::ToPublic(InvalidArgument(std::string(name), " is ", value->Describe(), ", not a function"));
  if (args.size() > function->def->params.size())
    return tessera::ToPublic(
        InvalidArgument(std::string(name), " takes ", function->def->params.size(), " arguments, not ", args.size()));
  std::vector<Value> values;
  for (const Tensor& x : args) {
    if (!x.defined()) return tessera::ToPublic(InvalidArgument(std::string(name), ": a Tensor handle is empty"));
    values.push_back(Value(x));
  }
  diagnostics_.Clear();
  const Instance* instance = InstanceFor(*function, values, function->def->header);
  const std::vector<lang::Diagnostic> said = diagnostics_.Take();
  if (instance == nullptr) return Status(Code::invalid_argument, Render(said, false));
  return HandleOf(*instance);
}

bool SessionImpl::Call(const lang::FunctionValue& function, const lang::CallExpr& call, std::vector<Value>& args,
                       Value* out) {
  const lang::Name name = function.def->name;
  std::vector<int> order;
  if (!lang::BindArguments(*function.def, call, ast_, diagnostics_, &order)) return false;
  std::vector<lang::Desc> descs(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i] >= 0) descs[i] = Describe(args[static_cast<size_t>(order[i])]);
  const Instance* instance = instances_->Get(*function.def, *function.scope, descs, call.span, diagnostics_);
  if (instance == nullptr) return false;
  std::vector<Tensor> inputs;
  if (!Arguments(*instance, function, order, args, &inputs, call.span)) return false;
  interp::Instance& run = *instance->state->instance;
  if (!run.on_host_read) {
    run.on_host_read = [this](std::string_view label, rt::Ref<rt::TensorImpl>) {
      if (label.starts_with(lang::kPrintLabel)) {
        Print(label.substr(lang::kPrintLabel.size()));
      } else if (label.starts_with(lang::kAssertLabel) && failed_assert_.empty()) {
        failed_assert_ = std::string(label.substr(lang::kAssertLabel.size()));
      }
    };
  }
  absl::InlinedVector<rt::TensorImpl*, 8> impls;
  for (const Tensor& x : inputs) impls.push_back(x.waiting_impl());
  failed_assert_.clear();
  interp::Results results;
  const absl::Status status = interp::Call(run, instance->function, impls, api::DefaultDevice(), &results);
  if (!failed_assert_.empty()) return FunctionFailed(absl::FailedPreconditionError(failed_assert_), call.span, name);
  if (!status.ok()) return FunctionFailed(status, call.span, name);
  std::vector<Tensor> tensors;
  for (rt::Ref<rt::TensorImpl>& r : results) tensors.push_back(api::Wrap(std::move(r)));
  return Convert(instance->result, tensors, call.span, name, out);
}

bool SessionImpl::Convert(const lang::ResultTree& tree, const std::vector<Tensor>& results, lang::Span span,
                          lang::Name name, Value* out) {
  switch (tree.kind) {
    case lang::ResultTree::Kind::tensor: *out = Value(results[static_cast<size_t>(tree.index)]); return true;
    case lang::ResultTree::Kind::number: {
      auto item = lang::Item(results[static_cast<size_t>(tree.index)]);
      if (!item.ok()) return FunctionFailed(item.status(), span, name);
      *out = *std::move(item);
      return true;
    }
    case lang::ResultTree::Kind::tuple: {
      std::vector<Value> values(tree.items.size());
      for (size_t i = 0; i < values.size(); ++i)
        if (!Convert(tree.items[i], results, span, name, &values[i])) return false;
      *out = Value::Tuple(std::move(values), tree.value.integer == 1);
      return true;
    }
    case lang::ResultTree::Kind::known: *out = FromDesc(tree.value); return true;
  }
  return false;
}

// A message that begins with "FILE:LINE:COLUMN: " is shown at that place, with the call in a note.
bool SessionImpl::FunctionFailed(const absl::Status& status, lang::Span call, lang::Name name) {
  if (absl::IsCancelled(status)) {
    diagnostics_.Report(Diag::eval_interrupted, call);
    return false;
  }
  const std::string message(status.message());
  for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
    const std::string prefix = (*file)->name() + ":";
    if (!message.starts_with(prefix)) continue;
    const char *at = message.data() + prefix.size(), *end = message.data() + message.size();
    int line = 0, column = 0;
    const auto l = std::from_chars(at, end, line);
    if (l.ec != std::errc() || l.ptr == end || *l.ptr != ':') continue;
    const auto c = std::from_chars(l.ptr + 1, end, column);
    if (c.ec != std::errc() || end - c.ptr < 2 || *c.ptr != ':') continue;
    const std::string_view text = (*file)->text();
    size_t offset = 0;
    for (int k = 1; k < line && offset != std::string_view::npos; ++k) {
      offset = text.find('\n', offset);
      if (offset != std::string_view::npos) ++offset;
    }
    if (offset == std::string_view::npos || line < 1 || column < 1) continue;
    offset = std::min(offset + static_cast<size_t>(column) - 1, text.size());
    const auto begin = static_cast<uint32_t>((*file)->base() + offset);
    const bool assertion = absl::IsFailedPrecondition(status);
    const std::string rest = message.substr(static_cast<size_t>(c.ptr + 2 - message.data()));
    lang::Diagnostic& d =
        assertion ? diagnostics_.Report(Diag::eval_assert, {begin, begin + 1}, rest.empty() ? "" : ": " + rest)
                  : diagnostics_.Report(Diag::eval_function, {begin, begin + 1}, rest);
    lang::Diagnostics::Note(d, Diag::note_in_call, call, ast_.Text(name));
    return false;
  }
  diagnostics_.Report(Diag::eval_function, call, message);
  return false;
}

}  // namespace tessera
