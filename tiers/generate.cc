#include "tiers/generate.h"

#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/cache.h"
#include "runtime/clock.h"
#include "runtime/fault.h"
#include "runtime/options.h"
#include "runtime/ring.h"
#include "runtime/thread_pool.h"
#include "tiers/compiler_library.h"
#include "tiers/emit.h"
#include "tiers/function_schedule.h"

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
          trace.device->code_target().data(),
          rt::options().tf32() ? 1 : 0};
}

// Tells the recorder what each part of making code took.
class StageTimer {
 public:
  explicit StageTimer(int64_t trace) : trace_(trace), start_(rt::NowNs()) {}
  void Done(rt::CompileStage stage, size_t bytes) {
    const int64_t now = rt::NowNs();
    rt::RecordFor(rt::EventKind::compile_stage, now - start_, trace_, static_cast<int64_t>(stage),
                  static_cast<int64_t>(bytes));
    start_ = now;
  }

 private:
  int64_t trace_, start_;
};

// The option goes before everything; then come what functions say and what was chosen.
std::string Schedule(const tracer::Trace& trace, const std::string& chosen) {
  std::string given = rt::options().schedule();
  return given.empty() ? ScheduleOf(trace, chosen) : given;
}

// All that the code depends on.
std::string KeyOf(const TesseraCompilerApi& api, const TesseraCompileRequest& request) {
  return absl::StrCat("code ", kArtifactVersion, " ", TESSERA_VERSION, "\n", api.build_id, "\ntier ", request.tier,
                      " fuse ", request.fuse, " bitwise ", request.bitwise, " fast_math ", request.fast_math, " grain ",
                      request.grain, " threads ", request.threads, " schedule ", request.schedule, " target ",
                      request.target, " tf32 ", request.tf32, "\n",
                      absl::string_view(request.trace, request.trace_size));
}

}  // namespace

absl::StatusOr<Generated> Generate(const tracer::Trace& trace, const tracer::Trace& example, int tier,
                                   const std::string& chosen) {
  TSR_ASSIGN_OR_RETURN(const TesseraCompilerApi* api, Compiler());
  if (rt::FaultFires(rt::Fault::compile)) return Internal("the compiler failed (fault)");
  StageTimer timer(trace.id);
  const std::string text = EmitTrace(trace, example, tier, /*locations=*/false);
  timer.Done(rt::CompileStage::emit, text.size());
  const std::string schedule = Schedule(trace, chosen);
  const TesseraCompileRequest request = RequestOf(text, tier, schedule, trace);
  const std::shared_ptr<rt::Cache> cache = rt::CodeCache();
  const std::string key = cache != nullptr ? KeyOf(*api, request) : "";
  if (cache != nullptr) {
    std::optional<std::string> artifact = cache->Get(key);
    timer.Done(rt::CompileStage::cache, artifact ? artifact->size() : 0);
    if (artifact) {
      // What does not load is compiled anew.
      auto code = Code::Load(*api, trace, *artifact);
      timer.Done(rt::CompileStage::load, artifact->size());
      if (code.ok()) return Generated{*std::move(code), true};
    }
  }
  TSR_ASSIGN_OR_RETURN(const std::string artifact, Compile(*api, request));
  timer.Done(rt::CompileStage::compile, artifact.size());
  TSR_ASSIGN_OR_RETURN(std::shared_ptr<const Code> code, Code::Load(*api, trace, artifact));
  timer.Done(rt::CompileStage::load, artifact.size());
  if (cache != nullptr) cache->Put(key, artifact);
  return Generated{std::move(code), false};
}

namespace {

// The key of the code that the compiler's own choice gives, told apart from it. Where functions name the dims that
// tuning depends on, the sizes of those stand in place of all others.
std::string TunedKey(const TesseraCompilerApi& api, const tracer::Trace& trace, const tracer::Trace& example) {
  const std::optional<std::string> sizes = SizesOfKey(trace, example);
  const std::string text = sizes ? EmitPattern(trace, example) : EmitTrace(trace, example, 3, /*locations=*/false);
  const std::string own = ScheduleOf(trace, "");
  return absl::StrCat("tuned ", sizes.value_or(""), SpacesOf(trace), " ", KeyOf(api, RequestOf(text, 3, own, trace)));
}

// Results of this process, for a profile; those whose key names dims are also asked for by other shapes of the same
// program, and there may be no cache on disk. Beside them what a profile brought along.
class Tunings {
 public:
  static Tunings& Get() {
    static auto* const tunings = new Tunings;
    return *tunings;
  }
  std::optional<std::string> Find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = found_.find(key);
    return it == found_.end() ? std::nullopt : std::optional(it->second);
  }
  void Add(const std::string& key, const std::string& schedule) {
    const std::lock_guard lock(mutex_);
    if (found_.size() < kMost) found_[key] = schedule;
  }
  std::optional<std::string> Recall(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = recalled_.find(tracer::StableHash(key));
    return it == recalled_.end() ? std::nullopt : std::optional(it->second);
  }
  void Use(const std::string& key, const std::string& schedule) {
    const std::lock_guard lock(mutex_);
    if (used_.size() < kMost) used_[tracer::StableHash(key)] = schedule;
  }
  /// Also what was recalled and not asked for yet: a profile that is saved early loses nothing.
  tracer::TunedChoices InUse() {
    const std::lock_guard lock(mutex_);
    tracer::TunedChoices all = used_;
    all.insert(recalled_.begin(), recalled_.end());
    return all;
  }
  void SetRecalled(tracer::TunedChoices choices) {
    const std::lock_guard lock(mutex_);
    recalled_ = std::move(choices);
  }
  void Forget() {
    const std::lock_guard lock(mutex_);
    found_.clear();
    recalled_.clear();
    used_.clear();
  }

 private:
  static constexpr size_t kMost = 1024;
  std::mutex mutex_;
  absl::flat_hash_map<std::string, std::string> found_;
  tracer::TunedChoices recalled_, used_;
};

}  // namespace

std::optional<std::string> RememberedSchedule(const tracer::Trace& trace, const tracer::Trace& example) {
  const std::shared_ptr<rt::Cache> cache = rt::CodeCache();
  const auto api = Compiler();
  if (!api.ok()) return std::nullopt;
  const std::string key = TunedKey(**api, trace, example);
  std::optional<std::string> found = Tunings::Get().Recall(key);
  if (!found) found = Tunings::Get().Find(key);
  if (!found && cache != nullptr) found = cache->Get(key);
  if (found) Tunings::Get().Use(key, *found);
  return found;
}

void RememberSchedule(const tracer::Trace& trace, const tracer::Trace& example, const std::string& schedule) {
  const std::shared_ptr<rt::Cache> cache = rt::CodeCache();
  const auto api = Compiler();
  if (!api.ok()) return;
  const std::string key = TunedKey(**api, trace, example);
  if (SizesOfKey(trace, example)) Tunings::Get().Add(key, schedule);
  Tunings::Get().Use(key, schedule);
  if (cache != nullptr) cache->Put(key, schedule);
}

tracer::TunedChoices TuningsInUse() { return Tunings::Get().InUse(); }
void RecallTunings(tracer::TunedChoices choices) { Tunings::Get().SetRecalled(std::move(choices)); }
void ForgetTunings() { Tunings::Get().Forget(); }

absl::StatusOr<std::string> InspectStage(const tracer::Trace& trace, const tracer::Trace& example, int tier,
                                         const std::string& stage, const std::string& chosen, const std::string& file) {
  TSR_ASSIGN_OR_RETURN(const TesseraCompilerApi* api, Compiler());
  const std::string text = EmitTrace(trace, example, tier, /*locations=*/true, file.empty() ? "text" : file);
  const std::string schedule = Schedule(trace, chosen);
  return Inspect(*api, RequestOf(text, tier, schedule, trace), stage);
}

}  // namespace tessera::tiers
