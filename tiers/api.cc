// The part of the public API that belongs to the tiers.
#include <algorithm>
#include <atomic>

#include "deopt/ledger.h"
#include "interp/anchor.h"
#include "interp/api/module_state.h"
#include "interp/stream.h"
#include "runtime/options.h"
#include "runtime/ring.h"
#include "tessera/function.h"
#include "tessera/runtime.h"
#include "tiers/function_place.h"
#include "tiers/generate.h"
#include "tiers/manager.h"
#include "tiers/profile.h"

namespace tessera {
namespace {

// At the entry or at the head of a loop; null for none.
rt::Ref<tiers::Version> NewestVersion(const interp::Bytecode& code) {
  rt::Ref<tiers::Version> newest;
  for (const interp::AnchorSlot& slot : code.anchors) {
    tiers::FunctionPlace* place = tiers::PlaceAt(slot);
    if (place == nullptr) continue;
    for (const rt::Ref<tiers::Version>& v : place->anchor().versions())
      if (!newest || v->id > newest->id) newest = v;
  }
  return newest;
}

}  // namespace

Result<std::string> Function::inspect_ir(std::string_view stage) const {
  constexpr std::string_view kStages[] = {"graph", "sched", "tile", "target", "llvm", "asm", "cuda", "report"};
  if (std::find(std::begin(kStages), std::end(kStages), stage) == std::end(kStages)) {
    return ToPublic(
        InvalidArgument("inspect_ir: there is no stage \"", std::string(stage),
                        "\"; stages are graph, sched, tile, target, llvm, asm and cuda, and there is report"));
  }
  const rt::Ref<tiers::Version> version = NewestVersion(*state_->instance->program->functions[index_]);
  if (!version) {
    return ToPublic(NotFound("inspect_ir: @", name(), " has no version",
                             rt::options().tier() == 1 ? ": the option tier is 1"
                                                       : " yet, or none any more; Runtime::explain() lists versions"));
  }
  auto text = tiers::InspectStage(version->trace(), *version->example, std::max(version->tier, 2), std::string(stage),
                                  version->schedule, state_->instance->program->module->file);
  if (!text.ok()) {
    const std::string why(text.status().message());
    return ToPublic(absl::IsNotFound(text.status()) ? NotFound("inspect_ir: ", why) : Internal("inspect_ir: ", why));
  }
  return *std::move(text);
}

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
  if (rt::EventsOn()) [[unlikely]] {
    static constinit std::atomic<int64_t> steps{0};
    rt::Record(rt::EventKind::step, steps.fetch_add(1, std::memory_order_relaxed) + 1);
  }
  if (interp::Stream* stream = interp::CurrentStream()) {
    interp::CurrentStreamHook()->OnStep(*stream, __builtin_return_address(0));
  }
}

}  // namespace tessera
