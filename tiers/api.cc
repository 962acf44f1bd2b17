// The part of the public API that belongs to the tiers.
#include "deopt/ledger.h"
#include "interp/anchor.h"
#include "interp/stream.h"
#include "runtime/options.h"
#include "tessera/runtime.h"
#include "tiers/manager.h"
#include "tiers/profile.h"

namespace tessera {

std::string Runtime::explain() {
  const std::string off = rt::options().tier() == 1 ? "the option tier is 1: everything runs in tier 1\n" : "";
  return off + deopt::Ledger::Get().Explain();
}

void Runtime::wait_for_builds() { tiers::Manager::Get().Drain(); }

Status Runtime::save_profile(const std::string& path) {
  tiers::Manager::Get().Drain();
  return ToPublic(tiers::Profile::Get().Save(path));
}

Status Runtime::load_profile(const std::string& path) {
  interp::StartTiers();
  if (absl::Status status = tiers::Profile::Get().Load(path); !status.ok()) return ToPublic(status);
  // Threads notice that an option has changed, and begin anew with what the profile says.
  return ToPublic(rt::options().Set("profile", path));
}

Step::Step() {
  if (interp::Stream* stream = interp::CurrentStream()) {
    interp::CurrentStreamHook()->OnStep(*stream, __builtin_return_address(0));
  }
}

}  // namespace tessera
