#include "tiers/generate.h"

#include "absl/strings/str_cat.h"
#include "runtime/cache.h"
#include "runtime/fault.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"
#include "tiers/compiler_library.h"
#include "tiers/emit.h"

namespace tessera::tiers {
namespace {

TesseraCompileRequest RequestOf(const std::string& text, int tier, const std::string& schedule,
                                const tracer::Trace& trace) {
  return {text.data(),
          text.size(),
          tier,
          rt::options().fuse() ? 1 : 0,
          rt::options().bitwise() ? 1 : 0,
          rt::options().fast_math() && !rt::options().bitwise() ? 1 : 0,
          rt::options().parallel_grain(),
          rt::NumThreads(),
          schedule.c_str(),
          rt::options().peak_gbps(),
          rt::options().peak_gflops(),
          trace.device->code_target().data()};
}

// All that the code depends on.
std::string KeyOf(const TesseraCompilerApi& api, const TesseraCompileRequest& request) {
  return absl::StrCat("code ", kArtifactVersion, " ", TESSERA_VERSION, "\n", api.build_id, "\ntier ", request.tier,
                      " fuse ", request.fuse, " bitwise ", request.bitwise, " fast_math ", request.fast_math, " grain ",
                      request.grain, " threads ", request.threads, " schedule ", request.schedule, " target ",
                      request.target, "\n", absl::string_view(request.trace, request.trace_size));
}

}  // namespace

absl::StatusOr<Generated> Generate(const tracer::Trace& trace, const tracer::Trace& example, int tier,
                                   const std::string& chosen) {
  TSR_ASSIGN_OR_RETURN(const TesseraCompilerApi* api, Compiler());
  if (rt::FaultFires(rt::Fault::compile)) return Internal("the compiler failed (fault)");
  const std::string text = EmitTrace(trace, example, tier, /*locations=*/false);
  const std::string given = rt::options().schedule();
  const std::string& schedule = given.empty() ? chosen : given;
  const TesseraCompileRequest request = RequestOf(text, tier, schedule, trace);
  const std::shared_ptr<rt::Cache> cache = rt::CodeCache();
  const std::string key = cache != nullptr ? KeyOf(*api, request) : "";
  if (cache != nullptr) {
    if (std::optional<std::string> artifact = cache->Get(key)) {
      // What does not load is compiled anew.
      if (auto code = Code::Load(*api, trace, *artifact); code.ok()) return Generated{*std::move(code), true};
    }
  }
  TSR_ASSIGN_OR_RETURN(const std::string artifact, Compile(*api, request));
  TSR_ASSIGN_OR_RETURN(std::shared_ptr<const Code> code, Code::Load(*api, trace, artifact));
  if (cache != nullptr) cache->Put(key, artifact);
  return Generated{std::move(code), false};
}

namespace {

// The key of the code that the compiler's own choice gives, told apart from it.
std::string TunedKey(const TesseraCompilerApi& api, const tracer::Trace& trace, const tracer::Trace& example) {
  const std::string text = EmitTrace(trace, example, 3, /*locations=*/false), none;
  return absl::StrCat("tuned ", KeyOf(api, RequestOf(text, 3, none, trace)));
}

}  // namespace

std::optional<std::string> RememberedSchedule(const tracer::Trace& trace, const tracer::Trace& example) {
  const std::shared_ptr<rt::Cache> cache = rt::CodeCache();
  const auto api = Compiler();
  if (cache == nullptr || !api.ok()) return std::nullopt;
  return cache->Get(TunedKey(**api, trace, example));
}

void RememberSchedule(const tracer::Trace& trace, const tracer::Trace& example, const std::string& schedule) {
  const std::shared_ptr<rt::Cache> cache = rt::CodeCache();
  const auto api = Compiler();
  if (cache != nullptr && api.ok()) cache->Put(TunedKey(**api, trace, example), schedule);
}

absl::StatusOr<std::string> InspectStage(const tracer::Trace& trace, const tracer::Trace& example, int tier,
                                         const std::string& stage, const std::string& chosen, const std::string& file) {
  TSR_ASSIGN_OR_RETURN(const TesseraCompilerApi* api, Compiler());
  const std::string text = EmitTrace(trace, example, tier, /*locations=*/true, file.empty() ? "text" : file);
  const std::string given = rt::options().schedule();
  const std::string& schedule = given.empty() ? chosen : given;
  return Inspect(*api, RequestOf(text, tier, schedule, trace), stage);
}

}  // namespace tessera::tiers
