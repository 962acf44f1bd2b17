#include "runtime/per_thread.h"

namespace tessera::rt::internal {

constinit std::mutex g_per_thread_mutex;

}  // namespace tessera::rt::internal
