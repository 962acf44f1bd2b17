#include "tessera/runtime.h"

#include "interp/api/eager.h"
#include "interp/interpreter.h"
#include "interp/stream.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/options.h"

namespace tessera {

Status Runtime::set_option(std::string_view name, std::string_view value) {
  return ToPublic(rt::options().Set(name, value));
}

Result<std::string> Runtime::option(std::string_view name) {
  auto value = rt::options().Get(name);
  if (!value.ok()) return ToPublic(value.status());
  return *value;
}

std::vector<OptionDescription> Runtime::options() {
  std::vector<OptionDescription> all;
  for (const rt::OptionInfo& o : rt::AllOptions()) {
    all.push_back(
        {std::string(o.name), std::string(o.env), o.default_text, *rt::options().Get(o.name), std::string(o.summary)});
  }
  return all;
}

void Runtime::set_device(Device device) { api::SetDefaultDevice(*device.impl()); }
Device Runtime::device() { return Device(&api::DefaultDevice()); }

MemoryStatistics Runtime::memory(Device device) {
  const rt::MemoryStats s = device.impl()->memory_stats();
  return {s.bytes_in_use, s.bytes_cached, s.peak_bytes, s.limit_bytes, s.allocations, s.system_allocations};
}
void Runtime::reset_peak_memory(Device device) { device.impl()->ResetPeak(); }
void Runtime::trim_memory(Device device) { device.impl()->Trim(); }
Status Runtime::synchronize(Device device) {
  absl::Status waited;
  if (interp::Stream* stream = interp::CurrentStream()) waited = interp::CurrentStreamHook()->OnWait(*stream);
  waited.Update(device.impl()->Synchronize());
  return ToPublic(waited);
}

std::vector<MetricValue> Runtime::metrics() {
  const rt::MetricValues values = rt::SnapshotMetrics();
  std::vector<MetricValue> all;
  for (const rt::MetricInfo& m : rt::kMetrics) {
    all.push_back({std::string(m.name), std::string(m.unit), std::string(m.summary), values[static_cast<int>(m.id)]});
  }
  return all;
}

void Runtime::set_log_sink(std::function<void(int, std::string_view)> sink) { rt::SetLogSink(std::move(sink)); }
void Runtime::set_print_sink(std::function<void(std::string_view)> sink) { interp::SetPrintSink(std::move(sink)); }
std::string_view Runtime::version() { return TESSERA_VERSION; }

}  // namespace tessera
