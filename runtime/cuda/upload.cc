#include "runtime/cuda/upload.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/cuda/device.h"
#include "runtime/memory_events.h"

namespace tessera::cuda {

class LaneUpload final : public rt::Upload {
 public:
  LaneUpload(UploadLane& lane, CUevent done) : lane_(lane), done_(done) {}
  // Whoever gets the memory next comes after the copy, too.
  ~LaneUpload() override { (void)Join(); }
  absl::Status Join() override {
    if (done_ == nullptr) return absl::OkStatus();
    const CUevent done = std::exchange(done_, nullptr);
    Device& device = lane_.device_;
    TSR_RETURN_IF_ERROR(device.Enter());
    const absl::Status status = device.Check(
        "cuStreamWaitEvent", TheDriver().cuStreamWaitEvent(device.live_stream(), done, CU_EVENT_WAIT_DEFAULT));
    lane_.GiveEvent(done);
    return status;
  }

 private:
  UploadLane& lane_;
  CUevent done_;
};

absl::Status UploadLane::Open() {
  const Driver& driver = TheDriver();
  if (stream_ == nullptr)
    TSR_RETURN_IF_ERROR(device_.Check("cuStreamCreate", driver.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING)));
  for (Piece& piece : pieces_) {
    if (piece.memory == nullptr) {
      const rt::MemoryEvent event;
      void* memory = nullptr;
      TSR_RETURN_IF_ERROR(device_.Check("cuMemHostAlloc", driver.cuMemHostAlloc(&memory, kPiece, 0)));
      piece.memory = static_cast<char*>(memory);
      event.Done(rt::EventKind::system_allocation, kPiece, static_cast<int64_t>(&piece - pieces_ + 1) * kPiece,
                 {rt::MemoryReason::staging});
    }
    if (piece.event == nullptr)
      TSR_RETURN_IF_ERROR(device_.Check("cuEventCreate", driver.cuEventCreate(&piece.event, CU_EVENT_DISABLE_TIMING)));
  }
  return absl::OkStatus();
}

absl::StatusOr<CUevent> UploadLane::TakeEvent() {
  if (!events_.empty()) {
    const CUevent event = events_.back();
    events_.pop_back();
    return event;
  }
  CUevent event = nullptr;
  TSR_RETURN_IF_ERROR(device_.Check("cuEventCreate", TheDriver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)));
  return event;
}

void UploadLane::GiveEvent(CUevent event) {
  std::lock_guard lock(mutex_);
  events_.push_back(event);
}

absl::StatusOr<std::unique_ptr<rt::Upload>> UploadLane::Start(CUdeviceptr dst, const char* src, size_t bytes) {
  const Driver& driver = TheDriver();
  std::lock_guard lock(mutex_);
  TSR_RETURN_IF_ERROR(Open());
  // What used the memory before is on the device's stream. The event serves twice: a wait holds what was recorded when
  // it was asked for.
  TSR_ASSIGN_OR_RETURN(const CUevent event, TakeEvent());
  const auto failed = [&](absl::Status status) {
    events_.push_back(event);
    return status;
  };
  absl::Status status = device_.Check("cuEventRecord", driver.cuEventRecord(event, device_.live_stream()));
  if (status.ok())
    status = device_.Check("cuStreamWaitEvent", driver.cuStreamWaitEvent(stream_, event, CU_EVENT_WAIT_DEFAULT));
  if (!status.ok()) return failed(status);
  while (bytes > 0) {
    Piece& piece = pieces_[next_];
    next_ = (next_ + 1) % kPieces;
    if (std::exchange(piece.busy, false)) {
      status = device_.Check("cuEventSynchronize", driver.cuEventSynchronize(piece.event));
      if (!status.ok()) return failed(status);
    }
    const size_t n = std::min(bytes, kPiece);
    std::memcpy(piece.memory, src, n);
    status = device_.Check("cuMemcpyHtoDAsync", driver.cuMemcpyHtoDAsync(dst, piece.memory, n, stream_));
    if (status.ok()) status = device_.Check("cuEventRecord", driver.cuEventRecord(piece.event, stream_));
    if (!status.ok()) return failed(status);
    piece.busy = true;
    dst += n;
    src += n;
    bytes -= n;
  }
  status = device_.Check("cuEventRecord", driver.cuEventRecord(event, stream_));
  if (!status.ok()) return failed(status);
  return std::make_unique<LaneUpload>(*this, event);
}

}  // namespace tessera::cuda
