// A process that may be looked at while it runs: a socket in a folder of its owner, over which a trace comes that goes
// on until the other end leaves. Nobody but the owner gets to it: the folder, the socket and the credentials of whoever
// connects are checked.
#ifndef TESSERA_RUNTIME_TRACE_LIVE_H_
#define TESSERA_RUNTIME_TRACE_LIVE_H_

#include <sys/types.h>

#include <string>

#include "runtime/status.h"

namespace tessera::rt::trace {

/// $XDG_RUNTIME_DIR/tessera/PID, or /tmp/tessera-UID/PID.
std::string SocketPath(pid_t process);

/// Clients may come from now on, to this process; a thread waits for them. The socket goes when the process ends.
absl::Status AllowLiveClients();

/// The socket of another process of the same user, connected.
absl::StatusOr<int> ConnectLive(pid_t process);

}  // namespace tessera::rt::trace

#endif  // TESSERA_RUNTIME_TRACE_LIVE_H_
