// The part of the public API that belongs to the tiers.
#include "deopt/ledger.h"
#include "interp/stream.h"
#include "tessera/runtime.h"
#include "tiers/manager.h"

namespace tessera {

std::string Runtime::explain() { return deopt::Ledger::Get().Explain(); }

void Runtime::wait_for_builds() { tiers::Manager::Get().Drain(); }

Step::Step() {
  if (interp::Stream* stream = interp::CurrentStream()) {
    interp::CurrentStreamHook()->OnStep(*stream, __builtin_return_address(0));
  }
}

}  // namespace tessera
