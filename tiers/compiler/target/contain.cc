#include "tiers/compiler/target/contain.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>

#include "llvm/Support/ErrorHandling.h"

namespace tessera::compiler {
namespace {

// The message has room of its own: when memory is what ran out, there is none to allocate.
char message[512];
std::atomic<bool> claimed{false};
std::atomic<const char*> lost{nullptr};
thread_local CompileScope* innermost = nullptr;

}  // namespace

struct FatalHandler {
  [[noreturn]] static void Lose(void* kind, const char* reason, bool) {
    if (!claimed.exchange(true)) {
      std::snprintf(message, sizeof message, "%s: %s", static_cast<const char*>(kind), reason);
      lost.store(message, std::memory_order_release);
    }
    if (innermost != nullptr && innermost->on_lost_ != nullptr) {
      // The one that came second may be here before the first has written its message.
      const char* why = lost.load(std::memory_order_acquire);
      innermost->on_lost_(innermost->data_, why != nullptr ? why : "LLVM gave up");
    }
    for (;;) pause();
  }
};

void ContainFatalErrors() {
  static std::once_flag once;
  std::call_once(once, [] {
    static char fatal[] = "LLVM: fatal error";
    static char memory[] = "LLVM: out of memory";
    llvm::install_fatal_error_handler(FatalHandler::Lose, fatal);
    llvm::install_bad_alloc_error_handler(FatalHandler::Lose, memory);
  });
}

const char* CompilerLost() { return lost.load(std::memory_order_acquire); }

CompileScope::CompileScope(OnLost on_lost, void* data) : on_lost_(on_lost), data_(data), outer_(innermost) {
  innermost = this;
}

CompileScope::Call CompileScope::OfThisThread() {
  return innermost != nullptr ? Call{innermost->on_lost_, innermost->data_} : Call();
}

CompileScope::~CompileScope() { innermost = outer_; }

}  // namespace tessera::compiler
