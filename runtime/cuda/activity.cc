#include "runtime/activity.h"

#include <mutex>

#include "runtime/cuda/cupti.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/event_timer.h"
#include "runtime/log.h"

namespace tessera::rt {
namespace {

std::mutex& StartMutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

absl::Status Busy() { return Unsupported("the activity of GPUs is being recorded already"); }

}  // namespace

constinit std::atomic<ActivityRecorder::Mode> ActivityRecorder::mode_{Mode::off};

absl::Status ActivityRecorder::Start(Sink sink) {
  std::lock_guard lock(StartMutex());
  if (is_on()) return Busy();
  TSR_RETURN_IF_ERROR(cuda::StartCupti(std::move(sink)));
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

void ActivityScope::Open(Device& device, int64_t owner) {
  if (device.kind() != DeviceKind::cuda) return;
  switch (ActivityRecorder::mode()) {
    case ActivityRecorder::Mode::off: return;
    case ActivityRecorder::Mode::cupti:
      if (cuda::PushOwner(owner)) mode_ = ActivityRecorder::Mode::cupti;
      return;
    case ActivityRecorder::Mode::events:
      first_ = cuda::BeginStretch(cuda::DeviceOf(device));
      if (first_ == nullptr) return;
      mode_ = ActivityRecorder::Mode::events;
      device_ = &device;
      owner_ = owner;
  }
}

void ActivityScope::Close() {
  if (mode_ == ActivityRecorder::Mode::cupti)
    cuda::PopOwner();
  else
    cuda::EndStretch(cuda::DeviceOf(*device_), static_cast<CUevent>(first_), owner_);
}

}  // namespace tessera::rt
