#include "tools/trace/live.h"

#include <cstring>

namespace tessera::tools {

using rt::trace::BlockHeader;
using rt::trace::BlockKind;

absl::Status LiveTrace::Add(std::string_view bytes, int64_t now_ns) {
  unread_.append(bytes);
  size_t at = 0;
  if (header_.empty()) {
    if (unread_.size() < sizeof(rt::trace::FileHeader)) return absl::OkStatus();
    header_ = unread_.substr(0, sizeof(rt::trace::FileHeader));
    at = header_.size();
  }
  while (unread_.size() - at >= sizeof(BlockHeader)) {
    BlockHeader block;
    std::memcpy(&block, unread_.data() + at, sizeof(block));
    if (block.magic != rt::trace::kBlockMagic || block.bytes > rt::trace::kMostBlockBytes)
      return absl::DataLossError("what came is no trace");
    const size_t size = sizeof(block) + block.bytes;
    if (unread_.size() - at < size) break;
    const std::string_view whole = std::string_view(unread_).substr(at, size);
    const auto kind = static_cast<BlockKind>(block.kind);
    if (kind == BlockKind::events || kind == BlockKind::samples || kind == BlockKind::clocks ||
        kind == BlockKind::batches || kind == BlockKind::gpu_samples)
      timed_.push_back({now_ns, std::string(whole)});
    else
      rows_.append(whole);
    at += size;
  }
  unread_.erase(0, at);
  while (!timed_.empty() && timed_.front().ns < now_ns - window_ns_) timed_.pop_front();
  return absl::OkStatus();
}

absl::StatusOr<rt::trace::TraceData> LiveTrace::Read() const {
  std::string bytes = header_ + rows_;
  for (const Block& block : timed_) bytes += block.bytes;
  return rt::trace::ReadTrace(bytes);
}

}  // namespace tessera::tools
