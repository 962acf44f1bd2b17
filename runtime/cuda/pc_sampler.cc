#include "runtime/cuda/pc_sampler.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "runtime/cuda/device.h"
#include "runtime/log.h"

#if __has_include(<cupti_pcsampling.h>)
#include "runtime/cuda/cupti_table.h"

namespace tessera::cuda {
namespace {

/// Instructions that were seen at least once; those beyond are left out.
constexpr size_t kMostPcs = 20'000;

class Sampler {
 public:
  Sampler(const Cupti& cupti, Device& device) : cupti_(cupti), device_(device) {}
  Sampler(const Sampler&) = delete;
  ~Sampler() {
    if (is_enabled_) (void)Disable();
    // The names of functions stay: CUPTI 13.0 says that they are to be freed, and free() then aborts.
  }

  absl::Status Start() {
    CUpti_PCSamplingEnableParams enable = {};
    enable.size = CUpti_PCSamplingEnableParamsSize;
    enable.ctx = device_.context();
    TSR_RETURN_IF_ERROR(Check("cuptiPCSamplingEnable", cupti_.cuptiPCSamplingEnable(&enable)));
    is_enabled_ = true;
    TSR_RETURN_IF_ERROR(FindReasons());
    flushed_.Make(reasons_.size());
    asked_.Make(reasons_.size());
    CUpti_PCSamplingConfigurationInfo attributes[4] = {};
    attributes[0].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE;
    attributes[0].attributeData.collectionModeData.collectionMode = CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS;
    attributes[1].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER;
    attributes[1].attributeData.samplingDataBufferData.samplingDataBuffer = &flushed_.data;
    attributes[2].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SCRATCH_BUFFER_SIZE;
    attributes[2].attributeData.scratchBufferSizeData.scratchBufferSize = size_t{16} << 20;
    attributes[3].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_ENABLE_START_STOP_CONTROL;
    attributes[3].attributeData.enableStartStopControlData.enableStartStopControl = 1;
    CUpti_PCSamplingConfigurationInfoParams set = {};
    set.size = CUpti_PCSamplingConfigurationInfoParamsSize;
    set.ctx = device_.context();
    set.numAttributes = std::size(attributes);
    set.pPCSamplingConfigurationInfo = attributes;
    TSR_RETURN_IF_ERROR(
        Check("cuptiPCSamplingSetConfigurationAttribute", cupti_.cuptiPCSamplingSetConfigurationAttribute(&set)));
    CUpti_PCSamplingStartParams start = {};
    start.size = CUpti_PCSamplingStartParamsSize;
    start.ctx = device_.context();
    return Check("cuptiPCSamplingStart", cupti_.cuptiPCSamplingStart(&start));
  }

  absl::StatusOr<std::vector<rt::PcSample>> Finish() {
    CUpti_PCSamplingStopParams stop = {};
    stop.size = CUpti_PCSamplingStopParamsSize;
    stop.ctx = device_.context();
    TSR_RETURN_IF_ERROR(Check("cuptiPCSamplingStop", cupti_.cuptiPCSamplingStop(&stop)));
    CUpti_PCSamplingGetDataParams get = {};
    get.size = CUpti_PCSamplingGetDataParamsSize;
    get.ctx = device_.context();
    get.pcSamplingData = &asked_.data;
    // Samples are decoded by a thread of CUPTI's, which may not have come to it yet.
    constexpr int kTries = 20;
    for (int i = 0; i < kTries && asked_.data.totalNumPcs == 0; ++i) {
      TSR_RETURN_IF_ERROR(Check("cuptiPCSamplingGetData", cupti_.cuptiPCSamplingGetData(&get)));
      if (asked_.data.totalNumPcs == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    TSR_RETURN_IF_ERROR(Disable());  // gives what is left
    std::vector<rt::PcSample> samples;
    Read(asked_, &samples);
    Read(flushed_, &samples);
    return samples;
  }

 private:
  /// Where CUPTI writes. What it gives on request and what it flushes when it ends must be two: with one for both,
  /// nothing is ever in it.
  struct Buffer {
    std::vector<CUpti_PCSamplingPCData> pcs;
    std::vector<CUpti_PCSamplingStallReason> counts;
    CUpti_PCSamplingData data = {};

    void Make(size_t reasons) {
      pcs.assign(kMostPcs, CUpti_PCSamplingPCData{});
      counts.resize(kMostPcs * reasons);
      for (size_t i = 0; i < kMostPcs; ++i) {
        pcs[i].size = sizeof(CUpti_PCSamplingPCData);
        pcs[i].stallReason = &counts[i * reasons];
      }
      data.size = sizeof data;
      data.collectNumPcs = kMostPcs;
      data.pPcData = pcs.data();
    }
  };

  void Read(const Buffer& from, std::vector<rt::PcSample>* samples) const {
    TSR_LOG(2, device_.name(), ": program counters were sampled ", from.data.totalSamples, " times, of which ",
            from.data.nonUsrKernelsTotalSamples, " in kernels that are not ours, at ", from.data.totalNumPcs,
            " instructions");
    if (from.data.droppedSamples > 0)
      TSR_LOG(1, device_.name(), ": ", from.data.droppedSamples, " samples of program counters were dropped");
    for (size_t i = 0; i < from.data.totalNumPcs && i < kMostPcs; ++i) {
      const CUpti_PCSamplingPCData& pc = from.pcs[i];
      rt::PcSample sample;
      sample.function = pc.functionName == nullptr ? "" : pc.functionName;
      sample.pc = static_cast<int64_t>(pc.pcOffset);
      for (size_t r = 0; r < pc.stallReasonCount; ++r) {
        const CUpti_PCSamplingStallReason& reason = pc.stallReason[r];
        if (reason.samples == 0) continue;
        for (size_t k = 0; k < reasons_.size(); ++k)
          if (reasons_[k] == reason.pcSamplingStallReasonIndex)
            sample.stalls.emplace_back(&names_[k * CUPTI_STALL_REASON_STRING_SIZE], reason.samples);
      }
      if (!sample.stalls.empty()) samples->push_back(std::move(sample));
    }
  }

  absl::Status Check(const char* call, CUptiResult result) const { return CheckCupti(cupti_, call, result); }

  absl::Status FindReasons() {
    size_t count = 0;
    CUpti_PCSamplingGetNumStallReasonsParams number = {};
    number.size = CUpti_PCSamplingGetNumStallReasonsParamsSize;
    number.ctx = device_.context();
    number.numStallReasons = &count;
    TSR_RETURN_IF_ERROR(Check("cuptiPCSamplingGetNumStallReasons", cupti_.cuptiPCSamplingGetNumStallReasons(&number)));
    reasons_.resize(count);
    names_.resize(count * CUPTI_STALL_REASON_STRING_SIZE);
    std::vector<char*> rows(count);
    for (size_t i = 0; i < count; ++i) rows[i] = &names_[i * CUPTI_STALL_REASON_STRING_SIZE];
    CUpti_PCSamplingGetStallReasonsParams get = {};
    get.size = CUpti_PCSamplingGetStallReasonsParamsSize;
    get.ctx = device_.context();
    get.numStallReasons = count;
    get.stallReasonIndex = reasons_.data();
    get.stallReasons = rows.data();
    return Check("cuptiPCSamplingGetStallReasons", cupti_.cuptiPCSamplingGetStallReasons(&get));
  }

  absl::Status Disable() {
    is_enabled_ = false;
    CUpti_PCSamplingDisableParams disable = {};
    disable.size = CUpti_PCSamplingDisableParamsSize;
    disable.ctx = device_.context();
    return Check("cuptiPCSamplingDisable", cupti_.cuptiPCSamplingDisable(&disable));
  }

  const Cupti& cupti_;
  Device& device_;
  bool is_enabled_ = false;
  std::vector<uint32_t> reasons_;
  std::string names_;
  Buffer flushed_, asked_;
};

}  // namespace

absl::StatusOr<std::vector<rt::PcSample>> SamplePcs(Device& device, const std::function<absl::Status()>& work,
                                                    absl::Status* status) {
  const absl::StatusOr<const Cupti*> cupti = GetCupti();
  if (!cupti.ok()) {
    *status = work();
    return cupti.status();
  }
  Sampler sampler(**cupti, device);
  absl::Status started = device.Enter();
  device.Wait();
  if (started.ok()) started = sampler.Start();
  *status = work();
  TSR_RETURN_IF_ERROR(started);
  device.Wait();
  return sampler.Finish();
}

}  // namespace tessera::cuda

#else  // no headers of CUPTI

namespace tessera::cuda {

absl::StatusOr<std::vector<rt::PcSample>> SamplePcs(Device&, const std::function<absl::Status()>& work,
                                                    absl::Status* status) {
  *status = work();
  return NotFound("samples of program counters need CUPTI, and this was built without its headers");
}

}  // namespace tessera::cuda

#endif
