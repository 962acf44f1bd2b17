// The reader of traces on any bytes: a trace or an error; and every report of what was read. Half of the inputs get
// right checksums first, or no input would come past them.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/trace/reader.h"
#include "tools/trace/analysis.h"
#include "tools/trace/export.h"
#include "tools/trace/gzip.h"
#include "tools/trace/html.h"
#include "tools/trace/text.h"

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
    // Whatever was read, reports can be made of.
    const tessera::tools::Analysis analysis = tessera::tools::Analyse(*trace);
    if (tessera::tools::ReportText(analysis).empty() || tessera::tools::ReportJson(analysis, "fuzz").empty() ||
        tessera::tools::ChromeTrace(analysis).empty() || tessera::tools::PerfettoTrace(analysis).empty() ||
        tessera::tools::DiffText(analysis, analysis, 3).empty())
      std::abort();
    if (tessera::tools::Gzip(input).size() < 18) std::abort();
    for (const auto& place : analysis.places)
      if (!tessera::tools::ExplainTrace(analysis, place.name, "").ok()) std::abort();
    for (const bool times : {true, false}) tessera::tools::EventsText(analysis, times);
    tessera::tools::TopText(analysis, tessera::tools::TopBy::kernel, 5);
  }
  return 0;
}
