#include "runtime/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "runtime/cuda/device.h"
#include "runtime/memory_events.h"

namespace tessera::cuda {

absl::Status Staging::Start(Ring& ring) {
  if (ring.pieces[kPieces - 1].event != nullptr) return absl::OkStatus();
  const Driver& driver = TheDriver();
  for (Piece& piece : ring.pieces) {
    void* memory = piece.memory;
    if (memory == nullptr) {
      const rt::MemoryEvent event;
      TSR_RETURN_IF_ERROR(device_.Check("cuMemHostAlloc", driver.cuMemHostAlloc(&memory, kPiece, 0)));
      event.Done(rt::EventKind::system_allocation, kPiece, static_cast<int64_t>(&piece - ring.pieces + 1) * kPiece,
                 {rt::MemoryReason::staging});
    }
    piece.memory = static_cast<char*>(memory);
    if (piece.event == nullptr)
      TSR_RETURN_IF_ERROR(device_.Check("cuEventCreate", driver.cuEventCreate(&piece.event, CU_EVENT_DISABLE_TIMING)));
  }
  return absl::OkStatus();
}

absl::Status Staging::WaitFor(Piece& piece) {
  if (!piece.busy) return absl::OkStatus();
  piece.busy = false;
  return device_.Check("cuEventSynchronize", TheDriver().cuEventSynchronize(piece.event));
}

absl::Status Staging::ToDevice(CUdeviceptr dst, const char* src, size_t bytes) {
  const Driver& driver = TheDriver();
  std::lock_guard lock(up_.mutex);
  TSR_RETURN_IF_ERROR(Start(up_));
  while (bytes > 0) {
    Piece& piece = up_.Next();
    TSR_RETURN_IF_ERROR(WaitFor(piece));
    const size_t n = std::min(bytes, kPiece);
    std::memcpy(piece.memory, src, n);
    TSR_RETURN_IF_ERROR(
        device_.Check("cuMemcpyHtoDAsync", driver.cuMemcpyHtoDAsync(dst, piece.memory, n, device_.stream())));
    TSR_RETURN_IF_ERROR(device_.Check("cuEventRecord", driver.cuEventRecord(piece.event, device_.stream())));
    piece.busy = true;
    dst += n;
    src += n;
    bytes -= n;
  }
  return absl::OkStatus();
}

absl::Status Staging::StartAside() {
  const Driver& driver = TheDriver();
  if (aside_ == nullptr)
    TSR_RETURN_IF_ERROR(device_.Check("cuStreamCreate", driver.cuStreamCreate(&aside_, CU_STREAM_NON_BLOCKING)));
  if (before_ == nullptr)
    TSR_RETURN_IF_ERROR(device_.Check("cuEventCreate", driver.cuEventCreate(&before_, CU_EVENT_DISABLE_TIMING)));
  TSR_RETURN_IF_ERROR(device_.Check("cuEventRecord", driver.cuEventRecord(before_, device_.live_stream())));
  return device_.Check("cuStreamWaitEvent", driver.cuStreamWaitEvent(aside_, before_, CU_EVENT_WAIT_DEFAULT));
}

absl::Status Staging::ToHost(char* dst, CUdeviceptr src, size_t bytes) {
  const Driver& driver = TheDriver();
  std::lock_guard lock(down_.mutex);
  TSR_RETURN_IF_ERROR(Start(down_));
  TSR_RETURN_IF_ERROR(StartAside());
  // Pieces that the device fills while the host empties the ones before.
  struct Pending {
    Piece* piece;
    size_t bytes;
  };
  Pending pending[kPieces];
  int first = 0, count = 0;
  size_t asked = 0;
  while (bytes > 0) {
    while (asked < bytes && count < kPieces) {
      Piece& piece = down_.Next();
      TSR_RETURN_IF_ERROR(WaitFor(piece));
      const size_t n = std::min(bytes - asked, kPiece);
      TSR_RETURN_IF_ERROR(device_.Check("cuMemcpyDtoHAsync", driver.cuMemcpyDtoHAsync(piece.memory, src, n, aside_)));
      TSR_RETURN_IF_ERROR(device_.Check("cuEventRecord", driver.cuEventRecord(piece.event, aside_)));
      piece.busy = true;
      pending[(first + count++) % kPieces] = {&piece, n};
      src += n;
      asked += n;
    }
    const Pending& oldest = pending[first];
    TSR_RETURN_IF_ERROR(WaitFor(*oldest.piece));
    std::memcpy(dst, oldest.piece->memory, oldest.bytes);
    dst += oldest.bytes;
    bytes -= oldest.bytes;
    asked -= oldest.bytes;
    first = (first + 1) % kPieces;
    --count;
  }
  return absl::OkStatus();
}

}  // namespace tessera::cuda
