// What public Module and Function handles share.
#ifndef TESSERA_INTERP_API_MODULE_STATE_H_
#define TESSERA_INTERP_API_MODULE_STATE_H_

#include <memory>

#include "interp/interpreter.h"

namespace tessera {

struct ModuleState {
  std::shared_ptr<const ir::Module> module;
  std::unique_ptr<interp::Instance> instance;
};

inline std::shared_ptr<ModuleState> MakeModuleState(std::shared_ptr<const ir::Module> module) {
  auto state = std::make_shared<ModuleState>();
  state->instance = interp::MakeInstance(module);
  state->module = std::move(module);
  return state;
}

}  // namespace tessera

#endif  // TESSERA_INTERP_API_MODULE_STATE_H_
