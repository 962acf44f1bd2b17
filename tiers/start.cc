// Sets the hooks of the interpreter and keeps them in step with the options.
#include <mutex>

#include "interp/anchor.h"
#include "interp/stream.h"
#include "runtime/blas.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "tiers/deferral.h"
#include "tiers/eager.h"
#include "tiers/function.h"
#include "tiers/manager.h"
#include "tiers/profile.h"
#include "tiers/recording.h"
#include "tiers/visit.h"
#include "tracer/control.h"

namespace tessera::interp {

void StartTiers() {
  static std::once_flag once;
  std::call_once(once, [] {
    rt::Options& options = rt::options();
    tiers::PrepareOwnerLocks();
    tiers::Visit::Prepare();
    tracer::RefreshControl();
    options.OnChange(rt::OptionId::chaos_seed, tracer::RefreshControl);
    options.OnChange(rt::OptionId::deopt_every, tracer::RefreshControl);
    options.OnChange(rt::OptionId::tier, [] { SwitchStreams(rt::options().tier() > 1); });
    SwitchStreams(options.tier() > 1);
    if (const std::string path = options.profile(); !path.empty()) {
      const absl::Status status = tiers::Profile::Get().Load(path);
      if (!status.ok()) TSR_LOG(0, std::string(status.message()));
    }
    tiers::StartRecording();
    SetStreamHook(&tiers::EagerTiers::Get());
    SetFunctionHook(&tiers::FunctionTiers::Get());
    rt::OnBlasOpened([] {
      if (rt::options().tier() == 1) return;
      tiers::Manager::Get().Prepare(tiers::Manager::Source::eager);
      tiers::Manager::Get().Prepare(tiers::Manager::Source::functions);
    });
  });
}

}  // namespace tessera::interp
