#include "lang/eval_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "interp/api/eager.h"
#include "interp/dispatch.h"
#include "interp/format.h"
#include "lang/builtins.h"
#include "lang/eval_scope.h"

namespace tessera::lang {

int64_t Range::size() const {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const auto distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                 : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t width = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  return static_cast<int64_t>((distance - 1) / width + 1);
}

Value Value::Tuple(std::vector<Value> values, bool is_list) {
  int depth = 1;
  auto total = static_cast<int64_t>(values.size());
  for (const Value& v : values) {
    if (const Items* inner = v.items()) {
      depth = std::max(depth, inner->depth + 1);
      total += inner->total;
    }
  }
  return Value(std::make_shared<const Items>(Items{std::move(values), is_list, depth, total}));
}

const std::string* Value::string() const {
  const auto* s = As<std::shared_ptr<const std::string>>();
  return s == nullptr ? nullptr : s->get();
}
const Items* Value::items() const {
  const auto* s = As<std::shared_ptr<const Items>>();
  return s == nullptr ? nullptr : s->get();
}

std::string Value::Describe() const {
  struct Visitor {
    std::string operator()(None) const { return "None"; }
    std::string operator()(bool) const { return "a bool"; }
    std::string operator()(int64_t) const { return "an int"; }
    std::string operator()(double) const { return "a float"; }
    std::string operator()(const std::shared_ptr<const std::string>&) const { return "a string"; }
    std::string operator()(const std::shared_ptr<const Items>& t) const {
      return absl::StrCat(t->is_list ? "a list of " : "a tuple of ", t->values.size());
    }
    std::string operator()(const Tensor& x) const {
      return absl::StrCat("a tensor ", ToString(static_cast<const TensorType&>(*x.waiting_impl())));
    }
    std::string operator()(DType d) const { return absl::StrCat("the dtype ", std::string(tessera::Name(d))); }
    std::string operator()(const FunctionValue&) const { return "a function"; }
    std::string operator()(const BuiltinValue& b) const {
      return absl::StrCat("the function ", std::string(b.builtin->name));
    }
    std::string operator()(const Range&) const { return "a range"; }
    std::string operator()(ModuleScope*) const { return "a module"; }
    std::string operator()(Ellipsis) const { return "`...`"; }
  };
  return std::visit(Visitor(), holder_);
}

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[40];
  const double size = std::fabs(value);
  const auto form =
      size != 0 && (size < 1e-4 || size >= 1e16) ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(text, text + sizeof text, value, form);
  std::string s(text, end.ptr);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

namespace {

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      default: out += c;
    }
  }
  return out + "\"";
}

absl::Status AppendValue(const Value& value, bool repr, int depth, std::string* out) {
  constexpr int kDeepest = 100;
  constexpr size_t kMostShown = 1000;
  if (depth > kDeepest) {
    *out += "...";
    return absl::OkStatus();
  }
  if (const auto* b = value.As<bool>()) {
    *out += *b ? "True" : "False";
  } else if (const auto* i = value.As<int64_t>()) {
    absl::StrAppend(out, *i);
  } else if (const auto* d = value.As<double>()) {
    *out += FormatFloat(*d);
  } else if (const auto* s = value.string()) {
    *out += repr ? Quote(*s) : *s;
  } else if (const Items* t = value.items()) {
    *out += t->is_list ? '[' : '(';
    for (size_t k = 0; k < t->values.size(); ++k) {
      if (k > 0) *out += ", ";
      if (k == kMostShown) {
        absl::StrAppend(out, "... and ", t->values.size() - k, " more");
        break;
      }
      TSR_RETURN_IF_ERROR(AppendValue(t->values[k], true, depth + 1, out));
    }
    if (t->values.size() == 1 && !t->is_list) *out += ',';
    *out += t->is_list ? ']' : ')';
  } else if (const Tensor* x = value.tensor()) {
    TSR_RETURN_IF_ERROR(rt::Ready(*x->waiting_impl()));
    TSR_ASSIGN_OR_RETURN(const std::string text, interp::Format(*x->waiting_impl()));
    *out += text;
  } else if (const auto* d = value.As<DType>()) {
    *out += tessera::Name(*d);
  } else if (const auto* r = value.As<Range>()) {
    absl::StrAppend(out, "range(", r->start, ", ", r->stop, r->step == 1 ? "" : absl::StrCat(", ", r->step), ")");
  } else if (const auto* f = value.As<FunctionValue>()) {
    absl::StrAppend(out, "<function ", std::string(f->scope->NameOf(*f->def)), ">");
  } else if (const auto* b = value.As<BuiltinValue>()) {
    absl::StrAppend(out, "<built-in ", std::string(b->builtin->name), ">");
  } else if (const auto* m = value.As<ModuleScope*>()) {
    absl::StrAppend(out, "<module ", (*m)->name, ">");
  } else {
    *out += value.is_none() ? "None" : "...";
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> Format(const Value& value, bool repr) {
  std::string out;
  TSR_RETURN_IF_ERROR(AppendValue(value, repr, 0, &out));
  return out;
}

absl::StatusOr<Value> Item(const Tensor& x) {
  rt::TensorImpl& impl = *x.waiting_impl();
  if (impl.size() != 1)
    return InvalidArgument("a tensor ", ToString(static_cast<const TensorType&>(impl)), " has ", impl.size(),
                           " elements, and is no single number");
  TSR_RETURN_IF_ERROR(rt::Ready(impl));
  if (!impl.device().executes())
    return InvalidArgument("tensors of device ", std::string(impl.device().name()), " have no values");
  TSR_ASSIGN_OR_RETURN(const rt::Ref<rt::TensorImpl> here, interp::OnHost(impl));
  const DType wide = IsFloat(impl.dtype) ? DType::f64 : IsInt(impl.dtype) ? DType::i64 : DType::boolean;
  TSR_ASSIGN_OR_RETURN(const rt::Ref<rt::TensorImpl> number, interp::Cast(*here, here->device(), wide));
  if (wide == DType::f64) return Value(*number->as<double>());
  if (wide == DType::i64) return Value(*number->as<int64_t>());
  return Value(*number->as<bool>());
}

absl::StatusOr<bool> Truth(const Value& value) {
  if (const auto* b = value.As<bool>()) return *b;
  if (const auto* i = value.As<int64_t>()) return *i != 0;
  if (const auto* d = value.As<double>()) return *d != 0;
  if (const auto* s = value.string()) return !s->empty();
  if (const Items* t = value.items()) return !t->values.empty();
  if (const auto* r = value.As<Range>()) return r->size() > 0;
  if (value.is_none()) return false;
  if (const Tensor* x = value.tensor()) {
    TSR_ASSIGN_OR_RETURN(const Value item, Item(*x));
    return Truth(item);
  }
  return true;
}

}  // namespace tessera::lang
