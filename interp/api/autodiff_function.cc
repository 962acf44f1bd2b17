// The half of tessera/autodiff.h that is about functions, and calls of functions on a tape.
#include <map>
#include <mutex>
#include <utility>

#include "interp/api/eager.h"
#include "interp/api/module_state.h"
#include "interp/api/tape.h"
#include "ir/differentiate.h"

namespace tessera {
namespace {

Result<Function> Make(const Function& f, const std::vector<int>& wrt, ir::GradKind kind) {
  const ModuleState& state = ModuleAccess::StateOf(f);
  auto made = ir::Differentiate(*state.module, f.name(), wrt, kind);
  if (!made.ok()) return ToPublic(made.status());
  auto fresh = MakeModuleState(std::shared_ptr<const ir::Module>(std::move(made->module)));
  // Its buffers are its own, and begin with what the old ones hold.
  for (size_t i = 0; i < state.instance->buffers.size(); ++i) {
    auto value = state.instance->buffers[i]->Read(api::DefaultDevice());
    if (!value.ok()) return ToPublic(value.status());
    if (absl::Status s = fresh->instance->buffers[i]->Write(*std::move(value)); !s.ok()) return ToPublic(s);
  }
  return ModuleAccess::Make(std::move(fresh)).function(made->function);
}

}  // namespace

Result<Function> grad(const Function& f, const std::vector<int>& wrt) { return Make(f, wrt, ir::GradKind::grad); }
Result<Function> value_and_grad(const Function& f, const std::vector<int>& wrt) {
  return Make(f, wrt, ir::GradKind::value_and_grad);
}
Result<Function> vjp(const Function& f, const std::vector<int>& wrt) { return Make(f, wrt, ir::GradKind::vjp); }

namespace api {
namespace {

// Made when a gradient first passes through the function.
Function VjpOf(const Function& f, const std::vector<int>& wrt) {
  ModuleState& state = ModuleAccess::StateOf(f);
  if (!state.module->buffers.empty()) {
    Throw(Unsupported("gradient: @", f.name(),
                      " belongs to a module with buffers, which may have changed since it was ",
                      "called; use grad() of the function, or eager ops"));
  }
  std::lock_guard lock(state.vjps_mutex);
  const std::pair key(f.name(), wrt);
  const auto it = state.vjps.find(key);
  if (it != state.vjps.end()) return it->second;
  return state.vjps.emplace(key, vjp(f, wrt).value()).first->second;
}

}  // namespace

void RecordFunction(const Function& f, const std::vector<Tensor>& args, const std::vector<Tensor>& results,
                    const void* site) {
  const auto backward = [f, args](const std::vector<Tensor>& grads, const std::vector<bool>& wants) {
    std::vector<int> wrt;
    for (size_t i = 0; i < wants.size(); ++i)
      if (wants[i]) wrt.push_back(static_cast<int>(i));
    std::vector<Tensor> all = args;
    for (const Tensor& g : grads)
      if (g.defined()) all.push_back(g);
    std::vector<Tensor> found = VjpOf(f, wrt)(all);
    std::vector<Tensor> each(args.size());
    for (size_t k = 0; k < wrt.size(); ++k) each[wrt[k]] = std::move(found[k]);
    return each;
  };
  RecordCustom("call of a function", args, results, backward, site);
}

}  // namespace api
}  // namespace tessera
