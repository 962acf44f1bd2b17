// Slices of the page's timeline, merged until they are few enough to draw.
#ifndef TESSERA_TOOLS_TRACE_SLICES_H_
#define TESSERA_TOOLS_TRACE_SLICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/trace/analysis.h"

namespace tessera::tools {

struct Slice {
  int64_t start, ns;
  Lane lane;
  uint32_t label;
  int64_t count;  // events in it
};
/// A thread, or a stream of a GPU.
struct Track {
  std::string name;
  std::vector<Slice> slices;  // by start
};

/// Neighbours that are too small to be seen become one slice, which has the lane that most of its time is in; until all
/// tracks together have at most `most`, or one is left of each stretch.
void MergeUntilFew(int64_t duration_ns, size_t most, std::vector<Track>* tracks);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_SLICES_H_
