// The machine code of GPU versions: a trace holds cubins, and NVIDIA's tools make text of them.
#ifndef TESSERA_TOOLS_TRACE_SASS_H_
#define TESSERA_TOOLS_TRACE_SASS_H_

#include "runtime/status.h"
#include "runtime/trace/reader.h"

namespace tessera::tools {

/// Adds a stage "sass" for each version with a cubin, of at most `most` versions, the newest first; by `nvdisasm` or
/// `cuobjdump`, whichever is on the PATH. The status is that of the first one that gave nothing; without any cubin it
/// says that. Runs a program on bytes of the file: only where a person asked for it.
absl::Status AddSass(rt::trace::TraceData* data, size_t most = 24);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_SASS_H_
