#include "tessera/function.h"

#include "absl/container/fixed_array.h"
#include "interp/api/eager.h"
#include "interp/api/module_state.h"
#include "interp/api/tape.h"
#include "runtime/file.h"

namespace tessera {

using rt::Ref;
using rt::TensorImpl;

namespace {

std::string Quoted(const std::vector<std::string>& names) {
  std::string s;
  for (const std::string& n : names) absl::StrAppend(&s, s.empty() ? "@" : ", @", n);
  return s.empty() ? "none" : s;
}

Result<int> FindBuffer(const ModuleState& state, std::string_view name) {
  const auto& buffers = state.module->buffers;
  std::vector<std::string> names;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].name == name) return static_cast<int>(i);
    names.push_back(buffers[i].name);
  }
  return ToPublic(NotFound("there is no buffer @", std::string(name), "; the module has ", Quoted(names)));
}

}  // namespace

Result<Module> Module::parse(std::string_view text, std::string_view file) {
  auto module = ir::Parse(text, file);
  if (!module.ok()) return ToPublic(module.status());
  return Module(MakeModuleState(*std::move(module)));
}

Result<Module> Module::load(const std::string& path) {
  auto text = rt::ReadFile(path);
  if (!text.ok()) return ToPublic(text.status());
  return parse(*text, path);
}

std::vector<std::string> Module::function_names() const {
  std::vector<std::string> names;
  for (const auto& f : state_->module->functions) names.push_back(f->name);
  return names;
}

Result<Function> Module::function(std::string_view name) const {
  const int index = state_->instance->program->FindFunction(name);
  if (index < 0) {
    return ToPublic(
        NotFound("there is no function @", std::string(name), "; the module has ", Quoted(function_names())));
  }
  return Function(state_, index);
}

std::vector<std::string> Module::buffer_names() const {
  std::vector<std::string> names;
  for (const ir::Buffer& b : state_->module->buffers) names.push_back(b.name);
  return names;
}

Result<Tensor> Module::buffer(std::string_view name) const {
  auto index = FindBuffer(*state_, name);
  if (!index.ok()) return index.status();
  auto value = state_->instance->buffers[*index]->Read(api::DefaultDevice());
  if (!value.ok()) return ToPublic(value.status());
  return api::Wrap(*std::move(value));
}

Status Module::set_buffer(std::string_view name, const Tensor& value) const {
  auto index = FindBuffer(*state_, name);
  if (!index.ok()) return index.status();
  if (!value.defined()) return ToPublic(InvalidArgument("set_buffer: the Tensor handle is empty"));
  return ToPublic(state_->instance->buffers[*index]->Write(Ref<TensorImpl>::Share(value.impl())));
}

void Module::on_host_read(std::function<void(std::string_view, const Tensor&)> fn) const {
  if (!fn) {
    state_->instance->on_host_read = nullptr;
    return;
  }
  state_->instance->on_host_read = [fn = std::move(fn)](std::string_view label, Ref<TensorImpl> value) {
    fn(label, api::Wrap(std::move(value)));
  };
}

std::string Module::to_string() const { return ir::Print(*state_->module); }

Result<Function> Function::parse(std::string_view text, std::string_view name) {
  auto module = Module::parse(text);
  if (!module.ok()) return module.status();
  const std::vector<std::string> names = module->function_names();
  if (names.empty()) return ToPublic(NotFound("the text defines no function"));
  return module->function(name.empty() ? std::string_view(names[0]) : name);
}

const std::string& Function::name() const { return state_->module->functions[index_]->name; }
size_t Function::num_params() const { return state_->module->functions[index_]->params.size(); }
size_t Function::num_results() const { return state_->module->functions[index_]->results.size(); }

namespace {

// The arguments are there when it returns, and so are the results.
void CallWith(interp::Instance& instance, int index, const std::vector<Tensor>& args, interp::Results* results) {
  absl::FixedArray<TensorImpl*, 8> impls(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    TensorImpl* x = args[i].waiting_impl();
    const bool is_ready = x != nullptr && x->watcher() == nullptr;
    impls[i] = is_ready ? x : &api::ImplOf(args[i], "call of a function");
  }
  rt::Device& device = impls.empty() ? api::DefaultDevice() : impls[0]->device();
  api::Check(interp::Call(instance, index, impls, device, results));
}

}  // namespace

std::vector<Tensor> Function::operator()(const std::vector<Tensor>& args) const {
  interp::Results results;
  CallWith(*state_->instance, index_, args, &results);
  std::vector<Tensor> tensors;
  tensors.reserve(results.size());
  for (Ref<TensorImpl>& r : results) tensors.push_back(api::Wrap(std::move(r)));
  if (api::AnyTapes()) api::RecordFunction(*this, args, tensors, TSR_SITE);
  return tensors;
}

Tensor Function::call(const std::vector<Tensor>& args) const {
  if (num_results() != 1) {
    api::Throw(InvalidArgument("@", name(), " has ", num_results(), " results; call() is for functions with one"));
  }
  interp::Results results;
  CallWith(*state_->instance, index_, args, &results);
  Tensor tensor = api::Wrap(std::move(results[0]));
  if (api::AnyTapes()) api::RecordFunction(*this, args, {tensor}, TSR_SITE);
  return tensor;
}

std::string Function::to_string() const { return ir::Print(*state_->module->functions[index_]); }
std::string Function::bytecode() const { return interp::Disassemble(*state_->instance->program->functions[index_]); }
Module Function::module() const { return Module(state_); }

}  // namespace tessera
