// What public Module and Function handles share.
#ifndef TESSERA_INTERP_API_MODULE_STATE_H_
#define TESSERA_INTERP_API_MODULE_STATE_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "interp/interpreter.h"
#include "tessera/function.h"

namespace tessera {

struct ModuleState {
  std::shared_ptr<const ir::Module> module;
  std::unique_ptr<interp::Instance> instance;
  /// Gradients of its functions that tapes have asked for, by function and parameters. They live in modules of their
  /// own.
  std::mutex vjps_mutex;
  std::map<std::pair<std::string, std::vector<int>>, Function> vjps;
};

inline std::shared_ptr<ModuleState> MakeModuleState(std::shared_ptr<const ir::Module> module) {
  auto state = std::make_shared<ModuleState>();
  state->instance = interp::MakeInstance(module);
  state->module = std::move(module);
  return state;
}

/// The state behind the public handles, for the other files of this folder.
struct ModuleAccess {
  static Module Make(std::shared_ptr<ModuleState> state) { return Module(std::move(state)); }
  static ModuleState& StateOf(const Function& f) { return *f.state_; }
};

namespace api {
/// A call of f, which has run: the tapes of this thread that know an argument remember it.
void RecordFunction(const Function& f, const std::vector<Tensor>& args, const std::vector<Tensor>& results,
                    const void* site);
}  // namespace api

}  // namespace tessera

#endif  // TESSERA_INTERP_API_MODULE_STATE_H_
