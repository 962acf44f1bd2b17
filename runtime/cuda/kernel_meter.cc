#include "runtime/cuda/kernel_meter.h"

#include <array>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
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
constexpr size_t kMostRanges = 4096;

// The parameters of each call are a struct that begins with its size.
template <class Params>
Params Sized(size_t size) {
  Params p = {};
  p.structSize = size;
  return p;
}
#define TSR_PARAMS(Params) Sized<Params>(Params##_STRUCT_SIZE)

class Meter {
 public:
  Meter(const Cupti& cupti, Device& device) : cupti_(cupti), device_(device) {}
  Meter(const Meter&) = delete;
  ~Meter() {
    if (profiler_ != nullptr) {
      auto p = TSR_PARAMS(CUpti_RangeProfiler_Disable_Params);
      p.pRangeProfilerObject = profiler_;
      cupti_.cuptiRangeProfilerDisable(&p);
    }
    if (host_ != nullptr) {
      auto p = TSR_PARAMS(CUpti_Profiler_Host_Deinitialize_Params);
      p.pHostObject = host_;
      cupti_.cuptiProfilerHostDeinitialize(&p);
    }
  }

  absl::Status Open() {
    TSR_RETURN_IF_ERROR(Configure());
    auto enable = TSR_PARAMS(CUpti_RangeProfiler_Enable_Params);
    enable.ctx = device_.context();
    TSR_RETURN_IF_ERROR(Check("cuptiRangeProfilerEnable", cupti_.cuptiRangeProfilerEnable(&enable)));
    profiler_ = enable.pRangeProfilerObject;

    auto size = TSR_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params);
    size.pRangeProfilerObject = profiler_;
    size.pMetricNames = metrics_.data();
    size.numMetrics = metrics_.size();
    size.maxNumOfRanges = kMostRanges;
    size.maxNumRangeTreeNodes = kMostRanges;
    TSR_RETURN_IF_ERROR(
        Check("cuptiRangeProfilerGetCounterDataSize", cupti_.cuptiRangeProfilerGetCounterDataSize(&size)));
    counters_.resize(size.counterDataSize);
    auto init = TSR_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params);
    init.pRangeProfilerObject = profiler_;
    init.counterDataSize = counters_.size();
    init.pCounterData = counters_.data();
    TSR_RETURN_IF_ERROR(Check("cuptiRangeProfilerCounterDataImageInitialize",
                              cupti_.cuptiRangeProfilerCounterDataImageInitialize(&init)));

    // A range for each kernel. Everything is run again until all counters were read: to run each kernel again, CUPTI
    // would save and restore all memory of the device, which takes seconds.
    auto set = TSR_PARAMS(CUpti_RangeProfiler_SetConfig_Params);
    set.pRangeProfilerObject = profiler_;
    set.configSize = config_.size();
    set.pConfig = config_.data();
    set.counterDataImageSize = counters_.size();
    set.pCounterDataImage = counters_.data();
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
    info.pCounterDataImage = counters_.data();
    info.counterDataImageSize = counters_.size();
    TSR_RETURN_IF_ERROR(
        Check("cuptiRangeProfilerGetCounterDataInfo", cupti_.cuptiRangeProfilerGetCounterDataInfo(&info)));
    std::vector<std::vector<double>> rows;
    std::vector<double> values(metrics_.size());
    for (size_t r = 0; r < info.numTotalRanges; ++r) {
      auto evaluate = TSR_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params);
      evaluate.pHostObject = host_;
      evaluate.pCounterDataImage = counters_.data();
      evaluate.counterDataImageSize = counters_.size();
      evaluate.rangeIndex = r;
      evaluate.ppMetricNames = metrics_.data();
      evaluate.numMetrics = metrics_.size();
      evaluate.pMetricValues = values.data();
      TSR_RETURN_IF_ERROR(
          Check("cuptiProfilerHostEvaluateToGpuValues", cupti_.cuptiProfilerHostEvaluateToGpuValues(&evaluate)));
      rows.emplace_back(kNumMetrics, -1.0);
      for (size_t m = 0; m < metrics_.size(); ++m) rows.back()[which_[m]] = values[m];
    }
    return rows;
  }

 private:
  absl::Status Check(const char* call, CUptiResult result) const { return CheckCupti(cupti_, call, result); }

  // Which counters to read, of those that this GPU has.
  absl::Status Configure() {
    auto initialize = TSR_PARAMS(CUpti_Profiler_Initialize_Params);
    TSR_RETURN_IF_ERROR(Check("cuptiProfilerInitialize", cupti_.cuptiProfilerInitialize(&initialize)));
    auto chip = TSR_PARAMS(CUpti_Device_GetChipName_Params);
    chip.deviceIndex = static_cast<size_t>(device_.index());
    TSR_RETURN_IF_ERROR(Check("cuptiDeviceGetChipName", cupti_.cuptiDeviceGetChipName(&chip)));
    auto available = TSR_PARAMS(CUpti_Profiler_GetCounterAvailability_Params);
    available.ctx = device_.context();
    TSR_RETURN_IF_ERROR(
        Check("cuptiProfilerGetCounterAvailability", cupti_.cuptiProfilerGetCounterAvailability(&available)));
    available_.resize(available.counterAvailabilityImageSize);
    available.pCounterAvailabilityImage = available_.data();
    TSR_RETURN_IF_ERROR(
        Check("cuptiProfilerGetCounterAvailability", cupti_.cuptiProfilerGetCounterAvailability(&available)));
    auto host = TSR_PARAMS(CUpti_Profiler_Host_Initialize_Params);
    host.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    host.pChipName = chip.pChipName;
    host.pCounterAvailabilityImage = available_.data();
    TSR_RETURN_IF_ERROR(Check("cuptiProfilerHostInitialize", cupti_.cuptiProfilerHostInitialize(&host)));
    host_ = host.pHostObject;
    std::string missing;
    for (size_t m = 0; m < kNumMetrics; ++m) {
      const char* name = kMetrics[m];
      auto add = TSR_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params);
      add.pHostObject = host_;
      add.ppMetricNames = &name;
      add.numMetrics = 1;
      if (cupti_.cuptiProfilerHostConfigAddMetrics(&add) != CUPTI_SUCCESS) {
        absl::StrAppend(&missing, missing.empty() ? "" : ", ", name);
        continue;
      }
      metrics_.push_back(name);
      which_.push_back(m);
    }
    if (!missing.empty()) TSR_LOG(1, device_.name(), " does not have these metrics: ", missing);
    auto size = TSR_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params);
    size.pHostObject = host_;
    TSR_RETURN_IF_ERROR(
        Check("cuptiProfilerHostGetConfigImageSize", cupti_.cuptiProfilerHostGetConfigImageSize(&size)));
    config_.resize(size.configImageSize);
    auto image = TSR_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params);
    image.pHostObject = host_;
    image.configImageSize = config_.size();
    image.pConfigImage = config_.data();
    return Check("cuptiProfilerHostGetConfigImage", cupti_.cuptiProfilerHostGetConfigImage(&image));
  }

  const Cupti& cupti_;
  Device& device_;
  CUpti_Profiler_Host_Object* host_ = nullptr;
  CUpti_RangeProfiler_Object* profiler_ = nullptr;
  std::vector<const char*> metrics_;
  std::vector<size_t> which_;  // row of measures.def
  std::vector<uint8_t> available_, config_, counters_;
};

}  // namespace

absl::StatusOr<std::vector<std::vector<double>>> MeasureKernels(Device& device,
                                                                const std::function<absl::Status()>& work,
                                                                absl::Status* status) {
  // One at a time: the GPU has one set of counters.
  static auto* const mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  const absl::StatusOr<const Cupti*> cupti = GetCupti();
  if (!cupti.ok()) {
    *status = work();
    return cupti.status();
  }
  Meter meter(**cupti, device);
  absl::Status opened = device.Synchronize();
  if (opened.ok()) opened = meter.Open();
  if (!opened.ok()) {
    *status = work();
    return opened;
  }
  constexpr int kMostPasses = 64;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    const absl::Status started = meter.StartPass();
    *status = work();
    // An error that a kernel found in values belongs to whoever waits next, not to this.
    device.Wait();
    TSR_RETURN_IF_ERROR(started);
    TSR_ASSIGN_OR_RETURN(const bool last, meter.EndPass());
    if (!status->ok()) return *status;
    if (last) break;
  }
  return meter.Read();
}

}  // namespace tessera::cuda

#else  // no headers of CUPTI

namespace tessera::cuda {

absl::StatusOr<std::vector<std::vector<double>>> MeasureKernels(Device&, const std::function<absl::Status()>& work,
                                                                absl::Status* status) {
  *status = work();
  return NotFound("measures of kernels need CUPTI, and this was built without its headers");
}

}  // namespace tessera::cuda

#endif
