#include "ir/function.h"

namespace tessera::ir {

const Function* Module::FindFunction(std::string_view name) const {
  for (const auto& f : functions)
    if (f->name == name) return f.get();
  return nullptr;
}

const Buffer* Module::FindBuffer(std::string_view name) const {
  for (const Buffer& b : buffers)
    if (b.name == name) return &b;
  return nullptr;
}

}  // namespace tessera::ir
