#include "runtime/activity.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/cuda/cupti.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/event_timer.h"
#include "runtime/cuda/kernel_meter.h"
#include "runtime/cuda/pc_sampler.h"
#include "runtime/log.h"

namespace tessera::rt {
namespace {

std::mutex& StartMutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

[[gnu::tls_model("initial-exec")]] constinit thread_local int64_t t_owner = 0;
constinit std::atomic<OwnerNamer> g_namer{nullptr};

absl::Status Busy() { return Unsupported("the activity of GPUs is being recorded already"); }

}  // namespace

constinit std::atomic<ActivityRecorder::Mode> ActivityRecorder::mode_{Mode::off};

absl::Status ActivityRecorder::Start(Sink sink, LinkSink links) {
  std::lock_guard lock(StartMutex());
  if (is_on()) return Busy();
  TSR_RETURN_IF_ERROR(cuda::StartCupti(std::move(sink), std::move(links)));
  mode_.store(Mode::cupti);
  TSR_LOG(2, version(), " records what runs on the GPUs");
  return absl::OkStatus();
}

absl::Status ActivityRecorder::StartEvents(Sink sink) {
  std::lock_guard lock(StartMutex());
  if (is_on()) return Busy();
  cuda::StartEventTimer(std::move(sink));
  mode_.store(Mode::events);
  TSR_LOG(2, "events time what runs on the GPUs");
  return absl::OkStatus();
}

void ActivityRecorder::Flush() {
  if (mode() == Mode::cupti) cuda::FlushCupti();
  if (mode() == Mode::events) cuda::FlushEventTimer();
}

void ActivityRecorder::Stop() {
  std::lock_guard lock(StartMutex());
  const Mode mode = mode_.exchange(Mode::off);
  if (mode == Mode::cupti) cuda::StopCupti();
  if (mode == Mode::events) cuda::StopEventTimer();
}

int64_t ActivityRecorder::lost() { return cuda::LostByCupti() + cuda::LostByEventTimer(); }
std::string ActivityRecorder::version() { return cuda::CuptiVersion(); }

void ActivityScope::Open(Device& device, ActivityOwner owner) {
  if (device.kind() != DeviceKind::cuda) return;
  is_open_ = true;
  owner_ = owner.Pack();
  outer_ = std::exchange(t_owner, owner_);
  switch (ActivityRecorder::mode()) {
    case ActivityRecorder::Mode::off: break;
    case ActivityRecorder::Mode::cupti:
      if (cuda::PushOwner(owner_)) mode_ = ActivityRecorder::Mode::cupti;
      break;
    case ActivityRecorder::Mode::events:
      first_ = cuda::BeginStretch(cuda::DeviceOf(device));
      if (first_ != nullptr) mode_ = ActivityRecorder::Mode::events;
      device_ = &device;
  }
  if (NvtxOn()) {
    const OwnerNamer namer = g_namer.load(std::memory_order_relaxed);
    PushNvtx(namer != nullptr ? namer(owner) : absl::StrCat(owner.part, " of ", owner.number), owner_);
    has_range_ = true;
  }
}

void ActivityScope::Close() {
  if (has_range_) PopNvtx();
  t_owner = outer_;
  if (mode_ == ActivityRecorder::Mode::cupti) cuda::PopOwner();
  if (mode_ == ActivityRecorder::Mode::events)
    cuda::EndStretch(cuda::DeviceOf(*device_), static_cast<CUevent>(first_), owner_);
}

absl::StatusOr<MeasurePlan> PlanMeasures(const char* chip) { return cuda::PlanMeasures(chip); }

absl::StatusOr<KernelMeasures> MeasureKernels(Device& device, const std::function<absl::Status()>& work,
                                              absl::Status* status) {
  if (device.kind() == DeviceKind::cuda) return cuda::MeasureKernels(cuda::DeviceOf(device), work, status);
  *status = work();
  return Unsupported(std::string(device.name()), " has no counters");
}

absl::StatusOr<std::vector<PcSample>> SamplePcs(Device& device, const std::function<absl::Status()>& work,
                                                absl::Status* status) {
  if (device.kind() == DeviceKind::cuda) return cuda::SamplePcs(cuda::DeviceOf(device), work, status);
  *status = work();
  return Unsupported(std::string(device.name()), " has no counters");
}

int64_t CurrentOwner() { return t_owner; }
void SetOwnerNamer(OwnerNamer namer) { g_namer.store(namer, std::memory_order_relaxed); }

}  // namespace tessera::rt
