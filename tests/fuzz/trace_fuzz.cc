// The reader of traces on any bytes: a trace or an error. Half of the inputs get right checksums first, or no input
// would come past them.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/trace/reader.h"

namespace {

using tessera::rt::trace::BlockHeader;
using tessera::rt::trace::FileHeader;

std::string WithChecksums(std::string bytes) {
  size_t at = sizeof(FileHeader);
  while (at < bytes.size() && bytes.size() - at >= sizeof(BlockHeader)) {
    BlockHeader block;
    std::memcpy(&block, &bytes[at], sizeof(block));
    const size_t left = bytes.size() - at - sizeof(block);
    block.magic = tessera::rt::trace::kBlockMagic;
    if (block.bytes > left) block.bytes = static_cast<uint32_t>(left);
    block.checksum =
        tessera::rt::trace::BlockChecksum(static_cast<tessera::rt::trace::BlockKind>(block.kind), block.rows,
                                          std::string_view(bytes).substr(at + sizeof(block), block.bytes));
    std::memcpy(&bytes[at], &block, sizeof(block));
    at += sizeof(block) + block.bytes;
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  for (const std::string& input : {bytes, WithChecksums(bytes)}) {
    const auto trace = tessera::rt::trace::ReadTrace(input);
    if (!trace.ok()) {
      if (trace.status().message().empty()) std::abort();
      continue;
    }
    for (const auto& e : trace->events) {
      if (trace->SiteName(e.c).size() > input.size() + 64 || e.ns < 0) std::abort();
    }
  }
  return 0;
}
