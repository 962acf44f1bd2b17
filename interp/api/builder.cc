#include "tessera/builder.h"

#include "interp/api/eager.h"
#include "interp/api/module_state.h"
#include "ir/builder.h"

namespace tessera {

struct FunctionBuilder::Impl {
  Impl(ir::Module& module, std::string_view name) : builder(std::make_unique<ir::FunctionBuilder>(module, name)) {}
  /// Gone when the module has been built: handles may live longer than their Builder, and then do nothing.
  std::unique_ptr<ir::FunctionBuilder> builder;
  absl::Status status;  // mistakes that the inner builder cannot see

  void Fail(absl::Status s) {
    if (builder != nullptr && status.ok() && builder->status().ok()) status = std::move(s);
  }
};

struct Builder::Impl {
  std::unique_ptr<ir::Module> module = std::make_unique<ir::Module>();
  std::vector<std::shared_ptr<FunctionBuilder::Impl>> functions;
  absl::Status status;

  // The inner builders refer to the module; those of a failed build take their functions out of it as they go.
  void Detach() {
    for (auto& f : functions) f->builder = nullptr;
  }
  ~Impl() { Detach(); }
};

namespace {

ir::Arg ToArg(const Operand& o) {
  struct Visitor {
    ir::Arg operator()(std::monostate) const { return {}; }
    ir::Arg operator()(Value v) const { return ir::Val{v.id()}; }
    ir::Arg operator()(bool v) const { return v; }
    ir::Arg operator()(int v) const { return v; }
    ir::Arg operator()(int64_t v) const { return v; }
    ir::Arg operator()(double v) const { return v; }
  };
  return std::visit(Visitor(), o);
}

ir::FunctionBuilder::Args ToArgs(const std::vector<Operand>& operands) {
  ir::FunctionBuilder::Args args;
  for (const Operand& o : operands) args.push_back(ToArg(o));
  return args;
}

std::vector<Value> ToValues(const ir::FunctionBuilder::Vals& vals) {
  std::vector<Value> values;
  for (ir::Val v : vals) values.emplace_back(v.id);
  return values;
}

ir::Attr ToAttr(const AttrValue& value) {
  struct Visitor {
    ir::Attr operator()(bool v) const { return v; }
    ir::Attr operator()(int v) const { return static_cast<int64_t>(v); }
    ir::Attr operator()(int64_t v) const { return v; }
    ir::Attr operator()(double v) const { return v; }
    ir::Attr operator()(DType v) const { return v; }
    ir::Attr operator()(const Dims& v) const { return api::ToInts(v); }
    ir::Attr operator()(const std::string& v) const { return v; }
    ir::Attr operator()(const Tensor& v) const { return rt::Ref<rt::TensorImpl>::Share(v.impl()); }
  };
  return std::visit(Visitor(), value);
}

ir::FunctionBuilder::Attrs ToAttrs(const NamedAttrs& attrs) {
  ir::FunctionBuilder::Attrs list;
  for (const auto& [name, value] : attrs) list.emplace_back(name, ToAttr(value));
  return list;
}

int64_t ToDim(ir::FunctionBuilder& b, const Dim& d) { return d.is_symbol() ? b.Symbol(d.symbol()) : d.number(); }

absl::StatusOr<TensorType> ToType(ir::FunctionBuilder& b, DType dtype, const std::vector<Dim>& dims) {
  if (dims.size() > kMaxRank)
    return InvalidArgument("a type has ", dims.size(), " dims; the rank is at most ", kMaxRank);
  TensorType type;
  type.dtype = dtype;
  type.rank = static_cast<uint8_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) type.dims[i] = ToDim(b, dims[i]);
  return type;
}

}  // namespace

void FunctionBuilder::schedule(std::string_view entries) {
  if (impl_->builder != nullptr) impl_->builder->Schedule(std::string(entries));
}

void FunctionBuilder::autotune(std::string_view space, std::string_view key) {
  if (impl_->builder != nullptr) impl_->builder->Autotune(std::string(space), std::string(key));
}

Value FunctionBuilder::shard(Value value, std::string_view spec) {
  if (impl_->builder == nullptr) return Value();
  return Value(impl_->builder->Shard({value.id()}, std::string(spec)).id);
}

Value FunctionBuilder::param(std::string_view name, DType dtype, const std::vector<Dim>& dims) {
  if (impl_->builder == nullptr) return Value();
  auto type = ToType(*impl_->builder, dtype, dims);
  if (!type.ok()) {
    impl_->Fail(type.status());
    return Value();
  }
  return Value(impl_->builder->Param(name, *type).id);
}

void FunctionBuilder::assume_equal(const Dim& a, const Dim& b) {
  if (impl_->builder == nullptr) return;
  impl_->builder->AssumeEqual(ToDim(*impl_->builder, a), ToDim(*impl_->builder, b));
}
void FunctionBuilder::assume_divisible(const Dim& a, int64_t divisor) {
  if (impl_->builder == nullptr) return;
  impl_->builder->AssumeDivisible(ToDim(*impl_->builder, a), divisor);
}

void FunctionBuilder::declare_results(const std::vector<std::pair<DType, std::vector<Dim>>>& types) {
  if (impl_->builder == nullptr) return;
  std::vector<TensorType> list;
  for (const auto& [dtype, dims] : types) {
    auto type = ToType(*impl_->builder, dtype, dims);
    if (!type.ok()) return impl_->Fail(type.status());
    list.push_back(*type);
  }
  impl_->builder->DeclareResults(std::move(list));
}

std::vector<Value> FunctionBuilder::op_many(std::string_view name, const std::vector<Operand>& operands,
                                            const NamedAttrs& attrs) {
  if (impl_->builder == nullptr) return {};
  const std::optional<ir::Op> op = ir::FindOp(name);
  if (!op) {
    std::vector<std::string_view> names;
    for (const ir::OpInfo& info : ir::AllOps()) names.push_back(info.name);
    const std::string near = ir::DidYouMean(name, names);
    impl_->Fail(NotFound("there is no op ", std::string(name), near.empty() ? "" : "; did you mean ", near,
                         near.empty() ? "" : "?"));
    return {};
  }
  return ToValues(impl_->builder->EmitMany(*op, ToArgs(operands), ToAttrs(attrs)));
}

Value FunctionBuilder::op(std::string_view name, const std::vector<Operand>& operands, const NamedAttrs& attrs) {
  const std::vector<Value> results = op_many(name, operands, attrs);
  return results.empty() ? Value() : results[0];
}

Value FunctionBuilder::constant(const Tensor& value) {
  if (impl_->builder == nullptr) return Value();
  if (!value.defined()) {
    impl_->Fail(InvalidArgument("constant: the Tensor handle is empty"));
    return Value();
  }
  return Value(impl_->builder->Constant(rt::Ref<rt::TensorImpl>::Share(value.impl())).id);
}

std::vector<Value> FunctionBuilder::if_(const Operand& condition,
                                        const std::function<std::vector<Operand>()>& then_block,
                                        const std::function<std::vector<Operand>()>& else_block) {
  if (impl_->builder == nullptr) return {};
  return ToValues(
      impl_->builder->If(ToArg(condition), [&] { return ToArgs(then_block()); }, [&] { return ToArgs(else_block()); }));
}

std::vector<Value> FunctionBuilder::while_(const std::vector<Operand>& inits,
                                           const std::function<Operand(const std::vector<Value>&)>& condition,
                                           const std::function<std::vector<Operand>(const std::vector<Value>&)>& body) {
  if (impl_->builder == nullptr) return {};
  return ToValues(impl_->builder->While(
      ToArgs(inits), [&](const ir::FunctionBuilder::Vals& v) { return ToArg(condition(ToValues(v))); },
      [&](const ir::FunctionBuilder::Vals& v) { return ToArgs(body(ToValues(v))); }));
}

std::vector<Value> FunctionBuilder::for_(
    const Operand& start, const Operand& stop, const Operand& step, const std::vector<Operand>& inits,
    const std::function<std::vector<Operand>(Value, const std::vector<Value>&)>& body) {
  if (impl_->builder == nullptr) return {};
  return ToValues(impl_->builder->For(
      ToArg(start), ToArg(stop), ToArg(step), ToArgs(inits),
      [&](ir::Val i, const ir::FunctionBuilder::Vals& v) { return ToArgs(body(Value(i.id), ToValues(v))); }));
}

std::vector<Value> FunctionBuilder::call(std::string_view function, const std::vector<Operand>& args) {
  if (impl_->builder == nullptr) return {};
  return ToValues(impl_->builder->Call(function, ToArgs(args)));
}

void FunctionBuilder::ret(const std::vector<Operand>& values) {
  if (impl_->builder != nullptr) impl_->builder->Return(ToArgs(values));
}

Builder::Builder() : impl_(std::make_unique<Impl>()) {}
Builder::~Builder() = default;

void Builder::buffer(std::string_view name, DType dtype, const Dims& dims) {
  ir::Buffer b;
  b.name = std::string(name);
  b.type.dtype = dtype;
  if (dims.size() > kMaxRank) {
    impl_->status = InvalidArgument("buffer @", b.name, " has ", dims.size(), " dims; the rank is at most ", kMaxRank);
    return;
  }
  b.type.rank = static_cast<uint8_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) b.type.dims[i] = dims[i];
  impl_->module->buffers.push_back(std::move(b));
}

FunctionBuilder Builder::function(std::string_view name) {
  impl_->functions.push_back(std::make_shared<FunctionBuilder::Impl>(*impl_->module, name));
  return FunctionBuilder(impl_->functions.back());
}

Result<Module> Builder::build() {
  std::unique_ptr<Impl> impl = std::exchange(impl_, std::make_unique<Impl>());
  absl::Status status = impl->status;
  for (auto& f : impl->functions) {
    if (status.ok()) status = f->status;
    if (status.ok()) status = f->builder->Finish();
  }
  if (status.ok()) status = ir::Verify(*impl->module);
  impl->Detach();
  if (!status.ok()) return ToPublic(status);
  return Module(MakeModuleState(std::shared_ptr<const ir::Module>(std::move(impl->module))));
}

}  // namespace tessera
