// The smallest device: it counts memory but has none. Ops on it are checked, not run, so that a program's shapes and
// its need of memory can be tried out without the machine for it.
#include <algorithm>
#include <atomic>

#include "runtime/device.h"
#include "runtime/fault.h"

namespace tessera::rt {
namespace {

class NullDevice final : public Device {
 public:
  std::string_view name() const override { return "null"; }
  DeviceKind kind() const override { return DeviceKind::null; }
  bool executes() const override { return false; }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    if (bytes > kLargest) return ResourceExhausted("null cannot give ", bytes, " bytes: more than any machine has");
    const int64_t charge = Charge(bytes);
    const int64_t limit = limit_.load(std::memory_order_relaxed);
    const int64_t now = in_use_.fetch_add(charge, std::memory_order_relaxed) + charge;
    if ((limit > 0 && now > limit) || FaultFires(Fault::allocation)) {
      in_use_.fetch_sub(charge, std::memory_order_relaxed);
      return ResourceExhausted("null cannot give ", bytes, " bytes: ", now - charge,
                               " bytes are in use and the limit is ", limit, "; free tensors, or raise the limit");
    }
    int64_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
    allocations_.fetch_add(1, std::memory_order_relaxed);
    const uint64_t offset = next_.fetch_add(static_cast<uint64_t>(charge), std::memory_order_relaxed);
    return reinterpret_cast<void*>(kBase + offset % kRange);
  }
  void Free(void*, size_t bytes) noexcept override { in_use_.fetch_sub(Charge(bytes), std::memory_order_relaxed); }
  void Trim() override {}

  /// The bytes go nowhere, and nothing can be read back.
  absl::Status CopyFromHost(void*, const void*, size_t) override { return absl::OkStatus(); }
  absl::Status CopyToHost(void*, const void*, size_t bytes) override {
    return Unsupported("cannot read ", bytes, " bytes from device null: it holds shapes but no values; use cpu to ",
                       "compute values");
  }
  absl::Status CopyWithin(void*, const void*, size_t) override { return absl::OkStatus(); }
  absl::Status Zero(void*, size_t) override { return absl::OkStatus(); }
  void Wait() override {}
  absl::Status Synchronize() override { return absl::OkStatus(); }

  MemoryStats memory_stats() const override {
    MemoryStats s;
    s.bytes_in_use = in_use_.load(std::memory_order_relaxed);
    s.peak_bytes = std::max(peak_.load(std::memory_order_relaxed), s.bytes_in_use);
    s.limit_bytes = limit_.load(std::memory_order_relaxed);
    s.allocations = allocations_.load(std::memory_order_relaxed);
    return s;
  }
  void ResetPeak() override { peak_.store(in_use_.load(std::memory_order_relaxed), std::memory_order_relaxed); }
  void SetMemoryLimit(int64_t bytes) override { limit_.store(std::max<int64_t>(bytes, 0), std::memory_order_relaxed); }

 private:
  // Far above what a process is given: using one by mistake ends the process at that line. (Not higher still: AArch64
  // ignores the top byte of an address.)
  static constexpr uint64_t kBase = uint64_t{1} << 55, kRange = uint64_t{1} << 54;
  static constexpr size_t kLargest = size_t{1} << 46;

  static int64_t Charge(size_t bytes) { return static_cast<int64_t>((std::max<size_t>(bytes, 1) + 63) / 64 * 64); }

  std::atomic<int64_t> in_use_{0}, peak_{0}, limit_{0}, allocations_{0};
  std::atomic<uint64_t> next_{0};
};

}  // namespace

Device& Null() {
  static Device* device = new NullDevice;
  return *device;
}

}  // namespace tessera::rt
