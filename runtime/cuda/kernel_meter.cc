#include "runtime/cuda/kernel_meter.h"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/clock.h"
#include "runtime/cuda/device.h"

#if __has_include(<cupti_range_profiler.h>)
#include "runtime/cuda/cupti_table.h"
#include "runtime/log.h"

namespace tessera::cuda {
namespace {

constexpr const char* kMetrics[] = {
#define TSR_MEASURE(name, metric, unit) metric,
#include "runtime/cuda/measures.def"
};
constexpr size_t kNumMetrics = std::size(kMetrics);
/// Launches of one run; with more of them nothing is measured.
constexpr size_t kMostRanges = 2048;

// The parameters of each call are a struct that begins with its size.
template <class Params>
Params Sized(size_t size) {
  Params p = {};
  p.structSize = size;
  return p;
}
#define TSR_PARAMS(Params) Sized<Params>(Params##_STRUCT_SIZE)

/// Which counters of a device are read. Found out once: it takes CUPTI long.
struct Counters {
  CUpti_Profiler_Host_Object* host = nullptr;
  std::vector<const char*> metrics;
  std::vector<size_t> which;    // row of measures.def
  std::vector<size_t> missing;  // rows that the chip does not have
  size_t passes = 0;            // runs until all were read
  std::vector<uint8_t> available, config;
};

using Host = CUpti_Profiler_Host_Object*;

absl::StatusOr<Host> NewHost(const Cupti& cupti, const char* chip, const uint8_t* available) {
  auto host = TSR_PARAMS(CUpti_Profiler_Host_Initialize_Params);
  host.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
  host.pChipName = chip;
  host.pCounterAvailabilityImage = available;
  TSR_RETURN_IF_ERROR(CheckCupti(cupti, "cuptiProfilerHostInitialize", cupti.cuptiProfilerHostInitialize(&host)));
  return host.pHostObject;
}

void DeleteHost(const Cupti& cupti, Host host) {
  auto p = TSR_PARAMS(CUpti_Profiler_Host_Deinitialize_Params);
  p.pHostObject = host;
  cupti.cuptiProfilerHostDeinitialize(&p);
}

CUptiResult AddMetrics(const Cupti& cupti, Host host, const char** names, size_t count) {
  auto add = TSR_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params);
  add.pHostObject = host;
  add.ppMetricNames = names;
  add.numMetrics = count;
  return cupti.cuptiProfilerHostConfigAddMetrics(&add);
}

/// With `chip` and, where there is a device, what of its counters may be read. All metrics go into one call, because
/// each call begins passes of its own.
absl::StatusOr<std::unique_ptr<Counters>> ChooseCounters(const Cupti& cupti, const char* chip,
                                                         std::vector<uint8_t> available) {
  const auto check = [&](const char* call, CUptiResult result) { return CheckCupti(cupti, call, result); };
  auto counters = std::make_unique<Counters>();
  counters->available = std::move(available);
  const uint8_t* image = counters->available.empty() ? nullptr : counters->available.data();
  for (size_t m = 0; m < kNumMetrics; ++m) {
    counters->metrics.push_back(kMetrics[m]);
    counters->which.push_back(m);
  }
  TSR_ASSIGN_OR_RETURN(counters->host, NewHost(cupti, chip, image));
  if (AddMetrics(cupti, counters->host, counters->metrics.data(), kNumMetrics) != CUPTI_SUCCESS) {
    // A name that the chip does not know spoils the object that it was added to.
    DeleteHost(cupti, counters->host);
    counters->metrics.clear();
    counters->which.clear();
    for (size_t m = 0; m < kNumMetrics; ++m) {
      const char* name = kMetrics[m];
      TSR_ASSIGN_OR_RETURN(const Host alone, NewHost(cupti, chip, image));
      const bool known = AddMetrics(cupti, alone, &name, 1) == CUPTI_SUCCESS;
      DeleteHost(cupti, alone);
      if (known) counters->metrics.push_back(name);
      (known ? counters->which : counters->missing).push_back(m);
    }
    if (counters->metrics.empty()) return Unsupported("CUPTI knows no counters of ", chip);
    TSR_ASSIGN_OR_RETURN(counters->host, NewHost(cupti, chip, image));
    TSR_RETURN_IF_ERROR(check("cuptiProfilerHostConfigAddMetrics",
                              AddMetrics(cupti, counters->host, counters->metrics.data(), counters->metrics.size())));
  }
  auto size = TSR_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params);
  size.pHostObject = counters->host;
  TSR_RETURN_IF_ERROR(check("cuptiProfilerHostGetConfigImageSize", cupti.cuptiProfilerHostGetConfigImageSize(&size)));
  counters->config.resize(size.configImageSize);
  auto config = TSR_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params);
  config.pHostObject = counters->host;
  config.configImageSize = counters->config.size();
  config.pConfigImage = counters->config.data();
  TSR_RETURN_IF_ERROR(check("cuptiProfilerHostGetConfigImage", cupti.cuptiProfilerHostGetConfigImage(&config)));
  auto passes = TSR_PARAMS(CUpti_Profiler_Host_GetNumOfPasses_Params);
  passes.configImageSize = counters->config.size();
  passes.pConfigImage = counters->config.data();
  TSR_RETURN_IF_ERROR(check("cuptiProfilerHostGetNumOfPasses", cupti.cuptiProfilerHostGetNumOfPasses(&passes)));
  counters->passes = passes.numOfPasses;
  return counters;
}

std::string Names(absl::Span<const size_t> rows) {
  return absl::StrJoin(rows, ", ", [](std::string* out, size_t m) { absl::StrAppend(out, kMetrics[m]); });
}

absl::StatusOr<const Counters*> FindCounters(const Cupti& cupti, Device& device) {
  const auto check = [&](const char* call, CUptiResult result) { return CheckCupti(cupti, call, result); };
  auto initialize = TSR_PARAMS(CUpti_Profiler_Initialize_Params);
  TSR_RETURN_IF_ERROR(check("cuptiProfilerInitialize", cupti.cuptiProfilerInitialize(&initialize)));
  auto chip = TSR_PARAMS(CUpti_Device_GetChipName_Params);
  chip.deviceIndex = static_cast<size_t>(device.index());
  TSR_RETURN_IF_ERROR(check("cuptiDeviceGetChipName", cupti.cuptiDeviceGetChipName(&chip)));
  std::vector<uint8_t> image;
  auto available = TSR_PARAMS(CUpti_Profiler_GetCounterAvailability_Params);
  available.ctx = device.context();
  for (const bool sized : {false, true}) {
    if (sized) image.resize(available.counterAvailabilityImageSize);
    if (sized) available.pCounterAvailabilityImage = image.data();
    TSR_RETURN_IF_ERROR(
        check("cuptiProfilerGetCounterAvailability", cupti.cuptiProfilerGetCounterAvailability(&available)));
  }
  TSR_ASSIGN_OR_RETURN(auto counters, ChooseCounters(cupti, chip.pChipName, std::move(image)));
  if (!counters->missing.empty()) TSR_LOG(1, device.name(), " does not have these metrics: ", Names(counters->missing));
  TSR_LOG(1, "kernels of ", device.name(), " are measured by ", counters->metrics.size(), " counters in ",
          counters->passes, " passes");
  return counters.release();  // for as long as the process lives
}

class Meter {
 public:
  Meter(const Cupti& cupti, const Counters& counters, Device& device)
      : cupti_(cupti), counters_(counters), device_(device) {}
  Meter(const Meter&) = delete;
  ~Meter() {
    if (profiler_ == nullptr) return;
    auto p = TSR_PARAMS(CUpti_RangeProfiler_Disable_Params);
    p.pRangeProfilerObject = profiler_;
    cupti_.cuptiRangeProfilerDisable(&p);
  }

  absl::Status Open() {
    auto enable = TSR_PARAMS(CUpti_RangeProfiler_Enable_Params);
    enable.ctx = device_.context();
    TSR_RETURN_IF_ERROR(Check("cuptiRangeProfilerEnable", cupti_.cuptiRangeProfilerEnable(&enable)));
    profiler_ = enable.pRangeProfilerObject;

    auto size = TSR_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params);
    size.pRangeProfilerObject = profiler_;
    size.pMetricNames = const_cast<const char**>(counters_.metrics.data());
    size.numMetrics = counters_.metrics.size();
    size.maxNumOfRanges = kMostRanges;
    size.maxNumRangeTreeNodes = kMostRanges;
    TSR_RETURN_IF_ERROR(
        Check("cuptiRangeProfilerGetCounterDataSize", cupti_.cuptiRangeProfilerGetCounterDataSize(&size)));
    data_.resize(size.counterDataSize);
    auto init = TSR_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params);
    init.pRangeProfilerObject = profiler_;
    init.counterDataSize = data_.size();
    init.pCounterData = data_.data();
    TSR_RETURN_IF_ERROR(Check("cuptiRangeProfilerCounterDataImageInitialize",
                              cupti_.cuptiRangeProfilerCounterDataImageInitialize(&init)));

    // A range for each kernel. Everything is run again until all counters were read: to run each kernel again, CUPTI
    // would save and restore all memory of the device.
    auto set = TSR_PARAMS(CUpti_RangeProfiler_SetConfig_Params);
    set.pRangeProfilerObject = profiler_;
    set.configSize = counters_.config.size();
    set.pConfig = counters_.config.data();
    set.counterDataImageSize = data_.size();
    set.pCounterDataImage = data_.data();
    set.range = CUPTI_AutoRange;
    set.replayMode = CUPTI_UserReplay;
    set.maxRangesPerPass = kMostRanges;
    set.numNestingLevels = 1;
    set.minNestingLevel = 1;
    return Check("cuptiRangeProfilerSetConfig", cupti_.cuptiRangeProfilerSetConfig(&set));
  }

  absl::Status StartPass() {
    auto start = TSR_PARAMS(CUpti_RangeProfiler_Start_Params);
    start.pRangeProfilerObject = profiler_;
    return Check("cuptiRangeProfilerStart", cupti_.cuptiRangeProfilerStart(&start));
  }
  /// True: it was the last one.
  absl::StatusOr<bool> EndPass() {
    auto stop = TSR_PARAMS(CUpti_RangeProfiler_Stop_Params);
    stop.pRangeProfilerObject = profiler_;
    TSR_RETURN_IF_ERROR(Check("cuptiRangeProfilerStop", cupti_.cuptiRangeProfilerStop(&stop)));
    return stop.isAllPassSubmitted != 0;
  }

  absl::StatusOr<std::vector<std::vector<double>>> Read() {
    auto decode = TSR_PARAMS(CUpti_RangeProfiler_DecodeData_Params);
    decode.pRangeProfilerObject = profiler_;
    TSR_RETURN_IF_ERROR(Check("cuptiRangeProfilerDecodeData", cupti_.cuptiRangeProfilerDecodeData(&decode)));
    if (decode.numOfRangeDropped > 0)
      return Unsupported("a run of more than ", kMostRanges, " kernels is not measured");
    auto info = TSR_PARAMS(CUpti_RangeProfiler_GetCounterDataInfo_Params);
    info.pCounterDataImage = data_.data();
    info.counterDataImageSize = data_.size();
    TSR_RETURN_IF_ERROR(
        Check("cuptiRangeProfilerGetCounterDataInfo", cupti_.cuptiRangeProfilerGetCounterDataInfo(&info)));
    std::vector<std::vector<double>> rows;
    std::vector<double> values(counters_.metrics.size());
    for (size_t r = 0; r < info.numTotalRanges; ++r) {
      auto evaluate = TSR_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params);
      evaluate.pHostObject = counters_.host;
      evaluate.pCounterDataImage = data_.data();
      evaluate.counterDataImageSize = data_.size();
      evaluate.rangeIndex = r;
      evaluate.ppMetricNames = const_cast<const char**>(counters_.metrics.data());
      evaluate.numMetrics = counters_.metrics.size();
      evaluate.pMetricValues = values.data();
      TSR_RETURN_IF_ERROR(
          Check("cuptiProfilerHostEvaluateToGpuValues", cupti_.cuptiProfilerHostEvaluateToGpuValues(&evaluate)));
      rows.emplace_back(kNumMetrics, -1.0);
      for (size_t m = 0; m < values.size(); ++m) rows.back()[counters_.which[m]] = values[m];
    }
    return rows;
  }

 private:
  absl::Status Check(const char* call, CUptiResult result) const { return CheckCupti(cupti_, call, result); }

  const Cupti& cupti_;
  const Counters& counters_;
  Device& device_;
  CUpti_RangeProfiler_Object* profiler_ = nullptr;
  std::vector<uint8_t> data_;
};

}  // namespace

absl::StatusOr<rt::MeasurePlan> PlanMeasures(const char* chip) {
  TSR_ASSIGN_OR_RETURN(const Cupti* cupti, GetCupti());
  TSR_ASSIGN_OR_RETURN(const auto counters, ChooseCounters(*cupti, chip, {}));
  DeleteHost(*cupti, counters->host);
  return rt::MeasurePlan{static_cast<int64_t>(counters->passes), static_cast<int64_t>(counters->metrics.size()),
                         Names(counters->missing)};
}

absl::StatusOr<rt::KernelMeasures> MeasureKernels(Device& device, const std::function<absl::Status()>& work,
                                                  absl::Status* status) {
  // One at a time: the GPU has one set of counters.
  static auto* const mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  // What each part took, in milliseconds: so that whoever wonders can see.
  std::string took;
  int64_t last_ns = rt::NowNs();
  const auto note = [&](const char* part) {
    const int64_t now = rt::NowNs();
    absl::StrAppend(&took, took.empty() ? "" : ", ", part, " ", (now - std::exchange(last_ns, now)) / 1'000'000);
  };
  const absl::StatusOr<const Cupti*> cupti = GetCupti();
  absl::Status opened = cupti.status();
  static auto* const found = new std::map<Device*, absl::StatusOr<const Counters*>>;
  if (opened.ok()) opened = device.Synchronize();
  if (opened.ok() && !found->contains(&device)) found->emplace(&device, FindCounters(**cupti, device));
  if (opened.ok()) opened = found->at(&device).status();
  note("counters");
  std::optional<Meter> meter;
  if (opened.ok()) {
    meter.emplace(**cupti, **found->at(&device), device);
    opened = meter->Open();
  }
  note("open");
  if (!opened.ok()) {
    *status = work();
    return opened;
  }
  constexpr int kMostPasses = 64;
  int passes = 0;
  for (bool last = false; !last && passes < kMostPasses; ++passes) {
    const absl::Status started = meter->StartPass();
    *status = work();
    // An error that a kernel found in values belongs to whoever waits next, not to this.
    device.Wait();
    TSR_RETURN_IF_ERROR(started);
    TSR_ASSIGN_OR_RETURN(last, meter->EndPass());
    if (!status->ok()) return *status;
  }
  note("passes");
  auto rows = meter->Read();
  note("read");
  meter.reset();
  note("close");
  TSR_LOG(2, "measured ", rows.ok() ? rows->size() : 0, " kernels in ", passes, " passes; milliseconds: ", took);
  if (!rows.ok()) return rows.status();
  return rt::KernelMeasures{*std::move(rows), passes, took};
}

}  // namespace tessera::cuda

#else  // no headers of CUPTI

namespace tessera::cuda {

absl::StatusOr<rt::MeasurePlan> PlanMeasures(const char*) {
  return NotFound("measures of kernels need CUPTI, and this was built without its headers");
}

absl::StatusOr<rt::KernelMeasures> MeasureKernels(Device&, const std::function<absl::Status()>& work,
                                                  absl::Status* status) {
  *status = work();
  return PlanMeasures(nullptr).status();
}

}  // namespace tessera::cuda

#endif
