#include "tessera/c_api.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "interp/api/eager.h"
#include "interp/api/module_state.h"
#include "interp/cpu/strided.h"
#include "interp/format.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "tessera/autodiff.h"
#include "tessera/function.h"
#include "tessera/ops.h"
#include "tessera/runtime.h"

// A tsr_tensor is a TensorImpl; the type only exists on the C side.
struct tsr_module {
  tessera::Module module;
};

namespace tessera {
namespace {

using rt::Ref;
using rt::TensorImpl;

static_assert(static_cast<int>(Code::cancelled) == TSR_CANCELLED &&
              static_cast<int>(Code::out_of_range) == TSR_OUT_OF_RANGE);
static_assert(static_cast<int>(DType::boolean) == TSR_BOOL && kNumDTypes == TSR_BOOL + 1 && kMaxRank == TSR_MAX_RANK);

thread_local std::string t_error;

tsr_code Fail(const Status& status) {
  t_error = status.message();
  return static_cast<tsr_code>(status.code());
}
tsr_code Fail(const absl::Status& status) { return Fail(ToPublic(status)); }

// Runs fn, which returns a code; nothing thrown below may cross into C.
template <class Fn>
tsr_code Guard(Fn&& fn) noexcept {
  try {
    return fn();
  } catch (const Error& e) {
    return Fail(e.status());
  } catch (const std::bad_alloc&) {
    return Fail(ResourceExhausted("out of memory"));
  } catch (const std::exception& e) {
    return Fail(Internal(e.what()));
  }
}

TensorImpl* Impl(const tsr_tensor* x) { return reinterpret_cast<TensorImpl*>(const_cast<tsr_tensor*>(x)); }
tsr_tensor* Handle(TensorImpl* x) { return reinterpret_cast<tsr_tensor*>(x); }

// Our copy of a caller's struct, whatever its size.
template <class T>
absl::StatusOr<T> Take(const T* given, const char* name) {
  T ours{};
  if (given == nullptr || given->size < sizeof(size_t))
    return InvalidArgument("a ", name, " without its size; use TSR_INIT");
  std::memcpy(&ours, given, std::min(given->size, sizeof(T)));
  return ours;
}
// Fills a caller's struct with as much of ours as it has room for; its size stays.
template <class T>
absl::Status Give(T ours, T* wanted, const char* name) {
  if (wanted == nullptr || wanted->size < sizeof(size_t))
    return InvalidArgument("a ", name, " without its size; use TSR_INIT");
  ours.size = wanted->size;
  std::memcpy(wanted, &ours, std::min(wanted->size, sizeof(T)));
  return absl::OkStatus();
}
template <class T>
const T* ElementAt(const T* array, size_t i) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(array) + i * array->size);
}

tsr_code GiveText(std::string_view text, char* out, size_t capacity, size_t* needed) {
  if (needed != nullptr) *needed = text.size() + 1;
  if (out != nullptr && capacity > 0) {
    const size_t n = std::min(capacity - 1, text.size());
    std::memcpy(out, text.data(), n);
    out[n] = '\0';
  }
  return TSR_OK;
}

template <class Results>
tsr_code GiveResults(Results& results, tsr_tensor** out, size_t* num) {
  if (*num < results.size()) {
    return Fail(InvalidArgument("there are ", results.size(), " results and room for ", *num));
  }
  *num = results.size();
  for (size_t i = 0; i < results.size(); ++i) out[i] = Handle(results[i].release());
  return TSR_OK;
}

absl::StatusOr<ir::Attr> ToAttr(const tsr_attr& a) {
  switch (a.kind) {
    case TSR_ATTR_BOOL: return ir::Attr(a.integer != 0);
    case TSR_ATTR_INT: return ir::Attr(a.integer);
    case TSR_ATTR_FLOAT: return ir::Attr(a.floating);
    case TSR_ATTR_DTYPE:
      if (a.integer < 0 || a.integer >= kNumDTypes)
        return InvalidArgument("attribute ", a.name, ": no dtype ", a.integer);
      return ir::Attr(static_cast<DType>(a.integer));
    case TSR_ATTR_INTS:
      if (a.num_ints > 0 && a.ints == nullptr) return InvalidArgument("attribute ", a.name, ": ints is null");
      for (size_t i = 0; i < a.num_ints; ++i) {
        if (ir::IsSymbol(a.ints[i])) return InvalidArgument("attribute ", a.name, ": ", a.ints[i], " is out of range");
      }
      return ir::Attr(ir::Ints(a.ints, a.ints + a.num_ints));
    case TSR_ATTR_STR:
      if (a.str == nullptr) return InvalidArgument("attribute ", a.name, ": str is null");
      return ir::Attr(std::string(a.str));
    case TSR_ATTR_TENSOR:
      if (a.tensor == nullptr) return InvalidArgument("attribute ", a.name, ": tensor is null");
      TSR_RETURN_IF_ERROR(rt::Ready(*Impl(a.tensor)));
      return ir::Attr(Ref<TensorImpl>::Share(Impl(a.tensor)));
  }
  return InvalidArgument("attribute ", a.name, ": no attribute kind ", a.kind);
}

absl::StatusOr<std::vector<ir::Attr>> ToAttrs(const ir::OpInfo& op, const tsr_attr* attrs, size_t n) {
  std::vector<ir::Attr> list(op.attrs.size());
  for (size_t i = 0; i < n; ++i) {
    TSR_ASSIGN_OR_RETURN(const tsr_attr a, Take(ElementAt(attrs, i), "tsr_attr"));
    const int at = a.name == nullptr ? -1 : ir::FindAttr(op, a.name);
    if (at < 0) {
      std::vector<std::string_view> names;
      for (const ir::AttrSpec& spec : op.attrs) names.push_back(spec.name);
      const std::string near = a.name == nullptr ? "" : ir::DidYouMean(a.name, names);
      return InvalidArgument(std::string(op.name), ": there is no attribute ", a.name == nullptr ? "(null)" : a.name,
                             near.empty() ? "" : absl::StrCat("; did you mean ", near, "?"));
    }
    TSR_ASSIGN_OR_RETURN(list[at], ToAttr(a));
  }
  TSR_RETURN_IF_ERROR(ir::CompleteAttrs(op, absl::MakeSpan(list)));
  return list;
}

tsr_code RunOp(const char* name, const tsr_operand* operands, size_t num_operands, const tsr_attr* attrs,
               size_t num_attrs, tsr_tensor** results, size_t* num_results) {
  auto found = name == nullptr ? std::nullopt : ir::FindOp(name);
  if (!found) {
    std::vector<std::string_view> names;
    for (const ir::OpInfo& op : ir::AllOps()) names.push_back(op.name);
    const std::string near = name == nullptr ? "" : ir::DidYouMean(name, names);
    return Fail(NotFound("there is no op ", name == nullptr ? "(null)" : name,
                         near.empty() ? "" : absl::StrCat("; did you mean ", near, "?")));
  }
  const ir::OpInfo& op = ir::Info(*found);
  if (op.impl == ir::Impl::control || op.impl == ir::Impl::host) {
    return Fail(Unsupported(name, " is for functions; it cannot be run by itself"));
  }
  auto list = ToAttrs(op, attrs, num_attrs);
  if (!list.ok()) return Fail(list.status());
  std::vector<Arg> args;
  std::vector<Tensor> tensors;
  args.reserve(num_operands);
  tensors.reserve(num_operands);
  const std::source_location nowhere{};
  for (size_t i = 0; i < num_operands; ++i) {
    auto o = Take(ElementAt(operands, i), "tsr_operand");
    if (!o.ok()) return Fail(o.status());
    switch (o->kind) {
      case TSR_NONE: args.emplace_back(nowhere); break;
      case TSR_BOOLEAN: args.emplace_back(o->integer != 0, nowhere); break;
      case TSR_INTEGER: args.emplace_back(o->integer, nowhere); break;
      case TSR_FLOATING: args.emplace_back(o->floating, nowhere); break;
      case TSR_TENSOR:
        if (o->tensor == nullptr) return Fail(InvalidArgument(name, ": operand ", i, " is a null tensor"));
        Impl(o->tensor)->Retain();
        tensors.push_back(Tensor::Adopt(Impl(o->tensor)));
        args.emplace_back(tensors.back(), nowhere);
        break;
      default: return Fail(InvalidArgument(name, ": operand ", i, " has no kind ", o->kind));
    }
  }
  std::vector<const Arg*> pointers;
  for (const Arg& a : args) pointers.push_back(&a);
  std::vector<Tensor> out = api::RunMany(op.op, pointers, *list, nullptr);
  std::vector<Ref<TensorImpl>> refs;
  for (Tensor& t : out) refs.push_back(Ref<TensorImpl>::Share(t.waiting_impl()));
  return GiveResults(refs, results, num_results);
}

std::string_view ImplName(ir::Impl impl) {
  static constexpr std::string_view kNames[] = {"ew", "kernel", "view", "host", "control"};
  return kNames[static_cast<int>(impl)];
}
std::string_view BoundName(ir::Bound bound) {
  static constexpr std::string_view kNames[] = {"exact", "ulp2", "ulp4", "accum", "dot"};
  return kNames[static_cast<int>(bound)];
}
std::string_view RuleName(ir::DTypeRule rule) {
  static constexpr std::string_view kNames[] = {"promote", "pfloat", "compare", "accum",
                                                "bool",    "index",  "attr",    "custom"};
  return kNames[static_cast<int>(rule)];
}

}  // namespace
}  // namespace tessera

using namespace tessera;  // NOLINT(google-build-using-namespace): the C names below are all of this file's rest

const char* tsr_version(void) { return TESSERA_VERSION; }
const char* tsr_error(void) { return t_error.c_str(); }

tsr_code tsr_tensor_new(tsr_dtype dtype, int32_t rank, const int64_t* dims, const void* data, size_t bytes,
                        tsr_tensor** out) {
  return Guard([&] {
    if (dtype < 0 || dtype >= kNumDTypes) return Fail(InvalidArgument("there is no dtype ", static_cast<int>(dtype)));
    if (rank < 0 || rank > kMaxRank) return Fail(InvalidArgument("rank ", rank, " is outside 0 to ", kMaxRank));
    const Dims list(std::span<const int64_t>(dims, static_cast<size_t>(rank)));
    const Tensor x = Tensor::from_bytes({static_cast<const std::byte*>(data), bytes}, static_cast<DType>(dtype), list);
    x.impl()->Retain();
    *out = Handle(x.impl());
    return TSR_OK;
  });
}

tsr_tensor* tsr_tensor_retain(tsr_tensor* x) {
  if (x != nullptr) Impl(x)->Retain();
  return x;
}

void tsr_tensor_release(tsr_tensor* x) {
  if (x != nullptr) Impl(x)->Release();
}

tsr_code tsr_tensor_get_info(const tsr_tensor* x, tsr_tensor_info* info) {
  return Guard([&] {
    const TensorImpl& t = *Impl(x);
    tsr_tensor_info ours{};
    ours.dtype = static_cast<int32_t>(t.dtype);
    ours.rank = t.rank;
    for (int i = 0; i < t.rank; ++i) {
      ours.dims[i] = t.dims[i];
      ours.strides[i] = t.strides[i];
    }
    ours.elements = t.size();
    ours.device = t.device().name().data();
    const absl::Status status = Give(ours, info, "tsr_tensor_info");
    return status.ok() ? TSR_OK : Fail(status);
  });
}

tsr_code tsr_tensor_read(const tsr_tensor* x, void* data, size_t bytes) {
  return Guard([&] {
    const TensorImpl& t = *Impl(x);
    const size_t want = static_cast<size_t>(t.size()) * SizeOf(t.dtype);
    if (bytes != want) {
      return Fail(InvalidArgument("tsr_tensor_read: ", ToString(static_cast<const TensorType&>(t)), " has ", want,
                                  " bytes, not ", bytes));
    }
    if (!t.device().executes()) {
      return Fail(Unsupported("tsr_tensor_read: device ", std::string(t.device().name()), " holds no values"));
    }
    const absl::Status status = rt::Ready(*Impl(x));
    if (!status.ok()) return Fail(status);
    auto values = interp::OnHost(*Impl(x));
    if (!values.ok()) return Fail(values.status());
    cpu::GatherBlock(**values, 0, t.size(), data);
    return TSR_OK;
  });
}

tsr_code tsr_tensor_text(const tsr_tensor* x, char* text, size_t capacity, size_t* needed) {
  return Guard([&] {
    const absl::Status status = rt::Ready(*Impl(x));
    if (!status.ok()) return Fail(status);
    auto s = interp::Format(*Impl(x));
    return s.ok() ? GiveText(*s, text, capacity, needed) : Fail(s.status());
  });
}

tsr_code tsr_tensor_save_npy(const tsr_tensor* x, const char* path) {
  return Guard([&] {
    Impl(x)->Retain();
    const Status status = save_npy(Tensor::Adopt(Impl(x)), path);
    return status.ok() ? TSR_OK : Fail(status);
  });
}

tsr_code tsr_tensor_load_npy(const char* path, tsr_tensor** out) {
  return Guard([&] {
    Result<Tensor> x = load_npy(path);
    if (!x.ok()) return Fail(x.status());
    x->impl()->Retain();
    *out = Handle(x->impl());
    return TSR_OK;
  });
}

tsr_code tsr_op_run(const char* op, const tsr_operand* operands, size_t num_operands, const tsr_attr* attrs,
                    size_t num_attrs, tsr_tensor** results, size_t* num_results) {
  return Guard([&] { return RunOp(op, operands, num_operands, attrs, num_attrs, results, num_results); });
}

size_t tsr_op_count(void) { return ir::kNumOps; }

tsr_code tsr_op_get_info(size_t index, tsr_op_info* info) {
  return Guard([&] {
    if (index >= ir::kNumOps) return Fail(OutOfRange("there is no op ", index, "; there are ", ir::kNumOps));
    const ir::OpInfo& op = ir::Info(static_cast<ir::Op>(index));
    tsr_op_info ours{};
    ours.name = op.name.data();
    ours.summary = op.summary.data();
    ours.impl = ImplName(op.impl).data();
    ours.bound = BoundName(op.bound).data();
    ours.rule = RuleName(op.rule).data();
    for (int t = 0; t < kNumDTypes; ++t) {
      if (op.dtypes != ir::DTypeSet::s_none && ir::Allows(op.dtypes, static_cast<DType>(t))) ours.dtypes |= 1u << t;
    }
    ours.num_operands = static_cast<int32_t>(op.operands.size());
    const absl::Status status = Give(ours, info, "tsr_op_info");
    return status.ok() ? TSR_OK : Fail(status);
  });
}

tsr_code tsr_module_parse(const char* text, size_t length, const char* file, tsr_module** out) {
  return Guard([&] {
    Result<Module> module = Module::parse({text, length}, file == nullptr ? "" : file);
    if (!module.ok()) return Fail(module.status());
    *out = new tsr_module{*module};
    return TSR_OK;
  });
}

void tsr_module_release(tsr_module* module) { delete module; }

tsr_code tsr_module_call(tsr_module* module, const char* function, tsr_tensor* const* args, size_t num_args,
                         tsr_tensor** results, size_t* num_results) {
  return Guard([&] {
    Result<Function> f = module->module.function(function);
    if (!f.ok()) return Fail(f.status());
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < num_args; ++i) {
      if (args[i] == nullptr) return Fail(InvalidArgument("@", function, ": argument ", i, " is a null tensor"));
      Impl(args[i])->Retain();
      tensors.push_back(Tensor::Adopt(Impl(args[i])));
    }
    std::vector<Ref<TensorImpl>> refs;
    for (const Tensor& t : (*f)(tensors)) refs.push_back(Ref<TensorImpl>::Share(t.impl()));
    return GiveResults(refs, results, num_results);
  });
}

tsr_code tsr_module_differentiate(tsr_module* module, const char* function, tsr_derivative kind, const int32_t* wrt,
                                  size_t num_wrt, tsr_module** out) {
  return Guard([&] {
    Result<Function> f = module->module.function(function);
    if (!f.ok()) return Fail(f.status());
    const std::vector<int> params(wrt, wrt + num_wrt);
    if (kind < TSR_GRAD || kind > TSR_VJP)
      return Fail(InvalidArgument("@", function, ": there is no derivative of kind ", static_cast<int>(kind)));
    Result<Function> made = kind == TSR_GRAD             ? grad(*f, params)
                            : kind == TSR_VALUE_AND_GRAD ? value_and_grad(*f, params)
                                                         : vjp(*f, params);
    if (!made.ok()) return Fail(made.status());
    *out = new tsr_module{made->module()};
    return TSR_OK;
  });
}

tsr_code tsr_module_text(tsr_module* module, char* text, size_t capacity, size_t* needed) {
  return Guard([&] { return GiveText(module->module.to_string(), text, capacity, needed); });
}

tsr_code tsr_module_get_buffer(tsr_module* module, const char* name, tsr_tensor** out) {
  return Guard([&] {
    Result<Tensor> x = module->module.buffer(name);
    if (!x.ok()) return Fail(x.status());
    x->impl()->Retain();
    *out = Handle(x->impl());
    return TSR_OK;
  });
}

tsr_code tsr_module_set_buffer(tsr_module* module, const char* name, const tsr_tensor* value) {
  return Guard([&] {
    Impl(value)->Retain();
    const Status status = module->module.set_buffer(name, Tensor::Adopt(Impl(value)));
    return status.ok() ? TSR_OK : Fail(status);
  });
}

tsr_code tsr_set_option(const char* name, const char* value) {
  return Guard([&] {
    const Status status = Runtime::set_option(name, value);
    return status.ok() ? TSR_OK : Fail(status);
  });
}

tsr_code tsr_get_option(const char* name, char* value, size_t capacity, size_t* needed) {
  return Guard([&] {
    Result<std::string> text = Runtime::option(name);
    return text.ok() ? GiveText(*text, value, capacity, needed) : Fail(text.status());
  });
}

tsr_code tsr_set_device(const char* name) {
  return Guard([&] {
    Result<Device> device = Device::find(name);
    if (!device.ok()) return Fail(device.status());
    Runtime::set_device(*device);
    return TSR_OK;
  });
}

tsr_code tsr_trace_start(const char* path) {
  return Guard([&] {
    if (path == nullptr) return Fail(InvalidArgument("tsr_trace_start: the path is null"));
    const Status status = Runtime::trace_start(path);
    return status.ok() ? TSR_OK : Fail(status);
  });
}

tsr_code tsr_trace_stop(void) {
  return Guard([&] {
    const Status status = Runtime::trace_stop();
    return status.ok() ? TSR_OK : Fail(status);
  });
}

tsr_code tsr_trace_dump(const char* path) {
  return Guard([&] {
    if (path == nullptr) return Fail(InvalidArgument("tsr_trace_dump: the path is null"));
    const Status status = Runtime::trace_dump(path);
    return status.ok() ? TSR_OK : Fail(status);
  });
}

tsr_code tsr_get_statistics(tsr_statistics* statistics) {
  return Guard([&] {
    const rt::MemoryStats m = api::DefaultDevice().memory_stats();
    const rt::MetricValues v = rt::SnapshotMetrics();
    auto metric = [&](rt::Metric id) { return v[static_cast<int>(id)]; };
    tsr_statistics ours{};
    ours.bytes_in_use = m.bytes_in_use;
    ours.bytes_cached = m.bytes_cached;
    ours.peak_bytes = m.peak_bytes;
    ours.allocations = m.allocations;
    ours.ops_executed = metric(rt::Metric::ops_executed);
    ours.functions_called = metric(rt::Metric::functions_called);
    ours.instructions_run = metric(rt::Metric::instructions_run);
    ours.version_runs = metric(rt::Metric::version_runs);
    ours.version_ops = metric(rt::Metric::version_ops);
    ours.codes_made = metric(rt::Metric::codes_made);
    ours.deopts = metric(rt::Metric::deopts);
    const absl::Status status = Give(ours, statistics, "tsr_statistics");
    return status.ok() ? TSR_OK : Fail(status);
  });
}
