#include <cstring>

#include "runtime/device.h"
#include "runtime/pool.h"

namespace tessera::rt {
namespace {

class CpuDevice final : public Device {
 public:
  std::string_view name() const override { return "cpu"; }
  DeviceKind kind() const override { return DeviceKind::cpu; }
  bool executes() const override { return true; }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    if (void* p = PoolAllocate(bytes)) [[likely]]
      return p;
    return Refused(bytes);
  }
  void Free(void* p, size_t bytes) noexcept override { PoolFree(p, bytes); }
  void Trim() override { PoolTrim(); }

  absl::Status CopyFromHost(void* dst, const void* src, size_t bytes) override { return Copy(dst, src, bytes); }
  absl::Status CopyToHost(void* dst, const void* src, size_t bytes) override { return Copy(dst, src, bytes); }
  absl::Status CopyWithin(void* dst, const void* src, size_t bytes) override { return Copy(dst, src, bytes); }
  absl::Status Zero(void* p, size_t bytes) override {
    if (bytes != 0) std::memset(p, 0, bytes);
    return absl::OkStatus();
  }
  void Wait() override {}
  absl::Status Synchronize() override { return absl::OkStatus(); }

  MemoryStats memory_stats() const override { return PoolStats(); }
  void ResetPeak() override { PoolResetPeak(); }
  void SetMemoryLimit(int64_t bytes) override { PoolSetLimit(bytes); }

 private:
  static absl::Status Copy(void* dst, const void* src, size_t bytes) {
    if (bytes != 0) std::memmove(dst, src, bytes);
    return absl::OkStatus();
  }

  [[gnu::noinline, gnu::cold]] static absl::Status Refused(size_t bytes) {
    if (bytes > kLargestRequest)
      return ResourceExhausted("cpu cannot give ", bytes, " bytes: more than any machine has (", kLargestRequest, ")");
    const MemoryStats now = PoolStats();
    if (now.limit_bytes > 0)
      return ResourceExhausted("cpu cannot give ", bytes, " bytes (", PoolBlockBytes(bytes),
                               " with rounding): ", now.bytes_in_use, " bytes are in use and the limit is ",
                               now.limit_bytes, "; free tensors, or raise the option memory_limit_bytes");
    return ResourceExhausted("cpu cannot give ", bytes, " bytes: the system refuses, with ", now.bytes_in_use,
                             " bytes in use; free tensors, or use smaller ones");
  }
};

}  // namespace

Device& Cpu() {
  static Device* device = new CpuDevice;
  return *device;
}

}  // namespace tessera::rt
